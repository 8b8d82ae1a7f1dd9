"""Cut an answer into pages, so that one result of a tool stays small."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tracklog.answers import JsonValue
from tracklog.model.event import Body

MOST = 60_000
"""Bytes of a result: the answer as JSON, and once more as a text that holds this JSON."""
_TEXTS = (4000, 1000, 200)
_ITEMS = (100, 10, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of an answer this is."""

    of: str
    """The list that is paged: `answer`, or a field of it."""
    first: int
    """How many of its items were skipped."""
    next: int | None
    """The `skip` of the next page; null where this is the last one."""
    total: int
    """How many items the list has in total."""
    cut: bool
    """Long texts, and long lists inside of an item, were cut."""


def page(answer: object, skip: int = 0) -> tuple[Any, Page | None]:
    """A part of an answer that is small enough, as JSON values; no page if it is all of it."""
    value = orjson.loads(orjson.dumps(answer))
    if not skip and _size(value) <= MOST:
        return value, None
    name = None if isinstance(value, list) else _longest(value)
    if name is None and not isinstance(value, list):
        return _cut(value, MOST), Page(of="answer", first=0, next=None, total=1, cut=True)
    items = value if name is None else value[name]
    rest: Any = [] if name is None else _cut({**value, name: []}, MOST // 2)
    room = MOST - _size(rest)
    chosen: list[Any] = []
    cut = name is not None and rest != {**value, name: []}
    for item in items[skip:]:
        size = _size(item)
        if size > room and not chosen:
            item, cut = _cut(item, room), True  # noqa: PLW2901  # as much of it as there is room for
            size = _size(item)
        if size > room:
            break
        chosen.append(item)
        room -= size
    end = skip + len(chosen)
    part = Page(
        of=name or "answer",
        first=skip,
        next=end if end < len(items) else None,
        total=len(items),
        cut=cut,
    )
    return chosen if name is None else {**rest, name: chosen}, part


def _size(value: object) -> int:
    """The bytes of a value in a result: as JSON, and as JSON in a text."""
    text = orjson.dumps(value)
    return len(text) + len(orjson.dumps(text.decode()))


def _longest(value: Body) -> str | None:
    """The list among the fields of an answer that takes the most room."""
    lists = [name for name, each in value.items() if isinstance(each, list) and each]
    return max(lists, key=lambda name: len(orjson.dumps(value[name])), default=None)


def _cut(value: JsonValue, most: int) -> JsonValue:
    """A value of the same shape that is small enough: with shorter texts, then with shorter lists."""
    for texts, items in [(each, 0) for each in _TEXTS] + [(_TEXTS[-1], each) for each in _ITEMS]:
        if _size(value) <= most:
            return value
        value = _shortened(value, texts, items)
    return value


def _shortened(value: JsonValue, texts: int, items: int) -> JsonValue:
    if isinstance(value, str) and len(value) > texts:
        return f"{value[: texts - 1]}…"
    if isinstance(value, dict):
        return {key: _shortened(each, texts, items) for key, each in value.items()}
    if isinstance(value, list):
        some: Sequence[Any] = value[:items] if items else value
        return [_shortened(each, texts, items) for each in some]
    return value
