"""The rules of the dialects over the events of one run; they give findings."""

from collections.abc import Sequence
from typing import Any

from tracklog.dialects import Dialect
from tracklog.model.event import Event, Finding
from tracklog.reading.record import Dialects, failure


class RunRules:
    """The states of the rules of each dialect, for one run.

    The intake stores an identity once, or, where it keeps conflicts, a second line only if it
    differs: so that an identity comes again is all there is to find out.
    """

    __slots__ = ("_ids", "_states", "count")

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}
        self._ids: set[tuple[str, str]] | None = None
        self.count = 0
        """The events that were checked."""

    def check(self, dialect: Dialect, event: Event) -> Sequence[Finding]:
        """The findings at the next event of the run."""
        self.count += 1
        findings: Sequence[Finding] = event.odd
        if event.id is not None and dialect.policy.identity == "keep":
            if self._ids is None:
                self._ids = set()
            if (dialect.name, event.id) in self._ids:
                message = f"{event.id} came before with another line"
                findings = [*findings, Finding(dialect.policy.reused, message, "error")]
            self._ids.add((dialect.name, event.id))
        try:
            state, more = dialect.rules(self._states.get(dialect.name), event)
        except Exception as error:  # noqa: BLE001  # one record must not stop the others
            return [*findings, failure(f"the dialect {dialect.name}", error)]
        self._states[dialect.name] = state
        return [*findings, *more] if findings else more

    def at_rest(self, dialects: Dialects) -> list[Finding]:
        """The findings that remain if nothing more comes."""
        findings: list[Finding] = []
        for name, state in self._states.items():
            try:
                findings += dialects[name].rest(state)
            except Exception as error:  # noqa: BLE001  # one dialect must not stop the others
                findings.append(failure(f"the dialect {name}", error))
        return findings
