"""fishbowl: a stage on which agents talk, a judge may rule and a visitor may interfere."""

import re

from tracklog.dialects import Dialect, Policy, share, text
from tracklog.dialects.fishbowl.meaning import facts
from tracklog.dialects.fishbowl.rules import rest, rules
from tracklog.dialects.fishbowl.shapes import (
    CORE_EVENT_KINDS,
    IMPORTANCE,
    KIND,
    ROLES,
    FishbowlEnvelope,
    importance,
)
from tracklog.dialects.fishbowl.writing import write
from tracklog.model.event import Body, Envelope

__all__ = [
    "CORE_EVENT_KINDS",
    "IMPORTANCE",
    "KIND",
    "ROLES",
    "FishbowlEnvelope",
    "dialect",
    "importance",
    "write",
]


ENVELOPE = tuple(FishbowlEnvelope.model_fields)


def claim(body: Body) -> float:
    known = re.fullmatch(KIND, text(body.get("kind")) or "") is not None
    return share(body, ENVELOPE, known)


def read(body: Body) -> Envelope:
    get = body.get
    run, kind, at = get("run_id", ""), get("kind", ""), get("created_at")
    return run, kind, at, get("id"), get("actor"), None, None


dialect = Dialect(
    name="fishbowl",
    about="A play: agents talk on a stage, a judge may decide, a visitor may speak.",
    policy=Policy(kinds="open", fields="closed", identity="refuse", elsewhere="id-in-another-run"),
    kind_key="kind",
    kinds={},
    frame=FishbowlEnvelope,
    claim=claim,
    read=read,
    facts=facts,
    rules=rules,
    rest=rest,
    write=write,
    extension=("payload", "converted"),
    contract="fishbowl",
    version_key="schema_version",
    current=1,
)
