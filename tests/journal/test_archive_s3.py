"""An archive in object storage: the same as in a folder, over the protocol of S3."""

import signal
import subprocess
import sys
from pathlib import Path

import boto3
import orjson
import pytest
from moto.server import ThreadedMotoServer

from support.forking import tracklog
from support.servers import store_url
from tracklog.home.home import Home
from tracklog.journal.archive.objects import FolderObjects, Objects, open_objects
from tracklog.journal.archive.reader import ArchiveReader
from tracklog.journal.archive.shipping import Archiver
from tracklog.journal.archive.verify import verify_archive
from tracklog.journal.backup import restore
from tracklog.journal.comparing import verify_store
from tracklog.model.errors import NoSuchObject, StoreBroken
from tracklog.testing import Clock


def line(number: int, **more: object) -> bytes:
    origin = {"writer": "test", "fidelity": "observed"}
    native = {"id": f"{number:032x}", "run": "r1", "at": "2026-05-05T09:00:00Z", "fact": "Noted"}
    return orjson.dumps({**native, "label": "n", "data": {"n": number, **more}, "origin": origin})


@pytest.fixture(scope="module")
def service():
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(service, monkeypatch, tmp_path) -> str:
    known = {
        "AWS_ENDPOINT_URL": service, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    name = f"b-{abs(hash(str(tmp_path)))}"
    boto3.client("s3").create_bucket(Bucket=name)
    return f"s3://{name}/some/prefix"


@pytest.fixture(params=["folder", "s3"])
def objects(request, tmp_path) -> Objects:
    if request.param == "folder":
        return FolderObjects(tmp_path / "archive")
    return open_objects(request.getfixturevalue("bucket"))


def test_objects_are_there_completely_and_created_once(objects):
    assert (objects.sizes("v1"), objects.has("v1/a")) == ({}, False)
    with pytest.raises(NoSuchObject):
        objects.get("v1/a")
    objects.put("v1/b", b"old")
    objects.put("v1/b", b"new")
    assert objects.create("v1/a", b"one")
    assert not objects.create("v1/a", b"other")
    objects.put("v1/blobs/c", b"")
    assert (objects.get("v1/a"), objects.get("v1/b"), objects.get("v1/blobs/c")) == (
        b"one", b"new", b"",
    )  # fmt: skip
    assert objects.sizes("v1") == {"a": 3, "b": 3}
    assert list(objects.sizes("v1")) == ["a", "b"]
    assert objects.sizes("v1/blobs") == {"c": 0}
    assert objects.has("v1/a")
    for _ in range(2):
        objects.delete("v1/a")
        assert not objects.has("v1/a")


def test_a_record_is_shipped_verified_erased_and_restored(bucket, tmp_path):
    objects = open_objects(bucket)
    with Home(tmp_path / "home", clock=Clock()) as home:
        archiver = Archiver(home.storage, objects)
        for number in range(6):
            home.intake.admit([line(number)])
            if number % 2:
                archiver.ship()
        home.erase("r1", 2, reason="asked for", by="op")
        archiver.ship()
        head = home.store.head()
        assert archiver.head == head
    reader = ArchiveReader(open_objects(bucket))
    report = verify_archive(reader.objects, head)
    assert report == verify_store(reader, head)
    assert (report.verdict, report.erased) == ("proven", [2])
    assert b'"n":1}' not in b"".join(reader.stored_frames(1))
    assert restore(reader, tmp_path / "restored") == head
    command = [sys.executable, "-m", "tracklog", "verify", bucket]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "proven" in done.stdout


_SHIPS = """
import sys
sys.path.insert(0, sys.argv[1])
from tracklog.home import registry
from tracklog.journal.archive.s3 import S3Objects
from tracklog.journal.archive.shipping import Archiver
from test_archive import Dying
class Mortal(Dying, S3Objects): pass
objects = Mortal(sys.argv[3])
objects.left, objects.after = int(sys.argv[4]), True
Archiver(registry.storage(sys.argv[2], readonly=True), objects).ship()
"""


KILLED = (0, 0, 1, 2, 0)
"""Changes that each attempt makes before the last one, after which it is killed."""


def test_an_archiver_from_postgresql_to_s3_that_is_killed_at_any_step_is_continued(
    bucket, tmp_path, tally, monkeypatch
):
    """Each attempt finds what the one before it left."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    url, here = store_url(tmp_path), str(Path(__file__).parent)
    with Home(url, clock=Clock()) as home:
        home.intake.admit([line(0)])
        home.intake.admit([line(1)])
        Archiver(home.storage, open_objects(bucket)).ship()
        blob = home.blobs.put(b"large" * 1000)
        home.intake.admit([line(n, value={"$blob": {"sha256": blob}}) for n in (2, 3)])
        home.erase("r1", 2, reason="asked for", by="op")
        # It dies after the large value, the records, the tombstones, the chain, and the erasure.
        for step in (*KILLED, 99):
            command = [sys.executable, "-c", _SHIPS, here, url, bucket, str(step)]
            code = subprocess.run(command, check=False, timeout=600).returncode
            assert code == (0 if step == 99 else -signal.SIGKILL)
            reader = ArchiveReader(open_objects(bucket))
            assert verify_archive(reader.objects).verdict == "proven"
            assert verify_store(home.store, reader.head()).ok
        assert reader.head() == home.store.head()
        assert b'"n":1}' not in b"".join(reader.stored_frames(1))
        tally.add(kills=len(KILLED))
        tally.done("archiver from PostgreSQL to S3 killed")


def test_a_bucket_that_is_not_there_is_an_error_that_says_what_to_check(bucket):
    objects = open_objects("s3://no-such-bucket-here/x")
    with pytest.raises(StoreBroken) as error:
        objects.put("v1/a", b"")
    assert "AWS_ENDPOINT_URL" in error.value.hint


_WITHOUT = """
import sys
sys.modules["obstore"] = None
from tracklog.journal.archive.objects import open_objects
try:
    open_objects("s3://bucket/x")
except Exception as error:
    print(error.hint)
"""


def test_without_the_extra_the_install_line_is_printed():
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=True
    )
    assert done.stdout == "pip install 'tracklog[s3]'\n"


def test_checkpoints_are_published_to_a_bucket(bucket, tmp_path):
    home, notes = tmp_path / "home", {}
    for lines, count in ((3, 4), (5, 7)):  # with a note of who signed, each time
        assert tracklog(home, "record", given=b"\n".join(map(line, range(lines)))).returncode == 0
        done = tracklog(home, "checkpoint", "--publish", bucket, "--out", tmp_path / "noted")
        assert done.returncode == 0, done.stderr
        notes[count] = (tmp_path / "noted").read_bytes()
    objects = open_objects(bucket)
    assert objects.get("checkpoint") == notes[7]
    assert {f"{count:020d}": len(note) for count, note in notes.items()} == objects.sizes(
        "checkpoints"
    )
    assert objects.get(f"checkpoints/{4:020d}") == notes[4]
    (tmp_path / "first").write_bytes(objects.get(f"checkpoints/{4:020d}"))
    assert tracklog(home, "verify", "--checkpoint", tmp_path / "first").returncode == 0
