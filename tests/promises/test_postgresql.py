"""What differs if the record is in PostgreSQL, with a server that is killed and one that is away."""

import signal
import subprocess

import orjson
import psycopg
import pytest

from promises.command import NDJSON, TRACKLOG, Serving, environment, run
from support import servers
from support.collecting import ends, start, tool
from support.waiting import eventually


@pytest.fixture
def database():
    server = servers.new_server()
    server.bin = servers.reachable(server.bin)
    server.make()
    try:
        yield server.start()
    finally:
        server.remove()


def lines_of(url: str, name: str) -> list[bytes]:
    done = run("events", name, "--raw", "--store", url)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.promise(
    "The promises above hold for a journal in PostgreSQL",
    "`sync` means that the database has the lines on its disk",
    "While the database cannot be reached, nothing is acknowledged",
)
def test_acknowledged_lines_survive_a_kill_of_the_database_and_no_other_is_acknowledged(
    database, tmp_path
):
    lines = [start("r"), *(tool("r", step=n) for n in range(20))]
    url = database.url
    done = run("record", "--store", url, "--json", input=b"\n".join(lines) + b"\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b'"seq"') == len(lines)
    with Serving(tmp_path / "cache", "--store", url) as server:
        database.kill()
        answer = server.http.post("/api/events", content=tool("r", step=98), headers=NDJSON)
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        done = run("record", "--store", url, "--json", input=tool("r", step=99) + b"\n")
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"error:" in done.stderr
        database.start()
        assert lines_of(url, "r") == lines
        answer = server.http.post("/api/events", content=tool("r", step=98), headers=NDJSON)
        assert answer.json()["accepted"] == 1
    assert run("verify", "--store", url).returncode == 0


LINES = [start("r"), tool("r", step=1), ends("r"), tool("r", step=2)]


def acknowledged(url: str, durability: str) -> None:
    """Records the lines one by one, each when the one before has its number; then it is killed."""
    words = ["record", "--json", "--store", url, "--durability", durability]
    with subprocess.Popen(
        [TRACKLOG, *words, "--dialect", "kahn-agent"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        for number, line in enumerate(LINES, 1):
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            assert orjson.loads(process.stdout.readline())["seq"] == number
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.promise("`sync` (a journal's default) |", "`lifecycle` (a Recorder's default) |")
def test_what_survives_a_kill_of_the_database_at_once(database):
    """It writes to its disk only for whoever waits for that: its own writer sleeps meanwhile."""
    database.stop()
    database.settings |= {"wal_writer_delay": "10s", "checkpoint_timeout": "1h"}
    database.start()
    for word, survive in (("sync", 4), ("lifecycle", 3)):
        url = f"{database.url}?tenant={word}"
        acknowledged(url, word)
        database.kill()
        database.start()
        left = lines_of(url, "r")
        assert left == LINES[: len(left)]
        assert len(left) >= survive, word


@pytest.mark.promise("`interval` |", "`os` |", "`lifecycle` (a Recorder's default) |")
def test_every_durability_survives_a_kill_of_the_command_and_a_later_one_of_the_database(database):
    urls = {word: f"{database.url}?tenant={word}" for word in ("lifecycle", "interval", "os")}
    for word, url in urls.items():
        acknowledged(url, word)
        assert lines_of(url, "r") == LINES, "after a kill of the command"
    with psycopg.connect(database.url, autocommit=True) as connection:
        flushed = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()"
        assert eventually(lambda: connection.execute(flushed).fetchone()[0]), "in the background"
    database.kill()
    database.start()
    for url in urls.values():
        assert lines_of(url, "r") == LINES, "after a kill of the database"


@pytest.mark.promise("The promises above hold for a journal in PostgreSQL")
def test_numbers_keys_identities_offsets_bytes_and_the_proof_are_the_same(tmp_path):
    url, path = servers.store_url(tmp_path), tmp_path / "run.jsonl"
    spaced = start("r").replace(b":", b" : ", 1)
    lines, noted = (
        [spaced, tool("r"), tool("r")],
        '{"id":"1","run":"n","fact":"Noted","label":"%s",',
    )
    noted += '"at":"2026-05-05T09:00:00Z","origin":{"writer":"test","fidelity":"observed"}}'
    with (
        Serving(tmp_path / "one", "--store", url) as one,
        Serving(tmp_path / "other", "--store", url) as other,
    ):
        first = one.post([*lines, b"{}"], Idempotency_Key="k").json()
        assert (first["accepted"], first["refused"], first["last_seq"]) == (3, 1, 3)
        for server in (one, other):
            again = server.post([*lines, b"{}"], Idempotency_Key="k").json()
            assert again == first | {"replayed": True}
            assert server.post(lines, Idempotency_Key="k").status_code == 409
        for server, label, expected in (
            (one, "a", (1, 0, 0)),
            (other, "a", (0, 1, 0)),
            (other, "b", (0, 0, 1)),
        ):
            answer = server.post([(noted % label).encode()], "tracklog").json()
            counts = (answer["accepted"], answer["duplicate"], answer["refused"])
            assert counts == expected
        path.write_bytes(b"\n".join(lines) + b"\n")
        for expected in (b"3 accepted", b"0 accepted, 3 duplicate"):
            assert run("record", path, "--store", url).stderr.startswith(expected)
        events = other.get("/api/events?after=0").json()["events"]
        assert [each["seq"] for each in events] == list(range(1, 8))
    assert lines_of(url, "r") == lines * 2
    head = orjson.loads(run("verify", "--json", "--store", url).stdout)["head"]
    assert run("record", "--store", url, input=tool("r") + b"\n").returncode == 0
    assert run("verify", "--anchor", head, "--store", url).returncode == 0
    assert run("verify", "--anchor", f"7:{'0' * 64}", "--store", url).returncode == 1


@pytest.mark.promise("`erase` removes the bytes from the tables, and not from")
def test_erased_bytes_are_in_no_copy_that_is_made_afterwards(tmp_path):
    """Read by a copy to a folder, which has every table of the record."""
    url, secret = servers.store_url(tmp_path), b"correct-horse-battery"
    lines = [start("r"), start("r", task=secret.decode())]
    assert run("record", "--store", url, input=b"\n".join(lines) + b"\n").returncode == 0

    def copy(name: str) -> bytes:
        assert run("backup", tmp_path / name, "--store", url).returncode == 0
        return b"".join(
            each.read_bytes() for each in (tmp_path / name).rglob("*") if each.is_file()
        )

    assert secret in copy("before")
    done = run("erase", "r", 2, "--store", url, "--reason", "asked for", "--yes")
    assert done.returncode == 0, done.stderr
    assert secret not in copy("after")
    assert secret not in run("search", "horse", "--store", url).stdout
    assert run("verify", "--store", url).returncode == 0
