"""Fast constructors for the most common facts, as the keys of their lines.

They give the same result as `Said(...)`, `Called(...)`, `Returned(...)`, `Spent(...)`, `Began(...)`
and `Ended(...)`, in a third of the time; None and False are left out.
"""

from collections.abc import Sequence
from typing import Any

from tracklog.model.event import Body


def message_fact(
    role: str,
    blocks: Sequence[dict[str, Any]],
    message_id: str | None = None,
    model: str | None = None,
    stop_reason: str | None = None,
    injected: bool = False,
) -> Body:
    fact: Body = {"fact": "Said", "role": role, "blocks": blocks}
    if message_id is not None:
        fact["message_id"] = message_id
    if model is not None:
        fact["model"] = model
    if stop_reason is not None:
        fact["stop_reason"] = stop_reason
    if injected:
        fact["injected"] = True
    return fact


def call_fact(
    tool: str,
    call_id: str,
    input: Any = None,
    provider_call_id: str | None = None,
    tool_server: str | None = None,
    by_provider: bool = False,
    synthetic_id: bool = False,
) -> Body:
    fact: Body = {"fact": "Called", "tool": tool, "call_id": call_id}
    if input is not None:
        fact["input"] = input
    if provider_call_id is not None:
        fact["provider_call_id"] = provider_call_id
    if tool_server is not None:
        fact["tool_server"] = tool_server
    if by_provider:
        fact["by_provider"] = True
    if synthetic_id:
        fact["synthetic_id"] = True
    return fact


def result_fact(
    call_id: str,
    tool: str | None = None,
    ok: bool | None = None,
    output: Any = None,
    error: Any = None,
    status: str | None = None,
    exit_code: int | None = None,
    seconds: float | None = None,
    synthetic_id: bool = False,
) -> Body:
    fact: Body = {"fact": "Returned", "call_id": call_id}
    if tool is not None:
        fact["tool"] = tool
    if ok is not None:
        fact["ok"] = ok
    if output is not None:
        fact["output"] = output
    if error is not None:
        fact["error"] = error
    if status is not None:
        fact["status"] = status
    if exit_code is not None:
        fact["exit_code"] = exit_code
    if seconds is not None:
        fact["seconds"] = seconds
    if synthetic_id:
        fact["synthetic_id"] = True
    return fact


def spend_fact(
    key: str,
    usage: Body | None,
    provider: str | None = None,
    model: str | None = None,
    cost_usd: float | None = None,
    group: str | None = None,
    whole: bool = False,
    bound: str | None = None,
) -> Body:
    """One call of a model."""
    fact: Body = {"fact": "Spent", "key": key}
    if provider is not None:
        fact["provider"] = provider
    if model is not None:
        fact["model"] = model
    if usage is not None:
        fact["usage"] = usage
    if cost_usd is not None:
        fact["cost_usd"] = cost_usd
    fact["calls"] = 1
    if group is not None:
        fact["group"] = group
    if whole:
        fact["whole"] = True
    if bound is not None:
        fact["bound"] = bound
    return fact


def begin_fact(
    what: str, task: str | None, model: str | None, software: Body | None, host: str | None
) -> Body:
    fact: Body = {"fact": "Began", "what": what}
    if task is not None:
        fact["task"] = task
    if model is not None:
        fact["model"] = model
    if software is not None:
        fact["software"] = software
    if host is not None:
        fact["host"] = host
    return fact


def end_fact(
    what: str,
    outcome: str | None,
    passed: bool | None,
    reason: str | None,
    error: Any,
    seconds: float | None,
) -> Body:
    fact: Body = {"fact": "Ended", "what": what}
    if outcome is not None:
        fact["outcome"] = outcome
    if passed is not None:
        fact["passed"] = passed
    if reason is not None:
        fact["reason"] = reason
    if error is not None:
        fact["error"] = error
    if seconds is not None:
        fact["seconds"] = seconds
    return fact
