"""Prompt runs over a day: the five outcomes, some flaky, some with a convergence score."""

from collections.abc import Iterator
from random import Random
from typing import Any

from tracklog.demo import DemoLine
from tracklog.journal.frame import stamp

_OUTCOMES = ("clean", "clean_with_flake", "partial", "clean", "clean", "stuck", "clean")
_SEVERITY = {"partial": "moderate", "stuck": "major", "catastrophic": "critical"}


def _prompts(run: str, at: float, outcome: str, draw: Random, kiln: bool) -> Iterator[DemoLine]:
    begin = at

    def say(event: str, **more: Any) -> DemoLine:
        return DemoLine(at, {"ts": stamp(at), "run_id": run, "event": event, **more})

    yield say("run_start", total_nodes=1, actor="rocky")
    ready = {"from": "pending", "to": "ready", "outcome": outcome}
    yield say("node_transition", node_id="prompt-1", **ready)
    running = {"from": "ready", "to": "running", "outcome": outcome, "attempt": 1}
    yield say("node_transition", node_id="prompt-1", **running)
    phases = ["plan", "execute", "audit"]
    if outcome == "clean_with_flake":
        phases.insert(2, "execute")
    good = outcome.startswith("clean")
    for attempt, phase in enumerate(phases, 1):
        took = round(draw.uniform(2, 8), 2)
        at += took
        rc = 0 if good or phase == "plan" else 1
        yield say(
            "node_attempt",
            node_id="prompt-1",
            attempt=attempt,
            duration_s=took,
            converged=rc == 0,
            done_when_results=[{"cmd": "make check", "rc": rc, "duration_s": 1.2}],
            phase=phase,
        )
    done: dict[str, Any] = {
        "from": "running",
        "to": "done" if good else "failed",
        "outcome": outcome,
    }
    done |= {"convergence_score": round(draw.uniform(0.6, 0.98), 2)} if kiln else {}
    if not good:
        severity = _SEVERITY[outcome]
        done["deviation"] = {"severity": severity, "summary": "touched a file outside the plan"}
    yield say("node_transition", node_id="prompt-1", **done)
    counts = {"done": int(good), "failed": int(not good), "blocked": 0}
    lasted = {"total_duration_s": round(at - begin, 2)} | ({} if good else {"exit_code": 1})
    yield say("run_end", outcome=outcome, **counts, **lasted)


def past(now: float, draw: Random) -> Iterator[DemoLine]:
    for n in range(30):
        outcome = "catastrophic" if n == 17 else draw.choice(_OUTCOMES)
        run = f"rocky-{n + 1:03}"
        yield from _prompts(run, now - 84_000 + n * 2_750, outcome, draw, n % 3 == 0)


def live(begin: float, cycle: int, draw: Random) -> Iterator[DemoLine]:
    outcome = draw.choice(_OUTCOMES)
    run = f"rocky-live-{cycle + 1:03}"
    yield from _prompts(run, begin + 8, outcome, draw, cycle % 2 == 0)
