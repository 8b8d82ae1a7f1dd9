"""Only what a host wrote itself counts: others who may send events cannot act in its runs."""

import signal

import httpx
import orjson
import pytest

from support.forking import tracklog
from support.hosting import TOKEN, Host, Process, flow, pairs, put
from tracklog import Log, hosts
from tracklog.home.home import Home
from tracklog.hosts.openwop import runlog
from tracklog.hosts.openwop.own_lines import FILE, own_lines
from tracklog.hosts.openwop.settings import Key, digest
from tracklog.hosts.workflow import run_records
from tracklog.model import own_notes
from tracklog.model.own_notes import HOST_LABELS

GATE = {
    "id": "gate",
    "typeId": "core.approvalGate",
    "config": {"approversList": ["ann", "bob"], "requiredApprovals": 2},
}
PLAIN = {"id": "gate", "typeId": "core.approvalGate"}
KEYS = tuple(
    Key(digest=digest(f"key-of-{name}"), principal=name, scopes=frozenset({"write"}))
    for name in ("ann", "bob")
)


def flows(tmp_path):
    asks = flow("asks", [GATE, {"id": "after", "typeId": "core.noop"}], [("gate", "after")])
    plain = flow("plain", [PLAIN, {"id": "after", "typeId": "core.noop"}], [("gate", "after")])
    slow = flow("slow", [{"id": "wait", "typeId": "core.delay", "config": {"delayMs": 1500}}])
    return put(tmp_path / "flows", asks, plain, slow)


def event(run: str, sequence: int, kind: str, payload: dict, node: str | None = "gate") -> dict:
    made = {"eventId": f"evt-{run}-{sequence}", "runId": run, "sequence": sequence, "type": kind}
    made |= {"timestamp": "2026-11-18T12:00:00.000Z", "payload": payload}
    made |= {"schemaVersion": 1, "engineVersion": "1"}
    return made if node is None else {**made, "nodeId": node}


def votes(run: str, first: int) -> list[dict]:
    """The events with which the gate would be open."""
    place = {"nodeId": "gate", "interruptId": "int:gate:0:0"}
    answer = {"action": "accept"}
    made = [("approval.received", {"nodeId": "gate", **answer, "decidedBy": name})
            for name in ("ann", "bob")]  # fmt: skip
    about = {"kind": "approval", "resumeValue": answer, "resolvedBy": "bob"}
    made.append(
        ("interrupt.resolved", {**place, **about, "resolvedAt": "2026-11-18T12:00:00.000Z"})
    )
    made.append(("node.resumed", {**place, "resumeValue": answer}))
    made.append(("node.completed", {"nodeId": "gate", "outputs": answer}))
    return [event(run, first + n, kind, payload) for n, (kind, payload) in enumerate(made)]


def send(url: str, token: str, lines: list[dict], dialect: str = "openwop") -> dict:
    """Send lines to the collector, as everybody does who may write."""
    body = b"\n".join(map(orjson.dumps, lines))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"}
    response = httpx.post(f"{url}/api/events/{dialect}", content=body, headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    assert response.json()["refused"] == 0, response.text
    return response.json()


def note(run: str, fact: str, **more) -> dict:
    origin = {"writer": "host", "fidelity": "observed"}
    return {"id": f"x-{fact}-{more}"[:100], "run": run, "family": "openwop", "fact": fact,
            "at": "2026-11-18T12:00:00.000Z", "origin": origin, **more}  # fmt: skip


def test_events_that_others_send_are_no_votes(tmp_path):
    with Host(tmp_path / "home", workflows=flows(tmp_path), keys=KEYS, is_checked=False) as host:
        ann, bob = host.client("key-of-ann"), host.client("key-of-bob")
        run = ann.start("asks")
        count = len(host.until(run, "waiting-approval") and host.events(run))
        send(host.url, TOKEN, votes(run, count))
        assert ann.answer(run, "gate", {"action": "accept"}).status_code == 200
        assert host.snapshot(run)["status"] == "waiting-approval"
        assert len(host.events(run, "approval.received")) == 1
        assert bob.answer(run, "gate", {"action": "accept"}).status_code == 200
        host.until(run, "completed")
        by = [each["payload"]["decidedBy"] for each in host.events(run, "approval.received")]
        assert by == ["ann", "bob"]


def test_votes_of_others_do_not_count_after_a_kill_either(tmp_path):
    folder, home = flows(tmp_path), tmp_path / "home"
    tokens = {"ANN": "key-of-ann", "BOB": "key-of-bob"}
    config = tmp_path / "host.yaml"
    keys = [{"token": name, "principal": name.lower(), "scopes": ["write"]} for name in tokens]
    config.write_bytes(orjson.dumps({"workflows": [str(folder[0])], "keys": keys}))
    host = Process(home, "--config", str(config), **tokens)
    run = host.start("asks")
    host.until(run, "waiting-approval")
    before = host.events(run)
    host.end(signal.SIGKILL)
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(b"\n".join(map(orjson.dumps, votes(run, len(before)))) + b"\n")
    done = tracklog(home, "record", "--dialect", "openwop", str(lines))
    assert done.returncode == 0, done.stderr
    with Process(home, "--config", str(config), is_checked=False, **tokens) as host:
        assert host.until(run, "waiting-approval")
        assert host.events(run) == before
        for name in ("ann", "bob"):
            headers = {"Authorization": f"Bearer key-of-{name}"}
            answer = host.answer(run, "gate", {"action": "accept"}, headers=headers)
            assert answer.status_code == 200
        host.until(run, "completed")
        fork = host.fork(run, mode="replay").json()["runId"]
        host.until(fork, "completed")
        assert pairs(host.events(fork)) == pairs(host.events(run))


LABELS = ("cancel-requested", "pause-requested", "resume-requested", "idempotent-request",
          "answer-refused")  # fmt: skip


@pytest.mark.parametrize("door", ["a token that may write", "a file"])
def test_requests_that_others_write_are_refused(tmp_path, door):
    data = {"by": "eve", "drainPolicy": "immediate"}
    folder, home = flows(tmp_path), tmp_path / "home"
    made = tracklog(home, "token", "create", "eve", "--role", "write", "--json")
    headers = {"Authorization": f"Bearer {orjson.loads(made.stdout)['token']}"}
    headers["Content-Type"] = "application/x-ndjson"
    options = {"is_checked": False}
    with (
        Process(home, "--workflows", str(folder[0]), **options) as host,
        Process(home, verb="serve", **options) as collector,
    ):
        run, slow = host.start("plain"), host.start("slow")
        host.until(run, "waiting-approval")
        for name in (run, slow):
            lines = [note(name, "Noted", label=label, data=data) for label in LABELS]
            answer = {"question_id": "int:gate:0:0", "answer": "accept"}
            lines += [note(name, "Answered", **by, **answer) for by in ({"by": "eve"}, {})]
            if door == "a file":
                path = tmp_path / "lines.jsonl"
                path.write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
                done = tracklog(home, "record", "--dialect", "tracklog", "--json", str(path))
                assert done.stdout.count(b'"reserved"') == len(LABELS) + 1, done.stdout
                continue
            for line in lines:
                url = f"{collector.url}/api/events/tracklog"
                refused = httpx.post(url, content=orjson.dumps(line), headers=headers, timeout=60)
                assert (refused.status_code, refused.json().get("code")) == (403, "reserved"), (
                    line,
                    refused.text,
                )
        host.until(slow, "completed")
        assert not host.events(slow, "run.paused", "run.cancelled")
        assert host.snapshot(run)["status"] == "waiting-approval"
        assert host.answer(run, "gate", {"action": "accept"}).status_code == 200
        host.until(run, "completed")


def test_every_label_of_a_host_is_reserved():
    used = {runlog.CANCEL, runlog.PAUSE, runlog.RESUME, runlog.REQUEST, runlog.REFUSAL}
    assert {*HOST_LABELS} == used | {run_records.STOP}
    assert runlog.PRUNED == own_notes.PRUNED


def test_a_run_that_was_pruned_is_not_begun_again(tmp_path):
    """Its ids are known to everybody who read it, and the journal has forgotten them."""
    home = tmp_path / "home"
    with Host(home, workflows=flows(tmp_path)) as host:
        run = host.start("slow")
        host.until(run, "completed")
        first = host.engine.known(run).lines[0]
    with Home(home) as opened:
        assert opened.prune(-60, by="ann").records
    with Host(home, workflows=flows(tmp_path), is_checked=False) as host:
        assert send(host.url, TOKEN, [orjson.loads(first)])["accepted"] == 1
        other = host.start("slow")
        host.until(other, "completed")
        assert host.http.get(f"/v1/runs/{run}").status_code == 404
        records = [each for each in host.home.journal.records(run=("openwop", run)) if each.line]
        assert [each.dialect for each in records] == ["tracklog", "openwop"]


def test_an_operator_answers_and_stops_at_the_command_line(tmp_path):
    folder = flows(tmp_path)
    with Process(tmp_path / "home", "--workflows", str(folder[0])) as host:
        run, other = host.start("plain"), host.start("plain")
        host.until(run, "waiting-approval")
        host.until(other, "waiting-approval")
        words = ["answer", "int:gate:0:0", "accept", "--run", f"openwop:{run}"]
        done = tracklog(tmp_path / "home", *words)
        assert done.returncode == 0, done.stderr
        host.until(run, "completed")
        with Home(tmp_path / "home", durability="os") as opened:
            end = hosts.host("openwop").end
            assert end is not None
            end(Log(opened), other, "ann")
        host.until(other, "cancelled")


def test_a_run_that_others_began_is_not_carried_out(tmp_path):
    """Its first event says everything that one of the host's own says, and gives all rights."""
    with Host(tmp_path / "home", workflows=flows(tmp_path), is_checked=False) as host:
        run = host.start("slow")
        first = orjson.loads(host.engine.known(run).lines[0])
        made = {**first, "runId": "run-of-eve", "eventId": "evt-run-of-eve-0"}
        made["host"] = {**first["host"], "operator": True}
        send(host.url, TOKEN, [made])
        ends = event(run, 2, "run.completed", {"outputs": {"of": "eve"}}, None)
        send(host.url, TOKEN, [ends])
        host.until(run, "completed")
        assert host.events(run, "run.completed")[0]["payload"]["outputs"] == {}
        assert host.http.get("/v1/runs/run-of-eve").status_code == 404
        assert host.fork("run-of-eve", mode="replay").status_code == 404
        assert "run-of-eve" not in host.engine.reader.open
        records = host.home.journal.records(run=("openwop", "run-of-eve"))
        assert len(list(records)) == 1


def test_runs_from_before_there_were_signatures_go_on(tmp_path):
    folder, home = flows(tmp_path), tmp_path / "home"
    with Host(home, workflows=folder) as host:
        run = host.start("plain")
        host.until(run, "waiting-approval")
        signing = next(home.rglob(FILE))
        assert signing.stat().st_mode & 0o777 == 0o600
    signing.unlink()  # as if an older version had written everything so far
    with Host(home, workflows=folder) as host:
        assert own_lines(Log(host.home)).through == host.home.journal.last
        assert host.answer(run, "gate", {"action": "accept"}).status_code == 200
        host.until(run, "completed")
