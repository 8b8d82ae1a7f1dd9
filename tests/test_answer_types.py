"""The TypeScript types of answers are what the OpenAPI document says."""

import pytest

import answer_types
import derive
from tracklog.collector import routes


def test_the_types_in_the_console_are_those_of_the_openapi_document():
    assert answer_types.text() == answer_types.FILE.read_text()


def test_a_route_that_answers_something_else_makes_the_types_stale(monkeypatch):
    assert answer_types.current()
    monkeypatch.setattr(answer_types, "ROUTES", list(routes.ROUTES)[1:])
    assert not answer_types.current()
    assert answer_types.FILE.name in derive.stale()


def test_without_the_generator_the_message_says_what_to_run(monkeypatch, tmp_path):
    monkeypatch.setattr(answer_types, "GENERATOR", tmp_path / "answers.mjs")
    with pytest.raises(SystemExit, match="make derive"):
        answer_types.text()
