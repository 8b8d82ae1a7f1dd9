"""Exceptions that end a node or a run early."""

from collections.abc import Mapping
from typing import Any

from tracklog import Body

FINAL = frozenset(
    {
        "child_failed",  # its own nodes were tried again by its own settings
        "fan_out_unsupported",
        "forbidden",
        "interrupt_rejected",  # as older versions called the next
        "approval_rejected",
        "clarification_rounds_exceeded",
        "no_pending_decision",
        "outcome_unknown",  # it may have been done
        "replay_source_missing",
        "tool_not_found",
        "validation_error",
    }
)
"""Failures that would come out the same, or that must not be tried again."""


class NodeFailed(Exception):
    """A node cannot go on."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"code": code, "message": message}
        if details:
            self.error["details"] = dict(details)

    @property
    def is_final(self) -> bool:
        """Whether a retry is useless or not allowed."""
        code, details = self.error["code"], self.error.get("details", {})
        return code in FINAL or details.get("retryable") is False


class RunFailed(Exception):
    """The run ends here, without success."""

    def __init__(self, error: Mapping[str, Any], node: str | None, cause: Body | None) -> None:
        super().__init__(error["message"])
        self.error, self.node, self.cause = error, node, cause


class Again(Exception):
    """The node is tried again; the event about that is recorded."""

    def __init__(self, retried: Body) -> None:
        super().__init__(f"attempt {retried['payload']['attempt']}")
        self.retried = retried


class Suspended(Exception):
    """The run waits; what it waits for is recorded."""


class Cancelled(Exception):
    """The run was cancelled."""


class Paused(Exception):
    """The attempt at a node was cut off because the run is paused; the node begins again later."""


class ReplayEnded(Exception):
    """The source of a replay ended here, and so does the replay."""


class Drifted(Exception):
    """The recorded events are not those that this host would write: host or workflow have changed."""


class BadAnswer(Exception):
    """An answer that does not fit its question."""

    def __init__(self, message: str, field: str = "resumeValue") -> None:
        super().__init__(message)
        self.field = field


class NotAllowed(BadAnswer):
    """An answer of a person who may not give it."""


class AlreadyVoted(BadAnswer):
    """A different vote of a person who has voted; the first vote stands."""

    def __init__(self, vote: str) -> None:
        super().__init__(f"the first vote stands: {vote}")
        self.vote = vote


class Unknown(Exception):
    """There is no such run, or it asks no such question."""


class Newer(Exception):
    """A newer engine wrote this run, or its workflow is not here: it can be read, but not executed."""


class Mismatch(BadAnswer):
    """An event from outside that another run, or another step, waits for."""
