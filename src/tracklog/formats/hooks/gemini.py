"""Gemini CLI: the hooks of its settings. They have no ids of calls."""

from tracklog.formats.hooks import Hook, HookWriter, at_home, name_in, rest_of
from tracklog.formats.providers import obj, word
from tracklog.formats.providers.gemini import exit_code_in
from tracklog.model.event import Body

NAME = "gemini"
IGNORED = ("BeforeModel", "AfterModel", "BeforeToolSelection", "PreCompress")
"""Events that repeat the whole conversation, or come whether anything happens or not."""


def write(out: HookWriter, event: str, body: Body) -> None:
    out.name(NAME, word(body.get("session_id")) or "")
    tool, given = word(body.get("tool_name")), body.get("tool_input")
    rest = rest_of(
        body, "tool_name", "tool_input", "tool_response", "prompt", "prompt_response", "reason"
    )
    match event:
        case "SessionStart":
            more = {**rest, "transcript_path": body.get("transcript_path")}
            out.begin("gemini-cli", more, cwd=word(body.get("cwd")))
        case "BeforeAgent":
            out.close_questions()
            out.say("user", word(body.get("prompt")), rest)
        case "BeforeTool":
            out.call(tool, given, None, rest)
        case "AfterTool":
            response = obj(body.get("tool_response"))
            output, error = response.get("llmContent"), response.get("error")
            exit_code = exit_code_in(tool, output)
            out.returned(
                tool, given, None, rest, ok=error is None and not exit_code,
                output=output if output is not None else response or None,
                error=error, exit_code=exit_code,
            )  # fmt: skip  # one call
        case "Notification" if body.get("notification_type") == "ToolPermission":
            details = obj(body.get("details"))
            asks = (
                word(details.get("command"))
                or word(details.get("title"))
                or word(body.get("message"))
            )
            call = next(reversed(out.past.open), None)
            out.ask(f"May a tool run{f': {asks}' if asks else '?'}", call, rest_of(body))
        case "AfterAgent":
            out.close_questions()
            out.say("assistant", word(body.get("prompt_response")), rest)
        case "SessionEnd":
            out.end(word(body.get("reason")), rest)
        case _ if event not in IGNORED:
            out.note(event, rest_of(body))


hook = Hook(
    name=NAME,
    title="Gemini CLI",
    session=name_in("session_id"),
    event=name_in("hook_event_name"),
    write=write,
    config=at_home(".gemini", "settings.json"),
    snippet="gemini.json",
)
