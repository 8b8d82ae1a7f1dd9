"""ralph lines that nobody called ralph: what is kept of them, and what is said."""

from functools import partial

import httpx
import orjson
import pytest

from support.collecting import collector
from support.forking import tracklog

AT = "2026-05-05T09:00:{:02}.000Z"


def line(n, event, **more):
    return orjson.dumps({"ts": AT.format(n), "run_id": "rocky-1", "event": event, **more}) + b"\n"


START = line(0, "run_start", total_nodes=1, actor="rocky")
PLAIN_START = line(0, "run_start", total_nodes=1)
RUNNING = line(1, "node_transition", node_id="p", outcome="clean", attempt=1,
               **{"from": "ready", "to": "running"})  # fmt: skip
TRY = line(2, "node_attempt", node_id="p", attempt=1, duration_s=1.0, converged=True,
           done_when_results=[])  # fmt: skip
DONE = line(3, "node_transition", node_id="p", outcome="clean", convergence_score=0.75,
            **{"from": "running", "to": "done"})  # fmt: skip
END = line(4, "run_end", outcome="clean", done=1, failed=0, blocked=0, total_duration_s=4.0)
RUN = START + RUNNING + TRY + DONE + END


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def dialects_in(home):
    done = tracklog(home, "events", "rocky-1", "--json")
    assert done.returncode == 0, done.stderr
    return [orjson.loads(each)["dialect"] for each in done.stdout.splitlines()]


def test_a_pipe_of_ralph_is_stored_as_ralph_and_its_convergence_is_there(home):
    done = tracklog(home, "record", given=RUN)
    assert done.returncode == 0, done.stderr
    assert b"hint" not in done.stderr
    assert dialects_in(home) == ["ralph"] * 5
    rows = tracklog(home, "query", "--json", "select * from outcomes").stdout
    assert b"0.75" in rows


KCI_MOVE = line(1, "node_transition", node_id="p", **{"from": "ready", "to": "running"})


@pytest.mark.parametrize(
    ("shown", "kept"),
    [
        ([START, TRY], ["ralph", "ralph"]),
        ([RUNNING, TRY], ["ralph", "ralph"]),
        ([DONE, TRY], ["ralph", "ralph"]),
        ([END.replace(b"}", b',"convergence_score":0.5}'), TRY], ["ralph", "ralph"]),
        ([END.replace(b"}", b',"early_stop_reason":"plateau"}'), TRY], ["ralph", "ralph"]),
        ([PLAIN_START, KCI_MOVE, TRY, END], ["kahn-ci"] * 4),
    ],
    ids=["actor", "outcome", "score", "score at the end", "reason at the end", "none"],
)
def test_each_key_that_only_ralph_has_is_enough(home, shown, kept):
    done = tracklog(home, "record", given=b"".join(shown))
    assert done.returncode == 0, done.stderr
    assert dialects_in(home) == kept


def test_a_file_whose_first_lines_do_not_show_it_is_stored_as_ralph_throughout(home, tmp_path):
    file = tmp_path / "transitions.jsonl"
    filler = TRY.replace(b"rocky-1", b"other-1") * 3000  # more than is read at one go
    file.write_bytes(PLAIN_START + TRY + filler + DONE + END)
    done = tracklog(home, "record", file)
    assert done.returncode == 0, done.stderr
    # A run_start without an actor does not meet the profile: it stays a line of kahn-ci.
    assert dialects_in(home) == ["kahn-ci", "ralph", "ralph", "ralph"]
    assert b"rocky-1" in done.stderr


def test_lines_that_show_nothing_are_kahn_ci_with_one_hint_in_words_and_in_json(home):
    given = PLAIN_START + TRY + END
    done = tracklog(home, "record", "--json", given=given)
    assert dialects_in(home) == ["kahn-ci"] * 3
    assert done.stderr.count(b"--dialect ralph") == 1
    told = [orjson.loads(each) for each in done.stdout.splitlines()]
    assert ["hint" in each for each in told] == [True, False, False]
    assert told[0]["dialect"] == "kahn-ci"
    assert "--dialect ralph" in told[0]["hint"]


@pytest.mark.parametrize("dialect", ["kahn-ci", "ralph"])
def test_a_dialect_that_was_given_is_taken_and_gives_no_hint(home, dialect):
    given = TRY + END
    done = tracklog(home, "record", "--dialect", dialect, given=given)
    assert done.returncode == 0
    assert b"hint" not in done.stderr
    assert dialects_in(home) == [dialect] * 2


def test_a_pipe_that_shows_its_dialect_late_is_split_and_that_is_reported(home):
    process = partial(tracklog, home, "record")
    assert b"hint" in process(given=TRY).stderr
    late = process(given=DONE + END)
    assert b"hint" not in late.stderr
    assert dialects_in(home) == ["kahn-ci", "ralph", "ralph"]


def test_frames_of_the_diagram_are_stored_with_findings(home):
    frames = [
        {"type": "run_start", "run_id": "rocky-1", "ts": AT.format(0), "actor": "rocky"},
        {"type": "node_attempt", "run_id": "rocky-1", "node_id": "p", "attempt": 1,
         "ts": AT.format(1)},
        {"type": "node_transition", "run_id": "rocky-1", "node_id": "p", "outcome": "partial",
         "convergence_score": 0.5},
        {"type": "run_end", "run_id": "rocky-1", "outcome": "partial", "ts": AT.format(2)},
    ]  # fmt: skip
    done = tracklog(home, "record", given=b"".join(orjson.dumps(each) + b"\n" for each in frames))
    assert done.returncode == 0, done.stderr
    assert dialects_in(home) == ["ralph"] * 4
    for verb in (["runs"], ["show", "rocky-1"], ["story", "rocky-1"], ["findings"], ["outcomes"]):
        assert tracklog(home, *verb).returncode == 0, verb
    assert b"upstream-key" in tracklog(home, "findings").stdout


def test_check_says_the_hint_once_and_it_is_no_finding(tmp_path):
    file = tmp_path / "ci.jsonl"
    file.write_bytes(PLAIN_START + TRY)
    done = tracklog(None, "check", "--json", "--fail-on", "info", "--dialect", "kahn-ci", file)
    assert b'"hint"' not in done.stdout
    assert done.stderr == b""
    done = tracklog(None, "check", "--json", file, file)
    assert done.stderr.count(b"--dialect ralph") == 1
    told = [orjson.loads(each) for each in done.stdout.splitlines()]
    assert [each["hint"].count("--dialect ralph") for each in told if "hint" in each] == [1]


def test_a_post_is_recognised_as_ralph_and_an_uncertain_one_is_answered_with_a_hint(home):
    with collector(home) as server:
        url = f"{server.url}/api/events"
        types = {"content-type": "application/x-ndjson"}
        first = httpx.post(url, content=START, headers=types).json()
        assert "hint" not in first
        # What was learned of a run holds for what is posted later.
        assert "hint" not in httpx.post(url, content=TRY, headers=types).json()
        other = TRY.replace(b"rocky-1", b"ci-1")
        told = httpx.post(url, content=other, headers=types).json()
        assert "/api/events/ralph" in told["hint"]
        assert told["accepted"] == 1
        kept = httpx.post(f"{url}/kahn-ci", content=other, headers=types).json()
        assert "hint" not in kept
    assert dialects_in(home) == ["ralph"] * 2


def test_follow_says_the_hint(home, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "ci.jsonl").write_bytes(PLAIN_START + TRY)
    (folder / "ralph.jsonl").write_bytes(RUN.replace(b"rocky-1", b"rocky-2"))
    done = tracklog(home, "follow", "--once", "--json", folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(b"--dialect ralph") == 1
    told = [orjson.loads(each) for each in done.stdout.splitlines()]
    assert [len(each.get("hints", [])) for each in told] == [1, 0]
