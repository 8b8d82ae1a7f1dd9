"""Turn the errors of a JSON parser or a schema into problems with a place and a hint."""

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import orjson
from jsonschema_rs import ValidationError

from tracklog.model.event import Problem

SHOWN = 60
CODES = {
    "utf-16": "The line is UTF-16.",
    "nul-bytes": "The line holds NUL bytes.",
    "not-utf8": "The line is not UTF-8.",
    "not-json": "The line, or a document, is not JSON.",
    "not-object": "The line is JSON, but not an object.",
    "carriage-return": "A raw carriage return stands inside the line.",
    "too-long": "The line is longer than the limit.",
    "unrecognised": "The line is of no known dialect.",
    "ambiguous": "The line fits more than one dialect equally well.",
    "newer-version": "The line has a version that is newer than this tracklog.",
    "unknown-kind": "The dialect has no event of this kind.",
    "missing-key": "A key that must be there is missing.",
    "key-not-allowed": "The object has a key that its shape does not allow.",
    "wrong-type": "A value has another JSON type than its shape demands.",
    "wrong-value": "A value is none of the allowed values.",
    "wrong-pattern": "A text does not match its pattern.",
    "wrong-format": "A text is not a real time, address or other named format.",
    "out-of-range": "A number is too small or too large.",
    "wrong-length": "A text or a list is too short or too long.",
    "not-unique": "A list holds the same item twice.",
    "not-allowed": "A value is not allowed at this place.",
    "wrong-shape": "A value breaks another rule of its shape.",
    "event-changed": "An event has the identity of an earlier one and other content.",
    "reserved": "Only tracklog itself may write this event.",
    "refused-before": "The line was refused when its batch was first sent.",
}
"""What a problem can be, by its code. A code is never renamed and never gets another meaning."""
_BY_KEYWORD = {
    "required": "missing-key",
    "additionalProperties": "key-not-allowed",
    "type": "wrong-type",
    "const": "wrong-value",
    "enum": "wrong-value",
    "pattern": "wrong-pattern",
    "format": "wrong-format",
    "minimum": "out-of-range",
    "maximum": "out-of-range",
    "exclusiveMinimum": "out-of-range",
    "exclusiveMaximum": "out-of-range",
    "minLength": "wrong-length",
    "maxLength": "wrong-length",
    "minItems": "wrong-length",
    "maxItems": "wrong-length",
    "uniqueItems": "not-unique",
    "not": "not-allowed",
}
"""The code of an error, by the keyword of JSON Schema that failed."""


def pointer(path: Iterable[str | int]) -> str:
    """A JSON pointer (RFC 6901) from its parts."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def unreadable(line: bytes, error: orjson.JSONDecodeError) -> Problem:
    """The problem of a line that is no JSON."""
    if is_utf16(line):
        return Problem(
            "",
            "the line is UTF-16: every second byte is NUL",
            "convert the file to UTF-8: iconv -f UTF-16 -t UTF-8 FILE",
            "utf-16",
        )
    if b"\0" in line:
        return Problem(
            "",
            f"the line holds NUL bytes, the first at byte {line.index(0)}",
            "a crash or a full disk leaves these; `tracklog repair FILE` restores what it can",
            "nul-bytes",
        )
    try:
        line.decode()
    except UnicodeDecodeError as bad:
        byte = line[bad.start]
        return Problem(
            "",
            f"not UTF-8: byte 0x{byte:02x} at position {bad.start}",
            "write the file as UTF-8, or convert it: iconv -f LATIN1 -t UTF-8",
            "not-utf8",
        )
    stripped = line.strip()
    if stripped in (b"{", b"[", b"}", b"]", b"},", b"],") or stripped.endswith((b"{", b"[", b",")):
        hint = "one JSON object per line: print it compact, for example with jq -c ."
    elif stripped.startswith(b"{") and not stripped.endswith(b"}"):
        hint = (
            "the line looks cut off; `tracklog repair FILE` keeps the original and repairs the rest"
        )
    else:
        hint = "each line must be one JSON object, UTF-8, with no line break inside"
    return Problem("", f"not JSON: {error.msg} at character {error.pos}", hint, "not-json")


def is_utf16(line: bytes) -> bool:
    """Whether bytes look like UTF-16; a chunk cut at a line end may have one byte too many."""
    text = line.removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    halves = text[::2], text[1::2]
    return len(text) > 8 and any(
        half.count(0) > 0.8 * len(half) and b"\0" not in other
        for half, other in (halves, halves[::-1])
    )


def not_object(value: Any) -> Problem:
    """The line is JSON, but not an object."""
    return Problem(
        "",
        f"{_kind_of(value)}, where one JSON object was expected",
        "each line must be one JSON object, {...}",
        "not-object",
    )


CARRIAGE_RETURN = Problem(
    "",
    "a raw carriage return inside the line",
    "end lines with LF or CRLF and write a carriage return inside text as \\r",
    "carriage-return",
)


def too_long(size: int, cap: int) -> Problem:
    return Problem(
        "",
        f"the line has {size:,} bytes, the cap is {cap:,}",
        "raise the cap with --max-line, or keep large values elsewhere",
        "too-long",
    )


MOST_SPECIFIC = ("enum", "const", "type", "pattern")
"""Of several errors at one place, the one with the most information comes first."""


def of(errors: Iterable[ValidationError], schema: Any, body: Any) -> tuple[Problem, ...]:
    """Every error of a schema as a problem, one for each place, ordered by place."""

    def rank(error: ValidationError) -> int:
        name = error.kind.name
        return MOST_SPECIFIC.index(name) if name in MOST_SPECIFIC else len(MOST_SPECIFIC)

    problems: dict[str, Problem] = {}
    for error in sorted(errors, key=rank):
        for problem in _problems(error, schema, body):
            problems.setdefault(problem.pointer, problem)
    return tuple(sorted(problems.values()))


def _problems(error: ValidationError, schema: Any, body: Any) -> Iterator[Problem]:
    path, kind = list(error.instance_path), _kind(error)
    match kind.name:
        case "required":
            yield Problem(
                pointer([*path, kind.property]),
                f"{kind.property} is missing",
                _description(schema, [*error.schema_path[:-1], "properties", kind.property])
                or f"add the key {kind.property!r}",
                "missing-key",
            )
        case "additionalProperties":
            for key in kind.unexpected:
                yield Problem(
                    pointer([*path, key]),
                    f"{key} is no key of this object",
                    _meant(key, _keys(schema, error.schema_path[:-1]))
                    or "remove it: this shape is closed",
                    "key-not-allowed",
                )
        case "anyOf" | "oneOf":
            yield from _branch(error, schema, body)
        case _:
            yield Problem(pointer(path), _message(error), _hint(error, schema), _code(error))


def _code(error: ValidationError) -> str:
    return _BY_KEYWORD.get(error.kind.name, "wrong-shape")


def _kind(error: ValidationError) -> Any:
    """The kind of an error; its attributes depend on its name, which the types cannot express."""
    return error.kind


def _branch(error: ValidationError, schema: Any, body: Any) -> Iterator[Problem]:
    """Of a union, the errors of the intended branch: the one whose tag matches."""
    path = list(error.instance_path)
    depth = len(path)

    def missed(branch: Sequence[ValidationError]) -> tuple[bool, bool, bool, int]:
        inside = {e.kind.name for e in branch if len(e.instance_path) == depth + 1}
        here = [e for e in branch if len(e.instance_path) == depth and e.kind.name in TYPED]
        # A failed enum may be a tag or a plain value; a failed const or not is a tag.
        return bool(here), bool(inside & TAGGED), "enum" in inside, len(branch)

    branches = [branch for branch in getattr(error.kind, "context", []) if branch]
    if not branches:
        yield Problem(pointer(path), _message(error), _hint(error, schema), _code(error))
        return
    wanting = [_kind(branch[0]).property for branch in branches if _lacks_one_key(branch, depth)]
    if len(wanting) == len(branches):
        yield Problem(
            pointer([*path, wanting[0]]),
            f"{' or '.join(wanting)} is missing",
            _description(schema, [*_holder(error.schema_path), "properties", wanting[0]])
            or f"add one of the keys {', '.join(wanting)}",
            "missing-key",
        )
        return
    if untagged := _untagged(branches, depth):
        yield untagged
        return
    best = min(branches, key=missed)
    if all(missed(branch)[0] for branch in branches):
        wanted = " or ".join(dict.fromkeys(_wanted(e) for branch in branches for e in branch))
        yield Problem(
            pointer(path),
            f"{_shown(error.instance)} is not {wanted}",
            _description(schema, error.schema_path[:-1]) or f"write {wanted}",
            _code(best[0]),
        )
        return
    for inner in best:
        yield from _problems(inner, schema, body)


def _holder(path: Sequence[str | int]) -> Sequence[str | int]:
    """The path of the object that the union describes."""
    return path[:-3] if len(path) > 2 and path[-3] == "allOf" else path[:-1]


def _untagged(branches: Sequence[Sequence[ValidationError]], depth: int) -> Problem | None:
    """The problem of a union's tag that matches none of the branches."""
    tags = [
        [e for e in branch if len(e.instance_path) == depth + 1 and e.kind.name in VALUED]
        for branch in branches
    ]
    missed = [error for errors in tags for error in errors]
    if not all(tags) or len({error.instance_path[-1] for error in missed}) != 1:
        return None
    options: list[Any] = []
    for error in missed:
        kind = _kind(error)
        options += [kind.expected_value] if kind.name == "const" else kind.options
    value = _shown(cast("Any", missed[0].instance))
    return Problem(
        pointer(missed[0].instance_path),
        f"{value} is not one of the {len(options)} allowed values",
        _meant(missed[0].instance, options) or "one of: " + ", ".join(map(str, options)),
        "wrong-value",
    )


def _lacks_one_key(branch: Sequence[ValidationError], depth: int) -> bool:
    return [error.kind.name for error in branch] == ["required"] and (
        len(branch[0].instance_path) == depth
    )


TAGGED = {"const", "not"}
VALUED = ("const", "enum")
TYPED = ("type", "const", "enum", "pattern")


def _wanted(error: ValidationError) -> str:
    kind = _kind(error)
    match kind.name:
        case "type":
            return " or ".join(f"{_article(name)}" for name in kind.types)
        case "const":
            return _shown(kind.expected_value)
        case "enum":
            return "one of " + ", ".join(map(str, kind.options))
    return "of the right form"


def _message(error: ValidationError) -> str:
    kind, value = _kind(error), cast("Any", error.instance)
    match kind.name:
        case "type":
            wanted = " or ".join(_article(name) for name in kind.types)
            return f"{_shown(value)} is not {wanted}"
        case "const":
            return f"{_shown(value)} is not {_shown(kind.expected_value)}"
        case "enum":
            return f"{_shown(value)} is not one of the {len(kind.options)} allowed values"
        case "pattern":
            return f"{_shown(value)} does not match {kind.pattern}"
        case "format":
            return f"{_shown(value)} is no real {kind.format}"
        case "minimum":
            return f"{_shown(value)} is less than {kind.limit}"
        case "maximum":
            return f"{_shown(value)} is more than {kind.limit}"
        case "maxLength":
            return f"{len(value):,} characters, at most {kind.limit:,} are allowed"
        case "minLength":
            return "empty" if not value else f"shorter than {kind.limit} characters"
        case "minItems":
            return f"{len(value)} items, at least {kind.limit} are needed"
        case "not":
            return f"{_shown(value)} is not allowed here"
    return str(error.message)


def _hint(error: ValidationError, schema: Any) -> str:
    kind = _kind(error)
    if kind.name == "enum":
        near = _meant(error.instance, kind.options)
        return near or "one of: " + ", ".join(map(str, kind.options))
    if kind.name == "type" and error.instance is None and not _needed(error, schema):
        return "leave the key out instead of writing null"
    return _description(schema, error.schema_path[:-1]) or {
        "const": "the value is fixed",
        "type": "write it as that JSON type",
        "format": "check the calendar: does that day and time exist?",
    }.get(kind.name, "see `tracklog schema` for the shape")


def _needed(error: ValidationError, schema: Any) -> bool:
    """Whether the key of the value is required."""
    path = list(error.schema_path)
    if len(path) < 3 or path[-3] != "properties":
        return True
    owner = _at(schema, path[:-3])
    return isinstance(owner, dict) and path[-2] in owner.get("required", ())


def _description(schema: Any, path: Sequence[str | int]) -> str:
    """The schema's description of the value at that place."""
    node = _at(schema, path)
    return str(node.get("description", "")).replace("\n", " ") if isinstance(node, dict) else ""


def _keys(schema: Any, path: Sequence[str | int]) -> list[str]:
    node = _at(schema, path)
    return list(node.get("properties", {})) if isinstance(node, dict) else []


def _at(schema: Any, path: Sequence[str | int]) -> Any:
    """What stands at a path; the paths of errors have no `$ref` in their middle."""
    node = schema
    for part in path:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return None
    if isinstance(node, dict) and "$ref" in node and "description" not in node:
        node = _deref(schema, node)
    return node


def _deref(schema: Any, node: Any) -> Any:
    for part in node["$ref"].removeprefix("#/").split("/"):
        schema = schema[part]
    return schema


def _meant(value: Any, options: Sequence[Any]) -> str:
    words = [str(option) for option in options]
    near = difflib.get_close_matches(str(value), words, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}" if name != "null" else "null"


def _kind_of(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def unknown_kind(key: str, body: Any, kinds: Sequence[str]) -> Problem:
    """The problem of a kind that is not in a closed vocabulary."""
    if key not in body:
        hint = "one of: " + ", ".join(kinds)
        return Problem(pointer([key]), f"{key} is missing", hint, "missing-key")
    near = _meant(body[key], kinds)
    return Problem(
        pointer([key]),
        f"{_shown(body[key])} is not one of the {len(kinds)} kinds",
        near or "one of: " + ", ".join(kinds),
        "unknown-kind",
    )
