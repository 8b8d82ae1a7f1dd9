"""A question of a user in SQL: it runs with a role that can only read the views, for a limited time."""
# ruff: noqa: S608  # the names of schemas and views are ours, and quoted

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg

from tracklog.index.indexes import QueryResult
from tracklog.index.indexes.postgresql.schema import quoted, role_of, role_sql
from tracklog.journal.postgres.connections import Connection, Database
from tracklog.model.errors import BadQuery

_FORBIDDEN = re.compile(
    r"\b(?:pg_|lo_)\w*|\bset_config\b|\bdblink\w*|\w+_to_xml\w*|\bts_stat\b|\bts_rewrite\b|\bU&",
    re.IGNORECASE,
)
"""Functions with an effect outside of the question: locks, wake-ups, settings, SQL in a text; and
the notation that could hide their names."""


def query(
    database: Database, views: Sequence[str], sql: str, *, limit: int, seconds: float
) -> QueryResult:
    """The answer to one SELECT over the views in these schemas; all else is a `BadQuery`."""
    if match := _FORBIDDEN.search(sql):
        raise BadQuery(
            f"{match[0]} cannot be used in a question", "ask only the views of the index"
        )
    try:
        connection = database.connect()
    except psycopg.Error as error:
        raise database.trouble(error) from error
    try:
        return _ask(database, connection, views, sql, limit, seconds)
    except psycopg.Error as error:
        raise _refusal(database, connection, views[0], error, seconds) from error
    finally:
        connection.close()


def _ask(
    database: Database,
    connection: Connection,
    views: Sequence[str],
    sql: str,
    limit: int,
    seconds: float,
) -> QueryResult:
    connection.execute("BEGIN")
    connection.execute(
        f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))};"
        f" SET LOCAL search_path = {views[0]};"
        f" SET LOCAL ROLE {role_of(database.address)}".encode()
    )
    if len(views) > 1:
        _join(connection, views)
    connection.execute("SET TRANSACTION READ ONLY")
    # A cursor takes one SELECT and nothing else; prepared, the text is one statement.
    text = sql.strip().removesuffix(";")
    connection.execute(f"DECLARE answer NO SCROLL CURSOR FOR {text}".encode(), prepare=True)
    rows = connection.execute(f"FETCH {limit + 1} FROM answer".encode())
    columns = [column.name for column in rows.description or ()]
    answer = [tuple(map(_plain, row)) for row in rows.fetchall()]
    return QueryResult(columns, answer[:limit], len(answer) > limit)


def _join(connection: Connection, views: Sequence[str]) -> None:
    """Views of this transaction that have the rows of all shards, under the same names."""
    there = connection.execute(
        "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n"
        " ON n.oid = c.relnamespace WHERE n.nspname = ANY(%s) AND c.relkind = 'v' ORDER BY 2, 1",
        (list(views),),
    ).fetchall()
    for name, rows in groupby(there, key=itemgetter(1)):
        parts = " UNION ALL ".join(f"SELECT * FROM {schema}.{quoted(name)}" for schema, _ in rows)
        connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS {parts}".encode())
    connection.execute("SET LOCAL search_path = pg_temp")


def _plain(value: Any) -> Any:
    """A value as the index of a folder would give it: a number, a text, bytes or nothing."""
    match value:
        case bool():
            return int(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case None | int() | float() | str() | bytes():
            return value
        case _:
            return str(value)


def _refusal(
    database: Database, connection: Connection, views: str, error: psycopg.Error, seconds: float
) -> Exception:
    state = error.sqlstate or ""
    message = str(error).partition("\n")[0]
    if state == "57014":
        return BadQuery(f"no answer within {seconds:g} seconds", "ask for less, or by key")
    if state in ("42704", "42501", "22023") and role_of(database.address) in message:
        return BadQuery(
            "there is no role for questions in SQL, which can read the index and nothing else",
            "let an administrator of the database run: " + " ".join(role_sql(database.address)),
        )
    if state == "42P01":
        names = ", ".join(_names(connection, views))
        return BadQuery(message, f"the tables are: {names or 'none yet; record something first'}")
    if state in ("42601", "0A000", "25006") or state == "42501":
        return BadQuery(
            f"only one SELECT is answered: {message}", "the index is a cache; nothing is changed"
        )
    if state.startswith(("22", "42", "21")):
        return BadQuery(message, "the index in a database speaks PostgreSQL's SQL")
    return database.trouble(error)


def _names(connection: Connection, schema: str) -> list[str]:
    try:
        connection.execute("ROLLBACK")
        rows = connection.execute(
            "SELECT table_name FROM information_schema.views WHERE table_schema = %s ORDER BY 1",
            (schema,),
        )
        return [str(name) for (name,) in rows]
    except psycopg.Error:
        return []
