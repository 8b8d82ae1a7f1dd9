"""A host with a supervisor, workers in runs of their own, and a gate that a person must open."""

from collections.abc import Iterator
from random import Random
from typing import Any

from tracklog.demo import DemoLine
from tracklog.journal.frame import stamp

_SUPERVISOR = "core.newsroom.supervisor"
_WRITER = "vendor.acme.newsroom.writer"
_CHECKER = "vendor.acme.newsroom.checker"
GATE = "newsletter-46"
_ASKED = 14  # the lines that an issue has before a person is asked


class _InventedHost:
    """One run of a host, in order."""

    def __init__(self, run: str, at: float, sequence: int = 0) -> None:
        self.run, self.at, self.sequence = run, at, sequence

    def say(self, kind: str, payload: dict[str, Any], node: str = "", **more: Any) -> DemoLine:
        name = f"{self.run}/{self.sequence}"
        body = {
            "eventId": name,
            "runId": self.run,
            "sequence": self.sequence,
            "timestamp": stamp(self.at),
            "type": kind,
            **({"nodeId": node} if node else {}),
            **more,
            "payload": payload,
            "schemaVersion": 1,
            "engineVersion": "1",
        }
        self.sequence += 1
        self.at += 0.7
        return DemoLine(self.at, body)

    def began(self, workflow: str, **inputs: str) -> DemoLine:
        return self.say("run.started", {"workflowId": workflow, "inputs": inputs})

    def node(self, node: str, kind: str, agent: str = "") -> DemoLine:
        who = {"agent": {"agentId": agent, "modelClass": "reasoning"}} if agent else {}
        return self.say("node.started", {"nodeId": node, "typeId": kind, "attempt": 0, **who}, node)

    def done(self, node: str, **outputs: Any) -> DemoLine:
        return self.say("node.completed", {"nodeId": node, "outputs": outputs}, node)


def _thinks(
    host: _InventedHost, node: str, agent: str, words: str, draw: Random
) -> Iterator[DemoLine]:
    host.at += draw.uniform(1, 4)
    yield host.say("agent.reasoned", {"agentId": agent, "reasoning": words}, node)
    tokens = {"inputTokens": draw.randint(900, 6_000), "outputTokens": draw.randint(60, 700)}
    cost = tokens["inputTokens"] * 3e-6 + tokens["outputTokens"] * 15e-6
    spent = {"provider": "anthropic", "model": "claude-sonnet-4-5", **tokens}
    yield host.say("provider.usage", {**spent, "costEstimateUsd": round(cost, 6)}, node)


def _calls(
    host: _InventedHost, node: str, agent: str, tool: str, given: Any, output: Any
) -> Iterator[DemoLine]:
    call = {"agentId": agent, "toolId": tool, "toolName": tool, "callId": f"{node}:{host.sequence}"}
    cause = f"{host.run}/{host.sequence}"
    yield host.say("agent.toolCalled", {**call, "arguments": given}, node)
    host.at += 0.9
    status = "error" if output is None else "ok"
    end = (
        {"error": {"error": "upstream", "code": "upstream", "message": "502"}}
        if output is None
        else {"result": output}
    )
    yield host.say("agent.toolReturned", {**call, "status": status, **end}, node, causationId=cause)


def _worker(run: str, at: float, draw: Random, topic: str) -> Iterator[DemoLine]:
    host = _InventedHost(run, at)
    yield host.began("write-section", topic=topic)
    yield host.node("write", "core.agent", _WRITER)
    words = f"Two sources speak of {topic}; the second one is newer, so it leads."
    yield from _thinks(host, "write", _WRITER, words, draw)
    result = None if draw.random() < 0.2 else {"hits": draw.randint(2, 9)}
    yield from _calls(host, "write", _WRITER, "news:search", {"q": topic}, result)
    handoff: dict[str, Any] = {
        "from": {"agentId": _WRITER},
        "to": {"agentId": _CHECKER},
        "reason": "check facts",
    }
    handoff |= {"fromAgentId": _WRITER, "toAgentId": _CHECKER}
    yield host.say("agent.handoff", handoff, "write")
    yield from _thinks(host, "write", _CHECKER, "All three numbers match the source.", draw)
    verdict = {"agentId": _CHECKER, "decision": "publish", "confidence": 0.91}
    yield host.say("agent.decided", verdict, "write")
    yield host.done("write", words=draw.randint(180, 420))
    yield host.say("run.completed", {"outputs": {"section": topic}})


def _issue(run: str, at: float, draw: Random, topics: tuple[str, ...]) -> Iterator[DemoLine]:
    host = _InventedHost(run, at)
    yield host.began("newsletter", issue=run.split("-")[1])
    yield host.node("plan", "core.orchestrator.supervisor", _SUPERVISOR)
    words = f"{len(topics)} sections, one worker each, then a person reads it."
    yield from _thinks(host, "plan", _SUPERVISOR, words, draw)
    chosen = {"kind": "next-worker", "nextWorkerIds": list(topics)}
    decided = {"agentId": _SUPERVISOR, "decision": chosen}
    yield host.say("runOrchestrator.decided", decided, "plan")
    yield host.done("plan", decision="next-worker")
    yield host.node("dispatch", "core.dispatch")
    for n, topic in enumerate(topics):
        child = {"childRunId": f"{run}-{n + 1}", "childWorkflowId": "write-section"}
        yield host.say("node.dispatched", child, "dispatch")
        yield from _worker(f"{run}-{n + 1}", host.at, draw, topic)
        host.at += 14
    yield host.done("dispatch", children=len(topics))
    yield host.node("gate", "core.approvalGate")
    asked = {
        "artifactId": run,
        "artifactType": "newsletter",
        "title": f"Send {run} to 41,200 readers?",
        "description": "Three sections, 912 words, every number was checked.",
        "actions": ["accept", "reject"],
    }
    asks = {"kind": "approval", "key": f"gate:{run}", "data": asked}
    yield host.say("interrupt.requested", asks, "gate")
    waits = {
        "nodeId": "gate",
        "interruptId": f"int:gate:{run}",
        "kind": "approval",
        "key": asks["key"],
    }
    yield host.say("node.suspended", waits, "gate")


def past(now: float, draw: Random) -> Iterator[DemoLine]:
    topics = ("tram lines", "the new library", "bees on roofs")
    for n, begin in ((44, now - 50_000), (45, now - 21_000)):
        run = f"newsletter-{n}"
        lines = list(_issue(run, begin, draw, topics))
        yield from lines
        yield from _resumed(run, lines[-1].at + 200, {"action": "accept"})
    yield from _issue(GATE, now - 240, draw, topics)
    broken = _InventedHost("import-feeds-12", now - 13_000)
    yield broken.began("import-feeds")
    yield broken.node("fetch", "core.http", _WRITER)
    yield from _calls(broken, "fetch", _WRITER, "http:get", {"url": "/feed.xml"}, None)
    error = {"code": "node_failed", "message": "the feed answered 502 three times"}
    yield broken.say("node.failed", {"nodeId": "fetch", "error": error, "attempts": 3}, "fetch")
    yield broken.say("run.failed", {"error": error, "failedNodeId": "fetch"})


def live(begin: float, cycle: int, draw: Random) -> Iterator[DemoLine]:
    topic = ("night buses", "river water", "school kitchens")[cycle % 3]
    yield from _worker(f"section-live-{cycle + 1:03}", begin + 22, draw, topic)


def reply(run: str, question: str, answer: Any, at: float) -> Iterator[DemoLine]:
    if run == GATE and question:
        yield from _resumed(run, at, answer)


def _resumed(run: str, at: float, answer: Any) -> Iterator[DemoLine]:
    host = _InventedHost(run, at, _ASKED)
    given = answer if isinstance(answer, dict) else {"action": answer}
    resolved = {"nodeId": "gate", "interruptId": f"int:gate:{run}", "kind": "approval"}
    yield host.say("interrupt.resolved", {**resolved, "resumeValue": given}, "gate")
    resumed = {"nodeId": "gate", "interruptId": f"int:gate:{run}", "resumeValue": given}
    yield host.say("node.resumed", resumed, "gate")
    yield host.done("gate", **given)
    yield host.say("run.completed", {"outputs": given})
