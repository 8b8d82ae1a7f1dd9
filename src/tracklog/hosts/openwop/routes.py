"""The routes of the host, and the document that lists them."""

from typing import Any, NamedTuple

from tracklog import __version__


class Route(NamedTuple):
    """One thing that can be asked; its name is that of the method which answers."""

    method: str
    path: str
    name: str
    about: str
    good: int = 200


ROUTES = (
    Route("GET", "/v1/workflows/{id}", "workflow", "A workflow, as it was defined."),
    Route("POST", "/v1/runs", "create", "Begin a run.", 201),
    Route("GET", "/v1/runs/{run}", "snapshot", "A run as it is now."),
    Route("GET", "/v1/runs/{run}/events", "events", "A run's events: JSON, or a stream."),
    Route("GET", "/v1/runs/{run}/events/poll", "poll", "A run's events behind a number."),
    Route("POST", "/v1/runs/{run}/cancel", "cancel", "End a run."),
    Route("POST", "/v1/runs/{run}/interrupts/{node}", "resolve", "Answer what a run waits for."),
    Route("POST", "/v1/runs/{run}:fork", "fork", "Replay a run, or branch off from it.", 201),
    Route("POST", "/v1/host/sample/toolhooks/invoke", "toolhooks", "Only where tests may."),
)


def openapi() -> dict[str, Any]:
    """The document at /v1/openapi.json."""
    paths: dict[str, Any] = {
        "/.well-known/openwop": {"get": _operation("discovery", "What this host can do.", 200, [])},
        "/v1/openapi.json": {"get": _operation("openapi", "This document.", 200, [])},
    }
    for route in ROUTES:
        names = [name for name in ("id", "run", "node") if f"{{{name}}}" in route.path]
        operation = _operation(route.name, route.about, route.good, names)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    envelope = {
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": {"type": "string"},
            "message": {"type": "string"},
            "details": {"type": "object"},
        },
        "additionalProperties": False,
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "tracklog OpenWOP host", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {"Error": envelope},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _operation(name: str, about: str, good: int, names: list[str]) -> dict[str, Any]:
    error = {"schema": {"$ref": "#/components/schemas/Error"}}
    data: dict[str, Any] = {"operationId": name, "summary": about}
    if names:
        place = {"in": "path", "required": True, "schema": {"type": "string"}}
        data["parameters"] = [{"name": each, **place} for each in names]
    data["responses"] = {
        str(good): {"description": "Done."},
        "default": {"description": "Not done.", "content": {"application/json": error}},
    }
    return data
