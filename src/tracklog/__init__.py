"""A flight recorder for agent fleets.

The models of the contracts are attributes of this package under the names that the contracts use:
`from tracklog import KahnEvent`. They are imported when they are first asked for.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_NAMES = (
    "CORE_EVENT_KINDS", "AgentEvent", "AgentId", "AgentManifest", "AgentOutcome", "AgentRef",
    "AgentRunEnd", "AgentRunStart", "AgentStatus", "AgentTransition", "AuditCheckpoint",
    "AuditResult", "CheckpointId", "ContentBlock", "ConversationMessage", "ConversationTurn",
    "ErrorEnvelope", "ExchangeEvent", "FanOut", "FishbowlEvent", "Graph", "KahnEvent",
    "NodeAttempt", "NodeStatus", "NodeTransition", "OrchestratorDecision", "Outcome", "RunEnd",
    "RunEventType", "RunStart", "ToolInvocation", "aggregate_24h",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module("tracklog.names"), name)
    raise AttributeError(f"module 'tracklog' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
