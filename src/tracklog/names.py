"""The models under the names that the contracts' own documents use, for programs in Python.

Each is also an attribute of `tracklog` itself: `from tracklog import KahnEvent`.
A shape has `model_validate`; a word or an id is a type for a pydantic field or a `TypeAdapter`.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, RootModel, Tag

from tracklog.dialects import awf, fishbowl
from tracklog.dialects.awf import shapes as exchange
from tracklog.dialects.fishbowl import CORE_EVENT_KINDS, importance
from tracklog.dialects.kahn_agent import (
    AgentId,
    AgentOutcome,
    AgentRunEnd,
    AgentRunStart,
    AgentStatus,
    AgentTransition,
    AuditCheckpoint,
    AuditResult,
    CheckpointId,
    ToolInvocation,
)
from tracklog.dialects.kahn_ci import Graph, NodeAttempt, NodeStatus, Outcome, RunEnd
from tracklog.dialects.openwop import catalog
from tracklog.dialects.openwop import shapes as openwop
from tracklog.dialects.openwop.catalog import PUBLISHED_ONLY_CLASSES, RFC_ONLY_CLASSES
from tracklog.dialects.openwop.manifest import AgentManifest, check_manifest
from tracklog.dialects.openwop.shapes import (
    AgentRef,
    ConversationMessage,
    ConversationTurn,
)
from tracklog.dialects.openwop.shapes import ToolError as ErrorEnvelope
from tracklog.dialects.ralph import NodeTransition, RunStart
from tracklog.folds.outcomes import aggregate_24h
from tracklog.recording.fanout import FanOut

__all__ = [
    "AGENT_SHARING",
    "CORE_EVENT_KINDS",
    "FISHBOWL_KIND",
    "OPENWOP_TYPES",
    "PUBLISHED_ONLY_CLASSES",
    "RFC_ONLY_CLASSES",
    "AgentEvent",
    "AgentId",
    "AgentManifest",
    "AgentOutcome",
    "AgentRef",
    "AgentRunEnd",
    "AgentRunStart",
    "AgentStatus",
    "AgentTransition",
    "AuditCheckpoint",
    "AuditResult",
    "CheckpointId",
    "ContentBlock",
    "ConversationMessage",
    "ConversationTurn",
    "ErrorEnvelope",
    "ExchangeEvent",
    "FanOut",
    "FishbowlEvent",
    "Graph",
    "KahnEvent",
    "NodeAttempt",
    "NodeStatus",
    "NodeTransition",
    "OrchestratorDecision",
    "Outcome",
    "RunEnd",
    "RunEventType",
    "RunStart",
    "ToolInvocation",
    "aggregate_24h",
    "check_manifest",
    "importance",
]


class KahnEvent(
    RootModel[
        Annotated[
            RunStart | NodeTransition | NodeAttempt | RunEnd,
            Field(discriminator="event"),
        ]
    ]
):
    """One frame of a ralph run: a union of exactly four, distinguished by `event`."""


class AgentEvent(
    RootModel[
        Annotated[
            AgentRunStart | AgentTransition | ToolInvocation | AuditCheckpoint | AgentRunEnd,
            Field(discriminator="event"),
        ]
    ]
):
    """One agent transition event: a union of exactly five, distinguished by `event`."""


def _type_of(value: Any) -> str:
    type_ = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "known" if type_ in list(awf.KINDS) else "other"


class ExchangeEvent(
    RootModel[
        Annotated[
            Annotated[
                Annotated[
                    exchange.RunStarted
                    | exchange.RunCompleted
                    | exchange.StepStarted
                    | exchange.StepCompleted
                    | exchange.CallWorkflowStarted
                    | exchange.CallWorkflowCompleted
                    | exchange.UserMessage
                    | exchange.AssistantMessage
                    | exchange.ToolCall
                    | exchange.ToolResult,
                    Field(discriminator="type"),
                ],
                Tag("known"),
            ]
            | Annotated[exchange.AwfEnvelope, Tag("other")],
            Discriminator(_type_of),
        ]
    ]
):
    """One line of an exchange transcript; an unknown type is stored as it is."""


class ContentBlock(RootModel[exchange.AnyBlock]):
    """One block of a message or a tool payload of an exchange transcript."""


class OrchestratorDecision(
    RootModel[
        Annotated[
            openwop.NextWorker | openwop.AskUser | openwop.Terminate,
            Field(discriminator="kind"),
        ]
    ]
):
    """What the supervisor of a run decided."""


RunEventType = Literal[tuple(openwop.KINDS)]  # type: ignore[valid-type]  # derived, not copied
"""The types of OpenWOP events that are known here; a reader folds others as best it can."""

FishbowlEvent = fishbowl.FishbowlEnvelope
"""One event of a fishbowl; its kinds are open."""

FISHBOWL_KIND = fishbowl.KIND
"""The pattern of a kind of fishbowl event: lower-case words joined by dots."""

AGENT_SHARING = catalog.SHARING
"""The pattern of `agentSharing` in an OpenWOP AgentRef."""

OPENWOP_TYPES = catalog.TYPES
"""The catalog of OpenWOP event types; a host may add types under a prefix of its own."""
