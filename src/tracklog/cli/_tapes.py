"""Options of all hosts for runs from a tape, and the report afterwards."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracklog.cli._terminal import plain, print_error

if TYPE_CHECKING:
    from tracklog.recording.tape import TapeReport

F = TypeVar("F", bound=Callable[..., Any])


def tape_options(verb: F) -> F:
    """Answer from a recorded run."""
    for option in (
        click.option(
            "--on-miss",
            type=click.Choice(["error", "live"]),
            default="error",
            show_default=True,
            help="What to do with a call that the tape does not have.",
        ),
        click.option(
            "--by",
            type=click.Choice(["order", "match"]),
            default="order",
            show_default=True,
            help="How the answers of the tape are looked up.",
        ),
        click.option(
            "--tape",
            metavar="RUN",
            help="Answer from a recorded run instead of calling models and tools.",
        ),
    ):
        verb = option(verb)
    return verb


def print_report(report: "TapeReport") -> bool:
    """Print where a run differs from its tape; returns whether it does."""
    if "first" in report:
        print_error(
            f"the run differs from its tape: {report['first']}", "`tracklog diff` shows both runs"
        )
    for rest in report["unconsumed"]:
        text = f"not used: {rest['kind']} {rest['lane'] or ''} (record {rest['seq']})"
        click.echo(plain(text), err=True)
    return "first" in report or bool(report["unconsumed"])
