"""droid: the sessions of Factory Droid, and the stream of `droid exec`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tracklog.formats.importers import (
    Importer,
    Raw,
    Reader,
    Signs,
    beginning,
    by_signs,
    count,
    inside,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._block_facts import block_facts
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
        fields = obj(raw.value)
        native = self._native(fields)
        return run_id(NAME, native) if native else None

    def _native(self, fields: Body) -> str | None:
        if fields.get("type") == "session_start":
            return word(fields.get("id")) or self.source.path.stem
        return word(fields.get("sessionId")) or word(fields.get("session_id"))

    def record(self, raw: Raw) -> None:
        id = word(obj(raw.value).get("id"))
        kind = word(obj(raw.value).get("type"))
        key = f"{kind}/{id}" if id and kind in ("tool_call", "tool_result") else id
        value = self.out.about(
            raw, key=key, bare=id is None and not obj(raw.value).get("timestamp")
        )
        fields = obj(value)
        at = utc_time(fields.get("timestamp"))
        self.state["last"] = at or self.state.get("last")
        if kind is None:
            self.out.unknown("record", value)
            return
        self.out.report.mapped[kind] += 1
        if kind == "session_start":
            self._open(fields, at)
        elif kind == "system" and fields.get("subtype") == "init":
            self.state["model"] = word(fields.get("model"))
            open_run(self.out, NAME, self._native(fields), at=at, model=fields.get("model"),
                     cwd=fields.get("cwd"), extra=without(fields, "type", "id", "timestamp", "cwd", "model",
                                                         "sessionId", "session_id"))  # fmt: skip
        elif kind == "message":
            self._message(id, fields, at)
        elif kind == "tool_call":
            native = word(fields.get("id")) or word(fields.get("toolCallId"))
            name = word(fields.get("toolName")) or word(fields.get("toolId")) or "unknown"
            given = parsed(fields.get("parameters"))
            self.out.write(Called(tool=name, call_id=native or "call", input=given,
                                  synthetic_id=native is None), at=at)  # fmt: skip
        elif kind == "tool_result":
            native = word(fields.get("id")) or word(fields.get("toolCallId"))
            wrong = fields.get("isError") is True
            back = Returned(call_id=native or "call", tool=word(fields.get("toolId")), ok=not wrong,
                            output=fields.get("value", fields.get("content")), error=fields.get("error"),
                            synthetic_id=native is None)  # fmt: skip
            self.out.write(back, at=at)
        elif kind == "completion":
            self._completed(fields, at)
        elif kind == "error":
            text = word(fields.get("message"))
            data = without(fields, "type", "message", "timestamp")
            self.out.write(Noted(label="error", kind="error", text=text, data=data), at=at)
        elif kind == "agent_turn_outcome":
            why = word(fields.get("reason"))
            passed = False if why in ("error", "failed") else None
            step = word(fields.get("turnId")) or "turn"
            self.out.write(Ended(what="step", step=step, outcome=why, passed=passed), at=at)
        else:
            label = "compaction" if kind == "compaction_state" else kind
            text = word(fields.get("summaryText"))
            data = without(fields, "type", "id", "timestamp")
            self.out.write(Noted(label=label, kind=kind, text=text, data=data or None), at=at)

    def _open(self, fields: Body, at: str | None) -> None:
        settings = obj(read_json(settings_of(self.source.path)))
        caller, call = word(fields.get("callingSessionId")), word(fields.get("callingToolUseId"))
        self.state["called"] = caller is not None
        with self.out.revised("session"):
            open_run(
                self.out,
                NAME,
                self._native(fields),
                at=at,
                version=fields.get("version"),
                model=settings.get("model"),
                cwd=fields.get("cwd"),
                title=word(fields.get("sessionTitle")) or fields.get("title"),
                parent=run_id(NAME, caller) if caller else None,
                call=call,
                extra=without(fields, *START) or None,
            )
        forked = word(fields.get("parent"))
        if forked and not caller:
            self.out.write(Linked(kind="fork", parent=run_id(NAME, forked)), at=at)

    def _message(self, id: str | None, fields: Body, at: str | None) -> None:
        message = obj(fields.get("message")) or fields
        role, content = word(message.get("role")), message.get("content", message.get("text"))
        model = word(message.get("modelId")) or self.state.get("model")
        extra = without(
            message, *MESSAGE, "text", "type", "id", "timestamp", "sessionId", "session_id"
        )
        seen = word(message.get("visibility"))
        if seen == "user_only":
            blocks = reply_of("claude", [{"type": "message", "content": content}]).blocks
            self.out.write(Noted(label="notice", data={"content": blocks, **extra}), at=at)
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
                reminder = Said(role="user", blocks=(text_block(text),), injected=True)
                self.out.write(reminder, at=at)
        by_model = role == "assistant"
        speaks: Role = "assistant" if by_model else "system" if role == "system" else "user"
        for fact in block_facts(
            blocks, role=speaks, message_id=id, model=model if by_model else None
        ):
            if isinstance(fact, Said) and fact.role == "user" and hidden:
                self.out.write(replace(fact, injected=True), at=at, extra=extra or None)
            else:
                self.out.write(fact, at=at, extra=extra or None)
            extra = {}

    def _completed(self, fields: Body, at: str | None) -> None:
        final = word(fields.get("finalText"))
        if final:
            self.out.write(Noted(label="result", kind="completion", text=final), at=at)
        self._spent("completion", obj(fields.get("usage")), at)
        self.out.write(Ended(what="step", step="turn", outcome="completed"), at=at)

    def finish(self) -> None:
        """The counts of a session stand in the settings beside it, as one sum that is rewritten."""
        settings = obj(read_json(settings_of(self.source.path)))
        fields = obj(settings.get("tokenUsage"))
        if fields and self.out.run:
            self.out.about_revised("tokenUsage")
            self._spent("usage", fields, self.state.get("last"), word(settings.get("model")))

    def _spent(self, key: str, fields: Body, at: str | None, model: str | None = None) -> None:
        def first(*names: str) -> int | None:
            return next(
                (amount for name in names if (amount := count(fields.get(name))) is not None), None
            )

        fresh = first("inputTokens", "input_tokens")
        read = first("cacheReadTokens", "cache_read_input_tokens") or 0
        written = first("cacheCreationTokens", "cache_creation_input_tokens") or 0
        output = first("outputTokens", "output_tokens")
        if fresh is None and output is None:
            return
        known = usage(
            fields,
            input_tokens=(fresh or 0) + read + written,
            cached_tokens=read,
            cache_write_tokens=written,
            output_tokens=output,
            reasoning_tokens=first("thinkingTokens"),
        )
        model = model or self.state.get("model")
        self.out.write(Spent(key=f"{self.out.run}/{key}", model=model, usage=known), at=at)


def _split(blocks: list[Body]) -> tuple[list[Body], list[str]]:
    """The blocks without reminders in front of their texts, and the reminders."""
    split, reminders = [], []
    for block in blocks:
        text = block.get("text")
        mark = REMINDER.match(text) if block["type"] == "text" and isinstance(text, str) else None
        while mark is not None and isinstance(text, str):
            reminders.append(mark[0].strip())
            text = text[mark.end() :]
            block = {**block, "text": text}  # noqa: PLW2901  # what is left of it
            mark = REMINDER.match(text)
        if block.get("text") != "":
            split.append(block)
    return split, reminders


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
    mapping="2",
    reader=DroidReader,
    recognise=by_signs(SIGNS),
    find=find,
    companion=companion,
    beside=lambda path: [settings_of(path)],
    proven="only files written as tests: the program is closed, and no real file has a licence",
)
