"""A collector that archives: the record comes back when its machine is lost."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from support import fleets
from support.waiting import eventually
from tracklog.home.home import Home
from tracklog.journal.archive.objects import FolderObjects
from tracklog.journal.archive.reader import ArchiveReader
from tracklog.journal.archive.shipping import Archiver
from tracklog.journal.backup import restore


def tracklog(*arguments: object, code: int = 0) -> str:
    command = [sys.executable, "-m", "tracklog", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


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
        metrics = "tracklog_archive_behind 0\n"
        assert eventually(lambda: metrics in httpx.get(f"{url}/metrics", timeout=60).text)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    said = tracklog("archive", archive, "--home", home, "--behind", "--json")
    head = json.loads(said)["head"]
    assert json.loads(said)["behind"] == 0
    shutil.rmtree(home)
    assert "20 records: proven" in tracklog("verify", archive, "--anchor", head)
    assert f"proven, head {head}" in tracklog("restore", archive, home)
    rows = json.loads(tracklog("runs", "--home", home, "--json").splitlines()[0])
    assert rows["run"] == "run-1"
    assert "0 not archived yet" in tracklog("archive", archive, "--home", home)


def test_a_changed_archive_is_not_intact_and_an_empty_one_is_none(tmp_path):
    line = tmp_path / "line.jsonl"
    line.write_bytes(fleets._line("task", "run-1") + b"\n")
    home, archive = tmp_path / "home", tmp_path / "archive"
    tracklog("record", line, "--home", home)
    assert "1 record archived" in tracklog("archive", archive, "--home", home)
    (data,) = Path(archive / "v1").glob("*.zst")
    packed = data.read_bytes()
    data.write_bytes(packed[:-3])
    tracklog("verify", archive, code=1)
    (tmp_path / "nothing").mkdir()
    assert "there is no archive" in tracklog("verify", tmp_path / "nothing", code=2)
    assert "there is no archive" in tracklog(
        "restore", tmp_path / "nothing", tmp_path / "x", code=2
    )
    assert not (tmp_path / "x").exists()


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
    assert "dropped" in tracklog(*prune)
    with Home(home, readonly=True) as pruned:
        assert pruned.store.first > 1
    reader = ArchiveReader(FolderObjects(archive))
    assert (reader.first, reader.last) == (1, 3)
    assert "proven" in tracklog("verify", archive)
    assert "archived" in tracklog("archive", archive, "--home", home)  # it goes on behind that
    assert restore(ArchiveReader(FolderObjects(archive)), tmp_path / "restored").through > 3
