"""Look at the rules again and again: record each change, and send it until it has arrived."""

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tracklog import Log, Noted
from tracklog.collector.alerts import RUN
from tracklog.collector.alerts.delivery import NotDelivered
from tracklog.collector.alerts.incidents import AlertChange, Incident, Incidents, step
from tracklog.collector.alerts.rules import Silence, Target, load
from tracklog.collector.alerts.tables import FIELDS, TABLES
from tracklog.folds import epoch_ms
from tracklog.home.home import Home
from tracklog.journal.frame import stamp
from tracklog.model.event import Body

WRITER = "alerts"
CHANGE, SENT, START, SILENCE = "alert", "alert-sent", "alerts-started", "alert-silence"
PENDING, LAPSED = "alert-pending", "alert-lapsed"
"""The labels of the notes."""
AGAIN = 3600.0
"""Seconds during which a message that did not arrive is sent again."""

Deliver = Callable[[AlertChange, str, Target], None]
_Message = tuple[str, str, str, str]
"""What names one message: the incident, the change, its time and the target."""


class AlertNote(NamedTuple):
    """A note in the run of the alerts."""

    seq: int
    received: str
    label: str
    data: Body


def notes(home: Home, after: int = 0) -> Iterator[AlertNote]:
    """The notes after a record, in order."""
    for record in home.journal.records(after, RUN):
        for fact in home.facts_in(record):
            if isinstance(fact, Noted) and isinstance(fact.data, dict):
                yield AlertNote(record.seq, record.received, fact.label, fact.data)


class AlertEntry(NamedTuple):
    """A recorded change, and the targets that a message about it reached."""

    change: AlertChange
    sent: tuple[str, ...]


def entries(home: Home, limit: int) -> list[AlertEntry]:
    """The last changes that were recorded, the oldest first."""
    changes: deque[AlertChange] = deque(maxlen=limit)
    sent: set[_Message] = set()
    for note in notes(home):
        if note.label == CHANGE:
            changes.append(_recorded(note.data))
        elif note.label == SENT:
            sent.add(_sent(note.data))
    return [
        AlertEntry(each, tuple(name for name in each.to if _message(each, name) in sent))
        for each in changes
    ]


def silence(home: Home, rule: Silence) -> int:
    """Record a silence; whoever evaluates the rules obeys it from the next look on."""
    data = rule.model_dump(mode="json")
    return Log(home).append_fact(RUN, Noted(label=SILENCE, data=data), writer=WRITER)


class Evaluator:
    """The state of the incidents of one store, restored from the notes on them."""

    def __init__(self, home: Home, path: Path, deliver: Deliver) -> None:
        self._home, self._log, self._path, self._deliver = home, Log(home), path, deliver
        self.file = load(path, FIELDS)
        self._incidents: Incidents = {}
        self._unsent: dict[_Message, AlertChange] = {}
        self._started = False
        self._silences: list[Silence] = []
        self._read = 0
        for note in notes(home):
            self._restore(note.label, note.data)
            self._read = note.seq

    @property
    def incidents(self) -> list[Incident]:
        """What fires now, and what is about to: its condition holds, though not for long enough."""
        return list(self._incidents.values())

    @property
    def silences(self) -> list[Silence]:
        """Those of the file, and those that were recorded."""
        return [*self.file.silences, *self._silences]

    def _restore(self, label: str, data: Body) -> None:
        if label == START:
            self._started = True
            quiet = [Incident(**each, firing=True, quiet=True) for each in data.get("known", ())]
            self._incidents = {(each.rule, each.key): each for each in quiet}
        elif label == CHANGE:
            since = data["since"]
            change = _recorded(data)
            key = (change.rule, change.key)
            rest = {name: each for name, each in self._incidents.items() if name != key}
            incident = Incident(
                rule=change.rule, key=change.key, since=since, firing=True, notified=change.at,
                summary=change.summary,
            )  # fmt: skip  # one line of arguments
            self._incidents = rest if change.state == "resolved" else {**rest, key: incident}
            self._unsent |= {_message(change, name): change for name in change.to}
        elif label in (PENDING, LAPSED):
            key = (data["rule"], data["key"])
            rest = {name: each for name, each in self._incidents.items() if name != key}
            pending = {} if label == LAPSED else {key: Incident(**data)}
            self._incidents = {**rest, **pending}
        elif label == SILENCE:
            self._silences.append(Silence.model_validate(data))
        elif label == SENT:
            self._unsent.pop(_sent(data), None)

    def look(self) -> list[AlertChange]:
        """Look once, record the changes, and send what is to be sent."""
        now = self._home.clock()
        self._home.index.catch_up()
        rules = self.file.rules
        rows = {rule.name: TABLES[rule.of].rows(self._home, rule, now) for rule in rules}
        for note in notes(self._home, self._read):
            self._read = note.seq
            if note.label == SILENCE:
                self._restore(note.label, note.data)
        before, silences = self._incidents, self.silences
        self._incidents, changes = step(
            rules, rows, before, now, silences, baseline=not self._started
        )
        if not self._started:
            self._started = True
            known = [
                {"rule": each.rule, "key": each.key, "since": each.since, "notified": each.notified}
                for each in self._incidents.values()
                if each.firing
            ]
            self._note(START, {"rules": str(self._path), "known": known})
        self._note_pending(before)
        for change in changes:
            key = (change.rule, change.key)
            since = (self._incidents.get(key) or before[key]).since
            row = {**change._asdict(), "at": stamp(change.at), "to": list(change.to)}
            self._note(CHANGE, {"at": stamp(change.at), "since": since, "change": row})
            self._unsent |= {_message(change, name): change for name in change.to}
        self._send(now)
        return changes

    def _note_pending(self, before: Incidents) -> None:
        """Record what began to wait for its time, and what ceased before it fired."""
        ceased = [
            each for key, each in before.items() if each.pending and key not in self._incidents
        ]
        began = [
            each for key, each in self._incidents.items() if each.pending and key not in before
        ]
        for label, pending in ((LAPSED, ceased), (PENDING, began)):
            for each in pending:
                data = {"rule": each.rule, "key": each.key, "since": each.since}
                self._note(label, {**data, "summary": each.summary})

    def _send(self, now: float) -> None:
        """Send what was not sent; the first failure of each is reported by the last one."""
        failure: NotDelivered | None = None
        for message, change in list(self._unsent.items()):
            target = self.file.to.get(message[-1])
            if target is None or now - change.at > AGAIN:
                del self._unsent[message]
                continue
            try:
                self._deliver(change, message[-1], target)
            except NotDelivered as error:
                failure = error
                continue
            del self._unsent[message]
            self._note(SENT, {"message": list(message), "id": change.id})
        if failure is not None:
            raise failure

    def _note(self, label: str, data: Body) -> None:
        self._log.append_fact(RUN, Noted(label=label, data=data), writer=WRITER)


def _recorded(data: Body) -> AlertChange:
    """The change that a note is about."""
    at = (epoch_ms(data["at"]) or 0) / 1000
    return AlertChange(**{**data["change"], "at": at, "to": tuple(data["change"]["to"])})


def _sent(data: Body) -> _Message:
    """The message of which a note says that it was sent."""
    id, state, at, target = data["message"]
    return id, state, at, target


def _message(change: AlertChange, target: str) -> _Message:
    return change.id, change.state, stamp(change.at), target
