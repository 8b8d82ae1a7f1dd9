"""What an import costs: a log of Claude Code and one of Codex, 2 KB a line, images, and a database of
OpenCode, all generated.

`TRACKLOG_BENCH_MB` says how large each log is; the claims are made for 1,000.
"""

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from uuid import UUID

import orjson

from timing import goal

MEGABYTES = int(os.environ.get("TRACKLOG_BENCH_MB", "1000"))
LINE = 2000
"""Bytes of a line, on average: token counts are shorter, calls and outputs longer."""
WORDS = (
    "the",
    "agent",
    "reads",
    "a",
    "file",
    "and",
    "then",
    "it",
    "thinks",
    "about",
    "what",
    "next",
)
SESSION = "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f"
THREAD = "019982b8-3422-79e0-8b3b-05abaf4f3c3e"


def prose(random: Random, size: int) -> str:
    start = random.randrange(1000)
    text = f"{start} " + " ".join(WORDS[(start + n * n) % len(WORDS)] for n in range(size // 4))
    return text[:size]


def claude(random: Random) -> Iterator[dict[str, object]]:
    """Turns of a conversation: a prompt now and then, calls, their results."""
    parent = None
    n = 0

    def frame(kind: str, message: object, **more: object) -> dict[str, object]:
        nonlocal parent, n
        id = str(UUID(int=random.getrandbits(128), version=4))
        n += 1
        at = f"2026-05-05T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}.{n % 1000:03}Z"
        frame = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/dev/project",
            "sessionId": SESSION,
            "version": "2.0.14",
            "gitBranch": "main",
            "type": kind,
            "message": message,
            "uuid": id,
            "timestamp": at,
            **more,
        }
        parent = id
        return frame

    yield frame("user", {"role": "user", "content": prose(random, 1500)})
    turn = 0
    while True:
        turn += 1
        call = f"toolu_{turn:020}"
        usage = {
            "input_tokens": 3,
            "cache_creation_input_tokens": 181,
            "cache_read_input_tokens": 14566,
            "output_tokens": 4 + turn % 300,
            "service_tier": "standard",
        }
        for block in (
            {"type": "text", "text": prose(random, LINE - 740)},
            {
                "type": "tool_use",
                "id": call,
                "name": "Bash",
                "input": {"command": prose(random, LINE - 740)},
            },
        ):
            message = {
                "id": f"msg_{turn:020}",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [block],
                "stop_reason": None,
                "usage": usage,
            }
            yield frame("assistant", message, requestId=f"req_{turn:020}")
        result = prose(random, (LINE - 350) // 2)
        content = [{"tool_use_id": call, "type": "tool_result", "content": result}]
        kept = {"stdout": result, "stderr": "", "interrupted": False}
        yield frame("user", {"role": "user", "content": content}, toolUseResult=kept)


def codex(random: Random) -> Iterator[dict[str, object]]:
    """Turns of a rollout: reasoning, calls, outputs, token counts."""
    n = 0

    def record(kind: str, payload: dict[str, object]) -> dict[str, object]:
        nonlocal n
        n += 1
        at = f"2026-05-05T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}.{n % 1000:03}Z"
        return {"timestamp": at, "type": kind, "payload": payload}

    yield record(
        "session_meta", {"id": THREAD, "cwd": "/home/dev/project", "cli_version": "0.40.0"}
    )
    yield record("turn_context", {"turn_id": "t1", "model": "gpt-5-codex"})
    turn, total = 0, 0
    while True:
        turn += 1
        call = f"call_{turn:020}"
        secret = b64encode(random.randbytes(900)).decode()
        yield record(
            "response_item",
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": prose(random, LINE - 750)}],
                "encrypted_content": secret,
            },
        )
        asked = orjson.dumps({"command": ["bash", "-lc", prose(random, LINE + 360)]}).decode()
        yield record(
            "response_item",
            {"type": "function_call", "name": "shell", "arguments": asked, "call_id": call},
        )
        output = orjson.dumps(
            {
                "output": prose(random, LINE + 360),
                "metadata": {"exit_code": 0, "duration_seconds": 0.2},
            }
        ).decode()
        yield record(
            "response_item", {"type": "function_call_output", "call_id": call, "output": output}
        )
        total += 3000
        usage = {
            "input_tokens": total,
            "cached_input_tokens": total // 2,
            "output_tokens": total // 50,
        }
        yield record(
            "event_msg",
            {
                "type": "token_count",
                "info": {"total_token_usage": usage, "last_token_usage": usage},
            },
        )


def images(random: Random) -> Iterator[dict[str, object]]:
    """A rollout of screenshots, a megabyte each."""
    records = codex(random)
    yield next(records)
    while True:
        yield next(records)
        url = "data:image/png;base64," + b64encode(random.randbytes(750_000)).decode()
        content = [{"type": "input_image", "image_url": url}]
        yield {
            "timestamp": "2026-05-05T09:00:00.000Z",
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": content},
        }


TABLES = """
CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT,
    version TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER,
    time_updated INTEGER, data TEXT);
CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
    time_updated INTEGER, data TEXT);
CREATE INDEX parts ON part(session_id);
CREATE INDEX messages ON message(session_id);
"""
TURNS = 60
"""Turns of one session of OpenCode."""


def opencode(random: Random) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Sessions: for each row its table, its session and its data; parts follow their message."""
    tokens = {"input": 3, "output": 120, "reasoning": 0, "cache": {"read": 14566, "write": 181}}
    number = 0
    while True:
        number += 1
        session, at = f"ses_{number:026}", 1_780_000_000_000 + number * 1000
        user = {"role": "user", "time": {"created": at}, "agent": "build"}
        yield "message", session, user
        yield "part", session, {"type": "text", "text": prose(random, 1500)}
        for turn in range(TURNS):
            times = {"created": at + turn, "completed": at + turn}
            model = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
            yield (
                "message",
                session,
                {"role": "assistant", "time": times, "tokens": tokens, **model},
            )
            yield "part", session, {"type": "text", "text": prose(random, LINE - 740)}
            state = {
                "status": "completed",
                "input": {"command": prose(random, LINE - 740)},
                "output": prose(random, LINE - 350),
                "metadata": {"exit": 0},
                "time": {"start": at + turn, "end": at + turn},
            }
            call = {"type": "tool", "callID": f"toolu_{turn:020}", "tool": "bash", "state": state}
            yield "part", session, call
            yield "part", session, {"type": "step-finish", "cost": 0.01, "tokens": tokens}


def write_database(path: Path, size: int) -> int:
    """Write a database of OpenCode; `size` counts the data of its rows."""
    written = rows = 0
    message = last = ""
    with closing(sqlite3.connect(path)) as made:
        made.executescript(TABLES)
        for table, session, data in opencode(Random(7)):
            if written >= size:
                break
            text = orjson.dumps(data).decode()
            written, rows = written + len(text), rows + 1
            if session != last:
                row = (session, "global", None, "/home/dev/project", session, "1.2.15", rows, rows)
                made.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                last = session
            if table == "message":
                message = f"msg_{rows:026}"
                made.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)",
                             (message, session, rows, rows, text))  # fmt: skip
            else:
                made.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)",
                             (f"prt_{rows:026}", message, session, rows, rows, text))  # fmt: skip
        made.commit()
    return rows


def write(path: Path, records: Iterator[dict[str, object]], size: int) -> int:
    written = lines = 0
    with path.open("wb", buffering=1 << 20) as file:
        while written < size:
            line = orjson.dumps(next(records)) + b"\n"
            file.write(line)
            written, lines = written + len(line), lines + 1
    return lines


def parse(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def timed(action: Callable[[], object]) -> float:
    """The seconds of one core that it takes."""
    start = time.process_time()
    action()
    return time.process_time() - start


def bring(path: Path, home: Path) -> None:
    """Imports one file, in this process; the last line says how much memory it took."""
    from tracklog.formats.importing import Importing  # noqa: PLC0415
    from tracklog.home.home import Home  # noqa: PLC0415  # only the child needs it

    start, used = time.perf_counter(), time.process_time()
    with Home(home) as opened:
        summary = Importing(opened).bring([path])
    took, used = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = peak // 1024 if sys.platform == "darwin" else peak  # kilobytes, but bytes on macOS
    caught_up = time.process_time()
    with Home(home) as opened:
        opened.index.catch_up()
    caught_up = time.process_time() - caught_up
    print(
        took,
        used,
        peak,
        caught_up,
        summary.lines["accepted"],
        summary.lines["refused"],
        summary.unchanged,
    )


def child(path: Path, home: Path) -> list[float]:
    command = [sys.executable, __file__, str(path), str(home)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in said.split()]


FILES = {
    "claude": (f"{SESSION}.jsonl", claude),
    "codex": (f"rollout-2026-05-05T09-00-00-{THREAD}.jsonl", codex),
    "images": (f"rollout-2026-05-05T09-00-00-{THREAD}.jsonl", images),
    "opencode": ("opencode.db", None),
}
"""Each source with the name of its file, and its lines; None for the database."""
LEAST = {"claude": 30, "codex": 30, "opencode": 15}
"""The least megabytes per second of a core."""


def main() -> None:
    size = MEGABYTES * 1_000_000
    for name, (file, shape) in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            path, home = Path(folder) / file, Path(folder) / "home"
            lines = write(path, shape(Random(7)), size) if shape else write_database(path, size)
            plain = timed(lambda path=path: parse(path)) if shape else None
            took, used, peak, caught_up, accepted, refused, _ = child(path, home)
            again, _, _, _, more, _, unchanged = child(path, home)
            assert refused == more == 0
            assert unchanged == 1
            speed, wall = size / 1e6 / used, size / 1e6 / took
            each = f"{lines:,} records, {int(accepted):,} lines, {wall:.1f} MB/s by the clock"
            print(
                f"  {name:<8} {speed:7.1f} MB per second of a core, {peak / 1024:.0f} MB ({each})"
            )
            if name in LEAST:
                goal(f"import {name}, per second of a core", speed, "MB", at_least=LEAST[name])
                goal(f"import {name} with its index", size / 1e6 / (used + caught_up), "MB",
                     at_least=LEAST[name] / 2)  # fmt: skip
            if plain is not None:
                goal(f"import {name} ÷ read and parse it", plain / used, at_least=0.05)
            goal(f"import {name}, peak memory", peak / 1024, "MB", at_most=200)
            goal(f"import {name} again", again, "s", at_most=1)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        bring(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        main()
