"""The published JSON Schemas, derived from the dialects' shapes."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pydantic import BaseModel

from tracklog.dialects import Dialect

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(shape: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a shape."""
    return shape.model_json_schema(by_alias=True)


def published(dialects: Iterable[Dialect]) -> dict[str, dict[str, Any]]:
    """Every schema that is published, by the name of its file."""
    files: dict[str, dict[str, Any]] = {}
    for dialect in dialects:
        if dialect.contract:
            files[dialect.contract] = contract(dialect)
        for name, shape in dialect.documents.items():
            files[name] = {"$schema": DRAFT, "$id": f"{name}.schema.json", **schema_of(shape)}
    return files


def named(dialects: Iterable[Dialect]) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every schema that can be requested by name: of each dialect, and of each document."""
    dialects = list(dialects)
    documents = {
        name: partial(schema_of, shape)
        for dialect in dialects
        for name, shape in dialect.documents.items()
    }
    return {**documents, **{dialect.name: partial(contract, dialect) for dialect in dialects}}


def contract(dialect: Dialect) -> dict[str, Any]:
    """One schema for all lines of a dialect: a `oneOf` over its kinds, or its one shape."""
    name = dialect.contract or dialect.name
    head = {
        "$schema": DRAFT,
        "$id": f"{name}.schema.json",
        "title": dialect.name,
        "description": dialect.about,
    }
    if not dialect.kinds:
        return {**head, **schema_of(dialect.frame), **head}
    definitions: dict[str, Any] = {}
    branches = [_branch(shape, definitions) for shape in dialect.kinds.values()]
    if dialect.policy.kinds == "open":
        branches.append(_branch(dialect.frame, definitions, "FrameOther"))
        other = definitions["FrameOther"]
        other["title"] = "Frame"  # a published name, whatever the class is called
        other["properties"][dialect.kind_key] |= {"not": {"enum": list(dialect.kinds)}}
    return head | {"oneOf": branches, "$defs": dict(sorted(definitions.items()))}


def _branch(shape: type[BaseModel], definitions: dict[str, Any], name: str = "") -> dict[str, Any]:
    schema = schema_of(shape)
    definitions |= schema.pop("$defs", {})
    name = name or shape.__name__
    definitions[name] = schema
    return {"$ref": f"#/$defs/{name}"}
