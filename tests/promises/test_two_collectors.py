"""Two collectors on one home and one batch key: a thousand races, some with other lines or a kill.

Both get the whole request but its last byte, and then that byte: they begin the batch at once.
"""

import contextlib
import random
import signal
import threading
from typing import NamedTuple

import orjson
import pytest

from promises.command import Serving, head, run
from support.collecting import tool
from support.soaking import SEED, SOAK

RACES = 1_000 * SOAK
KILLS = 8 * SOAK
"""So often one of the two is killed in the middle of a request."""

pytestmark = pytest.mark.long


class Answer(NamedTuple):
    status: int
    body: dict

    @property
    def first(self) -> bool:
        """Whether this answer is to the batch that was recorded, not to a repetition of it."""
        return self.status == 200 and "replayed" not in self.body

    def repeats(self, other: "Answer") -> bool:
        """Whether both are the answer to one batch: the same counts, the same numbers."""
        same = self.body | {"replayed": True} == other.body | {"replayed": True}
        return self.status == other.status == 200 and same


class Line:
    """One connection to a collector that stays open; an answer that never comes is None."""

    def __init__(self, server: Serving) -> None:
        self.socket = server.raw()
        self.file = self.socket.makefile("rb")

    def begin(self, request: bytes) -> None:
        self._send(request[:-1])

    def finish(self, request: bytes) -> None:
        self._send(request[-1:])

    def _send(self, part: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # it was killed before it had read all
            self.socket.sendall(part)

    def answer(self) -> Answer | None:
        try:
            status = self.file.readline().split()
            if len(status) < 2:
                return None
            headers = dict(
                line.lower().split(b": ", 1) for line in iter(self.file.readline, b"\r\n")
            )
            body = self.file.read(int(headers[b"content-length"]))
            assert b"tracklog-protocol" in headers
            return Answer(int(status[1]), orjson.loads(body))
        except ConnectionError:
            return None

    def post(self, request: bytes) -> Answer | None:
        self.begin(request)
        self.finish(request)
        return self.answer()

    def close(self) -> None:
        self.file.close()
        self.socket.close()


class Pair:
    """Two collectors on one home, and a connection to each."""

    def __init__(self, home) -> None:
        self.home = home
        self.servers = [Serving(home) for _ in range(2)]
        self.lines = [Line(server) for server in self.servers]

    def race(self, one: bytes, other: bytes) -> list[Answer | None]:
        for line, request in zip(self.lines, (one, other), strict=True):
            line.begin(request)
        for line, request in zip(self.lines, (one, other), strict=True):
            line.finish(request)
        return [line.answer() for line in self.lines]

    def replace(self, place: int) -> None:
        """Starts another collector where one was killed; that may take longer than an idle
        connection to the other one is held."""
        for line in self.lines:
            line.close()
        self.servers[place].stop()
        self.servers[place] = Serving(self.home)
        self.lines = [Line(server) for server in self.servers]

    def stop(self) -> None:
        for line, server in zip(self.lines, self.servers, strict=True):
            line.close()
            server.stop()


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path / "home")
    yield made
    made.stop()


def batch(turn: int, count: int, word: str = "") -> list[bytes]:
    """Lines without an identity: only the key can tell that they are sent again."""
    return [tool("races", step=turn, output=f"{turn} {n}{word}") for n in range(count)]


def post(key: str, lines: list[bytes]) -> bytes:
    body = b"\n".join(lines)
    headers = ("Content-Type: application/x-ndjson", f"Content-Length: {len(body)}")
    return head("POST", f"/api/events/kahn-agent?batch={key}", *headers) + body


@pytest.mark.promise(
    "Several collectors on one home know each other's batch keys",
)
@pytest.mark.promise(
    "A batch that is sent again with its key gets the first answer again",
)
@pytest.mark.promise(
    "A batch that has the key of another batch is refused with 409",
)
def test_a_key_that_is_sent_to_both_at_once_is_recorded_once(pair, tally):
    """Every fifth time they get other lines; every tenth time both are asked again."""
    recorded = []
    for turn in range(RACES):
        same = turn % 5 != 4
        lines = [batch(turn, 3), batch(turn, 3, "" if same else " other")]
        requests = [post(f"k{turn}", each) for each in lines]
        answers = pair.race(*requests)
        won = 0 if answers[0].first else 1
        assert answers[won].first, answers
        assert answers[won].body["accepted"] == 3
        if same:
            assert answers[1 - won].body["replayed"] is True
            assert answers[1 - won].repeats(answers[won])
        else:
            assert answers[1 - won].status == 409
            assert answers[1 - won].body["hint"]
        recorded += lines[won]
        tally.add(races=1, acknowledged=3)
        if turn % 10 in (3, 4):
            for line in pair.lines:
                again = line.post(requests[won])
                assert again.body["replayed"] is True
                assert again.repeats(answers[won])
                other = post(f"k{turn}", batch(turn, 3, " another"))
                assert line.post(other).status == 409
    judged(pair, recorded, tally)
    tally.done("two collectors, one key")


@pytest.mark.promise(
    "Several collectors on one home know each other's batch keys",
)
@pytest.mark.promise(
    "A batch that is sent again with its key gets the first answer again",
)
def test_a_key_survives_a_failover_in_the_middle(pair, tally):
    """One of the two is killed while it works on the batch; the other one gets it again, or too."""
    chance, recorded = random.Random(SEED), []
    for turn in range(KILLS):
        lines = batch(turn, 2_000)
        request = post(f"f{turn}", lines)
        victim = turn % 2
        line, other = pair.lines[victim], pair.lines[1 - victim]
        kill = threading.Timer(
            0.08 * turn / KILLS, pair.servers[victim].process.send_signal, [signal.SIGKILL]
        )
        both = chance.random() < 0.5
        kill.start()
        if both:
            early, first = pair.race(request, request)[:: -1 if victim else 1]
        else:
            early = line.post(request)
        kill.join()
        if not both:
            first = other.post(request)
        assert (first.status, first.body["accepted"]) == (200, len(lines)), first
        assert early is None or early.repeats(first), "what was acknowledged is what is repeated"
        pair.replace(victim)
        for each in pair.lines:
            again = each.post(request)
            assert again.body["replayed"] is True
            assert again.repeats(first)
            assert each.post(post(f"f{turn}", lines[1:])).status == 409
        recorded += lines
        tally.add(kills=1, inside=early is None, races=both, acknowledged=len(lines))
    judged(pair, recorded, tally)
    tally.done("two collectors, failover")
    assert tally.counts["inside"] > 0, "no kill hit a request: the aim is off"


def judged(pair: Pair, recorded: list[bytes], tally) -> None:
    """Counts what is missing and what is there twice, as both collectors and `verify` see it."""
    for server in pair.servers:
        assert server.get("/api/events").json()["last"] == len(recorded)
    done = run("events", "races", "--raw", "--home", pair.home)
    there = done.stdout.split(b"\n")[:-1]
    tally.add(lost=len(set(recorded) - set(there)), doubled=len(there) - len(set(there)))
    assert there == recorded
    assert run("verify", "--home", pair.home).returncode == 0
