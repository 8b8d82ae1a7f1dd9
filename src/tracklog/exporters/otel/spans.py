"""The spans of a run: itself, its steps, the turns of its models and the calls of its tools."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tracklog.exporters import (
    VOICES,
    Calls,
    Flight,
    Heard,
    Options,
    Turn,
    Turns,
    blob_of,
    blob_path,
    nanoseconds,
    plain,
    span_of,
    text_of,
)
from tracklog.fact import Began, Block, Called, Decided, Ended, Fact, Returned, Said, Spent

INTERNAL, CLIENT = 1, 3
OK, ERROR = 1, 2
UNSET_OUTCOMES = ("partial", "escaped")
"""Outcomes that are neither a success nor a failure."""
Values = dict[str, Any]


def trace_id(family: str, root: str) -> str:
    """The trace of a run: that of the run at the top of its tree."""
    return _id(16, family, root)


def span_id(family: str, run: str, role: str, key: str = "") -> str:
    """The span of a run, a step, a model's turn or a tool's call."""
    return _id(8, family, run, role, key)


def _id(size: int, *parts: str) -> str:
    digest = sha256("\n".join(parts).encode("utf-8", "surrogatepass")).digest()[:size]
    # All zero would be invalid there.
    return (digest if any(digest) else digest[:-1] + b"\1").hex()


@dataclass(slots=True)
class _OpenTurn:
    """What is known of a turn beside what its model did."""

    above: str
    inputs: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Span:
    """A span, until it is written."""

    id: str
    name: str
    kind: int
    parent: str | None
    trace: str
    first: Heard
    last: Heard
    values: Values = field(default_factory=dict)
    events: list[tuple[int, str, Values]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    code: int = 0
    message: str | None = None


class SpansOf:
    """The spans of one run, each given away as soon as it has ended."""

    def __init__(self, flight: Flight, trace: str, above: str | None, options: Options) -> None:
        self.flight, self.trace, self.above = flight, trace, above
        self.content = options["content"] == "yes"
        self.newer = options["generation"] == "1.42"
        self.id = flight.own[1] if flight.own else span_id(flight.family, flight.run, "run")
        self.agents = tuple(flight.summary.get("agents") or ())
        self.wanted = {child.call for child in flight.below if child.call}
        self.tools: dict[str, str] = {}
        """The spans of the calls that began a sub-run."""
        self.root: Span | None = None
        self.ended = False
        self.steps: dict[tuple[str | None, str], Span] = {}
        self.counts: dict[str, int] = {}
        self.calls, self.turns = Calls(), Turns()
        self.open: dict[str, Span] = {}
        self.heard: list[dict[str, Any]] = []
        """What a model heard since its last turn."""
        self.open_turns: dict[int, _OpenTurn] = {}
        self.made_up: set[str] = set()
        """What the conventions ask for and nobody said."""
        self.taken = {self.id}
        self.judged: dict[str, Span] = {}
        """Spans that a decision is about: they are held back until the end, to bear it."""
        self.verdicts: list[tuple[str, tuple[int, str, Values]]] = []
        """What was decided about what."""
        self.done: list[Span] = []

    def spans(self) -> Iterator[Span]:
        for heard in self.flight.heard():
            if self.root is None:
                self._begin(heard)
            assert self.root is not None
            self.root.last = heard
            for place, fact in enumerate(heard.facts):
                self._tell(heard, place, fact)
            self._finish_turns(self.turns.finished())
            yield from self._taken()
        if self.root is not None:
            self._end()
            yield from self._taken()
            for about, verdict in self.verdicts:
                self.judged.get(about, self.root).events.append(verdict)
            yield from {id(span): span for span in self.judged.values()}.values()
            yield self._sealed(self.root)

    def _begin(self, heard: Heard) -> None:
        """The run's own span; where it came in by OTLP, its beginning knows the id."""
        flight, agent = self.flight, self.flight.opening.get("agent")
        if agent is None and len(self.agents) == 1:
            agent = self.agents[0]
        task = str(flight.opening.get("task") or "")
        acts = agent is not None or (self.agents and not flight.stepped)
        operation = "invoke_agent" if acts else "invoke_workflow"
        values: Values = {"gen_ai.operation.name": operation}
        name = agent if acts else task if re.fullmatch(r"[\w.:/-]{1,64}", task) else None
        if name:
            values["gen_ai.agent.name" if acts else "gen_ai.workflow.name"] = name
        providers = {spend.provider for spend in flight.spends if spend.provider}
        software = flight.opening.get("software") or {}
        if acts and not self.newer:
            values["gen_ai.provider.name"] = self._known("gen_ai.provider.name", sorted(providers))
            if software.get("version"):
                values["gen_ai.agent.version"] = str(software["version"])
        values["gen_ai.conversation.id"] = flight.root[1]
        keys = ("model", "software", "cwd", "git", "counts")
        for key in (*keys, *(("task",) if self.content else ())):
            if flight.opening.get(key) is not None:
                values[f"tracklog.{key}"] = text_of(flight.opening[key])
        title = f"{operation} {name}" if name else operation
        trace = flight.own[0] if flight.own else self.trace
        above = self.above or (flight.own[2] if flight.own else None)
        self.root = Span(self.id, title, INTERNAL, above, trace, heard, heard, values)
        if self.above is not None and flight.parent is not None:
            self.root.links.append((self.trace, self.above))

    def _tell(self, heard: Heard, place: int, fact: Fact) -> None:
        match fact:
            case Began() if self._is_whole(fact):
                pass  # the run's span is there since the first record
            case Began():
                self._begin_step(heard, fact)
            case Ended() if self._is_whole(fact):
                self.ended = True
                self._judge(self._whole(), fact)
            case Ended():
                self._end_step(heard, fact)
            case Called():
                self._call(heard, fact)
            case Returned():
                self._return(heard, fact)
            case Said(role=role) if role in VOICES:
                self._turn(self.turns.said(heard, fact))
            case Said():
                self.turns.interrupted(fact)
                self._hear(fact.role, [_part(block) for block in fact.blocks])
            case Spent() if place in heard.spends and _priced(heard, place):
                self._turn(self.turns.spent(heard, fact, heard.spends[place]))
            case _:
                self._note(heard, fact)

    def _whole(self) -> Span:
        assert self.root is not None
        return self.root

    def _is_whole(self, fact: Began | Ended) -> bool:
        """Whether it is the run itself that began or ended: a lone agent's life is the run's."""
        return fact.what == "run" or (fact.what == "agent" and len(self.agents) < 2)

    def _own(self, heard: Heard) -> tuple[str, str] | None:
        """The ids that a record came in with, unless another span has them already."""
        own = span_of(heard.names)
        if own is None or own[1] in self.taken:
            return None
        self.taken.add(own[1])
        return own

    def _span(
        self, heard: Heard, role: str, key: str, name: str, kind: int, above: str | None
    ) -> Span:
        own = self._own(heard)
        if own is not None:
            return Span(own[1], name, kind, _parent(heard), own[0], heard, heard)
        made = span_id(self.flight.family, self.flight.run, role, key)
        return Span(made, name, kind, above or self.id, self._whole().trace, heard, heard)

    def _above(self, agent: str | None, step: str | None) -> str:
        """The innermost open span that something belongs to."""
        return self._enclosing(agent, step).id

    def _enclosing(self, agent: str | None, step: str | None) -> Span:
        inner = None
        while step and inner is None:  # a path names what it is in
            inner = self.steps.get((None, step))
            step = step[: max(step.rfind("."), step.rfind("/"), 0)]
        outer = self.steps.get((agent, "")) if agent is not None else None
        return inner or outer or self._whole()

    def _begin_step(self, heard: Heard, fact: Began) -> None:
        agent = fact.agent if fact.what == "agent" else None
        path = f"agent/{agent}" if agent is not None else fact.step or fact.agent or ""
        place = (agent, "") if agent is not None else (None, path)
        if place in self.steps:
            self._close(self.steps.pop(place), heard)
        self.counts[path] = self.counts.get(path, 0) + 1
        key = path if self.counts[path] == 1 else f"{path}#{self.counts[path]}"
        title = f"invoke_agent {agent}" if agent is not None else path or "step"
        above = self._above(fact.agent, fact.step) if agent is None else self.id
        span = self._span(heard, "step", key, title, INTERNAL, above)
        if agent is not None:
            span.values |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
        self._describe(span, fact, "what")
        self.steps[place] = span

    def _end_step(self, heard: Heard, fact: Ended) -> None:
        agent = fact.agent if fact.what == "agent" else None
        place = (agent, "") if agent is not None else (None, fact.step or fact.agent or "")
        span = self.steps.pop(place, None)
        if span is None:
            self._note(heard, fact)
            return
        self._judge(span, fact)
        self._close(span, heard)

    def _judge(self, span: Span, fact: Ended | Returned) -> None:
        passed = fact.ok if isinstance(fact, Returned) else fact.passed
        outcome = None if isinstance(fact, Returned) else fact.outcome
        if passed is False and outcome not in UNSET_OUTCOMES:
            reason = None if isinstance(fact, Returned) else fact.reason
            span.code = ERROR
            span.message = text_of(fact.error) if fact.error is not None else reason or outcome
            span.values["error.type"] = str(_type_of(fact.error) or outcome or "_OTHER")
        elif passed is True:
            span.code = OK
        self._describe(span, fact, "what call_id output error")
        if fact.error is not None:
            span.values["tracklog.error"] = text_of(fact.error)

    def _describe(self, span: Span, fact: Fact, told: str) -> None:
        span.values |= self._values(fact, told)

    def _values(self, fact: Fact, told: str = "") -> Values:
        """What a fact says, in our own namespace; content only where it is wanted."""
        hidden = set(told.split()) | (set() if self.content else CONTENT)
        return {
            f"tracklog.{name}": value
            if isinstance(value, str | bool | int | float)
            else text_of(value)
            for name, value in plain(fact).items()
            if name not in hidden
        }

    def _call(self, heard: Heard, fact: Called) -> None:
        name = self.calls.called(heard, fact)
        if name is None:
            self._adopt_call(heard, fact)
            return
        part: dict[str, Any] = {"type": "tool_call", "id": name, "name": str(fact.tool)}
        given = {} if fact.input is None else {"arguments": fact.input}
        if self.content:
            self._turn(self.turns.called(heard, fact, name)).calls.append(part | given)
        else:
            self._turn(self.turns.called(heard, fact, name))
        above = self.open.get(fact.parent_call_id or "")
        hangs = above.id if above else self._above(fact.agent, fact.step)
        made = span_id(self.flight.family, self.flight.run, "tool", name)
        inside = any(isinstance(each, Said | Spent) for each in heard.facts)
        own = None if inside or self._in_a_turn(heard) else self._own(heard)
        span = Span(
            own[1] if own else made,
            f"execute_tool {fact.tool}",
            INTERNAL,
            _parent(heard) if own else hangs,
            own[0] if own else self._whole().trace,
            heard,
            heard,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": str(fact.tool),
                "gen_ai.tool.call.id": name,
            },
        )
        self._describe(span, fact, "tool call_id input")
        if self.content and fact.input is not None:
            span.values["gen_ai.tool.call.arguments"] = text_of(fact.input)
        self.open[name] = span
        if fact.call_id in self.wanted:
            self.tools[fact.call_id] = span.id

    def _in_a_turn(self, heard: Heard) -> bool:
        """Whether a model's message tells of a call, which then has a span of its own elsewhere."""
        own = span_of(heard.names)
        return own is not None and own[1] in self.taken

    def _adopt_call(self, heard: Heard, fact: Called) -> None:
        """A copy of a call that knows the ids of its span."""
        span = self.open.get(self.calls.name(heard, fact))
        if span is not None and (own := self._own(heard)) is not None:
            span.trace, span.id = own
            span.parent = _parent(heard) or span.parent
            span.first = heard
            if fact.call_id in self.wanted:
                self.tools[fact.call_id] = span.id

    def _return(self, heard: Heard, fact: Returned) -> None:
        self.turns.interrupted(fact)
        name = self.calls.returned(heard, fact)
        span = None if name is None else self.open.pop(name, None)
        if name is not None and self.content and fact.output is not None:
            answer = {"type": "tool_call_response", "id": name, "response": fact.output}
            self._hear("tool", [answer])
        if span is None:
            self._note(heard, fact)
            return
        self._judge(span, fact)
        if self.content and fact.output is not None:
            span.values["gen_ai.tool.call.result"] = text_of(fact.output)
        self._close(span, heard)

    def _hear(self, role: str, parts: list[dict[str, Any]]) -> None:
        if self.content:
            self.heard.append({"role": role, "parts": parts})

    def _turn(self, turn: Turn) -> "_OpenTurn":
        """What a model heard belongs to the turn that follows."""
        now = self.open_turns.get(id(turn))
        if now is None:
            now = self.open_turns[id(turn)] = _OpenTurn(self._above(turn.agent, turn.step))
        if self.heard:
            now.inputs += self.heard
            self.heard = []
        if turn.spoke and (own := span_of(turn.first.names)):
            self.taken.add(own[1])
        return now

    def _finish_turns(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            now = self.open_turns.pop(id(turn))
            if turn.spoke:
                self.done.append(self._chat(turn, now))
            else:
                self.heard[:0] = now.inputs

    def _chat(self, turn: Turn, now: "_OpenTurn") -> Span:
        models = [said.model for said in turn.said] + [spend.model for spend in turn.spends]
        model = next(filter(None, models), None)
        asked = model or self.flight.opening.get("model")
        providers = [spend.provider for spend in turn.spends if spend.provider]
        own = span_of(turn.first.names)
        made = span_id(self.flight.family, self.flight.run, "model", str(turn.first.seq))
        values: Values = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._known("gen_ai.provider.name", providers),
            "gen_ai.conversation.id": self.flight.root[1],
        }
        if asked:
            values["gen_ai.request.model"] = str(asked)
        if model:
            values["gen_ai.response.model"] = str(model)
        if turn.message_id and turn.first.event and turn.message_id != turn.first.event.id:
            values["gen_ai.response.id"] = turn.message_id
        reasons = [str(said.stop_reason) for said in turn.said if said.stop_reason]
        if reasons:
            values["gen_ai.response.finish_reasons"] = reasons[-1:]
        if turn.agent:
            values["gen_ai.agent.name"] = turn.agent
        if turn.step:
            values["tracklog.step"] = turn.step
        values |= self._usage(turn)
        if self.content:
            values |= self._messages(turn, now, reasons)
        title = f"chat {asked}" if asked else "chat"
        return self._sealed(
            Span(
                own[1] if own else made,
                title,
                CLIENT,
                _parent(turn.first) if own else now.above,
                own[0] if own else self._whole().trace,
                turn.first,
                turn.last,
                values,
            )
        )

    def _known(self, name: str, said: list[str]) -> str:
        """The first that was said, or a word that says that nobody did."""
        if not said:
            self.made_up.add(name)
        return said[0] if said else "unknown"

    def _usage(self, turn: Turn) -> Values:
        names = dict(TOKENS)
        if self.newer:
            names["cache_write_tokens"] = "gen_ai.usage.cache_write.input_tokens"
        values: Values = {}
        for spend in turn.spends:
            for ours, theirs in names.items():
                if ours in spend.amounts:
                    values[theirs] = values.get(theirs, 0) + spend.amounts[ours]
            if spend.cost_usd is not None:
                values["tracklog.cost_usd"] = values.get("tracklog.cost_usd", 0.0) + spend.cost_usd
            if spend.calls is not None:
                values["tracklog.calls"] = values.get("tracklog.calls", 0) + spend.calls
        return values

    def _messages(self, turn: Turn, now: "_OpenTurn", reasons: list[str]) -> Values:
        values: Values = {}
        inputs = now.inputs
        system = [part for each in inputs if each["role"] == "system" for part in each["parts"]]
        others = [each for each in inputs if each["role"] != "system"]
        if system:
            values["gen_ai.system_instructions"] = text_of(system)
        if others:
            values["gen_ai.input.messages"] = text_of(others)
        parts = [_part(block, said.role) for said in turn.said for block in said.blocks]
        parts += now.calls
        if parts:
            message: dict[str, Any] = {"role": "assistant", "parts": parts}
            if not self.newer:
                message["finish_reason"] = self._known("finish_reason", reasons[-1:])
            values["gen_ai.output.messages"] = text_of([message])
        return values

    def _note(self, heard: Heard, fact: Fact) -> None:
        """What has no span of its own is an event on the one that it happened in."""
        span = self._enclosing(fact.agent, fact.step)
        moment = nanoseconds(heard.at)
        if isinstance(fact, Decided) and fact.confidence is None:
            values: Values = {"gen_ai.evaluation.name": fact.name or "verdict"}
            if fact.score is not None:
                values["gen_ai.evaluation.score.value"] = float(fact.score)
            if fact.verdict is not None:
                values["gen_ai.evaluation.score.label"] = text_of(fact.verdict)
            if fact.reason is not None:
                values["gen_ai.evaluation.explanation"] = str(fact.reason)
            values |= self._values(fact, "name score verdict reason")
            values["tracklog.seq"] = heard.seq
            verdict = (moment, "gen_ai.evaluation.result", values)
            if fact.about is None:
                span.events.append(verdict)
            else:
                self.verdicts.append((fact.about, verdict))
            return
        name = f"tracklog.{type(fact).__name__.lower()}"
        values = self._values(fact) | {"tracklog.seq": heard.seq}
        span.events.append((moment, name, values))

    def _close(self, span: Span, heard: Heard) -> None:
        span.last = heard
        self.done.append(self._sealed(span))

    def _taken(self) -> list[Span]:
        """The spans that have ended, but for those that are judged."""
        done, self.done = self.done, []
        if not self.flight.judged:
            return done
        free = []
        for span in done:
            names = {*span.first.names, *map(span.values.get, (_CALL, _RESPONSE))}
            about = [str(name) for name in names if name in self.flight.judged]
            self.judged |= dict.fromkeys(about, span)
            if not about:
                free.append(span)
        return free

    def _sealed(self, span: Span) -> Span:
        """The span with what every span has."""
        first, last = span.first, span.last
        span.values |= {
            "tracklog.run.id": self.flight.run,
            "tracklog.dialect": first.record.dialect,
            "tracklog.seq": [first.seq, last.seq],
        }
        span.values.setdefault("tracklog.fidelity", _fidelity(first))
        if nanoseconds(last.at) < nanoseconds(first.at):
            span.values["tracklog.received"] = [first.record.received, last.record.received]
        if first.event is not None and first.event.at is None:
            span.values["tracklog.clock"] = "received"
        return span

    def _end(self) -> None:
        root = self._whole()
        last = root.last
        self._finish_turns(self.turns.finished(all=True))
        for span in [*self.open.values(), *self.steps.values()]:
            if span.name.startswith("execute_tool"):
                span.values["tracklog.dangling"] = True
            else:
                span.values["tracklog.unfinished"] = True
            self._close(span, last)
        if not (self.ended or self.flight.summary.get("ended")):
            root.values["tracklog.unfinished"] = True
        for finding in self.flight.findings:
            values = {"tracklog.label": finding.name, "tracklog.text": finding.message}
            root.events.append((nanoseconds(last.at), "tracklog.finding", values))


_CALL, _RESPONSE = "gen_ai.tool.call.id", "gen_ai.response.id"
CONTENT = {"data", "answer", "evidence", "context", "input", "output", "blocks", "task"}
"""Fields that hold what was said or done, not that it was."""
TOKENS = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "total_tokens": "tracklog.usage.total_tokens",
}


def _priced(heard: Heard, place: int) -> bool:
    """Whether a spend is a model's: a run's total alone is not."""
    spend = heard.spends[place]
    return bool(spend.model or spend.amounts.keys() & {"input_tokens", "output_tokens"})


def _fidelity(heard: Heard) -> str:
    return next((str(fact.fidelity) for fact in heard.facts), "observed")


def _parent(heard: Heard) -> str | None:
    """The span that a record's cause names."""
    cause = heard.event.cause if heard.event else None
    found = span_of((cause,)) if cause else None
    return found[1] if found else None


def _type_of(error: Any) -> Any:
    return error.get("code") or error.get("type") if isinstance(error, Mapping) else None


def _part(block: Block, role: str = "") -> dict[str, Any]:
    """A content block as a part of a message; what was lifted out is named, never inlined."""
    for key in ("text", "thinking", "chunk", "command"):
        lifted = blob_of(block.get(key))
        if lifted is not None:
            kind = str(lifted.get("media_type") or "")
            modality = kind.partition("/")[0]
            part = {
                "type": "uri",
                "modality": modality if modality in ("image", "audio", "video") else "document",
                "uri": blob_path(lifted),
            }
            return part | ({"mime_type": kind} if kind else {})
    match block.get("type"):
        case "thinking":
            return _words("reasoning", "thinking", block)
        case "text":
            return _words("reasoning" if role == "thought" else "text", "text", block)
    return dict(block)


def _words(kind: str, key: str, block: Block) -> dict[str, Any]:
    """A part with the words, and whatever else the block has: a signature stays as it is."""
    rest = {name: each for name, each in block.items() if name not in ("type", key)}
    return {"type": kind, "content": text_of(block.get(key, "")), **rest}
