"""What the engine knows of a kind of node."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tracklog.hosts.openwop.agents import Ref
from tracklog.hosts.openwop.definitions import Node, Refused
from tracklog.hosts.openwop.settings import Settings

if TYPE_CHECKING:
    from tracklog.hosts.openwop.step import Step

Outputs = dict[str, Any]


class Site(NamedTuple):
    """Where a node stands, for its check."""

    workflow: str
    settings: Settings

    @property
    def is_conformance(self) -> bool:
        """Whether the workflow belongs to the conformance tests, which may use mocks."""
        return is_conformance(self.workflow)


def is_conformance(workflow: str) -> bool:
    """Whether a workflow belongs to the conformance tests."""
    return workflow.startswith("conformance-")


def _no_faults(_node: Node, _site: Site) -> Iterable[Refused]:
    return ()


def _pinned(_workflow: str, node: Node) -> Ref | None:
    return node.ref


def _nothing(_step: "Step", _outputs: Mapping[str, Any]) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """One kind of node."""

    type: str
    run: "Callable[[Step], Coroutine[Any, Any, Outputs]]"
    config: frozenset[str] = frozenset()
    """The properties of its configuration that are carried out; any other one is refused."""
    check: Callable[[Node, Site], Iterable[Refused]] = _no_faults
    """The faults of a node of this kind, before its workflow is offered."""
    agent: Callable[[str, Node], Ref | None] = _pinned
    """The agent that acts in the node, from the id of the workflow and the node."""
    repeated: "Callable[[Step, Mapping[str, Any]], None]" = _nothing
    """Called with the recorded outputs when an execution is repeated from the log."""
    is_pure: bool = False
    """Whether a replay executes it again: its result depends on no person, model or tool."""
    requires: tuple[str, ...] = ()
    """Runtime capabilities without which it is not executed; this host provides none."""


def invalid(message: str, **details: Any) -> Refused:
    """A fault of a definition."""
    return Refused("validation_error", message, **details)


def lacks(node: Node, capability: str, message: str) -> Refused:
    """A node that needs a capability which this host does not offer."""
    return Refused(
        "capability_required",
        message,
        requiredCapability=capability,
        offendingTypeId=node.type,
        nodeId=node.id,
    )


def check_timeout(node: Node) -> Iterator[Refused]:
    """Check how long a question may stay open."""
    timeout = node.config.get("timeoutMs", 1)
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1:
        text = f"{node.id}: timeoutMs is a whole number of milliseconds, 1 or more"
        yield invalid(text, field="timeoutMs")


def check_mapping(node: Node, name: str) -> Iterator[Refused]:
    """Check a mapping from one name of a variable to another."""
    mapping = node.config.get(name, {})
    if not isinstance(mapping, dict) or not all(isinstance(each, str) for each in mapping.values()):
        yield invalid(f"{node.id}: {name} maps names to names", field=name)
