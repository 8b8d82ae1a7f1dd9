"""Connections to a PostgreSQL database: a pool, retries of what was lost, and errors as our own."""

import contextlib
import itertools
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tracklog.model.errors import BadFormat, BadPlug, JournalFull, StoreBroken, TracklogError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as missing:
    raise BadPlug(
        f"PostgreSQL needs a package that is not installed: {missing.name}",
        "pip install 'tracklog[postgres]'",
    ) from missing

Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]

PATIENCE = 5.0
"""Seconds that a lost connection is tried again, before an error is raised."""
_PAUSE = 0.05
_IDLE = 8  # connections that are kept open
_LOST = ("08", "57P", "25006", "25P03")
# No connection; the server stops or starts; it became a standby; we held the lock too long.
_TENANT = re.compile(r"[a-z][a-z0-9]{0,29}")
_SHARD = re.compile(r"[0-9]{1,3}")
_TAKE_ROLE = (
    "RESET ROLE; SELECT set_config('role', rolname, false) FROM pg_roles WHERE rolname = '{owner}'"
    " AND pg_has_role(oid, 'MEMBER')"
)
"""A tenant with a role of its own is read and written as that role, which can reach no other."""
_PROBES = 3  # attempts to find out whether two connections share a session
_PROBE = "tracklog.session"
_DEFAULTS = {
    "application_name": "tracklog",
    "connect_timeout": "3",  # less than the patience: a connection that is slow is tried again
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


class Address:
    """A URL of a database, and of the tenant in it: `postgresql://host/database?tenant=name`.

    With `shard=3` it is the URL of one shard of a record that has several.
    """

    def __init__(self, place: str) -> None:
        parts = urlsplit(f"postgresql:{place}")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.tenant = options.pop("tenant", "main")
        if not _TENANT.fullmatch(self.tenant):
            raise BadFormat(
                f"{self.tenant!r} is not the name of a tenant",
                "it has at most 30 lower-case letters and digits, and begins with a letter",
            )
        shard = options.pop("shard", None)
        if shard is not None and not _SHARD.fullmatch(shard):
            raise BadFormat(f"{shard!r} is not a shard", "shards have the numbers 0, 1, 2 …")
        self.shard = None if shard is None else int(shard)
        """The shard that is meant; None for all of them."""
        self.url = urlunsplit(parts._replace(query=urlencode(options)))
        try:
            self.known = conninfo_to_dict(self.url)
        except psycopg.Error as error:
            hint = "write postgresql://user:password@host:port/database"
            raise BadFormat(f"this is no URL of a database: {_message_of(error)}", hint) from None
        shown = re.sub(r"//([^/@:]*):[^/@]*@", r"//\1@", f"postgresql:{place}")
        self.shown = re.sub(r"([?&]password=)[^&]*", r"\1…", shown)
        """The URL without its password."""

    @property
    def schema(self) -> str:
        """The schema of the journal; its refused lines and its index have schemas beside it."""
        return f"tracklog_{self.tenant}_{self.shard or 0}"

    @property
    def owner(self) -> str:
        """The role that owns the schemas of this tenant, where it has one."""
        return f"tracklog_{self.tenant}_owner"

    @property
    def asker(self) -> str:
        """The role that `query` has: it can read the views of the index, and nothing else."""
        return f"tracklog_{self.tenant}_query"


class ConnectionPool:
    """Idle connections to one database, which all tenants in this process share."""

    _all: ClassVar[dict[tuple[int, str], "ConnectionPool"]] = {}
    _guard: ClassVar = threading.Lock()

    def __init__(self, key: tuple[int, str]) -> None:
        self._key, self._users = key, 0
        self.keeps_sessions = False
        """Whether it was seen that each connection has a session of its own."""
        self._idle: list[tuple[str, Connection]] = []
        self._mutex = threading.Lock()

    @classmethod
    def of(cls, conninfo: str) -> "ConnectionPool":
        """The pool of a database, for one more user; a forked process has its own."""
        key = (os.getpid(), conninfo)
        with cls._guard:
            pool = cls._all.setdefault(key, cls(key))
            pool._users += 1
            return pool

    def leave(self) -> None:
        """The user of this pool ends; with the last one all idle connections are closed."""
        with self._guard:
            self._users -= 1
            is_last = self._users == 0
            if is_last:
                self._all.pop(self._key, None)
        if is_last:
            self.drop()

    def take(self, owner: str) -> tuple[str, Connection] | None:
        """An idle connection with the role that it has: best the one of this owner."""
        with self._mutex:
            for n in range(len(self._idle) - 1, -1, -1):
                if self._idle[n][0] == owner:
                    return self._idle.pop(n)
            return self._idle.pop() if self._idle else None

    def give(self, owner: str, connection: Connection) -> None:
        """Keep a connection that is not used any more; with too many of them, close it."""
        with self._mutex:
            if len(self._idle) < _IDLE and self._users and not connection.closed:
                self._idle.append((owner, connection))
                return
        connection.close()

    def drop(self) -> None:
        """Close every idle connection."""
        with self._mutex:
            idle, self._idle = self._idle, []
        for _, each in idle:
            each.close()


class Database:
    """The connections of one tenant to a database; safe to use from many threads."""

    def __init__(self, address: Address, *, writing: bool) -> None:
        self.address = address
        more = {"target_session_attrs": "read-write"} if writing else {}
        known = address.known
        options = {name: each for name, each in (_DEFAULTS | more).items() if name not in known}
        self._conninfo = make_conninfo(address.url, **options)
        self._pool = ConnectionPool.of(self._conninfo)
        self._mutex = threading.Lock()
        self._closed = False

    def connect(self) -> Connection:
        """A new connection, which belongs to the caller."""
        made = psycopg.connect(self._conninfo, autocommit=True)
        made.prepare_threshold = 2
        try:
            if not self._pool.keeps_sessions:
                self._check_sessions(made)
            self._take_role(made)
        except BaseException:
            made.close()
            raise
        return made

    def _check_sessions(self, connection: Connection) -> None:
        """Refuse a pooler that gives each transaction another session of the server: roles, locks
        and LISTEN belong to a session, and would belong to somebody else.
        """
        row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
        if row and row[0] != connection.info.backend_pid:  # the answer of a pooler
            with psycopg.connect(self._conninfo, autocommit=True) as other:
                if any(_share_a_session(connection, other) for _ in range(_PROBES)):
                    raise BadFormat(
                        f"the pooler at {self.address.shown} gives each transaction another"
                        " connection to the server",
                        "set it to session pooling (`pool_mode = session` of pgbouncer), or name the"
                        " server itself in the URL",
                    )
        self._pool.keeps_sessions = True

    def _take_role(self, connection: Connection) -> None:
        connection.execute(_TAKE_ROLE.format(owner=self.address.owner).encode(), prepare=False)

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection of the pool, with the role of this tenant, while a block runs."""
        if self._closed:
            raise StoreBroken("the store is closed", "open it again")
        owner = self.address.owner
        before, taken = self._pool.take(owner) or (owner, self.connect())
        try:
            if before != owner:
                self._take_role(taken)
            yield taken
        except BaseException:
            taken.close()
            raise
        if self._closed:
            taken.close()
        else:
            self._pool.give(owner, taken)

    def ask(self, sql: str, values: Sequence[Any] = (), *, patience: float = PATIENCE) -> list[Row]:
        """The rows of a question; it is asked again if its connection was lost, at least once."""
        until = time.monotonic() + patience
        for tries in itertools.count(1):
            try:
                with self.connection() as connection:
                    return connection.execute(sql.encode(), values, binary=True).fetchall()
            except psycopg.Error as error:
                is_late = time.monotonic() > until and (tries > 1 or not patience)
                if is_late or not is_lost(error):
                    raise self.trouble(error) from error
                self._pool.drop()
                time.sleep(_PAUSE)
        raise AssertionError("it returns or raises")

    def trouble(self, error: psycopg.Error) -> TracklogError:
        """The error as our own."""
        state = error.sqlstate or ""
        if state.startswith("53"):  # no room on the disk, no memory, too many connections
            return JournalFull(f"the database refuses: {_message_of(error)}", "nothing was stored")
        if state in ("3F000", "42P01"):
            return BadFormat(
                f"there is no journal of tenant {self.address.tenant!r} at {self.address.shown}",
                "`tracklog store init URL` makes one",
            )
        if state in ("42501", "28000", "28P01"):
            return StoreBroken(
                f"the database refuses: {_message_of(error)}",
                "check the user, the password and the rights",
            )
        if is_lost(error):
            return StoreBroken(
                f"the database at {self.address.shown} cannot be reached: {_message_of(error)}",
                "check user, password, host and database of the URL, and that the server runs; nothing "
                "was acknowledged, so it can be repeated",
            )
        return StoreBroken(f"the database failed: {_message_of(error)}", "see the server's log")

    def close(self) -> None:
        """Release the pool; may be called twice."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
        self._pool.leave()


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection or the server is gone, and another attempt may succeed."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state.startswith(_LOST)


def _share_a_session(one: Connection, other: Connection) -> bool:
    """Whether a setting of one connection is one of the other, or is lost."""
    value = secrets.token_hex(8)
    one.execute("SELECT set_config(%s, %s, false)", (_PROBE, value), prepare=False)
    ask = "SELECT current_setting(%s, true)"
    seen, own = (each.execute(ask, (_PROBE,), prepare=False).fetchone() for each in (other, one))
    return seen == (value,) or own != (value,)


def _message_of(error: psycopg.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
