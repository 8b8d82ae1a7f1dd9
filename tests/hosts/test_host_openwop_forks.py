"""Forks have the options of their source; replays come out as it did, and end by the limits of time."""

import orjson
import pytest

from support.hosting import Host, Process, flow, pairs, put, signed, written
from support.waiting import eventually, long_enough
from tracklog.home.home import Home

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


# A fork has the events before `fromSeq`, and executes what comes then.


@pytest.mark.parametrize("mode", ["replay", "branch"])
@pytest.mark.parametrize("prefix", ["/v1", ""])
def test_a_fork_has_the_events_before_its_beginning_and_no_later_one(tmp_path, prefix, mode):
    with Host(tmp_path) as host:
        run = host.start("conformance-multi-node")
        host.until(run, "completed")
        events = pairs(host.events(run))
        for start in range(1, len(events)):
            name = forked(host, prefix, run, fromSeq=start, mode=mode)
            host.until(name, "completed")
            told = pairs(host.events(name))
            numbers = [event["sequence"] for event in host.events(name)]
            assert numbers == [*range(len(told))]
            assert told[:start] == events[:start]
            if events[start][0] != "node.completed":
                assert told == events
                continue
            retried = told.pop(start)[0] if mode == "branch" else "node.retried"
            again = told.pop(start)  # the node begins again, and is executed
            assert (retried, again[:2]) == ("node.retried", ("node.started", events[start][1]))
            assert told == events
            replay = forked(host, prefix, name, fromSeq=0, mode="replay")
            host.until(replay, "completed")
            assert pairs(host.events(replay)) == pairs(host.events(name))


def test_a_replay_that_begins_in_a_node_goes_on_after_any_of_its_events(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-multi-node")
        host.until(run, "completed")
        name = forked(host, "/v1", run, fromSeq=4, mode="replay")
        host.until(name, "completed")
        events = pairs(host.events(name))
        lines = [line for line in written(host.home) if orjson.loads(line)["runId"] == name]
    left = {count: f"run-left-at-{count}-0000000000" for count in range(4, len(lines))}
    with Home(tmp_path) as home:  # the same replay, of which a host wrote only so many events
        for count, other in left.items():
            some = [line.replace(name.encode(), other.encode()) for line in lines[:count]]
            assert {each.verdict for each in home.intake.admit(signed(home, some), "openwop")} == {
                "accepted"
            }
    with Host(tmp_path) as host:
        for other in left.values():
            host.until(other, "completed")
            assert pairs(host.events(other)) == events


# Pauses of the source are repeated as they are recorded.


def outline(host: Host, run: str) -> list[tuple]:
    return [(e["type"], e.get("nodeId"), e["payload"]) for e in host.events(run)][1:]


WAIT = {
    "id": "a",
    "typeId": "core.delay",
    "inputs": {"delayMs": {"type": "variable", "variableName": "ms"}},
}
TWO = flow(
    "two",
    [WAIT, {"id": "b", "typeId": "core.noop"}],
    [("a", "b")],
    variables=[{"name": "ms", "type": "number"}],
)
"""It can be paused while its first node waits."""


def paused(host: Host, policy: str, **options) -> str:
    """A run that was paused while its first node waited."""

    def attempt(delay: int) -> str | None:
        limit = {"configurable": {"runTimeoutMs": 3 * delay}} if options.get("limited") else {}
        run = host.start("two", inputs={"ms": delay}, **limit)
        assert eventually(lambda: host.events(run, "node.started"))
        body = {"drainPolicy": policy, "reason": "lunch"}
        asked = host.http.post(f"/v1/runs/{run}:pause", json=body)
        host.until(run, "paused", "completed", "failed")
        nodes = [e["nodeId"] for e in host.events(run) if "nodeId" in e]
        is_in_time = host.events(run, "run.paused") and "b" not in nodes
        return run if asked.status_code == 202 and is_in_time else None

    return long_enough(attempt)


@pytest.mark.parametrize("policy", ["drain-current-node", "immediate"])
@pytest.mark.parametrize("end", ["resumed", "cancelled", "late"])
def test_a_replay_of_a_paused_run_comes_out_as_its_source(tmp_path, policy, end):
    flows = put(tmp_path / "flows", TWO)
    with Host(tmp_path / "home", workflows=flows) as host:
        run = paused(host, policy, limited=end == "late")
        if end == "resumed":
            host.http.post(f"/v1/runs/{run}:resume", json={"reason": "fed"})
        elif end == "cancelled":
            host.http.post(f"/v1/runs/{run}/cancel", json={})
        status = host.until(run)["status"]
        events = outline(host, run)
        kinds = [kind for kind, _, _ in events]
        assert kinds.count("run.paused") == 1
        for start in range(len(events) + 1):
            name = forked(host, "/v1", run, fromSeq=start, mode="replay")
            assert host.until(name)["status"] == status
            told, begun = outline(host, name), events[start - 2]
            if start > 1 and kinds[start - 1] == "node.completed":  # it is executed again
                assert told == [*events[: start - 1], begun, *events[start - 1 :]], start
            else:
                assert told == events, start
        again = forked(host, "/v1", name, fromSeq=0, mode="replay")
        host.until(again)
        assert outline(host, again) == events


def test_a_replay_may_be_paused_itself_beside_the_pauses_of_its_source(tmp_path):
    flows = put(tmp_path / "flows", TWO)
    immediate = {"drainPolicy": "immediate"}
    with Host(tmp_path / "home", workflows=flows) as host:
        run = paused(host, "immediate")  # and while it is, a replay waits for its end
        replay = forked(host, "/v1", run, fromSeq=0, mode="replay")
        assert host.http.post(f"/v1/runs/{replay}:pause", json=immediate).status_code == 202
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
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", TWO)) as host:
        run = paused(host, "drain-current-node")
        host.http.post(f"/v1/runs/{run}:resume", json={})
        host.until(run, "completed")
        (pause,) = host.events(run, "run.paused")
        start = pause["sequence"] + 1
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
        names = [forked(host, "/v1", run, fromSeq=start, mode="replay") for start in (0, 3)]
        names.append(forked(host, "/v1", names[0], fromSeq=0, mode="replay"))
        for name in names:
            assert "childRuns" not in host.until(name, "waiting-approval")
            assert outline(host, name) == waiting
        inside = forked(host, "/v1", run, fromSeq=2, mode="replay")  # "a" is executed again
        host.until(inside, "waiting-approval")
        assert outline(host, inside) == [waiting[0], *waiting]
    with Host(tmp_path / "home", workflows=flows) as host:
        for name in names:
            assert host.snapshot(name)["status"] == "waiting-approval"
        assert host.answer(child["runId"], "gate", {"action": "accept"}).status_code == 200
        for name in (run, *names):
            host.until(name, "completed")
            assert outline(host, name) == outline(host, run)
            assert host.events(name, "replay.diverged") == []
        host.until(inside, "completed")
        assert outline(host, inside) == [waiting[0], *outline(host, run)]
        branch = forked(host, "/v1", run, fromSeq=len(waiting) + 1, mode="branch")
        (own,) = host.until(branch, "waiting-approval")["childRuns"]
        assert own["runId"] != child["runId"]
        (kept,) = host.snapshot(run)["childRuns"]
        assert kept == {"runId": child["runId"], "status": "completed"}


def test_a_replay_that_ended_while_the_child_of_its_source_waited_is_repeated(tmp_path):
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": "inner"}}
    outer = flow("outer", [NOOP, sub], [("a", "sub")])
    flows = put(tmp_path / "flows", flow("inner", [GATE]), outer)
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("outer")
        (child,) = host.until(run, "waiting-approval")["childRuns"]
        replay = forked(host, "/v1", run, fromSeq=0, mode="replay")
        host.until(replay, "waiting-approval")
        host.http.post(f"/v1/runs/{replay}/cancel", json={})
        host.until(replay, "cancelled")
        ending = host.events(replay)[-2:]
        assert [(e["type"], e.get("nodeId")) for e in ending] == [
            ("node.cancelled", "sub"), ("run.cancelled", None)
        ]  # fmt: skip
        # Older versions did not end the node.
        *lines, _, last = host.engine.known(replay).lines
        number = b'"sequence":%d'
        lines.append(last.replace(number % (len(lines) + 1), number % len(lines)))
        old = f"{replay[:-3]}old"
        lines = [line.replace(replay.encode(), old.encode()) for line in lines]
        host.home.intake.admit(signed(host.home, lines), "openwop")
        host.answer(child["runId"], "gate", {"action": "reject"})
        host.until(run, "failed")
        for source in (replay, old):
            again = forked(host, "/v1", source, fromSeq=0, mode="replay")
            host.until(again, "cancelled")
            assert pairs(host.events(again)) == pairs(host.events(source))
