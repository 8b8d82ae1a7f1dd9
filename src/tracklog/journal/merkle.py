"""The hashes that make changes evident: leaves, Merkle roots, the chain, and its lines.

A record's leaf is the SHA-256 of its frame. A commit group has the Merkle root of its leaves: a
node is SHA-256(0x01 children) of up to eight in a row (an only child is its own parent), and no
leaf can pass for a node, because every frame opens with a brace. The roots are chained:

    group     chain = SHA-256(0x02 chain-before through root)
    erasure   chain = SHA-256(0x03 chain-before seq leaf SHA-256-of-the-tombstone)

Numbers are eight bytes, big-endian. The first chain-before is 32 zero bytes.
"""

import re
from array import array
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

ORIGIN = bytes(32)
"""What the first link of a journal is chained to."""

ARITY = 8
"""Children of a node: two would make shorter paths, and four times the hashing at intake."""

SHORT = 4
"""Bytes of each leaf that a chain line repeats, so that one bad record can be named."""


class Head(NamedTuple):
    """The end of a chain; noted elsewhere, it is an anchor."""

    through: int
    chain: str

    def __str__(self) -> str:
        return f"{self.through}:{self.chain}"


NOTHING = Head(0, ORIGIN.hex())
"""The head of a journal that never had a record."""


class Link(NamedTuple):
    """One line of a chain file."""

    kind: Literal["opened", "group", "erased", "sealed"]
    through: int
    """The last record that the chain covers after this line."""
    chain: bytes
    root: bytes = b""
    """Of a group."""
    leaves: bytes = b""
    """Of a group: the first bytes of each leaf."""
    seq: int = 0
    """Of an erasure: the record erased."""
    leaf: bytes = b""
    """Of an erasure: of the frame that is gone."""
    tombstone: bytes = b""
    """Of an erasure: SHA-256 of the frame that stands in its place."""
    synced: bool = True
    """Of a group: whether its frames, and so all before them, were on disk before this line."""


def leaf(frame: bytes) -> bytes:
    """SHA-256 of the frame, its line end left out."""
    return sha256(frame).digest()


def leaves(frames: Sequence[bytes]) -> list[bytes]:
    """The leaf of each frame."""
    return [sha256(frame).digest() for frame in frames]


def root(leaves: Sequence[bytes]) -> bytes:
    """The Merkle root of one leaf or more."""
    level = leaves
    while len(level) > 1:
        level = _parents(level)
    return level[0]


def path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes that lead from a leaf to the root: its siblings, then its parent's, and so on."""
    hashes: list[bytes] = []
    level = leaves
    while len(level) > 1:
        start = index - index % ARITY
        hashes += [level[at] for at in range(start, min(start + ARITY, len(level))) if at != index]
        level, index = _parents(level), index // ARITY
    return hashes


def climb(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that a leaf and its path lead to; None when the path has the wrong length."""
    used = 0
    while size > 1:
        beside = min(ARITY, size - index + index % ARITY) - 1
        near = list(path[used : used + beside])
        if len(near) != beside:
            return None
        near.insert(index % ARITY, leaf)
        leaf = sha256(b"\1" + b"".join(near)).digest() if beside else leaf
        used += beside
        index, size = index // ARITY, -(-size // ARITY)
    return leaf if used == len(path) else None


def _parents(level: Sequence[bytes]) -> list[bytes]:
    """One level up; a node without siblings is its own parent."""
    nodes = [
        sha256(b"\1" + b"".join(level[at : at + ARITY])).digest()
        for at in range(0, len(level), ARITY)
    ]
    if len(level) % ARITY == 1:
        nodes[-1] = level[-1]
    return nodes


def chain_after(before: bytes, through: int, root: bytes) -> bytes:
    """The chain after a group."""
    return sha256(b"\2" + before + through.to_bytes(8, "big") + root).digest()


def erasure_link(before: bytes, seq: int, leaf: bytes, tombstone: bytes) -> bytes:
    """The chain after an erasure."""
    return sha256(b"\3" + before + seq.to_bytes(8, "big") + leaf + tombstone).digest()


def opened(through: int, chain: bytes) -> bytes:
    """The first line of a chain file: what it continues."""
    return b'{"through":%d,"opened":1,"chain":"%b"}\n' % (through, _hex(chain))


def group(
    before: bytes, through: int, leaves: Sequence[bytes], *, synced: bool = True
) -> tuple[bytes, bytes]:
    """The line of a commit group, and the chain after it."""
    top = root(leaves)
    after = chain_after(before, through, top)
    flag = "" if synced else ',"synced":false'
    line = f'{{"through":{through},"leaves":"{_short(leaves).hex()}","root":"{top.hex()}"{flag}'
    return f'{line},"chain":"{after.hex()}"}}\n'.encode(), after


def _short(leaves: Sequence[bytes]) -> bytes:
    """The beginnings of the leaves."""
    if len(leaves) == 1:
        return leaves[0][:SHORT]
    words = array("I", b"".join(leaves))
    return words[:: 32 // words.itemsize].tobytes()


def is_link(link: Link, before: bytes | None, leaves: Sequence[bytes]) -> bool:
    """Whether a group's link is that of these leaves; without `before` its chain is not compared."""
    if before is None:
        return root(leaves) == link.root
    return link._replace(synced=True) == group_link(before, link.through, leaves)


def is_proven(link: Link, before: bytes, leaves: Sequence[bytes]) -> bool:
    """Whether the root and the chain of a group's link are those of these leaves."""
    top = root(leaves)
    return (link.root, link.chain) == (top, chain_after(before, link.through, top))


def group_link(before: bytes, through: int, leaves: Sequence[bytes]) -> Link:
    """The link of a commit group."""
    top = root(leaves)
    after = chain_after(before, through, top)
    return Link("group", through, after, root=top, leaves=_short(leaves))


def erased(
    before: bytes, through: int, seq: int, leaf: bytes, tombstone: bytes
) -> tuple[bytes, bytes]:
    """The line of an erasure, and the chain after it."""
    after = erasure_link(before, seq, leaf, tombstone)
    line = b'{"through":%d,"erased":%d,"leaf":"%b","tombstone":"%b","chain":"%b"}\n'
    return line % (through, seq, _hex(leaf), _hex(tombstone), _hex(after)), after


def sealed(through: int, chain: bytes) -> bytes:
    """The last line of a chain file: another segment follows."""
    return b'{"through":%d,"sealed":true,"chain":"%b"}\n' % (through, _hex(chain))


def line(link: Link) -> bytes:
    """The line of a link."""
    if link.kind == "opened":
        return opened(link.through, link.chain)
    if link.kind == "sealed":
        return sealed(link.through, link.chain)
    end = b',"chain":"%b"}\n' % _hex(link.chain)
    if link.kind == "erased":
        middle = b'"erased":%d,"leaf":"%b","tombstone":"%b"' % (
            link.seq,
            _hex(link.leaf),
            _hex(link.tombstone),
        )
    else:
        middle = b'"leaves":"%b","root":"%b"' % (_hex(link.leaves), _hex(link.root))
        middle += b"" if link.synced else b',"synced":false'
    return b'{"through":%d,%b%b' % (link.through, middle, end)


_LINE = re.compile(
    rb'\{"through":%(n)b,'
    rb'(?:(?P<opened>"opened":1)|(?P<sealed>"sealed":true)'
    rb'|"leaves":"(?P<leaves>(?:[0-9a-f]{8})+)","root":%(root)b(?P<unsynced>,"synced":false)?'
    rb'|"erased":(?P<seq>[1-9][0-9]{0,18}),"leaf":%(leaf)b,"tombstone":%(stone)b)'
    rb',"chain":(?P<chain>"[0-9a-f]{64}")\}'
    % {
        b"n": rb"(?P<through>0|[1-9][0-9]{0,18})",
        b"root": rb'(?P<root>"[0-9a-f]{64}")',
        b"leaf": rb'(?P<leaf>"[0-9a-f]{64}")',
        b"stone": rb'(?P<stone>"[0-9a-f]{64}")',
    }
)


def read(line: bytes) -> Link | None:
    """The link on a line, without its line end; None when it is not exactly one."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    through, chain = int(match["through"]), _unhex(match["chain"])
    if match["opened"]:
        return Link("opened", through, chain)
    if match["sealed"]:
        return Link("sealed", through, chain)
    if match["seq"]:
        leaf, stone = _unhex(match["leaf"]), _unhex(match["stone"])
        return Link("erased", through, chain, seq=int(match["seq"]), leaf=leaf, tombstone=stone)
    leaves = bytes.fromhex(match["leaves"].decode())
    top, synced = _unhex(match["root"]), not match["unsynced"]
    return Link("group", through, chain, root=top, leaves=leaves, synced=synced)


def lost_its_end(lines: bytes) -> bool:
    """Whether the last line is complete, and another byte is in the place of its line end."""
    last = lines[lines.rfind(b"\n") + 1 :]
    return not last.endswith(b"\0") and read(last[:-1]) is not None


def _hex(hash: bytes) -> bytes:
    return hash.hex().encode()


def _unhex(quoted: bytes) -> bytes:
    return bytes.fromhex(quoted[1:-1].decode())
