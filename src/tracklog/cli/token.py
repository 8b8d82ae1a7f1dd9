"""`tracklog token`: tokens with a role for the clients of a collector."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home, _options
from tracklog.cli import _terminal as terminal
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    from tracklog.home.home import Home
    from tracklog.web.tokens import Token, Tokens

RUN = ("tracklog", "tokens")
"""The run in which changes of tokens are recorded."""
_ROLES = """\b
Roles:
  write    send events, and wait for the answers to questions; nothing else can be read
  read     ask questions, watch, export
  operate  read, and answer agents, mark runs, start and stop runs
  admin    everything"""
_EXAMPLES = """\b
Examples:
  tracklog token create ci --role write --expires 90d
  tracklog token create dashboards --role read
  tracklog token create team-a --role write --run-prefix team-a-
  tracklog token list
  tracklog token revoke 1f3a9c20"""


@click.group(epilog=f"{_ROLES}\n\n{_EXAMPLES}")
def command() -> None:
    """Make, list and revoke tokens with a role.

    As soon as there is a token, a collector on this record asks every client for one, also on this
    machine. A collector that is running sees the change with the next request.
    """


@command.command(epilog=_EXAMPLES)
@click.argument("name")
@_home.home_option
@click.option(
    "--role",
    required=True,
    type=click.Choice(["write", "read", "operate", "admin"]),
    help="What it may do.",
)
@click.option(
    "--expires", type=_options.Age(), metavar="TIME", help="After this time, such as 90d."
)
@click.option("--run-prefix", metavar="TEXT", help="Only for runs whose id begins so.")
@click.option("--by", default=None, help="The name of the person.  [default: the user's name]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def create(
    name: str,
    home: Path,
    role: str,
    expires: float | None,
    run_prefix: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Make a token called NAME, and print it; it is not shown again."""
    if not name.isprintable() or not 0 < len(name) <= 256:
        raise TracklogError(f"{name!r} cannot be the name of a token", "1 to 256 characters")
    with _home.writing(home) as opened:
        tokens = _tokens(opened)
        with opened.storage.leases() as leases:
            leases.take("tokens", None)
            token, text = tokens.create(name, role, seconds=expires, run_prefix=run_prefix)
        _record(opened, "created", token, by)
    if as_json:
        terminal.put_json({"id": token.id, "token": text, **_row(token, "active")})
    else:
        click.echo(text)
        until = f", until {token.expires}" if token.expires else ""
        click.echo(terminal.plain(f"{token.id} {name}: {role}{until}"), err=True)


@command.command("list", epilog=_EXAMPLES)
@_home.read_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def list_(home: Path, as_json: bool) -> None:
    """List the tokens: id, name, role and state; never the tokens themselves."""
    with _home.reading(home) as opened:
        tokens = _tokens(opened).all()
    if not tokens:
        click.echo("there is no token; `tracklog token create NAME` makes one", err=True)
    for token in tokens:
        state = token.state(_home.now())
        if as_json:
            terminal.put_json(_row(token, state))
        else:
            runs = f", runs {token.run_prefix}…" if token.run_prefix else ""
            until = f", until {token.expires}" if token.expires else ""
            click.echo(
                terminal.plain(f"{token.id} {token.name}: {token.role}{runs}{until}, {state}")
            )


@command.command(epilog=_EXAMPLES)
@click.argument("id")
@_home.home_option
@click.option("--by", default=None, help="The name of the person.  [default: the user's name]")
def revoke(id: str, home: Path, by: str | None) -> None:
    """End the token with this ID at once."""
    _home.reading(home).close()
    with _home.writing(home) as opened:
        with opened.storage.leases() as leases:
            leases.take("tokens", None)
            token = _tokens(opened).revoke(id)
        _record(opened, "revoked", token, by)
    click.echo(terminal.plain(f"{token.id} {token.name} is revoked"))


def _tokens(home: "Home") -> "Tokens":
    from tracklog.web.tokens import FILE, Tokens

    return Tokens(home.path / FILE)


def _row(token: "Token", state: str) -> dict[str, str | None]:
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "run_prefix": token.run_prefix,
        "created": token.created,
        "expires": token.expires,
        "revoked": token.revoked,
        "state": state,
    }


def _record(home: "Home", what: str, token: "Token", by: str | None) -> None:
    """Record a change of a token, with who made it."""
    from tracklog.model.fact import Noted

    data = {"token": token.id, "name": token.name, "role": token.role}
    data |= {"change": what, "by": by or _home.user_name()}
    home.record_fact(RUN, Noted(label="token", data=data))
