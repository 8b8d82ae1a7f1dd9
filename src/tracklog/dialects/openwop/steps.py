"""The rules of single types of events, and of what a node leaves open at its end."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tracklog.dialects import number
from tracklog.dialects.openwop.catalog import LOW, SUPPRESSED
from tracklog.dialects.openwop.spelling import first
from tracklog.dialects.openwop.state import (
    THRESHOLD,
    TOKENS,
    Decision,
    NodeExecution,
    OpenBlock,
    OpenwopRunState,
    RuleCheck,
    finding,
)
from tracklog.model.event import Finding

TOKEN_BYTES = 4
"""The size of a token is estimated as four bytes of UTF-8; no tokenizer is used."""

SUPERVISOR = "core.orchestrator.supervisor"
SUB_WORKFLOW = ("core.subWorkflow", "core.control.subWorkflow")
NEVER_INVOKED = ("forbidden", "rate_limited")
RETIRED = ("summary", "trace", "tokenCount")


def share_of(value: Any) -> float | None:
    """The value if it is a number from 0 to 1."""
    share = number(value)
    return share if share is not None and 0 <= share <= 1 else None


def _on_run_started(check: RuleCheck) -> None:
    check.state.options = check.payload.get("configurable", {})


def _on_node_started(check: RuleCheck) -> None:
    check.findings += close(check.state, check.node)
    check.execution().type_id = check.payload["typeId"]


def _on_node_completed(check: RuleCheck) -> None:
    node = check.state.nodes.get(check.node)
    has_decision = "decision" in check.payload.get("outputs", {})
    if node is not None and node.type_id == SUPERVISOR and has_decision and not node.directed:
        message = f"{check.node} ends with a decision that is not in the log"
        check.add("effect-before-decision", message)


def _on_reasoned(check: RuleCheck) -> None:
    node, agent = check.execution(), check.payload["agentId"]
    node.acted.add(agent)
    old = [key for key in RETIRED if key in check.payload]
    if old:
        message = f"{' and '.join(old)} are retired names; write reasoning and verbosity"
        check.add("retired-field", message)
    if node.block is not None:
        if node.block.agent != agent:
            message = f"{agent} closes the reasoning that {node.block.agent} began"
            check.add("delta-agent", message)
        node.block, node.closed = None, True
    reasoning = str(first(check.payload, "reasoning", "trace", "summary"))
    resolved = check.payload.get("verbosity") or check.state.options.get("reasoningVerbosity")
    size = -(-len(reasoning.encode(errors="replace")) // TOKEN_BYTES)
    if (resolved or "summary") == "summary" and size > TOKENS:
        message = f"a summary of about {size} tokens, the limit is {TOKENS}"
        check.add("summary-too-long", message)


def _on_delta(check: RuleCheck) -> None:
    node, agent, index = check.execution(), check.payload["agentId"], int(check.payload["sequence"])
    node.acted.add(agent)
    block = node.block
    if block is None and index and node.closed:
        check.add("delta-after-close", f"delta {index} of {agent} after its agent.reasoned")
        return
    if block is not None and block.agent != agent:
        message = f"a delta of {agent} in the reasoning of {block.agent}"
        check.add("delta-agent", message)
    elif block is not None and index == 0:
        check.add(
            "delta-not-closed",
            f"{agent} starts to reason again before the last reasoning was closed",
        )
    elif index != (expected := 0 if block is None else block.next):
        check.add("delta-order", f"delta {index} of {agent}, but the next one is {expected}")
    node.block = OpenBlock(agent if block is None else block.agent, index + 1)


def _on_called(check: RuleCheck) -> None:
    call = check.payload["callId"]
    check.execution().acted.add(check.payload["agentId"])
    if call in check.state.calls:
        check.add("call-not-returned", f"{call} is called again before it returned")
    check.state.calls[call] = str(check.event.id), check.node
    _check_tool(check)


def _on_returned(check: RuleCheck) -> None:
    payload, call = check.payload, check.payload["callId"]
    called = check.state.calls.pop(call, None)
    if called is None:
        acted = payload["agentId"] in check.execution().acted
        if payload.get("status") not in NEVER_INVOKED or acted:
            check.add("return-without-call", f"{call} returns, but was not called")
    elif check.event.cause != called[0]:
        message = f"{call} returns with cause {check.event.cause}, its call is {called[0]}"
        check.add("tool-causation", message)
    has_result = "result" in payload or "outcome" in payload
    if has_result and "error" in payload:
        check.add("result-and-error", f"{call} returns a result and an error")
    elif not has_result and "error" not in payload:
        check.add("neither-result-nor-error", f"{call} returns neither a result nor an error")
    _check_tool(check)


def _check_tool(check: RuleCheck) -> None:
    tool = first(check.payload, "toolId", "toolName")
    scope, _, name = tool.partition(":")
    if not scope or not name:
        message = f"{tool} is not <scope>:<tool-id>, such as openwop:{tool.strip(':') or 'echo'}"
        check.add("tool-id-form", message)


def _on_decided(check: RuleCheck) -> None:
    payload, node = check.payload, check.execution()
    if node.decision is not None:
        check.findings += settle(check.node, node.decision)
    agent = payload["agentId"]
    threshold = share_of(check.state.options.get("escalationThreshold"))
    if threshold is None:
        threshold = THRESHOLD
    decision = Decision(agent, payload.get("confidence"), threshold)
    node.decision = check.state.events[str(check.event.id)] = decision


def settle(node: str, decision: Decision) -> list[Finding]:
    """The findings about a decision to which nothing more can happen."""
    if not decision.low or decision.actions:
        return []
    who = f"{decision.agent} in {node}" if node else decision.agent
    what = f"{who} decided with {decision.confidence} < {decision.threshold}"
    if decision.hinted:
        message = f"{what}; what looks like its escalation does not name it as its cause"
        return [finding("escalation-form", message)]
    return [finding("escalation-missing", f"{what}, and nothing was done about it")]


def _escalate(check: RuleCheck, among: Iterable[NodeExecution], explicit: bool = False) -> None:
    """Count an action for the decision that it names as its cause."""
    decision = check.state.events.get(check.event.cause or "")
    if check.event.cause is None:
        for node in among:
            if node.decision is not None:
                node.decision.hinted = True
    elif decision is None:
        return
    elif decision.low:
        decision.actions += 1
        if decision.actions > 1:
            message = f"{check.event.kind} is the action {decision.actions} on {check.event.cause}"
            check.add("escalation-duplicate", message)
    elif explicit or decision.confidence is not None:
        message = f"{check.event.kind} on {check.event.cause}, which was sure enough"
        check.add("escalation-not-needed", message)


def _hint(check: RuleCheck) -> None:
    node = check.state.nodes.get(check.node)
    if node is not None and node.decision is not None:
        node.decision.hinted = True


def _on_interrupt(check: RuleCheck) -> None:
    match check.payload["kind"]:
        case "clarification":
            explicit = check.payload["data"].get("contextType") == LOW
            _escalate(check, [check.execution()], explicit)
        case "low-confidence":
            _hint(check)


def _on_suspended(check: RuleCheck) -> None:
    if LOW in (check.payload.get("kind"), check.payload.get("reason")):
        _hint(check)


def _on_cap(check: RuleCheck) -> None:
    if check.payload["kind"] == SUPPRESSED:
        check.add("seed-over-schema", f"{SUPPRESSED} is the RFC's; the schema does not have it")
        _escalate(check, [check.execution()], explicit=True)


def _on_orchestrator(check: RuleCheck) -> None:
    state, agent, decision = check.state, check.payload["agentId"], check.payload["decision"]
    if state.supervisor not in (None, agent):
        message = f"{agent} decides for the run, before it was {state.supervisor}"
        check.add("orchestrator-changed", message)
    state.supervisor = state.supervisor or agent
    if state.terminated:
        check.add("decision-after-terminate", f"{decision['kind']} after terminate")
    check.execution().directed = True
    match decision["kind"]:
        case "ask-user":
            _escalate(check, state.nodes.values())
        case "next-worker":
            state.directed = True
        case _:
            state.terminated = True


def _on_dispatched(check: RuleCheck) -> None:
    cause, node = check.event.cause, check.state.nodes.get(check.node)
    if node is not None and node.type_id in SUB_WORKFLOW:
        return  # it starts its run by itself; no supervisor has to decide it
    if not check.state.directed or (cause is not None and cause not in check.state.events):
        message = f"{check.payload['childRunId']} is dispatched before a decision says so"
        check.add("effect-before-decision", message)


STEPS: Mapping[str, Callable[[RuleCheck], None]] = {
    "run.started": _on_run_started,
    "node.started": _on_node_started,
    "node.completed": _on_node_completed,
    "node.suspended": _on_suspended,
    "node.dispatched": _on_dispatched,
    "agent.reasoned": _on_reasoned,
    "agent.reasoning.delta": _on_delta,
    "agent.toolCalled": _on_called,
    "agent.toolReturned": _on_returned,
    "agent.decided": _on_decided,
    "interrupt.requested": _on_interrupt,
    "cap.breached": _on_cap,
    "runOrchestrator.decided": _on_orchestrator,
}


def left(state: OpenwopRunState, name: str) -> list[Finding]:
    """The findings about what a node has left open."""
    node = state.nodes[name]
    findings = [
        finding("call-not-returned", f"{call} never returned")
        for call, (_, where) in state.calls.items()
        if where == name
    ]
    if node.block is not None:
        message = f"the reasoning of {node.block.agent} was never closed by an agent.reasoned"
        findings.append(finding("delta-not-closed", message))
    return findings + ([] if node.decision is None else settle(name, node.decision))


def close(state: OpenwopRunState, name: str) -> list[Finding]:
    """The findings about what a node leaves open at its end; its state is dropped."""
    if name not in state.nodes:
        return []
    findings = left(state, name)
    del state.nodes[name]
    state.calls = {call: at for call, at in state.calls.items() if at[1] != name}
    return findings
