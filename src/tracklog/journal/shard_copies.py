"""Copies of a journal with all its shards: each shard is copied as the journal that it is."""

from collections.abc import Sequence
from pathlib import Path

from tracklog.journal.backup import backup, build, copied
from tracklog.journal.copying import Progress
from tracklog.journal.disk import Disk, write_file
from tracklog.journal.merkle import Head
from tracklog.journal.sharding import Sharded
from tracklog.journal.storages import Storage
from tracklog.model.errors import BadBackup

FILE = "shards"
"""A folder with this file has a folder for each shard; the file has their number."""


def parts_of(storage: Storage) -> Sequence[Storage]:
    """The storages of all shards; of a record that has none, its own."""
    return storage.parts if isinstance(storage, Sharded) else (storage,)


def folders_in(folder: Path) -> list[Path]:
    """The folders of the shards in a copy; the folder itself, if it is a home."""
    try:
        text = (folder / FILE).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return [folder]
    if not text.strip().isdecimal():
        raise BadBackup(f"{folder / FILE} is not the number of shards", "copy it again")
    return [folder / str(n) for n in range(int(text))]


def backup_all(source: Storage, target: Path, progress: Progress | None = None) -> list[Head]:
    """Copy a record to a folder, and verify the copy; the head of each shard.

    A record without shards is a home there. With shards, each has a home of its own below the
    folder; the refused lines and the large values of all of them are in that of shard 0.
    """
    parts = parts_of(source)
    if len(parts) == 1:
        return [backup(source, target, progress)]
    heads: list[Head] = []

    def make(folder: Path) -> Head:
        heads.clear()
        folder.mkdir(mode=0o700, parents=True)
        for n, part in enumerate(parts):
            heads.append(copied(part, folder / str(n), progress, journal_only=n > 0))
        write_file(Disk(), folder / FILE, b"%d\n" % len(parts))  # last: then it is complete
        return heads[0]

    build(target, make)
    return heads
