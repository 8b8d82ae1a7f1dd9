"""Hooks of agents: `POST /api/hooks/{agent}`, one event as its program sends it."""

import asyncio
from itertools import count
from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response

from tracklog.collector.ingest import late_trouble
from tracklog.dialects import tracklog as native
from tracklog.formats import registry
from tracklog.formats.hooks import MAPPING, Hook, HookedRun, HookWriter
from tracklog.formats.hooks._writing import digest_of
from tracklog.formats.importers import LineWriter, hashed, remember, run_id, utc_time
from tracklog.formats.importers.otlp.memory import HOOKS, Memory
from tracklog.journal.frame import stamp
from tracklog.model.errors import UnknownName
from tracklog.model.event import Body
from tracklog.web import bodies
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.collector.otlp import Telemetry
    from tracklog.intake.verdicts import Verdict
    from tracklog.web.routing import RoutedRequest

_RUNS = 1000  # runs that are remembered
_WANTED = "send one event of the agent's hooks as a JSON object; `tracklog connect` sets this up"


async def receive(collector: "Collector", call: "RoutedRequest") -> Response:
    """Store what one event reports. The answer is empty: agents take words for a decision."""
    try:
        hook = registry.hook(call.names["agent"])
    except UnknownName as error:
        raise Trouble(404, error.message, error.hint) from None
    body = await bodies.json_object(call.receive, call.headers, collector.held, _WANTED)
    collector.rate.take(1)
    event = hook.event(body) or call.query.get("event") or ""
    job = collector.telemetry.pool.submit(collector.hooks.take, hook, event, body)
    try:
        async with asyncio.timeout(collector.limits.append_seconds):
            verdicts = await asyncio.wrap_future(job)
    except TimeoutError:
        raise late_trouble() from None
    if verdicts:
        collector.hub.poke()
        collector.counts.lines(native.dialect.name, verdicts)
    return json_response({})


class HookIntake:
    """Admits the events of hooks to a home; reports of one call by OTLP are joined with them."""

    def __init__(self, telemetry: "Telemetry") -> None:
        self._telemetry = telemetry
        self._memory: Memory | None = None
        self._runs: dict[str, HookedRun] = {}
        self._numbers = count()

    def take(self, hook: Hook, event: str, body: Body) -> "list[Verdict]":
        """Admit one event; raises `Trouble` where it cannot be stored."""
        session, agent = hook.read(body)
        if session is None:
            raise Trouble(400, "the event names no session", _WANTED)
        run = run_id(hook.name, session, agent)
        received = stamp(self._telemetry.home.clock())
        own = utc_time(body.get("timestamp"))

        def write(out: LineWriter, memory: Memory) -> None:
            past = self._past(run, memory)
            content = orjson.dumps(body)
            origin: Body = {
                "writer": HOOKS, "fidelity": "reported", "mapping": MAPPING, "raw": hashed(content),
            }  # fmt: skip  # one table
            out.about_hash(digest_of(content, received, next(self._numbers)), origin)
            clock = None if own else "collector"
            hook.write(
                HookWriter(out, run, past, memory.past(run), own or received, clock), event, body
            )

        def judge(verdicts: "list[Verdict]", memory: Memory) -> None:
            problem = next((each for verdict in verdicts for each in verdict.problems), None)
            if problem is not None:
                memory.forget(run)
                self._runs.pop(run, None)
                raise Trouble(400, f"{problem.pointer} {problem.message}", problem.hint)

        try:
            verdicts, _ = self._telemetry.admit(HOOKS, MAPPING, write, judge)
        except BaseException:
            self._memory = None  # what it remembers may not have been stored
            raise
        return verdicts

    def _past(self, run: str, memory: Memory) -> HookedRun:
        """What the hooks of a run have reported; read from its lines when it is not in memory."""
        if memory is not self._memory:
            self._memory, self._runs = memory, {}
        if run not in self._runs:
            past = HookedRun()
            for body in self._telemetry.recall(run):
                if body["origin"]["writer"] == HOOKS:
                    past.remember(body)
            remember(self._runs, run, past, _RUNS)
        return self._runs[run]
