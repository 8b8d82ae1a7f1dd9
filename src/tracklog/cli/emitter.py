"""`tracklog emitter`: an emitter to copy into another project, and whether a copy is current."""

import re
import sys
from pathlib import Path

import click

from tracklog.model.errors import UnknownName

EMITTERS = {
    "python-agent": "kahn_agent_emit.py",
    "python-ci": "kahn_emit.py",
    "python": "tracklog_emit.py",
    "typescript": "tracklog_emit.ts",
}
"""The file of each emitter."""
VERSION = re.compile(r"\A(?:#|//) tracklog (\S+), emitter (\S+);")


@click.command(
    epilog="""\b
Examples:
  tracklog emitter python-agent > kahn_agent_emit.py
  tracklog emitter python-ci > kahn_emit.py             (runs of CI)
  tracklog emitter python > tracklog_emit.py            (openwop, fishbowl, awf, tracklog)
  tracklog emitter typescript > tracklog_emit.ts
  tracklog emitter python-agent --check kahn_agent_emit.py

\b
Exit code: 0 printed, or the copy is current; 1 the copy differs; 2 usage or I/O.""",
)
@click.argument("name", required=False, type=click.Choice(list(EMITTERS)), metavar="[NAME]")
@click.option(
    "--check",
    "copy",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Compare FILE with the emitter instead of printing it.",
)
def command(name: str | None, copy: Path | None) -> None:
    """Print the emitter NAME, one file to copy into your program; without NAME, list the names.

    The first line names the version of tracklog. The Python emitters need only the standard
    library, the TypeScript emitter only Node.
    """
    if name is None and copy is None:
        click.echo("\n".join(EMITTERS))
        return
    if copy is None:
        assert name is not None
        click.echo(_text(name), nl=False)
        return
    text = copy.read_bytes().decode(errors="replace")
    found = VERSION.match(text)
    name = name or (found[2] if found else None)
    if name not in EMITTERS:
        raise UnknownName(
            f"{copy} does not say which emitter it is",
            f"name it: tracklog emitter {'|'.join(EMITTERS)} --check {copy}",
        )
    sys.exit(_compare(copy, text, name))


def _compare(copy: Path, text: str, name: str) -> int:
    """Report whether a copy is current; all but its first line, which names the version, counts."""
    current = _text(name)
    ours, theirs = VERSION.match(current), VERSION.match(text)
    version = theirs[1] if theirs and theirs[2] == name else "an unknown version"
    new, old = current.splitlines()[1:], text.splitlines()[1:]
    if new == old and theirs and theirs[2] == name:
        click.echo(f"{copy}: current ({name} of {version})")
        return 0
    assert ours is not None
    line = next(
        (n for n, pair in enumerate(zip(new, old, strict=False)) if pair[0] != pair[1]), None
    )
    place = 2 + (min(len(new), len(old)) if line is None else line)
    click.echo(
        f"{copy}: differs from {name} of {ours[1]} (it is of {version}), first at line {place}"
    )
    click.echo(f"  to replace it: tracklog emitter {name} > {copy}")
    return 1


def _text(name: str) -> str:
    """The emitter: in the package, or in the clone that the package is imported from."""
    package = Path(__file__).parents[1]
    folders = (package / "contracts", package.parents[1] / "contracts")
    path = next(each for folder in folders if (each := folder / EMITTERS[name]).exists())
    return path.read_text()
