"""Every question a fleet's owner asks, of the shared samples, as a person and as a program."""

import orjson
import pytest

from support import sampling as samples
from support.asking import ask
from support.forking import tracklog
from tracklog.folds import runs as runs_fold
from tracklog.home.home import Home
from tracklog.model.errors import NoSuchRun

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


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_question_is_answered_for_a_person_and_for_a_program(home, verb):
    shown = tracklog(home, *verb)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.decode().splitlines()
    assert len(lines) >= (1 if verb == ["outcomes"] else 2)  # of the last 24 hours: none
    rows = [orjson.loads(line) for line in tracklog(home, *verb, "--json").stdout.splitlines()]
    assert rows
    assert all(isinstance(row, dict) for row in rows)


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
    back = b'{"ts":"2026-05-05T09:01:00.000Z","run_id":"r1","event":"agent_transition","agent_id":"a","step":0,"from":"blocked-on-clarification","to":"thinking","reason":"operator_response:q1"}'
    with Home(tmp_path / "home") as opened:
        opened.intake.admit([asks], "kahn-agent")
        opened.index.catch_up()
        (row,) = ask(opened, "inbox", now=NOW)
        (run,) = ask(opened, "runs", now=NOW)
        opened.intake.admit([back], "kahn-agent")
        then, now = (ask(opened, "show", run="kahn:r1", at=seq) for seq in (1, 2))
    assert (row["state"], row["text"], row["waiting_seconds"]) == ("open", "Which port?", 120)
    assert run["status"] == "waiting"
    assert [each["text"] for each in then["asks"]] == ["Which port?"]
    assert (now["status"], now["asks"]) == ("working", [])


def test_show_says_how_long_a_run_waited_for_people_and_counts_no_second_twice(tmp_path):
    def line(n, at, **rest):
        return native("r", n, at=f"2026-05-05T09:{at}Z", agent="a", **rest)

    lines = [
        line(1, "00:00", fact="Asked", question_id="q1", text="One?"),
        line(2, "00:30", fact="Asked", question_id="q2", text="Two?"),
        line(3, "01:00", fact="Answered", question_id="q1", answer="yes"),
        line(4, "01:10", fact="Answered", question_id="q2", answer="yes"),
        line(5, "01:40", fact="Asked", question_id="q3", text="Three?"),
    ]
    with fleet(tmp_path, *lines) as home:
        shown = ask(home, "show", run="r", now="2026-05-05T09:02:00.000Z")
        then = ask(home, "show", run="r", at=2)
    assert shown["waited_seconds"] == 70 + 20  # two overlap, one goes on
    assert then["waited_seconds"] is None


def test_show_at_a_record_shows_the_state_at_that_record(home):
    """At every record of a run, what `show --at` tells is what was known when it was the last."""
    with Home(home, readonly=True) as opened:
        opened.index.catch_up()
        key = "kahn:agent-coder-2"
        records = list(opened.journal.records(run=("kahn", "agent-coder-2")))
        for record in records:
            row = ask(opened, "show", run=key, at=record.seq)
            assert row["last_seq"] == record.seq
        whole = runs_fold.row(opened.index.state("runs", key), records[-1].received)
        assert {name: row[name] for name in whole} == whole


@pytest.mark.parametrize("family", ["fishbowl", "kahn", "awf"])
def test_the_stage_and_the_summary_at_a_past_record_are_those_of_that_record(
    home, tmp_path, family
):
    """What `show --at` tells of a run's steps and stage, a journal that ends there tells now."""
    short, told = ("summary", "stage"), 0
    with Home(home, readonly=True) as opened, Home(tmp_path, durability="os") as growing:
        opened.index.catch_up()
        run = next(
            each for each in sorted(opened.journal.runs()) if _has_short(opened, each, family)
        )
        for record in opened.journal.records(run=run):
            growing.intake.admit([record.line], record.dialect)
            growing.index.catch_up()
            then = ask(opened, "show", run=":".join(run), at=record.seq)
            now = ask(growing, "show", run=":".join(run), now=NOW)
            same = ({name: row[name] for name in short} for row in (then, now))
            assert next(same) == next(same)
            told += any(then[name] for name in short)
    assert told


def _has_short(opened, run, family):
    return run[0] == family and bool(ask(opened, "show", run=":".join(run), now=NOW)["summary"])


def test_a_record_before_the_run_is_an_error(home):
    done = tracklog(home, "show", "agent-coder-2", "--at", 1)
    assert done.returncode == 2
    assert b"had not begun at record 1" in done.stderr


def native(run, n, **fact):
    """A line of an importer, the n-th of a run."""
    origin = {"writer": "importer", "fidelity": "reconstructed"}
    return orjson.dumps({"id": f"{run}-{n}", "run": run, **fact, "origin": origin})


def fleet(path, *lines):
    """A home that heard these lines, with its index."""
    home = Home(path, durability="os")
    home.intake.admit(lines, "tracklog")
    home.index.catch_up()
    return home


@pytest.mark.requirement("KAHN-44")
@pytest.mark.parametrize(("score", "said"), [(1.0, "1 (fully converged)"), (0.5, "0.5 (partial)")])
def test_show_says_how_a_score_reads_and_leaves_the_outcome_alone(tmp_path, score, said):
    end = native("r", 1, fact="Ended", what="run", outcome="escaped", passed=False, score=score)
    fleet(tmp_path, end).close()
    assert f"escaped, not passed, score {said}\n".encode() in tracklog(tmp_path, "show", "r").stdout


def alias(run, name, n=1, system="thread"):
    return native(run, n, fact="Linked", kind="alias", system=system, alias=name)


@pytest.mark.parametrize("name", ["thread-0001", "thread-00", "trace-abc", "s1", "tracklog:s1"])
def test_a_run_is_known_by_the_names_that_others_have_for_it(tmp_path, name):
    lines = [alias("s1", "thread-0001"), alias("s1", "trace-abc", 2), alias("s2", "thread-1")]
    with fleet(tmp_path, *lines) as home:
        assert home.run(name) == ("tracklog", "s1")


def test_a_complete_run_name_means_that_run_whatever_others_are_called(tmp_path):
    with fleet(tmp_path, alias("s1", "a"), alias("tracklog:s1", "b")) as home:
        assert home.run("tracklog:s1") == ("tracklog", "s1")
        assert home.run("tracklog:tracklog:s1") == ("tracklog", "tracklog:s1")


def test_a_name_of_two_runs_is_asked_about_and_a_runs_own_name_comes_first(tmp_path):
    lines = [alias("s1", "both"), alias("s2", "both"), alias("s1", "s2", 2), alias("s3", "lonely")]
    with fleet(tmp_path, *lines) as home:
        assert home.run("s2") == ("tracklog", "s2")
        with pytest.raises(NoSuchRun) as caught:
            home.run("bo")
        assert "could be 2 runs" in str(caught.value)
        assert "tracklog:s1, tracklog:s2" in caught.value.hint
        with pytest.raises(NoSuchRun) as caught:
            home.run("lonly")
        assert "lonely" in caught.value.hint


@pytest.mark.parametrize("verb", ["show", "events", "tree", "findings"])
def test_every_verb_that_takes_a_run_takes_its_other_names(tmp_path, verb):
    fleet(tmp_path, alias("s1", "thread-0001")).close()
    done = tracklog(tmp_path, verb, "thread-0")
    assert done.returncode == 0, done.stderr
    assert b"there is no run" not in done.stderr


def test_what_a_run_left_open_is_found_when_it_is_over_or_lost(tmp_path):
    """While it works, a call that did not return yet is nothing surprising."""
    called = {"fact": "Called", "tool": "Read", "call_id": "c1"}
    lines = [native("works", 1, **called), native("done", 1, **called)]
    lines += [native("done", 2, fact="Ended", what="run", passed=True)]
    with fleet(tmp_path, *lines) as home:
        now = next(iter(home.journal.read(2, 1))).received
        found = ask(home, "findings", now=now)
        assert [(each["seq"], each["run"], each["name"]) for each in found] == [
            (3, "done", "call-not-returned")
        ]
        assert ask(home, "findings", now=now, run="tracklog:works") == []
        later = ask(home, "findings", now="2126-01-01T00:00:00.000Z")
        assert [each["run"] for each in later] == ["done", "works"]
        assert ask(home, "findings", now="2126-01-01T00:00:00.000Z", limit=1) == later[:1]
        home.intake.admit([native("works", 2, fact="Returned", call_id="c1", ok=True)], "tracklog")
        home.index.catch_up()
        settled = ask(home, "findings", now="2126-01-01T00:00:00.000Z")
        assert [each["run"] for each in settled] == ["done"]


def test_the_caller_chooses_after_how_much_silence_a_run_is_lost(tmp_path):
    with fleet(tmp_path, native("r", 1, fact="Began", what="run")) as home:
        heard = next(iter(home.journal.read(0, 1))).received
        later = heard[:20] + "999Z"
        (run,) = ask(home, "runs", now=later, lost_after=0.0001)
        assert run["status"] == ("lost" if run["silent_seconds"] else "working")
        assert ask(home, "runs", now=heard)[0]["status"] == "working"
        assert ask(home, "runs", now="2126-01-01T00:00:00.000Z")[0]["status"] == "lost"
        assert ask(home, "show", run="tracklog:r", now="2126-01-01T00:00:00.000Z", lost_after=10**12)["status"] == "working"  # fmt: skip
    shown = orjson.loads(tracklog(tmp_path, "runs", "--json", "--lost-after", "0.001").stdout)
    assert shown["status"] == "lost"


def test_loops_and_torn_calls_are_shown(tmp_path):
    again = {"fact": "Called", "tool": "Read", "input": {"path": "/etc/hosts"}}
    lines = [native("r", n, **again, call_id=f"c{n}") for n in range(4)]
    lines += [native("r", 9, fact="Returned", call_id="never-called", ok=True)]
    with fleet(tmp_path, *lines) as home:
        (loop,) = ask(home, "loops")
        (run,) = ask(home, "runs", now=NOW)
    assert (loop["tool"], loop["times"], loop["input"]) == ("Read", 4, '{"path":"/etc/hosts"}')
    assert (run["tool_calls"], run["open_calls"], run["torn_calls"]) == (5, 4, 1)
    assert b"/etc/hosts" in tracklog(tmp_path, "loops").stdout
    assert b"no loops" in tracklog(tmp_path, "loops", "--at-least", "9").stdout


def test_a_conversation_is_shown_in_full_although_the_index_stores_only_its_place(tmp_path):
    long = "a very long sentence " * 50
    blocks = [{"type": "text", "text": long}]
    with fleet(tmp_path, native("r", 1, fact="Said", role="user", blocks=blocks)) as home:
        (kept,) = home.index.states("conversation")
        assert long[:20] not in str(kept)
        (message,) = ask(home, "conversation", run="tracklog:r")
    assert message["parts"][0]["text"] == long


def test_tools_can_be_asked_within_a_window(tmp_path):
    call = {"fact": "Called", "tool": "Read"}
    lines = [
        native("r", 1, **call, call_id="c1", at="2026-05-04T09:00:00Z"),
        native("r", 2, **call, call_id="c2", at="2026-05-05T09:00:00Z"),
        native("s", 3, **call, call_id="c3", at="2026-05-05T09:30:00Z"),
    ]
    with fleet(tmp_path, *lines) as home:
        assert ask(home, "tools")[0]["calls"] == 3
        assert ask(home, "tools", window="24h", now="2026-05-05T10:00:00Z")[0]["calls"] == 2
        assert ask(home, "tools", window="7d", now="2026-05-05T10:00:00Z")[0]["calls"] == 3
        assert ask(home, "tools", window="1h", now="2026-05-06T10:00:00Z") == []
    assert b"no tool was called in 24h" in tracklog(tmp_path, "tools", "--window", "24h").stdout
