"""`tracklog inbox`: who waits for a person, since when, with what question."""

from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog inbox
  tracklog inbox --json | jq 'select(.state == "open")'""",
)
@_home.read_option
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, as_json: bool) -> None:
    """List the questions, the open ones first."""
    from tracklog.answers import answers

    with _home.asking(home) as opened:
        rows = answers.inbox(opened.index, _home.now())
        names = _home.names(opened)
    _table.put(
        rows,
        [
            _table.Column("state", lambda row: row["state"]),
            _table.Column("waited", lambda row: _table.age(row["waiting_seconds"]), right=True),
            names.column(),
            _table.Column("agent", lambda row: row["agent"], rank=1, cut=8),
            _table.Column("by", lambda row: row["answered_by"] or None, rank=2, cut=8),
            # What `tracklog answer` is given: always there, and whole.
            _table.Column("id", lambda row: row["question_id"]),
            _table.Column("question", lambda row: row["text"], cut=16, wrap=True),
        ],
        "nobody waits for a person; `tracklog runs` shows what goes on",
        as_json=as_json,
    )
