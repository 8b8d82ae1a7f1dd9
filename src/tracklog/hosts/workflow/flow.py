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


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Input(Strict):
    """What a flow is given."""

    about: str = ""
    default: Any = None
    required: bool = False


class Agent(Strict):
    """Somebody who can be asked: a provider's command line, any program, or a model server."""

    endpoint: str | None = None
    """`https://HOST/v1#MODEL`: the model is asked over HTTP, and the router calls its tools."""
    key: str = "OPENAI_API_KEY"
    """The environment variable that holds the server's key."""
    tools: list[str] = []
    """Which tools of the flow it may call."""
    options: dict[str, Any] = {}
    """What else the server is told, such as `temperature`."""
    provider: str | None = None
    command: Words | None = None
    again: Words | None = None
    """What is added from the second prompt on; `{{session}}` is the provider's name of the talk."""
    stdin: str | None = None
    system: str | None = None
    timeout: Seconds | None = None
    env: dict[str, str] = {}


class StepCommon(Strict):
    name: Name
    when: str | None = None
    timeout: Seconds | None = None
    retry: Annotated[int, Field(ge=0, le=100)] = 0
    """How often it is tried again when it failed."""
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
    """Branches at a time."""


class ForEachStep(StepCommon):
    kind: Literal["for_each"]
    items: str | list[Any]
    steps: "Steps"
    most: Annotated[int, Field(ge=1)] = 1
    """Items at a time."""


class WhileStep(StepCommon):
    kind: Literal["while"]
    condition: str
    steps: "Steps"
    limit: Annotated[int, Field(ge=1)] = 100
    """Rounds after which it has failed."""


class CallWorkflowStep(StepCommon):
    kind: Literal["call_workflow"]
    workflow: str
    inputs: dict[str, Any] = {}


class PluginStep(StepCommon):
    """A step of a kind that a plug-in brings."""

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


class Flow(Strict):
    """One workflow."""

    name: Name
    about: str = ""
    inputs: dict[Name, Input] = {}
    agents: dict[Name, Agent] = {}
    tools: dict[str, str] = {}
    """Tools that the flow brings: `file.py:function`, from its own folder."""
    plugins: dict[Name, str] = {}
    """Kinds of steps that the flow brings, in the same way."""
    steps: Steps
    result: Any = None


class Loaded(NamedTuple):
    """A flow with where it came from."""

    flow: Flow
    path: Path
    sha256: str


def given(flow: Flow, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What a run of the flow is given, its defaults included; TracklogError if that is wrong."""
    unknown = [name for name in inputs if name not in flow.inputs]
    missing = [name for name, each in flow.inputs.items() if each.required and name not in inputs]
    if unknown or missing:
        rows = [f"{name!r} is no input of {flow.name}" for name in unknown]
        rows += [f"{name!r} is not given" for name in missing]
        known = ", ".join(flow.inputs) or "none"
        raise TracklogError("; ".join(rows), f"the inputs of {flow.name} are: {known}")
    return {name: each.default for name, each in flow.inputs.items()} | dict(inputs)
