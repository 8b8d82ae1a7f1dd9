"""The scenarios of version 1."""

import time
from typing import Any

from tracklog.hosts.openwop.conformance.client import (
    Client,
    Skipped,
    expect,
    expect_that,
    segment,
)

FIVE = ("reasoned", "toolCalled", "toolReturned", "handoff", "decided")
ENDS = ("run.completed", "run.failed", "run.cancelled")


def discovery(client: Client) -> None:
    answer = client.ask("GET", "/.well-known/openwop", key="")
    expect("the status", answer.status, 200)
    needed = {"protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"}
    expect_that("a required key is missing", needed <= answer.json.keys())
    expect_that("there is no Cache-Control", "cache-control" in answer.headers)
    if "etag" in answer.headers:
        same = {"If-None-Match": answer.headers["etag"]}
        again = client.ask("GET", "/.well-known/openwop", headers=same, key="")
        expect("the status of what is unchanged", again.status, 304)


def auth(client: Client) -> None:
    body = {"workflowId": "conformance-noop"}
    client.refused(client.post("/runs", body, key=""), 401, "unauthenticated")
    client.refused(client.post("/runs", body, key="wrong-key-of-nobody"), 401, "unauthenticated")


def runs_lifecycle(client: Client) -> None:
    run = client.start("noop")
    client.until(run, "completed")
    client.refused(client.get("/runs/run-of-nobody-at-all"), 404)
    client.refused(client.post("/runs", {}), 400)
    client.refused(client.post("/runs", {"workflowId": "nobody-has-this"}), 400, "validation_error")


def event_ordering(client: Client) -> None:
    run = client.start("multi-node")
    client.until(run, "completed")
    events = client.events(run)
    expect("the numbers", [each["sequence"] for each in events], list(range(len(events))))
    ends = [each["sequence"] for each in events if each["type"] in ENDS]
    expect("the end", ends, [len(events) - 1])


def failure_path(client: Client) -> None:
    run = client.start("failure")
    error = client.until(run, "failed")["error"]
    expect_that("code and message are texts", isinstance(error["code"], str) and error["message"])


def identity_passthrough(client: Client) -> None:
    value = {"a": [1, {"b": None, "c": "ü"}]}
    run = client.start("identity", inputs={"payload": value})
    expect("the output", client.until(run, "completed")["variables"]["payload"], value)


def cap_breach(client: Client) -> None:
    run = client.start("cap-breach", configurable={"recursionLimit": 3})
    client.until(run, "failed")
    (breach,) = client.events(run, "cap.breached")
    expect("the kind", breach["payload"]["kind"], "node-executions")


def idempotency(client: Client) -> None:
    name = client.need("noop")
    same = {"Idempotency-Key": f"conformance-{time.time_ns()}-{'0' * 12}"}
    first = client.post("/runs", {"workflowId": name}, headers=same)
    again = client.post("/runs", {"workflowId": name}, headers=same)
    expect("the run", again.json["runId"], first.json["runId"])
    expect("the mark", again.headers.get("openwop-idempotent-replay"), "true")
    other = client.post("/runs", {"workflowId": name, "tags": ["x"]}, headers=same)
    client.refused(other, 409, "idempotency_key_mismatch")


def cancellation(client: Client) -> None:
    run = client.start("cancellable")
    answer = client.post(f"/runs/{run}/cancel", {"reason": "enough"})
    expect("the status", answer.status, 200)
    client.until(run, "cancelled")


def bulk_cancel(client: Client) -> None:
    run = client.start("cancellable")
    answer = client.post("/runs:bulk-cancel", {"runIds": [run, "run-of-nobody-at-all"]})
    expect("the status", answer.status, 200)
    expect("the results", [each["ok"] for each in answer.json["results"]], [True, False])
    client.until(run, "cancelled")
    client.refused(client.post("/runs:bulk-cancel", {"runIds": []}), 400, "validation_error")
    many = client.post("/runs:bulk-cancel", {"runIds": ["x"] * 101})
    client.refused(many, 400, "validation_error")


def pause_resume(client: Client) -> None:
    supported = client.discovery.get("runs", {}).get("pauseResume", {}).get("supported")
    if client.major == 1 and not supported:
        raise Skipped("the host does not announce runs.pauseResume")
    run = client.start("delay", inputs={"delayMs": 1500})
    paused = client.post(f"/runs/{run}:pause", {"drainPolicy": "immediate"})
    expect("the status of a pause", paused.status, 202)
    client.until(run, "paused")
    again = client.refused(client.post(f"/runs/{run}:pause", {}), 409)
    expect("runStatus", again["details"]["runStatus"], "paused")
    expect("the status of resume", client.post(f"/runs/{run}:resume", {}).status, 202)
    client.until(run, "completed")


def stream_modes(client: Client) -> None:
    run = client.start("noop")
    client.until(run, "completed")
    wrong = client.get(f"/runs/{run}/events?streamMode=does-not-exist")
    client.refused(wrong, 400, "unsupported_stream_mode")
    stream = client.get(f"/runs/{run}/events", headers={"Accept": "text/event-stream"})
    expect_that("it is no stream", "text/event-stream" in stream.headers["content-type"])
    expect_that("the end is missing", b"event: run.completed" in stream.text)
    rest = client.get(
        f"/runs/{run}/events", headers={"Accept": "text/event-stream", "Last-Event-ID": "9999"}
    )
    expect("the status past the end", rest.status, 200)


def interrupt_approval(client: Client) -> None:
    run = client.start("approval")
    node = client.until(run, "waiting-approval")["currentNodeId"]
    url = f"/runs/{run}/interrupts/{node}"
    client.refused(client.post(url, {"resumeValue": {"action": "perhaps"}}), 400)
    answer = client.post(url, {"resumeValue": {"action": "accept"}})
    expect("the status", answer.status, 200)
    expect("the node", answer.json["nodeId"], node)
    client.until(run, "completed")
    client.refused(client.post(url, {"resumeValue": {"action": "accept"}}), 409)


def interrupt_rejection(client: Client) -> None:
    run = client.start("approval")
    node = client.until(run, "waiting-approval")["currentNodeId"]
    client.post(f"/runs/{run}/interrupts/{node}", {"resumeValue": {"action": "reject"}})
    expect("the code", client.until(run, "failed")["error"]["code"], "approval_rejected")


def interrupt_clarification(client: Client) -> None:
    run = client.start("clarification")
    node = client.until(run, "waiting-input")["currentNodeId"]
    value = {"answers": {"q1": "blue"}}
    client.post(f"/runs/{run}/interrupts/{node}", {"resumeValue": value})
    client.until(run, "completed")


def interrupt_token(client: Client) -> None:
    run = client.start("approval")
    token = client.until(run, "waiting-approval")["interrupt"].get("interruptToken")
    if token is None:
        raise Skipped("the host gives no tokens")
    seen = client.get(f"/interrupts/{token}", key="")
    expect_that("kind, key and data", {"kind", "key", "data"} <= seen.json.keys())
    body = {"resumeValue": {"action": "accept"}}
    expect("the status", client.post(f"/interrupts/{token}", body, key="").status, 200)
    client.until(run, "completed")
    client.refused(client.post(f"/interrupts/{token}", body, key=""), 409)


def replay_fork(client: Client) -> None:
    run = client.start("agent-reasoning")
    client.until(run, "completed")
    fork = client.post(f"/runs/{run}:fork", {"mode": "replay", "fromSeq": 0})
    expect("the status", fork.status, 201)
    copy = segment(fork.json["runId"])
    client.until(copy, "completed")
    expect("the replay", _plain(client.events(copy)), _plain(client.events(run)))
    past = client.post(f"/runs/{run}:fork", {"mode": "replay", "fromSeq": 99999})
    client.refused(past, 422)


def _plain(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["type"], each.get("nodeId"), each["payload"]) for each in events[1:]]


def webhook_negative(client: Client) -> None:
    if "webhooks" not in client.discovery:
        raise Skipped("the host has no webhooks")
    # An operator may allow a private address for tests; this one is never allowed.
    body = {"url": "https://169.254.169.254/hook", "events": ["run.completed"]}
    client.refused(client.post("/webhooks", body), 400, "webhook_url_rejected")
    client.refused(client.post("/webhooks", {"events": ["run.completed"]}), 400, "validation_error")


def callback_refused(client: Client) -> None:
    body = {"workflowId": client.need("noop"), "callbackUrl": "http://169.254.169.254/latest"}
    client.refused(client.post("/runs", body), 400)


def agent_reasoning_events(client: Client) -> None:
    run = client.start("agent-reasoning")
    client.until(run, "completed")
    kinds = [each["type"] for each in client.events(run)]
    expect("the events", [f"agent.{each}" for each in FIVE], [k for k in kinds if "agent." in k])
    called, returned = client.events(run, "agent.toolCalled", "agent.toolReturned")
    expect("the cause", returned["causationId"], called["eventId"])


def agent_reasoning_streaming(client: Client) -> None:
    run = client.start("agent-reasoning-streaming")
    client.until(run, "completed")
    deltas = client.events(run, "agent.reasoning.delta")
    (closing,) = client.events(run, "agent.reasoned")
    text = "".join(each["payload"]["delta"] for each in deltas)
    expect("the reasoning", closing["payload"]["reasoning"], text)


def agent_confidence_escalation(client: Client) -> None:
    run = client.start("agent-low-confidence")
    client.until(run, "waiting-approval")
    (suspended,) = client.events(run, "node.suspended")
    expect("the reason", suspended["payload"]["reason"], "low-confidence")


def agent_message_reducer(client: Client) -> None:
    run = client.start("message-reducer")
    channels = client.until(run, "completed")["channels"]
    names = [each["messageId"] for channel in channels.values() for each in channel]
    expect("the messages", len(names), len(set(names)))


def orchestrator_dispatch(client: Client) -> None:
    run = client.start("orchestrator-dispatch")
    client.until(run, "completed")
    (child,) = client.events(run, "node.dispatched")
    expect_that("a child is missing", child["payload"]["childRunId"])


def version_negotiation(client: Client) -> None:
    nine = {"OpenWOP-Version": "9"}
    answer = client.ask("GET", "/.well-known/openwop", headers=nine, key="")
    client.refused(answer, 406, "protocol_version_unsupported")


SCENARIOS = (
    discovery,
    auth,
    runs_lifecycle,
    event_ordering,
    failure_path,
    identity_passthrough,
    cap_breach,
    idempotency,
    cancellation,
    bulk_cancel,
    pause_resume,
    stream_modes,
    interrupt_approval,
    interrupt_rejection,
    interrupt_clarification,
    interrupt_token,
    replay_fork,
    webhook_negative,
    callback_refused,
    agent_reasoning_events,
    agent_reasoning_streaming,
    agent_confidence_escalation,
    agent_message_reducer,
    orchestrator_dispatch,
    version_negotiation,
)
