"""What an event means in any dialect: eleven verbs and a shrug.

Facts are read from events and never stored.
Field names are those of the native dialect's lines, so a fact and its line are one thing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Phase = Literal["working", "waiting", "done", "failed"]
What = Literal["run", "agent", "step"]
Fidelity = Literal["observed", "reported", "reconstructed", "inferred"]
Role = Literal["user", "assistant", "system", "world", "thought", "belief", "note"]
LinkKind = Literal["sub-run", "fork", "resume", "branch", "related", "handoff", "message", "alias"]

Block = Mapping[str, Any]
"""A content block: `type` is one of BLOCK_KEYS or foreign, the rest as that type has it."""

BLOCK_KEYS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "thinking": ("thinking",),
    "tool_use": ("tool_name", "tool_id", "tool_input"),
    "tool_result": ("tool_id", "tool_content"),
    "command": ("command",),
    "stream": ("chunk",),
}
"""The block types that writers use, each with its own keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What all facts have in common."""

    agent: str | None = None
    step: str | None = None
    """The turn, step or node it happened in."""
    fidelity: Fidelity = "observed"
    """How we know: seen by the recorder, told by the agent, rebuilt from a file, or guessed."""
    copied: bool = False
    """Another run's history told again: shown, never counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Began(Fact):
    """A run, an agent or a step began."""

    what: What
    task: str | None = None
    model: str | None = None
    software: Mapping[str, Any] | None = None
    host: str | None = None
    cwd: str | None = None
    git: Mapping[str, Any] | None = None
    counts: Mapping[str, int] | None = None
    """What its source says there will be, under the source's own names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Fact):
    """A run, an agent or a step ended; its outcome is verbatim."""

    what: What
    outcome: str | None = None
    passed: bool | None = None
    score: float | None = None
    reason: str | None = None
    error: Any = None
    exit_code: int | None = None
    seconds: float | None = None
    winner: str | None = None
    winner_kind: str | None = None
    winning_model: str | None = None
    winning_models: tuple[str, ...] | None = None
    attempt: int | None = None
    """The number of this try at a step, counted from 1; `step` is then the step's name, # and it."""
    part: str | None = None
    """What of the step was tried, where its parts are tried one by one."""
    counts: Mapping[str, int] | None = None
    """What its source counted, under the source's own names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(Fact):
    """An agent or a step went from one status to another, both verbatim."""

    from_: str | None
    to: str
    phase: Phase
    """What the new status means to someone who knows no dialect."""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Called(Fact):
    """A tool was called."""

    tool: str
    call_id: str
    input: Any = None
    provider_call_id: str | None = None
    parent_call_id: str | None = None
    """The call whose sub-agent made this one."""
    tool_server: str | None = None
    by_provider: bool = False
    synthetic_id: bool = False
    """The source gave no id: `call_id` means something within its own record only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(Fact):
    """A tool call came back."""

    call_id: str
    tool: str | None = None
    ok: bool | None = None
    """None: neither way, as when it was cancelled."""
    output: Any = None
    error: Any = None
    status: str | None = None
    exit_code: int | None = None
    seconds: float | None = None
    synthetic_id: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Said(Fact):
    """Something was said, or thought."""

    role: Role
    blocks: tuple[Block, ...]
    message_id: str | None = None
    to: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    injected: bool = False
    """No person typed it, though its role is a user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Fact):
    """A verdict or a score was given."""

    verdict: Any = None
    score: float | None = None
    by: str | None = None
    about: str | None = None
    name: str | None = None
    passed: bool | None = None
    confidence: float | None = None
    threshold: float | None = None
    reason: str | None = None
    evidence: Any = None
    winner: str | None = None
    accused: str | None = None
    correct: bool | None = None
    scores: Mapping[str, float] | None = None
    no_contest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Fact):
    """A person was asked."""

    question_id: str
    text: str | None = None
    what: str | None = None
    call_id: str | None = None
    options: tuple[Any, ...] | None = None
    schema: Any = None
    expires: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Fact):
    """The question was answered."""

    question_id: str
    answer: Any = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked(Fact):
    """Two runs, two agents or two names of one run belong together."""

    kind: LinkKind
    parent: Any = None
    child: Any = None
    other: Any = None
    """A run: its id, an alias of it, or {family, run}."""
    from_: str | None = None
    to: str | None = None
    system: str | None = None
    alias: str | None = None
    call_id: str | None = None
    reason: str | None = None
    context: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent(Fact):
    """Tokens or money were spent."""

    key: str | None = None
    """Spends with one key are one spend; None stands for the record it was read from."""
    provider: str | None = None
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    cost_usd: float | None = None
    credits: float | None = None
    calls: int | None = None
    group: str | None = None
    whole: bool = False
    bound: Literal["lower", "upper"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(Fact):
    """The shrug: anything else, kept with its kind intact."""

    label: str
    kind: str | None = None
    text: str | None = None
    data: Any = None


FACTS: tuple[type[Fact], ...] = (
    Began, Ended, Moved, Called, Returned, Said, Decided, Asked, Answered, Linked, Spent, Noted,
)  # fmt: skip  # one row, in the order of the design's table


def blob_of(value: Any) -> Mapping[str, Any] | None:
    """What is known of a value that was lifted out: its hash, size and media type."""
    lifted = value.get("$blob") if isinstance(value, Mapping) else None
    return lifted if isinstance(lifted, Mapping) and "sha256" in lifted else None
