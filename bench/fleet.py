"""What the index costs with 10,000 and 100,000 short runs, and what each question then takes.

Each run has ten events; FLEET_RUNS says how many runs the larger home has. Costs are CPU time.
"""

import http.client
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

import orjson

from console import served
from index import alone
from timing import goal
from tracklog.dialects.checking import checker
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.journal.frame import stamp

RUNS = int(os.environ.get("FLEET_RUNS", "100000"))
EACH = 10
DAYS = 30
AGENTS, MODELS = 40, ("opus-4", "sonnet-4", "gpt-5", "gemini-2")
ROUNDS = 5
QUESTIONS = (
    "runs", "board", "costs", "tree", "hours", "outcomes", "agents", "series", "tools", "inbox",
    "loops", "audits", "leaderboard", "findings", "top",
)  # fmt: skip  # two rows
"""Asked over HTTP, with the parameters that they have by default."""


def run(n: int, begin: float, rng: Random) -> Iterator[bytes]:
    """The ten lines of a run: tool calls, spends, an audit, an end; a third is part of another run."""
    agent, model = f"coder-{n % AGENTS}", MODELS[n % len(MODELS)]
    head = {"run_id": f"run-{n}", "agent_id": agent}
    for at in range(EACH):
        body = {"ts": stamp(begin + at * 7), **head, "step": at}
        match at:
            case 0:
                body |= {"event": "agent_run_start", "task": f"Mend part {n} of the fleet"}
                body |= {"model": model}
                del body["step"]
                if n % 3 == 0 and n:
                    body["parent_run_id"] = f"run-{n - 1}"
            case 1 | 4:
                body |= {"event": "agent_transition", "from": "thinking", "to": "tool_call"}
                usage = {"input_tokens": rng.randrange(40_000), "output_tokens": rng.randrange(900)}
                body |= {"usage": usage, "model": model}
            case 8:
                body |= {"event": "audit_checkpoint", "checkpoint_id": f"tests-{n % 9}"}
                body |= {"result": "pass" if n % 5 else "fail", "duration_s": 0.5}
                del body["step"]
            case 9:
                if n % 50 == 7:  # it is not over
                    body |= {"event": "agent_transition", "from": "thinking", "to": "tool_call"}
                else:
                    del body["step"]
                    passed = int(n % 5 > 0)
                    body |= {"event": "agent_run_end", "total_steps": EACH, "total_tool_calls": 5}
                    body |= {"outcome": "converged" if n % 4 else "partial"}
                    body |= {"total_audit_checkpoints": 1, "audits_passed": passed}
                    body |= {"audits_failed": 1 - passed, "convergence_score": rng.random()}
                    body |= {"total_duration_s": 63.0}
            case _:
                body |= {"event": "tool_invocation", "tool_name": f"tool-{at + n % 5}"}
                body |= {"duration_s": rng.random(), "ok": rng.random() > 0.1}
        yield orjson.dumps(body)


def record(folder: Path, runs: int) -> None:
    """A journal of that many runs, over a month until now; ten of them go on at any time."""
    rng, check = Random(1), checker(registry.dialect("kahn-agent"))
    now = time.time()
    with Home(folder, durability="os") as home:
        for first in range(0, runs, 1000):
            lines = [
                line
                for group in range(first, min(first + 1000, runs), 10)
                for together in zip(
                    *(
                        run(n, now - (runs - n) * DAYS * 86_400 / runs, rng)
                        for n in range(group, min(group + 10, runs))
                    ),
                    strict=True,
                )
                for line in together
            ]
            home.journal.append([check(line) for line in lines])


def built(folder: Path, runs: int) -> float:
    """Microseconds of CPU time for each event that is indexed, without words."""
    record(folder, runs)
    return float(alone("index", folder)[1]) / (runs * EACH) * 1e6


def ask(folder: Path) -> None:
    """Ask each question of a collector: the least CPU time of some answers, and the size of one."""
    with Home(folder) as home:
        home.index.catch_up()
    with served(folder) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=600)
        for name in QUESTIONS:
            size, least = 0, float("inf")
            for _ in range(ROUNDS):
                before = cpu_of_children()
                connection.request("GET", f"/api/{name}")
                size = len(connection.getresponse().read())
                least = min(least, cpu_of_children() - before)
            goal(f"{name}: CPU time", least * 1000, "ms", at_most=100)
            goal(f"{name}: size", size / 1e6, "MB", at_most=1)


def cpu_of_children() -> float:
    """CPU seconds of the collector so far: the only child that runs."""
    task = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(time.clock_gettime((~int(pid) << 3) | 2) for pid in task)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        few = built(Path(place) / "few", max(1, RUNS // 10))
        many = built(Path(place) / "many", RUNS)
        goal(f"index, {RUNS // 10:,} runs, per event", few, "µs", at_most=60)
        goal(f"index, {RUNS:,} runs / {RUNS // 10:,} runs, per event", many / few, at_most=1.15)
        ask(Path(place) / "many")


if __name__ == "__main__":
    main()
