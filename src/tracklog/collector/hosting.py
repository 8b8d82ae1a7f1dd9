"""Hosts over HTTP: list them, start runs, and ask a run to end or to read a message.

A run is started by a host that is mounted here. A request to end it, or a message to its stage,
goes through the journal: it does not matter which process runs it.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson
from starlette.responses import Response

from tracklog import Log, hosts
from tracklog.model.errors import NoSuchRun, NotAppended, TracklogError, UnknownName
from tracklog.web import bodies
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.web.routing import Call

LONGEST = 65_536


async def listed(collector: "Collector", call: "Call") -> Response:  # noqa: ARG001  # an endpoint
    def rows() -> list[dict[str, Any]]:
        return [_row(collector, name) for name in hosts.host_names()]

    return json_response(await collector.runner.run(rows))


def _row(collector: "Collector", name: str) -> dict[str, Any]:
    host, mounted = hosts.host(name), collector.hosts.get(name)
    can = ["start"] if mounted else []
    can += ["stop"] if host.end else []
    can += ["inject"] if host.inject else []
    programs = mounted.programs() if mounted else []
    return {
        "host": name,
        "about": host.about,
        "family": host.family,
        "can": can,
        "programs": [
            {"name": each.name, "about": each.about, "inputs": dict(each.inputs)}
            for each in programs
        ],
    }


async def start(collector: "Collector", call: "Call") -> Response:
    """Start a run; returns its name."""
    host, fields = hosts.host(call.names["host"]), await _fields_of(collector, call)
    mounted = collector.hosts.get(host.name)
    if mounted is None:
        raise Trouble(
            409, f"{host.name} does not run here", f"start `tracklog serve --with {host.name}`"
        )
    wanted = hosts.Wanted(
        program=_text(fields, "program"),
        body=fields.get("body"),
        inputs=_object(fields, "inputs"),
        seed=_text(fields, "seed"),
        tape=_tape(fields),
    )
    if (wanted.program is None) == (wanted.body is None):
        raise Trouble(400, "there must be a program or a body", 'send {"program": "its name"}')
    try:
        run = await mounted.begin(wanted)
    except (UnknownName, NoSuchRun, NotAppended):
        raise
    except TracklogError as error:
        raise Trouble(400, error.message, error.hint) from None
    collector.hub.poke()
    return json_response({"host": host.name, "family": host.family, "run": run})


async def stop(collector: "Collector", call: "Call") -> Response:
    """Record the request to end a run."""
    host, fields = hosts.host(call.names["host"]), await _fields_of(collector, call)
    by = _text(fields, "by") or "operator"
    end = host.end
    if end is None:
        raise Trouble(409, f"{host.name} ends no runs", "end its process instead")
    return await _recorded(collector, lambda: end(Log(collector.home), call.names["run"], by))


async def inject(collector: "Collector", call: "Call") -> Response:
    """Record a message to the stage of a run."""
    host, fields = hosts.host(call.names["host"]), await _fields_of(collector, call)
    text, label = _text(fields, "text"), _text(fields, "label")
    if text is None or not text.strip():
        raise Trouble(400, "/text is missing", 'send {"text": "what is said"}')
    inject = host.inject
    if inject is None:
        raise Trouble(409, f"the runs of {host.name} take no messages", "it has no stage")
    return await _recorded(
        collector, lambda: inject(Log(collector.home), call.names["run"], text, label)
    )


async def _recorded(collector: "Collector", act: Callable[[], int]) -> Response:
    try:
        seq = await collector.runner.run(act)
    except hosts.RunOver as error:
        raise Trouble(410, error.message, error.hint) from None
    collector.hub.poke()
    return json_response({"seq": seq})


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= LONGEST):
        raise Trouble(400, f"/{name} is not a string", f"a string of 1 to {LONGEST:,} characters")
    return value


def _object(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise Trouble(400, f"/{name} is not an object", "send each value under its name")
    return value


def _tape(fields: Mapping[str, Any]) -> hosts.TapeOptions | None:
    if fields.get("tape") is None:
        return None
    given = {"by": "order", "miss": "error", **_object(fields, "tape")}
    known = given.keys() == {"run", "by", "miss"}
    options = (given["by"] in ("order", "match"), given["miss"] in ("error", "live"))
    if not known or not all(options) or not isinstance(given["run"], str):
        wanted = '{"run": "…", "by": "order" or "match", "miss": "error" or "live"}'
        raise Trouble(400, "/tape is not valid", wanted)
    return hosts.TapeOptions(**given)


async def _fields_of(collector: "Collector", call: "Call") -> dict[str, Any]:
    body = await bodies.read(call.receive, call.headers, collector.held)
    collector.held.now -= len(body)
    try:
        fields = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise Trouble(400, f"the body is no JSON: {error}", "send one JSON object") from None
    if not isinstance(fields, dict):
        raise Trouble(400, "the body is no JSON object", "send one JSON object")
    return fields
