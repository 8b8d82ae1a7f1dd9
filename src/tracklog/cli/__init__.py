"""The command line: one verb per file, each a thin call to the library.

To write another: a file here named after the verb, with a click command called `command`.
What is slow to import is imported inside it, so that `tracklog --version` stays fast.
"""

import os
import sys
from importlib import import_module
from pkgutil import iter_modules

import click

from tracklog import __version__
from tracklog.errors import TracklogError

USAGE = 2


class Verbs(click.Group):
    """The verbs of the folder, each read when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return sorted(
            module.name.replace("_", "-")
            for module in iter_modules(__path__)
            if not module.name.startswith("_")
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from difflib import get_close_matches  # noqa: PLC0415  # only when it went wrong

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean `tracklog {near[0]}`?" if near else "see `tracklog --help`"
            raise click.UsageError(f"there is no verb {args[0]!r}; {hint}", ctx) from None


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`tracklog VERB --help` shows examples.",
)
@click.version_option(__version__, message="tracklog %(version)s")
def tracklog() -> None:
    """A flight recorder for agent fleets."""


def main() -> None:
    """Run the command line; exit codes are stable: 0 fine, 1 bad input found, 2 usage or I/O."""
    try:
        code = tracklog.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        error.show()
        code = USAGE
    except TracklogError as error:
        click.secho(f"error: {error.message}", fg="red", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
        code = USAGE
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except BrokenPipeError:
        # The reader went away, as `head` does; nothing is wrong on our side.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code if isinstance(code, int) else 0)
