"""People's marks over HTTP; `marking.py` records them."""

from typing import TYPE_CHECKING

from starlette.responses import Response

from tracklog.collector import marking
from tracklog.folds import number
from tracklog.model.event import Body
from tracklog.model.fact import Marked
from tracklog.web import bodies
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.web.routing import RoutedRequest

_WANTED = 'send {"run": "family:run", "tag": "flaky"}; or a score, a note, seen, withdraw'
_MOST_RUNS = 10_000
_LONGEST = {"tag": 256, "note": 100_000, "withdraw": 256, "by": 256}
"""Characters of each text."""


async def mark(collector: "Collector", call: "RoutedRequest") -> Response:
    """Record a mark, on one run or on several."""
    body = await bodies.json_object(call.receive, call.headers, collector.held, _WANTED)
    unknown = sorted(body.keys() - {*_LONGEST, "run", "record", "score", "seen"})
    if unknown:
        raise Trouble(400, f"/{unknown[0]} is not known here", _WANTED)
    runs = _runs(body.get("run"))
    texts = {name: _text(body, name) for name in _LONGEST}
    fact = Marked(
        record=_record(body.get("record")),
        tag=texts["tag"],
        score=_score(body.get("score")),
        note=texts["note"],
        seen=_seen(body.get("seen")),
        withdraws=texts["withdraw"],
        by=call.identity.name,
        claimed_by=texts["by"],
    )
    if (fact.tag, fact.score, fact.note, fact.seen, fact.withdraws) == (None,) * 5:
        raise Trouble(400, "there is no mark in it", _WANTED)
    recorded = await collector.runner.run(
        lambda: marking.mark(collector.home, [(run, fact) for run in runs], writer="collector")
    )
    collector.hub.poke()
    return json_response(recorded)


def _runs(value: object) -> list[str]:
    runs = [value] if isinstance(value, str) else value
    if (
        not isinstance(runs, list)
        or not 0 < len(runs) <= _MOST_RUNS
        or not all(isinstance(run, str) and run for run in runs)
    ):
        wanted = f"a run as `family:run`, or a list of 1 to {_MOST_RUNS:,}"
        raise Trouble(400, "/run is not a run", wanted)
    return runs


def _text(body: Body, name: str) -> str | None:
    value = body.get(name)
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= _LONGEST[name]):
        wanted = f"a string of 1 to {_LONGEST[name]:,} characters"
        raise Trouble(400, f"/{name} is not valid", wanted)
    return value


def _record(value: object) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise Trouble(400, "/record is not valid", "the number of a record of the run")
    return value


def _score(value: object) -> float | None:
    score = number(value)
    if value is not None and score is None:
        raise Trouble(400, "/score is not valid", "a number")
    return score


def _seen(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise Trouble(400, "/seen is not valid", "true, or false to take it back")
    return value
