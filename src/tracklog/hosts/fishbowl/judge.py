"""The verdict of a judge: which winners and scores are valid, and the truth where it is known."""

from collections.abc import Collection, Mapping
from math import isnan
from typing import Any

from tracklog import Body
from tracklog.hosts.fishbowl.manifest import Manifest
from tracklog.hosts.fishbowl.scenario import Competition

LOWEST, HIGHEST = 0.0, 10.0


def vocabulary(contest: Competition, cast: Collection[str]) -> list[str]:
    """The names that can win: those of the cast, and of the teams."""
    return [*cast, *(contest.teams or ())]


def has_winner(contest: Competition) -> bool:
    """Whether a verdict may name a winner; then the winner is always validated."""
    return contest.kind != "none"


def has_text(payload: Body) -> bool:
    """Whether a reply has a text."""
    return isinstance(payload.get("text"), str) and bool(payload["text"].strip())


def is_valid_winner(payload: Body, names: Collection[str]) -> bool:
    """Whether the winner is a known name, or none is named, which is never an error (BOWL-44)."""
    winner = payload.get("winner")
    return winner in (None, "") or (isinstance(winner, str) and winner in names)


def replaces_first(payload: Body, names: Collection[str]) -> bool:
    """Whether a second reply can replace the first: it has a text and a known winner."""
    winner = payload.get("winner")
    return has_text(payload) and isinstance(winner, str) and winner in names


def correction(winner: Any, names: Collection[str]) -> str:
    """The correction that is sent to a judge who named an unknown winner."""
    return f"{winner!r} cannot win. Name one of: {', '.join(names)}. Or name nobody."


def without_winner(payload: Body) -> Body:
    """The verdict of a run without a competition: nobody wins there (BOWL-24)."""
    return {key: value for key, value in payload.items() if key != "winner"}


def no_contest(payload: Body) -> Body:
    """The verdict after two invalid winners: with its text, without a winner."""
    return without_winner(payload) | {"no_contest": True}


def with_clean_scores(
    payload: Body, player: Manifest, contest: Competition, cast: Collection[str]
) -> Body:
    """The verdict with valid scores only; the judge is never asked again because of scores."""
    declared = "scores" in player.output_extra_fields
    if "scores" not in payload or contest.kind == "none" or not declared:
        return payload
    scores = payload["scores"]
    if isinstance(scores, Mapping):
        return payload | {"scores": clean_scores(scores, cast)}
    return {key: value for key, value in payload.items() if key != "scores"}


def clean_scores(scores: Mapping[str, Any], cast: Collection[str]) -> dict[str, float]:
    """Scores from 0 to 10 by player; unknown players and values that are no number are dropped."""
    marks = ((name, _mark(value)) for name, value in scores.items() if name in cast)
    return {
        name: min(HIGHEST, max(LOWEST, mark))
        for name, mark in marks
        if mark is not None and not isnan(mark)
    }


def _mark(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
    except OverflowError:
        return HIGHEST if value > 0 else LOWEST


def with_truth(
    payload: Body, contest: Competition, secrets: Mapping[str, str] | None = None
) -> Body:
    """The verdict with what the program knows: whether the accusation is right, and which team won.

    Nothing is added if no team is hidden, after `no_contest`, and if nobody is accused (F9).
    The text of a verdict is never searched for a name: a missing winner stays missing.
    """
    hidden, teams = contest.hidden_team, contest.teams or {}
    if contest.kind != "versus" or hidden is None or payload.get("no_contest"):
        return payload
    accused = payload.get("winner")
    if not isinstance(accused, str) or not accused:
        return payload
    (other,) = teams.keys() - {hidden}
    correct = accused == hidden or accused in teams[hidden]
    # F10: the judge's own word is stored as `accused`, before `winner` is overwritten.
    truth = {"accused": accused, "correct": correct, "winner": other if correct else hidden}
    if secrets:
        side = {member: label for label, members in teams.items() for member in members}
        truth["reveal"] = [
            {"agent": name, "secret": secret, "role": side.get(name)}
            for name, secret in secrets.items()
        ]
    return payload | truth
