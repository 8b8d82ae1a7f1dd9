"""Facts: the meaning of an event in any dialect, one class for each kind of thing that happens.

`Marked` is besides them: it says nothing of what happened, only what a person noted about it.

Facts are derived from events and never stored. Field names are those of the native dialect's lines,
so a fact and its line have the same fields. Nobody changes a fact once it is made; the classes do not
enforce it, because a frozen one takes three times as long to make.
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
"""A content block: `type` is one of BLOCK_KEYS or foreign; the other keys depend on the type."""

BLOCK_KEYS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "thinking": ("thinking",),
    "tool_use": ("tool_name", "tool_id", "tool_input"),
    "tool_result": ("tool_id", "tool_content"),
    "command": ("command",),
    "stream": ("chunk",),
}
"""The block types that writers use, each with the keys of its content."""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Fact:
    """The fields that all facts share."""

    agent: str | None = None
    step: str | None = None
    """The turn, step or node it happened in."""
    fidelity: Fidelity = "observed"
    """How the fact is known: seen by the recorder, reported by the agent, rebuilt from a file, or
    guessed.
    """
    copied: bool = False
    """Whether it repeats the history of another run: shown, never counted."""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
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
    """Totals announced by the source, under the source's names."""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Ended(Fact):
    """A run, an agent or a step ended; `outcome` is the source's own word."""

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
    """The number of this attempt at a step, from 1; `step` is then the step's name, # and the
    number.
    """
    part: str | None = None
    """The part of the step that was tried, where parts are tried one by one."""
    counts: Mapping[str, int] | None = None
    """Totals counted by the source, under the source's names."""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Moved(Fact):
    """An agent or a step changed its status; both values are the source's own words."""

    from_: str | None
    to: str
    phase: Phase
    """The meaning of the new status in words that all dialects share."""
    reason: str | None = None


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Called(Fact):
    """A tool was called."""

    tool: str
    call_id: str
    input: Any = None
    provider_call_id: str | None = None
    parent_call_id: str | None = None
    """The call whose sub-agent made this call."""
    tool_server: str | None = None
    by_provider: bool = False
    synthetic_id: bool = False
    """Whether the source gave no id: then `call_id` is unique only within its record."""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Returned(Fact):
    """A tool call returned."""

    call_id: str
    tool: str | None = None
    ok: bool | None = None
    """None: neither success nor failure, as when the call was cancelled."""
    output: Any = None
    error: Any = None
    status: str | None = None
    exit_code: int | None = None
    seconds: float | None = None
    synthetic_id: bool = False


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Said(Fact):
    """A message or a thought."""

    role: Role
    blocks: tuple[Block, ...]
    message_id: str | None = None
    to: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    injected: bool = False
    """Whether no person typed it, although its role is `user`."""


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Decided(Fact):
    """A verdict or a score."""

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


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Asked(Fact):
    """A question to a person."""

    question_id: str
    text: str | None = None
    what: str | None = None
    call_id: str | None = None
    options: tuple[Any, ...] | None = None
    schema: Any = None
    expires: str | None = None


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Answered(Fact):
    """An answer to a question."""

    question_id: str
    answer: Any = None
    by: str | None = None


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
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


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Spent(Fact):
    """Tokens or money were spent."""

    key: str | None = None
    """Facts with the same key are one spend; None stands for the record the fact was read from."""
    provider: str | None = None
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    cost_usd: float | None = None
    credits: float | None = None
    calls: int | None = None
    group: str | None = None
    whole: bool = False
    bound: Literal["lower", "upper"] | None = None


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Noted(Fact):
    """Anything else, with the source's own kind."""

    label: str
    kind: str | None = None
    text: str | None = None
    data: Any = None


FACTS: tuple[type[Fact], ...] = (
    Began, Ended, Moved, Called, Returned, Said, Decided, Asked, Answered, Linked, Spent, Noted,
)  # fmt: skip  # one row, in the order of the design's table


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Marked(Fact):
    """A person marked a run, or one of its records: a tag, a score, a note, or that it was seen.

    It is none of `FACTS`, so that it can change nothing that is computed from them.
    """

    record: int | None = None
    """The number of the record; None for the run itself."""
    tag: str | None = None
    score: float | None = None
    note: str | None = None
    seen: bool | None = None
    """False takes back that the run was seen."""
    withdraws: str | None = None
    """The id of a mark that does not hold any more."""
    by: str | None = None
    """The name of the account or token that was used."""
    claimed_by: str | None = None
    """The name that was typed; nobody has checked it."""


NATIVE_FACTS: tuple[type[Fact], ...] = (*FACTS, Marked)
"""All that a line of the native dialect can hold."""


def blob_of(value: Any) -> Mapping[str, Any] | None:
    """The hash, size and media type of a value that is stored as a blob."""
    lifted = value.get("$blob") if isinstance(value, dict) else None
    return lifted if isinstance(lifted, dict) and "sha256" in lifted else None
