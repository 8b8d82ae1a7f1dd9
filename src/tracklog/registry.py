"""Finds the plugs: the folder is the registry, and outside packages add theirs as entry points."""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import tracklog.dialects
import tracklog.exporters
import tracklog.folds
import tracklog.importers
import tracklog.indexes
import tracklog.stores
from tracklog.dialects import Dialect
from tracklog.errors import BadPlug, UnknownName
from tracklog.exporters import Exporter
from tracklog.folds import Fold
from tracklog.importers import Importer
from tracklog.indexes import Index
from tracklog.stores import Store


def _files(folder: ModuleType) -> dict[str, str]:
    """The plug modules of a folder, by the name they go by."""
    return {
        module.name.replace("_", "-"): f"{folder.__name__}.{module.name}"
        for module in iter_modules(folder.__path__)
        if not module.name.startswith("_")
    }


def _outside(folder: ModuleType) -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=folder.__name__)}


def dialect_names() -> list[str]:
    """Every dialect that can be asked for, without reading any of them."""
    return sorted(_files(tracklog.dialects) | _outside(tracklog.dialects))


@cache
def dialect(name: str) -> Dialect:
    """The dialect of that name."""
    files = _files(tracklog.dialects)
    if name in files:
        plug = getattr(import_module(files[name]), "dialect", None)
    elif name in (outside := _outside(tracklog.dialects)):
        plug = outside[name].load()
    else:
        raise UnknownName(
            f"there is no dialect {name!r}", f"the dialects are: {', '.join(dialect_names())}"
        )
    if not isinstance(plug, Dialect) or plug.name != name:
        raise BadPlug(
            f"the dialect {name!r} is not a Dialect of that name",
            f"its file must end with `dialect = Dialect(name={name!r}, ...)`",
        )
    return plug


def dialects() -> list[Dialect]:
    """Every dialect, by name."""
    return [dialect(name) for name in dialect_names()]


def fold_names() -> list[str]:
    """Every fold that can be asked for, without reading any of them."""
    return sorted(_files(tracklog.folds) | _outside(tracklog.folds))


@cache
def fold(name: str) -> Fold[Any]:
    """The fold of that name."""
    files = _files(tracklog.folds)
    if name in files:
        plug = getattr(import_module(files[name]), "fold", None)
    elif name in (outside := _outside(tracklog.folds)):
        plug = outside[name].load()
    else:
        raise UnknownName(f"there is no fold {name!r}", f"the folds are: {', '.join(fold_names())}")
    if not isinstance(plug, Fold) or plug.name != name:
        raise BadPlug(
            f"the fold {name!r} is not a Fold of that name",
            f"its file must end with `fold = Fold(name={name!r}, ...)`",
        )
    return plug


def folds() -> list[Fold[Any]]:
    """Every fold, by name."""
    return [fold(name) for name in fold_names()]


def importer_names() -> list[str]:
    """Every importer that can be asked for, without reading any of them."""
    return sorted(_files(tracklog.importers) | _outside(tracklog.importers))


@cache
def importer(name: str) -> Importer:
    """The importer of that name."""
    files = _files(tracklog.importers)
    if name in files:
        plug = getattr(import_module(files[name]), "importer", None)
    elif name in (outside := _outside(tracklog.importers)):
        plug = outside[name].load()
    else:
        raise UnknownName(
            f"there is no importer {name!r}", f"the importers are: {', '.join(importer_names())}"
        )
    if not isinstance(plug, Importer) or plug.name != name:
        raise BadPlug(
            f"the importer {name!r} is not an Importer of that name",
            f"its file must end with `importer = Importer(name={name!r}, ...)`",
        )
    return plug


def importers() -> list[Importer]:
    """Every importer, by name."""
    return [importer(name) for name in importer_names()]


def exporter_names() -> list[str]:
    """Every format that a run can be written in, without reading any of them."""
    return sorted(_files(tracklog.exporters) | _outside(tracklog.exporters))


@cache
def exporter(name: str) -> Exporter:
    """The exporter of that name."""
    files = _files(tracklog.exporters)
    if name in files:
        plug = getattr(import_module(files[name]), "exporter", None)
    elif name in (outside := _outside(tracklog.exporters)):
        plug = outside[name].load()
    else:
        known = ", ".join(exporter_names())
        raise UnknownName(f"there is no format {name!r}", f"the formats are: {known}")
    if not isinstance(plug, Exporter) or plug.name != name:
        raise BadPlug(
            f"the exporter {name!r} is not an Exporter of that name",
            f"its file must end with `exporter = Exporter(name={name!r}, ...)`",
        )
    return plug


def exporters() -> list[Exporter]:
    """Every exporter, by name."""
    return [exporter(name) for name in exporter_names()]


def store_names() -> list[str]:
    """Every kind of store that can be asked for: the schemes of their URLs."""
    return sorted(_files(tracklog.stores) | _outside(tracklog.stores))


def store(url: str, **options: Any) -> Store:
    """The store at a URL, opened: `file:/var/lib/tracklog`, `memory:`."""
    found: Store = _opened(tracklog.stores, "store", url, **options)
    return found


def index_names() -> list[str]:
    """Every kind of index that can be asked for: the schemes of their URLs."""
    return sorted(_files(tracklog.indexes) | _outside(tracklog.indexes))


def index(url: str, **options: Any) -> Index:
    """The index at a URL, opened: `sqlite:/var/lib/tracklog/index.db`, `sqlite::memory:`."""
    found: Index = _opened(tracklog.indexes, "index", url, **options)
    return found


def _opened(folder: ModuleType, word: str, url: str, /, **options: Any) -> Any:
    """What stands behind a URL: its scheme is the plug, and the plug opens the rest."""
    scheme, colon, place = url.partition(":")
    files, outside = _files(folder), _outside(folder)
    if colon and scheme in files:
        opened = getattr(import_module(files[scheme]), word, None)
    elif colon and scheme in outside:
        opened = outside[scheme].load()
    else:
        names = ", ".join(f"{name}:" for name in sorted(files | outside))
        raise UnknownName(f"there is no {word} for {url!r}", f"begin the URL with one of: {names}")
    if not callable(opened):
        raise BadPlug(
            f"the {word} {scheme!r} cannot be opened",
            f"its file must end with `{word} = ...`, a function that opens it",
        )
    return opened(place, **options)
