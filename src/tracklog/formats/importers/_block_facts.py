"""The blocks of a reply as facts: messages, calls and results, in order."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from tracklog.model.fact import Called, Fact, Returned, Role, Said

PLACES = ("fidelity", "turn", "message_id")
"""Keys of a block about its position, which have fields of their own on a line."""


def block_facts(
    blocks: Iterable[dict[str, Any]],
    *,
    role: Role = "assistant",
    message_id: str | None = None,
    model: str | None = None,
    stop_reason: str | None = None,
    **common: Any,
) -> Iterator[Fact]:
    """The facts of the blocks of one message; `common` holds the fields they share: agent, step."""

    def kind(block: dict[str, Any]) -> str:
        return block["type"] if block["type"] in ("tool_use", "tool_result") else "said"

    for which, group in groupby(blocks, kind):
        if which == "tool_use":
            yield from (called(block, **common) for block in group)
        elif which == "tool_result":
            yield from (returned(block, **common) for block in group)
        else:
            yield Said(
                role=role,
                blocks=tuple(_bare(block) for block in group),
                message_id=message_id,
                model=model,
                stop_reason=stop_reason,
                **common,
            )


def _bare(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key not in PLACES}


def called(block: dict[str, Any], **common: Any) -> Called:
    """A tool_use block as a call."""
    return Called(
        tool=block["tool_name"] or "unknown",
        call_id=block["tool_id"],
        input=block["tool_input"],
        tool_server=block.get("tool_server"),
        parent_call_id=block.get("parent_tool_id"),
        synthetic_id=block.get("tool_id_synthetic") is True,
        **common,
    )


def returned(block: dict[str, Any], **common: Any) -> Returned:
    """A tool_result block as a return; without a failure mark it is a success."""
    wrong = block.get("is_error")
    return Returned(
        call_id=block["tool_id"],
        tool=block.get("tool_name"),
        ok=not wrong if isinstance(wrong, bool) else True,
        output=block["tool_content"],
        exit_code=block.get("exit_code"),
        synthetic_id=block.get("tool_id_synthetic") is True,
        **common,
    )
