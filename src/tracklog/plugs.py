"""Plugs by name: the folder is the registry, and outside packages add theirs as entry points."""

import os
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Any, TypeVar

from tracklog.errors import BadPlug, UnknownName

T = TypeVar("T")


def names(folder: str) -> list[str]:
    """Every plug of a folder, inside and outside, without reading any of them."""
    return sorted(_files(folder) | _outside(folder).keys())


def found(folder: str, name: str, word: str) -> Any:
    """What a file calls `word`, or what an outside package offers under that name; else None."""
    if name in _files(folder):
        try:
            module = import_module(f"{folder}.{name.replace('-', '_')}")
        except OSError as error:
            raise _unreadable(f"the {word} {name!r}", error) from error
        return getattr(module, word, None)
    outside = _outside(folder).get(name)
    return outside.load() if outside else None


def plug(folder: str, shape: type[T], name: str, called: str = "") -> T:
    """The plug of that name; `called` is what a person calls such a thing."""
    word = shape.__name__.lower()
    if name not in (known := names(folder)):
        one = called or word
        raise UnknownName(f"there is no {one} {name!r}", f"the {one}s are: {', '.join(known)}")
    made = found(folder, name, word)
    if not isinstance(made, shape) or getattr(made, "name", None) != name:
        article = "an" if word[0] in "aeiou" else "a"
        raise BadPlug(
            f"the {word} {name!r} is not {article} {shape.__name__} of that name",
            f"its file must end with `{word} = {shape.__name__}(name={name!r}, ...)`",
        )
    return made


def _files(folder: str) -> set[str]:
    paths = import_module(folder).__path__
    for path in paths:  # iter_modules takes a folder that cannot be read for an empty one
        try:
            os.scandir(path).close()
        except NotADirectoryError:  # a package inside an archive
            pass
        except OSError as error:
            raise _unreadable(f"the plugs of {folder}", error) from error
    modules = iter_modules(paths)
    return {each.name.replace("_", "-") for each in modules if not each.name.startswith("_")}


def _unreadable(what: str, error: OSError) -> BadPlug:
    reason = error.strerror or str(error)
    where = error.filename or "tracklog's folder"
    return BadPlug(f"{what} cannot be read: {reason}", f"let this user read {where}")


@cache
def _outside(folder: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=folder)}
