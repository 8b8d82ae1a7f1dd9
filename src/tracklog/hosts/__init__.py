"""Programs that run agents and record them in one dialect; one file or folder per program.

To write another: a file here that ends with `host = Host(name=..., about=...)`; an outside package
offers its `Host` under the entry point group `tracklog.hosts`. `docs/how-to/add-a-host.md` shows how.
A host appends events of its own dialect with `Log.admit`, and stores its state nowhere else: the
state is computed from its events, so a host that was killed continues after its last record. While
it works on a run it holds the lease of the run (`Log.lease`), so that two hosts on one journal do
not execute the same run.
A request to end a run, or a remark of a visitor, is recorded in the journal (`end`, `inject`); the
process that executes the run reads it there.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tracklog import Registry, TracklogError

if TYPE_CHECKING:
    import click
    from starlette.types import Receive, Scope, Send

    from tracklog import Log, OnMiss, ServeBy
    from tracklog.web.guard import Guard


Announce = Callable[[str], Awaitable[None]]


class RunOver(TracklogError):
    """The run has ended."""


class NotBegun(TracklogError):
    """A run could not be started, and nothing of it was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Something that a host can run."""

    name: str
    about: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Its inputs by name, with their default values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request to start a run."""

    program: str | None = None
    """The name of a program that `programs` lists."""
    body: Any = None
    """Or the program itself, where the host accepts one in a request."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    seed: str | None = None
    tape: "TapeOptions | None" = None
    announce: "Announce | None" = None
    """To be awaited with the id of the run before it begins: who asked for it is recorded then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TapeOptions:
    """A recorded run whose answers are used again; see `tracklog.Tape`."""

    run: str
    by: "ServeBy" = "order"
    miss: "OnMiss" = "error"


class Mounted(Protocol):
    """A host inside a collector: it starts runs."""

    def programs(self) -> list[Program]:
        """The programs that can be started by name."""

    async def begin(self, wanted: Wanted) -> str:
        """Start a run, and return its id once its first event is recorded; raises `NotBegun`."""

    async def start(self) -> None:
        """Continue unfinished runs; called once, in the server's event loop."""

    async def stop(self) -> None:
        """Stop the runs, so that they can be continued later."""


@runtime_checkable
class Answering(Mounted, Protocol):
    """A mounted host that also answers paths of its own."""

    def claims(self, path: str) -> bool:
        """Whether the host answers this path."""

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None: ...


@runtime_checkable
class Keyed(Mounted, Protocol):
    """A mounted host that always asks for a key, also where the collector has no token."""

    made_key: str | None
    """The key that was made for this start, because the operator had set none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One program that runs agents."""

    name: str
    about: str
    """One sentence for `tracklog host --help`."""
    command: "Callable[[], click.Command] | None" = None
    """Makes `tracklog host NAME` for a host of another package; called when the command is used.
    The commands of our own hosts are in `cli/_hosts`."""
    mount: "Callable[[Log, Guard, Mapping[str, str], Path | None], Mounted] | None" = None
    """For `tracklog serve --with NAME[=PATH]`. The mapping is the environment; the path leads to the
    programs of the host."""
    family: str = ""
    """The family of its runs."""
    end: "Callable[[Log, str, str], int] | None" = None
    """Record the request of a person to end a run; returns the number of the record."""
    answered_elsewhere: "Callable[[Log, str], str | None] | None" = None
    """Where the open question of a run is answered, if the console and the command line cannot."""
    inject: "Callable[[Log, str, str, str | None, str], int] | None" = None
    """Record a remark in a run, with a label and who made it; returns the number of the record."""


_hosts: Registry[Host] = Registry(__name__, Host)
host, host_names = _hosts.get, _hosts.names
