"""Programs that run agents and record them in one dialect; one file or folder per program.

To write another: a file here that ends with `host = Host(name=..., about=...)`.
A host writes its own dialect through the one door, `Home.intake.admit`, and keeps nothing that
matters anywhere else: its state is a fold of its own events, so that whoever starts it again after
it was killed finds the run where its last record left it.
While it works on a run it holds the run's lease (`Leases`), so that two hosts on one journal do
not run one run twice.
Who wants a run to end, or speaks on its stage, puts that into the journal (`end`, `say`): whichever
process carries the run out hears it there.
The folder is the registry; an outside package offers its `Host` under `tracklog.hosts`.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tracklog.home.plugs import Registry
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    import click
    from starlette.types import Receive, Scope, Send

    from tracklog.home.home import Home
    from tracklog.journal.frame import Run
    from tracklog.recording.tape import By, OnMiss
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
    by: "By" = "order"
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
    mount: "Callable[[Home, Guard, Mapping[str, str], Path | None], Mounted] | None" = None
    """For `tracklog serve --with NAME[=PATH]`; the mapping is the environment, the path leads to
    what the host is to offer."""
    family: str = ""
    """Of the runs that it carries out."""
    end: "Callable[[Home, str, str], int] | None" = None
    """Asks for the end of a run in somebody's name: the number of the record that says so."""
    say: "Callable[[Home, str, str, str | None], int] | None" = None
    """Says something on the stage of a run, under a label: the number of the record."""


_hosts: Registry[Host] = Registry(__name__, Host)
host, host_names = _hosts.get, _hosts.names


class _Table:
    """One process's hold on a file of leases: the kernel knows a process, and not who in it."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.users = 0
        self.held: set[int] = set()
        self.mutex = threading.Lock()


_TABLES: dict[Path, _Table] = {}
_OPENING = threading.Lock()


class Leases:
    """Who works on which run, over all processes of a home; a process that dies holds none.

    Each run is one byte of one file, and its lease a lock on that byte: the kernel lets go of it
    with the process, however that ends, and no clock has to be believed.
    """

    def __init__(self, home: Path) -> None:
        folder = home / "hosts"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder.resolve() / "leases"
        with _OPENING:
            # Once in a process: to close any descriptor of a file lets go of all its locks.
            if self._path not in _TABLES:
                _TABLES[self._path] = _Table(self._path)
            self._table = _TABLES[self._path]
            self._table.users += 1
        self._mine: set[int] = set()
        self._closed = False

    def take(self, run: "Run") -> bool:
        """Whether the run is ours to work on from now on; it is not while anybody holds it."""
        at, table = _place(run), self._table
        with table.mutex:
            if self._closed or at in table.held:
                return False
            try:
                fcntl.lockf(table.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)
            except (BlockingIOError, PermissionError):  # POSIX has two words for it
                return False
            table.held.add(at)
            self._mine.add(at)
            return True

    def release(self, run: "Run") -> None:
        """Lets go of a run, if it is ours."""
        at, table = _place(run), self._table
        with table.mutex:
            if at in self._mine:
                fcntl.lockf(table.fd, fcntl.LOCK_UN, 1, at)
                table.held.discard(at)
                self._mine.discard(at)

    def close(self) -> None:
        """Lets go of everything that is ours; may be called twice."""
        table = self._table
        with _OPENING, table.mutex:
            if self._closed:
                return
            self._closed = True
            for at in self._mine:
                fcntl.lockf(table.fd, fcntl.LOCK_UN, 1, at)
            table.held -= self._mine
            self._mine.clear()
            table.users -= 1
            if not table.users:
                del _TABLES[self._path]
                os.close(table.fd)


def _place(run: "Run") -> int:
    """The byte that stands for a run; that two runs share one is as good as impossible."""
    return int.from_bytes(sha256("\0".join(run).encode()).digest()[:8]) >> 2
