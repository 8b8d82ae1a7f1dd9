"""`tracklog store`: make, examine and copy the database of a journal."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.cli._progress import progress_bar
from tracklog.model.errors import TracklogError

if TYPE_CHECKING:
    from tracklog.journal.copying import Progress
    from tracklog.journal.merkle import Head
    from tracklog.journal.postgres.connections import Address
    from tracklog.journal.postgres.status import StoreStatus
    from tracklog.journal.storages import Storage


class Shards(click.ParamType[int]):
    """A number of shards."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; the number of shards is a power of 2, so that each can be divided."""
        text = str(value)
        count = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
        if not (0 < count <= 256 and count & (count - 1) == 0):
            self.fail(f"{text!r} is not a power of 2 from 1 to 256", param, ctx)
        return count


MANY = 20_000
"""From this many records on, copying shows its progress."""


@click.group(
    epilog="""\b
Examples:
  tracklog store init postgresql://tracklog@db.example/tracklog
  tracklog store status postgresql://tracklog@db.example/tracklog
  tracklog store copy file:./restored postgresql://tracklog@db.example/tracklog
  tracklog store copy postgresql://tracklog@db.example/tracklog file:./copy""",
)
def command() -> None:
    """Make, examine and copy the database of a journal."""


@command.command(
    epilog="""\b
Examples:
  tracklog store init postgresql://tracklog@db.example/tracklog
  tracklog store init "postgresql://tracklog@db.example/tracklog?tenant=acme\"
  tracklog store init "postgresql://admin@db.example/tracklog?tenant=acme" --own-role
  tracklog store init "postgresql://tracklog@db.example/tracklog?tenant=large" --shards 16
  tracklog store init postgresql://tracklog@db1/tracklog postgresql://tracklog@db2/tracklog""",
)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option(
    "--shards",
    type=Shards(),
    default=None,
    metavar="N",
    help="Divide the runs over this many journals: a power of 2, up to 256. It cannot be changed "
    "later.  [default: 1]",
)
@click.option(
    "--own-role",
    is_flag=True,
    help="Make a role of the database that owns this tenant, and can reach no other one.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def init(urls: tuple[str, ...], shards: int | None, own_role: bool, as_json: bool) -> None:
    """Make the tables at URL, if they are not there, and print the rights that a user needs.

    With several URLs, each database has one shard; their order is fixed.
    """
    url = " ".join(urls)
    addresses = addresses_of(url)
    from tracklog.journal.postgres.tenants import make_owner

    if len(addresses) == 1 and addresses[0].shard is not None:
        raise TracklogError("all shards are made together", "leave `shard=` out of the URL")
    for address in addresses if own_role else ():
        make_owner(address)
    made = _made(url, shards or (len(addresses) if len(addresses) > 1 else None))
    rights = [_Rights.of(address, made) for address in addresses]
    if as_json:
        row = {"store": " ".join(address.shown for address in addresses), "shards": made}
        lists = {
            "schemas": [schema for each in rights for schema in each.schemas],
            "grants": [line for each in rights for line in each.grants],
        }
        terminal.put_json(row | lists)
        return
    for address, each in zip(addresses, rights, strict=True):
        click.echo(f"{address.shown}: ready, with the schemas {' and '.join(each.schemas)}")
        click.echo("rights for other users, one who writes and one who only reads:")
        for line in (*each.writer, *each.reader):
            click.echo(f"  {line}")
        click.echo("for `tracklog query`, if the user of the database may not make roles:")
        for line in each.questions:
            click.echo(f"  {line}")


class _Rights(NamedTuple):
    """What other users of a database need to be granted."""

    schemas: list[str]
    writer: list[str]
    reader: list[str]
    questions: list[str]

    @property
    def grants(self) -> list[str]:
        return [*self.writer, *self.reader, *self.questions]

    @classmethod
    def of(cls, address: "Address", shards: int) -> "_Rights":
        """The rights on a database that has all shards, or the one that its address names."""
        from tracklog.index.indexes.postgresql.schema import role_sql
        from tracklog.journal.postgres.schema import owner_of, refused_schema

        owner = owner_of(address)
        here = range(shards) if address.shard is None else (address.shard,)
        schemas = [*(f"tracklog_{address.tenant}_{n}" for n in here), refused_schema(address)]
        # Only an owner of the tables may add the partitions that a journal needs as it grows.
        writer = [f"GRANT {owner} TO writer;", f"ALTER ROLE writer SET role = {owner};"]
        reader = [
            f"GRANT {right} SCHEMA {schema} TO reader;"
            for schema in schemas
            for right in ("USAGE ON", "SELECT ON ALL TABLES IN")
        ]
        return cls(schemas, writer, reader, role_sql(address))


@command.command(
    epilog="""\b
Examples:
  tracklog store status postgresql://tracklog@db.example/tracklog
  TRACKLOG_STORE=postgresql://tracklog@db.example/tracklog tracklog store status --json""",
)
@click.argument("urls", metavar="[URL...]", nargs=-1)
@click.option(
    "--store",
    envvar="TRACKLOG_STORE",
    show_envvar=True,
    metavar="URL",
    help="The database, if no URL is given.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")  # fmt: skip
def status(urls: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Print the number and the size of the records at URL, and which servers have a copy."""
    url = " ".join(urls) or store
    if not url:
        raise click.UsageError(
            "name the database: URL, --store or TRACKLOG_STORE; `tracklog verify` and "
            "`tracklog doctor` examine a journal in a folder"
        )
    addresses = addresses_of(url)
    from tracklog.journal.postgres import status as store_status

    report_store(store_status.status(addresses), as_json=as_json)


def report_store(state: "StoreStatus", *, as_json: bool) -> None:
    """Print the state of a database."""
    if as_json:
        terminal.put_json(state)
        return
    shards = terminal.count(state.shards, "shard")
    click.echo(f"{state.store}  {state.server}, tenant {state.tenant}, {shards}")
    click.echo(
        f"records {state.first:,} to {state.last:,} of {terminal.count(state.runs, 'run')}, in"
        f" {terminal.count(state.groups, 'group')}: {state.bytes:,} bytes,"
        f" {state.table_bytes:,} on disk"
    )
    if state.archived:
        click.echo(f"{terminal.count(state.archived, 'record')} of these in an archive")
    click.echo(f"{state.refused:,} refused lines, {terminal.count(state.blobs, 'blob')}")
    for n, head in enumerate(state.heads):
        click.echo(f"head {head}" if state.shards == 1 else f"shard {n}: head {head}")
    for index in state.indexes:
        click.echo(f"index {index.schema}: up to record {index.cursor:,}, {index.behind:,} behind")
    for archive in state.archives:
        click.echo(
            terminal.printable(
                f"archive {archive.place}: {archive.behind:,} not archived yet, as of {archive.at}"
            )
        )
    if state.quota:
        rate, daily = state.quota.records_per_second, state.quota.bytes_per_day
        limits = [
            f"{rate:,} records per second" if rate else "",
            f"{daily:,} bytes per day" if daily else "",
        ]
        what = " and ".join(filter(None, limits)) or "none"
        click.echo(f"limit: {what}; {state.quota.used_today:,} bytes today (UTC)")
    for each in state.standbys:
        behind = "" if each.behind_bytes is None else f", {each.behind_bytes:,} bytes behind"
        click.echo(terminal.printable(f"standby {each.name}: {each.sync}, {each.state}{behind}"))
    for warning in state.warnings:
        click.secho(f"warning: {warning}", fg="yellow", err=True)


@command.command(
    epilog="""\b
Examples:
  tracklog store limit "postgresql://tracklog@db.example/tracklog?tenant=acme" --max-rate 500
  tracklog store limit "postgresql://tracklog@db.example/tracklog?tenant=acme" --daily-bytes 10000000000
  tracklog store limit "postgresql://tracklog@db.example/tracklog?tenant=acme"      (no limit)""",
)
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option(
    "--max-rate",
    type=click.IntRange(min=0, max=1_000_000_000),
    default=0,
    metavar="N",
    help="Records per second, over all collectors; 0 for no limit.",
)
@click.option(
    "--daily-bytes",
    type=click.IntRange(min=0, max=1 << 60),
    default=0,
    metavar="N",
    help="Bytes of records per day (UTC), decompressed; 0 for no limit.",
)
def limit(urls: tuple[str, ...], max_rate: int, daily_bytes: int) -> None:
    """Limit what the tenant at URL may record; collectors answer 429 with Retry-After beyond it."""
    url = " ".join(urls)
    address = addresses_of(url)[0]  # it has the limit of all shards
    from tracklog.journal.postgres.connections import Database
    from tracklog.journal.postgres.schema import check, shards_of
    from tracklog.journal.postgres.tenants import set_quota

    database = Database(address, writing=True)
    try:
        schema = f"tracklog_{address.tenant}_0"
        check(database, schema, shards_of(database, schema) or 1)
        set_quota(database, schema, 0, 0)  # the note is recorded whatever the limit is
        _home.record_act(_place(url), "limit", max_rate=max_rate, daily_bytes=daily_bytes)
        set_quota(database, schema, max_rate, daily_bytes)
    finally:
        database.close()
    rate = f"{max_rate:,} records per second" if max_rate else "any number of records per second"
    daily = f"{daily_bytes:,} bytes per day" if daily_bytes else "any number of bytes per day"
    click.echo(f"{address.shown}: {rate}, {daily}")


@command.command(
    epilog="""\b
Examples:
  tracklog store copy file:./restored postgresql://tracklog@db.example/tracklog
  tracklog store copy postgresql://tracklog@db.example/tracklog file:./copy""",
)
@click.argument("source")
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def copy(source: str, target: str, as_json: bool) -> None:
    """Copy the journal at SOURCE to TARGET: the same bytes, the same numbers, the same chain.

    Both are URLs: file:DIR or postgresql://... All shards are copied: a folder then has a home for
    each of them, and a database must have as many. A folder must be new. A copy to a database may be
    repeated: it continues where the last one ended. Stop the writers of
    SOURCE before the last copy.
    """
    from tracklog.journal.backup import check_new
    from tracklog.journal.shard_copies import backup_all, parts_of

    place = _home.stored_at(target, Path())
    opened = _opened(source)
    for each in opened:
        each.close()
    if not isinstance(place, _home.RemoteStore):
        check_new(place)
    if len(opened) == 1:  # the copies of shards in a folder are no journal that can be written to
        _home.record_act(_place(source), "copy", target=_shown(target))
    opened = _opened(source)
    try:
        with progress_bar("copying", MANY) as progress:
            if isinstance(place, _home.RemoteStore):
                parts = [part for each in opened for part in parts_of(each)]
                heads = _copy_to_database(parts, target, progress)
            elif len(opened) > 1:
                raise TracklogError(
                    "the source is a copy of a journal with shards",
                    "copy the folder with `cp -a`, or copy it to a database",
                )
            else:
                heads = backup_all(opened[0], place, progress)
    finally:
        for each in opened:
            each.close()
    _home.report_copy(str(place), heads, as_json=as_json)


def _opened(source: str) -> "list[Storage]":
    """The storage at a URL; those of all shards, if it is a folder with a copy of them."""
    from tracklog.journal.shard_copies import folders_in

    place = _home.stored_at(source, Path())
    if isinstance(place, _home.RemoteStore):
        return [_storage(source, readonly=True)]
    return [_storage(f"file:{each}", readonly=True) for each in folders_in(place)]


def _copy_to_database(sources: "Sequence[Storage]", url: str, progress: "Progress") -> "list[Head]":
    addresses = addresses_of(url)
    from tracklog.journal.copying import copy, copy_blobs
    from tracklog.journal.postgres.adopting import PostgresReceiver
    from tracklog.journal.shard_copies import parts_of
    from tracklog.journal.storages.postgresql import PostgresStorage

    if len(addresses) == 1 and addresses[0].shard is not None:
        raise TracklogError("all shards are copied together", "leave `shard=` out of the URL")
    target = _storage(url, shards=len(sources))
    heads: list[Head] = []
    try:
        for source, part in zip(sources, parts_of(target), strict=True):
            assert isinstance(part, PostgresStorage)
            heads.append(copy(source.store, PostgresReceiver(part.store), progress))
            if len(heads) == 1:  # all shards share these
                copy(source.refused, PostgresReceiver(part.refused))
                copy_blobs(source.blobs, part.blobs)
            report = part.verify(heads[-1])
            if not report.ok:
                raise TracklogError(
                    f"the copy does not verify: {report.faults[0]}", "copy it again"
                )
    finally:
        target.close()
    return heads


def _place(url: str) -> _home.Place:
    """The journal at a URL."""
    folder = _home.expanded(Path(os.environ.get("TRACKLOG_HOME") or _home.DEFAULT))
    return _home.stored_at(url, folder)


def _shown(url: str) -> str:
    """A URL without its password."""
    if not url.startswith("postgresql:"):
        return url
    return " ".join(_address_of(each).shown for each in url.split())


def _made(url: str, shards: int | None) -> int:
    """Make the tables; how many shards they are for."""
    from tracklog.home import registry
    from tracklog.journal.sharding import Sharded

    storage = registry.storage(url, shards=shards or 0)
    try:
        return len(storage.parts) if isinstance(storage, Sharded) else 1
    finally:
        storage.close()


def _storage(url: str, *, readonly: bool = False, shards: int = 0) -> "Storage":
    from tracklog.home import registry

    more = {"shards": shards} if shards else {}
    return registry.storage(url, readonly=readonly, **more)


def addresses_of(url: str) -> "list[Address]":
    """The address of a store; or those of all its shards, if each has a database of its own."""
    urls = url.split() or [""]
    if len(urls) == 1:
        return [_address_of(url)]
    shards = (f"{each}{'&' if '?' in each else '?'}shard={n}" for n, each in enumerate(urls))
    return [_address_of(each) for each in shards]


def _address_of(url: str) -> "Address":
    scheme, _, place = url.partition(":")
    if scheme != "postgresql":
        raise TracklogError(
            f"{url} is not the URL of a database", "write postgresql://user:password@host/database"
        )
    from tracklog.journal.postgres.connections import Address

    return Address(place)
