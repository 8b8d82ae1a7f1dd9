"""Saying a fact in another dialect's words: whatever is said is valid there."""

import orjson
import pytest

import sampling as samples
from tracklog import registry
from tracklog.check import checker
from tracklog.dialects import Scene
from tracklog.event import Event

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
        body = target.say(fact, scene)
        if body is not None:
            bodies.append(body)
    return bodies


RUNS = ("3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f", "a run / with: ünusual characters")
CHECKS = [(dialect, checker(dialect)) for dialect in registry.dialects()]


@pytest.mark.parametrize("path", FLIGHTS, ids=samples.name_of)
def test_whatever_is_said_is_valid_where_it_is_said(path):
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
def test_a_dialect_has_words_for_the_run_it_tells(name):
    """A flight told again in its own dialect begins and ends."""
    dialect = registry.dialect(name)
    flights = [path for path in samples.of("good") if samples.dialect_of(path) == name]
    longest = max(flights, key=lambda path: len(samples.lines_of(path)))
    assert len(said(dialect, facts_of(longest))) >= 2
