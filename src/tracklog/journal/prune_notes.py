"""The note of who pruned a journal, which stands in the journal itself."""

from collections.abc import Iterator
from typing import Any

import orjson

from tracklog.journal.comparing import RecordFault, Report
from tracklog.journal.frame import Run, record, seq_of
from tracklog.journal.stores import Readable
from tracklog.model.own_notes import OWN_FAMILY, PRUNE, PRUNED

_OPERATIONS: Run = (OWN_FAMILY, "operations")
_NOBODY = "somebody whose name was not recorded"


def check_pruned(store: Readable, report: Report) -> None:
    """Add a fault to the report if records were pruned and no note says so; else say who did it."""
    through = store.origin().through
    if not through:
        return
    who = _who_pruned(store, through)
    if who is None:
        report.faults.insert(
            0,
            RecordFault(
                1,
                f"is gone, and so are those up to {through}: they are noted as pruned, and no record "
                "says who pruned them",
            ),
        )
    else:
        report.notes.append(f"the records up to {through} were pruned by {who}")


def _who_pruned(store: Readable, through: int) -> str | None:
    """Who pruned the records up to a number; None if there is no note of it."""
    for data in _notes(store, PRUNE, _OPERATIONS):
        if _number(data) >= through:
            return str(data.get("by") or _NOBODY)
    for data in _notes(store, PRUNED):  # older versions noted it in the pruned runs only
        if _number(data) == through:
            return str(data.get("by") or _NOBODY)
    return None


def _notes(store: Readable, label: str, run: Run | None = None) -> Iterator[dict[str, Any]]:
    """The data of the notes with a label, of one run or of all."""
    after, word = 0, f'"{label}"'.encode()
    while frames := store.read(after, 1000, run):
        after = seq_of(frames[-1])
        for frame in frames:
            entry = record(frame) if word in frame else None
            if entry is None or entry.dialect != OWN_FAMILY or not entry.line:
                continue
            body = orjson.loads(entry.line)
            if (body.get("fact"), body.get("label")) == ("Noted", label):
                data = body.get("data")
                yield data if isinstance(data, dict) else {}


def _number(data: dict[str, Any]) -> int:
    through = data.get("through")
    return through if isinstance(through, int) else 0
