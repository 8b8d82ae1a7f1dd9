"""Known facts, so that nothing is written twice: bounded, and all of it JSON values.

It is a cache: the facts of a run can be read again from the run's own lines.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

import orjson

from tracklog.formats.importers import count
from tracklog.formats.importers.otlp.joins import (
    HOOK,
    LOG,
    MCP,
    MCP_CALL,
    MESSAGE,
    NAMED,
    SPAN,
    Joins,
)
from tracklog.formats.importers.otlp.unnamed import Fetch, UnnamedSpans

RUNS = 1000
TRACES = 100_000
SPANS = 100_000
FACTS = 20_000
"""The limits: runs, traces, spans, and facts of one run."""

HOOKS = "hooks"
"""The writer of lines that an agent's hooks reported: of those, only the calls are joined."""

DEPTH = 100
"""How many spans above a span are asked for its agent."""

Recall = Callable[[str], Iterable[Mapping[str, Any]]]
"""The lines of a run, parsed, in order."""

_SPAN = re.compile("([0-9a-f]{32})/[0-9a-f]{16}")
CALLED, RETURNED = 1, 2
_SORTED = orjson.OPT_SORT_KEYS
HISTORY = "in-"
"""The prefix of the id of a message that was the input of a call."""


def digest(body: Mapping[str, Any]) -> str:
    """A digest by which a repeated fact of a conversation is recognised."""
    kind = body["fact"]
    is_message = kind == "Said"
    parts = [kind, body["role"], body["blocks"]] if is_message else [kind, body["call_id"]]
    return sha256(orjson.dumps(parts, str, _SORTED)).hexdigest()[:16]


def _report(
    line: Mapping[str, Any], origin: Mapping[str, Any], extra: Mapping[str, Any]
) -> tuple[str, str]:
    """The kind of a report of a tool call, and its key."""
    id: str = line["call_id"]
    record = origin.get("record")
    if id.startswith(MCP_CALL):
        return MCP, id
    if not line.get("synthetic_id"):
        return NAMED, id
    if origin.get("clock") == "request" or "message_id" in extra:
        return MESSAGE, id
    if isinstance(record, str) and _SPAN.fullmatch(record):
        return SPAN, record
    # Of log records, only those with messages of a model call have a generation.
    return (MESSAGE, id) if "generation" in origin else (LOG, origin.get("raw", "")[:16])


class Wrapped:
    """Model calls of which a span and the span above it both report the use.

    Two instrumentations of one program do so: the spans have the same model and the same counts.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self._spans: dict[str, list[Any]] = state.setdefault("spans", {})
        """By span: the key of its spend, its model, its counts, whether it is one of a pair."""
        self._below: dict[str, list[str]] = state.setdefault("below", {})
        self.tables = (self._spans, self._below)

    def key(
        self, record: str, above: str | None, model: str | None, amounts: list[int]
    ) -> str | None:
        """The key of the same spend, as the span above or below reported it."""
        if record in self._spans:
            return str(self._spans[record][0])
        for near in self._near(record, above):
            found = self._spans[near]
            if not found[3] and found[2] == amounts and _same_model(found[1], model):
                return str(found[0])
        return None

    def _near(self, record: str, above: str | None) -> list[str]:
        """The span above and those below, as far as they reported something."""
        near = [above, *self._below[record]] if record in self._below else [above]
        return [each for each in near if each in self._spans]

    def add(
        self, record: str, above: str | None, key: str, model: str | None, amounts: list[int]
    ) -> None:
        """Remember what a span reported."""
        if record in self._spans or not any(amounts):
            return
        paired = False
        for near in self._near(record, above):
            pair = self._spans[near]
            if pair[0] == key:
                paired = pair[3] = True
                break
        self._spans[record] = [key, model, amounts, paired]
        if above:
            self._below.setdefault(above, []).append(record)


class Ends:
    """How a run and its agents ended.

    A program may end well although its agent failed: openai-agents reports so when the model
    cannot be reached. A run whose last agent failed, with no word of a model after that, failed.
    smolagents reports so when an agent had no step left: it then asks the model for an answer in
    words, and an agent that is done calls the tool `final_answer`.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state
        """`run` and `agent`: when the last one ended, and whether it failed; `words` and `text`: when
        a model last said something, and its hash; `output` and `answer`: the hashes of what an agent
        of smolagents and its tool returned.
        """

    def add(self, line: Mapping[str, Any], at: str | None) -> None:
        """Remember the end of the run or of an agent."""
        what = line["what"]
        if at is None or what not in ("run", "agent"):
            return
        known = self._state.get(what)
        if known is None or _time(at) >= _time(known[0]):
            self._state[what] = [at, line.get("passed") is False]

    def message(self, blocks: Iterable[Mapping[str, Any]], at: str | None) -> None:
        """Remember when a model last said something."""
        texts = [word for block in blocks if isinstance(word := block.get("text"), str) and word]
        if not at or not (texts or any(block.get("text") for block in blocks)):
            return
        known = self._state.get("words")
        if known is None or _time(at) > _time(known):
            self._state["words"], self._state["text"] = at, _hash("".join(texts))

    def answered(self, output: object) -> None:
        """Remember the answer that an agent gave by the tool of smolagents."""
        self._state["answer"] = _hash(str(output))

    def returned(self, output: object) -> None:
        """Remember what an agent of smolagents returned."""
        self._state["output"] = _hash(str(output))

    @property
    def out_of_steps(self) -> bool:
        """Whether an agent of smolagents was stopped."""
        output = self._state.get("output")
        return output is not None and output == self._state.get("text") != self._state.get("answer")

    @property
    def agent_failed(self) -> bool:
        """Whether the last agent failed, and nothing was said after that."""
        at, failed = self._state.get("agent", ("", False))
        if failed is not True:
            return False
        words = self._state.get("words")
        return words is None or _time(words) < _time(at)

    @property
    def late(self) -> str | None:
        """When the run ended well, where it turned out later that its agent failed."""
        run = self._state.get("run")
        if run is None or run[1] or not (self.agent_failed or self.out_of_steps):
            return None
        return str(run[0])


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _time(at: str) -> str:
    """A time in a form that sorts, however fine it is."""
    return at.removesuffix("Z")


def _same_model(one: str | None, other: str | None) -> bool:
    """Whether two names are of one model; one may have the date of its release."""
    if one is None or other is None:
        return one is other
    return one == other or one.startswith(f"{other}-") or other.startswith(f"{one}-")


class KnownFacts:
    """The known facts of one run."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.facts: list[str] = state.setdefault("said", [])
        """The digests of all messages, calls and returns, in order."""
        self._often = dict(Counter(self.facts))
        self.inputs: dict[str, int] = state.setdefault("heard", {})
        """Those that were the input of a call."""
        self.messages: dict[str, int] = state.setdefault("messages", {})
        self.calls: dict[str, int] = state.setdefault("calls", {})
        """By id: CALLED and RETURNED."""
        self.joins = Joins(state.setdefault("joins", {}))
        self.names: dict[str, int] = state.setdefault("names", {})
        """The aliases, and other facts that are written once."""
        self.records: dict[str, list[str]] = state.setdefault("records", {})
        """The hashes of all contents under a key of the source."""
        self.ends = Ends(state.setdefault("ends", {}))
        self.wrapped = Wrapped(state.setdefault("wrapped", {}))
        self.spends: dict[str, list[Any]] = state.setdefault("spends", {})
        """By key: the trace, and the tokens in and out."""
        self._remembered = 0

    def keep(self, origin: Mapping[str, Any]) -> None:
        """Remember the content of a record."""
        record, raw = origin.get("record"), origin.get("raw")
        if record is not None and raw is not None:
            contents = self.records.setdefault(record, [])
            if raw not in contents:
                contents.append(raw)

    def remember(
        self,
        body: Mapping[str, Any],
        origin: Mapping[str, Any],
        extra: Mapping[str, Any] | None = None,
        known: str | None = None,
        cause: str | None = None,
        at: str | None = None,
    ) -> None:
        """Remember a line: its fact, and its other keys.

        `known` is its digest, where it was computed, and `cause` the record of the span above;
        `at` is its time.
        """
        match body["fact"]:
            case "Called":
                self._exchanged(body, extra, known, CALLED)
                self.joins.add(*_report(body, origin, extra or {}), body)
            case "Returned":
                self._exchanged(body, extra, known, RETURNED)
                if body.get("tool") == "final_answer":
                    self.ends.answered(body.get("output"))
            case "Said":
                self._conversed(known or digest(body))
                if id := body.get("message_id"):
                    self.messages[id] = 1
                    if id.startswith(HISTORY):
                        self.inputs[self.facts[-1]] = 1
                        if len(self.inputs) > FACTS:
                            _trim(self.inputs, FACTS)
                if body["role"] == "assistant":
                    self.ends.message(body["blocks"], at)
            case "Spent":
                self._spent(body, origin.get("record"), cause)
            case "Linked" if body["kind"] == "alias":
                self.names[f"alias {body['system']} {body['alias']}"] = 1
            case "Linked":
                self.names[f"{body['kind']} {body.get('child') or body.get('parent')}"] = 1
            case "Ended":
                self.ends.add(body, at)
            case "Noted":
                self.names[f"{body['label']} {body.get('kind')}"] = 1
        self._remembered += 1
        if self._remembered % 100 == 0:
            for state in (self.messages, self.calls, self.names):
                _trim(state, FACTS)
            for more in (self.records, self.spends, *self.wrapped.tables):
                _trim(more, FACTS)
            self.joins.trim(_trim, FACTS)

    def _exchanged(
        self, body: Mapping[str, Any], extra: Mapping[str, Any] | None, known: str | None, end: int
    ) -> None:
        """Remember one end of a tool call."""
        call = body["call_id"]
        self._conversed(known or digest(body))
        self.calls[call] = self.calls.get(call, 0) | end
        if extra and (id := extra.get("message_id")):
            self.messages[id] = 1

    def _spent(self, body: Mapping[str, Any], record: str | None, cause: str | None) -> None:
        usage = body.get("usage") or {}
        trace = record.partition("/")[0] if record else ""
        amounts = [count(usage.get("input_tokens")) or 0, count(usage.get("output_tokens")) or 0]
        self.spends[body["key"]] = [trace, *amounts]
        if record is not None:
            self.wrapped.add(record, cause, body["key"], body.get("model"), amounts)

    def _conversed(self, known: str) -> None:
        """Remember the next fact of the conversation by its digest."""
        self.facts.append(known)
        self._often[known] = self._often.get(known, 0) + 1
        if len(self.facts) > FACTS:
            del self.facts[: FACTS // 2]
            self._often = dict(Counter(self.facts))

    def remember_hook(self, body: Mapping[str, Any]) -> None:
        """Remember a line that a hook reported: a call, with which other reports of it are joined."""
        if body["fact"] == "Called":
            self.joins.add(HOOK if body.get("synthetic_id") else NAMED, body["call_id"], body)

    def find_call(self, tool: str, given: Any) -> str | None:
        """The id of a call that no hook has reported yet."""
        return self.joins.find(HOOK, tool, given, None)

    def news(self, facts: list[str]) -> list[bool]:
        """Of a history that is sent again and again, the new part.

        The messages after the end of the known facts are new. Where the history does not contain
        that end, a message is new if it occurs more often than it is known.
        """
        start, end = self._overlap(facts)
        seen: dict[str, int] = {}
        found = []
        for place, each in enumerate(facts):
            seen[each] = seen.get(each, 0) + 1
            if end and place >= start:
                found.append(place >= end)
            else:
                found.append(seen[each] > self._often.get(each, 0))
        return found

    def _overlap(self, facts: list[str]) -> tuple[int, int]:
        """The position of the end of the known facts in a history; the longest match."""
        if not self.facts:
            return 0, 0
        whole = window = (0, 0)
        for place in range(len(facts)):
            if facts[place] != self.facts[-1]:
                continue
            size = 0
            while (
                size <= place
                and size < len(self.facts)
                and (facts[place - size] == self.facts[-1 - size])
            ):
                size += 1
            start = place - size + 1
            # A window on a history may begin anywhere, after a system message of its own.
            if start == 0:
                whole = (start, place + 1)
            elif start == 1 and size > 1:
                window = (start, place + 1)
        return whole if whole[1] else window

    def was_input_after(self, last: str | None, facts: str) -> bool:
        """Whether an answer was written before, as part of the history of a later call."""
        if facts not in self.inputs:
            return False
        pairs = zip(self.facts, self.facts[1:], strict=False)
        return last is None or any(pair == (last, facts) for pair in pairs)

    def is_new(self, name: str) -> bool:
        """Whether a fact that is written once is new."""
        return name not in self.names

    def has_spent(self, amounts: list[int], prefix: str) -> bool:
        """Whether a spend has these counts whose key does not begin so."""
        return any(
            row[1:] == amounts for key, row in self.spends.items() if not key.startswith(prefix)
        )

    def total(self, trace: str) -> tuple[int, int]:
        """The known tokens, in and out, of a trace."""
        rows = [row for row in self.spends.values() if row[0] == trace]
        return sum(row[1] for row in rows), sum(row[2] for row in rows)


class Memory:
    """The known facts of all recent runs."""

    def __init__(
        self,
        state: dict[str, Any] | None = None,
        recall: Recall | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        state = {} if state is None else state
        self.fetch = fetch
        self.traces: dict[str, str] = state.setdefault("traces", {})
        """The run of a trace: the first one that was named for it."""
        self.spans: dict[str, list[Any]] = state.setdefault("spans", {})
        """The run of a span, and its tool call."""
        self.waiting: dict[str, list[str]] = state.setdefault("waiting", {})
        """The runs of spans whose parent did not arrive yet, by that parent."""
        self.parents: dict[str, list[str]] = state.setdefault("parents", {})
        """The record of the span above each span, and the agent that the span itself names."""
        self.unnamed = UnnamedSpans(state.setdefault("unnamed", {}))
        self._runs: dict[str, dict[str, Any]] = state.setdefault("runs", {})
        self._recall = recall
        self._pasts: dict[str, KnownFacts] = {}
        self._newest: str | None = None
        """The run that was asked for last."""

    def past(self, run: str) -> KnownFacts:
        """The known facts of a run; read from its lines when they are not in memory."""
        if run == self._newest:
            return self._pasts[run]
        if run not in self._pasts:
            past = KnownFacts(self._runs.setdefault(run, {}))
            if self._recall is not None:
                for body in self._recall(run):
                    if body["origin"]["writer"] == HOOKS:
                        past.remember_hook(body)
                        continue
                    if "speaker" in body["origin"]:
                        continue  # it repeats a known fact
                    past.keep(body["origin"])
                    above, at = body.get("cause"), body.get("at")
                    past.remember(body, body["origin"], body.get("extra"), cause=above, at=at)
            self._pasts[run] = past
        # The least recently used is dropped first.
        self._runs[run] = self._runs.pop(run)
        if len(self._runs) > RUNS:
            self.forget(next(iter(self._runs)))
        self._newest = run
        return self._pasts[run]

    def forget(self, run: str) -> None:
        """Forget a run, because its lines may not have been stored."""
        self._runs.pop(run, None)
        self._pasts.pop(run, None)
        self._newest = None

    def bind(self, trace: str, run: str) -> str:
        """The run of a trace: the first one that was named for it."""
        _trim(self.traces, TRACES)
        return self.traces.setdefault(trace, run)

    def remember(self, body: Mapping[str, Any]) -> None:
        """Remember from any line the run of its trace."""
        record = body["origin"].get("record")
        if isinstance(record, str) and (found := _SPAN.fullmatch(record)):
            self.bind(found[1], body["run"])
            self.place(record, body["run"], body.get("call_id"))
            self.waiting.pop(record, None)
            cause = body.get("cause")
            if cause and cause not in self.spans:
                self.wait(cause, body["run"])
            if cause != record:
                # An agent that is inherited is that of the span above, too.
                agent = "" if "unnamed" in body["origin"] else body.get("agent", "")
                self.parents[record] = [cause or "", agent]
            self.unnamed.remember(record, body)

    def place(self, record: str, run: str, call: str | None) -> None:
        """Remember the run of a span."""
        if call is not None or record not in self.spans:
            self.spans[record] = [run, call]
            if len(self.spans) > SPANS:
                _trim(self.spans, SPANS)

    def nest(self, record: str, above: str | None, agent: str | None) -> None:
        """Remember the span above a span, and the agent that it names itself."""
        self.parents[record] = [above or "", agent or ""]
        if len(self.parents) > SPANS:
            _trim(self.parents, SPANS)

    def agent_above(self, record: str) -> tuple[str | None, str | None]:
        """The agent that the nearest span above names, as far as is known.

        Where there is none, also the first span above that did not arrive yet.
        """
        for _ in range(DEPTH):
            known = self.parents.get(record)
            if known is None:
                return None, record
            above, agent = known
            if agent or not above:
                return agent or None, None
            record = above
        return None, None

    def wait(self, parent: str, run: str) -> None:
        """Remember that a parent did not arrive yet."""
        runs = self.waiting.setdefault(parent, [])
        if run not in runs:
            runs.append(run)
            _trim(self.waiting, SPANS)


def _trim(state: dict[str, Any], most: int) -> None:
    """Drop the oldest entries."""
    if len(state) > most:
        for key in list(state)[: len(state) - most // 2]:
            del state[key]
