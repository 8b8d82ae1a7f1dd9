"""Counts of an import: records mapped, unknown, ignored and repaired."""

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class ImportReport:
    """Counts under the source's own words; reports can be added."""

    mapped: Counter[str] = field(default_factory=Counter)
    """Records that were mapped, by type."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Records of types that the mapping does not know: stored complete, as `Noted`."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Records that give no facts, with the reason: copies of other records."""
    opaque: Counter[str] = field(default_factory=Counter)
    """Encrypted parts: stored byte by byte, never shown as text."""
    repaired: Counter[str] = field(default_factory=Counter)
    """Damage that could be read all the same, or was set aside, by class."""
    lifted: Counter[str] = field(default_factory=Counter)
    """Values that were moved to blobs, by media type."""

    def add(self, other: "ImportReport") -> None:
        for each in fields(self):
            getattr(self, each.name).update(getattr(other, each.name))

    def records(self) -> int:
        """The number of records read."""
        return self.mapped.total() + self.unknown.total() + self.ignored.total()

    def as_json(self) -> dict[str, dict[str, int]]:
        return {
            each.name: dict(sorted(getattr(self, each.name).items()))
            for each in fields(self)
            if getattr(self, each.name)
        }
