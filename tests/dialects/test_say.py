"""Saying a fact in another dialect's words: whatever is said is valid there."""

import orjson
import pytest

from support import sampling as samples
from tracklog.dialects import Scene
from tracklog.dialects.checking import checker
from tracklog.dialects.tracklog import line as native_line
from tracklog.home import registry
from tracklog.model.event import Event
from tracklog.model.fact import (
    FACTS,
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Linked,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)

FLIGHTS = samples.of("good") + samples.of("odd")


def facts_of(path):
    dialect = registry.dialect(samples.dialect_of(path))
    check = checker(dialect)
    events = [check(line) for line in samples.lines_of(path)]
    return [fact for event in events for fact in dialect.facts(event)]


def said(target, facts, run="3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f"):
    """What a dialect makes of facts, told in order."""
    memory, bodies = {}, []
    for n, fact in enumerate(facts):
        at = f"2026-05-05T09:00:{n % 60:02}.123456Z"
        scene = Scene(run=run, at=at, seq=len(bodies) + 1, id=f"{n:032x}", memory=memory)
        body = target.write(fact, scene)
        if body is not None:
            bodies.append(body)
    return bodies


RUNS = ("3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f", "a run / with: ünusual characters")
CHECKS = [(dialect, checker(dialect)) for dialect in registry.dialects()]


@pytest.mark.parametrize("path", FLIGHTS, ids=samples.name_of)
def test_every_written_line_is_valid_in_its_dialect(path):
    facts = facts_of(path)
    for dialect, check in CHECKS:
        for body in (body for run in RUNS for body in said(dialect, facts, run)):
            event = check(orjson.dumps(body))
            assert isinstance(event, Event), (dialect.name, body, event)
            assert event.odd == ()


@pytest.mark.parametrize("path", samples.of("good"), ids=samples.name_of)
def test_the_native_dialect_can_say_every_fact_and_means_the_same(path):
    """Facts told as native lines and read back are the same facts."""
    native = registry.dialect("tracklog")
    check = checker(native)
    facts = facts_of(path)
    bodies = said(native, facts)
    assert len(bodies) == len(facts)
    for fact, body in zip(facts, bodies, strict=True):
        (again,) = native.facts(check(orjson.dumps(body)))
        told, heard = samples.plain(fact), samples.plain(again)
        for filled in ("key", "from"):  # what a line must have and a fact may lack
            if told.get(filled) is None:
                told.pop(filled, None)
                heard.pop(filled, None)
        assert heard == told


@pytest.mark.parametrize("name", registry.dialect_names())
def test_a_dialect_can_write_its_own_runs(name):
    """A flight told again in its own dialect begins and ends."""
    dialect = registry.dialect(name)
    flights = [path for path in samples.of("good") if samples.dialect_of(path) == name]
    longest = max(flights, key=lambda path: len(samples.lines_of(path)))
    assert len(said(dialect, facts_of(longest))) >= 2


def text_block(words, **more):
    return {"type": "text", "text": words, **more}


STORY = [
    Began(what="run", task="find the cat", model="m-1", software={"name": "cc", "version": "2"},
          host="box", cwd="/work", git={"branch": "main"}, counts={"steps": 3, "nodes": 2}),
    Began(what="agent", agent="cara", task="look", model="m-2"),
    Began(what="step", agent="cara", step="1", task="search"),
    Began(what="step", step="plain"),
    Moved(agent="cara", step="1", from_="thinking", to="tool_call", phase="working", reason="why"),
    Moved(agent="cara", from_="tool_call", to="blocked-on-clarification", phase="waiting"),
    Moved(agent="cara", step="1", from_=None, to="thinking", phase="working"),
    Moved(step="plain", from_="pending", to="running", phase="working"),
    Moved(agent="dot", from_="thinking", to="failed", phase="failed", reason="lost"),
    Moved(agent="dot", from_="thinking", to="odd status", phase="done"),
    Said(role="system", blocks=(text_block("be brief"),)),
    Said(role="user", blocks=(text_block("go"), {"type": "image", "url": "u"}), message_id="m1"),
    Said(role="world", blocks=(text_block("fog"),), agent="cara", step="7"),
    Said(role="thought", agent="cara", step="2", fidelity="reported",
         blocks=({"type": "thinking", "thinking": "hm", "signature": "s"},)),
    Said(role="thought", agent="cara", blocks=(text_block("plain thought"),)),
    Said(role="assistant", agent="cara", step="2", blocks=(text_block("two"), text_block("parts")),
         to="dot", model="m-3", stop_reason="end", fidelity="reported"),
    Said(role="assistant", agent="cara", blocks=(
        {"type": "tool_use", "tool_name": "read", "tool_id": "t", "tool_input": {"a": 1}},
        {"type": "tool_result", "tool_id": "t", "tool_content": "x"},
        {"type": "command", "command": "ls"}, {"type": "stream", "chunk": "{}"})),
    Said(role="belief", agent="cara", blocks=(text_block("it was dot"),)),
    Said(role="note", blocks=(text_block("n"),)),
    Said(role="user", blocks=(text_block("injected"),), injected=True),
    Said(role="assistant", agent="cara", blocks=({"type": "image", "url": "v"},)),
    Called(agent="cara", step="2", tool="read", call_id="c1", input={"path": "a"},
           provider_call_id="p1", tool_server="fs", fidelity="reported"),
    Called(agent="cara", tool="bare", call_id="c2"),
    Called(agent="cara", tool="sub", call_id="c3", parent_call_id="c2", by_provider=True,
           synthetic_id=True, input="text"),
    Returned(agent="cara", step="2", call_id="c1", tool="read", ok=True, output={"b": [1]},
             status="done", exit_code=0, seconds=0.25),
    Returned(agent="cara", call_id="c2", ok=False, error="no file", exit_code=2, seconds=1.5),
    Returned(agent="cara", call_id="c3", ok=False, output="partial", error={"code": 5}),
    Returned(call_id="stranger", output=None),
    Decided(agent="cara", step="2", by="judge", name="tests", verdict="pass", passed=True,
            score=0.9, confidence=0.8, threshold=0.7, reason="green", evidence={"n": 1}, about="a"),
    Decided(by="judge", verdict="fail", passed=False, name="Lint It"),
    Decided(agent="cara", verdict={"pick": 1}, confidence=0.2, threshold=0.5),
    Decided(by="host", verdict="Dot.", winner="herd", accused="dot", correct=True,
            scores={"dot": 2.5}),
    Decided(by="host", verdict="Nobody.", no_contest=True),
    Decided(score=0.0), Decided(name="only a name"), Decided(reason="only a reason"),
    Asked(agent="cara", step="2", question_id="q1", text="which?", what="approval", call_id="c1",
          options=("a", {"b": 1}), schema={"type": "string"}, expires="2026-05-06T09:00:00Z"),
    Asked(question_id="q2"),
    Answered(agent="cara", question_id="q1", answer={"a": 1}, by="ann"),
    Answered(question_id="q2", answer="yes"), Answered(question_id="q3"),
    Linked(kind="sub-run", parent="r0", child="r2", call_id="c1", step="2", agent="cara"),
    Linked(kind="handoff", from_="cara", to="dot", reason="tired", context={"k": 1}),
    Linked(kind="alias", system="sys", alias="other"),
    Linked(kind="fork", parent={"family": "f", "run": "r"}), Linked(kind="message", from_="cara", to="dot", other="r9"),
    Spent(key="k1", provider="p", model="m", usage={"input_tokens": 3, "output_tokens": 4},
          cost_usd=0.5, credits=2.0, calls=2, group="g", whole=True, bound="lower", agent="cara"),
    Spent(usage={"total_tokens": 9}), Spent(cost_usd=0.25, model="m"), Spent(usage={"x": "y"}),
    Noted(label="title", text="A title"), Noted(label="clue.found", kind="clue.found", data={"w": 1}),
    Noted(label="odd", kind="Odd Kind", text="t", data=[1], agent="cara", step="3"),
    Noted(label="bare"),
    Ended(what="step", agent="cara", step="1", outcome="passed", passed=True, seconds=2.0),
    Ended(what="step", step="plain#2", outcome="failed", passed=False, error="boom", exit_code=3,
          attempt=2, part="build", reason="r", seconds=1),
    Ended(what="step", step="plain", error={"type": "x"}, passed=False),
    Ended(what="agent", agent="cara", outcome="converged", passed=True, score=1.0, seconds=9.5,
          counts={"steps": 2}),
    Ended(what="agent", agent="dot", outcome="gave up", passed=False, score=1.5, reason="lost"),
    Ended(what="run", outcome="verdict", passed=True, winner="herd", winner_kind="team",
          winning_models=("m1", "m2"), counts={"turns": 4, "tokens": 99, "nodes_passed": 2}),
    Ended(what="run", passed=False, reason="stopped", exit_code=130, winner="cara",
          winner_kind="agent", winning_model="m1"),
    Ended(what="run"),
]  # fmt: skip
"""Every kind of fact, with all that it may have and with as little as it needs."""


BEGINNINGS = [
    [Began(what="step", step="s", task="t"), Ended(what="step", step="s", passed=True),
     Ended(what="run", passed=True)],
    [Began(what="agent", agent="a", task="t"), Began(what="agent", agent="b"),
     Began(what="step", agent="a", step="1"), Ended(what="agent", agent="a", passed=True),
     Ended(what="agent", agent="b", passed=False, error="x")],
    [Said(role="assistant", agent="a", blocks=(text_block("no beginning"),)),
     Called(agent="a", tool="t", call_id="c"), Returned(agent="a", call_id="c", ok=True)],
    [Began(what="run"), Began(what="run", task="again"), Ended(what="run", passed=False)],
    [Ended(what="run", outcome="cancelled", passed=False)],
]  # fmt: skip
"""Runs that do not begin with a run, or begin twice."""


@pytest.mark.parametrize("name", registry.dialect_names())
def test_each_dialect_says_a_story_as_written_beside_the_samples(name):
    dialect = registry.dialect(name)
    check = checker(dialect)
    bodies = [body for story in (STORY, *BEGINNINGS) for body in said(dialect, story)]
    for body in bodies:
        assert isinstance(check(orjson.dumps(body)), Event), body
    path = samples.ROOT / "say" / f"{name}.jsonl"
    if samples.REFRESH:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(orjson.dumps(body) + b"\n" for body in bodies))
    expected = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert [orjson.loads(orjson.dumps(body)) for body in bodies] == expected


@pytest.mark.parametrize("name", registry.dialect_names())
def test_the_lines_that_a_line_was_made_of_stand_where_they_always_stood(name):
    """Lines that were converted before must still be understood."""
    inside = {"fishbowl": ("payload",), "tracklog": ("extra",)}.get(name, ())
    assert registry.dialect(name).extension == (*inside, "converted")


def test_a_native_line_has_what_its_writer_gave():
    origin = {"writer": "w", "fidelity": "observed"}
    at = "2026-05-05T09:00:00Z"
    full = native_line(Noted(label="l"), id="i", run="r", origin=origin, at=at, family="f")
    assert orjson.loads(full) == {
        "id": "i", "run": "r", "at": at, "fact": "Noted", "label": "l", "family": "f",
        "origin": origin,
    }  # fmt: skip
    bare = native_line(Noted(label="l"), id="i", run="r", origin=origin)
    assert "at" not in orjson.loads(bare)


def test_the_story_has_every_kind_of_fact():
    assert {type(fact) for fact in STORY} == set(FACTS)


def test_a_check_whose_command_nobody_named_says_so():
    facts = [
        Began(what="step", step="build#1"),
        Returned(call_id="c1", step="build", exit_code=1, output="no", seconds=2.0),
        Returned(call_id="c2", step="build", tool="make", exit_code=0),
        Ended(what="step", step="build#1", attempt=1, passed=False),
    ]
    (attempt,) = (
        body for body in said(registry.dialect("kahn-ci"), facts) if body["event"] == "node_attempt"
    )
    assert attempt["done_when_results"] == [
        {"cmd": "unknown", "rc": 1, "duration_s": 2.0, "tail": "no"},
        {"cmd": "make", "rc": 0, "duration_s": 0.0},
    ]
