"""The state of a home: the last record of its journal, of its index and of its archive."""

from dataclasses import dataclass

from tracklog.home.home import Home
from tracklog.journal.archive.notes import noted


@dataclass(frozen=True, slots=True)
class HomeArchive:
    """The archive of a journal, as the last process that archived left it."""

    place: str
    through: int
    """The last record that it has."""
    behind: int
    """Records that are not archived: what would be missing if the machine were lost now."""
    at: str
    """When it was written last."""


@dataclass(frozen=True, slots=True)
class HomeStatus:
    """The state of a journal in a folder."""

    home: str
    first: int
    last: int
    head: str
    """The end of the chain."""
    indexed: int
    """The last record that is indexed."""
    index_behind: int
    archive: HomeArchive | None
    """None where nothing was archived."""


def status(home: Home) -> HomeStatus:
    """Look at a journal; nothing is changed, and the index is not updated."""
    last, indexed = home.journal.last, home.index.index.cursor
    found = noted(home.storage)
    behind = 0 if found is None else max(0, last - found.through)
    return HomeStatus(
        home=str(home.path),
        first=home.journal.first,
        last=last,
        head=str(home.store.head()),
        indexed=indexed,
        index_behind=max(0, last - indexed),
        archive=None
        if found is None
        else HomeArchive(found.place, found.through, behind, found.at),
    )
