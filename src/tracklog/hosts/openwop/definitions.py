"""A workflow that was checked and can be run."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from tracklog.hosts.openwop.agents import Ref
from tracklog.hosts.openwop.schemas import DEEPEST, is_deep

SUPERVISOR, DISPATCH, MOCK, PROMPT, TOOL = (
    "core.orchestrator.supervisor",
    "core.dispatch",
    "core.conformance.mock-agent",
    "core.ai.callPrompt",
    "core.tool.call",
)
PLACEHOLDER = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
"""A place in a prompt that an input of the node fills."""


def nodes_before(node: str, upstream: Mapping[str, Iterable[tuple[str, str]]]) -> set[str]:
    """The nodes from which edges lead to a node, directly or through others."""
    found: set[str] = set()
    left = [node]
    while left:
        for source, _ in upstream[left.pop()]:
            if source not in found:
                found.add(source)
                left.append(source)
    return found


def fits_type(value: Any, kind: str) -> bool:
    """Whether a value has the type that a workflow declares for a variable."""
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    types = {"string": str, "boolean": bool, "object": dict, "array": list}
    return isinstance(value, types[kind])


class DefinitionRefused(Exception):
    """A definition that cannot be run here, and why."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details

    @classmethod
    def all(cls, faults: "Iterable[DefinitionRefused]") -> "DefinitionRefused | None":
        """All faults as one; its code is that of the first."""
        rows = list(faults)
        if not rows:
            return None
        return cls(rows[0].code, "; ".join(each.message for each in rows), **rows[0].details)


@dataclass(frozen=True, slots=True)
class WorkflowNode:
    """One step of a workflow."""

    id: str
    type: str
    config: Mapping[str, Any]
    ports: Mapping[str, Mapping[str, Any]]
    ref: Ref | None
    """The agent of the node."""
    sensitive: frozenset[str] = frozenset()
    """Outputs that are masked."""
    disabled: bool = False
    artifact: str | None = None
    """The type of the artifact that it reviews."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A workflow that can be run."""

    id: str
    source: Mapping[str, Any]
    """As it was read, and as it is served."""
    nodes: Mapping[str, WorkflowNode]
    order: tuple[str, ...]
    """Topological, ties in the order of the definition."""
    upstream: Mapping[str, tuple[tuple[str, str], ...]]
    """The nodes before each, with the rule of the edge; loop edges left out."""
    loops: Mapping[str, str] = field(default_factory=dict)
    """From a dispatch node back to its supervisor."""

    @property
    def fingerprint(self) -> str:
        """A hash of the definition."""
        raw = orjson.dumps(self.source, option=orjson.OPT_SORT_KEYS)
        return sha256(raw).hexdigest()[:32]

    @property
    def supervisor(self) -> WorkflowNode | None:
        found = (node for node in self.nodes.values() if node.type == SUPERVISOR)
        return next(found, None)

    @property
    def sinks(self) -> list[str]:
        """The nodes whose outputs are the outputs of the run."""
        sources = {edge["sourceNodeId"] for edge in self.source["edges"]}
        return [node for node in self.order if node not in sources]

    def body_of_loop(self, dispatch: str) -> set[str]:
        """The nodes that are run again when a dispatch leads back to its supervisor."""
        before = nodes_before(dispatch, self.upstream)
        head = self.loops[dispatch]
        inside = {node for node in before if head in nodes_before(node, self.upstream)}
        return {dispatch, head} | inside

    def sensitive(self) -> set[str]:
        return {each["name"] for each in self.source["variables"] if each.get("sensitive")}

    @property
    def text(self) -> str:
        """What everybody can read of it, as JSON."""
        return orjson.dumps(self.source).decode()

    def names(self) -> set[str]:
        """The variables that the workflow declares, and those that its nodes read."""
        found = {each["name"] for each in self.source["variables"]}
        for node in self.nodes.values():
            found |= {
                each["variableName"] for each in node.ports.values() if "variableName" in each
            }
            mappings = [node.config.get("inputMapping", {})]
            mappings += node.config.get("perWorkerInputMappings", {}).values()
            for mapping in mappings:
                found |= {*mapping.values()}
        return found

    def inputs(self, given: Mapping[str, Any], *, is_closed: bool = True) -> dict[str, Any]:
        """The variables of a run: defaults, overlaid by what was given.

        Of a client, only what the workflow uses is accepted; a run may give its child more.
        """
        found: dict[str, Any] = {}
        if is_deep(given):
            text = f"the inputs have more than {DEEPEST} levels of objects and lists"
            raise DefinitionRefused("validation_error", text, field="inputs")
        for name in given.keys() - self.names() if is_closed else ():
            text = f"the workflow has no input {str(name)[:50]!r}"
            raise DefinitionRefused("validation_error", text, field=f"inputs.{name}")
        for variable in self.source["variables"]:
            name = variable["name"]
            if name in given:
                if not fits_type(given[name], variable["type"]):
                    text = f"the input {name!r} is no {variable['type']}"
                    raise DefinitionRefused("validation_error", text, field=f"inputs.{name}")
                continue
            if "defaultValue" in variable:
                found[name] = variable["defaultValue"]
            elif variable.get("required"):
                text = f"the input {name!r} is missing"
                raise DefinitionRefused("validation_error", text, field=f"inputs.{name}")
        return {**found, **given}

    def is_for(self, tenant: str) -> bool:
        """Whether a tenant may see and run it: a workflow that names no tenant is for all."""
        return bool(self.source.get("tenantId", tenant) == tenant)

    @property
    def is_active(self) -> bool:
        """Whether runs of it may begin."""
        active = self.source.get("isActive", True) and self.source.get("status") in (None, "active")
        return bool(active)

    @property
    def is_begun_by_clients(self) -> bool:
        """Whether a client may begin a run: its manual trigger, if it has one, is enabled."""
        manual = [each for each in self.source["triggers"] if each["type"] == "manual"]
        return not manual or any(each.get("enabled", True) for each in manual)
