"""The rules across the events of a run."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tracklog.dialects import number, text
from tracklog.dialects.fishbowl.shapes import ROLES
from tracklog.model.event import Body, Event, Finding


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
    findings = _check_bookends(state, event)
    if body["turn"] < state.turn:
        message = f"turn {body['turn']} after turn {state.turn}"
        findings.append(Finding("turn-decreased", message, "error"))
    state.turn = max(state.turn, body["turn"])
    if event.kind in ROLES and not text(payload.get("text")):
        findings.append(Finding("text-missing", f"{event.kind} without a text"))
    match event.kind:
        case "run.started":
            _set_stage(state, payload)
        case "judge.verdict":
            findings += _check_verdict(state, payload)
            state.verdict = payload
        case "run.finished":
            findings += _check_finish(state, payload)
            state.correctable = payload.get("reason") == "budget" and not payload.get("winner")
            state.ends += 1
    return state, findings


def _check_bookends(state: _State, event: Event) -> list[Finding]:
    findings = []
    if event.kind == "run.started":
        if state.begun:
            findings.append(Finding("second-start", "a second run.started in this run", "error"))
    elif not state.begun:
        findings.append(Finding("no-start", f"the run begins with {event.kind}, not run.started"))
    state.begun = True
    if state.ends and not (state.correctable and _corrects(state, event)):
        findings.append(Finding("after-end", f"{event.kind} after run.finished", "error"))
    return findings


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
            yield Finding("no-contest-winner", "both no_contest and a winner are given")


def _check_accusation(state: _State, payload: Body) -> Iterator[Finding]:
    keys = [key for key in ("accused", "correct") if key in payload]
    if keys and state.contest not in (None, "versus"):
        yield Finding("accused-misplaced", f"{' and '.join(keys)} outside a versus competition")
    if len(keys) == 1:
        yield Finding(
            "accused-alone", f"{keys[0]} is given alone; accused and correct belong together"
        )
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
        yield Finding("reason-unknown", f"reason {reason!r} is not one of the four reasons")
    if isinstance(kind, str) and kind not in ("agent", "team"):
        yield Finding("winner-kind", f"winner_kind {kind!r} is neither agent, team nor null")
    if kind == "team" and payload.get("winning_model") is not None:
        # BOWL-50: never guessed
        yield Finding("winning-model", "a team won, and yet winning_model names one model")
    if reason == "verdict" and state.verdict is not None:
        ruled, winner = state.verdict.get("winner") or None, payload.get("winner") or None
        if ruled != winner:
            yield Finding(
                "winner-mismatch",
                f"the winner is {ruled} in the verdict, and {winner} in run.finished",
            )


def rest(state: _State) -> list[Finding]:
    return [] if state.ends else [Finding("no-end", "no run.finished", "info")]
