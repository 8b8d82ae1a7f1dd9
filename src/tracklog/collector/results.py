"""The schemas of typed answers, derived from their dataclasses and the docstrings of their fields."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any, get_args

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from typing_extensions import is_typeddict

from tracklog.model.field_docs import field_docs


def results_of(results: Mapping[str, Any]) -> tuple[dict[str, JsonSchemaValue], JsonSchemaValue]:
    """The schema of each type by its name, and the named schemas that they refer to.

    The docstring below a field is its description.
    """
    schemas, common = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(kind)) for name, kind in results.items()],
        ref_template="#/components/schemas/{model}",
    )
    named: JsonSchemaValue = common.get("$defs", {})
    for kind in shapes_of(results.values()):
        if kind.__name__ in named:  # a base class alone has no schema
            _complete(named[kind.__name__], kind)
    return {name: schemas[name, "serialization"] for name in results}, _untitled(named)


def _complete(schema: JsonSchemaValue, kind: type) -> None:
    """Describe the fields; an answer has every field of its dataclass."""
    properties = schema.get("properties", {})
    for name, text in field_docs(kind).items():
        if text:
            properties[name]["description"] = text.replace("\n", " ")
    if is_dataclass(kind):
        schema["required"] = list(properties)
        for each in properties.values():
            each.pop("default", None)


def shapes_of(kinds: Iterable[Any]) -> set[type]:
    """The dataclasses and typed dictionaries of these types, at any depth."""
    classes: set[type] = set()
    ahead = list(kinds)
    while ahead:
        kind = ahead.pop()
        ahead += get_args(kind)
        if isinstance(kind, type) and _is_shape(kind) and kind not in classes:
            classes.add(kind)
            ahead += inspect.get_annotations(kind, eval_str=True).values()
            ahead += kind.__mro__[1:]
    return classes


def _untitled(value: Any) -> Any:
    """The same without titles that repeat a field's name."""
    if isinstance(value, dict):
        return {
            key: _untitled(each)
            for key, each in value.items()
            if not (key == "title" and isinstance(each, str))
        }
    return [_untitled(each) for each in value] if isinstance(value, list) else value


def _is_shape(kind: type) -> bool:
    return is_dataclass(kind) or is_typeddict(kind)
