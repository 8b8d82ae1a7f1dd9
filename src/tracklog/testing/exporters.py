"""The suite that an exporter must pass; import it as `tracklog.testing.ExporterSuite`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from tracklog.dialects import tracklog as native
from tracklog.formats.export import export_run
from tracklog.formats.exporters import Exporter, ExportRecord, ExportRun
from tracklog.home import registry
from tracklog.journal.frame import Erased, Record
from tracklog.model.errors import UnknownName
from tracklog.model.fact import (
    FACTS,
    Answered,
    Asked,
    Began,
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


class ExporterSuite:
    """The tests of every exporter; subclass it and name yours."""

    exporter: Exporter
    streams = True
    """Whether its first bytes come before the run was read to its end."""
    elsewhere: frozenset[str] = frozenset({"agent", "step", "call_id", "status"})
    """Fields that are in the summary of the run, too, so that they are found anyway."""
    same_content: frozenset[str] = frozenset({"encoding"})
    """Options that change how it is written, and not what."""

    def written(self, run: ExportRun, **options: str) -> bytes:
        return b"".join(self.exporter.write(run, self.exporter.chosen(options)))

    def choices(self) -> Iterator[dict[str, str]]:
        """The usual options, and each other choice by itself."""
        yield {}
        for name, option in self.exporter.options.items():
            yield from ({name: each} for each in option.choices if each != option.usual)

    def test_it_says_what_it_is(self) -> None:
        assert self.exporter.name.isidentifier()
        assert self.exporter.about.endswith(".")
        assert "/" in self.exporter.media_type
        assert self.exporter.suffix.startswith(".")

    def test_writing_twice_gives_the_same_bytes(self) -> None:
        for options in self.choices():
            once = self.written(export_run_of_facts(*A_TALK), **options)
            assert once
            assert once == self.written(export_run_of_facts(*A_TALK), **options)

    def test_a_long_run_is_written_while_it_is_read(self) -> None:
        """Memory stays bounded: the first bytes come long before the end."""
        if not self.streams:
            return
        read = [0]
        made = export_run_of_facts(*(_words(f"word {n}", message_id=str(n)) for n in range(3000)))

        def counted() -> Iterator[ExportRecord]:
            for entry in made.records():
                read[0] += 1
                yield entry

        parts = self.exporter.write(replace(made, lines=counted), self.exporter.chosen())
        while len(next(parts)) and read[0] < 5:
            pass
        assert read[0] < 1500

    def test_what_cannot_be_chosen_is_answered_with_what_can(self) -> None:
        with pytest.raises(UnknownName) as caught:
            self.exporter.chosen({"no such option": "x"})
        assert all(name in caught.value.hint for name in self.exporter.options)
        for name, option in self.exporter.options.items():
            if option.choices:
                with pytest.raises(UnknownName):
                    self.exporter.chosen({name: "something else"})

    def test_whatever_became_of_a_record_the_rest_is_written(self) -> None:
        """One that was erased, one that cannot be read, a run that never began."""
        for options in self.choices():
            self.written(_flight_of(_BROKEN), **options)
            assert self.written(_flight_of([*_recorded(A_TALK), *_BROKEN]), **options)

    @pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
    def test_what_it_says_it_keeps_is_in_it_and_what_it_drops_is_not(
        self, kind: type[Fact]
    ) -> None:
        fact, values = filled(kind)
        first: list[Fact] = [Began(what="run"), Began(what="step", step=fact.step)]
        if isinstance(fact, Returned):
            first.append(Called(tool="t", call_id=fact.call_id))
        if isinstance(fact, Said):
            first.append(_words("before", "user"))
        for options in self.choices():
            if options.keys() & self.same_content:
                continue
            run = export_run_of_facts(*first, fact, _words("after", "user"))
            out = self.written(run, **options).decode()
            fates = self.exporter.fates(self.exporter.chosen(options))
            for name, value in values.items():
                fate = fates.get(f"{kind.__name__}.{name.rstrip('_')}", "dropped")
                if fate in ("kept", "carried"):
                    assert stands(value, out), (name, fate, options)
                elif name not in self.elsewhere:
                    assert not stands(value, out), (name, fate, options)


def export_run_of_facts(*facts: Fact) -> ExportRun:
    """A run of the native dialect with these facts, one per second."""
    return _flight_of(_recorded(facts))


def _flight_of(records: Sequence[Record]) -> ExportRun:
    dialects = {dialect.name: dialect for dialect in registry.dialects()}
    return export_run((native.dialect.family, "a-run"), lambda _: iter(records), dialects)


def _recorded(facts: Iterable[Fact]) -> list[Record]:
    records = []
    for n, fact in enumerate(facts):
        origin = {"writer": "test", "fidelity": fact.fidelity}
        at = f"2026-05-05T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z"
        line = native.line(fact, id=f"id-{n}", run="a-run", at=at, origin=origin)
        records.append(Record(n + 1, at, "tracklog", "tracklog", "a-run", line))
    return records


_BROKEN = [
    Record(5001, "2026-05-06T09:00:00.000Z", "tracklog", "tracklog", "a-run", b"{torn"),
    Record(
        5002, "2026-05-06T09:00:00.000Z", "tracklog", "tracklog", "a-run", b"",
        erased=Erased("0" * 64, "a secret", "somebody", "2026-05-07T09:00:00.000Z"),
    ),
]  # fmt: skip  # two records


def _words(text: str, role: Role = "assistant", **more: Any) -> Said:
    return Said(role=role, blocks=({"type": "text", "text": text},), **more)


A_TALK: tuple[Fact, ...] = (
    Began(what="run", agent="coder", task="Fix it", model="m-1", software={"name": "demo"}),
    _words("Please fix it.", "user"),
    _words("I look.", agent="coder", model="m-1", message_id="msg-1"),
    Called(agent="coder", tool="read", call_id="call_1", input={"path": "a.py"}),
    Spent(agent="coder", key="msg-1", model="m-1", usage={"input_tokens": 9, "output_tokens": 2}),
    Returned(agent="coder", call_id="call_1", ok=True, output="x = 1", seconds=0.5),
    Asked(agent="coder", question_id="q1", text="Which port?"),
    Answered(agent="coder", question_id="q1", answer="8080"),
    Decided(name="tests", verdict="pass", passed=True, score=0.9),
    Ended(what="run", outcome="converged", passed=True, seconds=3.0),
)
"""A run in which most of what can happen does."""

_ENUMS = {"what", "phase", "role", "fidelity", "kind", "bound", "synthetic_id", "expires"}
_LISTS = {"blocks", "scores", "winning_models", "options"}


def filled(kind: type[Fact]) -> tuple[Fact, dict[str, Any]]:
    """A fact with all fields set, and each field that can be found again by its value."""
    values: dict[str, Any] = {}
    for n, item in enumerate(fields(kind)):
        of = str(item.type)
        is_enum = item.name in _ENUMS and not (kind is Noted and item.name == "kind")
        if is_enum or item.name in _LISTS or "bool" in of:
            continue
        values[item.name] = f"sentinel{n:02}z"
        if "Mapping" in of:
            values[item.name] = {"name": f"sentinel{n:02}z"}
        elif "float" in of or "int" in of:
            values[item.name] = 7000 + n + (0.5 if "float" in of else 0)
    values["fidelity"] = "inferred"
    more = _FILLED.get(kind, {})
    values |= {name: value for name, value in more.items() if name in values or name == "blocks"}
    return kind(**{**_REQUIRED.get(kind, {}), **more, **values}), values


_REQUIRED: Mapping[type[Fact], dict[str, Any]] = {
    Began: {"what": "step"},
    Ended: {"what": "step"},
    Moved: {"phase": "working"},
    Said: {"role": "assistant"},
    Linked: {"kind": "related"},
}
_FILLED: Mapping[type[Fact], dict[str, Any]] = {
    Said: {"blocks": ({"type": "text", "text": "sentinelblocksz"},)},
    Spent: {"usage": {"input_tokens": 7777, "output_tokens": 7778}},
    Decided: {"confidence": 0.7005, "threshold": 0.7006},
}


def stands(value: Any, out: str) -> bool:
    if isinstance(value, dict):
        return all(stands(each, out) for each in value.values())
    if isinstance(value, tuple):
        return all(stands(each["text"], out) for each in value)
    return str(value) in out
