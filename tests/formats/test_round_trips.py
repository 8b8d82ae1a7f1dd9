"""There and back: what a report calls kept or carried is restored, what it calls dropped is not,
and nothing is there that it does not call synthesised.
"""

from dataclasses import replace
from typing import NamedTuple

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import sampling as samples
from support.exporting import (
    DIALECTS,
    DOORS,
    export_runs,
    facts,
    generated,
    records,
    runs_of,
    sample,
    told,
    values,
)
from support.soaking import SOAK
from tracklog.dialects import tracklog as native
from tracklog.dialects.checking import understand
from tracklog.formats import registry
from tracklog.formats.export import export, export_run, losses
from tracklog.formats.exporters import fact_fields, utc
from tracklog.formats.importers import LineWriter
from tracklog.formats.importers._carried import carried
from tracklog.formats.importers.otlp import wire, write_items
from tracklog.formats.importers.otlp.memory import Memory
from tracklog.model.event import Event
from tracklog.model.fact import FACTS, Began, Called, Ended, Linked, Returned, Said, Spent
from tracklog.testing import lines_of_file
from tracklog.testing.exporters import filled, stands


class Way(NamedTuple):
    """A format with the options that a run goes through it with."""

    format: str
    options: dict[str, str]
    importer: str

    def __str__(self):
        return " ".join([self.format, *self.options.values()])


CONTENT = {"content": "yes"}
WAYS = [
    Way("otel", {"generation": "1.41"}, "otlp"),
    Way("otel", {"generation": "1.41", **CONTENT}, "otlp"),
    Way("otel", {"generation": "1.42", **CONTENT}, "otlp"),
    Way("otel", {"generation": "1.41", **CONTENT, "encoding": "protobuf"}, "otlp"),
    Way("otel", {"generation": "1.42", **CONTENT, "encoding": "protobuf"}, "otlp"),
    Way("atif", {}, "atif"),
    Way("agui", {}, "agui"),
]
EMPTY = (None, "", [])
"""What may stand where something that must be there was dropped."""


def written(each, format, options=None) -> bytes:
    return b"".join(export(each, format, options))


def read_back(way: Way, content: bytes, folder) -> list[bytes]:
    """The lines that our importer makes of what our exporter wrote."""
    if way.options.get("encoding") == "protobuf":
        teller = LineWriter("otlp", "1", "")
        items = list(wire.from_protobuf("traces", content))
        assert all(isinstance(each, wire.Item) for each in items)
        list(write_items(items, teller, Memory()))
        return teller.take()
    path = folder / f"run{registry.exporter(way.format).suffix}"
    path.write_bytes(content)
    return lines_of_file(registry.importer(way.importer), path)[0]


def said_by(fact, at) -> dict:
    """What a fact says, as JSON, under the names that a report has for it."""
    name = type(fact).__name__
    said = {f"{name}.{key}": value for key, value in fact_fields(fact).items()}
    said |= {"at": at} if at else {}
    return {"fact": name, **orjson.loads(orjson.dumps(said, default=list))}


def heard(recorded) -> list[dict]:
    found = []
    for record in recorded:
        event = understand(DIALECTS[record.dialect], record.line)
        facts = DIALECTS[record.dialect].facts(event)
        found += [said_by(fact, utc(event.at)) for fact in facts]
    return found


class Wanted(NamedTuple):
    """What has to be there of a fact, and what else may be."""

    said: dict
    may: frozenset[str]

    def is_told_by(self, fact: dict) -> bool:
        more = {key for key in fact.keys() - self.said.keys() if fact[key] not in EMPTY}
        return self.said.items() <= fact.items() and more <= self.may


def wanted(made, each, way: Way) -> list[Wanted]:
    """What the report on a record alone says that will be read back of it."""
    alone = replace(made, lines=lambda: iter([each]))
    fates: dict[str, set[str]] = {}
    for _, name, fate in losses(alone, way.format, way.options).counts:
        fates.setdefault(name, set()).add(fate)
    restored = {name for name in fates if fates[name] <= {"kept", "carried"}} | {"fact"}
    made_up = frozenset(name for name in fates if "synthesised" in fates[name])
    found = []
    for fact in (said_by(fact, utc(each.event.at)) for fact in each.facts):
        assert fact.keys() - {"fact"} <= fates.keys(), "the report leaves nothing out"
        said = {name: value for name, value in fact.items() if name in restored}
        found.append(Wanted(said, made_up))
    return found


def is_name(fact: dict) -> bool:
    """Whether it is one of the names that a run has elsewhere; those follow a rule."""
    return fact.get("Linked.kind") == "alias"


def check(way: Way, recorded, folder) -> None:
    """The law, for the records of one run."""
    (run, *_) = runs_of(recorded)
    own = [record for record in recorded if (record.family, record.run) == run]
    made = export_run(run, lambda _: own, DIALECTS)
    if not any(True for _ in made.records()):
        return  # it has only marks of people: nothing happened in it
    back = records(read_back(way, written(made, way.format, way.options), folder), "tracklog")
    assert len({record.run for record in back}) == 1
    rest = heard(back)
    for record in made.records():
        for each in wanted(made, record, way):
            found = next((fact for fact in rest if each.is_told_by(fact)), None)
            near = [fact for fact in rest if fact["fact"] == each.said["fact"]]
            assert found is not None, f"{each}\nis none of\n{near}"
            rest.remove(found)
    assert [fact for fact in rest if not is_name(fact)] == []


@pytest.mark.parametrize("way", WAYS, ids=str)
@settings(max_examples=15 * SOAK)
@given(recorded=generated())
def test_only_what_a_format_keeps_or_carries_is_restored(way, recorded, tmp_path_factory):
    check(way, recorded, tmp_path_factory.getbasetemp())


def test_a_call_and_the_turn_that_it_opens_both_come_back_when_the_call_is_judged(tmp_path):
    origin = {"writer": "test", "fidelity": "observed"}
    told = [
        {"fact": "Called", "tool": "read", "call_id": "c1"},
        {"fact": "Said", "role": "assistant", "blocks": []},
        {"fact": "Decided", "verdict": "well", "about": "1"},
    ]
    lines = [
        orjson.dumps({"id": str(n), "run": "r", **fact, "origin": origin})
        for n, fact in enumerate(told, 1)
    ]
    for way in WAYS:
        check(way, records(lines, "tracklog"), tmp_path)


def test_every_sample_goes_through_every_format_and_back(tmp_path):
    for path in samples.of("good"):
        recorded = sample(path)
        for way in (WAYS[1], *WAYS[-2:]):
            check(way, recorded, tmp_path)


@pytest.mark.parametrize("way", WAYS[1:-1], ids=str)
def test_a_run_comes_back_with_the_runs_below_it(way, tmp_path):
    origin = {"writer": "test", "fidelity": "observed"}
    facts = [
        ("above", Began(what="run", agent="lead")),
        ("above", Called(tool="task", call_id="c1")),
        ("above", Linked(kind="sub-run", child="below", call_id="c1")),
        ("below", Began(what="run", agent="worker")),
        ("below", Said(role="assistant", blocks=({"type": "text", "text": "hi"},))),
        ("above", Returned(call_id="c1", ok=True)),
    ]
    lines = [
        native.line(fact, id=str(n), run=run, origin=origin) for n, (run, fact) in enumerate(facts)
    ]
    made, _ = export_runs(records(lines, "tracklog"))
    back = export_runs(
        records(read_back(way, written(made, way.format, way.options), tmp_path), "tracklog")
    )
    (above,) = [each for each in back if each.below]
    ((worker,), call) = above.below, above.below[0].call
    assert (call, worker.opening["agent"]) == ("c1", "worker")
    facts = [fact for heard in worker.records() for fact in heard.facts]
    # A span is written when it has ended, so what is in it comes before it.
    assert {type(fact) for fact in facts if not isinstance(fact, Linked)} == {Began, Said}


@pytest.mark.parametrize("way", [WAYS[0], *WAYS[-2:]], ids=str)
def test_each_message_keeps_its_own_message_id(way, tmp_path):
    said = [
        ("user", "u1"),
        ("user", None),
        ("thought", "m1"),
        ("assistant", "m1"),
        ("assistant", "m2"),
    ]
    facts = [Said(role=role, blocks=(), message_id=id) for role, id in said]
    (made,) = export_runs(told(*facts))
    lines = read_back(way, written(made, way.format, way.options), tmp_path)
    bodies = [orjson.loads(line) for line in lines]
    found = [(b["role"], b.get("message_id")) for b in bodies if b["fact"] == "Said"]
    assert sorted(found, key=str) == sorted(said, key=str)


@settings(max_examples=25 * SOAK)
@given(recorded=generated(), mode=st.sampled_from(["batch", "structured"]))
def test_cloud_events_and_plain_lines_bring_back_the_very_lines(recorded, mode, tmp_path_factory):
    (made,) = export_runs(recorded)
    lines = [record.line for record in recorded]
    way = Way("cloudevents", {"mode": mode}, "cloudevents")
    events = written(made, way.format, way.options)
    assert read_back(way, events, tmp_path_factory.getbasetemp()) == lines
    assert written(made, "jsonl").splitlines() == lines
    for format in ("cloudevents", "jsonl"):
        assert losses(made, format).lossless


@settings(max_examples=25 * SOAK)
@given(recorded=generated(), way=st.sampled_from(WAYS))
def test_data_in_no_fact_is_called_dropped_if_it_is_not_restored(recorded, way):
    (made,) = export_runs(recorded)
    counts = losses(made, way.format, way.options).counts
    for record in recorded:
        body = orjson.loads(record.line)
        beside = [*body.keys() & {"id", "cause"}]
        beside += [f"/extra/{key}" for key in body.get("extra", ())]
        beside += ["/nobody knows"] * ("nobody knows" in body)
        for name in beside:
            told = {
                fate
                for kind, field, fate in counts
                if kind == body["fact"] and (field == name or field.startswith(f"{name}/"))
            }
            assert told == {"dropped"}, name


@settings(max_examples=25 * SOAK)
@given(recorded=generated(), cut=st.integers(1, 12))
def test_what_is_exported_again_later_has_the_ids_that_it_had(recorded, cut):
    """So a receiver that knows a span by its id has it once, however often it is told."""
    first, whole = export_runs(recorded[:cut])[0], export_runs(recorded)[0]
    assert span_ids(first) <= span_ids(whole)
    events = [orjson.loads(written(each, "cloudevents")) for each in (first, whole)]
    assert events[1][: len(events[0])] == events[0]
    for format in registry.exporter_names():
        assert written(whole, format) == written(export_runs(recorded)[0], format)


def spans_of(each) -> list[dict]:
    (resource,) = orjson.loads(written(each, "otel"))["resourceSpans"]
    return [span for scope in resource["scopeSpans"] for span in scope["spans"]]


def span_ids(each) -> set[str]:
    return {span["spanId"] for span in spans_of(each)}


def test_a_spend_that_others_replaced_is_exported_as_nothing():
    """Else whoever got it before would add it to them."""
    spent = [
        Spent(key="a", model="m", usage={"input_tokens": 7}, cost_usd=1.0, group="g"),
        Spent(key="b", model="m", usage={"input_tokens": 9}, cost_usd=2.0, group="g", whole=True),
    ]
    before, after = export_runs(told(*spent[:1]))[0], export_runs(told(*spent))[0]
    assert span_ids(before) < span_ids(after)
    amounts = [
        pair["value"]["intValue"]
        for span in spans_of(after)
        for pair in span["attributes"]
        if pair["key"] == "gen_ai.usage.input_tokens"
    ]
    assert sorted(amounts) == ["0", "9"]
    assert orjson.loads(written(after, "atif"))["final_metrics"]["total_cost_usd"] == 2.0


def bare(value):
    """What stands in a document beside what is ours there."""
    if isinstance(value, list):
        kept = [each for each in value if not (isinstance(each, dict) and is_ours(each))]
        return [bare(each) for each in kept]
    if isinstance(value, dict):
        return {
            key: bare(each) for key, each in value.items() if key not in ("tracklog", "metadata")
        }
    return value


def is_ours(value: dict) -> bool:
    names = (value.get("key"), value.get("name"))
    return any(isinstance(name, str) and name.startswith("tracklog.") for name in names)


@pytest.mark.parametrize("way", [WAYS[1], *WAYS[-2:]], ids=str)
@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
def test_a_field_that_is_reported_as_preserved_is_in_a_field_of_the_format(way, kind):
    fact, said = filled(kind)
    first = [Began(what="run")] if kind is not Began else []
    first += [Called(tool="t", call_id=fact.call_id)] if kind is Returned else []
    first += [Began(what="step", step=fact.step)] if kind is Ended else []
    out = written(export_runs(told(*first, fact))[0], way.format, way.options)
    lines = out.split(b"data: ")[1:] if way.format == "agui" else [out]
    words = orjson.dumps([bare(orjson.loads(line.partition(b"\n")[0])) for line in lines]).decode()
    exporter = registry.exporter(way.format)
    fates = exporter.fates(exporter.chosen(way.options))
    for name, value in said.items():
        if fates.get(f"{kind.__name__}.{name.rstrip('_')}") == "kept":
            assert stands(value, words), name


@settings(max_examples=100 * SOAK)
@given(
    fact=facts,
    name=st.sampled_from(["fact", "at", "fidelity", "blocks", "usage", "key"]),
    put=values,
)
def test_a_forged_line_of_ours_makes_no_line_that_the_intake_refuses(fact, name, put):
    told = {"fact": type(fact).__name__, **fact_fields(fact), name: put}
    found = carried(orjson.loads(orjson.dumps(told, default=list)))
    if found is not None:
        teller = LineWriter("test", "1", "")
        teller.about_hash("0" * 64, {"writer": "test", "fidelity": "observed"})
        found.write(teller, run="r")
        (line,) = teller.take()
        assert isinstance(DOORS["tracklog"](line), Event)
