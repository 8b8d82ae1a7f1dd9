"""crush: the sessions of Crush, rows of a database in each project."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    Form,
    Importer,
    by_signs,
    count,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    Stored,
    foreign_block,
    hash_of,
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
from tracklog.formats.importers._sqlite import columns, ordered
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Ended, Noted, Returned, Said, Spent

NAME = "crush"


class CrushReader(SnapshotReader):
    """Reads sessions; the token columns hold the last request only, so they are a lower bound."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id"))
        return run_id(NAME, id) if id else None

    def conversation(self, value: Body) -> None:
        id, parent = str(value.get("id")), word(value.get("parent_session_id"))
        self.about("session")
        message, _, call = id.partition("$$")
        began = utc_time(value.get("created_at"))
        path = self.source.path
        folder = str(path.parent.parent) if path.parent.name == ".crush" else None
        open_run(self.out, NAME, id, at=began, cwd=folder, title=value.get("title"),
                 parent=run_id(NAME, parent) if parent else None,
                 call=call or None, extra={"message": message} if call else None)  # fmt: skip
        self.out.report.mapped["session"] += 1
        model, last = None, began
        for row in items(value.get("messages")):
            model = self._message(obj(row)) or model
            last = utc_time(obj(row).get("created_at")) or last
        self._spent(value, model, last)

    def _message(self, row: Body) -> str | None:
        given = parsed(row.get("parts"))
        parts = [obj(each) for each in items(given)]
        if word(given):  # no JSON: its text is stored as it is
            parts = [{"type": "parts", "data": {}, "text": given}]
        done = next((obj(each.get("data")) for each in parts if each.get("type") == "finish"), None)
        role, model = word(row.get("role")), word(row.get("model"))
        if role == "assistant" and done is None and not self.final:
            return model  # it is being written
        key = f"message/{row.get('id')}"
        self.about(key)
        value = {**without(row, "parts", "updated_at"), "parts": parts}
        at = utc_time(row.get("created_at"))
        self.out.report.mapped[role or "message"] += 1
        blocks: list[Body] = []

        def speak() -> None:
            if blocks:
                by = role == "assistant"
                fact = Said(role="assistant" if by else "system" if role == "system" else "user",
                            blocks=tuple(blocks), message_id=key, model=model if by else None,
                            injected=bool(row.get("is_summary_message")) and not by)  # fmt: skip
                self.put(fact, at)
                blocks.clear()

        for part in items(value.get("parts")):
            kind, fields = word(part.get("type")), obj(part.get("data"))
            if kind == "text":
                blocks.append({**without(fields, "text"), **text_block(fields.get("text"))})
            elif kind == "reasoning":
                rest = without(fields, "thinking", "signature")
                block = thought_block(fields.get("thinking"), fields.get("signature"))
                blocks.append({**rest, **block})
            elif kind == "tool_call":
                speak()
                call = Called(tool=word(fields.get("name")) or "unknown", call_id=word(fields.get("id")) or key,
                              input=parsed(fields.get("input")))  # fmt: skip
                self.put(call, at, without(fields, "id", "name", "input", "finished"))
            elif kind == "tool_result":
                speak()
                back = Returned(call_id=word(fields.get("tool_call_id")) or key, tool=word(fields.get("name")),
                                ok=fields.get("is_error") is not True, output=fields.get("content"))  # fmt: skip
                self.put(back, at, without(fields, "tool_call_id", "name", "is_error", "content"))
            elif kind == "shell_command":
                speak()
                fact = Said(
                    role="user",
                    blocks=({"type": "command", "command": fields.get("command") or ""},),
                )
                self.put(fact, at)
                self.put(Noted(label="result", kind=kind, data=without(fields, "command")), at)
            elif kind != "finish":
                blocks.append(foreign_block(kind or "part", part))
        speak()
        self._finish(key, done, at)
        return model

    def _finish(self, key: str, done: Body | None, at: str | None) -> None:
        why = word((done or {}).get("reason"))
        if why in ("canceled", "error", "content_filter"):
            text = word((done or {}).get("message"))
            if why != "canceled":
                self.put(Noted(label="error", kind=why, text=text or why, data=done), at)
            passed = None if why == "canceled" else False
            self.put(Ended(what="step", step=key, outcome=why, passed=passed, reason=text), at)

    def _spent(self, value: Body, model: str | None, last: str | None) -> None:
        fields = {
            name: value[name]
            for name in ("prompt_tokens", "completion_tokens", "cost")
            if value.get(name)
        }
        if not fields:
            return
        self.about("usage")
        cost = fields.get("cost")
        known = usage(fields, input_tokens=count(fields.get("prompt_tokens")),
                      output_tokens=count(fields.get("completion_tokens")))  # fmt: skip
        spent = Spent(key=f"{self.out.run}/session", model=model, usage=known, bound="lower",
                      cost_usd=cost if isinstance(cost, int | float) else None)  # fmt: skip
        self.put(spent, utc_time(value.get("updated_at")) or last)


SIZES = "SELECT session_id, count(*), max({last}), sum(length(parts)) FROM messages GROUP BY 1"
MESSAGES = "SELECT * FROM messages WHERE session_id = ? ORDER BY {order}"


def conversations(connection: sqlite3.Connection) -> Iterator[Stored]:
    """The sessions of a database, the oldest first."""
    tables = columns(connection)
    names = tables["messages"]
    last = next((each for each in ("updated_at", "created_at") if each in names), "rowid")
    messages = MESSAGES.format(order="created_at, rowid" if "created_at" in names else "rowid")
    query = SIZES.format(last=last)
    sizes = {row[0]: list(row[1:]) for row in connection.execute(query).fetchall()}
    query = ordered("sessions", tables["sessions"], "created_at", "id")
    for row in connection.execute(query).fetchall():
        session = row_of(row)
        id = str(session["id"])

        def load(session: Body = session, id: str = id) -> Body:
            return {**session, "messages": rows(connection, messages, id)}

        digest = [*sizes.get(id, []), hash_of(session)]
        yield Stored(id, digest, (sizes.get(id) or [0])[0], load)


TABLES: dict[str, tuple[str, ...]] = {
    "sessions": ("id", "parent_session_id", "title", "prompt_tokens", "cost"),
    "messages": ("id", "session_id", "role", "parts"),
}


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "store"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    """The databases of the projects that the program lists."""
    share = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    listed: Any = read_json(share / "crush" / "projects.json")
    for project in items(obj(listed).get("projects")) or items(listed):
        place = word(obj(project).get("path")) or word(project)
        folder = word(obj(project).get("data_dir"))
        path = Path(folder) / "crush.db" if folder else Path(place or home) / ".crush" / "crush.db"
        if path.is_file():
            yield path


importer = Importer(
    name=NAME,
    about="Crush: the database of each project, `.crush/crush.db`.",
    mapping="1",
    reader=CrushReader,
    recognise=by_signs((), TABLES),
    find=find,
    form=form,
    beside=log_beside,
    records=stored(conversations, lambda id: run_id(NAME, id)),
    proven="no real database, only one that was built from its schema",
)
