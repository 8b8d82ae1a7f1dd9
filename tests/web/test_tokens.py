"""Tokens with a role, TLS, and a proxy that names the user: who may do what, and what is recorded."""

import contextlib
import os
import pwd
import re
import ssl
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import product
from uuid import uuid4

import httpx
import orjson
import pytest

from support.collecting import Collector, made_certificate, start, tool
from support.forking import tracklog
from tracklog.collector.routes import ROUTES
from tracklog.home.home import Home
from tracklog.model.fact import Noted
from tracklog.web.guard import LOCAL, MASTER, Guard, Proxy, name_of
from tracklog.web.tokens import FILE, ROLES, Identity, Tokens, cookie_of
from tracklog.web.trouble import Trouble

WORD = "the-token-of-the-environment"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


def made(home, name, role, *options):
    done = tracklog(home, "token", "create", name, "--role", role, "--by", "ada", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


@pytest.fixture(scope="module")
def tokens(home):
    words = {role: made(home, f"the-{role}", role) for role in ROLES}
    words["bound-write"] = made(home, "bound-write", "write", "--run-prefix", "team-a-")
    words["bound-read"] = made(home, "bound-read", "read", "--run-prefix", "team-a-")
    return words


@pytest.fixture(scope="module")
def server(home, tokens):
    served = Collector(home, TRACKLOG_TOKEN=WORD)
    head = bearer(WORD)
    sent = served.post([start("team-a-1"), start("team-b-1")], headers=head)
    assert sent.status_code == 200
    yield served
    served.stop()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


CALLS = {
    "read": ("GET", "/api/runs", {}),
    "write": ("POST", "/api/events/kahn-agent", {"content": tool("team-a-1") + b"\n"}),
    "operate": ("POST", "/api/marks", {"json": {"run": "kahn:team-a-1", "seen": True}}),
}


@pytest.mark.parametrize(("role", "right"), list(product(ROLES, CALLS)))
def test_a_role_may_do_what_it_is_for_and_nothing_else(server, tokens, role, right):
    method, path, options = CALLS[right]
    kind = {} if "json" in options else {"Content-Type": "application/x-ndjson"}
    headers = bearer(tokens[role]) | (kind if method == "POST" else {})
    answer = server.http.request(method, path, headers=headers, **options)
    assert answer.status_code == (200 if right in ROLES[role] else 403), answer.text


OPEN = {("GET", "/healthz"), ("GET", "/"), ("POST", "/login")}
WRITING = {
    ("POST", "/api/events/{dialect}"),
    ("POST", "/api/events"),
    ("POST", "/api/hooks/{agent}"),
    ("POST", "/v1/traces"),
    ("POST", "/v1/logs"),
    ("POST", "/v1/metrics"),
}
WAITING = ("GET", "/api/inbox/{question}/answer")
ADMINISTRATING = {
    ("POST", "/api/import"),
    ("POST", "/api/settings/tokens"),
    ("GET", "/api/settings/tokens"),
    ("POST", "/api/settings/tokens/{token}/revoke"),
    ("POST", "/api/settings/prices"),
    ("POST", "/api/settings/checkpoints"),
}
READING_BODY = ("POST", "/api/convert/{dialect}")


def may(role, route):
    """Who may use a route, as the documentation says, and not as the route does."""
    name = (route.method, route.path)
    if role == "admin" or name in OPEN:
        return True
    if name in WRITING or (name == WAITING and role == "write"):
        return role == "write"
    if role == "write" or name in ADMINISTRATING:
        return False
    reads = route.method == "GET" or name == READING_BODY
    return reads or role == "operate"


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_use_the_routes_that_it_is_for_and_no_other(server, tokens, role):
    routes = {(route.method, route.path) for route in ROUTES}
    assert {*OPEN, *WRITING, WAITING, *ADMINISTRATING, READING_BODY} <= routes
    wrong = []
    for route in ROUTES:
        if route.waits and route.path != WAITING[1]:
            continue  # the streams have a test of their own
        path = route.path.replace("{family}", "kahn").replace("{run}", "team-a-1")
        kind = {"Content-Type": min(route.takes, default=b"").decode()} if route.takes else {}
        # an odd body, so that nothing is changed: whether somebody may ask is decided before
        content = b"[" if route.takes else None
        answer = server.http.request(
            route.method, path, headers=bearer(tokens[role]) | kind, content=content
        )
        refused = answer.status_code == 403 and "may not do this" in answer.text
        if refused is may(role, route) or (answer.status_code == 401 and not route.free):
            wrong.append((route.method, route.path, answer.status_code))
    assert wrong == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
def test_without_a_token_nothing_is_served(server, method):
    for route in ROUTES:
        if not route.free:
            answer = server.http.request(method, route.path)
            assert answer.status_code in (401, 405), route.path


def test_a_token_that_is_bound_to_runs_sees_no_other(server, tokens):
    write, read = bearer(tokens["bound-write"]), bearer(tokens["bound-read"])
    assert server.post([tool("team-a-2")], headers=write).status_code == 200
    before = server.get("/api/events", headers=bearer(WORD)).json()["last"]
    both = server.post([tool("team-a-2"), tool("team-b-2")], headers=write)
    assert (both.status_code, "team-b-2" in both.text) == (403, True)
    assert server.get("/api/events", headers=bearer(WORD)).json()["last"] == before
    assert server.get("/api/events?run=team-a-1", headers=read).status_code == 200
    shown = "/api/show/kahn/{}" if any(r.path.startswith("/api/show") for r in ROUTES) else ""
    paths = ["/api/runs/kahn/{}/proof", "/api/events?run=kahn:{}", *([shown] if shown else [])]
    for path in paths:
        assert server.get(path.format("team-a-1"), headers=read).status_code == 200, path
        assert server.get(path.format("team-b-1"), headers=read).status_code == 403, path
    for path in ("/api/runs", "/api/events", "/api/search?q=a", "/metrics", "/api/stream"):
        assert server.get(path, headers=read).status_code in (403, 400), path
    traces = {**write, "Content-Type": "application/json"}
    assert server.http.post("/v1/traces", json={}, headers=traces).status_code == 403


def test_a_token_ends_when_it_is_revoked_or_expires(server, home):
    text = made(home, "short", "read", "--expires", "1h")
    assert server.get("/api/runs", headers=bearer(text)).status_code == 200
    rows = [
        orjson.loads(line) for line in tracklog(home, "token", "list", "--json").stdout.splitlines()
    ]
    (row,) = [row for row in rows if row["name"] == "short"]
    assert row["state"] == "active"
    assert text not in (home / FILE).read_text()
    assert (home / FILE).stat().st_mode & 0o777 == 0o600
    assert tracklog(home, "token", "revoke", row["id"]).returncode == 0
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    told = server.http.post("/login", content=f"token={text}", headers=form).text
    assert re.search(r"This token was revoked on \d{4}-\d\d-\d\d\.", told)
    assert server.get("/api/runs", headers=bearer(text)).status_code == 401
    assert tracklog(home, "token", "revoke", "missing").returncode == 2
    clock = [1_700_000_000.0]
    tokens = Tokens(home / "other.json", lambda: clock[0])
    _, word = tokens.create("a", "read", seconds=60)
    guard = Guard(tokens=tokens)
    headers = {b"authorization": f"Bearer {word}".encode()}
    cookie = {b"cookie": f"tracklog={cookie_of(word)}".encode()}
    assert guard.check_token(headers).name == guard.check_token(cookie).name == "a"
    clock[0] += 61
    for each in (headers, cookie, {}):
        with pytest.raises(Trouble) as raised:
            guard.check_token(each)
        assert raised.value.status == 401


def test_who_reads_the_file_of_the_tokens_cannot_use_them(server, home, tokens):
    for row in orjson.loads((home / FILE).read_bytes()):
        for text in (row["hash"], cookie_of(row["hash"]), row["id"]):
            for headers in (bearer(text), {"Cookie": f"tracklog={text}"}):
                assert server.get("/api/runs", headers=headers).status_code == 401
    digest = sha256(tokens["read"].encode()).digest()  # what was stored before
    cookie = sha256(b"tracklog cookie " + digest).hexdigest()
    assert server.get("/api/runs", headers={"Cookie": f"tracklog={cookie}"}).status_code == 401


def test_a_stream_ends_when_its_token_is_revoked(server, home):
    text = made(home, "watcher", "read")
    paths = ("/api/stream", "/api/stream?run=team-a-1", "/api/export/agui/kahn/team-a-1/live")
    with contextlib.ExitStack() as stack:
        streams = [
            stack.enter_context(
                server.http.stream("GET", path, headers=bearer(text), timeout=30)
            ).iter_raw()
            for path in paths
        ]
        for stream in streams:
            assert b"retry" in next(stream)
        revoke(home, "watcher")
        sent = server.post([tool("team-a-1", 77)], headers=bearer(WORD))
        assert sent.status_code == 200
        left = [b"".join(stream) for stream in streams]  # they end
    number = b'"seq":%d,' % sent.json()["last_seq"]
    assert not any(number in each or b"event: TOOL" in each for each in left)


def test_who_waits_for_an_answer_with_a_revoked_token_does_not_get_it(server, home):
    text = made(home, "waiting", "write")
    path = "/api/inbox/never-asked/answer?wait=50"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.http.get, path, headers=bearer(text), timeout=60)
        with pytest.raises(TimeoutError):
            asked.result(0.5)
        revoke(home, "waiting")
        assert asked.result(30).status_code == 401


def revoke(home, name):
    rows = [
        orjson.loads(line) for line in tracklog(home, "token", "list", "--json").stdout.splitlines()
    ]
    (id,) = [row["id"] for row in rows if row["name"] == name]
    assert tracklog(home, "token", "revoke", id).returncode == 0


def native(fact, run="own", **fields):
    origin = {"writer": "me", "fidelity": "observed"}
    body = {"id": uuid4().hex, "run": run, "fact": fact, "origin": origin, **fields}
    return orjson.dumps(body)


ACTS = {
    "an answer": native("Answered", question_id="q", answer=1, by="ada"),
    "a mark": native("Marked", seen=True, by="ada"),
    "a stop": native("Noted", family="awf", label="stop-requested", data={"by": "ada"}),
    "a token": native("Noted", "tokens", label="token", data={"by": "ada"}),
    "a price": native("Noted", "settings", label="price", data={"by": "ada"}),
    "a silence": native("Noted", "alerts", label="silence", data={"by": "ada"}),
}


@pytest.mark.parametrize("act", ACTS)
def test_who_may_only_write_cannot_write_down_an_act_of_an_operator(server, tokens, act):
    report = native("Answered", question_id="q", answer=1)  # an agent says what it was told
    for token in ("write", "bound-write"):
        sent = server.post([report, ACTS[act]], "tracklog", headers=bearer(tokens[token]))
        assert (sent.status_code, "nothing was stored" in sent.text) == (403, True)
        assert token != "write" or sent.json()["code"] == "reserved"
    good = server.post([report], "tracklog", headers=bearer(tokens["write"]))
    assert good.json()["accepted"] == 1


def test_an_agent_that_waits_gets_no_answer_that_another_program_reports(server, tokens):
    head, ops = bearer(tokens["write"]), bearer(tokens["operate"])
    session = str(uuid4())
    asked = [
        native("Asked", name, question_id=f"q-{name}", text="Delete it?", call_id=f"c-{name}")
        for name in ("a", "b", session)
    ]
    assert server.post(asked, "tracklog", headers=head).status_code == 200
    forged = native("Answered", "a", question_id="q-a", answer="yes")
    assert server.post([forged], "tracklog", headers=head).status_code == 200
    waiting = server.get("/api/inbox/q-a/answer?run=a&wait=5", headers=head)
    assert (waiting.status_code, "no operator" in waiting.text) == (410, True)
    assert "yes" not in waiting.text
    hooks = {"writer": "hooks", "fidelity": "reported"}
    asked = native(
        "Asked", session, question_id=f"q-{session}", call_id=f"c-{session}", origin=hooks
    )
    assert server.post([asked], "tracklog", headers=head).status_code == 200
    done = {"session_id": session, "hook_event_name": "PostToolUse"}
    done |= {
        "tool_use_id": f"c-{session}",
        "tool_name": "Bash",
        "tool_input": {},
        "tool_response": {},
    }
    assert server.http.post("/api/hooks/claude", json=done, headers=head).status_code == 200
    (line,) = [
        each["event"]
        for each in server.get(f"/api/events?run=tracklog:{session}", headers=ops).json()["events"]
        if each["event"]["fact"] == "Answered"
    ]
    assert line["by"] == "terminal"
    assert (
        server.get(f"/api/inbox/q-{session}/answer?run={session}", headers=head).status_code == 410
    )
    answer = server.http.post("/api/inbox/q-b/answer?run=b", json={"answer": "no"}, headers=ops)
    assert answer.status_code == 200
    given = server.get("/api/inbox/q-b/answer?run=b", headers=head).json()
    assert (given["answer"], given["by"]) == ("no", "the-operate")
    late = native("Answered", "b", question_id="q-b", answer="yes")  # the first answer counts
    server.post([late], "tracklog", headers=head)
    assert server.get("/api/inbox/q-b/answer?run=b", headers=head).json()["answer"] == "no"


def test_an_act_is_recorded_under_the_name_of_its_token():
    token, person = Identity("ops", ROLES["operate"]), Identity("bob", is_person=True)
    assert [name_of(token, typed) for typed in (None, "ops", "ada")] == ["ops", "ops", "ada (ops)"]
    assert [name_of(person, typed) for typed in (None, "ada")] == ["bob", "bob"]
    assert [name_of(each, "ada") for each in (LOCAL, MASTER)] == ["ada", "ada"]
    named = Identity("local")  # a token may have any name
    assert (named == LOCAL, name_of(named, "ada")) == (True, "ada (local)")


def test_changes_of_tokens_are_on_record_with_who_made_them(home, tokens):
    with Home(home, readonly=True) as opened:
        records = opened.journal.records(run=("tracklog", "tokens"))
        notes = [fact for record in records for fact in opened.facts_in(record)]
    assert all(isinstance(note, Noted) and note.label == "token" for note in notes)
    data = [note.data for note in notes]
    me = pwd.getpwuid(os.getuid()).pw_name
    assert {row["by"] for row in data if row.get("change") == "created"} == {f"ada ({me})"}
    assert {row["role"] for row in data if "role" in row} == set(ROLES)
    assert not any(word in str(data) for word in tokens.values())


def test_a_browser_logs_in_with_a_token_that_may_read(server, tokens):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused = server.http.post("/login", content=f"token={tokens['write']}", headers=form)
    assert refused.status_code == 401
    assert "may send events, but not read" in refused.text
    entered = server.http.post("/login", content=f"token={tokens['read']}", headers=form)
    assert entered.status_code == 303
    cookie = entered.cookies["tracklog"]
    server.http.cookies.clear()
    assert tokens["read"] not in cookie
    head = {"Cookie": f"tracklog={cookie}"}
    assert server.get("/api/runs", headers=head).status_code == 200
    assert server.http.post("/api/marks", json={}, headers=head).status_code == 403


def test_a_header_with_the_user_counts_only_from_the_proxy():
    guard = Guard(proxy=Proxy(frozenset({"10.0.0.1"})))
    headers = {b"x-forwarded-user": b"ada"}
    who = guard.check_token(headers, ("operate",), "10.0.0.1")
    assert (who.name, who.is_person) == ("ada", True)
    for given, peer, status in (
        (headers, "10.0.0.2", 401),
        (headers, "", 401),
        ({}, "10.0.0.1", 401),
        ({b"x-forwarded-user": b"a\x00"}, "10.0.0.1", 401),
        (headers, "10.0.0.1.example", 401),
    ):
        with pytest.raises(Trouble) as raised:
            guard.check_token(given, ("operate",), peer)
        assert raised.value.status == status
    assert guard.check_token(headers, ("operate",), "::ffff:10.0.0.1").name == "ada"
    with pytest.raises(Trouble) as raised:
        guard.check_token(headers, ("admin",), "10.0.0.1")
    assert raised.value.status == 403
    with pytest.raises(Trouble) as raised:
        guard.check_single([(b"x-forwarded-user", b"ada"), (b"x-forwarded-user", b"eve")])
    assert raised.value.status == 400


def test_tls_and_a_proxy_on_a_collector(tmp_path):
    certificate, key = made_certificate(tmp_path)
    options = ("--tls-cert", certificate, "--tls-key", key, "--trust-proxy", "127.0.0.1")
    served = Collector(tmp_path / "home", *options)
    try:
        assert served.url.startswith("https://")
        context = ssl.create_default_context(cafile=certificate)
        with httpx.Client(base_url=served.url, verify=context, timeout=60, trust_env=False) as http:
            assert http.get("/healthz").status_code == 200
            assert http.get("/api/runs").status_code == 401
            user = {"X-Forwarded-User": "ada"}
            assert http.get("/api/runs", headers=user).status_code == 200
            lines = {**user, "Content-Type": "application/x-ndjson"}
            sent = http.post("/api/events/kahn-agent", content=start("r"), headers=lines)
            assert sent.status_code == 403
        with pytest.raises(httpx.HTTPError):
            httpx.get(served.url.replace("https", "http") + "/healthz", timeout=60)
    finally:
        served.stop()
    wrong = tracklog(tmp_path / "home", "serve", "--tls-key", key)
    assert (wrong.returncode, b"--tls-key needs --tls-cert" in wrong.stderr) == (2, True)
