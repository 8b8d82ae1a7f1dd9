"""`tracklog answer`: a person answers an agent that waits."""

from pathlib import Path
from typing import Any

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog inbox
  tracklog answer q-17 'use port 8080'
  tracklog answer q-17 --run kahn:agent-coder-1 --value '{"approve": true}'""",
)
@click.argument("question", metavar="ID")
@click.argument("text", required=False)
@_home.read_option
@click.option("--value", metavar="JSON", help="Any JSON, instead of TEXT.")
@click.option(
    "--by",
    metavar="NAME",
    help="The name of the person who answers; the user's name is recorded, too.",
)
@click.option(
    "--run", metavar="RUN", help="The run that asks, if several runs have a question with this id."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    question: str,
    text: str | None,
    home: Path,
    value: str | None,
    by: str | None,
    run: str | None,
    as_json: bool,
) -> None:
    """Answer the question ID with TEXT; the first answer counts.

    The answer is recorded. An agent that waits at a collector on the same home gets it.
    """
    import orjson

    from tracklog.collector import operator

    if (text is None) == (value is None):
        raise click.UsageError("give TEXT or --value, and not both")
    answer: Any = text
    if value is not None:
        try:
            answer = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise click.UsageError(f"--value is not JSON: {error}") from None
    _home.reading(home).close()
    with _home.writing(home) as opened:
        row, recorded = operator.give(
            opened, question, answer, by=_home.name_of(by), run=run, writer="cli"
        )
    if as_json:
        of = {name: getattr(row, name) for name in ("family", "run", "question_id")}
        terminal.put_json({**recorded._asdict(), **of})
    else:
        who = terminal.printable(str(row.agent or row.run))
        click.echo(f"recorded as {recorded.seq}: {who} can continue")
