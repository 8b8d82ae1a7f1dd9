"""The one table of what can be asked over HTTP: it mounts the routes and tells of them."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from tracklog.collector import (
    exchange,
    hosting,
    inbox,
    ingest,
    openapi,
    operations,
    otlp,
    pages,
    questions,
    stream,
)
from tracklog.collector.shapes import (
    ADMITTED,
    ANSWER,
    ANSWERED,
    BEGUN,
    HOST,
    LINES,
    PROGRAM,
    SEQ,
    VERDICT,
    WORDS,
)
from tracklog.folds.runs import LOST_AFTER, STATUSES
from tracklog.web.routing import Call, Endpoint, Param, Route, flag, one_of, whole, words
from tracklog.web.trouble import json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector

JSON = frozenset({b"application/json"})

AFTER = whole("after", "Only behind this record.", least=0)
RUN = words("run", "Only this run: its id, the beginning of it, or `family:run`.")
DIALECT = words("dialect", "Only this dialect.")
KIND = words("kind", "Only this kind of event.")
_NO_RUN = {404: "There is no such run."}
_NOT_ADMITTED = {
    403: "It came from a page of another origin, or this is the demo, which records nothing sent.",
    404: "There is no such dialect.",
    409: "The batch key stood for another batch before.",
    413: "The body is too large, measured unpacked, has too many lines, or costs too much to "
    "unpack; nothing of it was kept.",
    415: "The content type or the encoding is not taken here.",
    429: "Too much at once; `Retry-After` says when to come again.",
    503: "The disk did not take it, there is no room for it, or the server is stopping; nothing "
    "was acknowledged. Keep it and send it again; `Retry-After` says when.",
}
_BATCH = (
    words(
        "batch",
        "A key of the sender's for this batch (or the header `Idempotency-Key`): "
        "sent again under the same key it gets the first answer again, with `replayed`.",
    ),
    flag("verbose", "A verdict for every line."),
)
_ASKER = words("run", "The run that asks, or `family:run`, where several ask that.")
_NOT_DONE = {
    404: "There is no such host, program or run.",
    409: "The host does not do that, or does not run here.",
    413: "The body is too large.",
    415: "The content type is not JSON.",
    429: "Too much at once.",
    503: "The disk did not take it; nothing was recorded.",
}
_LOST = Param(
    name="lost_after",
    about="Seconds; a run that works and is silent for longer is lost.",
    kind="number",
    least=0.001,
    most=10**9,
    default=LOST_AFTER,
)
_OPTION = words("option", "NAME=VALUE of the format, several cut apart by commas.")
_STRICT = flag("strict", "Only if nothing is lost.")
_limit = partial(whole, "limit", "At most so many.", least=1, most=10_000)


def _route(
    method: str,
    path: str,
    endpoint: Endpoint,
    about: str,
    *,
    rows: str | None = None,
    schema: Mapping[str, Any] | None = None,
    **more: Any,
) -> Route:
    """A row of the table: it gives an object unless it says otherwise, or rows, and what they are."""
    if rows is not None:
        schema = {"type": "array", "description": rows, "items": {"type": "object"}}
    elif schema is None and "gives" not in more:
        schema = {"type": "object"}
    return Route(
        method=method, path=path, endpoint=endpoint, about=about, schema=schema or {}, **more
    )


_get, _post = partial(_route, "GET"), partial(_route, "POST")


def _telemetry(signal: str, about: str, endpoint: Endpoint) -> Route:
    return Route(
        method="POST",
        path=f"/v1/{signal}",
        about=about,
        endpoint=endpoint,
        takes=otlp.TYPES,
        body=otlp.BODY,
        schema=otlp.ANSWER,
        also={"application/x-protobuf": otlp.BINARY},
        error=otlp.STATUS,
        answers={status: about for status, about in _NOT_ADMITTED.items() if status >= 413},
    )


async def _document(collector: "Collector", call: Call) -> Response:  # noqa: ARG001  # an endpoint
    return json_response(openapi.document(ROUTES))


ROUTES: tuple[Route, ...] = (
    _post(
        "/api/events/{dialect}",
        ingest.ingest,
        "Keep lines of one dialect. Each line is judged alone: one that is refused does not "
        "hold up the others. An answer of 200 means that what was accepted is as durable as the "
        "server promises.",
        params=_BATCH,
        takes=ingest.TYPES,
        body=LINES,
        schema=ADMITTED,
        answers=_NOT_ADMITTED,
    ),
    _post(
        "/api/events",
        ingest.ingest,
        "Keep lines of any dialect, each recognised by itself.",
        params=_BATCH,
        takes=ingest.TYPES,
        body=LINES,
        schema=ADMITTED,
        answers=_NOT_ADMITTED,
    ),
    _telemetry(
        "traces",
        "Keep the spans of an OTLP request, as protobuf or JSON. What cannot be taken of it is "
        "counted in `partialSuccess`, the rest is kept.",
        otlp.traces,
    ),
    _telemetry(
        "logs",
        "Keep the log records of an OTLP request, as protobuf or JSON. What cannot be taken of it "
        "is counted in `partialSuccess`, the rest is kept.",
        otlp.logs,
    ),
    _telemetry(
        "metrics",
        "Take the metrics of an OTLP request, count their points in `/metrics` and drop them. "
        "Agents that send them with the rest would report errors otherwise.",
        otlp.metrics,
    ),
    _get(
        "/api/events",
        questions.events,
        "Read records, oldest first. `next` is the `after` of the next page; at the end it "
        "is `last`.",
        params=(
            whole("after", AFTER.about, least=0, default=0),
            RUN,
            DIALECT,
            KIND,
            whole("limit", "At most so many.", least=1, most=10_000, default=1000),
        ),
        schema={
            "type": "object",
            "required": ["first", "last", "next", "events"],
            "properties": {
                "first": {"type": "integer", "description": "The first record still kept."},
                "last": {"type": "integer"},
                "next": {"type": "integer"},
                "events": {"type": "array", "items": {"type": "object"}},
            },
        },
        answers={404: "There is no such run or dialect."},
    ),
    _get(
        "/api/stream",
        stream.stream,
        "Watch live, as server-sent events. The `id` is the record's number, the data its "
        "frame as it stands in the journal; `heartbeat` events carry the journal's first number, its "
        "last, and the server's time. "
        "`Last-Event-ID` (or `after`) replays what was missed; without either it begins now. "
        "The header `Tracklog-Cursor` of an answer is the `after` that misses nothing since. "
        "`gap` {after, next} is told only when what is behind `after` is not kept any more, "
        "`reset` {after, last} when the journal is shorter than the cursor.",
        params=(AFTER, RUN, DIALECT, KIND),
        gives="text/event-stream",
        answers={404: "There is no such dialect."},
        waits=True,
    ),
    _get(
        "/api/runs",
        questions.runs,
        "The runs, the latest heard first.",
        params=(_limit(default=50), _LOST),
        rows="What `tracklog runs --json` prints.",
    ),
    _get(
        "/api/board",
        questions.board,
        "The runs as a board shows them: what needs a person first, filtered, a part of the "
        "list at a time; with it how many runs are how, and what can be filtered by.",
        params=(
            one_of("status", "Only these.", STATUSES),
            words("dialect", "Only runs that speak it."),
            words("agent", "Only runs of this agent."),
            words("outcome", "Only runs or agents that came to this, verbatim."),
            one_of("within", "Heard so lately.", tuple(questions.BOARD_WINDOWS)),
            words("text", "In the title, the run's name or an agent's."),
            whole("after", "Behind so many of them.", least=0, default=0),
            _limit(default=200),
            _LOST,
        ),
        schema={
            "type": "object",
            "required": ["all", "matching", "after", "counts", "choices", "runs"],
        },
    ),
    _get(
        "/api/runs/{family}/{run}",
        questions.show,
        "One run: status, outcome, agents, tools, tokens, cost, loops.",
        params=(
            whole("at", "As it was at this record.", least=1),
            _LOST,
        ),
        answers={404: "There is no such run, or it had not begun at that record."},
    ),
    _get(
        "/api/runs/{family}/{run}/story",
        questions.story,
        "The records of a run and what each means, oldest first, in any dialect. `next` is "
        "the `after` of the next page, and null at the end. A record that was taken back says "
        "`withdrawn`, one that was told again later `superseded`.",
        params=(
            whole("after", AFTER.about, least=0, default=0),
            whole("before", "The last records before this number, not the first.", least=1),
            _limit(default=1000),
            flag("whole", "Long texts uncut; a record that was cut says `cut`."),
        ),
        answers=_NO_RUN,
    ),
    _get(
        "/api/runs/{family}/{run}/tree",
        questions.tree,
        "The run and those below it, parents before children.",
        params=(
            flag("around", "The whole tree that it stands in, each run with its status and cost."),
        ),
        rows="What `tracklog tree RUN --json` prints.",
        answers=_NO_RUN,
    ),
    _get(
        "/api/tree",
        questions.tree,
        "All runs, parents before children.",
        rows="What `tracklog tree --json` prints.",
    ),
    _get(
        "/api/agents",
        questions.agents,
        "The agents over all their runs, the busiest first.",
        rows="What `tracklog agents --json` prints.",
    ),
    _get(
        "/api/agents/now",
        questions.agents_now,
        "The agents of the runs that are under way, each with its status as it says it.",
        params=(_limit(default=200), _LOST),
        rows="One row per agent and run, the latest heard first.",
    ),
    _get(
        "/api/hours",
        questions.hours,
        "Hour by hour, the oldest first: how tools did, and what was spent.",
        params=(whole("count", "So many.", least=1, most=24 * 31, default=24),),
        rows="Calls, failures, latency, tokens and cost of an hour; null: none was told.",
    ),
    _get(
        "/api/tools",
        questions.tools,
        "The tools, the most called first.",
        params=(
            one_of(
                "window",
                "The hours back from now in which the calls were made.",
                tuple(questions.WINDOWS),
                default="all",
            ),
        ),
        rows="What `tracklog tools --json` prints.",
    ),
    _get(
        "/api/loops",
        questions.loops,
        "The tools that a run called with the same arguments again and again.",
        params=(whole("at_least", "So often.", least=2, most=10**9, default=3),),
        rows="What `tracklog loops --json` prints.",
    ),
    _get(
        "/api/runs/{family}/{run}/conversation",
        questions.conversation,
        "What was said in a run, message by message, in full.",
        rows="One row per message.",
        answers=_NO_RUN,
    ),
    _get(
        "/api/audits",
        questions.audits,
        "The audit checkpoints, the most flaky first.",
        params=(one_of("window", "Of when.", ("24h", "7d", "all"), default="24h"),),
        rows="What `tracklog audits --json` prints.",
    ),
    _get(
        "/api/outcomes",
        questions.outcomes,
        "How the runs of the last 24 hours went.",
    ),
    _get(
        "/api/outcomes/runs",
        questions.outcome_runs,
        "The runs that the aggregate over 24 hours is made of; absent slots are absent.",
        params=(
            whole(
                "hours", "Of those that ended, only those of the last hours.", least=1, most=24 * 31
            ),
        ),
        rows="`run_id`, and `outcome`, `ended_at`, `convergence_score` where known.",
    ),
    _get(
        "/api/leaderboard",
        questions.leaderboard,
        "The contests that were won, the latest first.",
        rows="What `tracklog leaderboard --json` prints.",
    ),
    _get(
        "/api/costs",
        questions.costs,
        "What was spent, the dearest first.",
        params=(
            one_of(
                "by",
                "Summed up by what.",
                ("run", "agent", "model", "provider", "all"),
                default="run",
            ),
        ),
        rows="What `tracklog costs --json` prints.",
    ),
    _get(
        "/api/findings",
        questions.findings,
        "What was surprising and kept, the newest first.",
        params=(RUN, _limit(default=100), _LOST),
        rows="What `tracklog findings --json` prints.",
        answers=_NO_RUN,
    ),
    _get(
        "/api/search",
        questions.search,
        "The records in which all these words were said, the newest first. Of a text that was "
        "lifted into a blob its beginning is searched.",
        params=(
            words("q", 'Words, "words in quotes", or beginnings*.', required=True),
            RUN,
            DIALECT,
            one_of("within", "Heard so lately.", tuple(questions.BOARD_WINDOWS)),
            flag("brief", "Without the text."),
            _limit(default=20),
        ),
        rows="What `tracklog search --json` prints, and the `title` of the run.",
        answers={404: "There is no such dialect."},
    ),
    _get(
        "/api/why",
        questions.why,
        "What led to a record, from the prompt on, and what came of it.",
        params=(
            words("run", "The run, or `family:run`.", required=True),
            whole("seq", "The record.", least=1, required=True),
            whole("limit", "Of a longer way so many steps, its two ends; else all.", least=2),
        ),
        answers={404: "There is no such run, or no such record in it."},
    ),
    _get(
        "/api/diff",
        questions.diff,
        "Two runs side by side, and where they part.",
        params=(
            words("a", "A run, or `family:run`.", required=True),
            words("b", "The other.", required=True),
            flag("exact", "Ids and times count, too."),
        ),
        answers=_NO_RUN,
    ),
    _get(
        "/api/export/{format}/{family}/{run}",
        exchange.export,
        "A run in someone else's format. The same bytes whenever it is asked for.",
        params=(
            _OPTION,
            _STRICT,
            flag("report", "What becomes of each field, instead."),
        ),
        gives="*/*",
        answers={404: "There is no such format or run.", 409: "Something would be lost."},
    ),
    _get(
        "/api/export/{format}/{family}/{run}/live",
        stream.live,
        "Watch a run live, in someone else's format. Server-sent events: what has to be known of "
        "what was, then what comes, until the run ends. The `id` is the number of the record that "
        "was told whole; `Last-Event-ID` (or `after`) joins behind it, `after=0` tells all from "
        "the beginning, and without either it begins now. What is not kept any more is told as a "
        "gap {after, next}; heartbeats are comments.",
        params=(_OPTION, AFTER),
        gives="text/event-stream",
        answers={
            204: "The run has ended, and its end lies before the cursor: do not come again.",
            404: "There is no such run or format, or one that cannot be followed.",
        },
        waits=True,
    ),
    _get(
        "/api/runs/{family}/{run}/proof",
        exchange.proof,
        "The leaves and paths that prove a run's lines, for contracts/tracklog_verify.py.",
        params=(flag("check", "Check it here, and tell only whether the record is whole."),),
        answers=_NO_RUN,
    ),
    _get(
        "/api/blobs/{sha256}",
        exchange.blob,
        "A large value that was lifted out of a line.",
        gives="application/octet-stream",
        answers={404: "There is no such blob."},
    ),
    _post(
        "/api/convert/{dialect}",
        exchange.convert,
        "Tell lines, or a run that is kept, in another dialect. Nothing is recorded.",
        params=(
            words("run", "A run that is kept; then the body is empty."),
            words("from", "The dialect of the lines; else each is recognised."),
            flag("bare", "Do not carry the original lines in an extension."),
            _STRICT,
        ),
        takes=ingest.TYPES,
        body=LINES,
        schema={
            "type": "object",
            "required": ["lines", "report", "refused"],
            "properties": {
                "lines": {"type": "array", "items": {"type": "object"}},
                "report": {"type": "object"},
                "refused": {"type": "array", "items": VERDICT},
            },
        },
        answers={
            404: "There is no such dialect or run.",
            409: "Something would be lost.",
            413: "The body is too large.",
            415: "The content type or the encoding is not taken here.",
            429: "Too much at once.",
        },
    ),
    _get(
        "/api/inbox",
        inbox.listed,
        "Who waits for a person, since when, with what question; the open ones first.",
        rows="What `tracklog inbox --json` prints.",
    ),
    _post(
        "/api/inbox/{question}/answer",
        inbox.answer,
        "Answer a question, by its `question_id`. The first answer counts; the same one "
        "sent again by the same person is told as before.",
        params=(_ASKER,),
        takes=JSON,
        body=ANSWER,
        schema=ANSWERED,
        answers={
            404: "Nobody asks that.",
            409: "It was answered before (`by` and `seq` say who won), or several runs ask that "
            "(`runs`) and `run` does not say which.",
            410: "The question has expired, or its run has ended.",
            413: "The body is too large.",
            415: "The content type is not JSON.",
            429: "Too much at once.",
            503: "The disk did not take it; nothing was recorded.",
        },
    ),
    _get(
        "/api/inbox/{question}/answer",
        inbox.wait,
        "Wait for the answer to a question. A question that is not known yet may still be "
        "on its way, so it is waited for as well.",
        params=(
            _ASKER,
            Param(
                name="wait",
                about="Seconds.",
                kind="number",
                least=0,
                most=60,
                default=0,
            ),
        ),
        schema=ANSWERED,
        answers={
            204: "There is no answer yet; ask again.",
            404: "Nobody asks that (only without `wait`).",
            409: "Several runs ask that (`runs`), and `run` does not say which.",
            410: "The question has expired, or its run has ended.",
        },
        waits=True,
    ),
    _get(
        "/api/hosts",
        hosting.listed,
        "The programs that run agents, what each can do here, and what it can run.",
        schema={"type": "array", "items": HOST},
    ),
    _post(
        "/api/hosts/{host}/runs",
        hosting.start,
        "Begin a run. The host must run here (`tracklog serve --with HOST`), and its "
        "programs are those that the operator offers; on return the first record is kept.",
        takes=JSON,
        body=PROGRAM,
        schema=BEGUN,
        answers=_NOT_DONE,
    ),
    _post(
        "/api/hosts/{host}/runs/{run}/stop",
        hosting.stop,
        "Ask for the end of a run. Whichever process carries it out hears that.",
        takes=JSON,
        body={
            "type": "object",
            "properties": {"by": {"type": "string", "description": "Who wants that."}},
        },
        schema=SEQ,
        answers=_NOT_DONE | {410: "The run has ended."},
    ),
    _post(
        "/api/hosts/{host}/runs/{run}/inject",
        hosting.inject,
        "Say something on the stage of a run, as a visitor.",
        takes=JSON,
        body=WORDS,
        schema=SEQ,
        answers=_NOT_DONE | {410: "The run has ended."},
    ),
    _get(
        "/healthz",
        operations.health,
        "Whether the server takes lines.",
        schema={"type": "object", "required": ["status"]},
        answers={503: "It is stopping."},
        free=True,
    ),
    _get(
        "/metrics",
        operations.metrics,
        "The numbers that Prometheus reads.",
        gives="text/plain",
    ),
    _get(
        "/api/openapi.json",
        _document,
        "This document, OpenAPI 3.1.",
        schema={"type": "object", "required": ["openapi", "paths"]},
    ),
    _get(
        "/",
        pages.front,
        "The console.",
        gives="text/html",
        also={"text/html": {"type": "string"}},
        answers={401: "The page that asks for the token.", 503: "The console was not built."},
        free=True,
    ),
    _post(
        "/login",
        pages.login,
        "Show the token once, from a browser. It gets a cookie instead; the form is the one "
        "at `/`, and nothing is written.",
        takes=pages.FORM,
        body={"type": "object", "properties": {"token": {"type": "string"}}},
        gives="text/html",
        also={"text/html": {"type": "string"}},
        answers={
            303: "It is the token.",
            401: "It is not.",
            413: "Too large.",
            415: "No form.",
            429: "Too much at once, or too many wrong tokens in the last minute.",
        },
        free=True,
    ),
)
