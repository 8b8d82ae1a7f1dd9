"""The workflows that a host has: read, held against the published schema, and put in order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import yaml

from tracklog.hosts.openwop.agents import Agents, BadAgent, Ref, ref_of
from tracklog.hosts.openwop.settings import Settings

HERE = Path(__file__).parent / "published"
BASE = "https://openwop.dev/spec/v1/"
SUPERVISOR, DISPATCH, MOCK, PROMPT, TOOL = (
    "core.orchestrator.supervisor",
    "core.dispatch",
    "core.conformance.mock-agent",
    "core.ai.callPrompt",
    "core.tool.call",
)
TYPES = frozenset(
    {
        "core.noop",
        "core.identity",
        "core.delay",
        "core.fail",
        "core.approvalGate",
        "core.clarificationGate",
        "core.subWorkflow",
        PROMPT,
        TOOL,
        SUPERVISOR,
        DISPATCH,
        MOCK,
    }
)
MAPPINGS = ("inputMapping", "outputMapping", "perWorkerInputMappings", "perWorkerOutputMappings")
MOCKS = ("mockDecisions", "mockDispatchPlan", "mockConfidence", "mockPendingDecision")
NEEDED = {
    "core.subWorkflow": ("workflowId",),
    PROMPT: ("prompt",),
    TOOL: ("toolId",),
}


class Refused(Exception):
    """A definition that cannot be run here, and why."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a workflow."""

    id: str
    type: str
    config: Mapping[str, Any]
    ports: Mapping[str, Mapping[str, Any]]
    ref: Ref | None
    """The agent that it is given to."""
    sensitive: frozenset[str] = frozenset()
    """Outputs that are masked."""
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A workflow that can be run."""

    id: str
    source: Mapping[str, Any]
    """As it was read, and as it is served."""
    nodes: Mapping[str, Node]
    order: tuple[str, ...]
    """Topological, ties in the order of the definition."""
    upstream: Mapping[str, tuple[tuple[str, str], ...]]
    """The nodes before each, with the rule of the edge; loop edges left out."""
    loops: Mapping[str, str] = field(default_factory=dict)
    """From a dispatch node back to its supervisor."""

    @property
    def supervisor(self) -> Node | None:
        found = (node for node in self.nodes.values() if node.type == SUPERVISOR)
        return next(found, None)

    @property
    def sinks(self) -> list[str]:
        """The nodes whose outputs are the run's."""
        sources = {edge["sourceNodeId"] for edge in self.source["edges"]}
        return [node for node in self.order if node not in sources]

    def body_of_loop(self, dispatch: str) -> set[str]:
        """The nodes that are run again when a dispatch leads back to its supervisor."""
        before = self._before(dispatch)
        head = self.loops[dispatch]
        return {dispatch, head} | {node for node in before if head in self._before(node)}

    def _before(self, node: str) -> set[str]:
        found: set[str] = set()
        left = [node]
        while left:
            for source, _ in self.upstream[left.pop()]:
                if source not in found:
                    found.add(source)
                    left.append(source)
        return found

    def sensitive(self) -> set[str]:
        return {each["name"] for each in self.source["variables"] if each.get("sensitive")}

    def inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The variables of a run: defaults, overlaid by what was given."""
        found: dict[str, Any] = {}
        for variable in self.source["variables"]:
            name = variable["name"]
            if name in given:
                continue
            if "defaultValue" in variable:
                found[name] = variable["defaultValue"]
            elif variable.get("required"):
                raise Refused("validation_error", f"the input {name!r} is missing", input=name)
        return {**found, **given}


class Workflows:
    """The definitions of a host by id, and those that it refused."""

    def __init__(self, settings: Settings, agents: Agents) -> None:
        self._settings, self._agents = settings, agents
        self.known: dict[str, Definition] = {}
        self.refused: dict[str, Refused] = {}
        self.faults: list[str] = []
        """What an operator is told when the host starts."""
        self.fixtures: list[str] = []

    def load(self) -> None:
        """Reads every manifest and every workflow that the settings name."""
        for path in _documents(self._settings.manifests):
            self._manifest(path)
        if self._settings.conformance:
            for path in sorted((HERE / "workflows").glob("*.json")):
                source = orjson.loads(path.read_bytes())
                if self._add(source, path.name) and self._runs_fully(source["id"]):
                    self.fixtures.append(source["id"])
        for path in _documents(self._settings.workflows):
            try:
                source = _read(path)
            except ValueError as error:
                self.faults.append(f"{path}: {error}")
                continue
            self._add(source, str(path))

    def _manifest(self, path: Path) -> None:
        try:
            self._agents.declare(_read(path))
        except ValueError as error:
            self.faults.append(f"{path}: {error}")

    def _add(self, source: Any, where: str) -> bool:
        name = source.get("id") if isinstance(source, dict) else None
        try:
            made = define(source, self._settings)
            if made.id in self.known:
                raise Refused("validation_error", f"there is a workflow {made.id} already")  # noqa: TRY301
        except Refused as error:
            self.faults.append(f"{where}: {error.code}: {error.message}")
            if isinstance(name, str) and name not in self.known:
                self.refused[name] = error
            return False
        self.known[made.id] = made
        return True

    def _runs_fully(self, name: str) -> bool:
        """A fixture whose events are not all advertised is not offered as one."""
        if "low-confidence" in name:
            return self._settings.orchestrates
        if "streaming" in name:
            return self._settings.streaming and self._settings.reasoning_events
        return True


def _documents(folders: tuple[Path, ...]) -> Iterator[Path]:
    for place in folders:
        if place.is_dir():
            found = (each for each in place.iterdir() if each.suffix in (".json", ".yaml", ".yml"))
            yield from sorted(found)
        else:
            yield place


def _read(path: Path) -> Any:
    try:
        raw = path.read_bytes()
        return orjson.loads(raw) if path.suffix == ".json" else yaml.safe_load(raw)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"this is no JSON: {error}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"this is no YAML: {error}") from None
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    files = [orjson.loads(path.read_bytes()) for path in (HERE / "schemas").glob("*.json")]
    registry = jsonschema_rs.Registry([(schema["$id"], schema) for schema in files])
    whole = next(each for each in files if each["$id"] == f"{BASE}{name}.schema.json")
    return jsonschema_rs.Draft202012Validator(whole, registry=registry)


def faults_of(name: str, value: Any) -> str | None:
    """The first thing in which a value does not fit a published schema."""
    for error in _validator(name).iter_errors(value):
        where = "/".join(map(str, error.instance_path))
        return f"{where}: {error.message}"[:300] if where else error.message[:300]
    return None


def define(source: Any, settings: Settings) -> Definition:
    """A definition that can be run; `Refused` says why it cannot."""
    if not isinstance(source, dict):
        raise Refused("validation_error", "a workflow is a JSON object")
    try:
        refs = {
            node["id"]: ref_of(node["agent"]) for node in source.get("nodes", []) if "agent" in node
        }
    except BadAgent as error:
        raise Refused("validation_error", str(error)) from None
    except (TypeError, KeyError, AttributeError):
        refs = {}  # the schema says what is wrong
    # A pin may say more than the published shape of it: RFC 0002's own words are checked above.
    plain = {**source}
    if isinstance(source.get("nodes"), list):
        plain["nodes"] = [
            {key: value for key, value in node.items() if key != "agent"}
            if isinstance(node, dict)
            else node
            for node in source["nodes"]
        ]
    if fault := faults_of("workflow-definition", plain):
        raise Refused("validation_error", fault)
    nodes: dict[str, Node] = {}
    for node in source["nodes"]:
        made = _node(node, refs.get(node["id"]))
        if made.id in nodes:
            raise Refused("validation_error", f"there are two nodes {made.id!r}")
        nodes[made.id] = made
    for each in nodes.values():
        _check_node(source["id"], each, nodes, settings)
    return _ordered(source, nodes)


def _node(node: Mapping[str, Any], ref: Ref | None) -> Node:
    masked = {port for port, is_so in node.get("outputSensitivity", {}).items() if is_so}
    return Node(
        id=node["id"],
        type=node["typeId"],
        config=node["config"],
        ports=node["inputs"],
        ref=ref,
        sensitive=frozenset(masked),
        disabled=node.get("disabled", False),
    )


def _check_node(workflow: str, node: Node, nodes: Mapping[str, Node], settings: Settings) -> None:
    if len(node.id) > 128 or ":" in node.id or "/" in node.id:
        raise Refused(
            "validation_error", f"the node id {node.id[:50]!r} is too long, or has : or /"
        )
    if node.type not in TYPES:
        raise Refused(
            "capability_required",
            f"there is no node type {node.type}",
            requiredCapability=node.type,
            offendingTypeId=node.type,
            nodeId=node.id,
        )
    conformance = workflow.startswith("conformance-")
    if node.type == MOCK:
        _check_mock(node, conformance=conformance)
    if node.type in (SUPERVISOR, DISPATCH):
        _check_orchestration(node, settings, conformance=conformance)
    for key in NEEDED.get(node.type, ()):
        if not isinstance(node.config.get(key), str) or not node.config[key]:
            raise Refused("validation_error", f"{node.id}: {key} is missing in its config")
    _check_gates(node)
    for port, value in node.ports.items():
        if value["type"] == "expression":
            raise Refused("validation_error", f"{node.id}: {port} is an expression; none is run")
        if value["type"] == "connection" and value["nodeId"] not in nodes:
            raise Refused("validation_error", f"{node.id}: {port} comes from no node")


def _check_gates(node: Node) -> None:
    if node.type == "core.clarificationGate":
        asked = node.config.get("questions")
        ok = isinstance(asked, list) and asked and all(isinstance(each, dict) for each in asked)
        if not ok or not all(
            each.get("id") and each.get("question") and set(each) <= {"id", "question", "schema"}
            for each in asked or ()
        ):
            raise Refused("validation_error", f"{node.id}: questions need an id and a question")
    elif node.type == "core.approvalGate":
        actions = node.config.get("actions", ["accept", "reject"])
        known = {"accept", "reject", "refine", "edit-accept", "ask"}
        if not isinstance(actions, list) or not actions or not set(actions) <= known:
            raise Refused("validation_error", f"{node.id}: actions are some of {sorted(known)}")


def _check_mock(node: Node, *, conformance: bool) -> None:
    if not conformance:
        raise Refused("validation_error", f"{node.id}: {MOCK} is for conformance-* workflows only")
    if fault := faults_of("core-conformance-mock-agent-config", dict(node.config)):
        raise Refused("validation_error", f"{node.id}: {fault}")
    for call in node.config.get("mockToolCalls", []):
        if ("result" in call) == ("error" in call):
            raise Refused("validation_error", f"{node.id}: a tool call has a result or an error")


def _check_orchestration(node: Node, settings: Settings, *, conformance: bool) -> None:
    if not settings.orchestrates:
        word = "orchestrator" if node.type == SUPERVISOR else "dispatch"
        raise Refused(
            "capability_required",
            f"{node.id}: this host does not offer agents.{word}",
            requiredCapability=f"agents.{word}",
            offendingTypeId=node.type,
            nodeId=node.id,
        )
    if node.type == SUPERVISOR:
        if not conformance and any(mock in node.config for mock in MOCKS):
            raise Refused("validation_error", f"{node.id}: mocks are for conformance-* only")
        planned = node.config.get("mockDecisions", node.config.get("mockDispatchPlan", []))
        held = [node.config["mockPendingDecision"]] if "mockPendingDecision" in node.config else []
        for decision in [*planned, *held]:
            if fault := faults_of("orchestrator-decision", decision):
                raise Refused("validation_error", f"{node.id}: {fault}")
        return
    if any(key in node.config for key in MAPPINGS):
        raise Refused(
            "capability_required",
            f"{node.id}: this host maps nothing into or out of a child",
            requiredCapability="agents.dispatchMapping",
            offendingTypeId=node.type,
            nodeId=node.id,
        )
    if fault := faults_of("dispatch-config", dict(node.config)):
        raise Refused("validation_error", f"{node.id}: {fault}")


def _ordered(source: Mapping[str, Any], nodes: Mapping[str, Node]) -> Definition:
    upstream: dict[str, list[tuple[str, str]]] = {name: [] for name in nodes}
    loops: dict[str, str] = {}
    for edge in source["edges"]:
        start, end = edge["sourceNodeId"], edge["targetNodeId"]
        if start not in nodes or end not in nodes:
            raise Refused("validation_error", f"the edge {edge['id']!r} leads to or from no node")
        if "condition" in edge:
            raise Refused(
                "validation_error", f"the edge {edge['id']!r} has a condition; none is run"
            )
        if nodes[start].type == DISPATCH and nodes[end].type == SUPERVISOR:
            loops[start] = end
        else:
            upstream[end].append((start, edge.get("triggerRule", "all_success")))
    order: dict[str, None] = {}
    while len(order) < len(nodes):
        ready = next(
            (
                name
                for name in nodes
                if name not in order and all(before in order for before, _ in upstream[name])
            ),
            None,
        )
        if ready is None:
            raise Refused("validation_error", "the edges go round in a circle")
        order[ready] = None
    before = {name: tuple(pairs) for name, pairs in upstream.items()}
    return Definition(source["id"], source, nodes, tuple(order), before, loops)
