"""Loaded by a command under test: logs what each sync put on disk, and delays or fails syncs."""

import errno
import os
import time

FOLDER = os.environ["SYNC_FOLDER"]


def _asked(word: str) -> bool:
    return os.access(os.path.join(FOLDER, word), os.F_OK)


def _wrapped(sync):
    def call(fd: int) -> None:
        path, size = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd).st_size
        if _asked("fail"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        with open(os.path.join(FOLDER, "begun"), "a") as log:
            log.write(f"{size} {path}\n")
        while _asked("wait") and path.endswith(".jsonl"):
            time.sleep(0.01)
        sync(fd)
        with open(os.path.join(FOLDER, "synced"), "a") as log:
            log.write(f"{size} {path}\n")

    return call


os.fdatasync, os.fsync = _wrapped(os.fdatasync), _wrapped(os.fsync)
