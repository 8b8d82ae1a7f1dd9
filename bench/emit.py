"""What an event costs to emit: to a file, against json.dumps + os.write; to a collector, against a file."""

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "contracts")]

from tracklog_emit import Emitter, HttpSink, new_id  # noqa: E402 - found through the path above

from timing import ROUNDS, goal, interleaved, micros  # noqa: E402 - found through the path above

EVENTS = 10_000
TEXT = "The handler returned 200, but the body was empty: it never awaited the probe. "

Emit = Callable[[Emitter, dict[str, Any], int], object]
Emitting = Callable[[], object]


def dialects() -> dict[str, tuple[str, dict[str, Any], Emit]]:
    """For each dialect a run, what one event says, and the call that emits it."""
    call_id = "0d1e2f30-4a5b-4c6d-8e7f-901234567890"
    return {
        "fishbowl": (
            "evening-1",
            {"text": TEXT * 3, "tokens": {"input": 812, "output": 96}},
            lambda emitter, said, turn: emitter.fishbowl("agent.spoke", said, turn=turn),
        ),
        "openwop": (
            "run-1",
            {
                "agentId": "core.reviewer",
                "toolId": "openwop:read",
                "toolName": "read",
                "callId": call_id,
                "arguments": {"path": "src/health.py", "lines": [1, 200], "why": TEXT},
            },
            lambda emitter, said, _: emitter.openwop("agent.toolCalled", said),
        ),
        "awf": (
            new_id(),
            {
                "role": "assistant",
                "blocks": [{"type": "text", "fidelity": "agent_emitted", "text": TEXT * 3}],
                "provider": "codex",
                "status": "ok",
            },
            lambda emitter, said, _: emitter.awf("message.assistant", said),
        ),
        "tracklog": (
            "r-1",
            {"call_id": call_id, "tool": "read", "input": {"path": "a.py", "why": TEXT * 2}},
            lambda emitter, said, _: emitter.tracklog("Called", **said),
        ),
    }


def emitting(path: str, run: str, said: dict[str, Any], emit: Emit) -> Emitting:
    emitter = Emitter.file(path).bind(run=run, actor="host", node="n1", path="build", agent="coder")

    def way() -> None:
        for turn in range(EVENTS):
            emit(emitter, said, turn)

    return way


def reporting(url: str, folder: str, run: str, said: dict[str, Any], emit: Emit) -> Emitting:
    """A new sink for each round: what it could not send yet is not part of the next one."""

    def way() -> None:
        sink = HttpSink(url, spool=folder, deadline=0, environ={})
        emitter = Emitter(sink, {}).bind(run=run, actor="host", agent="coder")
        for turn in range(EVENTS):
            emit(emitter, said, turn)
        sink.close(0)

    return way


SINKHOLE = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        lines = self.rfile.read(int(self.headers["Content-Length"])).count(b"\\n")
        body = b'{"accepted":%d,"duplicate":0,"refused":0}' % lines
        head = b"HTTP/1.1 200 OK\\r\\nTracklog-Protocol: 1\\r\\nContent-Length: %d\\r\\n\\r\\n"
        self.wfile.write(head % len(body) + body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def sinkhole() -> Iterator[str]:
    """The address of a process that takes everything at once and keeps nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", SINKHOLE], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


def to_a_collector(folder: str) -> None:
    """The ratios of reporting to writing, for one dialect."""
    run, said, emit = dialects()["tracklog"]
    with sinkhole() as url:
        seconds = interleaved(
            {
                "to a file": emitting(f"{folder}/beside", run, said, emit),
                "to a collector": reporting(url, f"{folder}/spool", run, said, emit),
                "to nobody": reporting("http://127.0.0.1:9", f"{folder}/spool", run, said, emit),
            },
            clock=time.thread_time,
        )
    file = seconds["to a file"]
    for way, words in (("to a collector", "with a collector"), ("to nobody", "with none")):
        goal(
            f"emit {words} / emit to a file",
            seconds[way] / file,
            at_most=2,
            floor=micros(file, EVENTS),
            ours=micros(seconds[way], EVENTS),
        )


def writing(path: str, event: dict[str, Any]) -> Callable[[], object]:
    """The yardstick: the whole event at hand, no clock, no id, no number, no lock."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def way() -> None:
        for _ in range(EVENTS):
            os.write(fd, json.dumps(event).encode() + b"\n")

    return way


def one_event(folder: str, run: str, said: dict[str, Any], emit: Emit) -> dict[str, Any]:
    path = Path(folder) / "one.jsonl"
    path.unlink(missing_ok=True)
    with Emitter.file(path) as emitter:
        emit(emitter.bind(run=run, actor="host", node="n1", path="build", agent="coder"), said, 1)
    return json.loads(path.read_bytes())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"{EVENTS:,} events per round, least of {ROUNDS}; CPU time of the thread that emits")
        for name, (run, said, emit) in dialects().items():
            event = one_event(folder, run, said, emit)
            seconds = interleaved(
                {
                    "tracklog_emit": emitting(f"{folder}/emit-{name}", run, said, emit),
                    "json.dumps + os.write": writing(f"{folder}/plain-{name}", event),
                },
                clock=time.thread_time,
            )
            ratio = seconds["tracklog_emit"] / seconds["json.dumps + os.write"]
            label = f"emit {name}, {len(json.dumps(event))} bytes / json.dumps + os.write"
            goal(
                label,
                ratio,
                at_most=1.3,
                floor=micros(seconds["json.dumps + os.write"], EVENTS),
                ours=micros(seconds["tracklog_emit"], EVENTS),
            )
        with redirect_stderr(io.StringIO()):  # the warning that nobody answers
            to_a_collector(folder)


if __name__ == "__main__":
    main()
