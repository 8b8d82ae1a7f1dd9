"""The home of a command: --home, else TRACKLOG_HOME, else the user's default."""

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
"""From this many records on, catching up shows its progress."""
LOOKED_OVER = 16 << 20
"""Bytes of a journal that are verified whenever the command line writes to it."""
BEHIND_DAMAGE = "new records are appended after it; `tracklog doctor` shows what to do"
MOST_COMPLETED = 200
"""How many names are offered for completion."""
DURABILITIES = ("sync", "interval", "lifecycle", "os")

F = TypeVar("F", bound=Callable[..., Any])


def read_option(verb: F) -> F:
    """The options of a verb that reads a record: the user's own, or that of the demo."""
    return home_option(
        click.option(
            "--demo",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_choose_demo,
            help="Read the record of `tracklog demo` (or `make run`).",
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

    def with_demo(match: re.Match[str]) -> str:
        assert isinstance(root.command, click.Group)
        verb = root.command.get_command(root, match[1])
        reads = verb is not None and any("--demo" in each.opts for each in verb.params)
        return f"`tracklog {match[1]}{match[2]} --demo`" if reads else match[0]

    return _COMMAND.sub(with_demo, hint)


_COMMAND = re.compile(r"`tracklog ([a-z-]+)([^`]*)`")


def _chosen(context: click.Context, _option: click.Parameter, path: Path) -> Path:
    if not context.meta.get(DEMO):
        return expanded(path)
    if context.get_parameter_source("home") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--demo and --home name two places; give one of them", context)
    return expanded(Path(DEMO_HOME))


def home_option(verb: F) -> F:
    """The option for the folder of the record."""
    return click.option(
        "--home",
        envvar="TRACKLOG_HOME",
        default=DEFAULT,
        show_default=True,
        show_envvar=True,
        metavar="DIR",
        type=click.Path(path_type=Path),
        callback=_chosen,
        help="The folder of the record.",
    )(verb)


def expanded(path: Path) -> Path:
    """A complete path; `~` is the user's home directory."""
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
    """The argument for a run; a shell can complete it."""

    def add(verb: F) -> F:
        return click.argument(name, required=required, shell_complete=_runs)(verb)

    return add


def _runs(ctx: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """The runs with this prefix; nothing where there is no home, because a shell must get no
    errors.
    """
    path = DEMO_HOME if ctx.meta.get(DEMO) else ctx.params.get("home")
    path = path or os.environ.get("TRACKLOG_HOME") or DEFAULT
    try:
        with reading(expanded(Path(path))) as home:
            runs = home.runs()
    except (TracklogError, click.ClickException, OSError):
        return []
    names = {run for _, run in runs} | {":".join(run) for run in runs}
    names_found = sorted(name for name in names if name.startswith(begun) and name.isprintable())
    return names_found[:MOST_COMPLETED]


def lost_option(verb: F) -> F:
    """The option for how long a working run may be silent."""
    return click.option(
        "--lost-after",
        type=click.FloatRange(min=0, min_open=True),
        default=900,
        show_default=True,
        metavar="SECONDS",
        help="A run that works and is silent for longer is lost.",
    )(verb)


def reading(home: Path) -> "Home":
    """Open a home for reading; an error where there is none."""
    from tracklog.home.home import Home
    from tracklog.journal.segments import check_format

    if not _is_there(home):
        check_format(home)
        demo = expanded(Path(DEMO_HOME))
        look = "--demo reads the demo" if _is_there(demo) and home != demo else ""
        raise TracklogError(
            f"nothing is recorded at {home}",
            f"{look or '`tracklog demo` shows a made-up fleet'}; `tracklog import` imports the logs that "
            "agents left on disk, `tracklog record` stores lines; --home or TRACKLOG_HOME names "
            "another place",
        )
    return Home(home, readonly=True)


def _is_there(home: Path) -> bool:
    return (home / "journal").is_dir()


@contextmanager
def asking(home: Path) -> "Iterator[Home]":
    """A home whose index is up to date; warnings are printed."""
    with reading(home) as opened:
        with progress_bar("indexing", MANY) as progress:
            report(_caught_up(opened, progress))
        yield opened


def _caught_up(home: "Home", progress: "Progress") -> "list[Finding]":
    """Bring the index up to date; where that fails, as on a full disk, use it as it is."""
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
    """The names of the runs of a home."""
    from tracklog.cli._table import Names

    return Names(home.runs())


def now() -> str:
    """The time, in the form of the records."""
    import time

    from tracklog.journal.frame import stamp

    return stamp(time.time())


def ago(seconds: float | None) -> str | None:
    """The time that many seconds ago; None for no limit."""
    import time

    from tracklog.journal.frame import stamp

    return None if seconds is None else stamp(time.time() - seconds)


def report(findings: "Iterable[Finding]") -> None:
    """Print warnings to stderr, so that they do not mix with the answer."""
    for finding in findings:
        text = terminal.plain(f"{finding.name}: {finding.message}")
        click.secho(text, fg="yellow", err=True)


def writing(home: Path, **options: Any) -> "Home":
    """Open a home for writing; findings raised while opening are printed."""
    from tracklog.home.home import Home

    opened = Home(home, **options)
    report(opened.store.findings)
    warn_of_damage(home)
    return opened


def serving(home: Path, **options: Any) -> "Home":
    """A home that a server writes to; what was surprising about opening it is logged."""
    from tracklog.home.home import Home
    from tracklog.web import logs

    opened = Home(home, **options)
    for finding in opened.store.findings:
        logs.log("warning", finding.message, finding=finding.name)
    if damage := damage_of(home):
        logs.log("warning", damage, hint=BEHIND_DAMAGE)
    return opened


def warn_of_damage(home: Path) -> None:
    """Prints a warning on standard error if a small journal was changed after it was recorded."""
    if damage := damage_of(home):
        click.secho(f"warning: {damage}", fg="yellow", err=True)
        click.echo(f"  {BEHIND_DAMAGE}", err=True)


def damage_of(home: Path) -> str | None:
    """The damage in a journal, if it is small enough to verify."""
    from tracklog.journal.verify import verify

    size = sum(path.stat().st_size for path in (home / "journal").glob("*.jsonl"))
    faults = verify(home).faults if size <= LOOKED_OVER else []
    more = f", and {len(faults) - 1:,} more" if len(faults) > 1 else ""
    return f"the journal is damaged: {faults[0]}{more}" if faults else None


def redacting(redact: bool) -> dict[str, Any]:
    """Options that redact secrets at intake."""
    if not redact:
        return {}
    from tracklog.intake import secrets

    return {"redact": secrets.redact}
