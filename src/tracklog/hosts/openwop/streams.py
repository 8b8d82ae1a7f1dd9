"""Which events each stream mode sends."""

MODES = ("values", "updates", "messages", "debug")

_UPDATES = frozenset(
    {
        "run.started",
        "run.completed",
        "run.failed",
        "run.cancelled",
        "run.paused",
        "run.resumed",
        "node.completed",
        "node.failed",
        "node.skipped",
        "node.suspended",
        "node.dispatched",
        "artifact.created",
    }
)
_PREFIXES = ("approval.", "clarification.", "interrupt.")
_CHUNKS = frozenset({"ai.message.chunk", "output.chunk"})


def wanted(kind: str, modes: tuple[str, ...], types: tuple[str, ...]) -> bool:
    """Whether an event is sent; a list of types replaces the table of updates and debug (WOP-87)."""
    return any(_in_mode(kind, mode, types) for mode in modes)


def _in_mode(kind: str, mode: str, types: tuple[str, ...]) -> bool:
    if mode == "messages":
        return kind in _CHUNKS
    if types and mode in ("updates", "debug"):
        return any(kind == each or _covers(each, kind) for each in types)
    if mode == "debug":
        return True
    update = kind in _UPDATES or kind.startswith(_PREFIXES)
    return update or (mode == "values" and kind == "node.started")


def _covers(pattern: str, kind: str) -> bool:
    return pattern.endswith("*") and kind.startswith(pattern[:-1])
