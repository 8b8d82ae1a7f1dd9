"""The state of a run: from its transcript, and from the lock of its writer."""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from tracklog.model.event import Body

State = Literal["complete", "failed", "running", "interrupted", "unknown"]
MARK = "tracklog/"


def state_of(bodies: Iterable[Body], *, locked: bool = False) -> State:
    """The state of a run from its events; `locked` says whether a writer holds the file."""
    ours, start, end = False, False, None
    for body in bodies:
        payload = body.get("payload")
        if body.get("type") == "run.started":
            start, end = isinstance(payload, dict), None
            ours = ours or is_ours(body)
        elif body.get("type") == "run.completed" and isinstance(payload, dict):
            end = payload
    if end is not None:
        return "failed" if end.get("error") or end.get("status", "ok") != "ok" else "complete"
    if locked:
        return "running"
    return "interrupted" if start and ours else "unknown"


def is_ours(body: Body) -> bool:
    """Whether a run's start carries our producer mark."""
    payload: Any = body.get("payload")
    producer = payload.get("producer") if isinstance(payload, dict) else None
    return isinstance(producer, str) and producer.startswith(MARK)


def is_locked(path: Path) -> bool:
    """Whether a writer holds the file now."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks: nobody holds one
    finally:
        os.close(fd)
    return False
