"""What any store of records must do, and frames to test it with."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest

from tracklog.dialects import tracklog as native
from tracklog.intake.intake import Intake
from tracklog.journal import frame
from tracklog.journal.comparing import verify_store
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.merkle import NOTHING, Head
from tracklog.journal.stores import Group, Make, Store
from tracklog.journal.stores.memory import MemoryStore
from tracklog.model.errors import NoSuchRecord, Overtaken
from tracklog.model.fact import Noted

_AT = "2026-05-05T09:00:00.000Z"
_ORIGIN = {"writer": "test", "fidelity": "observed"}


class Clock:
    """A clock that moves a millisecond each time it is asked."""

    def __init__(self, start: float = 1_777_777_777.0) -> None:
        self._ticks = count()
        self.start = start

    def __call__(self) -> float:
        return self.start + next(self._ticks) / 1000


def memory_journal() -> Journal:
    """An empty journal in memory, with a clock of its own."""
    return Journal(MemoryStore(), Clock())


def frames_of(
    lines: Sequence[bytes],
    run: str = "r1",
    dialect: str = "spoken",
    expected: Mapping[frame.Run, int] | None = None,
) -> Make:
    """Builds the frames of these lines, as `Store.append` wants it."""
    head = frame.head(dialect, dialect, run)

    def make(first: int) -> Group:
        stamp = b',"received":"2026-05-05T09:00:00.000Z"'
        heads = [head] * len(lines)
        if len(lines) > 1:
            heads[0] = frame.opening(head, len(lines))
        frames = [
            b'{"seq":%d%b%b%b}' % (seq, stamp, each, line)
            for seq, (each, line) in enumerate(zip(heads, lines, strict=True), first)
        ]
        return Group(frames, [((dialect, run), len(frames))], {}, expected or {})

    return make


class StoreSuite(ABC):
    """The tests of every store; subclass it and define how yours is opened."""

    keeps = True
    """Whether what was appended is still there when the same place is opened again."""

    @abstractmethod
    def open(self, where: Path) -> Store:
        """A store at a place that is empty, or that this suite used before in the same test."""

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
        assert store.read(0, 10) == make(1).frames

    def test_read_begins_behind_after_and_ends_with_limit(self, store: Store) -> None:
        store.append(frames_of([b'{"n":%d}' % n for n in range(1, 21)]))
        read = [frame.seq_of(each) for each in store.read(5, 7)]
        assert read == [6, 7, 8, 9, 10, 11, 12]
        assert store.read(20, 7) == []
        assert store.read(99, 7) == []

    def test_one_run_can_be_read_alone(self, store: Store) -> None:
        for number in range(30):
            store.append(frames_of([b'{"n":%d}' % number], run=f"r{number % 3}"))
        frames = store.read(0, 100, ("spoken", "r1"))
        assert [frame.seq_of(each) for each in frames] == list(range(2, 31, 3))
        assert [frame.seq_of(each) for each in store.read(10, 2, ("spoken", "r1"))] == [11, 14]
        assert store.read(0, 100, ("other", "r1")) == []
        assert store.read(0, 100, ("spoken", "never")) == []

    def test_a_run_is_read_on_while_it_grows(self, store: Store) -> None:
        for number in range(3):
            store.append(frames_of([b"{}"], run="r1"))
            assert len(store.read(0, 10, ("spoken", "r1"))) == number + 1

    def test_a_group_that_cannot_be_made_leaves_nothing(self, store: Store) -> None:
        def fail(first: int) -> Group:
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
        assert again.read(0, 10) == frames_of([b'{"n":1}', b'{"n":2}'], run="r1")(1).frames
        assert again.append(frames_of([b"{}"], run="r2")) == 3
        assert len(again.read(0, 10, ("spoken", "r1"))) == 2
        again.close()

    def test_a_group_is_refused_when_its_run_moved(self, store: Store) -> None:
        run = ("spoken", "r1")
        store.append(frames_of([b"{}", b"{}"], "r1", expected={run: 0}))
        for known in (0, 1):
            with pytest.raises(Overtaken) as error:
                store.append(frames_of([b"{}"], "r1", expected={run: known, ("spoken", "r2"): 0}))
            assert error.value.runs[run] == 2
        assert store.last == 2
        assert store.append(frames_of([b"{}"], "r1", expected={run: 2})) == 3
        assert store.append(frames_of([b"{}"], "r2", expected={("spoken", "r2"): 3})) == 4

    def test_a_group_of_many_runs_is_refused_when_one_of_them_moved(self, store: Store) -> None:
        runs = {("spoken", f"r{n}"): 0 for n in range(100)}
        store.append(frames_of([b"{}"], "r7"))
        with pytest.raises(Overtaken) as error:
            store.append(frames_of([b"{}"], "r8", expected=runs))
        assert error.value.runs[("spoken", "r7")] == 1
        assert store.append(frames_of([b"{}"], "r8", expected=dict.fromkeys(runs, 1))) == 2

    def test_the_last_record_of_a_run_is_known(self, store: Store) -> None:
        one, other = ("spoken", "r1"), ("spoken", "r2")
        assert store.last_of([one, other]) == {}
        store.append(frames_of([b"{}", b"{}"], "r1"))
        assert 2 <= store.last_of([one, other])[one] <= store.last
        assert other not in store.last_of([one, other])

    def test_what_another_opening_appended_is_known(self, tmp_path: Path) -> None:
        if not self.keeps:
            return
        one, other = self.open(tmp_path), self.open(tmp_path)
        run = ("spoken", "r1")
        assert one.last_of([run]) == {}
        other.append(frames_of([b"{}"], "r1"))
        assert one.last_of([run]) == {run: 1}
        with pytest.raises(Overtaken):
            one.append(frames_of([b"{}"], "r1", expected={run: 0}))
        assert one.append(frames_of([b"{}"], "r1", expected={run: 1})) == 2
        one.close()
        other.close()

    def test_what_another_opening_appended_is_known_after_more_groups(self, tmp_path: Path) -> None:
        if not self.keeps:
            return
        one, other = self.open(tmp_path), self.open(tmp_path)
        run = ("spoken", "r1")
        one.append(frames_of([b"{}"], "r1", expected={run: 0}))
        other.append(frames_of([b"{}"], "r1", expected={run: 1}))
        for _ in range(3):
            one.append(frames_of([b"{}"], "r2"))
        with pytest.raises(Overtaken) as error:
            one.append(frames_of([b"{}"], "r1", expected={run: 1}))
        assert 2 <= error.value.runs[run] <= 5
        assert one.append(frames_of([b"{}"], "r1", expected={run: 5})) == 6
        with pytest.raises(Overtaken):
            one.append(frames_of([b"{}"], "r1", expected={run: 5}))
        one.close()
        other.close()

    def test_two_intakes_record_an_event_once(self, tmp_path: Path) -> None:
        one = self.open(tmp_path)
        other = self.open(tmp_path) if self.keeps else one
        intakes = [Intake(Journal(each), [native.dialect]) for each in (one, other)]
        lines = [
            native.line(
                Noted(label=str(n)), id=f"{n:032x}", run=f"r{n % 3}", at=_AT, origin=_ORIGIN
            )
            for n in range(60)
        ]
        verdicts: list[str] = []

        def admit(intake: Intake) -> None:
            for at in range(0, len(lines), 4):
                part = intake.admit(lines[at : at + 4], native.dialect.name)
                verdicts.extend(each.verdict for each in part)

        threads = [threading.Thread(target=admit, args=(intake,)) for intake in intakes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (verdicts.count("accepted"), verdicts.count("duplicate")) == (60, 60)
        assert one.last == 60
        one.close()
        other.close()

    def test_a_journal_stands_on_it(self, store: Store) -> None:
        journal = Journal(store, Clock())
        entries = [
            JournalEntry("spoken", "family", f"r{n % 2}", b'{"n":%d}' % n) for n in range(10)
        ]
        assert journal.append(entries) == range(1, 11)
        assert [each.line for each in journal.records()] == [each.line for each in entries]
        assert [each.seq for each in journal.records(run=("family", "r0"))] == [1, 3, 5, 7, 9]

    def test_the_chain_leads_from_the_origin_to_the_head(self, store: Store) -> None:
        assert store.head() == store.origin() == NOTHING
        for number in range(5):
            store.append(frames_of([b"{}"] * (number + 1), run=f"r{number % 2}"))
        links = list(store.links())
        assert [link.through for link in links] == [1, 3, 6, 10, 15]
        assert store.head() == Head(15, links[-1].chain.hex())
        assert [link.through for link in store.links(3)] == [6, 10, 15]
        report = verify_store(store, store.head())
        assert (report.verdict, report.records, report.groups) == ("proven", 15, 5)

    def test_an_erased_record_leaves_a_tombstone_that_is_chained(self, store: Store) -> None:
        store.append(frames_of([b'{"n":1}', b'{"n":2}', b'{"n":3}']))
        before = store.head()
        done = store.erase(2, reason="asked for", by="op", at=_AT, id="e2")
        assert (done.seq, done.run) == (2, ("spoken", "r1"))
        stones = [record.erased for record in frame.records(store.read(0, 10))]
        assert [each and (each.leaf, each.id) for each in stones] == [None, (done.leaf, "e2"), None]
        assert store.erase(2, reason="again", by="op", at=_AT).leaf == done.leaf
        report = verify_store(store, before)
        assert (report.verdict, report.erased) == ("proven", [2])
        assert store.append(frames_of([b"{}"])) == 4
        with pytest.raises(NoSuchRecord):
            store.erase(99, reason="", by="", at=_AT)

    def test_the_oldest_records_can_be_pruned(self, store: Store) -> None:
        journal = Journal(store, Clock())
        for number in range(20):
            journal.append(
                [JournalEntry("spoken", "spoken", f"r{number // 10}", b'{"n":%d}' % number)]
            )
        before = journal.read(15, 1)[0].received
        dry = store.prune(before, at=_AT, dry=True)
        assert store.first == 1
        assert store.prune(before, at=_AT, is_open=lambda _: True).records == 0
        done = store.prune(before, at=_AT)
        assert done.records >= dry.records >= 0
        assert (store.first, store.last) == (done.through + 1, 20)
        assert store.origin().through == done.through
        report = verify_store(store)
        assert (report.verdict, report.records) == ("proven", 20 - done.records)
        assert journal.append([JournalEntry("spoken", "spoken", "r1", b"{}")]) == range(21, 22)

    def test_readers_see_complete_groups_while_others_append(self, store: Store) -> None:
        done = threading.Event()
        seen: list[int] = []

        def read() -> None:
            while not done.is_set():
                seen.append(store.last)
                numbers = [frame.seq_of(each) for each in store.read(0, 10_000)]
                assert numbers == list(range(1, len(numbers) + 1))

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(50):
            store.append(frames_of([b"{}"] * 3))
        done.set()
        reader.join()
        assert {number % 3 for number in seen} <= {0}
