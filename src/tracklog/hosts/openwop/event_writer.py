"""Write an event of a run, unless the journal, or the source of a replay, has it already.

Every step writes its events with `emit`. Where the run's own log has the event already, it is
taken from there and nothing is done again; a replay takes the payload from the source's log
(WOP-81, WOP-82); everything else is new. So the log alone decides where a run goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from tracklog import Body
from tracklog.hosts.openwop.exceptions import Drifted, NodeFailed
from tracklog.hosts.openwop.redaction import Redactor
from tracklog.hosts.openwop.runlog import TERMINAL, RunLog, new_event
from tracklog.hosts.openwop.settings import Settings

DIVERGED = "replay.diverged"
PAUSES = ("run.paused", "run.resumed")
ENDS = ("node.completed", "node.failed", "node.cancelled")
TIMEOUT = "run_timeout"


class EventWriter:
    """The events of one run while it is carried out."""

    def __init__(
        self,
        log: RunLog,
        settings: Settings,
        redactor: Redactor,
        now: Callable[[RunLog], str],
        tape: list[Body] | None,
    ) -> None:
        self.log, self.settings, self.redactor, self._now = log, settings, redactor, now
        self.history = list(log.events)
        self.at = 0
        self.host: Mapping[str, Any] = self.history[0].get("host", {})
        self.tape: list[Body] | None = None
        self.tape_at = 0
        self._source_waits = False
        if tape is not None:
            self.use_tape(tape)
        self.written: dict[int, str] = {}
        """The ids of a replay's own events, by the numbers of those of its source."""
        self.faithful = False
        """Whether the next events must be those of the source."""
        self.buffer: list[Body] = []
        """Events that are not written yet."""

    def use_tape(self, tape: list[Body]) -> None:
        """Repeat the events of another run."""
        self.tape, self._source_waits = tape, False
        for event in tape:
            if event["type"] == "interrupt.requested":
                self._source_waits = True
            elif event["type"] in ("interrupt.resolved", *TERMINAL):
                self._source_waits = False

    def go_on_alone(self) -> None:
        """From here on a replay is a run of its own: its source has nothing more to repeat."""
        self.tape, self.faithful = None, False

    @property
    def is_live(self) -> bool:
        """Whether all recorded events were repeated."""
        return self.at >= len(self.history)

    def emit(
        self,
        kind: str,
        payload: Mapping[str, Any],
        node: str | None = None,
        cause: Body | None = None,
        **more: Any,
    ) -> Body | None:
        """The recorded event or a new one; None for a type that is not advertised."""
        self.pass_notes()
        if not self.is_live:
            return self.consume(kind, node)
        if not self.settings.writes(kind):  # WOP-75
            return None
        if self.tape is not None and self.at > 0 and kind not in PAUSES:
            event = self.on_tape()
            if event is not None and self.faithful:
                if (event["type"], event.get("nodeId")) != (kind, node):
                    self._diverged(event, "type-mismatch", kind)
                    self.faithful = False
                    raise NodeFailed("replay_source_missing", f"the source has no {kind} here")
                return self.repeat(event)
            if event is None and self.faithful and not self._source_waits:
                self.faithful = False
                raise NodeFailed("replay_source_missing", f"the source ends before {kind}")
            if event is not None:
                self._compare(event, kind, payload, node)
            elif not self._source_waits:
                self._diverged(None, "extra", kind)
        event_cause = None if cause is None else cause["eventId"]
        return self._write(kind, self.redactor.payload(payload), node, event_cause, **more)

    def pass_notes(self) -> None:
        while not self.is_live and self.history[self.at]["type"] == DIVERGED:
            self.at += 1

    def consume(self, kind: str | None, node: str | None = None) -> Body:
        event = self.history[self.at]
        if kind is not None and (event["type"], event.get("nodeId")) != (kind, node):
            if ends_early(event) and event["type"] == "cap.breached":
                raise TimeoutError  # cut off while it was written
            where = f"event {self.at} is {event['type']} and not {kind}"
            raise Drifted(f"host or workflow were changed while this run was under way: {where}")
        self.at += 1
        is_own = self.tape is None or self._is_own_pause(event) or self._is_own_start(event)
        if not is_own:
            self._advance(event)
        return event

    def _is_own_pause(self, event: Body) -> bool:
        """Whether a recorded event is of a pause of the replay itself: those of its source come first."""
        source = self.on_tape()
        if event["type"] in PAUSES:
            return source is None or source["type"] != event["type"]
        while source is not None and source["type"] in PAUSES:  # older versions left them out
            self.tape_at += 1
            source = self.on_tape()
        return False

    def _is_own_start(self, event: Body) -> bool:
        """Whether a recorded event starts a node again, in which the replay was cut off."""
        fork = self.host.get("fork", {})
        if (event["type"], event["sequence"]) != ("node.started", fork.get("fromSeq")):
            return False
        source = self.on_tape()
        return source is None or not starts(source, event["nodeId"])

    def _advance(self, event: Body) -> None:
        source = self.on_tape()
        if source is not None:
            self.written[source["sequence"]] = event["eventId"]
            self.tape_at += 1
        elif self._source_waits:
            self.go_on_alone()

    def _write(
        self, kind: str, payload: Any, node: str | None, cause: str | None, **more: Any
    ) -> Body:
        event = self._append(kind, payload, node, cause, **more)
        if self.tape is not None and kind not in (DIVERGED, *PAUSES):
            self._advance(event)
        return event

    def _append(
        self, kind: str, payload: Any, node: str | None, cause: str | None, **more: Any
    ) -> Body:
        event = new_event(
            self.log, self.at, self._now(self.log), kind, payload, node, cause, **more
        )
        self.buffer.append(event)
        self.at += 1
        self.history.append(event)
        return event

    def start_again(self, started: Body) -> Body:
        """Start a node again in which a replay was cut off; its source has no such event."""
        return self._append("node.started", started["payload"], started["nodeId"], None)

    def pass_starts(self, node: str) -> Body | None:
        """Pass the recorded events that start a node once more; the last of them."""
        found = None
        while True:
            event = self.due_on_tape() if self.is_live else self.history[self.at]
            if event is None or not starts(event, node):
                return found
            found = self.repeat(event) if self.is_live else self.consume(None)

    def on_tape(self) -> Body | None:
        """The next event of the source that would be written here."""
        assert self.tape is not None
        while self.tape_at < len(self.tape):
            event = self.tape[self.tape_at]
            if event["type"] != DIVERGED and self.settings.writes(event["type"]):
                return event
            self.tape_at += 1
        return None

    def repeat(self, event: Body) -> Body:
        """Payload and order as in the source; id, time and run are our own."""
        assert self.tape is not None
        cause = None
        if "causationId" in event:
            number = event["causationId"].rpartition("-")[2]
            cause = self.written.get(int(number)) if number.isdigit() else None
        written = self._write(event["type"], event["payload"], event.get("nodeId"), cause)
        if event["type"] in PAUSES:
            self._advance(written)
        return written

    def due_on_tape(self) -> Body | None:
        """The event of the source that is to be repeated next; None while the run's own are."""
        return self.on_tape() if self.tape is not None and self.is_live else None

    def _compare(
        self, event: Body, kind: str, payload: Mapping[str, Any], node: str | None
    ) -> None:
        if (event["type"], event.get("nodeId")) != (kind, node):
            self._diverged(event, "type-mismatch", kind)
        elif orjson.dumps(event["payload"], option=orjson.OPT_SORT_KEYS) != orjson.dumps(
            self.redactor.payload(payload), option=orjson.OPT_SORT_KEYS
        ):
            self._diverged(event, "output", kind)

    def _diverged(self, event: Body | None, how: str, where: str) -> None:
        data: dict[str, Any] = {"sourceRunId": self.host["fork"]["sourceRunId"]}
        data["atSequence"] = self.at if event is None else event["sequence"]
        data |= {} if event is None else {"originalEventId": event["eventId"]}
        data |= {"divergenceKind": how, "divergencePoint": where}
        self._write(DIVERGED, data, None, None)

    def note_missing(self) -> None:
        """Record that a replay ended before its source did, before the end is recorded."""
        if self.tape is None:
            return
        left = self.on_tape()
        if left is not None and self.buffer and self.buffer[-1]["type"] == "run.completed":
            end = self.buffer.pop()
            self.history.pop()
            self.at -= 1
            self._diverged(left, "missing", left["type"])
            self.tape = None
            self._write(end["type"], end["payload"], None, None)

    def peek(self, ahead: int = 0) -> Body | None:
        """The next recorded event, of the run itself or of its source."""
        self.pass_notes()
        if self.at + ahead < len(self.history):
            return self.history[self.at + ahead]
        if self.tape is not None and self.faithful and self.is_live and self.on_tape() is not None:
            place = self.tape_at + ahead
            return self.tape[place] if place < len(self.tape) else None
        return None

    def recorded_end(self, node: str, *, is_executed: bool) -> int | None:
        """The position of the recorded end of this attempt: in the run's own log, or -1 on the tape.

        A node that a replay executes is repeated only if it was cut off.
        """
        for at in range(self.at, len(self.history)):
            if ends_attempt(self.history, at, node):
                return at
        for at in range(self.tape_at, len(self.tape or ())):
            assert self.tape is not None
            if ends_early(self.tape[at]):
                return -1
            if ends_attempt(self.tape, at, node):
                return None if is_executed and not was_cut_off(self.tape[at]) else -1
        return None


def starts(event: Body, node: str) -> bool:
    """Whether an event starts a node."""
    return bool(event["type"] == "node.started" and event.get("nodeId") == node)


def open_start(events: Sequence[Body]) -> Body | None:
    """The start of the node that has not ended yet."""
    for event in reversed(events):
        if event["type"] in (*ENDS, "node.skipped"):
            return None
        if event["type"] == "node.started":
            return event
    return None


def ends_attempt(events: Sequence[Body], at: int, node: str) -> bool:
    """Whether an event ends an attempt at a node, or leaves it for the next start of the host."""
    event = events[at]
    if event["type"] == "run.paused":  # inside an attempt: it was cut off
        return True
    if event.get("nodeId") != node:
        return False
    if event["type"] != "node.retried":
        return event["type"] in ENDS
    later = (events[n]["type"] for n in range(at + 1, len(events)))
    return next((kind for kind in later if kind != DIVERGED), "node.started") == "node.started"


def ends_early(event: Body) -> bool:
    """Whether an event is the first one of the end of a run that was cancelled or out of time."""
    kind = event["type"]
    if kind == "cap.breached":
        return bool(event["payload"]["kind"] == "run-duration")
    return bool(kind == "run.cancelled")


def was_cut_off(event: Body) -> bool:
    """Whether an attempt ended because of a cancellation, a pause, a timeout or a branch."""
    kind, payload = event["type"], event["payload"]
    if kind == "node.retried":
        return "lastError" not in payload
    is_late = payload.get("error", {}).get("code") == TIMEOUT
    return kind in ("node.cancelled", "run.paused") or bool(is_late)
