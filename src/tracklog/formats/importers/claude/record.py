"""Map the records of Claude Code by type."""

from collections.abc import Callable

from tracklog.formats.importers.claude import messages, notes
from tracklog.formats.importers.claude.line import ClaudeRecord
from tracklog.formats.importers.claude.rewinds import hang

KINDS: dict[str, Callable[[ClaudeRecord], bool | None]] = {
    "user": messages.user,
    "assistant": messages.assistant,
    "attachment": messages.attachment,
    "tool_use": messages.legacy_call,
    "tool_result": messages.legacy_result,
    "system": notes.system,
    "summary": notes.summary,
    "pr-link": notes.pull_request,
    "result": notes.result,
    "stream_event": notes.stream_event,
    **dict.fromkeys(notes.TITLES, notes.title),
    **dict.fromkeys(notes.MODES, notes.mode),
    **dict.fromkeys(notes.SMALL, notes.small),
}


def write(line: ClaudeRecord) -> None:
    """Map one record."""
    line.begin()
    known = KINDS.get(line.kind)
    if known is None:
        line.unknown(line.kind)
    elif known(line) is False:
        line.unknown(f"{line.kind} of an unknown shape")
    else:
        line.out.report.mapped[line.kind] += 1
    hang(line)
