"""Read a rollout record by record: its thread, its turns, records copied from a parent."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import Raw, Reader, count, opened, run_id, utc_time, word
from tracklog.formats.importers.codex.copies import ENDS, WAITING, write_waiting
from tracklog.formats.importers.codex.events import EVENTS, begin_turn, counted_before
from tracklog.formats.importers.codex.items import ITEMS, UNSAID
from tracklog.formats.importers.codex.record import NAME, CodexRecord, link
from tracklog.formats.importers.codex.stream import STREAM
from tracklog.model.event import Body
from tracklog.model.fact import Began, Noted, Said

UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_THREAD = re.compile(rf"rollout-.*?({UUID})\.jsonl(?:\.zst)?")
_TURN = re.compile(rb'"turn_id"\s*:\s*"([^"]{1,200})"')


def thread_of(path: Path) -> str | None:
    """The thread in the name of a rollout."""
    match = _THREAD.fullmatch(path.name)
    return match[1].lower() if match else None


def is_bare_meta(value: Body) -> bool:
    """Whether this is the first line of a rollout of the first generation."""
    return (
        "type" not in value
        and isinstance(value.get("id"), str)
        and not {"instructions", "git"}.isdisjoint(value)
        and "fact" not in value  # one of our own lines
    )


class CodexReader(Reader):
    """Reads one file: a thread, or a printed stream."""

    def identify(self, raw: Raw) -> str | None:
        thread = thread_of(self.source.path) or self._named(raw.value)
        if thread is None:
            return None
        self.state["thread"] = thread
        return run_id(NAME, thread)

    def _named(self, value: Any) -> str | None:
        if not isinstance(value, dict):
            return None
        payload = value.get("payload")
        if value.get("type") == "session_meta" and isinstance(payload, dict):
            return word(payload.get("id"))
        if value.get("type") == "thread.started":
            return word(value.get("thread_id"))
        if is_bare_meta(value):
            return word(value.get("id"))
        # The first generation, in which nothing has a name.
        return self.source.path.stem if "role" in value and "payload" not in value else None

    def unidentified(self) -> str:
        self.state["thread"] = self.source.path.stem
        return super().unidentified()

    def record(self, raw: Raw) -> None:
        value = raw.value
        if not isinstance(value, dict):
            self.out.about(raw, bare=True)
            self.out.unknown(type(value).__name__, value)
            return
        at = utc_time(value.get("timestamp") or value.get("created_at"))
        own = value.get("payload")
        if not isinstance(own, dict):
            own = value["item"] if isinstance(value.get("item"), dict) else value
        key = word(own.get("id")) or word(own.get("call_id")) or _turn_begun(value, own)
        out, state = self.out, self.state
        if state.get("waiting"):
            write_waiting(self, 0 if own.get("type") in ENDS else WAITING)
        out.copied = "aside" in state
        if "copy" in state and self._is_copy(value, own):
            return
        body: Body = out.about(raw, key=key, bare=key is None and at is None)
        CodexRecord(self, body, at).write(_meaning_of(body))

    def finish(self) -> None:
        if self.final:
            write_waiting(self)

    def _is_copy(self, value: Body, own: Body) -> bool:
        """Whether a record at the beginning of this file is a copy from the parent."""
        state = self.state
        copy = state.get("copy")
        if not copy or value.get("type") == "session_meta":
            return False
        start, ordinal = copy.get("start"), count(value.get("ordinal"))
        if start is not None and ordinal is not None:
            if ordinal >= start:
                self._own_begins()
                return False
        elif not (turn := word(own.get("turn_id"))):
            if copy["path"] is None:
                return False  # the end of the copy is unknown: all is written, as an upper bound
        elif copy["path"] is None or turn not in self._turns(Path(copy["path"])):
            if copy["path"] is not None:
                self._own_begins()
            return False
        if copy["path"] is None:
            self.out.copied = True
            return False
        copy["dropped"] += 1
        self.out.report.ignored["copied from the parent"] += 1
        if value.get("type") == "event_msg" and own.get("type") == "token_count":
            info = own.get("info")
            if isinstance(info, dict) and isinstance(info.get("total_token_usage"), dict):
                counted_before(state, info["total_token_usage"])
        return True

    def _own_begins(self) -> None:
        self.state["copied"] = self.state.pop("copy")["dropped"]
        self.out.copied = False

    def _turns(self, path: Path) -> frozenset[str]:
        if not hasattr(self, "_parent_turns"):
            self._parent_turns = frozenset(turns_in(path))
        return self._parent_turns


def turns_in(path: Path) -> Iterator[str]:
    """The turns of a thread, read from its rollout."""
    try:
        with opened(path) as file:
            for line in file:
                for turn in _TURN.findall(line[:4096]):
                    yield turn.decode("utf-8", "replace")
    except OSError:
        return  # deleted since: then no record is known to be a copy


def _turn_begun(value: Body, own: Body) -> str | None:
    """The turn that a record begins; it can be withdrawn by its name."""
    begins = value.get("type") == "turn_context" or own.get("type") in TURNS
    return word(own.get("turn_id")) if begins else None


TURNS = ("task_started", "turn_started")
Meaning = Callable[[CodexRecord, Body], bool | None]


def _meaning_of(body: Body) -> tuple[str, Meaning | None, Body]:
    """The name of a record's type, the function that maps it, and its argument."""
    kind = word(body.get("type")) or ""
    payload = body.get("payload")
    if not isinstance(payload, dict):
        if kind in STREAM:
            return kind, STREAM[kind], body
        if is_bare_meta(body):
            return "session_meta", session_meta, body
        if kind == "" and "role" in body:
            return "message", ITEMS["message"], body
        if kind == "" and body.get("record_type") == "state":
            return "state", noted, body
        return kind or "no type", ITEMS.get(kind) or EVENTS.get(kind), body
    name, meaning = _enveloped(kind, word(payload.get("type")) or "")
    return name, meaning, payload


@lru_cache(1024)
def _enveloped(kind: str, inner: str) -> tuple[str, Meaning | None]:
    if kind == "response_item":
        return f"{kind}/{inner}", ITEMS.get(inner)
    if kind == "event_msg":
        return f"{kind}/{inner}", EVENTS.get(inner)
    return kind or "no type", RECORDS.get(kind)


def session_meta(line: CodexRecord, meta: Body) -> bool | None:
    """The thread of the file; a second one is the parent's, or that of a resumption."""
    state = line.state
    id = word(meta.get("id"))
    another = id is not None and id.lower() != state["thread"].lower()
    if state.get("began") or (another and thread_of(line.reader.source.path)):
        line.ignore("session_meta repeated")
        return None
    state["began"] = True
    line.link("alias", system=NAME, alias=id or state["thread"])
    session = word(meta.get("session_id"))
    if session and session != id:
        line.link("alias", system=NAME, alias=session)
    version = word(meta.get("cli_version"))
    known = {"id", "session_id", "timestamp", "cwd", "cli_version", "git", "instructions"}
    known |= {"base_instructions", "type"}
    state["provider"] = word(meta.get("model_provider")) or "openai"
    began = Began(
        what="run",
        cwd=word(meta.get("cwd")),
        software={"name": "codex", **({"version": version} if version else {})},
        git=_git(meta.get("git")),
    )
    rest = {key: value for key, value in meta.items() if key not in known and value is not None}
    line.write_fact(began, extra=rest)
    _parents(line, meta)
    instructions = meta.get("base_instructions") or meta.get("instructions")
    if isinstance(instructions, dict):
        instructions = instructions.get("text", instructions)
    if instructions:
        block = {"type": "text", "text": _text(instructions)}
        line.write_fact(Said(role="system", blocks=(block,), injected=True))
    return None


def _text(value: Any) -> Any:
    if isinstance(value, str) or (isinstance(value, dict) and "$blob" in value):
        return value
    return orjson.dumps(value).decode()


def _git(repository: Any) -> dict[str, Any] | None:
    if not isinstance(repository, dict):
        return None
    names = {"commit_hash": "commit", "repository_url": "repository"}
    fields: dict[str, Any] = {
        names.get(str(key), str(key)): value
        for key, value in repository.items()
        if value is not None
    }
    return fields or None


def _parents(line: CodexRecord, meta: Body) -> None:
    """The threads that this one was forked from or spawned by, whose history it may repeat."""
    fork = word(meta.get("forked_from_id"))
    spawned = meta.get("source")
    spawn = spawned.get("subagent") if isinstance(spawned, dict) else None
    spawn = spawn.get("thread_spawn") if isinstance(spawn, dict) else None
    parent = word(meta.get("parent_thread_id"))
    parent = parent or (word(spawn.get("parent_thread_id")) if isinstance(spawn, dict) else None)
    if parent:
        line.link("sub-run", parent=run_id(NAME, parent))
    if fork:
        line.link("fork", parent=run_id(NAME, fork))
    if origin := fork or parent:
        path = line.reader.source.others.named(origin)
        has_turns = path is not None and next(turns_in(path), None) is not None
        line.state["copy"] = {
            "of": origin,
            "path": str(path) if has_turns else None,
            "start": count(meta.get("subagent_history_start_ordinal")),
            "dropped": 0,
        }


def turn_context(line: CodexRecord, turn: Body) -> bool | None:
    """The model and the settings of the turn: written when they change."""
    state = line.state
    if id := word(turn.get("turn_id")):
        begin_turn(line, id)
    model, before = word(turn.get("model")), state.get("model")
    if model:
        state["model"] = model
        if before and before != model:
            line.note("model-change", "turn_context", {"from": before, "to": model})
    rules = {key: value for key, value in turn.items() if key not in ("turn_id", "model")}
    if rules != state.get("rules"):
        state["rules"] = rules
        line.note("turn-context", "turn_context", rules)
    return None


def compacted(line: CodexRecord, held: Body) -> bool | None:
    """The history was replaced by a shorter one, which has nothing new."""
    rest = {key: value for key, value in held.items() if key not in UNSAID}
    replaced = held.get("replacement_history")
    fields: dict[str, Any] = {"summary": rest.pop("message", None), **rest}
    if isinstance(replaced, list):
        fields["replaced_by"] = len(replaced)
    line.note("compaction", "compacted", fields)
    return None


def communication(line: CodexRecord, held: Body) -> bool | None:
    """A message from one agent to another."""
    giver = word(held.get("author")) or word(held.get("from")) or word(held.get("sender"))
    taker = word(held.get("recipient")) or word(held.get("to")) or word(held.get("receiver"))
    if giver and taker:
        line.write_fact(link("message", from_=giver, to=taker, context=held))
    else:
        line.note("inter_agent_communication", "inter_agent_communication", held)
    return None


def noted(line: CodexRecord, held: Body) -> bool | None:
    kind = word(line.body.get("type")) or "record"
    line.write_fact(Noted(label=kind, kind=kind, data=held))
    return None


RECORDS: dict[str, Meaning | None] = {
    "session_meta": session_meta,
    "turn_context": turn_context,
    "compacted": compacted,
    "world_state": noted,
    "security_risk_score": noted,
    "inter_agent_communication": communication,
    "inter_agent_communication_metadata": noted,
    "response_item": None,
    "event_msg": None,
}
