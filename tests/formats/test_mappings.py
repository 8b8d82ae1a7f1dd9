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
    """The lines of one sample, as if it lay in another folder."""
    with Home("memory:") as home:
        Importing(home).bring([path])
        lines = [each.line.decode() for each in home.journal.records()]
    shown = [line for line in lines if not any(note in line for note in NOTES)]
    return "\n".join(shown).replace(str(IMPORTS), "").replace(str(LATER), "")


def hashes():
    """By importer, its mapping and a hash of all lines of its samples."""
    mappings = {each.name: each.mapping for each in formats.importers()}
    files = [path for folder in (IMPORTS, LATER) for path in sorted(folder.rglob("*"))]
    samples = {path: importer_of(path) for path in files if path.is_file()}
    return {
        name: (mapping, sha256("\n".join(map(lines_of, paths)).encode()).hexdigest()[:16])
        for name, mapping in sorted(mappings.items())
        if (paths := [path for path, importer in samples.items() if importer == name])
    }


@pytest.fixture(scope="module")
def today():
    found = hashes()
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
