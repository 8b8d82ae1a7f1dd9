"""Agents in the OpenWOP host: who they are, what they may, and what is kept of what they think."""

import hashlib
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.hosting import Host, Process, flow, mock, pairs, put, signed
from support.waiting import eventually
from tracklog.hosts.openwop.reasoning import cost
from tracklog.hosts.openwop.redaction import Redactor
from tracklog.hosts.openwop.settings import Key, ToolProgram, digest
from tracklog.hosts.openwop.tools import canonical

FIVE = [
    f"agent.{each}" for each in ("reasoned", "toolCalled", "toolReturned", "handoff", "decided")
]
SECRET = "sk-" + "Z9y8X7w6V5u4T3s2R1q0"
LOW = {"mockDecision": {"decision": {"go": "left"}, "confidence": 0.5}}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Host(tmp_path_factory.mktemp("home")) as made:
        yield made


def serve(tmp_path, *definitions, manifests=(), **settings):
    folder = put(tmp_path / "flows", *definitions)
    agents = put(tmp_path / "agents", *manifests) if manifests else ()
    return Host(tmp_path / "home", workflows=folder, manifests=agents, **settings)


def manifest(name: str, **more) -> dict:
    return {"agentId": name, "persona": "A", "modelClass": "general", "systemPrompt": "Be.", **more}


def reasoning_scenario(host) -> str:
    """All five types, against a host that says it writes them."""
    said = host.http.get("/.well-known/openwop").json()
    flags = said.get("capabilities", {}).get("agents", {})
    names = ("reasoningEvents", "toolEvents", "handoffEvents", "decisionEvents")
    if not all(flags.get(name) for name in names):
        return "skipped"
    found = host.run("conformance-agent-reasoning")
    assert [e["type"] for e in found if e["type"].startswith("agent.")] == FIVE
    return "passed"


def escalation_scenario(host) -> str:
    said = host.http.get("/.well-known/openwop").json()
    if (
        "conformance-agent-low-confidence" not in said["fixtures"]
        or not said["agents"]["supported"]
    ):
        return "skipped"
    run = host.start("conformance-agent-low-confidence")
    host.until(run, "waiting-approval")
    (suspended,) = host.events(run, "node.suspended")
    payload = suspended["payload"]
    assert payload["reason"] == "low-confidence"
    assert payload["observed"] < payload["threshold"] == 0.7
    run = host.start("conformance-agent-low-confidence", configurable={"escalationThreshold": 0.5})
    host.until(run, "completed")
    return "passed"


@pytest.mark.requirement("WOP-76", "WOP-83", "WOP-84", "WOP-85", "WOP-92")
def test_the_scenarios_pass_where_advertised_and_are_skipped_where_not(host, tmp_path):
    assert (reasoning_scenario(host), escalation_scenario(host)) == ("passed", "passed")
    with Host(tmp_path, tool_events=False, decision_events=False) as silent:
        assert (reasoning_scenario(silent), escalation_scenario(silent)) == ("skipped", "skipped")


@pytest.mark.requirement("WOP-42", "WOP-66", "WOP-86", "WOP-96", "WOP-101")
def test_the_five_events_come_in_order_within_their_node_and_in_both_spellings(host):
    run = host.start("conformance-agent-reasoning")
    snapshot = host.until(run)
    events = host.events(run)
    assert [e["type"] for e in events] == [
        "run.started", "node.started", *FIVE, "node.completed", "run.completed",
    ]  # fmt: skip
    assert {e["nodeId"] for e in events[1:8]} == {"reasoner"}
    reasoned, called, returned, handoff, decided = (e["payload"] for e in events[2:7])
    assert set(reasoned) == {"agentId", "reasoning", "verbosity"}
    assert called["toolId"] == called["toolName"] == returned["toolName"] == "openwop.echo:echo"
    assert called["callId"] == returned["callId"] == "reasoner:0:0"
    assert events[4]["causationId"] == events[3]["eventId"]
    assert (returned["result"], returned["status"], returned["durationMs"]) == ({"x": 1}, "ok", 1)
    assert (called["inputs"], returned["outcome"]) == (called["arguments"], returned["result"])
    assert handoff["from"]["agentId"] == handoff["fromAgentId"] == called["agentId"]
    assert handoff["to"] == {"agentId": handoff["toAgentId"]}
    assert decided["agentId"] == handoff["toAgentId"]
    assert called["argsHash"] == hashlib.sha256(b'{"x":1}').hexdigest()
    assert events[7]["payload"]["outputs"] == {}
    assert "agent" not in snapshot  # two have acted


def test_the_optional_spellings_can_be_left_out(tmp_path):
    with Host(tmp_path, wire_aliases=False) as host:
        called, returned = host.run("conformance-agent-reasoning", *FIVE[1:3])
        assert "inputs" not in called["payload"]
        assert "outcome" not in returned["payload"]


@pytest.mark.requirement("WOP-47", "WOP-40")
def test_deltas_are_numbered_and_closed_by_what_they_add_up_to(host):
    found = host.run("conformance-agent-reasoning-streaming", "agent.reasoning.delta", FIVE[0])
    deltas, closing = found[:-1], found[-1]
    assert [e["payload"]["sequence"] for e in deltas] == [0, 1, 2]
    assert closing["type"] == "agent.reasoned"
    assert "".join(e["payload"]["delta"] for e in deltas) == closing["payload"]["reasoning"]
    assert len({e["payload"]["agentId"] for e in found}) == 1


@pytest.mark.requirement("WOP-72", "WOP-78", "WOP-79", "WOP-94", "WOP-3")
def test_a_pin_is_on_the_nodes_and_on_the_snapshot_as_it_was_written(tmp_path):
    pin = {"agentId": "vendor.acme.ops.runner", "agentSharing": "shared:g 1/ü", "name": "R"}
    pin |= {"modelClass": "research", "memoryRef": "m:1", "version": "2"}
    other = {**pin, "modelClass": "nonsense"}
    definitions = [
        flow("pinned", [{"id": "a", "typeId": "core.noop", "agent": pin}]),
        flow("bad-class", [{"id": "a", "typeId": "core.noop", "agent": other}]),
        flow(
            "two",
            [
                {"id": "a", "typeId": "core.noop", "agent": pin},
                {"id": "b", "typeId": "core.noop", "agent": {"agentId": "core.other"}},
            ],
            [("a", "b")],
        ),
    ]
    with serve(tmp_path, *definitions) as host:
        run = host.start("pinned")
        assert host.until(run)["agent"] == pin
        started, completed = host.events(run, "node.started", "node.completed")
        assert started["payload"]["agent"] == completed["payload"]["agent"] == pin
        assert host.http.get("/v1/workflows/pinned").json()["nodes"][0]["agent"] == pin
        run = host.start("two")
        assert "agent" not in host.until(run)
        assert host.events(run, "agent.handoff") == []
        response = host.http.post("/v1/runs", json={"workflowId": "bad-class"})
        assert response.json()["error"] == "validation_error"
        run = host.start("conformance-agent-pack-provenance")
        ref = host.until(run)["agent"]
        assert ref["sourceManifestId"] == "core.conformance.agent-pack.installed-agent"
        assert "modelClass" not in ref  # `chat` is a class that RFC 0002 does not have


@pytest.mark.requirement("WOP-7", "WOP-10", "WOP-8", "WOP-9", "WOP-90", "WOP-97")
def test_manifests_declare_agents_once_and_never_one_of_the_hosts_own(tmp_path):
    folder = tmp_path / "agents"
    folder.mkdir()
    good = manifest("vendor.acme.ops.runner")
    bad = [good, manifest("host:runner"), manifest("acme.runner"), manifest("core.system")]
    bad += [{**good, "agentId": "core.x", "surprise": 1}, [1]]
    for number, each in enumerate([good, *bad]):
        (folder / f"{number}.json").write_text(json.dumps(each))
    with Host(tmp_path / "home", manifests=(folder,)) as host:
        assert host.engine.agents.names() == ["vendor.acme.ops.runner"]
        assert len(host.engine.workflows.faults) == len(bad)
        assert any("host:" in fault for fault in host.engine.workflows.faults)
        assert any("already" in fault for fault in host.engine.workflows.faults)


@pytest.mark.requirement("WOP-7", "WOP-9")
def test_agents_that_the_host_makes_are_named_after_workflow_and_node(tmp_path):
    config = {"mockReasoning": True}
    definitions = [flow(f"conformance-{n}", [mock("m", config)]) for n in ("x", "y")]
    with serve(tmp_path, *definitions) as host:
        names = {host.run(f"conformance-{n}", FIVE[0])[0]["payload"]["agentId"] for n in ("x", "y")}
        assert names == {"host:mock-agent:conformance-x:m", "host:mock-agent:conformance-y:m"}


def talk(name: str, prompts: list[str], *sharings: str | None) -> dict:
    """A workflow in which one agent is asked in several nodes."""
    nodes = [
        {
            "id": f"n{number}",
            "typeId": "core.ai.callPrompt",
            "config": {"prompt": prompt},
            "agent": {"agentId": "core.talker"} | ({"agentSharing": how} if how else {}),
        }
        for number, (prompt, how) in enumerate(zip(prompts, sharings, strict=True))
    ]
    edges = [(f"n{n}", f"n{n + 1}") for n in range(len(nodes) - 1)]
    return flow(name, nodes, edges)


@pytest.mark.requirement("WOP-13", "WOP-14", "WOP-15")
def test_what_an_agent_remembers_follows_its_sharing(tmp_path):
    definitions = [
        talk("alone", ["a", "b", "c"], None, "isolated", None),
        talk("together", ["a", "b", "c"], "shared", "shared", "shared"),
        talk("groups", ["a", "b", "c", "d"], "shared:x", "shared:y/ü", "shared:x", "shared:y/ü"),
    ]
    with serve(tmp_path, *definitions) as host:

        def texts(name: str) -> list[str]:
            return [e["payload"]["outputs"]["text"] for e in host.run(name, "node.completed")]

        assert texts("alone") == ["[0 earlier] a", "[0 earlier] b", "[0 earlier] c"]
        assert texts("together") == ["[0 earlier] a", "[1 earlier] b", "[2 earlier] c"]
        assert texts("groups") == [
            "[0 earlier] a", "[0 earlier] b", "[1 earlier] c", "[1 earlier] d",
        ]  # fmt: skip


@pytest.mark.requirement("WOP-16", "WOP-29", "WOP-30", "WOP-32", "WOP-33", "WOP-34", "WOP-35")
def test_messages_go_to_a_channel_once_each_and_name_their_group(tmp_path, host):
    run = host.start("conformance-message-reducer")
    snapshot = host.until(run, "completed")
    assert [m["messageId"] for m in snapshot["channels"]["messages"]] == [
        "emit-duplicate-message:0:0"
    ]
    (duplicate,) = host.events(run, "log.appended")
    assert duplicate["payload"]["fields"]["duplicate"] is True
    definition = talk("chat", ["hello"], "shared:g")
    definition["nodes"][0]["config"]["channel"] = "board"
    definition["channels"] = {"board": {"schema": {"type": "array"}, "reducer": "message"}}
    with serve(tmp_path, definition) as other:
        run = other.start("chat")
        (message,) = other.until(run, "completed")["channels"]["board"]
        assert (message["from"], message["groupId"]) == ("core.talker", "g")
        assert message["content"] == "[0 earlier] hello"
        assert type(message["ts"]) is int


ONLY_ECHO = {"toolAllowlist": ["openwop.echo:echo"]}
TWO_CALLS = {
    "mockReasoning": True,
    "mockToolCalls": [
        {"toolId": "openwop.echo:echo", "arguments": [], "result": 1},
        {"toolId": "mcp:shell", "arguments": {"rm": "-rf"}, "result": 2},
    ],
}


@pytest.mark.requirement("WOP-17", "WOP-56", "WOP-61")
def test_a_tool_outside_the_allowlist_is_never_dispatched_and_that_is_on_record(tmp_path):
    definition = flow("conformance-allow", [mock("m", TWO_CALLS, agentId="core.narrow")])
    with serve(tmp_path, definition, manifests=[manifest("core.narrow", **ONLY_ECHO)]) as host:
        found = host.run("conformance-allow", *FIVE)
        assert [e["type"] for e in found] == [FIVE[2], *FIVE[:3]]
        row = found[0]
        assert "causationId" not in row
        assert row["payload"]["toolId"] == "mcp:shell"
        assert row["payload"]["status"] == "forbidden"
        assert not {"result", "durationMs"} & set(row["payload"])
        assert found[2]["payload"]["toolId"] == "openwop.echo:echo"


@pytest.mark.requirement("WOP-18", "WOP-19")
def test_the_role_of_an_agent_decides_its_tools_before_its_manifest_does(tmp_path):
    definition = flow("conformance-role", [mock("m", TWO_CALLS, agentId="core.plain")])
    roles = {"reader": ("mcp:shell",), "nobody": ()}
    for role, allowed in (("reader", ["mcp:shell"]), ("nobody", []), ("worker", [0, 1])):
        place = tmp_path / role
        place.mkdir()
        with serve(place, definition, roles=roles, agent_roles={"core.plain": role}) as host:
            tools = ["openwop.echo:echo", "mcp:shell"]
            kept = host.engine.agents.filter_tools(role, tools)
            assert kept == [t for t in tools if role == "worker" or t in allowed]
            called = host.run("conformance-role", "agent.toolCalled")
            assert [e["payload"]["toolId"] for e in called] == kept


WITNESS = """
import json, pathlib, sys
given = json.load(sys.stdin)
text = "".join(p.read_text() for p in pathlib.Path(given["home"], "journal").glob("*.jsonl"))
with open(given["count"], "a") as file:
    file.write("x")
print(json.dumps([text.count("agent.toolCalled"), text.count("agent.toolReturned")]))
"""


def witness(tmp_path, **more) -> tuple[dict, dict]:
    """A tool that prints what is recorded while it runs, and counts its calls."""
    command = (sys.executable, "-c", WITNESS)
    tool = ToolProgram(id="local:witness", command=command, **more)
    given = {"home": str(tmp_path / "home"), "count": str(tmp_path / "count")}
    return {"local:witness": tool}, given


@pytest.mark.requirement("WOP-48", "WOP-54", "WOP-61")
def test_a_call_is_on_record_before_it_is_made_and_its_end_after(tmp_path):
    tools, given = witness(tmp_path)
    node = {"id": "t", "typeId": "core.tool.call"}
    node["config"] = {"toolId": "local:witness", "arguments": given}
    with serve(tmp_path, flow("tooled", [node]), tools=tools) as host:
        called, returned = host.run("tooled", *FIVE)
        assert returned["payload"]["result"] == [1, 0]
        assert called["payload"]["agentId"] == "core.system"
        assert called["payload"]["principal"] == "core.system"
        assert returned["causationId"] == called["eventId"]
        source = called["runId"]
        fork = host.fork(source, mode="replay").json()["runId"]
        host.until(fork, "completed")
        assert pairs(host.events(fork)) == pairs(host.events(source))
    assert (tmp_path / "count").read_text() == "x"  # a replay calls nothing


@pytest.mark.requirement("WOP-17", "WOP-58", "WOP-59", "WOP-42")
def test_a_model_calls_the_tools_it_may_and_gets_an_error_for_the_others(tmp_path):
    tools, given = witness(tmp_path)
    prompt = f"call local:witness {json.dumps(given)}\ncall local:other 1"
    node = {"id": "m", "typeId": "core.ai.callPrompt", "agent": {"agentId": "core.narrow"}}
    node["config"] = {"prompt": prompt, "tools": ["local:witness", "local:other"]}
    only = {"toolAllowlist": ["local:witness"]}
    definition = flow("asks", [node])
    manifests = [manifest("core.narrow", **only)]
    tools["local:other"] = ToolProgram(id="local:other", command=("false",))
    with serve(tmp_path, definition, tools=tools, manifests=manifests) as host:
        found = host.run("asks", *FIVE, "provider.usage")
        kinds = [e["type"] for e in found]
        assert kinds == [
            FIVE[2],  # said beforehand: not allowed
            "provider.usage", FIVE[0], FIVE[1], FIVE[2], FIVE[1], FIVE[2],
            "provider.usage", FIVE[0], FIVE[4],
        ]  # fmt: skip
        assert found[4]["payload"]["result"] == [1, 1]
        late = found[6]["payload"]
        assert (late["status"], late["error"]["code"]) == ("forbidden", "forbidden")
        assert late["callId"] == found[5]["payload"]["callId"]


def test_scopes_and_rates_are_held_before_a_tool_is_invoked(tmp_path):
    tools, given = witness(tmp_path, scopes=("danger",))
    slow = ToolProgram(id="local:slow", command=("true",), per_second=0.001, burst=1)
    node = {"id": "t", "typeId": "core.tool.call"}
    config = {"toolId": "local:witness", "arguments": given}
    key = Key(digest=digest("ann's"), principal="ann", scopes=frozenset({"write"}))
    again = [
        {"id": n, "typeId": "core.tool.call", "config": {"toolId": "local:slow"}} for n in "ab"
    ]
    definitions = [
        flow("guarded", [{**node, "config": config}]),
        flow("often", again, [("a", "b")]),
    ]
    with serve(tmp_path, *definitions, tools=tools | {"local:slow": slow}, keys=(key,)) as host:
        host.http.headers["Authorization"] = "Bearer ann's"
        run = host.start("guarded")
        assert host.until(run, "failed")["error"]["code"] == "forbidden"
        (returned,) = host.events(run, "agent.toolReturned")
        assert returned["payload"]["status"] == "forbidden"
        assert returned["payload"]["error"]["details"]["requiredScopes"] == ["danger"]
        run = host.start("often")
        assert host.until(run, "failed")["error"]["code"] == "rate_limited"
        statuses = [e["payload"]["status"] for e in host.events(run, "agent.toolReturned")]
        assert statuses == ["ok", "rate_limited"]
    assert not (tmp_path / "count").exists()


def decider(name: str, confidence: float | None, **agent) -> dict:
    decision = {"decision": {"go": "left"}}
    decision |= {} if confidence is None else {"confidence": confidence}
    agent = agent or {"agentId": "core.decider"}
    return flow(f"conformance-{name}", [mock("d", {"mockDecision": decision}, **agent)])


@pytest.mark.requirement("WOP-21", "WOP-22", "WOP-23", "WOP-24", "WOP-28")
def test_the_threshold_is_the_runs_then_the_manifests_then_seven_tenths(tmp_path):
    strict = {"agentId": "core.strict"}
    definitions = [
        decider("below", 0.6999),
        decider("at", 0.7),
        decider("none", None),
        decider("strict-below", 0.89, **strict),
        decider("strict-at", 0.9, **strict),
    ]
    declared = manifest("core.strict", confidence={"defaultThreshold": 0.9})
    cases = [
        ("below", None, "waiting-approval", 0.7),
        ("at", None, "completed", None),
        ("none", None, "completed", None),
        ("strict-below", None, "waiting-approval", 0.9),
        ("strict-at", None, "completed", None),
        ("strict-below", 0.89, "completed", None),
        ("at", 1, "waiting-approval", 1),
        ("below", 0, "completed", None),
        ("none", 1, "completed", None),
    ]
    # Who reads the log has no manifest: to them 0.89 is sure enough.
    odd = "escalation-not-needed"
    with serve(tmp_path, *definitions, manifests=[declared], tolerated=odd) as host:
        for name, given, status, threshold in cases:
            options = {} if given is None else {"escalationThreshold": given}
            run = host.start(f"conformance-{name}", configurable=options)
            host.until(run, status)
            (decided,) = host.events(run, "agent.decided")
            actions = [e for e in host.events(run) if e.get("causationId") == decided["eventId"]]
            assert len(actions) == (0 if threshold is None else 1), name
            if threshold is not None:
                (suspended,) = host.events(run, "node.suspended")
                assert suspended["payload"]["threshold"] == threshold


@pytest.mark.requirement("WOP-26", "WOP-24", "WOP-96")
@pytest.mark.parametrize(
    ("value", "decision"),
    [
        ({"answers": {"decision": {"go": "right"}}}, {"go": "right"}),
        ({"answers": [{"id": "decision", "answer": 7}]}, 7),
        ({"decision": None}, None),
        ({"action": "accept"}, {"go": "left"}),
        ({"action": "reject"}, None),
    ],
)
def test_without_a_supervisor_a_person_is_asked_and_ratifies_in_any_form(tmp_path, value, decision):
    with serve(tmp_path, flow("conformance-low", [mock("d", LOW, agentId="core.decider")])) as host:
        run = host.start("conformance-low")
        assert host.until(run, "waiting-approval")["currentNodeId"] == "d"
        asked, suspended = host.events(run, "interrupt.requested", "node.suspended")
        assert asked["payload"]["kind"] == "clarification"
        assert asked["payload"]["key"] == suspended["payload"]["key"]
        for wrong in ({}, {"action": "maybe"}, 3, None):
            assert host.answer(run, "d", wrong).status_code == 400
        assert host.answer(run, "d", value).status_code == 200
        if value == {"action": "reject"}:
            assert host.until(run, "failed")["error"]["code"] == "approval_rejected"
            return
        host.until(run, "completed")
        ratified = host.events(run, "agent.decided")[-1]
        wanted = {"agentId": "core.decider", "decision": decision, "ratified": True}
        assert ratified["payload"] == wanted
        kinds = [e["type"] for e in host.events(run)][5:8]
        assert kinds == ["clarification.resolved", "interrupt.resolved", "node.resumed"]


def supervised() -> dict:
    lead = {"id": "lead", "typeId": "core.orchestrator.supervisor"}
    lead |= {"config": {"mockDecisions": [{"kind": "next-worker", "nextWorkerIds": ["scout"]}]}}
    scout = mock("scout", LOW, agentId="core.scout", agentSharing="shared:s", modelClass="research")
    return flow("conformance-led", [lead, scout], [("lead", "scout")])


@pytest.mark.requirement("WOP-25", "WOP-69")
def test_with_a_supervisor_the_action_is_its_decision_to_ask(tmp_path):
    with serve(tmp_path, supervised()) as host:
        run = host.start("conformance-led", configurable={"escalationThreshold": 0.6})
        snapshot = host.until(run, "waiting-approval")
        lead = "host:supervisor:conformance-led:lead"
        assert snapshot["runOrchestrator"]["agentId"] == lead
        (decided,) = host.events(run, "agent.decided")
        actions = [e for e in host.events(run) if e.get("causationId") == decided["eventId"]]
        (asks,) = actions
        assert (asks["type"], asks["nodeId"]) == ("runOrchestrator.decided", "lead")
        assert asks["payload"]["agentId"] == lead
        assert asks["payload"]["decision"]["kind"] == "ask-user"
        (asked,) = host.events(run, "interrupt.requested")
        assert (asked["payload"]["kind"], asked["causationId"]) == (
            "low-confidence",
            asks["eventId"],
        )
        assert asked["payload"]["data"]["observed"] == 0.5
        assert host.answer(run, "scout", {"action": "accept"}).status_code == 200
        host.until(run, "completed")
        assert not host.events(run, "clarification.resolved")


@pytest.mark.requirement("WOP-27", "WOP-75")
def test_a_host_that_opted_out_writes_the_breach_and_offers_no_orchestration(tmp_path):
    with serve(tmp_path, supervised(), escalation="suppress") as host:
        said = host.http.get("/.well-known/openwop").json()
        assert not said["agents"]["orchestrator"]
        assert not [name for name in said["fixtures"] if "low-conf" in name or "orch" in name]
        run = host.start("conformance-agent-low-confidence")
        host.until(run, "completed")
        decided, breach = host.events(run, "agent.decided", "cap.breached")
        assert breach["payload"] == {
            "kind": "confidence-escalation-suppressed", "limit": 0.7, "observed": 0.5,
            "nodeId": "low-conf-decider", "agentId": "core.conformance.low-conf-decider",
        }  # fmt: skip
        assert breach["causationId"] == decided["eventId"]
        assert not host.events(run, "interrupt.requested")
        response = host.http.post("/v1/runs", json={"workflowId": "conformance-led"})
        assert response.status_code == 422
        details = response.json()["details"]
        assert details["requiredCapability"] == "agents.orchestrator"


@pytest.mark.requirement("WOP-69")
@pytest.mark.parametrize("value", [{"kind": "terminate"}, {"action": "accept"}])
def test_a_supervisor_that_is_not_sure_holds_its_decision(host, value):
    run = host.start("conformance-orchestrator-low-confidence")
    host.until(run, "waiting-approval")
    assert not host.events(run, "runOrchestrator.decided", "agent.decided")
    (suspended,) = host.events(run, "node.suspended")
    assert suspended["payload"]["agentId"] == "core.conformance.low-conf-supervisor"
    assert host.answer(run, "supervisor", {"decision": {"kind": "dance"}}).status_code == 400
    assert host.answer(run, "supervisor", value).status_code == 200
    host.until(run, "completed")
    decided = host.events(run, "runOrchestrator.decided")
    kinds = [e["payload"]["decision"]["kind"] for e in decided]
    accepted = "action" in value
    assert kinds == (["next-worker", "terminate"] if accepted else ["terminate"])


def test_a_supervisor_dispatches_children_and_ends_with_terminate(host):
    run = host.start("conformance-orchestrator-dispatch")
    snapshot = host.until(run, "completed")
    decided = [e["payload"] for e in host.events(run, "runOrchestrator.decided")]
    assert [each["decision"]["kind"] for each in decided] == ["next-worker", "terminate"]
    assert {each["agentId"] for each in decided} == {snapshot["runOrchestrator"]["agentId"]}
    (dispatched,) = host.events(run, "node.dispatched")
    child = dispatched["payload"]["childRunId"]
    assert host.snapshot(child)["status"] == "completed"
    assert dispatched["causationId"] == host.events(run, "runOrchestrator.decided")[0]["eventId"]
    fork = host.fork(run, mode="replay").json()["runId"]
    host.until(fork, "completed")
    assert pairs(host.events(fork)) == pairs(host.events(run))  # and no child is begun again
    run = host.start("conformance-orchestrator-terminate")
    host.until(run, "completed")
    (only,) = host.events(run, "runOrchestrator.decided")
    assert only["payload"]["decision"]["kind"] == "terminate"


@pytest.mark.parametrize("supervisor", [True, False], ids=["A", "D"])
def test_a_held_decision_that_is_rejected_ends_the_run(tmp_path, supervisor):
    with serve(tmp_path, supervised()) as host:
        name = "conformance-led" if supervisor else "conformance-orchestrator-low-confidence"
        run = host.start(name)
        node = host.until(run, "waiting-approval")["currentNodeId"]
        before = len(host.events(run))
        assert host.answer(run, node, {"action": "reject"}).status_code == 200
        assert host.until(run, "failed")["error"]["code"] == "approval_rejected"
        kinds = [e["type"] for e in host.events(run)[before:]]
        assert kinds == ["interrupt.resolved", "node.failed", "run.failed"]


def dispatching(*decisions: dict, **config) -> dict:
    lead = {"id": "lead", "typeId": "core.orchestrator.supervisor"}
    lead |= {"config": {"mockDispatchPlan": list(decisions)}}
    send = {"id": "send", "typeId": "core.dispatch", "config": config}
    return flow("conformance-sends", [lead, send], [("lead", "send"), ("send", "lead")])


def test_a_supervisor_that_asks_is_answered_at_the_dispatch_and_decides_again(tmp_path):
    with serve(tmp_path, dispatching({"kind": "ask-user", "prompt": "Which way?"})) as host:
        run = host.start("conformance-sends")
        assert host.until(run, "waiting-input")["currentNodeId"] == "send"
        (asked,) = host.events(run, "interrupt.requested")
        (decided,) = host.events(run, "runOrchestrator.decided")
        assert asked["payload"]["kind"] == "clarification"
        assert asked["causationId"] == decided["eventId"]
        assert host.answer(run, "send", {"answers": {"answer": "left"}}).status_code == 200
        host.until(run, "completed")
        (first, _) = [e["payload"]["outputs"] for e in host.events(run, "node.completed")
                      if e["nodeId"] == "send"]  # fmt: skip
        assert first == {"answer": "left"}
        kinds = [e["payload"]["decision"]["kind"] for e in host.events(run, "runOrchestrator.decided")]  # fmt: skip
        assert kinds == ["ask-user", "terminate"]


@pytest.mark.parametrize(
    ("workers", "config", "code"),
    [
        (["conformance-noop", "conformance-failure"], {"fanOutPolicy": "sequential"}, "child_failed"),
        (["conformance-noop", "conformance-noop"], {"fanOutPolicy": "reject"}, "fan_out_unsupported"),
        (["nobody"], {}, "child_failed"),
    ],
)  # fmt: skip
def test_a_dispatch_that_fails_says_why_and_ends_the_run(tmp_path, workers, config, code):
    decision = {"kind": "next-worker", "nextWorkerIds": workers}
    with serve(tmp_path, dispatching(decision, **config)) as host:
        run = host.start("conformance-sends")
        assert host.until(run, "failed")["error"]["code"] == code
        sent = [e["payload"]["childWorkflowId"] for e in host.events(run, "node.dispatched")]
        assert sent == (workers if "conformance-failure" in workers else [])
        assert not host.events(run, "agent.handoff")


@pytest.mark.parametrize("setting", ["config", "settings"])
def test_a_loop_ends_at_its_cap(tmp_path, setting):
    turns = [{"kind": "next-worker", "nextWorkerIds": ["conformance-noop"]}] * 5
    config = {"iterationCap": 2} if setting == "config" else {}
    definition = dispatching(*turns, **config)
    if setting == "settings":
        definition["settings"] = {"timeout": 60_000, "maxLoopbackIterations": 2}
    with serve(tmp_path, definition) as host:
        run = host.start("conformance-sends")
        assert host.until(run, "failed")["error"]["code"] == "loop_limit_exceeded"
        (breach,) = host.events(run, "cap.breached")
        said = breach["payload"]
        assert (said["kind"], said["limit"], said["observed"]) == ("loop-iterations", 2, 3)
        assert len(host.events(run, "node.dispatched")) == 2


def test_a_cancelled_parent_cancels_its_child(tmp_path):
    parent = {
        "id": "p",
        "typeId": "core.subWorkflow",
        "config": {"workflowId": "conformance-delay"},
    }
    parent["inputs"] = {"delayMs": {"type": "static", "value": 30000}}
    with serve(tmp_path, flow("outer", [parent])) as host:
        run = host.start("outer")
        (dispatched,) = soon(host, run, "node.dispatched")
        child = dispatched["payload"]["childRunId"]
        host.until(child, "running")
        host.http.post(f"/v1/runs/{run}/cancel", json={})
        host.until(run, "cancelled")
        host.until(child, "cancelled")
        end = host.events(child)[-1]["payload"]
        assert (end["reason"], end["parentRunId"]) == ("parent-cancelled", run)


def soon(host, run: str, kind: str) -> list[dict]:
    found = host.http.get(f"/v1/runs/{run}/events/poll?lastSequence=1&timeout=10").json()["events"]
    return [e for e in found if e["type"] == kind]


def test_a_sub_workflow_gives_its_outputs_and_a_failed_one_fails_its_parent(tmp_path):
    parent = {
        "id": "p",
        "typeId": "core.subWorkflow",
        "config": {"workflowId": "conformance-identity"},
    }
    parent["inputs"] = {"payload": {"type": "static", "value": {"a": 1}}}
    bad = {"id": "p", "typeId": "core.subWorkflow", "config": {"workflowId": "conformance-failure"}}
    loop = {"id": "p", "typeId": "core.subWorkflow", "config": {"workflowId": "loop"}}
    calm = {**bad, "config": {**bad["config"], "onChildFailure": "absorb"}}
    flows = {"good": parent, "bad": bad, "loop": loop, "calm": calm}
    with serve(tmp_path, *(flow(name, [node]) for name, node in flows.items())) as host:
        run = host.start("calm")
        assert host.until(run, "completed")["variables"]["childStatus"] == "failed"
        run = host.start("good")
        assert host.until(run, "completed")["variables"]["payload"] == {"a": 1}
        run = host.start("bad")
        assert host.until(run, "failed")["error"]["code"] == "child_failed"
        run = host.start("loop")
        assert host.until(run, "failed")["error"]["code"] == "child_failed"


LONG = "Ünsure. " * 1000
THOUGHTS = {"mockReasoning": {"summary": LONG, "trace": LONG * 2, "tokenCount": 3}}


@pytest.mark.requirement("WOP-44", "WOP-45", "WOP-46", "WOP-88", "WOP-41")
def test_verbosity_decides_how_much_reasoning_is_recorded(tmp_path):
    definition = flow("conformance-long", [mock("m", THOUGHTS, agentId="core.thinker")])
    with serve(tmp_path, definition) as host:
        bound = host.http.get("/.well-known/openwop").json()
        limit = bound["capabilities"]["agents"]["reasoning"]["tokenLimit"]
        (reasoned,) = host.run("conformance-long", FIVE[0])
        text = reasoned["payload"]["reasoning"]
        assert 2 * limit - 8 < cost(text) <= 2 * limit == 1024
        assert len(text.encode()) <= 4 * limit
        assert text.endswith("…")
        assert LONG.startswith(text[:-1])
        assert set(reasoned["payload"]) == {"agentId", "reasoning", "verbosity"}
        full = {"reasoningVerbosity": "full"}
        (reasoned,) = host.run("conformance-long", FIVE[0], configurable=full)
        assert reasoned["payload"] == {
            "agentId": "core.thinker", "reasoning": LONG * 2, "verbosity": "full",
        }  # fmt: skip
        off = {"reasoningVerbosity": "off"}
        kinds = ("agent.reasoned", "agent.reasoning.delta")
        assert host.run("conformance-long", *kinds, configurable=off) == []
        streaming = "conformance-agent-reasoning-streaming"
        assert host.run(streaming, *kinds, configurable=off) == []


@pytest.mark.requirement("WOP-44")
@pytest.mark.parametrize(
    ("dense", "most"), [("7", 512), ("§", 512), ("語", 256), ("🜁", 171), ("{", 512), ("q", 1024)]
)
def test_dense_text_is_cut_before_it_has_too_many_tokens(tmp_path, dense, most):
    """A tokenizer needs a token for each figure or sign, and several for a rare character."""
    definition = flow(
        "conformance-dense",
        [mock("m", {"mockReasoning": {"summary": dense * 3000}}, agentId="core.t")],
    )
    with serve(tmp_path, definition) as host:
        (reasoned,) = host.run("conformance-dense", FIVE[0])
        text = reasoned["payload"]["reasoning"]
        assert most - 8 < len(text) <= most
        assert text == dense * (len(text) - 1) + "…"


@pytest.mark.requirement("WOP-43")
def test_a_secret_is_in_nothing_that_the_host_keeps_or_says(tmp_path):
    own = "correct horse battery staple"
    chunks = [f"my key is {SECRET[:9]}", f"{SECRET[9:]} and {own[:5]}", f"{own[5:]}."]
    error = {"error": "boom", "message": f"Bearer {SECRET}", "details": {"why": own}}
    config = {
        "mockReasoning": {"summary": "x", "streamChunks": chunks},
        "mockToolCalls": [
            {
                "toolId": "mcp:a",
                "arguments": {"apiKey": "plain", "say": own},
                "result": {"token": 5},
            },
            {"toolId": "mcp:b", "arguments": SECRET, "error": error},
        ],
        "mockHandoff": {"toAgentId": "core.next", "reason": own, "context": [SECRET]},
        "mockDecision": {"decision": {"do": SECRET}, "confidence": 0.1, "reasoning": own},
    }
    hidden = {"name": "pin", "type": "string", "required": True, "sensitive": True}
    copy = {"id": "c", "typeId": "core.identity"}
    copy["inputs"] = {"pin": {"type": "variable", "variableName": "pin"}}
    definition = flow(
        "conformance-secret",
        [copy, mock("m", config, agentId="core.spy")],
        [("c", "m")],
        variables=[hidden],
    )
    with serve(tmp_path, definition, secrets={"diary": own}) as host:
        run = host.start("conformance-secret", inputs={"pin": "hunter22"},
                         metadata={"note": own, "credentialRef": "vault-ref-1"})  # fmt: skip
        host.until(run, "waiting-approval")
        answer = {"decision": {"new": SECRET}}
        assert host.answer(run, "m", answer).status_code == 200
        host.until(run, "completed")
        seen = json.dumps(
            [host.events(run), host.snapshot(run), host.stream(run, "?streamMode=debug")]
        )
        deltas = [e["payload"]["delta"] for e in host.events(run, "agent.reasoning.delta")]
        assert "".join(deltas) == host.events(run, FIVE[0])[0]["payload"]["reasoning"]
        assert "[REDACTED:diary]" in seen
        assert "[REDACTED:apiKey]" in seen
        assert "[REDACTED:pin]" in seen
        fork = host.fork(run, mode="replay").json()["runId"]
        host.until(fork, "completed")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    for secret in (SECRET, own, "vault-ref-1", "hunter22", "plain"):
        assert secret not in seen, secret
        assert secret.encode() not in kept, secret


def test_a_secret_is_found_however_a_text_is_cut():
    redactor = Redactor({"s": "abcd-efgh"})
    text = f"x abcd-efgh y {SECRET} z"
    whole = redactor.text(text)
    for first in range(len(text)):
        for second in range(first, len(text)):
            pieces = [text[:first], text[first:second], text[second:]]
            assert "".join(redactor.pieces(pieces)) == whole


WORDS = [
    "sk-",
    "x" * 16,
    "Bearer",
    " ",
    "\n",
    "a pass phrase",
    "phrase",
    "eyJ" + "j" * 8,
    ".",
    "ü",
    "，",
]


@given(st.lists(st.sampled_from(WORDS) | st.text("sk- aB", max_size=4), max_size=30), st.data())
def test_a_growing_text_is_redacted_as_the_complete_text_is(words, chance):
    redactor, whole = Redactor({"p": "a pass phrase", "q": "xxxxBearer"}), "".join(words)
    told = held = ""
    while whole:
        cut = chance.draw(st.integers(1, len(whole)))
        held, whole = held + whole[:cut], whole[cut:]
        end = redactor.settled(held)
        told, held = told + redactor.text(held[:end]), held[end:]
    assert told + redactor.text(held) == redactor.text("".join(words))


ADVERTISED = {
    "reasoning_events": "reasoningEvents",
    "tool_events": "toolEvents",
    "handoff_events": "handoffEvents",
    "decision_events": "decisionEvents",
}


@pytest.mark.requirement("WOP-74", "WOP-75", "WOP-77")
@pytest.mark.parametrize(
    ("flag", "gone"),
    [
        ("reasoning_events", {"agent.reasoned", "agent.reasoning.delta"}),
        ("tool_events", {"agent.toolCalled", "agent.toolReturned"}),
        ("handoff_events", {"agent.handoff"}),
        ("decision_events", {"agent.decided"}),
        ("streaming", {"agent.reasoning.delta"}),
    ],
)
def test_what_is_not_advertised_is_not_written_and_the_run_goes_on(tmp_path, flag, gone):
    both = {**TWO_CALLS, "mockReasoning": {"summary": "s", "streamChunks": ["a", "b"]}}
    both |= {"mockHandoff": {"toAgentId": "core.next"}, **LOW}
    low = flow("conformance-all", [mock("m", both, agentId="core.m")])
    with serve(tmp_path, low, **{flag: False}) as host:
        run = host.start("conformance-all")
        host.until(run, "completed" if flag == "decision_events" else "waiting-approval")
        kinds = {e["type"] for e in host.events(run)}
        every = {*FIVE, "agent.reasoning.delta"}
        assert kinds & every == every - gone
        said = host.http.get("/.well-known/openwop").json()
        assert said["agents"]["supported"] is (flag == "streaming")
        # Each flag says what the host does: false exactly where the events are not written.
        block = said["capabilities"]["agents"]
        assert {name: block[name] for name in ADVERTISED.values()} == {
            name: setting != flag for setting, name in ADVERTISED.items()
        }
        if flag == "reasoning_events":
            assert "reasoning" not in block
        else:
            assert block["reasoning"]["streaming"] is (flag != "streaming")
        assert said["toolHooks"]["supported"] is (flag != "tool_events")


@pytest.mark.requirement("WOP-81", "WOP-82")
def test_a_replay_of_an_answered_run_asks_nobody_and_calls_no_model(tmp_path):
    unsure = talk("unsure", ["confidence 0.2"], "shared")
    with serve(tmp_path, unsure) as host:
        run = host.start("unsure")
        host.until(run, "waiting-approval")
        waiting = host.fork(run, mode="replay").json()["runId"]
        host.until(waiting, "waiting-approval")
        assert host.answer(run, "n0", {"decision": {"text": "as I say"}}).status_code == 200
        assert host.until(run, "completed")["variables"]["text"] == "as I say"
        asked = 0
        real = host.engine.model.ask

        async def counting(*arguments):
            nonlocal asked
            asked += 1
            return await real(*arguments)

        host.engine.model.ask = counting
        fork = host.fork(run, mode="replay").json()["runId"]
        host.until(fork, "completed")
        assert pairs(host.events(fork)) == pairs(host.events(run))
        # The one that was forked while its source waited is a run of its own from there on.
        assert host.answer(waiting, "n0", {"action": "accept"}).status_code == 200
        host.until(waiting, "completed")
        assert asked == 0
        branch = host.fork(run, mode="branch", fromSeq=3,
                           runOptionsOverlay={"configurable": {"escalationThreshold": 0.1}})  # fmt: skip
        name = branch.json()["runId"]
        host.until(name, "completed")
        assert (branch.json()["fromSeq"], asked) == (3, 1)
        assert pairs(host.events(name)[1:3]) == pairs(host.events(run)[1:3])


def test_replays_of_runs_that_failed_or_were_cancelled_end_as_they_did(tmp_path, host):
    failed = host.start("conformance-failure")
    host.until(failed)
    capped = host.start("conformance-cap-breach", configurable={"recursionLimit": 2})
    host.until(capped)
    cancelled = host.start("conformance-cancellable")
    host.until(cancelled, "running")
    host.http.post(f"/v1/runs/{cancelled}/cancel", json={})
    host.until(cancelled)
    rejected = host.start("conformance-approval")
    host.until(rejected, "waiting-approval")
    host.answer(rejected, "gate", {"action": "reject"})
    host.until(rejected)
    for run in (failed, capped, cancelled, rejected):
        fork = host.fork(run, mode="replay").json()["runId"]
        host.until(fork)
        assert pairs(host.events(fork)) == pairs(host.events(run))


def test_a_replay_says_where_it_came_out_otherwise(tmp_path):
    """The source was written by another hand: its node gave another output."""
    with Host(tmp_path) as host:
        run = host.start("conformance-identity", inputs={"payload": {"a": 1}})
        host.until(run)
        log = host.engine.known(run)
        log.events[2]["payload"]["outputs"] = {"payload": {"a": 2}}
        lines = [json.dumps(e).replace(run, "run-of-another-hand").encode() for e in log.events]
        log.events[2]["payload"]["outputs"] = {"payload": {"a": 1}}
        host.home.intake.admit(signed(host.home, lines), "openwop")
        fork = host.fork("run-of-another-hand", mode="replay").json()["runId"]
        host.until(fork, "completed")
        (diverged,) = host.events(fork, "replay.diverged")
        assert diverged["payload"] == {
            "sourceRunId": "run-of-another-hand", "atSequence": 2, "originalEventId": host.engine.own.event_id("run-of-another-hand", 2),
            "divergenceKind": "output", "divergencePoint": "node.completed",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [None, True, "é\n"]}, '{"a":[null,true,"é\\n"],"b":1}'),
        ([1.0, 1e21, 1e-7, 0.000001, 123456789.125, -0.0, 5e-324, 1e20], None),
        ({"\U0001f600": 1, "\ufb33": 2}, '{"\U0001f600":1,"\ufb33":2}'),
    ],
)
def test_hashes_are_made_of_the_canonical_form(value, text):
    numbers = "[1,1e+21,1e-7,0.000001,123456789.125,0,5e-324,100000000000000000000]"
    assert canonical(value) == (text or numbers)


def test_a_tool_may_end_without_reading_its_input(tmp_path):
    programs = {"quick": ["echo", '{"n": 1}'], "fails": ["sh", "-c", "exit 3"]}
    arguments = {"text": "x" * 300_000}  # more than a pipe holds
    flows = [
        flow(
            name,
            [
                {
                    "id": "t",
                    "typeId": "core.tool.call",
                    "config": {"toolId": f"local:{name}", "arguments": arguments},
                }
            ],
            settings={"timeout": 10000, "maxRetries": 1},
        )
        for name in programs
    ]
    tools = [{"id": f"local:{name}", "command": command} for name, command in programs.items()]
    config = tmp_path / "host.json"
    folder = str(put(tmp_path / "flows", *flows)[0])
    config.write_text(json.dumps({"workflows": [folder], "tools": tools}))
    with Process(tmp_path / "home", "--config", str(config)) as host:
        for _ in range(5):
            (returned,) = host.run("quick", "agent.toolReturned")
            assert returned["payload"]["result"] == {"n": 1}
        run = host.start("fails")
        error = host.until(run, "failed")["error"]
        assert (error["code"], error["message"]) == ("tool_failed", "it ended with 3")
        assert len(host.events(run, "agent.toolReturned")) == 2
        assert len(host.events(run, "node.retried")) == 1


@pytest.mark.parametrize("ends", ["cancel", "timeout"])
def test_a_tool_that_is_cut_off_leaves_no_process_behind(tmp_path, ends):
    script = f"sleep 300 & echo $! > {tmp_path}/made; mv {tmp_path}/made {tmp_path}/pid; wait"
    seconds = 300 if ends == "cancel" else 1
    tool = ToolProgram(id="local:slow", command=("sh", "-c", script), seconds=seconds)
    node = {"id": "t", "typeId": "core.tool.call", "config": {"toolId": tool.id}}
    odd = "call-not-returned"
    with serve(tmp_path, flow("slow", [node]), tools={tool.id: tool}, tolerated=odd) as host:
        run = host.start("slow")
        assert eventually((tmp_path / "pid").exists)
        process = int((tmp_path / "pid").read_text())
        if ends == "cancel":
            assert host.http.post(f"/v1/runs/{run}/cancel", json={}).is_success
        host.until(run, "cancelled", "failed")
        assert eventually(lambda: not is_alive(process))


def is_alive(process: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    status = Path(f"/proc/{process}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_stub_goes_by_the_model_that_is_asked_for_and_ends_after_so_many_words(tmp_path):
    ask = {"id": "m", "typeId": "core.ai.callPrompt", "config": {"prompt": "one two three four"}}
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", flow("asks", [ask]))) as host:
        run = host.start("asks", configurable={"model": "large", "maxTokens": 3})
        assert host.until(run, "completed")["variables"]["text"] == "[0 earlier] one"
        (spent,) = host.events(run, "provider.usage")
        assert (spent["payload"]["model"], spent["payload"]["outputTokens"]) == ("large", 3)
        run = host.start("asks", configurable={"temperature": 0.5})
        assert host.until(run, "completed")["variables"]["text"].endswith("three four")
        (spent,) = host.events(run, "provider.usage")
        assert (spent["payload"]["model"], spent["payload"]["outputTokens"]) == ("stub", 4)
