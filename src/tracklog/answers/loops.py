"""Loops: tools that a run called with the same arguments again and again."""

from collections.abc import Iterable
from dataclasses import dataclass

from tracklog.answers import Question, integer
from tracklog.folds import loops as loops_fold
from tracklog.folds import short
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer
from tracklog.model.fact import Called

LOOP = 3
"""The same call so many times is a loop."""
SHOWN = 200
"""Characters of a call's arguments that are shown."""


@dataclass(frozen=True, slots=True)
class LoopRow:
    """A tool and arguments that a run called several times."""

    family: str
    run: str
    tool: str
    agents: list[str]
    times: int
    first_seq: int
    last_seq: int
    input: str | None
    """The beginning of the arguments."""


def loops(home: Home, at_least: int = LOOP) -> list[LoopRow]:
    """The loops of all runs, the most calls first."""
    often = (key for key, row in home.index.sums("loops") if row["times"] >= at_least)
    return loop_rows(home.index, often, at_least)


def loop_rows(index: Indexer, keys: Iterable[str], at_least: int) -> list[LoopRow]:
    """The loops of these keys, each with the arguments from its first record."""
    rows = loops_fold.answer(index.load("loops", keys).values(), at_least)
    return [LoopRow(**row, input=_input(index, row["first_seq"], row["tool"])) for row in rows]


def _input(index: Indexer, seq: int, tool: str) -> str | None:
    calls = (
        fact.input for fact in index.facts_at(seq) if isinstance(fact, Called) and fact.tool == tool
    )
    return short(next(calls, None), SHOWN)


question = Question(
    name="loops",
    about="List the tools that a run called with the same arguments again and again.",
    ask=loops,
    params=(
        integer(
            "at_least",
            "Only calls that were repeated at least this often.",
            least=2,
            most=10**9,
            default=LOOP,
        ),
    ),
    examples=("loops", "loops --at-least 10 --json"),
)
