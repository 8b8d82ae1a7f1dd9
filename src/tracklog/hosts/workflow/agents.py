"""Run an agent of a step: its prompt, its output, and what is recorded of it.

AWF-43: three listeners get the same bytes and share no state: one makes the result of the step, one
prints, and one records, if there is a recorder.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tracklog import (
    Normaliser,
    NullRecorder,
    Provider,
    RecordedAnswer,
    ReplyStatus,
    Scope,
    Tape,
    provider,
    provider_of,
    provider_that_opens,
)
from tracklog.hosts.workflow import processes, values
from tracklog.hosts.workflow.flow import Agent

LIMIT = 1 << 20
"""Bytes of plain output that are stored of its beginning, and as many of its end."""
SNIFFED = 64 << 10
"""The first bytes of an unknown program's output, in which the start of a known stream is searched."""

Block = dict[str, Any]


class AgentPrompt(NamedTuple):
    """One turn of a conversation with an agent."""

    prompt: str
    system: str | None
    session: str | None
    """The provider's id of the conversation, from the second turn on."""
    timeout: float | None

    @property
    def as_recorded(self) -> dict[str, str | None]:
        """The question as tapes compare it."""
        return {"prompt": self.prompt, "system": self.system}


class Asking(Protocol):
    """An agent in a conversation."""

    async def ask(
        self, scope: Scope, asked: AgentPrompt, tape: Tape | None, lane: str
    ) -> "AgentAnswer":
        """Ask the agent, or take the next answer in this lane of the tape."""


@dataclass(slots=True)
class AgentAnswer:
    """The answer of an agent, also when it failed."""

    text: str = ""
    status: str = "ok"
    error: str | None = None
    exit_code: int | None = None
    session: str | None = None


class BoundedOutput:
    """The beginning and the end of an output of any size."""

    def __init__(self) -> None:
        self.head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def feed(self, chunk: bytes) -> None:
        self.size += len(chunk)
        room = LIMIT - len(self.head)
        self.head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[:-LIMIT]

    @property
    def text(self) -> str:
        """The output as text, with a mark where something was left out."""
        left = self.size - len(self.head) - len(self._tail)
        between = f"\n[{left} bytes are left out]\n".encode() if left else b""
        return (bytes(self.head) + between + bytes(self._tail)).decode("utf-8", "replace")


class AgentOutput:
    """The output of an agent, read as the stream of a provider, or else as plain text."""

    def __init__(self, known: Provider | None) -> None:
        self.plain = BoundedOutput()
        self.normaliser = Normaliser(known.name) if known else None

    def feed(self, chunk: bytes) -> None:
        self.plain.feed(chunk)
        if self.normaliser is not None:
            self.normaliser.feed(chunk)
        elif self.plain.size <= SNIFFED:
            self._sniff()

    @property
    def provider(self) -> Provider | None:
        return self.normaliser.provider if self.normaliser else None

    @property
    def understood(self) -> bool:
        """Whether the output is a stream; a known program may also answer in plain text."""
        return self.normaliser is not None and bool(self.normaliser.report.recognised)

    def take(self) -> list[Block]:
        """The blocks that will not change any more, each once."""
        return self.normaliser.reply.take() if self.normaliser and self.understood else []

    def finish(
        self, status: ReplyStatus, exit_code: int | None, stderr: bytes
    ) -> tuple[list[Block], dict[str, Any]]:
        """The remaining blocks, and the metadata of the complete answer."""
        meta: dict[str, Any] = {"status": status}
        blocks: list[Block] = []
        if self.normaliser is not None:
            complete = self.normaliser.finish(status, exit_code, stderr)
            blocks, meta = complete.blocks, dict(complete.meta)
            if report := complete.report.as_json():
                meta["report"] = report
        if not self.understood:
            text = {"type": "text", "fidelity": "agent_emitted", "text": self.plain.text}
            blocks = [text] if self.plain.size else []
            meta.pop("report", None)
        if self.normaliser is None:
            meta |= {} if exit_code is None else {"exit_code": exit_code}
            if status != "ok":
                tail = stderr[-4096:].decode("utf-8", "replace")
                meta |= {"error": tail.strip() or status, "stderr_tail": tail}
        return blocks, meta

    def _sniff(self) -> None:
        head = bytes(self.plain.head)
        for line in head.split(b"\n")[:-1]:
            if provider := provider_that_opens(line):
                self.normaliser = Normaliser(provider.name)
                self.normaliser.feed(head)
                return


class OutputListener(Protocol):
    """Receives the output of an agent, and how it ended."""

    def feed(self, chunk: bytes) -> None: ...

    def finish(self, status: ReplyStatus, exit_code: int | None, stderr: bytes) -> None: ...


class RecordListener:
    """The listener that records: calls and results when they arrive, and a message for each turn."""

    def __init__(self, scope: Scope, known: Provider | None, *, routed: bool = False) -> None:
        """`routed`: the router calls the tools, and records the calls and results itself."""
        self._scope, self._routed = scope, routed
        self._stream = AgentOutput(known)
        self._inputs: dict[str, Any] = {}
        self._turns = 0

    def feed(self, chunk: bytes) -> None:
        self._stream.feed(chunk)
        self._record_tools()
        if blocks := self._stream.take():
            self._record_message(blocks, final=False)

    def finish(self, status: ReplyStatus, exit_code: int | None, stderr: bytes) -> None:
        blocks, meta = self._stream.finish(status, exit_code, stderr)
        self._record_tools()
        self._record_message(blocks, final=True, **meta)

    def _record_tools(self) -> None:
        """Record calls and results as separate events, as they are reported (AWF-23, AWF-24)."""
        if self._stream.normaliser is not None and not self._routed:
            for block in self._stream.normaliser.reply.news():
                record_tool(self._scope, block, self._inputs)

    def _record_message(self, blocks: Sequence[Block], *, final: bool, **meta: Any) -> None:
        normaliser = self._stream.normaliser
        known = normaliser.reply.meta if normaliser else {}
        data: dict[str, Any] = {
            key: known[key] for key in ("model", "provider_session_id") if key in known
        }
        if self._stream.provider:
            data["provider"] = self._stream.provider.name
        self._scope.assistant(blocks, **{**data, **meta, "turn": self._turns, "final": final})
        self._turns += 1


def record_tool(scope: Scope, block: Mapping[str, Any], inputs: dict[str, Any]) -> None:
    """Record one call or result that an agent reports."""
    id = block["tool_id"]
    more = {key: block[key] for key in ("tool_server",) if key in block}
    if block["type"] == "tool_use":
        inputs[id] = block["tool_input"]
        scope.tool_call(block["tool_name"], id, block["tool_input"], **more)
        return
    failed = block.get("is_error") is True
    name, content = block.get("tool_name") or "", block["tool_content"]
    scope.tool_result(name, id, inputs.pop(id, None), content, is_error=failed, **more)


class Shown:
    """The listener that prints: the texts of the agent, and the names of the tools that it calls."""

    def __init__(self, known: Provider | None, put: Callable[[str], None]) -> None:
        self._stream = AgentOutput(known)
        self._put = put

    def feed(self, chunk: bytes) -> None:
        self._stream.feed(chunk)
        self._show(self._stream.take())

    def finish(self, status: ReplyStatus, exit_code: int | None, stderr: bytes) -> None:
        blocks, meta = self._stream.finish(status, exit_code, stderr)
        self._show(blocks)
        if meta["status"] != "ok" and stderr:
            self._put(stderr[-4096:].decode("utf-8", "replace").rstrip())

    def _show(self, blocks: Sequence[Block]) -> None:
        show(blocks, self._put)


def show(blocks: Sequence[Mapping[str, Any]], put: Callable[[str], None]) -> None:
    """Print some blocks for a person."""
    for block in blocks:
        if block["type"] == "text":
            put(block["text"].rstrip("\n"))
        elif block["type"] == "tool_use":
            put(f"→ {block['tool_name']}")


class ResultListener:
    """The listener that makes the result: the text of the last turn that has one."""

    def __init__(self, known: Provider | None) -> None:
        self._stream = AgentOutput(known)
        self.blocks: list[Block] = []
        self.answer = AgentAnswer()

    def feed(self, chunk: bytes) -> None:
        self._stream.feed(chunk)
        self.blocks += self._stream.take()

    def finish(self, status: ReplyStatus, exit_code: int | None, stderr: bytes) -> None:
        blocks, meta = self._stream.finish(status, exit_code, stderr)
        self.blocks += blocks
        text = last_text(self.blocks)
        self.answer = AgentAnswer(
            text=text if self._stream.understood else text.rstrip("\n"),
            status=meta["status"],
            error=meta.get("error"),
            exit_code=exit_code,
            session=meta.get("provider_session_id"),
        )


def last_text(blocks: Sequence[Mapping[str, Any]]) -> str:
    """The text of the last turn that has one."""
    texts = [block for block in blocks if block["type"] == "text"]
    last = texts[-1].get("turn") if texts else None
    return "".join(block["text"] for block in texts if block.get("turn") == last)


@dataclass(slots=True)
class CommandAgent:
    """An agent that is a program: one process for each turn."""

    agent: Agent
    run_id: str
    environment: Mapping[str, str]
    cwd: Path
    known: Mapping[str, Any]
    """The values that its command may refer to."""
    put: Callable[[str], None]
    provider: Provider | None = field(init=False)

    def __post_init__(self) -> None:
        named = provider(self.agent.provider) if self.agent.provider else None
        command = self.agent.command
        self.provider = named or (provider_of(command[0]) if command else None)

    async def ask(
        self, scope: Scope, asked: AgentPrompt, tape: Tape | None, lane: str
    ) -> AgentAnswer:
        """Run it. However it ends, its output so far is recorded and in the answer."""
        played = tape.play("model", asked.as_recorded, lane) if tape else None
        if played is not None:
            return play(scope, played, self.put)
        result = ResultListener(self.provider)
        listeners: list[OutputListener] = [result, Shown(self.provider, self.put)]
        if not isinstance(scope.recorder, NullRecorder):
            listeners.append(RecordListener(scope, self.provider))

        def feed(chunk: bytes) -> None:
            for listener in listeners:
                listener.feed(chunk)

        def finish(status: ReplyStatus, exit_code: int | None, stderr: bytes = b"") -> None:
            for listener in listeners:
                listener.finish(status, exit_code, stderr)

        command, stdin = self._command(asked)
        try:
            ended = await processes.run(
                command,
                run_id=self.run_id,
                feed=feed,
                environment=self.environment,
                cwd=self.cwd,
                stdin=stdin,
                seconds=asked.timeout,
            )
        except asyncio.CancelledError:
            finish("killed", None)
            raise
        except OSError as error:
            finish("error", None, f"{command[0]}: {error.strerror}".encode())
            return result.answer
        status: ReplyStatus = "timeout" if ended.timed_out else "killed" if ended.signal else "ok"
        if status == "ok" and ended.exit_code:
            status = "error"
        finish(status, ended.exit_code, ended.stderr)
        return result.answer

    def _command(self, asked: AgentPrompt) -> tuple[list[str], bytes | None]:
        agent, template = self.agent, self.provider
        command, prompt = list(agent.command or ()), asked.prompt
        again = list(agent.again or ())
        if not command and template is not None:
            command, again = list(template.template), again or list(template.template_again)
            if asked.system is not None and template.template_system:
                command += template.template_system
            elif asked.system is not None:
                prompt = f"{asked.system}\n\n{prompt}"
        if asked.session is not None:
            command += again
        known = {"prompt": prompt, "system": asked.system or "", "session": asked.session or ""}
        scope = {**self.known, **known}
        stdin = None if agent.stdin is None else values.text(agent.stdin, scope).encode()
        return [values.text(word, scope) for word in command], stdin


def play(scope: Scope, recorded: RecordedAnswer, put: Callable[[str], None]) -> AgentAnswer:
    """An answer from a tape, printed and recorded in the same pieces as the original."""
    answer = recorded.answer
    inputs: dict[str, Any] = {}
    pieces = answer.get("pieces") or [{"blocks": answer["blocks"]}]
    for piece in pieces:
        if "tool" in piece:
            record_tool(scope, piece["tool"], inputs)
            continue
        show(piece["blocks"], put)
        scope.assistant(piece["blocks"], **{"status": "ok", **piece.get("meta", {})})
    meta = pieces[-1].get("meta", {})
    return AgentAnswer(
        text=last_text(answer["blocks"]),
        status=meta.get("status", "ok"),
        error=meta.get("error"),
        exit_code=meta.get("exit_code"),
        session=meta.get("provider_session_id"),
    )
