"""Replay the journal, and say which alerts there would have been."""

from collections.abc import Iterator

from tracklog.collector.alerts.incidents import AlertChange, Incidents, step
from tracklog.collector.alerts.rules import RuleFile
from tracklog.collector.alerts.tables import TABLES
from tracklog.folds import epoch_ms
from tracklog.home.home import Home

TICK = 60.0
"""Seconds between two looks while something is recorded."""
_LONGER = 1.25  # by which the looks become rarer while nothing is recorded


def replay(home: Home, file: RuleFile, since: float, until: float) -> Iterator[AlertChange]:
    """The changes between two times; what held at the first one counts as known.

    The records are appended to a journal in memory, with the clock of then.
    """
    clock = [0.0]
    incidents: Incidents = {}
    with Home("memory:", clock=lambda: clock[0]) as then:

        def look(at: float, *, baseline: bool = False) -> list[AlertChange]:
            nonlocal incidents
            clock[0] = at
            then.index.catch_up()
            rows = {rule.name: TABLES[rule.of].rows(then, rule, at) for rule in file.rules}
            incidents, changes = step(
                file.rules, rows, incidents, at, file.silences, baseline=baseline
            )
            return changes

        begun, looked, pause = False, since, TICK
        for record in home.journal.records():
            at = (epoch_ms(record.received) or 0) / 1000
            if at > until:
                break
            if at >= since and not begun:
                begun = True
                look(since, baseline=True)
            while begun and at - looked >= pause:
                looked += pause
                yield from look(looked)
                pause *= _LONGER
            pause = TICK
            clock[0] = at
            if record.erased is None:
                then.intake.admit([record.line], record.dialect)
        if not begun:
            look(since, baseline=True)
        while until - looked > pause:
            looked += pause
            yield from look(looked)
            pause *= _LONGER
        yield from look(until)
