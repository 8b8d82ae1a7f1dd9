"""Many small senders at once, each waiting until its lines are on disk, against an older revision."""

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from against import COMPILED, ROOT, installed
from costs import cpu_of
from timing import goal

REVISION = os.environ.get("REV", "e370156")
ROUNDS = int(os.environ.get("ROUNDS", "9"))
SENDERS = 64
SIZES = ((1, 4000, 2.5, 20), (100, 1000, 1.35, 100))
"""Lines of a request, requests of a round, and the goals: the rate against then, and p99 in ms."""


def environment(paths: list[Path]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != COMPILED}
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, paths))}


@contextlib.contextmanager
def serving(paths: list[Path], home: Path) -> Iterator[tuple[int, int]]:
    """A server of a revision, with the durability that it has by default; its port and process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-P", "-m", "tracklog", "serve", "--home", str(home)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        [*command, "--port", str(port)], env=environment(paths), stdout=quiet, stderr=quiet
    ) as server:
        try:
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), timeout=10).close()
                    break
                assert server.poll() is None, "the server ended"
                time.sleep(0.05)
            yield port, server.pid
        finally:
            server.terminate()


def main() -> None:
    known = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{REVISION}^{{commit}}"],
        capture_output=True, check=False,
    )  # fmt: skip  # one call
    if known.returncode:
        print(f"  there is no revision {REVISION} here; nothing is claimed against it")
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        then = stack.enter_context(installed(REVISION))
        sources = {"then": then, "now": [ROOT / "src"]}
        servers = {
            name: stack.enter_context(serving(paths, folder / name))
            for name, paths in sources.items()
        }
        load = stack.enter_context(
            subprocess.Popen(
                [sys.executable, str(ROOT / "bench/serving/load.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        for lines, requests, least, latest in SIZES:
            rates: dict[str, list[float]] = {name: [] for name in servers}
            delays: dict[str, list[float]] = {name: [] for name in servers}
            costs: dict[str, list[float]] = {name: [] for name in servers}
            for turn in range(ROUNDS + 1):
                for name in ("then", "now") if turn % 2 else ("now", "then"):
                    port, process = servers[name]
                    before = cpu_of(process)
                    what = ["delayed", [port, requests, lines, SENDERS]]
                    load.stdin.write(json.dumps(what) + "\n")
                    load.stdin.flush()
                    told = json.loads(load.stdout.readline())
                    if turn:
                        rates[name].append(requests * lines / told["seconds"])
                        delays[name].append(told["p99"] * 1000)
                        costs[name].append((cpu_of(process) - before) / requests / lines * 1e6)
            of = f"{SENDERS} senders of {lines} line{'s' * (lines > 1)}"
            rate = {name: statistics.median(each) for name, each in rates.items()}
            late = {name: statistics.median(each) for name, each in delays.items()}
            print(f"  {of}: {rate['then']:,.0f} lines/s then, {rate['now']:,.0f} now")
            print(f"  {of}: p99 {late['then']:.1f} ms then, {late['now']:.1f} now")
            least_cpu = {name: min(each) for name, each in costs.items()}
            print(
                f"  {of}: {least_cpu['then']:.1f} µs of server CPU a line then, {least_cpu['now']:.1f} now"
            )
            pairs = zip(rates["now"], rates["then"], strict=True)
            goal(
                f"{of}, synced: rate now / {REVISION}",
                statistics.median(now / then for now, then in pairs),
                at_least=least,
                peer=f"{rate['then']:,.0f}/s",
                ours=f"{rate['now']:,.0f}/s",
            )
            goal(f"{of}, synced: p99", late["now"], "ms", at_most=latest)
        load.stdin.close()


if __name__ == "__main__":
    main()
