"""The Merkle tree of RFC 6962: its root, and proofs of inclusion and of consistency."""

from collections.abc import Callable, Sequence
from hashlib import sha256

Node = Callable[[int, int], bytes]
"""The hash of a complete subtree, by its height and its place among those of that height."""

EMPTY = sha256().digest()
"""The root of a tree without leaves."""


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf."""
    return sha256(b"\0" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two children."""
    return sha256(b"\1" + left + right).digest()


def root(node: Node, size: int) -> bytes:
    """The root over the first `size` leaves."""
    return _subtree(node, 0, size) if size else EMPTY


def inclusion(node: Node, index: int, size: int) -> list[bytes]:
    """The hashes that lead from a leaf to the root, the sibling of the leaf first."""
    return _path(node, index, 0, size)


def consistency(node: Node, old: int, size: int) -> list[bytes]:
    """The hashes that prove that the tree of `old` leaves is the beginning of that of `size`."""
    return _extension(node, old, 0, size, known=True) if 0 < old < size else []


def root_of(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that a leaf's hash and its path lead to; None when the path has the wrong length."""
    if not 0 <= index < size:
        return None
    place, last, hash = index, size - 1, leaf
    for each in path:
        if not last:
            return None
        if place & 1 or place == last:
            hash = node_hash(each, hash)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            hash = node_hash(hash, each)
        place, last = place >> 1, last >> 1
    return None if last else hash


def is_extension(
    old: int, size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether a proof shows that one tree is the beginning of the other."""
    if old > size or (old in (0, size) and proof):
        return False
    if old == 0:
        return old_root == EMPTY and (size > 0 or new_root == EMPTY)
    if old == size:
        return old_root == new_root
    hashes = list(proof) if old & (old - 1) else [old_root, *proof]
    if not hashes:
        return False
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    before = after = hashes[0]
    for each in hashes[1:]:
        if not last:
            return False
        if place & 1 or place == last:
            before, after = node_hash(each, before), node_hash(each, after)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            after = node_hash(after, each)
        place, last = place >> 1, last >> 1
    return (last, before, after) == (0, old_root, new_root)


def _left(size: int) -> int:
    """The leaves of the left subtree: the largest power of two below the size."""
    return 1 << ((size - 1).bit_length() - 1)


def _subtree(node: Node, start: int, stop: int) -> bytes:
    size = stop - start
    if size & (size - 1) == 0:
        height = size.bit_length() - 1
        return node(height, start >> height)
    middle = start + _left(size)
    return node_hash(_subtree(node, start, middle), _subtree(node, middle, stop))


def _path(node: Node, index: int, start: int, stop: int) -> list[bytes]:
    if stop - start == 1:
        return []
    middle = start + _left(stop - start)
    if index < middle:
        return [*_path(node, index, start, middle), _subtree(node, middle, stop)]
    return [*_path(node, index, middle, stop), _subtree(node, start, middle)]


def _extension(node: Node, old: int, start: int, stop: int, *, known: bool) -> list[bytes]:
    """The proof inside of a subtree; `known` where its hash is the old root itself."""
    if old == stop - start:
        return [] if known else [_subtree(node, start, stop)]
    left = _left(stop - start)
    middle = start + left
    if old <= left:
        inner = _extension(node, old, start, middle, known=known)
        return [*inner, _subtree(node, middle, stop)]
    inner = _extension(node, old - left, middle, stop, known=False)
    return [*inner, _subtree(node, start, middle)]
