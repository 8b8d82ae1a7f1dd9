"""The kinds of nodes: one file each, which says what it accepts, what it does and how it is checked.

To add one: a file here that ends with `kind = NodeKind(type=..., run=...)`, and its line below.
"""

from collections.abc import Mapping

from tracklog.hosts.openwop.definitions import WorkflowNode
from tracklog.hosts.openwop.kinds import (
    approval_gate,
    clarification_gate,
    delay,
    dispatch,
    fail,
    identity,
    interrupt,
    mock_agent,
    noop,
    prompt,
    requires_missing,
    sub_workflow,
    supervisor,
    tool_call,
)
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Site,
    invalid,
    is_conformance,
    lacks,
    wrong,
)

KINDS: Mapping[str, NodeKind] = {
    name: module.kind
    for module in (
        approval_gate,
        clarification_gate,
        delay,
        dispatch,
        fail,
        identity,
        interrupt,
        mock_agent,
        noop,
        prompt,
        requires_missing,
        sub_workflow,
        supervisor,
        tool_call,
    )
    for name in (module.kind.type, *module.kind.other_types)
}
"""All kinds of nodes, by the type that a workflow names."""


def is_pure(node: WorkflowNode) -> bool:
    """Whether a replay executes the node again: its result depends on no person and no clock."""
    return KINDS[node.type].is_pure and not node.config.get("emitDuplicateMessageId")


__all__ = ["KINDS", "NodeKind", "Site", "invalid", "is_conformance", "is_pure", "lacks", "wrong"]
