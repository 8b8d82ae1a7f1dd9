"""Take over the records of another journal into PostgreSQL, as they are."""
# ruff: noqa: S608  # the names of schemas are made here

from collections.abc import Iterator

from tracklog.journal.copying import ChainPart, check_link, group_of
from tracklog.journal.merkle import ORIGIN, Head
from tracklog.journal.postgres import schema as tables
from tracklog.journal.postgres.connections import Connection
from tracklog.journal.postgres.groups import row_of
from tracklog.journal.postgres.store import PostgresStore
from tracklog.model.errors import BadBackup

_TOGETHER = 4 << 20  # bytes of frames that are committed together


class PostgresReceiver:
    """Stores the parts of a journal; what was copied before is passed over."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def head(self) -> Head:
        return self._store.head()

    def adopt(self, origin: Head, parts: Iterator[ChainPart]) -> None:
        self._begin(origin)
        known, met = self.head(), self.head() == origin
        batch: list[ChainPart] = []
        size = 0
        for part in parts:
            if not met:
                met = (part.link.through, part.link.chain.hex()) == known
                continue
            batch.append(part)
            size += sum(map(len, part.frames))
            if size > _TOGETHER:
                self._store_parts(batch)
                batch, size = [], 0
        if not met:
            raise BadBackup(
                f"there is another journal, which ends with {known}",
                "copy to an empty database, or under another tenant",
            )
        if batch:
            self._store_parts(batch)

    def _begin(self, origin: Head) -> None:
        """Note what was pruned from the original, if nothing is here yet."""
        store = self._store
        if store.origin() == origin:
            return
        if store.last:
            raise BadBackup(
                f"there is another journal, which begins after record {store.origin()}",
                "copy to an empty database, or under another tenant",
            )
        with store.writing() as (connection, (_, last, chain, *_)):
            assert (last, bytes(chain)) == (0, ORIGIN), "it is empty"
            connection.execute(
                f"UPDATE {store.schema}.head SET first = %s, last = %s, chain = %b, origin = %b".encode(),
                (origin.through + 1, origin.through, *[bytes.fromhex(origin.chain)] * 2),
            )

    def _store_parts(self, parts: list[ChainPart]) -> None:
        store = self._store
        with store.writing() as (connection, head):
            last, chain = head[1], bytes(head[2])
            for part in parts:
                link = part.link
                check_link(chain, link)
                if link.kind == "group":
                    self._group(connection, part, last + 1)
                else:
                    connection.execute(
                        f"INSERT INTO {store.schema}.erasures(through, seq, leaf, tombstone, chain)"
                        " VALUES(%s, %s, %b, %b, %b)".encode(),
                        (link.through, link.seq, link.leaf, link.tombstone, link.chain),
                    )
                    connection.execute(
                        f"UPDATE {store.schema}.head SET chain = %b".encode(), (link.chain,)
                    )
                    for frame in part.frames:
                        store.retention.replace(connection, link.seq, frame)
                last, chain = link.through, link.chain

    def _group(self, connection: Connection, part: ChainPart, first: int) -> None:
        link, frames = part
        if len(frames) != link.through - first + 1:
            raise BadBackup(
                f"records {first} to {link.through} are not all there",
                "run `tracklog verify` on the original",
            )
        tables.make_partition(connection, self._store.schema, link.through)
        # The leaves are those of the chain: of an erased record the frame is gone.
        row = row_of(frames, first, [b""])._replace(root=link.root, leaves=link.leaves)
        self._store.insert(connection, row, group_of(part), link.chain, synced=link.synced)
