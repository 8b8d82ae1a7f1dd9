"""A report of what happened to each field in a conversion."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

Fate = Literal["kept", "carried", "dropped", "synthesised"]
FATES: tuple[Fate, ...] = ("kept", "carried", "dropped", "synthesised")


@dataclass(slots=True)
class LossReport:
    """How often each field was kept, carried in an extension, dropped, or synthesised."""

    counts: Counter[tuple[str, str, Fate]] = field(default_factory=Counter)
    """By the kind of event, the field, and its fate."""

    def add(self, kind: str, field: str, fate: Fate, times: int = 1) -> None:
        self.counts[kind, field, fate] += times

    @property
    def lossless(self) -> bool:
        """Whether nothing was dropped, and nothing was added that the source does not have."""
        return not any(fate in ("dropped", "synthesised") for _, _, fate in self.counts)

    def totals(self) -> dict[str, int]:
        """The number of fields by fate."""
        sums = Counter[str]()
        for (_, _, fate), times in self.counts.items():
            sums[fate] += times
        return {fate: sums[fate] for fate in FATES}

    def rows(self) -> list[dict[str, Any]]:
        """One row per kind and field, with the count of each fate."""
        table: dict[tuple[str, str], dict[str, Any]] = {}
        for (kind, name, fate), times in sorted(self.counts.items()):
            empty: dict[str, Any] = {"kind": kind, "field": name}
            empty |= dict.fromkeys(FATES, 0)
            table.setdefault((kind, name), empty)[fate] = times
        return list(table.values())

    def as_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return {"lossless": self.lossless, "totals": self.totals(), "fields": self.rows()}
