"""The check at the door: from bytes to an event, or to every reason why not."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import orjson
from jsonschema_rs import Draft202012Validator

from tracklog import problems
from tracklog.dialects import Dialect, Shape
from tracklog.event import Body, Event, Finding, Problem, Refusal
from tracklog.lines import CAP, Line
from tracklog.lint import Lint
from tracklog.schemas import schema_of

Check = Callable[[bytes], Event | Refusal]


class Verdict(NamedTuple):
    """What became of one line of a source."""

    line: int
    result: Event | Refusal


class Found(NamedTuple):
    """A finding, and the line at which it showed; None when it showed at the end."""

    line: int | None
    finding: Finding
    dialect: str | None = None
    run: str | None = None


def check(
    lines: Iterable[Line], dialects: Iterable[Dialect], cap: int = CAP
) -> Iterator[Verdict | Found]:
    """A verdict for every line, each judged alone, and what is surprising across them.

    Given one dialect, every line is read as that; given several, each line is recognised.
    """
    door, lint = door_for(dialects), Lint(dialects := list(dialects))
    for line in lines:
        if line.bom:
            yield Found(line.number, Finding("bom", "a byte order mark was dropped", "info"))
        too_long = line.size > cap
        result = Refusal((problems.too_long(line.size, cap),)) if too_long else door(line.data)
        yield Verdict(line.number, result)
        if isinstance(result, Event):
            for finding in lint.hear(result):
                yield Found(line.number, finding, result.dialect, result.run)
        elif not line.whole:
            yield Found(line.number, Finding("torn", "the last line has no line end", "warning"))
    for dialect, run, finding in lint.rest():
        yield Found(None, finding, dialect, run)


def door_for(dialects: Iterable[Dialect]) -> Check:
    """The check for lines that may be of any of these dialects."""
    checks = {dialect.name: checker(dialect) for dialect in dialects}
    if len(checks) == 1:
        return next(iter(checks.values()))
    known = [dialect for dialect in dialects if dialect.guessed]

    def check_any(line: bytes) -> Event | Refusal:
        body = parse(line)
        dialect = body if isinstance(body, Refusal) else recognise(body, known)
        return dialect if isinstance(dialect, Refusal) else checks[dialect.name](line)

    return check_any


def recognise(body: Body, dialects: Iterable[Dialect]) -> Dialect | Refusal:
    """The one dialect that a body is in; two that fit equally well are said, never guessed."""
    claims = sorted(((d.claim(body), d.name, d) for d in dialects), reverse=True)
    best = claims[0][0] if claims else 0
    fitting = [dialect for claim, _, dialect in claims if claim == best]
    if best < 0.5:
        message = "no dialect is recognised in this object"
        hint = "say which one it is with --dialect; `tracklog dialects` lists them"
    elif len(fitting) > 1:
        names = sorted(dialect.name for dialect in fitting)
        message = f"ambiguous: this could be {' or '.join(names)}"
        hint = f"say which one with --dialect {names[0]}"
    else:
        return fitting[0]
    return Refusal((Problem("", message, hint),))


def checker(dialect: Dialect) -> Check:
    """The check for lines of one dialect: parsed once, judged alone."""
    validators = _Validators(dialect)
    name, family, read, loads = dialect.name, dialect.family, dialect.read, orjson.loads

    def check_line(line: bytes) -> Event | Refusal:
        try:
            body = loads(line)
            run, kind, at, id, actor, cause, other = read(body)
            validator = validators[kind]
            if validator is not None and validator.is_valid(body) and b"\r" not in line:
                return Event(name, other or family, run, kind, at, id, actor, cause, body, line)
        except (orjson.JSONDecodeError, AttributeError, TypeError):
            pass  # whatever is wrong with it, the slow path says it in words
        return _explain(dialect, validators, line)

    return check_line


def parse(line: bytes) -> Body | Refusal:
    """The object on a line."""
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Refusal((problems.unreadable(line, error),))
    if not isinstance(body, dict):
        return Refusal((problems.not_object(body),))
    if b"\r" in line:
        return Refusal((problems.CARRIAGE_RETURN,))
    return body


def _explain(dialect: Dialect, validators: "_Validators", line: bytes) -> Event | Refusal:
    """The slow path: old versions are lifted, tolerances tried, and every fault is named."""
    parsed = parse(line)
    if isinstance(parsed, Refusal):
        return parsed._replace(dialect=dialect.name)
    lifted = upcast(dialect, parsed)
    if isinstance(lifted, Problem):
        return Refusal((lifted,), dialect.name)
    body, odd = dialect.tolerate(lifted)
    envelope = dialect.read(body)
    faults = validators.faults(envelope.kind, body)
    if faults:
        kind, run = _word(envelope.kind), _word(envelope.run)
        return Refusal(faults, dialect.name, kind, run)
    family = envelope.family or dialect.family
    return Event(dialect.name, family, *envelope[:6], body, line, tuple(odd))


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def upcast(dialect: Dialect, body: Body) -> Body | Problem:
    """The body as the current version has it; the line itself is never rewritten."""
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
        )
    for step in range(version, dialect.current):
        if step in dialect.upcasts:
            body = dialect.upcasts[step](body)
    return body


class _Validators(dict[Any, Draft202012Validator | None]):
    """One compiled validator per kind, compiled when the kind is first heard."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.schemas: dict[type[Shape], dict[str, Any]] = {}
        self.compiled: dict[type[Shape], Draft202012Validator] = {}

    def __missing__(self, kind: Any) -> Draft202012Validator | None:
        shape = self.dialect.kinds.get(kind)
        if shape is not None:
            self[kind] = self.compile(shape)
            return self[kind]
        return self.compile(self.dialect.frame) if self.dialect.policy.kinds == "open" else None

    def compile(self, shape: type[Shape]) -> Draft202012Validator:
        if shape not in self.compiled:
            self.schemas[shape] = schema_of(shape)
            self.compiled[shape] = Draft202012Validator(self.schemas[shape], validate_formats=True)
        return self.compiled[shape]

    def faults(self, kind: Any, body: Body) -> tuple[Problem, ...]:
        """Every fault of a body."""
        known = isinstance(kind, str) and kind in self.dialect.kinds
        shape = self.dialect.kinds[kind] if known else self.dialect.frame
        errors = self.compile(shape).iter_errors(body)
        found = problems.of(errors, self.schemas[shape], body)
        if known or self.dialect.policy.kinds == "open":
            return found
        kinds = list(self.dialect.kinds)
        return (problems.unknown_kind(self.dialect.kind_key, body, kinds), *found)
