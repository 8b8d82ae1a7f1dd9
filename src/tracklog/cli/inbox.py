"""`tracklog inbox`: who waits for a person, since when, with what question."""

from pathlib import Path

import click

from tracklog.cli import _home, _table


@click.command(
    epilog="""\b
Examples:
  tracklog inbox
  tracklog inbox --json | jq 'select(.state == "open")'""",
)
@_home.home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, as_json: bool) -> None:
    """List the questions, the open ones first."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        rows = answers.inbox(opened.index, _home.now())
    _table.put(
        rows,
        [
            ("state", lambda row: row["state"]),
            ("waiting", lambda row: _table.age(row["waiting_seconds"])),
            ("run", lambda row: row["run"]),
            ("agent", lambda row: row["agent"]),
            ("question", lambda row: row["question_id"]),
            ("text", lambda row: row["text"]),
        ],
        "nobody waits for a person",
        as_json=as_json,
    )
