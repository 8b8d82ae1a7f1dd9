"""Every dialect, fold, storage and index, by name or URL."""

import re
from pathlib import Path
from typing import Any

from tracklog.dialects import Dialect
from tracklog.folds import Fold
from tracklog.home.plugs import Openers, Registry
from tracklog.index.indexes import Index
from tracklog.journal.storages import Storage

MACHINERY = ("checking", "documents", "recognition", "rules", "schemas")
"""The files of `dialects` that are no dialect."""

_dialects: Registry[Dialect] = Registry("tracklog.dialects", Dialect, besides=MACHINERY)
_folds: Registry[Fold[Any]] = Registry("tracklog.folds", Fold)
_storages: Openers[Storage] = Openers(
    "tracklog.journal.storages", "storage", group="tracklog.storages"
)
_indexes: Openers[Index] = Openers("tracklog.index.indexes", "index", group="tracklog.indexes")

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+")

dialect, dialects, dialect_names = _dialects.get, _dialects.all, _dialects.names
fold, folds, fold_names = _folds.get, _folds.all, _folds.names
storage_names = _storages.names
index = _indexes.open


def storage(place: str | Path, /, **options: Any) -> Storage:
    """The storage at a path or URL, opened: `/var/lib/tracklog`, `file:/var/lib/tracklog`, `memory:`."""
    return _storages.open(url_of(place), **options)


def url_of(place: str | Path) -> str:
    """The URL of a place; a path is a `file:` URL. A path whose first part has a colon is written
    with `./` before it.
    """
    scheme, colon, _ = str(place).partition(":")
    is_url = isinstance(place, str) and colon and _SCHEME.fullmatch(scheme)
    return str(place) if is_url else f"file:{place}"
