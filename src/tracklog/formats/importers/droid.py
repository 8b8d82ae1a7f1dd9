"""droid: the sessions of Factory Droid, and the stream of `droid exec`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import orjson

from tracklog.formats.importers import (
    Importer,
    Raw,
    Reader,
    Signs,
    beginning,
    count,
    inside,
    moment,
    run_id,
    score,
    word,
)
from tracklog.formats.importers._block_facts import spoken
from tracklog.formats.importers._exchanges import reply_of
from tracklog.formats.importers._snapshots import open_run, parsed, read_json, text_block, without
from tracklog.formats.providers import Body, obj, usage
from tracklog.model.fact import Called, Ended, Linked, Noted, Returned, Role, Said, Spent

NAME = "droid"
REMINDER = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
START = ("type", "id", "title", "sessionTitle", "cwd", "version", "callingSessionId",
         "callingToolUseId", "parent")  # fmt: skip
MESSAGE = ("role", "content", "modelId", "apiProvider", "visibility")


class DroidReader(Reader):
    """Reads one session, as its file or as a printed stream."""

    def identify(self, raw: Raw) -> str | None:
        told = obj(raw.value)
        native = self._native(told)
        return run_id(NAME, native) if native else None

    def _native(self, told: Body) -> str | None:
        if told.get("type") == "session_start":
            return word(told.get("id")) or self.source.path.stem
        return word(told.get("sessionId")) or word(told.get("session_id"))

    def record(self, raw: Raw) -> None:
        id = word(obj(raw.value).get("id"))
        kind = word(obj(raw.value).get("type"))
        key = f"{kind}/{id}" if id and kind in ("tool_call", "tool_result") else id
        value = self.tell.about(
            raw, key=key, bare=id is None and not obj(raw.value).get("timestamp")
        )
        told = obj(value)
        at = moment(told.get("timestamp"))
        if kind is None:
            self.tell.unknown("record", value)
            return
        self.tell.report.mapped[kind] += 1
        if kind == "session_start":
            self._open(told, at)
        elif kind == "system" and told.get("subtype") == "init":
            self.state["model"] = word(told.get("model"))
            open_run(self.tell, NAME, self._native(told), at=at, model=told.get("model"),
                     cwd=told.get("cwd"), extra=without(told, "type", "id", "timestamp", "cwd", "model",
                                                         "sessionId", "session_id"))  # fmt: skip
        elif kind == "message":
            self._message(id, told, at)
        elif kind == "tool_call":
            native = word(told.get("id")) or word(told.get("toolCallId"))
            name = word(told.get("toolName")) or word(told.get("toolId")) or "unknown"
            given = parsed(told.get("parameters"))
            self.tell.tell(Called(tool=name, call_id=native or "call", input=given,
                                  synthetic_id=native is None), at=at)  # fmt: skip
        elif kind == "tool_result":
            native = word(told.get("id")) or word(told.get("toolCallId"))
            wrong = told.get("isError") is True
            back = Returned(call_id=native or "call", tool=word(told.get("toolId")), ok=not wrong,
                            output=told.get("value", told.get("content")), error=told.get("error"),
                            synthetic_id=native is None)  # fmt: skip
            self.tell.tell(back, at=at)
        elif kind == "completion":
            self._completed(told, at)
        elif kind == "error":
            text = word(told.get("message"))
            data = without(told, "type", "message", "timestamp")
            self.tell.tell(Noted(label="error", kind="error", text=text, data=data), at=at)
        elif kind == "agent_turn_outcome":
            why = word(told.get("reason"))
            passed = False if why in ("error", "failed") else None
            step = word(told.get("turnId")) or "turn"
            self.tell.tell(Ended(what="step", step=step, outcome=why, passed=passed), at=at)
        else:
            label = "compaction" if kind == "compaction_state" else kind
            text = word(told.get("summaryText"))
            data = without(told, "type", "id", "timestamp")
            self.tell.tell(Noted(label=label, kind=kind, text=text, data=data or None), at=at)

    def _open(self, told: Body, at: str | None) -> None:
        settings = obj(read_json(settings_of(self.source.path)))
        self.state["model"] = word(settings.get("model"))
        caller, call = word(told.get("callingSessionId")), word(told.get("callingToolUseId"))
        self.state["called"] = caller is not None
        open_run(
            self.tell,
            NAME,
            self._native(told),
            at=at,
            version=told.get("version"),
            model=settings.get("model"),
            cwd=told.get("cwd"),
            title=word(told.get("sessionTitle")) or told.get("title"),
            parent=run_id(NAME, caller) if caller else None,
            call=call,
            extra=without(told, *START) or None,
        )
        forked = word(told.get("parent"))
        if forked and not caller:
            self.tell.tell(Linked(kind="fork", parent=run_id(NAME, forked)), at=at)

    def _message(self, id: str | None, told: Body, at: str | None) -> None:
        message = obj(told.get("message")) or told
        role, content = word(message.get("role")), message.get("content", message.get("text"))
        model = word(message.get("modelId")) or self.state.get("model")
        extra = without(
            message, *MESSAGE, "text", "type", "id", "timestamp", "sessionId", "session_id"
        )
        seen = word(message.get("visibility"))
        if seen == "user_only":
            blocks = reply_of("claude", [{"type": "message", "content": content}]).blocks
            self.tell.tell(Noted(label="notice", data={"content": blocks, **extra}), at=at)
            return
        hidden = seen == "llm_only" or bool(message.get("hookEventName"))
        hidden = (
            hidden
            or message.get("userMessageSource") == "automation"
            or bool(self.state.get("called"))
        )
        body = {"type": "message", "role": role, "content": content}
        blocks = reply_of("claude", [body]).blocks
        if role == "user":
            blocks, reminders = _split(blocks)
            for text in reminders:
                said = Said(role="user", blocks=(text_block(text),), injected=True)
                self.tell.tell(said, at=at)
        by_model = role == "assistant"
        speaks: Role = "assistant" if by_model else "system" if role == "system" else "user"
        for fact in spoken(blocks, role=speaks, message_id=id, model=model if by_model else None):
            if isinstance(fact, Said) and fact.role == "user" and hidden:
                self.tell.tell(replace(fact, injected=True), at=at, extra=extra or None)
            else:
                self.tell.tell(fact, at=at, extra=extra or None)
            extra = {}

    def _completed(self, told: Body, at: str | None) -> None:
        final = word(told.get("finalText"))
        if final:
            self.tell.tell(Noted(label="result", kind="completion", text=final), at=at)
        self._spent("completion", obj(told.get("usage")), at)
        self.tell.tell(Ended(what="step", step="turn", outcome="completed"), at=at)

    def finish(self) -> None:
        """The counts of a session stand in the settings beside it, as one sum that is rewritten."""
        settings = obj(read_json(settings_of(self.source.path)))
        told = obj(settings.get("tokenUsage"))
        if told and self.tell.run:
            data = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
            self.tell.about(Raw(0, data, told, exact=False), key="tokenUsage", revised=True)
            self._spent("usage", told, None)

    def _spent(self, key: str, told: Body, at: str | None) -> None:
        def first(*names: str) -> int | None:
            return next(
                (found for name in names if (found := count(told.get(name))) is not None), None
            )

        fresh = first("inputTokens", "input_tokens")
        read = first("cacheReadTokens", "cache_read_input_tokens") or 0
        written = first("cacheCreationTokens", "cache_creation_input_tokens") or 0
        output = first("outputTokens", "output_tokens")
        if fresh is None and output is None:
            return
        known = usage(
            told,
            input_tokens=(fresh or 0) + read + written,
            cached_tokens=read,
            cache_write_tokens=written,
            output_tokens=output,
            reasoning_tokens=first("thinkingTokens"),
        )
        model = self.state.get("model")
        self.tell.tell(Spent(key=f"{self.tell.run}/{key}", model=model, usage=known), at=at)


def _split(blocks: list[Body]) -> tuple[list[Body], list[str]]:
    """The blocks without reminders in front of their texts, and the reminders."""
    found, reminders = [], []
    for block in blocks:
        text = block.get("text")
        mark = REMINDER.match(text) if block["type"] == "text" and isinstance(text, str) else None
        while mark is not None and isinstance(text, str):
            reminders.append(mark[0].strip())
            text = text[mark.end() :]
            block = {**block, "text": text}  # noqa: PLW2901  # what is left of it
            mark = REMINDER.match(text)
        if block.get("text") != "":
            found.append(block)
    return found, reminders


def settings_of(path: Path) -> Path:
    return path.with_suffix(".settings.json")


SIGNS = (
    Signs({"type": {"session_start"}, "id": str, "cwd": str}, ("timestamp",), sure=0.95),
    Signs({"type": {"session_start"}, "id": str, "owner": str}, sure=0.95),
    Signs({"type": {"tool_call"}, "toolName": str, "parameters": dict, "id": str}, sure=0.95),
    Signs({"type": {"completion"}, "finalText": str, "usage": dict}, sure=0.95),
    Signs({"type": {"message"}, "role": str, "text": str, "sessionId": str}, sure=0.95),
    Signs({"type": {"message"}, "role": str, "text": str, "session_id": str}, sure=0.95),
)
SETTINGS = Signs({"tokenUsage": dict})


def recognise(path: Path, head: bytes) -> float:
    return score(path, head, SIGNS)


def companion(path: Path, head: bytes) -> bool:
    """The settings beside a session."""
    if not path.name.endswith(".settings.json"):
        return False
    beside = path.with_name(path.name.removesuffix(".settings.json") + ".jsonl")
    return beside.is_file() and any(map(SETTINGS.match, beginning(path, head).objects))


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:  # noqa: ARG001  # the shape
    return inside(home / ".factory" / "sessions", "*.jsonl", "*/*.jsonl")


importer = Importer(
    name=NAME,
    about="Factory Droid: ~/.factory/sessions, and the output of `droid exec --output-format stream-json`.",
    mapping="1",
    reader=DroidReader,
    recognise=recognise,
    find=find,
    companion=companion,
    beside=lambda path: [settings_of(path)],
    proven="made files only: the program is closed and no real file has a licence",
)
