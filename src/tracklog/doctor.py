"""Looks over a home: what is wrong, and the command that mends it."""

import platform
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from tracklog import __version__
from tracklog.errors import TracklogError
from tracklog.frame import stamp
from tracklog.home import Home
from tracklog.verify import verify

LOW = 1 << 30
"""Free bytes below which a disk is called nearly full."""


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "warning", "error"]
    message: str
    mend: str = ""
    """The command that mends it, or what to do."""


def doctor(home: Path, now: float) -> Iterator[Check]:
    """Every check, in order; a home that is not there is no error."""
    yield Check("version", "ok", f"tracklog {__version__}, Python {platform.python_version()}")
    if not (home / "format").exists():
        yield Check("home", "warning", f"nothing is recorded at {home} yet", "tracklog record")
        return
    yield Check("home", "ok", str(home))
    yield _permissions(home)
    yield _space(home)
    try:
        report = verify(home)
    except TracklogError as error:
        yield Check("chain", "error", error.message, error.hint)
        return
    if report.ok:
        yield Check("chain", "ok", f"{report.records:,} records, head {report.head}")
    else:
        first = report.faults[0]
        message = f"record {first.seq}: {first.why}"
        yield Check("chain", "error", message, f"tracklog verify --home {home}")
    yield from _inside(home, now)


def _permissions(home: Path) -> Check:
    loose = [
        path
        for path in (home, *home.rglob("*"))
        if not path.is_symlink() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if not loose:
        return Check("permissions", "ok", "for the owner alone")
    message = f"{len(loose)} files or folders can be read by others, the first {loose[0]}"
    return Check("permissions", "warning", message, f"chmod -R go-rwx {home}")


def _space(home: Path) -> Check:
    free = shutil.disk_usage(home).free
    message = f"{free / (1 << 30):,.1f} GiB free"
    if free > LOW:
        return Check("space", "ok", message)
    mend = "make room, or `tracklog prune --older-than 30d`"
    return Check("space", "warning", f"the disk is nearly full: {message}", mend)


def _inside(home: Path, now: float) -> Iterator[Check]:
    torn = [path for path in (home / "quarantine").glob("*") if path.is_file()]
    if torn:
        message = f"{len(torn)} torn pieces were set aside"
        yield Check("quarantine", "warning", message, f"look into {home / 'quarantine'}")
    else:
        yield Check("quarantine", "ok", "nothing was ever torn")
    with Home(home, readonly=True) as opened:
        last = opened.journal.read(opened.journal.last - 1, 1)
    ahead = bool(last) and last[0].received > stamp(now + 60)
    if ahead:
        message = f"the last record was received at {last[0].received}, which is in the future"
        yield Check("clock", "error", message, "set this machine's clock")
    else:
        yield Check("clock", "ok", "not behind the last record")
