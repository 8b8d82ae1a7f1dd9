"""What each published scenario needs of a host, asked of one in a process of its own, over HTTP."""

import itertools
import json
import socket
from pathlib import Path

import httpx
import pytest

from support.hosting import TOKEN, Process, validator

FIXTURES = Path(__file__).parents[2] / "src/tracklog/hosts/openwop/published/workflows"
FIVE = {
    f"agent.{each}" for each in ("reasoned", "toolCalled", "toolReturned", "handoff", "decided")
}
TERMINAL = {"run.completed", "run.failed", "run.cancelled"}
REQUIRED = ("eventId", "runId", "type", "payload", "timestamp", "sequence")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Process(tmp_path_factory.mktemp("home"), "--test-seams") as made:
        yield made


@pytest.fixture
def anybody(host):
    with httpx.Client(base_url=host.url, trust_env=False) as client:
        yield client


def poll(host, run: str, last: int | str = 0) -> dict:
    return host.http.get(f"/v1/runs/{run}/events/poll?lastSequence={last}").json()


def ended(host, name: str, *statuses: str, **body) -> tuple[str, dict]:
    run = host.start(f"conformance-{name}", **body)
    return run, host.until(run, *(statuses or ("completed",)))


def test_agent_reasoning_events(host):
    run, _ = ended(host, "agent-reasoning")
    events = [e for e in host.events(run) if e["type"] in FIVE]
    assert events
    calls = {
        e["payload"]["callId"]: e["eventId"] for e in events if e["type"] == "agent.toolCalled"
    }
    for event in events:
        payload = event["payload"]
        if event["type"] == "agent.handoff":
            assert isinstance(payload["fromAgentId"], str)
            assert isinstance(payload["toAgentId"], str)
        else:
            assert len(payload["agentId"]) >= 3
        if event["type"] == "agent.toolReturned":
            assert event["causationId"] == calls[payload["callId"]]


def test_agent_reasoning_streaming(host):
    run, _ = ended(host, "agent-reasoning-streaming")
    deltas, closes = host.events(run, "agent.reasoning.delta"), host.events(run, "agent.reasoned")
    assert (len(deltas), len(closes)) == (3, 1)
    assert [e["payload"]["sequence"] for e in deltas] == [0, 1, 2]
    told = "".join(e["payload"]["delta"] for e in deltas)
    assert closes[0]["payload"]["reasoning"] == told
    assert len({e["payload"]["agentId"] for e in deltas + closes}) == 1
    assert max(e["sequence"] for e in deltas) < closes[0]["sequence"]


def test_agent_confidence_escalation(host):
    run, snapshot = ended(host, "agent-low-confidence", "waiting-approval")
    assert snapshot["currentNodeId"] == "low-conf-decider"
    (said,) = [e["payload"] for e in host.events(run, "node.suspended")]
    assert said["reason"] == "low-confidence"
    assert isinstance(said["agentId"], str)
    assert said["observed"] < said["threshold"]
    assert not TERMINAL & {e["type"] for e in host.events(run)}


def test_agent_metadata(host):
    _, snapshot = ended(host, "agent-identity")
    ref = snapshot.get("agent") or snapshot["runOrchestrator"]
    assert len(ref["agentId"]) >= 3


def test_agent_pack_provenance(host):
    _, snapshot = ended(host, "agent-pack-provenance")
    assert snapshot["agent"]["sourceManifestId"]
    assert "modelClass" not in snapshot["agent"]  # `chat` is none of RFC 0002


def test_agent_message_reducer(host):
    _, snapshot = ended(host, "message-reducer")
    (channel,) = snapshot["channels"].values()
    names = [message["messageId"] for message in channel]
    assert names
    assert len(names) == len(set(names))


def test_orchestrator_conservative_path(host):
    run, _ = ended(host, "orchestrator-low-confidence", "waiting-approval")
    assert host.events(run, "runOrchestrator.decided") == []
    (suspended,) = host.events(run, "node.suspended")
    assert suspended["payload"]["reason"] == "low-confidence"
    assert isinstance(suspended["payload"]["agentId"], str)


def test_orchestrator_termination(host):
    run, _ = ended(host, "orchestrator-terminate")
    kinds = [e["payload"]["decision"]["kind"] for e in host.events(run, "runOrchestrator.decided")]
    assert kinds[-1] == "terminate"
    assert kinds.count("terminate") == 1


def test_orchestrator_dispatch(host):
    run, snapshot = ended(host, "orchestrator-dispatch")
    decided = [e["payload"] for e in host.events(run, "runOrchestrator.decided")]
    said = next(each for each in decided if each["decision"]["kind"] == "next-worker")
    assert said["agentId"] == snapshot["runOrchestrator"]["agentId"]
    assert said["decision"]["nextWorkerIds"]
    (child,) = host.events(run, "node.dispatched")
    assert host.snapshot(child["payload"]["childRunId"])["workflowId"] == "conformance-noop"


def test_identity_passthrough(host):
    deep = {"a": [1, {"b": None, "ü": "…", "c": [[], {}, 1e-7]}], "d": {"e": {"f": False}}}
    _, snapshot = ended(host, "identity", inputs={"payload": deep})
    assert snapshot["variables"]["payload"] == deep


def test_multi_node_ordering(host):
    run, _ = ended(host, "multi-node")
    done = [e for e in poll(host, run)["events"] if e["type"] == "node.completed"]
    assert [e["nodeId"] for e in done] == ["a", "b", "c"]
    numbers = [e["sequence"] for e in done]
    assert numbers == sorted(numbers)


def test_append_ordering(host):
    run, snapshot = ended(host, "message-reducer")  # the one that writes
    numbers = [e["sequence"] for e in host.events(run, "channel.written")]
    assert numbers
    assert numbers == sorted(set(numbers))
    assert len(numbers) == sum(map(len, snapshot["channels"].values()))


def test_replay_determinism(host, anybody):
    said = anybody.get("/.well-known/openwop").json()["replay"]
    assert said["supported"] is True
    assert all(isinstance(mode, str) for mode in said["modes"])
    source, _ = ended(host, "noop")
    told = []
    for _ in range(2):
        fork = host.fork(source, mode="replay", fromSeq=0).json()["runId"]
        host.until(fork, "completed")
        told.append([(e["type"], e.get("nodeId"), e["payload"]) for e in host.events(fork)])
    assert told[0] == told[1]


def test_replay_fork(host):
    source, _ = ended(host, "noop")
    response = host.fork(source, mode="replay", fromSeq=0)
    said = response.json()
    assert response.status_code == 201
    assert said["runId"] != source
    assert (said["sourceRunId"], said["mode"]) == (source, "replay")
    host.until(said["runId"], "completed")
    branch = host.fork(source, mode="branch", fromSeq=0, runOptionsOverlay={})
    assert branch.status_code == 201
    host.until(branch.json()["runId"], "completed")
    assert host.fork(source, mode="replay", fromSeq=-1).status_code == 400
    assert host.fork(source, mode="replay", fromSeq=99999).status_code == 422
    overlay = {"configurable": {"recursionLimit": 2}}
    assert host.fork(source, mode="replay", runOptionsOverlay=overlay).status_code == 400
    assert host.fork("run-nobody", mode="replay", fromSeq=0).status_code == 404


def test_discovery(anybody):
    response = anybody.get("/.well-known/openwop")
    said = response.json()
    assert response.status_code == 200
    assert {"protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"} <= said.keys()
    assert response.headers["cache-control"] == "public, max-age=300"
    again = anybody.get("/.well-known/openwop")
    assert again.headers["capabilities-etag"] == response.headers["capabilities-etag"]
    assert all(type(each) in (int, float) and each >= 0 for each in said["limits"].values())
    names = said["fixtures"]
    assert all(isinstance(name, str) and name for name in names)
    assert len(names) == len(set(names))
    api = anybody.get("/v1/openapi.json").json()
    assert tuple(map(int, api["openapi"].split(".")[:2])) >= (3, 1)
    validator("capabilities").validate(said)
    absent = {"conversationPrimitive", "multiAgent", "secrets", "memory"}
    assert not absent & said.keys()
    assert "deployment" not in said["agents"]


def test_runs_lifecycle(host):
    response = host.http.post("/v1/runs", json={"workflowId": "conformance-noop"})
    said = response.json()
    assert response.status_code == 201
    assert all(isinstance(said[key], str) for key in ("runId", "status", "workflowId", "startedAt"))
    assert host.http.get(said["statusUrl"]).status_code == 200
    assert host.http.get(said["eventsUrl"]).status_code == 200
    assert host.until(said["runId"], "completed")["engineVersion"] == 1
    events = host.events(said["runId"])
    assert {event["engineVersion"] for event in events} == {"1"}
    assert events[-1]["payload"] == {"outputs": {}}
    newer = host.http.get(f"/runs/{said['runId']}").json()
    assert newer["engineVersion"] == 1
    assert host.http.get("/v1/runs/run-nobody").status_code == 404


def test_failure_path_and_the_shape_of_a_failed_node(host):
    run, snapshot = ended(host, "failure", "failed")
    error = {"code": "node_failed", "message": "core.fail always fails"}
    assert snapshot["error"] == error
    (failed,) = host.events(run, "node.failed")
    assert failed["payload"] == {"nodeId": "fail", "error": error, "attempts": 1}
    end = host.events(run)[-1]
    assert (end["type"], end["payload"]) == ("run.failed", {"error": error, "failedNodeId": "fail"})


def test_cancellation(host):
    run, _ = ended(host, "cancellable", "running")
    response = host.http.post(f"/v1/runs/{run}/cancel", json={})
    assert response.status_code == 200
    assert response.json()["status"] in ("cancelled", "cancelling")
    host.until(run, "cancelled")
    assert host.http.post("/v1/runs/run-nobody/cancel", json={}).status_code == 404


def test_cap_breach(host):
    run, snapshot = ended(host, "cap-breach", "failed", configurable={"recursionLimit": 3})
    assert snapshot["error"]["code"] == "recursion_limit_exceeded"
    (breach,) = host.events(run, "cap.breached")
    said = breach["payload"]
    assert (said["kind"], said["limit"]) == ("node-executions", 3)
    assert said["observed"] > 3
    assert isinstance(said["nodeId"], str)
    assert breach["sequence"] < host.events(run, "run.failed")[0]["sequence"]
    assert 1 <= len(host.events(run, "node.started")) <= 3


def test_event_ordering(host):
    run, _ = ended(host, "noop")
    events = poll(host, run, -1)["events"]
    numbers = [e["sequence"] for e in events]
    assert numbers == [*range(len(events))]
    assert poll(host, run, -1) == {"events": events, "isComplete": True}
    assert poll(host, run, 1) == {"events": events[2:], "isComplete": True}
    assert [e for e in events if e["type"] in TERMINAL] == [events[-1]]


def test_version_negotiation(host, anybody):
    assert isinstance(anybody.get("/.well-known/openwop").json()["protocolVersion"], str)
    run, _ = ended(host, "noop")
    events = poll(host, run, -1)["events"]
    for event in events:
        assert all(key in event for key in REQUIRED)
        assert (event["schemaVersion"], event["engineVersion"]) == (1, "1")
    numbers = [e["sequence"] for e in events]
    assert all(a < b for a, b in itertools.pairwise(numbers))
    past = host.http.get(f"/v1/runs/{run}/events/poll?lastSequence=99999")
    assert (past.status_code, past.json()["events"]) == (200, [])


def test_stream_modes(host):
    run = host.start("conformance-delay", inputs={"delayMs": 1000})
    updates = [kind for _, kind, _ in host.stream(run, "?streamMode=updates")]  # it closes
    assert {"run.started", "run.completed"} <= set(updates)
    assert not {"node.started", "cap.breached"} & set(updates)
    run = host.start("conformance-delay", inputs={"delayMs": 300})
    assert host.stream(run, "?streamMode=values")
    run = host.start("conformance-delay", inputs={"delayMs": 300})
    assert len(host.stream(run, "?streamMode=debug")) >= len(host.stream(run))
    both = host.stream(run, "?streamMode=updates,messages")
    assert [kind for _, kind, _ in both] == [kind for _, kind, _ in host.stream(run)]
    bad = host.http.get(f"/v1/runs/{run}/events?streamMode=does-not-exist")
    assert (bad.status_code, bad.json()["error"]) == (400, "unsupported_stream_mode")
    assert bad.json()["details"]["supported"] == ["values", "updates", "messages", "debug"]


@pytest.mark.parametrize("accept", ["text/event-stream", "*/*", None, "application/json, text/event-stream"])  # fmt: skip
def test_a_client_that_does_not_ask_for_json_gets_a_stream_that_the_server_closes(host, accept):
    run, _ = ended(host, "noop")
    head = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += f"Accept: {accept}\r\n" if accept else ""
    place, _, port = host.url.removeprefix("http://").partition(":")
    with socket.create_connection((place, int(port)), timeout=30) as made:
        made.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        told = b""
        while more := made.recv(1 << 16):  # until it is closed
            told += more
    words = told.lower()
    assert b"content-type: text/event-stream" in words
    assert b"cache-control: no-cache" in words
    assert b"connection: close" in words
    assert b"event: run.completed" in words


def test_a_batch_is_sent_at_once_when_the_run_waits(host):
    run, _ = ended(host, "approval", "waiting-approval")
    query = "?streamMode=debug&bufferMs=5000"
    asked = {"Accept": "text/event-stream"}
    with host.http.stream("GET", f"/v1/runs/{run}/events{query}", headers=asked) as response:
        lines = response.iter_lines()
        data = next(line for line in lines if line.startswith("data: "))
        batch = json.loads(data.removeprefix("data: "))
        assert batch[-1]["type"] == "node.suspended"
        host.answer(run, "gate", {"action": "accept"})
        data = next(line for line in lines if line.startswith("data: "))
        assert json.loads(data.removeprefix("data: "))[-1]["type"] == "run.completed"


def test_a_batch_is_sent_at_once_when_the_run_ends(host):
    run = host.start("conformance-delay", inputs={"delayMs": 1000})
    ((_, kind, batch),) = host.stream(run, "?streamMode=debug&bufferMs=5000")
    assert (kind, batch) == ("batch", host.events(run))  # the end did not wait for its own


def test_the_state_is_sent_after_each_event_that_changes_it(host):
    run, _ = ended(host, "approval", "waiting-approval")
    asked = {"Accept": "text/event-stream"}
    path = f"/v1/runs/{run}/events?streamMode=values"
    with host.http.stream("GET", path, headers=asked) as response:
        lines = (line for line in response.iter_lines() if line.startswith("data: "))
        statuses = [json.loads(next(lines).removeprefix("data: "))["status"]]
        host.answer(run, "gate", {"action": "accept"})
        statuses += [json.loads(line.removeprefix("data: "))["status"] for line in lines]
    # approval.received, interrupt.resolved, node.completed, run.completed
    waits = ["waiting-approval"] * 3
    assert statuses == [*waits, "running", "completed"]


def test_idempotency_on_every_route_that_changes_something(host):
    def twice(path: str, body: dict, other: dict) -> None:
        headers = {"Idempotency-Key": f"twice {path}"}
        first, again = (host.http.post(path, json=body, headers=headers) for _ in range(2))
        assert first.status_code in (200, 201), first.text
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers["openwop-Idempotent-Replay"] == "true"
        mismatch = host.http.post(path, json=other, headers=headers)
        assert mismatch.status_code == 409
        assert mismatch.json()["error"] == "idempotency_key_mismatch"

    body = {"workflowId": "conformance-idempotent", "inputs": {"nonce": "1"}}
    twice("/v1/runs", body, {**body, "inputs": {"nonce": "2"}})
    waiting, _ = ended(host, "approval", "waiting-approval")
    answer = {"resumeValue": {"action": "accept"}}
    twice(f"/v1/runs/{waiting}/interrupts/gate", answer, {"resumeValue": {"action": "reject"}})
    host.until(waiting, "completed")
    twice(f"/v1/runs/{waiting}:fork", {"mode": "replay"}, {"mode": "replay", "fromSeq": 1})
    slow, _ = ended(host, "cancellable", "running")
    twice(f"/v1/runs/{slow}/cancel", {"reason": "a"}, {"reason": "b"})


def test_errors_are_closed_and_carry_no_id_at_their_top(host):
    found = [host.http.get("/v1/runs/run-nobody"), host.http.post("/v1/runs", json={})]
    for response in found:
        said = response.json()
        assert said.keys() <= {"error", "message", "details"}
        assert "correlationId" not in said
        assert isinstance(said.get("details", {}), dict)


def test_auth(anybody):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "wrong"}):
        response = anybody.post("/v1/runs", json={}, headers=headers)
        assert (response.status_code, response.json()["error"]) == (401, "unauthenticated")


@pytest.mark.parametrize("shown", ["sk-" + "a" * 40, "AIza" + "b" * 35, f"eyJ{'a' * 20}.{'b' * 20}.{'c' * 20}", "plain-" + "d" * 30])  # fmt: skip
def test_redaction_of_what_was_presented(host, anybody, shown):
    response = anybody.get("/v1/runs/x", headers={"Authorization": f"Bearer {shown}"})
    assert response.status_code == 401
    assert shown not in response.text + str(response.headers)
    options = {"ai": {"credentialRef": "vault/" + shown}}
    body = {"workflowId": "conformance-noop", "configurable": options}
    refused = host.http.post("/v1/runs", json=body)
    assert refused.status_code == 400  # credentials are not fetched here
    assert shown not in refused.text
    run, snapshot = ended(host, "noop", metadata={"credentialRef": "vault/" + shown})
    assert shown not in json.dumps([host.events(run), snapshot])


def test_interrupt_clarification(host):
    run, snapshot = ended(host, "clarification", "waiting-input")
    assert snapshot["currentNodeId"] == "ask"
    done = host.answer(run, "ask", {"answers": {"q1": "blue"}})
    assert done.status_code == 200
    assert done.json() == {"runId": run, "nodeId": "ask", "status": done.json()["status"]}
    host.until(run, "completed")


def test_interrupt_approval(host):
    run, snapshot = ended(host, "approval", "waiting-approval")
    assert snapshot["currentNodeId"] == "gate"
    for node, action, answer in (
        ("gate", "maybe", (400, "validation_error")),
        ("nobody", "accept", (404, "interrupt_not_found")),
    ):
        refused = host.answer(run, node, {"action": action})
        assert (refused.status_code, refused.json()["error"]) == answer
    done = host.answer(run, "gate", {"action": "accept"})
    assert done.status_code == 200
    assert done.json() == {"runId": run, "nodeId": "gate", "status": done.json()["status"]}
    host.until(run, "completed")
    late = host.answer(run, "gate", {"action": "accept"})
    assert (late.status_code, late.json()["error"]) == (409, "interrupt_already_resolved")


def test_tool_hooks(host, anybody):
    said = anybody.get("/.well-known/openwop").json()["toolHooks"]
    assert said["supported"] is True
    assert all(isinstance(flag, bool) for flag in said.values())

    def invoke(**more) -> tuple[dict, str]:
        body = {"principal": "default", "toolName": "t", "args": {"q": 1}, **more}
        response = host.http.post("/v1/host/sample/toolhooks/invoke", json=body)
        assert response.status_code == 200
        return response.json(), response.text

    plain, _ = invoke()
    assert plain["toolCalled"]["argsHash"]
    assert plain["toolReturned"]["status"] == "ok"
    assert plain["toolReturned"]["durationMs"] >= 0
    secret = "sk-" + "s" * 30
    assert secret not in invoke(args={"apiKey": secret})[1]
    lower, _ = invoke(principal="conformance-unprivileged", requiredScopes=["x"])
    assert lower["toolReturned"]["status"] == "forbidden"
    assert "durationMs" not in lower["toolReturned"]
    limited, _ = invoke(simulateRateLimitExhausted=True)
    assert limited["toolReturned"]["status"] == "rate_limited"
    failed = invoke(simulateToolError=True)[0]["toolReturned"]
    assert failed["status"] == "error"
    assert {"code", "message"} <= failed["error"].keys()
    assert "outcome" not in failed


def test_every_fixture_is_served_back_as_it_was_published(host, anybody):
    names = anybody.get("/.well-known/openwop").json()["fixtures"]
    assert len(names) == 19
    for name in names:
        served = host.http.get(f"/v1/workflows/{name}").json()
        assert served == json.loads((FIXTURES / f"{name}.json").read_text())


def test_who_asks_is_checked_before_what_exists_and_that_before_how_it_was_asked(host, anybody):
    """Auth, then the resource, then the parameters."""
    for prefix, code in (("/v1", "run_not_found"), ("", "not_found")):
        url = f"{prefix}/runs/run-nobody"
        nobody = anybody.get(f"{url}/events?streamMode=x")
        assert (nobody.status_code, nobody.json()["error"]) == (401, "unauthenticated")
        for answer in (
            host.http.get(f"{url}/events?streamMode=x"),
            host.http.get(f"{url}/events/poll?lastSequence=x&afterSequence=x"),
            host.http.post(f"{url}:fork", json={"mode": "sideways"}),
            host.http.post(f"{url}/interrupts/x", content=b"{"),
        ):
            assert (answer.status_code, answer.json()["error"]) == (404, code)
