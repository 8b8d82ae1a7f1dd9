"""`tracklog blob`: a large value that is stored outside of its line."""

from pathlib import Path

import click

from tracklog.cli import _home, _writing


@click.command(
    epilog="""\b
Examples:
  tracklog blob 5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5 -o shot.png
  tracklog blob 5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5 | less

\b
Exit code: 0 found, 2 not found or damaged.""",
)
@click.argument("sha256", metavar="SHA256")
@_home.read_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it to this file.",
)
def command(sha256: str, home: _home.Place, output: Path | None) -> None:
    """Print the bytes of a blob."""
    with _home.reading(home) as opened:
        content = opened.blobs.get(sha256)
    _writing.put([content], output)
