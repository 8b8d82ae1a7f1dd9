"""`tracklog reimport`: read sources from their start again, with the current mapping."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home, _importing
from tracklog.cli._progress import progress_bar


@click.command(
    epilog="""\b
Examples:
  tracklog reimport
  tracklog reimport ~/.codex/sessions/2026

\b
Exit code: 0 all stored, 1 a line refused or torn, 2 usage or I/O, 130 interrupted.""",
)
@_importing.options
def command(
    paths: tuple[Path, ...],
    home: Path,
    only: str | None,
    dry: bool,
    redact: bool,
    as_json: bool,
) -> None:
    """Read every source from its start again; known events are not stored twice.

    Without PATHS these are the sources that were imported before and still exist.
    """
    from tracklog.formats import registry
    from tracklog.formats.importing import Importing
    from tracklog.formats.importing_summary import ImportSummary

    if only:
        registry.importer(only)
    with _home.writing(home, redact=_home.redaction(redact)) as opened:
        importing, summary = Importing(opened), ImportSummary()
        files = _importing.meant(importing, paths) if paths else importing.known()
        with (
            _importing.summing_up(summary, as_json=as_json, dry=dry, redact=redact),
            progress_bar("importing", 1) as progress,
        ):
            importing.bring(files, only=only, again=True, dry=dry, progress=progress, into=summary)
        summary.gone = importing.look_for_gone(dry=dry)
    _importing.put(summary, as_json=as_json, dry=dry, redact=redact)
    sys.exit(_importing.exit_code(summary))
