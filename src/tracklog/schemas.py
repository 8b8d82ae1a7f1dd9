"""The published JSON Schemas, derived from the dialects' shapes."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from tracklog.dialects import Dialect

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(shape: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema that is derived from a shape."""
    return shape.model_json_schema(by_alias=True)


def published(dialects: Iterable[Dialect]) -> dict[str, dict[str, Any]]:
    """Every schema that is derived and published, by the name of its file."""
    files: dict[str, dict[str, Any]] = {}
    for dialect in dialects:
        if dialect.contract:
            files[dialect.contract] = contract(dialect)
        for name, shape in dialect.documents.items():
            files[name] = {"$schema": DRAFT, "$id": f"{name}.schema.json", **schema_of(shape)}
    return files


def contract(dialect: Dialect) -> dict[str, Any]:
    """One schema for all lines of a dialect: a `oneOf` over its kinds."""
    definitions: dict[str, Any] = {}
    branches = [_branch(shape, definitions) for shape in dialect.kinds.values()]
    if dialect.policy.kinds == "open":
        other = _branch(dialect.frame, definitions, suffix="Other")
        kinds = {"not": {"enum": list(dialect.kinds)}} if dialect.kinds else {}
        name = other["$ref"].rpartition("/")[2]
        definitions[name]["properties"][dialect.kind_key] |= kinds
        branches.append(other)
    name = dialect.contract or dialect.name
    return {
        "$schema": DRAFT,
        "$id": f"{name}.schema.json",
        "title": dialect.name,
        "description": dialect.about,
        "oneOf": branches,
        "$defs": dict(sorted(definitions.items())),
    }


def _branch(
    shape: type[BaseModel], definitions: dict[str, Any], suffix: str = ""
) -> dict[str, Any]:
    schema = schema_of(shape)
    definitions |= schema.pop("$defs", {})
    name = f"{shape.__name__}{suffix}"
    definitions[name] = schema
    return {"$ref": f"#/$defs/{name}"}
