"""The shapes of a workflow file: inputs, agents, the kinds of steps."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)

from tracklog import TracklogError

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]
Seconds = Annotated[float, Field(gt=0)]
Words = Annotated[list[str], Field(min_length=1)]


class StrictFlow(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Input(StrictFlow):
    """One input of a workflow."""

    about: str = ""
    default: Any = None
    required: bool = False


class Agent(StrictFlow):
    """An agent: the command line of a provider, any program, or a model server."""

    endpoint: str | None = None
    """`https://HOST/v1#MODEL`: the model is asked over HTTP, and the router calls its tools."""
    key: str = "OPENAI_API_KEY"
    """The environment variable that holds the server's key."""
    tools: list[str] = []
    """The tools of the workflow that it may call."""
    options: dict[str, Any] = {}
    """More parameters of the request, such as `temperature`."""
    provider: str | None = None
    command: Words | None = None
    again: Words | None = None
    """Arguments that are added from the second prompt on; `{{session}}` is the provider's id of the
    conversation."""
    stdin: str | None = None
    system: str | None = None
    timeout: Seconds | None = None
    env: dict[str, str] = {}


class StepCommon(StrictFlow):
    name: Name
    when: str | None = None
    timeout: Seconds | None = None
    retry: Annotated[int, Field(ge=0, le=100)] = 0
    """How many times it is tried again after a failure."""
    on_error: Literal["fail", "continue"] = "fail"


class AgentStep(StepCommon):
    kind: Literal["agent"]
    agent: str | Agent
    prompt: str | Words
    """One prompt, or the prompts of a conversation."""
    system: str | None = None
    cwd: str | None = None


class CommandStep(StepCommon):
    kind: Literal["command"]
    run: str | Words
    """A line for the shell, or a program and its arguments."""
    stdin: str | None = None
    cwd: str | None = None
    env: dict[str, str] = {}


class OperationStep(StepCommon):
    kind: Literal["operation"]
    tool: str
    input: dict[str, Any] = {}


class TerminalStep(StepCommon):
    kind: Literal["terminal"]
    status: Literal["success", "failure"] = "success"
    message: str = ""


class ParallelStep(StepCommon):
    kind: Literal["parallel"]
    branches: "Annotated[dict[Name, Steps], Field(min_length=1)]"
    most: Annotated[int, Field(ge=1)] | None = None
    """How many branches run at the same time."""


class ForEachStep(StepCommon):
    kind: Literal["for_each"]
    items: str | list[Any]
    steps: "Steps"
    most: Annotated[int, Field(ge=1)] = 1
    """How many items are processed at the same time."""


class WhileStep(StepCommon):
    kind: Literal["while"]
    condition: str
    steps: "Steps"
    limit: Annotated[int, Field(ge=1)] = 100
    """The step fails after this many rounds."""


class CallWorkflowStep(StepCommon):
    kind: Literal["call_workflow"]
    workflow: str
    inputs: dict[str, Any] = {}


class PluginStep(StepCommon):
    """A step whose kind is defined by a plug-in."""

    kind: Name
    input: dict[str, Any] = {}


KINDS: dict[str, type[StepCommon]] = {
    "agent": AgentStep,
    "command": CommandStep,
    "operation": OperationStep,
    "terminal": TerminalStep,
    "parallel": ParallelStep,
    "for_each": ForEachStep,
    "while": WhileStep,
    "call_workflow": CallWorkflowStep,
}


def _tag(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return kind if kind in KINDS else "plugin"


Step = Annotated[
    Annotated[AgentStep, Tag("agent")]
    | Annotated[CommandStep, Tag("command")]
    | Annotated[OperationStep, Tag("operation")]
    | Annotated[TerminalStep, Tag("terminal")]
    | Annotated[ParallelStep, Tag("parallel")]
    | Annotated[ForEachStep, Tag("for_each")]
    | Annotated[WhileStep, Tag("while")]
    | Annotated[CallWorkflowStep, Tag("call_workflow")]
    | Annotated[PluginStep, Tag("plugin")],
    Discriminator(_tag),
]
Steps = Annotated[list[Step], Field(min_length=1)]
for _shape in (ParallelStep, ForEachStep, WhileStep):
    _shape.model_rebuild()


class Flow(StrictFlow):
    """One workflow."""

    name: Name
    about: str = ""
    inputs: dict[Name, Input] = {}
    agents: dict[Name, Agent] = {}
    tools: dict[str, str] = {}
    """Tools that the workflow defines: `file.py:function`, from its own folder."""
    plugins: dict[Name, str] = {}
    """Kinds of steps that the workflow defines, in the same way."""
    steps: Steps
    result: Any = None


class Loaded(NamedTuple):
    """A workflow, with its file."""

    flow: Flow
    path: Path
    sha256: str


def given(flow: Flow, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a run, with the defaults of those that are not given; raises TracklogError."""
    unknown = [name for name in inputs if name not in flow.inputs]
    missing = [name for name, each in flow.inputs.items() if each.required and name not in inputs]
    if unknown or missing:
        rows = [f"{flow.name} has no input {name!r}" for name in unknown]
        rows += [f"the input {name!r} is missing" for name in missing]
        known = ", ".join(flow.inputs) or "none"
        raise TracklogError("; ".join(rows), f"the inputs of {flow.name} are: {known}")
    return {name: each.default for name, each in flow.inputs.items()} | dict(inputs)
