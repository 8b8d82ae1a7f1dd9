"""What an import says about itself: what it mapped, kept, passed over and mended."""

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class Report:
    """Counts by the source's own words; reports add up."""

    mapped: Counter[str] = field(default_factory=Counter)
    """Records whose meaning is told, by type."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Records of types that the mapping does not know: kept whole, as `Noted`."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Records of which nothing is told, and why: copies of what another record tells."""
    opaque: Counter[str] = field(default_factory=Counter)
    """Parts that nobody can read: kept byte by byte, never shown as text."""
    repaired: Counter[str] = field(default_factory=Counter)
    """What was damaged and could be read all the same, or was set aside, by class."""
    fields_ignored: Counter[str] = field(default_factory=Counter)
    """Fields that are told nowhere, by type and name."""
    lifted: Counter[str] = field(default_factory=Counter)
    """Values that were lifted out into blobs, by media type."""

    def add(self, other: "Report") -> None:
        for each in fields(self):
            getattr(self, each.name).update(getattr(other, each.name))

    def records(self) -> int:
        """How many records were read."""
        return self.mapped.total() + self.unknown.total() + self.ignored.total()

    def as_json(self) -> dict[str, dict[str, int]]:
        return {
            each.name: dict(sorted(getattr(self, each.name).items()))
            for each in fields(self)
            if getattr(self, each.name)
        }
