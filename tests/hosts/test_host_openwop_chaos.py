"""The OpenWOP host under the worst of circumstances: killed, doubled, crowded, abused."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import httpx
import orjson
import pytest

from support.collecting import collector
from support.forking import in_a_process, tracklog
from support.hosting import (
    TOKEN,
    Client,
    Host,
    Process,
    check_events,
    flow,
    mock,
    pairs,
    put,
    signed,
    written,
)
from support.soaking import SOAK
from support.waiting import eventually
from tracklog import Log
from tracklog.home.home import Home
from tracklog.hosts.openwop.engine import Engine
from tracklog.hosts.openwop.settings import Settings
from tracklog.journal.leases import FileLeases

ANSWERS = {
    "gate": {"action": "accept"},
    "ask": {"answers": {"q1": "blue"}},
    "low-conf-decider": {"action": "accept"},
    "supervisor": {"decision": {"kind": "terminate", "reason": "enough"}},
}


def told(events: list[dict]) -> list[tuple]:
    """What must come out the same, however often the host was killed: not the ids of children,
    the clock of messages, nor in which form an answer was told."""
    found = []
    for event in events:
        payload = json.loads(json.dumps(event["payload"]))
        payload.pop("childRunId", None)
        payload.get("outputs", {}).pop("childRunId", None)
        payload.pop("writtenAt", None)
        payload.pop("resumeValue", None)
        if isinstance(payload.get("value"), dict):
            payload["value"].pop("ts", None)
        cause = event.get("causationId", "").rpartition("-")[2]
        found.append((event["type"], event.get("nodeId"), cause, orjson.dumps(payload)))
    return found


BODIES = {
    "conformance-cap-breach": {"configurable": {"recursionLimit": 3}},
    "conformance-delay": {"inputs": {"delayMs": 1}},
    "conformance-identity": {"inputs": {"payload": {"deep": [1, {"x": None}]}}},
    "conformance-idempotent": {"inputs": {"nonce": "1"}},
}
"""What some of the published workflows are given."""

TRIED = flow(
    "conformance-tried",
    [{"id": "f", "typeId": "core.fail"}, {"id": "g", "typeId": "core.noop"}],
    [("f", "g", "any_failed")],
    settings={"timeout": 60_000, "maxRetries": 2},
)
"""Beside the published ones: a node that fails, is tried again, and fails for good."""


def finish(host: Client, run: str) -> dict:
    """Answers whatever the run asks, and ends what would wait for a minute, until it has ended."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        snapshot = host.snapshot(run)
        if snapshot["status"] in ("completed", "failed", "cancelled"):
            return snapshot
        if snapshot["status"].startswith("waiting"):
            host.answer(run, snapshot["currentNodeId"], ANSWERS[snapshot["currentNodeId"]])
        elif snapshot["workflowId"] == "conformance-cancellable" and snapshot["nodeStates"]:
            host.http.post(f"/v1/runs/{run}/cancel", json={})
        time.sleep(0.01)
    raise AssertionError(snapshot)


def roots(lines: list[bytes]) -> dict[str, list[dict]]:
    """The events of each run that no other began, with those of the runs inside it."""
    events = [orjson.loads(line) for line in lines]
    parents = {e["runId"]: e["host"].get("parentRunId") for e in events if "host" in e}
    found: dict[str, list[dict]] = {}
    for event in events:
        found.setdefault(parents[event["runId"]] or event["runId"], []).append(event)
    return found


@pytest.mark.long
def test_killed_after_any_event_of_any_fixture_a_run_goes_on_and_comes_out_the_same(tmp_path):
    """A process carries out all fixtures up to the same event of each, and is killed there."""
    flows = put(tmp_path / "flows", TRIED)
    with Host(tmp_path / "calm", clock=noon, workflows=flows) as host:
        fixtures = host.http.get("/.well-known/openwop").json()["fixtures"]
        assert len(fixtures) == 20
        assert TRIED["id"] in fixtures
        runs = {name: host.start(name, **BODIES.get(name, {})) for name in fixtures}
        for run in runs.values():
            finish(host, run)
        wanted = {name: told(host.events(run)) for name, run in runs.items()}
        counts = {run: len(events) for run, events in roots(written(host.home)).items()}
    for cut in range(1, max(counts.values()) + 1):
        names = [name for name in fixtures if counts[runs[name]] >= cut]
        home = tmp_path / str(cut)
        left = left_by_the_killed(home, cut, names, flows)
        assert {name: left[name][1] for name in names} == dict.fromkeys(names, cut)
        # On leaving it is checked that nothing is there twice.
        with Host(home, clock=noon, workflows=flows) as host:
            for name in names:
                run, _ = left[name]
                finish(host, run)
                assert told(host.events(run)) == wanted[name], (name, cut)


def noon() -> float:
    """A clock that stands still: no run takes too long, however slow the machine is."""
    return 1_800_000_000.0


def left_by_the_killed(
    home: Path, cut: int, names: list[str], flows: tuple[Path, ...]
) -> dict[str, tuple[str, int]]:
    """How much a process wrote of each run, and of those inside it, until it was killed."""
    assert in_a_process(_live_and_die, str(home), cut, names, flows) == -signal.SIGKILL, cut
    with Home(home, readonly=True) as left:
        found = roots(written(left))
    own = {run: [e for e in events if e["runId"] == run] for run, events in found.items()}
    return {own[run][0]["payload"]["workflowId"]: (run, len(found[run])) for run in found}


class Mortal(Engine):
    """An engine whose process is killed when so many events of each of its runs are written."""

    def __init__(self, home: Home, cut: int, runs: int, flows: tuple[Path, ...]) -> None:
        super().__init__(Log(home), Settings(workflows=flows))
        self.cut, self.deaths = cut, runs
        self.done: set[str] = set()
        self.roots: dict[str, str] = {}
        self.left: dict[str, int] = {}

    async def write(self, log, lines, notes=()) -> None:
        for event in map(orjson.loads, lines):
            if "host" in event:
                self.roots[log.name] = event["host"].get("parentRunId", log.name)
        root = self.roots[log.name]
        left = self.left.setdefault(root, self.cut)
        self.left[root] = max(0, left - len(lines))
        await super().write(log, lines[:left], notes)
        if not self.left[root]:
            self.done.add(root)
            if len(self.done) == self.deaths:
                os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.Event().wait()  # it never hears that this was written


def _live_and_die(home: str, cut: int, names: list[str], flows: tuple[Path, ...]) -> None:
    with Home(home, durability="os", clock=noon) as opened:
        asyncio.run(_live(Mortal(opened, cut, len(names), flows), names))


async def _live(engine: Mortal, names: list[str]) -> None:
    await engine.start(alone=True)
    await asyncio.gather(*(_carry_out(engine, name) for name in names))


async def _carry_out(engine: Mortal, name: str) -> None:
    body = BODIES.get(name, {})
    definition, host = engine.workflows.known[name], {"principal": "default"}
    given, options = body.get("inputs", {}), body.get("configurable", {})
    log = await engine.starter.create(definition, given, options, host)
    while not log.ended:
        node = log.snapshot.current
        if node is not None:
            await engine.control.resolve(log.name, node, ANSWERS[node], "default")
        elif name == "conformance-cancellable" and log.snapshot.nodes:
            await engine.control.cancel(log.name, None, "default")
        await log.wait(0.05)


ALONE, MOUNTED = "host openwop", "serve --with openwop"


@pytest.mark.parametrize("verbs", [(ALONE, ALONE), (MOUNTED, ALONE), (MOUNTED, MOUNTED)])
def test_two_hosts_on_one_journal_do_not_run_one_run_twice(tmp_path, verbs):
    whole = ["run.started", "node.started", "node.completed", "run.completed"]
    one = Process(tmp_path, verb=verbs[0])
    with Process(tmp_path, verb=verbs[1]) as two:
        for first, second in ((one, two), (two, one)):
            runs = [first.start("conformance-delay", inputs={"delayMs": 300}) for _ in range(6)]
            for run in runs:
                second.until(run)
                assert [e["type"] for e in second.events(run)] == whole
            asked = first.start("conformance-approval")
            second.until(asked, "waiting-approval")
            assert second.answer(asked, "gate", {"action": "accept"}).status_code == 200
            first.until(asked, "completed")
            slow = first.start("conformance-cancellable")
            second.until(slow, "running")
            assert second.http.post(f"/v1/runs/{slow}/cancel", json={}).status_code == 200
            first.until(slow, "cancelled")
        body, key = {"workflowId": "conformance-noop"}, {"Idempotency-Key": "over both"}
        answers = [host.http.post("/v1/runs", json=body, headers=key) for host in (one, two)]
        assert len({answer.json()["runId"] for answer in answers}) == 1
        left = [one.start("conformance-delay", inputs={"delayMs": 1500}) for _ in range(3)]
        waiting = one.start("conformance-approval")
        one.until(waiting, "waiting-approval")
        one.end(signal.SIGKILL)  # and who lives takes over
        for run in left:
            two.until(run, "completed")
            assert [e["type"] for e in two.events(run)] == whole
        assert two.answer(waiting, "gate", {"action": "accept"}).status_code == 200
        two.until(waiting, "completed")


def test_a_run_that_one_host_saw_waiting_is_taken_over_when_the_other_dies_behind_the_answer(
    tmp_path,
):
    nodes = [{"id": "gate", "typeId": "core.approvalGate"},
             {"id": "wait", "typeId": "core.delay", "config": {"delayMs": 2500}}]  # fmt: skip
    config = tmp_path / "host.yaml"
    (flows,) = put(tmp_path / "flows", flow("gated", nodes, [("gate", "wait")]))
    config.write_text(f"workflows: [{flows}]\n")
    one = Process(tmp_path / "home", "--config", str(config))
    run = one.start("gated")
    one.until(run, "waiting-approval")
    with Process(tmp_path / "home", "--config", str(config)) as two:
        two.until(run, "waiting-approval")
        time.sleep(1.5)  # it looked at the run, and left it waiting
        assert one.answer(run, "gate", {"action": "accept"}).status_code == 200
        two.until(run, "running")
        one.end(signal.SIGKILL)
        two.until(run, "completed", seconds=30)
        assert len(two.events(run, "node.started")) == 2


def test_what_was_answered_once_is_answered_so_after_a_kill(tmp_path):
    headers = {"Idempotency-Key": "before and after"}
    body = {"workflowId": "conformance-idempotent", "inputs": {"nonce": "1"}}
    one = Process(tmp_path)
    first = one.http.post("/v1/runs", json=body, headers=headers)
    run = one.start("conformance-approval")
    one.until(run, "waiting-approval")
    key = {"Idempotency-Key": "an answer"}
    answered = one.answer(run, "gate", {"action": "accept"}, headers=key)
    assert answered.status_code == 200
    one.end(signal.SIGKILL)
    with Process(tmp_path) as two:
        again = two.http.post("/v1/runs", json=body, headers=headers)
        assert (again.status_code, again.json()) == (201, first.json())
        assert again.headers["openwop-Idempotent-Replay"] == "true"
        repeated = two.answer(run, "gate", {"action": "accept"}, headers=key)
        assert (repeated.status_code, repeated.json()) == (200, answered.json())
        assert repeated.headers["openwop-Idempotent-Replay"] == "true"
        two.until(run, "completed")


def test_a_lease_is_one_processs_and_dies_with_it(tmp_path):
    one, two = FileLeases(tmp_path), FileLeases(tmp_path)
    run = ("openwop", "run-1")
    assert one.take(run)
    assert not one.take(run)
    assert not two.take(run)
    two.release(run)  # not its own: nothing happens
    assert not two.take(run)
    one.release(run)
    assert two.take(run)
    two.close()
    assert one.take(run)
    one.close()
    one.close()


@pytest.mark.long
def test_two_hundred_runs_at_once_all_end_and_none_mixes_with_another(tmp_path):
    with Host(tmp_path) as host:

        def one(_number: int) -> str:
            return host.start("conformance-agent-reasoning")

        with ThreadPoolExecutor(16) as pool:
            runs = list(pool.map(one, range(200)))
            list(pool.map(host.until, runs))
        assert len(set(runs)) == 200
        first = pairs(host.events(runs[0]))
        assert all(pairs(host.events(run)) == first for run in runs[1:])


def test_many_follow_one_run_and_each_sees_all_of_it(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-delay", inputs={"delayMs": 1500})
        with ThreadPoolExecutor(20) as pool:
            seen = list(pool.map(lambda _: host.stream(run, "?streamMode=debug"), range(20)))
        assert all([data for _, _, data in each] == host.events(run) for each in seen)


def test_an_operator_answers_and_cancels_beside_the_protocol(tmp_path):
    with Process(tmp_path) as host:
        run = host.start("conformance-clarification")
        host.until(run, "waiting-input")
        said = ["int:ask:0:0", "blue", "--by", "ann", "--run", f"openwop:{run}"]
        done = tracklog(tmp_path, "answer", *said)
        assert done.returncode == 0, done.stderr
        assert host.until(run, "completed")["variables"]["answers"] == {"q1": "blue"}
        (resolved,) = host.events(run, "clarification.resolved")
        assert resolved["payload"]["answeredBy"].startswith("ann (")


def test_a_collector_mounts_the_host_and_keeps_its_own_routes(tmp_path):
    with collector(tmp_path, "--with", "openwop", TRACKLOG_TOKEN=TOKEN) as made:
        client = Client(made.url)
        run = client.start("conformance-agent-reasoning")
        client.until(run, "completed")
        shown = client.http.get(f"/api/runs/openwop/{run}")
        assert shown.status_code == 200
        assert client.http.get("/.well-known/openwop").status_code == 200
        # OTLP keeps its paths, though they begin alike.
        response = httpx.post(f"{made.url}/v1/traces", content=b"{}", trust_env=False)
        assert "hint" in response.json() or response.status_code != 404
        client.http.close()


def test_a_host_in_a_collector_without_a_token_makes_a_key(tmp_path):
    with collector(tmp_path, "--with", "openwop") as made:
        line = made.process.stdout.readline()
        made_key = re.fullmatch(r"the key of openwop is (\S{32})\n", line)
        assert made_key, line
        body = {"workflowId": "conformance-noop"}
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            answer = httpx.post(f"{made.url}/v1/runs", json=body, headers=headers, trust_env=False)
            assert answer.status_code == 401
        client = Client(made.url, made_key[1])
        client.until(client.start("conformance-noop"), "completed")
        client.http.close()


def raw(url: str, *pieces: bytes, wait: float = 5) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=wait) as made:
        for piece in pieces:
            made.sendall(piece)
        made.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while more := made.recv(1 << 16):
                answer += more
        except TimeoutError:
            pass
        return answer


def test_the_rude_get_an_answer_or_nothing_and_the_others_are_served(tmp_path):
    with Host(tmp_path) as host:
        bearer = f"Authorization: Bearer {TOKEN}\r\n".encode()
        head = b"Host: 127.0.0.1\r\n" + bearer
        deep = b"[" * 100_000
        for request in (
            b"\x00\x01\x02\r\n\r\n",
            b"GET /v1/runs/%ff%fe HTTP/1.1\r\n" + head + b"\r\n",
            b"GET /v1/runs/" + b"a" * 5000 + b" HTTP/1.1\r\n" + head + b"\r\n",
            b"POST /v1/runs HTTP/1.1\r\n" + head + b"Content-Length: 5\r\n\r\n{",
            b"POST /v1/runs HTTP/1.1\r\n" + head + b"Content-Length: 100000\r\n\r\n" + deep,
            b"GET /v1/runs/../../etc/passwd HTTP/1.1\r\n" + head + b"\r\n",
            b"GET /v1/runs/x/events?streamMode=%00 HTTP/1.1\r\n" + head + b"\r\n",
        ):
            answer = raw(host.url, request)
            assert b"Traceback" not in answer
            assert b" 500 " not in answer.split(b"\r\n")[0], (request[:40], answer[:300])
        large = b'{"workflowId":"conformance-noop","metadata":{"x":"' + b"y" * (2 << 20) + b'"}}'
        assert host.http.post("/v1/runs", content=large).status_code == 413
        assert host.http.put("/v1/runs", json={}).status_code == 405
        cross = {"Origin": "http://evil.example"}
        body = {"workflowId": "conformance-noop"}
        assert host.http.post("/v1/runs", json=body, headers=cross).status_code == 403
        other = {"Host": "evil.example"}
        assert host.http.get("/v1/runs/x", headers=other).status_code == 421
        long = {"Idempotency-Key": "k" * 300}
        assert host.http.post("/v1/runs", json=body, headers=long).status_code == 400
        weird = {
            "workflowId": "conformance-identity",
            "inputs": {"payload": {"__proto__": [1e308]}},
        }
        run = host.http.post("/v1/runs", json=weird).json()["runId"]
        assert host.until(run, "completed")["variables"]["payload"] == {"__proto__": [1e308]}


def test_who_leaves_a_stream_leaves_nothing_behind(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-approval")
        host.until(run, "waiting-approval")
        for _ in range(20):
            host_, _, port = host.url.removeprefix("http://").partition(":")
            made = socket.create_connection((host_, int(port)))
            line = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: x\r\n".replace(
                "x\r", "127.0.0.1\r"
            )
            made.sendall(f"{line}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
            made.recv(100)
            made.close()
        log = host.engine.known(run)
        assert eventually(lambda: not log.is_waited_for)
        assert host.answer(run, "gate", {"action": "accept"}).status_code == 200
        host.until(run, "completed")


def test_lines_of_others_are_neither_executed_nor_shown(tmp_path):
    """A log of another host, recorded in the same home, is history and not work."""
    with Host(tmp_path) as host:
        run = host.start("conformance-approval")
        host.until(run, "waiting-approval")
        foreign = [
            line.replace(run.encode(), b"run-foreign").replace(host.engine.instance.encode(), b"x")
            for line in host.engine.known(run).lines
        ]
        host.home.intake.admit(foreign, "openwop")
        assert host.http.get("/v1/runs/run-foreign").status_code == 404
        assert host.answer("run-foreign", "gate", {"action": "accept"}).status_code == 404
        time.sleep(0.2)
        left = list(host.home.journal.records(run=("openwop", "run-foreign")))
        assert len(left) == len(foreign)


def test_a_run_of_a_newer_engine_is_read_and_not_executed(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-approval")
        host.until(run, "waiting-approval")
        newer = [
            line.replace(run.encode(), b"run-of-a-newer-engine").replace(
                b'"engine":1', b'"engine":2'
            )
            for line in host.engine.known(run).lines
        ]
        host.home.intake.admit(signed(host.home, newer), "openwop")
        assert host.snapshot("run-of-a-newer-engine")["status"] == "waiting-approval"
        response = host.answer("run-of-a-newer-engine", "gate", {"action": "accept"})
        assert (response.status_code, response.json()["error"]) == (422, "engine_version_mismatch")
        assert host.fork("run-of-a-newer-engine", mode="replay").status_code == 422


def test_a_tool_whose_end_nobody_saw_is_not_called_again(tmp_path):
    script = f"import time; open({str(tmp_path / 'count')!r}, 'a').write('x'); time.sleep(60)"
    node = {"id": "t", "typeId": "core.tool.call", "config": {"toolId": "local:slow"}}
    folder = put(tmp_path / "flows", flow("slow", [node]))
    tools = [{"id": "local:slow", "command": [sys.executable, "-c", script]}]
    config = tmp_path / "host.json"
    config.write_text(json.dumps({"workflows": [str(folder[0])], "tools": tools}))
    host = Process(tmp_path / "home", "--config", str(config))
    run = host.start("slow")
    assert eventually((tmp_path / "count").exists)
    host.end(signal.SIGKILL)
    with Process(tmp_path / "home", "--config", str(config)) as host:
        assert host.until(run, "failed")["error"]["code"] == "outcome_unknown"
        (returned,) = host.events(run, "agent.toolReturned")
        assert returned["payload"]["error"]["details"]["retryable"] is False
    assert (tmp_path / "count").read_text() == "x"


def test_a_host_that_was_overtaken_goes_on_from_what_is_written(tmp_path):
    """Another host of the home writes into a run that is under way: no event is there twice."""
    with Host(tmp_path) as host:
        run = host.start("conformance-delay", inputs={"delayMs": 500})
        host.until(run, "running")
        assert eventually(lambda: len(host.events(run)) == 2)
        payload = {"nodeId": "wait", "outputs": {}}
        event = {"eventId": f"evt-{run}-2", "runId": run, "sequence": 2, "type": "node.completed"}
        event |= {
            "timestamp": host.events(run)[-1]["timestamp"],
            "nodeId": "wait",
            "payload": payload,
        }
        (verdict,) = host.home.intake.admit(signed(host.home, [orjson.dumps(event)]), "openwop")
        assert verdict.verdict == "accepted"
        host.until(run, "completed")
        assert [e["sequence"] for e in host.events(run)] == [0, 1, 2, 3]


def test_soak_kills_at_random_times_lose_and_double_nothing(tmp_path):
    nodes = [mock(f"m{n}", {"mockReasoning": True}, agentId="core.m") for n in range(5)]
    nodes += [{"id": "d", "typeId": "core.delay", "config": {"delayMs": 50}}]
    chain = [(a["id"], b["id"]) for a, b in pairwise(nodes)]
    patient = {"timeout": 600_000}  # the time in which no host lives counts, too
    folder = put(tmp_path / "flows", flow("conformance-long", nodes, chain, settings=patient))
    home = tmp_path / "home"
    runs: list[str] = []
    for round_ in range(2 * SOAK):
        host = Process(home, "--workflows", str(folder[0]))
        killer = threading.Timer(0.2 + 0.13 * (round_ % 5), host.process.kill)
        killer.start()
        try:
            while True:
                runs.append(host.start("conformance-long"))
        except (httpx.HTTPError, AssertionError):
            pass
        killer.join()
        host.end()
    with Process(home, "--workflows", str(folder[0])) as host:
        for run in runs:
            snapshot = host.until(run, seconds=60)
            assert snapshot["status"] == "completed", snapshot.get("error")
    with Home(home, readonly=True) as left:
        check_events(written(left))
