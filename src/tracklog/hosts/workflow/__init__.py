"""The workflow host: runs the agents, commands and tools of a YAML file, and records them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tracklog.hosts import Host

if TYPE_CHECKING:
    from tracklog import Log
    from tracklog.hosts import Mounted
    from tracklog.web.guard import Guard

FAMILY = "awf"
"""The dialect of its events, and the family of its runs."""


def _mount(
    journal: "Log",
    _guard: "Guard",
    _environment: Mapping[str, str],
    place: Path | None,
) -> "Mounted":
    from tracklog.hosts.workflow.mounted import Runner  # noqa: PLC0415  # slow to import

    return Runner(journal, place)


def _end(journal: "Log", run: str, by: str) -> int:
    from tracklog.hosts.workflow.run_records import ask_to_end  # noqa: PLC0415  # slow to import

    return ask_to_end(journal, run, by)


host = Host(
    name="workflow",
    about="Run the steps of a YAML file: agents, commands, tools, loops and other workflows.",
    mount=_mount,
    family=FAMILY,
    end=_end,
)
