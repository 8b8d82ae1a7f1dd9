"""Who won each contest, and with which models?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog.folds import MOST, Fold, Position, Sums, integer, name_text, run_key, short
from tracklog.model.fact import Began, Ended, Fact, Noted


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    first_seq: int = 0
    last_seq: int = 0
    scenario: str = ""
    seed: str = ""
    session_id: str | None = None
    cast: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """Each player's `model_endpoint`, `model_profile` and `model`."""
    contest: str | None = None
    """The kind of its competition; None where no setup was recorded."""
    started_at: str | None = None
    finished: bool = False
    finished_at: str | None = None
    reason: str | None = None
    winner: str | None = None
    winner_kind: str | None = None
    winning_model: str | None = None
    winning_models: list[str] = field(default_factory=list)
    turns: int | None = None
    tokens: int | None = None
    """Both as its end reports them; None where it does not."""


def key(position: Position, fact: Fact) -> str | None:
    return None if isinstance(fact, Noted) and fact.label != "setup" else run_key(position)


def step(state: State, position: Position, fact: Fact) -> State:
    if not state.first_seq:
        state.family, state.run, state.first_seq = position.family, position.run, position.seq
    state.last_seq = position.seq
    if fact.copied is True:
        return state
    match fact:
        case Began(what="run"):
            state.started_at = position.at
        case Noted(label="setup", data=Mapping() as setup):
            _set_up(state, setup)
        case Ended(what="run"):
            # F15: the last end wins, whatever an earlier one reported.
            state.finished, state.finished_at, state.reason = True, position.at, short(fact.outcome)
            state.winner, state.winner_kind = name_text(fact.winner), name_text(fact.winner_kind)
            state.winning_model = name_text(fact.winning_model)
            models = fact.winning_models if isinstance(fact.winning_models, tuple | list) else ()
            state.winning_models = [model for model in models if isinstance(model, str)]
            total = fact.counts if isinstance(fact.counts, Mapping) else {}
            state.turns, state.tokens = integer(total.get("turns")), integer(total.get("tokens"))
    return state


def _set_up(state: State, setup: Mapping[str, Any]) -> None:
    state.scenario = short(setup.get("scenario")) or ""
    state.seed = short(setup.get("seed")) or ""
    state.session_id = short(setup.get("session_id"))
    cast, contest = setup.get("cast"), setup.get("competition")
    keys = ("model_endpoint", "model_profile", "model")
    state.cast = {
        name: {key: name_text(seat.get(key)) for key in keys}
        for name, seat in (cast.items() if isinstance(cast, Mapping) else ())
        if isinstance(name, str) and isinstance(seat, Mapping)
    }
    kind = contest.get("kind") if isinstance(contest, Mapping) else None
    state.contest = name_text(kind) or "none"


def summary(state: State) -> dict[str, Any]:
    """One run in short; the winner's keys are the end's, one to one."""
    return {
        "run_id": state.run,
        "scenario": state.scenario,
        "seed": state.seed,
        "session_id": state.session_id,
        "cast": state.cast,
        "started_at": state.started_at,
        "finished_at": state.finished_at,
        "reason": state.reason,
        "winner": state.winner,
        "winner_kind": state.winner_kind,
        "winning_model": state.winning_model,
        "winning_models": state.winning_models,
        "turns": state.turns or 0,
        "tokens": state.tokens or 0,
    }


def staged(state: State) -> bool:
    """Whether a run was a play or a contest: it was set up as one, or ended as one."""
    return state.contest is not None or state.winner is not None or state.turns is not None


def counts(state: State) -> bool:
    """Whether a run gets a row: it is a finished contest that someone won with some model."""
    return (
        state.finished
        and bool(state.winner)
        and bool(state.winning_models)
        and state.contest != "none"
    )


def sums(key: str, state: State) -> Sums:
    """The runs that get a row, the latest first."""
    return {f"{MOST - state.last_seq:016}": {key: 1}} if counts(state) else {}


def answer(states: Iterable[State]) -> list[dict[str, Any]]:
    """The leaderboard: one row per run that counts, the latest first."""
    rows = [
        {"family": state.family, "last_seq": state.last_seq, "contest": state.contest}
        | summary(state)
        for state in states
        if counts(state)
    ]
    return sorted(rows, key=lambda row: -row["last_seq"])


fold = Fold(
    name="leaderboard",
    about="Who won each contest, and with which models?",
    State=State,
    facts=(Began, Ended, Noted),
    key=key,
    step=step,
    rewound=True,
    sums=sums,
)
