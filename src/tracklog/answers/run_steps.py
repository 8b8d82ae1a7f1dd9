"""The steps of a run, without their ids and times, so that two runs can be compared.

A step is a message, a call, a result, a decision, a question or an end.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from tracklog.answers import JsonValue
from tracklog.folds import Position, text_in, text_of
from tracklog.folds._calls import call_name
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    Moved,
    Returned,
    Said,
)
from tracklog.reading.record import Dialects
from tracklog.reading.walk import Reading, Records, accumulate

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_HEX = r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b"
_TAGGED = r"\b[a-z]{2,12}_(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{12,}\b"
_CLOCK = r"\b1[0-9]{9}(?:[0-9]{3}){0,2}\b"
_LONG = r"(?=[0-9A-Za-z_-]{9})"  # each of them begins so, and hardly anything else does
_NAMES = re.compile(f"{_LONG}(?:(?P<time>{_TIME}|{_CLOCK})|(?P<id>{_UUID}|{_HEX}|{_TAGGED}))")
"""Differences between runs that mean nothing: times, and generated ids."""
_DIGIT = re.compile(r"\d")
"""Each of them has one: a UUID its version."""


class RunStep(NamedTuple):
    """One step of a run."""

    seq: int
    fact: str
    agent: str | None
    shape: bytes
    """The hash of the agent and the sort of step, without its content."""
    whole: bytes
    """The hash of all of it, ids and times apart."""
    nth: int
    """Its place among the facts of its record."""
    failed: bool = False
    """It is the result of a call that failed."""


def steps(records: Records, dialects: Dialects, *, exact: bool = False) -> list[RunStep]:
    """The steps of a run, in order; a call or message that two records report is one step."""
    return accumulate(records, dialects, lambda: _StepReader(exact=exact), _StepReader.add).found


class _StepReader:
    """The steps of a run, as its records are read."""

    def __init__(self, *, exact: bool) -> None:
        self.exact = exact
        self.found: list[RunStep] = []
        self.seen: set[tuple[Any, ...]] = set()

    def add(self, reading: Reading) -> None:
        position = reading.position
        if position is None or not reading.stands:
            return
        own = text_of([position.run])[2:-2]
        for nth, fact in enumerate(reading.facts):
            if fact.copied is True or _known(self.seen, position, fact):
                continue
            value = value_of(fact)
            if value is None:
                continue
            agent = None if fact.agent is None else text_of(fact.agent)
            texts = text_of([type(fact).__name__, fact.agent, *_sort(fact)]), text_of([value])
            shape, content = texts if self.exact else (_nameless(each, own) for each in texts)
            hashes = _hash(shape), _hash(shape + content)
            failed = isinstance(fact, Returned) and fact.ok is False
            name = type(fact).__name__
            self.found.append(RunStep(position.seq, name, agent, *hashes, nth, failed))


def _known(seen: set[tuple[Any, ...]], position: Position, fact: Fact) -> bool:
    """Whether a call, its return or a message came before, by any of its ids."""
    ids: list[tuple[Any, ...]] = []
    if isinstance(fact, Called | Returned):
        ids.append((type(fact), call_name(position, fact)))
        if isinstance(fact, Called) and fact.provider_call_id is not None:
            ids.append((Called, f"={text_of(fact.provider_call_id)}"))
    elif isinstance(fact, Said) and fact.message_id is not None:
        ids.append((Said, fact.message_id, fact.role, text_in(fact.blocks)))
    known = any(id in seen for id in ids)
    seen.update(ids)
    return known


def _sort(fact: Fact) -> tuple[Any, ...]:
    """The sort of a step: two steps of one sort can be one step that changed."""
    match fact:
        case Called() | Returned():
            return (fact.tool,)
        case Said():
            return (fact.role,)
        case Began() | Ended():
            return (fact.what, fact.step if fact.what == "step" else None)
        case Decided():
            return (fact.by, fact.name)
        case Linked():
            return (fact.kind, fact.from_, fact.to)
    return ()


def value_of(fact: Fact) -> JsonValue:
    """The content of a step as JSON; None for a fact that is no step."""
    match fact:
        case Said():
            return [dict(block) for block in fact.blocks]
        case Called():
            return {"tool": fact.tool, "input": fact.input}
        case Returned():
            return {"ok": fact.ok, "output": fact.output, "error": fact.error}
        case Decided():
            return {"verdict": fact.verdict, "score": fact.score, "passed": fact.passed}
        case Asked():
            return {"text": fact.text, "options": fact.options}
        case Answered():
            return {"answer": fact.answer}
        case Moved():
            return {"from": fact.from_, "to": fact.to, "reason": fact.reason}
        case Began():
            return {"task": fact.task, "model": fact.model}
        case Ended():
            return {"outcome": fact.outcome, "passed": fact.passed, "error": fact.error}
        case Linked(kind="handoff" | "message"):
            return {"from": fact.from_, "to": fact.to, "reason": fact.reason}
        case Linked(kind="sub-run") if fact.child is not None:
            return {}
    return None


def without_names(value: JsonValue, run: str = "") -> JsonValue:
    """A JSON value in which times, ids that a machine made and the run's own name are the same."""
    if isinstance(value, str):
        return _unnamed(value, run)
    if isinstance(value, int) and not isinstance(value, bool) and value > 10**9:
        return without_names(str(value))
    if isinstance(value, Mapping):
        return {
            without_names(str(key), run): without_names(each, run) for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_names(each, run) for each in value]
    return value


def _unnamed(text: str, run: str) -> str:
    if len(run) >= 6 and run in text:
        text = text.replace(run, "<run>")
    if not _DIGIT.search(text):
        return text
    return _NAMES.sub(lambda match: f"<{match.lastgroup}>", text)


def _nameless(json: str, run: str) -> str:
    """The same of a value that was spelled out: what follows an escape begins a word there, too."""
    return _unnamed(_ESCAPE.sub(r"\g<0> ", json) if "\\" in json else json, run)


_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")


def _hash(text: str) -> bytes:
    return blake2b(text.encode(errors="replace"), digest_size=12).digest()
