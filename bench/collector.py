"""What HTTP costs on top of the same admit, and a stream on top of the same bytes.

The load comes from a second process; every ratio is from one interleaved run.
"""

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from timing import goal, peer_python

SERVING = Path(__file__).parent / "serving"
ROUNDS = int(os.environ.get("ROUNDS", "6"))


class Process:
    """A server, or the load."""

    def __init__(self, script: str, *arguments: str, python: str = sys.executable) -> None:
        ours = Path(next(path for path in sys.path if path.endswith("site-packages")))
        source = Path(__file__).parents[1] / "src"
        self.popen = subprocess.Popen(
            [python, str(SERVING / f"{script}.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{source}:{ours}"},
        )

    def line(self) -> str:
        said = self.popen.stdout.readline()
        if not said:
            raise RuntimeError(f"{self.popen.args} ended")
        return said

    def cpu(self) -> float:
        """Seconds of a core that it took so far; a busy machine disturbs them less than a clock."""
        try:
            told = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # not Linux
            return 0.0
        return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, verb: str, *arguments: object):
        self.popen.stdin.write(json.dumps([verb, arguments]) + "\n")
        self.popen.stdin.flush()
        return json.loads(self.line())

    def end(self) -> None:
        self.popen.stdin.close()
        self.popen.kill()
        self.popen.wait(20)
        self.popen.stdout.close()


@contextlib.contextmanager
def servers(
    *names: str, python: "Path | None" = None
) -> "Iterator[dict[str, tuple[Process, int]]]":
    """These servers and their ports, each with a home of its own."""
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        try:
            for name in names:
                interpreter = str(python) if name == "fast" else sys.executable
                made[name] = Process(name, f"{folder}/{name}", python=interpreter)
            yield {name: (process, int(process.line())) for name, process in made.items()}
        finally:
            for process in made.values():
                process.end()


def posts(load: Process) -> None:
    python = peer_python()
    names = ("ours", "raw", *(("fast",) if python else ()))
    rates: dict[tuple[str, int], list[float]] = {}
    cores: dict[tuple[str, int], list[float]] = {}
    with servers(*names, python=python) as made:
        for turn in range(ROUNDS + 1):
            for batch, count in ((100, 600), (1, 4000)):
                # Each goes first as often as the others, and is compared with its neighbours.
                for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
                    server, port = made[name]
                    before = server.cpu()
                    took = load.ask("post", port, count, batch, 16, name == "fast")
                    if turn:
                        rates.setdefault((name, batch), []).append(count * batch / took)
                        cores.setdefault((name, batch), []).append(server.cpu() - before)
    rate = {key: statistics.median(found) for key, found in rates.items()}
    core = {key: sum(found) for key, found in cores.items()}
    for (name, batch), each in rate.items():
        whole = core["ours", batch] / core[name, batch] if core[name, batch] else 0
        print(
            f"  {name:<5} {batch:>4} per POST  {each:>10,.0f} events/s"
            f"   {whole:5.2f} × as much of a core is what ours takes"
        )

    def ratio(other: str, batch: int) -> float:
        pairs = zip(rates["ours", batch], rates[other, batch], strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    said = {key: f"{each:,.0f}/s" for key, each in rate.items()}
    for batch, least in ((100, 0.8), (1, 0.4)):
        goal(
            f"{batch} per POST / raw protocol",
            ratio("raw", batch),
            at_least=least,
            floor=said["raw", batch],
            ours=said["ours", batch],
        )
    if python:
        goal(
            "100 per POST / FastAPI",
            ratio("fast", 100),
            at_least=2.2,
            peer=said["fast", 100],
            ours=said["ours", 100],
        )
    else:
        print("  FastAPI could not be installed; nothing is claimed against it")


def streams(load: Process) -> None:
    rates: dict[str, list[float]] = {}
    with servers("ours", "raw", "each") as made:
        for turn in range(ROUNDS + 1):
            for name, (_, port) in made.items():
                events = 2000 if name == "each" else 10_000
                took = load.ask("stream", port, 100, events, 100)
                if turn:
                    rates.setdefault(name, []).append(100 * events / took)
    rate = {name: statistics.median(found) for name, found in rates.items()}
    for name, each in rate.items():
        print(f"  {name:<5} 100 watchers {each:>12,.0f} deliveries/s")
    said = {name: f"{each / 1000:,.0f}k/s" for name, each in rate.items()}
    goal(
        "SSE, 100 watchers / raw protocol",
        rate["ours"] / rate["raw"],
        at_least=0.4,
        floor=said["raw"],
        ours=said["ours"],
    )
    goal(
        "SSE, 100 watchers / one send per event",
        rate["ours"] / rate["each"],
        at_least=2.5,
        peer=said["each"],
        ours=said["ours"],
    )


def crowd(load: Process) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours = Process("ours", folder, "--timed")
        try:
            port = int(ours.line())
            load.ask("paced", port, 1, 1000, 1)
            alone, watched, late = [], [], []
            for _ in range(3):
                for count, kept in ((0, alone), (1000, watched)):
                    _median(ours)
                    told = load.ask("paced", port, count, 400, 3)
                    kept.append(_median(ours))
                    if count:
                        late.append(told["late"])
            delays = load.ask("paced", port, 1, 1000, 5)
        finally:
            ours.end()
    print(f"  the last of 1,200 events reached 1,000 watchers {max(late) * 1000:.0f} ms after it")
    print(f"  append, nobody watching {statistics.median(alone):.0f} µs")
    print(f"  append, 1,000 watching  {statistics.median(watched):.0f} µs")
    goal("1,000 watchers at 400 events/s, late by", max(late), "s", at_most=1)
    goal(
        "append with 1,000 watchers / without, p50",
        statistics.median(watched) / statistics.median(alone),
        at_most=1.2,
    )
    print(f"  POST to SSE at 1,000 events/s: p50 {delays['p50'] * 1000:.1f} ms")
    goal("POST to SSE at 1,000 events/s, p99", delays["p99"] * 1000, "ms", at_most=50)


def _median(server: Process) -> float:
    server.popen.send_signal(signal.SIGUSR1)
    return float(server.line())


def cold() -> None:
    taken = []
    for _ in range(9):
        with tempfile.TemporaryDirectory() as folder:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            server = subprocess.Popen(
                [sys.executable, "-m", "tracklog", "serve", "--home", folder, "--port", str(port)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            _first(port)
            taken.append(time.clock_gettime((~server.pid << 3) | 2))  # its CPU time so far
            server.terminate()
            server.wait(20)
    goal("serve until its first event, CPU time", min(taken), "s", at_most=0.7)


def _first(port: int) -> None:
    line = (
        b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"a","event":"agent_run_start",'
        b'"agent_id":"coder","task":"t"}\n'
    )
    head = b"POST /api/events/kahn-agent HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    kind = b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % len(line)
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as made:
                made.sendall(head + kind + line)
                answer = b""
                while read := made.recv(1000):
                    answer += read
                assert b'"accepted":1' in answer, answer
                return
        except ConnectionRefusedError:
            time.sleep(0.01)


def main() -> None:
    load = Process("load")
    try:
        posts(load)
        streams(load)
        crowd(load)
    finally:
        load.end()
    cold()


if __name__ == "__main__":
    main()
