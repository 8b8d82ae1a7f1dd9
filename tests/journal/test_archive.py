"""An archive has every shipped record, verifies at any moment, and can be restored."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from support.servers import store_url
from tracklog.home.home import Home
from tracklog.journal.archive.objects import FolderObjects, Objects, open_objects
from tracklog.journal.archive.reader import ArchiveReader, name_of
from tracklog.journal.archive.shipping import Archiver
from tracklog.journal.backup import restore
from tracklog.journal.comparing import verify_store
from tracklog.journal.frame import record as parsed
from tracklog.journal.frame import seq_of
from tracklog.model.errors import BadBackup, BadFormat
from tracklog.testing import Clock


def line(number: int, run: str = "r1", **more) -> bytes:
    origin = {"writer": "test", "fidelity": "observed"}
    native = {"id": f"{number:032x}", "run": run, "at": "2026-05-05T09:00:00Z", "fact": "Noted"}
    return orjson.dumps({**native, "label": "n", "data": {"n": number, **more}, "origin": origin})


@pytest.fixture(params=["file", "memory", "postgresql"])
def home(request, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    place = {"file": f"file:{tmp_path / 'home'}", "memory": "memory:"}.get(request.param)
    with Home(
        place or store_url(tmp_path), clock=Clock(), durability="os", segment_size=500
    ) as made:
        yield made


@pytest.fixture
def objects(tmp_path) -> Objects:
    return FolderObjects(tmp_path / "archive")


def record(home: Home, numbers: range) -> None:
    for number in numbers:
        home.intake.admit([line(number, f"r{number % 3}")])


def check(objects: Objects, home: Home) -> None:
    """The archive is a proven beginning of the journal."""
    reader = ArchiveReader(objects)
    report = verify_store(reader)
    assert report.verdict == "proven", report.faults
    assert verify_store(home.store, reader.head()).ok  # its head is one of the journal's
    frames, after = [], 0
    while found := reader.read(after, 7):
        frames += found
        after = seq_of(found[-1])
    for frame in frames:
        (stored,) = home.store.read(seq_of(frame) - 1, 1)
        assert frame == stored or parsed(stored).erased  # an erasure that is not shipped yet


def test_what_was_shipped_is_proven_and_restored(home, objects, tmp_path):
    record(home, range(10))
    blob = home.blobs.put(b"large" * 1000)
    home.intake.admit([line(10, value={"$blob": {"sha256": blob, "bytes": 5000}})])
    archiver = Archiver(home.storage, objects)
    assert (archiver.behind(), archiver.ship(), archiver.behind()) == (11, 11, 0)
    record(home, range(11, 15))
    assert (archiver.behind(), archiver.ship(), archiver.ship()) == (4, 4, 0)
    check(objects, home)
    reader = ArchiveReader(objects)
    assert reader.head() == home.store.head()
    run, found = ("tracklog", "r1"), list[bytes]()
    while more := reader.read(seq_of(found[-1]) if found else 0, 100, run):
        found += more
    assert found == home.store.read(0, 100, run)
    head = restore(reader, tmp_path / "restored")
    assert head == home.store.head()
    with Home(tmp_path / "restored") as again:
        assert again.storage.verify(head).verdict == "proven"
        assert again.store.read(0, 100) == home.store.read(0, 100)
        assert again.blobs.get(blob) == b"large" * 1000
        assert again.intake.admit([line(3, "r0")])[0].verdict == "duplicate"


def test_an_erased_record_is_taken_out_of_the_archive(home, objects, tmp_path):
    record(home, range(6))
    archiver = Archiver(home.storage, objects)
    archiver.ship()
    home.erase("r1", 2, reason="asked for", by="op")
    home.erase("r2", 3, reason="asked for", by="op")
    archiver.ship()
    check(objects, home)
    assert verify_store(ArchiveReader(objects)).erased == [2, 3]
    text = b"".join(
        frame for number in (1, 2) for frame in ArchiveReader(objects).stored_frames(number)
    )
    assert b'"n":0' in text
    assert b'"n":1}' not in text
    assert restore(ArchiveReader(objects), tmp_path / "restored") == home.store.head()


def test_a_journal_that_was_pruned_is_archived_from_there_on(home, objects):
    record(home, range(6))
    half = home.journal.read(3, 1)[0].received
    done = home.store.prune(half, at=half)
    archiver = Archiver(home.storage, objects)
    archiver.ship()
    reader = ArchiveReader(objects)
    assert (reader.first, reader.last) == (done.through + 1, 6)
    check(objects, home)


def test_records_that_were_pruned_before_they_were_archived_are_named(home, objects):
    record(home, range(3))
    Archiver(home.storage, objects).ship()
    record(home, range(3, 9))
    late = home.journal.read(6, 1)[0].received
    done = home.store.prune(late, at=late)
    assert done.through > 3
    with pytest.raises(BadBackup, match="were pruned"):
        Archiver(home.storage, objects).ship()


def test_the_archive_of_another_journal_is_refused(objects, tmp_path):
    for name in ("one", "other"):
        with Home(tmp_path / name, clock=Clock()) as home:
            record(home, range(3) if name == "one" else range(10, 15))
            archiver = Archiver(home.storage, objects)
            if name == "other":
                with pytest.raises(BadBackup, match="another journal"):
                    archiver.ship()
            else:
                archiver.ship()


@pytest.mark.parametrize("kind", ["chain", "jsonl.zst"])
def test_a_changed_or_missing_object_is_found(objects, tmp_path, kind):
    with Home(tmp_path / "home", clock=Clock()) as home:
        archiver = Archiver(home.storage, objects)
        for part in range(3):
            record(home, range(part * 4, part * 4 + 4))
            archiver.ship()
    path = Path(objects.url) / name_of(2, kind)
    content = path.read_bytes()
    other = Path(objects.url) / name_of(3, kind)
    path.write_bytes(other.read_bytes())
    assert _faulty(objects)
    path.unlink()
    assert _faulty(objects)
    path.write_bytes(content)
    assert not _faulty(objects)


def _faulty(objects: Objects) -> bool:
    try:
        return not verify_store(ArchiveReader(objects)).ok
    except BadFormat:
        return True


class Mortal(FolderObjects):
    """Objects whose process is killed before or after its next change but so many."""

    left = 0
    after = False

    def put(self, name: str, content: bytes) -> None:
        self._dies(lambda: super(Mortal, self).put(name, content))

    def create(self, name: str, content: bytes) -> bool:
        return self._dies(lambda: super(Mortal, self).create(name, content))

    def _dies(self, does):
        self.left -= 1
        if self.left < 0 and not self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = does()
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


_SHIPS = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tracklog.journal.storages.file import FileStorage
from tracklog.journal.archive.shipping import Archiver
from test_archive import Mortal
storage = FileStorage(sys.argv[2], readonly=True)
objects = Mortal(Path(sys.argv[3]))
objects.left, objects.after = int(sys.argv[4]), sys.argv[5] == "after"
Archiver(storage, objects).ship()
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_archiver_that_is_killed_at_any_step_leaves_an_archive_that_verifies(
    tmp_path, moment, tally
):
    archive, kills, step = tmp_path / "archive", 0, 0
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with Home(tmp_path / "home", clock=Clock()) as home:
        record(home, range(6))
        Archiver(home.storage, FolderObjects(archive)).ship()
        blob = home.blobs.put(b"large" * 1000)
        home.intake.admit([line(50, value={"$blob": {"sha256": blob, "bytes": 5000}})])
        record(home, range(6, 9))
        home.erase("r1", 2, reason="asked for", by="op")
        shutil.copytree(archive, tmp_path / "before")
        while True:
            shutil.rmtree(archive)
            shutil.copytree(tmp_path / "before", archive)
            here = str(Path(__file__).parent)
            command = [
                sys.executable,
                "-c",
                _SHIPS,
                here,
                str(home.path),
                str(archive),
                str(step),
                moment,
            ]
            done = subprocess.run(command, env=environment, check=False, timeout=120)
            check(FolderObjects(archive), home)
            if done.returncode == 0:
                break
            assert done.returncode == -signal.SIGKILL
            kills, step = kills + 1, step + 1
            archiver = Archiver(home.storage, FolderObjects(archive))
            archiver.ship()
            check(FolderObjects(archive), home)
            assert archiver.head == home.store.head()
            assert b'"n":1}' not in b"".join(ArchiveReader(FolderObjects(archive)).stored_frames(1))
            assert (
                restore(ArchiveReader(FolderObjects(archive)), tmp_path / f"{step}")
                == archiver.head
            )
    assert kills >= 5
    tally.add(kills=kills)
    tally.done(f"archiver killed {moment} each step")


def test_an_archive_grows_with_its_journal_whatever_happens(home, objects, tmp_path):
    chance = random.Random(7)
    archiver, number = Archiver(home.storage, objects), 0
    for _ in range(40):
        what = chance.choice(["record", "record", "record", "erase", "ship", "ship", "again"])
        if what == "record":
            count = chance.randrange(1, 5)
            record(home, range(number, number + count))
            number += count
        elif what == "erase" and number:
            seq = chance.randrange(1, number + 1)
            entry = home.journal.read(seq - 1, 1)[0]
            if entry.line and b'"Noted"' in entry.line:
                home.erase(f"tracklog:{entry.run}", seq, reason="asked", by="op")
        elif what == "ship":
            archiver.ship()
            check(objects, home)
        else:
            archiver = Archiver(home.storage, open_objects(objects.url))
    archiver.ship()
    check(objects, home)
    assert restore(ArchiveReader(objects), tmp_path / "restored") == home.store.head()
