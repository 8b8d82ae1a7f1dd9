"""What a question takes depends on what is asked, and what a record takes on what it says: neither
depends on how many runs there ever were.

Counted are the steps of SQLite, the bytes of an answer, and the calls of functions: unlike seconds,
these are the same on every machine. `make chaos` counts the same with 100,000 runs.
"""

import os
import shutil
import sqlite3
import sys
import time
from pathlib import Path

import orjson
import pytest

from tracklog.answers.registry import question, questions
from tracklog.formats.importing import Importing
from tracklog.home.home import Home
from tracklog.index.indexes import sqlite as sqlite_index
from tracklog.journal.frame import stamp

FEW, MANY = 1_000, 100_000 if "TRACKLOG_SOAK" in os.environ else 10_000
LAST = 500
"""So many runs come last, when all others are recorded and indexed; theirs is the work that is counted."""
SESSION = Path(__file__).parents[1] / "samples" / "importers" / "claude" / "real_full_session.jsonl"
STEP = 100
"""SQLite tells of so many steps at once."""
EVERY = 120
"""Seconds between two runs."""
NEWEST = {"newest": 500}
ASKED = {
    "board": NEWEST, "runs": NEWEST, "tree": NEWEST, "top": NEWEST, "costs": NEWEST,
    "hits": {"query": "needle"}, "search": {"query": "needle"}, "series": {"metric": ("runs", "calls")},
    "outcome-runs": {"hours": 24}, "diff": {"a": "run-3", "b": "run-4"}, "traces": {"run": ("run-3",)},
}  # fmt: skip  # a question each
OTHERS = {
    "query": "the person who writes the query says what it takes",
}
NAMES = sorted({each.name for each in questions()} - OTHERS.keys())


def lines(number, now):
    """A short run: it calls a tool and spends, it is audited, and ends."""
    begin = now - number * EVERY
    head = {"run_id": f"run-{number}", "agent_id": f"coder-{number % 7}"}
    usage = {"input_tokens": number, "output_tokens": 7}
    score = number % 10 / 10
    each = (
        {"event": "agent_run_start", "task": "needle" if number == 3 else "mend it", "model": "m"},
        {"event": "agent_transition", "from": "thinking", "to": "tool_call", "step": 1}
        | {"usage": usage, "model": "m"},
        *(
            {"event": "tool_invocation", "tool_name": f"t{at % number % 3}", "duration_s": 0.1}
            | {"ok": number % 4 > 0, "step": 1}
            for at in range(2)
        ),
        {"event": "audit_checkpoint", "checkpoint_id": f"c{number % 5}", "duration_s": 0.5}
        | {"result": "pass" if number % 3 else "fail"},
        {"event": "agent_run_end", "total_steps": 1, "total_tool_calls": 0, "outcome": "converged"}
        | {"total_audit_checkpoints": 1, "audits_passed": 1, "audits_failed": 0}
        | {"convergence_score": score, "total_duration_s": 60 + number % 40},
    )
    return [orjson.dumps({"ts": stamp(begin + at), **head, **more}) for at, more in enumerate(each)]


def graph(number, now):
    """A run of a graph, which has an outcome of its own; some of the last have not ended."""
    head = {"ts": stamp(now - number * EVERY), "run_id": f"graph-{number}"}
    begin = {"event": "run_start", "total_nodes": 1, "actor": "x"}
    end = {"event": "run_end", "outcome": "clean", "done": 1, "failed": 0, "blocked": 0}
    end |= {"flake_retries": 0, "total_duration_s": 1.0}
    return [
        orjson.dumps(head | each)
        for each in ([begin, end] if number > 300 or number % 10 else [begin])
    ]


class Counted:
    """The steps of all connections since it was last asked."""

    def __init__(self):
        self.steps = 0

    def connect(self, url):
        opened = sqlite3.connect(url, uri=True, isolation_level=None, check_same_thread=False)
        opened.text_factory = bytes
        opened.set_progress_handler(self._count, STEP)
        return opened

    def _count(self):
        self.steps += STEP
        return 0

    def of(self, home, name):
        """The steps and the bytes of an answer, the second time, as a collector asks."""
        given = ASKED.get(name, {})
        params = {each.name: each for each in question(name).params}
        if "run" in params and params["run"].required:
            given = {"run": "run-3", **given}
        if name == "why":
            given = {"run": "run-1", "seq": home.journal.last}
        for _ in range(2):
            self.steps = 0
            size = len(orjson.dumps(question(name).ask(home, **given), default=repr))
        return self.steps, size

    def work(self, job):
        """The steps and the calls of some work."""
        calls = 0

        def note(_frame, event, _of):
            nonlocal calls
            calls += event in ("call", "c_call")

        self.steps = 0
        sys.setprofile(note)
        try:
            job()
        finally:
            sys.setprofile(None)
        return self.steps, calls


def taken(place, runs):
    """By question, its steps and its bytes with that many runs; by work, its steps and its calls."""
    counted, now = Counted(), time.time()
    session = shutil.copy(SESSION, place.with_suffix(".jsonl"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_index, "connect", counted.connect)
        with Home(place, durability="os") as home:
            for first in range(runs, LAST, -500):
                _admit(home, range(first, max(LAST, first - 500), -1), now)
            home.index.catch_up()
            last = range(LAST, 0, -1)
            found = {
                "admit": counted.work(lambda: _admit(home, last, now)),
                "index": counted.work(home.index.catch_up),
            }
            found |= {name: counted.of(home, name) for name in NAMES}
            found["import"] = counted.work(lambda: Importing(home).bring([session]))
            return found | {"index of the import": counted.work(home.index.catch_up)}


def _admit(home, numbers, now):
    home.intake.admit([line for n in numbers[::3] for line in graph(n, now)], "ralph")
    home.intake.admit([line for n in numbers for line in lines(n, now)], "kahn-agent")


def test_nothing_takes_more_with_many_more_runs(tmp_path):
    taken(tmp_path / "none", LAST)  # so that nothing is loaded while it is counted
    few, many = taken(tmp_path / "few", FEW), taken(tmp_path / "many", MANY)
    for name in few:
        steps, others = zip(few[name], many[name], strict=True)
        print(f"{name:<20}{steps[0]:>10,} {steps[1]:>10,} steps {others[0]:>10,} {others[1]:>10,}")
    grown = [
        name
        for name in few
        if any(more > 1.5 * less + 2_000 for less, more in zip(few[name], many[name], strict=True))
    ]
    assert grown == []
