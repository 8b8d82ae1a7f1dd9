"""cursor: the chats of the Cursor editor, and the conversations of its agent on the command line."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    Form,
    Importer,
    LineWriter,
    Raw,
    Reader,
    Signs,
    SourceFile,
    beginning,
    inside,
    run_id,
    score,
)
from tracklog.formats.importers._snapshots import log_beside, stored
from tracklog.formats.importers._sqlite import MAGIC, connected, tables_of
from tracklog.formats.importers.cursor import agent, editor
from tracklog.formats.importers.cursor.agent import BlobReader, CursorTranscriptReader
from tracklog.formats.importers.cursor.editor import NAME, EditorReader

LINE = Signs(
    {"role": {"user", "assistant"}, "message.content": list},
    ("uuid", "type", "timestamp", "id", "parentId", "sessionId"),
)
ENDED = Signs({"type": {"turn_ended"}, "status": str}, ("uuid", "id", "turnId"))
BLOBS = {"blobs": frozenset({"id", "data"}), "meta": frozenset({"key", "value"})}
COMPOSED = editor.COMPOSED + " LIMIT 1"
OLDER = (
    "SELECT 1 FROM ItemTable WHERE key = ? OR (key = ? AND value LIKE '%\"conversation\":[{%')",
    (editor.CHATS, editor.COMPOSERS),
)


def recognise(path: Path, head: bytes) -> float:
    begin = beginning(path, head)
    if head.startswith(MAGIC):
        if dict(begin.tables) == BLOBS:
            return 0.95
        return 0.95 if _has_chats(path, begin.tables) else 0.0
    if any(map(ENDED.match, begin.objects)):
        return 0.9
    return score(path, head, [LINE])


def _has_chats(path: Path, tables: Mapping[str, frozenset[str]]) -> bool:
    try:
        with connected(path) as connection:
            newer = {"key", "value"} <= tables.get("cursorDiskKV", frozenset())
            if newer and connection.execute(COMPOSED).fetchone():
                return True
            if {"key", "value"} <= tables.get("ItemTable", frozenset()):
                return connection.execute(*OLDER).fetchone() is not None
    except OSError:
        pass
    return False


def companion(path: Path, head: bytes) -> bool:
    """What belongs to a conversation of a richer store: a transcript, and the notes beside it."""
    if path.name == "meta.json":
        return path.with_name("store.db").is_file() and "cwd" in _first(path, head)
    if path.name == "workspace.json":
        state = path.with_name("state.vscdb")
        return "Cursor" in path.parts and state.is_file() and "folder" in _first(path, head)
    root = agent.root_of(path)
    if root is None or path.suffix not in (".jsonl", ".db") or not recognise(path, head):
        return False
    return _id_of(path) in _richer(root.parent, {}, stores=path.suffix == ".jsonl")


def _first(path: Path, head: bytes) -> dict[str, Any]:
    return next(iter(beginning(path, head).objects), {})


def _id_of(path: Path) -> str:
    return path.parent.name if path.name == "store.db" else path.stem


def _richer(home: Path, environment: Mapping[str, str], *, stores: bool) -> set[str]:
    """The conversations that a database of the editor has, or one of the agent."""
    known: set[str] = set()
    for path in _editors(home, environment):
        try:
            with connected(path) as connection:
                if "cursorDiskKV" in tables_of(path):
                    keys = connection.execute(editor.COMPOSER_KEYS).fetchall()
                    known |= {str(key).partition(":")[2] for (key,) in keys}
        except OSError:
            continue  # reported when it is read
    if stores:
        known |= {each.parent.name for each in _stores(home)}
    return known


def _stores(home: Path) -> Iterator[Path]:
    return inside(home / ".cursor" / "chats", "*/*/store.db")


def _editors(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    roots = [home / ".config", home / "Library" / "Application Support"]
    if windows := environment.get("APPDATA"):
        roots.append(Path(windows))
    for root in roots:
        user = root / "Cursor" / "User"
        yield from inside(user, "workspaceStorage/*/state.vscdb", "globalStorage/state.vscdb")


def records(path: Path, state: dict[str, Any]) -> Iterator[Raw]:
    if dict(tables_of(path)) == BLOBS:
        return stored(lambda each: agent.conversations(each, path), _run)(path, state)
    return stored(editor.conversations, _run)(path, state)


def _run(id: str) -> str:
    return run_id(NAME, id)


def reader(source: SourceFile, out: LineWriter, state: dict[str, Any]) -> Reader:
    if not source.head.startswith(MAGIC):
        return CursorTranscriptReader(source, out, state)
    reads = BlobReader if dict(tables_of(source.path)) == BLOBS else EditorReader
    return reads(source, out, state)


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "store" if head.startswith(MAGIC) else "lines"


def beside(path: Path) -> Iterator[Path]:
    yield from log_beside(path)
    yield path.with_name("workspace.json")


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    """Of the stores of one conversation the richest: the editor's, then the agent's, then lines."""
    composed = _richer(home, environment, stores=False)
    stores = [each for each in _stores(home) if each.parent.name not in composed]
    known = composed | {each.parent.name for each in stores}
    for path in inside(home / ".cursor" / "projects", "*/agent-transcripts/**/*.jsonl"):
        if path.stem not in known:
            yield path
    yield from stores
    yield from (path for path in _editors(home, environment) if _may_have_chats(path))


def _may_have_chats(path: Path) -> bool:
    try:
        return _has_chats(path, tables_of(path))
    except OSError:
        return True  # another program holds it; that is reported when it is read


importer = Importer(
    name=NAME,
    about="Cursor: the chats of its editor, and the transcripts and databases of its agent.",
    mapping="2",
    reader=reader,
    recognise=recognise,
    find=find,
    form=form,
    companion=companion,
    beside=beside,
    records=records,
    fits=lambda body: "role" in body or "type" in body,
    proven="a real database of 2024; newer databases and transcripts written as tests, or real and cleaned",
)
