"""What the verbs of the command line answer, over HTTP: the same functions, the same JSON."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson
from starlette.responses import Response

from tracklog.answers import answers, prices
from tracklog.answers.board import Wanted, around
from tracklog.answers.diff import diff as diff_of
from tracklog.answers.story import story as story_of
from tracklog.answers.why import why as why_of
from tracklog.collector.exchange import here
from tracklog.collector.stream import ALL, wanted
from tracklog.journal import frame
from tracklog.journal.frame import Record, seq_of, stamp
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.home.home import Home
    from tracklog.index.indexer import Indexer
    from tracklog.web.routing import Call

WINDOWS: dict[str, float | None] = {"24h": 86_400, "7d": 604_800, "all": None}
"""How far back, in seconds."""
BOARD_WINDOWS: dict[str, float] = {"1h": 3600, "24h": 86_400, "7d": 604_800}
_SCANNED = 100_000  # records that one page of a filtered reading looks at
_PAGE = 16 << 20  # bytes of frames in one page


async def _told(collector: "Collector", ask: "Callable[[Indexer], Any]") -> Response:
    """The answer, and the record up to which it surely holds everything."""

    def told(index: "Indexer") -> tuple[int, bytes]:
        return index.index.cursor, orjson.dumps(ask(index))

    cursor, rows = await collector.desk.ask(lambda: told(collector.home.index))
    return Response(rows, 200, {"Tracklog-Cursor": str(cursor)}, "application/json")


def _now(collector: "Collector") -> str:
    return stamp(collector.home.clock())


async def runs(collector: "Collector", call: "Call") -> Response:
    limit, lost, now = call.given["limit"], call.given["lost_after"], _now(collector)
    path = collector.home.path
    return await _told(
        collector, lambda index: answers.runs(index, now, limit, lost, prices.load(path))
    )


async def board(collector: "Collector", call: "Call") -> Response:
    given, clock = call.given, collector.home.clock()
    seconds = BOARD_WINDOWS.get(given["within"] or "")
    since = None if seconds is None else stamp(clock - seconds)
    narrow = {name: given[name] for name in ("status", "dialect", "agent", "outcome", "text")}
    asked, kept = Wanted(since=since, **narrow), collector.desk.board
    part = {"after": given["after"], "limit": given["limit"], "lost_after": given["lost_after"]}
    path = collector.home.path
    return await _told(
        collector,
        lambda index: kept.answer(index, stamp(clock), asked, prices=prices.load(path), **part),
    )


async def show(collector: "Collector", call: "Call") -> Response:
    home, at, now = collector.home, call.given["at"], _now(collector)
    key, lost = f"{call.names['family']}:{call.names['run']}", call.given["lost_after"]
    if at is not None:
        run = (call.names["family"], call.names["run"])
        return json_response(
            await collector.desk.run(lambda: answers.show_at(home, ":".join(here(home, run)), at))
        )
    return await _told(
        collector,
        lambda index: answers.show(index, _known(index, key), now, lost, prices.load(home.path)),
    )


async def story(collector: "Collector", call: "Call") -> Response:
    home, given = collector.home, call.given
    key = f"{call.names['family']}:{call.names['run']}"
    asked = {name: given[name] for name in ("after", "limit", "before", "whole")}
    return json_response(await collector.desk.run(lambda: story_of(home, key, **asked)))


async def tree(collector: "Collector", call: "Call") -> Response:
    if not call.names:
        return await _told(collector, answers.tree)
    key = f"{call.names['family']}:{call.names['run']}"
    if call.given["around"]:
        now = _now(collector)
        path = collector.home.path
        return await _told(
            collector,
            lambda index: around(index, _known(index, key), now, prices=prices.load(path)),
        )
    return await _told(collector, lambda index: answers.tree(index, _known(index, key)))


async def agents(collector: "Collector", call: "Call") -> Response:  # noqa: ARG001  # an endpoint
    return await _told(collector, answers.agents)


async def tools(collector: "Collector", call: "Call") -> Response:
    seconds = WINDOWS[call.given["window"]]
    since = None if seconds is None else stamp(collector.home.clock() - seconds)
    return await _told(collector, lambda index: answers.tools(index, since))


async def hours(collector: "Collector", call: "Call") -> Response:
    count, now, path = call.given["count"], _now(collector), collector.home.path
    return await _told(collector, lambda index: answers.hours(index, now, count, prices.load(path)))


async def agents_now(collector: "Collector", call: "Call") -> Response:
    limit, lost, now = call.given["limit"], call.given["lost_after"], _now(collector)
    return await _told(collector, lambda index: answers.agents_now(index, now, limit, lost))


async def loops(collector: "Collector", call: "Call") -> Response:
    times = call.given["at_least"]
    return await _told(collector, lambda index: answers.loops(index, times))


async def conversation(collector: "Collector", call: "Call") -> Response:
    home, key = collector.home, f"{call.names['family']}:{call.names['run']}"
    return await _told(collector, lambda index: answers.conversation(home, _known(index, key)))


async def audits(collector: "Collector", call: "Call") -> Response:
    window, now = call.given["window"], _now(collector)
    return await _told(collector, lambda index: answers.audits(index, window, now))


async def outcomes(collector: "Collector", call: "Call") -> Response:  # noqa: ARG001  # an endpoint
    now = _now(collector)
    return await _told(collector, lambda index: answers.outcomes(index, now))


async def outcome_runs(collector: "Collector", call: "Call") -> Response:
    hours = call.given["hours"]
    since = "" if hours is None else stamp(collector.home.clock() - hours * 3600)

    def ask(index: "Indexer") -> list[dict[str, Any]]:
        rows = answers.outcome_runs(index)
        return [row for row in rows if str(row.get("ended_at") or since) >= since]

    return await _told(collector, ask)


async def leaderboard(collector: "Collector", call: "Call") -> Response:  # noqa: ARG001
    return await _told(collector, answers.leaderboard)


async def costs(collector: "Collector", call: "Call") -> Response:
    by, path = call.given["by"], collector.home.path
    return await _told(collector, lambda index: answers.costs(index, by, prices.load(path)))


async def findings(collector: "Collector", call: "Call") -> Response:
    given, home, now = call.given, collector.home, _now(collector)
    name, limit, lost = given["run"], given["limit"], given["lost_after"]

    def ask(index: "Indexer") -> list[dict[str, Any]]:
        run = None if name is None else home.run(name)
        return answers.findings(index, now, run, limit, lost)

    return await _told(collector, ask)


async def search(collector: "Collector", call: "Call") -> Response:
    home, given = collector.home, call.given
    asked = wanted(home, given["run"], given["dialect"], None)
    seconds = BOARD_WINDOWS.get(given["within"] or "")
    since = "" if seconds is None else stamp(home.clock() - seconds)

    def fits(record: Record) -> bool:
        return record.received >= since and asked.matches(record, home)

    def ask(index: "Indexer") -> list[dict[str, Any]]:
        narrow = fits if since or asked != ALL else None
        rows = answers.search(index, given["q"], given["limit"], narrow)
        for row in rows if given["brief"] else ():
            del row["text"]
        return rows

    return await _told(collector, ask)


async def why(collector: "Collector", call: "Call") -> Response:
    home, run, seq = collector.home, call.given["run"], call.given["seq"]
    most = call.given["limit"]
    return await _told(collector, lambda _: why_of(home, ":".join(home.run(run)), seq, most))


async def diff(collector: "Collector", call: "Call") -> Response:
    home, given, now = collector.home, call.given, _now(collector)

    def ask(_: "Indexer") -> Any:
        a, b = (":".join(home.run(given[name])) for name in ("a", "b"))
        return diff_of(home, a, b, now, exact=given["exact"])

    return await _told(collector, ask)


async def events(collector: "Collector", call: "Call") -> Response:
    home, given = collector.home, call.given
    return await collector.desk.run(
        lambda: Response(_page(home, given), media_type="application/json")
    )


def _page(home: "Home", given: dict[str, Any]) -> bytes:
    """Frames as they stand in the journal, from where the reader is, as many as fit."""
    after, limit = given["after"], given["limit"]
    asked = wanted(home, given["run"], given["dialect"], given["kind"])
    if asked.run is not None and not asked.run[0]:
        home.run(given["run"])  # says that there is none, and what is near
    whole = asked.dialect is None and asked.kind is None  # the store itself cuts out a run
    found: list[bytes] = []
    size = scanned = 0
    last = home.journal.last
    while len(found) < limit and size < _PAGE and scanned < _SCANNED:
        frames = home.store.read(after, min(1000, limit), asked.run)
        if not frames:
            after = max(after, last) if after <= last else after
            break
        scanned += len(frames)
        for each, record in zip(frames, frame.read(frames), strict=True):
            if record is None:
                after = max(after, seq_of(each))
                continue
            after = record.seq
            if whole or asked.matches(record, home):
                found.append(each)
                size += len(each)
                if len(found) >= limit or size >= _PAGE:
                    break
    page = b'{"first":%d,"last":%d,"next":%d,"events":[%b]}'
    return page % (home.journal.first, last, after, b",".join(found))


def _known(index: "Indexer", key: str) -> str:
    """The key of a run of which something was heard."""
    if not index.state("runs", key).run:
        raise Trouble(404, f"there is no run {key!r} here", "GET /api/runs lists them")
    return key
