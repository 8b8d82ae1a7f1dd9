"""Checks a tracklog journal, or one exported run against its proof. Standard library only.

    tracklog_verify.py HOME                  a whole journal
    tracklog_verify.py RUN.jsonl PROOF.json  an exported run and its proof
    --anchor THROUGH:CHAIN                   a head that was noted elsewhere

Exit code 0: everything fits. 1: something does not; it is named. 2: it could not be read.

What is checked: a record's leaf is the SHA-256 of its frame (the line without its line end).
A group of records has a Merkle root: a node is SHA-256(0x01 children) of up to eight in a row,
an only child is its own parent. The chain after a group is
SHA-256(0x02 chain-before through root), after an erasure
SHA-256(0x03 chain-before seq leaf SHA-256-of-the-tombstone); numbers are eight bytes, big end
first; the first chain-before is 32 zero bytes.
"""

import hashlib
import json
import os
import re
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
    erased = said.get("erased") if said else None
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


class Journal:
    """One walk over a journal's folder; it stops at the first thing that does not fit."""

    def __init__(self, folder, anchor):
        self.folder, self.anchor = folder, anchor
        self.through, self.chain = 0, bytes(32)
        self.records, self.stones, self.links, self.notes = 0, {}, {}, []
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
        if sealed == last:
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
                return (seq, "was changed, moved or removed"), b""
            if found is None or found["seq"] != seq:
                return (seq, "has another number"), b""
            leaves.append(leaf)
        top = root(leaves)
        if top.hex() != said["root"]:
            return (self.through + 1, "or one that follows it in its group was changed"), b""
        self.through, self.records = said["through"], self.records + len(leaves)
        return None, link(self.chain, self.through, top)

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


def check_proof(proof, lines, anchor):
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
    rest = iter(lines)
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
    return None


def main(arguments):
    anchor = None
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
        fault, told = judge(arguments, anchor)
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
    print(f"record {fault[0]}: {fault[1]}" if fault else told)
    return 1 if fault else 0


def judge(arguments, anchor):
    """The first fault, and what to say when there is none."""
    if len(arguments) == 2:
        with open(arguments[1], "rb") as file:
            proof = json.load(file)
        with open(arguments[0], "rb") as file:
            lines = [line for line in file.read().split(b"\n") if line]
        head = f"{proof['head']['through']}:{proof['head']['chain']}"
        return check_proof(proof, lines, anchor), f"proven: {len(lines)} lines, head {head}"
    folder = os.path.join(arguments[0], "journal")
    folder = folder if os.path.isdir(folder) else arguments[0]
    if not any(map(NAME.fullmatch, os.listdir(folder))):
        raise ValueError("no journal is in this folder")
    journal = Journal(folder, anchor)
    fault = journal.check()
    told = f"verified: {journal.records} records, head {journal.through}:{journal.chain.hex()}"
    return fault, "\n".join([told, *journal.notes])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
