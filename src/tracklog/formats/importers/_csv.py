"""Read files of comma-separated values whose cells may be JSON."""

import csv
import io
from pathlib import Path
from typing import Any

from tracklog.formats.importers import DAMAGED, Raw
from tracklog.formats.importers._snapshots import JsonLines, parsed
from tracklog.model.lines import BOM

MOST = 1 << 30
"""The longest cell; Python reads only short ones unless it is told."""


def header(head: bytes) -> list[str]:
    """The names of the columns, from the beginning of a file."""
    first, end, _ = head.partition(b"\n")
    return next(_rows(first.decode("utf-8", "replace")), []) if end else []


def csv_rows(path: Path, what: str) -> JsonLines:
    """The rows of a file as objects; an empty cell is left out. `what` names one, as in "an event"."""
    data = path.read_bytes()
    rows = list(_rows(data.removeprefix(BOM).decode("utf-8", "replace")))
    names = rows[0] if rows else []
    values: list[tuple[bytes, Any]] = []
    damaged: list[Raw] = []
    for place, row in enumerate(rows[1:], 1):
        if len(row) == len(names):
            cells = zip(names, row, strict=True)
            values.append((b"", {name: _cell(cell) for name, cell in cells if cell != ""}))
        elif row:
            flaw = "torn-tail" if place == len(rows) - 1 else "irreparable"
            raw = "\n".join(row).encode("utf-8", "replace")
            damaged.append(
                Raw(0, raw, DAMAGED, ((flaw, f"{what} without its columns"),), exact=False)
            )
    return JsonLines(values, damaged, len(data))


def _rows(text: str) -> Any:
    before = csv.field_size_limit(MOST)
    try:
        yield from csv.reader(io.StringIO(text, newline=""))
    finally:
        csv.field_size_limit(before)


def _cell(text: str) -> Any:
    """A cell; one that is a JSON string is its content."""
    return inner if text[:1] == '"' and isinstance(inner := parsed(text), str) else text
