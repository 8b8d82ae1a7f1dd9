"""A report of what happened to each field in a conversion."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

Fate = Literal["kept", "carried", "dropped", "synthesised"]
FATES: tuple[Fate, ...] = ("kept", "carried", "dropped", "synthesised")


class LossRow(TypedDict):
    """What happened to one field of one kind of event, and how often."""

    kind: str
    field: str
    kept: int
    carried: int
    dropped: int
    synthesised: int


class Losses(TypedDict):
    """A report of losses, as JSON."""

    lossless: bool
    totals: dict[str, int]
    fields: list[LossRow]


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

    def rows(self) -> list[LossRow]:
        """One row per kind and field, with the count of each fate."""
        return [
            LossRow(
                kind=kind,
                field=name,
                kept=self.counts[kind, name, "kept"],
                carried=self.counts[kind, name, "carried"],
                dropped=self.counts[kind, name, "dropped"],
                synthesised=self.counts[kind, name, "synthesised"],
            )
            for kind, name in sorted({(kind, name) for kind, name, _ in self.counts})
        ]

    def as_json(self) -> Losses:
        """The report as JSON."""
        return {"lossless": self.lossless, "totals": self.totals(), "fields": self.rows()}
