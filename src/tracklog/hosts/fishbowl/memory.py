"""The memory of a player: which events it receives, how many it remembers, when it reflects."""

from collections import deque
from heapq import heappush, heappushpop
from math import log2
from typing import NamedTuple

from tracklog import importance
from tracklog.hosts.fishbowl.manifest import REFLECTION, THOUGHT, Manifest

PUBLIC = frozenset(
    {
        "world.observed",
        "judge.verdict",
        "user.injected",
        "run.started",
        "agent.reflected",
        "agent.spoke",
        "oracle.spoke",
    }
)
"""Kinds that every player receives; other kinds are received by those who subscribe to them."""


class Remark(NamedTuple):
    """One event of the run, as players remember it."""

    place: int
    """Its position among the events of the run, from 0."""
    turn: int
    kind: str
    actor: str
    text: str
    """Empty if the event has no text."""


class Mind:
    """One player's memory, computed from the events of the run so far."""

    def __init__(self, player: Manifest) -> None:
        self.player = player
        self._received_kinds = PUBLIC | set(player.subscribes_to) - {THOUGHT}
        self._triggers = set(player.subscribes_to) - {THOUGHT}
        self._half_life = player.memory.window
        self._window: deque[Remark] = deque(maxlen=player.memory.window)
        self._salient: list[tuple[float, int, Remark]] = []
        self.pending: Remark | None = None
        """The last event that it subscribes to and has not answered."""
        self.weight = 0.0
        """The importance of all that it received from others since its last reflection."""
        self.remarks = 0
        """How often it acted."""
        self.remarks_by_kind: dict[str, int] = {}
        """The same, by kind."""

    def notice(self, remark: Remark) -> None:
        """Remember a remark, if this player receives it."""
        own = remark.actor == self.player.name
        if own:
            self.remarks += 1
            self.remarks_by_kind[remark.kind] = self.remarks_by_kind.get(remark.kind, 0) + 1
            self.pending = None
            if remark.kind == REFLECTION:
                self.weight = 0.0
        elif remark.kind not in self._received_kinds:
            return
        else:
            self.weight += importance(remark.kind)
            if remark.kind in self._triggers:
                # An agent is never triggered by its own event.
                self.pending = remark
        if remark.text:
            self._window.append(remark)
            if self.player.memory.use_salience:
                self._weigh(remark)

    def drop_pending(self) -> None:
        """Drop the remark that it was asked about."""
        self.pending = None

    def recall(self) -> list[Remark]:
        """The remarks that it remembers, in their order."""
        if self.player.memory.use_salience:
            return sorted(remark for _, _, remark in self._salient)
        return list(self._window)

    def is_full(self) -> bool:
        """Whether it is time to reflect."""
        threshold = self.player.memory.reflection_threshold
        return threshold is not None and self.weight >= threshold

    def _weigh(self, remark: Remark) -> None:
        """Add a remark by its salience: its importance, halved after every window of turns.

        All remarks lose importance at the same rate, so their order never changes, and it is
        enough to store the first k.
        """
        salience = log2(importance(remark.kind)) + remark.turn / self._half_life
        entry = salience, remark.place, remark
        if len(self._salient) < self.player.memory.salience_top_k:
            heappush(self._salient, entry)
        else:
            heappushpop(self._salient, entry)
