"""Files that are read as they grow: known again when they are renamed, never when they are others."""

import json

import pytest

from tracklog.follow import Follower
from tracklog.home import Home


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


def test_what_was_not_heard_of_a_file_that_begins_alike_is_not_taken_for_known(watched):
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
