"""Publishers: where checkpoints are sent to, one kind of place per file.

To add one: write a file whose name is the scheme of its URLs (`publishers/file.py` is `file:`). It
ends with `publisher = open_it`, a function from what follows the colon of the URL to a `Publisher`.
An outside package offers its function under the entry point group `tracklog.publishers`.
"""

from typing import Protocol

from tracklog.home.plugs import Openers
from tracklog.journal.checkpoints import tree
from tracklog.journal.checkpoints.checkpoint import Checkpoint, Checkpoints
from tracklog.journal.checkpoints.notes import Note, Signature, read_note
from tracklog.model.errors import BadCheckpoint, TracklogError

CONTINUE_HINT = (
    "`tracklog verify --checkpoint FILE` compares the journal with it; name another place for "
    "another journal"
)


class NotPublished(TracklogError):
    """A checkpoint did not reach its place; it is sent again with the next one."""


class WitnessRefused(TracklogError):
    """A witness knows another history of this journal: it was rewritten or rolled back."""


class NotContinued(WitnessRefused):
    """The checkpoint that a place has is not continued by the new one, and is not replaced."""


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


_WITNESS, _PUT = "witness:", ("http:", "https:")


def _order(place: str) -> int:
    """Witnesses first, and last the places whose old checkpoint cannot be read here."""
    return 0 if place.startswith(_WITNESS) else 2 if place.startswith(_PUT) else 1


def check_continued(place: str, old: bytes | None, note: Note, checkpoints: Checkpoints) -> None:
    """Raise `NotContinued` if a place has a checkpoint that the new one does not continue."""
    try:
        known = Checkpoint.of(read_note(old or b"").text)
    except BadCheckpoint:
        return  # there is none
    stated = Checkpoint.of(note.text)
    why = ""
    if known.origin != stated.origin:
        why = f"is of another journal, {known.origin}"
    elif known.size > stated.size:
        why = f"has {known.size} records, and the new one has {stated.size}"
    elif not tree.is_extension(
        *(known.size, stated.size, known.root, stated.root),
        checkpoints.consistency(known.size, stated.size),
    ):
        why = f"has other records than the new one, up to {known.size}"
    if why:
        raise NotContinued(f"the checkpoint at {place} {why}: it was not replaced", CONTINUE_HINT)


def publish_all(
    checkpoints: Checkpoints, note: Note, publishers: dict[str, Publisher]
) -> tuple[Note, list[TracklogError]]:
    """Publish a checkpoint everywhere, witnesses first, so that other places get their signatures.

    A checkpoint that a witness refused, or that does not continue the one at a place, reaches no
    other place. The note with all signatures, and what failed.
    """
    failures: list[TracklogError] = []
    for place in sorted(publishers, key=_order):
        refused = any(isinstance(each, WitnessRefused) for each in failures)
        if refused and not place.startswith(_WITNESS):
            break
        try:
            signatures = publishers[place].publish(note, checkpoints)
        except TracklogError as error:
            failures.append(error)
            continue
        if signatures:
            note = checkpoints.add_signatures(note, signatures)
    return note, failures
