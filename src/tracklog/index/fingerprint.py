"""A hash of everything that decides what the index stores: if it changes, the index is rebuilt."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog import __version__
from tracklog.dialects import Dialect
from tracklog.folds import Fold
from tracklog.index.codec import thaw
from tracklog.index.folding import Folding
from tracklog.index.search_text import searchable_text
from tracklog.reading import messages, revisions, rules
from tracklog.reading import record as reading_record
from tracklog.reading.walk import Walker


def fingerprint(
    dialects: Mapping[str, Dialect], folds: Mapping[str, Fold[Any]], words: bool
) -> str:
    """A hash that changes when a fold, a dialect or this version may read a record differently."""
    shapes = [
        [fold.name, *sorted(each.__name__ for each in fold.facts)]
        + [f"{each.name}:{each.type}" for each in fields(fold.State)]
        for fold in folds.values()
    ]
    modules = {Folding.__module__, thaw.__module__, searchable_text.__module__, Walker.__module__}
    modules |= {each.__name__ for each in (messages, reading_record, revisions, rules)}
    sources = {file for name in modules if (file := _file(name))}
    used = {module for dialect in dialects.values() for module in dialect.modules}
    used |= {part.__module__ for fold in folds.values() for part in (fold.key, fold.step)}
    sources |= _packages(used)
    hashes = sorted([file.name, _hash(file)] for file in sources)
    parts = [__version__, words, sorted(shapes), sorted(dialects), hashes]
    return sha256(orjson.dumps(parts)).hexdigest()


def _packages(modules: Iterable[str]) -> set[Path]:
    """The files of the packages that modules belong to; of a module without one, its own file.

    A function of a dialect or a fold may call others of its package, and what all of these share.
    """
    files = {module: file for module in modules if (file := _file(module))}
    inside = [name for name in files if getattr(sys.modules.get(name), "__package__", None)]
    folders = {files[name].parent for name in inside}
    return {*files.values(), *(file for folder in folders for file in folder.rglob("*.py"))}


def _file(module: str) -> Path | None:
    path = getattr(sys.modules.get(module), "__file__", None)
    return Path(path) if path else None


_hashes: dict[tuple[Path, int, int], str] = {}


def _hash(file: Path) -> str:
    """The hash of a file, where it can be read; a file that did not change is read once per process."""
    try:
        status = file.stat()
        version = (file, status.st_mtime_ns, status.st_size)
        if version not in _hashes:
            _hashes[version] = sha256(file.read_bytes()).hexdigest()
        return _hashes[version]
    except OSError:
        return ""
