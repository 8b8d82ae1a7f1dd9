"""`tracklog show`: a summary of one run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _question, _table
from tracklog.cli import _terminal as terminal
from tracklog.folds.agents import reads

if TYPE_CHECKING:
    from tracklog.answers.show import ShowAnswer

MESSAGES_SHOWN = 3
"""How many messages of a stage are shown."""
SKEWED = 60_000
"""The difference between two clocks, in milliseconds, from which it is shown."""


def _show(row: "ShowAnswer", _asked: _question.QuestionCall) -> None:
    width = terminal.width()
    status = click.style(row.status, fg=_table.COLOURS.get(row.status), bold=True)
    click.echo(f"{click.style(terminal.printable(row.key), bold=True)}  {status}")
    for name, value in _lines(row):
        label = f"{name:<10}  "
        text = terminal.printable(_table.cell(value))
        if width is not None:
            text = terminal.fitted(text, max(8, width - len(label))).rstrip()
        click.echo(f"{label}{text}")


def _lines(row: "ShowAnswer") -> Iterator[tuple[str, Any]]:
    """The fields of the run, line by line; unknown ones have no line."""
    for name in ("title", "model", "project", "branch"):
        if value := getattr(row, name):
            yield name, value
    ended = [row.outcome or _table.cell(row.outcomes) or None]
    ended += [None if row.passed is None else "passed" if row.passed else "not passed"]
    score = row.score
    ended += [None if score is None else f"score {_table.cell(score)} ({reads(score)})"]
    if any(ended):
        yield "outcome", list(filter(None, ended))
    yield from _staged(row)
    if row.seconds is not None:
        yield "took", _table.duration_text(row.seconds)
    if row.last_activity:
        time = terminal.time_text(row.last_activity, row.last_received)
        yield "last activity", f"{_table.ago(row.silent_seconds)} ({time} UTC)"
    if row.agents:
        yield "agents", row.agents
    if row.summary and row.summary.turns:
        yield "turns", row.summary.turns
    elif row.steps:
        yield "steps", list(_steps(row))
    if row.tool_calls:
        calls = [terminal.count(row.tool_calls, "call")]
        calls += [f"{row.tool_failures:,} failed"] if row.tool_failures else []
        calls += [f"{row.open_calls:,} not returned"] if row.open_calls else []
        calls += [f"{row.torn_calls:,} torn"] if row.torn_calls else []
        yield "tools", calls
    if row.aliases:
        yield "known as", row.aliases
    if row.source_gone:
        yield "source", f"gone since {row.source_gone[:10]}; its records stay"
    if row.same_as:
        yield "same as", f"{row.same_as}, which has more events and is counted"
    if row.questions:
        waits = f"{terminal.count(row.questions, 'answer')}; `tracklog inbox` shows all"
        yield "waits for", waits
        for asked in row.asks:
            since = _table.age(asked.waiting_seconds)
            yield "asks", f"{asked.text or asked.question_id} (for {since})"
    yield from _spent(row)
    for loop in row.loops:
        yield "loop", f"{loop.times} × {loop.tool} {loop.input or ''}"
    if row.skew_ms > SKEWED and row.first_at:
        yield "clock", f"its clock and ours differ by {_table.age(row.skew_ms / 1000)}"
    yield "records", f"{row.first_seq:,} to {row.last_seq:,}, {', '.join(row.dialects)}"


def _steps(row: "ShowAnswer") -> Iterator[str]:
    """The number of steps, and how many of them failed, were tried again or are blocked."""
    summary = row.summary
    if summary is None:
        yield f"{row.steps:,}"
        return
    yield f"{summary.total_nodes or row.steps:,}"
    tries = summary.total_attempts or 0
    if tries > sum(1 for n in summary.node_attempts.values() if n):
        yield terminal.count(tries, "attempt")
    if summary.flake_retries:
        yield f"{summary.flake_retries:,} flaky"
    if summary.failed:
        names = summary.failed_nodes
        yield f"{summary.failed:,} failed" + (f" ({' '.join(names[:5])})" if names else "")
    if summary.blocked:
        yield f"{summary.blocked:,} blocked"


def _staged(row: "ShowAnswer") -> Iterator[tuple[str, Any]]:
    summary, stage = row.summary, row.stage
    if summary and summary.winner:
        models = summary.winning_models
        yield "winner", [summary.winner, *([f"with {_table.cell(models)}"] if models else [])]
    if stage is None:
        return
    if stage.scene:
        yield "scene", stage.scene
    for words in stage.notes[-MESSAGES_SHOWN:]:
        yield "said", words
    for verdict in stage.verdicts[-1:]:
        yield "verdict", verdict


def _spent(row: "ShowAnswer") -> Iterator[tuple[str, Any]]:
    if row.tokens is not None:
        parts = [("in", row.tokens_in), ("out", row.tokens_out), ("cached", row.tokens_cached)]
        split = ", ".join(f"{n:,} {name}" for name, n in parts if n is not None)
        yield "tokens", f"{row.tokens:,}" + (f" ({split})" if split else "")
    with_sub_runs = row.cost_with_sub_runs
    total = with_sub_runs.cost_usd if with_sub_runs else None
    if with_sub_runs and with_sub_runs.computed_usd is not None:
        yield "cost", f"{_table.cost(with_sub_runs)} by list prices, with sub-runs"
    elif row.cost_usd is not None or total is not None:
        more = (
            f" (with sub-runs {_table.money(total)})" if total not in (None, row.cost_usd) else ""
        )
        yield "cost", f"{_table.money(row.cost_usd)}{more}"
    if with_sub_runs and with_sub_runs.unpriced_models:
        yield "no price", with_sub_runs.unpriced_models


command = _question.verb("show", _show)
