"""Facts written as lines of this dialect."""

from typing import Any

from tracklog.dialects import Scene, millis, slug
from tracklog.dialects.kahn_agent.shapes import (
    AGENT_ID,
    BLOCKED,
    CHECKPOINT_ID,
    PHASES,
    RUN_ID,
    SUMMARY,
)
from tracklog.model.event import Body
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


def write(fact: Fact, scene: Scene) -> Body | None:
    agent = slug(fact.agent or "", AGENT_ID, "agent")
    base: Body = {"ts": millis(scene.at), "run_id": slug(scene.run, RUN_ID, "run")}
    memory = scene.memory.setdefault(agent, {"steps": 0, "tools": 0, "status": "thinking"})
    audits = memory.setdefault("audits", {"pass": 0, "fail": 0, "warn": 0})
    match fact:
        case Began(what="agent" | "run"):
            body = {**base, "event": "agent_run_start", "agent_id": agent, "task": fact.task or ""}
            return body | ({"model": fact.model} if fact.model else {})
        case Moved(agent=str()):  # a status of a step, without an agent, has no event here
            move = _write_move(fact, agent, memory)
            return None if move is None else {**base, **move}
        case Asked() if memory["status"] != BLOCKED:
            asked = Moved(from_=None, to=BLOCKED, phase="waiting")
            reason = {"reason": f"clarification:{fact.question_id}"}
            words = {"question": fact.text} if fact.text else {}
            return {**base, **(_write_move(asked, agent, memory) or {}), **reason, **words}
        case Answered() if memory["status"] == BLOCKED:
            answered = Moved(from_=BLOCKED, to="thinking", phase="working")
            fields = {"reason": f"operator_response:{fact.question_id}", "answer": fact.answer}
            return {**base, **(_write_move(answered, agent, memory) or {}), **fields}
        case Called():
            scene.memory[f"tool {fact.call_id}"] = (fact.tool, fact.input)
        case Returned():
            memory["tools"] += 1
            return {**base, **_write_tool(fact, agent, memory, scene)}
        case Decided(name=str(name)) if fact.passed is not None or fact.verdict == "warn":
            result = {True: "pass", False: "fail", None: "warn"}[fact.passed]
            audits[result] += 1
            return {
                **base,
                "event": "audit_checkpoint",
                "agent_id": slug(fact.agent, AGENT_ID, "agent") if fact.agent else None,
                "checkpoint_id": slug(name, CHECKPOINT_ID, "checkpoint"),
                "result": result,
                "duration_s": 0.0,
            } | ({"evidence": fact.evidence} if isinstance(fact.evidence, dict) else {})
        case Ended(what="agent" | "run"):
            return {**base, **_write_end(fact, agent, memory, audits)}
    return None


def _write_move(fact: Moved, agent: str, memory: dict[str, Any]) -> Body | None:
    words = {"working": "thinking", "waiting": BLOCKED, "done": "converged", "failed": "failed"}
    to = fact.to if fact.to in PHASES else words[fact.phase]
    before = fact.from_ if fact.from_ in PHASES else memory["status"]
    if to == memory["status"] and fact.to not in PHASES:
        return None  # the question, or its answer, was written as this event
    memory["status"] = to
    body: Body = {"event": "agent_transition", "agent_id": agent, "step": _step(fact, memory)}
    body |= {"from": before, "to": to}
    return body | ({"reason": fact.reason} if fact.reason else {})


def _step(fact: Fact, memory: dict[str, Any]) -> int:
    """The number of the step where it has one; it never decreases."""
    if (fact.step or "").isdecimal() and len(fact.step or "") < 16:
        memory["steps"] = max(memory["steps"], int(fact.step or 0))
    return int(memory["steps"])


def _write_tool(fact: Returned, agent: str, memory: dict[str, Any], scene: Scene) -> Body:
    body: Body = {"event": "tool_invocation", "agent_id": agent, "step": _step(fact, memory)}
    memory["steps"] += not (fact.step or "").isdecimal()
    tool, given = scene.memory.pop(f"tool {fact.call_id}", ("unknown", None))
    body["tool_name"] = fact.tool or tool
    body["duration_s"] = float(fact.seconds or 0)
    body["ok"] = fact.ok is not False
    if isinstance(given, str):
        body["input_summary"] = given[:SUMMARY]
    if isinstance(fact.output, str):  # KAHN-52: a summary, never the complete output
        body["output_summary"] = fact.output[:SUMMARY]
    if isinstance(fact.error, str):
        body["error"] = fact.error[:SUMMARY]
    return body


def _write_end(fact: Ended, agent: str, memory: dict[str, Any], audits: dict[str, int]) -> Body:
    outcome = fact.outcome
    if outcome not in ("converged", "partial", "escaped", "aborted"):
        outcome = "converged" if fact.passed else "partial"
    body: Body = {
        "event": "agent_run_end",
        "agent_id": agent,
        "outcome": outcome,
        "total_steps": memory["steps"],
        "total_tool_calls": memory["tools"],
        "total_audit_checkpoints": sum(audits.values()),
        "audits_passed": audits["pass"],
        "audits_failed": audits["fail"],
        "total_duration_s": float(fact.seconds or 0),
    }
    if fact.score is not None and 0 <= fact.score <= 1:
        body["convergence_score"] = fact.score
    return body
