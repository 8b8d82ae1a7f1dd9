"""Exact answers of the OpenWOP host: every member, header and code that the protocol states."""

import asyncio
import contextlib
import hmac
import json
import re
import socket
import threading
import time
from datetime import datetime
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import orjson
import pytest
from test_host_openwop_floor import HOOKS, Receiver, error_of, gate, key, serve

from support.hosting import Host, Process, flow, mock, put, signed
from support.waiting import eventually
from tracklog import __version__
from tracklog.hosts.openwop import webhooks
from tracklog.hosts.openwop.routes import SEGMENTS, routes_of
from tracklog.hosts.openwop.tokens import QuestionToken

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z")
NOOP = {"workflowId": "conformance-noop"}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    keys = (
        key("tests", "*", test=True),
        key("acme", "*", tenant="acme"),
        key("reader", "runs:read"),
    )
    with Host(tmp_path_factory.mktemp("home"), keys=keys) as made:
        yield made


@pytest.fixture
def anybody(host):
    with httpx.Client(base_url=host.url, trust_env=False) as made:
        yield made


# Who asks, and in which version.


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_without_a_key_or_with_a_wrong_one_the_answer_is_401_in_the_envelope(anybody, prefix):
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = anybody.post(f"{prefix}/runs", json=NOOP, headers=headers)
        message = {"error": "unauthenticated", "message": "a valid bearer key is needed"}
        assert (answer.status_code, answer.json()) == (401, message)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["openwop-version"] == ("1.0" if prefix else "2.0")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_each_route_with_a_scope_needs_a_key_and_does_nothing_without_one(host, anybody, version):
    run = host.start("conformance-approval")
    host.until(run, "waiting-approval")
    before = host.events(run)
    needing = [route for route in routes_of(host.engine.wires[version]) if route.scopes]
    assert len(needing) > 10
    for route in needing:
        path = route.path.replace("{run}", run).replace("{node}", "gate")
        path = re.sub(r"{\w+}", "x", path)
        body = {"resumeValue": {"action": "accept"}} if route.name == "resolve" else {}
        given = {"json": body} if route.method == "POST" else {}
        answer = anybody.request(route.method, path, **given)
        assert (*error_of(answer), answer.headers["www-authenticate"]) == (
            401, "unauthenticated", "Bearer",
        ), route  # fmt: skip
        assert answer.headers["openwop-version"] == version
    assert host.snapshot(run)["status"] == "waiting-approval"
    assert host.events(run) == before


def test_a_version_that_is_not_served_is_refused_on_every_path(host, anybody):
    paths = ("/.well-known/openwop", "/v1/openapi.json", "/openapi.json")
    for path in paths:
        newer = anybody.get(path, headers={"OpenWOP-Version": "3.0"})
        assert error_of(newer) == (406, "protocol_version_unsupported")
        assert newer.json()["details"] == {"protocolVersions": ["1.0", "2.0"]}
        odd = anybody.get(path, headers={"OpenWOP-Version": "two"})
        assert (*error_of(odd), odd.json()["details"]) == (
            400, "validation_error", {"field": "OpenWOP-Version"},
        )  # fmt: skip
        old = anybody.get(path, headers={"OpenWOP-Client-Version": "0.9.1"})
        assert error_of(old) == (426, "client_version_unsupported")
        malformed = anybody.get(path, headers={"OpenWOP-Client-Version": "0.9.x"})
        assert malformed.status_code == 200
    for path, other in (("/v1/openapi.json", "2.0"), ("/openapi.json", "1.0")):
        mixed = anybody.get(path, headers={"OpenWOP-Version": other})
        assert error_of(mixed) == (400, "protocol_version_mismatch")
    for word in ("2", "2.0", "2.46"):
        fine = anybody.get("/openapi.json", headers={"OpenWOP-Version": word})
        assert (fine.status_code, fine.headers["openwop-version"]) == (200, "2.0")
        assert fine.json()["openapi"].startswith("3.1")


@pytest.mark.parametrize("root", sorted(SEGMENTS))
def test_a_path_of_version_2_that_is_not_served_is_not_found_in_its_envelope(host, root):
    answer = host.http.get(f"/{root}/a/b/c/d")
    assert error_of(answer) == (404, "not_found")
    assert answer.headers["openwop-version"] == "2.0"


@pytest.mark.parametrize(("prefix", "version"), [("/v1", "1.0"), ("", "2.0")])
def test_every_answer_says_its_version(tmp_path, prefix, version):
    with Host(tmp_path, **HOOKS) as host:
        run = host.start("conformance-noop")
        host.until(run, "completed")
        url, ask = f"{prefix}/runs/{run}", host.http
        hook = {"url": "http://127.0.0.1:9/x", "events": ["run.failed"]}
        made = ask.post(f"{prefix}/webhooks", json=hook)
        name = made.json()["webhookId"].replace("/", "~2F")
        tag = ask.get(url).headers["etag"]
        slow = host.start("conformance-delay", inputs={"delayMs": 30_000})
        answers = {
            200: ask.get(url), 201: ask.post(f"{prefix}/runs", json=NOOP),
            202: ask.post(f"{prefix}/runs/{slow}:pause", json={"drainPolicy": "immediate"}),
            204: ask.delete(f"{prefix}/webhooks/{name}"),
            304: ask.get(url, headers={"If-None-Match": tag}),
            400: ask.post(f"{prefix}/runs", content=b"{"),
            404: ask.get(f"{prefix}/runs/run-nobody"),
            406: ask.get(url, headers={"OpenWOP-Version": "3"}),
            409: ask.post(f"{url}:pause", json={}),
            422: ask.post(f"{url}:fork", json={"mode": "replay", "fromSeq": 999}),
        }  # fmt: skip
        stream = ask.get(f"{url}/events", headers={"Accept": "text/event-stream"})
        assert [each.status_code for each in answers.values()] == [*answers]
        found = {each.headers["openwop-version"] for each in (*answers.values(), stream)}
        assert found == {version}
        bodies = {each.headers.get("content-type") for each in answers.values() if each.content}
        assert bodies == {"application/json"}
        assert [n for n, each in answers.items() if not each.content] == [204, 304]
        assert stream.headers["content-type"].startswith("text/event-stream")
        ask.post(f"/v1/runs/{slow}/cancel", json={})


def test_there_is_no_path_of_version_2_with_a_prefix(host, anybody):
    for method, path in (("GET", "/v2/runs"), ("POST", "/v2/runs"), ("GET", "/v2/openapi.json")):
        answer = anybody.request(method, path, headers=host.http.headers)
        assert answer.status_code == 404
        assert "openwop-version" not in answer.headers


@pytest.mark.parametrize(
    ("path", "name"),
    [("/v1/runs", "X-Force-Engine-Version"), ("/runs", "OpenWOP-Force-Engine-Version")],
)
def test_the_version_of_the_engine_is_chosen_by_test_keys_alone(host, path, name):
    refused = host.http.post(path, json=NOOP, headers={name: "1"})
    assert error_of(refused) == (403, "force_engine_version_forbidden")
    tests = host.client("tests").http
    assert tests.post(path, json=NOOP, headers={name: "1"}).status_code == 201
    other = tests.post(path, json=NOOP, headers={name: "2"})
    code = "unsupported_force_engine_version" if "v1" in path else "validation_error"
    assert error_of(other) == (400, code)
    assert other.json()["details"]["field"] == name


def test_what_tests_may_ask_for_is_announced_with_the_prefix_of_their_keys(host, anybody):
    for version in ("1", "2"):
        found = anybody.get("/.well-known/openwop", headers={"OpenWOP-Version": version}).json()
        assert found["testing"] == {
            "mockProviders": ["stream-text"], "testKeyPrefix": "hk_test_",
            "forceEngineVersionRange": {"min": 1, "max": 1},
        }  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/runs", "/runs"])
def test_another_body_under_the_same_key_is_a_conflict_that_names_no_run(host, path):
    same = {"Idempotency-Key": f"a-key-for-the-wire-{len(path)}-long"}
    first = host.http.post(path, json=NOOP, headers=same)
    assert "openwop-idempotent-replay" not in first.headers
    again = host.http.post(path, json=NOOP, headers=same)
    assert (again.status_code, again.content) == (201, first.content)
    for spelling in ("openwop-Idempotent-Replay", "OpenWOP-Idempotent-Replay"):
        assert again.headers[spelling] == "true"
    other = host.http.post(path, json={**NOOP, "tags": ["x"]}, headers=same)
    assert other.status_code == 409
    assert other.json().keys() == {"error", "message"}
    assert other.json()["error"] == "idempotency_key_mismatch"
    assert first.json()["runId"] not in other.text


@pytest.mark.parametrize("major", [1, 2])
def test_the_answer_to_a_new_run(host, major):
    prefix = "/v1" if major == 1 else ""
    answer = host.http.post(f"{prefix}/runs", json=NOOP)
    made = answer.json()
    assert answer.status_code == 201
    name = made["runId"]
    assert re.fullmatch(r"run-[0-9a-f-]{36}" if major == 1 else r"default/run-[0-9a-f-]{36}", name)
    spelt = f"{prefix}/runs/{name.replace('/', '~2F')}"
    assert (made["statusUrl"], made["eventsUrl"]) == (spelt, f"{spelt}/events")
    assert (made["status"], made["workflowId"]) == ("running", "conformance-noop")
    assert made.keys() == {
        "runId", "status", "workflowId", "startedAt", "statusUrl", "eventsUrl"
    }  # fmt: skip
    assert ISO.fullmatch(made["startedAt"])
    assert answer.headers["cache-control"] == "no-store"


# Several runs at once.


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_each_row_of_a_bulk_cancel(host, prefix):
    def name(run: str) -> str:
        return run if prefix else f"default/{run}"

    runs = [host.start("conformance-cancellable") for _ in range(2)]
    done = host.start("conformance-noop")
    host.until(done, "completed")
    theirs = host.client("acme").start("conformance-cancellable")
    asked = [runs[0], "run-nobody", done, theirs, runs[1]]
    answer = host.http.post(f"{prefix}/runs:bulk-cancel", json={"runIds": asked})
    assert (answer.status_code, answer.json().keys()) == (200, {"results"})

    def refused(run: str, code: str, message: str) -> dict:
        return {"runId": run, "ok": False,
                "error": {"error": code, "code": code, "message": message}}  # fmt: skip

    unknown = "there is no such run"
    assert answer.json()["results"] == [
        {"runId": name(runs[0]), "ok": True, "status": "cancelling"},
        refused("run-nobody", "not_found", unknown),
        refused(name(done), "run_terminal", "the run is completed"),
        refused(theirs, "not_found", unknown),
        {"runId": name(runs[1]), "ok": True, "status": "cancelling"},
    ]
    for run in runs:
        host.until(run, "cancelled")
    again = host.http.post(f"{prefix}/runs:bulk-cancel", json={"runIds": runs[:1]}).json()
    assert again == {"results": [{"runId": name(runs[0]), "ok": True, "status": "cancelled"}]}
    assert host.client("acme").snapshot(theirs)["status"] == "running"
    host.client("acme").http.post(f"/v1/runs/{theirs}/cancel", json={})
    for body, details in (
        ({}, {"field": "runIds"}), ({"runIds": []}, {"field": "runIds"}),
        ({"runIds": [1]}, {"field": "runIds"}),
        ({"runIds": ["x"] * 101}, {"field": "runIds", "maxRunIds": 100}),
    ):  # fmt: skip
        wrong = host.http.post(f"{prefix}/runs:bulk-cancel", json=body)
        assert (*error_of(wrong), wrong.json()["details"]) == (400, "validation_error", details)
    assert host.http.post(f"{prefix}/runs:bulk-cancel", json={"runIds": ["x"] * 100}).is_success


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_run_that_ends_before_its_bulk_cancel_is_not_called_cancelled(
    tmp_path, prefix, monkeypatch
):
    with Host(tmp_path) as host:
        run = host.start("conformance-delay", inputs={"delayMs": 300})
        control = host.engine.control
        cancel = control.cancel

        async def late(name: str, *rest: object) -> object:
            while not host.engine.known(name).ended:  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0.01)
            return await cancel(name, *rest)

        monkeypatch.setattr(control, "cancel", late)
        answer = host.http.post(f"{prefix}/runs:bulk-cancel", json={"runIds": [run]})
        (row,) = answer.json()["results"]
        assert (row["ok"], row["error"]["code"]) == (False, "run_terminal")
        assert row["error"]["message"] == "the run is completed"


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_the_answers_to_pause_and_resume(host, prefix):
    run = host.start("conformance-delay", inputs={"delayMs": 20_000})
    eventually(lambda: host.events(run, "node.started"))
    name = run if prefix else f"default/{run}"
    paused = host.http.post(f"{prefix}/runs/{run}:pause", json={"drainPolicy": "immediate"})
    assert paused.status_code == 202
    host.until(run, "paused")
    at = paused.json()["pausedAt"]
    assert paused.json() == {"runId": name, "status": "paused", "pausedAt": at}
    (event,) = host.events(run, "run.paused")
    assert (event["timestamp"], event["payload"]) == (at, {"drainPolicy": "immediate"})
    again = host.http.post(f"{prefix}/runs/{run}:pause", json={})
    assert error_of(again) == (409, "run_state_conflict")
    assert again.json()["details"] == {"runStatus": "paused", "pausedAt": at}
    resumed = host.http.post(f"{prefix}/runs/{run}:resume", json={})
    since = resumed.json()["resumedAt"]
    assert resumed.status_code == 202
    assert resumed.json() == {"runId": name, "status": "running", "resumedAt": since}
    assert ISO.fullmatch(since)
    twice = host.http.post(f"{prefix}/runs/{run}:resume", json={})
    assert error_of(twice) == (409, "run_state_conflict")
    assert twice.json()["details"] == {"runStatus": "running"}
    host.http.post(f"/v1/runs/{run}/cancel", json={})
    host.until(run, "cancelled")
    for verb in ("pause", "resume"):
        late = host.http.post(f"{prefix}/runs/{run}:{verb}", json={})
        assert error_of(late) == (409, "run_terminal")
        assert late.json()["details"] == {"runStatus": "cancelled"}


@pytest.mark.parametrize(("path", "header"), [("/v1/runs", "X-Dedup"), ("/runs", "OpenWOP-Dedup")])
def test_a_scope_with_an_active_run_is_a_conflict_for_now(host, path, header):
    body = {"workflowId": "conformance-approval", "scopeId": f"scope-{len(path)}"}
    first = host.http.post(path, json=body, headers={header: "enforce"}).json()["runId"]
    second = host.http.post(path, json=body, headers={header: "enforce"})
    assert error_of(second) == (409, "run_already_active")
    assert second.headers["retry-after"] == "5"
    place = {"tenantId": "default", "scopeId": body["scopeId"]}
    assert second.json()["details"] == {"activeRunId": first, **place}
    other = host.http.post(path, json=body, headers={header: "maybe"})
    assert (*error_of(other), other.json()["details"]) == (
        400, "validation_error", {"field": header},
    )  # fmt: skip


# Questions.


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_who_is_no_approver_is_forbidden_and_an_approver_is_not(tmp_path, prefix):
    keys = (key("ann", "*"), key("bob", "*"))
    with serve(tmp_path, flow("listed", [gate(approversList=["bob"])]), keys=keys) as host:
        run = host.start("listed")
        host.until(run, "waiting-approval")
        url, vote = f"{prefix}/runs/{run}/interrupts/gate", {"resumeValue": {"action": "accept"}}
        for client in (host, host.client("ann")):
            assert error_of(client.http.post(url, json=vote)) == (403, "forbidden")
            token = client.snapshot(run)["interrupt"]["interruptToken"]
            by_token = client.http.post(f"{prefix}/interrupts/{token}", json=vote)
            assert error_of(by_token) == (403, "forbidden")
        assert host.snapshot(run)["status"] == "waiting-approval"
        assert host.events(run, "approval.received") == []
        done = host.client("bob").http.post(url, json=vote)
        name = run if prefix else f"default/{run}"
        assert done.status_code == 200
        assert done.json() == {"runId": name, "nodeId": "gate", "status": done.json()["status"]}
        host.until(run, "completed")
        (resolved,) = host.events(run, "interrupt.resolved")
        assert resolved["payload"] == {
            "nodeId": "gate", "interruptId": "int:gate:0:0", "kind": "approval",
            "resumeValue": {"action": "accept"}, "resolvedBy": "bob",
            "resolvedAt": resolved["payload"]["resolvedAt"],
        }  # fmt: skip
        assert datetime.fromisoformat(resolved["payload"]["resolvedAt"])


@pytest.mark.parametrize("major", [1, 2])
def test_a_token_by_all_its_states(tmp_path, major):
    prefix = "/v1" if major == 1 else ""
    config = {"timeoutMs": 900_000, "title": "Ship?"}
    with serve(tmp_path, flow("asks", [gate(**config)]), flow("plain", [gate()])) as host:
        run, plain = host.start("asks"), host.start("plain")
        begun = time.time()
        host.until(plain, "waiting-approval")
        host.until(run, "waiting-approval")
        asked = host.http.get(f"{prefix}/runs/{run}").json()["interrupt"]
        token = asked["interruptToken"]
        assert asked["callbackUrl"] == f"{prefix}/interrupts/{token}"
        assert re.fullmatch(r"ow2\.hs256\.host\.[\w-]+\.[\w-]+", token)
        other = host.snapshot(plain)["interrupt"]["interruptToken"]
        good, usual = host.engine.tokens.read(token), host.engine.tokens.read(other)
        assert good.expires <= begun + 901
        assert (
            1790 <= usual.expires - begun <= 1860
        )  # half an hour, unless the question ends before
        body = {"resumeValue": {"action": "accept"}}
        signed = host.engine.tokens.sign
        place = (run, "gate", "int:gate:0:0", "default")
        with httpx.Client(base_url=host.url, trust_env=False) as anybody:
            shown = anybody.get(f"{prefix}/interrupts/{token}")
            assert shown.status_code == 200
            assert shown.json().keys() == {"kind", "key", "data", "resumeSchema", "timeoutMs"}
            assert (shown.json()["kind"], shown.json()["key"]) == ("approval", "gate:0:0")
            assert shown.json()["timeoutMs"] == 900_000
            invalid = (
                (404, "interrupt_not_found") if major == 1 else (401, "interrupt_token_invalid")
            )
            forged = token[:-2] + ("00" if token[-2:] != "00" else "11")
            for wrong in ("x", "ow2.hs256.host.x.y", forged, token.replace(".host.", ".other.")):
                url = f"{prefix}/interrupts/{wrong}"
                for answer in (anybody.get(url), anybody.post(url, json=body)):
                    assert error_of(answer) == invalid
            old = f"{prefix}/interrupts/{signed(QuestionToken(*place, time.time() - 1))}"
            for answer in (anybody.get(old), anybody.post(old, json=body)):
                assert error_of(answer) == (410, "interrupt_expired")
            looks = QuestionToken(*place, time.time() + 60, "inspect")
            only = f"{prefix}/interrupts/{signed(looks)}"
            assert anybody.get(only).status_code == 200
            assert error_of(anybody.post(only, json=body)) == (403, "forbidden")
            done = anybody.post(f"{prefix}/interrupts/{token}", json=body)
            name = run if major == 1 else f"default/{run}"
            assert done.status_code == 200
            assert done.json() == {"runId": name, "nodeId": "gate", "status": done.json()["status"]}
            host.until(run, "completed")
            late = f"{prefix}/interrupts/{token}"
            for answer in (anybody.get(late), anybody.post(late, json=body)):
                assert error_of(answer) == (409, "interrupt_already_resolved")
        written = b"".join(host.engine.log(run).lines)
        assert token.encode() not in written
        assert good.principal == "default"
    for path in (tmp_path / "home").rglob("*"):
        assert path.is_dir() or token.encode() not in path.read_bytes()


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_only_a_snapshot_for_those_who_may_answer_has_a_token(host, prefix):
    run = host.start("conformance-approval")
    host.until(run, "waiting-approval")
    url = f"{prefix}/runs/{run}"
    asked = host.http.get(url).json()["interrupt"]
    reader = host.client("reader").http
    seen = reader.get(url).json()["interrupt"]
    assert seen == {k: v for k, v in asked.items() if k not in ("interruptToken", "callbackUrl")}
    assert seen["nodeId"] == "gate"
    for client, path in (
        (reader, "/runs"),
        (reader, f"{url}/events"), (host.http, f"{url}/events"), (host.http, f"{url}/events/poll"),
    ):  # fmt: skip
        answer = client.get(path)
        assert run in answer.text
        assert "ow2." not in answer.text
    for client in (reader, host.http):
        accept = {"Accept": "text/event-stream"}
        with client.stream("GET", f"{url}/events?streamMode=values", headers=accept) as stream:
            state = next(line for line in stream.iter_lines() if line.startswith("data: "))
        assert json.loads(state.removeprefix("data: "))["status"] == "waiting-approval"
        assert "ow2." not in state
    assert error_of(reader.post(f"{url}/interrupts/gate", json={})) == (403, "forbidden")


def test_a_rejection_follows_the_edge_for_failures(tmp_path):
    nodes = [gate(), {"id": "after", "typeId": "core.noop"}]
    with serve(tmp_path, flow("handled", nodes, [("gate", "after", "any_failed")])) as host:
        run = host.start("handled")
        host.until(run, "waiting-approval")
        host.answer(run, "gate", {"action": "reject"})
        found = host.until(run, "completed")["nodeStates"]
        (failed,) = host.events(run, "node.failed")
        assert failed["payload"]["error"]["code"] == "approval_rejected"
        assert [found[each]["status"] for each in ("gate", "after")] == ["failed", "completed"]


def test_a_loop_that_leads_back_to_a_question_is_refused(tmp_path):
    event = {"kind": "external-event", "eventType": "paid", "correlation": {"id": 1}}
    nodes = [{"id": "wait", "typeId": "core.interrupt", "config": event},
             {"id": "after", "typeId": "core.noop"}]  # fmt: skip
    with serve(tmp_path, flow("loops", nodes, [("wait", "after"), ("after", "wait")])) as host:
        for path in ("/v1/runs", "/runs"):
            refused = host.http.post(path, json={"workflowId": "loops"})
            assert error_of(refused) == (400, "validation_error")
            assert refused.json()["details"] == {"field": "edges"}


def test_a_parent_shows_its_child_and_the_child_its_parent(tmp_path):
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "child"}}
    with serve(tmp_path, flow("child", [gate()]), flow("parent", [sub])) as host:
        run = host.start("parent")
        snapshot = host.until(run, "waiting-approval")
        (row,) = snapshot["childRuns"]
        assert row == {"runId": row["runId"], "status": "waiting-approval"}
        inner = host.snapshot(row["runId"])
        assert (inner["parentRunId"], inner["parentNodeId"]) == (run, "sub")
        host.http.post(f"/v1/runs/{run}/cancel", json={})
        host.until(row["runId"], "cancelled")
        (end,) = host.events(row["runId"], "run.cancelled")
        assert end["payload"] == {
            "reason": "parent-cancelled", "cancelledBy": "default", "parentRunId": run,
        }  # fmt: skip
        late = host.answer(row["runId"], "gate", {"action": "accept"})
        assert error_of(late) == (409, "interrupt_already_resolved")


# Streams.


def test_a_stream_behind_the_end_is_empty_and_states_begin_with_the_present_one(host):
    run = host.start("conformance-noop")
    host.until(run, "completed")
    asked = {"Accept": "text/event-stream", "Last-Event-ID": "99"}
    behind = host.http.get(f"/v1/runs/{run}/events", headers=asked)
    assert (behind.status_code, behind.text) == (200, "")
    (frame,) = host.stream(run, "?streamMode=values", **{"Last-Event-ID": "1"})
    assert frame[1] == "state.snapshot"
    assert frame[2] == host.snapshot(run)
    much = host.http.get(f"/v1/runs/{run}/events?bufferMs=5001")
    assert (*error_of(much), much.json()["details"]) == (
        400, "validation_error", {"field": "bufferMs"},
    )  # fmt: skip


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_mode_that_is_none_is_refused_whatever_is_accepted(host, prefix):
    run = host.start("conformance-noop")
    host.until(run, "completed")
    for accept in ("application/json", "text/event-stream"):
        for mode in ("loud", "values,debug"):
            url = f"{prefix}/runs/{run}/events?streamMode={mode}"
            wrong = host.http.get(url, headers={"Accept": accept})
            assert error_of(wrong) == (400, "unsupported_stream_mode")
            assert wrong.json()["details"]["supported"] == [
                "values",
                "updates",
                "messages",
                "debug",
            ]


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_stream_goes_on_after_the_last_event_that_was_received(host, prefix):
    run = host.start("conformance-multi-node")
    host.until(run, "completed")
    url = f"{prefix}/runs/{run}/events"
    events = host.http.get(url).json()["events"]
    for last in range(len(events)):
        asked = {"Accept": "text/event-stream", "Last-Event-ID": str(last)}
        text = host.http.get(f"{url}?streamMode=debug", headers=asked).text
        frames = re.findall(r"id: (\d+)\nevent: (.*)\ndata: (.*)\n\n", text)
        assert [(int(n), kind, json.loads(data)) for n, kind, data in frames] == [
            (event["sequence"], event["type"], event) for event in events[last + 1 :]
        ]


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_runs_of_two_tenants_are_not_compared(host, prefix):
    mine, theirs = host.start("conformance-noop"), host.client("acme").start("conformance-noop")
    host.until(mine, "completed")
    for first, second in ((mine, theirs), (theirs, mine)):
        answer = host.http.get(f"{prefix}/runs/{first}:diff", params={"against": second})
        assert error_of(answer) == (404, "run_not_found" if prefix else "not_found")


# Webhooks.


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_webhook_is_signed_with_the_given_secret_and_only_for_runs_with_its_tags(
    tmp_path, prefix
):
    with Receiver() as receiver, Host(tmp_path, **HOOKS) as host:
        secret = "a-secret-that-the-client-has"
        body = {"url": receiver.url, "events": ["run.completed"]}
        tags = [{"tags": each} for each in ("mine", [1], [""], ["x" * 257])]  # of no run
        for wrong in ({"secret": "short"}, {"secret": 5}, *tags):
            refused = host.http.post(f"{prefix}/webhooks", json={**body, **wrong})
            assert error_of(refused) == (400, "validation_error")
            assert refused.json()["details"] == {"field": next(iter(wrong))}
        body |= {"secret": secret, "tags": ["mine"]}
        made = host.http.post(f"{prefix}/webhooks", json=body)
        assert (made.status_code, made.json()["secret"]) == (201, secret)
        assert made.json()["secretFingerprint"] == sha256(secret.encode()).hexdigest()[:16]
        for tags in ([], ["yours"]):
            host.until(host.start("conformance-noop", tags=tags), "completed")
        run = host.start("conformance-noop", tags=["other", "mine"])
        assert eventually(lambda: receiver.got)
        ((headers, raw),) = receiver.got
        assert json.loads(raw)["runId"] == (run if prefix else f"default/{run}")
        signed = headers["OpenWOP-Timestamp"].encode() + b"." + raw
        mac = hmac.new(secret.encode(), signed, sha256).hexdigest()
        assert headers["OpenWOP-Signature"] == f"sha256={mac}"


@pytest.mark.parametrize("major", [1, 2])
def test_a_subscription_and_its_deliveries_member_by_member(tmp_path, major):
    prefix = "/v1" if major == 1 else ""
    with Receiver() as receiver, Host(tmp_path, **HOOKS) as host:
        body = {"url": receiver.url, "events": ["run.completed"]}
        made = host.http.post(f"{prefix}/webhooks", json=body)
        hook = made.json()
        assert made.status_code == 201
        assert hook == {
            "webhookId": hook["webhookId"], "subscriptionId": hook["webhookId"], "url": receiver.url,
            "secret": hook["secret"], "secretFingerprint": hook["secretFingerprint"],
            "events": ["run.completed"], "eventTypes": ["run.completed"],
            "createdAt": hook["createdAt"],
        }  # fmt: skip
        assert ISO.fullmatch(hook["createdAt"])
        assert len(hook["secret"]) >= 32
        assert hook["secret"] not in hook["secretFingerprint"]
        before = time.time()
        run = host.start("conformance-noop")
        assert eventually(lambda: receiver.got)
        headers, raw = receiver.got[0]
        sent = json.loads(raw)
        assert sent.keys() == {"runId", "event"}
        path = f"{prefix}/runs/{run}/events"
        assert sent["event"] == host.http.get(path).json()["events"][-1]
        names = ("Webhook-Id", "Event-Type", "Timestamp", "Signature", "Signature-Algorithm")
        for name in names:
            assert headers[f"X-openwop-{name}"] == headers[f"OpenWOP-{name}"]
        assert abs(int(headers["OpenWOP-Timestamp"]) - before) < 600
        assert headers["Content-Type"] == "application/json"
        unknown = host.http.delete(f"{prefix}/webhooks/hook-nobody")
        code = "subscription_not_found" if major == 1 else "not_found"
        assert error_of(unknown) == (404, code)
        name = hook["webhookId"].replace("/", "~2F")
        gone = host.http.delete(f"{prefix}/webhooks/{name}")
        assert (gone.status_code, gone.content) == (204, b"")


def test_a_delivery_follows_no_redirect_and_does_not_wait_for_ever(tmp_path):
    reached: list[str] = []

    class Redirects(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            reached.append(self.path)
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    assert webhooks.PATIENCE == 5.0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Redirects)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Host(tmp_path, **HOOKS, webhook_attempts=2) as host:
            url = f"http://127.0.0.1:{server.server_address[1]}/hook"
            body = {"url": url, "events": ["run.completed"]}
            hook = host.http.post("/v1/webhooks", json=body).json()["webhookId"]
            host.until(host.start("conformance-noop"), "completed")
            letters = f"/webhooks/{hook}/dead-letters"
            assert eventually(lambda: host.http.get(letters).json()["deliveries"])
            (letter,) = host.http.get(letters).json()["deliveries"]
            assert (letter["attempts"], letter["lastStatus"]) == (2, 307)
        assert reached == ["/hook", "/hook"]
    finally:
        server.shutdown()
        server.server_close()


# What is announced.


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n"])
def test_a_receiver_that_never_ends_its_answer_is_given_up(tmp_path, monkeypatch, answer):
    """Neither silence nor one byte now and then makes the time of a delivery longer."""
    monkeypatch.setattr(webhooks, "PATIENCE", 0.5)
    stopped = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []

    def drip() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted.append(listener.accept()[0])
                for each in accepted[-1:]:
                    each.sendall(answer)
                    while answer and not stopped.wait(0.05):
                        each.sendall(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with Host(tmp_path, **HOOKS, webhook_attempts=1) as host:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
            body = {"url": url, "events": ["run.completed"]}
            hook = host.http.post("/v1/webhooks", json=body).json()["webhookId"]
            host.until(host.start("conformance-noop"), "completed")
            letters = f"/webhooks/{hook}/dead-letters"
            assert eventually(lambda: host.http.get(letters).json()["deliveries"])
            (letter,) = host.http.get(letters).json()["deliveries"]
            assert (letter["attempts"], "lastStatus" in letter) == (1, False)
        assert eventually(lambda: len(accepted) == 1)
    finally:
        stopped.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)
        for each in accepted:
            each.close()


def test_a_name_is_looked_up_for_each_delivery_and_the_checked_address_is_used(
    tmp_path, monkeypatch
):
    look_up, asked = socket.getaddrinfo, []
    addresses = {"hooks.example": ["93.184.216.34", "10.0.0.1", "10.0.0.1"],
                 "own.example": ["127.0.0.1", "127.0.0.1", "192.0.2.1"]}  # fmt: skip

    def found(name, *rest, **more):
        if name not in addresses:
            return look_up(name, *rest, **more)
        asked.append(name)
        return look_up(addresses[name].pop(0), *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    settings = {**HOOKS, "webhook_hosts": ("own.example",), "webhook_attempts": 1}
    with Receiver() as receiver, Host(tmp_path, **settings) as host:
        own = receiver.url.replace("127.0.0.1", "own.example")
        names = {}
        for url in ("https://hooks.example/x", own):
            made = host.http.post("/v1/webhooks", json={"url": url, "events": ["run.completed"]})
            assert made.status_code == 201
            names[url] = made.json()["webhookId"]
        host.until(host.start("conformance-noop"), "completed")
        letters = f"/webhooks/{names['https://hooks.example/x']}/dead-letters"
        assert eventually(lambda: host.http.get(letters).json()["deliveries"])
        assert eventually(lambda: receiver.got)
        assert receiver.got[0][0]["Host"] == own.split("/")[2]
    # Once for the subscription and once for the delivery: the connection asks nobody again.
    assert sorted(asked) == ["hooks.example"] * 2 + ["own.example"] * 2


def test_the_complete_document_of_version_2(tmp_path):
    config = tmp_path / "host.yaml"
    config.write_text("max_node_executions: 50\n")
    with Process(tmp_path / "home", "--config", str(config)) as host:
        answer = host.http.get("/.well-known/openwop", headers={"OpenWOP-Version": "2"})
        fixtures = host.http.get("/.well-known/openwop").json()["fixtures"]
        stable = {"status": "stable", "since": "2.0", "witness": "witnessable-gated"}
        assert answer.json() == {
            "protocolVersions": ["1.0", "2.0"], "preferredVersion": "1.0", "protocolVersion": "1.0",
            "engineVersion": 1, "eventLogSchemaVersion": 3, "minClientVersion": "1.0",
            "implementation": {"name": "tracklog", "version": __version__, "vendor": "tracklog"},
            "fixtures": fixtures, "conformance": {"mockAgent": True},
            "agents": {
                "status": "experimental", "since": "2.0", "until": "2027-12-31",
                "witness": "witnessable-gated", "modelClasses": ["reasoning", "classification"],
                "orchestrator": True, "dispatch": True, "dispatchMapping": True,
                "reasoning": {"verbosity": "summary", "tokenLimit": 512, "streaming": True},
            },
            "limits": {**stable, "maxNodeExecutions": 50, "maxRunDurationMs": 30 * 86_400_000,
                       "maxRequestBodyBytes": 1 << 20},
            "replay": {**stable, "modes": ["replay", "branch"],
                       "effectSeamsManifest": "/host/effect-seams"},
            "interrupt": {**stable, "tokenAlgs": ["hs256"], "refKinds": ["principal"]},
            "idempotency": stable, "providerUsage": stable,
            "webhooks": {
                **stable, "signatureAlgorithms": ["v1"],
                "retryPolicy": {"maxAttempts": 5, "backoff": "exponential"},
                "deadLetter": {"retentionDays": 30, "maxPageSize": 100},
            },
            "runList": {**stable, "maxPageSize": 100, "filters": ["workflowId", "status"]},
            "eventLog": {**stable, "witness": "claims-check"},
            "auth": {
                **stable, "witness": "seam-gated",
                "lanes": [{"lane": "api-key", "issuers": ["urn:tracklog:api-key"],
                           "revocation": "next-request", "minimumAssurance": "bearer"}],
            },
        }  # fmt: skip
        assert answer.headers["cache-control"] == "public, max-age=300"
        assert answer.headers["etag"]
        assert "capabilities-etag" not in answer.headers


def test_the_document_of_version_1_says_only_what_holds(host, anybody):
    answer = anybody.get("/.well-known/openwop")
    found = answer.json()
    assert answer.headers["etag"] == answer.headers["capabilities-etag"]
    assert found["limits"] == {
        "clarificationRounds": 3, "schemaRounds": 2, "envelopesPerTurn": 5,
        "maxNodeExecutions": 1000, "maxRunDurationMs": 30 * 86_400_000,
        "maxRequestBodyBytes": 1 << 20,
    }  # fmt: skip
    assert found["supportedEnvelopes"] == ["clarification.request"]
    assert found["capabilities"].keys() == {"agents"}
    assert found["capabilities"]["agents"]["memoryBackends"] == ["conversation"]
    assert "memoryBackends" not in found["agents"]
    assert found["agents"]["modelClasses"] == ["reasoning", "chat", "classification"]
    assert found["runs"] == {"pauseResume": {"supported": True}}
    assert found["subWorkflow"] == {"inputMapping": True}
    assert found["replay"] == {"supported": True, "modes": ["replay", "branch"], "cached": True}
    for version, known in (("1.0", 304), ("2.0", 200)):
        same = {"If-None-Match": answer.headers["etag"], "OpenWOP-Version": version}
        assert anybody.get("/.well-known/openwop", headers=same).status_code == known


def test_the_ways_in_which_runs_have_effects(host):
    guard = "a replay takes the recorded answer"
    found = host.http.get("/host/effect-seams").json()
    assert found == {
        "manifestVersion": "1",
        "host": {"name": "tracklog", "build": found["host"]["build"]},
        "seams": [
            {"seam": "model", "kind": "http", "guarded": True, "guardedBy": guard},
            {"seam": "tool", "kind": "other", "note": "subprocess", "guarded": True,
             "guardedBy": guard},
            {"seam": "webhook", "kind": "webhook-fanout", "guarded": True,
             "guardedBy": "events of a replay are not sent"},
        ],
    }  # fmt: skip


# Where version 2 and RFC 0002 differ.


def test_each_payload_of_agents_in_both_versions(tmp_path):
    error = {"error": "boom", "message": "it broke", "details": {"why": 1}}
    config = {
        "mockReasoning": {"summary": "thinks"},
        "mockToolCalls": [{"toolId": "mcp:a", "arguments": {"x": 1}, "error": error}],
        "mockHandoff": {"toAgentId": "core.next", "reason": "r", "context": {"c": 1}},
        "mockDecision": {"decision": {"d": 1}, "confidence": 0.9, "reasoning": "because"},
    }
    agent = {"agentId": "core.spy", "agentSharing": "shared:g", "modelClass": "writing"}
    flows = put(tmp_path / "flows", flow("conformance-all", [mock("m", config, **agent)]))
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("conformance-all")
        host.until(run, "completed")
        old = {e["type"]: e["payload"] for e in host.events(run)}
        rows = host.http.get(f"/runs/{run}/events").json()["events"]
        new = {e["type"]: e["payload"] for e in rows}
        assert {"agent.toolCalled", "agent.toolReturned"} <= old.keys()
        assert not {"agent.toolCalled", "agent.toolReturned"} & new.keys()
        called = old["agent.toolCalled"]
        assert called["arguments"] == called["inputs"] == {"x": 1}
        about = {"agentId": "core.spy", "toolName": "mcp:a", "callId": "m:0:0"}
        assert new["agent.tool-called"] == {
            **about, "inputs": {"x": 1}, "argsHash": called["argsHash"], "principal": "default",
            "transport": "mcp", "x-toolId": "mcp:a",
        }  # fmt: skip
        failed = old["agent.toolReturned"]["error"]
        assert (failed["error"], failed["code"]) == ("boom", "boom")
        assert new["agent.tool-returned"] == {
            **about, "status": "error", "durationMs": 0, "x-toolId": "mcp:a",
            "error": {"code": "internal_error", "message": "it broke",
                      "details": {"why": 1, "code": "boom"}},
        }  # fmt: skip
        assert new["agent.handoff"] == {
            "fromAgentId": "core.spy", "toAgentId": "core.next", "reason": "r",
            "x-from": old["agent.handoff"]["from"], "x-to": {"agentId": "core.next"},
            "x-context": {"c": 1},
        }  # fmt: skip
        assert new["agent.decided"] == {
            "agentId": "core.next", "decision": {"d": 1}, "confidence": 0.9,
            "x-reasoning": "because",
        }  # fmt: skip
        assert new["agent.reasoned"] == old["agent.reasoned"]
        assert "agent" not in new["node.started"]
        assert new["node.started"]["x-agent"] == agent == old["node.started"]["agent"]
        assert all("host" not in row for row in rows)


def test_an_agent_has_what_each_version_can_say_of_it(tmp_path):
    odd = {"agentId": "core.ann bee"}
    full = {"agentId": "core.spy", "agentSharing": "shared:g", "modelClass": "writing"}
    nodes = [[{"id": "a", "typeId": "core.noop", "agent": each}] for each in (odd, full)]
    flows = put(tmp_path / "flows", flow("odd", nodes[0]), flow("full", nodes[1]))
    with Host(tmp_path / "home", workflows=flows, tolerated="agent-id-form") as host:
        run = host.start("odd")
        assert host.until(run, "completed")["agent"] == odd
        assert "agent" not in host.http.get(f"/runs/{run}").json()
        run = host.start("full")
        assert host.until(run, "completed")["agent"] == full
        assert host.http.get(f"/runs/{run}").json()["agent"] == {"agentId": "core.spy"}


def test_a_type_of_event_without_a_name_fails_the_read_of_version_2_alone(tmp_path):
    with Host(tmp_path, is_checked=False) as host:
        run = host.start("conformance-approval")
        host.until(run, "waiting-approval")
        lines = [each.replace(run.encode(), b"run-with-a-surprise") for each in
                 host.engine.known(run).lines]  # fmt: skip
        event = {
            **orjson.loads(lines[-1]),
            "type": "acme.surprise",
            "eventId": "evt-surprise-00001",
        }
        event |= {"sequence": len(lines), "payload": {}}
        lines = signed(host.home, [*lines, orjson.dumps(event)])
        host.home.intake.admit(lines, "openwop")
        older = host.http.get("/v1/runs/run-with-a-surprise/events")
        assert older.json()["events"][-1]["type"] == "acme.surprise"
        for path in ("events", "events/poll"):
            newer = host.http.get(f"/runs/run-with-a-surprise/{path}")
            assert error_of(newer) == (500, "event_type_unmapped")
            assert newer.headers["openwop-version"] == "2.0"


def test_a_threshold_is_a_number_from_0_to_1_in_version_2_too(host):
    for value, status in ((0.5, 201), (0, 201), (1, 201), (1.5, 400), (-0.1, 400), ("1", 400)):
        options = {"version": 1, "run": {"escalationThreshold": value}}
        answer = host.http.post("/runs", json={**NOOP, "configurable": options})
        assert answer.status_code == status, value
        if status == 400:
            assert answer.json()["details"] == {"field": "configurable.run.escalationThreshold"}


def test_a_mode_that_is_no_mode_of_a_fork_is_wrong_in_both_versions(host):
    run = host.start("conformance-noop")
    host.until(run, "completed")
    for prefix in ("/v1", ""):
        wrong = host.http.post(f"{prefix}/runs/{run}:fork", json={"mode": "sideways"})
        assert (*error_of(wrong), wrong.json()["details"]) == (
            400, "validation_error", {"field": "mode"},
        )  # fmt: skip
