"""`core.ai.callPrompt`: a model answers a prompt, with tools if it may use some."""

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

import orjson

from tracklog.hosts.openwop.agents import Ref
from tracklog.hosts.openwop.definitions import PROMPT, DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.exceptions import Again, NodeFailed
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    Use,
    check_channel,
    check_prompt,
    fixed_outputs,
    is_texts,
    ports_of_prompt,
    wrong,
)
from tracklog.hosts.openwop.messages import message_channel, write_message
from tracklog.hosts.openwop.model_calls import ask_model
from tracklog.hosts.openwop.models import ModelReply
from tracklog.hosts.openwop.reasoning import DELTA, REASONED, Reasoning
from tracklog.hosts.openwop.step import NodeStep
from tracklog.hosts.openwop.tools import full_id, unknown_end

MOST_ROUNDS = 16


async def run(step: NodeStep) -> Outputs:
    x, ref = step.x, step.ref
    assert ref is not None
    agent = ref["agentId"]
    prompt, context = step.prompt(), step.context()
    if (recorded := _recorded_decision(step)) is not None:
        text, confidence, reasoning = recorded
    else:
        _begin_again(step)
        offered = [full_id(tool) for tool in step.config.get("tools", [])]
        allowed = x.engine.agents.allowed(agent, offered, is_pinned=step.node.ref is not None)
        for tool in offered:
            if tool not in allowed:
                step.forbid(agent, tool)
        system = step.config.get("system") or x.engine.agents.prompt(agent)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [*context, {"role": "user", "content": prompt}]
        reply = await _converse(step, agent, messages, allowed)
        text, confidence, reasoning = reply.text, reply.confidence, None
    decision = await step.decide(agent, {"text": text}, confidence, reasoning)
    if isinstance(decision, dict) and isinstance(decision.get("text"), str):
        text = decision["text"]
    if "channel" in step.config:
        write_message(step, message_channel(step), f"{step.node.id}:{step.count}:0", ref, text)
    context.append({"role": "user", "content": prompt})
    context.append({"role": "assistant", "content": text})
    return {"text": text}


async def _converse(
    step: NodeStep, agent: str, messages: list[dict[str, Any]], allowed: list[str]
) -> ModelReply:
    for _ in range(MOST_ROUNDS):
        reasoning = Reasoning(step, agent)
        reply = await ask_model(step, messages, allowed, reasoning)
        if reply.reasoning:
            reasoning.close(reply.reasoning)  # before it acts (WOP-42)
        if not reply.calls:
            return reply
        wanted = [
            {"id": id, "type": "function"}
            | {"function": {"name": tool, "arguments": orjson.dumps(given).decode()}}
            for id, tool, given in reply.calls
        ]
        messages.append({"role": "assistant", "content": reply.text, "tool_calls": wanted})
        for id, tool, given in reply.calls:
            name = full_id(tool)
            outcome = await step.call(agent, name, given, allowed=name in allowed)
            result = outcome.result if outcome.error is None else outcome.error
            content = result if isinstance(result, str) else orjson.dumps(result).decode()
            messages.append({"role": "tool", "tool_call_id": id, "content": content})
    raise NodeFailed("too_many_rounds", f"it called tools for {MOST_ROUNDS} rounds")


def _recorded_decision(step: NodeStep) -> tuple[str, float | None, str | None] | None:
    """The decision of a model before the host was stopped: it is not asked again."""
    x, ahead = step.x, 0
    while (event := x.peek(ahead)) is not None:
        if event["type"] == "agent.decided" and event.get("nodeId") == step.node.id:
            for _ in range(ahead):
                passed = x.peek()
                assert passed is not None
                x.emit(passed["type"], passed["payload"], passed.get("nodeId"))
            payload = event["payload"]
            text = str(payload["decision"].get("text", ""))
            return text, payload.get("confidence"), payload.get("reasoning")
        ahead += 1
    return None


def _begin_again(step: NodeStep) -> None:
    """Begin a conversation again that broke off in the middle, and record that."""
    x = step.x
    while (event := x.peek()) is not None:
        x.emit(event["type"], event["payload"], event.get("nodeId"))
    events = x.history[step.started["sequence"] :]
    if len(events) == 1:
        return
    returned = {e["payload"]["callId"] for e in events if e["type"] == "agent.toolReturned"}
    for event in events:
        payload = event["payload"]
        if event["type"] == "agent.toolCalled" and payload["callId"] not in returned:
            agent, tool = payload["agentId"], payload["toolId"]
            step.returned(agent, tool, payload["callId"], unknown_end(tool), None, event)
    deltas = list(takewhile(lambda e: e["type"] != REASONED, reversed(events)))
    if rows := [e["payload"] for e in reversed(deltas) if e["type"] == DELTA]:
        text = {"reasoning": "".join(each["delta"] for each in rows)}
        step.emit(REASONED, {**{key: rows[0][key] for key in ("agentId", "verbosity")}, **text})
    again = {"nodeId": step.node.id, "attempt": x.attempt + 1}
    retried = step.emit("node.retried", again)
    assert retried is not None
    raise Again(retried)


def repeated(step: NodeStep, outputs: Mapping[str, Any]) -> None:
    """Put a recorded reply into the memory of the agent, which is not asked again."""
    context = step.context()
    context.append({"role": "user", "content": step.prompt()})
    context.append({"role": "assistant", "content": str(outputs.get("text", ""))})


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:
    yield from check_prompt(node)
    if not isinstance(node.config.get("system", ""), str):
        yield wrong(node, "system", "system is a text")
    if (tools := node.config.get("tools", [])) != [] and not is_texts(tools):
        yield wrong(node, "tools", "tools is a list of the ids of tools")
    if "channel" in node.config:
        yield from check_channel(node, site)


def uses(node: WorkflowNode) -> Iterator[Use]:
    for tool in node.config.get("tools", []):
        yield Use("tool", "tools", full_id(tool))


def agent(workflow: str, node: WorkflowNode) -> Ref:
    return node.ref or {"agentId": f"host:model:{workflow}:{node.id}"}


kind = NodeKind(
    type=PROMPT,
    run=run,
    config=frozenset({"prompt", "system", "tools", "channel"}),
    check=check,
    uses=uses,
    agent=agent,
    repeated=repeated,
    ports=ports_of_prompt,
    outputs=fixed_outputs("text"),
)
