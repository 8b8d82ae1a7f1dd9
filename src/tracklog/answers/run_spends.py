"""The spends of a run: tokens and money of each model call, oldest first."""

from dataclasses import dataclass

from tracklog.answers import Question, key_of, run_param
from tracklog.answers.prices import load
from tracklog.answers.spends import price_by, spends_of
from tracklog.folds import costs
from tracklog.folds._spends import DOLLAR
from tracklog.home.home import Home
from tracklog.journal.frame import stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendRow:
    """One spend: a call of a model, or the sum that a run reports."""

    seq: int
    at: str
    agent: str | None
    model: str | None
    input_tokens: int | None
    """With those from the cache."""
    cached_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    """As the source reported it."""
    computed_usd: float | None
    """From list prices, where no cost was reported."""
    lower_bound: bool
    """A part of it has no price: it costs at least this."""


def run_spends(home: Home, run: str) -> list[SpendRow]:
    """What a run spent itself, spend by spend; each counts once, however often it was recorded."""
    key = key_of(home, run)
    spends = spends_of(home.index, [key])
    price = price_by(load(home.path))
    counted = costs.counted(spends.states, spends.duplicates)
    own = [each for each in counted if f"{each.family}:{each.run}" == key]
    return [_row(each, price) for each in sorted(own, key=lambda each: each.seq)]


def _row(state: costs.State, price: costs.Price) -> SpendRow:
    amounts = state.amounts
    listed = None if "cost" in amounts else price(state)
    return SpendRow(
        seq=state.seq,
        at=stamp(state.at_ms / 1000),
        agent=state.agent,
        model=state.model,
        input_tokens=amounts.get("input_tokens"),
        cached_tokens=amounts.get("cached_tokens"),
        cache_write_tokens=amounts.get("cache_write_tokens"),
        output_tokens=amounts.get("output_tokens"),
        total_tokens=amounts.get("total_tokens"),
        cost_usd=amounts["cost"] / DOLLAR if "cost" in amounts else None,
        computed_usd=listed[0] / DOLLAR if listed and listed[0] else None,
        lower_bound=state.bound == "lower" or (listed is not None and not listed[1]),
    )


question = Question(
    name="run-spends",
    about="List what a run spent, spend by spend, oldest first: tokens and money of each model call.",
    ask=run_spends,
    params=(run_param(),),
    paths=("/api/runs/{family}/{run}/spends",),
    examples=("run-spends agent-coder-1", "run-spends agent-coder-1 --json"),
)
