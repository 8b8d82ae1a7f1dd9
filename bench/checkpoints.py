"""What checkpoints cost whoever appends, and what they cost beside it."""

import tempfile
import time
from pathlib import Path

from journal import entries_of, in_batches
from timing import goal
from tracklog.collector.checkpointing import CheckpointWorker
from tracklog.home.home import Home
from tracklog.journal.checkpoints.checkpoint import Checkpoints

COUNT = 50_000
ROUNDS = 11
EVERY = 0.25
"""Seconds between checkpoints: far more often than a collector makes them by itself."""


def append(folder: Path, batches: list, *, checkpoints: bool) -> float:
    """The processor's seconds of the thread that appends."""
    with Home(folder / "home", durability="os") as home:
        places = [f"file:{folder / 'note'}"]
        worker = CheckpointWorker(home, places, every=EVERY) if checkpoints else None
        if worker:
            worker.start()
        began = time.thread_time()
        for batch in batches:
            home.journal.append(batch)
        taken = time.thread_time() - began
        if worker:
            worker.close()
            assert worker.size == COUNT
    return taken


def beside(folder: Path, batches: list) -> float:
    """The processor's seconds to make one checkpoint of everything."""
    with Home(folder / "home", durability="os") as home:
        for batch in batches:
            home.journal.append(batch)
        checkpoints = Checkpoints(home.storage)
        began = time.process_time()
        checkpoints.make()
        taken = time.process_time() - began
        checkpoints.close()
    return taken


def main() -> None:
    batches = in_batches(entries_of(COUNT))
    taken: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for with_them, found in taken.items():
            with tempfile.TemporaryDirectory(prefix="tracklog-bench-") as folder:
                found.append(append(Path(folder), batches, checkpoints=with_them))
    without, with_them = (min(found) / COUNT * 1e6 for found in taken.values())
    print(f"  append                 {without:6.2f} µs per record")
    print(f"  append, checkpoints    {with_them:6.2f} µs per record, {1 / EVERY:g} a second")
    goal("append with checkpoints / without", with_them / without, at_most=1.02)
    with tempfile.TemporaryDirectory(prefix="tracklog-bench-") as folder:
        seconds = beside(Path(folder), batches)
    print(f"  the trees              {seconds / COUNT * 1e6:6.2f} µs per record, in another thread")


if __name__ == "__main__":
    main()
