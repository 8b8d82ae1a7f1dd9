"""Attack a journal after a checkpoint that a witness signed, and count what is found."""

import os
import random
import tempfile
from collections import Counter
from pathlib import Path

from support.attacking import ALL, Witnessed


def tried(each: int, chance: random.Random, folder: Path) -> Counter[str]:
    """So many attacks of every kind, each kind on a journal of its own."""
    counts = Counter[str](missed=0)
    for kind in ALL:
        journal = Witnessed(folder / kind, chance)
        for _ in range(each):
            found = journal.finds(kind)
            counts.update({"rewrites": 1, "found": found, "missed": not found, kind: 1})
        if kind != "omit":
            assert journal.witness.alerts(), "the witness must have raised an alert"
        journal.close()
    return counts


def turn(number: int) -> Counter[str]:
    """Forty attacks."""
    chance = random.Random(f"{os.urandom(4).hex()} {number}")
    with tempfile.TemporaryDirectory(prefix="tracklog-soak-") as folder:
        return tried(5, chance, Path(folder))
