"""Work that makes very many objects and little rubbish goes on unswept."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unswept() -> Iterator[None]:
    """Python's collector of circular garbage rests meanwhile: it would look at each object again
    and again, a sixth of all the work, to find nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
