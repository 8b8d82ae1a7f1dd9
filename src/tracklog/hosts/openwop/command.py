"""`tracklog host openwop`, and the host inside a collector."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home
from tracklog.errors import TracklogError

if TYPE_CHECKING:
    from tracklog.collector.guard import Guard
    from tracklog.home import Home
    from tracklog.hosts import Mounted


@click.command()
@_home.home_option
def command(home: str) -> None:
    """Serve workflows to OpenWOP clients until Ctrl-C."""
    raise TracklogError(f"{home}: nothing runs here yet", "this host is being built")


def mount(home: "Home", guard: "Guard", environment: Mapping[str, str]) -> "Mounted":
    """The host as a part of a collector."""
    raise TracklogError(f"{home} {guard} {environment}", "this host is being built")
