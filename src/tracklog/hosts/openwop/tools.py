"""Call a tool: who may, how often, and what is recorded of its arguments."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from tracklog.hosts import _programs
from tracklog.hosts.openwop.keys import Keys
from tracklog.hosts.openwop.schemas import DEEPEST, is_deep
from tracklog.hosts.openwop.settings import ECHO, UNPRIVILEGED, Key, Settings, ToolProgram

USUAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM")
"""Environment variables that every program may have, as those that begin with LC_; none is secret."""


class CallOutcome(NamedTuple):
    """The end of a call: a result or an error."""

    status: str
    result: Any = None
    error: dict[str, Any] | None = None
    ran: bool = True


def full_id(name: str) -> str:
    """`<scope>:<tool-id>` (WOP-50); a bare name is the protocol's own."""
    return name if ":" in name else f"openwop:{name}"


def error_of(code: str, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An ErrorEnvelope (WOP-59), with the code under both of its names."""
    data: dict[str, Any] = {"error": code, "code": code, "message": message}
    return {**data, "details": dict(details)} if details else data


def args_hash(arguments: Any) -> str:
    """SHA-256 of the canonical form (RFC 8785) of what is written of the arguments."""
    return sha256(canonical(arguments).encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON as RFC 8785 writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _number(value)
        case str():
            return orjson.dumps(value).decode()
        case list():
            return "[" + ",".join(map(canonical, value)) + "]"
        case dict():
            pairs = sorted(value.items(), key=lambda pair: pair[0].encode("utf-16-be"))
            return "{" + ",".join(f"{canonical(k)}:{canonical(v)}" for k, v in pairs) + "}"
    raise TypeError(f"{type(value)} is no JSON")


def _number(value: float) -> str:
    """As ECMAScript prints a double."""
    value = float(value)
    if value == 0:
        return "0"
    sign, digits = ("-", repr(-value)) if value < 0 else ("", repr(value))
    mantissa, _, power = digits.partition("e")
    whole, _, part = mantissa.partition(".")
    part = "" if part == "0" else part
    point = len(whole) + int(power or 0)
    figures = (whole + part).lstrip("0")
    point -= len(whole + part) - len(figures)
    figures = figures.rstrip("0") or "0"
    count = len(figures)
    if count <= point <= 21:
        return sign + figures + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{figures[:point]}.{figures[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{figures}"
    exponent = point - 1
    mark = f"e{'+' if exponent > 0 else '-'}{abs(exponent)}"
    return f"{sign}{figures[0]}{'.' + figures[1:] if count > 1 else ''}{mark}"


class _Bucket:
    def __init__(self, tool: ToolProgram) -> None:
        self.tool, self.left, self.at = tool, float(tool.burst), time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        full = float(self.tool.burst)
        self.left = min(full, self.left + (now - self.at) * self.tool.per_second)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Hooks:
    """The checks before a tool is called: scopes and rates."""

    def __init__(self, settings: Settings, keys: Keys | None = None) -> None:
        self._settings, self._keys = settings, keys or Keys(settings)
        self._buckets: dict[tuple[str, str, str], _Bucket] = {}

    def judge(
        self, caller: Mapping[str, Any], tool: str, scopes: Iterable[str] | None = None
    ) -> CallOutcome | None:
        """The reason why a call is refused; None when it is allowed.

        The caller is who began the run, as its first event has it. The operator holds every scope. Of
        others the key that began the run must have held the scope, and a key of them must hold it now.
        """
        known = self._settings.tools.get(tool)
        needed = list(scopes) if scopes is not None else list(known.scopes if known else ())
        if needed and caller.get("operator") is not True and not self._holds(caller, needed):
            return forbidden(tool, "a scope is missing", needed)
        if known is not None and known.per_second:
            tenant = caller.get("tenant", self._settings.tenant)
            place = (tenant, caller.get("principal", "default"), tool)
            bucket = self._buckets.setdefault(place, _Bucket(known))
            if not bucket.take():
                return rate_limited(tool)
        return None

    def _holds(self, caller: Mapping[str, Any], needed: list[str]) -> bool:
        """Whether somebody has the scopes; a principal without a key has none."""
        principal = caller.get("principal", "default")
        if principal == UNPRIVILEGED:
            return False
        keys = self._keys.of(principal, caller.get("tenant", self._settings.tenant))
        if not self._settings.keys and principal == "default":
            # The operator's one token stands for all that there is, when no keys are set up.
            keys = [Key(digest=b"", scopes=frozenset({"*"}))]
        if "scopes" in caller:
            begun = Key(digest=b"", scopes=frozenset(caller["scopes"]))
            keys = keys if all(map(begun.may, needed)) else []
        return any(all(map(key.may, needed)) for key in keys if not key.operator)


def forbidden(tool: str, why: str, scopes: list[str] | None = None) -> CallOutcome:
    details: dict[str, Any] = {"scope": "tool", "toolName": tool}
    if scopes is not None:
        details["requiredScopes"] = scopes
    return CallOutcome("forbidden", error=error_of("forbidden", why, details), ran=False)


def rate_limited(tool: str) -> CallOutcome:
    details = {"scope": "tool", "toolName": tool}
    return CallOutcome(
        "rate_limited", error=error_of("rate_limited", "bucket empty", details), ran=False
    )


async def _output(child: asyncio.subprocess.Process, given: bytes) -> tuple[bytes, bytes]:
    """The output of a program that gets some input; where it is cut off, its processes are ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        out, err, _ = await asyncio.gather(
            child.stdout.read(), child.stderr.read(), _feed(child.stdin, given)
        )
        await child.wait()
    except BaseException:
        await _programs.end(child)
        raise
    return out, err


async def _feed(stdin: asyncio.StreamWriter, given: bytes) -> None:
    """Write the input of a program; one that ends without reading it has not failed."""
    # uvloop raises RuntimeError where asyncio has the errors of the pipe.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, RuntimeError):
        stdin.write(given)
        await stdin.drain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, RuntimeError):
        stdin.close()


def environment_of(tool: ToolProgram, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that a tool gets: the usual ones, and those that its settings name."""
    names = {*USUAL, *tool.environment}
    return {
        name: value
        for name, value in environment.items()
        if name in names or name.startswith("LC_")
    }


async def invoke(tool_id: str, tools: Mapping[str, ToolProgram], arguments: Any) -> CallOutcome:
    """Run a tool to its end or its timeout."""
    if tool_id == ECHO:
        return CallOutcome("ok", arguments)
    tool = tools.get(tool_id)
    if tool is None:
        return CallOutcome("error", error=error_of("tool_not_found", f"there is no tool {tool_id}"))
    try:
        child = await _programs.start(tool.command, environment_of(tool, os.environ))
    except OSError as error:
        return CallOutcome(
            "error", error=error_of("tool_failed", f"it cannot be run: {error.strerror}")
        )
    try:
        async with asyncio.timeout(tool.seconds):
            out, err = await _output(child, orjson.dumps(arguments))
    except TimeoutError:
        # It was ended, and it is not known what it did until then.
        details = {"retryable": tool.idempotent}
        message = f"it took more than {tool.seconds} s"
        return CallOutcome("error", error=error_of("tool_timeout", message, details))
    if child.returncode:
        output = err.decode(errors="replace").strip()[-500:]
        message = output or f"it ended with {child.returncode}"
        return CallOutcome("error", error=error_of("tool_failed", message))
    try:
        result = orjson.loads(out) if out.strip() else None
    except orjson.JSONDecodeError:
        result = out.decode(errors="replace")
    if is_deep(result):
        text = f"its result has more than {DEEPEST} levels of objects and lists"
        return CallOutcome("error", error=error_of("tool_failed", text))
    return CallOutcome("ok", result)


def unknown_end(tool: str) -> CallOutcome:
    """The end of a call that was interrupted: it is not made again, because it may have had its effect."""
    details = {"toolName": tool, "retryable": False}
    message = "the host ended while the tool ran; whether it was done is not known"
    return CallOutcome("error", error=error_of("outcome_unknown", message, details))
