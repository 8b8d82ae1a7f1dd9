"""The sessions of Cline since mid-2026: one document of messages, and one about the session."""

import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import Signs, count, run_id, utc_time, word
from tracklog.formats.importers._block_facts import block_facts
from tracklog.formats.importers._exchanges import reply_of
from tracklog.formats.importers._snapshots import (
    SnapshotReader,
    open_run,
    read_json,
    without,
)
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Linked, Noted, Returned, Role, Spent

NAME = "cline"
SIGNS = (Signs({"sessionId": str, "agent": str, "messages": list, "version": int}),)
INFO = Signs({"session_id": str, "messages_path": str, "status": str})
COMPACTION = Signs({"session_id": str, "messages": list})
SUFFIX = ".messages.json"
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
MESSAGE = ("id", "role", "content", "ts", "modelInfo", "metrics")
SESSION = (
    "session_id",
    "started_at",
    "cwd",
    "model",
    "metadata",
    "version",
    "messages_path",
    "pid",
)
RESENT = re.compile(r"(_tool_[^_]+)+$")


class SessionReader(SnapshotReader):
    """Reads one session; ids of messages change on every resume, so content names a message."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("sessionId"))
        return run_id(NAME, id) if id else None

    def conversation(self, value: Body) -> None:
        info = obj(read_json(info_of(self.source.path)))
        messages = [obj(each) for each in items(value.get("messages"))]
        first = next((at for each in messages if (at := utc_time(each.get("ts")))), None)
        self._open(value, info, first)
        counted = False
        self._seen: Counter[str] = Counter()
        copies = _copies(self.source.path, info, messages)
        for place, message in enumerate(messages):
            self.out.copied = place < copies
            counted = self._message(message) or counted
        self.out.copied = False
        if not counted:
            self._totals(info)
        self._end(info)

    def _open(self, value: Body, info: Body, first: str | None) -> None:
        native, meta = str(value.get("sessionId")), obj(info.get("metadata"))
        about = {
            "sessionId": native,
            "agent": value.get("agent"),
            "prompt": value.get("system_prompt"),
            **without(info, "ended_at", "exit_code", "status", "metadata"),
            "metadata": without(meta, "usage", "aggregateUsage"),
        }
        self.about("session")
        root, _, agent = native.partition("__")
        times = filter(None, (first, utc_time(info.get("started_at"))))
        at = min(times, key=lambda each: each.rstrip("Z"), default=None)
        open_run(
            self.out,
            NAME,
            native,
            at=at,
            model=info.get("model"),
            cwd=word(info.get("cwd")) or info.get("workspace_root"),
            title=meta.get("title"),
            parent=run_id(NAME, root) if agent else None,
            extra=without(about, "sessionId"),
        )
        if forked := word(obj(meta.get("fork")).get("forkedFromSessionId")):
            self.put(Linked(kind="fork", parent=run_id(NAME, forked)), at)
        self.out.report.mapped["session"] += 1

    def _message(self, message: Body) -> bool:
        """Write a message; returns whether it says what was spent."""
        role = word(message.get("role")) or "message"
        value, print_ = without(message, "id"), _print(message)
        key = _names(message)[0]
        if key == print_:
            self._seen[print_] += 1
            if (number := self._seen[print_]) > 1:
                print_ = f"{print_}/{number}"  # an equal message came before
            key = f"{role}/{message.get('ts', '')}/{print_}"
        self.about(key)
        if role not in ROLES:
            self.out.unknown(role, value)
            return False
        self.out.report.mapped[role] += 1
        at, model = utc_time(value.get("ts")), obj(value.get("modelInfo"))
        name = word(model.get("id"))
        extra: Body | None = without(value, *MESSAGE)
        if provider := word(model.get("provider")):
            extra = {**(extra or {}), "provider": provider}
        id = RESENT.sub("", word(message.get("id")) or "") or None
        body = {"type": "message", "role": role, "content": value.get("content")}
        blocks = reply_of("claude", [body]).blocks
        facts = block_facts(blocks, role=ROLES[role], message_id=id, model=name)
        for fact in facts:
            self.put(fact, at, extra if not isinstance(fact, Returned) else None)
            extra = None if not isinstance(fact, Returned) else extra
        metrics = obj(value.get("metrics"))
        if not metrics:
            return False
        self.put(_spent(f"{NAME}/{value.get('ts')}/{print_}", metrics, name, provider), at)
        return True

    def _totals(self, info: Body) -> None:
        """Only where no message says what it spent: the sum without that of sub-agents."""
        if total := obj(obj(info.get("metadata")).get("usage")):
            self.about("usage")
            self.put(_spent(f"{self.out.run}/usage", total, word(info.get("model")), None))

    def _end(self, info: Body) -> None:
        status, at = word(info.get("status")), utc_time(info.get("ended_at"))
        about = {key: info[key] for key in ("status", "ended_at", "exit_code") if info.get(key)}
        if status not in ("failed", "cancelled"):
            return  # `completed` means that its process ended; a person may go on
        self.about("end")
        self.put(Noted(label="error", text=f"the session {status}", data=about), at)


def _copies(path: Path, info: Body, messages: list[Body]) -> int:
    """How many messages a fork begins with that its parent has, if that can be read too."""
    parent = word(obj(obj(info.get("metadata")).get("fork")).get("forkedFromSessionId"))
    if not parent:
        return 0
    beside = obj(read_json(path.parents[1] / parent / f"{parent}{SUFFIX}"))
    known = {name for each in items(beside.get("messages")) for name in _names(obj(each))}
    copies = takewhile(lambda each: known.issuperset(_names(each)), messages)
    return sum(1 for _ in copies)


def _names(message: Body) -> list[str]:
    """What names a message: the calls that it answers, else its content; its id changes."""
    answered = [word(obj(each).get("tool_use_id")) for each in items(message.get("content"))]
    return [f"result/{each}" for each in answered if each] or [_print(message)]


def _print(message: Body) -> str:
    value = without(message, "id")
    return sha256(orjson.dumps(value, default=str)).hexdigest()[:16]


def _spent(key: str, metrics: Body, model: str | None, provider: str | None) -> Spent:
    cost = metrics.get("cost", metrics.get("totalCost"))
    known = usage(
        metrics,
        input_tokens=count(metrics.get("inputTokens")),
        cached_tokens=count(metrics.get("cacheReadTokens")),
        cache_write_tokens=count(metrics.get("cacheWriteTokens")),
        output_tokens=count(metrics.get("outputTokens")),
    )
    paid = cost if isinstance(cost, int | float) and cost > 0 else None
    return Spent(key=key, model=model, provider=provider, usage=known, cost_usd=paid, calls=1)


def info_of(path: Path) -> Path:
    """The document about a session, beside that of its messages."""
    return path.with_name(path.name.removesuffix(SUFFIX) + ".json")


def beside(path: Path) -> Iterator[Path]:
    yield info_of(path)


def is_beside(path: Path, objects: list[dict[str, Any]]) -> bool:
    """Whether a file belongs to a session that is read from its messages."""
    if path.name.endswith(".compaction.json"):
        return any(map(COMPACTION.match, objects)) or any(SIGNS[0].match(each) for each in objects)
    return any(map(INFO.match, objects)) and path.with_name(path.stem + SUFFIX).is_file()
