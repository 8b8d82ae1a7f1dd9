"""Signed checkpoints: the size and the root of a journal, as others can verify and witness them.

Two Merkle trees of RFC 6962 are computed over a journal, after its records are stored:

    the record tree   the leaf of record n is the hash of its 32 bytes in the journal's own chain,
                      so an erased record stays provable
    the run tree      the leaf of a run is ["family","run",records,"digest"] as JSON without blanks,
                      in the order in which the runs began; the digest is a chain over its records:
                      SHA-256(digest-before seq leaf), the first digest-before is 32 zero bytes

A leaf is hashed as SHA-256(0x00 data), a node as SHA-256(0x01 left right); numbers are eight bytes,
big-endian. A checkpoint is the signed note (C2SP signed-note, tlog-checkpoint):

    origin
    number of records
    root of the record tree, in base64
    runs (number of runs) (root of the run tree, in base64)

A record that was pruned before the first checkpoint counts as 32 zero bytes.
"""
