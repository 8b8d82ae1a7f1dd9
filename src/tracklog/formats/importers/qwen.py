"""qwen: the conversations of Qwen Code, with their sub-agents."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    LONG,
    Importer,
    Raw,
    Reader,
    Signs,
    beginning,
    by_signs,
    count,
    inside,
    remember,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._branches import leave_branch
from tracklog.formats.importers._snapshots import (
    foreign_block,
    open_run,
    read_json,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Called, Linked, Noted, Returned, Said, Spent

NAME = "qwen"
WAITING = 64
"""How many answers of telemetry wait for their record."""
COMMON = ("uuid", "parentUuid", "sessionId", "timestamp", "type", "cwd", "version", "gitBranch",
          "message", "model", "usageMetadata", "toolCallResult", "agentId", "isSidechain")  # fmt: skip
NOT_TYPED = ("notification", "cron", "goal_runtime")
LABELS = {
    "chat_compression": "compaction",
    "custom_title": "title",
    "session_model": "model-change",
}
SNAPSHOTS = ("session_artifact_snapshot", "attribution_snapshot", "file_history_snapshot")
"""Records that hang below a message and are no branch of their own."""


class QwenReader(Reader):
    """Reads one conversation, or that of a sub-agent."""

    def identify(self, raw: Raw) -> str | None:
        fields = obj(raw.value)
        native, agent = word(fields.get("sessionId")), self._agent(fields)
        return run_id(NAME, native, agent) if native else None

    def _agent(self, fields: Body) -> str:
        if self.source.path.parent.parent.name != "subagents":
            return ""
        stem = self.source.path.stem.removeprefix("agent-")
        return word(fields.get("agentId")) or stem

    def record(self, raw: Raw) -> None:
        id = word(obj(raw.value).get("uuid"))
        value = self.out.about(raw, key=id, bare=id is None)
        kind = word(obj(value).get("type"))
        if not isinstance(value, dict) or kind not in (
            "user",
            "assistant",
            "tool_result",
            "system",
        ):
            self.out.unknown(kind or "record", value)
            return
        at = utc_time(value.get("timestamp"))
        self._open(value, at)
        self.out.copied = bool(value.get("forkedFrom"))
        subtype = word(value.get("subtype"))
        if id and subtype not in SNAPSHOTS:
            left = leave_branch(self.state, id, word(value.get("parentUuid")))
            if left:
                self.out.write(Noted(label="withdrawn", kind="rewind", data={"from": left}), at=at)
        self.out.report.mapped[subtype or kind] += 1
        if kind == "system":
            self._system(subtype or kind, value, at)
        elif kind == "assistant":
            self._assistant(id or f"{raw.offset}", value, at)
        else:
            self._user(id, value, subtype, at)
        self.out.copied = False

    def _open(self, value: Body, at: str | None) -> None:
        if self.state.get("open"):
            return
        self.state["open"] = True
        native, agent = word(value.get("sessionId")), self._agent(value)
        meta = obj(read_json(self.source.path.with_suffix(".meta.json"))) if agent else {}
        with self.out.revised("session"):
            open_run(
                self.out,
                NAME,
                agent or native,
                at=at,
                program="qwen-code",
                version=value.get("version"),
                cwd=value.get("cwd"),
                branch=value.get("gitBranch"),
                agent=value.get("agentName") if agent else None,
                parent=run_id(NAME, native) if agent and native else None,
                call=word(meta.get("toolCallId")) or word(meta.get("parentToolCallId")),
                extra=meta or None,
            )
        forked = value.get("forkedFrom")
        other = word(obj(forked).get("sessionId")) or word(forked)
        if other:
            self.out.write(Linked(kind="fork", parent=run_id(NAME, other)), at=at)

    def _user(self, id: str | None, value: Body, subtype: str | None, at: str | None) -> None:
        blocks, shown = [], obj(value.get("systemPayload")).get("displayText")
        extra = _rest(value)
        result = obj(value.get("toolCallResult"))
        answered = False
        for part in items(obj(value.get("message")).get("parts")):
            answer = obj(obj(part).get("functionResponse"))
            if answer:
                self._returned(answer, result, at, extra | without(obj(part), "functionResponse"))
                extra, answered = {}, True
            else:
                blocks.append(_block(part))
        if result and value.get("type") == "tool_result" and not answered:
            answer = {"id": result.get("callId"), "name": result.get("name")}
            self._returned({**answer, "response": {"output": result.get("resultDisplay")}},
                           without(result, "resultDisplay"), at, extra)  # fmt: skip
            extra = {}
        if word(shown):
            shown_blocks = [text_block(shown)]
            extra["sent"] = blocks if blocks != shown_blocks else None
            blocks = shown_blocks
        if blocks:
            hidden = subtype in NOT_TYPED or value.get("type") == "tool_result"
            fact = Said(role="user", blocks=tuple(blocks), message_id=id, injected=hidden)
            self.out.write(fact, at=at, extra=without(extra) or None)

    def _returned(self, answer: Body, result: Body, at: str | None, extra: Body) -> None:
        response, status = obj(answer.get("response")), word(result.get("status"))
        error = response.get("error")
        wrong = error is not None or status == "error"
        back = Returned(
            call_id=word(answer.get("id")) or word(result.get("callId")) or "unknown",
            tool=word(answer.get("name")),
            ok=None if status == "cancelled" else not wrong,
            output=response.get("output") if "output" in response else without(response, "error"),
            error=error,
            status=status,
            synthetic_id=word(answer.get("id")) is None,
        )
        rest = without(result, "callId", "status")
        extra = extra | without(answer, "id", "name", "response")
        if "output" in response:
            extra |= without(response, "output", "error")
        self.out.write(back, at=at, extra={**extra, "result": rest} if rest else extra or None)

    def _assistant(self, id: str, value: Body, at: str | None) -> None:
        model, blocks = word(value.get("model")), []
        extra = _rest(value)
        calls = []
        for place, part in enumerate(items(obj(value.get("message")).get("parts"))):
            call = obj(obj(part).get("functionCall"))
            if call:
                calls.append((place, {**without(obj(part), "functionCall"), **call}))
            else:
                blocks.append(_block(part))
        written = bool(blocks or not calls)
        if written:
            fact = Said(role="assistant", blocks=tuple(blocks), message_id=id, model=model)
            self.out.write(fact, at=at, extra=extra or None)
        for place, call in calls:
            native = word(call.get("id"))
            self.out.write(
                Called(
                    tool=word(call.get("name")) or "unknown",
                    call_id=native or f"{id}/{place}",
                    input=call.get("args"),
                    synthetic_id=native is None,
                ),
                at=at,
                extra={**({} if written else extra), **without(call, "id", "name", "args")} or None,
            )
            written = True
        known = tokens(value.get("usageMetadata"))
        if known:
            spent: dict[str, int] = self.state.setdefault("spent", {})
            remember(spent, _amounts(known), spent.get(_amounts(known), 0) + 1, LONG)
            key = f"{self.out.run}/{id}"
            self.out.write(Spent(key=key, model=model, usage=known, calls=1), at=at)

    def _system(self, subtype: str, value: Body, at: str | None) -> None:
        payload = value.get("systemPayload")
        fields = obj(payload)
        event = obj(fields.get("uiEvent"))
        extra = _rest(value, "systemPayload", "subtype")
        if subtype == "ui_telemetry" and event:
            self._telemetry(event, at, extra | without(fields, "uiEvent"))
            return
        text = (
            word(fields.get("customTitle"))
            or word(fields.get("summary"))
            or word(fields.get("text"))
        )
        if subtype == "session_model":
            fields = {**fields, "to": fields.get("model") or fields.get("modelId")}
        label = LABELS.get(subtype, subtype)
        if "error" in subtype:
            label, text = "error", text or word(fields.get("message"))
        data = fields or payload
        note = Noted(label=label, kind=subtype, text=text, data=data)
        self.out.write(note, at=at, extra=extra or None)

    def _telemetry(self, event: Body, at: str | None, extra: Body) -> None:
        """Telemetry repeats the counts of records; a side call has no record of its own."""
        name = word(event.get("event.name")) or "ui_telemetry"
        noted = Noted(label=name, kind=name, data=event)
        if name.endswith("api_error"):
            text = word(event.get("error_message")) or word(event.get("error"))
            noted = Noted(label="error", kind=name, text=text, data=event)
        self.out.write(noted, at=at, extra=extra or None)
        if not name.endswith("api_response"):
            return
        waiting: list[Any] = self.state.setdefault("waiting", [])
        waiting.append([event, at, self.out.mark()["hash"][:16]])
        if len(waiting) > WAITING:
            event, at, hash = waiting.pop(0)
            self._side_call(event, at, hash, self.state.setdefault("spent", {}))

    def finish(self) -> None:
        """Write the side calls: answers that telemetry reports and no record has."""
        known = dict(self.state.get("spent", {}))
        for event, at, hash in self.state.get("waiting", []):
            self._side_call(event, at, hash, known)

    def _side_call(self, event: Body, at: str | None, hash: str, known: dict[str, int]) -> None:
        """Write an answer that telemetry reports, unless a record has its counts."""
        amounts = usage(
            None,
            input_tokens=count(event.get("input_token_count")),
            cached_tokens=count(event.get("cached_content_token_count")),
            output_tokens=count(event.get("output_token_count")),
            reasoning_tokens=count(event.get("thoughts_token_count")),
        )
        name = _amounts(amounts)
        if not amounts or known.get(name):
            known[name] = known.get(name, 1) - 1
            return
        id = word(event.get("response_id")) or hash
        self.out.about_revised(f"usage/{id}")  # a record may still come
        key, model = f"{self.out.run}/{id}", word(event.get("model"))
        self.out.write(Spent(key=key, model=model, usage=amounts, calls=1), at=at)


def _rest(value: Body, *keys: str) -> Body:
    """What the mapping does not use of a record and of its message."""
    return without(value, *COMMON, *keys) | without(obj(value.get("message")), "role", "parts")


def _amounts(known: Body) -> str:
    return f"{known.get('input_tokens', 0)}/{known.get('output_tokens', 0)}"


def tokens(raw: Any) -> Body:
    """The counts of a record; thoughts are inside the output where the total says so."""
    fields = obj(raw)
    asked, output = count(fields.get("promptTokenCount")), count(fields.get("candidatesTokenCount"))
    thought, total = count(fields.get("thoughtsTokenCount")), count(fields.get("totalTokenCount"))
    outside = total is not None and total == (asked or 0) + (output or 0) + (thought or 0)
    if thought and outside:
        output = (output or 0) + thought
    return usage(
        fields or None,
        input_tokens=asked,
        cached_tokens=count(fields.get("cachedContentTokenCount")),
        output_tokens=output,
        reasoning_tokens=thought,
    )


def _block(part: Any) -> Body:
    fields = obj(part)
    text = fields.get("text")
    if isinstance(part, str):
        return text_block(part)
    if text is not None and fields.get("thought") is True:
        rest = without(fields, "text", "thought", "thoughtSignature")
        return {**rest, **thought_block(text, fields.get("thoughtSignature"))}
    if text is not None:
        return {**without(fields, "text"), **text_block(text)}
    return foreign_block(next(iter(fields), "part"), part)


SIGNS = (
    Signs({"sessionId": str, "uuid": str, "message.parts": list}),
    Signs({"sessionId": str, "type": {"user", "assistant"}, "message.parts": list}),
    Signs({"sessionId": str, "uuid": str, "type": {"system"}, "systemPayload": dict}),
    Signs({"sessionId": str, "uuid": str, "usageMetadata": dict}),
)
AGENT = Signs({"agentId": str})


def companion(path: Path, head: bytes) -> bool:
    """The metadata beside the file of a sub-agent."""
    named = path.name.endswith(".meta.json") and path.parent.parent.name == "subagents"
    beside = path.with_name(path.name.removesuffix(".meta.json") + ".jsonl")
    return named and beside.is_file() and any(map(AGENT.match, beginning(path, head).objects))


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    base = Path(environment.get("QWEN_HOME") or home / ".qwen")
    return inside(base / "projects", "*/chats/*.jsonl", "*/subagents/*/agent-*.jsonl")


importer = Importer(
    name=NAME,
    about="Qwen Code: ~/.qwen/projects, with sub-agents.",
    mapping="2",
    reader=QwenReader,
    recognise=by_signs(SIGNS),
    find=find,
    companion=companion,
    fits=lambda body: "uuid" in body and "type" in body,
    proven="files that version 0.24 wrote in a test run; branches and rewinds only in files written as tests",
)
