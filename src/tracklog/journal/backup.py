"""Back up a home: a consistent copy, made while others write to it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tracklog.journal.merkle import Head
from tracklog.journal.segments import chain_path, segment_path
from tracklog.journal.verify import Report, snapshot, verify
from tracklog.model.errors import BadBackup

JOURNALS = ("journal", "refused")
FOLDERS = ("quarantine", "blobs")


def backup(home: Path, target: Path, progress: Callable[[int, int], None] | None = None) -> Head:
    """Copy a home as it is now, verify the copy, and return its head.

    The copy gets its name only when it is complete.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadBackup(f"{target} is there already", "name a folder that is new or empty")
    if not (home / "format").exists():
        raise BadBackup(f"{home} is no home", "name the home with --home")
    making = target.with_name(f".{target.name}.making")
    try:
        if making.exists():
            shutil.rmtree(making)  # left by a copy that was cut short
        making.mkdir(mode=0o700, parents=True)
        report = _made(home, making, progress)
        if target.exists():
            target.rmdir()
        making.rename(target)
        _sync(target.parent)
    except BaseException as error:
        shutil.rmtree(making, ignore_errors=True)
        if isinstance(error, OSError):
            raise BadBackup(
                f"the copy was not made: {error.filename or target}: {error.strerror or error}",
                "name a place with room that you may write to; `tracklog doctor` looks over the home",
            ) from error
        raise
    return report.head


def _made(home: Path, making: Path, progress: Callable[[int, int], None] | None) -> Report:
    shutil.copyfile(home / "format", making / "format")
    sizes = {name: snapshot(home / name) for name in JOURNALS if (home / name).is_dir()}
    total = sum(size + links for each in sizes.values() for size, links in each.values())
    done = 0
    for name, segments in sizes.items():
        (making / name).mkdir(mode=0o700)
        for extra in ("pruned",):
            if (home / name / extra).exists():
                shutil.copyfile(home / name / extra, making / name / extra)
        for first, (size, links) in segments.items():
            _copy(segment_path(home / name, first), segment_path(making / name, first), size)
            _copy(chain_path(home / name, first), chain_path(making / name, first), links)
            done += size + links
            if progress is not None:
                progress(done, total)
    for name in FOLDERS:
        if (home / name).is_dir():
            shutil.copytree(home / name, making / name, ignore=shutil.ignore_patterns("*.tmp"))
    report = verify(making)
    if not report.ok:
        raise BadBackup(
            f"the copy does not verify: {report.faults[0]}",
            f"run `tracklog verify --home {home}`: the original may be damaged",
        )
    return report


def _copy(source: Path, target: Path, size: int) -> None:
    """The first `size` bytes, on disk on return, for the owner alone."""
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as file, os.fdopen(fd, "wb") as copy:
        while size > 0 and (block := file.read(min(size, 1 << 20))):
            copy.write(block)
            size -= len(block)
        copy.flush()
        os.fsync(copy.fileno())


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
