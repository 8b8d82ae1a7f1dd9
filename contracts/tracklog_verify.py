"""Checks a tracklog journal, or one exported run against its proof. Standard library only.

    tracklog_verify.py HOME                  a whole journal
    tracklog_verify.py RUN.jsonl PROOF.json  an exported run and its proof
    --anchor THROUGH:CHAIN                   a head that was noted elsewhere
    --checkpoint FILE                        a checkpoint that was stored elsewhere: the journal must
                                             continue it, or the run be complete up to it
    --key KEY                                a public key that must have signed the checkpoint, of
                                             the journal or of a witness; may be repeated
    --erased NUMBER,NUMBER                   records of the exported run that you know to be erased

Exit code 0: everything fits. 1: something does not; it is named. 2: it could not be read.
3: everything fits, but the exported run has erased records that --erased does not name, and there is
no anchor. An export can claim that a record was erased; only the journal shows who erased it. Compare
the export with the journal: `tracklog verify --anchor HEAD`, with the head that is printed here.

What is checked: a record's leaf is the SHA-256 of its frame (the line without its line end).
A group of records has a Merkle root: a node is SHA-256(0x01 children) of up to eight in a row,
an only child is its own parent. The chain after a group is
SHA-256(0x02 chain-before through root), after an erasure
SHA-256(0x03 chain-before seq leaf SHA-256-of-the-tombstone); numbers are eight bytes, big end
first; the first chain-before is 32 zero bytes.

A checkpoint is a signed note: origin, number of records, root, and "runs", number of runs, root.
The roots are those of RFC 6962. The leaf data of a record is its leaf above. That of a run is
["family","run",records,"digest"]; the digest after a record is SHA-256(digest-before seq leaf), the
first digest-before is 32 zero bytes.
"""

import base64
import hashlib
import json
import os
import re
import sqlite3
import sys

ARITY = 8
NAME = re.compile(r"[0-9]{20}\.jsonl")
HEX = re.compile(r"[0-9a-f]{64}")


def digest(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def number(value):
    return value.to_bytes(8, "big")


def parents(level):
    found = []
    for at in range(0, len(level), ARITY):
        children = level[at : at + ARITY]
        found.append(children[0] if len(children) == 1 else digest(b"\1", *children))
    return found


def root(leaves):
    while len(leaves) > 1:
        leaves = parents(leaves)
    return leaves[0]


def climb(leaf, index, size, path):
    path = list(path)
    while size > 1:
        start = index - index % ARITY
        beside = min(ARITY, size - start) - 1
        if len(path) < beside:
            return None
        children, path = path[:beside], path[beside:]
        children.insert(index - start, leaf)
        leaf = children[0] if len(children) == 1 else digest(b"\1", *children)
        index, size = index // ARITY, -(-size // ARITY)
    return None if path else leaf


def link(before, through, top):
    return digest(b"\2", before, number(through), top)


def erasure(before, seq, leaf, tombstone):
    return digest(b"\3", before, number(seq), leaf, tombstone)


def read_frame(frame):
    """The object on a line when it is one with a number; else None."""
    try:
        said = json.loads(frame)
    except ValueError:
        return None
    if not isinstance(said, dict) or not isinstance(said.get("seq"), int):
        return None
    return said


def leaf_of(frame, said, stones):
    """The leaf of a frame; that of the erased one for a tombstone."""
    erased = said.get("erased") if said and said.get("event", 0) is None else None
    if isinstance(erased, dict) and HEX.fullmatch(str(erased.get("leaf"))):
        leaf = bytes.fromhex(erased["leaf"])
        stones[said["seq"]] = (leaf, digest(frame))
        return leaf
    return digest(frame)


def lines_of(path):
    """The whole lines of a file, and the bytes behind the last."""
    with open(path, "rb") as file:
        for line in file:
            yield line[:-1] if line.endswith(b"\n") else line, line.endswith(b"\n")


def tree_leaf(data):
    return digest(b"\0", data)


def tree_root(hashes):
    """The root of RFC 6962 over the hashes of leaves."""
    stack = []
    for index, leaf in enumerate(hashes):
        top, rest = leaf, index
        while rest & 1:
            top, rest = digest(b"\1", stack.pop(), top), rest >> 1
        stack.append(top)
    top = stack.pop() if stack else digest()
    while stack:
        top = digest(b"\1", stack.pop(), top)
    return top


def tree_climb(hash, index, size, path):
    """The root that the hash of a leaf and its path lead to, or None."""
    path = list(path)
    while size > 1:
        if index % 2 or index + 1 < size:
            if not path:
                return None
            beside = path.pop(0)
            hash = digest(b"\1", beside, hash) if index % 2 else digest(b"\1", hash, beside)
        index, size = index // 2, (size + 1) // 2
    return None if path or index else hash


# Ed25519 as RFC 8032 has it, for verifying only: slow, and with nothing to hide.
PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, PRIME - 2, PRIME) % PRIME


def point(data):
    """The point that 32 bytes encode, or None."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= PRIME:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, PRIME - 2, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if (x * x - square) % PRIME or (x == 0 and sign):
        return None
    x = PRIME - x if x & 1 != sign else x
    return x, y, 1, x * y % PRIME


def plus(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % PRIME, (p[1] + p[0]) * (q[1] + q[0]) % PRIME
    c, d = 2 * p[3] * q[3] * D % PRIME, 2 * p[2] * q[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def times(scalar, p):
    found = (0, 1, 1, 0)
    while scalar:
        found, p, scalar = plus(found, p) if scalar & 1 else found, plus(p, p), scalar >> 1
    return found


BASE = point((4 * pow(5, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little"))


def is_signed(key, message, signature):
    """Whether an Ed25519 signature is that of a public key over a message."""
    public, r = point(key), point(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or public is None or r is None or s >= ORDER:
        return False
    hash = hashlib.sha512(signature[:32] + key + message).digest()
    left, right = times(s, BASE), plus(r, times(int.from_bytes(hash, "little") % ORDER, public))
    return all((left[at] * right[2] - right[at] * left[2]) % PRIME == 0 for at in (0, 1))


def unsigned(note, keys):
    """The first of the keys that did not sign a note as it is, or None."""
    text, _, lines = note.rpartition("\n\n")
    text += "\n"
    signatures = [line.split(" ") for line in lines.split("\n") if line.startswith("\u2014 ")]
    for key in keys:
        name, id, encoded = key.split("+", 2)
        kind, public = base64.b64decode(encoded)[:1], base64.b64decode(encoded)[1:]
        if digest(name.encode(), b"\n", kind, public)[:4].hex() != id or kind not in (b"\1", b"\4"):
            raise ValueError(f"{key} is no key")
        for _, signer, coded in signatures:
            value = base64.b64decode(coded)
            message, end = text, value[4:]
            if kind == b"\4":
                time = int.from_bytes(end[:8], "big")
                message, end = f"cosignature/v1\ntime {time}\n{text}", end[8:]
            known = (signer, value[:4].hex()) == (name, id)
            if known and is_signed(public, message.encode(), end):
                break
        else:
            return key
    return None


def stated(note):
    """Size and root of the records, number and root of the runs, in a checkpoint."""
    lines = note.rpartition("\n\n")[0].split("\n")
    runs = [line.split(" ") for line in lines[3:] if line.startswith("runs ")]
    count, top = (int(runs[0][1]), base64.b64decode(runs[0][2])) if runs else (0, b"")
    return int(lines[1]), base64.b64decode(lines[2]), count, top


def check_signed(note, keys):
    """A fault if one of the keys did not sign, or None."""
    missing = unsigned(note, keys)
    return (0, f"the checkpoint is not signed by {missing}") if missing else None


class Journal:
    """One walk over a journal's folder; it stops at the first thing that does not fit."""

    def __init__(self, folder, anchor):
        self.folder, self.anchor = folder, anchor
        self.through, self.chain = 0, bytes(32)
        self.records, self.stones, self.links, self.notes = 0, {}, {}, []
        self.leaves, self.states, self.prunes = [], {}, []
        self.met = anchor is None or anchor == (0, bytes(32).hex())

    def check(self):
        """The first fault as (seq, why), or None."""
        firsts = sorted(int(name[:20]) for name in os.listdir(self.folder) if NAME.fullmatch(name))
        self.begin(firsts)
        for at, first in enumerate(firsts):
            if first != self.through + 1:
                return self.through + 1, "no segment holds it"
            fault = self.segment(first, last=at == len(firsts) - 1)
            if fault:
                return fault
        return self.orphans(firsts) or self.erasures() or self.anchored()

    def pruned(self):
        """A fault if records were pruned, and no record says who did it."""
        through = self.through - self.records
        for label, run, data in self.prunes if through else ():
            noted = data.get("through")
            if not isinstance(noted, int):
                continue
            by = data.get("by") or "somebody whose name was not recorded"
            if label == "prune" and run == ("tracklog", "operations") and noted >= through:
                self.notes.append(f"they were pruned by {by}")
                return None
            if label == "pruned" and noted == through:  # as older versions noted it
                self.notes.append(f"they were pruned by {by}")
                return None
        if through:
            return 1, f"is gone, up to {through}: noted as pruned, and no record says who did it"
        return None

    def orphans(self, firsts):
        """A segment that is gone though its chain speaks of records."""
        for name in sorted(os.listdir(self.folder)):
            base, _, kind = name.partition(".")
            if kind != "chain" or int(base) in firsts:
                continue
            for line, _ in lines_of(os.path.join(self.folder, name)):
                said = self.exactly(line)
                if said and said.get("through", 0) >= int(base):
                    return int(base), "its segment is missing"
        return None

    def begin(self, firsts):
        path = os.path.join(self.folder, "pruned")
        if not os.path.exists(path) or not firsts:
            return
        with open(path, "rb") as file:
            said = json.loads(file.read().splitlines()[-1])
        if firsts[0] == said["through"] + 1:
            self.through, self.chain = said["through"], bytes.fromhex(said["chain"])
            self.notes.append(f"records up to {self.through} were pruned")
            self.meet()

    def meet(self):
        self.met = self.met or self.anchor == (self.through, self.chain.hex())

    def segment(self, first, last):
        base = os.path.join(self.folder, f"{first:020d}")
        if not os.path.exists(base + ".chain"):
            return first, "the chain of its segment is missing"
        frames = lines_of(base + ".jsonl")
        sealed = False
        for place, (line, whole) in enumerate(lines_of(base + ".chain")):
            if not whole and last and place and not sealed and not self.exactly(line[:-1]):
                self.notes.append("the last line of the chain is torn, as a crash leaves it")
                break
            said = self.exactly(line) if whole and not sealed else None
            if said is None or ("opened" in said) != (place == 0):
                return self.through + 1, "a chain line was changed, added or torn"
            fault = self.step(said, frames)
            if fault:
                return fault
            sealed = "sealed" in said
        fault = self.tail(frames, mended=last and not sealed)
        if fault:
            return fault
        if (
            sealed
            and last
            and os.path.exists(os.path.join(self.folder, f"{self.through + 1:020d}.next"))
        ):
            self.notes.append(
                "no segment begins behind it yet, as a crash or a full disk leaves it"
            )
        elif sealed == last:
            return self.through + 1, "its segment is missing" if last else "no seal before it"
        return None

    def tail(self, frames, mended):
        """What stands behind the chain; a crash may leave half a group at the end of a journal."""
        seq = self.through
        for frame, whole in frames:
            seq += 1
            found = read_frame(frame) if whole else None
            if not mended or (found and found["seq"] != seq):
                return self.through + 1, "it has no chain line"
            ours = found is not None and {"received", "dialect", "run", "event"} <= set(found)
            if whole and not ours and b"\0" not in frame:
                return self.through + 1, "a line that was never recorded stands in its place"
        if seq > self.through:
            self.notes.append(f"what stands behind record {self.through} is not chained yet")
        return None

    def exactly(self, line):
        """The object on a chain line that is written as every chain line is; else None."""
        try:
            said = json.loads(line)
        except ValueError:
            return None
        if json.dumps(said, separators=(",", ":")).encode() != line:
            return None
        return said if isinstance(said, dict) else None

    def step(self, said, frames):
        keys, before = list(said), self.chain
        if said.get("synced") is False and keys[3] == "synced":
            keys.remove("synced")
        if keys == ["through", "leaves", "root", "chain"]:
            fault, self.chain = self.group(said, frames)
            if fault:
                return fault
        elif keys == ["through", "erased", "leaf", "tombstone", "chain"]:
            if not HEX.fullmatch(said["leaf"]) or not HEX.fullmatch(said["tombstone"]):
                return self.through + 1, "a chain line was changed"
            leaf, stone = bytes.fromhex(said["leaf"]), bytes.fromhex(said["tombstone"])
            self.links.setdefault(said["erased"], []).append((leaf, stone))
            self.chain = erasure(before, said["erased"], leaf, stone)
        elif said.get("opened") != 1 and said.get("sealed") is not True:
            return self.through + 1, "a chain line was changed"
        if (said["through"], said["chain"]) != (self.through, self.chain.hex()):
            return self.through + 1, "the chain is broken before it"
        self.meet()
        return None

    def group(self, said, frames):
        """The first record of a group that is not as it was, and the chain after it."""
        short, leaves = said["leaves"], []
        if len(short) != 8 * (said["through"] - self.through) or not short:
            return (self.through + 1, "a chain line was removed, added or changed"), b""
        for at in range(len(short) // 8):
            seq = self.through + at + 1
            frame, whole = next(frames, (b"", False))
            found = read_frame(frame)
            leaf = leaf_of(frame, found, self.stones)
            if not whole or leaf.hex()[:8] != short[at * 8 : at * 8 + 8]:
                return (seq, "was changed, moved or removed, or its entry in the chain was"), b""
            if found is None or found["seq"] != seq:
                return (seq, "has another number"), b""
            leaves.append(leaf)
            self.states.setdefault(run_of(found), []).append((seq, leaf))
            self.note_of(found)
        top = root(leaves)
        if top.hex() != said["root"]:
            return (self.through + 1, "or one that follows it in its group was changed"), b""
        self.through, self.records = said["through"], self.records + len(leaves)
        self.leaves += leaves
        return None, link(self.chain, self.through, top)

    def note_of(self, said):
        """Remember the note of a pruning."""
        event = said.get("event")
        if said.get("dialect") != "tracklog" or not isinstance(event, dict):
            return
        if event.get("fact") == "Noted" and event.get("label") in ("prune", "pruned"):
            data = event.get("data")
            self.prunes.append((event["label"], run_of(said), data or {}))

    def erasures(self):
        for seq, stone in sorted(self.stones.items()):
            if stone not in self.links.get(seq, ()):
                return seq, "was replaced by a tombstone that is not chained"
        for seq in sorted(self.links):
            if seq not in self.stones and seq > self.through - self.records:
                return seq, "its erasure was begun and not finished"
        return None

    def anchored(self):
        if self.met:
            return None
        if self.anchor[0] > self.through:
            return self.through + 1, f"the tail was cut: the anchor knows record {self.anchor[0]}"
        return self.anchor[0], "the chain is not the one that the anchor was taken from"

    def extends(self, note, home):
        """The fault if the journal does not continue a checkpoint, or None."""
        size, top, count, runs = stated(note)
        pruned = self.through - self.records
        hashes = self.pruned_hashes(home, pruned) if pruned else []
        hashes = (hashes + [tree_leaf(leaf) for leaf in self.leaves])[:size]
        if len(hashes) < size:
            return self.through + 1, f"is gone: the checkpoint has {size} records"
        if tree_root(hashes) != top:
            return 0, f"the first {size} records are not those of the checkpoint"
        if pruned or not runs:
            self.notes.append("the runs were not compared")
            return None
        states = [
            (records[0][0], run_entry(run, records, size)) for run, records in self.states.items()
        ]
        entries = [tree_leaf(entry) for first, entry in sorted(states) if first <= size]
        if (len(entries), tree_root(entries)) != (count, runs):
            return 0, "the runs are not those of the checkpoint"
        return None

    def pruned_hashes(self, home, pruned):
        """The hashes of records that were pruned, from the file with the trees."""
        with sqlite3.connect(f"file:{os.path.join(home, 'tree.db')}?mode=ro", uri=True) as file:
            rows = "SELECT hashes FROM tiles WHERE tree = 0 AND level = 0 ORDER BY number"
            hashes = b"".join(row[0] for row in file.execute(rows))
        return [hashes[at : at + 32] for at in range(0, 32 * pruned, 32)]


def run_of(frame):
    return frame.get("family", frame.get("dialect")), frame.get("run")


def run_entry(run, records, size):
    """The leaf of a run in the run tree, by its records up to a size."""
    count, sum = 0, bytes(32)
    for seq, leaf in records:
        if seq <= size:
            count, sum = count + 1, digest(sum, number(seq), leaf)
    words = [*run, count, sum.hex()]
    return json.dumps(words, separators=(",", ":"), ensure_ascii=False).encode()


def check_complete(proof, records, note, keys):
    """The fault if a run is not complete up to a checkpoint, or None."""
    complete = proof.get("complete")
    if complete is None:
        return (0, "the proof does not say that the run is complete") if note or keys else None
    signed = complete["checkpoint"]
    if note and note.rpartition("\n\n")[0] != signed.rpartition("\n\n")[0]:
        return 0, "the proof is for another checkpoint"
    size, _, count, runs = stated(signed)
    path = [bytes.fromhex(each) for each in complete["path"]]
    entry = complete["entry"].encode()
    if tree_climb(tree_leaf(entry), complete["number"], count, path) != runs:
        return 0, "the checkpoint does not have this run as the proof says"
    run = proof["family"], proof["run"]
    if json.loads(run_entry(run, records, size)) != json.loads(entry):
        return 0, f"up to record {size}, a record of this run was left out, added or changed"
    return check_signed(note or signed, keys)


def check_proof(proof, lines, anchor, note="", keys=()):
    """The first fault of an exported run as (seq, why), or None."""
    chain, through = bytes.fromhex(proof["before"]["chain"]), proof["before"]["through"]
    groups, stones = [], set()
    for told in proof["links"]:
        if "root" in told:
            top = bytes.fromhex(told["root"])
            groups.append((through, told["through"], top))
            through = told["through"]
            chain = link(chain, through, top)
        else:
            leaf, stone = bytes.fromhex(told["leaf"]), bytes.fromhex(told["tombstone"])
            stones.add((told["erased"], leaf, stone))
            chain = erasure(chain, told["erased"], leaf, stone)
    if (through, chain.hex()) != (proof["head"]["through"], proof["head"]["chain"]):
        return through, "the links do not lead to the head that the proof names"
    if anchor and (through, chain.hex()) != anchor:
        return through, "the head is not the anchor"
    rest, records = iter(lines), []
    for entry in proof["records"]:
        seq = entry["seq"]
        if "tombstone" in entry:
            frame, found = entry["tombstone"].encode(), {}
            leaf = leaf_of(frame, read_frame(frame), found)
            if (seq, *found.get(seq, ())) not in stones:
                return seq, "its tombstone is not chained"
        else:
            line = next(rest, None)
            if line is None:
                return seq, "is gone"
            head = entry["head"].encode()
            frame = line if line.startswith(head) else head + line + b"}"
            leaf = digest(frame)
        records.append((seq, leaf))
        said = read_frame(frame) or {}
        family = said.get("family", said.get("dialect"))
        if (said.get("seq"), family, said.get("run")) != (seq, proof["family"], proof["run"]):
            return seq, "its frame does not say this number and this run"
        path = [bytes.fromhex(each) for each in entry["path"]]
        inside = [group for group in groups if group[0] < seq <= group[1]]
        if (
            not inside
            or climb(leaf, seq - inside[0][0] - 1, inside[0][1] - inside[0][0], path)
            != inside[0][2]
        ):
            return seq, "was changed"
    if next(rest, None) is not None:
        return proof["records"][-1]["seq"], "is followed by a line that is not proven"
    return check_complete(proof, records, note, keys)


def option(arguments, name):
    """The values of an option, and the arguments without it."""
    values = []
    while name in arguments:
        at = arguments.index(name)
        values += arguments[at + 1 : at + 2] or [""]
        arguments = arguments[:at] + arguments[at + 2 :]
    return values, arguments


def main(arguments):
    anchor = None
    places, arguments = option(arguments, "--checkpoint")
    keys, arguments = option(arguments, "--key")
    known, arguments = option(arguments, "--erased")
    if "--anchor" in arguments:
        at = arguments.index("--anchor")
        through, _, chain = (arguments[at + 1 : at + 2] or [""])[0].partition(":")
        if not through.isdigit() or not HEX.fullmatch(chain):
            print("--anchor needs THROUGH:CHAIN", file=sys.stderr)
            return 2
        anchor = int(through), chain
        arguments = arguments[:at] + arguments[at + 2 :]
    asked = "-h" in arguments or "--help" in arguments
    if asked or len(arguments) not in (1, 2):
        print(__doc__, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    try:
        note = read_text(places[-1]) if places else ""
        known = {int(each) for text in known for each in text.split(",")}
        fault, told, stones = judge(arguments, anchor, note, keys)
    except OSError as error:
        print(f"{error.filename or arguments[0]} cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        print(
            f"{arguments[-1]} is not what it should be: {error!r:.200}\n"
            "  name a home, or a run and its proof, both of which this makes:\n"
            "  tracklog events RUN --raw --proof PROOF.json > RUN.jsonl",
            file=sys.stderr,
        )
        return 2
    if fault:
        told = f"record {fault[0]}: {fault[1]}" if fault[0] else fault[1]
    print(told)
    if fault:
        return 1
    return 3 if set(stones) - known and anchor is None else 0


def read_text(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def erased_note(seqs):
    """Which records are tombstones: what they held is gone, and cannot be compared."""
    return "without the content of erased records: " + ", ".join(map(str, seqs))


def judge(arguments, anchor, note, keys):
    """The first fault, what to say when there is none, and the erased records of an export."""
    if len(arguments) == 2:
        with open(arguments[1], "rb") as file:
            proof = json.load(file)
        with open(arguments[0], "rb") as file:
            lines = [line for line in file.read().split(b"\n") if line]
        head = f"{proof['head']['through']}:{proof['head']['chain']}"
        told = f"proven: {len(lines)} lines, head {head}"
        stones = [entry["seq"] for entry in proof["records"] if "tombstone" in entry]
        without = erased_note(stones) if stones else ""
        if proof.get("complete") is not None:
            told += f"\ncomplete up to record {stated(proof['complete']['checkpoint'])[0]}"
            told += f", {without}" if without else ""
        elif without:
            told += f"\n{without}"
        if stones:
            told += "\nwho erased them is in the journal: tracklog verify --anchor " + head
        return check_proof(proof, lines, anchor, note, keys), told, stones
    folder = os.path.join(arguments[0], "journal")
    folder = folder if os.path.isdir(folder) else arguments[0]
    if not any(map(NAME.fullmatch, os.listdir(folder))):
        raise ValueError("no journal is in this folder")
    journal = Journal(folder, anchor)
    fault = journal.check() or journal.pruned()
    if note and not fault:
        fault = check_signed(note, keys) or journal.extends(note, arguments[0])
        journal.notes.append(f"continues the checkpoint of {stated(note)[0]} records")
    if journal.stones:
        journal.notes.append(erased_note(sorted(journal.stones)))
    told = f"verified: {journal.records} records, head {journal.through}:{journal.chain.hex()}"
    return fault, "\n".join([told, *journal.notes]), []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
