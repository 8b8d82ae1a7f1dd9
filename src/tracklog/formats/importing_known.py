"""The sources that were imported before, and how far each was read.

It is a cache in `<home>/sources`: without it every source is read again.
"""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import orjson

from tracklog.formats.importers import SourcePosition
from tracklog.home.home import Home
from tracklog.journal.disk import write_private


class KnownSource(NamedTuple):
    """A source that was read before."""

    path: Path
    place: SourcePosition
    final: bool
    """Whether the source was read to its end."""
    seq: int
    """The last record of the journal at that time."""
    gone: str | None = None
    """The time since which the file is missing."""


class KnownSources:
    """The known sources of one home, by the name of their file."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._folder = home.path / "sources"
        self.by_name: dict[str, KnownSource] = {}
        self._keys: dict[str, dict[str, tuple[Path, str]]] = {}
        self._load()

    def save(self, name: str, known: KnownSource) -> None:
        """Store how far a source was read."""
        self._remember(name, known)
        state = {
            "path": os.fsencode(known.path).hex(),  # a path may be any bytes
            "place": known.place.as_json(),
            "final": known.final,
            "seq": known.seq,
            "gone": known.gone,
        }
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{_short(name)}.json"
        new = path.with_suffix(f".{os.getpid()}.new")
        content = orjson.dumps(state, default=str)
        if self._home.redact is not None:  # an unfinished report is the state that was reported
            content, _ = self._home.redact(content)
        write_private(new, content)
        new.replace(path)

    def _remember(self, name: str, known: KnownSource) -> None:
        self.by_name[name] = known
        keys = self._keys.setdefault(known.place.importer, {})
        for key, run in known.place.kept.get("keys", {}).items():
            keys.setdefault(key, (known.path, run))

    def _load(self) -> None:
        if not self._folder.is_dir():
            return
        last = self._home.journal.last
        for file in sorted(self._folder.glob("*.json")):
            try:
                state = orjson.loads(file.read_bytes())
                place = SourcePosition(**state["place"])
                path = Path(os.fsdecode(bytes.fromhex(state["path"])))
                known = KnownSource(path, place, state["final"], state["seq"], state["gone"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # a cache: its source is read again
            if known.seq <= last:  # if not, the cache belongs to another journal
                self._remember(name_of(known.path), known)

    def keyed(self, importer: str, key: str) -> tuple[Path, str] | None:
        """The source that has a key, and its run."""
        return self._keys.get(importer, {}).get(key)

    def paths_of(self, importer: str) -> Iterator[Path]:
        """The sources that an importer has read."""
        return (each.path for each in self.by_name.values() if each.place.importer == importer)


class OtherSources:
    """The sources of one importer: those of this import and those that were read before."""

    def __init__(self, known: KnownSources, importer: str, paths: list[Path]) -> None:
        self._known, self._importer, self._paths = known, importer, paths

    def named(self, part: str) -> Path | None:
        for path in (*self._paths, *self._known.paths_of(self._importer)):
            if part in path.name and path.exists():
                return path
        return None

    def keyed(self, key: str) -> tuple[Path, str] | None:
        return self._known.keyed(self._importer, key)


def name_of(path: Path) -> str:
    """The name of a source: its absolute path."""
    return os.fsencode(path.absolute()).decode("utf-8", "surrogateescape")


def _short(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
