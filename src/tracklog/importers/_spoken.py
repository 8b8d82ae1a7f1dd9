"""The blocks of a reply as facts: what was said, what was called, what came back, in order."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import groupby
from typing import Any, TypeVar

import orjson

from tracklog.dialects import tracklog as native
from tracklog.fact import (
    FACTS,
    Began,
    Called,
    Ended,
    Fact,
    Returned,
    Role,
    Said,
)

PLACES = ("fidelity", "turn", "message_id")
"""What a block says about its place; a line has fields of its own for it."""


def spoken(
    blocks: Iterable[dict[str, Any]],
    *,
    role: Role = "assistant",
    message_id: str | None = None,
    model: str | None = None,
    stop_reason: str | None = None,
    **common: Any,
) -> Iterator[Fact]:
    """Facts of the blocks of one message; `common` is what each of them has: agent, step."""

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
    """A tool_result block as a return; without a word about failure it went well."""
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


def carried(name: str, told: Mapping[str, Any]) -> Fact | None:
    """A fact that one of our exports carried through a format that has no word for it.

    None where it is none of ours, or would make no line.
    """
    kind = _CARRIED.get(name.lower())
    if kind is None:
        return None
    try:
        fact = kind(**_said(kind, told))
    except TypeError:
        return None  # it does not say what it must
    return fact if _makes_a_line(fact) else None


F = TypeVar("F", bound=Fact)


def restored(fact: F, told: Any) -> F:
    """A fact of a format's own words, with what one of our exports carried beside them."""
    said = _said(type(fact), told) if isinstance(told, dict) else {}
    whole = replace(fact, **said) if said else fact
    return whole if not said or _makes_a_line(whole) else fact


_CARRIED = {fact.__name__.lower(): fact for fact in FACTS if fact not in (Called, Returned)}
"""By name; those that are left out have words of their own wherever they are told."""


def _said(fact: type[Fact], told: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of a fact's fields."""
    names = {each.name.rstrip("_"): each.name for each in fields(fact) if each.name != "fidelity"}
    return {
        names[key]: tuple(value) if isinstance(value, list) and key in _LISTS else value
        for key, value in told.items()
        if key in names and value is not None
    }


_LISTS = ("blocks", "options", "winning_models")


def _makes_a_line(fact: Fact) -> bool:
    """Whether the door would let it in; a file may say anything, and claim to be ours."""
    origin = {"writer": "import", "fidelity": "reconstructed"}
    body = {"id": "1", "run": "1", "origin": origin, **native.body_of(fact)}
    try:
        native.KINDS[type(fact).__name__].model_validate_json(orjson.dumps(body))
    except (TypeError, ValueError):
        return False
    return True


def is_run(fact: Fact) -> bool:
    """Whether a fact is the beginning or the end of a whole run."""
    return isinstance(fact, Began | Ended) and fact.what == "run"
