"""Branches of a conversation whose records name their parents: a branch that was left is withdrawn."""

from typing import Any

from tracklog.formats.importers._memory import LONG, remember


def leave_branch(state: dict[str, Any], id: str, parent: str | None) -> str | None:
    """Hang a record below its parent; returns the first record of the branch that it leaves."""
    chain: dict[str, str | None] = state.setdefault("chain", {})
    tip, left = state.get("tip"), None
    if parent in chain and tip is not None and tip != parent and id not in chain:
        here: str | None = tip
        for _ in range(len(chain)):  # a limit, in case the parents form a cycle
            if here is None:
                break
            if chain.get(here) == parent:
                left = here
                break
            here = chain.get(here)
    if id not in chain:
        remember(chain, id, parent, LONG)
    state["tip"] = id
    return left
