"""What the verbs share: opening inputs, JSON lines, progress on a terminal."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import click

BIG = 8 * 1024 * 1024
"""From this size on, reading a file shows its progress."""


class Unreadable(click.ClickException):
    """An input that cannot be read."""

    exit_code = 2


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """The input of that name, `-` being standard input; with a progress bar when it is big."""
    if name == "-":
        yield sys.stdin.buffer
        return
    path = Path(name)
    try:
        if path.is_dir():
            raise Unreadable(f"{name} is a directory; name the files in it: {name}/*.jsonl")
        with path.open("rb") as file, _watched(file, path) as watched:
            yield watched
    except FileNotFoundError:
        raise Unreadable(f"{name} is not there; check the name") from None
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {error.strerror}") from None


def _watched(file: BinaryIO, path: Path) -> AbstractContextManager[BinaryIO]:
    size = os.fstat(file.fileno()).st_size
    if size < BIG or not sys.stderr.isatty() or sys.stdout.isatty():
        return nullcontext(file)
    from rich.console import Console  # noqa: PLC0415  # slow to import, seldom needed
    from rich.progress import wrap_file  # noqa: PLC0415

    return wrap_file(file, size, description=path.name, console=Console(stderr=True))


def put_json(value: Any) -> None:
    """One JSON object on a line of its own."""
    import orjson  # noqa: PLC0415  # slow to import, not needed by every verb

    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE))


def inputs(names: tuple[str, ...]) -> tuple[str, ...]:
    """The inputs that were named; standard input when none was and something is piped in."""
    if not names and sys.stdin.isatty():
        raise click.UsageError("name a file, or pipe lines in; see --help for examples")
    return names or ("-",)


def count(number: int, word: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
