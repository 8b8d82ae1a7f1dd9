"""Validate values against the published schemas."""

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson

PUBLISHED = Path(__file__).parent / "published"
BASE = "https://openwop.dev/spec/v1/"


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    files = [orjson.loads(path.read_bytes()) for path in (PUBLISHED / "schemas").glob("*.json")]
    registry = jsonschema_rs.Registry([(schema["$id"], schema) for schema in files])
    schema = next(each for each in files if each["$id"] == f"{BASE}{name}.schema.json")
    return jsonschema_rs.Draft202012Validator(schema, registry=registry)


def faults_of(name: str, value: Any) -> list[str]:
    """Every fault of a value against a published schema."""
    return _texts(_validator(name).iter_errors(value))


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


def _texts(errors: Any) -> list[str]:
    faults = []
    for error in errors:
        where = "/".join(map(str, error.instance_path))
        faults.append(f"{where}: {error.message}"[:300] if where else error.message[:300])
    return faults


def snapshot_schema() -> dict[str, Any]:
    """The shape of RunSnapshot as this host returns it."""
    text, json = {"type": "string"}, {"type": "object"}
    statuses = ["pending", "running", "paused", "waiting-approval", "waiting-input"]
    statuses += ["waiting-external", "completed", "failed", "cancelling", "cancelled"]
    child = {"type": "object", "properties": {"runId": text, "status": text}}
    return {
        "type": "object",
        "required": ["runId", "workflowId", "status"],
        "properties": {
            "runId": text,
            "workflowId": text,
            "status": {"enum": statuses},
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
