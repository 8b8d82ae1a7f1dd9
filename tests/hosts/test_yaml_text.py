"""YAML of other people: what cannot be used is an error with its place, and costs little."""

import pytest

from tracklog.hosts._yaml_text import NotYaml, read_yaml

BOMB = b"a: &a [x, x]\n" + b"".join(
    b"%c: &%c [*%c, *%c]\n" % (each, each, each - 1, each - 1) for each in range(98, 122)
)


@pytest.mark.parametrize(
    ("raw", "problem", "place"),
    [
        (b"a: \xff", "it is not UTF-8: byte 3", ""),
        (b"a: 1\nb: [", "it is not YAML: expected the node content", ":2:5"),
        (b"a: 2026-13-45", "it is not YAML: month must be in 1..12", ""),
        (b"a: " + b"9" * 5000, "it is not YAML: Exceeds the limit", ""),
        (b"? [a]\n: b", "it is not YAML: found unhashable key", ":1:3"),
        (b"[" * 500, "it is nested too deeply", ""),
        (b"a: &b [*b]", "an alias contains itself", ":1:4"),
        (BOMB, "its aliases stand for too many values", ":16:4"),
    ],
)
def test_what_cannot_be_used_is_an_error(raw, problem, place):
    with pytest.raises(NotYaml) as raised:
        read_yaml(raw)
    assert raised.value.problem.startswith(problem)
    assert raised.value.place == place or not place


def test_an_alias_is_what_it_stands_for():
    node, value = read_yaml(b"a: &a [1, x]\nb: *a\n")
    assert value == {"a": [1, "x"], "b": [1, "x"]}
    assert node.start_mark.line == 0
    assert read_yaml(b"") == (None, None)
