"""The facts of an event."""

from collections.abc import Iterator

from tracklog.dialects import extras
from tracklog.dialects.kahn_ci.shapes import PHASES
from tracklog.model.event import Body, Event
from tracklog.model.fact import Began, Ended, Fact, Moved, Returned


def facts(event: Event) -> Iterator[Fact]:
    body = event.body
    match event.kind:
        case "run_start":
            nodes = body.get("total_nodes")
            yield Began(what="run", counts=None if nodes is None else {"total_nodes": int(nodes)})
        case "node_transition" if "to" in body:
            yield from _moved(body)
        case "node_attempt":
            yield from _attempted(body)
        case "run_end":
            outcome = body["outcome"]
            # With these two outcomes the process exits 0, and the exit code is not written.
            passed = outcome in ("clean", "clean_with_flake")
            yield Ended(
                what="run",
                outcome=outcome,
                passed=passed,
                exit_code=body.get("exit_code", int(not passed)),
                seconds=body.get("total_duration_s"),
                counts={key: int(body[key]) for key in TOTALS if key in body} or None,
            )
    yield from extras(body)


TOTALS = ("done", "failed", "blocked", "total_attempts", "flake_retries")


def _moved(body: Body) -> Iterator[Fact]:
    node, to = body["node_id"], body["to"]
    yield Moved(
        step=node, from_=body.get("from"), to=to, phase=PHASES[to], reason=body.get("reason")
    )
    if to == "running":
        yield Began(what="step", step=node)
    elif to in ("done", "failed", "blocked"):
        yield Ended(
            what="step", step=node, outcome=to, passed=to == "done", reason=body.get("reason")
        )


def _attempted(body: Body) -> Iterator[Fact]:
    node, attempt = body["node_id"], int(body["attempt"])
    converged = body.get("converged")
    for number_, result in enumerate(body.get("done_when_results", ())):
        yield Returned(
            step=node,
            call_id=f"{node}/{attempt}/{number_}",
            synthetic_id=True,
            tool=result["cmd"],
            ok=result["rc"] == 0,
            exit_code=result["rc"],
            seconds=result["duration_s"],
            output=result.get("tail"),
        )
    yield Ended(
        what="step",
        step=f"{node}#{attempt}",
        passed=converged,
        outcome=None if converged is None else "converged" if converged else "not converged",
        seconds=body.get("duration_s"),
        attempt=attempt,
    )
