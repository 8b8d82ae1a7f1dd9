"""An agent asks a person: time-outs, two answers, dead agents and restarts have one outcome each."""

import contextlib
import importlib.util
import itertools
import json
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.collecting import Collector, collector, lasting_port
from support.forking import tracklog
from tracklog.dialects.checking import checker
from tracklog.dialects.rules import Lint
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.model.fact import Answered, Asked

CONTRACTS = Path(__file__).parents[2] / "contracts"
spec = importlib.util.spec_from_file_location("agent_of_asks", CONTRACTS / "kahn_agent_emit.py")
agents = importlib.util.module_from_spec(spec)
spec.loader.exec_module(agents)
BLOCKED = "blocked-on-clarification"
check = checker(registry.dialect("kahn-agent"))


def emitter(url, tmp_path, run="r1", **options):
    made = agents.AgentEmitter(
        run_id=run, url=url, spool=tmp_path / "spool", environ={}, validate=True, **options
    )
    return made.bind(agent_id="coder")


class Asking:
    """An agent that asks in a thread of its own."""

    def __init__(self, coder, *given, **more):
        self.answer, self.took = "none yet", 0.0
        self._thread = threading.Thread(target=self._ask, args=(coder, given, more), daemon=True)
        self._thread.start()

    def _ask(self, coder, given, more):
        began = time.monotonic()
        self.answer = coder.ask(*given, **more)
        self.took = time.monotonic() - began

    def done(self, seconds=60.0):
        self._thread.join(seconds)
        assert not self._thread.is_alive()
        return self.answer


def waiting(server, count=1, state="open"):
    """The questions of the inbox, once there are so many."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        rows = [row for row in server.get("/api/inbox").json() if row["state"] == state]
        if len(rows) >= count:
            return rows
        time.sleep(0.05)
    raise AssertionError(server.get("/api/inbox").json())


def answer(server, question, text, by="ada"):
    return server.http.post(f"/api/inbox/{question}/answer", json={"answer": text, "by": by})


def lines(home):
    with Home(home, readonly=True) as opened:
        return [json.loads(record.line) for record in opened.journal.records()]


def moves(home):
    return [
        (line["from"], line["to"], line.get("reason", "").partition(":")[0], line["step"])
        for line in lines(home)
        if line.get("event") == "agent_transition"
    ]


ASKED, WENT_ON = ("thinking", BLOCKED, "clarification"), (BLOCKED, "thinking", "operator_response")


def test_the_answer_of_a_person_reaches_the_agent_and_both_are_on_record(tmp_path):
    home = tmp_path / "home"
    with collector(home) as server:
        with emitter(server.url, tmp_path) as coder:
            coder.agent_run_start(task="Add /v2/health")
            coder.agent_transition(step=3, from_="thinking", to="tool_call")
            coder.agent_transition(step=3, from_="tool_call", to="tool_result")
            coder.agent_transition(step=3, from_="tool_result", to="response")
            coder.agent_transition(step=3, from_="response", to="reflect")
            coder.agent_transition(step=4, from_="reflect", to="thinking")
            asking = Asking(coder, "Which port?", 60)
            (row,) = waiting(server)
            assert (row["agent"], row["text"]) == ("coder", "Which port?")
            assert answer(server, row["question_id"], "4318").status_code == 200
            assert asking.done() == "4318"
            assert asking.took < 50  # not when its time was over
            coder.agent_transition(step=5, from_="thinking", to="failed")
        (row,) = waiting(server, state="answered")
        assert (row["answer"], row["answered_by"]) == ("4318", ["ada"])
        assert not row["answered_twice"]
    assert moves(home)[5:7] == [(*ASKED, 4), (*WENT_ON, 4)]
    told = lines(home)
    (words,) = [line for line in told if line.get("fact") == "Answered"]
    assert words["question_id"] == row["question_id"]
    assert (words["family"], words["answer"], words["by"]) == ("kahn", "4318", "ada")
    lint = Lint([registry.dialect("kahn-agent")])
    spoken = [json.dumps(line).encode() for line in told if "event" in line]
    assert [finding for line in spoken for finding in lint.add(check(line))] == []


def test_an_answer_may_be_any_json_and_is_redacted_on_record_only(tmp_path):
    home = tmp_path / "home"
    with collector(home) as server:
        redact = {"s3cret": "***"}
        coder = emitter(
            server.url, tmp_path, redact=lambda text: redact.get(text, text), deadline=10
        )
        for number, given in enumerate(({"a": [1, None]}, ["x"], 0, "s3cret")):
            asking = Asking(coder, "What?", question_id=f"q{number}")
            waiting(server)
            assert answer(server, f"q{number}", given).status_code == 200
            assert asking.done() == given
        coder.close()
    told = [line["answer"] for line in lines(home) if "answer" in line and "event" in line]
    assert told == [{"a": [1, None]}, ["x"], 0, "***"]


def test_a_question_that_nobody_answers_in_time_gives_none_and_the_agent_goes_on(tmp_path):
    home = tmp_path / "home"
    with collector(home) as server:
        with emitter(server.url, tmp_path) as coder:
            coder.agent_run_start(task="t")
            began = time.monotonic()
            assert coder.ask("Anybody?", 1.5, question_id="q1") is None
            assert time.monotonic() - began > 1.4
        (row,) = waiting(server, state="expired")
        assert row["question_id"] == "q1"
        late = answer(server, "q1", "too late")
        assert late.status_code == 410
    assert moves(home) == [(*ASKED, 0), (BLOCKED, "thinking", "timeout", 0)]
    assert not [line for line in lines(home) if line.get("fact") == "Answered"]


def test_of_two_answers_the_first_counts(tmp_path):
    with collector(tmp_path / "home") as server, emitter(server.url, tmp_path) as coder:
        asking = Asking(coder, "Red or blue?", 60, question_id="q1")
        waiting(server)
        said = [answer(server, "q1", text, by) for text, by in (("red", "ada"), ("blue", "bob"))]
        assert [each.status_code for each in said] == [200, 409]
        assert said[1].json()["by"] == ["ada"]
        assert asking.done() == "red"


def test_a_collector_that_restarts_in_between_still_hands_over_the_answer(tmp_path):
    home = tmp_path / "home"
    server = Collector(home, port=lasting_port())
    with emitter(server.url, tmp_path) as coder:
        asking = Asking(coder, "Which port?", 60, question_id="q1")
        waiting(server)
        server.kill()
        time.sleep(0.5)
        server = Collector(home, port=server.port)
        try:
            waiting(server)
            assert answer(server, "q1", "4318").status_code == 200
            assert asking.done() == "4318"
        finally:
            coder.close()
            server.stop()
    assert [move[:3] for move in moves(home)] == [ASKED, WENT_ON]


def test_a_question_asked_while_the_collector_is_away_is_answered_when_it_is_there(tmp_path):
    home = tmp_path / "home"
    server = Collector(home, port=lasting_port())
    server.stop()
    with emitter(server.url, tmp_path) as coder:
        asking = Asking(coder, "Which port?", 60, question_id="q1")
        time.sleep(0.5)
        server = Collector(home, port=server.port)
        try:
            waiting(server)
            assert answer(server, "q1", "4318").status_code == 200
            assert asking.done() == "4318"
        finally:
            coder.close()
            server.stop()


def test_a_collector_that_stays_away_ends_in_a_time_out(tmp_path):
    with emitter("http://127.0.0.1:9", tmp_path) as coder:
        assert Asking(coder, "Anybody?", 0.6).done() is None


def drip(server):
    """Says the beginning of an answer that never comes to an end."""
    with contextlib.suppress(OSError):
        while True:
            client, _ = server.accept()
            threading.Thread(target=trickle, args=(client,), daemon=True).start()


def trickle(client):
    with contextlib.suppress(OSError), client:
        for byte in itertools.chain(b"HTTP/1.1 200 OK\r\nX: ", itertools.repeat(120)):
            client.sendall(bytes([byte]))
            time.sleep(0.05)


@pytest.mark.parametrize("rude", ["hangs", "drips"])
def test_a_collector_that_hangs_does_not_hold_an_agent_beyond_its_time(rude, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        if rude == "drips":
            threading.Thread(target=drip, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with emitter(url, tmp_path, deadline=0.1) as coder:
            # Who waited for the collector to hang up would wait for ever.
            assert Asking(coder, "Anybody?", 0.5, question_id="q1").done() is None
        server.shutdown(socket.SHUT_RDWR)


DYING = """
import sys; sys.path.insert(0, sys.argv[1])
from kahn_agent_emit import AgentEmitter
run = AgentEmitter(run_id="r1", url=sys.argv[2], spool=sys.argv[3], environ={})
print(run.bind(agent_id="coder").ask("Which port?", question_id="q1"), flush=True)
"""


def test_an_agent_that_died_gets_the_answer_that_was_given_meanwhile(tmp_path):
    home = tmp_path / "home"
    with collector(home) as server:
        command = [sys.executable, "-c", DYING, str(CONTRACTS), server.url, str(tmp_path / "spool")]
        first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        waiting(server)
        first.kill()
        first.communicate()
        assert waiting(server)[0]["state"] == "open"
        assert answer(server, "q1", "4318").status_code == 200
        again = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30, check=True)
        assert again.stdout == "4318\n"
        (row,) = waiting(server, state="answered")
        assert row["answer"] == "4318"
    assert [move[:3] for move in moves(home)] == [ASKED, ASKED, WENT_ON]


def test_an_agent_whose_run_ends_waits_no_longer(tmp_path):
    with collector(tmp_path / "home") as server, emitter(server.url, tmp_path) as coder:
        coder.agent_run_start(task="t")
        asking = Asking(coder, "Which port?", 60, question_id="q1")
        waiting(server)
        totals = dict.fromkeys(["total_steps", "total_tool_calls"], 0)
        totals |= dict.fromkeys(["total_audit_checkpoints", "audits_passed"], 0)
        coder.agent_run_end(outcome="aborted", audits_failed=0, total_duration_s=1, **totals)
        assert asking.done() is None
        assert answer(server, "q1", "late").status_code in (409, 410)


def test_agents_that_ask_the_same_id_in_different_runs_get_their_own_answers(tmp_path):
    with collector(tmp_path / "home") as server:
        coders = [emitter(server.url, tmp_path / run, run) for run in ("r1", "r2")]
        askings = [Asking(coder, "Which?", 60, question_id="q") for coder in coders]
        waiting(server, 2)
        for run in ("r2", "r1"):
            given = {"answer": run, "by": "ada"}
            server.http.post(f"/api/inbox/q/answer?run=kahn:{run}", json=given)
        assert [asking.done() for asking in askings] == ["r1", "r2"]
        for coder in coders:
            coder.close()


def test_from_the_terminal_a_person_answers(tmp_path):
    home = tmp_path / "home"
    with collector(home) as server, emitter(server.url, tmp_path) as coder:
        asking = Asking(coder, "Which port?", 60, question_id="q1")
        waiting(server)
        assert tracklog(home, "answer", "q1", "4318").returncode == 0
        assert asking.done() == "4318"


def test_without_a_collector_asking_raises_and_writes_nothing(tmp_path):
    with (
        agents.AgentEmitter(tmp_path / "a", "r1", environ={}) as run,
        pytest.raises(ValueError, match="TRACKLOG_URL"),
    ):
        run.bind(agent_id="coder").ask("Which port?")
    assert (tmp_path / "a").read_bytes() == b""


def test_the_file_beside_a_collector_holds_the_question_too(tmp_path):
    path = tmp_path / "a"
    with agents.AgentEmitter(
        path, "r1", url="http://127.0.0.1:9", spool=tmp_path / "s", environ={}
    ) as run:
        assert run.bind(agent_id="coder").ask("Which port?", 0, step=7) is None
    asked, went_on = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert (asked["question"], asked["step"], went_on["step"]) == ("Which port?", 7, 7)
    assert asked["reason"].partition(":")[2] == went_on["reason"].partition(":")[2]
    assert asked["expires"] <= went_on["ts"]


def test_a_time_out_answers_nothing_and_an_expiry_is_that_of_the_question():
    dialect = registry.dialect("kahn-agent")
    base = {"run_id": "r", "agent_id": "coder", "step": 1, "ts": "2026-05-05T09:00:00.000Z"}
    made = agents.agent_transition(
        from_="thinking",
        to=BLOCKED,
        reason="clarification:q1",
        question="?",
        expires="2026-05-05T09:01:00.000Z",
        **base,
    )
    back = agents.agent_transition(from_=BLOCKED, to="thinking", reason="timeout:q1", **base)
    facts = [
        fact
        for event in (made, back)
        for fact in dialect.facts(check(agents.line_of(event)[:-1]))
        if isinstance(fact, Asked | Answered)
    ]
    assert [(type(fact), fact.expires) for fact in facts] == [(Asked, "2026-05-05T09:01:00.000Z")]


class _Answering(BaseHTTPRequestHandler):
    """Hands over the answer that its server has, or says that none can come any more."""

    def do_GET(self):
        body = json.dumps(self.server.told).encode()
        self.send_response(200 if "answer" in self.server.told else 410)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.send_error(503)

    def log_message(self, *_):
        pass


ASKINGS = json.loads((CONTRACTS / "vectors/kahn-ask.json").read_text())["vectors"]


@pytest.mark.parametrize("vector", ASKINGS, ids=lambda vector: vector["name"])
def test_asking_writes_to_the_byte_what_the_vector_holds(vector, tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        server.told = {key: vector[key] for key in ("answer",) if key in vector}
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url, path = f"http://127.0.0.1:{server.server_port}", tmp_path / "a"
        run = agents.AgentEmitter(path, url=url, spool=tmp_path, environ={}, deadline=0.1)
        asked = {"question_id": vector["question_id"], **vector["arguments"]}
        found = run.bind(**vector["bound"]).ask(vector["question"], **asked)
        run.close()
        server.shutdown()
    assert found == vector.get("answer")
    assert path.read_text() == vector["lines"]
    assert all(type(check(line)).__name__ == "Event" for line in path.read_bytes().splitlines())
