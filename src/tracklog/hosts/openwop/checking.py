"""Check a workflow: every fault at once, each with its place."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.hosts.openwop.agents import BadAgent, ref_of
from tracklog.hosts.openwop.definitions import (
    SUPERVISOR,
    Definition,
    DefinitionRefused,
    WorkflowNode,
    fits_type,
)
from tracklog.hosts.openwop.kinds import KINDS, Site, invalid, lacks, wrong
from tracklog.hosts.openwop.options import CONFIGURABLE, declared_options
from tracklog.hosts.openwop.schemas import fault_of_schema, placed_faults
from tracklog.hosts.openwop.settings import Settings

Faults = Iterator[DefinitionRefused]


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
            yield invalid("nodes.agent", f"{node.get('id')}: {error}")
    plain = {**source}
    if isinstance(written, list):
        # The agent of a node may have members that the published schema does not have.
        plain["nodes"] = [
            {key: value for key, value in node.items() if key != "agent"}
            if isinstance(node, dict)
            else node
            for node in written
        ]
    for place, fault in placed_faults("workflow-definition", plain):
        yield invalid(place or "workflow", fault)
    names = [node.get("id") for node in nodes]
    for name in dict.fromkeys(each for each in names if isinstance(each, str)):
        if names.count(name) > 1:
            yield invalid("nodes.id", f"there are two nodes {name!r}")


def check_root(source: Mapping[str, Any], settings: Settings) -> Faults:
    """Refuse what a definition asks for and this host does not do: nothing is silently ignored."""
    if source.get("tenantId", settings.tenant) not in settings.tenants:
        names = ", ".join(sorted(settings.tenants))
        yield _not_done("tenantId", f"no key acts for that tenant; there are: {names}")
    for name in ("defaults", "acceptsInheritedArtifacts"):
        if source.get(name):
            yield _not_done(name, "it is not carried out here")
    for name in source["settings"].keys() - SETTINGS:
        yield _not_done(f"settings.{name}", "it is not carried out here")
    metadata = source["metadata"]
    if metadata.get("complianceClass", "public") != "public":
        yield _not_done("metadata.complianceClass", "only public workflows are run here")
    if "complianceConfig" in metadata:
        yield _not_done("metadata.complianceConfig", "it is not carried out here")
    if "configurableSchema" in source and (fault := fault_of_schema(source["configurableSchema"])):
        yield invalid(
            "configurableSchema", f"configurableSchema is not a valid JSON Schema: {fault}"
        )
    for trigger in source["triggers"]:
        yield from _check_trigger(trigger)
    declared = [variable["name"] for variable in source["variables"]]
    for name in dict.fromkeys(each for each in declared if declared.count(each) > 1):
        yield invalid("variables.name", f"there are two variables {name[:50]!r}")
    for variable in source["variables"]:
        if "defaultValue" in variable and not fits_type(variable["defaultValue"], variable["type"]):
            text = f"the default of {variable['name']!r} is no {variable['type']}"
            yield invalid("variables.defaultValue", text)
    for name, channel in source.get("channels", {}).items():
        yield from _check_channel(name, channel)


SETTINGS = {"timeout", "maxRetries", "maxLoopbackIterations"}
"""The settings of a workflow that are carried out."""
CHANNEL = {"reducer", "schema"}
TRIGGER = {"id", "type", "name", "description", "enabled"}


def _not_done(field: str, why: str) -> DefinitionRefused:
    return invalid(field, f"{field}: {why}")


def _check_trigger(trigger: Mapping[str, Any]) -> Faults:
    if not trigger.get("enabled", True):
        return
    if trigger["type"] != "manual":
        yield _not_done(
            "triggers.type", f"runs are begun by clients here, not by {trigger['type']}"
        )
    for name in trigger.keys() - TRIGGER:
        if trigger[name] != {}:
            yield _not_done(f"triggers.{name}", "it is not carried out here")


def _check_channel(name: str, channel: Mapping[str, Any]) -> Faults:
    if channel["reducer"] != "message":
        text = f"{name}: only channels of messages are written here"
        yield invalid("channels.reducer", text)
    for each in channel.keys() - CHANNEL:
        if (each, channel[each]) not in (("schemaVersion", 1), ("access", "public")) and channel[
            each
        ]:
            yield _not_done(f"channels.{each}", "it is not carried out here")
    if "schema" in channel and (fault := fault_of_schema(channel["schema"])):
        yield invalid("channels.schema", f"{name}: its schema is not valid: {fault}")


def check_node(node: WorkflowNode, nodes: Mapping[str, WorkflowNode], site: Site) -> Faults:
    """Check whether a node can be run in its workflow, among the other nodes."""
    name = node.id
    if len(name) > 128 or ":" in name or "/" in name:
        yield invalid("nodes.id", f"the node id {name[:50]!r} is too long, or has : or /")
    kind = KINDS.get(node.type)
    if kind is None:
        yield lacks(node, node.type, f"there is no node type {node.type}")
    else:
        yield from kind.check(node, site)
        for key in node.config.keys() - kind.config:
            yield wrong(node, key, f"{key} is nothing that {node.type} does")
    for port, value in node.ports.items():
        if value["type"] == "expression":
            text = f"{name}: {port} is an expression, which is not supported"
            yield invalid(f"inputs.{port}", text, nodeId=name)
        if value["type"] == "connection" and value["nodeId"] not in nodes:
            yield invalid(
                f"inputs.{port}", f"{name}: {port} names a node that does not exist", nodeId=name
            )


def check_ports(node: WorkflowNode, nodes: Mapping[str, WorkflowNode]) -> Faults:
    """Refuse inputs that nobody reads, and names of outputs that there are not.

    The configuration of every node has been checked before: the names may depend on it.
    """
    kind = KINDS[node.type]
    name, read, given = node.id, kind.ports(node), kind.outputs(node)
    for port in node.ports.keys() - read if read is not None else ():
        text = f"{name}: {node.type} does not read the input {port[:50]!r}"
        yield invalid(f"inputs.{port}", text, nodeId=name)
    for port, value in node.ports.items():
        if value["type"] != "connection":
            continue
        source = nodes[value["nodeId"]]
        outputs = KINDS[source.type].outputs(source)
        if outputs is not None and value["outputKey"] not in outputs:
            text = f"{name}: {port} names {value['outputKey'][:50]!r}, which is no output"
            yield invalid(f"inputs.{port}", f"{text} of {source.id}", nodeId=name)
    for port in node.sensitive - given if given is not None else ():
        text = f"{name}: {port[:50]!r} is no output"
        yield invalid(f"outputSensitivity.{port}", text, nodeId=name)
    for port in sorted(kind.answers & node.sensitive):
        text = f"{name}: {port} is the answer of a person, which is not masked"
        yield invalid(f"outputSensitivity.{port}", text, nodeId=name)
    if node.artifact is not None and not kind.has_artifact:
        text = f"{name}: {node.type} has no artifact"
        yield invalid("artifactType", text, nodeId=name)


def check_variables(source: Mapping[str, Any], nodes: Mapping[str, WorkflowNode]) -> Faults:
    """Refuse a variable that is sensitive and gets the answer of a person, which is not masked."""
    for each in source["variables"]:
        names = [node.id for node in nodes.values() if each["name"] in KINDS[node.type].answers]
        if each.get("sensitive") and names:
            text = (
                f"{names[0]} sets {each['name']!r} to the answer of a person, which is not masked"
            )
            yield invalid("variables.sensitive", text, nodeId=names[0])


def check_node_fields(node: Mapping[str, Any]) -> Faults:
    """Refuse the properties of a node, beside its configuration, that are not carried out."""
    for name in ("credentialsRef", "settings", "envelopeContract"):
        if node.get(name):
            text = f"{node['id']}: {name} is not carried out here"
            yield invalid(name, text, nodeId=node["id"])


def check_edge(edge: Mapping[str, Any], nodes: Mapping[str, WorkflowNode]) -> Faults:
    if edge["sourceNodeId"] not in nodes or edge["targetNodeId"] not in nodes:
        field = "sourceNodeId" if edge["sourceNodeId"] not in nodes else "targetNodeId"
        yield invalid(f"edges.{field}", f"the edge {edge['id']!r} names a node that does not exist")
    if "condition" in edge:
        yield invalid(
            "edges.condition", f"the edge {edge['id']!r} has a condition, which is not supported"
        )
    for name, usual in (("sourceOutput", "output"), ("targetInput", "input")):
        if edge.get(name, usual) != usual:
            text = (
                f"the edge {edge['id']!r}: {name} is not carried out; name the output in `inputs`"
            )
            yield invalid(f"edges.{name}", text)


def check_order(definition: Definition) -> Faults:
    """Refuse a value of a node that is run later: there is none yet, except in a loop."""
    order = definition.order
    bodies = [definition.body_of_loop(dispatch) for dispatch in definition.loops]
    for node in definition.nodes.values():
        for port, value in node.ports.items():
            source = value.get("nodeId")
            if source is None or order.index(source) < order.index(node.id):
                continue
            if not any({source, node.id} <= body for body in bodies):
                text = f"{node.id}: {port} names {source}, which is run later"
                yield invalid(f"inputs.{port}", text, nodeId=node.id)


def check_supervisors(definition: Definition) -> Faults:
    """Refuse two agents that supervise one run: only one is its orchestrator."""
    found = [node for node in definition.nodes.values() if node.type == SUPERVISOR]
    refs = [KINDS[SUPERVISOR].agent(definition.id, node) for node in found]
    names = {ref["agentId"] for ref in refs if ref is not None}
    if len(names) > 1:
        text = f"{' and '.join(sorted(names))} supervise one run: name the same agent on each"
        yield invalid("nodes.agent", text, nodeId=found[-1].id)


def check_child(node: WorkflowNode, own: Definition, child: Definition) -> Faults:
    """Refuse a child that would not begin, or would not use what it is given.

    It requires an option that it cannot get, or has no input of the name of a port.
    """
    if node.config.get("workflowId") == child.id:
        for port in node.ports.keys() - child.names():
            text = f"{child.id} has no input {port[:50]!r}"
            yield invalid(f"inputs.{port}", f"{node.id}: {text}", nodeId=node.id)
    schema = child.source.get("configurableSchema")
    required = schema.get("required", []) if isinstance(schema, dict) else []
    shared = declared_options(own) & declared_options(child)
    for name in required:
        if name not in shared and name not in CONFIGURABLE:
            text = f"{child.id} requires the option {name!r}, which {own.id} does not pass on"
            yield wrong(node, "workflowId", f"{text}: both must declare it in configurableSchema")


def check_mappings(node: WorkflowNode, workflows: Mapping[str, Definition]) -> Faults:
    """Refuse names of variables that a child, where it is known, does not have."""
    config = node.config
    rows: list[tuple[str, Any, str, Mapping[str, str]]] = []
    for way in ("input", "output"):
        own: Mapping[str, str] = config.get(f"{way}Mapping", {})
        rows.append((way, config.get("workflowId"), f"{way}Mapping", own))
        name = f"perWorker{way.capitalize()}Mappings"
        each = config.get(name, {}).items()
        rows += [(way, worker, f"{name}.{worker}", mapping) for worker, mapping in each]
    for way, workflow, place, mapping in rows:
        child = workflows.get(workflow)
        if child is None:
            continue
        known = child.names() if way == "input" else _results(child)
        for name in [*mapping] if way == "input" else [*dict.fromkeys(mapping.values())]:
            if known is not None and name not in known:
                what = "input" if way == "input" else "variable or output"
                yield wrong(node, place, f"{workflow} has no {what} {name[:50]!r}")


def _results(child: Definition) -> set[str] | None:
    """The variables that a run may have at its end; None where only a run shows them."""
    found = child.names()
    for node in child.nodes.values():
        outputs = KINDS[node.type].outputs(node)
        if outputs is None:
            return None
        found |= outputs
    return found
