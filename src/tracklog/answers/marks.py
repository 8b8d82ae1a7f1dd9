"""People's marks: tags, scores, notes, and what was seen."""

from dataclasses import asdict, dataclass

from tracklog.answers import Question, flag, key_of, limit, text
from tracklog.answers.run_marks import marks_in
from tracklog.folds import marks as marks_fold
from tracklog.folds.marks import State
from tracklog.home.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRow:
    """A mark that a person made on a run, or on one of its records."""

    family: str
    run: str
    mark: str
    """Its id, by which it can be withdrawn."""
    seq: int
    """Its own record."""
    at: str
    record: int | None
    """The record that was marked; null for the run itself."""
    tag: str | None
    score: float | None
    note: str | None
    seen: bool | None
    """False: seen was taken back."""
    by: str | None
    """The name of the account or token that was used."""
    claimed_by: str | None
    """The name that was typed; nobody has checked it."""
    withdrawn_seq: int | None
    """The record that withdrew it."""
    withdrawn_by: str | None
    withdrawn_at: str | None


def marks(
    home: Home,
    run: str | None = None,
    tag: str | None = None,
    withdrawn: bool = False,
    limit: int = 200,
) -> list[MarkRow]:
    """The marks of a run or of all runs, the newest first."""
    states: list[State] = []
    if run is None:
        states += (state for _, state in home.index.states("marks"))
    else:
        states += marks_in(home, key_of(home, run))
    rows = [
        MarkRow(**asdict(state))
        for state in sorted(states, key=lambda state: state.seq, reverse=True)
        if state.seq
        and (withdrawn or marks_fold.holds(state))
        and (tag is None or state.tag == tag)
    ]
    return rows[:limit]


question = Question(
    name="marks",
    about="List the marks that people made on runs and records: tags, scores, notes, what was "
    "seen. The newest is first.",
    ask=marks,
    params=(
        text("run", "Only marks of this run: its id, the beginning of it, or `family:run`."),
        text("tag", "Only marks with this tag."),
        flag("withdrawn", "Also marks that were withdrawn."),
        limit(200),
    ),
    refusals={404: "There is no such run."},
    examples=("marks", "marks --run agent-coder-1", "marks --tag flaky --json"),
)
