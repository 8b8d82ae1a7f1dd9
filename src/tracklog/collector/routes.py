"""The one table of HTTP routes: for the router and for the OpenAPI document."""

from functools import cache, partial
from typing import TYPE_CHECKING

from pydantic.json_schema import JsonSchemaValue
from starlette.responses import Response

from tracklog.answers import NO_RUN, Param, flag, integer, text
from tracklog.collector import (
    events,
    exchange,
    hooks,
    hosting,
    inbox,
    ingest,
    marks,
    openapi,
    operations,
    otlp,
    pages,
    questions,
    setting_routes,
    sources,
    stream,
    views,
)
from tracklog.collector.marking import RecordedMark
from tracklog.collector.shapes import (
    LINES,
    Admitted,
    AnswerAccepted,
    AnswerBody,
    Converted,
    EventsPage,
    FoundSources,
    Health,
    HostRow,
    ImportBody,
    ImportStarted,
    InjectBody,
    LoginForm,
    MarkBody,
    OpenApi,
    ProofCheck,
    RecordedAt,
    SavedViews,
    StartBody,
    StartedRun,
    StopBody,
    ref,
)
from tracklog.journal.proof import Proof
from tracklog.web.routing import Endpoint, Route, RoutedRequest
from tracklog.web.trouble import json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector

JSON = frozenset({b"application/json"})

AFTER = integer("after", "Only after this record.", least=0)
CURSOR = text(
    "cursor", "Only after this position, in a store with several shards: the `id` of an event."
)
RUN = text("run", "Only this run: its id, the beginning of it, or `family:run`.")
DIALECT = text("dialect", "Only this dialect.")
KIND = text("kind", "Only this kind of event.")
_NOT_ADMITTED = {
    403: "The request came from a page of another origin, or this is the demo, which accepts no events.",
    404: "There is no such dialect.",
    409: "The batch key was used for another batch.",
    413: "The body is too large after decompression, has too many lines, or takes too much CPU time to "
    "decompress; nothing of it was stored.",
    415: "The content type or the encoding is not accepted here.",
    429: "Too many requests; `Retry-After` says when to try again.",
    503: "The disk or the database failed, the disk is full, or the server is stopping; nothing "
    "was acknowledged. Keep the lines and send them again; `Retry-After` says when.",
}
_BATCH = (
    text(
        "batch",
        "A name that the sender gives this batch; it can also be in the header "
        "`Idempotency-Key`. If the batch is sent again under the same key, it gets the first "
        "answer again, with `replayed`.",
    ),
    flag("verbose", "Return a verdict for every line, not only for refused lines."),
)
_ASKER = text("run", "The run that asks, if several runs have a question with this id.")
_NOT_DONE = {
    404: "There is no such host, program or run.",
    409: "The host cannot do this, or the collector was started without it.",
    413: "The body is too large.",
    415: "The content type is not JSON.",
    429: "Too many requests.",
    503: "The disk or the database failed; nothing was recorded.",
}
_OPTION = text("option", "An option of the format, as NAME=VALUE; several are separated by commas.")
_STRICT = flag("strict", "Write nothing if any value would be lost or made up.")


_get, _post = partial(Route, method="GET"), partial(Route, method="POST")


def _telemetry(signal: str, about: str, endpoint: Endpoint) -> Route:
    return Route(
        method="POST",
        path=f"/v1/{signal}",
        about=about,
        endpoint=endpoint,
        takes=otlp.TYPES,
        body=otlp.BODY,
        needs=("write",),
        schema=otlp.ANSWER,
        also={"application/x-protobuf": otlp.BINARY},
        error=otlp.STATUS,
        answers={status: about for status, about in _NOT_ADMITTED.items() if status >= 413},
    )


async def _document(collector: "Collector", call: RoutedRequest) -> Response:  # noqa: ARG001  # an endpoint
    return json_response(_made())


@cache
def _made() -> JsonSchemaValue:
    return openapi.document(ROUTES)


ROUTES: tuple[Route, ...] = (
    _post(
        path="/api/events/{dialect}",
        endpoint=ingest.ingest,
        about="Store lines of one dialect. Each line is checked by itself: a refused line does not "
        "affect the others. A response of 200 means that the accepted lines are as durable as "
        "`tracklog serve --durability` says.",
        params=_BATCH,
        needs=("write",),
        takes=ingest.TYPES,
        body=LINES,
        result=Admitted,
        answers=_NOT_ADMITTED,
    ),
    _post(
        path="/api/events",
        endpoint=ingest.ingest,
        about="Store lines of any dialect; the dialect of each line is recognised.",
        params=_BATCH,
        needs=("write",),
        takes=ingest.TYPES,
        body=LINES,
        result=Admitted,
        answers=_NOT_ADMITTED,
    ),
    _post(
        path="/api/hooks/{agent}",
        endpoint=hooks.receive,
        about="Store one event of the hooks of an agent, as the agent sends it. `tracklog connect` "
        "sets an agent up to send its events here. The answer is an empty object.",
        params=(text("event", "The name of the event, where the event itself does not have it."),),
        needs=("write",),
        takes=JSON,
        body=ref("JsonObject"),
        schema={"const": {}},
        answers={
            400: "The event names no session, or is not a JSON object.",
            404: "There is no such agent.",
            **{status: about for status, about in _NOT_ADMITTED.items() if status >= 413},
        },
    ),
    _telemetry(
        "traces",
        "Store the spans of an OTLP request, as protobuf or JSON. Items that cannot be "
        "accepted are counted in `partialSuccess`; the others are stored.",
        otlp.traces,
    ),
    _telemetry(
        "logs",
        "Store the log records of an OTLP request, as protobuf or JSON. Items that cannot "
        "be accepted are counted in `partialSuccess`; the others are stored.",
        otlp.logs,
    ),
    _telemetry(
        "metrics",
        "Accept the metrics of an OTLP request, count their points in `/metrics`, and store nothing "
        "of them. Without this route, agents that also send metrics would report errors.",
        otlp.metrics,
    ),
    _get(
        path="/api/events",
        endpoint=events.events,
        about="Read records, oldest first. `next` is the `after` of the next page; at the end it "
        "is `last`.",
        params=(
            integer("after", AFTER.about, least=0, default=0),
            CURSOR,
            RUN,
            DIALECT,
            KIND,
            integer("limit", "At most this many records.", least=1, most=10_000, default=1000),
        ),
        result=EventsPage,
        answers={404: "There is no such run or dialect."},
    ),
    _get(
        path="/api/stream",
        endpoint=stream.stream,
        about="Watch new records, as server-sent events. The `id` of an event is the number of the "
        "record, its data is the record as it is stored in the journal. `heartbeat` events have the "
        "first and the last number of the journal, and the server's time. "
        "With `Last-Event-ID` (or `after`) the stream continues after that record; without either it "
        "starts with the next new record. To continue after another answer, use the value of its "
        "header `Tracklog-Cursor` as `after`. "
        "A `gap` {after, next} is sent if records after `after` were pruned, a "
        "`reset` {after, last} if the journal is shorter than the cursor.",
        params=(AFTER, CURSOR, RUN, DIALECT, KIND),
        gives="text/event-stream",
        answers={404: "There is no such dialect."},
        waits=True,
    ),
    _get(
        path="/api/export/{format}/{family}/{run}",
        endpoint=exchange.export,
        about="Export a run in another format. Each request gets the same bytes.",
        params=(
            _OPTION,
            _STRICT,
            flag("report", "Return what happens to each field instead."),
        ),
        gives="*/*",
        answers={404: "There is no such format or run.", 409: "Something would be lost."},
    ),
    _get(
        path="/api/export/{format}/{family}/{run}/live",
        endpoint=stream.live,
        about="Watch a run in another format, as server-sent events: first the state of the run that "
        "a client needs, then each new event until the run ends. The `id` is the number of the last "
        "record that was sent completely. With `Last-Event-ID` (or `after`) the stream continues "
        "after that record, `after=0` sends the run from its beginning, and without either the "
        "stream starts with the next new record. A `gap` {after, next} is sent if records were "
        "pruned; heartbeats are comments.",
        params=(_OPTION, AFTER),
        gives="text/event-stream",
        answers={
            204: "The run has ended, and all its events were sent before: do not reconnect.",
            404: "There is no such run or format, or one that cannot be followed.",
        },
        waits=True,
    ),
    _get(
        path="/api/runs/{family}/{run}/proof",
        endpoint=exchange.proof,
        about="The proof that the lines of a run are unchanged; tracklog_verify.py checks it.",
        params=(
            flag("check", "Verify it here, and return only the result."),
            integer(
                "seen",
                "With `check`: prove that the checkpoint extends the one of so many records.",
                least=1,
            ),
        ),
        result=Proof | ProofCheck,
        answers={404: NO_RUN},
    ),
    _get(
        path="/api/blobs/{sha256}",
        endpoint=exchange.blob,
        about="A large value that is stored outside of its line.",
        gives="application/octet-stream",
        answers={404: "There is no such blob."},
    ),
    _post(
        path="/api/convert/{dialect}",
        endpoint=exchange.convert,
        needs=("read",),
        about="Convert lines, or a stored run, to another dialect. Nothing is recorded.",
        params=(
            text("run", "A stored run; then the body is empty."),
            text("from", "The dialect of the lines; else each is recognised."),
            flag("bare", "Do not add the original lines under an extra key."),
            _STRICT,
        ),
        takes=ingest.TYPES,
        body=LINES,
        result=Converted,
        answers={
            404: "There is no such dialect or run.",
            409: "Something would be lost.",
            413: "The body is too large.",
            415: "The content type or the encoding is not accepted here.",
            429: "Too many requests.",
        },
    ),
    _post(
        path="/api/inbox/{question}/answer",
        endpoint=inbox.answer,
        about="Answer a question, by its `question_id`. The first answer counts. If the same person "
        "sends the same answer again, the result is the same.",
        params=(_ASKER,),
        takes=JSON,
        body=AnswerBody,
        result=AnswerAccepted,
        answers={
            404: "There is no such question.",
            409: "It was answered before (`by` and `seq` name the first answer), or several runs "
            "have a question with this id (`runs`), and `run` does not name one.",
            410: "The question has expired, or its run has ended.",
            413: "The body is too large.",
            415: "The content type is not JSON.",
            429: "Too many requests.",
            503: "The disk or the database failed; nothing was recorded.",
        },
    ),
    _get(
        path="/api/inbox/{question}/answer",
        endpoint=inbox.wait,
        needs=("read", "write"),  # an agent that only writes waits for its answer
        about="Wait for the answer to a question. The question itself may arrive later than this "
        "request; it is waited for, too.",
        params=(
            _ASKER,
            Param(
                name="wait",
                about="How many seconds to wait.",
                kind="number",
                least=0,
                most=60,
                default=0,
            ),
        ),
        result=AnswerAccepted,
        answers={
            204: "There is no answer yet; try again.",
            404: "There is no such question (only without `wait`).",
            409: "Several runs have a question with this id (`runs`), and `run` does not name one.",
            410: "The question has expired, or its run has ended.",
        },
        waits=True,
    ),
    _post(
        path="/api/marks",
        endpoint=marks.mark,
        about="Mark a run or one of its records: a tag, a score, a note, or that it was seen. A "
        "mark changes no status, count or time of the run. With several runs, all are marked or "
        "none. A tag, a score and a note in one body are separate marks.",
        takes=JSON,
        body=MarkBody,
        result=list[RecordedMark],
        answers={
            404: "There is no such run, record or mark.",
            413: "The body is too large.",
            415: "The content type is not JSON.",
            429: "Too many requests.",
            503: "The disk or the database failed; nothing was recorded.",
        },
    ),
    _get(
        path="/api/sources/found",
        endpoint=sources.found,
        about="The logs of agents in their usual places on this machine, for a client on the same machine.",
        result=FoundSources,
        answers={403: "The request came from another machine."},
    ),
    _post(
        path="/api/import",
        endpoint=sources.start,
        about="Import the logs of these agents, as `tracklog import` does. The answer is sent at "
        "once; what is recorded comes over the stream.",
        takes=JSON,
        body=ImportBody,
        needs=("admin",),
        result=ImportStarted,
        answers={
            403: "The request came from another machine, or from a page of another origin.",
            404: "There is no such importer.",
            409: "An import is under way.",
            413: "The body is too large.",
            415: "The content type is not JSON.",
            429: "Too many requests.",
        },
    ),
    _get(
        path="/api/views",
        endpoint=views.listed,
        about="The saved views of the console.",
        result=SavedViews,
    ),
    Route(
        method="PUT",
        path="/api/views",
        endpoint=views.replace,
        about="Replace the saved views of the console. They are a file of the home, not records.",
        takes=JSON,
        body=SavedViews,
        result=SavedViews,
        answers={
            413: "The body is too large.",
            415: "The content type is not JSON.",
            429: "Too many requests.",
            503: "The disk failed; the views are as before.",
        },
    ),
    _get(
        path="/api/hosts",
        endpoint=hosting.listed,
        about="The hosts: what each can do in this collector, and which programs it can run.",
        result=list[HostRow],
    ),
    _post(
        path="/api/hosts/{host}/runs",
        endpoint=hosting.start,
        about="Start a run. The collector must have been started with the host (`tracklog serve "
        "--with HOST=PATH`); its programs are those at PATH. The answer is sent when the first "
        "record of the run is stored.",
        takes=JSON,
        body=StartBody,
        result=StartedRun,
        answers=_NOT_DONE,
    ),
    _post(
        path="/api/hosts/{host}/runs/{run}/stop",
        endpoint=hosting.stop,
        about="Request the end of a run. The request is recorded, and the process that runs it "
        "reads it there.",
        takes=JSON,
        body=StopBody,
        result=RecordedAt,
        answers=_NOT_DONE | {410: "The run has ended."},
    ),
    _post(
        path="/api/hosts/{host}/runs/{run}/inject",
        endpoint=hosting.inject,
        about="Say something in a play, as a visitor.",
        takes=JSON,
        body=InjectBody,
        result=RecordedAt,
        answers=_NOT_DONE | {410: "The run has ended."},
    ),
    _get(
        path="/healthz",
        endpoint=operations.health,
        about="Whether the server accepts lines.",
        result=Health,
        answers={503: "It is stopping."},
        free=True,
    ),
    _get(
        path="/checkpoint",
        endpoint=operations.checkpoint,
        about="The last signed checkpoint of the journal, as C2SP tlog-checkpoint, with the "
        "signatures of its witnesses.",
        gives="text/plain",
        answers={404: "No checkpoint was made yet."},
    ),
    _get(
        path="/metrics",
        endpoint=operations.metrics,
        about="The metrics for Prometheus.",
        gives="text/plain",
    ),
    _get(
        path="/api/openapi.json",
        endpoint=_document,
        about="This document, OpenAPI 3.1.",
        result=OpenApi,
    ),
    _get(
        path="/",
        endpoint=pages.front,
        about="The console.",
        gives="text/html",
        also={"text/html": {"type": "string"}},
        answers={401: "The login page.", 503: "The console was not built."},
        free=True,
    ),
    _post(
        path="/login",
        endpoint=pages.login,
        about="Log in from a browser: the form at `/` sends the token, and the browser gets a "
        "cookie. Nothing is recorded.",
        takes=pages.FORM,
        body=LoginForm,
        gives="text/html",
        also={"text/html": {"type": "string"}},
        answers={
            303: "The token is right.",
            401: "The token is wrong.",
            413: "The body is too large.",
            415: "The body is not a form.",
            429: "Too many requests, or too many wrong tokens in the last minute.",
        },
        free=True,
    ),
    *setting_routes.ROUTES,
    *questions.routes(),
)
