"""Facts written as lines of this dialect."""

from typing import Any

from tracklog.dialects import Scene, millis, slug
from tracklog.dialects.kahn_ci.meaning import TOTALS
from tracklog.dialects.kahn_ci.rules import DECISIVE, outcome_of
from tracklog.dialects.kahn_ci.shapes import NODE_ID, OUTCOMES, PHASES, RUN_ID
from tracklog.model.event import Body
from tracklog.model.fact import Began, Ended, Fact, Moved, Returned


def write(fact: Fact, scene: Scene) -> Body | None:
    base: Body = {"ts": millis(scene.at), "run_id": slug(scene.run, RUN_ID, "run")}
    memory = scene.memory
    nodes = memory.setdefault("nodes", {})
    name, _, attempt = (fact.step or "").rpartition("#")
    is_agent = isinstance(fact, Began | Ended) and fact.what == "agent"
    node = slug((fact.agent if is_agent else fact.step) or "", NODE_ID, "node")
    match fact:
        case Began(what="run"):
            return {
                **base,
                "event": "run_start",
                "total_nodes": (fact.counts or {}).get("total_nodes", 0),
            }
        case Moved(agent=None, step=str(), to=to) if to in PHASES:
            before = fact.from_ if fact.from_ in PHASES else nodes.get(node, "pending")
            return {**base, **_write_move(node, before, to, fact.reason, memory)}
        case Began(what="step" | "agent") if nodes.get(node) != "running":
            return {**base, **_write_move(node, "ready", "running", None, memory)}
        case Ended(what="step") if name and attempt.isdecimal():
            return {**base, **_write_attempt(fact, slug(name, NODE_ID, "node"), memory)}
        case Ended(what="step" | "agent") if nodes.get(node, "running") == "running":
            to = "failed" if fact.passed is False else "done"
            return {**base, **_write_move(node, "running", to, fact.reason, memory)}
        case Returned(exit_code=int(code)):
            check: Body = {"cmd": fact.tool or "unknown", "rc": code}
            check["duration_s"] = float(fact.seconds or 0)
            if isinstance(fact.output, str) and code:
                # K13: bytes, without cutting a code point
                whole_tail = fact.output.encode(errors="replace")
                check |= {"tail": whole_tail[-TAIL:].decode(errors="ignore")}
                check |= {"truncated": True} if len(whole_tail) > TAIL else {}
            memory.setdefault("checks", {}).setdefault(node, []).append(check)
        case Ended(what="run"):
            return {**base, "event": "run_end", **_end(fact, memory)}
    return None


TAIL = 4096


def _write_move(
    node: str, before: str, to: str, reason: str | None, memory: dict[str, Any]
) -> Body:
    memory["nodes"][node] = to
    body: Body = {"event": "node_transition", "node_id": node, "from": before, "to": to}
    if to == "running":
        attempts = memory.setdefault("attempts", {})
        body["attempt"] = attempts[node] = attempts.get(node, 0) + 1
    return body | ({"reason": reason} if reason else {})


def _write_attempt(fact: Ended, node: str, memory: dict[str, Any]) -> Body:
    checks = memory.get("checks", {}).pop(node, [])
    memory["tried"] = memory.get("tried", 0) + 1
    return {
        "event": "node_attempt",
        "node_id": node,
        "attempt": int((fact.step or "").rpartition("#")[2][:9]) or 1,
        "duration_s": float(fact.seconds or 0),
        "converged": fact.passed is True,
        "done_when_results": checks,
    }


def _end(fact: Ended, memory: dict[str, Any]) -> dict[str, Any]:
    ends = list(memory["nodes"].values())
    counts = {status: ends.count(status) for status in ("done", "failed", "blocked")}
    if fact.passed is False and not counts["failed"] and not counts["blocked"]:
        counts["failed"] = 1
    counts |= {key: n for key, n in (fact.counts or {}).items() if key in TOTALS}
    known = [word for word in OUTCOMES if word == fact.outcome]
    outcome = known[0] if known else outcome_of(*(counts.get(key, 0) for key in DECISIVE))
    end: dict[str, Any] = {"outcome": outcome, **counts}
    end["total_duration_s"] = float(fact.seconds or 0)
    clean = outcome in ("clean", "clean_with_flake")
    return end | ({} if clean else {"exit_code": fact.exit_code or 1})
