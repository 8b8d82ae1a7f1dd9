"""Version 2 of OpenWOP: the same runs, with closed shapes, other names and bound ids."""

import hashlib
import hmac
import json
import re

import httpx
import jsonschema_rs
import pytest
from test_host_openwop_floor import HOOKS, Receiver, error_of, gate, key

from support.hosting import Client, Host, flow, put
from support.openwop_clients import python_with
from support.openwop_v2 import EFFECTS, SNAPSHOT
from support.waiting import eventually
from tracklog.hosts.openwop.discovery import discovery_2
from tracklog.hosts.openwop.failures import STATUS, Failure
from tracklog.hosts.openwop.settings import Settings
from tracklog.hosts.openwop.wire_v2 import KNOWN, REGISTERED, Version2

EVENT = {"eventId", "runId", "type", "payload", "timestamp", "sequence", "schemaVersion"}
BOUND = re.compile(r"default/[A-Za-z0-9._-]{16,128}")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Host(tmp_path_factory.mktemp("home")) as made:
        yield made


def path_of(name: str) -> str:
    return f"/runs/{name.replace('/', '~2F')}"


def start(client: Client, workflow: str, **body) -> str:
    response = client.http.post("/runs", json={"workflowId": f"conformance-{workflow}", **body})
    assert response.status_code == 201, response.text
    assert response.headers["openwop-version"] == "2.0"
    return response.json()["runId"]


def until(client: Client, name: str, *statuses: str) -> dict:
    def find() -> dict | None:
        snapshot = client.http.get(path_of(name)).json()
        SNAPSHOT.validate(snapshot)
        return snapshot if snapshot["status"] in statuses else None

    found = eventually(find)
    assert found
    return found


def events_of(client: Client, name: str, *kinds: str) -> list[dict]:
    found = client.http.get(f"{path_of(name)}/events/poll").json()["events"]
    return [event for event in found if not kinds or event["type"] in kinds]


def test_discovery_is_closed_and_one_resource_with_that_of_version_1(host):
    with httpx.Client(base_url=host.url, trust_env=False) as anybody:
        first = anybody.get("/.well-known/openwop")
        second = anybody.get("/.well-known/openwop", headers={"OpenWOP-Version": "2"})
        assert first.headers["openwop-version"] == "1.0"
        assert second.headers["openwop-version"] == "2.0"
        assert first.headers["vary"] == second.headers["vary"] == "OpenWOP-Version"
        assert first.headers["etag"] != second.headers["etag"]
        same = {"OpenWOP-Version": "2.0", "If-None-Match": second.headers["etag"]}
        assert anybody.get("/.well-known/openwop", headers=same).status_code == 304
    old, new = first.json(), second.json()
    for document in (old, new):
        assert document["protocolVersions"] == ["1.0", "2.0"]
        assert document["preferredVersion"] == document["protocolVersion"] == "1.0"
    assert not {"capabilities", "supportedEnvelopes", "supportedTransports"} & new.keys()
    assert "capabilities-etag" not in second.headers
    records = {
        name: each for name, each in new.items() if isinstance(each, dict) and "status" in each
    }
    assert records.keys() >= {
        "interrupt",
        "replay",
        "webhooks",
        "idempotency",
        "eventLog",
        "agents",
    }
    for record in records.values():
        assert record.keys() >= {"status", "since", "witness"}
        assert ("until" in record) == (record["status"] != "stable")
        assert "supported" not in record


def test_agents_are_announced_only_when_all_of_their_events_are_written():
    assert "agents" in discovery_2(Settings(), [])
    for flag in ("reasoning_events", "tool_events", "handoff_events", "decision_events"):
        assert "agents" not in discovery_2(Settings(**{flag: False}), [])


def test_events_have_a_closed_envelope_and_the_names_of_version_2(host):
    name = start(host, "agent-reasoning", tags=["a"])
    until(host, name, "completed")
    events = events_of(host, name)
    for event in events:
        assert EVENT <= event.keys() <= EVENT | {"nodeId", "engineVersion", "causationId"}
        assert event["runId"] == name
        assert event["engineVersion"] == 1
        assert re.fullmatch(r"[A-Za-z0-9._~-]{16,128}", event["eventId"])
    assert events[-1]["type"] == "run.completed"
    assert isinstance(events[-1]["payload"]["outputs"], dict)
    kinds = [event["type"] for event in events]
    assert kinds[3:5] == ["agent.tool-called", "agent.tool-returned"]
    begun, node = events[0]["payload"], events[1]["payload"]
    assert begun["owner"]["tenant"] == "default"
    assert begun["owner"]["subject"] == {
        "issuer": "urn:tracklog:api-key", "subjectId": "default", "tenant": "default",
        "lane": "api-key", "kind": "user",
    }  # fmt: skip
    assert begun == {
        "workflowId": "conformance-agent-reasoning", "inputs": {}, "transport": "rest",
        "engineVersion": 1, "owner": begun["owner"], "tags": ["a"], "x-configurable": {},
    }  # fmt: skip
    assert node["x-agent"]["agentId"] == "core.conformance.reasoning-agent"
    called, returned, handoff, decided = (event["payload"] for event in events[3:7])
    assert called["inputs"] == returned["outcome"] == {"x": 1}
    assert called["x-toolId"] == called["toolName"] == "openwop.echo:echo"
    assert not {"arguments", "toolId"} & called.keys()
    assert not {"result", "toolId"} & returned.keys()
    assert handoff.keys() == {"fromAgentId", "toAgentId", "reason", "x-from", "x-to"}
    assert decided.keys() >= {"agentId", "decision", "confidence"}
    for event in events:
        known = KNOWN.get(
            {"agent.tool-called": "agent.toolCalled"}.get(event["type"], event["type"])
        )
        if known:
            assert all(each in known or each.startswith("x-") for each in event["payload"])


@pytest.mark.parametrize("fixture", ["orchestrator-dispatch", "agent-reasoning-streaming"])
def test_the_other_names_of_agents_and_supervisors(host, fixture):
    name = start(host, fixture)
    until(host, name, "completed")
    kinds = {event["type"] for event in events_of(host, name)}
    wanted = {"orchestrator-dispatch": "orchestrator.decided"}
    assert wanted.get(fixture, "agent.reasoning-delta") in kinds
    assert all(kind == kind.lower() for kind in kinds)
    newer = {"runOrchestrator.decided": "orchestrator.decided",
             "agent.reasoning.delta": "agent.reasoning-delta"}  # fmt: skip
    old = host.events(name.partition("/")[2], *newer)
    new = events_of(host, name, *newer.values())
    assert [(newer[e["type"]], e["payload"]) for e in old] == [
        (e["type"], e["payload"]) for e in new
    ]


def test_nothing_of_the_journal_is_lost_in_the_rendering(host):
    name = start(host, "agent-low-confidence")
    until(host, name, "waiting-approval")
    (new,) = events_of(host, name, "node.suspended")
    (old,) = host.events(name.partition("/")[2], "node.suspended")
    for each in ("agentId", "threshold", "observed", "decision"):
        assert new["payload"][f"x-{each}"] == old["payload"][each]
    assert new["payload"]["reason"] == "low-confidence"
    assert BOUND.fullmatch(new["payload"]["interruptId"])
    snapshot = until(host, name, "waiting-approval")
    assert snapshot["interrupt"]["interruptId"] == new["payload"]["interruptId"]


@pytest.mark.parametrize("headers", [{"OpenWOP-Version": "2.0"}, {"OpenWOP-Version": "2"}, {}])
def test_a_snapshot_is_not_sent_again_when_it_is_unchanged(host, headers):
    name = start(host, "approval")
    until(host, name, "waiting-approval")
    first = host.http.get(path_of(name), headers=headers)
    same = {**headers, "If-None-Match": first.headers["etag"]}
    again = host.http.get(path_of(name), headers=same)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["openwop-version"] == "2.0"
    several = {**headers, "If-None-Match": f'"x", W/{first.headers["etag"]}'}
    assert host.http.get(path_of(name), headers=several).status_code == 304
    other = host.http.get(path_of(name), headers={**headers, "If-None-Match": '"x"'})
    assert (other.status_code, other.json()["runId"]) == (200, name)
    answer = {"resumeValue": {"action": "accept"}}
    host.http.post(f"{path_of(name)}/interrupts/gate", json=answer)
    until(host, name, "completed")
    assert host.http.get(path_of(name), headers=same).status_code == 200


def test_an_approval_is_one_shape_with_who_resolved_it(host):
    name = start(host, "approval")
    until(host, name, "waiting-approval")
    url = f"{path_of(name)}/interrupts/gate"
    answer = host.http.post(url, json={"resumeValue": {"action": "reject"}}).json()
    assert answer == {"runId": name, "nodeId": "gate", "status": answer["status"]}
    failed = until(host, name, "failed")["error"]
    assert (failed["code"], failed["details"]) == ("approval_rejected", {"retryable": False})
    (end,) = events_of(host, name, "run.failed")
    assert (end["payload"]["error"]["retryable"], end["payload"]["failedNodeId"]) == (False, "gate")
    assert end["payload"]["error"]["details"] == failed["details"]  # one place for both
    answers = events_of(host, name, "approval.received", "interrupt.resolved")
    assert [event["type"] for event in answers] == ["approval.received", "interrupt.resolved"]
    for event in answers:
        payload = event["payload"]
        assert BOUND.fullmatch(payload["interruptId"])
        assert {**payload, "x-resolvedAt": ""} == {
            "nodeId": "gate", "interruptId": payload["interruptId"], "kind": "approval",
            "action": "reject", "decision": "rejected", "resumeValue": {"action": "reject"},
            "resolvedBy": {
                "issuer": "urn:tracklog:api-key", "subjectId": "default", "tenant": "default",
                "lane": "api-key", "kind": "user",
            },
            "x-resolvedAt": "",
        }  # fmt: skip
    late = host.http.post(url, json={"resumeValue": {"action": "accept"}})
    assert error_of(late) == (409, "interrupt_already_resolved")
    nobody = host.http.post(f"{path_of(name)}/interrupts/nobody", json={"resumeValue": {}})
    assert error_of(nobody) == (404, "not_found")
    odd = host.http.post(url, json={"resumeValue": {"action": "accept"}, "by": "me"})
    assert error_of(odd) == (400, "validation_error")


PERSON = {
    "issuer": "urn:tracklog:api-key", "subjectId": "default", "tenant": "default",
    "lane": "api-key", "kind": "user",
}  # fmt: skip


@pytest.mark.parametrize(
    ("fixture", "node", "waits", "asked", "value", "told"),
    [
        (
            "approval", "gate", "waiting-approval",
            {"kind": "approval", "data": {
                "artifactId": "gate", "artifactType": "workflow-node",
                "title": "Conformance approval", "actions": ["accept", "reject"],
                "description": "Conformance suite — please accept to complete the run."}},
            {"action": "accept"},
            {"kind": "approval", "action": "accept", "decision": "granted"},
        ),
        (
            "clarification", "ask", "waiting-input",
            {"kind": "clarification", "data": {
                "questions": [{"id": "q1", "question": "What is your favorite color?"}]}},
            {"answers": {"q1": "blue"}},
            {"kind": "clarification"},
        ),
    ],
)  # fmt: skip
def test_a_question_and_its_answer_member_by_member(host, fixture, node, waits, asked, value, told):
    name = start(host, fixture)
    snapshot = until(host, name, waits)
    (requested,) = events_of(host, name, "interrupt.requested")
    schema = requested["payload"].pop("resumeSchema", None)
    assert requested["payload"] == {"key": f"{node}:0:0", **asked}
    assert (schema is not None) == (fixture == "approval")
    jsonschema_rs.validate(schema or True, value)
    interrupt = snapshot["interrupt"]["interruptId"]
    assert BOUND.fullmatch(interrupt)
    (suspended,) = events_of(host, name, "node.suspended")
    assert suspended["payload"] == {
        "nodeId": node, "interruptId": interrupt, "kind": fixture, "key": f"{node}:0:0",
    }  # fmt: skip
    page = host.http.get(f"{path_of(name)}/events/poll").json()
    assert (page["status"], page["isTerminal"]) == (waits, False)
    assert page["lastSequence"] == page["events"][-1]["sequence"]
    url = f"{path_of(name)}/interrupts/{node}"
    done = host.http.post(url, json={"resumeValue": value})
    assert (done.status_code, done.json().keys()) == (200, {"runId", "nodeId", "status"})
    until(host, name, "completed")
    kind = {"approval": "approval.received"}.get(fixture, "clarification.resolved")
    events = events_of(host, name, kind, "interrupt.resolved")
    assert [event["type"] for event in events] == [kind, "interrupt.resolved"]
    about = {"nodeId": node, "interruptId": interrupt, **told}
    for event in events:
        payload = dict(event["payload"])
        at = payload.pop("x-resolvedAt", None)
        assert payload == {**about, "resolvedBy": PERSON, "resumeValue": value}
        assert (at is not None) == (event["type"] == "interrupt.resolved")


def test_a_node_begins_and_ends_with_the_members_of_version_2(host):
    name = start(host, "agent-identity")
    until(host, name, "completed")
    old = host.events(name.partition("/")[2], "node.started", "node.completed")
    new = events_of(host, name, "node.started", "node.completed")
    assert [event["type"] for event in new] == ["node.started", "node.completed"]
    for before, after in zip(old, new, strict=True):
        payload = dict(before["payload"])
        agent = payload.pop("agent")
        assert after["payload"] == {**payload, "x-agent": agent}
    assert new[0]["payload"].keys() == {"nodeId", "typeId", "attempt", "x-agent"}
    assert new[1]["payload"].keys() == {"nodeId", "outputs", "x-agent"}


@pytest.mark.parametrize(
    "vote",
    [
        {"action": "accept", "feedback": "good"},
        {"action": "refine", "refineFeedback": {"scope": "whole"}, "feedback": "long"},
        {"action": "edit-accept", "editedArtifactData": {"a": [1]}},
    ],
    ids=lambda vote: vote["action"],
)
def test_a_vote_is_the_same_in_both_events_and_all_its_members_are_asked_for(tmp_path, vote):
    actions = ["accept", "refine", "edit-accept"]
    flows = put(tmp_path / "flows", flow("conformance-edits", [gate(actions=actions)]))
    with Host(tmp_path / "home", workflows=flows) as host:
        name = start(host, "edits")
        schema = until(host, name, "waiting-approval")["interrupt"]["resumeSchema"]
        assert schema["properties"].keys() == {
            "action", "feedback", "refineFeedback", "editedArtifactData",
        }  # fmt: skip
        jsonschema_rs.validate(schema, vote)
        url, body = f"{path_of(name)}/interrupts/gate", {"resumeValue": {**vote, "voter": "bob"}}
        assert host.http.post(url, json=body).status_code == 200
        until(host, name, "completed")
        events = events_of(host, name, "approval.received", "interrupt.resolved")
        assert [event["payload"]["resumeValue"] for event in events] == [vote, vote]
        assert events[1]["payload"]["x-resumeValue"] == {**vote, "voter": "bob"}


def test_a_change_and_a_timeout_have_the_members_of_version_2(tmp_path):
    config = {"actions": ["accept", "refine"], "timeoutMs": 400}
    flows = put(tmp_path / "flows", flow("conformance-edits", [gate(**config)]))
    with Host(tmp_path / "home", workflows=flows) as host:
        late, changed = start(host, "edits"), start(host, "edits")
        until(host, changed, "waiting-approval")
        value = {"action": "refine", "refineFeedback": {"scope": "whole", "text": "shorter"}}
        url = f"{path_of(changed)}/interrupts/gate"
        assert host.http.post(url, json={"resumeValue": value}).status_code == 200
        until(host, changed, "completed")
        for event in events_of(host, changed, "approval.received", "interrupt.resolved"):
            assert event["payload"]["action"] == "refine"
            assert event["payload"]["refineFeedback"] == value["refineFeedback"]
        until(host, late, "failed")
        for event in events_of(host, late, "approval.received", "interrupt.resolved"):
            payload = event["payload"]
            assert payload.items() >= {"action": "timeout", "decision": "rejected"}.items()
            assert payload["reason"] == "timeout"
            assert "resolvedBy" not in payload


def test_each_code_is_registered_with_its_status():
    code = "import json, openwop_client._generated as made\nprint(json.dumps(%s))"
    statuses = json.loads(python_with("2.7.0", code % "made.ERROR_CODE_HTTP_STATUS"))
    for each in STATUS:
        new = Version2(Settings()).failure(Failure(each, "why")).code
        assert statuses[new] == STATUS[new]
    assert statuses.keys() >= REGISTERED


def test_a_code_that_version_2_does_not_have_is_in_the_details(host):
    name = start(host, "failure")
    error = until(host, name, "failed")["error"]
    assert (error["code"], error["details"]) == ("internal_error", {"code": "node_failed"})
    (event,) = events_of(host, name, "run.failed")
    assert event["payload"]["error"] == error


def test_a_run_is_known_by_its_bound_id_in_every_spelling_and_by_its_bare_id(host):
    bare = host.start("conformance-noop")  # of version 1
    host.until(bare, "completed")
    for text in (f"default~2F{bare}", f"default%2F{bare}", bare):
        snapshot = host.http.get(f"/runs/{text}").json()
        assert (snapshot["runId"], snapshot["eventLogSchemaVersion"]) == (f"default/{bare}", 3)
    assert host.snapshot(bare)["eventLogSchemaVersion"] == 2
    assert error_of(host.http.get(f"/runs/other~2F{bare}")) == (403, "id_tenant_mismatch")
    assert error_of(host.http.get(f"/runs/default~7E2F{bare}")) == (404, "not_found")
    assert error_of(host.http.get("/runs/default~2")) == (400, "validation_error")
    fork = host.http.post(f"/runs/{bare}:fork", json={"mode": "replay", "fromSeq": 0}).json()
    assert fork == {
        "runId": fork["runId"], "sourceRunId": f"default/{bare}", "fromSeq": 0, "mode": "replay",
        "status": "running", "eventsUrl": f"{path_of(fork['runId'])}/events",
    }  # fmt: skip
    assert BOUND.fullmatch(fork["runId"])
    past = host.http.post(f"/runs/{bare}:fork", json={"mode": "replay", "fromSeq": 99})
    assert error_of(past) == (422, "fork_point_invalid")


def test_children_and_parents_are_bound_too(tmp_path):
    child = flow("child", [gate()])
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "child"}}
    flows = put(tmp_path / "flows", child, flow("parent", [sub]))
    with Host(tmp_path / "home", workflows=flows) as host:
        made = host.http.post("/runs", json={"workflowId": "parent"}).json()["runId"]
        snapshot = until(host, made, "waiting-approval")
        (row,) = snapshot["extensions"]["tracklog.run"]["childRuns"]
        assert BOUND.fullmatch(row["runId"])
        (event,) = events_of(host, made, "node.dispatched")
        assert event["payload"]["childRunId"] == row["runId"]
        inner = until(host, row["runId"], "waiting-approval")
        assert (inner["parentRunId"], inner["parentNodeId"]) == (made, "sub")


@pytest.mark.parametrize("action", ["accept", "reject"])
def test_the_id_of_a_child_is_bound_wherever_it_is_handed_on(tmp_path, action):
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "child"}}
    port = {"type": "connection", "nodeId": "sub", "outputKey": "childRunId"}
    copy = {"id": "copy", "typeId": "core.identity", "inputs": {"kept": port}}
    parent = flow("parent", [sub, copy], [("sub", "copy")])
    flows = put(tmp_path / "flows", flow("child", [gate()]), parent)
    with Host(tmp_path / "home", workflows=flows) as host:
        made = host.http.post("/runs", json={"workflowId": "parent"}).json()["runId"]
        snapshot = until(host, made, "waiting-approval")
        child = snapshot["extensions"]["tracklog.run"]["childRuns"][0]["runId"]
        body = {"resumeValue": {"action": action}}
        host.http.post(f"{path_of(child)}/interrupts/gate", json=body)
        snapshot = until(host, made, "completed", "failed")
        ends = {event["type"]: event["payload"] for event in events_of(host, made)}
        if action == "accept":
            assert snapshot["variables"]["childRunId"] == snapshot["variables"]["kept"] == child
            done = [e["payload"] for e in events_of(host, made, "node.completed")]
            assert [e["outputs"].get("childRunId", e["outputs"].get("kept")) for e in done] == [
                child,
                child,
            ]
            assert ends["run.completed"]["outputs"] == {"kept": child}
            other = host.http.post("/runs", json={"workflowId": "parent"}).json()["runId"]
            until(host, other, "waiting-approval")
            diff = host.http.get(f"{path_of(made)}:diff", params={"against": other}).json()
            assert diff["stateDiff"]["variables"]["childRunId"] == {"a": child}
        else:
            for error in (snapshot["error"], ends["run.failed"]["error"]):
                assert error["details"]["childRunId"] == child
                assert error["message"] == f"{child} is failed"
        bare = child.removeprefix("default/")
        raw = host.http.get(path_of(made)).text + host.http.get(f"{path_of(made)}/events/poll").text
        assert raw.count(bare) == raw.count(child) > 3
        url, accept = f"{path_of(made)}/events?streamMode=values", {"Accept": "text/event-stream"}
        with host.http.stream("GET", url, headers=accept) as stream:
            text = stream.read().decode()
        assert text.count(bare) == text.count(child) > 0


def test_the_id_of_a_grandchild_is_bound_in_every_run_that_it_is_handed_on_to(tmp_path):
    def calls(workflow, **config):
        return {"id": "sub", "typeId": "core.subWorkflow",
                "config": {"workflowId": workflow, **config}}  # fmt: skip

    up = {"outputMapping": {"deep": "childRunId"}}
    down = {"id": "next", "typeId": "core.subWorkflow",
            "config": {"workflowId": "leaf", "inputMapping": {"known": "deep"}}}  # fmt: skip
    variables = [{"name": "known", "type": "string"}]
    flows = put(
        tmp_path / "flows",
        flow("leaf", [{"id": "a", "typeId": "core.noop"}], variables=variables),
        flow("middle", [calls("leaf")]),
        flow("top", [calls("middle", **up), down], [("sub", "next")],
             variables=[{"name": "own", "type": "string"}]),
    )  # fmt: skip
    stranger = "run-00000000-0000-4000-8000-000000000000"
    with Host(tmp_path / "home", workflows=flows) as host:
        made = host.http.post("/runs", json={"workflowId": "top", "inputs": {"own": stranger}})
        name = made.json()["runId"]
        snapshot = until(host, name, "completed")
        middle, leaf = (row["runId"] for row in snapshot["extensions"]["tracklog.run"]["childRuns"])
        inner = until(host, middle, "completed")
        (deep,) = (row["runId"] for row in inner["extensions"]["tracklog.run"]["childRuns"])
        assert snapshot["variables"]["deep"] == deep
        assert snapshot["variables"]["own"] == stranger  # what a client gives is not changed
        assert events_of(host, name, "node.completed")[0]["payload"]["outputs"]["deep"] == deep
        (begun,) = events_of(host, leaf, "run.started")
        assert begun["payload"]["inputs"] == {"known": deep}
        assert until(host, leaf, "completed")["variables"]["known"] == deep
        bare = host.http.get(f"/v1/runs/{name.removeprefix('default/')}").json()
        assert f"default/{bare['variables']['deep']}" == deep
        replay = host.http.post(f"{path_of(name)}:fork", json={"mode": "replay"}).json()["runId"]
        assert until(host, replay, "completed")["variables"]["deep"] == deep


def test_options_are_nested_in_and_out(host):
    options = {"version": 1, "run": {"recursionLimit": 5, "escalationThreshold": 0.4},
               "ai": {"reasoningVerbosity": "none"}}  # fmt: skip
    name = start(host, "agent-reasoning", configurable=options)
    assert until(host, name, "completed")["configurable"] == options
    assert events_of(host, name, "agent.reasoned") == []
    flat = host.snapshot(name.partition("/")[2])["configurable"]
    assert flat == {"recursionLimit": 5, "escalationThreshold": 0.4, "reasoningVerbosity": "off"}


def test_options_that_a_workflow_declares_are_an_extension(tmp_path):
    schema = {"type": "object", "properties": {"tone": {"enum": ["calm"]}}, "required": ["tone"]}
    made = flow("toned", [{"id": "a", "typeId": "core.noop"}], configurableSchema=schema)
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        place = "configurable.extensions.tracklog.tone"
        for tone, field in (("loud", place), (None, "configurable")):
            options = {"tracklog": {"tone": tone}} if tone else {}
            body = {"workflowId": "toned", "configurable": {"version": 1, "extensions": options}}
            response = host.http.post("/runs", json=body)
            assert error_of(response) == (400, "validation_error")
            assert response.json()["details"] == {"field": field}
        options = {"version": 1, "extensions": {"tracklog": {"tone": "calm", "temper": 1}}}
        body = {"workflowId": "toned", "configurable": options}
        response = host.http.post("/runs", json=body)
        assert response.json()["details"] == {"field": "configurable.extensions.tracklog.temper"}
        del options["extensions"]["tracklog"]["temper"]
        name = host.http.post("/runs", json=body).json()["runId"]
        assert until(host, name, "completed")["configurable"] == options
        assert host.snapshot(name.partition("/")[2])["configurable"] == {"tone": "calm"}


def test_a_fork_has_the_owner_of_its_source_and_the_rights_of_its_maker(tmp_path):
    keys = (key("ann", "*"), key("bob", "*"))
    with Host(tmp_path, keys=keys) as host:
        ann, bob = host.client("ann"), host.client("bob")
        name = start(ann, "agent-reasoning")
        owner = until(ann, name, "completed")["owner"]
        assert owner["subject"]["subjectId"] == "ann"
        for body in ({"mode": "replay"}, {"mode": "branch", "fromSeq": 1}):
            forked = bob.http.post(f"{path_of(name)}:fork", json=body).json()["runId"]
            assert until(bob, forked, "completed")["owner"] == owner
            assert events_of(bob, forked, "run.started")[0]["payload"]["owner"] == owner
            again = bob.http.post(f"{path_of(forked)}:fork", json=body).json()["runId"]
            assert until(bob, again, "completed")["owner"] == owner
        (called,) = events_of(bob, forked, "agent.tool-called")
        assert called["payload"]["principal"] == "bob"


def test_what_a_run_of_another_mode_needs_is_refused_by_its_own_name(host):
    body = {"mode": "eval", "evalSuiteRef": "x", "agentId": "core.x"}
    response = host.http.post("/runs", json=body)
    assert error_of(response) == (400, "validation_error")
    assert response.json()["details"]["field"] in body


def test_events_are_filtered_by_type_also_as_json(host):
    name = start(host, "agent-reasoning")
    until(host, name, "completed")
    url = f"{path_of(name)}/events"
    rows = host.http.get(f"{url}?types=agent.tool-*,run.completed").json()["events"]
    kinds = [row["type"] for row in rows]
    assert kinds == ["agent.tool-called", "agent.tool-returned", "run.completed"]
    assert error_of(host.http.get(f"{url}?type=agent.*")) == (400, "validation_error")
    running = start(host, "delay", inputs={"delayMs": 5000})
    head = host.http.head(f"{path_of(running)}/events", headers={"Accept": "text/event-stream"})
    assert (head.status_code, head.content) == (200, b"")
    host.http.post(f"{path_of(running)}/cancel", json={})


def test_a_snapshot_is_closed_and_has_the_rest_in_an_extension(host):
    name = start(host, "delay", inputs={"delayMs": 1500})
    host.http.post(f"{path_of(name)}:pause", json={"drainPolicy": "immediate"})
    paused = until(host, name, "paused")
    assert paused["extensions"]["tracklog.run"].keys() == {"pausedAt"}
    host.http.post(f"{path_of(name)}/cancel", json={})
    asked = start(host, "approval")
    until(host, asked, "waiting-approval")
    body = {"resumeValue": {"action": "reject"}}
    host.http.post(f"{path_of(asked)}/interrupts/gate", json=body)
    error = until(host, asked, "failed")["error"]
    assert (error["code"], error["details"]) == ("approval_rejected", {"retryable": False})


def test_a_name_that_is_no_id_is_rendered_as_one(tmp_path):
    with Host(tmp_path, keys=(key("ann b/c", "*"),)) as host:
        client = host.client("ann b/c")
        owner = until(client, start(client, "noop"), "completed")["owner"]
        assert owner["subject"]["subjectId"] == "ann%20b%2Fc"


def test_a_poll_has_five_keys_and_a_cursor(host):
    name = start(host, "noop")
    until(host, name, "completed")
    url = f"{path_of(name)}/events/poll"
    page = host.http.get(url).json()
    assert page.keys() == {"runId", "events", "lastSequence", "status", "isTerminal"}
    assert (page["runId"], page["status"], page["isTerminal"]) == (name, "completed", True)
    rest = host.http.get(f"{url}?afterSequence=1").json()
    assert rest["events"] == page["events"][2:]
    assert rest["lastSequence"] == page["events"][-1]["sequence"]
    beyond = host.http.get(f"{url}?afterSequence=1000").json()
    assert (beyond["events"], beyond["lastSequence"]) == ([], page["lastSequence"])
    for query in ("timeout=0", "timeout=61", "afterSequence=x", "afterSequence=-1"):
        assert error_of(host.http.get(f"{url}?{query}")) == (400, "validation_error")
    assert host.http.get(f"{url}?streamMode=debug").json() == page
    other = host.http.get(f"{url}?streamMode=updates")
    assert error_of(other) == (400, "unsupported_stream_mode")


def test_a_poll_waits_for_the_next_event_also_without_a_timeout(host):
    name = start(host, "delay", inputs={"delayMs": 800})
    last = host.http.get(f"{path_of(name)}/events/poll").json()["lastSequence"]
    while not (page := host.http.get(f"{path_of(name)}/events/poll?afterSequence={last}").json())[
        "isTerminal"
    ]:
        assert page["events"]  # it came with something, or at the end
        last = page["lastSequence"]


def test_a_stream_has_the_names_and_shapes_of_version_2(host):
    name = start(host, "agent-reasoning")
    until(host, name, "completed")
    asked = {"Accept": "text/event-stream", "OpenWOP-Version": "2"}
    for query, wanted in (
        ("streamMode=updates&types=agent.tool-*", ["agent.tool-called", "agent.tool-returned"]),
        ("streamMode=updates", ["run.started", "node.completed", "run.completed"]),
    ):
        stream = host.http.get(f"{path_of(name)}/events?{query}&resumable=true", headers=asked)
        assert stream.headers["openwop-version"] == "2.0"
        assert re.findall(r"(?m)^event: (.*)$", stream.text) == wanted
        frames = re.findall(r"id: (\d+)\nevent: (.*)\ndata: (.*)\n\n", stream.text)
        assert len(frames) == len(wanted)
        for number, kind, line in frames:
            assert json.loads(line) == events_of(host, name)[int(number)]
            assert json.loads(line)["type"] == kind
    behind = host.http.get(f"{path_of(name)}/events", headers={**asked, "Last-Event-ID": "99"})
    assert (behind.status_code, behind.text) == (200, "")
    states = host.http.get(f"{path_of(name)}/events?streamMode=values", headers=asked)
    (data,) = re.findall(r"(?m)^data: (.*)$", states.text)
    assert json.loads(data)["owner"]["tenant"] == "default"


def test_bodies_are_closed_and_keys_of_retries_have_a_grammar(host):
    for body in ({"workflowId": "conformance-noop", "x": 1}, {"workflowId": "nobody"}):
        assert error_of(host.http.post("/runs", json=body)) == (400, "validation_error")
    fine = {"workflowId": "conformance-noop"}
    for word in ("short", "x" * 21, "x" * 129, "space in it and long enough", "a/b+c" * 5):
        response = host.http.post("/runs", json=fine, headers={"Idempotency-Key": word})
        assert error_of(response) == (400, "idempotency_key_invalid")
    for word in ("a.B_1~-" + "x" * 15, "y" * 128):
        response = host.http.post("/runs", json=fine, headers={"Idempotency-Key": word})
        assert response.status_code == 201
    for name, value in (("x", 1), ("tags", ["x"] * 101), ("tags", ["x" * 257])):
        response = host.http.post("/runs", json={**fine, name: value})
        assert error_of(response) == (400, "validation_error")
        assert response.json()["details"] == {"field": name}
    labels = {"tags": ["a/b c", "ä", "x" * 256], "metadata": {"a": {"b": [1, {"c": None}]}}}
    kept = until(host, start(host, "noop", **labels), "completed")
    assert (kept["tags"], kept["metadata"]) == (labels["tags"], labels["metadata"])
    same = {"Idempotency-Key": "a-key-that-is-long-enough"}
    first = host.http.post("/runs", json=fine, headers=same)
    again = host.http.post("/runs", json=fine, headers=same)
    assert first.json() == again.json()
    assert again.headers["openwop-idempotent-replay"] == "true"
    malformed = host.http.post("/runs", content=b"{")
    assert error_of(malformed) == (400, "validation_error")
    assert malformed.headers["openwop-version"] == "2.0"


def test_what_is_not_served_is_not_found_and_versions_are_not_mixed(host):
    for path in ("/agents", "/runs/default~2Fnobody", "/workflows/nobody", "/prompts/x"):
        response = host.http.get(path)
        assert error_of(response) == (404, "not_found")
        assert response.headers["openwop-version"] == "2.0"
    assert error_of(host.http.delete("/runs")) == (404, "not_found")
    one = host.http.get("/runs/x", headers={"OpenWOP-Version": "1.0"})
    assert error_of(one) == (400, "protocol_version_mismatch")
    nine = host.http.get("/runs/x", headers={"OpenWOP-Version": "9.0"})
    assert error_of(nine) == (406, "protocol_version_unsupported")
    api = host.http.get("/openapi.json").json()
    assert {"/runs", "/runs/{run}/effects", "/host/effect-seams"} <= api["paths"].keys()


def test_a_token_of_version_2(host):
    name = start(host, "approval")
    token = until(host, name, "waiting-approval")["interrupt"]["interruptToken"]
    with httpx.Client(base_url=host.url, trust_env=False) as anybody:
        assert anybody.get(f"/interrupts/{token}").json()["kind"] == "approval"
        wrong = anybody.get("/interrupts/ow2.hs256.host.x.y")
        assert error_of(wrong) == (401, "interrupt_token_invalid")
        body = {"resumeValue": {"action": "accept"}}
        done = anybody.post(f"/interrupts/{token}", json=body).json()
        assert done == {"runId": name, "nodeId": "gate", "status": done["status"]}
        until(host, name, "completed")
        again = anybody.post(f"/interrupts/{token}", json=body)
        assert error_of(again) == (409, "interrupt_already_resolved")


def test_pause_and_cancel_and_bulk_cancel(host):
    name = start(host, "delay", inputs={"delayMs": 20_000})
    paused = host.http.post(f"{path_of(name)}:pause", json={"drainPolicy": "immediate"})
    assert (paused.status_code, paused.json()["runId"]) == (202, name)
    until(host, name, "paused")
    assert host.http.post(f"{path_of(name)}:resume", json={}).status_code == 202
    bare, nobody = name.removeprefix("default/"), ["run-nobody", "default/run-nobody", "a~2Fb"]
    names = [name, "other/x", name, bare, *nobody]
    rows = host.http.post("/runs:bulk-cancel", json={"runIds": names}).json()["results"]
    # A run is called by its bound id; what names none comes back as it was sent.
    assert [row["runId"] for row in rows] == [name, "other/x", name, name, *nobody]
    assert [row.get("status") for row in rows] == [
        "cancelling", None, "cancelled", "cancelled", None, None, None,
    ]  # fmt: skip
    assert [row["ok"] for row in rows] == [True, False, True, True, False, False, False]
    assert rows[1]["error"]["code"] == "id_tenant_mismatch"
    until(host, name, "cancelled")
    again = host.http.post(f"{path_of(name)}/cancel", json={})
    assert error_of(again) == (409, "run_terminal")
    assert again.json()["details"] == {"runStatus": "cancelled"}
    other = start(host, "approval")
    until(host, other, "waiting-approval")
    done = host.http.post(f"{path_of(other)}/cancel", json={})
    assert (done.status_code, done.json()) == (200, {"runId": other, "status": "cancelled"})
    old = host.http.post(f"/v1/runs/{bare}/cancel", json={})  # its answer of version 1
    assert (old.status_code, old.json()) == (200, {"runId": bare, "status": "cancelled"})


def test_runs_are_listed_by_page_and_only_those_of_the_tenant(tmp_path):
    keys = (key("acme", "*", tenant="acme"), key("other", "*", tenant="other"))
    with Host(tmp_path, keys=keys) as host:
        acme, other = host.client("acme"), host.client("other")
        names = [start(acme, "noop") for _ in range(3)] + [start(acme, "failure")]
        for name in names:
            assert name.startswith("acme/")
            until(acme, name, "completed", "failed")
        found, cursor = [], ""
        for _ in range(3):
            page = acme.http.get(f"/runs?limit=2{cursor}").json()
            found += [row["runId"] for row in page["runs"]]
            until(acme, start(acme, "noop"), "completed")  # a new run moves no page
            if "nextCursor" not in page:
                break
            cursor = f"&cursor={page['nextCursor']}"
        assert found == names[::-1]
        rows = acme.http.get("/runs?limit=100").json()
        assert rows.keys() == {"runs"}
        for row in rows["runs"]:
            SNAPSHOT.validate(row)
            assert row == acme.http.get(path_of(row["runId"])).json()
        failed = acme.http.get("/runs?status=failed").json()["runs"]
        assert [row["runId"] for row in failed] == names[3:]
        noops = acme.http.get("/runs?workflowId=conformance-noop").json()["runs"]
        assert len(noops) == 3 + 2
        assert other.http.get("/runs").json() == {"runs": []}
        assert error_of(acme.http.get("/runs?cursor=1.made-up")) == (400, "validation_error")
        assert error_of(acme.http.get("/runs?limit=0")) == (400, "validation_error")


def test_effects_are_the_calls_of_tools(host):
    name = start(host, "agent-reasoning")
    until(host, name, "completed")
    data = host.http.get(f"{path_of(name)}/effects").json()
    EFFECTS.validate(data)
    (effect,) = data["effects"]
    (returned,) = events_of(host, name, "agent.tool-returned")
    assert BOUND.fullmatch(effect["effectId"])
    assert data == {"runId": name, "effects": [{
        "effectId": effect["effectId"], "nodeId": "reasoner", "attempt": 1, "state": "completed",
        "keying": "activity-recipe", "invocationId": returned["payload"]["callId"],
        "at": returned["timestamp"],
    }]}  # fmt: skip


def test_a_webhook_of_version_2_gets_what_version_2_shows(tmp_path):
    with Receiver() as receiver, Host(tmp_path, **HOOKS) as host:
        body = {"url": receiver.url, "events": ["agent.tool-called"], "tags": ["mine"]}
        hook = host.http.post("/webhooks", json=body).json()
        assert hook["webhookId"] == hook["subscriptionId"]
        assert BOUND.fullmatch(hook["webhookId"])
        start(host, "agent-reasoning", tags=["yours"])
        name = start(host, "agent-reasoning", tags=["mine"])
        assert eventually(lambda: receiver.got)
        headers, raw = receiver.got[0]
        signed = headers["OpenWOP-Timestamp"].encode() + b"." + raw
        mac = hmac.new(hook["secret"].encode(), signed, hashlib.sha256).hexdigest()
        assert headers["OpenWOP-Signature"] == f"sha256={mac}"
        assert headers["OpenWOP-Event-Type"] == "agent.tool-called"
        for family in ("OpenWOP-", "X-openwop-"):
            assert headers[f"{family}Webhook-Id"] == hook["webhookId"]
        sent = json.loads(raw)
        assert sent["runId"] == name
        assert sent["event"] in events_of(host, name)
        assert (
            host.http.delete(f"/webhooks/{hook['webhookId'].replace('/', '~2F')}").status_code
            == 204
        )
        assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("path", "kind"), [("/webhooks", "agent.toolCalled"), ("/v1/webhooks", "x")]
)
def test_a_webhook_for_a_type_that_the_version_does_not_have_is_refused(host, path, kind):
    body = {"url": "https://93.184.216.34/x", "events": ["run.completed", kind]}
    response = host.http.post(path, json=body)
    assert error_of(response) == (400, "validation_error")
    assert response.json()["details"] == {"field": "events"}


def test_a_type_that_version_2_does_not_have_fails_the_read(host):
    bare = host.start("conformance-noop")
    host.until(bare, "completed")
    log = host.engine.log(bare)
    odd = {**log.events[1], "type": "acme.surprise"}
    with pytest.raises(Failure) as failure:
        Version2(Settings()).event(b"", odd, log)
    assert failure.value.code == "event_type_unmapped"
