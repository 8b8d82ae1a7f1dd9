"""What the openwop dialect promises, requirement by requirement."""

from copy import deepcopy

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from pydantic import ValidationError

from support import sampling as samples
from tracklog.dialects import Scene
from tracklog.dialects.checking import checker
from tracklog.dialects.openwop import catalog, state
from tracklog.dialects.openwop.manifest import AgentManifest, check_manifest
from tracklog.dialects.openwop.spelling import same
from tracklog.dialects.openwop.writing import redacted
from tracklog.dialects.rules import Lint
from tracklog.dialects.schemas import contract, schema_of
from tracklog.home import registry
from tracklog.model.event import Event, Finding, Refusal
from tracklog.model.fact import (
    FACTS,
    Asked,
    Called,
    Decided,
    Fact,
    Linked,
    Noted,
    Returned,
    Said,
    Spent,
)

requirement = pytest.mark.requirement
dialect = registry.dialect("openwop")
check = checker(dialect)

AGENT = "vendor.acme.ops.runner"
REF = {"agentId": AGENT}
REASONED = {"agentId": AGENT, "reasoning": "I think."}
CALLED = {
    "agentId": AGENT, "toolId": "mcp:search", "toolName": "mcp:search",
    "callId": "work:0:0", "arguments": {"q": 1},
}  # fmt: skip
RETURNED = {
    "agentId": AGENT, "toolId": "mcp:search", "toolName": "mcp:search",
    "callId": "work:0:0", "result": [1],
}  # fmt: skip
HANDED = {
    "from": REF, "to": {"agentId": "host:b"}, "fromAgentId": AGENT, "toAgentId": "host:b",
}  # fmt: skip
DECIDED = {"agentId": AGENT, "decision": "go"}
TURN = {
    "messageId": "m1", "from": "host:b", "content": "hi", "ts": 1, "role": "agent",
    "turnIndex": 1, "speakerId": "host:b",
}  # fmt: skip
EXCHANGED = {"conversationId": "v", "turnIndex": 1, "turn": TURN}
MANIFEST = {
    "agentId": AGENT, "persona": "A runner.", "modelClass": "coding", "systemPrompt": "Run.",
}  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def body(kind, payload, sequence=0, cause=None, node="work", run="r"):
    said = {
        "eventId": f"evt-{run}-{sequence}",
        "runId": run,
        "sequence": sequence,
        "timestamp": "2026-05-11T09:00:00.000Z",
        "type": kind,
        "nodeId": node,
        "causationId": f"evt-{run}-{cause}",
        "payload": payload,
    }
    absent = [key for key, value in (("nodeId", node), ("causationId", cause)) if value is None]
    return {key: value for key, value in said.items() if key not in absent}


def heard(said) -> Event:
    event = check(orjson.dumps(said))
    assert isinstance(event, Event), event
    return event


def accepted(kind, payload) -> bool:
    return isinstance(check(orjson.dumps(body(kind, payload))), Event)


def pointers(kind, payload) -> list[str]:
    refusal = check(orjson.dumps(body(kind, payload)))
    return [p.pointer for p in refusal.problems] if isinstance(refusal, Refusal) else []


def without(payload, *keys):
    return {key: value for key, value in payload.items() if key not in keys}


def findings(bodies) -> list[Finding]:
    state, found = None, []
    for each in bodies:
        event = heard(each)
        state, more = dialect.rules(state, event)
        found += [*event.odd, *more]
    return found + dialect.rest(state)


def names(bodies) -> list[str]:
    """The findings that weigh something."""
    return [each.name for each in findings(bodies) if each.level != "info"]


def facts(said):
    return list(dialect.facts(heard(said)))


def log(*inner, configurable=None, agent=REF):
    """A run with one node in which this happens: (type, payload[, sequence of the cause])."""
    begin = {"workflowId": "demo"} | ({"configurable": configurable} if configurable else {})
    node = {"nodeId": "work", "typeId": "acme.llm"} | ({"agent": agent} if agent else {})
    steps = [("run.started", begin), ("node.started", node), *inner]
    steps += [("node.completed", {"nodeId": "work"}), ("run.completed", {})]
    return [
        body(kind, payload, sequence, *cause, node=None if kind.startswith("run.") else "work")
        for sequence, (kind, payload, *cause) in enumerate(steps)
    ]


def sample(name):
    (path,) = samples.ROOT.glob(f"dialects/openwop/good/{name}.jsonl")
    return [orjson.loads(line) for line in samples.lines_of(path)]


LOGS = {
    path.stem: [orjson.loads(line) for line in samples.lines_of(path)]
    for path in samples.of("good")
    if samples.dialect_of(path) == "openwop" and path.stem != "two-runs-in-one-file"
}
"""The good samples that are one run."""


# AgentRef


def in_every_slot(ref):
    """Whether a ref is accepted, in each of the places where one may stand."""
    return {
        accepted("node.started", {"nodeId": "n", "typeId": "t", "agent": ref}),
        accepted("node.completed", {"nodeId": "n", "agent": ref}),
        accepted("agent.handoff", {**HANDED, "from": ref}),
        accepted("agent.handoff", {**HANDED, "to": ref}),
        accepted("conversation.exchanged", {**EXCHANGED, "turn": {**TURN, "agent": ref}}),
    }


@requirement("WOP-2", "WOP-6")
@pytest.mark.parametrize("ref", [{}, {"agentId": 7}, {"agentId": None}, {"agentId": "ab"}, "x", []])
def test_a_ref_without_an_agent_id_is_refused_everywhere(ref):
    assert in_every_slot(ref) == {False}


@requirement("WOP-3", "WOP-4")
def test_the_rest_of_a_ref_is_optional_and_memory_is_opaque():
    assert in_every_slot({"agentId": "core.a"}) == {True}
    full = {"agentId": "core.a", "agentSharing": "shared", "modelClass": "general"}
    assert in_every_slot({**full, "memoryRef": "any: thing\n"}) == {True}
    assert in_every_slot({**full, "memoryRef": 7}) == {False}
    assert in_every_slot({**full, "memoryRef": None}) == {False}


@requirement("WOP-5", "WOP-6")
def test_a_model_class_is_one_of_six():
    six = ["reasoning", "writing", "coding", "research", "classification", "general"]
    for word in six:
        assert in_every_slot({"agentId": "core.a", "modelClass": word}) == {True}
        assert "published-model-class" not in names(
            log(agent={"agentId": "core.a", "modelClass": word})
        )
    for word in ("", "Reasoning", "reasoning\n", "smart", None, 7):
        assert in_every_slot({"agentId": "core.a", "modelClass": word}) == {False}


@pytest.mark.parametrize("word", sorted(catalog.PUBLISHED_ONLY_CLASSES))
def test_a_published_model_class_is_read_as_none(word):
    event = heard(log(agent={"agentId": "core.a", "modelClass": word, "name": "A"})[1])
    assert event.body["payload"]["agent"] == {"agentId": "core.a", "name": "A"}
    assert [(each.name, each.level) for each in event.odd] == [("published-model-class", "warning")]
    assert word.encode() in event.line


@requirement("WOP-12")
@given(st.text(min_size=1).filter(lambda group: not {"\r", "\n"} & set(group)))
def test_sharing_is_one_of_three_and_a_group_is_any_name(group):
    for word in ("isolated", "shared", f"shared:{group}"):
        assert accepted("node.started", {"nodeId": "n", "typeId": "t", "agent": {**REF, "agentSharing": word}})  # fmt: skip
    for word in ("shared:", "Shared", "isolated ", f"group:{group}", "shared\n", "", None):
        assert in_every_slot({**REF, "agentSharing": word}) == {False}


@requirement("WOP-11")
@given(st.text(min_size=3, max_size=256))
def test_an_agent_id_is_taken_as_it_is(agent):
    (said,) = facts(body("agent.reasoned", {"agentId": agent, "reasoning": ""}))
    assert said.agent == agent
    assert heard(body("agent.decided", {**DECIDED, "agentId": agent})).actor == agent


@requirement("WOP-70", "WOP-71")
def test_an_agent_may_be_absent_and_has_no_default():
    for kind, payload in (
        ("node.started", {"nodeId": "n", "typeId": "t"}),
        ("node.completed", {"nodeId": "n"}),
    ):
        (fact,) = facts(body(kind, payload))
        assert fact.agent is None
        assert heard(body(kind, payload)).body["payload"] == payload
        (fact,) = facts(body(kind, {**payload, "agent": REF}))
        assert fact.agent == AGENT
        assert pointers(kind, {**payload, "agent": None}) == ["/payload/agent"]


@requirement("WOP-78")
def test_agents_add_nothing_to_what_older_types_require():
    required = {
        kind: dialect.kinds[kind].model_fields["payload"].annotation
        for kind in ("run.started", "run.completed", "run.failed", "node.started", "node.completed")
    }
    assert {kind: schema_of(shape).get("required", []) for kind, shape in required.items()} == {
        "run.started": ["workflowId"],
        "run.completed": [],
        "run.failed": ["error"],
        "node.started": ["nodeId", "typeId"],
        "node.completed": ["nodeId"],
    }


@requirement("WOP-16")
@pytest.mark.parametrize(
    ("group", "found"),
    [
        ({"groupId": "g1"}, []),
        ({}, ["group-id-missing"]),
        ({"groupId": "g2"}, ["group-id-missing"]),
    ],
)
def test_messages_of_an_agent_of_a_group_name_the_group(group, found):
    message = {"messageId": "m", "from": AGENT, "content": 1, "ts": 1, **group}
    written = {"channel": "c", "value": message, "reducer": "append"}
    written["writtenAt"] = "2026-05-11T09:00:00Z"
    ref = {**REF, "agentSharing": "shared:g1"}
    assert names(log(("channel.written", written), agent=ref)) == found
    turn = {**TURN, "from": AGENT, "speakerId": AGENT, "agent": ref, **group}
    assert names(log(("conversation.exchanged", {**EXCHANGED, "turn": turn}))) == found


@requirement("WOP-16")
def test_an_agent_that_left_its_group_need_not_name_it():
    message = {"messageId": "m", "from": AGENT, "content": 1, "ts": 1}
    written = {"channel": "c", "value": message, "reducer": "append"}
    written["writtenAt"] = "2026-05-11T09:00:00Z"
    again = ("node.started", {"nodeId": "n2", "typeId": "t", "agent": REF})
    shared = {**REF, "agentSharing": "shared:g1"}
    left = names(log(again, ("channel.written", written), agent=shared))
    assert "group-id-missing" not in left
    assert "group-id-missing" in names(log(("channel.written", written), again, agent=shared))


# Manifests

GOOD_IDS = ["core.a", "core.a.b", "core.conformance.low-conf_1", AGENT, "local.o_1.p.aB"]
BAD_IDS = [
    "host:a", "core", "core.", "Core.a", "vendor.acme", "vendor.acme.ops", "vendor.a.b.c.d",
    "acme.ops.pack.agent", "core.a\n", f"{AGENT}\n", "vendor.Acme.ops.runner", "did:web:x", "",
]  # fmt: skip


def manifest_accepted(**change):
    manifest = {key: value for key, value in {**MANIFEST, **change}.items() if value is not ...}
    by_schema = Draft202012Validator(schema_of(AgentManifest)).is_valid(manifest)
    try:
        AgentManifest.model_validate(manifest)
    except ValidationError:
        assert not by_schema, manifest
        return False
    assert by_schema, manifest
    return True


@requirement("WOP-8", "WOP-97")
def test_manifest_ids_have_four_parts_or_are_of_the_core():
    assert [name for name in GOOD_IDS if not manifest_accepted(agentId=name)] == []
    assert [name for name in BAD_IDS if manifest_accepted(agentId=name)] == []


@requirement("WOP-9")
def test_an_id_of_the_hosts_own_has_no_manifest():
    assert not manifest_accepted(agentId="host:lead")
    assert check_manifest(MANIFEST) == []
    (found,) = check_manifest({**MANIFEST, "agentId": "host:lead"})
    assert (found.name, found.level) == ("host-id-in-manifest", "error")
    assert found.message.startswith("host:lead: ")
    claimed = {"agentId": "host:lead", "sourceManifestId": "acme"}
    assert names(log(agent=claimed)) == ["host-id-in-manifest"]
    assert names(log(agent={"agentId": "host:lead"})) == []


@requirement("WOP-97")
def test_a_manifest_has_its_allowlist_and_its_threshold():
    assert manifest_accepted(toolAllowlist=["mcp:a"], confidence={"defaultThreshold": 0.5})
    assert manifest_accepted(toolAllowlist=[], confidence={})
    for bad in ({"toolAllowlist": [7]}, {"toolAllowlist": "mcp:a"}, {"toolAllowlist": [""]}):
        assert not manifest_accepted(**bad)
    for threshold in (-0.1, 1.1, "0.5", None):
        assert not manifest_accepted(confidence={"defaultThreshold": threshold})
    assert "agent_manifest" in dialect.documents


@pytest.mark.parametrize(
    "change",
    [
        {"persona": ...}, {"persona": ""}, {"persona": "x" * 201}, {"modelClass": ...},
        {"modelClass": "chat"}, {"systemPrompt": ...}, {"systemPromptRef": "p"},
        {"colour": "blue"}, {"memoryShape": {"other": True}}, {"handoff": {"other": "x"}},
        {"requiresCapabilities": ["a", "a"]}, {"label": "x" * 101}, {"description": "x" * 501},
    ],
)  # fmt: skip
def test_a_manifest_is_closed_and_has_one_prompt(change):
    assert manifest_accepted(systemPrompt=..., systemPromptRef="prompts/run.md")
    assert not manifest_accepted(**change)


# Events of agents


@requirement("WOP-38", "WOP-91", "WOP-100")
def test_the_five_reasoning_events_are_in_the_catalog_under_their_own_names():
    five = {"agent.reasoned", "agent.toolCalled", "agent.toolReturned", "agent.handoff", "agent.decided"}  # fmt: skip
    assert five <= catalog.TYPES
    assert five <= dialect.kinds.keys()
    assert len(catalog.TYPES) == 107
    for kind in five:
        renamed = body(f"vendor.openwop.{kind}", {})
        assert "reserved-type" in names([renamed])


@requirement("WOP-40", "WOP-41", "WOP-93")
def test_reasoning_has_an_agent_and_a_text():
    assert accepted("agent.reasoned", REASONED)
    for word in ("summary", "full", "off"):
        assert accepted("agent.reasoned", {**REASONED, "verbosity": word})
    assert pointers("agent.reasoned", {**REASONED, "verbosity": "loud"}) == ["/payload/verbosity"]
    assert pointers("agent.reasoned", without(REASONED, "agentId")) == ["/payload/agentId"]
    assert pointers("agent.reasoned", without(REASONED, "reasoning")) == ["/payload/reasoning"]
    assert pointers("agent.reasoned", {**REASONED, "reasoning": 7}) == ["/payload/reasoning"]


@pytest.mark.parametrize("old", ["summary", "trace", "tokenCount"])
def test_a_retired_name_is_read_and_found(old):
    payload = {"agentId": AGENT, "reasoning": "new", old: 7 if old == "tokenCount" else "old"}
    assert names(log(("agent.reasoned", payload))) == ["retired-field"]
    if old != "tokenCount":
        (said,) = facts(body("agent.reasoned", without(payload, "reasoning")))
        assert said.blocks[0]["thinking"] == "old"
    (said,) = facts(body("agent.reasoned", payload))
    assert said.blocks[0]["thinking"] == "new"


@requirement("WOP-47")
def test_deltas_add_nothing_to_what_the_closing_event_says():
    streamed = sample("reasoning-told-in-deltas")
    told = [fact for each in streamed for fact in facts(each) if not isinstance(fact, Noted)]
    silent = [each for each in streamed if each["type"] != "agent.reasoning.delta"]
    assert told == [fact for each in silent for fact in facts(each)]


@requirement("WOP-49", "WOP-57", "WOP-61")
@pytest.mark.parametrize("kind", ["agent.toolCalled", "agent.toolReturned"])
def test_tool_events_name_the_agent_the_tool_and_the_call(kind):
    payload = CALLED if kind == "agent.toolCalled" else RETURNED
    assert accepted(kind, payload)
    assert accepted(kind, {**payload, "agentId": "core.system"})
    assert pointers(kind, without(payload, "agentId")) == ["/payload/agentId"]
    assert pointers(kind, without(payload, "callId")) == ["/payload/callId"]
    assert (
        pointers(kind, without(payload, "toolId", "toolName", "arguments"))[-1] == "/payload/toolId"
    )


@requirement("WOP-49", "WOP-52")
@given(json_values)
def test_arguments_are_any_json_and_must_be_there(value):
    rfc = without(CALLED, "toolName")
    (called,) = facts(body("agent.toolCalled", {**rfc, "arguments": value}))
    assert called.input == value
    assert pointers("agent.toolCalled", without(rfc, "arguments")) == ["/payload/arguments"]


@requirement("WOP-53", "WOP-60", "WOP-63")
def test_what_the_tool_hooks_added_is_optional():
    hooked = {**CALLED, "argsHash": "h", "principal": "p", "transport": "mcp"}
    returned = {**RETURNED, "status": "ok", "durationMs": 12}
    for kind, payload in (("agent.toolCalled", hooked), ("agent.toolReturned", returned)):
        assert accepted(kind, payload)
    assert accepted("agent.toolCalled", CALLED)
    assert accepted("agent.toolReturned", RETURNED)
    assert not accepted("agent.toolCalled", {**hooked, "transport": "stdio"})
    assert not accepted("agent.toolReturned", {**returned, "status": "fine"})
    assert not accepted("agent.toolReturned", {**returned, "durationMs": 1.5})


@requirement("WOP-62")
@given(st.dictionaries(st.from_regex("x[a-z]{1,5}", fullmatch=True), json_values))
def test_extra_keys_of_tool_events_are_stored(extra):
    for kind, payload in (("agent.toolCalled", CALLED), ("agent.toolReturned", RETURNED)):
        assert heard(body(kind, {**payload, **extra})).body["payload"] == {**payload, **extra}


@requirement("WOP-50")
@pytest.mark.parametrize(
    ("tool", "found"),
    [("mcp:search", []), ("a.b:c:d", []), ("search", 1), (":search", 1), ("mcp:", 1), (":", 1)],
)
def test_a_tool_id_has_a_scope(tool, found):
    called = {**CALLED, "toolId": tool, "toolName": tool}
    returned = {**RETURNED, "toolId": tool, "toolName": tool}
    got = names(log(("agent.toolCalled", called), ("agent.toolReturned", returned, 2)))
    assert got == (["tool-id-form"] * 2 if found else [])


@requirement("WOP-58", "WOP-59")
def test_a_return_has_a_result_or_an_error_and_the_error_is_an_envelope():
    error = {"error": "tool_failed", "message": "503", "details": {"retryAfter": 30}}
    failed = {**without(RETURNED, "result"), "error": error}
    (returned,) = facts(body("agent.toolReturned", failed))
    assert (returned.ok, returned.error) == (False, error)
    for status in ("error", "forbidden", "rate_limited"):
        (returned,) = facts(body("agent.toolReturned", {**RETURNED, "status": status}))
        assert returned.ok is False
    (returned,) = facts(body("agent.toolReturned", {**RETURNED, "result": None, "status": "ok"}))
    assert (returned.ok, returned.output) == (True, None)
    for bad in ({"message": "m"}, {"error": "e"}, {"error": 7, "message": "m"}, "503", None):
        assert not accepted("agent.toolReturned", {**failed, "error": bad})
    call = ("agent.toolCalled", CALLED)
    both, neither = {**failed, "result": 1}, without(RETURNED, "result")
    assert names(log(call, ("agent.toolReturned", both, 2))) == ["result-and-error"]
    assert names(log(call, ("agent.toolReturned", neither, 2))) == ["neither-result-nor-error"]


@requirement("WOP-51", "WOP-55")
@pytest.mark.parametrize(
    ("change", "cause", "found"),
    [
        ({}, 2, []),
        ({}, None, ["tool-causation"]),
        ({}, 1, ["tool-causation"]),
        ({}, 9, ["tool-causation"]),
        ({"callId": "other"}, 2, ["return-without-call", "call-not-returned"]),
        ({"status": "forbidden"}, None, ["tool-causation"]),
    ],
)
def test_a_return_names_its_call_as_its_cause(change, cause, found):
    returned = ("agent.toolReturned", {**RETURNED, **change}, cause)
    assert names(log(("agent.toolCalled", CALLED), returned)) == found


@requirement("WOP-56")
@pytest.mark.parametrize("status", ["forbidden", "rate_limited", "error", "ok"])
@pytest.mark.parametrize(
    "before",
    [
        None,
        ("agent.reasoned", REASONED),
        ("agent.reasoning.delta", {"agentId": AGENT, "delta": "", "sequence": 0}),
        ("agent.toolCalled", {**CALLED, "callId": "first"}),
        ("agent.reasoned", {**REASONED, "agentId": "host:other"}),
    ],
    ids=["nothing", "reasoning", "a-delta", "a-call", "another-agent"],
)
def test_only_a_row_that_was_never_invoked_may_stand_alone_and_only_at_the_start(status, before):
    error = {"error": status, "code": status, "message": "no"}
    row = {**without(RETURNED, "result"), "status": status, "error": error}
    inner = [each for each in (before, ("agent.toolReturned", row)) if each]
    acted = before is not None and before[1]["agentId"] == AGENT
    alone = status in ("forbidden", "rate_limited") and not acted
    assert ("return-without-call" in names(log(*inner))) is not alone


@requirement("WOP-64", "WOP-65")
def test_a_handoff_is_from_one_agent_to_another():
    full = {**without(HANDED, "fromAgentId", "toAgentId"), "reason": "r", "context": [1]}
    (linked,) = facts(body("agent.handoff", full))
    assert (linked.from_, linked.to, linked.reason, linked.context) == (AGENT, "host:b", "r", [1])
    assert pointers("agent.handoff", without(full, "from")) == ["/payload/from"]
    assert pointers("agent.handoff", without(full, "to")) == ["/payload/to"]
    assert pointers("agent.handoff", {**full, "to": "host:b"}) == ["/payload/to"]
    assert pointers("agent.handoff", {**full, "reason": 7}) == ["/payload/reason"]


@requirement("WOP-67", "WOP-68")
@given(json_values)
def test_a_decision_is_any_json(value):
    (decided,) = facts(body("agent.decided", {**DECIDED, "decision": value, "reasoning": "why"}))
    assert (decided.verdict, decided.reason, decided.by) == (value, "why", AGENT)
    assert pointers("agent.decided", without(DECIDED, "decision")) == ["/payload/decision"]
    assert pointers("agent.decided", without(DECIDED, "agentId")) == ["/payload/agentId"]


@requirement("WOP-20", "WOP-89")
@given(st.floats(0, 1) | st.sampled_from([0, 1]))
def test_confidence_is_a_number_from_0_to_1_and_stored_as_it_is(confidence):
    (decided,) = facts(body("agent.decided", {**DECIDED, "confidence": confidence}))
    assert decided.confidence == confidence
    for bad in (-0.001, 1.001, "high", "0.5", None, True, [confidence]):
        refused = pointers("agent.decided", {**DECIDED, "confidence": bad})
        assert refused == ["/payload/confidence"]


@requirement("WOP-69")
def test_an_agents_decision_is_not_the_supervisors():
    ruled = {"agentId": AGENT, "decision": {"kind": "terminate"}}
    (agents,), (supervisors,) = (
        facts(body("agent.decided", ruled)),
        facts(body("runOrchestrator.decided", ruled)),
    )
    assert isinstance(agents, Decided)
    assert (agents.name, supervisors.name) == (None, "runOrchestrator")
    assert not accepted("runOrchestrator.decided", {**ruled, "decision": "anything"})
    assert accepted("agent.decided", {**ruled, "decision": "anything"})


@requirement("WOP-101")
def test_the_log_alone_says_which_agent_reasoned_called_and_decided():
    for each in sample("the-five-reasoning-events"):
        for fact in facts(each):
            if isinstance(fact, Said | Called | Returned | Decided | Linked):
                assert fact.agent
                assert fact.step == "reasoner"


# Messages


@requirement("WOP-29", "WOP-30", "WOP-32", "WOP-33")
@pytest.mark.parametrize("key", ["messageId", "from", "content", "ts"])
def test_every_message_has_its_four_keys(key):
    turn = without(TURN, key)
    assert pointers("conversation.exchanged", {**EXCHANGED, "turn": turn}) == [
        f"/payload/turn/{key}"
    ]


@requirement("WOP-29", "WOP-30", "WOP-31", "WOP-32", "WOP-33")
@given(json_values)
def test_a_message_holds_any_json_at_a_full_millisecond(content):
    turn = {**TURN, "content": content, "to": "user", "groupId": "g"}
    (said,) = facts(body("conversation.exchanged", {**EXCHANGED, "turn": turn}))
    assert (said.message_id, said.agent, said.to) == ("m1", "host:b", "user")
    assert content in (said.blocks[0].get("text"), said.blocks[0].get("chunk"))
    for bad in ({"ts": 1.5}, {"ts": "now"}, {"messageId": ""}, {"messageId": 7}, {"from": ""}, {"to": 7}):  # fmt: skip
        assert not accepted("conversation.exchanged", {**EXCHANGED, "turn": {**TURN, **bad}})


@requirement("WOP-37")
def test_a_turn_is_a_message_with_a_role_a_place_and_perhaps_an_agent():
    person = {**without(TURN, "speakerId"), "role": "user", "from": "user"}
    assert accepted("conversation.exchanged", {**EXCHANGED, "turn": person})
    assert accepted("conversation.exchanged", {**EXCHANGED, "turn": {**person, "agent": REF}})
    for key in ("role", "turnIndex"):
        assert not accepted("conversation.exchanged", {**EXCHANGED, "turn": without(person, key)})
    assert pointers(
        "conversation.exchanged", {**EXCHANGED, "turn": without(TURN, "speakerId")}
    ) == ["/payload/turn/speakerId"]


def test_a_message_on_a_channel_is_a_message_and_any_other_value_is_a_note():
    message = {"messageId": "m", "from": "user", "content": "hi", "ts": 1}
    written = {"channel": "c", "reducer": "append", "writtenAt": "2026-05-11T09:00:00Z"}
    (said,) = facts(body("channel.written", {**written, "value": message}))
    assert (said.role, said.message_id) == ("user", "m")
    for value in (7, None, [message], without(message, "content"), without(message, "messageId")):
        (noted,) = facts(body("channel.written", {**written, "value": value}))
        assert isinstance(noted, Noted)


# Spellings

PAIRS = [
    ("agent.toolCalled", CALLED, "toolId", "toolName", "mcp:other"),
    ("agent.toolCalled", CALLED, "arguments", "inputs", {"q": 2}),
    ("agent.toolReturned", RETURNED, "toolId", "toolName", "mcp:other"),
    ("agent.toolReturned", RETURNED, "result", "outcome", [2]),
]


@pytest.mark.parametrize(("kind", "payload", "rfc", "published", "other"), PAIRS)
def test_either_spelling_is_read_and_the_rfc_wins(kind, payload, rfc, published, other):
    value = payload[rfc]
    alone = {**without(payload, rfc, published), published: value}
    both = {**payload, published: value}
    unequal = {**payload, published: other}
    (expected,) = facts(body(kind, payload))
    for each in (alone, both, unequal):
        assert facts(body(kind, each)) == [expected]
    found = {each.name for each in findings(log((kind, unequal))) if "alias" in each.name}
    assert found == {"alias-mismatch"}
    assert "alias-mismatch" not in names(log((kind, both)))


@pytest.mark.parametrize("end", ["from", "to"])
def test_either_end_of_a_handoff_is_read_in_either_spelling(end):
    expected = facts(body("agent.handoff", HANDED))
    for key in (end, f"{end}AgentId"):
        assert facts(body("agent.handoff", without(HANDED, key))) == expected
    unequal = {**HANDED, f"{end}AgentId": "host:other"}
    assert names(log(("agent.handoff", unequal))) == ["alias-mismatch"]
    assert facts(body("agent.handoff", unequal)) == expected


@given(json_values, json_values)
def test_equality_is_that_of_json(one, other):
    def plain(value):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, list):
            return [plain(each) for each in value]
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return value

    dumped = [orjson.dumps(plain(each), option=orjson.OPT_SORT_KEYS) for each in (one, other)]
    assert same(one, other) is (dumped[0] == dumped[1])
    assert same(one, deepcopy(one))
    assert not same([1], [True])
    assert same({"a": 1}, {"a": 1.0})


# The catalog, and what is not in it


@requirement("WOP-39")
@given(st.from_regex(r"[a-z]{2,8}(\.[a-zA-Z0-9_-]{1,8}){0,2}", fullmatch=True), json_values)
def test_an_unknown_type_is_stored_and_noted(kind, payload):
    if kind in dialect.kinds:
        return
    said = body(kind, payload)
    event = heard(said)
    assert event.body == said
    (fact,) = dialect.facts(event)
    assert isinstance(fact, Noted)
    assert (fact.label, fact.kind, fact.data) == (kind, kind, payload)
    assert fact.step == "work"


@requirement("WOP-1", "WOP-95")
@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_reader_that_knows_no_agent_sees_the_same_run(name):
    """An older reader meets agent.* as unknown types, or not at all; runs and nodes stay the same."""
    whole = LOGS[name]
    foreign = [
        {**each, "type": f"acme.{each['type']}"} if each["type"].startswith("agent.") else each
        for each in whole
    ]
    silent = [each for each in whole if not each["type"].startswith("agent.")]

    def life(bodies):
        shown = (fact for each in bodies for fact in facts(each))
        return [fact for fact in shown if type(fact).__name__ in ("Began", "Ended", "Moved")]

    assert life(whole) == life(foreign) == life(silent)


@requirement("WOP-1")
def test_a_run_without_agents_is_valid_and_reads_as_before():
    whole = sample("the-five-reasoning-events")
    bare = [each for each in deepcopy(whole) if not each["type"].startswith("agent.")]
    for sequence, each in enumerate(bare):
        each["sequence"] = sequence
        each["payload"].pop("agent", None)
    assert findings(bare) == []
    assert [type(fact).__name__ for each in bare for fact in facts(each)] == [
        "Began",
        "Began",
        "Ended",
        "Ended",
    ]


def test_the_contract_accepts_each_type_of_the_catalog_and_any_other():
    published = Draft202012Validator(contract(dialect), validate_formats=True)
    for bodies in LOGS.values():
        for each in bodies:
            assert published.is_valid(each), each
    assert not published.is_valid(body("agent.decided", {}))
    assert published.is_valid(body("agent.verified", {}))


@pytest.mark.parametrize("kind", ["good", "bad", "odd"])
def test_pydantic_judges_every_sample_as_the_derived_schema_does(kind):
    """But for integral floats, which are no integers to a strict model."""
    for path in samples.of(kind):
        if samples.dialect_of(path) != "openwop" or "integral" in path.stem or "@." in path.name:
            continue
        for line in samples.lines_of(path):
            said, _ = dialect.tolerate(orjson.loads(line))
            word = said.get("type")
            shape = (
                dialect.kinds.get(word, dialect.frame) if isinstance(word, str) else dialect.frame
            )
            try:
                shape.model_validate(said)
            except ValidationError:
                assert kind == "bad", line
            else:
                assert kind != "bad", line


# Whole logs, changed in one place


def change(name, at, **payload):
    """A good log with one payload changed; ... drops a key."""
    bodies = deepcopy(sample(name))
    changed = {**bodies[at]["payload"], **payload}
    bodies[at]["payload"] = {key: value for key, value in changed.items() if value is not ...}
    return bodies


def envelope(name, at, **keys):
    bodies = deepcopy(sample(name))
    changed = {**bodies[at], **keys}
    bodies[at] = {key: value for key, value in changed.items() if value is not ...}
    return bodies


def dropped(name, at):
    """A good log without one line, numbered anew."""
    bodies = deepcopy(sample(name))
    del bodies[at]
    for sequence, each in enumerate(bodies):
        each["sequence"] = sequence
    return bodies


FIVE = "the-five-reasoning-events"
DELTAS = "reasoning-told-in-deltas"
LOW = "low-confidence-becomes-a-clarification"
LEAD = "low-confidence-with-a-supervisor"
TOOLS = "tools-that-are-forbidden-fail-or-wait"
DISPATCH = "a-supervisor-dispatches-and-terminates"
SUPPRESSED = "escalation-suppressed-by-the-host"
DEAD = {"error": {"error": "e", "code": "e", "message": "m"}}
PIN = {"agentId": "core.conformance.reasoning-agent"}

MUTATIONS = [
    (FIVE, lambda: envelope(FIVE, 8, sequence=7), ["sequence-not-increasing"]),
    (FIVE, lambda: envelope(FIVE, 8, sequence=9), ["sequence-gap"]),
    (FIVE, lambda: dropped(FIVE, 0), ["first-not-run-started"]),
    (FIVE, lambda: [*sample(FIVE), body("acme.late", {}, 9, node=None, run="r1")], ["event-after-terminal"]),
    (FIVE, lambda: [*sample(FIVE), body("run.failed", DEAD, 9, node=None, run="r1")], ["second-terminal"]),
    (FIVE, lambda: envelope(FIVE, 6, causationId="evt-r0-1"), ["unknown-causation"]),
    (FIVE, lambda: envelope(FIVE, 6, type="agentDecided"), ["undotted-type"]),
    (FIVE, lambda: envelope(FIVE, 6, type="vendor.acme.decided"), ["reserved-type"]),
    (FIVE, lambda: envelope(FIVE, 8, nodeId=None), ["tolerated-envelope"]),
    (FIVE, lambda: envelope(FIVE, 8, sequence=..., seq=8), ["tolerated-envelope"]),
    (FIVE, lambda: envelope(FIVE, 8, payload=..., data={}), ["tolerated-envelope"]),
    (FIVE, lambda: envelope(FIVE, 8, payload=None), ["tolerated-envelope"]),
    (FIVE, lambda: change(FIVE, 3, toolName="openwop:other"), ["alias-mismatch"]),
    (FIVE, lambda: change(FIVE, 5, toAgentId="host:other"), ["alias-mismatch"]),
    (FIVE, lambda: change(FIVE, 2, reasoning=..., trace="old"), ["retired-field"]),
    (FIVE, lambda: change(FIVE, 0, tags="one"), ["published-schema"]),
    (FIVE, lambda: dropped(FIVE, 3), ["return-without-call"]),
    (FIVE, lambda: envelope(FIVE, 4, causationId=...), ["tool-causation"]),
    (FIVE, lambda: envelope(FIVE, 4, causationId="evt-r1-2"), ["tool-causation"]),
    (FIVE, lambda: change(FIVE, 4, **DEAD), ["result-and-error"]),
    (FIVE, lambda: change(FIVE, 4, result=...), ["neither-result-nor-error"]),
    (FIVE, lambda: dropped(FIVE, 4), ["call-not-returned"]),
    (FIVE, lambda: change(FIVE, 3, toolId="echo", toolName="echo"), ["tool-id-form"]),
    (FIVE, lambda: change(FIVE, 2, reasoning="x" * 2049), ["summary-too-long"]),
    (FIVE, lambda: change(FIVE, 6, confidence=0.69), ["escalation-missing"]),
    (FIVE, lambda: change(FIVE, 1, agent={**PIN, "version": "1", "channel": "c"}), ["version-and-channel"]),
    (FIVE, lambda: change(FIVE, 1, agent={"agentId": "urn:x"}), ["agent-id-form"]),
    (FIVE, lambda: change(FIVE, 1, agent={**PIN, "modelClass": "chat"}), ["published-model-class"]),
    (FIVE, lambda: change(FIVE, 6, decision="sk-" + "a" * 16), ["secret-shape"]),
    (DELTAS, lambda: change(DELTAS, 3, sequence=2), ["delta-order", "delta-order"]),
    (DELTAS, lambda: dropped(DELTAS, 3), ["delta-order"]),
    (DELTAS, lambda: change(DELTAS, 3, agentId="host:other"), ["delta-agent"]),
    (DELTAS, lambda: change(DELTAS, 5, agentId="host:other"), ["delta-agent"]),
    (DELTAS, lambda: dropped(DELTAS, 5), ["delta-not-closed"]),
    (DELTAS, lambda: envelope(DELTAS, 4, type="agent.reasoned", payload={**REASONED, "agentId": "core.conformance.streaming-reasoner"}), []),
    (LOW, lambda: envelope(LOW, 3, causationId=...), ["escalation-form"]),
    (LOW, lambda: envelope(LOW, 3, causationId="evt-r3-1"), ["escalation-form"]),  # the node is suspended for it
    (LOW, lambda: change(LOW, 2, confidence=0.7), ["escalation-not-needed"]),
    (LOW, lambda: change(LOW, 2, confidence=...), ["escalation-not-needed"]),
    (LOW, lambda: change(LOW, 0, configurable={"escalationThreshold": 0.5}), ["escalation-not-needed"]),
    (LEAD, lambda: envelope(LEAD, 7, causationId="evt-r4-5"), []),
    (LEAD, lambda: change(LEAD, 6, agentId="host:other"), ["orchestrator-changed"]),
    (LEAD, lambda: change(LEAD, 2, decision={"kind": "terminate"}), ["decision-after-terminate"]),
    (SUPPRESSED, lambda: dropped(SUPPRESSED, 3), ["escalation-missing"]),
    (DISPATCH, lambda: dropped(DISPATCH, 8)[:9], ["effect-before-decision"]),
    (DISPATCH, lambda: change(DISPATCH, 2, decision={"kind": "ask-user", "prompt": "?"}), ["effect-before-decision"]),
    (TOOLS, lambda: change(TOOLS, 2, agentId="core.system"), []),
    (TOOLS, lambda: change(TOOLS, 2, status="error"), ["return-without-call"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mutate", "found"),
    [(mutate, found) for _, mutate, found in MUTATIONS],
    ids=[
        f"{number}-{found[0] if found else 'nothing'}"
        for number, (*_, found) in enumerate(MUTATIONS)
    ],
)
def test_a_changed_log_gives_exactly_the_named_finding(mutate, found):
    assert names(mutate()) == found


def test_an_agent_that_asks_without_a_confidence_does_not_escalate():
    asked = {"kind": "clarification", "key": "k", "data": {"questions": [{"id": "q", "question": "?"}]}}  # fmt: skip
    assert names(log(("agent.decided", DECIDED), ("interrupt.requested", asked, 2))) == []
    sure = ("agent.decided", {**DECIDED, "confidence": 0.9})
    assert names(log(sure, ("interrupt.requested", asked, 2))) == ["escalation-not-needed"]


def test_two_actions_on_one_decision_are_one_too_many():
    bodies = sample(LOW)[:4]
    suppressed = {"kind": catalog.SUPPRESSED, "limit": 0.7, "observed": 0.5}
    bodies.append(body("cap.breached", suppressed, 4, 2, "low-conf-decider", "r3"))
    assert names(bodies) == ["escalation-duplicate"]


def test_every_finding_of_the_rules_has_an_odd_sample():
    marks = {samples.mark_of(p) for p in samples.of("odd") if samples.dialect_of(p) == "openwop"}
    assert set(state.LEVELS) <= marks


@pytest.mark.parametrize("name", sorted(LOGS))
def test_interleaved_runs_are_judged_apart(name):
    left = LOGS[name]
    right = [
        {**each, "runId": f"{each['runId']}-2", "eventId": f"{each['eventId']}-2"}
        | ({"causationId": f"{each['causationId']}-2"} if "causationId" in each else {})
        for each in left
    ]
    lint = Lint([dialect])
    mixed = [
        x for pair in zip(left, right, strict=True) for each in pair for x in lint.add(heard(each))
    ]
    mixed += [found for *_, found in lint.rest()]
    assert [each.level for each in mixed if each.level != "info"] == []


@given(st.sampled_from(sorted(LOGS)), st.data())
def test_what_is_left_over_can_be_asked_at_any_time(name, data):
    bodies = LOGS[name]
    cut = data.draw(st.integers(1, len(bodies)))
    state = None
    for each in bodies[:cut]:
        state, _ = dialect.rules(state, heard(each))
    assert dialect.rest(state) == dialect.rest(state)
    found = []
    for each in bodies[cut:]:
        state, more = dialect.rules(state, heard(each))
        found += more
    assert [each for each in found if each.level != "info"] == []


@pytest.mark.parametrize(
    ("configurable", "confidence", "found"),
    [
        (None, 0.7, []),
        (None, 0.6, ["escalation-missing"]),
        ({"escalationThreshold": 0.2}, 0.6, []),
        ({"escalationThreshold": 0.9}, 0.85, ["escalation-missing"]),
        ({"escalationThreshold": "high"}, 0.6, ["escalation-missing"]),
        ({"escalationThreshold": 7}, 0.7, []),
    ],
)
def test_the_threshold_of_a_run_goes_before_the_default(configurable, confidence, found):
    decided = ("agent.decided", {**DECIDED, "confidence": confidence})
    assert names(log(decided, configurable=configurable)) == found


# Secrets


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "a" * 16,
        "AIza" + "b" * 20,
        "eyJabcdefgh.abcdefgh.abcdefgh",
        "Authorization: Bearer abcd1234",
    ],
)
@pytest.mark.parametrize("place", ["value", "key", "list"])
def test_what_looks_like_a_secret_is_found_wherever_it_stands(secret, place):
    arguments = {"value": {"a": secret}, "key": {secret: 1}, "list": [[{"x": [secret]}]]}[place]
    beside = {"first": "plain", "then": arguments, "last": ["plain", {"a": "plain"}]}
    for nested in (arguments, beside, [beside, "plain"], [{"z": 1}, beside, {"y": {}}]):
        called = ("agent.toolCalled", {**CALLED, "arguments": nested})
        logged = log(called, ("agent.toolReturned", RETURNED, 2))
        assert "secret-shape" in names(logged)
        # Such a line is not carried whole by what it is converted to.
        whole = [dialect.carries(heard(body), ()) for body in logged]
        assert whole.count(False) == 1


@pytest.mark.parametrize(
    "text",
    ["[REDACTED:key]", "Bearer [REDACTED:key]", "task-" + "a" * 20, "sk-short", "a Bearer x"],
)
def test_what_is_masked_or_only_looks_near_is_no_secret(text):
    assert names(log(("agent.reasoned", {**REASONED, "reasoning": text}))) == []


# Tolerance

ENVELOPE = ["eventId", "runId", "type", "sequence", "seq", "payload", "data", "nodeId"]


@given(st.dictionaries(st.sampled_from(ENVELOPE), json_values | st.sampled_from(sorted(dialect.kinds))))  # fmt: skip
def test_no_object_is_too_odd_to_be_judged(said):
    mended, odd = dialect.tolerate(said)
    assert (mended is said) is not bool(odd)
    assert isinstance(check(orjson.dumps(said)), Event | Refusal)
    assert 0 <= dialect.claim(said) <= 2


@pytest.mark.parametrize("path", samples.of("good"), ids=samples.name_of)
def test_a_line_is_claimed_by_its_own_dialect_alone(path):
    claims = [dialect.claim(orjson.loads(line)) for line in samples.lines_of(path)]
    if samples.dialect_of(path) == "openwop":
        assert all(claim >= 1 for claim in claims)
    else:
        assert all(claim < 1 for claim in claims)


def test_a_suspension_takes_its_node_from_the_envelope_and_its_id_from_the_key():
    event = heard(body("node.suspended", {"key": "work:0:0"}))
    assert event.body["payload"]["nodeId"] == "work"
    assert event.body["payload"]["interruptId"] == "int:work:0:0"
    assert {each.name for each in event.odd} == {"tolerated-envelope"}
    assert heard(body("node.suspended", {})).body["payload"]["interruptId"] == "int:work"


def test_a_question_and_its_answer_have_one_id_whatever_the_host_calls_them():
    for bodies in LOGS.values():
        asked = [f.question_id for b in bodies for f in facts(b) if isinstance(f, Asked)]
        answers = [
            f.question_id for b in bodies for f in facts(b) if type(f).__name__ == "Answered"
        ]
        assert answers == asked[: len(answers)]


# Saying

words = st.text(max_size=12)
maybe = st.none() | words
fact_of = {
    "what": st.sampled_from(["run", "agent", "step"]),
    "from_": maybe,
    "to": words,
    "phase": st.sampled_from(["working", "waiting", "done", "failed"]),
    "tool": words,
    "call_id": st.sampled_from(["c1", "c2", ""]),
    "role": st.sampled_from(["user", "assistant", "system", "world", "thought", "belief", "note"]),
    "blocks": st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": words}) | st.fixed_dictionaries({"type": st.just("stream"), "chunk": json_values}), max_size=2).map(tuple),
    "question_id": st.sampled_from(["q1", "int:work:0:0", ""]),
    "kind": st.sampled_from(["sub-run", "fork", "handoff", "message", "alias"]),
    "label": words,
}  # fmt: skip
optional = {
    "agent": maybe,
    "step": maybe,
    "task": maybe,
    "outcome": maybe,
    "passed": st.none() | st.booleans(),
    "error": json_values,
    "reason": maybe,
    "input": json_values,
    "output": json_values,
    "ok": st.none() | st.booleans(),
    "seconds": st.none() | st.floats(-1, 1e6),
    "status": maybe,
    "message_id": maybe,
    "verdict": json_values | st.just({"kind": "next-worker", "nextWorkerIds": ["w"]}),
    "confidence": st.none() | st.floats(-1, 2),
    "name": st.sampled_from([None, "runOrchestrator"]),
    "text": maybe,
    "schema": json_values,
    "answer": json_values,
    "child": maybe | st.just({"family": "awf", "run": "x"}),
    "context": json_values,
    "usage": st.none() | st.dictionaries(st.sampled_from(["input_tokens", "output_tokens", "total_tokens"]), st.integers(-1, 9) | words),
    "cost_usd": st.none() | st.floats(-1, 9),
    "data": json_values,
    "copied": st.booleans(),
}  # fmt: skip


def one_fact(fact):
    fields = fact.__dataclass_fields__
    needed = {name: fact_of[name] for name in fact_of if name in fields}
    free = {name: optional[name] for name in optional if name in fields}
    if fact is Spent:
        needed = {}
    if fact is Noted:
        needed.pop("kind")
    return st.fixed_dictionaries(needed, optional=free).map(lambda said: fact(**said))


def told(facts_, run="run-1"):
    """The facts in this dialect's words."""
    memory, said = {}, []
    for fact in facts_:
        scene = Scene(run, "2026-05-11T09:00:00.123456Z", len(said) + 1, f"id-{len(said)}", memory)
        sentence = dialect.write(fact, scene)
        if sentence is not None:
            said.append(sentence)
    return said


@given(st.lists(st.one_of(*map(one_fact, FACTS)), max_size=12))
def test_every_written_line_passes_the_check(facts_):
    said = told(facts_)
    for sequence, sentence in enumerate(said):
        event = heard(sentence)
        assert event.odd == ()
        assert list(sentence)[:5] == ["eventId", "runId", "sequence", "timestamp", "type"]
        assert sentence["sequence"] == sequence
        if sentence["type"].startswith("agent.tool"):
            assert sentence["payload"]["toolId"] == sentence["payload"]["toolName"]
            assert all(sentence["payload"]["toolId"].partition(":")[::2])
        assert not {"summary", "trace", "tokenCount"} & sentence["payload"].keys()


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_log_that_is_written_again_means_the_same(name):
    original = [fact for each in LOGS[name] for fact in facts(each)]
    again = told(original)
    # The options of a run are no fact, so its own threshold is lost.
    options = LOGS[name][0]["payload"].get("configurable", {})
    lost = {"escalation-missing"} if options.get("escalationThreshold", 1) < state.THRESHOLD else {}
    assert {each.name for each in findings(again) if each.level == "error"} <= {*lost}
    kept = (Called, Returned, Decided, Noted)
    repeated = [fact for each in again for fact in facts(each) if isinstance(fact, kept)]
    said = [fact for fact in original if isinstance(fact, kept)]
    assert [(type(f), f.agent, f.step) for f in repeated] == [
        (type(f), f.agent, f.step) for f in said
    ]


def test_a_call_and_its_return_are_written_as_a_pair():
    called = Called(agent="coder", step="s", tool="Read", call_id="c", input={"a": 1})
    returned = Returned(agent="coder", step="s", call_id="c", ok=False, error="gone", seconds=1.5)
    call, back = told([called, returned])
    assert call["payload"]["agentId"] == "host:coder"
    assert call["payload"]["toolId"] == "openwop:Read"
    assert back["causationId"] == call["eventId"]
    assert back["payload"]["toolId"] == "openwop:Read"
    assert back["payload"]["error"] == {
        "error": "tool_failed",
        "code": "tool_failed",
        "message": "gone",
    }
    assert back["payload"]["durationMs"] == 1500


def test_a_question_after_an_unsure_decision_names_it_as_its_cause():
    decided = Decided(agent="coder", step="s", verdict="go", confidence=0.4)
    asked = Asked(agent="coder", step="s", question_id="q", text="Sure?")
    first, second = told([decided, asked])
    assert second["causationId"] == first["eventId"]
    assert "escalation-missing" not in names([first, second])


def test_a_score_alone_is_a_decision():
    (said,) = told([Decided(agent="judge", score=0.5)])
    assert said["payload"]["decision"] == {"score": 0.5}


def test_a_child_run_is_dispatched_only_by_a_decision():
    child = Linked(kind="sub-run", step="s", child={"family": "awf", "run": "x"})
    (note,) = told([child])
    assert note["type"] == "log.appended"
    assert note["payload"]["fields"]["childRunId"] == "x"
    verdict = {"kind": "next-worker", "nextWorkerIds": ["w"]}
    decided, dispatched = told([Decided(by="lead", name="runOrchestrator", verdict=verdict), child])
    assert decided["type"] == "runOrchestrator.decided"
    assert (dispatched["type"], dispatched["causationId"]) == (
        "node.dispatched",
        decided["eventId"],
    )
    (own,) = told([Decided(by="lead", name="runOrchestrator", verdict={"kind": "handoff"})])
    assert own["type"] == "agent.decided"


def test_a_note_of_this_dialect_is_written_as_it_was():
    limit = {"kind": "run-duration", "limit": 1, "observed": 2}
    (said,) = told([Noted(label="cap.breached", kind="cap.breached", data=limit)])
    assert (said["type"], said["payload"]) == ("cap.breached", limit)
    (said,) = told([Noted(label="cap.breached", kind="cap.breached", data={"kind": "other"})])
    assert said["type"] == "log.appended"
    assert told([Fact()]) == []


@pytest.mark.parametrize(
    ("at", "ts"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2016-12-31T23:59:60.5Z", 1483228800500),
        ("2026-05-11T09:00:00.123456Z", 1778490000123),
        ("0000-01-01T00:00:00Z", 0),
    ],
)
def test_a_message_is_dated_to_the_millisecond(at, ts):
    said = Said(agent="host:a", role="assistant", blocks=({"type": "text", "text": "hi"},))
    sentence = dialect.write(said, Scene("r", at, 1, "e"))
    assert sentence["payload"]["value"]["ts"] == ts
    assert isinstance(check(orjson.dumps(sentence)), Event)


def test_what_looks_like_a_secret_is_redacted_wherever_it_stands():
    key = "sk-" + "a1B2" * 12
    assert redacted(f"use {key} now") == "use [REDACTED:key] now"
    assert redacted([key, {"plain": [key], "api_key": "x", key: 1, "n": 2}]) == [
        "[REDACTED:key]",
        {"plain": ["[REDACTED:key]"], "api_key": "[REDACTED:api_key]", "[REDACTED:key]": 1, "n": 2},
    ]
