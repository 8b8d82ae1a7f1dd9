"""Claude Code: the hooks of its settings, or of a plugin."""

from typing import Any

from tracklog.formats.hooks import Hook, HookWriter, at_home, name_in, rest_of
from tracklog.formats.importers import in_seconds, run_id
from tracklog.formats.providers import obj, word
from tracklog.model.event import Body

NAME = "claude"
INJECTED = ("<task-notification>", "<command-name>", "<local-command-stdout>", "<system-reminder>")
"""Prompts that begin so are no words of a person."""
IGNORED = ("PostToolBatch", "MessageDisplay")
"""Events that repeat others."""
WAITING = ("permission_prompt", "elicitation_dialog", "agent_needs_input")
"""Notifications that the agent waits for a person."""


def write(out: HookWriter, event: str, body: Body) -> None:
    session, agent = word(body.get("session_id")) or "", _agent(body)
    out.name(NAME, agent or session, run_id(NAME, session) if agent else None)
    tool, given, id = (
        word(body.get("tool_name")),
        body.get("tool_input"),
        word(body.get("tool_use_id")),
    )
    rest = rest_of(body, "tool_name", "tool_input", "tool_use_id", "tool_response", "error", "prompt",
                   "duration_ms", "last_assistant_message", "reason", "is_interrupt")  # fmt: skip
    match event:
        case "SessionStart":
            more = {**rest, "transcript_path": body.get("transcript_path")}
            out.begin("claude-code", more, cwd=word(body.get("cwd")), model=word(body.get("model")))
        case "UserPromptSubmit":
            text = word(body.get("prompt"))
            out.close_questions()
            if not (text and text.lstrip().startswith(INJECTED)):
                out.close_calls()
            out.say("user", text, rest, injected=bool(text and text.lstrip().startswith(INJECTED)))
        case "PreToolUse":
            out.call(tool, given, id, rest)
        case "PostToolUse" | "PostToolUseFailure":
            _returned(out, event, body, rest)
        case "PermissionRequest":
            out.ask(_asks(tool, given), id or out.only_open_call(), rest_of(body))
        case "PermissionDenied":
            out.close_questions()
            out.note("permission-denied", rest_of(body), kind=event)
            if id:
                out.close_calls(id)
        case "Notification":
            _notified(out, body)
        case "SubagentStart":
            out.begin("claude-code", rest, cwd=word(body.get("cwd")))
        case "SubagentStop":
            out.say("assistant", word(body.get("last_assistant_message")))
            out.close_calls()
            out.end("stopped", rest)
        case "Stop" | "StopFailure":
            out.close_questions()
            out.close_calls()
            out.say("assistant", word(body.get("last_assistant_message")), rest)
            if event == "StopFailure":
                out.note("error", rest_of(body), kind=event, text=word(body.get("error")))
        case "SessionEnd":
            out.close_calls()
            out.end(word(body.get("reason")), rest)
        case _ if event not in IGNORED:
            out.note(event, rest_of(body))


def _returned(out: HookWriter, event: str, body: Body, rest: Body) -> None:
    failed = event == "PostToolUseFailure"
    stopped = (
        body.get("is_interrupt") is True
        or obj(body.get("tool_response")).get("interrupted") is True
    )
    out.returned(
        word(body.get("tool_name")),
        body.get("tool_input"),
        word(body.get("tool_use_id")),
        rest,
        ok=not failed,
        output=body.get("tool_response"),
        error=body.get("error") if failed else None,
        status="interrupted" if stopped else None,
        seconds=in_seconds(body.get("duration_ms"), 1000),
    )


def _notified(out: HookWriter, body: Body) -> None:
    """A notification; one that a person must react to is a question, where no event asked it."""
    text, kind = word(body.get("message")), word(body.get("notification_type"))
    if kind in WAITING:
        if not out.past.asking:
            out.ask(text or "Claude Code asks for a permission", None, rest_of(body))
    else:
        out.note("notification", rest_of(body), kind=kind, text=text)


def _asks(tool: str | None, given: Any) -> str:
    fields = obj(given)
    what = next(
        (word(fields.get(key)) for key in ("command", "file_path", "url") if word(fields.get(key))),
        None,
    )
    return f"May {tool or 'a tool'} run{f': {what}' if what else '?'}"


def _agent(body: Body) -> str:
    return word(body.get("agent_id")) or ""


hook = Hook(
    name=NAME,
    title="Claude Code",
    session=name_in("session_id"),
    agent=_agent,
    event=name_in("hook_event_name"),
    write=write,
    config=at_home(".claude", "settings.json", variable="CLAUDE_CONFIG_DIR"),
    snippet="claude-plugin/hooks/hooks.json",
)
