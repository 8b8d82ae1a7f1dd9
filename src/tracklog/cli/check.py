"""`tracklog check`: is every line good, and is anything odd across them?"""

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from tracklog.cli import _names
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.check import Found, Verdict

SPOOL = 8 * 1024 * 1024


@click.command(
    epilog="""\b
Examples:
  tracklog check events.jsonl
  tracklog check --dialect kahn-agent runs/*.jsonl
  some-agent | tracklog check --json
\b
Exit code: 0 all accepted, 1 something refused, 2 usage or I/O.""",
)
@click.argument("files", nargs=-1, metavar="[FILES|-]")
@click.option(
    "--dialect",
    metavar="NAME",
    shell_complete=_names.of("dialects"),
    help="Read every line as this dialect.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, then findings.")
@click.option("--verbose", "-v", is_flag=True, help="Show accepted lines too.")
@click.option("--max-line", type=click.IntRange(min=1), metavar="BYTES", help="The line cap.")
def command(
    files: tuple[str, ...],
    dialect: str | None,
    as_json: bool,
    verbose: bool,
    max_line: int | None,
) -> None:
    """Tell for every line whether it is good, and if not, every fault with its place and a hint.

    A line whose dialect is not given is recognised; an ambiguous one is said to be so.
    Of a file in a folder of transcripts it is also told if its name or its links are amiss.
    """
    from tracklog import registry  # noqa: PLC0415  # the dialects are slow to import
    from tracklog.check import Found, check  # noqa: PLC0415
    from tracklog.event import Event  # noqa: PLC0415
    from tracklog.lines import CAP, split  # noqa: PLC0415
    from tracklog.transcript.lint import kept  # noqa: PLC0415

    dialects = [registry.dialect(dialect)] if dialect else registry.dialects()
    cap = max_line or CAP
    report = _Json() if as_json else _Words(verbose)
    unread = 0
    for name in terminal.inputs(files):
        report.open(name)
        file = kept(Path(name))
        try:
            with terminal.opened(name) as source:
                for result in check(split(source, cap), dialects, cap):
                    if isinstance(result, Found):
                        report.found(result)
                        continue
                    report.judged(result)
                    if file and isinstance(result.result, Event):
                        for finding in file.hear(result.result):
                            report.found(Found(result.line, finding, result.result.dialect))
        except terminal.Unreadable as error:
            unread += 1
            terminal.say_error(error.message)
        else:
            for finding in file.rest() if file else ():
                report.found(Found(None, finding))
            report.close()
    report.end()
    sys.exit(2 if unread else 1 if report.refused else 0)


class _Words:
    """The report for a person: what is wrong, then a count."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.refused = 0
        self.counts: Counter[str] = Counter()

    def open(self, name: str) -> None:
        self.name = terminal.plain(terminal.named(name))
        self.counts.clear()
        self.named = False

    def judged(self, verdict: "Verdict") -> None:
        result = verdict.result
        what = terminal.plain(" ".join(filter(None, (result.dialect, result.kind))))
        problems = getattr(result, "problems", ())
        if not problems:
            self.counts["accepted"] += 1
            self.counts[result.dialect or ""] += 1
            if self.verbose:
                run = terminal.plain(f"run {result.run}")
                self._row(verdict.line, "accepted", "green", f"{what}  {run}")
            return
        self.counts["refused"] += 1
        self.refused += 1
        self._row(verdict.line, "refused", "red", what)
        for problem in problems:
            place = click.style(terminal.plain(problem.pointer) or "the line", bold=True)
            click.echo(f"{'':21}{place}  {terminal.plain(problem.message)}")
            click.echo(f"{'':23}{click.style(terminal.plain(problem.hint), dim=True)}")

    def found(self, found: "Found") -> None:
        self.counts["found"] += 1
        name, message, level = found.finding
        colour = {"error": "red", "warning": "yellow", "info": "cyan"}[level]
        where = f"  (run {found.run})" if found.line is None and found.run else ""
        said = terminal.plain(f"{message}{where}")
        self._row(found.line, level, colour, f"{click.style(name, bold=True)}  {said}")

    def _row(self, line: int | None, word: str, colour: str, text: str) -> None:
        if not self.named:
            click.secho(self.name, bold=True)
            self.named = True
        place = "at end" if line is None else f"line {line}"
        word = click.style(f"{word:<8}" if text else word, fg=colour)
        click.echo(f"  {place:<9} {word} {text}".rstrip())

    def close(self) -> None:
        accepted, refused, found = (self.counts.pop(k, 0) for k in ("accepted", "refused", "found"))
        dialects = ", ".join(f"{name} {n:,}" for name, n in self.counts.most_common())
        if not accepted and not refused:
            click.echo(f"{self.name}: no lines; check it again when something was written")
            return
        words = [f"{accepted:,} accepted" + (f" ({dialects})" if dialects else "")]
        words.append(click.style(f"{refused:,} refused", fg="red" if refused else None))
        words.append(terminal.count(found, "finding"))
        click.echo(f"{self.name}: {', '.join(words)}")

    def end(self) -> None:
        pass


class _Json:
    """The report for a program: an object per line, then the findings, held in bounded memory."""

    def __init__(self) -> None:
        self.refused = 0
        self.later: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL)  # noqa: SIM115  # until end

    def open(self, name: str) -> None:
        self.name = name

    def judged(self, verdict: "Verdict") -> None:
        result = verdict.result
        problems = [problem._asdict() for problem in getattr(result, "problems", ())]
        self.refused += bool(problems)
        said: dict[str, Any] = {
            "file": self.name,
            "line": verdict.line,
            "verdict": "refused" if problems else "accepted",
            "dialect": result.dialect,
            "kind": result.kind,
            "run": result.run,
            "problems": problems,
        }
        terminal.put_json(said)

    def found(self, found: "Found") -> None:
        name, message, level = found.finding
        said = {"finding": name, "line": found.line, "message": message, "level": level}
        said |= {"file": self.name, "dialect": found.dialect, "run": found.run}
        self.later.write(terminal.json_line(said))

    def close(self) -> None:
        pass

    def end(self) -> None:
        with self.later:
            self.later.seek(0)
            terminal.put_parts(iter(lambda: self.later.read(SPOOL), b""))
        sys.stdout.buffer.flush()
