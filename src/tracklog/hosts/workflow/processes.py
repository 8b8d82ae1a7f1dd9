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

BLOCK = 64 << 10
TAIL = 64 << 10
GRACE = 3.0
"""Seconds between the request to end and the kill."""
LINGER = 1.0
"""Seconds that output which a grandchild holds open is waited for once the process has ended."""
PARENT = "TRACKLOG_PARENT_RUN_ID"
"""By this variable a process knows, and can be known by, the run that started it."""
HOST = "TRACKLOG_HOST_ID"
"""By this one it is known which host started it: a run that is gone on with has had another."""
OURS = (PARENT, HOST, "TRACKLOG_RUN_ID")
_STARTED = os.urandom(8).hex()


def here() -> str:
    """The identity of this process; a fork has another."""
    return f"{_STARTED}-{os.getpid()}"


class Ended(NamedTuple):
    """How a process ended."""

    exit_code: int
    """128 and the number of the signal, where one ended it."""
    signal: int | None
    timed_out: bool
    stderr: bytes
    """The end of what it wrote there."""


async def run(
    command: Sequence[str],
    *,
    run_id: str,
    feed: Callable[[bytes], None],
    environment: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None = None,
    seconds: float | None = None,
) -> Ended:
    """Run a program to its end, its timeout or its cancellation.

    OSError where it cannot be started.
    """
    theirs = {key: value for key, value in environment.items() if key not in OURS}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**theirs, PARENT: run_id, HOST: here()},
            cwd=cwd,
            start_new_session=True,
        )
    except ValueError as error:  # a NUL, or half a character, in what it is called with
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
) -> Ended:
    stderr = bytearray()

    def keep(chunk: bytes) -> None:
        stderr.extend(chunk)
        del stderr[:-TAIL]

    assert process.stdout is not None
    assert process.stderr is not None
    pumps = [
        asyncio.create_task(_pump(process.stdout, feed)),
        asyncio.create_task(_pump(process.stderr, keep)),
    ]
    if stdin is not None:
        pumps.append(asyncio.create_task(_give(process, stdin)))
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
    return Ended(128 + number if number else code, number, timed_out, bytes(stderr))


async def _pump(source: asyncio.StreamReader, feed: Callable[[bytes], None]) -> None:
    while chunk := await source.read(BLOCK):
        feed(chunk)


async def _give(process: asyncio.subprocess.Process, stdin: bytes) -> None:
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
    _signal(process.pid, signal.SIGKILL)  # those who outlived their leader, too
    await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all of them are gone
        os.killpg(group, number)


def leftovers(run_id: str) -> list[int]:
    """The processes of a run and their children, found by their environment (Linux)."""
    mark = f"{PARENT}={run_id}".encode()
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # it is gone, or somebody else's
    return found


def end_leftovers(run_id: str) -> int:
    """End the processes that a killed host left running for a run, so that nothing is done twice."""
    found = leftovers(run_id)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


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
"""A shell that outlives us by a moment: when we are gone, so are the sessions that we had open, and
what we had started and not told it of yet."""


class _Guard:
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
        with contextlib.suppress(OSError):  # without it everything else still holds
            os.write(self._shell.stdin.fileno(), f"{what} {name}\n".encode())

    def close(self) -> None:
        assert self._shell.stdin is not None
        self.send("q")
        self._shell.stdin.close()
        self._shell.wait()


_guards: list[_Guard] = []


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """While a block runs: the started processes are ended even when this process is killed."""
    guard = _Guard()
    _guards.append(guard)
    try:
        yield
    finally:
        _guards.remove(guard)
        guard.close()


def _send_to_guards(what: str, name: int | str) -> None:
    for guard in _guards:
        guard.send(what, name)
