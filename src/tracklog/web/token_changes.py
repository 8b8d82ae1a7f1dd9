"""Create and revoke tokens; each change is recorded, with who made it."""

from typing import TYPE_CHECKING

from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from tracklog.home.home import act
from tracklog.journal.frame import stamp
from tracklog.journal.storages import SharesSettings
from tracklog.model.errors import BadToken, LastToken
from tracklog.web.tokens import FILE, SharedTokens, Token, Tokens

if TYPE_CHECKING:
    from tracklog.home.home import Home

RUN = ("tracklog", "tokens")
"""The run in which changes of tokens are recorded."""
_LONGEST = 256


class TokenRow(TypedDict):
    """A token as it is listed; never the token itself."""

    id: str
    name: str
    role: str
    run_prefix: str | None
    created: str
    expires: str | None
    revoked: str | None
    state: str
    """`active`, `expired` or `revoked`."""


def tokens_of(home: "Home") -> Tokens:
    """The tokens of a home: in its folder, or in the database that many machines share."""
    storage = home.storage
    return Tokens(
        SharedTokens(storage) if isinstance(storage, SharesSettings) else home.path / FILE
    )


def row_of(token: Token, now: str) -> TokenRow:
    """A token at a time."""
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "run_prefix": token.run_prefix,
        "created": token.created,
        "expires": token.expires,
        "revoked": token.revoked,
        "state": token.state(now),
    }


def create(
    home: "Home",
    name: str,
    role: str,
    *,
    by: str,
    seconds: float | None = None,
    run_prefix: str | None = None,
    writer: str = "cli",
) -> tuple[Token, str]:
    """A new token: what is stored of it, and the token itself, which is shown once."""
    if not name.isprintable() or not 0 < len(name) <= _LONGEST:
        raise BadToken(f"{name!r} cannot be the name of a token", f"1 to {_LONGEST} characters")
    with home.storage.leases() as leases:
        leases.take("tokens", None)
        token, text = tokens_of(home).create(name, role, seconds=seconds, run_prefix=run_prefix)
    _record(home, "created", token, by, writer)
    return token, text


def revoke(home: "Home", id: str, *, by: str, writer: str = "cli", last: bool = True) -> Token:
    """End the token with this id at once; without `last`, not the last one of an administrator."""
    with home.storage.leases() as leases:
        leases.take("tokens", None)
        tokens = tokens_of(home)
        if not last:
            _check_last(tokens, id, stamp(home.clock()))
        token = tokens.revoke(id)
    _record(home, "revoked", token, by, writer)
    return token


def _check_last(tokens: Tokens, id: str, now: str) -> None:
    """Raise an error if nobody else could administrate without this token."""
    admins = [
        each.id for each in tokens.all() if each.role == "admin" and each.state(now) == "active"
    ]
    if admins == [id]:
        raise LastToken(
            "this is the last token of an administrator: without it nobody can use these settings",
            f"make another one first, or use the command line: `tracklog token revoke {id}`",
        )


def _record(home: "Home", change: str, token: Token, by: str, writer: str) -> None:
    data = {"token": token.id, "name": token.name, "role": token.role, "change": change}
    home.record_fact(RUN, act("token", by, **data), writer=writer)
