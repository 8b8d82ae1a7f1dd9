"""What OpenWOP version 1 asks of every host: each item with its exact requests and answers."""

import base64
import hashlib
import hmac
import json
import re
import sys
import threading
import time
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import httpx
import pytest

from support.hosting import TOKEN, Host, Process, flow, pairs, put, validator
from support.waiting import eventually, long_enough
from tracklog.hosts.openwop.routes import ROUTES as ALL_ROUTES
from tracklog.hosts.openwop.settings import Key, ToolProgram, digest
from tracklog.hosts.openwop.tokens import QuestionToken
from tracklog.hosts.openwop.webhooks import is_public

GATE = "core.approvalGate"
DIFF = validator("run-diff-response")


def key(name: str, *scopes: str, **more) -> Key:
    return Key(digest=digest(name), principal=name, scopes=frozenset(scopes), **more)


def gate(**config) -> dict:
    return {"id": "gate", "typeId": GATE, "config": config}


def serve(path, *flows, **settings) -> Host:
    return Host(path / "home", workflows=put(path / "flows", *flows), **settings)


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]


def test_a_workflow_of_a_tenant_is_for_that_tenant_alone(tmp_path):
    keys = (key("zoe", "*", tenant="two"),)
    noop = {"id": "a", "typeId": "core.noop"}
    plan = [{"kind": "next-worker", "nextWorkerIds": ["theirs"]}]
    flows = (
        flow("mine", [noop], tenantId="default"),
        flow("theirs", [noop], tenantId="two"),
        flow("calls", [{"id": "s", "typeId": "core.subWorkflow", "config": {"workflowId": "mine"}}]),
        flow("conformance-sends",
             [{"id": "s", "typeId": "core.orchestrator.supervisor",
               "config": {"mockDecisions": plan}}, {"id": "d", "typeId": "core.dispatch"}],
             [("s", "d"), ("d", "s")]),
        flow("nobodys", [noop], tenantId="three"),
    )  # fmt: skip
    with serve(tmp_path, *flows, keys=keys) as host:
        zoe = host.client("zoe")
        for client, own, other in ((host, "mine", "theirs"), (zoe, "theirs", "mine")):
            assert client.http.get(f"/v1/workflows/{own}").status_code == 200
            client.until(client.start(own), "completed")
            for prefix in ("/v1", ""):
                assert client.http.get(f"{prefix}/workflows/{other}").status_code == 404
                refused = client.http.post(f"{prefix}/runs", json={"workflowId": other})
                assert (refused.status_code, refused.json()["details"]) == (
                    400,
                    {"field": "workflowId"},
                )
        host.until(host.start("calls"), "completed")
        refused = zoe.http.post("/v1/runs", json={"workflowId": "calls"})
        assert refused.json()["details"]["field"] == "config.workflowId"
        zoe.until(zoe.start("conformance-sends"), "completed")
        failed = host.until(host.start("conformance-sends"), "failed")
        assert failed["error"]["code"] == "child_failed"
        refused = host.http.post("/v1/runs", json={"workflowId": "nobodys"})
        assert refused.json()["details"]["field"] == "tenantId"


# Approvals: quorum, approvers, time.


def test_a_gate_is_open_only_after_so_many_people_accepted(tmp_path):
    names = ("ann", "bob", "cem", "dora")
    keys = tuple(key(name, "approvals:respond", "runs:read") for name in names)
    needs = {"requiredApprovals": 3, "rejectionPolicy": "majority"}
    with serve(tmp_path, flow("three", [gate(**needs)]), keys=keys) as host:
        ann, bob, cem, _ = (host.client(name) for name in names)
        run = host.start("three")
        host.until(run, "waiting-approval")
        (asked,) = host.events(run, "interrupt.requested")
        assert asked["payload"]["data"].items() >= needs.items()
        for client in (ann, ann, bob):  # the same person counts once
            vote = client.answer(run, "gate", {"action": "accept"})
            waits = {"runId": run, "nodeId": "gate", "status": "waiting-approval"}
            assert (vote.status_code, vote.json()) == (200, waits)
        newer = bob.http.post(
            f"/runs/{run}/interrupts/gate", json={"resumeValue": {"action": "accept"}}
        )
        assert (newer.status_code, newer.json()) == (200, {**waits, "runId": f"default/{run}"})
        assert host.events(run, "interrupt.resolved") == []
        votes = [e["payload"]["decidedBy"] for e in host.events(run, "approval.received")]
        assert votes == ["ann", "bob"]
        last = cem.answer(run, "gate", {"action": "accept"}).json()
        assert (last["runId"], last["nodeId"]) == (run, "gate")
        host.until(run, "completed")
        (resolved,) = host.events(run, "interrupt.resolved")
        assert resolved["payload"]["resolvedBy"] == "cem"
        assert resolved["payload"]["resolvedAt"]
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "completed")
        assert pairs(host.events(replay)) == pairs(host.events(run))


@pytest.mark.parametrize(
    ("policy", "voters", "rejects"), [("single-veto", 3, 1), ("majority", 3, 2), ("majority", 4, 3)]
)
def test_a_gate_is_closed_by_one_veto_or_by_a_majority(tmp_path, policy, voters, rejects):
    names = ("ann", "bob", "cem", "dora")[:voters]
    keys = tuple(key(name, "approvals:respond") for name in names)
    config = {"requiredApprovals": voters, "rejectionPolicy": policy}
    with serve(tmp_path, flow("three", [gate(**config)]), keys=keys) as host:
        run = host.start("three")
        host.until(run, "waiting-approval")
        for name in names[: rejects - 1]:
            assert host.client(name).answer(run, "gate", {"action": "reject"}).is_success
            assert host.snapshot(run)["status"] == "waiting-approval"
        last = names[rejects - 1]
        assert host.client(last).answer(run, "gate", {"action": "reject"}).is_success
        failed = host.until(run, "failed")["error"]
        assert (failed["code"], failed["details"]) == ("approval_rejected", {"retryable": False})
        assert failed["message"] == f"rejected by {', '.join(names[:rejects])}"
        (end,) = host.events(run, "run.failed")
        assert end["payload"]["failedNodeId"] == "gate"
        assert end["payload"]["error"].items() >= failed.items()
        assert len(host.events(run, "approval.received")) == rejects
        (resolved,) = host.events(run, "interrupt.resolved")
        assert resolved["payload"]["resumeValue"] == {"action": "reject"}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gate_is_closed_when_all_have_voted_and_neither_side_has_enough(tmp_path, restarts):
    names = ("ann", "bob", "cem")
    keys = tuple(key(name, "approvals:respond", "runs:read") for name in names)
    config = {"requiredApprovals": 3, "rejectionPolicy": "majority", "approversList": [*names]}
    flows = (flow("split", [gate(**config)]),)
    with serve(tmp_path, *flows, keys=keys) as host:
        run = host.start("split")
        host.until(run, "waiting-approval")
        assert host.client("ann").answer(run, "gate", {"action": "reject"}).is_success
        assert host.client("bob").answer(run, "gate", {"action": "accept"}).is_success
        assert host.snapshot(run)["status"] == "waiting-approval"
        if not restarts:
            assert host.client("cem").answer(run, "gate", {"action": "accept"}).is_success
    with serve(tmp_path, *flows, keys=keys) as host:
        if restarts:
            assert host.client("cem").answer(run, "gate", {"action": "accept"}).is_success
        failed = host.until(run, "failed")["error"]
        assert (failed["code"], failed["message"]) == ("approval_rejected", "rejected by ann")
        votes = [e["payload"]["action"] for e in host.events(run, "approval.received")]
        assert votes == ["reject", "accept", "accept"]
        (resolved,) = host.events(run, "interrupt.resolved")
        about = {"reason": "votes-are-split", "resumeValue": {"action": "reject"}}
        assert resolved["payload"].items() >= about.items()
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "failed")
        assert pairs(host.events(replay)) == pairs(host.events(run))
        events = host.http.get(f"/runs/{run}/events").json()["events"]
        (newer,) = [e["payload"] for e in events if e["type"] == "interrupt.resolved"]
        assert (newer["decision"], newer["reason"]) == ("rejected", "votes-are-split")


def test_a_second_vote_of_a_person_is_checked_and_does_not_change_the_first(tmp_path):
    keys = tuple(key(name, "approvals:respond", "runs:read") for name in ("ann", "bob"))
    with serve(tmp_path, flow("two", [gate(requiredApprovals=2)]), keys=keys) as host:
        ann, bob = host.client("ann"), host.client("bob")
        run = host.start("two")
        host.until(run, "waiting-approval")
        assert bob.answer(run, "gate", {"action": "accept"}).is_success
        for action in ("garbage", "timeout", 7):
            vote = bob.answer(run, "gate", {"action": action})
            assert error_of(vote) == (400, "validation_error")
        changed = bob.answer(run, "gate", {"action": "reject"})
        assert error_of(changed) == (409, "run_state_conflict")
        assert changed.json()["details"] == {"runStatus": "waiting-approval", "vote": "accept"}
        assert "accept" in changed.json()["message"]
        assert bob.answer(run, "gate", {"action": "accept"}).status_code == 200
        assert len(host.events(run, "approval.received")) == 1
        assert ann.answer(run, "gate", {"action": "accept"}).is_success
        host.until(run, "completed")


def test_votes_are_still_there_after_a_restart(tmp_path):
    flows = (flow("conformance-three", [gate(requiredApprovals=2)]),)
    with serve(tmp_path, *flows) as host:
        run = host.start("conformance-three")
        host.until(run, "waiting-approval")
        assert host.answer(run, "gate", {"action": "accept", "voter": "a"}).is_success
    with serve(tmp_path, *flows) as host:
        again = host.answer(run, "gate", {"action": "accept", "voter": "a"})
        assert again.json()["status"] == "waiting-approval"
        assert host.answer(run, "gate", {"action": "accept", "voter": "b"}).is_success
        host.until(run, "completed")
        assert len(host.events(run, "approval.received")) == 2


def test_a_voter_is_who_holds_the_key_except_in_tests_of_conformance(tmp_path):
    two = [gate(requiredApprovals=2)]
    with serve(tmp_path, flow("two", two), flow("conformance-two", two)) as host:
        run = host.start("conformance-two")
        host.until(run, "waiting-approval")
        for voter in ("v1", "v1", "v2"):
            assert host.events(run, "interrupt.resolved") == []
            vote = host.answer(run, "gate", {"action": "accept", "voter": voter})
            assert vote.status_code == 200
        host.until(run, "completed")
        votes = [e["payload"]["decidedBy"] for e in host.events(run, "approval.received")]
        assert votes == ["v1", "v2"]
        run = host.start("two")
        host.until(run, "waiting-approval")
        for member in ("voter", "bogus"):
            vote = host.answer(run, "gate", {"action": "accept", member: "a"})
            assert error_of(vote) == (400, "validation_error")
            assert vote.json()["details"] == {"field": f"resumeValue.{member}"}
        vote = host.answer(run, "gate", {"action": "accept"})
        assert vote.json()["status"] == "waiting-approval"
        assert [e["payload"]["decidedBy"] for e in host.events(run, "approval.received")] == [
            "default"
        ]


def test_only_the_approvers_that_are_listed_may_answer(tmp_path):
    keys = (key("ann", "approvals:respond"), key("bob", "approvals:respond"))
    with serve(tmp_path, flow("listed", [gate(approversList=["bob"])]), keys=keys) as host:
        run = host.start("listed")
        host.until(run, "waiting-approval")
        for client in (host, host.client("ann")):
            answer = client.answer(run, "gate", {"action": "accept"})
            assert error_of(answer) == (403, "forbidden")
        assert host.snapshot(run)["status"] == "waiting-approval"
        (asked,) = host.events(run, "interrupt.requested")
        assert asked["payload"]["data"]["approversList"] == ["bob"]
        assert host.client("bob").answer(run, "gate", {"action": "accept"}).is_success
        host.until(run, "completed")


@pytest.mark.parametrize("gates", [{"approversList": ["bob"]}, {"requiredApprovals": 2}])
def test_a_gate_that_counts_votes_is_not_opened_from_the_command_line(tmp_path, gates):
    with serve(tmp_path, flow("listed", [gate(**gates)])) as host:
        run = host.start("listed")
        host.until(run, "waiting-approval")
        url = f"/api/inbox/int:gate:0:0/answer?run=openwop:{run}"
        refused = httpx.post(
            host.url + url,
            json={"answer": "accept", "by": "bob"},
            headers=host.http.headers,
            trust_env=False,
        )
        assert refused.status_code == 409
        assert f"/v1/runs/{run}/interrupts/gate with the key" in refused.json()["hint"]
        assert host.snapshot(run)["status"] == "waiting-approval"


def test_a_question_is_rejected_when_its_time_is_up_also_after_a_restart(tmp_path):
    clarify = {
        "id": "gate",
        "typeId": "core.clarificationGate",
        "config": {"questions": [{"id": "q", "question": "?"}], "timeoutMs": 600},
    }
    flows = (flow("short", [gate(timeoutMs=300)]), flow("long", [gate(timeoutMs=1500)]))
    flows += (flow("asks", [clarify]),)
    with serve(tmp_path, *flows) as host:
        run, late, asks = host.start("short"), host.start("long"), host.start("asks")
        assert host.until(run, "failed")["error"]["code"] == "approval_rejected"
        (asked,) = host.events(run, "interrupt.requested")
        assert asked["payload"]["timeoutMs"] == 300
        assert "timeoutMs" not in asked["payload"]["data"]  # beside it
        (received,) = host.events(run, "approval.received")
        assert received["payload"]["action"] == "timeout"
        (resolved,) = host.events(run, "interrupt.resolved")
        assert resolved["payload"].items() >= {"reason": "timeout", "outcome": "rejected"}.items()
        begin, end = (datetime.fromisoformat(e["timestamp"]) for e in (asked, resolved))
        assert end - begin >= timedelta(milliseconds=300)
        (failed,) = host.events(run, "run.failed")
        assert failed["payload"]["failedNodeId"] == "gate"
        assert host.snapshot(run)["error"]["details"] == {"retryable": False}
        assert error_of(host.answer(run, "gate", {"action": "accept"})) == (
            409, "interrupt_already_resolved",
        )  # fmt: skip
        assert host.until(asks, "failed")["error"]["code"] == "approval_rejected"
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "failed")
        assert pairs(host.events(replay)) == pairs(host.events(run))
        host.until(late, "waiting-approval")
    with serve(tmp_path, *flows) as host:
        assert host.until(late, "failed")["error"]["code"] == "approval_rejected"


def test_the_time_of_a_question_goes_on_while_no_host_runs(tmp_path):
    flows = (flow("long", [gate(timeoutMs=3_600_000)]),)
    with serve(tmp_path, *flows) as host:
        run = host.start("long")
        host.until(run, "waiting-approval")
    with serve(tmp_path, *flows, clock=lambda: time.time() + 1800) as host:
        assert host.snapshot(run)["status"] == "waiting-approval"
    with serve(tmp_path, *flows, clock=lambda: time.time() + 3601) as host:
        assert host.until(run, "failed")["error"]["code"] == "approval_rejected"
        (resolved,) = host.events(run, "interrupt.resolved")
        assert resolved["payload"]["reason"] == "timeout"
        replay = host.fork(run, mode="replay").json()["runId"]  # it does not wait for an hour
        host.until(replay, "failed")
        assert pairs(host.events(replay)) == pairs(host.events(run))


def test_a_question_whose_time_was_up_is_so_on_the_tape(tmp_path):
    with serve(tmp_path, flow("late", [gate(timeoutMs=300)])) as host:
        run = host.start("late")
        host.until(run, "failed")
        body = {"program": "late", "tape": {"run": run}}
        again = host.http.post("/api/hosts/openwop/runs", json=body).json()["run"]
        assert host.until(again, "failed")["error"]["message"] == "nobody answered in time"


def test_what_a_question_says_comes_from_its_configuration(tmp_path):
    with serve(
        tmp_path, flow("asks", [gate(title="Ship it?", description="All is green.")])
    ) as host:
        run = host.start("asks")
        data = host.until(run, "waiting-approval")["interrupt"]["data"]
        assert (data["title"], data["description"]) == ("Ship it?", "All is green.")


def test_a_client_cannot_say_that_the_time_is_up(tmp_path):
    with serve(tmp_path, flow("one", [gate()])) as host:
        run = host.start("one")
        host.until(run, "waiting-approval")
        token = host.snapshot(run)["interrupt"]["interruptToken"]
        body = {"resumeValue": {"action": "timeout"}}
        for prefix in ("/v1", ""):
            for url in (f"/runs/{run}/interrupts/gate", f"/interrupts/{token}"):
                answer = host.http.post(prefix + url, json=body)
                assert error_of(answer) == (400, "validation_error")
                assert answer.json()["details"] == {"field": "resumeValue"}
        assert host.snapshot(run)["status"] == "waiting-approval"
        assert host.events(run, "approval.received") == []


def test_an_edited_or_refined_artifact_is_passed_on(tmp_path):
    config = {"actions": ["accept", "edit-accept", "refine"]}
    with serve(tmp_path, flow("edits", [gate(**config)])) as host:
        run = host.start("edits")
        host.until(run, "waiting-approval")
        for action in ("edit-accept", "refine"):
            assert host.answer(run, "gate", {"action": action}).status_code == 400
        for wrong in ("shorter", {}, {"scope": "all"}, {"scope": "whole", "mood": 1}):
            value = {"action": "refine", "refineFeedback": wrong}
            assert host.answer(run, "gate", value).status_code == 400
        value = {"action": "edit-accept", "editedArtifactData": {"a": 1}}
        assert error_of(host.http.get(f"/v1/runs/{run}/artifacts/gate")) == (404, "not_found")
        assert host.answer(run, "gate", value).is_success
        assert host.until(run, "completed")["variables"]["editedArtifactData"] == {"a": 1}
        artifact = host.http.get(f"/v1/runs/{run}/artifacts/gate").json()
        about = {"artifactId": "gate", "artifactType": "workflow-node", "nodeId": "gate"}
        assert artifact == {"runId": run, **about, "data": {"a": 1}}
        assert error_of(host.http.get(f"/v1/runs/{run}/artifacts/other")) == (404, "not_found")


def test_too_many_answers_that_do_not_fit_end_a_clarification(tmp_path):
    with Host(tmp_path, clarification_rounds=2) as host:
        assert host.http.get("/.well-known/openwop").json()["limits"]["clarificationRounds"] == 2
        run = host.start("conformance-clarification")
        host.until(run, "waiting-input")
        refused = (400, "validation_error")
        for _ in range(2):
            assert error_of(host.answer(run, "ask", {"answers": {}})) == refused
            assert host.snapshot(run)["status"] == "waiting-input"
        assert error_of(host.answer(run, "ask", {"answers": {}})) == refused
        host.until(run, "failed")
        (breach,) = host.events(run, "cap.breached")
        assert breach["payload"].items() >= {
            "kind": "clarification", "limit": 2, "observed": 3,
        }.items()  # fmt: skip


@pytest.mark.parametrize("answers", [{}, {"q1": None}, [{"id": "q1"}], [], "blue", None])
def test_a_question_without_an_answer_is_not_answered(tmp_path, answers):
    with Host(tmp_path) as host:
        run = host.start("conformance-clarification")
        host.until(run, "waiting-input")
        response = host.answer(run, "ask", {"answers": answers})
        assert error_of(response) == (400, "validation_error")
        place = "resumeValue.answers.q1" if answers in ({}, {"q1": None}, []) else "resumeValue"
        assert response.json()["details"] == {"field": place}
        assert host.answer(run, "ask", {"answers": [{"id": "q1", "answer": ""}]}).is_success
        assert host.until(run, "completed")["variables"]["answers"] == {"q1": ""}


# Sub-workflows.


def test_variables_are_mapped_into_a_child_and_back(tmp_path):
    child = flow(
        "child",
        [{"id": "copy", "typeId": "core.identity",
          "inputs": {"got": {"type": "variable", "variableName": "received"}}}],
        variables=[{"name": "received", "type": "string", "defaultValue": "baked-in"},
                   {"name": "other", "type": "string", "defaultValue": "own"},
                   {"name": "unset", "type": "string"}],
    )  # fmt: skip
    config = {
        "workflowId": "child",
        "inputMapping": {"received": "current", "other": "nobody"},
        "outputMapping": {"result": "got", "none": "unset"},
    }
    parent = flow(
        "parent",
        [{"id": "sub", "typeId": "core.subWorkflow", "config": config}],
        variables=[{"name": "current", "type": "string"}],
    )
    with serve(tmp_path, child, parent) as host:
        offered = host.http.get("/.well-known/openwop").json()
        assert offered["subWorkflow"] == {"inputMapping": True}
        run = host.start("parent", inputs={"current": "prd-1"})
        variables = host.until(run, "completed")["variables"]
        assert (variables["result"], "none" in variables) == ("prd-1", False)
        (made,) = host.snapshot(run)["childRuns"]
        inner = host.snapshot(made["runId"])
        assert inner["variables"] == {"received": "prd-1", "other": "own", "got": "prd-1"}
        assert (inner["parentRunId"], inner["parentNodeId"]) == (run, "sub")
        run = host.start("parent")
        host.until(run, "completed")
        (made,) = host.snapshot(run)["childRuns"]
        assert host.snapshot(made["runId"])["variables"]["received"] == "baked-in"


MAPPINGS = [
    ({"inputMapping": {"nosuch": "current"}}, "config.inputMapping"),
    ({"outputMapping": {"back": "nosuch"}}, "config.outputMapping"),
    ({"inputMapping": {"received": "x"}, "outputMapping": {"a": "received", "b": "got"}}, None),
]


@pytest.mark.parametrize(("config", "field"), MAPPINGS)
@pytest.mark.parametrize("kind", ["core.subWorkflow", "core.dispatch"])
def test_a_name_that_the_child_does_not_have_is_refused_before_the_run(
    tmp_path, kind, config, field
):
    port = {"got": {"type": "variable", "variableName": "received"}}
    child = flow("child", [{"id": "copy", "typeId": "core.identity", "inputs": port}])
    if kind == "core.dispatch":
        config = {f"perWorker{k[0].upper()}{k[1:]}s": {"child": v} for k, v in config.items()}
        field = field and f"config.{next(iter(config))}.child"
    else:
        config = {"workflowId": "child", **config}
    nodes = [
        {"id": "lead", "typeId": "core.orchestrator.supervisor", "config": {"prompt": "Next?"}},
        {"id": "sub", "typeId": kind, "config": config},
    ]
    parent = flow("parent", nodes, [("lead", "sub")])
    outer = {"id": "outer", "typeId": "core.subWorkflow", "config": {"workflowId": "parent"}}
    with serve(tmp_path, child, parent, flow("outer", [outer])) as host:
        for path in ("/v1/runs", "/runs"):
            for workflow in ("parent", "outer"):
                made = host.http.post(path, json={"workflowId": workflow})
                if field is None:
                    assert made.status_code == 201
                    continue
                assert error_of(made) == (400, "validation_error")
                assert made.json()["details"] == {"field": field, "nodeId": "sub"}
                assert "child has no " in made.json()["message"]
                assert "'nosuch'" in made.json()["message"]
        assert bool(field) == any("nosuch" in each for each in host.engine.workflows.faults)


def test_a_port_that_the_child_does_not_have_is_refused_before_the_run(tmp_path):
    child = flow("child", [{"id": "n", "typeId": "core.noop"}])
    child["variables"] = [{"name": "received", "type": "string"}]
    config = {"workflowId": "child"}

    def parent(port):
        inputs = {port: {"type": "static", "value": "x"}}
        node = {"id": "sub", "typeId": "core.subWorkflow", "config": config, "inputs": inputs}
        return flow(f"with-{port}", [node])

    with serve(tmp_path, child, parent("received"), parent("nosuch")) as host:
        for path in ("/v1/runs", "/runs"):
            assert host.http.post(path, json={"workflowId": "with-received"}).status_code == 201
            made = host.http.post(path, json={"workflowId": "with-nosuch"})
            assert error_of(made) == (400, "validation_error")
            assert made.json()["details"] == {"field": "inputs.nosuch", "nodeId": "sub"}


def test_what_only_a_run_shows_may_be_mapped(tmp_path):
    event = {"kind": "external-event", "eventType": "paid", "correlation": {"id": 1}}
    child = flow("child", [{"id": "wait", "typeId": "core.interrupt", "config": event}])
    config = {"workflowId": "child", "outputMapping": {"back": "sum"}}
    parent = flow("parent", [{"id": "sub", "typeId": "core.subWorkflow", "config": config}])
    with serve(tmp_path, child, parent) as host:
        run = host.start("parent")
        inner = host.until(run, "waiting-external")["childRuns"][0]["runId"]
        host.answer(inner, "wait", {"id": 1, "sum": 5})
        assert host.until(run, "completed")["variables"]["back"] == 5


def test_a_child_whose_options_the_run_cannot_have_is_refused_before_the_run(tmp_path):
    needs = {"type": "object", "properties": {"tone": {}}, "required": ["tone"]}
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "child"}}
    noop = [{"id": "a", "typeId": "core.noop"}]
    flows = [
        flow("child", noop, configurableSchema=needs),
        flow("silent", [sub]),
        flow("passes", [sub], configurableSchema=needs),
    ]
    with serve(tmp_path, *flows) as host:
        for path in ("/v1/runs", "/runs"):
            refused = host.http.post(path, json={"workflowId": "silent"})
            assert error_of(refused) == (400, "validation_error")
            assert refused.json()["details"] == {"field": "config.workflowId", "nodeId": "sub"}
            assert "requires the option 'tone'" in refused.json()["message"]
        host.until(host.start("passes", configurable={"tone": "calm"}), "completed")


def test_a_workflow_whose_manual_trigger_is_not_enabled_is_begun_by_no_client(tmp_path):
    noop = [{"id": "a", "typeId": "core.noop"}]
    off, on = ({"id": f"t{n}", "type": "manual", "enabled": bool(n)} for n in range(2))
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "off"}}
    flows = [
        flow("off", noop, triggers=[off]),
        flow("both", noop, triggers=[off, on]),
        flow("none", noop, triggers=[]),
        flow("parent", [sub]),
    ]
    with serve(tmp_path, *flows) as host:
        for path in ("/v1/runs", "/runs"):
            refused = host.http.post(path, json={"workflowId": "off"})
            assert error_of(refused) == (400, "validation_error")
            assert refused.json()["details"] == {"field": "workflowId"}
            assert "trigger" in refused.json()["message"]
        for name in ("both", "none", "parent"):
            host.until(host.start(name), "completed")


def test_a_sub_workflow_has_two_names_and_fixtures_of_the_operator_are_announced(tmp_path):
    child = flow("conformance-child", [{"id": "a", "typeId": "core.noop"}])
    config = {"workflowId": "conformance-child", "waitForCompletion": True}
    sub = {"id": "sub", "typeId": "core.control.subWorkflow", "config": config}
    lacks = {"id": "t", "typeId": "core.tool.call", "config": {"toolId": "a:b"}}
    flows = [child, flow("conformance-parent", [sub]), flow("conformance-lacks", [lacks])]
    with serve(tmp_path, *flows) as host:
        for headers in ({}, {"OpenWOP-Version": "2"}):
            fixtures = host.http.get("/.well-known/openwop", headers=headers).json()["fixtures"]
            assert {"conformance-noop", "conformance-child", "conformance-parent"} <= {*fixtures}
            assert "conformance-lacks" not in fixtures
        run = host.start("conformance-parent")
        assert host.until(run, "completed")["childRuns"][0]["status"] == "completed"


def test_a_supervisor_hands_variables_from_one_worker_to_the_next(tmp_path):
    copy = {"id": "copy", "typeId": "core.identity"}
    first = flow("first", [{**copy, "inputs": {"made": {"type": "static", "value": "m1"}}}])
    second = flow(
        "second",
        [{**copy, "inputs": {"seen": {"type": "variable", "variableName": "given"}}}],
    )
    config = {
        "perWorkerOutputMappings": {"first": {"shared": "made"}},
        "perWorkerInputMappings": {"second": {"given": "shared"}},
        "outputMapping": {"final": "seen"},
    }
    decisions = [
        {"kind": "next-worker", "nextWorkerIds": ["first", "second"]},
        {"kind": "terminate"},
    ]
    nodes = [
        {"id": "lead", "typeId": "core.orchestrator.supervisor",
         "config": {"mockDecisions": decisions}},
        {"id": "do", "typeId": "core.dispatch", "config": config},
    ]  # fmt: skip
    lead = flow("conformance-lead", nodes, [("lead", "do"), ("do", "lead")])
    with serve(tmp_path, first, second, lead) as host:
        run = host.start("conformance-lead")
        variables = host.until(run, "completed")["variables"]
        assert (variables["shared"], variables["final"]) == ("m1", "m1")


def test_a_run_waits_when_its_child_waits(tmp_path):
    child = flow("child", [gate()])
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "child"}}
    with serve(tmp_path, child, flow("parent", [sub])) as host:
        run = host.start("parent")
        made = host.until(run, "waiting-approval")["childRuns"]
        assert [each["status"] for each in made] == ["waiting-approval"]
        assert host.answer(made[0]["runId"], "gate", {"action": "accept"}).is_success
        assert host.until(run, "completed")["childRuns"][0]["status"] == "completed"


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_stream_of_states_begins_with_the_run_as_it_is(tmp_path, prefix):
    node = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "inner"}}
    with serve(tmp_path, flow("outer", [node]), flow("inner", [gate()])) as host:
        run = host.start("outer")
        host.until(run, "waiting-approval")
        now = host.http.get(f"{prefix}/runs/{run}").json()
        accept = {"Accept": "text/event-stream"}
        url = f"{prefix}/runs/{run}/events?streamMode=values"
        with host.http.stream("GET", url, headers=accept) as response:
            lines = (line for line in response.iter_lines() if line.startswith("data: "))
            first = json.loads(next(lines).removeprefix("data: "))
        assert first == now
        assert first["status"] == "waiting-approval"


def test_states_are_sent_together_when_that_is_asked_for(tmp_path):
    with serve(tmp_path) as host:
        run = host.start("conformance-delay", inputs={"delayMs": 1500})
        host.until(run, "running")
        first, *rest = host.stream(run, "?streamMode=values&bufferMs=5000")
        assert first[1] == "state.snapshot"
        assert [kind for _, kind, _ in rest] == ["batch"]
        assert [state["status"] for state in rest[0][2]][-1] == "completed"


def test_a_child_that_is_begun_wrongly_fails_its_parent_and_says_why(tmp_path):
    child = flow("child", [gate()], variables=[{"name": "a", "type": "string", "required": True}])
    config = {"workflowId": "child"}
    nodes = [{"id": "sub", "typeId": "core.subWorkflow", "config": config}]
    absorbing = [
        {**nodes[0], "config": {**config, "workflowId": "fails", "onChildFailure": "absorb"}}
    ]
    fails = flow("fails", [{"id": "f", "typeId": "core.fail"}])
    with serve(tmp_path, child, fails, flow("p", nodes), flow("absorbs", absorbing)) as host:
        error = host.until(host.start("p"), "failed")["error"]
        assert (error["code"], "'a' is missing" in error["message"]) == ("child_failed", True)
        variables = host.until(host.start("absorbs"), "completed")["variables"]
        assert variables["childStatus"] == "failed"


# Options of a run.


def test_options_are_checked_against_the_schema_of_the_workflow(tmp_path):
    schema = {
        "type": "object",
        "properties": {"tone": {"enum": ["calm"]}, "recursionLimit": {"maximum": 5}},
        "additionalProperties": False,
    }
    noop = {"id": "a", "typeId": "core.noop"}
    with serve(tmp_path, flow("toned", [noop], configurableSchema=schema)) as host:
        assert host.http.get("/v1/workflows/toned").json()["configurableSchema"] == schema
        for options in ({"tone": "loud"}, {"temper": 1}, {"recursionLimit": 6}):
            body = {"workflowId": "toned", "configurable": options}
            response = host.http.post("/v1/runs", json=body)
            assert error_of(response) == (400, "validation_error")
            (name,) = options
            assert response.json()["details"] == {"field": f"configurable.{name}"}
            if "temper" in options:
                assert response.json()["message"] == (
                    "there is no option 'temper'; the workflow declares tone"
                )
        # The options of the protocol are reserved: a closed schema need not name them.
        options = {"tone": "calm", "recursionLimit": 5, "runTimeoutMs": 9000, "model": "x"}
        run = host.start("toned", configurable=options)
        assert host.until(run, "completed")["configurable"] == options
        nested = {"version": 1, "run": {"runTimeoutMs": 9000, "escalationThreshold": 0.5}}
        made = host.http.post("/runs", json={"workflowId": "toned", "configurable": nested})
        assert made.status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"configurable": {"runTimeoutMs": -5}}, "configurable.runTimeoutMs"),
        ({"configurable": {"runTimeoutMs": 0}}, "configurable.runTimeoutMs"),
        ({"configurable": {"runTimeoutMs": "1"}}, "configurable.runTimeoutMs"),
        ({"configurable": {"promptOverrides": {}}}, "configurable.promptOverrides"),
        ({"callbackUrl": "http://169.254.169.254/latest"}, "callbackUrl"),
        ({"callbackUrl": "https://example.com"}, "callbackUrl"),
        ({"workflowId": "nobody"}, "workflowId"),
        ({"tags": ["a"] * 101}, "tags"),
        ({"tags": ["a" * 257]}, "tags"),
        ({"scopeId": 1}, "scopeId"),
        ({"inputs": []}, "inputs"),
    ],
)
def test_an_option_that_is_wrong_or_not_carried_out_is_refused(tmp_path, body, field):
    with Host(tmp_path) as host:
        asked = {"workflowId": "conformance-noop", **body}
        for path in ("/v1/runs",) if "configurable" in body else ("/v1/runs", "/runs"):
            response = host.http.post(path, json=asked)
            assert error_of(response) == (400, "validation_error")
            assert response.json()["details"] == {"field": field}
        assert host.http.get("/runs").json() == {"runs": []}


def test_a_run_ends_when_its_own_time_or_that_of_the_host_is_up(tmp_path):
    with Host(tmp_path, max_run_duration_ms=2000) as host:
        limits = host.http.get("/.well-known/openwop").json()["limits"]
        assert limits["maxRunDurationMs"] == 2000
        options = [{"runTimeoutMs": 300}, {"runTimeoutMs": 60_000}]
        runs = [
            host.start("conformance-delay", inputs={"delayMs": 30_000}, configurable=each)
            for each in options
        ]
        for run, limit in zip(runs, (300, 2000), strict=True):
            assert host.until(run, "failed")["error"]["code"] == "run_timeout"
            (breach,) = host.events(run, "cap.breached")
            assert (breach["payload"]["kind"], breach["payload"]["limit"]) == (
                "run-duration",
                limit,
            )
            assert breach["payload"]["observed"] > limit
            (end,) = host.events(run, "run.failed")
            assert end["payload"]["error"]["code"] == "run_timeout"
            assert host.events(run)[-1] == end


def test_the_timeout_of_a_workflow_does_not_count_the_time_of_waits(tmp_path):
    nodes = [gate(), {"id": "wait", "typeId": "core.delay", "config": {"delayMs": 30_000}}]
    with serve(
        tmp_path, flow("slow", nodes, [("gate", "wait")], settings={"timeout": 400})
    ) as host:
        run = host.start("slow")
        host.until(run, "waiting-approval")
        time.sleep(1)
        host.answer(run, "gate", {"action": "accept"})
        assert host.until(run, "failed")["error"]["code"] == "run_timeout"
        (breach,) = host.events(run, "cap.breached")
        (asked,) = host.events(run, "node.suspended")
        (resumed,) = host.events(run, "node.resumed")
        begin = datetime.fromisoformat(host.events(run)[0]["timestamp"])
        passed = datetime.fromisoformat(breach["timestamp"]) - begin
        waited = datetime.fromisoformat(resumed["timestamp"]) - datetime.fromisoformat(
            asked["timestamp"]
        )
        counted = (passed - waited) / timedelta(milliseconds=1)
        assert breach["payload"]["observed"] == pytest.approx(counted, abs=5)


@pytest.mark.parametrize("limit", ["run", "host"])
def test_a_run_that_waits_too_long_ends_also_after_a_restart(tmp_path, limit):
    slow = {"id": "wait", "typeId": "core.delay", "config": {"delayMs": 900}}
    flows = (flow("asks", [gate()]), flow("pauses", [slow, gate()], [("wait", "gate")]))
    most = {"max_run_duration_ms": 2000} if limit == "host" else {}
    options = {"configurable": {"runTimeoutMs": 2000}} if limit == "run" else {}
    with serve(tmp_path, *flows, **most) as host:
        asks, pauses = host.start("asks", **options), host.start("pauses", **options)
        assert host.http.post(f"/v1/runs/{pauses}:pause", json={}).status_code == 202
        token = host.until(asks, "waiting-approval")["interrupt"]["interruptToken"]
        host.until(pauses, "paused")
    with serve(tmp_path, *flows, **most) as host:
        for run, node in ((asks, "gate"), (pauses, None)):
            assert host.until(run, "failed")["error"]["code"] == "run_timeout"
            (breach,) = host.events(run, "cap.breached")
            assert (breach["payload"]["limit"], breach.get("nodeId")) == (2000, node)
            assert 2000 < breach["payload"]["observed"] < 60_000
        late = host.http.post(f"/v1/interrupts/{token}", json={"resumeValue": {"action": "accept"}})
        assert error_of(late) == (409, "interrupt_already_resolved")
        for run in (asks, pauses):
            replay = host.fork(run, mode="replay").json()["runId"]
            host.until(replay, "failed")
            assert pairs(host.events(replay)) == pairs(host.events(run))


def test_what_only_tests_may_ask_for_is_refused_to_others(tmp_path):
    tests = key("tests", "*", test=True)
    with Host(tmp_path, keys=(tests,)) as host:
        body = {"workflowId": "conformance-noop"}
        forced = {"X-Force-Engine-Version": "1"}
        response = host.http.post("/v1/runs", json=body, headers=forced)
        assert error_of(response) == (403, "force_engine_version_forbidden")
        mocked = {**body, "configurable": {"mockProvider": {"id": "stream-text"}}}
        response = host.http.post("/v1/runs", json=mocked)
        assert error_of(response) == (403, "mock_provider_forbidden")
        client = host.client("tests")
        assert client.http.post("/v1/runs", json=body, headers=forced).status_code == 201
        other = client.http.post("/v1/runs", json=body, headers={"X-Force-Engine-Version": "9"})
        assert error_of(other) == (400, "unsupported_force_engine_version")
    with Host(tmp_path) as host:
        assert "testing" not in host.http.get("/.well-known/openwop").json()


PROMPT = {"id": "say", "typeId": "core.ai.callPrompt", "config": {"prompt": "anything"}}
TEXT = {
    "tokens": ["Hello", " ", "world", "!"],
    "delayMsPerToken": 10,
    "finishReason": "stop",
    "usage": {"promptTokens": 5, "completionTokens": 4, "totalTokens": 9},
}


def mocked(**config) -> dict:
    return {"mockProvider": {"id": "stream-text", "config": config}}


def test_a_run_of_tests_streams_the_tokens_of_a_mock_provider(tmp_path):
    keys = (key("tester", "write", test=True), key("worker", "write"))
    flows = flow("conformance-stream-text", [PROMPT])
    with serve(tmp_path, flows, keys=keys) as host:
        testing = host.http.get("/.well-known/openwop").json()["testing"]
        assert testing["mockProviders"] == ["stream-text"]
        assert testing["forceEngineVersionRange"] == {"min": 1, "max": 1}
        tester = host.client("tester")
        run = tester.start("conformance-stream-text", configurable=mocked(**TEXT))
        frames = tester.stream(run, "?streamMode=messages")
        assert {name for _, name, _ in frames} == {"ai.message.chunk"}
        chunks = [data["payload"] for _, _, data in frames]
        assert all(data.items() >= data["payload"].items() for _, _, data in frames)
        assert [each["chunk"] for each in chunks] == TEXT["tokens"]
        assert [each["isLast"] for each in chunks] == [False, False, False, True]
        assert {(each["runId"], each["nodeId"]) for each in chunks} == {(run, "say")}
        ends = {"finishReason": "stop", "usage": TEXT["usage"], "model": "mock-stream-text-v1"}
        assert chunks[-1]["meta"] == ends
        assert chunks[0]["meta"] == {"model": "mock-stream-text-v1"}
        snapshot = tester.until(run, "completed")
        assert snapshot["variables"]["text"] == "Hello world!"
        assert snapshot["configurable"] == mocked(**TEXT)
        again = tester.fork(run, mode="replay", fromSeq=0).json()["runId"]
        tester.until(again, "completed")
        others = [e["payload"] for e in tester.events(again, "output.chunk")]
        assert others == [{**each, "runId": again} for each in chunks]
        plain = tester.start("conformance-stream-text", configurable=mocked())
        tester.until(plain, "completed")
        last = tester.events(plain, "output.chunk")[-1]["payload"]["meta"]
        assert last["usage"] == {"promptTokens": 1, "completionTokens": 2, "totalTokens": 3}
        asked = {"Accept": "text/event-stream"}
        newer = tester.http.get(f"/runs/{run}/events?streamMode=messages", headers=asked).text
        assert newer.count("event: ai.message.chunk\n") == len(chunks)
        assert f'"runId":"default/{run}"' in newer
        v2 = tester.http.get(f"/runs/{run}/events").json()["events"]
        (first, *_) = (e["payload"] for e in v2 if e["type"] == "output.chunk")
        assert first["runId"] == f"default/{run}"
        response = host.client("worker").fork(run, mode="branch", fromSeq=1)
        assert error_of(response) == (403, "mock_provider_forbidden")


@pytest.mark.parametrize(
    ("provider", "code"),
    [
        ({"id": "does-not-exist"}, "unsupported_mock_provider"),
        ({}, "validation_error"),
        ("stream-text", "validation_error"),
        ({"id": "stream-text", "surprise": 1}, "validation_error"),
        ({"id": "stream-text", "config": []}, "validation_error"),
        ({"id": "stream-text", "config": {"surprise": 1}}, "validation_error"),
        ({"id": "stream-text", "config": {"tokens": "a"}}, "validation_error"),
        ({"id": "stream-text", "config": {"tokens": [1]}}, "validation_error"),
        ({"id": "stream-text", "config": {"delayMsPerToken": 5001}}, "validation_error"),
        ({"id": "stream-text", "config": {"delayMsPerToken": True}}, "validation_error"),
        ({"id": "stream-text", "config": {"finishReason": "bored"}}, "validation_error"),
        ({"id": "stream-text", "config": {"usage": {"promptTokens": -1}}}, "validation_error"),
        ({"id": "stream-text", "config": {"usage": {"surprise": 1}}}, "validation_error"),
        ({"id": "stream-text", "config": {"model": ""}}, "validation_error"),
    ],
)
def test_a_mock_provider_that_is_unknown_or_wrong_is_refused(tmp_path, provider, code):
    with Host(tmp_path, keys=(key("tester", "write", test=True),)) as host:
        body = {"workflowId": "conformance-noop", "configurable": {"mockProvider": provider}}
        response = host.client("tester").http.post("/v1/runs", json=body)
        assert error_of(response) == (400, code)
        new = {"version": 1, "ai": {"mockProvider": provider}}
        response = host.client("tester").http.post("/runs", json={**body, "configurable": new})
        assert error_of(response) == (400, "validation_error")


def test_a_node_that_requires_what_the_host_does_not_provide_fails_its_run_unexecuted(tmp_path):
    node = {"id": "n", "typeId": "conformance.requiresMissing"}
    after = [{"id": "after", "typeId": "core.noop"}]
    flows = [
        flow("conformance-capability-missing", [node]),
        flow("conformance-handled", [node, *after], [("n", "after", "any_failed")]),
    ]
    with serve(tmp_path, *flows) as host:
        run = host.start("conformance-capability-missing")
        error = host.until(run, "failed")["error"]
        assert error["code"] == "capability_not_provided"
        assert "conformance.never-provided" in error["message"]
        assert error["details"] == {"capability": "conformance.never-provided"}
        events = host.events(run)
        assert [e["type"] for e in events] == ["run.started", "node.failed", "run.failed"]
        again = host.fork(run, mode="replay", fromSeq=0).json()["runId"]
        host.until(again, "failed")
        assert pairs(host.events(again)) == pairs(events)
        host.until(host.start("conformance-handled"), "completed")


def test_only_one_run_of_a_scope_is_active_when_that_is_asked_for(tmp_path):
    with Host(tmp_path) as host:
        body = {"workflowId": "conformance-approval", "tenantId": "default", "scopeId": "s"}
        once = {"X-Dedup": "enforce"}
        first = host.http.post("/v1/runs", json=body, headers=once).json()["runId"]
        second = host.http.post("/v1/runs", json=body, headers=once)
        assert error_of(second) == (409, "run_already_active")
        assert second.headers["retry-after"]
        place = {"tenantId": "default", "scopeId": "s"}
        assert second.json()["details"] == {"activeRunId": first, **place}
        newer = host.http.post("/runs", json=body, headers={"OpenWOP-Dedup": "enforce"})
        assert error_of(newer) == (409, "run_already_active")
        assert newer.json()["details"] == {"activeRunId": f"default/{first}", **place}
        other = host.http.post("/v1/runs", json={**body, "scopeId": "r"}, headers=once)
        assert other.status_code == 201
        assert host.http.post("/v1/runs", json=body).status_code == 201
        for headers, without in (
            ({"X-Dedup": "maybe"}, body),
            (once, {"workflowId": "conformance-noop"}),
        ):
            response = host.http.post("/v1/runs", json=without, headers=headers)
            assert error_of(response) == (400, "validation_error")


def test_a_branch_has_labels_of_its_own_and_a_fork_begins_inside_its_source(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-multi-node", tags=["old"])
        host.until(run, "completed")
        count = len(host.events(run))
        for prefix, code in (("/v1", "fork_out_of_range"), ("", "fork_point_invalid")):
            for mode in ("replay", "branch"):
                for start, status in ((count, 422), (count - 1, 201)):
                    body = {"mode": mode, "fromSeq": start}
                    past = host.http.post(f"{prefix}/runs/{run}:fork", json=body)
                    assert past.status_code == status
                    if status == 422:
                        assert past.json()["error"] == code
                        assert past.json()["details"] == {"field": "fromSeq", "events": count}
        overlay = {"tags": ["new"], "metadata": {"a": 1}}
        branch = host.fork(run, mode="branch", fromSeq=1, runOptionsOverlay=overlay)
        name = branch.json()["runId"]
        assert branch.status_code == 201
        assert branch.json() == {
            "runId": name, "sourceRunId": run, "fromSeq": 1, "mode": "branch", "status": "running",
            "eventsUrl": f"/v1/runs/{name}/events",
        }  # fmt: skip
        snapshot = host.until(branch.json()["runId"], "completed")
        assert (snapshot["tags"], snapshot["metadata"]) == (["new"], {"a": 1})
        refused = host.fork(run, mode="branch", fromSeq=1, runOptionsOverlay={"scopeId": "s"})
        assert error_of(refused) == (400, "validation_error")
        assert refused.json()["details"] == {"field": "runOptionsOverlay.scopeId"}


def test_a_replay_of_a_run_that_has_not_ended_repeats_all_of_it(tmp_path):
    wait = {"id": "wait", "typeId": "core.delay", "config": {"delayMs": 1200}}
    call = {"id": "call", "typeId": "core.tool.call", "config": {"toolId": "openwop.echo:echo"}}
    with serve(tmp_path, flow("slow", [wait, call, gate()], [("wait", "call")])) as host:
        run = host.start("slow")
        eventually(lambda: host.events(run, "node.started"))
        early = host.fork(run, mode="replay").json()["runId"]
        other = host.fork(run, mode="replay", fromSeq=1).json()["runId"]
        assert host.http.post(f"/v1/runs/{other}/cancel", json={}).json()["status"] == "cancelled"
        assert [e["type"] for e in host.events(other)] == ["run.started", "run.cancelled"]
        host.http.post(f"/v1/runs/{run}:pause", json={"drainPolicy": "immediate"})
        paused = host.fork(run, mode="replay").json()["runId"]
        host.http.post(f"/v1/runs/{run}:resume", json={})
        host.until(run, "waiting-approval")
        assert [host.snapshot(name)["status"] for name in (early, paused)] == ["running"] * 2
        waits = host.fork(run, mode="replay").json()["runId"]
        host.until(waits, "waiting-approval")
        host.answer(run, "gate", {"action": "accept"})
        host.until(run, "completed")
        late = host.fork(run, mode="replay").json()["runId"]
        for name in (early, paused, late):
            host.until(name, "completed")
        assert host.events(early, "replay.diverged") == []
        assert pairs(host.events(early)) == pairs(host.events(late)) == pairs(host.events(paused))


def test_a_replay_waits_for_its_source_also_after_a_restart(tmp_path):
    flows = (flow("asks", [{"id": "wait", "typeId": "core.delay", "config": {"delayMs": 1500}}]),)
    with serve(tmp_path, *flows) as host:
        run = host.start("asks")
        replay = host.fork(run, mode="replay").json()["runId"]
    with serve(tmp_path, *flows) as host:
        host.until(run, "completed")
        host.until(replay, "completed")
        assert pairs(host.events(replay)) == pairs(host.events(run))


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/runs", b"{", "body"),
        ("/runs", b"[]", "body"),
        ("/runs", {}, "workflowId"),
        ("/runs", {"workflowId": "conformance-delay", "inputs": {"delayMs": "1"}}, "inputs.delayMs"),
        ("/runs/{run}:fork", {"mode": "replay", "runOptionsOverlay": {"tags": []}},
         "runOptionsOverlay"),
        ("/runs/{run}:fork", {"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"inputs": {}}},
         "runOptionsOverlay.inputs"),
        ("/runs/{run}:fork", {"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"tags": 1}},
         "runOptionsOverlay.tags"),
        ("/runs/{run}:fork",
         {"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {"configurable": {"x": 1}}},
         "runOptionsOverlay.configurable.x"),
        ("/runs/{run}:fork", {"mode": "branch"}, "fromSeq"),
        ("/runs/{run}:fork", {"mode": "sideways"}, "mode"),
        ("/runs/{run}:pause", {"drainPolicy": "soon"}, "drainPolicy"),
        ("/runs/{run}/cancel", {"reason": 1}, "reason"),
        ("/runs/{run}/interrupts/gate", {}, "resumeValue"),
        ("/runs/{run}/interrupts/gate", {"resumeValue": {"action": "maybe"}}, "resumeValue"),
        ("/runs:bulk-cancel", {"runIds": []}, "runIds"),
        ("/webhooks", {"events": ["run.failed"]}, "url"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_request_that_is_refused_says_which_part_of_it_is_wrong(
    tmp_path, prefix, path, body, field
):
    with Host(tmp_path) as host:
        run = host.start("conformance-approval")
        host.until(run, "waiting-approval")
        given = {"content": body} if isinstance(body, bytes) else {"json": body}
        response = host.http.post(prefix + path.replace("{run}", run), **given)
        assert error_of(response) == (400, "validation_error")
        assert response.json()["details"]["field"] == field


@pytest.mark.parametrize(
    ("headers", "query", "field"),
    [
        ({"Last-Event-ID": "x", "Accept": "text/event-stream"}, "", "Last-Event-ID"),
        ({"Last-Event-ID": "-1", "Accept": "text/event-stream"}, "", "Last-Event-ID"),
        ({}, "?streamMode=loud", "streamMode"),
        ({}, "?bufferMs=9999", "bufferMs"),
        ({"OpenWOP-Version": "one"}, "", "OpenWOP-Version"),
    ],
)
def test_a_header_or_parameter_that_is_wrong_is_named(tmp_path, headers, query, field):
    with Host(tmp_path) as host:
        run = host.start("conformance-noop")
        response = host.http.get(f"/v1/runs/{run}/events{query}", headers=headers)
        assert response.status_code == 400
        assert response.json()["details"]["field"] == field


@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "1" * 400])
def test_a_number_that_would_be_changed_is_refused(tmp_path, number):
    with Host(tmp_path) as host:
        for text, status in ((number, 400), (f'"{number}"', 201)):
            inputs = f'{{"payload": {{"n": {text}}}}}'
            raw = f'{{"workflowId": "conformance-identity", "inputs": {inputs}}}'
            response = host.http.post("/v1/runs", content=raw.encode())
            assert response.status_code == status, response.text
        deep = f'{{"inputs": {"[" * 1015}{number}{"]" * 1015}}}'
        response = host.http.post("/v1/runs", content=deep.encode())
        assert error_of(response) == (400, "validation_error")
        for largest in (2**64 - 1, -(2**63)):
            run = host.start("conformance-identity", inputs={"payload": {"n": largest}})
            assert host.until(run, "completed")["variables"]["payload"] == {"n": largest}


def nested(levels: int) -> str:
    """A list in a list in a list, as JSON; `json` itself does not write so many levels."""
    return "[" * levels + "]" * levels


def test_what_is_nested_too_deep_is_refused_and_ends_no_run(tmp_path):
    script = "print('[' * 300 + ']' * 300)"
    tools = {"a:b": ToolProgram(id="a:b", command=(sys.executable, "-c", script))}
    call = {"id": "call", "typeId": "core.tool.call", "config": {"toolId": "a:b"}}
    with serve(tmp_path, flow("calls", [call]), tools=tools) as host:
        for levels, status in ((90, 201), (120, 400), (400, 400), (900, 400)):
            inputs = f'{{"payload": {{"x": {nested(levels)}}}}}'
            body = f'{{"workflowId": "conformance-identity", "inputs": {inputs}}}'
            response = host.http.post("/v1/runs", content=body.encode())
            assert response.status_code == status, levels
            if status == 201:
                host.until(response.json()["runId"], "completed")
        run = host.start("conformance-clarification")
        host.until(run, "waiting-input")
        body = f'{{"resumeValue": {{"answers": {{"q1": {nested(600)}}}}}}}'
        url = f"/v1/runs/{run}/interrupts/ask"
        refused = host.http.post(url, content=body.encode())
        assert error_of(refused) == (400, "validation_error")
        answer = f'{{"answer": {nested(200)}, "by": "ann"}}'
        url = f"/api/inbox/int:ask:0:0/answer?run=openwop:{run}"
        headers = {**host.http.headers, "Content-Type": "application/json"}
        with httpx.Client(base_url=host.url, headers=headers, trust_env=False) as console:
            console.post(url, content=answer.encode())
            begun = f'{{"program": "conformance-identity", "inputs": {{"payload": {nested(200)}}}}}'
            made = console.post("/api/hosts/openwop/runs", content=begun.encode())
            assert made.status_code == 400
        assert host.snapshot(run)["status"] == "waiting-input"
        assert host.answer(run, "ask", {"answers": {"q1": "blue"}}).is_success
        host.until(run, "completed")
        assert host.until(host.start("calls"), "failed")["error"]["code"] == "tool_failed"


# Bulk cancel, pause and resume.


def test_two_runs_are_compared_event_by_event(tmp_path):
    nodes = [{"id": "a", "typeId": "core.noop"}, gate()]
    with serve(tmp_path, flow("two", nodes, [("a", "gate")])) as host:
        first, second = host.start("two"), host.start("two")
        for run in (first, second):
            host.until(run, "waiting-approval")

        def diff(a: str, b: str) -> dict:
            response = host.http.get(f"/v1/runs/{a}:diff", params={"against": b})
            assert response.status_code == 200
            DIFF.validate(response.json())
            return response.json()

        open_ = diff(first, second)
        assert (open_["truncated"], open_["divergedAtSeq"], open_["eventDiffs"]) == (True, None, [])
        host.answer(first, "gate", {"action": "accept"})
        host.answer(second, "gate", {"action": "reject"})
        host.until(first, "completed")
        host.until(second, "failed")
        again = host.fork(first, mode="replay").json()["runId"]
        host.until(again, "completed")
        same = {"a": first, "b": again, "divergedAtSeq": None, "eventDiffs": [], "stateDiff": {}}
        assert diff(first, again) == same
        other = diff(first, second)
        at = next(e["sequence"] for e in host.events(first, "approval.received"))
        assert other["divergedAtSeq"] == other["eventDiffs"][0]["seq"] == at
        assert other["stateDiff"]["status"] == {"a": "completed", "b": "failed"}
        assert {row["op"] for row in other["eventDiffs"]} <= {"added", "removed", "changed"}
        assert diff(second, first)["eventDiffs"][0]["aEvent"]["runId"] == second
        for query in ("", "?against="):
            response = host.http.get(f"/v1/runs/{first}:diff{query}")
            assert error_of(response) == (400, "validation_error")
        response = host.http.get(f"/v1/runs/{first}:diff?against=nobody")
        assert error_of(response) == (404, "run_not_found")
        new = host.http.get(f"/runs/{first}:diff?against=default~2F{second}").json()
        assert (new["a"], new["b"]) == (f"default/{first}", f"default/{second}")


def test_the_profile_of_an_audit_log_is_not_offered(tmp_path):
    with Host(tmp_path) as host:
        assert error_of(host.http.get("/v1/audit/verify?fromSeq=0&toSeq=1")) == (404, "not_found")
        assert "auditLogIntegrity" not in host.http.get("/.well-known/openwop").json()


def test_several_runs_are_ended_at_once_each_on_its_own(tmp_path):
    with Host(tmp_path) as host:
        done = host.start("conformance-noop")
        host.until(done, "completed")
        runs = [host.start("conformance-cancellable") for _ in range(2)]
        names = [runs[0], "run-nobody", done, runs[1]]
        url = "/v1/runs:bulk-cancel"
        response = host.http.post(url, json={"runIds": names, "reason": "enough"})
        assert response.status_code == 200
        rows = response.json()["results"]
        assert [row["runId"] for row in rows] == names
        assert [row["ok"] for row in rows] == [True, False, False, True]
        assert [row.get("status") for row in rows] == ["cancelling", None, None, "cancelling"]
        codes = [row["error"]["code"] for row in rows if not row["ok"]]
        assert codes == ["not_found", "run_terminal"]
        assert all(row["error"]["error"] == row["error"]["code"] for row in rows if not row["ok"])
        for run in runs:
            host.until(run, "cancelled")
            (end,) = host.events(run, "run.cancelled")
            assert end["payload"]["reason"] == "enough"
        again = host.http.post(url, json={"runIds": runs}).json()["results"]
        assert [(row["ok"], row["status"]) for row in again] == [(True, "cancelled")] * 2
        third = host.start("conformance-cancellable")
        twice = host.http.post(url, json={"runIds": [third, third]}).json()["results"]
        assert [row["status"] for row in twice] == ["cancelling", "cancelled"]
        host.until(third, "cancelled")
        assert len(host.events(third, "run.cancelled")) == 1
        for bad in ({}, {"runIds": []}, {"runIds": [1]}, {"runIds": "x"}):
            assert error_of(host.http.post(url, json=bad)) == (400, "validation_error")
        many = host.http.post(url, json={"runIds": ["x"] * 101})
        assert error_of(many) == (400, "validation_error")
        assert many.json()["details"] == {"field": "runIds", "maxRunIds": 100}


def test_a_run_is_paused_after_its_node_and_goes_on_later(tmp_path):
    wait = {"typeId": "core.delay", "config": {"delayMs": 400}}
    flows = (flow("two", [{"id": "a", **wait}, {"id": "b", **wait}], [("a", "b")]),)
    with serve(tmp_path, *flows) as host:
        discovered = host.http.get("/.well-known/openwop").json()
        assert discovered["runs"] == {"pauseResume": {"supported": True}}
        run = host.start("two")
        url = f"/v1/runs/{run}:pause"
        same = {"Idempotency-Key": "pause-1"}
        paused = host.http.post(url, json={"reason": "lunch"}, headers=same)
        assert paused.status_code == 202
        data = paused.json()
        assert (data["runId"], data["status"]) == (run, "paused")
        cached = host.http.post(url, json={"reason": "lunch"}, headers=same)
        assert (cached.status_code, cached.json()) == (202, data)
        assert cached.headers["openwop-idempotent-replay"] == "true"
        assert host.until(run, "paused")["pausedAt"] == data["pausedAt"]
        kinds = [e["type"] for e in host.events(run)]
        assert kinds == ["run.started", "node.started", "node.completed", "run.paused"]
        (event,) = host.events(run, "run.paused")
        assert event["payload"] == {"reason": "lunch", "drainPolicy": "drain-current-node"}
        again = host.http.post(url, json={})
        assert error_of(again) == (409, "run_state_conflict")
        assert again.json()["details"] == {"runStatus": "paused", "pausedAt": data["pausedAt"]}
    with serve(tmp_path, *flows) as host:  # it stays paused
        time.sleep(0.3)
        assert host.snapshot(run)["status"] == "paused"
        resumed = host.http.post(f"/v1/runs/{run}:resume", json={"reason": "fed"})
        assert resumed.status_code == 202
        assert resumed.json().keys() == {"runId", "status", "resumedAt"}
        assert resumed.json()["status"] == "running"
        host.until(run, "completed")
        kinds = [e["type"] for e in host.events(run)]
        assert kinds[3:6] == ["run.paused", "run.resumed", "node.started"]
        assert host.events(run)[4]["payload"] == {"reason": "fed"}
        for verb in ("pause", "resume"):
            late = host.http.post(f"/v1/runs/{run}:{verb}", json={})
            assert error_of(late) == (409, "run_terminal")
            assert late.json()["details"] == {"runStatus": "completed"}
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "completed")
        assert pairs(host.events(replay)) == pairs(host.events(run))


def test_a_run_is_paused_at_once_and_its_node_begins_again(tmp_path):
    with Host(tmp_path) as host:

        def paused_in_its_node(delay):
            run = host.start("conformance-delay", inputs={"delayMs": delay})
            eventually(lambda: host.events(run, "node.started"))
            paused = host.http.post(f"/v1/runs/{run}:pause", json={"drainPolicy": "immediate"})
            if paused.status_code == 409:
                return None
            assert paused.status_code == 202
            return run if host.until(run, "paused", "completed")["status"] == "paused" else None

        run = long_enough(paused_in_its_node, first=800)
        kinds = [e["type"] for e in host.events(run)]
        assert kinds == ["run.started", "node.started", "run.paused"]
        assert error_of(host.http.post(f"/v1/runs/{run}:pause", json={"drainPolicy": "soon"})) == (
            400, "validation_error",
        )  # fmt: skip
        assert host.http.post(f"/v1/runs/{run}:resume", json={}).status_code == 202
        host.until(run, "completed")
        kinds = [e["type"] for e in host.events(run)]
        ends = ["run.resumed", "node.started", "node.completed", "run.completed"]
        assert kinds == ["run.started", "node.started", "run.paused", *ends]
        begun = [e["payload"]["attempt"] for e in host.events(run, "node.started")]
        assert begun == [0, 1]
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "completed")
        assert host.events(replay, "replay.diverged") == []
        run = host.start("conformance-delay", inputs={"delayMs": 5000})
        host.http.post(f"/v1/runs/{run}:pause", json={"drainPolicy": "immediate"})
        host.until(run, "paused")
        assert host.http.post(f"/v1/runs/{run}/cancel", json={}).json()["status"] == "cancelled"


def test_what_waits_for_a_person_or_was_never_paused_is_not_paused_or_resumed(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-approval")
        host.until(run, "waiting-approval")
        for verb in ("pause", "resume"):
            response = host.http.post(f"/v1/runs/{run}:{verb}", json={})
            assert error_of(response) == (409, "run_state_conflict")
            assert response.json()["details"] == {"runStatus": "waiting-approval"}


# Tokens.


def test_a_token_shows_and_answers_one_question_without_a_key(tmp_path):
    keys = (key("reader", "runs:read"),)
    with Host(tmp_path, keys=keys) as host:
        run = host.start("conformance-approval")
        interrupt = host.until(run, "waiting-approval")["interrupt"]
        token = interrupt["interruptToken"]
        assert interrupt["callbackUrl"] == f"/v1/interrupts/{token}"
        assert token.startswith("ow2.hs256.host.")
        assert "interruptToken" not in host.client("reader").snapshot(run)["interrupt"]
        assert token not in json.dumps(host.events(run))
        with httpx.Client(base_url=host.url, trust_env=False) as anybody:
            url = f"/v1/interrupts/{token}"
            shown = anybody.get(url).json()
            assert (shown["kind"], shown["key"]) == ("approval", "gate:0:0")
            assert shown["data"]["actions"] == ["accept", "reject"]
            assert "resumeSchema" in shown
            for wrong in ("x", "a.b", token[:-1] + ("0" if token[-1] != "0" else "1")):
                response = anybody.get(f"/v1/interrupts/{wrong}")
                assert error_of(response) == (404, "interrupt_not_found")
            looking = host.engine.tokens.sign(
                QuestionToken(run, "gate", "int:gate:0:0", "default", time.time() + 60, "inspect")
            )
            assert anybody.get(f"/v1/interrupts/{looking}").status_code == 200
            body = {"resumeValue": {"action": "accept"}}
            refused = anybody.post(f"/v1/interrupts/{looking}", json=body)
            assert error_of(refused) == (403, "forbidden")
            old = host.engine.tokens.sign(
                QuestionToken(run, "gate", "int:gate:0:0", "default", time.time() - 1)
            )
            assert error_of(anybody.post(f"/v1/interrupts/{old}", json=body)) == (
                410, "interrupt_expired",
            )  # fmt: skip
            bad = anybody.post(url, json={"resumeValue": {"action": "maybe"}})
            assert error_of(bad) == (400, "validation_error")
            assert anybody.post(url, json=body).status_code == 200
            host.until(run, "completed")
            for response in (anybody.get(url), anybody.post(url, json=body)):
                assert error_of(response) == (409, "interrupt_already_resolved")


def test_a_token_does_not_outlive_its_question_and_dies_with_its_run(tmp_path):
    with serve(tmp_path, flow("short", [gate(timeoutMs=60_000)])) as host:
        run = host.start("short")
        token = host.until(run, "waiting-approval")["interrupt"]["interruptToken"]
        payload = token.split(".")[3]
        allowed = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        assert allowed.keys() >= {"runId", "nodeId", "interruptId", "expiresAt", "intent"}
        assert allowed["expiresAt"] <= time.time() + 60
        host.http.post(f"/v1/runs/{run}/cancel", json={})
        host.until(run, "cancelled")
        response = host.http.get(f"/v1/interrupts/{token}")
        assert error_of(response) == (409, "interrupt_already_resolved")


def test_the_secret_of_tokens_is_replaced_without_a_gap(tmp_path):
    with Host(tmp_path, token_secrets={"a": "first-secret"}) as host:
        run = host.start("conformance-approval")
        old = host.until(run, "waiting-approval")["interrupt"]["interruptToken"]
    head, _, mac = old.rpartition(".")
    assert mac == hmac.new(b"first-secret", head.encode(), hashlib.sha256).hexdigest()
    payload = head.split(".")[3]
    allowed = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert allowed == {
        "runId": run, "nodeId": "gate", "interruptId": "int:gate:0:0", "principal": "default",
        "expiresAt": allowed["expiresAt"], "intent": "resolve",
    }  # fmt: skip
    with Host(tmp_path, token_secrets={"b": "second", "a": "first-secret"}) as host:
        new = host.snapshot(run)["interrupt"]["interruptToken"]
        assert new.split(".")[2] == "b"
        for token in (old, new):
            assert host.http.get(f"/v1/interrupts/{token}").status_code == 200
    with Host(tmp_path, token_secrets={"b": "second"}) as host:
        first = host.http.get(f"/v1/interrupts/{old}")
        assert error_of(first) == (404, "interrupt_not_found")
        second = host.http.get(f"/interrupts/{old}")
        assert error_of(second) == (401, "interrupt_token_invalid")


def test_an_event_from_outside_resumes_the_run_that_it_is_for(tmp_path):
    config = {"kind": "external-event", "eventType": "order.paid",
              "correlation": {"orderId": "o-1", "status": "completed"}}  # fmt: skip
    late = {**config, "timeoutMs": 300}
    data = {key: config[key] for key in ("eventType", "correlation")}
    inside = {"kind": "external-event", "data": data}
    inside["resumeSchema"] = {"type": "object", "required": ["sum"]}
    flows = [
        flow("inside", [{"id": "wait", "typeId": "core.interrupt", "config": inside}]),
        flow("order", [{"id": "wait", "typeId": "core.interrupt", "config": config}]),
        flow("late", [{"id": "wait", "typeId": "core.interrupt", "config": late}]),
    ]
    with serve(tmp_path, *flows) as host:
        run = host.start("order")
        token = host.until(run, "waiting-external")["interrupt"]["interruptToken"]
        (asked,) = host.events(run, "interrupt.requested")
        assert asked["payload"]["data"] == {
            key: config[key] for key in ("eventType", "correlation")
        }
        with httpx.Client(base_url=host.url, trust_env=False) as anybody:
            url, event = f"/v1/interrupts/{token}", {**config["correlation"], "action": "reject"}
            other = {**event, "eventType": "order.lost"}
            for wrong in ({**event, "orderId": "o-2"}, {"orderId": "o-1"}, other):
                refused = anybody.post(url, json={"resumeValue": wrong})
                assert error_of(refused) == (422, "correlation_mismatch")
            assert host.snapshot(run)["status"] == "waiting-external"
            rows = host.http.get(f"/runs/{run}/events?types=interrupt.requested").json()["events"]
            payload = {"kind": "external-event", "key": "wait:0:0", "data": data}
            assert [row["payload"] for row in rows] == [payload]
            # Version 2 registers no such code; the details have it, by token and by id.
            newer = anybody.post(f"/interrupts/{token}", json={"resumeValue": {}})
            known = host.http.post(f"/runs/{run}/interrupts/wait", json={"resumeValue": {}})
            for refused in (newer, known):
                assert error_of(refused) == (400, "validation_error")
                assert refused.json()["details"] == {
                    "field": "resumeValue", "code": "correlation_mismatch",
                }  # fmt: skip
            assert anybody.post(url, json={"resumeValue": event}).status_code == 200
        assert host.until(run, "completed")["variables"] == event
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "completed")
        assert pairs(host.events(replay)) == pairs(host.events(run))
        assert host.until(host.start("late"), "failed")["error"]["code"] == "approval_rejected"
        run = host.start("inside")
        host.until(run, "waiting-external")
        (asked,) = host.events(run, "interrupt.requested")
        assert asked["payload"]["data"] == data
        assert asked["payload"]["resumeSchema"] == inside["resumeSchema"]
        assert error_of(host.answer(run, "wait", config["correlation"])) == (
            400,
            "validation_error",
        )
        assert host.answer(run, "wait", {**config["correlation"], "sum": 5}).status_code == 200
        host.until(run, "completed")


# Scopes.

ROUTES = [
    ("GET", "/v1/workflows/conformance-noop", "manifest:read"),
    ("POST", "/v1/runs", "runs:create"),
    ("GET", "/v1/runs/{run}", "runs:read"),
    ("GET", "/v1/runs/{run}/events", "runs:read"),
    ("GET", "/v1/runs/{run}/events/poll", "runs:read"),
    ("GET", "/v1/runs/{run}:diff?against={run}", "runs:read"),
    ("GET", "/v1/runs/{run}/artifacts/gate", "artifacts:read"),
    ("GET", "/v1/audit/verify?fromSeq=0&toSeq=1", "audit:read"),
    ("GET", "/runs", "runs:read"),
    ("GET", "/runs/{run}/effects", "runs:read"),
    ("GET", "/host/effect-seams", "runs:read"),
    ("GET", "/webhooks/x/dead-letters", "webhooks:manage"),
    ("POST", "/v1/runs/{run}/cancel", "runs:cancel"),
    ("POST", "/v1/runs/{run}:pause", "runs:cancel"),
    ("POST", "/v1/runs/{run}:resume", "runs:cancel"),
    ("POST", "/v1/runs:bulk-cancel", "runs:cancel"),
    ("POST", "/v1/runs/{run}:fork", "runs:create runs:read"),
    ("POST", "/v1/runs/{run}/interrupts/gate", "approvals:respond"),
    ("POST", "/v1/webhooks", "webhooks:manage"),
    ("DELETE", "/v1/webhooks/x", "webhooks:manage"),
]
SCOPES = sorted({scope for _, _, scopes in ROUTES for scope in scopes.split()})


def test_every_route_that_needs_a_scope_is_in_the_table():
    paths = {path.partition("?")[0].removeprefix("/v1") for _, path, _ in ROUTES}
    for route in ALL_ROUTES:
        pattern = re.sub(r"\\{(run|id|node|webhook|artifact)\\}", "[^/:]+", re.escape(route.path))
        found = any(re.fullmatch(pattern, path.replace("{run}", "r")) for path in paths)
        assert found or not route.scopes or route.name == "toolhooks", route


def test_each_route_needs_its_own_scope_and_no_other_one_will_do(tmp_path):
    keys = [key(scope, scope) for scope in SCOPES]
    keys += [key("all", "*"), key("write", "write"), key("fork", "runs:create", "runs:read")]
    keys += [key("nothing")]
    with Host(tmp_path, keys=tuple(keys)) as host:
        run = host.start("conformance-noop")
        host.until(run, "completed")
        clients = {each.principal: host.client(each.principal).http for each in keys}
        for method, path, needed in ROUTES:
            for each in keys:
                url, http = path.replace("{run}", run), clients[each.principal]
                response = http.request(method, url, json={} if method == "POST" else None)
                may = set(needed.split()) <= set(each.scopes) or {"*", "write"} & set(each.scopes)
                assert (response.status_code != 403) == bool(may), (method, path, each.principal)
                if not may:
                    assert response.json().keys() == {"error", "message", "details"}
                    assert response.json()["error"] == "forbidden"
                    (lacking,) = response.json()["details"].items()
                    assert lacking[0] == "scopeRequired"
                    assert lacking[1] in set(needed.split()) - set(each.scopes)
        for method, path, needed in ROUTES:
            url = path.removeprefix("/v1").replace("{run}", run)
            response = clients["nothing"].request(method, url)
            assert error_of(response) == (403, "forbidden")
            assert response.json()["details"] == {"scopeRequired": needed.split()[0]}
        missing = host.client("nothing").http.get("/v1/runs/run-nobody")
        assert missing.status_code == 403  # before it is said whether there is such a run
        assert host.client("all").http.get("/v1/runs/run-nobody").status_code == 404


def test_a_key_without_scopes_is_named_when_the_host_starts(tmp_path):
    config = tmp_path / "host.yaml"
    config.write_text("keys:\n- {token: KEY, principal: ann}\n")
    with Process(tmp_path / "home", "--config", str(config), KEY="word-of-ann") as host:
        asked = {"Authorization": "Bearer word-of-ann"}
        assert host.http.get("/v1/runs/x", headers=asked).status_code == 403
    assert any("ann" in line and "no scopes" in line for line in host.said)


def test_a_scope_that_nothing_needs_is_named_when_the_host_starts(tmp_path):
    config = tmp_path / "host.yaml"
    tool = "tools: [{id: 'a:b', command: [x], scopes: ['my:own']}]"
    scopes = "[runs:read, my:own, runs:raed]"
    config.write_text(f"{tool}\nkeys:\n- {{token: KEY, principal: ann, scopes: {scopes}}}\n")
    with Process(tmp_path / "home", "--config", str(config), KEY="word-of-ann") as host:
        host.http.get("/.well-known/openwop")
    named = [line for line in host.said if "nothing here needs" in line]
    assert len(named) == 1
    assert "runs:raed" in named[0]


def test_a_tenant_sees_only_its_own_runs(tmp_path):
    keys = (key("acme", "*", tenant="acme"), key("other", "*", tenant="other"))
    with Host(tmp_path, keys=keys) as host:
        acme, other = (host.client(name) for name in ("acme", "other"))
        run = acme.start("conformance-noop")
        acme.until(run, "completed")
        for response in (
            other.http.get(f"/v1/runs/{run}"),
            other.http.get(f"/v1/runs/{run}/events"),
            other.fork(run, mode="replay"),
        ):
            assert error_of(response) == (404, "run_not_found")
        body = {"workflowId": "conformance-noop", "tenantId": "acme"}
        hook = {"url": "https://93.184.216.34/x", "events": ["run.failed"], "tenantId": "acme"}
        for client in (other, host):  # the tenant of a key without one is that of the host
            for path in ("/v1/runs", "/runs"):
                refused = client.http.post(path, json=body)
                assert error_of(refused) == (403, "forbidden")
                assert refused.json()["details"] == {"field": "tenantId"}
            assert error_of(client.http.post("/v1/webhooks", json=hook)) == (403, "forbidden")
        assert acme.http.post("/v1/runs", json=body).status_code == 201
        made = acme.http.post("/v1/webhooks", json=hook).json()["webhookId"]
        for tenant, status in (("other", 403), ("acme", 204)):
            gone = acme.http.delete(f"/v1/webhooks/{made}", params={"tenantId": tenant})
            assert gone.status_code == status
        assert host.start("conformance-noop", tenantId="default")


# Webhooks.


class Receiver:
    """A web server that remembers what it was sent, and fails as often as it is asked to."""

    def __init__(self, failures: int = 0) -> None:
        self.got: list[tuple[dict, bytes]] = []
        self.at: list[float] = []
        self.failures = failures
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.at.append(time.monotonic())
                receiver.got.append((dict(self.headers), body))
                receiver.failures -= 1
                status = 500 if receiver.failures >= 0 else 204
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self) -> "Receiver":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


HOOKS = {"webhook_hosts": ("127.0.0.1",), "webhook_backoff_ms": 50}


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://127.0.0.1/x", "webhook_url_rejected"),
        ("https://localhost/x", "webhook_url_rejected"),
        ("https://10.0.0.1/x", "webhook_url_rejected"),
        ("https://192.168.1.1/x", "webhook_url_rejected"),
        ("https://172.16.0.1/x", "webhook_url_rejected"),
        ("https://172.31.255.255/x", "webhook_url_rejected"),
        ("https://[fe80::1]/x", "webhook_url_rejected"),
        ("https://169.254.169.254/latest", "webhook_url_rejected"),
        ("https://[::1]/x", "webhook_url_rejected"),
        ("https://[fd00::1]/x", "webhook_url_rejected"),
        ("https://[::ffff:10.0.0.1]/x", "webhook_url_rejected"),
        ("https://[64:ff9b::a00:1]/x", "webhook_url_rejected"),
        ("https://[64:ff9b:1::1]/x", "webhook_url_rejected"),
        ("https://127.1/x", "webhook_url_rejected"),
        ("https://2130706433/x", "webhook_url_rejected"),
        ("https://93.184.216.34:0/x", "webhook_url_rejected"),
        ("https://93.184.216.34:99999/x", "webhook_url_rejected"),
        ("http://93.184.216.34/x", "webhook_url_rejected"),
        ("https://user:word@93.184.216.34/x", "webhook_url_rejected"),
        ("nothing", "validation_error"),
        (None, "validation_error"),
        (5, "validation_error"),
    ],
)
def test_nothing_is_sent_to_a_private_address(tmp_path, url, code):
    with Host(tmp_path) as host:
        body = {"url": url, "events": ["run.completed"]}
        for path in ("/v1/webhooks", "/webhooks"):
            response = host.http.post(path, json=body)
            assert error_of(response) == (400, code)
            assert response.json()["details"] == {"field": "url"}


def test_only_addresses_that_everybody_can_reach_are_public():
    public = ("93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "::ffff:93.184.216.34")
    assert all(map(is_public, public))
    private = (
        "0.0.0.0",
        "100.64.0.1",
        "224.0.0.1",
        "::",
        "fe80::1%eth0",
        "2002:a00:1::",
        "64:ff9b:1::1",
        "3fff::1",
        "5f00::1",
        "::a00:1",
    )
    assert not any(map(is_public, private))


def test_events_are_delivered_signed_until_they_are_unsubscribed(tmp_path):
    with Receiver() as receiver, Host(tmp_path, **HOOKS) as host:
        offered = host.http.get("/.well-known/openwop").json()["webhooks"]
        assert offered["supported"] is True
        body = {"url": receiver.url, "events": ["run.started", "run.completed"]}
        odd = {**body, "url": f"{receiver.url}/a\r\nX-Other: y"}
        for bad in ({**body, "events": []}, {**body, "events": [1]}, {"url": receiver.url}, odd):
            assert error_of(host.http.post("/v1/webhooks", json=bad)) == (400, "validation_error")
        made = host.http.post("/v1/webhooks", json=body)
        assert made.status_code == 201
        hook = made.json()
        assert hook["subscriptionId"] == hook["webhookId"]
        assert hook["events"] == hook["eventTypes"] == body["events"]
        assert {"url", "secret", "secretFingerprint", "createdAt"} <= hook.keys()
        run = host.start("conformance-noop")
        host.until(run, "completed")
        assert eventually(lambda: len(receiver.got) == 2)
        types = []
        for headers, raw in receiver.got:
            signed = headers["X-openwop-Timestamp"].encode() + b"." + raw
            mac = hmac.new(hook["secret"].encode(), signed, hashlib.sha256).hexdigest()
            for family in ("X-openwop-", "OpenWOP-"):
                assert headers[f"{family}Signature"] == f"sha256={mac}"
                assert headers[f"{family}Signature-Algorithm"] == "v1"
                assert headers[f"{family}Webhook-Id"] == hook["webhookId"]
                types.append(headers[f"{family}Event-Type"])
            sent = json.loads(raw)
            assert sent["runId"] == run
            assert sent["event"] in host.events(run)
        assert types == ["run.started"] * 2 + ["run.completed"] * 2
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "completed")
        url = f"/v1/webhooks/{hook['webhookId']}"
        assert host.http.delete(url).status_code == 204
        assert error_of(host.http.delete(url)) == (404, "subscription_not_found")
        assert len(receiver.got) == 2  # nothing of a replay
        for path in (tmp_path / "hosts").rglob("*"):
            assert path.is_dir() or hook["secret"].encode() not in path.read_bytes()


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_of_a_fork_only_what_is_new_is_delivered(tmp_path, prefix):
    flows = put(tmp_path / "flows", flow("asks", [{"id": "a", "typeId": "core.noop"}, gate()],
                                         [("a", "gate")]))  # fmt: skip
    kinds = ["run.started", "node.started", "node.completed", "node.suspended", "run.completed"]
    kinds += ["approval.received", "run.cancelled"]
    with Receiver() as receiver, Host(tmp_path / "home", workflows=flows, **HOOKS) as host:

        def sent(run: str) -> list[tuple[str, str | None]]:
            found = [json.loads(raw) for _, raw in receiver.got]
            events = [each["event"] for each in found if each["runId"].endswith(run)]
            return [(e["type"], e.get("nodeId")) for e in events]

        def fork(mode: str, start: int) -> str:
            body = {"mode": mode, "fromSeq": start}
            return host.http.post(f"{prefix}/runs/{run}:fork", json=body).json()["runId"][-40:]

        body = {"url": receiver.url, "events": kinds}
        assert host.http.post(f"{prefix}/webhooks", json=body).status_code == 201
        run = host.start("asks")
        host.until(run, "waiting-approval")
        answered, cancelled, inside = fork("replay", 0), fork("replay", 3), fork("replay", 2)
        for name in (answered, cancelled, inside):
            host.until(name, "waiting-approval")
        accept = {"action": "accept"}
        ends = [("approval.received", "gate"), ("node.completed", "gate"), ("run.completed", None)]
        for name in (answered, inside):
            host.answer(name, "gate", accept)
            host.until(name, "completed")
        host.http.post(f"/v1/runs/{cancelled}/cancel", json={})
        host.answer(run, "gate", accept)
        host.until(run, "completed")
        repeated = fork("replay", 0)
        host.until(repeated, "completed")
        branch = fork("branch", 3)
        host.until(branch, "waiting-approval")
        host.answer(branch, "gate", accept)
        host.until(branch, "completed")
        assert eventually(lambda: sent(branch)[-1:] == ends[-1:])
        assert sent(answered) == sent(inside) == ends
        assert sent(cancelled) == [("run.cancelled", None)]
        assert sent(repeated) == []
        assert sent(branch) == [("node.started", "gate"), ("node.suspended", "gate"), *ends]


def test_a_delivery_that_fails_is_tried_again_also_after_a_restart(tmp_path):
    with Receiver(failures=10**6) as receiver:
        with Host(tmp_path, **HOOKS, webhook_attempts=1000) as host:
            body = {"url": receiver.url, "events": ["run.completed"]}
            assert host.http.post("/v1/webhooks", json=body).status_code == 201
            run = host.start("conformance-noop")
            host.until(run, "completed")
            assert eventually(lambda: len(receiver.got) >= 2)
        receiver.failures, before = 0, len(receiver.got)
        with Host(tmp_path, **HOOKS) as host:
            assert eventually(lambda: len(receiver.got) > before)
            assert json.loads(receiver.got[-1][1])["runId"] == run
            other = host.start("conformance-noop")
            host.until(other, "completed")
            assert eventually(lambda: json.loads(receiver.got[-1][1])["runId"] == other)


def test_the_attempts_of_a_delivery_are_counted_on_after_a_kill(tmp_path):
    config = tmp_path / "host.yaml"
    config.write_text(
        "webhook_hosts: ['127.0.0.1']\nwebhook_attempts: 4\nwebhook_backoff_ms: 400\n"
    )
    with Receiver(failures=10**6) as receiver:
        with Process(tmp_path / "home", "--config", str(config)) as host:
            body = {"url": receiver.url, "events": ["run.completed"]}
            made = host.http.post("/v1/webhooks", json=body).json()
            hook, said = made["webhookId"], host.said
            run = host.start("conformance-noop")
            assert eventually(lambda: len(receiver.got) >= 3)
            host.process.kill()
            host.process.wait(60)
        with Process(tmp_path / "home", "--config", str(config)) as host:
            url = f"/webhooks/{hook}/dead-letters"
            assert eventually(lambda: host.http.get(url).json()["deliveries"])
            (letter,) = host.http.get(url).json()["deliveries"]
            assert (letter["attempts"], letter["lastStatus"]) == (4, 500)
            assert letter["runId"] == f"default/{run}"
        said += host.said
        assert any("a delivery failed" in line for line in said)
        assert not any(made["secret"] in line for line in said)
        # The result of the third attempt may not have been stored when the host was killed.
        assert len(receiver.got) in (4, 5)


def test_a_subscription_is_made_once_for_one_key_and_its_secret_is_stored_nowhere(tmp_path):
    with Host(tmp_path, **HOOKS) as host:
        body = {"url": "http://127.0.0.1:9/x", "events": ["run.completed"]}
        same = {"Idempotency-Key": "a-key-that-is-long-enough"}
        first = host.http.post("/v1/webhooks", json=body, headers=same)
        again = host.http.post("/v1/webhooks", json=body, headers=same)
        assert first.json() == again.json()
        assert again.headers["openwop-idempotent-replay"] == "true"
        other = host.http.post("/v1/webhooks", json={**body, "tags": ["x"]}, headers=same)
        assert error_of(other) == (409, "idempotency_key_mismatch")
        secret = first.json()["secret"].encode()
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or secret not in path.read_bytes()


def test_another_host_on_the_home_delivers_when_the_first_has_ended(tmp_path):
    with Receiver() as receiver, Host(tmp_path, **HOOKS) as second:
        with Host(tmp_path, **HOOKS) as first:
            body = {"url": receiver.url, "events": ["run.completed"]}
            assert first.http.post("/v1/webhooks", json=body).status_code == 201
        run = second.start("conformance-noop")
        second.until(run, "completed")
        assert eventually(lambda: receiver.got)
        assert json.loads(receiver.got[0][1])["runId"] == run


def test_a_delivery_that_never_succeeds_is_a_dead_letter_and_holds_up_nothing(tmp_path):
    with Receiver(failures=3) as receiver, Host(tmp_path, **HOOKS, webhook_attempts=3) as host:
        body = {"url": receiver.url, "events": ["run.completed"]}
        hook = host.http.post("/v1/webhooks", json=body).json()
        first = host.start("conformance-noop")
        host.until(first, "completed")
        url = f"/webhooks/{hook['webhookId']}/dead-letters"
        assert eventually(lambda: host.http.get(url).json()["deliveries"])
        (letter,) = host.http.get(url).json()["deliveries"]
        (ended,) = host.events(first, "run.completed")
        assert re.fullmatch(r"default/[A-Za-z0-9._-]{16,128}", letter.pop("deliveryId"))
        pauses = [after - before for before, after in pairwise(receiver.at)]
        assert len(pauses) == 2
        assert all(pause >= 0.05 * 2**n for n, pause in enumerate(pauses))  # exponential
        begin, end = (datetime.fromisoformat(letter.pop(name))
                      for name in ("deadLetteredAt", "expiresAt"))  # fmt: skip
        assert end - begin == timedelta(days=30)
        assert letter == {
            "webhookId": f"default/{hook['webhookId']}", "runId": f"default/{first}",
            "eventId": ended["eventId"], "eventType": "run.completed", "attempts": 3,
            "reason": "retries_exhausted", "lastStatus": 500,
        }  # fmt: skip
        second = host.start("conformance-noop")
        assert eventually(lambda: json.loads(receiver.got[-1][1])["runId"] == second)


def test_dead_letters_are_read_by_page_and_expire(tmp_path):
    now = [time.time()]
    settings = {**HOOKS, "webhook_attempts": 1}
    with (
        Receiver(failures=99) as receiver,
        Host(tmp_path, clock=lambda: now[0], **settings) as host,
    ):
        announced = host.http.get("/.well-known/openwop", headers={"OpenWOP-Version": "2"})
        facet = announced.json()["webhooks"]["deadLetter"]
        assert facet == {"retentionDays": 30, "maxPageSize": 100}
        hook = host.http.post(
            "/v1/webhooks", json={"url": receiver.url, "events": ["run.completed"]}
        )
        url = f"/webhooks/{hook.json()['webhookId']}/dead-letters"
        runs = [host.start("conformance-noop") for _ in range(3)]
        assert eventually(lambda: len(host.http.get(url).json()["deliveries"]) == 3)
        first = host.http.get(url, params={"limit": 2}).json()
        cursor = first["nextCursor"]
        second = host.http.get(url, params={"limit": 2, "cursor": cursor}).json()
        assert "nextCursor" not in second
        rows = first["deliveries"] + second["deliveries"]
        assert {row["runId"] for row in rows} == {f"default/{run}" for run in runs}
        assert rows == host.http.get(url, params={"limit": 1000}).json()["deliveries"]
        for wrong in ({"cursor": "1.x"}, {"cursor": "ü"}, {"limit": 0}, {"limit": "x"}):
            assert host.http.get(url, params=wrong).status_code == 400
        other = host.http.post(
            "/v1/webhooks", json={"url": receiver.url, "events": ["run.completed"]}
        ).json()["webhookId"]
        for path in ("/runs", f"/webhooks/{other}/dead-letters"):  # a cursor is of one list
            assert host.http.get(path, params={"cursor": cursor}).status_code == 400
        assert host.http.get("/webhooks/hook-nobody/dead-letters").status_code == 404
        now[0] += 30 * 86_400 + 1
        assert host.http.get(url).json()["deliveries"] == []


# Versions, and what clients of version 1 read.


def test_another_major_version_on_a_path_of_this_one_is_refused(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-noop")
        fine = host.http.get(f"/v1/runs/{run}", headers={"OpenWOP-Version": "1.0"})
        assert (fine.status_code, fine.headers["openwop-version"]) == (200, "1.0")
        two = host.http.get(f"/v1/runs/{run}", headers={"OpenWOP-Version": "2.0"})
        assert error_of(two) == (400, "protocol_version_mismatch")
        nine = host.http.get(f"/v1/runs/{run}", headers={"OpenWOP-Version": "9"})
        assert error_of(nine) == (406, "protocol_version_unsupported")
        assert nine.json()["details"] == {"protocolVersions": ["1.0", "2.0"]}
        old = host.http.get(f"/v1/runs/{run}", headers={"OpenWOP-Client-Version": "0.9.1"})
        assert error_of(old) == (426, "client_version_unsupported")
        for version in ("new", "1", "00.1", "0.1-rc.1", "0.01", "1.0", "1.0.99"):
            odd = host.http.get(f"/v1/runs/{run}", headers={"OpenWOP-Client-Version": version})
            assert odd.status_code == 200


def test_a_host_that_suppresses_escalation_serves_only_version_1(tmp_path):
    roots = ["agents", "audit", "connection-providers", "content", "host", "interrupts",
             "openapi.json", "proposals", "prompts", "runs", "tools", "trigger-subscriptions",
             "webhooks", "workflows"]  # fmt: skip
    with Host(tmp_path, escalation="suppress") as host:
        assert host.http.get("/.well-known/openwop").json()["protocolVersions"] == ["1.0"]
        for root in roots:
            for method, path in (("GET", f"/{root}"), ("GET", f"/{root}/x"), ("POST", f"/{root}")):
                refused = host.http.request(method, path)
                assert error_of(refused) == (400, "validation_error")
                assert refused.headers["openwop-version"] == "1.0"
        two = host.http.get("/.well-known/openwop", headers={"OpenWOP-Version": "2"})
        assert error_of(two) == (406, "protocol_version_unsupported")
        assert two.json()["details"] == {"protocolVersions": ["1.0"]}


def test_discovery_is_not_sent_again_when_it_is_unchanged(tmp_path):
    with Host(tmp_path) as host:
        first = host.http.get("/.well-known/openwop")
        same = {"If-None-Match": first.headers["etag"]}
        again = host.http.get("/.well-known/openwop", headers=same)
        assert (again.status_code, again.content) == (304, b"")
        for name in ("etag", "capabilities-etag", "cache-control", "vary", "openwop-version"):
            assert again.headers[name] == first.headers[name]
        other = host.http.get("/.well-known/openwop", headers={"If-None-Match": '"other"'})
        assert (other.status_code, other.content) == (200, first.content)


def test_tool_events_have_the_names_that_clients_read_beside_those_of_the_rfc(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-agent-reasoning")
        host.until(run, "completed")
        (called,) = host.events(run, "agent.toolCalled")
        (returned,) = host.events(run, "agent.toolReturned")
        assert called["payload"]["inputs"] == called["payload"]["arguments"]
        assert returned["payload"]["outcome"] == returned["payload"]["result"]


def test_the_document_of_the_routes_has_the_snapshot_and_our_own_parameter(tmp_path):
    with Host(tmp_path) as host:
        api = host.http.get("/v1/openapi.json").json()
        assert "runId" in api["components"]["schemas"]["RunSnapshot"]["properties"]
        names = [
            each["name"] for each in api["paths"]["/v1/runs/{run}/events"]["get"]["parameters"]
        ]
        assert "types" in names
        for path in ("/v1/runs:bulk-cancel", "/v1/webhooks", "/v1/interrupts/{token}"):
            assert path in api["paths"]


def test_the_token_of_the_operator_may_do_everything(tmp_path):
    with Host(tmp_path) as host:
        client = host.client(TOKEN)
        assert client.http.get("/v1/workflows/conformance-noop").status_code == 200
