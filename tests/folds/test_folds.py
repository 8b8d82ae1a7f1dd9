"""The folds: what each answers, and the laws that all of them keep."""

import re
import subprocess
import sys
from copy import deepcopy
from dataclasses import asdict, fields, replace
from functools import cache
from inspect import signature
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import sampling as samples
from support.summing import agents_of, audits_of, outcomes_of, slow_agents, slow_audits
from tracklog.answers.tools import Calls
from tracklog.dialects.checking import checker
from tracklog.folds import (
    Position,
    epoch_ms,
    number,
    row_key,
    rows_of,
    run_key,
    run_of,
    summed,
    text_of,
    unlifted,
)
from tracklog.folds import agents as agents_
from tracklog.folds import audits as audits_
from tracklog.folds import calls as calls_
from tracklog.folds import conversation as conversation_
from tracklog.folds import costs as costs_
from tracklog.folds import inbox as inbox_
from tracklog.folds import leaderboard as leaderboard_
from tracklog.folds import loops as loops_
from tracklog.folds import marks as marks_
from tracklog.folds import outcomes as outcomes_
from tracklog.folds import runs as runs_
from tracklog.folds import series as series_
from tracklog.folds import stage as stage_
from tracklog.folds import steps as steps_
from tracklog.folds import tree as tree_
from tracklog.folds._cells import cell_of
from tracklog.folds.conversation import mark_of
from tracklog.home import registry
from tracklog.index.codec import freeze, thaw
from tracklog.journal.frame import stamp
from tracklog.model.errors import BadPlug, UnknownName
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
    Marked,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)

ROOT = Path(__file__).parents[2]
NOW = "2026-05-06T09:00:00.000Z"
FOLDS = registry.folds()


def told(seq=1, run="r", *, at=None, received=None, family="f", kind="k", dialect="d"):
    return Position(
        seq=seq,
        received=received or f"2026-05-06T08:{seq // 60 % 60:02}:{seq % 60:02}.000Z",
        family=family,
        run=run,
        at=at,
        kind=kind,
        id=None,
        cause=None,
        dialect=dialect,
    )


def numbered(facts, **where):
    """Facts, each as a record of its own."""
    return [(told(seq, **where), fact) for seq, fact in enumerate(facts, 1)]


def play(fold, history, states=None):
    """The states by key after a history."""
    states = {} if states is None else states
    for place, fact in history:
        if isinstance(fact, fold.facts) and (key := fold.key(place, fact)) is not None:
            states[key] = fold.step(states.get(key) or fold.State(), place, fact)
    return states


def cells_of(states):
    """What the runs add to each minute."""
    cells = [series_.cells(state) for state in states.values()]
    return [
        (cell_of(key, each.names), amounts)
        for each in cells
        for key, amounts in each.amounts.items()
    ]


def tools_of(states, since=None, until=None):
    """The tools over all runs."""
    tools = {}
    for cell, amounts in cells_of(states):
        at = cell.minute * 60_000
        if (since and at < epoch_ms(since)) or (until and at >= epoch_ms(until)):
            continue
        if cell.kind == "calls":
            each = tools.setdefault(cell.label.tool, Calls())
            each.calls, each.failures = each.calls + amounts[0], each.failures + amounts[1]
            each.open += amounts[2]
            if (bucket := series_.lasted(cell.part)) is not None:
                each.durations[bucket] += amounts[0]
    rows = [asdict(each.row(tool)) for tool, each in tools.items()]
    return sorted(rows, key=lambda row: (-row["calls"], row["tool"]))


def only(states):
    (state,) = states.values()
    return state


@cache
def checker_of(dialect):
    return checker(registry.dialect(dialect))


def read(dialect, lines, seq=1):
    """A history as it is read from lines of a dialect."""
    plug = registry.dialect(dialect)
    check, history = checker_of(dialect), []
    for line in lines:
        event = check(line if isinstance(line, bytes) else orjson.dumps(line))
        assert isinstance(event, Event), event
        place = told(
            seq, event.run, at=event.at, family=event.family, kind=event.kind, dialect=dialect
        )
        history += [(place, fact) for fact in plug.facts(event)]
        seq += 1
    return history


def sample(name, seq=1):
    dialect, _, stem = name.partition("/")
    path = samples.ROOT / "dialects" / dialect / "good" / f"{stem}.jsonl"
    return read(dialect, samples.lines_of(path), seq)


def runs_after(history, now=NOW, lost_after=900.0):
    states = sorted(play(runs_.fold, history).values(), key=runs_.last_active, reverse=True)
    return [runs_.row(state, now, lost_after) for state in states]


def run_after(history, now=NOW, lost_after=900.0):
    (row,) = runs_after(history, now, lost_after)
    return row


AGENT = {"ts": "2026-05-05T09:00:00.000Z", "run_id": "r", "agent_id": "coder"}


def began(run="r", agent="coder"):
    return AGENT | {"event": "agent_run_start", "run_id": run, "agent_id": agent, "task": "t"}


def ended(run="r", agent="coder", outcome="converged", **more):
    return (
        AGENT
        | {"event": "agent_run_end", "run_id": run, "agent_id": agent, "outcome": outcome}
        | {"total_steps": 0, "total_tool_calls": 0, "total_audit_checkpoints": 0}
        | {"audits_passed": 0, "audits_failed": 0, "total_duration_s": 1.0}
        | more
    )


def test_a_run_that_only_agents_end_is_done_when_all_of_them_have_ended():
    first = [Began(what="agent", agent="a"), Began(what="agent", agent="b")]
    half = [*first, Ended(what="agent", agent="a", outcome="converged", passed=True)]
    assert run_after(numbered(half))["status"] == "lost"
    assert run_after(numbered(half), lost_after=10**6)["status"] == "working"
    whole = [*half, Ended(what="agent", agent="b", outcome="partial", passed=False)]
    row = run_after(numbered(whole))
    assert (row["status"], row["ended"], row["passed"]) == ("failed", True, False)
    assert (row["outcome"], row["outcomes"]) == (None, {"converged": 1, "partial": 1})


@pytest.mark.parametrize(
    ("phases", "status"),
    [
        (["working", "waiting", "failed", "done"], "waiting"),
        (["working", "failed", "done"], "failed"),
        (["working", "done"], "working"),
        (["done", "done"], "done"),
    ],
)
def test_a_run_has_the_status_of_its_most_urgent_agent(phases, status):
    facts = [
        Moved(agent=f"a{number}", from_=None, to="x", phase=phase)
        for number, phase in enumerate(phases)
    ]
    assert run_after(numbered(facts), lost_after=10**6)["status"] == status


def test_silence_is_lost_only_for_a_run_that_works():
    working = numbered([Began(what="run")])
    assert run_after(working, now="2026-05-06T08:00:31.000Z", lost_after=30)["status"] == "working"
    assert run_after(working, now="2026-05-06T08:00:32.000Z", lost_after=30)["status"] == "lost"
    waiting = numbered([Began(what="run"), Asked(question_id="q")])
    assert run_after(waiting)["status"] == "waiting"
    done = numbered([Began(what="run"), Ended(what="run", passed=True)])
    assert run_after(done)["status"] == "done"


def test_a_resumed_run_is_no_longer_ended():
    facts = [Began(what="run"), Ended(what="run", outcome="x", passed=False), Began(what="run")]
    row = run_after(numbered(facts), lost_after=10**6)
    assert (row["status"], row["outcome"], row["ended"]) == ("working", None, False)


@pytest.mark.parametrize(("again", "ended"), [("09:05", False), ("09:04", True), (None, False)])
def test_a_begin_that_happened_before_the_end_does_not_reopen_a_run(again, ended):
    """Another source may report it late; one at the time of the end is a new begin."""
    times = ("09:00", "09:05", again)
    facts = (Began(what="run"), Ended(what="run", passed=True), Began(what="run"))
    history = [
        (told(seq, at=clock and f"2026-05-06T{clock}:00.000Z"), fact)
        for seq, (clock, fact) in enumerate(zip(times, facts, strict=True), 1)
    ]
    assert run_after(history, lost_after=10**6)["ended"] is ended


def test_a_copied_mark_is_no_mark():
    place = told()._replace(id="m1")
    mark = Marked(seen=True)
    assert marks_.fold.key(place, mark) is not None
    assert marks_.fold.key(place, replace(mark, copied=True)) is None


def test_a_failed_attempt_is_no_failed_step():
    facts = [
        Moved(step="build", from_="pending", to="running", phase="working"),
        Began(what="step", step="build"),
        Ended(what="step", step="build#1", passed=False),
        Moved(step="build", from_="running", to="done", phase="done"),
        Ended(what="step", step="build", passed=True),
    ]
    row = run_after(numbered(facts))
    assert (row["status"], row["steps"]) == ("done", 1)


def test_an_answer_or_a_move_ends_the_waiting():
    asked = [Began(what="run"), Asked(agent="a", question_id="q", text="which?")]
    answered = [*asked, Answered(question_id="q", answer="this")]
    moved = [*asked, Moved(agent="a", from_="blocked", to="thinking", phase="working")]
    for facts in (answered, moved):
        row = run_after(numbered(facts), lost_after=10**6)
        assert (row["status"], row["questions"]) == ("working", 0)


@pytest.mark.requirement("KAHN-47")
def test_a_blocked_agent_is_shown_as_waiting_for_a_person():
    history = read(
        "kahn-agent",
        [
            began(),
            AGENT
            | {"event": "agent_transition", "step": 0, "from": "thinking"}
            | {"to": "blocked-on-clarification", "reason": "clarification:q1", "question": "Why?"},
        ],
    )
    assert run_after(history)["status"] == "waiting"
    (row,) = agents_.in_runs(play(agents_.fold, history).values())
    assert (row["status"], row["waits"]) == ("blocked-on-clarification", True)
    (question,) = inbox_.answer(play(inbox_.fold, history).values(), NOW)
    assert (question["state"], question["agent"], question["text"]) == ("open", "coder", "Why?")


@pytest.mark.requirement("KAHN-46")
def test_a_partial_run_is_not_upgraded_though_its_process_exits_0():
    row = run_after(read("kahn-agent", [began(), ended(outcome="partial", exit_code=0)]))
    assert (row["outcome"], row["passed"], row["status"]) == ("partial", False, "failed")
    row = run_after(numbered([Ended(what="run", outcome="partial", passed=False, exit_code=0)]))
    assert (row["outcome"], row["passed"], row["status"]) == ("partial", False, "failed")


def test_money_and_tokens_of_a_run_are_counted_once():
    usage = {"input_tokens": 10, "output_tokens": 1, "cached_tokens": 4}
    history = numbered(
        [
            Spent(key="a", usage=usage, cost_usd=0.1),
            Spent(key="a", usage=usage | {"output_tokens": 5}, cost_usd=0.2),
            Spent(key="a", usage=usage | {"output_tokens": 3}, cost_usd=0.3),
            Spent(key="b", usage=usage, group="g"),
            Spent(key="c", usage={"input_tokens": 7}, group="g", whole=True),
            Spent(usage={"output_tokens": "many", "input_tokens": -1, "cached_tokens": True}),
            Spent(usage={"output_tokens": 2}),
            Spent(usage={"output_tokens": 2}),
            Spent(key="d", usage=usage, copied=True),
        ]
    )
    row = run_after(history)
    assert (row["tokens_in"], row["tokens_out"], row["tokens_cached"]) == (17, 9, 4)
    assert row["cost_usd"] == 0.2


def test_skew_title_dialects_and_places_are_stored():
    history = [
        (told(3, at="2026-05-06T08:00:00.000Z", dialect="x"), Began(what="run", task="do it")),
        (told(9, at="2026-05-06T08:00:11.500Z", dialect="y"), Noted(label="title", text="T")),
        (told(10, dialect="y"), Noted(label="other", text="no title")),
    ]
    row = run_after(history)
    assert row["title"] == "T"
    assert row["dialects"] == ["x", "y"]
    assert row["skew_ms"] == 3000
    assert (row["first_seq"], row["last_seq"]) == (3, 10)
    assert (row["first_at"], row["last_at"]) == (history[0][0].at, history[1][0].at)


def test_what_was_read_from_an_old_file_is_as_silent_as_its_own_clock_says():
    last_week = told(1, at="2026-04-29T08:00:00.000Z")
    read = run_after([(last_week, Began(what="run", fidelity="reconstructed"))])
    assert read["status"] == "lost"
    assert read["silent_seconds"] == 7 * 86_400 + 3600
    assert read["skew_ms"] == 0
    unclocked = (told(2), Noted(label="title", text="T", fidelity="reconstructed"))
    read = run_after([(last_week, Began(what="run", fidelity="reconstructed")), unclocked])
    assert (read["status"], read["silent_seconds"]) == ("lost", 7 * 86_400 + 3600)
    live = run_after([(last_week, Began(what="run"))])
    assert live["status"] != "lost" or live["silent_seconds"] < 3600
    assert live["skew_ms"] == 7 * 86_400_000 + 1000


ANSWER = Said(role="assistant", blocks=({"type": "text", "text": "Here it is."},))
THOUGHT = Said(role="assistant", blocks=({"type": "thinking", "thinking": "Hm."},))
PROMPT = Said(role="user", blocks=({"type": "text", "text": "And now?"},))
CALL, RETURN = Called(tool="t", call_id="1"), Returned(call_id="1", ok=True)
TURN, TURNED = Began(what="step", step="1"), Ended(what="step", step="1")


@pytest.mark.parametrize(
    ("turn", "status"),
    [
        ([PROMPT, ANSWER], "done"),
        ([PROMPT, CALL, RETURN, ANSWER, Noted(label="title", text="T")], "done"),
        ([PROMPT, ANSWER, replace(PROMPT, injected=True)], "done"),
        ([TURN, ANSWER, TURNED], "done"),
        ([TURN, CALL, replace(TURNED, outcome="interrupted")], "done"),
        ([TURN, replace(TURNED, passed=False)], "failed"),
        ([TURN, replace(ANSWER, step="1")], "lost"),
        ([PROMPT, THOUGHT], "lost"),
        ([PROMPT, ANSWER, CALL], "lost"),
        ([PROMPT, CALL, RETURN], "lost"),
        ([PROMPT, ANSWER, PROMPT], "lost"),
    ],
)
def test_a_conversation_read_from_a_file_is_lost_only_in_the_middle_of_a_turn(turn, status):
    facts = [replace(fact, fidelity="reconstructed") for fact in (Began(what="run"), *turn)]
    assert run_after(numbered(facts))["status"] == status
    heard_live = run_after(numbered([Began(what="run"), *turn]))["status"]
    assert heard_live == ("failed" if status == "failed" else "lost")


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (ANSWER, "done"),
        (Said(role="assistant", blocks=({"type": "text", "text": "", "withheld": True},)), "done"),
        (Said(role="assistant", blocks=()), "lost"),
        (CALL, "lost"),
        (RETURN, "lost"),
        (PROMPT, "lost"),
    ],
)
def test_a_conversation_reported_without_begin_and_end_is_lost_only_in_the_middle_of_a_turn(
    last, status
):
    facts = [replace(fact, fidelity="reported") for fact in (PROMPT, last)]
    assert run_after(numbered(facts))["status"] == status
    assert run_after(numbered(facts), lost_after=10**6)["status"] == "working"
    begun = [Began(what="run", fidelity="reported"), *facts]
    assert run_after(numbered(begun))["status"] == "lost"


def test_copied_history_is_shown_and_never_counted():
    facts = [
        Called(tool="t", call_id="1", input={}, copied=True),
        Returned(call_id="1", ok=False, copied=True),
        Ended(what="run", outcome="x", passed=False, copied=True),
        Spent(key="k", usage={"output_tokens": 1}, copied=True),
        Said(role="user", blocks=({"type": "text", "text": "hi"},), copied=True),
        Linked(kind="sub-run", child="another runs child", copied=True),
    ]
    history = numbered(facts)
    row = run_after(history, lost_after=10**6)
    assert (row["status"], row["tool_calls"], row["tokens_out"]) == ("working", 0, None)
    assert play(costs_.fold, history) == {}
    assert play(loops_.fold, history) == {}
    assert branches(history) == [("f:r", 0, False, False)]
    assert tools_of(play(series_.fold, history)) == []
    (message,) = conversation_.answer(play(conversation_.fold, history).values())
    (call,) = calls_.answer(play(calls_.fold, history).values())
    assert message["copied"]
    assert call["copied"]


@pytest.mark.requirement("KAHN-49")
def test_agents_have_five_buckets_and_escaped_is_not_aborted():
    outcomes = ["converged", "partial", "escaped", "escaped", "aborted"]
    lines = []
    for place, outcome in enumerate(outcomes):
        lines += [began(f"r{place}"), ended(f"r{place}", outcome=outcome)]
    history = read("kahn-agent", [*lines, began("r9")])
    (row,) = agents_of(play(agents_.fold, history))
    assert row["outcomes"] == {
        "converged": 1, "partial": 1, "escaped": 2, "aborted": 1, "unknown": 1,
    }  # fmt: skip  # one row
    assert row["run_count"] == 6
    runs = {row["run"]: row["outcome"] for row in runs_after(history)}
    assert (runs["r2"], runs["r4"], runs["r9"]) == ("escaped", "aborted", None)


def test_the_busiest_agent_comes_first_and_durations_are_interpolated():
    history = numbered(
        [
            Began(what="agent", agent="lazy"),
            *(Ended(what="agent", agent="busy", seconds=seconds) for seconds in (1, 2, 3, 4)),
        ]
    )
    spread = [(place._replace(run=f"r{place.seq}"), fact) for place, fact in history]
    busy, lazy = agents_of(play(agents_.fold, spread))
    assert (busy["agent"], busy["p50_seconds"]) == ("busy", 2.5)
    assert busy["p95_seconds"] == pytest.approx(3.85)
    assert (lazy["agent"], lazy["p50_seconds"], lazy["mean_score"]) == ("lazy", None, None)


def test_without_a_producers_word_a_duration_is_that_of_the_clock():
    history = [
        (told(1, at="2026-05-06T08:00:00.000Z"), Began(what="agent", agent="a")),
        (told(2, at="2026-05-06T08:00:02.500Z"), Ended(what="agent", agent="a")),
    ]
    (row,) = agents_.in_runs(play(agents_.fold, history).values())
    assert row["seconds"] == 2.5
    assert run_after(history)["seconds"] == 2.5


@pytest.mark.requirement("KAHN-44")
@pytest.mark.parametrize(
    ("score", "reads"), [(1.0, "fully converged"), (1, "fully converged"), (0.999, "partial")]
)
def test_a_score_of_1_reads_as_fully_converged_and_leaves_the_outcome_alone(score, reads):
    for outcome in ("converged", "partial"):
        history = read("kahn-agent", [began(), ended(outcome=outcome, convergence_score=score)])
        (row,) = agents_.in_runs(play(agents_.fold, history).values())
        assert (row["reads"], row["outcome"]) == (reads, outcome)


@pytest.mark.requirement("KAHN-45")
def test_a_score_is_stored_as_given_and_absent_stays_absent():
    for given_, kept in (({"convergence_score": 0.1234567}, 0.1234567), ({}, None)):
        history = read("kahn-agent", [began(), ended(**given_)])
        assert only(play(agents_.fold, history)).score == kept
        assert run_after(history)["score"] == kept


def test_severity_stays_below_a_regression():
    given_ = {"failed": 30, "partial": 500, "in_flight": True}
    assert agents_.severity(regression=False, **given_) == 405
    assert agents_.severity(regression=True, failed=0, partial=0, in_flight=False) == 1000


def test_an_agent_that_failed_after_it_passed_sorts_as_a_regression():
    history = read(
        "kahn-agent",
        [began("r1"), ended("r1"), began("r2"), ended("r2", outcome="aborted")],
    )
    (row,) = agents_of(play(agents_.fold, history))
    assert row["severity"] == 1010


ROUTER = [
    Called(tool="read", call_id="u1", provider_call_id="p1", input={"a": 1}),
    Returned(call_id="u1", tool="read", ok=True, seconds=0.5),
]
REPORT = [
    Called(tool="read", call_id="p1", input={"a": 1}, fidelity="reported"),
    Returned(call_id="p1", ok=False, seconds=9.0, fidelity="reported"),
]
ORDERS = [
    ROUTER + REPORT,
    REPORT + ROUTER,
    [ROUTER[0], REPORT[0], REPORT[1], ROUTER[1]],
    [REPORT[0], ROUTER[0], ROUTER[1], REPORT[1]],
]


@pytest.mark.requirement("AWF-37")
@pytest.mark.parametrize("facts", ORDERS)
def test_two_reports_of_a_call_are_one_call_and_the_observed_one_counts(facts):
    history = numbered(facts)
    row = run_after(history)
    assert (row["tool_calls"], row["tool_failures"], row["open_calls"]) == (1, 0, 0)
    (call,) = calls_.answer(play(calls_.fold, history).values())
    assert (call["fidelity"], call["ok"], call["seconds"], call["copies"]) == (
        "observed", True, 0.5, 2,
    )  # fmt: skip  # one row
    (tool,) = tools_of(play(series_.fold, history))
    assert (tool["calls"], tool["failures"], tool["open"]) == (1, 0, 0)
    assert tool["p50_seconds"] == pytest.approx(0.5, rel=0.06)
    assert only(play(loops_.fold, history)).times == 1


@pytest.mark.requirement("AWF-37")
def test_the_two_seams_of_a_transcript_are_counted_once_and_distinguished():
    history = sample("awf/both-seams-tell-one-call")
    assert run_after(history)["tool_calls"] == 1
    fidelities = {state.called for state in play(calls_.fold, history).values()}
    assert fidelities == {0, 1}
    assert len(calls_.answer(play(calls_.fold, history).values())) == 1


def test_a_call_says_which_call_it_was_made_in_and_who_offered_the_tool():
    inner = Called(
        tool="read", call_id="c2", parent_call_id="c1", tool_server="files", provider_call_id="p2"
    )
    later = Called(tool="read", call_id="c2")
    (call,) = calls_.answer(play(calls_.fold, numbered([inner, later])).values())
    names = ("call_id", "parent_call_id", "tool_server", "provider_call_id")
    assert [call[name] for name in names] == ["c2", "c1", "files", "p2"]


def test_the_same_id_reported_twice_is_one_call_and_the_report_alone_counts():
    twice = numbered([REPORT[0], REPORT[0], REPORT[1], REPORT[1]])
    row = run_after(twice)
    assert (row["tool_calls"], row["tool_failures"]) == (1, 1)
    (tool,) = tools_of(play(series_.fold, twice))
    assert (tool["calls"], tool["failures"]) == (1, 1)


def test_a_call_that_was_seen_from_end_to_end_takes_up_a_late_original():
    history = numbered(
        [
            Called(tool="read", call_id="p1"),
            Returned(call_id="p1", ok=False),
            Returned(call_id="u1", ok=True),
            ROUTER[0],
            ROUTER[1],
            *REPORT,
        ]
    )
    row = run_after(history)
    assert (row["tool_calls"], row["tool_failures"], row["open_calls"]) == (1, 1, 0)
    (tool,) = tools_of(play(series_.fold, history))
    assert (tool["calls"], tool["failures"], tool["open"]) == (1, 1, 0)
    assert len(calls_.answer(play(calls_.fold, history).values())) == 1


def test_of_two_reports_the_observed_one_names_the_tool():
    seen = Called(tool="seen", call_id="p1")
    told_ = Called(tool="told", call_id="u1", provider_call_id="p1", fidelity="reported")
    for facts in ([seen, told_], [told_, seen]):
        (tool,) = tools_of(play(series_.fold, numbered(facts)))
        assert (tool["tool"], tool["calls"], tool["open"]) == ("seen", 1, 1)


def test_a_made_up_id_with_a_providers_id_beside_it_has_its_copy_known():
    call = Called(tool="t", call_id="syn-0", synthetic_id=True, provider_call_id="p1")
    end = Returned(call_id="syn-0", synthetic_id=True, ok=True)
    history = [(told(1), call), (told(1), end), *((told(2), fact) for fact in REPORT)]
    assert run_after(history)["tool_calls"] == 1
    assert len(calls_.answer(play(calls_.fold, history).values())) == 1


def test_a_made_up_id_means_something_in_its_record_only():
    call = Called(tool="t", call_id="syn-0", synthetic_id=True, input="x")
    end = Returned(call_id="syn-0", synthetic_id=True, ok=True, seconds=1)
    history = [(told(1), call), (told(1), end), (told(2), call), (told(2), end), (told(3), call)]
    row = run_after(history)
    assert (row["tool_calls"], row["open_calls"]) == (2 + 1, 1)
    assert len(calls_.answer(play(calls_.fold, history).values())) == 3
    assert only(play(loops_.fold, history)).times == 3
    assert len(only(play(series_.fold, history)).calls) == 1, "what has returned is forgotten"


def test_a_result_without_a_call_was_a_call():
    history = sample("kahn-ci/clean-with-flake")
    results = sum(isinstance(fact, Returned) for _, fact in history)
    assert results > 0
    assert run_after(history)["tool_calls"] == results
    assert sum(row["calls"] for row in tools_of(play(series_.fold, history))) == results


def test_a_dangling_call_is_open():
    history = sample("awf/a-dangling-call-is-kept")
    assert run_after(history)["open_calls"] == 1
    assert [row["open"] for row in calls_.answer(play(calls_.fold, history).values())].count(
        True
    ) == 1


def test_tools_are_counted_by_the_minute_in_which_they_were_called():
    history = [
        (told(1, at="2026-05-05T07:59:59.000Z"), Called(tool="t", call_id="1")),
        (told(2, at="2026-05-05T08:00:01.000Z"), Returned(call_id="1", ok=False)),
        (told(3, at="2026-05-05T08:30:00.000Z"), Called(tool="t", call_id="2")),
    ]
    states = play(series_.fold, history)
    (row,) = tools_of(states)
    assert (row["calls"], row["failures"], row["open"]) == (2, 1, 1)
    assert row["p50_seconds"] == pytest.approx(2.0, rel=0.06)
    (row,) = tools_of(states, since="2026-05-05T08:10:00.000Z")
    assert (row["calls"], row["failures"]) == (1, 0)
    (row,) = tools_of(states, until="2026-05-05T08:10:00.000Z")
    assert (row["calls"], row["failures"]) == (1, 1)


@given(st.lists(st.floats(1e-6, 1e5), min_size=1, max_size=60), st.sampled_from([0.5, 0.95, 0.99]))
def test_bucketed_quantiles_are_within_six_per_cent(seconds, share):
    facts = [Returned(call_id=str(n), tool="t", seconds=each) for n, each in enumerate(seconds)]
    (row,) = tools_of(play(series_.fold, numbered(facts)))
    found = row[f"p{int(share * 100)}_seconds"]
    place = -(-len(seconds) * share // 1)
    exact = sorted(round(each * 1e6) / 1e6 for each in seconds)[max(0, int(place) - 1)]
    assert found == pytest.approx(exact, rel=0.06)


def test_the_same_tool_with_the_same_arguments_is_a_loop():
    facts = [Called(tool="t", call_id=str(n), input={"b": 1, "a": [n // 4]}) for n in range(6)]
    facts += [Called(tool="u", call_id="x", input={"a": [0], "b": 1})]
    facts += [Called(tool="v", call_id=f"v{n}") for n in range(9)]
    states = play(loops_.fold, numbered(facts))
    (row,) = loops_.answer(states.values())
    assert row == {
        "family": "f", "run": "r", "tool": "t", "agents": [], "times": 4, "first_seq": 1,
        "last_seq": 4,
    }  # fmt: skip
    often = summed(loops_.sums(key, state) for key, state in states.items())
    assert sorted(each["times"] for each in often.values()) == [2, 4], "what is called once is not"


def branches(history, root=None, known=None):
    found = tree_.answer(play(tree_.fold, history), root, known)
    return [(branch.key, branch.depth, branch.missing, branch.again) for branch in found]


@pytest.mark.requirement("AWF-47")
def test_parent_and_child_are_one_tree_whichever_of_them_names_the_other():
    parent = sample("awf/the-parent-of-a-child")
    child = sample("awf/the-child-of-a-parent", seq=100)
    runs = [parent[0][0].run, child[0][0].run]
    both = [(f"awf:{runs[0]}", 0, False, False), (f"awf:{runs[1]}", 1, False, False)]
    assert branches(parent + child) == both
    assert branches(parent + child, root=f"awf:{runs[0]}") == both
    assert branches(parent) == [both[0], (f"awf:{runs[1]}", 1, True, False)]
    assert branches(child)[1] == (f"awf:{runs[1]}", 1, False, False), "its parent was not heard"


def test_a_tree_may_be_of_any_depth():
    history = [
        (told(n, f"r{n}"), Linked(kind="sub-run", parent=f"r{n - 1}")) for n in range(1, 3000)
    ]
    found = branches(history, known={"f:r0": 1})
    assert [depth for _, depth, _, _ in found] == list(range(3000))
    assert not any(missing for _, _, missing, _ in found)


def test_cycles_second_parents_and_self_parents_are_cut_and_reported():
    history = [
        (told(1, "a"), Linked(kind="sub-run", child="b")),
        (told(2, "b"), Linked(kind="sub-run", child="a")),
        (told(3, "c"), Linked(kind="sub-run", child="c")),
        (told(4, "d"), Linked(kind="sub-run", child="e")),
        (told(5, "d"), Linked(kind="fork", child="f")),
        (told(6, "e"), Linked(kind="sub-run", child="f")),
        (told(7, "f"), Linked(kind="related", other="a")),
    ]
    found = branches(history)
    assert {key for key, _, _, _ in found} == {f"f:{name}" for name in "abcdef"}
    assert found[:4] == [
        ("f:d", 0, False, False),
        ("f:e", 1, False, False),
        ("f:f", 2, False, False),
        ("f:f", 1, False, True),
    ]
    assert ("f:a", 2, False, True) in found
    assert ("f:c", 1, False, True) in found
    assert tree_.below(play(tree_.fold, history), "f:d") == ["f:d", "f:e", "f:f"]


def test_a_run_may_be_named_by_its_alias_or_across_families():
    history = [
        (told(1, "x", family="g"), Linked(kind="alias", system="codex", alias="thread-1")),
        (told(2, "a"), Linked(kind="sub-run", child="thread-1")),
        (told(3, "a"), Linked(kind="sub-run", child={"family": "h", "run": "y"})),
        (told(4, "a"), Linked(kind="handoff", from_="one", to="two", reason="tired")),
    ]
    found = tree_.answer(play(tree_.fold, history), "f:a")
    assert [branch.key for branch in found] == ["f:a", "g:x", "h:y"]
    assert found[0].handoffs == [["handoff", "one", "two", 4, "tired"]]


def verdicts(*results, name="c", at="2026-05-06T08:00:00.000Z", run="r"):
    passed = {"pass": True, "fail": False}
    return [
        (
            told(number, f"{run}{number}", at=at),
            Decided(name=name, verdict=result, passed=passed.get(result)),
        )
        for number, result in enumerate(results, 1)
    ]


def audits_in(history, window, now=NOW):
    return audits_of(play(audits_.fold, history), play(series_.fold, history), window, now)


@pytest.mark.parametrize(
    ("passed", "failed", "warned", "flakiness", "colour"),
    [
        (5, 5, 0, 1.0, "red"),
        (3, 1, 0, 0.5, "red"),
        (9, 1, 0, 0.2, "amber"),
        (4, 0, 3, 0.0, "green"),
        (0, 4, 0, 0.0, "green"),
        (0, 0, 2, 0.0, "green"),
    ],
)
def test_flakiness_and_its_colour(passed, failed, warned, flakiness, colour):
    history = verdicts(*["pass"] * passed, *["fail"] * failed, *["warn"] * warned)
    (row,) = audits_in(history, "all")
    assert (row["flakiness"], row["colour"]) == (flakiness, colour)
    assert row["total"] == passed + failed + warned


def test_audits_are_cut_to_their_window_and_the_flakiest_comes_first():
    history = (
        verdicts("fail", at="2026-05-05T09:00:00.000Z", run="day")
        + verdicts("fail", at="2026-04-29T09:00:00.001Z", run="week")
        + verdicts("fail", at="2026-01-01T00:00:00.000Z", run="old")
        + verdicts("pass", at="2026-05-06T09:00:00.000Z", run="now")
        + verdicts("pass", name="steady")
    )
    history = [(place._replace(seq=seq), fact) for seq, (place, fact) in enumerate(history, 1)]
    rows = {
        window: {row["checkpoint"]: row for row in audits_in(history, window)}
        for window in ("24h", "7d", "all")
    }
    assert [rows[window]["c"]["total"] for window in rows] == [1, 3, 4]
    assert rows["24h"]["c"]["last_fail_run_id"] is None
    assert (
        rows["7d"]["c"]["last_fail_run_id"] == "day1"
    )  # the last by time, whenever it was recorded
    assert list(rows["all"]) == ["c", "steady"]
    with pytest.raises(UnknownName, match="1h"):
        audits_in(history, "1h")


def test_a_decision_that_is_no_audit_is_none():
    history = numbered(
        [Decided(verdict="x", name="verdict"), Decided(passed=True), Decided(score=1)]
    )
    assert play(audits_.fold, history) == {}


VECTORS = orjson.loads((ROOT / "contracts/vectors/aggregate24h.json").read_bytes())["vectors"]


@pytest.mark.requirement("RALPH-26", "RALPH-27", "RALPH-28", "RALPH-29", "RALPH-30", "RALPH-32")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_aggregate_is_that_of_its_vectors(vector):
    assert outcomes_.aggregate_24h(**vector["arguments"]) == vector["result"]


@pytest.mark.requirement("RALPH-26", "RALPH-27", "RALPH-28", "RALPH-29", "RALPH-30")
@pytest.mark.parametrize(
    ("outcome", "passed"),
    [
        ("clean", True),
        ("clean_with_flake", True),
        ("partial", False),
        ("stuck", False),
        ("catastrophic", False),
    ],
)
def test_each_outcome_folds_to_one_side(outcome, passed):
    run = {"outcome": outcome, "ended_at": NOW}
    assert outcomes_.aggregate_24h([run], NOW)["pass_rate"] == float(passed)


def test_the_aggregate_is_computed_from_the_ends_of_runs():
    base = {"ts": "2026-05-06T08:00:00.000Z"}
    frames = []
    for run, outcome, score in (
        ("a", "clean", 0.5),
        ("b", "clean_with_flake", None),
        ("c", None, 1),
    ):
        frames.append(base | {"run_id": run, "event": "run_start", "total_nodes": 1, "actor": "x"})
        node = base | {
            "run_id": run,
            "event": "node_transition",
            "node_id": "n",
            "outcome": "clean",
        }
        node |= {"from": "pending", "to": "running"}
        frames.append(node | ({} if score is None else {"convergence_score": score}))
        if outcome:
            end = base | {"run_id": run, "event": "run_end", "outcome": outcome}
            frames.append(
                end
                | {
                    "done": 1,
                    "failed": 0,
                    "blocked": 0,
                    "flake_retries": 0,
                    "total_duration_s": 1.0,
                }
            )
    history = read("ralph", frames)
    assert outcomes_of(play(outcomes_.fold, history), NOW) == {
        "passed": 2, "failed": 0, "in_flight": 1, "flakes": 1,
        "pass_rate": 1.0, "convergence_mean": 0.5,
    }  # fmt: skip  # two rows


def test_a_run_with_other_words_for_its_outcome_passes_when_its_dialect_says_so():
    history = [
        (told(1, "a"), Ended(what="run", outcome="completed", passed=True)),
        (told(2, "b"), Ended(what="run", outcome="cancelled")),
    ]
    found = outcomes_of(play(outcomes_.fold, history), NOW)
    assert (found["passed"], found["failed"], found["flakes"]) == (1, 1, 0)


def questions(history, now=NOW, ended=()):
    return inbox_.answer(play(inbox_.fold, history).values(), now, ended)


def test_the_longest_waiting_question_comes_first_with_its_age():
    history = numbered(
        [
            Asked(question_id="q1", agent="a", text="one?"),
            Asked(question_id="q2", text="two?", options=("yes", "no")),
            Asked(question_id="q3", expires="2026-05-06T08:30:00Z"),
            Answered(question_id="q0", answer="42", by="eve"),
        ]
    )
    rows = questions(history, now="2026-05-06T08:01:01.000Z")
    assert [(row["question_id"], row["state"]) for row in rows] == [
        ("q1", "open"), ("q2", "open"), ("q3", "open"), ("q0", "unasked"),
    ]  # fmt: skip  # one row each
    assert rows[0]["waiting_seconds"] == 60.0
    assert rows[1]["options"] == ["yes", "no"]
    assert [row["state"] for row in questions(history)] == ["open", "open", "expired", "unasked"]
    assert {row["state"] for row in questions(history, ended=[("f", "r")])} == {
        "abandoned", "unasked",
    }  # fmt: skip  # one row


def test_the_persons_words_and_the_agents_going_on_are_one_answer():
    history = numbered(
        [
            Asked(question_id="q", agent="a"),
            Answered(question_id="q", answer="blue", by="ann"),
            Answered(question_id="q", agent="a", answer="operator_response:q"),
        ]
    )
    (row,) = questions(history)
    assert (row["state"], row["answer"], row["answered_by"]) == ("answered", "blue", ["ann"])
    assert (row["answered_twice"], row["waiting_seconds"]) == (False, 1.0)
    (row,) = questions([*history, (told(9), Answered(question_id="q", answer="red", by="bob"))])
    assert row["answered_twice"]


def test_a_bare_answer_closes_the_agents_question_and_asking_again_opens_it():
    asked = Asked(question_id="q7", agent="a")
    bare = Answered(question_id="a", agent="a", answer="go on")
    rows = questions(numbered([asked, bare]))
    assert [row["state"] for row in rows] == ["answered", "unasked"]
    again = [Asked(question_id="q", agent="a"), Answered(question_id="q"), Asked(question_id="q")]
    (row,) = questions(numbered(again))
    assert (row["state"], row["times_asked"], row["asked_seq"]) == ("open", 2, 3)


def said(text, **more):
    return Said(**{"role": "assistant", "blocks": ({"type": "text", "text": text},)} | more)


def marks(*rows):
    """What tells the words of messages apart, which stand in the journal."""
    return [part["mark"] for row in rows for part in row["parts"]]


@pytest.mark.requirement("WOP-34", "WOP-35")
def test_a_message_that_is_known_changes_nothing():
    first = numbered([said("one", message_id="m"), said("two", message_id="n")])
    states = play(conversation_.fold, first)
    before = deepcopy(states)
    play(conversation_.fold, [(told(7), said("another text", message_id="m"))], states)
    assert states == before
    rows = conversation_.answer(states.values())
    assert marks(*rows) == [mark_of("one"), mark_of("two")]
    play(conversation_.fold, [(told(8), said("three"))], states)
    assert len(states) == 3, "messages are only ever appended"


@pytest.mark.requirement("WOP-36")
@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.text(max_size=3)), max_size=20))
def test_refolding_messages_is_deterministic(messages):
    history = numbered([said(text, message_id=id) for id, text in messages])
    once = play(conversation_.fold, history)
    assert play(conversation_.fold, history) == once
    # Folding the whole log again over its own result changes nothing either.
    assert play(conversation_.fold, history, deepcopy(once)) == once


def test_a_message_rebuilt_from_a_file_has_several_parts():
    parts = [said("one", message_id="m"), said("two", message_id="m"), said("one", message_id="m")]
    rebuilt = [type(part)(**_fields(part) | {"fidelity": "reconstructed"}) for part in parts]
    (row,) = conversation_.answer(play(conversation_.fold, numbered(rebuilt)).values())
    assert marks(row) == [mark_of("one"), mark_of("two")]
    (row,) = conversation_.answer(
        play(conversation_.fold, [(told(1), part) for part in parts]).values()
    )
    assert marks(row) == [mark_of("one"), mark_of("two")]


def test_a_message_has_at_most_two_hundred_parts():
    parts = [(told(1), said(f"part {n}", message_id="m")) for n in range(202)]
    (row,) = conversation_.answer(play(conversation_.fold, parts).values())
    assert marks(row) == [mark_of(f"part {n}") for n in range(200)]


def _fields(fact):
    return {field.name: getattr(fact, field.name) for field in fields(fact)}


@pytest.mark.requirement("WOP-95")
@pytest.mark.parametrize(
    "path", [path for path in samples.of("good") if samples.dialect_of(path) == "openwop"],
    ids=samples.name_of,
)  # fmt: skip  # one row
def test_the_messages_of_agents_do_not_change_the_state_of_a_run(path):
    lines = [orjson.loads(line) for line in samples.lines_of(path)]
    without = [line for line in lines if not line["type"].startswith("agent.")]
    keys = ("status", "outcome", "passed", "ended", "steps", "questions")
    told_, silent = (
        {row["run"]: [row[key] for key in keys] for row in runs_after(read("openwop", each))}
        for each in (lines, without)
    )
    assert silent == {run: state for run, state in told_.items() if run in silent}


def stage(history):
    return stage_.answer(only(play(stage_.fold, history)))


def bowl(kind, payload, actor="cara", **more):
    return {
        "id": f"{kind}-{orjson.dumps(payload).decode()}-{actor}",
        "run_id": "bowl",
        "turn": 1,
        "kind": kind,
        "actor": actor,
        "payload": payload,
        "schema_version": 1,
        "created_at": "2026-05-05T09:00:00Z",
    } | more


def test_the_stage_shows_the_scene_and_the_last_words():
    lines = [
        bowl("run.started", {"seed": "milk", "goal": "find", "scenario": "kitchen"}, "conductor"),
        *[bowl("agent.spoke", {"text": f"word {n}"}) for n in range(9)],
        bowl("agent.reflected", {"text": "it is late"}),
        *[bowl("judge.verdict", {"text": f"verdict {n}"}, "judge") for n in range(6)],
        *[bowl("user.injected", {"text": f"shout {n}"}, "visitor") for n in range(6)],
    ]
    found = stage(read("fishbowl", lines))
    assert (found["goal"], found["seed"], found["scene"]) == ("find", "milk", "milk")
    assert found["notes"] == [f"cara: word {n}" for n in range(2, 9)] + [
        "cara believes: it is late"
    ]
    assert found["verdicts"] == [f"judge: verdict {n}" for n in range(1, 6)]
    assert found["user"] == [f"shout {n}" for n in range(1, 6)]
    lines.append(bowl("world.observed", {"text": "it rains"}, "kitchen"))
    assert stage(read("fishbowl", lines))["scene"] == "it rains"


@pytest.mark.requirement("BOWL-22")
def test_a_kind_that_nobody_knows_is_on_stage_when_it_has_text():
    found = stage(read("fishbowl", [bowl("oracle.foretold", {"text": "beware"})]))
    assert found["notes"] == ["cara [oracle.foretold]: beware"]


@pytest.mark.requirement("BOWL-23")
@pytest.mark.parametrize("payload", [{}, {"text": ""}, {"text": 7}, {"where": "here"}])
def test_a_kind_without_text_adds_nothing_to_the_stage(payload):
    spoke = bowl("agent.spoke", {"text": "hi"})
    found = stage(read("fishbowl", [spoke, bowl("clue.found", payload)]))
    assert found == stage(read("fishbowl", [spoke]))


WON = {
    "reason": "verdict", "winner": "herd", "winner_kind": "team", "winning_model": None,
    "winning_models": ["model://cara", "model://bex"], "turns": 1, "tokens": 242,
}  # fmt: skip  # two rows
BUDGET = WON | {"reason": "budget", "winner": None, "winner_kind": None, "winning_models": []}


def contest(*ends, kind="versus"):
    setup = {"seed": "s", "goal": "g", "scenario": "kitchen", "competition": {"kind": kind}}
    setup |= {"cast": {"cara": {"model_endpoint": "model://cara", "model_profile": "p"}}}
    if kind is None:
        del setup["competition"]
    lines = [bowl("run.started", setup, "conductor")]
    lines += [bowl("run.finished", end, "conductor") for end in ends]
    return play(leaderboard_.fold, read("fishbowl", lines)).values()


@pytest.mark.requirement("BOWL-53")
def test_the_summary_carries_the_winners_keys_one_to_one():
    agent = WON | {"winner": "cara", "winner_kind": "agent", "winning_model": "model://cara"}
    for end in (WON, agent, BUDGET, WON | {"turns": 31, "tokens": 0}):
        (state,) = contest(end)
        assert leaderboard_.summary(state) == {
            "run_id": "bowl",
            "scenario": "kitchen",
            "seed": "s",
            "session_id": None,
            "cast": {
                "cara": {"model_endpoint": "model://cara", "model_profile": "p", "model": None}
            },
            "started_at": "2026-05-05T09:00:00Z",
            "finished_at": "2026-05-05T09:00:00Z",
            **end,
        }


def test_an_unfinished_run_keeps_the_defaults_of_its_summary():
    lines = [bowl("run.started", {}, "conductor"), bowl("agent.spoke", {"text": "x"})]
    (state,) = play(leaderboard_.fold, read("fishbowl", lines)).values()
    assert leaderboard_.staged(state)
    assert leaderboard_.summary(state) == {
        "run_id": "bowl", "scenario": "", "seed": "", "session_id": None, "cast": {},
        "started_at": "2026-05-05T09:00:00Z", "finished_at": None, "reason": None, "winner": None,
        "winner_kind": None, "winning_model": None, "winning_models": [], "turns": 0, "tokens": 0,
    }  # fmt: skip  # the table of its fields
    assert leaderboard_.answer([state]) == []


def node(name, *tries, status="done"):
    """The lines of a node that is tried so often, the last time with that end."""
    at = {"ts": "2026-05-05T09:00:00.000Z", "run_id": "ci", "node_id": name}
    move = at | {"event": "node_transition"}
    lines = [move | {"from": "pending", "to": "ready"}]
    for attempt, converged in enumerate(tries, 1):
        if attempt == 1:
            lines.append(move | {"from": "ready", "to": "running", "attempt": 1})
        tried = {"attempt": attempt, "duration_s": 1.0, "converged": converged}
        lines.append(at | {"event": "node_attempt", **tried, "done_when_results": []})
    last = "running" if tries else "ready"
    return [*lines, move | {"from": last, "to": status}]


def worked_off(*lines, total_nodes=7, **end):
    start = {"event": "run_start", "total_nodes": total_nodes, "ts": "2026-05-05T09:00:00.000Z"}
    end = {"event": "run_end", "ts": "2026-05-05T09:01:05.500Z", "total_duration_s": 65.5} | end
    whole = [start | {"run_id": "ci"}, *lines, end | {"run_id": "ci"}]
    return steps_.summary(only(play(steps_.fold, read("kahn-ci", whole))))


def test_a_run_of_steps_has_the_summary_of_its_archive():
    flaky = [line for name in "abcd" for line in node(name, False, True)]
    firm = [line for name in "efg" for line in node(name, True)]
    counts = {"done": 7, "failed": 0, "blocked": 0}
    stated = {"total_attempts": 11, "flake_retries": 4}
    for last in (counts, counts | stated):  # the last two may be left out, and are counted then
        assert worked_off(*flaky, *firm, outcome="clean_with_flake", **last) == {
            "run_id": "ci", "started": "2026-05-05T09:00:00.000Z",
            "ended": "2026-05-05T09:01:05.500Z", "duration_s": 65.5, "outcome": "clean_with_flake",
            "total_nodes": 7, **counts, **stated, "exit_code": 0, "failed_nodes": [],
            "node_attempts": dict.fromkeys("abcd", 2) | dict.fromkeys("efg", 1),
        }  # fmt: skip  # the known row


def test_failed_steps_are_named_and_blocked_ones_were_never_tried():
    lines = [*node("a", True), *node("b", False, False, status="failed")]
    lines += [*node("c", status="blocked"), *node("d", status="blocked")]
    told_ = worked_off(
        *lines, total_nodes=5, outcome="stuck", done=1, failed=1, blocked=2, exit_code=1
    )
    assert (told_["failed_nodes"], told_["node_attempts"]) == (["b"], {"a": 1, "b": 2})
    assert (told_["flake_retries"], told_["total_attempts"], told_["exit_code"]) == (0, 3, 1)
    assert worked_off(outcome="partial", done=3, failed=0, blocked=2)["exit_code"] == 1
    cut_off = steps_.summary(only(play(steps_.fold, read("kahn-ci", lines))))
    assert [cut_off[key] for key in ("total_nodes", "done", "failed", "blocked")] == [4, 1, 1, 2]
    assert (cut_off["started"], cut_off["ended"], cut_off["exit_code"]) == (None, None, None)


@pytest.mark.requirement("RALPH-32")
@pytest.mark.parametrize(
    ("phases", "flakes"),
    [("plan execute audit", 0), ("plan !execute execute audit", 1), ("plan !execute audit", 0),
     ("!plan plan !audit audit", 2), ("!plan !plan plan", 1)],
)  # fmt: skip  # a table
def test_a_phase_that_failed_and_passed_later_is_a_flake(phases, flakes):
    at = {"ts": "2026-05-05T09:00:00.000Z", "run_id": "r", "event": "node_attempt", "node_id": "p"}
    lines = [
        at | {"attempt": n, "phase": phase.strip("!"), "converged": phase[0] != "!"}
        | {"duration_s": 1.0, "done_when_results": []}
        for n, phase in enumerate(phases.split(), 1)
    ]  # fmt: skip  # a line by its parts
    told_ = steps_.summary(only(play(steps_.fold, read("ralph", lines))))
    assert (told_["flake_retries"], told_["node_attempts"]) == (flakes, {"p": len(lines)})


def test_steps_of_any_dialect_have_attempts_and_flakes():
    history = numbered(
        [
            Began(what="run"),
            Began(what="step", step="build"), Ended(what="step", step="build", passed=False),
            Began(what="step", step="build"), Ended(what="step", step="build", passed=True),
            Began(what="step", step="ship"), Ended(what="step", step="ship", error="no route"),
            Began(what="step", step="rest"),
        ]
    )  # fmt: skip  # by step
    told_ = steps_.summary(only(play(steps_.fold, history)))
    assert told_["node_attempts"] == {"build": 2, "ship": 1, "rest": 1}
    assert [told_[key] for key in ("total_nodes", "done", "failed", "flake_retries")] == [
        3,
        1,
        1,
        1,
    ]
    assert told_["failed_nodes"] == ["ship"]


@pytest.mark.requirement("BOWL-62")
def test_the_leaderboard_shows_the_winner_of_the_last_end():
    (row,) = leaderboard_.answer(contest(BUDGET, WON))
    assert (row["winner"], row["tokens"]) == ("herd", 242)
    assert leaderboard_.answer(contest(WON, BUDGET)) == []


@pytest.mark.parametrize(
    ("ends", "kind"),
    [([], "versus"), ([BUDGET], "versus"), ([WON], "none"), ([WON], None),
     ([WON | {"winning_models": []}], "judged"), ([WON | {"winner": ""}], "judged")],
)  # fmt: skip  # a table
def test_who_did_not_win_a_contest_is_not_on_the_leaderboard(ends, kind):
    assert leaderboard_.answer(contest(*ends, kind=kind)) == []


def test_a_spend_of_two_runs_belongs_to_the_first_and_the_greatest_counts():
    usage = {"input_tokens": 5, "output_tokens": 2}
    history = [
        (told(1, "child"), Spent(key="k", usage=usage, agent="a", model="m", cost_usd=0.25)),
        (told(2, "parent"), Spent(key="k", usage=usage | {"output_tokens": 9}, cost_usd=0.5)),
        (told(3, "parent"), Spent(usage=usage, model="m", bound="lower")),
        (told(4, "other"), Spent(usage=usage, model="n", cost_usd=1)),
    ]
    states = play(costs_.fold, history).values()
    by_run = {row["of"]: row for row in costs_.answer(states)}
    assert by_run["f:child"]["output_tokens"] == 9
    assert by_run["f:child"]["cost_usd"] == 0.5
    assert by_run["f:parent"]["output_tokens"] == 2
    assert (by_run["f:parent"]["lower_bound"], by_run["f:child"]["lower_bound"]) == (True, False)
    (whole,) = costs_.answer(states, by="all", within=["f:parent", "f:child"])
    assert (whole["runs"], whole["output_tokens"], whole["cost_usd"]) == (2, 11, 0.5)
    assert whole["lower_bound"], "one of the two spends has no price"
    assert {row["of"]: row["output_tokens"] for row in costs_.answer(states, by="model")} == {
        "n": 2, "m": 11,
    }  # fmt: skip  # one row
    assert {row["of"] for row in costs_.answer(states, by="agent")} == {"a", None}
    with pytest.raises(UnknownName, match="colour"):
        costs_.answer(states, by="colour")


def test_in_a_group_the_complete_spends_replace_the_others():
    history = numbered(
        [
            Spent(key="1", usage={"output_tokens": 3}, group="g"),
            Spent(key="2", usage={"output_tokens": 4}, group="g"),
            Spent(key="3", usage={"output_tokens": 10}, group="g", whole=True),
            Spent(key="4", usage={"output_tokens": 1}, group="h"),
        ]
    )
    (row,) = costs_.answer(play(costs_.fold, history).values())
    assert (row["output_tokens"], row["spends"]) == (11, 2)
    assert run_after(history)["tokens_out"] == 11


@given(st.text(), st.text(), st.text(), st.text())
def test_rows_of_two_runs_have_different_keys_whatever_their_names(one, other, name, last):
    places = told(run=one), told(run=other)
    keys = row_key(places[0], name, last), row_key(places[1], name, last)
    assert (keys[0] == keys[1]) == (one == other)
    assert keys[0].startswith(rows_of("f", one))
    assert keys[1].startswith(rows_of("f", one)) == (one == other)
    assert run_of(run_key(places[0])) == ("f", one)


@given(st.lists(st.text(alphabet="\x1f\x1bab", max_size=3), min_size=4, max_size=4))
def test_names_within_a_key_are_not_mistaken_for_each_other(names):
    one, other = row_key(told(), *names[:2]), row_key(told(), *names[2:])
    assert (one == other) == (names[:2] == names[2:])


@pytest.mark.parametrize(
    ("spelled", "milliseconds"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01.5004Z", 1500),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T00:00:00", 0),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_times_are_read_however_a_dialect_spells_them(spelled, milliseconds):
    assert epoch_ms(spelled) == milliseconds


def test_any_value_has_a_text():
    assert text_of("as it is") == "as it is"
    assert text_of({"b": 1, "a": [None]}) == '{"a":[null],"b":1}'
    assert text_of([10**30]) == f"[{10**30}]"
    assert number(10**400) is None
    assert number(True) is None


@pytest.mark.parametrize("depth", [0, 200, 300, 499, 500, 501, 600, 990, 1010, 5000, 200_000])
@pytest.mark.parametrize("key", [False, True])
def test_how_deep_a_value_has_a_text_does_not_depend_on_the_interpreter(depth, key):
    deep = []
    for _ in range(depth):
        deep = {"a": deep} if key else [deep]
    if depth < 500:
        around = ('{"a":', "}") if key else ("[", "]")
        assert text_of(deep) == around[0] * depth + "[]" + around[1] * depth
    else:
        assert text_of(deep) == ("(dict)" if key else "(list)")


WORDS = st.sampled_from(["a", "b", "=a", "sub-run", "setup", "title", "run", "reconstructed", ""])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
BLOCKS = st.dictionaries(st.sampled_from(["type", "text", "thinking"]), WORDS | JSON)
PLAIN = {
    "what": st.sampled_from(["run", "agent", "step"]),
    "phase": st.sampled_from(["working", "waiting", "done", "failed"]),
    "fidelity": st.sampled_from(["observed", "reported", "reconstructed", "inferred"]),
    "role": st.sampled_from(["user", "assistant", "world", "thought", "belief", "note"]),
    "blocks": st.lists(BLOCKS, max_size=2).map(tuple),
    "usage": st.dictionaries(
        st.sampled_from(["input_tokens", "output_tokens", "cached_tokens", "total_tokens"]),
        st.integers(0, 9) | JSON,
    ),
    "data": st.fixed_dictionaries({"seed": WORDS, "cast": JSON, "competition": JSON}),
    "copied": st.booleans(),
    "synthetic_id": st.booleans(),
    "passed": st.none() | st.booleans(),
    "ok": st.none() | st.booleans(),
    "whole": st.booleans(),
    "winning_models": st.lists(WORDS, max_size=2).map(tuple),
    "attempt": st.none() | st.integers(1, 3),
    "counts": st.dictionaries(st.sampled_from(["done", "turns"]), st.integers(0, 9) | JSON),
    **dict.fromkeys(["seconds", "score", "cost_usd"], st.floats(0, 100)),
}


def built(fact):
    """Facts with likely values, and now and then with anything at all in their place."""
    named = {
        field.name: st.one_of(PLAIN.get(field.name, WORDS), PLAIN.get(field.name, WORDS), JSON)
        for field in fields(fact)
    }
    return st.fixed_dictionaries(named).map(lambda values: fact(**values))


ANY_FACT = st.one_of([built(fact) for fact in FACTS])
SPELLED = st.sampled_from([None, "2026-05-05T09:00:00Z", "2026-05-05T23:00:00.123456789Z", "noon"])


@st.composite
def histories(draw, runs=("r1", "r2", "r3"), most=8):
    """What several runs told, in the order of the journal; a record may hold several facts."""
    seq, history = 0, []
    for _ in range(draw(st.integers(0, most))):
        seq += draw(st.integers(1, 3))
        place = told(
            seq,
            draw(st.sampled_from(runs)),
            at=draw(SPELLED),
            family=draw(st.sampled_from(["f", "g"])),
            dialect=draw(WORDS),
        )
        history += [(place, fact) for fact in draw(st.lists(ANY_FACT, min_size=1, max_size=3))]
    return history


def thawed(fold, key, state):
    """A state as it comes back from where it was kept."""
    again = thaw(fold, key, freeze(key, state))
    assert orjson.dumps(again) == orjson.dumps(state)
    return again


def answer_of(fold):
    """The answer of a fold that has no row below: its `answer`, else its states."""
    module = sys.modules[fold.step.__module__]
    answer = getattr(module, "answer", None)
    if answer is None:
        return lambda states: {key: asdict(states[key]) for key in sorted(states)}
    more = {"now": NOW} if "now" in signature(answer).parameters else {}
    return lambda states: answer(states.values(), **more)


ANSWERS = {fold.name: answer_of(fold) for fold in FOLDS} | {
    "runs": lambda states: [runs_.row(states[key], NOW) for key in sorted(states)],
    "agents": lambda states: [slow_agents(states), agents_.in_runs(states.values())],
    "tools": lambda states: [tools_of(states), tools_of(states, NOW)],
    "tree": tree_.answer,
    "audits": lambda states: slow_audits(states, "7d", NOW),
    "outcomes": lambda states: outcomes_.aggregate_24h(map(outcomes_.as_run, states.values()), NOW),
    "steps": lambda states: {key: steps_.summary(states[key]) for key in sorted(states)},
    "stage": lambda states: {key: stage_.answer(states[key]) for key in sorted(states)},
    "costs": lambda states: [costs_.answer(states.values(), by=by) for by in costs_.GROUPS],
    "loops": lambda states: loops_.answer(states.values(), 1),
}
LAW = settings(max_examples=60)
PAIRS = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from(["router", "agent"]), st.booleans(), st.booleans()
    ),
    max_size=14,
)
"""Which call, who tells it, whether it is the call or its end, and whether that went well."""


def telling(number, who, is_end, ok):
    """One of two tellings of a call: the router's with its own id, or the agent's."""
    seen = who == "router"
    told_ = {"call_id": f"{'u' if seen else 'p'}{number}"}
    told_ |= {"tool": f"t{number % 2}", "fidelity": "observed" if seen else "reported"}
    if is_end:
        return Returned(**told_, ok=ok, seconds=1.0)
    return Called(**told_, provider_call_id=f"p{number}" if seen else None)


@given(pairs=PAIRS)
def test_runs_tools_and_calls_agree_on_what_was_called(pairs):
    history = numbered([telling(*pair) for pair in pairs])
    rows = calls_.answer(play(calls_.fold, history).values())
    tools = tools_of(play(series_.fold, history))
    (run,) = runs_after(history) or [{"tool_calls": 0, "tool_failures": 0, "open_calls": 0}]
    counted = [len(rows), sum(row["ok"] is False for row in rows), sum(row["open"] for row in rows)]
    assert [run["tool_calls"], run["tool_failures"], run["open_calls"]] == counted
    assert [sum(row[key] for row in tools) for key in ("calls", "failures", "open")] == counted


@LAW
@given(history=histories())
def test_no_fact_makes_a_fold_raise_and_every_answer_is_json(history):
    for fold in FOLDS:
        orjson.dumps(ANSWERS[fold.name](play(fold, history)))


@LAW
@given(history=histories())
def test_a_state_that_was_stored_between_any_two_facts_goes_on_as_if_it_never_was(history):
    for fold in FOLDS:
        kept = {}
        for place, fact in history:
            play(fold, [(place, fact)], kept)
            kept = {key: thawed(fold, key, state) for key, state in kept.items()}
        assert kept == play(fold, history), fold.name


@LAW
@given(history=histories(), cut=st.integers(0, 30))
def test_a_prefix_of_the_journal_folds_to_a_prefix_of_history(history, cut):
    for fold in FOLDS:
        first = play(fold, history[:cut])
        assert play(fold, history[:cut]) == first, fold.name
        assert play(fold, history[cut:], first) == play(fold, history), fold.name


@LAW
@given(history=histories())
def test_the_order_of_unrelated_runs_does_not_matter(history):
    by_run = sorted(history, key=lambda each: (each[0].family, each[0].run), reverse=True)
    for fold in FOLDS:
        apart, together = play(fold, by_run), play(fold, history)
        assert apart == together, fold.name
        assert ANSWERS[fold.name](apart) == ANSWERS[fold.name](together), fold.name


@pytest.mark.parametrize("fold", FOLDS, ids=lambda fold: fold.name)
def test_a_state_is_json_with_defaults_and_an_empty_one_is_new_each_time(fold):
    assert freeze("", fold.State()) == b"{}"
    assert thaw(fold, "", b"{}") == fold.State()
    for field in fields(fold.State):
        value = getattr(fold.State(), field.name)
        if isinstance(value, list | dict):
            assert getattr(fold.State(), field.name) is not value


@pytest.mark.parametrize("path", samples.of("good") + samples.of("odd"), ids=samples.name_of)
def test_every_sample_of_every_dialect_can_be_folded(path):
    history = read(samples.dialect_of(path), samples.lines_of(path))
    runs = tuple({run_key(place) for place, _ in history})
    for fold in FOLDS:
        states = play(fold, history)
        for key, state in states.items():
            assert thawed(fold, key, state) == state
            assert key.startswith(runs)
        orjson.dumps(ANSWERS[fold.name](states))


POLITE = (
    Path(ROOT / "docs/how-to/add-a-fold.md").read_text().split("```python\n")[1].split("```")[0]
)
"""The fold of the page that tells how to add one."""


def package(folder: Path, source: str, name: str = "polite") -> dict[str, str]:
    """The environment in which a package with one fold is installed."""
    (folder / "manners.py").write_text(source)
    info = folder / "manners-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: manners\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tracklog.folds]\n{name} = manners:fold\n")
    return {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}


def python(environment, program):
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_how_to_adds_a_fold(tmp_path):
    done = python(
        package(tmp_path, POLITE),
        "from tracklog.home import registry\n"
        "from tracklog.model.fact import Said\n"
        "from tracklog.folds import Position\n"
        "fold = registry.fold('polite')\n"
        "assert fold in registry.folds()\n"
        "state = fold.State()\n"
        "for text in ('Please.', 'No.', 'please, please'):\n"
        "    place = Position(1, '', 'f', 'r', None, 'k', None, None, 'd')\n"
        "    said = Said(role='user', blocks=({'type': 'text', 'text': text},))\n"
        "    state = fold.step(state, place, said)\n"
        "import manners; print(fold.key(place, said), manners.answer([state]))\n",
    )
    assert done.stdout == "f:r {'sayings': 3, 'polite': 2, 'share': 0.6666666666666666}\n", (
        done.stderr
    )


def test_the_how_to_asks_the_fold_it_adds(tmp_path):
    line = '{"id":"1","run":"r","at":"2026-05-05T09:00:00Z","fact":"Said","role":"user","blocks":[{"type":"text","text":"Please."}],"origin":{"writer":"me","fidelity":"observed"}}'
    environment = package(tmp_path, POLITE) | {"TRACKLOG_HOME": str(tmp_path / "home")}
    page = (ROOT / "docs/how-to/add-a-fold.md").read_text()
    (asked,) = re.findall(r'`tracklog query "(.*)"`', page)
    for arguments, piped in ((["record"], line), (["query", "--json", asked], None)):
        done = subprocess.run(
            [sys.executable, "-m", "tracklog", *arguments],
            env=environment,
            input=piped,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stdout == '{"key":"tracklog:r","seq":1,"sayings":1,"polite":1}\n', done.stderr


def test_a_fold_that_is_none_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(UnknownName, match="the folds are: agents, "):
        registry.fold("nonsense")
    asked = "from tracklog.home import registry; registry.fold('rude')"
    done = python(package(tmp_path, POLITE, name="rude"), asked)
    assert f"{BadPlug.__name__}: the fold 'rude' is not a Fold of that name" in done.stderr


def test_the_model_that_spoke_last_is_reported_and_a_placeholder_is_no_model():
    history = numbered(
        [Said(role="assistant", blocks=(), model=name) for name in ("a", "b", "<synthetic>")]
    )
    assert run_after(history)["model"] == "b"


def test_a_run_shows_when_its_source_was_deleted():
    gone = told(3, received="2026-05-06T08:30:00.000Z")
    history = [(told(2), Began(what="run")), (gone, Noted(label="source-gone"))]
    assert run_after(history)["source_gone"] == "2026-05-06T08:30:00.000Z"


@pytest.mark.parametrize("label", ["source-gone", "erasure", "pruned", "completed"])
def test_our_own_notes_are_no_sign_of_life(label):
    note = told(3, received="2026-05-06T08:59:00.000Z")
    history = [(told(2), Began(what="run")), (note, Noted(label=label))]
    assert run_after(history)["last_activity"] == told(2).received


def test_of_two_writers_the_one_that_reports_more_output_counts():
    spends = [
        costs_.State(run="r", key=writer, seq=n, writer=writer, amounts=amounts)
        for n, (writer, amounts) in enumerate(
            {
                "log": {"output_tokens": 9, "total_tokens": 10},
                "telemetry": {"output_tokens": 1, "total_tokens": 50},
            }.items()
        )
    ]
    assert [each.writer for each in costs_.counted(spends)] == ["log"]


def test_an_ended_run_is_named_in_the_aggregate():
    state = outcomes_.State(run="r", ended=True, outcome="clean", ended_at=NOW)
    assert outcomes_.as_run(state) == {"run_id": "r", "outcome": "clean", "ended_at": NOW}


def test_a_value_that_is_a_blob_is_described_by_its_kind_and_size():
    blob = {"sha256": "0" * 64, "bytes": 1234, "media_type": "image/png", "preview": "PNG"}
    assert unlifted({"$blob": blob}) == "PNG… (1,234 bytes of image/png)"
    del blob["media_type"], blob["preview"]
    assert unlifted({"$blob": blob}) == "(1,234 bytes of bytes)"
    assert unlifted({"$blob": {"sha256": "0" * 64, "media_type": "text/css"}}) == "(text/css)"


def test_without_a_producers_word_steps_take_as_long_as_the_clock_says():
    begin, end = "2026-05-05T09:00:00.000Z", "2026-05-05T09:00:02.500Z"
    history = [(told(1, at=begin), Began(what="run")), (told(2, at=end), Ended(what="run"))]
    assert only(play(steps_.fold, history)).seconds == 2.5
    history[1] = (told(2, at=end), Ended(what="run", seconds=7.0))
    assert only(play(steps_.fold, history)).seconds == 7.0


@pytest.mark.parametrize(
    "tag",
    [
        "command-name",
        "command-message",
        "command-args",
        "command-contents",
        "local-command-stdout",
        "local-command-stderr",
        "local-command-caveat",
        "bash-input",
        "bash-stdout",
        "bash-stderr",
        "system-reminder",
        "system_reminder",
        "system_instruction",
        "user_instructions",
        "user-prompt-submit-hook",
        "environment_context",
        "environment_details",
        "session_context",
        "collaboration_mode",
        "skill_instructions",
        "skills_instructions",
        "INSTRUCTIONS",
        "ide_opened_file",
        "ide_selection",
        "ide_diagnostics",
        "turn_aborted",
        "subagent_notification",
        "task-notification",
        "current_datetime",
    ],
)
def test_no_title_is_what_a_program_put_into_a_tag(tag):
    text = f"<{tag} a='b'>not asked\nby anybody</{tag}> Mend the fins"
    facts = [Said(role="user", blocks=({"type": "text", "text": text},))]
    assert run_after(numbered(facts))["title"] == "Mend the fins"


@pytest.mark.parametrize(
    ("verdicts", "passed"),
    [([True, True], True), ([True, None], None), ([True, False], False), ([None], None)],
)
def test_a_run_of_agents_passed_if_all_of_them_did(verdicts, passed):
    facts = [Began(what="agent", agent=str(n)) for n, _ in enumerate(verdicts)]
    facts += [Ended(what="agent", agent=str(n), passed=each) for n, each in enumerate(verdicts)]
    assert run_after(numbered(facts))["passed"] is passed


def test_the_most_frequent_loop_comes_first_and_of_equal_ones_the_last():
    often = {"a": 3, "b": 5, "c": 3}
    facts = [Called(tool=tool, call_id=f"{tool}{n}", input={}) for tool in often
             for n in range(often[tool])]  # fmt: skip
    states = play(loops_.fold, numbered(facts)).values()
    assert [row["tool"] for row in loops_.answer(states)] == ["b", "c", "a"]


def test_whether_a_run_has_spent_is_known_by_its_spends():
    (state,) = play(runs_.fold, numbered([Spent(key="k")])).values()
    assert runs_.has_spent(state) is True
    (state,) = play(runs_.fold, numbered([Said(role="user", blocks=())])).values()
    assert runs_.has_spent(state) is False


def test_runs_are_ranked_by_who_needs_a_person():
    assert sorted(runs_.RANK, key=runs_.RANK.get) == [
        "waiting", "failed", "lost", "working", "done",
    ]  # fmt: skip  # one list


def test_a_run_is_found_by_its_own_names_and_by_those_it_calls():
    facts = [
        Linked(kind="alias", system="sys", alias="other"),
        Linked(kind="sub-run", child="below"),
    ]
    assert tree_.names(only(play(tree_.fold, numbered(facts)))) == {"r", "other", "below"}


def test_turns_of_one_step_are_one_step():
    steps = ["1", "1", "2", "1"]
    facts = [Moved(agent="a", step=step, from_=None, to="t", phase="working") for step in steps]
    assert run_after(numbered(facts))["steps"] == 3


@pytest.mark.parametrize(("window", "hours"), [("24h", 24), ("7d", 168)])
def test_a_window_of_audits_is_exact_to_the_millisecond(window, hours):
    now = epoch_ms(NOW)
    for before, counted in ((0, True), (-1, False), (hours * 3_600_000 - 1, True),
                            (hours * 3_600_000, False)):  # fmt: skip
        at = stamp((now - before) / 1000)
        history = [(told(at=at), Decided(name="c", passed=True))]
        assert bool(audits_in(history, window)) is counted, before


def test_the_last_activity_of_an_agent_is_shown():
    history = [(told(1, at=None), Began(what="agent", agent="a"))]
    (row,) = agents_.in_runs(play(agents_.fold, history).values())
    assert row["last_activity"] == history[0][0].received


def test_records_that_were_withdrawn_one_after_another_are_one_span():
    facts = [Noted(label=str(n)) for n in range(1, 8)]
    taken = {2, 3, 4, 6}
    history = [
        (place._replace(withdrawn=place.seq in taken), fact) for place, fact in numbered(facts)
    ]
    assert only(play(runs_.fold, history)).withdrawn == [[2, 4], [6, 6]]


@pytest.mark.parametrize("injected", [True, False, None])
def test_a_message_is_injected_only_if_it_says_so(injected):
    fact = Said(role="user", blocks=(), injected=injected, message_id="m")
    assert only(play(conversation_.fold, numbered([fact]))).injected is (injected is True)


def test_questions_are_ordered_by_how_much_they_need_a_person():
    history = numbered(
        [
            Answered(question_id="u"),
            Asked(question_id="a"),
            Answered(question_id="a", answer="x", by="ann"),
            Asked(question_id="e", expires="2026-05-06T08:30:00Z"),
            Asked(question_id="o"),
        ]
    )
    assert [row["state"] for row in questions(history)] == [
        "open", "expired", "answered", "unasked",
    ]  # fmt: skip  # one list


@pytest.mark.parametrize(("code", "shown"), [(3, 3), (2**80, None), ("3", None), (None, None)])
def test_the_exit_code_of_a_call_is_shown(code, shown):
    facts = [Called(tool="t", call_id="1"), Returned(call_id="1", ok=False, exit_code=code)]
    (row,) = calls_.answer(play(calls_.fold, numbered(facts)).values())
    assert row["exit_code"] == shown


def test_where_it_works_is_what_the_run_or_an_agent_says_and_not_a_step():
    place = {"model": "m", "cwd": "/work", "git": {"branch": "main"}}
    for what, known in (("run", True), ("agent", True), ("step", False)):
        row = run_after(numbered([Began(what=what, agent="a", step="1", **place)]))
        found = (row["model"], row["project"], row["branch"])
        assert found == (("m", "/work", "main") if known else (None, None, None))


def spends_of(*facts):
    """What a run spent, over all cells of the fold `series`."""
    cells = cells_of(play(series_.fold, numbered(facts)))
    amounts = [each for cell, each in cells if cell.kind == "spends"]
    return dict(zip(series_.SPENDS, map(sum, zip(*amounts, strict=True)), strict=True))


def test_the_spend_that_is_the_total_of_its_group_counts_for_all_of_it():
    part = Spent(key="a", group="g", usage={"input_tokens": 7})
    total = Spent(key="b", group="g", whole=True, usage={"input_tokens": 10})
    alone = Spent(key="c", usage={"input_tokens": 100})
    assert spends_of(part)["input_tokens"] == 7
    assert spends_of(part, total)["input_tokens"] == 10
    both = spends_of(alone, total, part)
    assert (both["input_tokens"], both["spends"]) == (110, 2)


def test_what_is_cached_for_an_hour_is_a_part_of_what_is_written_to_the_cache():
    usage = {"input_tokens": 50, "cache_write_tokens": 10, "cache_write_1h_tokens": 4}
    spent = spends_of(Spent(key="a", usage=usage))
    assert (spent["cache_write_tokens"], spent["longer"], spent["fresh"]) == (10, 4, 40)
    assert spends_of(Spent(usage={**usage, "cache_write_1h_tokens": 99}))["longer"] == 10


def test_a_run_counts_once_for_each_name_that_it_bears_or_mentions():
    states = play(tree_.fold, [(told(1, "a"), Linked(kind="sub-run", child="b"))])
    assert [tree_.sums(key, state) for key, state in states.items()] == [
        {"a": {"f:a": 1}, "b": {"f:a": 1}}
    ]
