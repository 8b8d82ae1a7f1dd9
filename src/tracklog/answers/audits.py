"""Audit checkpoints: how often each passed and failed."""

from dataclasses import dataclass
from typing import Literal

from tracklog.answers import Question, now_of, one_of
from tracklog.folds import audits as audits_fold
from tracklog.home.home import Home


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One checkpoint."""

    checkpoint: str
    total: int
    passed: int
    failed: int
    warned: int
    flakiness: float
    """1 when it passes as often as it fails, 0 when it always does the same."""
    colour: Literal["green", "amber", "red"]
    last_fail_run_id: str | None
    last_fail_family: str | None
    last_seq: int
    recent: list[str]
    """Its newest verdicts, oldest first: `pass`, `fail` or `warn`."""


def audits(home: Home, window: str = "24h", *, now: str | None = None) -> list[AuditRow]:
    """The audit checkpoints, the most flaky first."""
    states = (state for _, state in home.index.states("audits"))
    rows = audits_fold.answer(states, window, now_of(home, now))
    return [
        AuditRow(
            checkpoint=row["checkpoint"],
            total=row["total"],
            passed=row["pass"],
            failed=row["fail"],
            warned=row["warn"],
            flakiness=row["flakiness"],
            colour=row["colour"],
            last_fail_run_id=row["last_fail_run_id"],
            last_fail_family=row["last_fail_family"],
            last_seq=row["last_seq"],
            recent=row["recent"],
        )
        for row in rows
    ]


question = Question(
    name="audits",
    about="List the audit checkpoints, the most flaky first.",
    ask=audits,
    params=(
        one_of(
            "window",
            "The time in which the checkpoints were reached.",
            tuple(audits_fold.WINDOWS),
            default="24h",
        ),
    ),
    examples=("audits", "audits --window 7d"),
)
