"""What a verdict may say: winners who exist, scores in range, and the truth where code knows it."""

import re
from collections.abc import Collection, Mapping
from math import isnan
from typing import Any

from tracklog.event import Body
from tracklog.hosts.fishbowl.manifest import Manifest
from tracklog.hosts.fishbowl.scenario import Competition

LOWEST, HIGHEST = 0.0, 10.0


def vocabulary(contest: Competition, cast: Collection[str]) -> list[str]:
    """Who can be named as a winner: the cast, and the teams."""
    return [*cast, *(contest.teams or ())]


def is_validated(player: Manifest, contest: Competition) -> bool:
    """Whether a winner is looked at; else the verdict passes through as it is."""
    declared = "winner" in player.output_extra_fields
    return player.role == "judge" and contest.kind != "none" and declared


def usable(payload: Body) -> bool:
    """Whether there is something to be shown."""
    return isinstance(payload.get("text"), str) and bool(payload["text"].strip())


def names_nobody_else(payload: Body, names: Collection[str]) -> bool:
    """Whether the winner exists, or none is named, which is never an error (BOWL-44)."""
    winner = payload.get("winner")
    return winner in (None, "") or (isinstance(winner, str) and winner in names)


def settles(payload: Body, names: Collection[str]) -> bool:
    """Whether a second reply mends the first: it can be shown, and it names somebody."""
    winner = payload.get("winner")
    return usable(payload) and isinstance(winner, str) and winner in names


def correction(winner: Any, names: Collection[str]) -> str:
    """What the judge is told when it named somebody who does not exist."""
    return f"{winner!r} cannot win. Name one of: {', '.join(names)}. Or name nobody."


def no_contest(payload: Body) -> Body:
    """The verdict after two bad picks: its text ships, its winner does not."""
    return {key: value for key, value in payload.items() if key != "winner"} | {"no_contest": True}


def with_clean_scores(
    payload: Body, player: Manifest, contest: Competition, cast: Collection[str]
) -> Body:
    """The same verdict with scores that can be trusted; never a reason to ask again."""
    declared = "scores" in player.output_extra_fields
    if "scores" not in payload or contest.kind == "none" or not declared:
        return payload
    scores = payload["scores"]
    if isinstance(scores, Mapping):
        return payload | {"scores": clean_scores(scores, cast)}
    return {key: value for key, value in payload.items() if key != "scores"}


def clean_scores(scores: Mapping[str, Any], cast: Collection[str]) -> dict[str, float]:
    """Floats from 0 to 10 by player; who does not play and what is no number is dropped."""
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
    payload: Body,
    judge: str,
    contest: Competition,
    cast: Collection[str],
    *,
    offline: bool,
    secrets: Mapping[str, str] | None = None,
) -> Body:
    """The verdict on who is hidden, settled by code: who was accused, and which side won by it.

    Without a hidden side, after `no_contest` and without an accusation nothing is stamped (F9).
    """
    hidden, teams = contest.hidden_team, contest.teams or {}
    if contest.kind != "versus" or hidden is None or payload.get("no_contest"):
        return payload
    accused = payload.get("winner")
    if not accused and offline:
        accused = mentioned(payload.get("text", ""), [name for name in cast if name != judge])
    if not isinstance(accused, str) or not accused:
        return payload
    (other,) = teams.keys() - {hidden}
    correct = accused == hidden or accused in teams[hidden]
    # F10: what was said is kept before it is overwritten, in the same event.
    truth = {"accused": accused, "correct": correct, "winner": other if correct else hidden}
    if secrets:
        side = {member: label for label, members in teams.items() for member in members}
        truth["reveal"] = [
            {"agent": name, "secret": secret, "role": side.get(name)}
            for name, secret in secrets.items()
        ]
    return payload | truth


def mentioned(text: str, names: Collection[str], *, whole: bool = False) -> str | None:
    """The player whom a text names first, by its whole name or by the tail of it."""
    found = []
    for name in names:
        called = name if whole else name.rpartition("-")[2]
        match = re.search(rf"(?<!\w){re.escape(called)}(?!\w)", text, re.IGNORECASE)
        if match:
            found.append((match.start(), name))
    return min(found)[1] if found else None


def with_repair(payload: Body, judge: str, spoken: Mapping[str, int]) -> Body:
    """A judged verdict that names nobody gets whom its text names, else who spoke most.

    It defers to `no_contest`: what two replies did not settle is not settled by a guess.
    """
    if payload.get("winner") or payload.get("no_contest"):
        return payload
    players = {name: count for name, count in spoken.items() if name != judge}
    winner = mentioned(payload.get("text", ""), players, whole=True)
    if winner is None:
        most = max(players.values(), default=0)
        winner = next((name for name, count in players.items() if count == most and count), None)
    return payload | {"winner": winner} if winner else payload
