"""The tables of a journal on PostgreSQL."""
# ruff: noqa: S608  # the names of schemas are made here

import contextlib
from collections.abc import Iterator

import psycopg

from tracklog.journal.merkle import ORIGIN
from tracklog.journal.postgres.connections import Address, Connection, Database
from tracklog.model.errors import BadFormat

MOVED = 2
"""The format of tables with groups that are in an archive; those without have format 1."""
APART = 3
"""The format of a shard whose database has none of the other shards."""
FORMAT = 3
"""The newest format."""
PARTITION = 5_000_000
"""Records of one partition."""
_LOCK = 7_236_871_001  # the advisory lock of whoever makes tables

JOURNAL = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.head (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  format int NOT NULL, shards int NOT NULL, shard int NOT NULL,
  first bigint NOT NULL DEFAULT 1,      -- the first record that is stored
  last bigint NOT NULL DEFAULT 0,       -- the last record
  chain bytea NOT NULL,                 -- the end of the chain
  origin bytea NOT NULL,                -- the chain before the first record
  bytes bigint NOT NULL DEFAULT 0,      -- of all frames, decompressed
  archived bigint NOT NULL DEFAULT 0    -- the last record that is in an archive and not here
) WITH (fillfactor = 10);
CREATE TABLE IF NOT EXISTS {schema}.groups (   -- one row for each commit group
  through bigint PRIMARY KEY,           -- its last record
  first bigint NOT NULL,
  received timestamptz NOT NULL,
  leaves bytea NOT NULL,                -- the first 4 bytes of each leaf
  root bytea NOT NULL, chain bytea NOT NULL,
  synced bool NOT NULL,
  size int NOT NULL,                    -- of the frames, decompressed
  codec "char" NOT NULL,                -- z zstd, r raw, a in an archive
  frames bytea NOT NULL                 -- separated by line ends; of an archive: where they are
) PARTITION BY RANGE (through);
CREATE TABLE IF NOT EXISTS {schema}.erasures (
  n bigserial, through bigint NOT NULL, seq bigint NOT NULL,
  leaf bytea NOT NULL, tombstone bytea NOT NULL, chain bytea NOT NULL,
  PRIMARY KEY (through, n));
CREATE TABLE IF NOT EXISTS {schema}.places (   -- the groups of each run
  family bytea, run bytea, through bigint, first bigint NOT NULL,
  PRIMARY KEY (family, run, through)
) PARTITION BY RANGE (through);
CREATE TABLE IF NOT EXISTS {schema}.runs (
  family bytea, run bytea, last bigint NOT NULL, PRIMARY KEY (family, run)
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {schema}.marks (    -- batch keys, and offsets of sources
  source bytea PRIMARY KEY, through bigint NOT NULL, seq bigint NOT NULL,
  sha256 text NOT NULL, verdicts text NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE INDEX IF NOT EXISTS marks_by_seq ON {schema}.marks(seq);
CREATE TABLE IF NOT EXISTS {schema}.blobs (
  sha256 bytea PRIMARY KEY, size bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(),
  bytes bytea NOT NULL);
"""

CLAIMS = """
CREATE TABLE IF NOT EXISTS {schema}.claims (   -- batch keys of a store with several shards
  source bytea PRIMARY KEY, sha256 text NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE INDEX IF NOT EXISTS claims_by_time ON {schema}.claims(at);
"""

_PARTITION = """
CREATE TABLE IF NOT EXISTS {schema}.groups_{n} PARTITION OF {schema}.groups
  FOR VALUES FROM ({start}) TO ({end});
ALTER TABLE {schema}.groups_{n} ALTER frames SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS {schema}.places_{n} PARTITION OF {schema}.places
  FOR VALUES FROM ({start}) TO ({end});
"""


def refused_schema(address: Address) -> str:
    """The schema of the refused lines, which are a journal of their own; all shards share it."""
    return f"tracklog_{address.tenant}_0_refused"


def index_prefix(address: Address) -> str:
    """What the schemas of the indexes begin with; each version of tracklog has its own."""
    return f"{address.schema}_index_"


def is_made(database: Database, schema: str) -> bool:
    """Whether the tables are there."""
    ask = "SELECT to_regclass(%s) IS NOT NULL"
    return bool(database.ask(ask, (f"{schema}.head",))[0][0])


def owner_of(address: Address) -> str:
    """The user who owns the tables, as SQL writes the name."""
    database = Database(address, writing=False)
    try:
        ask = "SELECT quote_ident(pg_get_userbyid(nspowner)) FROM pg_namespace WHERE nspname = %s"
        return str(database.ask(ask, (address.schema,))[0][0])
    finally:
        database.close()


def make(
    database: Database, schema: str, shards: int = 1, shard: int = 0, *, apart: bool = False
) -> None:
    """Make the tables that are not there, and check the format of those that are."""
    if not is_made(database, schema):
        with _alone(database) as connection:
            connection.execute(JOURNAL.format(schema=schema).encode())
            if shards > 1:
                connection.execute(CLAIMS.format(schema=schema).encode())
            connection.execute(
                f"INSERT INTO {schema}.head(format, shards, shard, chain, origin)"
                " VALUES(%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING".encode(),
                (APART if apart else 1, shards, shard, ORIGIN, ORIGIN),
            )
    check(database, schema, shards)
    through = int(database.ask(f"SELECT last FROM {schema}.head")[0][0])
    make_partitions(database, schema, through)


@contextlib.contextmanager
def _alone(database: Database) -> Iterator[Connection]:
    """A transaction in which nobody else makes tables: CREATE … IF NOT EXISTS fails if two do it
    at the same time.

    The lock is taken before the transaction begins: what was made meanwhile is seen only then.
    """
    try:
        with database.connection() as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
            with connection.transaction():
                yield connection
            connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
    except psycopg.Error as error:
        raise database.trouble(error) from error


def make_table(database: Database, sql: str) -> None:
    """Make a table that is not there."""
    with _alone(database) as connection:
        connection.execute(sql.encode())


def shards_of(database: Database, schema: str) -> int:
    """How many shards the store has that a schema belongs to; 0 where there is none."""
    if not is_made(database, schema):
        return 0
    return int(database.ask(f"SELECT shards FROM {schema}.head")[0][0])


def is_apart(database: Database, schema: str) -> bool:
    """Whether the other shards of this one are in databases of their own."""
    if not is_made(database, schema):
        return False
    return bool(database.ask(f"SELECT format = {APART} FROM {schema}.head")[0][0])


def other_shards(database: Database, address: Address) -> list[str]:
    """The schemas of other shards of the same tenant in a database."""
    ask = "SELECT nspname::text FROM pg_namespace WHERE nspname ~ %s AND nspname <> %s ORDER BY 1"
    rows = database.ask(ask, (f"^tracklog_{address.tenant}_[0-9]+$", address.schema))
    return [str(name) for (name,) in rows]


def check(database: Database, schema: str, shards: int = 1) -> None:
    """Refuse tables that a newer version made, those of another number of shards, and tables that
    are not there.
    """
    format, made = database.ask(f"SELECT format, shards FROM {schema}.head")[0]
    if format > FORMAT:
        raise BadFormat(
            f"the tables in {schema} have format {format}, and this version knows {FORMAT}",
            "use a newer version of tracklog",
        )
    if made != shards:
        raise BadFormat(
            f"the journal in {schema} was made with {made} shards, and not with {shards}",
            "the number of shards of a tenant is fixed; a new tenant can have another one",
        )


def make_partitions(database: Database, schema: str, through: int) -> None:
    """Make the partition of the next record, and the one after it."""
    with _alone(database) as connection:
        make_partition(connection, schema, through + 1)
        make_partition(connection, schema, through + PARTITION)


def make_partition(connection: Connection, schema: str, seq: int) -> None:
    """Make the partition that a group which ends with this record is stored in."""
    n = seq // PARTITION
    there = connection.execute("SELECT to_regclass(%s)", (f"{schema}.places_{n}",)).fetchone()
    if there is None or there[0] is None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        start, end = n * PARTITION, (n + 1) * PARTITION
        text = _PARTITION.format(schema=schema, n=n, start=start, end=end)
        connection.execute(text.encode())


def drop_partitions(connection: Connection, schema: str, through: int) -> None:
    """Drop the partitions that end before a record that is stored no more."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = to_regclass(%s)",
        (f"{schema}.groups",),
    ).fetchall()
    for (name,) in rows:
        n = int(str(name).rpartition("_")[2])
        if (n + 1) * PARTITION - 1 <= through:
            for table in ("groups", "places"):
                connection.execute(f"DROP TABLE IF EXISTS {schema}.{table}_{n}".encode())
