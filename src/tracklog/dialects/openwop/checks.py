"""The rules that every event is checked by, whatever its type."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.dialects.openwop.catalog import (
    HOST_ID,
    MANIFEST_ID,
    OWN_TYPE,
    PUBLISHED_KEYS,
    REDUCER,
    RESERVED,
    RFC_ONLY_CLASSES,
    TYPES,
)
from tracklog.dialects.openwop.shapes import KINDS
from tracklog.dialects.openwop.spelling import (
    TURNS,
    agent_of,
    hands,
    message_of,
    same,
    slots,
    turn_of,
)
from tracklog.dialects.openwop.state import RuleCheck
from tracklog.model.event import Body

TERMINAL = ("run.completed", "run.failed", "run.cancelled")

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


def check_order(check: RuleCheck) -> None:
    state, kind = check.state, check.event.kind
    sequence = int(check.event.body["sequence"])
    if state.last is None and kind != "run.started":
        check.add("first-not-run-started", f"the run begins with {kind}, not run.started")
    elif state.last is not None and sequence <= state.last:
        message = f"sequence {sequence} after {state.last}"
        check.add("sequence-not-increasing", message)
    elif sequence > (expected := 0 if state.last is None else state.last + 1):
        check.add("sequence-gap", f"sequence {sequence}, but the next one is {expected}")
    state.last = sequence if state.last is None else max(state.last, sequence)
    if state.ended and kind in TERMINAL:
        check.add("second-terminal", f"{kind} after {state.ended}")
    elif state.ended:
        check.add("event-after-terminal", f"{kind} after {state.ended}")


def check_type(check: RuleCheck) -> None:
    kind = check.event.kind
    if kind.partition(".")[0] in RESERVED and "." in kind:
        message = f"{kind}: the prefix is reserved, and the catalog has no such type"
        check.add("reserved-type", message)
    elif re.fullmatch(OWN_TYPE, kind):
        check.add(
            "unknown-type",
            f"{kind} is not in the catalog; it is stored, but its meaning is unknown",
        )
    else:
        check.add("undotted-type", f"{kind!r} is no dotted name, such as acme.canvas.published")


def check_cause(check: RuleCheck) -> None:
    cause = check.event.cause
    # The cause of a run may be an event of another run; causationHostId names another host.
    if cause is None or check.event.kind == "run.started" or "causationHostId" in check.payload:
        return
    specific = {"tool-causation", "return-without-call", "effect-before-decision"}
    if cause not in check.state.events and not any(
        each.name in specific for each in check.findings
    ):
        check.add("unknown-causation", f"caused by {cause}, which is no earlier event")


def check_spelling(check: RuleCheck) -> None:
    alone: list[str] = []
    for holder, rfc, published in _pairs(check):
        if rfc in holder and published in holder:
            if not same(holder[rfc], holder[published]):
                message = f"{rfc} and {published} differ; {rfc} is used"
                check.add("alias-mismatch", message)
        elif rfc not in holder and (published in holder or rfc == "arguments"):
            alone.append(rfc)
        elif rfc in holder and published not in OPTIONAL:
            alone.append(published)
    if alone:
        check.add("one-spelling-only", f"{check.event.kind} has no {' and no '.join(alone)}")


def _pairs(check: RuleCheck) -> Iterator[tuple[Body, str, str]]:
    """The places where a value may have two names."""
    payload = check.payload
    for rfc, published in SPELLINGS.get(check.event.kind, ()):
        yield payload, rfc, published
    if check.event.kind == "agent.toolReturned" and "error" in payload:
        yield payload["error"], "error", "code"
    if check.event.kind == "agent.handoff":
        ends: Body = {
            f"{key}.agentId": payload[key]["agentId"] for key in ("from", "to") if key in payload
        }
        for key in ("from", "to"):
            yield {**payload, **ends}, f"{key}.agentId", f"{key}AgentId"


def check_published(check: RuleCheck) -> None:
    for message in _unpublished(check.event.kind, check.event.body["payload"]):
        check.add("published-schema", message)


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


def check_agents(check: RuleCheck) -> None:
    kind, payload = check.event.kind, check.payload
    refs = [holder[key] for holder, key in slots(kind, payload)]
    if kind in KINDS:
        for agent in (payload.get("agentId"), *hands(payload), *map(agent_of, refs)):
            if isinstance(agent, str):
                _check_id(check, agent)
    for ref in refs:
        _check_ref(check, ref)
    message = turn_of(kind, payload) or (message_of(payload) if kind == "channel.written" else None)
    if message is not None:
        _check_group(check, message)


def _check_id(check: RuleCheck, agent: str) -> None:
    if agent not in check.state.known:
        check.state.known.add(agent)
        if not re.fullmatch(MANIFEST_ID, agent) and not re.fullmatch(HOST_ID, agent):
            message = f"{agent} is neither tier.org.pack.agent, nor core.name, nor host:id"
            check.add("agent-id-form", message)


def _check_ref(check: RuleCheck, ref: Body) -> None:
    agent, sharing = ref["agentId"], ref.get("agentSharing", "isolated")
    if "version" in ref and "channel" in ref:
        check.add(
            "version-and-channel", f"{agent} has both a version and a channel; only one is allowed"
        )
    if agent.startswith("host:") and "sourceManifestId" in ref:
        message = f"{agent} is the host's own, but claims a manifest"
        check.add("host-id-in-manifest", message)
    if "agentSharing" in ref or ref.get("modelClass") in RFC_ONLY_CLASSES:
        message = f"{agent}: the RFC's agentSharing or modelClass, which the schema does not have"
        check.add("seed-over-schema", message)
    check.state.groups.pop(agent, None)
    if sharing.startswith("shared:"):
        check.state.groups[agent] = sharing.removeprefix("shared:")


def _check_group(check: RuleCheck, message: Body) -> None:
    group = check.state.groups.get(message["from"])
    # The published schema of a turn has the placeholder itself where the name of a group should be.
    named = "groupId" in message if group == "%shared%" else message.get("groupId") == group
    if group is not None and not named:
        what = f"{message['from']} shares with {group}; its message has no such groupId"
        check.add("group-id-missing", what)


def check_secrets(check: RuleCheck) -> None:
    if not SECRET_SIGNS.search(check.event.line):
        return
    places = [place for place, value in _strings(check.event.body) if SECRET.search(value)]
    if places:
        check.add("secret-shape", f"there may be a secret at {', '.join(places)}")


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
