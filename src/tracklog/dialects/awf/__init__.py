"""awf: the exchange transcript of a workflow run: its steps, messages, tools and sub-runs."""

from typing import Any

from tracklog.dialects import Dialect, Policy, share, text
from tracklog.dialects.awf.line import canonical, ordered
from tracklog.dialects.awf.meaning import facts
from tracklog.dialects.awf.rules import rest, rules
from tracklog.dialects.awf.shapes import BLOCK_TYPES, KINDS, AwfEnvelope
from tracklog.dialects.awf.tolerance import tolerate
from tracklog.dialects.awf.writing import run_uuid, write
from tracklog.model.event import Body, Envelope

__all__ = ["BLOCK_TYPES", "KINDS", "canonical", "dialect", "ordered", "run_uuid"]

ZERO_TIME = "0001-01-01T00:00:00Z"
"""The time that an unset clock writes."""


def claim(body: Body) -> float:
    envelope = ("seq", "run_id", "type", "path", "iteration", "timestamp", "payload")
    return share(body, envelope, text(body.get("type")) in KINDS)


def read(body: Body) -> Envelope:
    get = body.get
    at, seq = get("timestamp"), get("seq")
    return (
        get("run_id", ""),
        get("type", ""),
        None if at == ZERO_TIME else at,
        str(seq) if type(seq) is int else _place(seq),
        get("path") or None,
        _place(get("step_seq")),
        None,
    )


def _place(seq: Any) -> str | None:
    """A number of the series as an identity; JSON may write 1.0 for 1."""
    if isinstance(seq, bool) or not isinstance(seq, int | float) or seq != seq // 1:
        return None
    return str(int(seq))


dialect = Dialect(
    name="awf",
    about="Workflow runs: steps, messages, tool calls and sub-runs, as a transcript.",
    policy=Policy(kinds="open", fields="open", identity="keep", reused="seq-dup", halves=True),
    kind_key="type",
    kinds=KINDS,
    frame=AwfEnvelope,
    claim=claim,
    read=read,
    facts=facts,
    rules=rules,
    rest=rest,
    write=write,
    tolerate=tolerate,
    contract="awf",
)
