"""Checkpoints verified by the text of their formats alone: nothing of tracklog is imported.

Written from C2SP signed-note, tlog-checkpoint and tlog-cosignature, and from RFC 6962, section 2.1,
whose recursive definitions are repeated here as they stand.
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
