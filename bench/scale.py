"""A journal on PostgreSQL against one in a folder; its index, a standby, and several collectors.

The servers are our own on this machine, with every sync that they need; all write to one disk.
"""

import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from corpus import corpus
from timing import goal, interleaved
from tracklog.cli._local_postgres import LocalPostgres
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.storages.postgresql import PostgresStorage
from tracklog.journal.stores.file import FileStore
from tracklog.testing import frames_of

SMALL, LARGE = 1_000, 8_000
GROUPS = {SMALL: 20, LARGE: 4}
TAIL = 200
INDEXED = 6_000
ROUNDS = 3
COLLECTORS = 8
SECONDS = 8.0


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


def append(journal: Journal, entries: list[JournalEntry], size: int) -> None:
    for at in range(0, len(entries), size):
        journal.append(entries[at : at + size])


def read(journal: Journal, count: int) -> None:
    seen = 0
    while seen < count and (found := journal.store.read(seen, 1000)):
        seen += len(found)
    assert seen == count


def appending(url: str, folder: Path, size: int, goal_ratio: float) -> None:
    count = size * GROUPS[size]
    entries = [  # 20 records of a run follow each other, of 1,000 runs
        JournalEntry(dialect, "bench", f"run-{n // 20 % 1000}", line)
        for n, (dialect, line) in enumerate(corpus(count))
    ]
    database = storage(url, folder, f"append{size}")
    journals = {
        "file": Journal(FileStore(folder / f"file-{size}")),
        "postgresql": Journal(database.store),
    }
    taken = interleaved(
        {name: lambda j=journal: append(j, entries, size) for name, journal in journals.items()},
        clock=time.perf_counter,
    )
    ratio = taken["file"] / taken["postgresql"]
    rate = count / taken["postgresql"]
    print(f"  {rate:,.0f} records/s on PostgreSQL, groups of {size:,}")
    goal(f"append, groups of {size:,}: rate against a folder", ratio, at_least=goal_ratio)
    if size == LARGE:
        taken = interleaved(
            {name: lambda j=journal: read(j, count) for name, journal in journals.items()},
            clock=time.perf_counter,
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


def wal(database, entries: list[JournalEntry]) -> None:
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
        journal.append([JournalEntry("bench", "bench", "r", b'{"n":%d}' % n)])
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


def rows_against_groups(url: str, folder: Path) -> None:
    """A row for each record, sent by COPY, against our row for each group."""
    lines = [line for _, line in corpus(SMALL)]
    database = storage(url, folder, "rows")
    connection = database.database.connect()
    connection.execute("CREATE TABLE bench_rows(seq bigint PRIMARY KEY, run bytea, frame bytea)")
    connection.execute("CREATE INDEX ON bench_rows(run, seq)")
    last = 0

    def copy() -> None:
        nonlocal last
        for _ in range(GROUPS[SMALL]):
            frames = frames_of(lines)(last + 1).frames
            with (
                connection.transaction(),
                connection.cursor() as cursor,
                cursor.copy("COPY bench_rows FROM STDIN (FORMAT BINARY)") as target,
            ):
                target.set_types(["int8", "bytea", "bytea"])
                for frame in frames:
                    last += 1
                    target.write_row((last, b"run-%d" % (last // 20 % 1000), frame))

    def append_groups() -> None:
        for _ in range(GROUPS[SMALL]):
            database.store.append(frames_of(lines))

    taken = interleaved({"rows": copy, "groups": append_groups}, clock=time.perf_counter)
    goal("a row per group against a row per record", taken["rows"] / taken["groups"], at_least=1.6)
    connection.close()
    database.close()


def indexing(url: str, folder: Path) -> None:
    """What the index stores, without the folding, which is the same for both."""
    with Home(folder / "indexed", durability="os") as home:
        for dialect, line in corpus(INDEXED):
            home.intake.admit([line], dialect)
        for words, most in ((False, 1.3), (True, 3.0)):
            places = {"sqlite": f"sqlite:{folder / f'{words}.db'}"}
            places["postgresql"] = f"{url}?tenant=index{int(words)}"
            taken: dict[str, list[float]] = {name: [] for name in places}
            indexers = {}
            for name, place in places.items():
                index = registry.index(place)
                index.apply = timed(index.apply, taken[name])
                indexers[name] = Indexer(
                    home.journal, index, home.dialects.values(), registry.folds(), words=words
                )
            medians = {}
            totals: dict[str, list[float]] = {name: [] for name in places}
            for _ in range(ROUNDS):
                for name, indexer in indexers.items():
                    taken[name].clear()
                    indexer.rebuild()
                    totals[name].append(sum(taken[name]))
            for name, indexer in indexers.items():
                medians[name] = statistics.median(totals[name])
                indexer.close()
            what = "with words" if words else "without words"
            ratio = medians["postgresql"] / medians["sqlite"]
            print(f"  {medians['postgresql'] / INDEXED * 1e6:,.0f} µs for each record, {what}")
            goal(f"storing the index, {what}: time against SQLite", ratio, at_most=most)


def timed(apply, seconds: list[float]):
    """The same function; it notes how long each call takes."""

    def call(*arguments, **options) -> None:
        began = time.perf_counter()
        apply(*arguments, **options)
        seconds.append(time.perf_counter() - began)

    return call


_ADMITS = """
import sys, time
from tracklog.home.home import Home
url, number, folder = sys.argv[1:]
line = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"run-%s","event":"agent_run_start","agent_id":"a","task":"t%d"}'
with Home(url, folders=folder) as home:
    home.intake.admit([line % (number.encode(), 0)], "kahn-agent")
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.process_time()
    for batch in range(10):
        home.intake.admit([line % (number.encode(), n) for n in range(500)], "kahn-agent")
    print(time.process_time() - began, flush=True)
"""


def admitting(url: str, folder: Path, turn: int, collectors: int) -> float:
    """CPU seconds of all collectors that admit at the same time, for each of 5,000 events each."""
    place = f"{url}?tenant=admit{turn}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _ADMITS, place, str(number), str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(collectors)
    ]  # fmt: skip
    for process in processes:
        process.stdout.readline()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    seconds = [float(process.communicate()[0]) for process in processes]
    return sum(seconds) / (5_000 * collectors)


def many_collectors(url: str, folder: Path) -> None:
    figures: dict[int, list[float]] = {1: [], COLLECTORS: []}
    for turn in range(ROUNDS):
        for count, seconds in figures.items():
            seconds.append(admitting(url, folder, 100 * turn + count, count))
    one, many = (statistics.median(seconds) for seconds in figures.values())
    print(
        f"  {one * 1e6:,.1f} µs of CPU for each event with one collector, {many * 1e6:,.1f} with 8"
    )
    goal("CPU for each event, 8 collectors against 1", many / one, at_most=1.6)


def with_standby(folder: Path) -> None:
    """Four writers that wait for a synchronous standby, against four that do not."""
    lines = [line for _, line in corpus(SMALL)]
    with contextlib.ExitStack() as stack:
        primary, standby = (
            LocalPostgres(Path(tempfile.mkdtemp(prefix="tracklog-bench-", dir="/tmp")))
            for _ in range(2)
        )
        stack.callback(primary.remove)
        primary.make()
        primary.settings["synchronous_standby_names"] = "standby"
        primary.start()
        stack.callback(standby.remove)
        standby.make_standby(primary, "standby")
        standby.start()
        stores = {}
        for how in ("on", "local"):
            opened = [storage(primary.url, folder, f"{how}{n}") for n in range(4)]
            for each in opened:
                stack.callback(each.close)
                each.store.append(frames_of(lines))
                each.store.writer().execute(f"SET synchronous_commit = {how}".encode())
            stores[how] = [each.store for each in opened]

        def append_all(how: str) -> None:
            def work(store) -> None:
                for _ in range(5):
                    store.append(frames_of(lines))

            threads = [threading.Thread(target=work, args=(store,)) for store in stores[how]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        taken = interleaved(
            {how: lambda h=how: append_all(h) for how in stores}, clock=time.perf_counter
        )
    goal(
        "rate with a synchronous standby against none, 4 writers",
        taken["local"] / taken["on"],
        at_least=0.8,
    )


class Collecting:
    """A collector in a process of its own."""

    def __init__(self, store: str, folder: Path) -> None:
        environment = {**os.environ, "TRACKLOG_STORE": store, "TRACKLOG_HOME": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tracklog", "serve", "--port", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        self.url = re.search(r"http://\S+", self.process.stdout.readline())[0]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def end_to_end(url: str, folder: Path) -> None:
    """Batches are sent to one of two collectors, and again to the other one, which streams them."""
    place = f"{url}?tenant=both"
    one, other = (Collecting(place, folder / name) for name in "ab")
    acknowledged: dict[int, float] = {}
    seen: dict[int, float] = {}
    waits: list[float] = []
    sent: list[int] = []
    repeated: list[bool] = []
    until = time.monotonic() + SECONDS

    def watch() -> None:
        path = f"{other.url}/api/stream?after=0"
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.stream("GET", path, timeout=None) as stream,
        ):
            for line in stream.iter_lines():
                if line.startswith("id: "):
                    seen[int(line[4:])] = time.perf_counter()

    def send(sender: int) -> None:
        headers, number = {"Content-Type": "application/x-ndjson"}, 0
        with httpx.Client(timeout=60, headers=headers) as client:
            while time.monotonic() < until:
                lines = [
                    b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r%d","event":"agent_run_start",'
                    b'"agent_id":"a","task":"%d.%d"}' % (sender, number, n)
                    for n in range(50)
                ]
                path = f"/api/events/kahn-agent?batch={sender}-{number}"
                began = time.perf_counter()
                answer = client.post(one.url + path, content=b"\n".join(lines)).json()
                waits.append(time.perf_counter() - began)
                acknowledged[answer["last_seq"]] = time.perf_counter()
                sent.append(answer["accepted"])
                again = client.post(other.url + path, content=b"\n".join(lines)).json()
                repeated.append(bool(again.get("replayed")))
                number += 1

    try:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        senders = [threading.Thread(target=send, args=(n,)) for n in range(4)]
        for thread in senders:
            thread.start()
        for thread in senders:
            thread.join()
        last = httpx.get(f"{one.url}/api/events", timeout=60).json()["last"]
        until = time.monotonic() + 10
        while len(seen) < last and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        one.stop()
        other.stop()
    wrong = (
        abs(last - sum(sent))
        + repeated.count(False)
        + len({*range(1, last + 1)} ^ (seen.keys() - {0}))
    )
    delays = [seen[seq] - at for seq, at in acknowledged.items() if seq in seen]
    print(f"  {last:,} lines in batches of 50; each batch was sent to both collectors")
    print(f"  acknowledged after {statistics.median(waits) * 1000:,.0f} ms, p99 "
          f"{statistics.quantiles(waits, n=100)[-1] * 1000:,.0f} ms")  # fmt: skip
    goal("lines stored or streamed twice or not at all", wrong, "", at_most=0)
    goal(
        "on the other collector's stream after the acknowledgement, median",
        max(0.0, statistics.median(delays) * 1000),
        "ms",
        at_most=25,
    )


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        with server() as running:
            appending(running.url, folder, SMALL, 0.5)
            appending(running.url, folder, LARGE, 0.7)
            rows_against_groups(running.url, folder)
            indexing(running.url, folder)
            many_collectors(running.url, folder)
            seen_elsewhere(running.url, folder)
            end_to_end(running.url, folder)
        with_standby(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
