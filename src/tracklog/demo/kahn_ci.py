"""Build graphs: nodes that are checked by commands, tried again, done, failed or blocked."""

from collections.abc import Iterator
from random import Random
from typing import Any

from tracklog.demo import DemoLine
from tracklog.journal.frame import stamp

_NODES = ("lint", "types", "unit", "api", "browser", "package")


def _graph(run: str, at: float, draw: Random, fails: str = "") -> Iterator[DemoLine]:
    begin, blocked, retries, done = at, False, 0, 0

    def say(event: str, **more: Any) -> DemoLine:
        return DemoLine(at, {"ts": stamp(at), "run_id": run, "event": event, **more})

    yield say("run_start", total_nodes=len(_NODES))
    for node in _NODES:
        at += 0.2
        yield say("node_transition", node_id=node, **{"from": "pending", "to": "ready"})
        if blocked:
            yield say("node_transition", node_id=node, **{"from": "ready", "to": "blocked"})
            continue
        yield say("node_transition", node_id=node, **{"from": "ready", "to": "running"}, attempt=1)
        tries = 2 if node == fails or draw.random() < 0.18 else 1
        for attempt in range(1, tries + 1):
            took = round(draw.uniform(1.5, 9), 2)
            at += took
            good = node != fails and attempt == tries
            check = {"cmd": f"make {node}", "rc": 0 if good else 1, "duration_s": took}
            check |= {} if good else {"tail": f"{node}: 1 of 48 checks failed"}
            yield say(
                "node_attempt",
                node_id=node,
                attempt=attempt,
                duration_s=took,
                converged=good,
                done_when_results=[check],
            )
            if attempt < tries:
                retries += node != fails
                again = {"from": "running", "to": "running", "attempt": attempt + 1}
                yield say("node_transition", node_id=node, **again)
        blocked, done = node == fails, done + (node != fails)
        end = {"from": "running", "to": "failed" if blocked else "done"}
        yield say("node_transition", node_id=node, **end)
    outcome = "stuck" if fails else "clean_with_flake" if retries else "clean"
    left = len(_NODES) - done - (1 if fails else 0)
    counts = {"done": done, "failed": 1 if fails else 0, "blocked": left}
    lasted = {"total_duration_s": round(at - begin, 2)} | ({"exit_code": 1} if fails else {})
    yield say("run_end", outcome=outcome, **counts, **lasted, flake_retries=retries)


def past(now: float, draw: Random) -> Iterator[DemoLine]:
    for n in range(8):
        fails = "browser" if n in (2, 6) else ""
        yield from _graph(f"build-{1840 + n}", now - 80_000 + n * 10_500, draw, fails)


def live(begin: float, cycle: int, draw: Random) -> Iterator[DemoLine]:
    if cycle % 2 == 0:
        fails = "api" if cycle % 6 == 4 else ""
        yield from _graph(f"build-{1860 + cycle}", begin + 3, draw, fails)
