"""Every kind of database is read as the others are: read-only, each change once, never as empty."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest

from support.asking import ask
from tracklog.formats.importing import Importing
from tracklog.home.home import Home
from tracklog.testing import built

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
WORDS = "words that were changed"
TEXT = f'[{{"type":"text","text":"{WORDS}"}}]'


class Kind(NamedTuple):
    """A kind of database."""

    sample: str
    """A sample, or the statements that make one."""
    change: str
    """Puts the words into one of its conversations."""
    vanish: str
    """Takes a conversation away."""


HERMES = """
CREATE TABLE sessions(id, source, model, parent_session_id, started_at);
CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id, role, content, tool_calls, tool_call_id, timestamp);
INSERT INTO sessions VALUES ('h', 'cli', 'm', NULL, 1780000000), ('i', 'cli', 'm', NULL, 1780000001);
INSERT INTO messages VALUES (1, 'h', 'user', 'go', NULL, NULL, 1780000001);
INSERT INTO messages VALUES (2, 'i', 'user', 'on', NULL, NULL, 1780000002);
"""
EVENT = orjson.dumps({
    "type": "message", "id": "new", "parentId": None, "timestamp": "2026-11-16T16:50:00.000Z",
    "message": {"role": "user", "content": WORDS},
}).decode()  # fmt: skip
META = orjson.dumps({"agentId": "a1b2c3d4-e5f6-7890-abcd-ef1234567890", "name": WORDS}).hex()
KINDS = {
    "opencode": Kind(
        "opencode/opencode-subagent.db",
        f"""UPDATE part SET data = '{{"type":"text","text":"{WORDS}"}}', time_updated = 1
            WHERE id = 'prt_cbe0c07b0001bC14fBPiG51Pxx'""",
        "DELETE FROM session WHERE id = 'ses_341f480cfffekQwFX2LabeJFAU'",
    ),
    "cursor": Kind(
        "cursor/composer-global-state.vscdb",
        f"UPDATE cursorDiskKV SET value = replace(value, 'Synthetic question alpha.', '{WORDS}')",
        "DELETE FROM cursorDiskKV WHERE key LIKE 'composerData:%'",
    ),
    "cursor-2024": Kind(
        "cursor/legacy-2024-workspace.vscdb",
        "UPDATE ItemTable SET value = replace(value, 'Running a Local Python Server via CLI', "
        f"'{WORDS}')",
        "DELETE FROM ItemTable WHERE key = 'composer.composerData'",
    ),
    "cursor-agent": Kind(
        "cursor/cli-store/store.db",
        f"UPDATE meta SET value = '{META}'",
        "DELETE FROM meta",
    ),
    "openclaw": Kind(
        "openclaw/openclaw-agent.sqlite",
        "INSERT INTO transcript_events(session_id, seq, event_json) "
        f"SELECT session_id, 99, '{EVENT}' FROM transcript_events LIMIT 1",
        "DELETE FROM transcript_events",
    ),
    "goose": Kind(
        "goose/sessions.db",
        f"UPDATE messages SET content_json = '{TEXT}' WHERE id = 1",
        "DELETE FROM sessions",
    ),
    "crush": Kind(
        "crush/crush.db",
        f"""UPDATE messages SET parts = '[{{"type":"text","data":{{"text":"{WORDS}"}}}}]'
            WHERE id = 'm1'""",
        "DELETE FROM sessions WHERE parent_session_id IS NULL",
    ),
    "zed": Kind(
        "zed/threads.db",
        f"UPDATE threads SET data = replace(data, 'legacy zed thread', '{WORDS}') WHERE data_type = 'json'",
        "DELETE FROM threads WHERE data_type = 'json'",
    ),
    "antigravity": Kind(
        "antigravity/conversations/18ee78b4-4643-45db-85df-8abd89b51b1b.db",
        # A field of a message: its tag, its length, its bytes.
        f"UPDATE steps SET step_payload = CAST(x'8201{len(WORDS):02x}' || '{WORDS}' AS BLOB) "
        "WHERE step_type = 90",
        "DROP TABLE IF EXISTS none",  # its file is the conversation
    ),
    "hermes": Kind(
        HERMES,
        f"UPDATE messages SET content = '{WORDS}' WHERE id = 1",
        "DELETE FROM sessions WHERE id = 'h'",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return built(SAMPLES, tmp_path_factory.mktemp("samples") / "importers")


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def store(kind, samples, tmp_path):
    if kind.sample == HERMES:
        path = tmp_path / "state.db"
        with closing(sqlite3.connect(path)) as made:
            made.executescript(HERMES)
        return path
    path = tmp_path / Path(kind.sample).name
    shutil.copy(samples / kind.sample, path)
    return path


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path / "home", durability="os") as opened:
        yield opened


def bring(home, path, **options):
    return Importing(home).bring([path], **options)


def numbers(home):
    home.index.catch_up()
    rows = ask(home, "runs", limit=100)
    return sorted(
        (row["run"], row["tool_calls"], row["tool_failures"], row["tokens_in"], row["tokens_out"])
        for row in rows
    )


def lines_with(home, words):
    return [record.line for record in home.journal.records() if words.encode() in record.line]


def test_a_change_in_the_log_of_a_database_is_read_once_while_its_program_writes(home, kind, store):
    first = bring(home, store)
    assert first.lines["accepted"]
    assert not first.unread
    assert bring(home, store).lines == {}
    before = numbers(home)
    with closing(sqlite3.connect(store, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(kind.change)
        summary = bring(home, store, final=False)
        assert (summary.lines["accepted"] > 0, summary.refused, summary.unread) == (True, [], [])
        assert lines_with(home, WORDS)
        writer.execute("BEGIN IMMEDIATE")  # a reader does not keep a writer out
        assert bring(home, store, final=False).lines["accepted"] == 0
        writer.execute("COMMIT")
    assert numbers(home) == before
    assert bring(home, store).lines["accepted"] == 0


def test_a_database_that_is_held_is_unreadable_now_and_read_later(home, kind, store, monkeypatch):
    monkeypatch.setattr("tracklog.formats.importers._sqlite.BUSY", 0.01)
    with closing(sqlite3.connect(store, isolation_level=None)) as writer:
        writer.execute("PRAGMA locking_mode = EXCLUSIVE")
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute(kind.change)
        summary = bring(home, store)
        assert [path for path, _ in summary.unread] == [str(store)]
        assert (summary.lines, summary.unrecognised) == ({}, [])
        writer.execute("COMMIT")
    assert bring(home, store).lines["accepted"]
    assert lines_with(home, WORDS)


def test_nothing_is_written_beside_a_database(home, kind, store):
    there = sorted(store.parent.iterdir())
    data = store.read_bytes()
    bring(home, store)
    assert sorted(store.parent.iterdir()) == there
    assert store.read_bytes() == data


def test_a_conversation_that_vanished_is_noted_and_ours_stays(home, kind, store):
    bring(home, store)
    before = numbers(home)
    with closing(sqlite3.connect(store)) as writer, writer:
        writer.execute(kind.vanish)
    gone = bring(home, store)
    expected = int(not kind.vanish.startswith("DROP"))
    noted = lines_with(home, '"label":"source-gone"')
    assert (len(noted) >= expected, gone.refused) == (True, [])
    assert numbers(home) == before
    assert bring(home, store).lines["accepted"] == 0
