"""The bytes that a client sends, unpacked, and never more of them than the limit."""

import asyncio
import zlib
from typing import TYPE_CHECKING

from tracklog.collector.trouble import ClientGone, Trouble

if TYPE_CHECKING:
    from starlette.types import Receive

    from tracklog.collector.limits import Limits

ENCODINGS = ("gzip", "zstd")
_INLINE = 16 << 10  # packed bytes that are unpacked at once; more are given to a thread
_SPOON = 512
_DRAINED = 4  # times the limit that is read and dropped, so that a client hears why


class Held:
    """How many bytes of requests are in memory, over all clients."""

    def __init__(self, limits: "Limits") -> None:
        self.limits = limits
        self.now = 0

    def take(self, size: int) -> None:
        if self.now + size > self.limits.held:
            raise Trouble(
                429,
                "too much is being sent at once",
                "send it again in a second, in smaller requests",
                headers={"Retry-After": "1", "Connection": "close"},
            )
        self.now += size

    def give_back(self, pieces: list[bytes]) -> None:
        self.now -= sum(map(len, pieces))
        pieces.clear()


async def read(receive: "Receive", headers: dict[bytes, bytes], held: Held) -> bytes:
    """The body of a request; the caller gives back to `held` what is its size."""
    limit = held.limits.body
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding in (b"", b"identity", b"gzip", b"x-gzip", b"zstd"):
        message = await receive()
        if message["type"] == "http.request" and not message["more_body"]:
            packed: bytes = message["body"]
            if len(packed) > limit:
                raise _too_large(limit)
            held.take(len(packed))
        else:
            packed = await _gathered(receive, message, headers, held)
    else:
        raise Trouble(
            415,
            f"the encoding {encoding.decode('latin-1')!r} is not known",
            "send it as it is, or packed with gzip or zstd",
            headers={"Accept-Encoding": ", ".join(ENCODINGS)},
        )
    if encoding in (b"", b"identity"):
        return packed
    size = len(packed)
    held.now -= size
    unpack = _unzstd if encoding == b"zstd" else _gunzip
    if size <= _INLINE:
        body = unpack(packed, limit)
    else:
        body = await asyncio.to_thread(unpack, packed, limit)
    held.take(len(body))
    return body


async def _gathered(
    receive: "Receive", message: "object", headers: dict[bytes, bytes], held: Held
) -> bytes:
    """The pieces of a body, put together; what is not taken is read to its end and dropped."""
    limit = held.limits.body
    declared = headers.get(b"content-length", b"0")
    trouble = _too_large(limit) if declared.isdigit() and int(declared) > limit else None
    pieces: list[bytes] = []
    size = 0
    try:
        while True:
            assert isinstance(message, dict)
            if message["type"] != "http.request":
                raise ClientGone  # noqa: TRY301  # what was held is given back below
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit:
                trouble = _too_large(limit)
            if trouble is None:
                try:
                    held.take(len(piece))
                    pieces.append(piece)
                except Trouble as full:
                    trouble = full
            if trouble is not None:
                held.give_back(pieces)
            if not message.get("more_body", False) or size > _DRAINED * limit:
                break
            message = await receive()
    except BaseException:
        held.give_back(pieces)
        raise
    if trouble is not None:
        raise trouble
    return b"".join(pieces)


def _too_large(limit: int) -> Trouble:
    return Trouble(
        413,
        f"the body is larger than {limit:,} bytes, measured unpacked",
        "send it in several requests",
        headers={"Connection": "close"},
    )


def _unreadable(what: str) -> Trouble:
    return Trouble(400, f"the body is not {what}", "pack it again, whole")


def _gunzip(packed: bytes, limit: int) -> bytes:
    """Stops at the limit, however much is still to come."""
    pieces: list[bytes] = []
    size = 0
    while packed:
        member = zlib.decompressobj(wbits=31)
        try:
            while packed and not member.eof:
                piece = member.decompress(packed, limit + 1 - size)
                packed = member.unconsumed_tail
                size += len(piece)
                pieces.append(piece)
                if size > limit:
                    raise _too_large(limit)
                if not piece and not packed:
                    break
        except zlib.error:
            raise _unreadable("gzip") from None
        if not member.eof:
            raise _unreadable("whole gzip")
        packed = member.unused_data
    return b"".join(pieces)


def _unzstd(packed: bytes, limit: int) -> bytes:
    """Fed by the spoon: 512 bytes can stand for 16 MiB, and only a whole frame says that it is."""
    import zstandard  # noqa: PLC0415  # most clients do without

    pieces: list[bytes] = []
    size = at = 0
    while at < len(packed):
        frame = zstandard.ZstdDecompressor(max_window_size=1 << 25).decompressobj()
        try:
            while at < len(packed) and not frame.eof:
                piece = frame.decompress(packed[at : at + _SPOON])
                at += _SPOON
                size += len(piece)
                pieces.append(piece)
                if size > limit:
                    raise _too_large(limit)
        except zstandard.ZstdError:
            raise _unreadable("zstd") from None
        if not frame.eof:
            raise _unreadable("whole zstd")
        at = min(at, len(packed)) - len(frame.unused_data)
    return b"".join(pieces)
