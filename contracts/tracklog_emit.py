# tracklog 0.1.0, emitter python; `tracklog emitter python` prints it.
# Generated from contracts/source/emit_tracklog.py: edit that and run `make derive`.
"""Writes openwop, fishbowl, awf and tracklog lines: one file, standard library only, to be copied.

    from tracklog_emit import Emitter

    with Emitter.file("events.jsonl") as emitter:
        stage = emitter.bind(run="evening-1", actor="host")
        stage.fishbowl("agent.spoke", {"text": "Good evening."}, turn=1)

        coder = emitter.bind(run="r-1", agent="coder")
        coder.tracklog("Began", what="agent", task="Add /v2/health")

`bind` returns a new emitter and changes nothing; there is no global state.
Each method adds the envelope of its dialect around what it is given, and returns the event's
identity there, to be used as the cause of a later one.
The envelope is checked here; the rest is checked by `tracklog check`, or where it is recorded.
Whatever cannot be written raises; a key that is a number becomes a string, as json does it.
Python 3.11 or newer, on Linux or macOS.
"""

import atexit
import copy
import fcntl
import itertools
import json
import math
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, Self
from weakref import WeakSet

__all__ = [
    "Emitter",
    "FileSink",
    "HttpSink",
    "Invalid",
    "Problem",
    "ShortWrite",
    "Sink",
    "new_id",
]

RUN_ENV, PARENT_ENV, TRACE_ENV = "TRACKLOG_RUN_ID", "TRACKLOG_PARENT_RUN_ID", "TRACEPARENT"
URL_ENV, SPOOL_ENV = "TRACKLOG_URL", "TRACKLOG_SPOOL"
TOKEN_ENV, TOKEN_FILE_ENV = "TRACKLOG_TOKEN", "TRACKLOG_TOKEN_FILE"
PROTOCOL_HEADER, PROTOCOL = "Tracklog-Protocol", "1"
"""What an answer must carry to be believed."""
BATCH_BYTES, BATCH_LINES = 512 << 10, 1000
SEGMENT_BYTES = 8 << 20
SPOOL_BYTES = 1 << 30
MEMORY_BYTES = 8 << 20
REFUSED_BYTES = 64 << 20
ANSWER_BYTES = 64 << 20
LINGER, PATIENCE, LOOK_AROUND, LONGEST_PAUSE = 0.05, 15.0, 30.0, 30.0
"""Seconds: to wait for more lines, for an answer, between looks for left files, between tries."""
REFUSALS, FAILURES, STRIKES, FAR = 3, 12, 3, 64
"""Tries of a batch before those behind it are tried; how often they must pass; how far to look."""
CLOSE_SHARE, REGAINED = 0.75, 0.1
"""Of the deadline, what closing may take before the end of the process; regained per second."""


class Problem(NamedTuple):
    """One fault of an event: where, what, and what to do."""

    pointer: str
    message: str
    hint: str


class Invalid(ValueError):
    """The event cannot be written; `problems` names every fault, and no byte was written."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{at or '/'}: {what} ({hint})" for at, what, hint in problems))


class ShortWrite(OSError):
    """The system took only a part of a line; the rest was not sent after it."""


DEPTH = 200


def _unwritable(at: str, value: Any, within: tuple[int, ...] = ()) -> Iterator[Problem]:
    """The places whose value is no JSON."""
    if id(value) in within:
        yield Problem(at, "the value contains itself", "write a tree")
    elif len(within) > DEPTH:
        yield Problem(at, f"nested deeper than {DEPTH} levels", "flatten it")
    elif isinstance(value, dict):
        for key, inner in value.items():
            name = str(key).replace("~", "~0").replace("/", "~1")
            if not isinstance(key, str):
                yield Problem(f"{at}/{name}", f"the key {key!r} is no string", "use string keys")
            yield from _unwritable(f"{at}/{name}", inner, (*within, id(value)))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _unwritable(f"{at}/{number}", inner, (*within, id(value)))
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(at, f"{value} is no JSON number", "leave the key out, or write a number")
    elif value is not None and not isinstance(value, (str, int, float)):
        kind = type(value).__name__
        yield Problem(at, f"a {kind} is no JSON value", "turn it into text, numbers, lists, dicts")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate has no bytes in UTF-8: U+FFFD stands for it
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class GrowingFile:
    """A file that only grows: each line is one write, so that lines of many writers never mix.

    durability is "os" (the file is synced when it is closed) or "sync" (after each line).
    """

    mode = 0o600

    def __init__(self, path: "str | os.PathLike[str]", durability: str = "os") -> None:
        if durability not in ("os", "sync"):
            raise ValueError(f"durability {durability!r} is unknown: write 'os' or 'sync'")
        self._sync = durability == "sync"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._fd: int | None = os.open(path, flags, self.mode)
        self._torn = self._unterminated(path)

    def append(self, line: bytes) -> None:
        """Writes one complete line or raises; a short write is never followed by the rest (K19)."""
        if self._fd is None:
            raise ValueError("the emitter is closed: open another one")
        # A line that a crash or a short write left without its end would swallow this one.
        line = b"\n" + line if self._torn else line
        written = os.write(self._fd, line)
        self._torn = written != len(line)
        if self._torn:
            raise ShortWrite(f"only {written} of {len(line)} bytes were written")
        if self._sync:
            os.fsync(self._fd)

    def close(self) -> None:
        """Makes the lines durable and closes the file; a second call does nothing."""
        fd = self._detach()
        if fd is not None:
            try:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    os.fsync(fd)
            finally:
                os.close(fd)

    def _detach(self) -> int | None:
        fd, self._fd = self._fd, None
        return fd

    def _unterminated(self, path: "str | os.PathLike[str]") -> bool:
        assert self._fd is not None
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        try:
            with open(path, "rb", buffering=0) as file:
                before = -1
                while (end := file.seek(-1, os.SEEK_END)) != before:
                    if file.read(1) == b"\n":
                        return False
                    before = end
                    time.sleep(0.02)  # another writer may be in the middle of its line
                return True
        except OSError:  # it cannot be read: a blank line is the lesser harm
            return True


class Batch(NamedTuple):
    """Lines that are sent together: the same key always stands for the same lines."""

    key: str
    dialect: str
    """Empty, where a crash left something else than a line."""
    lines: list[bytes]
    end: int


class SpoolFile:
    """A private file whose lock is held by the one process that writes and forwards it.

    It begins with the place up to which all was taken by the collector, in twenty digits.
    """

    HEAD = 21
    limit = SEGMENT_BYTES

    def __init__(self, path: str, fd: int) -> None:
        self.path, self.fd = path, fd
        self.name = os.path.basename(path).partition(".")[0]

    @classmethod
    def new(cls, folder: str) -> "SpoolFile":
        for _ in range(8):
            path = os.path.join(folder, f"{time.time_ns():020d}-{os.urandom(8).hex()}.spool")
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if (file := cls._locked(path, fd)) is not None:
                try:
                    file.append(b"%020d\n" % cls.HEAD)
                except OSError:
                    file.remove()
                    raise
                return file
            try:
                os.unlink(path)
            except OSError:
                pass  # another process took it for left behind, and removed it
        raise OSError(f"no file of {folder} can be locked")

    @classmethod
    def left(cls, path: str) -> "SpoolFile | None":
        """The file of a process that is gone, or None: at most one process gets it."""
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):  # a pipe or a device might not return
                return None
            file = cls._locked(path, os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK))
        except OSError:
            return None
        if file is not None and file.size() <= cls.HEAD:
            file.remove()
            return None
        return file

    @classmethod
    def _locked(cls, path: str, fd: int) -> "SpoolFile | None":
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(path).st_ino == os.fstat(fd).st_ino:
                return cls(path, fd)
        except OSError:
            pass  # another process has it, or had it and is done with it
        os.close(fd)
        return None

    def append(self, data: bytes) -> None:
        written = os.write(self.fd, data)
        if written != len(data):
            end = os.lseek(self.fd, 0, os.SEEK_CUR) - written
            os.ftruncate(self.fd, end)
            os.lseek(self.fd, end, os.SEEK_SET)
            raise OSError(f"only {written} of {len(data)} bytes were written")

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def read(self, start: int, end: int) -> bytes:
        parts = []
        while start < end and (part := os.pread(self.fd, end - start, start)):
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def taken(self) -> int:
        """Where to go on: at the start, unless what is written there can be true of this file."""
        digits = os.pread(self.fd, self.HEAD, 0)
        if len(digits) != self.HEAD or digits[-1:] != b"\n" or not digits[:-1].isdigit():
            return self.HEAD
        end = int(digits)
        if self.HEAD <= end <= self.size() and os.pread(self.fd, 1, end - 1) == b"\n":
            return end
        return self.HEAD

    def take(self, end: int) -> None:
        os.pwrite(self.fd, b"%020d" % end, 0)

    def release(self) -> None:
        """Leaves the file to whoever looks for it next."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def remove(self) -> None:
        try:
            os.unlink(self.path)
        except OSError:
            pass  # it is empty, and whoever can will remove it
        self.release()


class SpoolMemory:
    """What stands in for the file where none can be written; it ends with its process."""

    HEAD = 0
    limit = MEMORY_BYTES

    def __init__(self) -> None:
        self.name = os.urandom(16).hex()
        self._bytes, self._dropped = bytearray(), 0

    def append(self, data: bytes) -> None:
        self._bytes += data

    def size(self) -> int:
        return self._dropped + len(self._bytes)

    def read(self, start: int, end: int) -> bytes:
        return bytes(self._bytes[start - self._dropped : end - self._dropped])

    def taken(self) -> int:
        return self._dropped

    def take(self, end: int) -> None:
        del self._bytes[: end - self._dropped]
        self._dropped = end

    def release(self) -> None:
        self._bytes.clear()

    remove = release


_BEFORE = re.compile(rb"[a-z][a-z0-9-]* ")


class Segment:
    """Lines on their way: each with its dialect before it; an empty line ends a batch.

    So does another dialect, and the end of the file once a batch was read up to there. Where a
    batch ends is thus written before anything follows it, for whoever must send it again.
    """

    def __init__(self, store: "SpoolFile | SpoolMemory") -> None:
        self.store = store
        self.done = store.taken()
        self.closed = False
        self._pending = self._count = 0
        self._cut = False

    def append(self, line: bytes, dialect: str) -> None:
        data = b"%b%b %b" % (b"\n" if self._cut else b"", dialect.encode(), line)
        self.store.append(data)
        if self._cut:
            self._pending = self._count = 0
            self._cut = False
        self._pending += len(data)
        self._count += 1
        if self._pending >= BATCH_BYTES or self._count >= BATCH_LINES:
            self._cut = True

    def left(self) -> int:
        """How many bytes were not taken yet."""
        return self.store.size() - self.done

    def reach(self, *, whole: bool = False) -> int:
        """How far to read for the next batch, after which it does not grow; or for all of them."""
        end = self.store.size()
        if whole or end - self.done <= 2 * BATCH_BYTES:
            self._cut = True
        return end

    def batch(self, end: int, behind: int = 0) -> Batch | None:
        """The first lines that were not taken, or the first behind a place, or None."""
        place = max(self.done, behind)
        block, reach = b"", min(end, place + 2 * BATCH_BYTES)
        while True:
            block = self.store.read(place, reach)
            body = block.lstrip(b"\n")
            stop = body.find(b"\n\n")
            if stop >= 0 or reach >= end:
                break
            reach = min(end, reach + 2 * len(block))
        start = place + len(block) - len(body)
        body = body[: stop if stop >= 0 else body.rfind(b"\n") + 1]
        lines = body.removesuffix(b"\n").split(b"\n") if body else []
        if not lines:
            return None
        before = lines[0].partition(b" ")[0] + b" "
        key = f"{self.store.name}-{start}"
        if not _BEFORE.fullmatch(before):
            return Batch(key, "", lines[:1], start + len(lines[0]) + 1)
        known = itertools.takewhile(lambda line: line.startswith(before), lines)
        bare = [line[len(before) :] for line in known]
        through = start + sum(map(len, bare)) + len(bare) * (len(before) + 1)
        return Batch(key, before[:-1].decode(), bare, through)

    def take(self, end: int) -> None:
        self.done = end
        self.store.take(end)


class Bell:
    """Wakes a thread; may be rung from anywhere, also by a signal that interrupts a ringing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:
                pass  # somebody else rang at the same moment

    def wait(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=seconds)


class Unreachable(Exception):
    """Nothing was acknowledged; `pause` is how long the collector wants to be left alone."""

    def __init__(
        self, why: str, pause: float = 0.0, status: int = 0, *, is_ours: bool = False
    ) -> None:
        super().__init__(why)
        self.pause, self.status, self.is_ours = pause, status, is_ours

    @property
    def is_refusal(self) -> bool:
        """Whether the collector itself says that its answer will be the same next time."""
        return self.is_ours and 400 <= self.status < 500 and self.status not in (408, 425, 429)


class Answer(NamedTuple):
    """What came back for a request."""

    status: int
    body: bytes
    pause: float
    """For how many seconds the collector wants to be left alone."""
    version: str
    """Of the protocol; only a collector names it."""

    def counts(self, sent: int) -> dict[str, Any] | None:
        """What became of so many lines; None where that is not said in a way to be believed."""
        if self.status != 200 or self.version != PROTOCOL:
            return None
        try:
            report = json.loads(self.body.decode("utf-8-sig"), parse_constant=_no_json)
            counts = [report[name] for name in ("accepted", "duplicate", "refused")]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        if any(type(count) is not int or count < 0 for count in counts):
            return None
        return report if sum(counts) == sent else None

    def why(self, url: str, sent: int) -> str:
        """What is wrong with an answer that acknowledges nothing."""
        said = _short(self.body)
        if self.status < 500 and not self.version:
            status = "" if self.status == 200 else f" {self.status}{said and f' ({said})'}"
            return (
                f"{url} answers{status} without {PROTOCOL_HEADER}: it is no collector but a proxy "
                "or a portal, or a collector older than this emitter (upgrade collectors first)"
            )
        if self.version and self.version != PROTOCOL:
            return f"{url} speaks version {self.version} of the protocol, this emitter {PROTOCOL}"
        if self.status == 200:
            return f"{url} does not say what became of {sent} lines: {said or 'it is empty'}"
        return f"{url} answers {self.status}: {said or 'it gives no reason; its log may'}"


class CollectorClient:
    """HTTP to one collector: one exchange at a time, with its token."""

    def __init__(
        self, url: str, token: str | None, token_file: str | None, warn: Callable[[str, str], None]
    ) -> None:
        # A producer that writes files starts faster without it. Not later, in the thread: a child
        # that is forked in the middle of an import has half a module.
        import http.client  # noqa: PLC0415 - see above

        self.url, self._http = url, http.client
        self._where = _target(url)
        self._token, self._token_file, self._warn = token, token_file, warn

    def connect(self, patience: float) -> Any:
        scheme, host, port, _ = self._where
        secure = scheme == "https"
        kind = self._http.HTTPSConnection if secure else self._http.HTTPConnection
        return kind(host, port, timeout=patience)

    def exchange(
        self,
        connection: Any,
        method: str,
        path: str,
        patience: float,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """What the collector answers; raises Unreachable, whatever went wrong."""
        until = time.monotonic() + 2 * patience
        try:
            token = self._secret()
            proof = {"Authorization": f"Bearer {token}"} if token else {}
            try:
                connection.request(
                    method, self._where[3] + path, body, {**(headers or {}), **proof}
                )
            except (BrokenPipeError, ConnectionResetError):
                pass  # who does not want the whole of it may still have said why
            answer = connection.getresponse()
            version = ", ".join(answer.headers.get_all(PROTOCOL_HEADER) or ())
            read = bytearray()
            while part := answer.read1(1 << 16):
                read += part
                if time.monotonic() > until:
                    raise Unreachable(f"{self.url} does not come to an end")
                if len(read) > ANSWER_BYTES:  # nobody has so much to say of a batch
                    connection.close()
                    return Answer(answer.status, b"", 0.0, version)
            if answer.length:
                raise Unreachable(f"{self.url} stopped in the middle of its answer")
            answer.close()
            if answer.will_close:
                connection.close()
            pause = _seconds(answer.headers.get("Retry-After"))
            return Answer(answer.status, bytes(read), pause, version)
        except (OSError, self._http.HTTPException, ValueError) as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"{self.url} does not answer ({why})") from error

    def _secret(self) -> str | None:
        token = self._token
        try:
            if not token and self._token_file:
                fd = os.open(self._token_file, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    token = os.read(fd, 1 << 16).decode().strip()
                finally:
                    os.close(fd)
        except (OSError, ValueError) as error:
            self._warn("token", f"the token cannot be read: {error}")
        if token and not _TOKEN.fullmatch(token):  # and it must not be told in an error
            self._warn("token", "the token holds what no header can hold; it is not sent")
            return None
        return token


def _extends(old: int, old_root: str, size: int, root: str, proof: Any, sha256: Any) -> bool:
    """Whether a tree of hashes begins with a smaller one: a consistency proof of RFC 6962."""
    try:
        start, end, *path = map(bytes.fromhex, (old_root, root, *proof))
    except (TypeError, ValueError):
        return False
    if not 0 < old < size or not 0 < len(path) <= 128:
        return False
    low, high = old - 1, size - 1
    while low & 1:
        low, high = low >> 1, high >> 1
    before = after = path.pop(0) if low else start  # a complete tree is its own first hash
    for each in path:
        if not high:
            return False
        if low & 1 or low == high:
            before, after = (sha256(b"\1" + each + own).digest() for own in (before, after))
            while low and not low & 1:
                low, high = low >> 1, high >> 1
        else:
            after = sha256(b"\1" + after + each).digest()
        low, high = low >> 1, high >> 1
    return (before, after, high) == (start, end, 0)


def _set_aside(
    path: str, dialect: str, refused: list[tuple[bytes, str]], status: int
) -> Iterator[None]:
    """Appends refused lines to a private file, and yields after each that it has; raises OSError."""
    # Never blocks, also where a pipe lies in the place of the file.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is no file")
        size = found.st_size
        if size > REFUSED_BYTES:
            raise OSError(f"{path} is full")
        torn = size and os.pread(fd, 1, size - 1) != b"\n"
        for line, why in refused:
            record = {"status": status, "why": why, "dialect": dialect}
            record["line"] = line.decode(errors="replace")
            text = json.dumps(record, ensure_ascii=False).encode(errors="replace") + b"\n"
            text = b"\n" + text if torn else text
            if os.write(fd, text) != len(text):
                raise OSError(f"{path} cannot be written")
            torn = False
            yield
    finally:
        os.close(fd)


class HttpSink:
    """Sends lines to a collector, from a thread of its own; what it cannot send waits in a spool.

    `write` appends to a private file and returns: it never waits for the network and never raises
    because of it. Batches are sent in order, again and again until the collector has taken them,
    under a key by which it knows a batch that it has already. Taken is what an answer of the
    collector itself says so of, line by line counted; a batch that it refuses for good is set aside
    in `refused.jsonl`. What a process leaves behind is sent by the next one that reports to the
    same collector. Closing and the end of the process wait `deadline` seconds at most, together and
    for all sinks of the process.
    """

    _alive: ClassVar["WeakSet[HttpSink]"] = WeakSet()

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        spool: "str | os.PathLike[str] | None" = None,
        deadline: float = 2.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        import hashlib  # noqa: PLC0415 - as in CollectorClient

        environ = os.environ if environ is None else environ
        self._sha256 = hashlib.sha256
        self.url, self.deadline = url.rstrip("/"), deadline
        self._client = CollectorClient(
            self.url, token or environ.get(TOKEN_ENV), environ.get(TOKEN_FILE_ENV), self._warn
        )
        self.folder = os.path.join(_spool(spool, environ), _folder(self.url))
        self._renew()
        _waits.pop("", None)
        HttpSink._alive.add(self)

    def _renew(self) -> None:
        """Nothing on its way, no thread, no lock held: as at the start, and in a child process."""
        self._lock = threading.RLock()
        self._wake, self._hurry = Bell(), Bell()
        self._ticket, self._started = threading.Lock(), False
        self._leaving, self._finished = threading.Event(), threading.Event()
        self._segments: list[Segment] = []
        self._adopted: list[Segment] = []
        self._line: Any = None
        self._closed = self._looked = self._looked_last = False
        self._warned: set[str] = set()
        self._checkpoints: dict[str, tuple[int, str]] = {}
        self._seen = 0
        self.set_aside = 0
        """How many lines were refused for good, and stand in `refused.jsonl`."""
        self._lost = 0
        self._stuck, self._tries, self._strikes = "", 0, 0

    @property
    def lost(self) -> int:
        """How many lines are gone: they had no place left, or the sink was closed before it could
        send what waited in memory alone.
        """
        with self._lock:
            return self._lost + (self._only_in_memory() if self._closed else 0)

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] | None = None, **options: Any
    ) -> "HttpSink | None":
        """The sink for the URL in the environment, if there is one; an invalid URL is reported."""
        environ = os.environ if environ is None else environ
        url = environ.get(URL_ENV)
        try:
            return cls(url, environ=environ, **options) if url else None
        except ValueError as error:
            _say(f"{URL_ENV}: {error}; nothing is sent")
            return None

    def write(self, line: bytes, dialect: str, /) -> None:
        """Takes one line with its line end, whole; where there is no place left it is counted."""
        with self._lock:
            if self._closed:
                raise ValueError("the emitter is closed: open another one")
            try:
                self._append(line, dialect)
            except (OSError, ValueError) as error:
                self._lose(f"no line can be kept: {error}")
        self._wake.ring()
        if not self._started:
            self._start()

    def flush(self, deadline: float | None = None) -> bool:
        """Waits until all is with the collector; False when it is not by the deadline."""
        until = time.monotonic() + (self.deadline if deadline is None else deadline)
        self._start()
        self.hurry()
        while not (done := self._looked and not self._left()):
            if time.monotonic() > until or self._finished.is_set():
                break
            time.sleep(0.005)
        return done

    def hurry(self) -> None:
        """Sends what there is now, without waiting for more."""
        self._hurry.ring()
        self._wake.ring()

    def close(self, deadline: float | None = None) -> None:
        """Sends what it can within the deadline, and leaves the rest in the spool.

        Without a deadline of its own it waits for as long as closing may in this process by now.
        """
        self._close()
        if deadline is None:
            deadline = _allowed(self.url, self.deadline * CLOSE_SHARE)
        began = time.monotonic()
        try:
            self._finished.wait(deadline)
        finally:
            _charge(time.monotonic() - began, self.deadline, self.url)

    def get(self, path: str, patience: float) -> tuple[int, bytes, float]:
        """A page of the collector: its status, its bytes, how long to pause; raises Unreachable."""
        connection = self._client.connect(patience)
        try:
            return self._client.exchange(connection, "GET", path, patience)[:3]
        finally:
            connection.close()

    def _append(self, line: bytes, dialect: str) -> None:
        last = self._segments[-1] if self._segments else None
        if last is None or last.closed or last.store.size() >= last.store.limit:
            if last is not None and isinstance(last.store, SpoolMemory):
                if last.left() + len(line) > last.store.limit:
                    raise OSError("the collector is away and the memory is full")
            else:
                last = self._roll()
        try:
            last.append(line, dialect)
        except OSError:
            if isinstance(last.store, SpoolMemory):
                raise
            last.closed = True
            self._segments.append(Segment(SpoolMemory()))
            self._segments[-1].append(line, dialect)

    def _roll(self) -> Segment:
        if sum(segment.left() for segment in self._segments) >= SPOOL_BYTES:
            raise OSError(f"the spool {self.folder} is full")
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            store: SpoolFile | SpoolMemory = SpoolFile.new(self.folder)
        except (OSError, ValueError) as error:
            self._warn("spool", f"{error}: what cannot be sent is kept in memory, up to a limit")
            store = SpoolMemory()
        self._segments.append(Segment(store))
        return self._segments[-1]

    def _lose(self, why: str, lines: int = 1) -> None:
        self._lost += lines
        self._warn("lost", f"{why}; lines are being lost")

    def _only_in_memory(self) -> int:
        """How many lines wait nowhere else."""
        waiting = [each for each in self._segments if isinstance(each.store, SpoolMemory)]
        blocks = (each.store.read(each.done, each.store.size()) for each in waiting)
        return sum(1 for block in blocks for line in block.split(b"\n") if line)

    def _where(self) -> str:
        """Where lines wait that were not sent yet."""
        if any(isinstance(each.store, SpoolMemory) for each in tuple(self._segments)):
            return "lines wait in memory"
        return f"lines are kept in {self.folder}"

    def _say_lost(self) -> None:
        if lost := self.lost:
            self._warn("total", f"{lost} lines were lost")

    def _start(self) -> None:
        # A ticket that is taken once: a signal handler that emits may come between any two steps.
        if not self._ticket.acquire(blocking=False):
            return
        try:
            threading.Thread(target=self._forward, name="tracklog", daemon=True).start()
        except RuntimeError:  # the interpreter is ending: the spool keeps the lines
            self._finished.set()
        self._started = True

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            self._leaving.set()
            if self._ticket.acquire(blocking=False):  # there never was anything to send
                self._finished.set()
        self.hurry()

    def _left(self) -> bool:
        with self._lock:
            return any(segment.left() for segment in (*self._adopted, *self._segments))

    def _forward(self) -> None:
        """What the thread does: batch after batch, oldest first, until the sink is closed."""
        failures = 0
        self._hurry.wait(LINGER)
        try:
            while not (self._closed and failures):
                try:
                    if (found := self._next()) is not None:
                        self._send(*found)
                    elif self._closed and self._looked_last:
                        return
                    else:
                        self._idle()
                    failures = 0
                except Exception as error:  # noqa: BLE001 - a thread that ends would send no more
                    failures += 1
                    if not self._closed:
                        self._pause(failures, error)
                        failures = 0 if self._closed else failures
        finally:
            self._rest()

    def _idle(self) -> None:
        if self._closed:  # a child may have left something meanwhile
            self._looked, self._looked_last = False, True
        elif self._wake.wait(LOOK_AROUND):
            self._hurry.wait(LINGER)
        else:
            self._looked = False

    def _pause(self, failures: int, error: Exception) -> None:
        """Longer from failure to failure, never twice alike, and as long as the collector asks."""
        pause = min(LONGEST_PAUSE, 0.1 * 2 ** min(failures, 12))
        pause *= 0.5 + os.urandom(1)[0] / 510
        if not isinstance(error, Unreachable):
            self._warn("error", f"{type(error).__name__}: {error}")
        elif error.pause > pause:
            self._leaving.wait(error.pause)
            return
        self._hurry.wait(pause)

    def _next(self) -> tuple[Segment, Batch] | None:
        if not self._looked:
            self._look_around()
        while self._adopted:
            first = self._adopted[0]
            end = first.reach()
            if found := first.batch(end):
                return first, found
            if torn := first.store.read(first.done, end).strip(b"\0\n"):
                self._put_aside("", [(torn, "the end of a line is missing")], 0)
            with self._lock:
                self._adopted.pop(0).store.remove()
        while True:
            with self._lock:
                if not self._segments:
                    return None
                first = self._segments[0]
                end = first.reach()
                done = first.done >= end
                if done and (len(self._segments) > 1 or end >= first.store.limit // 8):
                    self._segments.pop(0).store.remove()
                    continue
            if not done and (found := first.batch(end)):
                return first, found
            return None

    def _look_around(self) -> None:
        """Takes over what processes left that are gone."""
        try:
            names = sorted(os.listdir(self.folder))
        except (OSError, ValueError):
            names = []
        for name in names:
            if name.endswith(".spool"):
                file = SpoolFile.left(os.path.join(self.folder, name))
                if file is not None:
                    with self._lock:
                        self._adopted.append(Segment(file))
        self._looked = True

    def _rest(self) -> None:
        """Removes what is done and leaves the rest to the next process."""
        with self._lock:
            if only := self._only_in_memory():
                self._lose("the collector is not back in time", only)
            for segment in (*self._adopted, *self._segments):
                if segment.left():
                    segment.store.release()
                else:
                    segment.store.remove()
            self._adopted, self._segments = [], []
        self._say_lost()
        if self._line is not None:
            self._line.close()
        self._finished.set()

    def _send(self, segment: Segment, batch: Batch) -> None:
        """Sends a batch, and returns when it is taken or set aside."""
        key, dialect, lines, end = batch
        if not dialect:
            self._put_aside("", [(lines[0], "no line of a spool")], 0)
        else:
            try:
                self._deliver(key, dialect, lines)
            except Unreachable as error:
                if not self._others_pass(segment, batch, error):
                    raise
                self._deliver_or_set_aside(key, dialect, lines)
        segment.take(end)

    def _others_pass(self, segment: Segment, batch: Batch, error: Unreachable) -> bool:
        """Whether the collector takes what stands behind a batch that it does not take.

        Asked only after a number of tries, of one batch further back each time: a collector that
        takes nothing is waited for.
        """
        self._tries = self._tries + 1 if self._stuck == batch.key else 1
        if self._stuck != batch.key:
            self._stuck, self._strikes = batch.key, 0
        distance = self._tries - (REFUSALS if error.is_refusal else FAILURES) + 1
        if distance < 1 or self._closed:
            return False
        if (other := self._behind(segment, batch.end, min(distance, FAR))) is None:
            return False
        body = b"\n".join(other.lines) + b"\n"
        try:
            answer = self._post(f"/api/events/{other.dialect}", other.key, body)
        except Unreachable:
            return False
        return answer.counts(len(other.lines)) is not None

    def _behind(self, segment: Segment, place: int, distance: int) -> Batch | None:
        """The batch so many places behind another one, or the last there is."""
        with self._lock:
            row = [*self._adopted, *self._segments]
            row = row[row.index(segment) :]
            ends = [each.reach(whole=True) for each in row]
        found = None
        for each, end in zip(row, ends, strict=True):
            at = place if each is segment else each.done
            while at < end and (batch := each.batch(end, at)):
                if batch.dialect:
                    found, distance = batch, distance - 1
                if not distance:
                    return found
                at = batch.end
        return found

    def _deliver_or_set_aside(self, key: str, dialect: str, lines: list[bytes]) -> None:
        """Once more: what kept it may just be over. If not, it must not hold up the others."""
        try:
            self._deliver(key, dialect, lines, set_aside=self._strikes + 1 >= STRIKES)
        except Unreachable as error:
            self._strikes += 1
            if not error.is_refusal and self._strikes < STRIKES:
                raise
            self._put_aside(dialect, [(line, str(error)) for line in lines], error.status)

    def _deliver(
        self, key: str, dialect: str, lines: list[bytes], *, set_aside: bool = False
    ) -> None:
        """Sends lines, and returns when they are taken or refused for good; raises Unreachable.

        Only the collector itself can refuse them. Of what is too large for something in between,
        the halves are tried, and a single line is kept, unless it is to be set aside.
        """
        path, body = f"/api/events/{dialect}", b"\n".join(lines) + b"\n"
        answer = self._post(path, key, body)
        if answer.status == 409 and answer.version == PROTOCOL:
            # The key stands for other lines there; under one that names these lines they are new.
            answer = self._post(path, f"{key}-{self._sha256(body).hexdigest()[:16]}", body)
        status, ours = answer.status, answer.version == PROTOCOL
        if status == 413 and len(lines) > 1:  # by halves, so that what is small enough arrives
            middle = len(lines) // 2
            self._deliver(f"{key}.0", dialect, lines[:middle], set_aside=set_aside)
            self._deliver(f"{key}.1", dialect, lines[middle:], set_aside=set_aside)
        elif (ours and status in (400, 409, 413, 415, 422)) or (status == 413 and set_aside):
            why = answer.why(self.url, len(lines))
            self._put_aside(dialect, [(line, why) for line in lines], status)
        elif (report := answer.counts(len(lines))) is not None:
            self._compare(report.get("checkpoint"))
            self._heed(dialect, lines, report)
        else:
            why = answer.why(self.url, len(lines))
            if status < 500 and status not in (408, 425, 429):
                kind = "answer" if ours or status != 200 else "foreign"
                self._warn(kind, f"{why}; {self._where()}")
            raise Unreachable(why, answer.pause, status, is_ours=ours)

    def _compare(self, checkpoint: Any) -> None:
        """Warns if the journal of the collector is not the one that it signed before."""
        if not isinstance(checkpoint, dict):
            return
        origin, records, root = (checkpoint.get(name) for name in ("origin", "records", "root"))
        if type(records) is not int or not isinstance(origin, str) or not isinstance(root, str):
            return
        known, hash = self._checkpoints.get(origin, (0, ""))
        same, proof = (records, root) == (known, hash), checkpoint.get("proof")
        if known and not same and not _extends(known, hash, records, root, proof, self._sha256):
            signed = f"it signed {known} records before, and now {records} other ones"
            self._warn("checkpoint", f"the journal of {self.url} was rewritten or cut: {signed}")
        else:
            self._checkpoints[origin] = records, root
            self._seen = records

    def _heed(self, dialect: str, lines: list[bytes], report: dict[str, Any]) -> None:
        """Puts aside the lines that the collector refused."""
        count = report["refused"]
        if not count:
            return
        refused: dict[int, str] = {}
        verdicts = report.get("verdicts")
        for verdict in verdicts if isinstance(verdicts, list) else ():
            if isinstance(verdict, dict) and verdict.get("verdict") == "refused":
                number = verdict.get("line")
                if type(number) is int and 1 <= number <= len(lines):
                    refused[number - 1] = json.dumps(verdict.get("problems"))[:500]
        if len(refused) != count:  # any of them may be among those
            why = f"{count} of these {len(lines)} lines were refused, without saying which"
            refused = dict.fromkeys(range(len(lines)), why)
        self._put_aside(dialect, [(lines[at], refused[at]) for at in sorted(refused)], 200)

    def _put_aside(self, dialect: str, refused: list[tuple[bytes, str]], status: int) -> None:
        path = os.path.join(self.folder, "refused.jsonl")
        left = len(refused)
        try:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            for _ in _set_aside(path, dialect, refused, status):
                left -= 1
                self.set_aside += 1
            self._warn("refused", f"lines were refused: {refused[0][1]}; they are in {path}")
        except (OSError, ValueError) as error:
            with self._lock:
                self._lost += left
            why = refused[0][1]
            self._warn("aside", f"lines were refused: {why}; they cannot be kept: {error}")

    def _post(self, path: str, key: str, body: bytes) -> Answer:
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key}
        if self._seen:
            headers["Tracklog-Seen"] = str(self._seen)
        for again in (True, False):
            fresh = self._line is None
            self._line = self._line or self._client.connect(PATIENCE)
            try:
                return self._client.exchange(self._line, "POST", path, PATIENCE, body, headers)
            except Unreachable as error:
                self._line.close()
                self._line = None
                if fresh or not again:  # one that had been idle may just have been closed
                    self._warn("down", f"{error}; {self._where()}")
                    raise
        raise AssertionError

    def _warn(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            _say(text)

    @classmethod
    def _forked(cls) -> None:
        # The lines stay with the parent, who holds the lock of their file.
        _waits.clear()
        for sink in list(cls._alive):
            closed = sink._closed
            for segment in (*sink._adopted, *sink._segments):
                segment.store.release()
            sink._renew()
            sink._closed = closed

    @classmethod
    def _end(cls) -> None:
        """Closes what is open when the process ends, all within the longest of their deadlines."""
        sinks = [sink for sink in list(cls._alive) if not sink._finished.is_set()]
        longest = max((_allowed(sink.url, sink.deadline) for sink in sinks), default=0.0)
        began = time.monotonic()
        until = began + longest
        try:
            for sink in sinks:
                sink._close()
            for sink in sinks:
                sink._finished.wait(max(0.0, until - time.monotonic()))
        except KeyboardInterrupt:
            pass  # who asks twice does not want to wait; the spool has the rest
        finally:
            # Another copy of this code may have its turn after this one.
            _charge(time.monotonic() - began, math.inf, *{sink.url for sink in sinks})
            for sink in sinks:
                sink._say_lost()


_waits: dict[str, tuple[float, float]] = vars(sys).setdefault("_tracklog_waits", {})
"""Seconds that closing has waited of late, and as of when: for each collector, and under "" for all
since an emitter was last made. Other copies of this code in the process share it."""


def _spent(url: str) -> float:
    spent, at = _waits.get(url, (0.0, 0.0))
    return max(0.0, spent - REGAINED * (time.monotonic() - at))


def _allowed(url: str, deadline: float) -> float:
    """How many seconds closing may still wait now; a process that goes on regains them slowly."""
    return max(0.0, deadline - max(_spent(url), _spent("")))


def _charge(waited: float, deadline: float, *urls: str) -> None:
    for account in (*urls, ""):
        spent = _spent(account)
        _waits[account] = (max(spent, min(spent + waited, deadline)), time.monotonic())


os.register_at_fork(after_in_child=HttpSink._forked)
atexit.register(HttpSink._end)


_TOKEN = re.compile(r"[\x21-\x7e]+")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _target(url: str) -> tuple[str, str, int | None, str]:
    from urllib.parse import urlsplit  # noqa: PLC0415 - only for who reports to a collector

    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError(f"an address holds no secret: give a token, or set {TOKEN_ENV}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "write one like http://127.0.0.1:4318"
        raise ValueError(f"{url!r} is no address of a collector: {hint}")
    return parts.scheme, parts.hostname, parts.port, parts.path.rstrip("/")


def _spool(given: "str | os.PathLike[str] | None", environ: Mapping[str, str]) -> str:
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    if state.startswith("~"):  # nobody's home: there is no place that is ours alone
        state = os.devnull
    return os.fspath(given or environ.get(SPOOL_ENV) or os.path.join(state, "tracklog", "spool"))


def _folder(url: str) -> str:
    """Each collector has its own: what was meant for one never goes to another."""
    import hashlib  # noqa: PLC0415 - as above

    return (
        re.sub(r"[^A-Za-z0-9.-]+", "_", url)[:80]
        + "-"
        + hashlib.sha256(url.encode()).hexdigest()[:8]
    )


def _seconds(after: str | None) -> float:
    """What Retry-After says, in seconds, within reason."""
    if not after:
        return 0.0
    try:
        wait = float(after)
    except ValueError:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - rarely a date

        try:
            wait = parsedate_to_datetime(after).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(wait, 300.0) if wait > 0 else 0.0


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _short(answer: bytes) -> str:
    return answer[:300].decode(errors="replace").strip()


def _say(text: str) -> None:
    text = _CONTROLS.sub("�", text)  # what others said must not steer a terminal
    try:
        print(f"tracklog: {text}", file=sys.stderr)
    except (OSError, ValueError, AttributeError, RuntimeError):
        pass  # there is no stderr, and a warning must not be what breaks the producer


AWF_TYPES = frozenset(
    {
        "run.started",
        "run.completed",
        "step.started",
        "step.completed",
        "step.call_workflow.started",
        "step.call_workflow.completed",
        "message.user",
        "message.assistant",
        "tool.call",
        "tool.result",
    }
)
FACTS = frozenset(
    {
        "Began",
        "Ended",
        "Moved",
        "Called",
        "Returned",
        "Said",
        "Decided",
        "Asked",
        "Answered",
        "Linked",
        "Spent",
        "Noted",
    }
)
ORIGIN = {"writer": "tracklog_emit", "fidelity": "observed"}


class Sink(Protocol):
    """Where lines go. An emitter calls it from one thread at a time."""

    def write(self, line: bytes, dialect: str, /) -> None:
        """Takes one line with its line end, whole, or raises."""

    def close(self) -> None: ...


class FileSink(GrowingFile):
    """A private file that only grows; see GrowingFile for durability."""

    def write(self, line: bytes, _dialect: str = "", /) -> None:
        self.append(line)


class _Tee:
    """A file, and a collector beside it."""

    def __init__(self, file: FileSink, http: HttpSink) -> None:
        self.file, self.http = file, http

    def write(self, line: bytes, dialect: str, /) -> None:
        self.file.write(line)
        self.http.write(line, dialect)

    def close(self) -> None:
        try:
            self.file.close()
        finally:
            self.http.close()


class _Shared:
    """What all emitters of one sink have in common: the sink, and the last number of each run."""

    lock = threading.RLock()
    """One for the process; re-entrant, for a signal handler that emits."""
    alive: ClassVar["WeakSet[_Shared]"] = WeakSet()

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.last: dict[str, int] = {}
        self.foreign: set[str] = set()
        self.alive.add(self)

    def number(self, run: str, first: int) -> int:
        """The next number of a run, in a process that may count it."""
        if run in self.foreign:
            hint = "bind another run, or say with bind(run=…, after=…) where to go on"
            raise Invalid(Problem("/run", f"{run} is being numbered by the parent process", hint))
        return self.last.get(run, first - 1) + 1

    @classmethod
    def renew(cls) -> None:
        # A child must not wait for a lock that another thread of its parent held.
        cls.lock = threading.RLock()
        for shared in cls.alive:
            shared.foreign |= set(shared.last)


os.register_at_fork(after_in_child=_Shared.renew)


class Emitter:
    """Writes the events of any number of runs to one sink, in any of the four dialects.

    The run, the parent run and the trace come from the environment unless they are bound.
    """

    def __init__(self, sink: Sink, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._shared = _Shared(sink)
        self.run = environ.get(RUN_ENV) or new_id()
        self.parent = environ.get(PARENT_ENV) or None
        self.traceparent = environ.get(TRACE_ENV) or None
        self._bound: dict[str, Any] = {}
        self._prepare()

    @classmethod
    def file(
        cls,
        path: "str | os.PathLike[str]",
        durability: str = "os",
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """An emitter that appends to a file, and reports to a collector if TRACKLOG_URL says so."""
        http = HttpSink.from_environment(environ)
        file = FileSink(path, durability)
        return cls(file if http is None else _Tee(file, http), environ)

    @classmethod
    def http(
        cls, url: str | None = None, *, environ: Mapping[str, str] | None = None, **options: Any
    ) -> Self:
        """An emitter that reports to the collector at `url`, or where TRACKLOG_URL says.

        The options are those of HttpSink: token, spool, deadline.
        """
        sink = (
            HttpSink(url, environ=environ, **options)
            if url
            else HttpSink.from_environment(environ, **options)
        )
        if sink is None:
            raise ValueError(f"events have nowhere to go: give a url, or set {URL_ENV}")
        return cls(sink, environ)

    def bind(
        self,
        *,
        run: str | None = None,
        parent: str | None = None,
        traceparent: str | None = None,
        after: int | None = None,
        **fields: Any,
    ) -> Self:
        """Another emitter to the same sink, with more said beforehand.

        Fields are what the methods take: actor, turn; node; path, iteration; agent, step, origin …
        `after` is the last number of a run that is continued in openwop or awf.
        """
        unknown = set(fields) - BINDABLE
        if unknown:
            raise TypeError(
                f"{min(unknown)} cannot be bound; these can: {', '.join(sorted(BINDABLE))}"
            )
        bound = copy.copy(self)
        bound.run = self.run if run is None else run
        bound.parent = self.parent if parent is None else parent
        bound.traceparent = self.traceparent if traceparent is None else traceparent
        bound._bound = {**self._bound, **fields}
        bound._prepare()
        if after is not None:
            with self._shared.lock:
                self._shared.last[bound.run] = _count(after, "/after")
                self._shared.foreign.discard(bound.run)
        return bound

    def child_env(self, run: str | None = None) -> dict[str, str]:
        """What a child process needs in its environment to name this run as its parent.

        Merge it: `subprocess.run(command, env={**os.environ, **emitter.child_env()})`.
        """
        child = {RUN_ENV: run or new_id(), PARENT_ENV: self.run}
        return {**child, TRACE_ENV: self.traceparent} if self.traceparent else child

    def close(self) -> None:
        """Closes the sink, for every emitter that is bound to it."""
        sink = self._shared.sink
        file, http = (sink.file, sink.http) if isinstance(sink, _Tee) else (sink, None)
        try:
            if isinstance(file, HttpSink):
                http = file
            else:
                with self._shared.lock:
                    file.close()
        finally:
            if http is not None:  # it has its own lock: nobody else waits while it sends
                http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fishbowl(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        turn: int | None = None,
        id: str | None = None,
        at: "str | datetime | None" = None,
    ) -> str:
        """Writes a fishbowl event and returns its id."""
        if id is None:
            known = id = new_id()
        else:
            known = _escaped(id, "/id")
        who = self._actor if actor is None else _name(actor, "/actor")
        turn = self._turn if turn is None else _count(turn, "/turn")
        if who is None:
            hint = "give actor=, or bind it: an agent, the scenario, the visitor or the system"
            raise Invalid(Problem("/actor", "nobody is said to have done this", hint))
        self._write(
            f'{{"id":"{known}","run_id":{self._run},"turn":{turn},"kind":{_kind(kind)},'
            f'"actor":{who},"payload":{_object(payload, "/payload")},"created_at":{_at(at)},'
            '"schema_version":1}\n',
            "fishbowl",
        )
        return id

    def openwop(
        self,
        type: str,
        payload: Any = None,
        *,
        node: str | None = None,
        cause: str | None = None,
        at: "str | datetime | None" = None,
        **extra: Any,
    ) -> str:
        """Writes an openwop event with the run's next sequence and returns its eventId."""
        if len(self.run) > OPENWOP_RUN:
            hint = f"use a run id of at most {OPENWOP_RUN} characters"
            raise Invalid(Problem("/runId", "no eventId can be made from so long a run id", hint))
        where = self._node if node is None else f'"nodeId":{_name(node, "/nodeId")},'
        why = "" if cause is None else f'"causationId":{_name(cause, "/causationId")},'
        if type == "run.started" and self.parent:
            extra = {"parent_run_id": self.parent, **extra}
        run, shared = self._run, self._shared
        tail = (
            f'"timestamp":{_at(at, 3)},"type":{_name(type, "/type")},{where}{why}"payload":'
            f"{_json({} if payload is None else payload, '/payload')},"
            f'"schemaVersion":1,"engineVersion":"1"{_more(extra, OPENWOP_KEYS)}}}\n'
        )
        with shared.lock:
            number = shared.number(self.run, 0)
            head = f'{{"eventId":"evt-{run[1:-1]}-{number}","runId":{run},"sequence":{number},'
            shared.sink.write(_utf8(head + tail), "openwop")
            shared.last[self.run] = number
        return f"evt-{self.run}-{number}"

    def awf(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        path: str | None = None,
        iteration: int | None = None,
        child: str | None = None,
        at: "str | datetime | None" = None,
        **extra: Any,
    ) -> int:
        """Writes an awf event with the run's next seq and returns that; the run is a UUID v4."""
        if type not in AWF_TYPES:
            hint = "one of " + ", ".join(sorted(AWF_TYPES))
            raise Invalid(Problem("/type", f"{type!r} is none of the ten types", hint))
        if not _UUID4.fullmatch(self.run):
            hint = "bind a run id made by new_id()"
            raise Invalid(Problem("/run_id", f"{self.run!r} is no lower-case UUID v4", hint))
        called = "" if child is None else f'"child_run_id":{_name(child, "/child_run_id")},'
        where = self._path if path is None else _text(path, "/path")
        turn = self._iteration if iteration is None else _count(iteration, "/iteration")
        shared = self._shared
        tail = (
            f'"run_id":{self._run},{self._parent}{called}"type":"{type}","path":{where},'
            f'"iteration":{turn},"timestamp":{_at(at)},"payload":'
            f"{'null' if payload is None else _object(payload, '/payload')}{_more(extra, AWF_KEYS)}}}\n"
        )
        if not tail.isascii():
            tail = _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", tail)
        with shared.lock:
            number = shared.number(self.run, 1)
            shared.sink.write(f'{{"seq":{number},{tail}'.encode(), "awf")
            shared.last[self.run] = number
        return number

    def tracklog(
        self,
        fact: str,
        *,
        id: str | None = None,
        at: "str | datetime | None" = None,
        origin: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Writes one fact in the native dialect and returns its id.

        The fields are the fact's own; `from` is written from_. A run that begins under a parent
        run is linked to it.
        """
        if fact not in FACTS:
            hint = "one of " + ", ".join(sorted(FACTS))
            raise Invalid(Problem("/fact", f"{fact!r} is none of the twelve facts", hint))
        if "from_" in fields:
            names = {"from_": "from"}
            fields = {names.get(key, key): value for key, value in fields.items()}
        if id is None:
            known = id = new_id()
        else:
            known = _escaped(id, "/id")
        source = self._origin if origin is None else _object(origin, "/origin")
        about = self._about
        if about and not ABOUT.isdisjoint(fields):
            about, fields = "", {**self._bound_about, **fields}
        if "run" in fields:
            raise Invalid(Problem("/run", "the run is the emitter's", "bind(run=…) another one"))
        said = _object(fields, "")[1:-1]
        self._write(
            f'{{"id":"{known}","run":{self._run},"at":{_at(at)},"fact":"{fact}",'
            f'{about}{said}{"," if said else ""}"origin":{source}}}\n',
            "tracklog",
        )
        if fact == "Began" and self.parent and fields.get("what") == "run":
            self.tracklog("Linked", at=at, origin=origin, kind="sub-run", parent=self.parent)
        return id

    def _prepare(self) -> None:
        """Writes down once what every event of this emitter repeats."""
        get = self._bound.get
        self._run = _name(self.run, "/run")
        if self.parent == self.run:
            self.parent = None
        parent = self.parent
        self._parent = f'"parent_run_id":{_name(parent, "/parent_run_id")},' if parent else ""
        self._actor = None if get("actor") is None else _name(get("actor"), "/actor")
        node = get("node")
        self._node = "" if node is None else f'"nodeId":{_name(node, "/nodeId")},'
        self._turn = _count(get("turn", 0), "/turn")
        self._path = _text(get("path", ""), "/path")
        self._iteration = _count(get("iteration", 0), "/iteration")
        self._origin = _object(get("origin", ORIGIN), "/origin")
        self._bound_about = {key: value for key, value in self._bound.items() if key in ABOUT}
        about = _object(self._bound_about, "")[1:-1]
        self._about = about + "," if about else ""

    def _write(self, text: str, dialect: str) -> None:
        line = _utf8(text)
        with self._shared.lock:
            self._shared.sink.write(line, dialect)


ABOUT = frozenset({"agent", "step", "family", "cause"})
"""What may stand on every native line."""
BINDABLE = ABOUT | {"actor", "turn", "node", "path", "iteration", "origin"}
OPENWOP_RUN = 100
OPENWOP_KEYS = frozenset(
    [
        "eventId",
        "runId",
        "sequence",
        "timestamp",
        "type",
        "nodeId",
        "causationId",
        "payload",
        "schemaVersion",
    ]
) | {"engineVersion"}
AWF_KEYS = frozenset(
    [
        "seq",
        "run_id",
        "parent_run_id",
        "child_run_id",
        "type",
        "path",
        "iteration",
        "timestamp",
        "payload",
    ]
)
_KIND = re.compile(r"[a-z][a-z0-9]*(\.[a-z][a-z0-9]*)+")
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def _encoding() -> Callable[[Any], str]:
    """Compact JSON, non-ASCII raw, NaN refused; with the encoder in C built once, if there is one."""
    plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        inside: Any = json.encoder
        quote, make = inside.encode_basestring, inside.c_make_encoder
        chunks: Any = make(None, plain.default, quote, None, ":", ",", False, False, False)

        def fast(value: Any) -> str:
            return "".join(chunks(value, 0))

        probe = {"é": [1, 0.5, None, True, '"']}
        return fast if fast(probe) == plain.encode(probe) else plain.encode
    except (AttributeError, TypeError):  # another Python has another encoder inside
        return plain.encode


_dumps = _encoding()
_fresh: list[str] = []
# A child must not use the ids that its parent drew.
os.register_at_fork(after_in_child=_fresh.clear)
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def new_id() -> str:
    """A fresh UUID v4."""
    while True:
        try:
            return _fresh.pop()
        except IndexError:  # one call to the system for many
            drawn = os.urandom(16 * 64).hex()
            _fresh.extend(_uuid4(drawn[at : at + 32]) for at in range(0, len(drawn), 32))


def _uuid4(drawn: str) -> str:
    variant = _VARIANT[drawn[16]]
    return f"{drawn[:8]}-{drawn[8:12]}-4{drawn[13:16]}-{variant}{drawn[17:20]}-{drawn[20:]}"


def _at(at: "str | datetime | None", digits: int = 6) -> str:
    """A time as JSON text: now, or as given; a datetime must know its zone."""
    if at is None:
        now = str(time.time_ns())  # ten digits of seconds until the year 2286
        return f'"{_second(now[:10])}.{now[10 : 10 + digits]}Z"'
    if isinstance(at, str):
        return _name(at, "/at")
    if at.tzinfo is None:
        hint = "give it a zone: datetime.now(UTC)"
        raise Invalid(Problem("/at", f"{at} does not say in which zone it is", hint))
    fine = "microseconds" if digits == 6 else "milliseconds"
    return f'"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=fine)}Z"'


@lru_cache(maxsize=4)
def _second(second: str) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(second)))


_quoted = lru_cache(maxsize=1024)(_dumps)


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise Invalid(Problem(at, f"{value!r} is no string", "write a string"))
    return _quoted(value) if len(value) < 128 else _dumps(value)


def _name(value: Any, at: str) -> str:
    if not value:
        raise Invalid(Problem(at, "a name is missing", "write a string that is not empty"))
    return _text(value, at)


def _escaped(value: Any, at: str) -> str:
    return _name(value, at)[1:-1]


@lru_cache(maxsize=1024)
def _kind(kind: str) -> str:
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        hint = "lower-case words joined by dots, like agent.spoke"
        raise Invalid(Problem("/kind", f"{kind!r} is no kind", hint))
    return f'"{kind}"'


def _count(value: Any, at: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Invalid(Problem(at, f"{value!r} does not belong here", "a whole number, 0 or more"))
    return value


def _object(value: Any, at: str) -> str:
    text = _json({} if value is None else value, at)
    if text[0] != "{":
        raise Invalid(Problem(at, f"{value!r:.60} is no JSON object", "write a dict"))
    return text


def _more(extra: Mapping[str, Any], own: frozenset[str]) -> str:
    """Keys that stand behind the envelope's own."""
    if not extra:
        return ""
    if not own.isdisjoint(extra):
        key = min(own.intersection(extra))
        hint = "leave it out, or use the argument that is there for it"
        raise Invalid(Problem(f"/{key}", f"{key} is written by the emitter", hint))
    return "," + _object(extra, "")[1:-1]


def _json(value: Any, at: str) -> str:
    try:
        return _dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        found = [*_unwritable(at, value)] or [Problem(at, str(error), "write what JSON can hold")]
        raise Invalid(*found) from error


_BREAKS = re.compile("[\x85\u2028\u2029\ud800-\udfff]")
"""What awf escapes: where naive splitters cut a line, and lone surrogates."""
