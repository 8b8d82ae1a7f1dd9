"""A bounded memory for readers: the newest entries are kept."""

from typing import Any

ROOM = 512
"""How many short-lived entries are remembered: open calls, parts of one response."""
LONG = 1 << 15
"""How many entries are remembered that may be needed late: repeated messages, calls begun twice."""


def remember(kept: dict[str, Any], key: str, value: Any, room: int = ROOM) -> None:
    """Add an entry as the newest; when there are too many, the older half is dropped."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > room:
        for old in list(kept)[: room // 2]:
            del kept[old]
