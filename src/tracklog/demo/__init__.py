"""A demo fleet: invented agents in every dialect, the same ones on each start.

One file per dialect, named after it; a dialect without one has a short run, which its `write`
makes. To add one: `past(now, draw)` yields the lines of the last
day, `live(begin, cycle, draw)` those from then on, in rounds of `ROUND` seconds; `reply(run,
question, answer, at)`, where its agents ask, yields the lines after an answer.
"""

import fcntl
import heapq
import itertools
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from random import Random
from typing import IO, Any, NamedTuple, Protocol, Self

import orjson

from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.journal.frame import Run
from tracklog.model.errors import TracklogError
from tracklog.model.fact import Answered

MARK = "demo"
"""The file that marks a home as a demo; it lists the invented runs."""
ROUND = 60.0
_SEED = 4318


class DemoLine(NamedTuple):
    """A line and its time."""

    at: float
    body: Mapping[str, Any]


class Act(Protocol):
    """The part of a dialect in the demo."""

    def past(self, now: float, draw: Random) -> Iterator[DemoLine]:
        """The lines of the last day."""

    def live(self, begin: float, cycle: int, draw: Random) -> Iterator[DemoLine]:
        """The lines of a round from `begin` on."""


class _Due(NamedTuple):
    at: float
    order: int
    dialect: str
    line: bytes


def is_demo(home: Path) -> bool:
    """Whether the home holds a demo."""
    return (home / MARK).is_file()


class Demo:
    """A home with a demo fleet; kept open, so that nobody removes it in the meantime."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._acts = list(_acts())
        self._runs: set[Run] = set()
        self._order = itertools.count()
        _remove_old(path)
        path.mkdir(mode=0o700, parents=True)
        self._mark = (path / MARK).open("a+b")
        fcntl.flock(self._mark, fcntl.LOCK_EX)

    def make(self, now: float) -> int:
        """Write the day before `now`, as if each line had been received when it happened; returns
        the count.
        """
        due = [
            each
            for name, act in self._acts
            for each in self._due(name, act.past(now, _draw(name, "past")))
        ]
        clock = [now]
        with Home(self.path, durability="os", clock=lambda: clock[0]) as home:
            for _, act in self._acts:
                for content in getattr(act, "BLOBS", ()):
                    home.blobs.put(content)
            for each in sorted(due):
                clock[0] = each.at
                self._write(home, each)
        return len(due)

    def play(self, stop: threading.Event) -> None:
        """Write lines in real time until stopped; runs that get an answer continue."""
        with Home(self.path, durability="os") as home:
            self._play(home, stop)

    def _play(self, home: Home, stop: threading.Event) -> None:
        due: list[_Due] = []
        cycle, begin, seen = 0, time.time(), home.journal.last
        while not stop.is_set():
            if time.time() >= begin:
                for name, act in self._acts:
                    lines = act.live(begin, cycle, _draw(name, str(cycle)))
                    due.extend(self._due(name, lines))
                cycle, begin = cycle + 1, begin + ROUND
                heapq.heapify(due)
            seen = self._read_answers(home, seen, due)
            while due and due[0].at <= time.time():
                self._write(home, heapq.heappop(due))
            stop.wait(0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._mark.close()

    def _read_answers(self, home: Home, after: int, due: list[_Due]) -> int:
        for record in home.journal.read(after):
            after = record.seq
            for fact in home.facts_in(record):
                if isinstance(fact, Answered) and fact.by:
                    answer = (record.run, fact.question_id, fact.answer, time.time())
                    for name, act in self._acts:
                        for each in self._due(name, getattr(act, "reply", _nothing)(*answer)):
                            heapq.heappush(due, each)
        return after

    def _due(self, dialect: str, lines: Iterable[DemoLine]) -> Iterator[_Due]:
        for at, body in lines:
            yield _Due(at, next(self._order), dialect, orjson.dumps(body))

    def _write(self, home: Home, due: _Due) -> None:
        (verdict,) = home.intake.admit([due.line], due.dialect)
        assert verdict.seq is not None, f"the demo wrote an invalid line: {verdict}"
        (record,) = home.journal.read(verdict.seq - 1, 1)
        run = (record.family, record.run)
        if run not in self._runs:
            self._runs.add(run)
            self._mark.write(orjson.dumps(run) + b"\n")
            self._mark.flush()


def remove(path: Path, *, force: bool = False) -> bool:
    """Remove a demo, if there is one; refuses a home that is no demo or holds other runs."""
    if not path.exists():
        return False
    if not is_demo(path):
        raise TracklogError(f"{path} is no demo", "`tracklog demo --home` names another place")
    with (path / MARK).open("rb") as mark:
        _lock(mark, path)
        if not force:
            _check_own(path, {tuple(orjson.loads(line)) for line in mark})
        shutil.rmtree(path)
    return True


def _remove_old(path: Path) -> None:
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()
    remove(path)


def _lock(mark: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TracklogError(
            f"the demo in {path} is being played", "stop it first, with Ctrl-C where it runs"
        ) from None


def _check_own(path: Path, own: set[tuple[str, ...]]) -> None:
    if not (path / "journal").is_dir():
        return
    with Home(path, readonly=True) as home:
        others = sorted(home.runs() - own)
    if others:
        names = ", ".join(":".join(run) for run in others[:3])
        raise TracklogError(
            f"{len(others)} runs in the demo's home are not the demo's: {names}",
            f"copy them first, `tracklog backup --home {path} FOLDER`; --force removes all",
        )


def _nothing(*_: Any) -> Iterator[DemoLine]:
    return iter(())


def _draw(name: str, part: str) -> Random:
    return Random(f"{_SEED}/{name}/{part}")  # noqa: S311  # the same dice whenever it is played


def _acts() -> Iterator[tuple[str, Act]]:
    """Every dialect with its part of the demo; the folder is the registry."""
    from tracklog.demo._short_run import ShortRun  # noqa: PLC0415  # it needs this module

    own = {each.name for each in iter_modules(__path__)}
    for dialect in registry.dialects():
        name = dialect.name.replace("-", "_")
        act: Act = ShortRun(dialect)
        yield dialect.name, import_module(f"{__name__}.{name}") if name in own else act
