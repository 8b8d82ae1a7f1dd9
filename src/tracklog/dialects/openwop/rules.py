"""The rules across the events of a run."""

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
from tracklog.dialects.openwop.spelling import node_of, payload_of
from tracklog.dialects.openwop.state import OpenwopRunState, RuleCheck
from tracklog.dialects.openwop.steps import STEPS, close, left
from tracklog.model.event import Event, Finding

NODE_ENDS = ("node.completed", "node.failed", "node.cancelled", "node.skipped")


def rules(state: OpenwopRunState | None, event: Event) -> tuple[OpenwopRunState, list[Finding]]:
    state = state or OpenwopRunState()
    payload = payload_of(event.body)
    check = RuleCheck(state, event, payload, node_of(event.body) or "")
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
    return state, check.findings


def rest(state: OpenwopRunState) -> list[Finding]:
    return [each for name in state.nodes for each in left(state, name)]
