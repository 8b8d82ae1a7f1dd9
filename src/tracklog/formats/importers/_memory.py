"""A bounded memory for readers: the newest entries are kept."""

from typing import Any

ROOM = 512
"""How many short-lived entries are remembered: open calls, parts of one response."""
LONG = 1 << 15
"""How many entries are remembered that may be needed late: repeated messages, calls begun twice."""


def remember(entries: dict[str, Any], key: str, value: Any, room: int = ROOM) -> None:
    """Add an entry as the newest; when there are too many, the older half is dropped."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > room:
        for old in list(entries)[: room // 2]:
            del entries[old]
