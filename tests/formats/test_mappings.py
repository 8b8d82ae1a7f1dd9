"""An importer that writes other lines of the same file has another mapping.

A line's id is made of the mapping and the record that it was read from. If the mapping writes other
lines under the old number, a home that knows the file refuses them as changed events. So
`samples/mappings.txt` has, for each importer, the mapping and a hash of the lines of its
samples. After a change that is meant, raise `mapping` of the importer, set TRACKLOG_REFRESH=1 to
write the table again, and name the change in the change log.
"""

import os
from hashlib import sha256

import pytest

from support.journals import IMPORTS
from tracklog.formats import registry as formats
from tracklog.formats.importers import head_of, uncompressed_name
from tracklog.formats.importing import Importing
from tracklog.formats.recognition import recognition
from tracklog.home.home import Home

TABLE = IMPORTS.parent / "mappings.txt"
LATER = IMPORTS.parent / "later"
"""Logs with fields that no known version writes: what is done with those is part of a mapping, too."""
NOTES = ('"label":"imported"', '"label":"completed"', '"label":"growing"')
"""Notes about the import itself, with an id of their own each time."""


def importer_of(path):
    found = recognition(formats.importers(), uncompressed_name(path), head_of(path))
    return None if found.importer is None or found.companion else found.importer.name


def lines_of(path):
    """The lines of one log, as if it lay in another folder."""
    with Home("memory:") as home:
        Importing(home).bring([path])
        lines = [each.line.decode() for each in home.journal.records()]
    return "\n".join(line for line in lines if not any(note in line for note in NOTES))


def damaged_copies(folder):
    """The samples with lines, each with one in the middle that is broken off."""
    for path in IMPORTS.rglob("*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        lines.insert(len(lines) // 2, b'{"broken": "o\n')
        copy = folder / path.relative_to(IMPORTS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(b"".join(lines))


def hashes(copies):
    """By importer, its mapping and a hash of all lines of its samples."""
    found = {each.name: sha256() for each in formats.importers()}
    for folder in (IMPORTS, LATER, copies):
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            if (importer := importer_of(path)) is not None:
                found[importer].update(lines_of(path).replace(str(folder), "").encode())
    return {
        each.name: (each.mapping, found[each.name].hexdigest()[:16])
        for each in sorted(formats.importers(), key=lambda each: each.name)
    }


@pytest.fixture(scope="module")
def today(tmp_path_factory):
    copies = tmp_path_factory.mktemp("copies")
    damaged_copies(copies)
    found = hashes(copies)
    if os.environ.get("TRACKLOG_REFRESH"):
        rows = (f"{name} {' '.join(row)}\n" for name, row in found.items())
        TABLE.write_text("".join(rows))
    return found


def test_lines_change_only_with_the_number_of_their_mapping(today):
    recorded = dict(line.split(maxsplit=1) for line in TABLE.read_text().splitlines())
    table = {name: tuple(row.split()) for name, row in recorded.items()}
    same = [name for name, row in today.items() if table.get(name, row)[0] == row[0]]
    changed = [name for name in same if name in table and table[name] != today[name]]
    assert changed == [], "raise the `mapping` of these importers; see the top of this file"
    assert table == today, "TRACKLOG_REFRESH=1 writes the new numbers into the table"
