"""Read conversations that their program changes in place: databases, and files that are rewritten.

A record is known by its key in its conversation. When its content has changed, it is written again
under the same key, and the last content counts; nothing that is unchanged is recorded twice. Of a
database only the conversations are read whose digest has changed.
"""

import re
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tracklog.formats.importers import DAMAGED, Form, LineWriter, Raw, Reader, word
from tracklog.formats.importers._records import Fits, beginning_of, records, repaired_value
from tracklog.formats.importers._sqlite import MAGIC, WAL, UnreadableDatabase, columns, connected
from tracklog.formats.providers import is_text
from tracklog.model.event import Body
from tracklog.model.fact import Began, Fact, Linked, Noted
from tracklog.model.lines import BOM

GONE = "$gone"
"""The key of the value that stands for a conversation that is no longer in its store."""
_CODE = re.compile(r"-?[0-9]{1,10}")
LOST = "$lost"
"""The key of how many records of a conversation are no longer in its store."""


class SnapshotReader(Reader):
    """Reads conversations as they are now; subclass it and map one conversation."""

    @abstractmethod
    def run_of(self, value: Body) -> str | None:
        """The run of a conversation; None where it has no id."""

    @abstractmethod
    def conversation(self, value: Body) -> None:
        """Write the facts of a conversation: `about` starts each record."""

    def identify(self, raw: Raw) -> str | None:
        if not isinstance(raw.value, dict):
            return None
        gone = raw.value.get(GONE)
        return str(gone["run"]) if gone else self.run_of(raw.value)

    def record(self, raw: Raw) -> None:
        value = raw.value
        if not isinstance(value, dict):
            self.out.unknown("value", self.out.about(raw, bare=True))
            return
        self.out.run = self.identify(raw) or self.out.run
        if GONE in value:
            self._gone(value[GONE], "the conversation is not in its store any more")
            return
        lost = value.pop(LOST, None)
        self.conversation(value)
        if lost:
            self._gone(lost, f"{lost['records']} records are not in their store any more")

    def about(self, key: str) -> None:
        """Start a record by its key."""
        self.out.about_revised(key)

    def put(
        self,
        fact: Fact | Body,
        at: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Write a fact of the current record."""
        self.out.write(fact, at=at, extra=extra or None, **more)

    def _gone(self, about: Body, text: str) -> None:
        self.about(f"gone/{about['digest']}")
        self.put(Noted(label="source-gone", text=text, data=about))


def open_run(
    out: LineWriter,
    system: str,
    native: Any,
    *,
    at: str | None = None,
    program: str | None = None,
    version: Any = None,
    model: Any = None,
    cwd: Any = None,
    branch: Any = None,
    title: Any = None,
    parent: str | None = None,
    call: str | None = None,
    agent: Any = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write how a conversation begins: its program and place, its id, its title, its parent."""
    software = {"name": program or system}
    if isinstance(version, str | int | float) and not isinstance(version, bool):
        software["version"] = str(version)
    began = Began(
        what="run",
        agent=word(agent),
        model=word(model),
        software=software,
        cwd=word(cwd),
        git={"branch": branch} if word(branch) else None,
    )
    out.write(began, at=at, extra=extra or None)
    if word(native):
        out.write(Linked(kind="alias", system=system, alias=native), at=at)
    if word(title):
        out.write(Noted(label="title", text=title), at=at)
    if parent:
        out.write(Linked(kind="sub-run", parent=parent, call_id=call), at=at)


class Stored(NamedTuple):
    """A conversation of a store."""

    id: str
    digest: Any
    """JSON that changes whenever the conversation does."""
    records: int
    """The number of its records: if it falls, some are lost."""
    load: Callable[[], Body]


Conversations = Callable[[sqlite3.Connection], Iterable[Stored]]
"""The conversations of a database."""


def stored(
    conversations: Conversations, run_of: Callable[[str], str]
) -> Callable[[Path, dict[str, Any]], Iterator[Raw]]:
    """The records of a database: the conversations that have changed since they were read."""

    def records(path: Path, state: dict[str, Any]) -> Iterator[Raw]:
        seen: dict[str, Any] = state.setdefault("seen", {})
        size = path.stat().st_size
        try:
            with connected(path) as connection:
                here = set()
                for each in conversations(connection):
                    here.add(each.id)
                    known = seen.get(each.id)
                    if known and known[0] == each.digest:
                        continue
                    value = each.load()
                    if known and known[1] > each.records:
                        lost = {"records": known[1] - each.records, "digest": each.digest}
                        value[LOST] = lost
                    yield Raw(0, b"", value, through=size)
                    seen[each.id] = [each.digest, each.records]
                for id in [each for each in seen if each not in here]:
                    gone = {"id": id, "run": run_of(id), "digest": seen[id][0]}
                    yield Raw(0, b"", {GONE: gone}, through=size)
                    del seen[id]
        except (UnreadableDatabase, UnicodeDecodeError, LookupError) as error:
            if isinstance(error, UnreadableDatabase) and error.is_busy:
                raise
            # Damage may also change the names of columns.
            flaw = ("unreadable", f"the database is damaged: {error}")
            yield Raw(0, b"", DAMAGED, (flaw,), exact=False, through=size)

    return records


def ids_of(databases: Iterable[Path], table: str, column: str = "id") -> set[str]:
    """The ids of the conversations of some databases; none of one that cannot be read now."""
    known: set[str] = set()
    for path in databases:
        try:
            with connected(path) as connection:
                if column in columns(connection).get(table, ()):
                    query = f"SELECT DISTINCT {column} FROM {table}"  # noqa: S608  # our own names
                    rows_of = connection.execute(query).fetchall()
                    known |= {str(row[0]) for row in rows_of}
        except OSError:
            continue  # reported when it is read
    return known


def log_beside(path: Path) -> Iterator[Path]:
    """The write-ahead log of a database, where its newest rows are."""
    yield path.with_name(path.name + WAL)


def hash_of(value: Any) -> str:
    """A short hash of some JSON, to notice that it has changed."""
    return sha256(orjson.dumps(value, default=str)).hexdigest()[:16]


def row_of(row: sqlite3.Row) -> Body:
    """A row as JSON values; bytes are texts, or hexadecimal where they are no text."""
    return {key: plain_value(row[key]) for key in row.keys()}  # noqa: SIM118  # a Row is no dict


def plain_value(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


def rows(connection: sqlite3.Connection, query: str, *given: Any) -> list[Body]:
    """The rows of a query as JSON values."""
    return [row_of(row) for row in connection.execute(query, given).fetchall()]


def parsed(value: Any) -> Any:
    """The JSON value in a text; the text where there is none."""
    if isinstance(value, bytes):
        value = plain_value(value)
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        found = (
            repaired_value(value.encode("utf-8", "replace")) if value[:1] in ("{", "[") else DAMAGED
        )
        return value if found is DAMAGED else found


def read_json(path: Path) -> Any:
    """The JSON value of a file beside a source, as far as it was written; None where there is none."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    value = repaired_value(data)
    if value is DAMAGED and data.removeprefix(BOM).lstrip()[:1] in (b"[", b"{"):
        value = beginning_of(data.removeprefix(BOM))
    return None if value is DAMAGED else value


def database_lines_or_document(path: Path, head: bytes) -> Form:
    """The form of a format that has a database, files of lines, and documents."""
    if head.startswith(MAGIC):
        return "store"
    return "lines" if path.suffix == ".jsonl" else "document"


class JsonLines(NamedTuple):
    """The lines of a file that is read at once, because its lines are in any order."""

    values: list[tuple[bytes, Any]]
    """Each line with its JSON value."""
    damaged: list[Raw]
    """The findings about lines that are no JSON, or that were repaired."""
    size: int


def json_lines(path: Path, fits: Fits) -> JsonLines:
    """The lines of a file; `fits` tells a record from an object inside one."""
    values: list[tuple[bytes, Any]] = []
    damaged: list[Raw] = []
    with path.open("rb") as file:
        for raw in records(file, 0, fits, final=True):
            if raw.value is not DAMAGED:
                values.append((raw.data, raw.value))
            if raw.flaws:
                damaged.append(finding_of(raw))
    return JsonLines(values, damaged, path.stat().st_size)


def finding_of(raw: Raw) -> Raw:
    """What was found about a line of a file that is read at once, apart from its value."""
    return Raw(0, raw.data, DAMAGED, raw.flaws, exact=False)


def lines_at_once(path: Path, _head: bytes) -> Form:
    """The form of a format whose files of lines are read at once."""
    return "store" if path.suffix in (".jsonl", ".ndjson") else "document"


def exit_code_of(value: Any) -> int | None:
    """The code with which a command ended, which may be a text; None where there is none."""
    is_code = not isinstance(value, bool) and _CODE.fullmatch(str(value))
    return int(value) if is_code else None


def without(value: Mapping[str, Any], *keys: str) -> Body:
    """What the mapping does not use of an object; empty values are left out."""
    return {
        key: each
        for key, each in value.items()
        if key not in keys and (each or isinstance(each, int | float))
    }


def text_block(text: Any) -> Body:
    """A text; a value that is no text is stored as it is."""
    if text is None or is_text(text):
        return {"type": "text", "text": "" if text is None else text}
    return foreign_block("text", text)


def thought_block(thought: Any, opaque: Any = None) -> Body:
    block: Body = {"type": "thinking"}
    if thought not in (None, ""):
        block["thinking"] = thought if is_text(thought) else str(thought)
    if opaque not in (None, ""):
        block["opaque"] = opaque
    if len(block) == 1:
        block["thinking"] = ""
    return block


def foreign_block(kind: str, value: Any) -> Body:
    """Content of a type that is stored as it is."""
    return {"type": "stream", "provider_type": kind, "chunk": value}
