"""What any storage must do: its blobs, its refused lines, its offsets and its leases."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tracklog.home import registry
from tracklog.journal.backup import backup
from tracklog.journal.checkpoints.checkpoint import (
    Checkpoint,
    Checkpoints,
    compare,
    read_checkpoint,
)
from tracklog.journal.frame import Mark
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.offsets import SourceOffset
from tracklog.journal.refused import RefusedLines, line_of
from tracklog.journal.storages import Blobs, Storage
from tracklog.model.errors import NoSuchBlob
from tracklog.model.event import Problem, Refusal
from tracklog.testing.stores import Clock, frames_of


class _Opened(ABC):
    keeps = True
    """Whether what was stored is still there when the same place is opened again."""

    @abstractmethod
    def open(self, where: Path) -> Storage:
        """A storage at a place that is empty, or that this suite used before in the same test."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Iterator[Storage]:
        storage = self.open(tmp_path / "place")
        yield storage
        storage.close()


class StorageSuite(_Opened):
    """The tests of every storage; subclass it and define how yours is opened."""

    def test_a_lease_has_one_holder(self, storage: Storage) -> None:
        with storage.leases() as one, storage.leases() as other:
            assert one.take("indexing")
            assert not other.take("indexing")
            assert other.take("another name")
            one.release("indexing")
            assert other.take("indexing")

    def test_a_lease_that_is_waited_for_is_got_when_it_is_released(self, storage: Storage) -> None:
        with storage.leases() as one, storage.leases() as other:
            assert one.take("indexing")
            timer = threading.Timer(0.05, one.release, ("indexing",))
            timer.start()
            assert other.take("indexing", 10)
            timer.join()

    def test_a_closed_holder_holds_nothing(self, storage: Storage) -> None:
        holder = storage.leases()
        assert holder.take("indexing")
        holder.close()
        with storage.leases() as other:
            assert other.take("indexing")

    def test_records_are_verified(self, storage: Storage) -> None:
        storage.store.append(frames_of([b"{}", b"{}"]))
        report = storage.verify(storage.store.head())
        assert (report.verdict, report.records) == ("proven", 2)

    def test_a_checkpoint_of_it_is_signed_and_compared(self, storage: Storage) -> None:
        storage.store.append(frames_of([b"{}", b"{}"]))
        with Checkpoints(storage) as checkpoints:
            first = checkpoints.make()
            storage.store.append(frames_of([b"{}"]))
            second = checkpoints.make()
            stated, signers = read_checkpoint(second, [checkpoints.key])
        assert (stated.size, stated.runs) == (3, 1)
        assert [each.name for each in signers] == [stated.origin]
        assert not compare(storage, stated).faults
        assert not compare(storage, Checkpoint.of(first.text)).faults
        assert compare(storage, stated._replace(root=bytes(32))).faults

    def test_it_can_be_backed_up_to_a_folder(self, storage: Storage, tmp_path: Path) -> None:
        for number in range(3):
            storage.store.append(frames_of([b'{"n":%d}' % number] * 2, run=f"r{number}"))
        storage.store.erase(3, reason="asked for", by="op", at="2026-05-05T09:00:00.000Z")
        storage.blobs.put(b"large")
        head = backup(storage, tmp_path / "copy")
        copy = registry.storage(tmp_path / "copy")
        assert copy.store.head() == head == storage.store.head()
        assert copy.store.read(0, 10) == storage.store.read(0, 10)
        assert list(copy.blobs.list()) == list(storage.blobs.list())
        assert copy.verify(head).verdict == "proven"
        copy.close()

    def test_it_has_a_folder_of_this_machine(self, storage: Storage) -> None:
        (storage.folder / "a-cache").write_bytes(b"")

    def test_it_may_be_closed_twice(self, storage: Storage) -> None:
        storage.close()
        storage.close()


class BlobSuite(_Opened):
    """Large values."""

    @pytest.fixture
    def blobs(self, storage: Storage) -> Blobs:
        return storage.blobs

    def test_a_value_is_found_by_its_hash(self, blobs: Blobs) -> None:
        values = [b"", b"small", bytes(300_000)]
        names = [blobs.put(value) for value in values]
        assert names == [sha256(value).hexdigest() for value in values]
        assert [blobs.get(name) for name in names] == values
        assert [blobs.size(name) for name in names] == [0, 5, 300_000]
        assert list(blobs.list()) == sorted(names)

    def test_many_are_put_at_once_and_each_is_stored_once(self, blobs: Blobs) -> None:
        values = [b"%d" % number for number in range(100)] + [bytes(300_000)]
        blobs.put_all(values)
        blobs.put_all(values[:50])
        assert len(list(blobs.list())) == 101
        assert all(blobs.get(sha256(value).hexdigest()) == value for value in values)

    def test_a_value_that_is_not_there_is_an_error(self, blobs: Blobs) -> None:
        with pytest.raises(NoSuchBlob):
            blobs.get("0" * 64)
        assert blobs.size("0" * 64) is None

    def test_values_that_are_not_wanted_are_removed(self, blobs: Blobs) -> None:
        blobs.put_all([b"wanted", b"not wanted"])
        wanted = sha256(b"wanted").hexdigest()
        assert blobs.collect(lambda name: name == wanted, older_than=time.time() - 60) == 0
        assert blobs.collect(lambda name: name == wanted) == len(b"not wanted")
        assert list(blobs.list()) == [wanted]
        assert blobs.get(wanted) == b"wanted"


class RefusedSuite(_Opened):
    """Refused lines."""

    def test_a_refused_line_is_stored_with_its_problems(self, storage: Storage) -> None:
        refused = RefusedLines(storage.refused)
        refused.keep(
            [(b"no json", Refusal((Problem("/a", "is missing", "add it", "missing-key"),)))]
        )
        (line,) = refused
        assert (line_of(line), line["size"]) == (b"no json", 7)
        assert line["problems"][0]["message"] == "is missing"

    def test_the_oldest_are_dropped(self, storage: Storage) -> None:
        refused = RefusedLines(storage.refused)
        line, refusal = (
            bytes(64 << 10),
            Refusal((Problem("", "is no JSON", "send JSON", "not-json"),)),
        )
        for _ in range(30):
            refused.keep([(line, refusal)] * 20)
        numbers = [each["seq"] for each in refused]
        assert numbers[-1] == 600
        assert numbers[0] > 1
        assert numbers == list(range(numbers[0], 601))


class OffsetsSuite(_Opened):
    """Batch keys and offsets of files."""

    def test_a_mark_is_found_by_its_source(self, storage: Storage) -> None:
        journal = Journal(storage.store, Clock())
        offsets = storage.offsets(journal)
        assert offsets.place("file:a") is None
        for through in (10, 20):
            journal.append(
                [JournalEntry("d", "d", "r", b"{}")], mark=Mark("file:a", through, "0" * 64)
            )
        journal.append(
            [JournalEntry("d", "d", "r", b"{}")], mark=Mark("batch:k", 1, "1" * 64, "a1")
        )
        assert offsets.place("file:a") == SourceOffset(20, 2, "0" * 64)
        assert offsets.place("batch:k") == SourceOffset(1, 3, "1" * 64, "a1")
        assert offsets.sources() == ["file:a", "batch:k"]
        assert offsets.is_at("file:a", SourceOffset(20, 2, "0" * 64), 4)
        assert not offsets.is_at("file:a", SourceOffset(10, 1, "0" * 64), 4)

    def test_another_opening_finds_it_too(self, tmp_path: Path) -> None:
        if not self.keeps:
            return
        one, other = self.open(tmp_path / "place"), self.open(tmp_path / "place")
        offsets = other.offsets(Journal(other.store))
        assert offsets.place("file:a") is None
        mark = Mark("file:a", 10, "0" * 64)
        Journal(one.store).append([JournalEntry("d", "d", "r", b"{}")], mark=mark)
        assert not offsets.is_at("file:a", None, 2)
        assert offsets.place("file:a") == SourceOffset(10, 1, "0" * 64)
        offsets.save()
        one.close()
        other.close()
        again = self.open(tmp_path / "place")
        assert again.offsets(Journal(again.store)).place("file:a") == SourceOffset(10, 1, "0" * 64)
        again.close()
