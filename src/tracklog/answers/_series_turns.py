"""A metric of one run, turn by turn: each turn is a bucket."""

from collections.abc import Iterator
from typing import NamedTuple

from tracklog.answers._series_query import TOKEN_KINDS
from tracklog.answers.turns import TurnRow, turns
from tracklog.home.home import Home
from tracklog.model.errors import BadQuery

METRICS = ("cost", "tokens", "calls", "failures")
BY = ("none", "model", "agent", "token_kind")
_FIELDS = {
    "cache read": "cache_read_tokens",
    "input": "input_tokens",
    "cache write": "cache_write_tokens",
    "output": "output_tokens",
}
_MOST = 100_000  # turns


class TurnValue(NamedTuple):
    """What a turn came to under one name."""

    place: int
    name: str
    value: float
    computed: float = 0.0
    """The part of a cost that was computed from list prices."""
    bounded: bool = False
    """A part of the cost has no price."""


def by_turn(
    home: Home, run: str | None, metric: str, by: str
) -> tuple[list[str], list[TurnValue], bool]:
    """When each turn began, what each came to, and whether a part of the cost has no price."""
    if run is None:
        raise BadQuery("the bucket `turn` is of one run", "name the run, too")
    if metric not in METRICS or by not in BY or (by == "token_kind" and metric != "tokens"):
        raise BadQuery(
            f"there is no {metric} by {by} of each turn",
            f"by turn there is: {', '.join(METRICS)}; by {', '.join(BY)}, the last for tokens",
        )
    rows = turns(home, run, limit=_MOST).rows
    found = [each for place, row in enumerate(rows) for each in _values(place, row, metric, by)]
    bounded = metric == "cost" and any(row.lower_bound for row in rows)
    return [row.at for row in rows], found, bounded


def _values(place: int, row: TurnRow, metric: str, by: str) -> Iterator[TurnValue]:
    name = {"model": row.model, "agent": row.agent}.get(by) or ""
    if metric == "cost":
        if row.cost_usd is not None or row.computed_usd is not None:
            computed = row.computed_usd or 0.0
            value = (row.cost_usd or 0.0) + computed
            yield TurnValue(place, name, value, computed, row.lower_bound)
    elif metric == "tokens":
        kinds = {kind: getattr(row, _FIELDS[kind]) for kind in TOKEN_KINDS}
        for kind, tokens in kinds.items():
            if tokens is not None:
                yield TurnValue(place, kind if by == "token_kind" else name, tokens)
    else:
        yield TurnValue(place, name, row.calls if metric == "calls" else row.failures)
