def _extends(old: int, old_root: str, size: int, root: str, proof: Any, sha256: Any) -> bool:
    """Whether a tree of hashes begins with a smaller one: a consistency proof of RFC 6962."""
    try:
        start, end, *path = map(bytes.fromhex, (old_root, root, *proof))
    except (TypeError, ValueError):
        return False
    if not 0 < old < size or not 0 < len(path) <= 128:
        return False
    low, high = old - 1, size - 1
    while low & 1:
        low, high = low >> 1, high >> 1
    before = after = path.pop(0) if low else start  # a complete tree is its own first hash
    for each in path:
        if not high:
            return False
        if low & 1 or low == high:
            before, after = (sha256(b"\1" + each + own).digest() for own in (before, after))
            while low and not low & 1:
                low, high = low >> 1, high >> 1
        else:
            after = sha256(b"\1" + after + each).digest()
        low, high = low >> 1, high >> 1
    return (before, after, high) == (start, end, 0)
