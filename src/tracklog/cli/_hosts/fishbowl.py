"""`tracklog host fishbowl`: play a scenario, speak in it, end it."""

import colorsys
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.cli._tapes import print_report, tape_options
from tracklog.cli._verbs import VerbGroup
from tracklog.model.event import Body

if TYPE_CHECKING:
    from tracklog.hosts.fishbowl.scenario import Scenario

COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
WIDEST = 100


@click.group(
    cls=VerbGroup,
    usual="play",
    subcommand_metavar="SCENARIO | play | inject | stop | check [ARGS]...",
    epilog="""\b
Examples:
  tracklog host fishbowl heist.yaml
  tracklog host fishbowl heist.yaml --fast --seed rain
  tracklog host fishbowl play heist.yaml --run heist-1     resumes heist-1
  tracklog host fishbowl heist.yaml --tape heist-1         again, with the recorded answers
  tracklog host fishbowl inject heist-1 'The lights go out.'
  tracklog host fishbowl stop heist-1
  tracklog host fishbowl check heist.yaml""",
)
def command() -> None:
    """Play a scenario: agents talk on a stage, a judge may decide, a visitor may speak.

    Players are scripted by default: no model is called, and the same seed gives the same play. A
    player whose model_endpoint is https://HOST/v1#MODEL uses that model server.
    """


@command.command(
    epilog="""\b
Examples:
  tracklog host fishbowl play heist.yaml
  tracklog host fishbowl play heist.yaml --fast --seed rain
  tracklog host fishbowl play heist.yaml --run heist-1      (resumes heist-1)

\b
Exit code: 0 it was played to its end, 1 it differs from the tape, 2 it cannot be played,
130 Ctrl-C, or somebody stopped it.""",
)
@click.argument("scenario", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_home.home_option
@click.option("--seed", metavar="TEXT", help="Use this seed instead of that of the scenario.")
@click.option("--run", metavar="RUN", help="The id of the run; an unfinished run is resumed.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="How fast texts appear; 2 is twice as fast.",
)
@click.option("--fast", is_flag=True, help="Print without pauses for reading.")
@click.option("--json", "as_json", is_flag=True, help="The events, one JSON object each.")
@tape_options
def play(
    scenario: Path,
    home: Path,
    seed: str | None,
    run: str | None,
    speed: float,
    fast: bool,
    as_json: bool,
    tape: str | None,
    by: Any,
    on_miss: Any,
) -> None:
    """Play SCENARIO; Ctrl-C ends the run, and that is recorded."""
    from tracklog import Log
    from tracklog.dialects.fishbowl import dialect
    from tracklog.home.home import act
    from tracklog.hosts._notes import put
    from tracklog.hosts.fishbowl import show
    from tracklog.hosts.fishbowl.governor import BudgetExceeded
    from tracklog.hosts.fishbowl.recorded_show import RecordedShow
    from tracklog.hosts.fishbowl.scenario import load
    from tracklog.model.errors import TapeMiss
    from tracklog.recording import tape as tapes

    piece = load(scenario)
    _print_ignored(piece)
    hues = {player.name: player.hue for player in piece.cast}
    watch = terminal.put_json if as_json else StagePrinter(hues).print

    def pause(body: Body) -> float:
        return 0.0 if fast else seconds_for(body) / speed

    with (
        _home.writing(home) as opened,
        show.conducting(
            Log(opened),
            piece,
            run,
            seed=seed,
            together=fast,
            watch=_flushing(watch),
            tape=(
                recorded := RecordedShow(Log(opened), tape, piece, by, on_miss) if tape else None
            ),
        ) as conductor,
        _interrupted(lambda: setattr(conductor, "stopping", True)),
    ):
        if conductor.done:
            raise click.ClickException(f"the run {conductor.run} has ended; name another --run")
        opened.record_act(act("start", _home.user_name(), host="fishbowl", run=conductor.run))
        if not as_json:
            text = f"the run is {conductor.run}; Ctrl-C ends it"
            click.secho(terminal.printable(text), dim=True, err=True)
        try:
            conductor.play(pause)
        except BudgetExceeded as bound:
            click.secho(terminal.printable(f"{bound.message}; {bound.hint}"), fg="yellow", err=True)
        except TapeMiss:
            pass  # the report shows it
        if recorded is not None:
            report = tapes.tape_report([recorded.tape])
            run_key = (dialect.family, conductor.run)
            put(Log(opened), run_key, tapes.TAPE_LABEL, {"source": tape, **report})
            if print_report(report):
                sys.exit(1)
        if (conductor.state.finished or {}).get("reason") == "user_stop":
            sys.exit(130)


@command.command(
    epilog="""\b
Examples:
  tracklog host fishbowl inject heist-1 'The lights go out.'""",
)
@click.argument("run")
@click.argument("text")
@_home.home_option
@click.option("--label", metavar="NAME", help="A label for the remark.")
def inject(run: str, text: str, home: Path, label: str | None) -> None:
    """Say TEXT in RUN, as a visitor; the agents can answer."""
    from tracklog import Log
    from tracklog.hosts.fishbowl import show

    _home.reading(home).close()
    with _home.writing(home) as opened:
        seq = show.inject(Log(opened), run, text, label, _home.user_name())
        click.echo(f"recorded as {seq}")


@command.command(
    epilog="""\b
Examples:
  tracklog host fishbowl stop heist-1""",
)
@click.argument("run")
@_home.home_option
def stop(run: str, home: Path) -> None:
    """End RUN before its next turn."""
    from tracklog import Log
    from tracklog.hosts.fishbowl import show

    _home.reading(home).close()
    with _home.writing(home) as opened:
        click.echo(f"recorded as {show.stop(Log(opened), run, _home.user_name())}")


@command.command(
    epilog="""\b
Examples:
  tracklog host fishbowl check heist.yaml""",
)
@click.argument(
    "scenarios",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
def check(scenarios: tuple[Path, ...]) -> None:
    """Check each scenario, and print every fault with its place."""
    from tracklog.hosts.fishbowl.scenario import BadScenario, load

    bad = False
    for path in scenarios:
        try:
            piece = load(path)
        except BadScenario as error:
            bad = True
            for fault in error.faults:
                click.echo(terminal.printable(str(fault)), err=True)
        else:
            contest = piece.competition.kind
            about = f"{len(piece.cast)} players, competition {contest}"
            click.echo(terminal.printable(f"{path}: {piece.name}, {about}"))
            _print_ignored(piece)
    if bad:
        sys.exit(1)


def _print_ignored(piece: "Scenario") -> None:
    for each in piece.ignored_settings:
        click.secho(terminal.printable(each), fg="yellow", err=True)


def seconds_for(body: Body) -> float:
    """The seconds that a person needs to read a text."""
    words = body.get("payload", {}).get("text")
    return 0.6 + 0.03 * min(len(words), 400) if isinstance(words, str) else 0.2


def _flushing(watch: Callable[[Body], None]) -> Callable[[Body], None]:
    def print_body(body: Body) -> None:
        watch(body)
        sys.stdout.flush()

    return print_body


@contextmanager
def _interrupted(end: Callable[[], object]) -> Iterator[None]:
    """The first Ctrl-C requests the end, the second one does not wait for it."""

    def asked(_number: int, _frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        end()

    before = signal.signal(signal.SIGINT, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class StagePrinter:
    """Prints the events of a play for a person."""

    def __init__(self, hues: dict[str, int | None]) -> None:
        names = list(hues)
        self._width = max(map(len, [*names, "visitor"]))
        self._colours: dict[str, str | tuple[int, int, int]] = {
            name: _rgb(hue) if hue is not None else COLOURS[n % len(COLOURS)]
            for n, (name, hue) in enumerate(hues.items())
        }

    def print(self, body: Body) -> None:
        kind, actor, payload = body["kind"], body["actor"], body["payload"]
        words = payload.get("text")
        words = " ".join(words.split()) if isinstance(words, str) else ""
        match kind:
            case "run.started":
                self._title(payload)
            case "run.finished":
                self._end(payload)
            case "world.observed":
                click.echo()
                self._paragraph("", words, italic=True)
                click.echo()
            case "judge.verdict":
                click.echo()
                self._paragraph(actor, f"⚖ {words}", bold=True)
                self._ruling(payload)
            case "user.injected":
                self._paragraph("visitor", f"» {words}", bold=True)
            case "agent.thought":
                self._paragraph(actor, f"({words})", dim=True)
            case "agent.reflected":
                self._paragraph(actor, f"believes: {words}", italic=True)
            case "agent.spoke":
                self._paragraph(actor, words)
            case _ if words:
                self._paragraph(actor, f"[{kind}] {words}")

    def _title(self, payload: Body) -> None:
        click.secho(terminal.printable(str(payload.get("scenario", ""))), bold=True)
        click.echo(
            terminal.printable(f"{payload.get('goal', '')}  (seed: {payload.get('seed', '')})")
        )

    def _ruling(self, payload: Body) -> None:
        if "accused" in payload:
            judgement = "and is right" if payload.get("correct") else "and is wrong"
            self._paragraph("", f"accuses {payload['accused']} {judgement}")
        for line in payload.get("reveal", ()):
            self._paragraph("", f"{line['agent']} was {line['role']}: {line['secret']}", dim=True)
        if payload.get("no_contest"):
            self._paragraph("", "no contest")

    def _end(self, payload: Body) -> None:
        winner = payload.get("winner")
        won = f"{winner} wins; " if winner else ""
        about = f"{payload.get('turns')} turns, {payload.get('tokens'):,} tokens"
        click.echo()
        click.secho(
            terminal.printable(f"{won}ended by {payload.get('reason')}, {about}"), bold=True
        )

    def _paragraph(self, name: str, words: str, **style: Any) -> None:
        columns = min(WIDEST, shutil.get_terminal_size().columns)
        room = max(20, columns - self._width - 2)
        lines = textwrap.wrap(terminal.printable(words), room) or [""]
        label = click.style(
            f"{terminal.printable(name):>{self._width}}", fg=self._colours.get(name)
        )
        for n, line in enumerate(lines):
            margin = label if n == 0 else " " * self._width
            click.echo(f"{margin}  {click.style(line, **style)}")


def _rgb(hue: int) -> tuple[int, int, int]:
    red, green, blue = colorsys.hls_to_rgb(hue / 360, 0.6, 0.7)
    return round(red * 255), round(green * 255), round(blue * 255)
