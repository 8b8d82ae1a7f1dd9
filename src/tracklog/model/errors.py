"""The exceptions; each carries a hint that says what to do next.

    TracklogError
    ├── UnknownName          a dialect (or another plug-in) that does not exist
    ├── MissingExtra         a package that is not installed, for something optional
    ├── BadPlug              a plug-in that cannot be read, or lacks what plug-ins of its folder have
    ├── NotAppended          a group of lines that its journal did not acknowledge
    │   ├── BadLine              a line that contains a line end
    │   ├── JournalFull          no room on the disk; nothing of the group was stored
    │   ├── Overtaken            another writer appended first; the caller checks the group again
    │   ├── OverQuota            a tenant that has recorded as much as it may
    │   ├── NotDurable           the disk accepted the group, but could not make it durable
    │   └── StoreBroken          the journal is damaged and cannot be repaired by its writer
    ├── KeyReused            a batch key that was used for another batch
    ├── BadFormat            a home that this version cannot read
    ├── NoSuchRun            a name that no run has, or several runs have
    ├── NoSuchRecord         a number that no record has, or whose record was deleted
    ├── NoSuchBlob           a hash that no blob has
    ├── NoSuchMark           a mark that the run does not have, or that was withdrawn
    ├── NotAnswered          an answer that was not recorded
    │   ├── NoSuchQuestion       no question has this id
    │   ├── AmbiguousQuestion    several runs have a question with this id
    │   ├── AlreadyAnswered      the question has an answer already
    │   └── TooLate              the question has expired, or its run has ended
    ├── BlobDamaged          a blob whose bytes do not match its hash
    ├── NotOpened            a transcript that was not opened for writing
    │   ├── UnsafeTranscript     its name, its kind, its owner or its mode is not safe
    │   ├── TranscriptLocked     another writer has it
    │   └── TranscriptFinished   its run has ended, and `resume` was not requested
    ├── NotProven            lines of a run that do not fit the chain of the journal
    ├── BadBackup            a backup that was not made, or that does not verify
    ├── BadCheckpoint        a checkpoint or a key that cannot be read, or a signature that is wrong
    │   └── NotSigned            a checkpoint without a valid signature of a key that must have signed
    ├── NotExtended          a journal that is not the continuation of what was signed
    ├── NoSuchObject         an object that the archive does not have
    ├── ArchiveDamaged       an archive with an object that is missing or is not what was written
    ├── IndexUnusable        an index that can be neither read nor written now
    │   ├── IndexUnwritable      an index whose folder or file may only be read
    │   ├── IndexDamaged         an index whose file is damaged; it is rebuilt
    │   └── IndexOvertaken       an index that another process changed at the same time
    ├── BadToken             a token with a name or a run prefix that it cannot have
    ├── LastToken            the last token of an administrator, which cannot be revoked over HTTP
    ├── TapeMiss             a call that the recorded run does not contain
    ├── BadQuery             a query that is not SQL, would change something, or takes too long
    └── NotRecorded          an event that did not reach its transcript
        ├── InvalidEvent         the event does not match its schema
        ├── MaskFailed           the masker failed, or changed a field that it must not change
        ├── WriteFailed          the disk refused the line; the file is unchanged
        ├── RecorderClosed       the recorder was closed before
        ├── ForkedRecorder       the recorder belongs to the parent process
        └── ReentrantCall        a call from inside another call of the same recorder

A line that fails its check raises nothing: the check returns a `Refusal`.
"""

from collections.abc import Mapping, Sequence


class TracklogError(Exception):
    """Something failed that the caller can do something about."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UnknownName(TracklogError):
    """No plug-in has the given name."""


class MissingExtra(TracklogError):
    """Something optional needs a package that is not installed."""

    def __init__(self, what: str, extra: str, missing: ImportError) -> None:
        super().__init__(
            f"{what} needs a package that is not installed: {missing.name}",
            f"pip install 'tracklog[{extra}]'",
        )


class BadPlug(TracklogError):
    """A plug-in cannot be read, or lacks what the plug-ins of its folder have."""


class NotAppended(TracklogError):
    """A group of lines was not acknowledged by its journal."""


class BadLine(NotAppended):
    """A line holds a line end, so it would be read back as two."""


class JournalFull(NotAppended):
    """The disk has no room; nothing of the group was stored, and earlier records are untouched."""


class Overtaken(NotAppended):
    """Another writer appended first to a run or from a source of this group; nothing was stored."""

    def __init__(
        self, message: str, hint: str = "", runs: Mapping[tuple[str, str], int] | None = None
    ) -> None:
        super().__init__(message, hint)
        self.runs = runs or {}
        """The runs that have records behind what was expected, and a number behind which they
        have none."""


class OverQuota(NotAppended):
    """The tenant has recorded as much as it may; nothing was stored."""

    def __init__(self, message: str, hint: str = "", *, seconds: int) -> None:
        super().__init__(message, hint)
        self.seconds = seconds
        """After which it can be tried again."""


class NotDurable(NotAppended):
    """The disk could not make the group durable, so it was rolled back."""


class StoreBroken(NotAppended):
    """The journal was removed, made read-only or damaged while it was open for writing."""


class KeyReused(TracklogError):
    """A batch key was used before for a batch with other content; nothing was stored."""


class BadFormat(TracklogError):
    """A home was made by a newer version, or the folder is not a home."""


class NoSuchRun(TracklogError):
    """No run has the given name, or more than one run matches it."""


class NoSuchRecord(TracklogError):
    """No record has the given number, or the record was deleted."""


class NoSuchMark(TracklogError):
    """The run has no such mark, or it was withdrawn."""


class NoSuchBlob(TracklogError):
    """No blob with the given hash is stored here."""


class NoSuchObject(TracklogError):
    """An archive has no object of this name."""


class ArchiveDamaged(TracklogError):
    """An object of an archive is missing, or is not what was written."""


class NotAnswered(TracklogError):
    """An answer was not recorded."""


class NoSuchQuestion(NotAnswered):
    """No question has the given id."""


class AmbiguousQuestion(NotAnswered):
    """Several runs have a question with this id, and the request does not name the run."""

    def __init__(self, message: str, hint: str = "", *, runs: Sequence[str]) -> None:
        super().__init__(message, hint)
        self.runs = list(runs)
        """The runs that ask, as `family:run`."""


class AlreadyAnswered(NotAnswered):
    """The question already has an answer, by somebody else or with other content."""

    def __init__(self, message: str, hint: str = "", *, by: Sequence[str], seq: int) -> None:
        super().__init__(message, hint)
        self.by, self.seq = list(by), seq
        """The names of those who answered, where they gave one, and the record of the answer."""


class TooLate(NotAnswered):
    """The question has expired, or its run has ended."""


class BlobDamaged(TracklogError):
    """The bytes of a blob do not match the hash it is stored under."""


class NotProven(TracklogError):
    """A run's lines do not fit the journal's chain."""


class BadBackup(TracklogError):
    """A backup of a home was not made, or does not verify."""


class BadCheckpoint(TracklogError):
    """A checkpoint or a key cannot be read, or a signature is wrong."""


class NotSigned(BadCheckpoint):
    """A checkpoint has no valid signature of a key that must have signed it."""


class NotExtended(TracklogError):
    """A journal is not the continuation of the checkpoint that was signed before."""


class IndexUnusable(TracklogError):
    """An index cannot be read or written now; the journal is not affected."""


class IndexUnwritable(IndexUnusable):
    """The file of an index cannot be written; an index in memory can be used instead."""


class IndexDamaged(IndexUnusable):
    """The file of an index is damaged; it is a cache and can be rebuilt."""


class IndexOvertaken(IndexUnusable):
    """Another process changed the index while a batch for it was made; nothing was stored."""


class BadQuery(TracklogError):
    """A query to the index is not SQL, would change something, or took too long."""


class BadToken(TracklogError):
    """A token cannot have this name, or cannot be bound to runs."""


class LastToken(TracklogError):
    """The last token of an administrator is not revoked over HTTP."""


class TapeMiss(TracklogError):
    """A call was to be answered from a recorded run, and that run has no answer to it."""


class NotOpened(TracklogError):
    """A transcript was not opened for writing; the attempt changed nothing on disk."""


class UnsafeTranscript(NotOpened):
    """The name, kind, owner or mode of a transcript is not safe to write to."""


class TranscriptLocked(NotOpened):
    """Another writer, in this or another process, holds the lock of the transcript."""


class TranscriptFinished(NotOpened):
    """The run of the transcript has ended, and `resume` was not requested."""


class NotRecorded(TracklogError):
    """An event did not reach its transcript; its sequence number was not used."""


class InvalidEvent(NotRecorded):
    """The event does not match the schema of its kind."""


class MaskFailed(NotRecorded):
    """The masker raised, or changed a field that it must not change."""


class WriteFailed(NotRecorded):
    """The disk refused the line; the file is unchanged."""


class RecorderClosed(NotRecorded):
    """The recorder was closed before."""


class ForkedRecorder(NotRecorded):
    """The recorder belongs to the process that this one was forked from."""


class ReentrantCall(NotRecorded):
    """The recorder was called from inside one of its own callbacks."""
