"""What the transcript's dialect promises, requirement by requirement."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from support import sampling as samples
from tracklog.dialects import Scene, awf
from tracklog.dialects.awf.shapes import AnyBlock
from tracklog.dialects.checking import checker
from tracklog.dialects.rules import Lint
from tracklog.dialects.schemas import contract, schema_of
from tracklog.home import registry
from tracklog.model.errors import InvalidEvent
from tracklog.model.event import Event, Refusal
from tracklog.model.fact import (
    BLOCK_KEYS,
    Began,
    Called,
    Ended,
    Linked,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)

requirement = pytest.mark.requirement

RUN = "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f"
CHILD = "9d2f7f5c-51a0-4b8e-a3c4-6f0e1d2c3b4a"
STEP = {"name": "build", "kind": "agent"}
MESSAGE = {"role": "assistant", "blocks": []}
TOOL = {
    "name": "read", "call_id": "c-1", "input": {"path": "a.py"}, "output": None,
    "fidelity": "router",
    "blocks": [
        {
            "type": "tool_use", "fidelity": "router", "tool_name": "read", "tool_id": "c-1",
            "tool_input": {"path": "a.py"},
        }
    ],
}  # fmt: skip
PAYLOADS = {
    "run.started": STEP,
    "run.completed": STEP,
    "step.started": STEP,
    "step.completed": STEP,
    "step.call_workflow.started": STEP,
    "step.call_workflow.completed": STEP,
    "message.user": {**MESSAGE, "role": "user"},
    "message.assistant": MESSAGE,
    "tool.call": TOOL,
    "tool.result": TOOL,
}
BLOCKS = {
    "text": {"type": "text", "fidelity": "agent_emitted", "text": "ok"},
    "thinking": {"type": "thinking", "fidelity": "agent_emitted", "thinking": "hm"},
    "tool_use": {
        "type": "tool_use", "fidelity": "agent_emitted", "tool_name": "read", "tool_id": "t-1",
        "tool_input": None,
    },
    "tool_result": {
        "type": "tool_result", "fidelity": "agent_emitted", "tool_id": "t-1", "tool_content": None,
    },
    "command": {"type": "command", "fidelity": "router", "command": "make"},
    "stream": {"type": "stream", "fidelity": "agent_emitted", "chunk": "{}"},
}  # fmt: skip

dialect = registry.dialect("awf")
check = checker(dialect)


def body_of(kind="message.assistant", **changes):
    body = {
        "seq": 1, "run_id": RUN, "type": kind, "path": "", "iteration": 0,
        "timestamp": "2026-05-05T09:00:00.000001Z", "payload": PAYLOADS.get(kind),
    }  # fmt: skip
    if kind.startswith("step.call_workflow."):
        body["child_run_id"] = CHILD
    return {**body, **changes}


def said_by(*blocks, **extra):
    return {"role": "assistant", "blocks": list(blocks), **extra}


def heard(body) -> Event:
    event = check(orjson.dumps(body))
    assert isinstance(event, Event), event
    return event


def pointers(body) -> list[str]:
    refusal = check(orjson.dumps(body))
    return [p.pointer for p in refusal.problems] if isinstance(refusal, Refusal) else []


def facts_of(body):
    return list(dialect.facts(heard(body)))


def findings(*bodies) -> list[str]:
    """What is surprising about these, numbered and put between a start and an end."""
    run = [body_of("run.started"), *bodies, body_of("run.completed")]
    lint = Lint([dialect])
    names = []
    for number, body in enumerate(run, 1):
        names += [found.name for found in lint.add(heard({**body, "seq": number}))]
    return names + [found.name for _, _, found in lint.rest()]


@requirement("AWF-15")
def test_the_ten_types_are_the_published_vocabulary():
    assert list(awf.KINDS) == list(PAYLOADS)
    branches = contract(dialect)["$defs"]
    assert branches["FrameOther"]["properties"]["type"]["not"] == {"enum": list(PAYLOADS)}


@requirement("AWF-26")
def test_the_six_block_types_are_the_published_vocabulary():
    assert list(awf.BLOCK_TYPES) == list(BLOCKS) == list(BLOCK_KEYS)
    other = contract(dialect)["$defs"]["OtherBlock"]
    assert other["properties"]["type"]["not"] == {"enum": list(BLOCKS)}


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize(
    "key",
    [
        pytest.param("seq", marks=requirement("AWF-77")),
        pytest.param("run_id", marks=requirement("AWF-9")),
        pytest.param("type", marks=requirement("AWF-77")),
        pytest.param("path", marks=requirement("AWF-10", "AWF-77")),
        pytest.param("timestamp", marks=requirement("AWF-11")),
        pytest.param("payload", marks=requirement("AWF-12")),
    ],
)
def test_every_event_of_every_type_has_the_envelope(kind, key):
    body = body_of(kind)
    assert heard(body).kind == kind
    del body[key]
    assert pointers(body) == [f"/{key}"]


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_line_without_iteration_is_read_as_0_and_the_published_schema_still_has_it(kind):
    body = body_of(kind)
    del body["iteration"]
    event = heard(body)
    assert event.body["iteration"] == 0
    assert [finding.name for finding in event.odd] == ["no-iteration"]
    assert "iteration" in schema_of(dialect.kinds[kind])["required"]


GUIDE = {"seq": 1, "run_id": RUN, "timestamp": "2026-05-05T09:00:00Z"}
USE = {key: BLOCKS["tool_use"][key] for key in ("tool_name", "tool_id", "tool_input")}


@pytest.mark.parametrize(
    "body",
    [
        {"type": "run.started", "path": "", "payload": {}},
        {"type": "run.completed", "path": "", "payload": {}},
        {"type": "run.completed", "path": "", "payload": {"error": "boom"}},
        {"type": "step.started", "path": "all.build", "payload": {"kind": "agent"}},
        {"type": "step.completed", "path": "all.build", "payload": {}},
        {"type": "step.call_workflow.started", "path": "d", "child_run_id": CHILD, "payload": {}},
        {"type": "step.call_workflow.completed", "path": "d", "payload": {}},
        {"type": "message.user", "path": "d", "payload": {"prompt": "a", "system_prompt": "b"}},
        {"type": "message.assistant", "path": "d", "payload": {"blocks": [BLOCKS["text"]]}},
        {"type": "tool.call", "path": "d", "payload": {"fidelity": "router", **USE}},
        {
            "type": "tool.call",
            "path": "d",
            "payload": {"fidelity": "router", "blocks": [BLOCKS["tool_use"]]},
        },
        {
            "type": "tool.result",
            "path": "d",
            "payload": {"fidelity": "router", "blocks": [BLOCKS["tool_result"]]},
        },
    ],
    ids=lambda body: body["type"],
)
def test_a_line_in_the_words_of_the_guide_is_accepted_with_a_finding(body):
    event = heard({**GUIDE, **body})
    assert {"no-iteration"} < {finding.name for finding in event.odd} or event.kind in (
        "run.started",
        "run.completed",
    )
    assert all(finding.level == "warning" for finding in event.odd)
    facts = list(dialect.facts(event))
    assert facts
    if event.kind.startswith("tool."):
        (fact,) = facts
        assert fact.call_id == "t-1"
    if event.kind == "step.started":
        assert event.body["payload"]["name"] == "build"


RESULT = {key: value for key, value in BLOCKS["tool_result"].items() if key != "tool_id"}


@pytest.mark.parametrize("envelope", [{}, {"iteration": 0}], ids=["brief", "whole"])
@pytest.mark.parametrize(
    ("kind", "said", "filled"),
    [
        ("tool.call", {"name": "read", "call_id": "c", "input": {"a": 1}}, "output"),
        ("tool.result", {"name": "read", "call_id": "c", "output": "x"}, "input"),
    ],
)
def test_a_tool_payload_without_blocks_need_not_say_what_only_its_other_end_knows(
    envelope, kind, said, filled
):
    event = heard(
        {**GUIDE, **envelope, "type": kind, "path": "d", "payload": {"fidelity": "router", **said}}
    )
    assert "no-blocks" in {finding.name for finding in event.odd}
    assert event.body["payload"][filled] is None
    (fact,) = dialect.facts(event)
    assert (fact.tool, fact.call_id) == ("read", "c")


@pytest.mark.parametrize(
    "payload", [{"tool_content": "x"}, {"output": "x"}, {"blocks": [RESULT]}], ids=repr
)
def test_a_brief_result_without_an_id_is_read_and_a_call_without_one_is_not(payload):
    body = {**GUIDE, "type": "tool.result", "path": "d"}
    event = heard({**body, "payload": {"fidelity": "router", **payload}})
    assert "brief-payload" in {finding.name for finding in event.odd}
    (fact,) = dialect.facts(event)
    assert fact.synthetic_id is True
    call = {"fidelity": "router", "tool_name": "read", "tool_input": {}}
    assert "/payload/call_id" in pointers({**body, "type": "tool.call", "payload": call})


def test_a_line_with_iteration_must_have_what_the_field_reference_has():
    assert pointers(body_of("step.started", payload={"kind": "agent"})) == ["/payload/name"]
    assert pointers(body_of("message.assistant", payload={"blocks": []})) == ["/payload/role"]


@requirement("AWF-12")
@pytest.mark.parametrize("kind", PAYLOADS)
def test_the_type_alone_fixes_the_class_of_the_payload(kind):
    mine = PAYLOADS[kind]
    for other in PAYLOADS.values():
        fits = other.keys() >= mine.keys()
        assert bool(pointers(body_of(kind, payload=other))) is not fits


@requirement("AWF-11")
@pytest.mark.parametrize(
    "written", ["2026-05-05T09:00:00", "2026-02-30T09:00:00Z", "2026-05-05T09:00:00Z\n", 0, None]
)
def test_a_time_that_is_not_utc_on_the_calendar_is_refused(written):
    assert pointers(body_of(timestamp=written)) == ["/timestamp"]


@requirement("AWF-11")
@given(
    st.datetimes(datetime(1000, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - the zone is added
    st.integers(-14 * 60, 14 * 60),
    st.integers(0, 10**9 - 1),
)
def test_a_local_time_is_read_in_utc_to_the_nanosecond(moment, minutes, nanos):
    local = moment.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=minutes)))
    sign, size = ("-" if minutes < 0 else "+"), abs(minutes)
    written = f"{local.isoformat()[:19]}.{nanos:09}{sign}{size // 60:02}:{size % 60:02}"
    event = heard(body_of(timestamp=written))
    assert event.at == f"{local.astimezone(UTC).isoformat()[:19]}.{nanos:09}Z"
    assert [finding.name for finding in event.odd] == ["time-local"]
    assert orjson.loads(event.line)["timestamp"] == written


@requirement("AWF-25")
@given(
    st.text(min_size=1).filter(lambda kind: kind not in PAYLOADS),
    st.none() | st.booleans() | st.text() | st.lists(st.integers(0, 9)) | st.just({"role": "x"}),
)
def test_an_unknown_type_is_stored_and_noted_with_the_type_intact(kind, payload):
    event = heard(body_of(kind, payload=payload))
    assert event.kind == event.body["type"] == kind
    assert list(dialect.facts(event)) == [Noted(label=kind, kind=kind, data=payload)]
    assert findings(body_of(kind, payload=payload)) == ["unknown-type"]


@given(
    st.text().filter(lambda name: name not in BLOCKS),
    st.dictionaries(st.text().filter(lambda key: key not in ("type", "fidelity")), st.text()),
)
def test_an_unknown_block_is_stored_intact(name, rest):
    block = {**rest, "type": name}
    (said,) = facts_of(body_of(payload=said_by(block)))
    assert said.blocks == (block,)
    assert findings(body_of(payload=said_by(block))) == ["unknown-block"]


OWN_KEYS = [
    pytest.param("text", marks=requirement("AWF-27")),
    pytest.param("thinking", marks=requirement("AWF-28")),
    pytest.param("tool_use", marks=requirement("AWF-29")),
    pytest.param("tool_result", marks=requirement("AWF-30")),
    pytest.param("command", marks=requirement("AWF-31")),
    pytest.param("stream", marks=requirement("AWF-32")),
]


@pytest.mark.parametrize("name", OWN_KEYS)
def test_a_block_carries_its_own_keys_by_the_contract(name):
    published = Draft202012Validator(schema_of(awf.KINDS["message.assistant"]))
    block = BLOCKS[name]
    assert published.is_valid(body_of(payload=said_by(block)))
    for key in BLOCK_KEYS[name]:
        absent = {k: v for k, v in block.items() if k != key}
        assert not published.is_valid(body_of(payload=said_by(absent)))
        read = heard(body_of(payload=said_by(absent)))
        assert [finding.name for finding in read.odd] == ["block-key"]
        assert read.body["payload"]["blocks"][0][key] in ("", None)


@requirement("AWF-33")
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_without_fidelity_is_refused(name):
    block = {k: v for k, v in BLOCKS[name].items() if k != "fidelity"}
    assert pointers(body_of(payload=said_by(block))) == ["/payload/blocks/0/fidelity"]


@requirement("AWF-34")
def test_the_two_words_of_fidelity_are_the_published_ones():
    definitions = contract(dialect)["$defs"].values()
    marks = [shape["properties"].get("fidelity", {}).get("enum") for shape in definitions]
    assert [mark for mark in marks if mark] == [["router", "agent_emitted"]] * 8


@requirement("AWF-34")
@given(
    st.sampled_from(list(BLOCKS)),
    st.text() | st.none() | st.sampled_from(["router", "agent_emitted", "Router", "router\n"]),
)
def test_fidelity_is_one_of_two_words(name, fidelity):
    known = fidelity in ("router", "agent_emitted")
    block = {**BLOCKS[name], "fidelity": fidelity}
    found = pointers(body_of(payload=said_by(block)))
    assert set(found) == (set() if known else {"/payload/blocks/0/fidelity"})
    tool = pointers(body_of("tool.call", payload={**TOOL, "fidelity": fidelity}))
    assert set(tool) == (set() if known else {"/payload/fidelity"})


@requirement("AWF-34")
def test_the_contract_knows_the_two_words_and_no_third():
    shapes = contract(awf.dialect)["$defs"].values()
    words = [
        shape["properties"]["fidelity"]["enum"]
        for shape in shapes
        if "fidelity" in shape["properties"]
    ]
    assert len(words) == len(BLOCKS) + 2  # opaque thinking, and the payload of a tool
    assert all(pair == ["router", "agent_emitted"] for pair in words)


@pytest.mark.parametrize(
    ("fidelity", "known_how"),
    [
        pytest.param("router", "observed", marks=requirement("AWF-35")),
        pytest.param("agent_emitted", "reported", marks=requirement("AWF-36")),
    ],
)
def test_the_fidelity_of_a_call_is_a_fact(fidelity, known_how):
    blocks = [
        {**BLOCKS[name], "fidelity": fidelity} for name in ("tool_use", "tool_result", "text")
    ]
    told = facts_of(body_of(payload=said_by(*blocks)))
    told += facts_of(body_of("tool.call", payload={**TOOL, "fidelity": fidelity}))
    told += facts_of(body_of("tool.result", payload={**TOOL, "fidelity": fidelity}))
    assert [type(fact) for fact in told] == [Called, Returned, Said, Called, Returned]
    assert {fact.fidelity for fact in told} == {known_how}


@requirement("AWF-74")
@pytest.mark.parametrize("kind", ["tool.call", "tool.result"])
def test_the_blocks_of_tool_payloads_become_facts_once(kind):
    absent = {k: v for k, v in TOOL.items() if k != "blocks"}
    assert "blocks" in schema_of(dialect.kinds[kind])["$defs"]["Tool"]["required"]
    event = heard(body_of(kind, payload=absent))
    assert [finding.name for finding in event.odd] == ["no-blocks"]
    (block,) = event.body["payload"]["blocks"]
    assert (block["tool_id"], block["fidelity"]) == ("c-1", "router")
    assert list(dialect.facts(event)) == facts_of(body_of(kind))
    assert len(facts_of(body_of(kind))) == 1


@requirement("AWF-77")
def test_a_call_and_its_result_are_matched_by_their_id():
    (called,) = facts_of(body_of("tool.call"))
    result = {**TOOL, "output": "x = 1"}
    result["blocks"] = [{**BLOCKS["tool_result"], "tool_id": "c-1", "fidelity": "router"}]
    (returned,) = facts_of(body_of("tool.result", payload=result))
    assert called.call_id == returned.call_id == "c-1"
    assert findings(body_of("tool.call"), body_of("tool.result", payload=result)) == []
    assert findings(body_of("tool.result", payload=result)) == ["tool-orphan"]
    assert findings(body_of("tool.call")) == ["tool-dangling"]


@requirement("AWF-19", "AWF-67")
@pytest.mark.parametrize("kind", ["step.call_workflow.started", "step.call_workflow.completed"])
def test_a_sub_run_is_named_at_the_top_of_the_event(kind):
    body = body_of(kind)
    body.pop("child_run_id")
    assert pointers(body) == ["/child_run_id"]
    inside = body_of(kind, payload={**STEP, "child_run_id": CHILD})
    inside.pop("child_run_id")
    assert pointers(inside) == ["/child_run_id"]


def test_parent_and_child_name_each_other():
    linked, began = facts_of(body_of("step.call_workflow.started", path="deploy"))
    assert linked == Linked(kind="sub-run", child=CHILD, step="deploy")
    assert began == Began(what="step", step="deploy")
    child = body_of("run.started", run_id=CHILD, parent_run_id=RUN)
    assert facts_of(child)[1] == Linked(kind="sub-run", parent=RUN)


GOOD = [path for path in samples.of("good") if samples.dialect_of(path) == "awf"]


def lines_of_kind(kind):
    found = [orjson.loads(line) for path in GOOD for line in samples.lines_of(path)]
    return [body for body in found if body["type"] == kind]


@requirement("AWF-64")
def test_assistant_text_is_read_from_the_blocks_of_the_payload():
    texts = [
        block["text"]
        for body in lines_of_kind("message.assistant")
        for block in body["payload"]["blocks"]
        if block["type"] == "text"
    ]
    assert "Looks fine." in texts
    assert pointers(body_of(payload={"role": "assistant", "text": "x"})) == ["/payload/blocks"]


@requirement("AWF-65")
def test_the_fidelity_of_a_call_stands_in_its_payload():
    marks = {body["payload"]["fidelity"] for body in lines_of_kind("tool.call")}
    assert marks == {"router", "agent_emitted"}
    absent = {k: v for k, v in TOOL.items() if k != "fidelity"}
    assert pointers(body_of("tool.call", payload=absent)) == ["/payload/fidelity"]


@requirement("AWF-66")
def test_the_kind_of_a_step_stands_in_its_payload():
    kinds = {body["payload"]["kind"] for body in lines_of_kind("step.started")}
    assert kinds >= {"agent", "command", "terminal", "parallel", "for_each", "while", "operation"}
    assert pointers(body_of("step.started", payload={"name": "x"})) == ["/payload/kind"]


blocks_near = st.builds(
    lambda block, changes, dropped: {k: v for k, v in {**block, **changes}.items() if k != dropped},
    st.sampled_from(list(BLOCKS.values())),
    st.dictionaries(
        st.sampled_from(
            ["type", "fidelity", "text", "thinking", "opaque", "tool_id", "chunk", "x"]
        ),
        st.none() | st.sampled_from(["router", "text", "thinking", "image", "", "stream"]),
        max_size=2,
    ),
    st.sampled_from(["type", "fidelity", "text", "thinking", "tool_input", "tool_content", ""]),
)


@given(blocks_near)
def test_model_and_schema_agree_on_every_block(block):
    adapter = TypeAdapter(AnyBlock)
    try:
        adapter.validate_python(block)
        accepted = True
    except ValidationError:
        accepted = False
    assert Draft202012Validator(adapter.json_schema()).is_valid(block) is accepted


def test_a_null_payload_of_a_run_event_says_nothing_about_success():
    for kind, expected in (
        ("run.started", Began(what="run")),
        ("run.completed", Ended(what="run")),
    ):
        body = body_of(kind, payload=None)
        assert [finding.name for finding in heard(body).odd] == ["payload-null"]
        assert facts_of(body) == [expected]
    assert pointers(body_of("step.started", payload=None)) == ["/payload"]


def test_a_boolean_result_is_one_only_under_our_own_mark():
    ended = body_of("step.completed", payload={**STEP, "result": True})
    assert findings(body_of("step.started"), ended) == ["result-bool"]
    mark = {**STEP, "producer": "tracklog/0.1"}
    resumed = body_of("run.started", payload=mark, seam={"after_seq": 1, "reason": "reopen"})
    assert findings(resumed, body_of("step.started"), ended) == []


def test_a_capitalised_output_is_read_in_lower_case_and_only_that():
    output = {"Content": [{"Type": "text", "Text": "no"}], "IsError": True}
    (returned,) = facts_of(body_of("tool.result", payload={**TOOL, "output": output}))
    assert returned.output == {"content": [{"type": "text", "text": "no"}], "is_error": True}
    assert returned.ok is False
    own = {"Content": "mine", "Name": "x"}
    (returned,) = facts_of(body_of("tool.result", payload={**TOOL, "output": own}))
    assert returned.output == own


def test_blocks_become_facts_in_their_order_once_each():
    order = ["thinking", "text", "tool_use", "tool_result", "text", "stream"]
    told = facts_of(body_of(payload=said_by(*(BLOCKS[name] for name in order))))
    assert [type(fact) for fact in told] == [Said, Called, Returned, Said]
    heard_blocks = [
        block["type"] for fact in told if isinstance(fact, Said) for block in fact.blocks
    ]
    assert heard_blocks == ["thinking", "text", "text", "stream"]
    assert {fact.message_id for fact in told if isinstance(fact, Said)} == {"1"}


@pytest.mark.parametrize("marked", [True, False])
def test_the_second_text_of_a_user_is_the_system_prompt(marked):
    prompt, system = ({**BLOCKS["text"], "text": text} for text in ("do it", "be brief"))
    if marked:
        prompt |= {"part": "prompt"}
        system |= {"part": "system_prompt"}
    payload = {"role": "user", "blocks": [prompt, system]}
    told = facts_of(body_of("message.user", payload=payload))
    assert [(fact.role, fact.blocks) for fact in told] == [
        ("user", (prompt,)),
        ("system", (system,)),
    ]


def test_the_cost_of_a_reply_is_a_fact():
    usage = {"input_tokens": 10, "output_tokens": 5}
    extra = {"usage": usage, "cost_usd": 0.5, "provider": "codex", "model": "m-1"}
    _, spent = facts_of(body_of(payload=said_by(BLOCKS["text"], **extra)))
    assert spent == Spent(provider="codex", model="m-1", usage=usage, cost_usd=0.5)
    (said,) = facts_of(body_of(payload=said_by(BLOCKS["text"], usage=[1], cost_usd=True)))
    assert isinstance(said, Said)


def test_an_identity_is_the_number_and_the_cause_is_the_step():
    event = heard(body_of(seq=7, step_seq=3, path="a.b"))
    assert (event.id, event.cause, event.actor) == ("7", "3", "a.b")
    assert heard(body_of(step_seq="3")).cause is None
    floating = heard(body_of(seq=7.0, step_seq=3.0, path="a.b"))
    assert (floating.id, floating.cause) == (event.id, event.cause) == ("7", "3")
    assert heard(body_of(timestamp="0001-01-01T00:00:00Z")).at is None


def test_steps_are_paired_by_their_number_then_by_path_and_iteration():
    def step(end, **extra):
        return body_of(f"step.{'completed' if end else 'started'}", path="a", **extra)

    assert findings(step(False), step(False), step(True, step_seq=2), step(True)) == []
    assert findings(step(False, iteration=1), step(True, iteration=1)) == []
    elsewhere = body_of("step.completed", path="par.a", step_seq=2)
    assert findings(step(False), elsewhere) == []
    assert findings(step(False), step(True, iteration=1)) == ["step-orphan", "step-open"]
    assert findings(step(False), step(True), step(True)) == ["step-orphan"]


def test_an_unknown_type_is_a_finding_once_per_run():
    assert findings(body_of(colour="red"), body_of(colour="blue")) == ["unknown-key"]


# A high surrogate before a low one is one character in JSON, and two in Python.
lone = st.text(st.characters()).filter(
    lambda word: not re.search("[\ud800-\udbff][\udc00-\udfff]", word)
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | lone,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(lone, inner, max_size=4),
)


KNOWN_EXTRAS = {
    "run": "schema_version producer inputs_sha256 resumed status exit_code duration_ms had_output"
    " synthetic truncated",
    "step": "blocks status exit_code duration_ms had_output synthetic output stderr truncated",
    "message": "provider provider_version model provider_session_id status error errors exit_code"
    " duration_ms stop_reason turns usage cost_usd report stderr_tail turn final truncated",
    "tool": "provider_call_id tool_server duration_ms is_error truncated",
    "block": "part turn message_id is_error exit_code tool_name tool_id_synthetic tool_server"
    " parent_tool_id opaque signature partial refusal provider_type truncated",
    "envelope": "step_seq attempt frames elapsed_ms span_id parent_span_id seam lost chain",
}
"""The optional keys of the format, by where they stand."""


def extended(place: str, key: str) -> dict:
    """An event that has one more key there."""
    match place:
        case "envelope":
            return body_of(**{key: None})
        case "block":
            return body_of(payload=said_by({**BLOCKS["text"], key: None}))
        case "message":
            return body_of(payload={**MESSAGE, key: None})
        case "tool":
            return body_of("tool.call", payload={**TOOL, key: None})
        case "step":
            return body_of("step.started", payload={**STEP, key: None})
        case _:
            return body_of("run.completed", payload={**STEP, key: None})


@pytest.mark.parametrize("place", KNOWN_EXTRAS)
def test_each_optional_key_is_known_in_its_place_and_others_are_found(place):
    for key in KNOWN_EXTRAS[place].split():
        assert "unknown-key" not in findings(extended(place, key)), key
    assert "unknown-key" in findings(extended(place, "colour"))


def test_a_call_is_written_with_its_provider_and_its_server():
    def said_of(**more):
        scene = Scene(RUN, "2026-05-05T09:00:00.1Z", 1, "id", {})
        return dialect.write(Called(tool="read", call_id="c", **more), scene)["payload"]

    assert said_of(provider_call_id="p", tool_server="s").items() >= {
        "provider_call_id": "p", "tool_server": "s",
    }.items()  # fmt: skip
    assert not {"provider_call_id", "tool_server"} & said_of().keys()


@requirement("AWF-7")
@given(json_values)
def test_a_canonical_line_is_one_line_and_reads_back_equal(value):
    body = body_of("tool.call", payload={**TOOL, "input": value})
    line = awf.canonical(body)
    assert json.loads(line) == body
    assert len(line.decode().splitlines()) == 1


@given(st.permutations(["seq", "run_id", "type", "path", "iteration", "timestamp", "payload", "x"]))
def test_a_canonical_line_has_the_keys_in_their_order_and_the_chain_last(keys):
    whole = {
        **body_of(payload=said_by(dict(reversed(BLOCKS["tool_use"].items())), model="m")),
        "x": 1,
    }
    body = {"chain": "00", **{key: whole[key] for key in keys}, "parent_run_id": CHILD}
    body["payload"] = dict(reversed(body["payload"].items()))
    read = json.loads(awf.canonical(body))
    assert list(read) == [
        "seq", "run_id", "parent_run_id", "type", "path", "iteration", "timestamp", "payload",
        "x", "chain",
    ]  # fmt: skip
    assert list(read["payload"]) == ["role", "blocks", "model"]
    (block,) = read["payload"]["blocks"]
    assert list(block) == ["type", "fidelity", "tool_name", "tool_id", "tool_input"]
    assert next(iter(body)) == "chain"


def test_what_breaks_lines_or_has_no_utf8_is_escaped():
    line = awf.canonical(
        {"a": "\x85\u2028\u2029 \ud800 \0 \x1f é 😀", "b": 2**80, "c": 0.1, "d": 1e16}
    )
    assert (
        line
        == (
            '{"a":"\\u0085\\u2028\\u2029 \\ud800 \\u0000 \\u001f é 😀",'
            '"b":1208925819614629174706176,"c":0.1,"d":1e+16}'
        ).encode()
    )
    assert json.loads(line)["a"][4] == "\ud800"


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (float("nan"), "/payload/x"),
        (float("-inf"), "/payload/x"),
        ({1: 2}, "the key 1"),
        ({None: 2}, "the key None"),
        ([{"a": b"bytes"}], "bytes at /payload/x/0/a"),
        (datetime(2026, 5, 5, tzinfo=UTC), "datetime"),
        ({1, 2}, "set"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(value, word):
    with pytest.raises(InvalidEvent, match=re.escape(word)) as refused:
        awf.canonical({"payload": {"x": value}})
    assert refused.value.hint


def test_an_event_that_holds_itself_is_refused():
    body = {}
    body["payload"] = body
    with pytest.raises(InvalidEvent, match="nested too deeply"):
        awf.canonical(body)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            ("codex", "019982b8-3422-79e0-8b3b-05abaf4f3c3e", ""),
            "ccaa664d-f560-4adf-a669-7ce101fa96c2",
        ),
        (
            ("claude", "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f", "a0ad4f44468bdf20d"),
            "131b7347-fea5-45d3-8327-8000e3cf2a40",
        ),
    ],
)
def test_a_derived_run_id_is_always_the_same(parts, expected):
    assert awf.run_uuid(*parts) == expected


names = st.none() | st.text(max_size=8)
free = st.none() | st.text() | st.dictionaries(st.text(), st.integers(0, 9))
base = {"agent": names, "step": names, "fidelity": st.sampled_from(["observed", "reported"])}
blocks = st.sampled_from([*BLOCKS.values(), {"type": "image", "data": "x"}, {"type": "text"}, {}])
facts = (
    st.builds(Began, what=st.sampled_from(["run", "agent", "step"]), task=names, **base)
    | st.builds(
        Ended, what=st.sampled_from(["run", "agent", "step"]), outcome=names, error=free,
        passed=st.none() | st.booleans(), seconds=st.none() | st.floats(0, 9), **base,
    )
    | st.builds(
        Said, role=st.sampled_from(["user", "assistant", "system", "world", "thought", "note"]),
        blocks=st.lists(blocks, max_size=3).map(tuple), model=names, **base,
    )
    | st.builds(Called, tool=st.text(), call_id=st.text(), input=free, **base)
    | st.builds(
        Returned, call_id=st.text(), ok=st.none() | st.booleans(), output=free, error=free, **base
    )
    | st.builds(Linked, kind=st.just("sub-run"), child=names, parent=names, **base)
    | st.builds(Spent, usage=st.none() | st.just({"input_tokens": 1}), cost_usd=st.none() | st.floats(0, 9), **base)
    | st.builds(Moved, from_=names, to=st.text(), phase=st.just("working"), **base)
)  # fmt: skip


def spoken(facts, run="nightly/7"):
    memory, seq = {}, 1
    for fact in facts:
        body = dialect.write(fact, Scene(run, "2026-05-05T09:00:00.1Z", seq, f"id-{seq}", memory))
        if body is not None:
            seq += 1
            yield body


@requirement("AWF-15", "AWF-26")
@given(st.lists(facts, max_size=6))
def test_written_lines_are_valid_need_no_tolerance_and_use_only_the_vocabulary(told):
    for body in spoken(told):
        event = heard(body)
        assert event.odd == ()
        assert event.kind in PAYLOADS
        assert json.loads(awf.canonical(body)) == body
        assert list(json.loads(awf.canonical(body))) == list(body)
        assert {block["type"] for block in body["payload"].get("blocks", ())} <= set(BLOCKS)
        assert body["timestamp"] == "2026-05-05T09:00:00.100000Z"


def test_a_thought_is_written_as_thinking_and_a_foreign_block_as_stream():
    told = [{"type": "text", "text": "hm"}, {"type": "image", "data": "x"}]
    (body,) = spoken([Said(role="thought", fidelity="reported", blocks=tuple(told))])
    mark = {"fidelity": "agent_emitted"}
    assert body["payload"]["blocks"] == [
        {"type": "thinking", **mark, "thinking": "hm"},
        {"type": "stream", **mark, "chunk": json.dumps(told[1]), "provider_type": "image"},
    ]


def test_a_run_of_another_name_gets_a_uuid_that_stays():
    (body,) = spoken([Began(what="run", task="t")])
    assert body["run_id"] == awf.run_uuid("tracklog", "nightly/7", "")
    (kept,) = spoken([Began(what="run")], run=RUN)
    assert kept["run_id"] == RUN


def test_a_transcript_that_is_written_again_means_the_same():
    told = [
        Began(what="run", task="review"),
        Linked(kind="sub-run", child=CHILD, step="deploy"),
        Began(what="step", step="deploy"),
        Ended(what="step", step="deploy", outcome="ok", passed=True),
        Began(what="step", step="build"),
        Called(step="build", tool="read", call_id="c-1", input={"path": "a"}),
        Returned(step="build", tool="read", call_id="c-1", ok=True, output="x", seconds=0.5),
        Ended(what="step", step="build", outcome="failed", passed=False, error="boom"),
        Ended(what="run", outcome="failed", passed=False, error="boom"),
    ]
    bodies = list(spoken(told))
    again = [fact for body in bodies for fact in facts_of(body)]
    assert again == told
    lint = Lint([dialect])
    assert [f for body in bodies for f in lint.add(heard(body))] == []
    assert list(lint.rest()) == []


@pytest.mark.parametrize(
    "kind", [kind for kind in PAYLOADS if kind.startswith("step.")], ids=lambda kind: kind
)
def test_a_step_without_a_path_goes_by_its_name(kind):
    child = {"child_run_id": CHILD} if "call_workflow" in kind else {}
    for path, step in (("", "build"), ("deploy.build", "deploy.build")):
        facts = facts_of(body_of(kind, path=path, payload=STEP, **child))
        assert {fact.step for fact in facts} == {step}


@pytest.mark.parametrize(
    ("kind", "fidelity"), [("message.user", "observed"), ("message.assistant", "reported")]
)
def test_a_message_without_blocks_is_written_with_its_role(kind, fidelity):
    payload = PAYLOADS[kind] | {"blocks": []}
    (fact,) = dialect.facts(heard(body_of(kind, payload=payload)))
    assert (fact.role, fact.blocks, fact.fidelity) == (payload["role"], (), fidelity)
