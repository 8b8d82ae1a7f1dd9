"""`tracklog completion`: the completion script of a shell."""

import click
from click.shell_completion import get_completion_class


@click.command(
    epilog="""\b
Examples:
  eval "$(tracklog completion bash)"
  tracklog completion fish > ~/.config/fish/completions/tracklog.fish""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    kind = get_completion_class(shell)
    assert kind is not None, "the choices above are click's own"
    root = ctx.find_root().command
    click.echo(kind(root, {}, "tracklog", "_TRACKLOG_COMPLETE").source())
