"""OpenCode: the events that a plugin of ours sends, with their tokens and costs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracklog.formats.hooks import Hook, HookWriter, rest_of
from tracklog.formats.importers import count, in_seconds, remember, run_id, utc_time
from tracklog.formats.providers import obj, usage, word
from tracklog.model.event import Body
from tracklog.model.fact import Spent

NAME = "opencode"
QUIET = ("session.status", "session.diff", "session.updated", "session.created", "session.idle",
         "message.updated", "message.part.updated")  # fmt: skip
"""Events that are mapped, or say nothing by themselves."""


def write(out: HookWriter, event: str, body: Body) -> None:
    fields = obj(body.get("properties"))
    info, part = obj(fields.get("info")), obj(fields.get("part"))
    parent = word(info.get("parentID")) if event.startswith("session.") else None
    out.name(NAME, session(body) or "", run_id(NAME, parent) if parent else None)
    if event == "session.created":
        out.begin("opencode", cwd=word(info.get("directory")), version=word(info.get("version")))
    if event in ("session.created", "session.updated"):
        title = word(info.get("title"))
        if (
            title
            and title != out.past.title
            and not title.startswith(("New session - ", "Child session - "))
        ):
            out.note("title", {}, kind=event, text=title)
    elif event == "message.updated":
        if model := word(info.get("modelID")):
            remember(out.past.models, word(info.get("id")) or "", model)
        if error := info.get("error"):
            out.note("error", {"error": error}, kind="message", text=_words(error))
    elif event == "message.part.updated":
        _part(out, part)
    elif event == "session.idle":
        out.close_questions()
        out.end("idle")
    elif event == "session.error":
        out.note("error", fields, kind=event, text=_words(fields.get("error")))
    elif event in ("permission.asked", "permission.updated"):
        _asked(out, fields)
    elif event == "permission.replied":
        id = word(fields.get("requestID")) or word(fields.get("permissionID")) or ""
        out.answer(id, word(fields.get("reply")) or word(fields.get("response")) or "answered")
    elif event not in QUIET:
        out.note(event or "event", rest_of(body, "type", "id"))


def _part(out: HookWriter, part: Body) -> None:
    kind, message = word(part.get("type")), word(part.get("messageID"))
    times = obj(part.get("time"))
    if kind == "tool":
        _tool(out, part)
    elif kind == "step-finish":
        _spent(out, part, out.past.models.get(message or ""))
    elif kind == "text" and (times.get("end") or "time" not in part):
        # Only the words of a model have a time: they are complete at its end.
        if "time" in part:
            model = out.past.models.get(message or "")
            out.say("assistant", word(part.get("text")), message=message, model=model)
            return
        if out.past.ended and message not in out.past.messages:
            out.begin("opencode")  # the conversation goes on
        injected = part.get("synthetic") is True or part.get("ignored") is True
        id = word(part.get("id")) if injected else message
        out.say("user", word(part.get("text")), message=id, injected=injected)


def _tool(out: HookWriter, part: Body) -> None:
    state = obj(part.get("state"))
    status, times, meta = (
        word(state.get("status")),
        obj(state.get("time")),
        obj(state.get("metadata")),
    )
    tool, id = word(part.get("tool")), word(part.get("callID")) or word(part.get("id"))
    began, ended = utc_time(times.get("start")), utc_time(times.get("end"))
    if status == "pending":
        return  # its input is not complete
    out.call(tool, state.get("input"), id, at=began)
    if status not in ("completed", "error"):
        return
    code = meta.get("exit")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    wrong = status == "error" or tool == "invalid" or bool(meta.get("timeout")) or bool(code)
    start, end = in_seconds(times.get("start"), 1000), in_seconds(times.get("end"), 1000)
    took = max(0.0, end - start) if start is not None and end is not None else None
    out.returned(
        tool, state.get("input"), id, {"title": state["title"]} if word(state.get("title")) else None,
        ok=not wrong, output=state.get("output"), error=state.get("error") if wrong else None,
        status=status, exit_code=code, seconds=took, at=ended,
    )  # fmt: skip  # one call


def _spent(out: HookWriter, part: Body, model: str | None) -> None:
    tokens, cost = obj(part.get("tokens")), part.get("cost")
    cache = obj(tokens.get("cache"))
    read, written = count(cache.get("read")) or 0, count(cache.get("write")) or 0
    fresh, output = count(tokens.get("input")) or 0, count(tokens.get("output")) or 0
    thought = count(tokens.get("reasoning")) or 0
    known = usage(
        tokens,
        input_tokens=fresh + read + written,
        cached_tokens=read,
        cache_write_tokens=written,
        output_tokens=output + thought,
        reasoning_tokens=thought,
    )
    paid = float(cost) if isinstance(cost, int | float) and cost > 0 else None
    out.write(Spent(key=f"{out.run}/{word(part.get('id')) or 'step'}", model=model, usage=known,
                    cost_usd=paid, calls=1))  # fmt: skip


def _asked(out: HookWriter, fields: Body) -> None:
    tool = obj(fields.get("tool"))
    what = word(fields.get("permission")) or word(fields.get("type")) or word(fields.get("title"))
    patterns = fields.get("patterns")
    about = f": {', '.join(map(str, patterns))}" if isinstance(patterns, list) and patterns else "?"
    call = word(tool.get("callID")) or word(fields.get("callID"))
    out.ask(f"May {what or 'a tool'} run{about}", call, rest_of(fields), id=word(fields.get("id")))


def _words(error: Any) -> str | None:
    fields = obj(error)
    return word(obj(fields.get("data")).get("message")) or word(fields.get("name")) or word(error)


def session(body: Body) -> str | None:
    """The session of an event; events about no session have none."""
    fields = obj(body.get("properties"))
    info, part = obj(fields.get("info")), obj(fields.get("part"))
    return (
        word(fields.get("sessionID")) or word(part.get("sessionID")) or word(info.get("sessionID"))
    )


def config(home: Path, environment: Mapping[str, str]) -> Path:
    """The plugin, in the folder of the person's own plugins."""
    folder = environment.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else home / ".config") / "opencode" / "plugins" / "tracklog.js"


hook = Hook(
    name=NAME,
    title="OpenCode",
    session=session,
    event=lambda body: word(body.get("type")),
    write=write,
    config=config,
    snippet="opencode.js",
    place="own",
)
