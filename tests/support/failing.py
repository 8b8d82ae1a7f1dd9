"""Disks that fail once, and a disk that remembers what power loss would leave of it."""

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

from tracklog.journal.disk import Disk

CALLS = (
    "open",
    "write",
    "write_at",
    "truncate",
    "sync",
    "sync_folder",
    "rename",
    "remove",
    "make_folder",
)


class HastyDisk(Disk):
    """Syncs nothing: for tests that open a journal a thousand times and lose no power."""

    def sync(self, fd):
        pass

    def sync_folder(self, path):
        pass


class FailingDisk(HastyDisk):
    """Counts its calls and fails the one that it is told to, once; a write stops halfway first."""

    def __init__(self, fail_at=None, error=errno.EIO, short=False):
        self.calls = []
        self.fail_at, self.error, self.short = fail_at, error, short
        self.failed = None

    def _count(self, name):
        self.calls.append(name)
        if len(self.calls) - 1 == self.fail_at:
            self.failed = name
            raise OSError(self.error, os.strerror(self.error))

    def write(self, fd, block):
        try:
            self._count("write")
        except OSError:
            if self.short and len(block) > 1:
                super().write(fd, block[: len(block) // 2])
            raise
        return super().write(fd, block)


def _counted(name):
    plain = getattr(HastyDisk, name)

    def call(self, *given):
        self._count(name)
        return plain(self, *given)

    return call


for _name in CALLS:
    if _name != "write":
        setattr(FailingDisk, _name, _counted(_name))


class ShortDisk(Disk):
    """Never writes more than a few bytes at a time."""

    def write(self, fd, block):
        return super().write(fd, block[:7])


@dataclass
class Inode:
    """A file's bytes as they are, and as they are known to be on disk."""

    changes: list = field(default_factory=list)
    """What was done since the last sync: (offset, bytes), or a size to which it was cut."""
    synced: bytes = b""


def applied(content, changes):
    content = bytearray(content)
    for change in changes:
        if isinstance(change, int):
            del content[change:]
            content.extend(bytes(change - len(content)))
        else:
            offset, block = change
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(block)] = block
    return bytes(content)


class RememberingDisk(HastyDisk):
    """Does everything for real under a root, and can say what is left when power is lost now.

    A file's bytes are safe when it was synced, its name when its folder was.
    """

    def __init__(self, root: Path):
        self.root = root
        self.names: dict[Path, Inode | None] = {}  # None is a folder
        self.safe_names: dict[Path, Inode | None] = {}
        self.open_files: dict[int, tuple[Inode, bool]] = {}
        self.moment = lambda: None

    def open(self, path, flags, mode=0o600):
        if path not in self.names:
            self.names[path] = Inode()
        inode = self.names[path]
        if flags & os.O_TRUNC:
            inode.changes.append(0)
        fd = super().open(path, flags, mode)
        self.open_files[fd] = inode
        self.moment()
        return fd

    def close(self, fd):
        self.open_files.pop(fd, None)
        super().close(fd)

    def write(self, fd, block):
        written = super().write(fd, block)
        end = os.lseek(fd, 0, os.SEEK_CUR)
        self.open_files[fd].changes.append((end - written, bytes(block[:written])))
        self.moment()
        return written

    def write_at(self, fd, block, offset):
        super().write_at(fd, block, offset)
        self.open_files[fd].changes.append((offset, block))
        self.moment()

    def truncate(self, fd, size):
        super().truncate(fd, size)
        self.open_files[fd].changes.append(size)
        self.moment()

    def sync(self, fd):
        self.moment()
        super().sync(fd)
        inode = self.open_files[fd]
        inode.synced, inode.changes = applied(inode.synced, inode.changes), []
        self.moment()

    def sync_folder(self, path):
        self.moment()
        for name in [name for name in self.safe_names if name.parent == path]:
            if name not in self.names:
                del self.safe_names[name]
        for name, inode in self.names.items():
            if name.parent == path:
                self.safe_names[name] = inode
        self.moment()

    def rename(self, old, new):
        super().rename(old, new)
        self.names[new] = self.names.pop(old)
        self.moment()

    def remove(self, path):
        super().remove(path)
        self.names.pop(path, None)
        self.moment()

    def make_folder(self, path):
        super().make_folder(path)
        self.names[path] = None
        self.moment()

    def leave(self, target: Path, *, names: str, bytes_kept: str) -> None:
        """Writes what power loss leaves: names `safe` or `all`; unsynced bytes none, half or all."""
        kept = self.safe_names if names == "safe" else {**self.safe_names, **self.names}
        for name in sorted(kept, key=lambda each: len(each.parts)):
            place = target / name.relative_to(self.root)
            if not place.parent.is_dir():
                continue  # its folder's own name was lost
            inode = kept[name]
            if inode is None:
                place.mkdir(mode=0o700, exist_ok=True)
                continue
            changes = inode.changes
            if bytes_kept == "none":
                changes = []
            elif bytes_kept == "half" and changes:
                changes = changes[: len(changes) // 2 + 1]
                last = changes[-1]
                if not isinstance(last, int):
                    changes = [*changes[:-1], (last[0], last[1][: len(last[1]) // 2])]
            elif bytes_kept == "holes":
                changes = [
                    change if isinstance(change, int) else (change[0], bytes(len(change[1])))
                    for change in changes
                ]
            place.write_bytes(applied(inode.synced, changes))
