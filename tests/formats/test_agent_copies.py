"""One conversation in several stores, and copies inside a store: everything counts once."""

import sqlite3
from contextlib import closing
from hashlib import sha1

import orjson
import pytest

from support.asking import ask
from support.importing import yields
from support.sources import database, document
from tracklog.formats import registry
from tracklog.formats.importers import head_of, run_id
from tracklog.formats.importing import Importing
from tracklog.formats.recognition import recognition
from tracklog.home.home import Home

T = 1_780_000_000_000
SESSION = "id TEXT, project_id TEXT, directory TEXT, title TEXT, time_created INTEGER, time_updated INTEGER"
MESSAGES = (
    "CREATE TABLE session_message(id, session_id, type, seq, time_created, time_updated, data);"
)


def has(found, **expected):
    assert {key: found[key] for key in expected} == expected


def history(prefix, session, later=0):
    """A prompt and an answer with a call, as rows of the second generation."""
    tokens = {"input": 100, "output": 20, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    state = {"status": "completed", "input": {"command": "ls"}, "output": "x"}
    content = [{"type": "tool", "id": "c1", "name": "bash", "state": state}]
    said = [
        ("user", {"text": "hello"}),
        ("assistant", {"content": content, "tokens": tokens, "cost": 0.01,
                       "model": {"id": "gpt-5", "providerID": "openai"}, "finish": "stop"}),
    ]  # fmt: skip
    return [
        (f"{prefix}{n}", session, kind, n, T + n + later, T + n + later, data)
        for n, (kind, data) in enumerate(said)
    ]


@pytest.mark.parametrize("boundary", ["msg_b1", "msg_f1", '{"seq": 1}', None])
def test_what_a_fork_of_opencode_2_copies_counts_once(tmp_path, boundary):
    own = ("msg_f2", "ses_f", "assistant", 2, T + 9000, T + 9000,
           {"content": [{"type": "text", "text": "another way"}], "tokens": {"input": 7, "output": 3},
            "model": {"id": "gpt-5"}, "finish": "stop"})  # fmt: skip
    path = database(
        tmp_path / "opencode.db",
        f"CREATE TABLE session_v2({SESSION}, fork_session_id TEXT, fork_boundary TEXT);{MESSAGES}",
        session_v2=[
            ("ses_b", "global", "/home/dev/p", "One", T, T, None, None),
            ("ses_f", "global", "/home/dev/p", "Renamed", T + 8000, T + 8000, "ses_b", boundary),
        ],
        # the copies have other ids and other times
        session_message=[*history("msg_b", "ses_b"), *history("msg_f", "ses_f", 8000), own],
    )
    assert recognition(registry.importers(), path, head_of(path)).importer.name == "opencode"
    has(yields(path, tmp_path), runs=2, calls=1, spends=2, input=107, output=23, forks=1, cost=0.01)
    with closing(sqlite3.connect(path)) as store:  # then the fork is all there is
        store.execute("DELETE FROM session_v2 WHERE id = 'ses_b'")
        store.execute("DELETE FROM session_message WHERE session_id = 'ses_b'")
        store.commit()
    has(yields(path, tmp_path / "alone"), runs=1, calls=1, spends=2, input=107, output=23)


def test_a_fork_of_opencode_with_another_title_is_recognised_by_its_first_turn(tmp_path):
    def rows(session, prefix):
        user = {"role": "user", "time": {"created": T}}
        tokens = {"input": 100, "output": 20, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        answer = {
            "role": "assistant",
            "time": {"created": T + 1, "completed": T + 2},
            "modelID": "gpt-5",
        }
        messages = [
            (f"{prefix}m{n}", session, T + n, T + n, each) for n, each in enumerate((user, answer))
        ]
        state = {"status": "completed", "input": {}, "output": "x", "time": {"start": T, "end": T}}
        if prefix == "a":  # it was cut after the fork
            state["time"]["compacted"] = T + 99
        parts = [
            (f"{prefix}p0", f"{prefix}m0", session, T, T, {"type": "text", "text": "hello"}),
            (f"{prefix}p1", f"{prefix}m1", session, T, T,
             {"type": "tool", "callID": "c1", "tool": "bash", "state": state}),
            (f"{prefix}p2", f"{prefix}m1", session, T, T, {"type": "step-finish", "tokens": tokens}),
        ]  # fmt: skip
        return messages, parts

    first, second = rows("ses_1", "a"), rows("ses_2", "b")
    path = database(
        tmp_path / "opencode.db",
        f"CREATE TABLE session({SESSION}); CREATE TABLE message(id, session_id, time_created, time_updated, data);"
        "CREATE TABLE part(id, message_id, session_id, time_created, time_updated, data);",
        session=[("ses_1", "global", "/p", "One", T, T), ("ses_2", "global", "/p", "Mine", T + 5, T + 5)],
        message=[*first[0], *second[0]],
        part=[*first[1], *second[1]],
    )  # fmt: skip
    has(yields(path, tmp_path), runs=2, calls=1, spends=1, input=100, forks=1)


TASK = "1767225700000"


def kilo(home, *, slug=TASK, task=True):
    """A home in which Kilo copied a task of its older program into its database, and went on."""
    digest = sha1(TASK.encode()).hexdigest()[:26]
    id = f"ses_migrated_{digest}"
    none = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    old = {"modelID": "legacy", "providerID": "legacy", "tokens": none, "cost": 0}
    made = {"created": T, "completed": T}
    messages = [
        (f"msg_migrated_{digest}0", id, T, T, {"role": "user", "time": {"created": T}}),
        (f"msg_migrated_{digest}1", id, T, T, {"role": "assistant", "time": made, **old}),
        ("msg_zz", id, T + 9000, T + 9000, {"role": "user", "time": {"created": T + 9000}}),
    ]
    state = {"status": "completed", "input": {"command": "ls"}, "output": "listed"}
    parts = [
        ("prt_migrated_1", messages[0][0], id, T, T, {"type": "text", "text": "build it"}),
        ("prt_migrated_2", messages[1][0], id, T, T,
         {"type": "tool", "callID": "c", "tool": "execute_command", "state": state}),
        ("prt_3", "msg_zz", id, T, T, {"type": "text", "text": "go on"}),
    ]  # fmt: skip
    database(
        home / ".local" / "share" / "kilo" / "kilo.db",
        f"CREATE TABLE session({SESSION}, slug TEXT); CREATE TABLE message(id, session_id, time_created,"
        " time_updated, data); CREATE TABLE part(id, message_id, session_id, time_created, time_updated, data);",
        session=[(id, "global", "/home/dev/p", "build it", T, T, slug)],
        message=messages,
        part=parts,
    )  # fmt: skip
    if task:
        counts = orjson.dumps({"tokensIn": 100, "tokensOut": 10, "cost": 0.02}).decode()
        ui = [("say", "text", "build it"), ("say", "api_req_started", counts),
              ("ask", "command", "ls"), ("say", "command_output", "listed")]  # fmt: skip
        storage = home / ".config" / "Code" / "User" / "globalStorage" / "kilocode.kilo-code"
        document(storage / "tasks" / TASK / "ui_messages.json",
                 [{"ts": T + n, "type": kind, kind: sub, "text": text}
                  for n, (kind, sub, text) in enumerate(ui)])  # fmt: skip
    return home


@pytest.mark.parametrize("slug", [TASK, None, "quiet-river"])
def test_a_task_of_kilo_and_the_session_made_from_it_are_one_run(tmp_path, slug):
    home = kilo(tmp_path / "user", slug=slug)
    has(yields(home, tmp_path), runs=1, calls=1, open=0, spends=1, input=100, output=10, cost=0.02,
        project="/home/dev/p", titles={"build it"})  # fmt: skip


def test_a_session_of_kilo_whose_task_is_gone_is_read(tmp_path):
    home = kilo(tmp_path / "user", task=False)
    found = yields(home, tmp_path)
    has(found, runs=1, prompts=2, calls=1, open=0, spends=0)
    assert "legacy" not in found["models"]
    reader = registry.importer("opencode")
    path = home / ".local" / "share" / "kilo" / "kilo.db"
    runs = {orjson.loads(line)["run"] for line in reader.read(path)}
    assert runs == {run_id("cline", TASK)}


def chat(folder, words):
    text = f"\n# aider chat started at 2026-01-02 03:04:05\n\n#### {words}\n\nDone.\n"
    return document(folder / ".aider.chat.history.md", text.encode())


def test_the_project_of_a_session_of_aider_is_the_folder_of_its_history(tmp_path):
    """Two sessions that began in the same second are two runs; a folder that was renamed is one."""
    chat(tmp_path / "one", "first")
    path = chat(tmp_path / "two", "second")
    with Home(tmp_path / "home", durability="os") as home:
        importing = Importing(home)
        importing.bring(importing.below([tmp_path / "one", tmp_path / "two"]))
        home.index.catch_up()
        found = {row["title"]: row["project"] for row in ask(home, "runs")}
        assert found == {"first": str(tmp_path / "one"), "second": str(tmp_path / "two")}
        (tmp_path / "two").rename(tmp_path / "three")
        importing.bring([tmp_path / "three" / path.name])
        assert len(ask(home, "runs")) == 2
