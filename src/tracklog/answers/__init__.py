"""One question per file: what the command line, the HTTP API and other programs can ask.

To add a question: a file here, named after it, with a function that returns a frozen dataclass or
a list of them, and `question = Question(...)`. The verb of the command line with `--json`, the HTTP
route, its schema in the OpenAPI document and the reference pages are made of that.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from tracklog.folds import LOST_AFTER as LOST_AFTER
from tracklog.folds import epoch_ms
from tracklog.journal.frame import stamp
from tracklog.model.errors import NoSuchRun

if TYPE_CHECKING:
    from tracklog.home.home import Home

WINDOWS: Mapping[str, float | None] = {"1h": 3600, "24h": 86_400, "7d": 604_800, "all": None}
"""How far back a question looks, in seconds."""
JsonValue = object
"""Any JSON, as its emitter wrote it."""
Arguments = Mapping[str, Any]
"""The values of a question's parameters by name; each has the kind that its `Param` declares."""
NO_RUN = "There is no such run."


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A parameter of a question: an option of its verb, and a part of the query of its route."""

    name: str
    about: str
    kind: Literal["string", "integer", "number", "boolean"] = "string"
    default: Any = None
    least: float | None = None
    most: float | None = None
    options: tuple[str, ...] = ()
    required: bool = False
    many: bool = False
    """It takes several values and may be repeated; in a query, options may be cut by commas."""
    run: bool = False
    """It names a run: an argument of the verb, which a shell completes."""
    keyword: str = ""
    """The argument of the function, where it has another name."""

    @property
    def argument(self) -> str:
        """The name of the argument of the function that answers."""
        return self.keyword or self.name


def text(name: str, about: str, **more: Any) -> Param:
    return Param(name=name, about=about, **more)


def flag(name: str, about: str) -> Param:
    return Param(name=name, about=about, kind="boolean", default=False)


def integer(name: str, about: str, *, least: int, **more: Any) -> Param:
    return Param(name=name, about=about, kind="integer", least=least, **more)


def one_of(name: str, about: str, options: Iterable[str], **more: Any) -> Param:
    return Param(name=name, about=about, options=tuple(options), **more)


def run_param(about: str = "The run: its id, the beginning of it, or `family:run`.") -> Param:
    return Param(name="run", about=about, run=True, required=True)


def limit(default: int) -> Param:
    return integer("limit", "Show at most this many.", least=1, most=10_000, default=default)


def after(rows: str) -> Param:
    about = f"Skip this many {rows} at the beginning of the list."
    return integer("after", about, least=0, default=0)


def newest(default: int) -> Param:
    return integer(
        "newest",
        "Choose only from this many runs, those that were recorded last.",
        least=1,
        default=default,
    )


LOST = Param(
    name="lost_after",
    about="A working run without an event for this many seconds is lost.",
    kind="number",
    least=0.001,
    most=10**9,
    default=LOST_AFTER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What can be asked: its name, a sentence about it, its parameters, and the function that answers."""

    name: str
    about: str
    """The first sentence is the title."""
    ask: Callable[..., Any]
    """Takes a home and the parameters by name; its return type is the type of the answer."""
    params: tuple[Param, ...] = ()
    paths: tuple[str, ...] | None = None
    """Its HTTP routes, `/api/NAME` if None; a route may hold `{family}/{run}` for its run."""
    refusals: Mapping[int, str] = field(default_factory=dict)
    """What HTTP statuses other than 200 mean here."""
    fresh: bool = True
    """It waits until the index has caught up with the journal."""
    examples: tuple[str, ...] = ()
    """Command lines for the help of its verb."""

    @property
    def routes(self) -> tuple[str, ...]:
        return (f"/api/{self.name}",) if self.paths is None else self.paths

    @property
    def result(self) -> Any:
        """The type of the answer: a dataclass, or a list of one."""
        return get_type_hints(self.ask)["return"]

    @property
    def row(self) -> type | None:
        """The dataclass of a row, where the answer is a list."""
        return get_args(self.result)[0] if get_origin(self.result) is list else None


def now_of(home: "Home", now: str | None = None) -> str:
    """The time of an answer: the given one, else that of the home's clock."""
    return stamp(home.clock()) if now is None else now


def since(home: "Home", window: str | None, now: str | None = None) -> str | None:
    """When a window began; None where it has no beginning."""
    seconds = WINDOWS[window or "all"]
    end = epoch_ms(now_of(home, now)) or 0
    return None if seconds is None else stamp(end / 1000 - seconds)


def key_of(home: "Home", run: str) -> str:
    """The key of a run that the index knows; else `NoSuchRun`."""
    if ":" in run and home.index.state("runs", run).run:
        return run  # the complete name: the journal need not be read
    key = ":".join(home.run(run))
    if not home.index.state("runs", key).run:
        raise NoSuchRun(f"there is no run {key!r} here", "`tracklog runs` lists what is there")
    return key
