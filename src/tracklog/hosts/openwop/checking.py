"""Check a workflow: every fault at once, each with its place."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson

from tracklog.hosts.openwop.agents import BadAgent, ref_of
from tracklog.hosts.openwop.definitions import (
    DISPATCH,
    MOCK,
    PROMPT,
    SUPERVISOR,
    TOOL,
    TYPES,
    Node,
    Refused,
)
from tracklog.hosts.openwop.settings import Settings

HERE = Path(__file__).parent / "published"
BASE = "https://openwop.dev/spec/v1/"
MAPPINGS = ("inputMapping", "outputMapping", "perWorkerInputMappings", "perWorkerOutputMappings")
MOCKS = ("mockDecisions", "mockDispatchPlan", "mockConfidence", "mockPendingDecision")
NEEDED = {
    "core.subWorkflow": ("workflowId",),
    PROMPT: ("prompt",),
    TOOL: ("toolId",),
}
ACTIONS = ("accept", "reject", "refine", "edit-accept", "ask")

Faults = Iterator[Refused]


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    files = [orjson.loads(path.read_bytes()) for path in (HERE / "schemas").glob("*.json")]
    registry = jsonschema_rs.Registry([(schema["$id"], schema) for schema in files])
    whole = next(each for each in files if each["$id"] == f"{BASE}{name}.schema.json")
    return jsonschema_rs.Draft202012Validator(whole, registry=registry)


def faults_of(name: str, value: Any) -> list[str]:
    """Every fault of a value against a published schema."""
    found = []
    for error in _validator(name).iter_errors(value):
        where = "/".join(map(str, error.instance_path))
        found.append(f"{where}: {error.message}"[:300] if where else error.message[:300])
    return found


def invalid(message: str) -> Refused:
    return Refused("validation_error", message)


def check_shape(source: Mapping[str, Any]) -> Faults:
    """Check a definition against the published schema, and its agents against RFC 0002."""
    written = source.get("nodes")
    nodes = (
        [each for each in written if isinstance(each, dict)] if isinstance(written, list) else []
    )
    for node in nodes:
        try:
            ref_of(node.get("agent", {"agentId": "core.nobody"}))
        except BadAgent as error:
            yield invalid(f"{node.get('id')}: {error}")
    plain = {**source}
    if isinstance(written, list):
        # A pin may say more than the published shape of it.
        plain["nodes"] = [
            {key: value for key, value in node.items() if key != "agent"}
            if isinstance(node, dict)
            else node
            for node in written
        ]
    yield from map(invalid, faults_of("workflow-definition", plain))
    names = [node.get("id") for node in nodes]
    for name in dict.fromkeys(each for each in names if isinstance(each, str)):
        if names.count(name) > 1:
            yield invalid(f"there are two nodes {name!r}")


def check_node(workflow: str, node: Node, nodes: Mapping[str, Node], settings: Settings) -> Faults:
    """Check whether a node can be run in its workflow, among the other nodes."""
    name = node.id
    if len(name) > 128 or ":" in name or "/" in name:
        yield invalid(f"the node id {name[:50]!r} is too long, or has : or /")
    if node.type not in TYPES:
        yield _lacks(node, node.type, f"there is no node type {node.type}")
    conformance = workflow.startswith("conformance-")
    if node.type == MOCK:
        yield from _check_mock(node, conformance=conformance)
    if node.type in (SUPERVISOR, DISPATCH):
        yield from _check_orchestration(node, settings, conformance=conformance)
    for key in NEEDED.get(node.type, ()):
        if not isinstance(node.config.get(key), str) or not node.config[key]:
            yield invalid(f"{name}: {key} is missing in its config")
    yield from _check_gates(node)
    for port, value in node.ports.items():
        if value["type"] == "expression":
            yield invalid(f"{name}: {port} is an expression; none is run")
        if value["type"] == "connection" and value["nodeId"] not in nodes:
            yield invalid(f"{name}: {port} comes from no node")


def _lacks(node: Node, capability: str, message: str) -> Refused:
    return Refused(
        "capability_required",
        message,
        requiredCapability=capability,
        offendingTypeId=node.type,
        nodeId=node.id,
    )


def _check_gates(node: Node) -> Faults:
    if node.type == "core.clarificationGate":
        asked = node.config.get("questions")
        ok = isinstance(asked, list) and asked and all(isinstance(each, dict) for each in asked)
        if not ok or not all(
            each.get("id") and each.get("question") and set(each) <= {"id", "question", "schema"}
            for each in asked or ()
        ):
            yield invalid(f"{node.id}: questions need an id and a question")
    elif node.type == "core.approvalGate":
        actions = node.config.get("actions", ["accept", "reject"])
        if not isinstance(actions, list) or not actions or not all(a in ACTIONS for a in actions):
            yield invalid(f"{node.id}: actions are some of {', '.join(ACTIONS)}")


def _check_mock(node: Node, *, conformance: bool) -> Faults:
    if not conformance:
        yield invalid(f"{node.id}: {MOCK} is for conformance-* workflows only")
    faults = faults_of("core-conformance-mock-agent-config", dict(node.config))
    yield from (invalid(f"{node.id}: {fault}") for fault in faults)
    for call in () if faults else node.config.get("mockToolCalls", []):
        if ("result" in call) == ("error" in call):
            yield invalid(f"{node.id}: a tool call has a result or an error")


def _check_orchestration(node: Node, settings: Settings, *, conformance: bool) -> Faults:
    config = node.config
    if not settings.orchestrates:
        word = "orchestrator" if node.type == SUPERVISOR else "dispatch"
        yield _lacks(node, f"agents.{word}", f"{node.id}: this host does not offer agents.{word}")
    if node.type == SUPERVISOR:
        if not conformance and any(mock in config for mock in MOCKS):
            yield invalid(f"{node.id}: mocks are for conformance-* only")
        planned = config.get("mockDecisions", config.get("mockDispatchPlan", []))
        held = [config["mockPendingDecision"]] if "mockPendingDecision" in config else []
        for decision in [*planned, *held]:
            for fault in faults_of("orchestrator-decision", decision):
                yield invalid(f"{node.id}: {fault}")
    elif any(key in config for key in MAPPINGS):
        text = f"{node.id}: this host maps nothing into or out of a child"
        yield _lacks(node, "agents.dispatchMapping", text)
    else:
        for fault in faults_of("dispatch-config", dict(config)):
            yield invalid(f"{node.id}: {fault}")


def check_edge(edge: Mapping[str, Any], nodes: Mapping[str, Node]) -> Faults:
    if edge["sourceNodeId"] not in nodes or edge["targetNodeId"] not in nodes:
        yield invalid(f"the edge {edge['id']!r} leads to or from no node")
    if "condition" in edge:
        yield invalid(f"the edge {edge['id']!r} has a condition; none is run")
