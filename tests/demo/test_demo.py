"""The demo: a fleet in every dialect, in a home of its own, that goes on when it is answered."""

import os
import re
import subprocess
import threading
import time
from collections import Counter
from random import Random

import httpx
import orjson
import pytest

from support import forking
from support.asking import ask
from support.waiting import eventually
from tracklog import demo
from tracklog.answers.tree import tree as tree_of
from tracklog.collector import operator
from tracklog.demo._short_run import ShortRun
from tracklog.dialects.checking import checker
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.journal.frame import stamp
from tracklog.model.errors import TracklogError
from tracklog.model.event import Event

NOW = 1_780_000_000.0


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "demo"
    with demo.Demo(path) as played:
        played.make(NOW)
    return path


def test_every_dialect_speaks(made):
    with Home(made, readonly=True) as home:
        spoken = Counter(record.dialect for record in home.journal.records())
        assert set(spoken) == set(registry.dialect_names())


def test_the_fleet_shows_every_status_and_everything_the_console_has_a_place_for(made):
    with Home(made, clock=lambda: NOW) as home:
        home.index.catch_up()
        runs = ask(home, "runs", now=stamp(NOW), limit=1000)
        assert {run["status"] for run in runs} == {"waiting", "failed", "lost", "working", "done"}
        assert ask(home, "inbox", now=stamp(NOW))[0]["question_id"] == "rollout"
        assert ask(home, "leaderboard")
        assert {row["colour"] for row in ask(home, "audits", window="24h", now=stamp(NOW))} >= {
            "red"
        }
        outcomes = ask(home, "outcomes", now=stamp(NOW))
        assert min(outcomes[name] for name in ("passed", "failed", "flakes")) > 0
        assert outcomes["convergence_mean"] is not None
        assert max(row.depth for row in tree_of(home)) == 2
        names = {row["name"] for row in ask(home, "findings", now=stamp(NOW), limit=1000)}
        assert "illegal-transition" in names


def test_the_same_fleet_whenever_it_is_played(tmp_path, made):
    with demo.Demo(tmp_path / "again") as played:
        played.make(NOW)
    first, again = (
        [record.line for record in Home(path, readonly=True).journal.records()]
        for path in (made, tmp_path / "again")
    )
    assert first == again


def test_hours_of_it_are_never_refused_and_odd_only_on_purpose(tmp_path):
    with demo.Demo(tmp_path / "demo") as played:
        played.make(NOW)
        with Home(tmp_path / "demo", durability="os") as home:
            for cycle in range(24):
                begin = NOW + cycle * demo.ROUND
                for name, act in played._acts:
                    lines = act.live(begin, cycle, demo._draw(name, str(cycle)))
                    for due in sorted(played._due(name, lines)):
                        played._write(home, due)
            home.index.catch_up()
            now = stamp(NOW + 24 * demo.ROUND)
            found = ask(home, "findings", now=now, limit=1000)
            amiss = {(row["run"], row["name"]) for row in found if row["level"] != "info"}
    assert amiss == {("docs-in-a-hurry", "illegal-transition")}


@pytest.mark.parametrize(
    ("run", "question", "answer"),
    [
        ("kahn:release-2-4-1", "rollout", "go back"),
        ("openwop:newsletter-46", "int:gate:newsletter-46", "accept"),
    ],
)
def test_who_waits_goes_on_when_answered(tmp_path, run, question, answer):
    with demo.Demo(tmp_path / "played") as played:
        played.make(time.time())
        stop = threading.Event()
        speaker = threading.Thread(target=played.play, args=(stop,))
        with Home(tmp_path / "played", durability="os") as home:
            speaker.start()
            try:
                operator.give(home, question, answer, by="ada", run=run)
                assert eventually(lambda: _status(home, run) != "waiting"), "it did not go on"
            finally:
                stop.set()
                speaker.join()


def _status(home: Home, run: str) -> str:
    home.index.catch_up()
    return next(
        row["status"]
        for row in ask(home, "runs", now=stamp(time.time()), limit=1000)
        if f"{row['family']}:{row['run']}" == run
    )


def test_it_goes_away_and_comes_back_fresh(made):
    assert demo.is_demo(made)
    assert demo.remove(made)
    assert not made.exists()
    assert not demo.remove(made)


def test_what_is_no_demo_is_left_alone(tmp_path):
    (tmp_path / "thing").write_text("mine")
    with pytest.raises(TracklogError, match="is no demo"):
        demo.Demo(tmp_path)
    with pytest.raises(TracklogError, match="is no demo"):
        demo.remove(tmp_path, force=True)
    assert (tmp_path / "thing").read_text() == "mine"


def test_runs_of_somebody_else_are_not_removed_with_it(made):
    line = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"real","event":"run_start","total_nodes":1}'
    with Home(made) as home:
        home.intake.admit([line])
    with pytest.raises(TracklogError, match="kahn:real"):
        demo.remove(made)
    assert demo.remove(made, force=True)


def test_a_demo_that_is_played_is_not_removed(tmp_path):
    with demo.Demo(tmp_path / "demo"), pytest.raises(TracklogError, match="is being played"):
        demo.remove(tmp_path / "demo")


@pytest.fixture
def shown(tmp_path):
    """`tracklog demo` of a user with nothing but a home directory: its address and its words."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("TRACKLOG")}
    env["HOME"] = str(tmp_path)
    out = tmp_path / "out"
    with (
        out.open("wb") as file,
        forking.Tracklog(
            "demo", "--port", "0", env=env, stdout=file, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            assert eventually(lambda: out.read_text().count("\n") >= 3), out.read_text()
            url = re.search(r"http://\S+?:[0-9]+", out.read_text())[0]
            yield env, url, out.read_text()
        finally:
            process.terminate()
            process.wait(timeout=60)


def test_the_demo_says_how_it_is_looked_at_and_that_works(shown):
    env, _, words = shown
    commands = re.findall(r"`tracklog (\w+ --demo)`", words)
    assert [command.split()[0] for command in commands] == ["runs", "inbox", "top"]
    for command in commands:
        done = forking.tracklog(None, *command.split(), env=env)
        assert done.returncode == 0, done.stderr
        assert b"release-2-4-1" in done.stdout, command
    done = forking.tracklog(None, "runs", env=env)
    assert done.returncode == 2
    assert b"--demo reads the demo" in done.stderr
    for verb in ("story", "show"):
        done = forking.tracklog(None, verb, "nosuch", "--demo", env=env)
        assert b"`tracklog runs --demo` lists" in done.stderr, "the next command reads it, too"
    done = forking.tracklog(None, "findings", "kitchen-1", "--demo", env=env)
    assert b"no findings; `tracklog runs --demo` shows" in done.stderr


def test_a_demo_records_nothing_that_is_sent_to_it_and_says_so(shown):
    env, url, _ = shown
    line = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"mine","event":"agent_run_start","agent_id":"a","task":"x"}'
    ndjson = {"Content-Type": "application/x-ndjson"}
    for path in ("/api/events", "/api/events/kahn-agent"):
        answer = httpx.post(url + path, content=line, headers=ndjson)
        assert answer.status_code == 403
        assert "demo" in answer.json()["error"]
        assert "tracklog serve" in answer.json()["hint"]
    for signal in ("traces", "logs", "metrics"):
        answer = httpx.post(f"{url}/v1/{signal}", json={})
        assert answer.status_code == 403
        assert "demo" in answer.text
    assert b"mine" not in forking.tracklog(None, "runs", "--demo", env=env).stdout
    answered = httpx.post(f"{url}/api/inbox/rollout/answer", json={"answer": "go back", "by": "a"})
    assert answered.status_code == 200, "its questions can be answered"


def test_a_demo_elsewhere_is_named_by_its_home(tmp_path):
    home = tmp_path / "elsewhere"
    done = forking.tracklog(None, "demo", "--once", "--home", home)
    assert f"`tracklog runs --home {home}`" in done.stdout.decode()


@pytest.mark.parametrize("dialect", registry.dialects(), ids=lambda dialect: dialect.name)
def test_a_dialect_without_a_file_in_the_demo_has_a_short_run(dialect):
    lines = [orjson.dumps(body) for _, body in ShortRun(dialect).past(NOW, Random(1))]
    assert lines
    check = checker(dialect)
    assert all(isinstance(check(line), Event) for line in lines)
