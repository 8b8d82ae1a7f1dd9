"""The index in PostgreSQL passes the suite, and is filled by one process at a time."""

import atexit
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
from functools import cache
from pathlib import Path

import orjson
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import sampling as samples
from support.closing import opened_index
from support.servers import postgres, store_url
from support.soaking import SOAK
from support.waiting import eventually
from tracklog import __version__
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.index.folding import SUMS
from tracklog.index.indexer import Indexer
from tracklog.index.indexes.postgresql import PostgresIndex, arrays
from tracklog.index.indexes.postgresql.arrays import PackedArray, packed
from tracklog.index.indexes.postgresql.schema import tables_of
from tracklog.index.indexes.postgresql.words import asked, vector
from tracklog.index.indexes.sqlite.schema import match_term
from tracklog.journal.postgres.connections import Address, Database
from tracklog.journal.postgres.schema import index_prefix
from tracklog.model.errors import BadQuery, IndexOvertaken
from tracklog.testing import Clock, IndexSuite


class TestPostgres(IndexSuite):
    def open(self, where: Path):
        return opened_index(store_url(where))


def noted(number: int, run: str) -> bytes:
    origin = {"writer": "test", "fidelity": "observed"}
    native = {"id": f"{number:032x}", "run": run, "at": "2026-05-05T09:00:00Z", "fact": "Noted"}
    more = {"label": "n", "text": f"word{number} shared", "data": {"n": number}}
    return orjson.dumps({**native, **more, "origin": origin})


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    homes: list[Home] = []

    def open_home() -> Home:
        homes.append(Home(store_url(tmp_path), durability="os", clock=Clock()))
        return homes[-1]

    yield open_home
    for home in homes:
        home.close()


def everything(index) -> dict:
    """All that an index answers."""
    folds = [*registry.fold_names(), *(SUMS + name for name in registry.fold_names())]
    states = {fold: index.states(fold, limit=10**6) for fold in folds}
    found = {word: index.search([word], 10**6) for word in ("shared", "word7", "task*")}
    return {"states": states, "findings": index.findings(limit=10**6), "words": found}


def rebuilt(home: Home) -> dict:
    """The same of an index that is made from the journal alone."""
    fresh = Indexer(
        home.journal, opened_index("sqlite::memory:"), registry.dialects(), registry.folds()
    )
    fresh.catch_up()
    return everything(fresh.index)


def test_processes_take_turns_and_agree(opened):
    one, other = opened(), opened()
    assert one.storage.index_url.startswith("postgresql:")
    for number in range(40):
        home = (one, other)[number % 2]
        home.intake.admit([noted(number, f"r{number % 3}")])
        assert home.index.catch_up() == []
    assert everything(one.index.index) == everything(other.index.index) == rebuilt(one)


def test_a_column_of_values_reaches_the_server_as_it_is():
    columns = {
        "bigint[]": [0, -1, 2**63 - 1, -(2**63)],
        "bytea[]": [b"", b"\0a", b"x" * 70_000],
        "text[]": ["", "é", "a'b\\{},\"", "\N{MUSICAL SYMBOL G CLEF}", "NULL"],
    }
    with psycopg.connect(postgres().url) as connection:
        for type, values in columns.items():
            column = packed(type, values)
            assert isinstance(column, PackedArray)
            ask = f"SELECT %b::{type}".encode()
            assert connection.execute(ask, (column,), binary=True).fetchone() == (values,)
    for type, values in (("bigint[]", [2**70]), ("bytea[]", [None]), ("float8[]", [0.5])):
        assert packed(type, values) == values  # these are left to the client


def test_columns_of_many_lengths_leave_nothing_in_memory():
    columns = [list(range(length)) for length in range(1000, 1040)]
    tracemalloc.start()
    try:
        for column in columns:
            packed("bigint[]", column)
        here = tracemalloc.Filter(inclusive=True, filename_pattern=arrays.__file__)
        kept = tracemalloc.take_snapshot().filter_traces([here]).statistics("filename")
    finally:
        tracemalloc.stop()
    assert sum(each.size for each in kept) < 100_000  # a format of each length took 2 MB


def test_the_newest_records_are_found_although_a_group_is_held_in_memory(opened):
    home = opened()
    for number in range(0, 6, 2):
        home.intake.admit([noted(number, "r1"), noted(number + 1, "r1")])
    home.index.catch_up()
    assert len(home.journal.read(0, 1)) == 1  # the rest of its group is held for the next question
    assert len(home.index.newest_hits(100)) == len(home.newest(100)) == 6


def test_whoever_lost_the_turn_without_noticing_changes_nothing(opened):
    one, other = opened(), opened()
    one.intake.admit([noted(1, "r1")])
    one.index.catch_up()
    apply = one.index.index.apply

    def overtaken(*arguments, **options):
        one.index.index.apply = apply
        pid = one.index.index._holder.info.backend_pid
        one.storage.database.ask("SELECT pg_terminate_backend(%s, 10000)", (pid,))
        other.intake.admit([noted(3, "r1")])
        assert other.index.catch_up() == []
        one.index.index._holder.close()
        one.index.index._holder = one.storage.database.connect()  # as if its connection were alive
        apply(*arguments, **options)

    one.index.index.apply = overtaken
    one.intake.admit([noted(2, "r1")])
    assert one.index.catch_up() == []
    assert everything(one.index.index) == rebuilt(one)


def test_an_index_that_was_emptied_meanwhile_is_not_filled_with_old_states(opened):
    one, other = opened(), opened()
    for number in range(4):
        one.intake.admit([noted(number, "r1")])
    one.index.catch_up()
    index = one.index.index
    with index.turn(1):
        index._holder.close()
        index._holder = None
        with other.index.index.turn(5) as mine:
            assert mine
            other.index._clear()
            other.index._complete(None)
        assert other.index.index.cursor == index.cursor == 4
        with pytest.raises(IndexOvertaken):
            index.apply(5, [("runs", "tracklog:r1", 5, b'{"old":1}')], after=4)


def test_an_erased_record_is_out_of_the_index_while_another_process_fills_it(opened):
    one, other = opened(), opened()
    for number in range(5):
        one.intake.admit([noted(number, "r1")])
    stop = threading.Event()
    worker = threading.Thread(target=other.index.keep_up, args=(stop.is_set,))
    worker.start()
    eventually(lambda: one.index.index.cursor == 5)
    one.erase("r1", 3, reason="asked for", by="op")
    assert one.index.catch_up() == []
    assert one.index.index.search(["word2"]) == []
    assert one.index.index.search(["word3"]) == [4]
    stop.set()
    worker.join()
    assert everything(one.index.index) == rebuilt(one)


_WORKER = """
import os, random, signal, sys
from tracklog.home.home import Home
from tracklog.index import indexer
from tracklog.index.indexes.postgresql import PostgresIndex
from tracklog.index.indexes.postgresql.arrays import PackedArray, packed

url, before, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
indexer._BATCH = 7
home = Home(url, readonly=True)
apply, calls = PostgresIndex.apply, 0

def dies(self, *arguments, **options):
    global calls
    calls += 1
    if calls > before and seed % 2:
        os.kill(os.getpid(), signal.SIGKILL)  # it was read, and is not applied
    apply(self, *arguments, **options)
    if calls > before:
        os.kill(os.getpid(), signal.SIGKILL)  # it is applied, and nobody was told

PostgresIndex.apply = dies
home.index.catch_up(patience=30)
"""


@pytest.mark.long
def test_a_worker_that_is_killed_between_reading_and_applying_loses_nothing(
    opened, tmp_path, tally
):
    home = opened()
    kills = 6 * SOAK
    environment = {**os.environ, "HOME": str(tmp_path / "user")}
    for number in range(kills):
        home.intake.admit([noted(number * 20 + n, f"r{n % 5}") for n in range(20)])
        command = [sys.executable, "-c", _WORKER, store_url(tmp_path), str(number % 3), str(number)]
        done = subprocess.run(command, env=environment, timeout=120, check=False)
        assert done.returncode == -signal.SIGKILL
    assert home.index.catch_up(patience=30) == []
    assert home.index.index.cursor == home.journal.last == kills * 20
    assert everything(home.index.index) == rebuilt(home)
    tally.add(kills=kills)
    tally.done("index worker on PostgreSQL killed")


def test_a_question_in_sql_gets_the_same_answer_from_both_indexes(opened, tmp_path):
    home = opened()
    lines = (samples.lines_of(path) for path in samples.of("good")[:40])
    for each in lines:
        home.intake.admit(each)
    home.index.catch_up()
    fresh = Indexer(
        home.journal, opened_index("sqlite::memory:"), registry.dialects(), registry.folds()
    )
    fresh.catch_up()
    views = [name.replace("-", "_") for name in registry.fold_names()]
    for sql in (
        *(f'SELECT * FROM "{view}" ORDER BY key' for view in views),
        "SELECT name, count(*) AS n FROM findings GROUP BY name ORDER BY n DESC, name",
        "SELECT fold, count(*) AS n FROM states GROUP BY fold ORDER BY fold",
    ):
        ours, theirs = home.index.query(sql), fresh.query(sql)
        assert ours.columns == theirs.columns
        assert len(ours.rows) == len(theirs.rows)
        for row, other in zip(ours.rows, theirs.rows, strict=True):
            assert all(map(_alike, row, other)), (sql, row, other)


def _alike(ours, theirs) -> bool:
    """As documented: no U+0000, and a column that is usually NULL is a text."""
    if isinstance(theirs, str):
        theirs = theirs.replace("\\u0000", "\\ufffd")
    if isinstance(ours, str) and not isinstance(theirs, str) and theirs is not None:
        return ours in (str(theirs), {1: "true", 0: "false"}.get(theirs))
    return ours == theirs


def test_the_index_of_another_version_is_dropped_unless_somebody_fills_it(opened, monkeypatch):
    home = opened()
    home.intake.admit([noted(1, "r1")])

    def schemas() -> list[str]:
        ask = "SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname, %s) ORDER BY 1"
        rows = home.storage.database.ask(ask, (index_prefix(home.storage.address),))
        return [name for (name,) in rows if not name.endswith("_views")]

    others = []
    for version in ("0.8", "0.9"):
        with monkeypatch.context() as patch:
            patch.setattr("tracklog.index.indexes.postgresql.schema.__version__", version)
            others.append(PostgresIndex(store_url_of(home)))
            with others[0].turn(5), others[-1].turn(0):
                others[-1].clear({}, {})
    with others[1].turn(5):  # somebody fills that of 0.9, and nobody that of 0.8
        assert home.index.catch_up() == []
    for each in others:
        each.close()
    assert [name.rpartition("_index_")[2] for name in schemas()] == [
        __version__.replace(".", "_"),
        "0_9",
    ]


def store_url_of(home: Home) -> str:
    return home.storage.index_url.removeprefix("postgresql:")


def test_names_with_a_character_that_the_database_cannot_hold_are_shown(opened):
    home = opened()
    home.intake.admit([noted(1, "nul\0run"), noted(2, "back\\000slash")])
    home.index.catch_up()
    assert [key for key, _ in home.index.index.states("runs", prefix="tracklog:nul")] == [
        "tracklog:nul\0run"
    ]
    rows = home.index.query("SELECT run FROM runs ORDER BY run").rows
    assert rows == [("back\\000slash",), ("nul\ufffdrun",)]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM findings",
        "SELECT 1; DROP SCHEMA public",
        "WITH gone AS (DELETE FROM findings RETURNING 1) SELECT * FROM gone",
        "SELECT pg_notify('tracklog_main_0', '99')",
        "SELECT pg_advisory_lock(1)",
        'SELECT U&"\\0070g_sleep"(1)',
        "SELECT set_config('role', 'none', true)",
        "SELECT * FROM {journal}.head",
        "SELECT * FROM {index}.meta",
        "SELECT query_to_xml('SELECT 1', true, true, '')",
        "RESET ROLE",
        "",
    ],
)
def test_a_question_in_sql_cannot_change_or_see_more(opened, sql):
    home = opened()
    home.intake.admit([noted(1, "r1")])
    home.index.catch_up()
    address = home.index.index.address
    asked = sql.format(journal=address.schema, index=tables_of(address))
    with pytest.raises(BadQuery):
        home.index.query(asked)
    assert len(home.index.query("SELECT * FROM runs;").rows) == 1


def test_the_names_of_the_tables_are_listed(opened):
    home = opened()
    home.index.catch_up()
    home.intake.admit([noted(1, "r1")])
    home.index.catch_up()
    with pytest.raises(BadQuery) as error:
        home.index.query("SELECT * FROM nothing")
    assert "findings" in error.value.hint
    assert "runs" in error.value.hint


_TEXTS = st.text(alphabet="aBc1 _-./:*\"'\\éÄßñÇ中文яЯ\n", max_size=12)


@settings(max_examples=150, deadline=None)
@given(st.lists(_TEXTS, min_size=1, max_size=4), _TEXTS)
def test_a_search_finds_what_the_index_of_a_folder_finds(texts, term):
    """Words are cut alike."""
    ours = theirs = []
    if wanted := asked([term]):
        ask = "SELECT n FROM unnest(%s::text[]) WITH ORDINALITY AS t(said, n) WHERE said::tsvector @@ %s::tsquery"
        rows = database().ask(ask, ([vector(text) for text in texts], wanted))
        ours = [int(n) for (n,) in rows]
    folder = sqlite3.connect(":memory:")
    folder.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    folder.executemany("INSERT INTO words(rowid, text) VALUES(?, ?)", enumerate(texts, 1))
    if phrase := match_term(term):
        ask = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid"
        theirs = [seq for (seq,) in folder.execute(ask, (phrase,))]
    folder.close()
    assert ours == theirs


@cache
def database() -> Database:
    made = Database(Address(postgres().url.removeprefix("postgresql:")), writing=False)
    atexit.register(made.close)  # before the server, which was registered earlier, is removed
    return made
