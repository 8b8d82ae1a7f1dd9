"""The proof that no record of a run was left out, up to a checkpoint."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import takewhile

import orjson
from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from tracklog.journal.checkpoints import tree
from tracklog.journal.checkpoints.checkpoint import Checkpoint, last_checkpoint, read_checkpoint
from tracklog.journal.checkpoints.notes import Note, Verifier, read_note
from tracklog.journal.checkpoints.trees import FILE, Trees, digest_after, run_entry
from tracklog.journal.comparing import RecordFault
from tracklog.journal.frame import Run
from tracklog.journal.storages import Storage


class Completeness(TypedDict):
    """The state of a run in a checkpoint: how many records it has, and a digest over them."""

    checkpoint: str
    """The signed note."""
    entry: str
    """The leaf of the run in the run tree."""
    number: int
    """Its place in the run tree."""
    path: list[str]
    """The hashes that lead from the leaf to the root of the run tree."""


def completeness(
    storage: Storage, run: Run, numbers: Sequence[int], through: int
) -> Completeness | None:
    """The proof for a run up to the last checkpoint, given its records up to `through`.

    None where no checkpoint before that record has the run, or where it was pruned in part.
    """
    note = last_checkpoint(storage)
    if note is None:
        return None
    with Trees(storage.folder / FILE, readonly=True) as trees:
        state, stated = trees.run(run), Checkpoint.of(note.text)
        if state is None or (trees.size, trees.runs) != (stated.size, stated.runs):
            return None  # a checkpoint was made meanwhile
        pruned = storage.store.origin().through > 0
        if stated.size > through or (pruned and bisect(numbers, stated.size) < state.records):
            return None
        path = [each.hex() for each in trees.run_path(state.number)]
        entry = run_entry(run, state.records, state.digest).decode()
        return {"checkpoint": str(note), "entry": entry, "number": state.number, "path": path}


def check_completeness(
    proof: Completeness | None,
    run: Run,
    records: Sequence[tuple[int, bytes]],
    checkpoint: Note | None = None,
    keys: Sequence[Verifier] = (),
) -> Iterator[RecordFault]:
    """What does not fit between the records of a run, by number and leaf, and its completeness.

    A checkpoint that is given must be that of the proof; all keys must have signed it.
    """
    if proof is None:
        if checkpoint is not None or keys:
            yield RecordFault(0, "the proof does not say that the run is complete")
        return
    note = read_note(proof["checkpoint"].encode())
    # The one that is given may have more signatures: witnesses sign after the export.
    stated, _ = read_checkpoint(note if checkpoint is None else checkpoint, keys)
    if checkpoint is not None and checkpoint.text != note.text:
        yield RecordFault(0, "the proof is for another checkpoint")
    entry = proof["entry"].encode()
    path = [bytes.fromhex(each) for each in proof["path"]]
    top = tree.root_of(tree.leaf_hash(entry), proof["number"], stated.runs or 0, path)
    if top is None or top != stated.runs_root:
        yield RecordFault(0, "the checkpoint does not have this run as the proof says")
    digest, count = bytes(32), 0
    for seq, leaf in takewhile(lambda record: record[0] <= stated.size, records):
        digest, count = digest_after(digest, seq, leaf), count + 1
    if orjson.loads(entry) != [*run, count, digest.hex()]:
        yield RecordFault(
            0, f"up to record {stated.size}, a record of this run was left out, added or changed"
        )
