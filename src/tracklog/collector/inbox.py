"""Questions and their answers over HTTP; the answers themselves are defined in `operator.py`."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import orjson
from starlette.responses import Response

from tracklog.collector import operator
from tracklog.model.errors import NoSuchQuestion
from tracklog.web import bodies
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.collector.operator import Given
    from tracklog.web.routing import Call

_LOOK = 5.0  # seconds after which a waiting question is checked again without news


async def answer(collector: "Collector", call: "Call") -> Response:
    """Record an answer, once."""
    fields = await _fields_of(collector, call)
    home, run, question = collector.home, call.given["run"], call.names["question"]
    by = fields.get("by", "operator")
    if not isinstance(by, str) or not 0 < len(by) <= 256:
        raise Trouble(400, "/by is not a name", "a string of 1 to 256 characters")
    if "answer" not in fields:
        raise Trouble(400, "/answer is missing", 'send {"answer": …, "by": "your name"}')
    asked, given = await collector.runner.run(
        lambda: operator.give(home, question, fields["answer"], by=by, run=run)
    )
    collector.hub.poke()
    names = {name: getattr(asked, name) for name in ("family", "run", "question_id")}
    return json_response({**_row(given), **names})


async def wait(collector: "Collector", call: "Call") -> Response:
    """The answer, as soon as there is one or when the wait is over."""
    home, run, question = collector.home, call.given["run"], call.names["question"]
    patience = call.given["wait"]
    until = time.monotonic() + patience
    names = {run, run.partition(":")[2] or run} if run else set()
    with collector.hub.news_of(*names) as news:
        while True:
            news.clear()
            try:
                given = await collector.runner.run(lambda: _given(home, question, run))
            except NoSuchQuestion:
                if not patience:
                    raise
                given = None
            if given is not None:
                return json_response(_row(given))
            left = min(_LOOK, until - time.monotonic())
            if left <= 0 or collector.hub.stopping:
                return Response(status_code=204)
            try:
                async with asyncio.timeout(left):
                    await news.wait()
            except TimeoutError:
                continue


def _given(home: Any, question: str, run: str | None) -> "Given | None":
    return operator.given(home, operator.question(home, question, run))


def _row(given: "Given") -> dict[str, Any]:
    return {"seq": given.seq, "answer": given.answer, "by": given.by, "at": given.at}


async def _fields_of(collector: "Collector", call: "Call") -> dict[str, Any]:
    body = await bodies.read(call.receive, call.headers, collector.held)
    collector.held.now -= len(body)
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Trouble(400, f"the body is no JSON: {error}", "send one JSON object") from None
    if not isinstance(fields, dict):
        raise Trouble(400, "the body is no JSON object", 'send {"answer": …, "by": "your name"}')
    return fields
