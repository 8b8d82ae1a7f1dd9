"""Codex: the output of `codex exec --json`, in both generations."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tracklog.formats.providers import (
    Body,
    Provider,
    ReplyBuilder,
    WrongType,
    added,
    count,
    dumped,
    obj,
    only,
    original_block,
    text,
    usage,
    word,
)

HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
TEXTS = {"agent_message": "text", "assistant_message": "text", "plan": "text"}
TEXTS |= {"reasoning": "thinking"}
INPUTS: dict[str, tuple[str, ...]] = {
    "command_execution": ("command",),
    "file_change": ("changes",),
    "collab_tool_call": ("sender_thread_id", "receiver_thread_ids", "prompt"),
    "web_search": ("query", "action"),
}
NAMED = ("mcp_tool_call", "dynamic_tool_call", "collab_tool_call", "collab_agent_tool_call")
"""Items that name their tool; the others are a tool themselves."""
TOOLS = {*INPUTS, *NAMED}
FAILED = ("failed", "declined")


class CodexCall(NamedTuple):
    """The tool call of an item."""

    tool: str
    server: str | None
    input: Any
    by_provider: bool


class CodexResult(NamedTuple):
    """The result of a tool."""

    output: Any
    error: Any
    wrong: bool | None
    """Whether it failed, where that is stated."""
    exit_code: int | None
    status: str | None


def tokens(raw: Any) -> Body:
    """The usage of a turn in the common keys."""
    amounts = obj(raw)
    return usage(
        amounts,
        input_tokens=count(amounts.get("input_tokens")),
        cached_tokens=count(amounts.get("cached_input_tokens")),
        cache_write_tokens=count(amounts.get("cache_write_input_tokens")),
        output_tokens=count(amounts.get("output_tokens")),
        reasoning_tokens=count(amounts.get("reasoning_output_tokens")),
    )


def snake(item: Body) -> Body:
    """The item with its keys in snake_case; some builds write camelCase."""
    return {HUMP.sub("_", key).lower() if HUMP.search(key) else key: v for key, v in item.items()}


def kind_of(item: Body) -> str:
    """The type of an item, in either generation's key and spelling."""
    return HUMP.sub("_", word(item.get("item_type")) or word(item.get("type")) or "").lower()


def call_of(kind: str, item: Body) -> CodexCall:
    """The call of an item with snake_case keys."""
    tool = kind
    if kind in NAMED:
        tool = word(item.get("tool")) or kind
    if kind in ("mcp_tool_call", "dynamic_tool_call"):
        given = item.get("arguments")
    else:
        keys = INPUTS["collab_tool_call" if kind in NAMED else kind]
        given = {key: item[key] for key in keys if item.get(key) is not None}
    return CodexCall(tool, word(item.get("server")), given, kind == "web_search")


def return_of(item: Body) -> CodexResult:
    """The result of an item, under whichever key its type has for it."""
    code, status = item.get("exit_code"), word(item.get("status"))
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    error = item.get("error")
    keys = ("aggregated_output", "result", "agents_states")
    output = next((item[key] for key in keys if item.get(key) is not None), None)
    wrong = status in FAILED or bool(code) or error is not None
    known = wrong or code is not None or status not in (None, "in_progress")
    return CodexResult(output, error, wrong if known else None, code, status)


class CodexStreamReader:
    """Reads the stream of one thread."""

    def __init__(self, reply: ReplyBuilder) -> None:
        self.reply = reply
        self._turns = 0
        self._usage: Body = {}
        self._waiting: dict[str, tuple[str, Body]] = {}
        """Incomplete items, by id: the last state of each."""

    def feed(self, body: Body) -> bool:
        reply = self.reply
        match body.get("type"):
            case "thread.started":
                reply.note(provider_session_id=word(body.get("thread_id")))
            case "turn.started":
                reply.settle()
                reply.turn = self._turns
                self._turns += 1
                reply.note(turns=self._turns)
            case "item.started" | "item.updated" | "item.completed" as stage if isinstance(
                body.get("item"), dict
            ):
                self._item(stage.partition(".")[2], body["item"])
            case "item.plan.delta":
                self._plan(body)
            case "turn.completed":
                self._usage = added(self._usage, tokens(body.get("usage")))
                reply.note(usage=self._usage or None)
                reply.settle()
            case "turn.failed":
                reply.fail(obj(body.get("error")).get("message") or body.get("error") or "failed")
                reply.settle()
            case "error":
                reply.fail(body.get("message") or "error")
                reply.stream(dumped(body), "error")
            case _:
                return False
        return True

    def end(self) -> None:
        for id, (kind, item) in self._waiting.items():
            if kind in TEXTS:
                self._text(kind, item, partial=True)
            elif kind in TOOLS:
                self._call(kind, id or None, item)
                if word(item.get("aggregated_output")):
                    self._return(id or None, item, partial=True)
            else:
                self.reply.stream(dumped(item), kind or "untyped", partial=True)
        self._waiting.clear()

    def _item(self, stage: str, raw: Body) -> None:
        item = snake(raw)
        kind, id = kind_of(raw), word(item.get("id"))
        if kind in TOOLS:
            if stage != "updated" or not (id and self.reply.has_called(id)):
                id = self._call(kind, id, item)["tool_id"]
            if stage == "completed":
                self._return(id, item)
        elif stage == "completed":
            self._complete(kind, item, raw)
        else:
            self.reply.partial(raw, kind)
        if stage == "completed":
            self._waiting.pop(id or "", None)
            if not self._waiting:
                self.reply.settle()
        else:
            self._waiting[id or ""] = (kind, item)

    def _complete(self, kind: str, item: Body, raw: Body) -> None:
        if kind in TEXTS:
            self._text(kind, item)
        elif kind == "function_call":
            id = word(item.get("call_id")) or word(item.get("id"))
            self.reply.call(id, word(item.get("name")), item.get("arguments"))
        elif kind == "error":
            self.reply.fail(item.get("message") or "error", None)
            self.reply.stream(dumped(raw), "error")
        else:
            self.reply.report.unrecognised[kind or "untyped"] += 1
            self.reply.stream(dumped(raw), kind or "untyped")

    def _text(self, kind: str, item: Body, *, partial: bool = False) -> None:
        content, extras = item.get("text"), {"message_id": word(item.get("id"))}
        if TEXTS[kind] == "text":
            self.reply.text(content, partial=partial or None, **extras)
        elif word(content):
            self.reply.thinking(content, partial=partial or None, **extras)

    def _plan(self, body: Body) -> None:
        id = word(body.get("item_id")) or word(body.get("itemId")) or ""
        kind, item = self._waiting.get(id, ("plan", {"id": id}))
        grown = (text(item.get("text")) or "") + (text(body.get("delta")) or "")
        self._waiting[id] = (kind, {**item, "text": grown})

    def _call(self, kind: str, id: str | None, item: Body) -> Body:
        call = call_of(kind, item)
        return self.reply.call(id, call.tool, call.input, tool_server=call.server)

    def _return(self, id: str | None, item: Body, *, partial: bool = False) -> None:
        back = return_of(item)
        content = back.output
        if back.error is not None:
            content = obj(back.error).get("message", back.error)
        if content is None and back.status:
            content = {"status": back.status}
        self.reply.result(
            id,
            content,
            is_error=None if partial else back.wrong,
            exit_code=back.exit_code,
            partial=partial or None,
        )


def compat(body: Body) -> Iterable[Body] | None:
    """One line as the project that defines `awf` maps it."""
    try:
        if only(body, "type", str, "") != "item.completed":
            return None
        item = only(body, "item", dict, {})
        content, name = only(item, "text", str, ""), only(item, "name", str, "")
        arguments = only(item, "arguments", str, "")
        kind = only(item, "item_type", str, "") or only(item, "type", str, "")
    except WrongType:
        return None
    if kind in ("agent_message", "assistant_message"):
        return [original_block("text", text=content) if content else original_block("text")]
    if kind in ("function_call", "command_execution"):
        return [original_block("tool_use", tool_name=name, tool_input=arguments)]
    return None


FLAGS = {"exec", "e", "--json", "--full-auto", "--skip-git-repo-check", "--oss", "--ephemeral"}
"""Options of the command that have no value; any other option has one."""


def prompt(arguments: Sequence[str]) -> str | None:
    """The prompt: the last argument of `codex exec`, where it can be nothing else."""
    if len(arguments) < 2 or arguments[0] not in ("exec", "e"):
        return None
    *_, before, last = arguments
    is_value = before.startswith("-") and before not in FLAGS and "=" not in before
    return None if last.startswith("-") or is_value else last


provider = Provider(
    name="codex",
    about="Codex, run without a terminal.",
    read=CodexStreamReader,
    compat=compat,
    programs=("codex",),
    template=("codex", "exec", "--json", "{{prompt}}"),
    opens=lambda body: body.get("type") == "thread.started",
    prompt=prompt,
    nul=True,
)
