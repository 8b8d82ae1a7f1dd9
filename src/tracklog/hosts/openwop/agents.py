"""The agents of a host: from manifests, from workflows, and its own."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from tracklog import (
    AGENT_SHARING,
    PUBLISHED_ONLY_CLASSES,
    RFC_ONLY_CLASSES,
    AgentManifest,
    check_manifest,
)
from tracklog.hosts.openwop.settings import DEFAULT_ROLE, SYSTEM, Settings
from tracklog.hosts.openwop.tools import full_id

Ref = dict[str, Any]

CLASSES = RFC_ONLY_CLASSES | {"reasoning", "classification"}
DEFAULT_THRESHOLD = 0.7
_TEXTS = {"name": 256, "memoryRef": 256, "version": 64, "sourceManifestId": 256}


NOT_DONE = (
    "systemPromptRef",
    "requiresCapabilities",
    "handoff",
    "promptLibraryRef",
    "promptOverrides",
)
"""Members of a manifest that this host does not carry out."""
MEMORY = "conversation"
"""The only memory that agents have here."""


class BadAgent(ValueError):
    """An agent that this host refuses, and the reason."""


class Agents:
    """Resolves an agentId; ids are unique within the host (WOP-7)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._manifests: dict[str, dict[str, Any]] = {}
        self._refused: set[str] = set()

    def declare(self, manifest: Any) -> str:
        """Register the manifest of a pack; a second one for the same agent is refused."""
        if not isinstance(manifest, dict):
            raise BadAgent("a manifest is a JSON object")
        try:
            return self._declare(manifest)
        except BadAgent:
            self._refused.add(str(manifest.get("agentId")))
            raise

    def is_refused(self, agent: str) -> bool:
        """Whether an agent has only a manifest that was refused: its limits are not known."""
        return agent in self._refused and agent not in self._manifests

    def is_known(self, agent: str) -> bool:
        """Whether an agent has limits here: those of a manifest, or a role that the operator gave it."""
        return agent in self._manifests or agent in self._settings.agent_roles

    def _declare(self, manifest: dict[str, Any]) -> str:
        faults = [found.message for found in check_manifest(manifest)]  # WOP-10
        try:
            AgentManifest.model_validate(manifest)
        except ValidationError as error:
            for each in error.errors():
                where = "/".join(map(str, each["loc"])) or "the manifest"
                faults.append(f"{where}: {each['msg']}")
        faults += [f"{each}: it is not carried out here" for each in NOT_DONE if manifest.get(each)]
        shape = manifest.get("memoryShape")
        for kind, is_needed in shape.items() if isinstance(shape, dict) else ():
            if is_needed and kind != MEMORY:
                faults.append(f"memoryShape: agents have no {kind} memory here")
        if faults:
            raise BadAgent("; ".join(dict.fromkeys(faults)))
        name: str = manifest["agentId"]
        if name == SYSTEM:
            raise BadAgent(f"{SYSTEM} is reserved for what no agent does")
        if name in self._manifests:
            raise BadAgent(f"there is an agent {name} already")
        self._manifests[name] = manifest
        return name

    def names(self) -> list[str]:
        return sorted(self._manifests)

    def threshold(self, agent: str, configurable: Mapping[str, Any]) -> float:
        """The confidence below which a decision of an agent is not carried out (WOP-21 to WOP-23)."""
        given = configurable.get("escalationThreshold")
        if given is not None:
            return float(given)
        declared = self._manifests.get(agent, {}).get("confidence", {}).get("defaultThreshold")
        return DEFAULT_THRESHOLD if declared is None else float(declared)

    def filter_tools(self, harness_role: str, tools: Iterable[str]) -> list[str]:
        """The tools that a harness role allows (WOP-18); a role without a list allows all."""
        allowed = self._settings.roles.get(harness_role)
        return [tool for tool in tools if allowed is None or _names(tool, allowed)]

    def allowed(self, agent: str, tools: Iterable[str], *, is_pinned: bool) -> list[str]:
        """The tools that an agent may use: those of its role, narrowed by its manifest (WOP-17).

        An agent that a workflow names, and that nobody has declared here, has none.
        """
        if is_pinned and not self.is_known(agent):
            return []
        role = self._settings.agent_roles.get(agent, DEFAULT_ROLE)
        listed = self._manifests.get(agent, {}).get("toolAllowlist")
        allowed = self.filter_tools(role, tools)
        return [tool for tool in allowed if listed is None or _names(tool, listed)]

    def prompt(self, agent: str) -> str | None:
        prompt: str | None = self._manifests.get(agent, {}).get("systemPrompt")
        return prompt


def _names(tool: str, listed: Iterable[str]) -> bool:
    """Whether a tool is in a list; a tool of the protocol may be listed by its bare name."""
    return any(full_id(each) == full_id(tool) for each in listed)


def ref_of(pin: Any) -> Ref:
    """A pinned agent as events name it: without a model class that only the published schema has."""
    if not isinstance(pin, dict):
        raise BadAgent("an agent is an object")
    name = pin.get("agentId")
    if not isinstance(name, str) or not 3 <= len(name) <= 256:
        raise BadAgent("agentId must be a text of 3 to 256 characters")
    if name == SYSTEM:
        raise BadAgent(f"{SYSTEM} is reserved for what no agent does")
    if name.startswith("host:") and "sourceManifestId" in pin:
        raise BadAgent("an agent of the host's own has no manifest")  # WOP-9
    if "channel" in pin:
        raise BadAgent("this host has no deployments, and so no channels to pin")
    for key, longest in _TEXTS.items():
        if key in pin and not (isinstance(pin[key], str) and len(pin[key]) <= longest):
            raise BadAgent(f"{key} must be a text of at most {longest} characters")
    sharing = pin.get("agentSharing", "isolated")
    if not isinstance(sharing, str) or not re.fullmatch(AGENT_SHARING.strip("^$"), sharing):
        raise BadAgent("agentSharing is isolated, shared, or shared:<groupId>")
    word = pin.get("modelClass", "general")
    if not isinstance(word, str) or word not in CLASSES | PUBLISHED_ONLY_CLASSES:
        raise BadAgent(f"there is no model class {word!r}")
    if word in PUBLISHED_ONLY_CLASSES:
        return {key: value for key, value in pin.items() if key != "modelClass"}
    return dict(pin)


def narrow(ref: Ref) -> Ref:
    """An agent without the members that the closed, published schema does not have."""
    return {
        key: value
        for key, value in ref.items()
        if key not in ("agentSharing", "memoryRef")
        and not (key == "modelClass" and value in RFC_ONLY_CLASSES)
    }


def context_key(ref: Ref, node: str, execution: int) -> tuple[str, ...]:
    """The key of the memory that an agent uses in a run (WOP-13 to WOP-15)."""
    sharing = ref.get("agentSharing", "isolated")
    if sharing == "isolated":
        return ("isolated", node, str(execution))
    return ("shared", ref["agentId"], sharing.partition(":")[2])


def group_of(ref: Ref) -> str | None:
    """The group that an agent's messages must name (WOP-16)."""
    group: str = ref.get("agentSharing", "").partition(":")[2]
    return group or None
