"""A copy of a journal as objects, in a folder or in object storage: written behind the journal.

Every shipment has a number, and up to three objects:

    v1/0000000007.jsonl.zst    its records: a frame of zstd for each commit group
    v1/0000000007.tombstones   what stands in the place of records that were erased since
    v1/0000000007.chain        the lines of the chain; written last, it makes the others count

`zstd -d` unpacks the records to lines. Large values are in `v1/blobs/`, under their SHA-256.
"""
