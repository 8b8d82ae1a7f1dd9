"""Verify the hash chain of a transcript, and report the first line that does not match."""

import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tracklog.model.lines import Line, split
from tracklog.recording.transcript.reader import Flaw

LINK = re.compile(rb',"chain":"([0-9a-f]{64})"\}\Z')


class ChainCheck(NamedTuple):
    """The result of verifying a chain."""

    lines: int
    """Lines whose link matches, from the first line with a link."""
    unchained: int
    """Lines before the first link: nothing is proven about them."""
    head: str
    """The link of the last matching line; keep a copy elsewhere to detect a truncated file later.
    """
    bad: Flaw | None
    """The first line that does not match."""
    anchored: bool | None
    """Whether the anchor was found in the chain; None where none was given."""

    @property
    def sound(self) -> bool:
        """Whether there is a chain and every link matches."""
        return self.bad is None and self.lines > 0 and self.anchored is not False


def verify_chain(path: str | Path, anchor: str | None = None) -> ChainCheck:
    """Verify the chain from its beginning; `anchor` is a head that was noted before.

    A chain cannot show that its own end was cut off: only an anchor can.
    """
    head, count, unchained = "", 0, 0
    last: Line | None = None
    reached = None if anchor is None else False
    with Path(path).open("rb") as file:
        for line in split(file, sys.maxsize):
            match = LINK.search(line.data)
            if match is None and not count:
                unchained, last = unchained + 1, line
                continue
            bare = line.data[: match.start()] + b"}" if match else b""
            if match is None or sha256(head.encode() + bare).hexdigest() != match[1].decode():
                # The first link may not match because the line before has lost its own link.
                at = line if count or last is None else last
                return ChainCheck(
                    count, unchained, head, _flaw(at, complete=match is not None), reached
                )
            head, count = match[1].decode(), count + 1
            reached = reached or head == anchor if anchor is not None else None
    return ChainCheck(count, unchained, head, None, reached)


def _flaw(line: Line, *, complete: bool) -> Flaw:
    message = "its link does not match the line before" if complete else "it has lost its link"
    if not line.whole:
        message = "it is incomplete"
    return Flaw("chain", line.number, line.offset, message, "error")
