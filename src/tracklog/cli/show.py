"""`tracklog show`: one run at a glance."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal

SAID = 3
"""Of what was said on a stage, how much is shown."""
SKEWED = 60_000
"""Milliseconds between two clocks that are worth a word."""


@click.command(
    epilog="""\b
Examples:
  tracklog show agent-coder-1
  tracklog show agent-coder-1 --at 120       (as it was at record 120)
  tracklog show agent-coder-1 --json""",
)
@_home.run_argument()
@_home.read_option
@click.option("--at", type=click.IntRange(min=1), metavar="SEQ", help="As it was at this record.")
@_home.lost_option
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, home: Path, at: int | None, lost_after: float, as_json: bool) -> None:
    """Tell what is known of RUN: status, outcome, agents, tools, tokens, cost, loops."""
    from tracklog.answers import (
        answers,
        prices,
    )

    if at is not None:
        with _home.reading(home) as opened:
            row = answers.show_at(opened, ":".join(opened.run(run)), at)
    else:
        with _home.asking(home) as opened:
            key = ":".join(opened.run(run))
            row = answers.show(opened.index, key, _home.now(), lost_after, prices.load(home))
    if as_json:
        terminal.put_json(row)
        return
    width = terminal.width()
    status = click.style(row["status"], fg=_table.COLOURS.get(row["status"]), bold=True)
    click.echo(f"{click.style(terminal.plain(run_name(row)), bold=True)}  {status}")
    for name, said in _told(row):
        text = terminal.plain(_table.cell(said))
        if width is not None:
            text = terminal.fitted(text, max(8, width - 12)).rstrip()
        click.echo(f"{name:<10}  {text}")


def run_name(row: dict[str, Any]) -> str:
    """A run as it can always be asked for."""
    return f"{row['family']}:{row['run']}"


def _told(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is known of the run, line by line; what is not known has no line."""
    from tracklog.folds.agents import reads

    for name in ("title", "model", "project", "branch"):
        if row[name]:
            yield name, row[name]
    ended = [row["outcome"] or _table.cell(row["outcomes"]) or None]
    ended += [None if row["passed"] is None else "passed" if row["passed"] else "not passed"]
    score = row["score"]
    ended += [None if score is None else f"score {_table.cell(score)} ({reads(score)})"]
    if any(ended):
        yield "outcome", list(filter(None, ended))
    yield from _staged(row)
    if row["seconds"] is not None:
        yield "took", _table.seconds(row["seconds"])
    if row["last_activity"]:
        moment = terminal.moment(row["last_activity"], row["last_received"])
        yield "heard", f"{_table.ago(row['silent_seconds'])} ({moment} UTC)"
    if row["agents"]:
        yield "agents", row["agents"]
    if turns := (row.get("summary") or {}).get("turns"):
        yield "turns", turns
    elif row["steps"]:
        yield "steps", list(_worked_off(row))
    if row["tool_calls"]:
        calls = [terminal.count(row["tool_calls"], "call")]
        calls += [f"{row['tool_failures']:,} failed"] if row["tool_failures"] else []
        calls += [f"{row['open_calls']:,} not returned"] if row["open_calls"] else []
        calls += [f"{row['torn_calls']:,} torn"] if row["torn_calls"] else []
        yield "tools", calls
    if row.get("aliases"):
        yield "known as", row["aliases"]
    if row["source_gone"]:
        yield "source", f"gone since {row['source_gone'][:10]}; what it told is kept here"
    if row.get("same_as"):
        yield "same as", f"{row['same_as']}, which tells more and is counted"
    if row["questions"]:
        yield (
            "waits for",
            f"{terminal.count(row['questions'], 'answer')}; `tracklog inbox` shows all",
        )
        for asked in row.get("asks", ()):
            since = _table.age(asked["waiting_seconds"])
            yield "asks", f"{asked['text'] or asked['question_id']} (for {since})"
    yield from _spent(row)
    for loop in row.get("loops", ()):
        yield "loop", f"{loop['times']} × {loop['tool']} {loop['input'] or ''}"
    if row["skew_ms"] > SKEWED and row["first_at"]:
        yield "clock", f"its clock and ours differ by {_table.age(row['skew_ms'] / 1000)}"
    yield "records", f"{row['first_seq']:,} to {row['last_seq']:,}, {', '.join(row['dialects'])}"


def _worked_off(row: dict[str, Any]) -> Iterator[str]:
    """How many steps, and what was the matter with them."""
    summary = row.get("summary") or {}
    yield f"{summary.get('total_nodes') or row['steps']:,}"
    tries = summary.get("total_attempts", 0)
    if tries > sum(1 for n in summary.get("node_attempts", {}).values() if n):
        yield terminal.count(tries, "attempt")
    if summary.get("flake_retries"):
        yield f"{summary['flake_retries']:,} flaky"
    if summary.get("failed"):
        names = summary["failed_nodes"]
        yield f"{summary['failed']:,} failed" + (f" ({' '.join(names[:5])})" if names else "")
    if summary.get("blocked"):
        yield f"{summary['blocked']:,} blocked"


def _staged(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    summary, stage = row.get("summary") or {}, row.get("stage") or {}
    if summary.get("winner"):
        models = summary["winning_models"]
        yield "winner", [summary["winner"], *([f"with {_table.cell(models)}"] if models else [])]
    if stage.get("scene"):
        yield "scene", stage["scene"]
    for said in stage.get("notes", ())[-SAID:]:
        yield "said", said
    for verdict in stage.get("verdicts", ())[-1:]:
        yield "verdict", verdict


def _spent(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if row["tokens"] is not None:
        parts = [("in", row["tokens_in"]), ("out", row["tokens_out"])]
        parts += [("cached", row["tokens_cached"])]
        split = ", ".join(f"{n:,} {name}" for name, n in parts if n is not None)
        yield "tokens", f"{row['tokens']:,}" + (f" ({split})" if split else "")
    whole = row.get("cost_with_sub_runs") or {}
    if whole.get("computed_usd") is not None:
        yield "cost", f"{_table.cost(whole)} by list prices, with sub-runs"
    elif row["cost_usd"] is not None or whole.get("cost_usd") is not None:
        more = whole.get("cost_usd") not in (None, row["cost_usd"])
        said = _table.money(row["cost_usd"])
        yield (
            "cost",
            said + (f" (with sub-runs {_table.money(whole['cost_usd'])})" if more else ""),
        )
    if whole.get("unpriced_models"):
        yield "no price", whole["unpriced_models"]
