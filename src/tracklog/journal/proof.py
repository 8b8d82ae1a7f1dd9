"""The proof of an exported run, which can be checked without the journal."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from tracklog.journal import merkle
from tracklog.journal.checkpoints.completeness import (
    Completeness,
    check_completeness,
    completeness,
)
from tracklog.journal.checkpoints.notes import Note, Verifier
from tracklog.journal.comparing import RecordFault
from tracklog.journal.frame import EVENT, Run, leaf_of, record, seq_of
from tracklog.journal.merkle import Head, Link
from tracklog.journal.storages import Storage
from tracklog.journal.stores import Store
from tracklog.model.errors import BadCheckpoint, NoSuchRecord, NotProven

_FORMAT = 1
"""Of proofs."""


class ChainHead(TypedDict):
    """A place in the chain: its last record, and the hash there."""

    through: int
    chain: str


class ProofLink(TypedDict, total=False):
    """A commit group, by `through` and `root`, or an erasure."""

    through: int
    root: str
    erased: int
    leaf: str
    tombstone: str


class ProofRecord(TypedDict):
    """A record: the beginning of its frame or its tombstone, and its path to the root."""

    seq: int
    head: NotRequired[str]
    tombstone: NotRequired[str]
    path: list[str]


class Proof(TypedDict):
    """The path from each record of a run to a head of the chain."""

    format: int
    family: str
    run: str
    before: ChainHead
    links: list[ProofLink]
    head: ChainHead
    records: list[ProofRecord]
    complete: NotRequired[Completeness]
    """That no record of the run is missing up to a checkpoint, where there is one."""


def prove_all(storage: Storage, run: Run, anchor: Head | None = None) -> Proof:
    """The proof of a run, with that of its completeness if a checkpoint was made."""
    proof = prove(storage.store, run, anchor)
    numbers = [each["seq"] for each in proof["records"]]
    complete = completeness(storage, run, numbers, proof["head"]["through"])
    if complete is not None:
        proof["complete"] = complete
    return proof


def prove(store: Store, run: Run, anchor: Head | None = None) -> Proof:
    """The proof of a run, as JSON.

    The head is the anchor if one is given, else the present one.
    `contracts/tracklog_verify.py` checks the proof beside the run's lines.
    """
    goal = anchor or store.head()
    frames = {seq_of(frame): frame for frame in _frames_of(store, run)}
    frames = {seq: frame for seq, frame in frames.items() if seq <= goal.through}
    if not frames:
        raise NoSuchRecord(
            f"there is no record of run {run[1]!r} in family {run[0]!r} up to {goal.through}",
            "`tracklog runs` lists what is there",
        )
    numbers = sorted(frames)
    links: list[ProofLink] = []
    proven: list[ProofRecord] = []
    before = start = store.origin()
    for link in store.links():
        if link.through >= numbers[0]:
            if not links:
                start = before
            links.append(_link(link))
            if link.kind == "group":
                begin = bisect_left(numbers, before.through + 1)
                inside = numbers[begin : bisect_left(numbers, link.through + 1)]
                if inside:
                    proven += _paths(store, before.through, link.through, inside, frames)
        before = Head(link.through, link.chain.hex())
        if before == goal and links:
            break
    else:
        raise NoSuchRecord(f"the chain does not reach {goal}", "run `tracklog verify`")
    return Proof(
        format=_FORMAT,
        family=run[0],
        run=run[1],
        before=_place(start),
        links=links,
        head=_place(goal),
        records=proven,
    )


def _place(head: Head) -> ChainHead:
    return {"through": head.through, "chain": head.chain}


def _frames_of(store: Store, run: Run) -> Iterator[bytes]:
    after = 0
    while frames := store.read(after, 1000, run):
        yield from frames
        after = seq_of(frames[-1])


def _link(link: Link) -> ProofLink:
    if link.kind == "group":
        return {"through": link.through, "root": link.root.hex()}
    return {"erased": link.seq, "leaf": link.leaf.hex(), "tombstone": link.tombstone.hex()}


def _paths(
    store: Store, before: int, through: int, inside: list[int], frames: Mapping[int, bytes]
) -> Iterator[ProofRecord]:
    """The records of one group that are of the run, each with its path to the group's root."""
    leaves: list[bytes] = []
    after = before
    while after < through and (group := store.read(after, through - after)):
        leaves += map(leaf_of, group)
        after = seq_of(group[-1])
    if len(leaves) != through - before:
        raise NotProven(
            f"this run cannot be proven: a record between {before + 1} and {through} is damaged",
            "`tracklog verify` says more; `export --no-proof` writes it all the same",
        )
    for seq in inside:
        frame = frames[seq]
        cut = frame.find(EVENT) + len(EVENT)
        entry = record(frame)
        path = [each.hex() for each in merkle.path(leaves, seq - before - 1)]
        if entry and entry.erased:
            yield {"seq": seq, "tombstone": frame.decode(), "path": path}
        else:
            yield {"seq": seq, "head": frame[:cut].decode(), "path": path}


def check_proof(
    proof: Mapping[str, Any],
    run_lines: Iterable[bytes],
    anchor: Head | None = None,
    checkpoint: Note | None = None,
    keys: Sequence[Verifier] = (),
) -> list[RecordFault]:
    """What does not fit between an exported run's lines, its proof and an anchor; nothing when all does.

    The lines are those of the run in order, without those that were erased. With a checkpoint, or
    with keys that must have signed that of the proof, the proof must show that the run is complete.
    """
    try:
        leaves: list[tuple[int, bytes]] = []
        faults = list(_check_proof(proof, list(run_lines), anchor, leaves))
        run = proof["family"], proof["run"]
        complete = proof.get("complete")
        return faults + list(check_completeness(complete, run, leaves, checkpoint, keys))
    except BadCheckpoint as error:
        return [RecordFault(0, error.message)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return [RecordFault(0, f"the proof cannot be read: {error!r}")]


def _check_proof(
    proof: Mapping[str, Any],
    run_lines: list[bytes],
    anchor: Head | None,
    leaves: list[tuple[int, bytes]],
) -> Iterator[RecordFault]:
    """What does not fit; `leaves` gets the leaf of each record, by its number."""
    chained, through = bytes.fromhex(proof["before"]["chain"]), proof["before"]["through"]
    groups: list[tuple[int, int, bytes]] = []
    stones: set[tuple[int, bytes, bytes]] = set()
    for link in proof["links"]:
        if "root" in link:
            top = bytes.fromhex(link["root"])
            groups.append((through, link["through"], top))
            through = link["through"]
            chained = merkle.chain_after(chained, through, top)
        else:
            seq, leaf = link["erased"], bytes.fromhex(link["leaf"])
            stone = bytes.fromhex(link["tombstone"])
            stones.add((seq, leaf, stone))
            chained = merkle.erasure_link(chained, seq, leaf, stone)
    reached = Head(through, chained.hex())
    if reached != Head(**proof["head"]):
        yield RecordFault(through, "the links do not lead to the head that the proof names")
    if anchor is not None and reached != anchor:
        yield RecordFault(through, "the head is not the anchor")
    rest = iter(run_lines)
    starts = [after for after, _, _ in groups]
    for entry in proof["records"]:
        seq = entry["seq"]
        if "tombstone" in entry:
            frame = entry["tombstone"].encode()
            row = record(frame)
            erased = row.erased if row else None
            leaf = bytes.fromhex(erased.leaf) if erased else b""
            if (seq, leaf, merkle.leaf(frame)) not in stones:
                yield RecordFault(seq, "its tombstone is not chained")
        else:
            line = next(rest, None)
            if line is None:
                yield RecordFault(seq, "is gone")
                return
            begin = entry["head"].encode()
            frame = line if line.startswith(begin) else begin + line + b"}"
            leaf = merkle.leaf(frame)
        leaves.append((seq, leaf))
        tombstone = record(frame)
        if tombstone is None or (tombstone.seq, tombstone.family, tombstone.run) != (
            seq,
            proof["family"],
            proof["run"],
        ):
            yield RecordFault(seq, "its frame does not say this number and this run")
        at = bisect_left(starts, seq) - 1
        path = [bytes.fromhex(each) for each in entry["path"]]
        after, upto, top = groups[at] if at >= 0 else (0, 0, b"")
        if (
            not after < seq <= upto
            or merkle.climb(leaf, seq - after - 1, upto - after, path) != top
        ):
            yield RecordFault(seq, "was changed")
    if next(rest, None) is not None:
        yield RecordFault(proof["records"][-1]["seq"], "is followed by a line that is not proven")
