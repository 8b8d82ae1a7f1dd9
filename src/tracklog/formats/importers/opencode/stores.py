"""The stores of OpenCode: rows of a database, or one JSON file per record."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import (
    count,
    inside,
    utc_time,
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
COPY = "$copy"
"""The key of a message that its fork says is a copy."""
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


def _order(message: Body) -> tuple[str, str]:
    return _time_text(obj(message.get("time")).get("created")), str(message.get("id"))


def beside(path: Path) -> Iterator[Path]:
    if path.suffix != ".json":
        yield from log_beside(path)
        return
    for message in inside(_root(path) / "message" / path.stem, "*.json"):
        yield message
        yield from inside(_parts(path, path.stem, message.stem), "*.json")


SIZES = "SELECT {session}, count(*), {last}, sum(length(data)) FROM {table} GROUP BY 1"
"""What changes with the records of a session, by table."""
OF_A_MESSAGE = "(SELECT session_id FROM message WHERE message.id = part.message_id)"
"""The session of a part, in a table that does not have it."""


def _sizes(tables: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    """The query of each table; older ones have fewer columns."""
    for table in ("message", "part", "session_message"):
        names = tables.get(table, frozenset())
        last = next((f"max({each})" for each in ("seq", "time_updated") if each in names), "0")
        session = "session_id" if "session_id" in names else OF_A_MESSAGE
        if names:
            yield table, SIZES.format(session=session, last=last, table=table)


def conversations(connection: sqlite3.Connection) -> Iterator[Stored]:
    """The sessions of a database, the oldest first, so that a copy comes after its original."""
    tables = columns(connection)
    sizes: dict[str, list[Any]] = {}
    for table, query in _sizes(tables):
        for row in connection.execute(query).fetchall():
            sizes.setdefault(row[0], []).append([table, *row[1:]])
    for id, session in _sessions(connection, tables.keys()).items():
        size = sizes.get(id, [])
        fixed = {key: each for key, each in session.items() if key not in CHANGING[:-2]}
        digest = sha256(orjson.dumps([fixed, size], default=str)).hexdigest()

        def load(session: Body = session, id: str = id) -> Body:
            known = {"message", "part"} <= tables.keys()
            messages = _rows_v1(connection, id, tables["part"]) if known else []
            if not messages and "session_message" in tables:
                messages = _rows_v2(connection, id, session)
            return {**session, "messages": messages}

        yield Stored(id, digest, sum(each[1] for each in size), load)


def _sessions(connection: sqlite3.Connection, tables: Iterable[str]) -> dict[str, Body]:
    """The sessions by id; version 2 has another table of them beside the first."""
    sessions: dict[str, Body] = {}
    for table in ("session", "session_v2"):
        if table not in tables:
            continue
        for row in connection.execute(f"SELECT * FROM {table}").fetchall():  # noqa: S608  # ours
            session = row_of(row)
            known = sessions.setdefault(str(session.get("id")), {})
            known |= {key: each for key, each in session.items() if each is not None}
    return dict(
        sorted(
            sessions.items(), key=lambda each: (_time_text(each[1].get("time_created")), each[0])
        )
    )


def _time_text(value: Any) -> str:
    """A time to sort by; without the zone, so that a fraction sorts after none."""
    return (utc_time(value) or "").rstrip("Z")


def _rows_v1(connection: sqlite3.Connection, session: str, names: frozenset[str]) -> list[Body]:
    parts: dict[str, list[Body]] = {}
    of = "session_id" if "session_id" in names else OF_A_MESSAGE
    query = f"SELECT id, message_id, data FROM part WHERE {of} = ? ORDER BY id"  # noqa: S608  # ours
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


def _rows_v2(connection: sqlite3.Connection, session: str, about: Body) -> list[Body]:
    """The rows of the second generation, in the shape of the first."""
    query = "SELECT * FROM session_message WHERE session_id = ? ORDER BY seq"
    own = rows(connection, query, session)
    parent = word(about.get("fork_session_id"))
    history = rows(connection, query, parent) if parent else []
    copies = _copies(own, history, parsed(about.get("fork_boundary")))
    return [{**_as_v1(row), COPY: True} if row["id"] in copies else _as_v1(row) for row in own]


def _copies(own: list[Body], history: list[Body], boundary: Any) -> set[Any]:
    """The rows of a fork that its parent has: they have new ids, and the number that they had."""
    last = obj(boundary)
    end = last.get("seq") if last else boundary
    name = word(last.get("id")) or word(last.get("messageID")) or word(boundary)
    numbers = [row["seq"] for row in (*own, *history) if name and row["id"] == name]
    end = numbers[0] if numbers else count(end)
    known = {row["seq"]: row for row in history}
    return {
        row["id"]
        for row in own
        if (other := known.get(row["seq"])) is not None
        and other["type"] == row["type"]
        and (_plain(other) == _plain(row) or (end is not None and row["seq"] <= end))
    }


def _plain(row: Body) -> Body:
    return without(obj(parsed(row.get("data"))), "id", "time", "sessionID")


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
