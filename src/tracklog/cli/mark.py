"""`tracklog mark`: a person tags, scores or comments a run, or has seen it."""

from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog mark agent-coder-1 --tag flaky --note 'the disk was full'
  tracklog mark agent-coder-1 --score 0.8
  tracklog mark agent-coder-1 --record 120 --note 'the wrong file'
  tracklog mark nightly-1 nightly-2 --seen
  tracklog mark agent-coder-1 --untag flaky""",
)
@_home.run_argument("runs", many=True)
@_home.read_option
@click.option(
    "--record", type=click.IntRange(1), metavar="SEQ", help="Mark this record of the run."
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Add a tag; may be repeated.")
@click.option("--untag", "untags", multiple=True, metavar="TAG", help="Remove a tag.")
@click.option("--score", type=float, metavar="NUMBER", help="Give a score.")
@click.option("--note", metavar="TEXT", help="Add a note.")
@click.option("--seen/--unseen", default=None, help="You have seen it, or take that back.")
@click.option("--withdraw", "withdraws", multiple=True, metavar="ID", help="Withdraw this mark.")
@click.option("--by", metavar="NAME", help="Your name; nobody checks it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per mark.")
def command(
    runs: tuple[str, ...],
    home: Path,
    record: int | None,
    tags: tuple[str, ...],
    untags: tuple[str, ...],
    score: float | None,
    note: str | None,
    seen: bool | None,
    withdraws: tuple[str, ...],
    by: str | None,
    as_json: bool,
) -> None:
    """Mark runs, or a record of a run: a tag, a score, a note, or that you have seen it.

    A mark is recorded with your user name. It changes no status, count or time of the run.
    """
    from dataclasses import replace
    from itertools import product

    from tracklog.collector import marking
    from tracklog.folds import number
    from tracklog.model.fact import Marked

    blank = Marked(record=record, by=_home.user_name(), claimed_by=by or None)
    marks = [replace(blank, tag=tag) for tag in tags if tag]
    marks += [replace(blank, withdraws=id, record=None) for id in withdraws if id]
    if score is not None and number(score) is None:
        raise click.UsageError("--score is no finite number")
    if (score, note or None, seen) != (None, None, None):
        marks.append(replace(blank, score=score, note=note or None, seen=seen))
    if not marks and not untags:
        raise click.UsageError("give a mark: --tag, --score, --note, --seen, --untag or --withdraw")
    _home.reading(home).close()
    with _home.writing(home) as opened:
        of_runs = [(run, each) for run in runs for each in marks]
        for run, tag in product(runs, untags):
            of_runs += [(run, each) for each in marking.without_tag(opened, run, tag, blank)]
        recorded = marking.mark(opened, of_runs, writer="cli")
    if as_json:
        for each in recorded:
            terminal.put_json(each)
    else:
        where = sorted({each.run for each in recorded})
        names = ", ".join(map(terminal.printable, where[:5])) + (" …" if len(where) > 5 else "")
        click.echo(f"recorded on {names}")
