"""agui: the events of AG-UI runs, as SSE, as JSON lines, or as one array."""

import re
from pathlib import Path

from tracklog.formats.importers import ANY, Form, Importer, Signs, by_signs
from tracklog.formats.importers.agui.reader import NAME, THREAD, AguiReader


def form(path: Path, head: bytes) -> Form:
    text = head.lstrip()
    if text.startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return "sse"
    if path.suffix in (".jsonl", ".ndjson"):
        return "lines"
    return "document" if text.startswith(b"[") or b"\n" not in text.rstrip() else "lines"


SIGNS = (
    Signs({"type": {"RUN_STARTED", "RUN_FINISHED"}, "threadId": str}, ("payload",), sure=0.95),
    Signs({"type": re.compile("(TEXT|REASONING)_MESSAGE_"), "messageId": str}, ("payload",)),
    Signs({"type": re.compile("TOOL_CALL_"), "toolCallId": str}, ("payload",)),
    Signs({"type": {"RUN_ERROR"}, "message": str}, ("payload",)),
    Signs({"type": {"MESSAGES_SNAPSHOT"}, "messages": list}, ("payload",)),
    Signs({"type": {"STATE_SNAPSHOT"}, "snapshot": ANY}, ("payload",)),
)


importer = Importer(
    name=NAME,
    about="AG-UI: the events of runs, as SSE, JSON lines or one array.",
    mapping="2",
    reader=AguiReader,
    recognise=by_signs(SIGNS),
    form=form,
    conversations=(THREAD,),
    proven="example events from the makers of the protocol",
)
