"""Logs of agents on this machine: which there are, and import them from the console."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response

from tracklog.collector.pages import address_of
from tracklog.collector.shapes import FoundSource, FoundSources, ImportStarted
from tracklog.formats import registry
from tracklog.formats.importing import Importing
from tracklog.home.home import act
from tracklog.journal.frame import stamp
from tracklog.model.errors import TracklogError
from tracklog.web import bodies, logs
from tracklog.web.guard import is_loopback
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.web.routing import RoutedRequest

_WANTED = 'send {"names": ["claude"]}; GET /api/sources/found lists the names'


async def found(collector: "Collector", call: "RoutedRequest") -> Response:
    """The logs of agents in their usual places."""
    await _check_local(call)
    rows = await collector.runner.run(lambda: list(_sources(Path.home())))
    answer: FoundSources = {"sources": rows, "importing": collector.imports.under_way}
    return json_response(answer)


async def start(collector: "Collector", call: "RoutedRequest") -> Response:
    """Begin an import; what it records appears like everything else."""
    await _check_local(call)
    body = await bodies.json_object(call.receive, call.headers, collector.held, _WANTED)
    names = body.get("names")
    if not isinstance(names, list) or not names:
        raise Trouble(400, "/names is no list of importers", _WANTED)
    known = registry.importer_names()
    for name in names:
        if name not in known:
            raise Trouble(404, f"there is no importer {str(name)[:50]!r}", _WANTED)
    if not collector.imports.begin(collector, names):
        raise Trouble(409, "an import is under way", "wait until it has ended")
    await collector.runner.run(
        lambda: collector.home.record_act(
            act("import", call.identity.name, names=names), writer="collector"
        )
    )
    answer: ImportStarted = {"names": names}
    return json_response(answer)


async def _check_local(call: "RoutedRequest") -> None:
    """Only who sits at this machine may read and import its files."""
    if not is_loopback(await address_of(call)):
        raise Trouble(
            403,
            "files of this machine are imported from this machine only",
            "run `tracklog import` there",
        )


def _sources(user: Path) -> Iterator[FoundSource]:
    for importer in registry.importers():
        sizes, times = [], []
        for path in importer.find(user, os.environ):
            try:
                stat = path.stat()
            except OSError:
                continue
            sizes.append(stat.st_size)
            times.append(stat.st_mtime)
        if sizes:
            yield {
                "name": importer.name,
                "about": importer.about,
                "files": len(sizes),
                "bytes": sum(sizes),
                "first": stamp(min(times)),
                "last": stamp(max(times)),
            }


class Imports:
    """The import that was begun from the console; one at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, collector: "Collector", names: list[str]) -> bool:
        """Begin one, unless one is under way."""
        if self.under_way:
            return False
        # A daemon: an import that the end of the collector interrupts goes on with the next one.
        self._thread = threading.Thread(
            target=_bring, args=(collector, names), name="import", daemon=True
        )
        self._thread.start()
        return True


def _bring(collector: "Collector", names: list[str]) -> None:
    try:
        importing = Importing(collector.home, [registry.importer(name) for name in names])
        summary = importing.bring(importing.find(Path.home(), os.environ))
        logs.log("info", "imported", files=summary.files, runs=len(summary.runs))
    except (TracklogError, OSError) as error:
        logs.log("error", "an import failed", why=str(error))
    finally:
        collector.hub.poke()
