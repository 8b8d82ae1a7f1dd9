"""`postgresql://user@host/database?tenant=name`: a journal that many machines share.

It needs the extra `tracklog[postgres]`.
"""

import re
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tracklog.journal.comparing import Report, verify_store
from tracklog.journal.journal import Journal
from tracklog.journal.merkle import Head
from tracklog.journal.postgres.blobs import PostgresBlobs
from tracklog.journal.postgres.connections import Address, Database
from tracklog.journal.postgres.cooling import move_old
from tracklog.journal.postgres.leases import PostgresLeases
from tracklog.journal.postgres.offsets import PostgresOffsets
from tracklog.journal.postgres.schema import refused_schema
from tracklog.journal.postgres.store import PostgresStore
from tracklog.journal.storages import Moved
from tracklog.journal.stores import Durability

if TYPE_CHECKING:
    from tracklog.journal.archive.reader import ArchiveReader

REFUSED = 32 << 20
"""Bytes of refused lines that are stored; then the oldest are dropped."""
FOLDER = "~/.local/share/tracklog/stores"
"""Where the folders of this machine are, one for each database and tenant."""


class PostgresStorage:
    """A journal in a schema of a database, with its refused lines and its index beside it."""

    refused_together = True

    def __init__(
        self,
        place: str,
        *,
        durability: Durability = "sync",
        readonly: bool = False,
        segment_size: int = 0,
        folders: str | Path = FOLDER,
    ) -> None:
        del segment_size  # a database has no segments
        self._place = place
        self.address = address = Address(place)
        self.database = Database(address, writing=not readonly)
        self._readonly, self._folders = readonly, Path(folders)
        try:
            self.store = PostgresStore(
                self.database,
                address.schema,
                durability=durability,
                readonly=readonly,
                refused=self.refused,
            )
        except BaseException:
            self.close()
            raise

    @cached_property
    def refused(self) -> PostgresStore:
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
        return f"sqlite:{self.folder / 'index.db'}"

    @cached_property
    def blobs(self) -> PostgresBlobs:
        return PostgresBlobs(self.database, self.address.schema)

    def offsets(self, journal: Journal) -> PostgresOffsets:
        del journal  # the marks stand in a table of their own
        return PostgresOffsets(self.database, self.address.schema)

    def verify(self, anchor: Head | None = None) -> Report:
        return verify_store(self.store, anchor)

    def move_old(self, reader: "ArchiveReader", before: str) -> Moved:
        return move_old(self.database, self.address.schema, reader, before)

    def leases(self) -> PostgresLeases:
        return PostgresLeases(self.database, self.address.schema)

    def close(self) -> None:
        for name in ("store", "refused"):
            if name in self.__dict__:
                self.__dict__[name].close()
        self.database.close()


storage = PostgresStorage
