"""`tracklog repair`: repair a JSONL file damaged by a crash, a full disk or a faulty writer."""

import sys
from typing import TYPE_CHECKING

import click

from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.recording.transcript.repair import RepairReport


@click.command(
    epilog="""\b
Examples:
  tracklog repair --dry-run session.jsonl
  tracklog repair session.jsonl""",
)
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per changed line.")
def command(files: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Repair damaged lines one by one, and keep the original beside each file.

    It repairs NUL bytes, joined and incomplete lines, line breaks inside strings, bad UTF-8 and a
    byte order mark.
    """
    from tracklog.recording.transcript.repair import examine, repair

    for name in files:
        with terminal.opened(name):
            pass  # a missing or unreadable file is an error
        report = (examine if dry_run else repair)(name)
        for change in report.changes:
            if as_json:
                row = {"file": name, "line": change.number, "action": change.action}
                terminal.put_json({**row, "flaws": change.flaws, "message": change.message})
                continue
            repaired = change.action == "healed"
            word = (
                click.style("repaired", fg="yellow")
                if repaired
                else click.style("set aside", fg="red")
            )
            place = terminal.printable(f"{name}, line {change.number}")
            click.echo(f"{place}: {word}: {terminal.printable(change.message)}")
        if not as_json:
            click.echo(terminal.printable(f"{name}: {_ending(report, dry_run)}"))
    sys.stdout.flush()


def _ending(report: "RepairReport", dry_run: bool) -> str:
    lines, changes, original = report.lines, report.changes, report.original
    if not changes:
        return f"{terminal.count(lines, 'line')} without damage; nothing was changed"
    repaired = sum(each.action == "healed" for each in changes)
    words = (
        f"{terminal.count(lines, 'line')}, {repaired} repaired, {len(changes) - repaired} set aside"
    )
    return f"{words}; nothing was written" if dry_run else f"{words}; the original is {original}"
