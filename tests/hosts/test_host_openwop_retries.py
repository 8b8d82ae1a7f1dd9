"""Nodes that fail and are tried again, as `settings.maxRetries` of a workflow allows."""

import sys
from datetime import datetime
from itertools import pairwise

import pytest

from support.hosting import Host, flow, pairs, put
from support.serving import serving
from support.waiting import eventually
from tracklog.hosts.openwop.settings import ModelServer, ToolProgram

FAILING = {"id": "n", "typeId": "core.fail"}


def trying(retries: int, node: dict = FAILING, **settings) -> dict:
    settings = {"timeout": 60_000, "maxRetries": retries, **settings}
    return flow("trying", [node], settings=settings)


def kinds(events: list[dict]) -> list[tuple]:
    return [(e["type"], e["payload"].get("attempt")) for e in events if e.get("nodeId")]


def played(host: Host, run: str) -> str:
    """Another run, whose models and tools answer from the tape of one."""
    body = {"program": "trying", "tape": {"run": run}}
    response = host.http.post("/api/hosts/openwop/runs", json=body)
    assert response.status_code == 200, response.text
    return response.json()["run"]


def limping(tmp_path, failures: int) -> ToolProgram:
    """A tool that fails so often, and then says how often it was called."""
    script = f"""
import pathlib, sys
path = pathlib.Path({str(tmp_path / "calls")!r})
with path.open("a") as file:
    file.write("x")
count = path.stat().st_size
sys.exit("not yet") if count <= {failures} else print(count)
"""
    return ToolProgram(id="local:limp", command=(sys.executable, "-c", script))


def test_a_node_that_fails_is_tried_again_and_every_attempt_is_on_record(tmp_path):
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", trying(2))) as host:
        run = host.start("trying")
        snapshot = host.until(run, "failed")
        assert (snapshot["error"]["code"], snapshot["nodeStates"]["n"]["attempt"]) == (
            "node_failed",
            2,
        )
        events = host.events(run)
        attempt = [("node.started", 0), ("node.retried", 1), ("node.started", 1)]
        attempt += [("node.retried", 2), ("node.started", 2), ("node.failed", None)]
        assert kinds(events) == attempt
        retried = host.events(run, "node.retried")
        assert [e["payload"]["delayMs"] for e in retried] == [100, 200]
        assert {e["payload"]["lastError"]["code"] for e in retried} == {"node_failed"}
        (failed,) = host.events(run, "node.failed")
        assert failed["payload"]["attempts"] == 3
        for before, after in pairwise(events):
            if before["type"] == "node.retried":
                then, now = (datetime.fromisoformat(e["timestamp"]) for e in (before, after))
                paused = (now - then).total_seconds() * 1000
                assert paused >= before["payload"]["delayMs"] - 1  # times are in milliseconds


def test_a_tool_that_fails_at_first_is_called_until_it_succeeds(tmp_path):
    node = {"id": "n", "typeId": "core.tool.call", "config": {"toolId": "local:limp"}}
    tools = {"local:limp": limping(tmp_path, 2)}
    flows = put(tmp_path / "flows", trying(3, node))
    with Host(tmp_path / "home", workflows=flows, tools=tools) as host:
        run = host.start("trying")
        assert host.until(run, "completed")["variables"]["result"] == 3
        calls = [e["payload"]["callId"] for e in host.events(run, "agent.toolCalled")]
        assert calls == ["n:0:0", "n:1:0", "n:2:0"]
        for body in ({"mode": "replay"}, {"mode": "replay", "fromSeq": 5}):
            fork = host.fork(run, **body).json()["runId"]
            host.until(fork, "completed")
            assert pairs(host.events(fork)) == pairs(host.events(run))
        again = played(host, run)
        host.until(again, "completed")
        assert pairs(host.events(again)) == pairs(host.events(run))
    assert (tmp_path / "calls").read_text() == "xxx"


@pytest.mark.parametrize(
    ("node", "code"),
    [
        (
            {
                "id": "n",
                "typeId": "core.delay",
                "inputs": {"delayMs": {"type": "static", "value": -1}},
            },
            "validation_error",
        ),
        (
            {
                "id": "n",
                "typeId": "core.subWorkflow",
                "config": {"workflowId": "conformance-failure"},
            },
            "child_failed",
        ),
        ({"id": "n", "typeId": "core.dispatch"}, "no_pending_decision"),
    ],
)
def test_what_would_come_out_the_same_is_tried_once(tmp_path, node, code):
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", trying(5, node))) as host:
        run = host.start("trying")
        assert host.until(run, "failed")["error"]["code"] == code
        assert not host.events(run, "node.retried")


def test_a_tool_that_is_gone_is_called_once(tmp_path):
    tools = {"a:b": ToolProgram(id="a:b", command=("true",))}
    nodes = [
        {"id": "gate", "typeId": "core.approvalGate"},
        {"id": "n", "typeId": "core.tool.call", "config": {"toolId": "a:b"}},
    ]
    made = flow("gone", nodes, [("gate", "n")], settings={"timeout": 10_000, "maxRetries": 5})
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made), tools=tools) as host:
        run = host.start("gone")
        host.until(run, "waiting-approval")
        tools.clear()
        host.answer(run, "gate", {"action": "accept"})
        assert host.until(run, "failed")["error"]["code"] == "tool_not_found"
        assert not host.events(run, "node.retried")


def test_a_rejection_is_not_asked_for_again(tmp_path):
    node = {"id": "n", "typeId": "core.approvalGate"}
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", trying(5, node))) as host:
        run = host.start("trying")
        host.until(run, "waiting-approval")
        host.answer(run, "n", {"action": "reject"})
        assert host.until(run, "failed")["error"]["code"] == "approval_rejected"
        assert not host.events(run, "node.retried")


def test_attempts_are_executions_and_end_at_the_cap(tmp_path):
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", trying(9))) as host:
        run = host.start("trying", configurable={"recursionLimit": 2})
        assert host.until(run, "failed")["error"]["code"] == "recursion_limit_exceeded"
        assert len(host.events(run, "node.started")) == 2
        assert host.events(run, "node.failed")[0]["payload"]["attempts"] == 2


def test_who_waits_for_the_next_attempt_is_cancelled_at_once(tmp_path):
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", trying(40))) as host:
        run = host.start("trying")
        # Then a pause is over a second long.
        assert eventually(lambda: len(host.events(run, "node.retried")) == 5)
        host.http.post(f"/v1/runs/{run}/cancel", json={})
        host.until(run, "cancelled")
        ends = [e["type"] for e in host.events(run)[-3:]]
        assert ends == ["node.retried", "node.cancelled", "run.cancelled"]
        fork = host.fork(run, mode="replay").json()["runId"]
        host.until(fork, "cancelled")
        assert pairs(host.events(fork)) == pairs(host.events(run))


def test_the_time_of_a_run_ends_its_attempts(tmp_path):
    flows = put(tmp_path / "flows", trying(40, timeout=1000))
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("trying")
        assert host.until(run, "failed")["error"]["code"] == "run_timeout"
        started = len(host.events(run, "node.started"))
        assert host.events(run, "node.failed")[0]["payload"]["attempts"] in (started, started + 1)
        assert len(host.events(run, "cap.breached")) == 1


def test_a_model_that_failed_is_asked_again_and_its_failure_is_on_the_tape(tmp_path):
    pytest.importorskip("openai", reason="the client for model servers is an extra")
    node = {"id": "n", "typeId": "core.ai.callPrompt", "config": {"prompt": "Hi"}}
    flows = put(tmp_path / "flows", trying(2, node))
    with serving(400, "Here I am.") as (url, asked):
        model = ModelServer(base_url=url, name="m", seconds=10)
        with Host(tmp_path / "home", workflows=flows, model=model) as host:
            run = host.start("trying")
            assert host.until(run, "completed")["variables"]["text"] == "Here I am."
            (retried,) = host.events(run, "node.retried")
            assert retried["payload"]["lastError"]["code"] == "model_failed"
            again = played(host, run)
            host.until(again, "completed")
            assert pairs(host.events(again)) == pairs(host.events(run))
    assert len(asked) == 2
