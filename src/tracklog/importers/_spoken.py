"""The blocks of a reply as facts: what was said, what was called, what came back, in order."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import groupby
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from tracklog.fact import (
    FACTS,
    Began,
    Called,
    Ended,
    Fact,
    LinkKind,
    Phase,
    Returned,
    Role,
    Said,
    What,
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

    None where it is none of ours, or told in the format's own words as well.
    """
    kind = name.lower()
    whole = _WHOLE.get(kind)
    if whole is None or not whole(told):
        return None
    fact = next(each for each in FACTS if each.__name__.lower() == kind)
    try:
        return fact(**_said(fact, told))
    except TypeError:
        return None  # something that it must say is none of what it may be


F = TypeVar("F", bound=Fact)


def restored(fact: F, told: Any) -> F:
    """A fact of a format's own words, with what one of our exports carried beside them."""
    return replace(fact, **_said(type(fact), told)) if isinstance(told, dict) else fact


def _said(fact: type[Fact], told: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of a fact's fields, as far as it is what they may be."""
    found: dict[str, Any] = {}
    for each in fields(fact):
        value = told.get(each.name.rstrip("_"))
        if value is not None and each.name != "fidelity" and _fits(value, each.type):
            found[each.name] = tuple(value) if isinstance(value, list) else value
    return found


def _fits(value: Any, kind: Any) -> bool:
    """Whether JSON is what a field may be."""
    within, of = get_origin(kind), get_args(kind)
    if within in (Union, UnionType):
        return any(_fits(value, each) for each in of)
    if within is Literal:
        return value in of
    if within is tuple:
        return isinstance(value, list) and all(_fits(each, of[0]) for each in value)
    if within is Mapping:
        return isinstance(value, dict) and all(_fits(each, of[1]) for each in value.values())
    if kind in (int, float):
        return isinstance(value, kind | int) and not isinstance(value, bool)
    return kind is Any or isinstance(value, kind)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


_ENDS = ("parent", "child", "other")
_WHOLE: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "spent": lambda told: _is_word(told.get("key")) and isinstance(told.get("usage", {}), dict),
    "noted": lambda told: _is_word(told.get("label")) and isinstance(told.get("text", ""), str),
    "moved": lambda told: (
        isinstance(told.get("from"), str)
        and _is_word(told.get("to"))
        and told.get("phase") in get_args(Phase)
    ),
    "decided": lambda told: "verdict" in told or isinstance(told.get("score"), int | float),
    "asked": lambda told: _is_word(told.get("question_id")),
    "answered": lambda told: _is_word(told.get("question_id")) and "answer" in told,
    "said": lambda told: told.get("role") in get_args(Role),
    "linked": lambda told: (
        told.get("kind") in get_args(LinkKind)
        and (
            any(_is_word(told.get(end)) or isinstance(told.get(end), dict) for end in _ENDS)
            or (_is_word(told.get("system")) and _is_word(told.get("alias")))
            or (_is_word(told.get("from")) and _is_word(told.get("to")))
        )
    ),
    "ended": lambda told: told.get("what") in get_args(What),
    "began": lambda told: told.get("what") in get_args(What),
}
"""What a fact must say to be told again; what has words of its own elsewhere is not here."""


def is_run(fact: Fact) -> bool:
    """Whether a fact is the beginning or the end of a whole run."""
    return isinstance(fact, Began | Ended) and fact.what == "run"
