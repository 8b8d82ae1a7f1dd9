"""What can go wrong, as exceptions; each carries a hint that says what to do next.

    TracklogError
    ├── UnknownName          a dialect (or another plug) that is not there
    └── BadPlug              a plug that does not have the shape of its folder

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
