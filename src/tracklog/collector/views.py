"""Saved views of the console: names and addresses that people share, in a file of the home."""

from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response

from tracklog.collector.settings import RUN
from tracklog.collector.shapes import SavedView, SavedViews
from tracklog.home.home import act
from tracklog.journal.disk import Disk, write_file
from tracklog.web import bodies
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.web.routing import RoutedRequest

FILE = "views.json"
_MOST = 200
_LONGEST = {"name": 80, "page": 20, "query": 4000}
_WANTED = 'send {"views": [{"name": "Failed", "page": "", "query": "status=failed"}]}'


async def listed(collector: "Collector", call: "RoutedRequest") -> Response:  # noqa: ARG001  # an endpoint
    """The saved views."""
    return json_response(await collector.runner.run(lambda: load(collector.home.path)))


async def replace(collector: "Collector", call: "RoutedRequest") -> Response:
    """Store other views in their place."""
    body = await bodies.json_object(call.receive, call.headers, collector.held, _WANTED)
    views = body.get("views")
    if not isinstance(views, list) or len(views) > _MOST:
        raise Trouble(400, f"/views is no list of at most {_MOST}", _WANTED)
    content: SavedViews = {"views": [_view(each) for each in views]}
    if len({each["name"] for each in content["views"]}) < len(views):
        raise Trouble(400, "two views have the same name", "give each a name of its own")
    path = collector.home.path / FILE
    note = act("views", call.identity.name, names=[each["name"] for each in content["views"]])

    def store() -> None:
        if load(path.parent) != content:
            collector.home.record_fact(RUN, note, writer="collector")
            write_file(Disk(), path, orjson.dumps(content))

    await collector.runner.run(store)
    collector.hub.poke()
    return json_response(content)


def load(home: Path) -> SavedViews:
    """The views of a home; none where the file is missing or cannot be read."""
    try:
        views = orjson.loads((home / FILE).read_bytes())["views"]
        return {"views": [_view(each) for each in views]}
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, Trouble):
        return {"views": []}


def _view(value: object) -> SavedView:
    if not isinstance(value, dict):
        raise Trouble(400, "a view is no object", _WANTED)
    for name, most in _LONGEST.items():
        text = value.get(name, "")
        if not isinstance(text, str) or len(text) > most:
            raise Trouble(
                400, f"/{name} of a view is no text of at most {most} characters", _WANTED
            )
    if not value.get("name"):
        raise Trouble(400, "a view has no name", _WANTED)
    return {
        "name": value["name"],
        "page": value.get("page", ""),
        "query": value.get("query", ""),
    }
