"""Collectors on PostgreSQL while servers and collectors are killed: nothing acknowledged is lost."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import psycopg
import pytest

from support import fleets, servers
from support.cutting import CutNetwork, Relay
from support.disks import small_disk
from support.fleets import Load, Node, check_exactly_once, stored
from support.soaking import SOAK
from support.waiting import eventually
from tracklog.cli._local_postgres import LocalPostgres
from tracklog.collector.app import Collector
from tracklog.home.home import Home
from tracklog.model.errors import TracklogError

pytestmark = pytest.mark.long


@pytest.fixture
def servers_made():
    made: list[LocalPostgres] = []
    yield made
    for server in reversed(made):
        server.kill()
        server.remove()


@pytest.fixture
def nodes():
    made: list[Node] = []
    yield made
    for node in made:
        node.stop()


def server(made) -> LocalPostgres:
    new = servers.new_server()
    new.bin = servers.reachable(new.bin)
    made.append(new)
    return new


def cluster(made, *, synchronous: bool) -> tuple[LocalPostgres, LocalPostgres, str]:
    """A primary, its standby, and the URL of both."""
    primary, standby = server(made), server(made)
    primary.make()
    primary.settings["synchronous_standby_names"] = "standby" if synchronous else ""
    primary.start()
    standby.make_standby(primary, "standby")
    standby.start()
    both = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    return primary, standby, primary.url.replace(f"127.0.0.1:{primary.port}", both)


def status(url: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "tracklog", "store", "status", url, "--json"],
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_nothing_is_lost_or_doubled_when_postgresql_is_killed(servers_made, nodes, tmp_path, tally):
    database = server(servers_made)
    database.make()
    database.start()
    nodes += [Node(database.url, tmp_path / "a"), Node(database.url, tmp_path / "b")]
    load = Load(nodes)
    for _ in range(3 * SOAK):
        assert load.grows(20)
        database.kill()
        time.sleep(0.2)
        database.start()
    assert load.grows()
    lines = check_exactly_once(load.finish(), database.url, tmp_path)
    assert lines >= 200
    tally.add(kills=3 * SOAK, acknowledged=lines)
    tally.done("PostgreSQL killed")
    assert [node.stop() for node in nodes] == [0, 0]


def test_nothing_is_lost_or_doubled_when_a_collector_is_killed(
    servers_made, nodes, tmp_path, tally
):
    database = server(servers_made)
    database.make()
    database.start()
    nodes += [Node(database.url, tmp_path / "a"), Node(database.url, tmp_path / "b")]
    load = Load(nodes)
    for turn in range(3 * SOAK):
        assert load.grows()
        node = nodes[turn % 2]
        node.kill()
        assert load.grows(3)  # the other one goes on alone
        node.start()
    assert load.grows()
    lines = check_exactly_once(load.finish(), database.url, tmp_path)
    tally.add(kills=3 * SOAK, acknowledged=lines)
    tally.done("collector on PostgreSQL killed")


def test_nothing_is_lost_or_doubled_when_the_network_is_cut(nodes, tmp_path, tally):
    """Nobody is told of the cut; afterwards what was under way arrives, or is dropped."""
    url = servers.store_url(tmp_path)
    relay = Relay(servers.postgres().port)
    try:
        cut = url.replace(f":{servers.postgres().port}/", f":{relay.port}/")
        nodes += [Node(cut, tmp_path / "a"), Node(cut, tmp_path / "b")]
        load = Load(nodes)
        for turn in range(2 * SOAK):
            assert load.grows()
            relay.freeze()
            known = len(load.acknowledged) + 3  # each sender may have an answer under way
            time.sleep(1)
            assert len(load.acknowledged) <= known
            relay.thaw(drop=turn % 2 == 0)
        assert load.grows()
        lines = check_exactly_once(load.finish(), url, tmp_path)
        tally.add(faults=2 * SOAK, acknowledged=lines)
        tally.done("network to PostgreSQL cut")
        assert [node.stop() for node in nodes] == [0, 0]
    finally:
        relay.close()


@pytest.fixture
def network():
    made = CutNetwork()
    yield made
    made.close()


def reached_from_elsewhere(server: LocalPostgres, network: CutNetwork) -> None:
    """Let a server listen on every address, also for the other side of the wire."""
    server.settings["listen_addresses"] = "*"
    with (server.data / "pg_hba.conf").open("a") as file:
        for of in ("all", "replication"):
            file.write(f"host {of} all {network.outside}/30 scram-sha-256\n")


def test_nothing_is_lost_or_doubled_when_the_wire_to_postgresql_is_cut(
    servers_made, nodes, network, tmp_path, tally
):
    """A server in a network of its own: packets are lost, and sent again by the kernels."""
    database = server(servers_made)
    database.make()
    reached_from_elsewhere(database, network)
    network.inside(database.start)
    url = database.url.replace("127.0.0.1", network.address)
    nodes += [Node(url, tmp_path / "a"), Node(url, tmp_path / "b")]
    load = Load(nodes)
    for _ in range(2 * SOAK):
        assert load.grows()
        network.cut()
        known = len(load.acknowledged) + 3  # each sender may have an answer under way
        time.sleep(1)
        assert len(load.acknowledged) <= known
        network.heal()
    assert load.grows()
    lines = check_exactly_once(load.finish(), url, tmp_path)
    tally.add(faults=2 * SOAK, acknowledged=lines)
    tally.done("wire to PostgreSQL cut")
    assert [node.stop() for node in nodes] == [0, 0]
    network.inside(database.stop)


def test_a_standby_that_is_promoted_behind_a_cut_has_everything_that_was_acknowledged(
    servers_made, nodes, network, tmp_path, tally
):
    """The old primary lives on with its clients, and acknowledges nothing: it has no standby."""
    primary, standby = server(servers_made), server(servers_made)
    primary.make()
    reached_from_elsewhere(primary, network)
    primary.settings["synchronous_standby_names"] = "standby"
    primary.start()
    network.inside(standby.make_standby, Elsewhere(primary, network.outside), "standby")
    standby.settings["listen_addresses"] = "*"
    network.inside(standby.start)
    here, there = f"127.0.0.1:{primary.port}", f"{network.address}:{standby.port}"
    nodes += [Node(primary.url.replace(here, f"{here},{there}"), tmp_path / n) for n in "ab"]
    load = Load(nodes)
    for _ in range(2 * SOAK):
        assert load.grows()
        network.cut()
        known = len(load.acknowledged) + 3
        time.sleep(1)
        assert len(load.acknowledged) <= known
        network.heal()
    assert load.grows()
    network.cut()
    network.inside(standby.promote)
    known = len(load.acknowledged) + 3
    time.sleep(3)
    assert len(load.acknowledged) <= known  # the old one lives, and says nothing
    primary.kill()
    network.heal()
    assert load.grows(10)
    promoted = standby.url.replace("127.0.0.1", network.address)
    lines = check_exactly_once(load.finish(), promoted, tmp_path)
    tally.add(faults=2 * SOAK + 1, kills=1, acknowledged=lines)
    tally.done("wire to a synchronous standby cut, and the standby promoted behind it")
    network.inside(standby.stop)


class Elsewhere:
    """A server as the other side of the wire sees it."""

    def __init__(self, server: LocalPostgres, address: str) -> None:
        self.folder, self.url = server.folder, server.url.replace("127.0.0.1", address)


def test_nothing_is_lost_or_doubled_when_the_disk_of_postgresql_is_full(
    servers_made, nodes, tmp_path, tally
):
    database = server(servers_made)
    database.make()
    with small_disk(database.folder / "disk", "96m") as disk:
        subprocess.run(["cp", "-a", database.data / "base", disk / "base"], check=True)
        shutil.rmtree(database.data / "base")
        (database.data / "base").symlink_to(disk / "base")
        disk.chmod(0o755)
        database.start()
        nodes += [Node(database.url, tmp_path / "a"), Node(database.url, tmp_path / "b")]
        load = Load(nodes)
        assert load.grows()
        with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass
        line = fleets._line(os.urandom(1 << 20).hex(), "run-9")  # more than the free pages hold
        headers = {"Content-Type": "application/x-ndjson"}
        for node in nodes:
            answer = httpx.post(
                f"{node.url}/api/events/kahn-agent", content=line, headers=headers, timeout=60
            )
            assert answer.status_code == 503
            assert answer.headers["retry-after"]
        (disk / "filler").unlink()
        assert load.grows()
        lines = check_exactly_once(load.finish(), database.url, tmp_path)
        tally.add(faults=1, acknowledged=lines)
        tally.done("disk of PostgreSQL full")
        assert [node.stop() for node in nodes] == [0, 0]
        database.stop()


def test_a_line_sent_to_one_collector_is_streamed_by_the_other(nodes, tmp_path):
    url = servers.store_url(tmp_path)
    nodes += [Node(url, tmp_path / "a"), Node(url, tmp_path / "b")]
    one, other = nodes
    with httpx.stream("GET", f"{other.url}/api/stream", params={"after": 0}, timeout=60) as stream:
        lines = stream.iter_lines()
        for number in range(3):
            body = fleets._line(f"task-{number}", "run-1")
            headers = {"Content-Type": "application/x-ndjson"}
            answer = httpx.post(
                f"{one.url}/api/events/kahn-agent", content=body, headers=headers, timeout=60
            )
            assert answer.json()["accepted"] == 1
            assert next(each for each in lines if each == f"id: {number + 1}")
    runs = [httpx.get(f"{node.url}/api/runs", timeout=60).json() for node in nodes]
    names = [[row["run"] for row in answer] for answer in runs]
    assert names == [["run-1"], ["run-1"]]


def test_two_collectors_answer_alike_and_one_index_serves_both(nodes, tmp_path):
    url = servers.store_url(tmp_path)
    nodes += [Node(url, tmp_path / "a"), Node(url, tmp_path / "b")]
    headers = {"Content-Type": "application/x-ndjson"}
    paths = ("runs", "board", "costs", "tools", "findings", "agents", "search?q=task*")
    for number in range(12):
        body = fleets._line(f"task{number}", f"run-{number % 3}")
        node = nodes[number % 2]
        httpx.post(f"{node.url}/api/events/kahn-agent", content=body, headers=headers, timeout=60)
        answers = [[_answer(each, path) for path in paths] for each in nodes]
        assert answers[0] == answers[1]
    hits = _answer(nodes[0], "search?q=task*")
    assert len(hits) == 12
    # The one that fills the index is killed: the other one does so instead.
    workers = [node for node in nodes if "index.db" in str(list(node.folder.rglob("index.db*")))]
    assert workers == []  # no collector has an index of its own
    for node, other in (nodes, nodes[::-1]):
        node.kill()
        body = fleets._line(f"after-{node.port}", "run-9")
        httpx.post(f"{other.url}/api/events/kahn-agent", content=body, headers=headers, timeout=60)
        assert any(row["run"] == "run-9" for row in _answer(other, "runs"))
        node.start()


def _answer(node: Node, path: str) -> object:
    answer = httpx.get(f"{node.url}/api/{path}", timeout=60)
    assert answer.status_code == 200, (path, answer.text)
    assert "Tracklog-As-Of" not in answer.headers, path  # it is as new as the journal
    return _timeless(answer.json())


def _timeless(answer: object) -> object:
    """An answer without what its clock says: how long ago something was."""
    if isinstance(answer, dict):
        kept = {key: each for key, each in answer.items() if not key.endswith("seconds")}
        return {key: _timeless(each) for key, each in kept.items()}
    return [_timeless(each) for each in answer] if isinstance(answer, list) else answer


def test_processes_with_one_role_each_do_the_work_of_one(nodes, tmp_path):
    url, archive = servers.store_url(tmp_path), tmp_path / "archive"
    nodes += [
        Node(url, tmp_path / "a", "--role", "collect"),
        Node(url, tmp_path / "b", "--role", "index"),
        Node(url, tmp_path / "c", "--role", "archive", "--archive", str(archive), "--hot", "0m"),
    ]
    collects, indexes, archives = nodes

    def send(task: str) -> int:
        headers = {"Content-Type": "application/x-ndjson"}
        path, body = f"{collects.url}/api/events/kahn-agent", fleets._line(task, task)
        return httpx.post(path, content=body, headers=headers, timeout=60).json()["last_seq"]

    def metric(node: Node, name: str) -> bool:
        return f"tracklog_{name} 0\n" in httpx.get(f"{node.url}/metrics", timeout=60).text

    send("first")
    assert eventually(lambda: [row["run"] for row in _answer(collects, "runs")] == ["first"])
    for node in (indexes, archives):
        assert httpx.get(f"{node.url}/healthz", timeout=60).status_code == 200
        assert httpx.get(f"{node.url}/api/runs", timeout=60).status_code == 404
        answer = httpx.post(f"{node.url}/api/events", content=b"{}", timeout=60)
        assert answer.status_code in (404, 415)
    assert eventually(lambda: metric(collects, "index_behind"))
    assert eventually(lambda: metric(archives, "archive_behind"))
    indexes.kill()
    last = send("second")
    answer = httpx.get(f"{collects.url}/api/runs", timeout=60)  # who collects does not index
    assert int(answer.headers["tracklog-as-of"]) < last
    indexes.start()
    assert eventually(lambda: metric(collects, "index_behind"))
    assert {row["run"] for row in _answer(collects, "runs")} == {"first", "second"}
    for folder, role in ((tmp_path / "a", "index"), (tmp_path / "b", "archive")):
        with Home(folder / "home") as home, pytest.raises(TracklogError, match=role):
            Collector(home, role=role)  # a folder belongs to one process that does all


def test_a_question_waits_for_the_record_that_its_sender_names(nodes, tmp_path):
    url = servers.store_url(tmp_path)
    nodes += [Node(url, tmp_path / "a")]
    eventually(lambda: status(url)["indexes"])  # this one fills the index
    nodes += [Node(url, tmp_path / "b")]
    worker, other = nodes

    def send(task: str) -> int:
        headers = {"Content-Type": "application/x-ndjson"}
        path, body = f"{other.url}/api/events/kahn-agent", fleets._line(task, task)
        return httpx.post(path, content=body, headers=headers, timeout=60).json()["last_seq"]

    def ask(indexed: int | None) -> httpx.Response:
        params = {} if indexed is None else {"indexed": indexed}
        return httpx.get(f"{other.url}/api/runs", params=params, timeout=60)

    first = send("first")
    assert [row["run"] for row in ask(first).json()] == ["first"]
    worker.process.send_signal(signal.SIGSTOP)
    try:
        second = send("second")
        late = ask(second)
        assert (late.status_code, late.headers["retry-after"]) == (503, "5")
        old = ask(None)  # as of a record that it names
        assert (old.status_code, old.headers["tracklog-as-of"]) == (200, str(first))
        assert [row["run"] for row in ask(first).json()] == ["first"]
    finally:
        worker.process.send_signal(signal.SIGCONT)
    answer = eventually(lambda: (found := ask(second)).status_code == 200 and found)
    assert {row["run"] for row in answer.json()} == {"first", "second"}
    assert ask(second + 1).status_code == 404  # there is no such record


def test_collectors_ask_to_wait_while_the_synchronous_standby_is_away(
    servers_made, nodes, tmp_path
):
    primary, standby, url = cluster(servers_made, synchronous=True)
    nodes += [Node(url, tmp_path / "a"), Node(url, tmp_path / "b")]
    load = Load(nodes)
    assert load.grows()
    standby.kill()
    answers: list[httpx.Response] = []

    def send(node: Node, key: str) -> None:
        body = b"\n".join(fleets._line(f"{key}.{n}", "run-9") for n in range(fleets.BATCH))
        headers = {"Content-Type": "application/x-ndjson"}
        path = f"{node.url}/api/events/kahn-agent"
        params = {"batch": key}
        answers.append(httpx.post(path, params=params, content=body, headers=headers, timeout=60))

    def export(node: Node) -> None:
        """Spans by OTLP, as an exporter sends them."""
        span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "chat m", "kind": 1}
        span |= {
            "startTimeUnixNano": "1750000000000000000",
            "endTimeUnixNano": "1750000001000000000",
        }
        span |= {"attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]}
        body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        answers.append(httpx.post(f"{node.url}/v1/traces", json=body, timeout=60))

    threads = [threading.Thread(target=send, args=(nodes[n % 2], f"9-{n}")) for n in range(4)]
    threads += [threading.Thread(target=export, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [503] * 6
    assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)
    assert any("standby is not there" in each for each in status(primary.url)["warnings"])
    standby.start()
    answers.clear()
    for n in range(4):
        send(nodes[n % 2], f"9-{n}")
    assert [answer.json()["accepted"] for answer in answers] == [fleets.BATCH] * 4
    for node in nodes:
        export(node)
    assert [(each.status_code, each.json()) for each in answers[4:]] == [(200, {})] * 2
    keys = [*load.finish(), *(f"9-{n}" for n in range(4))]
    check_exactly_once(keys, primary.url, tmp_path)


def test_a_batch_that_two_collectors_get_at_once_is_stored_once(nodes, tmp_path):
    url = servers.store_url(tmp_path)
    nodes += [Node(url, tmp_path / "a"), Node(url, tmp_path / "b")]
    answers: list[dict] = []

    def send(node: Node) -> None:
        for key in range(30):
            body = b"\n".join(fleets._line(f"{key}.{n}", f"run-{key % 3}") for n in range(10))
            answer = httpx.post(
                f"{node.url}/api/events/kahn-agent",
                params={"batch": str(key)},
                content=body,
                headers={"Content-Type": "application/x-ndjson"},
                timeout=60,
            )
            answers.append(answer.json())

    threads = [threading.Thread(target=send, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer["accepted"] for answer in answers] == [10] * 60
    assert sum(bool(answer.get("replayed")) for answer in answers) == 30
    check_exactly_once([str(key) for key in range(30)], url, tmp_path)


def test_a_synchronous_standby_has_everything_that_was_acknowledged(
    servers_made, nodes, tmp_path, tally
):
    primary, standby, url = cluster(servers_made, synchronous=True)
    nodes += [Node(url, tmp_path / "a"), Node(url, tmp_path / "b")]
    assert status(primary.url)["warnings"] == []
    load = Load(nodes)
    assert load.grows()
    primary.kill()
    standby.promote()
    assert load.grows(10)
    lines = check_exactly_once(load.finish(), standby.url, tmp_path)
    tally.add(kills=1, acknowledged=lines)
    tally.done("failover to a synchronous standby")


def test_an_asynchronous_standby_loses_and_status_warned(servers_made, nodes, tmp_path):
    primary, standby, _ = cluster(servers_made, synchronous=False)
    nodes.append(Node(primary.url, tmp_path / "a"))
    assert any("no synchronous standby" in each for each in status(primary.url)["warnings"])
    load = Load(nodes)
    assert load.grows()
    receiver = eventually(lambda: walreceiver(standby))
    os.kill(receiver, signal.SIGSTOP)
    try:
        assert load.grows()
        acknowledged = load.finish()
    finally:
        primary.kill()
        os.kill(receiver, signal.SIGKILL)
    # Its server ends all its processes and begins again; a promotion meanwhile would be forgotten.
    assert eventually(lambda: walreceiver(standby) != receiver and reachable(standby))
    standby.promote()
    counts, report = stored(standby.url, tmp_path)
    assert report.verdict == "proven"  # the chain is not broken: it is shorter
    assert max(counts.values()) == 1
    lost = [key for key in acknowledged if f"{key}.0" not in counts]
    assert lost


def reachable(server: LocalPostgres) -> bool:
    try:
        psycopg.connect(server.url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def walreceiver(standby: LocalPostgres) -> int:
    """The process of a standby that receives what the primary writes; 0 where there is none."""
    for pid in Path(f"/proc/{standby.pid}/task/{standby.pid}/children").read_text().split():
        if b"walreceiver" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    return 0
