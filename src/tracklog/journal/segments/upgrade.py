"""Convert a home of format 1 to the present format, once, before it is written to.

Nothing is rewritten. The tail of each open segment is adopted by the old rule, as many frames as
are whole, and the segment is sealed; what is written from then on is of the present format.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tracklog.journal.disk import Disk, write_file
from tracklog.journal.segments import FORMAT, check_format, firsts
from tracklog.journal.segments.writer import SegmentWriter
from tracklog.model.errors import BadFormat, StoreBroken
from tracklog.model.event import Finding

_FOLDERS = ("journal", "refused")


def upgrade(home: Path, disk: Disk) -> list[Finding]:
    """What was found on the way; nothing is done when the home has the present format."""
    try:
        format = check_format(home)
    except OSError:
        return []  # whoever opens it says why it cannot be read
    if format != 1:
        return []
    with _alone(home):
        if check_format(home) != 1:  # another process was quicker
            return []
        _refuse_old_writers(home)
        findings = [finding for name in _FOLDERS for finding in _seal(home, name, disk)]
        write_file(disk, home / "format", b"%d\n" % FORMAT)
    message = f"the home was brought from format 1 to format {FORMAT}; older versions refuse it now"
    return [*findings, Finding("upgraded", message, "info")]


def _seal(home: Path, folder: str, disk: Disk) -> list[Finding]:
    if not firsts(home / folder):
        return []
    writer = SegmentWriter(home, folder, 0, disk, format=1)
    try:
        with writer.exclusive():
            if writer.full:
                writer.roll()
        return writer.findings
    finally:
        writer.close()


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """No other process of this version upgrades the home, or opens it before it is upgraded."""
    try:
        lock = os.open(home / "upgrade.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreBroken(
            f"{home} is of format 1 and cannot be brought to format {FORMAT}: {error.strerror}",
            "check the folder's owner and mode, and that its disk is mounted and has room",
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        with contextlib.suppress(OSError):
            (home / "upgrade.lock").unlink()
    finally:
        os.close(lock)


def _refuse_old_writers(home: Path) -> None:
    """An older version that has the home open would go on writing groups of the old format.

    It is seen where the system shows the open files of other processes.
    """
    locks = {(home / folder / "lock").resolve() for folder in _FOLDERS}
    for process in Path("/proc").glob("[0-9]*/fd"):
        if int(process.parent.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            for fd in process.iterdir():
                if fd.readlink() in locks:
                    raise BadFormat(
                        f"process {process.parent.name} has {home} open with an older version",
                        "stop it, then try again: the home is brought to a new format",
                    )
