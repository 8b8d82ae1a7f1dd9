"""The wires of Kimi: what happens in a session, as lines, one file per agent."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import (
    ANY,
    LONG,
    Raw,
    Reader,
    Signs,
    beginning,
    count,
    in_seconds,
    remember,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._snapshots import (
    foreign_block,
    open_run,
    parsed,
    read_json,
    text_block,
    thought_block,
    without,
)
from tracklog.formats.providers import Body, items, obj, usage
from tracklog.model.fact import Began, Called, Ended, Linked, Noted, Returned, Said, Spent

NAME = "kimi"
WIRE, MAIN = "wire.jsonl", "main"
CLI = Signs({"timestamp": float, "message.type": str, "message.payload": ANY}, ("type", "role"))
"""A line of the older program."""


class KimiReader(Reader):
    """Reads the wire of one agent, of either program."""

    def identify(self, raw: Raw) -> str | None:
        fields = obj(raw.value)
        if "type" not in fields and "message" not in fields:
            return None
        session, agent = self._names()
        return run_id(NAME, session, "" if agent == MAIN else agent)

    def _names(self) -> tuple[str, str]:
        """The session and the agent, by the path, and by the document of the session."""
        path = self.source.path
        if path.name == WIRE and path.parent.parent.name in ("agents", "subagents"):
            return path.parents[2].name, path.parent.name
        native = word(obj(read_json(state_of(path))).get("id"))
        return native or (path.parent.name if path.name == WIRE else path.stem), MAIN

    def record(self, raw: Raw) -> None:
        value = obj(raw.value)
        inner = obj(value.get("message"))
        bare = not value.get("time") and not value.get("timestamp")
        fields = self.out.about(raw, bare=bare)
        if "payload" in inner and "type" not in value:
            at = utc_time(value.get("timestamp"))
            self._open(at, {})
            self._cli(word(inner.get("type")) or "message", obj(obj(fields).get("message")), at)
            return
        kind = word(value.get("type"))
        if kind is None:
            self.out.unknown("record", fields)
            return
        at = utc_time(value.get("time")) or utc_time(value.get("created_at"))
        self._open(at, obj(fields))
        known = KINDS.get(kind)
        self.out.report.mapped[kind] += 1
        if known is not None:
            known(self, obj(fields), at)
        else:
            data = without(obj(fields), "type", "time", "agentId")
            label = "error" if kind.endswith("error") else kind
            label = "compaction" if kind == "context.apply_compaction" else label
            text = word(data.get("message")) or word(data.get("error")) or word(data.get("summary"))
            self.out.write(Noted(label=label, kind=kind, text=text, data=data or None), at=at)

    def finish(self) -> None:
        self._settle(None)
        self._assembled()
        title = word(obj(read_json(state_of(self.source.path))).get("title"))
        if title and self._names()[1] == MAIN:
            self.out.about_revised("title")
            self.out.write(Noted(label="title", text=title))

    def _open(self, at: str | None, value: Body) -> None:
        if self.state.get("open"):
            return
        self.state["open"] = True
        session, agent = self._names()
        state = obj(read_json(state_of(self.source.path)))
        parent = obj(obj(state.get("agents")).get(agent)).get("parentAgentId")
        above = "" if parent in (None, MAIN) else str(parent)
        with self.out.revised("session"):
            open_run(
                self.out,
                NAME,
                session if agent == MAIN else f"{session}/{agent}",
                at=at,
                program="kimi-cli" if self._is_cli() else "kimi-code",
                cwd=word(state.get("cwd")) or state.get("workDir"),
                agent=None if agent == MAIN else agent,
                parent=None if agent == MAIN else run_id(NAME, session, above),
                extra=without(value, "type", "time", "created_at") or None,
            )

    def _is_cli(self) -> bool:
        """Whether the older program wrote it, by its first records."""
        begin = beginning(self.source.path, self.source.head)
        return any(CLI.match(each) for each in begin.objects)

    # Kimi Code.

    def _bind(self, fields: Body, at: str | None) -> None:
        prompt = word(fields.get("systemPrompt"))
        if prompt:
            fact = Said(role="system", blocks=(text_block(prompt),), injected=True)
            self.out.write(fact, at=at)
        data = without(fields, "type", "time", "agentId", "systemPrompt")
        self.out.write(
            Noted(label="config", kind=word(fields.get("type")), data=data or None), at=at
        )

    def _prompt(self, fields: Body, at: str | None) -> None:
        kind = word(obj(fields.get("origin")).get("kind"))
        blocks = tuple(blocks_of(fields.get("input")))
        if not blocks:  # its words are in a message of the context
            data = without(fields, "time", "agentId")
            self.out.write(Noted(label="prompt", kind=word(fields.get("type")), data=data), at=at)
            return
        self._remember_texts(blocks)
        id = word(fields.get("promptId"))
        fact = Said(role="user", blocks=blocks, message_id=id, injected=kind not in (None, "user"))
        self.out.write(
            fact, at=at, extra=without(fields, "type", "time", "agentId", "input", "promptId")
        )

    def _append(self, fields: Body, at: str | None) -> None:
        """A message of the context: a copy of a prompt, or one that nobody typed."""
        message = obj(fields.get("message"))
        inner = obj(message.get("message")) or message
        blocks = tuple(blocks_of(inner.get("content")))
        made = [*items(inner.get("toolCalls"))]
        if self._is_known(blocks) and all(self._is_called(obj(each)) for each in made):
            self.out.report.mapped[str(fields.get("type"))] -= 1
            self.out.report.ignored[f"{fields.get('type')}: compared, a copy"] += 1
            return
        self._remember_texts(blocks)
        role, origin = (
            word(inner.get("role")),
            obj(inner.get("origin")) or obj(message.get("origin")),
        )
        fact = Said(
            role="assistant" if role == "assistant" else "user",
            blocks=blocks,
            injected=role != "assistant" and not _is_typed(role, origin, blocks),
            message_id=word(inner.get("id")),
        )
        self.out.write(fact, at=at, extra=without({"origin": origin}) or None)

    def _loop(self, fields: Body, at: str | None) -> None:
        event = obj(fields.get("event"))
        kind = word(event.get("type")) or "event"
        step = word(event.get("stepUuid")) or word(event.get("uuid"))
        if kind == "step.begin":
            self._settle(at)
            self.state.pop("counted", None)
            self.out.write(Began(what="step", step=step), at=at)
        elif kind == "content.part":
            blocks = tuple(blocks_of([event.get("part")]))
            self._remember_texts(blocks)
            model = self.state.get("model")
            fact = Said(role="assistant", blocks=blocks, message_id=step, model=model, step=step)
            self.out.write(fact, at=at)
        elif kind == "tool.call":
            id = word(event.get("toolCallId"))
            remember(self.state.setdefault("called", {}), id or "", 1, LONG)
            call = Called(tool=word(event.get("name")) or "unknown", call_id=id or str(step),
                          input=event.get("args"), step=step, synthetic_id=id is None)  # fmt: skip
            extra = without(event, "type", "uuid", "turnId", "step", "stepUuid", "toolCallId", "name",
                            "args")  # fmt: skip
            self.out.write(call, at=at, extra=extra or None)
        elif kind == "tool.result":
            self._result(word(event.get("toolCallId")), obj(event.get("result")), at)
        elif kind == "step.end":
            if obj(event.get("usage")):
                self.state.pop("usage", None)
                self.state["counted"] = event["usage"]
            self._spent(f"step/{step}", event.get("usage"), at)
            stop = word(event.get("finishReason"))
            extra = without(event, "type", "uuid", "usage", "finishReason", "turnId", "step")
            ended = Ended(what="step", step=step, outcome=stop)
            self.out.write(ended, at=at, extra=extra or None)
        else:
            self.out.write(Noted(label=kind, kind=kind, data=event), at=at)

    def _result(self, id: str | None, result: Body, at: str | None) -> None:
        output = result.get("output")
        self._remember_texts(tuple(blocks_of(output if isinstance(output, str | list) else None)))
        back = Returned(
            call_id=id or "unknown",
            ok=result.get("isError", result.get("is_error")) is not True,
            output=output,
            seconds=in_seconds(result.get("durationMs"), 1000),
            synthetic_id=id is None,
        )
        extra = without(result, "output", "isError", "is_error", "durationMs")
        self.out.write(back, at=at, extra=extra or None)

    def _request(self, fields: Body, at: str | None) -> None:
        self.state["model"] = word(fields.get("model")) or self.state.get("model")
        data = without(fields, "type", "time", "agentId")
        self.out.write(Noted(label="llm.request", kind="llm.request", data=data), at=at)

    def _usage(self, fields: Body, at: str | None) -> None:
        """Only for a step that does not end with its usage, which comes before or after this."""
        if fields.get("usage") == self.state.pop("counted", None):
            return
        self.state["usage"] = [fields.get("usage"), at, self.out.mark()]

    def _settle(self, _at: str | None) -> None:
        waiting = self.state.pop("usage", None)
        if waiting:
            mark = self.out.mark() if self.state.get("open") else None
            self.out.again(waiting[2])
            self._spent(f"usage/{waiting[2]['hash'][:16]}", waiting[0], waiting[1])
            if mark is not None:
                self.out.again(mark)

    def _ended(self, fields: Body, at: str | None) -> None:
        self._settle(at)
        kind = word(fields.get("type")) or ""
        why = word(fields.get("reason")) or word(fields.get("outcome"))
        outcome = "cancelled" if kind == "turn.cancel" else why
        turn = fields.get("turnId")
        ended = Ended(
            what="step",
            step=f"turn {turn}" if turn is not None else "turn",
            outcome=outcome,
            passed=False if outcome in ("failed", "error") else None,
            seconds=in_seconds(fields.get("durationMs"), 1000),
        )
        self.out.write(ended, at=at)

    def _spent(self, key: str, raw: Any, at: str | None) -> None:
        fields = obj(raw)

        def first(*names: str) -> int | None:
            return next(
                (amount for name in names if (amount := count(fields.get(name))) is not None), None
            )

        other, output = first("inputOther", "input_other"), first("output")
        read = first("inputCacheRead", "input_cache_read") or 0
        written = first("inputCacheCreation", "input_cache_creation") or 0
        if other is None and output is None:
            return
        known = usage(
            fields,
            input_tokens=(other or 0) + read + written,
            cached_tokens=read,
            cache_write_tokens=written,
            output_tokens=output,
        )
        model = self.state.get("model")
        spent = Spent(key=f"{self.out.run}/{key}", model=model, usage=known, calls=1)
        self.out.write(spent, at=at)

    def _remember_texts(self, blocks: tuple[Body, ...]) -> None:
        known = self.state.setdefault("texts", {})
        for text in _texts(blocks):
            remember(known, text, 1, LONG)

    def _is_known(self, blocks: tuple[Body, ...]) -> bool:
        known = self.state.get("texts", {})
        return all(text in known for text in _texts(blocks))

    def _is_called(self, call: Body) -> bool:
        return (word(call.get("id")) or "") in self.state.get("called", {})

    # The older Kimi CLI.

    def _cli(self, kind: str, message: Body, at: str | None) -> None:
        fields = obj(message.get("payload"))
        self.out.report.mapped[kind] += 1
        if kind == "ToolCallPart":
            pieces = self.state.get("pieces")
            if pieces:
                pieces["input"] += word(fields.get("arguments_part")) or ""
                return
        self._assembled()
        if kind == "TurnBegin":
            blocks = tuple(blocks_of(fields.get("user_input")))
            self.out.write(Said(role="user", blocks=blocks), at=at)
        elif kind == "ContentPart":
            blocks = tuple(blocks_of([fields]))
            self.out.write(Said(role="assistant", blocks=blocks), at=at)
        elif kind == "ToolCall":
            function, id = obj(fields.get("function")), word(fields.get("id"))
            given = function.get("arguments")
            name = word(function.get("name")) or "unknown"
            if isinstance(given, str) and isinstance(parsed(given), str):
                self.state["pieces"] = {"id": id, "name": name, "input": given, "at": at,
                                        "mark": self.out.mark(), "run": self.out.run}  # fmt: skip
                return  # the rest of its input follows
            call = Called(tool=name, call_id=id or "call", input=parsed(given),
                          synthetic_id=id is None)  # fmt: skip
            self.out.write(call, at=at)
        elif kind == "ToolResult":
            result = obj(fields.get("return_value")) or obj(fields.get("result"))
            self._result(word(fields.get("tool_call_id")), result, at)
        elif kind == "StatusUpdate":
            id = word(fields.get("message_id"))
            self._spent(f"status/{id or at}", fields.get("token_usage"), at)
        elif kind == "SubagentEvent":
            self._subagent(fields, at)
        elif kind in ("StepInterrupted", "TurnEnd"):
            outcome = "interrupted" if kind == "StepInterrupted" else "completed"
            self.out.write(Ended(what="step", step="turn", outcome=outcome), at=at)
        else:
            label = "error" if kind == "StepRetry" else kind
            self.out.write(Noted(label=label, kind=kind, data=fields or None), at=at)

    def _assembled(self) -> None:
        """Write a call whose input came in pieces."""
        pieces = self.state.pop("pieces", None)
        if not pieces:
            return
        here, run = self.out.mark(), self.out.run
        self.out.again(pieces["mark"])
        call = Called(tool=pieces["name"], call_id=pieces["id"] or "call",
                      input=parsed(pieces["input"]), synthetic_id=pieces["id"] is None)  # fmt: skip
        self.out.write(call, at=pieces["at"], run=pieces["run"])
        self.out.again(here)
        self.out.run = run

    def _subagent(self, fields: Body, at: str | None) -> None:
        """An event of a sub-agent, in the file of its parent."""
        call, above = word(fields.get("parent_tool_call_id")) or "call", self.out.run
        child = run_id(NAME, above, call)
        if call not in self.state.setdefault("children", {}):
            remember(self.state["children"], call, child)
            self.out.write(Linked(kind="sub-run", child=child, call_id=call), at=at)
            self.out.write(Linked(kind="sub-run", parent=above, call_id=call), at=at, run=child)
        event = obj(fields.get("event"))
        self.out.run = child
        self._cli(word(event.get("type")) or "message", event, at)
        self.out.run = above


KINDS: dict[str, Any] = {
    "profile.bind": KimiReader._bind,
    "config.update": KimiReader._bind,
    "turn.prompt": KimiReader._prompt,
    "turn.steer": KimiReader._prompt,
    "turn.cancel": KimiReader._ended,
    "turn.ended": KimiReader._ended,
    "context.append_message": KimiReader._append,
    "agent.message.appended": KimiReader._append,
    "context.append_loop_event": KimiReader._loop,
    "llm.request": KimiReader._request,
    "usage.record": KimiReader._usage,
}


def _is_typed(role: str | None, origin: Body, blocks: tuple[Body, ...]) -> bool:
    """Whether a message of the context is a prompt: older wires have it nowhere else."""
    reminder = any(str(each.get("text", "")).lstrip().startswith("<system") for each in blocks)
    return role == "user" and origin.get("kind") in (None, "user") and not reminder


def blocks_of(content: Any) -> Iterable[Body]:
    if isinstance(content, str):
        yield text_block(content)
    for part in items(content):
        fields = obj(part)
        kind = word(fields.get("type"))
        if isinstance(part, str):
            yield text_block(part)
        elif kind == "text":
            yield text_block(fields.get("text"))
        elif kind == "think":
            yield thought_block(fields.get("think", fields.get("text")), fields.get("encrypted"))
        elif fields:
            yield foreign_block(kind or "part", part)


def _texts(blocks: Iterable[Body]) -> list[str]:
    texts = []
    for block in blocks:
        text = block.get("text", block.get("thinking", block.get("chunk")))
        texts.append(sha256(orjson.dumps(text, default=str)).hexdigest()[:16])
    return texts


def state_of(path: Path) -> Path:
    """The document about a session."""
    if path.name == WIRE:
        inside_agents = path.parent.parent.name in ("agents", "subagents")
        return (path.parents[2] if inside_agents else path.parent) / "state.json"
    return path.with_suffix(".state.json")
