"""A source that is imported while its end is missing, and again when it is complete; or compressed."""

import gzip
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random

import orjson
import pytest

from support.asking import ask
from tracklog.formats import registry
from tracklog.formats.importers import head_of, run_id
from tracklog.formats.importers._sqlite import MAGIC
from tracklog.formats.importing import Importing
from tracklog.formats.recognition import BINARY, recognised_file, recognition
from tracklog.home.home import Home
from tracklog.model.lines import BOM
from tracklog.reading.walk import walk
from tracklog.testing import built, lines_of_file

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
FORMATS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
ABOUT_THE_FILE = {"completed", "finding"}


def sources(name, where):
    """The samples of a format that an importer reads, each with the importer."""
    root = built(SAMPLES / name, where / name)
    for path in sorted(each for each in root.rglob("*") if each.is_file()):
        found = recognition(registry.importers(), path, head_of(path))
        if found.importer is not None and not found.companion:
            yield path, found.importer.name


def current(home):
    """The facts that count, but those about the file itself."""
    counted = Counter()
    for reading in walk(list(home.journal.read(0, 100_000)), home.dialects):
        body = reading.event.body
        if reading.counts and body.get("label") not in ABOUT_THE_FILE:
            rest = {key: each for key, each in body.items() if key not in ("id", "origin")}
            counted[orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)] += 1
    return counted


def imported(home, path, importer, **options):
    summary = Importing(home).bring([path], only=importer, **options)
    assert not summary.refused
    return current(home)


@pytest.mark.parametrize("name", FORMATS)
def test_a_source_that_was_cut_reads_as_if_it_had_been_complete(tmp_path, name):
    for number, (path, importer) in enumerate(sources(name, tmp_path)):
        data, random = path.read_bytes(), Random(name)  # damage, not secrets
        cut = random.randrange(1, len(data))
        with Home(tmp_path / f"{number}-complete", durability="os") as home:
            expected = imported(home, path, importer)
            path.write_bytes(data[:cut])  # as when its program writes it anew
            imported(home, path, importer)
            path.write_bytes(data)
            assert imported(home, path, importer) == expected, (path, cut)
        path.write_bytes(data[:cut])
        with Home(tmp_path / f"{number}-cut", durability="os") as home:
            imported(home, path, importer)
            path.write_bytes(data)
            assert imported(home, path, importer) == expected, (path, cut)


@pytest.mark.parametrize("name", FORMATS)
def test_a_compressed_source_reads_as_the_source(tmp_path, name):
    for path, importer in sources(name, tmp_path):
        packed = path.with_name(f"{path.name}.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        found = recognised_file(registry.importers(), packed)
        assert found.importer is not None, path
        assert found.importer.name == importer
        ids = [
            orjson.loads(line).get("id")
            for each in (packed, path)
            for line in lines_of_file(found.importer, each)[0]
        ]
        assert ids[: len(ids) // 2] == ids[len(ids) // 2 :]


def facts(importer, path):
    """The facts that an import of a file yields, but findings about its bytes."""
    bodies = [orjson.loads(line) for line in lines_of_file(registry.importer(importer), path)[0]]
    return Counter(
        orjson.dumps({key: each for key, each in body.items() if key not in ("id", "origin")})
        for body in bodies
        if body.get("label") != "finding"
    )


@pytest.mark.parametrize("name", FORMATS)
def test_a_source_behind_a_byte_order_mark_reads_as_the_source(tmp_path, name):
    for path, importer in sources(name, tmp_path):
        data = path.read_bytes()
        if data.startswith(BINARY):
            continue
        expected = facts(importer, path)
        path.write_bytes(BOM + data)
        found = recognised_file(registry.importers(), path).importer
        assert found, path
        assert (found.name, facts(importer, path)) == (importer, expected), path


TEXT = re.compile(r'"(?:text|content|output|thinking)"\s*:\s*"(?:[^"\\]|\\.)+(?<=[\w.!?])(?=")')
HALF = "\\ud83d"
"""Half a character, as programs write it that cut a text in the middle of one."""


def halved(path):
    """Put half a character behind each text in the JSON of a file, also in the cells of a database."""
    data = path.read_bytes()
    if not data.startswith(BINARY):
        path.write_text(TEXT.sub(lambda found: found[0] + HALF, data.decode()))
    elif data.startswith(MAGIC):
        with closing(sqlite3.connect(path)) as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in names.fetchall():
                for _, column, *_ in database.execute(f'PRAGMA table_info("{table}")').fetchall():
                    cells = database.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()
                    database.executemany(
                        f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?',
                        [(TEXT.sub(lambda found: found[0] + HALF, cell), row)
                         for row, cell in cells if isinstance(cell, str) and TEXT.search(cell)],
                    )  # fmt: skip  # one statement
            database.commit()


TOLD = ("Called", "Returned", "Spent", "Began", "Linked")
"""Facts that do not depend on whether a text is empty, or equal to another."""


@pytest.mark.parametrize("name", FORMATS)
def test_half_a_character_in_each_text_of_a_source_costs_no_fact(tmp_path, name):
    for path, importer in sources(name, tmp_path):
        expected = Counter(orjson.loads(each)["fact"] for each in facts(importer, path).elements())
        halved(path)
        found = recognised_file(registry.importers(), path).importer
        assert found, path
        lines, _, report = lines_of_file(found, path)
        assert "irreparable" not in report.repaired, path
        read = Counter(orjson.loads(line)["fact"] for line in lines)
        assert (found.name, {each: read[each] for each in TOLD}) == (
            importer,
            {each: expected[each] for each in TOLD},
        ), path


def message(kind, **payload):
    at = "2026-05-05T09:00:00.000Z"
    return orjson.dumps({"timestamp": at, "type": kind, "payload": payload}) + b"\n"


ROLLOUT = "rollout-2026-05-05T09-00-00-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl"
EVENT = message("event_msg", type="agent_message", message="It is sunny in Paris.")
ITEM = message(
    "response_item",
    type="message",
    role="assistant",
    content=[{"type": "output_text", "text": "It is sunny in Paris."}],
)


@pytest.mark.parametrize("final", [True, False], ids=["import", "follow"])
def test_an_event_of_codex_whose_item_came_after_an_import_is_shown_once(tmp_path, final):
    path, meta = tmp_path / ROLLOUT, message("session_meta", id="019982b8")
    with Home(tmp_path / "home", durability="os") as home:
        for data in (meta + EVENT, meta + EVENT + ITEM):
            path.write_bytes(data)
            facts = imported(home, path, "codex", final=final or data.endswith(EVENT))
            assert sum(count for fact, count in facts.items() if b"sunny" in fact) == 1
        home.index.catch_up()
        story = ask(home, "story", run=run_id("codex", path.stem[-36:]))
        assert [each["superseded"] for each in story["records"] if each["kind"] == "Said"] == [
            True,
            False,
        ]
