"""What the verbs share: opening inputs, JSON lines, progress on a terminal."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from unicodedata import combining, east_asian_width

import click

if TYPE_CHECKING:
    from tracklog.event import Problem

BIG = 8 * 1024 * 1024
"""From this size on, reading a file shows its progress."""


class Unreadable(click.ClickException):
    """An input that cannot be read."""

    exit_code = 2


class Input:
    """An input that is read; what goes wrong with it is told apart from what its reader does."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name, self.file = name, file

    def read(self, size: int, /) -> bytes:
        try:
            return self.file.read(size)
        except OSError as error:
            raise _unreadable(self.name, error) from None

    def fileno(self) -> int:
        return self.file.fileno()


@contextmanager
def opened(name: str) -> Iterator[Input]:
    """The input of that name, `-` being standard input; with a progress bar when it is big."""
    if name == "-":
        yield Input(named(name), sys.stdin.buffer)
        return
    path = Path(name)
    try:
        file = path.open("rb")
    except IsADirectoryError:
        said = f"{name} is a directory; name the files in it: {name}/*.jsonl"
        raise Unreadable(said) from None
    except OSError as error:
        raise _unreadable(name, error) from None
    with file, _watched(file, path) as watched:
        yield Input(name, watched)


def is_file(name: str) -> bool:
    """Whether an input is a regular file, which can be read more than once."""
    try:
        return name != "-" and Path(name).is_file()
    except OSError:
        return False  # what is wrong with it is told when it is opened


def _unreadable(name: str, error: OSError) -> Unreadable:
    if isinstance(error, FileNotFoundError):
        return Unreadable(f"{name} is not there; check the name")
    return Unreadable(f"{name} cannot be read: {error.strerror}; check whose it is and its mode")


def named(name: str) -> str:
    """An input's name, for a person."""
    return "standard input" if name == "-" else name


def _watched(file: BinaryIO, path: Path) -> AbstractContextManager[BinaryIO]:
    size = os.fstat(file.fileno()).st_size
    if size < BIG or not sys.stderr.isatty() or sys.stdout.isatty():
        return nullcontext(file)
    from rich.console import Console  # noqa: PLC0415  # slow to import, seldom needed
    from rich.progress import wrap_file  # noqa: PLC0415

    return wrap_file(file, size, description=path.name, console=Console(stderr=True))


def put_json(value: Any) -> None:
    """One JSON object on a line of its own."""
    sys.stdout.buffer.write(json_line(value))


def json_line(value: Any) -> bytes:
    """The same as bytes; a file name that is not UTF-8 is spelled with escapes."""
    import orjson  # noqa: PLC0415  # slow to import, not needed by every verb

    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        readable = {k: spelled(v) if isinstance(v, str) else v for k, v in value.items()}
        return orjson.dumps(readable, option=orjson.OPT_APPEND_NEWLINE)


def spelled(name: str) -> str:
    """A file name as text that any program can read, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def plain(text: str) -> str:
    """Text that cannot move the cursor, ring the bell or turn the line around."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def moment(at: str | None, received: str) -> str:
    """When it happened, in UTC to the second: by the emitter's clock, else when it was heard."""
    from tracklog.folds import moment as milliseconds  # noqa: PLC0415  # slow to import
    from tracklog.frame import stamp  # noqa: PLC0415

    known = milliseconds(at)
    return (received if known is None else stamp(known / 1000))[:19].replace("T", " ")


def width() -> int | None:
    """The columns of the terminal that is written to; None for a pipe or a file, which has room."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def cells(text: str) -> int:
    """The columns that a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def fitted(text: str, width: int) -> str:
    """A text in so many columns: filled up, or cut with a sign of it."""
    text = plain(text)
    if cells(text) <= width:
        return text + " " * (width - cells(text))
    kept, used = "", 1
    for character in text:
        used += _cells(character)
        if used > width:
            break
        kept += character
    return f"{kept}…" + " " * (width - cells(kept) - 1) if width else ""


def _cells(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def colour() -> bool | None:
    """False where colours are not wanted; else it depends on whether a terminal is there."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if unwanted else None


def say_error(message: str, hint: str = "") -> None:
    """What went wrong and what to do next, for a person."""
    said = "\n".join(map(plain, message.split("\n")))
    click.secho(f"error: {said}", fg="red", err=True, color=colour())
    if hint:
        click.echo(f"  {plain(hint)}", err=True)


def say_refused(place: str, problems: "Iterable[Problem]") -> None:
    """A line that was refused, with every reason."""
    click.secho(f"{plain(place)} refused", fg="red", err=True)
    for problem in problems:
        click.echo(plain(f"  {problem.pointer or 'the line'}  {problem.message}"), err=True)
        click.echo(plain(f"    {problem.hint}"), err=True)


def inputs(names: tuple[str, ...]) -> tuple[str, ...]:
    """The inputs that were named; standard input when none was and something is piped in."""
    if not names and sys.stdin.isatty():
        raise click.UsageError("name a file, or pipe lines in; see --help for examples")
    return names or ("-",)


def count(number: int, word: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
