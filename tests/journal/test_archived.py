"""Records that were moved to an archive: every answer is as if they were still in the database."""

import itertools
from pathlib import Path

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.servers import postgres, store_url, tenant
from tracklog.home.home import Home
from tracklog.journal.archive.objects import FolderObjects
from tracklog.journal.archive.reader import ArchiveReader, name_of
from tracklog.journal.archive.shipping import Archiver
from tracklog.journal.archive.verify import verify_archive
from tracklog.journal.postgres import moving_old
from tracklog.journal.postgres import schema as tables
from tracklog.model.errors import ArchiveDamaged, BadFormat
from tracklog.testing import Clock

LATER = "2999-01-01T00:00:00.000Z"
NUMBERS = itertools.count()
NO_CHECK = [HealthCheck.function_scoped_fixture]


def line(number: int, run: str, **more) -> bytes:
    origin = {"writer": "test", "fidelity": "observed"}
    native = {"id": f"{number:032x}", "run": run, "at": "2026-05-05T09:00:00Z", "fact": "Noted"}
    return orjson.dumps({**native, "label": "n", "data": {"n": number, **more}, "origin": origin})


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path / str(next(NUMBERS))


def in_database(where: Path) -> list[str]:
    """How each group is stored."""
    with psycopg.connect(postgres().url) as connection:
        ask = f"SELECT codec::text FROM tracklog_{tenant(where)}_0.groups ORDER BY through"
        return [row[0] for row in connection.execute(ask)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(1, 4)),
        st.tuples(st.just("erase"), st.integers(1, 30)),
        st.just(("ship", 0)),
        st.just(("move", 0)),
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=10, suppress_health_check=NO_CHECK)
@given(steps=STEPS)
def test_whatever_was_moved_the_record_is_that_of_a_home_in_memory(tmp_path, monkeypatch, steps):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    where = tmp_path / str(next(NUMBERS))
    objects = FolderObjects(where / "archive")
    with (
        Home(store_url(where), clock=Clock()) as home,
        Home("memory:", clock=Clock()) as other,
    ):
        archiver, number = Archiver(home.storage, objects), 0
        for step, value in steps:
            if step == "record":
                lines = [line(number + n, f"r{n % 2}") for n in range(value)]
                number += value
                for each in (home, other):
                    each.intake.admit(lines)
            elif step == "erase" and value <= number and home.journal.read(value - 1, 1)[0].line:
                run = home.journal.read(value - 1, 1)[0].run
                for each in (home, other):
                    each.store.erase(value, reason="asked", by="op", at="2026-05-05T09:00:00Z")
                    assert each.journal.read(value - 1, 1, ("tracklog", run))[0].line == b""
            elif step == "ship":
                archiver.ship()
            elif step == "move":
                home.storage.move_old(ArchiveReader(objects), LATER)
        archiver.ship()
        moved = home.storage.move_old(ArchiveReader(objects), LATER)
        assert set(in_database(where)) <= {"a"}, "all of it is in the archive"
        assert moved.records <= number
        assert home.store.read(0, 100) == other.store.read(0, 100)
        for run in (("tracklog", "r0"), ("tracklog", "r1")):
            assert home.store.read(0, 100, run) == other.store.read(0, 100, run)
        for after in range(0, number, 3):
            assert home.store.read(after, 1) == other.store.read(after, 1)
        assert list(home.store.links()) == list(other.store.links())
        assert (home.store.first, home.store.head()) == (other.store.first, other.store.head())
        assert home.storage.verify() == other.storage.verify()
        if number:
            again = home.intake.admit([line(0, "r0")])
            assert again == other.intake.admit([line(0, "r0")])


def test_only_old_records_and_large_values_that_the_archive_has_are_moved(place):
    clock = Clock()
    objects = FolderObjects(place / "archive")
    with Home(store_url(place), clock=clock) as home:
        small, large = home.blobs.put(b"s" * 100), home.blobs.put(b"l" * moving_old.LARGE)
        named = [{"$blob": {"sha256": name, "bytes": 9}} for name in (small, large)]
        home.intake.admit([line(1, "r", values=named)])
        home.intake.admit([line(2, "r")])
        old = home.journal.read(1, 1)[0].received
        reader = ArchiveReader(objects)
        assert home.storage.move_old(reader, LATER) == (0, 0, 0)  # the archive has nothing
        Archiver(home.storage, objects).ship()
        home.intake.admit([line(3, "r")])
        moved = home.storage.move_old(ArchiveReader(objects), old)
        assert (moved.records, moved.blobs) == (1, 1)
        assert in_database(place)[0] == "a"
        assert in_database(place)[1:] == ["z", "z"]
        assert home.blobs.get(large) == b"l" * moving_old.LARGE
        assert home.blobs.put(b"l" * moving_old.LARGE) == large
        assert home.blobs.get(large) == b"l" * moving_old.LARGE
        assert (
            home.storage.move_old(ArchiveReader(objects), LATER).records == 1
        )  # and not the third
        assert sorted(home.blobs.list()) == sorted([small, large])
        home.blobs.collect(lambda name: name == small)
        assert (home.blobs.size(small), home.blobs.size(large)) == (100, None)


def test_a_damaged_or_missing_object_is_an_error_and_never_another_record(place):
    objects = FolderObjects(place / "archive")
    with Home(store_url(place), clock=Clock()) as home:
        archiver = Archiver(home.storage, objects)
        for number in range(3):
            home.intake.admit([line(number, "r")])
            archiver.ship()
        assert home.storage.move_old(ArchiveReader(objects), LATER).records == 3
    path = Path(objects.url) / name_of(2, "jsonl.zst")
    content = path.read_bytes()
    other = (Path(objects.url) / name_of(3, "jsonl.zst")).read_bytes()
    for damage in (None, b"", content[:-3], other):
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        with Home(store_url(place), readonly=True) as home:
            assert len(home.store.read(0, 1)) == 1
            with pytest.raises(ArchiveDamaged, match="0000000002"):
                home.store.read(1, 1)
        path.write_bytes(content)
    with Home(store_url(place)) as home:
        assert home.storage.verify().verdict == "proven"
        home.erase("r", 2, reason="asked for", by="op")  # which brings the group back
        assert in_database(place) == ["a", "z", "a", "z"]
        archiver = Archiver(home.storage, objects)
        archiver.ship()
        assert b'"n":1}' not in b"".join(ArchiveReader(objects).stored_frames(2))
        assert home.storage.move_old(ArchiveReader(objects), LATER).records == 2
        assert (home.storage.verify().erased, verify_archive(objects).erased) == ([2], [2])


def test_an_older_version_refuses_tables_with_moved_records(place, monkeypatch):
    objects = FolderObjects(place / "archive")
    with Home(store_url(place), clock=Clock()) as home:
        home.intake.admit([line(1, "r")])
        monkeypatch.setattr(tables, "FORMAT", 1)
        Home(store_url(place), readonly=True).close()
        Archiver(home.storage, objects).ship()
        home.storage.move_old(ArchiveReader(objects), LATER)
        with pytest.raises(BadFormat, match="format 2"):
            Home(store_url(place), readonly=True)
