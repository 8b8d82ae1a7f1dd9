"""The SQL of the index: its tables, a view per fold, and the terms of the word search."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from tracklog.folds._cells import MOST_AMOUNTS, Label

_STATES = """
CREATE TABLE states(fold TEXT, key TEXT, seq INTEGER, state TEXT, PRIMARY KEY(fold, key))
WITHOUT ROWID"""
_FINDINGS = """
CREATE TABLE findings(seq INTEGER, family TEXT, run TEXT, name TEXT, level TEXT, message TEXT)"""
LABELS = Label._fields
"""The names of a cell."""
AMOUNTS = tuple(f"a{number}" for number in range(MOST_AMOUNTS))
_CELLS = f"""
CREATE TABLE cells(kind TEXT, minute INTEGER, label INTEGER, part INTEGER,
 {", ".join(f"{name} INTEGER DEFAULT 0" for name in AMOUNTS)}, PRIMARY KEY(kind, minute, label, part))
WITHOUT ROWID"""
TABLES = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    _STATES,
    _FINDINGS,
    "CREATE INDEX findings_by_run ON findings(family, run, seq)",
    "CREATE INDEX findings_by_seq ON findings(seq)",
    "CREATE TABLE silent(seq INTEGER PRIMARY KEY)",
    "CREATE TABLE names(name INTEGER, seq INTEGER, PRIMARY KEY(name, seq)) WITHOUT ROWID",
    f"CREATE TABLE labels(id INTEGER PRIMARY KEY, {', '.join(LABELS)}, UNIQUE({', '.join(LABELS)}))",
    _CELLS,
    # Contentless: the words' places are kept, the words themselves are in the journal.
    "CREATE VIRTUAL TABLE words USING fts5(text, content='', columnsize=0)",
    "INSERT INTO meta VALUES('cursor', 0)",
)
_RUN = "substr(key, 1, instr(key || char(31), char(31)) - 1)"
_BY_KEY = {
    "family": f"substr({_RUN}, 1, instr(key, ':') - 1)",
    "run": f"substr({_RUN}, instr(key, ':') + 1)",
}
"""What of a state its key says."""


def add_cell(amounts: int) -> str:
    """Add so many amounts to a cell; most cells have one or three of them."""
    names = AMOUNTS[:amounts]
    values = ", ".join("?" * (4 + amounts))
    sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in names)
    into = f"cells(kind, minute, label, part, {', '.join(names)})"
    return f"INSERT INTO {into} VALUES({values}) ON CONFLICT DO UPDATE SET {sums}"


DROP_CELL = "DELETE FROM cells WHERE kind = ? AND minute = ? AND label = ? AND part = ? AND a0 = 0"


def totals(by: str, where: Mapping[str, Collection[str]], amounts: int) -> str:
    """The sums of cells, for spans of minutes that are given as JSON, and the values to be matched."""
    names = [f"labels.{each}" for each in by.split(",") if each in LABELS]
    name = " || char(31) || ".join(names) or "''"
    sums = ", ".join(f"sum({each})" for each in AMOUNTS[:amounts])
    matched = [f"labels.{field} IN ({', '.join('?' * len(where[field]))})" for field in where]
    return " ".join(
        (
            f"SELECT spans.key, {name}, part, {sums} FROM json_each(?) AS spans",  # noqa: S608  # names of ours
            "CROSS JOIN cells CROSS JOIN labels ON labels.id = cells.label",
            "WHERE kind = ? AND minute >= spans.value ->> 0 AND minute < spans.value ->> 1",
            *(f"AND {each}" for each in matched),
            "GROUP BY 1, 2, 3 HAVING sum(a0) <> 0",
        )
    )


def view(fold: str, fields: Mapping[str, Any]) -> str:
    """A table of a fold's states, as a person would ask for it."""
    parts = [name for name in ("key", "seq") if name not in fields]
    parts += [f"{_column(name, usual)} AS {quoted(name)}" for name, usual in fields.items()]
    name, of = quoted(fold.replace("-", "_")), literal(fold)
    return f"CREATE VIEW {name} AS SELECT {', '.join(parts)} FROM states WHERE fold = {of}"  # noqa: S608  # names of ours, quoted


def _column(name: str, usual: Any) -> str:
    value = f"json_extract(state, {literal('$.' + quoted(name))})"
    return f"ifnull({value}, {_BY_KEY.get(name, literal(usual))})"


def literal(value: Any) -> str:
    """A value as `json_extract` would give it."""
    if isinstance(value, str | list | dict):
        text = value if isinstance(value, str) else json.dumps(value)
        return "'{}'".format(text.replace("'", "''"))
    return "NULL" if value is None else repr(value + 0)


def quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def match_term(term: str) -> str:
    """A term in the words of the word search; empty when there is no word in it."""
    if not any(letter.isalnum() for letter in term):
        return ""
    beginning = "*" if term.endswith("*") else ""
    return quoted(term.rstrip("*").replace("\0", " ")) + beginning
