"""Make calls of the disk fail, at random, and count what is lost or recorded twice."""

import contextlib
import errno
import os
import random
import tempfile
from collections import Counter
from pathlib import Path

from journal.test_crash_law import Faulty, batches_of, grown, opened, retried
from tracklog.model.errors import NotAppended


def turn(number: int) -> Counter[str]:
    """One order of batches, with a fault at each call of the disk, one after another."""
    chance = random.Random(f"{os.urandom(4).hex()} {number}")
    batches = batches_of(*(chance.randint(1, 6) for _ in range(4)))
    durability = chance.choice(("sync", "lifecycle", "os"))
    options = {"durability": durability, "segment_size": chance.randint(300, 1500)}
    times, error = chance.randint(1, 3), chance.choice((errno.EIO, errno.ENOSPC))
    counts = Counter[str](lost=0)
    with tempfile.TemporaryDirectory(prefix="tracklog-soak-") as name:
        folder, counting, opening = Path(name), Faulty(), Faulty()
        grown(folder / "count", batches, disk=counting, **options)
        opened(folder / "opening", opening, **options).journal.close()
        for at in range(opening.calls, counting.calls):
            disk = Faulty(at, times, error)
            intake = opened(folder / f"at{at}", disk, **options)
            for key, lines in batches.items():
                for _ in range(2 * times + 2):
                    with contextlib.suppress(NotAppended):
                        intake.admit(lines, "kahn-ci", batch=key)
                        break
                else:
                    raise AssertionError(f"call {at} is not got over")
            with contextlib.suppress(NotAppended):
                intake.journal.close()
            retried(folder / f"at{at}", batches, {})  # each line is there once, or this fails
            counts.update(
                {"injected": disk.failed, "acknowledged": sum(map(len, batches.values()))}
            )
    return counts
