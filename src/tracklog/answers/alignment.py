"""Align two lists of steps: equal steps side by side, then steps of one kind, then the rest."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from tracklog.answers.run_steps import RunStep

MOST_EDITS = 128
"""Edits that are looked for one by one between two anchors; beyond them, what is rare is matched."""

Pair = tuple[int | None, int | None]
"""A place in the one list, in the other, or in both."""


def compare(a: Sequence[RunStep], b: Sequence[RunStep]) -> list[Pair]:
    """The two lists as one: equal steps side by side, then those of one sort, then the rest.

    What is equal at the beginning and at the end is always matched.
    `compare(b, a)` is its mirror.
    """
    whole_a, whole_b = [step.whole for step in a], [step.whole for step in b]
    if whole_b < whole_a:  # one of the two orders is compared, so that both give the same result
        return [(i, j) for j, i in compare(b, a)]
    rows: list[Pair] = []
    done_a = done_b = 0
    for i, j in [*align(whole_a, whole_b), (len(a), len(b))]:
        rows += _between(a[done_a:i], b[done_b:j], done_a, done_b)
        if i < len(a):
            rows.append((i, j))
        done_a, done_b = i + 1, j + 1
    return rows


def _between(a: Sequence[RunStep], b: Sequence[RunStep], at_a: int, at_b: int) -> Iterator[Pair]:
    """What stands between two equal steps: steps of one sort side by side, the rest alone."""
    ends = (len(a), len(b))
    pairs = (
        [*align([step.shape for step in a], [step.shape for step in b]), ends]
        if a and b
        else [ends]
    )
    done_a = done_b = 0
    for i, j in pairs:
        yield from ((at_a + n, None) for n in range(done_a, i))
        yield from ((None, at_b + n) for n in range(done_b, j))
        if (i, j) != ends:
            yield at_a + i, at_b + j
        done_a, done_b = i + 1, j + 1


def align(a: Sequence[bytes], b: Sequence[bytes]) -> list[tuple[int, int]]:
    """Places of equal items in two lists, in order in both, in time that is nearly linear.

    The common beginning and end, then what stands once in both (patience), then a shortest edit
    while it is short, else each item with the one of the same count.
    """
    pairs: list[tuple[int, int]] = []
    left = [(0, len(a), 0, len(b))]
    while left:
        a1, a2, b1, b2 = left.pop()
        while a1 < a2 and b1 < b2 and a[a1] == b[b1]:
            pairs.append((a1, b1))
            a1, b1 = a1 + 1, b1 + 1
        while a1 < a2 and b1 < b2 and a[a2 - 1] == b[b2 - 1]:
            a2, b2 = a2 - 1, b2 - 1
            pairs.append((a2, b2))
        if a1 == a2 or b1 == b2:
            continue
        anchors = _anchors(a, b, a1, a2, b1, b2)
        if not anchors:
            pairs += _edited(a, b, a1, a2, b1, b2)
            continue
        for i, j in [*anchors, (a2, b2)]:
            left.append((a1, i, b1, j))
            a1, b1 = i, j
    return sorted(set(pairs))


def _anchors(
    a: Sequence[bytes], b: Sequence[bytes], a1: int, a2: int, b1: int, b2: int
) -> list[tuple[int, int]]:
    """Items that stand once in each of two stretches, in the order of both."""
    once_a, once_b = _once(a, a1, a2), _once(b, b1, b2)
    pairs = sorted((i, once_b[item]) for item, i in once_a.items() if item in once_b)
    return _rising(pairs)


def _once(items: Sequence[bytes], begin: int, end: int) -> dict[bytes, int]:
    places: dict[bytes, int] = {}
    for n in range(begin, end):
        places[items[n]] = -1 if items[n] in places else n
    return {item: n for item, n in places.items() if n >= 0}


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of some pairs that rises on both sides; they rise on the first."""
    tops: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        place = bisect_left(tops, j)
        before.append(last[place - 1] if place else -1)
        tops[place : place + 1] = [j]
        last[place : place + 1] = [n]
    chain: list[tuple[int, int]] = []
    n = last[-1] if last else -1
    while n >= 0:
        chain.append(pairs[n])
        n = before[n]
    return chain[::-1]


def _edited(
    a: Sequence[bytes], b: Sequence[bytes], a1: int, a2: int, b1: int, b2: int
) -> list[tuple[int, int]]:
    """Equal items by a shortest edit, as long as it has few edits (Myers)."""
    n, m = a2 - a1, b2 - b1
    far = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(n + m, MOST_EDITS) + 1):
        trail.append(dict(far))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and far.get(k - 1, -1) < far.get(k + 1, -1))
            x = far[k + 1] if down else far[k - 1] + 1
            y = x - k
            while x < n and y < m and a[a1 + x] == b[b1 + y]:
                x, y = x + 1, y + 1
            far[k] = x
            if x >= n and y >= m:
                return [(a1 + i, b1 + j) for i, j in _traced(trail, n, m)]
    return _by_count(a, b, a1, a2, b1, b2)


def _traced(trail: list[dict[int, int]], x: int, y: int) -> Iterator[tuple[int, int]]:
    for edits in range(len(trail) - 1, -1, -1):
        far, k = trail[edits], x - y
        down = k == -edits or (k != edits and far.get(k - 1, -1) < far.get(k + 1, -1))
        from_k = k + 1 if down else k - 1
        from_x = far.get(from_k, 0)
        from_y = from_x - from_k
        while x > from_x and y > from_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            yield x, y
        x, y = from_x, max(from_y, 0)


def _by_count(
    a: Sequence[bytes], b: Sequence[bytes], a1: int, a2: int, b1: int, b2: int
) -> list[tuple[int, int]]:
    """The first of an item with the first of the other list, the second with the second."""
    counted = dict(_numbered(b, b1, b2))
    pairs = [(i, counted[key]) for key, i in _numbered(a, a1, a2) if key in counted]
    return _rising(pairs)


def _numbered(
    items: Sequence[bytes], begin: int, end: int
) -> Iterator[tuple[tuple[bytes, int], int]]:
    counts: dict[bytes, int] = {}
    for n in range(begin, end):
        counts[items[n]] = counts.get(items[n], 0) + 1
        yield (items[n], counts[items[n]]), n
