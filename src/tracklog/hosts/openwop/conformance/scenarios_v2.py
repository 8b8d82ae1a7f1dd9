"""The scenarios of version 2: those of version 1 that hold there too, and its own."""

import re

from tracklog.hosts.openwop.conformance import scenarios_v1 as v1
from tracklog.hosts.openwop.conformance.client import (
    Client,
    Skipped,
    expect,
    expect_that,
    segment,
)

OLD = {"capabilities", "supportedTransports", "supportedEnvelopes", "profiles"}
SNAPSHOT = frozenset(
    """runId workflowId status compensationStatus owner currentNodeId startedAt completedAt agent
    runOrchestrator nodeStates variables channels error engineVersion eventLogSchemaVersion tags
    metadata configurable metrics parentRunId parentNodeId inputs interrupt
    extensions""".split()  # noqa: SIM905  # a list of words
)
"""The members of a snapshot of a run."""
RUN = re.compile(r"[^/]+/[A-Za-z0-9._-]{16,128}")


def discovery_closed(client: Client) -> None:
    answer = client.ask("GET", "/.well-known/openwop", key="")
    document = answer.json
    expect("OpenWOP-Version", answer.headers.get("openwop-version"), "2.0")
    expect_that("it has keys of version 1", not OLD & document.keys())
    for name, record in document.items():
        if isinstance(record, dict) and "status" in record:
            expect_that(f"{name} lacks since or witness", {"since", "witness"} <= record.keys())
    same = {"If-None-Match": answer.headers["etag"]}
    again = client.ask("GET", "/.well-known/openwop", headers=same, key="")
    expect("the status of what is unchanged", again.status, 304)


def preferred_version(client: Client) -> None:
    versions, preferred = client.discovery["protocolVersions"], client.discovery["preferredVersion"]
    expect_that("it is not listed", preferred in versions)
    if "1.0" in versions:
        expect("the preferred version", preferred, "1.0")


def version_header(client: Client) -> None:
    run = client.start("noop")
    expect("OpenWOP-Version", client.get(f"/runs/{run}").headers["openwop-version"], "2.0")
    wrong = client.ask("GET", f"/runs/{run}", headers={"OpenWOP-Version": "9"})
    client.refused(wrong, 406, "protocol_version_unsupported")


def bound_ids(client: Client) -> None:
    run = client.start("noop")
    name = client.until(run, "completed")["runId"]
    expect_that(f"{name} has no tenant", RUN.fullmatch(name))
    expect("the runs of its events", {each["runId"] for each in client.events(run)}, {name})
    foreign = client.get("/runs/nobody-at-all~2Frun-of-somebody-else")
    client.refused(foreign, 403, "id_tenant_mismatch")


def owner(client: Client) -> None:
    run = client.start("noop")
    found = client.until(run, "completed")["owner"]
    subject = {"issuer", "subjectId", "tenant", "lane", "kind"}
    expect_that("the subject is not complete", subject <= found["subject"].keys())


def poll_cursor(client: Client) -> None:
    run = client.start("noop")
    client.until(run, "completed")
    page = client.get(f"/runs/{run}/events/poll?afterSequence=0").json
    names = {"runId", "events", "lastSequence", "status", "isTerminal"}
    expect("the keys", set(page), names)
    expect("the first number", page["events"][0]["sequence"], 1)
    expect("lastSequence", page["lastSequence"], page["events"][-1]["sequence"])


def event_names(client: Client) -> None:
    run = client.start("agent-reasoning")
    client.until(run, "completed")
    kinds = {each["type"] for each in client.events(run)}
    expect_that("a name has capitals", all(kind == kind.lower() for kind in kinds))
    expect_that("a tool call is missing", {"agent.tool-called", "agent.tool-returned"} <= kinds)
    allowed = {"eventId", "runId", "type", "payload", "timestamp", "sequence", "schemaVersion"}
    allowed |= {"nodeId", "engineVersion", "causationId"}
    for event in client.events(run):
        expect_that(f"{event['type']} has {sorted(event)}", event.keys() <= allowed)


def era(client: Client) -> None:
    run = client.start("noop")
    expect("of the host", client.discovery["eventLogSchemaVersion"], 3)
    expect("of a run", client.until(run, "completed")["eventLogSchemaVersion"], 3)


def cancel_of_what_has_ended(client: Client) -> None:
    run = client.start("noop")
    client.until(run, "completed")
    client.refused(client.post(f"/runs/{run}/cancel", {}), 409, "run_terminal")


def closed_bodies(client: Client) -> None:
    name = client.need("noop")
    for more in ({"surprise": 1}, {"tags": ["x"] * 101}, {"configurable": {"version": 1, "a": {}}}):
        client.refused(client.post("/runs", {"workflowId": name, **more}), 400, "validation_error")


def idempotency_key_grammar(client: Client) -> None:
    short = {"Idempotency-Key": "short"}
    answer = client.post("/runs", {"workflowId": client.need("noop")}, headers=short)
    client.refused(answer, 400, "idempotency_key_invalid")


def token_scheme(client: Client) -> None:
    client.refused(
        client.get("/interrupts/ow2.hs256.x.y.z", key=""), 401, "interrupt_token_invalid"
    )


def effect_seams(client: Client) -> None:
    if "replay" not in client.discovery:
        raise Skipped("the host has no replay")
    manifest = client.get("/host/effect-seams").json
    expect("manifestVersion", manifest["manifestVersion"], "1")
    expect_that("a seam is not guarded", all(each["guarded"] for each in manifest["seams"]))


def run_list(client: Client) -> None:
    if "runList" not in client.discovery:
        raise Skipped("the host has no list of runs")
    run = client.start("noop")
    name = client.until(run, "completed")["runId"]
    page = client.get("/runs?limit=100").json
    expect_that("the run is not listed", name in [each["runId"] for each in page["runs"]])
    client.refused(client.get("/runs?cursor=made-up"), 400, "validation_error")


def snapshot_closed(client: Client) -> None:
    run = client.start("approval")
    waiting = client.until(run, "waiting-approval")
    expect_that(f"it has {sorted(waiting)}", waiting.keys() <= SNAPSHOT)
    url = f"/runs/{run}/interrupts/{waiting['currentNodeId']}"
    client.post(url, {"resumeValue": {"action": "reject"}})
    error = client.until(run, "failed")["error"]
    expect_that(f"its error has {sorted(error)}", error.keys() <= {"code", "message", "details"})


def fork(client: Client) -> None:
    if "replay" not in client.discovery:
        raise Skipped("the host has no replay")
    run = client.start("noop")
    parent = client.until(run, "completed")
    overlay = {"mode": "replay", "runOptionsOverlay": {"tags": ["x"]}}
    client.refused(client.post(f"/runs/{run}:fork", overlay), 400)
    past = client.post(f"/runs/{run}:fork", {"mode": "branch", "fromSeq": 999_999})
    client.refused(past, 422, "fork_point_invalid")
    answer = client.post(f"/runs/{run}:fork", {"mode": "replay"})
    expect("the status", answer.status, 201)
    expect("the source", answer.json["sourceRunId"], parent["runId"])
    child = client.until(segment(answer.json["runId"]), "completed")
    expect("the owner", child["owner"], parent["owner"])


def last_event_id(client: Client) -> None:
    run = client.start("noop")
    client.until(run, "completed")
    stream = {"Accept": "text/event-stream"}
    past = client.get(f"/runs/{run}/events", headers={**stream, "Last-Event-ID": "9999"})
    expect("the status past the end", past.status, 200)
    expect_that("there are events past the end", b"data:" not in past.text)
    wrong = client.get(f"/runs/{run}/events", headers={**stream, "Last-Event-ID": "abc"})
    client.refused(wrong, 400, "validation_error")


def malformed_id(client: Client) -> None:
    client.refused(client.get("/runs/somebody~2"), 400, "validation_error")


def malformed_body(client: Client) -> None:
    answer = client.ask("POST", "/runs", ["no object"])
    client.refused(answer, 400, "validation_error")
    expect("OpenWOP-Version", answer.headers.get("openwop-version"), "2.0")


SCENARIOS = (
    discovery_closed,
    preferred_version,
    version_header,
    bound_ids,
    owner,
    poll_cursor,
    event_names,
    era,
    cancel_of_what_has_ended,
    closed_bodies,
    idempotency_key_grammar,
    token_scheme,
    effect_seams,
    run_list,
    snapshot_closed,
    fork,
    last_event_id,
    malformed_id,
    malformed_body,
    v1.auth,
    v1.runs_lifecycle,
    v1.event_ordering,
    v1.failure_path,
    v1.idempotency,
    v1.cancellation,
    v1.bulk_cancel,
    v1.pause_resume,
    v1.stream_modes,
    v1.interrupt_approval,
    v1.interrupt_rejection,
    v1.interrupt_clarification,
    v1.interrupt_token,
    v1.webhook_negative,
    v1.callback_refused,
)
