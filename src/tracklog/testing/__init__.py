"""Test suites for plug-ins, and helpers for tests of your own.

A new store:

    class TestMine(StoreSuite):
        def open(self, where):
            return MyStore(where)

A new index, in the same way: `class TestMine(IndexSuite)`.
A new importer:

    class TestMine(ImporterSuite):
        importer = my_importer
        samples = Path("samples/mine")

A new format, in the same way: `class TestMine(ExporterSuite)` with its `exporter`.
"""

import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random

import orjson
import pytest

from tracklog.dialects import tracklog as native
from tracklog.dialects.checking import checker
from tracklog.formats.importers import Importer, Place, Reading, Report
from tracklog.home import registry
from tracklog.index.indexes import Found, Index, Words
from tracklog.intake.intake import Intake
from tracklog.journal import frame
from tracklog.journal.journal import Entry, Journal
from tracklog.journal.stores import Group, Make, Store
from tracklog.journal.stores.memory import MemoryStore
from tracklog.model.errors import BadQuery, IndexUnusable, Overtaken
from tracklog.model.event import Event, Finding
from tracklog.model.fact import Noted
from tracklog.testing.exporters import ExporterSuite

_AT = "2026-05-05T09:00:00.000Z"
_ORIGIN = {"writer": "test", "fidelity": "observed"}

__all__ = [
    "Clock",
    "ExporterSuite",
    "ImporterSuite",
    "IndexSuite",
    "StoreSuite",
    "frames_of",
    "memory_journal",
    "told_by",
]


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
    """What any store must do; subclass it and say how yours is opened."""

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
                found = intake.admit(lines[at : at + 4], native.dialect.name)
                verdicts.extend(each.verdict for each in found)

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
        entries = [Entry("spoken", "family", f"r{n % 2}", b'{"n":%d}' % n) for n in range(10)]
        assert journal.append(entries) == range(1, 11)
        assert [each.line for each in journal.records()] == [each.line for each in entries]
        assert [each.seq for each in journal.records(run=("family", "r0"))] == [1, 3, 5, 7, 9]


class IndexSuite(ABC):
    """What any index must do; subclass it and say how yours is opened."""

    keeps = True
    """Whether what was applied is still there when the same place is opened again."""

    @abstractmethod
    def open(self, where: Path) -> Index:
        """An index at a place that is empty, or that this suite used before in the same test."""

    @pytest.fixture
    def index(self, tmp_path: Path) -> Iterator[Index]:
        opened = self.open(tmp_path)
        with opened.turn(1) as mine:
            assert mine
            opened.clear({"runs": {"n": 0, "word": None}}, {"made": "here"}, ["runs"])
        yield opened
        opened.close()

    def test_one_that_nobody_filled_is_empty(self, tmp_path: Path) -> None:
        index = self.open(tmp_path)
        assert (index.cursor, index.notes, index.findings()) == (0, {}, [])
        assert index.load([("runs", "a")]) == {}
        assert index.states("runs") == index.newest("runs") == []
        assert index.search(["anything"]) == []
        index.close()

    def test_what_was_applied_can_be_asked(self, index: Index) -> None:
        assert (index.cursor, index.notes) == (0, {"made": "here"})
        states = [("runs", "b", 3, b'{"n":1}'), ("runs", "a", 2, b'{"n":2}')]
        found = Found(3, "family", "run", Finding("odd", "an odd thing", "error"))
        index.apply(3, [*states, ("other", "a", 1, b"{}")], [found], [Words(3, "hello world")])
        assert index.cursor == 3
        assert index.load([("runs", "a"), ("runs", "z")]) == {("runs", "a"): b'{"n":2}'}
        assert index.states("runs") == [("a", b'{"n":2}'), ("b", b'{"n":1}')]
        assert index.newest("runs") == [("b", b'{"n":1}'), ("a", b'{"n":2}')]
        assert index.findings() == [found]
        assert index.search(["world"]) == [3]

    def test_names_are_remembered(self, index: Index) -> None:
        index.apply(3, [], names=[(2**63 - 1, 3), (7, 1)])
        index.apply(9, [], names=[(7, 9), (7, 1)])
        assert index.heard([7, 8, 2**63 - 1]) == {7: [1, 9], 2**63 - 1: [3]}
        index.clear({}, {})
        assert index.heard([7]) == {}

    def test_a_state_is_kept_once(self, index: Index) -> None:
        index.apply(1, [("runs", "a", 1, b'{"n":1}'), ("runs", "b", 1, b"{}")])
        index.apply(2, [("runs", "a", 2, b'{"n":2}')])
        assert index.states("runs") == [("a", b'{"n":2}'), ("b", b"{}")]
        assert [key for key, _ in index.newest("runs", 1)] == ["a"]

    def test_states_are_read_page_by_page_and_by_their_beginning(self, index: Index) -> None:
        keys = ["", "a", "a:1", "a:2", "a;", "b", "a:\U0010ffff", 'quote"', "\u00e9"]
        index.apply(9, [("runs", key, 1, b"{}") for key in keys])
        ordered = sorted(keys, key=str.encode)
        assert [key for key, _ in index.states("runs")] == ordered
        read, after = [""], ""
        while page := index.states("runs", after=after, limit=2):
            read += [key for key, _ in page if key]
            after = page[-1][0]
        assert read == ordered
        assert [key for key, _ in index.states("runs", prefix="a:")][:2] == ["a:1", "a:2"]
        assert index.states("runs", prefix="a:", after="a:1", limit=1) == [("a:2", b"{}")]

    def test_findings_are_the_newest_first_and_of_one_run_if_asked(self, index: Index) -> None:
        found = [Found(n, "f", f"r{n % 2}", Finding("odd", str(n))) for n in range(1, 7)]
        index.apply(6, [], found)
        assert index.findings() == found[::-1]
        assert index.findings(("f", "r1"), 2) == [found[4], found[2]]
        assert index.findings(("g", "r1")) == []

    def test_a_state_without_json_is_gone(self, index: Index) -> None:
        index.apply(1, [("runs", "a", 1, b"{}"), ("runs", "b", 1, b"{}")])
        index.apply(2, [("runs", "a", 2, b""), ("runs", "never", 2, b"")])
        assert index.states("runs") == [("b", b"{}")]

    def test_the_newest_of_a_listed_fold_have_any_key(self, index: Index) -> None:
        keys = ["a", "a\x1fb", "'", "\x1f"]
        index.apply(4, [("runs", key, n, b"{}") for n, key in enumerate(keys)])
        assert [key for key, _ in index.newest("runs")] == keys[::-1]

    def test_a_run_that_is_folded_anew_has_its_new_findings_only(self, index: Index) -> None:
        old = [Found(n, "f", f"r{n % 2}", Finding("odd", "old")) for n in (1, 2, 3, 4)]
        index.apply(4, [], old)
        new = Found(1, "f", "r1", Finding("odd", "new"))
        index.apply(5, [], [new], anew=[("f", "r1")])
        assert index.findings() == [old[3], old[1], new]
        assert index.findings(("f", "r1")) == [new]

    def test_the_words_of_silent_records_are_not_found(self, index: Index) -> None:
        index.apply(2, [], [], [Words(1, "hello"), Words(2, "hello")])
        index.apply(3, [], silent=[1, 3])
        index.apply(4, [], silent=[1])
        assert index.search(["hello"]) == [2]
        assert (index.silent([1, 2, 3, 2**40]), index.silent([])) == ({1, 3}, set())
        index.clear({}, {})
        assert index.silent([1, 2, 3]) == set()
        index.apply(1, [], [], [Words(1, "hello")])
        assert index.search(["hello"]) == [1]

    def test_a_search_finds_all_terms_and_the_newest_first(self, index: Index) -> None:
        index.apply(1, [], [], [Words(1, "the quick brown fox"), Words(2, "Brown bread, quick")])
        index.apply(3, [], [], [Words(3, "nothing of that")])
        assert index.search(["quick", "BROWN"]) == [2, 1]
        assert index.search(["quick brown"]) == [1]
        assert index.search(["bro*"], 1) == [2]
        assert index.search(["bro"]) == index.search(["fox", "bread"]) == []

    @pytest.mark.parametrize(
        "text", ['"', "'", "*", "a AND", "NEAR(", "(", "text:fox", "-fox", "^fox", "\0", "", "💥"]
    )
    def test_no_search_is_a_mistake(self, index: Index, text: str) -> None:
        index.apply(1, [], [], [Words(1, "the fox")])
        assert index.search([text]) in ([], [1])

    def test_a_batch_that_fails_leaves_nothing(self, index: Index) -> None:
        def broken() -> Iterator[tuple[str, str, int, bytes]]:
            yield ("runs", "a", 1, b"{}")
            raise LookupError

        with pytest.raises(LookupError):
            index.apply(1, broken(), [Found(1, "f", "r", Finding("odd", ""))], [Words(1, "word")])
        assert (index.cursor, index.states("runs"), index.findings()) == (0, [], [])
        index.apply(1, [("runs", "a", 1, b"{}")], [], [Words(1, "word")])
        assert index.search(["word"]) == [1]

    def test_clear_forgets_everything(self, index: Index) -> None:
        found = Found(1, "f", "r", Finding("odd", ""))
        index.apply(1, [("runs", "a", 1, b"{}")], [found], [Words(1, "word")])
        index.clear({"agents": {"n": 0}}, {"made": "there"})
        assert (index.cursor, index.notes) == (0, {"made": "there"})
        assert (index.states("runs"), index.findings(), index.search(["word"])) == ([], [], [])
        assert index.query("SELECT n FROM agents").rows == []
        with pytest.raises(BadQuery):
            index.query("SELECT n FROM runs")

    def test_a_fold_is_a_table(self, index: Index) -> None:
        index.apply(5, [("runs", "a", 5, b'{"n":7,"word":"\xc3\xa9","more":[1]}')])
        answer = index.query("SELECT * FROM runs")
        assert (answer.columns, answer.cut) == (["key", "seq", "n", "word"], False)
        assert answer.rows == [("a", 5, 7, "é")]

    def test_what_a_state_leaves_out_is_usual_or_in_its_key(self, index: Index) -> None:
        usual = {"family": "", "run": "", "n": 0, "yes": False, "list": [], "it's": "it's"}
        index.clear({"runs": usual}, {"made": "here"})
        kept = {
            "f:r:1": b"{}",
            "f:r\x1fa:b": b'{"n":1,"yes":true}',
            "f:\x1b1": b'{"run":"\\u001f"}',
        }
        index.apply(3, [("runs", key, 3, state) for key, state in kept.items()])
        rows = index.query("SELECT * FROM runs ORDER BY key").rows
        assert rows == [
            ("f:\x1b1", 3, "f", "\x1f", 0, 0, "[]", "it's"),
            ("f:r\x1fa:b", 3, "f", "r", 1, 1, "[]", "it's"),
            ("f:r:1", 3, "f", "r:1", 0, 0, "[]", "it's"),
        ]

    def test_an_answer_is_bounded_in_rows_and_in_time(self, index: Index) -> None:
        index.apply(1, [("runs", str(n), 1, b"{}") for n in range(10)])
        answer = index.query("SELECT key FROM runs", limit=3)
        assert (len(answer.rows), answer.cut) == (3, True)
        for_ever = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT n FROM a"
        with pytest.raises(BadQuery, match="seconds"):
            index.query(f"{for_ever} WHERE n < 0", seconds=0.2)
        assert len(index.query("SELECT key FROM runs").rows) == 10

    def test_one_at_a_time_has_the_turn(self, index: Index) -> None:
        taken, asked = threading.Event(), threading.Event()

        def take() -> None:
            with index.turn(5) as mine:
                assert mine
                taken.set()
                asked.wait(10)

        thread = threading.Thread(target=take)
        thread.start()
        assert taken.wait(10)
        with index.turn(0.05) as mine:
            assert not mine
        asked.set()
        thread.join()
        with index.turn(5) as mine:
            assert mine

    def test_many_threads_ask_while_one_applies(self, index: Index) -> None:
        wrong: list[object] = []
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                before, states, after = index.cursor, index.states("runs"), index.cursor
                if not before <= len(states) <= after:
                    wrong.append((before, len(states), after))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for n in range(1, 60):
            index.apply(n, [("runs", f"{n:04}", n, b"{}")], [], [Words(n, "word")])
        done.set()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_a_closed_index_answers_nothing(self, index: Index) -> None:
        index.close()
        index.close()
        with pytest.raises(IndexUnusable):
            index.apply(1, [])

    def test_what_was_applied_is_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        if not self.keeps:
            return
        index = self.open(tmp_path)
        with index.turn(1):
            index.clear({}, {"made": "here"})
            words = [Words(4, "word")]
            index.apply(4, [("runs", "a", 4, b"{}")], [], words, link="4:abc")
        index.close()
        again = self.open(tmp_path)
        assert (again.cursor, again.notes) == (4, {"made": "here", "link": "4:abc"})
        assert (again.states("runs"), again.search(["word"])) == ([("a", b"{}")], [4])
        again.close()


def told_by(
    importer: Importer, path: Path, after: Place | None = None, *, final: bool = True
) -> tuple[list[bytes], Place, Report]:
    """What a file tells from a place on: its lines, the place it got to, and the report."""
    reading = Reading(importer, path)
    lines: list[bytes] = []
    place = Place()
    for batch in reading.lines(after, final=final):
        lines += batch.lines
        lines += [line for _, line in batch.quoted]
        place = Place(**orjson.loads(orjson.dumps(batch.place.as_json())))
    return lines, place, reading.report


class ImporterSuite:
    """What any importer must do with its samples, whole and damaged; subclass it and name them."""

    importer: Importer
    samples: Path
    """A folder of files that it recognises."""
    rounds = 12
    """How often each sample is damaged."""

    def files(self, where: Path) -> list[Path]:
        """The samples, copied to a place where they can be damaged."""
        shutil.copytree(self.samples, where / "samples")
        # A sample may be read-only where it came from.
        found = [path for path in sorted((where / "samples").rglob("*")) if path.is_file()]
        for path in found:
            path.chmod(0o600)
        return [path for path in found if self.recognised(path)]

    def recognised(self, path: Path) -> bool:
        return self.importer.recognise(path, path.read_bytes()[: 64 << 10]) > 0

    def test_it_recognises_its_samples(self, tmp_path: Path) -> None:
        assert self.files(tmp_path)

    def test_the_door_takes_every_line(self, tmp_path: Path) -> None:
        for path in self.files(tmp_path):
            self._check(told_by(self.importer, path)[0])

    def test_reading_twice_tells_the_same(self, tmp_path: Path) -> None:
        for path in self.files(tmp_path):
            assert told_by(self.importer, path)[0] == told_by(self.importer, path)[0]

    def test_no_two_lines_have_one_id(self, tmp_path: Path) -> None:
        for path in self.files(tmp_path):
            bodies = [orjson.loads(line) for line in told_by(self.importer, path)[0]]
            by_id: dict[str, object] = {}
            for body in bodies:
                body.pop("origin", None)
                if "id" in body:
                    assert by_id.setdefault(body["id"], body) == body

    def test_neither_path_nor_offset_is_in_an_id(self, tmp_path: Path) -> None:
        for path in self.files(tmp_path):
            before = _ids(told_by(self.importer, path)[0])
            moved = tmp_path / "moved"
            shutil.copytree(tmp_path / "samples", moved)
            there = moved / path.relative_to(tmp_path / "samples")
            assert _ids(told_by(self.importer, there)[0]) == before
            shutil.rmtree(moved)

    def test_a_prefix_and_then_the_rest_tell_what_the_whole_tells(self, tmp_path: Path) -> None:
        random = Random(1)  # noqa: S311  # damage, not secrets
        for path in self.files(tmp_path):
            data = path.read_bytes()
            whole = told_by(self.importer, path)[0]
            for _ in range(self.rounds):
                path.write_bytes(data[: random.randrange(len(data) + 1)])
                first, place, _ = told_by(self.importer, path, final=False)
                path.write_bytes(data)
                rest, _, _ = told_by(self.importer, path, place)
                assert first + rest == whole

    def test_whatever_is_cut_shuffled_or_flipped_nothing_raises(self, tmp_path: Path) -> None:
        random = Random(2)  # noqa: S311  # damage, not secrets
        for path in self.files(tmp_path):
            data = path.read_bytes()
            for _ in range(self.rounds):
                path.write_bytes(damaged(data, random))
                self._check(told_by(self.importer, path)[0])
            path.write_bytes(data)

    def _check(self, lines: list[bytes]) -> None:
        check = checker(registry.dialect("tracklog"))
        for line in lines:
            if b'"origin"' in line:  # else it is quoted, in a dialect of its own
                assert isinstance(check(line), Event), line


def _ids(lines: list[bytes]) -> list[str | None]:
    return [orjson.loads(line).get("id") for line in lines]


def damaged(data: bytes, random: Random) -> bytes:
    """Bytes to which something happened: cut, shuffled by lines, flipped, filled with NUL."""
    broken = bytearray(data)
    match random.randrange(5):
        case 0:
            return data[: random.randrange(len(data) + 1)]
        case 1:
            lines = data.split(b"\n")
            random.shuffle(lines)
            return b"\n".join(lines)
        case 2:
            for _ in range(random.randrange(1, 30)):
                broken[random.randrange(len(broken))] = random.randrange(256)
            return bytes(broken)
        case 3:
            start = random.randrange(len(data))
            return data[:start] + b"\0" * random.randrange(1, 500) + data[start:]
        case _:
            start = random.randrange(len(data))
            return data[:start] + data[start + random.randrange(200) :]
