"""The states of a fold as JSON: without default values, and without what the key contains."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import orjson

from tracklog.folds import MARK, Fold

S = TypeVar("S")


def freeze(key: str, state: Any) -> bytes:
    """A state as JSON, without the fields that have their default.

    So are `family` and `run`, where the key begins with them.
    """
    shape = _shape(type(state))
    fields = zip(shape.names, shape.values(state), shape.usual, strict=False)
    values = {
        name: value
        for name, value, usual in fields
        if value is not usual and value != usual  # most are the same object
    }
    if shape.of_run and key.partition(MARK)[0] == f"{state.family}:{state.run}":
        values.pop("family", None)
        values.pop("run", None)
    return orjson.dumps(values)


def thaw(fold: Fold[S], key: str, state: bytes) -> S:
    """The state from the JSON under a key."""
    values = orjson.loads(state)
    if _shape(fold.State).of_run and "family" not in values:
        values["family"], _, values["run"] = key.partition(MARK)[0].partition(":")
    return fold.State(**values)


def usual(fold: Fold[Any]) -> Mapping[str, Any]:
    """The fields of a fold's states, each with its default."""
    shape = _shape(fold.State)
    return dict(zip(shape.names, shape.usual, strict=False))


class _ClassCodec(NamedTuple):
    names: tuple[str, ...]
    values: Callable[[Any], tuple[Any, ...]]
    usual: tuple[Any, ...]
    of_run: bool
    """Whether it has the fields `family` and `run`."""


_shapes: dict[type, _ClassCodec] = {}


def _shape(state: type) -> _ClassCodec:
    known = _shapes.get(state)
    if known is None:
        known = _shapes[state] = _shape_of(state)
    return known


def _shape_of(state: type) -> _ClassCodec:
    names = tuple(each.name for each in fields(state))
    # A second name, because of one alone it would get no tuple.
    values = attrgetter(*names, "__class__")
    return _ClassCodec(names, values, values(state()), {"family", "run"} <= {*names})
