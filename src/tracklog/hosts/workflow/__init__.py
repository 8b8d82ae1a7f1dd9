"""A runner of workflows: agents, commands and tools in the steps of a YAML file, all on record."""

from typing import TYPE_CHECKING

from tracklog.hosts import Host

if TYPE_CHECKING:
    import click


def _command() -> "click.Command":
    from tracklog.hosts.workflow.command import command  # noqa: PLC0415  # slow to import

    return command


host = Host(
    name="workflow",
    about="Runs the steps of a YAML file: agents, commands, tools, loops and other workflows.",
    command=_command,
)
