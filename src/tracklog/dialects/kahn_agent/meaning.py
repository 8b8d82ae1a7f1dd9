"""The facts of an event."""

from collections.abc import Iterator
from typing import Any

from tracklog.dialects import extras, text
from tracklog.dialects.kahn_agent.shapes import BLOCKED, PHASES
from tracklog.model.event import Body, Event
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Moved,
    Returned,
)


def facts(event: Event) -> Iterator[Fact]:
    body = event.body
    agent: Any = body.get("agent_id")
    match event.kind:
        case "agent_run_start":
            yield Began(what="agent", agent=agent, task=body["task"], model=body.get("model"))
        case "agent_transition":
            yield from _moved(agent, body)
        case "tool_invocation":
            yield from _used(agent, body)
        case "audit_checkpoint":
            yield Decided(
                agent=agent,
                name=body["checkpoint_id"],
                verdict=body["result"],
                passed={"pass": True, "fail": False}.get(body["result"]),
                evidence=body.get("evidence"),
            )
        case "agent_run_end":
            yield Ended(
                what="agent",
                agent=agent,
                outcome=body["outcome"],
                passed=body["outcome"] == "converged",
                score=body.get("convergence_score"),
                seconds=body["total_duration_s"],
            )
    yield from extras(body, agent)


def _moved(agent: str, body: Body) -> Iterator[Fact]:
    before, to, reason = body["from"], body["to"], body.get("reason")
    step = str(int(body["step"]))
    yield Moved(agent=agent, step=step, from_=before, to=to, phase=PHASES[to], reason=reason)
    if to == BLOCKED:
        yield Asked(
            agent=agent,
            step=step,
            question_id=_question("clarification", agent, reason),
            what="clarification",
            text=text(body.get("question")) or reason,
            expires=text(body.get("expires")),
        )
    elif before == BLOCKED and not (reason or "").startswith("timeout:"):
        yield Answered(
            agent=agent,
            step=step,
            question_id=_question("operator_response", agent, reason),
            answer=body.get("answer", reason),
        )


def _question(word: str, agent: str, reason: str | None) -> str:
    """K22: the question's id follows the word; without it the agent has one open question."""
    kind, _, detail = (reason or "").partition(":")
    return detail if kind == word and detail else agent


def _used(agent: str, body: Body) -> Iterator[Fact]:
    step = str(int(body["step"]))
    call_id = f"{agent}/{step}/{body['tool_name']}"
    yield Called(
        agent=agent,
        step=step,
        tool=body["tool_name"],
        call_id=call_id,
        synthetic_id=True,
        input=body.get("input_summary"),
    )
    yield Returned(
        agent=agent,
        step=step,
        tool=body["tool_name"],
        call_id=call_id,
        synthetic_id=True,
        ok=body["ok"],
        seconds=body["duration_s"],
        output=body.get("output_summary"),
        error=body.get("error"),
    )
