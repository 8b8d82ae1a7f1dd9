"""What it costs to index a journal, and what answers take: `python bench/index.py 100000`."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import orjson

from corpus import corpus, long_run
from timing import goal, micros, peer_python
from tracklog.answers.runs import runs
from tracklog.answers.show import show
from tracklog.answers.tools import tools
from tracklog.dialects.checking import checker
from tracklog.folds import run_of
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer
from tracklog.reading.walk import read_alone

COUNT = 1_000_000
LONG = 30_000  # events of one run among them
CHUNK = 20_000
ROUNDS = 3
RARE = "quetzalcoatl"
DAY = 24 * 3600

QUESTIONS = {
    "latest 50 runs": 5,
    "the events of one run": 5,
    "a rare word": 5,
    "failure rate and p95 per tool, 24 h": 50,
    "a run of 30,000 events as it was": 300,
}
"""What is asked, and the milliseconds that it may take."""


def record(folder: Path, count: int) -> None:
    """A journal of so many events; recording is measured elsewhere."""
    checks = {dialect.name: checker(dialect) for dialect in registry.dialects()}
    with Home(folder, durability="os") as home:
        mixed = max(count - LONG, count // 2)
        for start in range(0, mixed, CHUNK):
            lines = corpus(min(CHUNK, mixed - start), start=start)
            events: Any = [checks[name](line) for name, line in lines]
            if start == 0:
                said = b'"reason":"%b ' % RARE.encode()
                events[0] = events[0]._replace(line=events[0].line.replace(b'"reason":"', said))
            home.journal.append(events)
        for start in range(0, count - mixed, CHUNK):
            lines = long_run(min(CHUNK, count - mixed - start), start, mixed)
            home.journal.append([checks[name](line) for name, line in lines])


def floor(folder: Path) -> list[float]:
    """Seconds to parse, to find the facts and to step all folds, in memory; reading is not counted."""
    states: dict[tuple[str, str], Any] = {}
    listeners: dict[type, list[Any]] = {}
    for fold in registry.folds():
        for kind in fold.facts:
            listeners.setdefault(kind, []).append((fold.name, fold.key, fold.step, fold.State))
    taken, cpu = 0.0, 0.0
    with Home(folder, readonly=True) as home:
        after = 0
        while records := home.journal.read(after, CHUNK):
            after = records[-1].seq
            began, busy = time.perf_counter(), time.process_time()
            for each in records:
                reading = read_alone(each, home.dialects)
                place: Any = reading.position
                for fact in reading.facts:
                    for name, key_of, step, new in listeners.get(type(fact), ()):
                        key = key_of(place, fact)
                        if key is not None:
                            state = states.get((name, key)) or new()
                            states[name, key] = step(state, place, fact)
            taken += time.perf_counter() - began
            cpu += time.process_time() - busy
    return [taken, cpu]


def build(folder: Path, *, words: bool) -> list[float]:
    """Seconds and seconds of work to index everything, the most memory and the size, in MB."""
    place = folder / "index.db" if words else folder / "without-words.db"
    for beside in ("", "-wal", "-shm"):
        Path(f"{place}{beside}").unlink(missing_ok=True)
    with Home(folder, readonly=True) as home:
        index = Indexer(
            home.journal,
            registry.index(f"sqlite:{place}"),
            home.dialects.values(),
            registry.folds(),
            words=words,
        )
        began, busy = time.perf_counter(), time.process_time()
        index.catch_up()
        taken = [time.perf_counter() - began, time.process_time() - busy]
        index.close()
    return [*taken, most_memory(), place.stat().st_size / 1e6]


def most_memory() -> float:
    """The most memory that this process took, in MB; Linux counts the parent's in `ru_maxrss`."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024


def asked(question: Callable[[], object]) -> float:
    """The median milliseconds of an answer."""
    taken: list[float] = []
    while len(taken) < 5 or (len(taken) < 30 and sum(taken) < 1000):
        began = time.perf_counter()
        assert question()
        taken.append((time.perf_counter() - began) * 1000)
    return median(taken)


def answer(folder: Path) -> dict[str, Any]:
    """Milliseconds by question, and what was asked about, for others to be asked the same."""
    with Home(folder, readonly=True) as home:
        assert home.index.catch_up() == [], "the index of the last job is used"
        newest = home.index.newest("runs", 60)
        # A run of some ninety events, and not the long one.
        key = next(key for key, state in newest if state.last_seq - state.first_seq < LONG // 2)
        # Of the last two, the one that is farthest from a past state that the index keeps.
        seqs = [each.seq for each in home.journal.records(run=("kahn", "long"))]
        now = newest[0][1].last_at
        since = _earlier(now, DAY)
        questions: dict[str, Callable[[], object]] = {
            "latest 50 runs": lambda: runs(home, limit=50, now=now),
            "the events of one run": lambda: home.journal.read(0, 200, run_of(key)),
            "a rare word": lambda: home.index.search(RARE),
            "failure rate and p95 per tool, 24 h": lambda: tools(home, "24h", now=now),
            "a run of 30,000 events as it was": lambda: show(home, "kahn:long", at=seqs[-2]),
        }
        taken = {name: asked(question) for name, question in questions.items()}
        return {
            "taken": taken,
            "memory": most_memory(),
            "run": run_of(key)[1],
            "since": since,
            "last": seqs[-2],
        }


def _earlier(at: str, seconds: int) -> str:
    moment = time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S")
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.localtime(time.mktime(moment) - seconds))


def alone(job: str, folder: Path, *more: object) -> Any:
    """What a job comes to in a process of its own."""
    command = [sys.executable, __file__, job, str(folder), *map(str, more)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def of_duckdb(folder: Path, told: dict[str, Any]) -> dict[str, float]:
    """The milliseconds that DuckDB takes for the same questions, over the journal's own files."""
    python = peer_python()
    if python is None:
        print("  the peers of bench/requirements.txt cannot be installed here: not measured")
        return {}
    script = Path(__file__).parent / "peers" / "duckdb.py"
    given = json.dumps({**told, "rare": RARE})
    done = subprocess.run(
        [str(python), str(script), str(folder / "journal" / "*.jsonl"), given],
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(count: int = COUNT) -> None:
    jobs: dict[str, list[list[float]]] = {"floor": [], "index": [], "index with words": []}
    with TemporaryDirectory() as place:
        folder = Path(place)
        alone("record", folder, count)
        for _ in range(ROUNDS if count < COUNT // 2 else 1):
            for job, taken in jobs.items():
                taken.append(alone(job, folder))
        told = alone("answer", folder)
        theirs = of_duckdb(folder, told)
        journal = sum(each.stat().st_size for each in (folder / "journal").iterdir()) / 1e6
    times = {job: [median(column) for column in zip(*rows)] for job, rows in jobs.items()}  # noqa: B905  # equally long
    for job, (seconds, busy, *_) in times.items():
        each, work = seconds / count * 1e6, busy / count * 1e6
        print(f"  {job:<18} {each:6.2f} µs per event, {work:6.2f} of work; {count:,} events")
    work = times["floor"][1]
    for job, most in (("index", 2.5), ("index with words", 4)):
        goal(
            f"{job} / parse, facts and folds in memory",
            times[job][1] / work,
            at_most=most,
            floor=micros(work, count),
            ours=micros(times[job][1], count),
        )
        size = times[job][3]
        print(f"  {size:.0f} MB beside a journal of {journal:.0f} MB: {size / journal:.2f} ×")
    memory = max(
        told["memory"], *(row[2] for job in ("index", "index with words") for row in jobs[job])
    )
    goal("memory, at most", memory, "MB", at_most=300)
    for name, most in QUESTIONS.items():
        goal(name, told["taken"][name], "ms", at_most=most)
        if name in theirs:
            ratio = theirs[name] / told["taken"][name]
            print(f"    DuckDB over the JSONL: {theirs[name]:,.0f} ms, {ratio:,.0f} × as long")


def job(name: str, folder: Path, *more: str) -> object:
    match name:
        case "record":
            return record(folder, int(more[0]))
        case "floor":
            return floor(folder)
        case "answer":
            return answer(folder)
    return build(folder, words="words" in name)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(orjson.dumps(job(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])).decode())
    else:
        main(*map(int, sys.argv[1:]))
