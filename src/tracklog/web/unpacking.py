"""Decompression of request bodies: in small steps, bounded in output, members, padding and CPU time.

A body is unpacked while it arrives. What is more than a little is done by a few threads that all
requests share; whoever has used the least CPU time so far is served first, so that one expensive
body does not hold up the others.
"""

import asyncio
import heapq
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from tracklog.web.trouble import Trouble

if TYPE_CHECKING:
    from tracklog.web.limits import Limits

T = TypeVar("T")

ENCODINGS = ("gzip", "zstd")
_THREADS = 2
_STEP_SECONDS = 0.01
_STEP_OUTPUT = 1 << 20
_INLINE_INPUT, _INLINE_OUTPUT = 16 << 10, 256 << 10
"""Bytes that are unpacked on the event loop itself; more are given to a thread."""
_PIECE = 64 << 10
_FIRST_PIECE = 1 << 10  # of a gzip member, so that little is copied where members are small
_SPOON = 512  # bytes of zstd that are given at a time: they can stand for 16 MiB
_FRAME_HEADER = 18  # bytes, at most
_WINDOW = 1 << 25
_PADDING = 64 << 10
"""Packed bytes beyond twice what they unpack to: empty members, blocks and frames, comments."""


def too_large(limit: int) -> Trouble:
    return Trouble(
        413,
        f"the body is larger than {limit:,} bytes, measured unpacked",
        "send it in several requests",
        headers={"Connection": "close"},
    )


def _too_costly(why: str) -> Trouble:
    return Trouble(
        413, why, "pack it again as one, or send it in several requests",
        headers={"Connection": "close"},
    )  # fmt: skip  # one thing


def _unreadable(what: str) -> Trouble:
    return Trouble(400, f"the body is not {what}", "pack it again, whole")


class Unpacker(ABC):
    """Unpacks one body, piece by piece; raises `Trouble` as soon as a limit is passed."""

    name = ""

    def __init__(self, limits: "Limits") -> None:
        self.limits = limits
        self.pieces: list[bytes] = []
        self.size = 0
        """Bytes unpacked so far."""
        self.window = 0
        """Bytes of memory that the decompressor has besides."""
        self.cpu = 0.0
        """Seconds of CPU time spent so far."""
        self._members = 0
        self._padding = 0
        self._input = b""
        self._at = 0

    def feed(self, piece: bytes) -> None:
        """The next piece of the packed body; what was fed before has been used up."""
        self._input, self._at = piece, 0

    def start(self) -> bool:
        """Do the first step, if it is a small one; True when all input is used up."""
        return len(self._input) <= _INLINE_INPUT and self.step(_INLINE_OUTPUT)

    def step(self, output: int = _STEP_OUTPUT) -> bool:
        """Work for a short time; True when all input is used up."""
        began, enough = time.thread_time(), self.size + output
        try:
            while self._is_hungry():
                before = self._at
                piece = self._some()
                self.size += len(piece)
                self.pieces.append(piece)
                self._padding = max(0, self._padding + self._at - before - 2 * len(piece))
                self._check()
                if self.size >= enough or time.thread_time() - began > _STEP_SECONDS:
                    break
        finally:
            self.cpu += time.thread_time() - began
        return not self._is_hungry()

    def finish(self) -> bytes:
        """The complete body, after the last piece."""
        if not self._is_whole():
            raise _unreadable(f"whole {self.name}")
        return b"".join(self.pieces)

    def _is_hungry(self) -> bool:
        return self._at < len(self._input)

    @abstractmethod
    def _is_whole(self) -> bool: ...

    @abstractmethod
    def _some(self) -> bytes:
        """Unpack a little of the input."""

    def _begin(self) -> None:
        """Another member or frame begins."""
        self._members += 1

    def _check(self) -> None:
        limits = self.limits
        if self.size > limits.body:
            raise too_large(limits.body)
        if self._members > limits.members:
            raise _too_costly(f"the body is packed in more than {limits.members:,} parts")
        if self._padding > _PADDING:
            raise _too_costly("the body is packed with more padding than content")
        if self.cpu > limits.unpack_seconds:
            raise _too_costly(f"unpacking the body takes more than {limits.unpack_seconds:g} s")


class _Gzip(Unpacker):
    name = "gzip"

    def __init__(self, limits: "Limits") -> None:
        super().__init__(limits)
        self._member: Any = None
        self._has_more = False
        self._next = _FIRST_PIECE

    def _is_hungry(self) -> bool:
        return self._has_more or super()._is_hungry()

    def _is_whole(self) -> bool:
        return self._member is None

    def _some(self) -> bytes:
        if self._member is None:
            self._member, self._next = zlib.decompressobj(wbits=31), _FIRST_PIECE
            self._begin()
        member = self._member
        given = self._input[self._at : self._at + self._next]
        most = min(_STEP_OUTPUT, self.limits.body + 1 - self.size)
        try:
            piece: bytes = member.decompress(given, most)
        except zlib.error:
            raise _unreadable("gzip") from None
        self._at += len(given) - len(member.unconsumed_tail) - len(member.unused_data)
        self._has_more = len(piece) == most and not member.eof
        self._next = min(_PIECE, 4 * self._next)
        if member.eof:
            self._member = None
        return piece


class _Zstd(Unpacker):
    name = "zstd"

    def __init__(self, limits: "Limits") -> None:
        import zstandard  # noqa: PLC0415  # most clients do without

        super().__init__(limits)
        self._zstd = zstandard
        self._frames = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        self._frame: Any = None
        self._head = b""

    def _is_whole(self) -> bool:
        return self._frame is None

    def _some(self) -> bytes:
        if self._frame is None:
            self._frame, self._head, self.window = self._frames.decompressobj(), b"", 0
            self._begin()
        given = self._input[self._at : self._at + _SPOON]
        if len(self._head) < _FRAME_HEADER:
            given = given[: _FRAME_HEADER - len(self._head)]
            self._head += given
            self.window = self._window_of(self._head)
        try:
            piece: bytes = self._frame.decompress(given)
        except self._zstd.ZstdError:
            raise _unreadable("zstd") from None
        self._at += len(given)
        if self._frame.eof:
            self._at -= len(self._frame.unused_data)
            self._frame, self.window = None, 0
        return piece

    def _window_of(self, head: bytes) -> int:
        try:
            size: int = self._zstd.get_frame_parameters(head).window_size
        except self._zstd.ZstdError:  # the header is incomplete, or this is not zstd
            return 0
        return min(size, _WINDOW)


def unpacker(encoding: bytes, limits: "Limits") -> Unpacker:
    """What unpacks a body of that encoding."""
    return _Zstd(limits) if encoding == b"zstd" else _Gzip(limits)


class Turns:
    """A few threads; of those that wait, the one with the least CPU time so far is next."""

    def __init__(self, threads: int = _THREADS) -> None:
        self._free = threads
        self._threads = ThreadPoolExecutor(threads, "unpack")
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    async def run(self, used: float, step: Callable[[], T]) -> T:
        """Run one step for a request that has used so much CPU time."""
        if self._free:
            self._free -= 1
        else:
            turn = asyncio.get_running_loop().create_future()
            self._count += 1
            heapq.heappush(self._waiting, (used, self._count, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()  # we got the turn and do not use it
                raise
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, step)
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
