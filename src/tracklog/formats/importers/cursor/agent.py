"""The conversations of Cursor's agent on the command line: transcripts, and databases of blobs."""

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from tracklog.formats.importers import Raw, Reader, remember, run_id, utc_time, word
from tracklog.formats.importers._fields import fields
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    Stored,
    foreign_block,
    open_run,
    parsed,
    read_json,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.importers.cursor.editor import NAME
from tracklog.formats.providers import Body, items, obj
from tracklog.model.fact import Called, Ended, Noted, Returned, Said

QUERY = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
ADDED = re.compile(r"\s*<[a-z]+(?:[_-][a-z]+)*>")
"""A text that the program sends beside what a person typed begins with a tag."""
REDACTED = "[REDACTED]"
WAITING = 64
"""How many calls without an id wait for their results."""
META = ("agentId", "name", "createdAt", "mode", "lastUsedModel", "latestRootBlobId", "subagentInfo")
"""What is read of the metadata; it also holds a key to decrypt blobs, which is not read."""


class CursorTranscriptReader(Reader):
    """Reads a transcript: it has no times, no results and seldom ids."""

    def identify(self, raw: Raw) -> str | None:
        return run_id(NAME, self.source.path.stem) if isinstance(raw.value, dict) else None

    def record(self, raw: Raw) -> None:
        value = self.out.about(raw, bare=True)
        item = obj(value)
        if not self.state.get("open"):
            self.state["open"] = True
            parent = parent_of(self.source.path)
            with self.out.revised("session"):
                open_run(self.out, NAME, self.source.path.stem, program="cursor-agent",
                         cwd=_workspace(self.source.path),
                         parent=run_id(NAME, parent) if parent else None)  # fmt: skip
        if item.get("type") == "turn_ended":
            status = word(item.get("status"))
            self.out.report.mapped["turn_ended"] += 1
            passed = False if status in ("error", "failed") else None
            self.out.write(Ended(what="step", step="turn", outcome=status, passed=passed))
            return
        role, message = word(item.get("role")), item.get("message")
        if role not in ("user", "assistant"):
            self.out.unknown(role or "record", value)
            return
        self.out.report.mapped[role] += 1
        content = obj(message).get("content") if isinstance(message, dict) else message
        self._content(role, content, without(item, "role", "message", "model"), item)

    def _content(self, role: str, content: Any, extra: Body, item: Body) -> None:
        rest: Body | None = extra
        model = word(item.get("model"))
        made = self.state["made"] = self.state.get("made", 0) + 1
        for place, part in enumerate([content] if isinstance(content, str) else items(content)):
            fact = _fact(role, part, model, f"{made}/{place}")
            if isinstance(fact, Said) and role == "user":
                self._typed(fact, rest)
            else:
                self.out.write(self._joined(fact), extra=rest or None)
            rest = None

    def _joined(self, fact: Any) -> Any:
        """A result that names no call of the transcript answers the first one without an id."""
        waiting: list[str] = self.state.setdefault("waiting", [])
        named: dict[str, int] = self.state.setdefault("named", {})
        if isinstance(fact, Called) and fact.synthetic_id:
            waiting.append(fact.call_id)
            del waiting[:-WAITING]
        elif isinstance(fact, Called):
            remember(named, fact.call_id, 1)
        elif isinstance(fact, Returned) and waiting and fact.call_id not in named:
            return replace(fact, call_id=waiting.pop(0), synthetic_id=True)
        return fact

    def _typed(self, fact: Said, extra: Body | None) -> None:
        typed, around = typed_by(fact)
        extra = {**(extra or {}), "around": around} if around else extra
        self.out.write(typed, extra=extra or None)


def typed_by(fact: Said) -> tuple[Said, str]:
    """What a person typed of a message, and what the program put around it."""
    text = fact.blocks[0].get("text") if fact.blocks else None
    if not isinstance(text, str):
        return fact, ""
    typed = QUERY.findall(text)
    if typed:
        message = Said(role="user", blocks=tuple(map(text_block, typed)))
        return message, QUERY.sub("", text).strip()
    return Said(role="user", blocks=fact.blocks, injected=bool(ADDED.match(text))), ""


def _fact(role: str, part: Any, model: str | None, made: str) -> Any:
    item = obj(part)
    kind = word(item.get("type"))
    if kind in ("tool_use", "tool_call", "tool-call"):
        id = word(item.get("id")) or word(item.get("toolCallId"))
        name = word(item.get("name")) or word(item.get("toolName")) or "unknown"
        given = item.get("input", item.get("args"))
        return Called(tool=name, call_id=id or made, input=given, synthetic_id=id is None)
    if kind in ("tool_result", "tool-result"):
        id = word(item.get("tool_use_id")) or word(item.get("toolCallId"))
        output = item.get("content", item.get("result"))
        wrong = item.get("is_error") is True or item.get("isError") is True
        tool = word(item.get("name")) or word(item.get("toolName"))
        return Returned(call_id=id or made, tool=tool, ok=not wrong, output=output,
                        synthetic_id=id is None)  # fmt: skip
    text = part if isinstance(part, str) else item.get("text")
    if kind in ("thinking", "reasoning"):
        block = thought_block(item.get("thinking") or text, item.get("signature"))
    elif kind in ("text", None) and text is not None:
        block = thought_block(None, text) if text == REDACTED else text_block(text)
    else:
        block = foreign_block(kind or "part", part)
    return Said(role="user" if role == "user" else "assistant", blocks=(block,),
                model=model if role == "assistant" else None)  # fmt: skip


def parent_of(path: Path) -> str | None:
    """The conversation of a sub-agent's transcript, by its folder."""
    if path.parent.name != "subagents":
        return None
    folder = path.parent.parent
    beside = [each.stem for each in folder.glob("*.jsonl")]
    return beside[0] if len(beside) == 1 else folder.name


def root_of(path: Path) -> Path | None:
    """The folder `.cursor` that a file is in."""
    return next((each for each in path.parents if each.name == ".cursor"), None)


def _workspace(path: Path) -> str | None:
    for folder in path.parents[:4]:
        log = folder / "worker.log"
        if log.is_file():
            match = re.search(rb"workspacePath=(\S+)", log.read_bytes()[: 1 << 20])
            return match[1].decode("utf-8", "replace") if match else None
    return None


class BlobReader(SnapshotReader):
    """Reads the messages that the root blob of a database lists."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id"))
        return run_id(NAME, id) if id else None

    def conversation(self, value: Body) -> None:
        self.about("meta")
        meta = value["meta"]
        info, parent = obj(value.get("info")), obj(meta.get("subagentInfo")).get("parentAgentId")
        parent = word(parent) or self._caller(str(value.get("id")))
        at, model = utc_time(meta.get("createdAt")), word(meta.get("lastUsedModel"))
        open_run(
            self.out,
            NAME,
            value.get("id"),
            at=at,
            program="cursor-agent",
            model=model,
            cwd=info.get("cwd"),
            title=meta.get("name"),
            parent=run_id(NAME, parent) if parent else None,
            extra=without(meta, "agentId", "name", "createdAt", "lastUsedModel"),
        )
        self.out.report.mapped["meta"] += 1
        if value.get("missing"):
            self.about("root")
            text = "the blob that lists the messages is not in the database"
            self.put(Noted(label="finding", kind="missing-root", text=text,
                           data={"name": "missing-root", "blob": meta.get("latestRootBlobId")}), at)  # fmt: skip
        for id, message in items(value.get("messages")):
            self._message(str(id), message, model)

    def _caller(self, id: str) -> str | None:
        """The conversation of a sub-agent, which only the place of its transcript may name."""
        root = root_of(self.source.path)
        places = root.glob(f"projects/*/agent-transcripts/*/subagents/{id}.jsonl") if root else ()
        return next(map(parent_of, places), None)

    def _message(self, id: str, message: Any, model: str | None) -> None:
        self.about(id)
        item = obj(message)
        role = word(item.get("role"))
        self.out.report.mapped[role or "message"] += 1
        content = item.get("content")
        for place, part in enumerate([content] if isinstance(content, str) else items(content)):
            fact = _fact(role or "user", part, model, f"{id[:12]}/{place}")
            if role == "system" and isinstance(fact, Said):
                fact = Said(role="system", blocks=fact.blocks, injected=True)
            elif role == "user" and isinstance(fact, Said):
                fact, around = typed_by(fact)
                self.put(fact, extra={"around": around} if around else None)
                continue
            self.put(fact)


def conversations(connection: sqlite3.Connection, path: Path) -> Iterator[Stored]:
    row = connection.execute("SELECT value FROM meta WHERE key = '0'").fetchone()
    try:
        item = obj(parsed(bytes.fromhex(str(row[0])))) if row else {}
    except ValueError:
        item = {}
    meta = {key: item[key] for key in META if key in item}
    if not meta:
        return  # nothing says what it is
    id = word(meta.get("agentId")) or path.parent.name
    blobs = connection.execute("SELECT count(*) FROM blobs").fetchone()[0]
    digest = sha256(repr(sorted(meta.items(), key=lambda each: each[0])).encode()).hexdigest()

    def load() -> Body:
        root = _blob(connection, word(meta.get("latestRootBlobId")))
        messages = []
        for number, value in fields(root or b""):
            if number == 1 and isinstance(value, bytes) and len(value) == 32:
                data = _blob(connection, value.hex())
                messages.append([value.hex(), parsed(data)])
        info = obj(read_json(path.with_name("meta.json")))
        return {"id": id, "meta": meta, "info": info, "messages": messages, "missing": root is None}

    yield Stored(id, [digest, blobs], blobs, load)


def _blob(connection: sqlite3.Connection, id: str | None) -> bytes | None:
    row = connection.execute("SELECT data FROM blobs WHERE id = ?", (id,)).fetchone()
    data = row[0] if row else None
    return data.encode() if isinstance(data, str) else data
