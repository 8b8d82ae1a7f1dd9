"""The shapes of the lines, one per fact."""

from typing import Annotated, Any, Literal, Self

from pydantic import MISSING, AfterValidator, Field, model_validator
from pydantic.config import JsonDict

from tracklog.dialects import Count, Seconds, Shape, Share, on_the_calendar
from tracklog.model.fact import BLOCK_KEYS, Fidelity, LinkKind, Phase, Role, What

Name = Annotated[str, Field(min_length=1, description="Not empty.")]
Utc = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$",
        json_schema_extra={"format": "date-time"},
        description="UTC, RFC 3339 with Z, as fine as the source: 2026-05-05T09:00:00.123456Z.",
    ),
    AfterValidator(on_the_calendar),
]
RunRef = Annotated[
    str | dict[str, Any],
    Field(description="A run: its id, an alias of it, or {family, run}."),
]


class Origin(Shape):
    """Where a line came from."""

    writer: Name
    """The program that wrote it: an importer, otlp, collector, cli."""
    fidelity: Fidelity
    """How the writer knows the fact."""
    mapping: int | Name | MISSING = MISSING
    """The version of the writer's mapping."""
    path: str | MISSING = MISSING
    offset: Count | MISSING = MISSING
    raw: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | MISSING = MISSING
    """The SHA-256 of the raw record, in hex."""
    record: Name | list[Name] | MISSING = MISSING
    """The record's key at its source; a list where several records were merged."""
    clock: Name | MISSING = MISSING
    """The clock of `at`, when it is not the event's own."""
    generation: int | str | MISSING = MISSING
    unnamed: bool | MISSING = MISSING
    """Whether the agent may become known later."""
    speaker: str | MISSING = MISSING
    """The agent, where it became known after the record was written: these lines count instead."""
    revised: bool | MISSING = MISSING
    """Whether the source changes its records: other content under the same key is a newer version,
    and counts instead.
    """


class TracklogEnvelope(Shape):
    """The keys that every line has."""

    id: Name
    """The id of the line. If it is sent again with the same id, it is recorded once."""
    run: Name
    """The id of the run."""
    fact: str
    """The name of one of the twelve facts, or `Marked`."""
    origin: Origin
    at: Utc | MISSING = MISSING
    """When it happened; without it, the time of receipt is used."""
    family: Name | MISSING = MISSING
    """The family of the run, when it is not tracklog."""
    agent: str | MISSING = MISSING
    step: str | MISSING = MISSING
    """The turn, step or node."""
    cause: Name | MISSING = MISSING
    """The id or record of its cause."""
    copied: bool | MISSING = MISSING
    """Whether it repeats the history of another run: shown, never counted."""
    extra: dict[str, Any] | MISSING = MISSING
    """Further data under the source's own names."""


WORDS = ("text", "thinking", "command", "tool_name", "tool_id")
"""The keys of blocks that hold text; each value may be stored as a blob, as {"$blob": ...}."""


def _own_keys(schema: JsonDict) -> None:
    blob: JsonDict = {"type": "object", "required": ["$blob"]}
    schema["allOf"] = [
        {
            "if": {
                "properties": {"type": {"const": name}},
                "required": ["type"],
                "not": {"required": ["opaque"]},
            },
            "then": {
                "properties": {
                    key: {"anyOf": [{"type": "string"}, blob]} for key in keys if key in WORDS
                },
                "required": list(keys),
            },
        }
        for name, keys in BLOCK_KEYS.items()
    ]


class Block(Shape, json_schema_extra=_own_keys):
    """One content block; a known type has the keys of that type, unless it is opaque."""

    type: Name

    @model_validator(mode="after")
    def _has_its_own_keys(self) -> Self:
        extra = self.model_extra or {}
        if "opaque" in extra:
            return self
        for key in BLOCK_KEYS.get(self.type, ()):
            if key not in extra:
                raise ValueError(f"a {self.type} block without {key}")
            if key in WORDS and not _is_text(extra[key]):
                raise ValueError(f"{key} of a {self.type} block is no text")
        return self


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and "$blob" in value)


class Software(Shape):
    """The program that ran."""

    name: Name
    version: str | MISSING = MISSING


class Began(TracklogEnvelope):
    """A run, an agent or a step began."""

    fact: Literal["Began"]
    what: What
    task: str | MISSING = MISSING
    model: str | MISSING = MISSING
    software: Software | MISSING = MISSING
    host: str | MISSING = MISSING
    cwd: str | MISSING = MISSING
    git: dict[str, Any] | MISSING = MISSING
    """branch, commit, repository."""
    counts: dict[str, Count] | MISSING = MISSING
    """Totals announced by the source."""


class Ended(TracklogEnvelope):
    """A run, an agent or a step ended."""

    fact: Literal["Ended"]
    what: What
    outcome: str | MISSING = MISSING
    """The source's own word."""
    passed: bool | MISSING = MISSING
    score: float | MISSING = MISSING
    reason: str | MISSING = MISSING
    error: Any | MISSING = MISSING
    exit_code: int | MISSING = MISSING
    seconds: Seconds | MISSING = MISSING
    winner: str | MISSING = MISSING
    winner_kind: str | MISSING = MISSING
    winning_model: str | MISSING = MISSING
    winning_models: list[str] | MISSING = MISSING
    attempt: Annotated[int, Field(ge=1)] | MISSING = MISSING
    """The number of the attempt; `step` is then the step's name, # and this number."""
    part: str | MISSING = MISSING
    """The part of the step that was tried, where parts are tried one by one."""
    counts: dict[str, Count] | MISSING = MISSING
    """Totals counted by the source."""


class Moved(TracklogEnvelope):
    """An agent or a step changed its status."""

    fact: Literal["Moved"]
    from_: Annotated[str, Field(alias="from")]
    to: Name
    phase: Phase
    reason: str | MISSING = MISSING


class Called(TracklogEnvelope):
    """A tool was called."""

    fact: Literal["Called"]
    tool: Name
    call_id: Name
    input: Any | MISSING = MISSING
    provider_call_id: Name | MISSING = MISSING
    parent_call_id: Name | MISSING = MISSING
    """The call whose sub-agent made this call."""
    tool_server: str | MISSING = MISSING
    by_provider: bool | MISSING = MISSING
    synthetic_id: bool | MISSING = MISSING
    """The source gave no id; the mapping made one that is unique in the run."""


class Returned(TracklogEnvelope):
    """A tool call returned."""

    fact: Literal["Returned"]
    call_id: Name
    tool: str | MISSING = MISSING
    ok: bool | MISSING = MISSING
    """Absent: neither success nor failure, as when the call was cancelled."""
    output: Any | MISSING = MISSING
    error: Any | MISSING = MISSING
    status: str | MISSING = MISSING
    exit_code: int | MISSING = MISSING
    seconds: Seconds | MISSING = MISSING
    synthetic_id: bool | MISSING = MISSING


class Said(TracklogEnvelope):
    """A message or a thought."""

    fact: Literal["Said"]
    role: Role
    blocks: list[Block]
    message_id: Name | MISSING = MISSING
    to: str | MISSING = MISSING
    """An agent."""
    model: str | MISSING = MISSING
    stop_reason: str | MISSING = MISSING
    injected: bool | MISSING = MISSING
    """No person typed it."""


class Decided(
    TracklogEnvelope,
    json_schema_extra={"anyOf": [{"required": ["verdict"]}, {"required": ["score"]}]},
):
    """A verdict or a score."""

    fact: Literal["Decided"]
    verdict: Any | MISSING = MISSING
    score: float | MISSING = MISSING
    by: str | MISSING = MISSING
    about: str | MISSING = MISSING
    """A record, an id or a call_id."""
    name: str | MISSING = MISSING
    passed: bool | MISSING = MISSING
    confidence: Share | MISSING = MISSING
    threshold: Share | MISSING = MISSING
    reason: str | MISSING = MISSING
    evidence: Any | MISSING = MISSING
    winner: str | MISSING = MISSING
    accused: str | MISSING = MISSING
    correct: bool | MISSING = MISSING
    scores: dict[str, float] | MISSING = MISSING
    no_contest: bool | MISSING = MISSING

    @model_validator(mode="after")
    def _has_verdict_or_score(self) -> Self:
        if not {"verdict", "score"} & self.model_fields_set:
            raise ValueError("neither verdict nor score")
        return self


class Asked(TracklogEnvelope):
    """A question to a person."""

    fact: Literal["Asked"]
    question_id: Name
    text: str | MISSING = MISSING
    what: str | MISSING = MISSING
    """permission, clarification, ..."""
    call_id: Name | MISSING = MISSING
    options: list[Any] | MISSING = MISSING
    schema_: Annotated[Any | MISSING, Field(alias="schema")] = MISSING
    expires: Utc | MISSING = MISSING


class Answered(TracklogEnvelope):
    """An answer to a question."""

    fact: Literal["Answered"]
    question_id: Name
    answer: Any
    by: str | MISSING = MISSING


LINKS: JsonDict = {
    "anyOf": [
        {
            "properties": {"kind": {"enum": ["sub-run", "fork", "resume", "branch", "related"]}},
            "anyOf": [{"required": [end]} for end in ("parent", "child", "other")],
        },
        {"properties": {"kind": {"enum": ["handoff", "message"]}}, "required": ["from", "to"]},
        {"properties": {"kind": {"enum": ["alias"]}}, "required": ["system", "alias"]},
    ]
}


class Linked(TracklogEnvelope, json_schema_extra=LINKS):
    """Two runs, two agents or two names of one run belong together."""

    fact: Literal["Linked"]
    kind: LinkKind
    parent: RunRef | MISSING = MISSING
    child: RunRef | MISSING = MISSING
    other: RunRef | MISSING = MISSING
    from_: Annotated[str | MISSING, Field(alias="from")] = MISSING
    to: str | MISSING = MISSING
    system: str | MISSING = MISSING
    alias: Name | MISSING = MISSING
    """This run's name in that system."""
    call_id: Name | MISSING = MISSING
    reason: str | MISSING = MISSING
    context: Any | MISSING = MISSING

    @model_validator(mode="after")
    def _has_both_ends(self) -> Self:
        keys = self.model_fields_set
        if self.kind in ("handoff", "message"):
            complete = {"from_", "to"} <= keys
        elif self.kind == "alias":
            complete = {"system", "alias"} <= keys
        else:
            complete = bool({"parent", "child", "other"} & keys)
        if not complete:
            raise ValueError(f"a {self.kind} link without both its ends")
        return self


class Spent(TracklogEnvelope):
    """Tokens or money were spent."""

    fact: Literal["Spent"]
    key: Name
    """Lines with the same key are one spend."""
    provider: str | MISSING = MISSING
    model: str | MISSING = MISSING
    usage: dict[str, Any] | MISSING = MISSING
    cost_usd: float | MISSING = MISSING
    """As reported."""
    credits: float | MISSING = MISSING
    """Units that are not money."""
    calls: Count | MISSING = MISSING
    group: str | MISSING = MISSING
    whole: bool | MISSING = MISSING
    """In a group, spends marked whole replace the others."""
    bound: Literal["lower", "upper"] | MISSING = MISSING


class Noted(TracklogEnvelope):
    """Anything else, with the source's own kind."""

    fact: Literal["Noted"]
    label: Name
    kind: str | MISSING = MISSING
    """The source's own word for it."""
    text: str | MISSING = MISSING
    data: Any | MISSING = MISSING


MARKS = ("tag", "score", "note", "seen", "withdraws")
"""The keys of which a mark has at least one."""


class Marked(TracklogEnvelope, json_schema_extra={"anyOf": [{"required": [key]} for key in MARKS]}):
    """A person marked a run or one of its records; no status, count or time depends on it."""

    fact: Literal["Marked"]
    record: Annotated[int, Field(ge=1)] | MISSING = MISSING
    """The number of the record; absent for the run itself."""
    tag: Name | MISSING = MISSING
    score: float | MISSING = MISSING
    note: Name | MISSING = MISSING
    seen: bool | MISSING = MISSING
    """False takes back that it was seen."""
    withdraws: Name | MISSING = MISSING
    """The id of a mark that does not hold any more."""
    by: Name | MISSING = MISSING
    """The name of the account or token that was used."""
    claimed_by: Name | MISSING = MISSING
    """The name that was typed; nobody has checked it."""

    @model_validator(mode="after")
    def _has_a_mark(self) -> Self:
        if not self.model_fields_set.intersection(MARKS):
            raise ValueError("no tag, score, note, seen or withdraws")
        return self


KINDS: dict[str, type[Shape]] = {
    shape.__name__: shape
    for shape in (
        Began, Ended, Moved, Called, Returned, Said, Decided, Asked, Answered, Linked, Spent, Noted,
        Marked,
    )
}  # fmt: skip  # in the order of the facts
