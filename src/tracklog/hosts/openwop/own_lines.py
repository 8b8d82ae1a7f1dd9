"""The events that a host wrote itself: nothing else in the journal is an event of one of its runs.

Whoever may send events can append to any run. So the id of each event of a host is a signature of
its run and number, which only the hosts of this home can make. Nobody can use an id that was seen
in another event: the journal accepts each id of a run once. What stands beside the events, such as
an answer of an operator, needs no signature: the journal accepts it only from tracklog itself.
"""

import hmac
import os
from typing import NamedTuple

import orjson

from tracklog import Body, Log, Record, TracklogError
from tracklog.hosts.openwop.instance import made_once

FILE = "openwop.signing"


class OwnLines(NamedTuple):
    """Makes the ids of events, and knows the events of this home by them."""

    secret: bytes
    through: int
    """The last record of the time before there were signatures; until there, all events count."""

    def event_id(self, run: str, sequence: int) -> str:
        """The id of an event of a run, which nobody else can know before it is recorded."""
        signed = hmac.digest(self.secret, f"event\0{run}\0{sequence}".encode(), "sha256")
        return f"evt-{signed.hex()[:32]}-{sequence}"

    def has_event(self, record: Record, event: Body) -> bool:
        """Whether a record has an event that a host of this home wrote."""
        if record.seq <= self.through:
            return True
        number, name = event.get("sequence"), event.get("eventId")
        if not isinstance(number, int) or not isinstance(name, str):
            return False
        return hmac.compare_digest(name.encode(), self.event_id(record.run, number).encode())


def own_lines(journal: Log) -> OwnLines:
    """The signatures of the hosts on this home; the secret is made when it is first needed."""
    path = journal.folder() / FILE
    made = {"secret": os.urandom(32).hex(), "through": journal.last}
    try:
        data = orjson.loads(made_once(path, orjson.dumps(made)))
        return OwnLines(bytes.fromhex(data["secret"]), int(data["through"]))
    except (ValueError, KeyError, TypeError):
        hint = "restore it; if it is removed, all events so far count"
        raise TracklogError(f"{path} is damaged", hint) from None
