"""Runs, steps, tools and sub-workflows as contexts: each start gets its end, however the body ends.

Events go through `Recorder.emit`: a failing disk never disturbs the work, unless the recorder was
opened with `on_error="fail"`.
"""

import asyncio
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from tracklog.recording.transcript.entry import Entry

if TYPE_CHECKING:
    from tracklog.recording.recorder.recorder import Recorder

StepStatus = Literal["ok", "failed", "cancelled", "timeout", "interrupted", "skipped"]
"""How a run or a step ended."""
Fidelity = Literal["router", "agent_emitted"]
Block = Mapping[str, Any]
Body = dict[str, Any]

DEADLINE = 2.0
"""Seconds that the end of a scope may wait for a busy transcript."""


def path_name(name: str) -> str:
    """The name of a step in a path, where dots and slashes have a meaning."""
    return name.replace("%", "%25").replace(".", "%2E").replace("/", "%2F")


def status_of(error: BaseException | None) -> StepStatus:
    """The status at the end, from the exception that the body raised."""
    match error:
        case None:
            return "ok"
        case asyncio.CancelledError() | GeneratorExit():
            return "cancelled"
        case TimeoutError():
            return "timeout"
        case Exception():
            return "failed"
        case _:
            return "interrupted"


def reason_of(error: BaseException) -> str:
    """The error text of an exception, for a person."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class _WithOrAsyncWith(ABC):
    """What can stand behind `with` can stand behind `async with`."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # No await in here: the cancellation of the work cannot reach the recording of its end.
        self.__exit__(kind, error, trace)


class Scope(_WithOrAsyncWith):
    """A part of a run that begins and ends; messages and tool calls are recorded in it."""

    kind: str
    starts: str
    ends: str

    def __init__(self, recorder: "Recorder", name: str, extras: Mapping[str, Any]) -> None:
        self.recorder = recorder
        self.name = name
        self.path = ""
        self.iteration = 0
        self.frames: tuple[Body, ...] = ()
        self.attempt = 1
        self.step_seq: int | None = None
        """The number of its start; events inside refer to it."""
        self.result: Any = None
        self.error: str | None = None
        """Set it where the body fails without raising."""
        self.status: StepStatus | None = None
        """Set it to override the status that follows from how the body ends."""
        self.ended = False
        self._extras = dict(extras)
        self._began = 0

    def step(
        self,
        name: str,
        kind: str,
        *,
        index: int | None = None,
        branch: str | None = None,
        attempt: int = 1,
        command: str | None = None,
        capture_output: bool = False,
        **extras: Any,
    ) -> "StepScope":
        """A step inside this one: `index` in a loop, `branch` in a parallel block."""
        step = StepScope(self, name, kind, extras, command, capture_output=capture_output)
        step._place(self, index, branch, attempt)
        return step

    def call_workflow(
        self,
        name: str,
        child_run_id: str,
        *,
        index: int | None = None,
        branch: str | None = None,
        attempt: int = 1,
        workflow: str | None = None,
        **options: Any,
    ) -> "CallScope":
        """A sub-workflow with an id that the caller chose; `options` are those of its recorder."""
        call = CallScope(self, name, child_run_id, workflow or name, options)
        call._place(self, index, branch, attempt)
        return call

    def tool(
        self, name: str, input: Any = None, *, call_id: str | None = None, **extras: Any
    ) -> "ToolUse":
        """A tool call at the router: its call, and its result however it ends."""
        return ToolUse(self, name, input, call_id or str(uuid.uuid4()), extras)

    def user(self, prompt: str, system_prompt: str | None = None, **extras: Any) -> Entry | None:
        """The prompt of the agent; the composed system prompt is part of every such message."""
        parts = {"prompt": prompt, "system_prompt": system_prompt}
        blocks = [
            {"type": "text", "fidelity": "router", "text": text, "part": part}
            for part, text in parts.items()
            if text is not None
        ]
        return self._emit("message.user", {"role": "user", "blocks": blocks, **extras})

    def assistant(
        self, blocks: Sequence[Block] = (), *, status: str = "ok", **extras: Any
    ) -> Entry | None:
        """The answer of the agent, also when it failed, was killed, or is empty."""
        fields = {"role": "assistant", "blocks": list(blocks), "status": status, **extras}
        return self._emit("message.assistant", fields)

    def tool_call(
        self, name: str, call_id: str, input: Any = None, *,
        fidelity: Fidelity = "agent_emitted", **extras: Any,
    ) -> Entry | None:  # fmt: skip
        """A tool call that was reported; use `tool` for calls that the router makes itself."""
        use = {"tool_name": name, "tool_id": call_id, "tool_input": input}
        payload = {"name": name, "call_id": call_id, "input": input, "output": None}
        block = {"type": "tool_use", "fidelity": fidelity, **use}
        return self._emit(
            "tool.call", {**payload, "fidelity": fidelity, "blocks": [block], **extras}
        )

    def tool_result(
        self, name: str, call_id: str, input: Any = None, output: Any = None, *,
        error: str | None = None, is_error: bool = False,
        fidelity: Fidelity = "agent_emitted", **extras: Any,
    ) -> Entry | None:  # fmt: skip
        """The end of a tool call: its output or its error."""
        payload: Body = {"name": name, "call_id": call_id, "input": input}
        payload["output"] = None if error else output
        result = {"tool_id": call_id, "tool_content": error or output, "tool_name": name}
        block: Body = {"type": "tool_result", "fidelity": fidelity, **result}
        if error:
            payload["error"] = error
        elif is_error:
            extras["is_error"] = True
        if error or is_error:
            block["is_error"] = True
        payload |= {"fidelity": fidelity, "blocks": [block], **extras}
        return self._emit("tool.result", payload, timeout=DEADLINE)

    def begin(self) -> None:
        """Record the start; `with` calls it."""
        self._began = time.monotonic_ns()
        entry = self._emit(self.starts, self._opening(), inside=False)
        self.step_seq = entry.seq if entry is not None else None

    def end(self, error: BaseException | None = None) -> None:
        """Record the end, once; `with` calls it, whatever the body raised."""
        if self.ended:
            return
        self.ended = True
        if error is not None and self.error is None:
            self.error = reason_of(error)
        status = self.status or status_of(error)
        if status == "ok" and self.error:
            status = "failed"
        self._emit(self.ends, self._closing(status), timeout=DEADLINE)

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        self.end(error)

    def _opening(self) -> Body:
        return {"name": self.name, "kind": self.kind, **self._extras}

    def _closing(self, status: StepStatus) -> Body:
        payload: Body = {"name": self.name, "kind": self.kind}
        if self.error:
            payload["error"] = self.error
        if self.result is not None:
            payload["result"] = self.result
        spent = (time.monotonic_ns() - self._began) // 1_000_000
        return payload | {"status": status, "duration_ms": spent}

    def _emit(
        self, type: str, payload: Body, *, inside: bool = True, timeout: float = -1
    ) -> Entry | None:
        extras: Body = {}
        if self.attempt > 1:
            extras["attempt"] = self.attempt
        if self.frames:
            extras["frames"] = list(self.frames)
        return self.recorder.emit(
            type,
            payload,
            self.path,
            self.iteration,
            self._child(type),
            step_seq=self.step_seq if inside else None,
            timeout=timeout,
            **extras,
        )

    def _child(self, _: str) -> str | None:
        return None

    def _place(self, parent: "Scope", index: int | None, branch: str | None, attempt: int) -> None:
        name = path_name(self.name)
        self.path = f"{parent.path}.{name}" if parent.path else name
        self.iteration = parent.iteration if index is None else index
        self.frames, self.attempt = parent.frames, attempt
        if index is not None:
            self.frames += ({"step": parent.name, "index": index},)
        if branch is not None:
            self.frames += ({"step": parent.name, "branch": branch},)


class RunScope(Scope):
    """A complete run."""

    kind, starts, ends = "workflow", "run.started", "run.completed"

    def begin(self) -> None:
        """Record the start of the run; its events have no path and no step."""
        super().begin()
        self.step_seq = None


class StepScope(Scope):
    """One step of a run: command, operation, agent, terminal, loop, parallel or custom."""

    starts, ends = "step.started", "step.completed"

    def __init__(
        self, parent: Scope, name: str, kind: str, extras: Mapping[str, Any],
        command: str | None = None, *, capture_output: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(parent.recorder, name, extras)
        self.kind = kind
        self.command = command
        self.capture_output = capture_output
        self.exit_code: int | None = None
        self.output: str | None = None
        self.stderr: str | None = None

    def _opening(self) -> Body:
        opening = super()._opening()
        if self.command is not None:
            block = {"type": "command", "fidelity": "router", "command": self.command}
            opening["blocks"] = [block]
        return opening

    def end(self, error: BaseException | None = None) -> None:
        """Record the end of the step; an exit code other than 0 is a failure."""
        if self.exit_code and self.error is None and error is None:
            self.error = self.stderr or f"exit code {self.exit_code}"
        super().end(error)

    def _closing(self, status: StepStatus) -> Body:
        closing = super()._closing(status)
        if self.exit_code is not None:
            closing["exit_code"] = self.exit_code
        if self.output is not None:
            closing["had_output"] = bool(self.output)
        if self.capture_output:
            fields = {"output": self.output, "stderr": self.stderr}
            closing |= {key: value for key, value in fields.items() if value is not None}
        return closing


class CallScope(Scope):
    """The call of a sub-workflow, with the recorder of its run."""

    kind = "call_workflow"
    starts, ends = "step.call_workflow.started", "step.call_workflow.completed"

    def __init__(
        self, parent: Scope, name: str, child_run_id: str, workflow: str, options: Mapping[str, Any]
    ) -> None:
        super().__init__(parent.recorder, name, {})
        self.child_run_id, self.workflow = child_run_id, workflow
        self._options = options
        self.child: Recorder
        """The recorder of the sub-run; open inside the context."""

    def begin(self) -> None:
        """Record the call, then open the child's transcript; it exists even if the child never
        starts.
        """
        super().begin()
        self.child = self.recorder.try_child(self.child_run_id, **self._options)

    def end(self, error: BaseException | None = None) -> None:
        """Record the child's end as the parent sees it, and close the child's transcript."""
        try:
            if error is not None and not self.child.stats().last_seq:
                # AWF-17: a child that could not start has its first and last line all the same.
                never = RunScope(self.child, self.workflow, {})
                never.begin()
                never.end(error)
        finally:
            try:
                self.child.close()
            finally:
                super().end(error)

    def _child(self, type: str) -> str | None:
        return self.child_run_id if type in (self.starts, self.ends) else None


class ToolUse(_WithOrAsyncWith):
    """One tool call at the router."""

    def __init__(
        self, scope: Scope, name: str, input: Any, call_id: str, extras: Mapping[str, Any]
    ) -> None:
        self.name, self.input, self.call_id = name, input, call_id
        self.output: Any = None
        self.is_error = False
        """Whether the tool answered with a failure."""
        self.error: str | None = None
        """The reason why the tool could not answer."""
        self._scope, self._extras = scope, dict(extras)
        self._began = 0

    def __enter__(self) -> Self:
        self._began = time.monotonic_ns()
        self._scope.tool_call(
            self.name, self.call_id, self.input, fidelity="router", **self._extras
        )
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is not None and self.error is None:
            self.error = reason_of(error)
        spent = (time.monotonic_ns() - self._began) // 1_000_000
        self._scope.tool_result(
            self.name,
            self.call_id,
            self.input,
            self.output,
            error=self.error,
            is_error=self.is_error,
            fidelity="router",
            **self._extras,
            duration_ms=spent,
        )
