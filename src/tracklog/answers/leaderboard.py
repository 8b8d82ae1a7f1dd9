"""Contests: who won, with which models."""

from dataclasses import dataclass
from itertools import islice

from tracklog.answers import Question, after, limit
from tracklog.folds import leaderboard as leaderboard_fold
from tracklog.home.home import Home


@dataclass(frozen=True, slots=True)
class Player:
    """The model that a player of a contest uses."""

    model_endpoint: str | None = None
    model_profile: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestRow:
    """A contest that was won."""

    family: str
    last_seq: int
    contest: str | None
    run_id: str
    scenario: str
    seed: str
    session_id: str | None
    cast: dict[str, Player]
    started_at: str | None
    finished_at: str | None
    reason: str | None
    winner: str | None
    winner_kind: str | None
    winning_model: str | None
    winning_models: list[str]
    turns: int
    tokens: int


def leaderboard(home: Home, after: int = 0, limit: int = 200) -> list[ContestRow]:
    """The contests that were won, the latest first."""
    won = (key for _, row in home.index.sums("leaderboard") for key in row)
    states = home.index.load("leaderboard", islice(islice(won, after, None), limit)).values()
    return [
        ContestRow(**(row | {"cast": cast_of(row["cast"])}))
        for row in leaderboard_fold.answer(states)
    ]


def cast_of(cast: dict[str, dict[str, str | None]]) -> dict[str, Player]:
    """Each player's model, by the player's name."""
    return {name: Player(**player) for name, player in cast.items()}


question = Question(
    name="leaderboard",
    about="List the contests that were won, the latest first.",
    ask=leaderboard,
    params=(after("contests"), limit(200)),
    examples=("leaderboard", "leaderboard --limit 1000 --json"),
)
