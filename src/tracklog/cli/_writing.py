"""Write the output of a command: a file that is complete or absent, or standard output."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.formats.loss import LossReport, LossRow

SHOWN = 40
"""How many rows of a report are shown to a person."""


def put(parts: Iterable[bytes], path: Path | None, *, at_once: bool = False) -> None:
    """Write the parts, each flushed on request; a file gets its name when it is complete.

    A device or a link is written to directly and not replaced.
    """
    if path is None:
        terminal.put_parts(parts, at_once=at_once)
        sys.stdout.buffer.flush()
        return
    if path.is_symlink() or (path.exists() and not path.is_file()):
        with path.open("wb") as file:
            file.writelines(parts)
        return
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            file.writelines(parts)
        os.replace(unfinished, path)  # noqa: PTH105  # the same, without a second path object
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # the requested name
        unfinished.unlink(missing_ok=True)
        raise


def print_losses(report: "LossReport", *, as_json: bool, err: bool) -> None:
    """Print the loss report to stderr, so that it does not mix with the output."""
    if as_json:
        stream = sys.stderr if err else sys.stdout
        stream.flush()
        stream.buffer.write(terminal.for_stream(stream, terminal.json_line(report.as_json())))
        stream.buffer.flush()
        return
    totals = report.totals()
    click.echo(", ".join(f"{number:,} {fate}" for fate, number in totals.items()), err=err)
    lost = [row for row in report.rows() if row["dropped"] or row["synthesised"]]
    for row in lost[:SHOWN]:
        click.echo(f"  {_row(row)}", err=err)
    if len(lost) > SHOWN:
        click.echo(f"  and {len(lost) - SHOWN:,} more; --json shows all", err=err)


def _row(row: "LossRow") -> str:
    times = {"dropped": row["dropped"], "synthesised": row["synthesised"]}
    fates = [f"{number:,} {fate}" for fate, number in times.items() if number]
    place = click.style(terminal.printable(f"{row['kind']}  {row['field']}"), bold=True)
    return f"{place}  {', '.join(fates)}"


def refuse(report: "LossReport", *, as_json: bool) -> None:
    """Exit with the list of losses, before anything is written."""
    terminal.print_error(
        "nothing was written: something would be lost",
        "leave --strict out to write it anyway",
    )
    print_losses(report, as_json=as_json, err=True)
    sys.exit(1)
