"""The section "Record numbers"."""

import subprocess
import threading

import orjson
import pytest

from promises.command import TRACKLOG, Serving, environment, run
from support.collecting import tool

LINES, WRITERS = 300, 3


@pytest.mark.promise("`seq` starts at 1, has no gaps")
@pytest.mark.promise("Many processes may write to one home at the same time")
@pytest.mark.promise(
    "A reader that always asks for the records after the last number",
)
def test_many_writers_share_one_series_and_a_reader_misses_none(tmp_path):
    """Three commands and two collectors write at the same time, each 300 lines in small batches."""
    home = tmp_path / "home"
    sent = {f"w{n}": [tool(f"w{n}", step=k) for k in range(LINES)] for n in range(WRITERS + 2)}
    with Serving(home, "--durability", "os") as one, Serving(home, "--durability", "os") as other:
        read, done = [], threading.Event()

        def follow() -> None:
            after = 0
            while True:
                finished = done.is_set()
                events = other.get(f"/api/events?after={after}&limit=70").json()["events"]
                read.extend(events)
                after = events[-1]["seq"] if events else after
                if finished and not events:
                    return

        reader = threading.Thread(target=follow)
        reader.start()
        commands = []
        for n in range(WRITERS):
            words = [TRACKLOG, "record", "--home", str(home), "--durability", "os", "--json"]
            process = subprocess.Popen(
                [*words, "--dialect", "kahn-agent"],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            process.stdin.write(sent[f"w{n}"][0] + b"\n")
            process.stdin.flush()
            commands.append(process)

        def post(server: Serving, run: str) -> None:
            for at in range(0, LINES, 10):
                assert server.post(sent[run][at : at + 10]).status_code == 200

        posts = [
            threading.Thread(target=post, args=(server, f"w{WRITERS + n}"))
            for n, server in enumerate((one, other))
        ]
        for each in posts:
            each.start()
        for at in range(1, LINES, 13):
            for n, process in enumerate(commands):
                process.stdin.write(b"\n".join(sent[f"w{n}"][at : at + 13]) + b"\n")
                process.stdin.flush()
        for process in commands:
            process.communicate(timeout=120)
            assert process.returncode == 0
        for each in posts:
            each.join(120)
        done.set()
        reader.join(120)
    total = LINES * (WRITERS + 2)
    assert [event["seq"] for event in read] == list(range(1, total + 1))
    for name, lines in sent.items():
        steps = [event["event"]["step"] for event in read if event["run"] == name]
        assert steps == list(range(len(lines))), "the order of one writer is kept"
    stored = [
        orjson.loads(line)["seq"]
        for path in sorted((home / "journal").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    assert stored == list(range(1, total + 1)), "the order of the file"
    assert run("verify", "--home", home).returncode == 0


@pytest.mark.promise(
    "A reader that always asks for the records after the last number",
)
def test_events_after_a_number(tmp_path):
    lines = [tool("r", step=n) for n in range(5)]
    run("record", "--home", tmp_path, input=b"\n".join(lines))
    done = run("events", "r", "--after", 3, "--json", "--home", tmp_path)
    assert [orjson.loads(line)["seq"] for line in done.stdout.splitlines()] == [4, 5]
