"""The log of a server: one JSON object per line on standard error.

Never a header, a query or a body: there the secrets are.
"""

import logging
import sys
import time
import traceback
from typing import Any

import orjson

from tracklog.journal.frame import stamp


def log(level: str, what: str, **more: Any) -> None:
    """Write one line; a closed standard error is ignored."""
    line = {"at": stamp(time.time()), "level": level, "event": what, **more}
    try:
        sys.stderr.write(orjson.dumps(line, default=str).decode() + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads it


def log_failure(what: str, error: BaseException, **more: Any) -> None:
    """Log an unexpected exception with its place."""
    trace = "".join(traceback.format_exception(error, limit=-8))
    log("error", what, error=repr(error)[:500], trace=trace, **more)


class LibraryLogs(logging.Handler):
    """What libraries log, in the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            log_failure(record.getMessage().strip(), error, logger=record.name)
        else:
            log(record.levelname.lower(), record.getMessage().strip(), logger=record.name)


def take_over() -> None:
    """Redirect the logs of uvicorn and asyncio to this log."""
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [LibraryLogs()] if name != "uvicorn.error" else []
        logger.setLevel(logging.ERROR)
        logger.propagate = name == "uvicorn.error"
    logging.getLogger("uvicorn.access").handlers = []
    logging.getLogger("uvicorn.access").propagate = False
