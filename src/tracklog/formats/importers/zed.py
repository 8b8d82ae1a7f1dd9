"""zed: the threads of Zed's agent, rows of a database."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import zstandard

from tracklog.formats.importers import (
    Form,
    Importer,
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
    foreign_block,
    log_beside,
    open_run,
    parsed,
    row_of,
    stored,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Noted, Returned, Said, Spent

NAME = "zed"
COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
THREAD = ("messages", "title", "summary", "updated_at", "version", "cumulative_token_usage",
          "request_token_usage", "model", "detailed_summary_state")  # fmt: skip


class ZedReader(SnapshotReader):
    """Reads threads of both generations; only a thread has times."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id"))
        return run_id(NAME, id) if id else None

    def conversation(self, value: Body) -> None:
        row, thread = obj(value.get("row")), obj(value.get("thread"))
        model = obj(thread.get("model"))
        self.model = word(model.get("model"))
        parent = word(row.get("parent_id")) or word(
            obj(thread.get("subagent_context")).get("parent_thread_id")
        )
        self.at = utc_time(row.get("created_at")) or utc_time(row.get("updated_at"))
        folder = (word(row.get("folder_paths")) or "").split("\n")[0]
        self.about("thread")
        about = {"id": value.get("id"), "folder": folder, "provider": model.get("provider"),
                                      **without(thread, *THREAD)}  # fmt: skip
        open_run(self.out, NAME, value.get("id"), at=self.at, model=self.model, cwd=folder,
                 parent=run_id(NAME, parent) if parent else None,
                 extra=without(about, "id", "folder"))  # fmt: skip
        self.out.report.mapped["thread"] += 1
        title = word(thread.get("title")) or word(thread.get("summary")) or word(row.get("summary"))
        if title:
            self.about("title")
            self.put(Noted(label="title", text=title), self.at)
        turn, place = "start", 0
        for number, message in enumerate(items(thread.get("messages"))):
            user = obj(obj(message).get("User"))
            if user:
                turn, place = str(user.get("id") or number), 0
            self._message(f"{turn}/{place}", message)
            place += 1
        if value.get("damaged"):
            finding = {"name": "damaged-thread"}
            self.put(
                Noted(
                    label="finding",
                    kind="damaged-thread",
                    text="the thread cannot be read",
                    data=finding,
                )
            )
        if last := utc_time(row.get("updated_at")):
            self.about("updated")
            self.put(Noted(label="updated"), last)
        if thread.get("imported") is not True:
            self._spent(thread, last)

    def _message(self, key: str, message: Any) -> None:
        self.about(key)
        value = message
        fields = obj(value)
        if "User" in fields:
            self._user(key, obj(fields["User"]))
        elif "Agent" in fields:
            self._agent(key, obj(fields["Agent"]))
        elif "role" in fields:
            self._older(key, fields)
        else:
            self.out.report.mapped["Resume"] += 1
            self.put(Noted(label="resume", kind="Resume", data=value), self.at)

    def _user(self, key: str, user: Body) -> None:
        self.out.report.mapped["User"] += 1
        fact = Said(role="user", blocks=tuple(_blocks(user.get("content"))), message_id=key)
        self.put(fact, self.at, without(user, "id", "content"))

    def _agent(self, key: str, agent: Body) -> None:
        self.out.report.mapped["Agent"] += 1
        results = obj(agent.get("tool_results"))
        blocks: list[Body] = []
        extra: Body | None = without(agent, "content", "tool_results")

        def speak() -> None:
            nonlocal extra
            if blocks:
                fact = Said(
                    role="assistant", blocks=tuple(blocks), message_id=key, model=self.model
                )
                self.put(fact, self.at, extra)
                extra = None
                blocks.clear()

        for place, part in enumerate(items(agent.get("content"))):
            use = obj(obj(part).get("ToolUse"))
            if not use:
                blocks += _blocks([part])
                continue
            speak()
            id = word(use.get("id")) or f"{key}/{place}"
            self._call(id, use, obj(results.get(id)))
        speak()

    def _call(self, id: str, use: Body, result: Body) -> None:
        name = word(use.get("name")) or "unknown"
        given = use.get("input") if use.get("input") is not None else parsed(use.get("raw_input"))
        self.put(Called(tool=name, call_id=id, input=given), self.at)
        if result:
            back = Returned(call_id=id, tool=name, ok=result.get("is_error") is not True,
                            output=result.get("content"))  # fmt: skip
            self.put(back, self.at, without({"output": result.get("output")}))

    def _older(self, key: str, fields: Body) -> None:
        role = "assistant" if fields.get("role") == "assistant" else "user"
        self.out.report.mapped[role] += 1
        blocks = []
        for segment in items(fields.get("segments")):
            each = obj(segment)
            kind = word(each.get("type"))
            if kind == "thinking":
                blocks.append(thought_block(each.get("text"), each.get("signature")))
            elif kind == "text":
                blocks.append(text_block(each.get("text")))
            else:
                blocks.append(foreign_block(kind or "segment", segment))
        fact = Said(role="assistant" if role == "assistant" else "user", blocks=tuple(blocks),
                    message_id=key, model=self.model if role == "assistant" else None,
                    injected=fields.get("role") == "system")  # fmt: skip
        extra = without(fields, "id", "role", "segments", "tool_uses", "tool_results")
        self.put(fact, self.at, extra)
        results = {
            str(obj(each).get("tool_use_id")): obj(each)
            for each in items(fields.get("tool_results"))
        }
        for use in items(fields.get("tool_uses")):
            id = str(obj(use).get("id"))
            self._call(id, obj(use), results.pop(id, {}))
        for id, result in results.items():
            back = Returned(call_id=id, ok=result.get("is_error") is not True,
                            output=result.get("content"))  # fmt: skip
            self.put(back, self.at)

    def _spent(self, thread: Body, at: str | None) -> None:
        """The counts of each request that the thread lists, and one remainder up to its sum."""
        listed = thread.get("request_token_usage")
        each_of = listed.items() if isinstance(listed, dict) else enumerate(items(listed))
        sums = dict.fromkeys(COUNTS, 0)
        for key, fields in each_of:
            counts = {name: count(obj(fields).get(name)) or 0 for name in COUNTS}
            if any(counts.values()):
                sums = {name: sums[name] + counts[name] for name in COUNTS}
                self._count(f"request/{key}", counts, at)
        total = obj(thread.get("cumulative_token_usage"))
        rest = {name: max(0, (count(total.get(name)) or 0) - sums[name]) for name in COUNTS}
        if any(rest.values()):
            self._count("remainder", rest, at)

    def _count(self, key: str, counts: dict[str, int], at: str | None) -> None:
        self.about(f"usage/{key}")
        read, written = counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"]
        known = usage(
            dict(counts),
            input_tokens=counts["input_tokens"] + read + written,
            cached_tokens=read,
            cache_write_tokens=written,
            output_tokens=counts["output_tokens"],
        )
        self.put(Spent(key=f"{self.out.run}/{key}", model=self.model, usage=known), at)


def _blocks(content: Any) -> Iterator[Body]:
    for part in items(content):
        fields = obj(part)
        thought = obj(fields.get("Thinking"))
        if "Text" in fields:
            yield text_block(fields["Text"])
        elif thought:
            yield thought_block(thought.get("text"), thought.get("signature"))
        elif "RedactedThinking" in fields:
            yield thought_block(None, fields["RedactedThinking"])
        else:
            yield foreign_block(next(iter(fields), "part"), part)


def conversations(connection: sqlite3.Connection) -> Iterator[Stored]:
    """The threads of a database, by the hash of their content."""
    for (id,) in connection.execute("SELECT id FROM threads ORDER BY updated_at, id").fetchall():
        thread_row = connection.execute("SELECT * FROM threads WHERE id = ?", (id,)).fetchone()
        if thread_row is None:  # deleted meanwhile, or an id that is no valid text
            continue
        data = thread_row["data"]
        raw = data if isinstance(data, bytes) else str(data).encode()
        row = without(row_of(thread_row), "data")

        def load(row: Body = row, raw: bytes = raw, id: Any = id) -> Body:
            text = _unpacked(raw) if row.get("data_type") == "zstd" else raw
            thread = parsed(text)
            return {
                "id": str(id),
                "row": row,
                "thread": obj(thread),
                "damaged": not isinstance(thread, dict),
            }

        digest = [row.get("updated_at"), row.get("summary"), sha256(raw).hexdigest()]
        yield Stored(str(id), digest, 1, load)


def _unpacked(data: bytes) -> bytes | None:
    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except zstandard.ZstdError:
        return None


TABLES = {"threads": ("id", "summary", "updated_at", "data_type", "data")}


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "store"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    share = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    places = [share / "zed", home / "Library" / "Application Support" / "Zed"]
    if windows := environment.get("LOCALAPPDATA"):
        places.append(Path(windows) / "Zed")
    for place in places:
        yield from inside(place / "threads", "threads.db")


importer = Importer(
    name=NAME,
    about="Zed: the threads of its agent, of both generations.",
    mapping="2",
    reader=ZedReader,
    recognise=by_signs((), TABLES),
    find=find,
    form=form,
    beside=log_beside,
    records=stored(conversations, lambda id: run_id(NAME, id)),
    proven="only a database made as a test",
)
