"""The importers: what agents leave on disk, told as native lines; suites that walk the folder."""

import orjson
import pytest

from tracklog.dialects.tracklog import line_id
from tracklog.fact import Noted
from tracklog.importers import Raw, Teller, run_id


@pytest.mark.parametrize(
    ("tool", "native", "agent", "run"),
    [
        (
            "codex",
            "019982b8-3422-79e0-8b3b-05abaf4f3c3e",
            "",
            "ccaa664d-f560-4adf-a669-7ce101fa96c2",
        ),
        (
            "claude",
            "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f",
            "a0ad4f44468bdf20d",
            "131b7347-fea5-45d3-8327-8000e3cf2a40",
        ),
        (
            "claude",
            "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f",
            "",
            "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f",
        ),
    ],
)
def test_run_ids_are_those_of_the_vectors(tool, native, agent, run):
    assert run_id(tool, native, agent) == run


def test_line_ids_are_those_of_the_vectors():
    tell = Teller("codex", "1", "somewhere")
    tell.run = "ccaa664d-f560-4adf-a669-7ce101fa96c2"
    data = b'{ "type": "x" }'
    tell.about(Raw(0, data, orjson.loads(data)))
    assert tell.tell(Noted(label="x")) == "b4b7b0087dfc6123ffefc3e73d4cc525"
    assert tell.tell(Noted(label="x")) == line_id("codex", "1", tell.run, data, n=1)
