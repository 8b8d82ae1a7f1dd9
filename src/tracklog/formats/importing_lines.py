"""Import files that hold lines of a dialect, and the documents beside them.

A folder such as `.kahn/archive` is imported with one command, and nothing is imported twice: the
offset of a file is stored in the journal, with the records that it gave.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import count
from pathlib import Path

import orjson

from tracklog.dialects import tracklog as native
from tracklog.dialects.checking import checker_for, is_object
from tracklog.dialects.documents import document_of
from tracklog.dialects.recognition import Hints
from tracklog.formats.follow import Follower, SkippedLink, TornLine, UnreadableFile, source_of
from tracklog.formats.importers import HEAD, ImportReport, opened, uncompressed_name
from tracklog.formats.importing_summary import FEW, ImportSummary
from tracklog.home.home import Home
from tracklog.intake.resuming import recorded_names
from tracklog.intake.verdicts import Verdict
from tracklog.journal.frame import Run
from tracklog.model.event import Event
from tracklog.model.fact import Noted
from tracklog.model.lines import BOM, split
from tracklog.model.own_notes import IMPORTED

LINES = {".jsonl", ".ndjson"}
DOCUMENT = ".json"
"""The suffix of a file that holds one document, such as a graph, and no lines."""
FIRST = 20
"""At least one of this many lines at the beginning of a file must be valid."""


def holds_lines(home: Home, path: Path) -> bool:
    """Whether a file begins with lines of a dialect, by the check of that dialect.

    Under another name than such files have, its first line is an object: a text may quote an event.
    """
    with path.open("rb") as file:
        head = file.read(HEAD).removeprefix(BOM)
    check = checker_for(home.dialects.values())
    lines = [line for line in head.split(b"\n")[:FIRST] if line.strip()]
    if path.suffix not in LINES and lines and not lines[0].lstrip().startswith(b"{"):
        return False
    return any(isinstance(check(line.removesuffix(b"\r")), Event) for line in lines)


def torn_line(path: Path, cap: int) -> TornLine | None:
    """The line of a file that has only one, if it is torn: then nothing else says what the file is."""
    with opened(path) as file:
        line = next(split(file, cap), None)
    if line is None or line.whole or (line.size <= cap and is_object(line.data)):
        return None
    has_lines = uncompressed_name(path).suffix in LINES or line.data.lstrip().startswith(b"{")
    return TornLine(path, line.number, line.size) if has_lines else None


class Native:
    """Files of lines, and the documents beside them."""

    def __init__(self, home: Home, paths: Sequence[Path]) -> None:
        self._home = home
        self._paths = paths
        self._hints = Hints(home.dialects.values())
        self._folders = {path.parent.resolve() for path in paths}
        self._above = {above for folder in self._folders for above in folder.parents[:2]}

    def bring(
        self,
        whole: ImportSummary,
        *,
        dry: bool,
        report: Callable[[Path, ImportSummary], None] | None = None,
    ) -> None:
        """Admit what is new in the files of lines."""
        for path in self._paths:
            one = ImportSummary()
            try:
                lines = self._look_ahead(path)
                if dry:
                    self._count(path, one)
                else:
                    self._admit(path, one)
                    one.file_lines.update(one.lines)
                    one.file_lines["torn"] += len(one.torn)
                    one.file_lines["read_before"] += lines - one.file_lines.total()
            except OSError as error:
                one.unread.append((str(path), error.strerror or str(error)))
            if report and (one.lines or one.unread):
                report(path, one)
            whole.add(one)

    def _look_ahead(self, path: Path) -> int:
        """Show all lines to the recogniser; returns their number."""
        intake, number = self._home.intake, count(1)
        with path.open("rb") as file:
            lines = split(file, intake.cap)
            intake.recogniser.look_ahead(line.data for line, _ in zip(lines, number, strict=False))
        return next(number) - 1

    def _count(self, path: Path, one: ImportSummary) -> None:
        one.files = 1
        one.bytes = path.stat().st_size
        with path.open("rb") as file:
            for line in split(file, self._home.intake.cap):
                if line.whole or is_object(line.data):
                    one.lines["told"] += 1
                else:
                    one.torn.append(TornLine(path, line.number, line.size))

    def _admit(self, path: Path, one: ImportSummary) -> None:
        place_of = self._home.intake.offsets.place
        named = (None, *self._home.intake.dialect_names)
        recorded = any(place_of(next(recorded_names(path, each))) for each in named)
        recorded = recorded and not place_of(source_of(path))
        first = self._first_in(path)
        noted: set[Run] = set()
        follower = Follower(self._home.intake, [path], None, self._home.path)
        for result in follower.poll(final=True):
            if isinstance(result, UnreadableFile):
                one.unread.append((str(path), result.why))
                continue
            if isinstance(result, TornLine):
                one.torn.append(result)
                continue
            if isinstance(result, SkippedLink):
                one.unread.append((str(path), "it is a link that leads out of its folder"))
                continue
            one.files = 1
            one.bytes += sum(line.size for line in result.lines)
            one.lines.update(verdict.verdict for verdict in result.verdicts)
            runs = runs_of(self._home, result.verdicts) - noted
            one.notes += note_imported(self._home, path, runs)
            noted |= runs
            for line, verdict in zip(result.lines, result.verdicts, strict=True):
                if verdict.problems:
                    place = f"{path}, line {line.number}"
                    one.refused += [(place, verdict.problems)][: FEW - len(one.refused)]
                    continue
                report = one.by_importer.setdefault(verdict.dialect or "", ImportReport())
                report.mapped[verdict.kind or ""] += 1
                one.runs.add(verdict.run or "")
                if hint := self._hints.of(verdict.dialect, verdict.run):
                    one.hints.append(hint)
        if first is not None and not one.unread:  # an earlier import may have ended before its note
            events = self._events_in(path) if recorded else [first]
            runs = {(event.family, event.run) for event in events}
            one.notes += note_imported(self._home, path, runs - noted)
        if not (one.files or one.unread):
            one.unchanged = 1

    def holds(self, path: Path) -> bool:
        """Whether a file lies where documents of these lines lie: beside them, or one folder above."""
        return path.suffix == DOCUMENT and path.parent.resolve() in self._folders | self._above

    def take(self, path: Path, whole: ImportSummary, *, dry: bool) -> None:
        """Store a document that belongs to the lines beside it; any other file is only counted."""
        try:
            data = path.read_bytes()
        except OSError as error:
            whole.unread.append((str(path), error.strerror or str(error)))
            return
        beside = ImportReport()
        self._keep(path, data, beside, whole, dry=dry)
        if beside.records():
            whole.by_importer.setdefault("beside", ImportReport()).add(beside)

    def _keep(
        self, path: Path, data: bytes, beside: ImportReport, whole: ImportSummary, *, dry: bool
    ) -> None:
        folder = path.parent.resolve()
        document = document_of(path.name, data, self._home.dialects.values())
        first = self._first_of(folder)
        try:
            body = orjson.loads(data.removeprefix(BOM))
        except orjson.JSONDecodeError:
            document = None
        if document is None or first is None or document.dialect.family != first.family:
            beside.ignored[path.name] += 1
            return
        spelled = os.fsencode(path.absolute()).decode("utf-8", "backslashreplace")
        line = native.line(
            Noted(label=document.name, text=None, data=body),
            id=native.line_id("import", "1", first.run, data),
            run=first.run,
            at=first.at,
            family=first.family,
            origin={"writer": "import", "fidelity": "reconstructed", "path": spelled},
        )
        if dry:
            whole.files += 1
            whole.lines["told"] += 1
            return
        (verdict,) = self._home.intake.admit([line], native.dialect.name)
        if verdict.verdict == "duplicate":
            whole.unchanged += 1
            return
        whole.files += 1
        whole.bytes += len(data)
        whole.lines[verdict.verdict] += 1
        beside.mapped[path.name] += 1
        if verdict.problems:
            whole.refused.append((str(path), verdict.problems))

    def _first_of(self, folder: Path) -> Event | None:
        """The first valid line of the files in a folder."""
        beside = (path for path in self._paths if path.parent.resolve() == folder)
        return next(filter(None, map(self._first_in, beside)), None)

    def _first_in(self, path: Path) -> Event | None:
        """The first good line of a file."""
        return next(self._events_in(path), None)

    def _events_in(self, path: Path) -> Iterator[Event]:
        """The good lines of a file."""
        check = checker_for(self._home.dialects.values(), self._home.intake.recogniser)
        with path.open("rb") as file:
            for line in split(file, self._home.intake.cap):
                if isinstance(event := check(line.data), Event):
                    yield event


def runs_of(home: Home, verdicts: Iterable[Verdict]) -> set[Run]:
    """The runs of lines that were recorded; the family of a native line stands in its record."""
    seqs = {(each.dialect, each.run): each.seq for each in verdicts if each.seq}
    return {
        (record.family, record.run)
        for seq in seqs.values()
        for record in home.journal.read(seq - 1, 1)
    }


def note_imported(home: Home, path: Path, runs: Set[Run]) -> int:
    """Records, once per run, that lines of it come from a file and may be of any age.

    A run whose id is empty gets no note: a native line must name its run. Called when the lines are stored, so that no note is about lines that are not. Returns the
    number of new notes.
    """
    if not runs:
        return 0
    spelled = os.fsencode(path.absolute()).decode("utf-8", "backslashreplace")
    lines = [
        native.line(
            Noted(label=IMPORTED, text="lines of this run were imported from a file"),
            id=native.line_id("import", "1", run, IMPORTED.encode()),
            run=run,
            family=family,
            origin={"writer": "import", "fidelity": "observed", "path": spelled},
        )
        for family, run in sorted(runs)
        if run
    ]
    known = home.intake.admit(lines, native.dialect.name)
    assert not any(verdict.problems for verdict in known)
    return sum(verdict.verdict == "accepted" for verdict in known)
