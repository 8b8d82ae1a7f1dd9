"""Runs that a collector starts as separate processes, so that they cannot harm it."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING

from tracklog.hosts import NotBegun
from tracklog.web import logs

if TYPE_CHECKING:
    from tracklog import Log, Run

BEGIN = 60.0
"""Seconds within which a run must have its first record."""
LAST = 10.0
"""Seconds that a process has to end after a signal."""
_LOOK = 0.05
SHOWN = 4096
STOPPED = 130
"""The exit code of a run that somebody stopped."""
OURS = ("TRACKLOG_TOKEN", "TRACKLOG_TOKEN_FILE")
"""Environment variables that only the collector gets."""


class Children:
    """The processes of one host."""

    def __init__(self, journal: "Log") -> None:
        self._journal = journal
        self._living: dict[asyncio.Task[str], asyncio.subprocess.Process] = {}

    async def begin(
        self, run: "Run", words: Sequence[str], ended: Callable[[], None] = lambda: None
    ) -> None:
        """Start `tracklog host WORDS`; on return the run has a record. Raises `NotBegun`."""
        end = await self._start(words, ended)
        until = asyncio.get_running_loop().time() + BEGIN
        while not await asyncio.to_thread(self._has, run):
            if end.done() and not self._has(run):
                raise NotBegun(end.result(), "see `tracklog host --help`")
            if asyncio.get_running_loop().time() > until:
                self._living[end].kill()
                raise NotBegun("nothing of the run was recorded in time", "see the server's log")
            await asyncio.wait({end}, timeout=_LOOK)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End all of them: first with a signal, then with SIGKILL."""
        left = dict(self._living)
        for patience in (LAST, None):
            for process in left.values():
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number if patience else signal.SIGKILL)
            if left:
                _, late = await asyncio.wait(left, timeout=patience)
                left = {end: left[end] for end in late}

    def _has(self, run: "Run") -> bool:
        return any(True for _ in self._journal.read(run=run))

    async def _start(self, words: Sequence[str], ended: Callable[[], None]) -> "asyncio.Task[str]":
        """Start a process; the task ends with the process, and its result is the error output."""
        home = ["--home", self._journal.place]
        theirs = {key: value for key, value in os.environ.items() if key not in OURS}
        output = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the process has ended
        try:
            process = await asyncio.create_subprocess_exec(
                *[sys.executable, "-m", "tracklog", "host", *words, *home],
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=output,
                env=theirs, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            output.close()
            raise NotBegun(f"no process can be started: {error}", "try it again later") from None
        end = asyncio.create_task(_end(process, output))
        self._living[end] = process

        def over(end: "asyncio.Task[str]") -> None:
            del self._living[end]
            if (process.returncode or 0) > 0 and process.returncode != STOPPED:
                logs.log("warning", "the process of a run failed", command=words, why=end.result())
            ended()

        end.add_done_callback(over)
        return end


async def _end(process: asyncio.subprocess.Process, output: IO[bytes]) -> str:
    with output:
        code = await process.wait()
        output.seek(0)
        return output.read(SHOWN).decode("utf-8", "replace").strip() or f"it ended with {code}"
