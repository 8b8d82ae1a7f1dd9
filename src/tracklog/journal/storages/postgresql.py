"""`postgresql://user@host/database?tenant=name`: a journal that many machines share.

Several such URLs, with spaces between them, are a journal whose shards have a database each. It needs the extra `tracklog[postgres]`.
"""

# ruff: noqa: S608  # the names of schemas are made here

import re
from collections.abc import Sequence
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from tracklog.journal.comparing import Report, verify_store
from tracklog.journal.journal import Journal
from tracklog.journal.merkle import Head
from tracklog.journal.postgres.blobs import PostgresBlobs
from tracklog.journal.postgres.connections import Address, Database
from tracklog.journal.postgres.leases import PostgresLeases
from tracklog.journal.postgres.moving_old import move_old
from tracklog.journal.postgres.offsets import PostgresOffsets
from tracklog.journal.postgres.schema import (
    is_apart,
    is_made,
    other_shards,
    refused_schema,
    shards_of,
)
from tracklog.journal.postgres.store import PostgresStore
from tracklog.journal.postgres.tenants import set_setting, setting
from tracklog.journal.sharding import Ends, Numbers, ShardedStorage, shard_of
from tracklog.journal.storages import MovedToArchive, Storage
from tracklog.journal.stores import Durability
from tracklog.model.errors import BadFormat

if TYPE_CHECKING:
    from tracklog.journal.archive.reader import ArchiveReader

CLAIMED = "30 days"
"""How long a batch key of a store with several shards is known to be used."""
REFUSED = 32 << 20
"""Bytes of refused lines that are stored; then the oldest are dropped."""
IDENTITY = "store"
"""The setting that all shards of one store have alike, if each has a database of its own."""
FOLDER = "~/.local/share/tracklog/stores"
"""Where the folders of this machine are, one for each database and tenant."""


class PostgresStorage:
    """A journal in a schema of a database, with its refused lines and its index beside it."""

    def __init__(
        self,
        place: str,
        *,
        durability: Durability = "sync",
        readonly: bool = False,
        segment_size: int = 0,
        folders: str | Path = FOLDER,
        shards: int = 0,
        database: Database | None = None,
        apart: bool = False,
        first: "PostgresStorage | None" = None,
    ) -> None:
        del segment_size  # a database has no segments
        self._place = place
        self.address = address = Address(place)
        self._shares_database = database is not None
        self.database = database or Database(address, writing=not readonly)
        self._readonly, self._folders = readonly, Path(folders)
        self._first = first or self
        """The shard that has what all share; with one database, each can reach it by itself."""
        try:
            self.is_apart = apart or is_apart(self.database, address.schema)
            """Whether the other shards are in databases of their own."""
            self.refused_together = not self.is_apart
            self.shards = shards or shards_of(self.database, self._first_schema) or 1
            """How many shards the store has; where it is new, as many as were asked for."""
            self._check_shard(named=apart)
            self.store = PostgresStore(
                self.database,
                address.schema,
                durability=durability,
                readonly=readonly,
                refused=self.refused,
                shards=self.shards,
                shard=address.shard or 0,
                apart=self._first.database if self.is_apart else None,
            )
        except BaseException:
            self.close()
            raise

    def _check_shard(self, *, named: bool) -> None:
        """Refuse a shard that does not exist, and the database of one in the place of all."""
        address = self.address
        if (address.shard or 0) >= self.shards:
            raise BadFormat(
                f"there is no shard {address.shard} at {address.shown}: the store has {self.shards}",
                "`tracklog store status` of the URL without `shard=` lists them",
            )
        if self.is_apart and not named and address.shard is None:
            raise BadFormat(
                f"{address.shown} has one of {self.shards} shards; each is in a database of its own",
                "give --store once for each of them, in their order; with `shard=0` this is the URL"
                " of the one that is here",
            )
        if address.shard is not None or is_made(self.database, address.schema):
            return
        if found := other_shards(self.database, address):
            raise BadFormat(
                f"{address.shown} has {found[0]}, a shard of a journal in several databases",
                "give --store once for each of these databases, in their order",
            )

    @cached_property
    def refused(self) -> PostgresStore:
        if self._first is not self:
            return self._first.refused
        return PostgresStore(
            self.database,
            refused_schema(self.address),
            durability="os",
            readonly=self._readonly,
            most=REFUSED,
        )

    @cached_property
    def folder(self) -> Path:
        known = self.address.known
        place = "\0".join(str(known.get(each)) for each in ("host", "hostaddr", "port", "dbname"))
        name = re.sub(
            r"[^\w.-]+", "-", f"{known.get('dbname') or 'postgres'}-{self.address.tenant}"
        )
        folder = self._folders.expanduser() / f"{name}-{sha256(place.encode()).hexdigest()[:8]}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    @cached_property
    def index_url(self) -> str:
        """In the same database; where this user may not make one, a file of this machine."""
        ask = "SELECT NOT pg_is_in_recovery() AND has_database_privilege(current_database(), 'CREATE')"
        if self.database.ask(ask)[0][0]:
            return f"postgresql:{self._place}"
        return f"sqlite:{self.folder / f'index{self.address.shard or str()}.db'}"

    @property
    def numbers(self) -> Numbers | None:
        """How the records of this shard are numbered; None where it is the only one."""
        return Numbers(self.address.shard or 0, self.shards) if self.shards > 1 else None

    @cached_property
    def blobs(self) -> PostgresBlobs:
        return PostgresBlobs(self._first.database, self._first._first_schema)  # its own

    def offsets(self, journal: Journal) -> PostgresOffsets:
        del journal  # the marks stand in a table of their own
        return PostgresOffsets(self.database, self.address.schema)

    def verify(self, anchor: Head | None = None) -> Report:
        return verify_store(self.store, anchor)

    def move_old(self, reader: "ArchiveReader", before: str) -> MovedToArchive:
        return move_old(self.database, self.address.schema, reader, before)

    def setting(self, name: str) -> bytes | None:
        first = self._first
        return setting(first.database, first._first_schema, name)  # its own

    def set_setting(self, name: str, value: bytes) -> None:
        first = self._first
        set_setting(first.database, first._first_schema, name, value)  # its own

    @property
    def _first_schema(self) -> str:
        """The schema of shard 0, which has what all shards share; its own, if that is not here."""
        if self.is_apart:
            return self.address.schema
        return f"tracklog_{self.address.tenant}_0"

    def leases(self) -> PostgresLeases:
        return PostgresLeases(self.database, self.address.schema)

    def close(self) -> None:
        for name in ("store", "refused"):
            if name in self.__dict__:
                self.__dict__[name].close()
        if not self._shares_database:
            self.database.close()


def open_storage(
    place: str, *, shards: int = 0, **options: Any
) -> PostgresStorage | ShardedStorage:
    """The storage at a URL; of a store with several shards all of them, unless it names one."""
    places = [each.removeprefix("postgresql:") for each in place.split()]
    if len(places) > 1:
        return _apart(places, shards, options)
    first = PostgresStorage(place, shards=shards, **options)
    if first.shards == 1 or first.address.shard is not None:
        return first
    parts: list[PostgresStorage] = [first]
    try:
        for shard in range(1, first.shards):
            options |= {"shards": first.shards, "database": first.database}
            parts.append(PostgresStorage(_of_shard(place, shard), **options))
    except BaseException:
        _close(parts)
        raise
    return _together(parts)


def _apart(places: Sequence[str], shards: int, options: dict[str, Any]) -> ShardedStorage:
    """The storage with a database for each shard. The tables are made only if `shards` are asked
    for, the first last: then all are complete.
    """
    _check_places(places, shards)
    if shards:
        _make_apart(places, shards, options)
    parts: list[PostgresStorage] = []
    try:
        for shard, place in enumerate(places):
            _check_made(place, shard, len(places))
            options |= {"shards": len(places), "apart": True, "first": parts[0] if parts else None}
            parts.append(PostgresStorage(_of_shard(place, shard), **options))
        _check_one_store(parts)
    except BaseException:
        _close(parts)
        raise
    return _together(parts)


def _make_apart(places: Sequence[str], shards: int, options: dict[str, Any]) -> None:
    """Make the tables of all shards, with the same identity of their store."""
    identity = uuid4().hex.encode()
    for shard in reversed(range(len(places))):
        of = _of_shard(places[shard], shard)
        part = PostgresStorage(of, **options, shards=shards, apart=True)
        try:
            if (known := _identity(part)) is None:
                set_setting(part.database, part.address.schema, IDENTITY, identity)
            else:  # made before, or an init that was interrupted
                identity = known
        finally:
            part.close()


def _check_one_store(parts: Sequence[PostgresStorage]) -> None:
    if len({_identity(part) for part in parts}) > 1:
        raise BadFormat(
            "the databases are those of shards of different stores",
            "name the databases that one `tracklog store init URL URL` made",
        )


def _identity(part: PostgresStorage) -> bytes | None:
    return setting(part.database, part.address.schema, IDENTITY)


def _check_places(places: Sequence[str], shards: int) -> None:
    """Refuse URLs of databases that cannot be those of all shards of one store."""
    count = len(places)
    addresses = [Address(each) for each in places]
    if count & (count - 1) or shards not in (0, count):
        raise BadFormat(
            f"{count} databases are no power of 2, or not as many as the shards",
            "give one URL for each shard: 2, 4, 8 …",
        )
    if any(each.shard is not None for each in addresses):
        raise BadFormat(
            "a URL with `shard=` is that of one shard",
            "leave it out: their order says which is which",
        )
    if len({each.tenant for each in addresses}) > 1:
        raise BadFormat("the URLs name different tenants", "a store belongs to one tenant")
    if len({str(each.known) for each in addresses}) < count:
        raise BadFormat("two of the URLs are the same database", "give each shard its own")
    for shard, place in enumerate(places if shards else ()):
        own = Address(_of_shard(place, shard))
        database = Database(own, writing=True)
        try:
            if found := other_shards(database, own):
                raise BadFormat(
                    f"there is another journal of this tenant at {own.shown}: {found[0]}",
                    "each shard has a database of its own; their order is fixed",
                )
        finally:
            database.close()


def _check_made(place: str, shard: int, shards: int) -> None:
    """Refuse a database that does not have its shard: to make it there would hide a wrong URL."""
    address = Address(_of_shard(place, shard))
    database = Database(address, writing=False)
    try:
        if not is_apart(database, address.schema):
            raise BadFormat(
                f"shard {shard} of {shards} is not at {address.shown}",
                "name the databases in the order in which `tracklog store init URL URL` made them",
            )
    finally:
        database.close()


def _of_shard(place: str, shard: int) -> str:
    return f"{place}{'&' if '?' in place else '?'}shard={shard}"


def _together(parts: list[PostgresStorage]) -> ShardedStorage:
    return ShardedStorage(
        cast("list[Storage]", parts), partial(_lasts, parts), partial(_claim, parts)
    )


def _close(parts: Sequence[PostgresStorage]) -> None:
    for part in reversed(parts):
        part.close()


def _lasts(parts: Sequence[PostgresStorage]) -> Ends:
    """The last record of each shard, in one question to each database."""
    if parts[0].is_apart:
        return tuple(part.store.last for part in parts)
    selects = (f"(SELECT last FROM {part.address.schema}.head)" for part in parts)
    return tuple(parts[0].database.ask(f"SELECT {', '.join(selects)}")[0])


def _claim(parts: Sequence[PostgresStorage], source: str, sha256: str) -> str:
    """Claim a batch key for some lines; the hash of the lines that it was claimed for first."""
    name = source.encode("utf-8", "surrogatepass")
    part = parts[shard_of((source, ""), len(parts))]
    table = f"{part.address.schema}.claims"
    # The last CTE drops what is too old to be sent again, a little at a time.
    rows = part.database.ask(
        f"WITH made AS (INSERT INTO {table}(source, sha256) VALUES(%b, %s)"
        " ON CONFLICT (source) DO UPDATE SET source = excluded.source RETURNING sha256),"
        f" old AS (DELETE FROM {table} WHERE source IN (SELECT source FROM {table}"
        f" WHERE at < now() - interval '{CLAIMED}' ORDER BY at LIMIT 10) RETURNING 1)"
        " SELECT sha256 FROM made",
        (name, sha256),
    )
    return str(rows[0][0])


storage = open_storage
