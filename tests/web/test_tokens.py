"""Tokens with a role, TLS, and a proxy that names the user: who may do what, and what is on record."""

import ssl
import subprocess
from itertools import product

import httpx
import orjson
import pytest

from support.collecting import Collector, start, tool
from support.forking import tracklog
from tracklog.collector.routes import ROUTES
from tracklog.home.home import Home
from tracklog.model.fact import Noted
from tracklog.web.guard import Guard, Proxy, login_cookie
from tracklog.web.tokens import FILE, ROLES, Tokens
from tracklog.web.trouble import Trouble

MASTER = "the-token-of-the-environment"


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
    served = Collector(home, TRACKLOG_TOKEN=MASTER)
    head = {"Authorization": f"Bearer {MASTER}"}
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


def test_every_route_that_is_not_free_needs_a_right(server, tokens):
    free = {route.path for route in ROUTES if route.free}
    assert free == {"/healthz", "/", "/login"}
    writing = {(route.method, route.path) for route in ROUTES if "write" in route.rights}
    assert writing == {
        ("POST", "/api/events/{dialect}"),
        ("POST", "/api/events"),
        ("POST", "/api/hooks/{agent}"),
        ("POST", "/v1/traces"),
        ("POST", "/v1/logs"),
        ("POST", "/v1/metrics"),
        ("GET", "/api/inbox/{question}/answer"),
    }
    for route in ROUTES:
        if not route.free and route.method == "GET" and "write" not in route.rights:
            path = route.path.replace("{family}", "kahn").replace("{run}", "team-a-1")
            answer = server.get(path, headers=bearer(tokens["write"]))
            assert answer.status_code == 403, path


def test_a_token_that_is_bound_to_runs_sees_no_other(server, tokens):
    write, read = bearer(tokens["bound-write"]), bearer(tokens["bound-read"])
    assert server.post([tool("team-a-2")], headers=write).status_code == 200
    before = server.get("/api/events", headers=bearer(MASTER)).json()["last"]
    both = server.post([tool("team-a-2"), tool("team-b-2")], headers=write)
    assert (both.status_code, "team-b-2" in both.text) == (403, True)
    assert server.get("/api/events", headers=bearer(MASTER)).json()["last"] == before
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
    assert server.get("/api/runs", headers=bearer(text)).status_code == 401
    assert tracklog(home, "token", "revoke", "missing").returncode == 2
    clock = [1_700_000_000.0]
    tokens = Tokens(home / "other.json", lambda: clock[0])
    _, word = tokens.create("a", "read", seconds=60)
    guard = Guard(tokens=tokens)
    headers = {b"authorization": f"Bearer {word}".encode()}
    cookie = {b"cookie": f"tracklog={login_cookie(word)}".encode()}
    assert guard.check_token(headers).name == guard.check_token(cookie).name == "a"
    clock[0] += 61
    for each in (headers, cookie, {}):
        with pytest.raises(Trouble) as raised:
            guard.check_token(each)
        assert raised.value.status == 401


def test_changes_of_tokens_are_on_record_with_who_made_them(home, tokens):
    with Home(home, readonly=True) as opened:
        records = opened.journal.records(run=("tracklog", "tokens"))
        notes = [fact for record in records for fact in opened.facts_in(record)]
    assert all(isinstance(note, Noted) and note.label == "token" for note in notes)
    data = [note.data for note in notes]
    assert {row["by"] for row in data if row["change"] == "created"} == {"ada"}
    assert {row["role"] for row in data} == set(ROLES)
    assert not any(word in str(data) for word in tokens.values())


def test_a_browser_logs_in_with_a_token_that_may_read(server, tokens):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused = server.http.post("/login", content=f"token={tokens['write']}", headers=form)
    assert refused.status_code == 401
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
    ):
        with pytest.raises(Trouble) as raised:
            guard.check_token(given, ("operate",), peer)
        assert raised.value.status == status
    with pytest.raises(Trouble) as raised:
        guard.check_token(headers, ("admin",), "10.0.0.1")
    assert raised.value.status == 403
    with pytest.raises(Trouble) as raised:
        guard.check_single([(b"x-forwarded-user", b"ada"), (b"x-forwarded-user", b"eve")])
    assert raised.value.status == 400


def test_tls_and_a_proxy_on_a_collector(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    files = ["-nodes", "-days", "2", "-keyout", key, "-out", certificate]
    subprocess.run([*make, *files, *subject], check=True, capture_output=True)
    options = ("--tls-cert", str(certificate), "--tls-key", str(key), "--trust-proxy", "127.0.0.1")
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
