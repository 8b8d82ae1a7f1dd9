"""What a run's records mean, one after another, for whoever shows them and knows no dialect."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import islice
from typing import Any, NamedTuple

from tracklog.answers import Question, flag, run_param
from tracklog.answers import limit as limit_param
from tracklog.answers import whole as whole_number
from tracklog.answers.phrases import phrase, words
from tracklog.folds import Call, call_name, is_settled, original_call
from tracklog.home.home import Home
from tracklog.journal.frame import Record, Run
from tracklog.model.event import Finding
from tracklog.model.fact import FACTS, Called, Fact, Returned, Said
from tracklog.reading.record import Dialects
from tracklog.reading.walk import read_alone

PAGE = 1000
MOST = 4000
"""Characters of one text that are told; what is longer stands whole in its record."""


def story(
    home: Home,
    run: str,
    after: int = 0,
    limit: int = PAGE,
    *,
    before: int | None = None,
    whole: bool = False,
) -> dict[str, Any]:
    """The records of a run behind `after`, at most `limit`, each with what it means.

    With `before` it is the last of them that stand before that number.
    `next` is the `after` of the next page, and None at the end as it is now.
    A call or a result that another record tells, too, and that is counted there, says `again`.
    A record that was taken back says `withdrawn`, and one that was told again later, by a better
    mapping or with another content, `superseded`: as far as the index has come.
    """
    of = home.run(run)
    if before is None:
        records = list(islice(home.journal.records(after, run=of), limit + 1))
        more, records = len(records) > limit, records[:limit]
    else:
        records = _last(home, of, after, limit, before)
        more = bool(records) and any(True for _ in home.journal.records(records[-1].seq, run=of))
    ends: list[_End] = []
    rows = [told(record, home.dialects, whole=whole, ends=ends) for record in records]
    _mark(home, of, rows)
    _mark_calls(home, of, ends)
    return {
        "family": of[0],
        "run": of[1],
        "last": home.journal.last,
        "next": records[-1].seq if more else None,
        "records": rows,
    }


def _mark(home: Home, run: Run, rows: list[dict[str, Any]]) -> None:
    """Says of the records that count no more that they do not."""
    if not rows:
        return
    back = home.index.state("runs", ":".join(run)).withdrawn
    again = home.index.silent([row["seq"] for row in rows])
    for row in rows if back or again else ():
        if row["seq"] in again:
            row["superseded"] = True
        elif any(first <= row["seq"] <= last for first, last in back):
            row["withdrawn"] = True


class _End(NamedTuple):
    """One end of a tool call, as a record tells it."""

    seq: int
    name: str
    called: bool
    row: dict[str, Any]
    """What is said of it."""
    record: dict[str, Any]


def _mark_calls(home: Home, run: Run, ends: list[_End]) -> None:
    """Says of a call that is told again that it is, and of a result whose call was not heard.

    What counts is what `runs` and `tools` count: the one telling that the fold keeps.
    """
    if not ends:
        return
    calls = home.index.state("tools", ":".join(run)).calls
    shown: set[tuple[str, bool]] = set()
    for end in ends:
        name, kept = original_call(calls, end.name)
        if kept is None and not end.name.startswith("#"):
            continue  # the index has not come so far
        place = (name, end.called)
        if end.record.get("superseded") or end.row.get("copied"):
            continue
        seqs = kept if is_settled(kept) else kept[-2:] if kept else (0, end.seq)
        if kept is None:  # of one record only
            alone, counts = (name, True) not in shown, end.row.get("tool") is not None
        else:
            alone, counts = not seqs[0], is_settled(kept) or Call(*kept).counts
        if place in shown or (kept is not None and seqs[not end.called] != end.seq):
            end.row["again"] = True
            continue
        if not end.called and alone and counts:
            end.row["torn"] = True
        shown.add(place)


def _last(home: Home, run: Run, after: int, limit: int, before: int) -> list[Record]:
    """The last records of a run before a number; how far back they stand is found by doubling."""
    end = min(before, home.journal.last + 1)
    step = limit
    while True:
        begin = max(end - 1 - step, after, home.journal.first - 1)
        found = list(home.journal.records(begin, run=run, through=end - 1))
        if len(found) >= limit or begin <= max(after, home.journal.first - 1):
            return found[-limit:]
        step *= 4


def told(
    record: Record,
    dialects: Dialects,
    *,
    whole: bool = False,
    ends: list[_End] | None = None,
) -> dict[str, Any]:
    """One record, understood; what it does not say is left out, and what was cut says `cut`.

    The ends of tool calls are added to `ends`.
    """
    row: dict[str, Any] = {
        "seq": record.seq,
        "received": record.received,
        "dialect": record.dialect,
        "bytes": len(record.line),
    }
    _, event, facts, findings, position, *_ = read_alone(record, dialects)
    if event is None or position is None:
        kind = "damaged" if findings else "erased"
        return row | {"kind": kind, "words": kind, "facts": [], "findings": _found(findings)}
    row |= {"kind": event.kind, "at": event.at, "agent": event.actor, "words": words(facts)[:MOST]}
    row["facts"] = [fact_as_json(fact, whole=whole) for fact in facts]
    if ends is not None:
        ends += (
            _End(record.seq, call_name(position, fact), type(fact) is Called, said, row)
            for fact, said in zip(facts, row["facts"], strict=True)
            if isinstance(fact, Called | Returned)
        )
    # A text can only be too long in a line that is.
    if not whole and len(record.line) > MOST and any(map(_is_long, facts)):
        row["cut"] = True
    for key in [key for key, value in row.items() if value is None]:
        del row[key]
    if findings:
        row["findings"] = _found(findings)
    return row


def fact_as_json(fact: Fact, *, whole: bool = False) -> dict[str, Any]:
    """A fact by its name, in words and with what it says; a text that is cut ends with `…`."""
    said: dict[str, Any] = {"fact": type(fact).__name__}
    if not isinstance(fact, Said):
        said["words"] = phrase(fact)
    for name, key, usual in _FIELDS[type(fact)]:
        value = getattr(fact, name)
        if value is not None and value != usual:
            said[key] = value if whole else shortened(value)
    return said


def _is_long(value: Any) -> bool:
    """Whether `shortened` would cut something of it."""
    if isinstance(value, str):
        return len(value) > MOST
    if isinstance(value, Fact):
        return any(_is_long(getattr(value, name)) for name, _, _ in _FIELDS[type(value)])
    if isinstance(value, Mapping):
        return any(map(_is_long, value.values()))
    return isinstance(value, list | tuple) and any(map(_is_long, value))


def shortened(value: Any) -> Any:
    """The same value with long texts cut; what is cut says so by its last character."""
    if isinstance(value, str):
        return value if len(value) <= MOST else value[: MOST - 1] + "…"
    if isinstance(value, Mapping):
        return {key: shortened(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(each) for each in value]
    return value


_FIELDS: Mapping[type[Fact], list[tuple[str, str, Any]]] = {
    kind: [
        (each.name, each.name.rstrip("_"), None if each.default is MISSING else each.default)
        for each in fields(kind)
    ]
    for kind in FACTS
}
"""Of each field its name, its key, and what it says by default."""


def _found(findings: Sequence[Finding]) -> list[dict[str, str]]:
    return [finding._asdict() for finding in findings]


question = Question(
    name="story",
    about="List the records of a run and what each means, oldest first, in any dialect. `next` is "
    "the `after` of the next page, and null at the end. A record that was withdrawn says "
    "`withdrawn`, one that was recorded again later `superseded`.",
    ask=story,
    params=(
        run_param(),
        whole_number("after", "Only behind this record.", least=0, default=0),
        whole_number("before", "The last records before this number, not the first.", least=1),
        limit_param(1000),
        flag("whole", "Long texts uncut; a record that was cut says `cut`."),
    ),
    paths=("/api/runs/{family}/{run}/story",),
    fresh=False,
)
