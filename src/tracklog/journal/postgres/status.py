"""How a journal on PostgreSQL is: how far, how large, and who else has a copy of it."""
# ruff: noqa: S608  # the names of schemas are made here

from dataclasses import dataclass

from tracklog.journal.postgres.connections import Address, Database
from tracklog.journal.postgres.groups import COLD
from tracklog.journal.postgres.schema import check, index_prefix, refused_schema
from tracklog.journal.postgres.tenants import Quota, quota_of


@dataclass(frozen=True, slots=True)
class Standby:
    """A server that follows the database."""

    name: str
    state: str
    sync: str
    """`sync` or `quorum` if an acknowledgement waits for it, else `async` or `potential`."""
    behind_bytes: int | None
    """What it has not written yet; None where the user may not see it."""


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """An index in the database; each version of tracklog has its own."""

    schema: str
    cursor: int
    """The last record that is indexed."""
    behind: int
    """Records that are not indexed yet."""


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The state of a store."""

    store: str
    tenant: str
    shards: int
    server: str
    first: int
    last: int
    head: str
    groups: int
    runs: int
    bytes: int
    """Of the records, decompressed."""
    table_bytes: int
    """Of the tables of the journal, on the server's disk."""
    archived: int
    """Records that were moved to an archive, and are read from there."""
    refused: int
    """Refused lines that are stored."""
    blobs: int
    indexes: list[IndexStatus]
    quota: Quota | None
    standbys: list[Standby]
    warnings: list[str]


def status(address: Address) -> StoreStatus:
    """Ask a database about its journal."""
    database = Database(address, writing=False)
    schema, refused = address.schema, refused_schema(address)
    try:
        check(database, schema)
        first, last, chain, size, shards = database.ask(
            f"SELECT first, last, chain, bytes, shards FROM {schema}.head"
        )[0]
        groups, archived, runs, blobs, aside = database.ask(
            f"SELECT (SELECT count(*) FROM {schema}.groups), (SELECT coalesce(sum(through - first + 1),"
            f" 0)::bigint FROM {schema}.groups WHERE codec = '{COLD}'),"
            f" (SELECT count(*) FROM {schema}.runs),"
            f" (SELECT count(*) FROM {schema}.blobs),"
            f" (SELECT last - first + 1 FROM {refused}.head)"
        )[0]
        (on_disk,) = database.ask(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN"
            " pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'",
            (schema,),
        )[0]
        indexes = _indexes(database, last)
        quota = quota_of(database, schema)
        version, names, fsync, full_pages = database.ask(
            "SELECT current_setting('server_version'), current_setting('synchronous_standby_names'),"
            " current_setting('fsync'), current_setting('full_page_writes')"
        )[0]
        standbys = [
            Standby(*row)
            for row in database.ask(
                "SELECT coalesce(application_name, ''), coalesce(state, ''), coalesce(sync_state, ''),"
                " pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)::bigint FROM pg_stat_replication"
                " WHERE NOT pg_is_in_recovery() ORDER BY 1"
            )
        ]
    finally:
        database.close()
    return StoreStatus(
        address.shown,
        address.tenant,
        shards,
        f"PostgreSQL {version}",
        first,
        last,
        f"{last}:{bytes(chain).hex()}",
        groups,
        runs,
        size,
        on_disk,
        archived,
        aside,
        blobs,
        indexes,
        quota,
        standbys,
        _warnings(names, fsync, full_pages, standbys),
    )


def _indexes(database: Database, last: int) -> list[IndexStatus]:
    schemas = database.ask(
        "SELECT quote_ident(nspname), nspname::text FROM pg_namespace WHERE starts_with(nspname, %s)"
        " AND has_schema_privilege(oid, 'USAGE') AND to_regclass(quote_ident(nspname) || '.meta')"
        " IS NOT NULL ORDER BY 2",
        (index_prefix(database.address),),
    )
    statuses: list[IndexStatus] = []
    for quoted, schema in schemas:
        ask = f"SELECT value::bigint FROM {quoted}.meta WHERE name = 'cursor'"
        statuses += [IndexStatus(schema, cursor, last - cursor) for (cursor,) in database.ask(ask)]
    return statuses


def _warnings(names: str, fsync: str, full_pages: str, standbys: list[Standby]) -> list[str]:
    warnings: list[str] = []
    if not names:
        warnings.append(
            "no synchronous standby (synchronous_standby_names is empty): acknowledged records"
            " survive a crash of the server, and not the loss of its machine or its disk"
        )
    elif not any(each.sync in ("sync", "quorum") for each in standbys):
        warnings.append(
            "the synchronous standby is not there: nothing is acknowledged until it is back"
        )
    if fsync == "off" or full_pages == "off":
        warnings.append(
            "fsync or full_page_writes is off: the loss of power can destroy the database"
        )
    return warnings
