"""The questions that wait for a person, or waited."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from tracklog.answers import Question, now_of
from tracklog.folds import inbox as inbox_fold
from tracklog.folds import runs as runs_fold
from tracklog.home.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """A question that a run asked."""

    family: str
    run: str
    question_id: str
    agent: str | None
    step: str | None
    what: str | None
    """What is asked for, such as an approval."""
    text: str | None
    options: list[str]
    call_id: str | None
    answerable: bool
    """False: it is asked in the agent's own terminal, and can be answered only there."""
    state: Literal["open", "expired", "abandoned", "answered", "unasked"]
    """`abandoned`: its run has ended; `unasked`: only the answer was recorded."""
    waiting_seconds: float | None
    times_asked: int
    asked_seq: int | None
    asked_at: str | None
    lapses_at: str | None
    """When it expires; null where it does not."""
    answer: str | None
    """The beginning of it."""
    answered_by: list[str]
    answered_seq: int | None
    answered_at: str | None
    answered_twice: bool
    title: str | None = None
    """The title of the run; null where the run is shown anyway."""
    alike: dict[str, int] = field(default_factory=dict)
    """The answers to other questions with the same words, and how often each was given."""


def inbox(home: Home, *, now: str | None = None) -> list[InboxRow]:
    """The questions of all runs, the open ones first."""
    asked = [state for _, state in home.index.states("inbox")]
    keys = {(each.family, each.run): f"{each.family}:{each.run}" for each in asked}
    runs = {run: home.index.state("runs", key) for run, key in keys.items()}
    ended = {run for run, state in runs.items() if runs_fold.is_over(state)}
    rows = inbox_fold.answer(asked, now_of(home, now), ended)
    given: dict[tuple[str | None, str | None], Counter[str]] = {}
    for row in rows:
        if row["answer"]:
            given.setdefault((row["what"], row["text"]), Counter())[row["answer"]] += 1
    return [
        InboxRow(
            **row,
            title=runs_fold.title(runs[row["family"], row["run"]]),
            alike=_alike(given.get((row["what"], row["text"])), row["answer"]),
        )
        for row in rows
    ]


def _alike(given: Counter[str] | None, own: str | None) -> dict[str, int]:
    """The answers to questions of the same words, without the question's own."""
    if given is None:
        return {}
    others = given - Counter([own] if own else [])
    return dict(others.most_common(5))


question = Question(
    name="inbox",
    about="List the questions to a person, the open ones first: who asks, and since when.",
    ask=inbox,
    examples=("inbox", """inbox --json | jq 'select(.state == "open")'"""),
)
