"""`tracklog serve`: the collector."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    import socket

    from tracklog.collector.app import Collector


@click.command(
    epilog="""\b
Examples:
  tracklog serve
  tracklog serve --home ./record --port 4400
  tracklog serve --with fishbowl=examples/fishbowl --with workflow=examples/workflow
  curl -H 'Content-Type: application/x-ndjson' --data-binary @flight.jsonl \\
    http://127.0.0.1:4318/api/events/kahn-agent
  curl -N http://127.0.0.1:4318/api/stream?after=0

\b
The token is read from TRACKLOG_TOKEN, or from the file that TRACKLOG_TOKEN_FILE names.
Where there is one, every client must send it, also on this machine. A server that other
machines can reach must have one, with at least 16 characters.""",
)
@_home.home_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=4318,
    show_default=True,
    help="0 for any free port.",
)
@click.option(
    "--durability",
    type=click.Choice(_home.DURABILITIES),
    default="sync",
    show_default=True,
    help="What a response guarantees: see docs/promises.md.",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Another host name under which clients reach this machine.",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="The largest request, decompressed.  [default: 64 MiB]",
)
@click.option(
    "--max-line",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="The length of the longest line that is accepted.",
)
@click.option(
    "--max-rate",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Events per second, over all clients; 0 for no limit.",
)
@click.option("--redact", is_flag=True, help="Redact secrets, with a note in the record.")
@click.option(
    "--archive",
    metavar="PLACE",
    help="Copy records to this folder or s3://bucket/prefix, seconds after they are stored.",
)
@click.option(
    "--with",
    "hosts",
    multiple=True,
    metavar="HOST[=PATH]",
    help="A host whose runs clients can start, and the path of its files; may be repeated.",
)
def command(
    home: Path,
    host: str,
    port: int,
    durability: Any,
    allow_host: tuple[str, ...],
    max_body: int | None,
    max_line: int | None,
    max_rate: int,
    redact: bool,
    archive: str | None,
    hosts: tuple[str, ...],
) -> None:
    """Receive lines, store them, show them live and answer questions, until Ctrl-C."""
    from tracklog.collector import server
    from tracklog.collector.app import Collector
    from tracklog.hosts import Keyed
    from tracklog.web import guard, logs
    from tracklog.web.limits import Limits

    for name in allow_host:
        if "/" in name:
            raise TracklogError(
                f"{name!r} is not the name of a machine",
                "for example --allow-host recorder.example",
            )
    token = token_for(host)
    usual = Limits()
    limits = Limits(
        events_per_second=max_rate, body=max_body or usual.body, line=max_line or usual.line
    )
    with server.listen(host, port) as bound:
        home_options = {
            "durability": durability,
            "cap": limits.line,
            "redact": _home.redaction(redact),
        }
        opened = _home.serving(home, **home_options)
        collector = Collector(opened, limits=limits, guard=guard.Guard(token, (*allow_host, host)))
        if archive:
            collector.archive(archive)
        for name in hosts:
            _mount(collector, name)
        where = url_of(bound)

        def ready() -> None:
            click.echo(f"tracklog is at {where} and keeps its record in {home}")
            for name, mounted in collector.hosts.items():
                if isinstance(mounted, Keyed) and mounted.made_key:
                    click.echo(f"the key of {name} is {mounted.made_key}")
            logs.log("info", "listening", url=where, home=str(home), durability=durability)

        server.serve(collector, bound, ready)


def token_for(host: str) -> str | None:
    """The token to require; a server that other machines can reach must have one."""
    from tracklog.web import guard

    token = token_of()
    if token is None and not guard.is_loopback(host):
        raise TracklogError(
            f"{host} can be reached from other machines, and there is no token",
            "set TRACKLOG_TOKEN or TRACKLOG_TOKEN_FILE, or listen on 127.0.0.1",
        )
    return long_enough(token, host)


def long_enough(token: str | None, host: str) -> str | None:
    """The token; refused where other machines can reach us and it is short."""
    from tracklog.web import guard

    if token is not None and len(token) < guard.SHORTEST and not guard.is_loopback(host):
        raise TracklogError(
            f"{host} can be reached from other machines, and the token has {len(token)} characters",
            f"it needs {guard.SHORTEST} at least: set {_A_TOKEN}",
        )
    return token


def url_of(bound: "socket.socket") -> str:
    """The URL for a browser."""
    address, taken = bound.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{taken}"


def _mount(collector: "Collector", word: str) -> None:
    from tracklog import Log, hosts

    name, _, place = word.partition("=")
    path = _home.expanded(Path(place)) if place else None
    if path is not None and not path.exists():
        raise TracklogError(f"{path} does not exist", f"name what {name} is to offer")
    plug = hosts.host(name)
    if plug.mount is None:
        raise TracklogError(
            f"the host {name!r} has nothing to serve", f"start it by itself: `tracklog host {name}`"
        )
    collector.hosts[name] = plug.mount(Log(collector.home), collector.guard, os.environ, path)


def token_of() -> str | None:
    """The token from the environment or from a file, never from the arguments, which other users
    can see.
    """
    path = os.environ.get("TRACKLOG_TOKEN_FILE")
    token = _token_in(_home.expanded(Path(path))) if path else os.environ.get("TRACKLOG_TOKEN")
    if token is None:
        return None
    token = token.strip()
    if not token:
        raise TracklogError("the token is empty", f"set {_A_TOKEN}, or unset it")
    if not re.fullmatch(r"[!-~]+", token, re.ASCII):
        raise TracklogError(
            "the token contains characters that no client can send: a space, a line end, or non-ASCII",
            f"set {_A_TOKEN}",
        )
    return token


_A_TOKEN = "TRACKLOG_TOKEN to a long random word, as `openssl rand -hex 32` makes it"  # noqa: S105  # a hint


def _token_in(path: Path) -> str:
    from tracklog.web import logs

    try:
        token = path.read_text(errors="replace")
        mode = path.stat().st_mode
    except OSError as error:
        raise TracklogError(
            f"the token cannot be read from {path}: {error.strerror or error}",
            "TRACKLOG_TOKEN_FILE must name a file that contains the token",
        ) from None
    if mode & 0o077:
        logs.log("warning", "others may read the token", hint=f"chmod 600 {path}")
    return token
