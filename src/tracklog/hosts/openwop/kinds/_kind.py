"""The description of a kind of node, and checks that several kinds share."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tracklog.hosts.openwop.agents import Ref
from tracklog.hosts.openwop.definitions import PLACEHOLDER, DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.settings import Settings

if TYPE_CHECKING:
    from tracklog.hosts.openwop.step import NodeStep

Outputs = dict[str, Any]


class Site(NamedTuple):
    """The workflow and the host of a node, for its check."""

    workflow: str
    settings: Settings
    channels: tuple[str, ...] = ()
    """The channels of messages that the workflow declares."""

    @property
    def is_conformance(self) -> bool:
        """Whether the workflow belongs to the conformance tests, which may use mocks."""
        return is_conformance(self.workflow)


def is_conformance(workflow: str) -> bool:
    """Whether a workflow belongs to the conformance tests."""
    return workflow.startswith("conformance-")


class Use(NamedTuple):
    """A tool or a workflow that a node calls."""

    what: Literal["tool", "workflow"]
    property: str
    """The property of the configuration that names it."""
    name: str


def _no_uses(_node: WorkflowNode) -> Iterable[Use]:
    return ()


def _no_faults(_node: WorkflowNode, _site: Site) -> Iterable[DefinitionRefused]:
    return ()


def _pinned(_workflow: str, node: WorkflowNode) -> Ref | None:
    return node.ref


def _any_outputs(_node: WorkflowNode) -> frozenset[str] | None:
    return None


def no_ports(_node: WorkflowNode) -> frozenset[str] | None:
    """A node that reads no inputs."""
    return frozenset()


def any_ports(_node: WorkflowNode) -> frozenset[str] | None:
    """A node that reads whatever inputs it has."""
    return None


def ports_of_prompt(node: WorkflowNode) -> frozenset[str] | None:
    """A node that reads the inputs which its prompt names."""
    return frozenset(PLACEHOLDER.findall(str(node.config.get("prompt", ""))))


def fixed_outputs(*names: str) -> Callable[[WorkflowNode], frozenset[str] | None]:
    """Outputs that are the same for each node of a kind."""
    found = frozenset(names)
    return lambda _node: found


def _nothing(_step: "NodeStep", _outputs: Mapping[str, Any]) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """One kind of node."""

    type: str
    other_types: tuple[str, ...] = ()
    """Other names of the type, from older or newer versions of the specification."""
    run: "Callable[[NodeStep], Coroutine[Any, Any, Outputs]]"
    config: frozenset[str] = frozenset()
    """The properties of its configuration that are carried out; any other one is refused."""
    check: Callable[[WorkflowNode, Site], Iterable[DefinitionRefused]] = _no_faults
    """The faults of a node of this kind, before its workflow is offered."""
    uses: Callable[[WorkflowNode], Iterable[Use]] = _no_uses
    """The tools and workflows that a node calls; without them a run does not begin."""
    agent: Callable[[str, WorkflowNode], Ref | None] = _pinned
    """The agent that acts in the node, from the id of the workflow and the node."""
    repeated: "Callable[[NodeStep, Mapping[str, Any]], None]" = _nothing
    """Called with the recorded outputs when an execution is repeated from the log."""
    is_pure: bool = False
    """Whether a replay executes it again: its result depends on no person, model or tool."""
    copies: bool = False
    """Whether its outputs are its inputs: what is masked there is masked here."""
    only_asks: bool = False
    """Whether it only asks a question, by its configuration alone: a branch goes on inside it."""
    ports: Callable[[WorkflowNode], frozenset[str] | None] = no_ports
    """The inputs that it reads, any other one is refused; None where it reads all."""
    has_artifact: bool = False
    """Whether it has an artifact, which people review."""
    outputs: Callable[[WorkflowNode], frozenset[str] | None] = _any_outputs
    """The names of its outputs; None where only a run shows them."""
    answers: frozenset[str] = frozenset()
    """The outputs that are the answer of a person, which is recorded as it is and not masked."""
    requires: tuple[str, ...] = ()
    """Runtime capabilities without which it is not executed; this host provides none."""


def invalid(field: str, message: str, **details: Any) -> DefinitionRefused:
    """A fault of a definition, with the property that it concerns."""
    return DefinitionRefused("validation_error", message, field=field, **details)


def wrong(node: WorkflowNode, name: str, message: str, **details: Any) -> DefinitionRefused:
    """A fault in the configuration of a node; without a name, in the configuration as such."""
    field = f"config.{name}" if name else "config"
    return invalid(field, f"{node.id}: {message}", nodeId=node.id, **details)


def not_offered(node: WorkflowNode) -> DefinitionRefused:
    """A type of node that only conformance tests may use."""
    text = f"{node.id}: {node.type} is for conformance-* workflows only"
    return invalid("typeId", text, nodeId=node.id)


def lacks(node: WorkflowNode, capability: str, message: str) -> DefinitionRefused:
    """A node that needs a capability which this host does not offer."""
    return DefinitionRefused(
        "capability_required",
        message,
        requiredCapability=capability,
        offendingTypeId=node.type,
        nodeId=node.id,
    )


def check_timeout(node: WorkflowNode) -> Iterator[DefinitionRefused]:
    """Check how long a question may stay open."""
    timeout = node.config.get("timeoutMs", 1)
    if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1:
        yield wrong(node, "timeoutMs", "timeoutMs is a whole number of milliseconds, 1 or more")


def check_mapping(node: WorkflowNode, name: str) -> Iterator[DefinitionRefused]:
    """Check a mapping from one name of a variable to another."""
    mapping = node.config.get(name, {})
    if not isinstance(mapping, dict) or not all(isinstance(each, str) for each in mapping.values()):
        yield wrong(node, name, f"{name} maps names to names")


def check_prompt(node: WorkflowNode) -> Iterator[DefinitionRefused]:
    """Check that each place in a prompt is filled by an input."""
    prompt = node.config.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        yield wrong(node, "prompt", "prompt is a text, and it is needed")
        return
    for name in dict.fromkeys(PLACEHOLDER.findall(prompt)):
        if name not in node.ports:
            text = f"prompt has {{{{{name}}}}}, and the node has no input {name!r}"
            yield wrong(node, "prompt", text)


def check_channel(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:
    """Check that the channel of a node is declared."""
    name = node.config.get("channel")
    if "channel" in node.config and name not in site.channels:
        yield wrong(node, "channel", f"the workflow declares no channel {name!r} of messages")
    elif not site.channels:
        yield wrong(node, "channel", "the workflow declares no channel of messages")


def is_texts(value: Any) -> bool:
    """Whether a value is a list of one text or more."""
    return isinstance(value, list) and bool(value) and all(map(is_text, value))


def is_text(value: Any) -> bool:
    """Whether a value is a text that is not empty."""
    return isinstance(value, str) and bool(value)
