"""Child runs end with their parent and have its options; pauses, retries and limits agree in all views."""

import sys
import time

import pytest

from support.hosting import ENDED, TOKEN, Host, Process, flow, pairs, put
from support.waiting import eventually
from tracklog.hosts.openwop.settings import Key, ToolProgram, digest

GATE = {"id": "gate", "typeId": "core.approvalGate"}
SLOW = {"id": "slow", "typeId": "core.delay", "config": {"delayMs": 60_000}}
CALL = {"id": "call", "typeId": "core.tool.call", "config": {"toolId": "local:sleep"}}
SLEEP = ToolProgram(id="local:sleep", command=(sys.executable, "-c", "import time; time.sleep(60)"))
SAYS = {
    "id": "says",
    "typeId": "core.conformance.mock-agent",
    "config": {"agentId": "core.thinker", "mockReasoning": {"summary": "short", "trace": "long"}},
}


def sub(workflow: str, **config) -> dict:
    return {"id": "sub", "typeId": "core.subWorkflow", "config": {"workflowId": workflow, **config}}


def child_of(host: Host, run: str) -> str:
    """The child of a run, once it has begun."""
    found = eventually(lambda: host.snapshot(run).get("childRuns"))
    name = found[0]["runId"]
    assert eventually(lambda: host.http.get(f"/v1/runs/{name}").status_code == 200)
    return name


# A parent that ends ends its children.


@pytest.mark.parametrize("node", [GATE, SLOW, CALL], ids=["gate", "delay", "tool"])
@pytest.mark.parametrize("limit", ["run", "workflow", "cancel"])
def test_a_child_ends_with_its_parent(tmp_path, node, limit):
    settings = {"timeout": 700} if limit == "workflow" else {"timeout": 60_000}
    flows = put(
        tmp_path / "flows",
        flow("inner", [node]),
        flow("middle", [sub("inner")]),
        flow("outer", [sub("middle")], settings=settings),
    )
    options = {"configurable": {"runTimeoutMs": 700}} if limit == "run" else {}
    # A call that is cut off with its run never returns.
    more = {"tolerated": "call-not-returned"} if node is CALL else {}
    with Host(tmp_path / "home", workflows=flows, tools={SLEEP.id: SLEEP}, **more) as host:
        run = host.start("outer", **options)
        middle = child_of(host, run)
        inner = child_of(host, middle)
        if limit == "cancel":
            host.http.post(f"/v1/runs/{run}/cancel", json={})
            host.until(run, "cancelled")
        else:
            assert host.until(run, "failed")["error"]["code"] == "run_timeout"
            assert [e["type"] for e in host.events(run)[-3:]] == [
                "cap.breached", "node.failed", "run.failed",
            ]  # fmt: skip
        # The option of the run is also that of its children, so their own time may be up first.
        for name, parent in ((middle, run), (inner, middle)):
            status = host.until(name, *ENDED, seconds=10)["status"]
            end = host.events(name)[-1]
            if status == "failed":
                assert limit == "run"
                assert end["payload"]["error"]["code"] in ("run_timeout", "child_failed")
                continue
            assert status == "cancelled"
            assert end["payload"]["parentRunId"] == parent
            first = "parent-cancelled" if limit == "cancel" else "parent-timeout"
            assert end["payload"]["reason"] in (first, "parent-cancelled")
        for name in (run, middle):
            statuses = {row["status"] for row in host.snapshot(name)["childRuns"]}
            assert statuses <= {"cancelled", "failed"}


def test_a_child_of_a_parent_whose_time_is_up_while_the_host_is_down_ends_too(tmp_path):
    flows = put(tmp_path / "flows", flow("inner", [GATE]),
                flow("outer", [sub("inner")], settings={"timeout": 60_000}))  # fmt: skip
    options = {"configurable": {"runTimeoutMs": 1500}}
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("outer", **options)
        child = child_of(host, run)
    time.sleep(1.6)
    with Host(tmp_path / "home", workflows=flows) as host:
        assert host.until(run, "failed")["error"]["code"] == "run_timeout"
        assert host.until(child, *ENDED)["status"] in ("failed", "cancelled")


def test_a_replay_does_not_end_the_children_of_its_source(tmp_path):
    flows = put(tmp_path / "flows", flow("inner", [GATE]), flow("outer", [sub("inner")]))
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("outer")
        child = child_of(host, run)
        replay = host.fork(run, mode="replay").json()["runId"]
        host.http.post(f"/v1/runs/{replay}/cancel", json={})
        host.until(replay, "cancelled")
        assert host.snapshot(child)["status"] == "waiting-approval"
        host.answer(child, "gate", {"action": "accept"})
        host.until(run, "completed")


# A child has the options of its parent.


def test_a_child_has_the_options_of_the_run(tmp_path):
    schema = {"type": "object", "additionalProperties": False,
              "properties": {"tone": {"type": "string"}}}  # fmt: skip
    flows = put(
        tmp_path / "flows",
        flow("conformance-inner", [SAYS]),
        flow("toned", [sub("conformance-inner")], configurableSchema=schema),
        flow("outer", [sub("toned")], configurableSchema={
            **schema, "properties": {"tone": {}, "other": {}}}),
    )  # fmt: skip
    options = {"recursionLimit": 9, "maxLoopIterations": 4, "escalationThreshold": 0.1,
               "runTimeoutMs": 50_000, "model": "m", "temperature": 0.5, "maxTokens": 7}  # fmt: skip
    with Host(tmp_path / "home", workflows=flows) as host:
        for verbosity, texts in (("off", []), ("full", ["long"]), ("summary", ["short"])):
            given = {**options, "reasoningVerbosity": verbosity}
            run = host.start("outer", configurable={**given, "tone": "calm", "other": 1})
            host.until(run, "completed")
            toned = child_of(host, run)
            inner = child_of(host, toned)
            assert host.snapshot(toned)["configurable"] == {**given, "tone": "calm"}
            assert host.snapshot(inner)["configurable"] == given
            said = [e["payload"]["reasoning"] for e in host.events(inner, "agent.reasoned")]
            assert said == texts


def test_a_child_has_the_mock_provider_and_the_limit_of_nodes(tmp_path):
    ask = {"id": "ask", "typeId": "core.ai.callPrompt", "config": {"prompt": "Hi"}}
    steps = [{"id": name, "typeId": "core.noop"} for name in "abc"]
    flows = put(
        tmp_path / "flows", flow("asks", [ask]), flow("outer", [sub("asks")]),
        flow("three", steps, [("a", "b"), ("b", "c")]), flow("counts", [sub("three")]),
    )  # fmt: skip
    token = "hk_test_a-word"
    keys = (Key(digest=digest(token), principal="tester", scopes=frozenset({"*"}), test=True),)
    with Host(tmp_path / "home", workflows=flows, keys=keys) as host:
        tester = host.client(token)
        provider = {"id": "stream-text", "config": {"tokens": ["Good", " day"]}}
        run = tester.start("outer", configurable={"mockProvider": provider})
        assert tester.until(run, "completed")["variables"]["text"] == "Good day"
        run = host.start("counts", configurable={"recursionLimit": 2})
        assert host.until(run, "failed")["error"]["code"] == "child_failed"
        child = host.snapshot(child_of(host, run))
        assert child["error"]["code"] == "recursion_limit_exceeded"


def test_a_child_that_does_not_allow_an_option_is_not_begun(tmp_path):
    schema = {"type": "object", "properties": {"recursionLimit": {"maximum": 5}}}
    made = flow("narrow", [{"id": "a", "typeId": "core.noop"}], configurableSchema=schema)
    flows = put(tmp_path / "flows", made, flow("outer", [sub("narrow")]))
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("outer", configurable={"recursionLimit": 6})
        error = host.until(run, "failed")["error"]
        assert error["code"] == "child_failed"
        assert "does not allow the options" in error["message"]


def test_runs_inside_runs_are_16_deep_at_most(tmp_path):
    flows = put(tmp_path / "flows", flow("again", [sub("again")]))
    with Host(tmp_path / "home", workflows=flows) as host:
        run, depth = host.start("again"), 0
        assert host.until(run, "failed")["error"]["code"] == "child_failed"
        while "childRuns" in (snapshot := host.snapshot(run)):
            run, depth = snapshot["childRuns"][0]["runId"], depth + 1
        assert depth == 16
        assert "more than 16 deep" in snapshot["error"]["message"]


# Pauses.


def views_of(host: Host, run: str) -> tuple[set, set]:
    """The status and the time of a pause, in every answer that has them."""
    one, two = host.http.get(f"/v1/runs/{run}").json(), host.http.get(f"/runs/{run}").json()
    (row,) = (r for r in host.http.get("/runs").json()["runs"] if r["runId"].endswith(run))
    poll = host.http.get(f"/runs/{run}/events/poll?timeout=1").json()
    again = host.http.post(f"/v1/runs/{run}:pause", json={}).json()["details"]
    statuses = {one["status"], two["status"], row["status"], poll["status"], again["runStatus"]}
    extra = [each.get("extensions", {}).get("tracklog.run", {}) for each in (two, row)]
    times = {each.get("pausedAt") for each in (one, again, *extra)}
    return statuses, times


def test_a_pause_during_the_last_node_comes_before_the_end(tmp_path):
    done = tmp_path / "done"
    script = f"import os, time\nwhile not os.path.exists({str(done)!r}): time.sleep(0.02)"
    tool = ToolProgram(id="local:wait", command=(sys.executable, "-c", script))
    node = {"id": "n", "typeId": "core.tool.call", "config": {"toolId": tool.id}}
    flows = put(tmp_path / "flows", flow("one", [node]))
    with Host(tmp_path / "home", workflows=flows, tools={tool.id: tool}) as host:
        run = host.start("one")
        assert eventually(lambda: host.events(run, "agent.toolCalled"))
        paused = host.http.post(f"/v1/runs/{run}:pause", json={"reason": "lunch"})
        assert (paused.status_code, paused.json()) == (202, {"runId": run, "status": "paused"})
        assert views_of(host, run) == ({"running"}, {None})  # the node has not ended
        for verb in ("pause", "resume"):
            early = host.http.post(f"/v1/runs/{run}:{verb}", json={})
            assert (early.status_code, early.json()["error"]) == (409, "run_state_conflict")
            assert "a pause was requested" in early.json()["message"]
        done.touch()
        host.until(run, "paused")
        kinds = [e["type"] for e in host.events(run)]
        assert kinds[-2:] == ["node.completed", "run.paused"]
        (event,) = host.events(run, "run.paused")
        assert views_of(host, run) == ({"paused"}, {event["timestamp"]})
        assert host.http.post(f"/v1/runs/{run}:resume", json={}).status_code == 202
        host.until(run, "completed")
        kinds = [e["type"] for e in host.events(run)]
        assert kinds[-3:] == ["run.paused", "run.resumed", "run.completed"]
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "completed")
        assert pairs(host.events(replay)) == pairs(host.events(run))


def test_a_pause_that_has_begun_says_so_in_its_answer(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-delay", inputs={"delayMs": 30_000})
        assert eventually(lambda: host.events(run, "node.started"))
        paused = host.http.post(f"/runs/{run}:pause", json={"drainPolicy": "immediate"}).json()
        (event,) = host.events(run, "run.paused")
        assert paused["pausedAt"] == event["timestamp"]
        assert views_of(host, run) == ({"paused"}, {event["timestamp"]})


def test_a_pause_before_the_failure_of_a_node_comes_before_the_end_too(tmp_path):
    tool = ToolProgram(id="local:fails", seconds=60,
                command=(sys.executable, "-c", "import sys,time; time.sleep(1); sys.exit(3)"))  # fmt: skip
    node = {"id": "n", "typeId": "core.tool.call", "config": {"toolId": tool.id}}
    flows = put(tmp_path / "flows", flow("fails", [node]))
    with Host(tmp_path / "home", workflows=flows, tools={tool.id: tool}) as host:
        run = host.start("fails")
        assert eventually(lambda: host.events(run, "agent.toolCalled"))
        assert host.http.post(f"/v1/runs/{run}:pause", json={}).status_code == 202
        host.until(run, "paused")
        assert [e["type"] for e in host.events(run)[-2:]] == ["node.failed", "run.paused"]
        host.http.post(f"/v1/runs/{run}:resume", json={})
        assert host.until(run, "failed")["error"]["code"] == "tool_failed"


def test_a_run_whose_child_waits_is_not_paused(tmp_path):
    flows = put(tmp_path / "flows", flow("inner", [GATE]), flow("middle", [sub("inner")]),
                flow("outer", [sub("middle")]))  # fmt: skip
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("outer")
        host.until(run, "waiting-approval")
        assert views_of(host, run) == ({"waiting-approval"}, {None})
        refused = host.http.post(f"/v1/runs/{run}:pause", json={})
        assert (refused.status_code, refused.json()["error"]) == (409, "run_state_conflict")
        inner = child_of(host, child_of(host, run))
        host.answer(inner, "gate", {"action": "accept"})
        host.until(run, "completed")


# Branches.


def test_a_branch_keeps_every_event_before_the_one_that_it_is_cut_at(tmp_path):
    call = {**CALL, "config": {"toolId": "openwop.echo:echo"}}
    nodes = [{"id": "a", "typeId": "core.noop"}, call, GATE]
    made = flow("long", nodes, [("a", "call"), ("call", "gate")])
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        run = host.start("long")
        host.until(run, "waiting-approval")
        host.answer(run, "gate", {"action": "accept"})
        host.until(run, "completed")
        events = host.events(run)
        for start in range(len(events)):
            fork = host.fork(run, mode="branch", fromSeq=start)
            assert (fork.status_code, fork.json()["fromSeq"]) == (201, start), fork.text
            name = fork.json()["runId"]
            if host.until(name, "waiting-approval", "completed")["status"] != "completed":
                assert host.answer(name, "gate", {"action": "accept"}).status_code == 200
            host.until(name, "completed")
            assert pairs(host.events(name)[:start]) == pairs(events[:start])


def test_a_branch_does_not_begin_while_an_agent_waits_for_an_answer(tmp_path):
    with Host(tmp_path) as host:
        run = host.start("conformance-agent-low-confidence")
        host.until(run, "waiting-approval")
        count = len(host.events(run))
        refused = host.fork(run, mode="branch", fromSeq=count - 1)
        assert (refused.status_code, refused.json()["error"]) == (422, "fork_out_of_range")
        assert host.fork(run, mode="branch", fromSeq=1).status_code == 201


# Retries.


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_tool_whose_time_was_up_is_called_again_only_if_that_does_no_harm(tmp_path, idempotent):
    calls = tmp_path / "calls"
    script = f"open({str(calls)!r}, 'a').write('x'); import time; time.sleep(60)"
    tool = ToolProgram(id="local:pay", command=(sys.executable, "-c", script), seconds=1,
                idempotent=idempotent)  # fmt: skip
    node = {"id": "n", "typeId": "core.tool.call", "config": {"toolId": tool.id}}
    made = flow("pays", [node], settings={"timeout": 60_000, "maxRetries": 1})
    flows = put(tmp_path / "flows", made)
    with Host(tmp_path / "home", workflows=flows, tools={tool.id: tool}) as host:
        run = host.start("pays")
        error = host.until(run, "failed")["error"]
        assert (error["code"], error["details"]["retryable"]) == ("tool_timeout", idempotent)
        times = 2 if idempotent else 1
        assert len(host.events(run, "agent.toolCalled")) == times
        assert len(calls.read_text()) == times


def test_retries_that_the_limit_of_nodes_ends_are_a_breach_of_it(tmp_path):
    node = {"id": "n", "typeId": "core.fail"}
    made = flow("tries", [node], settings={"timeout": 60_000, "maxRetries": 9})
    flows = put(tmp_path / "flows", made)
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("tries", configurable={"recursionLimit": 2})
        error = host.until(run, "failed")["error"]
        assert error["code"] == "recursion_limit_exceeded"
        assert error["details"]["lastError"]["code"] == "node_failed"
        assert [e["type"] for e in host.events(run)[-3:]] == [
            "cap.breached", "node.failed", "run.failed",
        ]  # fmt: skip
        (breach,) = host.events(run, "cap.breached")
        limits = {"kind": "node-executions", "limit": 2, "observed": 3, "nodeId": "n"}
        assert breach["payload"] == limits
        assert len(host.events(run, "node.started")) == 2
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "failed")
        assert pairs(host.events(replay)) == pairs(host.events(run))


def test_a_host_that_is_killed_leaves_no_child_behind(tmp_path):
    flows = put(tmp_path / "flows", flow("inner", [GATE]), flow("outer", [sub("inner")]))
    arguments = ("--workflows", str(flows[0]))
    with Process(tmp_path / "home", *arguments) as host:
        run = host.start("outer", configurable={"runTimeoutMs": 2500})
        child = child_of(host, run)
        host.process.kill()
        host.process.wait(60)
    time.sleep(2)
    with Process(tmp_path / "home", *arguments, token=TOKEN) as host:
        host.until(run, "failed")
        host.until(child, *ENDED)
