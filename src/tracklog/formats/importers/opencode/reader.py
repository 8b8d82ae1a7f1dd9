"""Read the sessions of OpenCode as facts."""

import re
from hashlib import sha256
from typing import Any

import orjson

from tracklog.formats.importers import (
    LONG,
    Raw,
    count,
    in_seconds,
    remember,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._snapshots import (
    GONE,
    SnapshotReader,
    exit_code_of,
    foreign_block,
    open_run,
    parsed,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.importers.opencode import migrated
from tracklog.formats.importers.opencode.migrated import MIGRATED
from tracklog.formats.importers.opencode.stores import (
    CHANGING,
    COPY,
    NAME,
    messages_of,
    parts_of,
    program_of,
)
from tracklog.formats.providers import Body, obj, usage
from tracklog.model.fact import Called, Ended, Linked, Noted, Returned, Said, Spent

ABORTED = "MessageAbortedError"
LEGACY = "legacy"
"""The provider that Kilo names in a message of an older task, whose model it does not know."""
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
    COPY,
)
PART = ("id", "sessionID", "messageID", "type", "text", "time", "synthetic", "ignored")
TOOL = ("id", "sessionID", "messageID", "type", "callID", "tool", "state")
STATE = ("status", "input", "output", "error", "time")
SESSION = (
    "id", "parent_id", "parentID", "directory", "title", "version", "time", "time_created",
    "time_updated", "revert", "model", "messages", "fork_session_id",
)  # fmt: skip
SWITCHES = {
    "shell": "result",
    "compaction": "compaction",
    "model-switched": "model-change",
    "agent-switched": "agent-change",
}
"""Records of the second generation that are no messages, with the label of their note."""
TOTALS = re.compile("tokens_|cost$|summary_")


class OpencodeReader(SnapshotReader):
    """Reads sessions; a message with its parts is one record."""

    def run_of(self, value: Body) -> str | None:
        id = word(value.get("id"))
        if id and id.startswith(MIGRATED):
            task = migrated.task_of(self.source.path, id, word(value.get("slug")))
            run = run_id(migrated.SYSTEM, task) if task else run_id(NAME, id)
            self.state.setdefault("migrated", {})[id] = run
            return run
        return run_id(NAME, id) if id else None

    def identify(self, raw: Raw) -> str | None:
        gone = obj(obj(raw.value).get(GONE))
        known = obj(self.state.get("migrated")).get(str(gone.get("id")))
        return str(known) if known else super().identify(raw)

    def conversation(self, value: Body) -> None:
        if "messages" not in value:
            value = {**value, "messages": messages_of(self.source.path, value)}
        self._open(value)
        self._fork: str | None = None
        messages = [obj(each) for each in value["messages"]]
        fork = word(value.get("fork_session_id"))
        if fork and any(COPY in each for each in messages):
            self._link(fork)
        is_fork = bool(fork or FORK.search(word(value.get("title")) or ""))
        is_fork = is_fork or self._is_renamed_fork(value, messages)
        for message in messages:
            self._message(value, message, is_fork)
        self.out.copied = False
        if from_ := word(obj(parsed(value.get("revert"))).get("messageID")):
            self.about("revert")
            self.put(Noted(label="withdrawn", kind="revert", data={"from": from_}))

    def _open(self, value: Body) -> None:
        fixed = {key: each for key, each in value.items() if key not in CHANGING}
        fixed = {key: parsed(each) for key, each in fixed.items() if not TOTALS.match(key)}
        if isinstance(times := fixed.pop("time", None), dict):
            fixed["time_created"] = times.get("created")
        self.about("session")
        at = utc_time(fixed.get("time_created"))
        parent = fixed.get("parent_id", fixed.get("parentID"))
        model, title = obj(fixed.get("model")), word(fixed.get("title"))
        self.out.report.mapped["session"] += 1
        open_run(
            self.out,
            NAME,
            fixed.get("id"),
            at=at,
            program=program_of(self.source.path),
            version=fixed.get("version"),
            model=word(model.get("id")) or model.get("modelID"),
            cwd=fixed.get("directory"),
            title=None if title and UNNAMED.match(title) else title,
            parent=parent and run_id(NAME, parent),
            extra=without(fixed, *SESSION),
        )
        id = word(fixed.get("id")) or ""
        task = migrated.task_of(self.source.path, id, word(fixed.get("slug")))
        self._is_migrated = bool(task and migrated.folder_of(self.source.path, task))
        if task:
            self.put(Linked(kind="alias", system=migrated.SYSTEM, alias=task), at)

    def _message(self, session: Body, value: Body, is_fork: bool) -> None:
        id, times = word(value.get("id")), obj(value.get("time"))
        role = word(value.get("role"))
        if role == "assistant" and not self.final and not times.get("completed"):
            return  # it is being written
        self._copied(session, value, is_fork)
        self.about(id or "message")
        if id and role in SWITCHES:
            self._switched(id, role, value, utc_time(times.get("created")))
            return
        if id is None or role not in ("user", "assistant"):
            self.out.unknown(role or "message", value)
            return
        self.out.report.mapped[role] += 1
        at = utc_time(times.get("created"))
        if role == "user":
            self._user(id, value, at)
        else:
            self._assistant(id, value, at)

    def _switched(self, id: str, kind: str, value: Body, at: str | None) -> None:
        """A record of the second generation that is no message."""
        self.out.report.mapped[kind] += 1
        data = without(value, "id", "role", "time")
        if kind == "shell":  # a person's own command
            command = {"type": "command", "command": str(value.get("command") or "")}
            self.put(Said(role="user", blocks=(command,), message_id=id), at)
            self.put(Noted(label="result", kind=kind, data=without(data, "command")), at)
            return
        if kind == "model-switched":
            model = obj(value.get("model"))
            data = {**data, "to": word(model.get("id")) or word(model.get("modelID"))}
        text = word(value.get("summary")) or word(value.get("text"))
        self.put(Noted(label=SWITCHES[kind], kind=kind, text=text, data=data or None), at)

    def _copied(self, session: Body, message: Body, is_fork: bool) -> None:
        """Messages of a fork have new ids; they are copies if their content is known."""
        print_ = _print(message)
        known = self.state.setdefault("prints", {})
        other = known.get(print_)
        repeats = is_fork and other is not None and other != session.get("id")
        id = word(message.get("id")) or ""
        moved = self._is_migrated and id.startswith(migrated.MESSAGE)
        self.out.copied = repeats or moved or COPY in message
        if not self.out.copied:
            remember(known, print_, session.get("id"), LONG)
        elif repeats and self._fork is None:
            self._link(str(other), fidelity="inferred")

    def _link(self, parent: str, **more: Any) -> None:
        self._fork = parent
        self.about("fork")
        self.put(Linked(kind="fork", parent=run_id(NAME, parent)), **more)

    def _is_renamed_fork(self, session: Body, messages: list[Body]) -> bool:
        """Whether a session begins with a prompt and an answer of another, of the same times."""
        known = self.state.get("prints", {})
        first = [known.get(_print(each)) for each in messages[:2]]
        roles = [each.get("role") for each in messages[:2]]
        return (
            roles == ["user", "assistant"]
            and first[0] is not None
            and first[0] == first[1] != session.get("id")
        )

    def _user(self, id: str, value: Body, at: str | None) -> None:
        extra = without(value, *MESSAGE)
        blocks: list[Body] = []
        for part in parts_of(value):
            text = part.get("text")
            if part.get("type") == "compaction":
                self._part("compaction", part, value, at)
            if part.get("type") != "text":
                blocks.append(foreign_block(word(part.get("type")) or "part", part))
            elif part.get("synthetic") is True or part.get("ignored") is True:
                fact = Said(role="user", blocks=(text_block(text),), injected=True,
                            message_id=word(part.get("id")))  # fmt: skip
                self.put(fact, at)
            else:
                blocks.append({**without(part, *PART), **text_block(text)})
        if any(block["type"] == "text" for block in blocks) or extra or blocks:
            self.put(Said(role="user", blocks=tuple(blocks), message_id=id), at, extra)

    def _assistant(self, id: str, value: Body, at: str | None) -> None:
        model = word(value.get("modelID")) if value.get("providerID") != LEGACY else None
        extra: Body | None = without(value, *MESSAGE)
        blocks: list[Body] = []
        steps = 0

        def speak() -> None:
            nonlocal extra
            if blocks:
                fact = Said(role="assistant", blocks=tuple(blocks), message_id=id, model=model,
                            stop_reason=word(value.get("finish")))  # fmt: skip
                self.put(fact, at, extra)
                extra = None
                blocks.clear()

        for part in parts_of(value):
            kind = word(part.get("type"))
            if kind == "text":
                blocks.append({**without(part, *PART), **text_block(part.get("text"))})
            elif kind == "reasoning":
                opaque = obj(part.get("metadata")) or None
                blocks.append(thought_block(part.get("text"), opaque))
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
            ended = utc_time(obj(message.get("time")).get("completed")) or at
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
        began, ended = utc_time(times.get("start")) or at, utc_time(times.get("end"))
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
        exit_code = exit_code_of(meta.get("exit"))
        wrong = status == "error" or tool == "invalid" or bool(meta.get("timeout"))
        wrong = wrong or bool(exit_code)
        start, end = in_seconds(times.get("start"), 1000), in_seconds(times.get("end"), 1000)
        took = max(0.0, end - start) if start is not None and end is not None else None
        back = Returned(
            call_id=id,
            tool=tool,
            ok=not wrong,
            output=state.get("output"),
            error=state.get("error") if status == "error" else None,
            status=status,
            exit_code=exit_code,
            seconds=took,
            synthetic_id=made,
        )
        extra = without(state, *STATE)
        if times.get("compacted"):
            extra["compacted"] = times["compacted"]
        self.put(back, ended or began, extra)

    def _spent(self, key: str, fields: Body, message: Body, at: str | None) -> None:
        tokens, cost = obj(fields.get("tokens")), fields.get("cost")
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
            key=f"{self.out.run}/{key}",
            provider=word(message.get("providerID")),
            model=word(message.get("modelID")),
            usage=known,
            cost_usd=paid,
            calls=1,
        )
        self.put(spent, at)

    def _end(self, id: str, value: Body, at: str | None, extra: Body | None) -> None:
        error = value.get("error")
        ended = utc_time(obj(value.get("time")).get("completed")) or at
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
    fields = obj(error)
    return (
        word(obj(fields.get("data")).get("message")) or word(fields.get("message")) or word(error)
    )


def _print(message: Body) -> str:
    """What a copy of a message has in common with it: all but ids, and that an output was cut."""
    parts = []
    for part in parts_of(message):
        plain, state = without(part, "id", "sessionID", "messageID"), obj(part.get("state"))
        if isinstance(times := state.get("time"), dict):
            plain["state"] = {**state, "time": without(times, "compacted")}
        parts.append(plain)
    created = obj(message.get("time")).get("created")
    fields = [message.get("role"), created, message.get("modelID"), parts]
    return sha256(orjson.dumps(fields, default=str)).hexdigest()[:20]
