"""Finds the plugs: the folder is the registry, and outside packages add theirs as entry points."""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import tracklog.dialects
import tracklog.stores
from tracklog.dialects import Dialect
from tracklog.errors import BadPlug, UnknownName
from tracklog.stores import Store


def _files(folder: ModuleType) -> dict[str, str]:
    """The plug modules of a folder, by the name they go by."""
    return {
        module.name.replace("_", "-"): f"{folder.__name__}.{module.name}"
        for module in iter_modules(folder.__path__)
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


def store_names() -> list[str]:
    """Every kind of store that can be asked for: the schemes of their URLs."""
    return sorted(_files(tracklog.stores) | _outside(tracklog.stores))


def store(url: str, **options: Any) -> Store:
    """The store at a URL, opened: `file:/var/lib/tracklog`, `memory:`."""
    scheme, colon, place = url.partition(":")
    files = _files(tracklog.stores)
    if colon and scheme in files:
        opened = getattr(import_module(files[scheme]), "store", None)
    elif colon and scheme in (outside := _outside(tracklog.stores)):
        opened = outside[scheme].load()
    else:
        raise UnknownName(
            f"there is no store for {url!r}",
            f"begin the URL with one of: {', '.join(f'{name}:' for name in store_names())}",
        )
    if not callable(opened):
        raise BadPlug(
            f"the store {scheme!r} cannot be opened",
            "its file must end with `store = ...`, a function that opens it",
        )
    found: Store = opened(place, **options)
    return found
