"""Findings: what was unexpected in accepted events."""

from dataclasses import dataclass, replace
from typing import Literal

from tracklog.answers import LOST, LOST_AFTER, Question, limit, now_of, run_param
from tracklog.folds import runs as runs_fold
from tracklog.home.home import Home
from tracklog.journal.frame import Run


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding, and the record at which it showed."""

    seq: int
    family: str
    run: str
    name: str
    level: Literal["info", "warning", "error"]
    message: str


def findings(
    home: Home,
    run: str | None = None,
    limit: int = 100,
    lost_after: float = LOST_AFTER,
    *,
    now: str | None = None,
) -> list[FindingRow]:
    """The findings, the newest first; of a run that is over or lost, what it left open too."""
    index, now = home.index, now_of(home, now)
    of: Run | None = None if run is None else home.run(run)
    rows = index.findings(of, limit)
    for each in [of] if of is not None else index.unfinished(limit):
        state = index.state("runs", ":".join(each))
        if len(rows) >= limit and state.last_seq < rows[limit - 1].seq:
            break
        if runs_fold.status(state, now, lost_after) not in ("working", "waiting"):
            rows = sorted([*index.rest(each), *rows], key=lambda each: -each.seq)
    return [
        FindingRow(seq, family, name, finding.name, finding.level, finding.message)
        for seq, family, name, finding in rows[:limit]
    ]


question = Question(
    name="findings",
    about="List findings, the newest first: what was unexpected in recorded events. For a run that "
    "has ended or is lost, steps, calls and questions without an end are listed, too.",
    ask=findings,
    params=(
        replace(
            run_param("Only this run: its id, the beginning of it, or `family:run`."),
            required=False,
        ),
        limit(100),
        LOST,
    ),
    examples=(
        "findings",
        "findings agent-coder-1",
        "findings --json | jq -r .name | sort | uniq -c",
    ),
)
