"""The reasoning of an agent: sent in pieces while it arrives, then recorded as one event."""

import asyncio
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracklog.hosts.openwop.step import NodeStep

DELTA, REASONED = "agent.reasoning.delta", "agent.reasoned"
PIECE = 32
"""Characters of a delta, at least: a model server sends words, and a record of each is too much."""


class Reasoning:
    """One block of reasoning: any number of deltas, and then the one event that closes it."""

    def __init__(self, step: "NodeStep", agent: str) -> None:
        x = step.x
        self._step, self.agent, self._redactor = step, agent, x.redactor
        self._verbosity = x.configurable.get("reasoningVerbosity", x.settings.verbosity)
        self._most = 2 * x.settings.token_limit
        if self._verbosity != "summary":
            self._most = -1
        self._left = self._most
        """Halves of tokens that may still be sent."""
        self._held = ""
        self.sent: list[str] = []
        """The deltas so far."""
        self.more = asyncio.Event()
        """Set when there is something that is not written yet."""

    def add(self, piece: str) -> None:
        """Add some text; what may be the beginning of a secret is held back."""
        self._held += piece
        end = self._redactor.settled(self._held)
        if end >= PIECE:
            self.send(self._redactor.text(self._held[:end]))
            self._held = self._held[end:]

    def end(self) -> None:
        """The text is complete: send what was held back."""
        self.send(self._redactor.text(self._held))
        self._held = ""

    def send(self, piece: str) -> None:
        """Send a delta, as far as there is room in the block (WOP-44)."""
        if self._verbosity == "off" or self._left == 0 or not piece:
            return
        if self._left > 0:
            piece = piece[: fitting(piece, self._left)]
            self._left -= cost(piece)
            if not piece:
                self._left = 0
                return
        data = {"agentId": self.agent, "delta": piece, "sequence": len(self.sent)}
        if self._step.emit(DELTA, {**data, "verbosity": self._verbosity}) is not None:
            self.sent.append(piece)
            self.more.set()

    def close(self, text: str) -> None:
        """Record the complete reasoning, which alone counts (WOP-40)."""
        if self._verbosity == "off":
            return
        text = _cut(self._redactor.text(text), self._most)  # WOP-43, WOP-44
        data = {"agentId": self.agent, "reasoning": text, "verbosity": self._verbosity}
        self._step.emit(REASONED, data)
        self.sent = []

    def break_off(self) -> None:
        """End an incomplete reasoning with what was sent of it."""
        if self.sent:
            self.close("".join(self.sent))


def cost(text: str) -> int:
    """The highest possible number of tokens of a text, in halves of one; no tokenizer runs.

    Tokenizers need fewer tokens for prose, but not for random letters, figures, signs or scripts
    other than Latin.
    """
    others = _CHEAP.sub("", text)
    return len(text) - len(others) + sum(map(_cost, others))


_CHEAP = re.compile("[A-Za-z ]+")
"""Characters that cost 1 each."""


def _cost(char: str) -> int:
    if char == " " or (char.isascii() and char.isalpha()):
        return 1
    return 2 * max(1, len(char.encode()) - 1)


def fitting(text: str, most: int) -> int:
    """The number of characters of a text that cost no more than this."""
    for at, char in enumerate(text):
        most -= _cost(char)
        if most < 0:
            return at
    return len(text)


def _cut(text: str, most: int) -> str:
    """As much of a text as the limit allows, with a mark at the cut."""
    if most < 0 or cost(text) <= most:
        return text
    return text[: fitting(text, max(0, most - cost("…")))] + "…"
