"""Every plug that the record itself is made with, by name; the hosts' stand with the hosts."""

from functools import cache
from typing import Any

from tracklog import plugs
from tracklog.dialects import Dialect
from tracklog.errors import BadPlug, UnknownName
from tracklog.exporters import Exporter
from tracklog.folds import Fold
from tracklog.importers import Importer
from tracklog.indexes import Index
from tracklog.stores import Store

DIALECTS, FOLDS = "tracklog.dialects", "tracklog.folds"
IMPORTERS, EXPORTERS = "tracklog.importers", "tracklog.exporters"
STORES, INDEXES = "tracklog.stores", "tracklog.indexes"


def dialect_names() -> list[str]:
    """Every dialect that can be asked for, without reading any of them."""
    return plugs.names(DIALECTS)


@cache
def dialect(name: str) -> Dialect:
    """The dialect of that name."""
    return plugs.plug(DIALECTS, Dialect, name)


def dialects() -> list[Dialect]:
    """Every dialect, by name."""
    return [dialect(name) for name in dialect_names()]


def fold_names() -> list[str]:
    """Every fold that can be asked for, without reading any of them."""
    return plugs.names(FOLDS)


@cache
def fold(name: str) -> Fold[Any]:
    """The fold of that name."""
    return plugs.plug(FOLDS, Fold, name)


def folds() -> list[Fold[Any]]:
    """Every fold, by name."""
    return [fold(name) for name in fold_names()]


def importer_names() -> list[str]:
    """Every importer that can be asked for, without reading any of them."""
    return plugs.names(IMPORTERS)


@cache
def importer(name: str) -> Importer:
    """The importer of that name."""
    return plugs.plug(IMPORTERS, Importer, name)


def importers() -> list[Importer]:
    """Every importer, by name."""
    return [importer(name) for name in importer_names()]


def exporter_names() -> list[str]:
    """Every format that a run can be written in, without reading any of them."""
    return plugs.names(EXPORTERS)


@cache
def exporter(name: str) -> Exporter:
    """The exporter of that name."""
    return plugs.plug(EXPORTERS, Exporter, name, called="format")


def exporters() -> list[Exporter]:
    """Every exporter, by name."""
    return [exporter(name) for name in exporter_names()]


def store_names() -> list[str]:
    """Every kind of store that can be asked for: the schemes of their URLs."""
    return plugs.names(STORES)


def store(url: str, **options: Any) -> Store:
    """The store at a URL, opened: `file:/var/lib/tracklog`, `memory:`."""
    opened: Store = _opened(STORES, "store", url, **options)
    return opened


def index_names() -> list[str]:
    """Every kind of index that can be asked for: the schemes of their URLs."""
    return plugs.names(INDEXES)


def index(url: str, **options: Any) -> Index:
    """The index at a URL, opened: `sqlite:/var/lib/tracklog/index.db`, `sqlite::memory:`."""
    opened: Index = _opened(INDEXES, "index", url, **options)
    return opened


def _opened(folder: str, word: str, url: str, /, **options: Any) -> Any:
    """What stands behind a URL: its scheme is the plug, and the plug opens the rest."""
    scheme, colon, place = url.partition(":")
    known = plugs.names(folder)
    if not colon or scheme not in known:
        schemes = ", ".join(f"{name}:" for name in known)
        raise UnknownName(
            f"there is no {word} for {url!r}", f"begin the URL with one of: {schemes}"
        )
    opens = plugs.found(folder, scheme, word)
    if not callable(opens):
        raise BadPlug(
            f"the {word} {scheme!r} cannot be opened",
            f"its file must end with `{word} = ...`, a function that opens it",
        )
    return opens(place, **options)
