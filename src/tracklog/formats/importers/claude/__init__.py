"""claude: the conversations that Claude Code stores under ~/.claude/projects."""

import re
from collections.abc import Iterator, Mapping
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
from tracklog.formats.importers.claude import companions
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
        paths = inside(projects, "**/*.jsonl", f"**/{companions.RESULTS}/*")
        yield from (path for path in paths if path.suffix == ".jsonl" or companions.is_output(path))
        lists = inside(projects.parent / companions.TODOS, "*.json")
        yield from (
            path for path in lists if companions.is_list(path) and path.stat().st_size > EMPTY
        )


FOREIGN = ("message.parts", "systemPayload", "usageMetadata", "toolCallResult", "forkedFrom")
"""Fields of Qwen Code, whose records are otherwise alike."""
STREAM = ("data", "payload", "toolId", "finalText", "tools", "text")
"""Fields of streams that other agents print."""
SIGNS = (
    Signs({"sessionId": str, "uuid": str, "type": str}, FOREIGN, sure=0.9),
    Signs({"sessionId": str, "type": set(KINDS)}, (*FOREIGN, *STREAM), sure=0.9),
    Signs({"type": {"summary"}, "leafUuid": str}, sure=0.9),
    Signs({"type": {"assistant", "user"}, "session_id": str, "message.content": ANY}, sure=0.9),
    Signs({"type": {"result"}, "session_id": str, "subtype": str}, ("finalText",), sure=0.9),
    Signs({"type": {"system"}, "session_id": str, "permissionMode": str}, sure=0.9),
    Signs({"type": {"system"}, "session_id": str, "uuid": str}, sure=0.9),
    Signs({"type": {"file-history-snapshot"}, "snapshot": dict}, sure=0.9),
    Signs({"type": {"queue-operation"}, "operation": str}, sure=0.9),
    Signs({"parentUuid": ANY, "message.content": ANY, "type": {"user", "assistant"}}, FOREIGN),
    Signs({"type": {"assistant"}, "message.id": re.compile("msg_"), "message.content": list}),
    Signs({"type": {"user"}, "message.role": {"user"}, "message.content": ANY}, ("id", "parentId")),
)
PROMPTS = Signs({"display": str, "project": str})
OTHERS = (
    Signs({"type": {"tool_call", "thinking"}, "session_id": str}),
    Signs({"sessionId": str, "message.parts": list}),
)
"""Records that other agents write, and Claude Code never."""


def recognise(path: Path, head: bytes) -> float:
    if companions.is_output(path) or companions.is_list(path):
        return 0.95
    if path.name == companions.HISTORY and any(map(PROMPTS.match, beginning(path, head).objects)):
        return 0.95
    if any(sign.match(each) for each in beginning(path, head).objects for sign in OTHERS):
        return 0.0
    return score(path, head, SIGNS)


AGENT = Signs({"agentType": str})


def companion(path: Path, head: bytes) -> bool:
    """The metadata beside the file of a sub-agent."""
    named = path.name.startswith("agent-") and path.name.endswith(".meta.json")
    return named and any(map(AGENT.match, beginning(path, head).objects))


def form(path: Path, head: bytes) -> Form:  # noqa: ARG001  # the shape
    if companions.is_output(path):
        return "text"
    return "document" if companions.is_list(path) else "lines"


def reader(source: SourceFile, out: LineWriter, state: dict[str, Any]) -> Reader:
    """The reader for a file, by its path."""
    if companions.is_output(source.path):
        return companions.OutputReader(source, out, state)
    if companions.is_list(source.path):
        return companions.ListReader(source, out, state)
    if source.path.name == companions.HISTORY:
        return companions.ClaudeHistoryReader(source, out, state)
    return ClaudeReader(source, out, state)


def fits(body: Body) -> bool:
    return "type" in body and ("sessionId" in body or "uuid" in body or "leafUuid" in body)


importer = Importer(
    name=NAME,
    about="The conversations of Claude Code, with their sub-agents, outputs and lists.",
    mapping="4",
    reader=reader,
    recognise=recognise,
    find=find,
    form=form,
    companion=companion,
    fits=fits,
    proven="real sessions of 2.0 and 2.1",
)
