"""A full-screen terminal: reads keys, draws lines, and restores the terminal in every case."""

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import click

from tracklog.cli import _terminal as terminal

ESCAPE = 0.05
"""Seconds in which bytes after an escape belong to it: over ssh a key may come in pieces."""
KEYS = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[5~": "page up", b"\x1b[6~": "page down", b"\x1b[H": "home", b"\x1b[1~": "home",
    b"\x1bOH": "home", b"\x1b[F": "end", b"\x1b[4~": "end", b"\x1bOF": "end",
    b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\x08": "backspace", b"\t": "tab",
    b"\x1b": "escape", b"\x0c": "redraw", b"\x15": "clear",
}  # fmt: skip  # a table
ENTER = b"\x1b[?1049h\x1b[?25l\x1b[2J"  # the alternate screen, without a cursor, cleared
LEAVE = b"\x1b[0m\x1b[?25h\x1b[?1049l"


_Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


class Screen:
    """The terminal while it is entered; a signal that ends the program restores it, too."""

    def __init__(self) -> None:
        self.input, self.output = sys.stdin.fileno(), sys.stdout.fileno()
        self._colours = terminal.colour() is not False
        self._shown: list[str] = []
        self._left = b""
        self._before: dict[int, _Handler] = {}
        self._modes: list[Any] = []
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)

    @property
    def size(self) -> tuple[int, int]:
        """The current number of columns and rows."""
        try:
            columns, rows = os.get_terminal_size(self.output)
        except OSError:
            columns, rows = 0, 0
        # a terminal that does not know its size gets the usual one
        return columns or 80, rows or 24

    @contextlib.contextmanager
    def entered(self) -> Iterator["Screen"]:
        """Take over the terminal, and restore it afterwards."""
        sys.stdout.flush()
        self._modes = termios.tcgetattr(self.input)
        wakes = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        handlers: dict[int, Callable[[int, FrameType | None], Any]] = {
            signal.SIGTERM: _ended,
            signal.SIGHUP: _ended,
            signal.SIGWINCH: self._resized,
            signal.SIGTSTP: self._stopped,
        }
        try:
            self._before = {number: signal.signal(number, do) for number, do in handlers.items()}
            self._enter()
            yield self
        finally:
            self._leave()
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakes)

    def wake(self) -> None:
        """End the wait for a key; may be called from any thread."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake, b"\0")

    def keys(self, seconds: float) -> list[str]:
        """The keys that were pressed, as soon as there are some, on `wake`, or on a timeout."""
        ready, _, _ = select.select([self.input, self._woken], [], [], seconds)
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._woken, 4096):
                    pass
        if self.input not in ready:
            return []
        typed = os.read(self.input, 4096)
        if not typed:
            raise click.exceptions.Exit(0)  # the terminal is gone
        while typed.endswith(b"\x1b") or typed[-3:] in (b"\x1b[", b"\x1bO"):
            if not select.select([self.input], [], [], ESCAPE)[0]:
                break
            typed += os.read(self.input, 4096)
        keys, self._left = keys_of(self._left + typed)
        return keys

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines; only the changed ones are sent."""
        rows = self.size[1]
        wanted = [*lines[:rows], *[""] * (rows - len(lines))]
        out = []
        for n, line in enumerate(wanted):
            if n >= len(self._shown) or self._shown[n] != line:
                text = line if self._colours else click.unstyle(line)
                out.append(f"\x1b[{n + 1};1H\x1b[0m{text}\x1b[0m\x1b[K")
        if out:
            self._send("".join(out).encode(errors="replace"))
        self._shown = wanted

    def redraw(self) -> None:
        """Send every line at the next drawing."""
        self._shown = []

    def _enter(self) -> None:
        tty.setcbreak(self.input)  # Ctrl-C still interrupts
        self._send(ENTER)
        self.redraw()

    def _leave(self) -> None:
        with contextlib.suppress(OSError):  # nobody can see it
            self._send(LEAVE)
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(self.input, termios.TCSAFLUSH, self._modes)

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.output, data) :]

    def _resized(self, *_: object) -> None:
        self.redraw()

    def _stopped(self, *_: object) -> None:
        """Ctrl-Z: give the terminal to the shell, and take it over again afterwards."""
        self._leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stopped)
        self._enter()


def _ended(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def keys_of(typed: bytes) -> tuple[list[str], bytes]:
    """The keys in some bytes, and the rest that is not complete yet."""
    keys: list[str] = []
    while typed:
        size = _size(typed)
        if size > len(typed):
            return keys, typed
        part, typed = typed[:size], typed[size:]
        key = KEYS.get(part)
        if key is None and part[:1] != b"\x1b":
            key = part.decode(errors="replace")
            key = key if key.isprintable() else None
        if key is not None:
            keys.append(key)
    return keys, b""


def _size(typed: bytes) -> int:
    """The number of bytes of the first key."""
    first = typed[0]
    if first != 0x1B:
        return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if typed[1:2] == b"O":
        return min(3, len(typed))
    if typed[1:2] != b"[":
        return 1
    for n, byte in enumerate(typed[2:], 3):
        if 0x40 <= byte <= 0x7E:
            return n
    return len(typed)
