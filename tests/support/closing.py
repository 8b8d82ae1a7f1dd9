"""What a test opens, closed when the test ends: by the test, not by the garbage collector."""

from collections import deque

import pytest

from tracklog.home import registry

_OPEN: deque = deque()
MOST = 16
"""An example of a law has fewer open at once; those of earlier examples are closed."""


def opened_index(url: str):
    """The index at a URL, until the test ends."""
    _OPEN.append(registry.index(url))
    while len(_OPEN) > MOST:
        _OPEN.popleft().close()
    return _OPEN[-1]


@pytest.fixture(autouse=True)
def closes():
    yield
    while _OPEN:
        _OPEN.pop().close()
