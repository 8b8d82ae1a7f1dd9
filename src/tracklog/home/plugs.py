"""Plug-ins by name: the files of a folder, and the entry points of other packages."""

import os
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

from tracklog.model.errors import BadPlug, UnknownName

T = TypeVar("T")


class Plugs(Generic[T]):
    """The plugs of one folder: each file, but for those that `besides` names, is a plug.

    `group` is the entry point group under which other packages offer theirs, `word` the name that
    a file gives its plug, `called` what a person calls such a thing.
    """

    def __init__(
        self,
        folder: str,
        word: str,
        *,
        group: str = "",
        called: str = "",
        besides: Iterable[str] = (),
    ) -> None:
        self.folder, self.word = folder, word
        self.group, self.called = group or folder, called or word
        self._besides = frozenset(besides)

    def names(self) -> list[str]:
        """The name of every plug, without importing any."""
        return sorted(self._files | _offered(self.group).keys())

    def load(self, name: str) -> Any:
        """The object that a plug's file or entry point gives, unchecked; None where there is none."""
        if name in self._files:
            try:
                module = import_module(f"{self.folder}.{name.replace('-', '_')}")
            except OSError as error:
                raise _unreadable(f"the {self.word} {name!r}", error) from error
            return getattr(module, self.word, None)
        offered = _offered(self.group).get(name)
        return offered.load() if offered else None

    @cached_property
    def _files(self) -> set[str]:
        paths = import_module(self.folder).__path__
        for path in paths:  # iter_modules takes a folder that cannot be read for an empty one
            try:
                os.scandir(path).close()
            except NotADirectoryError:  # a package inside an archive
                pass
            except OSError as error:
                raise _unreadable(f"the plugs of {self.folder}", error) from error
        names = {each.name for each in iter_modules(paths) if not each.name.startswith("_")}
        return {name.replace("_", "-") for name in names - self._besides}


class Registry(Plugs[T]):
    """Plug-ins that are objects of one class, each with its `name`."""

    def __init__(
        self, folder: str, shape: type[T], *, group: str = "", called: str = "", **options: Any
    ) -> None:
        super().__init__(folder, shape.__name__.lower(), group=group, called=called, **options)
        self.shape = shape
        self._made: dict[str, T] = {}

    def get(self, name: str) -> T:
        """The plug of that name."""
        if name not in self._made:
            self._made[name] = self._checked(name)
        return self._made[name]

    def all(self) -> list[T]:
        """Every plug, by name."""
        return [self.get(name) for name in self.names()]

    def _checked(self, name: str) -> T:
        word, called, shape = self.word, self.called, self.shape
        if name not in (known := self.names()):
            raise UnknownName(
                f"there is no {called} {name!r}", f"the {called}s are: {', '.join(known)}"
            )
        made = self.load(name)
        if not isinstance(made, shape) or getattr(made, "name", None) != name:
            article = "an" if word[0] in "aeiou" else "a"
            raise BadPlug(
                f"the {word} {name!r} is not {article} {shape.__name__} of that name",
                f"its file must end with `{word} = {shape.__name__}(name={name!r}, ...)`",
            )
        return made


class Openers(Plugs[T]):
    """Plugs that are functions which open a URL; the scheme of the URL is the plug's name."""

    def open(self, url: str, /, **options: Any) -> T:
        """The thing at a URL, opened: `file:/var/lib/tracklog`, `memory:`."""
        scheme, colon, place = url.partition(":")
        known = self.names()
        if not colon or scheme not in known:
            schemes = ", ".join(f"{name}:" for name in known)
            raise UnknownName(
                f"there is no {self.word} for {url!r}", f"begin the URL with one of: {schemes}"
            )
        opener: Callable[..., T] | None = self.load(scheme)
        if not callable(opener):
            raise BadPlug(
                f"the {self.word} {scheme!r} cannot be opened",
                f"its file must end with `{self.word} = ...`, a function that opens it",
            )
        return opener(place, **options)


def _unreadable(what: str, error: OSError) -> BadPlug:
    reason = error.strerror or str(error)
    where = error.filename or "tracklog's folder"
    return BadPlug(f"{what} cannot be read: {reason}", f"let this user read {where}")


_installed = cache(entry_points)
"""Every entry point of this environment; a search for one group reads all packages too."""


@cache
def _offered(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in _installed().select(group=group)}
