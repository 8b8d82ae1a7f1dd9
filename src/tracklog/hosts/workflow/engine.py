"""Run a workflow step by step; each step is started, ended and recorded once, however it ends.

The engine records the beginning and the end of runs and steps; `agents` records the messages of
agents, `router` the calls of tools (AWF-70). Without a recorder everything else is the same.
"""

import asyncio
import contextlib
import shlex
from collections import ChainMap
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracklog import (
    CallScope,
    NullRecorder,
    Recorder,
    Scope,
    StepScope,
    StepStatus,
    Tape,
    TracklogError,
)
from tracklog.hosts.workflow import processes, router, values
from tracklog.hosts.workflow.agents import (
    AgentAnswer,
    AgentPrompt,
    Asking,
    BoundedOutput,
    CommandAgent,
)
from tracklog.hosts.workflow.display import Display, Lines, label
from tracklog.hosts.workflow.flow import (
    Agent,
    AgentStep,
    CallWorkflowStep,
    CommandStep,
    ForEachStep,
    Loaded,
    OperationStep,
    ParallelStep,
    PluginStep,
    StepCommon,
    TerminalStep,
    WhileStep,
    given,
)
from tracklog.hosts.workflow.history import Address, History, address, lane
from tracklog.hosts.workflow.host_context import (
    HostContext,
    RunOutcome,
    StepFailed,
    Terminal,
    fingerprint,
    read,
    tools_of,
)
from tracklog.hosts.workflow.loading import beside
from tracklog.hosts.workflow.model_agent import ModelAgent
from tracklog.hosts.workflow.router import ToolRouter

DEEPEST = 16
"""How many workflows may call each other in a row."""
ENDINGS: dict[str, StepStatus] = {"ok": "ok", "timeout": "timeout", "killed": "cancelled"}


class WorkflowExecution:
    """One run of one workflow."""

    def __init__(
        self,
        context: HostContext,
        loaded: Loaded,
        inputs: Mapping[str, Any],
        *,
        run_id: str,
        recorder: Recorder,
        history: History | None = None,
        tape: Tape | None = None,
        callers: Sequence[Path] = (),
        display: Display | None = None,
    ) -> None:
        self.context, self.loaded, self.flow = context, loaded, loaded.flow
        self.run_id, self.recorder = run_id, recorder
        self._history, self._tape = history or History(), tape
        self._callers = (*callers, loaded.path)
        self._display = display or context.display
        self._given = given(loaded.flow, inputs)
        self._router = ToolRouter(tools_of(loaded))
        folder = loaded.path.parent
        own = {name: router.load_function(folder, at) for name, at in self.flow.plugins.items()}
        self._plugins = {**router.entry_point_functions("steps"), **own}
        self._known: values.Known = ChainMap(
            {"inputs": self._given, "steps": {}, "run": {"id": run_id, "folder": str(folder)}}
        )

    async def run(self) -> RunOutcome:
        """Run it to its end; raises only if it is cancelled."""
        audit, name = self.context.audit, self.flow.name
        data = {"inputs_sha256": fingerprint(self._given)}
        self.context.opened(self.run_id, name)
        if self._history.run is None or audit.last_event(self.run_id) != "workflow.started":
            audit.started(self.run_id, name, **data)
        scope = self.recorder.run(name, **data)
        outcome = RunOutcome("interrupted", error="the host was stopped")
        scope.begin()
        self._history.end_open_steps(self.recorder)
        try:
            outcome = await self._to_the_end(scope)
        except asyncio.CancelledError:
            outcome = RunOutcome("cancelled", error="the run was cancelled")
            raise
        finally:
            scope.status, scope.result, scope.error = outcome.status, outcome.result, outcome.error
            scope.end()
            audit.completed(self.run_id, name, outcome.status, outcome.error)
            if outcome.status != "ok":
                self._display.line("", f"{name} {outcome.status}: {outcome.error}")
        return outcome

    async def _to_the_end(self, scope: Scope) -> RunOutcome:
        try:
            await self._steps(self.flow.steps, scope, self._known)
            return RunOutcome("ok", router.json_data(values.filled(self.flow.result, self._known)))
        except Terminal as reached:
            return reached.outcome
        except StepFailed as failure:
            return RunOutcome(failure.status, error=failure.message)
        except TracklogError as failure:
            return RunOutcome("failed", error=failure.message)

    async def _steps(
        self, steps: Iterable[Any], parent: Scope, known: values.Known, **place: Any
    ) -> Any:
        """Run some steps; returns the result of the last one."""
        result = None
        for step in steps:
            done = await self._step(step, parent, known, **place)
            known["steps"][step.name] = done
            result = done["result"]
        return result

    def _open(self, step: StepCommon, parent: Scope, attempt: int, **place: Any) -> Scope:
        if isinstance(step, CallWorkflowStep):
            where = self._where(step, parent, **place)
            child = self._history.child(where)
            more: dict[str, Any] = {"resume": True} if child else {}
            return parent.call_workflow(
                step.name, child or self.context.new_id(), attempt=attempt,
                workflow=Path(step.workflow).stem, **place, **more,
            )  # fmt: skip
        kind: str = step.kind  # type: ignore[attr-defined]  # every step has one
        return parent.step(step.name, kind, attempt=attempt, **place)

    @staticmethod
    def _where(step: StepCommon, parent: Scope, **place: Any) -> Address:
        probe = parent.step(step.name, "", **place)  # not begun: only its address is of interest
        return address(probe.path, probe.frames)

    async def _step(
        self, step: StepCommon, parent: Scope, known: values.Known, **place: Any
    ) -> dict[str, Any]:
        """The end of a step: the recorded one, or after the attempts that it has left."""
        where = self._where(step, parent, **place)
        tries = self._history.tries(where)
        failed = sum(each.status in ("failed", "timeout") for each in tries)
        last = tries[-1] if tries else None
        if last is not None and (
            last.status in ("ok", "skipped")
            or (last.status in ("failed", "timeout") and failed > step.retry)
        ):
            return self._settle(step, _described(last))
        attempt = len(tries)
        while True:
            attempt += 1
            done = await self._attempt(step, parent, known, attempt, **place)
            if done["status"] in ("ok", "skipped"):
                return done
            failed += 1
            if failed > step.retry:
                return self._settle(step, done)

    @staticmethod
    def _settle(step: StepCommon, done: dict[str, Any]) -> dict[str, Any]:
        if isinstance(step, TerminalStep) and done["status"] != "skipped":
            status: StepStatus = "ok" if step.status == "success" else "failed"
            error = None if status == "ok" else done["result"] or "a failure was reached"
            raise Terminal(RunOutcome(status, done["result"], error))
        if done["status"] in ("ok", "skipped") or step.on_error == "continue":
            return done
        raise StepFailed(f"{step.name}: {done['error']}", done["status"])

    async def _attempt(
        self, step: StepCommon, parent: Scope, known: values.Known, attempt: int, **place: Any
    ) -> dict[str, Any]:
        scope = self._open(step, parent, attempt, **place)
        here = label(scope.path, scope.frames)
        if isinstance(step, CommandStep) and isinstance(scope, StepScope):
            with contextlib.suppress(TracklogError):  # it is reported when the step runs
                scope.command = _command(step, known)[1]
        scope.begin()
        try:
            if step.when is not None and not values.holds(step.when, known):
                scope.status = "skipped"
            else:
                own = isinstance(step, AgentStep | CommandStep)  # their processes know the time
                async with asyncio.timeout(None if own else step.timeout):
                    await self._do(step, scope, known, here)
        except TimeoutError:
            scope.error, scope.status = f"it took longer than {step.timeout:g} s", "timeout"
            scope.end(TimeoutError(scope.error))
        except StepFailed as failure:
            scope.error, scope.status = failure.message, failure.status
            scope.end(failure)
        except TracklogError as failure:
            scope.error, scope.status = failure.message, "failed"
            scope.end(failure)
        except Terminal as reached:
            scope.status = reached.outcome.status
            scope.error = reached.outcome.error
            scope.end()
            raise
        except BaseException as error:
            scope.end(error)
            raise
        status = scope.status or ("failed" if scope.error else "ok")
        scope.status = status
        scope.end()
        done = {"result": scope.result, "status": status, "error": scope.error}
        if isinstance(scope, StepScope):
            done["exit_code"] = scope.exit_code
        if not isinstance(step, TerminalStep):
            self._display.line(here, status if not scope.error else f"{status}: {scope.error}")
        return self._settle(step, done) if isinstance(step, TerminalStep) else done

    async def _do(self, step: StepCommon, scope: Scope, known: values.Known, here: str) -> None:
        match step, scope:
            case CommandStep(), StepScope():
                await self._command(step, scope, known, here)
            case AgentStep(), StepScope():
                await self._agent(step, scope, known, here)
            case OperationStep(), _:
                asked = values.filled(step.input, known)
                scope.result = await self._router.call(scope, step.tool, asked, tape=self._tape)
            case TerminalStep(), _:
                scope.result = values.text(step.message, known) or None
            case ParallelStep(), _:
                await self._parallel(step, scope, known)
            case ForEachStep(), _:
                await self._for_each(step, scope, known)
            case WhileStep(), _:
                await self._while(step, scope, known)
            case CallWorkflowStep(), CallScope():
                await self._call(step, scope, known, here)
            case PluginStep(), _:
                scope.result = await self._plugin(step, scope, known)

    async def _command(
        self, step: CommandStep, scope: StepScope, known: values.Known, here: str
    ) -> None:
        command, shown = _command(step, known)
        self._display.line(here, f"$ {shown}")
        output, lines = BoundedOutput(), Lines(lambda text: self._display.line(here, text))
        if self._tape is not None:
            played = self._tape.play("command", {"command": shown}, _lane(scope))
            if played is not None:
                answer = played.answer
                scope.exit_code, scope.result = answer.get("exit_code"), answer.get("result")
                scope.error, scope.status = answer.get("error"), answer.get("status", "ok")
                lines.feed(values.spelled(scope.result or "").encode())
                lines.end()
                return

        def feed(chunk: bytes) -> None:
            output.feed(chunk)
            lines.feed(chunk)

        try:
            ended = await processes.run(
                command,
                run_id=self.run_id,
                feed=feed,
                environment={**self.context.environment, **_texts(step.env, known)},
                cwd=self._folder(step.cwd, known),
                stdin=None if step.stdin is None else values.text(step.stdin, known).encode(),
                seconds=step.timeout,
            )
        except OSError as error:
            raise StepFailed(f"{command[0]}: {error.strerror}") from None
        finally:
            lines.end()
            scope.output = output.text
            scope.result = scope.output.rstrip("\n")  # AWF-18: stored, however it ends
        scope.exit_code = ended.exit_code
        if ended.timed_out:
            raise StepFailed(f"it took longer than {step.timeout:g} s", "timeout")
        if ended.exit_code:
            message = ended.stderr[-4096:].decode("utf-8", "replace").strip()
            raise StepFailed(message or f"exit code {ended.exit_code}")

    async def _agent(
        self, step: AgentStep, scope: StepScope, known: values.Known, here: str
    ) -> None:
        named = step.agent
        agent: Agent = self.flow.agents[named] if isinstance(named, str) else named
        system = [values.text(each, known) for each in (agent.system, step.system) if each]
        composed = "\n\n".join(system) or None
        timeout = step.timeout or agent.timeout
        asking = self._asking(agent, step, known, here)
        answer = AgentAnswer()
        for prompt in [step.prompt] if isinstance(step.prompt, str) else step.prompt:
            # A prompt may refer to the last answer.
            asked = values.text(prompt, {**known, "answer": answer.text})
            scope.user(asked, composed)  # AWF-21: recorded before it is asked
            question = AgentPrompt(asked, composed, answer.session, timeout)
            answer = await asking.ask(scope, question, self._tape, _lane(scope))
            scope.result, scope.exit_code = answer.text, answer.exit_code
            if answer.status != "ok":
                status = ENDINGS.get(answer.status, "failed")
                raise StepFailed(answer.error or answer.status, status)

    def _asking(self, agent: Agent, step: AgentStep, known: values.Known, here: str) -> Asking:
        def put(text: str) -> None:
            self._display.line(here, text)

        environment = {**self.context.environment, **_texts(agent.env, known)}
        if agent.endpoint is not None:
            return ModelAgent(agent, environment, self._router, put)
        folder = self._folder(step.cwd, known)
        return CommandAgent(agent, self.run_id, environment, folder, known, put)

    async def _parallel(self, step: ParallelStep, scope: Scope, known: values.Known) -> None:
        room = asyncio.Semaphore(step.most or len(step.branches))

        async def branch(name: str) -> Any:
            async with room:
                return await self._steps(step.branches[name], scope, _inner(known), branch=name)

        results = await _together([branch(name) for name in step.branches])
        scope.result = dict(zip(step.branches, results, strict=True))

    async def _for_each(self, step: ForEachStep, scope: Scope, known: values.Known) -> None:
        items = values.filled(step.items, known)
        if not isinstance(items, list):
            raise StepFailed(f"its items are not a list: {values.spelled(items)[:200]}")
        room = asyncio.Semaphore(step.most)

        async def one(index: int) -> Any:
            async with room:
                inner = _inner(known, item=items[index], index=index)
                return await self._steps(step.steps, scope, inner, index=index)

        scope.result = await _together([one(index) for index in range(len(items))])

    async def _while(self, step: WhileStep, scope: Scope, known: values.Known) -> None:
        inner = _inner(known, index=0)
        for each in step.steps:  # before the first round, its steps have no results
            inner["steps"][each.name] = dict.fromkeys(("result", "status", "error", "exit_code"))
        index = 0
        while values.holds(step.condition, inner):
            if index == step.limit:
                raise StepFailed(f"it is not done after {step.limit} rounds")
            scope.result = await self._steps(step.steps, scope, inner, index=index)
            inner["index"] = index = index + 1

    async def _plugin(self, step: PluginStep, scope: Scope, known: values.Known) -> Any:
        """Call a plug-in with its input only: it has no access to the recorder (AWF-70, AWF-78)."""
        asked = values.filled(step.input, known)
        if self._tape is not None:
            played = self._tape.play("plugin", None, _lane(scope))
            if played is not None:
                if error := played.answer.get("error"):
                    raise StepFailed(error, played.answer.get("status", "failed"))
                return played.answer.get("result")
        try:
            return router.json_data(await router.invoke(self._plugins[step.kind], asked))
        except TracklogError:
            raise
        except Exception as error:  # the plug-in's own, whatever it is
            raise StepFailed(f"{type(error).__name__}: {error}") from error

    async def _call(
        self, step: CallWorkflowStep, scope: CallScope, known: values.Known, here: str
    ) -> None:
        """Run a called workflow, which has its own transcript (AWF-44).

        If it cannot be started, the scope writes the two lines of its transcript.
        """
        run_id, recorder = scope.child_run_id, scope.child
        before = History()
        if not isinstance(recorder, NullRecorder):
            before = History.of(recorder.path, run_id)
        if before.end is not None:  # it had ended before its caller was killed
            outcome = RunOutcome(
                before.end.get("status", "ok"), before.end.get("result"), before.end.get("error")
            )
        else:
            child = self._child(step, scope, known, before, here)
            outcome = await child.run()
        scope.result = outcome.result
        if outcome.status != "ok":
            raise StepFailed(outcome.error or outcome.status, outcome.status)

    def _child(
        self, step: CallWorkflowStep, scope: CallScope, known: values.Known, before: History,
        here: str,
    ) -> "WorkflowExecution":  # fmt: skip
        try:
            name = values.text(step.workflow, known)
            path = beside(self.loaded.path, name)
            if path is None:
                raise StepFailed(f"{name!r} is not a possible file name")
            if path in self._callers:
                raise StepFailed(f"{name} calls itself")
            if len(self._callers) >= DEEPEST:
                raise StepFailed(f"more than {DEEPEST} workflows call each other")
            played = self._tape.play("call", None, _lane(scope)) if self._tape else None
            return WorkflowExecution(
                self.context, read(path), values.filled(step.inputs, known),
                run_id=scope.child_run_id, recorder=scope.child, history=before,
                tape=self.context.tape_of(played.answer) if played else None,
                callers=self._callers, display=self._display.inside(here),
            )  # fmt: skip
        except TracklogError as error:
            audit = self.context.audit
            self.context.opened(scope.child_run_id, scope.workflow)
            audit.started(scope.child_run_id, scope.workflow)
            audit.completed(scope.child_run_id, scope.workflow, "failed", error.message)
            raise

    def _folder(self, cwd: str | None, known: values.Known) -> Path:
        return self.loaded.path.parent / values.text(cwd, known) if cwd else self.loaded.path.parent


def _lane(scope: Scope) -> str:
    return lane(address(scope.path, scope.frames))


def _inner(known: values.Known, **more: Any) -> values.Known:
    """The values of an inner block: it has those of the outer block, which does not get its own."""
    return known.new_child({**more, "steps": ChainMap({}, known["steps"])})


def _texts(given: Mapping[str, str], known: values.Known) -> dict[str, str]:
    return {key: values.text(each, known) for key, each in given.items()}


def _command(step: CommandStep, known: values.Known) -> tuple[list[str], str]:
    """The program with its arguments, and the same as one line of text."""
    if isinstance(step.run, str):
        line = values.shell(step.run, known)
        return ["sh", "-c", line], line
    words = [values.text(word, known) for word in step.run]
    return words, " ".join(map(shlex.quote, words))


def _described(step: Any) -> dict[str, Any]:
    """The recorded end of a step, in the form in which a workflow refers to it."""
    payload = step.completed.payload
    data = {key: payload.get(key) for key in ("result", "error", "exit_code")}
    return {**data, "status": step.status}


async def _together(works: Sequence[Awaitable[Any]]) -> list[Any]:
    """Run all; if one fails, cancel the others and wait for their end."""
    tasks = [asyncio.ensure_future(work) for work in works]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [each for each in ended if isinstance(each, BaseException)]
    for failure in failures:
        if not isinstance(failure, asyncio.CancelledError):
            raise failure
    if failures:
        raise failures[0]
    return ended
