"""The public API: what `import tracklog` gives a program."""

import subprocess
import sys

import orjson
import pytest

import tracklog
from tracklog.model.errors import KeyReused, NoSuchRun, UnknownName

START = {
    "ts": "2026-05-05T09:00:00.000Z", "run_id": "r1", "event": "agent_run_start",
    "agent_id": "coder", "task": "tidy the tests",
}  # fmt: skip
SPENT = {
    "id": "s1", "run": "r2", "at": "2026-05-05T10:00:00Z", "fact": "Spent", "key": "s1",
    "model": "m-1", "cost_usd": 0.25, "origin": {"writer": "me", "fidelity": "reported"},
}  # fmt: skip


@pytest.fixture
def log(tmp_path):
    with tracklog.open(tmp_path / "home") as opened:
        yield opened


def test_events_are_appended_as_mappings_texts_or_bytes_and_read_back_unchanged(log):
    line = orjson.dumps(START)
    verdicts = [log.append(START), log.append(line.decode()), log.append(line, "kahn-agent")]
    assert [each.verdict for each in verdicts] == ["accepted"] * 3
    assert [each.seq for each in verdicts] == [1, 2, 3]
    assert [record.line for record in log.read()] == [line] * 3
    assert [record.seq for record in log.read(after=2, run="r1")] == [3]


def test_a_malformed_event_is_refused_with_its_problems_and_nothing_is_recorded(log):
    verdict = log.append({"ts": START["ts"], "run_id": "r1", "event": "run_end"})
    assert verdict.verdict == "refused"
    assert {problem.pointer for problem in verdict.problems} >= {"/outcome", "/done"}
    assert list(log.read()) == []


def test_a_batch_under_a_key_is_recorded_once(log):
    first = log.admit([START, START], key="k")
    again = log.admit([START, START], key="k")
    assert again == first
    assert again.replayed
    with pytest.raises(KeyReused):
        log.admit([START], key="k")
    assert len(list(log.read())) == 2


def test_questions_see_what_was_appended_before(log):
    log.admit([START, SPENT])
    assert {run.run for run in log.runs()} == {"r1", "r2"}
    assert log.run("r1").status == "working"
    assert [hit.seq for hit in log.search("tidy")] == [1]
    assert [(row.of, row.cost_usd) for row in log.costs("model")] == [("m-1", 0.25)]
    assert log.why("r1", 1).record.seq == 1
    with pytest.raises(NoSuchRun):
        log.run("nobody")


def test_walking_gives_facts_of_any_dialect_and_whether_they_count(log):
    log.admit([START, SPENT])
    facts = [(type(fact), reading.counts) for reading in log.walk() for fact in reading.facts]
    assert facts == [(tracklog.Began, True), (tracklog.Spent, True)]


def test_a_log_is_verified_and_a_run_exported(log):
    log.append(START)
    assert log.verify().ok
    exported = log.export("r1", "cloudevents")
    assert orjson.loads(exported)[0]["data"] == START


def test_a_path_and_a_file_url_are_the_same_place_and_another_scheme_is_named(tmp_path):
    with tracklog.open(f"file:{tmp_path}/home") as log:
        log.append(START)
    with tracklog.open(tmp_path / "home", readonly=True) as log:
        assert len(list(log.read())) == 1
    with pytest.raises(UnknownName, match="cannot be opened"):
        tracklog.open("http://127.0.0.1:4318")


def test_lines_are_checked_without_a_log():
    good, *_ = tracklog.check([START])
    assert good.result.dialect == "kahn-agent"
    bad, *_ = tracklog.check(b"{}\n", "kahn-agent")
    assert bad.result.problems


@pytest.mark.parametrize("name", sorted(tracklog._MODULES))
def test_every_public_name_can_be_imported(name):
    assert getattr(tracklog, name) is not None
    assert name in dir(tracklog)


def test_importing_the_package_imports_nothing_slow():
    slow = "pydantic", "orjson", "sqlite3", "starlette", "click"
    code = f"import sys, tracklog; print([each for each in {slow!r} if each in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
