"""Events that could not be written: held in memory, in order, up to a limit."""

import threading
from collections import deque
from typing import NamedTuple

from tracklog.recording.recorder.draft import Draft

EVENTS = 1024
BYTES = 8 * 1024 * 1024
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


class Waiting(NamedTuple):
    """An event that waits for the disk."""

    draft: Draft
    """The draft, with the time at which the event happened."""
    elapsed: int
    """In nanoseconds since the recorder opened."""
    lost: int
    """How many events before it were dropped."""

    @property
    def size(self) -> int:
        _, head, payload, _, extras, _ = self.draft
        return len(head) + len(payload) + len(extras)


class Spill:
    """A bounded queue with the times at which the disk is tried again."""

    def __init__(self, events: int = EVENTS, size: int = BYTES) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Waiting] = deque()
        self._limit, self._limit_bytes = events, size
        self._bytes = 0
        self._pause = 0.0
        self._again_at = 0.0
        self.lost = 0
        """Dropped events that no written event has reported yet."""
        self.lost_total = 0

    @property
    def used(self) -> bool:
        """Whether anything is pending, or was dropped and not reported yet."""
        return bool(self._waiting) or self.lost > 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, draft: Draft, elapsed: int) -> bool:
        """Queue it, or drop it when there is no room."""
        with self._lock:
            waiting = Waiting(draft, elapsed, self.lost)
            if len(self._waiting) >= self._limit or self._bytes + waiting.size > self._limit_bytes:
                self.lost += 1
                self.lost_total += 1
                return False
            self.lost = 0
            self._waiting.append(waiting)
            self._bytes += waiting.size
            return True

    def give_up(self) -> None:
        """Count an event that will not be written."""
        with self._lock:
            self.lost += 1
            self.lost_total += 1

    def report_loss(self, count: int) -> None:
        """Note that an event has reported these losses."""
        with self._lock:
            self.lost -= count

    def first(self) -> Waiting | None:
        """The next event to write."""
        return self._waiting[0] if self._waiting else None

    def drop_first(self) -> None:
        """Remove the first event after it was written."""
        with self._lock:
            self._bytes -= self._waiting.popleft().size

    def waits(self, now: float) -> bool:
        """Whether it is too early to try the disk again."""
        return bool(self._waiting) and now < self._again_at

    def failed(self, now: float) -> None:
        """Note that the disk failed again: wait twice as long as before."""
        self._pause = min(LONGEST_PAUSE, self._pause * 2 or FIRST_PAUSE)
        self._again_at = now + self._pause

    def worked(self) -> None:
        """Note that the disk took a line."""
        self._pause = 0.0
