"""Gemini CLI: the output of `gemini -p --output-format stream-json`, and the messages of its files."""

import re
from collections.abc import Iterable
from typing import Any

from tracklog.formats.providers import (
    Body,
    Provider,
    ReplyBuilder,
    WrongType,
    count,
    dumped,
    foreign,
    is_text,
    items,
    obj,
    only,
    option,
    original_block,
    text,
    usage,
    word,
)


def tokens(raw: Any) -> Body:
    """The stats of a result in the common keys."""
    amounts = obj(raw)
    return usage(
        amounts,
        input_tokens=count(amounts.get("input_tokens")),
        cached_tokens=count(amounts.get("cached")),
        output_tokens=count(amounts.get("output_tokens")),
        total_tokens=count(amounts.get("total_tokens")),
    )


def message_tokens(raw: Any) -> Body:
    """The tokens of one message of a file: thoughts are outside of output, tools outside of input."""
    amounts = obj(raw)
    given, tool = count(amounts.get("input")), count(amounts.get("tool"))
    output, thoughts = count(amounts.get("output")), count(amounts.get("thoughts"))
    return usage(
        amounts,
        input_tokens=None if given is tool is None else (given or 0) + (tool or 0),
        cached_tokens=count(amounts.get("cached")),
        output_tokens=None if output is thoughts is None else (output or 0) + (thoughts or 0),
        reasoning_tokens=thoughts,
        tool_tokens=tool,
        total_tokens=count(amounts.get("total")),
    )


def exit_code_in(tool: object, output: object) -> int | None:
    """The exit code of a command, which stands only in its output, and there only if it is not 0."""
    if tool != "run_shell_command" or not isinstance(output, str):
        return None
    found = _EXITED.search(output)
    return int(found[1]) if found else None


_EXITED = re.compile(r"^Exit Code: (-?[0-9]{1,9})$", re.MULTILINE)


def block_of(part: Any) -> Body | None:
    """One part of a message's content, as a block; None where it is empty."""
    if isinstance(part, str):
        part = {"text": part}
    if not isinstance(part, dict):
        return None if part is None else foreign("part", part)
    content = part.get("text")
    if not is_text(content):
        return foreign(next(iter(part), "part"), part)
    if part.get("thought") is True:
        return {"type": "thinking", "thinking": content}
    return {**part, "type": "text", "text": content} if content else None


def thought_of(thought: Any) -> Body:
    """One thought of a message, as a block."""
    if not isinstance(thought, dict):
        return {"type": "thinking", "thinking": text(thought) or ""}
    content = thought.get("description")
    rest = {key: each for key, each in thought.items() if key not in ("description", "type")}
    return {"type": "thinking", "thinking": content if is_text(content) else "", **rest}


class GeminiStreamReader:
    """Reads the stream of one conversation."""

    def __init__(self, reply: ReplyBuilder) -> None:
        self.reply = reply
        self._growing: Body | None = None
        """The text that the next delta continues."""
        self._answered = False

    def feed(self, body: Body) -> bool:
        reply, kind = self.reply, body.get("type")
        if kind != "message":
            self._growing = None
        match kind:
            case "init":
                session, model = word(body.get("session_id")), word(body.get("model"))
                reply.note(provider_session_id=session, model=model)
            case "message":
                self._message(body)
            case "tool_use":
                self._next_turn()
                name, id = word(body.get("tool_name")), word(body.get("tool_id"))
                reply.call(id, name, body.get("parameters"))
            case "tool_result":
                self._answered = True
                self._result(body)
            case "error":
                severe = body.get("severity") != "warning"
                reply.fail(body.get("message") or "error", "error" if severe else None)
                reply.stream(dumped(body), "error")
            case "result":
                self._conclude(body)
            case _:
                return False
        return True

    def end(self) -> None:
        if self._growing is not None:
            self._growing["partial"] = True
            self.reply.report.partial += 1

    def _message(self, body: Body) -> None:
        if body.get("role") != "assistant":
            self._growing = None
            return
        content, delta = text(body.get("content")) or "", body.get("delta") is True
        if delta:
            self.reply.partial(body, "message")
        if delta and self._growing is not None:
            self._growing["text"] += content
            return
        self._next_turn()
        block = self.reply.text(content)
        self._growing = block if delta else None
        for call in items(body.get("toolCalls")):
            fields = obj(call)
            input = fields["arguments"] if "arguments" in fields else fields.get("args")
            self.reply.call(word(fields.get("id")), word(fields.get("name")), input)

    def _next_turn(self) -> None:
        if self._answered:
            self.reply.settle()
            self.reply.turn += 1
            self._answered = False

    def _result(self, body: Body) -> None:
        wrong = {"success": False, "error": True}.get(text(body.get("status")) or "")
        output = body.get("output")
        if output is None:
            output = obj(body.get("error")).get("message")
        self.reply.result(word(body.get("tool_id")), output, is_error=wrong)

    def _conclude(self, body: Body) -> None:
        stats = obj(body.get("stats"))
        self.reply.note(
            usage=tokens(stats) or None,
            duration_ms=count(stats.get("duration_ms")),
            turns=self.reply.turn + 1,
        )
        error = body.get("error")
        if error is not None or body.get("status") == "error":
            self.reply.fail(obj(error).get("message") or error or "error")


def compat(body: Body) -> Iterable[Body] | None:
    """The original's mapping of one line."""
    try:
        if only(body, "type", str, "") != "message" or only(body, "role", str, "") != "assistant":
            return None
        content = only(body, "content", str, "")
        blocks = [original_block("text", text=content)] if content else []
        return [*blocks, *map(_compat_call, only(body, "toolCalls", list, []))]
    except WrongType:
        return None


def _compat_call(call: Any) -> Body:
    if not isinstance(call, dict):
        raise WrongType
    name, input = only(call, "name", str, ""), only(call, "arguments", dict)
    return original_block("tool_use", tool_name=name, tool_input=input)


provider = Provider(
    name="gemini",
    about="Gemini CLI.",
    read=GeminiStreamReader,
    compat=compat,
    programs=("gemini",),
    template=("gemini", "-p", "{{prompt}}", "--output-format", "stream-json"),
    opens=lambda body: body.get("type") == "init" and "session_id" in body,
    prompt=lambda arguments: option(arguments, "-p", "--prompt"),
)
