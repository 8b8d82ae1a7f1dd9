"""The rules across the events of a run."""

from dataclasses import dataclass, field

from tracklog.dialects.kahn_ci.shapes import Outcome
from tracklog.model.event import Body, Event, Finding

EDGES = frozenset(
    {
        ("pending", "ready"),
        ("ready", "running"),
        ("running", "running"),  # K15: a retry may be marked
        ("running", "done"),
        ("running", "failed"),
        ("pending", "blocked"),
        ("ready", "blocked"),
    }
)

DECISIVE = ("done", "failed", "blocked", "flake_retries")


@dataclass(slots=True)
class KahnRunState:
    """The state of a run."""

    begun: bool = False
    ended: bool = False
    status: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    untried: dict[tuple[str, int], None] = field(default_factory=dict)
    """Attempts that a transition announced and that have no node_attempt yet."""
    flaky: set[str] = field(default_factory=set)
    """Nodes that converged on a later attempt than their first."""


def rules(state: KahnRunState | None, event: Event) -> tuple[KahnRunState, list[Finding]]:
    state = state or KahnRunState()
    findings: list[Finding] = []
    body = event.body
    if state.ended:
        findings.append(Finding("after-end", "an event after run_end", "error"))
    if event.kind == "run_start":
        if state.begun:
            findings.append(Finding("second-start", "a second run_start in this run", "error"))
        state.begun = True
    elif not state.begun:
        state.begun = True
        findings.append(Finding("no-start", f"the run begins with {event.kind}, not run_start"))
    match event.kind:
        case "node_transition" if "to" in body:
            _check_move(state, body, findings)
        case "node_attempt":
            _check_attempt(state, body, findings)
        case "run_end":
            _check_end(state, body, findings)
            state.ended = True
    return state, findings


def _check_move(state: KahnRunState, body: Body, findings: list[Finding]) -> None:
    node, to = body["node_id"], body["to"]
    was = state.status.get(node, "pending")
    before = body.get("from", was)
    if before != was:
        findings.append(
            Finding("from-mismatch", f"{node} moved from {before}, but was {was}", "error")
        )
    if (before, to) not in EDGES:
        message = f"{node}: {before} -> {to} is not an allowed transition"
        findings.append(Finding("illegal-transition", message, "error"))
    if to == "running":
        if "attempt" not in body:
            findings.append(Finding("attempt-missing", f"{node} -> running without attempt"))
        else:
            state.untried[node, body["attempt"]] = None
    elif "attempt" in body:
        findings.append(Finding("attempt-misplaced", f"{node} -> {to} has an attempt"))
    # An impossible transition is accepted: the status follows the last `to`.
    state.status[node] = to


def _check_attempt(state: KahnRunState, body: Body, findings: list[Finding]) -> None:
    node, attempt = body["node_id"], body["attempt"]
    expected = state.attempts.get(node, 0) + 1
    if attempt != expected:
        findings.append(
            Finding("attempt-order", f"{node}: attempt {attempt}, but the next one is {expected}")
        )
    state.attempts[node] = attempt
    state.tried += 1
    state.untried.pop((node, attempt), None)
    if attempt == 1 and "backoff_s" in body:
        findings.append(Finding("backoff-first", f"{node}: the first attempt has a backoff_s"))
    results, converged = body.get("done_when_results", ()), body.get("converged")
    clean = all(result["rc"] == 0 for result in results)
    if converged and attempt > 1:
        state.flaky.add(node)
    if converged and not clean:
        findings.append(
            Finding("converged-mismatch", f"{node}: converged, though a check failed", "error")
        )
    for result in results:
        if "tail" in result and result["rc"] == 0:
            findings.append(Finding("tail-misplaced", f"{node}: a tail, although rc is 0"))
        elif result.get("truncated") and "tail" not in result:
            findings.append(Finding("tail-misplaced", f"{node}: truncated without a tail"))


def _check_end(state: KahnRunState, body: Body, findings: list[Finding]) -> None:
    for status in ("done", "failed", "blocked"):
        count = sum(value == status for value in state.status.values())
        if state.status and body.get(status, count) != count:
            findings.append(
                Finding("totals", f"{status} is {body[status]}, the log shows {count}", "error")
            )
    if state.tried and body.get("total_attempts", state.tried) != state.tried:
        message = f"total_attempts is {body['total_attempts']}, the log shows {state.tried}"
        findings.append(Finding("totals", message, "error"))
    if state.tried and body.get("flake_retries", len(state.flaky)) != len(state.flaky):
        message = f"flake_retries is {body['flake_retries']}, the log shows {len(state.flaky)}"
        findings.append(Finding("flake-count", message))
    counted = {"done", "failed", "blocked"} <= body.keys()
    derived = outcome_of(*(body.get(key, 0) for key in DECISIVE)) if counted else body["outcome"]
    same = body["outcome"] == derived or (
        # Without the count, no flake and an unknown number of flakes look the same.
        "flake_retries" not in body and {body["outcome"], derived} == {"clean", "clean_with_flake"}
    )
    if not same:
        findings.append(
            Finding("outcome-mismatch", f"outcome {body['outcome']}, the counts give {derived}")
        )
    if body.get("exit_code") == 0:
        findings.append(Finding("exit-code-zero", "exit_code is 0, which is never written"))
    elif "exit_code" in body and body["outcome"] in ("clean", "clean_with_flake"):
        findings.append(
            Finding("exit-code-misplaced", f"the outcome {body['outcome']} has an exit_code")
        )
    elif "exit_code" not in body and body["outcome"] in ("stuck", "catastrophic"):
        # K14: a partial without it is tolerated
        findings.append(
            Finding("exit-code-missing", f"the outcome {body['outcome']} has no exit_code")
        )


def rest(state: KahnRunState) -> list[Finding]:
    findings = [
        Finding("attempt-missing", f"{node} went to running (attempt {n}), no node_attempt follows")
        for node, n in state.untried
    ]
    if not state.ended:
        findings.append(Finding("no-end", "no run_end", "info"))
    return findings


def outcome_of(done: int, failed: int, blocked: int, flake_retries: int) -> Outcome:
    """The outcome of a run, from its counts alone; the first match wins."""
    if not failed and not blocked:
        return "clean_with_flake" if flake_retries else "clean"
    if not done:
        return "catastrophic"
    return "stuck" if failed and blocked else "partial"
