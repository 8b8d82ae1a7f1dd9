"""What `codex exec --json` prints: a thread, its turns and their items, without any clock."""

from collections.abc import Callable
from typing import Any

from tracklog.event import Body
from tracklog.fact import Began, Ended, Spent
from tracklog.importers import count, run_id, word
from tracklog.importers._blocks import text_block
from tracklog.importers.codex.items import passed, went
from tracklog.importers.codex.telling import NAME, Line, given, snake

KEYS = {
    "input_tokens": "input_tokens",
    "cached_input_tokens": "cached_tokens",
    "cache_write_input_tokens": "cache_write_tokens",
    "output_tokens": "output_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}


def thread_started(line: Line, said: Body) -> bool | None:
    thread = word(said.get("thread_id")) or line.state["thread"]
    if line.state.get("began"):
        line.ignore("thread.started told again")
        return None
    line.state["began"] = True
    # Where the rollout of the same thread is at hand, that one counts.
    other = line.reader.source.others.named(thread)
    if other is not None and other != line.reader.source.path:
        line.state["aside"] = line.reader.tell.copied = True
    line.link("alias", system=NAME, alias=thread)
    line.tell_fact(Began(what="run", software={"name": "codex"}))
    return None


def turn_started(line: Line, _: Body) -> bool | None:
    line.state["turn"] = f"turn-{_turns(line, 1)}"
    line.tell_fact(Began(what="step", step=line.state["turn"]))
    return None


def _turns(line: Line, more: int = 0) -> int:
    number: int = line.state.get("turns_begun", 0) + more
    line.state["turns_begun"] = number
    return number


def turn_completed(line: Line, said: Body) -> bool | None:
    usage = said.get("usage")
    turn = line.state.get("turn") or f"turn-{_turns(line, 1)}"
    if isinstance(usage, dict):
        counts = {ours: count(usage.get(theirs)) for theirs, ours in KEYS.items()}
        known: dict[str, Any] = {key: each for key, each in counts.items() if each is not None}
        if {"input_tokens", "output_tokens"} <= known.keys():
            known["total_tokens"] = known["input_tokens"] + known["output_tokens"]
        thread = line.state["thread"]
        spent = Spent(
            key=f"{thread}:{turn}",
            provider="openai",
            usage={**known, "raw": usage},
            group=thread,
        )
        line.tell_fact(spent)
    line.tell_fact(Ended(what="step", step=turn))
    line.state.pop("turn", None)
    return None


def turn_failed(line: Line, said: Body) -> bool | None:
    turn = line.state.get("turn") or f"turn-{_turns(line, 1)}"
    line.tell_fact(Ended(what="step", step=turn, passed=False, error=said.get("error")))
    line.state.pop("turn", None)
    return None


def failed(line: Line, said: Body) -> bool | None:
    line.note(
        "error", "error", {k: v for k, v in said.items() if k != "type"}, word(said.get("message"))
    )
    return None


def item_started(line: Line, said: Body) -> bool | None:
    item = _item(said)
    if item is None:
        return False
    calling = CALLS.get(item["type"])
    if calling is None:
        line.ignore("item.started (told when completed)")
        return None
    _call(line, item, calling)
    return None


def item_updated(line: Line, said: Body) -> bool | None:
    if _item(said) is None:
        return False
    line.ignore("item.updated (told when completed)")
    return None


def item_completed(line: Line, said: Body) -> bool | None:
    item = _item(said)
    return False if item is None else completed_item(line, item)


def _item(said: Body) -> Body | None:
    item = said.get("item")
    if not isinstance(item, dict):
        return None
    return {**item, "type": snake(word(item.get("item_type")) or word(item.get("type")) or "")}


def completed_item(line: Line, item: Body) -> bool | None:
    """What a whole item tells."""
    kind = item["type"]
    if kind in ("agent_message", "assistant_message", "plan"):
        if word(item.get("text")) or isinstance(item.get("text"), dict):
            line.say("assistant", [text_block(item["text"])], message_id=_id(line, item))
        return None
    if kind == "reasoning":
        block = {"type": "thinking", "thinking": item.get("text") or ""}
        line.say("assistant", [block], message_id=_id(line, item))
        return None
    if kind in CALLS:
        _completed_call(line, item, CALLS[kind])
        return None
    if kind in ("todo_list", "request_user_input", "error"):
        label = "error" if kind == "error" else kind
        held = {key: value for key, value in item.items() if key != "type"}
        line.note(label, kind, held, word(item.get("message")))
        return None
    return False


def _id(line: Line, item: Body) -> str | None:
    # An item's id is unique within its process only.
    id = word(item.get("id"))
    return f"{line.state['thread']}:{id}" if id else None


Calling = Callable[[Body], tuple[str, Any, dict[str, Any]]]
"""The tool of an item, its input, and what else its call says."""


def _call(line: Line, item: Body, calling: Calling) -> str:
    tool, asked, more = calling(item)
    id = line.call(tool, _id(line, item), asked, **more)
    line.state.setdefault("started", {})[id] = 1
    return id


def _completed_call(line: Line, item: Body, calling: Calling) -> None:
    id = _id(line, item)
    if id is None or not line.state.get("started", {}).pop(id, None):
        called = _call(line, item, calling)
        line.state["started"].pop(called, None)
    if item["type"] == "function_call":
        return  # its output is another item
    status = word(item.get("status"))
    more = went(item.get("exit_code"), None)
    error = item.get("error")
    ok = passed(status)
    if status == "declined" or error or more.get("ok") is False:
        ok = False
    output = next(
        (item[key] for key in ("aggregated_output", "result", "agents_states") if key in item), None
    )
    line.give_back(
        id, output, tool=calling(item)[0], status=status, error=error, **{**more, "ok": ok}
    )
    if item["type"] == "collab_tool_call" and item.get("tool") == "spawn_agent":
        for child in item.get("receiver_thread_ids") or []:
            if isinstance(child, str) and child:
                line.link("sub-run", child=run_id(NAME, child), call_id=id)


def _named(item: Body) -> tuple[str, Any, dict[str, Any]]:
    return word(item.get("name")) or "unknown", given(item.get("arguments")), {}


def _tool(item: Body) -> tuple[str, Any, dict[str, Any]]:
    server = word(item.get("server"))
    asked = item.get("arguments")
    if item["type"] == "collab_tool_call":
        asked = {
            k: item[k] for k in ("prompt", "sender_thread_id", "receiver_thread_ids") if k in item
        }
    return word(item.get("tool")) or item["type"], asked, {"tool_server": server}


CALLS: dict[str, Calling] = {
    "command_execution": lambda item: (
        "command_execution",
        {"command": item.get("command")},
        {},
    ),
    "file_change": lambda item: ("file_change", {"changes": item.get("changes")}, {}),
    "mcp_tool_call": _tool,
    "collab_tool_call": _tool,
    "collab_agent_tool_call": _tool,
    "dynamic_tool_call": _tool,
    "function_call": _named,
    "web_search": lambda item: (
        "web_search",
        {key: item[key] for key in ("query", "action") if key in item},
        {"by_provider": True},
    ),
}

STREAM: dict[str, Callable[[Line, Body], bool | None]] = {
    "thread.started": thread_started,
    "turn.started": turn_started,
    "turn.completed": turn_completed,
    "turn.failed": turn_failed,
    "item.started": item_started,
    "item.updated": item_updated,
    "item.plan.delta": item_updated,
    "item.completed": item_completed,
    "error": failed,
}
