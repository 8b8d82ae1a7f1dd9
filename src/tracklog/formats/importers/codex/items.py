"""The items of a response: messages, thoughts, calls and results."""

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import orjson

from tracklog.formats.importers import count, in_seconds, remember, word
from tracklog.formats.importers.codex.copies import known
from tracklog.formats.importers.codex.record import CodexRecord, element_text
from tracklog.formats.providers import foreign, input_of, is_text
from tracklog.model.event import Body

COPIES = 128
"""How many messages are remembered to recognise a copy nearby."""
UNSAID = {"type", "replacement_history"}
TEXTS = {"input_text", "output_text", "text", "Text"}
INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "<permissions instructions>",
    "<turn_aborted>",
    "<skill>",
    "<subagent_notification>",
    "# AGENTS.md instructions",
)
IDE = "# Context from my IDE setup:"
REQUEST = re.compile(r"^## My request for Codex:[ \t]*\n?", re.MULTILINE)
_EXITED = re.compile(
    r"(?:Chunk ID: .*\n)?Wall time: ([0-9.]+) seconds?\nProcess exited with code (-?\d+)\n",
    re.ASCII,
)
"""The head of the output of `exec_command`."""
_SHELL = re.compile(r"Exit code: (-?\d+)\nWall time: ([0-9.]+) seconds?\n", re.ASCII)


def digest(role: str, text: str) -> str:
    return sha256(f"{role}\n{text.strip()}".encode("utf-8", "replace")).hexdigest()[:16]


def message(line: CodexRecord, item: Body) -> bool | None:
    role = word(item.get("role")) or "assistant"
    content = item.get("content", item.get("message", item.get("text")))
    if content is None:
        return False
    blocks = [each for each in map(_block, _elements(content)) if each]
    known(line, [block.get("text") for block in [*blocks, *_apart(blocks)]])
    role = role if role in ("user", "assistant") else "system"
    if _written_before(line, "items", digest(role, _words(blocks))):
        line.ignore("message, copy of an item")
        return None
    remember(line.state.setdefault("told", {}), digest(role, _words(blocks)), 1, COPIES)
    injected = role == "system" or (role == "user" and _is_injected(blocks))
    extra = {"phase": item["phase"]} if item.get("phase") else None
    model = word(item.get("model"))
    more: dict[str, Any] = {"model": model} if model and role == "assistant" else {}
    more["message_id"] = word(item.get("id"))
    if role == "user" and not injected:
        blocks = _apart(blocks)
    line.say(role, blocks, injected=injected, extra=extra, **more)
    return None


def _elements(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _block(element: Any) -> dict[str, Any] | None:
    if isinstance(element, str):
        return {"type": "text", "text": element} if element else None
    if not isinstance(element, dict):
        return None if element is None else foreign("element", element)
    kind = word(element.get("type")) or "element"
    if kind in TEXTS and is_text(element.get("text")):
        rest = {key: value for key, value in element.items() if value not in (None, [])}
        return {**rest, "type": "text", "text": element["text"]}
    if "$blob" in element:
        return {"type": "text", "text": element}
    return foreign(kind, element)


def _words(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if isinstance(block.get("text"), str))


def _is_injected(blocks: list[dict[str, Any]]) -> bool:
    """Whether the tool itself wrote this in the place of a person's prompt."""
    texts = [block.get("text") for block in blocks]
    return bool(texts) and all(
        isinstance(text, str) and text.lstrip().startswith(INJECTED) for text in texts
    )


def _apart(blocks: list[Body]) -> list[Body]:
    """The blocks of a prompt; text that an editor or the tool put before it is flagged."""
    context: list[Body] = []
    for n, block in enumerate(blocks):
        text = block.get("text")
        start = text.lstrip() if isinstance(text, str) else ""
        request = REQUEST.search(start) if start.startswith(IDE) else None
        if request is not None:
            context.append({**block, "text": start[: request.end()], "injected": True})
            return [*context, {**block, "text": start[request.end() :]}, *blocks[n + 1 :]]
        if not start.startswith(INJECTED):
            break
        context.append({**block, "injected": True})
    return [*context, *blocks[len(context) :]]


def _written_before(line: CodexRecord, kind: str, key: str) -> bool:
    return bool(line.state.get(kind, {}).pop(key, None))


def reasoning(line: CodexRecord, item: Body) -> bool | None:
    parts = [item[key] for key in ("summary", "content", "text") if item.get(key)]
    words = "\n\n".join(text for each in parts if (text := element_text(each)))
    known(line, [words, *(one.get("text") if isinstance(one, dict) else one
                          for each in parts for one in _elements(each)),
                 *(each for each in parts if _is_blob(each))])  # fmt: skip  # one list
    block: dict[str, Any] = {"type": "thinking", "thinking": words}
    if not words and (lifted := [each for each in parts if _is_blob(each)]):
        block["thinking"] = lifted[0]
    if (secret := item.get("encrypted_content")) is not None:
        block["opaque"] = secret
        line.reader.out.report.opaque["encrypted_content"] += 1
    line.say("assistant", [block], message_id=word(item.get("id")))
    return None


def _is_blob(value: Any) -> bool:
    return isinstance(value, dict) and "$blob" in value


def function_call(line: CodexRecord, item: Body) -> bool | None:
    function = item.get("function")
    held = function if isinstance(function, dict) else item
    tool = word(held.get("name")) or word(item.get("name")) or "unknown"
    arguments = item.get("arguments", held.get("arguments", item.get("input")))
    server = word(item.get("namespace"))
    line.call(
        tool,
        word(item.get("call_id")) or word(item.get("id")),
        input_of(arguments),
        tool_server=server,
    )
    return None


def custom_tool_call(line: CodexRecord, item: Body) -> bool | None:
    tool = word(item.get("name")) or "unknown"
    line.call(
        tool, word(item.get("call_id")), item.get("input"), tool_server=word(item.get("namespace"))
    )
    return None


def call_output(line: CodexRecord, item: Body) -> bool | None:
    output, more = shell_output(item.get("output", item.get("result")))
    id = word(item.get("call_id"))
    tool = word(item.get("name"))
    line.give_back(id, output, tool=tool, **more)
    return None


def shell_output(output: Any) -> tuple[Any, dict[str, Any]]:
    """The output of a command, and its result where the output states it."""
    if isinstance(output, str) and output.startswith("{"):
        try:
            held = orjson.loads(output)
        except orjson.JSONDecodeError:
            held = None
        if isinstance(held, dict) and "output" in held and isinstance(held.get("metadata"), dict):
            meta = held["metadata"]
            return held["output"], went(meta.get("exit_code"), meta.get("duration_seconds"))
    if isinstance(output, str) and (head := _SHELL.match(output)):
        return output, went(int(head[1]), head[2])
    if isinstance(output, str) and (head := _EXITED.match(output)):
        return output, went(int(head[2]), head[1])
    if isinstance(output, dict) and "content" in output and isinstance(output.get("success"), bool):
        return output["content"], {"ok": output["success"]}
    return output, {}


def went(code: Any, time: Any) -> dict[str, Any]:
    """The result of a command: its exit code, whether that is success, and its duration."""
    exact = code if isinstance(code, int) and not isinstance(code, bool) else None
    fields: dict[str, Any] = {}
    if exact is not None:
        fields = {"exit_code": exact, "ok": exact == 0}
    if (took := duration(time)) is not None:
        fields["seconds"] = took
    return fields


def duration(value: Any) -> float | None:
    """Seconds: from a number, from {secs, nanos}, from a text like 1.5s or 20ms."""
    if isinstance(value, dict):
        whole, rest = count(value.get("secs")), count(value.get("nanos"))
        return None if whole is None else whole + (rest or 0) / 1e9
    if isinstance(value, str):
        for unit, per in (("ms", 1000), ("s", 1)):
            if value.endswith(unit):
                return in_seconds(value.removesuffix(unit), per)
    return in_seconds(value)


def local_shell_call(line: CodexRecord, item: Body) -> bool | None:
    id = word(item.get("call_id")) or word(item.get("id"))
    line.call("local_shell", id, item.get("action"))
    return None


def tool_search_call(line: CodexRecord, item: Body) -> bool | None:
    id = word(item.get("call_id")) or word(item.get("id"))
    line.call("tool_search", id, input_of(item.get("arguments")))
    return None


def tool_search_output(line: CodexRecord, item: Body) -> bool | None:
    id = word(item.get("call_id"))
    status = word(item.get("status"))
    line.give_back(id, item.get("tools"), tool="tool_search", status=status, ok=passed(status))
    return None


def web_search_call(line: CodexRecord, item: Body) -> bool | None:
    id = word(item.get("id")) or word(item.get("call_id"))
    status = word(item.get("status"))
    line.call("web_search", id, item.get("action"), by_provider=True)
    if status != "in_progress":
        line.give_back(id, None, tool="web_search", status=status, ok=passed(status))
    return None


def image_generation_call(line: CodexRecord, item: Body) -> bool | None:
    id = word(item.get("id")) or word(item.get("call_id"))
    status = word(item.get("status"))
    asked = {"prompt": item["revised_prompt"]} if item.get("revised_prompt") else None
    line.call("image_generation", id, asked, by_provider=True)
    if status != "in_progress":
        result = item.get("result")
        line.give_back(id, result, tool="image_generation", status=status, ok=passed(status))
    return None


def passed(status: str | None) -> bool | None:
    """Whether a status is a success; None for neither."""
    return {"completed": True, "success": True, "failed": False, "error": False}.get(status or "")


def agent_message(line: CodexRecord, item: Body) -> bool | None:
    if "author" not in item and "recipient" not in item:
        return message(line, {**item, "role": "assistant"})
    blocks = [each for each in map(_block, _elements(item.get("content"))) if each]
    author, to = word(item.get("author")), word(item.get("recipient"))
    line.say("assistant", blocks, agent=author, to=to, message_id=word(item.get("id")))
    return None


def compaction(line: CodexRecord, item: Body) -> bool | None:
    if item.get("encrypted_content"):
        line.reader.out.report.opaque["encrypted_content"] += 1
    line.note("compaction", str(item.get("type")), {k: v for k, v in item.items() if k != "type"})
    return None


def noted(line: CodexRecord, item: Body) -> bool | None:
    kind = str(item.get("type"))
    line.note(kind, kind, {key: value for key, value in item.items() if key != "type"} or None)
    return None


ITEMS: dict[str, Callable[[CodexRecord, Body], bool | None]] = {
    "message": message,
    "reasoning": reasoning,
    "function_call": function_call,
    "function_call_output": call_output,
    "function_result": call_output,
    "custom_tool_call": custom_tool_call,
    "custom_tool_call_output": call_output,
    "local_shell_call": local_shell_call,
    "local_shell_call_output": call_output,
    "tool_search_call": tool_search_call,
    "tool_search_output": tool_search_output,
    "tool_search_call_output": tool_search_output,
    "web_search_call": web_search_call,
    "image_generation_call": image_generation_call,
    "agent_message": agent_message,
    "compaction": compaction,
    "context_compaction": compaction,
    "compaction_trigger": compaction,
    "ghost_snapshot": noted,
    "additional_tools": noted,
    "other": noted,
}
