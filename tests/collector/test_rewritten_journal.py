"""A journal that was rewritten is not signed, and what was published before stays published."""

import os
import shutil
import socket
import sqlite3
from contextlib import closing
from subprocess import PIPE

import pytest

from support.attacking import grown
from support.collecting import Collector, tool
from support.forking import Tracklog, tracklog
from support.waiting import eventually
from tracklog.collector.alerts.tables import TABLES
from tracklog.home.home import Home
from tracklog.journal.checkpoints import rechecking
from tracklog.journal.checkpoints.checkpoint import Checkpoints
from tracklog.journal.checkpoints.trees import FILE
from tracklog.journal.frame import run_of
from tracklog.journal.storages.file import FileStorage
from tracklog.journal.storages.memory import MemoryStorage
from tracklog.journal.stores import Group
from tracklog.model.errors import NotExtended

RECORDS = 9


@pytest.fixture
def home(tmp_path):
    """A home with a checkpoint that was stored elsewhere."""
    home = tmp_path / "home"
    tracklog(home, "record", given=b"".join(tool("a", step=n) + b"\n" for n in range(RECORDS)))
    assert tracklog(home, "checkpoint", "--out", tmp_path / "stored").returncode == 0
    return home


def rewrite(home, scratch):
    """Change the third record and make the chain fit; the hash tree is left alone."""
    with Home(home, readonly=True) as opened:
        frames = opened.store.read(0, 999)
    frames[2] = frames[2].replace(b'"step"', b'"stop"') if b'"step"' in frames[2] else frames[2]
    frames[2] = frames[2].replace(b'"run":"a"', b'"run":"b"')
    other = FileStorage(scratch)
    for frame in frames:
        other.store.append(lambda _, frame=frame: Group([frame], [(run_of(frame), 1)], {}))
    other.close()
    shutil.rmtree(home / "journal")
    shutil.copytree(scratch / "journal", home / "journal")


def test_a_journal_that_was_rewritten_is_not_signed(home, tmp_path):
    rewrite(home, tmp_path / "scratch")
    assert tracklog(home, "verify").returncode == 0  # its own chain fits
    stored = (tmp_path / "stored").read_bytes()
    done = tracklog(home, "checkpoint", "--out", tmp_path / "stored")
    assert done.returncode == 1
    assert b"record 3 is not the one that was signed" in done.stderr
    assert (tmp_path / "stored").read_bytes() == stored
    assert b"not-signed" in tracklog(home, "export", "jsonl", "alerts").stdout
    with Home(home) as opened:
        (row,) = TABLES["checkpoints"].rows(opened, None, 0)
    assert row.values["refused"] is True


def test_a_witness_is_not_asked_to_sign_a_journal_that_was_rewritten_meanwhile(home, tmp_path):
    folder, noted = tmp_path / "witness", tmp_path / "noted"
    key = tracklog(home, "checkpoint", "--out", tmp_path / "stored").stdout.decode().split()[-1]
    assert tracklog(None, "witness", "trust", key, "--folder", folder).returncode == 0
    with Tracklog(
        *("witness", "serve", "--folder", folder, "--port", 0), stdout=PIPE, text=True
    ) as process:
        try:
            url = process.stdout.readline().split()[-1]
            options = ("--witness", url, "--publish", str(noted), "--checkpoint-every", "0.1")
            served = Collector(home, *options)
            assert eventually(noted.exists)
            before = noted.read_bytes()
            (segment,) = (home / "journal").glob("*.jsonl")
            content = segment.read_bytes()
            with segment.open("r+b") as file:  # in place, with the same size and time
                file.seek(content.index(b'"run":"a"', content.index(b'"seq":3,')))
                file.write(b'"run":"b"')
            times = segment.stat()
            os.utime(segment, ns=(times.st_atime_ns, times.st_mtime_ns - 10**9))
            assert eventually(
                lambda: b"not-signed" in tracklog(home, "export", "jsonl", "alerts").stdout
            )
            served.post([tool("a", step=99)])
            served.stop()
            assert noted.read_bytes() == before
        finally:
            process.terminate()
            process.communicate(timeout=30)


def test_a_segment_that_was_removed_is_noticed(tmp_path):
    storage = FileStorage(tmp_path, segment_size=500)
    grown(storage, 40)
    with Checkpoints(storage) as checkpoints:
        checkpoints.make()
        checkpoints.make()  # from here on it knows the files
        middle = sorted((tmp_path / "journal").glob("*.jsonl"))[3]
        middle.unlink()
        with pytest.raises(NotExtended, match="it is gone"):
            checkpoints.make()
    storage.close()


def test_segments_that_are_the_same_files_are_not_read_again(tmp_path, monkeypatch):
    storage = FileStorage(tmp_path, segment_size=2000)
    grown(storage, 200)
    compared = []
    real = rechecking._compare_record
    monkeypatch.setattr(
        rechecking,
        "_compare_record",
        lambda trees, seq, frame: compared.append(real(trees, seq, frame)),
    )
    monkeypatch.setattr(rechecking, "AGAIN", 0)
    monkeypatch.setattr(rechecking, "_SHARE", 0)
    with Checkpoints(storage) as checkpoints:
        checkpoints.make()
        assert not compared  # they are hashed for the first time
        checkpoints.make()
        assert len(compared) == 200
        grown(storage, 3, 201)
        checkpoints.make()
        assert len(compared) == 200
        grown(storage, 3, 204)
        checkpoints.make()
        assert len(compared) == 203  # what the last checkpoint added
    for path in (tmp_path / "journal").glob("*.jsonl"):
        path.touch()
    with Checkpoints(storage) as checkpoints:
        checkpoints.make()  # as after a restore: their bytes are hashed, and are the same
    assert len(compared) == 206
    storage.close()


def test_a_change_that_the_rows_of_the_tree_file_hide_is_noticed_in_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(rechecking, "AGAIN", 10)
    storage = FileStorage(tmp_path)
    grown(storage, 40)
    with Checkpoints(storage) as checkpoints:
        checkpoints.make()
        checkpoints.make()
    (segment,) = (tmp_path / "journal").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'{"n":33}', b'{"n":34}'))
    monkeypatch.setattr(rechecking, "_check_files", lambda *_, **__: None)
    refused = []
    for _ in range(5):
        with Checkpoints(storage) as checkpoints:
            try:
                checkpoints.make()
            except NotExtended as error:
                refused.append(error.message)
    assert set(refused) == {"record 33 is not the one that was signed"}
    storage.close()


def test_a_journal_without_files_is_compared_in_turn():
    storage = MemoryStorage()
    grown(storage, 20)
    with Checkpoints(storage) as checkpoints:
        checkpoints.make()
        frames = storage.store._frames
        frames[4] = frames[4].replace(b'{"n":', b'{"m":')
    with Checkpoints(storage) as checkpoints, pytest.raises(NotExtended, match="record 5"):
        checkpoints.make()
    storage.close()


def test_hashes_that_do_not_lead_to_the_root_are_noticed(tmp_path):
    storage = FileStorage(tmp_path)
    grown(storage, 600)
    with Checkpoints(storage) as checkpoints:
        checkpoints.make()
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        where = "FROM tiles WHERE tree = 0 AND level = 0 AND number = 0"
        ((hashes,),) = database.execute(f"SELECT hashes {where}")
        database.execute(
            "UPDATE tiles SET hashes = ? WHERE tree = 0 AND level = 0 AND number = 0",
            (bytes(32) + hashes[32:],),
        )
    with Checkpoints(storage) as checkpoints, pytest.raises(NotExtended):
        checkpoints.make()
    storage.close()


def test_a_missing_signature_of_a_witness_is_a_failed_check(home, tmp_path):
    folder = tmp_path / "witness"
    own = tracklog(home, "checkpoint", "--out", tmp_path / "stored").stdout.decode().split()[-1]
    assert tracklog(None, "witness", "trust", own, "--folder", folder).returncode == 0
    status = tracklog(None, "witness", "status", "--folder", folder).stdout.decode()
    key = status.split()[1]
    done = tracklog(home, "verify", "--checkpoint", tmp_path / "stored", "--key", key)
    assert done.returncode == 1
    assert b"is not signed by tracklog-witness/" in done.stderr
    (tmp_path / "none").write_text("hello\n")
    done = tracklog(home, "verify", "--checkpoint", tmp_path / "none", "--key", key)
    assert done.returncode == 2


@pytest.mark.parametrize("lost", ["journal", "everything"])
def test_a_published_checkpoint_is_replaced_only_by_what_continues_it(home, tmp_path, lost):
    noted = tmp_path / "noted"
    assert tracklog(home, "checkpoint", "--publish", noted).returncode == 0
    before = noted.read_bytes()
    shutil.rmtree(home / "journal" if lost == "journal" else home)
    (home / FILE).unlink(missing_ok=True)
    tracklog(home, "record", given=b"".join(tool("b", step=n) + b"\n" for n in range(20)))
    out = tmp_path / "out"
    done = tracklog(home, "checkpoint", "--publish", noted, "--out", out)
    assert done.returncode == 1, done.stderr
    assert b"was not replaced" in done.stderr
    assert noted.read_bytes() == before
    assert not out.exists()
    served = Collector(home, "--publish", str(noted), "--checkpoint-every", "0.1")
    assert eventually(lambda: b"refused" in tracklog(home, "export", "jsonl", "alerts").stdout)
    served.stop()
    assert noted.read_bytes() == before


def test_a_collector_that_cannot_start_publishes_nothing(home, tmp_path):
    noted = tmp_path / "noted"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = tracklog(
            *(home, "serve", "--port", 0, "--grpc", port),
            *("--publish", noted, "--checkpoint-every", "0.1"),
        )
    assert done.returncode
    assert not noted.exists()
