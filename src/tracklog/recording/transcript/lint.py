"""Findings about a transcript file: its lines, its run, its name, its links."""

from pathlib import Path

from tracklog.dialects.awf import dialect
from tracklog.dialects.rules import Lint
from tracklog.model.event import Event, Finding
from tracklog.recording.transcript.reader import Flaw, TranscriptEvent, TranscriptReader


class File:
    """Findings about a transcript as one file among others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: set[str] = set()

    def add(self, event: Event) -> list[Finding]:
        """The findings at an event."""
        if event.dialect != dialect.name:
            return []
        self._runs.add(event.run)
        child = event.body.get("child_run_id")
        if event.kind != "step.call_workflow.started" or not isinstance(child, str):
            return []
        if self.path.with_name(f"{child}.jsonl").exists():
            return []
        return [Finding("link-child", f"the transcript of {child} is missing")]

    def rest(self) -> list[Finding]:
        """The findings at the end of the file."""
        findings = []
        if len(self._runs) > 1:
            findings.append(Finding("run-id-mixed", f"{len(self._runs)} runs in one file"))
        if self._runs and self.path.stem not in self._runs:
            findings.append(Finding("file-name", f"{self.path.name} is not named after its run"))
        return findings


def recorder_file(path: Path) -> File | None:
    """Whether a transcript stands in the folder of a recorder, where files are named after their
    run.
    """
    path = path.absolute()
    return File(path) if (path.parent.name, path.suffix) == ("transcripts", ".jsonl") else None


def lint(path: str | Path) -> list[Flaw]:
    """Every flaw and every finding of one file, in the order of the file; nothing is refused."""
    lint, file, results = Lint([dialect]), File(Path(path)), []
    for each in TranscriptReader(file.path):
        if isinstance(each, Flaw):
            results.append(each)
        elif isinstance(each.event, Event):
            findings = [*lint.add(each.event), *file.add(each.event)]
            results += [_flaw(finding, each) for finding in findings]
    rest = [*(finding for _, _, finding in lint.rest()), *file.rest()]
    return results + [Flaw(each.name, 0, 0, each.message, each.level) for each in rest]


def _flaw(finding: Finding, reading: TranscriptEvent) -> Flaw:
    return Flaw(finding.name, reading.number, reading.offset, finding.message, finding.level)
