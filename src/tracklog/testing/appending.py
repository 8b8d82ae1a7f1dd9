"""What the processes of a suite run: they append groups to a storage."""

from itertools import count, islice

from tracklog.home import registry
from tracklog.testing.stores import frames_of


def lines_of(group: int) -> list[bytes]:
    """The lines of a group: one to seven."""
    return [b'{"group":%d,"line":%d}' % (group, line) for line in range(group % 7 + 1)]


def append_groups(url: str, run: str, groups: str = "") -> None:
    """Append so many groups, or until the process is killed.

    Each acknowledged group is a line on standard output: its number, its first record, its size.
    """
    storage = registry.storage(url)
    for group in islice(count(), int(groups) if groups else None):
        first = storage.store.append(frames_of(lines_of(group), run))
        print(group, first, len(lines_of(group)), flush=True)
    storage.close()
