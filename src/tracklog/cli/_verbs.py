"""A command with subcommands, one of which is the default."""

import json
from typing import Any

import click


class VerbGroup(click.Group):
    """Runs its default subcommand unless another is named; `alone` also without arguments."""

    def __init__(self, *args: Any, usual: str = "", alone: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.usual, self.alone = usual, alone

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Each subcommand with its complete first sentence; click would cut it."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, verb.get_short_help_str(1000)) for name, verb in self.commands.items()]
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if (self.alone and not args) or (
            args and args[0] not in {*self.commands, *ctx.help_option_names}
        ):
            args = [self.usual, *args]
        return super().parse_args(ctx, args)


def given(word: str) -> tuple[str, Any]:
    """The values of `--input KEY=VALUE`: JSON, or else text."""
    key, equals, value = word.partition("=")
    if not equals:
        raise click.UsageError(f"--input {word}: write KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
