"""What is surprising in a transcript as a whole: its lines, its run, its name, its links."""

from pathlib import Path

from tracklog.dialects.awf import dialect
from tracklog.event import Event, Finding
from tracklog.lint import Lint
from tracklog.transcript.reader import Flaw, Reader, Reading


def lint(path: str | Path) -> list[Flaw]:
    """Every flaw and every finding of one file, in the order of the file; nothing is refused."""
    path = Path(path)
    lint, found = Lint([dialect]), []
    runs: set[str] = set()
    for each in Reader(path):
        if isinstance(each, Flaw):
            found.append(each)
            continue
        event = each.event
        if isinstance(event, Event):
            found += [_flaw(finding, each) for finding in lint.hear(event)]
            runs.add(event.run)
            found += [_flaw(finding, each) for finding in _links(event, path)]
    found += [Flaw(rest.name, 0, 0, rest.message, rest.level) for _, _, rest in lint.rest()]
    return found + _file(path, runs)


def _links(event: Event, path: Path) -> list[Finding]:
    child = event.body.get("child_run_id")
    if event.kind != "step.call_workflow.started" or not isinstance(child, str):
        return []
    if path.with_name(f"{child}.jsonl").exists():
        return []
    return [Finding("link-child", f"the transcript of {child} is missing")]


def _file(path: Path, runs: set[str]) -> list[Flaw]:
    found = []
    if len(runs) > 1:
        found.append(Flaw("run-id-mixed", 0, 0, f"{len(runs)} runs in one file"))
    if runs and path.stem not in runs:
        found.append(Flaw("file-name", 0, 0, f"{path.name} is not named after its run"))
    return found


def _flaw(finding: Finding, reading: Reading) -> Flaw:
    return Flaw(finding.name, reading.number, reading.offset, finding.message, finding.level)
