"""A route for each path of each question: its parameters are the query, its answer the JSON."""

from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response

from tracklog.answers import NO_RUN, Question, integer
from tracklog.answers.registry import questions
from tracklog.collector.exchange import here
from tracklog.web.routing import Endpoint, Route

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.web.routing import RoutedRequest


INDEXED = integer(
    "indexed",
    "Wait until this record is in the index, such as the `last_seq` of lines that were just sent; "
    "newer records may be missing in the answer.",
    least=0,
)

NO_RECORD = "There is no record of the number in `indexed`."


def routes() -> tuple[Route, ...]:
    """The routes of all questions, in the order of their names."""
    return tuple(_route(question, path) for question in questions() for path in question.routes)


def _route(question: Question, path: str) -> Route:
    in_path = "{run}" in path
    params = tuple(each for each in question.params if not (each.run and "{run}" in path))
    params += (INDEXED,) if question.fresh else ()
    if not in_path and len(question.routes) > 1:
        params = tuple(each for each in params if not each.run)
    needs_run = in_path or any(each.run for each in params)
    missing = [NO_RUN] * needs_run + [NO_RECORD] * question.fresh
    return Route(
        method="GET",
        path=path,
        about=question.about,
        endpoint=_endpoint(question),
        params=params,
        result=question.result,
        answers=({404: " ".join(missing)} if missing else {}) | dict(question.refusals),
    )


def _endpoint(question: Question) -> Endpoint:
    keywords = {param.name: param.argument for param in question.params}

    async def answer(collector: "Collector", call: "RoutedRequest") -> Response:
        fresh = question.fresh
        home, named = collector.home, (call.names.get("family", ""), call.names.get("run", ""))
        indexed: int | None = call.query.get(INDEXED.name)
        arguments = {
            keywords[name]: value for name, value in call.query.items() if name in keywords
        }

        def ask() -> tuple[str, bytes]:
            if call.names:
                known = fresh and home.index.state("runs", ":".join(named)).run
                arguments["run"] = ":".join(named if known else here(home, named))
            cursor = home.index.cursor_text
            answer = question.ask(home, **arguments)
            return cursor, orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)

        runner = collector.runner
        cursor, body = await (runner.ask(ask, indexed) if fresh else runner.run(ask))
        return Response(body, 200, {"Tracklog-Cursor": cursor}, "application/json")

    return answer
