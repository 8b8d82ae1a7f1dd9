"""The routes of the host, what each needs, and the document that lists them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tracklog import __version__
from tracklog.hosts.openwop.schemas import snapshot_schema
from tracklog.hosts.openwop.wires import Wire


class HostRoute(NamedTuple):
    """A route; its name is that of the handler."""

    method: str
    path: str
    name: str
    about: str
    scopes: tuple[str, ...] = ()
    """The scopes that the key of the caller must have; without any, no key is needed."""
    good: int = 200
    since: int = 1
    """The first major version that has it."""


ROUTES = (
    HostRoute("GET", "/openapi.json", "openapi", "This document."),
    HostRoute(
        "GET", "/workflows/{id}", "workflow", "A workflow, as it was defined.", ("manifest:read",)
    ),
    HostRoute("POST", "/runs", "create", "Begin a run.", ("runs:create",), 201),
    HostRoute("GET", "/runs", "list_runs", "The runs, newest first.", ("runs:read",), since=2),
    HostRoute("POST", "/runs:bulk-cancel", "bulk_cancel", "End several runs.", ("runs:cancel",)),
    HostRoute("GET", "/runs/{run}", "snapshot", "A run as it is now.", ("runs:read",)),
    HostRoute(
        "GET", "/runs/{run}/events", "events", "A run's events: JSON, or a stream.", ("runs:read",)
    ),
    HostRoute(
        "GET", "/runs/{run}/events/poll", "poll", "A run's events behind a number.", ("runs:read",)
    ),
    HostRoute(
        "GET",
        "/runs/{run}:diff",
        "diff",
        "The differences between two runs.",
        ("runs:read",),
    ),
    HostRoute(
        "GET",
        "/runs/{run}/artifacts/{artifact}",
        "artifact",
        "What a person made of a node's artifact.",
        ("artifacts:read",),
    ),
    HostRoute(
        "GET", "/runs/{run}/effects", "effects", "The calls of tools.", ("runs:read",), since=2
    ),
    HostRoute("POST", "/runs/{run}/cancel", "cancel", "End a run.", ("runs:cancel",)),
    HostRoute("POST", "/runs/{run}:pause", "pause", "Pause a run.", ("runs:cancel",), 202),
    HostRoute(
        "POST", "/runs/{run}:resume", "resume", "Continue a paused run.", ("runs:cancel",), 202
    ),
    HostRoute(
        "POST",
        "/runs/{run}:fork",
        "fork",
        "Replay a run, or branch off from it.",
        ("runs:create", "runs:read"),
        201,
    ),
    HostRoute(
        "POST",
        "/runs/{run}/interrupts/{node}",
        "resolve",
        "Answer what a run waits for.",
        ("approvals:respond",),
    ),
    HostRoute(
        "GET", "/interrupts/{token}", "inspect_by_token", "The question that a token is for."
    ),
    HostRoute("POST", "/interrupts/{token}", "resolve_by_token", "Answer the question of a token."),
    HostRoute(
        "POST", "/webhooks", "register_webhook", "Have events sent.", ("webhooks:manage",), 201
    ),
    HostRoute(
        "DELETE",
        "/webhooks/{webhook}",
        "unregister_webhook",
        "Have no more events sent.",
        ("webhooks:manage",),
        204,
    ),
    HostRoute(
        "GET",
        "/webhooks/{webhook}/dead-letters",
        "dead_letters",
        "The deliveries that were given up.",
        ("webhooks:manage",),
        since=2,
    ),
    HostRoute(
        "GET",
        "/audit/verify",
        "verify_audit",
        "Not found: the profile is not offered here.",
        ("audit:read",),
    ),
    HostRoute(
        "GET",
        "/host/effect-seams",
        "effect_seams",
        "Where runs have effects outside.",
        ("runs:read",),
        since=2,
    ),
    HostRoute(
        "POST",
        "/host/sample/toolhooks/invoke",
        "toolhooks",
        "A tool call without the call; for tests.",
        ("runs:create",),
    ),
)
SEGMENTS = frozenset(
    """agents audit connection-providers content host interrupts openapi.json proposals prompts runs
    tools trigger-subscriptions webhooks workflows""".split()  # noqa: SIM905  # a list of words
)
"""The first segments of the paths of version 2."""
CACHES = {"cb": "Any text: a new one is an address that no cache knows"}
"""The parameter of documents that everybody may store; the tools of the specification send it."""
QUERY: dict[str, dict[str, str]] = {
    "discovery": CACHES,
    "openapi": CACHES,
    "events": {
        "streamMode": "values, updates, messages or debug; several with commas",
        "types": "Types of events, exact or `agent.*`, in the place of the table of the mode; ours",
        "bufferMs": "Milliseconds that are sent at once, 0 to 5000",
        "resumable": "`true`; a stream can always be resumed with `Last-Event-ID`",
    },
    "diff": {"against": "The run to compare with"},
    "dead_letters": {
        "limit": "Deliveries on a page; the most are 100",
        "cursor": "The next page",
    },
    "list_runs": {
        "limit": "Runs on a page; the most are 100",
        "cursor": "The next page",
        "workflowId": "Only of this workflow",
        "status": "Only with this status",
    },
    "unregister_webhook": {"tenantId": "The tenant of the subscription"},
    "verify_audit": {"fromSeq": "The first entry", "toSeq": "The last entry"},
}
"""The parameters of the routes; any other one is refused."""
POLL = {
    "1": {
        "lastSequence": "The number of the last event that the caller has",
        "timeout": "Seconds to wait for the next event, 60 at most",
    },
    "2": {
        "afterSequence": "The number of the last event that the caller has",
        "timeout": "Seconds to wait for the next event, 1 to 60",
        "streamMode": "debug: a poll has all events",
    },
}
"""Those of a poll, by the major version."""


def query_of(route: str, wire: Wire) -> dict[str, str]:
    """The parameters of a route, by its name, each with its meaning."""
    return POLL[wire.version[0]] if route == "poll" else QUERY.get(route, {})


def routes_of(wire: Wire) -> list[HostRoute]:
    """The routes of one version, with complete paths."""
    major = int(wire.version[0])
    return [
        route._replace(path=wire.prefix + route.path) for route in ROUTES if route.since <= major
    ]


def openapi(wire: Wire) -> dict[str, Any]:
    """The document at `openapi.json`."""
    paths: dict[str, Any] = {
        "/.well-known/openwop": {
            "get": _operation(
                HostRoute("GET", "", "discovery", "What it can do."), query_of("discovery", wire)
            )
        }
    }
    for route in routes_of(wire):
        operation = _operation(route, query_of(route.name, wire))
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
            "schemas": {"Error": envelope, "RunSnapshot": snapshot_schema()},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _operation(route: HostRoute, query: Mapping[str, str]) -> dict[str, Any]:
    error = {"schema": {"$ref": "#/components/schemas/Error"}}
    data: dict[str, Any] = {"operationId": route.name, "summary": route.about}
    text = {"schema": {"type": "string"}}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, **text}
        for name in ("id", "run", "node", "token", "webhook", "artifact")
        if f"{{{name}}}" in route.path
    ]
    parameters += [
        {"name": name, "in": "query", "description": about, **text} for name, about in query.items()
    ]
    if parameters:
        data["parameters"] = parameters
    if route.scopes:
        data["description"] = f"Needs the scope {' and '.join(route.scopes)}."
    else:
        data["security"] = []
    good: dict[str, Any] = {"description": "Done."}
    if route.name == "snapshot":
        schema = {"schema": {"$ref": "#/components/schemas/RunSnapshot"}}
        good["content"] = {"application/json": schema}
    data["responses"] = {
        str(route.good): good,
        "default": {"description": "Not done.", "content": {"application/json": error}},
    }
    return data
