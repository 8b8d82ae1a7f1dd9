"""The options of a recorder, with their defaults."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tracklog.journal.disk import Disk
from tracklog.recording.recorder.appendfile import DISK
from tracklog.recording.recorder.masking import Masker, OnMaskError

Durability = Literal["os", "interval", "lifecycle", "sync"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a recorder; each has a default."""

    durability: Durability = "lifecycle"
    """When lines are flushed to disk: `os` at close, `interval` every `fsync_interval` seconds,
    `lifecycle` after messages and the ends of steps and runs, `sync` after each line.
    """
    fsync_interval: float = 1.0
    on_error: Literal["degrade", "ignore", "fail"] = "degrade"
    """What `emit` does with an event that cannot be written: `degrade` holds it in memory and tries
    again, `ignore` drops it, `fail` raises.
    """
    resume: bool = False
    """Whether a run that has ended may continue in its transcript."""
    masker: Masker | None = None
    """A function from an event to an event, applied before the disk or a subscriber sees it. There
    is none by default.
    """
    on_mask_error: OnMaskError = "refuse"
    max_event_bytes: int | None = None
    """Lines longer than this have their longest strings cut, with a mark."""
    integrity: Literal["chain"] | None = None
    """`chain`: each line carries a hash over itself and the line before."""
    lock: Literal["exclusive", "off"] = "exclusive"
    strict_perms: bool = False
    """Whether a folder that other users can read is refused; else there is a warning."""
    allow_any_id: bool = False
    """For converters: allow ids that are no UUID v4. Such a transcript does not conform."""
    clock: Callable[[], int] = time.time_ns
    monotonic: Callable[[], int] = time.monotonic_ns
    disk: Disk = DISK

    def __post_init__(self) -> None:
        for name, words in (
            ("durability", ("os", "interval", "lifecycle", "sync")),
            ("on_error", ("degrade", "ignore", "fail")),
            ("on_mask_error", ("refuse", "placeholder")),
            ("integrity", (None, "chain")),
            ("lock", ("exclusive", "off")),
        ):
            if getattr(self, name) not in words:
                one_of = ", ".join(map(repr, words))
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {one_of}")
        if self.fsync_interval <= 0:
            raise ValueError("fsync_interval must be more than 0 seconds")
        if self.max_event_bytes is not None and self.max_event_bytes < 1:
            raise ValueError("max_event_bytes must be 1 or more")
