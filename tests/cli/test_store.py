"""`--store`: every verb works on PostgreSQL as it does on a folder."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from support import servers
from support.forking import tracklog
from support.servers import postgres, store_url
from tracklog.home import registry
from tracklog.home.home import Home, act
from tracklog.journal.copying import _frames
from tracklog.journal.journal import Journal
from tracklog.journal.postgres import schema as tables
from tracklog.journal.storages.postgresql import PostgresStorage
from tracklog.model.own_notes import PRUNE
from tracklog.testing import Clock, frames_of

SAMPLES = Path(__file__).parents[1] / "samples"


def line(number: int, run: str = "r1") -> bytes:
    origin = {"writer": "test", "fidelity": "observed"}
    native = {"id": f"{number:032x}", "run": run, "at": "2026-05-05T09:00:00Z", "fact": "Noted"}
    return json.dumps({**native, "label": "n", "data": {"n": number}, "origin": origin}).encode()


def run(*arguments, code=0, store=None, given=b"", errors=False):
    environment = dict(os.environ)
    if store:
        environment["TRACKLOG_STORE"] = store
    done = tracklog(None, *arguments, given=given, env=environment, timeout=600)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return (done.stdout + (done.stderr if errors else b"")).decode()


@pytest.fixture
def places(tmp_path):
    """The options of a folder and of a database with the same lines in both."""
    lines = b"".join(
        path.read_bytes() for path in sorted(SAMPLES.glob("dialects/kahn-agent/good/*.jsonl"))[:3]
    )
    folder = ("--home", tmp_path / "home")
    database = ("--store", store_url(tmp_path), "--home", tmp_path / "caches")
    for place in (folder, database):
        run("record", *place, given=lines)
    return folder, database


TIMES = {"received", "head", "silent_seconds", "age_seconds", "last_activity", "skew_ms"}
TIMES |= {"first_received", "last_received", "first_heard", "last_heard"}
"""What depends on when a place received the lines."""


def without_times(text: str) -> object:
    def clean(value):
        if isinstance(value, dict):
            return {key: clean(each) for key, each in value.items() if key not in TIMES}
        return [clean(each) for each in value] if isinstance(value, list) else value

    return clean([json.loads(line) for line in text.splitlines()])


def test_every_question_is_answered_alike(places, monkeypatch):
    folder, database = places
    first = json.loads(run("runs", "--json", *folder).splitlines()[0])["run"]
    for verb in (
        ("runs", "--json"),
        ("show", first, "--json"),
        ("story", first, "--json"),
        ("events", first, "--json"),
        ("tools", "--json"),
        ("costs", "--json"),
        ("search", "count*", "--json"),
        ("findings", "--json"),
        ("tree", "--json"),
        ("verify", "--json"),
        ("query", "SELECT key, seq FROM runs ORDER BY key", "--json"),
    ):
        one, other = (without_times(run(*verb, *place)) for place in places)
        different = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
        assert not [
            {key: (a[key], b[key]) for key in a if a[key] != b[key]} for a, b in different
        ], verb
        assert one or verb[0] in ("costs", "findings", "search"), verb
    url = database[1]
    assert run("events", first, "--raw", store=url) == run("events", first, "--raw", *folder)


def test_verbs_that_change_the_record(places):
    _, database = places
    row = json.loads(run("runs", "--json", *database).splitlines()[0])
    event = json.loads(run("events", row["run"], "--json", *database).splitlines()[1])
    run("erase", row["run"], event["seq"], "--reason", "asked for", "--yes", *database)
    report = json.loads(run("verify", "--json", *database))
    assert (report["ok"], report["erased"]) == (True, [event["seq"]])
    run("rebuild", *database)
    assert "cannot be read" not in run("tail", "--json", "-n", "3", *database)
    run("exec", *database, "--", "echo", "hello")
    assert len(run("runs", "--json", *database).splitlines()) == 4
    pruned = json.loads(run("prune", "--older-than", "1h", "--json", *database))
    assert pruned["records"] == 0


def test_a_database_is_examined_and_backed_up_like_a_folder(places, tmp_path):
    _, database = places
    one, other = (
        {each["name"]: each for each in map(json.loads, run("doctor", "--json", *p).splitlines())}
        for p in places
    )
    assert set(one) - set(other) == {"quarantine"}
    assert {each["state"] for each in other.values()} == {"ok"}
    assert other["chain"]["message"] == one["chain"]["message"]
    head = json.loads(run("backup", tmp_path / "copy", "--json", *database))["head"]
    assert json.loads(run("verify", "--json", *database))["head"] == head
    run("verify", "--anchor", head, "--home", tmp_path / "copy")
    events = [
        run("tail", "--json", "-n", "99", *p) for p in (database, ("--home", tmp_path / "copy"))
    ]
    assert events[0] == events[1]


def test_doctor_names_what_is_wrong_with_a_database(places, tmp_path):
    _, database = places
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        schema = f"tracklog_{servers.tenant(tmp_path)}_0"
        connection.execute(f"UPDATE {schema}.groups SET root = sha256(root) WHERE first = 1")
    checks = {
        each["name"]: each
        for each in map(json.loads, run("doctor", "--json", *database, code=1).splitlines())
    }
    assert "chain" in checks, checks
    assert checks["chain"]["state"] == "error"
    assert "tracklog verify --store URL" in checks["chain"]["remedy"]
    url = database[1].replace(servers.tenant(tmp_path), "nobody")
    (_, check) = map(json.loads, run("doctor", "--json", "--store", url, code=1).splitlines())
    assert (check["name"], check["state"]) == ("home", "error")
    assert "tracklog store init" in check["remedy"]
    assert postgres().password not in str(checks) + str(check)


def test_records_that_were_moved_to_an_archive_are_in_every_answer(places, tmp_path):
    folder, database = places
    archive = tmp_path / "archive"
    said = run("archive", archive, *database, "--hot", "0m", errors=True)
    count = int(re.search(r"(\d+) records archived", said)[1])
    assert f"{count} records and 0 large values moved to the archive" in said
    assert f"{count} records of these in an archive" in run("store", "status", store_url(tmp_path))
    run("rebuild", *database)  # it reads them again
    for question in (("tail", "-n", "99", "--raw"), ("runs", "--json")):
        one, other = (run(*question, *place) for place in places)
        other = "".join(
            row for row in other.splitlines(keepends=True) if '"run":"operations"' not in row
        )
        assert one == other or without_times(one) == without_times(other)
    assert f"{count} records: proven" in run("verify", *database)
    run("store", "copy", store_url(tmp_path), f"file:{tmp_path / 'copy'}")
    assert f"{count + 1} records: proven" in run("verify", "--home", tmp_path / "copy")
    said = run("archive", tmp_path / "other", *folder, "--hot", "0m", code=2, errors=True)
    assert "only a journal in PostgreSQL" in said
    said = run("serve", *folder, "--hot", "7d", code=2, errors=True)
    assert "give --store and --archive" in said


def test_what_needs_a_folder_says_what_to_do(places):
    _, database = places
    flow = next((SAMPLES.parents[1] / "examples" / "workflow").glob("*.y*ml"))
    said = run("host", "workflow", "run", flow, *database, code=2, errors=True)
    assert "this works on a folder" in said
    assert postgres().password not in said


@pytest.fixture
def odd_home(tmp_path):
    """A folder with an erased record, a batch key, a refused line, a blob and a pruned beginning."""
    place = tmp_path / "home"
    with Home(place, segment_size=2000, clock=Clock()) as home:
        for number in range(0, 60, 3):
            lines = [line(each, f"r{each % 2}") for each in range(number, number + 3)]
            home.intake.admit(lines, batch=f"key-{number}")
        home.intake.admit([b"no json"])
        home.blobs.put(b"large")
        home.erase("r1", 50, reason="asked for", by="op")
        moment = home.journal.read(30, 1)[0].received
        done = home.store.prune(moment, at="2026-05-05T09:00:00.000Z")
        home.record_act(act(PRUNE, "op", through=done.through, records=done.records))
        home.intake.admit([line(99, "r1")])
    return place


def everything(url):
    """What a copy must not change."""
    storage = registry.storage(url, readonly=True)
    try:
        marks = storage.offsets(Journal(storage.store))
        return {
            "frames": list(_frames(storage.store)),
            "links": list(storage.store.links()),
            "head": storage.store.head(),
            "origin": storage.store.origin(),
            "refused": list(_frames(storage.refused)),
            "blobs": [storage.blobs.get(name) for name in storage.blobs.list()],
            "marks": [(each, at) for each in marks.sources() if (at := marks.place(each))],
        }
    finally:
        storage.close()


def test_a_copy_to_postgresql_and_back_is_the_same_record(odd_home, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    url, back = store_url(tmp_path), tmp_path / "back"
    there = json.loads(run("store", "copy", f"file:{odd_home}", url, "--json"))
    first = everything(f"file:{odd_home}")  # with the note of who copied it
    assert first["origin"].through
    assert len(first["marks"]) > 5
    assert there["head"] == str(first["head"])
    assert everything(url) == first
    assert postgres().password not in there["target"]
    run("store", "copy", url, f"file:{back}")
    assert everything(f"file:{back}") == everything(url)
    run("verify", "--home", back, "--anchor", there["head"])
    there = json.loads(run("verify", "--json", "--home", back))
    status = json.loads(run("store", "status", url, "--json"))
    assert (status["head"], status["refused"], status["blobs"]) == (there["head"], 1, 1)


def test_a_copy_continues_where_the_last_one_ended(odd_home, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    url = store_url(tmp_path)
    run("store", "copy", f"file:{odd_home}", url)
    with Home(odd_home) as home:
        home.intake.admit([line(100, "r1"), line(101, "r2")])
        home.erase("r1", 61, reason="asked for", by="op")
    run("store", "copy", f"file:{odd_home}", url)
    assert everything(url) == everything(f"file:{odd_home}")
    run("record", "--store", url, given=line(102, "r1"))
    assert "another journal" in run("store", "copy", f"file:{odd_home}", url, code=2, errors=True)


def test_a_copy_of_postgresql_can_be_written_to(odd_home, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    url, back = store_url(tmp_path), tmp_path / "back"
    run("store", "copy", f"file:{odd_home}", url)
    run("store", "copy", url, f"file:{back}")
    for place in (("--store", url), ("--home", back)):
        given = line(99, "r1") + b"\n" + line(200, "r1")
        assert "1 accepted, 1 duplicate" in run("record", *place, given=given, errors=True)
        assert json.loads(run("verify", "--json", *place))["ok"]


def test_init_and_status(tmp_path, monkeypatch):
    url = store_url(tmp_path)
    assert "TRACKLOG_STORE" in run("store", "status", code=2, errors=True)
    assert "tracklog store init" in run("store", "status", url, code=2, errors=True)
    said = run("store", "init", url)
    assert "GRANT USAGE" in said
    assert postgres().password not in said
    assert run("store", "init", url) == said
    said = run("store", "status", url, errors=True)
    assert "warning: no synchronous standby" in said
    assert run("store", "status", "--store", url, errors=True) == said
    monkeypatch.setenv("TRACKLOG_STORE", url)
    assert run("store", "status", errors=True) == said
    monkeypatch.setenv("TRACKLOG_STORE", "postgresql://nobody@192.0.2.1/none")
    assert run("store", "status", url, errors=True) == said
    assert "not the URL of a database" in run("store", "status", "file:x", code=2, errors=True)


def test_a_tenant_gets_a_role_and_a_limit(tmp_path):
    url = store_url(tmp_path)
    said = run("store", "init", url, "--own-role")
    assert f"GRANT tracklog_{servers.tenant(tmp_path)}_owner TO writer;" in said
    said = run("store", "limit", url, "--max-rate", "5")
    assert "5 records per second, any number of bytes per day" in said
    status = run("store", "status", url, errors=True)
    assert re.search(r"limit: 5 records per second; \d+ bytes today \(UTC\)", status)


def test_dev_postgres_prints_a_url_that_works():
    folder = servers.folder()
    folder.chmod(0o755)
    command = [sys.executable, "-m", "tracklog", "dev", "postgres", "--cluster", "--folder", folder]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        run("record", "--store", url, "--home", folder / "caches", given=line(1))
        status = json.loads(run("store", "status", url, "--json"))
        assert (status["last"], status["warnings"]) == (1, [])
        assert [each["sync"] for each in status["standbys"]] == ["sync"]
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
        server.stdout.close()
        shutil.rmtree(folder)
    assert server.returncode == 0


def test_the_printed_rights_are_enough(tmp_path):
    """A writer appends, and adds partitions; a reader asks, and can change nothing."""
    url, tenant = store_url(tmp_path), servers.tenant(tmp_path)
    grants = json.loads(run("store", "init", url, "--json"))["grants"]
    users = {role: f"{role}_{tenant}" for role in ("writer", "reader")}
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        for name in users.values():
            connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'a-password-of-a-test'")
        for grant in grants:
            connection.execute(re.sub("|".join(users), lambda role: users[role[0]], grant))
    places = {
        role: re.sub(r"//[^@]*@", f"//{name}:a-password-of-a-test@", url)
        for role, name in users.items()
    }
    own = ("--home", tmp_path / "caches")
    run("record", "--store", places["writer"], *own, given=line(1))
    storage = PostgresStorage(places["writer"].removeprefix("postgresql:"), folders=tmp_path)
    with storage.store.writing() as (connection, _):
        tables.make_partition(connection, storage.store.schema, 9 * tables.PARTITION)
    storage.store.append(frames_of([b"{}"]))
    storage.close()
    assert "2 records: proven" in run("verify", "--store", places["reader"], *own)
    said = run("record", "--store", places["reader"], *own, given=line(2), code=2, errors=True)
    assert "check the user, the password and the rights" in said
    assert "a-password-of-a-test" not in said
