"""`tracklog token`: tokens with a role for the clients of a collector."""

from pathlib import Path

import click

from tracklog.cli import _home, _options
from tracklog.cli import _terminal as terminal

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

    As soon as there is a token, a collector on this journal asks every client for one, also on this
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
    "--expires", type=_options.Age(), metavar="TIME", help="It ends after this time, such as 90d."
)
@click.option("--run-prefix", metavar="TEXT", help="Only for runs whose id begins with this text.")
@click.option(
    "--by", default=None, help="The name of the person; the user's name is recorded, too."
)
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
    from tracklog.web import token_changes

    with _home.writing(home) as opened:
        token, text = token_changes.create(
            opened,
            name,
            role,
            by=_home.name_of(by),
            seconds=expires,
            run_prefix=run_prefix,
        )
    if as_json:
        terminal.put_json({"token": text, **token_changes.row_of(token, token.created)})
    else:
        click.echo(text)
        until = f", until {token.expires}" if token.expires else ""
        click.echo(terminal.printable(f"{token.id} {name}: {role}{until}"), err=True)


@command.command("list", epilog=_EXAMPLES)
@_home.read_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def list_(home: Path, as_json: bool) -> None:
    """List the tokens: id, name, role and state; never the tokens themselves."""
    from tracklog.web.token_changes import row_of, tokens_of

    with _home.reading(home) as opened:
        tokens = tokens_of(opened).all()
    if not tokens:
        click.echo("there is no token; `tracklog token create NAME` makes one", err=True)
    for token in tokens:
        row = row_of(token, _home.now())
        if as_json:
            terminal.put_json(row)
        else:
            runs = f", runs {token.run_prefix}…" if token.run_prefix else ""
            until = f", until {token.expires}" if token.expires else ""
            click.echo(
                terminal.printable(
                    f"{token.id} {token.name}: {token.role}{runs}{until}, {row['state']}"
                )
            )


@command.command(epilog=_EXAMPLES)
@click.argument("id")
@_home.home_option
@click.option(
    "--by", default=None, help="The name of the person; the user's name is recorded, too."
)
def revoke(id: str, home: Path, by: str | None) -> None:
    """End the token with this ID at once."""
    from tracklog.web import token_changes

    _home.reading(home).close()
    with _home.writing(home) as opened:
        token = token_changes.revoke(opened, id, by=_home.name_of(by))
    click.echo(terminal.printable(f"{token.id} {token.name} is revoked"))
