"""The suites for a storage that many processes share, and that one of them may die while it writes."""

import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest

from tracklog.dialects import tracklog as native
from tracklog.home import registry
from tracklog.intake.intake import Intake
from tracklog.journal.journal import Journal
from tracklog.journal.storages import Storage
from tracklog.model.fact import Noted
from tracklog.testing.appending import lines_of

_APPENDING = """
import sys
from tracklog.testing.appending import append_groups
append_groups(*sys.argv[1:])
"""
_ADMITTING = """
import sys
from tracklog.dialects import tracklog as native
from tracklog.home import registry
from tracklog.intake.intake import Intake
from tracklog.journal.journal import Journal
from tracklog.testing.processes import same_lines
storage = registry.storage(sys.argv[1])
intake = Intake(Journal(storage.store), [native.dialect])
print("ready", flush=True)
sys.stdin.readline()
for batch in same_lines():
    print(*[each.verdict for each in intake.admit(batch, native.dialect.name)], flush=True)
storage.close()
"""


class Acknowledged(NamedTuple):
    """A group that a process says was stored."""

    run: str
    group: int
    first: int
    size: int


class _Shared(ABC):
    """What both suites need."""

    @abstractmethod
    def url(self, where: Path) -> str:
        """The URL of a storage of its own for this folder; the same for the same folder."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        url = self.url(tmp_path)
        registry.storage(url).close()
        return url

    def appending(self, place: str, run: str, *groups: str) -> "subprocess.Popen[str]":
        """A process that appends to a run, so many groups or until it is killed."""
        return _process(_APPENDING, place, run, *groups)

    def check(self, storage: Storage, acknowledged: list[Acknowledged]) -> None:
        """Every group is there from its first to its last line or not at all, and those that were
        acknowledged are there; numbers have no gaps, and the chain is unbroken.
        """
        groups: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        last = 0
        for entry in Journal(storage.store).records():
            assert entry.seq == last + 1
            last, line = entry.seq, orjson.loads(entry.line)
            groups.setdefault((entry.run, line["group"]), []).append((entry.seq, entry.line))
        for (_, group), rows in groups.items():
            assert [line for _, line in rows] == lines_of(group)
            assert [seq for seq, _ in rows] == [rows[0][0] + at for at in range(len(rows))]
        for run, group, first, size in acknowledged:
            assert groups[run, group][0][0] == first
            assert len(groups[run, group]) == size
        report = storage.verify()
        assert report.ok, report.faults
        assert report.records == last == storage.store.last


class ProcessSuite(_Shared):
    """The tests of a storage that many processes write to; subclass it and name its URL."""

    def test_two_processes_append_without_gaps(self, place: str) -> None:
        children = {run: self.appending(place, run, "60") for run in ("r1", "r2")}
        acknowledged = [
            Acknowledged(run, *map(int, line.split()))
            for run, child in children.items()
            for line in child.communicate(timeout=120)[0].splitlines()
        ]
        assert {child.returncode for child in children.values()} == {0}
        assert len(acknowledged) == 120
        storage = registry.storage(place)
        self.check(storage, acknowledged)
        assert storage.store.last == sum(group.size for group in acknowledged)
        storage.close()

    def test_what_one_process_acknowledges_another_reads_at_once(self, place: str) -> None:
        storage = registry.storage(place, readonly=True)
        child = self.appending(place, "r1", "40")
        assert child.stdout is not None
        for line in child.stdout:
            _, first, size = map(int, line.split())
            assert storage.store.wait(first + size - 2, 30)
            assert storage.store.last >= first + size - 1
            assert len(storage.store.read(first - 1, size)) == size
        assert child.wait(60) == 0
        child.stdout.close()
        storage.close()

    def test_two_processes_record_an_event_once(self, place: str) -> None:
        children = [_process(_ADMITTING, place, stdin=subprocess.PIPE) for _ in range(2)]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        answers: list[str] = []
        threads = [
            threading.Thread(target=lambda child=child: answers.append(child.communicate("\n")[0]))
            for child in children
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        verdicts = " ".join(answers).split()
        total = sum(map(len, same_lines()))
        assert (verdicts.count("accepted"), verdicts.count("duplicate")) == (total, total)
        storage = registry.storage(place, readonly=True)
        assert storage.store.last == total
        storage.close()


class CrashSuite(_Shared):
    """The tests of a storage whose writers are killed; subclass it and name its URL."""

    kills = 4
    """How often a writer is killed."""

    def test_a_killed_writer_loses_nothing_that_was_acknowledged(self, place: str) -> None:
        acknowledged: list[Acknowledged] = []
        for number in range(self.kills):
            acknowledged += self._killed(place, f"r{number}", 5 + 5 * number)
            storage = registry.storage(place)
            self.check(storage, acknowledged)
            storage.close()

    def test_a_writer_goes_on_beside_one_that_is_killed(self, place: str) -> None:
        survivor = self.appending(place, "survivor", "150")
        acknowledged = [*self._killed(place, "r1", 20), *self._killed(place, "r2", 20)]
        out, _ = survivor.communicate(timeout=120)
        assert survivor.returncode == 0
        own = [Acknowledged("survivor", *map(int, line.split())) for line in out.splitlines()]
        assert len(own) == 150
        storage = registry.storage(place)
        self.check(storage, [*acknowledged, *own])
        storage.close()

    def test_an_event_of_a_killed_writer_is_recorded_once(self, place: str) -> None:
        """A writer that cannot know whether its batch was stored sends it again."""
        storage = registry.storage(place)
        [batch, *_] = same_lines()
        Intake(Journal(storage.store), [native.dialect]).admit(batch, native.dialect.name)
        storage.close()
        self._killed(place, "r1", 10)
        storage = registry.storage(place)
        again = Intake(Journal(storage.store), [native.dialect]).admit(batch, native.dialect.name)
        assert {each.verdict for each in again} == {"duplicate"}
        storage.close()

    def _killed(self, place: str, run: str, groups: int) -> list[Acknowledged]:
        """What a process acknowledged before it was killed, while it was writing the next group."""
        child = self.appending(place, run)
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(groups)]
        child.kill()
        rest = child.stdout.read()
        child.wait(30)
        child.stdout.close()
        lines += rest.splitlines(keepends=True)
        complete = [line.split() for line in lines if line.endswith("\n")]
        assert len(complete) >= groups, "the process ended by itself"
        return [Acknowledged(run, *map(int, each)) for each in complete]


def _process(
    code: str, *arguments: str, stdin: int = subprocess.DEVNULL
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ourselves


def same_lines() -> list[list[bytes]]:
    """Batches of events that two processes are sent at the same time."""
    lines = [
        native.line(
            Noted(label=str(n)),
            id=f"{n:032x}",
            run=f"r{n % 3}",
            at="2026-05-05T09:00:00.000Z",
            origin={"writer": "test", "fidelity": "observed"},
        )
        for n in range(120)
    ]
    return [lines[at : at + 5] for at in range(0, len(lines), 5)]
