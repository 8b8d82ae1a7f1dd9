"""`tracklog import`: import the logs that agents left on disk."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home, _importing, _table
from tracklog.cli._progress import progress_bar

LEAST = 8 << 20
"""From this many bytes on, the import shows its progress."""
MOST = 256 << 20
"""Up to this many bytes, an import of everything ends with the costs of each project."""
PROJECTS = 20
"""How many projects are printed."""


@click.command(
    name="import",
    epilog="""\b
Examples:
  tracklog import
  tracklog import --dry-run ~/old-laptop/.claude/projects
  tracklog import --from codex rollout.jsonl --json
  tracklog import .kahn/archive

\b
Exit code: 0 all stored, 1 a line refused or torn, 2 usage or I/O, 130 interrupted.""",
)
@_importing.options
def command(
    paths: tuple[Path, ...], home: Path, only: str | None, dry: bool, redact: bool, as_json: bool
) -> None:
    """Find the logs of agents in their usual places and import what is new.

    Without PATHS every importer looks where its agent stores its files. A file or a folder that you
    name is recognised by its content. Nothing is imported twice. Lines of a dialect are stored
    unchanged; a graph.json in the same folder is stored as a note on its run. If the last line of a
    file has no line end, it is stored if it is a complete JSON object. Otherwise it is reported,
    and imported later, when it is complete.
    """
    from tracklog.formats import registry
    from tracklog.formats.importing import Importing
    from tracklog.formats.importing_summary import ImportSummary

    if only:
        registry.importer(only)
    with _home.writing(home, redact=_home.redaction(redact)) as opened:
        importing, summary = Importing(opened), ImportSummary()
        with (
            _importing.summing_up(summary, as_json=as_json, dry=dry, redact=redact),
            progress_bar("importing", LEAST) as progress,
        ):
            files = _importing.meant(importing, paths)
            importing.bring(files, only=only, dry=dry, progress=progress, into=summary)
        summary.gone = importing.look_for_gone(dry=dry)
    _importing.put(summary, as_json=as_json, dry=dry, redact=redact)
    if not (paths or as_json or dry) and summary.lines["accepted"]:
        _put_projects(home, summary.bytes)
    if not files and as_json:  # otherwise the summary reports it
        click.echo(
            "no logs of agents were found in their usual folders; name files or folders to read",
            err=True,
        )
    sys.exit(_importing.exit_code(summary))


def _put_projects(home: Path, size: int) -> None:
    """Print what all runs of the home cost, project by project, the most expensive first."""
    from tracklog.answers.registry import question

    if size > MOST:
        click.echo("`tracklog costs --by project` adds up what each project cost")
        return
    with _home.asking(home) as opened:
        rows = question("costs").ask(opened, by="project")
    columns = [
        _table.Column("cost", _table.cost, right=True),
        _table.Column("tokens", lambda row: row.total_tokens, right=True),
        _table.Column("runs", lambda row: row.runs, rank=1, right=True),
        _table.Column("project", lambda row: row.of),
    ]
    if rows:
        click.echo("")
        _table.put(rows[:PROJECTS], columns, "")
    if len(rows) > PROJECTS:
        click.echo(f"and {len(rows) - PROJECTS:,} more: `tracklog costs --by project`")
    if rows:
        click.echo(
            "`tracklog costs --by day` shows what each day cost, `tracklog serve` shows all in a browser"
        )
