"""Kills aimed at large writes, for every way in: what was acknowledged is there, a retry is exact.

A kill hits a process inside the write of a group of several megabytes, as a file system stops it
between two pages. Then the same is sent again, under its key, from its file, or by its spool, and
every line must be there exactly once.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import httpx
import orjson
import pytest

from support.collecting import lasting_port
from support.plain_http import NO_CERTIFICATES
from support.sessions import SESSION, claude
from support.soaking import SEED, SOAK
from support.tallying import Tally
from tracklog.home.home import Home
from tracklog.journal.verify import verify

TRACKLOG = str(Path(sys.executable).with_name("tracklog"))
CONTRACTS = Path(__file__).parents[2] / "contracts"
ENV = {name: value for name, value in os.environ.items() if not name.startswith("TRACKLOG")}
LINES = 6_000
"""Of about 700 bytes each: a group of four megabytes."""
NDJSON = {"Content-Type": "application/x-ndjson"}

pytestmark = pytest.mark.long


def line(number: int) -> bytes:
    """A line without identity: only its key, its place or its spool tells a retry."""
    return (
        b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"agent_run_start",'
        b'"agent_id":"a","task":"%d %b"}' % (number, b"x" * 560)
    )


def inside(home: Path) -> int:
    """How many kills hit a write: half a group was found, and set aside."""
    return len(list((home / "quarantine").glob("*.torn*")))


def aimed(home: Path, turns: int) -> Iterator[int]:
    """So many turns, each with a kill that is aimed at a write, or more until one has hit it."""
    for turn in range(20 * turns * SOAK):
        if turn >= turns * SOAK and inside(home):
            break
        yield turn


def finished(home: Path, tally: Tally, way: str) -> None:
    tally.add(inside=inside(home))
    tally.done(way)
    assert tally.counts["inside"] > 0, "no kill hit a write: the aim is off"


def started(*arguments: object, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [TRACKLOG, *map(str, arguments)],
        env=ENV,
        stdin=options.pop("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def run(*arguments: object, **options) -> int:
    with started(*arguments, **options) as process:
        process.communicate(timeout=300)
        return process.returncode


def size_of(home: Path) -> int:
    """Bytes of all segments."""
    return sum(path.stat().st_size for path in (home / "journal").glob("*.jsonl"))


def kill_in_a_write(
    process: subprocess.Popen, home: Path, group: int, chance: random.Random
) -> None:
    """Kills it when the journal has grown by a part of a group."""
    before, wanted = size_of(home), chance.uniform(0, 0.7) * group
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if size_of(home) - before > wanted:
            break
        time.sleep(0.0002)  # a busy loop would take the processor from whom it waits for
    process.send_signal(signal.SIGKILL)
    process.wait(30)


def judged(home: Path, expected: list[bytes], tally: Tally) -> None:
    """Counts what is missing and what is there twice, and proves the journal."""
    with Home(home, readonly=True, index="sqlite::memory:") as opened:
        records = list(opened.journal.records())
    assert [each.seq for each in records] == list(range(1, len(records) + 1))
    there, wanted = Counter(each.line for each in records), Counter(expected)
    tally.add(lost=(wanted - there).total(), doubled=(there - wanted).total())
    assert verify(home).faults == []


class Server:
    """`tracklog serve` on a port of its own."""

    def __init__(self, home: Path, *, port: int = 0, durability: str = "os") -> None:
        self.process = started("serve", "--home", home, "--port", port, "--durability", durability)
        said = self.process.stdout.readline()
        found = re.search(rb"http://[^\s:]+:(\d+)", said)
        assert found, (said, self.process.stderr.read())
        self.url, self.port = found[0].decode(), int(found[1])

    def post(self, lines: list[bytes], key: str) -> httpx.Response:
        with httpx.Client(timeout=120, trust_env=False, verify=NO_CERTIFICATES) as client:
            return client.post(
                f"{self.url}/api/events/kahn-agent",
                params={"batch": key},
                content=b"\n".join(lines),
                headers=NDJSON,
            )

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=60)


@pytest.mark.parametrize("durability", ["sync", "os"])
@pytest.mark.promise(
    "The accepted lines of a batch are recorded completely or not at all",
)
@pytest.mark.promise(
    "A batch that is sent again with its key",
)
@pytest.mark.promise(
    "Several collectors on one home know each other's batch keys",
)
def test_serve(tmp_path, tally, durability):
    """The retry goes to the one that is started next, or to another that runs beside it."""
    chance = random.Random(SEED)
    home, expected = tmp_path / "home", []
    group = LINES * (len(line(1)) + 110)
    beside = Server(home, durability=durability)
    for turn in aimed(home, 4):
        batch = [line(turn * LINES + n) for n in range(LINES)]
        expected += batch
        server = Server(home, durability=durability)
        code = (
            "import sys, httpx; "
            "httpx.post(sys.argv[1], content=open(sys.argv[2], 'rb').read(), timeout=60,"
            "headers={'Content-Type': 'application/x-ndjson'})"
        )
        body = tmp_path / "body"
        body.write_bytes(b"\n".join(batch))
        url = f"{server.url}/api/events/kahn-agent?batch=k{turn}"
        sender = subprocess.Popen(
            [sys.executable, "-c", code, url, str(body)], env=ENV, stderr=subprocess.DEVNULL
        )
        kill_in_a_write(server.process, home, group, chance)
        server.stop()
        sender.wait(60)
        tally.add(kills=1)
        server = Server(home, durability=durability) if turn % 2 else beside
        first = server.post(batch, f"k{turn}")
        assert first.status_code == 200
        assert (first.json()["accepted"], first.json()["duplicate"]) == (LINES, 0)
        again = server.post(batch, f"k{turn}")
        assert again.json() | {"replayed": True} == first.json() | {"replayed": True}
        assert again.json()["replayed"] is True
        assert server.post(batch[:-1], f"k{turn}").status_code == 409
        tally.add(acknowledged=LINES)
        if server is not beside:
            server.stop()
    beside.stop()
    judged(home, expected, tally)
    finished(home, tally, f"serve, {durability}")


@pytest.mark.parametrize("verb", ["record", "record --key", "follow --once"])
@pytest.mark.promise(
    "The accepted lines of a batch are recorded completely or not at all",
)
@pytest.mark.promise("`follow` and `record FILE` store their offset")
@pytest.mark.promise(
    "With `record --key KEY` a pipe continues where it stopped",
)
def test_a_file(tmp_path, tally, verb):
    """Killed in the middle, begun again until it ends, and once more after that."""
    chance = random.Random(SEED)
    home, folder = tmp_path / "home", tmp_path / "logs"
    folder.mkdir()
    path = folder / "run.jsonl"
    lines = []

    def begin() -> subprocess.Popen:
        if verb == "record --key":
            with path.open("rb") as file:
                return started("record", "--home", home, "--key", "k", stdin=file)
        name = folder if verb.startswith("follow") else path
        return started(*verb.split(), name, "--home", home)

    for turn in aimed(home, 4):
        more = [line(turn * LINES + n) for n in range(LINES)]
        lines += more
        with path.open("ab") as file:
            file.writelines(each + b"\n" for each in more)
        process = begin()
        kill_in_a_write(process, home, 200 << 10, chance)
        process.communicate()
        tally.add(kills=1)
    for _ in range(2):
        process = begin()
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
    tally.add(acknowledged=len(lines))
    judged(home, lines, tally)
    finished(home, tally, verb)


@pytest.mark.promise(
    "The accepted lines of a batch are recorded completely or not at all",
)
def test_import(tmp_path, tally):
    chance = random.Random(SEED)
    home, path = tmp_path / "home", tmp_path / f"{SESSION}.jsonl"
    session = claude()
    for _ in aimed(home, 3):
        with path.open("ab") as file:
            file.writelines(orjson.dumps(each) + b"\n" for each in islice(session, 2000))
        process = started("import", path, "--home", home)
        kill_in_a_write(process, home, 500 << 10, chance)
        process.communicate()
        tally.add(kills=1)
    for _ in range(2):
        assert run("import", path, "--home", home) == 0
    assert run("import", path, "--home", tmp_path / "whole") == 0
    with Home(tmp_path / "whole", readonly=True, index="sqlite::memory:") as opened:
        whole = [each.line for each in opened.journal.records()]
    tally.add(acknowledged=len(whole))
    judged(home, whole, tally)
    finished(home, tally, "import")


EMIT = """
import sys
sys.path.insert(0, sys.argv[1])
import kahn_agent_emit
with kahn_agent_emit.AgentEmitter(run_id="r1", url=sys.argv[2]) as run:
    agent = run.bind(agent_id="a")
    for number in range(int(sys.argv[3]), int(sys.argv[4])):
        agent.agent_run_start(task=f"{number} " + "x" * 560)
"""


FORWARD = """
import sys
sys.path.insert(0, sys.argv[1])
from kahn_agent_emit import HttpSink
sys.exit(0 if HttpSink(sys.argv[2]).flush(100) else 1)
"""


TS_EMIT = """
import { AgentEmitter } from "@tracklog/contracts/emit";
const [url, start, stop] = process.argv.slice(1);
const run = new AgentEmitter(undefined, { url, runId: "r1" }).bind({ agent_id: "a" });
for (let n = Number(start); n < Number(stop); n++) {
  run.agentRunStart({ task: `${n} ${"x".repeat(560)}` });
  if (n % 100 === 0) await new Promise((then) => setImmediate(then));
}
"""


TS_FORWARD = """
import { HttpSink } from "@tracklog/contracts/emit";
process.exit((await new HttpSink(process.argv[1]).flush(100)) ? 0 : 1);
"""


@pytest.mark.parametrize("language", ["Python", "TypeScript"])
@pytest.mark.promise(
    "A line is in a private file before the call returns",
    "It survives `kill -9` of the program",
)
def test_an_emitter(tmp_path, tally, language):
    """The collector is killed inside a write; the spool sends again what was not acknowledged."""
    chance = random.Random(SEED)
    home, port, count, emitted = tmp_path / "home", lasting_port(), 5_000, 0
    env = {**ENV, "TRACKLOG_SPOOL": str(tmp_path / "spool")}
    server = Server(home, port=port)

    def begin(python: str, typescript: str, *given: int) -> subprocess.Popen:
        words, folder = [sys.executable, "-c", python, str(CONTRACTS)], CONTRACTS
        if language == "TypeScript":
            words, folder = ["node", "--input-type=module", "-e", typescript], CONTRACTS / "ts"
        words += [server.url, *map(str, given)]
        return subprocess.Popen(words, env=env, cwd=folder, stderr=subprocess.DEVNULL)

    for _ in aimed(home, 3):
        program = begin(EMIT, TS_EMIT, emitted, emitted + count)
        emitted += count
        kill_in_a_write(server.process, home, 500 << 10, chance)
        server.stop()
        assert program.wait(120) == 0
        tally.add(kills=1)
        server = Server(home, port=port)
    assert begin(FORWARD, TS_FORWARD).wait(120) == 0
    server.stop()
    numbers = Counter()
    with Home(home, readonly=True, index="sqlite::memory:") as opened:
        for record in opened.journal.records():
            numbers[int(orjson.loads(record.line)["task"].split()[0])] += 1
    tally.add(
        acknowledged=numbers.total(),
        lost=len(set(range(emitted)) - set(numbers)),
        doubled=numbers.total() - len(numbers),
    )
    assert verify(home).faults == []
    finished(home, tally, f"emitter, {language}")
