"""Checkpoints verified by the text of their formats alone: nothing of tracklog is imported.

Written from C2SP signed-note, tlog-checkpoint and tlog-cosignature, and from RFC 6962, section 2.1,
whose recursive definitions are repeated here as they stand. Proofs are verified by the steps of
RFC 9162, sections 2.1.3.2 and 2.1.4.2.
"""

import base64
import hashlib
import struct

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def sha256(data):
    return hashlib.sha256(data).digest()


def split(n):
    """The largest power of two smaller than n."""
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def mth(d):
    """MTH(D[n])."""
    if not d:
        return sha256(b"")
    if len(d) == 1:
        return sha256(b"\x00" + d[0])
    k = split(len(d))
    return sha256(b"\x01" + mth(d[:k]) + mth(d[k:]))


def path(m, d):
    """PATH(m, D[n])."""
    if len(d) == 1:
        return []
    k = split(len(d))
    if m < k:
        return [*path(m, d[:k]), mth(d[k:])]
    return [*path(m - k, d[k:]), mth(d[:k])]


def proof(m, d):
    """PROOF(m, D[n]), for 0 < m < n."""
    return subproof(m, d, complete=True)


def subproof(m, d, *, complete):
    if m == len(d):
        return [] if complete else [mth(d)]
    k = split(len(d))
    if m <= k:
        return [*subproof(m, d[:k], complete=complete), mth(d[k:])]
    return [*subproof(m - k, d[k:], complete=False), mth(d[:k])]


def _joined(fn, sn, hashes, left, right):
    """The steps that both verifications share: the hashes of the smaller and of the larger tree."""
    for each in hashes:
        if sn == 0:
            raise ValueError("the proof is too long")
        if fn & 1 or fn == sn:
            left, right = sha256(b"\x01" + each + left), sha256(b"\x01" + each + right)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            right = sha256(b"\x01" + right + each)
        fn, sn = fn >> 1, sn >> 1
    if sn:
        raise ValueError("the proof is too short")
    return left, right


def check_inclusion(index, size, data, hashes, root):
    """An error unless the path proves that the tree of this root has this entry at this index."""
    leaf = sha256(b"\x00" + data)
    if index >= size or _joined(index, size - 1, hashes, leaf, leaf)[1] != root:
        raise ValueError("inclusion")


def check_consistency(first, second, first_root, second_root, hashes):
    """An error unless the path proves that the second tree begins with the first, of 0 < first < second."""
    if not hashes:
        raise ValueError("consistency")
    path = hashes if first & (first - 1) else [first_root, *hashes]
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    if _joined(fn, sn, path[1:], path[0], path[0]) != (first_root, second_root):
        raise ValueError("consistency")


def body(lines):
    """The origin, the size and the root of a checkpoint, and its extension lines."""
    origin, size, root, *extensions = lines
    if not origin or not all(extensions) or str(int(size)) != size or int(size) < 0:
        raise ValueError("checkpoint")
    decoded = base64.b64decode(root, validate=True)
    if len(decoded) != 32 or base64.b64encode(decoded).decode() != root:
        raise ValueError("root")
    return origin, int(size), decoded, extensions


def opened(note, vkey):
    """The lines of a note that this key signed, and the time of a cosignature; else an error."""
    text, signatures = note[: note.rindex("\n\n") + 1], note[note.rindex("\n\n") + 2 :]
    name, id_hex, encoded = vkey.split("+", 2)
    key = base64.b64decode(encoded)
    key_id = sha256(name.encode() + b"\n" + key)[:4]
    if key_id.hex() != id_hex:
        raise ValueError("key ID")
    for line in signatures.splitlines():
        dash, signer, value = line.split(" ")
        raw = base64.b64decode(value)
        if (dash, signer, raw[:4]) != ("\N{EM DASH}", name, key_id):
            continue
        message, signature, time = text.encode(), raw[4:], None
        if key[0] == 4:
            (time,) = struct.unpack(">Q", signature[:8])
            message = b"cosignature/v1\ntime %d\n" % time + message
            signature = signature[8:]
        try:
            Ed25519PublicKey.from_public_bytes(key[1:]).verify(signature, message)
        except InvalidSignature:
            raise ValueError("signature") from None
        return text.splitlines(), time
    raise ValueError("no signature of this key")
