"""cline: the conversations of Cline, Roo and Kilo: classic tasks, and the sessions since mid-2026."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    ANY,
    Form,
    Importer,
    LineWriter,
    Reader,
    Signs,
    SourceFile,
    beginning,
    inside,
    score,
)
from tracklog.formats.importers._editors import KILO, storages
from tracklog.formats.importers.cline import sessions, tasks
from tracklog.formats.importers.cline.joins import UI
from tracklog.formats.importers.cline.sessions import NAME, SUFFIX, SessionReader
from tracklog.formats.importers.cline.tasks import API, INDEX, ITEM, META, OLD, TaskReader
from tracklog.formats.providers import items, obj

SHOWN = Signs({"ts": int, "type": {"ask", "say"}})
SENT = Signs({"role": {"user", "assistant"}, "content": ANY})
LISTED = Signs({"id": str, "ts": int, "task": str})
TASK = Signs({"files_in_context": list})
EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", KILO)
LIST = "_index.json"


def recognise(path: Path, head: bytes) -> float:
    """A task is recognised by the name of its file and by its records."""
    objects = beginning(path, head).objects
    if path.name == UI and any(map(SHOWN.match, objects)):
        return 0.95
    alone = path.name in (API, OLD) and not path.with_name(UI).is_file()
    if alone and any(map(SENT.match, objects)):
        return 0.95
    return score(path, head, sessions.SIGNS) if path.name.endswith(SUFFIX) else 0.0


def companion(path: Path, head: bytes) -> bool:
    objects = beginning(path, head).objects
    if path.name in (API, OLD):
        return path.with_name(UI).is_file() and any(map(SENT.match, objects))
    if path.name == LIST and path.parent.name == "tasks":
        return any(LISTED.match(obj(each)) for one in objects for each in items(one.get("entries")))
    if path.name in (ITEM, INDEX):
        return any(map(LISTED.match, objects))
    if path.name == META:
        return any(map(TASK.match, objects))
    return sessions.is_beside(path, objects)


def reader(source: SourceFile, out: LineWriter, state: dict[str, Any]) -> Reader:
    reads = SessionReader if source.path.name.endswith(SUFFIX) else TaskReader
    return reads(source, out, state)


def beside(path: Path) -> Iterator[Path]:
    return sessions.beside(path) if path.name.endswith(SUFFIX) else tasks.beside(path)


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "document"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    given = environment.get("CLINE_SESSION_DATA_DIR")
    yield from inside(Path(given or home / ".cline/data/sessions"), f"*/*{SUFFIX}")
    places = [
        home / ".cline" / "data",
        *(storage / each for storage in storages(home, environment) for each in EXTENSIONS),
    ]
    for place in places:
        for path in inside(place, f"tasks/*/{UI}", f"tasks/*/{API}", f"tasks/*/{OLD}"):
            if path.name == UI or not path.with_name(UI).is_file():
                yield path


importer = Importer(
    name=NAME,
    about="Cline, Roo and Kilo: the tasks of their extensions, and the sessions of Cline.",
    mapping="2",
    reader=reader,
    recognise=recognise,
    find=find,
    form=form,
    companion=companion,
    beside=beside,
    fits=lambda body: "role" in body or "ts" in body,
    proven="a real task of Roo (Sept 2025) and sessions of Cline from its makers; classic tasks of "
    "Cline and Kilo only as files written as tests",
)
