"""The stores of OpenCode: rows of a database, or one JSON file per record."""

import sqlite3
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import (
    count,
    inside,
    word,
)
from tracklog.formats.importers._snapshots import (
    Stored,
    log_beside,
    parsed,
    read_json,
    row_of,
    rows,
    without,
)
from tracklog.formats.importers._sqlite import columns
from tracklog.formats.providers import Body, items, obj

NAME = "opencode"
CHANGING = ("time_updated", "time_compacting", "time_archived", "messages", "revert", "metadata")


def parts_of(message: Body) -> list[Body]:
    return [each for each in items(message.get("parts")) if isinstance(each, dict)]


def program_of(path: Path) -> str:
    """The program of a store, by its place: Kilo has the same one."""
    return "kilo" if path.stem.startswith("kilo") or "kilo" in path.parts else NAME


def messages_of(path: Path, session: Body) -> list[Body]:
    """The messages of a session in a folder of JSON files, in order."""
    id, messages = str(session.get("id")), []
    for file in inside(_root(path) / "message" / id, "*.json"):
        if isinstance(message := read_json(file), dict):
            parts = map(read_json, inside(_parts(path, id, str(message.get("id"))), "*.json"))
            messages.append({**message, "parts": [each for each in parts if each is not None]})
    return sorted(messages, key=_order)


def _root(path: Path) -> Path:
    """The folder with the folders of messages and parts."""
    return path.parent.parent if path.parent.name == "info" else path.parent.parent.parent


def _parts(path: Path, session: str, message: str) -> Path:
    part = _root(path) / "part"
    return part / session / message if path.parent.name == "info" else part / message


def _order(message: Body) -> tuple[int, str]:
    return count(obj(message.get("time")).get("created")) or 0, str(message.get("id"))


def beside(path: Path) -> Iterator[Path]:
    if path.suffix != ".json":
        yield from log_beside(path)
        return
    for message in inside(_root(path) / "message" / path.stem, "*.json"):
        yield message
        yield from inside(_parts(path, path.stem, message.stem), "*.json")


SIZES = {
    "message": "SELECT session_id, count(*), max(time_updated), sum(length(data)) FROM message GROUP BY 1",
    "part": "SELECT session_id, count(*), max(time_updated), sum(length(data)) FROM part GROUP BY 1",
    "session_message": "SELECT session_id, count(*), max(seq), sum(length(data)) FROM session_message GROUP BY 1",
}  # fmt: skip
"""What changes with the records of a session, by table."""


def conversations(connection: sqlite3.Connection) -> Iterator[Stored]:
    """The sessions of a database, the oldest first, so that a copy comes after its original."""
    tables = columns(connection)
    sizes: dict[str, list[Any]] = {}
    for table, query in SIZES.items():
        if table not in tables:
            continue
        for row in connection.execute(query).fetchall():
            sizes.setdefault(row[0], []).append([table, *row[1:]])
    for row in connection.execute("SELECT * FROM session ORDER BY time_created, id").fetchall():
        session = row_of(row)
        id = str(session["id"])
        size = sizes.get(id, [])
        fixed = {key: each for key, each in session.items() if key not in CHANGING[:-2]}
        digest = sha256(orjson.dumps([fixed, size], default=str)).hexdigest()

        def load(session: Body = session, id: str = id) -> Body:
            messages = _rows_v1(connection, id) if {"message", "part"} <= tables.keys() else []
            if not messages and "session_message" in tables:
                messages = _rows_v2(connection, id)
            return {**session, "messages": messages}

        yield Stored(id, digest, sum(each[1] for each in size), load)


def _rows_v1(connection: sqlite3.Connection, session: str) -> list[Body]:
    parts: dict[str, list[Body]] = {}
    query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
    for row in rows(connection, query, session):
        part = {"id": row["id"], **obj(parsed(row["data"]))}
        parts.setdefault(row["message_id"], []).append(part)
    messages = []
    query = "SELECT id, time_created, data FROM message WHERE session_id = ?"
    for row in rows(connection, query, session):
        message = {"id": row["id"], **obj(parsed(row["data"]))}
        message.setdefault("time", {"created": row["time_created"]})
        messages.append({**message, "parts": parts.get(row["id"], [])})
    return sorted(messages, key=_order)


def _rows_v2(connection: sqlite3.Connection, session: str) -> list[Body]:
    """The rows of the second generation, in the shape of the first."""
    query = "SELECT * FROM session_message WHERE session_id = ? ORDER BY seq"
    return [_as_v1(row) for row in rows(connection, query, session)]


def _as_v1(row: Body) -> Body:
    data, kind = obj(parsed(row.get("data"))), word(row.get("type")) or ""
    times = obj(data.get("time")) or {"created": row.get("time_created")}
    rest = without(data, "content", "text", "time", "model", "tokens", "cost", "error", "finish")
    model = obj(data.get("model"))
    message: Body = {"id": row.get("id"), "time": times, **rest}
    if kind == "assistant":
        if "completed" not in times:
            times = message["time"] = {**times, "completed": row.get("time_updated")}
        tail: Body = {
            key: data[key] for key in ("tokens", "cost", "error", "finish") if key in data
        }
        message |= {
            **tail,
            "role": "assistant",
            "modelID": word(model.get("id")) or word(model.get("modelID")),
            "providerID": word(model.get("providerID")),
            "parts": [_part_v1(obj(each)) for each in items(data.get("content"))],
        }
    elif kind in ("user", "synthetic", "system"):
        given = items(data.get("content"))
        parts = given or [{"type": "text", "text": data.get("text")}]
        hidden = {} if kind == "user" else {"synthetic": True}
        message |= {"role": "user", "parts": [{**obj(each), **hidden} for each in parts]}
    else:
        message |= {"role": kind, **data}
    return message


def _part_v1(part: Body) -> Body:
    if part.get("type") != "tool":
        return part
    return {**without(part, "name"), "callID": part.get("id"), "tool": part.get("name")}
