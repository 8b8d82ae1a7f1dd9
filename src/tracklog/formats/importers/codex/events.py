"""The events of a rollout: turns, tokens, durations, and events around the responses."""

from collections.abc import Callable
from typing import Any

from tracklog.formats.importers import count, in_seconds, remember, run_id, word
from tracklog.formats.importers._fact_bodies import spend_fact
from tracklog.formats.importers.codex.copies import copy
from tracklog.formats.importers.codex.items import COPIES, ITEMS, digest, duration, went
from tracklog.formats.importers.codex.record import NAME, CodexRecord, element_text
from tracklog.formats.importers.codex.stream import completed_item
from tracklog.formats.providers.codex import kind_of, snake
from tracklog.model.event import Body
from tracklog.model.fact import Began, Ended


def token_count(line: CodexRecord, event: Body) -> bool | None:
    info = event.get("info")
    total = info.get("total_token_usage") if isinstance(info, dict) else None
    if isinstance(info, dict) and isinstance(total, dict):
        _spent(line, total, info.get("last_token_usage"))
    elif info is not None:
        line.note("token_count", "token_count", info)
    limits = event.get("rate_limits")
    if limits and limits != line.state.get("limits"):
        line.state["limits"] = limits
        line.note("rate-limits", "token_count", limits)
    return None


KEYS = {
    "input_tokens": "input_tokens",
    "cached_input_tokens": "cached_tokens",
    "cache_write_input_tokens": "cache_write_tokens",
    "output_tokens": "output_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
    "total_tokens": "total_tokens",
}


def _spent(line: CodexRecord, total: Body, last: Any) -> None:
    """The increase of the total since the last time; nothing when it is repeated unchanged."""
    state = line.state
    now = _counts(total)
    before: dict[str, int] = state.get("total") or {}
    amounts = {key: amount - before.get(key, 0) for key, amount in now.items()}
    if not any(amounts.values()):
        return
    if min(amounts.values()) < 0:
        # A new base: the current total was not spent again.
        state["base"] = state.get("base", 0) + 1
        amounts, before = _counts(last) if isinstance(last, dict) else now, {}
    state["total"] = before | now
    usage: dict[str, Any] = {KEYS[key]: amount for key, amount in amounts.items()}
    usage["raw"] = {"total": total, "last": last}
    thread = counter = state["thread"]
    base = f"#{state['base']}" if "base" in state else ""
    totals = "-".join(map(str, now.values()))
    copied = "copy" in state and state["copy"]["path"] is None
    if copied:
        # so that the same spend in the parent's file is recognised by its key
        counter = state["copy"]["of"]
    fact = spend_fact(
        f"{counter}{base}:{totals}",
        usage,
        state.get("provider"),
        state.get("model"),
        group=thread,
        whole=True,
        bound="upper" if copied and not line.reader.out.copied else None,
    )
    line.write_fact(fact)


def counted_before(state: Body, total: Body) -> None:
    """The usage before a thread's own turns began."""
    state["total"] = _counts(total)


def _counts(usage: Body) -> dict[str, int]:
    """The counts of a usage, under its own names."""
    counts: dict[str, int] = {}
    for key in KEYS:
        if key in usage:
            amount = usage[key]
            if type(amount) is not int or not 0 <= amount < 2**53:
                amount = count(amount)
            if amount is not None:
                counts[key] = amount
    return counts


def begin_turn(line: CodexRecord, turn: str) -> None:
    """Begin a turn: the facts from here on belong to it, and may be withdrawn with it."""
    state = line.state
    state["turn"] = turn
    turns: list[str] = state.get("turns", [])
    if turn not in turns:
        state["turns"] = [*turns, turn][-64:]


def task_started(line: CodexRecord, event: Body) -> bool | None:
    state = line.state
    number = state["turns_begun"] = state.get("turns_begun", 0) + 1
    turn = word(event.get("turn_id")) or f"turn-{number}"
    begin_turn(line, turn)
    rest = {k: v for k, v in event.items() if k not in ("type", "turn_id") and v is not None}
    line.write_fact(Began(what="step", step=turn, model=state.get("model")), extra=rest)
    return None


def task_complete(line: CodexRecord, event: Body) -> bool | None:
    error = event.get("error")
    ended = Ended(
        what="step",
        step=word(event.get("turn_id")) or line.state.get("turn"),
        passed=False if error else None,
        error=error,
        seconds=in_seconds(event.get("duration_ms"), 1000),
    )
    line.write_fact(ended)
    return None


def turn_aborted(line: CodexRecord, event: Body) -> bool | None:
    turn = word(event.get("turn_id")) or line.state.get("turn")
    reason = word(event.get("reason"))
    took = in_seconds(event.get("duration_ms"), 1000)
    line.write_fact(Ended(what="step", step=turn, outcome=reason, seconds=took))
    return None


def item_completed(line: CodexRecord, event: Body) -> bool | None:
    """A completed item, mapped like a response item; one that was mapped already is a copy."""
    item = event.get("item")
    if not isinstance(item, dict):
        return False
    kind = kind_of(item)
    if turn := word(event.get("turn_id")):
        line.state["turn"] = turn
    if kind in ("user_message", "agent_message", "message", "reasoning", "plan"):
        return _message_item(line, item, kind)
    if kind in ITEMS:
        return ITEMS[kind](line, {**item, "type": kind})
    return completed_item(line, {**snake(item), "type": kind})


def _message_item(line: CodexRecord, item: Body, kind: str) -> bool | None:
    if kind == "reasoning":
        text = element_text(item.get("summary_text") or item.get("summary") or item.get("text"))
        key = digest("reasoning", text or "")
    else:
        role = "user" if kind == "user_message" else "assistant"
        text = element_text(item.get("content") or item.get("text"))
        key = digest(role, text or "")
    if text is None or line.state.get("told", {}).pop(key, None):
        line.ignore("event_msg/item_completed (copy of a response item)")
        return None
    if kind == "reasoning":
        line.say(
            "assistant", [{"type": "thinking", "thinking": text}], message_id=word(item.get("id"))
        )
        return None
    remember(line.state.setdefault("items", {}), key, 1, COPIES)
    line.say(role, [{"type": "text", "text": text}], message_id=word(item.get("id")))
    return None


def command_end(line: CodexRecord, event: Body) -> bool | None:
    more = went(event.get("exit_code"), event.get("duration"))
    output = event.get("aggregated_output") or event.get("stdout") or event.get("formatted_output")
    status = word(event.get("status"))
    line.give_back(word(event.get("call_id")), output, status=status, **more)
    return None


def patch_end(line: CodexRecord, event: Body) -> bool | None:
    ok = event.get("success")
    more = went(None, event.get("duration"))
    output = {key: event[key] for key in ("stdout", "stderr", "changes") if event.get(key)}
    line.give_back(
        word(event.get("call_id")), output, ok=ok if isinstance(ok, bool) else None, **more
    )
    return None


def mcp_end(line: CodexRecord, event: Body) -> bool | None:
    result = event.get("result")
    error = result.get("Err") if isinstance(result, dict) else None
    good = result.get("Ok", result) if isinstance(result, dict) else result
    failed = error is not None or (isinstance(good, dict) and good.get("isError") is True)
    more = went(None, event.get("duration"))
    asked = event.get("invocation")
    tool = word(asked.get("tool")) if isinstance(asked, dict) else None
    output = None if error is not None else good
    line.give_back(
        word(event.get("call_id")), output, tool=tool, error=error, ok=not failed, **more
    )
    return None


def other_end(line: CodexRecord, event: Body) -> bool | None:
    """A call returned; everything beside its id is its output."""
    kind = str(event.get("type"))
    rest = {k: v for k, v in event.items() if k not in ("type", "call_id", "duration", "status")}
    status = word(event.get("status"))
    took = duration(event.get("duration"))
    ok = event.get("success")
    if word(event.get("call_id")) is None:
        line.note(kind, kind, rest)
        return None
    line.give_back(
        word(event.get("call_id")),
        rest or None,
        status=status,
        seconds=took,
        ok=ok if isinstance(ok, bool) else None,
    )
    return None


def spawn_end(line: CodexRecord, event: Body) -> bool | None:
    child = word(event.get("new_thread_id"))
    held = {key: value for key, value in event.items() if key != "type" and value is not None}
    if child is None:
        line.note("collab_agent_spawn_end", "collab_agent_spawn_end", held)
        return None
    line.link(
        "sub-run", child=run_id(NAME, child), call_id=word(event.get("call_id")), context=held
    )
    return None


def withdrawn(line: CodexRecord, event: Body) -> bool | None:
    turns = line.state.get("turns", [])
    back = count(event.get("num_turns")) or 1
    start = turns[-back] if 0 < back <= len(turns) else None
    held = {key: value for key, value in event.items() if key != "type"}
    kind = str(event.get("type"))
    line.note("withdrawn", kind, {"from": start, **held} if start else held)
    return None


def labelled(label: str | None) -> Callable[[CodexRecord, Body], bool | None]:
    def write(line: CodexRecord, event: Body) -> bool | None:
        kind = str(event.get("type"))
        held = {key: value for key, value in event.items() if key != "type" and value is not None}
        inner = event.get("error")
        texts = [event.get(key) for key in ("message", "thread_name", "name")]
        texts.append(inner.get("message") if isinstance(inner, dict) else inner)
        text = next((found for each in texts if (found := word(each))), None)
        line.note(label or kind, kind, held or None, text)
        return None

    return write


EVENTS: dict[str, Callable[[CodexRecord, Body], bool | None]] = {
    "user_message": copy,
    "agent_message": copy,
    "agent_reasoning": copy,
    "agent_reasoning_raw_content": copy,
    "agent_reasoning_section_break": copy,
    "token_count": token_count,
    "task_started": task_started,
    "turn_started": task_started,
    "task_complete": task_complete,
    "turn_complete": task_complete,
    "turn_aborted": turn_aborted,
    "item_completed": item_completed,
    "exec_command_end": command_end,
    "patch_apply_end": patch_end,
    "mcp_tool_call_end": mcp_end,
    "collab_agent_spawn_end": spawn_end,
    "thread_rolled_back": withdrawn,
    "undo_completed": withdrawn,
    "error": labelled("error"),
    "stream_error": labelled("error"),
    "context_compacted": labelled("compaction"),
    "thread_name_updated": labelled("title"),
    **dict.fromkeys(
        (
            "web_search_end",
            "image_generation_end",
            "view_image_tool_call",
            "dynamic_tool_call_request",
            "dynamic_tool_call_response",
            "dynamic_tool_call_end",
        ),
        other_end,
    ),
    **dict.fromkeys(
        (
            "collab_waiting_end",
            "collab_close_end",
            "collab_agent_interaction_end",
            "collab_resume_end",
            "sub_agent_activity",
            "entered_review_mode",
            "exited_review_mode",
            "guardian_assessment",
            "thread_goal_updated",
            "thread_settings_applied",
            "warning",
            "plan_update",
            "background_event",
            "model_reroute",
        ),
        labelled(None),
    ),
}
