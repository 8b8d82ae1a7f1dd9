"""A PostgreSQL server of our own: started, killed, started again, and gone with its process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from support import servers
from support.waiting import eventually
from tracklog.cli import _local_postgres as local


def one(url: str, ask: str):
    with psycopg.connect(url) as connection:
        return connection.execute(ask).fetchone()[0]


def test_a_server_is_found_or_comes_from_the_wheel(monkeypatch):
    assert (local.programs() / "initdb").exists()
    monkeypatch.setattr(local, "_FOLDERS", ())
    monkeypatch.setenv("PATH", "/nowhere")
    assert local.programs() == local.of_wheel()


@pytest.mark.parametrize("which", ["machine", "wheel"])
def test_it_starts_again_after_a_crash_with_what_was_committed(which):
    server = servers.new_server(servers.wheel_programs() if which == "wheel" else None)
    try:
        server.make()
        server.start()
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE numbers AS SELECT 7 AS n")
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            one(server.url, "SELECT 1")
        server.start()
        assert one(server.url, "SELECT n FROM numbers") == 7
        assert one(server.url, "SELECT inet_server_addr()::text").startswith("127.0.0.1")
    finally:
        server.remove()
    assert not server.folder.exists()


def test_it_ends_with_the_process_that_started_it():
    folder = servers.folder()
    script = (
        "import sys, time; from pathlib import Path; from tracklog.cli import _local_postgres as l;"
        "s = l.LocalPostgres(Path(sys.argv[1])); s.make(); s.start(); print(s.pid, flush=True);"
        "time.sleep(600)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, folder], stdout=subprocess.PIPE, text=True
    )
    try:
        pid = int(child.stdout.readline())
        os.kill(pid, 0)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert eventually(lambda: _is_dead(pid))
    shutil.rmtree(folder)


def _is_dead(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")  # a container without an init may not reap it
    return stat.exists() and stat.read_text().split()[2] == "Z"


def test_there_is_one_answer_where_no_server_is(monkeypatch):
    monkeypatch.setattr(local, "_FOLDERS", ())
    monkeypatch.setattr(local, "of_wheel", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(local.TracklogError, match="no PostgreSQL server") as error:
        local.programs()
    assert "pip install" in error.value.hint
