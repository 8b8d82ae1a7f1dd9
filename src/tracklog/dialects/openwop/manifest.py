"""The manifest with which a pack declares an agent, and the check of one."""

from typing import Annotated, Any, ClassVar

from pydantic import MISSING, AfterValidator, ConfigDict, Field, model_validator

from tracklog.dialects import Share
from tracklog.dialects.openwop.catalog import MANIFEST_ID
from tracklog.dialects.openwop.shapes import Closed, Flag, ModelClass, Name, Object, distinct
from tracklog.dialects.openwop.state import finding
from tracklog.model.event import Body, Finding


class MemoryShape(Closed):
    """Which memories an agent has."""

    scratchpad: Flag = MISSING
    conversation: Flag = MISSING
    long_term: Flag = MISSING


class ManifestConfidence(Closed):
    """When an agent counts as sure."""

    default_threshold: Share | MISSING = MISSING
    """Overrides 0.7; the run's own escalationThreshold overrides both."""


class ManifestHandoff(Closed):
    """The input and output of an agent."""

    task_schema_ref: Name | MISSING = MISSING
    return_schema_ref: Name | MISSING = MISSING


class AgentManifest(Closed):
    """An agent as a pack declares it."""

    agent_id: Annotated[
        str,
        Field(
            pattern=MANIFEST_ID,
            min_length=3,
            max_length=256,
            description="core.name, or tier.org.pack.agent with tier vendor, community, private "
            "or local; an id with host: is the host's own and has no manifest.",
        ),
    ]
    persona: Annotated[str, Field(min_length=1, max_length=200)]
    model_class: ModelClass
    system_prompt: Name | MISSING = MISSING
    """Either this or systemPromptRef, not both."""
    system_prompt_ref: Name | MISSING = MISSING
    tool_allowlist: list[Name] | MISSING = MISSING
    """The only tools that the agent may use."""
    requires_capabilities: (
        Annotated[
            list[Name],
            Field(json_schema_extra={"uniqueItems": True}),
            AfterValidator(distinct),
        ]
        | MISSING
    ) = MISSING
    memory_shape: MemoryShape | MISSING = MISSING
    confidence: ManifestConfidence | MISSING = MISSING
    handoff: ManifestHandoff | MISSING = MISSING
    label: Annotated[str, Field(min_length=1, max_length=100)] | MISSING = MISSING
    description: Annotated[str, Field(max_length=500)] | MISSING = MISSING
    eval_suite_ref: Name | MISSING = MISSING
    prompt_library_ref: Name | MISSING = MISSING
    prompt_overrides: Object = MISSING

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["systemPrompt"]}, {"required": ["systemPromptRef"]}]
        }
    )

    @model_validator(mode="before")
    @classmethod
    def _has_one_prompt(cls, body: Any) -> Any:
        if isinstance(body, dict) and ("systemPrompt" in body) == ("systemPromptRef" in body):
            raise ValueError("exactly one of systemPrompt and systemPromptRef is needed")
        return body


def check_manifest(manifest: Body) -> list[Finding]:
    """The findings about a manifest that its shape cannot express (WOP-9)."""
    agent = manifest.get("agentId")
    if isinstance(agent, str) and agent.startswith("host:"):
        message = f"{agent}: host: is for agents that a host makes without a manifest"
        return [finding("host-id-in-manifest", message)]
    return []
