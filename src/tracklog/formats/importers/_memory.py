"""What is remembered of a source while it is read: the newest, never more than there is room for."""

from typing import Any

ROOM = 512
"""How much is remembered of what is soon over: open calls, parts of one response."""
LONG = 1 << 15
"""How much is remembered of what may come back late: messages told again, calls begun twice."""


def remember(kept: dict[str, Any], key: str, value: Any, room: int = ROOM) -> None:
    """Keeps it as the newest; of too many the older half is forgotten at once."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > room:
        for old in list(kept)[: room // 2]:
            del kept[old]
