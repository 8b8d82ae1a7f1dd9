"""Revisions of imported records: read again, corrected, withdrawn, or repeated by a channel."""

from typing import NamedTuple

from tracklog.dialects import SourceRecord
from tracklog.model.event import Event, Finding
from tracklog.reading.messages import SharedMessages


class Revisions:
    """The revisions of the source records of one run, and which events of it are current.

    Of the events made from one source record, those of the newest mapping are current; of a
    record that was corrected, those of the last content, in whatever order they arrived.
    """

    __slots__ = ("_known", "_messages", "_plain", "_withdrawals", "mixed")

    def __init__(self) -> None:
        self.mixed = False
        """Whether some source record has several revisions, or some record was withdrawn or repeated."""
        self._known: dict[str, dict[str, int | _Revision]] = {}
        """By writer and name; of a revision of the writer's first version, without a content, only
        its first event: a long run has very many of these.
        """
        self._plain: dict[str, tuple[tuple[int, str], ...]] = {}
        """By writer, the version of those."""
        self._withdrawals: list[tuple[int, SourceRecord]] = []
        self._messages = SharedMessages()

    def take(self, seq: int, event: Event, source: SourceRecord | None) -> bool:
        """Takes an event into account; whether an earlier event of the run reads differently now."""
        self._messages.add(seq, event, source)
        changed = source is not None and self._add(seq, source)
        self.mixed = self.mixed or changed or bool(self._messages.originals)
        return changed

    def original(self, seq: int) -> int | None:
        """The record that counts instead of one which repeats the message of another channel."""
        return self._messages.originals.get(seq)

    def _add(self, seq: int, source: SourceRecord) -> bool:
        changed = False
        plain = self._plain.setdefault(source.writer, source.version)
        of = self._known.setdefault(source.writer, {})
        content = () if source.content is None else (source.content,)
        is_plain = not content and source.version == plain
        for name in source.names:
            if is_plain and type(of.setdefault(name, seq)) is int:
                continue
            known = self._revision(source.writer, name)
            self.mixed = self.mixed or (known is not None and known.version != source.version)
            if known is None or source.version > known.version:
                changed |= known is not None
                of[name] = _Revision(source.version, seq, seq, content)
            elif source.version == known.version and content and content[0] not in known.contents:
                changed |= bool(known.contents)
                of[name] = known._replace(contents=known.contents + content, since=seq)
        if source.back is not None:
            self._withdrawals.append((seq, source))
            changed = True
        return changed

    def _revision(self, writer: str, name: str) -> "_Revision | None":
        """The newest known revision of a record."""
        known = self._known.get(writer, {}).get(name)
        return _Revision(self._plain[writer], known, known, ()) if type(known) is int else known  # type: ignore[return-value]  # else it is none

    def is_current(self, source: SourceRecord) -> bool:
        """Whether an event counts: no newer revision of its record is known."""
        of = self._known.get(source.writer, {})
        is_plain = source.content is None and source.version == self._plain.get(source.writer)
        for name in source.names:
            if is_plain and type(of.get(name)) is int:
                continue
            known = self._revision(source.writer, name)
            if known is None:
                continue  # it came while the others were read again
            if known.version != source.version:
                return False
            if source.content is not None and known.contents[-1] != source.content:
                return False
        return True

    def is_withdrawn(self, seq: int, source: SourceRecord | None) -> bool:
        """Whether a later event withdrew this one, or a repeat of it by another channel."""
        if not self._withdrawals:
            return False
        own = () if source is None else ((seq, source),)
        return any(self._is_withdrawn(*each) for each in (*own, *self._messages.repeats(seq)))

    def _is_withdrawn(self, seq: int, source: SourceRecord) -> bool:
        """Whether a later event of the same writer withdrew this one."""
        return any(
            by.writer == source.writer
            and self.is_current(by)
            and (known := self._revision(by.writer, by.back or "")) is not None
            and known.first <= seq < at
            for at, by in self._withdrawals
        )

    def correction(self, seq: int, source: SourceRecord) -> Finding | None:
        """The finding at the first event of a record that was sent with another content."""
        for name in source.names:
            known = self._revision(source.writer, name)
            if known is None or len(known.contents) < 2 or known.since != seq:
                continue
            # The same content under the name of another agent is no correction of the source.
            if not known.contents[-1].startswith(known.contents[-2]):
                message = f"{name} was recorded before with other content; this one counts"
                return Finding("corrected", message, "info")
        return None


class _Revision(NamedTuple):
    """The newest known revision of one record of a source."""

    version: tuple[tuple[int, str], ...]
    first: int
    """The first event of this version."""
    since: int
    """The first event of the last content."""
    contents: tuple[str, ...]
    """Each content once, in the order in which they came."""
