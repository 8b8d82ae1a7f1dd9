"""The rules across the events of a run."""

from collections.abc import Callable, Iterable

from tracklog.dialects import text
from tracklog.dialects.openwop.catalog import TYPES
from tracklog.dialects.openwop.checks import (
    TERMINAL,
    TWICE_NAMED,
    check_agents,
    check_cause,
    check_order,
    check_published,
    check_secrets,
    check_spelling,
    check_type,
)
from tracklog.dialects.openwop.discovery import advertised, gate, value_at
from tracklog.dialects.openwop.spelling import node_of, payload_of
from tracklog.dialects.openwop.state import NO_DOCUMENTS, TOKENS, Documents, RuleCheck, State
from tracklog.dialects.openwop.steps import STEPS, close, left, share_of
from tracklog.model.event import Body, Event, Finding

NODE_ENDS = ("node.completed", "node.failed", "node.cancelled", "node.skipped")

Rules = Callable[[State | None, Event], tuple[State, list[Finding]]]


def _judge(documents: Documents, state: State | None, event: Event) -> tuple[State, list[Finding]]:
    state = state or State()
    payload = payload_of(event.body)
    check = RuleCheck(documents, state, event, payload, node_of(event.body) or "")
    check_order(check)
    if event.kind not in TYPES:
        check_type(check)
    if event.kind in TWICE_NAMED:
        check_spelling(check)
    check_published(check)
    check_agents(check)
    check_secrets(check)
    state.events[str(event.id)] = None
    step = STEPS.get(event.kind)
    if step is not None:
        step(check)
    check_cause(check)
    if event.kind in NODE_ENDS:
        check.findings += close(state, check.node)
    if event.kind in TERMINAL:
        check.findings += [each for name in list(state.nodes) for each in close(state, name)]
        state.ended = state.ended or event.kind
    return state, check.findings + documents.gate(event)


def rules(state: State | None, event: Event) -> tuple[State, list[Finding]]:
    return _judge(NO_DOCUMENTS, state, event)


def rules_given(manifests: Iterable[Body] = (), discovery: Body | None = None) -> Rules:
    """The rules for a log whose host's manifests or discovery document are known."""
    thresholds = {
        str(manifest.get("agentId")): threshold
        for manifest in manifests
        if (threshold := share_of(value_at(manifest, "confidence", "defaultThreshold"))) is not None
    }
    known = discovery or {}
    tokens = advertised(known, "reasoning", "tokenLimit")
    verbosity = text(advertised(known, "reasoning", "verbosity")) or "summary"
    documents = Documents(
        thresholds,
        tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else TOKENS,
        verbosity,
        NO_DOCUMENTS.gate if discovery is None else gate(discovery),
    )
    return lambda state, event: _judge(documents, state, event)


def rest(state: State) -> list[Finding]:
    return [each for name in state.nodes for each in left(state, name)]
