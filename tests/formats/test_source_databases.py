"""Databases of other programs: read-only, incrementally, as they are now."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from support.asking import ask
from tracklog.formats.importers import run_id
from tracklog.formats.importing import Importing
from tracklog.home.home import Home

SAMPLE = Path(__file__).parents[1] / "samples" / "importers" / "opencode" / "opencode-subagent.db"
PARENT = "ses_341f480cfffekQwFX2LabeJFAU"
PART = "prt_cbe0c07b0001bC14fBPiG51Pxx"


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "opencode.db"
    shutil.copy(SAMPLE, path)
    path.chmod(0o600)
    return path


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path / "home", durability="os") as opened:
        yield opened


def change(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement, *given in statements:
            connection.execute(statement, given)
        connection.commit()


def imported(home, path, **options):
    return Importing(home).bring([path], **options)


def told(home):
    home.index.catch_up()
    rows = {row["run"]: row for row in ask(home, "runs")}
    return rows[run_id("opencode", PARENT)]


def reworded(text):
    data = orjson.dumps({"type": "text", "text": text}).decode()
    return ("UPDATE part SET data = ?, time_updated = time_updated + 1 WHERE id = ?", data, PART)


def test_a_second_import_reads_nothing_and_a_changed_conversation_only(home, store):
    first = imported(home, store)
    assert first.lines["accepted"] == 84
    again = imported(home, store)
    assert (again.unchanged, again.lines) == (1, {})
    change(store, reworded("where is it drawn?"))
    third = imported(home, store)
    assert third.lines["accepted"] == 1
    assert third.lines["duplicate"] == 13 - 1  # of the other conversation nothing


def test_a_record_that_changed_is_a_new_version_and_no_second_record(home, store):
    imported(home, store)
    before = told(home)
    change(store, reworded("where is it drawn?"))
    imported(home, store)
    after = told(home)
    said = [row for row in ask(home, "conversation", run=before["run"]) if not row["agent"]]
    prompts = [part for row in said for part in row["parts"] if part["role"] == "user"]
    assert [part["characters"] for part in prompts] == [len("where is it drawn?")]
    for key in ("tool_calls", "tokens_in", "tokens_out", "first_at", "last_at"):
        assert after[key] == before[key]


def test_rows_in_the_log_of_the_database_are_read_while_its_program_runs(home, store):
    with closing(sqlite3.connect(store)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        imported(home, store)
        writer.execute(*reworded_statement("now in the log"))
        writer.commit()
        summary = imported(home, store, final=False)
        assert summary.lines["accepted"] == 1
        writer.execute(*reworded_statement("and again"))  # the reader holds no lock
        writer.commit()
        assert imported(home, store, final=False).lines["accepted"] == 1


def reworded_statement(text):
    statement, *given = reworded(text)
    return statement, given


def test_reading_leaves_no_file_beside_a_database_at_rest(home, store):
    change(store, ("PRAGMA journal_mode = WAL",))
    there = {path.name for path in store.parent.iterdir()}
    imported(home, store)
    assert {path.name for path in store.parent.iterdir()} - there <= {"home"}


def test_a_database_that_is_held_is_unreadable_now_and_not_empty(home, store, monkeypatch):
    monkeypatch.setattr("tracklog.formats.importers._sqlite.BUSY", 0.05)
    with closing(sqlite3.connect(store, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        summary = imported(home, store)
        assert [path for path, _ in summary.unread] == [str(store)]
        writer.execute("ROLLBACK")
    assert imported(home, store).lines["accepted"] == 84


def test_rows_and_conversations_that_vanish_are_noted_and_ours_stay(home, store):
    imported(home, store)
    change(store, ("DELETE FROM part WHERE id = ?", PART))
    imported(home, store)
    noted = notes(home)
    assert [each["data"]["records"] for each in noted] == [1]
    change(store, ("DELETE FROM session WHERE id = ?", PARENT))
    assert imported(home, store).lines["accepted"] == 1
    assert told(home)["tool_calls"] == 1
    assert notes(home)[-1]["data"]["id"] == PARENT


def notes(home):
    bodies = [orjson.loads(record.line) for record in home.journal.records()]
    return [body for body in bodies if body.get("label") == "source-gone"]


def test_an_answer_that_is_being_written_is_left_until_it_is_complete(home, store):
    open_ = "UPDATE message SET data = json_remove(data, '$.time.completed') WHERE session_id = ?"
    change(store, (open_, PARENT))
    imported(home, store, final=False)
    assert told(home)["tool_calls"] == 0
    done = (
        "UPDATE message SET data = json_set(data, '$.time.completed', 1772715053786), "
        "time_updated = time_updated + 1 WHERE session_id = ? AND "
        "json_extract(data, '$.role') = 'assistant'"
    )
    change(store, (done, PARENT))
    imported(home, store, final=False)
    assert told(home)["tool_calls"] == 1


def test_a_fork_copies_its_history_and_spends_nothing_twice(home, store):
    fork = "ses_fork"
    with closing(sqlite3.connect(store)) as connection:
        for table, key in (("message", "id"), ("part", "message_id")):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            picked = [
                f"'f' || {name}" if name in ("id", key) else "?" if name == "session_id" else name
                for name in columns
            ]
            connection.execute(
                f"INSERT INTO {table} SELECT {', '.join(picked)} FROM {table} WHERE session_id = ?",
                (fork, PARENT),
            )
        columns = [row[1] for row in connection.execute("PRAGMA table_info(session)")]
        picked = {"id": "?", "title": "'x (fork #1)'", "time_created": "time_created + 1"}
        picked = [picked.get(name, name) for name in columns]
        connection.execute(
            f"INSERT INTO session SELECT {', '.join(picked)} FROM session WHERE id = ?",
            (fork, PARENT),
        )
        connection.commit()
    imported(home, store)
    row = told(home)
    rows = {each["run"]: each for each in ask(home, "runs")}
    copy = rows[run_id("opencode", fork)]
    assert (copy["tool_calls"], copy["tokens"]) == (0, None)
    assert row["tokens_in"] == 24_448


def test_a_cell_of_another_type_does_not_end_an_import(home, tmp_path):
    """Found by fuzzing: SQLite stores text in a column of blobs."""
    folder = SAMPLE.parents[1] / "antigravity" / "conversations"
    source = next(folder.glob("*.db"))
    path = tmp_path / source.name
    shutil.copy(source, path)
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
        for (table,) in tables:
            for row in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
                if row[2].upper() == "BLOB":
                    connection.execute(f'UPDATE "{table}" SET "{row[1]}" = \'text\'')
        connection.commit()
    assert imported(home, path).lines["refused"] == 0


def test_an_id_that_is_no_utf8_does_not_end_an_import(home, tmp_path):
    """Found by fuzzing: such an id is not found again."""
    path = tmp_path / "threads.db"
    shutil.copy(SAMPLE.parents[1] / "zed" / "threads.db", path)
    change(path, ("UPDATE threads SET id = CAST(x'b4ff' AS TEXT) WHERE rowid = 1",))
    assert imported(home, path).lines["refused"] == 0


def test_a_message_of_sqlite_that_is_no_utf8_does_not_end_an_import(home, tmp_path):
    """Found by fuzzing: it quotes the damaged part of the schema."""
    path = tmp_path / "threads.db"
    whole = (SAMPLE.parents[1] / "zed" / "threads.db").read_bytes()
    assert b"folder_paths text" in whole
    path.write_bytes(whole.replace(b"folder_paths text", b'":[]}\x99/\x87\x80aaa text'))
    assert imported(home, path).lines["accepted"] == 0
