"""The OpenWOP host: clients discover workflows, run them, follow, answer, replay and fork."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tracklog.hosts import Host

if TYPE_CHECKING:
    from tracklog import Log
    from tracklog.hosts import Mounted
    from tracklog.web.guard import Guard


def _mount(
    journal: "Log", guard: "Guard", environment: Mapping[str, str], place: Path | None
) -> "Mounted":
    from tracklog.hosts.openwop.mounted import mount  # noqa: PLC0415  # slow to import

    return mount(journal, guard, environment, place)


def _end(journal: "Log", run: str, by: str) -> int:
    from tracklog.hosts.openwop.runlog import ask_to_end  # noqa: PLC0415  # slow to import

    return ask_to_end(journal, run, by)


def _answered_elsewhere(journal: "Log", run: str) -> str | None:
    from tracklog.hosts.openwop.runlog import answered_by_key  # noqa: PLC0415  # slow to import

    return answered_by_key(journal, run)


host = Host(
    name="openwop",
    about="Run OpenWOP workflows over HTTP: discover, run, stream, answer, cancel, replay, fork.",
    mount=_mount,
    family="openwop",
    end=_end,
    answered_elsewhere=_answered_elsewhere,
)
