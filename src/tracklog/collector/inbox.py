"""Questions and their answers over HTTP; the answers themselves are defined in `operator.py`."""

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast

from starlette.responses import Response

from tracklog.collector import operator
from tracklog.model.errors import NoSuchQuestion
from tracklog.web import bodies
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.collector.operator import Given
    from tracklog.collector.shapes import AnswerBody, Answered
    from tracklog.web.routing import Call

_WANTED = 'send {"answer": …, "by": "your name"}'
_LOOK = 5.0  # seconds after which a waiting question is checked again without news


async def answer(collector: "Collector", call: "Call") -> Response:
    """Record an answer, once."""
    body = await _body(collector, call)
    home, run, question = collector.home, call.given["run"], call.names["question"]
    by = body.get("by", "operator")
    if not isinstance(by, str) or not 0 < len(by) <= 256:
        raise Trouble(400, "/by is not a name", "a string of 1 to 256 characters")
    if "answer" not in body:
        raise Trouble(400, "/answer is missing", _WANTED)
    asked, given = await collector.runner.run(
        lambda: operator.give(home, question, body["answer"], by=by, run=run)
    )
    collector.hub.poke()
    answered = _answered(given)
    answered |= {"family": asked.family, "run": asked.run, "question_id": asked.question_id}
    return json_response(answered)


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
                return json_response(_answered(given))
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


def _answered(given: "Given") -> "Answered":
    return {"seq": given.seq, "answer": given.answer, "by": given.by, "at": given.at}


async def _body(collector: "Collector", call: "Call") -> "AnswerBody":
    """The body, of which only the keys are known: its values are checked where they are used."""
    body = await bodies.json_object(call.receive, call.headers, collector.held, _WANTED)
    return cast("AnswerBody", body)
