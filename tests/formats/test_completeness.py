"""Every text, amount and call of a sample can be found after its import: in the journal, in its
blobs, or it is counted in the report as ignored.
"""

import re
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from tracklog.formats import registry
from tracklog.formats.importers import SourceReading, head_of
from tracklog.formats.recognition import recognition
from tracklog.testing import built

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
FORMATS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
TAG = re.compile(r"</?[A-Za-z_][\w-]*>|\[[a-z_]+ for '[^']*'\] Result:")
"""Marks around a text that a program puts there; the text inside is stored without them."""

CHANGED = {
    "anthropic": (2, "pieces of JSON, which are joined"),
    "codex": (2, "the context that an editor puts before a prompt, which is split"),
    "openai": (6, "the descriptions of tools in events, which the response repeats"),
}
"""Formats of which some texts are changed on the way: how many, and why."""
TIME = re.compile(r"[\d\-: .TZ+]+")
UNREAD = {
    "goose": ("provider_inventory_entries", "provider_inventory_models", "schema_version"),
    "antigravity": ("trajectory_metadata_blob",),
    "cursor": ("meta",),
}
"""Tables that hold no conversation, or credentials beside it."""
PROMPTS = "aiService.prompts"
"""A key of Cursor that repeats prompts, of which it cuts some off."""


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    return built(SAMPLES, tmp_path_factory.mktemp("complete") / "samples")


def texts(value):
    """Every text in a value, also inside JSON that is a text."""
    if isinstance(value, str):
        inner = None
        if value[:1] in ("{", "[", '"'):
            try:
                inner = orjson.loads(value)
            except orjson.JSONDecodeError:
                inner = None
        if isinstance(inner, dict | list) or (isinstance(inner, str) and inner != value):
            yield from texts(inner)
        else:
            yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def values_of(path, name):
    """Everything that stands in a file of JSON or in a database."""
    data = path.read_bytes()
    if data.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(path)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in tables.fetchall():
                if table in UNREAD.get(name, ()):
                    continue
                for row in connection.execute(f'SELECT * FROM "{table}"').fetchall():
                    if row[0] != PROMPTS:
                        yield from (each for each in row if isinstance(each, str))
    elif path.suffix in (".jsonl", ".ndjson"):
        for line in data.split(b"\n"):
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                continue  # damage has tests of its own
    elif path.suffix == ".json":
        yield orjson.loads(data)


def imported(importer, path):
    """Every text in the lines and blobs that an import makes, and the report."""
    blobs = {}

    def put(content):
        name = sha256(content).hexdigest()
        blobs[name] = content.decode("utf-8", "replace")
        return name

    reading = SourceReading(importer, path, put=put)
    found = []
    for batch in reading.lines():
        found += [text for line in batch.lines for text in texts(orjson.loads(line))]
        found += [line.decode() for _, line in batch.quoted]
    return "\n".join([*found, *blobs.values()]), reading.report


AMOUNTS = re.compile("token|cost|usage", re.IGNORECASE)
CALL = re.compile("(?:call|tool_?use)_?id", re.IGNORECASE)
LEFT_OUT = {
    "goose": ("accumulated_usage",),
    "inspect": ("model_usage",),
    "openai": ("max_output_tokens",),
    "openhands": ("accumulated_token_usage", "max_input_tokens", "max_output_tokens"),
}
"""Sums of amounts that are stored one by one, and limits of a request: they are not spent."""


def marks(value, name="", inside=False):
    """The amounts of tokens and money in a value, and the ids of calls."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in LEFT_OUT.get(name, ()):
                if isinstance(each, str) and CALL.fullmatch(key) and each:
                    yield each
                yield from marks(each, name, inside or bool(AMOUNTS.search(key)))
    elif isinstance(value, list):
        for each in value:
            yield from marks(each, name, inside)
    elif inside and isinstance(value, int | float) and not isinstance(value, bool) and value > 9:
        yield round(value, 9)


def scalars(value):
    """Every number and text in a value."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            yield value
    if isinstance(value, dict):
        for each in value.values():
            yield from scalars(each)
    elif isinstance(value, list):
        for each in value:
            yield from scalars(each)
    elif isinstance(value, int | float):
        yield round(value, 9)
    else:
        yield value


def stored(importer, path):
    """Every number and text in the lines and blobs that an import makes."""
    blobs = []

    def put(content):
        blobs.append(content)
        return sha256(content).hexdigest()

    found = set()
    for batch in SourceReading(importer, path, put=put).lines():
        for line in batch.lines:
            found.update(scalars(orjson.loads(line)))
    for content in blobs:
        found.update(scalars(content.decode("utf-8", "replace")))
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_every_amount_and_every_call_of_a_sample_is_found_after_its_import(samples, name):
    for path in sorted(path for path in (samples / name).rglob("*") if path.is_file()):
        found = recognition(registry.importers(), path, head_of(path))
        if found.importer is None or found.companion:
            continue
        there = stored(found.importer, path)
        lost = {
            each for value in values_of(path, name) for each in marks(value, name)
            if each not in there
        }  # fmt: skip  # one condition
        assert not lost, (path.name, sorted(map(str, lost)))


def pieces(text):
    """The parts of a text that must be found: words, not names and times."""
    for piece in TAG.split(text):
        plain = " ".join(piece.split())
        if " " in plain and len(plain) >= 12 and not TIME.fullmatch(plain):
            yield plain


@pytest.mark.parametrize("name", FORMATS)
def test_every_text_of_a_sample_is_found_after_its_import(samples, name):
    missing = []
    for path in sorted(path for path in (samples / name).rglob("*") if path.is_file()):
        found = recognition(registry.importers(), path, head_of(path))
        if found.importer is None or found.companion:
            continue
        everything, report = imported(found.importer, path)
        plain = " ".join(everything.split())
        lost = {
            piece
            for value in values_of(path, name)
            for text in texts(value)
            for piece in pieces(text)
            if piece not in plain
        }
        if not report.ignored:
            missing += sorted(lost)
        else:
            # What is ignored is counted with its reason; nothing else is lost with it.
            assert len(lost) <= report.ignored.total(), sorted(lost)
    assert len(missing) <= CHANGED.get(name, (0, ""))[0], missing


def marked(value, marks):
    """A value in which each object has one more field: a text that no version has had."""
    if isinstance(value, dict):
        inside = {key: marked(each, marks) for key, each in value.items()}
        marks.append(f"a new text, number {len(marks)}")
        return {**inside, f"new {len(marks)}": marks[-1]}
    return [marked(each, marks) for each in value] if isinstance(value, list) else value


COMPLETE = ("openclaw", "pi", "qwen")
"""The formats whose records are stored with every field, also those that are not known."""


@pytest.mark.parametrize("name", COMPLETE)
def test_a_field_that_is_not_known_is_found_after_its_import(samples, tmp_path, name):
    for path in sorted((samples / name).glob("*.jsonl")):
        marks = []
        rows = [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
        (tmp_path / path.name).write_bytes(
            b"".join(orjson.dumps(marked(row, marks)) + b"\n" for row in rows)
        )
        found = recognition(registry.importers(), path, head_of(path)).importer
        everything, _ = imported(found, tmp_path / path.name)
        there = set(everything.split("\n"))
        assert [each for each in marks if each not in there] == []
