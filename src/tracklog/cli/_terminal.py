"""Shared by the commands: opening inputs, JSON lines, progress on a terminal."""

import io
import os
import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypedDict, TypeVar
from unicodedata import combining, east_asian_width

import click

if TYPE_CHECKING:
    from tracklog.model.event import Problem

F = TypeVar("F", bound=Callable[..., Any])

BIG = 8 * 1024 * 1024
"""From this size on, reading a file shows its progress."""


class UnreadableInput(click.ClickException):
    """An input that cannot be read."""

    exit_code = 2


class OpenInput:
    """An input; errors of reading are distinguished from errors of its user."""

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
def opened(name: str) -> Iterator[OpenInput]:
    """Open the input of that name, `-` for standard input; with a progress bar when it is large."""
    if name == "-":
        yield OpenInput(named(name), sys.stdin.buffer)
        return
    path = Path(name)
    try:
        file = path.open("rb")
    except IsADirectoryError:
        message = f"{name} is a directory; name the files in it: {name}/*.jsonl"
        raise UnreadableInput(message) from None
    except OSError as error:
        raise _unreadable(name, error) from None
    with file, _watched(file, path) as watched:
        yield OpenInput(name, watched)


def is_file(name: str) -> bool:
    """Whether an input is a regular file, which can be read more than once."""
    try:
        return name != "-" and Path(name).is_file()
    except OSError:
        return False  # errors are reported when it is opened


def _unreadable(name: str, error: OSError) -> UnreadableInput:
    if isinstance(error, FileNotFoundError):
        return UnreadableInput(f"{name} does not exist; check the name")
    return UnreadableInput(f"{name} cannot be read: {error.strerror}; check its owner and mode")


def named(name: str) -> str:
    """The name of an input, for a person."""
    return "standard input" if name == "-" else name


def _watched(file: BinaryIO, path: Path) -> AbstractContextManager[BinaryIO]:
    size = os.fstat(file.fileno()).st_size
    if size < BIG or not sys.stderr.isatty() or sys.stdout.isatty():
        return nullcontext(file)
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import wrap_file

    console = Console(file=drawn(sys.stderr))
    return wrap_file(file, size, description=escape(printable(path.name)), console=console)


class Style(TypedDict, total=False):
    """How a text looks on a terminal, as `click.style` takes it."""

    fg: str
    bold: bool
    dim: bool


def put_json(value: Any) -> None:
    """One JSON object on a line of its own."""
    put_bytes(json_line(value))


def put_bytes(line: bytes) -> None:
    """Bytes for a program; a terminal gets them with control characters escaped."""
    sys.stdout.buffer.write(for_stream(sys.stdout, line))


def for_stream(stream: TextIO, line: bytes) -> bytes:
    """The line in the form for that stream: it stays the same JSON."""
    return _spelled_out(line.decode("utf-8", "backslashreplace")) if stream.isatty() else line


def put_parts(parts: Iterable[bytes], *, at_once: bool = False) -> None:
    """The same for output in parts, which may be cut anywhere; each is flushed on request."""
    decoder = getincrementaldecoder("utf-8")("backslashreplace")
    is_terminal = sys.stdout.isatty()
    for part in parts:
        sys.stdout.buffer.write(_spelled_out(decoder.decode(part)) if is_terminal else part)
        if at_once:
            sys.stdout.buffer.flush()
    sys.stdout.buffer.write(_spelled_out(decoder.decode(b"", final=True)))


def _spelled_out(text: str) -> bytes:
    return _CONTROL.sub(_escape, text).encode()


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def json_line(value: Any) -> bytes:
    """The same as bytes; a file name that is not UTF-8 is escaped."""
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError:
        readable = {k: spelled(v) if isinstance(v, str) else v for k, v in value.items()}
        return orjson.dumps(readable, option=orjson.OPT_APPEND_NEWLINE)


def spelled(name: str) -> str:
    """A file name as text that any program can read, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """Text without characters that move the cursor, ring the bell or reverse the line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_CONTROL = re.compile(
    # C0 except tab and line end, DEL and C1; bidirectional controls; other line ends; lone
    # surrogates.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufff9-\ufffb\ufeff]"
    "|[\ud800-\udfff]"
)
_LOOKS = re.compile("(\x1b\\[(?:0|1|2|3|4|3[0-79]|9[0-7])m)")
"""Bold, dim and colours, as `click.style` writes them, each by itself."""


def harmless(text: str) -> str:
    """Text in which only our own colours can affect a terminal; other control characters are
    escaped.

    They are escaped as in JSON, so that a line of JSON stays one.
    """
    if not _CONTROL.search(text):
        return text
    parts = _LOOKS.split(text)
    parts[::2] = [_CONTROL.sub(_escape, part) for part in parts[::2]]
    return "".join(parts)


class Harmless(io.TextIOBase):
    """A stream that escapes control characters from any source: the last line of defence.

    Foreign texts are made `plain` where they are laid out; the rest, such as click's own messages,
    is escaped here. `stream` is the underlying stream, for code that draws.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError("only text is written here")  # click asks for it
        self.stream.write(harmless(text))
        return len(text)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()

    @property
    def closed(self) -> bool:
        return self.stream.closed

    def close(self) -> None:
        self.stream.close()

    @property
    def buffer(self) -> BinaryIO:
        """The binary stream, for output that programs read."""
        return self.stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class has an attribute
        return self.stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.stream.errors

    @property
    def newlines(self) -> Any:  # type: ignore[override]
        return self.stream.newlines

    def __getattr__(self, name: str) -> Any:
        if name in ("name", "mode", "line_buffering"):
            return getattr(self.stream, name)
        raise AttributeError(name)


def drawn(stream: TextIO) -> TextIO:
    """The underlying stream, for code that moves the cursor."""
    return stream.stream if isinstance(stream, Harmless) else stream


def time_text(at: str | None, received: str) -> str:
    """The time in UTC to the second: by the emitter's clock, else the time of receipt."""
    from tracklog.folds import epoch_ms as milliseconds
    from tracklog.journal.frame import stamp

    known = milliseconds(at)
    return (received if known is None else stamp(known / 1000))[:19].replace("T", " ")


WIDE = "tracklog.wide"


def wide_option(verb: F) -> F:
    """The option for lines of any length."""
    return click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=lambda context, _option, wide: context.meta.__setitem__(WIDE, wide),
        help="Do not cut long values on a terminal; output to a pipe is never cut.",
    )(verb)


def width() -> int | None:
    """The width of the terminal; None where there is no limit: a pipe, --wide."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(WIDE):
        return None
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def cells(text: str) -> int:
    """The width of a text on a terminal."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def fitted(text: str, width: int) -> str:
    """A text with this width: padded, or cut with an ellipsis."""
    text = printable(text)
    if cells(text) <= width:
        return text + " " * (width - cells(text))
    text_part, used = "", 1
    for character in text:
        used += _cells(character)
        if used > width:
            break
        text_part += character
    return f"{text_part}…" + " " * (width - cells(text_part) - 1) if width else ""


def _cells(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def colour() -> bool | None:
    """False where colours are disabled; None to decide by the terminal."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if unwanted else None


def print_error(message: str, hint: str = "") -> None:
    """Print an error and its hint."""
    text = "\n".join(map(printable, message.split("\n")))
    click.secho(f"error: {text}", fg="red", err=True, color=colour())
    if hint:
        click.echo(f"  {printable(hint)}", err=True)


def print_refused(place: str, problems: "Iterable[Problem]") -> None:
    """Print a refused line with every reason."""
    click.secho(f"{printable(place)} refused", fg="red", err=True)
    for problem in problems:
        click.echo(printable(f"  {problem.pointer or 'the line'}  {problem.message}"), err=True)
        click.echo(printable(f"    {problem.hint}"), err=True)


def inputs(names: tuple[str, ...]) -> tuple[str, ...]:
    """The named inputs; standard input when none was named and something is piped in."""
    if not names and sys.stdin.isatty():
        raise click.UsageError("name a file, or pipe lines in; see --help for examples")
    return names or ("-",)


def count(number: int, word: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
