"""fishbowl: plays a scenario, a cast of agents on a stage, and everything that they say is kept.

`scenario` and `manifest` are what is written, `conductor` decides what happens next, `state` is
the fold that it decides by, `agents` take their turns, `judge` and `governor` hold them to the
rules, `finale` says who won, `offline` and `endpoint` are the models.
"""

from typing import TYPE_CHECKING

from tracklog.hosts import Host

if TYPE_CHECKING:
    import click


def _command() -> "click.Command":
    from tracklog.hosts.fishbowl.shell import command  # noqa: PLC0415  # when it is asked for

    return command


host = Host(
    name="fishbowl",
    about="Play a scenario: a cast of agents, a judge who may rule, a visitor who may interfere.",
    command=_command,
)
