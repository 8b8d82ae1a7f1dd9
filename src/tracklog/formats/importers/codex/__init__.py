"""codex: the rollouts of Codex, of both generations, and the output of `codex exec --json`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    Importer,
    LineWriter,
    Reader,
    SourceFile,
    inside,
    opening,
    word,
)
from tracklog.formats.importers.codex import history
from tracklog.formats.importers.codex.items import ITEMS
from tracklog.formats.importers.codex.reader import RECORDS, CodexReader, is_bare_meta, thread_of
from tracklog.formats.importers.codex.record import NAME
from tracklog.model.event import Body


def find(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Every rollout once: the active copy before the archived, the uncompressed before the
    compressed.
    """
    folder = Path(environment.get("CODEX_HOME") or home / ".codex").expanduser()
    seen: set[str] = set()
    for place in ("sessions", "archived_sessions"):
        found = [*inside(folder / place, "**/rollout-*.jsonl")]
        found += inside(folder / place, "**/rollout-*.jsonl.zst")
        for path in found:
            name = path.name.removesuffix(".zst")
            if name not in seen:
                seen.add(name)
                yield path


def recognise(path: Path, head: bytes) -> float:
    if path.name.endswith(".jsonl.zst") and thread_of(path):
        return 0.9
    for value in opening(head):
        if not isinstance(value, dict):
            continue
        if path.name == history.FILE and value.keys() >= history.KEYS:
            return 0.95
        kind = word(value.get("type"))
        if kind in RECORDS and isinstance(value.get("payload"), dict):
            return 0.9
        if kind == "thread.started" and "thread_id" in value:
            return 0.9
        if kind in ("item.started", "item.completed") and isinstance(value.get("item"), dict):
            return 0.8
        if is_bare_meta(value):
            return 0.7
        if "payload" not in value and kind in ITEMS and not {"uuid", "data"} & value.keys():
            return 0.6
        if "created_at" in value and "role" in value and {"message", "content"} & value.keys():
            return 0.5
    return 0.4 if thread_of(path) else 0


def reader(source: SourceFile, tell: LineWriter, state: dict[str, Any]) -> Reader:
    reads = history.CodexHistoryReader if source.path.name == history.FILE else CodexReader
    return reads(source, tell, state)


def fits(body: Body) -> bool:
    return "type" in body and ("payload" in body or "timestamp" in body or "item" in body)


importer = Importer(
    name=NAME,
    about="The rollouts of Codex, with its sub-agents, and the output of `codex exec --json`.",
    mapping="1",
    reader=reader,
    recognise=recognise,
    find=find,
    fits=fits,
)
