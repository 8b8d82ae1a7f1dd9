"""Hints about lines whose dialect was recognised, where that is not certain."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.dialects.recognition import Hints
    from tracklog.intake.intake import Intake


def of_lines(dialect: str | None) -> "Hints":
    """The hints for lines that are read as this dialect; none where it was given."""
    from tracklog.dialects.recognition import Hints
    from tracklog.home import registry

    return Hints([] if dialect else registry.dialects())


def due_hint(hints: "Hints", dialect: str | None, run: str | None) -> str | None:
    """The hint that is due for a line, which is also written to stderr."""
    hint = hints.of(dialect, run)
    if hint:
        click.echo(f"hint: {terminal.printable(hint)}", err=True)
    return hint


def look_ahead(intake: "Intake", name: str) -> None:
    """Learn from the later lines of a file what its first lines are."""
    from tracklog.model.lines import split

    if not terminal.is_file(name):
        return
    with (
        suppress(OSError),
        Path(name).open("rb") as file,
    ):  # errors are reported when it is read
        intake.recogniser.look_ahead(line.data for line in split(file, intake.cap))
