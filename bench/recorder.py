"""What an event costs to record: against a raw write of the same bytes, and against peers."""

import json
import os
import random
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import orjson

from timing import ROUNDS, goal, interleaved, micros, peer_python
from tracklog.recording.recorder import Recorder

EVENTS = 6_000
PEER_EVENTS = 3_000
WORDS = [
    "agent",
    "tool",
    "read",
    "file",
    "line",
    "test",
    "build",
    "error",
    "retry",
    "plan",
    "answer",
    "change",
    "health",
    "port",
    "route",
]


def events(count: int) -> list[tuple[str, dict[str, Any], str, int]]:
    """Type, payload, path and enclosing step of each event of a run; the same on every machine."""
    chance = random.Random(1)

    def prose(size: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(size // 5))

    def block(kind: str, mark: str, **own: Any) -> dict[str, Any]:
        return {"type": kind, "fidelity": mark, **own}

    found: list[tuple[str, dict[str, Any], str, int]] = []
    while len(found) < count:
        start, path = len(found) + 1, f"each_file.check_{len(found) % 50}"
        call = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        use = {"tool_name": "read", "tool_id": call, "tool_input": {"path": "src/a.py", "n": 200}}
        text = prose(600)
        tool = {"name": "read", "call_id": call, "input": use["tool_input"], "output": None}
        asked = [block("text", "router", text=prose(300), part="prompt")]
        said = [
            block("thinking", "agent_emitted", thinking=prose(250)),
            block("text", "agent_emitted", text=prose(350)),
            block("tool_use", "agent_emitted", **use),
        ]
        result = [block("tool_result", "router", tool_id=call, tool_content=text)]
        for kind, payload in (
            ("step.started", {"name": "check", "kind": "agent"}),
            ("message.user", {"role": "user", "blocks": asked}),
            (
                "tool.call",
                {**tool, "fidelity": "router", "blocks": [block("tool_use", "router", **use)]},
            ),
            ("tool.result", {**tool, "output": text, "fidelity": "router", "blocks": result}),
            ("message.assistant", {"role": "assistant", "blocks": said, "status": "ok"}),
            ("step.completed", {"name": "check", "kind": "agent", "status": "ok"}),
        ):
            found.append((kind, payload, path, start))
    return found[:count]


def main() -> None:
    story = events(EVENTS)
    with (
        tempfile.TemporaryDirectory() as folder,
        Recorder.open(str(uuid.uuid4()), folder, durability="os") as recorder,
    ):
        record = recorder.record

        def ours() -> None:
            for kind, payload, path, start in story:
                record(kind, payload, path, step_seq=start)

        ours()
        lines = recorder.path.read_bytes().splitlines(keepends=True)
        fd = os.open(f"{folder}/raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        def raw() -> None:
            write = os.write
            for line in lines:
                write(fd, line)

        bodies = [orjson.loads(line) for line in lines]

        def dumped() -> None:
            write, dumps = os.write, orjson.dumps
            for body in bodies:
                write(fd, dumps(body) + b"\n")

        sizes = sorted(map(len, lines))
        mean = sum(sizes) // len(sizes)
        print(f"{EVENTS:,} events, {sizes[0]} to {sizes[-1]} bytes, mean {mean}, durability os")
        times = interleaved({"raw write": raw, "orjson.dumps + write": dumped, "record": ours})
        os.close(fd)
        for floor, most in (("raw write", 5), ("orjson.dumps + write", 3)):
            goal(
                f"record an event / {floor}",
                times["record"] / times[floor],
                at_most=most,
                floor=micros(times[floor], EVENTS),
                ours=micros(times["record"], EVENTS),
            )
        peers(story, ours)


PEERS = {
    ("opentelemetry", 0): ("OpenTelemetry span → batch → OTLP file / record", 12),
    ("opentelemetry", 1): ("OpenTelemetry Logs SDK → batch → OTLP file / record", 8),
    ("inspect_ai", 0): ("inspect_ai transcript, in memory only / record", 5),
    ("inspect_ai", 1): ("inspect_ai transcript, written as JSON / record", 5),
}
"""By script and the place of its figure: what it does, and how many times as much it has to take."""


def peers(story: list[tuple[str, dict[str, Any], str, int]], ours: Any) -> None:
    """The same events through other recorders, each in its own process, turn by turn with ours."""
    python = peer_python()
    if python is None:
        print("  the peers of bench/requirements.txt cannot be installed here: not measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "events.json"
        given.write_text(
            json.dumps([[kind, payload, path] for kind, payload, path, _ in story[:PEER_EVENTS]])
        )
        least: dict[object, float] = {}
        for _ in range(ROUNDS):
            figures: dict[object, float] = {"ours": interleaved({"": ours}, 1)[""] / EVENTS}
            for name in ("opentelemetry", "inspect_ai"):
                script = Path(__file__).parent / "peers" / f"{name}.py"
                command = [str(python), str(script), str(given), folder]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                figures |= {(name, at): float(each) for at, each in enumerate(done.stdout.split())}
            least = {name: min(least.get(name, each), each) for name, each in figures.items()}
        for peer, (words, times) in PEERS.items():
            goal(
                words,
                least[peer] / least["ours"],
                at_least=times,
                peer=micros(least[peer], 1),
                ours=micros(least["ours"], 1),
            )


if __name__ == "__main__":
    main()
