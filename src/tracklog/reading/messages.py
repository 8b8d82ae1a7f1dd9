"""Messages that several channels report: a conversation's hooks, its telemetry, its file."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from tracklog.dialects import SourceRecord
from tracklog.folds._titles import written
from tracklog.model.event import Event
from tracklog.model.fact import blob_of

SPEAKERS = ("user", "assistant")
"""The roles whose messages are joined."""


class SharedMessages:
    """The messages of one run, and which records repeat a message of another channel.

    The messages with the same role and the same words are numbered in each channel. Of those with
    the same number the record that came first counts, so that a record which counts goes on to.
    A source record that is read again has the numbers that it had.
    """

    __slots__ = ("_counts", "_first", "_plain", "_read", "_repeats", "originals")

    def __init__(self) -> None:
        self.originals: dict[int, int] = {}
        """By record that repeats a message: the record that counts instead."""
        self._repeats: dict[int, list[tuple[int, SourceRecord]]] = {}
        """By record that counts: its repeats whose source is known."""
        self._counts: dict[tuple[str, bytes], int] = {}
        """By channel and message, how many there are."""
        self._read: dict[tuple[str, str, bytes], int | _MessageNumbers] = {}
        """By channel, source record and message, its numbers; only the number where the record was
        read once, as the first of its channel was: a long run has very many of these.
        """
        self._plain: dict[str, object] = {}
        """By channel, the reading of those."""
        self._first: dict[tuple[bytes, int], tuple[str, int]] = {}
        """By message and number, the channel that reported it first, and its record."""

    def add(self, seq: int, event: Event, source: SourceRecord | None) -> None:
        """Take in the next record of the run."""
        if event.kind != "Said" or (words := _words(event.body)) is None:
            return
        channel = _channel(event.body.get("origin"))
        number = self._number(channel, words, source)
        first, original = self._first.setdefault((words, number), (channel, seq))
        if first != channel:
            self.originals[seq] = original
            if source is not None:
                self._repeats.setdefault(original, []).append((seq, source))

    def _number(self, channel: str, words: bytes, source: SourceRecord | None) -> int:
        """The number of a message; a record that is read again has the numbers that it had."""
        if source is None:
            return self._next(channel, words)
        keys = [(channel, name, words) for name in source.names]
        reading = (source.version, source.content)
        found = next((self._read[key] for key in keys if key in self._read), None)
        if found is None and reading == self._plain.setdefault(channel, reading):
            number = self._next(channel, words)
            self._read |= dict.fromkeys(keys, number)
            return number
        known = found if isinstance(found, _MessageNumbers) else _MessageNumbers()
        if isinstance(found, int):
            known.numbers, known.reading, known.next = (found,), self._plain[channel], 1
        self._read |= dict.fromkeys(keys, known)
        if known.reading != reading:
            known.reading, known.next = reading, 0
        known.next += 1
        if known.next <= len(known.numbers):
            return known.numbers[known.next - 1]
        number = self._next(channel, words)
        known.numbers += (number,)
        return number

    def _next(self, channel: str, words: bytes) -> int:
        number = self._counts[channel, words] = self._counts.get((channel, words), 0) + 1
        return number

    def repeats(self, seq: int) -> Iterable[tuple[int, SourceRecord]]:
        """The records that repeat the message of a record, with their sources."""
        return self._repeats.get(seq, ())


class _MessageNumbers:
    """The numbers of equal messages of one source record."""

    __slots__ = ("next", "numbers", "reading")

    def __init__(self) -> None:
        self.numbers: tuple[int, ...] = ()
        self.reading: object = None
        """The version of the mapping, and the content, of the last record."""
        self.next = 0
        """How many of them were in that version."""


def _channel(origin: Any) -> str:
    """The channel of a line: its writer, if it was made from a record of another program."""
    if not isinstance(origin, Mapping) or "mapping" not in origin:
        return ""
    return str(origin.get("writer"))


def _words(body: Mapping[str, Any]) -> bytes | None:
    """A hash of the role and the words of a message; None where it has no words."""
    role, blocks = body.get("role"), body.get("blocks")
    if role not in SPEAKERS or not isinstance(blocks, list) or body.get("copied") is True:
        return None
    texts = [_text(block.get("text")) for block in blocks if isinstance(block, Mapping)]
    text = "\n\n".join(filter(None, texts)).strip()
    if text.startswith("<") and role == "user":  # an agent may put its own words before a prompt
        text = written(text) or text
    if not text:
        return None
    return blake2b(f"{role} {text}".encode(errors="replace"), digest_size=12).digest()


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    blob = blob_of(value)
    return None if blob is None else str(blob["sha256"])
