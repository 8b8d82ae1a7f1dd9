"""Withdrawn parts of a conversation of Claude Code: branches that were left."""

from typing import Any

from tracklog.formats.importers import remember, word
from tracklog.formats.importers.claude.line import ClaudeRecord
from tracklog.model.fact import Noted


def hang(line: ClaudeRecord) -> None:
    """Remember the parent of this record, and the last message."""
    if line.key and line.body.get("isSidechain") is not True:
        remember(line.state.setdefault("chain", {}), line.key, word(line.body.get("parentUuid")))
        if line.kind in ("user", "assistant"):
            line.state["tip"] = line.key


def leave_branch(line: ClaudeRecord) -> None:
    """A rewind: withdraw the messages after the record that a prompt continues from."""
    parent, chain = word(line.body.get("parentUuid")), line.state.get("chain", {})
    here = line.state.get("tip")
    for _ in chain:  # a limit, in case the parents form a cycle
        if parent is None or here is None or here == parent:
            return
        if chain.get(here) == parent:
            back = Noted(label="withdrawn", kind="rewind", data={"from": here})
            line.out.write(back, at=line.at)
            return
        here = chain.get(here)


def take_back_shorter(line: ClaudeRecord, group: dict[str, Any], block: dict[str, Any]) -> None:
    """Withdraw the last line of this response when a longer copy replaces it."""
    last, key = group["told"][-2], group.get("key")
    kind = block.get("type", "")
    text, before = block.get(kind), last.get(kind) if isinstance(last, dict) else None
    if key and isinstance(text, str) and isinstance(before, str) and text.startswith(before):
        back = Noted(label="withdrawn", kind="longer copy", data={"from": key})
        line.out.write(back, at=line.at)
