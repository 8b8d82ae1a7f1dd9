"""The keys of a host; a change of the settings file counts with the next request."""

import hmac
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tracklog import TracklogError
from tracklog.hosts.openwop.failures import Failure
from tracklog.hosts.openwop.settings import Key, Settings, digest, read_keys
from tracklog.web import logs

LATER = {"Retry-After": "5"}


class KeyFile:
    """The keys in a settings file, which is read again when it was changed."""

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self._path, self._environment = path, environment
        self._seen: tuple[int, ...] = ()

    def changed(self) -> bool:
        """Whether the file is not the one that was read last; at first it is not."""
        try:
            info = os.stat(self._path)  # noqa: PTH116  # asked with every request
            seen: tuple[int, ...] = (info.st_mtime_ns, info.st_size, info.st_ino)
        except OSError as error:
            seen = (error.errno or 0,)
        if seen == self._seen:
            return False
        self._seen = seen
        return True

    def read(self) -> tuple[Key, ...] | None:
        """The keys; None where the file cannot be read. A wrong entry is logged, and allows nothing."""
        try:
            keys, faults = read_keys(self._path, self._environment)
        except (TracklogError, OSError) as error:
            logs.log("error", "the keys cannot be read, so none is accepted", why=str(error))
            return None
        for fault in faults:
            logs.log("error", "a key is not accepted", why=fault)
        return keys


class Keys:
    """Who may ask: the operator with one token, and the keys of the settings."""

    def __init__(
        self, settings: Settings, token: str | None = None, file: KeyFile | None = None
    ) -> None:
        operator = Key(
            digest=digest(token or ""), token=token or "", scopes=frozenset({"*"}), operator=True
        )
        self._settings, self._file = settings, file
        self._own = (operator,) if token is not None else ()
        self._given: tuple[Key, ...] | None = settings.keys
        self._tokens: dict[str, str] = {}
        """The names of the tokens that were ever accepted."""
        self.is_open = not self._own and not settings.keys
        """Whether nobody needs a key: a host that no other program can reach."""
        self.on_change: list[Callable[[], None]] = []
        if file is None:
            self._warn()
        self.all()

    @property
    def are_revocable(self) -> bool:
        """Whether a key can be removed while the host runs."""
        return self._file is not None

    def all(self) -> tuple[Key, ...]:
        """The keys that are accepted now."""
        if self._file is not None and self._file.changed():
            self._given = self._file.read()
            self._warn()
            for each in self.on_change:
                each()
        return (*self._own, *(self._given or ()))

    def secrets(self) -> dict[str, str]:
        """The tokens of all keys by name, to be masked; those that were removed, too."""
        for key in self.all():
            if key.token:
                self._tokens.setdefault(key.token, f"key-{len(self._tokens)}")
        return {name: token for token, name in self._tokens.items()}

    def find(self, token: str) -> Key | None:
        """The key with this token."""
        shown = digest(token)
        found = [key for key in self.all() if hmac.compare_digest(key.digest, shown)]
        if not found and self._given is None:
            raise Failure("unavailable", "the keys cannot be read now", None, LATER)
        return found[0] if found else None

    def accepts(self, key: Key) -> bool:
        """Whether a key that was found before is still there, with the same rights."""
        return self.is_open or not key.digest or key in self.all()

    def of(self, principal: str, tenant: str) -> list[Key]:
        """The keys of a principal that act for a tenant."""
        own = self._settings.tenant
        return [
            key
            for key in self.all()
            if key.principal == principal and (key.tenant or own) == tenant
        ]

    def _warn(self) -> None:
        for key in self._given or ():
            if not key.scopes:
                text = "a key has no scopes, so it allows nothing"
                logs.log("warning", text, principal=key.principal)
            for scope in sorted(key.scopes - self._settings.scopes):
                text = "a key has a scope that nothing here needs"
                logs.log("warning", text, principal=key.principal, scope=scope)
