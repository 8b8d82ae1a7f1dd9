"""The output of `codex exec --json`: a thread, its turns and their items, without times."""

from collections.abc import Callable
from typing import Any

from tracklog.formats.importers import remember, run_id, word
from tracklog.formats.importers.codex.record import NAME, CodexRecord
from tracklog.formats.providers import input_of, is_text
from tracklog.formats.providers.codex import (
    TEXTS,
    TOOLS,
    call_of,
    kind_of,
    return_of,
    snake,
    tokens,
)
from tracklog.model.event import Body
from tracklog.model.fact import Began, Ended, Spent


def thread_started(line: CodexRecord, body: Body) -> bool | None:
    thread = word(body.get("thread_id")) or line.state["thread"]
    if line.state.get("began"):
        line.ignore("thread.started repeated")
        return None
    line.state["began"] = True
    # If the rollout of the same thread exists, that one counts.
    other = line.reader.source.others.named(thread)
    if other is not None and other != line.reader.source.path:
        line.state["aside"] = line.reader.out.copied = True
    line.link("alias", system=NAME, alias=thread)
    line.write_fact(Began(what="run", software={"name": "codex"}))
    return None


def turn_started(line: CodexRecord, _: Body) -> bool | None:
    line.state["turn"] = f"turn-{_turns(line, 1)}"
    line.write_fact(Began(what="step", step=line.state["turn"]))
    return None


def _turns(line: CodexRecord, more: int = 0) -> int:
    number: int = line.state.get("turns_begun", 0) + more
    line.state["turns_begun"] = number
    return number


def turn_completed(line: CodexRecord, body: Body) -> bool | None:
    turn = line.state.get("turn") or f"turn-{_turns(line, 1)}"
    if usage := tokens(body.get("usage")):
        thread = line.state["thread"]
        line.write_fact(Spent(key=f"{thread}:{turn}", provider="openai", usage=usage, group=thread))
    line.write_fact(Ended(what="step", step=turn))
    line.state.pop("turn", None)
    return None


def turn_failed(line: CodexRecord, body: Body) -> bool | None:
    turn = line.state.get("turn") or f"turn-{_turns(line, 1)}"
    line.write_fact(Ended(what="step", step=turn, passed=False, error=body.get("error")))
    line.state.pop("turn", None)
    return None


def failed(line: CodexRecord, body: Body) -> bool | None:
    line.note(
        "error", "error", {k: v for k, v in body.items() if k != "type"}, word(body.get("message"))
    )
    return None


def item_started(line: CodexRecord, body: Body) -> bool | None:
    item = _item(body)
    if item is None:
        return False
    if item["type"] in TOOLS:
        _call(line, item)
    else:
        line.ignore("item.started (mapped when completed)")
    return None


def item_updated(line: CodexRecord, body: Body) -> bool | None:
    if _item(body) is None:
        return False
    line.ignore("item.updated (mapped when completed)")
    return None


def item_completed(line: CodexRecord, body: Body) -> bool | None:
    item = _item(body)
    return False if item is None else completed_item(line, item)


def _item(body: Body) -> Body | None:
    item = body.get("item")
    return {**snake(item), "type": kind_of(item)} if isinstance(item, dict) else None


def completed_item(line: CodexRecord, item: Body) -> bool | None:
    """The facts of a completed item."""
    kind = item["type"]
    if kind in TEXTS:
        text = item.get("text")
        text = text if is_text(text) else ""
        if text or kind == "reasoning":
            block = {"type": TEXTS[kind], TEXTS[kind]: text}
            line.say("assistant", [block], message_id=_id(line, item))
        return None
    if kind in TOOLS:
        _completed_call(line, item)
        return None
    if kind == "function_call":  # its output is another item
        name = word(item.get("name")) or "unknown"
        id = word(item.get("call_id")) or _id(line, item)
        line.call(name, id, input_of(item.get("arguments")))
        return None
    if kind in ("todo_list", "request_user_input", "error"):
        held = {key: value for key, value in item.items() if key != "type"}
        line.note(kind, kind, held, word(item.get("message")))
        return None
    return False


def _id(line: CodexRecord, item: Body) -> str | None:
    # An item's id is unique only within its process.
    id = word(item.get("id"))
    return f"{line.state['thread']}:{id}" if id else None


def _call(line: CodexRecord, item: Body) -> str:
    call = call_of(item["type"], item)
    more: dict[str, Any] = {"tool_server": call.server, "by_provider": call.by_provider}
    id = line.call(call.tool, _id(line, item), call.input, **more)
    remember(line.state.setdefault("started", {}), id, 1)
    return id


def _completed_call(line: CodexRecord, item: Body) -> None:
    own = word(item.get("id"))
    is_known = own is not None and own in line.state.get("calls", {})  # by a response item
    id = own if is_known else _id(line, item)
    if not is_known and (id is None or not line.state.get("started", {}).pop(id, None)):
        called = _call(line, item)
        line.state["started"].pop(called, None)
    back = return_of(item)
    line.give_back(
        id,
        back.output,
        tool=call_of(item["type"], item).tool,
        status=back.status,
        error=back.error,
        exit_code=back.exit_code,
        ok=None if back.wrong is None else not back.wrong,
    )
    if item["type"] in SPAWNS and item.get("tool") == "spawn_agent":
        for child in item.get("receiver_thread_ids") or []:
            if isinstance(child, str) and child:
                line.link("sub-run", child=run_id(NAME, child), call_id=id)


SPAWNS = ("collab_tool_call", "collab_agent_tool_call")

STREAM: dict[str, Callable[[CodexRecord, Body], bool | None]] = {
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
