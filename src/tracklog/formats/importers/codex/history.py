"""The prompts that were typed into Codex, which stores them separately."""

from tracklog.formats.importers._prompts import PromptReader
from tracklog.formats.importers.codex.record import NAME

FILE = "history.jsonl"
KEYS = {"session_id", "ts", "text"}


class CodexHistoryReader(PromptReader):
    """Reads the prompts that were typed into Codex."""

    tool, text, time, conversation = NAME, "text", "ts", "session_id"
