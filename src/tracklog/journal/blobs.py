"""Large values, stored under the hash of their bytes.

Each is the file `<home>/blobs/sha256/ab/<the rest>`; many small ones together are a pack.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from tracklog.journal.disk import Disk, make_folders, write_file
from tracklog.journal.packs import Packs
from tracklog.model.errors import BlobDamaged, NoSuchBlob

_SMALL = 256 << 10  # bytes, from which on a blob has a file of its own
_TOGETHER = 8 << 20  # bytes of small blobs that are synced together
_HASH = re.compile(r"[0-9a-f]{64}")


class FileBlobs:
    """A blob is stored until it is collected; many processes may put the same one at once."""

    def __init__(self, home: Path | str, disk: Disk | None = None) -> None:
        self.folder = Path(home) / "blobs" / "sha256"
        self.disk = disk or Disk()
        self.packs = Packs(Path(home) / "blobs" / "packs", self.disk)

    def put_all(self, contents: Iterable[bytes]) -> None:
        """Store them all, many small ones with one sync; on disk on return."""
        small: dict[str, bytes] = {}
        size = 0
        for content in contents:
            if len(content) >= _SMALL:
                self.put(content)
                continue
            small[sha256(content).hexdigest()] = content
            size += len(content)
            if size > _TOGETHER:
                self._put_small(small)
                small, size = {}, 0
        self._put_small(small)

    def _put_small(self, contents: dict[str, bytes]) -> None:
        new = self.packs.news(contents)
        new = {name: each for name, each in new.items() if not self._is_alone(name)}
        if new:
            self.packs.put(new)

    def put(self, content: bytes) -> str:
        """The content's SHA-256, by which it can be got; on disk on return."""
        name = sha256(content).hexdigest()
        path = self._path(name)
        if path.exists():
            return name
        make_folders(self.disk, path.parent)
        write_file(self.disk, path, content)
        return name

    def get(self, name: str) -> bytes:
        """The content that was put, and no other."""
        path = self._path(name)
        content: bytes | None
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            content = self.packs.read(name)
        if content is None:
            raise NoSuchBlob(
                f"there is no blob {name}", "it was collected, or belongs to another home"
            )
        if sha256(content).hexdigest() != name:
            place = self.packs.find(name) if not path.exists() else None
            raise BlobDamaged(
                f"{place.pack if place else path} does not have the bytes that were put",
                "bring it back from a backup, or remove it and import its source again",
            )
        return content

    def size(self, name: str) -> int | None:
        """In bytes; None where it is not stored here."""
        path = self._path(name)
        if path.exists():
            return path.stat().st_size
        place = self.packs.find(name)
        return place.size if place else None

    def list(self) -> Iterator[str]:
        """The hash of every blob, in order."""
        yield from sorted({*self._alone(), *self.packs.names()})

    def _alone(self) -> Iterator[str]:
        """Those that have a file of their own."""
        for part in self.folder.iterdir() if self.folder.is_dir() else ():
            for path in part.iterdir():
                if _HASH.fullmatch(part.name + path.name):
                    yield part.name + path.name

    def collect(self, wanted: Callable[[str], bool], older_than: float = 0) -> int:
        """Removes every blob that is not wanted; the bytes that were freed.

        `older_than` is a time in seconds since 1970: a blob that was put later stays, because the
        line that names it may not be stored yet.
        """
        freed = self.packs.collect(wanted, older_than)
        for name in [*self._alone()]:
            path = self._path(name)
            state = path.stat()
            if not wanted(name) and (not older_than or state.st_mtime < older_than):
                self.disk.remove(path)
                freed += state.st_size
        return freed

    def _is_alone(self, name: str) -> bool:
        """Whether it has a file of its own; asked of very many, so without making a path of it."""
        return os.access(f"{self.folder}/{name[:2]}/{name[2:]}", os.F_OK)

    def _path(self, name: str) -> Path:
        if not _HASH.fullmatch(name):
            raise NoSuchBlob(
                f"{name!r} is not a SHA-256", "a blob's name is 64 digits, 0-9 and a-f"
            )
        return self.folder / name[:2] / name[2:]
