"""The shapes of the events and of the graph."""

from typing import Annotated, Literal, get_args

from pydantic import MISSING, Field

from tracklog.dialects import Count, Seconds, Shape, UtcMillis
from tracklog.model.fact import Phase

RUN_ID = r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$"
NODE_ID = r"^[a-z0-9][a-z0-9-]{0,63}$"

RunId = Annotated[
    str,
    Field(pattern=RUN_ID, description="1 to 64 of A-Z a-z 0-9 _ -, first a letter or a digit."),
]
NodeId = Annotated[
    str,
    Field(pattern=NODE_ID, description="1 to 64 of a-z 0-9 -, first a letter or a digit."),
]
NodeStatus = Literal["pending", "ready", "running", "done", "failed", "blocked"]
"""The state of a node of the graph."""
Outcome = Literal["clean", "clean_with_flake", "partial", "stuck", "catastrophic"]
"""How a run of the graph ended."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
Attempt = Annotated[int, Field(ge=1, description="Counted from 1.")]


class KahnCiEnvelope(Shape):
    """The base that all kahn events share."""

    ts: UtcMillis
    run_id: RunId


class RunStart(KahnCiEnvelope):
    """The first line of a run."""

    event: Literal["run_start"]
    total_nodes: Count


class NodeTransition(KahnCiEnvelope):
    """A node changed its status."""

    event: Literal["node_transition"]
    node_id: NodeId
    from_: Annotated[NodeStatus, Field(alias="from")]
    to: NodeStatus
    attempt: Attempt | MISSING = MISSING
    """Written if and only if `to` is running."""
    reason: str | MISSING = MISSING
    """`kind` or `kind:detail`; free text."""


class DoneWhenResult(Shape):
    """The result of one check of a node."""

    cmd: str
    rc: int
    duration_s: Seconds
    tail: Annotated[str, Field(max_length=4096)] | MISSING = MISSING
    """The end of stderr and stdout, at most 4096 characters; only when rc is not 0."""
    truncated: bool | MISSING = MISSING
    """True beside a tail that was cropped."""


class NodeAttempt(KahnCiEnvelope):
    """A node was tried, and its checks were run."""

    event: Literal["node_attempt"]
    node_id: NodeId
    attempt: Attempt
    duration_s: Seconds
    converged: bool
    """True only if every check exited 0."""
    done_when_results: list[DoneWhenResult]
    backoff_s: Seconds | MISSING = MISSING
    """Omitted on attempt 1."""


class RunEnd(KahnCiEnvelope):
    """The last line of a run."""

    event: Literal["run_end"]
    outcome: Outcome
    done: Count
    failed: Count
    blocked: Count
    total_duration_s: Seconds
    total_attempts: Count | MISSING = MISSING
    flake_retries: Count | MISSING = MISSING
    exit_code: int | MISSING = MISSING
    """Never written as 0."""


class Node(Shape):
    """One node of a graph."""

    id: NodeId
    """Stable across runs."""
    deliverable: Annotated[str, Field(min_length=1)]
    depends_on: Annotated[list[NodeId], Field(json_schema_extra={"uniqueItems": True})]
    """The edges; [] marks a root."""
    touches: Annotated[list[str], Field(json_schema_extra={"uniqueItems": True})]
    parallel_safe: bool
    done_when: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    max_ralph_iters: Annotated[int, Field(ge=1)] | MISSING = MISSING
    """6 where it is absent."""
    estimated_loc: Count | MISSING = MISSING


class Graph(Shape):
    """The graph that a run works through, as it was when the run started."""

    version: Literal[1]
    nodes: Annotated[list[Node], Field(min_length=1)]


KINDS: dict[str, type[Shape]] = {
    "run_start": RunStart,
    "node_transition": NodeTransition,
    "node_attempt": NodeAttempt,
    "run_end": RunEnd,
}

PHASES: dict[str, Phase] = {
    "pending": "working",
    "ready": "working",
    "running": "working",
    "done": "done",
    "failed": "failed",
    "blocked": "failed",
}
