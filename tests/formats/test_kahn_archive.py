"""A whole `.kahn/archive` comes in with one command, once."""

import shutil
import subprocess
import sys

import orjson
import pytest

from support import sampling as samples
from support.forking import tracklog
from tracklog.home.home import Home

CLEAN = (samples.ROOT / "dialects/kahn-ci/good/clean.jsonl").read_bytes()
AGENT = (samples.ROOT / "dialects/kahn-agent/good/converges.jsonl").read_bytes()
RALPH = (samples.ROOT / "dialects/ralph/good/with-and-without-kiln.jsonl").read_bytes()
RALPH = RALPH.replace(b'"ci-1"', b'"rocky-9"')
NODE = {
    "id": "a", "deliverable": "d", "depends_on": [], "touches": [],
    "parallel_safe": True, "done_when": ["true"],
}  # fmt: skip


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def archive(tmp_path):
    root = tmp_path / ".kahn" / "archive"
    for name, lines in (("ci-1", CLEAN), ("agent-coder-1", AGENT), ("rocky-9", RALPH)):
        run = root / "runs" / name
        run.mkdir(parents=True)
        (run / "transitions.jsonl").write_bytes(lines)
        graph = {"version": 1, "nodes": [{**NODE, "deliverable": name}]}
        (run / "graph.json").write_bytes(orjson.dumps(graph, option=orjson.OPT_INDENT_2))
        (run / "summary.json").write_bytes(orjson.dumps({"run_id": name, "outcome": "clean"}))
    (root / "index.json").write_bytes(orjson.dumps({"runs": ["ci-1", "agent-coder-1"]}))
    return root


LINES = sum(each.count(b"\n") for each in (CLEAN, AGENT, RALPH))


def imported(home, path, *options):
    done = tracklog(home, "import", "--json", path, *options)
    return done, orjson.loads(done.stdout)


def kept(home, run):
    """The lines of a run, but for the note that they were imported."""
    lines = tracklog(home, "events", run, "--raw").stdout.splitlines()
    return [line for line in lines if orjson.loads(line).get("label") != "imported"]


def test_an_archive_is_imported_with_one_command(home, archive):
    done, told = imported(home, archive)
    assert done.returncode == 0, done.stderr
    assert told["lines"] == {"accepted": LINES + 3}
    assert told["unrecognised"] == []
    assert told["unread"] == []
    assert {"kahn-ci", "kahn-agent", "ralph"} <= told["importers"].keys()
    assert told["importers"]["beside"]["ignored"] == {"index.json": 1, "summary.json": 3}
    assert told["importers"]["beside"]["mapped"] == {"graph.json": 3}
    lines = kept(home, "kahn:agent-coder-1")
    assert lines[: AGENT.count(b"\n")] == AGENT.splitlines()
    (graph,) = lines[AGENT.count(b"\n") :]
    noted = orjson.loads(graph)
    assert (noted["fact"], noted["label"], noted["family"]) == ("Noted", "graph", "kahn")
    assert noted["data"]["nodes"][0]["deliverable"] == "agent-coder-1"


def test_what_was_imported_is_not_imported_again(home, archive):
    imported(home, archive)
    before = tracklog(home, "events", "kahn:ci-1", "--raw").stdout
    for again in range(2):
        done, told = imported(home, archive)
        assert done.returncode == 0
        assert told["lines"].get("accepted", 0) == 0
        assert told["unchanged"] == 6  # three files of lines, three graphs
        if not again:
            shutil.rmtree(home / "sources", ignore_errors=True)  # a cache, and no more
    assert tracklog(home, "events", "kahn:ci-1", "--raw").stdout == before


def test_what_was_appended_since_comes_in_and_a_torn_line_waits(home, archive):
    path = archive / "runs" / "ci-1" / "transitions.jsonl"
    first, rest = CLEAN[:-40], CLEAN[-40:]
    path.write_bytes(first)
    done, told = imported(home, archive)
    assert done.returncode == 1
    assert told["lines"] == {"accepted": LINES - 1 + 3}
    assert [each["place"] for each in told["torn"]] == [f"{path}, line {len(CLEAN.splitlines())}"]
    with path.open("ab") as file:
        file.write(rest)
    _, told = imported(home, archive)
    assert told["lines"]["accepted"] == 1
    assert kept(home, "kahn:ci-1")[: CLEAN.count(b"\n") - 1] == CLEAN.splitlines()[:-1]


def test_a_dry_run_keeps_nothing(home, archive):
    done, told = imported(home, archive, "--dry-run")
    assert done.returncode == 0
    assert told["lines"] == {"told": LINES + 3}
    _, told = imported(home, archive)
    assert told["lines"] == {"accepted": LINES + 3}


def test_a_bad_line_is_refused_with_its_place_and_the_rest_comes_in(home, archive):
    path = archive / "runs" / "ci-1" / "transitions.jsonl"
    lines = CLEAN.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"nope\n", *lines[2:]]))
    done, told = imported(home, archive)
    assert done.returncode == 1
    assert told["lines"] == {"accepted": LINES + 3, "refused": 1}
    assert b"transitions.jsonl, line 3" in done.stderr


def test_lines_of_ci_give_the_hint_once(home, archive):
    done, told = imported(home, archive)
    assert done.stderr.count(b"--dialect ralph") == 1
    assert len(told["hints"]) == 1


def test_other_files_in_the_folder_are_still_reported_as_unknown(home, archive):
    (archive / "runs" / "notes.txt").write_text("hello")
    done, told = imported(home, archive)
    assert done.returncode == 0
    assert [name.rsplit("/", 1)[1] for name in told["unrecognised"]] == ["notes.txt"]


OLD = b"".join(
    b'{"ts":"2020-05-05T09:0%d:00.000Z","run_id":"old-%d","event":"agent_run_start",'
    b'"agent_id":"a","task":"look"}\n' % (n, n % 2) for n in range(4)
)  # fmt: skip
LAST = {"old-0": "2020-05-05T09:02:00.000Z", "old-1": "2020-05-05T09:03:00.000Z"}


def rows(home, verb):
    done = tracklog(home, verb, "--json")
    return [orjson.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("way", ["lines", "cloudevents", "lines that were recorded before"])
def test_the_age_of_imported_lines_is_that_of_their_own_clock(tmp_path, way):
    """They were received now, and their run is at rest for years."""
    home, path = tmp_path / "home", tmp_path / "old.jsonl"
    path.write_bytes(OLD)
    if way != "lines":
        other = home if way.startswith("lines") else tmp_path / "other"
        assert tracklog(other, "record", path).returncode == 0
        assert {row["status"] for row in rows(other, "runs")} == {"working"}
    paths = [path]
    if way == "cloudevents":
        paths = [tmp_path / f"{run}.json" for run in LAST]
        for run, each in zip(LAST, paths, strict=True):
            done = tracklog(tmp_path / "other", "export", "cloudevents", run, "-o", each)
            assert done.returncode == 0, done.stderr
    for _ in range(2):  # the second time nothing is new, also not the note that they were imported
        assert tracklog(home, "import", *paths).returncode == 0
        found = {row["run"]: row for row in rows(home, "runs") if row["run"] in LAST}
        assert {run: row["last_activity"] for run, row in found.items()} == LAST
        assert {row["status"] for row in found.values()} == {"lost"}
        assert all(row["silent_seconds"] > 1e8 for row in found.values())
        for run in LAST:
            lines = tracklog(home, "events", run, "--raw").stdout.splitlines()
            assert len(lines) == len(kept(home, run)) + 1
            shown = orjson.loads(tracklog(home, "show", run, "--json").stdout)
            assert shown["status"] == "lost"
    assert tracklog(home, "rebuild").returncode == 0
    again = {row["run"]: row["last_activity"] for row in rows(home, "runs") if row["run"] in LAST}
    assert again == LAST


def test_every_line_of_a_file_is_counted_once(home, archive):
    path = archive / "runs" / "ci-1" / "transitions.jsonl"
    awf = (samples.ROOT / "dialects/awf/good/a-whole-run.jsonl").read_bytes()
    other = archive / "runs" / "other" / "awf.jsonl"
    other.parent.mkdir()
    other.write_bytes(awf + awf.splitlines()[0] + b"\n")  # one identity twice
    lines = CLEAN.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"nope\n", b"\n", *lines[2:]]) + b'{"torn')
    number = LINES + awf.count(b"\n") + 3
    _, first = imported(home, archive)
    assert first["file_lines"] == {
        "accepted": number - 3, "duplicate": 1, "refused": 1, "torn": 1, "read_before": 0,
    }  # fmt: skip
    assert first["notes"] == 4
    assert first["lines"]["accepted"] == number - 3 + 3  # and three graphs
    with Home(home) as opened:
        assert opened.journal.last == first["lines"]["accepted"] + first["notes"]
    _, second = imported(home, archive)
    assert second["file_lines"] == {"torn": 1, "read_before": number - 1}
    assert second["notes"] == 0
    said = tracklog(home, "import", archive).stdout.decode()
    assert f"{number} lines in files of a dialect: 0 accepted" in said
    assert f"{number - 1} read before, 1 torn" in said


def test_an_import_says_what_its_notes_are_and_when_nothing_is_new(home, archive):
    said = tracklog(home, "import", archive).stdout.decode()
    assert "3 notes added: for each run, that its lines were imported from a file" in said
    said = tracklog(home, "import", archive).stdout.decode()
    assert "nothing new: these files were imported before and have not changed" in said
    assert "accepted, 0 duplicate, 0 refused, of" not in said


def test_an_empty_file_is_reported_to_be_empty(home, tmp_path):
    path = tmp_path / "empty.jsonl"
    path.touch()
    done = tracklog(home, "import", path)
    assert done.returncode == 0
    assert done.stdout.decode() == f"empty: 1 ({path}); there is nothing in it to import\n"


def test_an_import_onto_a_full_disk_leaves_no_note_of_lines_that_are_not_there(home, tmp_path):
    """A limit on a file's size stands in for a full disk."""
    script = (
        "import resource, signal; from tracklog.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "main()"
    )
    path = tmp_path / "a.jsonl"
    path.write_bytes(OLD * 1000)
    words = [sys.executable, "-c", script, "import", path, "--home", home]
    done = subprocess.run(words, capture_output=True, timeout=120, check=False)
    assert done.returncode == 2, done.stdout
    assert b"error:" in done.stderr
    with Home(home) as opened:
        assert opened.journal.last == 0
    assert tracklog(home, "import", path).returncode == 0
    assert len(kept(home, "old-0")) == 2000
    assert len(tracklog(home, "events", "old-0", "--raw").stdout.splitlines()) == 2001
