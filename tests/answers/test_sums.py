"""What is read from the sums of the index is what every state comes to, and takes few rows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.summing import agents_of, audits_of, outcomes_of, slow_agents, slow_audits
from tracklog.folds import agents, audits, outcomes, series
from tracklog.folds._cells import cell_key
from tracklog.journal.frame import stamp

NOW_MS = 1_778_058_000_123
NOW = stamp(NOW_MS / 1000)
DAY = 24 * 3_600_000
TIMES = st.sampled_from(["", NOW, stamp(NOW_MS / 1000 - 1), "1969-01-01T00:00:00Z", "never"])
LIVES = st.lists(
    st.builds(
        agents.State,
        agent=st.sampled_from(["a", "b", "a\x1fb", "a\x1b1b", ""]),
        phase=st.none() | st.just("working"),
        began_ms=st.none() | st.integers(0, 10),
        ended=st.booleans(),
        ended_ms=st.none() | st.integers(0, 10**6),
        outcome=st.none() | st.sampled_from([*agents.BUCKETS, "other"]),
        passed=st.none() | st.booleans(),
        score=st.none() | st.floats(-5, 5) | st.integers(0, 3),
        micros=st.none() | st.integers(0, 100) | st.integers(0, 2**53),
        alive=TIMES,
    ),
    max_size=40,
)


def by_run(states):
    """The states by key, each of a run of its own."""
    for number, state in enumerate(states, 1):
        state.family, state.run, state.last_seq = "f", f"r{number}", number
    return {f"f:r{number}\x1f{state.agent}": state for number, state in enumerate(states, 1)}


@settings(max_examples=60)
@given(lives=LIVES)
def test_agents_from_the_sums_are_those_of_every_life(lives):
    for life in lives:  # only an end has these
        if not life.ended:
            life.score = life.passed = None
    states = by_run(lives)
    slow = slow_agents(states)
    found = agents_of(states)
    for row in slow + found:
        if row["mean_score"] is not None:
            row["mean_score"] = pytest.approx(row["mean_score"], abs=1e-8)
    assert found == slow
    few = agents_of(states, limit=1)
    assert [row["run_count"] for row in few] == [row["run_count"] for row in slow[:1]]


@settings(max_examples=60)
@given(
    verdicts=st.lists(
        st.tuples(
            st.sampled_from(["c", "d", "d\x1e"]),
            st.sampled_from(series.RESULTS),
            st.sampled_from(
                [0, 1, 59_999, 60_001, DAY - 1, DAY, DAY + 1, 7 * DAY, 9 * DAY, -1, -70_000]
            ),
        ),
        max_size=40,
    ),
    window=st.sampled_from([*audits.WINDOWS]),
)
def test_audits_from_the_sums_are_those_of_every_verdict(verdicts, window):
    states, cells = {}, {}
    for seq, (checkpoint, result, before) in enumerate(verdicts, 1):
        run, at = f"r{seq}", NOW_MS - before
        states[f"f:{run}\x1f{seq}\x1f{checkpoint}"] = audits.State(
            checkpoint, "f", run, None, result, at, seq
        )
        key = cell_key("audits", at, None, None, checkpoint, series.RESULTS.index(result))
        cells[f"f:{run}"] = series.State(family="f", run=run, cells={key: [1]})
    assert audits_of(states, cells, window, NOW) == slow_audits(states, window, NOW)


@settings(max_examples=60)
@given(
    runs=st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from([*outcomes.PASSES, None]),
            st.sampled_from([0, -1, DAY - 1, DAY, 5]),
        ),
        max_size=20,
    )
)
def test_outcomes_from_the_sums_are_those_of_every_run(runs):
    states = {
        f"f:r{n}": outcomes.State(
            family="f", run=f"r{n}", ended=ended, outcome=outcome, last_seq=n,
            ended_at=stamp((NOW_MS - before) / 1000) if ended else None, scores={"s": 0.5} if n % 2 else {},
        )
        for n, (ended, outcome, before) in enumerate(runs, 1)
    }  # fmt: skip  # few rows
    slow = outcomes.aggregate_24h(map(outcomes.as_run, states.values()), NOW)
    assert outcomes_of(states, NOW) == slow
