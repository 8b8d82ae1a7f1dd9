"""The files of Copilot CLI: where they are, and how one is recognised."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tracklog.formats.importers import inside, unquoted

FOLDERS = ("session-state", "history-session-state")


def session_of(path: Path) -> str | None:
    """The session of a file by its path; its events need not name it."""
    if path.name == "events.jsonl":
        return path.parent.name or None
    return path.stem if path.parent.name in FOLDERS else None


def recognise(path: Path, head: bytes) -> float:
    head = unquoted(head)
    begins = b'"session.start"' in head[:4096] and b'"data"' in head[:4096]
    named = path.name == "events.jsonl" or path.parent.name in FOLDERS
    spoken = b'"assistant.' in head or b'"tool.execution_' in head or b'"user.message"' in head
    if begins and (b"copilot" in head[:4096] or named):
        return 0.95
    return 0.7 if spoken and b'"data"' in head else 0.2 if named else 0.0


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    base = Path(environment.get("COPILOT_HOME") or home / ".copilot")
    for folder in FOLDERS:
        for path in inside(base / folder, "*/events.jsonl", "*.jsonl"):
            # If both layouts exist, the folder is used.
            doubled = path.name != "events.jsonl" and (path.with_suffix("") / "events.jsonl")
            if not (doubled and doubled.is_file()):
                yield path
