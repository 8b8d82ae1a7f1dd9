"""`tracklog host`: run agents and record what they do."""

from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tracklog.hosts import Host


def _command_of(host: "Host") -> click.Command:
    """The command of an outside package, or ours from the folder `hosts`."""
    if host.command is not None:
        return host.command()
    command: click.Command = import_module(f"tracklog.cli._hosts.{host.name}").command
    return command


class Hosts(click.Group):
    """The hosts of the folder, each imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        from tracklog.hosts import host_names

        return host_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from tracklog.hosts import host

        if cmd_name not in self.list_commands(ctx):
            return None
        command = _command_of(host(cmd_name))
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each host with its own sentence."""
        from tracklog.hosts import host

        with formatter.section("Hosts"):
            formatter.write_dl([(name, host(name).about) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            known = ", ".join(self.list_commands(ctx))
            raise click.UsageError(
                f"there is no host {args[0]!r}; the hosts are: {known}", ctx
            ) from None


@click.group(
    name="host",
    cls=Hosts,
    subcommand_metavar="NAME [ARGS]...",
    epilog="""\b
Examples:
  tracklog host fishbowl heist.yaml
  tracklog host workflow review.yaml
  tracklog host openwop --port 4400

\b
`tracklog host NAME --help` shows the commands of a host.""",
)
def command() -> None:
    """Run agents with one of the hosts; everything they do is recorded."""
