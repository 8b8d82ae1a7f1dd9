"""Child processes: each in its own session, read while it prints, ended with its descendants."""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tracklog.hosts import _programs

BLOCK = 64 << 10
TAIL = 64 << 10
GRACE = 3.0
"""Seconds between the request to end and the kill."""
LINGER = 1.0
"""Seconds to wait, after the process has ended, for output that its own children still write."""
PARENT = "TRACKLOG_PARENT_RUN_ID"
"""The environment variable with the run that started a process."""
HOST = "TRACKLOG_HOST_ID"
"""The environment variable with the host that started a process; a continued run has had several."""
OURS = (PARENT, HOST, "TRACKLOG_RUN_ID")
_STARTED = os.urandom(8).hex()


def here() -> str:
    """The id of this process as a host; a fork has another one."""
    return f"{_STARTED}-{os.getpid()}"


class ProcessEnd(NamedTuple):
    """How a process ended."""

    exit_code: int
    """128 plus the number of the signal, if a signal ended it."""
    signal: int | None
    timed_out: bool
    stderr: bytes
    """The end of its error output."""


async def run(
    command: Sequence[str],
    *,
    run_id: str,
    feed: Callable[[bytes], None],
    environment: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None = None,
    seconds: float | None = None,
) -> ProcessEnd:
    """Run a program until it ends, its time is over, or it is cancelled.

    Raises OSError if it cannot be started.
    """
    theirs = {key: value for key, value in environment.items() if key not in OURS}
    try:
        process = await _programs.start(
            command,
            {**theirs, PARENT: run_id, HOST: here()},
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        )
    except ValueError as error:  # a NUL byte or half a character in an argument
        raise OSError(errno.EINVAL, str(error)) from None
    _send_to_guards("+", process.pid)
    try:
        return await _piped(process, feed, stdin, seconds)
    finally:
        _send_to_guards("-", process.pid)


async def _piped(
    process: asyncio.subprocess.Process,
    feed: Callable[[bytes], None],
    stdin: bytes | None,
    seconds: float | None,
) -> ProcessEnd:
    stderr = bytearray()

    def add_stderr(chunk: bytes) -> None:
        stderr.extend(chunk)
        del stderr[:-TAIL]

    assert process.stdout is not None
    assert process.stderr is not None
    pumps = [
        asyncio.create_task(_pump(process.stdout, feed)),
        asyncio.create_task(_pump(process.stderr, add_stderr)),
    ]
    if stdin is not None:
        pumps.append(asyncio.create_task(_write_stdin(process, stdin)))
    timed_out = False
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        timed_out = True
        await _end(process)
    except asyncio.CancelledError:
        await asyncio.shield(_end(process))  # a second cancellation leaves the kill to the loop
        await _finish(pumps)
        raise
    await _finish(pumps)
    code = process.returncode or 0
    number = -code if code < 0 else None
    return ProcessEnd(128 + number if number else code, number, timed_out, bytes(stderr))


async def _pump(source: asyncio.StreamReader, feed: Callable[[bytes], None]) -> None:
    while chunk := await source.read(BLOCK):
        feed(chunk)


async def _write_stdin(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read it
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _finish(pumps: Sequence["asyncio.Task[None]"]) -> None:
    done, late = await asyncio.wait(pumps, timeout=LINGER)
    for pump in late:
        pump.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    for pump in done:
        pump.result()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End all processes of the session: first with SIGTERM, then with SIGKILL."""
    _signal(process.pid, signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), GRACE)
    except TimeoutError:
        pass
    _signal(process.pid, signal.SIGKILL)  # also its children that still run
    await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all have ended
        os.killpg(group, number)


def leftovers(run_id: str) -> list[int]:
    """The processes of a run and their children, found by their environment (Linux)."""
    mark = f"{PARENT}={run_id}".encode()
    pids: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                pids.append(int(folder.name))
        except OSError:
            continue  # it has ended, or belongs to another user
    return pids


def end_leftovers(run_id: str) -> int:
    """End the processes that a killed host left running for a run, so that nothing is done twice."""
    pids = leftovers(run_id)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


GUARD = """\
groups=" "
while read -r what name; do
  case $what in
    +) groups="$groups$name " ;;
    -) groups="${groups%% $name *} ${groups#* $name }" ;;
    q) exit ;;
  esac
done
end_marked() {
  for each in /proc/[0-9]*/environ; do
    if grep -qz "^HOST=HERE\\$" "$each"; then
      each=${each#/proc/}; kill -s KILL "${each%/environ}"
    fi
  done
}
for group in $groups; do kill -s KILL -- "-$group"; done
end_marked; sleep 1; end_marked
""".replace("HOST", HOST)
"""A shell that runs as long as we do. When we end, it ends the sessions that we had started, and the
processes whose start we could not report to it any more."""


class _GuardProcess:
    def __init__(self) -> None:
        self._shell = subprocess.Popen(  # noqa: S603  # a text of ours
            ["sh", "-c", GUARD.replace("HERE", here())],  # noqa: S607  # the system's own
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not for it
        )

    def send(self, what: str, name: int | str = "") -> None:
        assert self._shell.stdin is not None
        with contextlib.suppress(OSError):  # without the shell, everything else still works
            os.write(self._shell.stdin.fileno(), f"{what} {name}\n".encode())

    def close(self) -> None:
        assert self._shell.stdin is not None
        self.send("q")
        self._shell.stdin.close()
        self._shell.wait()


_guards: list[_GuardProcess] = []


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """While the block runs, started processes are ended even if this process is killed."""
    guard = _GuardProcess()
    _guards.append(guard)
    try:
        yield
    finally:
        _guards.remove(guard)
        guard.close()


def _send_to_guards(what: str, name: int | str) -> None:
    for guard in _guards:
        guard.send(what, name)
