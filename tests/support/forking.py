"""Processes that are there at once: forked from one which has imported everything before."""

import contextlib
import inspect
import multiprocessing
import os
import pty
import subprocess
import sys
import termios
import threading
import time
from functools import partial
from multiprocessing import forkserver, reduction
from multiprocessing.connection import wait
from operator import methodcaller
from pathlib import Path
from unittest import mock

from tracklog.__main__ import main

WITH = ["support.warm", "support.forking"]
"""What it has imported: what each would make for itself, and where it begins."""
TARGETS = ["support.collecting", "test_host_kills", "test_host_openwop_chaos"]
"""Where it goes on, as far as they are imported here."""
TESTS = str(Path(__file__).parents[1])
_STARTING = threading.Lock()
_ASKED = inspect.signature(subprocess.Popen._execute_child)  # its order is the interpreter's own
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def _process(target, *arguments):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(WITH + [name for name in TARGETS if name in sys.modules])
    # The server is not told our path, and what it cannot import it leaves to every fork.
    ours = [each for each in sys.path if each.startswith(TESTS)]
    path = {"PYTHONPATH": os.pathsep.join([*ours, *filter(None, [os.environ.get("PYTHONPATH")])])}
    with _STARTING, mock.patch.dict(os.environ, path):
        forkserver.ensure_running()
    process = context.Process(target=target, args=arguments)
    with _STARTING:
        process.start()
        # Each start looks whether the others have ended, and an end is told only once.
        multiprocessing.process._children.discard(process)
    return process


def in_a_process(target, *arguments) -> int:
    """Its exit code, once it has ended; that of a signal is negative."""
    process = _process(target, *arguments)
    process.join()
    return process.exitcode


class Tracklog(subprocess.Popen):
    """`tracklog …` in such a process, and in all else a process as any other.

    What a start does by itself (reading its modules, its path, its streams, the memory it takes)
    is proven with `python -m tracklog`.
    """

    def __init__(self, *arguments: object, run=main, **options) -> None:
        self._run = run
        super().__init__([str(each) for each in arguments], **options)

    def _execute_child(self, *arguments):
        asked = _ASKED.bind(self, *arguments).arguments
        args, cwd, env = asked["args"], asked["cwd"], asked["env"]
        pipes = [asked[name] for name in _PIPES]
        ends = enumerate(pipes[at] for at in (0, 3, 5))  # the process reads and writes these
        streams = [_Stream(number if end == -1 else end) for number, end in ends]
        where, env = str(cwd or Path.cwd()), dict(os.environ if env is None else env)
        self._process = _process(_begin, self._run, args, streams, where, env)
        self.pid = self._process.pid
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _internal_poll(self, **_extra):
        with self._waitpid_lock:  # its end is reported once, whoever asks
            if self.returncode is None:
                self.returncode = self._process.exitcode
        return self.returncode

    def _wait(self, timeout):
        if self.returncode is None and not wait([self._process.sentinel], timeout):
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._internal_poll()


class _Stream:
    """An open file that goes along to where the process is forked."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self):
        return methodcaller("detach"), (reduction.DupFd(self.number),)


def _begin(run, arguments, streams, where, environment) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # it has no path, and stays
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(where)
    sys.argv = ["tracklog", *arguments]
    run()


def tracklog(home, *arguments, given: bytes | str = b"", timeout: float = 120, **options):
    """`tracklog …` from its start to its end; with a home, that is its home."""
    env = {**os.environ, **({} if home is None else {"TRACKLOG_HOME": str(home)})}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Tracklog(*arguments, **{"env": env, **pipes, **options}) as started:
        try:
            said = started.communicate(given, timeout)
        except subprocess.TimeoutExpired:
            started.kill()
            raise
    return subprocess.CompletedProcess(arguments, started.returncode, *said)


def script(code: str, *arguments: object, **options) -> subprocess.Popen:
    """A program, as `python -c` runs it, in such a process."""
    return Tracklog(*arguments, run=partial(exec, code, {"__name__": "__main__"}), **options)


def on_terminal(columns: int, home, *arguments, given: bytes = b"", **env: str) -> str:
    """What a terminal of that width gets to see."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    env = {"TERM": "xterm", "TRACKLOG_HOME": str(home), "COLUMNS": str(columns), **env}
    env = {**os.environ, **env}
    ends = {"stdin": subprocess.PIPE, "stdout": slave, "stderr": slave}
    with Tracklog(*arguments, **ends, env=env) as started:
        os.close(slave)
        with contextlib.suppress(BrokenPipeError):  # it may end without reading
            started.stdin.write(given)
            started.stdin.close()
        seen = b""
        with contextlib.suppress(OSError):  # the terminal's end is an error to its reader
            while block := os.read(master, 65536):
                seen += block
    os.close(master)
    return seen.decode()
