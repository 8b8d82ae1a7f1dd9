"""`tracklog dialects`: the known event languages."""

import click

from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog dialects
  tracklog dialects --json | jq -r .name""",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per dialect.")
def command(as_json: bool) -> None:
    """List the dialects: what each is for, and which kinds and fields it accepts."""
    from tracklog.home import registry

    for dialect in registry.dialects():
        kinds, policy = list(dialect.kinds), dialect.policy
        if as_json:
            row = {"name": dialect.name, "family": dialect.family, "about": dialect.about}
            openness = {"kinds_are": policy.kinds, "fields_are": policy.fields}
            powers = {"powers": dialect.powers} if dialect.powers else {}
            terminal.put_json({**row, "kinds": kinds, **openness, **powers})
            continue
        click.echo(f"{click.style(f'{dialect.name:<11}', bold=True)} {dialect.about}")
        count = f"{len(kinds)} known kinds" if kinds else "any kind"
        click.echo(
            f"{'':11} {count}; kinds {policy.kinds}, fields {policy.fields}; family {dialect.family}"
        )
        if dialect.powers:
            click.echo(f"{'':11} features of its agents: {', '.join(dialect.powers)}")
