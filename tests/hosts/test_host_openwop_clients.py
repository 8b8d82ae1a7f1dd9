"""The official clients of both versions against a real host, unmodified, each in its own process."""

import json

import pytest

from support.hosting import TOKEN, Process
from support.openwop_clients import python_with

COMMON = """
import json, sys, time, urllib.request
from openwop_client import OpenwopClient, WopError
import openwop_client.types as t

url, key = sys.argv[1:3]
client = OpenwopClient(base_url=url, api_key=key)
out = {}

def until(run, *statuses):
    for _ in range(600):
        found = client.runs_get(run)
        if found.status in statuses:
            return found
        time.sleep(0.05)
    raise SystemExit(f"{run} is {found.status}")

def code_of(call):
    try:
        call()
    except WopError as error:
        return [error.status, error.envelope.error if error.envelope else None]
    return None
"""
STEPS = """
run = client.runs_create(t.CreateRunRequest(workflowId="conformance-agent-reasoning", tags=["x"]),
                         idempotency_key="k" * 24)
out["created"] = [run.runId, run.eventsUrl]
again = client.runs_create(t.CreateRunRequest(workflowId="conformance-agent-reasoning", tags=["x"]),
                           idempotency_key="k" * 24)
out["same"] = again.runId == run.runId
events = list(client.runs_events(run.runId, stream_mode="debug"))
out["streamed"] = [e.type for e in events]
out["payloads"] = [e.payload for e in events]
out["ids"] = sorted({e.runId for e in events})
snapshot = until(run.runId, "completed")
out["tags"] = snapshot.tags
out["version"] = snapshot.engineVersion

asked = client.runs_create(t.CreateRunRequest(workflowId="conformance-approval"))
waiting = until(asked.runId, "waiting-approval")
answer = client.interrupts_resolve_by_run(
    asked.runId, "gate", t.ResolveInterruptRequest(resumeValue={"action": "accept"}))
out["answered"] = [answer.runId == asked.runId, answer.nodeId]
until(asked.runId, "completed")
late = lambda: client.interrupts_resolve_by_run(
    asked.runId, "gate", t.ResolveInterruptRequest(resumeValue={"action": "accept"}))
out["late"] = code_of(late)

token_run = client.runs_create(t.CreateRunRequest(workflowId="conformance-approval"))
until(token_run.runId, "waiting-approval")
token = token_of(token_run.runId)
seen = client.interrupts_inspect_by_token(token)
out["inspected"] = [seen.kind, seen.key, seen.data["title"]]
client.interrupts_resolve_by_token(token, t.ResolveInterruptRequest(resumeValue={"action": "reject"}))
out["rejected"] = until(token_run.runId, "failed").error.code

slow = client.runs_create(t.CreateRunRequest(workflowId="conformance-delay", inputs={"delayMs": 1500}))
paused = client.runs_pause(slow.runId, t.PauseRunRequest(drainPolicy="immediate"))
out["paused"] = [paused.status, bool(paused.pausedAt)]
until(slow.runId, "paused")
resumed = client.runs_resume(slow.runId)
out["resumed"] = [resumed.status, bool(resumed.resumedAt)]
cancelled = client.runs_cancel(slow.runId, t.CancelRunRequest(reason="enough"))
out["cancelled"] = cancelled.status
until(slow.runId, "cancelled")
more = [client.runs_create(t.CreateRunRequest(workflowId="conformance-cancellable")) for _ in "ab"]
rows = client.runs_bulk_cancel(
    t.BulkCancelRunsRequest(runIds=[more[0].runId, "run-of-nobody", more[1].runId]))
out["bulk"] = [row.ok for row in rows.results]

replay = client.runs_fork(run.runId, t.ForkRunRequest(fromSeq=0, mode="replay"))
out["forked"] = [replay.sourceRunId == run.runId, replay.mode]
until(replay.runId, "completed")
out["replayed"] = [e.type for e in client.runs_events(replay.runId, stream_mode="debug")]
branch = client.runs_fork(run.runId, t.ForkRunRequest(fromSeq=1, mode="branch",
                                                      runOptionsOverlay={"tags": ["y"]}))
out["branched"] = until(branch.runId, "completed").tags
out["unknown"] = code_of(lambda: client.runs_get("run-of-nobody"))
out["refused"] = code_of(lambda: client.runs_create(t.CreateRunRequest(
    workflowId="conformance-noop", callbackUrl="https://example.com")))
out["private"] = code_of(lambda: client.webhooks_register(
    t.RegisterWebhookRequest(url="https://127.0.0.1/x", events=["run.completed"])))
same = client.runs_diff(run.runId, replay.runId)
out["diff"] = [same.a == run.runId, same.divergedAtSeq, same.eventDiffs, same.stateDiff]
out["artifact"] = client.runs_get_artifact(run.runId, "nothing")
out["audit"] = code_of(lambda: client.audit_verify(0, 1))
print(json.dumps(out))
"""
FIRST = """
found = client.discovery_capabilities()
out["discovered"] = [found.protocolVersion, sorted(found.limits)[:1] if isinstance(found.limits, dict) else []]
out["workflow"] = client.workflows_get("conformance-noop")["id"]

def token_of(run):  # its snapshot has no place for the question
    asked = urllib.request.Request(f"{url}/v1/runs/{run}", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)["interrupt"]["interruptToken"]
"""
SECOND = """
found = client.discovery_capabilities()
out["discovered"] = [found.protocolVersions, found.preferredVersion, sorted(found.families)]
out["workflow"] = client.workflows_get("conformance-noop")["id"]
until(client.runs_create(t.CreateRunRequest(workflowId="conformance-noop")).runId, "completed")
noop = client.runs_create(t.CreateRunRequest(
    workflowId="conformance-noop", configurable=t.RunConfigurable(ai={"temperature": 0.5})))
until(noop.runId, "completed")
page = client.runs_poll_events(noop.runId)
out["polled"] = [page.runId == noop.runId, page.lastSequence, page.status, page.isTerminal]
out["empty"] = client.runs_poll_events(noop.runId, after_sequence=99).lastSequence
owner = client.runs_get(noop.runId).owner
out["owner"] = [owner.tenant, owner.subject.issuer, owner.subject.subjectId, owner.subject.lane]
listed = client.runs_list(limit=1)
out["listed"] = [listed.runs[0].runId == noop.runId, bool(listed.next_cursor)]
out["seams"] = [each.seam for each in client.host_effect_seams().seams]
out["terminal"] = code_of(lambda: client.runs_cancel(noop.runId))

def token_of(run):
    return client.runs_get(run).interrupt["interruptToken"]
"""
V2 = {
    "agent.toolCalled": "agent.tool-called",
    "agent.toolReturned": "agent.tool-returned",
}
KINDS = [
    "run.started", "node.started", "agent.reasoned", "agent.toolCalled", "agent.toolReturned",
    "agent.handoff", "agent.decided", "node.completed", "run.completed",
]  # fmt: skip


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Process(tmp_path_factory.mktemp("home")) as made:
        yield made


def run(host: Process, version: str, steps: str) -> dict:
    return json.loads(python_with(version, COMMON + steps + STEPS, host.url, TOKEN))


def check_steps(out: dict) -> None:
    """What both versions have in common."""
    assert out["same"] is True
    assert out["replayed"] == out["streamed"]
    assert (out["tags"], out["branched"], out["version"]) == (["x"], ["y"], 1)
    assert out["answered"] == [True, "gate"]
    assert out["late"] == [409, "interrupt_already_resolved"]
    assert out["inspected"] == ["approval", "gate:0:0", "Conformance approval"]
    assert out["rejected"] == "approval_rejected"
    assert out["paused"] == ["paused", True]
    assert out["resumed"] == ["running", True]
    assert out["cancelled"] in ("cancelled", "cancelling")
    assert out["bulk"] == [True, False, True]
    assert out["forked"] == [True, "replay"]
    assert out["refused"] == [400, "validation_error"]
    assert out["private"] == [400, "webhook_url_rejected"]
    assert out["diff"] == [True, None, [], {}]
    assert out["artifact"] is None
    assert out["audit"] == [404, "not_found"]


def test_the_client_of_version_1_does_everything(host):
    out = run(host, "1.8.0", FIRST)
    check_steps(out)
    assert out["discovered"][0] == "1.0"
    assert out["created"][1] == f"/v1/runs/{out['created'][0]}/events"
    assert out["streamed"] == KINDS
    assert out["unknown"] == [404, "run_not_found"]
    called = out["payloads"][3]
    assert called["inputs"] == called["arguments"] == {"x": 1}


def test_the_client_of_version_2_does_everything(host):
    out = run(host, "2.7.0", SECOND)
    check_steps(out)
    assert out["discovered"][:2] == [["1.0", "2.0"], "1.0"]
    families = {"agents", "replay", "interrupt", "idempotency", "webhooks", "eventLog", "runList"}
    assert families <= set(out["discovered"][2])
    name = out["created"][0]
    tenant, _, opaque = name.partition("/")
    assert (tenant, opaque[:4]) == ("default", "run-")
    assert out["created"][1] == f"/runs/default~2F{opaque}/events"
    assert out["ids"] == [name]
    assert out["streamed"] == [V2.get(kind, kind) for kind in KINDS]
    assert out["unknown"] == [404, "not_found"]
    assert out["polled"] == [True, 3, "completed", True]
    assert out["empty"] == 3  # the end of the log, not the cursor
    assert out["owner"] == ["default", "urn:tracklog:api-key", "default", "api-key"]
    assert out["listed"] == [True, True]
    assert out["seams"] == ["model", "tool", "webhook"]
    assert out["terminal"] == [409, "run_terminal"]
    called, returned, handoff = out["payloads"][3:6]
    assert called["inputs"] == {"x": 1}
    assert called["x-toolId"] == called["toolName"]
    assert "arguments" not in called
    assert returned["outcome"] == {"x": 1}
    assert handoff["x-from"]["agentId"] == handoff["fromAgentId"]


def test_the_default_of_the_newest_client_is_version_2(host):
    code = COMMON + "print(client.protocol_version)"
    assert python_with("2.7.0", code, host.url, TOKEN).strip() == "2.0"
