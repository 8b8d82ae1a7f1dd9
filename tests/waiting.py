"""Waiting for a descriptor, however high its number is: many files are open in a long run."""

import selectors


def readable(fd: int, seconds: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(seconds))
