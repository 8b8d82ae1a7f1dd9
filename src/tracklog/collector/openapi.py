"""The OpenAPI document, derived from the table of routes."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic.json_schema import JsonSchemaValue

from tracklog import __version__
from tracklog.collector.results import results_of
from tracklog.collector.shapes import Error, JsonObject, ref
from tracklog.formats import registry
from tracklog.web.routing import Schema

if TYPE_CHECKING:
    from tracklog.answers import Param
    from tracklog.web.routing import Route

HEADER, VERSION = "Tracklog-Protocol", "1"
ABOUT_HEADER = (
    "The version of this protocol. An answer without it came from something else (a proxy, a login "
    "portal, a collector older than the header) and acknowledges nothing."
)

_NAMES = {
    "agent": "The agent: claude, codex, copilot, gemini or opencode.",
    "dialect": "The language of the lines, as `tracklog dialects` lists them.",
    "family": "The family of the run.",
    "run": "The id of the run, percent-encoded; `~.` and `~..` for a run called `.` or `..`.",
    "question": "The id of the question, percent-encoded.",
    "host": "The name of the host, as `GET /api/hosts` lists them.",
    "format": "The name of the format, as `tracklog export --help` lists them.",
    "sha256": "The hash that a line names under `$blob`.",
    "token": "The id of the token, as `tracklog token list` shows it.",
}


def document(routes: "Iterable[Route]") -> JsonSchemaValue:
    """The document: every route with its parameters and responses."""
    every = list(routes)
    types = [Error, JsonObject, *(each.result for each in every), *(each.body for each in every)]
    derived, schemas = results_of({repr(each): each for each in types if _is_type(each)})
    paths: JsonSchemaValue = {}
    for route in every:
        schema = derived.get(repr(route.result), route.schema)
        body = derived.get(repr(route.body), route.body)
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema, body)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tracklog collector",
            "version": __version__,
            "description": "A flight recorder for agent fleets. Numbers are the journal's own.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
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


def _is_type(value: object) -> bool:
    """Whether a schema can be made from it: it is no schema, and not missing."""
    return value is not None and not isinstance(value, Mapping)


def _operation(route: "Route", schema: Schema, body: Schema | None) -> JsonSchemaValue:
    title, _, more = route.about.partition(". ")
    operation: JsonSchemaValue = {
        "operationId": f"{route.method.lower()}{re.sub(r'[^a-z]+', '_', route.path)}".rstrip("_"),
        "summary": title.rstrip(".") + ".",
        "responses": _responses(route, schema),
    }
    if more:
        operation["description"] = more
    names = re.findall(r"\{(\w+)\}", route.path)
    parameters = [_named(name) for name in names] + [_parameter(each) for each in route.params]
    if parameters:
        operation["parameters"] = parameters
    if route.takes:
        operation["requestBody"] = {
            "required": True,
            "content": {kind.decode(): {"schema": body} for kind in sorted(route.takes)},
        }
    if not route.free:
        operation["security"] = [{}, {"token": []}]
    return operation


def _responses(route: "Route", schema: Schema) -> JsonSchemaValue:
    content = {route.gives: {"schema": dict(schema) or _text(route.gives)}}
    content |= {kind: {"schema": dict(schema)} for kind, schema in route.also.items()}
    fine = {"description": "Done.", "content": content}
    others = {
        400: "The request cannot be read; `error` gives the reason.",
        421: "The Host header names another machine.",
        503: "There is no room, or the server is stopping; `Retry-After` says when to try again.",
    }
    others |= {} if route.free else {401: "The token is missing or wrong."}
    origin = "The request came from a page of another origin, or the " if route.takes else "The "
    others |= {} if route.free else {403: f"{origin}token does not have the right for this."}
    others |= {403: origin[:-9] + "."} if route.free and route.takes else {}
    others |= route.answers
    responses: JsonSchemaValue = {"200": fine}
    for status, about in sorted(others.items()):
        responses[str(status)] = {"description": about}
        if status >= 400:
            error = dict(ref("Error"))
            if route.error:
                error = {"anyOf": [error, dict(route.error)]}
            responses[str(status)]["content"] = {
                "application/json": {"schema": error},
                **{kind: {"schema": dict(shape)} for kind, shape in route.also.items()},
            }
    for each in responses.values():
        each["headers"] = {HEADER: {"$ref": f"#/components/headers/{HEADER}"}}
    return responses


def _text(media_type: str) -> dict[str, str]:
    """The schema of content that is not JSON."""
    return {"type": "string", "contentMediaType": media_type}


def _named(name: str) -> JsonSchemaValue:
    schema: JsonSchemaValue = {"type": "string", "minLength": 1}
    if name == "format":
        schema["enum"] = registry.exporter_names()
    about = _NAMES[name]
    return {"name": name, "in": "path", "required": True, "description": about, "schema": schema}


def _parameter(param: "Param") -> JsonSchemaValue:
    schema: JsonSchemaValue = {"type": param.kind}
    if param.options:
        schema["enum"] = list(param.options)
    if param.default is not None and not param.many:
        schema["default"] = param.default
    if param.least is not None:
        schema["minimum"] = param.least
    if param.most is not None:
        schema["maximum"] = param.most
    elif param.kind == "integer":
        schema["maximum"] = 10**17
    listed: JsonSchemaValue = {}
    if param.many:
        schema = {"type": "array", "items": schema}
        listed = {"style": "form", "explode": not param.options}
    return {
        "name": param.name,
        "in": "query",
        "required": param.required,
        "description": param.about,
        "schema": schema,
        **listed,
    }
