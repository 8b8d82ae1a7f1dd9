"""Check documents that a dialect publishes beside its lines, such as the graph of a kahn run."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson
from jsonschema_rs import Draft202012Validator

from tracklog.dialects import Dialect
from tracklog.dialects.checking import LineVerdict, LocatedFinding
from tracklog.dialects.schemas import schema_of
from tracklog.model import problems
from tracklog.model.event import Event, Problem, Refusal
from tracklog.model.lines import BOM


class Document(NamedTuple):
    """A document of a dialect, by its name."""

    dialect: Dialect
    name: str


def document_of(path: str, data: bytes, dialects: Iterable[Dialect]) -> Document | None:
    """The document that a file holds: recognised by the file's name or by its top-level keys."""
    known = [Document(each, name) for each in dialects for name in each.document_rules]
    for document in known:
        if path.rpartition("/")[2] == f"{document.name}.json":
            return document
    try:
        body = orjson.loads(data.removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None
    for document in known:
        keys = _schema(document).get("required", ())
        if isinstance(body, dict) and keys and {*keys} <= body.keys():
            return document
    return None


def check_document(document: Document, data: bytes) -> Iterator[LineVerdict | LocatedFinding]:
    """A verdict on a document, and the findings across its parts."""
    dialect, name = document
    try:
        body: Any = orjson.loads(data.removeprefix(BOM))
    except orjson.JSONDecodeError as error:
        message = f"not JSON: {error.msg}, line {error.lineno} column {error.colno}"
        hint = f"a {name} is one JSON object in a file of its own"
        fault = Problem("", message, hint, "not-json")
        yield LineVerdict(error.lineno, Refusal((fault,), dialect.name, name))
        return
    schema = _schema(document)
    faults: tuple[Problem, ...] = (problems.not_object(body),)
    if isinstance(body, dict):
        validator = Draft202012Validator(schema, validate_formats=True)
        faults = problems.of(validator.iter_errors(body), schema, body)
    if faults:
        yield LineVerdict(1, Refusal(faults, dialect.name, name))
        return
    event = Event(dialect.name, dialect.family, "", name, None, None, None, None, body, data)
    yield LineVerdict(1, event)
    for finding in dialect.document_rules[name](body):
        yield LocatedFinding(None, finding, dialect.name)


def _schema(document: Document) -> dict[str, Any]:
    return schema_of(document.dialect.documents[document.name])
