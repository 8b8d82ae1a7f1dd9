"""The kinds of nodes: one file each, which says what it accepts, what it does and how it is checked.

To add one: a file here that ends with `kind = NodeKind(type=..., run=...)`, and its line below.
"""

from collections.abc import Mapping

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
from tracklog.hosts.openwop.kinds._kind import NodeKind, Site, invalid, lacks

KINDS: Mapping[str, NodeKind] = {
    module.kind.type: module.kind
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
}
"""All kinds of nodes, by the type that a workflow names."""

__all__ = ["KINDS", "NodeKind", "Site", "invalid", "lacks"]
