"""Move old records and large values out of the database, if an archive has the same bytes."""
# ruff: noqa: S608  # the names of schemas are made here

import time
from bisect import bisect_left
from collections.abc import Iterator

from tracklog.journal.archive.objects import Objects
from tracklog.journal.archive.reader import ArchiveReader, Shipment, blob_of
from tracklog.journal.frame import stamp
from tracklog.journal.postgres import archived
from tracklog.journal.postgres.archived import Pointer
from tracklog.journal.postgres.connections import Database
from tracklog.journal.postgres.groups import ARCHIVED, unpacked
from tracklog.journal.postgres.schema import MOVED
from tracklog.journal.storages import MovedToArchive
from tracklog.model.errors import NoSuchObject

LARGE = 1 << 20
"""Bytes from which on a large value is moved whatever its age."""
_GROUPS = 64  # rows that are compared at once


def move_old(database: Database, schema: str, reader: ArchiveReader, before: str) -> MovedToArchive:
    """Move the groups that were received before that time, and large values, to an archive.

    A group is moved if the archive has its frames byte for byte. One that is erased meanwhile stays:
    the condition on its version then fails.
    """
    records = size = 0
    for shipment, throughs in _old(database, schema, reader, before):
        frames = reader.stored_frames(shipment.number)
        moved = stamp(time.time())
        first = shipment.before.through + 1
        pointer = Pointer(archived.place_of(reader.objects), shipment.number, first, moved)
        for at in range(0, len(throughs), _GROUPS):
            more, freed = _move(database, schema, pointer, frames, throughs[at : at + _GROUPS])
            records, size = records + more, size + freed
    return MovedToArchive(records, size, _move_blobs(database, schema, reader.objects, before))


def _old(
    database: Database, schema: str, reader: ArchiveReader, before: str
) -> Iterator[tuple[Shipment, list[int]]]:
    """The shipments that have old groups which are in the database, with the ends of these groups."""
    rows = database.ask(
        f"SELECT through FROM {schema}.groups WHERE codec <> '{ARCHIVED}' AND through <= %s"
        " AND received < %s::timestamptz ORDER BY through",
        (reader.last, before),
    )
    old = [int(through) for (through,) in rows]
    if old:
        _begin(database, schema)
    for shipment in reader.shipments:
        start, end = shipment.before.through, shipment.after.through
        if throughs := old[bisect_left(old, start + 1) : bisect_left(old, end + 1)]:
            yield shipment, throughs


def _begin(database: Database, schema: str) -> None:
    """Note that groups are in an archive: older versions of tracklog must not read these tables."""
    head = f"{schema}.head"
    database.ask(f"UPDATE {head} SET format = {MOVED} WHERE format < {MOVED} RETURNING format")


def _move(
    database: Database, schema: str, pointer: Pointer, frames: list[bytes], throughs: list[int]
) -> tuple[int, int]:
    """Move the groups with these ends to a shipment with these frames: records and bytes."""
    rows = database.ask(
        f"SELECT through, first, codec::text, frames, size, xmin::text FROM {schema}.groups"
        " WHERE through = ANY(%s::bigint[])",
        (throughs,),
    )
    versions = {
        through: version
        for through, first, codec, data, size, version in rows
        if codec != ARCHIVED
        and unpacked(codec, data, size)
        == frames[first - pointer.first : through - pointer.first + 1]
    }
    if not versions:
        return 0, 0
    done = database.ask(
        f"""WITH moved AS (
          UPDATE {schema}.groups AS g SET codec = '{ARCHIVED}', frames = %b
          FROM unnest(%s::bigint[], %s::text[]) AS same(through, version)
          WHERE g.through = same.through AND g.xmin::text = same.version
          RETURNING g.through - g.first + 1 AS records, g.size, g.through),
        noted AS (UPDATE {schema}.head
          SET archived = greatest(archived, (SELECT max(through) FROM moved)))
        SELECT coalesce(sum(records), 0)::bigint, coalesce(sum(size), 0)::bigint FROM moved""",
        (pointer.packed(), list(versions), list(versions.values())),
    )
    return int(done[0][0]), int(done[0][1])


def _move_blobs(database: Database, schema: str, objects: Objects, before: str) -> int:
    """Move old and large values to the archive, if it has them; returns how many."""
    rows = database.ask(
        f"SELECT sha256 FROM {schema}.blobs WHERE bytes IS NOT NULL"
        " AND (size >= %s OR at < %s::timestamptz) ORDER BY sha256",
        (LARGE, before),
    )
    there = [bytes(name) for (name,) in rows if _has(objects, bytes(name).hex())]
    if not there:
        return 0
    _begin(database, schema)
    with database.connection() as connection, connection.transaction():
        connection.execute(archived.BLOBS.format(schema=schema).encode())
    done = database.ask(
        f"""WITH noted AS (
          INSERT INTO {schema}.cold_blobs SELECT unnest(%b::bytea[]), %s
          ON CONFLICT (sha256) DO UPDATE SET place = excluded.place RETURNING sha256)
        UPDATE {schema}.blobs AS b SET bytes = NULL FROM noted WHERE b.sha256 = noted.sha256
        RETURNING 1""",
        (there, archived.place_of(objects)),
    )
    return len(done)


def _has(objects: Objects, name: str) -> bool:
    """Whether an archive has a large value, with the bytes that its name says."""
    try:
        blob_of(objects, name)
    except NoSuchObject:
        return False
    return True
