"""Homes of format 1: read as they are, brought to format 2 by the first writer, refused by the old."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tracklog.home.home import Home
from tracklog.journal.segments import chain_path, firsts, last_link
from tracklog.journal.verify import verify
from tracklog.model.errors import BadFormat, KeyReused

SAMPLE = Path(__file__).parents[1] / "samples" / "homes" / "format-1"


def line(number: int) -> bytes:
    return (
        b'{"ts":"2026-05-05T09:00:%02d.000Z","run_id":"ci-1","event":"node_transition",'
        b'"node_id":"n%d","from":"pending","to":"ready"}' % (number, number)
    )


@pytest.fixture
def home(tmp_path):
    shutil.copytree(SAMPLE, tmp_path / "home")
    return tmp_path / "home"


def files(home: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in home.rglob("*") if each.is_file()}


def test_a_home_of_format_1_is_read_and_verified_as_it_is(home):
    before = files(home)
    with Home(home, readonly=True, index="sqlite::memory:") as opened:
        assert [each.line for each in opened.journal.records()] == list(map(line, range(8)))
    report = verify(home)
    assert report.records == 8
    assert report.ok
    assert "3 records behind record 8 are not chained" in report.notes[0]
    assert files(home) == before


def test_the_first_writer_adopts_the_tail_once_more_seals_it_and_goes_on_in_format_2(home):
    with Home(home) as opened:
        names = [finding.name for finding in opened.journal.findings]
        assert names == ["torn-tail", "chained-late", "upgraded"]
        assert [each.line for each in opened.journal.records()] == list(map(line, range(11)))
        opened.intake.admit([line(20), line(21)], "kahn-ci")
    assert (home / "format").read_bytes() == b"2\n"
    assert firsts(home / "journal") == [1, 5, 9, 12]
    with chain_path(home / "journal", 9).open("rb") as file:
        link = last_link(file.fileno(), os.fstat(file.fileno()).st_size)
        assert (link.kind, link.through) == ("sealed", 11)
    assert b'"group":2' in (home / "journal" / f"{12:020d}.jsonl").read_bytes()
    assert verify(home).ok
    (torn,) = (home / "quarantine").iterdir()
    assert torn.read_bytes().startswith(b'{"seq":12,')
    with chain_path(home / "refused", 1).open("rb") as file:
        assert last_link(file.fileno(), os.fstat(file.fileno()).st_size).kind == "sealed"
    with Home(home) as again:
        assert not again.journal.findings
        assert len(list(again.refused)) == 1


def test_keys_of_format_1_are_compared_with_what_is_there_and_the_rest_is_let_in(home):
    with Home(home) as opened:
        half = opened.intake.admit(list(map(line, range(8, 13))), "kahn-ci", batch="k3")
        assert [(each.verdict, each.seq) for each in half] == [
            ("duplicate", 9), ("duplicate", 10), ("duplicate", 11), ("accepted", 12),
            ("accepted", 13),
        ]  # fmt: skip
        whole = opened.intake.admit(list(map(line, range(3))), "kahn-ci", batch="k1")
        assert [(each.verdict, each.seq) for each in whole] == [
            ("duplicate", 1), ("duplicate", 2), ("duplicate", 3),
        ]  # fmt: skip
        with pytest.raises(KeyReused):
            opened.intake.admit([line(40)], "kahn-ci", batch="k2")
        assert opened.intake.offsets.place("file:a").through == 70
        kept = [each.line for each in opened.journal.records()]
    assert kept == list(map(line, range(13)))
    assert verify(home).ok


def test_many_that_open_it_at_once_upgrade_it_once(home):
    code = (
        "import sys; from tracklog.home.home import Home\n"
        "with Home(sys.argv[1]) as home: print(home.journal.last)"
    )
    run = [sys.executable, "-c", code, str(home)]
    started = [subprocess.Popen(run, stdout=subprocess.PIPE) for _ in range(4)]
    assert {process.communicate()[0] for process in started} == {b"11\n"}
    assert verify(home).ok


def test_a_writer_of_the_old_version_that_is_still_running_is_seen(home):
    """It holds the lock file open; nothing is changed until it is stopped."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("this system does not show the open files of other processes")
    (home / "journal" / "lock").touch()
    code = "import sys; f = open(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(home / "journal" / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as old:
        old.stdout.readline()
        before = files(home)
        with pytest.raises(BadFormat, match=f"process {old.pid} has .* open with an older version"):
            Home(home)
        assert (home / "format").read_bytes() == b"1\n"
        assert {key: value for key, value in files(home).items() if "upgrade" not in key} == before
        old.stdin.close()
    Home(home).close()
    assert (home / "format").read_bytes() == b"2\n"
