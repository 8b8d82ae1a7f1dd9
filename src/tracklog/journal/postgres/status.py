"""How a journal on PostgreSQL is: how far, how large, and who else has a copy of it."""
# ruff: noqa: S608  # the names of schemas are made here

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tracklog.journal.archive.notes import parsed, setting_of
from tracklog.journal.postgres.connections import Address, Database
from tracklog.journal.postgres.groups import ARCHIVED
from tracklog.journal.postgres.schema import check, is_apart, refused_schema, shards_of
from tracklog.journal.postgres.tenants import Quota, quota_of, setting
from tracklog.journal.sharding import Numbers


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
class ArchiveStatus:
    """The archive of a record, as the last process that archived left it."""

    place: str
    through: int
    """The last record that it has."""
    behind: int
    """Records that are not archived: what would be missing if the record were lost now."""
    at: str
    """When it was written last."""


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
    """The end of the chain; empty where each shard has its own."""
    heads: list[str]
    """The end of the chain of each shard."""
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
    archives: list[ArchiveStatus]
    """The archive of each shard that has one."""
    quota: Quota | None
    standbys: list[Standby]
    warnings: list[str]


def status(addresses: Sequence[Address]) -> StoreStatus:
    """Ask a database about its journal; or each of the databases that have a shard of it."""
    states = [_status(each, addresses[0]) for each in addresses]
    first = states[0]
    if len(states) == 1:
        return first
    return StoreStatus(
        " ".join(each.store for each in states),
        first.tenant,
        first.shards,
        first.server,
        min(each.first for each in states),
        sum(each.last for each in states),
        "",
        [each.head for each in states],
        sum(each.groups for each in states),
        sum(each.runs for each in states),
        sum(each.bytes for each in states),
        sum(each.table_bytes for each in states),
        sum(each.archived for each in states),
        sum(each.refused for each in states),
        sum(each.blobs for each in states),
        [index for each in states for index in each.indexes],
        [archive for each in states for archive in each.archives],
        first.quota,
        [standby for each in states for standby in each.standbys],
        [f"shard {n}: {why}" for n, each in enumerate(states) for why in each.warnings],
    )


def _status(address: Address, settings: Address) -> StoreStatus:
    """The state of one database; another one may have the settings that all shards share."""
    database = Database(address, writing=False)
    shared = Database(settings, writing=False)
    schema, refused = address.schema, refused_schema(address)
    try:
        apart = is_apart(database, schema)
        first = schema if apart else f"tracklog_{address.tenant}_0"
        shards = shards_of(database, schema) or 1
        check(database, schema, shards)
        one = shards == 1 or address.shard is not None
        schemas = [schema] if one else [f"tracklog_{address.tenant}_{n}" for n in range(shards)]
        parts = [_journal(database, each) for each in schemas]
        blobs, aside = database.ask(
            f"SELECT (SELECT count(*) FROM {first}.blobs),"
            f" (SELECT last - first + 1 FROM {refused}.head)"
        )[0]
        (on_disk,) = database.ask(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN"
            " pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY(%s) AND c.relkind = 'r'",
            (schemas,),
        )[0]
        indexes = [
            index
            for n, (each, part) in enumerate(zip(schemas, parts, strict=True))
            for index in _indexes(
                database, each, part.last, None if shards == 1 else (address.shard or n, shards)
            )
        ]
        archives = [
            found
            for n, part in enumerate(parts)
            for found in _archives(
                shared,
                settings.schema if apart else first,
                None if shards == 1 else address.shard or n,
                part.last,
            )
        ]
        quota = quota_of(database, first)
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
        shared.close()
    return StoreStatus(
        address.shown,
        address.tenant,
        shards,
        f"PostgreSQL {version}",
        min(part.first for part in parts),
        sum(part.last for part in parts),
        parts[0].head if one else "",
        [part.head for part in parts],
        sum(part.groups for part in parts),
        sum(part.runs for part in parts),
        sum(part.size for part in parts),
        on_disk,
        sum(part.archived for part in parts),
        aside,
        blobs,
        indexes,
        archives,
        quota,
        standbys,
        _warnings(names, fsync, full_pages, standbys),
    )


class _JournalStatus(NamedTuple):
    """What is asked of one journal."""

    first: int
    last: int
    head: str
    size: int
    groups: int
    archived: int
    runs: int


def _journal(database: Database, schema: str) -> _JournalStatus:
    first, last, chain, *rest = database.ask(
        f"SELECT first, last, chain, bytes, (SELECT count(*) FROM {schema}.groups),"
        f" (SELECT coalesce(sum(through - first + 1), 0)::bigint FROM {schema}.groups"
        f" WHERE codec = '{ARCHIVED}'), (SELECT count(*) FROM {schema}.runs) FROM {schema}.head"
    )[0]
    return _JournalStatus(first, last, f"{last}:{bytes(chain).hex()}", *rest)


def _indexes(
    database: Database, journal: str, last: int, shard: tuple[int, int] | None
) -> list[IndexStatus]:
    schemas = database.ask(
        "SELECT quote_ident(nspname), nspname::text FROM pg_namespace WHERE starts_with(nspname, %s)"
        " AND has_schema_privilege(oid, 'USAGE') AND to_regclass(quote_ident(nspname) || '.meta')"
        " IS NOT NULL ORDER BY 2",
        (f"{journal}_index_",),
    )
    statuses: list[IndexStatus] = []
    for quoted, schema in schemas:
        ask = f"SELECT value::bigint FROM {quoted}.meta WHERE name = 'cursor'"
        for (cursor,) in database.ask(ask):
            own = cursor if shard is None else Numbers(*shard).inner(cursor)
            statuses.append(IndexStatus(schema, own, last - own))
    return statuses


def _archives(
    database: Database, schema: str, shard: int | None, last: int
) -> Iterator[ArchiveStatus]:
    """The archive of a journal, if it has one."""
    known = setting(database, schema, setting_of(shard))
    if note := parsed(known):
        yield ArchiveStatus(note.place, note.through, max(0, last - note.through), note.at)


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
