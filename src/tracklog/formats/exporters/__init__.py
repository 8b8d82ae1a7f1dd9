"""One foreign format per file, written from a run.

To add one: a file here that ends with `exporter = Exporter(...)`. Its `write` is a pure function of
a run: exporting twice gives the same bytes. Its `fates` declare what happens to each field of
each fact; a test checks them. Facts that the format cannot express are carried in the form of
`carried`, so that its importer can restore them. The folder is the registry; an outside package
offers its `Exporter` under `tracklog.exporters`. Definitions that several formats share stand here,
and in the files that begin with an underscore.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import orjson

from tracklog.formats.loss import Fate, LossReport
from tracklog.journal.frame import Record, Run
from tracklog.model.errors import UnknownName
from tracklog.model.event import Event, Finding
from tracklog.model.fact import (
    NATIVE_FACTS,
    Answered,
    Block,
    Called,
    Decided,
    Fact,
    Marked,
    Moved,
    Returned,
    Spent,
    blob_of,
)

if TYPE_CHECKING:
    from tracklog.answers.spans import SpansAnswer

MAPPING = "1"
"""The version of our mappings, written into the output."""


class Spend(NamedTuple):
    """A spend at its first position; it has no amounts where other spends replace it."""

    agent: str | None
    provider: str | None
    model: str | None
    calls: int | None
    amounts: Mapping[str, int]
    """Tokens by kind; unknown ones are absent."""
    cost_usd: float | None
    counts: bool = True


class ExportRecord(NamedTuple):
    """A record with its event and facts."""

    record: Record
    event: Event | None
    """None when it was erased or damaged, or its dialect is not installed."""
    facts: tuple[Fact, ...] = ()
    findings: tuple[Finding, ...] = ()
    identity: str = ""
    """The event's own identity where its dialect makes it unique, else the number in the journal.
    """
    names: tuple[str, ...] = ()
    """The names that other events may use for it; one of them is its key at a foreign source."""
    spends: Mapping[int, Spend] = {}
    """The spends that appear here first, by the position of their fact."""
    superseded: bool = False
    """A newer mapping of its source counts instead: it has no facts, only its line."""
    marks: tuple[Marked, ...] = ()
    """The marks of a person, who is no part of the run."""

    @property
    def seq(self) -> int:
        return self.record.seq

    @property
    def at(self) -> str:
        """The time in UTC: by the emitter's clock, else the time of receipt."""
        return utc(self.event.at if self.event else None) or self.record.received

    @property
    def kind(self) -> str:
        return self.event.kind if self.event else "erased" if self.record.erased else "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRun:
    """A run to export, with the runs below it."""

    family: str
    id: str
    root: Run
    """The run at the top of its tree; the run itself where no parent is known."""
    conversation: str | None = None
    """The conversation at the source that the run, or the run at the top, is part of."""
    lines: Callable[[], Iterator[ExportRecord]]
    """Its records from the first one, with people's marks; may be called more than once."""
    summary: Mapping[str, Any]
    """The fold over its records: status, outcome, agents, tokens, cost, seconds."""
    opening: Mapping[str, Any] = field(default_factory=dict)
    """The fields of its beginning: agent, task, model, software, host."""
    spends: tuple[Spend, ...] = ()
    """Its own spends, without those of sub-runs."""
    findings: tuple[Finding, ...] = ()
    """The findings that remain at its end."""
    stepped: bool = False
    """Whether it has steps that begin and end."""
    judged: frozenset[str] = frozenset()
    """The subjects of its decisions, by the names used for them."""
    asks: bool = False
    """Whether a person is asked in it."""
    same_calls: Mapping[str, str] = field(default_factory=dict)
    """By the name of a call, the name of the call that it is a copy of."""
    uncovered: Callable[[Event], Iterable[str]] = lambda _event: ()
    """The places of an event that no fact covers."""
    trace: str | None = None
    """Its trace id, where it was imported with one."""
    own: tuple[str, str, str | None] | None = None
    """The trace, the span and the parent span, where its beginning was imported with them."""
    call: str | None = None
    """The call of its parent that started it."""
    parent: Run | None = None
    below: tuple["ExportRun", ...] = ()
    proof: Mapping[str, Any] | None = None
    """The head of the chain that its records were verified against, if they were."""
    spans: "Callable[[], SpansAnswer] | None" = None
    """What took time in it; None where it is not read from a home."""

    def records(self) -> Iterator[ExportRecord]:
        """Its records from the first one, without people's marks: what happened in the run."""
        return (entry for entry in self.lines() if not entry.marks)

    def __iter__(self) -> Iterator["ExportRun"]:
        """The run and all runs below it, parents first."""
        yield self
        for child in self.below:
            yield from child


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a format."""

    about: str
    choices: tuple[str, ...] = ()
    """The allowed values; any value where nothing is listed."""
    usual: str = ""


Options = Mapping[str, str]


class LiveWriter(Protocol):
    """Writes a running run as server-sent events."""

    def write(self, entry: ExportRecord, *, ended: bool) -> bytes:
        """The output for a record; `ended` when the run seems to have ended with it."""

    def join(self, cursor: int) -> bytes:
        """The state that a late subscriber needs before the next record."""

    def gap(self, after: int, next: int) -> bytes:
        """The output for records that were deleted."""

    def end(self, cursor: int) -> bytes:
        """The remaining output once the run has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporter:
    """An exporter."""

    name: str
    about: str
    media_type: str
    suffix: str
    """The suffix of file names in this format."""
    write: Callable[[ExportRun, Options], Iterator[bytes]]
    fates: Callable[[Options], Mapping[str, Fate]]
    """The fate of each field, as `Fact.field`, of the `at`, `id`, `cause` and `family` of an event,
    and of the `rest` that no fact covers; fields that are not listed are dropped.
    """
    cut: Callable[[ExportRecord, Options], bool] = lambda _entry, _options: False
    """Whether a record does not fit, so that only its position is written."""
    synthesised: Callable[[ExportRun, Options], Iterable[str]] = lambda _run, _options: ()
    """Fields that the format requires and the run does not have, so that a placeholder is
    written.
    """
    proof: Literal["none", "beside", "inside"] = "none"
    """Whether the run is verified first: for a proof beside the output, or to state it inside."""
    follow: Callable[[Callable[[], ExportRun], Options], LiveWriter] | None = None
    """The writer for a running run, from the state of the run at each time."""
    options: Mapping[str, Option] = field(default_factory=dict)
    media_types: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Other media types, by the option and the choice that select them."""

    def chosen(self, given: Mapping[str, str] | None = None) -> Options:
        """The options with defaults filled in; refuses invalid ones."""
        for name, value in (given or {}).items():
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise UnknownName(f"{self.name} has no option {name!r}", f"it has: {known}")
            choices = self.options[name].choices
            if choices and value not in choices:
                raise UnknownName(
                    f"{name} of {self.name} cannot be {value!r}", f"choose {' or '.join(choices)}"
                )
        return {name: option.usual for name, option in self.options.items()} | dict(given or {})

    def type_of(self, options: Options) -> str:
        """The media type of the output with these options."""
        chosen = (self.media_types.get(choice) for choice in options.items())
        return next(filter(None, chosen), self.media_type)

    def losses(self, run: ExportRun, options: Options) -> LossReport:
        """The fate of each field of the run in this format."""
        report, fates = LossReport(), self.fates(options)
        for each in run if fates.get("sub-run") == "kept" else (run,):
            for entry in each.records():
                if entry.superseded:
                    continue
                if entry.event is None and entry.record.line:
                    report.add(entry.kind, "line", fates.get("unreadable", "dropped"))
                cut = self.cut(entry, options)
                for name, fate in _fates(each, entry, fates):
                    report.add(entry.kind, name, "dropped" if cut else fate)
            for name in self.synthesised(each, options):
                report.add(each.family, name, "synthesised")
        return report


def _fates(
    run: ExportRun, entry: ExportRecord, fates: Mapping[str, Fate]
) -> Iterator[tuple[str, Fate]]:
    """The fate of each field of an event, by the fate of its kind."""
    for fact in entry.facts:
        kind, values = type(fact).__name__, fact_fields(fact)
        carried_fields = carried(entry, fact) if fates.get(f"{kind}.copied") == "carried" else {}
        for name in values:
            fate = fates.get(f"{kind}.{name}", "dropped")
            is_new = name == "call_id" and carried_fields.get(name, values[name]) != values[name]
            yield f"{kind}.{name}", "synthesised" if is_new else fate
        for name in carried_fields.keys() - values.keys() - {"fact", "at"}:
            if carried_fields[name] is not None:
                yield f"{kind}.{name}", "synthesised"
    if (event := entry.event) is None:
        return
    values = {"at": event.at, "id": event.id, "cause": event.cause}
    values["family"] = event.family if event.family != event.dialect else None
    for name, value in values.items():
        if value is not None:
            yield name, fates.get(name, "dropped")
    for pointer in run.uncovered(event):
        yield pointer, fates.get("rest", "dropped")


def every(fate: Fate, facts: tuple[type[Fact], ...]) -> dict[str, Fate]:
    """One fate for every field of these facts."""
    return {
        f"{fact.__name__}.{item.name.rstrip('_')}": fate for fact in facts for item in fields(fact)
    }


def full_lines(fate: Fate) -> dict[str, Fate]:
    """One fate for all fields of the lines of a run, and for lines that cannot be read."""
    names = ("at", "id", "cause", "family", "rest", "unreadable")
    return every(fate, NATIVE_FACTS) | dict.fromkeys(names, fate)


def some(fate: Fate, fact: type[Fact], names: str) -> dict[str, Fate]:
    """One fate for some fields of a fact, their names in one text."""
    return {f"{fact.__name__}.{name}": fate for name in names.split()}


def fact_fields(fact: Fact) -> dict[str, Any]:
    """The fields of a fact that have a value, under the names of its line."""
    values = {}
    for item in fields(fact):
        value = getattr(fact, item.name)
        if value is not None and (item.default is MISSING or value != item.default):
            values[item.name.rstrip("_")] = value
    return values


def carried(entry: ExportRecord, fact: Fact) -> dict[str, Any]:
    """A fact in the form in which formats carry it: all fields and the time, as on a native line."""
    at = utc(entry.event.at) if entry.event else None
    body = {"fact": type(fact).__name__} | ({"at": at} if at else {}) | fact_fields(fact)
    # Keys that a line must have, and a fact may lack.
    match fact:
        case Called(synthetic_id=True) | Returned(synthetic_id=True):
            body["call_id"] = call_name(entry, fact)
            del body["synthetic_id"]
        case Spent(key=None):
            body["key"] = entry.identity
        case Moved(from_=None):
            body["from"] = "unknown"
        case Answered():
            body.setdefault("answer", None)
        case Decided(score=None):
            body.setdefault("verdict", None)
    return body


def call_name(entry: ExportRecord, fact: Called | Returned) -> str:
    """The call's own id; a generated one is valid only in its record."""
    return f"{fact.call_id}#{entry.seq}" if fact.synthetic_id is True else str(fact.call_id)


def dumps(value: Any) -> bytes:
    """Any JSON value as bytes, however deep it is and however large its numbers."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":")).encode()


def as_text(value: Any) -> str:
    """A string unchanged, anything else as JSON."""
    return value if isinstance(value, str) else dumps(value).decode()


def words_of(block: Block) -> str:
    """The text of a block; where it is stored as a blob, what is known of it."""
    for key in ("text", "thinking", "command", "chunk"):
        if key in block:
            value = block[key]
            lifted = blob_of(value)
            return str(lifted.get("preview") or "") if lifted else as_text(value)
    return "" if "opaque" in block else as_text(dict(block))


def blob_path(blob: Mapping[str, Any]) -> str:
    """The path of a blob below a home; an invalid hash has none."""
    name = str(blob["sha256"])
    safe = name if re.fullmatch("[0-9a-f]{64}", name) else "unknown"
    return f"blobs/sha256/{safe[:2]}/{safe}"


_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?"
    r"(Z|z|[+-][0-9]{2}:[0-9]{2})"
)


@lru_cache(maxsize=4096)
def utc(at: str | None) -> str | None:
    """A time in UTC, with up to nine digits of the source's precision; None where there is none."""
    match = _TIME.fullmatch(at or "")
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    if zone not in ("Z", "z", "+00:00", "-00:00"):
        try:
            moved = datetime.fromisoformat(f"{day}T{clock}{zone}")
            there = (moved - (moved.utcoffset() or moved - moved)).isoformat()
        except (ValueError, OverflowError):
            return None
        day, clock = there[:10], there[11:19]
    return f"{day}T{clock}" + (f".{fraction[:9]}" if fraction else "") + "Z"


@lru_cache(maxsize=4096)
def nanoseconds(at: str) -> int:
    """A time of `utc` in nanoseconds since 1970; 0 before that."""
    whole, _, fraction = at.removesuffix("Z").partition(".")
    try:
        # The seconds are added separately: the last minute of a day may have 61.
        minute = datetime.fromisoformat(f"{whole[:16]}:00+00:00")
    except ValueError:
        return 0
    seconds = int(minute.timestamp()) + int(whole[17:19])
    return max(seconds * 10**9 + int(f"{fraction:0<9}"[:9]), 0)


_SPAN = re.compile(r"(?!0{32})[0-9a-f]{32}/(?!0{16})[0-9a-f]{16}")


def span_of(names: tuple[str, ...]) -> tuple[str, str] | None:
    """The trace and the span of a record, where it was imported with them."""
    for name in names:
        if _SPAN.fullmatch(name):
            return name[:32], name[33:]
    return None
