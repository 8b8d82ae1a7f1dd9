"""Publishers: where checkpoints are sent to, one kind of place per file.

To add one: write a file whose name is the scheme of its URLs (`publishers/file.py` is `file:`). It
ends with `publisher = open_it`, a function from what follows the colon of the URL to a `Publisher`.
An outside package offers its function under the entry point group `tracklog.publishers`.
"""

from typing import Protocol

from tracklog.home.plugs import Openers
from tracklog.journal.checkpoints.checkpoint import Checkpoints
from tracklog.journal.checkpoints.notes import Note, Signature
from tracklog.model.errors import TracklogError


class NotPublished(TracklogError):
    """A checkpoint did not reach its place; it is sent again with the next one."""


class WitnessRefused(TracklogError):
    """A witness knows another history of this journal: it was rewritten or rolled back."""


class Publisher(Protocol):
    """One place for checkpoints."""

    def publish(self, note: Note, checkpoints: Checkpoints) -> list[Signature]:
        """Store a checkpoint at this place; what a witness signed."""


_publishers: Openers[Publisher] = Openers(
    "tracklog.collector.publishers", "publisher", group="tracklog.publishers"
)


def open_publisher(place: str) -> Publisher:
    """The publisher at a URL; a path without a scheme is a file."""
    scheme, colon, _ = place.partition(":")
    is_url = colon and len(scheme) > 1 and "/" not in scheme
    return _publishers.open(place if is_url else f"file:{place}")


def publish_all(
    checkpoints: Checkpoints, note: Note, publishers: dict[str, Publisher]
) -> tuple[Note, list[TracklogError]]:
    """Publish a checkpoint everywhere, witnesses first, so that other places get their signatures.

    The note with all signatures, and what failed.
    """
    failures: list[TracklogError] = []
    places = sorted(publishers, key=lambda place: not place.startswith("witness:"))
    for place in places:
        try:
            signatures = publishers[place].publish(note, checkpoints)
        except TracklogError as error:
            failures.append(error)
            continue
        if signatures:
            note = checkpoints.add_signatures(note, signatures)
    return note, failures
