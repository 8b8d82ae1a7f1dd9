"""Options of all hosts for runs from a tape, and the report afterwards."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracklog.cli._terminal import print_error, printable

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
            help="For a call that is not in the recorded run: stop with an error, or really make it.",
        ),
        click.option(
            "--by",
            type=click.Choice(["order", "match"]),
            default="order",
            show_default=True,
            help="Take the recorded answers in their order, or those to the same question.",
        ),
        click.option(
            "--tape",
            metavar="RUN",
            help="Take all answers from this recorded run; no model or tool is called.",
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
        click.echo(printable(text), err=True)
    return "first" in report or bool(report["unconsumed"])
