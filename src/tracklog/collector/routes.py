"""The one table of HTTP routes: for the router and for the OpenAPI document."""

from functools import cache, partial
from typing import TYPE_CHECKING

from pydantic.json_schema import JsonSchemaValue
from starlette.responses import Response

from tracklog.answers import NO_RUN, Param, flag, text, whole
from tracklog.collector import (
    events,
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
    LINES,
    Admitted,
    AnswerBody,
    Answered,
    Converted,
    EventsPage,
    Health,
    HostRow,
    InjectBody,
    LoginForm,
    OpenApi,
    ProofCheck,
    RecordedAt,
    StartBody,
    StartedRun,
    StopBody,
)
from tracklog.journal.proof import Proof
from tracklog.web.routing import Call, Endpoint, Route
from tracklog.web.trouble import json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector

JSON = frozenset({b"application/json"})

AFTER = whole("after", "Only after this record.", least=0)
RUN = text("run", "Only this run: its id, the beginning of it, or `family:run`.")
DIALECT = text("dialect", "Only this dialect.")
KIND = text("kind", "Only this kind of event.")
_NOT_ADMITTED = {
    403: "It came from a page of another origin, or this is the demo, which records nothing that is sent to it.",
    404: "There is no such dialect.",
    409: "The batch key was used for another batch.",
    413: "The body is too large, measured after decompression, has too many lines, or costs too much to "
    "decompress; nothing of it was stored.",
    415: "The content type or the encoding is not accepted here.",
    429: "Too many requests; `Retry-After` says when to try again.",
    503: "The disk refused it, there is no room for it, or the server is stopping; nothing "
    "was acknowledged. Keep it and send it again; `Retry-After` says when.",
}
_BATCH = (
    text(
        "batch",
        "A name that the sender gives this batch; it can also be in the header "
        "`Idempotency-Key`. If the batch is sent again under the same key, it gets the first "
        "answer again, with `replayed`.",
    ),
    flag("verbose", "A verdict for every line."),
)
_ASKER = text("run", "The run that asks, or `family:run`, where several have this question.")
_NOT_DONE = {
    404: "There is no such host, program or run.",
    409: "The host does not do that, or does not run here.",
    413: "The body is too large.",
    415: "The content type is not JSON.",
    429: "Too many requests.",
    503: "The disk refused it; nothing was recorded.",
}
_OPTION = text("option", "NAME=VALUE of the format, several separated by commas.")
_STRICT = flag("strict", "Only if nothing is lost.")


_get, _post = partial(Route, method="GET"), partial(Route, method="POST")


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
    return json_response(_made())


@cache
def _made() -> JsonSchemaValue:
    return openapi.document(ROUTES)


ROUTES: tuple[Route, ...] = (
    _post(
        path="/api/events/{dialect}",
        endpoint=ingest.ingest,
        about="Store lines of one dialect. Each line is checked alone: a refused line does not block "
        "the others. A response of 200 means that the accepted lines are as durable as the "
        "server promises.",
        params=_BATCH,
        takes=ingest.TYPES,
        body=LINES,
        result=Admitted,
        answers=_NOT_ADMITTED,
    ),
    _post(
        path="/api/events",
        endpoint=ingest.ingest,
        about="Store lines of any dialect, each recognised by itself.",
        params=_BATCH,
        takes=ingest.TYPES,
        body=LINES,
        result=Admitted,
        answers=_NOT_ADMITTED,
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
        "Accept the metrics of an OTLP request, count their points in `/metrics` and drop them. "
        "Agents that send them with the rest would report errors otherwise.",
        otlp.metrics,
    ),
    _get(
        path="/api/events",
        endpoint=events.events,
        about="Read records, oldest first. `next` is the `after` of the next page; at the end it "
        "is `last`.",
        params=(
            whole("after", AFTER.about, least=0, default=0),
            RUN,
            DIALECT,
            KIND,
            whole("limit", "The greatest number of records.", least=1, most=10_000, default=1000),
        ),
        result=EventsPage,
        answers={404: "There is no such run or dialect."},
    ),
    _get(
        path="/api/stream",
        endpoint=stream.stream,
        about="Watch live, as server-sent events. The `id` is the record's number, the data its "
        "frame as in the journal; `heartbeat` events carry the journal's first number, its "
        "last, and the server's time. "
        "`Last-Event-ID` (or `after`) resumes behind that record; without either the stream begins "
        "with the next record. The header `Tracklog-Cursor` of an answer is the `after` with which "
        "a stream continues where the answer ended. "
        "A `gap` {after, next} is sent only when records behind `after` were pruned, a "
        "`reset` {after, last} when the journal is shorter than the cursor.",
        params=(AFTER, RUN, DIALECT, KIND),
        gives="text/event-stream",
        answers={404: "There is no such dialect."},
        waits=True,
    ),
    _get(
        path="/api/export/{format}/{family}/{run}",
        endpoint=exchange.export,
        about="A run in a foreign format. The same bytes on each request.",
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
        about="Watch a run live, in a foreign format. Server-sent events: first the state of the "
        "run that a client needs, then each new event until the run ends. The `id` is the number "
        "of the last record that was sent completely; `Last-Event-ID` (or `after`) resumes behind "
        "it, `after=0` sends the run from its beginning, and without either the stream begins with "
        "the next record. A `gap` {after, next} is sent when records were pruned; heartbeats are "
        "comments.",
        params=(_OPTION, AFTER),
        gives="text/event-stream",
        answers={
            204: "The run has ended, and its end lies before the cursor: do not reconnect.",
            404: "There is no such run or format, or one that cannot be followed.",
        },
        waits=True,
    ),
    _get(
        path="/api/runs/{family}/{run}/proof",
        endpoint=exchange.proof,
        about="The leaves and paths that prove a run's lines, for contracts/tracklog_verify.py.",
        params=(flag("check", "Verify it here, and return only the result."),),
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
        about="Convert lines, or a stored run, to another dialect. Nothing is recorded.",
        params=(
            text("run", "A stored run; then the body is empty."),
            text("from", "The dialect of the lines; else each is recognised."),
            flag("bare", "Do not carry the original lines in an extension."),
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
        about="Answer a question, by its `question_id`. The first answer counts; the same one "
        "sent again by the same person gets the same result again.",
        params=(_ASKER,),
        takes=JSON,
        body=AnswerBody,
        result=Answered,
        answers={
            404: "There is no such question.",
            409: "It was answered before (`by` and `seq` say who won), or several runs ask that "
            "(`runs`) and `run` does not say which.",
            410: "The question has expired, or its run has ended.",
            413: "The body is too large.",
            415: "The content type is not JSON.",
            429: "Too many requests.",
            503: "The disk refused it; nothing was recorded.",
        },
    ),
    _get(
        path="/api/inbox/{question}/answer",
        endpoint=inbox.wait,
        about="Wait for the answer to a question. A question that is not known yet may still be "
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
        result=Answered,
        answers={
            204: "There is no answer yet; try again.",
            404: "There is no such question (only without `wait`).",
            409: "Several runs ask that (`runs`), and `run` does not say which.",
            410: "The question has expired, or its run has ended.",
        },
        waits=True,
    ),
    _get(
        path="/api/hosts",
        endpoint=hosting.listed,
        about="The programs that run agents, what each can do here, and what it can run.",
        result=list[HostRow],
    ),
    _post(
        path="/api/hosts/{host}/runs",
        endpoint=hosting.start,
        about="Begin a run. The host must run here (`tracklog serve --with HOST`), and its "
        "programs are those that the operator offers; when the answer comes, the first record is stored.",
        takes=JSON,
        body=StartBody,
        result=StartedRun,
        answers=_NOT_DONE,
    ),
    _post(
        path="/api/hosts/{host}/runs/{run}/stop",
        endpoint=hosting.stop,
        about="Ask for the end of a run. The process that runs it is notified.",
        takes=JSON,
        body=StopBody,
        result=RecordedAt,
        answers=_NOT_DONE | {410: "The run has ended."},
    ),
    _post(
        path="/api/hosts/{host}/runs/{run}/inject",
        endpoint=hosting.inject,
        about="Say something on the stage of a run, as a visitor.",
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
        about="Send the token once, from a browser. It gets a cookie instead; the form is the one "
        "at `/`, and nothing is written.",
        takes=pages.FORM,
        body=LoginForm,
        gives="text/html",
        also={"text/html": {"type": "string"}},
        answers={
            303: "It is the token.",
            401: "It is not.",
            413: "Too large.",
            415: "No form.",
            429: "Too many requests, or too many wrong tokens in the last minute.",
        },
        free=True,
    ),
    *questions.routes(),
)
