"""Tenants of one database: a role of the database for each, and a limit on what it records."""
# ruff: noqa: S608  # the names of schemas and roles are made here

import math
from dataclasses import dataclass

import psycopg

from tracklog.journal.postgres.connections import PATIENCE, Address, Connection, Database
from tracklog.journal.postgres.schema import is_made, make_table
from tracklog.model.errors import BadFormat, OverQuota

_QUOTA = """
CREATE TABLE IF NOT EXISTS {schema}.quota (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  rate int NOT NULL,                    -- records per second; 0 for any number
  daily bigint NOT NULL,                -- bytes of records per day; 0 for any number
  tokens double precision NOT NULL,     -- records that may come now
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  day date NOT NULL DEFAULT current_date,
  used bigint NOT NULL DEFAULT 0        -- bytes of records on that day
);
"""
_TAKE = """
WITH known AS (
  SELECT rate, daily, (clock_timestamp() AT TIME ZONE 'UTC')::date AS today,
    least(2.0 * rate, tokens + rate * extract(epoch FROM clock_timestamp() - at)) AS tokens,
    CASE WHEN day = (clock_timestamp() AT TIME ZONE 'UTC')::date THEN used ELSE 0 END AS used
  FROM {schema}.quota)
UPDATE {schema}.quota SET tokens = known.tokens - %s, at = clock_timestamp(),
  day = known.today, used = known.used + %s
FROM known RETURNING known.rate, known.tokens, known.daily, known.used
"""
_SETTINGS = """
CREATE TABLE IF NOT EXISTS {schema}.settings (   -- what all collectors of the tenant share
  name text PRIMARY KEY, value bytea NOT NULL);
"""
_DAY = 3600  # seconds that a sender waits at most before it asks again whether a new day began


@dataclass(frozen=True, slots=True)
class Quota:
    """What a tenant may record, over all collectors; 0 for no limit."""

    records_per_second: int
    bytes_per_day: int
    used_today: int
    """Bytes of records that were stored today, in UTC."""


def set_quota(database: Database, schema: str, rate: int, daily: int) -> None:
    """Limit the records per second and the bytes per day; both 0 for no limit."""
    try:
        with database.connection() as connection, connection.transaction():
            connection.execute(_QUOTA.format(schema=schema).encode())
            connection.execute(
                f"INSERT INTO {schema}.quota(rate, daily, tokens) VALUES(%s, %s, %s)"
                " ON CONFLICT (one) DO UPDATE SET rate = excluded.rate, daily = excluded.daily,"
                " tokens = excluded.tokens, at = clock_timestamp()".encode(),
                (rate, daily, 2.0 * rate),
            )
    except psycopg.Error as error:
        raise database.trouble(error) from error


def setting(database: Database, schema: str, name: str) -> bytes | None:
    """A setting that all collectors of a tenant share; None where it was never set."""
    if not _has_settings(database, schema):
        return None
    rows = database.ask(f"SELECT value FROM {schema}.settings WHERE name = %s", (name,))
    return bytes(rows[0][0]) if rows else None


def set_setting(database: Database, schema: str, name: str, value: bytes) -> None:
    """Store a setting for all collectors of a tenant; durable on return."""
    if not _has_settings(database, schema):
        make_table(database, _SETTINGS.format(schema=schema))
    put = (
        f"INSERT INTO {schema}.settings(name, value) VALUES(%s, %b)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value RETURNING name"
    )
    database.ask(put, (name, value))


def _has_settings(database: Database, schema: str) -> bool:
    ask = "SELECT to_regclass(%s) IS NOT NULL"
    return bool(database.ask(ask, (f"{schema}.settings",))[0][0])


def quota_of(database: Database, schema: str, *, patience: float = PATIENCE) -> Quota | None:
    """The limits of a tenant; None where none were ever set."""
    there = "SELECT to_regclass(%s) IS NOT NULL"
    if not database.ask(there, (f"{schema}.quota",), patience=patience)[0][0]:
        return None
    today = "(clock_timestamp() AT TIME ZONE 'UTC')::date"
    ask = f"SELECT rate, daily, CASE WHEN day = {today} THEN used ELSE 0 END FROM {schema}.quota"
    return Quota(*database.ask(ask, patience=patience)[0])


def take(connection: Connection, schema: str, records: int, size: int) -> None:
    """Count what a group adds; `OverQuota` if what came before has used up what a tenant may record.

    A group that is larger than what is left passes, and later ones wait for it.
    """
    row = connection.execute(
        _TAKE.format(schema=schema).encode(), (float(records), size), binary=True
    ).fetchone()
    if row is None:
        return
    rate, tokens, daily, used = row
    if rate and tokens <= 0:
        raise OverQuota(
            f"this tenant may record {rate:,} records per second, and has recorded more",
            "nothing was stored; send it again later",
            seconds=math.ceil(-tokens / rate) + 1,
        )
    if daily and used >= daily:
        raise OverQuota(
            f"this tenant may record {daily:,} bytes per day, and has recorded them",
            "nothing was stored; send it again tomorrow (UTC), or let an administrator raise the"
            " limit with `tracklog store limit`",
            seconds=_DAY,
        )


def make_owner(address: Address) -> None:
    """Make the role that owns what a tenant has, and nothing else."""
    database = Database(address, writing=True)
    role = address.owner
    try:
        if is_made(database, address.schema):
            ask = "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = %s"
            if database.ask(ask, (address.schema,))[0][0] != role:
                raise BadFormat(
                    f"the tables of tenant {address.tenant!r} belong to another role",
                    "copy the journal to a new tenant: `tracklog store copy`",
                )
            return
        with database.connection() as connection, connection.transaction():
            for name in (role, address.asker):
                known = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,))
                if known.fetchone() is None:
                    connection.execute(f"CREATE ROLE {name} NOLOGIN".encode())
                    connection.execute(f"GRANT {name} TO CURRENT_USER".encode())
            connection.execute(
                f"DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {role}',"
                " current_database()); END $$".encode()
            )
    except psycopg.Error as error:
        trouble = database.trouble(error)
        trouble.hint = "let a user of the database do this who may create roles"
        raise trouble from error
    finally:
        database.close()
