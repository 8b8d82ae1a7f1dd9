"""The tables that rules look at: rows made from the answers, each with a key and its fields."""

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

from tracklog.answers.costs import CostRow, costs
from tracklog.answers.findings import findings
from tracklog.answers.inbox import inbox
from tracklog.answers.loops import loops
from tracklog.answers.run_list import RunList, RunRow
from tracklog.answers.runs import runs
from tracklog.collector.alerts import NOT_SIGNED, REFUSED, RUN
from tracklog.collector.alerts.rules import Rule, Scalar
from tracklog.folds import LATE, epoch_ms
from tracklog.home.home import Home
from tracklog.journal.checkpoints.checkpoint import Checkpoint, last_checkpoint, last_witnessed
from tracklog.journal.frame import stamp

_DAY = 86_400.0
_MOST = 10_000


class Row(NamedTuple):
    """One thing that a rule can be about."""

    key: str
    values: Mapping[str, Scalar]
    at: str | None = None
    """The time of its last event; an old one that arrives late is not told."""


class AlertTable(NamedTuple):
    """How the rows of a table are made, and the fields that they have."""

    about: str
    fields: tuple[str, ...]
    rows: Callable[[Home, Rule, float], list[Row]]


def _listed(home: Home, now: float) -> list[RunRow]:
    listed = runs(home, limit=_MOST, now=stamp(now))
    return [row for row in listed if (row.family, row.run) != RUN]


def _event_time(row: RunRow) -> str | None:
    """The time of the last event by the clock of its emitter: an import brings old ones."""
    return row.last_at or row.last_activity


def _came_late(row: RunRow) -> bool:
    """Whether all of it had happened long before it was recorded."""
    happened, recorded = epoch_ms(_event_time(row)), epoch_ms(row.first_received)
    return happened is not None and recorded is not None and recorded - happened > LATE * 1000


def _money(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _runs(home: Home, _rule: Rule, now: float) -> list[Row]:
    return [Row(row.key, _run_values(row), _event_time(row)) for row in _listed(home, now)]


def _run_values(row: RunRow) -> dict[str, Scalar]:
    return {
        "run": row.run, "family": row.family, "title": row.title, "status": row.status,
        "outcome": row.outcome, "passed": row.passed,
        "agent": row.agents[0] if row.agents else None, "model": row.model,
        "project": row.project, "branch": row.branch, "tokens": row.tokens,
        "cost": _money(row.cost_usd, row.computed_usd), "tool_calls": row.tool_calls,
        "tool_failures": row.tool_failures, "seconds": row.seconds,
        "silent_seconds": row.silent_seconds,
    }  # fmt: skip  # one table


def run_values(home: Home, key: str, now: float) -> dict[str, Scalar]:
    """The fields of one run, as rules see them."""
    rows = home.cache(RunList).rows([home.index.state("runs", key)], stamp(now))
    return _run_values(rows[0])


def _questions(home: Home, _rule: Rule, now: float) -> list[Row]:
    times = {row.key: _event_time(row) for row in _listed(home, now)}
    return [
        Row(
            f"{row.family}:{row.run}:{row.question_id}",
            {
                "run": row.run, "agent": row.agent, "question": row.text, "status": row.state,
                "what": row.what, "waiting_seconds": row.waiting_seconds,
            },
            times.get(f"{row.family}:{row.run}"),
        )
        for row in inbox(home, now=stamp(now))
    ]  # fmt: skip  # one table


def _spent(
    home: Home, by: str, now: float, begin: float | None, end: float, *, in_time: bool = True
) -> list[CostRow]:
    since = None if begin is None else stamp(begin)
    return costs(
        home,
        by,
        since,
        stamp(end),
        "UTC",
        newest=sys.maxsize,
        limit=sys.maxsize,
        now=stamp(now),
        in_time=in_time,
    )


def _costs(home: Home, rule: Rule, now: float) -> list[Row]:
    rows = _spent(home, rule.by or "all", now, now - rule.over, now + 1)
    return [
        Row(
            row.of or "all",
            {
                "of": row.of,
                "cost": _money(row.cost_usd, row.computed_usd),
                "tokens": row.total_tokens,
                "runs": row.runs,
            },
        )
        for row in rows
    ]


def _outcomes(home: Home, rule: Rule, now: float) -> list[Row]:
    ended: dict[str, list[RunRow]] = defaultdict(list)
    for row in _listed(home, now):
        at = epoch_ms(_event_time(row))
        if row.ended and at is not None and at / 1000 >= now - rule.over and not _came_late(row):
            named = {"agent": row.agents[0] if row.agents else None, "model": row.model}
            named |= {"project": row.project, "branch": row.branch}
            ended[named.get(rule.by or "") or "all"].append(row)
    rows = []
    for name, group in ended.items():
        failed = sum(row.passed is False for row in group)
        values: dict[str, Scalar] = {"of": name, "runs": len(group), "failed": failed}
        rows.append(Row(name, values | {"failure_rate": failed / len(group)}))
    return rows


def _loops(home: Home, _rule: Rule, now: float) -> list[Row]:
    times = {row.key: _event_time(row) for row in _listed(home, now)}
    return [
        Row(
            f"{row.family}:{row.run}:{row.tool}:{sha256((row.input or '').encode()).hexdigest()[:8]}",
            {
                "run": row.run, "tool": row.tool, "times": row.times,
                "agent": row.agents[0] if row.agents else None,
            },
            times.get(f"{row.family}:{row.run}"),
        )
        for row in loops(home)
    ]  # fmt: skip  # one table


def _findings(home: Home, _rule: Rule, now: float) -> list[Row]:
    times = {row.key: _event_time(row) for row in _listed(home, now)}
    return [
        Row(
            f"{row.family}:{row.run}:{row.seq}:{row.name}",
            {"run": row.run, "name": row.name, "level": row.level, "message": row.message},
            times.get(f"{row.family}:{row.run}"),
        )
        for row in findings(home, limit=1000)
        if (row.family, row.run) != RUN
    ]


def _journal(home: Home, _rule: Rule, now: float) -> list[Row]:
    listed = _listed(home, now)
    silent = [row.silent_seconds for row in listed if row.silent_seconds is not None]
    working = sum(row.status == "working" for row in listed)
    if not silent:
        return []
    return [Row("journal", {"silent_seconds": min(silent), "working": working})]


def _models(home: Home, _rule: Rule, now: float) -> list[Row]:
    before = {row.of for row in _spent(home, "model", now, None, now - _DAY, in_time=False)}
    return [
        Row(row.of, {"model": row.of, "new": row.of not in before})
        for row in _spent(home, "model", now, None, now + 1)
        if row.of is not None
    ]


def _checkpoints(home: Home, _rule: Rule, now: float) -> list[Row]:
    """The last checkpoint that a witness signed; none where none was signed or refused."""
    note, refused = last_witnessed(home.storage), _refused_at(home)
    unsigned = _is_unsigned(home)
    if note is None and refused is None and not unsigned:
        return []
    signed = 0 if note is None else max(each.at or 0 for each in note.witnesses())
    size = 0 if note is None else Checkpoint.of(note.text).size
    values: dict[str, Scalar] = {
        "records": size,
        "unwitnessed": max(home.journal.last - size, 0),
        "witnessed_seconds": None if note is None else round(max(now - signed, 0)),
        "refused": unsigned or (refused is not None and refused >= signed),
    }
    return [Row("checkpoints", values)]


def _refused_at(home: Home) -> float | None:
    """When a witness last refused a checkpoint."""
    mark = f'"{REFUSED}"'.encode()
    times = [each.received for each in home.journal.records(run=RUN) if mark in each.line]
    at = epoch_ms(times[-1]) if times else None
    return None if at is None else at / 1000


def _is_unsigned(home: Home) -> bool:
    """Whether the journal was found rewritten, and no checkpoint was made since."""
    mark, last = f'"{NOT_SIGNED}"'.encode(), last_checkpoint(home.storage)
    size = 0 if last is None else Checkpoint.of(last.text).size
    return any(each.seq > size for each in home.journal.records(run=RUN) if mark in each.line)


TABLES: Mapping[str, AlertTable] = {
    "runs": AlertTable(
        "Each run.",
        (
            "run", "family", "title", "status", "outcome", "passed", "agent", "model", "project",
            "branch", "tokens", "cost", "tool_calls", "tool_failures", "seconds", "silent_seconds",
        ),
        _runs,
    ),
    "questions": AlertTable(
        "Each question to a person.",
        ("run", "agent", "question", "status", "what", "waiting_seconds"),
        _questions,
    ),
    "costs": AlertTable(
        "Tokens and money within `over`, in total or `by` run, agent, model, project or provider.",
        ("of", "cost", "tokens", "runs"),
        _costs,
    ),
    "outcomes": AlertTable(
        "Runs that ended within `over`, in total or `by` agent, model, project or branch.",
        ("of", "runs", "failed", "failure_rate"),
        _outcomes,
    ),
    "loops": AlertTable(
        "A tool that a run calls again and again with the same arguments.",
        ("run", "tool", "times", "agent"),
        _loops,
    ),
    "findings": AlertTable("Each finding.", ("run", "name", "level", "message"), _findings),
    "journal": AlertTable("The journal as one row.", ("silent_seconds", "working"), _journal),
    "models": AlertTable(
        "Each model; `new` where it was first used less than a day ago.", ("model", "new"), _models
    ),
    "checkpoints": AlertTable(
        "The last checkpoint that a witness signed: the records that it has, those that came after "
        "it, its age, and whether one was refused since, by a witness or because the journal was "
        "rewritten.",
        ("records", "unwitnessed", "witnessed_seconds", "refused"),
        _checkpoints,
    ),
}  # fmt: skip  # a table
FIELDS = {name: table.fields for name, table in TABLES.items()}
