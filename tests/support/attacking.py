"""Attacks on a journal by somebody who holds its disk and its private key."""

import json
import random
from functools import partial
from pathlib import Path

from support.offline import load_script
from tracklog.journal.checkpoints.checkpoint import (
    KEY,
    Checkpoint,
    Checkpoints,
    compare,
    read_checkpoint,
)
from tracklog.journal.checkpoints.notes import Note, Signer, read_note
from tracklog.journal.checkpoints.tree import consistency
from tracklog.journal.checkpoints.trees import Trees, added
from tracklog.journal.checkpoints.witness import Witness, request_body
from tracklog.journal.frame import record, run_of
from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.proof import check_proof, prove_all
from tracklog.journal.storages.memory import MemoryStorage
from tracklog.journal.stores import Group
from tracklog.model.errors import BadCheckpoint
from tracklog.testing import Clock

script = load_script()
RUNS = ("r0", "r1", "r2")
ATTACKS = ("edit", "drop", "insert", "reorder", "fork", "rollback")
ALL = (*ATTACKS, "rewrite", "omit")


def grown(storage, count=12, start=1):
    """Appends so many records of three runs, in groups of one to three."""
    journal = Journal(storage.store, Clock())
    n = start
    while n < start + count:
        group = range(n, min(n + 1 + n % 3, start + count))
        journal.append(
            [JournalEntry("spoken", "kahn", f"r{n % 3}", b'{"n":%d}' % n) for n in group]
        )
        n = group[-1] + 1
    return journal


def rewritten(frames):
    """A journal of these frames, with a chain of its own."""
    storage = MemoryStorage()
    runs = [(run_of(frame), 1) for frame in frames]
    storage.store.append(lambda first: Group(frames, runs, {}))
    return storage


def renumbered(frames):
    return [
        b'{"seq":%d%b' % (seq, frame[frame.index(b",") :]) for seq, frame in enumerate(frames, 1)
    ]


def attacked(kind, frames, size, chance):
    """The frames of a journal after an attack on the records up to a checkpoint."""
    frames, at = list(frames), chance.randrange(size)
    if kind == "edit":
        frames[at] = frames[at].replace(b'{"n":', b'{"n":%d' % chance.randrange(1, 10))
    elif kind == "drop":
        del frames[at]
    elif kind == "insert":
        frames.insert(at, frames[chance.randrange(len(frames))])
    elif kind == "reorder":
        other = chance.choice([each for each in range(len(frames)) if each != at])
        frames[at], frames[other] = frames[other], frames[at]
    elif kind == "fork":
        frames[at:] = [frame.replace(b'{"n":', b'{"m":') for frame in frames[at:]]
    elif kind == "rewrite":
        frames = [frame.replace(b'{"n":', b'{"m":%d' % at) for frame in frames]
    else:
        del frames[max(1, at) :]
    return renumbered(frames)


def asked(witness, prove, note):
    """What a journal does: ask, and again from the size that the witness names."""
    size = Checkpoint.of(note.text).size
    answer = witness.add(request_body(0, [], note))
    if answer.status == 409 and int(answer.body) <= size:
        known = int(answer.body)
        answer = witness.add(request_body(known, prove(known, size), note))
    return answer


class Witnessed:
    """A journal, a checkpoint of its first records that a witness signed, and some records more."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._chance, self.size = chance, chance.randrange(9, 60)
        self.storage = MemoryStorage()
        grown(self.storage, self.size)
        self.witness = Witness(folder)
        with Checkpoints(self.storage) as checkpoints:
            self.witness.trust(checkpoints.key, "ada")
            self.keys = [checkpoints.key, self.witness.key]
            note = checkpoints.make()
            answer = asked(self.witness, checkpoints.consistency, note)
            assert answer.status == 200, answer.body
            self.note = read_note(f"{note}{answer.body}".encode())
            self.proofs = {run: prove_all(self.storage, ("kahn", run)) for run in RUNS}
            grown(self.storage, chance.randrange(1, 20), self.size + 1)
        self.stolen = Signer.of((self.storage.folder / KEY).read_text())
        self.frames = self.storage.store.read(0, 999)
        self.stated = read_checkpoint(self.note, self.keys)[0]

    def close(self) -> None:
        self.witness.close()
        self.storage.close()

    def _forged_note(self, forged) -> tuple[Note, Trees]:
        """A checkpoint of the forged journal, signed with the stolen key."""
        trees = Trees()
        trees.add(added(forged.store, 0, 999))
        made = Checkpoint(
            self.stated.origin, trees.size, trees.root(), trees.runs, trees.runs_root()
        )
        return Note(made.text, (self.stolen.sign(made.text),)), trees

    def finds(self, kind: str) -> bool:
        """Whether an attack of this kind is found by everybody who could."""
        return self._finds_omission() if kind == "omit" else self._finds_forgery(kind)

    def _finds_forgery(self, kind: str) -> bool:
        """By who compares the journal with the checkpoint, by the witness, and by its keys."""
        frames = self.frames
        while frames[: self.size] == self.frames[: self.size]:  # a copy behind it is no attack
            frames = attacked(kind, self.frames, self.size, self._chance)
        forged = rewritten(frames)
        note, trees = self._forged_note(forged)
        with trees:
            answer = asked(self.witness, partial(consistency, trees.records.node), note)
        compared = compare(forged, self.stated)
        forged.close()
        return bool(compared.faults) and answer.status in (409, 422) and not self._accepted(note)

    def _finds_omission(self) -> bool:
        """A record is missing in an export; the rest is proven from a journal without it."""
        run = self._chance.choice(RUNS)
        kept = list(self.frames[: self.size])
        own = [frame for frame in kept if run_of(frame)[1] == run]
        gone = self._chance.choice(own)
        if self._chance.random() < 0.5:
            kept.remove(gone)
        else:  # it belongs to another run there
            other = gone.replace(b'"run":"%b"' % run.encode(), b'"run":"elsewhere"')
            kept[kept.index(gone)] = other
        forged = rewritten(renumbered(kept))
        (forged.folder / KEY).write_text(str(self.stolen))
        with Checkpoints(forged) as checkpoints:
            forged_note = checkpoints.make()
        left = [record(frame).line for frame in forged.store.read(0, 999, ("kahn", run))]
        claim = prove_all(forged, ("kahn", run))
        forged.close()
        true = json.loads(json.dumps(self.proofs[run]))
        claims = [claim, {**claim, "complete": true["complete"]}, true]
        whole = [record(frame).line for frame in own]
        assert not self._faults(true, whole, self.note, self.keys)
        assert not self._faults(claim, left, forged_note, self.keys[:1])
        return all(
            self._faults(each, left, note, self.keys)
            for each in claims
            for note in (self.note, forged_note)
        )

    def _faults(self, proof, lines, note: Note, keys) -> bool:
        """What both verifiers say of an exported run; they must agree."""
        ours = check_proof(proof, lines, None, note, keys)
        other = script.check_proof(proof, lines, None, str(note), [str(key) for key in keys])
        assert bool(ours) == (other is not None), (ours, other)
        return bool(ours)

    def _accepted(self, note: Note) -> bool:
        try:
            read_checkpoint(note, self.keys)
        except BadCheckpoint:
            return False
        return True
