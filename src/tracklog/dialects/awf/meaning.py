"""The facts of an event, each fact once."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Literal

from tracklog.dialects import number, text
from tracklog.dialects.awf.tolerance import STAND_IN
from tracklog.model.event import Body, Event
from tracklog.model.fact import (
    Began,
    Block,
    Called,
    Ended,
    Fact,
    Fidelity,
    Linked,
    Noted,
    Returned,
    Role,
    Said,
    Spent,
)


def facts(event: Event) -> Iterator[Fact]:
    body = event.body
    payload: Any = body.get("payload")
    step = text(body.get("path")) or None
    match event.kind:
        case "run.started":
            yield Began(what="run", task=payload["name"] or None)
            if parent := body.get("parent_run_id"):
                yield Linked(kind="sub-run", parent=parent)
        case "run.completed":
            yield _ended("run", None, payload)
        case "step.started":
            yield Began(what="step", step=step or payload["name"], task=_command(payload))
        case "step.call_workflow.started":
            step = step or payload["name"]
            yield Linked(kind="sub-run", child=body["child_run_id"], step=step)
            yield Began(what="step", step=step)
        case "step.completed" | "step.call_workflow.completed":
            yield _ended("step", step or payload["name"], payload)
        case "message.user" | "message.assistant":
            yield from _message(event, step)
            yield from _spent(payload, step)
            yield from _failed(payload, step)
        case "tool.call":
            yield _called(event, step)
        case "tool.result":
            yield _returned(event, step)
        case _:
            yield Noted(step=step, label=event.kind, kind=event.kind, data=payload)


def _command(payload: Body) -> str | None:
    blocks = payload.get("blocks", [])
    commands = (block["command"] for block in blocks if block["type"] == "command")
    return next(commands, None)


def _ended(what: Literal["run", "step"], step: str | None, payload: Body) -> Fact:
    code = number(payload.get("exit_code"))
    return Ended(
        what=what,
        step=step,
        outcome=text(payload.get("status")),
        passed=_passed(payload),
        error=payload.get("error") or None,
        exit_code=None if code is None else int(code),
        seconds=_seconds(payload),
    )


def _passed(payload: Body) -> bool | None:
    status = payload.get("status")
    if payload == STAND_IN or status == "skipped":
        return None
    return not payload.get("error") and status in (None, "ok", "success")


def _seconds(payload: Body) -> float | None:
    spent = number(payload.get("duration_ms"))
    return None if spent is None else spent / 1000


FIDELITIES: dict[str, Fidelity] = {"router": "observed", "agent_emitted": "reported"}


def _fidelity(block: Block) -> Fidelity:
    return FIDELITIES.get(text(block.get("fidelity")) or "", "reported")


def _message(event: Event, step: str | None) -> Iterator[Fact]:
    """The messages and calls of the blocks, in order, each once."""
    payload = event.body["payload"]
    blocks: list[Block] = payload["blocks"]
    roles = _roles(payload["role"], blocks)
    fields: Body = {
        "step": step,
        "message_id": event.id,
        "model": text(payload.get("model")),
        "stop_reason": text(payload.get("stop_reason")),
    }
    if not blocks:
        reported: Fidelity = "reported" if payload["role"] == "assistant" else "observed"
        yield Said(role=payload["role"], blocks=(), fidelity=reported, **fields)

    def voice(place: int) -> tuple[str, str]:
        block = blocks[place]
        tool = block["type"] in ("tool_use", "tool_result")
        return block["type"] if tool else roles[place], _fidelity(block)

    for _, group in groupby(range(len(blocks)), voice):
        places = list(group)
        first = blocks[places[0]]
        if first["type"] == "tool_use":
            yield from (_use(event, step, place) for place in places)
        elif first["type"] == "tool_result":
            yield from (_result(event, step, place) for place in places)
        else:
            yield Said(
                role=roles[places[0]],
                blocks=tuple(blocks[place] for place in places),
                fidelity=_fidelity(first),
                **fields,
            )


def _roles(role: Literal["user", "assistant"], blocks: list[Block]) -> list[Role]:
    """The role of each block: of a user's blocks one may be the system prompt."""
    roles: list[Role] = [role] * len(blocks)
    if role == "assistant":
        return roles
    parts = [block.get("part") for block in blocks]
    texts = [place for place, block in enumerate(blocks) if block["type"] == "text"]
    if len(texts) == 2 and not any(parts):
        # the original marks neither: the prompt comes first, then the system prompt
        roles[texts[1]] = "system"
    for place, part in enumerate(parts):
        if part == "system_prompt":
            roles[place] = "system"
    return roles


def _use(event: Event, step: str | None, place: int) -> Fact:
    block = event.body["payload"]["blocks"][place]
    return Called(
        step=step,
        fidelity=_fidelity(block),
        tool=block["tool_name"] or "unknown",
        call_id=block["tool_id"] or f"{event.id}/{place}",
        input=block["tool_input"],
        parent_call_id=text(block.get("parent_tool_id")),
        tool_server=text(block.get("tool_server")),
        synthetic_id=_synthetic(block),
    )


def _result(event: Event, step: str | None, place: int) -> Fact:
    block = event.body["payload"]["blocks"][place]
    output, code = _lower(block["tool_content"]), number(block.get("exit_code"))
    return Returned(
        step=step,
        fidelity=_fidelity(block),
        tool=text(block.get("tool_name")),
        call_id=block["tool_id"] or f"{event.id}/{place}",
        ok=not (_is_error(block, output) or code),
        output=output,
        exit_code=None if code is None else int(code),
        synthetic_id=_synthetic(block),
    )


def _synthetic(block: Block) -> bool:
    return block.get("tool_id_synthetic") is True or not block["tool_id"]


def _called(event: Event, step: str | None) -> Fact:
    payload = event.body["payload"]
    return Called(
        step=step,
        fidelity=_fidelity(payload),
        tool=payload["name"] or "unknown",
        call_id=payload["call_id"] or event.id or "",
        input=payload["input"],
        provider_call_id=text(payload.get("provider_call_id")),
        tool_server=text(payload.get("tool_server")),
        synthetic_id=not payload["call_id"],
    )


def _returned(event: Event, step: str | None) -> Fact:
    payload = event.body["payload"]
    output = _lower(payload["output"])
    return Returned(
        step=step,
        fidelity=_fidelity(payload),
        tool=payload["name"] or None,
        call_id=payload["call_id"] or event.id or "",
        ok=not (payload.get("error") or _is_error(payload, output)),
        output=output,
        error=payload.get("error") or None,
        seconds=_seconds(payload),
        synthetic_id=not payload["call_id"],
    )


def _is_error(block: Block, output: Any) -> bool:
    inner = output.get("is_error") if isinstance(output, dict) else None
    return block.get("is_error") is True or inner is True


GO_KEYS = {"Content": "content", "Type": "type", "Text": "text", "IsError": "is_error"}


def go_case(value: Any) -> bool:
    """Whether a tool's output has the original's capitalised keys, and no others."""
    return isinstance(value, dict) and bool(value) and all(key in GO_KEYS for key in value)


def _lower(value: Any) -> Any:
    if isinstance(value, list):
        return [_lower(part) for part in value]
    if not go_case(value):
        return value
    return {GO_KEYS[key]: _lower(part) for key, part in value.items()}


def _spent(payload: Body, step: str | None) -> Iterator[Fact]:
    usage, cost = payload.get("usage"), number(payload.get("cost_usd"))
    if isinstance(usage, dict) or cost is not None:
        yield Spent(
            step=step,
            provider=text(payload.get("provider")),
            model=text(payload.get("model")),
            usage=usage if isinstance(usage, dict) else None,
            cost_usd=cost,
        )


def _failed(payload: Body, step: str | None) -> Iterator[Fact]:
    status = text(payload.get("status"))
    error = text(payload.get("error")) or (status if status != "ok" else None)
    if error:
        yield Noted(step=step, label="error", text=error, data=payload.get("errors"))
