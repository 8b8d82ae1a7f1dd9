"""Copilot CLI: the hooks of a file of our own in its folder. They have no ids of calls."""

import re

from tracklog.formats.hooks import Hook, HookWriter, at_home, name_in, rest_of
from tracklog.formats.providers import input_of, obj, word
from tracklog.model.event import Body

NAME = "copilot"
IGNORED = ("permissionRequest",)
"""It comes before every tool, also where nobody is asked: it is no question."""
EXITED = re.compile(r"<[^<>\n]*exit(?:ed)?(?: with)?(?: exit)? code:? (-?[0-9]{1,9})>\s*\Z")
"""The last line of the output of a command; Copilot calls every command that ran a success."""


def write(out: HookWriter, event: str, body: Body) -> None:
    out.name(NAME, word(body.get("sessionId")) or "")
    tool, given = word(body.get("toolName")), input_of(body.get("toolArgs"))
    rest = rest_of(body, "toolName", "toolArgs", "toolResult", "prompt", "initialPrompt", "reason")
    match event:
        case "sessionStart":
            out.begin("copilot", rest, cwd=word(body.get("cwd")))
        case "userPromptSubmitted":
            out.say("user", word(body.get("prompt")), rest)
        case "preToolUse":
            out.call(tool, given, None, rest)
        case "postToolUse" | "postToolUseFailure":
            result = obj(body.get("toolResult"))
            output, kind = result.get("textResultForLlm"), word(result.get("resultType"))
            found = EXITED.search(output) if isinstance(output, str) else None
            code = int(found[1]) if found else None
            good = event == "postToolUse" and kind in (None, "success") and not code
            out.returned(tool, given, None, rest, ok=good, output=output, status=kind,
                         error=body.get("error"), exit_code=code)  # fmt: skip
        case "errorOccurred":
            error = obj(body.get("error"))
            out.note("error", rest_of(body), kind=event, text=word(error.get("message")))
        case "sessionEnd":
            out.end(word(body.get("reason")), rest)
        case _ if event not in IGNORED:
            out.note(event or "event", rest_of(body))


hook = Hook(
    name=NAME,
    title="Copilot CLI",
    session=name_in("sessionId"),
    event=name_in("hookName", "hook_event_name"),
    write=write,
    config=at_home(".copilot", "hooks", "tracklog.json", variable="COPILOT_HOME"),
    snippet="copilot.json",
    place="own",
)
