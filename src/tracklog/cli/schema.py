"""`tracklog schema`: the JSON Schema of a dialect or of a document that it publishes."""

import json

import click

from tracklog.cli import _names
from tracklog.model.errors import UnknownName


@click.command(
    epilog="""\b
Examples:
  tracklog schema kahn-agent
  tracklog schema graph > graph.schema.json""",
)
@click.argument("name", required=False, shell_complete=_names.schemas)
def command(name: str | None) -> None:
    """Print the JSON Schema of NAME; without NAME, list the names."""
    from tracklog.dialects import schemas
    from tracklog.home import registry

    known = schemas.named(registry.dialects())
    if name is None:
        click.echo("\n".join(sorted(known)))
    elif name in known:
        click.echo(json.dumps(known[name](), indent=2, ensure_ascii=False))
    else:
        raise UnknownName(
            f"there is no schema {name!r}", f"the schemas are: {', '.join(sorted(known))}"
        )
