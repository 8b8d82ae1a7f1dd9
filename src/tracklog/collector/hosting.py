"""Hosts over HTTP: list them, start runs, and ask a run to end or to read a message.

A run is started by a host that is mounted here. A request to end it, or a message to its stage,
goes through the journal: it does not matter which process runs it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from starlette.responses import Response

from tracklog import Log, hosts
from tracklog.home.home import act
from tracklog.model.errors import NoSuchRun, NotAppended, TracklogError, UnknownName
from tracklog.model.event import Body
from tracklog.web import bodies
from tracklog.web.guard import name_of
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.collector.shapes import Act, HostRow, JsonObject, RecordedAt, StartedRun
    from tracklog.web.routing import RoutedRequest

LONGEST = 65_536


async def listed(collector: "Collector", call: "RoutedRequest") -> Response:  # noqa: ARG001  # an endpoint
    def rows() -> "list[HostRow]":
        return [_row(collector, name) for name in hosts.host_names()]

    return json_response(await collector.runner.run(rows))


def _row(collector: "Collector", name: str) -> "HostRow":
    host, mounted = hosts.host(name), collector.hosts.get(name)
    able: dict[Act, bool] = {
        "start": mounted is not None,
        "stop": host.end is not None,
        "inject": host.inject is not None,
    }
    return {
        "host": name,
        "about": host.about,
        "family": host.family,
        "can": [act for act, can in able.items() if can],
        "programs": [
            {
                "name": each.name,
                "about": each.about,
                "inputs": cast("JsonObject", dict(each.inputs)),
            }
            for each in (mounted.programs() if mounted else ())
        ],
    }


async def start(collector: "Collector", call: "RoutedRequest") -> Response:
    """Start a run, after who asked for it is recorded; returns its name."""
    host, body = hosts.host(call.names["host"]), await _body(collector, call)
    mounted = collector.hosts.get(host.name)
    if mounted is None:
        raise Trouble(
            409, f"{host.name} does not run here", f"start `tracklog serve --with {host.name}`"
        )
    _accept(body, "program", "body", "inputs", "seed", "tape", "by")
    by = name_of(call.identity, _text(body, "by"))
    announced: set[str] = set()

    async def announce(run: str) -> None:
        note = act("start", by, host=host.name, run=run)
        announced.add(run)
        await collector.runner.run(lambda: collector.home.record_act(note, writer="collector"))

    wanted = hosts.Wanted(
        program=_text(body, "program"),
        body=body.get("body"),
        inputs=_object(body, "inputs"),
        seed=_text(body, "seed"),
        tape=_tape(body),
        announce=announce,
    )
    if (wanted.program is None) == (wanted.body is None):
        raise Trouble(400, "there must be a program or a body", 'send {"program": "its name"}')
    try:
        run = await mounted.begin(wanted)
    except (UnknownName, NoSuchRun, NotAppended):
        raise
    except TracklogError as error:
        raise Trouble(400, error.message, error.hint) from None
    if run not in announced:  # a host of another package may not do so
        await announce(run)
    collector.hub.poke()
    started: StartedRun = {"host": host.name, "family": host.family, "run": run}
    return json_response(started)


async def stop(collector: "Collector", call: "RoutedRequest") -> Response:
    """Record the request to end a run."""
    host, body = hosts.host(call.names["host"]), await _body(collector, call)
    _accept(body, "by")
    by = name_of(call.identity, _text(body, "by"))
    end = host.end
    if end is None:
        raise Trouble(409, f"{host.name} ends no runs", "end its process instead")
    return await _recorded(collector, lambda: end(Log(collector.home), call.names["run"], by))


async def inject(collector: "Collector", call: "RoutedRequest") -> Response:
    """Record a message to the stage of a run."""
    host, body = hosts.host(call.names["host"]), await _body(collector, call)
    _accept(body, "text", "label", "by")
    by = name_of(call.identity, _text(body, "by"))
    text, label = _text(body, "text"), _text(body, "label")
    if text is None or not text.strip():
        raise Trouble(400, "/text is missing", 'send {"text": "what is said"}')
    inject = host.inject
    if inject is None:
        raise Trouble(409, f"the runs of {host.name} take no messages", "it has no stage")
    return await _recorded(
        collector, lambda: inject(Log(collector.home), call.names["run"], text, label, by)
    )


async def _recorded(collector: "Collector", act: Callable[[], int]) -> Response:
    try:
        seq = await collector.runner.run(act)
    except hosts.RunOver as error:
        raise Trouble(410, error.message, error.hint) from None
    collector.hub.poke()
    recorded: RecordedAt = {"seq": seq}
    return json_response(recorded)


def _accept(body: Body, *names: str) -> None:
    """Refuse a member that has no effect."""
    for name in sorted(body.keys() - {*names}):
        raise Trouble(400, f"/{name[:50]} is not known here", f"there are: {', '.join(names)}")


def _text(body: Body, name: str) -> str | None:
    value = body.get(name)
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= LONGEST):
        raise Trouble(400, f"/{name} is not a string", f"a string of 1 to {LONGEST:,} characters")
    return value


def _object(body: Body, name: str) -> Body:
    value = body.get(name, {})
    if not isinstance(value, dict):
        raise Trouble(400, f"/{name} is not an object", "send each value under its name")
    return value


def _tape(body: Body) -> hosts.TapeOptions | None:
    if body.get("tape") is None:
        return None
    given = {"by": "order", "miss": "error", **_object(body, "tape")}
    known = given.keys() == {"run", "by", "miss"}
    options = (given["by"] in ("order", "match"), given["miss"] in ("error", "live"))
    if not known or not all(options) or not isinstance(given["run"], str):
        wanted = '{"run": "…", "by": "order" or "match", "miss": "error" or "live"}'
        raise Trouble(400, "/tape is not valid", wanted)
    return hosts.TapeOptions(**given)


async def _body(collector: "Collector", call: "RoutedRequest") -> Body:
    return await bodies.json_object(
        call.receive, call.headers, collector.held, "send one JSON object"
    )
