"""The format of one record: a line of JSON around the unchanged bytes of the event.

    {"seq":12,"received":"2026-05-05T09:00:00.000Z","dialect":"awf","run":"r1","event":{…}}

The keys stand in this order, without blanks: seq, received, dialect, family (when it is not the
dialect's name), run, mark (on the first record of a batch whose transport can be retried: see
`Mark`), redacted (when something was redacted), group (on the first record of a commit group of
several: how many), erased (when an operator erased), event.
So the event can be cut out without parsing, and nothing is ever serialised twice.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from math import modf
from typing import NamedTuple

import orjson

from tracklog.journal import merkle

Run = tuple[str, str]
"""A run is known by its family and its id."""


class Mark(NamedTuple):
    """The mark of a batch, on its first record, so that a retry is recognised."""

    source: str
    """`batch:` and the sender's key, or the name of the file that was read."""
    through: int
    """How many lines the batch added, or how far into the file it went, in bytes."""
    sha256: str = ""
    """Of the dialect and the lines as received, or of the file up to there; format 1 had none."""
    verdicts: str = ""
    """What became of each line of the batch, as `journal.offsets.pack` writes it."""


class Erased(NamedTuple):
    """What stands on a tombstone."""

    leaf: str
    """SHA-256 of the frame that was erased, so that the rest still verifies."""
    reason: str
    by: str
    at: str
    id: str | None = None
    """The identity of the event, where it had one, so that it is not let in again."""


class Record(NamedTuple):
    """One record of the journal: an event with its number and the time of receipt."""

    seq: int
    received: str
    """When the journal numbered it: UTC, three fraction digits."""
    dialect: str
    family: str
    run: str
    line: bytes
    """As written by the emitter; empty when it was erased."""
    redacted: tuple[str, ...] = ()
    """The names of what the redact hook removed before the line was stored."""
    erased: Erased | None = None
    mark: Mark | None = None
    group: int = 0
    """On the first record of a commit group of several: how many they are."""


_Head = tuple[str, str, str, tuple[str, ...], Erased | None, Mark | None, int]

EVENT = b',"event":'  # no string can hold it: a quote inside a string is escaped
_STRING = rb'"(?:[^"\\]|\\.)*"'
_HEAD = re.compile(
    rb',"dialect":(%(s)b)(?:,"family":(%(s)b))?,"run":(%(s)b)'
    rb'(?:,"mark":(\[%(s)b,[0-9]{1,18}(?:,"[0-9a-f]{64}",%(s)b)?\]))?'
    rb'(?:,"redacted":(\[%(s)b(?:,%(s)b)*\]))?(?:,"group":([1-9][0-9]{0,8}))?'
    rb'(?:,"erased":(\{.*\}))?' % {b"s": _STRING}
)
_START = re.compile(
    rb'\{"seq":([1-9][0-9]*),"received":"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z)"(?=,)'
)
_CACHED = 1 << 16
_heads: dict[bytes, _Head] = {}


def stamp(seconds: float) -> str:
    """Seconds since 1970 as `received` is written."""
    rest, whole = modf(seconds)
    micros = round(rest * 1e6)
    if not 0 <= micros < 10**6:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:23] + "Z"
    return f"{_second(whole)}.{micros // 1000:03}Z"


@lru_cache(64)
def _second(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def head(
    dialect: str,
    family: str,
    run: str,
    redacted: Iterable[str] = (),
    mark: Mark | None = None,
    group: int = 0,
) -> bytes:
    """What stands between `received` and the event's own bytes."""
    own = b"" if family == dialect else b',"family":' + orjson.dumps(family)
    sent = b',"mark":' + orjson.dumps(list(mark if mark.sha256 else mark[:2])) if mark else b""
    names = list(redacted)
    taken = b',"redacted":' + orjson.dumps(names) if names else b""
    plain = b',"dialect":%b%b,"run":%b%b%b%b' % (
        orjson.dumps(dialect),
        own,
        orjson.dumps(run),
        sent,
        taken,
        EVENT,
    )
    return opening(plain, group) if group else plain


def opening(frame: bytes, group: int) -> bytes:
    """The frame, or only its head, of the first record of a commit group of that many."""
    end = frame.find(EVENT)
    return b'%b,"group":%d%b' % (frame[:end], group, frame[end:])


def seq_of(frame: bytes) -> int:
    """The number that a frame opens with; 0 when it opens with none."""
    comma = frame.find(b",", 7, 28)
    digits = frame[7:comma]
    return int(digits) if frame.startswith(b'{"seq":') and digits.isdigit() else 0


def leaf_of(frame: bytes) -> bytes:
    """The leaf of a frame in its chain; of a tombstone, that of the frame that it replaced."""
    entry = record(frame) if b',"erased":{' in frame else None
    return bytes.fromhex(entry.erased.leaf) if entry and entry.erased else merkle.leaf(frame)


def run_of(frame: bytes) -> Run | None:
    """The run that a frame belongs to; None when it is no frame."""
    comma = frame.find(b",", 7, 28)
    end = frame.find(EVENT, comma)
    if comma < 0 or end < 0:
        return None
    known = _known(frame[comma + 38 : end])
    return known and (known[1], known[2])


def record(frame: bytes) -> Record | None:
    """The record in a frame; None when it is no frame, checked to the last byte of its head."""
    start = _START.match(frame)
    end = frame.find(EVENT)
    if start is None or end < 0 or not frame.endswith(b"}"):
        return None
    known = _known(frame[start.end() : end])
    if known is None:
        return None
    dialect, family, run, redacted, erased, mark, group = known
    line = frame[end + 9 : -1]
    if erased:
        if line != b"null":
            return None  # a tombstone has no event
        line = b""
    seq, received = int(start[1]), start[2].decode()
    return Record(seq, received, dialect, family, run, line, redacted, erased, mark, group)


def records(frames: Iterable[bytes]) -> list[Record]:
    """The records in these frames; what is no frame is passed over."""
    return list(filter(None, read(frames)))


def read(frames: Iterable[bytes]) -> list[Record | None]:
    """The record in each of these frames; None for what is no frame."""
    records: list[Record | None] = []
    new, add, heads = tuple.__new__, records.append, _heads
    for frame in frames:
        comma = frame.find(b",", 7, 28)
        end = frame.find(EVENT, comma)
        known = heads.get(frame[comma + 38 : end])
        exact = frame[:7] == b'{"seq":' and frame[comma : comma + 13] == b',"received":"'
        if known is None or known[4] or frame[-1] != 125 or not exact:
            add(record(frame))
            continue
        dialect, family, run, redacted, erased, mark, group = known
        try:
            seq, received = int(frame[7:comma]), str(frame[comma + 13 : comma + 37], "ascii")
        except ValueError:
            add(None)
            continue
        line = frame[end + 9 : -1]
        add(new(Record, (seq, received, dialect, family, run, line, redacted, erased, mark, group)))
    return records


def tombstone(
    frame: bytes, leaf: bytes, reason: str, by: str, at: str, id: str | None = None
) -> bytes:
    """The frame with its event taken out and its leaf put in."""
    start, end = _START.match(frame), frame.find(EVENT)
    assert start is not None
    stone = {"leaf": leaf.hex(), "reason": reason, "by": by, "at": at}
    if id is not None:
        stone["id"] = id
    return b'%b,"erased":%b,"event":null}' % (frame[:end], orjson.dumps(stone))


def _known(head: bytes) -> _Head | None:
    known = _heads.get(head)
    if known is None:
        known = _read_head(head)
        if known is not None:
            if len(_heads) >= _CACHED:
                _heads.clear()
            _heads[head] = known
    return known


def _read_head(head: bytes) -> _Head | None:
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    try:
        dialect, run = orjson.loads(match[1]), orjson.loads(match[3])
        family = orjson.loads(match[2]) if match[2] else dialect
        mark = Mark(*orjson.loads(match[4])) if match[4] else None
        redacted = tuple(orjson.loads(match[5])) if match[5] else ()
        group = int(match[6] or 0)
        stone = Erased(**orjson.loads(match[7])) if match[7] else None
        if stone is not None and len(bytes.fromhex(stone.leaf)) != 32:
            return None
    except (ValueError, TypeError):
        return None
    return dialect, family, run, redacted, stone, mark, group
