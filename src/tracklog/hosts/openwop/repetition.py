"""Which events of a replay only repeat its source, and which are new.

What is repeated was sent to webhooks when it happened first. A replay also has events of its own: its
pauses, its end where a person cancelled it, and everything after an answer that its source waits for.
"""

from collections.abc import Callable, Iterator, Sequence

from tracklog import Body
from tracklog.hosts.openwop.event_writer import DIVERGED
from tracklog.hosts.openwop.runlog import RunLog


class Repetition:
    """The events of one replay, read beside those of its source."""

    def __init__(self, log: RunLog, source: Sequence[Body], writes: Callable[[str], bool]) -> None:
        self._log, self._at = log, 0
        self._start: int = log.snapshot.host["fork"]["fromSeq"]
        kinds = (e for e in source if e["type"] != DIVERGED and writes(e["type"]))
        self._source: Iterator[Body] = iter(kinds)
        self._next = next(self._source, None)
        self._new: set[int] = set()

    def is_new(self, sequence: int) -> bool:
        """Whether an event of the replay is its own."""
        for event in self._log.events[self._at : sequence + 1]:
            if self._is_own(event):
                self._new.add(event["sequence"])
            self._at += 1
        return sequence in self._new

    def _is_own(self, event: Body) -> bool:
        place = event["type"], event.get("nodeId")
        if self._next is not None and place == (self._next["type"], self._next.get("nodeId")):
            self._next = next(self._source, None)
            return False
        # The node in which it begins is executed again, which is no news.
        return (event["type"], event["sequence"]) != ("node.started", self._start)
