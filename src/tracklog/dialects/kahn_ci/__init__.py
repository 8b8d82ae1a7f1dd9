"""kahn-ci: the transitions of a graph of nodes, each checked by shell commands."""

from tracklog.dialects import Dialect, Policy, claim_by_kind, without_outputs
from tracklog.dialects.kahn_ci.graph import lint_graph
from tracklog.dialects.kahn_ci.meaning import facts
from tracklog.dialects.kahn_ci.rules import KahnRunState, outcome_of, rest, rules
from tracklog.dialects.kahn_ci.shapes import (
    KINDS,
    Graph,
    KahnCiEnvelope,
    NodeAttempt,
    NodeStatus,
    NodeTransition,
    Outcome,
    RunEnd,
    RunStart,
)
from tracklog.dialects.kahn_ci.writing import write
from tracklog.model.event import Body, Envelope

__all__ = [
    "KINDS",
    "Graph",
    "KahnCiEnvelope",
    "KahnRunState",
    "NodeAttempt",
    "NodeStatus",
    "NodeTransition",
    "Outcome",
    "RunEnd",
    "RunStart",
    "claim",
    "dialect",
    "facts",
    "lint_graph",
    "outcome_of",
    "read",
    "rest",
    "rules",
    "write",
]


claim = claim_by_kind("event", KINDS, ("ts", "run_id", "event"))


def read(body: Body) -> Envelope:
    get = body.get
    return get("run_id", ""), get("event", ""), get("ts"), None, get("node_id"), None, None


dialect = Dialect(
    name="kahn-ci",
    about="CI runs: a graph of nodes, each checked by shell commands.",
    family="kahn",
    policy=Policy(kinds="closed", fields="open", redactable=False),
    kind_key="event",
    kinds=KINDS,
    frame=KahnCiEnvelope,
    claim=claim,
    read=read,
    facts=facts,
    rules=rules,
    rest=rest,
    write=write,
    carries=without_outputs("kahn"),
    documents={"graph": Graph},
    document_rules={"graph": lint_graph},
)
