"""Sources of importers, written by a test."""

import sqlite3
from contextlib import closing

import orjson


def document(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else orjson.dumps(value))
    return path


def lines(path, *values, end=b"\n"):
    return document(path, b"".join(orjson.dumps(value) + end for value in values))


def database(path, schema, **tables):
    """A database with these rows; a value that SQLite does not know is stored as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as made:
        made.executescript(schema)
        for name, rows in tables.items():
            for row in rows:
                given = [each if isinstance(each, str | int | float | bytes | None)
                         else orjson.dumps(each).decode() for each in row]  # fmt: skip
                made.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", given)
        made.commit()
    return path
