"""The rules across the events of a run."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog.dialects import number, text
from tracklog.dialects.openwop.catalog import (
    HOST_ID,
    LOW,
    MANIFEST_ID,
    OWN_TYPE,
    PUBLISHED_KEYS,
    REDUCER,
    RESERVED,
    RFC_ONLY_CLASSES,
    SUPPRESSED,
    TYPES,
)
from tracklog.dialects.openwop.shapes import KINDS
from tracklog.dialects.openwop.spelling import (
    TURNS,
    agent_of,
    first,
    hands,
    message_of,
    node_of,
    payload_of,
    same,
    slots,
    turn_of,
)
from tracklog.model.event import Body, Event, Finding, Level

THRESHOLD = 0.7
TOKENS = 512
TOKEN_BYTES = 4
"""The size of a token is estimated as four bytes of UTF-8; no tokenizer is used."""

LEVELS: Mapping[str, Level] = {
    "sequence-not-increasing": "error",
    "event-after-terminal": "error",
    "second-terminal": "error",
    "sequence-gap": "warning",
    "first-not-run-started": "warning",
    "unknown-causation": "warning",
    "tolerated-envelope": "warning",
    "reserved-type": "warning",
    "undotted-type": "warning",
    "unknown-type": "info",
    "alias-mismatch": "error",
    "retired-field": "error",
    "published-schema": "warning",
    "seed-over-schema": "info",
    "one-spelling-only": "info",
    "return-without-call": "error",
    "tool-causation": "error",
    "result-and-error": "error",
    "neither-result-nor-error": "error",
    "call-not-returned": "warning",
    "tool-id-form": "warning",
    "delta-order": "error",
    "delta-agent": "error",
    "delta-after-close": "error",
    "delta-not-closed": "warning",
    "summary-too-long": "warning",
    "escalation-missing": "error",
    "escalation-duplicate": "error",
    "escalation-not-needed": "warning",
    "escalation-form": "warning",
    "host-id-in-manifest": "error",
    "group-id-missing": "error",
    "version-and-channel": "error",
    "agent-id-form": "warning",
    "published-model-class": "warning",
    "orchestrator-changed": "error",
    "decision-after-terminate": "error",
    "effect-before-decision": "error",
    "not-advertised": "error",
    "secret-shape": "error",
}
"""Every finding of this dialect except those of identity, and its level."""

TERMINAL = ("run.completed", "run.failed", "run.cancelled")
NODE_ENDS = ("node.completed", "node.failed", "node.cancelled", "node.skipped")
SUPERVISOR = "core.orchestrator.supervisor"
SUB_WORKFLOW = "core.subWorkflow"
NEVER_INVOKED = ("forbidden", "rate_limited")
RETIRED = ("summary", "trace", "tokenCount")

SPELLINGS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "agent.toolCalled": (("toolId", "toolName"), ("arguments", "inputs")),
    "agent.toolReturned": (("toolId", "toolName"), ("result", "outcome")),
}
"""Pairs of keys for one value: the RFC's name, then the published schema's."""
TWICE_NAMED = {*SPELLINGS, "agent.handoff"}
OPTIONAL = ("inputs", "outcome")
"""Published names that the published schema itself does not require."""

SECRET = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}"
    r"|\bAIza[0-9A-Za-z_-]{20,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"
    r"|Bearer\s+(?!\[REDACTED:)\S{8,}"
)
SECRET_SIGNS = re.compile(rb"sk-|AIza|eyJ|Bearer|\\u")
"""A line that matches none of these holds no secret of these shapes."""

PUBLISHED_TYPES: Mapping[str, Mapping[str, type]] = {
    "run.started": {"engineVersion": str, "owner": dict, "tags": list, "metadata": dict},
    "approval.requested": {"approversList": list, "requiredApprovals": int},
    "approval.received": {"comment": str, "feedback": str, "refineFeedback": dict},
    "agent.reasoned": {"causationHostId": str},
    "agent.toolCalled": {"causationHostId": str},
    "agent.toolReturned": {"causationHostId": str},
    "agent.handoff": {"causationHostId": str},
    "agent.decided": {"causationHostId": str},
}
"""Keys that only the published schemas have, and their types."""


@dataclass(slots=True)
class _Decision:
    """An agent's decision, and the actions that followed it."""

    agent: str
    confidence: float | None
    threshold: float
    actions: int = 0
    hinted: bool = False
    """Something looks like an escalation, but does not name this decision as its cause."""

    @property
    def low(self) -> bool:
        return self.confidence is not None and self.confidence < self.threshold


@dataclass(slots=True)
class _Block:
    """An open block of reasoning."""

    agent: str
    next: int


@dataclass(slots=True)
class _Node:
    """One execution of a node, from its start to its end."""

    type_id: str | None = None
    acted: set[str] = field(default_factory=set)
    """Agents that have reasoned or called a tool in it."""
    block: _Block | None = None
    closed: bool = False
    """Whether a block of reasoning was closed in it."""
    decision: _Decision | None = None
    """The last one of an agent, until something settles it."""
    directed: bool = False
    """Whether a supervisor has decided in it."""


@dataclass(slots=True)
class State:
    """The state of a run."""

    last: int | None = None
    ended: str | None = None
    heard: dict[str, _Decision | None] = field(default_factory=dict)
    """Every event by its id, and the decision of an agent.decided."""
    nodes: dict[str, _Node] = field(default_factory=dict)
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Open calls: the event and the node of each, by call id."""
    groups: dict[str, str] = field(default_factory=dict)
    """The group of each agent that shares its context with one."""
    known: set[str] = field(default_factory=set)
    """Agent ids whose form was checked."""
    options: Body = field(default_factory=dict)
    supervisor: str | None = None
    directed: bool = False
    terminated: bool = False


Gate = Callable[[Event], list[Finding]]
Rules = Callable[[State | None, Event], tuple[State, list[Finding]]]


def finding(name: str, message: str) -> Finding:
    """A finding of this dialect, with the level of its name."""
    return Finding(name, message, LEVELS[name])


@dataclass(frozen=True, slots=True)
class _Given:
    """Documents of the host that are known beside the log."""

    thresholds: Mapping[str, float] = field(default_factory=dict)
    tokens: int = TOKENS
    verbosity: str = "summary"
    gate: Gate = lambda _event: []


NOTHING_ELSE = _Given()


@dataclass(slots=True)
class _Hearing:
    """One event and the state of its run."""

    given: _Given
    state: State
    event: Event
    payload: Body
    node: str
    found: list[Finding] = field(default_factory=list)

    def find(self, name: str, message: str) -> None:
        self.found.append(finding(name, message))

    def execution(self) -> _Node:
        return self.state.nodes.setdefault(self.node, _Node())


def _judge(given: _Given, state: State | None, event: Event) -> tuple[State, list[Finding]]:
    state = state or State()
    payload = payload_of(event.body)
    now = _Hearing(given, state, event, payload, node_of(event.body) or "")
    _check_order(now)
    if event.kind not in TYPES:
        _check_type(now)
    if event.kind in TWICE_NAMED:
        _check_spelling(now)
    _check_published(now)
    _check_agents(now)
    _check_secrets(now)
    state.heard[str(event.id)] = None
    step = STEPS.get(event.kind)
    if step is not None:
        step(now)
    _check_cause(now)
    if event.kind in NODE_ENDS:
        now.found += _close(state, now.node)
    if event.kind in TERMINAL:
        now.found += [each for name in list(state.nodes) for each in _close(state, name)]
        state.ended = state.ended or event.kind
    return state, now.found + given.gate(event)


def rules(state: State | None, event: Event) -> tuple[State, list[Finding]]:
    return _judge(NOTHING_ELSE, state, event)


def rules_given(manifests: Iterable[Body] = (), discovery: Body | None = None) -> Rules:
    """The rules for a log whose host's manifests or discovery document are known."""
    thresholds = {
        str(manifest.get("agentId")): threshold
        for manifest in manifests
        if (threshold := _share(_at(manifest, "confidence", "defaultThreshold"))) is not None
    }
    known = discovery or {}
    tokens = _advertised(known, "reasoning", "tokenLimit")
    verbosity = text(_advertised(known, "reasoning", "verbosity")) or "summary"
    given = _Given(
        thresholds,
        tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else TOKENS,
        verbosity,
        NOTHING_ELSE.gate if discovery is None else gate(discovery),
    )
    return lambda state, event: _judge(given, state, event)


FLAGS = {
    "agent.reasoned": "reasoningEvents",
    "agent.reasoning.delta": "reasoningEvents",
    "agent.toolCalled": "toolEvents",
    "agent.toolReturned": "toolEvents",
    "agent.handoff": "handoffEvents",
    "agent.decided": "decisionEvents",
}
"""Which flag of a discovery document allows which type."""


def gate(discovery: Body) -> Gate:
    """Findings for events that a host with this discovery document must not write (WOP-75)."""
    supported = _at(discovery, "agents", "supported") is True
    block = _at(discovery, "capabilities", "agents")
    block = block if isinstance(block, dict) else {}

    def allowed(flag: str) -> bool:
        return block[flag] is True if flag in block else supported

    def judge(event: Event) -> list[Finding]:
        flag, kind = FLAGS.get(event.kind), event.kind
        if flag is not None and not allowed(flag):
            return [finding("not-advertised", f"{kind} is written, {flag} is not advertised")]
        if kind == "agent.reasoning.delta" and (
            _advertised(discovery, "reasoning", "streaming") is not True
        ):
            message = "a delta is written, reasoning.streaming is not advertised"
            return [finding("not-advertised", message)]
        if not _advertised(discovery, "memoryBackends"):
            return [
                finding("not-advertised", f"{key} has a memoryRef, no memory is advertised")
                for holder, key in slots(kind, payload_of(event.body))
                if "memoryRef" in holder[key]
            ]
        return []

    return judge


def _advertised(discovery: Body, *path: str) -> Any:
    """A value of the RFC's block, else of the root."""
    value = _at(discovery, "capabilities", "agents", *path)
    return _at(discovery, "agents", *path) if value is None else value


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _share(value: Any) -> float | None:
    """The value if it is a number from 0 to 1."""
    found = number(value)
    return found if found is not None and 0 <= found <= 1 else None


def _check_order(now: _Hearing) -> None:
    state, kind = now.state, now.event.kind
    sequence = int(now.event.body["sequence"])
    if state.last is None and kind != "run.started":
        now.find("first-not-run-started", f"the run begins with {kind}, not run.started")
    elif sequence <= (-1 if state.last is None else state.last):
        message = f"sequence {sequence} after {state.last}"
        now.find("sequence-not-increasing", message)
    elif sequence > (expected := 0 if state.last is None else state.last + 1):
        now.find("sequence-gap", f"sequence {sequence}, where {expected} was next")
    state.last = sequence if state.last is None else max(state.last, sequence)
    if state.ended and kind in TERMINAL:
        now.find("second-terminal", f"{kind} after {state.ended}")
    elif state.ended:
        now.find("event-after-terminal", f"{kind} after {state.ended}")


def _check_type(now: _Hearing) -> None:
    kind = now.event.kind
    if kind.partition(".")[0] in RESERVED and "." in kind:
        message = f"{kind}: the prefix is reserved, and the catalog has no such type"
        now.find("reserved-type", message)
    elif re.fullmatch(OWN_TYPE, kind):
        now.find("unknown-type", f"{kind} is not in the catalog; it is kept and not understood")
    else:
        now.find("undotted-type", f"{kind!r} is no dotted name, such as acme.canvas.published")


def _check_cause(now: _Hearing) -> None:
    cause = now.event.cause
    # The cause of a run may be an event of another run; causationHostId names another host.
    if cause is None or now.event.kind == "run.started" or "causationHostId" in now.payload:
        return
    told = {"tool-causation", "return-without-call", "effect-before-decision"}
    if cause not in now.state.heard and not any(each.name in told for each in now.found):
        now.find("unknown-causation", f"caused by {cause}, which is no earlier event")


def _check_spelling(now: _Hearing) -> None:
    alone: list[str] = []
    for holder, rfc, published in _pairs(now):
        if rfc in holder and published in holder:
            if not same(holder[rfc], holder[published]):
                message = f"{rfc} and {published} differ; {rfc} is believed"
                now.find("alias-mismatch", message)
        elif rfc not in holder and (published in holder or rfc == "arguments"):
            alone.append(rfc)
        elif rfc in holder and published not in OPTIONAL:
            alone.append(published)
    if alone:
        now.find("one-spelling-only", f"{now.event.kind} has no {' and no '.join(alone)}")


def _pairs(now: _Hearing) -> Iterator[tuple[Body, str, str]]:
    """The places where a value may have two names."""
    payload = now.payload
    for rfc, published in SPELLINGS.get(now.event.kind, ()):
        yield payload, rfc, published
    if now.event.kind == "agent.toolReturned" and "error" in payload:
        yield payload["error"], "error", "code"
    if now.event.kind == "agent.handoff":
        ends: Body = {
            f"{key}.agentId": payload[key]["agentId"] for key in ("from", "to") if key in payload
        }
        for key in ("from", "to"):
            yield {**payload, **ends}, f"{key}.agentId", f"{key}AgentId"


def _check_published(now: _Hearing) -> None:
    for message in _unpublished(now.event.kind, now.event.body["payload"]):
        now.find("published-schema", message)


def _unpublished(kind: str, payload: Any) -> Iterator[str]:
    """Deviations that the published schemas would refuse, although they can be read here."""
    if kind in TYPES and not isinstance(payload, dict):
        yield f"the payload of {kind} is not an object"
        return
    yield from (f"{key} is missing" for key in PUBLISHED_KEYS.get(kind, ()) if key not in payload)
    for key, wanted in PUBLISHED_TYPES.get(kind, {}).items():
        if key in payload and not isinstance(payload[key], wanted):
            yield f"{key} is not of the published type"
    error = payload.get("error") if kind in KINDS and isinstance(payload, dict) else None
    if isinstance(error, dict) and error.get("message") == "":
        yield "error.message is empty"
    if kind == "channel.written" and not re.fullmatch(REDUCER, payload["reducer"]):
        yield f"{payload['reducer']} is no published reducer"
    if kind == "runOrchestrator.decided" and "iteration" in payload:
        yield "iteration is in one published schema and forbidden by another"
    if kind in TURNS and TURNS[kind] not in payload:
        yield f"{TURNS[kind]} is missing"
    if kind == "conversation.exchanged" and payload["turnIndex"] == 0:
        yield "turnIndex 0 belongs to conversation.opened"
    if kind == "interrupt.requested" and list(payload["data"]) == ["conversationId"]:
        yield "with a conversationId alone, data fits two of the published variants"


def _check_agents(now: _Hearing) -> None:
    kind, payload = now.event.kind, now.payload
    refs = [holder[key] for holder, key in slots(kind, payload)]
    if kind in KINDS:
        for agent in (payload.get("agentId"), *hands(payload), *map(agent_of, refs)):
            if isinstance(agent, str):
                _check_id(now, agent)
    for ref in refs:
        _check_ref(now, ref)
    message = turn_of(kind, payload) or (message_of(payload) if kind == "channel.written" else None)
    if message is not None:
        _check_group(now, message)


def _check_id(now: _Hearing, agent: str) -> None:
    if agent not in now.state.known:
        now.state.known.add(agent)
        if not re.fullmatch(MANIFEST_ID, agent) and not re.fullmatch(HOST_ID, agent):
            message = f"{agent} is neither tier.org.pack.agent, nor core.name, nor host:id"
            now.find("agent-id-form", message)


def _check_ref(now: _Hearing, ref: Body) -> None:
    agent, sharing = ref["agentId"], ref.get("agentSharing", "isolated")
    if "version" in ref and "channel" in ref:
        now.find("version-and-channel", f"{agent} has a version and a channel; one excludes both")
    if agent.startswith("host:") and "sourceManifestId" in ref:
        message = f"{agent} is the host's own, but claims a manifest"
        now.find("host-id-in-manifest", message)
    if "agentSharing" in ref or ref.get("modelClass") in RFC_ONLY_CLASSES:
        message = f"{agent}: the RFC's agentSharing or modelClass, which the schema does not have"
        now.find("seed-over-schema", message)
    now.state.groups.pop(agent, None)
    if sharing.startswith("shared:"):
        now.state.groups[agent] = sharing.removeprefix("shared:")


def _check_group(now: _Hearing, message: Body) -> None:
    group = now.state.groups.get(message["from"])
    # The published schema of a turn has the placeholder itself where the name of a group should be.
    named = "groupId" in message if group == "%shared%" else message.get("groupId") == group
    if group is not None and not named:
        what = f"{message['from']} shares with {group}; its message has no such groupId"
        now.find("group-id-missing", what)


def _check_secrets(now: _Hearing) -> None:
    if not SECRET_SIGNS.search(now.event.line):
        return
    places = [place for place, value in _strings(now.event.body) if SECRET.search(value)]
    if places:
        now.find("secret-shape", f"what looks like a secret stands at {', '.join(places)}")


def _strings(body: Body) -> Iterator[tuple[str, str]]:
    """Every string within, keys included, with its place."""
    open_: list[tuple[str, Any]] = [("", body)]
    while open_:
        place, value = open_.pop()
        if isinstance(value, str):
            yield place, value
        elif isinstance(value, list):
            open_ += [(f"{place}/{index}", each) for index, each in enumerate(value)]
        elif isinstance(value, dict):
            open_ += [(f"{place}/{key}", each) for key, each in value.items()]
            yield from ((place, key) for key in value)


def _on_run_started(now: _Hearing) -> None:
    now.state.options = now.payload.get("configurable", {})


def _on_node_started(now: _Hearing) -> None:
    now.found += _close(now.state, now.node)
    now.execution().type_id = now.payload["typeId"]


def _on_node_completed(now: _Hearing) -> None:
    node = now.state.nodes.get(now.node)
    shown = "decision" in now.payload.get("outputs", {})
    if node is not None and node.type_id == SUPERVISOR and shown and not node.directed:
        message = f"{now.node} ends with a decision that is not in the log"
        now.find("effect-before-decision", message)


def _on_reasoned(now: _Hearing) -> None:
    node, agent = now.execution(), now.payload["agentId"]
    node.acted.add(agent)
    old = [key for key in RETIRED if key in now.payload]
    if old:
        message = f"{' and '.join(old)} are retired names; write reasoning and verbosity"
        now.find("retired-field", message)
    if node.block is not None:
        if node.block.agent != agent:
            message = f"{agent} closes the reasoning that {node.block.agent} began"
            now.find("delta-agent", message)
        node.block, node.closed = None, True
    said = str(first(now.payload, "reasoning", "trace", "summary"))
    resolved = now.payload.get("verbosity") or now.state.options.get("reasoningVerbosity")
    size = -(-len(said.encode(errors="replace")) // TOKEN_BYTES)
    if (resolved or now.given.verbosity) == "summary" and size > now.given.tokens:
        message = f"a summary of about {size} tokens, the bound is {now.given.tokens}"
        now.find("summary-too-long", message)


def _on_delta(now: _Hearing) -> None:
    node, agent, index = now.execution(), now.payload["agentId"], int(now.payload["sequence"])
    node.acted.add(agent)
    block = node.block
    if block is None and index and node.closed:
        now.find("delta-after-close", f"delta {index} of {agent} after its agent.reasoned")
        return
    if block is not None and block.agent != agent:
        message = f"a delta of {agent} in the reasoning of {block.agent}"
        now.find("delta-agent", message)
    elif block is not None and index == 0:
        now.find("delta-not-closed", f"{agent} begins to reason anew before it closed")
    elif index != (expected := 0 if block is None else block.next):
        now.find("delta-order", f"delta {index} of {agent}, where {expected} was next")
    node.block = _Block(agent if block is None else block.agent, index + 1)


def _on_called(now: _Hearing) -> None:
    call = now.payload["callId"]
    now.execution().acted.add(now.payload["agentId"])
    if call in now.state.calls:
        now.find("call-not-returned", f"{call} is called again before it returned")
    now.state.calls[call] = str(now.event.id), now.node
    _check_tool(now)


def _on_returned(now: _Hearing) -> None:
    payload, call = now.payload, now.payload["callId"]
    called = now.state.calls.pop(call, None)
    if called is None:
        acted = payload["agentId"] in now.execution().acted
        if payload.get("status") not in NEVER_INVOKED or acted:
            now.find("return-without-call", f"{call} returns, but was not called")
    elif now.event.cause != called[0]:
        message = f"{call} returns with cause {now.event.cause}, its call is {called[0]}"
        now.find("tool-causation", message)
    came = "result" in payload or "outcome" in payload
    if came and "error" in payload:
        now.find("result-and-error", f"{call} returns a result and an error")
    elif not came and "error" not in payload:
        now.find("neither-result-nor-error", f"{call} returns neither a result nor an error")
    _check_tool(now)


def _check_tool(now: _Hearing) -> None:
    tool = first(now.payload, "toolId", "toolName")
    scope, _, name = tool.partition(":")
    if not scope or not name:
        message = f"{tool} is not <scope>:<tool-id>, such as openwop:{tool.strip(':') or 'echo'}"
        now.find("tool-id-form", message)


def _on_decided(now: _Hearing) -> None:
    payload, node = now.payload, now.execution()
    if node.decision is not None:
        now.found += _settle(now.node, node.decision)
    agent = payload["agentId"]
    threshold = _share(now.state.options.get("escalationThreshold"))
    if threshold is None:
        threshold = now.given.thresholds.get(agent, THRESHOLD)
    decision = _Decision(agent, payload.get("confidence"), threshold)
    node.decision = now.state.heard[str(now.event.id)] = decision


def _settle(node: str, decision: _Decision) -> list[Finding]:
    """The findings about a decision to which nothing more can happen."""
    if not decision.low or decision.actions:
        return []
    who = f"{decision.agent} in {node}" if node else decision.agent
    what = f"{who} decided with {decision.confidence} < {decision.threshold}"
    if decision.hinted:
        message = f"{what}; what looks like its escalation does not name it as its cause"
        return [finding("escalation-form", message)]
    return [finding("escalation-missing", f"{what}, and nothing was done about it")]


def _escalate(now: _Hearing, among: Iterable[_Node], explicit: bool = False) -> None:
    """Count an action for the decision that it names as its cause."""
    decision = now.state.heard.get(now.event.cause or "")
    if now.event.cause is None:
        for node in among:
            if node.decision is not None:
                node.decision.hinted = True
    elif decision is None:
        return
    elif decision.low:
        decision.actions += 1
        if decision.actions > 1:
            message = f"{now.event.kind} is the action {decision.actions} on {now.event.cause}"
            now.find("escalation-duplicate", message)
    elif explicit or decision.confidence is not None:
        message = f"{now.event.kind} on {now.event.cause}, which was sure enough"
        now.find("escalation-not-needed", message)


def _hint(now: _Hearing) -> None:
    node = now.state.nodes.get(now.node)
    if node is not None and node.decision is not None:
        node.decision.hinted = True


def _on_interrupt(now: _Hearing) -> None:
    match now.payload["kind"]:
        case "clarification":
            explicit = now.payload["data"].get("contextType") == LOW
            _escalate(now, [now.execution()], explicit)
        case "low-confidence":
            _hint(now)


def _on_suspended(now: _Hearing) -> None:
    if LOW in (now.payload.get("kind"), now.payload.get("reason")):
        _hint(now)


def _on_cap(now: _Hearing) -> None:
    if now.payload["kind"] == SUPPRESSED:
        now.find("seed-over-schema", f"{SUPPRESSED} is the RFC's; the schema does not have it")
        _escalate(now, [now.execution()], explicit=True)


def _on_orchestrator(now: _Hearing) -> None:
    state, agent, decision = now.state, now.payload["agentId"], now.payload["decision"]
    if state.supervisor not in (None, agent):
        message = f"{agent} decides for the run, before it was {state.supervisor}"
        now.find("orchestrator-changed", message)
    state.supervisor = state.supervisor or agent
    if state.terminated:
        now.find("decision-after-terminate", f"{decision['kind']} after terminate")
    now.execution().directed = True
    match decision["kind"]:
        case "ask-user":
            _escalate(now, state.nodes.values())
        case "next-worker":
            state.directed = True
        case _:
            state.terminated = True


def _on_dispatched(now: _Hearing) -> None:
    cause, node = now.event.cause, now.state.nodes.get(now.node)
    if node is not None and node.type_id == SUB_WORKFLOW:
        return  # it starts its run by itself; no supervisor has to decide it
    if not now.state.directed or (cause is not None and cause not in now.state.heard):
        message = f"{now.payload['childRunId']} is dispatched before a decision says so"
        now.find("effect-before-decision", message)


STEPS: Mapping[str, Callable[[_Hearing], None]] = {
    "run.started": _on_run_started,
    "node.started": _on_node_started,
    "node.completed": _on_node_completed,
    "node.suspended": _on_suspended,
    "node.dispatched": _on_dispatched,
    "agent.reasoned": _on_reasoned,
    "agent.reasoning.delta": _on_delta,
    "agent.toolCalled": _on_called,
    "agent.toolReturned": _on_returned,
    "agent.decided": _on_decided,
    "interrupt.requested": _on_interrupt,
    "cap.breached": _on_cap,
    "runOrchestrator.decided": _on_orchestrator,
}


def _left(state: State, name: str) -> list[Finding]:
    """The findings about what a node has left open."""
    node = state.nodes[name]
    found = [
        finding("call-not-returned", f"{call} never returned")
        for call, (_, where) in state.calls.items()
        if where == name
    ]
    if node.block is not None:
        message = f"the reasoning of {node.block.agent} was never closed by an agent.reasoned"
        found.append(finding("delta-not-closed", message))
    return found + ([] if node.decision is None else _settle(name, node.decision))


def _close(state: State, name: str) -> list[Finding]:
    """The findings about what a node leaves open at its end; its state is dropped."""
    if name not in state.nodes:
        return []
    found = _left(state, name)
    del state.nodes[name]
    state.calls = {call: at for call, at in state.calls.items() if at[1] != name}
    return found


def rest(state: State) -> list[Finding]:
    return [each for name in state.nodes for each in _left(state, name)]
