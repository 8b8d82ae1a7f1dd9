"""The API history of a classic task: what the model is sent now, with the calls and their results."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracklog.formats.importers import count, word
from tracklog.formats.providers import Body, items, obj

TOOLS = (
    "access_mcp_resource|apply_diff|ask_followup_question|attempt_completion|browser_action|"
    "codebase_search|condense|edit_file|execute_command|fetch_instructions|generate_image|"
    "insert_content|list_code_definition_names|list_files|load_mcp_documentation|new_rule|new_task|"
    "plan_mode_respond|read_file|replace_in_file|report_bug|run_slash_command|"
    "search_and_replace|search_files|switch_mode|update_todo_list|use_mcp_tool|web_fetch|write_to_file"
)
CALL = re.compile(rf"<({TOOLS})>(.*?)(?:</\1>|\Z)", re.DOTALL)
FIELD = re.compile(r"<([a-z_]+)>(.*?)</\1>", re.DOTALL)
RESULT = re.compile(r"\[([a-z_]+)(?: (?:for|in) .*?)?\](?: completed\])? Result:", re.DOTALL)
INJECTED = re.compile(
    r"\s*(?:<environment_details>.*?(?:</environment_details>|\Z)|\[ERROR\] You did not use a tool.*"
    r"|\[TASK RESUMPTION\].*|<explicit_instructions .*)\s*\Z",
    re.DOTALL,
)
TYPED = re.compile(r"<(task|feedback|user_message|answer)>\n?(.*?)(?:\n?</\1>|\Z)", re.DOTALL)
MODEL = re.compile(r"<model>([^<]+)</model>")
ENVIRONMENT = re.compile(r"<environment_details>.*?(?:</environment_details>|\Z)", re.DOTALL)
FOLDER = re.compile(r"# Current (?:Workspace|Working) Directory \(([^)\n]+)\)")
FAILED = re.compile(
    r"\s*(?:The tool execution failed|Error:|<error>|\[ERROR\]|Error executing|The user denied)"
    r"|.*?Exit code: (?!0\b)-?\d+|.*?\"status\":\s*\"error\"",
    re.DOTALL,
)
ANSWERS = ("attempt_completion", "ask_followup_question", "plan_mode_respond")
"""Calls that are words to the person."""


@dataclass
class ApiCall:
    """A call in the history, with its result."""

    name: str
    input: Any
    id: str | None
    ts: int | None
    text: str = ""
    place: int = 0
    """The place of its message in the history."""
    turn: int = 0
    """The number of its message among those of the model."""
    result: Any = None
    failed: bool = False
    answered: bool = False
    at: int | None = None
    raw: list[Any] = field(default_factory=list)


def calls_of(messages: list[Any]) -> list[ApiCall]:
    """The calls of a history with their results, in order."""
    calls: list[ApiCall] = []
    turn = 0
    for place, message in enumerate(messages):
        item = obj(message)
        ts = count(item.get("ts"))
        if item.get("role") == "assistant":
            turn += 1
            for call in _made(item.get("content"), ts):
                call.place, call.turn = place, turn
                calls.append(call)
        elif item.get("role") == "user":
            _answer(calls, item.get("content"), ts)
    return calls


def _made(content: Any, ts: int | None) -> Iterator[ApiCall]:
    for block in items(content) or [{"type": "text", "text": content}]:
        item = obj(block)
        if item.get("type") == "tool_use":
            name = word(item.get("name")) or "unknown"
            yield ApiCall(name, item.get("input"), word(item.get("id")), ts)
        elif isinstance(text := item.get("text"), str):
            for call in CALL.finditer(text):
                fields = dict(FIELD.findall(call[2])) or {"text": call[2].strip()}
                yield ApiCall(call[1], fields, None, ts, text=call[0])


def _answer(calls: list[ApiCall], content: Any, ts: int | None) -> None:
    texts: list[str] = []
    named: str | None = None
    for block in items(content) or [{"type": "text", "text": content}]:
        item = obj(block)
        if item.get("type") == "tool_result":
            id = word(item.get("tool_use_id"))
            for call in reversed(calls):
                if call.id == id and not call.answered:
                    call.result, call.answered, call.at = item.get("content"), True, ts
                    call.failed = item.get("is_error") is True
                    break
        elif isinstance(text := item.get("text"), str) and not INJECTED.match(text):
            mark = RESULT.match(text)
            named = mark[1] if mark else named
            if named:
                texts.append(text[mark.end() :] if mark else text)
    open_ = next((call for call in reversed(calls) if call.id is None), None)
    if named and open_ is not None and not open_.answered:
        open_.result = "\n".join(each.strip("\n") for each in texts if each.strip())
        open_.answered, open_.at = True, ts
        open_.failed = bool(FAILED.match(open_.result))


def gathered(blocks: list[Any]) -> Iterator[Any]:
    """The blocks of a message; the text of a result may be in the blocks behind that of its name."""
    answer: Body | None = None
    for block in blocks:
        text = obj(block).get("text")
        plain = isinstance(text, str) and not any(
            each.match(text) for each in (RESULT, INJECTED, TYPED)
        )
        if answer is not None and plain:
            answer = {**answer, "text": f"{answer['text']}\n{text}"}
            continue
        if answer is not None:
            yield answer
            answer = None
        if isinstance(text, str) and RESULT.match(text):
            answer = obj(block)
        else:
            yield block
    if answer is not None:
        yield answer


def context_of(messages: list[Any]) -> tuple[str | None, str | None]:
    """The model and the folder that the history says the task has; the last model counts."""
    model = folder = None
    for message in messages:
        for text in map("\n".join, map(ENVIRONMENT.findall, texts_of(obj(message).get("content")))):
            if match := MODEL.search(text):
                model = match[1]
            if folder is None and (match := FOLDER.search(text)):
                folder = match[1]
    return model, folder


def texts_of(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in items(content):
        item = obj(block)
        if isinstance(text := item.get("text"), str):
            yield text
        if item.get("type") == "tool_result":
            yield from texts_of(item.get("content"))
