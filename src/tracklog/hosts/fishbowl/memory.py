"""The memory of a player: which events it receives, how many it remembers, when it reflects."""

from collections import deque
from heapq import heappush, heappushpop
from math import log2
from typing import NamedTuple

from tracklog.dialects.fishbowl import importance
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
"""What everybody on the stage hears; other kinds are heard by those who subscribe to them."""


class Remark(NamedTuple):
    """One event of the run, as players remember it."""

    place: int
    """Among the run's events, from 0."""
    turn: int
    kind: str
    actor: str
    text: str
    """Empty where nothing was said."""


class Mind:
    """One player's memory; everything in it follows from the run's events so far."""

    def __init__(self, player: Manifest) -> None:
        self.player = player
        self._audible = PUBLIC | set(player.subscribes_to) - {THOUGHT}
        self._triggers = set(player.subscribes_to) - {THOUGHT}
        self._half_life = player.memory.window
        self._window: deque[Remark] = deque(maxlen=player.memory.window)
        self._salient: list[tuple[float, int, Remark]] = []
        self.pending: Remark | None = None
        """The last thing it subscribes to and has not answered."""
        self.weight = 0.0
        """Of what it heard from others since it reflected."""
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
        elif remark.kind not in self._audible:
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

    def let_go(self) -> None:
        """Drop the remark that it was asked about."""
        self.pending = None

    def recall(self) -> list[Remark]:
        """What it knows when it is asked, in the order in which it happened."""
        if self.player.memory.use_salience:
            return sorted(remark for _, _, remark in self._salient)
        return list(self._window)

    def is_full(self) -> bool:
        """Whether it is time to reflect."""
        threshold = self.player.memory.reflection_threshold
        return threshold is not None and self.weight >= threshold

    def _weigh(self, remark: Remark) -> None:
        """Salience is importance that halves with every window of turns that passes.

        All remarks fade alike, so that their order never changes and the first k are enough.
        """
        salience = log2(importance(remark.kind)) + remark.turn / self._half_life
        entry = salience, remark.place, remark
        if len(self._salient) < self.player.memory.salience_top_k:
            heappush(self._salient, entry)
        else:
            heappushpop(self._salient, entry)
