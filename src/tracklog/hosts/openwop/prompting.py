"""Nodes that ask a model: a prompt with its tools, and the decision of a supervisor."""

import asyncio
from collections.abc import Coroutine
from itertools import takewhile
from typing import Any

import orjson

from tracklog.answers.run_steps import without_names
from tracklog.hosts._endpoint import ModelFailed
from tracklog.hosts.openwop.checking import faults_of
from tracklog.hosts.openwop.ends import Again, NodeFailed
from tracklog.hosts.openwop.messages import message_channel, say
from tracklog.hosts.openwop.models import Reply
from tracklog.hosts.openwop.step import Step
from tracklog.hosts.openwop.taping import MODEL_FAILED, reply_of
from tracklog.hosts.openwop.thinking import DELTA, REASONED, Thought
from tracklog.hosts.openwop.tools import args_hash, full_id, unknown_end

MOST_ROUNDS = 16
LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


async def decision_of_model(step: Step) -> dict[str, Any]:
    """The decision in the model's JSON reply; if it has none, a decision to end, with the reason."""
    reply = await _ask_model(step, [{"role": "user", "content": step.prompt()}], [])
    try:
        decision = orjson.loads(reply.text)
    except orjson.JSONDecodeError:
        decision = None
    if decision is None or faults_of("orchestrator-decision", decision):
        return {"kind": "terminate", "reason": "the model gave no decision"}
    return dict(decision)


async def _ask_model(
    step: Step, messages: list[dict[str, Any]], tools: list[str], thought: Thought | None = None
) -> Reply:
    """The reply of a model; its usage is recorded, and a `thought` is recorded while it arrives."""
    x, digest = step.x, _digest(step, messages)
    await x.flush()
    thought = thought or Thought(step, "")
    played = step.play("model", {"promptHash": digest})
    try:
        if played is not None:
            reply = reply_of(played)
            for piece in reply.chunks:
                thought.tell(piece)
        else:
            think = thought.hear if thought.agent else _unheard
            asking = x.engine.model.ask(messages, tools, x.configurable, think)
            reply = await x.unless_stopped(_followed(step, asking, thought))
            thought.end()
        if reply.failed is not None:
            raise NodeFailed(MODEL_FAILED, reply.failed)  # noqa: TRY301  # as one that fails now
    except ModelFailed as error:
        thought.break_off()
        raise NodeFailed(MODEL_FAILED, error.message) from None
    except BaseException:
        thought.break_off()
        raise
    if reply.usage:
        spent = {"provider": reply.provider, "model": reply.model, **reply.usage}
        # Its payload is closed, the envelope is not.
        step.x.emit("provider.usage", spent, step.node.id, promptHash=digest)
    return reply


def _unheard(_piece: str) -> None:
    """The reasoning of a supervisor is not recorded."""


async def _followed(step: Step, asking: Coroutine[Any, Any, Reply], thought: Thought) -> Reply:
    """A reply, with its reasoning recorded as it arrives."""
    answer = asyncio.ensure_future(asking)
    try:
        while not answer.done():
            more = asyncio.ensure_future(thought.more.wait())
            await asyncio.wait({answer, more}, return_when=asyncio.FIRST_COMPLETED)
            more.cancel()
            thought.more.clear()
            await step.x.flush()
        return answer.result()
    finally:
        if not answer.done():
            answer.cancel()
            await asyncio.wait({answer})


def _digest(step: Step, messages: list[dict[str, Any]]) -> str:
    """A hash of the prompt, by which a tape recognises it without containing it."""
    rows = [{key: each[key] for key in ("role", "content")} for each in messages]
    cleaned = without_names(step.x.redactor.clean(rows), step.x.log.name)
    return args_hash(cleaned).translate(LETTERS)  # with figures it would pass for an id


async def call_prompt(step: Step) -> dict[str, Any]:
    """A model answers a prompt, with tools if it may use some."""
    x, ref = step.x, step.ref
    assert ref is not None
    agent = ref["agentId"]
    prompt, context = step.prompt(), step.context()
    if (held := _decided_before(step)) is not None:
        text, confidence, reasoning = held
    else:
        _begin_anew(step)
        offered = [full_id(tool) for tool in step.config.get("tools", [])]
        allowed = x.engine.agents.allowed(agent, offered)
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
        say(step, message_channel(step), f"{step.node.id}:{step.count}:0", ref, text)
    context.append({"role": "user", "content": prompt})
    context.append({"role": "assistant", "content": text})
    return {"text": text}


async def _converse(
    step: Step, agent: str, messages: list[dict[str, Any]], allowed: list[str]
) -> Reply:
    for _ in range(MOST_ROUNDS):
        thought = Thought(step, agent)
        reply = await _ask_model(step, messages, allowed, thought)
        if reply.reasoning:
            thought.close(reply.reasoning)  # before it acts (WOP-42)
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
            told = outcome.result if outcome.error is None else outcome.error
            content = told if isinstance(told, str) else orjson.dumps(told).decode()
            messages.append({"role": "tool", "tool_call_id": id, "content": content})
    raise NodeFailed("too_many_rounds", f"it called tools for {MOST_ROUNDS} rounds")


def _decided_before(step: Step) -> tuple[str, float | None, str | None] | None:
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


def _begin_anew(step: Step) -> None:
    """Begin a conversation again that broke off in the middle, and record that."""
    x = step.x
    while (event := x.peek()) is not None:
        x.emit(event["type"], event["payload"], event.get("nodeId"))
    began = x.history[step.started["sequence"] :]
    if len(began) == 1:
        return
    returned = {e["payload"]["callId"] for e in began if e["type"] == "agent.toolReturned"}
    for event in began:
        payload = event["payload"]
        if event["type"] == "agent.toolCalled" and payload["callId"] not in returned:
            agent, tool = payload["agentId"], payload["toolId"]
            step.returned(agent, tool, payload["callId"], unknown_end(tool), None, event)
    deltas = list(takewhile(lambda e: e["type"] != REASONED, reversed(began)))
    if rows := [e["payload"] for e in reversed(deltas) if e["type"] == DELTA]:
        whole = {"reasoning": "".join(each["delta"] for each in rows)}
        step.emit(REASONED, {**{key: rows[0][key] for key in ("agentId", "verbosity")}, **whole})
    again = {"nodeId": step.node.id, "attempt": x.attempt + 1}
    retried = step.emit("node.retried", again)
    assert retried is not None
    raise Again(retried)
