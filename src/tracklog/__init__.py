"""A flight recorder for agent fleets.

`tracklog.open(path)` opens a journal, `tracklog.Recorder` records one run to a file,
`tracklog.check(lines)` judges lines without recording them. The models of the contracts are
attributes of this package under the names that the contracts use: `from tracklog import KahnEvent`.
Everything is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracklog.log import Log as Log
    from tracklog.log import check as check
    from tracklog.log import open as open
    from tracklog.recording.recorder import Recorder as Recorder

__version__ = "0.1.0"

_API = {
    "tracklog.log": ("Log", "check", "open"),
    "tracklog.recording.recorder": ("Recorder",),
    "tracklog.model.errors": ("TracklogError",),
    "tracklog.journal.frame": ("Record",),
    "tracklog.model.fact": (
        "Answered", "Asked", "Began", "Called", "Decided", "Ended", "Fact", "Linked", "Moved",
        "Noted", "Returned", "Said", "Spent",
    ),
    "tracklog.names": (
        "CORE_EVENT_KINDS", "AgentEvent", "AgentId", "AgentManifest", "AgentOutcome", "AgentRef",
        "AgentRunEnd", "AgentRunStart", "AgentStatus", "AgentTransition", "AuditCheckpoint",
        "AuditResult", "CheckpointId", "ContentBlock", "ConversationMessage", "ConversationTurn",
        "ErrorEnvelope", "ExchangeEvent", "FanOut", "FishbowlEvent", "Graph", "KahnEvent",
        "NodeAttempt", "NodeStatus", "NodeTransition", "OrchestratorDecision", "Outcome", "RunEnd",
        "RunEventType", "RunStart", "ToolInvocation", "aggregate_24h",
    ),
}  # fmt: skip
"""The public names, by the module that each is imported from."""
_MODULES = {name: module for module, names in _API.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'tracklog' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
