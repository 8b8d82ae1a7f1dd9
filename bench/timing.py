"""Times things against each other in one interleaved run, and prints ratios beside their goals."""

import gc
import statistics
import subprocess
import time
import venv
from collections.abc import Callable
from pathlib import Path

PEERS = Path(__file__).parent


def interleaved(jobs: dict[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """The median seconds of each job; every round runs each job once, so noise hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()  # warm
    for _ in range(rounds):
        for name, job in jobs.items():
            gc.collect()
            gc.disable()
            began = time.perf_counter()
            job()
            taken[name].append(time.perf_counter() - began)
            gc.enable()
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def goal(
    name: str,
    figure: float,
    unit: str = "×",
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> None:
    """Prints a figure beside its goal; the runner counts the words at the end."""
    met = (at_most is None or figure <= at_most) and (at_least is None or figure >= at_least)
    wanted = f"at most {at_most:g}" if at_most is not None else f"at least {at_least:g}"
    end = "met" if met else "SHORT"
    print(f"  {name:<58} {figure:9,.2f} {unit:<3} (goal: {wanted})  {end}", flush=True)


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
