"""The JSON of bodies, and of answers that belong to no question; their schemas are derived from it.

They are `TypedDict`s where a key may be missing: a client sees it only where it says something.
"""

from typing import Annotated, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from tracklog.answers import JsonValue
from tracklog.formats.loss import Losses
from tracklog.journal.proof import ChainHead
from tracklog.web.routing import Schema

Act = Literal["start", "stop", "inject"]
"""What can be asked of a host."""


def ref(name: str) -> Schema:
    """A reference to a schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


LINES: Schema = {"type": "string", "description": "One JSON object per line."}


@with_config(ConfigDict(extra="allow"))
class JsonObject(TypedDict):
    """Any JSON object: only its writer knows the keys."""


class Error(TypedDict):
    error: str
    hint: str
    """What to do next."""


class Problem(TypedDict):
    pointer: str
    message: str
    hint: str
    code: str
    """The name of this sort of problem; it does not change between versions."""


class Verdict(TypedDict):
    line: Annotated[int, Field(ge=1)]
    """Counted from 1."""
    verdict: Literal["accepted", "duplicate", "refused"]
    seq: NotRequired[int]
    """Its number, or the one it had before."""
    problems: NotRequired[list[Problem]]


class SeenCheckpoint(TypedDict):
    """A checkpoint: whose it is, how many records it has, and the hash over them."""

    origin: str
    records: int
    root: str
    proof: NotRequired[list[str]]
    """That it extends the checkpoint whose number of records is in the header `Tracklog-Seen`: the
    hashes of a consistency proof of RFC 6962.
    """


class Admitted(TypedDict):
    accepted: int
    duplicate: int
    refused: int
    last_seq: int | None
    """The highest record number of these lines."""
    verdicts: list[Verdict]
    hint: NotRequired[str]
    """Only if the body is not NDJSON, or its dialect is uncertain."""
    bom: NotRequired[Literal[True]]
    """When a byte order mark was dropped from its start."""
    replayed: NotRequired[Literal[True]]
    """When the batch key and its lines are known: this is the first answer."""
    checkpoint: NotRequired[SeenCheckpoint]
    """The last checkpoint, where the collector makes them: a client can compare it with earlier ones."""


class Tombstone(TypedDict):
    """Who erased the line, when and why."""

    leaf: str
    """The SHA-256 of the erased frame."""
    reason: str
    by: str
    at: str
    id: NotRequired[str]
    """The identity of the event, if any."""


class JournalRecord(TypedDict):
    """A record of the journal."""

    seq: int
    received: str
    dialect: str
    family: NotRequired[str]
    """Where it is not the dialect's name."""
    run: str
    redacted: NotRequired[list[str]]
    erased: NotRequired[Tombstone]
    event: NotRequired[JsonValue]
    """The line of the emitter."""


class EventsPage(TypedDict):
    first: int
    """The first record that is still stored."""
    last: int
    next: int
    cursor: NotRequired[str]
    """The `cursor` of the next page, in a store with several shards."""
    events: list[JournalRecord]


class Converted(TypedDict):
    lines: list[JsonObject]
    report: Losses
    refused: list[Verdict]


class ProofFault(TypedDict):
    seq: int | None
    message: str


class CheckpointWitness(TypedDict):
    """Who signed a checkpoint as a witness, by the checkpoint itself."""

    name: str
    at: str


class RunCheckpoint(TypedDict):
    """The signed checkpoint against which a run was verified."""

    origin: str
    records: int
    """Of the journal, up to the checkpoint."""
    root: str
    witnesses: list[CheckpointWitness]
    proof: NotRequired[list[str]]
    """That it extends the checkpoint of `seen` records: the hashes of a consistency proof of RFC 6962."""


class ProofCheck(TypedDict):
    """Given with `check`."""

    records: int
    head: ChainHead
    whole: bool
    faults: list[ProofFault]
    checkpoint: RunCheckpoint | None
    """The last checkpoint, if it has the run: then no record up to it is missing."""


class AnswerBody(TypedDict):
    answer: JsonValue
    """Any JSON."""
    by: NotRequired[Annotated[str, Field(max_length=256)]]
    """The name of the person who answers."""


class AnswerAccepted(TypedDict):
    seq: int
    """The record of the answer."""
    answer: JsonValue
    """Any JSON."""
    by: str | None
    at: str
    family: NotRequired[str]
    run: NotRequired[str]
    question_id: NotRequired[str]


class MarkBody(TypedDict):
    run: str | list[str]
    """The run as `family:run`, or several."""
    record: NotRequired[Annotated[int, Field(ge=1)]]
    """Mark this record, not the run itself."""
    tag: NotRequired[Annotated[str, Field(min_length=1, max_length=256)]]
    score: NotRequired[float]
    note: NotRequired[Annotated[str, Field(min_length=1, max_length=100_000)]]
    seen: NotRequired[bool]
    """False takes it back."""
    withdraw: NotRequired[Annotated[str, Field(min_length=1, max_length=256)]]
    """The id of a mark of this run that is withdrawn."""
    by: NotRequired[Annotated[str, Field(min_length=1, max_length=256)]]
    """Your name; it is recorded as a claim, beside the name of the token."""


class SavedView(TypedDict):
    """A page of the console with its filters, under a name."""

    name: Annotated[str, Field(min_length=1, max_length=80)]
    page: Annotated[str, Field(max_length=20)]
    """Empty for Fleet, or `search`, or `insights`."""
    query: Annotated[str, Field(max_length=4000)]
    """The query of its address."""


class SavedViews(TypedDict):
    views: list[SavedView]


class FoundSource(TypedDict):
    """Logs of one kind of agent on this machine."""

    name: str
    """The name of the importer."""
    about: str
    files: int
    bytes: int
    first: str
    """When the oldest file was written."""
    last: str


class FoundSources(TypedDict):
    sources: list[FoundSource]
    importing: bool
    """An import that was begun here is under way."""


class ImportBody(TypedDict):
    names: list[str]
    """Names of importers; never paths."""


class ImportStarted(TypedDict):
    names: list[str]


class TapeBody(TypedDict):
    """Answer from a recorded run instead of calling models and tools."""

    run: str
    by: NotRequired[Literal["order", "match"]]
    miss: NotRequired[Literal["error", "live"]]


class StartBody(TypedDict, total=False):
    program: str
    """Its name, as `GET /api/hosts` lists it."""
    body: JsonValue
    """The program itself, where the host takes one."""
    inputs: JsonObject
    """Its inputs, by name."""
    seed: str
    """A seed, for programs that use random numbers."""
    tape: TapeBody
    by: str
    """The name of the person."""


class StopBody(TypedDict, total=False):
    by: str
    """The name of the person."""


class InjectBody(TypedDict):
    text: Annotated[str, Field(min_length=1)]
    label: NotRequired[str]
    """The kind of the interference."""
    by: NotRequired[str]
    """The name of the person."""


class HostProgram(TypedDict):
    name: str
    about: str
    inputs: JsonObject
    """Each with its default."""


class HostRow(TypedDict):
    host: str
    about: str
    family: str
    """Of the runs that it carries out."""
    can: list[Act]
    programs: list[HostProgram]


class StartedRun(TypedDict):
    host: str
    family: str
    run: str


class RecordedAt(TypedDict):
    seq: int
    """The record of it."""


class Health(TypedDict):
    status: str
    version: NotRequired[str]
    demo: NotRequired[Literal[True]]


class OpenApi(TypedDict):
    openapi: str
    info: JsonObject
    paths: JsonObject
    components: JsonObject


class LoginForm(TypedDict, total=False):
    token: str
