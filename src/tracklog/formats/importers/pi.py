"""pi: the conversations of pi and of OpenClaw, as lines and as rows of a database."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import zstandard

from tracklog.formats.importers import (
    ANY,
    Form,
    Importer,
    Raw,
    Signs,
    beginning,
    by_signs,
    count,
    inside,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._branches import leave_branch
from tracklog.formats.importers._snapshots import (
    GONE,
    SnapshotReader,
    Stored,
    foreign_block,
    ids_of,
    log_beside,
    open_run,
    parsed,
    plain_value,
    rows,
    stored,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.importers._sqlite import MAGIC, columns
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Ended, Linked, Noted, Returned, Said, Spent

NAME = "pi"
HEADER = ("type", "id", "timestamp", "cwd", "version", "modelId", "title")
ENTRY = ("type", "id", "parentId", "timestamp", "message")
ASSISTANT = (
    "role",
    "content",
    "model",
    "provider",
    "usage",
    "stopReason",
    "timestamp",
    "responseId",
)
RESULT = ("role", "toolCallId", "toolName", "content", "isError", "timestamp")


class PiReader(SnapshotReader):
    """Reads one file of entries, or a database of OpenClaw."""

    def run_of(self, value: Body) -> str | None:
        native = word(value.get("id")) if value.get("type") == "session" else None
        return run_id(NAME, native) if native else None

    def identify(self, raw: Raw) -> str | None:
        events = obj(raw.value).get("events")
        if events is not None:
            return run_id(NAME, str(raw.value["id"]))
        return super().identify(raw)

    def record(self, raw: Raw) -> None:
        value = raw.value
        if isinstance(value, dict) and ("events" in value or GONE in value):
            super().record(raw)
            return
        id = word(obj(value).get("id"))
        bare = id is None and not obj(value).get("timestamp")
        entry = self.out.about(raw, key=id, bare=bare)
        # Of two equal lines with a time the second is a copy, so both need the same name.
        name = id or (f"{raw.offset}" if bare else self.out.mark()["hash"][:16])
        at = utc_time(obj(value).get("timestamp"))
        if at and at < self.state.get("since", ""):  # a copy, if the original is at hand
            with self.out.revised(name):
                self._entry(entry, name)
        else:
            self._entry(entry, name)

    def conversation(self, value: Body) -> None:
        self.state.pop("chain", None)
        self.state.pop("tip", None)
        for place, event in enumerate(items(value["events"])):
            id = word(obj(event).get("id")) or f"event/{place}"
            key = "session" if obj(event).get("type") == "session" else id
            self.about(key)
            self._entry(event, id)
        if rest := obj(value.get("window")):
            self.about("window")
            self.put(Noted(label="session", kind="session_windows", data=rest))
        if parent := word(value.get("parent")):
            self.about("parent")
            self.put(Linked(kind="sub-run", parent=parent))

    def _entry(self, value: Any, id: str) -> None:
        fields = obj(value)
        kind, at = word(fields.get("type")) or "record", utc_time(fields.get("timestamp"))
        if kind == "session":
            self._open(fields, at)
            return
        # A fork begins with copies of entries that are older than itself.
        forked = self.state.get("forked")
        self.out.copied = bool(forked and at and at < forked)
        native = word(fields.get("id"))
        if native:
            left = leave_branch(self.state, native, word(fields.get("parentId")))
            if left:
                self.put(Noted(label="withdrawn", kind="branch", data={"from": left}), at)
        message = obj(fields.get("message"))
        if kind == "message" and message:
            message = {**without(fields, *ENTRY), **message}
            role = word(message.get("role")) or "message"
            self.out.report.mapped[role] += 1
            self._message(role, message, id, utc_time(message.get("timestamp")) or at, at)
            return
        data = without(fields, *ENTRY)
        label, text = kind, None
        if kind == "model_change":
            label = "model-change"
            model = word(fields.get("modelId")) or word(fields.get("model"))
            data = {**data, "from": self.state.get("model"), "to": model}
            self.state["model"] = model
        elif kind in ("compaction", "branch_summary"):
            label, text = (
                "compaction" if kind == "compaction" else kind,
                word(fields.get("summary")),
            )
        elif kind == "session_info":
            label, text = "title", word(fields.get("name"))
        elif kind == "custom_message":
            content = fields.get("content")
            fact = Said(role="user", blocks=tuple(_blocks(content)), message_id=id, injected=True)
            self.out.report.mapped[kind] += 1
            self.put(fact, at, without(data, "content"))
            return
        elif kind not in ("thinking_level_change", "custom", "label", "reset"):
            self.out.unknown(kind, value, at=at)
            return
        self.out.report.mapped[kind] += 1
        self.put(Noted(label=label, kind=kind, text=text, data=data or None), at)

    def _open(self, value: Body, at: str | None) -> None:
        self.state["model"] = word(value.get("modelId"))
        self.out.report.mapped["session"] += 1
        known = "openclaw" if self._is_openclaw() else NAME
        open_run(
            self.out,
            NAME,
            value.get("id"),
            at=at,
            program=known,
            model=value.get("modelId"),
            cwd=value.get("cwd"),
            title=value.get("title"),
            extra=without(value, *HEADER),
        )
        other = word(value.get("parentSession")) or word(value.get("branchedFrom"))
        self.state["since"] = (other and at) or ""
        self.state["forked"] = at if other and self._is_at_hand(other) else None
        if other:
            parent = Path(other).stem.rpartition("_")[2] or other
            self.put(Linked(kind="fork", parent=run_id(NAME, parent), context=other), at)

    def _is_at_hand(self, other: str) -> bool:
        """Whether the file that a session was forked from can be read too."""
        return (self.source.path.parent / Path(other).name).is_file() or Path(other).is_file()

    def _is_openclaw(self) -> bool:
        path = self.source.path
        return ".openclaw" in path.parts or "openclaw" in path.name or path.suffix == ".sqlite"

    def _message(
        self, role: str, message: Body, id: str, at: str | None, written: str | None
    ) -> None:
        if role == "assistant":
            self._assistant(message, id, at, written)
        elif role == "toolResult":
            native = word(message.get("toolCallId"))
            back = Returned(
                call_id=native or id,
                tool=word(message.get("toolName")),
                ok=message.get("isError") is not True,
                output=message.get("content"),
                synthetic_id=native is None,
            )
            self.put(back, at, without(message, *RESULT))
        elif role == "bashExecution":
            fact = Said(role="user", blocks=({"type": "command", "command": message.get("command")},),
                        message_id=id)  # fmt: skip
            self.put(fact, at)
            rest = without(message, "role", "command", "timestamp")
            self.put(Noted(label="result", kind=role, data=rest), at)
        else:
            hidden = role not in ("user", "system")
            fact = Said(
                role="system" if role == "system" else "user",
                blocks=tuple(_blocks(message.get("content"))),
                message_id=id,
                injected=hidden,
            )
            extra = without(message, "role", "content", "timestamp")
            self.put(fact, at, {**extra, "role": role} if hidden else extra)

    def _assistant(self, message: Body, id: str, at: str | None, written: str | None) -> None:
        model = word(message.get("model")) or self.state.get("model")
        blocks: list[Body] = []
        extra: Body | None = without(message, *ASSISTANT)
        stop = word(message.get("stopReason"))

        def speak() -> None:
            nonlocal extra
            if blocks:
                fact = Said(role="assistant", blocks=tuple(blocks), message_id=id, model=model,
                            stop_reason=stop)  # fmt: skip
                self.put(fact, at, extra)
                extra = None
                blocks.clear()

        for place, part in enumerate(items(message.get("content"))):
            fields = obj(part)
            if fields.get("type") != "toolCall":
                blocks += _blocks([part])
                continue
            speak()
            native = word(fields.get("id"))
            called = Called(
                tool=word(fields.get("name")) or "unknown",
                call_id=native or f"{id}/{place}",
                input=parsed(fields.get("arguments")),
                synthetic_id=native is None,
            )
            rest = without(fields, "type", "id", "name", "arguments")
            self.put(called, at, {**(extra or {}), **rest})
            extra = None
        if isinstance(message.get("content"), str):
            blocks += _blocks(message["content"])
        speak()
        self._spent(message, id, model, written)
        error = word(message.get("errorMessage"))
        if stop in ("error", "aborted") or error:
            if stop != "aborted":
                self.put(Noted(label="error", kind=stop, text=error or stop), at)
            passed = None if stop == "aborted" else False
            self.put(Ended(what="step", step=id, outcome=stop, passed=passed, reason=error), at)

    def _spent(self, message: Body, id: str, model: str | None, at: str | None) -> None:
        fields = obj(message.get("usage"))
        fresh, output = count(fields.get("input")), count(fields.get("output"))
        if fresh is None and output is None:
            return
        read, written = count(fields.get("cacheRead")) or 0, count(fields.get("cacheWrite")) or 0
        cost = obj(fields.get("cost")).get("total")
        known = usage(
            fields,
            input_tokens=(fresh or 0) + read + written,
            cached_tokens=read,
            cache_write_tokens=written,
            output_tokens=output,
            reasoning_tokens=count(fields.get("reasoningTokens")),
        )
        if not known.get("total_tokens"):
            return
        spent = Spent(
            key=f"{NAME}/{word(message.get('responseId')) or id}/{at}",
            provider=word(message.get("provider")),
            model=model,
            usage=known,
            cost_usd=cost if isinstance(cost, int | float) and cost > 0 else None,
            calls=1,
        )
        self.put(spent, at)


def _blocks(content: Any) -> Iterator[Body]:
    if isinstance(content, str):
        yield text_block(content)
    for part in items(content):
        fields = obj(part)
        kind = fields.get("type")
        if isinstance(part, str):
            yield text_block(part)
        elif kind == "text":
            yield {**without(fields, "type"), **text_block(fields.get("text"))}
        elif kind == "thinking":
            rest = without(fields, "type", "thinking", "thinkingSignature")
            yield {**rest, **thought_block(fields.get("thinking"), fields.get("thinkingSignature"))}
        else:
            yield foreign_block(word(kind) or "part", part)


SIZES = "SELECT session_id, count(*), max(seq), sum(length({})) FROM transcript_events GROUP BY 1"
EVENTS = "SELECT * FROM transcript_events WHERE session_id = ? ORDER BY seq"
WINDOW = "SELECT * FROM session_windows WHERE session_id = ?"


def conversations(connection: sqlite3.Connection) -> Iterator[Stored]:
    """The sessions of a database of OpenClaw."""
    tables = columns(connection)
    packed = "event_zstd" in tables["transcript_events"]
    size = "coalesce(event_json, event_zstd)" if packed else "event_json"
    for row in connection.execute(SIZES.format(size)).fetchall():
        id = str(row[0])

        def load(id: str = id) -> Body:
            entries = []
            for event in connection.execute(EVENTS, (id,)).fetchall():
                text = event["event_json"]
                if text is None and packed and event["event_zstd"] is not None:
                    text = _unpacked(event["event_zstd"])
                entries.append(parsed(plain_value(text)))
            known = "session_windows" in tables
            window = next(iter(rows(connection, WINDOW, id)), {}) if known else {}
            return {"id": id, "events": entries, "window": _window(window)}

        yield Stored(id, list(row[1:]), row[1], load)


def _window(row: Body) -> Body:
    return without(row, "session_id", "updated_at", "transcript_updated_at", "transcript_observed_at",
                   "account_id")  # fmt: skip


def _unpacked(data: bytes) -> bytes | None:
    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except zstandard.ZstdError:
        return None


SIGNS = (
    Signs({"type": {"session"}, "id": str, "timestamp": str, "cwd": str}),
    Signs({"type": {"message"}, "parentId": ANY, "message.role": {"toolResult", "bashExecution"}}),
    Signs({"type": {"message"}, "parentId": ANY, "message.api": str, "message.usage": dict}),
    Signs({"type": {"thinking_level_change"}, "thinkingLevel": str, "timestamp": str}),
)
TABLES = {"transcript_events": ("session_id", "seq", "event_json")}
LISTED = Signs({"sessionId": str, "updatedAt": int})


def companion(path: Path, head: bytes) -> bool:
    """The list of sessions of OpenClaw, and lines that it left behind when the database came."""
    if ".jsonl" in path.name:
        store = path.parent.parent / "agent" / "openclaw-agent.sqlite"
        known = ids_of([store], "transcript_events", "session_id") if store.is_file() else ()
        return path.name.partition(".")[0] in known
    named = path.name == "sessions.json" and path.parent.name == "sessions"
    objects = beginning(path, head).objects if named else []
    return any(LISTED.match(obj(each)) for listed in objects for each in listed.values())


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "store" if head.startswith(MAGIC) else "lines"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    base = Path(environment.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent")
    yield from inside(base / "sessions", "*/*.jsonl")
    claw = Path(environment.get("OPENCLAW_STATE_DIR") or home / ".openclaw") / "agents"
    stores = list(inside(claw, "*/agent/openclaw-agent.sqlite"))
    known = ids_of(stores, "transcript_events", "session_id")
    for path in inside(claw, "*/sessions/*.jsonl", "*/sessions/*.jsonl.reset.*"):
        if path.name.partition(".")[0] not in known:  # left behind when the database came
            yield path
    yield from stores


importer = Importer(
    name=NAME,
    about="pi and OpenClaw: their sessions as lines, and the databases of OpenClaw.",
    mapping="2",
    reader=PiReader,
    recognise=by_signs(SIGNS, TABLES),
    find=find,
    form=form,
    companion=companion,
    beside=log_beside,
    records=stored(conversations, lambda id: run_id(NAME, id)),
    fits=lambda body: "type" in body and "timestamp" in body,
    proven="files of pi 0.73 and rows of OpenClaw 2026.9 from test runs; real lines of the first version",
)
