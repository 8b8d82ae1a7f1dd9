"""Checks the hash chain of a transcript, and names the first line that does not fit."""

import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tracklog.model.lines import Line, split
from tracklog.recording.transcript.reader import Flaw

LINK = re.compile(rb',"chain":"([0-9a-f]{64})"\}\Z')


class Proof(NamedTuple):
    """What a chain proves."""

    lines: int
    """Lines whose link fits, from the first one with a link on."""
    unchained: int
    """Lines in front of the first link: nothing is known of them."""
    head: str
    """The link of the last line that fits; note it elsewhere to find a cut tail later."""
    bad: Flaw | None
    """The first line that does not fit."""
    anchored: bool | None
    """Whether the anchor was met on the way; None where none was given."""

    @property
    def sound(self) -> bool:
        """Whether there is a chain and everything in it fits."""
        return self.bad is None and self.lines > 0 and self.anchored is not False


def verify_chain(path: str | Path, anchor: str | None = None) -> Proof:
    """Follow the chain from its beginning; `anchor` is a head that was noted before.

    A chain cannot show that its own tail was cut: only an anchor can.
    """
    head, count, unchained = "", 0, 0
    last: Line | None = None
    met = None if anchor is None else False
    with Path(path).open("rb") as file:
        for line in split(file, sys.maxsize):
            found = LINK.search(line.data)
            if found is None and not count:
                unchained, last = unchained + 1, line
                continue
            bare = line.data[: found.start()] + b"}" if found else b""
            if found is None or sha256(head.encode() + bare).hexdigest() != found[1].decode():
                # The first link may hang in the air because the line before has lost its own.
                at = line if count or last is None else last
                return Proof(count, unchained, head, _flaw(at, whole=found is not None), met)
            head, count = found[1].decode(), count + 1
            met = met or head == anchor if anchor is not None else None
    return Proof(count, unchained, head, None, met)


def _flaw(line: Line, *, whole: bool) -> Flaw:
    message = "its link does not fit what it stands behind" if whole else "it has lost its link"
    if not line.whole:
        message = "it is torn"
    return Flaw("chain", line.number, line.offset, message, "error")
