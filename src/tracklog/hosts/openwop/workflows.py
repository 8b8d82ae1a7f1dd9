"""The workflows of a host: loaded, checked against the published schema, and sorted."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from tracklog.hosts._yaml_text import read_yaml
from tracklog.hosts.openwop.agents import Agents, ref_of
from tracklog.hosts.openwop.checking import (
    check_child,
    check_edge,
    check_mappings,
    check_node,
    check_node_fields,
    check_order,
    check_ports,
    check_root,
    check_shape,
    check_supervisors,
    check_variables,
)
from tracklog.hosts.openwop.definitions import (
    DISPATCH,
    SUPERVISOR,
    Definition,
    DefinitionRefused,
    WorkflowNode,
    nodes_before,
)
from tracklog.hosts.openwop.kinds import KINDS, Site, invalid, is_conformance
from tracklog.hosts.openwop.schemas import PUBLISHED
from tracklog.hosts.openwop.settings import ECHO, Settings


class Workflows:
    """The definitions of a host by id, and those that it refused."""

    def __init__(self, settings: Settings, agents: Agents) -> None:
        self._settings, self._agents = settings, agents
        self.known: dict[str, Definition] = {}
        self.refused: dict[str, DefinitionRefused] = {}
        self.faults: list[str] = []
        """Faults of workflows and manifests, which are logged when the host starts."""
        self.fixtures: list[str] = []
        """Workflows for conformance tests: the published ones, and those of the operator."""

    def load(self) -> None:
        """Read every manifest and every workflow that the settings name."""
        for path in _documents(self._settings.manifests):
            self._manifest(path)
        if self._settings.conformance:
            for path in sorted((PUBLISHED / "workflows").glob("*.json")):
                self._add(orjson.loads(path.read_bytes()), path.name)
        for path in _documents(self._settings.workflows):
            try:
                source = _read(path)
            except ValueError as error:
                self.faults.append(f"{path}: {error}")
                continue
            self._add(source, str(path))
        for name, definition in self.known.items():
            tenant = definition.source.get("tenantId", self._settings.tenant)
            missing = [each.message for each in self._missing(definition, {name}, tenant)]
            self.faults += missing
            if is_conformance(name) and not missing and self._runs_fully(name):
                self.fixtures.append(name)

    def find(self, name: Any, tenant: str, *, is_taped: bool = False) -> Definition:
        """The workflow that a tenant wants to run; `DefinitionRefused` says why it cannot.

        The answers of tools may come from a tape. Then the tools need not be here.
        """
        if not isinstance(name, str) or not name:
            raise invalid("workflowId", "workflowId is missing")
        if name in self.refused:
            raise self.refused[name]
        if name not in self.known or not self.known[name].is_for(tenant):
            raise invalid("workflowId", "there is no such workflow")
        definition = self.known[name]
        if not definition.is_active:
            raise invalid("workflowId", "the workflow is not active")
        if not definition.is_begun_by_clients:
            raise invalid("workflowId", "the manual trigger of the workflow is not enabled")
        if not is_taped:
            _refuse(self._missing(definition, {name}, tenant))
        return definition

    def _missing(
        self, definition: Definition, seen: set[str], tenant: str
    ) -> Iterator[DefinitionRefused]:
        """The agents, tools, workflows and variables that a workflow names, and that are not here."""
        for node in definition.nodes.values():
            for agent in (node.ref or {}).get("agentId"), node.config.get("agentId"):
                if agent is not None and self._agents.is_refused(agent):
                    text = f"{definition.id}: the manifest of {agent} was refused"
                    yield invalid("agent", text, nodeId=node.id)
            yield from self._undeclared(definition, node)
            yield from check_mappings(node, self.known)
            for use in KINDS[node.type].uses(node):
                other = self.known.get(use.name) if use.what == "workflow" else None
                if use.what == "tool":
                    is_here = use.name == ECHO or use.name in self._settings.tools
                else:
                    is_here = other is not None and other.is_active and other.is_for(tenant)
                if not is_here:
                    calls = f"{node.id} calls the {use.what} {use.name}"
                    text = f"{definition.id}: {calls}, which is not here"
                    yield invalid(f"config.{use.property}", text, nodeId=node.id)
                elif other is not None:
                    yield from check_child(node, definition, other)
                    if other.id not in seen:
                        seen.add(other.id)
                        yield from self._missing(other, seen, tenant)

    def _undeclared(
        self, definition: Definition, node: WorkflowNode
    ) -> Iterator[DefinitionRefused]:
        """An agent that calls tools, and of which nobody has declared which it may call."""
        agent = (node.ref or {}).get("agentId")
        is_known = agent is None or self._agents.is_known(agent)
        if not is_known and any(use.what == "tool" for use in KINDS[node.type].uses(node)):
            text = f"{definition.id}: {agent} calls tools, and has neither a manifest nor a role"
            yield invalid("agent", text, nodeId=node.id)

    def _manifest(self, path: Path) -> None:
        try:
            self._agents.declare(_read(path))
        except ValueError as error:
            self.faults.append(f"{path}: {error}")

    def _add(self, source: Any, where: str) -> None:
        name = source.get("id") if isinstance(source, dict) else None
        try:
            made = define(source, self._settings)
            if made.id in self.known:
                raise invalid("id", f"there is a workflow {made.id} already")
        except DefinitionRefused as error:
            self.faults.append(f"{where}: {error.code}: {error.message}")
            if isinstance(name, str) and name not in self.known:
                self.refused[name] = error
            return
        self.known[made.id] = made

    def _runs_fully(self, name: str) -> bool:
        """Whether all events of a fixture are advertised; else it is not offered as one."""
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
        if path.suffix != ".json":
            raw = orjson.dumps(read_yaml(raw)[1])
        return orjson.loads(raw)
    except TypeError as error:
        raise ValueError(f"it has a value or a key that JSON does not have: {error}") from None
    except orjson.JSONDecodeError as error:
        raise ValueError(f"this is no JSON: {error}") from None
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None


def define(source: Any, settings: Settings) -> Definition:
    """A definition that can be run, or `DefinitionRefused` with every fault."""
    if not isinstance(source, dict):
        raise invalid("workflow", "a workflow is a JSON object")
    _refuse(check_shape(source))
    nodes = {node["id"]: _node(node) for node in source["nodes"]}
    channels = source.get("channels", {})
    messages = tuple(name for name, each in channels.items() if each.get("reducer") == "message")
    edges, site = source["edges"], Site(source["id"], settings, messages)
    _refuse(
        chain(
            check_root(source, settings),
            *(check_node_fields(each) for each in source["nodes"]),
            *(check_node(each, nodes, site) for each in nodes.values()),
            *(check_edge(edge, nodes) for edge in edges),
        )
    )
    ports = (check_ports(each, nodes) for each in nodes.values())
    _refuse(chain(*ports, check_variables(source, nodes)))
    made = _ordered(source, nodes)
    _refuse(chain(check_order(made), check_supervisors(made)))
    return made


def _refuse(faults: Iterable[DefinitionRefused]) -> None:
    if (refused := DefinitionRefused.all(faults)) is not None:
        raise refused


def _node(node: Mapping[str, Any]) -> WorkflowNode:
    masked = {port for port, is_so in node.get("outputSensitivity", {}).items() if is_so}
    return WorkflowNode(
        id=node["id"],
        type=node["typeId"],
        config=node["config"],
        ports=node["inputs"],
        ref=ref_of(node["agent"]) if "agent" in node else None,
        sensitive=frozenset(masked),
        disabled=node.get("disabled", False),
        artifact=node.get("artifactType"),
    )


def _ordered(source: Mapping[str, Any], nodes: Mapping[str, WorkflowNode]) -> Definition:
    upstream: dict[str, list[tuple[str, str]]] = {name: [] for name in nodes}
    loops: dict[str, str] = {}
    back = []
    for edge in source["edges"]:
        start, end = edge["sourceNodeId"], edge["targetNodeId"]
        if nodes[start].type == DISPATCH and nodes[end].type == SUPERVISOR:
            back.append(edge)
        else:
            upstream[end].append((start, edge.get("triggerRule", "all_success")))
    begins = {name: nodes_before(name, upstream) for name in nodes}
    for edge in back:
        start, end = edge["sourceNodeId"], edge["targetNodeId"]
        rule = edge.get("triggerRule", "all_success")
        if end not in begins[start]:  # on to another supervisor
            upstream[end].append((start, rule))
        elif loops.setdefault(start, end) != end or rule != "all_success":
            text = "a dispatch leads back to one supervisor, and whatever the outcome of others"
            raise invalid("edges", f"the edge {edge['id']!r}: {text}")
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
            raise invalid("edges", "the edges form a cycle")
        order[ready] = None
    before = {name: tuple(pairs) for name, pairs in upstream.items()}
    return Definition(source["id"], source, nodes, tuple(order), before, loops)
