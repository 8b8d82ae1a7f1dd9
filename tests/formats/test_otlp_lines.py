"""The lines that the mapping of OTLP writes are, byte for byte, those that are recorded.

`samples/otlp/lines.txt` has a hash for every request: of the samples, of the recordings of real
programs, and of requests that are made from numbers: of spans as odd as can be (`made`), and of
traces as most programs send them (`trace`). A line's id must not depend on the version of
the program, so a change of speed or structure changes none of them. After a change of the mapping
that is meant, set TRACKLOG_REFRESH=1 to write them again, and name the change in the change log.
"""

import json
import os
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from support.made_spans import Maker
from support.made_traces import TraceMaker
from support.telemetry import as_protobuf
from tracklog.formats.importers import LineWriter
from tracklog.formats.importers.otlp import WRITER, wire, write_items
from tracklog.formats.importers.otlp.memory import Memory

SAMPLES = Path(__file__).parents[1] / "samples"
RECORDED = SAMPLES / "otlp/lines.txt"
MADE = 300
"""How many numbers requests are made from."""
TRACES = 100


def requests():
    """The requests that are mapped with one memory, by name."""
    found = {}
    for path in sorted((SAMPLES / "otlp").glob("*.json")):
        found[path.stem] = [sent["body"] for sent in json.loads(path.read_text())["sent"]]
    for path in sorted((SAMPLES / "otlp/recorded").glob("*.jsonl")):
        found[f"recorded/{path.stem}"] = list(map(json.loads, path.read_text().splitlines()))
    for path in sorted((SAMPLES / "exporters/otel").glob("*.json")):
        found[f"exported/{path.name.partition('.')[0]}"] = [json.loads(path.read_text())]
    found |= {f"trace/{n}": TraceMaker(n).requests() for n in range(TRACES)}
    return found | {f"made/{n}": Maker(n).requests() for n in range(MADE)}


REQUESTS = requests()


def signal_of(document):
    return "logs" if "resourceLogs" in document else "traces"


def from_json(document):
    return wire.from_document(signal_of(document), wire.parsed(orjson.dumps(document)))


def from_protobuf(document):
    signal = signal_of(document)
    return wire.from_protobuf(signal, as_protobuf(signal, document))


def redact(content):
    """Removes one word from what is stored."""
    return content.replace(b"secret", b"***"), ["word"] if b"secret" in content else []


def hashes(documents, read, redact=None, *, resumed=False):
    """A hash for each request: of its items and what they became, line by line.

    `resumed` keeps the state of the memory as JSON between requests, as an import does.
    """
    state, found = {}, []
    memory = Memory(state)
    for document in documents:
        if resumed:
            state = orjson.loads(orjson.dumps(state))
            memory = Memory(state)
        out = LineWriter(WRITER, "2", "", redact=redact)
        items = [each for each in read(document) if isinstance(each, wire.Item)]
        rows = list(write_items(items, out, memory))
        for line, body in zip(out.lines, out.bodies, strict=True):
            assert body is None or orjson.dumps(body, str) == line
        counts = [[item.pointer, run, count] for item, run, count in rows]
        about = [counts, sorted(out.report.lifted.items()), sorted(out.timed), sorted(out.timeless)]
        parts = [*(item.raw() for item in items), *out.lines, orjson.dumps(about)]
        found.append(sha256(b"\n".join(parts)).hexdigest()[:12])
    return found


def recorded():
    rows = (line.split() for line in RECORDED.read_text().splitlines())
    return {name: expected for name, *expected in rows}


def test_every_request_gives_the_lines_that_are_recorded():
    found = {
        name: hashes(documents, from_json, redact if name.startswith("made/1") else None)
        for name, documents in REQUESTS.items()
    }
    if os.environ.get("TRACKLOG_REFRESH"):
        rows = (" ".join((name, *each)) for name, each in found.items())
        RECORDED.write_text("".join(f"{row}\n" for row in rows))
    expected = recorded()
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []


@pytest.mark.parametrize("kind", ["made", "trace", "recorded", "exported"])
def test_requests_in_protobuf_give_the_same_lines(kind):
    for name, documents in REQUESTS.items():
        if name.startswith(kind):
            assert hashes(documents, from_protobuf) == hashes(documents, from_json), name


def test_an_import_that_is_resumed_after_each_request_gives_the_same_lines():
    for name, documents in REQUESTS.items():
        assert hashes(documents, from_json, resumed=True) == hashes(documents, from_json), name
