"""What the whole way in costs: check, identity, frame, leaf and chain, in batches of 64."""

import os
import tempfile
from pathlib import Path

import orjson

from corpus import corpus
from timing import ROUNDS, goal, interleaved, micros
from tracklog.home import registry
from tracklog.intake.intake import Intake
from tracklog.journal.journal import Journal
from tracklog.journal.stores.file import FileStore

COUNT = 60_000
BATCH = 64


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

        refusing = Intake(journals[0], dialects)
        bad = [(name, [line[:-1] + b',"":}' for line in lines]) for name, lines in batches]
        wrong = [
            ("kahn-agent", [line.replace(b'"run_id"', b'"run"') for line in lines])
            for name, lines in batches
            if name == "kahn-agent"
        ]

        def refuse(given: list[tuple[str, list[bytes]]]) -> None:
            for name, lines in given:
                assert refusing.admit(lines, name)[-1].verdict == "refused"

        times = interleaved(
            {
                "parse and write": raw,
                "admit": admit,
                "refuse what is no JSON": lambda: refuse(bad),
                "refuse a missing key": lambda: refuse(wrong),
            }
        )
        for journal in journals:
            journal.close()
    goal(
        "admit / (orjson.loads + a write per batch)",
        times["admit"] / times["parse and write"],
        at_most=4,
        floor=micros(times["parse and write"], COUNT),
        ours=micros(times["admit"], COUNT),
    )
    counts = {
        "refuse what is no JSON": COUNT,
        "refuse a missing key": len(by_dialect["kahn-agent"]),
    }
    for name, count in counts.items():
        goal(f"{name}, per line", times[name] / count * 1e6, "µs", at_most=15)


if __name__ == "__main__":
    main()
