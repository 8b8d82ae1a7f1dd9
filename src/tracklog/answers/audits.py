"""Audit checkpoints: how often each passed and failed."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Literal

from tracklog.answers import Question, limit, now_of, one_of
from tracklog.folds import MINUTE, epoch_ms, run_of
from tracklog.folds import audits as audits_fold
from tracklog.folds.series import RESULTS
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer
from tracklog.model.errors import UnknownName

EVER = 2**53
"""No millisecond is later."""


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


def audits(
    home: Home, window: str = "24h", limit: int = 200, *, now: str | None = None
) -> list[AuditRow]:
    """The audit checkpoints, the most flaky first."""
    return audits_within(home.index, window, now_of(home, now), limit)


def audits_within(index: Indexer, window: str, now: str, limit: int) -> list[AuditRow]:
    """The same from the sums that an index has; a window that is none is an error."""
    if window not in audits_fold.WINDOWS:
        raise UnknownName(
            f"there is no window {window!r}",
            f"the windows are: {', '.join(audits_fold.WINDOWS)}",
        )
    length, end = audits_fold.WINDOWS[window], epoch_ms(now) or 0
    bounds = (-EVER, EVER) if length is None else (end - length, end)
    counts = {name: each for name, each in _counts(index, bounds).items() if sum(each.values())}
    ranks = sorted(
        (-audits_fold.flakiness(each["pass"], each["fail"]), -sum(each.values()), name)
        for name, each in counts.items()
    )
    return [_row(index, name, counts[name], bounds) for _, _, name in ranks[:limit]]


def _counts(index: Indexer, bounds: tuple[int, int]) -> dict[str, Counter[str]]:
    """The verdicts by checkpoint and result: after the first bound, and not after the second."""
    first, last = (bound // MINUTE for bound in bounds)
    spans = [(first, first + 1), (first + 1, last), (last, last + 1)]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    cut: set[tuple[str, str, int]] = set()
    for row in index.totals("audits", spans, by="tool"):
        if row.span == 1:
            counts[row.name][RESULTS[row.part]] += row.amounts[0]
        else:
            cut.add((row.name, RESULTS[row.part], last if row.span else first))
    for name, result, minute in cut:  # of these two minutes only a part is asked for
        prefix = audits_fold.verdicts_key(name, result) + audits_fold.order_of_minute(minute)
        verdicts = (audits_fold.verdict_of(key) for key, _ in index.sums("audits", prefix=prefix))
        counts[name][result] += sum(bounds[0] < at <= bounds[1] for at, _ in verdicts)
    return counts


def _row(index: Indexer, name: str, counts: Counter[str], bounds: tuple[int, int]) -> AuditRow:
    begin, end = bounds
    newest: list[tuple[int, int, str, str]] = []
    for result in RESULTS:
        prefix = audits_fold.verdicts_key(name, result)
        after = prefix + audits_fold.order(end)
        for key, runs in index.sums("audits", after, prefix, audits_fold.RECENT):
            at, seq = audits_fold.verdict_of(key)
            if at > begin:
                newest += [(at, seq, result, run) for run in runs]
    newest.sort()
    family, run = next(
        (run_of(run) for *_, result, run in reversed(newest) if result == "fail"), (None, None)
    )
    flakiness = audits_fold.flakiness(counts["pass"], counts["fail"])
    return AuditRow(
        checkpoint=name,
        total=counts.total(),
        passed=counts["pass"],
        failed=counts["fail"],
        warned=counts["warn"],
        flakiness=flakiness,
        colour=audits_fold.colour(flakiness),
        last_fail_run_id=run,
        last_fail_family=family,
        last_seq=newest[-1][1] if newest else 0,
        recent=[result for *_, result, _ in newest[-audits_fold.RECENT :]],
    )


question = Question(
    name="audits",
    about="List the audit checkpoints (checks of agents that pass or fail), the most flaky first.",
    ask=audits,
    params=(
        one_of(
            "window",
            "The time in which the checkpoints were reached.",
            tuple(audits_fold.WINDOWS),
            default="24h",
        ),
        limit(200),
    ),
    examples=("audits", "audits --window 7d"),
)
