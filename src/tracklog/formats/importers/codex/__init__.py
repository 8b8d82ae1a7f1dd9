"""codex: the rollouts of Codex, of both generations, and the output of `codex exec --json`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    ANY,
    Importer,
    LineWriter,
    Reader,
    Signs,
    SourceFile,
    beginning,
    inside,
    score,
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
        paths = [*inside(folder / place, "**/rollout-*.jsonl")]
        paths += inside(folder / place, "**/rollout-*.jsonl.zst")
        for path in paths:
            name = path.name.removesuffix(".zst")
            if name not in seen:
                seen.add(name)
                yield path


OTHERS = (
    "uuid", "data", "parentId", "sessionID", "sessionId", "messageID", "payload", "message",
)  # fmt: skip  # one row
"""Fields that a bare item of Codex never has, and items of other agents have."""
SIGNS = (
    Signs({"type": set(RECORDS), "payload": dict}, sure=0.95),
    Signs({"type": {"thread.started"}, "thread_id": str}, sure=0.95),
    Signs({"type": {"item.started", "item.completed"}, "item": dict}, sure=0.9),
)
BARE = (
    Signs({"type": {"message"}, "role": str, "content": list}, (*OTHERS, "stop_reason"), sure=0.8),
    Signs({"type": {"reasoning"}, "summary": list}, OTHERS, sure=0.8),
    Signs({"type": set(ITEMS), "call_id": str}, OTHERS, sure=0.8),
    Signs({"type": {"function_call", "function_result"}, "name": str}, OTHERS, sure=0.8),
    Signs({"created_at": ANY, "role": str, "content": ANY}, OTHERS, sure=0.7),
    Signs({"created_at": ANY, "role": str, "message": str}, OTHERS[:-1], sure=0.7),
)
"""Items without an envelope, as the first generation wrote them."""
ROLES = {"system", "user", "assistant", "tool_result"}
"""Types of records of other agents; among bare items there is none."""
PROMPTS = Signs(dict.fromkeys(history.KEYS, ANY))


def recognise(path: Path, head: bytes) -> float:
    objects = beginning(path, head).objects
    if path.name == history.FILE and any(map(PROMPTS.match, objects)):
        return 0.95
    sure = score(path, head, SIGNS)
    if not sure and all(word(each.get("type")) not in ROLES for each in objects):
        sure = score(path, head, BARE)
    if not sure and thread_of(path) and any(map(is_bare_meta, objects)):
        return 0.7
    # A rollout whose first line is longer than what is looked at, or compressed.
    return sure or (0.9 if thread_of(path) and path.name.startswith("rollout-") else 0)


def reader(source: SourceFile, out: LineWriter, state: dict[str, Any]) -> Reader:
    reads = history.CodexHistoryReader if source.path.name == history.FILE else CodexReader
    return reads(source, out, state)


def fits(body: Body) -> bool:
    return "type" in body and ("payload" in body or "timestamp" in body or "item" in body)


importer = Importer(
    name=NAME,
    about="The rollouts of Codex, with its sub-agents, and the output of `codex exec --json`.",
    mapping="4",
    reader=reader,
    recognise=recognise,
    find=find,
    fits=fits,
    proven="real rollouts of 0.40 and later, and the stream of `codex exec`",
)
