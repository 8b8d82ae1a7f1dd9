"""Read and check workflow files: all faults are reported together, each with its place."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import TypeAdapter, ValidationError

from tracklog import TracklogError, provider
from tracklog.hosts._endpoint import is_endpoint
from tracklog.hosts._yaml_text import NotYaml, read_yaml
from tracklog.hosts.workflow import values
from tracklog.hosts.workflow.flow import (
    KINDS,
    Agent,
    AgentStep,
    CallWorkflowStep,
    Flow,
    ForEachStep,
    Loaded,
    OperationStep,
    ParallelStep,
    PluginStep,
    WhileStep,
)

Loc = tuple[str | int, ...]
ROOTS = ("inputs", "steps", "item", "index", "run")
ANSWER = "answer"
"""The last answer of an agent; all prompts of a conversation but the first may refer to it."""
ASKED = ("prompt", "system", "session")
"""Values that only the command of an agent may refer to."""


class WorkflowFault(NamedTuple):
    """One thing that is wrong with a workflow."""

    place: str
    """File, line and column."""
    at: str
    """Which part of the file it is."""
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.at + ': ' if self.at else ''}{self.message}"


class BadFlow(TracklogError):
    """A workflow cannot be run; the error has every fault that was found, with its place."""

    def __init__(self, faults: Iterable[WorkflowFault]) -> None:
        self.faults = list(faults)
        count = len(self.faults)
        text = "\n".join(f"  {fault}" for fault in self.faults)
        super().__init__(
            f"the workflow has {'one fault' if count == 1 else f'{count} faults'}:\n{text}",
            "correct these faults; examples/workflow in the repository has workflows that work",
        )


def load(path: Path, tools: Iterable[str] = (), kinds: Iterable[str] = ()) -> Loaded:
    """The workflow of a file, checked together with the workflows that it calls; raises `BadFlow`.

    `tools` and `kinds` are those that it may use without defining them.
    """
    check = _FlowCheck(set(tools), set(kinds))
    loaded = check.file(path.resolve())
    if check.faults or loaded is None:
        raise BadFlow(dict.fromkeys(check.faults))
    return loaded


def beside(path: Path, name: str) -> Path | None:
    """The file of a workflow that is called by name; None if no file can have this name."""
    try:
        return (path.parent / name).resolve()
    except ValueError:  # a NUL, or half a character
        return None


class _FlowCheck:
    def __init__(self, tools: set[str], kinds: set[str]) -> None:
        self.faults: list[WorkflowFault] = []
        self._tools, self._kinds = tools, kinds
        self._seen: set[Path] = set()

    def file(self, path: Path) -> Loaded | None:
        self._seen.add(path)
        try:
            source = path.read_bytes()
        except OSError as error:
            self.faults.append(WorkflowFault(str(path), "", f"cannot be read: {error.strerror}"))
            return None
        try:
            node, value = read_yaml(source)
        except NotYaml as error:
            self.faults.append(WorkflowFault(f"{path}{error.place}", "", error.problem))
            return None
        before = len(self.faults)
        file = _FlowFile(path, node, self)
        file.check_keys(node, ())
        try:
            flow = TypeAdapter(Flow).validate_python(value)
        except ValidationError as error:
            known = self._kinds | _keys(value, "plugins")
            for each in error.errors():
                file.fault(*_misspelt(value, each["loc"], known) or (each["loc"], _words(each)))
            return None
        file.check(flow, self._tools, self._kinds)
        return (
            Loaded(flow, path, sha256(source).hexdigest()) if len(self.faults) == before else None
        )

    def child(self, path: Path) -> None:
        """Check a called workflow, if it was not checked before."""
        if path not in self._seen:
            self.file(path)


def _keys(value: Any, key: str) -> set[str]:
    inside = value.get(key) if isinstance(value, dict) else None
    return set(map(str, inside)) if isinstance(inside, dict) else set()


def _misspelt(value: Any, loc: Loc, kinds: set[str]) -> tuple[Loc, str] | None:
    """The fault of a step whose kind does not exist; its other keys cannot be checked."""
    for number, part in enumerate(loc):
        if part == "plugin" and isinstance(value, dict) and "plugin" not in value:
            kind = value.get("kind")
            if isinstance(kind, str) and kind not in kinds:
                return (*loc[:number], "kind"), _no_kind(kind, kinds)
            return None
        found = isinstance(value, list) or (isinstance(value, dict) and part in value)
        value = value[part] if found else value
    return None


def _no_kind(kind: str, kinds: set[str]) -> str:
    known = [*KINDS, *sorted(kinds)]
    if near := get_close_matches(kind, known, n=1):
        return f"there is no kind {kind!r}; did you mean {near[0]}?"
    return f"there is no kind {kind!r}; the kinds are: {', '.join(known)}"


def _words(error: Any) -> str:
    match error["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is an unknown key"
        case "model_type" | "dataclass_type" if error["input"] is None:
            return "is empty"
        case _:
            shown = str(error["input"])
            shown = shown if len(shown) < 60 else f"{shown[:57]}…"
            return f"{error['msg'][0].lower()}{error['msg'][1:]}, not {shown}"


class _FlowFile:
    """One file that is checked, with the place of each part in its text."""

    def __init__(self, path: Path, node: Any, check: _FlowCheck) -> None:
        self._path, self._node, self._check = path, node, check

    def fault(self, loc: Loc, message: str) -> None:
        """Add a fault, at the nearest place in the text of the file."""
        node, shown = self._node, ""
        mark = node.start_mark if node is not None else None
        for part in loc:
            inner = _inside(node, part)
            if inner is None:
                if part in KINDS or part == "plugin":
                    continue  # the branch of a union, which is no place in the text
                shown += f".{part}" if shown else str(part)
                continue
            key, node = inner
            mark = (key or node).start_mark
            shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else str(part)
        place = f"{self._path}:{mark.line + 1}:{mark.column + 1}" if mark else str(self._path)
        self._check.faults.append(WorkflowFault(place, shown, message))

    def check_keys(self, node: Any, loc: Loc) -> None:
        """Find keys that occur twice: YAML would take the last one without a warning."""
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if key.value in seen:
                    self.fault((*loc, key.value), "the key occurs twice")
                seen.add(key.value)
                self.check_keys(value, (*loc, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self.check_keys(value, (*loc, index))

    def check(self, flow: Flow, tools: set[str], kinds: set[str]) -> None:
        """Check what no schema can: unknown names and references."""
        self._flow = flow
        self._tools, self._kinds = tools | flow.tools.keys(), kinds | flow.plugins.keys()
        for group in ("tools", "plugins"):
            for name, where in getattr(flow, group).items():
                self._bring(where, (group, name))
        for name, agent in flow.agents.items():
            self._agent(agent, ("agents", name))
        seen = self._steps(flow.steps, ("steps",), frozenset(), loop=False)
        self._refer(flow.result, ("result",), seen, loop=False)

    def _bring(self, where: str, loc: Loc) -> None:
        file, colon, function = where.rpartition(":")
        if not colon or not file or not function.isidentifier():
            self.fault(loc, f"{where!r} is not of the form file.py:function")
        elif not (self._path.parent / file).is_file():
            self.fault(loc, f"there is no file {file} beside the workflow")

    def _agent(self, agent: Agent, loc: Loc) -> None:
        known = provider(agent.provider) if agent.provider else None
        if agent.provider and known is None:
            self.fault((*loc, "provider"), f"{agent.provider!r} is not a known provider")
        if agent.endpoint is not None:
            self._served(agent, loc)
        elif agent.command is None and not (known and known.template):
            self.fault(loc, "needs a command, a provider with a command, or an endpoint")
        elif agent.tools or agent.options:
            self.fault(loc, "only an agent with an endpoint may have tools and options")
        for key in ("command", "again", "stdin"):
            for place in values.references(getattr(agent, key)):
                if place not in ASKED and place.split(".")[0] not in ("inputs", "run"):
                    self.fault((*loc, key), f"{{{{{place}}}}}: an agent has {', '.join(ASKED)}")

    def _served(self, agent: Agent, loc: Loc) -> None:
        if not is_endpoint(agent.endpoint or ""):
            self.fault((*loc, "endpoint"), f"{agent.endpoint!r} is not https://HOST/v1#MODEL")
        for key in ("provider", "command", "again", "stdin"):
            if getattr(agent, key) is not None:
                self.fault((*loc, key), "an agent with an endpoint cannot have it")
        for number, tool in enumerate(agent.tools):
            self._tool(tool, (*loc, "tools", number))

    def _tool(self, name: str, loc: Loc) -> None:
        if name not in self._tools:
            known = ", ".join(sorted(self._tools))
            self.fault(loc, f"there is no tool {name!r}; the tools are: {known}")

    def _steps(
        self, steps: Sequence[Any], loc: Loc, outer: frozenset[str], *, loop: bool
    ) -> frozenset[str]:
        """The names that later steps can refer to."""
        seen = outer
        for index, step in enumerate(steps):
            here = (*loc, index)
            if step.name in seen:
                self.fault((*here, "name"), f"an earlier step has the name {step.name!r}, too")
            self._step(step, here, seen, loop=loop)
            seen |= {step.name}
        return seen

    def _step(self, step: Any, loc: Loc, seen: frozenset[str], *, loop: bool) -> None:
        own = step.model_dump(
            exclude={"steps", "branches", "condition", "agent"}, exclude_unset=True
        )
        for key, value in own.items():
            if isinstance(step, AgentStep) and key == "prompt" and isinstance(value, list):
                self._refer(value[0], (*loc, key, 0), seen, loop=loop)
                value = [values.without(each, ANSWER) for each in value[1:]]  # noqa: PLW2901  # what is left to look at
            self._refer(value, (*loc, key), seen, loop=loop)
        match step:
            case AgentStep(agent=str() as name):
                if name not in self._flow.agents:
                    known = ", ".join(sorted(self._flow.agents)) or "none"
                    self.fault(
                        (*loc, "agent"), f"there is no agent {name!r}; the agents are: {known}"
                    )
            case AgentStep(agent=Agent() as agent):
                self._agent(agent, (*loc, "agent"))
            case OperationStep():
                self._tool(step.tool, (*loc, "tool"))
            case ParallelStep():
                for branch, steps in step.branches.items():
                    self._steps(steps, (*loc, "branches", branch), seen, loop=loop)
            case ForEachStep():
                self._steps(step.steps, (*loc, "steps"), seen, loop=True)
            case WhileStep():
                inner = self._steps(step.steps, (*loc, "steps"), seen, loop=True)
                self._refer(step.condition, (*loc, "condition"), inner, loop=True)
            case CallWorkflowStep():
                if not any(values.references(step.workflow)):
                    self._call(step.workflow, (*loc, "workflow"))
            case PluginStep():
                if step.kind not in self._kinds:
                    self.fault((*loc, "kind"), _no_kind(step.kind, self._kinds))

    def _call(self, workflow: str, loc: Loc) -> None:
        path = beside(self._path, workflow)
        if path is not None and path.is_file():
            self._check.child(path)
        else:
            self.fault(loc, f"there is no workflow {workflow}")

    def _refer(self, value: Any, loc: Loc, seen: frozenset[str], *, loop: bool) -> None:
        for place in values.references(value):
            if message := self._missing(place, seen, loop=loop):
                self.fault(loc, f"{{{{{place}}}}}: {message}")

    def _missing(self, place: str, seen: frozenset[str], *, loop: bool) -> str | None:
        if not values.PLACE.fullmatch(place):
            return "is not the name of a value"
        root, _, rest = place.partition(".")
        name = rest.partition(".")[0]
        if root not in ROOTS:
            return f"values begin with {', '.join(ROOTS)}"
        if root in ("item", "index") and not loop:
            return "it exists only in the steps of a loop"
        if root == "inputs" and name not in self._flow.inputs:
            return f"there is no input {name!r}"
        if root == "steps" and name not in seen:
            return f"there is no earlier step {name!r}"
        return None


def _inside(node: Any, part: str | int) -> tuple[Any, Any] | None:
    """The key and the value of a part of a node, or None."""
    if isinstance(node, yaml.MappingNode):
        pairs: Iterator[tuple[Any, Any]] = ((key, value) for key, value in node.value)
        return next((pair for pair in pairs if pair[0].value == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return None, node.value[part]
    return None
