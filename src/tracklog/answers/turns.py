"""The turns of a run: model, tokens by kind, cost, how full the context was."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from tracklog.answers import Question, integer, key_of, run_param
from tracklog.answers.run_turns import RunTurn, times_of
from tracklog.folds import costs as costs_fold
from tracklog.home.home import Home
from tracklog.journal.frame import stamp


@dataclass(frozen=True, slots=True)
class TurnCompaction:
    """A compaction of the context that a turn began with."""

    seq: int
    """Its first record."""
    at: str
    before_tokens: int | None
    """As the source reported it."""
    after_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn: what a model said after its last input, and the tool calls that it made then."""

    turn: int
    """Counted from 1."""
    seq: int
    """Its first record."""
    last_seq: int
    """Its last record; records of other agents may stand between."""
    agent: str | None
    model: str | None
    at: str
    seconds: float
    """From its input to the end of its last call."""
    model_seconds: float
    """From its input to its last words."""
    calls: int
    failures: int
    input_tokens: int | None
    """Fresh input: neither read from a cache nor written to one."""
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    context_tokens: int | None
    """All input of its last model call: how full the context was."""
    compaction: TurnCompaction | None
    """Before it the context was compacted."""
    cost_usd: float | None
    """As the source reported it."""
    computed_usd: float | None
    """From list prices, for what has no reported cost."""
    lower_bound: bool
    total_usd: float | None
    """The cost of this turn and of all turns before it, reported or computed."""


@dataclass(frozen=True, slots=True)
class TurnsAnswer:
    """The turns of a run, in the order of their records."""

    turns: int
    """All that there are."""
    next: int | None
    """The `after` of the next page; null at the end."""
    rows: list[TurnRow]


def turns(
    home: Home,
    run: str,
    after: int = 0,
    limit: int = 10_000,
    seq: tuple[int, ...] = (),
    at: int | None = None,
) -> TurnsAnswer:
    """The turns behind the turn `after`, at most `limit`; with `seq`, those around these records."""
    every = times_of(home, key_of(home, run), at).turns
    records = sorted(seq)
    rows: list[TurnRow] = []
    number = after
    for number, turn in enumerate(every[after:], after + 1):
        if not records or _holds(turn, records):
            rows.append(_row(turn, number))
        if len(rows) == limit:
            break
    return TurnsAnswer(len(every), number if number < len(every) else None, rows)


def _holds(turn: RunTurn, records: list[int]) -> bool:
    """Whether any of the records stands between the first and the last of a turn."""
    place = bisect_left(records, turn.seq)
    return place < len(records) and records[place] <= turn.last_seq


def _row(turn: RunTurn, number: int) -> TurnRow:
    spends = turn.spends
    every, read, written = (
        _sum(spends, name) for name in ("input_tokens", "cached_tokens", "cache_write_tokens")
    )
    fresh = None if every is None else max(0, every - (read or 0) - (written or 0))
    context = [spend.amounts.get("input_tokens") for spend in spends]
    return TurnRow(
        turn=number,
        seq=turn.seq,
        last_seq=turn.last_seq,
        agent=turn.agent,
        model=turn.model or next((spend.model for spend in spends if spend.model), None),
        at=stamp(turn.begin / 1000),
        seconds=(turn.end - turn.begin) / 1000,
        model_seconds=(turn.last_words - turn.begin) / 1000,
        calls=len(turn.calls),
        failures=sum(call.failed for call in turn.calls),
        input_tokens=fresh,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=_sum(spends, "output_tokens"),
        context_tokens=context[-1] if context else None,
        compaction=_compaction(turn),
        total_usd=turn.total_usd,
        **turn.money._asdict(),
    )


def _compaction(turn: RunTurn) -> TurnCompaction | None:
    note = turn.compaction
    if note is None:
        return None
    return TurnCompaction(note.seq, stamp(note.at_ms / 1000), note.before, note.after)


def _sum(spends: Iterable[costs_fold.State], name: str) -> int | None:
    known = [spend.amounts[name] for spend in spends if name in spend.amounts]
    return sum(known) if known else None


question = Question(
    name="turns",
    about="List the turns of a run: model, tokens by kind, cost, calls, how full the context "
    "was, and where it was compacted. `next` is the `after` of the next page, and null at the end.",
    ask=turns,
    params=(
        run_param(),
        integer("after", "Only turns after this one.", least=0, default=0),
        integer("limit", "Show at most this many.", least=1, most=100_000, default=10_000),
        integer("seq", "Only turns around these records.", least=1, many=True, default=()),
        integer("at", "As they were at this record.", least=1),
    ),
    paths=("/api/runs/{family}/{run}/turns",),
    examples=("turns agent-coder-1 --json",),
)
