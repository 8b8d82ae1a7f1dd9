"""The samples are the specification of the dialects: what is good, bad and odd in each."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from support import sampling as samples
from tracklog.dialects.checking import checker
from tracklog.dialects.rules import Lint
from tracklog.dialects.schemas import published
from tracklog.dialects.tracklog import line as native_line
from tracklog.home import registry
from tracklog.model.event import Event, Refusal
from tracklog.model.fact import Noted

ROOT = Path(__file__).parents[2]


def heard(path):
    """The events of a sample, each with what was surprising about it, and what was left at the end."""
    dialect = registry.dialect(samples.dialect_of(path))
    check, lint = checker(dialect), Lint([dialect])
    events, findings = [], []
    for line in samples.lines_of(path):
        event = check(line)
        assert isinstance(event, Event), (line, event)
        assert event.line == line
        events.append(event)
        findings += lint.add(event)
    findings += [finding for _, _, finding in lint.rest()]
    return dialect, events, findings


@pytest.mark.parametrize("path", samples.of("good"), ids=samples.name_of)
def test_good_is_accepted_without_findings(path):
    _, _, findings = heard(path)
    assert [finding for finding in findings if finding.level != "info"] == []


@pytest.mark.parametrize("path", samples.of("good") + samples.of("odd"), ids=samples.name_of)
def test_facts_are_as_written_beside_the_sample(path):
    dialect, events, _ = heard(path)
    facts = [[samples.plain(fact) for fact in dialect.facts(event)] for event in events]
    expected = path.with_suffix(".facts.json")
    if samples.REFRESH:
        expected.write_bytes(orjson.dumps(facts, option=orjson.OPT_INDENT_2) + b"\n")
    assert facts == orjson.loads(expected.read_bytes())


@pytest.mark.parametrize("path", samples.of("odd"), ids=samples.name_of)
def test_odd_is_accepted_with_its_finding(path):
    _, _, findings = heard(path)
    assert samples.mark_of(path) in [finding.name for finding in findings]
    for finding in findings:
        assert isinstance(finding.message, str), finding
        assert finding.message.strip(), finding
        assert finding.level in ("info", "warning", "error"), finding


@pytest.mark.parametrize("path", samples.of("bad"), ids=samples.name_of)
def test_bad_is_refused_at_its_place_and_nowhere_else(path):
    check = checker(registry.dialect(samples.dialect_of(path)))
    pointers = samples.pointers_of(path)
    for line in samples.lines_of(path):
        refusal = check(line)
        assert isinstance(refusal, Refusal), line
        assert [problem.pointer for problem in refusal.problems] == pointers, (line, refusal)
        assert all(problem.message and problem.hint for problem in refusal.problems)


@pytest.mark.parametrize("name", registry.dialect_names())
def test_every_dialect_has_all_three_kinds_of_samples(name):
    for kind in ("good", "bad", "odd"):
        assert [path for path in samples.of(kind) if samples.dialect_of(path) == name], kind


@pytest.mark.parametrize("name", registry.dialect_names())
def test_every_kind_has_a_good_or_odd_sample(name):
    dialect = registry.dialect(name)
    kinds = {
        event.kind
        for path in samples.of("good") + samples.of("odd")
        if samples.dialect_of(path) == dialect.name
        for event in heard(path)[1]
    }
    assert set(dialect.kinds) <= kinds


@pytest.mark.parametrize("path", samples.of("good"), ids=samples.name_of)
def test_a_valid_line_needs_no_tolerance(path):
    dialect = registry.dialect(samples.dialect_of(path))
    for line in samples.lines_of(path):
        body = orjson.loads(line)
        assert dialect.tolerate(body) == (body, [])


def test_every_published_schema_is_the_file_that_is_shipped():
    for name, schema in published(registry.dialects()).items():
        shipped = ROOT / "contracts" / "schemas" / f"{name}.schema.json"
        assert orjson.loads(shipped.read_bytes()) == schema


def test_where_a_dialect_has_no_identities_an_id_that_comes_again_is_no_duplicate():
    dialect = registry.dialect("tracklog")
    origin = {"writer": "w", "fidelity": "observed"}
    line = native_line(Noted(label="l"), id="i", run="r", origin=origin)
    event = checker(dialect)(line)
    assert event.id == "i"
    for policy, found in (
        (dialect.policy, ["duplicate"]),
        (replace(dialect.policy, identity="none"), []),
    ):
        lint = Lint([replace(dialect, policy=policy)])
        list(lint.add(event))
        assert [finding.name for finding in lint.add(event)] == found
