"""Costs: tokens and money per run, project, agent, model or provider."""

from dataclasses import dataclass

from tracklog.answers import Question, one_of
from tracklog.answers.duplicates import same_conversation
from tracklog.answers.prices import load
from tracklog.answers.spends import price_by
from tracklog.folds import costs as costs_fold
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused

BY = ("run", "project", "agent", "model", "provider", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """What one run, project, agent, model or provider spent."""

    of: str | None
    """Its name; a run as `family:run`, a project as its folder. Null for the sum of all, or where no name is known."""
    runs: int
    spends: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    tool_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    """As the source reported it."""
    computed_usd: float | None
    """From list prices, for what has no reported cost."""
    lower_bound: bool
    """A part of it has no price: it costs at least this."""
    upper_bound: bool
    unpriced_models: list[str]


def costs(home: Home, by: str = "run") -> list[CostRow]:
    """What was spent, the most expensive first; from list prices where no cost was reported."""
    with gc_paused():
        price = price_by(load(home.path))
        spends = (state for _, state in home.index.states("costs"))
        duplicates = same_conversation(home.index)
        projects = None
        if by == "project":
            by = "run"
            projects = {key: state.cwd for key, state in home.index.states("runs")}
        rows = costs_fold.answer(
            spends, by=by, price=price, duplicates=duplicates, projects=projects
        )
    return [CostRow(**row) for row in rows]


question = Question(
    name="costs",
    about="List tokens and money, the most expensive first.",
    ask=costs,
    params=(one_of("by", "What to sum up by.", BY, default="run"),),
    examples=("costs", "costs --by model", "costs --by project"),
)
