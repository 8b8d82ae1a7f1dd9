"""Incidents: when one begins, is reported again, and ends; pure, time is an argument."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal, NamedTuple

from tracklog.answers import LOST_AFTER
from tracklog.collector.alerts.rules import Rule, Scalar, Severity, Silence
from tracklog.collector.alerts.tables import Row
from tracklog.folds import LATE, epoch_ms

_NOTHING = {"title": "a run", "agent": "an agent"}
"""What a summary says where a field has no value, and "no" with the name of the field is no help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A rule and a row that fulfils it, or did so a moment ago."""

    rule: str
    key: str
    since: float
    """When the condition began to hold."""
    firing: bool = False
    notified: float | None = None
    """When somebody was last notified of it."""
    quiet: bool = False
    """It was there at the first start, or came late: it is never reported."""
    lapsed: float | None = None
    """When the condition ceased to hold."""
    summary: str = ""

    @property
    def pending(self) -> bool:
        """The condition holds, though not for long enough."""
        return not self.firing and not self.quiet

    @property
    def id(self) -> str:
        """The same for every message about this incident."""
        text = f"{self.rule}\n{self.key}\n{self.since:.3f}"
        return sha256(text.encode()).hexdigest()[:16]


class AlertChange(NamedTuple):
    """What happened to an incident."""

    at: float
    id: str
    rule: str
    key: str
    state: Literal["firing", "repeated", "resolved"]
    severity: Severity
    summary: str
    to: tuple[str, ...]
    """The targets that are notified; empty where nobody is."""
    silenced: str | None = None
    """Who silenced it, and why."""


Incidents = Mapping[tuple[str, str], Incident]


def step(
    rules: Iterable[Rule],
    rows: Mapping[str, Sequence[Row]],
    incidents: Incidents,
    now: float,
    silences: Sequence[Silence] = (),
    *,
    baseline: bool = False,
) -> tuple[Incidents, list[AlertChange]]:
    """The incidents after one look at the rows of each rule, and the changes.

    With `baseline` what is there now counts as known and is never reported.
    """
    after: dict[tuple[str, str], Incident] = {}
    changes: list[AlertChange] = []
    for rule in rules:
        fulfilled = {row.key: row for row in rows[rule.name] if rule.holds(row.values)}
        known = {key: each for (name, key), each in incidents.items() if name == rule.name}
        for key in dict.fromkeys((*fulfilled, *known)):
            before, row = known.get(key), fulfilled.get(key)
            incident, state = _next(rule, key, before, row, now, baseline=baseline)
            if incident is not None:
                after[rule.name, key] = incident
            about = incident or before
            if state is not None and about is not None and not about.quiet:
                values = row.values if row is not None else {}
                changes.append(_change(rule, about, state, values, now, silences))
    return after, changes


State = Literal["firing", "repeated", "resolved"]


def _next(
    rule: Rule, key: str, before: Incident | None, row: Row | None, now: float, *, baseline: bool
) -> tuple[Incident | None, State | None]:
    """The incident after this look, and what changed."""
    if row is None:
        assert before is not None
        if not before.firing:
            return None, None
        lapsed = now if before.lapsed is None else before.lapsed
        if now - lapsed >= rule.keep_firing_for:
            return None, "resolved"
        return replace(before, lapsed=lapsed), None
    late = _is_late(row, rule, now)
    incident = before or Incident(rule=rule.name, key=key, since=now, quiet=late)
    incident = replace(incident, lapsed=None, summary=_summary(rule, row))
    if not incident.firing:
        if not baseline and now - incident.since < rule.after:
            return incident, None
        quiet = baseline or incident.quiet or late
        return replace(incident, firing=True, notified=now, quiet=quiet), "firing"
    assert incident.notified is not None
    if rule.repeat is not None and now - incident.notified >= rule.repeat:
        return replace(incident, notified=now), "repeated"
    return incident, None


def _is_late(row: Row, rule: Rule, now: float) -> bool:
    at = epoch_ms(row.at)
    return at is not None and now - at / 1000 > LATE + rule.after + LOST_AFTER


def _change(
    rule: Rule,
    incident: Incident,
    state: State,
    values: Mapping[str, Scalar],
    now: float,
    silences: Sequence[Silence],
) -> AlertChange:
    named = {"severity": rule.severity, **values, "rule": rule.name, "key": incident.key}
    silence = next((each for each in silences if each.covers(named, now)), None)
    notified = silence is None and (state != "resolved" or rule.resolved)
    return AlertChange(
        now,
        incident.id,
        rule.name,
        incident.key,
        state,
        rule.severity,
        incident.summary,
        tuple(rule.to) if notified else (),
        f"{silence.by}: {silence.because}" if silence else None,
    )


def _summary(rule: Rule, row: Row) -> str:
    if rule.summary is not None:
        known = {
            name: _NOTHING.get(name, f"no {name.replace('_', ' ')}") if value is None else value
            for name, value in row.values.items()
        }
        return rule.summary.format_map(known)
    values = [f"{name} {_shown(row.values.get(name))}" for name in rule.when]
    return f"{rule.name}: {row.key} ({', '.join(values)})"


def _shown(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) and not isinstance(value, bool) else str(value)
