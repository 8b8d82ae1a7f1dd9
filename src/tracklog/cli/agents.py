"""`tracklog agents`: how each agent did over all its runs."""

from pathlib import Path

import click

from tracklog.cli import _home, _table


@click.command(
    epilog="""\b
Examples:
  tracklog agents
  tracklog agents --json""",
)
@_home.home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, as_json: bool) -> None:
    """List the agents, the busiest first: runs, outcomes, durations, convergence."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        rows = answers.agents(opened.index)
    _table.put(
        rows,
        [
            ("agent", lambda row: row["agent"]),
            ("runs", lambda row: row["run_count"]),
            ("severity", lambda row: row.get("severity")),
            ("p50 s", lambda row: row.get("p50_seconds")),
            ("p95 s", lambda row: row.get("p95_seconds")),
            ("outcomes", lambda row: [f"{name} {n}" for name, n in row["outcomes"].items() if n]),
        ],
        "no agents yet",
        as_json=as_json,
    )
