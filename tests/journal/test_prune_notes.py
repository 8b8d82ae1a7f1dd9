"""Records that were pruned: the journal has a note of who did it, or `verify` finds a fault."""

import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from support.collecting import tool
from support.forking import tracklog
from tracklog.home.home import Home
from tracklog.model.fact import Noted

SCRIPT = Path(__file__).parents[2] / "contracts/tracklog_verify.py"


@pytest.fixture
def home(tmp_path):
    """A home with several segments."""
    old = {"segment_size": 500, "clock": lambda: time.time() - 90 * 86400}
    with Home(tmp_path / "home", **old) as opened:
        for n in range(12):
            opened.intake.admit([tool("a", step=n)], "kahn-agent")
    return tmp_path / "home"


def offline(home):
    return subprocess.run(
        [sys.executable, SCRIPT, home], capture_output=True, text=True, check=False
    )


def remove_by_hand(home):
    """Remove the oldest segment, and note it as `prune` does."""
    folder = home / "journal"
    first = min(folder.glob("*.jsonl"))
    link = orjson.loads(first.with_suffix(".chain").read_bytes().splitlines()[-1])
    note = {"through": link["through"], "chain": link["chain"], "at": "2026-01-01T00:00:00.000Z"}
    with (folder / "pruned").open("ab") as file:
        file.write(orjson.dumps(note) + b"\n")
    for kind in (".jsonl", ".chain", ".runs"):
        first.with_suffix(kind).unlink(missing_ok=True)


def test_a_segment_that_was_removed_by_hand_is_no_pruning(home):
    remove_by_hand(home)
    done = tracklog(home, "verify")
    assert done.returncode == 1
    assert b"no record says who pruned them" in done.stdout
    again = offline(home)
    assert (again.returncode, "no record says who did it" in again.stdout) == (1, True)


def test_a_pruning_says_who_did_it(home):
    with Home(home) as opened:
        done = opened.prune(0.0, open_too=True, by="ada")
    assert done.through == 12
    shown = tracklog(home, "verify")
    assert shown.returncode == 0, shown.stdout
    assert b"the records up to 12 were pruned by ada" in shown.stdout
    again = offline(home)
    assert (again.returncode, "pruned by ada" in again.stdout) == (0, True)
    with Home(home, segment_size=500) as opened:
        for n in range(12):
            opened.intake.admit([tool("b", step=n)], "kahn-agent")
    remove_by_hand(home)
    assert tracklog(home, "verify").returncode == 1
    assert offline(home).returncode == 1


def test_the_command_says_who_pruned(home):
    done = tracklog(home, "prune", "--older-than", "1d", "--open-too")
    assert b"12 records deleted" in done.stdout, done.stderr
    shown = tracklog(home, "verify")
    assert (shown.returncode, b"were pruned by" in shown.stdout) == (0, True)
    notes = tracklog(home, "events", "tracklog:operations", "--raw").stdout.splitlines()
    (note,) = [each for each in map(orjson.loads, notes) if each["label"] == "prune"]
    assert note["data"]["through"] == 12


def test_a_note_of_an_older_version_counts(home):
    with Home(home) as opened:
        done = opened.store.prune("9999", at="2026-01-01T00:00:00.000Z")
        opened.record_fact(
            ("kahn", "a"), Noted(label="pruned", data={"through": done.through, "whole": True})
        )
    shown = tracklog(home, "verify")
    assert shown.returncode == 0, shown.stdout
    assert b"somebody whose name was not recorded" in shown.stdout
    assert offline(home).returncode == 0


def test_a_pruning_that_was_interrupted_has_its_note_already(home, monkeypatch):
    with Home(home) as opened:
        real = opened.store.prune

        def killed(*arguments, **options):
            done = real(*arguments, **options)
            if not options.get("dry"):
                raise KeyboardInterrupt
            return done

        monkeypatch.setattr(opened.store, "prune", killed)
        with pytest.raises(KeyboardInterrupt):
            opened.prune(0.0, open_too=True, by="ada")
    assert tracklog(home, "verify").returncode == 0
