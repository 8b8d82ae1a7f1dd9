"""Facts written as lines of this dialect."""

import json
import re
from dataclasses import fields
from typing import Any

from tracklog.dialects import Scene, number, text
from tracklog.dialects.fishbowl.shapes import CORE_EVENT_KINDS, KIND
from tracklog.model.event import Body
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    Moved,
    Noted,
    Returned,
    Role,
    Said,
    Spent,
)

KIND_OF_ROLE: dict[Role, str] = {
    "user": "user.injected",
    "assistant": "agent.spoke",
    "thought": "agent.thought",
    "belief": "agent.reflected",
    "world": "world.observed",
    "system": "system.spoke",
    "note": "note.added",
}


def write(fact: Fact, scene: Scene) -> Body | None:
    if isinstance(fact, Spent) and (usage := fact.usage):
        parts = [usage.get(key) for key in ("input_tokens", "output_tokens")]
        tokens = number(usage.get("total_tokens")) or sum(number(part) or 0 for part in parts)
        scene.memory["tokens"] = scene.memory.get("tokens", 0) + int(tokens)
    sentence = _sentence(fact, scene)
    if sentence is None:
        return None
    kind, actor, payload = sentence
    turn = scene.memory.get("turn", 0)
    if kind == "user.injected":
        turn += 1  # the visitor advances the turn
    if (fact.step or "").isdecimal() and len(fact.step or "") < 16:
        turn = max(turn, int(fact.step or 0))
    scene.memory["turn"] = turn
    return {
        "id": scene.id,
        "run_id": scene.run,
        "turn": turn,
        "kind": kind,
        "actor": actor,
        "payload": payload,
        "created_at": scene.at,
        "schema_version": 1,
    }


OWN_KINDS: dict[type[Fact], str] = {
    Began: "began",
    Ended: "ended",
    Moved: "agent.moved",
    Linked: "run.linked",
    Spent: "tokens.spent",
    Noted: "note.added",
}


def _sentence(fact: Fact, scene: Scene) -> tuple[str, str, Body] | None:
    """The kind, the actor and the payload; kinds are open, so a fact without a core kind gets its
    own.
    """
    agent = fact.agent or "agent"
    match fact:
        case Began(what="run"):
            opening = {"seed": "", "goal": fact.task or "", "scenario": "", "cast": {}}
            return "run.started", "conductor", opening
        case Ended(what="run"):
            return "run.finished", "conductor", _write_end(fact, scene)
        case Said():
            words = "\n".join(filter(None, map(_words, fact.blocks)))
            actor = "visitor" if fact.role == "user" else agent
            return (KIND_OF_ROLE[fact.role], actor, {"text": words}) if words else None
        case Decided():
            return "judge.verdict", fact.by or agent, _write_verdict(fact)
        case Called():
            called = {"text": f"calls {fact.tool}", "tool": fact.tool, "input": fact.input}
            return "tool.called", agent, {**called, "call_id": fact.call_id}
        case Returned():
            returned = {"call_id": fact.call_id, "ok": fact.ok, "output": fact.output}
            return "tool.returned", agent, {**returned, "error": fact.error}
        case Asked():
            asked = {"question_id": fact.question_id}
            return "question.asked", agent, asked | ({"text": fact.text} if fact.text else {})
        case Answered():
            answered = {"question_id": fact.question_id, "answer": fact.answer}
            return "question.answered", fact.by or "visitor", answered
        case Noted(kind=str(kind), data=dict()) if _is_own(kind):
            return kind, agent, fact.data
    if type(fact) not in OWN_KINDS:
        return None
    kind = OWN_KINDS[type(fact)]
    payload = {
        item.name.rstrip("_"): value
        for item in fields(fact)
        if (value := getattr(fact, item.name)) != item.default
    }
    return (kind if "." in kind else f"{payload['what']}.{kind}"), agent, payload


def _is_own(kind: str) -> bool:
    """Whether a note has a kind that only this dialect has, and keeps its payload."""
    return kind not in CORE_EVENT_KINDS and re.fullmatch(KIND, kind) is not None


def _words(block: Any) -> str | None:
    return text(block.get("text")) or text(block.get("thinking"))


def _write_verdict(fact: Decided) -> Body:
    words = fact.verdict if isinstance(fact.verdict, str) else fact.reason
    if not words:  # BOWL-26: a verdict has a text, if only the one that was recorded
        words = json.dumps(fact.verdict, ensure_ascii=False) if fact.verdict else fact.name
    payload: Body = {"text": words or "decided"}
    if fact.no_contest:
        return payload | {"no_contest": True}
    fields = {"winner": fact.winner, "accused": fact.accused, "correct": fact.correct}
    payload |= {key: value for key, value in fields.items() if value is not None}
    return payload | ({"scores": dict(fact.scores)} if fact.scores is not None else {})


def _write_end(fact: Ended, scene: Scene) -> Body:
    return {
        "reason": fact.outcome or ("verdict" if fact.winner else "user_stop"),
        "winner": fact.winner,
        "winner_kind": fact.winner_kind,
        "winning_model": fact.winning_model,
        "winning_models": list(fact.winning_models or ()),
        "turns": scene.memory.get("turn", 0),
        "tokens": scene.memory.get("tokens", 0),
        **{key: n for key, n in (fact.counts or {}).items() if key in ("turns", "tokens")},
    }
