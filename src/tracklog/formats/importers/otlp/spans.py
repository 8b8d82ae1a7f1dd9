"""Map a span: the begin and end of a run, an agent or a step, or a call of a model or a tool."""

from collections.abc import Mapping
from typing import Any

from tracklog.formats.importers import count
from tracklog.formats.importers._fact_bodies import begin_fact, call_fact, end_fact, result_fact
from tracklog.formats.importers.otlp import autogen, genai, messages
from tracklog.formats.importers.otlp.agents import write_event
from tracklog.formats.importers.otlp.attrs import INPUT, OUTPUT, Names, Used, text
from tracklog.formats.importers.otlp.inference import (
    CALL,
    DETAILS,
    KEYS,
    USED,
    counted_in,
    cut_short,
    error_of,
    spent_in,
    write_details,
    write_inference,
)
from tracklog.formats.importers.otlp.item_writer import ItemWriter
from tracklog.formats.importers.otlp.joins import MCP_CALL, keywords
from tracklog.formats.importers.otlp.judging import decided, evaluated, has_evaluations, judged
from tracklog.formats.importers.otlp.memory import Memory
from tracklog.formats.importers.otlp.ours import write_ours
from tracklog.formats.importers.otlp.view import DROPPED, SpanEvent, SpanView
from tracklog.formats.importers.otlp.wire import attributes, not_numbers
from tracklog.model.fact import Ended, Linked, LinkKind, Noted, What

TOOL = CALL | Used(frozenset({"gen_ai.tool.name", "gen_ai.tool.call_id"}), ("gen_ai.tool.call.",))
CALLS = frozenset(("execute_tool", "judge", "create_agent", *genai.INFERENCE, *genai.LOOKUPS))
"""Operations within a step that are no steps themselves."""
SMOLAGENTS = "smolagents.max_steps"
"""The attribute that only agents of smolagents have; their spans are called `<agent>.run`."""
SERVER, REFUSED = 2, 400
"""The kind of a span that answers a request; the least code of an answer that is an error."""
LINKS: tuple[LinkKind, ...] = ("sub-run", "fork", "resume", "branch", "related")


def agent_of(span: SpanView) -> str | None:
    """The agent that a span names."""
    attrs = span.attrs
    if found := genai.pick(attrs, "agent"):
        return found
    if "metadata" in attrs and (found := genai.metadata(attrs, "lc_agent_name")):
        return found
    if attrs.get("openinference.span.kind") == "AGENT":
        name = span.name.removesuffix(".run") if SMOLAGENTS in attrs else span.name
        return text(attrs.get("graph.node.id")) or name or None
    return _named(span, "invoke_agent")


def write_span(
    writer: ItemWriter, span: SpanView, agent: str | None, *, nested: bool
) -> str | None:
    """Map a span; returns its tool call, if it is one.

    `agent` is the one it names, or that of the nearest span above. `nested`: it is below other
    spans of its run, so it is not the run itself.
    """
    if span.facts is not None:
        return write_ours(writer, span, span.facts)
    does = genai.operation(span.attrs)
    start, end = span.began, span.ended
    what = _what(span, does, nested=nested)
    attrs = span.attrs
    step = genai.pick(attrs, "node") if attrs.names.meanings["node"] else None
    if step is None and "metadata" in attrs:
        step = genai.metadata(attrs, "langgraph_node")
    if span.pending and what is None and does not in ("execute_tool", *genai.LOOKUPS):
        what = "step"
    if what == "agent":
        agent = agent_of(span) or span.name or None
    if what == "step":
        step = step or span.name or "span"
    writer.name(agent or span.service, step)
    if what is not None:
        _began(writer, span, does, what, start, extra={} if does in CALLS else writer.rest(USED))
    call = None
    match does:
        case "chat" if span.wraps_model and not span.pending:
            data = writer.rest(USED)
            writer.write(Noted(label="plumbing", kind=span.name, data=data or None), at=start)
        case "chat" | "generate_content" | "text_completion":
            write_inference(writer, span)
        case "execute_tool" if (to := _handed_to(span)) is not None:
            writer.write(
                Linked(kind="handoff", from_=agent, to=to), at=start, extra=writer.rest(USED)
            )
        case "execute_tool":
            call = _executed(writer, span, start, end, genai.pick(span.attrs, "tool"))
        case _ if does in genai.LOOKUPS:
            call = _executed(writer, span, start, end, does)
            if not span.pending:
                spent_in(writer, span)
        case "judge":
            judged(writer, span, end or start)
        case "create_agent":
            data = writer.rest(KEYS)
            writer.write(Noted(label="create_agent", kind=span.name, data=data), at=start)
        case None if what is None and not span.pending:
            data = writer.rest(USED)
            writer.write(Noted(label="plumbing", kind=span.name, data=data or None), at=start)
        case _ if span.name.startswith(autogen.PROCESS):
            autogen.write_messages(writer, span)
        case _:
            _repeated(writer, span, start, end)
    if what is not None and not span.pending:
        _ended(writer, span, what, end)
    if (over := writer.past.ends.late) is not None:
        writer.write_beside(Ended(what="run", passed=False), at=over)
    if span.happenings:
        _happened(writer, span, does, what)
    if span.attrs.names.once(has_evaluations):
        evaluated(writer, span, end or start)
    if "links" in span.item.body:
        _linked(writer, span, start)
    _found(writer, span, start)
    return call


def _what(span: SpanView, does: str | None, *, nested: bool) -> What | None:
    """The thing that begins and ends with the span; None for a call within something else."""
    if does is None and span.parent and span.is_plumbing:
        return None
    if does == "invoke_agent":
        return "agent" if nested else "run"
    if does == "invoke_workflow":
        return "step" if nested else "run"
    # A trace ends with its root; a conversation continues after one of its requests has ended.
    if not span.parent and (not span.keys or genai.is_chain(span.attrs)):
        return "run"
    return None if does in CALLS else "step"


def _named(span: SpanView, prefix: str) -> str | None:
    """The part of a span's name after its operation."""
    head, _, rest = span.name.partition(" ")
    return rest or None if head == prefix else None


def _handed_to(span: SpanView) -> str | None:
    """The agent that takes over: openai-agents reports a handoff as a tool without a name."""
    if not span.name.startswith("handoff to ") or genai.pick(span.attrs, "tool"):
        return None
    return span.name.removeprefix("handoff to ")


def _began(
    writer: ItemWriter,
    span: SpanView,
    does: str | None,
    what: What,
    at: str | None,
    extra: dict[str, Any],
) -> None:
    task = named = _named_task(span) if SMOLAGENTS in span.attrs else None
    if task is None and does in ("invoke_agent", "invoke_workflow"):
        task = _task(span)
    model, source = genai.pick(span.attrs, "asked"), span.source
    fact = begin_fact(what, task, model, source.software, source.host)
    writer.write(fact, at=at, extra=extra)
    if what == "run":
        title = Noted(label="title", kind="span", text=named or span.name)
        names = not span.keys or does in ("invoke_agent", "invoke_workflow")
        new = writer.past.is_new("title span")
        known = named is not None or (names and bool(span.name) and task is None)
        writer.write(title, at=at, known=known, new=new)


def _named_task(span: SpanView) -> str | None:
    """The task of an agent of smolagents: it is named in its input."""
    given = genai.parse(next((span.attrs[key] for key in INPUT if key in span.attrs), None))
    return text(given.get("task")) if isinstance(given, dict) else None


def _task(span: SpanView) -> str | None:
    """The task of an agent: the last message of its user."""
    asked = messages.talk(span.attrs).input or messages.payload(span.attrs, INPUT, "user")
    for message in reversed(asked):
        if message.role in ("user", "human"):
            texts = [part.get("content") for part in message.parts if isinstance(part, dict)
                    and part.get("type") == "text"]  # fmt: skip
            words = "\n".join(each for each in texts if isinstance(each, str))
            return words[:10_000] or None
    return None


def _ended(writer: ItemWriter, span: SpanView, what: What, at: str | None) -> None:
    ends, stopped = writer.past.ends, False
    if SMOLAGENTS in span.attrs:
        ends.returned(next((span.attrs[key] for key in OUTPUT if key in span.attrs), None))
        stopped = ends.out_of_steps
    refused = what == "run" and _is_refused(span)
    failed = stopped or refused or (what == "run" and ends.agent_failed)
    fact = end_fact(
        what,
        "max_steps" if stopped else None,
        False if failed else _passed(span),
        "Reached max steps." if stopped else text(span.status_message),
        writer.lifted(error_of(span)) if span.failed else None,
        span.seconds,
    )
    writer.write(fact, at=at)


def _is_refused(span: SpanView) -> bool:
    """Whether a web server answered with an error: its span has no status if the client is to blame."""
    code = span.attrs.get("http.response.status_code", span.attrs.get("http.status_code"))
    return span.item.body.get("kind") == SERVER and (count(code) or 0) >= REFUSED


def _passed(span: SpanView) -> bool | None:
    return False if span.failed else True if span.succeeded else None


def _totals(writer: ItemWriter, span: SpanView, at: str | None) -> None:
    """The totals of an agent or a workflow with all below it: compared, and never added."""
    tokens = genai.usage(span.attrs).tokens
    if not tokens:
        writer.skip()
        return
    kind = genai.operation(span.attrs) or span.name
    writer.write(Noted(label="totals", kind=kind, data=tokens), at=at)
    if span.parent:
        return
    counted = writer.past.total(span.trace)
    total = (tokens.get("input_tokens", 0), tokens.get("output_tokens", 0))
    if any(counted) and counted != total:
        words = f"{span.name} tells {total[0]} and {total[1]} tokens in and out, its calls {counted[0]} and {counted[1]}"
        data = {"name": "totals-differ", "told": list(total), "heard": list(counted)}
        writer.write_beside(
            Noted(label="finding", kind="totals-differ", text=words, data=data), at=at
        )


def _executed(
    writer: ItemWriter, span: SpanView, start: str | None, end: str | None, tool: str | None
) -> str:
    """A tool call at the span's start, and its return at the span's end."""
    attrs = span.attrs
    given = genai.first(attrs, "arguments")
    result = genai.first(attrs, "result")
    if not tool:
        name = text(attrs.get("traceloop.entity.name")) or _named(span, "execute_tool")
        tool = name or span.name or "unknown"
    put, output = keywords(writer.parsed(given)), genai.parse(result)
    by_mcp = attrs.names.once(_is_mcp)
    both_ends = _mcp_call(attrs) if by_mcp else None
    message = _tool_message(output) if isinstance(output, dict) else {}
    own, hint = genai.pick(attrs, "call") or both_ends, text(message.get("tool_call_id"))
    call = writer.ids_of(tool, put, own, span.record, hint)
    server = None
    if by_mcp and "mcp.method.name" in attrs:
        server = text(attrs.get("mcp.server.name", attrs.get("server.address")))
    begin = call_fact(tool, call.id, put, call.other, server, synthetic_id=call.synthetic)
    new = both_ends is None or writer.is_new_call(begin)
    writer.write(begin, at=start, extra=writer.rest(TOOL), new=new)
    if genai.is_json(put):
        cut_short(writer, ["gen_ai.tool.call.arguments"], start)
    if span.pending:
        return call.id
    exit_code = count(attrs.get("process.exit.code"))
    over = result_fact(
        call.id,
        tool,
        ok=not span.failed and message.get("status") != "error" and not exit_code,
        exit_code=exit_code,
        output=writer.lifted_from(result, output),
        error=writer.lifted(error_of(span)) if span.failed else None,
        seconds=span.seconds,
        synthetic_id=call.synthetic,
    )
    writer.write(over, at=end, new=both_ends is None or writer.is_new_call(over))
    return call.id


def _tool_message(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message that LangChain makes of what a tool returned; it has the id of the call."""
    data = output.get("data") if output.get("type") == "tool" else None
    return data if isinstance(data, dict) else {}


def _is_mcp(names: Names) -> bool:
    """Whether a call went over MCP."""
    return names.has("mcp.")


def _mcp_call(attrs: Mapping[str, Any]) -> str | None:
    """The key of an MCP call that both ends know."""
    session, request = attrs.get("mcp.session.id"), attrs.get("jsonrpc.request.id")
    return f"{MCP_CALL}{session}/{request}" if session and request not in (None, "") else None


def _repeated(writer: ItemWriter, span: SpanView, start: str | None, end: str | None) -> None:
    """The messages of model calls that an agent or a workflow repeats, and their sum."""
    if span.pending:
        return
    talk = counted_in(span, span.attrs)
    writer.again([*talk.system, *talk.input], start, "user")
    writer.again(talk.output, end, "assistant")
    _totals(writer, span, end)
    cut_short(writer, talk.cut, end)


def _happened(writer: ItemWriter, span: SpanView, does: str | None, what: What | None) -> None:
    """The events while the span was open."""
    for each in span.happenings:
        if each.name == "exception" or each.name == "gen_ai.client.operation.exception":
            new = not span.failed or (
                what is None and does not in ("execute_tool", *genai.INFERENCE)
            )
            fact = Noted(
                label="error",
                kind=text(each.attrs.get("exception.type")) or each.name,
                text=text(each.attrs.get("exception.message")),
                data=writer.lifted(each.attrs),
            )
            writer.write(fact, at=each.at, cause=span.record, new=new)
        elif each.name == "gen_ai.evaluation.result":
            decided(writer, each.attrs, span.record, each.at)
        elif each.name == DETAILS:
            if does not in genai.INFERENCE:
                write_details(writer, each.attrs, each.at)
        elif genai.is_old_event(each.name) and (does in genai.INFERENCE or does not in CALLS):
            continue  # the message is written
        elif not write_event(writer, _event(each), each.attrs, each.at, span.record):
            fact = Noted(label=each.name or "event", kind=each.name, data=writer.lifted(each.attrs))
            writer.write(fact, at=each.at, cause=span.record)


def _event(each: SpanEvent) -> str:
    """The name of an event: some producers give it the name of the place in the program."""
    return text(each.attrs.get("event.name")) or each.name


def _linked(writer: ItemWriter, span: SpanView, at: str | None) -> None:
    for link in span.item.body["links"]:
        attrs = attributes(link.get("attributes"))
        texts = {
            text(attrs.get(key)) for key in ("tracklog.link.kind", "link.kind", "kind", "type")
        }
        kind = next((each for each in LINKS if each in texts), None)
        fact = Linked(
            kind=kind or "related",
            other=link["traceId"],
            context={"span": link["spanId"], **attrs},
        )
        writer.write(fact, at=at)


def _found(writer: ItemWriter, span: SpanView, at: str | None) -> None:
    """The findings about the span itself."""
    write_dropped(writer, at)
    if 0 < span.end < span.start:
        writer.find("ends-before-it-starts", f"{span.name!r} ends before it starts", at)
    if not_numbers(writer.content):
        writer.find("not-a-number", "a number that JSON has none for is kept as its name", at)


def write_dropped(writer: ItemWriter, at: str | None) -> None:
    """Findings for parts of an item, its resource or its scope that the producer dropped."""
    view = writer.view
    body, around = view.item.body, view.source.dropped
    if not _DROPPING.isdisjoint(body):
        cut = _dropped(body, *body.get("events", ()), *body.get("links", ()))
    else:
        cut = 0
    if cut:
        writer.find("dropped", f"the producer dropped {cut} parts of {view.name!r}", at, count=cut)
    if around and writer.past.is_new("finding dropped-around"):
        words = f"the producer dropped {around} attributes of the resource or the scope"
        writer.find("dropped-around", words, at, count=around)


_DROPPING = frozenset(("events", "links", *DROPPED))
"""Parts of an item of which something may have been dropped."""


def _dropped(*parts: Mapping[str, Any]) -> int:
    return sum(part.get(key, 0) for part in parts for key in DROPPED)


def place_span(writer: ItemWriter, span: SpanView, memory: Memory, call: str | None) -> None:
    """Link the runs of a parent and a child, whichever of them comes first."""
    at = span.began
    run = writer.run
    above = memory.spans.get(span.cause) if span.cause else None
    if above is not None and above[0] != run:
        fact = Linked(kind="sub-run", parent=above[0], call_id=above[1])
        writer.write_beside(fact, at=at, new=_is_new(memory, run, above[0]))
    elif above is None and span.cause:
        memory.wait(span.cause, run)
    for child in memory.waiting.pop(span.record, ()):
        if child != run:
            fact = Linked(kind="sub-run", parent=run, call_id=call)
            below = writer.within(child, memory.past(child))
            below.write_beside(fact, at=at, cause=span.record, new=_is_new(memory, run, child))
    memory.place(span.record, run, call)


def _is_new(memory: Memory, one: str, other: str) -> bool:
    """Whether neither of two runs has the link yet."""
    return memory.past(one).is_new(f"sub-run {other}") and memory.past(other).is_new(
        f"sub-run {one}"
    )
