"""Programs that run agents and record them in one dialect; one file or folder per program.

To write another: a file here that ends with `host = Host(name=..., about=...)`.
A host writes its own dialect through the one door, `Log.intake.admit`, and keeps nothing that
matters anywhere else: its state is a fold of its own events, so that whoever starts it again after
it was killed finds the run where its last record left it.
While it works on a run it holds the run's lease (`Leases`), so that two hosts on one journal do
not run one run twice.
Who wants a run to end, or speaks on its stage, puts that into the journal (`end`, `say`): whichever
process carries the run out hears it there.
The folder is the registry; an outside package offers its `Host` under `tracklog.hosts`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tracklog import Registry, TracklogError

if TYPE_CHECKING:
    import click
    from starlette.types import Receive, Scope, Send

    from tracklog import Log, OnMiss, ServeBy
    from tracklog.web.guard import Guard


class RunOver(TracklogError):
    """The run has ended, and nobody carries it out any more."""


class NotBegun(TracklogError):
    """A run could not be begun; nothing of it was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Something that a host can run."""

    name: str
    about: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What it is given, by name, with its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A run that somebody wants begun."""

    program: str | None = None
    """By its name, as `programs` lists it."""
    body: Any = None
    """Or the program itself, where the host takes one from whoever asks."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    seed: str | None = None
    tape: "TapeOptions | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TapeOptions:
    """A recorded run whose answers are served again; see `tracklog.tape`."""

    run: str
    by: "ServeBy" = "order"
    miss: "OnMiss" = "error"


class Mounted(Protocol):
    """A host inside a collector: it begins runs."""

    def programs(self) -> list[Program]:
        """What can be begun here by name."""

    async def begin(self, wanted: Wanted) -> str:
        """Begins a run, and returns its id once its first record is kept; `NotBegun`."""

    async def start(self) -> None:
        """Takes up what was left unfinished; called once, in the server's loop."""

    async def stop(self) -> None:
        """Lets go of what is under way, so that it can be taken up again."""


@runtime_checkable
class Answering(Mounted, Protocol):
    """One that answers paths of its own, too."""

    def claims(self, path: str) -> bool:
        """Whether that path is the host's own to answer."""

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One program that runs agents."""

    name: str
    about: str
    """One sentence for `tracklog host --help`."""
    command: "Callable[[], click.Command] | None" = None
    """Makes `tracklog host NAME` for a host of an outside package; called when it is asked for.
    The commands of our own hosts stand in `cli/_hosts`."""
    mount: "Callable[[Log, Guard, Mapping[str, str], Path | None], Mounted] | None" = None
    """For `tracklog serve --with NAME[=PATH]`; the mapping is the environment, the path leads to
    what the host is to offer."""
    family: str = ""
    """Of the runs that it carries out."""
    end: "Callable[[Log, str, str], int] | None" = None
    """Asks for the end of a run in somebody's name: the number of the record that says so."""
    say: "Callable[[Log, str, str, str | None], int] | None" = None
    """Says something on the stage of a run, under a label: the number of the record."""


_hosts: Registry[Host] = Registry(__name__, Host)
host, host_names = _hosts.get, _hosts.names
