"""Tokens and reported cost per run, agent and model."""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog.folds import (
    MOST,
    Fold,
    Position,
    Sums,
    add,
    integer,
    name_text,
    number,
    row_key,
    when,
)
from tracklog.folds._spends import DOLLAR, TOKENS, amounts, greater, is_late, spend_name
from tracklog.model.errors import UnknownName
from tracklog.model.fact import Spent


@dataclass(slots=True)
class State:
    """One spend, as one run reports it."""

    family: str = ""
    run: str = ""
    key: str = ""
    seq: int = 0
    at_ms: int = 0
    writer: str = ""
    agent: str | None = None
    provider: str | None = None
    model: str | None = None
    group: str | None = None
    whole: bool = False
    bound: str | None = None
    calls: int | None = None
    credits: float | None = None
    amounts: dict[str, int] = field(default_factory=dict)
    """Tokens, and the cost in billionths of a dollar; what is not known is absent."""
    late: bool = False
    """It was recorded long after it happened, as by an import."""


def key(position: Position, fact: Spent) -> str | None:
    return None if fact.copied is True else row_key(position, spend_name(position, fact))


def step(state: State, position: Position, fact: Spent) -> State:
    known = amounts(fact)
    if not state.seq:
        state.family, state.run, state.seq = position.family, position.run, position.seq
        state.key, state.at_ms = spend_name(position, fact), when(position)
        state.writer = position.writer
        state.late = is_late(position, state.at_ms)
    elif not greater(known, state.amounts):
        return state
    state.agent, state.model = (
        name_text(fact.agent) or state.agent,
        name_text(fact.model) or state.model,
    )
    state.provider = name_text(fact.provider) or state.provider
    state.group, state.whole = name_text(fact.group), fact.whole is True
    state.bound = name_text(fact.bound)
    state.calls, state.credits, state.amounts = integer(fact.calls), number(fact.credits), known
    return state


def sums(_key: str, state: State) -> Sums:
    """The runs that report each spend that has a key."""
    return {state.key: {f"{state.family}:{state.run}": 1}} if state.key.startswith("=") else {}


HOUR = 3_600_000
GROUPS: dict[str, Callable[[State], str | None]] = {
    "run": lambda state: f"{state.family}:{state.run}",
    "agent": lambda state: state.agent,
    "model": lambda state: state.model,
    "provider": lambda state: state.provider,
    "hour": lambda state: str(state.at_ms // HOUR),
    "all": lambda _: None,
}


Price = Callable[[State], tuple[int, bool] | None]
"""The price of a spend by a price list, in billionths of a dollar, and whether all of it is priced."""


def answer(
    states: Iterable[State],
    by: str = "run",
    then: str | None = None,
    within: Collection[str] | None = None,
    price: Price | None = None,
    duplicates: Container[str] = (),
    projects: Mapping[str, str | None] | None = None,
    begin: Callable[[int], str | None] | None = None,
    in_time: bool = False,
) -> list[dict[str, Any]]:
    """One row per run, agent, model or provider, the most expensive first, or one for all.

    With `then`, one row for each pair of names, as of a model and a project. By project, `projects`
    has the project of each run. With `begin`, which has
    for a time when its day, week or month began, one row for each of these too, the first of them
    first; where it gives None, a spend is left out. With `in_time`, so are those that came late.

    A spend that several runs record belongs to the first of them, so a run with its sub-runs
    (`within`, as keys) is added up once. Without `within`, `duplicates` are left out. A spend
    without a reported cost is priced, where there is a `price`, and shown apart.
    """
    group, also = _group(by, projects), _group(then or "all", projects)
    rows: dict[tuple[str, str | None, str | None], dict[str, Any]] = {}
    for state in counted(states, duplicates):
        run = f"{state.family}:{state.run}"
        if run not in duplicates if within is None else run in within:
            since = "" if begin is None else begin(state.at_ms)
            if since is None or (in_time and state.late):
                continue
            of = since, group(state), also(state)
            if (row := rows.get(of)) is None:
                row = rows[of] = _empty()
            _add(row, state, price)
    return in_order(
        {"begin": since or None, "of": of, "also_of": second, **_row(row)}
        for (since, of, second), row in rows.items()
    )


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of costs, the most expensive first; by time, the first of them first."""
    return sorted(
        rows,
        key=lambda row: (
            row["begin"] or "",
            -(row["cost_usd"] or 0) - (row["computed_usd"] or 0),
            -(row["total_tokens"] or 0),
            row["of"] or "",
            row["also_of"] or "",
        ),
    )


def _group(by: str, projects: Mapping[str, str | None] | None) -> Callable[[State], str | None]:
    """The name of a spend by which it is added up."""
    if by == "project" and projects is not None:
        return lambda state: projects.get(f"{state.family}:{state.run}")
    if by not in GROUPS:
        raise UnknownName(f"costs cannot be added up by {by!r}", f"ask by: {', '.join(GROUPS)}")
    return GROUPS[by]


def counted(states: Iterable[State], duplicates: Container[str] = ()) -> list[State]:
    """The spends that count: one per key, with its greatest amounts, in the run that recorded it
    first; in a group, those marked `whole` instead of the others.

    `duplicates` are runs that record a conversation for which another run is counted. They share
    their spends among each other, not with counted runs: each side is complete by itself. Of
    several writers of one run, its log and its telemetry, the one that records more counts.
    """
    own: dict[str, State] = {}
    again: dict[str, State] = {}
    best: dict[str, State] = {}
    for state in sorted(states, key=lambda state: state.seq):
        is_again = duplicates and f"{state.family}:{state.run}" in duplicates
        (again if is_again else own).setdefault(state.key, state)
        known = best.setdefault(state.key, state)
        if known is not state and greater(state.amounts, known.amounts):
            best[state.key] = state
    spends = [_at(place, best[place.key]) for place in (*own.values(), *again.values())]
    replaced = {(each.family, each.run, each.group) for each in spends if each.whole and each.group}
    left = [
        each for each in spends if each.whole or (each.family, each.run, each.group) not in replaced
    ]
    best_writer = _best_writers(left)
    return [each for each in left if best_writer[each.family, each.run] == each.writer]


def _best_writers(spends: Iterable[State]) -> dict[tuple[str, str], str]:
    """By run, the writer whose spends come to most: those of different writers are never added."""
    sums: dict[tuple[str, str], dict[str, list[int]]] = {}
    for each in spends:
        totals = sums.setdefault((each.family, each.run), {}).setdefault(each.writer, [0, 0, 0])
        for place, name in enumerate(("output_tokens", "total_tokens", "cost")):
            totals[place] += each.amounts.get(name, 0)
    return {
        run: max(sorted(writers), key=lambda writer: writers[writer])
        for run, writers in sums.items()
    }


def _at(place: State, amount: State) -> State:
    """The greatest report of a spend, at the position of its first report."""
    if place is amount:
        return place
    return State(
        family=place.family,
        run=place.run,
        key=place.key,
        seq=place.seq,
        at_ms=place.at_ms,
        writer=place.writer,
        late=place.late,
        agent=place.agent or amount.agent,
        provider=amount.provider or place.provider,
        model=amount.model or place.model,
        group=place.group,
        whole=place.whole,
        bound=amount.bound,
        calls=amount.calls,
        credits=amount.credits,
        amounts=amount.amounts,
    )


def _empty() -> dict[str, Any]:
    counts = {"spends": 0, "calls": 0, "priced": 0, "computed": 0}
    return {**counts, "amounts": {}, "bounds": set(), "runs": set(), "unpriced": set()}


def _add(row: dict[str, Any], state: State, price: Price | None) -> None:
    row["spends"] += 1
    row["calls"] = add(row["calls"], state.calls)
    listed = price(state) if price and "cost" not in state.amounts else None
    if listed is not None:
        row["computed"] = add(row["computed"], listed[0])
        row["bounds"] |= set() if listed[1] else {"lower"}
    priced = "cost" in state.amounts or listed is not None
    row["priced"] += priced
    if price and not priced and state.model:
        row["unpriced"].add(state.model)
    row["bounds"].add(state.bound)
    row["runs"].add((state.family, state.run))
    known = row["amounts"]
    for key, amount in state.amounts.items():
        known[key] = min(known.get(key, 0) + amount, MOST)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    known = row["amounts"]
    unpriced = row["spends"] - row["priced"] if row["priced"] else 0
    return {
        "runs": len(row["runs"]),
        "spends": row["spends"],
        "calls": row["calls"],
        **{key: known.get(key) for key in TOKENS},
        "cost_usd": known["cost"] / DOLLAR if "cost" in known else None,
        "computed_usd": row["computed"] / DOLLAR if row["computed"] else None,
        # What is only partly priced costs at least this much.
        "lower_bound": "lower" in row["bounds"] or unpriced > 0,
        "upper_bound": "upper" in row["bounds"],
        "unpriced_models": sorted(row["unpriced"]),
    }


fold = Fold(
    name="costs",
    about="What was spent, in tokens and in money as reported?",
    State=State,
    facts=(Spent,),
    key=key,
    step=step,
    sums=sums,
    shared=True,
)
