"""Copilot CLI: the events of its sessions."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tracklog.formats.importers import (
    LONG,
    Importer,
    Raw,
    Reader,
    count,
    moment,
    remember,
    run_id,
    seconds,
    word,
)
from tracklog.formats.importers.copilot.files import find, recognise, session_of
from tracklog.formats.providers import input_of
from tracklog.formats.providers.copilot import return_of, thought_of, tokens
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
        told = _data(raw.value)
        if isinstance(raw.value, dict) and raw.value.get("type") == "session.start":
            return run_id(NAME, word(told.get("sessionId")) or self.source.path.stem)
        return None

    def record(self, raw: Raw) -> None:
        event = raw.value
        kind = word(event.get("type")) if isinstance(event, dict) else None
        if not kind or not isinstance(event.get("data"), dict):
            bare = not isinstance(event, dict) or not (event.get("timestamp") or event.get("id"))
            self.tell.unknown(kind or "record", self.tell.about(raw, bare=bare))
            return
        key = word(event.get("id"))
        bare = key is None and not event.get("timestamp")
        value = self.tell.about(raw, key=key, bare=bare)
        told = value["data"]
        self._at = moment(value.get("timestamp"))
        self._key = key or self.tell.mark()["hash"][:16]
        self._cause = word(value.get("parentId"))
        self._agent = word(value.get("agentId"))
        self._run = self._run_of(told)
        if kind in PIECES or value.get("ephemeral") is True:
            self.tell.report.ignored[f"{kind}: told whole elsewhere"] += 1
        elif kind in NOTED:
            self.tell.report.mapped[kind] += 1
            self._note(kind, told)
        elif kind in MEANINGS:
            self.tell.report.mapped[kind] += 1
            MEANINGS[kind](self, told)
        else:
            self.tell.unknown(kind, told, at=self._at, run=self._run, cause=self._cause)

    def finish(self) -> None:
        """Write the chunks of messages that never came complete."""
        for id, chunk in self.state.get("chunks", {}).items():
            self.tell.again(chunk["mark"])
            self._at, self._run = chunk["at"], chunk["run"]
            self._cause = self._agent = None
            # Another position than that of the complete message, which may still come.
            place = 1000 * (1 + len(chunk["parts"]))
            self._say(chunk["told"], id, "".join(chunk["parts"]), place)

    def _run_of(self, told: dict[str, Any]) -> str | None:
        """The run of a sub-agent, for its calls and messages; None: the run of the session."""
        parent = word(told.get("parentToolCallId"))
        subs: dict[str, str] = self.state.get("subs", {})
        return subs.get(parent or "")

    def _tell(self, fact: Fact, extra: dict[str, Any] | None = None, **more: Any) -> None:
        more.setdefault("run", self._run)
        self.tell.tell(fact, at=self._at, cause=self._cause, extra=extra or None, **more)

    def _begin(self, told: dict[str, Any]) -> None:
        self.state["segment"] = self.state.get("segment", 0) + 1
        native = word(told.get("sessionId"))
        place = told.get("context")
        place = place if isinstance(place, dict) else {}
        git = {
            ours: word(place.get(theirs))
            for ours, theirs in (
                ("branch", "branch"), ("commit", "headCommit"), ("repository", "repository"),
            )
            if word(place.get(theirs))
        }  # fmt: skip
        version = word(told.get("copilotVersion"))
        software = {"name": word(told.get("producer")) or "copilot-cli"}
        self.state["model"] = word(told.get("selectedModel")) or self.state.get("model")
        began = Began(
            what="run",
            model=word(told.get("selectedModel")),
            software=software | ({"version": version} if version else {}),
            cwd=word(place.get("cwd")),
            git=git or None,
        )
        extra = {key: each for key, each in told.items() if key not in START}
        if rest := {key: each for key, each in place.items() if key not in GIT}:
            extra["context"] = rest
        self._tell(began, extra)
        for alias in {native, session_of(self.source.path)} - {None, self.state.get("alias")}:
            self.state["alias"] = alias
            self._tell(Linked(kind="alias", system=NAME, alias=alias))

    def _user(self, told: dict[str, Any]) -> None:
        blocks = [{"type": "text", "text": told["content"]}] if _text(told.get("content")) else []
        blocks += [_kept("attachment", each) for each in _listed(told.get("attachments"))]
        aside = ["content", "attachments"]
        if told.get("transformedContent") == told.get("content"):
            aside.append("transformedContent")
        extra = {key: each for key, each in told.items() if key not in aside}
        injected = word(told.get("source")) not in (None, "user")
        said = Said(role="user", blocks=tuple(blocks), injected=injected, agent=self._agent)
        self._tell(said, extra)

    def _system(self, told: dict[str, Any]) -> None:
        text = told.get("content")
        blocks = [{"type": "text", "text": text}] if _text(text) else [_kept("system", told)]
        extra = {key: each for key, each in told.items() if key != "content"}
        self._tell(Said(role="system", blocks=tuple(blocks)), extra)

    def _turn_start(self, told: dict[str, Any]) -> None:
        self.state["turn"] = step = str(told.get("turnId", ""))
        extra = {key: each for key, each in told.items() if key != "turnId"}
        self._tell(Began(what="step", step=step, agent=self._agent), extra)

    def _turn_end(self, told: dict[str, Any]) -> None:
        step = str(told.get("turnId", self.state.get("turn", "")))
        self.state.pop("turn", None)
        extra = {key: each for key, each in told.items() if key != "turnId"}
        self._tell(Ended(what="step", step=step, agent=self._agent), extra)

    def _abort(self, told: dict[str, Any]) -> None:
        step = self.state.pop("turn", None)
        reason = word(told.get("reason"))
        self._tell(Ended(what="step", step=step, outcome="abort", reason=reason))

    @property
    def _step(self) -> str | None:
        step: str | None = self.state.get("turn")
        return step

    def _message(self, told: dict[str, Any]) -> None:
        id = word(told.get("messageId"))
        text, chunks = told.get("content"), count(told.get("chunkCount"))
        text = text if _text(text) else ""
        if id and chunks and chunks > 1 and isinstance(text, str):
            self._chunk(told, id, text, chunks)
        else:
            self._say(told, id, text)

    def _chunk(self, told: dict[str, Any], id: str, text: str, chunks: int) -> None:
        """The chunks of one message are one message, written for its first record."""
        waiting = self.state.setdefault("chunks", {})
        mark = {"mark": self.tell.mark(), "at": self._at, "run": self._run, "told": told}
        known = waiting.setdefault(id, {**mark, "parts": []})
        known["parts"].append(text)
        known["told"] = {**known["told"], **told}
        if len(known["parts"]) >= chunks:
            del waiting[id]
            self.tell.again(known["mark"])
            self._at, self._run = known["at"], known["run"]
            self._say(known["told"], id, "".join(known["parts"]))

    def _say(self, told: dict[str, Any], id: str | None, text: Any, n: int = 0) -> None:
        model = word(told.get("model")) or self.state.get("model")
        thought = thought_of(told)
        blocks = [thought] if thought else []
        if thought and "opaque" in thought:
            self.tell.report.opaque["reasoning"] += 1
        if text:
            blocks.append({"type": "text", "text": text})
        step = word(told.get("turnId")) or self._step
        requests = [each for each in _listed(told.get("toolRequests")) if isinstance(each, dict)]
        extra = {key: each for key, each in told.items() if key not in MESSAGE}
        if blocks or not requests:
            said = Said(
                role="assistant",
                blocks=tuple(blocks),
                message_id=id,
                model=model,
                step=step,
                agent=self._agent,
            )
            self._tell(said, extra, n=n)
        for place, request in enumerate(requests):
            fallback = f"{id or self._key}/{place}"
            self._call(request, word(request.get("name")), told, fallback, n + 1 + place)
        output = count(told.get("outputTokens"))
        if output is not None:
            spent = Spent(
                key=id or f"{self.tell.run}/{self._key}",
                model=model,
                usage={"output_tokens": output},
                calls=1,
                group=self._group,
                bound="lower",
                agent=self._agent,
            )
            # The totals of the segment include those of its sub-agents, so all are counted for one
            # run.
            self._tell(spent, run=None, n=n + 1 + len(requests))

    @property
    def _group(self) -> str:
        return f"{self.tell.run}/{max(1, self.state.get('segment', 1))}"

    def _reason(self, told: dict[str, Any]) -> None:
        text = told.get("content")
        block = {"type": "thinking", "thinking": text if _text(text) else ""}
        id = word(told.get("reasoningId"))
        said = Said(role="assistant", blocks=(block,), message_id=id, step=self._step)
        self._tell(said, {key: each for key, each in told.items() if key not in THOUGHT})

    def _call(
        self,
        told: dict[str, Any],
        tool: str | None,
        around: dict[str, Any],
        fallback: str,
        n: int,
    ) -> None:
        """A call is written for its request or for its start, whichever comes first."""
        id = word(told.get("toolCallId"))
        known = self.state.setdefault("called", {})
        server = word(told.get("mcpServerName"))
        if id and id in known and (not server or known[id]):
            return
        remember(known, id or fallback, bool(server), LONG)
        parent = word(told.get("parentToolCallId")) or word(around.get("parentToolCallId"))
        called = Called(
            tool=tool or "unknown",
            call_id=id or fallback,
            input=input_of(told.get("arguments")),
            parent_call_id=parent,
            tool_server=server,
            synthetic_id=id is None,
            step=self._step,
            agent=self._agent,
        )
        extra = {key: each for key, each in told.items() if key not in CALL}
        self._tell(called, extra, n=n)

    def _start(self, told: dict[str, Any]) -> None:
        if id := word(told.get("toolCallId")):
            remember(self.state.setdefault("starts", {}), id, self._at)
        self._call(told, word(told.get("toolName")), {}, str(self._key), 0)

    def _complete(self, told: dict[str, Any]) -> None:
        id = word(told.get("toolCallId"))
        began = self.state.get("starts", {}).pop(id, None)
        result, error = told.get("result"), told.get("error")
        found = return_of(told)
        back = Returned(
            call_id=id or f"{self._key}/0",
            tool=word(told.get("toolName")),
            ok=None if found.wrong is None else not found.wrong,
            output=found.output,
            error=found.error,
            seconds=_between(began, self._at),
            synthetic_id=id is None,
            step=self._step,
            agent=self._agent,
        )
        extra = {key: each for key, each in told.items() if key not in RESULT}
        inner = result if isinstance(result, dict) else {}
        if rest := {key: each for key, each in inner.items() if key != "content"}:
            extra["result"] = rest
        if isinstance(error, dict):
            extra["error"] = error
        self._tell(back, extra)

    def _sub_begin(self, told: dict[str, Any]) -> None:
        call = word(told.get("toolCallId")) or str(self._key)
        child = run_id(NAME, self.tell.run, call)
        remember(self.state.setdefault("subs", {}), call, child, LONG)
        self._tell(Linked(kind="sub-run", child=child, call_id=call))
        began = Began(what="run", agent=word(told.get("agentName")), model=word(told.get("model")))
        self._tell(began, {key: each for key, each in told.items() if key not in SUB}, run=child)
        self._tell(Linked(kind="sub-run", parent=self.tell.run, call_id=call), run=child)

    def _sub_end(self, told: dict[str, Any], passed: bool) -> None:
        call = word(told.get("toolCallId")) or ""
        child = self.state.get("subs", {}).get(call) or run_id(NAME, self.tell.run, call)
        ended = Ended(
            what="run",
            agent=word(told.get("agentName")),
            passed=passed,
            outcome="completed" if passed else "failed",
            error=told.get("error"),
            seconds=seconds(told.get("durationMs"), 1000),
        )
        self._tell(ended, {key: each for key, each in told.items() if key not in SUB}, run=child)
        totals = {key: told[key] for key in ("totalTokens", "totalToolCalls") if key in told}
        if totals:
            self._tell(Noted(label="totals", kind="subagent", data=totals), run=child)

    def _ask(self, told: dict[str, Any]) -> None:
        request = told.get("permissionRequest")
        request = request if isinstance(request, dict) else told
        question = word(told.get("requestId")) or str(self._key)
        asked = Asked(
            question_id=question,
            what="permission",
            text=word(request.get("intention")) or word(request.get("message"))
            or word(request.get("kind")),
            call_id=word(request.get("toolCallId")) or word(told.get("toolCallId")),
        )  # fmt: skip
        self.state["question"] = question
        self._tell(asked, told)

    def _answer(self, told: dict[str, Any]) -> None:
        question = word(told.get("requestId")) or self.state.get("question") or str(self._key)
        answer = told.get("result", told.get("decision", told))
        self._tell(Answered(question_id=question, answer=answer))

    def _hand_off(self, told: dict[str, Any]) -> None:
        other = word(told.get("remoteSessionId"))
        if other:
            reason = word(told.get("sourceType"))
            self._tell(Linked(kind="related", other=other, reason=reason, context=told))
        else:
            self._tell(Noted(label="session.handoff", kind="session.handoff", data=told))

    def _rewound(self, told: dict[str, Any]) -> None:
        data = {"from": told.get("upToEventId"), **told}
        self._tell(Noted(label="withdrawn", kind="session.snapshot_rewind", data=data))

    def _model_change(self, told: dict[str, Any]) -> None:
        new = word(told.get("newModel")) or word(told.get("model"))
        old = word(told.get("previousModel")) or self.state.get("model")
        self.state["model"] = new or old
        data = {**told, "from": old, "to": new}
        self._tell(Noted(label="model-change", kind="session.model_change", data=data))

    def _note(self, kind: str, told: dict[str, Any]) -> None:
        label = NOTED[kind]
        text = word(told.get("message")) or word(told.get("summary")) or word(told.get("title"))
        data = dict(told)
        if kind == "session.mode_changed":
            data |= {"from": told.get("previousMode"), "to": told.get("newMode")}
        elif kind == "session.auto_mode_resolved":
            data |= {"to": told.get("chosenModel")}
        elif label == "compaction":
            before = told.get("preCompactionTokens", told.get("preTruncationTokensInMessages"))
            after = told.get("postCompactionTokens", told.get("postTruncationTokensInMessages"))
            summary = told.get("summaryContent")
            known = {"trigger": kind, "before": before, "after": after, "summary": summary}
            data |= {key: each for key, each in known.items() if each is not None}
        self._tell(Noted(label=label, kind=kind, text=text, data=data))

    def _shut_down(self, told: dict[str, Any]) -> None:
        """The totals of a segment; the messages of the segment are not added to them."""
        outcome = word(told.get("shutdownType"))
        passed = False if outcome == "error" else None
        aside = ("modelMetrics", "shutdownType")
        extra = {key: each for key, each in told.items() if key not in aside}
        metrics = told.get("modelMetrics")
        for place, (model, told_of) in enumerate(
            sorted(metrics.items()) if isinstance(metrics, dict) else ()
        ):
            metric = told_of if isinstance(told_of, dict) else {}
            requests = metric.get("requests")
            counted = requests if isinstance(requests, dict) else {"count": requests}
            cost = counted.get("cost")
            spent = Spent(
                key=f"{self.tell.run}/{self._key}/{model}",
                model=model,
                usage=tokens(metric.get("usage")) or None,
                credits=cost if isinstance(cost, int | float) else None,
                calls=count(counted.get("count")),
                group=self._group,
                whole=True,
            )
            self._tell(spent, n=1 + place)
        ended = Ended(what="run", outcome=outcome, passed=passed, reason=word(told.get("error")))
        self._tell(ended, extra, n=0)


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
    "subagent.completed": lambda reader, told: reader._sub_end(told, passed=True),
    "subagent.failed": lambda reader, told: reader._sub_end(told, passed=False),
    "permission.requested": CopilotReader._ask,
    "permission.completed": CopilotReader._answer,
    "session.handoff": CopilotReader._hand_off,
    "session.snapshot_rewind": CopilotReader._rewound,
    "session.model_change": CopilotReader._model_change,
    "session.shutdown": CopilotReader._shut_down,
}


def _data(value: Any) -> dict[str, Any]:
    told = value.get("data") if isinstance(value, dict) else None
    return told if isinstance(told, dict) else {}


def _text(value: Any) -> bool:
    return bool(value) and (
        isinstance(value, str) or (isinstance(value, dict) and "$blob" in value)
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _kept(kind: str, value: Any) -> dict[str, Any]:
    return {"type": "stream", "provider_type": kind, "chunk": value}


def _between(began: str | None, ended: str | None) -> float | None:
    if not began or not ended:
        return None
    try:
        spent = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    except ValueError:
        return None
    return max(0.0, spent.total_seconds())


importer = Importer(
    name=NAME,
    about="Copilot CLI: ~/.copilot/session-state.",
    mapping="1",
    reader=CopilotReader,
    recognise=recognise,
    find=find,
    proven="real sessions of 1.0, cleaned",
)
