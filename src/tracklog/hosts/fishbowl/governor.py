"""The governor: the limits on turns, calls, tokens and money, at which a run is ended."""

from collections import deque
from typing import Annotated

from pydantic import Field

from tracklog import TracklogError
from tracklog.hosts.fishbowl.manifest import Positive, StrictManifest

HOUR = 3600.0

Money = Annotated[float, Field(gt=0)]


class PlayLimits(StrictManifest):
    """The limits; None means no limit."""

    max_turns: Positive = 100
    max_calls_per_turn: Positive = 8
    max_total_calls: Positive = 500
    max_total_tokens: Positive | None = None
    hourly_budget_usd: Money | None = None


class BudgetExceeded(TracklogError):
    """A run reached one of its limits, and was ended."""

    def __init__(self, reason: str, limit: float) -> None:
        super().__init__(
            f"the run reached its {reason} of {limit:,}",
            f"raise {reason} under `governor` in the scenario, and start a new run",
        )
        self.reason = reason
        """The name of the limit."""


class Governor:
    """Counts what a run spends; computed from the run's events, so it is known after a restart."""

    def __init__(self, limits: PlayLimits) -> None:
        self.limits = limits
        self.reset()

    def reset(self) -> None:
        """Set all counters to zero."""
        self.turn = self.calls = self.calls_this_turn = self.tokens = 0
        self._spent: deque[tuple[float, float]] = deque()

    def begin_turn(self, turn: int) -> None:
        """Start to count the calls of a turn; to begin the same turn again changes nothing."""
        if turn > self.turn:
            self.turn, self.calls_this_turn = turn, 0

    def record_call(self, tokens: int, cost: float, at: float, calls: int = 1) -> None:
        """Add the tokens, cost and calls of one event."""
        self.calls += calls
        self.calls_this_turn += calls
        self.tokens += tokens
        if cost:
            self._spent.append((at, cost))

    def spent(self, now: float) -> float:
        """Dollars spent in the hour before a time."""
        while self._spent and self._spent[0][0] <= now - HOUR:
            self._spent.popleft()
        return sum(cost for _, cost in self._spent)

    def check(self, now: float) -> None:
        """Raise `BudgetExceeded` if a limit is reached."""
        limits = self.limits
        if self.turn > limits.max_turns:
            raise BudgetExceeded("max_turns", limits.max_turns)
        if self.calls_this_turn >= limits.max_calls_per_turn:
            raise BudgetExceeded("max_calls_per_turn", limits.max_calls_per_turn)
        if self.calls >= limits.max_total_calls:
            raise BudgetExceeded("max_total_calls", limits.max_total_calls)
        if limits.max_total_tokens is not None and self.tokens >= limits.max_total_tokens:
            raise BudgetExceeded("max_total_tokens", limits.max_total_tokens)
        hourly = limits.hourly_budget_usd
        if hourly is not None and self.spent(now) >= hourly:
            raise BudgetExceeded("hourly_budget_usd", hourly)
