"""`tracklog alerts`: check rules, try them on the journal, and list what fired."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.collector.alerts.incidents import AlertChange

FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@click.group(
    epilog="""\b
Examples:
  tracklog alerts ready > alerts.yaml
  tracklog alerts check alerts.yaml
  tracklog alerts try alerts.yaml --since -7d
  tracklog serve --alerts alerts.yaml
  tracklog alerts list
  tracklog alerts silence --match 'agent=nightly-*' --for 2h --by ada --because "load test"
  tracklog alerts tables""",
)
def command() -> None:
    """Check the rules of alerts, and try them on what was recorded."""


@command.command(
    epilog="""\b
Examples:
  tracklog alerts ready
  tracklog alerts ready > alerts.yaml"""
)
def ready() -> None:
    """Print a file with twelve rules to begin with."""
    from importlib import resources

    click.echo(
        resources.files("tracklog.collector.alerts").joinpath("ready.yaml").read_text(), nl=False
    )


@command.command(
    epilog="""\b
Examples:
  tracklog alerts tables"""
)
def tables() -> None:
    """List the tables that a rule can look at, with their fields."""
    from tracklog.collector.alerts.tables import TABLES

    for name, table in TABLES.items():
        click.echo(f"{click.style(name, bold=True)}: {table.about}")
        click.echo(f"  {', '.join(table.fields)}")


@command.command(
    epilog="""\b
Examples:
  tracklog alerts check alerts.yaml

\b
Exit code: 0 the rules are valid, 2 they are not."""
)
@FILE
def check(file: Path) -> None:
    """Check a file of rules; every fault is named with its place."""
    from tracklog.collector.alerts.delivery import check_targets
    from tracklog.collector.alerts.rules import load
    from tracklog.collector.alerts.tables import FIELDS

    rules = load(file, FIELDS)
    check_targets(rules, look_up=True)
    click.echo(f"{file}: {terminal.count(len(rules.rules), 'rule')}, no fault")


@command.command(
    "try",
    epilog="""\b
Examples:
  tracklog alerts try alerts.yaml
  tracklog alerts try alerts.yaml --since -30d --json
  tracklog alerts try alerts.yaml --demo

\b
Nothing is sent and nothing is recorded.""",
)
@FILE
@_home.read_option
@click.option(
    "--since",
    default="-7d",
    show_default=True,
    help="From when: -24h, -7d, `yesterday`, a day or a time.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per change.")
def try_(file: Path, home: Path, since: str, as_json: bool) -> None:
    """Replay the journal, and print each alert that there would have been."""
    from datetime import datetime

    from tracklog.answers.buckets import time_of, zone
    from tracklog.collector.alerts.history import replay
    from tracklog.collector.alerts.rules import load
    from tracklog.collector.alerts.tables import FIELDS

    rules = load(file, FIELDS)
    with _home.reading(home) as read:
        now = read.clock()
        begin = time_of(since, datetime.fromtimestamp(now, zone(None))).timestamp()
        number = 0
        for change in replay(read, rules, begin, now):
            number += change.state == "firing"
            _put(change, as_json)
    if not as_json:
        click.echo(f"{terminal.count(number, 'alert')} since {since}; nothing was sent")
        if not number:
            click.echo(
                "  what arrived more than an hour late, as by an import, alerts nobody;"
                " `tracklog serve --alerts FILE` evaluates the rules from now on"
            )


@command.command(
    "list",
    epilog="""\b
Examples:
  tracklog alerts list
  tracklog alerts list --limit 200 --json""",
)
@_home.read_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per change.")
def list_(home: Path, limit: int, as_json: bool) -> None:
    """List the last alerts that a collector recorded: what fired, what ended, who was notified."""
    from tracklog.collector.alerts.evaluator import entries

    with _home.reading(home) as read:
        last = entries(read, limit)
    for change, sent in last:
        _put(change, as_json, sent)
    if not last and not as_json:
        click.echo("no alert was recorded; `tracklog serve --alerts FILE` evaluates rules")


@command.command(
    epilog="""\b
Examples:
  tracklog alerts silence --match 'agent=nightly-*' --for 2h --by ada --because "load test"
  tracklog alerts silence --match rule=waiting --for 30m --by ada --because meeting"""
)
@_home.home_option
@click.option(
    "--match",
    "matches",
    multiple=True,
    required=True,
    metavar="FIELD=PATTERN",
    help="A field of the row, or `rule`, `key` or `severity`; may be repeated, all must match.",
)
@click.option("--for", "span", required=True, metavar="TIME", help="How long, such as 30m or 2h.")
@click.option("--by", required=True, help="Your name; the user's name is recorded, too.")
@click.option("--because", required=True, help="The reason.")
def silence(home: Path, matches: tuple[str, ...], span: str, by: str, because: str) -> None:
    """Send nothing about matching alerts for some time; they are still recorded."""
    from tracklog.collector.alerts import evaluator
    from tracklog.collector.alerts.rules import Silence, duration_seconds
    from tracklog.journal.frame import stamp

    fields = dict(each.partition("=")[::2] for each in matches)
    try:
        length = duration_seconds(span)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from None
    with _home.writing(home) as written:
        until = stamp(written.clock() + length)
        rule = Silence.model_validate(
            {"match": fields, "until": until, "by": _home.name_of(by), "because": because}
        )
        seq = evaluator.silence(written, rule)
    click.echo(f"silenced until {until}, by record {seq}")


def _put(change: "AlertChange", as_json: bool, sent: tuple[str, ...] | None = None) -> None:
    """Print a change; without `sent` nothing was to be sent yet."""
    from tracklog.journal.frame import stamp

    at = stamp(change.at)
    if as_json:
        row = {**change._asdict(), "at": at, "to": list(change.to)}
        terminal.put_json(row if sent is None else {**row, "sent": list(sent)})
        return
    colour = {"firing": "red", "repeated": "yellow", "resolved": "green"}[change.state]
    if change.to:
        missed = [name for name in change.to if sent is not None and name not in sent]
        reached = [name for name in change.to if name not in missed]
        parts = [("to", reached), ("not sent to", missed)]
        who = ", ".join(f"{how} {', '.join(names)}" for how, names in parts if names)
    else:
        who = f"silenced by {change.silenced}" if change.silenced else "to nobody"
    state = click.style(f"{change.state:<8}", fg=colour)
    click.echo(
        f"{at}  {state}  {change.severity:<8}  {terminal.printable(change.summary)}  ({who})"
    )
