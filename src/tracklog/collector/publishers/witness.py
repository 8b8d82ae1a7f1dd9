"""`witness:https://…`: a witness, such as `tracklog witness serve`, which signs what it has seen."""

from tracklog.collector.publishers import NotPublished, WitnessRefused
from tracklog.collector.publishers._http import send
from tracklog.journal.checkpoints.checkpoint import Checkpoint, Checkpoints
from tracklog.journal.checkpoints.notes import Note, Signature, read_signature
from tracklog.journal.checkpoints.witness import request_body
from tracklog.model.errors import BadCheckpoint

_HINT = "compare the journal with a checkpoint that you stored: `tracklog verify --checkpoint FILE`"


class WitnessPublisher:
    """Asks a witness for its signature."""

    def __init__(self, place: str) -> None:
        self._url = place.rstrip("/")
        self._known = 0
        """How many records the witness has signed, as far as we know."""

    def publish(self, note: Note, checkpoints: Checkpoints) -> list[Signature]:
        size = Checkpoint.of(note.text).size
        for _ in range(3):  # it says from where on it needs a proof; another process may be quicker
            proof = checkpoints.consistency(self._known, size)
            body = request_body(self._known, proof, note)
            status, answer = send("POST", f"{self._url}/add-checkpoint", body)
            if status == 200:
                self._known = size
                return _signatures(answer)
            if status != 409:
                break
            known = int(answer) if answer.strip().isdigit() else size
            if known > size or known == self._known == size:
                raise WitnessRefused(
                    f"the witness {self._url} has signed {known} records of this journal, and they "
                    f"are not these {size}",
                    _HINT,
                )
            self._known = known
        why = answer.decode(errors="replace").strip()[:200]
        if status in (409, 422):
            raise WitnessRefused(f"the witness {self._url} refused the checkpoint: {why}", _HINT)
        hint = "`tracklog witness trust KEY` makes it known there" if status in (403, 404) else ""
        raise NotPublished(f"the witness {self._url} answered {status}: {why}", hint)


def _signatures(answer: bytes) -> list[Signature]:
    try:
        return [read_signature(line) for line in answer.decode().splitlines()]
    except (BadCheckpoint, UnicodeDecodeError) as error:
        raise NotPublished(
            "the answer of the witness has no signature", "is it a witness?"
        ) from error


publisher = WitnessPublisher
