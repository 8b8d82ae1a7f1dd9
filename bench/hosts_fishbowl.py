"""What a turn on the stage costs: the offline cast, every event through the one door."""

import tempfile
import time
from pathlib import Path
from statistics import median

from timing import goal
from tracklog.home.home import Home
from tracklog.hosts.fishbowl.scenario import Scenario
from tracklog.hosts.fishbowl.show import conducting
from tracklog.log import Log

TURNS = 20_000
ROUNDS = 3


def scenario(turns: int) -> Scenario:
    """Two who answer each other, each once in every turn."""
    player = {
        "persona": "Never stops.",
        "subscribes_to": ["agent.spoke", "world.observed"],
        "may_emit": ["agent.spoke"],
    }
    cast = [{"name": name, **player} for name in ("ping", "pong")]
    bounds = {"max_turns": turns * 2, "max_total_calls": turns * 4}
    return Scenario.model_validate(
        {
            "name": "endless",
            "goal": "Go on.",
            "genesis_text": "Somewhere between {seed} and nowhere, two voices never rest.",
            "ticks": turns,
            "cast": cast,
            "governor": bounds,
        }
    )


def main() -> None:
    rates = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            home = Log(Home(Path(folder), durability="os"))
            with home, conducting(home, scenario(TURNS), "bench", together=True) as conductor:
                began = time.process_time(), time.perf_counter()
                finished = conductor.play()
                cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
            assert finished["turns"] == TURNS
            rates.append(TURNS / wall)
            print(
                f"  {TURNS / wall:8,.0f} turns a second by the clock, {TURNS / cpu:,.0f} of a core"
            )
    goal("turns a second", median(rates), "/s", at_least=5_000)


if __name__ == "__main__":
    main()
