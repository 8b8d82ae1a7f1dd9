"""A verb with verbs of its own, one of which need not be said."""

import json
from typing import Any

import click


class Verbs(click.Group):
    """Does its usual thing, unless another verb is said first; `alone` also when nothing is said."""

    def __init__(self, *args: Any, usual: str = "", alone: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.usual, self.alone = usual, alone

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Each verb with the whole of its first sentence; click would cut it."""
        with formatter.section("Verbs"):
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
    """What `--input KEY=VALUE` says: JSON, or else text."""
    key, equals, value = word.partition("=")
    if not equals:
        raise click.UsageError(f"--input {word}: write KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
