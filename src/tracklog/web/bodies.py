"""Read a request body: decompressed, and never larger than the limit."""

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

import orjson

from tracklog.model.event import Body
from tracklog.web.trouble import ClientGone, Trouble
from tracklog.web.unpacking import ENCODINGS, Turns, Unpacker, too_large, unpacker

if TYPE_CHECKING:
    from starlette.types import Message, Receive

    from tracklog.web.limits import Limits

_DRAINED = 4  # times the limit that is read and dropped, so that a client can read the answer
_SMALL = 1 << 20  # bytes of a body that finds room when larger ones do not


class Held:
    """How many bytes of requests are in memory, over all clients.

    An eighth of the room is for small bodies: a few large ones that are slow to arrive cannot
    take it.
    """

    def __init__(self, limits: "Limits") -> None:
        self.limits = limits
        self.now = 0

    @cached_property
    def turns(self) -> Turns:
        """The threads that unpack."""
        return Turns()

    def take(self, size: int, of: int = 0) -> None:
        """Room for so many bytes more of a body that has so many already."""
        most = self.limits.held
        if size + of > _SMALL:
            most -= most // 8
        if self.now + size > most:
            raise Trouble(
                429,
                "too much is being sent at once",
                "send it again in a second, in smaller requests",
                headers={"Retry-After": "1", "Connection": "close"},
            )
        self.now += size


class _BodyShare:
    """The bytes that one body holds, returned if it is not read to its end."""

    def __init__(self, held: Held) -> None:
        self.held, self.size = held, 0

    def set(self, size: int) -> None:
        if size > self.size:
            self.held.take(size - self.size, self.size)
        else:
            self.held.now -= self.size - size
        self.size = size


async def read(receive: "Receive", headers: dict[bytes, bytes], held: Held) -> bytes:
    """The body of a request; the caller returns its size to `held` when it is done."""
    limit = held.limits.body
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"", b"identity", b"gzip", b"x-gzip", b"zstd"):
        raise Trouble(
            415,
            f"the encoding {encoding.decode('latin-1')!r} is not known",
            "send it as it is, or packed with gzip or zstd",
            headers={"Accept-Encoding": ", ".join(ENCODINGS)},
        )
    message = await receive()
    packed = encoding not in (b"", b"identity")
    if not packed and message["type"] == "http.request" and not message["more_body"]:
        body: bytes = message["body"]
        if len(body) > limit:
            raise too_large(limit)
        held.take(len(body))
        return body
    share, messages = _BodyShare(held), _RequestMessages(receive, message)
    unpacking = unpacker(encoding, held.limits) if packed else None
    try:
        body = await _gathered(messages, headers, share, unpacking)
        share.set(len(body))
    except BaseException:
        share.set(0)
        raise
    finally:
        messages.close()
    return body


class _RequestMessages:
    """The messages of a request, the next of which may be waited for while something is done."""

    def __init__(self, receive: "Receive", first: "Message") -> None:
        self._receive = receive
        self._first: Message | None = first
        self._ahead: asyncio.Task[Message] | None = None

    async def next(self) -> "Message":
        if self._first is not None:
            message, self._first = self._first, None
        elif self._ahead is not None:
            message, self._ahead = await self._ahead, None
        else:
            message = await self._receive()
        if message["type"] != "http.request":
            raise ClientGone
        return message

    def check(self) -> None:
        """Raises `ClientGone` where the client has left, as far as that is known by now."""
        if self._ahead is None:
            self._ahead = asyncio.get_running_loop().create_task(self._wait())
        elif self._ahead.done() and self._ahead.result()["type"] != "http.request":
            raise ClientGone

    async def _wait(self) -> "Message":
        return await self._receive()

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()


async def _gathered(
    messages: _RequestMessages,
    headers: dict[bytes, bytes],
    share: _BodyShare,
    unpacking: Unpacker | None,
) -> bytes:
    """The pieces of a body, put together; what is not taken is read to its end and dropped."""
    limit = share.held.limits.body
    declared = headers.get(b"content-length", b"0")
    trouble = too_large(limit) if declared.isdigit() and int(declared) > limit else None
    pieces: list[bytes] = []
    size, more = 0, True
    while more and size <= _DRAINED * limit:
        message = await messages.next()
        piece, more = message.get("body", b""), message.get("more_body", False)
        size += len(piece)
        if trouble is not None:
            continue
        try:
            if size > limit:
                raise too_large(limit)  # as the others below
            if unpacking is None:
                share.set(size)
                pieces.append(piece)
            else:
                await _unpack(piece, unpacking, messages, share)
                if not more:
                    return unpacking.finish()
        except Trouble as error:
            trouble, unpacking = error, None
            pieces.clear()
            share.set(0)
    if trouble is not None:
        raise trouble
    return b"".join(pieces)


async def _unpack(
    piece: bytes, unpacking: Unpacker, messages: _RequestMessages, share: _BodyShare
) -> None:
    """Unpacks the next piece of a body, in steps, and stops when the client leaves."""
    unpacking.feed(piece)
    done = unpacking.start()
    share.set(unpacking.size + unpacking.window)
    while not done:
        messages.check()
        done = await share.held.turns.run(unpacking.cpu, unpacking.step)
        share.set(unpacking.size + unpacking.window)


async def json_object(
    receive: "Receive", headers: dict[bytes, bytes], held: Held, hint: str
) -> Body:
    """The body as a JSON object; an empty body is an empty one. The hint says what to send."""
    body = await read(receive, headers, held)
    held.now -= len(body)
    try:
        value = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise Trouble(400, f"the body is no JSON: {error}", hint) from None
    if not isinstance(value, dict):
        raise Trouble(400, "the body is no JSON object", hint)
    return value
