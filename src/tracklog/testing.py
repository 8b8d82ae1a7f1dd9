"""The suites that a plug must pass, and what a test of one's own may need.

A new store:

    class TestMine(StoreSuite):
        def open(self, where):
            return MyStore(where)
"""

import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from tracklog import frame, registry
from tracklog.journal import Entry, Journal
from tracklog.stores import Make, Store

__all__ = ["Clock", "StoreSuite", "frames_of", "memory_journal"]


class Clock:
    """A clock that moves a millisecond each time it is asked."""

    def __init__(self, start: float = 1_777_777_777.0) -> None:
        self._ticks = count()
        self.start = start

    def __call__(self) -> float:
        return self.start + next(self._ticks) / 1000


def memory_journal() -> Journal:
    """An empty journal in memory, with a clock of its own."""
    return Journal(registry.store("memory:"), Clock())


def frames_of(lines: Sequence[bytes], run: str = "r1", dialect: str = "spoken") -> Make:
    """Builds the frames of these lines, as `Store.append` wants it."""
    head = frame.head(dialect, dialect, run)

    def make(first: int) -> list[bytes]:
        stamped = b',"received":"2026-05-05T09:00:00.000Z"' + head
        return [b'{"seq":%d%b%b}' % (seq, stamped, line) for seq, line in enumerate(lines, first)]

    return make


class StoreSuite:
    """What any store must do; subclass it and say how yours is opened."""

    keeps = True
    """Whether what was appended is still there when the same place is opened again."""

    def open(self, where: Path) -> Store:
        """A store at a place that is empty, or that this suite used before in the same test."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return self.open(tmp_path)

    def test_an_empty_store_has_nothing(self, store: Store) -> None:
        assert (store.first, store.last) == (1, 0)
        assert store.read(0, 10) == []

    def test_numbers_begin_at_one_and_have_no_gaps(self, store: Store) -> None:
        assert store.append(frames_of([b"{}"])) == 1
        assert store.append(frames_of([b"{}", b"{}"])) == 2
        assert (store.first, store.last) == (1, 3)
        assert [frame.seq_of(each) for each in store.read(0, 10)] == [1, 2, 3]

    def test_frames_come_out_as_they_went_in(self, store: Store) -> None:
        lines = [
            b'{"a":"\xe2\x80\xa8 \\u0000"}',
            b'{"event":"{\\",\\"event\\":"}',
            b"{" + b" " * 70_000 + b"}",
        ]
        make = frames_of(lines, 'a "quoted" \\ run')
        store.append(make)
        assert store.read(0, 10) == make(1)

    def test_read_begins_behind_after_and_ends_with_limit(self, store: Store) -> None:
        store.append(frames_of([b'{"n":%d}' % n for n in range(1, 21)]))
        read = [frame.seq_of(each) for each in store.read(5, 7)]
        assert read == [6, 7, 8, 9, 10, 11, 12]
        assert store.read(20, 7) == []
        assert store.read(99, 7) == []

    def test_one_run_can_be_read_alone(self, store: Store) -> None:
        for number in range(30):
            store.append(frames_of([b'{"n":%d}' % number], run=f"r{number % 3}"))
        found = store.read(0, 100, ("spoken", "r1"))
        assert [frame.seq_of(each) for each in found] == list(range(2, 31, 3))
        assert [frame.seq_of(each) for each in store.read(10, 2, ("spoken", "r1"))] == [11, 14]
        assert store.read(0, 100, ("other", "r1")) == []
        assert store.read(0, 100, ("spoken", "never")) == []

    def test_a_run_is_read_on_while_it_grows(self, store: Store) -> None:
        for number in range(3):
            store.append(frames_of([b"{}"], run="r1"))
            assert len(store.read(0, 10, ("spoken", "r1"))) == number + 1

    def test_a_group_that_cannot_be_made_leaves_nothing(self, store: Store) -> None:
        def fail(first: int) -> list[bytes]:
            raise LookupError(first)

        store.append(frames_of([b"{}"]))
        with pytest.raises(LookupError):
            store.append(fail)
        assert store.last == 1
        assert store.append(frames_of([b"{}"])) == 2

    def test_a_waiting_reader_is_woken(self, store: Store) -> None:
        assert not store.wait(0, 0.01)
        writer = threading.Timer(0.05, lambda: store.append(frames_of([b"{}"])))
        writer.start()
        assert store.wait(0, 10)
        writer.join()
        assert store.wait(0, 0)

    def test_many_threads_append_at_once(self, store: Store) -> None:
        def append(run: str) -> None:
            for _ in range(20):
                store.append(frames_of([b"{}", b"{}"], run=run))

        threads = [threading.Thread(target=append, args=(f"r{n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [frame.seq_of(each) for each in store.read(0, 1000)] == list(range(1, 321))
        for number in range(8):
            assert len(store.read(0, 1000, ("spoken", f"r{number}"))) == 40

    def test_durable_never_runs_ahead(self, store: Store) -> None:
        store.append(frames_of([b"{}"]), lifecycle=True)
        store.sync()
        assert 0 <= store.durable <= store.last

    def test_a_closed_store_appends_nothing(self, store: Store) -> None:
        store.close()
        store.close()
        with pytest.raises(Exception, match="closed"):
            store.append(frames_of([b"{}"]))

    def test_what_was_appended_is_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        if not self.keeps:
            return
        store = self.open(tmp_path)
        store.append(frames_of([b'{"n":1}', b'{"n":2}'], run="r1"))
        store.close()
        again = self.open(tmp_path)
        assert again.read(0, 10) == frames_of([b'{"n":1}', b'{"n":2}'], run="r1")(1)
        assert again.append(frames_of([b"{}"], run="r2")) == 3
        assert len(again.read(0, 10, ("spoken", "r1"))) == 2
        again.close()

    def test_a_journal_stands_on_it(self, store: Store) -> None:
        journal = Journal(store, Clock())
        entries = [Entry("spoken", "family", f"r{n % 2}", b'{"n":%d}' % n) for n in range(10)]
        assert journal.append(entries) == range(1, 11)
        assert [each.line for each in journal.records()] == [each.line for each in entries]
        assert [each.seq for each in journal.records(run=("family", "r0"))] == [1, 3, 5, 7, 9]
