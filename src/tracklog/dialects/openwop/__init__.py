"""openwop: a host's log of its workflow runs, and of the agents that act in them.

Decisions, tool calls, handoffs and reasoning stand beside the lifecycle of runs and nodes.
"""

from collections.abc import Iterator
from typing import Any

from tracklog.dialects import Dialect, Policy, extras, number, share, text
from tracklog.dialects.openwop.catalog import PUBLISHED_ONLY_CLASSES, TYPES
from tracklog.dialects.openwop.manifest import AgentManifest
from tracklog.dialects.openwop.rules import rest, rules
from tracklog.dialects.openwop.shapes import KINDS, OpenwopEnvelope
from tracklog.dialects.openwop.spelling import (
    TURNS,
    actor_of,
    agent_of,
    first,
    hands,
    message_of,
    node_of,
    payload_of,
    slots,
    turn_of,
)
from tracklog.dialects.openwop.state import finding
from tracklog.dialects.openwop.writing import carries, write
from tracklog.model.event import Body, Envelope, Event, Finding
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Block,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    Moved,
    Noted,
    Returned,
    Role,
    Said,
    Spent,
)

ENVELOPE = ("eventId", "runId", "type", ("sequence", "seq"), ("payload", "data"))


def claim(body: Body) -> float:
    kind, ours = body.get("type"), "eventId" in body and "runId" in body
    # Other dialects have a type run.started too; only here the ids have these names.
    return share(body, ENVELOPE, ours and isinstance(kind, str) and kind in TYPES)


def read(body: Body) -> Envelope:
    get = body.get
    return (
        get("runId", ""),
        get("type", ""),
        get("timestamp"),
        get("eventId"),
        actor_of(payload_of(body)),
        get("causationId"),
        None,
    )


def tolerate(body: Body) -> tuple[Body, list[Finding]]:
    """Read deviations of real hosts as the contract has them, with a finding for each."""
    tolerated, odd = dict(body), []
    for written, meant in (("seq", "sequence"), ("data", "payload")):
        if written in tolerated and meant not in tolerated:
            tolerated[meant] = tolerated.pop(written)
            odd.append(f"{written} is read as {meant}")
    if tolerated.get("nodeId", "") is None:
        del tolerated["nodeId"]
        odd.append("nodeId: null is read as absent")
    kind = tolerated.get("type")
    if isinstance(kind, str) and kind in KINDS and tolerated.get("payload", 0) is None:
        tolerated["payload"] = {}
        odd.append("payload: null is read as an empty object")
    payload = tolerated.get("payload")
    if isinstance(kind, str) and isinstance(payload, dict):
        tolerated["payload"] = payload = dict(payload)
        odd += _tolerated(kind, tolerated, payload)
    findings = [finding("tolerated-envelope", message) for message in odd]
    if isinstance(kind, str) and isinstance(payload, dict):
        findings += _drop_classes(kind, payload)
    return (tolerated, findings) if findings else (body, [])


def _tolerated(kind: str, body: Body, payload: Body) -> Iterator[str]:
    if kind == "node.failed" and isinstance(payload.get("error"), str):
        payload["error"] = {"code": "node_failed", "message": payload["error"]}
        yield "error: a string is read as the message of an error object"
    node = node_of(body)
    if kind == "node.suspended" and node is not None:
        if "nodeId" not in payload:
            payload["nodeId"] = node
            yield "payload.nodeId is taken from the envelope"
        if "interruptId" not in payload:
            payload["interruptId"] = f"int:{payload.get('key') or node}"
            yield "interruptId is made from the key, or from the node"


def _drop_classes(kind: str, payload: Body) -> Iterator[Finding]:
    """Drop model classes that only the published schema has: they have no meaning here."""
    turn = turn_of(kind, payload)
    if turn is not None:
        payload[TURNS[kind]] = dict(turn)
    for holder, slot in slots(kind, payload):
        ref = holder[slot]
        word = ref.get("modelClass")
        if isinstance(word, str) and word in PUBLISHED_ONLY_CLASSES:
            holder[slot] = {key: value for key, value in ref.items() if key != "modelClass"}
            yield finding("published-model-class", f"{slot}: {word} is no model class of the RFC")


def facts(event: Event) -> Iterator[Fact]:
    body, payload = event.body, payload_of(event.body)
    step, agent = node_of(body), actor_of(payload)
    match event.kind:
        case "run.started":
            yield Began(what="run", task=payload["workflowId"])
        case "node.started":
            yield Began(what="step", step=step, agent=agent)
        case "run.completed" | "run.failed" | "run.cancelled":
            yield from _ended(event.kind, payload)
        case "node.completed" | "node.failed" | "node.cancelled":
            yield _end_of_node(event.kind, payload, step, agent)
        case "node.suspended":
            yield Moved(
                agent=agent,
                step=step,
                from_="running",
                to="suspended",
                phase="waiting",
                reason=payload.get("reason") or payload.get("kind"),
            )
        case "node.resumed":
            yield Moved(agent=agent, step=step, from_="suspended", to="running", phase="working")
        case "agent.toolCalled":
            yield Called(
                agent=agent,
                step=step,
                tool=first(payload, "toolId", "toolName"),
                call_id=payload["callId"],
                input=first(payload, "arguments", "inputs"),
            )
        case "agent.toolReturned":
            yield _returned(payload, step, agent)
        case "agent.reasoned":
            reasoning = first(payload, "reasoning", "trace", "summary")
            thought = {"type": "thinking", "thinking": reasoning}
            yield Said(agent=agent, step=step, role="thought", blocks=(thought,))
        case "conversation.opened" | "conversation.exchanged" | "conversation.closed":
            turn = turn_of(event.kind, payload)
            yield _noted(event, step, agent) if turn is None else _message(turn, step)
        case "channel.written":
            message = message_of(payload)
            yield _noted(event, step, agent) if message is None else _message(message, step)
        case "agent.decided" | "runOrchestrator.decided":
            yield _decided(event.kind, payload, step, agent)
        case "interrupt.requested":
            yield _asked(payload, step, agent)
        case "interrupt.resolved":
            yield Answered(
                step=step,
                question_id=_question(step, payload["interruptId"], "int:"),
                answer=payload.get("resumeValue"),
            )
        case "agent.handoff":
            giver, taker = hands(payload)
            yield Linked(
                agent=giver,
                step=step,
                kind="handoff",
                from_=giver,
                to=taker,
                reason=payload.get("reason"),
                context=payload.get("context"),
            )
        case "node.dispatched":
            yield Linked(
                step=step,
                kind="sub-run",
                child=payload["childRunId"],
                context={"workflowId": payload["childWorkflowId"]},
            )
        case "provider.usage":
            yield _spent(payload, step)
        case _:
            yield _noted(event, step, agent)
    yield from extras(body, agent)


def _ended(kind: str, payload: Body) -> Iterator[Fact]:
    outcome = kind.removeprefix("run.")
    yield Ended(
        what="run",
        outcome=outcome,
        passed={"completed": True, "failed": False}.get(outcome),
        reason=payload.get("reason"),
        error=payload.get("error"),
        seconds=_seconds(payload),
    )
    if "parentRunId" in payload:
        yield Linked(kind="sub-run", parent=payload["parentRunId"])


def _end_of_node(kind: str, payload: Body, step: str | None, agent: str | None) -> Ended:
    outcome = kind.removeprefix("node.")
    return Ended(
        what="step",
        agent=agent,
        step=step,
        outcome=outcome,
        passed={"completed": True, "failed": False}.get(outcome),
        reason=payload.get("reason"),
        error=payload.get("error"),
        seconds=_seconds(payload),
    )


def _seconds(payload: Body) -> float | None:
    length = number(payload.get("durationMs"))
    return None if length is None else length / 1000


def _returned(payload: Body, step: str | None, agent: str | None) -> Returned:
    status = payload.get("status")
    return Returned(
        agent=agent,
        step=step,
        call_id=payload["callId"],
        tool=first(payload, "toolId", "toolName"),
        ok="error" not in payload and status in (None, "ok"),
        output=first(payload, "result", "outcome"),
        error=payload.get("error"),
        status=status,
        seconds=_seconds(payload),
    )


def _message(message: Body, step: str | None) -> Said:
    """A message or a turn; its author is the agent, unless it is a person or the system."""
    roles: dict[Any, Role] = {"user": "user", "agent": "assistant", "system": "system"}
    speaker = message["from"]
    role = roles.get(text(message.get("role")), "user" if speaker == "user" else "assistant")
    return Said(
        agent=agent_of(message.get("agent")) or (speaker if role == "assistant" else None),
        step=step,
        role=role,
        blocks=_blocks(message["content"]),
        message_id=message["messageId"],
        to=text(message.get("to")),
    )


def _blocks(content: Any) -> tuple[Block, ...]:
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    return ({"type": "stream", "chunk": content, "provider_type": "json"},)


def _decided(kind: str, payload: Body, step: str | None, agent: str | None) -> Decided:
    decision = payload["decision"]
    if kind == "agent.decided":
        return Decided(
            agent=agent,
            step=step,
            by=agent,
            verdict=decision,
            confidence=payload.get("confidence"),
            reason=payload.get("reasoning"),
        )
    return Decided(
        agent=agent,
        step=step,
        by=agent,
        name="runOrchestrator",
        verdict=decision,
        confidence=decision.get("confidence"),
        reason=decision.get("reason"),
    )


def _asked(payload: Body, step: str | None, agent: str | None) -> Asked:
    asked = payload["data"]
    questions = asked.get("questions", [])
    words = [each["question"] for each in questions] or [
        asked[key] for key in ("title", "prompt", "initialPrompt", "reason") if key in asked
    ]
    return Asked(
        agent=agent or text(asked.get("agentId")),
        step=step,
        question_id=_question(step, payload["key"]),
        what=payload["kind"],
        text="\n".join(words) or None,
        options=tuple(asked["actions"]) if "actions" in asked else None,
        schema=payload.get("resumeSchema"),
    )


def _question(node: str | None, word: str, prefix: str = "") -> str:
    """One id for a question and its answer: the interrupt's own, if both sides can know it.

    An interrupt is requested by its key and resolved by its id. Where a host derives the id from
    the key, as int:<key>, both are the same; elsewhere the node stands for its one open interrupt.
    """
    if node is None or word.startswith(f"{prefix}{node}:"):
        return f"int:{word.removeprefix(prefix)}"
    return node


def _spent(payload: Body, step: str | None) -> Spent:
    names = {
        "inputTokens": "input_tokens",
        "cacheReadTokens": "cached_tokens",
        "cacheWriteTokens": "cache_write_tokens",
        "outputTokens": "output_tokens",
        "totalTokens": "total_tokens",
    }
    dollars = payload.get("currency", "USD") == "USD"
    return Spent(
        step=step,
        # A cached reply repeats the figures of the call that was paid for.
        copied=payload.get("cacheHit") is True,
        provider=payload["provider"],
        model=payload["model"],
        usage={ours: payload[theirs] for theirs, ours in names.items() if theirs in payload},
        cost_usd=payload.get("costEstimateUsd") if dollars else None,
    )


def _noted(event: Event, step: str | None, agent: str | None) -> Noted:
    payload = event.body["payload"]
    word = first(payload, "message", "delta") if isinstance(payload, dict) else payload
    return Noted(
        agent=agent, step=step, label=event.kind, kind=event.kind, text=text(word), data=payload
    )


dialect = Dialect(
    name="openwop",
    about="A host's log of its workflow runs, and of the agents that act in them.",
    policy=Policy(kinds="open", fields="open", identity="refuse", reused="event-id-reused"),
    kind_key="type",
    kinds=KINDS,
    frame=OpenwopEnvelope,
    claim=claim,
    read=read,
    facts=facts,
    rules=rules,
    rest=rest,
    tolerate=tolerate,
    write=write,
    carries=carries,
    contract="openwop",
    documents={"agent_manifest": AgentManifest},
)
