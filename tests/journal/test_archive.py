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
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.servers import store_url
from tracklog.home.home import Home
from tracklog.journal.archive.objects import FolderObjects, Objects, open_objects
from tracklog.journal.archive.reader import ArchiveReader, name_of
from tracklog.journal.archive.shipping import Archiver, prune_archive
from tracklog.journal.archive.verify import verify_archive
from tracklog.journal.backup import restore
from tracklog.journal.comparing import anchor_of, verify_store
from tracklog.journal.frame import record as parsed
from tracklog.journal.frame import seq_of
from tracklog.model.errors import ArchiveDamaged, BadBackup
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
    assert verify_archive(objects) == report
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


class Deadly(FolderObjects):
    """Objects whose process dies, as an error here, after so many changes."""

    left = 99

    def put(self, name: str, content: bytes) -> None:
        super().put(name, content)
        self._count()

    def delete(self, name: str) -> None:
        super().delete(name)
        self._count()

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("left", [0, 1, 2, 99])
def test_old_records_that_the_journal_does_not_have_are_deleted_from_the_archive(
    home, objects, tmp_path, left
):
    """Also if the process that does so is killed after some of its changes, and begins again."""
    archiver, blobs = Archiver(home.storage, objects), []
    for part in range(4):
        blobs.append(home.blobs.put(b"%d" % part * 500))
        value = {"$blob": {"sha256": blobs[-1], "bytes": 500}}
        home.intake.admit([line(part * 10, "r0", value=value)])
        record(home, range(part * 10 + 1, part * 10 + 3))
        archiver.ship()
    times = [each.received for each in home.journal.read(0, 100)]
    assert prune_archive(home.store, objects, times[11]) == 0  # the journal has them all
    home.store.prune(times[9], at=times[11])
    kept = home.store.origin().through
    assert kept >= 6
    dying = Deadly(Path(objects.url))
    dying.left = left
    if left < 3:
        with pytest.raises(KeyboardInterrupt):
            prune_archive(home.store, dying, times[6])
    assert verify_archive(objects).verdict == "proven"
    gone = prune_archive(home.store, objects, times[6])
    assert gone == (6 if left == 99 else 0)  # younger ones stay, although the journal lost them
    reader = ArchiveReader(objects)
    assert (reader.first, reader.last, reader.pruned) == (7, 12, 2)
    assert sorted(reader.blobs()) == sorted(blobs[2:])
    report = verify_archive(objects)
    assert (report.verdict, report.head) == ("proven", home.store.head())
    assert verify_store(reader) == report
    assert reader.lost() == []
    record(home, range(50, 52))
    assert Archiver(home.storage, objects).ship() == 2
    assert restore(ArchiveReader(objects), tmp_path / "restored") == home.store.head()
    Path(objects.url, name_of(3, "jsonl.zst")).unlink()
    assert verify_archive(objects).faults[0].seq == 7


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
    assert verify_archive(objects).faults[0].seq == 5
    path.unlink()
    (fault,) = verify_archive(objects).faults
    assert fault.seq == 5
    assert f"{name_of(2, kind)}" in fault.why
    assert "is missing" in fault.why
    assert "5 to 8" in fault.why
    path.write_bytes(content)
    assert verify_archive(objects).verdict == "proven"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """An archive of three shipments, with large groups, a large value and two erasures."""
    folder = tmp_path_factory.mktemp("sound")
    with Home(folder / "home", clock=Clock()) as home:
        archiver = Archiver(home.storage, FolderObjects(folder / "archive"))
        for part in range(3):
            for first in (part * 40, part * 40 + 20):
                home.intake.admit([line(first + n, f"r{n % 3}") for n in range(20)])
            archiver.ship()
        blob = home.blobs.put(random.Random(1).randbytes(500))
        home.intake.admit([line(200, value={"$blob": {"sha256": blob, "bytes": 500}})])
        home.erase("r1", 2, reason="asked for", by="op")
        archiver.ship()
        home.erase("r1", 45, reason="asked for", by="op")
        archiver.ship()
        (folder / "head").write_text(str(home.store.head()))
    return folder


OBJECTS = (
    [name_of(number, "chain") for number in range(1, 6)]
    + [name_of(number, "jsonl.zst") for number in range(1, 5)]
    + [name_of(number, "tombstones") for number in (4, 5)]
    + ["a blob"]
)


def damage(content: bytes, how: str, at: float, bit: int) -> bytes | None:
    """The content as a fault of a disk or of a copy leaves it; None for no object at all."""
    place = int(at * (len(content) - 1))
    if how == "cut":
        return content[:place]
    if how == "flip":
        return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
    return {"missing": None, "zeros": bytes(len(content)), "empty": b""}[how]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(OBJECTS),
    how=st.sampled_from(["missing", "empty", "zeros", "cut", "flip", "flip", "flip"]),
    at=st.floats(0, 1),
    bit=st.integers(0, 7),
)
def test_a_damaged_object_is_named_with_its_records_and_nothing_of_it_is_read(
    sound, tmp_path, name, how, at, bit
):
    archive = tmp_path / "archive"
    shutil.rmtree(archive, ignore_errors=True)
    shutil.copytree(sound / "archive", archive)
    if name == "a blob":
        (path,) = (archive / "v1" / "blobs").iterdir()
    else:
        path = archive / name
    before = path.read_bytes()
    after = damage(before, how, at, bit)
    path.unlink()
    if after is not None:
        path.write_bytes(after)
    objects = FolderObjects(archive)
    anchor = anchor_of((sound / "head").read_text())
    report = verify_archive(objects, anchor)
    if report.ok and name == "a blob" and after is None:
        return  # an archive does not know which large values were removed before it was made
    if report.ok:  # the same is read: a line end that is not needed, or bits without a meaning
        assert contents(ArchiveReader(objects)) == contents(
            ArchiveReader(FolderObjects(sound / "archive"))
        )
        assert ArchiveReader(objects).lost() == []
        return
    first = report.faults[0]
    place = "the blob" if name == "a blob" else path.stem.partition(".")[0]
    # Without its last chain an archive only ends earlier, which the anchor shows.
    assert any(place in fault.why or "anchor" in fault.why for fault in report.faults)
    if path.suffix == ".zst":
        shipment = ArchiveReader(FolderObjects(sound / "archive")).shipments[
            int(path.name[:10]) - 1
        ]
        assert shipment.before.through < first.seq <= shipment.after.through


def test_of_a_damaged_object_all_records_before_the_damage_are_verified(sound, tmp_path):
    """Each commit group is packed by itself."""
    shutil.copytree(sound / "archive", tmp_path / "archive")
    path = tmp_path / "archive" / name_of(3, "jsonl.zst")
    content = path.read_bytes()
    second = content.index(zstandard.MAGIC_NUMBER.to_bytes(4, "little"), 4)
    path.write_bytes(content[:second] + b"xxxx" + content[second + 4 :])
    (fault,) = verify_archive(FolderObjects(tmp_path / "archive")).faults
    assert fault.seq == 101
    assert f"records 101 to 120 cannot be read: {name_of(3, 'jsonl.zst')} is damaged" in fault.why


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="syncs are seen by open files")
def test_an_object_and_its_name_are_on_disk_before_the_call_returns(tmp_path, monkeypatch):
    synced, places = [], {}

    def noting(sync):
        def call(fd):
            path = Path(f"/proc/self/fd/{fd}").readlink()
            synced.append((path, sorted(each.name for each in places["folder"].iterdir())))
            sync(fd)

        return call

    monkeypatch.setattr(os, "fsync", noting(os.fsync))
    monkeypatch.setattr(os, "fdatasync", noting(os.fdatasync))
    objects = FolderObjects(tmp_path)
    places["folder"] = tmp_path / "v1"
    places["folder"].mkdir()
    for does, name in ((objects.put, "a"), (objects.create, "b")):
        synced.clear()
        does(f"v1/{name}", b"text")
        assert any(path.parent == places["folder"] for path, _ in synced), "the bytes"
        assert any(path == places["folder"] and name in names for path, names in synced), "the name"


def contents(reader: ArchiveReader) -> list[bytes]:
    frames: list[bytes] = []
    while found := reader.read(seq_of(frames[-1]) if frames else 0, 100):
        frames += found
    return frames + [reader.blob(name) for name in reader.blobs()]


@pytest.mark.parametrize("how", ["missing", "empty", "cut"])
def test_an_archiver_names_the_objects_that_are_lost_and_ships_what_is_new(objects, tmp_path, how):
    with Home(tmp_path / "home", clock=Clock()) as home:
        for part in range(3):
            record(home, range(part * 4, part * 4 + 4))
            Archiver(home.storage, objects).ship()
        archiver = Archiver(home.storage, objects)
        assert archiver.lost() == []
        path = Path(objects.url) / name_of(2, "jsonl.zst")
        after = damage(path.read_bytes(), how, 0.9, 0)
        path.unlink()
        if after is not None:
            path.write_bytes(after)
        record(home, range(12, 14))
        archiver = Archiver(home.storage, objects)
        assert archiver.ship() == 2
        (what,) = archiver.lost()
        assert name_of(2, "jsonl.zst") in what
        assert "5 to 8" in what
        seq = 8 if how == "cut" else 5
        assert [fault.seq for fault in verify_archive(objects).faults] == [seq]
        with pytest.raises(ArchiveDamaged, match="0000000002"):
            restore(ArchiveReader(objects), tmp_path / "restored")


def test_files_that_are_no_objects_are_left_alone(objects, tmp_path):
    """As a killed writer leaves them, or a program that makes copies."""
    with Home(tmp_path / "home", clock=Clock()) as home:
        blob = home.blobs.put(b"large" * 1000)
        home.intake.admit([line(10, value={"$blob": {"sha256": blob, "bytes": 5000}})])
        Archiver(home.storage, objects).ship()
        folder = Path(objects.url) / "v1"
        for name in (
            "x.chain",
            "0000000001.chain~",
            "0000000002.jsonl.zst.7.tmp",
            f"blobs/{blob}.7.tmp",
        ):
            (folder / name).write_bytes(b"x")
        assert verify_archive(objects).verdict == "proven"
        assert Archiver(home.storage, objects).ship() == 0
        assert restore(ArchiveReader(objects), tmp_path / "restored") == home.store.head()


def test_an_archive_whose_chains_do_not_have_sizes_is_read(objects, tmp_path):
    with Home(tmp_path / "home", clock=Clock()) as home:
        record(home, range(3))
        Archiver(home.storage, objects).ship()
        path = Path(objects.url) / name_of(1, "chain")
        path.write_bytes(path.read_bytes().partition(b"\n")[2])
        record(home, range(3, 6))
        archiver = Archiver(home.storage, objects)
        assert (archiver.ship(), archiver.lost()) == (3, [])
        check(objects, home)


class Dying:
    """Objects whose process is killed before or after its next change but so many."""

    left = 0
    after = False

    def put(self, name: str, content: bytes) -> None:
        self._dies(lambda: super(Dying, self).put(name, content))

    def create(self, name: str, content: bytes) -> bool:
        return self._dies(lambda: super(Dying, self).create(name, content))

    def _dies(self, does):
        self.left -= 1
        if self.left < 0 and not self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = does()
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


class Mortal(Dying, FolderObjects):
    """Such objects in a folder."""


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
            done = subprocess.run(command, env=environment, check=False, timeout=600)
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
