"""The place, the message and the hint of each kind of schema error."""

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracklog.model import problems

SCHEMA = {
    "type": "object",
    "properties": {
        "colour": {"enum": ["green", "blue"], "description": "The colour of the light."},
        "count": {"$ref": "#/$defs/count"},
        "file": {
            "properties": {"size": {"$ref": "#/$defs/count", "description": "In bytes."}},
            "required": ["size"],
        },
        "name": {"type": "string"},
        "inner": {"$ref": "#/$defs/inner"},
    },
    "required": ["count"],
    "$defs": {
        "count": {"type": "integer", "minimum": 0, "description": "A whole number."},
        "inner": {
            "type": "object",
            "properties": {"a/b~c": {"type": "integer"}, "length": {"type": "integer"}},
            "additionalProperties": False,
        },
    },
}
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)


def of(body):
    return [tuple(each)[:3] for each in problems.of(VALIDATOR.iter_errors(body), SCHEMA, body)]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, ("/count", "count is missing", "A whole number.")),
        ({"count": -1}, ("/count", "-1 is less than 0", "A whole number.")),
        ({"count": 1, "file": {}}, ("/file/size", "size is missing", "In bytes.")),
        ({"count": 1, "colour": "gren"}, ("/colour", ..., "did you mean green?")),
        ({"count": 1, "colour": "?"}, ("/colour", ..., "one of: green, blue")),
        ({"count": 1, "name": None}, ("/name", ..., "leave the key out instead of writing null")),
        ({"count": 1, "name": 7}, ("/name", ..., "write it as that JSON type")),
        (
            {"count": 1, "inner": {"lenght": 1}},
            ("/inner/lenght", "lenght is no key of this object", "did you mean length?"),
        ),
        (
            {"count": 1, "inner": {"zzz": 1}},
            ("/inner/zzz", "zzz is no key of this object", "remove it: this shape is closed"),
        ),
        ({"count": 1, "inner": {"a/b~c": ""}}, ("/inner/a~1b~0c", ..., ...)),
    ],
)
def test_a_problem_has_a_place_a_message_and_a_hint(body, problem):
    (found,) = of(body)
    assert found == tuple(f if p is ... else p for f, p in zip(found, problem, strict=True))


@given(st.lists(st.text() | st.integers(0)))
def test_a_pointer_is_read_back_as_rfc_6901_says(path):
    parts = problems.pointer(path).split("/")[1:]
    assert [part.replace("~1", "/").replace("~0", "~") for part in parts] == list(map(str, path))
