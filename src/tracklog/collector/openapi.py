"""The OpenAPI document, made of the table that mounts the routes."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracklog import __version__
from tracklog.formats import registry

if TYPE_CHECKING:
    from tracklog.web.routing import Param, Route

HEADER, VERSION = "Tracklog-Protocol", "1"
ABOUT_HEADER = (
    "The version of this protocol. An answer without it came from something else (a proxy, a "
    "portal, a collector older than the header) and acknowledges nothing."
)

_ERROR = {
    "type": "object",
    "required": ["error", "hint"],
    "properties": {
        "error": {"type": "string"},
        "hint": {"type": "string", "description": "What to do next."},
    },
}
_NAMES = {
    "dialect": "The language of the lines, as `tracklog dialects` lists them.",
    "family": "The family of the run.",
    "run": "The id of the run, percent-encoded.",
    "question": "The id of the question, percent-encoded.",
    "host": "The name of the host, as `GET /api/hosts` lists them.",
    "format": "The name of the format, as `tracklog export --help` lists them.",
    "sha256": "The hash that a line names under `$blob`.",
}


def document(routes: "Iterable[Route]") -> dict[str, Any]:
    """What can be asked, with what, and what is answered."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tracklog collector",
            "version": __version__,
            "description": "A flight recorder for agent fleets. Numbers are the journal's own.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "headers": {
                HEADER: {
                    "description": ABOUT_HEADER,
                    "required": True,
                    "schema": {"type": "string", "const": VERSION},
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: "Route") -> dict[str, Any]:
    title, _, more = route.about.partition(". ")
    said: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{re.sub(r'[^a-z]+', '_', route.path)}".rstrip("_"),
        "summary": title.rstrip(".") + ".",
        "responses": _responses(route),
    }
    if more:
        said["description"] = more
    names = re.findall(r"\{(\w+)\}", route.path)
    parameters = [_named(name) for name in names] + [_parameter(each) for each in route.params]
    if parameters:
        said["parameters"] = parameters
    if route.takes:
        said["requestBody"] = {
            "required": True,
            "content": {kind.decode(): {"schema": route.body} for kind in sorted(route.takes)},
        }
    if not route.free:
        said["security"] = [{}, {"token": []}]
    return said


def _responses(route: "Route") -> dict[str, Any]:
    content = {route.gives: {"schema": dict(route.schema)}}
    content |= {kind: {"schema": dict(schema)} for kind, schema in route.also.items()}
    fine = {"description": "Done.", "content": content}
    others = {
        400: "The request cannot be read; `error` says why.",
        421: "Another Host is meant.",
        503: "There is no room, or the server is stopping; `Retry-After` says when to come again.",
    }
    others |= {} if route.free else {401: "The token is missing or another one."}
    others |= {403: "A page of another origin asked."} if route.takes else {}
    others |= route.answers
    said: dict[str, Any] = {"200": fine}
    for status, about in sorted(others.items()):
        said[str(status)] = {"description": about}
        if status >= 400:
            schema: dict[str, Any] = {"$ref": "#/components/schemas/Error"}
            if route.error:
                schema = {"anyOf": [schema, dict(route.error)]}
            said[str(status)]["content"] = {
                "application/json": {"schema": schema},
                **{kind: {"schema": dict(shape)} for kind, shape in route.also.items()},
            }
    for each in said.values():
        each["headers"] = {HEADER: {"$ref": f"#/components/headers/{HEADER}"}}
    return said


def _named(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if name == "format":
        schema["enum"] = registry.exporter_names()
    about = _NAMES[name]
    return {"name": name, "in": "path", "required": True, "description": about, "schema": schema}


def _parameter(param: "Param") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": param.kind}
    if param.options:
        schema["enum"] = list(param.options)
    if param.default is not None:
        schema["default"] = param.default
    if param.least is not None:
        schema["minimum"] = param.least
    if param.most is not None:
        schema["maximum"] = param.most
    elif param.kind == "integer":
        schema["maximum"] = 10**17
    return {
        "name": param.name,
        "in": "query",
        "required": param.required,
        "description": param.about,
        "schema": schema,
    }
