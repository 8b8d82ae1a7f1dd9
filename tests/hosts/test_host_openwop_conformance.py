"""`tracklog host openwop conformance URL`: the scenarios against our host, and against one that lies."""

import json
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from support.collecting import ENVIRONMENT
from support.forking import Tracklog, tracklog
from support.hosting import TOKEN, Process


def conformance(url: str, *arguments: str) -> tuple[int, str]:
    process = Tracklog(
        "host", "openwop", "conformance", url, *arguments,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**ENVIRONMENT, "TRACKLOG_TOKEN": TOKEN},
    )  # fmt: skip
    output, errors = process.communicate(timeout=120)
    assert "Traceback" not in errors
    return process.returncode, output


def test_an_address_where_nothing_answers_is_one_error(tmp_path):
    done = tracklog(tmp_path, "host", "openwop", "conformance", "http://127.0.0.1:1")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"error: no host answers at http://127.0.0.1:1: ")
    assert b"tracklog host openwop serve" in done.stderr


@contextmanager
def answering(status: int, body: bytes):
    """A web server that gives one answer to everything."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "what"),
    [
        (404, b'{"error": "no"}', b"404"),
        (200, b"<p>Hello</p>", b"without a discovery document"),
        (200, b"{}", b"without a discovery document"),
        (200, b"[]", b"without a discovery document"),
    ],
)
def test_an_address_of_something_else_is_one_error(tmp_path, status, body, what):
    with answering(status, body) as url:
        done = tracklog(tmp_path, "host", "openwop", "conformance", url)
    assert (done.returncode, done.stdout) == (2, b"")
    first = f"error: there is no OpenWOP host at {url}: /.well-known/openwop answers ".encode()
    assert done.stderr.startswith(first + what)
    assert b"tracklog host openwop serve" in done.stderr


def test_nothing_was_tested_if_every_scenario_was_skipped(tmp_path):
    with answering(200, b'{"protocolVersions": ["3.0"]}') as url:
        done = tracklog(tmp_path, "host", "openwop", "conformance", url, "--major", "2")
    assert done.returncode == 2
    assert b"0 passed, 0 failed" in done.stdout
    assert done.stderr.startswith(b"error: nothing was tested: every scenario was skipped")
    assert b"--major" in done.stderr


@pytest.mark.parametrize(
    ("given", "what"), [({}, "asks for a key"), ({"TRACKLOG_TOKEN": "x"}, "refuses this key")]
)
def test_a_key_that_the_host_does_not_take_is_one_error(tmp_path, given, what):
    with Process(tmp_path) as host:
        others = {name: ENVIRONMENT[name] for name in ENVIRONMENT.keys() - {"TRACKLOG_TOKEN"}}
        env = {**others, **given}
        done = tracklog(tmp_path, "host", "openwop", "conformance", host.url, env=env)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(f"error: the host at {host.url} {what}".encode())
    assert b"TRACKLOG_TOKEN" in done.stderr


@pytest.mark.requirement("WOP-83", "WOP-84", "WOP-85", "WOP-98")
def test_every_scenario_passes_on_our_own_host(tmp_path):
    with Process(tmp_path) as host:
        code, output = conformance(host.url, "--json")
        results = [json.loads(line) for line in output.splitlines()]
        assert [each for each in results if each["outcome"] != "passed"] == []
        assert (code, {each["major"] for each in results}) == (0, {1, 2})
        code, output = conformance(host.url, "--major", "2")
        assert output.splitlines()[-1].endswith("0 failed, 0 skipped")
        assert " v1 " not in output


def test_a_scenario_is_skipped_when_the_host_does_not_announce_what_it_needs(tmp_path):
    config = tmp_path / "host.yaml"
    config.write_text("conformance: false\nescalation: suppress\n")
    with Process(tmp_path / "home", "--config", str(config)) as host:
        code, output = conformance(host.url, "--json")
        results = {
            (r["major"], r["name"]): r["outcome"] for r in map(json.loads, output.splitlines())
        }
        assert code == 0
        assert results[1, "agent-reasoning-events"] == "skipped"
        assert results[1, "discovery"] == "passed"
        assert {outcome for (major, _), outcome in results.items() if major == 2} == {"skipped"}


def test_a_host_that_accepts_everything_and_does_nothing_fails():
    class Liar(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fixtures = ["conformance-noop", "conformance-approval"]
            body = json.dumps(
                {"protocolVersions": ["1.0", "2.0"], "preferredVersion": "2.0", "runId": "r",
                 "status": "completed", "fixtures": fixtures, "events": []}
            ).encode()  # fmt: skip
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815  # the names that the server calls

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        code, output = conformance(f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()
    assert code == 1
    assert "passed" not in output.splitlines()[0]
    assert output.splitlines()[-1].startswith("0 passed")
