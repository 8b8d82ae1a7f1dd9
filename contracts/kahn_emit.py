# tracklog 0.1.0, emitter python-ci; `tracklog emitter python-ci` prints it.
# Generated from contracts/source/emit_kahn.py: edit that and run `make derive`.
"""Writes kahn CI transitions: one file, standard library only, made to be copied into a producer.

    from kahn_emit import Emitter, done_when_result, outcome_of

    with Emitter("transitions.jsonl", run_id="ci-42") as run:
        run.run_start(total_nodes=1)
        run.node_transition(node_id="lint", from_="pending", to="ready")
        run.node_transition(node_id="lint", from_="ready", to="running", attempt=1)
        checks = [done_when_result(cmd="ruff check", rc=0, duration_s=0.8)]
        run.node_attempt(
            node_id="lint", attempt=1, duration_s=0.9, converged=True, done_when_results=checks
        )
        run.node_transition(node_id="lint", from_="running", to="done")
        outcome = outcome_of(done=1, failed=0, blocked=0)
        run.run_end(outcome=outcome, done=1, failed=0, blocked=0, total_duration_s=1.2)

Keys that the contract does not declare are written behind the declared ones, unchanged.
Agents have a sibling file, kahn_agent_emit.py; a producer takes the one that it needs.
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
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakSet

__all__ = [
    "Emitter",
    "HttpSink",
    "Invalid",
    "Outcome",
    "Problem",
    "ShortWrite",
    "Status",
    "backoff_s",
    "done_when_result",
    "flakes",
    "line_of",
    "node_attempt",
    "node_transition",
    "now_ts",
    "outcome_of",
    "problems",
    "run_end",
    "run_start",
    "severity_outcome",
    "shape",
    "worst",
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


def now_ts() -> str:
    """The time now, as the contract writes it: UTC, milliseconds, Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Field(NamedTuple):
    """What the contract says of one key."""

    wanted: str
    fits: Callable[[Any], bool]
    number: type | None = None
    """int or float: how its digits are written, whatever number was given."""
    free: bool = False
    """Whether it is text of the producer's own, which a redactor may change."""
    required: bool = True
    items: "Mapping[str, Field] | None" = None
    """The keys of each object in it, where it is a list of objects."""


def _is_ts(value: Any) -> bool:
    if not isinstance(value, str) or not _TS.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value[:-1])
    except ValueError:
        return False
    return True


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _matches(pattern: str, wanted: str) -> Field:
    # K4: the whole string, so that "coder\n" is refused.
    match = re.compile(pattern).fullmatch
    return Field(wanted, lambda value: isinstance(value, str) and match(value) is not None)


def _one_of(values: Iterable[str]) -> Field:
    known = [str(value) for value in values]
    return Field("one of " + ", ".join(known), lambda v: isinstance(v, str) and v in known)


def _whole(least: int | None = None) -> Field:
    def fits(value: Any) -> bool:
        return _is_number(value) and value == int(value) and (least is None or value >= least)

    return Field("a whole number" + ("" if least is None else f", {least} or more"), fits, int)


def _optional(field: Field) -> Field:
    return field._replace(required=False)


_TS = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
TS = Field("UTC with milliseconds and Z, like 2026-05-05T09:00:00.000Z", _is_ts)
RUN_ID = _matches(
    r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}", "1 to 64 of A-Z a-z 0-9 _ -, first a letter or a digit"
)
TEXT = Field("a string", lambda value: isinstance(value, str), free=True)
BOOL = Field("true or false", lambda value: isinstance(value, bool))
COUNT = _whole(0)
SECONDS = Field("a number of seconds, 0 or more", lambda v: _is_number(v) and v >= 0, float)
BASE = {"ts": TS, "run_id": RUN_ID, "event": TEXT._replace(free=False)}


def problems(event: Mapping[str, Any]) -> list[Problem]:
    """Every fault of an event: its shape, and what JSON has no word for."""
    kind = event.get("event")
    known = isinstance(kind, str) and kind in EVENTS
    wrong = () if known else (_refused("/event", kind, "one of " + ", ".join(EVENTS)),)
    fields = EVENTS[str(kind)] if known else BASE
    found = [*wrong, *_faults("", event, fields), *_unwritable("", event)]
    return list({problem.pointer: problem for problem in reversed(found)}.values())[::-1]


def _faults(at: str, body: Mapping[str, Any], fields: Mapping[str, Field]) -> Iterator[Problem]:
    for key, field in fields.items():
        here = f"{at}/{key}"
        if key not in body:
            if field.required:
                yield Problem(here, f"{key} is missing", f"add it: {field.wanted}")
        elif not field.fits(body[key]):
            yield _refused(here, body[key], field.wanted)
        elif field.items:
            for number, item in enumerate(body[key]):
                yield from _faults(f"{here}/{number}", item, field.items)


def _refused(at: str, value: Any, wanted: str) -> Problem:
    if value is None:  # KAHN-40
        return Problem(at, "null stands here", f"leave the key out, or write {wanted}")
    try:
        shown = repr(value)
    except ValueError:  # an integer of thousands of digits
        shown = "so long a number"
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return Problem(at, f"{shown} does not belong here", f"write {wanted}")


def _event(
    event: str, ts: str | None, run_id: str, given: dict[str, Any], extra: dict[str, Any]
) -> dict[str, Any]:
    fields = EVENTS[event]
    said = {key: value for key, value in given.items() if fields[key].required or value is not None}
    at = now_ts() if ts is None else ts
    return shape({"ts": at, "run_id": run_id, "event": event, **said, **extra})


def shape(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event as it is written (K17): keys in declared order, unknown keys as given, cropped."""
    fields = EVENTS.get(str(event.get("event")), {})
    return _settle(_ordered(event, fields))


def _ordered(body: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    ordered = {key: body[key] for key in fields if key in body}
    ordered.update(body)
    for key, field in fields.items():
        value = ordered.get(key)
        if field.number is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                ordered[key] = float(value)
            except OverflowError:
                raise Invalid(_refused(f"/{key}", value, field.wanted)) from None
        elif field.number is int and isinstance(value, float) and value.is_integer():
            ordered[key] = int(value)
    return ordered


def line_of(event: Mapping[str, Any]) -> bytes:
    """The canonical line of a shaped event (K17), with its line end."""
    try:
        text = _text(event, EVENTS.get(str(event.get("event")), {}))
    except (TypeError, ValueError, RecursionError) as error:
        found = [*_unwritable("", event)] or [Problem("", str(error), "write what JSON can hold")]
        raise Invalid(*found) from error
    return _utf8(text + "\n")


def _text(body: Mapping[str, Any], fields: Mapping[str, Field]) -> str:
    parts = []
    for key, value in body.items():
        field = fields.get(key)
        if field is None:
            text = _json(value)
        elif field.number is float and isinstance(value, float):
            text = _decimal(value)
        elif field.items and field.fits(value):
            text = f"[{','.join(_text(item, field.items) for item in value)}]"
        else:
            text = _json(value)
        parts.append(f"{_json(key)}:{text}")
    return "{" + ",".join(parts) + "}"


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _decimal(value: float) -> str:
    """The shortest digits that read back the same, always with a decimal point: 1.0e-07."""
    if not math.isfinite(value):
        raise ValueError(value)
    text = float.__repr__(value)
    return text if "." in text else text.replace("e", ".0e")


class Appender(GrowingFile):
    """The file of a run, which many threads may write."""

    mode = 0o666
    _lock = threading.RLock()
    """One for the process; re-entrant, for a signal handler that emits."""

    def append(self, line: bytes) -> None:
        with Appender._lock:
            super().append(line)

    def _detach(self) -> int | None:
        with Appender._lock:
            return super()._detach()

    @classmethod
    def _renew(cls) -> None:
        cls._lock = threading.RLock()


# A child must not wait for a lock that another thread of its parent held.
os.register_at_fork(after_in_child=Appender._renew)


def _run_id(value: str) -> str:
    if not RUN_ID.fits(value):
        raise Invalid(_refused("/run_id", value, RUN_ID.wanted))
    return value


class Run:
    """Writes the events of one run to a file, to a collector, or to both.

    The collector is at `url`, or where TRACKLOG_URL says; see HttpSink for token, spool and
    deadline. run_id and parent_run_id come from the environment unless given; a run that has neither gets a
    fresh id. `validate` checks each event; `redact` is called with each free text before it is
    cropped, and what it returns is written; durability is "os" (the file is synced when it is
    closed) or "sync" (after each line). Whatever cannot be written to the file raises; a collector
    that is away does not.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str] | None" = None,
        run_id: str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        spool: "str | os.PathLike[str] | None" = None,
        deadline: float = 2.0,
        dialect: str | None = None,
        parent_run_id: str | None = None,
        traceparent: str | None = None,
        validate: bool = False,
        redact: Callable[[str], str] | None = None,
        durability: str = "os",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self.run_id = _run_id(run_id or environ.get(RUN_ENV) or str(uuid.uuid4()))
        parent = parent_run_id or environ.get(PARENT_ENV)
        self.parent_run_id = parent if parent != self.run_id else None
        self.traceparent = traceparent or environ.get(TRACE_ENV)
        self._validate, self._redact = validate, redact
        self._fields: dict[str, Any] = {}
        self._dialect = dialect or DIALECT
        more: dict[str, Any] = {"token": token, "spool": spool, "deadline": deadline}
        self._http = (
            HttpSink(url, environ=environ, **more)
            if url
            else HttpSink.from_environment(environ, **more)
        )
        if path is None and self._http is None:
            raise ValueError(f"events have nowhere to go: give a path or a url, or set {URL_ENV}")
        self._file = None if path is None else Appender(path, durability)

    def bind(self, **fields: Any) -> Self:
        """Another emitter to the same place, whose every event carries these fields too."""
        bound = copy.copy(self)
        bound.run_id = _run_id(fields.pop("run_id", self.run_id))
        bound._fields = {**self._fields, **fields}
        return bound

    def emit(self, event: Mapping[str, Any]) -> bytes:
        """Writes an event given as a dict and returns its line; ts and run_id may be left out."""
        body = {"ts": now_ts(), "run_id": self.run_id, **self._fields, **event}
        return self._append(shape(self._redacted(body, body.get("event"))))

    def child_env(self, run_id: str | None = None) -> dict[str, str]:
        """What a child process needs in its environment to name this run as its parent.

        Merge it: `subprocess.run(command, env={**os.environ, **run.child_env()})`.
        """
        child = {RUN_ENV: run_id or str(uuid.uuid4()), PARENT_ENV: self.run_id}
        return {**child, TRACE_ENV: self.traceparent} if self.traceparent else child

    def close(self) -> None:
        """Syncs and closes the file, and sends what it can, for every emitter that is bound to it."""
        try:
            if self._file is not None:
                self._file.close()
        finally:
            if self._http is not None:
                self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _build(self, build: Callable[..., dict[str, Any]], fields: Mapping[str, Any]) -> bytes:
        given = {"run_id": self.run_id, **self._fields, **fields}
        return self._append(build(**self._redacted(given, build.__name__)))

    def _append(self, event: dict[str, Any]) -> bytes:
        if self.parent_run_id and event.get("event") in STARTS:  # K33
            event.setdefault("parent_run_id", self.parent_run_id)
        if self._validate and (found := problems(event)):
            raise Invalid(*found)
        line = line_of(event)
        if self._file is not None:
            self._file.append(line)
        if self._http is not None:
            self._http.write(line, self._dialect)
        return line

    def _redacted(self, body: dict[str, Any], event: Any) -> dict[str, Any]:
        if self._redact is None:
            return body
        fields = EVENTS.get(str(event), BASE)
        fixed = {key for key, field in fields.items() if not field.free} | {"from_"}
        return {key: value if key in fixed else self._clean(value) for key, value in body.items()}

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str) and self._redact is not None:
            return self._redact(value)
        if isinstance(value, dict):
            return {key: self._clean(inner) for key, inner in value.items()}
        return [self._clean(inner) for inner in value] if isinstance(value, list) else value


class Status(StrEnum):
    """Where a node stands."""

    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"


class Outcome(StrEnum):
    """How a run ended, from best to worst."""

    CLEAN = "clean"
    CLEAN_WITH_FLAKE = "clean_with_flake"
    PARTIAL = "partial"
    STUCK = "stuck"
    CATASTROPHIC = "catastrophic"


TAIL = 4096
NODE_ID = _matches(r"[a-z0-9][a-z0-9-]{0,63}", "1 to 64 of a-z 0-9 -, first a letter or a digit")
ATTEMPT = _whole(1)
STATUS = _one_of(Status)
RESULT = {
    "cmd": TEXT,
    "rc": _whole(),
    "duration_s": SECONDS,
    "tail": _optional(
        Field(f"at most {TAIL} characters", lambda v: isinstance(v, str) and len(v) <= TAIL)
    ),
    "truncated": _optional(BOOL),
}
RESULTS = Field(
    "a list of results, see done_when_result",
    lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value),
    free=True,
    items=RESULT,
)
EVENTS: dict[str, dict[str, Field]] = {
    "run_start": {**BASE, "total_nodes": COUNT},
    "node_transition": {
        **BASE,
        "node_id": NODE_ID,
        "from": STATUS,
        "to": STATUS,
        "attempt": _optional(ATTEMPT),
        "reason": _optional(TEXT),
    },
    "node_attempt": {
        **BASE,
        "node_id": NODE_ID,
        "attempt": ATTEMPT,
        "duration_s": SECONDS,
        "converged": BOOL,
        "done_when_results": RESULTS,
        "backoff_s": _optional(SECONDS),
    },
    "run_end": {
        **BASE,
        "outcome": _one_of(Outcome),
        "done": COUNT,
        "failed": COUNT,
        "blocked": COUNT,
        "total_duration_s": SECONDS,
        "total_attempts": _optional(COUNT),
        "flake_retries": _optional(COUNT),
        "exit_code": _optional(_whole()),
    },
}
"""The contract: for each event its keys in the order in which they are written."""
STARTS = ("run_start",)
DIALECT = "kahn-ci"


def run_start(
    *, run_id: str, total_nodes: int, ts: str | None = None, **extra: Any
) -> dict[str, Any]:
    """The first event of a run."""
    return _event("run_start", ts, run_id, {"total_nodes": total_nodes}, extra)


def node_transition(
    *,
    run_id: str,
    node_id: str,
    from_: str,
    to: str,
    attempt: int | None = None,
    reason: str | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """A node changed its status; `attempt` goes with `to="running"`, and only with it."""
    given = {"node_id": node_id, "from": from_, "to": to, "attempt": attempt, "reason": reason}
    return _event("node_transition", ts, run_id, given, extra)


def node_attempt(
    *,
    run_id: str,
    node_id: str,
    attempt: int,
    duration_s: float,
    converged: bool,
    done_when_results: list[dict[str, Any]],
    backoff_s: float | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """A node was tried; the results come from `done_when_result`."""
    given = {
        "node_id": node_id,
        "attempt": attempt,
        "duration_s": duration_s,
        "converged": converged,
        "done_when_results": done_when_results,
        "backoff_s": backoff_s,
    }
    return _event("node_attempt", ts, run_id, given, extra)


def done_when_result(
    *, cmd: str, rc: int, duration_s: float, tail: str | None = None, **extra: Any
) -> dict[str, Any]:
    """How one check of a node went; give stderr + stdout as `tail`.

    When it is written, the end of the tail is kept, and nothing of it when the check passed.
    """
    result = {"cmd": cmd, "rc": rc, "duration_s": duration_s, **extra}
    return result if tail is None else {**result, "tail": tail}


def run_end(
    *,
    run_id: str,
    outcome: str,
    done: int,
    failed: int,
    blocked: int,
    total_duration_s: float,
    total_attempts: int | None = None,
    flake_retries: int | None = None,
    exit_code: int | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """The last event of a run; `exit_code` is 1 on a bad outcome unless given, and never 0."""
    given = {
        "outcome": outcome,
        "done": done,
        "failed": failed,
        "blocked": blocked,
        "total_duration_s": total_duration_s,
        "total_attempts": total_attempts,
        "flake_retries": flake_retries,
        "exit_code": exit_code,
    }
    return _event("run_end", ts, run_id, given, extra)


def _settle(event: dict[str, Any]) -> dict[str, Any]:
    """What binds every writer, beyond the schema."""
    match event.get("event"):
        case "node_transition":
            _settle_transition(event)
        case "node_attempt":
            _settle_attempt(event)
        case "run_end":
            _settle_exit_code(event)
    return event


def _settle_transition(event: dict[str, Any]) -> None:
    running = event.get("to") == Status.RUNNING
    if running and "attempt" not in event:
        hint = "add the number of the attempt, from 1"
        raise Invalid(Problem("/attempt", "attempt is missing on the way to running", hint))
    if not running and "attempt" in event:
        message = f"attempt goes with running, not with {event.get('to')}"
        raise Invalid(Problem("/attempt", message, "leave it out"))


def _settle_attempt(event: dict[str, Any]) -> None:
    results = event.get("done_when_results")
    if isinstance(results, list):
        event["done_when_results"] = [
            _settle_result(item) if isinstance(item, dict) else item for item in results
        ]
    if event.get("attempt") == 1 and "backoff_s" in event:
        if event["backoff_s"]:
            message = "there is no backoff before the first attempt"
            raise Invalid(Problem("/backoff_s", message, "leave it out on attempt 1"))
        del event["backoff_s"]


def _settle_result(given: Mapping[str, Any]) -> dict[str, Any]:
    result = _ordered(given, RESULT)
    tail = result.get("tail")
    if result.get("rc") == 0:
        result = {key: value for key, value in result.items() if key not in ("tail", "truncated")}
    elif isinstance(tail, str) and len(tail) * 4 > TAIL:
        encoded = _utf8(tail)
        if len(encoded) > TAIL:  # K13: its end, in bytes, from a whole code point on
            result |= {"tail": encoded[-TAIL:].decode(errors="ignore"), "truncated": True}
    return _ordered(result, RESULT)


def _settle_exit_code(event: dict[str, Any]) -> None:
    """K14: never 0; none on a clean outcome; 1 on any other unless another was given."""
    outcome, given = event.get("outcome"), event.get("exit_code")
    if outcome in (Outcome.CLEAN, Outcome.CLEAN_WITH_FLAKE):
        if given:
            message = f"exit code {given} does not go with the outcome {outcome}"
            raise Invalid(Problem("/exit_code", message, "leave it out, or give another outcome"))
        event.pop("exit_code", None)
    elif "exit_code" in event and given == 0:
        message = f"exit code 0 does not go with the outcome {outcome}"
        raise Invalid(Problem("/exit_code", message, "leave it out: 1 is written"))
    elif outcome in list(Outcome) and "exit_code" not in event:
        ordered = _ordered({**event, "exit_code": 1}, EVENTS["run_end"])
        event.clear()
        event.update(ordered)


class Emitter(Run):
    """Writes the CI transitions of one run; each method takes what its builder takes."""

    def run_start(self, **fields: Any) -> bytes:
        return self._build(run_start, fields)

    def node_transition(self, **fields: Any) -> bytes:
        return self._build(node_transition, fields)

    def node_attempt(self, **fields: Any) -> bytes:
        return self._build(node_attempt, fields)

    def run_end(self, **fields: Any) -> bytes:
        return self._build(run_end, fields)


def outcome_of(*, done: int, failed: int, blocked: int, flake_retries: int = 0) -> Outcome:
    """The outcome of a run, from how its nodes ended."""
    if not failed and not blocked:
        return Outcome.CLEAN_WITH_FLAKE if flake_retries else Outcome.CLEAN
    if not done:
        return Outcome.CATASTROPHIC
    return Outcome.STUCK if failed and blocked else Outcome.PARTIAL


def backoff_s(attempt: int) -> float:
    """The seconds to wait before an attempt: none before the first, then 2, 4, 8 … 60."""
    return float(min(2 ** (attempt - 1), 60)) if attempt > 1 else 0.0


SEVERITIES = dict(zip(("none", "minor", "moderate", "major", "critical"), Outcome, strict=True))


def severity_outcome(severity: str) -> Outcome:
    """The outcome that a deviation of this severity means (K26); an unknown one is an error."""
    if severity not in SEVERITIES:
        hint = "one of " + ", ".join(SEVERITIES)
        message = f"{severity!r} is no severity"
        raise Invalid(Problem("/deviation/severity", message, hint))
    return SEVERITIES[severity]


def worst(outcomes: Iterable[str]) -> Outcome:
    """The worst of the outcomes of a run's nodes; clean when there is none (K26)."""
    order = list(Outcome)
    return max((Outcome(outcome) for outcome in outcomes), key=order.index, default=order[0])


def flakes(attempts: Iterable[tuple[str, bool]]) -> int:
    """How many phases of one prompt failed and later succeeded (K25), from (phase, succeeded)."""
    failed: set[str] = set()
    healed: set[str] = set()
    for phase, succeeded in attempts:
        if not succeeded:
            failed.add(phase)
        elif phase in failed:
            healed.add(phase)
    return len(healed)
