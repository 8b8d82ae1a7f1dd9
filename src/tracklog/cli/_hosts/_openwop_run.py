"""Run one workflow in this process and print its events, without a server."""

import asyncio
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.folds import short
from tracklog.hosts import Wanted
from tracklog.model.errors import TracklogError
from tracklog.model.event import Body
from tracklog.recording import tape as tapes

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine
    from tracklog.hosts.openwop.http import App
    from tracklog.hosts.openwop.runlog import RunLog

LOOK = 1.0
"""Seconds after which the run is checked for activity."""
WORDS = ("reasoning", "delta", "decision", "result", "error", "arguments", "outputs", "data")
"""The keys of a payload that are printed for a person."""


def carry_out(
    app: "App", wanted: Wanted, begun: Callable[[str], None], *, as_json: bool
) -> tuple[str, tapes.TapeReport | None]:
    """Returns the final status of the run, and the report of its tape, if it had one."""
    return asyncio.run(_carried_out(app, wanted, begun, as_json=as_json))


async def _carried_out(
    app: "App", wanted: Wanted, begun: Callable[[str], None], *, as_json: bool
) -> tuple[str, tapes.TapeReport | None]:
    engine = app.engine
    await engine.start(alone=True)
    try:
        run = await app.begin(wanted)
        begun(run)
        log, tape = engine.log(run), engine.tapes.get(run)
        loop = asyncio.get_running_loop()
        wishes: set[asyncio.Task[Any]] = set()

        def cancel() -> None:
            wish = engine.control.cancel(run, "interrupted", _home.user_name())
            wishes.add(loop.create_task(wish))

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, cancel)
        await _outcome_text(engine, log, as_json=as_json)
        await asyncio.gather(*wishes)
        return log.snapshot.status, None if tape is None else tapes.tape_report([tape])
    finally:
        await engine.stop()


async def _outcome_text(engine: "Engine", log: "RunLog", *, as_json: bool) -> None:
    at, asked = 0, None
    while True:
        for event in log.events[at:]:
            if as_json:
                terminal.put_json(event)
            else:
                click.echo(terminal.printable(_line(event)))
            at += 1
        sys.stdout.flush()  # flushed at once for the reader of a pipe
        if log.ended and at >= len(log.events):
            return
        waits = (log.snapshot.interrupt or {}).get("interruptId")
        if waits not in (None, asked) and not as_json:
            asked = waits
            text = f"it waits: tracklog answer {asked} {_answer(log)} --run {log.name}"
            click.secho(terminal.printable(text), fg="yellow", err=True)
        if engine.is_left(log):
            raise TracklogError(f"{log.name} cannot be run here", "the lines above show why")
        await log.wait(LOOK)


def _answer(log: "RunLog") -> str:
    """An example answer for the question of a run."""
    asked = next(e for e in reversed(log.events) if e["type"] == "interrupt.requested")
    about = asked["payload"]["data"]
    if "questions" in about and about.get("contextType") != "low-confidence":
        return "TEXT"
    return str(about.get("actions", ["accept"])[0])


def _line(event: Body) -> str:
    payload = event["payload"]
    who = payload.get("agentId") or payload.get("toolId") or ""
    value = next((payload[word] for word in WORDS if payload.get(word)), "")
    text = value if isinstance(value, str) else short(value, 200) or ""
    head = f"{event['type']:<24} {event.get('nodeId', ''):<16}"
    return f"{head} {who} {' '.join(text.split())}".rstrip()
