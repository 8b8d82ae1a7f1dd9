"""Pause the garbage collector during work that makes very many objects and little garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector of circular garbage: it would look at each object again and again, a
    sixth of all the work, and find nothing. Then what was made counts as old, so that it is looked
    at when all objects are.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # else it is another's, and stays frozen
            gc.freeze()
            gc.unfreeze()
        gc.enable()
