"""The journal of a command: the database of --store, else the folder of --home.

TRACKLOG_STORE and TRACKLOG_HOME name them too; the user's default is a folder.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from tracklog.cli import _terminal as terminal
from tracklog.cli._progress import progress_bar
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    from tracklog.cli._table import RunNames
    from tracklog.home.home import Home
    from tracklog.index.indexer import Progress
    from tracklog.intake.intake import Redact
    from tracklog.journal.merkle import Head
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

STORE = "tracklog.store"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class RemoteStore:
    """A journal in a database: its URL, and a folder of this machine for caches and transcripts.

    If each shard has a database of its own, these are their URLs, with spaces between them.
    """

    url: str
    folder: Path

    def __str__(self) -> str:
        return re.sub(r"//([^/@:]*):[^/@]*@", r"//\1@", self.url)

    def of_tenant(self, name: str) -> "RemoteStore":
        """The record of a tenant in the same database."""
        urls = (f"{each}{'&' if '?' in each else '?'}tenant={name}" for each in self.url.split())
        return RemoteStore(" ".join(urls), self.folder)

    @property
    def stores(self) -> Path:
        """The folder for the caches of databases."""
        return self.folder / "stores"


Place = Path | RemoteStore
"""Where a journal is."""


def read_option(verb: F) -> F:
    """The options of a verb that reads a journal: the user's own, or that of the demo."""
    return home_option(
        click.option(
            "--demo",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_choose_demo,
            help="Read the journal of `tracklog demo` (or `make run`).",
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


_SHARD = re.compile(r"([?&])shard=[0-9]+&?")
_COMMAND = re.compile(r"`tracklog ([a-z-]+)([^`]*)`")


def _chosen(context: click.Context, _option: click.Parameter, path: Path) -> Place:
    store = context.meta.get(STORE)
    if not context.meta.get(DEMO):
        return stored_at(store, expanded(path)) if store else expanded(path)
    if store and context.get_parameter_source(STORE) is not ParameterSource.ENVIRONMENT:
        raise click.UsageError("--demo and --store name two places; give one of them", context)
    if context.get_parameter_source("home") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--demo and --home name two places; give one of them", context)
    return expanded(Path(DEMO_HOME))


def stored_at(url: str, folder: Path) -> Place:
    """The place of a URL; a folder where it is a `file:` URL or a path."""
    scheme, colon, _ = url.partition(":")
    if not colon or scheme == "file" or "/" in scheme:
        return expanded(Path(url))
    return RemoteStore(url, folder)


class StoreURL(click.ParamType[str]):
    """The URL of a store; in a variable of the environment there may be several."""

    name = "URL"

    def split_envvar_value(self, rv: str) -> list[str]:
        """As it is: a `file:` URL may contain spaces."""
        return [rv]


def _choose_store(context: click.Context, option: click.Parameter, urls: tuple[str, ...]) -> None:
    if url := " ".join(filter(None, urls)):
        if len(urls) > 1 and not all(each.startswith("postgresql:") for each in urls):
            raise click.UsageError(
                "--store is given once; several are the databases of a journal's shards", context
            )
        context.meta[STORE] = url
        context.set_parameter_source(STORE, context.get_parameter_source(option.name or ""))  # type: ignore[arg-type]  # it has one


def home_option(verb: F) -> F:
    """The options for the place of the journal: a folder, or the URL of a database."""
    verb = click.option(
        "--store",
        envvar="TRACKLOG_STORE",
        show_envvar=True,
        metavar="URL",
        type=StoreURL(),
        multiple=True,
        is_eager=True,
        expose_value=False,
        callback=_choose_store,
        help="The database of the journal, instead of a folder: postgresql://user@host/database. May "
        "be repeated, if each shard has a database of its own.",
    )(verb)
    return click.option(
        "--home",
        envvar="TRACKLOG_HOME",
        default=DEFAULT,
        show_default=True,
        show_envvar=True,
        metavar="DIR",
        type=click.Path(path_type=Path),
        callback=_chosen,
        help="The folder of the journal: the home.",
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


def run_argument(
    name: str = "run", *, required: bool = True, many: bool = False
) -> Callable[[F], F]:
    """The argument for a run, or for several; a shell can complete it."""

    def add(verb: F) -> F:
        return click.argument(
            name,
            required=required,
            shell_complete=_runs,
            nargs=-1 if many else 1,
            metavar="RUN..." if many else None,
        )(verb)

    return add


def _runs(ctx: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """The runs with this prefix; nothing where there is no home, because a shell must get no
    errors.
    """
    store = ctx.meta.get(STORE) or os.environ.get("TRACKLOG_STORE")
    path = DEMO_HOME if ctx.meta.get(DEMO) else ctx.params.get("home")
    if isinstance(path, RemoteStore):
        path = path.folder
    path = expanded(Path(path or os.environ.get("TRACKLOG_HOME") or DEFAULT))
    try:
        with reading(stored_at(store, path) if store and not ctx.meta.get(DEMO) else path) as home:
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
        help="A working run without an event for this time is lost.",
    )(verb)


def local(place: Place, instead: str) -> Path:
    """The folder of the journal; an error where it is a database, with what to do instead."""
    if isinstance(place, RemoteStore):
        raise TracklogError(f"this works on a folder, and the journal is at {place}", instead)
    return place


def folder_of(place: Place) -> Path:
    """The folder of this machine for what does not belong into a database."""
    return place.folder if isinstance(place, RemoteStore) else place


def url_and_folders(place: Place) -> tuple[Path | str, Path | None]:
    """What opens a journal: its folder, or its URL and the folder for the caches of databases."""
    return (place.url, place.stores) if isinstance(place, RemoteStore) else (place, None)


def opened(place: Place, **options: Any) -> "Home":
    """The journal at a place."""
    from tracklog.home.home import Home

    url, folders = url_and_folders(place)
    return Home(url, folders=folders, **options)


def reading(home: Place) -> "Home":
    """Open a journal for reading; an error where there is none."""
    from tracklog.journal.segments import check_format

    if isinstance(home, RemoteStore):
        return opened(home, readonly=True)
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
    return opened(home, readonly=True)


def _is_there(home: Path) -> bool:
    return (home / "journal").is_dir()


@contextmanager
def asking(home: Place) -> "Iterator[Home]":
    """A home whose index is up to date; warnings are printed."""
    with reading(home) as read:
        with progress_bar("indexing", MANY) as progress:
            report(_caught_up(read, progress))
        yield read


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


def names(home: "Home") -> "RunNames":
    """The names of the runs of a home, whose index is up to date."""
    from tracklog.cli._table import RunNames

    families = {dialect.family for dialect in home.dialects.values()}
    return RunNames(lambda prefix, limit: home.index.keys("runs", prefix, limit), families)


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
        text = terminal.printable(f"{finding.name}: {finding.message}")
        click.secho(text, fg="yellow", err=True)


def report_copy(target: str, heads: "Sequence[Head]", *, as_json: bool) -> None:
    """Say that a copy is verified, with the end of its chain, or with that of each shard."""
    if as_json:
        one = str(heads[0]) if len(heads) == 1 else ""
        terminal.put_json({"target": target, "head": one, "heads": list(map(str, heads))})
        return
    for n, head in enumerate(heads):
        of = f" shard {n}:" if len(heads) > 1 else ""
        click.echo(terminal.printable(f"{target}:{of} proven, head {head}"))


def writing(home: Place, **options: Any) -> "Home":
    """Open a journal for writing; findings raised while opening are printed."""
    written = opened(home, **options)
    report(written.store.findings)
    warn_of_damage(home)
    return written


def record_act(home: Place, label: str, **data: "str | int | list[str] | None") -> None:
    """Record what this user does with the journal as a whole.

    Such an act changes no record: where the journal cannot be written, it is carried out all the
    same, and the user is warned that it is not recorded.
    """
    from tracklog.home.home import act
    from tracklog.journal.segments import check_format

    problem = ""
    if isinstance(home, RemoteStore):  # of a record with shards, the whole
        home = replace(home, url=_SHARD.sub(r"\1", home.url).rstrip("?&"))
    try:
        if isinstance(home, Path) and check_format(home) == 1:
            problem = "the home has format 1, and is not converted for this"
        else:
            with opened(home) as written:
                written.record_act(act(label, user_name(), **data))
    except (TracklogError, OSError) as error:
        problem = str(error)
    if problem:
        text = terminal.printable(f"warning: this is not recorded: {problem}")
        click.secho(text, fg="yellow", err=True)


def serving(home: Place, **options: Any) -> "Home":
    """A home that a server writes to; warnings from opening it go to the log."""
    from tracklog.web import logs

    served = opened(home, **options)
    for finding in served.store.findings:
        logs.log("warning", finding.message, finding=finding.name)
    if damage := damage_of(home):
        logs.log("warning", damage, hint=BEHIND_DAMAGE)
    return served


def warn_of_damage(home: Place) -> None:
    """Prints a warning on standard error if a small journal was changed after it was recorded."""
    if damage := damage_of(home):
        click.secho(f"warning: {damage}", fg="yellow", err=True)
        click.echo(f"  {BEHIND_DAMAGE}", err=True)


def damage_of(home: Place) -> str | None:
    """The damage in a journal, if it is in a folder and small enough to verify."""
    from tracklog.journal.verify import verify

    if isinstance(home, RemoteStore):
        return None

    size = sum(path.stat().st_size for path in (home / "journal").glob("*.jsonl"))
    faults = verify(home).faults if size <= LOOKED_OVER else []
    more = f", and {len(faults) - 1:,} more" if len(faults) > 1 else ""
    return f"the journal is damaged: {faults[0]}{more}" if faults else None


def redaction(wanted: bool) -> "Redact | None":
    """The function that redacts secrets at intake, if it is wanted."""
    if not wanted:
        return None
    from tracklog.intake import secrets

    return secrets.redact


def user_name() -> str:
    """The name of the person at this terminal, for the record of what an operator did.

    The system says it, not the environment, which anybody can set.
    """
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a user that has no name
        return f"user {os.getuid()}"


def name_of(typed: str | None) -> str:
    """The name under which an act is recorded: a typed one does not hide whose terminal it was."""
    own = user_name()
    return own if typed in (None, "", own) else f"{typed} ({own})"
