"""Check a line: from bytes to an event, or to every reason why it is refused."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson
from jsonschema_rs import Draft202012Validator

from tracklog.dialects import Dialect, Shape
from tracklog.dialects.recognition import Recogniser
from tracklog.dialects.rules import Lint
from tracklog.dialects.schemas import schema_of
from tracklog.model import problems
from tracklog.model.event import Body, Event, Finding, Passed, Problem, Refusal
from tracklog.model.fact import Began, Ended
from tracklog.model.lines import CAP, Line, without_half_surrogates

Check = Callable[[bytes], Event | Refusal]


class CheckAll(Protocol):
    """Checks many lines; a body that was parsed before is not parsed again."""

    def __call__(
        self, lines: Sequence[bytes], bodies: Sequence[Body | None] | None = None, /
    ) -> list[Passed | Refusal]: ...


Judge = Callable[[Body], bool]
JudgeAll = Callable[[list[Body]], bool]
_J = TypeVar("_J", Judge, JudgeAll)
Alone = AbstractContextManager[object]
"""A lock for as long as a shape is compiled, which takes long: so threads that meet it at the same
time compile it once."""
_TOGETHER = nullcontext()


class LineVerdict(NamedTuple):
    """The result of the check of one line."""

    line: int
    result: Event | Refusal


class LocatedFinding(NamedTuple):
    """A finding and the line it belongs to; None for a finding at the end of the log."""

    line: int | None
    finding: Finding
    dialect: str | None = None
    run: str | None = None


def check(
    lines: Iterable[Line],
    dialects: Iterable[Dialect],
    cap: int = CAP,
    recogniser: Recogniser | None = None,
) -> Iterator[LineVerdict | LocatedFinding]:
    """Check every line alone, and the rules across lines.

    With one dialect, every line is read as that; with several, each line is recognised.
    """
    dialects = list(dialects)
    check_line, lint = checker_for(dialects, recogniser), Lint(dialects)
    for line in lines:
        if line.bom:
            yield LocatedFinding(
                line.number, Finding("bom", "a byte order mark was dropped", "info")
            )
        too_long = line.size > cap
        result = (
            Refusal((problems.too_long(line.size, cap),)) if too_long else check_line(line.data)
        )
        yield LineVerdict(line.number, result)
        if isinstance(result, Event):
            for finding in lint.add(result):
                yield LocatedFinding(line.number, finding, result.dialect, result.run)
        elif not line.whole:
            yield LocatedFinding(
                line.number, Finding("torn", "the last line has no line end", "warning")
            )
    for dialect, run, finding in lint.rest():
        yield LocatedFinding(None, finding, dialect, run)


def checker_for(
    dialects: Iterable[Dialect], recogniser: Recogniser | None = None, alone: Alone = _TOGETHER
) -> Check:
    """The check for lines of any of these dialects."""
    dialects = list(dialects)
    checks = {dialect.name: checker(dialect, alone) for dialect in dialects}
    if len(checks) == 1:
        return next(iter(checks.values()))
    recogniser = recogniser or Recogniser(dialects)

    def check_any(line: bytes) -> Event | Refusal:
        parsed = parse(line)
        if isinstance(parsed, Refusal):
            return parsed
        dialect = recogniser.of(parsed[0])
        if isinstance(dialect, Refusal):
            return dialect
        result = checks[dialect.name](line)
        base = checks.get(dialect.profile_of)
        if isinstance(result, Event) or base is None or dialect.shows(parsed[0]):
            return result
        # K24: a line that does not fit the profile may still be a good line of its base.
        other = base(line)
        return other if isinstance(other, Event) else result

    return check_any


def recognising_checker(
    dialects: Iterable[Dialect], recogniser: Recogniser, alone: Alone = _TOGETHER
) -> CheckAll:
    """The check for many lines of one source, where later lines may explain earlier ones."""
    check_line = checker_for(dialects, recogniser, alone)

    def check_lines(
        lines: Sequence[bytes], _bodies: Sequence[Body | None] | None = None, /
    ) -> list[Passed | Refusal]:
        recogniser.look_ahead(lines)
        return [passed(check_line(line)) for line in lines]

    return check_lines


def checker(dialect: Dialect, alone: Alone = _TOGETHER) -> Check:
    """The check for lines of one dialect; each line is parsed once and checked alone."""
    validators = _Validators(dialect, alone)
    name, family, read = dialect.name, dialect.family, dialect.read
    loads, judge_of, new = orjson.loads, validators.judge_of, tuple.__new__
    judges: dict[str, Judge] = {}

    def check_line(line: bytes) -> Event | Refusal:
        # The hot path: the unusual spellings here (13 for CR, tuple.__new__) were measured.
        body: Any = None
        try:
            body = loads(line)
            run, kind, at, id, actor, cause, other = read(body)
            valid = judges.get(kind) or judge_of(kind, judges, _judge)
            if valid(body) and 13 not in line:
                envelope = (name, other or family, run, kind, at, id, actor, cause, body, line, ())
                return new(Event, envelope)
        except (orjson.JSONDecodeError, AttributeError, TypeError):
            pass  # the slow path finds and names the problem
        return _explain(dialect, validators, line, body)

    return check_line


def passed(result: Event | Refusal) -> Passed | Refusal:
    """The fields of a checked line that are needed later."""
    if isinstance(result, Refusal):
        return result
    return tuple.__new__(Passed, _PASSED(result))


_PASSED = itemgetter(*map(Event._fields.index, Passed._fields))


_NEAR = 1 << 15  # bytes of lines that are checked in one call


def batch_checker(dialect: Dialect, alone: Alone = _TOGETHER) -> CheckAll:
    """The same for many lines: all in one call while they are good, else one by one."""
    validators, check_line = _Validators(dialect, alone), checker(dialect, alone)
    name, family, read = dialect.name, dialect.family, dialect.read
    loads, new = orjson.loads, tuple.__new__
    judges: dict[str, JudgeAll] = {}

    def all_valid(kinds: Iterable[str], bodies: Iterable[Body]) -> bool:
        alike: dict[str, list[Body]] = defaultdict(list)
        for kind, body in zip(kinds, bodies, strict=True):
            alike[kind].append(body)
        return all(
            (judges.get(kind) or validators.judge_of(kind, judges, _judge_all))(them)
            for kind, them in alike.items()
        )

    def check_some(
        lines: Sequence[bytes], written: Sequence[Body | None] | None
    ) -> list[Passed | Refusal]:
        # No Python loop reads a line here, and each kind is checked in one call: this is an eighth
        # of the time of the whole intake.
        try:
            if written is None:
                bodies = list(map(loads, lines))
            else:
                pairs = zip(written, lines, strict=True)
                bodies = [loads(line) if body is None else body for body, line in pairs]
            runs, kinds, _, ids, _, _, others = zip(*map(read, bodies), strict=True)
            if all_valid(kinds, bodies) and 13 not in b"".join(lines):
                families = [other or family for other in others] if any(others) else repeat(family)
                envelopes = zip(repeat(name), families, runs, kinds, ids, lines)
                return list(map(new, repeat(Passed), envelopes))
        except (orjson.JSONDecodeError, AttributeError, TypeError, LookupError, ValueError):
            pass  # one of them needs the slow path
        return [passed(check_line(line)) for line in lines]

    def check_lines(
        lines: Sequence[bytes], written: Sequence[Body | None] | None = None
    ) -> list[Passed | Refusal]:
        if written is None and len(lines) == 1:
            return [passed(check_line(lines[0]))]
        # Parsed lines take many times their size. They are released while they are in the
        # processor's cache: checking all lines of a request of 180 kB in one call is slower by a
        # third.
        step = max(1, _NEAR * len(lines) // (sum(map(len, lines)) or 1))
        results: list[Passed | Refusal] = []
        for at in range(0, len(lines), step):
            some = slice(at, at + step)
            results += check_some(lines[some], written and written[some])
        return results

    return check_lines


def parse(line: bytes, *, halves: bool = True) -> tuple[Body, tuple[Finding, ...]] | Refusal:
    """The object on a line, and the findings about its text."""
    try:
        body, odd = _loads(line) if halves else (orjson.loads(line), ())
    except orjson.JSONDecodeError as error:
        return Refusal((problems.unreadable(line, error),))
    if not isinstance(body, dict):
        return Refusal((problems.not_object(body),))
    if 13 in line:  # CR
        return Refusal((problems.CARRIAGE_RETURN,))
    return body, odd


def is_object(line: bytes) -> bool:
    """Whether a line is one complete JSON object: no more bytes can make another object of it."""
    try:
        return isinstance(_loads(line)[0], dict)
    except orjson.JSONDecodeError:
        return False


def _loads(line: bytes) -> tuple[Any, tuple[Finding, ...]]:
    try:
        return orjson.loads(line), ()
    except orjson.JSONDecodeError:
        repaired = without_half_surrogates(line)
        if repaired == line:
            raise
        return orjson.loads(repaired), (HALVES,)


HALVES = Finding("surrogate", "the line has half a surrogate pair, which is read as U+FFFD", "info")


def _explain(
    dialect: Dialect, validators: "_Validators", line: bytes, known: Any
) -> Event | Refusal:
    """The slow path: upcast old versions, try the tolerances, and name every problem.

    `known` is what the fast path parsed the line to, if it could.
    """
    parsed: tuple[Body, tuple[Finding, ...]] | Refusal
    if isinstance(known, dict) and 13 not in line:
        parsed = known, ()
    else:
        parsed = parse(line, halves=dialect.policy.halves)
    if isinstance(parsed, Refusal):
        return parsed._replace(dialect=dialect.name)
    lifted = upcast(dialect, parsed[0])
    if isinstance(lifted, Problem):
        return Refusal((lifted,), dialect.name)
    body, odd = dialect.tolerate(lifted)
    run, kind, at, id, actor, cause, other = dialect.read(body)
    faults = validators.faults(kind, body)
    if faults and dialect.excused:
        excused = dialect.excused.get(_word(kind) or "", frozenset())
        absent = {problems.pointer([key]) for key in excused if key not in body}
        faults = tuple(each for each in faults if each.pointer not in absent)
    if faults:
        return Refusal(faults, dialect.name, _word(kind), _word(run))
    family, findings = other or dialect.family, (*parsed[1], *odd)
    return Event(dialect.name, family, run, kind, at, id, actor, cause, body, line, findings)


def understand(dialect: Dialect, line: bytes) -> Event:
    """Read a line that passed the check before, without checking it again."""
    parsed, halves = _loads(line)
    lifted = upcast(dialect, parsed)
    assert not isinstance(lifted, Problem), "intake accepts no newer version"
    body, odd = dialect.tolerate(lifted)
    run, kind, at, id, actor, cause, other = dialect.read(body)
    family, findings = other or dialect.family, (*halves, *odd)
    return Event(dialect.name, family, run, kind, at, id, actor, cause, body, line, findings)


def understood(dialect: Dialect, line: bytes) -> Event | None:
    """The same for a line that may be damaged since; None when it cannot be read any more."""
    try:
        return understand(dialect, line)
    except Exception:  # noqa: BLE001  # a dialect may stumble anywhere over what it never let in
        return None


def begins_or_ends(dialect: Dialect, line: bytes) -> bool:
    """Whether something begins or ends with a line that passed the check before."""
    facts = dialect.facts(understand(dialect, line))
    return any(isinstance(fact, Began | Ended) for fact in facts)


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def upcast(dialect: Dialect, body: Body) -> Body | Problem:
    """The body in the current version; the stored line is never rewritten."""
    key = dialect.version_key
    if key is None:
        return body
    version = body.get(key)
    if not isinstance(version, int) or isinstance(version, bool):
        return body
    if version > dialect.current:
        return Problem(
            problems.pointer([key]),
            f"version {version} is newer than {dialect.current}, the newest known here",
            "update tracklog to read it",
            "newer-version",
        )
    while version < dialect.current and version in dialect.upcasts:
        body = dialect.upcasts[version](body)
        version += 1
    return body


KINDS_CACHED = 4096
"""How many kinds of an open vocabulary are remembered."""


@cache
def _compiled(shape: type[Shape]) -> tuple[Draft202012Validator, dict[str, Any]]:
    """The validator of a shape, compiled on first use, and its schema."""
    schema = schema_of(shape)
    return Draft202012Validator(schema, validate_formats=True), schema


def _judge(shape: type[Shape]) -> Judge:
    return _compiled(shape)[0].is_valid


@cache
def _judge_all(shape: type[Shape]) -> JudgeAll:
    """The same for a list of bodies, in one call of the validator."""
    schema = dict(_compiled(shape)[1])
    shared = {"$defs": schema.pop("$defs", {})}
    return Draft202012Validator({"items": schema} | shared, validate_formats=True).is_valid


def _never(_: object) -> bool:
    return False


class _Validators:
    """The validators for the kinds of one dialect."""

    def __init__(self, dialect: Dialect, alone: Alone) -> None:
        self.dialect, self.alone = dialect, alone
        self.open = dialect.policy.kinds == "open"

    def judge_of(
        self, kind: Any, judges: dict[str, _J], compiled: Callable[[type[Shape]], _J]
    ) -> _J:
        """The function that says whether bodies of that kind are valid; cached."""
        if not self.open and kind not in self.dialect.kinds:
            return _never
        with self.alone:
            judge = compiled(self.dialect.kinds.get(kind, self.dialect.frame))
        if len(judges) < KINDS_CACHED:
            judges[kind] = judge
        return judge

    def faults(self, kind: Any, body: Body) -> tuple[Problem, ...]:
        """Every error of a body."""
        known = isinstance(kind, str) and kind in self.dialect.kinds
        validator, schema = _compiled(self.dialect.kinds[kind] if known else self.dialect.frame)
        faults = problems.of(validator.iter_errors(body), schema, body)
        if known or self.open:
            return faults
        unknown = problems.unknown_kind(self.dialect.kind_key, body, list(self.dialect.kinds))
        return (unknown, *(each for each in faults if each.pointer != unknown.pointer))
