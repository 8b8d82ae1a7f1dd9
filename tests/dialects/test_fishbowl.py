"""What the stage's dialect promises, requirement by requirement."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from pydantic import ValidationError

from tracklog.dialects import ClosedShape, Scene, fishbowl
from tracklog.dialects.checking import checker
from tracklog.dialects.rules import Lint
from tracklog.dialects.schemas import contract, schema_of
from tracklog.home import registry
from tracklog.model.event import Event, Refusal
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)

requirement = pytest.mark.requirement

FIELDS = ["id", "run_id", "turn", "kind", "actor", "payload", "created_at", "schema_version"]
SPOKE = {
    "id": "e-1", "run_id": "bowl-1", "turn": 1, "kind": "agent.spoke", "actor": "cara",
    "payload": {"text": "Who drank the milk?"}, "created_at": "2026-05-05T09:00:00Z",
    "schema_version": 1,
}  # fmt: skip
CORE = {
    "run.started", "run.finished", "world.observed", "agent.thought", "agent.spoke",
    "agent.reflected", "judge.verdict", "user.injected",
}  # fmt: skip

dialect = registry.dialect("fishbowl")
check = checker(dialect)

words = st.from_regex(r"[a-z][a-z0-9]*", fullmatch=True)
kinds = st.lists(words, min_size=2, max_size=4).map(".".join)
other_kinds = kinds.filter(lambda kind: kind not in CORE)


def heard(**changes) -> Event:
    event = check(orjson.dumps({**SPOKE, **changes}))
    assert isinstance(event, Event), event
    return event


def pointers(body) -> list[str]:
    refusal = check(orjson.dumps(body))
    return [p.pointer for p in refusal.problems] if isinstance(refusal, Refusal) else []


def facts_of(**changes):
    return list(dialect.facts(heard(**changes)))


def findings(*bodies) -> list[str]:
    lint = Lint([dialect])
    names = []
    for number, body in enumerate(bodies):
        event = heard(id=f"e-{number}", **body)
        names += [finding.name for finding in lint.add(event)]
    return names


def started(**payload):
    return {"kind": "run.started", "actor": "conductor", "turn": 0, "payload": payload}


def finished(**payload):
    keys = {"reason": "verdict", "winner": None, "winner_kind": None, "winning_model": None}
    keys |= {"winning_models": [], "turns": 1, "tokens": 0}
    return {"kind": "run.finished", "actor": "conductor", "payload": {**keys, **payload}}


@requirement("BOWL-1")
def test_the_envelope_is_exactly_eight_fields_all_required():
    assert list(fishbowl.FishbowlEnvelope.model_fields) == FIELDS
    for field in FIELDS:
        assert pointers({k: v for k, v in SPOKE.items() if k != field}) == [f"/{field}"]


@requirement("BOWL-59", "BOWL-61")
@given(st.text().filter(lambda key: key not in FIELDS))
def test_any_other_field_is_refused_by_intake_and_model(key):
    assert pointers({**SPOKE, key: 1}) != []
    with pytest.raises(ValidationError):
        fishbowl.FishbowlEnvelope.model_validate({**SPOKE, key: 1})


@requirement("BOWL-61")
def test_the_model_forbids_extras_and_so_does_the_published_schema():
    assert issubclass(fishbowl.FishbowlEnvelope, ClosedShape)
    assert fishbowl.FishbowlEnvelope.model_config["extra"] == "forbid"
    published = contract(dialect)
    assert published["additionalProperties"] is False
    assert published["required"] == FIELDS


@requirement("BOWL-59", "BOWL-61")
@pytest.mark.parametrize("key", ["session_id", "model_profile", "model_id"])
@pytest.mark.parametrize("value", ["x", None, {}])
def test_session_and_model_are_no_envelope_fields_and_belong_in_the_payload(key, value):
    assert pointers({**SPOKE, key: value}) == [f"/{key}"]
    with pytest.raises(ValidationError):
        fishbowl.FishbowlEnvelope.model_validate({**SPOKE, key: value})
    assert heard(payload={"text": "hm", key: value}).odd == ()


@requirement("BOWL-10", "BOWL-9")
@given(kinds | st.text() | st.from_regex(r"[a-zA-Z0-9._\n -]+"))
def test_a_kind_is_accepted_exactly_when_it_has_the_form(kind):
    fits = re.fullmatch(r"[a-z][a-z0-9]*(\.[a-z][a-z0-9]*)+", kind) is not None
    assert pointers({**SPOKE, "kind": kind}) == ([] if fits else ["/kind"])


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("nodot", marks=requirement("BOWL-11")),
        pytest.param("Bad.Kind", marks=requirement("BOWL-12")),
        pytest.param("agent.Spoke", marks=requirement("BOWL-12")),
        pytest.param("bad kind.x", marks=requirement("BOWL-13")),
        pytest.param("agent-x.spoke", marks=requirement("BOWL-13")),
        pytest.param("agent_x.spoke", marks=requirement("BOWL-13")),
        pytest.param("two..dots", marks=requirement("BOWL-13")),
        pytest.param("trailing.", marks=requirement("BOWL-13")),
        pytest.param(".leading", marks=requirement("BOWL-13")),
        pytest.param("agent.spoke\n", marks=requirement("BOWL-10")),
        "1a.b",
        "a.1b",
        "agent.spöke",
    ],
)
def test_a_malformed_kind_is_refused(kind):
    assert pointers({**SPOKE, "kind": kind}) == ["/kind"]


@requirement("BOWL-14", "BOWL-21")
@pytest.mark.parametrize(
    "kind", ["agent.spoke", "clue.found", "episode.published", "oracle.spoke", "crier.announced"]
)
def test_a_well_formed_kind_is_accepted(kind):
    assert heard(kind=kind).kind == kind


@requirement("BOWL-19")
def test_the_core_kinds_are_these_eight():
    assert set(fishbowl.CORE_EVENT_KINDS) == CORE


@requirement("BOWL-20", "BOWL-57", "BOWL-9")
@given(other_kinds, st.dictionaries(st.text(), st.booleans()))
def test_a_new_kind_needs_no_schema_change(kind, payload):
    assert heard(kind=kind, payload=payload).body["payload"] == payload
    assert "enum" not in schema_of(fishbowl.FishbowlEnvelope)["properties"]["kind"]


@requirement("BOWL-64")
@given(other_kinds)
def test_only_core_kinds_have_a_weight_and_a_voice_of_their_own(kind):
    assert set(fishbowl.IMPORTANCE) == CORE
    assert set(fishbowl.ROLES) <= CORE
    assert fishbowl.importance(kind) == 0.5
    (said,) = facts_of(kind=kind, payload={"text": "x"})
    assert said.role == "note"


@requirement("BOWL-20")
def test_the_core_kinds_weigh_as_listed():
    weights = [fishbowl.importance(kind) for kind in ("user.injected", "judge.verdict")]
    assert weights == [0.95, 0.9]
    assert fishbowl.importance("agent.thought") < fishbowl.importance("agent.spoke")


@requirement("BOWL-22")
@given(other_kinds, st.text(min_size=1))
def test_a_custom_kind_with_a_text_is_a_note(kind, text):
    (said,) = facts_of(kind=kind, payload={"text": text})
    assert (said.agent, said.role, said.blocks) == (
        "cara",
        "note",
        ({"type": "text", "text": text},),
    )


@requirement("BOWL-23")
@pytest.mark.parametrize("payload", [{}, {"text": ""}, {"text": None}, {"text": ["a"]}, {"a": 1}])
def test_a_kind_without_a_usable_text_is_noted_with_all_its_data(payload):
    assert facts_of(kind="clue.found", payload=payload) == [
        Noted(agent="cara", step="1", label="clue.found", kind="clue.found", data=payload)
    ]


@requirement("BOWL-16")
@given(st.sampled_from(sorted(CORE)) | kinds, st.text(min_size=1))
def test_the_schema_never_asks_who_may_emit(kind, actor):
    assert heard(kind=kind, actor=actor).actor == actor


@requirement("BOWL-3")
def test_the_run_id_groups_events_into_one_run():
    lines = [started(), finished()]
    interleaved = [{**line, "run_id": run} for line in lines for run in ("a", "b")]
    assert findings(*interleaved) == []
    assert "second-start" in findings(*[{**line, "run_id": "a"} for line in interleaved])


@requirement("BOWL-4")
def test_the_turn_is_sim_time_and_not_the_clock():
    early, late = "2026-05-05T09:00:00Z", "2026-05-05T10:00:00Z"
    spoken = {"kind": "agent.spoke"}
    forth = [started(), {**spoken, "turn": 1, "created_at": late}]
    assert findings(*forth, {**spoken, "turn": 2, "created_at": early}) == []
    assert findings(*forth, {**spoken, "turn": 0, "created_at": late}) == ["turn-decreased"]
    back = [{**spoken, "turn": turn} for turn in (2, 1, 1)]
    assert findings(started(), *back) == ["turn-decreased"] * 2
    for turn in (-1, 0.5, True, "1", None):
        assert pointers({**SPOKE, "turn": turn}) == ["/turn"]


@requirement("BOWL-5")
@pytest.mark.parametrize("actor", ["", None, 7, ["cara"]])
def test_an_event_names_its_actor(actor):
    assert pointers({**SPOKE, "actor": actor}) == ["/actor"]
    assert heard(actor="visitor").actor == "visitor"


@requirement("BOWL-6")
def test_the_payload_is_a_json_object():
    assert heard(payload={"a": [1, None, {"b": 0.5}]}).body["payload"] == {
        "a": [1, None, {"b": 0.5}]
    }
    for payload in (None, "text", [], 7, True):
        assert pointers({**SPOKE, "payload": payload}) == ["/payload"]


@requirement("BOWL-7")
@given(st.datetimes(), st.sampled_from(["Z", "+00:00"]), st.booleans())
def test_every_utc_time_is_accepted(moment, zone, exact):
    if moment.year < 1000:
        moment = moment.replace(year=2000, day=1)
    written = moment.isoformat(timespec="microseconds" if exact else "seconds") + zone
    event = heard(created_at=written)
    assert event.at == written
    assert datetime.fromisoformat(written).tzinfo == UTC


@requirement("BOWL-7")
@pytest.mark.parametrize("rest", ["", "+02:00", "-00:00", "+0000", "z", "Z\n", " Z"])
def test_any_other_zone_or_none_is_refused(rest):
    assert pointers({**SPOKE, "created_at": f"2026-05-05T09:00:00{rest}"}) == ["/created_at"]


@requirement("BOWL-8")
@pytest.mark.parametrize("version", [0, 2, "1", True, None])
def test_the_version_is_one(version):
    assert pointers({**SPOKE, "schema_version": version}) == ["/schema_version"]


values = st.sampled_from(
    [None, True, False, 0, 1, -1, 2, 1.0, 1.5, "", "x", "a.b", "a.b\n", [], ["a"], {}, {"a": 1}]
)
times = st.from_regex(
    r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,12})?(Z|\+00:00)",
    fullmatch=True,
)
near = st.sampled_from(
    ["2026-12-31T23:59:60Z", "2026-12-31T22:59:60Z", "0000-02-29T00:00:00Z", "1900-02-29T00:00:00Z"]
)
bodies = st.builds(
    lambda changes, dropped: {k: v for k, v in {**SPOKE, **changes}.items() if k not in dropped},
    st.dictionaries(st.sampled_from([*FIELDS, "mood"]), values, max_size=3)
    | st.fixed_dictionaries({"created_at": times | near}),
    st.sets(st.sampled_from(FIELDS), max_size=1),
)


@requirement("BOWL-61")
@given(bodies)
@example({**SPOKE, "mood": "grim"})
@example({**SPOKE, "turn": True})
@example({**SPOKE, "schema_version": True})
@example({**SPOKE, "kind": "agent.spoke\n"})
def test_intake_and_model_give_the_same_verdict(body):
    schema = Draft202012Validator(schema_of(fishbowl.FishbowlEnvelope), validate_formats=True)
    try:
        fishbowl.FishbowlEnvelope.model_validate(body)
        accepted = True
    except ValidationError:
        accepted = False
    assert schema.is_valid(body) is accepted


@pytest.mark.parametrize("key", ["turn", "schema_version"])
def test_a_boolean_is_no_number_for_the_model_either(key):
    with pytest.raises(ValidationError, match="a boolean is no number"):
        fishbowl.FishbowlEnvelope.model_validate({**SPOKE, key: True})
    assert pointers({**SPOKE, key: True}) == [f"/{key}"]


def upcast_v1_v2(body):
    return {**body, "mood": "unknown", "schema_version": 2}


class Frame2(fishbowl.FishbowlEnvelope):
    """The envelope as a second version might have it."""

    mood: str
    schema_version: int


@requirement("BOWL-60")
def test_an_old_version_is_read_through_its_upcaster_and_stays_as_written():
    second = replace(dialect, frame=Frame2, current=2, upcasts={1: upcast_v1_v2})
    event = checker(second)(orjson.dumps(SPOKE))
    assert isinstance(event, Event)
    assert (event.body["mood"], event.body["schema_version"]) == ("unknown", 2)
    assert orjson.loads(event.line) == SPOKE
    unread = checker(replace(second, upcasts={}))(orjson.dumps(SPOKE))
    assert isinstance(unread, Refusal)
    newer = checker(second)(orjson.dumps({**SPOKE, "schema_version": 3}))
    assert isinstance(newer, Refusal)
    assert "newer" in newer.problems[0].message


def test_a_version_far_below_one_is_refused_at_once():
    assert pointers({**SPOKE, "schema_version": -(10**18)}) == ["/schema_version"]


@requirement("BOWL-25")
@given(
    st.dictionaries(
        st.sampled_from(
            ["text", "winner", "accused", "correct", "scores", "no_contest", "mood", "winner_kind"]
        ),
        st.none() | st.booleans() | st.text() | st.dictionaries(st.text(), st.floats(0, 10)),
    ),
    st.sampled_from(["judge.verdict", "run.finished"]),
)
def test_every_key_of_a_verdict_and_a_close_is_additive(payload, kind):
    event = heard(kind=kind, payload=payload)
    assert event.body["schema_version"] == 1
    assert list(dialect.facts(event))


@requirement("BOWL-26")
def test_a_verdict_is_a_message_and_a_decision():
    payload = {
        "text": "It was Bex.", "mood": "grim", "winner": "herd", "accused": "bex",
        "correct": True, "scores": {"bex": 2.5},
    }  # fmt: skip
    said, decided = facts_of(kind="judge.verdict", actor="judge", payload=payload)
    assert said == Said(
        agent="judge", step="1", role="assistant", blocks=({"type": "text", "text": "It was Bex."},)
    )
    assert decided == Decided(
        agent="judge", step="1", by="judge", name="verdict", verdict="It was Bex.",
        winner="herd", accused="bex", correct=True, scores={"bex": 2.5},
    )  # fmt: skip
    assert findings(started(), {"kind": "judge.verdict", "payload": {"mood": "x"}}) == [
        "text-missing"
    ]


def test_a_start_has_facts_for_its_goal_its_title_and_its_setup():
    assert facts_of(kind="run.started", payload={}) == [
        Began(what="run"),
        Noted(label="setup", kind="run.started", data={}),
    ]
    payload = {"goal": "find the cat", "scenario": "kitchen", "cast": {"cara": {}}}
    assert facts_of(kind="run.started", payload=payload) == [
        Began(what="run", task="find the cat"),
        Noted(label="title", text="kitchen"),
        Noted(label="setup", kind="run.started", data=payload),
    ]


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("world.observed", "world"),
        ("agent.thought", "thought"),
        ("agent.spoke", "assistant"),
        ("agent.reflected", "belief"),
        ("user.injected", "user"),
    ],
)
def test_each_core_kind_has_its_voice(kind, role):
    (said,) = facts_of(kind=kind, payload={"text": "x"})
    assert said.role == role
    assert said.agent == (None if kind == "user.injected" else "cara")


def test_a_close_has_facts_for_the_winner_and_the_tokens_once():
    payload = finished(
        winner="herd", winner_kind="team", winning_models=["model://a", "model://b"], tokens=242
    )["payload"]
    ended, spent = facts_of(kind="run.finished", payload=payload)
    assert ended == Ended(
        what="run", outcome="verdict", winner="herd", winner_kind="team",
        winning_models=("model://a", "model://b"), counts={"turns": 1, "tokens": 242},
    )  # fmt: skip
    (_, again) = facts_of(id="e-2", kind="run.finished", payload=payload)
    assert spent == again == Spent(key="fishbowl/bowl-1/tokens", usage={"total_tokens": 242})


def test_one_corrective_close_is_legal_and_a_second_is_not():
    ruled = {"kind": "judge.verdict", "payload": {"text": "Bex.", "winner": "bex"}}
    stage = started(cast={"bex": {}}, competition={"kind": "judged"})
    corrected = [
        stage,
        finished(reason="budget"),
        ruled,
        finished(winner="bex", winner_kind="agent"),
    ]
    assert findings(*corrected) == []
    assert findings(*corrected, finished(winner="bex", winner_kind="agent")) == ["after-end"]
    unruled = [stage, finished(reason="budget"), finished(reason="user_stop")]
    assert findings(*unruled) == ["after-end"]
    again = [stage, finished(reason="budget"), ruled, finished(reason="budget")]
    assert findings(*again, finished(winner="bex", winner_kind="agent")) == ["after-end"]
    closed = [stage, finished(reason="user_stop"), ruled]
    assert findings(*closed) == ["after-end"]


@pytest.mark.parametrize("key", ["reason", "winner", "winner_kind", "winning_model", "winning_models", "turns", "tokens"])  # fmt: skip
def test_a_close_without_one_of_its_seven_keys_is_found(key):
    close = finished()
    del close["payload"][key]
    assert findings(started(), close) == ["finish-keys"]


SCENE_FACTS = [
    Began(what="run", task="find the cat"),
    Said(role="user", blocks=({"type": "text", "text": "go"},)),
    Said(role="thought", agent="cara", step="4", blocks=({"type": "thinking", "thinking": "hm"},)),
    Said(role="system", agent="cara", blocks=({"type": "text", "text": "be brief"},)),
    Called(agent="cara", tool="read", call_id="c-1", input={"path": "a"}),
    Returned(agent="cara", call_id="c-1", ok=True, output="x"),
    Asked(question_id="q-1", text="which?"),
    Answered(question_id="q-1", answer={"a": 1}),
    Decided(by="judge", verdict="Cara.", winner="cara", scores={"cara": 9.0}),
    Decided(by="judge", verdict="The moon.", no_contest=True),
    Noted(label="compaction", text="shortened"),
    Ended(what="run", winner="cara", winner_kind="agent", winning_models=("m",)),
]


def said(facts):
    memory = {}
    for number, fact in enumerate(facts, 1):
        scene = Scene("run 7", "2026-05-05T09:00:00.123Z", number, f"id-{number}", memory)
        if (body := dialect.write(fact, scene)) is not None:
            event = check(orjson.dumps(body))
            assert isinstance(event, Event), event
            yield event


def test_written_lines_are_valid_and_the_turn_never_goes_back():
    events = list(said(SCENE_FACTS))
    assert len(events) == len(SCENE_FACTS)
    turns = [event.body["turn"] for event in events]
    assert turns == sorted(turns)
    assert events[0].kind == "run.started"
    assert events[-1].body["payload"]["winner"] == "cara"
    verdicts = [event.body["payload"] for event in events if event.kind == "judge.verdict"]
    assert verdicts[1] == {"text": "The moon.", "no_contest": True}


def test_what_has_no_core_kind_gets_one_of_its_own_and_a_speech_without_words_none():
    facts = [
        Moved(from_="a", to="b", phase="working"),
        Began(what="step", step="s"),
        Said(role="assistant", blocks=({"type": "image"},)),
        Noted(label="x"),
        Noted(label="clue.found", kind="clue.found", data={"where": "attic"}),
    ]
    events = list(said(facts))
    kinds = ["agent.moved", "step.began", "note.added", "clue.found"]
    assert [event.kind for event in events] == kinds
    assert events[0].body["payload"] == {"from": "a", "to": "b", "phase": "working"}
    assert events[3].body["payload"] == {"where": "attic"}


def test_a_stage_that_is_written_again_means_the_same():
    told = [Began(what="run", task="t"), *SCENE_FACTS[1:3]]
    again = [fact for event in said(told) for fact in dialect.facts(event)]
    kinds_of = [type(fact) for fact in again if not isinstance(fact, Noted)]
    assert kinds_of == [Began, Said, Said]
    assert [fact.role for fact in again if isinstance(fact, Said)] == ["user", "thought"]
