"""Messages, thoughts and calls that come in pieces, held until they are complete."""

from typing import Any

from tracklog.formats.importers import word
from tracklog.formats.importers.agui.messages import ROLES
from tracklog.formats.providers import input_of
from tracklog.model.fact import Called, Fact, Said

Piece = dict[str, Any]
CHUNKS = {"text": "TEXT_MESSAGE", "call": "TOOL_CALL", "thought": "REASONING_MESSAGE"}
"""The prefix of the events of each kind of piece."""
IDS = {"text": "messageId", "call": "toolCallId", "thought": "messageId"}


class Pieces:
    """The open pieces, by kind and id; plain JSON, so that reading can resume later."""

    def __init__(self, open: dict[str, Piece]) -> None:
        self.open = open

    def begin(self, kind: str, id: str, value: dict[str, Any], **about: Any) -> Piece:
        """The piece with that name; the first value of each key counts."""
        key = f"{kind} {id}"
        if key not in self.open:
            named = value.get(IDS[kind]) is not None
            empty = {"text": "", "parts": 0, "extra": {}}
            self.open[key] = {"kind": kind, "id": id, "named": named, **empty, **about}
        known = self.open[key]
        for name in ("role", "name", "toolCallName"):
            if value.get(name) is not None:
                known.setdefault(name, value[name])
        known["parts"] += 1
        if isinstance(delta := value.get("delta"), str):
            known["text"] += delta
        return known

    def has(self, kind: str, id: str) -> bool:
        return f"{kind} {id}" in self.open

    def end(self, kind: str, id: str) -> Piece | None:
        return self.open.pop(f"{kind} {id}", None)

    def chunked(self, kind: str) -> str | None:
        """The piece that a chunk without an id continues."""
        return next((each["id"] for each in self.open.values() if each["kind"] == kind), None)

    def ended_by(self, type: str, value: dict[str, Any]) -> list[Piece]:
        """The pieces that an event ends: chunks have no end event; the next other event ends them."""
        pieces = []
        for known in self.open.values():
            same = type.endswith("_CHUNK") and type.startswith(CHUNKS[known["kind"]])
            id = word(value.get("messageId")) or word(value.get("toolCallId")) or known["id"]
            if known["chunk"] and not (same and id == known["id"]):
                pieces.append(known)
        return pieces


def fact_of(piece: Piece, *, partial: bool) -> Fact:
    """A message, a thought or a call, as far as it came."""
    cut = {"partial": True} if partial else {}
    text, name = piece["text"], piece["id"] if piece["named"] else None
    if piece["kind"] == "call":
        return Called(
            tool=word(piece.get("toolCallName")) or "unknown",
            call_id=piece["id"],
            input=input_of(text) if text else None,
            synthetic_id=name is None,
        )
    if piece["kind"] == "thought":
        block = {"type": "thinking", "thinking": text, **cut}
        return Said(role="assistant", blocks=(block,), message_id=name)
    role = ROLES.get(word(piece.get("role")) or "assistant", "assistant")
    blocks = ({"type": "text", "text": text, **cut},) if text else ()
    return Said(role=role, blocks=blocks, message_id=name, agent=word(piece.get("name")))
