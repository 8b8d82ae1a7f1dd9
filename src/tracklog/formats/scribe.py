"""Writes down what an agent prints, while it prints it: calls, results and messages, one by one.

    scribe = Scribe(recorder, ["claude", "-p", "review this"])
    scribe.begin()
    scribe.hear(chunk)
    scribe.finish("ok", exit_code=0)

The mapping is the providers'; whose output it is follows from the command, else from its
first line.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracklog.formats.providers import (
    Normalised,
    Normaliser,
    Provider,
    ReplyStatus,
    provider,
    provider_of,
    provider_that_opens,
)
from tracklog.recording.recorder import Recorder
from tracklog.recording.recorder.scopes import RunScope, StepScope

KEPT = 256 << 10
"""Bytes of plain output that are kept at its beginning, and as many at its end."""
SNIFFED = 64 << 10
"""So far into an unknown program's output the beginning of a known stream is looked for."""
PLAIN_LINES = 200
"""After so many lines of which none was understood it is plain text."""

ENDINGS = {"ok": "ok", "timeout": "timeout", "killed": "cancelled"}
"""How a step ends, by how its agent ended; anything else has failed."""


class Scribe:
    """The recording of one process of an agent."""

    def __init__(
        self,
        recorder: Recorder,
        command: Sequence[str],
        *,
        name: str | None = None,
        by_turn: bool = True,
        tee: Path | None = None,
    ) -> None:
        self.recorder = recorder
        self.command = list(command)
        self.session: str | None = None
        """The provider's own name of the conversation, once it was told."""
        self.dropped = 0
        """Bytes that were printed and not heard."""
        self._provider = provider(name) if name else provider_of(self.command[0])
        self._normaliser = Normaliser(self._provider.name) if self._provider else None
        self._by_turn = by_turn
        self._plain = _Plain()
        self._inputs: dict[str, Any] = {}
        self._turns = 0
        self._run: RunScope
        self._step: StepScope
        self._tee = _open_tee(tee, recorder) if tee else None

    @property
    def provider(self) -> Provider | None:
        """Whose output it is, as far as that is known."""
        return self._provider

    def begin(self) -> None:
        """Record that the agent starts, and what it is asked."""
        program = self.command[0].rpartition("/")[2]
        self._run = self.recorder.run(program)
        self._run.begin()
        kind = "agent" if self._provider else "command"
        self._step = self._run.step(program, kind, command=shlex.join(self.command))
        self._step.begin()
        prompt = self._provider.prompt(self.command[1:]) if self._provider else None
        if prompt:
            self._step.user(prompt)

    def hear(self, chunk: bytes) -> None:
        """The next bytes that it printed."""
        if self._tee is not None:
            os.write(self._tee, chunk)
        self._plain.add(chunk)
        if self._normaliser is None:
            self._sniff()
            return
        self._normaliser.feed(chunk)
        self._tell()

    def miss(self, size: int) -> None:
        """So many bytes were printed and could not be heard in time."""
        self.dropped += size
        if self._normaliser is not None:
            self._normaliser.feed(b"\n")  # what comes next belongs to another line

    def finish(
        self, status: ReplyStatus, exit_code: int | None = None, stderr: bytes = b""
    ) -> None:
        """Record how it ended; what is still open is told as partial."""
        if self._normaliser is None:
            self._end_plain(status, exit_code, stderr)
        else:
            self._end(self._normaliser.finish(status, exit_code, stderr))
            status = self._normaliser.reply.meta.get("status", status)
        self._step.exit_code = exit_code
        self._step.status = ENDINGS.get(status, "failed")  # type: ignore[assignment]  # its words
        if status != "ok":
            tail = stderr[-4096:].decode("utf-8", "replace").strip()
            self._step.error = tail or (f"exit code {exit_code}" if exit_code else status)
        self._step.end()
        self._run.status, self._run.error = self._step.status, self._step.error
        self._run.end()
        if self._tee is not None:
            os.close(self._tee)

    def _sniff(self) -> None:
        """Looks whether an unknown program prints what a known one does."""
        if self._plain.size > SNIFFED or self._plain.unknown:
            return
        head = bytes(self._plain.head)
        for line in head.split(b"\n")[:-1]:
            if found := provider_that_opens(line):
                self._provider, self._normaliser = found, Normaliser(found.name)
                self._normaliser.feed(head)
                self._tell()
                return

    def _tell(self) -> None:
        assert self._normaliser is not None
        reply, report = self._normaliser.reply, self._normaliser.report
        if not report.recognised and report.malformed > PLAIN_LINES:
            self._normaliser, self._plain.unknown = None, True
            return
        self.session = reply.meta.get("provider_session_id") or self.session
        for block in reply.news():
            self._tell_tool(block)
        if self._by_turn and report.recognised and (blocks := reply.take()):
            said = {key: reply.meta[key] for key in ("model",) if key in reply.meta}
            self._say(blocks, final=False, **said)

    def _tell_tool(self, block: dict[str, Any]) -> None:
        """AWF-23, AWF-24: calls and results are events of their own, as they are reported."""
        id = block["tool_id"]
        more = {key: block[key] for key in ("tool_server",) if key in block}
        if block["type"] == "tool_use":
            self._inputs[id] = block["tool_input"]
            self._step.tool_call(block["tool_name"], id, block["tool_input"], **more)
            return
        self._step.tool_result(
            block.get("tool_name") or "",
            id,
            self._inputs.pop(id, None),
            block["tool_content"],
            is_error=block.get("is_error") is True,
            **more,
        )

    def _say(self, blocks: list[dict[str, Any]], *, status: str = "ok", **more: Any) -> None:
        if self._by_turn:
            more["turn"] = self._turns
        named = {"provider": self._provider.name} if self._provider else {}
        if self.session:
            named["provider_session_id"] = self.session
        self._step.assistant(blocks, status=status, **{**named, **more})
        self._turns += 1

    def _end(self, whole: Normalised) -> None:
        assert self._normaliser is not None
        for block in self._normaliser.reply.news():
            self._tell_tool(block)
        meta = dict(whole.meta)
        self.session = meta.get("provider_session_id") or self.session
        blocks, report = whole.blocks, whole.report.told()
        if not whole.report.recognised and self._plain.size:
            blocks, report = [self._plain.block()], {}  # it answered in plain text
        if self.dropped:
            report["dropped_bytes"] = self.dropped
        if report:
            meta["report"] = report
        self._say(blocks, final=True, **meta)

    def _end_plain(self, status: ReplyStatus, exit_code: int | None, stderr: bytes) -> None:
        """A program that nobody knows here: what it printed is its answer."""
        more: dict[str, Any] = {} if exit_code is None else {"exit_code": exit_code}
        if status != "ok":
            tail = stderr[-4096:].decode("utf-8", "replace")
            more |= {"error": tail.strip() or status, "stderr_tail": tail}
        if self.dropped:
            more["report"] = {"dropped_bytes": self.dropped}
        blocks = [self._plain.block()] if self._plain.size else []
        self._say(blocks, final=True, status=status, **more)


class _Plain:
    """The beginning and the end of an output, whatever its size."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.size = 0
        self.unknown = False
        """Whether it is known to be nobody's stream."""

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        room = KEPT - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        del self.tail[:-KEPT]

    def block(self) -> dict[str, Any]:
        """As text, with what was left out."""
        head = bytes(self.head).decode("utf-8", "replace")
        tail = bytes(self.tail).decode("utf-8", "replace")
        left = self.size - len(self.head) - len(self.tail)
        block: dict[str, Any] = {"type": "text", "fidelity": "agent_emitted", "text": head + tail}
        if left:
            block["text"] = f"{head}\n[{left} bytes are left out]\n{tail}"
            block["truncated"] = {"key": "text", "bytes": self.size}
        return block


def _open_tee(folder: Path, recorder: Recorder) -> int:
    """A file for the very bytes that arrive; masked events beside unmasked bytes are refused."""
    if recorder.options.masker is not None:
        raise ValueError("the raw output cannot be kept beside masked events")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = len(list(folder.glob("*.ndjson")))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    return os.open(folder / f"{number}.ndjson", flags, 0o600)
