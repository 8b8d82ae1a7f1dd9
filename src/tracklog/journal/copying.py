"""Copy a journal from one storage to another: the same bytes, the same numbers, the same chain."""

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import orjson

from tracklog.journal import merkle
from tracklog.journal.disk import Disk, write_file
from tracklog.journal.frame import leaf_of, record, run_of, seq_of
from tracklog.journal.merkle import NOTHING, Head, Link
from tracklog.journal.segments import chain_path, segment_path
from tracklog.journal.storages import Blobs
from tracklog.journal.stores import Group, Readable
from tracklog.model.errors import BadBackup, NoSuchBlob

SEGMENT = 64 << 20
"""Bytes from which on the next group begins a new segment."""

Progress = Callable[[int, int], None]
"""Told how many records were copied, and how many there are."""


class ChainPart(NamedTuple):
    """A link of the chain, and its frames: those of a group, or the tombstone of an erasure."""

    link: Link
    frames: list[bytes]


class Receiver(Protocol):
    """A store that takes over the parts of another journal, as they are."""

    def adopt(self, origin: Head, parts: Iterator[ChainPart]) -> None:
        """Store the parts behind what is there, durable on return.

        A journal that is not the beginning of the other one is refused.
        """

    def head(self) -> Head:
        """The end of the chain."""


def copy(source: Readable, target: Receiver, progress: Progress | None = None) -> Head:
    """Copy the records of a store as they are now, and prove that the copy has the same head."""
    last = source.last  # before the head: what is behind that one has no link
    head = source.head()
    target.adopt(source.origin(), _counted(_parts(source, head, last), last, progress))
    if last <= head.through and target.head() != head:
        raise BadBackup(
            f"the copy ends with {target.head()}, and the original with {head}",
            "run `tracklog verify` on both",
        )
    return target.head()


def copy_blobs(source: Blobs, target: Blobs) -> None:
    """Copy every large value; one that is removed meanwhile is left out."""
    target.put_all(_contents(source))


def _contents(blobs: Blobs) -> Iterator[bytes]:
    for name in blobs.list():
        with contextlib.suppress(NoSuchBlob):
            yield blobs.get(name)


def _parts(store: Readable, head: Head, last: int) -> Iterator[ChainPart]:
    """The links of a journal up to a head, each with its frames.

    A crash may leave complete groups without links, up to record `last`: they get the links that
    recovery gives them.
    """
    frames = _frames(store)
    frame = next(frames, None)
    for link in store.links():
        if link.through > head.through:
            break
        group: list[bytes] = []
        while link.kind == "group" and frame is not None and seq_of(frame) <= link.through:
            group.append(frame)
            frame = next(frames, None)
        if link.kind == "erased":
            group = [each for each in store.read(link.seq - 1, 1) if seq_of(each) == link.seq]
        yield ChainPart(link, group)
        if (link.through, link.chain.hex()) == head:
            break
    chain = bytes.fromhex(head.chain)
    while frame is not None and head.through < seq_of(frame) <= last:
        entry = record(frame)
        group = [frame, *islice(frames, max(0, (entry.group if entry else 0) - 1))]
        link = merkle.group_link(chain, seq_of(group[-1]), [leaf_of(each) for each in group])
        yield ChainPart(link, group)
        chain, frame = link.chain, next(frames, None)


def group_of(part: ChainPart) -> Group:
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

    def adopt(self, origin: Head, parts: Iterator[ChainPart]) -> None:
        self._folder.mkdir(mode=0o700, parents=True)
        through, chain = origin.through, bytes.fromhex(origin.chain)
        if through:
            note = {"through": through, "chain": origin.chain, "at": ""}
            write_file(Disk(), self._folder / "pruned", orjson.dumps(note) + b"\n")
        segment: IO[bytes] | None = None
        links: IO[bytes] | None = None
        with contextlib.ExitStack() as files:
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
        Disk().sync_folder(self._folder)
        self._head = Head(through, chain.hex())


def _frames(store: Readable) -> Iterator[bytes]:
    after = 0
    while frames := store.read(after, 1000):
        yield from frames
        after = seq_of(frames[-1])


def _counted(
    parts: Iterator[ChainPart], last: int, progress: Progress | None
) -> Iterator[ChainPart]:
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
