"""Who asks: what the operator's token may do, and how a request is recognised when it comes again."""

import signal
import sys

import pytest

from support.hosting import TOKEN, Host, Process, flow, put
from tracklog.hosts.openwop.settings import Key, ToolProgram, digest

CALL = {"id": "call", "typeId": "core.tool.call", "config": {"toolId": "local:sign"}}
SIGN = ToolProgram(id="local:sign", command=(sys.executable, "-c", "print(1)"), scopes=("sign",))
LONG = "a-key-that-is-long-enough-for-both"


def key(token: str, *scopes: str, **more) -> Key:
    return Key(digest=digest(token), scopes=frozenset(scopes), **more)


def replayed(response) -> bool:
    return response.headers.get("openwop-idempotent-replay") == "true"


def test_the_operator_holds_the_scopes_of_tools_also_where_there_are_keys(tmp_path):
    parent = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "calls"}}
    flows = put(tmp_path / "flows", flow("calls", [CALL]), flow("parent", [parent]))
    keys = (
        key("plain", "write"),  # its principal is the operator's, and its scopes are its own
        key("signer", "write", "sign", principal="sam"),
    )
    settings = {"workflows": flows, "tools": {SIGN.id: SIGN}, "keys": keys}
    with Host(tmp_path / "home", **settings) as host:
        for token, status in ((TOKEN, "completed"), ("plain", "failed"), ("signer", "completed")):
            client = host.client(token)
            run = client.start("calls")
            client.until(run, status)
            client.until(client.start("parent"), status)
            branch = client.fork(run, mode="branch", fromSeq=0).json()["runId"]
            client.until(branch, status)
        begun = host.http.post("/api/hosts/openwop/runs", json={"program": "calls"}).json()["run"]
        host.until(begun, "completed")
        # A fork has the rights of the one who makes it.
        mine = host.client("signer").fork(run, mode="branch", fromSeq=0).json()["runId"]
        host.until(mine, "completed")
        other = host.client("plain").fork(begun, mode="branch", fromSeq=0).json()["runId"]
        snapshot = host.until(other, "failed")
        assert snapshot["error"]["code"] == "forbidden"


def test_a_key_of_a_retry_is_never_empty(tmp_path):
    with Host(tmp_path) as host:
        for path, code in (("/runs", "idempotency_key_invalid"), ("/v1/runs", "validation_error")):
            body = {"workflowId": "conformance-noop"}
            response = host.http.post(path, json=body, headers={"Idempotency-Key": ""})
            assert (response.status_code, response.json()["error"]) == (400, code)
            assert response.json()["details"] == {"field": "Idempotency-Key"}
        assert host.http.get("/runs").json()["runs"] == []


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_refusal_is_repeated_as_one_unless_the_request_itself_was_wrong(tmp_path, prefix):
    same = {"Idempotency-Key": LONG}
    with Host(tmp_path) as host:
        hook = {"url": "https://127.0.0.1/x", "events": ["run.failed"]}
        first, again = (host.http.post(f"{prefix}/webhooks", json=hook, headers=same) for _ in "ab")
        assert first.json() == again.json()
        assert (again.status_code, again.json()["error"]) == (400, "webhook_url_rejected")
        assert [replayed(first), replayed(again)] == [False, True]
        for _ in "ab":  # a wrong request is looked at again, and may be corrected
            wrong = host.http.post(f"{prefix}/runs", json={"workflowId": 5}, headers=same)
            assert (wrong.status_code, replayed(wrong)) == (400, False)
        good = {"workflowId": "conformance-noop"}
        made = host.http.post(f"{prefix}/runs", json=good, headers=same)
        assert (made.status_code, replayed(made)) == (201, False)
        assert replayed(host.http.post(f"{prefix}/runs", json=good, headers=same))


def test_a_webhook_that_came_with_another_body_does_not_hide_the_first(tmp_path):
    same = {"Idempotency-Key": LONG}
    with Host(tmp_path, webhook_hosts=("127.0.0.1",)) as host:
        body = {"url": "http://127.0.0.1:9/x", "events": ["run.completed"]}
        first = host.http.post("/v1/webhooks", json=body, headers=same)
        other = host.http.post("/v1/webhooks", json={**body, "tags": ["x"]}, headers=same)
        assert other.status_code == 409
        again = host.http.post("/v1/webhooks", json=body, headers=same)
        assert (again.status_code, again.json()) == (201, first.json())


def test_a_run_has_several_spellings_and_its_requests_are_the_same(tmp_path):
    same = {"Idempotency-Key": LONG}
    with Host(tmp_path) as host:
        run = host.start("conformance-cancellable")
        host.until(run, "running")
        names = (run, f"default~2F{run}", f"default%2F{run}")
        answers = [host.http.post(f"/runs/{name}/cancel", json={}, headers=same) for name in names]
        assert [each.status_code for each in answers] == [200] * 3
        assert [replayed(each) for each in answers] == [False, True, True]
        assert len({each.text for each in answers}) == 1
        # Version 1 has its own routes, so the same key is another one there.
        assert not replayed(host.http.post(f"/v1/runs/{run}/cancel", json={}, headers=same))


def test_a_key_of_a_retry_is_of_one_principal_and_one_tenant(tmp_path):
    keys = tuple(key(name, "write", principal="ann", tenant=name) for name in ("acme", "other"))
    same = {"Idempotency-Key": LONG}
    with Host(tmp_path, keys=keys) as host:
        runs = [
            host.client(token).http.post(
                "/v1/runs", json={"workflowId": "conformance-noop"}, headers=same
            )
            for token in ("acme", "other", TOKEN)
        ]
        assert [replayed(each) for each in runs] == [False] * 3
        assert len({each.json()["runId"] for each in runs}) == 3


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_what_belongs_to_no_run_is_answered_so_after_a_kill(tmp_path, prefix):
    """Ends of several runs, of a subscription, and refusals: each is remembered on disk."""
    same = {"Idempotency-Key": LONG}
    hook = {"url": "http://127.0.0.1:9/x", "events": ["run.completed"]}

    def ask(client) -> list:
        cancel = client.http.post(
            f"{prefix}/runs:bulk-cancel", json={"runIds": [run]}, headers=same
        )
        fork = {"mode": "branch", "fromSeq": 99}
        return [
            cancel,
            client.http.delete(f"{prefix}/webhooks/{name}", headers=same),
            client.http.post(f"{prefix}/runs/{done}:fork", json=fork, headers=same),
            client.http.post(f"{prefix}/runs/{done}:pause", json={}, headers=same),
        ]

    config = tmp_path / "host.yaml"
    config.write_text("webhook_hosts: [127.0.0.1]\n")
    with Process(tmp_path / "home", "--config", str(config)) as host:
        run, done = host.start("conformance-cancellable"), host.start("conformance-noop")
        host.until(run, "running")
        host.until(done, "completed")
        made = host.http.post(f"{prefix}/webhooks", json=hook).json()
        name = made["webhookId"].rpartition("/")[2]
        first = ask(host)
        assert [each.status_code for each in first] == [200, 204, 422, 409]
        host.end(signal.SIGKILL)
    with Process(tmp_path / "home", "--config", str(config)) as host:
        again = ask(host)
        assert [(each.status_code, each.content) for each in again] == [
            (each.status_code, each.content) for each in first
        ]
        assert [replayed(each) for each in again] == [True] * 4
        other = host.http.post(f"{prefix}/runs:bulk-cancel", json={"runIds": ["x"]}, headers=same)
        assert (other.status_code, other.json()["error"]) == (409, "idempotency_key_mismatch")


def test_a_request_that_may_come_later_is_not_remembered(tmp_path):
    both = {"Idempotency-Key": LONG, "X-Dedup": "enforce"}
    with Host(tmp_path) as host:
        active = host.start("conformance-approval", scopeId="one")
        host.until(active, "waiting-approval")
        body = {"workflowId": "conformance-noop", "scopeId": "one"}
        refused = host.http.post("/v1/runs", json=body, headers=both)
        assert (refused.status_code, refused.headers["retry-after"]) == (409, "5")
        host.answer(active, "gate", {"action": "accept"})
        host.until(active, "completed")
        made = host.http.post("/v1/runs", json=body, headers=both)
        assert (made.status_code, replayed(made)) == (201, False)
        host.until(made.json()["runId"], "completed")


def test_keys_of_retries_are_forgotten_after_a_day(tmp_path):
    same, folder = {"Idempotency-Key": LONG}, tmp_path / "home"
    with Host(folder) as host:
        now = host.engine.clock
        ask = lambda: host.http.post("/runs:bulk-cancel", json={"runIds": ["x"]}, headers=same)  # noqa: E731
        assert [replayed(ask()), replayed(ask())] == [False, True]
        files = host.engine.journal.folder() / "requests"
        assert len([*files.iterdir()]) == 1
        host.engine.clock = lambda: now() + 86_401
        assert not replayed(ask())
        host.engine.clock = lambda: now() + 3 * 86_401
        host.engine.requests.tidy()
        assert [*files.iterdir()] == []
