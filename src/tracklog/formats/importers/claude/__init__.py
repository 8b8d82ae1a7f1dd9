"""claude: the conversations that Claude Code stores under ~/.claude/projects."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    Form,
    Importer,
    LineWriter,
    Reader,
    SourceFile,
    inside,
    opening,
    word,
)
from tracklog.formats.importers.claude import aside
from tracklog.formats.importers.claude.files import NAME
from tracklog.formats.importers.claude.reader import ClaudeReader
from tracklog.formats.importers.claude.record import KINDS
from tracklog.model.event import Body

EMPTY = 2
"""The size in bytes of an empty list file; there are thousands of them."""


def find(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    given = environment.get("CLAUDE_CONFIG_DIR")
    folders = given.split(",") if given else [str(home / ".claude"), str(home / ".config/claude")]
    for folder in folders:
        projects = Path(folder).expanduser() / "projects"
        found = inside(projects, "**/*.jsonl", f"**/{aside.RESULTS}/*")
        yield from (path for path in found if path.suffix == ".jsonl" or aside.is_output(path))
        lists = inside(projects.parent / aside.TODOS, "*.json")
        yield from (path for path in lists if aside.is_list(path) and path.stat().st_size > EMPTY)


def recognise(path: Path, head: bytes) -> float:
    if aside.is_output(path) or aside.is_list(path):
        return 0.95
    for value in opening(head):
        if not isinstance(value, dict):
            continue
        kind = word(value.get("type"))
        if path.name == aside.HISTORY and {"display", "project"} <= value.keys():
            return 0.95
        if "sessionId" in value and ("uuid" in value or kind in KINDS):
            return 0.9
        if kind == "summary" and "leafUuid" in value:
            return 0.9
        if "session_id" in value and kind in ("system", "assistant", "user", "result"):
            return 0.8
        if kind in ("file-history-snapshot", "queue-operation"):
            return 0.8
    return 0.5 if b'"parentUuid"' in head and path.suffix == ".jsonl" else 0


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    if aside.is_output(path):
        return "text"
    return "document" if aside.is_list(path) else "lines"


def reader(source: SourceFile, tell: LineWriter, state: dict[str, Any]) -> Reader:
    """The reader for a file, by its path."""
    if aside.is_output(source.path):
        return aside.OutputReader(source, tell, state)
    if aside.is_list(source.path):
        return aside.ListReader(source, tell, state)
    if source.path.name == aside.HISTORY:
        return aside.ClaudeHistoryReader(source, tell, state)
    return ClaudeReader(source, tell, state)


def fits(body: Body) -> bool:
    return "type" in body and ("sessionId" in body or "uuid" in body or "leafUuid" in body)


importer = Importer(
    name=NAME,
    about="The conversations of Claude Code, with their sub-agents, outputs and lists.",
    mapping="1",
    reader=reader,
    recognise=recognise,
    find=find,
    form=form,
    fits=fits,
)
