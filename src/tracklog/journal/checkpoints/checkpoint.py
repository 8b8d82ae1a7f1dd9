"""Make the checkpoints of a journal, and compare a journal with one."""

import base64
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

from tracklog.journal.checkpoints import tree
from tracklog.journal.checkpoints.notes import (
    Note,
    Signature,
    Signed,
    Signer,
    Verifier,
    read_note,
    signer,
    verified,
)
from tracklog.journal.checkpoints.rechecking import Recheck
from tracklog.journal.checkpoints.trees import FILE, Trees, added
from tracklog.journal.comparing import RESTORE_FIRST, RecordFault
from tracklog.journal.storages import Storage
from tracklog.model.errors import BadCheckpoint, NotExtended, NotSigned

KEY = "checkpoint.key"
"""The private key in the folder of a storage, unless another file is named."""
_LAST, _PUBLIC, _WITNESSED = "checkpoint", "key", "witnessed"
_BATCH = 10_000


class Checkpoint(NamedTuple):
    """What a checkpoint says about a journal."""

    origin: str
    size: int
    """How many records."""
    root: bytes
    runs: int | None = None
    """How many runs; None for a checkpoint of another program, which says nothing about runs."""
    runs_root: bytes = b""

    @property
    def text(self) -> str:
        """As it is signed."""
        lines = [self.origin, str(self.size), _base64(self.root)]
        if self.runs is not None:
            lines.append(f"runs {self.runs} {_base64(self.runs_root)}")
        return "\n".join([*lines, ""])

    @classmethod
    def of(cls, text: str) -> Self:
        """The checkpoint in the text of a note; lines that are not known are ignored."""
        lines = text.removesuffix("\n").split("\n")
        try:
            origin, size, root, *more = lines
            made = cls(origin, _number(size), _hash(root))
            for line in more:
                word, _, rest = line.partition(" ")
                if word == "runs":
                    count, _, top = rest.partition(" ")
                    made = made._replace(runs=_number(count), runs_root=_hash(top))
        except ValueError:
            origin = ""
        if not origin or not all(lines):
            raise BadCheckpoint(
                "this is no checkpoint", "`tracklog checkpoint --out FILE` writes one"
            )
        return made


class Checkpoints:
    """The checkpoints of one journal: its trees and its key are in the folder of its storage."""

    def __init__(
        self, storage: Storage, key: Path | None = None, origin: str | None = None
    ) -> None:
        self._storage = storage
        name = origin or f"tracklog/{os.urandom(8).hex()}"
        self._signer: Signer = signer(key or storage.folder / KEY, name)
        self.key: Verifier = self._signer.verifier
        if origin is not None and self.key.name != origin:
            raise BadCheckpoint(
                f"the key of this journal is that of {self.key.name!r}",
                "an origin is chosen with the first checkpoint, and cannot be changed",
            )
        self._trees = Trees(storage.folder / FILE)
        self._recheck = Recheck()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._trees.close()

    def make(self) -> Note:
        """A checkpoint of everything that is durable; the last one again where nothing is new.

        Raises `NotExtended` if the journal is not the continuation of what was signed before.
        """
        store = self._storage.store
        through = store.head().through
        trees = self._trees
        with trees.changing():
            last = _last(trees)
            self._recheck.check(trees, store)
            trees.extend(store, through)
            if last is not None:
                before = Checkpoint.of(last.text)
                if trees.root(before.size) != before.root:
                    raise NotExtended(
                        f"the hashes in {FILE} are not those of the last checkpoint",
                        "the file was changed: bring it back from a backup",
                    )
            now = Checkpoint(self.key.name, trees.size, trees.root(), trees.runs, trees.runs_root())
            if last is not None and last.text == now.text:
                return last
            note = Note(now.text, (self._signer.sign(now.text),))
            trees.put_state(_LAST, str(note).encode())
            trees.put_state(_PUBLIC, str(self.key).encode())
        return note

    def add_signatures(self, note: Note, signatures: "list[Signature]") -> Note:
        """Store what witnesses signed with the last checkpoint, if it still is the last."""
        with self._trees.changing():
            last = _last(self._trees)
            current = last if last is not None and last.text == note.text else note
            signed = current.signed(*signatures)
            if current is last:
                self._trees.put_state(_LAST, str(signed).encode())
            if signed.witnesses():
                self._trees.put_state(_WITNESSED, str(signed).encode())
        return signed

    def consistency(self, old: int, size: int) -> list[bytes]:
        """The proof that the first `old` records are the beginning of the first `size`."""
        return tree.consistency(self._trees.records.node, old, size)


def extension(storage: Storage, old: int, size: int) -> list[bytes]:
    """The proof that a checkpoint of `size` records extends one of `old`, while others are made."""
    with Trees(storage.folder / FILE, readonly=True) as trees:
        return tree.consistency(trees.records.node, old, size)


def read_checkpoint(note: Note, keys: Sequence[Verifier]) -> tuple[Checkpoint, list[Signed]]:
    """The checkpoint in a note, which all these keys must have signed."""
    signers = verified(note, keys)
    missing = {key.name for key in keys} - {each.name for each in signers}
    if missing:
        raise NotSigned(
            f"the checkpoint is not signed by {', '.join(sorted(missing))}",
            "give the key of who signed it",
        )
    return Checkpoint.of(note.text), signers


def own_key(storage: Storage) -> Verifier | None:
    """The public key of the journal, as it is noted in its own folder."""
    text = _state(storage, _PUBLIC)
    return Verifier.of(text.decode()) if text else None


def last_checkpoint(storage: Storage) -> Note | None:
    """The last checkpoint that was made of this journal."""
    text = _state(storage, _LAST)
    return read_note(text) if text else None


def last_witnessed(storage: Storage) -> Note | None:
    """The last checkpoint that a witness signed."""
    text = _state(storage, _WITNESSED)
    return read_note(text) if text else None


def _state(storage: Storage, name: str) -> bytes | None:
    path = storage.folder / FILE
    if not path.exists():
        return None
    with Trees(path, readonly=True) as trees:
        return trees.state(name)


class Compared(NamedTuple):
    """A journal beside a checkpoint."""

    checkpoint: Checkpoint
    faults: list[RecordFault]
    """What is not as the checkpoint says; none where the journal continues it."""
    notes: tuple[str, ...] = ()
    """What could not be compared."""
    signers: tuple[Signed, ...] = ()


def compare(storage: Storage, checkpoint: Checkpoint) -> Compared:
    """Compare the records of a journal with a checkpoint.

    Every record that is stored is hashed again. Only for pruned records the hashes of the tree
    file count, and these must lead to the root of the checkpoint, too.
    """
    store, size = storage.store, checkpoint.size
    if store.last < size:
        end = store.last
        why = f"is gone: the checkpoint has {size} records, {end} is the last"
        return Compared(checkpoint, [RecordFault(end + 1, why)], (RESTORE_FIRST,))
    path = storage.folder / FILE
    pruned = min(store.origin().through, size)
    known = Trees(path, readonly=True) if path.exists() else Trees()
    with known, Trees() as trees:
        if pruned and known.size < pruned:
            why = f"was pruned, and so were those up to {pruned}; their hashes are not here"
            return Compared(checkpoint, [RecordFault(1, why)])
        trees.fill(known.hash_of(seq) for seq in range(1, pruned + 1))
        records = enumerate(added(store, pruned, size), pruned + 1)
        while batch := list(islice(records, _BATCH)):
            gap = next((place for place, record in batch if record.seq != place), None)
            if gap is not None:
                return Compared(checkpoint, [RecordFault(gap, "is gone")])
            trees.add(record for _, record in batch)
        if trees.root() != checkpoint.root:
            return Compared(checkpoint, [_first_changed(known, trees, checkpoint, pruned)])
        if pruned:
            note = f"the runs were not compared: records up to {pruned} were pruned"
            return Compared(checkpoint, [], (note,))
        if checkpoint.runs is not None and (trees.runs, trees.runs_root()) != checkpoint[3:]:
            return Compared(
                checkpoint, [RecordFault(0, "the runs are not those of the checkpoint")]
            )
        return Compared(checkpoint, [])


def _first_changed(known: Trees, trees: Trees, checkpoint: Checkpoint, pruned: int) -> RecordFault:
    """The first record that differs, where the tree file still is that of the checkpoint."""
    size = checkpoint.size
    if known.size >= size and known.root(size) == checkpoint.root:
        for seq in range(pruned + 1, size + 1):
            if known.hash_of(seq) != trees.hash_of(seq):
                return RecordFault(seq, "is not the record that was signed")
    return RecordFault(0, f"the first {size} records are not those of the checkpoint")


def _last(trees: Trees) -> Note | None:
    text = trees.state(_LAST)
    return read_note(text) if text else None


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _number(text: str) -> int:
    if not text.isdecimal() or str(int(text)) != text:
        raise ValueError(text)
    return int(text)


def _hash(text: str) -> bytes:
    hash = base64.b64decode(text, validate=True)
    if len(hash) != 32 or _base64(hash) != text:
        raise ValueError(text)
    return hash
