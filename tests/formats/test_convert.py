"""A run converted to another dialect: valid there, with a report of what was lost, and restored on the way back."""

import json
from collections import Counter, defaultdict
from dataclasses import fields, replace

import orjson
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from support import sampling as samples
from support.exporting import DIALECTS, DOORS, FLIGHTS, facts_of, generated, records, sample, told
from support.soaking import SOAK
from tracklog.cli import tracklog
from tracklog.dialects import tracklog as native
from tracklog.dialects.checking import understand
from tracklog.dialects.rules import Lint
from tracklog.formats.convert import convert
from tracklog.formats.exporters import utc
from tracklog.formats.loss import LossReport
from tracklog.intake.intake import Intake
from tracklog.journal.journal import Journal
from tracklog.journal.stores.memory import MemoryStore
from tracklog.model.event import Event
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Moved,
    Returned,
    Said,
    Spent,
)

NAMES = sorted(DIALECTS)
KAHN = [name for name in NAMES if DIALECTS[name].family == "kahn"]
OTHERS = [name for name in NAMES if name not in KAHN]


def converted(recorded, to, *, carry=True):
    report = LossReport()
    lines = list(convert(recorded, DIALECTS, DIALECTS[to], report, carry=carry))
    return lines, report


def by_run(recorded):
    found = defaultdict(list)
    for record in recorded:
        found[record.run].append(record.line)
    return dict(found)


def canonical(value) -> str:
    """Equal for two values that are equal as JSON: 1.0 is 1, and keys have no order."""
    whole = orjson.loads(orjson.dumps(value, default=list, option=orjson.OPT_SORT_KEYS))
    return repr(_integral(whole))


def _integral(value):
    if isinstance(value, list):
        return [_integral(each) for each in value]
    if isinstance(value, dict):
        return {key: _integral(each) for key, each in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


ENVELOPE = ("run", "at", "id", "cause")


def meanings(recorded) -> Counter:
    """How often each field of each fact and event is told, with its value."""
    found = Counter(
        (f"{type(fact).__name__}.{item.name.rstrip('_')}", canonical(value))
        for fact in facts_of(recorded)
        for item in fields(fact)
        if (value := getattr(fact, item.name)) is not None
    )
    for record in recorded:
        event = understand(DIALECTS[record.dialect], record.line)
        at = utc(event.at) or event.at
        if at is not None and "." in at:
            at = at.removesuffix("Z").rstrip("0").rstrip(".") + "Z"
        told = {"run": event.run, "at": at, "id": event.id, "cause": event.cause}
        found.update((name, canonical(value)) for name, value in told.items() if value is not None)
    return found


def check_laws(recorded, to):
    for carry in (True, False):
        lines, report = converted(recorded, to, carry=carry)
        # No line is refused where it is told, not for its identity either.
        intake = Intake(Journal(MemoryStore()), [DIALECTS[to]])
        verdicts = intake.admit(lines, to)
        assert [v for v in verdicts if v.seq is None] == []
        if not carry:
            check_kept(recorded, records(lines, to), report)


def check_kept(recorded, again, report):
    """What is called kept is told by the converted lines."""
    kept, there = claimed(report, "kept"), in_both(recorded, again)
    assert {field: times for field, times in kept.items() if times > there[field]} == {}
    assert not any(fate == "carried" for _, _, fate in report.counts)


def claimed(report, *fates) -> Counter:
    """How often each field of a fact or an event had one of these fates."""
    found: Counter = Counter()
    for (_, field, fate), times in report.counts.items():
        if fate in fates and ("." in field or field in ENVELOPE) and not field.startswith("/"):
            found[field] += times
    return found


def in_both(recorded, again) -> Counter:
    """How often each field is told here and there with the same value."""
    found: Counter = Counter()
    for (field, _), times in (meanings(recorded) & meanings(again)).items():
        found[field] += times
    return found


@pytest.mark.parametrize("path", FLIGHTS, ids=samples.name_of)
def test_every_sample_converted_to_every_dialect_is_valid_there_and_its_report_is_true(path):
    for to in NAMES:
        check_laws(sample(path), to)


@settings(max_examples=60 * SOAK)
@given(generated(), st.sampled_from(NAMES))
def test_every_run_converted_to_every_dialect_is_valid_there_and_its_report_is_true(recorded, to):
    check_laws(recorded, to)


GOLDEN = {"kahn-agent": "kahn-agent/converges", "awf": "awf/a-whole-run"}


@pytest.mark.parametrize("golden", GOLDEN)
@pytest.mark.parametrize("to", NAMES)
def test_a_converted_run_equals_the_sample(to, golden):
    """Refreshed by TRACKLOG_REFRESH; read the difference before it is committed."""
    path = next(p for p in samples.of("good") if samples.name_of(p) == GOLDEN[golden])
    lines, report = converted(sample(path), to)
    text = b"".join(line + b"\n" for line in lines)
    told = orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    folder = samples.ROOT / "convert"
    for file, made in (
        (folder / f"{golden}-to-{to}.jsonl", text),
        (folder / f"{golden}-to-{to}.report.json", told),
    ):
        if samples.REFRESH:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(made)
        assert made == file.read_bytes()


@pytest.mark.parametrize("path", FLIGHTS, ids=samples.name_of)
def test_to_its_own_dialect_a_run_is_converted_to_the_same_bytes(path):
    recorded = sample(path)
    lines, report = converted(recorded, samples.dialect_of(path))
    assert lines == [record.line for record in recorded]
    assert report.lossless
    assert report.counts == {}


def check_way_back(recorded, through):
    """What is called kept or carried is there again, but for what is lost on the way back.

    Where lines ride along and nothing was dropped, the very lines are there.
    """
    there, report = converted(recorded, through)
    own = recorded[0].dialect
    back, onward = converted(records(there, through), own)
    again = records(back, own)
    if through in OTHERS and not report.totals()["dropped"]:
        assert by_run(again) == by_run(recorded), through
    restored, lost = in_both(recorded, again), claimed(onward, "dropped", "carried")
    wanted = claimed(report, "kept", "carried") - lost
    assert {field: times for field, times in wanted.items() if times > restored[field]} == {}


@pytest.mark.parametrize("path", FLIGHTS, ids=samples.name_of)
def test_preserved_and_carried_fields_are_restored_on_the_way_back(path):
    for through in NAMES:
        if through != samples.dialect_of(path):
            check_way_back(sample(path), through)


@settings(max_examples=40 * SOAK)
@given(generated(), st.sampled_from([name for name in NAMES if name != "tracklog"]))
def test_a_native_run_comes_back_as_it_was(recorded, through):
    check_way_back(recorded, through)


def ends(fact) -> bool:
    """Whether a run, or an agent, ends: told last of what one line tells."""
    return isinstance(fact, Ended) and fact.what != "step"


@pytest.mark.parametrize("path", samples.of("good"), ids=samples.name_of)
def test_the_native_dialect_loses_nothing_and_makes_nothing_up(path):
    recorded = sample(path)
    lines, report = converted(recorded, "tracklog")
    assert report.lossless
    own = samples.dialect_of(path)
    if own != "tracklog":
        heard = [samples.plain(fact) for fact in facts_of(records(lines, "tracklog"))]
        wanted = [
            samples.plain(fact)
            for record in recorded
            for fact in sorted(facts_of([record]), key=ends)
        ]
        for fact, again in zip(wanted, heard, strict=True):
            assert {key: again.get(key) for key in fact} == fact


def test_converting_twice_gives_the_same_bytes():
    recorded = told(Said(role="user", blocks=({"type": "text", "text": "hi"},)), Ended(what="run"))
    for to in NAMES:
        assert converted(recorded, to)[0] == converted(recorded, to)[0]


def test_two_equal_lines_of_a_dialect_without_identity_stay_two():
    line = (
        b'{"ts":"2026-05-05T09:00:01.250Z","run_id":"r","event":"tool_invocation",'
        b'"agent_id":"coder","step":0,"tool_name":"Read","duration_s":0.04,"ok":true}'
    )
    recorded = records([line, line], "kahn-agent")
    for to in OTHERS:
        lines, _ = converted(recorded, to)
        assert len(set(lines)) == len(lines), to
        # Or none: a dialect may have no words for calls.
        assert len(lines) in (0, len(facts_of(recorded))), to


def test_a_run_converted_on_begins_at_its_first_words():
    """From A by way of B to C is told from A's own line, so nothing is lost twice."""
    path = next(p for p in samples.of("good") if samples.name_of(p) == "kahn-agent/converges")
    recorded = sample(path)
    through, _ = converted(recorded, "fishbowl")
    onward, report = converted(records(through, "fishbowl"), "tracklog", carry=False)
    direct, _ = converted(recorded, "tracklog", carry=False)
    bare = [{k: v for k, v in json.loads(line).items() if k != "id"} for line in onward]
    assert bare == [{k: v for k, v in json.loads(line).items() if k != "id"} for line in direct]
    assert report.totals()["kept"]


def test_a_forged_extension_cannot_bring_in_a_line_that_the_intake_refuses():
    load = {
        "of": 1,
        "own": True,
        "lines": [["kahn-agent", '{"event":"nothing"}'], ["klingon", "{}"]],
    }
    line = native.line(
        Ended(what="run"),
        id="1",
        run="r",
        origin={"writer": "t", "fidelity": "observed"},
        extra={"converted": load},
    )
    lines, report = converted(records([line], "tracklog"), "kahn-agent")
    assert lines == []
    assert report.totals()["dropped"] == 2
    odd = {**load, "lines": "no list"}
    again = native.line(
        Ended(what="agent", agent="coder"),
        id="1",
        run="r",
        origin={"writer": "t", "fidelity": "observed"},
        extra={"converted": odd},
    )
    (said,), _ = converted(records([again], "tracklog"), "kahn-agent")
    assert isinstance(DOORS["kahn-agent"](said), Event)


@pytest.mark.requirement("KAHN-52")
def test_no_conversion_puts_a_tools_full_output_into_a_kahn_line():
    output = "word " * 1000 + "the end of it"
    call = Called(tool="read", call_id="c1", input={"path": "a"})
    for result in (
        [call, Returned(call_id="c1", ok=True, output=output)],
        [call, Returned(call_id="c1", ok=False, exit_code=1, output="x" * 5000 + output)],
        [
            Said(
                role="user",
                blocks=({"type": "tool_result", "tool_id": "c1", "tool_content": output},),
            ),
            Ended(what="agent", agent="a"),
        ],
    ):
        for to in KAHN:
            lines, report = converted(told(*result, Ended(what="run", passed=True)), to)
            assert not any(output.encode() in line for line in lines)
            assert report.totals()["dropped"]


def test_converted_openwop_lines_hold_no_secret_and_elsewhere_nothing_is_redacted():
    secret = "sk-" + "a1B2" * 8
    facts = [
        Said(role="thought", blocks=({"type": "thinking", "thinking": f"use {secret}"},)),
        Called(tool="http", call_id="c", input={"headers": {"Authorization": "hunter2"}}),
    ]
    lines, report = converted(told(*facts), "openwop")
    assert not any(secret.encode() in line or b"hunter2" in line for line in lines)
    assert b"[REDACTED:key]" in lines[0]
    assert b"[REDACTED:Authorization]" in lines[1]
    assert report.totals()["dropped"]
    for to in ("awf", "fishbowl"):
        assert secret.encode() in b"".join(converted(told(*facts), to)[0])


def test_a_question_and_its_answer_are_converted_to_the_form_of_kahn_agents():
    facts = [
        Asked(agent="coder", question_id="q1", text="Which port?"),
        Moved(agent="coder", from_="running", to="suspended", phase="waiting"),
        Answered(agent="coder", question_id="q1", answer="8080"),
        Moved(agent="coder", from_="suspended", to="running", phase="working"),
    ]
    lines, _ = converted(told(*facts), "kahn-agent", carry=False)
    moves = [(b["from"], b["to"], b["reason"]) for b in map(json.loads, lines)]
    blocked = "blocked-on-clarification"
    assert moves == [
        ("thinking", blocked, "clarification:q1"),
        (blocked, "thinking", "operator_response:q1"),
    ]
    heard = facts_of(records(lines, "kahn-agent"))
    assert [f.text for f in heard if isinstance(f, Asked)] == ["Which port?"]
    assert [f.answer for f in heard if isinstance(f, Answered)] == ["8080"]


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("kahn-ci/clean-with-flake", "ralph"),
        ("kahn-ci/stuck", "ralph"),
        ("ralph/three-phases-are-no-flake", "kahn-ci"),
    ],
)
def test_moves_and_checks_of_nodes_are_the_same_in_the_sister_dialect(name, to):
    recorded = sample(next(p for p in samples.of("good") if samples.name_of(p) == name))
    lines, _ = converted(recorded, to, carry=False)
    before = [samples.plain(f) for f in facts_of(recorded) if isinstance(f, Moved | Returned)]
    again = facts_of(records(lines, to))
    assert [samples.plain(f) for f in again if isinstance(f, Moved | Returned)] == before
    (end,) = [fact for fact in again if isinstance(fact, Ended) and fact.what == "run"]
    (was,) = [f for f in facts_of(recorded) if isinstance(f, Ended) and f.what == "run"]
    assert (end.outcome, end.exit_code) == (was.outcome, was.exit_code)


@pytest.mark.requirement("RALPH-11", "RALPH-12", "RALPH-40")
@pytest.mark.parametrize("carry", [True, False])
def test_a_prompt_run_is_a_ci_run_to_the_byte(carry):
    for path in (p for p in samples.of("good") if samples.dialect_of(p) == "ralph"):
        lines, report = converted(sample(path), "kahn-ci", carry=carry)
        assert lines == [record.line for record in sample(path)]
        assert report.lossless


def test_between_the_kahn_dialects_every_line_comes_back():
    for path in (p for p in samples.of("good") if samples.dialect_of(p) in KAHN):
        recorded, own = sample(path), samples.dialect_of(path)
        for through in KAHN:
            there, report = converted(recorded, through)
            back, _ = converted(records(there, through), own)
            dropped = report.totals()["dropped"]  # after the last line that has words there
            assert dropped or by_run(records(back, own)) == by_run(recorded)


def test_a_run_of_several_agents_ends_with_the_last_of_them():
    facts = [
        Began(what="agent", agent="a"),
        Began(what="agent", agent="b"),
        Ended(what="agent", agent="a", passed=True),
        Spent(key="s", agent="b", usage={"total_tokens": 3}),
        Ended(what="agent", agent="b", passed=False),
    ]
    lines, _ = converted(told(*facts), "openwop", carry=False)
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds[:3] == ["run.started", "node.started", "node.completed"]
    assert kinds[-1] == "run.failed"


def found(lines, to) -> set[str]:
    """The names of what is surprising about lines."""
    lint = Lint([DIALECTS[to]])
    return {each.name for line in lines for each in lint.add(DOORS[to](line))}


@pytest.mark.parametrize("to", ["awf", "openwop"])
def test_nothing_is_written_after_the_end_of_a_run(to):
    for path in samples.of("good"):
        lines, _ = converted(sample(path), to, carry=False)
        late = found(lines, to) & {"after-end", "event-after-terminal"}
        twice = samples.name_of(path) == "fishbowl/a-corrective-close"
        assert bool(late) == twice, samples.name_of(path)


def test_a_move_of_a_node_is_no_status_of_an_agent_nor_the_other_way_round():
    node = Moved(step="lint", from_="running", to="done", phase="done")
    assert converted(told(node), "kahn-agent", carry=False)[0] == []
    agent = Moved(agent="coder", step="2", from_="thinking", to="failed", phase="failed")
    assert converted(told(agent), "kahn-ci", carry=False)[0] == []


@pytest.mark.requirement("BOWL-26")
@pytest.mark.parametrize("verdict", [{"next": "done"}, [], None, 3])
def test_a_decision_without_text_becomes_a_message_on_stage(verdict):
    lines, _ = converted(told(Decided(agent="a", verdict=verdict)), "fishbowl", carry=False)
    assert all(json.loads(line)["payload"]["text"] for line in lines)


def test_the_tail_of_a_check_is_cut_in_bytes():
    check = Returned(step="n", call_id="n/1/0", tool="t", ok=False, exit_code=1, output="é" * 4096)
    attempt = Ended(what="step", step="n#1", passed=False)
    (line,), _ = converted(told(check, attempt), "kahn-ci", carry=False)
    (result,) = json.loads(line)["done_when_results"]
    assert (result["tail"], result["truncated"]) == ("é" * 2048, True)


def test_what_the_source_did_not_say_is_called_synthesised():
    audit = Decided(agent="coder", name="tests", verdict="pass", passed=True)
    _, report = converted(told(audit), "kahn-agent")
    rows = {row["field"]: row for row in report.rows()}
    assert rows["audit_checkpoint/duration_s"]["synthesised"] == 1
    assert rows["Decided.name"]["kept"] == 1
    assert not report.lossless


def test_a_line_that_the_check_refuses_is_left_out_of_a_conversion():
    def write(fact, scene):
        body = dict(fishbowl.write(fact, scene))
        body["nonsense"] = {"a": 1}
        return body | ({"turn": "no number"} if isinstance(fact, Ended) else {})

    fishbowl = DIALECTS["fishbowl"]
    odd = replace(fishbowl, write=write)
    recorded = told(Said(role="user", blocks=({"type": "text", "text": "hi"},)), Ended(what="run"))
    (line,) = convert(recorded, DIALECTS, odd, LossReport(), carry=False)
    assert "nonsense" not in json.loads(line)
    assert isinstance(DOORS["fishbowl"](line), Event)


def test_a_dialect_without_extensions_is_written_without_them_and_the_report_says_so():
    closed = replace(DIALECTS["fishbowl"], extension=("converted",))
    report = LossReport()
    recorded = told(Said(role="user", blocks=({"type": "text", "text": "hi"},)))
    (line,) = convert(recorded, DIALECTS, closed, report)
    assert "converted" not in json.loads(line)
    assert report.totals()["carried"] == 0


def test_more_lines_without_facts_than_can_be_carried_are_dropped_and_reported(monkeypatch):
    monkeypatch.setattr("tracklog.formats.convert.CARRIED", 2000)
    said = [Said(role="user", blocks=({"type": "text", "text": f"{n} " * 100},)) for n in range(20)]
    end = Ended(what="agent", agent="coder", passed=True)
    (line,), report = converted(told(*said, end), "kahn-agent")
    assert report.totals()["dropped"] > 0
    assert 0 < len(json.loads(line)["converted"]["lines"]) < 20


def test_the_report_depends_on_nothing_but_the_records():
    path = next(p for p in samples.of("good") if samples.name_of(p) == "awf/a-whole-run")
    first = converted(sample(path), "tracklog")[1].as_json()
    for other in samples.of("good"):
        if samples.dialect_of(other) == "awf":
            converted(sample(other), "tracklog")
    assert converted(sample(path), "tracklog")[1].as_json() == first


def test_a_value_deeper_than_orjson_writes_is_converted_all_the_same():
    deep = orjson.dumps({"id": "1", "run": "r", "fact": "Noted", "label": "x"})[:-1]
    deep += b',"data":' + b"[" * 300 + b"]" * 300
    deep += b',"origin":{"writer":"t","fidelity":"observed"}}'
    for to in NAMES:
        lines, _ = converted(records([deep], "tracklog"), to)
        assert all(isinstance(DOORS[to](line), Event) for line in lines)


def test_a_line_that_nobody_can_read_is_reported():
    recorded = records([b'{"event":"agent_run_start","agent_id":"a"}'], "kahn-agent")
    broken = [recorded[0]._replace(line=b"not json")]
    lines, report = converted(broken, "awf")
    assert lines == []
    assert report.rows() == [
        {"kind": "kahn-agent", "field": "line", "kept": 0, "carried": 0, "dropped": 1}
        | {"synthesised": 0}
    ]


@pytest.fixture
def home(tmp_path):
    path = next(p for p in samples.of("good") if samples.name_of(p) == "kahn-agent/converges")
    runner = CliRunner()
    done = runner.invoke(tracklog, ["record", str(path), "--home", str(tmp_path / "home")])
    assert done.exit_code == 0
    return tmp_path / "home"


def run(*arguments, home):
    return CliRunner().invoke(tracklog, [*arguments, "--home", str(home)])


def test_convert_writes_lines_that_check_takes(home, tmp_path):
    file = tmp_path / "out.jsonl"
    done = run("convert", "agent-coder-1", "--to", "awf", "-o", str(file), "--report", home=home)
    assert done.exit_code == 0
    assert "kept" in done.stdout
    checked = CliRunner().invoke(tracklog, ["check", "--dialect", "awf", str(file)])
    assert checked.exit_code == 0
    assert "0 refused" in checked.output


def test_strict_writes_nothing_when_something_would_be_lost(home, tmp_path):
    file = tmp_path / "out.jsonl"
    done = run("convert", "agent-coder-1", "--to", "awf", "-o", str(file), "--strict", home=home)
    assert done.exit_code == 1
    assert not file.exists()
    assert "nothing was written" in done.stderr
    fine = run("convert", "agent-coder-1", "--to", "tracklog", "--strict", home=home)
    assert fine.exit_code == 0
    assert len(fine.stdout.splitlines()) == 9


@pytest.mark.parametrize("bare", [(), ("--bare",)], ids=["carrying", "bare"])
def test_strict_fails_exactly_when_something_is_dropped_or_invented(home, bare):
    outcomes = Counter()
    for to in NAMES:
        told = run("convert", "agent-coder-1", "--to", to, "--json", *bare, home=home)
        totals = json.loads(told.stderr)["totals"]
        lost = totals["dropped"] + totals["synthesised"] > 0
        strict = run("convert", "agent-coder-1", "--to", to, "--strict", *bare, home=home)
        assert strict.exit_code == (1 if lost else 0), to
        assert strict.stdout == ("" if lost else told.stdout)
        outcomes[lost] += 1
    assert outcomes[True]
    assert outcomes[False]


def test_the_report_is_json_when_asked(home, tmp_path):
    file = tmp_path / "out.jsonl"
    done = run("convert", "agent-coder-1", "--to", "tracklog", "-o", str(file), "--json", home=home)
    told = json.loads(done.stdout)
    assert told["lossless"] is True
    assert told["totals"]["dropped"] == 0
    assert {"kind", "field", "kept", "carried", "dropped", "synthesised"} == set(told["fields"][0])


def test_an_unknown_dialect_is_answered_with_the_known_ones(home):
    done = run("convert", "agent-coder-1", "--to", "klingon", home=home)
    assert "tracklog" in done.exception.hint
