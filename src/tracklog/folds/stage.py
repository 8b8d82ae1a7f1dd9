"""What would one see on the stage now: the scene, the last words, the verdicts, the visitors?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog.folds import Fold, Position, name_text, run_key, short, text_in, text_of
from tracklog.model.fact import Began, Decided, Fact, Noted, Said

NOTES, VERDICTS, VISITORS = 8, 5, 5
SPARE = 2
"""More notes are stored than shown, because a verdict removes its own text from them."""


@dataclass(slots=True)
class State:
    goal: str | None = None
    seed: str | None = None
    scene: str | None = None
    notes: list[list[Any]] = field(default_factory=list)
    """The record and the words."""
    verdicts: list[list[Any]] = field(default_factory=list)
    visitors: list[list[Any]] = field(default_factory=list)


def key(position: Position, fact: Fact) -> str | None:
    match fact:
        case Began() if fact.what != "run":
            return None
        case Noted() if fact.label != "setup":
            return None
        case Decided() if fact.verdict is None:
            return None
    return run_key(position)


def step(state: State, position: Position, fact: Fact) -> State:
    match fact:
        case Began(what="run"):
            state.goal = short(fact.task) or state.goal
            state.scene = state.scene or state.goal
        case Noted(label="setup", data=Mapping() as setup):
            state.seed = short(setup.get("seed")) or state.seed
            state.scene = state.seed if state.scene in (None, state.goal) else state.scene
        case Said() if not position.withdrawn and (words := short(text_in(fact.blocks))):
            _add_message(state, position, fact, words)
        case Decided() if fact.verdict is not None:
            # A verdict that is also a message is listed as a verdict only.
            state.notes = [note for note in state.notes if note[0] != position.seq]
            by = name_text(fact.by) or name_text(fact.agent)
            verdict = short(text_of(fact.verdict)) or ""
            state.verdicts.append([position.seq, f"{by}: {verdict}" if by else verdict])
            del state.verdicts[:-VERDICTS]
    return state


def _add_message(state: State, position: Position, fact: Said, words: str) -> None:
    who = name_text(fact.agent) or "someone"
    match text_of(fact.role):
        case "world":
            state.scene = words
        case "user":
            state.visitors.append([position.seq, words])
            del state.visitors[:-VISITORS]
        case role:
            form = {"belief": f"{who} believes: ", "note": f"{who} [{position.kind}]: "}
            state.notes.append([position.seq, form.get(role, f"{who}: ") + words])
            del state.notes[: -NOTES - SPARE]


def answer(state: State) -> dict[str, Any]:
    """The stage: the newest words last."""
    return {
        "goal": state.goal,
        "seed": state.seed,
        "scene": state.scene,
        "notes": [words for _, words in state.notes[-NOTES:]],
        "verdicts": [words for _, words in state.verdicts],
        "user": [words for _, words in state.visitors],
    }


fold = Fold(
    name="stage",
    about="What would one see on the stage now?",
    State=State,
    facts=(Began, Said, Decided, Noted),
    key=key,
    step=step,
    rewound=True,
)
