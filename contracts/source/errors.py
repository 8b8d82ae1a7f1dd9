class Problem(NamedTuple):
    """One fault of an event: where, what, and what to do."""

    pointer: str
    message: str
    hint: str


class Invalid(ValueError):
    """The event cannot be written; `problems` names every fault, and no byte was written."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{at or '/'}: {what} ({hint})" for at, what, hint in problems))


class ShortWrite(OSError):
    """The system took only a part of a line; the rest was not sent after it."""
