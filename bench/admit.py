"""What the whole way in costs: check, identity, frame, leaf and chain, in batches of 64."""

import os
import tempfile
from pathlib import Path

import orjson

from corpus import corpus
from timing import goal, interleaved
from tracklog.home import registry
from tracklog.intake.intake import Intake
from tracklog.journal.journal import Journal
from tracklog.journal.stores.file import FileStore

COUNT = 60_000
BATCH = 64
ROUNDS = 7


def main() -> None:
    mixed = corpus(COUNT)
    by_dialect: dict[str, list[bytes]] = {}
    for name, line in mixed:
        by_dialect.setdefault(name, []).append(line)
    batches = [
        (name, lines[at : at + BATCH])
        for name, lines in by_dialect.items()
        for at in range(0, len(lines), BATCH)
    ]
    with tempfile.TemporaryDirectory() as folder:
        runs = iter(range(1_000_000))

        def raw() -> None:
            fd = os.open(Path(folder) / f"raw-{next(runs)}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for _, lines in batches:
                for line in lines:
                    orjson.loads(line)
                os.write(fd, b"\n".join(lines))
            os.close(fd)

        dialects = registry.dialects()
        journals = [
            Journal(FileStore(Path(folder) / f"home-{n}", durability="os"))
            for n in range(ROUNDS + 1)
        ]
        doors = iter([Intake(journal, dialects) for journal in journals])

        def admit() -> None:
            intake = next(doors)
            for name, lines in batches:
                verdicts = intake.admit(lines, name)
                assert verdicts[-1].verdict == "accepted"

        times = interleaved({"parse and write": raw, "admit": admit}, rounds=ROUNDS)
        for journal in journals:
            journal.close()
    for name, seconds in times.items():
        print(f"  {name:<18} {seconds / COUNT * 1e6:6.2f} µs per event")
    goal(
        "admit / (orjson.loads + a write per batch)",
        times["admit"] / times["parse and write"],
        at_most=4.5,
    )


if __name__ == "__main__":
    main()
