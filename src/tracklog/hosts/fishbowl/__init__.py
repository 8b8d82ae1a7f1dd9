"""The fishbowl host: plays a scenario, a cast of agents on a stage, and records every event.

`scenario` and `manifest` read the files, `state` computes the state of a run from its events,
`conductor` decides by it what happens next, `agents` asks a player for its turn, `judge` and
`governor` check verdicts and limits, `finale` names the winner, `offline` and `endpoint` are the
models.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tracklog.hosts import Host

if TYPE_CHECKING:
    from tracklog import Log
    from tracklog.hosts import Mounted
    from tracklog.web.guard import Guard

FAMILY = "fishbowl"
"""The dialect of its events, and the family of its runs."""


def _mount(
    journal: "Log",
    _guard: "Guard",
    _environment: Mapping[str, str],
    place: Path | None,
) -> "Mounted":
    from tracklog.hosts.fishbowl.mounted import PlayStarter  # noqa: PLC0415  # slow to import

    return PlayStarter(journal, place)


def _end(journal: "Log", run: str, by: str) -> int:
    from tracklog.hosts.fishbowl import show  # noqa: PLC0415  # slow to import

    return show.stop(journal, run, by)


def _inject(journal: "Log", run: str, text: str, label: str | None, by: str) -> int:
    from tracklog.hosts.fishbowl import show  # noqa: PLC0415  # slow to import

    return show.inject(journal, run, text, label, by)


host = Host(
    name="fishbowl",
    about="Play a scenario: agents talk on a stage, a judge may decide, a visitor may speak.",
    mount=_mount,
    family=FAMILY,
    end=_end,
    inject=_inject,
)
