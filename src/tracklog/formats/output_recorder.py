"""Record the output of an agent while it runs: calls, results and messages, one by one.

    output = OutputRecorder(recorder, ["claude", "-p", "review this"])
    output.begin()
    output.feed(chunk)
    output.finish("ok", exit_code=0)

The mapping is that of the provider, which is recognised by the command, else by the first line.
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

MOST_OUTPUT = 256 << 10
"""Bytes of plain output that are stored from its beginning, and as many from its end."""
SNIFFED = 64 << 10
"""How many bytes of unknown output are searched for the beginning of a known stream."""
PLAIN_LINES = 200
"""After this many lines that no provider recognises, the output is plain text."""

ENDINGS = {"ok": "ok", "timeout": "timeout", "killed": "cancelled"}
"""The status of the step for each end of the agent; anything else is a failure."""


class OutputRecorder:
    """The recording of one agent process."""

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
        """The provider's own id of the conversation, once it is known."""
        self.dropped = 0
        """Bytes that were printed and not recorded."""
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
        """The provider of the output, as far as it is known."""
        return self._provider

    def begin(self) -> None:
        """Record the start of the agent, and its prompt."""
        program = self.command[0].rpartition("/")[2]
        self._run = self.recorder.run(program)
        self._run.begin()
        kind = "agent" if self._provider else "command"
        self._step = self._run.step(program, kind, command=shlex.join(self.command))
        self._step.begin()
        prompt = self._provider.prompt(self.command[1:]) if self._provider else None
        if prompt:
            self._step.user(prompt)

    def feed(self, chunk: bytes) -> None:
        """Add the next bytes of the output."""
        if self._tee is not None:
            os.write(self._tee, chunk)
        self._plain.add(chunk)
        if self._normaliser is None:
            self._sniff()
            return
        self._normaliser.feed(chunk)
        self._write()

    def miss(self, size: int) -> None:
        """Count bytes that were printed and could not be read in time."""
        self.dropped += size
        if self._normaliser is not None:
            self._normaliser.feed(b"\n")  # the next bytes belong to another line

    def finish(
        self, status: ReplyStatus, exit_code: int | None = None, stderr: bytes = b""
    ) -> None:
        """Record the end; calls that are still open are written as partial."""
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
        """Test whether an unknown program prints the stream of a known provider."""
        if self._plain.size > SNIFFED or self._plain.unknown:
            return
        head = bytes(self._plain.head)
        for line in head.split(b"\n")[:-1]:
            if provider := provider_that_opens(line):
                self._provider, self._normaliser = provider, Normaliser(provider.name)
                self._normaliser.feed(head)
                self._write()
                return

    def _write(self) -> None:
        assert self._normaliser is not None
        reply, report = self._normaliser.reply, self._normaliser.report
        if not report.recognised and report.malformed > PLAIN_LINES:
            self._normaliser, self._plain.unknown = None, True
            return
        self.session = reply.meta.get("provider_session_id") or self.session
        for block in reply.news():
            self._write_tool(block)
        if self._by_turn and report.recognised and (blocks := reply.take()):
            fields = {key: reply.meta[key] for key in ("model",) if key in reply.meta}
            self._write_text(blocks, final=False, **fields)

    def _write_tool(self, block: dict[str, Any]) -> None:
        """AWF-23, AWF-24: calls and results are separate events, written as they are reported."""
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

    def _write_text(self, blocks: list[dict[str, Any]], *, status: str = "ok", **more: Any) -> None:
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
            self._write_tool(block)
        meta = dict(whole.meta)
        self.session = meta.get("provider_session_id") or self.session
        blocks, report = whole.blocks, whole.report.as_json()
        if not whole.report.recognised and self._plain.size:
            blocks, report = [self._plain.block()], {}  # it answered in plain text
        if self.dropped:
            report["dropped_bytes"] = self.dropped
        if report:
            meta["report"] = report
        self._write_text(blocks, final=True, **meta)

    def _end_plain(self, status: ReplyStatus, exit_code: int | None, stderr: bytes) -> None:
        """Record the output of an unknown program as its answer."""
        more: dict[str, Any] = {} if exit_code is None else {"exit_code": exit_code}
        if status != "ok":
            tail = stderr[-4096:].decode("utf-8", "replace")
            more |= {"error": tail.strip() or status, "stderr_tail": tail}
        if self.dropped:
            more["report"] = {"dropped_bytes": self.dropped}
        blocks = [self._plain.block()] if self._plain.size else []
        self._write_text(blocks, final=True, status=status, **more)


class _Plain:
    """The beginning and the end of an output of any size."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.size = 0
        self.unknown = False
        """Whether the output is known to be of no provider."""

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        room = MOST_OUTPUT - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        del self.tail[:-MOST_OUTPUT]

    def block(self) -> dict[str, Any]:
        """The output as text, with a mark for the bytes left out."""
        head = bytes(self.head).decode("utf-8", "replace")
        tail = bytes(self.tail).decode("utf-8", "replace")
        left = self.size - len(self.head) - len(self.tail)
        block: dict[str, Any] = {"type": "text", "fidelity": "agent_emitted", "text": head + tail}
        if left:
            block["text"] = f"{head}\n[{left} bytes are left out]\n{tail}"
            block["truncated"] = {"key": "text", "bytes": self.size}
        return block


def _open_tee(folder: Path, recorder: Recorder) -> int:
    """Open a file for the raw output; refused when events are masked, because the output is not."""
    if recorder.options.masker is not None:
        raise ValueError("the raw output cannot be kept beside masked events")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = len(list(folder.glob("*.ndjson")))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    return os.open(folder / f"{number}.ndjson", flags, 0o600)
