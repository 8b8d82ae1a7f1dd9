"""ralph: prompt runs written as CI transitions, with extra keys of their own."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import MISSING, Field

from tracklog.dialects import Dialect, Policy, Scene, Shape, Share, number, text
from tracklog.dialects import kahn_ci as kahn
from tracklog.model.event import Body, Event, Finding
from tracklog.model.fact import Decided, Ended, Fact, Moved, Noted

WORST_LAST = ("clean", "clean_with_flake", "partial", "stuck", "catastrophic")
SEVERITIES = dict(zip(("none", "minor", "moderate", "major", "critical"), WORST_LAST, strict=True))
"""K26: the outcome that each severity of a deviation leads to."""


class RunStart(kahn.RunStart):
    """The first line of a run, with its driver."""

    actor: Annotated[str, Field(min_length=1)]


class NodeTransition(kahn.NodeTransition):
    """A prompt changed its status; the outcome is its worst so far."""

    outcome: kahn.Outcome
    convergence_score: Share | MISSING = MISSING
    """A KILN field: absent where KILN is absent, never null."""
    early_stop_reason: str | MISSING = MISSING
    """A KILN field."""


KINDS: dict[str, type[Shape]] = {
    **kahn.KINDS,
    "run_start": RunStart,
    "node_transition": NodeTransition,
}

FRAMES = {
    "RunStart": "run_start",
    "NodeTransition": "node_transition",
    "NodeAttempt": "node_attempt",
    "RunEnd": "run_end",
}
"""The names of the frames in ralph's own model, and their kinds on the wire."""

EXCUSED = {
    "run_start": ("total_nodes",),
    "node_transition": ("ts", "from", "to"),
    "node_attempt": ("duration_s", "converged", "done_when_results"),
    "run_end": ("done", "failed", "blocked", "total_duration_s"),
}
"""Keys of kahn-ci that ralph's own model of a frame does not have: read without them."""


def tolerate(body: Body) -> tuple[Body, list[Finding]]:
    """Read a frame as ralph's own model has it: `type` for `event`, without keys that only kahn-ci
    has.
    """
    findings: list[Finding] = []
    if "event" not in body and "type" in body:
        # K23: the kind may stand under `type`; it is never written there.
        body = {("event" if key == "type" else key): value for key, value in body.items()}
        body["event"] = FRAMES.get(text(body["event"]) or "", body["event"])
        findings.append(Finding("type-alias", "the kind is under the key type, not event", "info"))
    kind = text(body.get("event")) or ""
    absent = [key for key in EXCUSED.get(kind, ()) if key not in body]
    if absent and not (kind == "node_transition" and "outcome" not in body):
        message = f"{kind} without {{}}, which kahn requires: read without it"
        findings += [Finding("upstream-key", message.format(key)) for key in absent]
    return body, findings


def shows(body: Body) -> bool:
    """Whether a line has a key that only ralph writes, with a value that ralph could have written."""
    if "event" not in body:
        kind = text(body.get("type")) or ""
        return "run_id" in body and FRAMES.get(kind, kind) in KINDS
    kind = body["event"]
    if kind == "run_start":
        return bool(text(body.get("actor")))
    if kind == "node_transition":  # K24: without an outcome it is a good line of kahn-ci
        return text(body.get("outcome")) in WORST_LAST
    kiln = number(body.get("convergence_score")) is not None or "early_stop_reason" in body
    return kind in ("node_attempt", "run_end") and kiln


def facts(event: Event) -> Iterator[Fact]:
    body = event.body
    for fact in kahn.facts(event):
        if isinstance(fact, Ended) and event.kind == "node_transition":
            # The outcome of the prompt is more precise than the status of the node.
            yield Ended(
                what="step",
                step=fact.step,
                outcome=body["outcome"],
                # RALPH-28: a prompt that was done badly did not pass.
                passed=fact.passed and body["outcome"] in WORST_LAST[:2],
                reason=fact.reason,
            )
        elif isinstance(fact, Ended) and fact.attempt is not None:
            # K25: the unit that is tried again is a phase.
            yield replace(fact, part=str(body.get("phase", "")))
        else:
            yield fact
    if event.kind == "node_transition" and "to" not in body:
        # Such a frame says only the outcome of the prompt.
        outcome = body["outcome"]
        passed = outcome in WORST_LAST[:2]
        yield Ended(what="step", step=body["node_id"], outcome=outcome, passed=passed)
    if event.kind == "node_transition" and "convergence_score" in body:
        yield Decided(
            step=body["node_id"],
            name="kiln",
            score=body["convergence_score"],
            reason=body.get("early_stop_reason"),
        )
    if isinstance(body.get("deviation"), dict):
        yield Noted(
            step=text(body.get("node_id")),
            label="deviation",
            text=text(body["deviation"].get("summary")),
            data=body["deviation"],
        )


@dataclass(slots=True)
class _State:
    nodes: kahn.KahnRunState | None = None
    worst: dict[str, str] = field(default_factory=dict)
    failed: set[tuple[str, str]] = field(default_factory=set)
    flakes: int = 0
    unsure: bool = False
    """Whether an attempt did not say if it converged: then flakes cannot be counted."""


def rules(state: _State | None, event: Event) -> tuple[_State, list[Finding]]:
    state = state or _State()
    state.nodes, findings = kahn.rules(state.nodes, event)
    # Outcomes and flakes have other rules here (K25, K26).
    findings = [each for each in findings if each.name not in ("outcome-mismatch", "flake-count")]
    body = event.body
    _check_severity(body, findings)
    match event.kind:
        case "node_attempt":
            _count_flake(state, body)
        case "node_transition":
            node, outcome = body["node_id"], body["outcome"]
            worst = state.worst.get(node, "clean")
            if _worse(worst, outcome):
                message = f"{node} was {worst} and is {outcome} now"
                findings.append(Finding("outcome-improved", message))
            state.worst[node] = worst if _worse(worst, outcome) else outcome
        case "run_end":
            _check_end(state, body, findings)
    return state, findings


def _check_severity(body: Body, findings: list[Finding]) -> None:
    deviation = body.get("deviation")
    if not isinstance(deviation, dict) or "severity" not in deviation:
        return
    severity = deviation["severity"]
    least = SEVERITIES.get(severity) if isinstance(severity, str) else None
    if least is None:
        message = f"{severity!r} is no severity; one of: {', '.join(SEVERITIES)}"
        findings.append(Finding("unknown-severity", message, "error"))
    elif "outcome" in body and _worse(least, body["outcome"]):
        message = f"a {severity} deviation, but the outcome is {body['outcome']}"
        findings.append(Finding("severity-mismatch", message))


def _count_flake(state: _State, body: Body) -> None:
    """K25: a flake is a phase that failed and then succeeded on a later attempt."""
    phase = (body["node_id"], str(body.get("phase", "")))
    if "converged" not in body:
        state.unsure = True
        return
    if not body["converged"]:
        state.failed.add(phase)
    elif phase in state.failed:
        state.failed.discard(phase)
        state.flakes += 1


def _check_end(state: _State, body: Body, findings: list[Finding]) -> None:
    if body.get("flake_retries", state.flakes) != state.flakes and not state.unsure:
        message = f"flake_retries is {body['flake_retries']}, the log shows {state.flakes}"
        findings.append(Finding("flake-count", message))
    worst = max(state.worst.values(), key=WORST_LAST.index, default=body["outcome"])
    flaky = state.flakes or (state.unsure and body["outcome"] == "clean_with_flake")
    if flaky and worst == "clean":
        worst = "clean_with_flake"
    if body["outcome"] != worst:
        message = f"outcome {body['outcome']}, the worst prompt is {worst}"
        findings.append(Finding("worst-outcome", message))


def rest(state: _State) -> list[Finding]:
    return kahn.rest(state.nodes) if state.nodes else []


def _worse(outcome: str, than: str) -> bool:
    return WORST_LAST.index(outcome) > WORST_LAST.index(than)


def write(fact: Fact, scene: Scene) -> Body | None:
    if isinstance(fact, Moved) and fact.phase in ("done", "failed"):
        scene.memory["moved"] = fact  # written together with its outcome, which follows
        return None
    moved = scene.memory.pop("moved", None)
    same = isinstance(fact, Ended) and moved is not None and moved.step == fact.step
    body = kahn.write(moved if same else fact, scene)
    if body is None:
        return None
    match body["event"]:
        case "run_start":
            body["actor"] = fact.agent or "unknown"
        case "node_transition":
            failed = isinstance(fact, Ended) and fact.passed is False
            outcome = fact.outcome if isinstance(fact, Ended) else None
            body["outcome"] = outcome if outcome in WORST_LAST else "partial" if failed else "clean"
    return body


dialect = Dialect(
    name="ralph",
    about="Runs of prompts, in the format of kahn-ci with some keys of its own.",
    family="kahn",
    policy=Policy(kinds="closed", fields="open", redactable=False),
    kind_key="event",
    kinds=KINDS,
    frame=kahn.KahnCiEnvelope,
    claim=kahn.claim,
    read=kahn.read,
    facts=facts,
    rules=rules,
    rest=rest,
    write=write,
    carries=kahn.dialect.carries,
    tolerate=tolerate,
    guessed=False,  # a line is kahn-ci unless it shows ralph's keys, or the sender names ralph
    excused={kind: frozenset(keys) for kind, keys in EXCUSED.items()},
    profile_of=kahn.dialect.name,
    own_keys=("actor", "outcome", "convergence_score", "early_stop_reason"),
    shows=shows,
)
