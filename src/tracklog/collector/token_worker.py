"""Refresh the tokens that collectors on several machines share."""

from tracklog.collector.worker import Worker
from tracklog.web.guard import Guard
from tracklog.web.tokens import SharedTokens

EVERY = 1.0
"""Seconds until a token that was made or revoked elsewhere is known here."""


class TokenWorker(Worker):
    """A thread that reads the tokens again; while that fails, those that are known count."""

    def __init__(self, tokens: SharedTokens) -> None:
        super().__init__("tokens", failure="the tokens are not refreshed", pause=5.0)
        self._tokens = tokens

    def work(self) -> None:
        """Refresh until the end."""
        while not self.stopped.wait(EVERY):
            self._tokens.refresh()


def token_worker(guard: Guard) -> TokenWorker | None:
    """The worker for the tokens of a guard; none where they are in a file, which is asked itself."""
    place = None if guard.tokens is None else guard.tokens.place
    return TokenWorker(place) if isinstance(place, SharedTokens) else None
