"""Tokens with a role: who may write, read, operate or administrate; only their hashes are stored."""

import hmac
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal, Protocol

import orjson

from tracklog.journal.disk import Disk, make_folders, write_file
from tracklog.journal.frame import stamp
from tracklog.journal.storages import SharesSettings
from tracklog.model.errors import BadToken, TracklogError, UnknownName

FILE = "tokens.json"
"""Its name in the folder of a storage."""

Right = Literal["write", "read", "operate", "admin"]
ROLES: dict[str, frozenset[Right]] = {
    "write": frozenset({"write"}),
    "read": frozenset({"read"}),
    "operate": frozenset({"read", "operate"}),
    "admin": frozenset({"write", "read", "operate", "admin"}),
}
"""What each role may do: send events; ask questions; also answer agents, mark runs and start them;
everything."""
_PREFIX = "tl_"
_SETTING = "tokens"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is stored; the token itself is shown once, and not stored."""

    id: str
    name: str
    role: str
    hash: str
    """SHA-256 of the cookie of the token: neither of the two can be read from the file."""
    created: str
    expires: str | None = None
    revoked: str | None = None
    run_prefix: str | None = None
    """Only runs whose id begins so."""

    def state(self, now: str) -> str:
        """Whether it can be used: `active`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sends a request, and what that one may do."""

    name: str
    rights: frozenset[Right] = ROLES["admin"]
    run_prefix: str | None = None
    is_person: bool = False
    """Whether a proxy vouches for the name."""

    def may_see(self, run: str | None) -> bool:
        """Whether a run, or with None every run, may be asked about or written to."""
        return self.run_prefix is None or (run is not None and run.startswith(self.run_prefix))


class TokenPlace(Protocol):
    """Where tokens are stored."""

    def read(self) -> tuple[Token, ...]:
        """Every token."""

    def write(self, tokens: tuple[Token, ...]) -> None:
        """Store these instead; durable on return."""


class TokenFile:
    """Tokens in a file; a change by another process counts with the next request."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def read(self) -> tuple[Token, ...]:
        try:
            info = os.stat(self._path)  # noqa: PTH116  # asked with every request
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self._tokens = None, ()
            return ()
        seen = (info.st_mtime_ns, info.st_size, info.st_ino)
        if seen != self._seen:
            hint = "bring it back from a backup, or delete it"
            self._tokens = _parsed(self._path.read_bytes(), str(self._path), hint)
            self._seen = seen
        return self._tokens

    def write(self, tokens: tuple[Token, ...]) -> None:
        make_folders(Disk(), self._path.parent)
        write_file(Disk(), self._path, _json(tokens))


class SharedTokens:
    """Tokens in the storage of a record, for all collectors on it: a copy that is refreshed."""

    def __init__(self, storage: SharesSettings) -> None:
        self._storage = storage
        self._tokens: tuple[Token, ...] | None = None

    def read(self) -> tuple[Token, ...]:
        return self.refresh() if self._tokens is None else self._tokens

    def refresh(self) -> tuple[Token, ...]:
        """Read them again."""
        content = self._storage.setting(_SETTING)
        hint = "bring the database back from a backup"
        self._tokens = () if content is None else _parsed(content, "the setting `tokens`", hint)
        return self._tokens

    def write(self, tokens: tuple[Token, ...]) -> None:
        self._storage.set_setting(_SETTING, _json(tokens))
        self._tokens = tokens


class Tokens:
    """The tokens of a record."""

    def __init__(self, place: TokenPlace | Path, clock: Callable[[], float] = time.time) -> None:
        self.place = TokenFile(place) if isinstance(place, Path) else place
        self._clock = clock

    def all(self) -> tuple[Token, ...]:
        """Every token, also those that were revoked or have expired, the oldest first."""
        return self.place.read()

    def identity(self, cookie: str) -> Identity | None:
        """Who has the token with this cookie, if it can be used."""
        now, hash = stamp(self._clock()), _hash(cookie)
        for token in self.all():
            if hmac.compare_digest(token.hash, hash) and token.state(now) == "active":
                return Identity(token.name, ROLES[token.role], token.run_prefix)
        return None

    def ended(self, cookie: str) -> str | None:
        """Since when the token with this cookie cannot be used any more; None for any other."""
        now, hash = stamp(self._clock()), _hash(cookie)
        for token in self.all():
            if hmac.compare_digest(token.hash, hash) and token.state(now) != "active":
                return f"{token.state(now)} on {(token.revoked or token.expires or now)[:10]}"
        return None

    def active(self) -> tuple[str, ...]:
        """The ids of the tokens that can be used."""
        now = stamp(self._clock())
        return tuple(token.id for token in self.all() if token.state(now) == "active")

    def create(
        self, name: str, role: str, *, seconds: float | None = None, run_prefix: str | None = None
    ) -> tuple[Token, str]:
        """A new token: what is stored of it, and the token itself."""
        if run_prefix is not None and role not in ("read", "write"):
            raise BadToken(
                f"a token with the role {role} cannot be bound to runs",
                "use the role read or write",
            )
        text = _PREFIX + secrets.token_urlsafe(32)
        now = self._clock()
        token = Token(
            id=secrets.token_hex(4),
            name=name,
            role=role,
            hash=_hash(cookie_of(text)),
            created=stamp(now),
            expires=None if seconds is None else stamp(now + seconds),
            run_prefix=run_prefix,
        )
        self.place.write((*self.all(), token))
        return token, text

    def revoke(self, id: str) -> Token:
        """End a token, by its id."""
        tokens = self.all()
        found = next((token for token in tokens if token.id == id), None)
        if found is None:
            raise UnknownName(f"there is no token {id!r}", "`tracklog token list` shows their ids")
        ended = replace(found, revoked=found.revoked or stamp(self._clock()))
        self.place.write(tuple(ended if token is found else token for token in tokens))
        return ended


def cookie_of(token: str) -> str:
    """The cookie that a browser sends instead of a token."""
    return sha256(b"tracklog cookie " + token.encode()).hexdigest()


def _hash(cookie: str) -> str:
    return sha256(cookie.encode()).hexdigest()


def _json(tokens: tuple[Token, ...]) -> bytes:
    return orjson.dumps([asdict(each) for each in tokens], option=orjson.OPT_INDENT_2) + b"\n"


def _parsed(content: bytes, where: str, hint: str) -> tuple[Token, ...]:
    try:
        return tuple(Token(**row) for row in orjson.loads(content))
    except (ValueError, TypeError) as error:
        raise TracklogError(f"{where} cannot be read", hint) from error
