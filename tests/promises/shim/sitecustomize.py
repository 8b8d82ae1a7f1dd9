"""Loaded by a command under test: logs what each sync put on disk, and delays or fails syncs."""

import errno
import os
import time
from pathlib import Path

FOLDER = Path(os.environ["SYNC_FOLDER"])


def _log(name: str, size: int, path: Path) -> None:
    with (FOLDER / name).open("a") as log:
        log.write(f"{size} {path}\n")


def _wrapped(sync):
    def call(fd: int) -> None:
        path, size = Path(f"/proc/self/fd/{fd}").readlink(), os.fstat(fd).st_size
        if (FOLDER / "fail").exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        _log("begun", size, path)
        while path.suffix == ".jsonl" and (FOLDER / "wait").exists():
            time.sleep(0.01)
        sync(fd)
        _log("synced", size, path)

    return call


os.fdatasync, os.fsync = _wrapped(os.fdatasync), _wrapped(os.fsync)
