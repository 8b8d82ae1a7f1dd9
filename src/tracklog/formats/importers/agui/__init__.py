"""agui: the events of AG-UI runs, as SSE, as JSON lines, or as one array."""

from pathlib import Path

from tracklog.formats.importers import Form, Importer, unquoted
from tracklog.formats.importers.agui.reader import NAME, THREAD, AguiReader


def form(path: Path, head: bytes) -> Form:
    text = head.lstrip()
    if text.startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return "sse"
    if path.suffix in (".jsonl", ".ndjson"):
        return "lines"
    return "document" if text.startswith(b"[") or b"\n" not in text.rstrip() else "lines"


def recognise(path: Path, head: bytes) -> float:  # noqa: ARG001  # the shape
    head = unquoted(head)
    if b'"RUN_STARTED"' in head and b'"threadId"' in head:
        return 0.95
    return 0.6 if b'"TEXT_MESSAGE_' in head or b'"TOOL_CALL_START"' in head else 0.0


importer = Importer(
    name=NAME,
    about="AG-UI: the events of runs, as SSE, JSON lines or one array.",
    mapping="2",
    reader=AguiReader,
    recognise=recognise,
    form=form,
    conversations=(THREAD,),
)
