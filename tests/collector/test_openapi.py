"""The OpenAPI document says what every answer and every body contains."""

from collections.abc import Iterator
from typing import Any

import pytest

from tracklog.collector.openapi import HEADER, document
from tracklog.collector.routes import ROUTES

OPEN = {
    "/components/schemas/JsonObject",
    "/components/schemas/AnswerAccepted/properties/answer",
    "/components/schemas/AnswerBody/properties/answer",
    "/components/schemas/DiffChange/properties/a",
    "/components/schemas/DiffChange/properties/b",
    "/components/schemas/JournalRecord/properties/event",
    "/components/schemas/StartBody/properties/body",
    "/components/schemas/StoryFact/properties/options/items",
    *(
        f"/components/schemas/{shape}/properties/{name}"
        for shape, names in {
            "StoryBlock": "text thinking command chunk tool_input tool_content",
            "StoryFact": "software git error input output verdict evidence schema answer "
            "parent child other context usage data",
        }.items()
        for name in names.split()
    ),
}
"""The only values of any form: lines of any dialect and parts of them, answers of a person, and
inputs that only a host knows.
"""
SAYS_NOTHING = {"description", "title", "default", "deprecated"}
"""Keys of a schema that do not say what a value is."""


def bare(value: Any, path: str = "") -> Iterator[str]:
    """The places of a document with an object or a value of which nothing is said."""
    if isinstance(value, dict):
        more = value.get("additionalProperties")
        is_said = value.get("properties") or (isinstance(more, dict) and more)
        if value.get("type") == "object" and not is_said:
            yield path
        for key, each in value.items():
            if key in ("schema", "items") and _is_open(each):
                yield f"{path}/{key}"
            yield from bare(each, f"{path}/{key}")
        for name, each in value.get("properties", {}).items():
            if isinstance(each, dict) and _is_open(each):
                yield f"{path}/properties/{name}"
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from bare(each, f"{path}/{place}")
            if path.endswith(("/anyOf", "/oneOf")) and _is_open(each):
                yield f"{path}/{place}"


def _is_open(schema: Any) -> bool:
    return schema is True or (isinstance(schema, dict) and not schema.keys() - SAYS_NOTHING)


def test_no_object_is_left_without_its_keys():
    assert set(bare(document(ROUTES))) == OPEN


def test_every_answer_names_the_header_of_the_protocol():
    made = document(ROUTES)
    answers = [
        answer
        for path in made["paths"].values()
        for operation in path.values()
        for answer in operation["responses"].values()
    ]
    assert HEADER in made["components"]["headers"]
    assert all(
        each["headers"] == {HEADER: {"$ref": f"#/components/headers/{HEADER}"}} for each in answers
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": True},
        {"type": "array", "items": {}},
        {"type": "object", "properties": {"x": {"description": "Something."}}},
        {"anyOf": [{"type": "null"}, {}]},
    ],
)
def test_an_object_without_keys_is_found(schema):
    assert list(bare({"paths": {"/api/x": {"schema": schema}}}))
