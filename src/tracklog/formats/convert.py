"""A run told in another dialect, with a report of what became of each field.

What a dialect says of a fact is checked by its own door and read back, so the report is not a
promise but an observation: a field is kept when the reader of the converted line hears it.
What the dialect has no word for rides along: a converted line carries, in an extension, the
lines that it was made of, and converting back restores them to the byte.
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
from tracklog.formats.coverage import Untold
from tracklog.formats.exporters import utc
from tracklog.formats.loss import Fate, Report
from tracklog.journal.frame import Record
from tracklog.model.event import Body, Event
from tracklog.model.fact import Ended, Fact, Noted
from tracklog.reading.record import Dialects, facts_of
from tracklog.reading.walk import Reading, Records, walk

MAPPING = "1"
"""The version of what `say` makes of facts; it is part of the ids that are made."""
CARRIED = 4 * 1024 * 1024
"""How many bytes of lines one converted line may carry."""
MENDS = 8
"""How often a sentence is tried again without what the door did not take."""


def convert(
    records: Records,
    dialects: Dialects,
    to: Dialect,
    report: Report | None = None,
    *,
    carry: bool = True,
) -> Iterator[bytes]:
    """The records as lines of another dialect, each of which its door takes.

    A superseded record is carried along and not told: those of the newer mapping are.
    The records are held in memory unless they can be asked for twice.

    A line that is in that dialect already, or is of a sister dialect and passes the door as it
    stands, is yielded as it is, byte for byte.
    The report is filled while the lines are taken; it is complete behind the last one.
    """
    telling = _Telling(dialects, to, Report() if report is None else report, carry=carry)
    for reading in walk(records, dialects):
        yield from telling.hear(reading)
    telling.end()


@dataclass(slots=True)
class _Source:
    """A line that is told in other words, until it is known what became of it."""

    event: Event
    facts: list[Fact]
    told: dict[int, Fact] = field(default_factory=dict)
    """What was read back of each fact, by its place."""
    unheard: list[Fact] = field(default_factory=list)
    """What was read back and is no fact of this line."""
    lines: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class _Run:
    """What is remembered of one run between its lines."""

    memory: dict[str, Any] = field(default_factory=dict)
    said: int = 0
    silent: list[_Source] = field(default_factory=list)
    """Lines that nothing was said of yet; the next sentence carries them."""
    size: int = 0
    restored: int = 0
    """The last line whose own source was restored, by its number there."""


class _Telling:
    def __init__(
        self, dialects: Mapping[str, Dialect], to: Dialect, report: Report, *, carry: bool
    ) -> None:
        self.dialects, self.to, self.report, self.carry = dialects, to, report, carry
        self.door = _door(to)
        self.untold = {to.name: Untold(to)}
        self.runs: dict[tuple[str, str], _Run] = {}
        self.form = _form(to)

    def hear(self, reading: Reading) -> Iterator[bytes]:
        record, event = reading.record, reading.event
        if event is None:
            if record.line:
                self.report.add(record.dialect, "line", "dropped")
            return
        run = self.runs.setdefault((event.family, event.run), _Run())
        carried = _carried(self.dialects[record.dialect], event)
        if record.dialect == self.to.name or (carried is None and self._is_theirs(event)):
            run.said += 1
            yield record.line
            return
        if carried is not None:
            event = event._replace(body=_without(event.body, self.dialects[record.dialect]))
            yield from self._restored(carried, record, run)
            if run.restored == carried["of"]:
                return
        if reading.counts:
            yield from self._tell(event, record, run, 0)
        else:
            self._wait(_Source(event, []), run)

    def end(self) -> None:
        """What nothing was said of by now is lost."""
        for run in self.runs.values():
            for source in run.silent:
                self._settle(source, carried=False)
            run.silent = []

    def _restored(self, carried: Body, record: Record, run: _Run) -> Iterator[bytes]:
        """The lines that a converted line was made of, each told once."""
        if carried.get("own") is True:
            run.restored = carried["of"]
        for number, (name, line) in enumerate(carried.get("lines", ())):
            dialect = self.dialects.get(name)
            heard = None if dialect is None else _door(dialect)(line.encode())
            if not isinstance(heard, Event):
                self.report.add(name, "line", "dropped")
            elif name == self.to.name or self._is_theirs(heard):
                run.said += 1
                yield heard.line
            else:
                yield from self._tell(heard, record, run, number + 1)

    def _is_theirs(self, event: Event) -> bool:
        """Whether a line of a sister dialect is one of the target's, too, as it stands."""
        return event.family == self.to.family and isinstance(self.door(event.line), Event)

    def _tell(self, event: Event, record: Record, run: _Run, number: int) -> Iterator[bytes]:
        dialect = self.dialects[event.dialect]
        source = _Source(event, facts_of(dialect, event)[0])
        unique = dialect.policy.identity == "refuse"
        at = utc(event.at) or record.received
        # What was spent is told before the end that it was told with: nothing comes after that.
        for place, fact in sorted(enumerate(source.facts), key=lambda each: _is_end(each[1])):
            k = f"0/{number}" if unique else f"{record.seq}/{number}"
            id, timed = _id(event, k, place), event.at is not None
            scene = Scene(event.run or "unknown", at, run.said + 1, id, run.memory, timed)
            line = self._say(fact, scene)
            if line is not None:
                run.said += 1
                source.lines.append(line)
                self._listen(source, place, line, run)
        if source.lines:
            yield from self._loaded(source, record.seq, run)
        else:
            self._wait(source, run)

    def _say(self, fact: Fact, scene: Scene) -> Event | None:
        """A sentence that the door takes; what it does not take is left out."""
        body = self.to.say(fact, scene)
        for _ in range(MENDS):
            if body is None:
                return None
            line = _dumps(body)
            heard = self.door(line)
            if isinstance(heard, Event):
                return heard
            body = orjson.loads(line)
            cuts = [_cut(body, problem.pointer) for problem in heard.problems]
            if not any(cuts):
                return None
        return None

    def _listen(self, source: _Source, place: int, line: Event, run: _Run) -> None:
        """Which facts the reader of a converted line hears."""
        waiting = [(each, at) for each in (*run.silent, source) for at in range(len(each.facts))]
        waiting.sort(key=lambda pair: pair != (source, place))
        for told in facts_of(self.to, line)[0]:
            for each, at in waiting:
                if at not in each.told and _answers(each.facts[at], told):
                    each.told[at] = told
                    break
            else:
                # A sentence tells its fact, even where every name of it had to change.
                if place not in source.told and type(told) is type(source.facts[place]):
                    source.told[place] = told
                else:
                    source.unheard.append(told)

    def _wait(self, source: _Source, run: _Run) -> None:
        size = len(source.event.line)
        while run.silent and run.size + size > CARRIED:
            lost = run.silent.pop(0)
            run.size -= len(lost.event.line)
            self._settle(lost, carried=False)
        run.silent.append(source)
        run.size += size

    def _loaded(self, source: _Source, seq: int, run: _Run) -> Iterator[bytes]:
        """The sentences of a line; the first carries what it was made of."""
        made_of = [*run.silent, source]
        run.silent, run.size = [], 0
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
        """The line with its load, if the door takes it."""
        body = orjson.loads(line.line)
        _put(body, self.to.extension, load)
        whole = _dumps(body)
        return whole if isinstance(self.door(whole), Event) else None

    def _settle(self, source: _Source, *, carried: bool) -> None:
        """What became of each field, now that nothing more will be said of its line."""
        event, kind = source.event, source.event.kind
        lost: Fate = "carried" if carried else "dropped"
        for at, fact in enumerate(source.facts):
            said, heard = _plain(fact), _plain(source.told.get(at))
            name = type(fact).__name__
            for key, value in said.items():
                same = key in heard and heard[key] == value
                self.report.add(kind, f"{name}.{key}", "kept" if same else lost)
            for key in heard.keys() - said.keys():
                if not _is_made(heard[key], source):
                    self.report.add(kind, f"{name}.{key}", "synthesised")
        self._settle_envelope(source, lost)
        if event.dialect not in self.untold:
            self.untold[event.dialect] = Untold(self.dialects[event.dialect])
        for pointer in self.untold[event.dialect](event):
            self.report.add(kind, pointer, lost)
        for told in source.unheard:
            if not isinstance(told, Noted):  # a kind of its own is no more than noted
                for key in _plain(told):
                    self.report.add(kind, f"{type(told).__name__}.{key}", "synthesised")
        known = set(_scalars([_plain(fact) for fact in source.facts]))
        for line in source.lines:
            for pointer in self.untold[self.to.name](line):
                value = _at(line.body, pointer)
                if not self.form(pointer) and _scalar(value) not in known:
                    self.report.add(kind, f"{line.kind}{pointer}", "synthesised")

    def _settle_envelope(self, source: _Source, lost: Fate) -> None:
        event = source.event
        said = source.lines[0] if source.lines else None
        pairs = {
            "run": (event.run, said and said.run),
            "at": (utc(event.at) or event.at, said and utc(said.at)),
            "id": (event.id, said and said.id),
            "cause": (event.cause, said and said.cause),
        }
        for name, (given, told) in pairs.items():
            if given is not None:
                fate = "kept" if said is not None and _moment(told) == _moment(given) else lost
                self.report.add(event.kind, name, fate)
        if said is not None and event.at is None and said.at is not None:
            self.report.add(event.kind, "at", "synthesised")


def _is_end(fact: Fact) -> bool:
    return isinstance(fact, Ended) and fact.what != "step"


def _moment(value: Any) -> Any:
    """A time without the zeros behind it."""
    if isinstance(value, str) and value.endswith("Z") and "." in value:
        return value[:-1].rstrip("0").rstrip(".") + "Z"
    return value


def _carried(dialect: Dialect, event: Event) -> Body | None:
    """What a converted line carries, where it is one."""
    found: Any = event.body
    for key in dialect.extension:
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("of"), int):
        return None
    lines = found.get("lines", [])
    sound = isinstance(lines, list) and all(
        isinstance(each, list) and [type(part) for part in each] == [str, str] for each in lines
    )
    return found if sound else None


def _without(body: Body, dialect: Dialect) -> Body:
    """The body as it would be if it carried nothing."""
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
    """The id of the n-th sentence made of a line, the same on every conversion."""
    digest = sha256(event.line).hexdigest()
    parts = ("convert", MAPPING, event.run, digest, k, str(n))
    return sha256("\n".join(parts).encode()).digest()[:16].hex()


def _dumps(body: Body) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # deeper, or a greater number, than it writes
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _cut(body: Any, pointer: str) -> bool:
    """Takes out what a pointer names; whether there was something to take."""
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
    """What a fact says, as JSON values."""
    if fact is None:
        return {}
    said = {}
    for item in fields(fact):
        value = getattr(fact, item.name)
        if value is not None and (item.default is MISSING or value != item.default):
            said[item.name.rstrip("_")] = _listed(value)
    return said


def _listed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_listed(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _listed(each) for key, each in value.items() if key != "converted"}
    return value


NAMES = ("call_id", "question_id", "tool", "step", "what", "role", "name", "kind", "label", "key")
"""The fields by which two tellings of one fact are known to be that."""


def _answers(fact: Fact, told: Fact) -> bool:
    """Whether a fact that was read back is the one that was told."""
    if type(fact) is not type(told):
        return False
    said, heard = _plain(fact), _plain(told)
    shared = [name for name in NAMES if name in said and name in heard]
    return not shared or any(said[name] == heard[name] for name in shared)


def _is_made(value: Any, source: _Source) -> bool:
    """Whether a value is an id that was made for its line; those follow a rule."""
    return any(value == line.id for line in source.lines)


def _scalar(value: Any) -> Any:
    return None if isinstance(value, list | dict | bool) or value in ("", 0) else value


def _scalars(value: Any) -> Iterator[Any]:
    """The names and numbers within, without those that anything could have."""
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _scalars(each)
    elif isinstance(value, list):
        for each in value:
            yield from _scalars(each)
    elif _scalar(value) is not None:
        yield value


def _form(dialect: Dialect) -> Callable[[str], bool]:
    """Whether a place belongs to the form of every line, and tells nothing of its own."""
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


_doors: dict[str, tuple[Dialect, Check]] = {}


def _door(dialect: Dialect) -> Check:
    """The check of a dialect, compiled once."""
    known = _doors.get(dialect.name)
    if known is None or known[0] is not dialect:
        known = _doors[dialect.name] = dialect, checker(dialect)
    return known[1]
