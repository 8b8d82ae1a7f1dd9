"""`tracklog host NAME`: the commands of our hosts, one file each."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home

if TYPE_CHECKING:
    from tracklog import Log


def record_stop(home: Path, run: str, ask: "Callable[[Log, str, str], int]") -> None:
    """Record the request of this user to end a run; its host reads it there."""
    from tracklog import Log

    _home.reading(home).close()
    with _home.writing(home) as opened:
        named = opened.run(run)[1]
        click.echo(f"recorded as {ask(Log(opened), named, _home.user_name())}")
