"""What any index must do."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracklog.folds._cells import MOST_AMOUNTS, Cell, Label
from tracklog.index.indexes import Index, RecordFinding, Total, Words
from tracklog.model.errors import BadQuery, IndexOvertaken, IndexUnusable
from tracklog.model.event import Finding


class IndexSuite(ABC):
    """The tests of every index; subclass it and define how yours is opened."""

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
        assert index.totals("calls", [(0, 9)]) == []
        index.close()

    def test_what_was_applied_can_be_asked(self, index: Index) -> None:
        assert (index.cursor, index.notes) == (0, {"made": "here"})
        states = [("runs", "b", 3, b'{"n":1}'), ("runs", "a", 2, b'{"n":2}')]
        row = RecordFinding(3, "family", "run", Finding("odd", "an odd thing", "error"))
        index.apply(3, [*states, ("other", "a", 1, b"{}")], [row], [Words(3, "hello world")])
        assert index.cursor == 3
        assert index.load([("runs", "a"), ("runs", "z")]) == {("runs", "a"): b'{"n":2}'}
        assert index.states("runs") == [("a", b'{"n":2}'), ("b", b'{"n":1}')]
        assert index.newest("runs") == [("b", b'{"n":1}'), ("a", b'{"n":2}')]
        assert index.findings() == [row]
        assert index.search(["world"]) == [3]

    def test_cells_are_added_up_by_span_name_and_part(self, index: Index) -> None:
        label = Label("ann", "m", "Bash", "p", "main", "d", "s")
        one = Cell("calls", 10, 0, label)
        other = Cell("calls", 19, 2, label._replace(agent="bob"))
        index.apply(1, [], cells=[(one, [1, 0]), (other, [2, True]), (one._replace(kind="x"), [9])])
        index.apply(2, [], cells=[(one, [4, 3])])
        spans = [(0, 10), (10, 19), (19, 20), (20, 99)]
        rows = index.totals("calls", spans, by="agent")
        assert [(each.span, each.name, each.part, each.amounts[:3]) for each in rows] == [
            (1, "ann", 0, (5, 3, 0)),
            (2, "bob", 2, (2, 1, 0)),
        ]
        assert [each.amounts[0] for each in index.totals("calls", [(0, 99)])] == [5, 2]
        both = index.totals("calls", [(0, 99)], by="agent,project")
        assert [each.name for each in both] == ["ann\x1fp", "bob\x1fp"]
        assert index.totals("calls", [(0, 99)], where={"agent": ["eve"]}) == []
        (total,) = index.totals("calls", [(0, 99)], where={"tool": ["a", "Bash"], "agent": ["bob"]})
        assert total.amounts[:2] == (2, 1)

    def test_a_cell_that_comes_to_nothing_is_gone(self, index: Index) -> None:
        cell = Cell("calls", -1, 2**62, Label())
        index.apply(1, [], cells=[(cell, [1] * MOST_AMOUNTS)])
        assert index.totals("calls", [(-5, 5)]) == [Total(0, "", 2**62, (1,) * MOST_AMOUNTS)]
        index.apply(2, [], cells=[(cell, [-1] * MOST_AMOUNTS)])
        assert index.totals("calls", [(-5, 5)]) == []
        index.apply(3, [], cells=[(cell, [1])])
        index.clear({}, {})
        assert index.totals("calls", [(-5, 5)]) == []

    def test_a_cell_may_get_more_amounts_later(self, index: Index) -> None:
        cell = Cell("calls", 3, 0, Label("ann"))
        index.apply(1, [], cells=[(cell, [1])])
        index.apply(2, [], cells=[(cell, [1, 2])])
        assert [each.amounts[:3] for each in index.totals("calls", [(0, 9)])] == [(2, 2, 0)]

    def test_names_are_remembered(self, index: Index) -> None:
        index.apply(3, [], names=[(2**63 - 1, 3), (7, 1)])
        index.apply(9, [], names=[(7, 9), (7, 1)])
        assert index.records_named([7, 8, 2**63 - 1]) == {7: [1, 9], 2**63 - 1: [3]}
        index.clear({}, {})
        assert index.records_named([7]) == {}

    def test_a_state_is_stored_once(self, index: Index) -> None:
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
        rows = [RecordFinding(n, "f", f"r{n % 2}", Finding("odd", str(n))) for n in range(1, 7)]
        index.apply(6, [], rows)
        assert index.findings() == rows[::-1]
        assert index.findings(("f", "r1"), 2) == [rows[4], rows[2]]
        assert index.findings(("g", "r1")) == []

    def test_a_state_without_json_is_gone(self, index: Index) -> None:
        index.apply(1, [("runs", "a", 1, b"{}"), ("runs", "b", 1, b"{}")])
        index.apply(2, [("runs", "a", 2, b""), ("runs", "never", 2, b"")])
        assert index.states("runs") == [("b", b"{}")]

    def test_the_newest_of_a_listed_fold_have_any_key(self, index: Index) -> None:
        keys = ["a", "a\x1fb", "'", "\x1f"]
        index.apply(4, [("runs", key, n, b"{}") for n, key in enumerate(keys)])
        assert [key for key, _ in index.newest("runs")] == keys[::-1]

    def test_a_run_that_is_folded_again_has_its_new_findings_only(self, index: Index) -> None:
        old = [RecordFinding(n, "f", f"r{n % 2}", Finding("odd", "old")) for n in (1, 2, 3, 4)]
        index.apply(4, [], old)
        new = RecordFinding(1, "f", "r1", Finding("odd", "new"))
        index.apply(5, [], [new], refolded=[("f", "r1")])
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
        assert index.search(["bro*"], 9, (1, 1)) == [1]
        assert index.search(["bro*"], 9, (3, 9)) == []
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
            index.apply(
                1, broken(), [RecordFinding(1, "f", "r", Finding("odd", ""))], [Words(1, "word")]
            )
        assert (index.cursor, index.states("runs"), index.findings()) == (0, [], [])
        index.apply(1, [("runs", "a", 1, b"{}")], [], [Words(1, "word")])
        assert index.search(["word"]) == [1]

    def test_a_batch_that_was_made_from_an_older_state_leaves_nothing(self, index: Index) -> None:
        index.apply(2, [("runs", "a", 2, b'{"n":2}')], after=0)
        with pytest.raises(IndexOvertaken):
            index.apply(3, [("runs", "a", 3, b'{"n":9}')], [], [Words(3, "word")], after=1)
        assert (index.cursor, index.states("runs")) == (2, [("a", b'{"n":2}')])
        assert index.search(["word"]) == []
        index.apply(3, [("runs", "a", 3, b'{"n":3}')], after=2)
        assert (index.cursor, index.states("runs")) == (3, [("a", b'{"n":3}')])

    def test_clear_forgets_everything(self, index: Index) -> None:
        row = RecordFinding(1, "f", "r", Finding("odd", ""))
        index.apply(1, [("runs", "a", 1, b"{}")], [row], [Words(1, "word")])
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
        columns = {
            "f:r:1": b"{}",
            "f:r\x1fa:b": b'{"n":1,"yes":true}',
            "f:\x1b1": b'{"run":"\\u001f"}',
        }
        index.apply(3, [("runs", key, 3, state) for key, state in columns.items()])
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
