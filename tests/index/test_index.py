"""The index: a cache that says the same however often it was interrupted, deleted or rebuilt."""

import contextlib
import importlib
import re
import signal
import sqlite3
import subprocess
import threading
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import sampling as samples
from support.asking import ask
from support.closing import opened_index
from support.forking import script, tracklog
from support.rights import READ, modes_bind
from tracklog.dialects.checking import checker
from tracklog.folds import Fold, Position, conversation, row_key, run_key
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.index.fingerprint import fingerprint
from tracklog.index.indexer import Indexer
from tracklog.index.search_text import marked, searchable_text, terms
from tracklog.intake.intake import Intake
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.stores.memory import MemoryStore
from tracklog.model.errors import BadQuery, UnknownName
from tracklog.model.event import Event
from tracklog.model.fact import FACTS, Called, Fact, Noted, Said
from tracklog.reading.replay import replay, replay_all
from tracklog.reading.walk import walk
from tracklog.testing import Clock, IndexSuite, memory_journal


@dataclass(slots=True)
class Count:
    n: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    last: str | None = None


def count(state: Count, told: Position, fact: Fact) -> Count:
    name = type(fact).__name__
    state.n += 1
    state.kinds[name] = state.kinds.get(name, 0) + 1
    state.last = f"{told.seq} {told.kind} {told.at}"
    return state


COUNTS = Fold(
    name="counts", about="How many facts?", State=Count, facts=FACTS,
    key=lambda told, fact: run_key(told), step=count,
)  # fmt: skip
TOOLS = Fold(
    name="by-tool", about="How often was each tool called?", State=Count, facts=(Called,),
    key=lambda told, fact: row_key(told, fact.tool) if fact.tool != "none" else None, step=count,
)  # fmt: skip
FOLDS = [COUNTS, TOOLS]
ALL = [*FOLDS, *registry.folds()]
DIALECTS = registry.dialects()


def heard() -> list[Event]:
    """Every event of the samples that intake accepts."""
    checks = {dialect.name: checker(dialect) for dialect in DIALECTS}
    events = [
        checks[samples.dialect_of(path)](line)
        for kind in ("good", "odd")
        for path in samples.of(kind)
        for line in samples.lines_of(path)
    ]
    return [event for event in events if isinstance(event, Event)]


EVENTS = heard()


def said(text: str, run: str = "r1", n: int = 1) -> JournalEntry:
    line = {
        "id": f"{n:032x}", "run": run, "fact": "Said", "role": "user",
        "blocks": [{"type": "text", "text": text}], "origin": {"writer": "t", "fidelity": "observed"},
    }  # fmt: skip
    return JournalEntry("tracklog", "tracklog", run, orjson.dumps(line))


def spoke(run: str, n: int) -> JournalEntry:
    """A line of a dialect whose identities stand in one run only."""
    line = {
        "id": f"{n:032x}", "run_id": run, "turn": 1, "kind": "agent.spoke", "actor": "ann",
        "payload": {"text": "hello"}, "created_at": "2026-05-05T09:00:00.000000Z", "schema_version": 1,
    }  # fmt: skip
    return JournalEntry("fishbowl", "fishbowl", run, orjson.dumps(line))


SPAN = "0123456789abcdef" * 2 + "/" + "0123456789abcdef"


def retold(fact: dict, run: str = "s1", **origin: object) -> JournalEntry:
    """A line that an importer made from a record of a source."""
    origin = {"writer": "importer", "fidelity": "reconstructed", **origin}
    known = orjson.dumps([fact, run, origin], option=orjson.OPT_SORT_KEYS)
    line = {"id": sha256(known).hexdigest()[:32], "run": run, **fact, "origin": origin}
    return JournalEntry("tracklog", "tracklog", run, orjson.dumps(line))


def words(text: str) -> dict:
    return {"fact": "Said", "role": "assistant", "blocks": [{"type": "text", "text": text}]}


RETELLINGS = st.builds(
    retold,
    st.sampled_from(
        [
            words("alpha"),
            words("beta") | {"message_id": "m1"},
            {"fact": "Began", "what": "run"},
            {"fact": "Called", "tool": "Read", "call_id": "c1", "input": {"path": "gamma"}},
            {"fact": "Returned", "call_id": "c1", "ok": False, "seconds": 0.5},
            {"fact": "Returned", "call_id": "c2", "ok": True, "output": "delta"},
            {"fact": "Spent", "key": "k1", "usage": {"output_tokens": 5}, "cost_usd": 0.5},
            {"fact": "Ended", "what": "run", "passed": False, "outcome": "epsilon"},
            {"fact": "Noted", "label": "withdrawn", "data": {"from": "one"}},
            {"fact": "Noted", "label": "finding", "data": {"name": "cut"}},
        ]
    ),
    run=st.sampled_from(["s1", "s2"]),
    mapping=st.sampled_from([1, "2", "10"]),
    record=st.sampled_from(["one", "two", ["one", "three"], SPAN]),
    raw=st.sampled_from(["a" * 64, "b" * 64]),
    writer=st.sampled_from(["importer", "other"]),
)


def indexed(journal: Journal, place: object = ":memory:", folds=FOLDS) -> Indexer:
    return Indexer(journal, opened_index(f"sqlite:{place}"), DIALECTS, folds)


def whole(indexer: Indexer) -> dict:
    """All that an index says."""
    index = indexer.index
    rows = index.query("SELECT fold, key, seq, state FROM states ORDER BY 1, 2", limit=10**6).rows
    known = sorted({word for event in EVENTS[::20] for word in re.findall(r"\w+", str(event.body))})
    known = [*known[:100], "alpha", "beta", "gamma", "delta", "epsilon"]
    return {
        "cursor": index.cursor,
        "states": rows,
        "findings": index.findings(limit=10**6),
        "words": {word: index.search([word], 10**6) for word in known},
        "silent": index.query("SELECT seq FROM silent ORDER BY seq", limit=10**6).rows,
    }


class TestSqliteFile(IndexSuite):
    def open(self, where: Path):
        return opened_index(f"sqlite:{where / 'index.db'}")


class TestSqliteMemory(IndexSuite):
    keeps = False

    def open(self, where: Path):
        return opened_index("sqlite::memory:")


@pytest.fixture(autouse=True, scope="module")
def many_moments():
    """Past states are kept every few events, so that short journals have some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracklog.index.folding._INTERVAL", 3)
        yield


chunks = st.lists(st.integers(1, 60), min_size=1, max_size=12)
journals = st.lists(st.sampled_from(EVENTS) | RETELLINGS, min_size=1, max_size=120)


@settings(max_examples=40, deadline=None)
@given(journals, chunks, st.booleans())
def test_an_index_that_grew_equals_one_that_was_rebuilt(tmp_path_factory, events, sizes, restarts):
    """However the journal grew in between, and whether or not the process lived on."""
    journal, place = memory_journal(), tmp_path_factory.mktemp("grown") / "index.db"
    grown = indexed(journal, place, ALL)
    for n, size in enumerate(sizes):
        part = events[sum(sizes[:n]) : sum(sizes[:n]) + size]
        journal.append(part)
        assert grown.catch_up() == []
        if restarts:
            grown.close()
            grown = indexed(journal, place, ALL)
    rest = indexed(journal, folds=ALL)
    assert rest.catch_up() == []
    assert whole(grown) == whole(rest)
    assert grown.index.cursor == journal.last
    assert grown.rebuild() == []
    assert whole(grown) == whole(rest)
    grown.close()


def test_the_newest_are_found_and_not_looked_for(tmp_path):
    index = indexed(memory_journal(), tmp_path / "index.db", ALL)
    index.catch_up()
    index.close()
    ask = "SELECT key FROM states WHERE fold = 'runs' ORDER BY seq DESC, key DESC LIMIT 5"
    with contextlib.closing(sqlite3.connect(tmp_path / "index.db")) as opened:
        ((*_, plan),) = opened.execute(f"EXPLAIN QUERY PLAN {ask}")
    assert "newest runs" in plan


KNOWN = [event for event in EVENTS if event.id is not None]
"""Those whose identity says that they were recorded before."""


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(KNOWN), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_a_duplicate_counts_once(events, random):
    """Whenever it comes again, and however often."""
    again = list(events)
    for event in random.sample(events, len(events) // 2 + 1):
        again.insert(random.randint(again.index(event) + 1, len(again)), event)
    indexes = []
    for told in (events, again):
        journal = Journal(MemoryStore(), lambda: 1_777_777_777.0)
        intake = Intake(journal, DIALECTS)
        for event in told:
            intake.admit([event.line], event.dialect)
        indexes.append(indexed(journal, folds=ALL))
        assert indexes[-1].catch_up() == []
    assert whole(indexes[0]) == whole(indexes[1])


@settings(max_examples=30, deadline=None)
@given(journals, st.data())
def test_replay_equals_the_live_state_at_that_record(events, data):
    journal = memory_journal()
    until = data.draw(st.integers(1, len(events)))
    journal.append(events[:until])
    live = indexed(journal, folds=ALL)
    live.catch_up()
    journal.append(events[until:] or [said("later")])
    by_name = {dialect.name: dialect for dialect in DIALECTS}
    for fold in ALL:
        now = replay(fold, journal.records(), by_name, until=until)
        assert now == dict(live.states(fold.name))
    live.catch_up()
    for fold in ALL:
        assert replay(fold, journal.records(), by_name) == dict(live.states(fold.name))


@settings(max_examples=15, deadline=None)
@given(journals, st.data())
def test_a_stored_past_state_leads_to_the_same_result_as_all_records_before(events, data):
    journal = memory_journal()
    journal.append(events)
    index = indexed(journal, folds=ALL)
    index.catch_up()
    until = data.draw(st.integers(1, len(events)))
    by_name = {dialect.name: dialect for dialect in DIALECTS}
    rewound = sorted((fold for fold in ALL if fold.rewound), key=lambda fold: fold.name != "runs")
    for run in journal.runs():
        key = ":".join(run)
        after, known = index.past([fold.name for fold in rewound], run, until)
        begin = {name: {key: state} for name, state in known.items()}
        tail = replay_all(rewound, journal.records(after, run=run), by_name, until, begin)
        assert tail == replay_all(rewound, journal.records(run=run), by_name, until)


@settings(max_examples=20, deadline=None)
@given(journals)
def test_the_history_that_counts_folds_to_what_replay_says(events):
    journal = memory_journal()
    journal.append(events)
    by_name = {dialect.name: dialect for dialect in DIALECTS}
    states: dict[str, Count] = {}
    for reading in walk(journal.records(), by_name):
        for fact in reading.facts if reading.counts else ():
            key = run_key(reading.position)
            states[key] = count(states.get(key) or Count(), reading.position, fact)
    assert states == replay(COUNTS, journal.records(), by_name)


def test_the_past_of_a_long_run_is_stored_at_intervals():
    journal = memory_journal()
    journal.append([said("hello", n=n) for n in range(10)])
    index = indexed(journal, folds=ALL)
    index.catch_up()
    run = ("tracklog", "r1")
    assert index.past(["runs"], run, 2) == (0, {})
    assert [index.past(["runs"], run, seq)[0] for seq in (3, 5, 6, 99)] == [3, 3, 6, 9]
    journal.append([said("more", n=11)])
    assert index.past(["runs"], run, 99)[0] == 0, "the index knows less than there is"
    assert index.past(["runs"], run, 10)[0] == 9


def test_a_past_state_that_is_too_large_is_passed_over(monkeypatch):
    journal = memory_journal()
    journal.append([said("hello", n=n) for n in range(4)])
    index = indexed(journal, folds=ALL)
    index.catch_up()
    monkeypatch.setattr("tracklog.index.batch._LARGE", 10)
    journal.append([said("hello", n=n) for n in range(4, 8)])
    index.catch_up()
    place, then = index.past(["runs", "stage"], ("tracklog", "r1"), 7)
    assert (place, then["runs"].last_seq) == (3, 3)
    assert [words for _, words in then["stage"].visitors] == ["hello"] * 3


@settings(max_examples=10, deadline=None)
@given(journals)
def test_little_memory_changes_nothing(events):
    """What was let go is read again, from the index or from the journal."""
    journal = memory_journal()
    roomy, cramped = indexed(journal, folds=ALL), indexed(journal, folds=ALL)
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "folding._STATES",
            "folding._WALKED",
            "folding._LAST_ACTIVE",
            "indexer._BATCH_BYTES",
        ):
            patch.setattr(f"tracklog.index.{name}", 0)
        patch.setattr("tracklog.index.indexer._BATCH", 7)
        journal.append(events)
        cramped.catch_up()
    roomy.catch_up()
    assert whole(cramped) == whole(roomy)


@pytest.mark.parametrize("runs", [100, 1000])
def test_new_runs_are_not_looked_up_when_others_were_dropped_from_memory(runs, monkeypatch):
    """What is read grows with the events: a run in memory, or a new one, is not read again."""
    monkeypatch.setattr("tracklog.index.folding._WALKED", 20)
    monkeypatch.setattr("tracklog.index.indexer._BATCH", 10)
    read: list[object] = []
    journal = memory_journal()
    journal.append([said("hello", run=f"r{n // 2}") for n in range(2 * runs)])
    records = journal.records
    monkeypatch.setattr(journal, "records", lambda *at, **of: read.append(of) or records(*at, **of))
    index = indexed(journal, folds=ALL)
    index.catch_up()
    assert read == []
    journal.append([said("again", run="r0"), said("new", run=f"r{runs}")])
    index.catch_up()
    assert [each["run"] for each in read] == [("tracklog", "r0")]
    assert index.state("runs", "tracklog:r0").last_seq == 2 * runs + 1


def test_a_long_run_is_not_read_again_for_every_batch(monkeypatch):
    monkeypatch.setattr("tracklog.index.folding._WALKED", 20)
    monkeypatch.setattr("tracklog.index.folding._STATES", 1000)
    read: list[object] = []
    journal = memory_journal()
    records = journal.records
    monkeypatch.setattr(journal, "records", lambda *at, **of: read.append(of) or records(*at, **of))
    index = indexed(journal, folds=ALL)
    for n in range(100):
        journal.append([said("hello", n=n)])
        index.catch_up()
        journal.append([said("hello", run=f"other {n}")])
        index.catch_up()
    assert read == []
    assert index.state("runs", "tracklog:r1").last_seq == 199


def test_a_run_that_goes_on_after_a_restart_is_judged_with_its_past(tmp_path):
    """The same findings as if nobody had stopped: a return whose call was recorded long ago is fine."""
    journal = memory_journal()
    origin = {"writer": "t", "fidelity": "observed"}
    lines = [
        {"id": "1" * 32, "run": "r", "fact": "Called", "tool": "Read", "call_id": "c"},
        {"id": "2" * 32, "run": "r", "fact": "Returned", "call_id": "c"},
        {"id": "3" * 32, "run": "r", "fact": "Returned", "call_id": "c"},
    ]
    for line in lines:
        made = orjson.dumps({**line, "origin": origin})
        journal.append([JournalEntry("tracklog", "tracklog", "r", made)])
        index = indexed(journal, tmp_path / "index.db")
        index.catch_up()
        found = [(each.seq, each.finding.name) for each in index.findings()]
        index.close()
    assert found == [(3, "second-return")]


@pytest.mark.parametrize("sizes", [(5,), (1, 1, 1, 1, 1), (3, 2)])
def test_an_identity_received_in_another_run_is_found(tmp_path, sizes):
    journal = memory_journal()
    entries = [spoke("r1", 1), spoke("r2", 2), spoke("r3", 1), spoke("r2", 4), said("a", run="r4")]
    for n, size in enumerate(sizes):
        journal.append(entries[sum(sizes[:n]) : sum(sizes[:n]) + size])
        index = indexed(journal, tmp_path / "index.db")
        index.catch_up()
        found = index.findings()
        index.close()
    found = [each for each in found if each.finding.name != "no-start"]
    assert [(each.seq, each.run, each.finding.name) for each in found] == [
        (3, "r3", "id-in-another-run")
    ]
    assert "in run r1 before, in record 1" in found[0].finding.message


def counted(*entries: JournalEntry, batches: int = 1) -> Indexer:
    """An index that heard these lines, in so many batches."""
    journal = memory_journal()
    index = indexed(journal, folds=ALL)
    for n in range(batches):
        journal.append(entries[n * len(entries) // batches : (n + 1) * len(entries) // batches])
        index.catch_up()
    return index


@pytest.mark.parametrize("batches", [1, 2, 4])
@pytest.mark.parametrize("order", [(1, 2), (2, 1), ("9", "10"), ("10", "9"), ("1.9", "1.10")])
def test_of_two_readings_of_one_record_the_newer_mapping_counts(order, batches):
    """Whichever came first, and though the two read it as different facts."""
    call = {"fact": "Called", "tool": "Read", "call_id": "c1", "input": {"path": "beta"}}
    back = {"fact": "Returned", "call_id": "c1", "ok": True}
    old, new = sorted(order, key=lambda each: [int(part) for part in str(each).split(".")])
    told = {
        old: [retold(words("alpha"), record="one", mapping=old)] * 2,
        new: [retold(call, record="one", mapping=new), retold(back, record="one", mapping=new)],
    }
    index = counted(*(line for mapping in order for line in told[mapping]), batches=batches)
    state = index.state("runs", "tracklog:s1")
    assert (state.tool_calls, state.open_calls) == (1, 0)
    assert list(index.states("conversation")) == []
    assert index.search("alpha") == []
    assert len(index.search("beta")) == 1
    assert index.findings() == []


def test_readings_of_other_writers_runs_and_records_all_count():
    lines = [
        retold(words("alpha"), record="one", mapping=1),
        retold(words("alpha of another"), record="one", mapping=2, writer="other"),
        retold(words("alpha"), record="one", mapping=3, run="s2"),
        retold(words("alpha"), record="two", mapping=4),
        retold(words("alpha"), raw="a" * 64, mapping=1),
        retold(words("alpha, new")),
    ]
    assert len(counted(*lines, batches=3).search("alpha")) == 6


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_a_message_that_several_writers_report_is_one_however_often_it_is_read(batches):
    """Each writer reports it twice; a newer mapping of the first one's records reads it again."""
    lines = [
        retold(words("alpha"), record="one", mapping=1),
        retold(words("alpha"), record="x", mapping=1, writer="other"),
        retold(words("alpha"), record="y", mapping=1, writer="other"),
        retold(words("alpha"), record="two", mapping=1),
        *(retold(words("alpha"), record=each, mapping=2) for each in ("one", "two")),
    ]
    index = counted(*lines, batches=batches)
    assert len(list(index.states("conversation"))) == 2
    assert {hit.record.seq for hit in index.search("alpha")} == {3, 5}


def test_a_record_is_known_by_its_hash_where_it_has_no_key():
    lines = [
        retold(words(text), raw="a" * 64, mapping=n) for n, text in [(2, "beta"), (1, "alpha")]
    ]
    index = counted(*lines)
    assert (len(index.search("alpha")), len(index.search("beta"))) == (0, 1)


def test_a_line_made_of_several_records_gives_way_to_a_newer_reading_of_one_of_them():
    old = retold(words("alpha"), record=["one", "two"], mapping=1)
    assert counted(old, retold(words("beta"), record="two", mapping=2)).search("alpha") == []


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_span_that_is_sent_again_with_another_content_is_corrected_and_that_is_found(batches):
    began = {"fact": "Began", "what": "agent", "agent": "ann", "task": "alpha"}
    ended = {"fact": "Ended", "what": "agent", "agent": "ann", "outcome": "done"}
    index = counted(
        retold(began, record=SPAN, raw="a" * 64, mapping=1),
        retold(began, record=SPAN, raw="b" * 64, mapping=1),
        retold(ended, record=SPAN, raw="b" * 64, mapping=1),
        batches=batches,
    )
    assert [each.record.seq for each in index.search("alpha")] == [2]
    assert index.state("runs", "tracklog:s1").first_seq == 2
    (found,) = index.findings()
    assert (found.seq, found.finding.name, found.finding.level) == (2, "corrected", "info")


def test_a_key_that_is_no_span_may_stand_on_lines_of_several_raw_records():
    lines = [retold(words("alpha"), record="m1", raw=raw * 64, mapping=1) for raw in "ab"]
    index = counted(*lines)
    assert len(index.search("alpha")) == 2
    assert index.findings() == []


@pytest.mark.parametrize("batches", [1, 4])
def test_a_withdrawn_message_is_shown_and_not_counted(batches):
    index = counted(
        retold(words("before"), record="zero", mapping=1),
        retold(words("regretted"), record="one", mapping=1),
        retold(words("regretted too"), record="two", mapping=1),
        retold(words("somebody else"), record="three", mapping=1, writer="other"),
        retold({"fact": "Noted", "label": "withdrawn", "data": {"from": "one"}}, record="r"),
        retold(words("after"), record="four", mapping=1),
        batches=batches,
    )
    rows = conversation.answer(state for _, state in index.states("conversation"))
    assert [row["withdrawn"] for row in rows] == [False, True, True, False, False]
    assert len(index.search("regretted")) == 2
    stage = index.state("stage", "tracklog:s1")
    assert [text.split()[1] for _, text in stage.notes] == ["before", "somebody", "after"]


def test_a_finding_of_a_mapping_is_raised():
    line = {"fact": "Noted", "label": "finding", "text": "cut", "data": {"name": "cut-before"}}
    (found,) = counted(retold(line, record="one")).findings()
    assert (found.seq, found.finding.name) == (1, "cut-before")


def test_a_key_that_is_not_of_the_run_is_found_and_keeps_no_state():
    stray = Fold(name="stray", about="", State=Count, facts=(Said,), key=lambda told, fact: "k", step=count)  # fmt: skip
    journal = memory_journal()
    journal.append([said("hello")])
    index = indexed(journal, folds=[stray])
    index.catch_up()
    assert "not of the run" in index.findings()[0].finding.message
    assert list(index.states("stray")) == []


def test_deleting_the_file_loses_nothing(tmp_path):
    journal = memory_journal()
    journal.append(EVENTS)
    index = indexed(journal, tmp_path / "index.db")
    index.catch_up()
    before = whole(index)
    for file in tmp_path.iterdir():
        file.unlink()
    journal.append([said("more", n=2**100)])
    assert index.catch_up() == []  # by the process that had it open
    index.close()
    again = indexed(journal, tmp_path / "index.db")
    again.catch_up()
    after = whole(again)
    again.close()
    assert after["cursor"] == before["cursor"] + 1
    assert after["findings"] == before["findings"]


@pytest.mark.parametrize("damage", ["overwritten", "cut", "scribbled"])
def test_a_damaged_index_is_put_aside_and_rebuilt_by_itself(tmp_path, damage):
    journal, place = memory_journal(), tmp_path / "index.db"
    journal.append(EVENTS)
    index = indexed(journal, place)
    index.catch_up()
    before = whole(index)
    index.close()
    content = bytearray(place.read_bytes())
    if damage == "overwritten":
        place.write_bytes(b"this is no database" * 1000)
    elif damage == "cut":
        place.write_bytes(content[: len(content) // 2])
    else:
        for at in range(4096, len(content), 4096):
            content[at : at + 64] = b"\xff" * 64
        place.write_bytes(content)
    journal.append([said("one more", n=2**100)])
    again = indexed(journal, place)
    news = again.catch_up()
    after = whole(again)
    again.close()
    assert [each.name for each in news] == ["index-rebuilt"]
    assert "damaged" in news[0].message
    assert str(tmp_path / "index.db.damaged") in news[0].message
    assert (tmp_path / "index.db.damaged").exists()
    assert {**after, "cursor": 0, "states": [], "words": 0} == {**before, "cursor": 0, "states": [], "words": 0}  # fmt: skip
    assert after["cursor"] == before["cursor"] + 1


def test_damage_that_a_question_finds_is_repaired_too(tmp_path):
    journal, place = memory_journal(), tmp_path / "index.db"
    journal.append(EVENTS)
    index = indexed(journal, place)
    index.catch_up()
    states = dict(index.states("counts"))
    index.close()
    content = bytearray(place.read_bytes())
    for at in range(8192, len(content), 4096):
        content[at : at + 64] = b"\xff" * 64
    place.write_bytes(content)
    again = indexed(journal, place)
    assert dict(again.states("counts")) == states
    assert again.search("test")
    again.close()


@pytest.mark.parametrize("change", ["fold", "state", "dialect", "version"])
def test_a_changed_plug_or_version_means_a_rebuild_with_a_word_about_it(
    tmp_path, monkeypatch, change
):
    journal, place = memory_journal(), tmp_path / "index.db"
    journal.append(EVENTS[:50])
    first = indexed(journal, place)
    first.catch_up()
    first.close()
    folds, dialects = list(FOLDS), list(DIALECTS)
    if change == "fold":
        folds = [TOOLS]
    elif change == "state":

        @dataclass(slots=True)
        class Other(Count):
            more: int = 0

        folds = [TOOLS, Fold(name="counts", about="", State=Other, facts=FACTS, key=COUNTS.key, step=count)]  # fmt: skip
    elif change == "dialect":
        dialects = [each for each in DIALECTS if each.name != EVENTS[0].dialect]
    else:
        for module in ("fingerprint", "indexer"):
            monkeypatch.setattr(f"tracklog.index.{module}.__version__", "99.0")
    index = Indexer(journal, opened_index(f"sqlite:{place}"), dialects, folds)
    news = index.catch_up()
    assert [each.name for each in news] == ["index-rebuilt"]
    assert ("99.0" in news[0].message) == (change == "version")
    assert index.catch_up() == []
    index.close()


@pytest.mark.parametrize("changed", ["__init__.py", "meaning.py", "rules.py", "values.py", None])
def test_a_change_in_any_file_of_a_dialect_changes_the_fingerprint(tmp_path, monkeypatch, changed):
    """A file that only another file of the package imports counts as well."""
    name = f"acme_{tmp_path.name}"  # a module is imported once, each test has its own
    package = tmp_path / name
    package.mkdir()
    (package / "values.py").write_text("LABEL = 'a'\n")
    (package / "meaning.py").write_text(
        f"from {name}.values import LABEL\ndef facts(event): return iter(())\n"
    )
    (package / "rules.py").write_text("def rules(state, event): return state, []\n")
    (package / "__init__.py").write_text(
        f"from {name}.meaning import facts\nfrom {name}.rules import rules\n"
        "def read(body): return '', '', None, None, None, None, None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    acme = importlib.import_module(name)
    parts = {"read": acme.read, "facts": acme.facts, "rules": acme.rules}
    dialects = {"acme": replace(DIALECTS[0], name="acme", **parts)}
    before = fingerprint(dialects, {}, True)
    if changed is not None:
        with (package / changed).open("a") as file:
            file.write("# changed\n")
    assert (fingerprint(dialects, {}, True) == before) == (changed is None)


def test_a_dialect_of_a_single_file_has_the_fingerprint_of_that_file(tmp_path, monkeypatch):
    """Its folder may hold every other package that is installed."""
    file = tmp_path / "acme_single.py"
    file.write_text("def facts(event): return iter(())\nread = rules = facts\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    acme = importlib.import_module("acme_single")
    parts = {"read": acme.read, "facts": acme.facts, "rules": acme.rules}
    dialects = {"acme": replace(DIALECTS[0], name="acme", **parts)}
    before = fingerprint(dialects, {}, True)
    (tmp_path / "other.py").write_text("")
    assert fingerprint(dialects, {}, True) == before
    file.write_text(file.read_text() + "# changed\n")
    assert fingerprint(dialects, {}, True) != before


def test_a_dialect_that_is_not_here_is_found_and_stops_nothing():
    journal = memory_journal()
    journal.append([JournalEntry("klingon", "klingon", "r", b'{"a":1}'), said("hello")])
    index = indexed(journal)
    index.catch_up()
    assert [each.finding.name for each in index.findings()] == ["unknown-dialect"]
    assert len(index.search("hello")) == 1


def test_a_fold_that_fails_is_found_and_stops_nothing():
    def fail(state: Count, told: Position, fact: Said) -> Count:
        state.n += 1
        raise ZeroDivisionError

    broken = Fold(name="broken", about="", State=Count, facts=(Said,), key=lambda told, fact: run_key(told), step=fail)  # fmt: skip
    journal = memory_journal()
    journal.append([said("hello")])
    index = indexed(journal, folds=[broken, COUNTS])
    index.catch_up()
    (found,) = index.findings()
    assert (found.finding.name, found.finding.level) == ("not-understood", "error")
    assert "broken" in found.finding.message
    assert index.state("counts", "tracklog:r1").n == 1
    assert index.state("broken", "tracklog:r1").n == 0


def test_an_unknown_fold_is_answered_with_the_known_ones():
    with pytest.raises(UnknownName) as caught:
        indexed(memory_journal()).state("nope", "k")
    assert "counts" in caught.value.hint


def test_a_search_finds_recorded_texts_and_nothing_else():
    journal = memory_journal()
    texts = ["the migration of the database failed", "Database fine", "migrations are hard"]
    journal.append([said(text, n=n) for n, text in enumerate(texts, 1)])
    index = indexed(journal)
    index.catch_up()
    assert [hit.record.seq for hit in index.search("database")] == [2, 1]
    assert [hit.record.seq for hit in index.search('"the database"')] == [1]
    assert [hit.record.seq for hit in index.search("migration*")] == [3, 1]
    assert [hit.record.seq for hit in index.search("migration")] == [1]
    assert [hit.text for hit in index.search("fine database")] == [texts[1]]
    for nothing in ("nowhere", "tracklog", "user", "", '"', "database nowhere"):
        assert index.search(nothing) == []


def test_every_recorded_text_can_be_found():
    """A word of every field that the search covers, wherever the samples say it."""
    journal = memory_journal()
    journal.append(EVENTS)
    index = indexed(journal)
    index.catch_up()
    for record in journal.records():
        text = index.text(record)
        for word in re.findall(r"\b[a-z]{4,}\b", text)[:3]:
            assert record.seq in index.index.search([word], 10**6)


def test_a_hit_is_marked_in_its_own_words():
    assert marked("a Quick fox", ["quick"]) == [("a ", False), ("Quick", True), (" fox", False)]
    assert marked("quickly", ["quick"]) == [("quickly", False)]
    assert marked("quickly", ["quick*"]) == [("quickly", True)]
    far = marked("x " * 500 + "needle" + " y" * 500, ["needle"])
    assert ("needle", True) in far
    assert sum(len(piece) for piece, _ in far) < 250
    assert terms('one "two three" fo*') == ["one", "two three", "fo*"]


def test_deep_and_odd_values_can_be_searched():
    deep: object = "bottom"
    for _ in range(5000):
        deep = [deep]
    assert searchable_text([Called(tool="t", call_id="c", input={"a": deep, "b": [1, None, "two"]})]) == "bottom\ntwo"  # fmt: skip
    assert searchable_text([Noted(label="x", text=None)]) == ""


WRITES = [
    "INSERT INTO states VALUES('a', 'b', 1, '{}')",
    "UPDATE meta SET value = 9",
    "DELETE FROM states",
    "REPLACE INTO meta VALUES('cursor', 9)",
    "CREATE TABLE mine(a)",
    "CREATE TEMP TABLE mine(a)",
    "CREATE VIRTUAL TABLE mine USING fts5(a)",
    "CREATE TRIGGER mine AFTER INSERT ON meta BEGIN SELECT 1; END",
    "DROP TABLE states",
    "ALTER TABLE states ADD COLUMN mine",
    "ATTACH '{elsewhere}' AS elsewhere",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO '{elsewhere}'",
    "REINDEX",
    "ANALYZE",
    "PRAGMA user_version = 9",
    "PRAGMA query_only = 0",
    "PRAGMA writable_schema = 1",
    "PRAGMA journal_mode = DELETE",
    "SELECT * FROM pragma_query_only(0)",
    "SELECT load_extension('{elsewhere}')",
    "SELECT fts3_tokenizer('simple')",
    "INSERT INTO words(words) VALUES('delete-all')",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "SAVEPOINT mine",
    "SELECT 1; DELETE FROM states",
    "WITH a AS (SELECT 1) DELETE FROM states",
    "EXPLAIN DELETE FROM states",
    "",
    "-- nothing",
    "SELECT zeroblob(999999999)",
]


@pytest.mark.parametrize("where", ["file", "memory"])
@pytest.mark.parametrize("sql", WRITES)
def test_query_refuses_whatever_could_change_something(tmp_path, sql, where):
    journal = memory_journal()
    journal.append(EVENTS[:30])
    index = indexed(journal, tmp_path / "index.db" if where == "file" else ":memory:")
    index.catch_up()
    before = whole(index)
    with pytest.raises(BadQuery) as caught:
        index.query(sql.replace("{elsewhere}", str(tmp_path / "elsewhere")))
    assert caught.value.hint
    assert whole(index) == before
    assert not (tmp_path / "elsewhere").exists()
    journal.append([said("still alive")])
    assert index.catch_up() == []
    assert index.search("alive")
    index.close()


@pytest.mark.parametrize("where", ["file", "memory"])
def test_query_answers(tmp_path, where):
    journal = memory_journal()
    journal.append([said("hello", n=n) for n in range(1, 4)])
    index = indexed(journal, tmp_path / "index.db" if where == "file" else ":memory:")
    index.catch_up()
    assert index.query("SELECT key, n, json_extract(kinds, '$.Said') FROM counts").rows == [
        ("tracklog:r1", 3, 3)
    ]
    assert index.query("SELECT count(*) FROM by_tool").rows == [(0,)]
    assert index.query("SELECT rowid FROM words WHERE words MATCH 'hello'").rows == [
        (1,),
        (2,),
        (3,),
    ]
    assert index.query("SELECT value FROM json_each('[1,2]')").rows == [(1,), (2,)]
    with pytest.raises(BadQuery, match="nope") as caught:
        index.query("SELECT * FROM nope")
    assert "counts" in caught.value.hint
    index.close()


def test_another_process_that_indexes_is_waited_for_and_then_named(tmp_path):
    journal, place = memory_journal(), tmp_path / "index.db"
    journal.append([said("first")])
    index, other = indexed(journal, place), indexed(journal, place)
    index.catch_up()
    journal.append([said("second", n=2)])
    with other.index.turn(1):
        news = index.catch_up(patience=0.05)
        assert [each.name for each in news] == ["index-behind"]
        assert "as of record 1 of 2" in news[0].message
        assert index.search("first")
        assert not index.search("second")
    assert index.catch_up() == []
    assert index.search("second")
    index.close()
    other.close()


def test_a_run_whose_id_holds_a_unit_separator_is_a_run_like_any(tmp_path):
    with Home(tmp_path / "home", durability="os") as home:
        home.journal.append([said("one", "a"), said("two", "a\x1fb", 2), said("three", "\x1b1", 3)])
        home.index.catch_up()
        rows = ask(home, "runs", now="2026-05-05T09:00:00.000Z")
        assert [row["run"] for row in rows] == ["\x1b1", "a\x1fb", "a"]
        shown = ask(home, "show", run="tracklog:a\x1fb", now="2026-05-05T09:00:00.000Z")
        assert (shown["run"], shown["title"]) == ("a\x1fb", "two")
        runs = ask(home, "query", sql="SELECT run, title FROM runs ORDER BY run")["rows"]
        assert [run for run, _ in runs] == ["\x1b1", "a", "a\x1fb"]


ASKS = """
import sys
from tracklog.index import folding
from tracklog.home.home import Home
folding._INTERVAL = 3
with Home(sys.argv[1], readonly=True) as home:
    for _ in range(15):
        home.index.catch_up()
        for _, state in home.index.newest("runs", 5):
            assert state.run
        home.index.search("word")
        home.index.query("SELECT count(*) FROM states")
        home.index.findings()
    home.journal.wait(299, 60)
    while home.index.index.cursor < 300:
        home.index.catch_up()
    print(len(home.index.search("word", 1000)))
"""


def test_many_processes_index_and_ask_at_once(tmp_path):
    """Nobody is told that it is locked, and all come to the same."""
    with Home(tmp_path, durability="os") as home:
        home.journal.append([said("a word", n=n) for n in range(1, 101)])
        asking = [
            script(ASKS, tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
        ]
        for n in range(101, 301):
            home.journal.append([said("a word", run=f"r{n % 7}", n=n)])
            if n % 20 == 0:
                home.index.catch_up()
        for each in asking:
            out, err = each.communicate(timeout=120)
            assert (each.returncode, out, err) == (0, b"300\n", b"")
        home.index.catch_up()
        grown = whole(home.index)
        assert home.index.rebuild() == []
        assert whole(home.index) == grown


def test_threads_of_one_process_share_an_index(tmp_path):
    journal = memory_journal()
    index = indexed(journal, tmp_path / "index.db")
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(20):
                index.catch_up(patience=30)
                index.search("word")
        except BaseException as error:  # noqa: BLE001  # asserted below
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(100):
        journal.append([said("a word", n=n)])
    for thread in threads:
        thread.join()
    index.catch_up()
    assert failed == []
    assert index.state("counts", "tracklog:r1").n == 100
    index.close()


def test_the_files_are_for_the_owner_alone(tmp_path):
    with Home(tmp_path / "home") as home:
        home.journal.append([said("hello")])
        home.index.catch_up()
        modes = {each.name: each.stat().st_mode & 0o777 for each in home.path.glob("index.db*")}
    assert {"index.db", "index.db.lock"} <= modes.keys()
    assert set(modes.values()) == {0o600}


def test_a_home_that_may_only_be_read_is_answered_from_memory(tmp_path):
    with Home(tmp_path / "home") as home:
        home.journal.append([said("hello"), said("world", n=2)])
    for folder in [tmp_path / "home", *(tmp_path / "home").rglob("*")]:
        folder.chmod(0o555)
    with modes_bind(READ), Home(tmp_path / "home", readonly=True) as home:
        with pytest.raises(PermissionError):
            (tmp_path / "home" / "new").touch()
        assert home.index.catch_up() == []
        assert [hit.record.seq for hit in home.index.search("world")] == [2]
    assert not list((tmp_path / "home").glob("index*"))


def test_what_is_erased_is_in_no_byte_of_the_index(tmp_path):
    with Home(tmp_path, clock=Clock()) as home:
        home.intake.admit([said("the password is xyzzyplugh").line, said("fine", n=2).line])
        home.index.catch_up()
        assert home.index.search("xyzzyplugh")
        home.erase("r1", 1, reason="leaked", by="me")
        files = [each for each in tmp_path.rglob("*") if each.is_file()]
        assert not [each for each in files if b"xyzzyplugh" in each.read_bytes()]
        home.index.catch_up()
        assert not home.index.search("xyzzyplugh")
        assert home.index.search("fine")


def test_an_erasure_is_noticed_by_whoever_indexed_before_it(tmp_path):
    """Even if the one that erased knew nothing of this index."""
    with Home(tmp_path, clock=Clock()) as home:
        home.intake.admit([said("the password is xyzzy").line, said("fine", n=2).line])
        mine = indexed(home.journal)
        mine.catch_up()
        home.erase("r1", 1, reason="leaked", by="me")
        news = mine.catch_up()
        assert [each.message for each in news] == ["the index was rebuilt: record 1 was erased"]
        assert not mine.search("xyzzy")
        assert mine.catch_up() == []
        fresh = indexed(home.journal)
        fresh.catch_up()
        assert whole(fresh) == whole(mine)


def test_an_erasure_that_never_was_rebuilds_nothing(tmp_path):
    with Home(tmp_path, clock=Clock()) as home:
        home.intake.admit([said("fine").line])
        home.index.catch_up()
        lie = {
            "id": "a" * 32, "run": "r1", "fact": "Noted", "label": "erasure", "data": {"seq": 1},
            "origin": {"writer": "t", "fidelity": "observed"},
        }  # fmt: skip
        home.intake.admit([orjson.dumps(lie)])
        assert home.index.catch_up() == []


def test_pruning_means_a_rebuild(tmp_path):
    clock = Clock()
    with Home(tmp_path, clock=clock, segment_size=1000) as home:
        home.journal.append([said("old words", n=n) for n in range(20)])
        home.index.catch_up()
        assert home.index.search("old")
        clock.start += 1_000_000
        home.journal.append([said("new words", n=99)])
        assert home.prune(1000, open_too=True).records
        news = home.index.catch_up()
        assert [each.message for each in news] == ["the index was rebuilt: records were pruned"]
        assert not home.index.search("old")
        assert home.index.search("new")


def test_progress_is_reported():
    journal = memory_journal()
    journal.append([said("hello", n=n) for n in range(12)])
    told: list[tuple[int, int]] = []
    indexed(journal).catch_up(lambda done, of: told.append((done, of)))
    assert told == [(12, 12)]


def test_the_verbs_of_the_index(tmp_path):
    home = tmp_path / "home"
    lines = [b'{"ts":"2026-05-05T09:00:00.000Z"}', said("the kettle boils").line]
    tracklog(home, "record", given=b"\n".join(lines))
    found = tracklog(home, "search", "kettle")
    assert b"the kettle boils" in found.stdout
    (hit,) = map(orjson.loads, tracklog(home, "search", "kettle", "--json").stdout.splitlines())
    assert (hit["seq"], hit["run"], hit["text"]) == (1, "r1", "the kettle boils")
    assert b"nothing contains" in tracklog(home, "search", "teapot").stderr
    assert b"no findings" in tracklog(home, "findings").stderr
    assert tracklog(home, "rebuild").stdout == b"the index is at record 1 of 1\n"
    asked = tracklog(home, "query", "SELECT run, last_seq FROM runs")
    assert asked.stdout.split() == [b"run", b"last_seq", b"r1", b"1"]
    row = orjson.loads(tracklog(home, "query", "SELECT run, 1.5 AS x FROM runs", "--json").stdout)
    assert row == {"run": "r1", "x": 1.5}
    refused = tracklog(home, "query", "DELETE FROM states")
    assert refused.returncode == 2
    assert b"only one SELECT" in refused.stderr
    assert b"Traceback" not in refused.stderr


def test_findings_are_reported_with_their_place(tmp_path):
    home = tmp_path / "home"
    path = next(path for path in samples.of("odd") if samples.dialect_of(path) == "kahn-agent")
    tracklog(home, "record", "--dialect", "kahn-agent", str(path))
    found = [
        orjson.loads(line) for line in tracklog(home, "findings", "--json").stdout.splitlines()
    ]
    assert samples.mark_of(path) in {each["name"] for each in found}
    run = found[0]["run"]
    assert samples.mark_of(path).encode() in tracklog(home, "findings", run).stdout


def test_a_damaged_index_is_reported_and_rebuilt_and_the_question_is_answered(tmp_path):
    home = tmp_path / "home"
    tracklog(home, "record", given=said("the kettle boils").line)
    assert tracklog(home, "search", "kettle").returncode == 0
    (home / "index.db").write_bytes(b"no database" * 1000)
    done = tracklog(home, "search", "kettle")
    assert b"kettle" in done.stdout
    assert b"index-rebuilt" in done.stderr
    assert done.returncode == 0


def test_an_interrupt_ends_a_question_in_sql_at_once(tmp_path):
    endless = (
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
    )
    with Home(tmp_path / "home") as home:
        home.index.catch_up()
        timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # whenever it comes, it is caught here
            timer.start()
            home.index.query(endless, seconds=600)
        timer.join()
