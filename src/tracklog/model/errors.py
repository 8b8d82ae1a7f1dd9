"""What can go wrong, as exceptions; each carries a hint that says what to do next.

    TracklogError
    ├── UnknownName          a dialect (or another plug) that is not there
    ├── BadPlug              a plug that cannot be read, or does not have the shape of its folder
    ├── NotAppended          a group of lines that its journal did not acknowledge
    │   ├── BadLine              a line that would not be one line
    │   ├── JournalFull          no room on the disk; nothing of the group was kept
    │   ├── Overtaken            another writer was quicker; the caller judges it again
    │   ├── NotDurable           the disk took it and could not promise to keep it
    │   └── StoreBroken          the journal can be neither trusted nor mended from here
    ├── KeyReused            a batch key that stood for another batch before
    ├── BadFormat            a home that this version cannot read
    ├── NoSuchRun            a name that no run has, or more than one
    ├── NoSuchRecord         a number that no record has, or has any more
    ├── NoSuchBlob           a hash that no blob has
    ├── NotAnswered          an answer that was not given to whoever asked
    │   ├── NoSuchQuestion       nobody asked that
    │   ├── AmbiguousQuestion    several runs ask that
    │   ├── AlreadyAnswered      somebody was quicker
    │   └── TooLate              the question has expired, or its run has ended
    ├── BlobDamaged          a blob whose bytes are not those that were put
    ├── NotOpened            a transcript that was not opened for writing
    │   ├── UnsafeTranscript     its name, its kind, its owner or its mode is not safe
    │   ├── TranscriptLocked     another writer has it
    │   └── TranscriptFinished   its run has ended, and `resume` was not asked for
    ├── BadBackup            a copy that was not made
    ├── IndexUnusable        an index that can be neither read nor written now
    │   ├── IndexUnwritable      an index whose folder or file may only be read
    │   └── IndexDamaged         an index whose bytes are not what was written; it is rebuilt
    ├── TapeMiss             a call that a recorded run did not make
    ├── BadQuery             a question that is no SQL, would change something, or takes too long
    └── NotRecorded          an event that did not reach its transcript
        ├── InvalidEvent         it is not one that may be written
        ├── MaskFailed           the masker refused, or broke what it may not touch
        ├── WriteFailed          the disk did not take it; the file is as it was before
        ├── RecorderClosed       the recorder was closed before
        ├── ForkedRecorder       the recorder belongs to the parent process
        └── ReentrantCall        a call from inside another call of the same recorder

A line that does not pass the door is no exception: it is a `Refusal`, and it is returned.
"""

from collections.abc import Sequence


class TracklogError(Exception):
    """Something failed that the caller can do something about."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UnknownName(TracklogError):
    """A name was asked for that no plug has."""


class BadPlug(TracklogError):
    """A plug cannot be read, or does not have the shape of its folder."""


class NotAppended(TracklogError):
    """A group of lines was not acknowledged by its journal."""


class BadLine(NotAppended):
    """A line holds a line end, so it would be read back as two."""


class JournalFull(NotAppended):
    """The disk has no room; nothing of the group was kept, and earlier records are untouched."""


class Overtaken(NotAppended):
    """Another writer appended first, and the group's guard called it off; nothing was kept."""


class NotDurable(NotAppended):
    """The disk could not promise to keep the group, so it was taken back."""


class StoreBroken(NotAppended):
    """The journal was removed, made read-only or damaged under its writer."""


class KeyReused(TracklogError):
    """A batch came under a key that stood for another batch before; nothing was kept."""


class BadFormat(TracklogError):
    """A home was made by a newer version, or is no home."""


class NoSuchRun(TracklogError):
    """A run was asked for by a name that no run has, or that more than one could have."""


class NoSuchRecord(TracklogError):
    """A number was asked for that no record has, or has any more."""


class NoSuchBlob(TracklogError):
    """A blob was asked for that is not kept here."""


class NotAnswered(TracklogError):
    """An answer was not recorded."""


class NoSuchQuestion(NotAnswered):
    """Nobody asked a question of that name."""


class AmbiguousQuestion(NotAnswered):
    """Several runs ask a question of that name, and it was not said which is meant."""

    def __init__(self, message: str, hint: str = "", *, runs: Sequence[str]) -> None:
        super().__init__(message, hint)
        self.runs = list(runs)
        """Those that ask, as `family:run`."""


class AlreadyAnswered(NotAnswered):
    """The question was answered before, by somebody else or in other words."""

    def __init__(self, message: str, hint: str = "", *, by: Sequence[str], seq: int) -> None:
        super().__init__(message, hint)
        self.by, self.seq = list(by), seq
        """Who won, as far as they said, and the record of their answer."""


class TooLate(NotAnswered):
    """Nobody waits for that answer any more: the question expired, or its run ended."""


class BlobDamaged(TracklogError):
    """A blob's bytes do not have the hash that they were put under."""


class NotProven(TracklogError):
    """A run's lines do not fit the journal's chain."""


class BadBackup(TracklogError):
    """A copy of a home was not made, or does not verify."""


class IndexUnusable(TracklogError):
    """An index cannot be read or written as things are; the journal is not affected."""


class IndexUnwritable(IndexUnusable):
    """An index may not be written where it is to be; in memory it can."""


class IndexDamaged(IndexUnusable):
    """An index is not what was written to it; it is a cache, and can be built anew."""


class BadQuery(TracklogError):
    """A question to the index is no SQL, would change something, or took too long."""


class TapeMiss(TracklogError):
    """A call was to be answered from a recorded run, which has no answer to it."""


class NotOpened(TracklogError):
    """A transcript was not opened for writing; nothing on disk was changed by the attempt."""


class UnsafeTranscript(NotOpened):
    """A transcript's name, kind, owner or mode is not one that a recorder may write to."""


class TranscriptLocked(NotOpened):
    """Another writer, here or in another process, has the transcript."""


class TranscriptFinished(NotOpened):
    """The run of the transcript has ended, and it was not asked to resume it."""


class NotRecorded(TracklogError):
    """An event did not reach its transcript; no number was spent on it."""


class InvalidEvent(NotRecorded):
    """The event is not one that may be written."""


class MaskFailed(NotRecorded):
    """The masker raised, or changed what it may not touch."""


class WriteFailed(NotRecorded):
    """The disk did not take the line, and the file is as it was before."""


class RecorderClosed(NotRecorded):
    """The recorder was closed before."""


class ForkedRecorder(NotRecorded):
    """The recorder belongs to the process that this one was forked from."""


class ReentrantCall(NotRecorded):
    """The recorder was called from inside one of its own calls."""
