"""Ask a model on behalf of a node, and record what the reply costs."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tracklog.answers.run_steps import without_names
from tracklog.hosts._endpoint import ModelFailed
from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.masking import check_known
from tracklog.hosts.openwop.mock_provider import OPTION, stream_text
from tracklog.hosts.openwop.models import ModelReply
from tracklog.hosts.openwop.reasoning import Reasoning
from tracklog.hosts.openwop.recorded_answers import MODEL_FAILED, reply_of
from tracklog.hosts.openwop.step import NodeStep
from tracklog.hosts.openwop.tools import args_hash

LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


async def ask_model(
    step: NodeStep,
    messages: list[dict[str, Any]],
    tools: list[str],
    reasoning: Reasoning | None = None,
) -> ModelReply:
    """The reply of a model; its usage is recorded, and a `reasoning` is recorded while it arrives."""
    x, digest = step.x, _digest(step, messages)
    check_known(x.masks.lost_ports(step.node))
    await x.flush()
    if OPTION in x.configurable:
        return await stream_text(step, x.configurable[OPTION].get("config", {}))
    reasoning = reasoning or Reasoning(step, "")
    played = step.play("model", {"promptHash": digest})
    try:
        if played is not None:
            reply = reply_of(played)
            for piece in x.redactor.pieces(reply.chunks):
                reasoning.send(piece)
        else:
            think = reasoning.add if reasoning.agent else _ignore
            asking = x.engine.model.ask(messages, tools, x.configurable, think)
            reply = await x.unless_stopped(_while_writing(step, asking, reasoning))
            reasoning.end()
        if reply.failed is not None:
            raise NodeFailed(MODEL_FAILED, reply.failed)  # noqa: TRY301  # as one that fails now
    except ModelFailed as error:
        reasoning.break_off()
        raise NodeFailed(MODEL_FAILED, error.message) from None
    except BaseException:
        reasoning.break_off()
        raise
    if reply.usage:
        spent = {"provider": reply.provider, "model": reply.model, **reply.usage}
        # Its payload is closed, the envelope is not.
        step.x.emit("provider.usage", spent, step.node.id, promptHash=digest)
    return reply


def _ignore(_piece: str) -> None:
    """The reasoning of a supervisor is not recorded."""


async def _while_writing(
    step: NodeStep, asking: Coroutine[Any, Any, ModelReply], reasoning: Reasoning
) -> ModelReply:
    """A reply, with its reasoning recorded as it arrives."""
    answer = asyncio.ensure_future(asking)
    try:
        while not answer.done():
            more = asyncio.ensure_future(reasoning.more.wait())
            await asyncio.wait({answer, more}, return_when=asyncio.FIRST_COMPLETED)
            more.cancel()
            reasoning.more.clear()
            await step.x.flush()
        return answer.result()
    finally:
        if not answer.done():
            answer.cancel()
            await asyncio.wait({answer})


def _digest(step: NodeStep, messages: list[dict[str, Any]]) -> str:
    """A hash of the prompt, by which a tape recognises it without containing it."""
    rows = [{key: each[key] for key in ("role", "content")} for each in messages]
    cleaned = without_names(step.x.redactor.clean(rows), step.x.log.name)
    return args_hash(cleaned).translate(LETTERS)  # with figures it would pass for an id
