"""What docs/promises.md and docs/how-to/security.md say of the collector, tried from outside."""

import contextlib
import fcntl
import gzip
import os
import re
import resource
import signal
import socket
import struct
import threading
import time
import zlib
from pathlib import Path

import orjson
import pytest
import zstandard

from promises.command import NDJSON, Serving, head, heard, run, status_of
from support.collecting import asks, start, tool
from support.disks import small_disk
from support.waiting import eventually

TOKEN = "0123456789abcdef"
MEMBER, FRAME = gzip.compress(b""), zstandard.compress(b"")
SKIPPED = b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"none"
POST = "/api/events/kahn-agent"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with Serving(tmp_path_factory.mktemp("home"), TRACKLOG_TOKEN=TOKEN) as made:
        yield made


def posted(size: int, *lines: str) -> bytes:
    kind = "Content-Type: application/x-ndjson"
    return head("POST", POST, kind, f"Content-Length: {size}", *lines)


def stored(zeros: int) -> bytes:
    """A gzip member of empty blocks, which unpack to nothing."""
    return MEMBER[:10] + b"\x00\x00\x00\xff\xff" * zeros + b"\x01\x00\x00\xff\xff" + bytes(8)


def costly(size: int) -> bytes:
    """A gzip member of many small blocks, each with Huffman tables of its own."""
    made, parts, at = zlib.compressobj(9, zlib.DEFLATED, 31), [], 0
    text = bytes(range(32, 128)) * 16
    while at < size:
        parts += [made.compress(text[: 60 + at % 40]), made.flush(zlib.Z_FULL_FLUSH)]
        at += len(parts[-1]) + len(parts[-2])
    return b"".join([*parts, made.flush()])


# Unpacking


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", MEMBER * 200_000),
        ("gzip", stored(1_000_000)),
        ("gzip", MEMBER[:3] + b"\x10" + MEMBER[4:10] + b"c" * 2_000_000),
        ("zstd", FRAME * 500_000),
        ("zstd", SKIPPED * 500_000),
        ("zstd", SKIPPED[:4] + struct.pack("<I", 4 << 20) + bytes(4 << 20)),
    ],
    ids=["members", "blocks", "comment", "frames", "skipped", "one skipped"],
)
def test_a_body_of_padding_is_refused_at_once(server, encoding, packed):
    before = server.seconds_of_cpu()
    answer = server.post(packed, Content_Encoding=encoding)
    assert (answer.status_code, "padding" in answer.json()["error"]) == (413, True)
    assert server.seconds_of_cpu() - before < 2


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)]
)
def test_a_body_may_be_packed_in_parts_up_to_a_number(server, encoding, pack):
    lines = [tool("parts", step=n) + b"\n" for n in range(300)]
    answer = server.post(b"".join(map(pack, lines)), Content_Encoding=encoding)
    assert answer.json()["accepted"] == 300
    part = pack(b" " * 40)  # blanks of one line
    assert server.post(part * 10_000, Content_Encoding=encoding).status_code == 200
    answer = server.post(part * 10_001, Content_Encoding=encoding)
    assert (answer.status_code, "10,000 parts" in answer.json()["error"]) == (413, True)


def test_a_bomb_is_refused_with_little_memory(tmp_path):
    bombs = {"gzip": gzip.compress(bytes(300 << 20)), "zstd": zstandard.compress(bytes(2 << 30))}
    with Serving(tmp_path, "--max-body", 4 << 20) as server:
        server.post([start("a")])
        before = server.peak_memory()
        for encoding, packed in bombs.items():
            answer = server.post(packed, Content_Encoding=encoding)
            assert (answer.status_code, "4,194,304" in answer.json()["error"]) == (413, True)
        assert server.peak_memory() - before < 100 << 20


def test_an_exporter_is_refused_a_bomb_as_others_are(server):
    for packed, encoding in ((MEMBER * 50_000, "gzip"), (SKIPPED * 50_000, "zstd")):
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": encoding}
        answer = server.http.post("/v1/traces", content=packed, headers=headers)
        assert answer.status_code == 413
        assert b"padding" in answer.content


@pytest.mark.long
def test_hostile_bodies_do_not_hold_up_the_others_and_end_when_their_clients_leave(tmp_path):
    """Each would take its five seconds of CPU time; together they would take minutes."""
    packed = costly(24 << 20)
    with Serving(tmp_path) as server:
        server.post([start("a")])
        rude = []
        for _ in range(30):
            made = server.raw(posted(len(packed), "Content-Encoding: gzip"))
            sender = threading.Thread(target=_send, args=(made, packed), daemon=True)
            sender.start()
            rude.append((made, sender))
        slowest = 0.0
        for n in range(20):
            began = time.monotonic()
            lines = b"".join(
                tool("a", step=100 * n + k, output="x" * 500) + b"\n" for k in range(100)
            )
            answer = server.post(gzip.compress(lines), Content_Encoding="gzip")
            assert answer.json()["accepted"] == 100
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < 20  # seconds, of a busy machine; alone it is a fraction of one
        for made, _ in rude:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.close()
        for _, sender in rude:
            sender.join(60)
        assert eventually(lambda: "tracklog_held_bytes 0" in server.get("/metrics").text)
        used = server.seconds_of_cpu()
        time.sleep(2)
        assert server.seconds_of_cpu() - used < 1, "nobody waits for it, and it goes on"


def _send(made: socket.socket, packed: bytes) -> None:
    with contextlib.suppress(OSError):
        made.sendall(packed)


def test_a_client_that_leaves_while_it_is_unpacked_stops_the_work(tmp_path):
    """It closes in the plain way, which looks like a client that only sends no more."""
    packed = costly(40 << 20)
    with Serving(tmp_path) as server:
        made = server.raw(posted(len(packed), "Content-Encoding: gzip"))
        made.sendall(packed)
        made.close()
        assert eventually(lambda: "tracklog_held_bytes 0" in server.get("/metrics").text)
        assert server.get("/api/events").json()["last"] == 0


# Headers


@pytest.mark.parametrize(
    "sent",
    [
        head("GET", "/healthz", "X: " + "y" * 70_000),
        head("GET", "/healthz", *[f"X-{n}: {'y' * 1000}" for n in range(70)]),
        head("GET", "/healthz", *[f"X-{n}: y" for n in range(300)]),
        head("GET", "/healthz?" + "y" * 70_000),
        head("GET", "/healthz", "X: " + "y" * 200_000),
    ],
    ids=["line", "all", "count", "target", "in one read"],
)
def test_a_header_over_64_kib_or_256_lines_is_431(server, sent):
    answer = server.ask(sent)
    assert status_of(answer) == 431
    assert b"65,536 bytes in 256 lines" in answer


def test_a_header_within_its_limits_is_taken(server):
    lines = [f"X-{n}: {'y' * 220}" for n in range(250)]
    answer = server.ask(head("GET", "/healthz", *lines, "Connection: close"))
    assert status_of(answer) == 200


@pytest.mark.parametrize(
    "after",
    [
        b"1;" + b"e" * 200_000,
        b"0\r\n" + b"".join(b"T-%d: t\r\n" % n for n in range(400)),
        b"0\r\nT: " + b"t" * 200_000,
        b"".join(b"1;" + b"e" * 100 + b"\r\n\n\r\n" for _ in range(5000)),
    ],
    ids=["extension", "trailers", "trailer", "extensions"],
)
def test_trailers_and_chunk_extensions_are_bounded_as_a_header_is(server, after):
    kind = "Content-Type: application/x-ndjson"
    with server.raw(head("POST", POST, kind, "Transfer-Encoding: chunked")) as made:
        with contextlib.suppress(OSError):
            made.sendall(after)
        assert status_of(heard(made)) == 431


def test_small_chunks_and_a_few_trailers_are_taken(server):
    body = tool("chunks") + b"\n"
    chunks = (
        b"".join(b"1;a=b\r\n%c\r\n" % byte for byte in body) + b"0\r\nT: t\r\nHost: evil\r\n\r\n"
    )
    lines = ("Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
    answer = server.ask(head("POST", POST, *lines, "Connection: close") + chunks)
    assert (status_of(answer), b'"accepted":1' in answer) == (200, True)


# A connection that ends on one side


def test_a_client_that_sends_no_more_gets_its_answer(server):
    body = tool("half") + b"\n"
    with server.raw(posted(len(body)) + body) as made:
        made.shutdown(socket.SHUT_WR)
        answer = heard(made)
    assert (status_of(answer), b'"accepted":1' in answer) == (200, True)
    with server.raw(head("GET", "/healthz") * 5) as made:
        made.shutdown(socket.SHUT_WR)
        assert heard(made).count(b"HTTP/1.1 200 OK") == 5
    with server.raw(head("GET", "/api/inbox/none/answer?wait=3")) as made:
        made.shutdown(socket.SHUT_WR)
        interim = b"HTTP/1.1 100 Continue\r\n\r\n"
        assert status_of(heard(made).replace(interim, b"")) == 204


def test_half_a_request_is_not_answered_for(server):
    with server.raw(posted(1000) + start("cut")) as made:
        made.shutdown(socket.SHUT_WR)
        assert heard(made) == b""
    assert eventually(lambda: "tracklog_held_bytes 0" in server.get("/metrics").text)


# A stop


def _locked(home):
    """The lock of a journal, as another writer holds it."""
    fd = os.open(home / "journal" / "lock", os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


@pytest.mark.long
@pytest.mark.parametrize("durability", ["sync", "os"])
def test_a_stop_ends_in_ten_seconds_whatever_is_under_way(tmp_path, durability):
    server = Serving(tmp_path, "--durability", durability)
    lines = [tool("a", step=n, output="x" * 20_000) for n in range(500)]
    assert server.post([start("a"), asks("a", "q"), *lines]).json()["accepted"] == 502
    packed, body = costly(24 << 20), tool("a") + b"\n"
    sent = {
        "unpacking": posted(len(packed), "Content-Encoding: gzip") + packed,
        "a slow body": posted(1000) + b"{",
        "a slow header": b"POST / HTTP/1.1\r\nHost:",
        "a stuck watcher": head("GET", "/api/stream?after=0"),
        "a stuck export": head("GET", "/api/export/jsonl/kahn/a"),
        "a long poll": head("GET", "/api/inbox/q/answer?wait=50"),
    }
    open_ = [server.raw() for _ in sent]
    for made, request in zip(open_, sent.values(), strict=True):
        threading.Thread(target=_send, args=(made, request), daemon=True).start()
    assert eventually(lambda: "tracklog_streams 1" in server.get("/metrics").text)
    lock = _locked(tmp_path)
    waiting = server.raw(posted(len(body)) + body)
    time.sleep(1)  # the post has arrived, and waits for the lock
    began = time.monotonic()
    assert server.stop(seconds=60) == 0
    assert time.monotonic() - began < 13  # seconds, of a busy machine
    os.close(lock)
    for each in (*open_, waiting):
        each.close()
    with Serving(tmp_path) as again:
        assert again.get("/api/events").json()["last"] == 502
    assert run("verify", "--home", tmp_path).returncode == 0


def test_a_second_signal_ends_it_sooner(tmp_path):
    server = Serving(tmp_path)
    server.post([start("a")])
    lock = _locked(tmp_path)
    body = tool("a") + b"\n"
    with server.raw(posted(len(body)) + body):
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 5  # with one signal it is ten
    os.close(lock)


# File descriptors, disk


@pytest.mark.parametrize("files", [64, 256])
def test_with_few_file_descriptors_it_answers_503_and_recovers(tmp_path, files):
    with Serving(tmp_path, files=files) as server:
        assert server.post([start("a")]).status_code == 200
        assert server.get("/api/runs").status_code == 200
        many = []
        for _ in range(400):
            made = socket.socket()
            made.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                made.connect(("127.0.0.1", server.port))
            many.append(made)
        asked = head("GET", "/api/events")
        assert eventually(
            lambda: b"retry-after" in (answer := server.ask(asked)) and b" 503 " in answer
        )
        for each in many:
            each.close()
        assert eventually(lambda: server.get("/healthz").status_code == 200)
        assert eventually(lambda: server.post([tool("a")]).status_code == 200)
        assert server.get("/api/runs").json()[0]["tool_calls"] >= 1
        assert server.process.poll() is None
    assert not [line for line in server.said if "Traceback" in line]


def _open_files(server) -> int:
    """The number that no descriptor of the server has reached."""
    return 1 + max(int(each.name) for each in Path(f"/proc/{server.process.pid}/fd").iterdir())


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs a limit that can be changed")
@pytest.mark.parametrize("left", [0, 2])
def test_when_file_descriptors_run_out_the_listener_survives(tmp_path, left):
    """Something else has taken all of them: the limit is lowered to what is open."""
    with Serving(tmp_path) as server:
        assert server.post([start("a")]).status_code == 200
        assert server.get("/api/runs").status_code == 200
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        few = (_open_files(server) + left, limits[1])
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, few)
        many = [server.raw(head("GET", "/healthz")) for _ in range(12)]
        answers = [status_of(each.recv(1000)) for each in many]
        assert {503} <= set(answers) <= {200, 503}
        assert server.get("/api/events").status_code in (200, 503)  # it needs a file to read from
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
        for each in many:
            each.close()
        assert eventually(
            lambda: status_of(server.ask(head("GET", "/healthz", "Connection: close"))) == 200
        )
        assert server.post([tool("a")]).status_code == 200
        assert server.get("/api/runs").json()[0]["tool_calls"] == 1
    assert not [line for line in server.said if "Traceback" in line]


def _check_reads(server, last: int) -> None:
    for path in ("/healthz", "/metrics", "/api/events", "/api/export/jsonl/kahn/a", "/"):
        assert server.get(path).status_code in (200, 503 if path == "/" else 200), path
    for path in ("/api/runs", "/api/runs/kahn/a", "/api/search?q=xx", "/api/tools", "/api/inbox"):
        answer = server.get(path)
        assert (path, answer.status_code) == (path, 200)
        assert answer.headers["tracklog-as-of"] == str(last)
    assert server.get("/api/runs").json()[0]["tool_calls"] == last - 1
    assert len(server.get("/api/events?limit=1000").json()["events"]) == last + 50


def _check_full(server, fill, free) -> None:
    lines = [tool("a", step=n, output="xx") for n in range(100)]
    assert server.post([start("a"), *lines]).json()["accepted"] == 101
    assert server.get("/api/runs").json()[0]["tool_calls"] == 100
    assert "tracklog-as-of" not in server.get("/api/runs").headers
    later = [tool("a", step=n, output="xx") for n in range(100, 150)]
    assert server.post(later).json()["accepted"] == 50  # and nobody has asked for them yet
    fill()
    for _ in range(3):
        answer = server.post([tool("a", step=n, output="y" * 5000) for n in range(20)])
        assert answer.status_code in (503, 507)
        assert answer.headers["retry-after"]
        assert answer.json()["error"]
        assert answer.json()["hint"]
    _check_reads(server, 101)
    free()
    assert server.post([tool("a", step=150)]).json()["last_seq"] == 152
    answer = server.get("/api/runs")
    assert answer.json()[0]["tool_calls"] == 151
    assert "tracklog-as-of" not in answer.headers


@pytest.mark.promise(
    "On a full disk, a failed write or a failed sync",
)
@pytest.mark.promise("After such an error no half-written record")
@pytest.mark.promise("The next append works again")
@pytest.mark.promise("If the index cannot be updated", "The header `Tracklog-As-Of` then names")
def test_a_full_disk_is_read_from_and_recovers_without_a_restart(tmp_path):
    with small_disk(tmp_path / "disk") as disk, Serving(disk / "home") as server:
        filler = disk / "filler"

        def fill() -> None:
            with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))

        def free() -> None:
            done = run("runs", "--home", disk / "home")
            assert (done.returncode, b"working  a" in done.stdout) == (0, True)
            assert b"as of record 101 of 151" in done.stderr
            filler.unlink()

        _check_full(server, fill, free)
    assert not [line for line in server.said if "Traceback" in line]


@pytest.mark.promise("On a full disk, a failed write or a failed sync")
@pytest.mark.promise("After such an error no half-written record")
@pytest.mark.promise("The next append works again")
def test_commands_on_a_full_disk_leave_a_record_that_verifies(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        home, filler = disk / "home", disk / "filler"
        lines = [start("a"), *(tool("a", step=n) for n in range(20))]
        assert run("record", "--home", home, input=b"\n".join(lines)).returncode == 0
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        long = tool("a", output="x" * 100_000) + b"\n"
        erase = ("erase", "a", 5, "--reason", "r", "--yes", "--home", home)
        for words, given in ((("record", "--home", home), long), (erase, b""), (erase, b"")):
            done = run(*words, input=given)
            assert (done.returncode, b"No space left" in done.stderr) == (2, True), done.stderr
            done = run("verify", "--home", home)
            assert (done.returncode, b"21 records: proven" in done.stdout) == (0, True), done.stdout
        filler.unlink()
        assert run(*erase).returncode == 0
        assert run("record", "--home", home, input=long).returncode == 0
        report = orjson.loads(run("verify", "--home", home, "--json").stdout)
        assert (report["ok"], report["erased"]) == (True, [5])


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs a limit that can be changed")
@pytest.mark.promise(
    "On a full disk, a failed write or a failed sync",
)
@pytest.mark.promise("After such an error no half-written record")
@pytest.mark.promise("The next append works again")
@pytest.mark.promise("If the index cannot be updated", "The header `Tracklog-As-Of` then names")
def test_where_files_cannot_grow_they_are_read_from_all_the_same(tmp_path):
    with Serving(tmp_path / "home") as server:

        def limit(size: int) -> None:
            limits = (size, resource.RLIM_INFINITY)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)

        _check_full(server, lambda: limit(1), lambda: limit(resource.RLIM_INFINITY))


@pytest.mark.promise("If there is no index yet, the answer is 503")
def test_on_a_disk_that_was_full_before_the_first_question_no_answer_is_empty(tmp_path):
    with small_disk(tmp_path / "disk") as disk, Serving(disk / "home") as server:
        filler, home = disk / "filler", disk / "home"
        assert server.post([start("a"), tool("a", output="xx")]).status_code == 200
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        paths = ("/api/runs", "/api/runs/kahn/a", "/api/search?q=health")
        for free in (0, 1, 2, 4, 8, 9, 12, 20):  # pages: each lets the index come a bit farther
            os.truncate(filler, filler.stat().st_size - 4096 * free)
            for path in paths:
                answer = server.get(path)
                if answer.status_code == 200 and free:
                    assert answer.json() not in ([], {})
                    continue
                assert (path, answer.status_code) == (path, 503)
                assert "tracklog prune" in answer.json()["hint"]
                assert answer.headers["retry-after"]
            done = run("runs", "--home", home)
            assert (done.returncode, b"working  a" in done.stdout) in [(2, False), (0, True)]
            assert done.returncode == 0 or b"tracklog prune" in done.stderr
        filler.unlink()
        assert [row["run"] for row in server.get("/api/runs").json()] == ["a"]


@pytest.mark.promise("If there is no index yet, the answer is 503")
def test_while_another_process_makes_the_first_index_no_answer_is_empty(tmp_path):
    with Serving(tmp_path / "home") as server:
        assert server.post([start("a")]).status_code == 200
        with (tmp_path / "home" / "index.db.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            answer = server.get("/api/runs")
            assert answer.status_code == 503
            assert answer.json()["error"]
        assert [row["run"] for row in server.get("/api/runs").json()] == ["a"]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs a limit that can be changed")
@pytest.mark.promise("If there is no index yet, the answer is 503")
def test_where_there_is_no_room_for_a_first_index_that_is_the_answer(tmp_path):
    """And not an empty list, which would say that nothing was recorded."""
    with Serving(tmp_path / "home") as server:
        assert server.post([start("a")]).status_code == 200
        for size, status in ((1, 503), (resource.RLIM_INFINITY, 200)):
            limits = (size, resource.RLIM_INFINITY)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limits)
            answer = server.get("/api/runs")
            assert answer.status_code == status
        assert [row["run"] for row in answer.json()] == ["a"]


@pytest.mark.promise("If the index cannot be updated", "The header `Tracklog-As-Of` then names")
@pytest.mark.promise("An answer of 200 to a `POST` means")
def test_while_another_process_indexes_an_answer_says_how_far_it_goes(tmp_path):
    with Serving(tmp_path / "home") as server:
        assert server.post([start("a")]).status_code == 200
        assert "tracklog-as-of" not in server.get("/api/runs").headers
        assert server.post([start("b"), tool("b")]).status_code == 200
        with (tmp_path / "home" / "index.db.lock").open("rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            answer = server.get("/api/runs")
            assert answer.headers["tracklog-as-of"] == "1"
            assert [row["run"] for row in answer.json()] == ["a"]
        answer = server.get("/api/runs")
        assert "tracklog-as-of" not in answer.headers
        assert {row["run"] for row in answer.json()} == {"a", "b"}


# Who may ask


def hosts(*names: str) -> list:
    return [pytest.param(name, id=name or "nothing") for name in names]


@pytest.mark.parametrize(
    "host",
    hosts(
        "evil.example", "evil.example:4318", "127.0.0.1.evil.com", "localhost.evil.com",
        "localhost@evil.com", "evil.com@localhost", "user:word@127.0.0.1", "[::1]evil.com",
        "[::1].evil.com", "[::1]:x", "[::1", "::1]", "[evil.com]", "[127.0.0.1]", "::1",
        "localhost:evil.com", "localhost:80:80", "localhost:99999", "localhost:-1",
        "localhost..", ".", "", ":", ":80", "127.0.0.1\\evil",
        "localhost evil.com", "localhost,evil.com", "0x7f.1", "2130706433", "127.1",
        "[::1%evil.com]", "xn--localhost", "localhost%00.evil.com", "evil.com:127.0.0.1",
    ),
)  # fmt: skip  # one list
def test_a_host_that_is_another_is_421(server, host):
    sent = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    assert status_of(server.ask(sent)) in (421, 400)
    sent = f"GET http://{host}/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    assert status_of(server.ask(sent)) in (421, 400)


@pytest.mark.parametrize(
    "host",
    hosts(
        "localhost", "LOCALHOST", "LocalHost:4318", "localhost.", "localhost.:80", "localhost:",
        "127.0.0.1", "127.0.0.1:9", "192.168.1.2:80", "[::1]", "[::1]:4318", "[2001:DB8::1]:80",
        "[::ffff:127.0.0.1]", socket.gethostname(), socket.gethostname().upper() + ":80",
    ),
)  # fmt: skip  # one list
def test_a_host_that_is_this_machine_is_taken(server, host):
    sent = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    assert status_of(server.ask(sent)) == 200


def test_a_request_without_a_host_or_with_two_is_refused(server):
    for lines in (
        "",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: localhost\r\nHost: evil\r\n",
    ):
        sent = f"GET /api/runs HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode()
        assert status_of(server.ask(sent)) in (400, 421)


def test_allowed_names_are_compared_as_names_are(tmp_path):
    with Serving(tmp_path, "--allow-host", "Recorder.Example:8443") as server:
        for host in ("recorder.example", "RECORDER.example:80", "recorder.example."):
            assert server.get("/healthz", headers={"Host": host}).status_code == 200
        for host in ("recorder.example.evil.com", "xrecorder.example", "example"):
            assert server.get("/healthz", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_beyond_loopback_a_token_of_16_characters_is_needed(tmp_path, host):
    for token, word in (
        ({}, b"there is no token"),
        ({"TRACKLOG_TOKEN": TOKEN[:15]}, b"16 at least"),
    ):
        done = run("serve", "--home", tmp_path, "--port", 0, "--host", host, env=token)
        assert (done.returncode, word in done.stderr) == (2, True)
        assert TOKEN[:15].encode() not in done.stderr
    done = run(
        "host", "openwop", "serve", "--home", tmp_path, "--port", 0, "--host", host,
        env={"TRACKLOG_TOKEN": TOKEN[:15]},
    )  # fmt: skip  # one command
    assert (done.returncode, b"16 at least" in done.stderr) == (2, True)


def test_a_token_of_16_characters_is_enough_and_a_short_one_on_loopback(tmp_path):
    with Serving(tmp_path / "a", "--host", "0.0.0.0", TRACKLOG_TOKEN=TOKEN) as server:
        assert server.get("/api/runs").status_code == 200
    with Serving(tmp_path / "b", TRACKLOG_TOKEN="short") as server:
        assert server.get("/api/runs").status_code == 200
        assert server.get("/api/runs", headers={"Authorization": "Bearer no"}).status_code == 401


def test_without_the_token_only_health_the_login_page_and_the_consoles_files_are_shown(guarded):
    bare = {"Authorization": ""}
    document = guarded.get("/api/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            asked = guarded.http.request(
                method, re.sub(r"\{\w+\}", "x", path), headers={**bare, **NDJSON}
            )
            free = (path, method) in {("/healthz", "get"), ("/", "get"), ("/login", "post")}
            assert free or asked.status_code == 401, (path, method)
    assert guarded.get("/healthz", headers=bare).json().keys() == {"status", "version"}
    page = guarded.get("/", headers=bare)
    assert (page.status_code, TOKEN not in page.text) == (401, True)


def test_wrong_logins_are_throttled_and_the_token_still_works(guarded):
    def login(token: str):
        return guarded.http.post("/login", data={"token": token}, headers={"Authorization": ""})

    seen = [login(f"wrong-{n}").status_code for n in range(15)]
    assert seen == [401] * 10 + [429] * 5
    refused = login(TOKEN)
    assert refused.status_code == 429, "what is right is not told apart from what is wrong"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "set-cookie" not in refused.headers
    assert guarded.get("/api/runs").status_code == 200


def test_wrong_logins_through_a_proxy_on_this_machine_are_counted_by_client(tmp_path):
    def login(client: str) -> int:
        headers = {"Authorization": "", "X-Forwarded-For": client}
        return server.http.post("/login", data={"token": "wrong"}, headers=headers).status_code

    with Serving(tmp_path, TRACKLOG_TOKEN=TOKEN) as server:
        assert [login("203.0.113.1") for _ in range(11)] == [401] * 10 + [429]
        assert login("203.0.113.2") == 401


def test_a_login_gives_a_cookie_that_is_not_the_token(tmp_path):
    with Serving(tmp_path, TRACKLOG_TOKEN=TOKEN) as server:
        bare = {"Authorization": ""}
        given = server.http.post("/login", data={"token": TOKEN}, headers=bare)
        cookie = given.headers["set-cookie"]
        assert given.status_code == 303
        assert {"httponly", "samesite=strict"} <= {p.strip().lower() for p in cookie.split(";")}
        assert TOKEN not in cookie
        assert server.get("/api/runs", headers=bare).status_code == 200  # by the cookie
    assert not [line for line in server.said if TOKEN in line]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.com"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_elsewhere_writes_nothing(server, headers):
    named = {"Host": "localhost", **headers}
    answer = server.http.post(POST, content=start("evil"), headers={**NDJSON, **named})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_what_a_form_sends_is_415(server):
    kinds = (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
    )
    for kind in kinds:
        answer = server.http.post(POST, content=start("form"), headers={"Content-Type": kind})
        assert answer.status_code == 415


# The limits of the table, as they are by default


def test_a_body_over_64_mib_is_413_and_a_line_over_16_mib_is_refused_alone(server):
    long = tool("long", output="x" * (17 << 20))
    answer = server.post([tool("long"), long, tool("long", step=2)])
    assert (answer.json()["accepted"], answer.json()["refused"]) == (2, 1)
    assert server.post(b"x" * ((64 << 20) + 1)).status_code == 413
    packed = gzip.compress(b" " * ((64 << 20) + 1))
    assert server.post(packed, Content_Encoding="gzip").status_code == 413
    packed = gzip.compress(b" " * (64 << 20))
    assert server.post(packed, Content_Encoding="gzip").status_code == 200


def test_a_body_of_more_than_250_000_lines_is_413_before_any_is_looked_at(tmp_path):
    with Serving(tmp_path) as server:
        server.post([start("a")])
        before = server.peak_memory()
        for lines in (b"\n" * (60 << 20), b"{\n" * 250_000):
            answer = server.post(gzip.compress(lines), Content_Encoding="gzip")
            assert (answer.status_code, "250,000 lines" in answer.json()["error"]) == (413, True)
        assert server.peak_memory() - before < 200 << 20
        assert server.post(b"\n" * 249_999).status_code == 200


def test_large_bodies_that_are_slow_leave_room_for_small_ones(server):
    """Four of 60 MiB fill what is for large bodies; the last of them is asked to come again."""
    slow = []
    for _ in range(4):
        made = server.raw(posted(60 << 20))
        slow.append(made)
        sender = threading.Thread(target=_send, args=(made, bytes((60 << 20) - 1)), daemon=True)
        sender.start()
        sender.join(60)
    held = r"tracklog_held_bytes (\d+)"
    most = 256 << 20
    assert eventually(lambda: int(re.search(held, server.get("/metrics").text)[1]) > most * 5 // 8)
    assert server.post([tool("small", output="x" * 500_000)]).status_code == 200
    for made in slow:
        made.close()
    assert eventually(lambda: "tracklog_held_bytes 0" in server.get("/metrics").text)


@pytest.mark.long
def test_slow_clients_are_closed_after_the_documented_time(tmp_path):
    """A header has 10 s, a pause in a body 20 s, a client that reads nothing 30 s."""
    with Serving(tmp_path, "--durability", "os") as server:
        for n in range(30):
            server.post([tool("big", step=n, output="x" * 900_000)])
        began = time.monotonic()
        sent = {
            "header": b"GET / HTTP/1.1\r\nHost: localhost\r\n",
            "silent": b"",
            "body": posted(100) + b"{",
            "exporter": head("POST", "/v1/logs", "Content-Type: application/json",
                             "Content-Length: 9") + b"{",
        }  # fmt: skip  # a table
        unread = server.raw(head("GET", "/api/export/jsonl/kahn/big"))
        found, at = {}, {}

        def wait(name: str, made: socket.socket) -> None:
            found[name] = status_of(heard(made))
            at[name] = time.monotonic() - began
            made.close()

        waits = [threading.Thread(target=wait, args=(n, server.raw(s))) for n, s in sent.items()]
        for each in waits:
            each.start()
        for each in waits:
            each.join()
        assert found == {"header": 408, "silent": 408, "body": 408, "exporter": 503}
        assert min(at["header"], at["silent"]) > 9
        assert min(at["body"], at["exporter"]) > 19
        counted = 'route="/api/export/{format}/{family}/{run}"'
        assert eventually(lambda: counted in server.get("/metrics").text)
        assert time.monotonic() - began > 25
        got = heard(unread)
        assert len(got) < 27_000_000, "it is not passed off as whole"
        unread.close()


# What an answer means


@pytest.mark.promise("An answer of 200 to a `POST` means")
def test_what_is_acknowledged_is_in_every_answer_and_survives_a_kill(tmp_path):
    server = Serving(tmp_path)
    answer = server.post([start("a"), tool("a"), b"{}"])
    assert (answer.json()["accepted"], answer.json()["refused"]) == (2, 1)
    assert server.get("/api/runs").json()[0]["tool_calls"] == 1
    assert server.get("/api/events").json()["last"] == 2
    server.stop(signal.SIGKILL)
    with Serving(tmp_path) as again:
        assert again.get("/api/events").json()["last"] == 2


@pytest.mark.promise(
    "A live stream sends every record after its cursor",
)
def test_a_stream_has_every_record_behind_its_cursor_once_and_in_order(server):
    last = server.get("/api/events").json()["last"]
    server.post([tool("stream", step=n) for n in range(50)])
    with server.raw(head("GET", f"/api/stream?after={last}")) as made:
        server.post([tool("stream", step=n) for n in range(50, 60)])
        done = run("record", "--home", server.home, "-", input=tool("stream", step=60) + b"\n")
        assert done.returncode == 0
        text = b""
        while text.count(b'\ndata: {"seq"') < 61:
            text += made.recv(1 << 16)
    ids = [int(n) for n in re.findall(rb"\nid: (\d+)\ndata: \{\"seq\"", text)]
    assert ids == list(range(last + 1, last + 62))
    with server.raw(head("GET", "/api/stream", f"Last-Event-ID: {last + 58}")) as made:
        text = b""
        while text.count(b'\ndata: {"seq"') < 3:
            text += made.recv(1 << 16)
    assert re.findall(rb"\nid: (\d+)\ndata: \{\"seq\"", text) == [
        b"%d" % (last + n) for n in (59, 60, 61)
    ]


@pytest.mark.promise(
    "The stream sends a `gap` only if",
)
def test_a_reset_is_sent_when_the_journal_is_shorter_than_the_cursor(server):
    with server.raw(head("GET", "/api/stream?after=999999999")) as made:
        text = b""
        while b"event: reset" not in text or b"event: heartbeat" not in text:
            text += made.recv(1 << 16)
    assert b"event: gap" not in text


@pytest.mark.promise(
    "If several people answer one question, the first answer",
)
def test_of_several_answers_the_first_counts_and_the_others_learn_who_won(server):
    server.post([start("ask"), asks("ask", "which")])
    first, second = (
        server.http.post("/api/inbox/which/answer", json={"answer": word, "by": word})
        for word in ("ann", "bob")
    )
    assert first.status_code == 200
    assert (second.status_code, second.json()["by"]) == (409, ["ann"])


def test_logs_are_json_and_hold_no_header_query_or_body(tmp_path):
    with Serving(tmp_path) as server:
        secret = "word-that-is-nowhere"
        server.get(f"/api/search?q={secret}", headers={"X-Secret": secret})
        server.post(secret.encode())
        server.get(f"/api/none?x={secret}")
    assert all(isinstance(line, dict) for line in server.logs)
    assert secret not in "".join(server.said)


def test_a_log_line_cannot_drive_a_terminal(tmp_path):
    home = tmp_path / "a\x1b]0;x\x07\x9b2J\u202eb"
    with Serving(home) as server:
        server.get("/healthz")
    said = "".join(server.said)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", said)
    assert orjson.loads(server.said[0])["home"] == str(home)


def test_files_belong_to_the_user_alone_and_no_name_of_a_client_is_a_path(server):
    line = {"id": "1", "run": "../../outside", "at": "2026-05-05T09:00:00Z", "fact": "Began"}
    line |= {"what": "run", "origin": {"writer": "test", "fidelity": "observed"}}
    assert server.post(orjson.dumps(line), "tracklog").json()["accepted"] == 1
    for path in [server.home, *server.home.rglob("*")]:
        assert not path.stat().st_mode & 0o077, path
        assert "outside" not in path.name


@pytest.mark.promise(
    "An answer with another status, or without the header `Tracklog-Protocol`",
)
def test_an_answer_that_is_not_200_has_recorded_nothing(server):
    line = tool("nothing")
    server.post([line], Idempotency_Key="taken")
    last = server.get("/api/events").json()["last"]
    url = f"http://127.0.0.1:{server.port}"
    answers = {
        403: server.post([line], Origin="http://evil.example"),
        404: server.post([line], "klingon"),
        409: server.post([line, line], Idempotency_Key="taken"),
        413: server.post([line, b"\n" * 250_000]),
        415: server.post([line], Content_Type="text/plain"),
        400: server.post(b"not packed", Content_Encoding="gzip"),
        405: server.http.put(f"{url}{POST}", content=line, headers=NDJSON),
    }
    assert {status: each.status_code for status, each in answers.items()} == {n: n for n in answers}
    good = server.get("/healthz")
    assert {each.headers["tracklog-protocol"] for each in [good, *answers.values()]} == {"1"}
    assert server.get("/api/events").json()["last"] == last


@pytest.mark.promise(
    "The stream sends a `gap` only if records after the cursor were pruned",
)
def test_a_gap_is_sent_when_records_after_the_cursor_were_pruned(tmp_path):
    with Serving(tmp_path) as server:
        server.post([start("a"), tool("a")])
    assert run("prune", "--older-than", "0d", "--open-too", "--home", tmp_path).returncode == 0
    with Serving(tmp_path) as server:
        for after, expected in ((0, True), (1, True), (2, False)):
            with server.raw(head("GET", f"/api/stream?after={after}")) as made:
                text = b""
                while b"\nid: 3\ndata: " not in text:
                    text += made.recv(1 << 16)
            assert (after, b"event: gap" in text) == (after, expected)
            assert b"event: reset" not in text


@pytest.mark.long
@pytest.mark.promise(
    "A slow reader falls behind and catches up",
    "A reader that reads nothing is disconnected",
    "No writer waits for either of them",
)
def test_no_writer_waits_for_slow_readers_and_they_miss_nothing(tmp_path):
    """Fifteen megabytes are more than the buffers of a connection hold."""
    with Serving(tmp_path, "--durability", "os") as server:
        server.post([start("a")])
        with (
            server.raw(head("GET", "/api/stream?after=0")) as stuck,
            server.raw(head("GET", "/api/stream?after=0")) as slow,
        ):
            assert eventually(lambda: "tracklog_streams 2" in server.get("/metrics").text)
            for n in range(60):
                lines = [tool("a", step=10 * n + k, output="x" * 25_000) for k in range(10)]
                assert server.post(lines).status_code == 200
            found = _numbers(slow, 601)
            slow.close()
            while not found or found[-1] < 601:  # it was too slow, and was disconnected
                at = found[-1] if found else 0
                with server.raw(head("GET", "/api/stream", f"Last-Event-ID: {at}")) as again:
                    found += _numbers(again, 601)
            assert found == list(range(1, 602))
            assert eventually(lambda: "tracklog_streams 0" in server.get("/metrics").text, 120)
            early = _numbers(stuck, 601)
        assert len(early) < 601
        with server.raw(head("GET", "/api/stream", f"Last-Event-ID: {len(early)}")) as again:
            assert early + _numbers(again, 601) == list(range(1, 602))


def _numbers(made: socket.socket, last: int) -> list[int]:
    """The numbers of the whole records that a stream sends, until the last one or its end."""
    text = b""
    wanted = b"\nid: %d\ndata: " % last
    with contextlib.suppress(ConnectionError):
        while wanted not in text and (part := made.recv(1 << 20)):
            text += part
    whole = text[: text.rfind(b"\n\n") + 1] if wanted not in text else text
    return [int(n) for n in re.findall(rb"\nid: (\d+)\ndata: \{\"seq\"", whole)]
