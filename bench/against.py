"""Costs compared with another revision: `python bench/against.py REV [JOB ...]`.

CPU time, the minimum of interleaved rounds; ROUNDS says how many, ONLY selects costs by a part of
their name. The other revision is installed into a temporary folder, and runs with the dependencies
of this environment.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from costs import JOBS

ROOT = Path(__file__).parents[1]
ROUNDS = int(os.environ.get("ROUNDS", "9"))
COMPILED = "PYTHONDONTWRITEBYTECODE"
"""Would charge one of the two for compiling its source at each start."""


@contextmanager
def installed(revision: str) -> Iterator[list[Path]]:
    """What to import a revision from: its package, its bench and its contracts."""
    with tempfile.TemporaryDirectory() as folder:
        tree, package = Path(folder) / "tree", Path(folder) / "package"
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            how = ("--no-deps", "--no-build-isolation", "--target", str(package), str(tree))
            subprocess.run([*pip, *how], check=True)
            yield [package, tree / "bench", tree / "contracts"]
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def costs(job: str, paths: list[Path]) -> "subprocess.Popen[str]":
    """A process that measures one revision, a round for each line it is sent."""
    environment = {name: value for name, value in os.environ.items() if name != COMPILED}
    return subprocess.Popen(
        [sys.executable, "-P", str(ROOT / "bench" / "costs.py"), job],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": os.pathsep.join(map(str, paths))},
    )


def compare(job: str, then: list[Path], now: list[Path]) -> None:
    least: dict[str, list[float]] = {}
    with ExitStack() as stack:
        both = [stack.enter_context(costs(job, paths)) for paths in (then, now)]
        for process in both:
            assert process.stdout.readline() == "ready\n", f"{job} does not start"
        for turn in range(ROUNDS):
            for at in (0, 1) if turn % 2 else (1, 0):
                both[at].stdin.write("\n")
                both[at].stdin.flush()
                for name, seconds in json.loads(both[at].stdout.readline()).items():
                    best = least.setdefault(name, [float("inf")] * 2)
                    best[at] = min(best[at], seconds)
        for process in both:
            process.stdin.close()
    for name, (before, after) in least.items():
        figures = "".join(f"{seconds * 1e6:12,.2f}" for seconds in (before, after))
        print(f"  {name:<40}{figures}  {after / before:.2f}", flush=True)


def main() -> None:
    revision, *jobs = sys.argv[1:]
    print(f"  {'µs of CPU time':<40}{revision[:12]:>12}{'now':>12}  now / then")
    now = [ROOT / "src", ROOT / "bench", ROOT / "contracts"]
    with installed(revision) as then:
        for job in jobs or JOBS:
            compare(job, then, now)


if __name__ == "__main__":
    main()
