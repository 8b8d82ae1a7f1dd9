"""What keeping a line costs: frame, leaf, root, chain, sync; and what reading it back costs."""

import os
import shutil
import statistics
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

import orjson

from corpus import corpus
from timing import goal, interleaved, micros
from tracklog.journal.disk import Disk
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.stores.file import FileStore
from tracklog.journal.verify import verify

COUNT = 100_000
MANY = 1_000_000
BATCH = 64
PRODUCERS = 128
EACH = 100


class CountingDisk(Disk):
    def __init__(self) -> None:
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


def entries_of(number: int) -> list[JournalEntry]:
    return [
        JournalEntry(dialect, dialect, f"run-{n // 50 % 200}", line)
        for n, (dialect, line) in enumerate(corpus(number))
    ]


def in_batches(entries: list) -> list[list]:
    return [entries[at : at + BATCH] for at in range(0, len(entries), BATCH)]


def appending(folder: Path) -> None:
    """One thread, batches of 64, durability `os`."""
    entries = entries_of(COUNT)
    batches = in_batches(entries)
    blocks = [b"\n".join([entry.line for entry in batch]) + b"\n" for batch in batches]
    lines = [entry.line for entry in entries]
    homes = iter(range(1000))

    def raw() -> None:
        fd = os.open(folder / f"raw{next(homes)}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for block in blocks:
            os.write(fd, block)
        os.close(fd)

    def parse() -> None:
        for line in lines:
            orjson.loads(line)

    def append() -> None:
        journal = Journal(FileStore(folder / f"home{next(homes)}", durability="os"))
        for batch in batches:
            journal.append(batch)
        journal.close()

    times = interleaved({"orjson.loads": parse, "raw write": raw, "append": append})
    for name, seconds in times.items():
        print(f"  {name:<18} {seconds / COUNT * 1e6:6.2f} µs per event")
    floor = times["orjson.loads"] + times["raw write"]
    print(
        f"  append / (parse + raw write): {times['append'] / floor:.2f} ×, a part of what admit costs"
    )


def produce(folder: Path, durability: str, line: bytes) -> tuple[float, float]:
    """Seconds per event and events per sync, with many producers who wait for each event."""
    disk = CountingDisk()
    journal = Journal(FileStore(folder, durability=durability, disk=disk))
    disk.syncs = 0

    def work(name: str) -> None:
        entry = [JournalEntry("bench", "bench", name, line)]
        for _ in range(EACH):
            journal.append(entry)

    threads = [threading.Thread(target=work, args=(f"p{n}",)) for n in range(PRODUCERS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - began
    syncs = disk.syncs
    journal.close()
    return taken / (PRODUCERS * EACH), PRODUCERS * EACH / max(1, syncs)


def syncing(folder: Path) -> None:
    """128 producers, each waiting for its own event to be acknowledged."""
    line = entries_of(10)[3].line
    taken: dict[str, list[float]] = {"sync": [], "os": []}
    grouped: list[float] = []
    for turn in range(5):
        for durability, found in taken.items():
            seconds, group = produce(folder / f"{durability}{turn}", durability, line)
            found.append(seconds)
            if durability == "sync":
                grouped.append(group)
    medians = {name: statistics.median(found) for name, found in taken.items()}
    for name, seconds in medians.items():
        print(f"  {PRODUCERS} producers, {name:<6} {seconds * 1e6:6.2f} µs per event")
    goal("events per fdatasync", statistics.median(grouped), "", at_least=64)
    goal("rate of sync / rate of os", medians["os"] / medians["sync"], at_least=0.5)


def reading(folder: Path) -> None:
    """A million records, from the first to the last and from the middle."""
    home = folder / "many"
    journal = Journal(FileStore(home, durability="os"))
    batches = in_batches(entries_of(COUNT))
    for _ in range(MANY // COUNT):
        for batch in batches:
            journal.append(batch)
    journal.close()
    paths = sorted((home / "journal").glob("*.jsonl"))

    def plain() -> None:
        for path in paths:
            with path.open("rb") as file:
                for line in file:
                    orjson.loads(line)

    def records() -> None:
        reader = Journal(FileStore(home, readonly=True))
        assert sum(1 for _ in reader.records()) == MANY
        reader.close()

    times = interleaved({"lines + orjson.loads": plain, "records": records})
    goal(
        "rate of reading records / lines and orjson.loads",
        times["lines + orjson.loads"] / times["records"],
        at_least=0.5,
        floor=micros(times["lines + orjson.loads"], MANY),
        ours=micros(times["records"], MANY),
    )
    first = []
    for after in range(MANY // 2 - 10, MANY // 2 + 10):
        began = time.perf_counter()
        reader = Journal(FileStore(home, readonly=True))
        assert reader.read(after, 1)[0].seq == after + 1
        first.append(time.perf_counter() - began)
        reader.close()
    goal("the first record behind the middle, cold", max(first) * 1e3, "ms", at_most=5)
    tracemalloc.start()
    reader = Journal(FileStore(home, readonly=True))
    for _ in reader.records():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    goal("memory while a million records are read", peak / (1 << 20), "MiB", at_most=32)
    one_run(home)
    began = time.perf_counter()
    assert verify(home).ok
    seconds = time.perf_counter() - began
    print(f"  verify                 {seconds / MANY * 1e6:6.2f} µs per record")


def one_run(home: Path) -> None:
    for state in ("without its sidecars", "with them"):
        reader = Journal(FileStore(home, readonly=True))
        began = time.perf_counter()
        found = sum(1 for _ in reader.records(run=(reader.read(0, 1)[0].family, "run-7")))
        seconds = time.perf_counter() - began
        print(f"  one run, {state:<21} {seconds * 1e3:8.1f} ms for {found:,} records of a million")
        reader.close()


def main() -> None:
    for measure in (appending, syncing, reading):
        folder = Path(tempfile.mkdtemp(prefix="tracklog-bench-"))
        try:
            measure(folder)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
