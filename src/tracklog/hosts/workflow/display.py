"""The output on the terminal while a run goes on; it does not depend on what is recorded."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Write = Callable[[bytes], None]


def label(path: str, frames: Sequence[Mapping[str, Any]]) -> str:
    """The place of a step as it is printed: its path, and its position in the loops around it."""
    at = [str(frame["index"]) for frame in frames if "index" in frame]
    return f"{path} {'.'.join(at)}" if at else path


class Display:
    """Prints the lines of all runs of a host, each with the name of its step."""

    def __init__(self, write: Write, runs: Sequence[str] = ()) -> None:
        self._write = write
        self._runs = tuple(runs)

    def inside(self, step: str) -> "Display":
        """The display of a run that a step calls."""
        return Display(self._write, (*self._runs, step))

    def line(self, step: str, text: str) -> None:
        """Print one or more lines of a step; those of the run itself have no name."""
        place = " / ".join([*self._runs, step] if step else self._runs)
        head = f"[{place}] " if place else ""
        for each in text.split("\n"):
            self._write(f"{head}{printable(each)}\n".encode(errors="replace"))


def printable(text: str) -> str:
    """A text without control characters, so that it cannot overwrite other output."""
    if text.isprintable():
        return text
    return "".join(char if char == "\t" or char.isprintable() else "�" for char in text)


class Lines:
    """Passes output on line by line."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self._put = put
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._put(line.removesuffix(b"\r").decode("utf-8", "replace"))

    def end(self) -> None:
        """Pass on the last line, which has no line end."""
        if self._rest:
            self.feed(b"\n")
