"""A journal on PostgreSQL against one in a folder: appending, reading, the bytes of the server's log.

The server is one of our own on this machine, with every sync that it needs; both write to one disk.
"""

import contextlib
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from corpus import corpus
from timing import goal, interleaved
from tracklog.cli._local_postgres import LocalPostgres
from tracklog.journal.journal import Entry, Journal
from tracklog.journal.storages.postgresql import PostgresStorage
from tracklog.journal.stores.file import FileStore

SMALL, LARGE = 1_000, 8_000
GROUPS = {SMALL: 20, LARGE: 4}
TAIL = 200


@contextlib.contextmanager
def server() -> Iterator[LocalPostgres]:
    """A server in a folder that can be thrown away."""
    made = LocalPostgres(Path(tempfile.mkdtemp(prefix="tracklog-bench-", dir="/tmp")))
    made.settings |= {"shared_buffers": "256MB", "max_wal_size": "4GB"}
    made.make()
    made.start()
    try:
        yield made
    finally:
        made.remove()


def storage(url: str, folder: Path, tenant: str = "bench"):
    return PostgresStorage(f"{url.removeprefix('postgresql:')}?tenant={tenant}", folders=folder)


def append(journal: Journal, entries: list[Entry], size: int) -> None:
    for at in range(0, len(entries), size):
        journal.append(entries[at : at + size])


def read(journal: Journal, count: int) -> None:
    seen = 0
    while seen < count and (found := journal.store.read(seen, 1000)):
        seen += len(found)
    assert seen == count


def appending(url: str, folder: Path, size: int, goal_ratio: float) -> None:
    count = size * GROUPS[size]
    entries = [
        Entry(dialect, dialect, f"run-{n // 20 % 1000}", line)
        for n, (dialect, line) in enumerate(corpus(count))
    ]
    database = storage(url, folder, f"append{size}")
    journals = {
        "file": Journal(FileStore(folder / f"file-{size}")),
        "postgresql": Journal(database.store),
    }
    taken = interleaved(
        {name: lambda j=journal: append(j, entries, size) for name, journal in journals.items()}
    )
    ratio = taken["file"] / taken["postgresql"]
    rate = count / taken["postgresql"]
    print(f"  {rate:,.0f} records/s on PostgreSQL, groups of {size:,}")
    goal(f"append, groups of {size:,}: rate against a folder", ratio, at_least=goal_ratio)
    if size == LARGE:
        taken = interleaved(
            {name: lambda j=journal: read(j, count) for name, journal in journals.items()}
        )
        goal(
            "read everything: rate against a folder",
            taken["file"] / taken["postgresql"],
            at_least=0.6,
        )
        wal(database, entries)
    for journal in journals.values():
        journal.close()
    database.close()


def wal(database, entries: list[Entry]) -> None:
    """How many bytes the server logs for each byte that it is given."""
    ask = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
    before = database.database.ask(ask)[0][0]
    append(Journal(database.store), entries, LARGE)
    after = database.database.ask(ask)[0][0]
    size = sum(len(entry.line) for entry in entries)
    print(
        f"  {float(after - before) / len(entries):,.0f} bytes of log for each record of {size / len(entries):,.0f}"
    )
    goal("bytes of the server's log for each byte", float(after - before) / size, at_most=0.2)


def seen_elsewhere(url: str, folder: Path) -> None:
    """From the acknowledgement on one node until another one has read the record."""
    one, other = storage(url, folder, "tail"), storage(url, folder, "tail")
    acknowledged: dict[int, float] = {}
    delays: list[float] = []

    def follow() -> None:
        seen = 0
        while seen < TAIL:
            other.store.wait(seen, 10)
            seen += len(other.store.read(seen, 1000))
            now = time.perf_counter()
            delays.append(now - acknowledged.get(seen, now))

    reader = threading.Thread(target=follow)
    reader.start()
    journal = Journal(one.store)
    for n in range(TAIL):
        journal.append([Entry("bench", "bench", "r", b'{"n":%d}' % n)])
        acknowledged[n + 1] = time.perf_counter()
        time.sleep(0.01)
    reader.join()
    one.close()
    other.close()
    goal(
        "read on another node after the acknowledgement, median",
        statistics.median(delays) * 1000,
        "ms",
        at_most=5,
    )


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        with server() as running:
            appending(running.url, folder, SMALL, 0.5)
            appending(running.url, folder, LARGE, 0.7)
            seen_elsewhere(running.url, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
