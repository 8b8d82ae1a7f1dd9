"""Back up a journal: a consistent copy in a new folder, made while others write to it."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tracklog.journal.archive.reader import ArchiveReader
from tracklog.journal.blobs import FileBlobs
from tracklog.journal.checkpoints import trees
from tracklog.journal.copying import FolderReceiver, Progress, copy, copy_blobs
from tracklog.journal.disk import Disk, write_file
from tracklog.journal.merkle import Head
from tracklog.journal.segments import FORMAT, check_format
from tracklog.journal.storages import Storage
from tracklog.journal.verify import verify
from tracklog.model.errors import BadBackup, TracklogError

ATTEMPTS = 3
"""How often it is tried, while an erasure or a pruning changes what is being copied."""
BESIDE = ("quarantine", "accepted")
"""What a folder has beside its record: the data that recovery set aside, and what was accepted."""


def backup(source: Storage, target: Path, progress: Progress | None = None) -> Head:
    """Copy a journal and all that belongs to it to a folder, verify the copy, and return its head.

    The copy gets its name only when it is complete.
    """
    return build(target, lambda folder: copied(source, folder, progress))


def restore(archive: ArchiveReader, target: Path, progress: Progress | None = None) -> Head:
    """Make a home from an archive, verify it, and return its head; refused lines are not archived."""
    return build(target, lambda folder: _restore(archive, folder, progress))


def _restore(archive: ArchiveReader, folder: Path, progress: Progress | None) -> Head:
    if not archive.shipments:
        raise BadBackup(f"there is no archive at {archive.objects.url}", "check its address")
    if folder.exists():
        shutil.rmtree(folder)  # left by a copy that was cut short
    folder.mkdir(mode=0o700, parents=True)
    head = copy(archive, FolderReceiver(folder / "journal"), progress)
    FileBlobs(folder).put_all(map(archive.blob, archive.blobs()))
    return _finish(folder, FORMAT, head)


def check_new(target: Path) -> None:
    """Raise an error if there is something in the place of a copy."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadBackup(f"{target} is there already", "name a folder that is new or empty")


def build(target: Path, make: Callable[[Path], Head]) -> Head:
    """Make a folder under another name, and give it its own when it is complete."""
    check_new(target)
    making = target.with_name(f".{target.name}.making")
    try:
        head = make(making)
        if target.exists():
            target.rmdir()
        making.rename(target)
        Disk().sync_folder(target.parent)
    except BaseException as error:
        shutil.rmtree(making, ignore_errors=True)
        if isinstance(error, OSError):
            raise BadBackup(
                f"the copy was not made: {error.filename or target}: {error.strerror or error}",
                "name a place with room that you may write to; `tracklog doctor` looks over the home",
            ) from error
        raise
    return head


def copied(
    source: Storage, folder: Path, progress: Progress | None, *, journal_only: bool = False
) -> Head:
    """Make a home from a journal, and from all that belongs to it unless only the journal is wanted."""
    for attempt in range(1, ATTEMPTS + 1):
        if folder.exists():
            shutil.rmtree(folder)  # left by a copy that was cut short
        folder.mkdir(mode=0o700, parents=True)
        before = source.store.head()
        try:
            return _copy(source, folder, progress, journal_only=journal_only)
        except (TracklogError, FileNotFoundError):
            if attempt == ATTEMPTS or source.store.head() == before:
                raise
    raise AssertionError("the last attempt returns or raises")


def _copy(source: Storage, folder: Path, progress: Progress | None, *, journal_only: bool) -> Head:
    format = check_format(source.folder) or FORMAT
    if format == 1 and source.verify().unproven:
        raise BadBackup(
            f"a crash left records in {source.folder} that are not chained yet",
            "`tracklog record </dev/null` chains them, and brings the home to format 2; to keep "
            "format 1, copy the folder with `cp -a` while nobody writes to it",
        )
    head = copy(source.store, FolderReceiver(folder / "journal"), progress)
    if journal_only:
        return _finish(folder, format, head)
    copy(source.refused, FolderReceiver(folder / "refused"))
    copy_blobs(source.blobs, FileBlobs(folder))
    for path in (source.folder / name for name in BESIDE):
        if path.is_dir():
            shutil.copytree(path, folder / path.name)
        elif path.exists():
            shutil.copyfile(path, folder / path.name)
    if (hashes := source.folder / trees.FILE).exists():  # those of pruned records are only here
        with trees.Trees(hashes, readonly=True) as known:
            known.copy(folder / trees.FILE)
    return _finish(folder, format, head)


def _finish(folder: Path, format: int, head: Head) -> Head:
    """Make a home of a folder, and verify it."""
    # The format is written last: without it the folder is no home.
    write_file(Disk(), folder / "format", b"%d\n" % format)
    report = verify(folder, head)
    if not report.ok:
        raise BadBackup(
            f"the copy does not verify: {report.faults[0]}",
            "run `tracklog verify` on the original: it may be damaged",
        )
    return head
