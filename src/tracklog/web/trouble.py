"""The error answer of a request: a status, what is wrong, and what to do."""

import errno
from collections.abc import Mapping

import orjson
from starlette.responses import Response

from tracklog.model import errors


class Trouble(Exception):
    """A request that ends here."""

    def __init__(
        self,
        status: int,
        message: str,
        hint: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.hint = status, message, hint
        self.headers, self.more = headers, more

    def response(self) -> Response:
        data = {"error": self.message, "hint": self.hint, **self.more}
        return json_response(data, self.status, self.headers)


class ClientGone(Exception):
    """The client went away before it was answered."""


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A value as JSON, with a line end for readers in a terminal."""
    return Response(
        orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE), status, headers, "application/json"
    )


_STATUS: Mapping[type[errors.TracklogError], int] = {
    errors.UnknownName: 404,
    errors.NoSuchRun: 404,
    errors.NoSuchRecord: 404,
    errors.NoSuchBlob: 404,
    errors.NoSuchMark: 404,
    errors.NoSuchQuestion: 404,
    errors.AlreadyAnswered: 409,
    errors.AmbiguousQuestion: 409,
    errors.KeyReused: 409,
    errors.TooLate: 410,
    errors.NotAnswered: 409,  # and none of its kinds above
    errors.BadQuery: 400,
    errors.BadToken: 400,
    errors.LastToken: 409,
    errors.NotExtended: 409,
    errors.OverQuota: 429,
    errors.NotAppended: 503,
    errors.IndexUnusable: 503,
}


def trouble_of(error: errors.TracklogError) -> Trouble:
    """The error answer for an exception of the library."""
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    again = {"Retry-After": "5"} if status == 503 else None
    if isinstance(error, errors.OverQuota):
        again = {"Retry-After": str(error.seconds)}
    more = {name: getattr(error, name) for name in ("by", "seq", "runs") if hasattr(error, name)}
    return Trouble(status, error.message, error.hint, headers=again, **more)


_SCARCE = {
    errno.EMFILE: "there are no free file descriptors",
    errno.ENFILE: "there are no free file descriptors on this machine",
    errno.ENOMEM: "there is no free memory",
    errno.ENOBUFS: "there is no free memory",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
}


def shortage_of(error: OSError) -> Trouble | None:
    """The error answer if this machine lacks memory, disk or files; None for any other error."""
    why = _SCARCE.get(error.errno or 0)
    if why is None:
        return None
    return Trouble(503, why, "ask again in a while", headers={"Retry-After": "5"})
