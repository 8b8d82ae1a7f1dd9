"""Values in a workflow: `{{steps.build.result}}` in any string, and conditions."""

import json
import operator
import re
import shlex
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tracklog import TracklogError

REFERENCE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
PLACE = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*", re.ASCII)
COMPARISON = re.compile(r"(.+?)\s(==|!=|<=|>=|<|>|contains)\s(.+)", re.DOTALL)
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": operator.contains,
}

Known = ChainMap[str, Any]
"""The values that can be referred to, by the first part of their name; inner blocks come first."""


class NoValue(TracklogError):
    """A workflow refers to a value that does not exist at that time."""


def references(value: Any) -> Iterator[str]:
    """Every reference in a value, at any depth."""
    if isinstance(value, str):
        yield from REFERENCE.findall(value)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from references(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from references(each)


def without(text: str, place: str) -> str:
    """A text without the references to one value."""
    return REFERENCE.sub(lambda match: "" if match[1] == place else match[0], text)


def filled(value: Any, known: Mapping[str, Any]) -> Any:
    """The value with every reference replaced; a text that is only a reference gets any type."""
    if isinstance(value, str):
        whole = REFERENCE.fullmatch(value.strip())
        if whole:
            return _look_up(whole[1], known)
        return REFERENCE.sub(lambda match: spelled(_look_up(match[1], known)), value)
    if isinstance(value, Mapping):
        return {key: filled(each, known) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [filled(each, known) for each in value]
    return value


def text(value: Any, known: Mapping[str, Any]) -> str:
    """The value as text."""
    return spelled(filled(value, known))


def shell(line: str, known: Mapping[str, Any]) -> str:
    """A line for the shell, in which values are quoted, so that they can never be commands."""
    return REFERENCE.sub(lambda match: shlex.quote(spelled(_look_up(match[1], known))), line)


def spelled(value: Any) -> str:
    """A value inside a text: strings as they are, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def holds(condition: str, known: Mapping[str, Any]) -> bool:
    """Whether a condition is true: `left == right` or another comparison, a value, or `not` a value."""
    if compared := COMPARISON.fullmatch(condition.strip()):
        left, right = (_operand(each, known) for each in compared.group(1, 3))
        try:
            return bool(COMPARE[compared[2]](left, right))
        except TypeError:
            raise NoValue(
                f"{condition!r} compares {spelled(left)} with {spelled(right)}",
                "compare numbers with numbers and text with text",
            ) from None
    plain = condition.strip()
    if plain.startswith("not "):
        return not _operand(plain.removeprefix("not "), known)
    return bool(_operand(plain, known))


def _operand(word: str, known: Mapping[str, Any]) -> Any:
    value = filled(word.strip(), known)
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _look_up(place: str, known: Mapping[str, Any]) -> Any:
    value: Any = known
    done: list[str] = []
    for part in place.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            there = f"{'.'.join(done)} has no {part!r}" if done else f"there is no {part!r}"
            there += " here" if not done else ""
            offers = ", ".join(map(str, value)) if isinstance(value, Mapping) else ""
            hint = (
                f"the names are: {offers}" if offers else "did the step that makes it run before?"
            )
            raise NoValue(f"{{{{{place}}}}}: {there}", hint) from None
        done.append(part)
    return value
