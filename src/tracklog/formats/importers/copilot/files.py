"""The files of Copilot CLI: where they are, and how one is recognised."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tracklog.formats.importers import Signs, inside, score

FOLDERS = ("session-state", "history-session-state")


def session_of(path: Path) -> str | None:
    """The session of a file by its path; its events need not name it."""
    if path.name == "events.jsonl":
        return path.parent.name or None
    return path.stem if path.parent.name in FOLDERS else None


EVENT = r"(session|assistant|user|tool|subagent|permission|hook|skill|system)\.[a-z_]+$"
SIGNS = (
    Signs({"type": {"session.start"}, "data.sessionId": str, "data": dict}, sure=0.95),
    Signs({"type": re.compile(EVENT), "data": dict, "id": str}, ("payload", "uuid", "specversion")),
    Signs({"type": re.compile(EVENT), "data": dict, "timestamp": str}, ("payload", "uuid")),
)


def recognise(path: Path, head: bytes) -> float:
    return score(path, head, SIGNS)


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    base = Path(environment.get("COPILOT_HOME") or home / ".copilot")
    for folder in FOLDERS:
        for path in inside(base / folder, "*/events.jsonl", "*.jsonl"):
            # If both layouts exist, the folder is used.
            doubled = path.name != "events.jsonl" and (path.with_suffix("") / "events.jsonl")
            if not (doubled and doubled.is_file()):
                yield path
