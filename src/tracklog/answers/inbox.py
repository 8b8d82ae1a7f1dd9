"""The questions that wait for a person, or waited."""

from dataclasses import dataclass
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
    state: Literal["open", "expired", "abandoned", "answered", "unasked"]
    """`abandoned`: its run has ended; `unasked`: only the answer was recorded."""
    waiting_seconds: float | None
    times_asked: int
    asked_seq: int | None
    answer: str | None
    """The beginning of it."""
    answered_by: list[str]
    answered_seq: int | None
    answered_twice: bool
    title: str | None = None
    """The title of the run; null where the run is shown anyway."""


def inbox(home: Home, *, now: str | None = None) -> list[InboxRow]:
    """The questions of all runs, the open ones first."""
    asked = [state for _, state in home.index.states("inbox")]
    keys = {(each.family, each.run): f"{each.family}:{each.run}" for each in asked}
    runs = {run: home.index.state("runs", key) for run, key in keys.items()}
    ended = {run for run, state in runs.items() if runs_fold.is_over(state)}
    return [
        InboxRow(**row, title=runs_fold.title(runs[row["family"], row["run"]]))
        for row in inbox_fold.answer(asked, now_of(home, now), ended)
    ]


question = Question(
    name="inbox",
    about="List the questions to a person, the open ones first: who asks, and since when.",
    ask=inbox,
    examples=("inbox", """inbox --json | jq 'select(.state == "open")'"""),
)
