"""The storage on PostgreSQL passes every suite, and survives lost connections."""

import os
import subprocess
import sys
import threading

import orjson
import psycopg
import pytest

from support.cutting import Relay
from support.servers import postgres, store_url, tenant
from tracklog.home import registry
from tracklog.intake.intake import Intake
from tracklog.journal.comparing import verify_store
from tracklog.journal.frame import seq_of
from tracklog.journal.journal import Journal
from tracklog.journal.postgres import schema as tables
from tracklog.journal.postgres import store as store_module
from tracklog.journal.refused import RefusedLines, line_of
from tracklog.journal.storages.postgresql import PostgresStorage
from tracklog.model.errors import BadFormat, StoreBroken
from tracklog.testing import (
    BlobSuite,
    Clock,
    CrashSuite,
    OffsetsSuite,
    ProcessSuite,
    RefusedSuite,
    StorageSuite,
    StoreSuite,
    frames_of,
)


@pytest.fixture
def opened():
    """Every storage that a test opened, to be closed behind it."""
    storages: list[PostgresStorage] = []
    yield storages
    for each in storages:
        each.close()


class _Postgres:
    @pytest.fixture(autouse=True)
    def _closed(self, opened):
        self.opened = opened

    def open_storage(self, where, **options):
        place = store_url(where).removeprefix("postgresql:")
        made = PostgresStorage(place, folders=where, **options)
        self.opened.append(made)
        return made


class TestStorage(_Postgres, StorageSuite, BlobSuite, RefusedSuite, OffsetsSuite):
    def open(self, where):
        return self.open_storage(where)


class TestManyProcesses(ProcessSuite, CrashSuite):
    def url(self, where):
        return store_url(where)


class TestStore(_Postgres, StoreSuite):
    def open(self, where):
        return self.open_storage(where).store


class TestStoreOfLifecycle(_Postgres, StoreSuite):
    def open(self, where):
        return self.open_storage(where, durability="lifecycle").store


@pytest.fixture
def relay():
    made = Relay(postgres().port)
    yield made
    made.close()


@pytest.fixture
def through_relay(relay, tmp_path, opened):
    """A store whose connections go through the relay."""
    url = store_url(tmp_path).replace(f":{postgres().port}/", f":{relay.port}/")
    made = PostgresStorage(url.removeprefix("postgresql:"), folders=tmp_path)
    opened.append(made)
    return made.store


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_that_was_not_answered_is_stored_once(through_relay, relay, committed):
    store = through_relay
    store.append(frames_of([b'{"n":0}']))
    asked = []

    def make(first):
        asked.append(first)
        return frames_of([b'{"n":1}', b'{"n":2}'])(first)

    relay.lets_through, relay.cut_at = committed, b"COMMIT"
    assert store.append(make) == 2
    assert relay.cuts == 1
    assert asked == ([2] if committed else [2, 2])
    assert store.append(frames_of([b"{}"])) == 4
    assert [seq_of(frame) for frame in store.read(0, 10)] == [1, 2, 3, 4]
    assert verify_store(store, store.head()).verdict == "proven"


@pytest.mark.parametrize("word", [b"BEGIN", b"FOR UPDATE", b"INSERT INTO"])
def test_a_connection_that_is_lost_before_the_commit_is_made_again(through_relay, relay, word):
    store = through_relay
    assert store.append(frames_of([b"{}"], "r0")) == 1
    relay.lets_through, relay.cut_at = True, word
    assert store.append(frames_of([b"{}", b"{}"], "r1", expected={("spoken", "r1"): 1})) == 2
    assert relay.cuts == 1
    assert store.last == 3
    assert verify_store(store, store.head()).verdict == "proven"


def test_a_writer_that_is_stuck_is_passed_by_the_others(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(store_module, "STUCK", "300ms")
    place = store_url(tmp_path).removeprefix("postgresql:")
    one, other = (PostgresStorage(place, folders=tmp_path) for _ in range(2))
    opened += [one, other]
    asked: list[int] = []

    def make(first):
        asked.append(first)
        if len(asked) == 1:  # as if the process were stopped while it has the lock
            assert other.store.append(frames_of([b"{}"], "r2")) == 1
        return frames_of([b"{}", b"{}"], "r1")(first)

    assert one.store.append(make) == 2
    assert asked[0] == 1
    assert set(asked[1:]) == {2}  # more than once on a machine that is slow enough
    assert [seq_of(frame) for frame in one.store.read(0, 10)] == [1, 2, 3]
    assert verify_store(one.store).verdict == "proven"


def test_reading_goes_on_over_a_new_connection(through_relay, relay):
    through_relay.append(frames_of([b"{}"]))
    relay.cut_at = b"SELECT"
    assert len(through_relay.read(0, 10)) == 1
    assert relay.cuts == 1


@pytest.fixture
def many_files():
    """More open files than `select` can wait for."""
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for file in files:
        os.close(file)


@pytest.mark.usefixtures("many_files")
def test_a_waiting_reader_is_woken_by_another_process(tmp_path, opened):
    one, other = (
        PostgresStorage(store_url(tmp_path).removeprefix("postgresql:"), folders=tmp_path)
        for _ in range(2)
    )
    opened += [one, other]
    assert not one.store.wait(0, 0.01)
    writer = threading.Timer(0.05, lambda: other.store.append(frames_of([b"{}"])))
    writer.start()
    assert one.store.wait(0, 10)
    writer.join()


def test_records_are_in_partitions_that_go_with_pruning(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(tables, "PARTITION", 10)
    storage = PostgresStorage(store_url(tmp_path).removeprefix("postgresql:"), folders=tmp_path)
    opened.append(storage)
    store = storage.store
    for number in range(17):
        store.append(frames_of([b"{}"] * 3, f"r{number % 2}"))

    def partitions():
        ask = "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass(%s)"
        return storage.database.ask(ask, (f"{store.schema}.groups",))[0][0]

    assert partitions() == 6
    assert len(store.read(0, 100)) == 51
    assert len(store.read(0, 100, ("spoken", "r1"))) == 24
    with store.writing() as (connection, _):
        store.retention.drop(connection, 24, 0)
    assert (store.first, store.last, partitions()) == (25, 51, 4)
    assert verify_store(store).verdict == "proven"
    assert store.append(frames_of([b"{}"] * 40)) == 52  # a group that spans partitions
    assert len(store.read(24, 100)) == 67


def test_names_may_hold_any_character(tmp_path, opened):
    storage = PostgresStorage(store_url(tmp_path).removeprefix("postgresql:"), folders=tmp_path)
    opened.append(storage)
    names = ["\0", "a\0b", "'; --", "\U0010ffff", "\x1f"]
    for run in names:
        storage.store.append(frames_of([b"{}"], run))
    assert {run for _, run in storage.store.runs()} == set(names)
    for run in names:
        assert len(storage.store.read(0, 10, ("spoken", run))) == 1


def test_reading_where_nothing_is_says_what_to_do(tmp_path):
    place = store_url(tmp_path).removeprefix("postgresql:")
    with pytest.raises(BadFormat, match="there is no journal") as error:
        PostgresStorage(place, readonly=True, folders=tmp_path)
    assert "tracklog store init" in error.value.hint
    assert postgres().password not in str(error.value)


def test_a_journal_of_a_newer_version_is_refused(tmp_path, opened):
    url = store_url(tmp_path)
    opened.append(PostgresStorage(url.removeprefix("postgresql:"), folders=tmp_path))
    with psycopg.connect(postgres().url) as connection:
        connection.execute(f"UPDATE tracklog_{tenant(tmp_path)}_0.head SET format = 99")
    with pytest.raises(BadFormat, match="format 99"):
        PostgresStorage(url.removeprefix("postgresql:"), folders=tmp_path)


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path):
    with pytest.raises(StoreBroken, match="cannot be reached") as error:
        PostgresStorage("//me:secret@127.0.0.1:1/x?connect_timeout=1", folders=tmp_path)
    assert "secret" not in str(error.value)


def test_a_url_with_a_wrong_tenant_or_option_is_refused(tmp_path):
    for place in ("//host/db?tenant=A-B", "//host/db?no_such_option=1"):
        with pytest.raises(BadFormat):
            PostgresStorage(place, folders=tmp_path)


_WITHOUT = """
import sys
sys.modules["psycopg"] = None
import tracklog
with tracklog.open("memory:") as log:
    assert list(log.runs()) == []
try:
    tracklog.open("postgresql://127.0.0.1/x")
except tracklog.TracklogError as error:
    print(error.hint)
"""


def test_without_the_extra_the_hint_names_the_command_to_install_it():
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=True
    )
    assert done.stdout == "pip install 'tracklog[postgres]'\n"


def test_other_storages_do_not_import_the_client():
    script = (
        "import sys, tracklog; tracklog.open('memory:').close(); print('psycopg' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
    assert "postgresql" in registry.storage_names()


_OPENS = """
import sys
from tracklog.journal.storages.postgresql import PostgresStorage
PostgresStorage(sys.argv[1], folders=sys.argv[2]).close()
"""


def test_many_processes_make_the_tables_at_once(tmp_path):
    place = store_url(tmp_path).removeprefix("postgresql:")
    command = [sys.executable, "-c", _OPENS, place, str(tmp_path)]
    processes = [subprocess.Popen(command) for _ in range(6)]
    assert [process.wait(120) for process in processes] == [0] * 6


def test_a_closed_store_says_how_far_it_came(tmp_path, opened):
    storage = PostgresStorage(store_url(tmp_path).removeprefix("postgresql:"), folders=tmp_path)
    storage.store.append(frames_of([b"{}", b"{}"]))
    storage.close()
    assert storage.store.last == 2


def test_a_store_that_is_closed_while_its_database_is_away_says_so_too(
    through_relay, relay, opened
):
    through_relay.append(frames_of([b"{}", b"{}"]))
    relay.close()
    opened[0].close()
    assert through_relay.last == 2


@pytest.mark.parametrize("committed", [True, False])
def test_refused_lines_are_stored_once_with_their_batch(
    through_relay, relay, opened, tmp_path, monkeypatch, committed
):
    """A batch that fails at its commit leaves no refused lines: they come with it when it is sent again."""
    (storage,) = opened
    journal = Journal(through_relay, Clock())
    refused = RefusedLines(storage.refused, together=storage.refused_together)
    offsets = storage.offsets(journal)
    intake = Intake(journal, registry.dialects(), refused=refused, offsets=offsets)
    batch = [kahn_line("one"), b"no json", kahn_line("two")]
    monkeypatch.setattr(store_module, "PATIENCE", -1)
    relay.lets_through, relay.cut_at = committed, b"COMMIT"
    if committed:
        assert [each.verdict for each in intake.admit(batch, batch="k")][1] == "refused"
    else:
        with pytest.raises(StoreBroken):
            intake.admit(batch, batch="k")
        assert (through_relay.last, list(refused)) == (0, [])
    assert relay.cuts == 1
    verdicts = [each.verdict for each in intake.admit(batch, batch="k")]
    assert verdicts == ["accepted", "refused", "accepted"]
    assert (through_relay.last, [line_of(each) for each in refused]) == (2, [b"no json"])
    assert verify_store(through_relay).verdict == "proven"
    assert verify_store(storage.refused).verdict == "proven"
    # Without a record they have no transaction to share, and are stored by themselves.
    intake.admit([b"nope"])
    assert [line_of(each) for each in refused] == [b"no json", b"nope"]
    assert verify_store(storage.refused).verdict == "proven"


def kahn_line(task):
    event = {"ts": "2026-05-05T09:00:00.000Z", "run_id": "r", "event": "agent_run_start"}
    return orjson.dumps({**event, "agent_id": "coder", "task": task})
