"""hermes: the sessions of Hermes: its database, its exports, and the documents of older versions."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    ANY,
    Importer,
    Signs,
    by_signs,
    count,
    inside,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._snapshots import (
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
from tracklog.formats.importers._sqlite import columns
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Ended, Linked, Noted, Returned, Said, Spent

NAME = "hermes"
CHANGING = ("messages", "last_active", "last_updated", "message_count", "tool_call_count", "title",
            "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
            "reasoning_tokens", "estimated_cost_usd", "actual_cost_usd", "cost_status", "ended_at",
            "end_reason", "api_call_count", "model_usage", "rewind_count", "archived",
            "expiry_finalized")  # fmt: skip
MESSAGE = ("id", "session_id", "role", "content", "tool_calls", "tool_call_id", "tool_name", "reasoning",
           "reasoning_content", "finish_reason", "timestamp", "active", "compacted", "name",
           "observed")  # fmt: skip
CHILDREN = ("delegate", "subagent", "sub_agent")


class HermesReader(SnapshotReader):
    """Reads sessions; tokens are counted per session only."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id")) or word(value.get("session_id"))
        return run_id(NAME, id) if id else None

    def conversation(self, value: Body) -> None:
        about = {key: parsed(each) for key, each in value.items() if key not in CHANGING}
        self.about("session")
        began = utc_time(value.get("started_at")) or utc_time(value.get("session_start"))
        config = obj(about.get("model_config"))
        parent, native = (
            word(value.get("parent_session_id")),
            value.get("id") or value.get("session_id"),
        )
        child = value.get("source") in CHILDREN
        self.model = word(value.get("model"))
        open_run(
            self.out,
            NAME,
            native,
            at=began,
            model=self.model,
            cwd=word(value.get("cwd")) or config.get("cwd"),
            branch=value.get("git_branch"),
            parent=run_id(NAME, parent) if parent and child else None,
            extra=without(about, "id", "session_id", "model", "cwd", "system_prompt", "git_branch",
                          "billing_base_url", "base_url"),
        )  # fmt: skip
        self.out.report.mapped["session"] += 1
        if parent and not child:
            self.put(
                Linked(kind="resume", parent=run_id(NAME, parent), reason="compression"), began
            )
        if prompt := about.get("system_prompt"):
            self.put(Said(role="system", blocks=(text_block(prompt),), injected=True), began)
        if title := word(value.get("title")):
            self.about("title")
            self.put(Noted(label="title", text=title), began)
        messages = items(value.get("messages"))
        self._messages(messages)
        last = utc_time(value.get("last_updated")) or utc_time(value.get("last_active"))
        times = [at for each in messages if (at := utc_time(obj(each).get("timestamp")))]
        if last and not times:
            self.about("updated")  # nothing else says when it was active
            self.put(Noted(label="updated"), last)
        self._at = times[-1] if times else last or began
        self._spent(value)
        if reason := word(value.get("end_reason")):
            self.about("end")
            self.put(Ended(what="run", outcome=reason), utc_time(value.get("ended_at")))

    def _messages(self, messages: list[Any]) -> None:
        rewound: str | None = None
        for place, message in enumerate(messages):
            fields = obj(message)
            id = fields.get("id")
            key = f"message/{id if id is not None else place}"
            gone = fields.get("active") in (0, False)
            if rewound and not gone:
                self._withdraw(rewound)
                rewound = None
            self._message(key, message)
            rewound = rewound or (key if gone else None)
        if rewound:
            self._withdraw(rewound)

    def _withdraw(self, first: str) -> None:
        self.about(f"rewound/{first}")
        self.put(Noted(label="withdrawn", kind="rewind", data={"from": first}))

    def _message(self, key: str, message: Any) -> None:
        self.about(key)
        value = obj(message)
        role, at = word(value.get("role")), utc_time(value.get("timestamp"))
        extra = without(value, *MESSAGE)
        if value.get("compacted") in (1, True):
            extra["compacted"] = True
        content = value.get("content")
        self.out.report.mapped[role or "message"] += 1
        if role == "tool":
            self._returned(value, content, at, extra)
        elif role == "assistant":
            thought = value.get("reasoning") or value.get("reasoning_content")
            blocks = [thought_block(thought)] if thought else []
            blocks += list(_blocks(content))
            calls = items(parsed(value.get("tool_calls")))
            if blocks or not calls:
                fact = Said(role="assistant", blocks=tuple(blocks), message_id=key, model=self.model,
                            stop_reason=word(value.get("finish_reason")))  # fmt: skip
                self.put(fact, at, extra)
                extra = {}
            for place, call in enumerate(calls):
                each = obj(call)
                function, id = obj(each.get("function")), word(each.get("id"))
                more = {**extra, **without(each, "id", "type", "function", "name", "arguments")}
                extra = {}
                self.put(Called(tool=word(function.get("name")) or word(each.get("name")) or "unknown",
                                call_id=id or f"{key}/{place}",
                                input=parsed(function.get("arguments", each.get("arguments"))),
                                synthetic_id=id is None), at, more)  # fmt: skip
        elif role in ("user", "system"):
            fact = Said(role="user" if role == "user" else "system", blocks=tuple(_blocks(content)),
                        message_id=key, injected=role == "system")  # fmt: skip
            self.put(fact, at, extra)
        else:
            self.put(Noted(label=role or "message", kind=role, data=without(value, "role")), at)

    def _returned(self, value: Body, content: Any, at: str | None, extra: Body) -> None:
        """A failure has no mark of its own: the output is JSON with an error."""
        fields = parsed(content)
        error = obj(fields).get("error")
        exit_code = exit_code_of(obj(fields).get("exit_code"))
        id = word(value.get("tool_call_id"))
        back = Returned(
            call_id=id or "unknown",
            tool=word(value.get("tool_name")) or word(value.get("name")),
            ok=not error and not exit_code and obj(fields).get("success") is not False,
            output=content,
            error=error or None,
            exit_code=exit_code,
            synthetic_id=id is None,
        )
        self.put(back, at, extra)

    def _spent(self, value: Body) -> None:
        self._count("session", value, self.model)
        for row in items(value.get("model_usage")):
            fields = obj(row)
            if word(fields.get("task")):  # these are not in the counts of the session
                self._count(
                    f"{fields.get('task')}/{fields.get('model')}", fields, word(fields.get("model"))
                )

    def _count(self, key: str, fields: Body, model: str | None) -> None:
        fresh, output = count(fields.get("input_tokens")), count(fields.get("output_tokens"))
        read = count(fields.get("cache_read_tokens")) or 0
        written = count(fields.get("cache_write_tokens")) or 0
        cost = fields.get("actual_cost_usd") or fields.get("estimated_cost_usd")
        if fresh is None and output is None:
            return
        counts = {name: fields[name] for name in ("input_tokens", "output_tokens", "cache_read_tokens",
                  "cache_write_tokens", "reasoning_tokens") if fields.get(name)}  # fmt: skip
        counts |= {"cost": cost} if cost else {}
        self.about(f"usage/{key}")
        known = usage(
            counts,
            input_tokens=(fresh or 0) + read + written,
            cached_tokens=read,
            cache_write_tokens=written,
            output_tokens=output,
            reasoning_tokens=count(fields.get("reasoning_tokens")),
        )
        if known.get("total_tokens"):
            paid = cost if isinstance(cost, int | float) and cost > 0 else None
            spent = Spent(key=f"{self.out.run}/{key}", model=model, usage=known, cost_usd=paid,
                          calls=count(fields.get("api_call_count")))  # fmt: skip
            self.put(spent, self._at)


def _blocks(content: Any) -> Iterator[Body]:
    if isinstance(content, str):
        if content:
            yield text_block(content)
        return
    if isinstance(content, dict):
        yield text_block(content)
    for part in items(content):
        fields = obj(part)
        if fields.get("type") in ("text", "input_text", "output_text"):
            yield text_block(fields.get("text"))
        else:
            yield foreign_block(word(fields.get("type")) or "part", part)


SIZES = "SELECT session_id, count(*), max(id), sum(length(coalesce(content, ''))), sum(active), sum({compacted}) FROM messages GROUP BY 1"
PLAIN = "SELECT session_id, count(*), max(id), sum(length(coalesce(content, ''))) FROM messages GROUP BY 1"
MESSAGES = "SELECT * FROM messages WHERE session_id = ? ORDER BY id"
USAGE = "SELECT * FROM session_model_usage"


def conversations(connection: sqlite3.Connection) -> Iterator[Stored]:
    """The sessions of a database, the oldest first."""
    tables = columns(connection)
    names = tables["messages"]
    compacted = "compacted" if "compacted" in names else "0"
    query = SIZES.format(compacted=compacted) if "active" in names else PLAIN
    sizes = {row[0]: list(row[1:]) for row in connection.execute(query).fetchall()}
    used: dict[str, list[Body]] = {}
    for each in rows(connection, USAGE) if "session_model_usage" in tables else ():
        used.setdefault(str(each.get("session_id")), []).append(each)
    for row in connection.execute("SELECT * FROM sessions ORDER BY started_at, id").fetchall():
        session = row_of(row)
        id = str(session["id"])

        def load(session: Body = session, id: str = id) -> Body:
            messages = rows(connection, MESSAGES, id)
            return {**session, "messages": messages, "model_usage": used.get(id, [])}

        digest = [*sizes.get(id, []), hash_of([session, used.get(id)])]
        yield Stored(id, digest, (sizes.get(id) or [0])[0], load)


SIGNS = (
    Signs({"session_id": str, "platform": str, "session_start": str, "messages": list}, sure=0.97),
    Signs(
        {"id": str, "source": str, "started_at": ANY, "api_call_count": ANY, "messages": list},
        sure=0.97,
    ),
)
TABLES = {
    "sessions": ("id", "source", "model", "started_at", "parent_session_id"),
    "messages": ("session_id", "role", "tool_calls", "tool_call_id"),
}


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    base = Path(environment.get("HERMES_HOME") or home / ".hermes")
    databases = list(inside(base, "state.db"))
    yield from databases
    known = ids_of(databases, "sessions")
    for path in inside(base / "sessions", "session_*.json", "*.jsonl"):
        if path.stem.removeprefix("session_") not in known:
            yield path


importer = Importer(
    name=NAME,
    about="Hermes: its database, exported sessions, and the documents of older versions.",
    mapping="2",
    reader=HermesReader,
    recognise=by_signs(SIGNS, TABLES),
    find=find,
    form=database_lines_or_document,
    beside=log_beside,
    records=stored(conversations, lambda id: run_id(NAME, id)),
    fits=lambda body: "messages" in body,
    proven="an export of 0.19 from a test run; a document of an older version, written as a test; the "
    "database without real files",
)
