"""The home that a verb works on: --home, else TRACKLOG_HOME, else the user's own."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from tracklog.cli import _terminal as terminal
from tracklog.cli._progress import progress_bar
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    from tracklog.cli._table import Names
    from tracklog.home.home import Home
    from tracklog.index.indexer import Progress
    from tracklog.model.event import Finding

DEFAULT = "~/.local/share/tracklog"
DEMO_HOME = "~/.local/share/tracklog-demo"
DEMO = "tracklog.demo"
MANY = 20_000
"""From so many records on, catching up shows its progress."""
LOOKED_OVER = 16 << 20
"""Bytes of a journal that are verified whenever it is written to from the command line."""
BEHIND_DAMAGE = "what is recorded now is kept behind it; `tracklog doctor` says what to do"
MOST_COMPLETED = 200
"""Names that a shell is offered."""
DURABILITIES = ("sync", "interval", "lifecycle", "os")

F = TypeVar("F", bound=Callable[..., Any])


def read_option(verb: F) -> F:
    """The options of a verb that reads a record: your own, or that of the demo."""
    return home_option(
        click.option(
            "--demo",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_choose_demo,
            help="Look at what `tracklog demo` (or `make run`) recorded.",
        )(verb)
    )


def _choose_demo(context: click.Context, _option: click.Parameter, chosen: bool) -> None:
    if chosen:
        context.meta[DEMO] = True


def same_record(hint: str) -> str:
    """A hint whose commands read the same record: with `--demo` where that was given."""
    context = click.get_current_context(silent=True)
    if context is None or not context.meta.get(DEMO):
        return hint
    root = context.find_root()

    def with_demo(found: re.Match[str]) -> str:
        assert isinstance(root.command, click.Group)
        verb = root.command.get_command(root, found[1])
        reads = verb is not None and any("--demo" in each.opts for each in verb.params)
        return f"`tracklog {found[1]}{found[2]} --demo`" if reads else found[0]

    return _COMMAND.sub(with_demo, hint)


_COMMAND = re.compile(r"`tracklog ([a-z-]+)([^`]*)`")


def _chosen(context: click.Context, _option: click.Parameter, path: Path) -> Path:
    if not context.meta.get(DEMO):
        return expanded(path)
    if context.get_parameter_source("home") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--demo and --home name two places; give one of them", context)
    return expanded(Path(DEMO_HOME))


def home_option(verb: F) -> F:
    """The option that says where the record is kept."""
    return click.option(
        "--home",
        envvar="TRACKLOG_HOME",
        default=DEFAULT,
        show_default=True,
        show_envvar=True,
        metavar="DIR",
        type=click.Path(path_type=Path),
        callback=_chosen,
        help="Where the record is kept.",
    )(verb)


def expanded(path: Path) -> Path:
    """A path in full; `~` is the user's home directory."""
    scheme, colon, place = str(path).partition(":")
    if scheme == "file" and place:
        path = Path(place)
    elif colon and path.parts[0] == f"{scheme}:":
        raise click.BadParameter(
            f"{path} is not on this machine's disk: name a folder or a file: URL (./{path} for a "
            "folder of that name)"
        )
    try:
        return path.expanduser()
    except RuntimeError:
        raise click.BadParameter(
            f"there is no home directory for {path.parts[0]}; write the path in full"
        ) from None


def run_argument(name: str = "run", *, required: bool = True) -> Callable[[F], F]:
    """The argument that names a run; a shell can complete it."""

    def add(verb: F) -> F:
        return click.argument(name, required=required, shell_complete=_runs)(verb)

    return add


def _runs(ctx: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """The runs whose names begin so; nothing where there is no home, for a shell asks silently."""
    path = DEMO_HOME if ctx.meta.get(DEMO) else ctx.params.get("home")
    path = path or os.environ.get("TRACKLOG_HOME") or DEFAULT
    try:
        with reading(expanded(Path(path))) as home:
            runs = home.runs()
    except (TracklogError, click.ClickException, OSError):
        return []
    names = {run for _, run in runs} | {":".join(run) for run in runs}
    found = sorted(name for name in names if name.startswith(begun) and name.isprintable())
    return found[:MOST_COMPLETED]


def lost_option(verb: F) -> F:
    """The option that says how long a run that works may be silent."""
    return click.option(
        "--lost-after",
        type=click.FloatRange(min=0, min_open=True),
        default=900,
        show_default=True,
        metavar="SECONDS",
        help="A run that works and is silent for longer is lost.",
    )(verb)


def reading(home: Path) -> "Home":
    """A home to be read; one that is not there is said to be so."""
    from tracklog.home.home import Home
    from tracklog.journal.segments import check_format

    if not _is_there(home):
        check_format(home)
        demo = expanded(Path(DEMO_HOME))
        look = "--demo looks at the demo" if _is_there(demo) and home != demo else ""
        raise TracklogError(
            f"nothing is recorded at {home}",
            f"{look or '`tracklog demo` shows a made-up fleet'}; `tracklog import` brings in what "
            "agents left on disk, `tracklog record` keeps lines; --home or TRACKLOG_HOME names "
            "another place",
        )
    return Home(home, readonly=True)


def _is_there(home: Path) -> bool:
    return (home / "journal").is_dir()


@contextmanager
def asking(home: Path) -> "Iterator[Home]":
    """A home whose index has caught up; what is to be said about that is said."""
    with reading(home) as opened:
        with progress_bar("indexing", MANY) as progress:
            tell(_caught_up(opened, progress))
        yield opened


def _caught_up(home: "Home", progress: "Progress") -> "list[Finding]":
    """Brings the index up to date; where that fails, as on a full disk, what it knows has to do."""
    from tracklog.index.indexer import BEHIND
    from tracklog.model.errors import IndexUnusable
    from tracklog.model.event import Finding

    try:
        return home.index.catch_up(progress)
    except IndexUnusable as error:
        known = home.index.known
        if known is None:
            raise
        message = f"{error.message}; this is as of record {known} of {home.journal.last}"
        return [Finding(BEHIND, f"{message}; {error.hint}")]


def names(home: "Home") -> "Names":
    """How the runs of a home are called."""
    from tracklog.cli._table import Names

    return Names(home.runs())


def now() -> str:
    """The time, as records are stamped."""
    import time

    from tracklog.journal.frame import stamp

    return stamp(time.time())


def ago(seconds: float | None) -> str | None:
    """The time that many seconds ago; None stands for ever."""
    import time

    from tracklog.journal.frame import stamp

    return None if seconds is None else stamp(time.time() - seconds)


def tell(findings: "Iterable[Finding]") -> None:
    """Says what was surprising, where it does not mix with the answer."""
    for finding in findings:
        said = terminal.plain(f"{finding.name}: {finding.message}")
        click.secho(said, fg="yellow", err=True)


def writing(home: Path, **options: Any) -> "Home":
    """A home to be written to; what was surprising about opening it is said."""
    from tracklog.home.home import Home

    opened = Home(home, **options)
    tell(opened.store.findings)
    warn_of_damage(home)
    return opened


def serving(home: Path, **options: Any) -> "Home":
    """A home that a server writes to; what was surprising about opening it is logged."""
    from tracklog.home.home import Home
    from tracklog.web import logs

    opened = Home(home, **options)
    for finding in opened.store.findings:
        logs.say("warning", finding.message, finding=finding.name)
    if damage := damage_of(home):
        logs.say("warning", damage, hint=BEHIND_DAMAGE)
    return opened


def warn_of_damage(home: Path) -> None:
    """Prints a warning on standard error if a small journal was changed after it was recorded."""
    if damage := damage_of(home):
        click.secho(f"warning: {damage}", fg="yellow", err=True)
        click.echo(f"  {BEHIND_DAMAGE}", err=True)


def damage_of(home: Path) -> str | None:
    """What was changed in a journal after it was recorded, if it is small enough to look."""
    from tracklog.journal.verify import verify

    size = sum(path.stat().st_size for path in (home / "journal").glob("*.jsonl"))
    faults = verify(home).faults if size <= LOOKED_OVER else []
    more = f", and {len(faults) - 1:,} more" if len(faults) > 1 else ""
    return f"the journal is damaged: {faults[0]}{more}" if faults else None


def redacting(redact: bool) -> dict[str, Any]:
    """What a home is opened with, so that secrets are taken out at its door."""
    if not redact:
        return {}
    from tracklog.intake import secrets

    return {"redact": secrets.redact}
