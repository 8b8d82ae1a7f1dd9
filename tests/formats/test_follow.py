"""Files that are read as they grow: known again when they are renamed, never when they are others."""

import json
import os

import pytest

from support.collecting import start
from support.forking import tracklog
from tracklog.formats.follow import Follower
from tracklog.home.home import Home
from tracklog.journal.frame import Mark


def line(n: int, **more: object) -> bytes:
    told = {"event": "agent_run_start", "ts": "2026-05-05T09:00:00.000Z", "run_id": "r"}
    told |= {"agent_id": f"a{n}", "task": "t", **more}
    return json.dumps(told).encode() + b"\n"


@pytest.fixture
def watched(tmp_path):
    (tmp_path / "logs").mkdir()
    with Home(tmp_path / "home") as home:
        yield home, tmp_path / "logs"


def heard(home: Home, *paths) -> list[str]:
    """The agents of what is new to one that begins to watch."""
    before = home.journal.last
    for each in Follower(home.intake, paths).poll():
        assert not any(verdict.problems for verdict in each.verdicts)
    return [json.loads(record.line)["agent_id"] for record in home.journal.records(before)]


def test_a_file_that_was_renamed_is_read_on_where_it_was(watched):
    home, logs = watched
    path = logs / "now.jsonl"
    path.write_bytes(line(1) + line(2))
    assert heard(home, logs) == ["a1", "a2"]
    old = path.rename(logs / "old.jsonl")
    path.write_bytes(line(3))
    assert heard(home, logs) == ["a3"]
    with old.open("ab") as file:
        file.write(line(4))
    assert heard(home, logs) == ["a4"]
    old.rename(logs / "older.jsonl")
    path.rename(old)
    assert heard(home, logs) == []


def test_one_that_is_watched_all_the_time_knows_a_renamed_file_too(watched):
    home, logs = watched
    path = logs / "now.jsonl"
    path.write_bytes(line(1))
    follower = Follower(home.intake, [logs])
    assert len(list(follower.poll())) == 1
    path.rename(logs / "old.jsonl")
    path.write_bytes(line(2))
    assert [each.path for each in follower.poll()] == [path]


def test_a_copy_and_a_file_that_only_begins_alike_are_other_files(watched):
    home, logs = watched
    path = logs / "one.jsonl"
    path.write_bytes(line(1) + line(2))
    assert heard(home, logs) == ["a1", "a2"]
    (logs / "copy.jsonl").write_bytes(path.read_bytes())
    assert heard(home, logs) == ["a1", "a2"]
    (logs / "copy.jsonl").unlink()
    path.unlink()
    (logs / "alike.jsonl").write_bytes(line(1, more="x" * 100))
    assert heard(home, logs) == ["a1"]


def test_another_file_that_begins_alike_is_not_taken_for_known(watched):
    home, logs = watched
    path = logs / "one.jsonl"
    path.write_bytes(line(1))
    assert heard(home, logs) == ["a1"]
    with path.open("ab") as file:
        file.write(line(2))
    assert heard(home, logs) == ["a2"]
    path.unlink()
    (logs / "two.jsonl").write_bytes(line(1) + line(3) + line(4))
    assert heard(home, logs) == ["a1", "a3", "a4"]


@pytest.mark.parametrize("size", [10, 20_000])  # lines, and the bytes between two that differ
def test_a_follower_notices_that_a_file_was_written_again(watched, size):
    home, logs = watched
    path, filled = logs / "now.jsonl", "x" * size
    path.write_bytes(line(1, more=filled) + line(2))
    follower = Follower(home.intake, [logs])
    assert len(list(follower.poll())) == 1
    path.write_bytes(line(1, more=filled) + line(3) + line(4))
    told = [verdict for each in follower.poll() for verdict in each.verdicts]
    assert [each.verdict for each in told] == ["accepted"] * 3
    (logs / "new").write_bytes(line(1, more=filled.replace("x", "y")) + line(3) + line(4))
    (logs / "new").rename(path)
    assert [len(each.lines) for each in follower.poll()] == [3]
    assert list(follower.poll()) == []
    with path.open("ab") as file:
        file.write(line(5))
    assert heard(home, logs) == ["a5"]


@pytest.mark.parametrize("second", [2, 3])
def test_a_place_without_a_hash_counts_if_its_record_stands_before_it(watched, second):
    """As homes have them from before there was one."""
    home, logs = watched
    path = logs / "now.jsonl"
    path.write_bytes(line(1))
    assert heard(home, logs) == ["a1"]
    (source,) = home.intake.offsets.sources()
    known, mark = home.intake.offsets.place(source), Mark(source, len(line(1) + line(2)))
    home.intake.admit([line(2).rstrip()], mark=mark, place=known)
    path.write_bytes(line(1) + line(second) + line(4))
    assert heard(home, logs) == (["a4"] if second == 2 else ["a1", "a3", "a4"])


@pytest.fixture
def linked(tmp_path):
    """A folder with links: to a file and a folder outside, to itself, and to a file inside."""
    folder, outside = tmp_path / "runs", tmp_path / "outside"
    for each in (folder / "deep", outside):
        each.mkdir(parents=True)
    (outside / "secret.jsonl").write_bytes(start("secret") + b"\n")
    (folder / "own.jsonl").write_bytes(start("own") + b"\n")
    (folder / "deep" / "far.jsonl").symlink_to(outside / "secret.jsonl")
    (folder / "out").symlink_to(outside)
    (folder / "self").symlink_to(folder)
    (folder / "again.jsonl").symlink_to("own.jsonl")
    (folder / "up.jsonl").symlink_to("../outside/secret.jsonl")
    return folder


def test_follow_does_not_leave_its_folder_through_links(tmp_path, linked):
    done = tracklog(tmp_path / "home", "follow", "--once", linked)
    assert done.returncode == 0, done.stderr
    assert b"1 accepted, 0 duplicate" in done.stderr
    for name in (b"deep/far.jsonl", b"runs/out", b"up.jsonl"):
        assert name + b": a link to a place outside its folder is skipped" in done.stderr
    assert b"--follow-symlinks reads it" in done.stderr
    assert b"secret" not in tracklog(tmp_path / "home", "runs").stdout


def test_follow_reads_links_with_follow_symlinks(tmp_path, linked):
    done = tracklog(tmp_path / "home", "follow", "--once", "--follow-symlinks", linked)
    assert done.returncode == 0, done.stderr
    runs = tracklog(tmp_path / "home", "runs").stdout
    assert (b"secret" in runs, b"own" in runs) == (True, True)
    assert b"2 accepted, 0 duplicate" in done.stderr  # each file once, however many lead to it


def test_a_link_that_is_named_is_read(tmp_path, linked):
    for home, place in (("a", linked / "up.jsonl"), ("b", linked / "out")):
        done = tracklog(tmp_path / home, "follow", "--once", place)
        assert b"1 accepted" in done.stderr


def test_follow_of_the_usual_places_does_not_read_a_log_that_is_a_link_elsewhere(tmp_path):
    user = tmp_path / "user"
    projects = user / ".claude" / "projects" / "p"
    projects.mkdir(parents=True)
    line = {"type": "user", "uuid": "u1", "sessionId": "s1", "timestamp": "2026-05-05T09:00:00Z"}
    line |= {"message": {"role": "user", "content": "hello"}}
    (tmp_path / "other.jsonl").write_text(json.dumps(line) + "\n")
    (projects / "s1.jsonl").symlink_to(tmp_path / "other.jsonl")
    env = {**os.environ, "HOME": str(user), "TRACKLOG_HOME": str(tmp_path / "home")}
    done = tracklog(None, "follow", "--once", env=env)
    assert b"s1.jsonl: a link to a place outside its folder is skipped" in done.stderr
    assert b"0 accepted" in done.stderr
    done = tracklog(None, "follow", "--once", "--follow-symlinks", env=env)
    assert b" 0 accepted" not in done.stderr
    assert done.returncode == 0, done.stderr
