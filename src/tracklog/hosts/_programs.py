"""Start a program so that a cancelled start leaves no process behind."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

_PIPE = asyncio.subprocess.PIPE


async def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: Path | None = None,
    stdin: int = _PIPE,
) -> asyncio.subprocess.Process:
    """A program that leads a process group and writes to pipes. Raises OSError if it cannot run.

    If the start is cancelled, the group is ended first: asyncio would wait for whoever has the pipes.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=stdin,
            stdout=_PIPE,
            stderr=_PIPE,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting})
        if starting.exception() is None:
            await end(starting.result())
        raise


async def end(process: asyncio.subprocess.Process) -> None:
    """End a program and those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
