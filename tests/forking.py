"""Processes that are there at once: forked from one which has imported everything before."""

import multiprocessing
import os
import threading
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

WITH = ["test_host_kills", "test_host_openwop_chaos", "warm"]
"""What it has imported: where the targets are, and what they would make for themselves."""
_STARTING = threading.Lock()


def in_a_process(target, *arguments) -> int:
    """Its exit code, once it has ended; that of a signal is negative."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(WITH)
    # The server is not told our path, and what it cannot import it leaves to every fork.
    path = {"PYTHONPATH": str(Path(__file__).parent)}
    with _STARTING, mock.patch.dict(os.environ, path):
        forkserver.ensure_running()
    process = context.Process(target=target, args=arguments)
    process.start()
    process.join()
    return process.exitcode
