"""goose: the sessions of Goose: its database, exported documents, and the lines of older versions."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    Importer,
    Raw,
    Signs,
    beginning,
    count,
    has_tables,
    inside,
    run_id,
    score,
    utc_time,
    word,
)
from tracklog.formats.importers._snapshots import (
    GONE,
    SnapshotReader,
    Stored,
    database_lines_or_document,
    exit_code_of,
    foreign_block,
    hash_of,
    ids_of,
    log_beside,
    open_run,
    parsed,
    row_of,
    rows,
    stored,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.importers._sqlite import columns, ordered
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Noted, Returned, Said, Spent

NAME = "goose"
CHANGING = ("updated_at", "conversation", "ledger", "usage", "name", "description", "messages")
STEM = re.compile(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)")
"""The name of a file of older versions: when its session began."""
COUNTS = ("tokens", "cost", "usage")
COLUMNS = ("message_id", "session_id", "content_json", "created_timestamp", "metadata_json", "timestamp",
           "tokens")  # fmt: skip


class GooseReader(SnapshotReader):
    """Reads sessions; a message is known by its own id, which stays when rows are written again."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id"))
        return run_id(NAME, id) if id else None

    def identify(self, raw: Raw) -> str | None:
        value = obj(raw.value)
        if "role" in value or ("working_dir" in value and not self._is_export(value)):
            return run_id(NAME, word(value.get("id")) or self.source.path.stem)
        return super().identify(raw)

    def record(self, raw: Raw) -> None:
        value = obj(raw.value)
        if GONE in value or self._is_export(value):
            super().record(raw)
        elif "role" in value:
            key = word(value.get("id"))
            self._message(self.out.about(raw, key=key, bare=key is None), f"{raw.offset}", False)
        elif "working_dir" in value:
            about = self.out.about(raw, key="session")
            began = STEM.sub(r"\1-\2-\3T\4:\5:\6", self.source.path.stem)
            self._begin({"id": self.source.path.stem, "created_at": began, **about})
            if title := word(about.get("name")) or word(about.get("description")):
                self.put(Noted(label="title", text=title))
            self._total(about, utc_time(began))
        else:
            self.out.unknown("record", self.out.about(raw, bare=True))

    def _is_export(self, value: Body) -> bool:
        """Whether it is a conversation, and not the first line of one; its end may be missing."""
        return "conversation" in value or (
            "working_dir" in value and self.source.path.suffix != ".jsonl"
        )

    def conversation(self, value: Body) -> None:
        fixed = {key: parsed(each) for key, each in value.items() if key not in CHANGING
                 and not any(mark in key for mark in COUNTS)}  # fmt: skip
        self.about("session")
        self._begin(fixed)
        title = word(value.get("name")) or word(value.get("description"))
        if title:
            self.about("title")
            self.put(Noted(label="title", text=title), utc_time(value.get("created_at")))
        messages = [obj(each) for each in items(value.get("conversation"))]
        fields = [obj(obj(each.get("metadata")).get("usage")) for each in messages]
        asked = sum(count(each.get("inputTokens")) or 0 for each in fields)
        ledger = items(value.get("ledger"))
        total = _accumulated(value)
        known = sum(count(obj(row).get("input_tokens")) or 0 for row in ledger)
        by_message = asked > 0 and asked >= max(known, count(total.get("input_tokens")) or 0)
        for place, message in enumerate(messages):
            key = word(message.get("id")) or f"message/{place}"
            self.about(key)
            self._message(message, key, by_message)
        if by_message:
            return
        times = [at for each in messages if (at := utc_time(each.get("created")))]
        for entry in map(obj, ledger):
            self.about(f"ledger/{entry.get('id')}")
            self._spent(f"ledger/{entry.get('id')}", entry, word(entry.get("model")),
                        utc_time(entry.get("created_timestamp")), lower=True)  # fmt: skip
        if not ledger and total:
            self.about("total")
            self._spent("total", total, None, times[-1] if times else None, lower=True)

    def _begin(self, value: Body) -> None:
        config = obj(value.get("model_config_json")) or obj(value.get("model_config"))
        self.state["model"] = word(config.get("model_name")) or word(value.get("model"))
        parent = word(value.get("parent_session_id"))
        open_run(
            self.out,
            NAME,
            value.get("id"),
            at=utc_time(value.get("created_at")),
            model=self.state["model"],
            cwd=value.get("working_dir"),
            parent=run_id(NAME, parent) if parent else None,
            extra=without(value, "id", "working_dir", "created_at"),
        )
        self.out.report.mapped["session"] += 1

    def _total(self, value: Body, at: str | None) -> None:
        if total := _accumulated(value):
            self._spent("total", total, None, at, lower=True)

    def _message(self, value: Any, key: str, spent: bool) -> None:
        fields = obj(value)
        role = word(fields.get("role"))
        if role not in ("user", "assistant"):
            self.out.unknown(role or "message", value)
            return
        self.out.report.mapped[role] += 1
        at, meta = utc_time(fields.get("created")), obj(fields.get("metadata"))
        inference = obj(meta.get("inference"))
        model = word(inference.get("requestedModel")) or self.state.get("model")
        hidden = meta.get("turnContext") is True or meta.get("userVisible") is False
        rest = without(fields, "id", "role", "created", "content", "metadata", *COLUMNS)
        extra: Body | None = rest | without(
            meta, "userVisible", "agentVisible", "usage", "inference"
        )
        if meta.get("agentVisible") is False:
            extra = {**(extra or {}), "summarised": True}
        blocks: list[Body] = []

        def speak() -> None:
            nonlocal extra
            if blocks:
                fact = Said(role="user" if role == "user" else "assistant", blocks=tuple(blocks),
                            message_id=key, model=model if role == "assistant" else None,
                            injected=hidden and role == "user")  # fmt: skip
                self.put(fact, at, extra)
                extra = None
                blocks.clear()

        content = fields.get("content")
        for part in [content] if isinstance(content, str) else items(content):
            kind = word(obj(part).get("type"))
            if kind in ("toolRequest", "frontendToolRequest"):
                speak()
                self._call(obj(part), at, extra or {})
                extra = None
            elif kind == "toolResponse":
                speak()
                self._returned(obj(part), at, extra or {})
                extra = None
            elif kind == "systemNotification":
                text = word(obj(part).get("msg"))
                self.put(Noted(label="notification", kind=kind, text=text, data=part), at)
            else:
                blocks.append(_block(part))
        speak()
        if spent and meta.get("usage"):
            self._spent(key, obj(meta["usage"]), model, at, word(inference.get("provider")))

    def _call(self, part: Body, at: str | None, extra: Body) -> None:
        request = obj(part.get("toolCall"))
        value = obj(request.get("value"))
        id = word(part.get("id")) or "call"
        meta = obj(part.get("_meta"))
        called = Called(
            tool=word(value.get("name")) or "unknown",
            call_id=id,
            input=value.get("arguments"),
            tool_server=word(meta.get("goose_extension")),
        )
        rest = without(part, "type", "id", "toolCall", "_meta") | without(
            value, "name", "arguments"
        )
        self.put(called, at, {**extra, **rest, **without(meta, "goose_extension")})
        if request.get("status") == "error":
            error = request.get("error")
            self.put(Returned(call_id=id, ok=False, error=error, status="error"), at)

    def _returned(self, part: Body, at: str | None, extra: Body) -> None:
        result = obj(part.get("toolResult"))
        value, status = result.get("value"), word(result.get("status"))
        fields = obj(value)
        structured = obj(fields.get("structuredContent"))
        exit_code = exit_code_of(structured.get("exit_code"))
        wrong = status == "error" or fields.get("isError") is True or bool(exit_code)
        back = Returned(
            call_id=word(part.get("id")) or "unknown",
            ok=not wrong,
            output=fields.get("content") if fields else value,
            error=result.get("error"),
            status=status,
            exit_code=exit_code,
        )
        rest = without(part, "type", "id", "toolResult") | without(fields, "content", "isError")
        self.put(back, at, {**extra, **rest})

    def _spent(
        self,
        key: str,
        fields: Body,
        model: str | None,
        at: str | None,
        provider: str | None = None,
        *,
        lower: bool = True,
    ) -> None:
        def first(*names: str) -> int | None:
            return next(
                (amount for name in names if (amount := count(fields.get(name))) is not None), None
            )

        cost = fields.get("cost")
        known = usage(
            fields,
            input_tokens=first("inputTokens", "input_tokens"),
            cached_tokens=first("cacheReadTokens", "cache_read_tokens", "cache_read_input_tokens"),
            cache_write_tokens=first("cacheWriteTokens", "cache_write_tokens",
                                     "cache_write_input_tokens"),
            output_tokens=first("outputTokens", "output_tokens"),
        )  # fmt: skip
        if known:
            paid = cost if isinstance(cost, int | float) and cost > 0 else None
            spent = Spent(key=f"{self.out.run}/{key}", model=model or self.state.get("model"),
                          provider=provider, usage=known, cost_usd=paid,
                          bound="lower" if lower else None)  # fmt: skip
            self.put(spent, at)


def _accumulated(value: Body) -> Body:
    """The sums of a session, under the names of a request."""
    usage_fields = obj(value.get("accumulated_usage")) or {
        key.removeprefix("accumulated_"): each
        for key, each in value.items()
        if key.startswith("accumulated_") and each
    }
    cost = value.get("accumulated_cost")
    return without({**usage_fields, "cost": cost})


def _block(part: Any) -> Body:
    fields = obj(part)
    kind = word(fields.get("type"))
    if isinstance(part, str):
        return text_block(part)
    if kind == "text":
        return {**without(fields, "type", "text"), **text_block(fields.get("text"))}
    if kind == "thinking":
        rest = without(fields, "type", "thinking", "signature")
        return {**rest, **thought_block(fields.get("thinking"), fields.get("signature"))}
    if kind == "redactedThinking":
        return thought_block(None, fields.get("data"))
    return foreign_block(kind or "part", part)


MESSAGES = "SELECT * FROM messages WHERE session_id = ? ORDER BY id"
SIZES = "SELECT session_id, count(*), max(id), sum(length(content_json)) FROM messages GROUP BY 1"
NEWER = SIZES.replace(" FROM", ", sum(length(coalesce(metadata_json, ''))) FROM")
LEDGER = "SELECT session_id, count(*) FROM usage_ledger GROUP BY 1"


def conversations(connection: sqlite3.Connection) -> Iterator[Stored]:
    """The sessions of a database."""
    tables = columns(connection)
    query = NEWER if "metadata_json" in tables["messages"] else SIZES
    sizes = {row[0]: list(row[1:]) for row in connection.execute(query).fetchall()}
    entries = dict(connection.execute(LEDGER).fetchall()) if "usage_ledger" in tables else {}
    query = ordered("sessions", tables["sessions"], "created_at", "id")
    for row in connection.execute(query).fetchall():
        session = row_of(row)
        id = str(session["id"])

        def load(session: Body = session, id: str = id) -> Body:
            messages = []
            for each in rows(connection, MESSAGES, id):
                message = {
                    "id": each.get("message_id") or f"row/{each['id']}",
                    "role": each["role"],
                    "created": each.get("created_timestamp"),
                    "content": parsed(each["content_json"]),
                    "metadata": parsed(each.get("metadata_json")),
                }
                messages.append(message)
            ledger: list[Body] = []
            if "usage_ledger" in tables:
                ledger = rows(connection, "SELECT * FROM usage_ledger WHERE session_id = ?", id)
            return {**session, "conversation": messages, "ledger": ledger}

        digest = [*sizes.get(id, []), hash_of(session), entries.get(id)]
        yield Stored(id, digest, (sizes.get(id) or [0])[0], load)


SIGNS = (
    Signs({"working_dir": str, "extension_data": dict, "conversation": list}, sure=0.98),
    Signs({"working_dir": str, "conversation": list, "session_type": str}, sure=0.98),
)
LINE = Signs({"working_dir": str}, ("role", "cwd"))
MESSAGE = Signs({"role": {"user", "assistant"}, "created": int, "content": list})
TABLES = {"sessions": ("id", "working_dir"), "messages": ("session_id", "content_json", "role")}


def recognise(path: Path, head: bytes) -> float:
    if has_tables(path, head, TABLES):
        return 0.98
    if sure := score(path, head, SIGNS):
        return sure
    first = beginning(path, head).objects
    old = bool(first) and LINE.match(first[0]) and any(map(MESSAGE.match, first[1:]))
    return 0.9 if old else 0.0


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    root = environment.get("GOOSE_PATH_ROOT")
    share = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    folder = Path(root) / "data" if root else share / "goose"
    databases = list(inside(folder / "sessions", "sessions.db"))
    yield from databases
    known = ids_of(databases, "sessions")
    yield from (each for each in inside(folder / "sessions", "*.jsonl") if each.stem not in known)


importer = Importer(
    name=NAME,
    about="Goose: its database, exported sessions, and the lines of older versions.",
    mapping="2",
    reader=GooseReader,
    recognise=recognise,
    find=find,
    form=database_lines_or_document,
    beside=log_beside,
    records=stored(conversations, lambda id: run_id(NAME, id)),
    fits=lambda body: "role" in body or "working_dir" in body,
    proven="a database and an export of version 1.52 from a test run; lines of older versions without real files",
)
