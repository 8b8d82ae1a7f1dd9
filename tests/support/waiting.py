"""Waiting for what comes in its own time."""

import selectors
import time


def readable(fd: int, seconds: float) -> bool:
    """However high its number is: many files are open in a long run."""
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def eventually(claim, seconds: float = 240):
    """What the claim says, as soon as it is true; the last it said, when time is up."""
    until = time.monotonic() + seconds
    while not (said := claim()) and time.monotonic() < until:
        time.sleep(0.02)
    return said


def long_enough(attempt, first: int = 300):
    """What an attempt gives with the first delay, in milliseconds, in which it has done its part.

    On a busy machine it comes too late, gives nothing, and is made again with twice the delay.
    """
    for n in range(8):
        if (found := attempt(first << n)) is not None:
            return found
    raise AssertionError("it came too late with every delay")
