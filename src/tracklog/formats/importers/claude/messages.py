"""The messages, calls, results and usage in a conversation of Claude Code."""

import re
from collections.abc import Iterator
from typing import Any

from tracklog.formats.importers import count, in_seconds, remember, run_id, word
from tracklog.formats.importers._fact_bodies import call_fact, message_fact, result_fact, spend_fact
from tracklog.formats.importers.claude.files import NAME, digest
from tracklog.formats.importers.claude.line import ClaudeRecord
from tracklog.formats.importers.claude.rewinds import leave_branch, take_back_shorter
from tracklog.formats.providers.claude import ClaudeToolResult, ClaudeToolUse, part_of, tokens
from tracklog.model.event import Body
from tracklog.model.fact import Linked, Noted

WRAPPERS = {
    "command-name", "command-message", "local-command-stdout", "local-command-stderr",
    "system-reminder", "ide_opened_file", "ide_selection", "teammate-message",
}  # fmt: skip
OPENED = re.compile(r"\s*<([\w-]+)\b[^>]*>")
IDE = re.compile(r"\s*(?:<(ide_opened_file|ide_selection)\b[^>]*>.*?</\1>\s*)+", re.DOTALL)


def user(line: ClaudeRecord) -> bool | None:
    body = line.body
    message = body.get("message")
    content = message.get("content") if isinstance(message, dict) else message
    if content is None:
        return False
    result = body.get("toolUseResult")
    written = False
    for n, part in enumerate(parts(content)):
        if isinstance(part, ClaudeToolResult):
            _returned(line, part, n, result)
        elif isinstance(part, ClaudeToolUse):
            _called(line, part, n)
        else:
            _prompted(line, part)
        written = True
    if not written and (result is not None or content not in ("", [])):
        return False
    return None


def _prompted(line: ClaudeRecord, blocks: list[Body]) -> None:
    typed: list[dict[str, Any]] = []
    for block, injected in _judged(line, blocks):
        if injected:
            _say(line, typed)
            typed = []
            _say(line, [block], injected=True)
        else:
            typed.append(block)
    _say(line, typed)


def _judged(
    line: ClaudeRecord, blocks: list[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], bool]]:
    """Each block, and whether no person typed it."""
    body = line.body
    origin = body.get("origin")
    injected = (
        body.get("isMeta") is True
        or body.get("isCompactSummary") is True
        or body.get("isSidechain") is True
        or body.get("promptSource") == "system"
        or (isinstance(origin, dict) and origin.get("kind") == "task-notification")
    )
    for block in blocks:
        text = block.get("text")
        if injected or not isinstance(text, str):
            yield block, injected
        elif (wrapper := IDE.match(text)) and text[wrapper.end() :].strip():
            yield {**block, "text": text[: wrapper.end()]}, True
            yield {**block, "text": text[wrapper.end() :]}, False
        else:
            yield block, is_injected(text)


def _say(line: ClaudeRecord, blocks: list[dict[str, Any]], injected: bool = False) -> None:
    if blocks:
        if not injected:
            leave_branch(line)
        line.write_fact(message_fact("user", blocks, injected=injected))


def _returned(line: ClaudeRecord, part: ClaudeToolResult, n: int, whole: Any) -> None:
    state, out = line.state, line.out
    open_calls: dict[str, str] = state.setdefault("calls", {})
    id = part.id
    if id is None:
        id = next((call for call in open_calls if call.startswith("syn-")), _synthetic(line, n))
    extra: dict[str, Any] = {} if whole is None else {"toolUseResult": whole}
    if part.rest:
        extra["block"] = part.rest
    output = _plain(part.content)
    if isinstance(output, str) and output.rstrip().endswith("</system-reminder>"):
        extra["injected"] = True
    fields = whole if isinstance(whole, dict) else {}
    interrupted = fields.get("interrupted") is True
    fact = result_fact(
        id,
        tool=open_calls.pop(id, None),
        ok=None if interrupted else not part.wrong,
        output=output,
        status="interrupted" if interrupted else None,
        seconds=in_seconds(fields.get("totalDurationMs", fields.get("durationMs")), 1000),
        synthetic_id=part.id is None,
    )
    line.write_fact(fact, extra=extra)
    state.get("tasks", {}).pop(id, None)
    if agent := word(fields.get("agentId")):
        child = run_id(NAME, state["session"], agent)
        out.write(Linked(kind="sub-run", child=child, call_id=id), at=line.at)


def _called(line: ClaudeRecord, part: ClaudeToolUse, n: int) -> None:
    id = part.id or _synthetic(line, n)
    tool, server = part.tool or "unknown", part.server
    if server is None and tool.startswith("mcp__"):
        server = tool.split("__")[1] or None
    fact = call_fact(
        tool,
        id,
        part.input,
        tool_server=server,
        by_provider=part.by_provider,
        synthetic_id=part.id is None,
    )
    line.write_fact(fact, extra={"block": part.rest} if part.rest else None)
    remember(line.state.setdefault("calls", {}), id, tool)
    given = part.input if isinstance(part.input, dict) else {}
    if tool in ("Task", "Agent") and isinstance(given.get("prompt"), str):
        remember(line.state.setdefault("tasks", {}), id, digest(given["prompt"]))


def _synthetic(line: ClaudeRecord, n: int) -> str:
    return f"syn-{line.key or line.at or 'record'}-{n}"


def assistant(line: ClaudeRecord) -> bool | None:
    message = line.body.get("message")
    if isinstance(message, str):
        message = {"content": message}
    if not isinstance(message, dict) or message.get("content") is None:
        return False
    id = word(message.get("id"))
    group = _group(line, id)
    written: list[Any] = group["told"]
    if line.body.get("isApiErrorMessage") is True:
        _failed(line, message)
    else:
        for n, part in enumerate(parts(message["content"])):
            if isinstance(part, list):
                fresh = [block for block in part if _is_new(written, block)]
                if fresh:
                    if len(fresh) == 1 < len(written):
                        take_back_shorter(line, group, fresh[0])
                    group["key"] = line.key if len(fresh) == 1 else None
                    stop = word(message.get("stop_reason"))
                    line.write_fact(
                        message_fact("assistant", fresh, id, word(message.get("model")), stop)
                    )
                    _count_opaque(line, fresh)
            elif isinstance(part, ClaudeToolResult):
                _returned(line, part, n, None)
            elif part.id is None or _is_new(written, list(part)):
                _called(line, part, n)
    _spent(line, message, id)
    return None


def _count_opaque(line: ClaudeRecord, blocks: list[dict[str, Any]]) -> None:
    for block in blocks:
        if "opaque" in block or block.get("signature"):
            line.out.report.opaque["redacted_thinking" if "opaque" in block else "signature"] += 1


def _group(line: ClaudeRecord, id: str | None) -> dict[str, Any]:
    """The facts of this response so far: one response has several lines."""
    group: dict[str, Any] | None = line.state.get("group")
    if id is None:
        return {"told": []}
    if group is None or group["id"] != id:
        group = line.state["group"] = {"id": id, "told": []}
    return group


def _failed(line: ClaudeRecord, message: Body) -> None:
    words = [part for part in parts(message["content"]) if isinstance(part, list)]
    text = "\n".join(str(block.get("text", "")) for blocks in words for block in blocks)
    line.write_fact(Noted(label="error", kind="api_error", text=text or None, data=message))


def _spent(line: ClaudeRecord, message: Body, id: str | None) -> None:
    usage = message.get("usage")
    if not isinstance(usage, dict) or message.get("model") == "<synthetic>":
        return
    request = word(line.body.get("requestId"))
    key = f"{id}:{request}" if id and request else id or line.key or line.out.mark()["hash"]
    output = usage.get("output_tokens")
    if type(output) is not int:
        output = count(output) or 0
    counted: dict[str, int] = line.state.setdefault("spent", {})
    if key is None or counted.get(key, -1) >= output or not (amounts := tokens(usage)):
        return
    remember(counted, key, output)
    fact = spend_fact(
        key,
        amounts,
        "anthropic",
        word(message.get("model")),
        group=line.state["session"],
        whole="sessionId" in line.body,  # printed output has no request ids: the file counts
        bound="lower",
    )
    line.out.write(fact, line.at, line.cause)


def attachment(line: ClaudeRecord) -> bool | None:
    held = line.body.get("attachment")
    if not isinstance(held, dict):
        return False
    kind = word(held.get("type")) or "attachment"
    (line.extra or {}).pop("attachment", None)
    if kind == "queued_command":
        prompt = held.get("prompt", held.get("content"))
        line.extra = {**(line.extra or {}), "queued": True}
        for part in parts(prompt):
            if isinstance(part, list):
                _prompted(line, part)
        return None
    line.write_fact(Noted(label=kind, kind=f"attachment/{kind}", data=held))
    return None


def legacy_call(line: ClaudeRecord) -> None:
    name = word(line.body.get("name")) or word(line.body.get("tool_name")) or "unknown"
    id = word(line.body.get("id")) or word(line.body.get("tool_use_id"))
    given = line.body.get("input", line.body.get("tool_input"))
    for key in ("name", "tool_name", "id", "tool_use_id", "input", "tool_input"):
        (line.extra or {}).pop(key, None)
    _called(line, ClaudeToolUse(id, name, given), 0)


def legacy_result(line: ClaudeRecord) -> None:
    part = parts([{key: line.body.get(key) for key in LEGACY_RESULT if key in line.body}])[0]
    assert isinstance(part, ClaudeToolResult)
    for key in LEGACY_RESULT - {"type"}:
        (line.extra or {}).pop(key, None)
    _returned(line, part, 0, line.body.get("toolUseResult"))


LEGACY_RESULT = {"type", "tool_use_id", "content", "is_error", "id"}
"""The fields of a result that is a record of its own."""


def parts(content: Any) -> list[ClaudeToolUse | ClaudeToolResult | list[Body]]:
    """The content of a message, in order; adjacent blocks are one part."""
    elements = content if type(content) is list else [content]
    if len(elements) == 1:  # the common case
        part = part_of(elements[0])
        return [] if part is None else [[part]] if type(part) is dict else [part]  # type: ignore[list-item]  # no block
    result: list[ClaudeToolUse | ClaudeToolResult | list[Body]] = []
    for part in map(part_of, elements):
        if isinstance(part, ClaudeToolUse | ClaudeToolResult):
            result.append(part)
        elif part is not None:
            if not result or not isinstance(result[-1], list):
                result.append([])
            result[-1].append(part)  # type: ignore[union-attr]  # a list of blocks
    return result


def _plain(content: Any) -> Any:
    """The text of a result that is only one text; else the complete result."""
    if type(content) is list and len(content) == 1:
        only = content[0]
        if isinstance(only, dict) and only.keys() == {"type", "text"} and only["type"] == "text":
            return only["text"]
    return content


def is_injected(text: str) -> bool:
    """Whether the tool itself wrote a text in the place of a person's prompt."""
    start = text.lstrip()
    if start.startswith("Caveat:") and "local commands" in start:
        return True
    opened = OPENED.match(start)
    if opened is None or opened[1] not in WRAPPERS:
        return False
    while opened is not None:  # one element after the other, with nothing between them
        end = f"</{opened[1]}>"
        close = start.find(end, opened.end())
        if close < 0:
            return False
        start = start[close + len(end) :]
        opened = OPENED.match(start)
    return not start.strip()


def _is_new(written: list[Any], part: Any) -> bool:
    """Whether a part of a response is new; a longer copy of an earlier part is new."""
    if part in written:
        return False
    written.append(part)
    return True
