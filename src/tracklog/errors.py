"""What can go wrong, as exceptions; each carries a hint that says what to do next.

    TracklogError
    ├── UnknownName          a dialect (or another plug) that is not there
    ├── BadPlug              a plug that does not have the shape of its folder
    ├── NotOpened            a transcript that was not opened for writing
    │   ├── UnsafeTranscript     its name, its kind, its owner or its mode is not safe
    │   ├── TranscriptLocked     another writer has it
    │   └── TranscriptFinished   its run has ended, and `resume` was not asked for
    └── NotRecorded          an event that did not reach its transcript
        ├── InvalidEvent         it is not one that may be written
        ├── MaskFailed           the masker refused, or broke what it may not touch
        ├── WriteFailed          the disk did not take it; the file is as it was before
        ├── RecorderClosed       the recorder was closed before
        ├── ForkedRecorder       the recorder belongs to the parent process
        └── ReentrantCall        a call from inside another call of the same recorder

A line that does not pass the door is no exception: it is a `Refusal`, and it is returned.
"""


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
    """A file in a plug's folder, or an entry point, does not have the shape of its folder."""


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
