"""What all runs of one host share, and how a run or a step can end."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tracklog import StepStatus, Tape, TracklogError
from tracklog.hosts.workflow import router
from tracklog.hosts.workflow.audit import Audit
from tracklog.hosts.workflow.display import Display
from tracklog.hosts.workflow.flow import Loaded
from tracklog.hosts.workflow.loading import load


class StepFailed(TracklogError):
    """A step failed, so the block or the run that contains it fails, too."""

    def __init__(self, message: str, status: StepStatus = "failed") -> None:
        super().__init__(message)
        self.status: StepStatus = status


class Terminal(Exception):
    """A terminal step was reached: the run ends here."""

    def __init__(self, outcome: "RunOutcome") -> None:
        super().__init__(outcome.status)
        self.outcome = outcome


class RunOutcome(NamedTuple):
    """How a run ended."""

    status: StepStatus
    result: Any = None
    error: str | None = None


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(slots=True, kw_only=True)
class HostContext:
    """What all runs of one host share."""

    display: Display
    audit: Audit
    environment: Mapping[str, str]
    storage: Path
    """The folder that contains `transcripts`."""
    new_id: Callable[[], str] = _new_id
    opened: Callable[[str, str], None] = lambda _run, _workflow: None
    """Called with each run before its first line is written."""
    tape_of: Callable[[str], Tape | None] = lambda _run: None
    """The tape of a recorded sub-run, by its recorded id."""
    tapes: list[Tape] = field(default_factory=list)


def tools_of(loaded: Loaded) -> dict[str, router.Function]:
    """Every tool that a workflow may use."""
    own = {
        name: router.load_function(loaded.path.parent, at) for name, at in loaded.flow.tools.items()
    }
    return {**router.TOOLS, **router.entry_point_functions("tools"), **own}


def read(path: Path) -> Loaded:
    """The workflow of a file, checked with the tools and kinds that are installed."""
    return load(
        path,
        [*router.TOOLS, *router.entry_point_functions("tools")],
        router.entry_point_functions("steps"),
    )


def fingerprint(inputs: Mapping[str, Any]) -> str:
    return sha256(orjson.dumps(dict(inputs), option=orjson.OPT_SORT_KEYS)).hexdigest()
