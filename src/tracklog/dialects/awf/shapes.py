"""The envelope, the ten types, the three payload classes and the six blocks."""

from typing import Annotated, Any, Literal

from pydantic import MISSING, AfterValidator, Field

from tracklog.dialects import Count, Shape, on_the_calendar
from tracklog.model.fact import BLOCK_KEYS

BLOCK_TYPES = tuple(BLOCK_KEYS)

Seq = Annotated[int, Field(ge=1, description="Counted from 1, one series per run.")]
RunId = Annotated[
    str, Field(description="A UUID v4 in lower case; another id is read with a finding.")
]
Timestamp = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$",
        json_schema_extra={"format": "date-time"},
        description="UTC, RFC 3339 with Z: 2026-05-05T09:00:00.123456Z.",
    ),
    AfterValidator(on_the_calendar),
]
Mark = Annotated[
    Literal["router", "agent_emitted"],
    Field(description="router: seen by the tool router; agent_emitted: the agent's own report."),
]


def _foreign(name: str) -> str:
    if name in BLOCK_TYPES:
        raise ValueError(f"{name} is a known block type and has its own shape")
    return name


class TextBlock(Shape):
    """Plain text."""

    type: Literal["text"]
    fidelity: Mark
    text: str


class ThinkingBlock(Shape):
    """Reasoning."""

    type: Literal["thinking"]
    fidelity: Mark
    thinking: str


class OpaqueBlock(Shape):
    """Reasoning that only its provider can read."""

    type: Literal["thinking"]
    fidelity: Mark
    opaque: Any


class ToolUseBlock(Shape):
    """A tool invocation."""

    type: Literal["tool_use"]
    fidelity: Mark
    tool_name: str
    tool_id: str
    tool_input: Any
    """Any JSON; null if unknown."""


class ToolResultBlock(Shape):
    """The output of a tool."""

    type: Literal["tool_result"]
    fidelity: Mark
    tool_id: str
    tool_content: Any


class CommandBlock(Shape):
    """A shell command that a step ran."""

    type: Literal["command"]
    fidelity: Mark
    command: str


class StreamBlock(Shape):
    """A raw chunk of a provider's stream."""

    type: Literal["stream"]
    fidelity: Mark
    chunk: str


class OtherBlock(Shape):
    """A block of an unknown type; stored as it is."""

    type: Annotated[
        str,
        Field(json_schema_extra={"not": {"enum": list(BLOCK_TYPES)}}),
        AfterValidator(_foreign),
    ]


AnyBlock = (
    TextBlock
    | ThinkingBlock
    | OpaqueBlock
    | ToolUseBlock
    | ToolResultBlock
    | CommandBlock
    | StreamBlock
    | OtherBlock
)


class Step(Shape):
    """The payload of run.* and step.*."""

    name: str
    """The step's name; the workflow's on run.*."""
    kind: str
    """agent, command, operation, terminal, for_each, while, parallel, call_workflow, workflow,
    or a custom type's name."""
    error: str | MISSING = MISSING
    """Why it failed; omitted when empty."""
    result: Any | MISSING = MISSING
    blocks: list[AnyBlock] | MISSING = MISSING
    """The command of a command step."""


class Message(Shape):
    """The payload of message.*."""

    role: Literal["user", "assistant"]
    blocks: list[AnyBlock]
    """Ordered; empty when there is no content."""


class Tool(Shape):
    """The payload of tool.*."""

    name: str
    call_id: str
    """Equal in a call and its result."""
    input: Any
    """The arguments, null if none; repeated on the result."""
    output: Any
    """The return value; null on a call and on a failure."""
    error: str | MISSING = MISSING
    """A hard failure; omitted when empty."""
    fidelity: Mark
    blocks: list[AnyBlock]
    """The same call or result once more, as a block."""


class AwfEnvelope(Shape):
    """The envelope."""

    seq: Seq
    run_id: RunId
    parent_run_id: RunId | MISSING = MISSING
    """The invoking run, on every event of a child run."""
    child_run_id: RunId | MISSING = MISSING
    """The invoked run, on step.call_workflow.* only."""
    type: Annotated[str, Field(min_length=1)]
    path: str
    """Step names from the run's root joined by dots; empty on run events."""
    iteration: Count
    """The innermost loop's index, from 0; 0 outside loops."""
    timestamp: Timestamp
    payload: Any | MISSING = MISSING
    """Its class is fixed by the type."""


class RunStarted(AwfEnvelope):
    """A run began, or was resumed."""

    type: Literal["run.started"]
    payload: Step


class RunCompleted(AwfEnvelope):
    """A run ended, with or without an error."""

    type: Literal["run.completed"]
    payload: Step


class StepStarted(AwfEnvelope):
    """A step began."""

    type: Literal["step.started"]
    payload: Step


class StepCompleted(AwfEnvelope):
    """A step ended, with or without an error."""

    type: Literal["step.completed"]
    payload: Step


class CallWorkflowStarted(AwfEnvelope):
    """The parent invoked a sub-workflow."""

    type: Literal["step.call_workflow.started"]
    child_run_id: RunId
    payload: Step


class CallWorkflowCompleted(AwfEnvelope):
    """The parent saw the child end."""

    type: Literal["step.call_workflow.completed"]
    child_run_id: RunId
    payload: Step


class UserMessage(AwfEnvelope):
    """The resolved prompt, then the composed system prompt when there is one."""

    type: Literal["message.user"]
    payload: Message


class AssistantMessage(AwfEnvelope):
    """The agent's reply, as blocks."""

    type: Literal["message.assistant"]
    payload: Message


class ToolCall(AwfEnvelope):
    """A tool invocation began."""

    type: Literal["tool.call"]
    payload: Tool


class ToolResult(AwfEnvelope):
    """A tool invocation ended."""

    type: Literal["tool.result"]
    payload: Tool


KINDS: dict[str, type[Shape]] = {
    "run.started": RunStarted,
    "run.completed": RunCompleted,
    "step.started": StepStarted,
    "step.completed": StepCompleted,
    "step.call_workflow.started": CallWorkflowStarted,
    "step.call_workflow.completed": CallWorkflowCompleted,
    "message.user": UserMessage,
    "message.assistant": AssistantMessage,
    "tool.call": ToolCall,
    "tool.result": ToolResult,
}
