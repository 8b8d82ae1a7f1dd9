"""Copy a journal from one storage to another: the same bytes, the same numbers, the same chain."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import orjson

from tracklog.journal import merkle
from tracklog.journal.blobs import Blobs as FileBlobs
from tracklog.journal.frame import record, run_of, seq_of, stamp
from tracklog.journal.merkle import NOTHING, Head, Link
from tracklog.journal.segments import FORMAT, chain_path, segment_path
from tracklog.journal.storages import Storage
from tracklog.journal.stores import Group, Store
from tracklog.journal.verify import verify
from tracklog.model.errors import BadBackup

SEGMENT = 64 << 20
"""Bytes from which on the next group begins a new segment."""

Progress = Callable[[int, int], None]
"""Told how many records were copied, and how many there are."""


class Part(NamedTuple):
    """A link of the chain, and its frames: those of a group, or the tombstone of an erasure."""

    link: Link
    frames: list[bytes]


class Receiver(Protocol):
    """A store that takes over the parts of another journal, as they are."""

    def adopt(self, origin: Head, parts: Iterator[Part]) -> None:
        """Store the parts behind what is there, durable on return.

        A journal that is not the beginning of the other one is refused.
        """

    def head(self) -> Head:
        """The end of the chain."""


def copy(source: Storage, target: Receiver, progress: Progress | None = None) -> Head:
    """Copy the records of a storage, and prove that the copy has the same head."""
    store = source.store
    head = store.head()
    target.adopt(store.origin(), _counted(parts(store, head), head.through, progress))
    if target.head() != head:
        raise BadBackup(
            f"the copy ends with {target.head()}, and the original with {head}",
            "run `tracklog verify` on both",
        )
    return head


def copy_to_folder(source: Storage, folder: Path, progress: Progress | None = None) -> Head:
    """Copy a storage to a new folder, which is a home."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadBackup(f"{folder} is there already", "name a folder that is new or empty")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    head = copy(source, FolderReceiver(folder / "journal"), progress)
    refused = source.refused
    FolderReceiver(folder / "refused").adopt(refused.origin(), parts(refused, refused.head()))
    blobs = FileBlobs(folder)
    for name in source.blobs.list():
        blobs.put(source.blobs.get(name))
    # The format is written last: without it the folder is no home.
    _write(folder / "format", b"%d\n" % FORMAT)
    report = verify(folder, head)
    if not report.ok:
        raise BadBackup(f"the copy does not verify: {report.faults[0]}", "the original is damaged")
    return head


def parts(store: Store, head: Head) -> Iterator[Part]:
    """The links of a journal up to a head, each with its frames."""
    frames = _frames(store)
    frame = next(frames, None)
    for link in store.links():
        if link.through > head.through:
            return
        group: list[bytes] = []
        while link.kind == "group" and frame is not None and seq_of(frame) <= link.through:
            group.append(frame)
            frame = next(frames, None)
        if link.kind == "erased":
            group = [each for each in store.read(link.seq - 1, 1) if seq_of(each) == link.seq]
        yield Part(link, group)
        if (link.through, link.chain.hex()) == head:
            return


def group_of(part: Part) -> Group:
    """The runs and marks of a group, read from its frames."""
    runs = [
        (run, len(list(alike)))
        for run, alike in groupby(run_of(f) or ("", "") for f in part.frames)
    ]
    records = (record(frame) for frame in part.frames)
    marks = {at: each.mark for at, each in enumerate(records) if each and each.mark}
    return Group(part.frames, runs, marks)


def check_link(before: bytes, link: Link) -> None:
    """Refuse a link that does not continue the chain."""
    if link.kind == "group":
        after = merkle.chain_after(before, link.through, link.root)
    else:
        after = merkle.erasure_link(before, link.seq, link.leaf, link.tombstone)
    if after != link.chain:
        raise BadBackup(
            f"the chain is broken at record {link.through}", "run `tracklog verify` on the original"
        )


class FolderReceiver:
    """Writes the segments and chains of a journal into a new folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._head = NOTHING

    def head(self) -> Head:
        return self._head

    def adopt(self, origin: Head, parts: Iterator[Part]) -> None:
        self._folder.mkdir(mode=0o700, parents=True)
        through, chain = origin.through, bytes.fromhex(origin.chain)
        if through:
            note = {"through": through, "chain": origin.chain, "at": stamp(0)}
            _write(self._folder / "pruned", orjson.dumps(note) + b"\n")
        segment: IO[bytes] | None = None
        links: IO[bytes] | None = None
        with ExitStack() as files:
            for link, frames in parts:
                check_link(chain, link)
                is_group = link.kind == "group"
                if segment is None or links is None or (is_group and segment.tell() >= SEGMENT):
                    if links is not None and segment is not None:
                        links.write(merkle.sealed(through, chain))
                        _finish(segment, links)
                    segment = files.enter_context(_new(segment_path(self._folder, through + 1)))
                    links = files.enter_context(_new(chain_path(self._folder, through + 1)))
                    links.write(merkle.opened(through, chain))
                if is_group:  # the record of an erasure was written as a tombstone
                    segment.write(b"".join(frame + b"\n" for frame in frames))
                links.write(merkle.line(link))
                through, chain = link.through, link.chain
            if segment is not None and links is not None:
                _finish(segment, links)
        self._head = Head(through, chain.hex())


def _frames(store: Store) -> Iterator[bytes]:
    after = 0
    while frames := store.read(after, 1000):
        yield from frames
        after = seq_of(frames[-1])


def _counted(parts: Iterator[Part], last: int, progress: Progress | None) -> Iterator[Part]:
    for part in parts:
        yield part
        if progress is not None:
            progress(part.link.through, last)


def _new(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _finish(*files: IO[bytes]) -> None:
    for file in files:
        file.flush()
        os.fsync(file.fileno())
        file.close()


def _write(path: Path, content: bytes) -> None:
    with _new(path) as file:
        file.write(content)
        _finish(file)
