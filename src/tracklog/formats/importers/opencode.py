"""opencode: the conversations of OpenCode, and of Kilo since April 2026.

They are rows of a database, or one JSON file per record in the folder `storage` of older versions.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import (
    ANY,
    LONG,
    Form,
    Importer,
    Signs,
    count,
    has_tables,
    inside,
    moment,
    remember,
    run_id,
    score,
    seconds,
    word,
)
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    Stored,
    foreign_block,
    log_beside,
    open_run,
    parsed,
    read_json,
    row_of,
    rows,
    stored,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.importers._sqlite import columns, connected, tables_of
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Ended, Linked, Noted, Returned, Said, Spent

NAME = "opencode"
ABORTED = "MessageAbortedError"
FORK = re.compile(r"\(fork #\d+\)$")
UNNAMED = re.compile(r"(New|Child) session - \d{4}-")
MESSAGE = (
    "id",
    "sessionID",
    "role",
    "time",
    "error",
    "tokens",
    "cost",
    "parts",
    "modelID",
    "finish",
)
TOOL = ("id", "sessionID", "messageID", "type", "callID", "tool", "state")
STATE = ("status", "input", "output", "error", "time")
SESSION = (
    "id", "parent_id", "parentID", "directory", "title", "version", "time", "time_created",
    "time_updated", "revert", "model", "messages",
)  # fmt: skip
CHANGING = ("time_updated", "time_compacting", "time_archived", "messages", "revert", "metadata")
TOTALS = re.compile("tokens_|cost$|summary_")


class OpencodeReader(SnapshotReader):
    """Reads sessions; a message with its parts is one record."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id"))
        return run_id(NAME, id) if id else None

    def conversation(self, value: Body) -> None:
        if "messages" not in value:
            value = {**value, "messages": messages_of(self.source.path, value)}
        self._open(value)
        self._fork: str | None = None
        is_fork = bool(FORK.search(word(value.get("title")) or ""))
        for message in value["messages"]:
            self._message(value, obj(message), is_fork)
        self.tell.copied = False
        if from_ := word(obj(parsed(value.get("revert"))).get("messageID")):
            self.about("revert", {"revert": from_})
            self.put(Noted(label="withdrawn", kind="revert", data={"from": from_}))

    def _open(self, value: Body) -> None:
        fixed = {key: each for key, each in value.items() if key not in CHANGING}
        fixed = {key: parsed(each) for key, each in fixed.items() if not TOTALS.match(key)}
        if isinstance(times := fixed.pop("time", None), dict):
            fixed["time_created"] = times.get("created")
        value = self.about("session", fixed)
        at, parent = (
            moment(value.get("time_created")),
            value.get("parent_id", value.get("parentID")),
        )
        model, title = obj(value.get("model")), word(value.get("title"))
        self.tell.report.mapped["session"] += 1
        open_run(
            self.tell,
            NAME,
            value.get("id"),
            at=at,
            program=program_of(self.source.path),
            version=value.get("version"),
            model=word(model.get("id")) or model.get("modelID"),
            cwd=value.get("directory"),
            title=None if title and UNNAMED.match(title) else title,
            parent=parent and run_id(NAME, parent),
            extra=without(value, *SESSION),
        )

    def _message(self, session: Body, message: Body, is_fork: bool) -> None:
        id, times = word(message.get("id")), obj(message.get("time"))
        role = word(message.get("role"))
        if role == "assistant" and not self.final and not times.get("completed"):
            return  # it is being written
        self._copied(session, message, is_fork)
        value = self.about(id or "message", message)
        if id is None or role not in ("user", "assistant"):
            self.tell.unknown(role or "message", value)
            return
        self.tell.report.mapped[role] += 1
        at = moment(times.get("created"))
        if role == "user":
            self._user(id, value, at)
        else:
            self._assistant(id, value, at)

    def _copied(self, session: Body, message: Body, is_fork: bool) -> None:
        """Messages of a fork have new ids; they are copies if their content is known."""
        parts = [without(obj(each), "id", "sessionID", "messageID") for each in parts_of(message)]
        told = [message.get("role"), obj(message.get("time")).get("created"), parts]
        print_ = sha256(orjson.dumps(told, default=str)).hexdigest()[:20]
        known = self.state.setdefault("prints", {})
        other = known.get(print_)
        self.tell.copied = is_fork and other is not None and other != session.get("id")
        if not self.tell.copied:
            remember(known, print_, session.get("id"), LONG)
        elif self._fork is None:
            self._fork = other
            self.about("fork", {"fork": other})
            link = Linked(kind="fork", parent=run_id(NAME, str(other)))
            self.put(link, fidelity="inferred")

    def _user(self, id: str, value: Body, at: str | None) -> None:
        extra = without(value, *MESSAGE)
        blocks: list[Body] = []
        for part in parts_of(value):
            text = part.get("text")
            if part.get("type") != "text":
                blocks.append(foreign_block(word(part.get("type")) or "part", part))
            elif part.get("synthetic") is True or part.get("ignored") is True:
                said = Said(role="user", blocks=(text_block(text),), injected=True,
                            message_id=word(part.get("id")))  # fmt: skip
                self.put(said, at)
            else:
                blocks.append(text_block(text))
        if any(block["type"] == "text" for block in blocks) or extra or blocks:
            self.put(Said(role="user", blocks=tuple(blocks), message_id=id), at, extra)

    def _assistant(self, id: str, value: Body, at: str | None) -> None:
        model = word(value.get("modelID"))
        extra: Body | None = without(value, *MESSAGE)
        spoken: list[Body] = []
        steps = 0

        def speak() -> None:
            nonlocal extra
            if spoken:
                said = Said(role="assistant", blocks=tuple(spoken), message_id=id, model=model,
                            stop_reason=word(value.get("finish")))  # fmt: skip
                self.put(said, at, extra)
                extra = None
                spoken.clear()

        for part in parts_of(value):
            kind = word(part.get("type"))
            if kind == "text":
                spoken.append(text_block(part.get("text")))
            elif kind == "reasoning":
                opaque = obj(part.get("metadata")) or None
                spoken.append(thought_block(part.get("text"), opaque))
            else:
                speak()
                steps += kind == "step-finish"
                self._part(kind or "part", part, value, at)
        speak()
        if not steps:
            self._spent(id, value, value, at)
        self._end(id, value, at, extra)

    def _part(self, kind: str, part: Body, message: Body, at: str | None) -> None:
        if kind == "tool":
            self._call(part, at)
        elif kind == "step-finish":
            ended = moment(obj(message.get("time")).get("completed")) or at
            self._spent(word(part.get("id")) or kind, part, message, ended)
        elif kind == "retry":
            text = _message_of(part.get("error")) or "the request was repeated"
            self.put(Noted(label="error", kind="retry", text=text, data=part), at)
        elif kind != "step-start" or without(part, "id", "sessionID", "messageID", "type"):
            label = "compaction" if kind == "compaction" else kind
            self.put(Noted(label=label, kind=kind, data=part), at)

    def _call(self, part: Body, at: str | None) -> None:
        state = obj(part.get("state"))
        times, meta = obj(state.get("time")), obj(state.get("metadata"))
        id = word(part.get("callID")) or word(part.get("id")) or "call"
        tool, status = word(part.get("tool")) or "unknown", word(state.get("status"))
        began, ended = moment(times.get("start")) or at, moment(times.get("end"))
        made = word(part.get("callID")) is None
        self.put(
            Called(tool=tool, call_id=id, input=state.get("input"), synthetic_id=made),
            began,
            without(part, *TOOL),
        )
        child = word(meta.get("sessionId")) if tool == "task" else None
        if child:
            self.put(Linked(kind="sub-run", child=run_id(NAME, child), call_id=id), began)
        if status not in ("completed", "error"):
            return  # it has not returned
        exit_code = meta.get("exit")
        wrong = status == "error" or tool == "invalid" or bool(meta.get("timeout"))
        wrong = wrong or (isinstance(exit_code, int) and exit_code != 0)
        start, end = seconds(times.get("start"), 1000), seconds(times.get("end"), 1000)
        took = max(0.0, end - start) if start is not None and end is not None else None
        back = Returned(
            call_id=id,
            tool=tool,
            ok=not wrong,
            output=state.get("output"),
            error=state.get("error") if status == "error" else None,
            status=status,
            exit_code=exit_code if isinstance(exit_code, int) else None,
            seconds=took,
            synthetic_id=made,
        )
        extra = without(state, *STATE)
        if times.get("compacted"):
            extra["compacted"] = times["compacted"]
        self.put(back, ended or began, extra)

    def _spent(self, key: str, told: Body, message: Body, at: str | None) -> None:
        tokens, cost = obj(told.get("tokens")), told.get("cost")
        cache = obj(tokens.get("cache"))
        read, written = count(cache.get("read")) or 0, count(cache.get("write")) or 0
        fresh, output = count(tokens.get("input")) or 0, count(tokens.get("output")) or 0
        thought = count(tokens.get("reasoning")) or 0
        paid = cost if isinstance(cost, int | float) and cost > 0 else None
        if not (fresh or output or read or written or thought or paid):
            return
        known = usage(
            tokens,
            input_tokens=fresh + read + written,
            cached_tokens=read,
            cache_write_tokens=written,
            output_tokens=output + thought,
            reasoning_tokens=thought,
        )
        spent = Spent(
            key=f"{self.tell.run}/{key}",
            provider=word(message.get("providerID")),
            model=word(message.get("modelID")),
            usage=known,
            cost_usd=paid,
            calls=1,
        )
        self.put(spent, at)

    def _end(self, id: str, value: Body, at: str | None, extra: Body | None) -> None:
        error = value.get("error")
        ended = moment(obj(value.get("time")).get("completed")) or at
        if error:
            name, text = word(obj(error).get("name")), _message_of(error)
            if name != ABORTED:
                self.put(
                    Noted(label="error", kind=name, text=text or name, data=error), ended, extra
                )
                extra = None
            stopped = Ended(what="step", step=id, outcome=name, reason=text, error=error,
                            passed=None if name == ABORTED else False)  # fmt: skip
            self.put(stopped, ended, extra)
        elif extra:
            self.put(Noted(label="message", kind="assistant", data=extra), at)


def _message_of(error: Any) -> str | None:
    told = obj(error)
    return word(obj(told.get("data")).get("message")) or word(told.get("message")) or word(error)


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
            found = _rows_v1(connection, id) if {"message", "part"} <= tables.keys() else []
            if not found and "session_message" in tables:
                found = _rows_v2(connection, id)
            return {**session, "messages": found}

        yield Stored(id, digest, sum(each[1] for each in size), load)


def _rows_v1(connection: sqlite3.Connection, session: str) -> list[Body]:
    parts: dict[str, list[Body]] = {}
    query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
    for row in rows(connection, query, session):
        part = {"id": row["id"], **obj(parsed(row["data"]))}
        parts.setdefault(row["message_id"], []).append(part)
    found = []
    query = "SELECT id, time_created, data FROM message WHERE session_id = ?"
    for row in rows(connection, query, session):
        message = {"id": row["id"], **obj(parsed(row["data"]))}
        message.setdefault("time", {"created": row["time_created"]})
        found.append({**message, "parts": parts.get(row["id"], [])})
    return sorted(found, key=_order)


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


SIGNS = (
    Signs({"id": re.compile("ses"), "directory": str, "time.created": ANY, "title": str}),
    Signs({"id": re.compile("ses"), "projectID": str, "time.created": ANY}),
)
INNER = (
    Signs({"id": re.compile("prt"), "messageID": str, "sessionID": str, "type": str}),
    Signs({"id": re.compile("msg"), "sessionID": str, "role": {"user", "assistant"}}),
)
TABLES: dict[str, tuple[str, ...]] = {
    "session": ("id", "project_id", "directory"),
    "message": ("id", "session_id", "data"),
    "part": ("id", "message_id", "data"),
}
TABLES_2: dict[str, tuple[str, ...]] = {
    "session": TABLES["session"],
    "session_message": ("id", "session_id", "type", "seq"),
}


def recognise(path: Path, head: bytes) -> float:
    if has_tables(path, head, TABLES) or has_tables(path, head, TABLES_2):
        return 0.98
    return score(path, head, SIGNS) if path.suffix == ".json" else 0.0


def companion(path: Path, head: bytes) -> bool:
    """The messages and parts of a folder of JSON files, and the mark of its version."""
    if path.name == "migration":
        return path.parent.name == "storage" and head.strip().isdigit()
    return (
        path.suffix == ".json"
        and path.name[:4] in ("msg_", "prt_")
        and score(path, head, INNER) > 0
    )


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "document" if path.suffix in (".json", ".jsonl") else "store"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    """The databases, and of the older folders the sessions that no database has."""
    share = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    for name, variable in ((NAME, "OPENCODE_DB"), ("kilo", "KILO_DB")):
        found = list(inside(share / name, f"{name}.db", f"{name}-*.db"))
        if (given := environment.get(variable)) and Path(given).is_file():
            found.append(Path(given))
        known = {id for path in found for id in _sessions(path)}
        yield from dict.fromkeys(found)
        trees = inside(
            share / name, "storage/session/*/ses*.json", "project/*/storage/session/info/*.json"
        )
        yield from (path for path in trees if path.stem not in known)


def _sessions(path: Path) -> list[str]:
    if "session" not in tables_of(path):
        return []
    with connected(path) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM session").fetchall()]


importer = Importer(
    name=NAME,
    about="OpenCode, and Kilo since April 2026: their databases, and the folder `storage` before.",
    mapping="1",
    reader=OpencodeReader,
    recognise=recognise,
    find=find,
    form=form,
    fits=lambda body: "id" in body,
    companion=companion,
    beside=beside,
    records=stored(conversations, lambda id: run_id(NAME, id)),
    proven="real records of 0.15 and 1.2 laid out as stores; rows of the second generation unproven",
)
