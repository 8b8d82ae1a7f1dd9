"""Options that several commands have."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tracklog.cli import _home, _names

F = TypeVar("F", bound=Callable[..., Any])
UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
OLDEST = 100 * 365 * 86400
"""Seconds; nothing here is a hundred years old."""


class Age(click.ParamType[float]):
    """A length of time: 30d, 12h."""

    name = "age"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = re.fullmatch(r"([0-9]+)([mhdw])", str(value))
        if match is None:
            self.fail(f"{value!r} is no age; write 30d, 12h, 90m or 8w", param, ctx)
        seconds = int(match[1]) * UNITS[match[2]]
        if seconds > OLDEST:
            self.fail(
                f"{value!r} is longer than any record exists; write 30d, 12h or 8w", param, ctx
            )
        return float(seconds)


def dialect_option(verb: F) -> F:
    return click.option(
        "--dialect",
        metavar="NAME",
        shell_complete=_names.of("dialects"),
        help="Read every line as this dialect.",
    )(verb)


def durability_option(verb: F) -> F:
    return click.option(
        "--durability",
        type=click.Choice(_home.DURABILITIES),
        default="sync",
        show_default=True,
        help="What an accepted line survives: all of them a killed process, `sync` also a power "
        "failure; docs/promises.md has the details.",
    )(verb)


def hot_option(verb: F) -> F:
    return click.option(
        "--hot",
        type=Age(),
        metavar="AGE",
        help="Move records that are older than this, such as 7d, from PostgreSQL to the archive; "
        "they are then read from there.",
    )(verb)


def redact_option(verb: F) -> F:
    help = "Redact secrets, with a note in the journal."
    return click.option("--redact", is_flag=True, help=help)(verb)


def max_line_option(verb: F) -> F:
    return click.option(
        "--max-line",
        type=click.IntRange(min=1),
        metavar="BYTES",
        help="The length of the longest line that is accepted; 16 MiB by default.",
    )(verb)


def listen_options(port: int) -> Callable[[F], F]:
    """The address of a server, and its port."""

    def add(verb: F) -> F:
        verb = click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="0 for any free port.",
        )(verb)
        return click.option(
            "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
        )(verb)

    return add


def publish_options(verb: F) -> F:
    """Where checkpoints are published."""
    verb = click.option(
        "--witness",
        "witnesses",
        multiple=True,
        metavar="URL",
        help="Send checkpoints to this witness, which signs them; may be repeated.",
    )(verb)
    return click.option(
        "--publish",
        "places",
        multiple=True,
        metavar="PLACE",
        help="Publish checkpoints to this file, git:CLONE, http(s):// URL (by PUT) or "
        "s3://bucket/prefix; may be repeated.",
    )(verb)


def published_to(places: tuple[str, ...], witnesses: tuple[str, ...]) -> list[str]:
    """The URLs of publishers."""
    return [*places, *(f"witness:{url}" for url in witnesses)]


def loss_options(verb: F) -> F:
    """The file that a run is written to, and what to do with fields that would be lost."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="The report as one JSON object."),
        click.option("--report", is_flag=True, help="Report what happens to each field."),
        click.option(
            "--strict", is_flag=True, help="Write nothing if any value would be lost or made up."
        ),
        click.option(
            "-o",
            "--output",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Write to this file.",
        ),
    ):
        verb = option(verb)
    return verb
