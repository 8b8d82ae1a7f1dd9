"""tracklog: the native dialect, one line per fact, for sources that have no dialect of their own."""

from tracklog.dialects import Dialect, Policy, share, text
from tracklog.dialects.tracklog.meaning import FIELDS, facts, names, source
from tracklog.dialects.tracklog.rules import rest, rules
from tracklog.dialects.tracklog.shapes import KINDS, TracklogEnvelope
from tracklog.dialects.tracklog.writing import body_of, line, line_id, write
from tracklog.model.event import Body, Envelope

__all__ = ["FIELDS", "KINDS", "body_of", "dialect", "facts", "line", "line_id"]


def claim(body: Body) -> float:
    return share(body, ("id", "run", "fact", "origin"), text(body.get("fact")) in KINDS)


def read(body: Body) -> Envelope:
    get = body.get
    return (
        get("run", ""),
        get("fact", ""),
        get("at"),
        get("id"),
        get("agent"),
        get("cause"),
        get("family"),
    )


dialect = Dialect(
    name="tracklog",
    about="Our own format: one fact per line, for all that has no dialect of its own.",
    policy=Policy(kinds="closed", fields="open", identity="refuse", ignores=frozenset({"origin"})),
    kind_key="fact",
    kinds=KINDS,
    frame=TracklogEnvelope,
    claim=claim,
    read=read,
    facts=facts,
    rules=rules,
    rest=rest,
    names=names,
    source=source,
    write=write,
    extension=("extra", "converted"),
    contract="tracklog",
)
