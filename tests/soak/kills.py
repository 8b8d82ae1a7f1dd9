"""Kill a program that records, again and again, and count what is lost or recorded twice.

Each turn has a home of its own. What was acknowledged is remembered here; what was not is sent
again, under its key, to the program that is started next. In the end each line must be there once.
"""

import json
import os
import random
import selectors
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import tracklog.cli
import tracklog.collector.server  # so that no child imports it for itself
from tracklog.home.home import Home
from tracklog.home.registry import dialect
from tracklog.intake.intake import Intake
from tracklog.journal.journal import Journal
from tracklog.journal.stores.file import FileStore
from tracklog.journal.verify import verify

LARGE, LONG = 4_000, 2_000
"""Lines, and bytes of each, of a batch that a kill is aimed at: eight megabytes."""
PATIENCE = 120.0


def line(number: int, pad: int) -> bytes:
    """A line without an id: only the key of its batch can tell a retry."""
    return (
        b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"agent_run_start",'
        b'"agent_id":"a","task":"%d %b"}' % (number, b"x" * pad)
    )


class Batches:
    """The batches of a turn, by number; those that were acknowledged."""

    def __init__(self, seed: str, *, large: bool) -> None:
        self._chance = random.Random(seed)
        self._large = large
        self._starts = [0]
        self.acknowledged: set[int] = set()

    def lines(self, number: int) -> list[bytes]:
        while len(self._starts) < number + 2:
            size = LARGE if self._large else self._chance.choice((1, 1, 3, 10, 40))
            self._starts.append(self._starts[-1] + size)
        numbers = range(self._starts[number], self._starts[number + 1])
        return [line(each, LONG if self._large else 20) for each in numbers]

    @property
    def unsure(self) -> list[int]:
        """What was perhaps sent, and not acknowledged."""
        most = max(self.acknowledged, default=-1)
        return [each for each in range(most + 1) if each not in self.acknowledged]

    @property
    def next(self) -> int:
        return max(self.acknowledged, default=-1) + 1

    def expected(self) -> Counter[bytes]:
        return Counter(each for number in self.acknowledged for each in self.lines(number))


def forked(run, *arguments) -> int:
    """A process that does this and nothing else."""
    parent = os.getpid()
    if child := os.fork():
        return child
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        run(*arguments)
    except BaseException as error:  # noqa: BLE001  # nothing may go on as the parent
        if not isinstance(error, SystemExit):
            print(f"the program that was to be killed failed: {error!r}", file=sys.stderr)
    os._exit(1)


def _end_with(parent: int) -> None:
    """Whoever stops the soak stops what it started."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def ended(child: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def size_of(home: Path) -> int:
    with suppress(OSError):
        found = (entry for entry in os.scandir(home / "journal") if entry.name.endswith(".jsonl"))
        return sum(entry.stat().st_size for entry in found)
    return 0


def wait_to_be_inside(home: Path, before: int, chance: random.Random, seconds: float) -> None:
    """Until the journal has grown by a part of a large batch."""
    wanted = before + chance.uniform(0, 0.7) * LARGE * LONG
    until = time.monotonic() + seconds
    while size_of(home) <= wanted and time.monotonic() < until:
        time.sleep(0.0002)  # a busy loop would take the processor from whom it waits for


def aside(home: Path) -> int:
    """How many halves of a group were found and set aside."""
    with suppress(OSError):
        return sum(1 for _ in (home / "quarantine").iterdir())
    return 0


class Writer:
    """A process that only appends, each batch synced before it is acknowledged."""

    def __init__(self, home: Path, batches: Batches) -> None:
        self.home, self.batches = home, batches
        first, again = batches.next, random.random() < 0.2
        numbers = [first - 1] if again and first else []
        self._pipe, told = os.pipe()
        self.process = forked(self._write, told, [*batches.unsure, *numbers], first)
        os.close(told)
        self._watching = selectors.DefaultSelector()
        self._watching.register(self._pipe, selectors.EVENT_READ)

    def _write(self, told: int, again: list[int], first: int) -> None:
        store = FileStore(self.home)
        intake = Intake(Journal(store), [dialect("kahn-agent")])
        os.write(told, struct.pack("<q", -1))
        for number in [*again, *range(first, first + 100_000)]:
            lines = self.batches.lines(number)
            verdicts = intake.admit(lines, "kahn-agent", batch=f"k{number}")
            assert [each.verdict for each in verdicts] == ["accepted"] * len(lines)
            os.write(told, struct.pack("<q", number))

    def run(self, seconds: float, *, least: int) -> None:
        """Let it work so long, and until it has acknowledged so many batches."""
        until, got = time.monotonic() + seconds, 0
        give_up = time.monotonic() + PATIENCE
        while (left := until - time.monotonic()) > 0 or got < least:
            if time.monotonic() > give_up:
                raise AssertionError(f"{self.home}: no batch was acknowledged in {PATIENCE} s")
            if self._watching.select(max(0.0005, left)):
                got += self._take()

    def aim(self, chance: random.Random) -> None:
        wait_to_be_inside(self.home, size_of(self.home), chance, PATIENCE)

    def _take(self) -> int:
        heard = os.read(self._pipe, 8 * 64)
        if not heard:
            raise AssertionError(f"{self.home}: the writer ended by itself")
        numbers = [number for (number,) in struct.iter_unpack("<q", heard)]
        self.batches.acknowledged.update(number for number in numbers if number >= 0)
        return sum(number >= 0 for number in numbers)

    def kill(self) -> None:
        ended(self.process)
        while self._watching.select(0) and (heard := os.read(self._pipe, 8 * 64)):
            whole = heard[: len(heard) // 8 * 8]
            numbers = [number for (number,) in struct.iter_unpack("<q", whole)]
            self.batches.acknowledged.update(number for number in numbers if number >= 0)
        self._watching.close()
        os.close(self._pipe)


class Request:
    """A connection that sends one batch at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.number: int | None = None
        self._heard = b""

    def send(self, number: int, lines: list[bytes]) -> None:
        body = b"\n".join(lines)
        head = f"POST /api/events/kahn-agent?batch=k{number} HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
        self.number, self._heard = number, b""
        with suppress(OSError):
            self.socket.sendall(head.encode() + body)

    def hear(self) -> int | None:
        """The status of the answer, once all of it is there; 0 if the connection ended."""
        try:
            heard = self.socket.recv(1 << 16)
        except OSError:
            return 0
        if not heard:
            return 0
        self._heard += heard
        head, end, body = self._heard.partition(b"\r\n\r\n")
        size = next(
            (
                int(each[15:])
                for each in head.lower().split(b"\r\n")
                if each[:15] == b"content-length:"
            ),
            0,
        )
        if not end or len(body) < size:
            return None
        status = int(head.split(b" ", 2)[1])
        if status == 200 and json.loads(body)["accepted"] == 0:
            raise AssertionError(f"batch {self.number}: {body[:300]!r}")
        return status


class Server:
    """`tracklog serve`, with three connections that send to it."""

    def __init__(self, home: Path, batches: Batches) -> None:
        self.home, self.batches = home, batches
        self.others: Counter[str] = Counter()
        heard, said = os.pipe()
        self.process = forked(self._serve, said)
        os.close(said)
        with os.fdopen(heard, "rb") as file:
            told = file.readline().decode()
        if "http://" not in told:
            raise AssertionError(f"{home}: it did not start: {told!r}")
        self.port = port = int(told.partition("http://127.0.0.1:")[2].split()[0])
        self._watching = selectors.DefaultSelector()
        self._requests = [Request(port) for _ in range(3)]
        for request in self._requests:
            self._watching.register(request.socket, selectors.EVENT_READ, request)
        self._numbers = iter([*batches.unsure, *range(batches.next, batches.next + 100_000)])

    def _serve(self, said: int) -> None:
        with self.home.with_suffix(".log").open("ab") as log:
            os.dup2(said, 1)
            os.dup2(log.fileno(), 2)
        sys.argv = ["tracklog", "serve", "--home", str(self.home), "--port", "0"]
        tracklog.cli.main()

    def run(self, seconds: float, *, least: int) -> None:
        until, got = time.monotonic() + seconds, 0
        give_up = time.monotonic() + PATIENCE
        while (left := until - time.monotonic()) > 0 or got < least:
            if time.monotonic() > give_up:
                raise AssertionError(f"{self.home}: no batch was acknowledged in {PATIENCE} s")
            self._send(self._requests)
            for key, _ in self._watching.select(max(0.0005, left)):
                got += self._take(key.data)

    def aim(self, chance: random.Random) -> None:
        before = size_of(self.home)
        self._send(self._requests[:1])
        wait_to_be_inside(self.home, before, chance, 20)

    def _send(self, requests: list[Request]) -> None:
        for request in requests:
            if request.number is None:
                number = next(self._numbers)
                request.send(number, self.batches.lines(number))

    def _take(self, request: Request) -> int:
        status = request.hear()
        if status == 0:
            raise AssertionError(f"{self.home}: the server ended a connection")
        return 0 if status is None else self._judge(request, status)

    def _judge(self, request: Request, status: int) -> int:
        if status == 200:
            self.batches.acknowledged.add(request.number)
        else:
            self.others[f"{status // 100}xx"] += 1
        request.number = None
        return status == 200

    def kill(self) -> None:
        ended(self.process)
        for request in self._requests:  # what it said before its end counts
            while request.number is not None and (status := request.hear()) != 0:
                if status is not None:
                    self._judge(request, status)
            request.socket.close()
        self._watching.close()


def turn(program, number: int, kills: int, *, aimed: bool) -> Counter[str]:
    """Kill it so many times on one home, then judge what is there."""
    seed = f"{os.urandom(4).hex()} {number}"
    chance, counts = random.Random(seed), Counter[str]()
    batches = Batches(seed, large=aimed)
    with tempfile.TemporaryDirectory(prefix="tracklog-soak-") as folder:
        home = Path(folder) / "home"
        for _ in range(kills):
            begun = program(home, batches)
            if aimed:
                begun.aim(chance)
            elif chance.random() < 0.1:
                time.sleep(chance.uniform(0, 0.02))
            else:
                begun.run(chance.uniform(0, 0.04), least=chance.choice((0, 1, 1, 5)))
            begun.kill()
            counts.update({"kills": 1, "aimed": aimed})
            counts.update(getattr(begun, "others", {}))
        last = program(home, batches)
        last.run(0, least=len(batches.unsure) + 1)
        last.kill()
        counts.update(judged(home, batches))
        counts["inside"] += aside(home)
    counts["acknowledged"] = sum(len(batches.lines(each)) for each in batches.acknowledged)
    if counts["lost"] or counts["doubled"] or counts["faults"]:
        print(f"seed {seed!r}: {dict(counts)}", file=sys.stderr)
    return counts


def judged(home: Path, batches: Batches) -> dict[str, int]:
    """What is missing of what was acknowledged, what is there twice, and what `verify` finds.

    The last batches were perhaps written and not acknowledged: whole or absent, and never twice.
    """
    with Home(home, readonly=True, index="sqlite::memory:") as opened:
        records = [(each.seq, each.line) for each in opened.journal.records()]
    gaps = [seq for seq, _ in records] != list(range(1, len(records) + 1))
    there, wanted = Counter(line for _, line in records), batches.expected()
    more = there - wanted
    for number in [*batches.unsure, *range(batches.next, batches.next + 3)]:
        lines = Counter(batches.lines(number))
        if lines <= more:
            more -= lines
    found = verify(home)
    return {
        "lost": (wanted - there).total(),
        "doubled": more.total(),
        "faults": len(found.faults) + gaps,
    }


def writer(number: int) -> Counter[str]:
    """Kills of a process that only appends; a tenth is aimed at large writes."""
    aimed = number % 4 == 0
    return turn(Writer, number, 15 if aimed else 50, aimed=aimed)


def serve(number: int) -> Counter[str]:
    """Kills of `tracklog serve`; a fifth is aimed at large writes."""
    return turn(Server, number, 10, aimed=number % 5 == 0)
