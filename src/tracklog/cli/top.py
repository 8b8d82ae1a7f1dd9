"""`tracklog top`: the fleet, live, on the full screen."""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _fleet, _home, _table
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.answers.top import Fleet, TopAnswer
    from tracklog.cli._screen import Screen
    from tracklog.home.home import Home
    from tracklog.journal.frame import Record, Run

TICK = 1.0
"""Seconds after which ages are updated without news."""
PAUSE = 0.1
"""Seconds between two updates, however much comes."""
SHOWN = 200
"""Runs on the screen and below it."""
TEXTS_CACHED = 2000
"""How many records of an open run can be scrolled through."""


@click.command(
    epilog="""\b
Examples:
  tracklog top
  tracklog top --once          (one frame, then it ends; so does a pipe)
  tracklog top --once --all    (every run, however many there are)
  tracklog top --json | jq '.runs[] | select(.status == "waiting")'

\b
Keys: up and down or j and k choose, enter opens, escape goes back, / filters, a shows the agents,
? shows help, q quits.""",
)
@_home.read_option
@_home.lost_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=SHOWN,
    show_default=True,
    help="Show at most this many runs, of those that were recorded last.",
)
@click.option("--all", "is_all", is_flag=True, help="Show every run that was ever recorded.")
@click.option("--once", is_flag=True, help="Print one frame and end.")
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object with the data of a frame.")
def command(
    home: Path, lost_after: float, limit: int, is_all: bool, once: bool, as_json: bool
) -> None:
    """Show runs and agents live: which wait and for what, which failed, which are lost."""
    from tracklog.answers.top import NEWEST, Fleet

    bounds = (None, sys.maxsize) if is_all else (limit, max(limit, NEWEST))
    with _home.asking(home) as opened:
        fleet = opened.cache(Fleet)

        def look() -> "TopAnswer":
            return fleet.look(None, lost_after, *bounds)

        if _is_screen(once) and not as_json:
            _live(opened, fleet, look)
            return
        view = look()
        if as_json:
            terminal.put_json(view)
        else:
            _once(view, opened)


def _is_screen(once: bool) -> bool:
    """Whether there is a terminal to draw on, with a keyboard."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return is_terminal and not once


def _once(view: "TopAnswer", home: "Home") -> None:
    click.echo(_fleet.head(view, terminal.width()))
    _table.put(
        view.runs,
        _fleet.columns(_home.names(home), agents=False),
        "no runs yet; `tracklog import` or `tracklog record` adds the first",
    )
    if view.more or view.older:
        sys.stdout.flush()
        some = f"and {view.more:,} more" if view.more else "these were recorded last"
        click.echo(f"{some}; --all shows every run", err=True)


def _live(home: "Home", fleet: "Fleet", look: "Callable[[], TopAnswer]") -> None:
    from tracklog.cli._screen import Screen

    screen = Screen()
    with _watched(home, screen, fleet, look) as watcher, screen.entered():
        watcher.start()
        _watch(home, screen, watcher)


def _watch(home: "Home", screen: "Screen", watcher: "_JournalWatcher") -> None:
    look = _fleet.Look()
    texts = _Texts(home)
    names = _home.names(home)
    while True:
        view = watcher.view
        if watcher.error is not None:
            raise watcher.error
        if view is not None:
            rows = _fleet.rows_of(view, look)
            screen.draw(_frame(view, look, names, texts, screen.size))
        else:
            rows = []
            screen.draw(["reading the journal …"])
        for key in screen.keys(TICK):
            if key == "redraw":
                screen.redraw()
            elif not _fleet.pressed(key, look, rows, screen.size[1]):
                return
            elif view is not None:  # the next key refers to what this one shows
                rows = _fleet.rows_of(view, look)


def _frame(
    view: "TopAnswer",
    look: _fleet.Look,
    names: _table.RunNames,
    texts: "_Texts",
    size: tuple[int, int],
) -> list[str]:
    if look.help:
        return _fleet.help_lines(size)
    if look.opened is None:
        return _fleet.table(view, look, names, size)
    before = len(look.events)
    look.events = texts.lines(look.opened)
    if look.back:  # new events do not move the view of somebody who scrolled up
        look.back += max(0, len(look.events) - before)
    row = next((row for row in view.runs if (row.family, row.run) == look.opened), None)
    return _fleet.opened(row, look, names, size)


class _Texts:
    """The events of the open run: the last ones, then new ones."""

    def __init__(self, home: "Home") -> None:
        self.home = home
        self.run: Run | None = None
        self.at = 0
        self.texts: deque[str] = deque(maxlen=TEXTS_CACHED)

    def lines(self, run: "Run") -> list[str]:
        if run != self.run:
            self.run, self.at = run, self._begin(run)
            self.texts.clear()
        records = list(self.home.journal.records(self.at, run))
        again = self.home.index.silent([record.seq for record in records])
        for record in records:
            self.at = record.seq
            if record.seq not in again:
                self.texts.append(self._line(record))
        return list(self.texts)

    def _begin(self, run: "Run") -> int:
        """The record to start at: at most this many records from the run's end, and not too few."""
        state = self.home.index.state("runs", ":".join(run))
        reach = TEXTS_CACHED
        while reach < state.last_seq - state.first_seq:
            after: int = state.last_seq - reach
            if len(self.home.journal.read(after, 100, run)) == 100:
                return after
            reach *= 8
        return max(0, int(state.first_seq) - 1)

    def _line(self, record: "Record") -> str:
        from tracklog.answers.phrases import summary
        from tracklog.reading.walk import read_alone

        _, event, facts, *_ = read_alone(record, self.home.dialects)
        kind = event.kind if event else "erased" if record.erased else "not understood"
        agent = next((str(fact.agent) for fact in facts if fact.agent is not None), "")
        text = summary(facts) or kind
        at = (event.at if event else None) or record.received
        who = f"{agent}: " if agent else ""
        return terminal.printable(f"{record.seq:>7}  {at[11:19]}  {who}{text}")


class _JournalWatcher(threading.Thread):
    """Reads whenever the journal grew, in the background, so that keys never wait."""

    def __init__(
        self, home: "Home", screen: "Screen", fleet: "Fleet", look: "Callable[[], TopAnswer]"
    ) -> None:
        super().__init__(daemon=True)
        self.home, self.screen, self.fleet, self.look = home, screen, fleet, look
        self.view: TopAnswer | None = None
        self.error: Exception | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            while not self.done.is_set():
                self.view = self.look()
                self.screen.wake()
                until = time.monotonic() + TICK
                self.done.wait(PAUSE)
                while not self.done.is_set() and time.monotonic() < until:
                    if self.home.journal.wait(max(self.fleet.seen, self.view.last), PAUSE):
                        break
        except Exception as error:  # noqa: BLE001  # the thread of the screen reports it
            self.error = error
            self.screen.wake()


@contextmanager
def _watched(
    home: "Home", screen: "Screen", fleet: "Fleet", look: "Callable[[], TopAnswer]"
) -> Iterator[_JournalWatcher]:
    watcher = _JournalWatcher(home, screen, fleet, look)
    try:
        yield watcher
    finally:
        watcher.done.set()
        if watcher.is_alive():
            watcher.join()
