"""The output of `tracklog check` in each of its formats: for a person, a program, GitHub and SARIF."""

import os
import sys
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from hashlib import sha256
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Protocol
from urllib.parse import quote

import click

from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.dialects.checking import LineVerdict, LocatedFinding
    from tracklog.model.event import Problem

SPOOL = 8 * 1024 * 1024
LEVELS = ("info", "warning", "error")
"""The levels, in increasing order."""
HINT = "hint"
"""The code of a hint; that of a finding is its name."""


class CheckReport(Protocol):
    """The report on some files, written as results come."""

    def open(self, name: str) -> None: ...
    def judged(self, verdict: "LineVerdict") -> None: ...
    def finding(self, finding: "LocatedFinding") -> None: ...
    def hint(self, hint: str) -> None: ...
    def unread(self, message: str) -> None: ...
    def close(self) -> None: ...
    def end(self) -> None: ...


def _explained(problem: "Problem") -> str:
    place = problem.pointer or "the line"
    return f"{place}: {problem.message} ({problem.hint})" if problem.hint else problem.message


class TextReport:
    """The report for a person: the problems, then a count."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.counts: Counter[str] = Counter()

    def open(self, name: str) -> None:
        self.name = terminal.printable(terminal.named(name))
        self.counts.clear()
        self.named = False

    def judged(self, verdict: "LineVerdict") -> None:
        result = verdict.result
        what = terminal.printable(" ".join(filter(None, (result.dialect, result.kind))))
        problems = getattr(result, "problems", ())
        if not problems:
            self.counts["accepted"] += 1
            self.counts[result.dialect or ""] += 1
            if self.verbose:
                run = terminal.printable(f"run {result.run}")
                self._row(verdict.line, "accepted", "green", f"{what}  {run}")
            return
        self.counts["refused"] += 1
        self._row(verdict.line, "refused", "red", what)
        for problem in problems:
            place = click.style(terminal.printable(problem.pointer) or "the line", bold=True)
            click.echo(f"{'':21}{place}  {terminal.printable(problem.message)}")
            click.echo(f"{'':23}{click.style(terminal.printable(problem.hint), dim=True)}")

    def finding(self, finding: "LocatedFinding") -> None:
        self.counts["found"] += 1
        name, message, level = finding.finding
        colour = {"error": "red", "warning": "yellow", "info": "cyan"}[level]
        where = f"  (run {finding.run})" if finding.line is None and finding.run else ""
        text = terminal.printable(f"{message}{where}")
        self._row(finding.line, level, colour, f"{click.style(name, bold=True)}  {text}")

    def _row(self, line: int | None, word: str, colour: str, text: str) -> None:
        if not self.named:
            click.secho(self.name, bold=True)
            self.named = True
        place = "at end" if line is None else f"line {line}"
        word = click.style(f"{word:<8}" if text else word, fg=colour)
        click.echo(f"  {place:<9} {word} {text}".rstrip())

    def close(self) -> None:
        accepted, refused, findings = (
            self.counts.pop(k, 0) for k in ("accepted", "refused", "found")
        )
        dialects = ", ".join(f"{name} {n:,}" for name, n in self.counts.most_common())
        if not accepted and not refused:
            click.echo(f"{self.name}: no lines; check it again when something was written")
            return
        words = [f"{accepted:,} accepted" + (f" ({dialects})" if dialects else "")]
        words.append(click.style(f"{refused:,} refused", fg="red" if refused else None))
        words.append(terminal.count(findings, "finding"))
        click.echo(f"{self.name}: {', '.join(words)}")

    def hint(self, hint: str) -> None:
        pass  # printed to stderr in every format

    def unread(self, message: str) -> None:
        pass  # printed to stderr in every format

    def end(self) -> None:
        pass


class JsonReport:
    """The report for a program: an object per line, then the findings, with bounded memory."""

    def __init__(self) -> None:
        self.later: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL)  # noqa: SIM115  # until end

    def open(self, name: str) -> None:
        self.name = name

    def judged(self, verdict: "LineVerdict") -> None:
        result = verdict.result
        problems = [problem._asdict() for problem in getattr(result, "problems", ())]
        terminal.put_json(
            {
                "file": self.name,
                "line": verdict.line,
                "verdict": "refused" if problems else "accepted",
                "dialect": result.dialect,
                "kind": result.kind,
                "run": result.run,
                "problems": problems,
            }
        )

    def finding(self, finding: "LocatedFinding") -> None:
        name, message, level = finding.finding
        row = {"finding": name, "code": name, "line": finding.line, "message": message}
        row |= {"level": level}
        row |= {"file": self.name, "dialect": finding.dialect, "run": finding.run}
        self.later.write(terminal.json_line(row))

    def hint(self, hint: str) -> None:
        self.later.write(terminal.json_line({"hint": hint, "file": self.name}))

    def unread(self, message: str) -> None:
        pass  # printed to stderr in every format

    def close(self) -> None:
        pass

    def end(self) -> None:
        with self.later:
            self.later.seek(0)
            terminal.put_parts(iter(lambda: self.later.read(SPOOL), b""))
        sys.stdout.buffer.flush()


class AnnotationReport(ABC):
    """A report that puts each problem, finding and hint at its line, with a level."""

    info: str
    """The name of the level info in this format."""

    def judged(self, verdict: "LineVerdict") -> None:
        for problem in getattr(verdict.result, "problems", ()):
            self._put("error", verdict.line, problem.code, _explained(problem))

    def finding(self, finding: "LocatedFinding") -> None:
        name, message, level = finding.finding
        where = f" (run {finding.run})" if finding.line is None and finding.run else ""
        word = self.info if level == "info" else level
        self._put(word, finding.line, name, message + where)

    def hint(self, hint: str) -> None:
        self._put(self.info, None, HINT, hint)

    @abstractmethod
    def _put(self, level: str, line: int | None, code: str, message: str) -> None:
        """Write one entry."""


class GitHubReport(AnnotationReport):
    """Workflow commands, which GitHub Actions shows as annotations of the lines."""

    info = "notice"

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def open(self, name: str) -> None:
        self.name = terminal.spelled(name)

    def unread(self, message: str) -> None:
        self.counts["error", "unreadable"] += 1
        click.echo(f"::error title=unreadable::{_data(message)}")

    def _put(self, level: str, line: int | None, code: str, message: str) -> None:
        place = {} if self.name == "-" else {"file": self.name}
        if line is not None:
            place["line"] = str(line)
        place["title"] = code
        properties = ",".join(f"{key}={_property(value)}" for key, value in place.items())
        self.counts[level, code] += 1
        click.echo(f"::{level} {properties}::{_data(message)}")

    def close(self) -> None:
        pass

    def end(self) -> None:
        """Add the counts to the summary of the job: GitHub shows only some of the annotations."""
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if not path:
            return
        order = ("error", "warning", self.info)
        rows = sorted(self.counts.items(), key=lambda row: (order.index(row[0][0]), -row[1]))
        table = [f"| {level} | `{code}` | {count:,} |" for (level, code), count in rows]
        head = ["| level | code | number |", "|---|---|---|"] if table else ["Nothing was found."]
        with Path(path).open("a") as summary:
            summary.write("\n".join(["### tracklog check", "", *head, *table, "", ""]))


def _data(text: str) -> str:
    """A message in a workflow command: on one line, whatever it holds."""
    text = "\n".join(map(terminal.printable, text.encode("utf-8", "replace").decode().split("\n")))
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


class SarifReport(AnnotationReport):
    """One SARIF 2.1.0 log, written as results come; the rules follow them."""

    info = "note"

    def __init__(self) -> None:
        self.rules: dict[str, int] = {}
        self.levels: dict[str, str] = {}
        self.entries: Counter[str] = Counter()
        self.errors: list[str] = []
        self.any = False
        self._write(
            '{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0",'
            '"runs":[{"results":['
        )

    def _write(self, text: str) -> None:
        sys.stdout.buffer.write(text.encode())

    def open(self, name: str) -> None:
        self.uri = _uri(name)

    def unread(self, message: str) -> None:
        self.errors.append(message)

    def _put(self, level: str, line: int | None, code: str, message: str) -> None:
        region = {} if line is None else {"region": {"startLine": line}}
        base = {} if self.uri.startswith("file:") else {"uriBaseId": "%SRCROOT%"}
        place = {"artifactLocation": {"uri": self.uri, **base}, **region}
        self.levels.setdefault(code, level)
        result = {
            "ruleId": code,
            "ruleIndex": self.rules.setdefault(code, len(self.rules)),
            "level": level,
            "message": {"text": message},
            "locations": [{"physicalLocation": place}],
            "partialFingerprints": {"tracklog/v1": self._fingerprint(code, message)},
        }
        self._write("," if self.any else "")
        terminal.put_bytes(terminal.json_line(result).rstrip(b"\n"))
        self.any = True

    def _fingerprint(self, code: str, message: str) -> str:
        """The same for the same entry of a later version of the file, whatever its line is then."""
        entry = f"{self.uri}\n{code}\n{message}"
        self.entries[entry] += 1
        return sha256(f"{entry}\n{self.entries[entry]}".encode("utf-8", "replace")).hexdigest()

    def close(self) -> None:
        self.entries.clear()

    def end(self) -> None:
        from tracklog import __version__
        from tracklog.model.problems import CODES

        rules = [
            {
                "id": code,
                "shortDescription": {"text": CODES.get(code, code)},
                "defaultConfiguration": {"level": self.levels[code]},
            }
            for code in self.rules
        ]
        driver = {"name": "tracklog", "version": __version__, "rules": rules}
        notes = [{"level": "error", "message": {"text": error}} for error in self.errors]
        noted = {"toolExecutionNotifications": notes} if notes else {}
        invocation = {"executionSuccessful": not notes, **noted}
        rest = {
            "tool": {"driver": driver},
            "columnKind": "unicodeCodePoints",
            "invocations": [invocation],
        }
        self._write("],")
        terminal.put_bytes(terminal.json_line(rest).rstrip(b"\n")[1:-1])
        self._write("}]}\n")
        sys.stdout.buffer.flush()


def _uri(name: str) -> str:
    """A file name as a URI reference: relative as given, absolute with its scheme."""
    if name == "-":
        return "stdin"
    path = quote(os.fsencode(PurePath(name).as_posix()), safe="/")
    return f"file://{path}" if path.startswith("/") else path


FORMATS = ("text", "json", "github", "sarif")


def report(format: str, *, verbose: bool) -> CheckReport:
    """The report in a format."""
    match format:
        case "json":
            return JsonReport()
        case "github":
            return GitHubReport()
        case "sarif":
            return SarifReport()
    return TextReport(verbose)
