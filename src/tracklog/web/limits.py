"""Limits for each client, so that none can use up what the others need."""

from dataclasses import dataclass

from tracklog.model.lines import CAP


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes are in bytes, times in seconds."""

    body: int = 64 << 20
    """Of one request, measured after decompression."""
    members: int = 10_000
    """Parts that a packed body may consist of: members of gzip, frames of zstd."""
    unpack_seconds: float = 5
    """Of CPU time, for unpacking one body."""
    line: int = CAP
    lines: int = 250_000
    """Of one request: each costs more than its bytes while it is checked."""
    header: int = 64 << 10
    """Of a request's header; of its trailers and the extensions of its chunks once more."""
    fields: int = 256
    """Lines of a header, and of trailers."""
    held: int = 256 << 20
    """Of all request bodies that are in memory at once; further requests are asked to retry."""
    connections: int = 4096
    overflow: int = 256
    """Connections over that are read to the end of their header and answered with 503; more are closed."""
    overflow_seconds: float = 2
    """For that header to arrive, and for the answer to be read."""
    events_per_second: int = 0
    """Over all clients, with a burst of two seconds; 0 for as many as the disk takes."""
    append_seconds: float = 10
    """For the lines of a request to be stored, and a second more for each MiB of them; then the
    sender is asked to send them again."""
    header_seconds: float = 10
    """From the first byte of a request to the end of its header, and of a connection to its first."""
    silent_seconds: float = 20
    """Between two pieces of a request's body."""
    body_seconds: float = 300
    """For a complete request to arrive."""
    stopping_seconds: float = 3
    """For a request that is arriving when the server stops."""
    grace_seconds: float = 8
    """From the signal to the end of the process, whatever is under way."""
    stalled_seconds: float = 30
    """That a client may read nothing of its answer; a watcher comes back and resumes."""
    heartbeat_seconds: float = 15
