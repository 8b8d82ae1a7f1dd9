"""fishbowl: a stage on which agents talk, a judge may rule and a visitor may interfere."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tracklog.dialects import (
    ClosedShape,
    Dialect,
    Policy,
    Scene,
    number,
    on_the_calendar,
    share,
    text,
)
from tracklog.model.event import Body, Envelope, Event, Finding
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

CORE_EVENT_KINDS = frozenset(
    {
        "run.started",
        "run.finished",
        "world.observed",
        "agent.thought",
        "agent.spoke",
        "agent.reflected",
        "judge.verdict",
        "user.injected",
    }
)
"""The kinds with a rendering and an importance of their own; other kinds are accepted too."""

IMPORTANCE = {
    "user.injected": 0.95,
    "judge.verdict": 0.9,
    "agent.reflected": 0.85,
    "world.observed": 0.7,
    "agent.spoke": 0.5,
    "run.finished": 0.5,
    "agent.thought": 0.4,
    "run.started": 0.3,
}
"""The importance of an event for an agent's memory, from 0 to 1, by kind."""

USUAL_IMPORTANCE = 0.5

KIND = r"^[a-z][a-z0-9]*(\.[a-z][a-z0-9]*)+$"
CREATED_AT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|\+00:00)$"


def importance(kind: str) -> float:
    """The importance of a kind; all kinds outside the core have the same."""
    return IMPORTANCE.get(kind, USUAL_IMPORTANCE)


def _whole(value: Any) -> Any:
    """An integer as JSON Schema defines it: 1.0 is one, true is not."""
    if isinstance(value, bool):
        raise ValueError("a boolean is no number")  # noqa: TRY004 - what pydantic listens for
    return int(value) if isinstance(value, float) and value.is_integer() else value


Name = Annotated[str, Field(min_length=1)]


class Frame(ClosedShape):
    """The envelope, the same for every kind; it has exactly eight fields."""

    id: Name
    """Unique and not empty; the same id twice is one event."""
    run_id: Name
    """Groups events into one run; not empty."""
    turn: Annotated[int, Field(ge=0), BeforeValidator(_whole)]
    """The logical turn, 0 or more: sim time, not the wall clock."""
    kind: Annotated[str, Field(pattern=KIND)]
    """Lower-case words joined by dots, at least two: agent.spoke, clue.found."""
    actor: Name
    """The emitter: an agent, the scenario, the visitor or the system; not empty."""
    payload: dict[str, Any]
    """A JSON object; what is in it depends on the kind and is never refused."""
    created_at: Annotated[
        str,
        Field(pattern=CREATED_AT, json_schema_extra={"format": "date-time"}),
        AfterValidator(on_the_calendar),
    ]
    """UTC, RFC 3339 with Z or +00:00: 2026-05-05T09:00:00Z."""
    schema_version: Annotated[Literal[1], BeforeValidator(_whole)]
    """Always 1 today."""


def claim(body: Body) -> float:
    known = re.fullmatch(KIND, text(body.get("kind")) or "") is not None
    return share(body, Frame.model_fields, known)


def read(body: Body) -> Envelope:
    get = body.get
    run, kind, at = get("run_id", ""), get("kind", ""), get("created_at")
    return run, kind, at, get("id"), get("actor"), None, None


ROLES: dict[str, Role] = {
    "world.observed": "world",
    "agent.thought": "thought",
    "agent.spoke": "assistant",
    "agent.reflected": "belief",
    "judge.verdict": "assistant",
    "user.injected": "user",
}
"""The core kinds that carry `text`, and the role of the text."""


def facts(event: Event) -> Iterator[Fact]:
    payload = event.body["payload"]
    match event.kind:
        case "run.started":
            yield from _started(payload)
        case "run.finished":
            yield from _finished(event.run, payload)
        case "judge.verdict":
            yield from _said(event, payload)
            yield _decided(event, payload)
        case _:
            said = list(_said(event, payload))
            yield from said or [
                Noted(
                    agent=_agent(event),
                    step=_turn(event),
                    label=event.kind,
                    kind=event.kind,
                    data=payload,
                )
            ]


def _agent(event: Event) -> str | None:
    """The agent that acted; the visitor is a person, not an agent."""
    return None if event.kind == "user.injected" else event.actor


def _turn(event: Event) -> str:
    return str(int(event.body["turn"]))


def _started(payload: Body) -> Iterator[Fact]:
    yield Began(what="run", task=text(payload.get("goal")))
    if scenario := text(payload.get("scenario")):
        yield Noted(label="title", text=scenario)
    yield Noted(label="setup", kind="run.started", data=payload)


def _said(event: Event, payload: Body) -> Iterator[Fact]:
    # F14: only a non-empty string is rendered, whatever the kind.
    if words := text(payload.get("text")):
        yield Said(
            agent=_agent(event),
            step=_turn(event),
            role=ROLES.get(event.kind, "note"),
            blocks=({"type": "text", "text": words},),
        )


def _decided(event: Event, payload: Body) -> Fact:
    scores, correct = payload.get("scores"), payload.get("correct")
    winner = text(payload.get("winner")) or None
    return Decided(
        agent=event.actor,
        step=_turn(event),
        by=event.actor,
        name="verdict",
        verdict=text(payload.get("text")) or winner or payload,
        winner=winner,
        accused=text(payload.get("accused")),
        correct=correct if isinstance(correct, bool) else None,
        scores={name: mark for name, value in scores.items() if (mark := number(value)) is not None}
        if isinstance(scores, dict)
        else None,
        no_contest=payload.get("no_contest") is True,
    )


def _finished(run: str, payload: Body) -> Iterator[Fact]:
    models = payload.get("winning_models")
    yield Ended(
        what="run",
        outcome=text(payload.get("reason")),
        winner=text(payload.get("winner")) or None,
        winner_kind=text(payload.get("winner_kind")),
        winning_model=text(payload.get("winning_model")),
        winning_models=tuple(model for model in models if isinstance(model, str))
        if isinstance(models, list)
        else None,
        counts=_counts(payload),
    )
    tokens = number(payload.get("tokens"))
    if tokens is not None:
        # The total of the run, repeated by a corrective close: one spend.
        yield Spent(key=f"fishbowl/{run}/tokens", usage={"total_tokens": tokens})


def _counts(payload: Body) -> dict[str, int] | None:
    """The governor's totals, as far as they are numbers."""
    told = {key: number(payload.get(key)) for key in ("turns", "tokens")}
    return {key: int(n) for key, n in told.items() if n is not None and 0 <= n < 2**53} or None


@dataclass(slots=True)
class _State:
    begun: bool = False
    ends: int = 0
    correctable: bool = False
    """Closed by the budget without a winner: a verdict may still come, and a second close."""
    turn: int = 0
    contest: str | None = None
    """The kind of the competition; None where the run's start is not in the log."""
    cast: frozenset[str] | None = None
    teams: frozenset[str] = frozenset()
    verdict: Body | None = field(default=None)


def rules(state: _State | None, event: Event) -> tuple[_State, list[Finding]]:
    state = state or _State()
    body, payload = event.body, event.body["payload"]
    found = _check_bookends(state, event)
    if body["turn"] < state.turn:
        message = f"turn {body['turn']} after turn {state.turn}"
        found.append(Finding("turn-decreased", message, "error"))
    state.turn = max(state.turn, body["turn"])
    if event.kind in ROLES and not text(payload.get("text")):
        found.append(Finding("text-missing", f"{event.kind} without a text"))
    match event.kind:
        case "run.started":
            _set_stage(state, payload)
        case "judge.verdict":
            found += _check_verdict(state, payload)
            state.verdict = payload
        case "run.finished":
            found += _check_finish(state, payload)
            state.correctable = payload.get("reason") == "budget" and not payload.get("winner")
            state.ends += 1
    return state, found


def _check_bookends(state: _State, event: Event) -> list[Finding]:
    found = []
    if event.kind == "run.started":
        if state.begun:
            found.append(Finding("second-start", "a second run.started in this run", "error"))
    elif not state.begun:
        found.append(Finding("no-start", f"the run begins with {event.kind}, not run.started"))
    state.begun = True
    if state.ends and not (state.correctable and _corrects(state, event)):
        found.append(Finding("after-end", f"{event.kind} after run.finished", "error"))
    return found


def _corrects(state: _State, event: Event) -> bool:
    """A run that ran out of budget may get one verdict, and a second close that repeats it."""
    if event.kind == "run.finished":
        return state.ends == 1 and state.verdict is not None and bool(state.verdict.get("winner"))
    return event.kind == "judge.verdict"


def _set_stage(state: _State, payload: Body) -> None:
    cast, competition = payload.get("cast"), payload.get("competition")
    state.cast = frozenset(cast) if isinstance(cast, dict) else None
    competition = competition if isinstance(competition, dict) else {}
    state.contest = text(competition.get("kind")) or "none"
    teams = competition.get("teams")
    state.teams = frozenset(teams) if isinstance(teams, dict) else frozenset()


def _check_verdict(state: _State, payload: Body) -> Iterator[Finding]:
    winner = payload.get("winner")
    if winner is not None and not isinstance(winner, str):
        yield Finding("winner-form", "winner is neither a string nor null")
    elif winner and state.contest == "none":
        yield Finding("winner-misplaced", f"winner {winner!r} in a run without a competition")
    elif winner and state.cast is not None and winner not in state.cast | state.teams:
        yield Finding("winner-unknown", f"winner {winner!r} is neither in the cast nor a team")
    yield from _check_accusation(state, payload)
    yield from _check_scores(state, payload)
    if "no_contest" in payload:
        # F9: the literal true, or absent
        if payload["no_contest"] is not True:
            yield Finding("no-contest-form", "no_contest is not the literal true")
        if "winner" in payload:
            yield Finding("no-contest-winner", "no_contest beside a winner")


def _check_accusation(state: _State, payload: Body) -> Iterator[Finding]:
    said = [key for key in ("accused", "correct") if key in payload]
    if said and state.contest not in (None, "versus"):
        yield Finding("accused-misplaced", f"{' and '.join(said)} outside a versus competition")
    if len(said) == 1:
        yield Finding("accused-alone", f"{said[0]} without its other half")
    if not isinstance(payload.get("accused", ""), str):
        yield Finding("accused-form", "accused is not a string")
    if not isinstance(payload.get("correct", True), bool):
        yield Finding("accused-form", "correct is not a boolean")


def _check_scores(state: _State, payload: Body) -> Iterator[Finding]:
    scores = payload.get("scores", {})
    if not isinstance(scores, dict):
        yield Finding("scores-form", "scores is not an object")
        return
    for name, score in scores.items():
        mark = number(score)
        if mark is None:
            yield Finding("scores-form", f"the score of {name} is not a number")
        elif not 0 <= mark <= 10:
            yield Finding("scores-range", f"the score of {name} is {score}, outside 0 to 10")
        if state.cast is not None and name not in state.cast:
            yield Finding("scores-name", f"a score for {name}, who is not in the cast")


FINISH: dict[str, tuple[type, ...]] = {
    "reason": (str,),
    "winner": (str, type(None)),
    "winner_kind": (str, type(None)),
    "winning_model": (str, type(None)),
    "winning_models": (list,),
    "turns": (int,),
    "tokens": (int,),
}
"""F13: run.finished is written with all seven keys."""


def _check_finish(state: _State, payload: Body) -> Iterator[Finding]:
    for key, types in FINISH.items():
        if key not in payload:
            yield Finding("finish-keys", f"run.finished without {key}")
        elif not isinstance(payload[key], types) or isinstance(payload[key], bool):
            yield Finding("finish-form", f"{key} of run.finished is of the wrong type")
    models = payload.get("winning_models")
    if isinstance(models, list) and not all(isinstance(model, str) for model in models):
        yield Finding("finish-form", "winning_models holds what is no string")
    reason, kind = payload.get("reason"), payload.get("winner_kind")
    if isinstance(reason, str) and reason not in ("verdict", "budget", "tick_cap", "user_stop"):
        yield Finding("reason-unknown", f"reason {reason!r} is none of the four")
    if isinstance(kind, str) and kind not in ("agent", "team"):
        yield Finding("winner-kind", f"winner_kind {kind!r} is neither agent, team nor null")
    if kind == "team" and payload.get("winning_model") is not None:
        # BOWL-50: never guessed
        yield Finding("winning-model", "a team won, and yet winning_model names one model")
    if reason == "verdict" and state.verdict is not None:
        ruled, told = state.verdict.get("winner") or None, payload.get("winner") or None
        if ruled != told:
            yield Finding("winner-mismatch", f"the verdict names {ruled}, run.finished {told}")


def rest(state: _State) -> list[Finding]:
    return [] if state.ends else [Finding("no-end", "no run.finished", "info")]


SPOKEN: dict[Role, str] = {
    "user": "user.injected",
    "assistant": "agent.spoke",
    "thought": "agent.thought",
    "belief": "agent.reflected",
    "world": "world.observed",
    "system": "system.spoke",
    "note": "note.added",
}


def say(fact: Fact, scene: Scene) -> Body | None:
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
            return "run.finished", "conductor", _say_end(fact, scene)
        case Said():
            words = "\n".join(filter(None, map(_words, fact.blocks)))
            actor = "visitor" if fact.role == "user" else agent
            return (SPOKEN[fact.role], actor, {"text": words}) if words else None
        case Decided():
            return "judge.verdict", fact.by or agent, _say_verdict(fact)
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


def _say_verdict(fact: Decided) -> Body:
    spoken = fact.verdict if isinstance(fact.verdict, str) else fact.reason
    if not spoken:  # BOWL-26: a verdict has a text, if only the one that was recorded
        spoken = json.dumps(fact.verdict, ensure_ascii=False) if fact.verdict else fact.name
    payload: Body = {"text": spoken or "decided"}
    if fact.no_contest:
        return payload | {"no_contest": True}
    said = {"winner": fact.winner, "accused": fact.accused, "correct": fact.correct}
    payload |= {key: value for key, value in said.items() if value is not None}
    return payload | ({"scores": dict(fact.scores)} if fact.scores is not None else {})


def _say_end(fact: Ended, scene: Scene) -> Body:
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


dialect = Dialect(
    name="fishbowl",
    about="A stage: agents talk, a judge may rule, a visitor may interfere.",
    policy=Policy(kinds="open", fields="closed", identity="refuse", elsewhere="id-in-another-run"),
    kind_key="kind",
    kinds={},
    frame=Frame,
    claim=claim,
    read=read,
    facts=facts,
    rules=rules,
    rest=rest,
    say=say,
    extension=("payload", "converted"),
    contract="fishbowl",
    version_key="schema_version",
    current=1,
)
