"""opencode: the conversations of OpenCode, and of Kilo since April 2026.

They are rows of a database, or one JSON file per record in the folder `storage` of older versions.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tracklog.formats.importers import (
    ANY,
    Form,
    Importer,
    Signs,
    has_tables,
    inside,
    run_id,
    score,
)
from tracklog.formats.importers._snapshots import ids_of, stored
from tracklog.formats.importers.opencode.reader import OpencodeReader
from tracklog.formats.importers.opencode.stores import NAME, beside, conversations

SIGNS = (
    Signs({"id": re.compile("ses"), "directory": str, "time.created": ANY, "title": str}),
    Signs({"id": re.compile("ses"), "projectID": str, "time.created": ANY}),
)
INNER = (
    Signs({"id": re.compile("prt"), "messageID": str, "sessionID": str, "type": str}),
    Signs({"id": re.compile("msg"), "sessionID": str, "role": {"user", "assistant"}}),
)
TABLES: dict[str, tuple[str, ...]] = {
    "session": ("id", "directory"),
    "message": ("id", "session_id", "data"),
    "part": ("id", "message_id", "data"),
}
TABLES_2: dict[str, tuple[str, ...]] = {
    "session": TABLES["session"],
    "session_message": ("id", "session_id", "type", "seq"),
}
TABLES_3: dict[str, tuple[str, ...]] = {
    "session_v2": TABLES["session"],
    "session_message": TABLES_2["session_message"],
}


def recognise(path: Path, head: bytes) -> float:
    if any(has_tables(path, head, tables) for tables in (TABLES, TABLES_2, TABLES_3)):
        return 0.98
    return score(path, head, SIGNS) if path.suffix == ".json" else 0.0


def companion(path: Path, head: bytes) -> bool:
    """The messages and parts of a folder of JSON files, and the mark of its version."""
    if path.name == "migration":
        return path.parent.name == "storage" and head.strip().isdigit()
    return (
        path.suffix == ".json"
        and path.name[:4] in ("msg_", "prt_")
        and score(path, head, INNER) > 0
    )


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    return "document" if path.suffix in (".json", ".jsonl") else "store"


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    """The databases, and of the older folders the sessions that no database has."""
    share = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    for name, variable in ((NAME, "OPENCODE_DB"), ("kilo", "KILO_DB")):
        databases = list(inside(share / name, f"{name}.db", f"{name}-*.db"))
        if (given := environment.get(variable)) and Path(given).is_file():
            databases.append(Path(given))
        known = ids_of(databases, "session") | ids_of(databases, "session_v2")
        yield from dict.fromkeys(databases)
        trees = inside(
            share / name, "storage/session/*/ses*.json", "project/*/storage/session/info/*.json"
        )
        yield from (path for path in trees if path.stem not in known)


importer = Importer(
    name=NAME,
    about="OpenCode, and Kilo since April 2026: their databases, and the folder `storage` before.",
    mapping="2",
    reader=OpencodeReader,
    recognise=recognise,
    find=find,
    form=form,
    fits=lambda body: "id" in body,
    companion=companion,
    beside=beside,
    records=stored(conversations, lambda id: run_id(NAME, id)),
    proven="real records of 0.15 and 1.2, which we put into databases and folders; rows of the second "
    "generation without real ones",
)
