"""Forks have the options of their source; replays come out as it did, and end by the limits of time."""

import pytest

from support.hosting import Host, Process, flow, put
from support.waiting import eventually

NOOP = {"id": "a", "typeId": "core.noop"}
GATE = {"id": "gate", "typeId": "core.approvalGate"}


def forked(host: Host, prefix: str, run: str, **body) -> str:
    fork = host.http.post(f"{prefix}/runs/{run}:fork", json=body)
    assert fork.status_code == 201, fork.text
    return fork.json()["runId"].rpartition("/")[2]


# The options of a fork.


@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_fork_has_the_options_of_its_source_that_its_workflow_requires(tmp_path, prefix):
    schema = {
        "type": "object",
        "properties": {"tone": {"enum": ["calm", "loud"]}, "model": {"type": "string"}},
        "required": ["tone", "model"],
    }
    flows = put(tmp_path / "flows", flow("toned", [NOOP], configurableSchema=schema))
    options = {"tone": "calm", "model": "x"}
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("toned", configurable=options)
        host.until(run, "completed")
        for mode in ("replay", "branch"):
            name = forked(host, prefix, run, fromSeq=0, mode=mode)
            assert host.until(name, "completed")["configurable"] == options
        changed = {"model": "y"} if prefix else {"version": 1, "ai": {"model": "y"}}
        overlay = {"configurable": changed}
        name = forked(host, prefix, run, fromSeq=0, mode="branch", runOptionsOverlay=overlay)
        assert host.until(name, "completed")["configurable"] == {"tone": "calm", "model": "y"}
        if prefix:
            for wrong in ({"tone": "shrill"}, {"pitch": 1}):
                overlay = {"configurable": wrong}
                body = {"fromSeq": 0, "mode": "branch", "runOptionsOverlay": overlay}
                refused = host.fork(run, **body)
                assert refused.status_code == 400
                field = f"runOptionsOverlay.configurable.{next(iter(wrong))}"
                assert refused.json()["details"]["field"] == field


# Pauses of the source are repeated as they are recorded.


def outline(host: Host, run: str) -> list[tuple]:
    return [(e["type"], e.get("nodeId"), e["payload"]) for e in host.events(run)][1:]


@pytest.mark.parametrize("policy", ["drain-current-node", "immediate"])
@pytest.mark.parametrize("end", ["resumed", "cancelled", "late"])
def test_a_replay_of_a_paused_run_comes_out_as_its_source(tmp_path, policy, end):
    wait = {"typeId": "core.delay", "config": {"delayMs": 700}}
    nodes = [{"id": "a", **wait}, {"id": "b", "typeId": "core.noop"}]
    flows = put(tmp_path / "flows", flow("two", nodes, [("a", "b")]))
    options = {"configurable": {"runTimeoutMs": 1500}} if end == "late" else {}
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("two", **options)
        assert eventually(lambda: host.events(run, "node.started"))
        asked = {"drainPolicy": policy, "reason": "lunch"}
        assert host.http.post(f"/v1/runs/{run}:pause", json=asked).status_code == 202
        host.until(run, "paused")
        if end == "resumed":
            host.http.post(f"/v1/runs/{run}:resume", json={"reason": "fed"})
        elif end == "cancelled":
            host.http.post(f"/v1/runs/{run}/cancel", json={})
        status = host.until(run)["status"]
        events = outline(host, run)
        assert [kind for kind, _, _ in events].count("run.paused") == 1
        for start in range(len(events) + 1):
            name = forked(host, "/v1", run, fromSeq=start, mode="replay")
            assert host.until(name)["status"] == status
            assert outline(host, name) == events, start
        again = forked(host, "/v1", name, fromSeq=0, mode="replay")
        host.until(again)
        assert outline(host, again) == events


def test_a_replay_may_be_paused_itself_beside_the_pauses_of_its_source(tmp_path):
    wait = {"typeId": "core.delay", "config": {"delayMs": 900}}
    nodes = [{"id": "a", **wait}, {"id": "b", "typeId": "core.noop"}]
    flows = put(tmp_path / "flows", flow("two", nodes, [("a", "b")]))
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("two")
        replay = forked(host, "/v1", run, fromSeq=0, mode="replay")
        immediate = {"drainPolicy": "immediate"}
        assert eventually(lambda: host.events(run, "node.started"))
        assert host.http.post(f"/v1/runs/{run}:pause", json=immediate).status_code == 202
        assert host.http.post(f"/v1/runs/{replay}:pause", json=immediate).status_code == 202
        host.until(run, "paused")
        host.http.post(f"/v1/runs/{run}:resume", json={})
        host.until(run, "completed")
        host.until(replay, "paused")
        events = outline(host, run)
    with Host(tmp_path / "home", workflows=flows) as host:
        assert host.snapshot(replay)["status"] == "paused"
        assert host.http.post(f"/v1/runs/{replay}:resume", json={}).status_code == 202
        host.until(replay, "completed")
        own = [("run.paused", None, immediate), ("run.resumed", None, {})]
        assert outline(host, replay) == [*own, *events]
        again = forked(host, "/v1", replay, fromSeq=2, mode="replay")
        host.until(again, "completed")
        assert outline(host, again) == [*own, *events]


def test_a_branch_that_is_cut_right_after_a_pause_goes_on_by_itself(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-delay", inputs={"delayMs": 300})
        host.http.post(f"/v1/runs/{run}:pause", json={})
        host.until(run, "paused")
        host.http.post(f"/v1/runs/{run}:resume", json={})
        host.until(run, "completed")
        (paused,) = host.events(run, "run.paused")
        start = paused["sequence"] + 1
        branch = forked(host, "/v1", run, fromSeq=start, mode="branch")
        host.until(branch, "completed")
        assert host.events(branch)[start]["type"] == "run.resumed"


# A replay that waits ends by the limits of time.


@pytest.mark.parametrize("limit", ["run", "host", "gate"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_replay_that_waits_ends_by_the_limits_of_time(tmp_path, limit, restarts):
    gate = {**GATE, "config": {"timeoutMs": 2000} if limit == "gate" else {}}
    flows = put(tmp_path / "flows", flow("asks", [gate]))
    settings = {"workflows": flows}
    settings |= {"max_run_duration_ms": 2000} if limit == "host" else {}
    options = {"configurable": {"runTimeoutMs": 2000}} if limit == "run" else {}
    with Host(tmp_path / "home", **settings) as host:
        run = host.start("asks", **options)
        host.until(run, "waiting-approval")
        replays = [forked(host, "/v1", run, fromSeq=start, mode="replay") for start in range(4)]
        for name in replays:
            host.until(name, "waiting-approval")
        if not restarts:
            check_late(host, [run, *replays], limit)
    if restarts:
        with Host(tmp_path / "home", **settings) as host:
            check_late(host, [run, *replays], limit)


def check_late(host: Host, runs: list[str], limit: str) -> None:
    code = "approval_rejected" if limit == "gate" else "run_timeout"
    kinds = set()
    for name in runs:
        assert host.until(name, "failed")["error"]["code"] == code
        kinds.add(tuple(e["type"] for e in host.events(name)))
        if limit != "gate":
            (breach,) = host.events(name, "cap.breached")
            assert (breach["payload"]["limit"], breach["nodeId"]) == (2000, "gate")
    assert len(kinds) == 1  # and no replay diverged


def test_a_replay_that_waits_ends_in_time_after_a_kill(tmp_path):
    gate = {**GATE, "config": {"timeoutMs": 2500}}
    flows = put(tmp_path / "flows", flow("asks", [GATE]), flow("short", [gate]))
    arguments = ("--workflows", str(flows[0]))
    with Process(tmp_path / "home", *arguments) as host:
        runs = host.start("asks", configurable={"runTimeoutMs": 2500}), host.start("short")
        for run in runs:
            host.until(run, "waiting-approval")
        late = [host.fork(run, mode="replay").json()["runId"] for run in runs]
        for name in late:
            host.until(name, "waiting-approval")
        host.process.kill()
        host.process.wait(60)
    with Process(tmp_path / "home", *arguments) as host:
        codes = [host.until(name, "failed")["error"]["code"] for name in late]
        assert codes == ["run_timeout", "approval_rejected"]


def test_a_replay_that_is_answered_goes_on_as_a_run_of_its_own(tmp_path):
    slow = {"id": "slow", "typeId": "core.delay", "config": {"delayMs": 60_000}}
    flows = put(tmp_path / "flows", flow("asks", [GATE, slow], [("gate", "slow")]))
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("asks", configurable={"runTimeoutMs": 3000})
        host.until(run, "waiting-approval")
        names = [forked(host, "/v1", run, fromSeq=0, mode="replay") for _ in range(2)]
        for name in names:
            host.until(name, "waiting-approval")
            assert host.answer(name, "gate", {"action": "accept"}).status_code == 200
            assert eventually(lambda n=name: len(host.events(n, "node.started")) == 2)
        assert host.snapshot(run)["status"] == "waiting-approval"
        assert host.until(names[0], "failed")["error"]["code"] == "run_timeout"
        run = host.start("asks", configurable={"runTimeoutMs": 4000})
        host.until(run, "waiting-approval")
        name = forked(host, "/v1", run, fromSeq=0, mode="replay")
        host.until(name, "waiting-approval")
        host.answer(name, "gate", {"action": "accept"})
        assert eventually(lambda: len(host.events(name, "node.started")) == 2)
    with Host(tmp_path / "home", workflows=flows) as host:  # its limit holds there, too
        assert host.until(name, "failed")["error"]["code"] == "run_timeout"
        assert host.events(name, "replay.diverged") == []
        assert host.events(name, "node.failed")[0]["nodeId"] == "slow"


def test_a_replay_that_waits_for_its_source_ends_by_the_limits_of_time(tmp_path):
    slow = {"id": "slow", "typeId": "core.delay", "config": {"delayMs": 60_000}}
    flows = put(tmp_path / "flows", flow("slow", [slow]))
    with Host(tmp_path / "home", workflows=flows, max_run_duration_ms=90_000) as host:
        run = host.start("slow")
        replay = forked(host, "/v1", run, fromSeq=0, mode="replay")
        assert eventually(lambda: host.events(run, "node.started"))
    with Host(tmp_path / "home", workflows=flows, max_run_duration_ms=1500) as host:
        assert host.until(replay, "failed")["error"]["code"] == "run_timeout"


# Replays and branches of a run whose child waits.


def test_a_replay_of_a_run_whose_child_waits_waits_too(tmp_path):
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "inner"}}
    outer = flow("outer", [NOOP, sub], [("a", "sub")])
    flows = put(tmp_path / "flows", flow("inner", [GATE]), outer)
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("outer")
        (child,) = host.until(run, "waiting-approval")["childRuns"]
        waiting = outline(host, run)
        assert waiting[-1][0] == "node.dispatched"
        names = [forked(host, "/v1", run, fromSeq=start, mode="replay") for start in (0, 2)]
        names.append(forked(host, "/v1", names[0], fromSeq=0, mode="replay"))
        for name in names:
            assert "childRuns" not in host.until(name, "waiting-approval")
            assert outline(host, name) == waiting
    with Host(tmp_path / "home", workflows=flows) as host:
        for name in names:
            assert host.snapshot(name)["status"] == "waiting-approval"
        assert host.answer(child["runId"], "gate", {"action": "accept"}).status_code == 200
        for name in (run, *names):
            host.until(name, "completed")
            assert outline(host, name) == outline(host, run)
            assert host.events(name, "replay.diverged") == []
        branch = forked(host, "/v1", run, fromSeq=len(waiting) + 1, mode="branch")
        (own,) = host.until(branch, "waiting-approval")["childRuns"]
        assert own["runId"] != child["runId"]
        (kept,) = host.snapshot(run)["childRuns"]
        assert kept == {"runId": child["runId"], "status": "completed"}
