"""Questions and their answers over HTTP; the answers themselves are defined in `operator.py`."""

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast

from starlette.responses import Response

from tracklog.collector import operator
from tracklog.model.errors import NoSuchQuestion
from tracklog.web import bodies
from tracklog.web.guard import name_of
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.collector.operator import OperatorAnswer
    from tracklog.collector.shapes import AnswerAccepted, AnswerBody
    from tracklog.web.routing import RoutedRequest

_WANTED = 'send {"answer": …, "by": "your name"}'
_LOOK = 5.0  # seconds after which a waiting question is checked again without news


async def answer(collector: "Collector", call: "RoutedRequest") -> Response:
    """Record an answer, once."""
    body = await _body(collector, call)
    home, run, question = collector.home, call.query["run"], call.names["question"]
    typed = body.get("by")
    if typed is not None and not (isinstance(typed, str) and 0 < len(typed) <= 256):
        raise Trouble(400, "/by is not a name", "a string of 1 to 256 characters")
    by = name_of(call.identity, typed)
    if "answer" not in body:
        raise Trouble(400, "/answer is missing", _WANTED)
    row, answer = await collector.runner.run(
        lambda: operator.give(home, question, body["answer"], by=by, run=run)
    )
    collector.hub.poke()
    answered = _answered(answer)
    answered |= {"family": row.family, "run": row.run, "question_id": row.question_id}
    return json_response(answered)


async def wait(collector: "Collector", call: "RoutedRequest") -> Response:
    """The answer, as soon as there is one or when the wait is over."""
    home, run, question = collector.home, call.query["run"], call.names["question"]
    patience = call.query["wait"]
    until = time.monotonic() + patience
    names = {run, run.partition(":")[2] or run} if run else set()
    with collector.hub.news_of(*names) as news:
        while True:
            news.clear()
            call.check_again()
            try:
                answer = await collector.runner.run(lambda: _answer_of(home, question, run))
            except NoSuchQuestion:
                if not patience:
                    raise
                answer = None
            if answer is not None:
                return json_response(_answered(answer))
            left = min(_LOOK, until - time.monotonic())
            if left <= 0 or collector.hub.stopping:
                return Response(status_code=204)
            try:
                async with asyncio.timeout(left):
                    await news.wait()
            except TimeoutError:
                continue


def _answer_of(home: Any, question: str, run: str | None) -> "OperatorAnswer | None":
    return operator.recorded_answer(home, operator.question(home, question, run))


def _answered(answer: "OperatorAnswer") -> "AnswerAccepted":
    return {"seq": answer.seq, "answer": answer.answer, "by": answer.by, "at": answer.at}


async def _body(collector: "Collector", call: "RoutedRequest") -> "AnswerBody":
    """The body, of which only the keys are known: its values are checked where they are used."""
    body = await bodies.json_object(call.receive, call.headers, collector.held, _WANTED)
    return cast("AnswerBody", body)
