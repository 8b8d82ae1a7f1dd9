"""The result of an import: what was read, recorded, refused and left alone."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tracklog.formats.follow import TornLine
from tracklog.formats.importers import ImportReport
from tracklog.model.event import Problem

FEW = 20
"""How many refusals are listed one by one."""


@dataclass(slots=True)
class ImportSummary:
    """The result of an import."""

    files: int = 0
    """Sources that were read."""
    unchanged: int = 0
    """Sources that had nothing new."""
    bytes: int = 0
    lines: Counter[str] = field(default_factory=Counter)
    """Lines by verdict: accepted, duplicate, refused; `told` in a dry run."""
    runs: set[str] = field(default_factory=set)
    by_importer: dict[str, ImportReport] = field(default_factory=dict)
    again: Counter[str] = field(default_factory=Counter)
    """Sources that were read from their start again, by reason."""
    gone: list[str] = field(default_factory=list)
    """Sources that no longer exist; their records stay."""
    unread: list[tuple[str, str]] = field(default_factory=list)
    """Files that could not be read, with the reason."""
    unrecognised: list[str] = field(default_factory=list)
    """Files that no importer recognises."""
    ambiguous: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Those of them that several importers would read, with the names of these importers."""
    companions: int = 0
    """Files that belong to a conversation that is read from another file."""
    refused: list[tuple[str, tuple[Problem, ...]]] = field(default_factory=list)
    """The first lines that were refused."""
    torn: list[TornLine] = field(default_factory=list)
    """Last lines that are incomplete."""
    file_lines: Counter[str] = field(default_factory=Counter)
    """The lines in files of a dialect: accepted, duplicate, refused, read_before or torn."""
    notes: int = 0
    """Records that say of a run that its lines were imported."""
    events: Counter[str] = field(default_factory=Counter)
    """By importer, the events that the records of its files gave."""
    empty: list[str] = field(default_factory=list)
    """Files without a single line."""
    hints: list[str] = field(default_factory=list)
    """Hints about lines whose dialect is not certain."""

    def add(self, one: "ImportSummary") -> None:
        """Add the result of one source."""
        self.files += one.files
        self.unchanged += one.unchanged
        self.bytes += one.bytes
        self.lines.update(one.lines)
        self.runs |= one.runs
        self.again.update(one.again)
        self.unread += one.unread
        self.hints += one.hints
        self.torn += one.torn
        self.file_lines.update(one.file_lines)
        self.notes += one.notes
        self.events.update(one.events)
        self.empty += one.empty
        self.refused += one.refused[: FEW - len(self.refused)]
        for name, report in one.by_importer.items():
            self.by_importer.setdefault(name, ImportReport()).add(report)

    def report(self) -> ImportReport:
        """The reports of all importers together."""
        whole = ImportReport()
        for each in self.by_importer.values():
            whole.add(each)
        return whole

    def as_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "unchanged": self.unchanged,
            "bytes": self.bytes,
            "runs": len(self.runs),
            "lines": dict(self.lines),
            "file_lines": dict(self.file_lines),
            "notes": self.notes,
            "empty": self.empty,
            "read_again": dict(self.again),
            "importers": {name: each.as_json() for name, each in self.by_importer.items()},
            "gone": self.gone,
            "unread": [{"path": path, "why": why} for path, why in self.unread],
            "unrecognised": self.unrecognised,
            "ambiguous": {path: list(names) for path, names in self.ambiguous.items()},
            "companions": self.companions,
            "torn": [
                {"place": each.place, "bytes": each.size, "stored": each.stored}
                for each in self.torn
            ],
            "hints": self.hints,
        }
