"""The tree of a run's spans: the run, its agents and steps, its tool calls and its turns."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tracklog.formats.exporters import (
    ExportRecord,
    ExportRun,
    Options,
    as_text,
    call_name,
    carried,
    fact_fields,
    nanoseconds,
    span_of,
)
from tracklog.formats.exporters._turns import VOICES, CallCopies
from tracklog.formats.exporters.otel.spans import (
    ERROR,
    INTERNAL,
    OK,
    ExportSpan,
    Facts,
    Values,
    parent_of,
    span_id,
)
from tracklog.formats.exporters.otel.turns import Chats, is_priced
from tracklog.model.fact import Began, Called, Decided, Ended, Fact, Returned, Said, Spent

UNSET_OUTCOMES = ("partial", "escaped")
"""Outcomes that are neither a success nor a failure."""
CONTENT = {"data", "answer", "evidence", "context", "input", "output", "blocks", "task"}
"""Fields that hold content."""
EMPTIED: dict[str, Any] = {"blocks": [], "answer": None}
"""The values that replace required content fields."""
_CALL, _RESPONSE = "gen_ai.tool.call.id", "gen_ai.response.id"


class Bearer(Protocol):
    """A span, or a future span, with the facts it is made from."""

    facts: Facts


class SpansOf:
    """The spans of one run, each returned as soon as it has ended."""

    def __init__(self, run: ExportRun, trace: str, above: str | None, options: Options) -> None:
        self.run, self.trace, self.above = run, trace, above
        self.content = options["content"] == "yes"
        self.newer = options["generation"] == "1.42"
        self.id = run.own[1] if run.own else span_id(run.family, run.id, "run")
        self.agents = tuple(run.summary.get("agents") or ())
        self.wanted = {child.call for child in run.below if child.call}
        self.tools: dict[str, str] = {}
        """The spans of the calls that started a sub-run."""
        self.root: ExportSpan | None = None
        self.ended = False
        self.steps: dict[tuple[str | None, str], ExportSpan] = {}
        self.counts: dict[str, int] = {}
        self.calls = CallCopies(run)
        self.open: dict[str, ExportSpan] = {}
        self.taken = {self.id}
        self.chats = Chats(run, options, self.taken)
        self.judged: dict[str, ExportSpan] = {}
        """Spans that a decision is about, by the names it uses for them."""
        self.held: list[ExportSpan] = []
        """Those spans, held back until the end, to get their verdicts."""
        self.verdicts: list[tuple[str, tuple[int, str, Values]]] = []
        """The verdicts and their subjects."""
        self.done: list[ExportSpan] = []

    @property
    def made_up(self) -> set[str]:
        """Required values that no fact gives."""
        return self.chats.made_up

    def spans(self) -> Iterator[ExportSpan]:
        for entry in self.run.records():
            if entry.superseded:
                continue
            if self.root is None:
                self._begin(entry)
            root = self._whole()
            root.last = entry
            for place, fact in enumerate(entry.facts):
                self._add(entry, place, fact).facts.append(self._carried(entry, fact))
            self.done += self.chats.over(root.trace)
            yield from self._taken()
        if self.root is not None:
            self._end()
            yield from self._taken()
            for about, verdict in self.verdicts:
                self.judged.get(about, self.root).events.append(verdict)
            yield from map(self._sealed, self.held)
            yield self._sealed(self.root)

    def _begin(self, entry: ExportRecord) -> None:
        """The run's own span; where the run was imported from OTLP, its beginning has the id."""
        run, agent = self.run, self.run.opening.get("agent")
        if agent is None and len(self.agents) == 1:
            agent = self.agents[0]
        task = str(run.opening.get("task") or "")
        acts = agent is not None or (self.agents and not run.stepped)
        operation = "invoke_agent" if acts else "invoke_workflow"
        values: Values = {"gen_ai.operation.name": operation}
        name = agent if acts else task if re.fullmatch(r"[\w.:/-]{1,64}", task) else None
        if name:
            values["gen_ai.agent.name" if acts else "gen_ai.workflow.name"] = name
        providers = {spend.provider for spend in run.spends if spend.provider}
        software = run.opening.get("software") or {}
        if acts and not self.newer:
            values["gen_ai.provider.name"] = self.chats.known(
                "gen_ai.provider.name", sorted(providers)
            )
            if software.get("version"):
                values["gen_ai.agent.version"] = str(software["version"])
        values["gen_ai.conversation.id"] = run.root[1]
        keys = ("model", "software", "cwd", "git")
        for key in (*keys, *(("task",) if self.content else ())):
            if run.opening.get(key) is not None:
                values[f"tracklog.{key}"] = as_text(run.opening[key])
        title = f"{operation} {name}" if name else operation
        trace = run.own[0] if run.own else self.trace
        above = self.above or (run.own[2] if run.own else None)
        self.root = ExportSpan(self.id, title, INTERNAL, above, trace, entry, entry, values)
        if self.above is not None and run.parent is not None:
            self.root.links.append((self.trace, self.above))

    def _add(self, entry: ExportRecord, place: int, fact: Fact) -> Bearer:
        """Add a fact; returns the span that holds it."""
        match fact:
            case Began() if self._is_whole(fact):
                return self._whole()  # it exists since the first record
            case Began():
                return self._begin_step(entry, fact)
            case Ended() if self._is_whole(fact):
                self.ended = True
                return self._judge(self._whole(), fact)
            case Ended():
                return self._end_step(entry, fact)
            case Called():
                return self._call(entry, fact)
            case Returned():
                return self._return(entry, fact)
            case Said(role=role) if role in VOICES:
                return self.chats.said(entry, fact, self._above(fact))
            case Said():
                self.chats.add_input(fact)
                return self._enclosing(fact)
            case Spent() if is_priced(entry, place, fact):
                return self.chats.spent(entry, place, fact, self._above(fact))
        return self._note(entry, fact)

    def _carried(self, entry: ExportRecord, fact: Fact) -> dict[str, Any]:
        body = carried(entry, fact)
        if self.content:
            return body
        # Without content, the message or answer is still written, with its content left out.
        emptied = {key: empty for key, empty in EMPTIED.items() if key in body}
        return {key: value for key, value in body.items() if key not in CONTENT} | emptied

    def _whole(self) -> ExportSpan:
        assert self.root is not None
        return self.root

    def _is_whole(self, fact: Began | Ended) -> bool:
        """Whether the run itself began or ended: the lifecycle of a single agent is that of the
        run.
        """
        return fact.what == "run" or (fact.what == "agent" and len(self.agents) < 2)

    def _own(self, entry: ExportRecord) -> tuple[str, str] | None:
        """The ids that a record was imported with, unless another span has them already."""
        own = span_of(entry.names)
        if own is None or own[1] in self.taken:
            return None
        self.taken.add(own[1])
        return own

    def _above(self, fact: Fact) -> str:
        """The id of the innermost open span that a fact belongs to."""
        return self._enclosing(fact).id

    def _enclosing(self, fact: Fact) -> ExportSpan:
        inner, step = None, fact.step
        while step and inner is None:  # a path names the steps around it
            inner = self.steps.get((None, step))
            step = step[: max(step.rfind("."), step.rfind("/"), 0)]
        outer = self.steps.get((fact.agent, "")) if fact.agent is not None else None
        return inner or outer or self._whole()

    def _begin_step(self, entry: ExportRecord, fact: Began) -> ExportSpan:
        agent = fact.agent if fact.what == "agent" else None
        path = f"agent/{agent}" if agent is not None else fact.step or fact.agent or ""
        place = (agent, "") if agent is not None else (None, path)
        if place in self.steps:
            self._close(self.steps.pop(place), entry)
        self.counts[path] = self.counts.get(path, 0) + 1
        key = path if self.counts[path] == 1 else f"{path}#{self.counts[path]}"
        title = f"invoke_agent {agent}" if agent is not None else path or "step"
        above = self._above(fact) if agent is None else self.id
        if (own := self._own(entry)) is not None:
            span = ExportSpan(own[1], title, INTERNAL, parent_of(entry), own[0], entry, entry)
        else:
            made = span_id(self.run.family, self.run.id, "step", key)
            span = ExportSpan(made, title, INTERNAL, above, self._whole().trace, entry, entry)
        if agent is not None:
            span.values |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
        span.values |= _texts(self._values(fact, "what"))
        self.steps[place] = span
        return span

    def _end_step(self, entry: ExportRecord, fact: Ended) -> ExportSpan:
        agent = fact.agent if fact.what == "agent" else None
        place = (agent, "") if agent is not None else (None, fact.step or fact.agent or "")
        span = self.steps.pop(place, None)
        if span is None:
            return self._note(entry, fact)
        self._close(self._judge(span, fact), entry)
        return span

    def _judge(self, span: ExportSpan, fact: Ended | Returned) -> ExportSpan:
        passed = fact.ok if isinstance(fact, Returned) else fact.passed
        outcome = None if isinstance(fact, Returned) else fact.outcome
        if passed is False and outcome not in UNSET_OUTCOMES:
            reason = None if isinstance(fact, Returned) else fact.reason
            span.code = ERROR
            span.message = as_text(fact.error) if fact.error is not None else reason or outcome
            span.values["error.type"] = str(_type_of(fact.error) or outcome or "_OTHER")
        elif passed is True:
            span.code = OK
        span.values |= _texts(self._values(fact, "what call_id output"))
        return span

    def _values(self, fact: Fact, done: str = "") -> Values:
        """The fields of a fact in our own namespace; content only on request."""
        hidden = set(done.split()) | (set() if self.content else CONTENT)
        items = fact_fields(fact).items()
        return {f"tracklog.{name}": value for name, value in items if name not in hidden}

    def _call(self, entry: ExportRecord, fact: Called) -> ExportSpan:
        name = self.calls.called(entry, fact)
        if name is None:
            return self._adopt_call(entry, fact)
        self.chats.called(entry, fact, name, self._above(fact))
        above = self.open.get(fact.parent_call_id or "")
        hangs = above.id if above else self._above(fact)
        made = span_id(self.run.family, self.run.id, "tool", name)
        inside = any(isinstance(each, Said | Spent) for each in entry.facts)
        own = None if inside or self._in_a_turn(entry) else self._own(entry)
        span = ExportSpan(
            own[1] if own else made,
            f"execute_tool {fact.tool}",
            INTERNAL,
            parent_of(entry) if own else hangs,
            own[0] if own else self._whole().trace,
            entry,
            entry,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": str(fact.tool),
                _CALL: name,
            },
        )
        span.values |= _texts(self._values(fact, "tool call_id input"))
        if self.content and fact.input is not None:
            span.values["gen_ai.tool.call.arguments"] = as_text(fact.input)
        self.open[name] = span
        if fact.call_id in self.wanted:
            self.tools[fact.call_id] = span.id
        return span

    def _in_a_turn(self, entry: ExportRecord) -> bool:
        """Whether a model's message contains the call, which then has a span of its own elsewhere."""
        own = span_of(entry.names)
        return own is not None and own[1] in self.taken

    def _adopt_call(self, entry: ExportRecord, fact: Called) -> ExportSpan:
        """A copy of a call; it may have the ids of its span."""
        span = self.open.get(call_name(entry, fact))
        if span is None:
            return self._enclosing(fact)
        if (own := self._own(entry)) is not None:
            span.trace, span.id = own
            span.parent = parent_of(entry) or span.parent
            span.first = entry
            if fact.call_id in self.wanted:
                self.tools[fact.call_id] = span.id
        return span

    def _return(self, entry: ExportRecord, fact: Returned) -> ExportSpan:
        name = self.calls.returned(entry, fact)
        self.chats.returned(fact, name)
        span = None if name is None else self.open.pop(name, None)
        if span is None:
            return self._note(entry, fact)
        self._judge(span, fact)
        if self.content and fact.output is not None:
            span.values["gen_ai.tool.call.result"] = as_text(fact.output)
        self._close(span, entry)
        return span

    def _note(self, entry: ExportRecord, fact: Fact) -> ExportSpan:
        """An event on the span in which a fact happened, for a fact without a span of its own."""
        span = self._enclosing(fact)
        at_ns = nanoseconds(entry.at)
        if not isinstance(fact, Decided) or fact.confidence is not None:
            name = f"tracklog.{type(fact).__name__.lower()}"
            span.events.append((at_ns, name, self._values(fact) | {"tracklog.seq": entry.seq}))
            return span
        values: Values = {"gen_ai.evaluation.name": fact.name or "verdict"}
        if fact.score is not None:
            values["gen_ai.evaluation.score.value"] = float(fact.score)
        if fact.verdict is not None:
            values["gen_ai.evaluation.score.label"] = as_text(fact.verdict)
        if fact.reason is not None:
            values["gen_ai.evaluation.explanation"] = str(fact.reason)
        values |= self._values(fact, "name score verdict reason")
        values["tracklog.seq"] = entry.seq
        verdict = (at_ns, "gen_ai.evaluation.result", values)
        if fact.about is None:
            span.events.append(verdict)
        else:
            self.verdicts.append((fact.about, verdict))
        return span

    def _close(self, span: ExportSpan, entry: ExportRecord) -> None:
        span.last = entry
        self.done.append(span)

    def _taken(self) -> Iterator[ExportSpan]:
        """The spans that have ended, except those that wait for a verdict."""
        done, self.done = self.done, []
        for span in done:
            names = {*span.first.names, *map(span.values.get, (_CALL, _RESPONSE))}
            about = [str(name) for name in names if name in self.run.judged]
            if about:
                self.judged |= dict.fromkeys(about, span)
                self.held.append(span)
            else:
                yield self._sealed(span)

    def _sealed(self, span: ExportSpan) -> ExportSpan:
        """The span with the attributes that every span has."""
        first, last = span.first, span.last
        span.values |= {
            "tracklog.run.id": self.run.id,
            "tracklog.dialect": first.record.dialect,
            "tracklog.seq": [first.seq, last.seq],
        }
        span.values.setdefault("tracklog.fidelity", _fidelity(first))
        if nanoseconds(last.at) < nanoseconds(first.at):
            span.values["tracklog.received"] = [first.record.received, last.record.received]
        if first.event is not None and first.event.at is None:
            span.values["tracklog.clock"] = "received"
        span.values["tracklog.facts"] = list(map(as_text, span.facts))
        return span

    def _end(self) -> None:
        root = self._whole()
        last = root.last
        self.done += self.chats.over(root.trace, all=True)
        # A message that nobody answered was still sent to the run.
        root.values |= self.chats.given(self.chats.inputs)
        for span in [*self.open.values(), *self.steps.values()]:
            if span.name.startswith("execute_tool"):
                span.values["tracklog.dangling"] = True
            else:
                span.values["tracklog.unfinished"] = True
            self._close(span, last)
        if not (self.ended or self.run.summary.get("ended")):
            root.values["tracklog.unfinished"] = True
        for finding in self.run.findings:
            values = {"tracklog.label": finding.name, "tracklog.text": finding.message}
            root.events.append((nanoseconds(last.at), "tracklog.finding", values))


def _texts(values: Values) -> Values:
    """Values for a span: anything but a scalar is JSON text; on an event it is unchanged."""
    return {
        name: as_text(value) if isinstance(value, Mapping | list | tuple) else value
        for name, value in values.items()
    }


def _fidelity(entry: ExportRecord) -> str:
    return next((str(fact.fidelity) for fact in entry.facts), "observed")


def _type_of(error: Any) -> Any:
    return error.get("code") or error.get("type") if isinstance(error, Mapping) else None
