"""The reply of an agent while it is read, and a report about its lines."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from tracklog.formats.providers._values import Body, dumped, input_of, raw_chunk, type_of, word

ReplyStatus = Literal["ok", "error", "timeout", "killed", "format_error"]
"""How the reply of an agent ended."""


@dataclass(slots=True)
class ReplyReport:
    """Counts of the lines by result."""

    lines: int = 0
    recognised: int = 0
    unrecognised: Counter[str] = field(default_factory=Counter)
    """Lines and elements of unknown types, by type; each is stored as a stream block."""
    malformed: int = 0
    oversized: int = 0
    nul: int = 0
    """Lines with raw NUL bytes."""
    partial: int = 0
    """Blocks that were not complete when the stream ended."""
    unknown_provider: str | None = None

    def as_json(self) -> Body:
        """The counts that are not zero, as they stand in a message."""
        counts = {
            "lines": self.lines,
            "recognised": self.recognised,
            "unrecognised": dict(self.unrecognised),
            "malformed": self.malformed,
            "oversized": self.oversized,
            "nul": self.nul,
            "partial": self.partial,
            "unknown_provider": self.unknown_provider,
        }
        return {key: value for key, value in counts.items() if value}


class ReplyBuilder:
    """The reply of an agent while it is read: blocks in the order of the stream, each once."""

    def __init__(self, report: ReplyReport | None = None) -> None:
        self.blocks: list[Body] = []
        self.meta: Body = {}
        self.report = report or ReplyReport()
        self.turn = 0
        self.errors: list[str] = []
        self.status: ReplyStatus = "ok"
        self.answer: str | None = None
        """The provider's final answer, for a stream without any block."""
        self.keep_partials = False
        self._uses: dict[str, Body] = {}
        self._results: dict[str, Body] = {}
        self._names: dict[str, str] = {}
        self._synthetic = 0
        self._settled = 0
        self._news: list[Body] = []

    def add(self, type: str, own: Body, **extras: Any) -> Body:
        """Add a block; extras that are None are left out."""
        block = {"type": type, "fidelity": "agent_emitted", **own, "turn": self.turn}
        block |= {key: value for key, value in extras.items() if value is not None}
        self.blocks.append(block)
        if extras.get("partial"):
            self.report.partial += 1
        return block

    def text(self, content: Any, **extras: Any) -> Body | None:
        """Add text; empty text is no block."""
        return self.add("text", {"text": content}, **extras) if word(content) else None

    def thinking(self, thought: str | None, *, opaque: Any = None, **extras: Any) -> Body:
        """Add reasoning; encrypted reasoning stays opaque."""
        own = {} if thought is None and opaque is not None else {"thinking": thought or ""}
        return self.add("thinking", own, opaque=opaque, **extras)

    def call(self, id: str | None, name: str | None, input: Any, **extras: Any) -> Body:
        """Add a tool call; a second report of the same call completes the first."""
        known = self._uses.get(id) if id else None
        if known is not None:
            _complete(known, name, input, extras)
            return known
        flagged = None if id else True
        id = id or self._new_id()
        own = {"tool_name": name or "", "tool_id": id, "tool_input": input_of(input)}
        block = self.add("tool_use", own, tool_id_synthetic=flagged, **extras)
        self._uses[id] = block
        if id not in self._names:
            self._news.append(block)
        self._names[id] = name or self._names.get(id, "")
        return block

    def result(self, id: str | None, content: Any, **extras: Any) -> Body:
        """Add a tool's result; a second report for the same call is merged into the first."""
        known = self._results.get(id) if id else None
        if known is not None:
            if content is not None and not known["tool_content"]:
                known["tool_content"] = content
            known |= {key: value for key, value in extras.items() if value is not None}
            return known
        flagged = None if id else True
        id = id or self._new_id()
        own = {"tool_id": id, "tool_content": content}
        name = extras.pop("tool_name", None) or self._names.get(id) or None
        block = self.add("tool_result", own, tool_name=name, tool_id_synthetic=flagged, **extras)
        self._results[id] = block
        self._news.append(block)
        return block

    def has_called(self, id: str) -> bool:
        """Whether that call was reported before."""
        return id in self._names

    def holds(self, block: Body) -> bool:
        """Whether a block may still grow: it was not taken yet."""
        return any(block is each for each in self.blocks)

    def stream(self, raw: bytes, provider_type: str, **extras: Any) -> None:
        """Add an object that was not understood, unchanged."""
        self.add("stream", raw_chunk(raw), provider_type=provider_type, **extras)

    def unknown(self, element: Any, **extras: Any) -> None:
        """Count an element of an unknown type."""
        name = type_of(element)
        self.report.unrecognised[name] += 1
        self.stream(dumped(element), name, **extras)

    def partial(self, element: Any, provider_type: str) -> None:
        """Add a piece of something that will come complete later; stored only on request."""
        if self.keep_partials:
            self.stream(dumped(element), provider_type, partial=True)

    def fail(self, message: Any, status: ReplyStatus | None = "error") -> None:
        """Add an error, in the provider's words."""
        self.errors.append(message if isinstance(message, str) else dumped(message).decode())
        if status and self.status == "ok":
            self.status = status

    def note(self, **fields: Any) -> None:
        """Set a field of the complete reply; None is ignored."""
        self.meta |= {key: value for key, value in fields.items() if value is not None}

    def settle(self) -> None:
        """Mark the blocks so far as final."""
        self._settled = len(self.blocks)

    def take(self) -> list[Body]:
        """Take the final blocks; they are not held here any longer."""
        taken, self.blocks = self.blocks[: self._settled], self.blocks[self._settled :]
        self._settled = 0
        gone = set(map(id, taken))
        for known in (self._uses, self._results):
            for key in [key for key, block in known.items() if id(block) in gone]:
                del known[key]  # a later report becomes a block of its own
        return taken

    def news(self) -> list[Body]:
        """The calls and results since the last call."""
        news, self._news = self._news, []
        return news

    def _new_id(self) -> str:
        self._synthetic += 1
        return f"syn-{self._synthetic}"


def _complete(known: Body, name: str | None, input: Any, extras: Body) -> None:
    if name and not known["tool_name"]:
        known["tool_name"] = name
    if known["tool_input"] is None or (known.get("partial") and not extras.get("partial")):
        known["tool_input"] = input_of(input)
        known.pop("partial", None)
    for key, value in extras.items():
        if value is not None:
            known.setdefault(key, value)
