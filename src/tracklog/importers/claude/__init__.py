"""claude: the conversations that Claude Code keeps under ~/.claude/projects."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tracklog.event import Body
from tracklog.importers import Importer, inside, opening, word
from tracklog.importers.claude.files import NAME
from tracklog.importers.claude.reader import ClaudeReader
from tracklog.importers.claude.record import KINDS


def find(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    given = environment.get("CLAUDE_CONFIG_DIR")
    folders = given.split(",") if given else [str(home / ".claude"), str(home / ".config/claude")]
    for folder in folders:
        yield from inside(Path(folder).expanduser() / "projects", "**/*.jsonl")


def recognise(path: Path, head: bytes) -> float:
    for value in opening(head):
        if not isinstance(value, dict):
            continue
        kind = word(value.get("type"))
        if "sessionId" in value and ("uuid" in value or kind in KINDS):
            return 0.9
        if kind == "summary" and "leafUuid" in value:
            return 0.9
        if "session_id" in value and kind in ("system", "assistant", "user", "result"):
            return 0.8
        if kind in ("file-history-snapshot", "queue-operation"):
            return 0.8
    return 0.5 if b'"parentUuid"' in head and path.suffix == ".jsonl" else 0


def fits(body: Body) -> bool:
    return "type" in body and ("sessionId" in body or "uuid" in body or "leafUuid" in body)


importer = Importer(
    name=NAME,
    about="The conversations of Claude Code, with their sub-agents.",
    mapping="1",
    reader=ClaudeReader,
    recognise=recognise,
    find=find,
    fits=fits,
)
