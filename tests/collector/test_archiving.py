"""A collector that archives: the record comes back when its machine is lost."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from promises.command import Serving
from support import fleets
from support.forking import tracklog as forked
from support.rights import modes_bind
from support.waiting import eventually
from tracklog.home.home import Home
from tracklog.journal.archive.objects import FolderObjects
from tracklog.journal.archive.reader import ArchiveReader
from tracklog.journal.archive.shipping import NAME, Archiver
from tracklog.journal.archive.shipping import archive as archive_record
from tracklog.journal.archive.verify import verify_archive
from tracklog.journal.backup import restore


def tracklog(*arguments: object, code: int = 0) -> str:
    done = forked(None, *arguments, timeout=600)
    assert done.returncode == code, done.stderr
    return (done.stdout + done.stderr).decode()


def test_what_was_acknowledged_comes_back_from_the_archive(tmp_path):
    home, archive = tmp_path / "home", tmp_path / "archive"
    command = [sys.executable, "-m", "tracklog", "serve", "--home", home, "--port", "0"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRACKLOG")}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--archive", archive],
            stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
        )  # fmt: skip
    url = re.search(r"http://\S+", process.stdout.readline())[0]
    try:
        sent = 0
        for _ in range(4):
            body = b"\n".join(fleets._line(f"task{sent + n}", "run-1") for n in range(5))
            headers = {"Content-Type": "application/x-ndjson"}
            answer = httpx.post(
                f"{url}/api/events/kahn-agent", content=body, headers=headers, timeout=60
            )
            sent = answer.json()["last_seq"]
        assert eventually(
            lambda: (
                json.loads(tracklog("status", "--home", home, "--json"))["archive"] is not None
                and json.loads(tracklog("status", "--home", home, "--json"))["archive"]["through"]
                == 21  # one says who archives
            )
        )
        metrics = "tracklog_archive_behind 0\n"
        assert eventually(lambda: metrics in httpx.get(f"{url}/metrics", timeout=60).text)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    state = json.loads(tracklog("status", "--home", home, "--json"))["archive"]
    assert (state["place"], state["through"], state["behind"]) == (str(archive), 21, 0)
    said = tracklog("archive", archive, "--home", home, "--behind", "--json")
    head = json.loads(said)["head"]
    assert json.loads(said)["behind"] == 0
    shutil.rmtree(home)
    assert "21 records: proven" in tracklog("verify", archive, "--anchor", head)
    assert f"proven, head {head}" in tracklog("restore", archive, home)
    rows = json.loads(tracklog("runs", "--home", home, "--json").splitlines()[0])
    assert rows["run"] == "run-1"
    assert "0 not archived yet" in tracklog("archive", archive, "--home", home)


@pytest.mark.long
def test_a_machine_that_is_lost_under_load_misses_ten_seconds_at_most(tmp_path):
    home, archive = tmp_path / "home", tmp_path / "archive"
    said: list[tuple[float, int]] = []  # when each batch was acknowledged, and its last record
    with Serving(home, "--archive", archive) as server:
        until = time.monotonic() + 15
        while time.monotonic() < until:
            body = b"\n".join(fleets._line(f"task{len(said)}.{n}", "run-1") for n in range(5))
            answer = httpx.post(
                f"{server.url}/api/events/kahn-agent",
                content=body,
                headers={"Content-Type": "application/x-ndjson"},
                timeout=60,
            )
            said.append((time.monotonic(), answer.json()["last_seq"]))
            time.sleep(0.05)
        server.stop(signal.SIGKILL)
        lost_at = time.monotonic()
    state = json.loads(tracklog("status", "--home", home, "--json"))
    assert state["last"] == said[-1][1]
    shutil.rmtree(home)
    tracklog("restore", archive, home)
    restored = json.loads(tracklog("status", "--home", home, "--json"))
    assert state["archive"]["behind"] >= state["last"] - restored["last"]  # it was told
    missing = [at for at, seq in said if seq > restored["last"]]
    assert all(at > lost_at - 10 for at in missing), lost_at - missing[0]
    assert restored["last"] > 0
    assert restored["archive"] is None  # a new home has not been archived


def test_status_says_how_much_is_not_archived(tmp_path):
    home, archive = tmp_path / "home", tmp_path / "archive"
    (tmp_path / "lines").write_bytes(fleets._line("one", "run-1"))
    tracklog("record", tmp_path / "lines", "--home", home)
    assert "archive: none" in tracklog("status", "--home", home)
    tracklog("archive", archive, "--home", home)
    before = json.loads(tracklog("status", "--home", home, "--json"))
    (tmp_path / "more").write_bytes(b"\n".join(fleets._line(f"{n}", "run-1") for n in range(3)))
    tracklog("record", tmp_path / "more", "--home", home)
    state = json.loads(tracklog("status", "--home", home, "--json"))
    assert state["last"] == before["last"] + 3
    assert state["archive"]["behind"] == before["archive"]["behind"] + 3
    text = tracklog("status", "--home", home)
    assert f"archive {archive}: {state['archive']['behind']} not archived yet" in text
    assert f"records 1 to {state['last']}" in text
    assert f"index: up to record 0, {state['last']} behind" in text
    (home / "archived.json").write_text("{")  # a note that is damaged is none
    assert "archive: none" in tracklog("status", "--home", home)


def test_a_changed_archive_is_not_intact_and_an_empty_one_is_none(tmp_path):
    line = tmp_path / "line.jsonl"
    line.write_bytes(fleets._line("task", "run-1") + b"\n")
    home, archive = tmp_path / "home", tmp_path / "archive"
    tracklog("record", line, "--home", home)
    assert "2 records archived" in tracklog("archive", archive, "--home", home)
    (data,) = Path(archive / "v1").glob("*.zst")
    packed = data.read_bytes()
    data.write_bytes(packed[:-3])
    said = tracklog("verify", archive, code=1)
    assert "record 2: records 2 to 2 cannot be read: v1/0000000001.jsonl.zst" in said
    assert "NOT intact" in said
    (tmp_path / "nothing").mkdir()
    assert "there is no archive" in tracklog("verify", tmp_path / "nothing", code=2)
    assert "there is no archive" in tracklog(
        "restore", tmp_path / "nothing", tmp_path / "x", code=2
    )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("kind", ["jsonl.zst", "chain"])
@pytest.mark.parametrize("how", ["missing", "cut", "garbage"])
def test_damage_of_an_archive_is_named_by_every_command_that_relies_on_it(tmp_path, kind, how):
    home, archive = tmp_path / "home", tmp_path / "archive"
    with Home(home, clock=lambda: 1_700_000_000.0, segment_size=100) as old:
        for number in range(4):
            old.intake.admit([fleets._line(f"t{number}", f"run-{number}")], "kahn-agent")
            Archiver(old.storage, FolderObjects(archive)).ship()
    path = archive / "v1" / f"0000000002.{kind}"
    content = path.read_bytes()
    path.unlink()
    if how != "missing":
        path.write_bytes(content[:-5] if how == "cut" else b"#" * len(content))
    prune = ("prune", "--home", home, "--older-than", "7d", "--open-too", "--archive", archive)
    wanted = {
        ("verify", archive): "record 2: ",
        ("verify", archive, "--json"): '"seq":2',
        (*prune, "--dry-run"): "nothing was deleted",
        prune: "nothing was deleted",
        ("restore", archive, tmp_path / "restored"): "",
    }
    if kind == "chain" or how != "garbage":  # of the same size
        wanted["archive", archive, "--home", home] = ""
        wanted["archive", archive, "--home", home, "--behind"] = ""
    before = files(home)
    for command, words in wanted.items():
        said = tracklog(*command, code=1)
        assert words in said
        assert "0000000002" in said or (kind, how) == ("chain", "missing")
        assert "Traceback" not in said
    assert files(home) == before
    path.write_bytes(content)
    for command in wanted:
        tracklog(*command)


def files(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (home / "journal").iterdir()}


def test_a_dry_run_says_what_would_be_archived_first(tmp_path):
    home, archive = tmp_path / "home", tmp_path / "archive"
    with Home(home, clock=lambda: 1_700_000_000.0, segment_size=100) as old:
        for number in range(3):
            old.intake.admit([fleets._line(f"t{number}", "run-1")], "kahn-agent")
    prune = ("prune", "--home", home, "--older-than", "7d", "--open-too", "--archive", archive)
    said = tracklog(*prune, "--dry-run")
    assert "3 records would be archived first" in said
    assert "3 records would be deleted" in said
    assert not archive.exists()
    said = tracklog(*prune, "--archive-too")
    assert "3 records deleted from the archive" in said
    assert "proven" in tracklog("verify", archive)
    assert "needs --archive" in tracklog(*prune[:-2], "--archive-too", code=2)


@pytest.mark.parametrize("leased", [True, False])
def test_a_home_that_cannot_be_written_is_archived_unless_a_collector_does(tmp_path, leased):
    home, archive = tmp_path / "home", tmp_path / "archive"
    with Home(home) as opened:
        opened.intake.admit([fleets._line("one", "run-1")], "kahn-agent")
        if leased:  # as a collector that archived leaves it
            opened.storage.leases().close()
    if leased:  # by a process that may write there
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLDS, home / "hosts" / "leases"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert holder.stdout.read(1) == b"x"
        (home / "hosts" / "leases").chmod(0o400)
    for folder in (home, *(each for each in home.rglob("*") if each.is_dir())):
        folder.chmod(0o500)
    with modes_bind(), Home(home, readonly=True) as reading:
        assert not (home / "hosts").exists() or leased
        if leased:
            assert not reading.storage.leases().take(NAME)
            holder.communicate()
        with reading.storage.leases() as leases:
            assert leases.take(NAME)
        assert archive_record(reading.storage, str(archive))[1] == 1
    assert verify_archive(FolderObjects(archive)).verdict == "proven"
    for folder in (home, *(each for each in home.rglob("*") if each.is_dir())):
        folder.chmod(0o700)


_HOLDS = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(file, fcntl.LOCK_EX)
print("x", flush=True)
sys.stdin.read()
"""


def test_a_collector_goes_on_archiving_and_logs_what_is_lost(tmp_path):
    home, archive = tmp_path / "home", tmp_path / "archive"
    with Home(home) as opened:
        opened.intake.admit([fleets._line("one", "run-1")], "kahn-agent")
        Archiver(opened.storage, FolderObjects(archive)).ship()
        (archive / "v1" / "0000000001.jsonl.zst").unlink()
        opened.intake.admit([fleets._line("two", "run-1")], "kahn-agent")
    with Serving(home, "--archive", archive) as server:
        assert eventually(lambda: "tracklog_archive_behind 0\n" in server.get("/metrics").text)
        assert eventually(
            lambda: any("0000000001.jsonl.zst is missing" in each for each in server.said)
        )


def test_old_records_are_deleted_only_when_the_archive_has_them(tmp_path):
    home, archive = tmp_path / "home", tmp_path / "archive"
    with Home(home, clock=lambda: 1_700_000_000.0, segment_size=100) as old:
        old.intake.admit([fleets._line("old", "run-1")], "kahn-agent")
        old.intake.admit([fleets._line("older", "run-2")], "kahn-agent")
    with Home(home, segment_size=100) as new:
        new.intake.admit([fleets._line("new", "run-3")], "kahn-agent")
    prune = ("prune", "--home", home, "--older-than", "7d", "--open-too", "--archive", archive)
    (tmp_path / "other").mkdir()
    with Home(tmp_path / "other" / "home") as other:
        other.intake.admit([fleets._line("other", "run-9")], "kahn-agent")
        Archiver(other.storage, FolderObjects(archive)).ship()
    assert "another journal" in tracklog(*prune, code=2)  # nothing is deleted
    shutil.rmtree(archive)
    assert "2 records deleted" in tracklog(*prune)
    with Home(home, readonly=True) as pruned:
        assert pruned.store.first > 1
    reader = ArchiveReader(FolderObjects(archive))
    assert (reader.first, reader.last) == (1, 3)
    assert "proven" in tracklog("verify", archive)
    assert "archived" in tracklog("archive", archive, "--home", home)  # it goes on behind that
    assert restore(ArchiveReader(FolderObjects(archive)), tmp_path / "restored").through > 3
