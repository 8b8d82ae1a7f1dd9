"""Files related to a file of Claude Code: its parent's, its meta data, the records of another."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import opened, word
from tracklog.formats.providers.claude import ClaudeToolUse, part_of
from tracklog.model.event import Body

NAME = "claude"


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def sub_agent(path: Path) -> tuple[str | None, str | None]:
    """The sub-agent of a file, and the conversation it belongs to, from the path."""
    stem = path.name.partition(".")[0]
    if not stem.startswith("agent-"):
        return None, None
    places = path.absolute().parts
    if "subagents" in places:
        return stem[6:], places[places.index("subagents") - 1]
    return stem[6:], None


def parent_file(path: Path, session: str) -> Path:
    places = path.absolute().parts
    if "subagents" in places:
        return Path(*places[: places.index("subagents") - 1]) / f"{session}.jsonl"
    return path.with_name(f"{session}.jsonl")


def meta_of(path: Path) -> dict[str, Any]:
    """The meta data beside a sub-agent's file."""
    try:
        meta = orjson.loads(path.with_suffix(".meta.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return meta if isinstance(meta, dict) else {}


def prompt_of(body: Body) -> str | None:
    message = body.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    return word(content)


def call_with(path: Path, prompt: str) -> str | None:
    """The call in a parent's file that gave a sub-agent this prompt."""
    try:
        with opened(path) as file:
            for line in file:
                if b'"Task"' not in line and b'"Agent"' not in line:
                    continue
                for use in _uses(line):
                    given = use.input if isinstance(use.input, dict) else {}
                    if given.get("prompt") == prompt and use.id:
                        return use.id
    except OSError:
        pass  # the parent is missing, and that is noted
    return None


def _uses(line: bytes) -> Iterator[ClaudeToolUse]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return
    message = value.get("message") if isinstance(value, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    for element in content if isinstance(content, list) else ():
        if isinstance(part := part_of(element), ClaudeToolUse):
            yield part


def uuids_in(path: Path) -> Iterator[str]:
    try:
        with opened(path) as file:
            for line in file:
                try:
                    value = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue
                if isinstance(value, dict) and isinstance(value.get("uuid"), str):
                    yield value["uuid"]
    except OSError:
        return  # deleted since: repeated records have the same keys
