"""kimi: the conversations of Kimi Code, and of the older Kimi CLI, with their sub-agents."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.importers import (
    ANY,
    Importer,
    LineWriter,
    Reader,
    Signs,
    SourceFile,
    beginning,
    by_signs,
    inside,
)
from tracklog.formats.importers.kimi.context import CONTEXT, ContextReader
from tracklog.formats.importers.kimi.wire import CLI, MAIN, NAME, WIRE, KimiReader, state_of

SIGNS = (
    Signs({"type": {"metadata"}, "protocol_version": str, "created_at": ANY}),
    Signs({"type": {"context.append_loop_event"}, "event.type": str}),
    CLI,
)
STATE = Signs({"agents": dict, "createdAt": ANY, "updatedAt": ANY})
CONTEXTS = "context*.jsonl"


def recognise(path: Path, head: bytes) -> float:
    if is_context(path):
        objects = beginning(path, head).objects
        return 0.95 if not has_wire(path) and any(map(CONTEXT.match, objects)) else 0.0
    return by_signs(SIGNS)(path, head)


def is_context(path: Path) -> bool:
    return path.match(CONTEXTS)


def has_wire(path: Path) -> bool:
    return path.with_name(WIRE).is_file()


def reader(source: SourceFile, out: LineWriter, state: dict[str, Any]) -> Reader:
    return (ContextReader if is_context(source.path) else KimiReader)(source, out, state)


def companion(path: Path, head: bytes) -> bool:
    """The model's context and the document of a session, beside a wire."""
    objects = beginning(path, head).objects
    if is_context(path):
        return has_wire(path) and any(map(CONTEXT.match, objects))
    if not path.name.endswith("state.json"):
        return False
    wires = (path.parent / "agents" / MAIN / WIRE, path.with_name(WIRE),
             path.with_name(path.name.removesuffix(".state.json") + ".jsonl"))  # fmt: skip
    context = path.with_name("context.jsonl").is_file()
    known = any(map(STATE.match, objects)) or (objects and context)
    return bool(known) and (context or any(each.is_file() for each in wires))


def find(home: Path, environment: Mapping[str, str]) -> Iterable[Path]:
    code = Path(environment.get("KIMI_CODE_HOME") or home / ".kimi-code")
    yield from inside(code / "sessions", f"*/*/agents/*/{WIRE}")
    folder = home / ".kimi" / "sessions"
    yield from inside(folder, f"*/*/{WIRE}", f"*/*/subagents/*/{WIRE}")
    yield from (each for each in inside(folder, f"*/*/{CONTEXTS}") if not has_wire(each))


importer = Importer(
    name=NAME,
    about="Kimi Code and Kimi CLI: the wires of their sessions, with sub-agents; contexts without a wire.",
    mapping="2",
    reader=reader,
    recognise=recognise,
    find=find,
    companion=companion,
    beside=lambda path: [state_of(path.with_name(WIRE) if is_context(path) else path)],
    fits=lambda body: "type" in body or "message" in body or "role" in body,
    proven="files (wire 1.5) of Kimi Code 2.1 from a test run, and real, cleaned ones of wire 1.4; "
    "Kimi CLI without real files",
)
