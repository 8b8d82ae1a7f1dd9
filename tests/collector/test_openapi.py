"""The OpenAPI document says what every answer and every body contains."""

from collections.abc import Iterator
from typing import Any

import pytest

from tracklog.collector.openapi import HEADER, document
from tracklog.collector.routes import ROUTES

OPEN = {"/components/schemas/JsonObject"}
"""The only objects without named keys: lines of any dialect, inputs that only a host knows."""


def bare(value: Any, path: str = "") -> Iterator[str]:
    """The places of a document with an object or a value of which nothing is said."""
    if isinstance(value, dict):
        more = value.get("additionalProperties")
        is_said = value.get("properties") or (isinstance(more, dict) and more)
        if value.get("type") == "object" and not is_said:
            yield path
        for key, each in value.items():
            if key in ("schema", "items") and each in ({}, True):
                yield f"{path}/{key}"
            yield from bare(each, f"{path}/{key}")
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from bare(each, f"{path}/{place}")


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
    ],
)
def test_an_object_without_keys_is_found(schema):
    assert list(bare({"paths": {"/api/x": {"schema": schema}}}))
