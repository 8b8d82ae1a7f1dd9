"""The story of a run: its records as short texts, the same in any dialect."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from itertools import islice
from typing import Any, Literal, NamedTuple, Required, cast

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from tracklog.answers import JsonValue, Question, flag, integer, run_param
from tracklog.answers import limit as limit_param
from tracklog.answers.phrases import phrase, summary
from tracklog.folds._calls import Call, call_name, is_settled, original_call
from tracklog.home.home import Home
from tracklog.journal.frame import Record, Run
from tracklog.model.fact import NATIVE_FACTS, Called, Fact, Fidelity, Phase, Returned, Said
from tracklog.reading.record import Dialects
from tracklog.reading.walk import read_alone

PAGE = 1000
MOST = 4000
"""Characters of one text that are given; what is longer stands in full in its record."""

FactName = Literal[
    "Began", "Ended", "Moved", "Called", "Returned", "Said", "Decided", "Asked", "Answered",
    "Linked", "Spent", "Noted", "Marked",
]  # fmt: skip  # one row


@with_config(ConfigDict(extra="allow"))
class StoryBlock(TypedDict, total=False):
    """A part of a message; a block of a foreign type has keys of its own."""

    type: str
    fidelity: str
    """How the part was learnt, in the words of its dialect."""
    text: JsonValue
    """A string; where it is stored as a blob, an object that names the blob. So are the others."""
    thinking: JsonValue
    command: JsonValue
    chunk: JsonValue
    tool_name: str
    tool_id: str
    tool_input: JsonValue
    tool_content: JsonValue


_Sender = TypedDict("_Sender", {"from": str}, total=False)


class StoryFact(_Sender, total=False):
    """A fact: its name, a short text, and those of its fields that differ from their defaults."""

    fact: Required[FactName]
    words: str
    """One line of text; a message has none, because it has its own text."""
    agent: str
    step: str
    fidelity: Fidelity
    copied: bool
    """It was copied from the history of another run."""
    again: bool
    """Another record contains the same call or result; it is counted there."""
    torn: bool
    """A result whose call was not recorded."""
    what: str
    """The thing that began or ended (run, agent or step), or that is asked for."""
    task: str
    model: str
    provider: str
    software: JsonValue
    host: str
    cwd: str
    git: JsonValue
    counts: Mapping[str, int]
    outcome: str
    passed: bool
    score: float
    scores: Mapping[str, float]
    reason: str
    error: JsonValue
    exit_code: int
    seconds: float
    status: str
    attempt: int
    part: str
    winner: str
    winner_kind: str
    winning_model: str
    winning_models: Sequence[str]
    to: str
    phase: Phase
    tool: str
    call_id: str
    provider_call_id: str
    parent_call_id: str
    tool_server: str
    by_provider: bool
    synthetic_id: bool
    input: JsonValue
    ok: bool
    output: JsonValue
    role: str
    blocks: Sequence[StoryBlock]
    message_id: str
    stop_reason: str
    injected: bool
    verdict: JsonValue
    by: str
    claimed_by: str
    about: str
    name: str
    confidence: float
    threshold: float
    evidence: JsonValue
    accused: str
    correct: bool
    no_contest: bool
    question_id: str
    text: str
    options: Sequence[JsonValue]
    schema: JsonValue
    expires: str
    answer: JsonValue
    kind: str
    parent: JsonValue
    child: JsonValue
    other: JsonValue
    system: str
    alias: str
    context: JsonValue
    key: str
    usage: JsonValue
    cost_usd: float
    credits: float
    calls: int
    group: str
    whole: bool
    bound: Literal["lower", "upper"]
    label: str
    data: JsonValue
    record: int
    tag: str
    note: str
    seen: bool
    withdraws: str


@dataclass(frozen=True, slots=True)
class StoryFinding:
    """Something unexpected in a record."""

    name: str
    message: str
    level: Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class StoryErasure:
    """Who erased a record, when, and why."""

    at: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryRecord:
    """One record, and what it means."""

    seq: int
    received: str
    dialect: str
    bytes: int
    kind: str
    """Its kind of event, `erased`, or `damaged`."""
    at: str | None = None
    agent: str | None = None
    words: str
    facts: list[StoryFact]
    findings: list[StoryFinding]
    cut: bool = False
    """Long texts of it were cut."""
    withdrawn: bool = False
    """It was taken back."""
    superseded: bool = False
    """It was recorded again later, by a better mapping or with another content."""
    erased: StoryErasure | None = None


@dataclass(frozen=True, slots=True)
class StoryAnswer:
    """A page of the records of a run, oldest first."""

    family: str
    run: str
    last: int
    """The last record of the journal."""
    next: int | None
    """The `after` of the next page; null at the end as it is now."""
    records: list[StoryRecord]


def story(
    home: Home,
    run: str,
    after: int = 0,
    before: int | None = None,
    limit: int = PAGE,
    whole: bool = False,
) -> StoryAnswer:
    """The records of a run behind `after`, at most `limit`, each with what it means.

    With `before` it is the last of them that stand before that number. What is superseded or
    withdrawn is marked as far as the index has come.
    """
    of = home.run(run)
    if before is None:
        records = list(islice(home.journal.records(after, run=of), limit + 1))
        more, records = len(records) > limit, records[:limit]
    else:
        records = _last(home, of, after, limit, before)
        more = bool(records) and any(True for _ in home.journal.records(records[-1].seq, run=of))
    ends: list[_CallEnd] = []
    rows = [_row(record, home.dialects, whole=whole, ends=ends) for record in records]
    superseded = home.index.silent([row.seq for row in rows])
    _mark_calls(home, of, [end for end in ends if end.seq not in superseded])
    return StoryAnswer(
        family=of[0],
        run=of[1],
        last=home.journal_of(of).last,
        next=records[-1].seq if more else None,
        records=_marked(rows, superseded, home.index.state("runs", ":".join(of)).withdrawn),
    )


def _marked(
    rows: list[StoryRecord], superseded: Collection[int], withdrawn: Iterable[Sequence[int]]
) -> list[StoryRecord]:
    """The same rows; those that count no more say so."""

    def marked(row: StoryRecord) -> StoryRecord:
        if row.seq in superseded:
            return replace(row, superseded=True)
        if any(first <= row.seq <= last for first, last in withdrawn):
            return replace(row, withdrawn=True)
        return row

    return [marked(row) for row in rows] if superseded or withdrawn else rows


class _CallEnd(NamedTuple):
    """One end of a tool call, as a record holds it."""

    seq: int
    name: str
    called: bool
    fact: StoryFact


def _mark_calls(home: Home, run: Run, ends: list[_CallEnd]) -> None:
    """Marks calls that other records hold too, and results whose call was not recorded.

    A record counts here as in `runs` and `tools`: of copies the one that the fold counts.
    """
    if not ends:
        return
    calls = home.index.state("series", ":".join(run)).calls
    ends_seen: set[tuple[str, bool]] = set()
    for end in ends:
        name, original = original_call(calls, end.name)
        if original is None and not end.name.startswith("#"):
            continue  # the index has not come so far
        place = (name, end.called)
        if end.fact.get("copied"):
            continue
        seqs = original if is_settled(original) else _records_of(original, end)
        if original is None:  # of one record only
            alone, counts = (name, True) not in ends_seen, end.fact.get("tool") is not None
        else:
            alone, counts = not seqs[0], is_settled(original) or Call(*original).counts
        if place in ends_seen or (original is not None and seqs[not end.called] != end.seq):
            end.fact["again"] = True
            continue
        if not end.called and alone and counts:
            end.fact["torn"] = True
        ends_seen.add(place)


def _records_of(original: list[Any] | None, end: _CallEnd) -> tuple[int, int]:
    """The record of a call and the record of its end that count."""
    if original is None:
        return 0, end.seq
    call = Call(*original)
    return call.called_seq, call.returned_seq


def _last(home: Home, run: Run, after: int, limit: int, before: int) -> list[Record]:
    """The last records of a run before a number; how far back they stand is found by doubling."""
    journal = home.journal_of(run)
    end = min(before, journal.last + 1)
    step = limit
    while True:
        begin = max(end - 1 - step, after, journal.first - 1)
        records = list(journal.records(begin, run=run, through=end - 1))
        if len(records) >= limit or begin <= max(after, journal.first - 1):
            return records[-limit:]
        step *= 4


def _erasure(record: Record) -> StoryErasure | None:
    stone = record.erased
    return None if stone is None else StoryErasure(stone.at, stone.by, stone.reason)


def _row(record: Record, dialects: Dialects, *, whole: bool, ends: list[_CallEnd]) -> StoryRecord:
    """One record by itself; the ends of tool calls are added to `ends`."""
    reading = read_alone(record, dialects)
    event, findings, position = reading.event, reading.findings, reading.position
    facts = reading.marks or reading.facts
    if event is None or position is None:
        kind, at, agent, words, shown = "damaged" if findings else "erased", None, None, "", []
    else:
        kind, at, agent, words = event.kind, event.at, event.actor, summary(facts)[:MOST]
        shown = [fact_as_json(fact, whole=whole) for fact in facts]
        ends += (
            _CallEnd(record.seq, call_name(position, fact), type(fact) is Called, made)
            for fact, made in zip(facts, shown, strict=True)
            if isinstance(fact, Called | Returned)
        )
    return StoryRecord(
        seq=record.seq,
        received=record.received,
        dialect=record.dialect,
        bytes=len(record.line),
        kind=kind,
        at=at,
        agent=agent,
        words=words if event else kind,
        facts=shown,
        findings=[StoryFinding(*finding) for finding in findings],
        # A text can only be too long in a line that is.
        cut=not whole and len(record.line) > MOST and any(map(_is_long, facts)),
        erased=_erasure(record),
    )


def fact_as_json(fact: Fact, *, whole: bool = False) -> StoryFact:
    """A fact by its name, in words and with its fields; a text that is cut ends with `…`."""
    made: dict[str, JsonValue] = {"fact": type(fact).__name__}
    if not isinstance(fact, Said):
        made["words"] = phrase(fact)
    for name, key, usual in _FIELDS[type(fact)]:
        value = getattr(fact, name)
        if value is not None and value != usual:
            made[key] = value if whole else shortened(value)
    return cast("StoryFact", made)


def _is_long(value: JsonValue) -> bool:
    """Whether `shortened` would cut something of it."""
    if isinstance(value, str):
        return len(value) > MOST
    if isinstance(value, Fact):
        return any(_is_long(getattr(value, name)) for name, _, _ in _FIELDS[type(value)])
    if isinstance(value, Mapping):
        return any(map(_is_long, value.values()))
    return isinstance(value, list | tuple) and any(map(_is_long, value))


def shortened(value: JsonValue) -> JsonValue:
    """The same value with long texts cut; a cut text ends with an ellipsis."""
    if isinstance(value, str):
        return value if len(value) <= MOST else value[: MOST - 1] + "…"
    if isinstance(value, Mapping):
        return {key: shortened(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(each) for each in value]
    return value


_FIELDS: Mapping[type[Fact], list[tuple[str, str, JsonValue]]] = {
    kind: [
        (each.name, each.name.rstrip("_"), None if each.default is MISSING else each.default)
        for each in fields(kind)
    ]
    for kind in NATIVE_FACTS
}
"""The name, the key and the default of each field."""


question = Question(
    name="story",
    about="List the records of a run and what each means, oldest first, in any dialect. `next` is "
    "the `after` of the next page, and null at the end. A record that was withdrawn says "
    "`withdrawn`, one that was recorded again later `superseded`.",
    ask=story,
    params=(
        run_param(),
        integer("after", "Only records after this one.", least=0, default=0),
        integer(
            "before",
            "Return the last records before this number, instead of the first ones.",
            least=1,
        ),
        limit_param(1000),
        flag(
            "whole", "Return long texts in full; otherwise they are cut, and the record says `cut`."
        ),
    ),
    paths=("/api/runs/{family}/{run}/story",),
    fresh=False,
    examples=(
        "story agent-coder-1",
        "story agent-coder-1 --all | less",
        "story kahn:nightly --json | jq -r '.records[].words'",
    ),
)
