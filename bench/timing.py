"""Times things against each other in one interleaved run, and prints figures beside their goals."""

import gc
import resource
import subprocess
import time
import venv
from collections.abc import Callable
from pathlib import Path

PEERS = Path(__file__).parent
ROUNDS = 9
HEAD = ("path", "floor", "peer", "ours", "ratio", "goal")
_ROW = "  {:<58} {:>11} {:>11} {:>11} {:>11}  {:<19}"


def cpu() -> float:
    """CPU seconds of this process and of its children that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def interleaved(
    jobs: dict[str, Callable[[], object]],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = cpu,
) -> dict[str, float]:
    """The least seconds of each job; every round runs each job once, so noise hits all alike.

    CPU time, where the clock is not another one. The garbage collector runs as it does for users.
    """
    least = dict.fromkeys(jobs, float("inf"))
    for job in jobs.values():
        job()  # warm
    for turn in range(rounds):
        for name in (*jobs,) if turn % 2 else (*reversed(jobs),):
            gc.collect()
            began = clock()
            jobs[name]()
            least[name] = min(least[name], clock() - began)
    return least


def micros(seconds: float, units: int) -> str:
    """The time of one unit of work."""
    return f"{seconds / units * 1e6:,.2f} µs"


def goal(
    path: str,
    figure: float,
    unit: str = "×",
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    floor: str = "",
    peer: str = "",
    ours: str = "",
) -> None:
    """Prints a row of the table: a ratio, or a figure of ours, beside its goal.

    `floor` is what the least that could be done takes, and `peer` what others do.
    """
    met = (at_most is None or figure <= at_most) and (at_least is None or figure >= at_least)
    wanted = f"at most {at_most:g}" if at_most is not None else f"at least {at_least:g}"
    said = f"{figure:,.2f} {unit}"
    figures = (ours, said) if unit == "×" else (said, "")
    row = _ROW.format(path, floor, peer, *figures, f"{wanted} {unit}")
    print(f"{row} {'met' if met else 'SHORT'}", flush=True)


def table(rows: list[str]) -> None:
    """All rows of some benches, one below the other."""
    print(_ROW.format(*HEAD).rstrip(), *rows, sep="\n")


def peer_python(folder: Path = PEERS) -> Path | None:
    """A Python that has what a folder requires, in an environment that can be thrown away."""
    made, wanted = folder / ".venv", folder / "requirements.txt"
    python, ready = made / "bin" / "python", made / ".ready"
    if not ready.exists() or ready.read_bytes() != wanted.read_bytes():
        print(f"  installing the peers into {made.relative_to(PEERS.parent)}, once …", flush=True)
        venv.create(made, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "-r", str(wanted)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        ready.write_bytes(wanted.read_bytes())
    return python
