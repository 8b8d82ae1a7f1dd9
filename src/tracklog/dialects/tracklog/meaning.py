"""The fact of a line, and the source record that it was made from."""

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from typing import Any

from tracklog.dialects import SourceRecord, text
from tracklog.model.event import Body, Event
from tracklog.model.fact import NATIVE_FACTS, Fact


def names(event: Event) -> tuple[str, ...]:
    """The id of the line, and the keys of its record at its source."""
    origin = event.body.get("origin")
    record = origin.get("record") if isinstance(origin, dict) else None
    keys = record if isinstance(record, list) else [record]
    return tuple(key for key in (event.id, *keys) if isinstance(key, str))


def _fields(fact: type[Fact]) -> dict[str, tuple[str, bool]]:
    """The fields of a fact by their key on a line, and whether each is a tuple."""
    return {
        item.name.rstrip("_"): (item.name, "tuple[" in str(item.type))
        for item in fields(fact)
        if item.name != "fidelity"
    }


FIELDS = {fact.__name__: (fact, _fields(fact)) for fact in NATIVE_FACTS}


def facts(event: Event) -> Iterator[Fact]:
    body = event.body
    fact, keys = FIELDS[event.kind]
    values: dict[str, Any] = {
        name: tuple(body[key]) if is_tuple else body[key]
        for key, (name, is_tuple) in keys.items()
        if key in body
    }
    if "mapping" in body["origin"]:
        # A mapping writes a call and its return as two lines, so an id that it made is valid in the
        # run.
        values.pop("synthetic_id", None)
    yield fact(**values, fidelity=body["origin"]["fidelity"])


SPAN = re.compile("[0-9a-f]{32}/[0-9a-f]{16}")
"""The key of a span; a corrected span is sent again with the same key and other content."""


def source(event: Event) -> SourceRecord | None:
    """The source record, known by its key and by the hash of its bytes.

    By both, because one mapping may know a key where another does not.
    """
    body, origin = event.body, event.body["origin"]
    raw = origin.get("raw")
    record = origin.get("record") or raw
    back = _taken_back(body) if event.kind == "Noted" else None
    if record is None and back is None:
        return None
    corrected = None
    if isinstance(record, str):
        names: tuple[str, ...] = (record,)
        corrected = raw if origin.get("revised") is True or SPAN.fullmatch(record) else None
        if corrected is not None and "speaker" in origin:
            corrected = f"{raw} {origin['speaker']}"
    else:
        names = tuple(record or ())
    if raw is not None and raw not in names:
        names += (raw,)
    return SourceRecord(
        origin["writer"], names, _version(origin.get("mapping", "")), corrected, back
    )


def _taken_back(body: Body) -> str | None:
    data = body.get("data")
    if body["label"] != "withdrawn" or not isinstance(data, dict):
        return None
    return text(data.get("from"))


@lru_cache(maxsize=256)
def _version(mapping: int | str) -> tuple[tuple[int, str], ...]:
    """The version of a mapping in a form that sorts: 10 is newer than 9, and 1.10 newer than 1.9."""
    parts = re.findall("[0-9]+|[^0-9]+", str(mapping))
    return tuple((int(part), "") if part[0] in "0123456789" else (-1, part) for part in parts)
