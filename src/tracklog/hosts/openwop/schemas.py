"""Validate values against the published schemas."""

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson

PUBLISHED = Path(__file__).parent / "published"
BASE = "https://openwop.dev/spec/v1/"
STATUSES = (
    "pending",
    "running",
    "paused",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "completed",
    "failed",
    "cancelling",
    "cancelled",
)
"""The statuses of a run."""
DEEPEST = 100
"""The levels of nested objects and lists in what clients and tools send."""


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    files = [orjson.loads(path.read_bytes()) for path in (PUBLISHED / "schemas").glob("*.json")]
    registry = jsonschema_rs.Registry([(schema["$id"], schema) for schema in files])
    schema = next(each for each in files if each["$id"] == f"{BASE}{name}.schema.json")
    return jsonschema_rs.Draft202012Validator(schema, registry=registry)


def faults_of(name: str, value: Any) -> list[str]:
    """Every fault of a value against a published schema."""
    return _texts(_validator(name).iter_errors(value))


def placed_faults(schema: Any, value: Any) -> list[tuple[str, str]]:
    """Every fault of a value against a schema, with its place in the value.

    A published schema is given by its name.
    """
    is_name = isinstance(schema, str)
    validator = _validator(schema) if is_name else jsonschema_rs.Draft202012Validator(schema)
    errors = list(validator.iter_errors(value))
    places = [".".join(map(str, each.instance_path)) for each in errors]
    return list(zip(places, _texts(errors), strict=True))


def faults_against(schema: Any, value: Any) -> list[str]:
    """Every fault of a value against a schema of a workflow's own."""
    return _texts(jsonschema_rs.Draft202012Validator(schema).iter_errors(value))


def fault_of_schema(schema: Any) -> str | None:
    """The reason why a schema cannot be used; None when it can."""
    try:
        jsonschema_rs.Draft202012Validator(schema)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        return str(error).partition("\n")[0][:300]
    return None


def is_equal(value: Any, other: Any) -> bool:
    """Whether two JSON values are the same; true is not 1."""
    return not faults_against({"const": other}, value)


def is_deep(value: Any) -> bool:
    """Whether objects and lists are nested deeper than events can be."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _texts(errors: Any) -> list[str]:
    faults = []
    for error in errors:
        where = "/".join(map(str, error.instance_path))
        faults.append(f"{where}: {error.message}"[:300] if where else error.message[:300])
    return faults


def snapshot_schema() -> dict[str, Any]:
    """The shape of RunSnapshot as this host returns it."""
    text, json = {"type": "string"}, {"type": "object"}
    child = {"type": "object", "properties": {"runId": text, "status": text}}
    return {
        "type": "object",
        "required": ["runId", "workflowId", "status"],
        "properties": {
            "runId": text,
            "workflowId": text,
            "status": {"enum": list(STATUSES)},
            **dict.fromkeys(("currentNodeId", "startedAt", "completedAt", "pausedAt"), text),
            **dict.fromkeys(("parentRunId", "parentNodeId"), text),
            **dict.fromkeys(("agent", "runOrchestrator", "owner", "interrupt"), json),
            **dict.fromkeys(("nodeStates", "variables", "channels", "configurable"), json),
            "error": {"type": "object", "required": ["code", "message"]},
            "tags": {"type": "array", "items": text},
            "metadata": json,
            "childRuns": {"type": "array", "items": child},
            "engineVersion": {"type": "integer"},
            "eventLogSchemaVersion": {"type": "integer"},
        },
    }
