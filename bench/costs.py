"""The CPU time of everything that `make bench` measures, of one revision.

`against.py` runs it for two revisions, in turns. What depends on the revision is imported from the
bench folder of that revision, which is on the path: so the same jobs measure both. Each line of the
input starts a round, and each line of the output has its costs.
"""

# ruff: noqa: PLC0415  # a job imports only what it measures

import asyncio
import contextlib
import gc
import http.client
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import corpus

Cost = Callable[[], float]
"""Does the work once; the seconds of CPU time that one unit of it took."""
Costs = Iterator[dict[str, Cost]]

QUIET = subprocess.DEVNULL
LOAD = Path(__file__).parent / "serving" / "load.py"


def spent() -> float:
    """CPU seconds of this process and of its children that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def cpu_of(pid: int) -> float:
    """CPU seconds of another process so far, from the kernel's clock of that process."""
    return time.clock_gettime((~pid << 3) | 2)


def per(units: int, work: Callable[[], object]) -> Cost:
    def once() -> float:
        gc.collect()
        before = spent()
        work()
        return (spent() - before) / units

    return once


def command(*arguments: object, units: int = 1) -> Cost:
    line = [sys.executable, "-m", "tracklog", *map(str, arguments)]

    def work() -> None:
        code = subprocess.run(line, check=False, stdout=QUIET, stderr=QUIET).returncode
        assert code in (0, 1), f"{arguments} ended with {code}"  # 1: there are findings

    return per(units, work)


def startup(_folder: Path) -> Costs:
    yield {"tracklog --version": command("--version")}


def check(folder: Path) -> Costs:
    import check as bench

    mixed = corpus.corpus(20_000)
    checks = {name: bench.checker(bench.registry.dialect(name)) for name in dict(mixed)}
    jobs = [(checks[name], line) for name, line in mixed]
    path = folder / "mixed.jsonl"
    path.write_bytes(b"".join(line + b"\n" for _, line in mixed))
    yield {
        "check a line": per(len(jobs), lambda: bench.pairs(jobs)),
        "tracklog check, per line": command("check", path, units=len(jobs)),
    }


def admit(folder: Path) -> Costs:
    import admit as bench

    by_dialect: dict[str, list[bytes]] = {}
    for name, line in corpus.corpus(20_000):
        by_dialect.setdefault(name, []).append(line)
    dialects = bench.registry.dialects()

    def in_batches(size: int, count: int) -> Cost:
        def once() -> float:
            batches = [
                (name, lines[at : at + size])
                for name, lines in by_dialect.items()
                for at in range(0, count // len(by_dialect), size)
            ]
            place = folder / uuid.uuid4().hex
            journal = bench.Journal(bench.FileStore(place, durability="os"))
            intake = bench.Intake(journal, dialects)
            work = lambda: [intake.admit(lines, name) for name, lines in batches]  # noqa: E731
            taken = per(sum(len(lines) for _, lines in batches), work)()
            journal.close()
            return taken

        return once

    yield {
        f"admit {size} at a time, per line": in_batches(size, 18_000 if size > 1 else 3_000)
        for size in (1, 64, 100)
    }


def journal(folder: Path) -> Costs:
    import journal as bench

    entries = bench.entries_of(40_000)
    batches = bench.in_batches(entries)
    many = bench.Journal(bench.FileStore(folder / "many", durability="os"))
    for batch in batches:
        many.append(batch)
    many.close()

    def append() -> None:
        journal = bench.Journal(bench.FileStore(folder / uuid.uuid4().hex, durability="os"))
        for batch in batches:
            journal.append(batch)
        journal.close()

    def records(**which: object) -> int:
        reader = bench.Journal(bench.FileStore(folder / "many", readonly=True))
        count = sum(1 for _ in reader.records(**which))
        reader.close()
        return count

    def produce(durability: str) -> Callable[[], object]:
        return lambda: bench.produce(folder / uuid.uuid4().hex, durability, entries[3].line)

    run = (entries[0].family, "run-7")
    producers = bench.PRODUCERS * bench.EACH
    yield {
        "append 64 at a time, per line": per(len(entries), append),
        "128 producers, os, per line": per(producers, produce("os")),
        "128 producers, sync, per line": per(producers, produce("sync")),
        "read the records, per record": per(len(entries), records),
        "read one run": per(1, lambda: records(run=run)),
        "verify, per record": per(len(entries), lambda: bench.verify(folder / "many")),
    }


def index(folder: Path) -> Costs:
    import index as bench

    count, runs = 24_000, 10_000
    home = folder / "home"
    bench.LONG = count // 4
    bench.record(home, count)
    short = folder / "short"
    start = ('{"ts":"2026-05-05T09:%02d:%02d.000Z","run_id":"run-%d","event":"agent_run_start",'
             '"agent_id":"coder","task":"t"}')  # fmt: skip
    with bench.Home(short, durability="os") as opened:
        lines = [(start % (n // 60 % 60, n % 60, n)).encode() for n in range(runs)]
        for at in range(0, runs, 1000):
            opened.intake.admit(lines[at : at + 1000], "kahn-agent")
    yield {
        "index, per event": lambda: bench.build(home, words=False)[1] / count,
        "index with words, per event": lambda: bench.build(home, words=True)[1] / count,
        "index 10,000 new runs, per event": lambda: bench.build(short, words=True)[1] / runs,
    }


def questions(folder: Path) -> Costs:
    import index as bench

    count = 24_000
    bench.LONG = count // 4
    bench.record(folder, count)
    bench.build(folder, words=True)
    bench.time.perf_counter = time.process_time  # the bench's own stopwatch, by CPU time
    bench.median = min
    found: dict[str, float] = {}

    def ask(name: str) -> float:
        if name == next(iter(bench.QUESTIONS)):
            found.update(bench.answer(folder)["taken"])
        return found[name] / 1000

    run = "kahn:long"
    more = {
        "show --at, the command": command("show", run, "--at", count - 1, "--home", folder),
        "story": command("story", run, "--home", folder),
        "runs": command("runs", "--home", folder),
        "export jsonl": command("export", "jsonl", run, "--no-proof", "--home", folder),
        "export otel": command("export", "otel", run, "--home", folder),
        "convert to awf": command("convert", run, "--to", "awf", "--home", folder),
    }
    yield {**{name: lambda name=name: ask(name) for name in bench.QUESTIONS}, **more}


def recorder(folder: Path) -> Costs:
    import recorder as bench

    story = bench.events(bench.EVENTS)
    with bench.Recorder.open(str(uuid.uuid4()), str(folder), durability="os") as made:

        def record() -> None:
            for kind, payload, path, start in story:
                made.record(kind, payload, path, step_seq=start)

        yield {"Recorder.record": per(len(story), record)}


def emit(folder: Path) -> Costs:
    import emit as bench

    def by_thread(work: Callable[[], object]) -> Cost:
        def once() -> float:
            gc.collect()
            before = time.thread_time()
            work()
            return (time.thread_time() - before) / bench.EVENTS

        return once

    found = {
        f"emit {name} to a file": by_thread(bench.emitting(f"{folder}/{name}", *event))
        for name, event in bench.dialects().items()
    }
    event = bench.dialects()["tracklog"]
    with bench.sinkhole() as url, contextlib.redirect_stderr(open(os.devnull, "w")):
        for name, address in (("a collector", url), ("nobody", "http://127.0.0.1:9")):
            work = bench.reporting(address, f"{folder}/{name}", *event)
            found[f"emit to {name}, the thread"] = by_thread(work)
            found[f"emit to {name}, the process"] = per(bench.EVENTS, work)
        yield found


def importing(folder: Path) -> Costs:
    import importing as bench

    def bring(name: str, size: int) -> dict[str, Cost]:
        file = bench.SESSION if name == "claude" else f"rollout-2026-05-05T09-00-00-{bench.THREAD}"
        path = folder / name / f"{file}.jsonl"
        path.parent.mkdir()
        bench.write(path, getattr(bench, name)(Random(7)), size)

        def first() -> float:
            with tempfile.TemporaryDirectory(dir=folder) as home:
                return bench.child(path, Path(home))[1] / (size / 1e6)

        return {f"import {name}, per MB": first}

    found = bring("claude", 10_000_000) | bring("codex", 10_000_000) | bring("images", 40_000_000)
    lines = folder / "lines.jsonl"
    of_one = [line for name, line in corpus.corpus(60_000) if name == "kahn-agent"]
    lines.write_bytes(b"\n".join([*of_one, b""]))

    def record() -> float:
        with tempfile.TemporaryDirectory(dir=folder) as home:
            return command("record", lines, "--home", home, units=len(of_one))()

    yield found | {"tracklog record, per line": record}


def otlp(_folder: Path) -> Costs:
    import peers as bench

    bodies = [bench.trace_of(100)[1] for _ in range(20)]
    server = bench.Lines.__new__(bench.Lines)
    yield {"map OTLP, per span": per(2000, lambda: [server.request(body) for body in bodies])}


@contextlib.contextmanager
def process(*line: object) -> Iterator[subprocess.Popen]:
    with subprocess.Popen(
        [sys.executable, *map(str, line)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as made:  # fmt: skip
        try:
            yield made
        finally:
            made.kill()


def collector(folder: Path) -> Costs:
    import collector as bench
    import peers

    def ask(*question: object) -> None:
        load.stdin.write(json.dumps([question[0], question[1:]]) + "\n")
        load.stdin.flush()
        json.loads(load.stdout.readline())

    def serving(units: int, *question: object) -> Cost:
        def once() -> float:
            before = cpu_of(server.pid)
            ask(question[0], port, *question[1:])
            return (cpu_of(server.pid) - before) / units

        return once

    def spans() -> float:
        bodies = [peers.trace_of(100)[1] for _ in range(10)]
        connection = http.client.HTTPConnection("127.0.0.1", port)
        before = cpu_of(server.pid)
        for body in bodies:
            head = {"Content-Type": "application/x-protobuf"}
            connection.request("POST", "/v1/traces", body, head)
            assert connection.getresponse().read() is not None
        return (cpu_of(server.pid) - before) / 1000

    def cold() -> float:
        with tempfile.TemporaryDirectory(dir=folder) as home:
            with bench.socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            with process("-m", "tracklog", "serve", "--home", home, "--port", port) as started:
                bench._first(port)
                return cpu_of(started.pid)

    with process(LOAD) as load, process(bench.SERVING / "ours.py", folder / "home") as server:
        port = int(server.stdout.readline())
        yield {
            "POST of 1 line": serving(800, "post", 800, 1, 1, False),
            "POST of 1 line, 16 connections": serving(2000, "post", 2000, 1, 16, False),
            "POST of 100 lines": serving(100, "post", 100, 100, 1, False),
            "POST of 100 lines, 16 connections": serving(200, "post", 200, 100, 16, False),
            "POST of spans, per span": spans,
            "SSE to 1 watcher, per event": serving(5000, "stream", 1, 5000, 100),
            "SSE to 100 watchers, per event": serving(5000, "stream", 100, 5000, 100),
            "serve until its first event": cold,
        }


def hosts(folder: Path) -> Costs:
    import hosts_fishbowl as stage
    import hosts_openwop as wop
    import hosts_workflow as flow

    def turn() -> float:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            home = stage.Home(Path(place), durability="os")
            log = stage.Log(home) if hasattr(stage, "Log") else home  # at e370156 it took a home
            with log, stage.conducting(log, stage.scenario(2000), "b", together=True) as conductor:
                return per(2000, conductor.play)()

    (folder / "flow").mkdir()
    loaded = flow.read(flow.flow(folder / "flow"))
    # Both were called otherwise at e370156.
    context = flow.HostContext if hasattr(flow, "HostContext") else flow.Ground
    execution = flow.WorkflowExecution if hasattr(flow, "WorkflowExecution") else flow.Execution
    ground = context(
        display=flow.Display(lambda _text: None),
        audit=flow.Audit(folder / "audit.jsonl"),
        environment=os.environ,
        storage=folder,
    )

    def run(recorder: object, id: str, tape: object = None) -> None:
        with recorder:
            work = execution(ground, loaded, {}, run_id=id, recorder=recorder, tape=tape)
            assert asyncio.run(work.run()).status == "ok"

    def recorded() -> float:
        before, id = time.process_time(), str(uuid.uuid4())  # not the agents it started
        run(flow.Recorder.open(id, folder, durability="interval"), id)
        return time.process_time() - before

    id = str(uuid.uuid4())
    run(flow.Recorder.open(id, folder), id)
    tape = list(flow.recorded_in(flow.load(folder / "transcripts" / f"{id}.jsonl")[0][id]))
    played = per(1, lambda: run(flow.NullRecorder(), str(uuid.uuid4()), flow.Tape(tape)))
    host = wop.Server(folder / "wop", "host", "openwop")

    def workflows() -> float:
        before = cpu_of(host.process.pid)
        asyncio.run(wop.run_all(host.port))
        return (cpu_of(host.process.pid) - before) / (wop.RUNS * 9)

    try:
        yield {
            "fishbowl, per turn": turn,
            "openwop host, per event": workflows,
            "workflow of 8 steps, recorded": recorded,
            "workflow of 8 steps, played": played,
        }
    finally:
        host.end()


JOBS: dict[str, Callable[[Path], Costs]] = {
    job.__name__: job
    for job in (
        startup, check, admit, journal, index, questions, recorder, emit, importing, otlp,
        collector, hosts,
    )
}  # fmt: skip  # two rows


def main() -> None:
    job = JOBS[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        made = job(Path(folder))
        only = os.environ.get("ONLY", "")
        costs = {name: cost for name, cost in next(made).items() if only in name}
        print("ready", flush=True)
        for _ in sys.stdin:
            print(json.dumps({name: cost() for name, cost in costs.items()}), flush=True)
        made.close()


if __name__ == "__main__":
    main()
