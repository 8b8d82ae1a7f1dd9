"""The verbs of the journal, as a person meets them: real processes, real files, real signals."""

import io
import os
import pwd
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import click
import orjson
import pytest

from support import sampling as samples
from support.forking import Tracklog, on_terminal, tracklog
from tracklog.answers.doctor import doctor
from tracklog.dialects import tracklog as native
from tracklog.home.home import Home
from tracklog.journal.blobs import FileBlobs
from tracklog.journal.refused import line_of
from tracklog.model.fact import Noted
from tracklog.model.lines import split

ROOT = Path(__file__).parents[2]
ME = pwd.getpwuid(os.getuid()).pw_name
CONVERGES = samples.ROOT / "dialects/kahn-agent/good/converges.jsonl"


def kahn(n: int = 0, run: str = "r1") -> bytes:
    return orjson.dumps(
        {"ts": "2026-05-05T09:00:00.000Z", "run_id": run, "event": "tool_invocation",
         "agent_id": "a", "step": n, "tool_name": "Read", "duration_s": 0.1, "ok": True}
    )  # fmt: skip


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def objects(done):
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def test_record_numbers_lines_and_events_gives_them_back(home):
    lines = CONVERGES.read_bytes()
    done = tracklog(home, "record", given=lines)
    assert done.returncode == 0, done.stderr
    assert done.stderr.decode() == "8 accepted, 0 duplicate, 0 refused, the last is record 8\n"
    assert tracklog(home, "events", "agent-coder-1", "--raw").stdout == lines
    assert tracklog(home, "events", "kahn:agent-coder-1", "--raw", "--after", 6).stdout == b"".join(
        lines.splitlines(keepends=True)[6:]
    )


def test_record_json_has_an_object_per_line(home):
    done = tracklog(home, "record", "--json", given=kahn() + b"\nnope\n" + kahn() + b"\n")
    first, second, third = objects(done)
    assert first == {"line": 1, "verdict": "accepted", "seq": 1}
    assert (second["verdict"], set(second["problems"][0])) == (
        "refused",
        {"pointer", "message", "hint", "code"},
    )
    assert third == {"line": 3, "verdict": "accepted", "seq": 2}
    assert done.returncode == 1


def test_record_reports_a_byte_order_mark_that_it_dropped(home):
    given = b"\xef\xbb\xbf" + kahn() + b"\n" + kahn() + b"\n"
    first, second = objects(tracklog(home, "record", "--json", given=given))
    assert first == {"line": 1, "verdict": "accepted", "seq": 1, "bom": True}
    assert second == {"line": 2, "verdict": "accepted", "seq": 2}
    assert (
        "line 1: a byte order mark was dropped"
        in tracklog(home, "record", given=given).stderr.decode()
    )
    assert tracklog(home, "events", "r1", "--raw").stdout == (kahn() + b"\n") * 4


@pytest.mark.parametrize("size", [1001, 200_000, 2_000_000])
def test_of_a_line_too_long_to_hold_size_and_hash_are_those_of_the_complete_line(tmp_path, size):
    long = random.Random(size).randbytes(size).replace(b"\n", b" ")
    with Home(tmp_path, cap=1000) as home:
        lines = list(split(io.BytesIO(kahn() + b"\n" + long + b"\n" + kahn()), 1000))
        verdicts = home.intake.admit_lines(lines, "kahn-agent")
        assert [each.verdict for each in verdicts] == ["accepted", "refused", "accepted"]
        (kept,) = home.refused
    assert (kept["size"], kept["sha256"]) == (size, sha256(long).hexdigest())
    assert line_of(kept) == long[: 64 << 10]


def test_a_line_is_answered_before_the_next_is_written(home):
    """A pipe that stays open gets its numbers at once, not at its end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tracklog", "record", "--json", "--dialect", "kahn-agent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TRACKLOG_HOME": str(home)},
    )
    for n in range(1, 4):
        process.stdin.write(kahn(n) + b"\n")
        process.stdin.flush()
        assert orjson.loads(process.stdout.readline()) == {
            "line": n,
            "verdict": "accepted",
            "seq": n,
        }
    process.stdin.close()
    assert process.wait(timeout=30) == 0
    process.stdout.close()


def test_what_was_acknowledged_survives_kill_9(home, tmp_path):
    """Killed at a random moment: every number that was printed is there, once, in order."""
    rng = random.Random(7)
    given = tmp_path / "given.jsonl"
    given.write_bytes(b"".join(kahn(n) + b"\n" for n in range(60_000)))
    acknowledged = 0
    for _ in range(6):
        with given.open("rb") as lines, (tmp_path / "told").open("wb") as told:
            process = Tracklog(
                "record",
                "--json",
                "--dialect",
                "kahn-agent",
                stdin=lines,
                stdout=told,
                env={**os.environ, "TRACKLOG_HOME": str(home)},
            )
        while not (tmp_path / "told").stat().st_size:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        said = (tmp_path / "told").read_bytes()
        for line in said[: said.rfind(b"\n") + 1].splitlines():
            acknowledged = max(acknowledged, orjson.loads(line)["seq"])
    with Home(home) as opened:
        records = list(opened.journal.records())
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert len(records) >= acknowledged > 6
    assert tracklog(home, "verify").returncode == 0


def test_the_same_events_again_are_duplicates(home):
    flight = max(
        (samples.ROOT / "dialects/fishbowl/good").glob("*.jsonl"), key=lambda p: p.stat().st_size
    )
    first, again = (objects(tracklog(home, "record", "--json", flight)) for _ in range(2))
    assert {each["verdict"] for each in first} == {"accepted"}
    assert {each["verdict"] for each in again} == {"duplicate"}
    assert [each["seq"] for each in first] == [each["seq"] for each in again]


def test_files_are_for_their_owner_alone(home):
    command = [sys.executable, "-m", "tracklog", "record", "--home", home]
    subprocess.run(command, input=kahn() + b"\nnope\n", umask=0, check=False)
    for path in (home, *home.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_home_may_be_a_file_url(tmp_path):
    assert tracklog(b"", "record", "--home", f"file:{tmp_path}/a", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a" / "journal").is_dir()


@pytest.mark.parametrize("url", ["memory:", "nats://here/x"])
def test_a_home_that_is_not_on_this_machine_is_refused(url, tmp_path):
    done = tracklog(None, "runs", "--home", url, cwd=tmp_path)
    assert done.returncode == 2
    assert b"name a folder" in done.stderr
    assert not [*tmp_path.iterdir()]


def test_tail_shows_the_end_and_filters(home):
    tracklog(home, "record", given=b"\n".join(kahn(n, f"r{n % 2}") for n in range(20)))
    last = objects(tracklog(home, "tail", "--json", "-n", 3))
    assert [each["seq"] for each in last] == [18, 19, 20]
    of_run = objects(tracklog(home, "tail", "--json", "-n", 2, "--run", "r0"))
    assert [each["seq"] for each in of_run] == [17, 19]
    assert objects(tracklog(home, "tail", "--json", "--kind", "agent_run_end")) == []
    assert len(objects(tracklog(home, "tail", "--json", "--dialect", "kahn-agent", "-n", 5))) == 5


def test_tail_follows_what_another_process_records(home):
    tracklog(home, "record", given=kahn(1) + b"\n")
    process = Tracklog(
        "tail",
        "-f",
        "--json",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TRACKLOG_HOME": str(home)},
    )
    assert orjson.loads(process.stdout.readline())["seq"] == 1
    tracklog(home, "record", given=kahn(2) + b"\n")
    assert orjson.loads(process.stdout.readline())["seq"] == 2
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert process.stderr.read().strip() == b""
    process.stdout.close()
    process.stderr.close()


def test_a_damaged_record_is_shown_as_such_and_hides_no_other(home):
    tracklog(home, "record", given=b"\n".join(kahn(n) for n in range(4)))
    (segment,) = (home / "journal").glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"event":"tool', b'"event"~"tool')
    segment.write_bytes(b"".join(lines))
    for verb in (["events", "r1"], ["tail"]):
        done = tracklog(home, *verb)
        assert done.returncode == 0, done.stderr
        rows = done.stdout.decode().splitlines()
        assert ["damaged" in row for row in rows] == [False, True, False, False]
        assert "`tracklog verify` shows what was changed" in rows[1]
        told = objects(tracklog(home, *verb, "--json"))
        assert [each["seq"] for each in told] == [1, 2, 3, 4]
        assert (told[1]["event"], told[1]["damaged"]) == (None, True)
    kept = objects(tracklog(home, "tail", "--json", "--kind", "tool_invocation"))
    assert [each["seq"] for each in kept] == [1, 3, 4]


def noted(run: str, label: str) -> bytes:
    return native.line(
        Noted(label=label), id=f"{hash((run, label)):x}", run=run, at="2026-05-05T09:00:00.000Z",
        origin={"writer": "cli", "fidelity": "observed"},
    )  # fmt: skip


def test_what_a_line_says_cannot_reach_the_terminal(home):
    """No escape sequence, bell, line break or reversal of an emitter's is printed as such."""
    sly = "\x1b[2J\x07\r\nrecord 7: proven\u202e"
    given = noted(f"r{sly}", sly) + b"\n"
    assert tracklog(home, "record", given=given).returncode == 0
    checked = tracklog(home, "check", "-v", given=given).stdout
    assert len(checked.splitlines()) == 3
    for out in (checked, tracklog(home, "tail").stdout, tracklog(home, "events", "r").stdout):
        assert out.decode().replace("\n", "").isprintable()
        assert b"\\x1b[2J\\x07" in out
    assert tracklog(home, "tail").stdout.count(b"\n") == 1
    refused = tracklog(home, "record", given=given.replace(b'"Noted"', b'"\\u001b[2J"')).stderr
    assert b"\x1b" not in refused
    missing = tracklog(home, "events", f"x{sly}").stderr
    assert b"\x1b" not in missing


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_rows_do_not_run_over_on_a_terminal(home, columns):
    run = "日本語のラン名前はとても長いです"
    told = [noted(run, "x" * 300), noted("r" * 90, "日本" * 90), kahn(1)]
    tracklog(home, "record", given=b"\n".join(told))
    for verb in (["tail"], ["events", run], ["events", "rr"]):
        rows = click.unstyle(on_terminal(columns, home, *verb)).splitlines()
        assert len(rows) == (3 if verb == ["tail"] else 1)
        for row in rows:
            width = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in row)
            assert width <= max(columns, 63), row  # the columns before the words need their room
    if columns == 80:
        assert "tool_invocation" in rows[0] or "…" in rows[0]


def test_an_unknown_run_is_answered_with_near_ones(home):
    tracklog(home, "record", CONVERGES)
    done = tracklog(home, "events", "agent-codr-1")
    assert done.returncode == 2
    assert b"did you mean agent-coder-1" in done.stderr


def test_a_missing_home_is_an_error(home):
    for verb in (["tail"], ["events", "x"], ["verify"], ["prune", "--older-than", "1d"]):
        done = tracklog(home, *verb)
        assert done.returncode == 2
        assert b"nothing is recorded at" in done.stderr
        assert b"tracklog record" in done.stderr
    assert not home.exists()


def test_verify_names_the_first_bad_record_and_an_anchor_finds_a_cut_tail(home):
    tracklog(home, "record", CONVERGES)
    first = tracklog(home, "verify", "--json")
    head = orjson.loads(first.stdout)["head"]
    segment = next((home / "journal").glob("*.jsonl"))
    good = segment.read_bytes()
    segment.write_bytes(good.replace(b'"step":1', b'"step":9', 1))
    done = tracklog(home, "verify", "--json")
    assert done.returncode == 1
    bad = next(n for n, line in enumerate(good.splitlines(), 1) if b'"step":1' in line)
    assert orjson.loads(done.stdout)["faults"][0]["seq"] == bad
    segment.write_bytes(good)
    assert tracklog(home, "verify", "--anchor", head).returncode == 0
    fake = f"{int(head.split(':')[0]) + 1}:{head.split(':')[1]}"
    assert tracklog(home, "verify", "--anchor", fake).returncode == 1
    assert tracklog(home, "verify", "--anchor", "nonsense").returncode == 2


def test_an_exported_run_is_proven_without_tracklog(home, tmp_path):
    tracklog(home, "record", CONVERGES)
    tracklog(home, "record", given=kahn() + b"\n")
    proof = tmp_path / "proof.json"
    lines = tracklog(home, "events", "agent-coder-1", "--raw", "--proof", proof).stdout
    run = tmp_path / "run.jsonl"
    run.write_bytes(lines)
    script = [sys.executable, "-I", "-S", str(ROOT / "contracts/tracklog_verify.py")]
    assert subprocess.run([*script, run, proof], capture_output=True, check=False).returncode == 0
    run.write_bytes(lines.replace(b'"Read"', b'"Rm"', 1))
    assert subprocess.run([*script, run, proof], capture_output=True, check=False).returncode == 1


def test_an_export_is_written_to_a_device_or_a_link_and_not_put_in_its_place(home, tmp_path):
    tracklog(home, "record", given=kahn() + b"\n")
    pipe, link, real = (tmp_path / name for name in ("pipe", "link", "real"))
    os.mkfifo(pipe)
    link.symlink_to(real)
    with ThreadPoolExecutor(1) as other:
        read = other.submit(pipe.read_bytes)
        assert tracklog(home, "export", "jsonl", "r1", "-o", pipe).returncode == 0
        assert read.result() == kahn() + b"\n"
    assert tracklog(home, "export", "jsonl", "r1", "-o", link).returncode == 0
    assert (pipe.is_fifo(), link.is_symlink()) == (True, True)
    assert real.read_bytes() == kahn() + b"\n"
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("pipe.")]


def test_runs_says_how_many_it_does_not_list(home):
    tracklog(home, "record", given=b"\n".join(kahn(run=f"r{n}") for n in range(3)))
    done = tracklog(home, "runs", "--limit", "2")
    assert b"and 1 more; --limit 3 shows all" in done.stderr
    assert tracklog(home, "runs", "--limit", "3").stderr == b""
    assert tracklog(home, "runs", "--limit", "2", "--json").stderr == b""


def test_runs_can_be_asked_for_by_status_and_agent(home):
    starts = [start(f"r{n}") for n in range(3)]
    tracklog(home, "record", given=b"\n".join(starts))

    def listed(*wanted):
        return {row["run"] for row in objects(tracklog(home, "runs", "--json", *wanted))}

    assert listed("--status", "working") == {"r0", "r1", "r2"}
    assert listed("--status", "done", "--status", "failed") == set()
    assert listed("--status", "working", "--agent", "nobody") == set()
    done = tracklog(home, "runs", "--status", "working", "--limit", "1")
    assert b"and 2 more; --limit 3 shows all" in done.stderr
    assert b"no such run" in tracklog(home, "runs", "--status", "done").stdout


@pytest.mark.parametrize("columns", [60, 200])
def test_the_id_of_a_question_is_never_cut_on_a_terminal(home, columns):
    ask = {"ts": "2026-05-05T09:00:00.000Z", "run_id": "r1", "event": "agent_transition"}
    ask |= {"agent_id": "coder", "step": 0, "from": "thinking", "to": "blocked-on-clarification"}
    ask |= {"reason": "clarification:a-question-with-a-long-name", "question": "Which? " * 20}
    tracklog(home, "record", given=orjson.dumps(ask))
    assert "a-question-with-a-long-name" in on_terminal(columns, home, "inbox")


def test_nobody_is_asked_whether_to_erase_what_is_not_there(home):
    tracklog(home, "record", given=kahn() + b"\n")
    done = tracklog(home, "erase", "r1", "7", "--reason", "x")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"record 7 is not of run 'r1'" in done.stderr
    assert b"cannot be undone" not in done.stderr


def test_erase_leaves_a_tombstone_that_verifies_and_no_byte(home):
    secret = kahn().replace(b'"Read"', b'"hunter2"')
    tracklog(home, "record", given=kahn(0) + b"\n" + secret + b"\n" + kahn(2) + b"\n")
    asked = tracklog(home, "erase", "r1", 2, "--reason", "a password", given=b"n\n")
    assert asked.returncode == 130
    done = tracklog(home, "erase", "r1", 2, "--reason", "a password", "--by", "ada", "--yes")
    assert done.returncode == 0, done.stderr
    report = orjson.loads(tracklog(home, "verify", "--json").stdout)
    assert (report["ok"], report["erased"]) == (True, [2])
    assert not [p for p in home.rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]
    *_, note = objects(tracklog(home, "events", "r1", "--json"))
    assert note["event"]["fact"] == "Noted"
    assert note["event"]["data"] == {"seq": 2, "reason": "a password", "by": f"ada ({ME})"}
    shown = tracklog(home, "events", "r1").stdout
    assert b"erased" in shown
    wrong = tracklog(home, "erase", "r1", 99, "--reason", "x", "--yes")
    assert b"record 99 is not of run 'r1'" in wrong.stderr


def start(run: str) -> bytes:
    return orjson.dumps(
        {"ts": "2026-05-05T09:00:00.000Z", "run_id": run, "event": "agent_run_start",
         "agent_id": "a", "task": "t"}
    )  # fmt: skip


def test_prune_lets_old_segments_go_and_says_so_in_the_runs(home):
    old = time.time() - 40 * 86400
    with Home(home, clock=lambda: old, segment_size=1000) as opened:
        for n in range(50):
            opened.intake.admit([kahn(n, "old")], "kahn-agent")
    with Home(home) as opened:
        opened.intake.admit([kahn(n, "recent") for n in range(5)], "kahn-agent")
        opened.blobs.put(b"nobody speaks of this")
    before = sum(path.stat().st_size for path in home.rglob("*.jsonl"))
    dry = objects(tracklog(home, "prune", "--older-than", "30d", "--dry-run", "--json"))[0]
    assert dry["records"] > 40
    assert sum(path.stat().st_size for path in home.rglob("*.jsonl")) == before
    done = tracklog(home, "prune", "--older-than", "30d", "--json")
    assert done.returncode == 0, done.stderr
    said = objects(done)[0]
    assert said["records"] >= dry["records"]
    assert ["kahn", "old"] in said["whole"] + said["part"]
    assert sum(path.stat().st_size for path in home.rglob("*.jsonl")) < before
    assert tracklog(home, "verify").returncode == 0
    *_, note = objects(tracklog(home, "events", "old", "--json"))
    assert note["event"]["label"] == "pruned"
    whole = ["kahn", "old"] in said["whole"]
    data = {"through": said["through"], "whole": whole, "by": ME}
    assert note["event"]["data"] == data
    assert len(objects(tracklog(home, "events", "recent", "--json"))) == 5


def test_prune_does_not_touch_an_open_run_without_open_too(home):
    old = time.time() - 40 * 86400
    with Home(home, clock=lambda: old, segment_size=1000) as opened:
        opened.intake.admit([start("living")], "kahn-agent")
        for n in range(50):
            opened.intake.admit([kahn(n, "old")], "kahn-agent")
    with Home(home) as opened:
        opened.intake.admit([kahn(1, "living")], "kahn-agent")
    kept = objects(tracklog(home, "prune", "--older-than", "30d", "--json"))[0]
    assert kept["records"] == 0
    done = objects(tracklog(home, "prune", "--older-than", "30d", "--open-too", "--json"))[0]
    assert done["records"] > 40
    assert tracklog(home, "verify").returncode == 0


def test_repair_heals_and_keeps_the_original(tmp_path, home):
    path = tmp_path / "broken.jsonl"
    broken = kahn(0) + b"\n" + b"\0\0\0\0" + b"\n" + kahn(1) + kahn(2) + b"\n" + kahn(3)[:40]
    path.write_bytes(broken)
    dry = tracklog(home, "repair", "--dry-run", path)
    assert path.read_bytes() == broken
    assert b"nothing was written" in dry.stdout
    done = tracklog(home, "repair", path)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == b"".join(kahn(n) + b"\n" for n in range(3))
    originals = [p for p in tmp_path.iterdir() if p != path and p.read_bytes() == broken]
    assert len(originals) == 1
    assert b"without damage" in tracklog(home, "repair", path).stdout
    assert tracklog(home, "repair", tmp_path / "gone").returncode == 2


def test_repair_leaves_a_file_in_utf16_alone_and_says_how_to_convert_it(tmp_path, home):
    file = tmp_path / "session.jsonl"
    file.write_text(CONVERGES.read_text(), encoding="utf-16")
    before = file.read_bytes()
    done = tracklog(home, "repair", file)
    assert done.returncode == 2
    assert b"iconv -f UTF-16 -t UTF-8" in done.stderr
    assert [file.read_bytes()] == [each.read_bytes() for each in tmp_path.iterdir()] == [before]


def test_repair_says_in_words_what_it_did(tmp_path, home):
    file = tmp_path / "session.jsonl"
    lines = [b"\xef\xbb\xbf" + kahn(0) + b"\r", kahn(1) + kahn(2), b"\0", b'{"a":', kahn(3)]
    file.write_bytes(b"\n".join(lines))
    said = tracklog(home, "repair", file).stdout.decode().replace(f"{file}, ", "").splitlines()
    assert said[:-1] == [
        "line 1: repaired: a byte order mark was dropped; its line end was CRLF",
        "line 2: repaired: 2 whole objects on a line that is not one object",
        "line 3: set aside: 1 byte of NUL fill",
        "line 4: set aside: not JSON: expecting value at character 5",
        "line 5: repaired: its line end was missing",
    ]


def test_follow_takes_what_is_new_and_only_that(home, tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(kahn(0) + b"\n" + kahn(1) + b"\n" + kahn(2)[:30])
    assert objects(tracklog(home, "follow", "--once", "--json", folder)) == [
        {"file": str(folder / "a.jsonl"), "accepted": 2}
    ]
    with (folder / "a.jsonl").open("ab") as file:
        file.write(kahn(2)[30:] + b"\nnope\n")
    (folder / "b.jsonl").write_bytes(kahn(0) + b"\n")
    done = tracklog(home, "follow", "--once", "--json", folder)
    assert objects(done) == [
        {"file": str(folder / "a.jsonl"), "accepted": 1, "refused": 1},
        {"file": str(folder / "b.jsonl"), "accepted": 1},
    ]
    assert b"a.jsonl, line 4 refused" in done.stderr
    assert objects(tracklog(home, "follow", "--once", "--json", folder)) == []
    (folder / "b.jsonl").write_bytes(kahn(7) + b"\n" + kahn(8) + b"\n")
    replaced = objects(tracklog(home, "follow", "--once", "--json", folder))
    assert replaced == [{"file": str(folder / "b.jsonl"), "accepted": 2}]


def test_follow_once_with_nothing_to_read_says_what_to_do(home, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    done = tracklog(home, "follow", "--once", folder)
    assert done.returncode == 0
    assert b"no file in " in done.stderr
    assert b"leave --once out" in done.stderr
    done = tracklog(home, "follow", "--once", env={**os.environ, "HOME": str(folder)})
    assert b"`tracklog follow DIR` reads another folder" in done.stderr


def test_follow_reads_both_kahn_dialects_of_one_archive(home, tmp_path):
    lines = (
        samples.ROOT / "dialects/kahn-ci/good/clean.jsonl"
    ).read_bytes() + CONVERGES.read_bytes()
    (tmp_path / "transitions.jsonl").write_bytes(lines)
    (heard,) = objects(tracklog(home, "follow", "--once", "--json", tmp_path))
    assert "refused" not in heard
    dialects = {each["dialect"] for each in objects(tracklog(home, "tail", "--json", "-n", 100))}
    assert dialects == {"kahn-ci", "kahn-agent"}


def test_a_backup_made_while_others_write_verifies(home, tmp_path):
    tracklog(home, "record", CONVERGES)
    writer = Tracklog(
        "record",
        "--dialect",
        "kahn-agent",
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TRACKLOG_HOME": str(home)},
    )
    for n in range(2000):
        writer.stdin.write(kahn(n) + b"\n")
    done = tracklog(home, "backup", "--json", tmp_path / "copy")
    writer.stdin.close()
    assert writer.wait(timeout=60) == 0
    assert done.returncode == 0, done.stderr
    assert tracklog(tmp_path / "copy", "verify").returncode == 0
    again = tracklog(home, "backup", tmp_path / "copy")
    assert again.returncode == 2
    assert b"is there already" in again.stderr


def test_a_backup_has_every_blob_and_nothing_half_made(home, tmp_path):
    tracklog(home, "record", CONVERGES)
    name = FileBlobs(home).put(b"a picture")
    half = home / "blobs" / "sha256" / name[:2] / "half.1.2.tmp"
    half.write_bytes(b"a pict")
    done = tracklog(home, "backup", tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    assert FileBlobs(tmp_path / "copy").get(name) == b"a picture"
    assert not [*(tmp_path / "copy").rglob("*.tmp")]


def test_doctor_says_what_is_wrong_and_how_to_repair_it(home):
    nothing = objects(tracklog(home, "doctor", "--json"))
    assert nothing[-1]["remedy"] == "tracklog import"
    tracklog(home, "record", CONVERGES)
    well = tracklog(home, "doctor", "--json")
    assert well.returncode == 0
    assert {each["state"] for each in objects(well)} == {"ok"}
    home.chmod(0o755)
    segment = next((home / "journal").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b"coder", b"codex", 1))
    ill = tracklog(home, "doctor", "--json")
    assert ill.returncode == 1
    states = {each["name"]: (each["state"], each["remedy"]) for each in objects(ill)}
    assert states["permissions"] == ("warning", f"chmod -R go-rwx {home}")
    state, remedy = states["chain"]
    assert state == "error"
    for command in (f"`tracklog verify --home {home}`", "`tracklog backup`", f"`mv {home} "):
        assert command in remedy


def test_record_into_a_damaged_home_warns_and_records_all_the_same(home):
    for again in ((), ("--again",)):
        assert b"damaged" not in tracklog(home, "record", *again, CONVERGES).stderr
    segment = next((home / "journal").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b"coder", b"codex", 1))
    done = tracklog(home, "record", "--again", CONVERGES)
    assert done.returncode == 0
    warning, hint, summary = done.stderr.decode().splitlines()
    assert warning == "warning: the journal is damaged: record 1: was changed"
    assert "`tracklog doctor`" in hint
    assert summary.startswith("8 accepted")


def test_whatever_doctor_finds_comes_with_a_command(home):
    tracklog(home, "record", CONVERGES)
    tracklog(home, "runs")
    home.chmod(0o755)
    (home / "quarantine").mkdir(exist_ok=True)
    (home / "quarantine" / "piece").write_bytes(b"torn")
    for path in home.glob("index.db*"):
        path.write_bytes(b"nonsense" * 1000)
    segment = next((home / "journal").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b"coder", b"codex", 1))
    found = {
        check["name"]: check["remedy"]
        for check in objects(tracklog(home, "doctor", "--json"))
        if check["state"] != "ok"
    }
    assert found.keys() >= {"permissions", "chain", "quarantine", "index"}
    for name, remedy in found.items():
        program = remedy.split("`")[1] if "`" in remedy else remedy
        assert program.startswith("tracklog ") or shutil.which(program.split()[0]), (name, remedy)
        assert str(home) in remedy, (name, remedy)


def test_doctor_looks_at_the_index_and_knows_a_broken_one(home):
    def index():
        checks = objects(tracklog(home, "doctor", "--json"))
        return next(each for each in checks if each["name"] == "index")

    tracklog(home, "record", CONVERGES)
    assert "not built yet" in index()["message"]
    tracklog(home, "runs")
    assert index()["message"] == "up to the last record, 8"
    tracklog(home, "record", given=kahn() + b"\n")
    assert index()["message"] == "up to record 8 of 9: the next question updates it"
    for path in home.glob("index.db*"):
        path.write_bytes(b"nonsense" * 1000)
    assert (index()["state"], index()["remedy"]) == (
        "warning",
        f"tracklog rebuild --home {home}",
    )
    assert tracklog(home, "runs").returncode == 0
    assert index()["state"] == "ok"


def test_a_full_disk_is_reported_and_nothing_acknowledged_is_lost(home, tmp_path):
    """A limit on the file's size stands in for a full disk: the write fails with EFBIG."""
    script = (
        "import resource, signal, sys; from tracklog.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "sys.argv[1:] = ['record', '--json', '--dialect', 'kahn-agent']\n"
        "main()"
    )
    lines = b"".join(kahn(n) + b"\n" for n in range(5000))
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=lines,
        capture_output=True,
        env={**os.environ, "TRACKLOG_HOME": str(home)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert b"error:" in done.stderr
    assert b"Traceback" not in done.stderr
    acknowledged = [each["seq"] for each in objects(done)]
    with Home(home) as opened:
        assert opened.journal.last >= len(acknowledged)
        opened.intake.admit([kahn()], "kahn-agent")
    assert tracklog(home, "verify").returncode == 0


def test_a_full_disk_does_not_hide_what_was_stored_before(home, tmp_path):
    script = (
        "import resource, signal, sys; from tracklog.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "main()"
    )
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    few.write_bytes(b"".join(kahn(n) + b"\n" for n in range(10)))
    many.write_bytes(b"".join(kahn(n) + b"\n" for n in range(5000)))
    done = subprocess.run(
        [sys.executable, "-c", script, "record", few, many],
        capture_output=True,
        env={**os.environ, "TRACKLOG_HOME": str(home)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    kept, *error = done.stderr.decode().splitlines()
    assert kept == "10 accepted, 0 duplicate, 0 refused, the last is record 10"
    assert "nothing of this group was recorded" in error[0]


def test_an_unreadable_file_does_not_keep_the_others_out(home, tmp_path):
    done = tracklog(home, "record", tmp_path / "nowhere", tmp_path, CONVERGES)
    assert done.returncode == 2
    first, second, last = done.stderr.decode().splitlines()
    assert first == f"error: {tmp_path}/nowhere does not exist; check the name"
    assert second.endswith(f"is a directory; name the files in it: {tmp_path}/*.jsonl")
    assert last == "8 accepted, 0 duplicate, 0 refused, the last is record 8"


def test_a_home_of_a_newer_format_is_neither_read_nor_written(home, tmp_path):
    tracklog(home, "record", CONVERGES)
    (home / "format").write_text("3\n")
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    for verb in (
        ["tail"],
        ["events", "agent-coder-1"],
        ["verify"],
        ["record", CONVERGES],
        ["prune", "--older-than", "1d"],
        ["erase", "agent-coder-1", 1, "--reason", "x", "--yes"],
        ["follow", "--once", CONVERGES],
        ["backup", tmp_path / "copy"],
    ):
        done = tracklog(home, *verb)
        assert done.returncode == 2, verb
        assert b"says '3', and this version knows the formats up to 2" in done.stderr, verb
        assert b"use the version of tracklog that wrote this home" in done.stderr
    (home_check,) = [
        each for each in objects(tracklog(home, "doctor", "--json")) if each["name"] == "home"
    ]
    assert home_check["state"] == "error"
    assert before == {path: path.stat().st_mtime_ns for path in home.rglob("*")}


def test_a_home_that_is_a_file_is_reported(home):
    home.write_text("not a home")
    for verb in (["tail"], ["verify"], ["record", CONVERGES], ["doctor"]):
        done = tracklog(home, *verb)
        assert b"a file is in its place" in done.stderr + done.stdout
        assert b"name another place" in done.stderr + done.stdout
        assert done.returncode == (1 if verb == ["doctor"] else 2)
    assert home.read_text() == "not a home"


def test_without_a_home_directory_the_hint_asks_for_the_full_path(home):
    done = tracklog(home, "tail", "--home", "~nobody-of-this-name/x")
    assert done.returncode == 2
    assert b"write the path in full" in done.stderr


@pytest.mark.parametrize(("given", "asked"), [(b"", 1), (b"n\n", 1), (b"y\n", 0)])
def test_an_erasure_that_is_not_confirmed_erases_nothing(home, given, asked):
    tracklog(home, "record", CONVERGES)
    done = tracklog(home, "erase", "agent-coder-1", 3, "--reason", "x", given=given)
    assert (done.returncode == 130, b"--yes does not ask" in done.stderr) == (asked, asked)
    told = objects(tracklog(home, "events", "agent-coder-1", "--json"))
    assert (told[2]["event"] is None) == (not asked)


def test_an_age_beyond_measure_is_refused(home):
    tracklog(home, "record", CONVERGES)
    done = tracklog(home, "prune", "--older-than", "999999999999999999d")
    assert done.returncode == 2
    assert b"longer than any record exists" in done.stderr


def test_a_backup_that_cannot_be_made_says_why_and_leaves_nothing(home, tmp_path):
    tracklog(home, "record", CONVERGES)
    inside = tmp_path / "file" / "copy"
    inside.parent.write_text("")
    done = tracklog(home, "backup", inside)
    assert done.returncode == 2
    assert b"the copy was not made" in done.stderr
    next((home / "journal").glob("*.chain")).unlink()
    done = tracklog(home, "backup", tmp_path / "copy")
    assert done.returncode == 2
    assert b"the copy was not made" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "home"]


def checks(done):
    return {each["name"]: each for each in objects(done)}


def test_doctor_sees_a_missing_format_and_its_remedy_repairs_it(home):
    tracklog(home, "record", CONVERGES)
    (home / "format").unlink()
    ill = tracklog(home, "doctor", "--json")
    assert ill.returncode == 1
    remedy = checks(ill)["home"]["remedy"].replace("tracklog", f"{sys.executable} -m tracklog", 1)
    subprocess.run(remedy, shell=True, check=True, capture_output=True)
    assert tracklog(home, "doctor").returncode == 0


def test_doctor_sees_a_home_that_cannot_be_written(home, monkeypatch):
    """The answer of the operating system is given, since root may write anywhere."""
    tracklog(home, "record", CONVERGES)
    monkeypatch.setattr(os, "access", lambda path, _: path.name != "journal")
    (seen,) = [check for check in doctor(home, time.time()) if check.name == "permissions"]
    assert seen.state == "error"
    assert seen.message == f"{home / 'journal'} cannot be read and written by you"
    assert seen.remedy == f"chmod -R u+rwX {home}"


def test_follow_goes_on_where_something_cannot_be_read(home, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    os.mkfifo(runs / "pipe.jsonl")  # opening it would wait for a writer
    (runs / "folder.jsonl").mkdir()
    (runs / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    odd = os.path.join(os.fsencode(runs), b"caf\xe9.jsonl")  # noqa: PTH118  # bytes
    for name in (runs / "good.jsonl", odd):
        with open(name, "wb") as file:  # noqa: PTH123  # bytes
            file.write(kahn(1) + b"\n")
    done = tracklog(home, "follow", "--once", "--json", runs, timeout=30)
    assert done.returncode == 0, done.stderr
    assert [each["accepted"] for each in objects(done)] == [1, 1]
    again = tracklog(home, "follow", "--once", runs)
    assert again.stderr == b"0 accepted, 0 duplicate, 0 refused\n"
    named = tracklog(home, "follow", "--once", runs / "pipe.jsonl", timeout=30)
    assert named.returncode == 2
    assert b"cannot be read: it is no regular file" in named.stderr


def test_follow_shows_the_line_of_the_file_every_problem_and_its_hint(home, tmp_path):
    runs = tmp_path / "runs.jsonl"
    runs.write_bytes(kahn(1) + b"\n" + kahn(2) + b"\n")
    tracklog(home, "follow", "--once", runs)
    bad = orjson.loads(kahn(3)) | {"step": -1, "ok": "yes"}
    with runs.open("ab") as file:
        file.write(b"\n" + orjson.dumps(bad) + b"\n")
    done = tracklog(home, "follow", "--once", runs)
    assert done.returncode == 1
    first, *reasons = done.stderr.decode().splitlines()
    assert first == f"{runs}, line 4 refused"
    assert [line.split()[0] for line in reasons if line.startswith("  /")] == ["/ok", "/step"]


def test_follow_does_not_listen_to_itself(home, tmp_path):
    (tmp_path / "runs.jsonl").write_bytes(kahn(1) + b"\nnope\n")
    for _ in range(3):
        done = tracklog(home, "follow", "--once", "--json", tmp_path)
        assert {each["file"] for each in objects(done)} <= {str(tmp_path / "runs.jsonl")}
    assert tracklog(home, "follow", "--once", home).stdout == b""


def test_an_unknown_dialect_is_reported_before_anything_is_read(home, tmp_path):
    tracklog(home, "record", CONVERGES)
    for verb in (["record", CONVERGES], ["follow", "--once", tmp_path], ["tail"]):
        done = tracklog(home, *verb, "--dialect", "kahn-agnt")
        assert done.returncode == 2
        assert b"the dialects are: " in done.stderr


@pytest.mark.parametrize("verb", [["follow", "--once"], ["verify"], ["host", "fishbowl", "play"]])
def test_a_path_that_is_not_there_is_reported_with_what_to_do(tmp_path, verb):
    done = tracklog(tmp_path / "home", *verb, tmp_path / "nope")
    assert done.returncode == 2
    assert b"does not exist" in done.stderr
    assert b"name one that exists" in done.stderr
    assert b"Usage:" not in done.stderr


def test_a_folder_that_was_left_out_is_named(home):
    done = tracklog(home, "restore", "archive")
    assert (done.returncode, b"error: missing argument 'TARGET'" in done.stderr) == (2, True)


def test_an_input_without_lines_is_reported(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    done = tracklog(tmp_path / "home", "record", tmp_path / "empty.jsonl")
    assert done.returncode == 0
    assert b"no line was read" in done.stderr


@pytest.mark.parametrize("shape", ["pipe", "folder"])
@pytest.mark.parametrize(
    "verb", ["record", "import", "runs", "verify", "doctor", "serve", "backup", "tail"]
)
def test_nothing_waits_for_a_format_that_is_no_file(home, tmp_path, verb, shape):
    """A pipe would be read until somebody writes to it."""
    line, format = tmp_path / "line.jsonl", home / "format"
    line.write_bytes(kahn() + b"\n")
    assert tracklog(home, "record", line).returncode == 0
    format.unlink()
    os.mkfifo(format) if shape == "pipe" else format.mkdir()
    words = {"serve": ["--port", "0"], "backup": [tmp_path / "copy"]}
    words |= {"record": [line], "import": [line]}
    done = tracklog(home, verb, *words.get(verb, ()))
    assert done.returncode == (1 if verb == "doctor" else 2)
    assert b"no regular file" in done.stdout + done.stderr
    assert b"Traceback" not in done.stderr


def test_mark_records_with_the_users_name_and_changes_nothing_else(home):
    tracklog(home, "record", given=CONVERGES.read_bytes())
    before = tracklog(home, "runs", "--json").stdout
    done = tracklog(
        home, "mark", "agent-coder-1", "--tag", "flaky", "--tag", "slow", "--score", "0.5",
        "--note", "the disk was full", "--seen", "--by", "ann",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"recorded on agent-coder-1\n"), done.stderr
    rows = objects(tracklog(home, "marks", "--json"))
    assert [row["tag"] for row in rows] == [None, None, None, "slow", "flaky"]
    assert {row["claimed_by"] for row in rows} == {"ann"}
    assert {row["by"] for row in rows} == {rows[0]["by"]} - {"ann", None}
    [after] = objects(tracklog(home, "runs", "--json", "--tag", "slow", "--score", "0..1"))
    marks = after.pop("marks")
    assert (marks["tags"], marks["score"], marks["notes"], marks["seen"]) == (
        ["flaky", "slow"], 0.5, 1, True,
    )  # fmt: skip
    ages = {"silent_seconds", "age_seconds", "marks"}
    first = orjson.loads(before)
    assert {name: after[name] for name in after.keys() - ages} == {
        name: first[name] for name in first.keys() - ages
    }
    done = tracklog(home, "mark", "agent-coder-1", "--untag", "slow", "--unseen", "--json")
    assert len(objects(done)) == 2
    [run] = objects(tracklog(home, "runs", "--json", "--seen", "no"))
    assert (run["marks"]["tags"], run["marks"]["seen"]) == (["flaky"], False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["agent-coder-1"],
        ["agent-coder-1", "--score", "nan"],
        ["nobody", "--tag", "x"],
        ["agent-coder-1", "--untag", "x"],
        ["agent-coder-1", "--record", "99", "--tag", "x"],
        ["agent-coder-1", "--tag", "x", "--withdraw", "none"],
    ],
)
def test_mark_refuses_what_is_not_there_and_records_nothing(home, arguments):
    tracklog(home, "record", given=CONVERGES.read_bytes())
    done = tracklog(home, "mark", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr
    assert objects(tracklog(home, "marks", "--json", "--withdrawn")) == []


def test_a_checkpoint_is_signed_and_verify_compares_the_journal_with_it(home, tmp_path):
    tracklog(home, "record", given=CONVERGES.read_bytes())
    noted = tmp_path / "checkpoint"
    made = tracklog(home, "checkpoint", "--out", noted, "--origin", "example.com/j")
    assert made.returncode == 0, made.stderr
    signed, key = made.stdout.decode().splitlines()
    assert signed == f"{noted}: 9 records signed"  # with the note of who signed it
    printed = tracklog(home, "checkpoint")
    assert (printed.stdout, printed.stderr.decode()) == (noted.read_bytes(), f"{key}\n")
    key = key.removeprefix("key ")
    done = tracklog(home, "verify", "--checkpoint", noted, "--key", key)
    assert done.returncode == 0
    assert done.stdout.decode().endswith(
        "the journal continues the checkpoint of 9 records of example.com/j\n"
        "signed by example.com/j\n"
    )
    other = key.replace("example.com/j", "example.com/k")
    for arguments, word in {
        ("--checkpoint", noted, "--key", other): b"is no key",
        ("--checkpoint", CONVERGES): b"this is no signed note",
        ("--checkpoint", tmp_path / "missing"): b"missing",
        ("--key", key): b"--key for a checkpoint",
    }.items():
        wrong = tracklog(home, "verify", *arguments)
        assert wrong.returncode == 2, arguments
        assert word in wrong.stderr
    noted.write_text(noted.read_text().replace("\n9\n", "\n8\n"))
    assert tracklog(home, "verify", "--checkpoint", noted).returncode == 1
    shutil.rmtree(home / "journal")
    tracklog(home, "record", given=b"".join(reversed(CONVERGES.read_bytes().splitlines(True))))
    noted.write_bytes(printed.stdout)
    forged = tracklog(home, "verify", "--checkpoint", noted, "--json")
    report = orjson.loads(forged.stdout)
    assert (forged.returncode, report["checkpoint"]["extended"]) == (1, False)
    assert tracklog(home, "checkpoint").returncode == 1
