"""Who may ask the collector what, and what the rude get."""

import os
import re
import resource
import socket
import stat
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from support.collecting import ENVIRONMENT, NDJSON, Collector, asks, collector, start, tool
from support.forking import tracklog
from support.waiting import eventually
from tracklog.collector.server import within
from tracklog.home.home import Home
from tracklog.web.limits import Limits

TOKEN = "a-long-random-word-0123456789"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with collector(tmp_path_factory.mktemp("home"), limits={"header": 8192}) as made:
        yield made


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    limits = {"header_seconds": 1, "silent_seconds": 1}
    with collector(tmp_path_factory.mktemp("home"), limits=limits) as made:
        yield made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with collector(tmp_path_factory.mktemp("home"), TRACKLOG_TOKEN=TOKEN) as made:
        yield made


def serve(*arguments, **environment):
    env = {**ENVIRONMENT, **environment}
    return tracklog(None, "serve", *arguments, given="", text=True, env=env)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4318", "localhost.evil.example", "", ":"]
)
def test_a_host_header_that_names_another_machine_is_refused(server, host):
    for path in ("/", "/api/runs", "/api/stream", "/healthz"):
        answer = server.get(path, headers={"Host": host})
        assert answer.status_code == 421
    assert server.post([start("a")], headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "[::1]:4318", "LOCALHOST:1"])
def test_a_host_header_that_names_this_machine_is_taken(server, host):
    assert server.get("/healthz", headers={"Host": host}).status_code == 200


def told(server, head: bytes) -> bytes:
    """The answer to a request that no decent client would send."""
    with server.raw() as rude:
        rude.sendall(head + b"Connection: close\r\n\r\n")
        return heard(rude)


@pytest.mark.parametrize("others", [b"evil.example", b"127.0.0.1"])
def test_two_host_headers_are_refused_whatever_they_name(server, others):
    for first, second in ((b"localhost", others), (others, b"localhost")):
        hosts = b"Host: %b\r\nHost: %b\r\n" % (first, second)
        answer = told(server, b"GET /healthz HTTP/1.1\r\n" + hosts)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"more than one Host" in answer


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://localhost/healthz?", 200),
        (b"http://[::1]:4318/healthz", 200),
        (b"http://localhost", 200),
        (b"http://evil.example/healthz", 421),
        (b"http://localhost@evil.example/healthz", 421),
        (b"localhost:4318", 400),
    ],
)
def test_a_target_that_names_a_machine_stands_for_the_host_header(server, target, status):
    answer = told(server, b"GET %b HTTP/1.1\r\nHost: localhost\r\n" % target)
    said = int(answer.split()[1])
    assert said == status or (target == b"http://localhost" and said == 503)  # no console is built


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_origin_writes_nothing(server, headers):
    before = server.get("/api/events").json()["last"]
    server.post([start("o"), asks("o", "origin")])
    kept = before + 2
    assert server.post([start("a")], headers=headers).status_code == 403
    answer = server.http.post("/api/inbox/origin/answer", json={"answer": 1}, headers=headers)
    assert answer.status_code == 403
    assert server.get("/api/events").json()["last"] == kept


def test_a_page_of_our_own_may_write(server):
    own = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert server.post([start("a")], headers=own).status_code == 200


def test_no_answer_allows_another_origin_to_read_it(server):
    answer = server.get("/api/runs", headers={"Origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    asked = server.http.options(
        "/api/events/kahn-agent", headers={"Origin": "https://evil.example"}
    )
    assert asked.status_code == 405


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "",
        None,
    ],
)
def test_what_a_form_can_send_is_refused_on_everything_that_writes(server, kind):
    for path in ("/api/events/kahn-agent", "/api/events", "/api/inbox/q/answer"):
        request = server.http.build_request("POST", path, content=start("a"))
        request.headers.pop("content-type", None)
        if kind is not None:
            request.headers["Content-Type"] = kind
        answer = server.http.send(request)
        assert answer.status_code == 415
        assert "application/json" in answer.json()["hint"]


def test_every_page_and_answer_has_its_security_headers(server):
    for path in ("/", "/api/runs", "/nothing"):
        headers = server.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
    policy = server.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_without_the_token_only_the_health_check_answers(guarded):
    for path in ("/api/runs", "/api/events", "/api/stream", "/metrics", "/api/openapi.json"):
        answer = guarded.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "TRACKLOG_TOKEN_FILE" in answer.json()["hint"]
    assert guarded.post([start("a")]).status_code == 401
    assert guarded.get("/api/runs", headers={"Authorization": "Bearer nope"}).status_code == 401
    assert guarded.get("/api/runs", headers={"Authorization": f"Basic {TOKEN}"}).status_code == 401
    assert guarded.get("/healthz").json().keys() == {"status", "version"}
    page = guarded.get("/")
    assert page.status_code == 401
    assert "password" in page.text
    assert "TRACKLOG_TOKEN_FILE" in page.text
    assert page.headers["referrer-policy"] == "same-origin"  # else its form has no origin
    assert "<table" not in page.text


def test_with_the_token_everything_answers(guarded):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.post([start("a")], headers=bearer).json()["accepted"] == 1
    assert guarded.get("/api/runs", headers=bearer).json()[0]["run"] == "a"


def test_a_browser_shows_the_token_once_and_gets_a_cookie_that_other_pages_cannot_use(guarded):
    with httpx.Client(base_url=guarded.url, trust_env=False) as browser:
        wrong = browser.post("/login", data={"token": "nope"})
        assert wrong.status_code == 401
        entered = browser.post("/login", data={"token": TOKEN})
        assert entered.status_code == 303
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie
        assert browser.get("/api/runs").status_code == 200
        foreign = {"Origin": "https://evil.example", **NDJSON}
        sent = browser.post("/api/events/kahn-agent", content=start("a"), headers=foreign)
        assert sent.status_code == 403


def test_the_token_is_never_logged(tmp_path):
    server = Collector(tmp_path, TRACKLOG_TOKEN=TOKEN)
    secret = "sk-very-secret"
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    server.get("/api/runs", headers=bearer)
    server.get(f"/api/runs?token={TOKEN}", headers=bearer)
    server.post([start("a", key=secret), secret.encode()], headers=bearer)
    server.http.post("/login", data={"token": TOKEN})
    server.stop()
    said = "".join(server.said)
    assert TOKEN not in said
    assert secret not in said
    assert "listening" in said


def test_a_token_may_stand_in_a_file(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    with collector(tmp_path / "home", TRACKLOG_TOKEN_FILE=str(file)) as server:
        assert server.get("/api/runs").status_code == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert server.get("/api/runs", headers=bearer).status_code == 200


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "TRACKLOG_TOKEN_FILE must name a file"),
        (b" \n", "the token is empty"),
        (b"two\nlines\n", "no client can send"),
        (b"\xff\xfe\x00", "no client can send"),
        ("schl\u00fcssel".encode(), "no client can send"),
    ],
)
def test_a_token_file_that_holds_no_token_is_reported(tmp_path, content, word):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    refused = serve("--home", str(tmp_path / "home"), "--port", "0", TRACKLOG_TOKEN_FILE=str(file))
    assert refused.returncode == 2
    assert word in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_token_that_others_may_read_is_warned_of(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    for mode, warned in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        with collector(tmp_path / "home", TRACKLOG_TOKEN_FILE=str(file)) as server:
            assert server.get("/api/runs").status_code == 401
        said = [line for line in server.logs if line["level"] == "warning"]
        assert [line["hint"] for line in said] == [f"chmod 600 {file}"] * warned


def test_beyond_this_machine_a_token_is_needed(tmp_path):
    refused = serve("--home", str(tmp_path), "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "TRACKLOG_TOKEN" in refused.stderr
    assert not (tmp_path / "journal").exists()
    empty = serve("--home", str(tmp_path), "--port", "0", TRACKLOG_TOKEN=" ")
    assert empty.returncode == 2
    assert "empty" in empty.stderr
    with collector(tmp_path, "--host", "0.0.0.0", TRACKLOG_TOKEN=TOKEN) as server:
        assert (
            httpx.get(f"http://127.0.0.1:{server.port}/api/runs", trust_env=False).status_code
            == 401
        )


def test_another_name_for_this_machine_can_be_allowed(tmp_path):
    names = ("--allow-host", "recorder.example", "--allow-host", "Other.example:4318")
    with collector(tmp_path, *names) as server:
        for host in ("recorder.example:4318", "other.example"):
            assert server.get("/healthz", headers={"Host": host}).status_code == 200
    refused = serve("--home", str(tmp_path), "--port", "0", "--allow-host", "http://a.example/")
    assert refused.returncode == 2
    assert "--allow-host recorder.example" in refused.stderr


def heard(socket) -> bytes:
    """All that comes until the other end closes."""
    found = b""
    while True:
        try:
            read = socket.recv(1 << 16)
        except ConnectionError:
            return found
        if not read:
            return found
        found += read


def test_a_header_that_does_not_end_is_cut_off_in_time(impatient):
    silent, slow = impatient.raw(), impatient.raw()
    slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    assert b" 408 " in heard(slow)
    assert b" 408 " in heard(silent)
    slow.close()
    silent.close()
    assert impatient.get("/healthz").status_code == 200


def test_a_drip_of_header_bytes_is_cut_off_all_the_same(impatient):
    drip = impatient.raw()
    drip.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    answer = b""
    drip.settimeout(0.2)
    until = time.monotonic() + 60
    while time.monotonic() < until and not answer:
        try:
            drip.sendall(b"x: y\r\n")
            answer = drip.recv(1000)
        except TimeoutError:
            continue
        except ConnectionError:
            answer = b"closed"
    drip.close()
    assert answer


def test_a_body_that_does_not_come_is_cut_off_in_time(impatient):
    rude = impatient.raw()
    head = "POST /api/events/kahn-agent HTTP/1.1\r\nHost: localhost\r\n"
    rude.sendall(
        f"{head}Content-Type: application/x-ndjson\r\nContent-Length: 99\r\n\r\n{{".encode()
    )
    assert b" 408 " in heard(rude)
    rude.close()


@pytest.mark.parametrize("kind", ["application/x-protobuf", "application/json"])
def test_an_exporter_whose_body_does_not_arrive_gets_503(impatient, kind):
    """In its own words: a Status in the type of the request, and a code that it tries again for."""
    rude = impatient.raw()
    head = f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
    rude.sendall(f"{head}Content-Length: 99\r\n\r\n{{".encode())
    top, _, body = heard(rude).partition(b"\r\n\r\n")
    rude.close()
    assert top.startswith(b"HTTP/1.1 503 ")
    assert {f"content-type: {kind}".encode(), b"retry-after: 1"} <= set(top.split(b"\r\n"))
    assert body.startswith(b"\x08\x0e" if kind.endswith("protobuf") else b'{"code":14,')
    assert b"did not arrive in time" in body


def test_a_header_that_is_too_large_is_refused(server):
    rude = server.raw()
    rude.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20_000)
    assert b" 431 " in heard(rude)
    rude.close()


PROTOCOL = b"tracklog-protocol: 1\r\n"
_POST = b"POST /api/events/kahn-agent HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
_LINES = b"Content-Type: application/x-ndjson\r\n"


@pytest.mark.parametrize(
    ("status", "bytes_"),
    [
        (200, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        (200, _POST + _LINES + b"Content-Length: 3\r\n\r\n{}\n"),
        (404, b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        (405, b"PUT /api/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        (415, _POST + b"Content-Length: 2\r\n\r\n{}"),
        (421, b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
        (431, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20_000),
        (400, b"nonsense\r\n\r\n"),
    ],
)
def test_every_answer_names_the_version_of_the_protocol(server, status, bytes_):
    with server.raw() as client:
        client.sendall(bytes_)
        head = heard(client).partition(b"\r\n\r\n")[0] + b"\r\n"
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert head.lower().count(PROTOCOL) == 1


def test_an_answer_that_asks_for_the_token_and_a_stream_name_the_version_of_the_protocol(guarded):
    assert guarded.get("/api/runs").status_code == 401
    assert guarded.get("/api/runs").headers["Tracklog-Protocol"] == "1"
    with guarded.raw() as client:
        asked = f"GET /api/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}"
        client.sendall(f"{asked}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1 << 16)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert PROTOCOL in head.lower()


def test_the_document_names_the_header_of_every_answer(server):
    document = server.get("/api/openapi.json").json()
    for path in document["paths"].values():
        for operation in path.values():
            for answer in operation["responses"].values():
                assert "Tracklog-Protocol" in answer["headers"]
    assert document["components"]["headers"]["Tracklog-Protocol"]["schema"]["const"] == "1"


@pytest.mark.parametrize(
    "bytes_", [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00"]
)
def test_what_is_no_http_is_refused(impatient, bytes_):
    rude = impatient.raw()
    rude.sendall(bytes_)
    answer = heard(rude)
    rude.close()
    assert answer == b"" or b" 400 " in answer or b" 408 " in answer
    assert impatient.get("/healthz").status_code == 200


def test_a_client_that_leaves_in_the_middle_leaves_nothing(server):
    head = "POST /api/events/kahn-agent HTTP/1.1\r\nHost: localhost\r\n"
    before = server.get("/api/events").json()["last"]
    for _ in range(20):
        rude = server.raw()
        kind = "Content-Type: application/x-ndjson\r\nContent-Length: 9999\r\n\r\n"
        rude.sendall(f"{head}{kind}".encode() + start("gone") + b"\n")
        rude.close()
    assert eventually(lambda: "tracklog_held_bytes 0" in server.get("/metrics").text)
    assert server.get("/api/events").json()["last"] == before


def test_more_connections_than_the_limit_are_refused(tmp_path):
    """Those that were let in and say nothing are cut off later, for that."""
    with collector(tmp_path, limits={"header_seconds": 5, "connections": 50}) as server:
        many = [server.raw() for _ in range(60)]
        turned = [each for each in many if b" 503 " in heard(each)]
        for each in many:
            each.close()
        assert 1 <= len(turned) <= 10
        assert eventually(lambda: server.get("/healthz").status_code == 200)


@pytest.mark.parametrize(
    ("files", "most", "overflow"),
    [(1 << 20, 4096, 256), (1024, 640, 256), (300, 8, 164), (100, 8, 4)],
)
def test_connections_leave_the_files_that_the_record_needs(files, most, overflow):
    limits = within(Limits(), files)
    assert limits == replace(Limits(), connections=most, overflow=overflow)


def test_more_bytes_than_can_be_held_are_asked_to_come_again(tmp_path):
    with collector(tmp_path, limits={"held": 1000}) as server:
        answer = server.post([tool("a", step=n) for n in range(50)])
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert server.post([start("a")]).status_code == 200


def test_a_taken_port_is_reported_with_the_next_free_one(tmp_path):
    with collector(tmp_path) as server:
        with socket.socket() as beside:
            beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # taken already, which is as good
                beside.bind(("127.0.0.1", server.port + 1))
                beside.listen()
            second = serve("--home", str(tmp_path), "--port", str(server.port))
        found = re.search(r"`--port (\d+)` \(`make run PORT=(\d+)`\)", second.stderr)
        assert found
        assert found[1] == found[2]
        assert int(found[1]) > server.port + 1
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", int(found[1])))
    assert second.returncode == 2
    assert f"port {server.port} of 127.0.0.1 is in use" in second.stderr
    assert "kill %1" in second.stderr, "Ctrl-C does not reach a job that was started with &"


def test_a_home_that_cannot_be_written_to_is_reported(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    home = tmp_path / "home" if os.geteuid() else Path("/sys/home")  # not even root may there
    try:
        refused = serve("--home", str(home), "--port", "0")
    finally:
        tmp_path.chmod(stat.S_IRWXU)
    assert refused.returncode == 2
    assert str(home) in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_home_that_is_a_file_is_reported(tmp_path):
    (tmp_path / "home").write_text("no folder")
    refused = serve("--home", str(tmp_path / "home"), "--port", "0")
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert "--home" in refused.stderr


def test_a_stop_finishes_what_was_begun_and_every_log_line_is_json(tmp_path):
    server = Collector(tmp_path)
    server.post([start("a")])
    assert server.stop() == 0
    assert [line["event"] for line in server.logs] == ["listening", "stopping", "stopped"]
    assert server.logs[-1]["last"] == 1
    with Home(tmp_path, readonly=True) as home:
        assert home.journal.last == 1


def test_a_full_disk_is_503_and_nothing_is_acknowledged(tmp_path):
    """A limit on the size of files stands for the disk: what does not fit is not taken."""
    script = "import resource,sys,os;"
    script += "resource.setrlimit(resource.RLIMIT_FSIZE,(20000,resource.RLIM_INFINITY));"
    script += "import signal;signal.signal(signal.SIGXFSZ,signal.SIG_IGN);"
    script += "sys.argv=['tracklog','serve','--port','0','--home',sys.argv[1]];"
    script += "from tracklog.__main__ import main;main()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        acknowledged = 0
        with httpx.Client(base_url=url, trust_env=False, timeout=20) as client:
            for n in range(40):
                body = b"\n".join(tool("a", step=10 * n + k) for k in range(10))
                answer = client.post("/api/events/kahn-agent", content=body, headers=NDJSON)
                if answer.status_code != 200:
                    break
                acknowledged += answer.json()["accepted"]
            assert answer.status_code == 503
            assert answer.headers["retry-after"]
            assert answer.json()["hint"]
            assert acknowledged > 0
            assert client.get("/healthz").status_code == 200
            runs = client.get("/api/runs")  # its index has no room either
            assert (runs.status_code, runs.headers["retry-after"]) == (503, "5")
            assert "disk" in runs.json()["hint"]
            assert len(client.get("/api/events").json()["events"]) == acknowledged
            if hasattr(resource, "prlimit"):
                freed = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, freed)
                again = client.post("/api/events/kahn-agent", content=body, headers=NDJSON)
                acknowledged += again.json()["accepted"]
                assert client.get("/api/runs").json()[0]["tool_calls"] == acknowledged
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
    with Home(tmp_path, readonly=True) as home:
        assert home.journal.last == acknowledged


def test_a_mark_is_recorded_with_the_name_of_the_token_and_a_typed_name_is_a_claim(guarded):
    own = {"Authorization": f"Bearer {TOKEN}"}
    guarded.post([start("marked")], headers=own)
    body = {"run": "kahn:marked", "tag": "flaky", "by": "ann"}
    recorded = guarded.http.post("/api/marks", json=body, headers=own)
    assert recorded.status_code == 200
    [mark] = recorded.json()
    [row] = guarded.get("/api/marks", params={"run": "kahn:marked"}, headers=own).json()
    assert (row["by"], row["claimed_by"], row["mark"]) == ("token", "ann", mark["mark"])
    [run] = guarded.get("/api/runs", params={"tag": "flaky"}, headers=own).json()
    assert (run["run"], run["marks"]["tags"]) == ("marked", ["flaky"])
    last = guarded.get("/api/events", headers=own).json()["last"]
    assert last == mark["seq"]
    elsewhere = {"Origin": "https://evil.example"}
    refused = [
        (401, {"json": body}),
        (401, {"json": body, "headers": {"Authorization": "Bearer wrong"}}),
        (403, {"json": body, "headers": own | elsewhere}),
        (421, {"json": body, "headers": own | {"Host": "evil.example"}}),
        (415, {"content": b"{}", "headers": own | {"Content-Type": "text/plain"}}),
        (400, {"json": {"run": "kahn:marked"}, "headers": own}),
        (400, {"json": {"tag": "flaky"}, "headers": own}),
        (400, {"json": body | {"tag": ""}, "headers": own}),
        (400, {"json": body | {"seen": "yes"}, "headers": own}),
        (400, {"json": body | {"score": "high"}, "headers": own}),
        (400, {"json": body | {"record": 0}, "headers": own}),
        (400, {"json": body | {"status": "done"}, "headers": own}),
        (404, {"json": body | {"run": ["kahn:marked", "kahn:none"]}, "headers": own}),
        (404, {"json": body | {"record": 99}, "headers": own}),
        (404, {"json": {"run": "kahn:marked", "withdraw": "none"}, "headers": own}),
    ]
    for status, request in refused:
        answer = guarded.http.post("/api/marks", **request)
        assert (answer.status_code, "hint" in answer.json()) == (status, True), request
    assert guarded.get("/api/events", headers=own).json()["last"] == last
    taken = guarded.http.post(
        "/api/marks", json={"run": "kahn:marked", "withdraw": mark["mark"]}, headers=own
    )
    assert taken.status_code == 200
    assert guarded.get("/api/marks", headers=own).json() == []
