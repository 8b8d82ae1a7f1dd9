"""Check a workflow: every fault at once, each with its place."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.hosts.openwop.agents import BadAgent, ref_of
from tracklog.hosts.openwop.definitions import Node, Refused
from tracklog.hosts.openwop.kinds import KINDS, Site, invalid, lacks
from tracklog.hosts.openwop.schemas import faults_of

Faults = Iterator[Refused]


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


def check_node(node: Node, nodes: Mapping[str, Node], site: Site) -> Faults:
    """Check whether a node can be run in its workflow, among the other nodes."""
    name = node.id
    if len(name) > 128 or ":" in name or "/" in name:
        yield invalid(f"the node id {name[:50]!r} is too long, or has : or /")
    kind = KINDS.get(node.type)
    if kind is None:
        yield lacks(node, node.type, f"there is no node type {node.type}")
    else:
        yield from kind.check(node, site)
    for port, value in node.ports.items():
        if value["type"] == "expression":
            yield invalid(f"{name}: {port} is an expression; none is run")
        if value["type"] == "connection" and value["nodeId"] not in nodes:
            yield invalid(f"{name}: {port} comes from no node")


def check_edge(edge: Mapping[str, Any], nodes: Mapping[str, Node]) -> Faults:
    if edge["sourceNodeId"] not in nodes or edge["targetNodeId"] not in nodes:
        yield invalid(f"the edge {edge['id']!r} leads to or from no node")
    if "condition" in edge:
        yield invalid(f"the edge {edge['id']!r} has a condition; none is run")
