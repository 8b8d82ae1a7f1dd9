"""Events that repeat the text of a response item: they are compared, and written if none has it.

An event may stand before or after its item. It waits for the end of the turn, and is then written
under its own record.
"""

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tracklog.formats.importers import remember
from tracklog.formats.importers._fact_bodies import message_fact
from tracklog.formats.importers.codex.record import CodexRecord
from tracklog.model.event import Body
from tracklog.model.fact import blob_of

if TYPE_CHECKING:
    from tracklog.formats.importers.codex.reader import CodexReader

ITEMS = 512
"""How many texts of items are remembered."""
WAITING = 64
"""How many events wait at most."""
ENDS = ("task_started", "task_complete", "turn_aborted", "turn_started", "turn_complete")
ROLES = {"user_message": "user", "agent_message": "assistant"}


def copy(line: CodexRecord, event: Body) -> bool | None:
    """An event with the text of a response item."""
    kind = str(event.get("type"))
    text = event.get("message") or event.get("text")
    if not text or not (isinstance(text, str) or blob_of(text)):
        line.ignore(_why(kind))
        return None
    key = digest(text)
    if key in line.state.get("texts", {}):
        line.ignore(_why(kind))
        return None
    waiting: dict[str, Any] = line.state.setdefault("waiting", {})
    waiting[key] = {
        "mark": line.reader.out.mark(),
        "kind": kind,
        "at": line.at,
        "turn": line.state.get("turn"),
        "text": text,
    }
    line.hold()
    return None


def known(line: CodexRecord, texts: list[Any]) -> None:
    """Remember the texts of an item, together and each; events with them are copies."""
    parts = [text for text in texts if text]
    joined = "\n\n".join(text for text in parts if isinstance(text, str))
    waiting: dict[str, Any] = line.state.get("waiting", {})
    for text in {digest(each) for each in [*parts, joined] if each}:
        remember(line.state.setdefault("texts", {}), text, 1, ITEMS)
        if (event := waiting.pop(text, None)) is not None:
            line.reader.out.report.ignored[_why(event["kind"])] += 1


def write_waiting(reader: "CodexReader", most: int = 0) -> None:
    """Write the events that no item repeats; the newest of them may wait on."""
    waiting: dict[str, Any] = reader.state.get("waiting", {})
    while len(waiting) > most:
        event = waiting.pop(next(iter(waiting)))
        kind, text = event["kind"], event["text"]
        role = ROLES.get(kind, "assistant")
        block = {"type": "text", "text": text}
        if kind not in ROLES:
            block = {"type": "thinking", "thinking": text}
        reader.out.again(event["mark"])
        reader.out.report.mapped[f"event_msg/{kind}"] += 1
        reader.out.write(message_fact(role, [block]), at=event["at"], step=event["turn"])


def digest(text: Any) -> str:
    """The digest of a text; of one that was moved to a blob, that of the blob."""
    if isinstance(text, dict):
        text = str(text.get("$blob"))
    return sha256(str(text).strip().encode("utf-8", "replace")).hexdigest()[:16]


def _why(kind: str) -> str:
    return f"event_msg/{kind} (copy of a response item)"
