"""Examine a journal: what is wrong with it, and the command that repairs it."""

import os
import platform
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Literal

from tracklog import __version__
from tracklog.home.home import Home
from tracklog.journal.frame import stamp
from tracklog.journal.segments import check_format, quarantine
from tracklog.model.errors import TracklogError

LOW = 1 << 30
"""Free bytes below which a disk is called nearly full."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked."""

    name: str
    state: Literal["ok", "warning", "error"]
    message: str
    remedy: str = ""
    """The command that repairs it, or what to do."""


def doctor(place: Path | str, now: float, folders: Path | None = None) -> Iterator[Check]:
    """Every check of a journal, in a folder or at a URL, in order.

    A folder without a journal is not an error. `folders` is where the folders of databases are.
    """
    yield Check("version", "ok", f"tracklog {__version__}, Python {platform.python_version()}")
    if isinstance(place, Path):
        here = _home(place)
        yield here
        if here.state != "ok":
            return
        yield from _folder(place)
    try:
        home = Home(place, readonly=True, folders=folders)
    except TracklogError as error:
        yield Check("home", "error", error.message, error.hint)
        return
    except OSError as error:
        yield _unreadable(error, place)
        return
    with home:
        if not isinstance(place, Path):
            yield Check("home", "ok", f"records {home.store.first:,} to {home.store.last:,}")
            yield from _folder(home.path)
        yield from _record(home, place, now)


def _folder(folder: Path) -> Iterator[Check]:
    yield _permissions(folder)
    yield _space(folder)


def _record(home: Home, place: Path | str, now: float) -> Iterator[Check]:
    """The checks that are the same for every kind of storage."""
    try:
        report = home.storage.verify()
    except TracklogError as error:
        yield Check("chain", "error", error.message, error.hint)
        return
    except OSError as error:
        yield _unreadable(error, place)
        return
    if report.ok:
        records = "1 record" if report.records == 1 else f"{report.records:,} records"
        yield Check("chain", "ok", f"{records} {report.verdict}")
        yield from (Check("note", "ok", note) for note in report.notes)
    else:
        yield Check("chain", "error", str(report.faults[0]), _restore(place))
    if isinstance(place, Path):
        yield _quarantine(place)
    yield _index(home, place)
    yield _clock(home, now)


def _unreadable(error: OSError, place: Path | str) -> Check:
    message = f"{error.filename} cannot be read: {error.strerror}"
    return Check("chain", "error", message, f"chmod -R u+rwX {quote(str(place))}")


def accept(home: Path, now: float, by: str) -> list[Path]:
    """Accept the data that recovery moved to quarantine; returns the new files.

    The file `accepted` of the home says who did it, also where the journal cannot be written.
    """
    pieces = quarantine.pieces(home)
    if pieces:
        quarantine.accept(home, pieces, by=by, at=stamp(now))
    return pieces


def _restore(place: Path | str) -> str:
    """What to do about records that were changed: nothing can compute them back."""
    names = f"`tracklog verify {_option(place)}` names every bad record"
    if not isinstance(place, Path):
        return f"{names}; restore the database from a backup"
    there = quote(str(place))
    return (
        f"{names}; copy the folder "
        f"{quote(str(place / 'journal'))} back from a backup (`tracklog backup` makes one), or, "
        f"without a backup, `mv {there} {quote(f'{place}.damaged')}` and begin a new record; all "
        "other records can still be read, and new ones are recorded"
    )


def _option(place: Path | str) -> str:
    """The option of a command that names this journal; a URL may hold a password."""
    return f"--home {quote(str(place))}" if isinstance(place, Path) else "--store URL"


def _home(home: Path) -> Check:
    try:
        if check_format(home):
            return Check("home", "ok", str(home))
    except TracklogError as error:
        return Check("home", "error", error.message, error.hint)
    if any((home / "journal").glob("*.jsonl")):
        remedy = f"tracklog record --home {quote(str(home))} </dev/null"
        return Check("home", "error", f"{home / 'format'} is missing", remedy)
    return Check("home", "warning", f"nothing is recorded at {home} yet", "tracklog import")


def _permissions(home: Path) -> Check:
    loose, closed = [], []
    for path in (home, *home.rglob("*")):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue  # others write meanwhile
        except PermissionError:
            mode = 0
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) & 0o077:
            loose.append(path)
        if not os.access(path, os.R_OK | os.W_OK):
            closed.append(path)
    if closed:
        message = f"{_paths(closed)} cannot be read and written by you"
        return Check("permissions", "error", message, f"chmod -R u+rwX {quote(str(home))}")
    if not loose:
        return Check("permissions", "ok", "only you can read and write it")
    message = f"{_paths(loose)} can be read by others"
    return Check("permissions", "warning", message, f"chmod -R go-rwx {quote(str(home))}")


def _paths(paths: list[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1:,} more"


def _space(home: Path) -> Check:
    free = shutil.disk_usage(home).free
    if free > LOW:
        return Check("space", "ok", f"{free / (1 << 30):,.1f} GiB free")
    message = f"the disk is nearly full: {free / (1 << 20):,.1f} MiB free"
    remedy = f"free some space, or `tracklog prune --older-than 30d --home {quote(str(home))}`"
    return Check("space", "warning", message, remedy)


def _quarantine(home: Path) -> Check:
    torn = quarantine.pieces(home)
    if not torn:
        return Check("quarantine", "ok", "empty, or everything in it was accepted")
    number = "a file" if len(torn) == 1 else f"{len(torn)} files"
    message = f"{number} with incomplete data, moved there after a crash"
    there = quote(str(home))
    remedy = f"`ls -l {there}/quarantine` to look, then `tracklog doctor --accept --home {there}`"
    return Check("quarantine", "warning", message, remedy)


def _index(home: Home, place: Path | str) -> Check:
    try:
        cursor, last = home.index.index.cursor, home.journal.last
    except TracklogError as error:
        return Check("index", "warning", error.message, f"tracklog rebuild {_option(place)}")
    if not cursor:
        return Check("index", "ok", "not built yet: the first question builds it")
    if cursor == last:
        return Check("index", "ok", f"up to the last record, {last:,}")
    return Check(
        "index", "ok", f"up to record {cursor:,} of {last:,}: the next question updates it"
    )


def _clock(home: Home, now: float) -> Check:
    last = home.newest(1)
    if not last or last[0].received <= stamp(now + 60):
        return Check("clock", "ok", "right: the last record is not in the future")
    message = f"the last record was received at {last[0].received}, which is in the future"
    return Check(
        "clock", "error", message, "`date -u` prints the clock of this machine; correct it"
    )
