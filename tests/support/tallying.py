"""What the tests of crashes, faults and races count; a table at the end of all tests prints it."""

from collections import Counter

import pytest

COLUMNS = ("kills", "inside", "faults", "races", "acknowledged", "lost", "doubled")
"""`inside`: kills in the middle of a write or a request; `faults`: calls of the disk that were made
to fail; `races`: keys that were sent to two collectors at once."""


class Tally:
    """The counts of one test."""

    def __init__(self, record_property) -> None:
        self.counts: Counter[str] = Counter()
        self._record = record_property

    def add(self, **counts: int) -> None:
        assert counts.keys() <= set(COLUMNS)
        self.counts.update(counts)

    def done(self, way: str) -> None:
        """Gives the counts to the table, and holds the law to them."""
        self._record("crash", {"way": way, **self.counts})
        assert self.counts["lost"] == 0
        assert self.counts["doubled"] == 0


@pytest.fixture
def tally(record_property):
    return Tally(record_property)


def table(rows: list[dict]) -> list[str]:
    """The lines of the table: rows of the same name are added up, and all of them at the end."""
    sums: dict[str, Counter[str]] = {}
    for row in sorted(rows, key=lambda row: row["way"]):
        counts = {name: row.get(name, 0) for name in COLUMNS}
        for way in (row["way"], "in all"):
            sums.setdefault(way, Counter()).update(counts)
    sums["in all"] = sums.pop("in all")
    width = max(map(len, sums)) + 2
    head = " " * width + "".join(f"{name:>14}" for name in COLUMNS)
    return [head] + [
        f"{way:<{width}}" + "".join(f"{counts[name]:>14,}" for name in COLUMNS)
        for way, counts in sums.items()
    ]
