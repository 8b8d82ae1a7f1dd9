"""Convert a run to another dialect, with a report of what happened to each field.

Each converted line is checked by the target dialect and read back, so the report is measured: a
field is kept when the reader of the converted line finds it again. Fields that the dialect cannot
express are carried: a converted line holds, in an extension, the lines it was made from, and
converting back restores them byte for byte.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from hashlib import sha256
from typing import Any

import orjson

from tracklog.dialects import Dialect, Scene, Shape
from tracklog.dialects.checking import Check, checker
from tracklog.formats.coverage import UncoveredFields
from tracklog.formats.exporters import utc
from tracklog.formats.loss import Fate, LossReport
from tracklog.journal.frame import Record
from tracklog.model.event import Body, Event
from tracklog.model.fact import Ended, Fact, Noted
from tracklog.reading.record import Dialects, facts_of
from tracklog.reading.walk import Reading, Records, walk

MAPPING = "1"
"""The version of the mapping from facts to lines; it is part of the ids that are made."""
CARRIED = 4 * 1024 * 1024
"""How many bytes of lines one converted line may carry."""
REPAIRS = 8
"""How often a line is tried again without the fields that the check refused."""


def convert(
    records: Records,
    dialects: Dialects,
    to: Dialect,
    report: LossReport | None = None,
    *,
    carry: bool = True,
) -> Iterator[bytes]:
    """The records as lines of another dialect, each of which passes the check of that dialect.

    A superseded record is carried and not converted: the records of the newer mapping are. The
    records are held in memory unless they can be iterated twice.

    A line that is in that dialect already, or is of a related dialect and passes the check, is
    yielded byte for byte. The report is filled while the lines are consumed; it is complete after
    the last one.
    """
    converter = _Converter(dialects, to, LossReport() if report is None else report, carry=carry)
    for reading in walk(records, dialects):
        yield from converter.add(reading)
    converter.end()


@dataclass(slots=True)
class _SourceLine:
    """A line that is converted, until the fate of its fields is known."""

    event: Event
    facts: list[Fact]
    copies: dict[int, Fact] = field(default_factory=dict)
    """The fact that was read back for each fact, by its position."""
    unmatched: list[Fact] = field(default_factory=list)
    """Facts that were read back and are not in this line."""
    lines: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class _Run:
    """The state of one run between its lines."""

    memory: dict[str, Any] = field(default_factory=dict)
    written: int = 0
    pending: list[_SourceLine] = field(default_factory=list)
    """Lines that produced nothing yet; the next converted line carries them."""
    size: int = 0
    restored: int = 0
    """The number of the last line whose own source was restored."""


class _Converter:
    def __init__(
        self, dialects: Mapping[str, Dialect], to: Dialect, report: LossReport, *, carry: bool
    ) -> None:
        self.dialects, self.to, self.report, self.carry = dialects, to, report, carry
        self.check = _check_of(to)
        self.uncovered = {to.name: UncoveredFields(to)}
        self.runs: dict[tuple[str, str], _Run] = {}
        self.form = _form(to)

    def add(self, reading: Reading) -> Iterator[bytes]:
        record, event = reading.record, reading.event
        if event is None:
            if record.line:
                self.report.add(record.dialect, "line", "dropped")
            return
        if reading.marks and record.dialect != self.to.name:
            self.report.add("Marked", "line", "dropped")  # only its own dialect has a line for it
            return
        run = self.runs.setdefault((event.family, event.run), _Run())
        carried = _carried(self.dialects[record.dialect], event)
        if record.dialect == self.to.name or (carried is None and self._is_theirs(event)):
            run.written += 1
            yield record.line
            return
        if carried is not None:
            event = event._replace(body=_without(event.body, self.dialects[record.dialect]))
            yield from self._restored(carried, record, run)
            if run.restored == carried["of"]:
                return
        if reading.counts:
            yield from self._convert(event, record, run, 0)
        else:
            self._wait(_SourceLine(event, []), run)

    def end(self) -> None:
        """Report the lines that no converted line carries as dropped."""
        for run in self.runs.values():
            for source in run.pending:
                self._settle(source, carried=False)
            run.pending = []

    def _restored(self, carried: Body, record: Record, run: _Run) -> Iterator[bytes]:
        """The lines that a converted line was made from, each once."""
        if carried.get("own") is True:
            run.restored = carried["of"]
        for number, (name, line) in enumerate(carried.get("lines", ())):
            dialect = self.dialects.get(name)
            result = None if dialect is None else _check_of(dialect)(line.encode())
            if not isinstance(result, Event):
                self.report.add(name, "line", "dropped")
            elif name == self.to.name or self._is_theirs(result):
                run.written += 1
                yield result.line
            else:
                yield from self._convert(result, record, run, number + 1)

    def _is_theirs(self, event: Event) -> bool:
        """Whether a line of a related dialect is also a valid line of the target dialect."""
        return event.family == self.to.family and isinstance(self.check(event.line), Event)

    def _convert(self, event: Event, record: Record, run: _Run, number: int) -> Iterator[bytes]:
        dialect = self.dialects[event.dialect]
        source = _SourceLine(event, facts_of(dialect, event)[0])
        unique = dialect.policy.identity == "refuse"
        at = utc(event.at) or record.received
        # Spends are written before the end of the run that they came with: nothing may follow the
        # end.
        for place, fact in sorted(enumerate(source.facts), key=lambda each: _is_end(each[1])):
            k = f"0/{number}" if unique else f"{record.seq}/{number}"
            id, timed = _id(event, k, place), event.at is not None
            scene = Scene(event.run or "unknown", at, run.written + 1, id, run.memory, timed)
            line = self._write(fact, scene)
            if line is not None:
                run.written += 1
                source.lines.append(line)
                self._match(source, place, line, run)
        if source.lines:
            yield from self._with_load(source, record.seq, run)
        else:
            self._wait(source, run)

    def _write(self, fact: Fact, scene: Scene) -> Event | None:
        """A line that passes the check; fields that it refuses are left out."""
        body = self.to.write(fact, scene)
        for _ in range(REPAIRS):
            if body is None:
                return None
            line = _dumps(body)
            result = self.check(line)
            if isinstance(result, Event):
                return result
            body = orjson.loads(line)
            cuts = [_cut(body, problem.pointer) for problem in result.problems]
            if not any(cuts):
                return None
        return None

    def _match(self, source: _SourceLine, place: int, line: Event, run: _Run) -> None:
        """Match the facts that are read back from a converted line with the facts of the source."""
        waiting = [(each, at) for each in (*run.pending, source) for at in range(len(each.facts))]
        waiting.sort(key=lambda pair: pair != (source, place))
        for read_back in facts_of(self.to, line)[0]:
            for each, at in waiting:
                if at not in each.copies and _answers(each.facts[at], read_back):
                    each.copies[at] = read_back
                    break
            else:
                # A line stands for its fact, even where every name in it had to change.
                if place not in source.copies and type(read_back) is type(source.facts[place]):
                    source.copies[place] = read_back
                else:
                    source.unmatched.append(read_back)

    def _wait(self, source: _SourceLine, run: _Run) -> None:
        size = len(source.event.line)
        while run.pending and run.size + size > CARRIED:
            lost = run.pending.pop(0)
            run.size -= len(lost.event.line)
            self._settle(lost, carried=False)
        run.pending.append(source)
        run.size += size

    def _with_load(self, source: _SourceLine, seq: int, run: _Run) -> Iterator[bytes]:
        """The converted lines of a source; the first carries the lines they were made from."""
        made_of = [*run.pending, source]
        run.pending, run.size = [], 0
        fits = [self.carry and self.to.carries(each.event, each.facts) for each in made_of]
        lines = [
            [each.event.dialect, each.event.line.decode()]
            for each, fit in zip(made_of, fits, strict=True)
            if fit
        ]
        load = {"of": seq, "own": fits[-1], "lines": lines}
        first = self._with(source.lines[0], load) if lines else None
        for each, fit in zip(made_of, fits, strict=True):
            self._settle(each, carried=fit and first is not None)
        if first is None:
            yield from (line.line for line in source.lines)
            return
        yield first
        for line in source.lines[1:]:
            yield (fits[-1] and self._with(line, {"of": seq})) or line.line

    def _with(self, line: Event, load: Body) -> bytes | None:
        """The line with its load, if it still passes the check."""
        body = orjson.loads(line.line)
        _put(body, self.to.extension, load)
        loaded = _dumps(body)
        return loaded if isinstance(self.check(loaded), Event) else None

    def _settle(self, source: _SourceLine, *, carried: bool) -> None:
        """Report the fate of each field, once nothing more will be written for its line."""
        event, kind = source.event, source.event.kind
        lost: Fate = "carried" if carried else "dropped"
        for at, fact in enumerate(source.facts):
            written, copied = _plain(fact), _plain(source.copies.get(at))
            name = type(fact).__name__
            for key, value in written.items():
                same = key in copied and copied[key] == value
                self.report.add(kind, f"{name}.{key}", "kept" if same else lost)
            for key in copied.keys() - written.keys():
                if not _is_made(copied[key], source):
                    self.report.add(kind, f"{name}.{key}", "synthesised")
        self._settle_envelope(source, lost)
        if event.dialect not in self.uncovered:
            self.uncovered[event.dialect] = UncoveredFields(self.dialects[event.dialect])
        for pointer in self.uncovered[event.dialect](event):
            self.report.add(kind, pointer, lost)
        for read_back in source.unmatched:
            if not isinstance(read_back, Noted):  # a kind without a fact of its own is only noted
                for key in _plain(read_back):
                    self.report.add(kind, f"{type(read_back).__name__}.{key}", "synthesised")
        values = set(_scalars([_plain(fact) for fact in source.facts]))
        for line in source.lines:
            for pointer in self.uncovered[self.to.name](line):
                value = _at(line.body, pointer)
                if not self.form(pointer) and _scalar(value) not in values:
                    self.report.add(kind, f"{line.kind}{pointer}", "synthesised")

    def _settle_envelope(self, source: _SourceLine, lost: Fate) -> None:
        event = source.event
        written = source.lines[0] if source.lines else None
        pairs = {
            "run": (event.run, written and written.run),
            "at": (utc(event.at) or event.at, written and utc(written.at)),
            "id": (event.id, written and written.id),
            "cause": (event.cause, written and written.cause),
        }
        for name, (original, read_back) in pairs.items():
            if original is not None:
                fate = (
                    "kept"
                    if written is not None and _trimmed(read_back) == _trimmed(original)
                    else lost
                )
                self.report.add(event.kind, name, fate)
        if written is not None and event.at is None and written.at is not None:
            self.report.add(event.kind, "at", "synthesised")


def _is_end(fact: Fact) -> bool:
    return isinstance(fact, Ended) and fact.what != "step"


def _trimmed(value: Any) -> Any:
    """A time without trailing zeros."""
    if isinstance(value, str) and value.endswith("Z") and "." in value:
        return value[:-1].rstrip("0").rstrip(".") + "Z"
    return value


def _carried(dialect: Dialect, event: Event) -> Body | None:
    """The load of a converted line; None where it has none."""
    load: Any = event.body
    for key in dialect.extension:
        load = load.get(key) if isinstance(load, dict) else None
    if not isinstance(load, dict) or not isinstance(load.get("of"), int):
        return None
    lines = load.get("lines", [])
    sound = isinstance(lines, list) and all(
        isinstance(each, list) and [type(part) for part in each] == [str, str] for each in lines
    )
    return load if sound else None


def _without(body: Body, dialect: Dialect) -> Body:
    """The body without its load."""
    bare = copy.deepcopy(body)
    place = bare
    for key in dialect.extension[:-1]:
        place = place[key]
    del place[dialect.extension[-1]]
    return bare


def _put(body: Body, path: tuple[str, ...], load: Body) -> None:
    for key in path[:-1]:
        body = body.setdefault(key, {})
    body[path[-1]] = load


def _id(event: Event, k: str, n: int) -> str:
    """The id of the n-th line made from a source line, the same on every conversion."""
    digest = sha256(event.line).hexdigest()
    parts = ("convert", MAPPING, event.run, digest, k, str(n))
    return sha256("\n".join(parts).encode()).digest()[:16].hex()


def _dumps(body: Body) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # too deep, or a number too large, for orjson
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _cut(body: Any, pointer: str) -> bool:
    """Remove the value at a pointer; returns whether there was one."""
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    for key in keys[:-1]:
        if isinstance(body, list) and key.isdecimal() and int(key) < len(body):
            body = body[int(key)]
        elif isinstance(body, dict) and key in body:
            body = body[key]
        else:
            return False
    if isinstance(body, dict) and keys and keys[-1] in body:
        del body[keys[-1]]
        return True
    return False


def _plain(fact: Fact | None) -> dict[str, Any]:
    """The fields of a fact as JSON values."""
    if fact is None:
        return {}
    written = {}
    for item in fields(fact):
        value = getattr(fact, item.name)
        if value is not None and (item.default is MISSING or value != item.default):
            written[item.name.rstrip("_")] = _listed(value)
    return written


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_listed(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _listed(each) for key, each in value.items() if key != "converted"}
    return value


NAMES = ("call_id", "question_id", "tool", "step", "what", "role", "name", "kind", "label", "key")
"""The fields by which a fact and its copy are matched."""


def _answers(fact: Fact, other: Fact) -> bool:
    """Whether a fact that was read back is the one that was written."""
    if type(fact) is not type(other):
        return False
    written, read = _plain(fact), _plain(other)
    shared = [name for name in NAMES if name in written and name in read]
    return not shared or any(written[name] == read[name] for name in shared)


def _is_made(value: Any, source: _SourceLine) -> bool:
    """Whether a value is an id that was generated for its line."""
    return any(value == line.id for line in source.lines)


def _scalar(value: Any) -> Any:
    return None if isinstance(value, list | dict | bool) or value in ("", 0) else value


def _scalars(value: Any) -> Iterator[Any]:
    """The names and numbers within, without values that are too common to compare."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _scalars(each)
    elif isinstance(value, list):
        for each in value:
            yield from _scalars(each)
    elif _scalar(value) is not None:
        yield value


def _form(dialect: Dialect) -> Callable[[str], bool]:
    """A test for places that every line of the dialect has, and that carry no information."""
    flat, deep = set(), {dialect.extension[0]}
    for name, info in dialect.frame.model_fields.items():
        key = info.alias or name
        flat.add(key)
        if isinstance(info.annotation, type) and issubclass(info.annotation, Shape):
            deep.add(key)

    def is_form(pointer: str) -> bool:
        top, _, rest = pointer[1:].partition("/")
        return top in deep or top == dialect.kind_key or (top in flat and not rest)

    return is_form


def _at(body: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        if isinstance(body, list):
            body = body[0] if body else None
        elif isinstance(body, dict):
            body = body.get(key)
    return body


_checkers: dict[str, tuple[Dialect, Check]] = {}


def _check_of(dialect: Dialect) -> Check:
    """The check of a dialect, compiled once."""
    known = _checkers.get(dialect.name)
    if known is None or known[0] is not dialect:
        known = _checkers[dialect.name] = dialect, checker(dialect)
    return known[1]
