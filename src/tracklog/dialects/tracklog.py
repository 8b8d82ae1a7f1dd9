"""tracklog: the native dialect, one line per fact, for sources that have no dialect of their own."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import MISSING, AfterValidator, Field, model_validator
from pydantic.config import JsonDict

from tracklog.dialects import (
    Count,
    Dialect,
    Policy,
    Scene,
    Seconds,
    Shape,
    Share,
    SourceRecord,
    on_the_calendar,
    share,
    text,
)
from tracklog.model.event import Body, Envelope, Event, Finding
from tracklog.model.fact import BLOCK_KEYS, FACTS, Fact, Fidelity, LinkKind, Phase, Role, What

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


class Frame(Shape):
    """The keys that every line has."""

    id: Name
    """Derived from the source record and the mapping; a fresh UUID where there is no source."""
    run: Name
    fact: str
    """One of the twelve fact names."""
    origin: Origin
    at: Utc | MISSING = MISSING
    """Absent where the source has no clock; then the time of receipt is used."""
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
        said = self.model_extra or {}
        if "opaque" in said:
            return self
        for key in BLOCK_KEYS.get(self.type, ()):
            if key not in said:
                raise ValueError(f"a {self.type} block without {key}")
            if key in WORDS and not _is_text(said[key]):
                raise ValueError(f"{key} of a {self.type} block is no text")
        return self


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and "$blob" in value)


class Software(Shape):
    """The program that ran."""

    name: Name
    version: str | MISSING = MISSING


class Began(Frame):
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


class Ended(Frame):
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


class Moved(Frame):
    """An agent or a step changed its status."""

    fact: Literal["Moved"]
    from_: Annotated[str, Field(alias="from")]
    to: Name
    phase: Phase
    reason: str | MISSING = MISSING


class Called(Frame):
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


class Returned(Frame):
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


class Said(Frame):
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
    Frame, json_schema_extra={"anyOf": [{"required": ["verdict"]}, {"required": ["score"]}]}
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
    def _says_something(self) -> Self:
        if not {"verdict", "score"} & self.model_fields_set:
            raise ValueError("neither verdict nor score")
        return self


class Asked(Frame):
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


class Answered(Frame):
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


class Linked(Frame, json_schema_extra=LINKS):
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
        said = self.model_fields_set
        if self.kind in ("handoff", "message"):
            whole = {"from_", "to"} <= said
        elif self.kind == "alias":
            whole = {"system", "alias"} <= said
        else:
            whole = bool({"parent", "child", "other"} & said)
        if not whole:
            raise ValueError(f"a {self.kind} link without both its ends")
        return self


class Spent(Frame):
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


class Noted(Frame):
    """Anything else, with the source's own kind."""

    fact: Literal["Noted"]
    label: Name
    kind: str | MISSING = MISSING
    """The source's own word for it."""
    text: str | MISSING = MISSING
    data: Any | MISSING = MISSING


KINDS: dict[str, type[Shape]] = {
    shape.__name__: shape
    for shape in (
        Began, Ended, Moved, Called, Returned, Said, Decided, Asked, Answered, Linked, Spent, Noted,
    )
}  # fmt: skip  # one row, in the order of the facts


def claim(body: Body) -> float:
    return share(body, ("id", "run", "fact", "origin"), body.get("fact") in list(KINDS))


def read(body: Body) -> Envelope:
    get = body.get
    return (
        get("run", ""),
        get("fact", ""),
        get("at"),
        get("id"),
        get("agent"),
        get("cause"),
        get("family"),
    )


def names(event: Event) -> tuple[str, ...]:
    """The id of the line, and the keys of its record at its source."""
    origin = event.body.get("origin")
    record = origin.get("record") if isinstance(origin, dict) else None
    keys = record if isinstance(record, list) else [record]
    return tuple(key for key in (event.id, *keys) if isinstance(key, str))


def _fields(fact: type[Fact]) -> dict[str, tuple[str, bool]]:
    """The fields of a fact by their key on a line, and whether each is a tuple."""
    return {
        item.name.rstrip("_"): (item.name, "tuple[" in str(item.type))
        for item in fields(fact)
        if item.name != "fidelity"
    }


FIELDS = {fact.__name__: (fact, _fields(fact)) for fact in FACTS}


def facts(event: Event) -> Iterator[Fact]:
    body = event.body
    fact, keys = FIELDS[event.kind]
    said: dict[str, Any] = {
        name: tuple(body[key]) if is_tuple else body[key]
        for key, (name, is_tuple) in keys.items()
        if key in body
    }
    if "mapping" in body["origin"]:
        # A mapping writes a call and its return as two lines, so an id that it made is valid in the
        # run.
        said.pop("synthetic_id", None)
    yield fact(**said, fidelity=body["origin"]["fidelity"])


SPAN = re.compile("[0-9a-f]{32}/[0-9a-f]{16}")
"""The key of a span; a corrected span is sent again with the same key and other content."""


def source(event: Event) -> SourceRecord | None:
    """The source record, known by its key and by the hash of its bytes.

    By both, because one mapping may know a key where another does not.
    """
    body, origin = event.body, event.body["origin"]
    raw = origin.get("raw")
    record = origin.get("record") or raw
    back = _taken_back(body) if event.kind == "Noted" else None
    if record is None and back is None:
        return None
    corrected = None
    if isinstance(record, str):
        names: tuple[str, ...] = (record,)
        corrected = raw if SPAN.fullmatch(record) else None
    else:
        names = tuple(record or ())
    if raw is not None and raw not in names:
        names += (raw,)
    return SourceRecord(
        origin["writer"], names, _version(origin.get("mapping", "")), corrected, back
    )


def _taken_back(body: Body) -> str | None:
    said = body.get("data")
    if body["label"] != "withdrawn" or not isinstance(said, dict):
        return None
    return text(said.get("from"))


@lru_cache(maxsize=256)
def _version(mapping: int | str) -> tuple[tuple[int, str], ...]:
    """The version of a mapping in a form that sorts: 10 is newer than 9, and 1.10 newer than 1.9."""
    parts = re.findall("[0-9]+|[^0-9]+", str(mapping))
    return tuple((int(part), "") if part[0] in "0123456789" else (-1, part) for part in parts)


def _spelling(fact: type[Fact]) -> tuple[Callable[[Fact], tuple[Any, ...]], list[tuple[str, Any]]]:
    """A getter of all fields of a fact; for each field its key on a line, and the value that is
    left out.
    """
    told = [item for item in fields(fact) if item.name != "fidelity"]
    keys = [(item.name.rstrip("_"), item.default) for item in told]
    return attrgetter(*(item.name for item in told)), keys


_SPELLINGS = {fact: _spelling(fact) for fact in FACTS}


def body_of(fact: Fact) -> Body:
    """The part of a line that a fact fills: the fields that have a value."""
    kind = type(fact)
    values, keys = _SPELLINGS[kind]
    said: Body = {"fact": kind.__name__}
    for (key, default), value in zip(keys, values(fact), strict=True):
        if value is not default and value != default:
            said[key] = value
    return said


def line(
    fact: Fact,
    *,
    id: str,
    run: str,
    origin: Mapping[str, Any],
    at: str | None = None,
    **more: Any,
) -> bytes:
    """A fact as a line; `more` holds the keys that every line may have: family, cause, extra."""
    said = body_of(fact)
    head = {"id": id, "run": run, "at": at, "fact": said.pop("fact")}
    whole = {**head, **said, **more, "origin": origin}
    return orjson.dumps({key: value for key, value in whole.items() if value is not None})


def line_id(writer: str, mapping: str, run: str, record: bytes, k: int = 0, n: int = 0) -> str:
    """The id of the n-th fact of a source record, the same wherever the record is read."""
    try:
        canonical = orjson.dumps(orjson.loads(record), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONDecodeError:
        canonical = record
    parts = (writer, mapping, run, sha256(canonical).hexdigest(), str(k), str(n))
    return sha256("\n".join(parts).encode()).digest()[:16].hex()


@dataclass(slots=True)
class _State:
    called: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    ended: bool = False
    spans: set[str] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)
    """The spans that were seen, here or in the parent run, and the spans that were named as
    parents.
    """
    torn: dict[str, tuple[int, str, Finding]] = field(default_factory=dict)
    """By file, the incomplete record at its end: its position, its hash and the finding."""


def rules(state: _State | None, event: Event) -> tuple[_State, list[Finding]]:
    state = state or _State()
    body = event.body
    found: list[Finding] = []
    if state.torn:
        _complete(state, body["origin"])
    if body.get("copied"):
        return state, found
    _place_span(state, body)
    match event.kind:
        case "Began" if body["what"] == "run":
            state.ended = False
        case "Ended" if body["what"] == "run":
            if state.ended:
                found.append(Finding("second-end", "the run ends a second time"))
            state.ended = True
        case "Called":
            state.called.add(body["call_id"])
        case "Returned":
            _check_return(state, body, found)
        case "Asked":
            state.asked.add(body["question_id"])
        case "Answered" if body["question_id"] not in state.asked:
            # The answer to a question of another family is expected in the log of that family.
            if "family" not in body:
                message = f"{body['question_id']} is answered, but was not asked"
                found.append(Finding("answer-without-question", message))
        case "Noted" if body["label"] == "finding":
            raised, origin = _raised(body), body["origin"]
            if raised.name == "torn-tail" and "path" in origin:
                place = (origin.get("offset", 0), origin.get("raw", ""), raised)
                state.torn[origin["path"]] = place
            else:
                found.append(raised)
    return state, found


def _complete(state: _State, origin: Body) -> None:
    """Forget an incomplete record when the same or a later position of its file is read."""
    path = origin.get("path")
    if path in state.torn:
        offset, raw, _ = state.torn[path]
        if origin.get("offset", -1) >= offset and origin.get("raw") != raw:
            del state.torn[path]


def _place_span(state: _State, body: Body) -> None:
    """Note a span and its parent; they come in any order, and the parent may never come."""
    record, cause = body["origin"].get("record"), body.get("cause")
    if not _is_span(record):
        return
    is_above = body["fact"] == "Linked" and body["kind"] == "sub-run" and "parent" in body
    state.spans.add(record)
    if cause is not None and _is_span(cause):
        (state.spans if is_above else state.parents).add(cause)


def _is_span(key: Any) -> bool:
    return isinstance(key, str) and len(key) == 49 and SPAN.fullmatch(key) is not None


def _check_return(state: _State, body: Body, found: list[Finding]) -> None:
    call = body["call_id"]
    # A source may report the result of a call without its begin, under an id that the mapping made.
    if call not in state.called and body.get("synthetic_id") is not True:
        found.append(Finding("return-without-call", f"{call} returns, but was not called"))
    elif call in state.returned:
        found.append(Finding("second-return", f"{call} returns a second time"))
    state.returned.add(call)


def _raised(body: Body) -> Finding:
    """The findings of the mapping, as it wrote them."""
    data = body.get("data")
    name = text(data.get("name")) if isinstance(data, dict) else None
    return Finding(
        name or "finding", body.get("text") or body.get("kind") or "reported by its writer"
    )


def rest(state: _State) -> list[Finding]:
    open_calls = [
        Finding("call-not-returned", f"{call} never returned", "info")
        for call in sorted(state.called - state.returned)
    ]
    orphans = [
        Finding("parent-not-seen", f"span {span} is a parent, and was not seen", "info")
        for span in sorted(state.parents - state.spans)
    ]
    return [*open_calls, *orphans, *(found for _, _, found in state.torn.values())]


def say(fact: Fact, scene: Scene) -> Body | None:
    said = orjson.loads(orjson.dumps(body_of(fact)))
    match said["fact"]:
        case "Moved":
            said["from"] = said["from"] or scene.memory.get(f"status {fact.agent}", "unknown")
            scene.memory[f"status {fact.agent}"] = said["to"]
        case "Spent":
            said["key"] = said.get("key") or scene.id
        case "Answered":
            said.setdefault("answer", None)
        case "Decided" if not {"verdict", "score"} & said.keys():
            said["verdict"] = None
    origin = {"writer": "convert", "fidelity": fact.fidelity}
    time = {"at": scene.at} if scene.timed else {}
    return {"id": scene.id, "run": scene.run, **time, **said, "origin": origin}


dialect = Dialect(
    name="tracklog",
    about="The native dialect: one line per fact, for what has no dialect of its own.",
    policy=Policy(kinds="closed", fields="open", identity="refuse", ignores=frozenset({"origin"})),
    kind_key="fact",
    kinds=KINDS,
    frame=Frame,
    claim=claim,
    read=read,
    facts=facts,
    rules=rules,
    rest=rest,
    names=names,
    source=source,
    say=say,
    extension=("extra", "converted"),
    contract="tracklog",
)
