"""Several tenants of one database in one process, and tokens that all collectors on it know."""

import subprocess
import sys

import httpx
import pytest

from support import fleets
from support.fleets import Node
from support.servers import postgres, store_url, tenant
from support.waiting import eventually
from tracklog.journal.postgres.connections import Address, Database
from tracklog.journal.postgres.tenants import make_owner, set_quota

NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def nodes():
    made: list[Node] = []
    yield made
    for node in made:
        node.stop()


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracklog", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def new_token(url: str, folder, role: str = "admin") -> tuple[str, str]:
    """The token and its id."""
    made = run("token", "create", "t", "--role", role, "--store", url, "--home", folder)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip(), made.stderr.split()[0]


def send(node: Node, token: str, task: str) -> httpx.Response:
    path = f"{node.url}/api/events/kahn-agent"
    body, headers = fleets._line(task, task), {**NDJSON, "Authorization": f"Bearer {token}"}
    return httpx.post(path, content=body, headers=headers, timeout=60)


def ask(node: Node, token: str | None, path: str = "/api/runs") -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.get(node.url + path, headers=headers, timeout=60)


def runs(node: Node, token: str) -> set[str]:
    found = ask(node, token)
    assert found.status_code == 200, found.text
    return {row["run"] for row in found.json()} - {"tokens"}


def test_one_process_serves_several_tenants_by_their_tokens(tmp_path, nodes):
    urls = {name: store_url(tmp_path / name) for name in "ab"}
    names = {name: tenant(tmp_path / name) for name in "ab"}
    for url in urls.values():
        make_owner(Address(url.removeprefix("postgresql:")))
    tokens = {name: new_token(url, tmp_path)[0] for name, url in urls.items()}
    both = [option for name in names.values() for option in ("--tenant", name)]
    shared = f"{postgres().url}?connect_timeout=120"
    nodes.append(node := Node(shared, tmp_path / "node", *both))
    for name, token in tokens.items():
        answer = send(node, token, f"only-{name}")
        assert answer.json()["accepted"] == 1, answer.text
    for name, token in tokens.items():
        assert eventually(lambda n=name, t=token: runs(node, t) == {f"only-{n}"})
        hits = ask(node, token, "/api/search?q=only*").json()
        assert [hit["run"] for hit in hits] == [f"only-{name}"]
        other = "only-b" if name == "a" else "only-a"
        assert ask(node, token, f"/api/runs/kahn/{other}").status_code == 404
    # Who has no token of a tenant gets nothing of either.
    assert ask(node, None).status_code == 401
    assert ask(node, "wrong").status_code == 401
    assert send(node, "wrong", "nobody").status_code == 401
    assert ask(node, None, "/healthz").status_code == 200
    assert ask(node, None, "/metrics").status_code == 401
    # A browser logs in with the token of its tenant.
    with httpx.Client(base_url=node.url, timeout=60) as client:
        wrong = client.post("/login", data={"token": "wrong"})
        assert "That is not the token" in wrong.text
        assert client.post("/login", data={"token": tokens["b"]}).status_code == 303
        found = client.get("/api/runs").json()
        assert {row["run"] for row in found} - {"tokens"} == {"only-b"}
    # A limit holds for one of them.
    database = Database(Address(urls["a"].removeprefix("postgresql:")), writing=True)
    set_quota(database, f"tracklog_{names['a']}_0", 0, 1)
    database.close()
    assert send(node, tokens["a"], "first").status_code == 200  # it passes, and is counted
    late = send(node, tokens["a"], "second")
    assert (late.status_code, "retry-after" in late.headers) == (429, True)
    assert send(node, tokens["b"], "more").status_code == 200
    with httpx.stream("GET", f"{node.url}/api/stream", params={"after": 0}, timeout=60,
                      headers={"Authorization": f"Bearer {tokens['b']}"}) as stream:  # fmt: skip
        lines = (line for line in stream.iter_lines() if line.startswith("data:"))
        seen = ""
        while "more" not in seen:
            seen += next(lines)
    assert "only-b" in seen
    assert "only-a" not in seen
    assert node.stop() == 0


def test_what_belongs_to_no_tenant_is_refused_where_several_are_served(tmp_path):
    shared, both = postgres().url, ("--tenant", "a", "--tenant", "b", "--port", "0")
    cases = [
        (("serve", "--store", shared, *both), {"TRACKLOG_TOKEN": "x" * 16}, "of no tenant"),
        (("serve", "--store", shared, *both, "--with", "fishbowl"), {}, "--with is for one tenant"),
        (("serve", "--store", f"{shared}?tenant=c", *both), {}, "the URL names a tenant, too"),
        (("serve", "--home", tmp_path / "home", "--tenant", "a"), {}, "--tenant is for a database"),
        (("serve", "--store", shared, *both, "--tenant", "a"), {}, "named twice"),
        (("serve", "--store", shared, "--tenant", "A"), {}, "is not the name of a tenant"),
    ]
    for arguments, environment, message in cases:
        done = run(*arguments, **environment, HOME=str(tmp_path))
        assert (done.returncode, message in done.stderr) == (2, True), (arguments, done.stderr)


def test_a_token_of_a_database_counts_on_every_collector(tmp_path, nodes):
    url = store_url(tmp_path)
    nodes += [Node(url, tmp_path / "a"), Node(url, tmp_path / "b")]
    assert [send(node, "none", "open").status_code for node in nodes] == [200, 200]
    token, _ = new_token(url, tmp_path / "elsewhere")
    second, id = new_token(url, tmp_path / "elsewhere", "read")
    for node in nodes:
        assert eventually(lambda n=node: ask(n, None).status_code == 401)
        assert eventually(lambda n=node: ask(n, second).status_code == 200)
        assert runs(node, token) == {"open"}
        assert runs(node, second) == {"open"}
        assert send(node, second, "no").status_code == 403
    assert run("token", "revoke", id, "--store", url, "--home", tmp_path).returncode == 0
    for node in nodes:
        assert eventually(lambda n=node: ask(n, second).status_code == 401)
    # Made over HTTP on one of them, it is known to the other.
    answer = httpx.post(
        f"{nodes[0].url}/api/settings/tokens",
        json={"name": "web", "role": "read"},
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    )
    made = answer.json()["token"]
    assert eventually(lambda: ask(nodes[1], made).status_code == 200)


def test_tokens_in_the_folder_beside_a_database_do_not_leave_it_open(tmp_path):
    folder, url = tmp_path / "home", store_url(tmp_path)
    made = run("token", "create", "t", "--role", "read", "--home", folder)
    assert made.returncode == 0, made.stderr
    done = run("serve", "--store", url, "--home", folder, "--port", "0")
    assert done.returncode == 2
    assert "are in the database" in done.stderr
