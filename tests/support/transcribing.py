"""What the tests of transcripts share: ids, payloads, a disk that fails on demand."""

import errno
import json
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

from tracklog.journal.disk import Disk
from tracklog.recording.recorder import Recorder


def run_id() -> str:
    return str(uuid.uuid4())


def step(name="build", kind="command", **more) -> dict:
    return {"name": name, "kind": kind, **more}


def said(text="hello", **more) -> dict:
    block = {"type": "text", "fidelity": "agent_emitted", "text": text}
    return {"role": "assistant", "blocks": [block], **more}


def called(call_id="call-1", input=None, **more) -> dict:
    use = {"tool_name": "read", "tool_id": call_id, "tool_input": input}
    block = {"type": "tool_use", "fidelity": "router", **use}
    payload = {"name": "read", "call_id": call_id, "input": input, "output": None}
    return {**payload, "fidelity": "router", "blocks": [block], **more}


def bodies(path: Path) -> list[dict]:
    """The objects of a file, read as plainly as can be: every line must be whole."""
    content = path.read_bytes()
    assert content == b"" or content.endswith(b"\n")
    return [json.loads(line) for line in content.split(b"\n")[:-1]]


def opened(tmp_path: Path, run: str | None = None, **options) -> Recorder:
    return Recorder.open(run or run_id(), tmp_path / "storage", **options)


class FailingDisk(Disk):
    """A real disk on which a test makes single calls fail; it counts what succeeds."""

    def __init__(self) -> None:
        self.faults: dict[str, list[Callable[[], object]]] = {}
        self.calls: list[str] = []
        self.lock_of_calls = threading.Lock()

    def fail(self, call: str, *faults) -> None:
        """The next calls of this name: an errno to raise, an int of bytes to take, or None."""
        self.faults.setdefault(call, []).extend(faults)

    def next_fault(self, call: str):
        with self.lock_of_calls:
            self.calls.append(call)
            waiting = self.faults.get(call)
            return waiting.pop(0) if waiting else None

    def raise_for(self, call: str) -> None:
        fault = self.next_fault(call)
        if fault is not None:
            raise OSError(fault, errno.errorcode[fault])

    def open(self, path, flags, mode=0o600):
        self.raise_for("open")
        return super().open(path, flags, mode)

    def write(self, fd, block):
        fault = self.next_fault("write")
        if isinstance(fault, Short):
            return super().write(fd, bytes(block)[: fault.taken])
        if fault is not None:
            raise OSError(fault, errno.errorcode[fault])
        return super().write(fd, block)

    def truncate(self, fd, size):
        self.raise_for("truncate")
        super().truncate(fd, size)

    def sync(self, fd):
        self.raise_for("sync")
        super().sync(fd)


class Short:
    """A write that takes only so many bytes."""

    def __init__(self, taken: int) -> None:
        self.taken = taken
