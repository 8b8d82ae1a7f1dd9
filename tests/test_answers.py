"""Every question a fleet's owner asks, of the shared samples, as a person and as a program."""

import os
import subprocess
import sys

import orjson
import pytest

import sampling as samples
from tracklog import answers
from tracklog.folds import runs as runs_fold
from tracklog.home import Home

NOW = "2026-05-05T09:02:00.000Z"
VERBS = [
    ["runs"], ["agents"], ["tools"], ["audits", "--window", "all"], ["outcomes"], ["inbox"],
    ["leaderboard"], ["costs"], ["costs", "--by", "model"], ["tree"], ["show", "agent-coder-1"],
]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("fleet") / "home"
    with Home(path, durability="os") as opened:
        for sample in samples.of("good"):
            opened.intake.admit(samples.lines_of(sample), samples.dialect_of(sample))
    return path


def tracklog(home, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "tracklog", *map(str, arguments)],
        capture_output=True,
        env={**os.environ, "TRACKLOG_HOME": str(home), "COLUMNS": "80"},
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_question_is_answered_for_a_person_and_for_a_program(home, verb):
    shown = tracklog(home, *verb)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.decode().splitlines()
    assert len(lines) >= 2
    rows = [orjson.loads(line) for line in tracklog(home, *verb, "--json").stdout.splitlines()]
    assert rows
    assert all(isinstance(row, dict) for row in rows)


@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if verb[0] not in ("show", "tree")], ids=" ".join
)
def test_a_table_fits_the_terminal_as_far_as_its_columns_can(home, verb):
    lines = tracklog(home, *verb).stdout.decode().splitlines()
    assert max(map(len, lines)) <= 120
    assert not any(line != line.rstrip() for line in lines)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb[0] != "show"], ids=" ".join)
def test_an_empty_home_is_answered_in_words(tmp_path, verb):
    with Home(tmp_path / "home"):
        pass
    done = tracklog(tmp_path / "home", *verb)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert b"Traceback" not in done.stderr


def test_the_inbox_shows_who_waits_and_for_how_long(tmp_path):
    asks = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"agent_transition","agent_id":"a","step":0,"from":"thinking","to":"blocked-on-clarification","reason":"clarification:q1","question":"Which port?"}'
    with Home(tmp_path / "home") as opened:
        opened.intake.admit([asks], "kahn-agent")
        opened.index.catch_up()
        (row,) = answers.inbox(opened.index, NOW)
        (run,) = answers.runs(opened.index, NOW)
    assert (row["state"], row["text"], row["waiting_seconds"]) == ("open", "Which port?", 120)
    assert run["status"] == "waiting"


def test_time_travel_tells_what_was_known_then(home):
    """At every record of a run, what `show --at` tells is what was known when it was the last."""
    with Home(home, readonly=True) as opened:
        opened.index.catch_up()
        key = "kahn:agent-coder-2"
        records = list(opened.journal.records(run=("kahn", "agent-coder-2")))
        for record in records:
            row = answers.show_at(opened, key, record.seq)
            assert row["last_seq"] == record.seq
        whole = runs_fold.row(opened.index.state("runs", key), records[-1].received)
        assert row == whole


def test_a_moment_before_the_run_is_said_to_be_so(home):
    done = tracklog(home, "show", "agent-coder-2", "--at", 1)
    assert done.returncode == 2
    assert b"had not begun at record 1" in done.stderr
