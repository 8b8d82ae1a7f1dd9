"""A flight recorder for agent fleets.

`tracklog.open(path)` opens a journal, `tracklog.Recorder` records one run to a file,
`tracklog.check(lines)` judges lines without recording them. The models of the contracts are
attributes of this package under the names that the contracts use: `from tracklog import KahnEvent`.
Everything is imported when it is first used.
"""

TYPE_CHECKING = False  # `typing` has it, and would double what the import of this package costs
if TYPE_CHECKING:  # the same names as in _API, for type checkers and editors
    from tracklog.formats.providers import Normaliser as Normaliser
    from tracklog.formats.providers import Provider as Provider
    from tracklog.formats.providers import ReplyStatus as ReplyStatus
    from tracklog.formats.providers import provider as provider
    from tracklog.formats.providers import provider_of as provider_of
    from tracklog.formats.providers import provider_that_opens as provider_that_opens
    from tracklog.home.plugs import Registry as Registry
    from tracklog.intake.verdicts import Verdict as Verdict
    from tracklog.intake.verdicts import Verdicts as Verdicts
    from tracklog.journal.frame import Record as Record
    from tracklog.journal.frame import Run as Run
    from tracklog.journal.frame import stamp as stamp
    from tracklog.journal.leases import Leases as Leases
    from tracklog.journal.stores import Durability as Durability
    from tracklog.log import Log as Log
    from tracklog.log import NewEvent as NewEvent
    from tracklog.log import body_of as body_of
    from tracklog.log import check as check
    from tracklog.log import open as open
    from tracklog.log import write_file as write_file
    from tracklog.model.errors import BadFormat as BadFormat
    from tracklog.model.errors import JournalFull as JournalFull
    from tracklog.model.errors import KeyReused as KeyReused
    from tracklog.model.errors import NoSuchRun as NoSuchRun
    from tracklog.model.errors import NotAppended as NotAppended
    from tracklog.model.errors import NotDurable as NotDurable
    from tracklog.model.errors import NotOpened as NotOpened
    from tracklog.model.errors import NotRecorded as NotRecorded
    from tracklog.model.errors import Overtaken as Overtaken
    from tracklog.model.errors import StoreBroken as StoreBroken
    from tracklog.model.errors import TapeMiss as TapeMiss
    from tracklog.model.errors import TracklogError as TracklogError
    from tracklog.model.errors import UnknownName as UnknownName
    from tracklog.model.event import Body as Body
    from tracklog.model.event import Event as Event
    from tracklog.model.event import Finding as Finding
    from tracklog.model.event import Problem as Problem
    from tracklog.model.fact import Answered as Answered
    from tracklog.model.fact import Asked as Asked
    from tracklog.model.fact import Began as Began
    from tracklog.model.fact import Called as Called
    from tracklog.model.fact import Decided as Decided
    from tracklog.model.fact import Ended as Ended
    from tracklog.model.fact import Fact as Fact
    from tracklog.model.fact import Linked as Linked
    from tracklog.model.fact import Moved as Moved
    from tracklog.model.fact import Noted as Noted
    from tracklog.model.fact import Returned as Returned
    from tracklog.model.fact import Said as Said
    from tracklog.model.fact import Spent as Spent
    from tracklog.names import AGENT_SHARING as AGENT_SHARING
    from tracklog.names import CORE_EVENT_KINDS as CORE_EVENT_KINDS
    from tracklog.names import FISHBOWL_KIND as FISHBOWL_KIND
    from tracklog.names import OPENWOP_TYPES as OPENWOP_TYPES
    from tracklog.names import PUBLISHED_ONLY_CLASSES as PUBLISHED_ONLY_CLASSES
    from tracklog.names import RFC_ONLY_CLASSES as RFC_ONLY_CLASSES
    from tracklog.names import AgentEvent as AgentEvent
    from tracklog.names import AgentId as AgentId
    from tracklog.names import AgentManifest as AgentManifest
    from tracklog.names import AgentOutcome as AgentOutcome
    from tracklog.names import AgentRef as AgentRef
    from tracklog.names import AgentRunEnd as AgentRunEnd
    from tracklog.names import AgentRunStart as AgentRunStart
    from tracklog.names import AgentStatus as AgentStatus
    from tracklog.names import AgentTransition as AgentTransition
    from tracklog.names import AuditCheckpoint as AuditCheckpoint
    from tracklog.names import AuditResult as AuditResult
    from tracklog.names import CheckpointId as CheckpointId
    from tracklog.names import ContentBlock as ContentBlock
    from tracklog.names import ConversationMessage as ConversationMessage
    from tracklog.names import ConversationTurn as ConversationTurn
    from tracklog.names import ErrorEnvelope as ErrorEnvelope
    from tracklog.names import ExchangeEvent as ExchangeEvent
    from tracklog.names import FanOut as FanOut
    from tracklog.names import FishbowlEvent as FishbowlEvent
    from tracklog.names import Graph as Graph
    from tracklog.names import KahnEvent as KahnEvent
    from tracklog.names import NodeAttempt as NodeAttempt
    from tracklog.names import NodeStatus as NodeStatus
    from tracklog.names import NodeTransition as NodeTransition
    from tracklog.names import OrchestratorDecision as OrchestratorDecision
    from tracklog.names import Outcome as Outcome
    from tracklog.names import RunEnd as RunEnd
    from tracklog.names import RunEventType as RunEventType
    from tracklog.names import RunStart as RunStart
    from tracklog.names import ToolInvocation as ToolInvocation
    from tracklog.names import aggregate_24h as aggregate_24h
    from tracklog.names import check_manifest as check_manifest
    from tracklog.names import importance as importance
    from tracklog.reading.walk import Reading as Reading
    from tracklog.recording.recorder import NullRecorder as NullRecorder
    from tracklog.recording.recorder import Recorder as Recorder
    from tracklog.recording.recorder.scopes import CallScope as CallScope
    from tracklog.recording.recorder.scopes import RunScope as RunScope
    from tracklog.recording.recorder.scopes import Scope as Scope
    from tracklog.recording.recorder.scopes import StepScope as StepScope
    from tracklog.recording.recorder.scopes import StepStatus as StepStatus
    from tracklog.recording.recorder.scopes import ToolUse as ToolUse
    from tracklog.recording.tape import TAPE_LABEL as TAPE_LABEL
    from tracklog.recording.tape import OnMiss as OnMiss
    from tracklog.recording.tape import RecordedAnswer as RecordedAnswer
    from tracklog.recording.tape import ServeBy as ServeBy
    from tracklog.recording.tape import Tape as Tape
    from tracklog.recording.tape import tape_report as tape_report
    from tracklog.recording.transcript.views import TranscriptRun as TranscriptRun
    from tracklog.recording.transcript.views import TranscriptStep as TranscriptStep
    from tracklog.recording.transcript.views import read_transcript as read_transcript

__version__ = "0.1.0"

_API = {
    "tracklog.log": ("Log", "NewEvent", "body_of", "check", "open", "write_file"),
    "tracklog.model.errors": (
        "BadFormat", "JournalFull", "KeyReused", "NoSuchRun", "NotAppended", "NotDurable",
        "NotOpened", "NotRecorded", "Overtaken", "StoreBroken", "TapeMiss",
        "TracklogError", "UnknownName",
    ),
    "tracklog.model.event": ("Body", "Event", "Finding", "Problem"),
    "tracklog.model.fact": (
        "Answered", "Asked", "Began", "Called", "Decided", "Ended", "Fact", "Linked",
        "Moved", "Noted", "Returned", "Said", "Spent",
    ),
    "tracklog.journal.frame": ("Record", "Run", "stamp"),
    "tracklog.journal.stores": ("Durability",),
    "tracklog.intake.verdicts": ("Verdict", "Verdicts"),
    "tracklog.reading.walk": ("Reading",),
    "tracklog.journal.leases": ("Leases",),
    "tracklog.home.plugs": ("Registry",),
    "tracklog.recording.recorder": ("NullRecorder", "Recorder"),
    "tracklog.recording.recorder.scopes": (
        "CallScope", "RunScope", "Scope", "StepScope", "StepStatus", "ToolUse",
    ),
    "tracklog.recording.transcript.views": ("TranscriptRun", "TranscriptStep", "read_transcript"),
    "tracklog.recording.tape": (
        "TAPE_LABEL", "OnMiss", "RecordedAnswer", "ServeBy", "Tape", "tape_report",
    ),
    "tracklog.formats.providers": (
        "Normaliser", "Provider", "ReplyStatus", "provider", "provider_of",
        "provider_that_opens",
    ),
    "tracklog.names": (
        "AGENT_SHARING", "CORE_EVENT_KINDS", "FISHBOWL_KIND", "OPENWOP_TYPES",
        "PUBLISHED_ONLY_CLASSES", "RFC_ONLY_CLASSES",
        "AgentEvent", "AgentId", "AgentManifest", "AgentOutcome",
        "AgentRef", "AgentRunEnd", "AgentRunStart", "AgentStatus", "AgentTransition",
        "AuditCheckpoint", "AuditResult", "CheckpointId", "ContentBlock",
        "ConversationMessage", "ConversationTurn", "ErrorEnvelope", "ExchangeEvent",
        "FanOut", "FishbowlEvent", "Graph", "KahnEvent", "NodeAttempt", "NodeStatus",
        "NodeTransition", "OrchestratorDecision", "Outcome", "RunEnd", "RunEventType",
        "RunStart", "ToolInvocation", "aggregate_24h", "check_manifest", "importance",
    ),
}  # fmt: skip
"""The public names, by the module that each is imported from."""
_MODULES = {name: module for module, names in _API.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module  # noqa: PLC0415  # whoever wants no name needs it not

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'tracklog' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
