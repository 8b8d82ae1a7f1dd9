"""Who asks: what the operator's token may do, and how a request is recognised when it comes again."""

import signal
import sys
import threading

import httpx
import pytest

from support.hosting import TOKEN, Client, Host, Process, flow, put
from support.waiting import eventually
from tracklog import TracklogError
from tracklog.hosts.openwop.settings import Key, ToolProgram, digest, read_settings

GATE = {"id": "g", "typeId": "core.approvalGate"}
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
    places = {"acme": ("ann", "acme"), "other": ("ann", "other"), "bob": ("bob", "acme")}
    keys = tuple(
        key(token, "write", principal=principal, tenant=tenant)
        for token, (principal, tenant) in places.items()
    )
    same = {"Idempotency-Key": LONG}
    with Host(tmp_path, keys=keys) as host:
        runs = [
            host.client(token).http.post(
                "/v1/runs", json={"workflowId": "conformance-noop"}, headers=same
            )
            for token in (*places, TOKEN)
        ]
        assert [each.status_code for each in runs] == [201] * 4
        assert [replayed(each) for each in runs] == [False] * 4
        assert len({each.json()["runId"] for each in runs}) == 4


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


# Keys come and go while the host runs.


def listed(*entries: str) -> str:
    return "".join(f"- {{{each}}}\n" for each in ("keys:", *entries)).replace("- {keys:}", "keys:")


ANN = "token: KEY_ANN, principal: ann, scopes: [write]"
BOB = "token: KEY_BOB, principal: bob, scopes: [write]"
WORDS = {"KEY_ANN": "word-of-ann", "KEY_BOB": "word-of-bob"}


def replace_file(path, text: str) -> None:
    """As an operator does: written beside it, and put in its place."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


@pytest.mark.parametrize("verb", ["host openwop", "serve"])
def test_a_key_that_is_removed_is_refused_with_the_next_request(tmp_path, verb):
    config = tmp_path / "host.yaml"
    config.write_text(listed(ANN, BOB))
    where = ("--with", f"openwop={config}") if verb == "serve" else ("--config", str(config))
    with Process(tmp_path / "home", *where, verb=verb, **WORDS) as host:
        ann, bob = Client(host.url, "word-of-ann"), Client(host.url, "word-of-bob")
        newer = host.http.get("/.well-known/openwop", headers={"OpenWOP-Version": "2"}).json()
        assert newer["auth"]["lanes"][0]["revocation"] == "next-request"
        run = ann.start("conformance-approval")
        waiting = ann.until(run, "waiting-approval")
        link = f"/v1/interrupts/{waiting['interrupt']['interruptToken']}"
        assert host.http.get(link).status_code == 200
        ends: dict[str, object] = {}

        def follow(name: str, client: Client) -> None:
            asked = {"Accept": "text/event-stream"}
            with client.http.stream("GET", f"/v1/runs/{run}/events", headers=asked) as stream:
                ends[name] = "open"
                ends[name] = stream.read().decode()

        def poll() -> None:
            with Client(host.url, "word-of-ann") as client:
                page = client.http.get(f"/runs/{run}/events/poll?afterSequence=99&timeout=60")
                ends["poll"] = page

        threads = [
            threading.Thread(target=follow, args=("ann", ann)),
            threading.Thread(target=follow, args=("bob", bob)),
            threading.Thread(target=poll),
        ]
        for thread in threads:
            thread.start()
        assert eventually(lambda: [ends.get("ann"), ends.get("bob")] == ["open"] * 2)
        replace_file(config, listed(BOB))
        with Client(host.url, "word-of-ann") as again:
            refused = again.http.get(f"/v1/runs/{run}")
        assert (refused.status_code, refused.json()["error"]) == (401, "unauthenticated")
        assert refused.headers["www-authenticate"] == "Bearer"
        threads[0].join(60)  # the stream of the key ends, though the run goes on
        assert "run.completed" not in str(ends["ann"])
        assert ends["bob"] == "open"
        threads[2].join(45)  # its poll ends, too, long before its time
        assert "poll" in ends
        gone = host.http.get(link)
        assert (gone.status_code, gone.json()["error"]) == (404, "interrupt_not_found")
        assert bob.answer(run, "gate", {"action": "accept"}).status_code == 200
        threads[1].join(60)
        assert "event: run.completed" in str(ends["bob"])
        page = ends["poll"]
        assert isinstance(page, httpx.Response)
        assert (page.status_code, page.json()["error"]) == (401, "unauthenticated")
        ann.http.close()
        bob.http.close()


def test_keys_that_are_added_or_changed_count_with_the_next_request(tmp_path):
    config = tmp_path / "host.yaml"
    config.write_text(listed(BOB))
    words = {**WORDS, "KEY_TEST": "hk_test_word"}
    with Process(tmp_path / "home", "--config", str(config), **words) as host:

        def asked(word: str, path: str = "/v1/workflows/conformance-noop") -> int:
            with Client(host.url, word) as client:
                return client.http.get(path).status_code

        assert [asked("word-of-ann"), asked("word-of-bob")] == [401, 200]
        assert "testing" not in host.http.get("/.well-known/openwop").json()
        tests = "token: KEY_TEST, principal: t, scopes: [write], test: true"
        replace_file(config, listed("token: KEY_BOB, scopes: [runs:read]", ANN, tests))
        assert [asked("word-of-ann"), asked("word-of-bob")] == [200, 403]
        for version in ("1", "2"):
            about = {"OpenWOP-Version": version}
            assert "testing" in host.http.get("/.well-known/openwop", headers=about).json()
        # An entry that cannot be used allows nothing, and the others hold.
        wrong = ("token: KEY_NOWHERE", "token: KEY_BOB, scopes: write", "token: KEY_BOB, x: 1")
        again = "token: KEY_ANN, principal: zoe, scopes: ['*']"
        replace_file(config, listed(*wrong, ANN, again))
        assert [asked("word-of-ann"), asked("word-of-bob")] == [200, 401]
        assert asked(TOKEN) == 200
        assert "testing" not in host.http.get("/.well-known/openwop").json()
    faults = [line for line in host.said if "is not accepted" in line]
    assert len(faults) == 4
    assert "one token for two keys" in faults[-1]


def test_one_token_is_not_two_keys(tmp_path):
    config = tmp_path / "host.yaml"
    config.write_text(listed(ANN, "token: KEY_ANN, principal: zoe, scopes: [runs:read]"))
    with pytest.raises(TracklogError, match="one token for two keys, of 'ann' and 'zoe'"):
        read_settings(config, WORDS)


@pytest.mark.parametrize("text", ["keys: [", "", "keys: {}", None])
def test_no_key_is_accepted_while_the_keys_cannot_be_read(tmp_path, text):
    config = tmp_path / "host.yaml"
    config.write_text(listed(ANN))
    with (
        Process(tmp_path / "home", "--config", str(config), **WORDS) as host,
        Client(host.url, "word-of-ann") as ann,
    ):
        run = ann.start("conformance-noop")
        if text is None:
            config.unlink()
        else:
            replace_file(config, text)
        for prefix, code in (("/v1", "unavailable"), ("", "service_unavailable")):
            later = ann.http.get(f"{prefix}/runs/{run}")
            assert (later.status_code, later.json()["error"]) == (503, code)
            assert later.headers["retry-after"] == "5"
        with httpx.Client(base_url=host.url, trust_env=False) as nobody:
            assert nobody.get(f"/v1/runs/{run}").status_code == 401
        assert host.snapshot(run)  # the operator is not locked out
        replace_file(config, listed(ANN))
        ann.until(run, "completed")
        replace_file(config, "tenant: default\n")  # no keys: nobody but the operator
        assert ann.http.get(f"/v1/runs/{run}").status_code == 401


def test_revocation_is_announced_only_where_a_key_can_be_removed(tmp_path):
    with Process(tmp_path / "home") as host:
        newer = host.http.get("/.well-known/openwop", headers={"OpenWOP-Version": "2"}).json()
        assert "auth" not in newer  # the token of the operator is good as long as the host runs


def test_a_run_has_the_scopes_of_the_key_that_began_it_and_those_that_are_left(tmp_path):
    flows = put(
        tmp_path / "flows", flow("calls", [CALL]), flow("asks", [GATE, CALL], [("g", "call")])
    )
    program = f"{{id: 'local:sign', command: [{sys.executable}, -c, 'print(1)'], scopes: [sign]}}"
    head = f"tools: [{program}]\n"
    weak = "token: KEY_ANN, principal: ann, scopes: [write]"
    strong = "token: KEY_BOB, principal: ann, scopes: [write, sign]"
    other = "token: KEY_ZOE, principal: ann, scopes: [write], tenant: two"
    config = tmp_path / "host.yaml"
    config.write_text(head + listed(strong, weak, other))
    arguments = ("--config", str(config), "--workflows", str(flows[0]))
    with Process(tmp_path / "home", *arguments, **WORDS, KEY_ZOE="word-of-zoe") as host:
        for word, status in (
            ("word-of-ann", "failed"),  # another key of the same principal holds the scope
            ("word-of-bob", "completed"),
            ("word-of-zoe", "failed"),  # a principal of another tenant is somebody else
        ):
            with Client(host.url, word) as client:
                client.until(client.start("calls"), status)
                if word == "word-of-bob":
                    run = client.start("asks")
                    client.until(run, "waiting-approval")
        replace_file(config, head + listed(weak, other))
        host.answer(run, "g", {"action": "accept"})
        assert host.until(run, "failed")["error"]["code"] == "forbidden"
