"""Run a command and pass its streams, signals and exit code through.

It gets our standard input. Its output comes to us, through a terminal where ours is one; it is
written unchanged and handed to a listener. A listener that is too slow misses some bytes; the
command does not wait for it.
"""

import contextlib
import errno
import fcntl
import os
import queue
import select
import signal
import stat
import struct
import termios
import threading
import time
import tty
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

BLOCK = 64 << 10
WAITING = 64 << 20
"""Bytes that may wait for the listener; further bytes are missed."""
GRACE = 5.0
"""Seconds between the request to end and the kill."""
LINGER = 2.0
"""Seconds of silence after which output held open by a grandchild is no longer waited for."""
TAIL = 64 << 10

PASSED = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGWINCH,
)  # fmt: skip  # one row
BY_KERNEL = 128
"""The code of a signal that the terminal sent: all processes of the group have it already."""


class CommandEnd(NamedTuple):
    """The end of the command."""

    exit_code: int | None
    """None when a signal ended it."""
    signal: int | None
    timed_out: bool
    stderr: bytes
    """The end of its standard error, where that is no terminal."""


class OutputQueue:
    """The output on its way to the listener: bounded, and never waited for."""

    def __init__(self, most: int = WAITING) -> None:
        self._queue: queue.SimpleQueue[bytes | int | None] = queue.SimpleQueue()
        self._waiting = 0
        self._missed = 0
        self._most = most
        self._mutex = threading.Lock()

    def put(self, chunk: bytes) -> None:
        with self._mutex:
            if self._waiting + len(chunk) > self._most:
                self._missed += len(chunk)
                return
            if self._missed:
                self._queue.put(self._missed)
                self._missed = 0
            self._waiting += len(chunk)
        self._queue.put(chunk)

    def close(self) -> None:
        with self._mutex:
            if self._missed:
                self._queue.put(self._missed)
        self._queue.put(None)

    def get(self, timeout: float | None = None) -> bytes | int | None:
        """The next bytes, a number of bytes that were missed, or None at the end."""
        item = self._queue.get(timeout=timeout)
        if isinstance(item, bytes):
            with self._mutex:
                self._waiting -= len(item)
        return item


class Child:
    """A running command."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], output: OutputQueue
    ) -> None:
        self._queue = output
        self._tail = bytearray()
        self._pumps: list[_Pump] = []
        self._slave: int | None = None
        # Blocked before it starts, so that no signal is lost before we wait for it.
        signals = {*PASSED, signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            actions = self._plumb()
            self.pid = os.posix_spawnp(
                command[0],
                list(command),
                dict(environment),
                file_actions=actions,
                setsigmask=self._mask,
                setsigdef=[signal.SIGPIPE],
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            raise
        finally:
            for end in self._theirs:
                os.close(end)
        for pump in self._pumps:
            pump.start()

    def wait(self, timeout: float | None = None) -> CommandEnd:
        """Wait for its end; signals are passed on in the meantime."""
        began = time.monotonic()
        deadline = None if timeout is None else began + timeout
        timed_out = False
        status = None
        while status is None:
            pause = 0.5 if deadline is None else max(0.0, min(0.5, deadline - time.monotonic()))
            number, by_terminal = _next_signal({*PASSED, signal.SIGCHLD}, pause)
            if number in PASSED:
                self._pass_on(number, by_terminal=by_terminal)
            if deadline is not None and time.monotonic() >= deadline:
                os.kill(self.pid, signal.SIGKILL if timed_out else signal.SIGTERM)
                timed_out, deadline = True, time.monotonic() + GRACE
            pid, wait_status = os.waitpid(self.pid, os.WNOHANG)
            status = wait_status if pid else None
        for pump in self._pumps:
            pump.finish()
        self._queue.close()
        code = os.waitstatus_to_exitcode(status)
        killer = -code if code < 0 else None
        return CommandEnd(None if code < 0 else code, killer, timed_out, bytes(self._tail))

    def release(self) -> None:
        """Restore the signal handling."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _plumb(self) -> list[tuple[int, ...]]:
        """The ends of its streams, and the function that sets them up in the child."""
        self._theirs: list[int] = []
        actions: list[tuple[int, ...]] = []
        ours, theirs = self._output()
        self._theirs.append(theirs)
        actions.append((os.POSIX_SPAWN_DUP2, theirs, 1))
        self._pumps.append(_Pump(ours, 1, self._queue.put))
        if _same_file(1, 2):
            actions.append((os.POSIX_SPAWN_DUP2, theirs, 2))  # their order is kept
        elif not os.isatty(2):
            ours, theirs = os.pipe()
            self._theirs.append(theirs)
            actions.append((os.POSIX_SPAWN_DUP2, theirs, 2))
            self._pumps.append(_Pump(ours, 2, self._remember))
        return actions

    def _output(self) -> tuple[int, int]:
        if not os.isatty(1):
            return os.pipe()
        master, slave = os.openpty()
        for end in (master, slave):
            os.set_inheritable(end, False)
        tty.setraw(slave)  # the real terminal processes the bytes
        self._slave = os.dup(slave)
        self._fit()
        return master, slave

    def _fit(self) -> None:
        """Give its terminal the size of ours."""
        if self._slave is not None:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(1, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
                fcntl.ioctl(self._slave, termios.TIOCSWINSZ, size)

    def _pass_on(self, number: int, *, by_terminal: bool) -> None:
        if number == signal.SIGWINCH:
            self._fit()
        elif by_terminal:
            return  # all processes of the group have it already
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _remember(self, chunk: bytes) -> None:
        self._tail += chunk
        del self._tail[:-TAIL]


def _next_signal(signals: set[signal.Signals], pause: float) -> tuple[int, bool]:
    """The next blocked signal, and whether the terminal sent it; 0 after a pause."""
    if hasattr(signal, "sigtimedwait"):
        info = signal.sigtimedwait(signals, pause)
        return (info.si_signo, info.si_code == BY_KERNEL) if info else (0, False)
    until = time.monotonic() + pause  # macOS does not report the sender
    while not (pending := signal.sigpending() & signals):
        if time.monotonic() >= until:
            return 0, False
        time.sleep(0.01)
    number = signal.sigwait(pending)
    return number, number in (signal.SIGINT, signal.SIGQUIT) and os.isatty(0)


def _same_file(one: int, other: int) -> bool:
    if os.isatty(one) or os.isatty(other):
        return False
    first, second = os.fstat(one), os.fstat(other)
    same = (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
    return same and not stat.S_ISCHR(first.st_mode)


class _Pump(threading.Thread):
    """Copies bytes from one end to another, and hands them to the listener."""

    def __init__(self, source: int, target: int, deliver: Callable[[bytes], None]) -> None:
        super().__init__(name=f"tracklog-pump-{target}", daemon=True)
        self.source, self.target, self.deliver = source, target, deliver
        self.over = threading.Event()
        """The command has ended: silence then ends its output."""

    def run(self) -> None:
        open_ = True
        while open_ and self._ready():
            try:
                chunk = os.read(self.source, BLOCK)
            except OSError as error:
                if error.errno != errno.EIO:  # a terminal whose other end is closed
                    raise
                break
            if not chunk:
                break
            open_ = self._write(chunk)
            self.deliver(chunk)
        os.close(self.source)  # a process that still writes there gets an error

    def finish(self) -> None:
        """Wait for the end of the output."""
        self.over.set()
        self.join()

    def _ready(self) -> bool:
        """Whether there is something to read; after the command's end with a limit."""
        while True:
            over = self.over.is_set()
            pause = LINGER if over else 0.25
            if select.select([self.source], [], [], pause)[0]:
                return True
            if over:
                return False

    def _write(self, chunk: bytes) -> bool:
        view = memoryview(chunk)
        while view:
            try:
                view = view[os.write(self.target, view) :]
            except BlockingIOError:
                select.select([], [self.target], [])
            except OSError:
                return False  # our reader is gone: then the command has no reader either
        return True
