"""Run a recorded run again: the recorded answers of models, tools and people, node by node."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tracklog import Body, Log, RecordedAnswer, Tape, TapeMiss
from tracklog.hosts.openwop.definitions import PROMPT, SUPERVISOR, TOOL
from tracklog.hosts.openwop.models import ModelReply
from tracklog.hosts.openwop.runlog import RunLog

PERSON, CHILD = "person", "call"
MODEL_FAILED = "model_failed"
UNSEEN = ("forbidden", "rate_limited")
"""The status of a call that was refused, so that it was never made."""


def recorded_in(events: Iterable[Body]) -> list[RecordedAnswer]:
    """The answers in a run; those of a conversation that broke off are not among them."""
    reader = _AnswerReader()
    for event in events:
        reader.read(event)
    return sorted(reader.found, key=lambda each: each.seq)


def tape_for(journal: Log, log: RunLog) -> Tape | None:
    """The tape of a run, without the answers that the run has used already."""
    named = log.snapshot.host.get("tape")
    if named is None:
        return None
    source = RunLog(named["run"], log.own)
    source.refresh(journal)
    answers: Iterable[RecordedAnswer] = recorded_in(source.events)
    if not source.events:
        answers = journal.recorded_answers(named["run"])
    tape = Tape(answers, by=named["by"], miss=named["miss"])
    for each in recorded_in(log.events):
        if tape.next(each.kind, each.lane) is not None:
            with contextlib.suppress(TapeMiss):
                tape.play(each.kind, each.asked, each.lane)
    return tape


@dataclass(slots=True)
class _RecordedNode:
    """One execution of a node, while its events are read."""

    type: str
    found: list[RecordedAnswer] = field(default_factory=list)
    calls: dict[str, Body] = field(default_factory=dict)
    round: dict[str, Any] | None = None
    """The reply of the model that is being read."""


class _AnswerReader:
    def __init__(self) -> None:
        self.found: list[RecordedAnswer] = []
        self._nodes: dict[str, _RecordedNode] = {}
        self._by: dict[str, str] = {}

    def read(self, event: Body) -> None:
        name, kind, payload = event.get("nodeId"), event["type"], event["payload"]
        if name is None:
            return
        if kind == "node.started":
            self._nodes[name] = _RecordedNode(payload.get("typeId", ""))
        node = self._nodes.get(name)
        if node is None:
            return
        if kind == "interrupt.resolved":
            data = {"value": payload.get("resumeValue"), "by": self._by.pop(name, "default")}
            data |= {"at": payload["resolvedAt"]} if "resolvedAt" in payload else {}
            self._add(PERSON, name, None, data, event)
        elif kind in ("approval.received", "clarification.resolved"):
            by = payload.get("decidedBy", payload.get("answeredBy"))
            self._by[name] = by if isinstance(by, str) else "default"
        elif kind == "node.dispatched":
            self._add(CHILD, name, None, payload["childRunId"], event)
        elif node.type in (PROMPT, TOOL, SUPERVISOR):
            self._in_conversation(name, node, event)

    def _add(self, kind: str, lane: str, asked: Any, answer: Any, event: Body) -> None:
        self.found.append(
            RecordedAnswer(kind=kind, lane=lane, asked=asked, answer=answer, seq=event["sequence"])
        )

    def _in_conversation(self, name: str, node: _RecordedNode, event: Body) -> None:
        kind, payload = event["type"], event["payload"]
        match kind:
            case "agent.reasoning.delta":
                if payload["sequence"] == 0:
                    self._end_round(name, node)
                self._round(node, event).setdefault("chunks", []).append(payload["delta"])
            case "provider.usage":
                if not _is_thinking(node.round):
                    self._end_round(name, node)
                reply = self._round(node, event)
                reply["usage"], reply["hash"] = payload, event.get("promptHash")
            case "agent.reasoned":
                if (node.round or {}).get("calls"):
                    self._end_round(name, node)
                self._round(node, event)["reasoning"] = payload["reasoning"]
            case "agent.toolCalled":
                node.calls[payload["callId"]] = event
                if node.type == PROMPT:
                    call = (payload["callId"], payload["toolId"], payload["arguments"])
                    self._round(node, event)["calls"].append(call)
            case "agent.toolReturned" if payload["callId"] in node.calls:
                self._returned(node, node.calls.pop(payload["callId"]), event)
            case "runOrchestrator.decided" if node.round is not None:  # and a model was asked
                node.round["text"] = orjson.dumps(payload["decision"]).decode()
            case "agent.decided" if not payload.get("ratified"):
                reply = self._round(node, event)
                reply["text"] = str((payload["decision"] or {}).get("text", ""))
                reply["confidence"] = payload.get("confidence")
                self._end_round(name, node)
                self._end(node)
            case "node.retried" if "lastError" not in payload:
                pass  # it broke off: what was answered until then is not served again
            case "node.completed" | "node.failed" | "node.retried":
                error = payload.get("error", payload.get("lastError", {}))
                if error.get("code") == MODEL_FAILED:
                    if not _is_broken_off(node.round):
                        self._end_round(name, node)
                    self._round(node, event)["failed"] = error["message"]
                self._end_round(name, node)
                self._end(node)

    @staticmethod
    def _round(node: _RecordedNode, event: Body) -> dict[str, Any]:
        if node.round is None:
            node.round = {"calls": [], "sequence": event["sequence"]}
        return node.round

    @staticmethod
    def _end_round(name: str, node: _RecordedNode) -> None:
        if node.round is None:
            return
        reply, node.round = node.round, None
        digest = reply.pop("hash", None)
        asked = {"promptHash": digest} if digest else None
        sequence = reply.pop("sequence")
        node.found.append(
            RecordedAnswer(kind="model", lane=name, asked=asked, answer=reply, seq=sequence)
        )

    @staticmethod
    def _returned(node: _RecordedNode, called: Body, event: Body) -> None:
        payload, call = event["payload"], called["payload"]
        if payload.get("status") in UNSEEN:
            return
        tool = payload["toolId"]
        asked = {"tool": tool, "input": call["arguments"]}
        data = {k: payload[k] for k in ("status", "result", "error", "durationMs") if k in payload}
        node.found.append(
            RecordedAnswer(kind="tool", lane=tool, asked=asked, answer=data, seq=event["sequence"])
        )

    def _end(self, node: _RecordedNode) -> None:
        self.found += node.found
        node.found = []


def _is_thinking(data: Mapping[str, Any] | None) -> bool:
    """Whether the reasoning of a model has begun and not ended."""
    return data is not None and "chunks" in data and "reasoning" not in data


def _is_broken_off(data: Mapping[str, Any] | None) -> bool:
    """Whether a model failed in the middle of its reply."""
    return data is not None and "chunks" in data and "usage" not in data and not data["calls"]


def reply_of(recorded: RecordedAnswer) -> ModelReply:
    """The recorded reply of a model, as a reply."""
    answer: Mapping[str, Any] = recorded.answer
    usage = answer.get("usage") or {}
    counts = {key: usage[key] for key in ("inputTokens", "outputTokens") if key in usage}
    return ModelReply(
        text=answer.get("text") or "",
        reasoning=answer.get("reasoning") or "",
        chunks=tuple(answer.get("chunks") or ()),
        failed=answer.get("failed"),
        calls=tuple(_calls(answer.get("calls") or ())),
        confidence=answer.get("confidence"),
        usage=counts,
        provider=usage.get("provider", "tape"),
        model=usage.get("model", "tape"),
    )


def _calls(calls: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    for call in calls:
        if isinstance(call, Mapping):  # of a run of another dialect
            yield call["id"], call["tool"], call["input"]
        else:
            yield call
