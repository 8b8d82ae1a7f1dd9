"""The table of `make agents`: a cell that is not right is excused only by what a program never sent."""

import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts" / "agents"))

from command_lines import missing, unsent
from command_lines_setup import CHANNELS, COLUMNS, PROGRAMS
from model_server import Told
from relay import relay

OPENCODE = PROGRAMS["opencode"]
CALLS = Told(calls=3, side_calls=1)
LOST = "2 of 4"


def telemetry(*counts: int) -> list[bytes]:
    """Bodies with so many spans of each name that a model call has."""
    return [
        b'{"name":"%s"}' % name.encode() * n
        for name, n in zip(OPENCODE.call_spans, counts, strict=True)
    ]


@pytest.mark.parametrize(
    ("counts", "said"), [((4, 4), None), ((4, 2), "2 of 4"), ((0, 4), "0 of 4")]
)
def test_a_span_that_is_not_in_the_telemetry_was_not_sent(counts, said):
    reason = unsent(OPENCODE, telemetry(*counts), CALLS)
    assert reason is None if said is None else said in reason


def test_a_program_that_sends_all_it_has_has_no_such_excuse():
    assert all(unsent(PROGRAMS[name], [], CALLS) is None for name in PROGRAMS if name != "opencode")


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_channels_together_have_no_excuse_but_what_was_never_sent(name, column):
    assert missing(PROGRAMS[name], CHANNELS, column, None) is None


def test_a_cell_is_excused_only_if_no_channel_can_know_it():
    assert missing(OPENCODE, ("otlp",), "words", None) is None
    assert missing(OPENCODE, ("otlp",), "words", LOST) == LOST
    assert missing(OPENCODE, ("hooks", "otlp"), "words", LOST) is None  # its hooks have the words
    assert LOST in missing(OPENCODE, CHANNELS, "tokens", LOST)  # only telemetry has the title


@pytest.mark.parametrize("status", [200, 503])
def test_the_relay_passes_bodies_and_answers_on_unchanged_and_keeps_the_bodies(status):
    taken = []

    class Target(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append((self.path, self.headers["Content-Type"], body))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"an answer")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Target)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        with relay(f"http://127.0.0.1:{server.server_port}") as (url, sent):
            kind = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}/v1/traces", b"\x00spans", kind)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    told = answer.status, answer.read()
            except urllib.error.HTTPError as refusal:
                told = refusal.code, refusal.read()
        assert told == (status, b"an answer")
        assert sent == [b"\x00spans"]
        assert taken == [("/v1/traces", "application/json", b"\x00spans")]
    finally:
        server.shutdown()
        server.server_close()
