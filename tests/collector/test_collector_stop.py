"""SIGTERM in the middle of everything: what has arrived is answered, what has not is told so."""

import gzip
import signal
import subprocess
import sys

import orjson
import pytest
from google.rpc.status_pb2 import Status

from support.collecting import Collector, asks, collector, start, tool
from support.waiting import eventually
from tracklog.home.home import Home

MANY = b"".join(tool("many", step=n) + b"\n" for n in range(2000))


def post(path: str, size: int, kind: str = "application/x-ndjson", more: str = "") -> bytes:
    lines = f"Host: localhost\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n{more}\r\n"
    return f"POST {path} HTTP/1.1\r\n{lines}".encode()


def heard(socket) -> bytes:
    """All that comes until the other end closes."""
    found = b""
    while read := socket.recv(1 << 16):
        found += read
    return found


@pytest.fixture
def server(tmp_path):
    made = Collector(tmp_path, limits={"stopping_seconds": 2, "overflow_seconds": 1})
    yield made
    made.stop()


def test_a_stop_answers_whatever_is_under_way(server):
    """Each request at another point; only what is acknowledged is kept, and all of that."""
    assert server.post([start("a"), asks("a", "q1")]).json()["accepted"] == 2
    packed = gzip.compress(MANY)
    sent = {
        "half a body": post("/api/events", 1000) + start("half"),
        "half an upload": post("/v1/logs", 99, "application/x-protobuf") + b"\x0a",
        "half a packed body": post("/api/events", len(packed), more="Content-Encoding: gzip\r\n")
        + packed[: len(packed) // 2],
        "half a header": post("/v1/traces", 99, "application/json")[:-2],
        "a late body": post("/api/events/kahn-agent", len(MANY)) + MANY[:5000],
        "a long poll": b"GET /api/inbox/q1/answer?wait=50 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a stream": b"GET /api/stream?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "nothing": b"",
    }
    open_ = {name: server.raw() for name in sent}
    for name, request in sent.items():
        open_[name].sendall(request)
    assert open_["a stream"].recv(10) == b"HTTP/1.1 2"
    assert server.get("/healthz").status_code == 200  # all that was sent before has arrived by now
    server.process.send_signal(signal.SIGTERM)
    assert eventually(lambda: any("stopping" in line for line in server.said))
    open_["a late body"].sendall(MANY[5000:])
    said = {name: heard(each) for name, each in open_.items()}
    for each in open_.values():
        each.close()
    assert server.process.wait(30) == 0

    for name in ("half a body", "half a packed body"):
        assert said[name].startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in said[name]
        assert orjson.loads(said[name].partition(b"\r\n\r\n")[2])["hint"]
    for name in ("half an upload", "half a header"):
        assert said[name].startswith(b"HTTP/1.1 503 ")
    status = Status.FromString(said["half an upload"].partition(b"\r\n\r\n")[2])
    assert (status.code, "stopping" in status.message) == (14, True)
    assert said["a late body"].startswith(b"HTTP/1.1 200 ")
    assert b'"accepted":2000' in said["a late body"]
    assert said["a long poll"].startswith(b"HTTP/1.1 204 ")
    assert said["a stream"].endswith(b"\r\n0\r\n\r\n")
    assert said["nothing"] == b""
    server.stop()
    assert {line["level"] for line in server.logs} == {"info"}
    with Home(server.home, readonly=True) as home:
        assert home.journal.last == 2002


def test_an_answer_that_nobody_reads_is_given_up(tmp_path):
    """It would hold the run in memory for as long as its client pleases."""
    with collector(tmp_path, limits={"stalled_seconds": 1}) as server:
        lines = [tool("long", step=n, output="x" * 20_000) for n in range(1000)]
        assert server.post(lines).json()["accepted"] == 1000
        with server.raw() as stuck:
            stuck.sendall(b"GET /api/export/jsonl/kahn/long HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert stuck.recv(10) == b"HTTP/1.1 2"
            counted = 'tracklog_requests_total{method="GET",route="/api/export'
            assert eventually(lambda: counted in server.get("/metrics").text)
            assert not heard(stuck).endswith(b"\r\n0\r\n\r\n"), "it is not passed off as whole"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("what", ["collector", "witness"])
def test_a_stop_as_soon_as_the_address_is_printed_is_a_clean_one(tmp_path, what, name):
    """Whoever waits for the address may stop the program at once."""
    made = {
        "collector": "from tracklog.collector.app import Collector\n"
        "from tracklog.collector.server import listen, serve\n"
        "from tracklog.home.home import Home\n"
        "served = Collector(Home(sys.argv[1]))\n",
        "witness": "from tracklog.cli._witness_server import WitnessServer, serve\n"
        "from tracklog.collector.server import listen\n"
        "from tracklog.journal.checkpoints.witness import Witness\n"
        "served = WitnessServer(Witness(Path(sys.argv[1])))\n",
    }
    program = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        f"{made[what]}"
        "serve(served, listen('127.0.0.1', 0), lambda: signal.raise_signal(signal." + name + "))\n"
        "print('ended')\n"
    )
    command = [sys.executable, "-c", program, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    if what == "collector":
        logs = [orjson.loads(line) for line in done.stderr.splitlines()]
        assert [line["event"] for line in logs] == ["stopping", "stopped"]
        assert logs[0]["signal"] == name
