"""What a span tells: a run, an agent or a step that began and ended, a model or a tool that was called."""

from collections.abc import Mapping
from typing import Any

from tracklog.fact import (
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    LinkKind,
    Noted,
    Returned,
    Said,
    Spent,
    What,
)
from tracklog.importers import count, seconds
from tracklog.importers._spoken import carried, restored
from tracklog.importers.otlp import genai
from tracklog.importers.otlp.account import Account
from tracklog.importers.otlp.agents import GEMINI, tell_event
from tracklog.importers.otlp.memory import Memory
from tracklog.importers.otlp.view import RUN_KEYS, Happening, Span, spelled, text
from tracklog.importers.otlp.wire import attributes, not_numbers

MESSAGES = (
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
    "gen_ai.prompt.", "gen_ai.completion.", "llm.input_messages.", "llm.output_messages.",
)  # fmt: skip  # one row
USED = (
    *MESSAGES, "gen_ai.operation.name",
    *(name for names in genai.USAGE.values() for name in names),
    "gen_ai.response.id", "gen_ai.response.finish_reasons", "gen_ai.agent.name", *RUN_KEYS,
    "evaluations.", "annotations.", "trace.evaluations.", "trace.annotations.",
    "session.evaluations.", "session.annotations.",
)  # fmt: skip  # one row
PAYLOAD = (*genai.INPUT, *genai.OUTPUT)
TOOL = ("gen_ai.tool.name", "gen_ai.tool.call.", "gen_ai.tool.call_id", *PAYLOAD)
LINKS: tuple[LinkKind, ...] = ("sub-run", "fork", "resume", "branch", "related")


def tell_span(account: Account, span: Span, *, nested: bool) -> str | None:
    """Tells of a span; the tool call that it is, if it is one.

    `nested`: it stands below others of its run, so it is not the run itself.
    """
    does = genai.operation(span.attrs)
    start, end = spelled(span.start), spelled(span.end)
    what = _what(span, does, nested=nested)
    agent = genai.pick(span.attrs, "agent") or _named(span, "invoke_agent")
    account.who = {"agent": agent or span.service, "step": genai.pick(span.attrs, "node")}
    step = account.who["step"] or span.name or "span"
    if span.pending and what is None and does not in ("execute_tool", *genai.LOOKUPS):
        what = "step"
    if what == "agent":
        account.who["agent"] = agent or genai.pick(span.attrs, "agent_id") or span.name
    if what == "step":
        account.who["step"] = step
    lives = does in (None, "invoke_agent", "invoke_workflow", "plan")
    if what is not None:
        _began(account, span, does, what, start, extra=account.rest(*USED) if lives else {})
    call = None
    match does:
        case "chat" | "generate_content" | "text_completion":
            _inferred(account, span, start, end)
        case "execute_tool":
            call = _executed(account, span, start, end, genai.pick(span.attrs, "tool"))
        case _ if does in genai.LOOKUPS:
            call = _executed(account, span, start, end, does)
            if not span.pending:
                _spent(account, span, end)
        case "judge":
            _judged(account, span, end or start)
        case "create_agent":
            data = account.rest(*RUN_KEYS)
            account.say(Noted(label="create_agent", kind=span.name, data=data), at=start)
        case _:
            _repeated(account, span, start, end)
    if what is not None and not span.pending:
        _ended(account, span, what, end)
    _happened(account, span, does, what)
    _evaluated(account, span, end or start)
    _linked(account, span, start)
    _found(account, span, start)
    return call


def _what(span: Span, does: str | None, *, nested: bool) -> What | None:
    """What began and ended with it; None when it is a call within something else."""
    if does == "invoke_agent":
        return "agent" if nested else "run"
    if does == "invoke_workflow":
        return "step" if nested else "run"
    # A trace ends with its root; a conversation goes on after a request of it has.
    if not span.parent and (not span.keys or genai.is_chain(span.attrs)):
        return "run"
    return "step" if does in (None, "plan") else None


def _named(span: Span, prefix: str) -> str | None:
    """What the name of a span says behind its operation."""
    head, _, rest = span.name.partition(" ")
    return rest or None if head == prefix else None


def _began(
    account: Account,
    span: Span,
    does: str | None,
    what: What,
    at: str | None,
    extra: dict[str, Any],
) -> None:
    task = None
    if does in ("invoke_agent", "invoke_workflow"):
        task = _task(span)
    fact = Began(
        what=what,
        task=task,
        model=genai.pick(span.attrs, "asked"),
        software=span.software,
        host=span.host,
    )
    account.say(restored(fact, genai.ours(span.attrs)), at=at, extra=extra)
    if what == "run":
        title = Noted(label="title", kind="span", text=span.name)
        names = not span.keys or does in ("invoke_agent", "invoke_workflow")
        told = account.past.is_new("title span")
        known = names and bool(span.name) and task is None
        account.say(title, at=at, known=known, told=told)


def _task(span: Span) -> str | None:
    """What an agent was asked: the last words of its user."""
    asked = genai.talk(span.attrs).input or genai.payload(span.attrs, genai.INPUT, "user")
    for message in reversed(asked):
        if message.role in ("user", "human"):
            said = [part.get("content") for part in message.parts if isinstance(part, dict)
                    and part.get("type") == "text"]  # fmt: skip
            words = "\n".join(each for each in said if isinstance(each, str))
            return words[:10_000] or None
    return None


def _ended(account: Account, span: Span, what: What, at: str | None) -> None:
    fact = Ended(
        what=what,
        passed=_passed(span),
        error=account.lifted(_error(span)) if span.failed else None,
        reason=text(span.status_message),
        seconds=span.seconds,
    )
    account.say(restored(fact, genai.ours(span.attrs)), at=at)


def _passed(span: Span) -> bool | None:
    return False if span.failed else True if span.succeeded else None


def _error(span: Span) -> dict[str, Any]:
    """What went wrong: the type, and the exception that was told last."""
    raised: Mapping[str, Any] = {}
    for each in span.happenings:
        if each.name in ("exception", "gen_ai.client.operation.exception"):
            raised = each.attrs
    found = {
        "type": text(span.attrs.get("error.type")) or text(raised.get("exception.type")),
        "message": text(raised.get("exception.message")) or text(span.status_message),
        "stacktrace": text(raised.get("exception.stacktrace")),
    }
    return {key: value for key, value in found.items() if value is not None}


def _inferred(account: Account, span: Span, start: str | None, end: str | None) -> None:
    """A model was called: what it was given, what it said, what it took."""
    talk = genai.talk(span.attrs)
    for happening in span.happenings:
        _add(talk, happening)
    if span.pending:
        return
    talk.input = talk.input or genai.payload(span.attrs, genai.INPUT, "user")
    talk.output = talk.output or genai.payload(span.attrs, genai.OUTPUT, "assistant")
    key = genai.pick(span.attrs, "response") or span.record
    asked, answered = genai.pick(span.attrs, "asked"), genai.pick(span.attrs, "answered")
    reasons = genai.finish_reasons(span.attrs)
    account.again(talk.system, start, "system")
    last = account.input(talk.input, start)
    # What else is known of the request stands with the spend, or with the answer where none is told.
    extra = None if genai.usage(span.attrs) else account.rest(*USED, *PAYLOAD)
    if talk.output:
        account.output(talk.output, key, end, last, answered or asked, reasons, extra=extra)
    else:
        # Most producers withhold what was said; that something was is told all the same.
        reason = reasons[0] if reasons else None
        said = Said(role="assistant", blocks=(), model=answered or asked, stop_reason=reason)
        told = not account.is_answered(key) and span.tool != "gemini"
        account.say(said, at=end, told=told, known=not span.failed, extra=extra)
    _spent(account, span, end)
    if span.failed:
        fact = Noted(label="error", kind=span.name, text=span.status_message, data=_error(span))
        account.say(fact, at=end, cause=span.record)
    for name in talk.cut:
        account.find(
            "cut-attribute", f"{name} is no whole JSON: a limit cut it", end, attribute=name
        )


def _add(talk: genai.Talk, happening: Happening) -> None:
    """What an event of a span adds to what was said, as generation A told it."""
    name, attrs = happening.name, happening.attrs
    if name in genai.OLD_EVENTS:
        message = genai.old_message(name, attrs, None)
        if message is not None:
            (talk.output if name == "gen_ai.choice" else talk.input).append(message)
    elif name in ("gen_ai.content.prompt", "gen_ai.content.completion", DETAILS):
        more = genai.talk(attrs)
        talk.system += more.system if not talk.system else []
        talk.input += more.input if not talk.input else []
        talk.output += more.output if not talk.output else []


DETAILS = "gen_ai.client.inference.operation.details"


def _spent(account: Account, span: Span, at: str | None) -> None:
    # The log events of this agent tell the same spends, and more exactly: where they are heard,
    # they stand for all that its spans tell.
    group = GEMINI if span.tool == "gemini" else None
    key = genai.pick(span.attrs, "response") or span.record
    spent(account, span.attrs, key, at, group=group)


def spent(
    account: Account,
    attrs: Mapping[str, Any],
    key: str,
    at: str | None,
    clock: str | None = None,
    used: tuple[str, ...] = (),
    group: str | None = None,
    whole: bool = False,
) -> None:
    """What a model call took, and what else is known of the request."""
    took = genai.usage(attrs)
    fact = Spent(
        key=key,
        group=group,
        whole=whole,
        provider=genai.provider(attrs),
        model=genai.pick(attrs, "answered") or genai.pick(attrs, "asked"),
        usage=took.tokens or None,
        cost_usd=took.cost,
        calls=1,
    )
    fact = restored(fact, genai.ours(attrs))
    account.say(
        fact, at=at, clock=clock, known=bool(took), extra=account.rest(*USED, *PAYLOAD, *used)
    )
    if took.forgot:
        account.find("cache-not-in-input", f"{took.forgot}; they were added to it", at)


def _totals(account: Account, span: Span, at: str | None) -> None:
    """What an agent or a workflow took with all below it: told, and never added."""
    tokens = genai.usage(span.attrs).tokens
    account.say(
        Noted(label="totals", kind=genai.operation(span.attrs) or span.name, data=tokens),
        at=at,
        known=bool(tokens),
    )
    if not tokens or span.parent:
        return
    heard = account.past.total(span.trace)
    told = (tokens.get("input_tokens", 0), tokens.get("output_tokens", 0))
    if any(heard) and heard != told:
        words = f"{span.name} tells {told[0]} and {told[1]} tokens in and out, its calls {heard[0]} and {heard[1]}"
        data = {"name": "totals-differ", "told": list(told), "heard": list(heard)}
        account.aside(Noted(label="finding", kind="totals-differ", text=words, data=data), at=at)


def _executed(
    account: Account, span: Span, start: str | None, end: str | None, tool: str | None
) -> str:
    """A tool was called at the span's start, and returned at its end."""
    attrs = span.attrs
    given = genai.first(attrs, "arguments")
    result = genai.first(attrs, "result")
    name = tool or text(attrs.get("traceloop.entity.name")) or _named(span, "execute_tool")
    server = attrs.get("mcp.server.name", attrs.get("server.address"))
    tool, put = name or span.name or "unknown", account.lifted(genai.parse(given))
    both_ends = _mcp_call(attrs)
    call = genai.pick(attrs, "call") or both_ends
    call = call or account.call_id(tool, put) or span.record
    called = Called(
        tool=tool,
        call_id=call,
        input=put,
        tool_server=text(server) if "mcp.method.name" in attrs else None,
    )
    called = restored(called, genai.ours(attrs))
    told = both_ends is None or account.is_new_call(called)
    account.say(called, at=start, extra=account.rest(*USED, *TOOL), told=told)
    if span.pending:
        return call
    returned = Returned(
        call_id=call,
        tool=called.tool,
        ok=not span.failed,
        output=account.lifted(genai.parse(result)),
        error=account.lifted(_error(span)) if span.failed else None,
        seconds=span.seconds,
    )
    returned = restored(returned, genai.ours(attrs))
    account.say(returned, at=end, told=both_ends is None or account.is_new_call(returned))
    return call


def _mcp_call(attrs: Mapping[str, Any]) -> str | None:
    """What both ends of a call over MCP know it by."""
    session, request = attrs.get("mcp.session.id"), attrs.get("jsonrpc.request.id")
    return f"mcp/{session}/{request}" if session and request not in (None, "") else None


def _judged(account: Account, span: Span, at: str | None) -> None:
    """A guardrail or an evaluator gave its verdict."""
    verdict = account.lifted(genai.parse(span.attrs.get("output.value")))
    extra = account.rest(*USED, "output.value")
    fact = Decided(verdict=verdict, by=span.name or None, name=span.name or None, about=span.cause)
    if verdict is None:
        account.say(Noted(label="judge", kind=span.name, data=extra), at=at)
    else:
        account.say(fact, at=at, extra=extra)


def _repeated(account: Account, span: Span, start: str | None, end: str | None) -> None:
    """An agent or a workflow tells the words of its model calls once more, and their sum."""
    if span.pending:
        return
    talk = genai.talk(span.attrs)
    account.again([*talk.system, *talk.input], start, "user")
    account.again(talk.output, end, "assistant")
    _totals(account, span, end)
    for name in talk.cut:
        account.find(
            "cut-attribute", f"{name} is no whole JSON: a limit cut it", end, attribute=name
        )


def _happened(account: Account, span: Span, does: str | None, what: What | None) -> None:
    """What was told while it was open."""
    for each in span.happenings:
        if each.name == "exception" or each.name == "gen_ai.client.operation.exception":
            told = not span.failed or (
                what is None and does not in ("execute_tool", *genai.INFERENCE)
            )
            fact = Noted(
                label="error",
                kind=text(each.attrs.get("exception.type")) or each.name,
                text=text(each.attrs.get("exception.message")),
                data=account.lifted(each.attrs),
            )
            account.say(fact, at=each.at, cause=span.record, told=told)
        elif (ours := _carried(each)) is not None:
            account.say(ours, at=each.at, cause=span.record)
        elif each.name == "gen_ai.evaluation.result":
            decided(account, each.attrs, span.record, each.at)
        elif does in genai.INFERENCE and (
            each.name in genai.OLD_EVENTS or each.name.startswith("gen_ai.c")
        ):
            continue
        elif not tell_event(account, each.name, each.attrs, each.at, span.record):
            fact = Noted(
                label=each.name or "event", kind=each.name, data=account.lifted(each.attrs)
            )
            account.say(fact, at=each.at, cause=span.record)


def _carried(each: Happening) -> Fact | None:
    """A fact of ours that the conventions have no event for."""
    if not each.name.startswith(genai.OURS):
        return None
    return carried(each.name.removeprefix(genai.OURS), genai.ours(each.attrs))


def decided(
    account: Account,
    attrs: Mapping[str, Any],
    about: str | None,
    at: str | None,
    clock: str | None = None,
) -> None:
    """An evaluation's result."""
    score = _number(attrs.get("gen_ai.evaluation.score.value"))
    label = attrs.get("gen_ai.evaluation.score.label")
    name = text(attrs.get("gen_ai.evaluation.name"))
    if score is None and label is None:
        account.say(Noted(label="evaluation", kind=name, data=dict(attrs)), at=at, clock=clock)
        return
    fact = Decided(
        verdict=label,
        score=score,
        name=name,
        reason=text(attrs.get("gen_ai.evaluation.explanation")),
        about=text(attrs.get("gen_ai.response.id")) or about,
    )
    account.say(restored(fact, genai.ours(attrs)), at=at, clock=clock)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return seconds(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _evaluated(account: Account, span: Span, at: str | None) -> None:
    """Annotations and evaluations of OpenInference, on a span, its trace or its conversation."""
    if not any(".annotation." in key or ".evaluation." in key for key in span.attrs):
        return
    for prefix in ("", "trace.", "session."):
        for word in ("annotation", "evaluation"):
            rows = genai.nested(span.attrs, f"{prefix}{word}s")
            for row in rows if isinstance(rows, list) else []:
                found = row.get(word) if isinstance(row, dict) else None
                if not isinstance(found, dict):
                    continue
                score = _number(found.get("score"))
                if found.get("label") is None and score is None:
                    continue
                fact = Decided(
                    verdict=found.get("label"),
                    score=score,
                    name=text(found.get("name")),
                    reason=text(found.get("explanation")),
                    by=text(found.get("annotator_kind")) or text(found.get("identifier")),
                    about=span.record if not prefix else None,
                )
                account.say(fact, at=at)


def _linked(account: Account, span: Span, at: str | None) -> None:
    for link in span.item.body.get("links", ()):
        attrs = attributes(link.get("attributes"))
        said = {text(attrs.get(key)) for key in ("tracklog.link.kind", "link.kind", "kind", "type")}
        kind = next((each for each in LINKS if each in said), None)
        fact = Linked(
            kind=kind or "related",
            other=link["traceId"],
            context={"span": link["spanId"], **attrs},
        )
        account.say(fact, at=at)


def _found(account: Account, span: Span, at: str | None) -> None:
    """What is amiss with the span itself."""
    cut = dropped(span.item.body) + sum(each.dropped for each in span.happenings)
    cut += sum(
        count(link.get("droppedAttributesCount")) or 0 for link in span.item.body.get("links", ())
    )
    if cut:
        account.find("dropped", f"the producer dropped {cut} parts of {span.name!r}", at, count=cut)
    if 0 < span.end < span.start:
        account.find("ends-before-it-starts", f"{span.name!r} ends before it starts", at)
    if not_numbers(account.content):
        account.find("not-a-number", "a number that JSON has none for is kept as its name", at)


def dropped(body: Mapping[str, Any]) -> int:
    """How many parts of an item its producer left out."""
    keys = ("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount")
    return sum(body.get(key, 0) for key in keys)


def place_span(account: Account, span: Span, memory: Memory, call: str | None) -> None:
    """Links the runs of a parent and a child, whichever of them comes first."""
    at = spelled(span.start)
    run = account.run
    above = memory.spans.get(span.cause) if span.cause else None
    if above is not None and above[0] != run:
        fact = Linked(kind="sub-run", parent=above[0], call_id=above[1])
        account.aside(fact, at=at, told=_is_new(memory, run, above[0]))
    elif above is None and span.cause:
        memory.wait(span.cause, run)
    for child in memory.waiting.pop(span.record, []):
        if child != run:
            fact = Linked(kind="sub-run", parent=run, call_id=call)
            below = account.within(child, memory.past(child))
            below.aside(fact, at=at, cause=span.record, told=_is_new(memory, run, child))
    memory.place(span.record, run, call)


def _is_new(memory: Memory, one: str, other: str) -> bool:
    """Whether neither of two runs told that they belong together."""
    return memory.past(one).is_new(f"sub-run {other}") and memory.past(other).is_new(
        f"sub-run {one}"
    )
