"""The counters, and their format for Prometheus."""

import time
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracklog.intake.verdicts import Verdict

WORD = itemgetter(0)
"""The word of a verdict: accepted, duplicate or refused."""
Sample = tuple[tuple[tuple[str, str], ...], float]
"""Labels and a value."""


class Counts:
    """Counters since the server started."""

    def __init__(self) -> None:
        self.began = time.time()
        self.verdicts: Counter[tuple[str, str]] = Counter()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.points = 0
        """Data points of metrics that were received and dropped."""

    def lines(self, dialect: str | None, verdicts: "list[Verdict]") -> None:
        of = dialect or "any"
        words = set(map(WORD, verdicts))
        if len(words) == 1:
            self.verdicts[of, words.pop()] += len(verdicts)
        else:
            for word in map(WORD, verdicts):
                self.verdicts[of, word] += 1


class Metric:
    """One family of the exposition format."""

    def __init__(self, name: str, kind: str, about: str, samples: Iterable[Sample]) -> None:
        self.name, self.kind, self.about, self.samples = f"tracklog_{name}", kind, about, samples

    def __str__(self) -> str:
        lines = [f"# HELP {self.name} {self.about}", f"# TYPE {self.name} {self.kind}"]
        for labels, value in self.samples:
            pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            lines.append(f"{self.name}{f'{{{pairs}}}' if pairs else ''} {value:.15g}")
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
