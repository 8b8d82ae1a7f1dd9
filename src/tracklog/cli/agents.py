"""`tracklog agents`: how each agent did over all its runs."""

from pathlib import Path
from typing import Any

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog agents
  tracklog agents --json""",
)
@_home.read_option
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, as_json: bool) -> None:
    """List the agents, the busiest first: runs, outcomes, durations, convergence."""
    from tracklog.answers import answers
    from tracklog.folds import silence

    now = _home.now()
    with _home.asking(home) as opened:
        rows = answers.agents(opened.index)
    _table.put(
        rows,
        [
            _table.Column("agent", lambda row: row["agent"], cut=24),
            _table.Column("runs", lambda row: row["run_count"], right=True),
            _table.Column("severity", lambda row: row["severity"], rank=3, right=True),
            _table.Column("p50", lambda row: _table.seconds(row["p50_seconds"]), 2, right=True),
            _table.Column("p95", lambda row: _table.seconds(row["p95_seconds"]), 4, right=True),
            _table.Column("mean score", lambda row: row["mean_score"], rank=5, right=True),
            _table.Column("seen", lambda row: _table.ago(silence(row["last_seen"], now)), rank=6),
            _table.Column("outcomes", _outcomes, rank=1, cut=20),
        ],
        "no agents yet; `tracklog runs` shows what was heard",
        as_json=as_json,
    )


def _outcomes(row: dict[str, Any]) -> dict[str, int]:
    return {name: n for name, n in row["outcomes"].items() if n}
