"""An index that is filled from states, and the slow and obvious forms of what is read from its sums."""

from collections import defaultdict
from dataclasses import asdict

import orjson

from support.closing import opened_index
from tracklog.answers.agents import RECENT, agents_over_all
from tracklog.answers.audits import audits_within
from tracklog.answers.outcomes import outcomes_until
from tracklog.folds import agents as agents_fold
from tracklog.folds import audits as audits_fold
from tracklog.folds import epoch_ms, summed
from tracklog.folds._cells import Cells, changed_cells, with_sums
from tracklog.home import registry
from tracklog.index.codec import freeze
from tracklog.index.folding import RANKED, SUMS
from tracklog.index.indexer import Indexer
from tracklog.journal.journal import Journal
from tracklog.journal.stores.memory import MemoryStore


def indexed(states):
    """An index with these states, by the name of their fold, and with what they add up to."""
    folds = {fold.name: fold for fold in registry.folds()}
    indexer = Indexer(Journal(MemoryStore()), opened_index("sqlite::memory:"), [], folds.values())
    indexer.catch_up()
    rows, cells = [], []
    for name, of in states.items():
        fold = folds[name]
        rows += [(name, key, 1, freeze(key, state)) for key, state in of.items()]
        if fold.sums is not None:
            for key, row in summed(fold.sums(*each) for each in of.items()).items():
                rows.append((SUMS + name, key, 0, orjson.dumps(row)))
                if fold.ranked in row:
                    rows.append((RANKED + name, key, row[fold.ranked], orjson.dumps(row)))
        if fold.cells is not None:
            for state in of.values():
                cells += changed_cells(Cells(), fold.cells(state))
    indexer.index.apply(0, rows, cells=with_sums(cells))
    return indexer


def agents_of(states, limit=100):
    """The agents, from the sums of these states."""
    return [asdict(row) for row in agents_over_all(indexed({"agents": states}), limit)]


def audits_of(states, series, window, now):
    """The audits of a window, from the sums of these states and from their cells."""
    rows = audits_within(indexed({"audits": states, "series": series}), window, now, 200)
    return [asdict(row) for row in rows]


def outcomes_of(states, now):
    """The pass rate, from the sums of these states."""
    return asdict(outcomes_until(indexed({"outcomes": states}), now))


def slow_agents(states):
    """The agents, from each of their states."""
    lives = defaultdict(list)
    for state in states.values():
        lives[state.agent].append(state)
    rows = [_over_all(agent, each) for agent, each in lives.items()]
    return sorted(rows, key=lambda each: (-each["run_count"], each["agent"]))


def _over_all(agent, states):
    states.sort(key=agents_fold.latest)
    outcomes = dict.fromkeys(agents_fold.BUCKETS, 0)
    for state in states:
        outcomes[agents_fold.bucket(state)] += 1
    lasted = [each for state in states if (each := agents_fold.agent_seconds(state)) is not None]
    scores = [state.score for state in states if state.score is not None]
    ends = [state for state in states if state.ended]
    return {
        "agent": agent,
        "run_count": len(states),
        "outcomes": outcomes,
        "p50_seconds": quantile(sorted(lasted), 0.5),
        "p95_seconds": quantile(sorted(lasted), 0.95),
        "mean_score": sum(scores) / len(scores) if scores else None,
        "scores": [state.score for state in ends[-RECENT:] if state.score is not None],
        "severity": agents_fold.severity(
            regression=[state.passed for state in ends[-2:]] == [True, False],
            failed=sum(state.passed is False and state.outcome != "partial" for state in ends),
            partial=outcomes["partial"],
            in_flight=any(not state.ended and state.phase is not None for state in states),
        ),
        "last_seen": states[-1].alive or None,
        "last_seq": states[-1].last_seq,
    }


def quantile(values, share):
    """The quantile of sorted values, by linear interpolation between the two nearest."""
    if not values:
        return None
    place = (len(values) - 1) * share
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def slow_audits(states, window, now):
    """The audits of a window, from each verdict."""
    length, end = audits_fold.WINDOWS[window], epoch_ms(now)
    verdicts = defaultdict(list)
    for state in states.values():
        if length is None or end - length < state.at_ms <= end:
            verdicts[state.checkpoint].append(state)
    rows = [_checkpoint(checkpoint, each) for checkpoint, each in verdicts.items()]
    return sorted(rows, key=lambda row: (-row["flakiness"], -row["total"], row["checkpoint"]))


def _checkpoint(checkpoint, states):
    states.sort(key=lambda state: (state.at_ms, state.seq))
    results = [state.result for state in states]
    passed, failed = results.count("pass"), results.count("fail")
    failures = [state for state in states if state.result == "fail"]
    flakiness = audits_fold.flakiness(passed, failed)
    return {
        "checkpoint": checkpoint,
        "total": len(states),
        "passed": passed,
        "failed": failed,
        "warned": results.count("warn"),
        "flakiness": flakiness,
        "colour": audits_fold.colour(flakiness),
        "last_fail_run_id": failures[-1].run if failures else None,
        "last_fail_family": failures[-1].family if failures else None,
        "last_seq": states[-1].seq,
        "recent": results[-audits_fold.RECENT :],
    }
