"""What an event costs to emit, as a multiple of json.dumps + os.write of the same event."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "contracts")]

from tracklog_emit import Emitter, new_id  # noqa: E402 - found through the path above

from timing import goal, interleaved  # noqa: E402 - found through the path above

EVENTS = 10_000
ROUNDS = 9
TEXT = "The handler returned 200, but the body was empty: it never awaited the probe. "

Emit = Callable[[Emitter, dict[str, Any], int], object]


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


def emitting(path: str, run: str, said: dict[str, Any], emit: Emit) -> Callable[[], object]:
    emitter = Emitter.file(path).bind(run=run, actor="host", node="n1", path="build", agent="coder")

    def way() -> None:
        for turn in range(EVENTS):
            emit(emitter, said, turn)

    return way


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


def main() -> int:
    """Prints the ratio of each dialect beside the goal; 1 if one of them misses it."""
    met = []
    with tempfile.TemporaryDirectory() as folder:
        print(f"{EVENTS:,} events per round, median of {ROUNDS} rounds")
        for name, (run, said, emit) in dialects().items():
            event = one_event(folder, run, said, emit)
            seconds = interleaved(
                {
                    "tracklog_emit": emitting(f"{folder}/emit-{name}", run, said, emit),
                    "json.dumps + os.write": writing(f"{folder}/plain-{name}", event),
                },
                ROUNDS,
            )
            for way, taken in seconds.items():
                print(f"  {way:<22} {taken / EVENTS * 1e6:6.2f} µs per event")
            ratio = seconds["tracklog_emit"] / seconds["json.dumps + os.write"]
            label = f"emit {name}, {len(json.dumps(event))} bytes / json.dumps + os.write"
            met.append(goal(label, ratio, at_most=1.3))
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
