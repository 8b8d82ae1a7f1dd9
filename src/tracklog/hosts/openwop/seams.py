"""A route for tests only: writes the two events of a tool call without making the call."""

from typing import TYPE_CHECKING, Any

from tracklog.hosts.openwop.settings import SYSTEM
from tracklog.hosts.openwop.step import transport_of
from tracklog.hosts.openwop.tools import CallOutcome, args_hash, error_of, full_id, rate_limited

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine


SEAM = (
    "principal",
    "toolName",
    "requiredScopes",
    "args",
    "simulateRateLimitExhausted",
    "simulateToolError",
)
"""The members of a request."""


def toolhooks(engine: "Engine", body: dict[str, Any]) -> dict[str, Any] | str:
    """The payloads that would be written for a call; a text says what is wrong with the request."""
    principal, name = body.get("principal"), body.get("toolName")
    scopes = body.get("requiredScopes")
    if not isinstance(principal, str) or not isinstance(name, str) or not name:
        return "principal and toolName are texts"
    if scopes is not None and not (
        isinstance(scopes, list) and all(isinstance(each, str) and each for each in scopes)
    ):
        return "requiredScopes is a list of texts"
    for flag in ("simulateRateLimitExhausted", "simulateToolError"):
        if not isinstance(body.get(flag, False), bool):
            return f"{flag} is true or false"
    tool, arguments = full_id(name), engine.redactor.clean(body.get("args", {}))
    both = {"agentId": SYSTEM, "toolId": tool, "toolName": tool, "callId": "seam:0:0"}
    called = {**both, "arguments": arguments, "argsHash": args_hash(arguments)}
    called |= {"principal": principal, "transport": transport_of(tool)}
    outcome = engine.hooks.judge({"principal": principal}, tool, scopes or ())
    if outcome is None and body.get("simulateRateLimitExhausted"):
        outcome = rate_limited(tool)
    if outcome is None and body.get("simulateToolError"):
        outcome = CallOutcome(
            "error", error=error_of("tool_failed", "the test asked for a failure")
        )
    outcome = outcome or CallOutcome("ok", arguments)
    returned: dict[str, Any] = {**both, "status": outcome.status}
    if outcome.error is not None:
        returned["error"] = outcome.error
    else:
        returned["result"] = outcome.result
    if outcome.ran:
        returned["durationMs"] = 0
    return {"toolCalled": called, "toolReturned": returned}
