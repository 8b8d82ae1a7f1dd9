"""A journal on any storage can be copied to a folder: the same bytes, numbers and chain."""

import shutil
import threading
from pathlib import Path

import pytest

from support.servers import store_url
from tracklog.home.home import Home
from tracklog.journal import backup as backups
from tracklog.journal.backup import backup
from tracklog.journal.segments import chain_path
from tracklog.journal.verify import verify
from tracklog.model.errors import BadBackup, BlobDamaged

SAMPLE = Path(__file__).parents[1] / "samples" / "homes" / "format-1"


def lines(run, count):
    line = '{"id":"%s-%d","run":"%s","fact":"Noted","label":"l","origin":{"writer":"w","fidelity":"observed"}}'
    return [(line % (run, n, run)).encode() for n in range(count)]


def frames(store):
    return store.read(0, 10_000)


def segments(home):
    """The bytes of all segments; a copy may begin a new one at another record."""
    return b"".join(path.read_bytes() for path in sorted((home / "journal").glob("*.jsonl")))


@pytest.fixture(params=["memory:", "file:", "postgresql:"])
def place(request, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    places = {"memory:": "memory:", "file:": f"file:{tmp_path / 'home'}"}
    return places.get(request.param) or store_url(tmp_path)


def test_a_backup_has_the_same_frames_head_refusals_and_blobs(tmp_path, place):
    with Home(place, durability="os") as home:
        for run in ("r1", "r2", "r3"):
            home.intake.admit(lines(run, 5), "tracklog")
        home.intake.admit([b"{}"], "tracklog")
        home.erase("tracklog:r2", 7, reason="a secret", by="me")
        home.blobs.put(b"a large value")
        home.blobs.put_all([b"one", b"another", bytes(300_000)])
        storage = home.storage
        head, records = storage.store.head(), frames(storage.store)
        links = list(storage.store.links())
        refused, blobs = frames(storage.refused), list(storage.blobs.list())
        assert backup(storage, tmp_path / "copy") == head
        with pytest.raises(BadBackup):
            backup(storage, tmp_path / "copy")
    if place.startswith("file:"):
        assert segments(tmp_path / "copy") == segments(tmp_path / "home")
    with Home(tmp_path / "copy", durability="os") as copy:
        assert frames(copy.store) == records
        assert copy.store.head() == head
        assert list(copy.store.links()) == links
        assert frames(copy.storage.refused) == refused
        assert list(copy.blobs.list()) == blobs
        assert [copy.blobs.get(name) for name in blobs]
        assert copy.storage.verify(head).verdict == "proven"
        [verdict] = copy.intake.admit(lines("r4", 1), "tracklog")
        assert verdict.seq == head.through + 1


def test_a_backup_of_nothing_is_a_home(tmp_path, place):
    with Home(place, durability="os") as home:
        backup(home.storage, tmp_path / "copy")
    with Home(tmp_path / "copy") as copy:
        assert copy.intake.admit(lines("r1", 1), "tracklog")[0].seq == 1


def test_records_that_a_crash_left_without_a_chain_are_in_the_backup(tmp_path):
    with Home(tmp_path / "home") as home:
        for run, count in (("r1", 3), ("r2", 2), ("r3", 1)):
            home.intake.admit(lines(run, count), "tracklog")
        head = home.store.head()
    path = chain_path(tmp_path / "home" / "journal", 1)
    links = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(links[:2]))
    with Home(tmp_path / "home", readonly=True) as home:
        assert (home.store.head().through, home.store.last) == (3, 6)
        assert backup(home.storage, tmp_path / "copy") == head
    report = verify(tmp_path / "copy", head)
    assert (report.verdict, report.records) == ("proven", 6)


def test_a_backup_of_format_1_has_format_1_and_every_record(tmp_path):
    shutil.copytree(SAMPLE, tmp_path / "home")
    with (
        Home(tmp_path / "home", readonly=True) as home,
        pytest.raises(BadBackup, match="not chained yet"),
    ):
        backup(home.storage, tmp_path / "copy")
    segment = max((tmp_path / "home" / "journal").glob("*.jsonl"))
    segment.write_bytes(b"")
    with Home(tmp_path / "home", readonly=True) as home:
        backup(home.storage, tmp_path / "copy")
        assert (tmp_path / "copy" / "format").read_bytes() == b"1\n"
        with Home(tmp_path / "copy", readonly=True) as copy:
            assert frames(copy.store) == frames(home.store)
            assert copy.store.head() == home.store.head()


def test_an_erasure_while_it_is_made_is_in_the_backup(tmp_path, place):
    with Home(place, durability="os") as home:
        for number in range(15):
            home.intake.admit(lines(f"r{number}", 100), "tracklog")
        erased = threading.Event()

        def erase(_done, _all):
            if not erased.is_set():
                erased.set()
                home.erase("tracklog:r14", 1497, reason="a secret", by="me")

        head = backup(home.storage, tmp_path / "copy", erase)
        assert head == home.store.head()
    report = verify(tmp_path / "copy", head)
    assert (report.verdict, report.erased) == ("proven", [1497])


def test_a_damaged_journal_gives_no_backup(tmp_path):
    with Home(tmp_path / "home") as home:
        home.intake.admit(lines("r1", 5), "tracklog")
    segment = next((tmp_path / "home" / "journal").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b'"label":"l"', b'"label":"x"', 1))
    with (
        Home(tmp_path / "home", readonly=True) as home,
        pytest.raises(BadBackup, match="record 1: was changed"),
    ):
        backup(home.storage, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_damaged_blob_gives_no_backup(tmp_path):
    with Home(tmp_path / "home") as home:
        name = home.blobs.put(b"a large value")
        (tmp_path / "home" / "blobs" / "sha256" / name[:2] / name[2:]).write_bytes(b"another")
        with pytest.raises(BlobDamaged):
            backup(home.storage, tmp_path / "copy")


def test_what_was_set_aside_and_accepted_is_in_the_backup(tmp_path):
    with Home(tmp_path / "home") as home:
        home.intake.admit(lines("r1", 5), "tracklog")
        (tmp_path / "home" / "quarantine" / "piece").write_bytes(b"torn")
        (tmp_path / "home" / "accepted").write_bytes(b"{}\n")
        backup(home.storage, tmp_path / "copy")
    for name in backups.BESIDE:
        assert (tmp_path / "copy" / name).exists()
