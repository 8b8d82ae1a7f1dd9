"""The OpenWOP host, scenario by scenario, as a client sees it over HTTP."""

import json
import threading
import time

import httpx
import pytest

from support.hosting import TOKEN, Client, Host, flow, pairs, put, validator
from tracklog.hosts.openwop.own_lines import OwnLines
from tracklog.hosts.openwop.recorded_answers import recorded_in
from tracklog.hosts.openwop.runlog import RunLog
from tracklog.hosts.openwop.settings import Key, Settings, ToolProgram, digest
from tracklog.hosts.openwop.tools import Hooks

FIXTURES = [
    "noop",
    "identity",
    "multi-node",
    "delay",
    "cancellable",
    "idempotent",
    "failure",
    "cap-breach",
    "approval",
    "clarification",
    "message-reducer",
    "agent-identity",
    "agent-reasoning",
    "agent-reasoning-streaming",
    "agent-low-confidence",
    "agent-pack-provenance",
    "orchestrator-dispatch",
    "orchestrator-low-confidence",
    "orchestrator-terminate",
]  # a list of words


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Host(tmp_path_factory.mktemp("home"), seams=True) as made:
        yield made


@pytest.mark.requirement("WOP-73", "WOP-74", "WOP-83", "WOP-92")
def test_discovery_needs_no_key_and_advertises_both_layouts_from_one_source(host):
    with httpx.Client(base_url=host.url, trust_env=False) as anybody:
        response = anybody.get("/.well-known/openwop")
        again = anybody.get("/.well-known/openwop")
        api = anybody.get("/v1/openapi.json").json()
    assert response.status_code == 200
    assert response.headers["cache-control"] == "public, max-age=300"
    assert response.headers["capabilities-etag"] == again.headers["capabilities-etag"]
    said = response.json()
    validator("capabilities").validate(said)
    assert sorted(said["fixtures"]) == sorted(f"conformance-{name}" for name in FIXTURES)
    block, root = said["capabilities"]["agents"], said["agents"]
    flags = ("reasoningEvents", "toolEvents", "handoffEvents", "decisionEvents")
    assert [block[flag] for flag in flags] == [True] * 4
    assert block["memoryBackends"] == ["conversation"]
    assert block["supported"] is root["supported"] is True
    assert block["reasoning"] == root["reasoning"]
    assert all(type(each) is int and each >= 0 for each in said["limits"].values())
    assert api["openapi"].startswith("3.1")
    assert "/v1/runs/{run}/events" in api["paths"]


def test_every_fixture_is_served_as_it_was_published_and_runs(host):
    for name in FIXTURES:
        found = host.http.get(f"/v1/workflows/conformance-{name}").json()
        assert found["id"] == f"conformance-{name}"
    assert host.http.get("/v1/workflows/nobody").status_code == 404


def test_a_run_is_begun_ends_and_can_be_looked_at(host):
    run = host.start("conformance-noop", tags=["a"], metadata={"b": 1})
    snapshot = host.until(run, "completed")
    assert (snapshot["tags"], snapshot["metadata"]) == (["a"], {"b": 1})
    response = host.http.get("/v1/runs/run-of-nobody")
    assert (response.status_code, response.json()["error"]) == (404, "run_not_found")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"workflowId":1}', 400),
        (b'{"workflowId":"conformance-noop","inputs":[]}', 400),
        (b'{"workflowId":"conformance-idempotent"}', 400),
        (b'{"workflowId":"conformance-noop","configurable":{"escalationThreshold":1.1}}', 400),
        (b'{"workflowId":"conformance-noop","configurable":{"escalationThreshold":true}}', 400),
        (b'{"workflowId":"conformance-noop","configurable":{"reasoningVerbosity":"loud"}}', 400),
        (b'{"workflowId":"conformance-noop","configurable":{"recursionLimit":0}}', 400),
        (b'{"workflowId":"nobody"}', 400),
    ],
)
def test_what_cannot_be_begun_is_refused_in_the_closed_envelope(host, body, code):
    response = host.http.post("/v1/runs", content=body)
    assert response.status_code == code
    assert set(response.json()) <= {"error", "message", "details"}


@pytest.mark.requirement("WOP-80", "WOP-1")
def test_identity_passes_through_and_nodes_end_in_order(host):
    deep = {"a": [1, {"b": None, "ü": "…"}], "c": 1.5}
    run = host.start("conformance-identity", inputs={"payload": deep})
    assert host.until(run, "completed")["variables"]["payload"] == deep
    run = host.start("conformance-multi-node")
    host.until(run, "completed")
    said = host.http.get(f"/v1/runs/{run}/events/poll?lastSequence=0").json()
    done = [e["nodeId"] for e in said["events"] if e["type"] == "node.completed"]
    assert (done, said["isComplete"]) == (["a", "b", "c"], True)


def test_failure_is_on_the_snapshot_and_on_the_node(host):
    run = host.start("conformance-failure")
    assert host.until(run, "failed")["error"]["code"] == "node_failed"
    (failed,) = host.events(run, "node.failed")
    assert failed["payload"]["error"] == {
        "code": "node_failed",
        "message": "core.fail always fails",
    }
    assert host.events(run)[-1]["type"] == "run.failed"


def test_events_are_numbered_without_a_gap_and_end_once(host):
    run = host.start("conformance-agent-reasoning")
    host.until(run, "completed")
    events = host.events(run)
    assert [e["sequence"] for e in events] == list(range(len(events)))
    ends = [e for e in events if e["type"] in ("run.completed", "run.failed", "run.cancelled")]
    assert ends == [events[-1]]
    assert host.events(run) == events
    poll = f"/v1/runs/{run}/events/poll"
    past = host.http.get(f"{poll}?lastSequence=99999")
    assert (past.status_code, past.json()["events"]) == (200, [])
    assert host.http.get(f"{poll}?lastSequence=x").status_code == 400
    assert host.http.get(poll).json()["events"] == events


def test_a_poll_is_held_until_there_is_more(host):
    run = host.start("conformance-delay", inputs={"delayMs": 700})
    last = len(host.events(run)) - 1
    began = time.monotonic()
    said = host.http.get(f"/v1/runs/{run}/events/poll?lastSequence={last}&timeout=10").json()
    assert said["events"]
    assert time.monotonic() - began < 5  # it would be ten


def test_cancelling_ends_a_run_and_a_second_time_changes_nothing(host):
    run = host.start("conformance-cancellable", inputs={"delayMs": 30000})
    host.until(run, "running")
    response = host.http.post(f"/v1/runs/{run}/cancel", json={"reason": "enough"})
    assert response.status_code == 200
    assert response.json()["status"] in ("cancelled", "cancelling")
    host.until(run, "cancelled")
    kinds = [e["type"] for e in host.events(run)]
    assert kinds[-2:] == ["node.cancelled", "run.cancelled"]
    end = host.events(run)[-1]["payload"]
    assert end == {"reason": "enough", "cancelledBy": "default"}
    again = host.http.post(f"/v1/runs/{run}/cancel", json={})
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")
    assert host.http.post("/v1/runs/run-x/cancel", json={}).status_code == 404


def test_a_run_that_waits_is_cancelled_with_its_question(host):
    run = host.start("conformance-approval")
    token = host.until(run, "waiting-approval")["interrupt"]["interruptToken"]
    cancelled = host.http.post(f"/v1/runs/{run}/cancel", json={})
    assert cancelled.status_code == 200
    assert cancelled.json() == {"runId": run, "status": "cancelled"}
    body = {"resumeValue": {"action": "accept"}}
    for prefix in ("/v1", ""):
        for url in (f"/runs/{run}/interrupts/gate", f"/interrupts/{token}"):
            late = host.http.post(prefix + url, json=body)
            assert (late.status_code, late.json()["error"]) == (409, "interrupt_already_resolved")


def test_the_cap_on_node_executions_ends_a_run_before_the_node_over_it(host):
    run = host.start("conformance-cap-breach", configurable={"recursionLimit": 3})
    assert host.until(run, "failed")["error"]["code"] == "recursion_limit_exceeded"
    events = host.events(run)
    (breach,) = [e for e in events if e["type"] == "cap.breached"]
    said = {"kind": "node-executions", "limit": 3, "observed": 4, "nodeId": "n4"}
    assert breach["payload"] == said
    assert breach["sequence"] < events[-1]["sequence"]
    assert len([e for e in events if e["type"] == "node.started"]) == 3


def test_stream_modes_send_what_they_say_and_the_server_closes(host):
    run = host.start("conformance-delay", inputs={"delayMs": 300})
    updates = host.stream(run)
    kinds = [kind for _, kind, _ in updates]
    assert kinds == ["run.started", "node.completed", "run.completed"]
    debug = host.stream(run, "?streamMode=debug")
    assert [data for _, _, data in debug] == host.events(run)
    assert [int(id) for id, _, _ in debug] == list(range(len(debug)))
    values = host.stream(run, "?streamMode=values")
    assert {kind for _, kind, _ in values} == {"state.snapshot"}
    assert values[-1][2]["status"] == "completed"
    assert host.stream(run, "?streamMode=messages") == []
    resumed = host.stream(run, "?streamMode=debug", **{"Last-Event-ID": "1"})
    assert [int(id) for id, _, _ in resumed] == list(range(2, len(debug)))
    batches = host.stream(run, "?streamMode=debug&bufferMs=200")
    assert [event for _, kind, data in batches for event in data if kind == "batch"] == host.events(
        run
    )


def test_values_follow_a_run_while_it_runs(host):
    run = host.start("conformance-delay", inputs={"delayMs": 4000})
    statuses = [data["status"] for _, _, data in host.stream(run, "?streamMode=values")]
    assert statuses[0] == "running"
    assert statuses[-1] == "completed"


@pytest.mark.parametrize("query", ["?streamMode=does-not-exist", "?streamMode=values,debug"])
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_bad_mode_is_refused_under_either_accept(host, query, accept):
    run = host.start("conformance-noop")
    response = host.http.get(f"/v1/runs/{run}/events{query}", headers={"Accept": accept})
    assert response.status_code == 400
    assert response.json()["error"] == "unsupported_stream_mode"
    assert response.json()["details"]["supported"] == ["values", "updates", "messages", "debug"]
    assert host.http.get(f"/v1/runs/{run}/events?bufferMs=5001").status_code == 400


@pytest.mark.requirement("WOP-87")
def test_each_type_of_agent_event_can_be_subscribed_to(host):
    run = host.start("conformance-agent-reasoning")
    host.until(run, "completed")
    kinds = [kind for _, kind, _ in host.stream(run, "?streamMode=updates&types=agent.*")]
    five = ["reasoned", "toolCalled", "toolReturned", "handoff", "decided"]
    assert kinds == [f"agent.{each}" for each in five]
    chosen = host.stream(run, "?streamMode=updates&types=agent.decided,run.*")
    assert [kind for _, kind, _ in chosen] == ["run.started", "agent.decided", "run.completed"]
    assert "agent.decided" not in [kind for _, kind, _ in host.stream(run)]
    assert "agent.decided" in [kind for _, kind, _ in host.stream(run, "?streamMode=debug")]


def test_the_same_key_gives_the_same_run_and_another_body_is_a_conflict(host):
    body = {"workflowId": "conformance-idempotent", "inputs": {"nonce": "n1"}}
    headers = {"Idempotency-Key": "key-1"}
    first = host.http.post("/v1/runs", json=body, headers=headers)
    turned = {"inputs": body["inputs"], "workflowId": body["workflowId"]}
    again = host.http.post("/v1/runs", json=turned, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["openwop-Idempotent-Replay"] == "true"
    assert "openwop-Idempotent-Replay" not in first.headers
    body["inputs"] = {"nonce": "n2"}
    other = host.http.post("/v1/runs", json=body, headers=headers)
    assert (other.status_code, other.json()["error"]) == (409, "idempotency_key_mismatch")


def test_duplicates_that_come_at_once_are_one_run(host):
    body = {"workflowId": "conformance-idempotent", "inputs": {"nonce": "n"}}
    found = []

    def ask():
        client = Client(host.url)
        response = client.http.post("/v1/runs", json=body, headers={"Idempotency-Key": "at-once"})
        found.append(response.json()["runId"])
        client.http.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_what_was_refused_may_be_tried_again_under_the_same_key(host):
    headers = {"Idempotency-Key": "key-bad"}
    assert host.http.post("/v1/runs", json={}, headers=headers).status_code == 400
    body = {"workflowId": "conformance-noop"}
    assert host.http.post("/v1/runs", json=body, headers=headers).status_code == 201


def test_without_a_valid_key_an_answer_does_not_even_say_what_exists(host):
    run = host.start("conformance-noop")
    shapes = ["sk-" + "a" * 40, "AIza" + "b" * 35, "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", "wrong"]
    for path in (f"/v1/runs/{run}", "/v1/runs/nobody", "/v1/workflows/conformance-noop", "/v1/x"):
        with httpx.Client(base_url=host.url, trust_env=False) as anybody:
            response = anybody.get(path)
            assert (response.status_code, response.json()["error"]) == (401, "unauthenticated")
            for shown in shapes:
                response = anybody.get(path, headers={"Authorization": f"Bearer {shown}"})
                assert response.status_code == 401
                assert shown not in response.text
            assert anybody.get(path, headers={"Authorization": f"Basic {TOKEN}"}).status_code == 401


def test_a_clarification_is_asked_answered_and_gone(host):
    run = host.start("conformance-clarification")
    snapshot = host.until(run, "waiting-input")
    assert snapshot["currentNodeId"] == "ask"
    assert snapshot["interrupt"]["key"] == "ask:0:0"
    assert host.answer(run, "ask", {"answers": {}}).status_code == 400
    assert host.answer(run, "ask", 5).status_code == 400
    assert host.answer(run, "nobody", {"answers": {"q1": "blue"}}).status_code == 404
    answered = host.answer(run, "ask", {"answers": {"q1": "blue"}})
    assert answered.status_code == 200
    assert answered.json()["runId"] == run
    host.until(run, "completed")
    assert host.answer(run, "ask", {"answers": {"q1": "red"}}).status_code == 409
    kinds = [(e["type"], e["payload"].get("resumeValue")) for e in host.events(run)[4:7]]
    told = {"answers": {"q1": "blue"}}
    wanted = [
        ("clarification.resolved", None),
        ("interrupt.resolved", told),
        ("node.resumed", told),
    ]
    assert kinds == wanted


def test_an_approval_takes_one_of_its_actions_and_a_rejection_ends_the_run(host):
    run = host.start("conformance-approval")
    assert host.until(run, "waiting-approval")["currentNodeId"] == "gate"
    for refused in ({"action": "maybe"}, "accept", ["accept"], None):
        assert host.answer(run, "gate", refused).status_code == 400
    assert host.http.post(f"/v1/runs/{run}/interrupts/gate", json={}).status_code == 400
    assert host.http.post(f"/v1/runs/{run}/interrupts/nobody", json={}).status_code == 404
    assert host.answer(run, "gate", {"action": "accept"}).status_code == 200
    assert host.until(run, "completed")["variables"] == {"action": "accept"}
    run = host.start("conformance-approval")
    host.until(run, "waiting-approval")
    assert host.answer(run, "gate", {"action": "reject"}).status_code == 200
    assert host.until(run, "failed")["error"]["code"] == "approval_rejected"


def test_of_two_who_answer_at_once_one_wins(host):
    run = host.start("conformance-approval")
    host.until(run, "waiting-approval")
    codes = []

    def ask():
        client = Client(host.url)
        codes.append(client.answer(run, "gate", {"action": "accept"}).status_code)
        client.http.close()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) <= {200, 404, 409}
    assert codes.count(200) == 1
    assert len(host.events(run, "interrupt.resolved")) == 1


@pytest.mark.requirement("WOP-81", "WOP-82", "WOP-98", "WOP-36")
def test_two_replays_of_a_run_are_equal_to_it(host):
    for name in ("noop", "agent-reasoning", "agent-reasoning-streaming", "message-reducer"):
        source = host.start(f"conformance-{name}")
        host.until(source, "completed")
        lists = []
        for start in (0, 0, 3):
            response = host.fork(source, mode="replay", fromSeq=start)
            said = response.json()
            assert response.status_code == 201
            assert (said["sourceRunId"], said["mode"], said["fromSeq"]) == (source, "replay", start)
            host.until(said["runId"], "completed")
            lists.append([(e["type"], e.get("nodeId"), json.dumps(e["payload"]))
                          for e in host.events(said["runId"])])  # fmt: skip
        told = [(e["type"], e.get("nodeId"), json.dumps(e["payload"])) for e in host.events(source)]
        assert lists == [told] * 3


def test_a_fork_is_refused_where_it_makes_no_sense(host):
    source = host.start("conformance-noop")
    host.until(source, "completed")
    for body, code in [
        ({"mode": "replay", "fromSeq": -1}, 400),
        ({"mode": "replay", "fromSeq": 1.5}, 400),
        ({"mode": "replay", "fromSeq": 99999}, 422),
        ({"mode": "sideways"}, 400),
        ({"mode": "branch"}, 400),
        ({"mode": "replay", "runOptionsOverlay": {"configurable": {"x": 1}}}, 400),
    ]:
        assert host.fork(source, **body).status_code == code, body
    beyond = host.fork(source, mode="replay", fromSeq=99999).json()
    assert beyond["details"] == {"field": "fromSeq", "events": len(host.events(source))}
    assert host.fork("run-nobody", mode="replay").status_code == 404
    branch = host.fork(source, mode="branch", fromSeq=2, runOptionsOverlay={})
    name = branch.json()["runId"]
    assert branch.json()["fromSeq"] == 2
    host.until(name, "completed")
    assert pairs(host.events(name)[:2]) == pairs(host.events(source)[:2])  # fixed history
    again = [(e["type"], e["payload"].get("attempt")) for e in host.events(name)[2:4]]
    assert again == [("node.retried", 1), ("node.started", 1)]


def test_the_tool_hooks_seam_shows_what_would_be_written(host):
    path = "/v1/host/sample/toolhooks/invoke"
    secret = "sk-" + "q" * 24
    body = {"principal": "default", "toolName": "search", "args": {"apiKey": secret, "q": "x"}}
    said = host.http.post(path, json=body)
    assert secret not in said.text
    called, returned = said.json()["toolCalled"], said.json()["toolReturned"]
    assert called["toolId"] == called["toolName"] == "openwop:search"
    assert called["arguments"]["apiKey"] == "[REDACTED:apiKey]"
    assert len(called["argsHash"]) == 64
    assert (returned["status"], returned["durationMs"]) == ("ok", 0)
    lower = {"principal": "conformance-unprivileged", "requiredScopes": ["tools:run"]}
    returned = host.http.post(path, json={**body, **lower}).json()["toolReturned"]
    assert returned["status"] == "forbidden"
    assert not {"durationMs", "result"} & set(returned)
    returned = host.http.post(path, json={**body, "simulateRateLimitExhausted": True}).json()
    assert returned["toolReturned"]["status"] == "rate_limited"
    returned = host.http.post(path, json={**body, "simulateToolError": True}).json()["toolReturned"]
    assert returned["status"] == "error"
    assert returned["error"]["code"] == returned["error"]["error"]
    assert not {"result", "outcome"} & set(returned)


def test_the_seam_is_not_there_unless_it_was_asked_for(tmp_path):
    with Host(tmp_path) as host:
        response = host.http.post("/v1/host/sample/toolhooks/invoke", json={"principal": "x"})
        assert response.status_code == 404


def test_a_key_that_may_only_read_begins_nothing(tmp_path):
    reader = Key(digest=digest("read-only"), principal="ann", scopes=frozenset({"runs:read"}))
    with Host(tmp_path, keys=(reader,)) as host:
        run = host.start("conformance-noop")
        client = Client(host.url, "read-only")
        assert client.snapshot(run)["runId"] == run
        response = client.http.post("/v1/runs", json={"workflowId": "conformance-noop"})
        assert (response.status_code, response.json()["error"]) == (403, "forbidden")
        client.http.close()


def test_edges_say_what_happens_when_a_node_fails(tmp_path):
    nodes = [{"id": "a", "typeId": "core.fail"}, {"id": "b", "typeId": "core.noop"}]
    nodes += [{"id": "c", "typeId": "core.noop"}, {"id": "d", "typeId": "core.noop"}]
    edges = [("a", "b", "any_failed"), ("a", "c"), ("c", "d", "all_complete")]
    folder = put(tmp_path / "flows", flow("rescue", nodes, edges))
    with Host(tmp_path / "home", workflows=folder) as host:
        run = host.start("rescue")
        states = host.until(run, "completed")["nodeStates"]
        found = {name: state["status"] for name, state in states.items()}
        assert found == {"a": "failed", "b": "completed", "c": "skipped", "d": "completed"}


@pytest.mark.parametrize(
    ("nodes", "edges", "code"),
    [
        ([{"id": "a", "typeId": "core.unknown"}], [], "capability_required"),
        ([{"id": "a", "typeId": "core.conformance.mock-agent"}], [], "validation_error"),
        ([{"id": "a", "typeId": "core.noop"}] * 2, [], "validation_error"),
        ([{"id": "a", "typeId": "core.noop"}], [("a", "a")], "validation_error"),
        ([{"id": "a", "typeId": "core.noop"}], [("a", "b")], "validation_error"),
        (
            [
                {
                    "id": "a",
                    "typeId": "core.noop",
                    "inputs": {"x": {"type": "expression", "expression": "1"}},
                }
            ],
            [],
            "validation_error",
        ),
        (
            [{"id": "a", "typeId": "core.dispatch", "config": {"inputMapping": {"a": 1}}}],
            [],
            "validation_error",
        ),
        (
            [
                {
                    "id": "a",
                    "typeId": "core.noop",
                    "agent": {"agentId": "core.x", "channel": "stable"},
                }
            ],
            [],
            "validation_error",
        ),
        ([{"id": "a", "typeId": "core.ai.callPrompt"}], [], "validation_error"),
    ],
)
def test_a_definition_that_cannot_be_run_is_refused_with_its_code(tmp_path, nodes, edges, code):
    folder = put(tmp_path / "flows", flow("broken", nodes, edges))
    with Host(tmp_path / "home", workflows=folder) as host:
        response = host.http.post("/v1/runs", json={"workflowId": "broken"})
        assert response.json()["error"] == code
        assert response.status_code == {"capability_required": 422}.get(code, 400)
        assert host.http.get("/v1/workflows/broken").status_code == 404
        assert len(host.engine.workflows.faults) == 1


def test_all_faults_of_a_workflow_are_reported_at_once_with_their_places(tmp_path):
    nodes = [
        {"id": "a", "typeId": "core.nothing"},
        {"id": "b", "typeId": "core.ai.callPrompt"},
        {"id": "c", "typeId": "core.approvalGate", "config": {"actions": ["maybe"]}},
        {"id": "d", "typeId": "core.noop", "inputs": {
            "x": {"type": "expression", "expression": "1"},
            "y": {"type": "connection", "nodeId": "z", "outputKey": "o"},
        }},
    ]  # fmt: skip
    folder = put(tmp_path / "flows", flow("broken", nodes, [("a", "nowhere")]))
    shape = flow("shape", [{"id": "a", "typeId": "core.noop", "agent": {"agentId": "x"}}])
    put(tmp_path / "flows", {**shape, "settings": {"timeout": "long"}, "surprise": 1})
    agent = {"agentId": "core.x", "persona": "", "modelClass": "loud", "systemPrompt": "Be."}
    agents = put(tmp_path / "agents", agent)
    with Host(tmp_path / "home", workflows=folder, manifests=agents) as host:
        told = {fault.partition(".json")[0].rpartition("/")[2]: fault
                for fault in host.engine.workflows.faults}  # fmt: skip
    for words in ("no node type core.nothing", "b: prompt", "c: actions", "d: x is an expression",
                  "d: y names a node", "the edge 'e0' names"):  # fmt: skip
        assert words in told["broken"], words
    for words in ("a: agentId", "settings/timeout", "surprise"):
        assert words in told["shape"], words
    assert "persona" in told["core.x"]
    assert "modelClass" in told["core.x"]


def test_a_run_that_takes_longer_than_its_definition_allows_is_ended(tmp_path):
    wait = {"id": "wait", "typeId": "core.delay", "config": {"delayMs": 60_000}}
    slow = flow("slow", [wait], settings={"timeout": 300})
    ask = {"id": "ask", "typeId": "core.approvalGate", "config": {}}
    asking = flow("asking", [ask], settings={"timeout": 300})
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", slow, asking)) as host:
        patient = host.start("asking")
        host.until(patient, "waiting-approval")
        run = host.start("slow")
        error = host.until(run, "failed")["error"]
        assert error["code"] == "run_timeout"
        breach, failed, ended = host.events(run)[-3:]
        assert breach["payload"]["kind"] == "run-duration"
        assert breach["payload"]["limit"] == 300 < breach["payload"]["observed"]
        assert (failed["type"], failed["causationId"]) == ("node.failed", breach["eventId"])
        assert (ended["type"], ended["causationId"]) == ("run.failed", failed["eventId"])
        fork = host.fork(run, mode="replay").json()["runId"]
        assert host.until(fork, "failed")["error"] == error
        assert pairs(host.events(fork)) == pairs(host.events(run))
        # The time that a person takes is the person's.
        assert host.answer(patient, "ask", {"action": "accept"}).status_code == 200
        host.until(patient, "completed")


def test_a_host_leaves_runs_alone_whose_workflow_it_does_not_have(tmp_path):
    ask = {"id": "ask", "typeId": "core.approvalGate", "config": {}}
    folder = put(tmp_path / "flows", flow("own", [ask]))
    with Host(tmp_path / "home", workflows=folder) as host:
        run, other = host.start("own"), host.start("own")
        host.until(run, "waiting-approval")
        host.until(other, "waiting-approval")
    with Host(tmp_path / "home") as host:
        assert host.snapshot(run)["status"] == "waiting-approval"
        assert host.answer(run, "ask", {"action": "accept"}).status_code == 422
        assert host.http.post(f"/v1/runs/{other}/cancel", json={}).status_code == 200
        host.until(other, "failed", "cancelled")
    with Host(tmp_path / "home", workflows=folder) as host:
        assert host.answer(run, "ask", {"action": "accept"}).status_code == 200
        host.until(run, "completed")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/runs", 405),
        ("DELETE", "/v1/runs/x", 405),
        ("PATCH", "/v1/runs", 405),
        ("GET", "/v1/runs/x:fork", 405),
        ("GET", "/v1/runs/%00", 404),
        ("GET", "/v1/runs/x/events?bufferMs=-1", 404),
        ("GET", "/v1/workflows/%2e%2e%2fetc", 404),
        ("POST", "/v1/runs/x/interrupts/y", 404),
        ("POST", "/v1/runs/x/cancel", 404),
        ("POST", "/v1/host/sample/nothing", 404),
    ],
)
def test_whatever_is_asked_for_the_envelope_is_closed(host, method, path, status):
    response = host.http.request(method, path, json={} if method in ("POST", "PATCH") else None)
    assert response.status_code == status, response.text
    assert set(response.json()) <= {"error", "message", "details"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b'"x"', b'{"workflowId": 1}', b"\xff\xfe", b'{"a":1e999}']
)
def test_whatever_is_sent_nothing_is_begun_and_the_envelope_is_closed(host, body):
    headers = {"Content-Type": "application/json"}
    response = host.http.post("/v1/runs", content=body, headers=headers)
    assert response.status_code == 400, response.text
    assert set(response.json()) <= {"error", "message", "details"}


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("approval", "waiting-approval"),
        ("low-confidence", "waiting-approval"),
        ("clarification", "waiting-input"),
        ("custom", "waiting-input"),
        ("external-event", "waiting-external"),
        ("another", "waiting-approval"),
    ],
)
def test_the_status_of_a_run_that_waits_follows_from_what_it_waits_for(kind, status):
    log = RunLog("r", OwnLines(b"secret", 0))
    payload = {"nodeId": "n", "kind": kind, "interruptId": "i"}
    for kind_of, fields in (("node.started", {"nodeId": "n"}), ("node.suspended", payload)):
        log.snapshot.apply({"type": kind_of, "payload": fields, "timestamp": "t"})
    assert log.snapshot.status == status
    assert log.as_json()["interrupt"] == {"interruptId": "i", "nodeId": "n"}


@pytest.mark.parametrize(
    ("kind", "who"), [("approval.received", "decidedBy"), ("clarification.resolved", "answeredBy")]
)
def test_an_answer_of_a_person_is_on_the_tape_with_its_name(kind, who):
    events = [
        {"type": "node.started", "nodeId": "n", "payload": {"typeId": "core.x"}, "sequence": 1},
        {"type": kind, "nodeId": "n", "payload": {who: "ann"}, "sequence": 2},
        {"type": "interrupt.resolved", "nodeId": "n", "payload": {"resumeValue": 5}, "sequence": 3},
    ]
    (answer,) = recorded_in(events)
    assert (answer.kind, answer.lane, answer.seq) == ("person", "n", 3)
    assert answer.answer == {"value": 5, "by": "ann"}


def test_a_tool_is_allowed_to_a_principal_that_holds_its_scopes_and_to_no_other():
    tool = ToolProgram(id="local:t", command=("true",), scopes=("danger",))
    free = ToolProgram(id="local:free", command=("true",))
    keys = (
        Key(digest=digest("a"), principal="ann", scopes=frozenset({"danger"})),
        Key(digest=digest("b"), principal="bob", scopes=frozenset({"write"})),
    )
    hooks = Hooks(Settings(tools={"local:t": tool, "local:free": free}, keys=keys))
    assert hooks.judge({"principal": "ann"}, "local:t") is None
    assert hooks.judge({"principal": "bob"}, "local:t").status == "forbidden"
    assert hooks.judge({"principal": "nobody"}, "local:t").status == "forbidden"
    assert hooks.judge({"principal": "nobody"}, "local:free") is None


def test_a_workflow_file_that_cannot_be_read_is_a_fault_and_stops_nothing(tmp_path):
    folder = put(tmp_path / "flows", flow("good", [{"id": "a", "typeId": "core.noop"}]))
    (tmp_path / "flows" / "gone.json").symlink_to(tmp_path / "nowhere")
    with Host(tmp_path / "home", workflows=folder) as host:
        (fault,) = host.engine.workflows.faults
        assert "gone.json" in fault
        assert "No such file" in fault
        host.until(host.start("good"), "completed")
