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
