"""Facts written as lines of this dialect."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from hashlib import sha256
from operator import attrgetter
from typing import Any

import orjson

from tracklog.dialects import Scene
from tracklog.model.event import Body
from tracklog.model.fact import NATIVE_FACTS, Fact


def _spelling(fact: type[Fact]) -> tuple[Callable[[Fact], tuple[Any, ...]], list[tuple[str, Any]]]:
    """A getter of all fields of a fact; for each field its key on a line, and the value that is
    left out.
    """
    items = [item for item in fields(fact) if item.name != "fidelity"]
    keys = [(item.name.rstrip("_"), item.default) for item in items]
    return attrgetter(*(item.name for item in items)), keys


_SPELLINGS = {fact: _spelling(fact) for fact in NATIVE_FACTS}


def body_of(fact: Fact) -> Body:
    """The part of a line that a fact fills: the fields that have a value."""
    kind = type(fact)
    values, keys = _SPELLINGS[kind]
    body: Body = {"fact": kind.__name__}
    for (key, default), value in zip(keys, values(fact), strict=True):
        if value is not default and value != default:
            body[key] = value
    return body


def line(
    fact: Fact,
    *,
    id: str,
    run: str,
    origin: Mapping[str, Any],
    at: str | None = None,
    **more: Any,
) -> bytes:
    """A fact as a line; `more` holds the keys that every line may have: family, cause, extra."""
    body = body_of(fact)
    head = {"id": id, "run": run, "at": at, "fact": body.pop("fact")}
    full = {**head, **body, **more, "origin": origin}
    return orjson.dumps({key: value for key, value in full.items() if value is not None})


def line_id(writer: str, mapping: str, run: str, record: bytes, k: int = 0, n: int = 0) -> str:
    """The id of the n-th fact of a source record, the same wherever the record is read."""
    try:
        canonical = orjson.dumps(orjson.loads(record), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONDecodeError:
        canonical = record
    parts = (writer, mapping, run, sha256(canonical).hexdigest(), str(k), str(n))
    return sha256("\n".join(parts).encode()).digest()[:16].hex()


def write(fact: Fact, scene: Scene) -> Body | None:
    body = orjson.loads(orjson.dumps(body_of(fact)))
    match body["fact"]:
        case "Moved":
            body["from"] = body["from"] or scene.memory.get(f"status {fact.agent}", "unknown")
            scene.memory[f"status {fact.agent}"] = body["to"]
        case "Spent":
            body["key"] = body.get("key") or scene.id
        case "Answered":
            body.setdefault("answer", None)
        case "Decided" if not {"verdict", "score"} & body.keys():
            body["verdict"] = None
    origin = {"writer": "convert", "fidelity": fact.fidelity}
    time = {"at": scene.at} if scene.timed else {}
    return {"id": scene.id, "run": scene.run, **time, **body, "origin": origin}
