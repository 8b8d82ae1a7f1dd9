"""Copilot CLI: the events of its sessions."""

from collections.abc import Callable
from typing import Any

from tracklog.formats.importers import (
    LONG,
    Importer,
    Raw,
    Reader,
    count,
    in_seconds,
    remember,
    run_id,
    utc_time,
    word,
)
from tracklog.formats.importers._live_calls import LiveCalls
from tracklog.formats.importers._snapshots import foreign_block
from tracklog.formats.importers.copilot.durations import between
from tracklog.formats.importers.copilot.files import find, recognise, session_of
from tracklog.formats.providers import input_of
from tracklog.formats.providers.copilot import return_of, thought_of, token_details, tokens
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Ended,
    Fact,
    Linked,
    Noted,
    Returned,
    Said,
    Spent,
)

NAME = "copilot"
NOTED = {
    "session.info": "info",
    "session.warning": "warning",
    "session.error": "error",
    "session.mode_changed": "mode-change",
    "session.auto_mode_resolved": "mode-change",
    "session.usage_checkpoint": "totals",
    "session.task_complete": "result",
    "session.title_changed": "title",
    "session.truncation": "compaction",
    "session.compaction_start": "compaction",
    "session.compaction_complete": "compaction",
    "hook.start": "hook.start",
    "hook.end": "hook.end",
    "skill.invoked": "skill.invoked",
    "tool.user_requested": "tool.user_requested",
    "system.notification": "system.notification",
}
"""Events that are mapped to their label only."""
PIECES = ("assistant.message_delta", "assistant.reasoning_delta", "assistant.streaming_delta")
MESSAGE = (
    "messageId", "content", "toolRequests", "reasoningText", "reasoningOpaque", "encryptedContent",
    "outputTokens", "model", "turnId", "parentToolCallId", "chunkIndex", "chunkCount",
)  # fmt: skip  # one row
CALL = ("toolCallId", "toolName", "name", "arguments", "mcpServerName", "parentToolCallId")
RESULT = ("toolCallId", "toolName", "success", "result", "error", "parentToolCallId")
START = ("sessionId", "copilotVersion", "selectedModel", "context", "startTime", "producer")


class CopilotReader(Reader):
    """Reads the events of one session, which may have been resumed."""

    def identify(self, raw: Raw) -> str | None:
        if native := session_of(self.source.path):
            return run_id(NAME, native)
        fields = _data(raw.value)
        if isinstance(raw.value, dict) and raw.value.get("type") == "session.start":
            return run_id(NAME, word(fields.get("sessionId")) or self.source.path.stem)
        return None

    def record(self, raw: Raw) -> None:
        event = raw.value
        kind = word(event.get("type")) if isinstance(event, dict) else None
        if not kind or not isinstance(event.get("data"), dict):
            bare = not isinstance(event, dict) or not (event.get("timestamp") or event.get("id"))
            self.out.unknown(kind or "record", self.out.about(raw, bare=bare))
            return
        key = word(event.get("id"))
        bare = key is None and not event.get("timestamp")
        value = self.out.about(raw, key=key, bare=bare)
        fields = value["data"]
        self._at = utc_time(value.get("timestamp"))
        self._key = key or self.out.mark()["hash"][:16]
        self._cause = word(value.get("parentId"))
        self._agent = word(value.get("agentId"))
        self._run = self._run_of(fields)
        if kind in PIECES or value.get("ephemeral") is True:
            self.out.report.ignored[f"{kind}: complete elsewhere"] += 1
        elif kind in NOTED:
            self.out.report.mapped[kind] += 1
            self._note(kind, fields)
        elif kind in MEANINGS:
            self.out.report.mapped[kind] += 1
            MEANINGS[kind](self, fields)
        else:
            self.out.unknown(kind, fields, at=self._at, run=self._run, cause=self._cause)

    def finish(self) -> None:
        """Write the chunks of messages that never came complete."""
        for id, chunk in self.state.get("chunks", {}).items():
            self.out.again(chunk["mark"])
            self._at, self._run = chunk["at"], chunk["run"]
            self._cause = self._agent = None
            # Another position than that of the complete message, which may still come.
            place = 1000 * (1 + len(chunk["parts"]))
            self._say(chunk["told"], id, "".join(chunk["parts"]), place)

    def _run_of(self, fields: dict[str, Any]) -> str | None:
        """The run of a sub-agent, for its calls and messages; None: the run of the session."""
        parent = word(fields.get("parentToolCallId"))
        subs: dict[str, str] = self.state.get("subs", {})
        return subs.get(parent or "")

    def _write(self, fact: Fact, extra: dict[str, Any] | None = None, **more: Any) -> None:
        more.setdefault("run", self._run)
        self.out.write(fact, at=self._at, cause=self._cause, extra=extra or None, **more)

    def _begin(self, fields: dict[str, Any]) -> None:
        self.state["segment"] = self.state.get("segment", 0) + 1
        native = word(fields.get("sessionId"))
        place = fields.get("context")
        place = place if isinstance(place, dict) else {}
        git = {
            ours: word(place.get(theirs))
            for ours, theirs in (
                ("branch", "branch"), ("commit", "headCommit"), ("repository", "repository"),
            )
            if word(place.get(theirs))
        }  # fmt: skip
        version = word(fields.get("copilotVersion"))
        software = {"name": word(fields.get("producer")) or "copilot-cli"}
        self.state["model"] = word(fields.get("selectedModel")) or self.state.get("model")
        began = Began(
            what="run",
            model=word(fields.get("selectedModel")),
            software=software | ({"version": version} if version else {}),
            cwd=word(place.get("cwd")),
            git=git or None,
        )
        extra = {key: each for key, each in fields.items() if key not in START}
        if rest := {key: each for key, each in place.items() if key not in GIT}:
            extra["context"] = rest
        self._write(began, extra)
        for alias in {native, session_of(self.source.path)} - {None, self.state.get("alias")}:
            self.state["alias"] = alias
            self._write(Linked(kind="alias", system=NAME, alias=alias))

    def _user(self, fields: dict[str, Any]) -> None:
        blocks = (
            [{"type": "text", "text": fields["content"]}] if _text(fields.get("content")) else []
        )
        blocks += [foreign_block("attachment", each) for each in _listed(fields.get("attachments"))]
        used = ["content", "attachments"]
        if fields.get("transformedContent") == fields.get("content"):
            used.append("transformedContent")
        extra = {key: each for key, each in fields.items() if key not in used}
        injected = word(fields.get("source")) not in (None, "user")
        fact = Said(role="user", blocks=tuple(blocks), injected=injected, agent=self._agent)
        self._write(fact, extra)

    def _system(self, fields: dict[str, Any]) -> None:
        text = fields.get("content")
        blocks = (
            [{"type": "text", "text": text}] if _text(text) else [foreign_block("system", fields)]
        )
        extra = {key: each for key, each in fields.items() if key != "content"}
        self._write(Said(role="system", blocks=tuple(blocks)), extra)

    def _turn_start(self, fields: dict[str, Any]) -> None:
        self.state["turn"] = step = str(fields.get("turnId", ""))
        extra = {key: each for key, each in fields.items() if key != "turnId"}
        self._write(Began(what="step", step=step, agent=self._agent), extra)

    def _turn_end(self, fields: dict[str, Any]) -> None:
        step = str(fields.get("turnId", self.state.get("turn", "")))
        self.state.pop("turn", None)
        extra = {key: each for key, each in fields.items() if key != "turnId"}
        self._write(Ended(what="step", step=step, agent=self._agent), extra)

    def _abort(self, fields: dict[str, Any]) -> None:
        step = self.state.pop("turn", None)
        reason = word(fields.get("reason"))
        self._write(Ended(what="step", step=step, outcome="abort", reason=reason))

    @property
    def _step(self) -> str | None:
        step: str | None = self.state.get("turn")
        return step

    def _message(self, fields: dict[str, Any]) -> None:
        id = word(fields.get("messageId"))
        text, chunks = fields.get("content"), count(fields.get("chunkCount"))
        text = text if _text(text) else ""
        if id and chunks and chunks > 1 and isinstance(text, str):
            self._chunk(fields, id, text, chunks)
        else:
            self._say(fields, id, text)

    def _chunk(self, fields: dict[str, Any], id: str, text: str, chunks: int) -> None:
        """The chunks of one message are one message, written for its first record."""
        waiting = self.state.setdefault("chunks", {})
        mark = {"mark": self.out.mark(), "at": self._at, "run": self._run, "told": fields}
        known = waiting.setdefault(id, {**mark, "parts": []})
        known["parts"].append(text)
        known["told"] = {**known["told"], **fields}
        if len(known["parts"]) >= chunks:
            del waiting[id]
            self.out.again(known["mark"])
            self._at, self._run = known["at"], known["run"]
            self._say(known["told"], id, "".join(known["parts"]))

    def _say(self, fields: dict[str, Any], id: str | None, text: Any, n: int = 0) -> None:
        model = word(fields.get("model")) or self.state.get("model")
        thought = thought_of(fields)
        blocks = [thought] if thought else []
        if thought and "opaque" in thought:
            self.out.report.opaque["reasoning"] += 1
        if text:
            blocks.append({"type": "text", "text": text})
        step = word(fields.get("turnId")) or self._step
        requests = [each for each in _listed(fields.get("toolRequests")) if isinstance(each, dict)]
        extra = {key: each for key, each in fields.items() if key not in MESSAGE}
        if blocks or not requests:
            fact = Said(
                role="assistant",
                blocks=tuple(blocks),
                message_id=id,
                model=model,
                step=step,
                agent=self._agent,
            )
            self._write(fact, extra, n=n)
        for place, request in enumerate(requests):
            fallback = f"{id or self._key}/{place}"
            self._call(request, word(request.get("name")), fields, fallback, n + 1 + place)
        output = count(fields.get("outputTokens"))
        if output is not None:
            spent = Spent(
                key=id or f"{self.out.run}/{self._key}",
                model=model,
                usage={"output_tokens": output},
                calls=1,
                group=self._group,
                bound="lower",
                agent=self._agent,
            )
            # The totals of the segment include those of its sub-agents, so all are counted for one
            # run.
            self._write(spent, run=None, n=n + 1 + len(requests))

    @property
    def _group(self) -> str:
        return f"{self.out.run}/{max(1, self.state.get('segment', 1))}"

    def _reason(self, fields: dict[str, Any]) -> None:
        text = fields.get("content")
        block = {"type": "thinking", "thinking": text if _text(text) else ""}
        id = word(fields.get("reasoningId"))
        fact = Said(role="assistant", blocks=(block,), message_id=id, step=self._step)
        self._write(fact, {key: each for key, each in fields.items() if key not in THOUGHT})

    def _call(
        self,
        fields: dict[str, Any],
        tool: str | None,
        around: dict[str, Any],
        fallback: str,
        n: int,
    ) -> None:
        """A call is written for its request or for its start, whichever comes first."""
        id = word(fields.get("toolCallId"))
        known = self.state.setdefault("called", {})
        server = word(fields.get("mcpServerName"))
        if id and id in known and (not server or known[id]):
            return
        remember(known, id or fallback, bool(server), LONG)
        parent = word(fields.get("parentToolCallId")) or word(around.get("parentToolCallId"))
        given = input_of(fields.get("arguments"))
        live = LiveCalls(self.state).id_of(tool or "unknown", given, id or fallback)
        called = Called(
            tool=tool or "unknown",
            call_id=id or fallback,
            input=given,
            provider_call_id=None if self._run else live,
            parent_call_id=parent,
            tool_server=server,
            synthetic_id=id is None,
            step=self._step,
            agent=self._agent,
        )
        extra = {key: each for key, each in fields.items() if key not in CALL}
        self._write(called, extra, n=n)

    def _start(self, fields: dict[str, Any]) -> None:
        if id := word(fields.get("toolCallId")):
            remember(self.state.setdefault("starts", {}), id, self._at)
        self._call(fields, word(fields.get("toolName")), {}, str(self._key), 0)

    def _complete(self, fields: dict[str, Any]) -> None:
        id = word(fields.get("toolCallId"))
        began = self.state.get("starts", {}).pop(id, None)
        result, error = fields.get("result"), fields.get("error")
        returned = return_of(fields)
        back = Returned(
            call_id=id or f"{self._key}/0",
            tool=word(fields.get("toolName")),
            ok=None if returned.wrong is None else not returned.wrong,
            output=returned.output,
            error=returned.error,
            exit_code=returned.exit_code,
            seconds=between(began, self._at),
            synthetic_id=id is None,
            step=self._step,
            agent=self._agent,
        )
        extra = {key: each for key, each in fields.items() if key not in RESULT}
        inner = result if isinstance(result, dict) else {}
        if rest := {key: each for key, each in inner.items() if key != "content"}:
            extra["result"] = rest
        if isinstance(error, dict):
            extra["error"] = error
        self._write(back, extra)

    def _sub_begin(self, fields: dict[str, Any]) -> None:
        call = word(fields.get("toolCallId")) or str(self._key)
        child = run_id(NAME, self.out.run, call)
        remember(self.state.setdefault("subs", {}), call, child, LONG)
        self._write(Linked(kind="sub-run", child=child, call_id=call))
        began = Began(
            what="run", agent=word(fields.get("agentName")), model=word(fields.get("model"))
        )
        self._write(began, {key: each for key, each in fields.items() if key not in SUB}, run=child)
        self._write(Linked(kind="sub-run", parent=self.out.run, call_id=call), run=child)

    def _sub_end(self, fields: dict[str, Any], passed: bool) -> None:
        call = word(fields.get("toolCallId")) or ""
        child = self.state.get("subs", {}).get(call) or run_id(NAME, self.out.run, call)
        ended = Ended(
            what="run",
            agent=word(fields.get("agentName")),
            passed=passed,
            outcome="completed" if passed else "failed",
            error=fields.get("error"),
            seconds=in_seconds(fields.get("durationMs"), 1000),
        )
        self._write(ended, {key: each for key, each in fields.items() if key not in SUB}, run=child)
        totals = {key: fields[key] for key in ("totalTokens", "totalToolCalls") if key in fields}
        if totals:
            self._write(Noted(label="totals", kind="subagent", data=totals), run=child)

    def _ask(self, fields: dict[str, Any]) -> None:
        request = fields.get("permissionRequest")
        request = request if isinstance(request, dict) else fields
        question = word(fields.get("requestId")) or str(self._key)
        asked = Asked(
            question_id=question,
            what="permission",
            text=word(request.get("intention")) or word(request.get("message"))
            or word(request.get("kind")),
            call_id=word(request.get("toolCallId")) or word(fields.get("toolCallId")),
        )  # fmt: skip
        self.state["question"] = question
        self._write(asked, fields)

    def _answer(self, fields: dict[str, Any]) -> None:
        question = word(fields.get("requestId")) or self.state.get("question") or str(self._key)
        answer = fields.get("result", fields.get("decision", fields))
        self._write(Answered(question_id=question, answer=answer))

    def _hand_off(self, fields: dict[str, Any]) -> None:
        other = word(fields.get("remoteSessionId"))
        if other:
            reason = word(fields.get("sourceType"))
            self._write(Linked(kind="related", other=other, reason=reason, context=fields))
        else:
            self._write(Noted(label="session.handoff", kind="session.handoff", data=fields))

    def _rewound(self, fields: dict[str, Any]) -> None:
        data = {"from": fields.get("upToEventId"), **fields}
        self._write(Noted(label="withdrawn", kind="session.snapshot_rewind", data=data))

    def _model_change(self, fields: dict[str, Any]) -> None:
        new = word(fields.get("newModel")) or word(fields.get("model"))
        old = word(fields.get("previousModel")) or self.state.get("model")
        self.state["model"] = new or old
        data = {**fields, "from": old, "to": new}
        self._write(Noted(label="model-change", kind="session.model_change", data=data))

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        label = NOTED[kind]
        text = (
            word(fields.get("message")) or word(fields.get("summary")) or word(fields.get("title"))
        )
        data = dict(fields)
        if kind == "session.mode_changed":
            data |= {"from": fields.get("previousMode"), "to": fields.get("newMode")}
        elif kind == "session.auto_mode_resolved":
            data |= {"to": fields.get("chosenModel")}
        elif label == "compaction":
            before = fields.get("preCompactionTokens", fields.get("preTruncationTokensInMessages"))
            after = fields.get("postCompactionTokens", fields.get("postTruncationTokensInMessages"))
            summary = fields.get("summaryContent")
            known = {"trigger": kind, "before": before, "after": after, "summary": summary}
            data |= {key: each for key, each in known.items() if each is not None}
        self._write(Noted(label=label, kind=kind, text=text, data=data))

    def _shut_down(self, fields: dict[str, Any]) -> None:
        """The totals of a segment; the messages of the segment are not added to them."""
        outcome = word(fields.get("shutdownType"))
        passed = False if outcome == "error" else None
        used = ("modelMetrics", "shutdownType")
        extra = {key: each for key, each in fields.items() if key not in used}
        metrics = fields.get("modelMetrics")
        for place, (model, fields_of) in enumerate(
            sorted(metrics.items()) if isinstance(metrics, dict) else ()
        ):
            metric = fields_of if isinstance(fields_of, dict) else {}
            requests = metric.get("requests")
            counted = requests if isinstance(requests, dict) else {"count": requests}
            cost = counted.get("cost")
            usage = tokens(metric.get("usage")) or token_details(metric.get("tokenDetails"))
            spent = Spent(
                key=f"{self.out.run}/{self._key}/{model}",
                model=model,
                usage=usage or None,
                credits=cost if isinstance(cost, int | float) else None,
                calls=count(counted.get("count")),
                group=self._group,
                whole=bool(usage),  # a total without tokens replaces none that are known
            )
            self._write(spent, n=1 + place)
        ended = Ended(what="run", outcome=outcome, passed=passed, reason=word(fields.get("error")))
        self._write(ended, extra, n=0)


GIT = ("cwd", "branch", "headCommit", "repository")
THOUGHT = ("content", "reasoningId")
SUB = ("toolCallId", "agentName", "model", "durationMs", "totalTokens", "totalToolCalls", "error")
MEANINGS: dict[str, Callable[[CopilotReader, dict[str, Any]], None]] = {
    "session.start": CopilotReader._begin,
    "session.resume": CopilotReader._begin,
    "user.message": CopilotReader._user,
    "system.message": CopilotReader._system,
    "assistant.turn_start": CopilotReader._turn_start,
    "assistant.turn_end": CopilotReader._turn_end,
    "assistant.message": CopilotReader._message,
    "assistant.reasoning": CopilotReader._reason,
    "abort": CopilotReader._abort,
    "tool.execution_start": CopilotReader._start,
    "tool.execution_complete": CopilotReader._complete,
    "subagent.started": CopilotReader._sub_begin,
    "subagent.completed": lambda reader, fields: reader._sub_end(fields, passed=True),
    "subagent.failed": lambda reader, fields: reader._sub_end(fields, passed=False),
    "permission.requested": CopilotReader._ask,
    "permission.completed": CopilotReader._answer,
    "session.handoff": CopilotReader._hand_off,
    "session.snapshot_rewind": CopilotReader._rewound,
    "session.model_change": CopilotReader._model_change,
    "session.shutdown": CopilotReader._shut_down,
}


def _data(value: Any) -> dict[str, Any]:
    fields = value.get("data") if isinstance(value, dict) else None
    return fields if isinstance(fields, dict) else {}


def _text(value: Any) -> bool:
    return bool(value) and (
        isinstance(value, str) or (isinstance(value, dict) and "$blob" in value)
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


importer = Importer(
    name=NAME,
    about="Copilot CLI: ~/.copilot/session-state.",
    mapping="3",
    reader=CopilotReader,
    recognise=recognise,
    find=find,
    proven="real, cleaned sessions of 1.0",
)
