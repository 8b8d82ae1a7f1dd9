"""The one table of what can be asked over HTTP: it mounts the routes and tells of them."""

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
from tracklog.collector.routing import Call, Endpoint, Param, Route
from tracklog.collector.trouble import json_response
from tracklog.fleet import NEED
from tracklog.folds.runs import LOST_AFTER

if TYPE_CHECKING:
    from tracklog.collector.app import Collector

JSON = frozenset({b"application/json"})


def _rows(about: str) -> dict[str, Any]:
    return {"type": "array", "description": about, "items": {"type": "object"}}


AFTER = Param(name="after", about="Only behind this record.", kind="integer", least=0)
RUN = Param(name="run", about="Only this run: its id, the beginning of it, or `family:run`.")
DIALECT = Param(name="dialect", about="Only this dialect.")
KIND = Param(name="kind", about="Only this kind of event.")
_PROBLEM = {
    "type": "object",
    "required": ["pointer", "message", "hint"],
    "properties": {name: {"type": "string"} for name in ("pointer", "message", "hint")},
}
_VERDICT = {
    "type": "object",
    "required": ["line", "verdict"],
    "properties": {
        "line": {"type": "integer", "minimum": 1, "description": "Counted from 1."},
        "verdict": {"enum": ["accepted", "duplicate", "refused"]},
        "seq": {"type": "integer", "description": "Its number, or the one it had before."},
        "problems": {"type": "array", "items": _PROBLEM},
    },
}
_ADMITTED = {
    "type": "object",
    "required": ["accepted", "duplicate", "refused", "last_seq", "verdicts"],
    "properties": {
        "accepted": {"type": "integer"},
        "duplicate": {"type": "integer"},
        "refused": {"type": "integer"},
        "last_seq": {
            "type": ["integer", "null"],
            "description": "The highest number that any of these lines has.",
        },
        "verdicts": {"type": "array", "items": _VERDICT},
        "hint": {"type": "string", "description": "When the body is no NDJSON."},
    },
}
_NOT_ADMITTED = {
    404: "There is no such dialect.",
    409: "The batch key stood for another batch before.",
    413: "The body is too large, measured unpacked; nothing of it was kept.",
    415: "The content type or the encoding is not taken here.",
    429: "Too much at once; `Retry-After` says when to come again.",
    503: "The disk did not take it; nothing was acknowledged. Keep it and send it again.",
}
_BATCH = (
    Param(
        name="batch",
        about="A key of the sender's for this batch (or the header `Idempotency-Key`): "
        "sent again under the same key it is told as duplicate, and kept once.",
    ),
    Param(name="verbose", about="A verdict for every line.", kind="boolean", default=False),
)
_ANSWER = {
    "type": "object",
    "required": ["answer"],
    "properties": {
        "answer": {"description": "Any JSON."},
        "by": {"type": "string", "description": "Who answers.", "maxLength": 256},
    },
}
_ASKER = Param(name="run", about="The run that asks, or `family:run`, where several ask that.")
_ANSWERED = {
    "type": "object",
    "required": ["seq", "answer", "by", "at"],
    "properties": {
        "seq": {"type": "integer", "description": "The record of the answer."},
        "answer": {"description": "Any JSON."},
        "by": {"type": ["string", "null"]},
        "at": {"type": "string"},
    },
}


def _limit(default: int) -> Param:
    about = "At most so many."
    return Param(name="limit", about=about, kind="integer", least=1, most=10_000, default=default)


_PROGRAM = {
    "type": "object",
    "properties": {
        "program": {"type": "string", "description": "Its name, as `GET /api/hosts` lists it."},
        "body": {"description": "The program itself, where the host takes one."},
        "inputs": {"type": "object", "description": "What it is given, by name."},
        "seed": {"type": "string", "description": "Where chance is part of it."},
        "tape": {
            "type": "object",
            "required": ["run"],
            "description": "Answer from a recorded run instead of asking anybody.",
            "properties": {
                "run": {"type": "string"},
                "by": {"enum": ["order", "match"]},
                "miss": {"enum": ["error", "live"]},
            },
        },
    },
}
_WORDS = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "minLength": 1},
        "label": {"type": "string", "description": "What kind of interference it is."},
    },
}
_HOST = {
    "type": "object",
    "required": ["host", "about", "family", "can", "programs"],
    "properties": {
        "host": {"type": "string"},
        "about": {"type": "string"},
        "family": {"type": "string", "description": "Of the runs that it carries out."},
        "can": {"type": "array", "items": {"enum": ["start", "stop", "inject"]}},
        "programs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "about", "inputs"],
                "properties": {
                    "name": {"type": "string"},
                    "about": {"type": "string"},
                    "inputs": {"type": "object", "description": "Each with its default."},
                },
            },
        },
    },
}
_BEGUN = {
    "type": "object",
    "required": ["host", "family", "run"],
    "properties": {name: {"type": "string"} for name in ("host", "family", "run")},
}
_SEQ = {
    "type": "object",
    "required": ["seq"],
    "properties": {"seq": {"type": "integer", "description": "The record of it."}},
}
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
_STRICT = Param(name="strict", about="Only if nothing is lost.", kind="boolean", default=False)
_LINES = {"type": "string", "description": "One JSON object per line."}


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
    Route(
        method="POST",
        path="/api/events/{dialect}",
        about="Keep lines of one dialect. Each line is judged alone: one that is refused does not "
        "hold up the others. An answer of 200 means that what was accepted is as durable as the "
        "server promises.",
        endpoint=ingest.ingest,
        params=_BATCH,
        takes=ingest.TYPES,
        body=_LINES,
        schema=_ADMITTED,
        answers=_NOT_ADMITTED,
    ),
    Route(
        method="POST",
        path="/api/events",
        about="Keep lines of any dialect, each recognised by itself.",
        endpoint=ingest.ingest,
        params=_BATCH,
        takes=ingest.TYPES,
        body=_LINES,
        schema=_ADMITTED,
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
        "Take the metrics of an OTLP request and drop them. Agents that send them with the rest "
        "would report errors otherwise.",
        otlp.metrics,
    ),
    Route(
        method="GET",
        path="/api/events",
        about="Read records, oldest first. `next` is the `after` of the next page; at the end it "
        "is `last`.",
        endpoint=questions.events,
        params=(
            Param(name="after", about=AFTER.about, kind="integer", least=0, default=0),
            RUN,
            DIALECT,
            KIND,
            Param(
                name="limit",
                about="At most so many.",
                kind="integer",
                least=1,
                most=10_000,
                default=1000,
            ),
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
    Route(
        method="GET",
        path="/api/stream",
        about="Watch live, as server-sent events. The `id` is the record's number, the data its "
        "frame as it stands in the journal; `heartbeat` events carry the journal's last number. "
        "`Last-Event-ID` (or `after`) replays what was missed; without either it begins now. "
        "`gap` {after, next} is told only when what is behind `after` is not kept any more, "
        "`reset` {after, last} when the journal is shorter than the cursor.",
        endpoint=stream.stream,
        params=(AFTER, RUN, DIALECT, KIND),
        gives="text/event-stream",
        answers={404: "There is no such dialect."},
        waits=True,
    ),
    Route(
        method="GET",
        path="/api/runs",
        about="The runs, the latest heard first.",
        endpoint=questions.runs,
        params=(_limit(50), _LOST),
        schema=_rows("What `tracklog runs --json` prints."),
    ),
    Route(
        method="GET",
        path="/api/board",
        about="The runs as a board shows them: what needs a person first, filtered, a part of the "
        "list at a time; with it how many runs are how, and what can be filtered by.",
        endpoint=questions.board,
        params=(
            Param(name="status", about="Only these.", options=NEED),
            Param(name="dialect", about="Only runs that speak it."),
            Param(name="agent", about="Only runs of this agent."),
            Param(name="outcome", about="Only runs or agents that came to this, verbatim."),
            Param(name="within", about="Heard so lately.", options=tuple(questions.BOARD_WINDOWS)),
            Param(name="text", about="In the title, the run's name or an agent's."),
            Param(
                name="after", about="Behind so many of them.", kind="integer", least=0, default=0
            ),
            _limit(200),
            _LOST,
        ),
        schema={
            "type": "object",
            "required": ["all", "matching", "after", "counts", "choices", "runs"],
        },
    ),
    Route(
        method="GET",
        path="/api/runs/{family}/{run}",
        about="One run: status, outcome, agents, tools, tokens, cost, loops.",
        endpoint=questions.show,
        params=(
            Param(name="at", about="As it was at this record.", kind="integer", least=1),
            _LOST,
        ),
        schema={"type": "object"},
        answers={404: "There is no such run, or it had not begun at that record."},
    ),
    Route(
        method="GET",
        path="/api/runs/{family}/{run}/story",
        about="The records of a run and what each means, oldest first, in any dialect. `next` is "
        "the `after` of the next page, and null at the end.",
        endpoint=questions.story,
        params=(
            Param(name="after", about=AFTER.about, kind="integer", least=0, default=0),
            _limit(1000),
            Param(
                name="whole",
                about="Long texts uncut; a record that was cut says `cut`.",
                kind="boolean",
                default=False,
            ),
        ),
        schema={"type": "object"},
        answers={404: "There is no such run."},
    ),
    Route(
        method="GET",
        path="/api/runs/{family}/{run}/tree",
        about="The run and those below it, parents before children.",
        endpoint=questions.tree,
        params=(
            Param(
                name="around",
                about="The whole tree that it stands in, each run with its status and cost.",
                kind="boolean",
                default=False,
            ),
        ),
        schema=_rows("What `tracklog tree RUN --json` prints."),
        answers={404: "There is no such run."},
    ),
    Route(
        method="GET",
        path="/api/tree",
        about="All runs, parents before children.",
        endpoint=questions.tree,
        schema=_rows("What `tracklog tree --json` prints."),
    ),
    Route(
        method="GET",
        path="/api/agents",
        about="The agents over all their runs, the busiest first.",
        endpoint=questions.agents,
        schema=_rows("What `tracklog agents --json` prints."),
    ),
    Route(
        method="GET",
        path="/api/agents/now",
        about="The agents of the runs that are under way, each with its status as it says it.",
        endpoint=questions.agents_now,
        params=(_limit(200), _LOST),
        schema=_rows("One row per agent and run, the latest heard first."),
    ),
    Route(
        method="GET",
        path="/api/hours",
        about="Hour by hour, the oldest first: how tools did, and what was spent.",
        endpoint=questions.hours,
        params=(
            Param(
                name="count", about="So many.", kind="integer", least=1, most=24 * 31, default=24
            ),
        ),
        schema=_rows("Calls, failures, latency, tokens and cost of an hour; null: none was told."),
    ),
    Route(
        method="GET",
        path="/api/tools",
        about="The tools, the most called first.",
        endpoint=questions.tools,
        params=(
            Param(
                name="window",
                about="The hours back from now in which the calls were made.",
                options=tuple(questions.WINDOWS),
                default="all",
            ),
        ),
        schema=_rows("What `tracklog tools --json` prints."),
    ),
    Route(
        method="GET",
        path="/api/loops",
        about="The tools that a run called with the same arguments again and again.",
        endpoint=questions.loops,
        params=(
            Param(
                name="at_least", about="So often.", kind="integer", least=2, most=10**9, default=3
            ),
        ),
        schema=_rows("What `tracklog loops --json` prints."),
    ),
    Route(
        method="GET",
        path="/api/runs/{family}/{run}/conversation",
        about="What was said in a run, message by message, in full.",
        endpoint=questions.conversation,
        schema=_rows("One row per message."),
        answers={404: "There is no such run."},
    ),
    Route(
        method="GET",
        path="/api/audits",
        about="The audit checkpoints, the most flaky first.",
        endpoint=questions.audits,
        params=(
            Param(name="window", about="Of when.", options=("24h", "7d", "all"), default="24h"),
        ),
        schema=_rows("What `tracklog audits --json` prints."),
    ),
    Route(
        method="GET",
        path="/api/outcomes",
        about="How the runs of the last 24 hours went.",
        endpoint=questions.outcomes,
        schema={"type": "object"},
    ),
    Route(
        method="GET",
        path="/api/outcomes/runs",
        about="The runs that the aggregate over 24 hours is made of; absent slots are absent.",
        endpoint=questions.outcome_runs,
        params=(
            Param(
                name="hours",
                about="Of those that ended, only those of the last hours.",
                kind="integer",
                least=1,
                most=24 * 31,
            ),
        ),
        schema=_rows("`run_id`, and `outcome`, `ended_at`, `convergence_score` where known."),
    ),
    Route(
        method="GET",
        path="/api/leaderboard",
        about="The contests that were won, the latest first.",
        endpoint=questions.leaderboard,
        schema=_rows("What `tracklog leaderboard --json` prints."),
    ),
    Route(
        method="GET",
        path="/api/costs",
        about="What was spent, the dearest first.",
        endpoint=questions.costs,
        params=(
            Param(
                name="by",
                about="Summed up by what.",
                options=("run", "agent", "model", "provider", "all"),
                default="run",
            ),
        ),
        schema=_rows("What `tracklog costs --json` prints."),
    ),
    Route(
        method="GET",
        path="/api/findings",
        about="What was surprising and kept, the newest first.",
        endpoint=questions.findings,
        params=(RUN, _limit(100), _LOST),
        schema=_rows("What `tracklog findings --json` prints."),
        answers={404: "There is no such run."},
    ),
    Route(
        method="GET",
        path="/api/search",
        about="The records in which all these words were said, the newest first.",
        endpoint=questions.search,
        params=(
            Param(
                name="q",
                about='Words, "words in quotes", or beginnings*.',
                required=True,
            ),
            RUN,
            DIALECT,
            Param(name="within", about="Heard so lately.", options=tuple(questions.BOARD_WINDOWS)),
            Param(name="brief", about="Without the text.", kind="boolean", default=False),
            _limit(20),
        ),
        schema=_rows("What `tracklog search --json` prints."),
        answers={404: "There is no such dialect."},
    ),
    Route(
        method="GET",
        path="/api/why",
        about="What led to a record, from the prompt on, and what came of it.",
        endpoint=questions.why,
        params=(
            Param(name="run", about="The run, or `family:run`.", required=True),
            Param(name="seq", about="The record.", kind="integer", least=1, required=True),
        ),
        schema={"type": "object"},
        answers={404: "There is no such run, or no such record in it."},
    ),
    Route(
        method="GET",
        path="/api/diff",
        about="Two runs side by side, and where they part.",
        endpoint=questions.diff,
        params=(
            Param(name="a", about="A run, or `family:run`.", required=True),
            Param(name="b", about="The other.", required=True),
            Param(name="exact", about="Ids and times count, too.", kind="boolean", default=False),
        ),
        schema={"type": "object"},
        answers={404: "There is no such run."},
    ),
    Route(
        method="GET",
        path="/api/export/{format}/{family}/{run}",
        about="A run in someone else's format. The same bytes whenever it is asked for.",
        endpoint=exchange.export,
        params=(
            Param(name="option", about="NAME=VALUE of the format, several cut apart by commas."),
            _STRICT,
            Param(
                name="report",
                about="What becomes of each field, instead.",
                kind="boolean",
                default=False,
            ),
        ),
        gives="*/*",
        answers={404: "There is no such format or run.", 409: "Something would be lost."},
    ),
    Route(
        method="GET",
        path="/api/runs/{family}/{run}/proof",
        about="The leaves and paths that prove a run's lines, for contracts/tracklog_verify.py.",
        endpoint=exchange.proof,
        params=(
            Param(
                name="check",
                about="Check it here, and tell only whether the record is whole.",
                kind="boolean",
                default=False,
            ),
        ),
        schema={"type": "object"},
        answers={404: "There is no such run."},
    ),
    Route(
        method="GET",
        path="/api/blobs/{sha256}",
        about="A large value that was lifted out of a line.",
        endpoint=exchange.blob,
        gives="application/octet-stream",
        answers={404: "There is no such blob."},
    ),
    Route(
        method="POST",
        path="/api/convert/{dialect}",
        about="Tell lines, or a run that is kept, in another dialect. Nothing is recorded.",
        endpoint=exchange.convert,
        params=(
            Param(name="run", about="A run that is kept; then the body is empty."),
            Param(name="from", about="The dialect of the lines; else each is recognised."),
            Param(
                name="bare",
                about="Do not carry the original lines in an extension.",
                kind="boolean",
                default=False,
            ),
            _STRICT,
        ),
        takes=ingest.TYPES,
        body=_LINES,
        schema={
            "type": "object",
            "required": ["lines", "report", "refused"],
            "properties": {
                "lines": {"type": "array", "items": {"type": "object"}},
                "report": {"type": "object"},
                "refused": {"type": "array", "items": _VERDICT},
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
    Route(
        method="GET",
        path="/api/inbox",
        about="Who waits for a person, since when, with what question; the open ones first.",
        endpoint=inbox.listed,
        schema=_rows("What `tracklog inbox --json` prints."),
    ),
    Route(
        method="POST",
        path="/api/inbox/{question}/answer",
        about="Answer a question, by its `question_id`. The first answer counts; the same one "
        "sent again by the same person is told as before.",
        endpoint=inbox.answer,
        params=(_ASKER,),
        takes=JSON,
        body=_ANSWER,
        schema=_ANSWERED,
        answers={
            404: "Nobody asks that, or several runs do and `run` does not say which.",
            409: "It was answered before; `by` and `seq` say who won.",
            410: "The question has expired, or its run has ended.",
            413: "The body is too large.",
            415: "The content type is not JSON.",
            429: "Too much at once.",
            503: "The disk did not take it; nothing was recorded.",
        },
    ),
    Route(
        method="GET",
        path="/api/inbox/{question}/answer",
        about="Wait for the answer to a question. A question that is not known yet may still be "
        "on its way, so it is waited for as well.",
        endpoint=inbox.wait,
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
        schema=_ANSWERED,
        answers={
            204: "There is no answer yet; ask again.",
            404: "Nobody asks that (only without `wait`), or several runs do.",
            410: "The question has expired, or its run has ended.",
        },
        waits=True,
    ),
    Route(
        method="GET",
        path="/api/hosts",
        about="The programs that run agents, what each can do here, and what it can run.",
        endpoint=hosting.listed,
        schema={"type": "array", "items": _HOST},
    ),
    Route(
        method="POST",
        path="/api/hosts/{host}/runs",
        about="Begin a run. The host must run here (`tracklog serve --with HOST`), and its "
        "programs are those that the operator offers; on return the first record is kept.",
        endpoint=hosting.start,
        takes=JSON,
        body=_PROGRAM,
        schema=_BEGUN,
        answers=_NOT_DONE,
    ),
    Route(
        method="POST",
        path="/api/hosts/{host}/runs/{run}/stop",
        about="Ask for the end of a run. Whichever process carries it out hears that.",
        endpoint=hosting.stop,
        takes=JSON,
        body={
            "type": "object",
            "properties": {"by": {"type": "string", "description": "Who wants that."}},
        },
        schema=_SEQ,
        answers=_NOT_DONE | {410: "The run has ended."},
    ),
    Route(
        method="POST",
        path="/api/hosts/{host}/runs/{run}/inject",
        about="Say something on the stage of a run, as a visitor.",
        endpoint=hosting.inject,
        takes=JSON,
        body=_WORDS,
        schema=_SEQ,
        answers=_NOT_DONE | {410: "The run has ended."},
    ),
    Route(
        method="GET",
        path="/healthz",
        about="Whether the server takes lines.",
        endpoint=operations.health,
        schema={"type": "object", "required": ["status"]},
        answers={503: "It is stopping."},
        free=True,
    ),
    Route(
        method="GET",
        path="/metrics",
        about="The numbers that Prometheus reads.",
        endpoint=operations.metrics,
        gives="text/plain",
    ),
    Route(
        method="GET",
        path="/api/openapi.json",
        about="This document, OpenAPI 3.1.",
        endpoint=_document,
        schema={"type": "object", "required": ["openapi", "paths"]},
    ),
    Route(
        method="GET",
        path="/",
        about="The console.",
        endpoint=pages.front,
        gives="text/html",
        also={"text/html": {"type": "string"}},
        answers={401: "The page that asks for the token.", 503: "The console was not built."},
        free=True,
    ),
    Route(
        method="POST",
        path="/login",
        about="Show the token once, from a browser. It gets a cookie instead; the form is the one "
        "at `/`, and nothing is written.",
        endpoint=pages.login,
        takes=pages.FORM,
        body={"type": "object", "properties": {"token": {"type": "string"}}},
        gives="text/html",
        also={"text/html": {"type": "string"}},
        answers={
            303: "It is the token.",
            401: "It is not.",
            413: "Too large.",
            415: "No form.",
            429: "Too much at once.",
        },
        free=True,
    ),
)
