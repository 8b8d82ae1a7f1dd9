"""Codex: the hooks of its `hooks.json`. It does not say whether a tool failed."""

from tracklog.formats.hooks import Hook, HookWriter, at_home, name_in, rest_of
from tracklog.formats.providers import obj, word
from tracklog.model.event import Body

NAME = "codex"


def write(out: HookWriter, event: str, body: Body) -> None:
    out.name(NAME, word(body.get("session_id")) or "")
    tool, given, id = (
        word(body.get("tool_name")),
        body.get("tool_input"),
        word(body.get("tool_use_id")),
    )
    rest = rest_of(body, "tool_name", "tool_input", "tool_use_id", "tool_response", "prompt", "model",
                   "last_assistant_message", "reason")  # fmt: skip
    model = word(body.get("model"))
    match event:
        case "SessionStart":
            more = {**rest, "transcript_path": body.get("transcript_path")}
            out.begin("codex", more, cwd=word(body.get("cwd")), model=model)
        case "UserPromptSubmit":
            out.close_questions()
            out.say("user", word(body.get("prompt")), rest)
        case "PreToolUse":
            out.call(tool, given, id, rest)
        case "PostToolUse":
            out.returned(tool, given, id, rest, output=body.get("tool_response"))
        case "PermissionRequest":
            command = word(obj(given).get("command"))
            asks = f"May {tool or 'a tool'} run{f': {command}' if command else '?'}"
            out.ask(asks, id, rest_of(body))
        case "Stop":
            out.close_questions()
            out.say("assistant", word(body.get("last_assistant_message")), rest, model=model)
        case "SessionEnd":
            out.end(word(body.get("reason")), rest)
        case _:
            out.note(event, rest_of(body))


hook = Hook(
    name=NAME,
    title="Codex",
    session=name_in("session_id"),
    event=name_in("hook_event_name"),
    write=write,
    config=at_home(".codex", "hooks.json", variable="CODEX_HOME"),
    snippet="codex.json",
    advice="Codex runs a new hook only after you trust it: start `codex`, and trust it when it asks. "
    "Until then `codex exec` skips it without a word.",
)
