"""What it costs to index a journal, and what answers take: `python bench/index.py 100000`."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from corpus import corpus
from timing import goal
from tracklog import registry
from tracklog.check import checker
from tracklog.home import Home
from tracklog.index import Indexer
from tracklog.replay import event_of, told_of

COUNT = 1_000_000
CHUNK = 20_000
ROUNDS = 3
RARE = "quetzalcoatl"


def record(folder: Path, count: int) -> None:
    """A journal of so many events; the door is measured elsewhere."""
    dialects = registry.dialects()
    checks = {dialect.name: checker(dialect) for dialect in dialects}
    with Home(folder, durability="os") as home:
        for start in range(0, count, CHUNK):
            lines = corpus(min(CHUNK, count - start), start=start)
            events = [checks[name](line) for name, line in lines]
            if start == 0:
                events[0] = events[0]._replace(
                    line=events[0].line.replace(b'"reason":"', b'"reason":"%b ' % RARE.encode())
                )
            home.journal.append(events)


def floor(folder: Path) -> float:
    """Seconds to parse, to find the facts and to step all folds, in memory; reading is not counted."""
    folds, states, seconds = registry.folds(), {}, 0.0
    listeners: dict = {}
    for fold in folds:
        for kind in fold.facts:
            listeners.setdefault(kind, []).append((fold.name, fold.key, fold.step, fold.State))
    with Home(folder, readonly=True) as home:
        after = 0
        while records := home.journal.read(after, CHUNK):
            after = records[-1].seq
            began = time.perf_counter()
            for each in records:
                event = event_of(each, home.dialects)
                told = told_of(each, event)
                for fact in home.dialects[each.dialect].facts(event):
                    for name, key_of, step, new in listeners.get(type(fact), ()):
                        key = key_of(told, fact)
                        if key is not None:
                            state = states.get((name, key))
                            states[name, key] = step(new() if state is None else state, told, fact)
            seconds += time.perf_counter() - began
    return seconds


def build(folder: Path, words: bool) -> tuple[float, float]:
    """Seconds to index everything, and the most memory it took, in MB."""
    with Home(folder, readonly=True) as home, tempfile.TemporaryDirectory() as place:
        index = Indexer(
            home.journal,
            registry.index(f"sqlite:{place}/index.db"),
            home.dialects.values(),
            registry.folds(),
            words=words,
        )
        began = time.perf_counter()
        index.catch_up()
        seconds = time.perf_counter() - began
        index.close()
    return seconds, most_memory()


def most_memory() -> float:
    """The most memory that this process took, in MB; Linux counts the parent's in `ru_maxrss`."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024


def alone(job: str, folder: Path) -> list[float]:
    """The numbers that a job prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, job, str(folder)], capture_output=True, check=True, text=True
    )
    return [float(word) for word in done.stdout.split()]


def asked(question) -> float:
    """The median milliseconds of an answer."""
    taken = []
    for _ in range(30):
        began = time.perf_counter()
        assert question()
        taken.append((time.perf_counter() - began) * 1000)
    return median(taken)


def answers(folder: Path) -> None:
    with Home(folder, readonly=True) as home:
        home.index.catch_up()
        run = home.index.newest("runs", 1)[0][1]
        questions = {
            "latest 50 runs": lambda: home.index.newest("runs", 50),
            "the events of one run": lambda: home.journal.read(0, 200, (run.family, run.run)),
            "a rare word": lambda: home.index.search(RARE),
        }
        for name, question in questions.items():
            goal(f"{name}, ms / 1 ms", asked(question), at_most=5)


def main(count: int = COUNT) -> None:
    jobs = {"floor": [], "index": [], "index with words": []}
    memory = 0.0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        record(folder, count)
        for _ in range(ROUNDS if count < COUNT else 1):
            for job, taken in jobs.items():
                seconds, most = alone(job, folder)
                taken.append(seconds)
                memory = max(memory, most if job != "floor" else 0)
        times = {job: median(taken) for job, taken in jobs.items()}
        for job, seconds in times.items():
            print(f"  {job:<18} {seconds / count * 1e6:6.2f} µs per event, {count:,} events")
        goal("index / floor, without words", times["index"] / times["floor"], at_most=2.5)
        goal("index / floor, with words", times["index with words"] / times["floor"], at_most=4)
        goal("memory, MB / 1 MB", memory, at_most=300)
        answers(folder)


def job(name: str, folder: Path) -> None:
    if name == "floor":
        print(floor(folder), 0)
    else:
        print(*build(folder, words="words" in name))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        job(sys.argv[1], Path(sys.argv[2]))
    else:
        main(*map(int, sys.argv[1:]))
