"""Run the parts of the soak until each has reached its goal, and print what they counted.

    python -m soak [--minutes N] [--state FOLDER] [--table] [PART ...]

What was counted is stored after every turn, so it can be stopped at any time and called again; the
turn that was interrupted does not count. Exit code 1 if anything was lost, doubled or not found.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple


class Part(NamedTuple):
    """One kind of chaos."""

    module: str
    function: str
    """Runs one turn, given its number, and returns counts."""
    count: str
    """What is counted towards the goal."""
    goal: int
    bad: tuple[str, ...]
    """Counts that must be zero."""
    latest: tuple[str, ...] = ()
    """What is not added up: the value of the last turn counts."""

    @property
    def turn(self) -> Callable[[int], Counter[str]]:
        return getattr(import_module(f"soak.{self.module}"), self.function)


SLOPE = ("events_per_second", "kilobytes_per_hour", "kilobytes_at_most")
BAD = ("lost", "doubled", "faults")
PARTS = {
    "kills-writer": Part("kills", "writer", "kills", 9_000, BAD),
    "kills-serve": Part("kills", "serve", "kills", 1_000, (*BAD, "5xx")),
    "rewrites": Part("rewrites", "turn", "rewrites", 1_000, ("missed",)),
    "faults": Part("faults", "turn", "injected", 10_000, ("lost",)),
    "lines": Part("hostile", "lines", "inputs", 10_000_000, ("failures",)),
    "requests": Part("hostile", "requests", "inputs", 1_000_000, ("failures",)),
    "memory": Part("memory", "turn", "seconds_of_load", 3_600, ("unanswered",), SLOPE),
}


def stored(folder: Path, name: str) -> Counter[str]:
    path = folder / f"{name}.json"
    return Counter(json.loads(path.read_text())) if path.exists() else Counter()


def store(folder: Path, name: str, counts: Counter[str]) -> None:
    path = folder / f"{name}.json"
    path.with_suffix(".new").write_text(json.dumps(counts, indent=1))
    path.with_suffix(".new").replace(path)


def run(name: str, part: Part, folder: Path, until: float) -> None:
    """Turns of one part until its goal is reached, or the time is over."""
    counts = stored(folder, name)
    while counts[part.count] < part.goal and time.monotonic() < until:
        begun = time.monotonic()
        more = part.turn(counts["turns"])
        counts.subtract({name: counts[name] for name in part.latest})
        counts.update(more)
        counts.update({"turns": 1, "seconds": round(time.monotonic() - begun)})
        store(folder, name, counts)


def table(folder: Path) -> list[str]:
    rows = ["| part | goal | counted |", "|---|---|---|"]
    for name, part in PARTS.items():
        counts = stored(folder, name)
        said = ", ".join(
            f"{value:,} {key}" for key, value in counts.items() if value or key in part.bad
        )
        rows.append(f"| `{name}` | {part.goal:,} {part.count} | {said or 'not run'} |")
    return rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__.split("\n", 1)[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--minutes", type=float, default=60, help="stop after so long")
    parser.add_argument("--state", type=Path, default=Path(".soak"), help="where counts are stored")
    parser.add_argument("--table", action="store_true", help="print what was counted, run nothing")
    given = parser.parse_args(arguments)
    given.state.mkdir(exist_ok=True)
    until = time.monotonic() + 60 * given.minutes
    try:
        for name in [] if given.table else given.parts or PARTS:
            run(name, PARTS[name], given.state, until)
    except KeyboardInterrupt:
        print("stopped; call it again to go on", file=sys.stderr)
    print(*table(given.state), sep="\n")
    bad = [
        f"{name}: {counts[key]} {key}"
        for name, part in PARTS.items()
        for counts in [stored(given.state, name)]
        for key in part.bad
        if counts[key]
    ]
    print(*bad, sep="\n", file=sys.stderr, end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
