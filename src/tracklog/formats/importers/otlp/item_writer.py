"""Map one span or log record: number its facts, and skip facts that are known."""

import binascii
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from tracklog.dialects import tracklog as native
from tracklog.formats.importers import LineWriter
from tracklog.formats.importers._fact_bodies import call_fact, message_fact, result_fact
from tracklog.formats.importers._large_values import MEDIA
from tracklog.formats.importers.otlp.attrs import Attrs, Used, text
from tracklog.formats.importers.otlp.genai import parse
from tracklog.formats.importers.otlp.joins import (
    LOG,
    MCP,
    MCP_CALL,
    MESSAGE,
    NAMED,
    SPAN,
    input_key,
)
from tracklog.formats.importers.otlp.memory import (
    CALLED,
    HISTORY,
    RETURNED,
    KnownFacts,
    digest,
)
from tracklog.formats.importers.otlp.messages import ROLES, ModelMessage
from tracklog.formats.importers.otlp.view import LogView, SpanView
from tracklog.model.event import Body
from tracklog.model.fact import Fact, Fidelity, Linked, Noted

NOTHING = Used(frozenset())


class CallIds(NamedTuple):
    """The id of a tool call, that of an earlier report of it, and whether the item gave none."""

    id: str
    other: str | None
    synthetic: bool = False


class ItemWriter:
    """The facts of one item; a fact that is skipped keeps its number."""

    record: str | None = None
    """The item's own key."""
    corrects = False
    """Other content under the same key does not count any more: everything is written again."""
    only: frozenset[str] | None = None
    """Where the item is written again under another agent: the ids of its first lines."""
    n = 0
    _k = 0
    _head = b""
    """The beginning of what the ids of its lines are made from."""

    def __init__(
        self, out: LineWriter, past: KnownFacts, view: SpanView | LogView, run: str
    ) -> None:
        self.out, self.past, self.view, self.run = out, past, view, run
        self.content = content = view.item.raw()
        """The item, as it is stored."""
        self.stored, _, redacted = out.lift.store(content, "application/json")
        """The hash of the stored item."""
        self.raw = sha256(content).hexdigest() if redacted else self.stored
        """That of the item itself: another one if something was redacted."""
        self.lifted = out.lift.value
        """A copy of a value with every long part moved to a blob."""
        self.who: dict[str, str] = {}
        """The agent and the step, where they are known."""
        self.written: list[str] = []
        """The ids of the lines that were written."""
        self._unnamed: tuple[dict[str, int], list[str]] | None = None
        """Calls without an id: how many of each, and those that did not return, in order."""
        self._origin: dict[str, Any] = {}
        self._noted: dict[str, Any] | None = None
        """The origin under which the item is known to have been written."""

    def is_known(self, record: str | None) -> bool:
        """Whether the same item, byte for byte, was mapped before."""
        return record is not None and self.stored in self.past.records.get(record, ())

    def begin(
        self,
        *,
        record: str | None,
        place: dict[str, Any],
        bare: bool,
        copy: bool = False,
        generation: str | None = None,
        unnamed: bool = False,
        speaker: str | None = None,
    ) -> None:
        """Make the item, which is stored as a blob, the origin of the facts.

        A `copy` announces the record that it stands for, and corrects nothing. An `unnamed` item
        may get an agent later; `speaker` is the agent that it got.
        """
        self.record = record
        if bare:
            self._k = self.out.equals.get(self.raw[:16], 0)
            self.out.equals[self.raw[:16]] = self._k + 1
        origin: dict[str, Any] = {
            "writer": self.out.writer,
            "fidelity": "reported",
            "mapping": self.out.mapping,
            **place,
            "raw": self.stored,
        }
        if record:
            origin["record"] = record
            self.corrects = bool(self.past.records.get(record))
        if copy:
            origin["pending"] = True
        if generation:
            origin["generation"] = generation
        if unnamed:
            origin["unnamed"] = True
        if speaker is not None:
            origin["speaker"] = speaker
            # Other ids than those of the first lines, and the same ones each time.
            self._k = int.from_bytes(sha256(speaker.encode()).digest()[:4], "big") + (1 << 32)
        self._origin = origin
        self._name_lines()

    def _name_lines(self) -> None:
        out = self.out
        head = f"{out.writer}\n{out.mapping}\n{self.run}\n{self.raw}\n{self._k}\n"
        self._head = head.encode("utf-8", "replace")

    def write(
        self,
        fact: Fact | Body,
        *,
        at: str | None,
        new: bool = True,
        known: bool = True,
        clock: str | None = None,
        cause: str | None = None,
        extra: dict[str, Any] | None = None,
        fidelity: Fidelity | None = None,
        digest: str | None = None,
    ) -> None:
        """Write a fact, unless `new` is false because it was written before.

        In both cases the next fact has the next number. A fact may be given as a body. `digest` is
        that of the fact, where it was computed.
        """
        place, self.n = self.n, self.n + 1
        out, run = self.out, self.run
        if self.only is not None:
            first = native.line_id(out.writer, out.mapping, run, self.content, 0, place)
            if first not in self.only:
                return
        elif not known or not (new or self.corrects):
            return
        id = sha256(b"%b%d" % (self._head, place)).hexdigest()[:32]
        fields: Body = fact if type(fact) is dict else native.body_of(fact)  # type: ignore[arg-type]  # as it says
        kind = fields["fact"]
        if at is None:
            out.timeless.add(run)
            body: Body = {"id": id, "run": run, "fact": kind, **self.who, **fields}
        else:
            out.timed.add(run)
            body = {"id": id, "run": run, "at": at, "fact": kind, **self.who, **fields}
        if cause is None:
            cause = self.view.cause
        if cause:
            body["cause"] = cause
        if extra:
            body["extra"] = extra
        origin = self._origin
        if self._noted is not origin:
            self._noted = origin
            if self.only is None:
                self.past.keep(origin)
        if fidelity is not None:
            origin = {**origin, "fidelity": fidelity}
        if clock is not None and at:
            origin = {**origin, "clock": clock}
        body["origin"] = origin
        out.add(run, body)
        self.written.append(id)
        if self.only is None:  # else it is known
            self.past.remember(body, origin, extra, digest, cause, at)

    def skip(self) -> None:
        """Count a fact that is not written."""
        self.n += 1

    def name(self, agent: str | None, step: str | None) -> None:
        """The agent and the step, as far as they are known."""
        self.who = {} if agent is None else {"agent": agent}
        if step is not None:
            self.who["step"] = step

    @contextmanager
    def under(self, record: str) -> Iterator[None]:
        """Use this key at the source for the facts inside, instead of the item's."""
        before = self._origin
        self._origin = {**before, "record": record}
        try:
            yield
        finally:
            self._origin = before

    def line_id(self) -> str:
        """The id of the next line."""
        return native.line_id(
            self.out.writer, self.out.mapping, self.run, self.content, self._k, self.n
        )

    def find(self, name: str, words: str, at: str | None, **more: Any) -> None:
        """Write a finding."""
        fact = Noted(label="finding", kind=name, text=words, data={"name": name, **more})
        self.write(fact, at=at)

    def within(self, run: str, past: KnownFacts) -> "ItemWriter":
        """The facts of the same item for another run."""
        other = copy(self)
        other.run, other.past, other.who, other._noted = run, past, {}, None
        other._name_lines()
        return other

    def write_beside(
        self, fact: Fact, *, at: str | None, new: bool = True, cause: str | None = None
    ) -> None:
        """Write a fact that does not follow from this item alone; its number is derived from its
        content.
        """
        if not new and self.only is None:
            return
        fields = orjson.dumps(native.body_of(fact), option=orjson.OPT_SORT_KEYS, default=str)
        before, self.n = self.n, int.from_bytes(sha256(fields).digest()[:4], "big") + (1 << 16)
        self.write(fact, at=at, cause=cause)
        self.n = before

    def alias(self, system: str, name: str, at: str | None) -> None:
        """Write another name of the run, once."""
        if self.corrects or self.past.is_new(f"alias {system} {name}"):
            self.write(Linked(kind="alias", system=system, alias=name), at=at)
        else:
            self.n += 1

    def parsed(self, value: Any) -> Any:
        """The value of a text that is JSON, or any value, with every long part moved to a blob."""
        return self.lifted_from(value, parse(value))

    def lifted_from(self, value: Any, found: Any) -> Any:
        """What was found in a value, with every long part moved to a blob."""
        # Nothing in a text is longer than the text.
        return found if isinstance(value, str) and len(value) <= MEDIA else self.lifted(found)

    def rest(self, used: Used = NOTHING, attrs: Attrs | None = None) -> dict[str, Any]:
        """The attributes that are not mapped; those about persons are left out."""
        attrs = self.view.attrs if attrs is None else attrs
        found = {
            name: self.lifted(value)
            for name in attrs.names.others(used)
            if (value := attrs[name]) is not None
        }
        if "user.id" in attrs and "openinference.span.kind" in attrs:
            found["user.id"] = attrs["user.id"]  # in that case it is a name chosen by a program
        return found

    def input(self, messages: list[ModelMessage], at: str | None) -> str | None:
        """Write what is new in the history that a model was given; returns the digest of its last
        fact.
        """
        pairs = [(message, fact) for message in messages for fact in self.facts(message)]
        digests = [digest(fact) for _, fact in pairs]
        news = self.past.news(digests)
        chain = sha256()
        for (message, fact), known, new in zip(pairs, digests, news, strict=True):
            chain.update(known.encode())
            beside = None
            if fact["fact"] == "Said":
                fact["message_id"], beside = f"{HISTORY}{chain.hexdigest()[:24]}", message.beside
            else:
                new = new and self.is_new_call(fact)  # noqa: PLW2901
                fact = self.joined(fact, new=new)  # noqa: PLW2901
            # Its time is unknown: not later than the begin of the call.
            self.write(fact, at=at, clock="request", new=new, extra=beside, digest=known)
        return digests[-1] if digests else None

    def output(
        self,
        messages: list[ModelMessage],
        key: str,
        at: str | None,
        last: str | None = None,
        model: str | None = None,
        reasons: list[str] | None = None,
        clock: str | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """Write the output of a model; `key` names the output, `last` is the last input."""
        reasons = reasons or []
        for place, message in enumerate(messages):
            reason = message.finish or (reasons[place] if place < len(reasons) else None)
            id = f"{key}/{place}" if place else key
            for fact in self.facts(message, "assistant"):
                new, beside, known = True, extra, digest(fact)
                if fact["fact"] == "Said":
                    new = not (id in self.past.messages or self.answer(place) in self.past.messages)
                    new = new and not self.past.was_input_after(last, known)
                    more = {"message_id": id, "model": model, "stop_reason": reason}
                    fact |= {key: each for key, each in more.items() if each is not None}
                    beside = {**(extra or {}), **message.beside}
                else:
                    new, beside = self.is_new_call(fact), {**(extra or {}), "message_id": id}
                    fact = self.joined(fact, new=new)  # noqa: PLW2901
                self.write(fact, at=at, clock=clock, new=new, extra=beside, digest=known)
                extra = None
            self.past.messages |= {id: 1, self.answer(place): 1}

    def answer(self, place: int = 0) -> str:
        """The key of an output, whether the span or an event in it has it."""
        of = self.record if isinstance(self.view, SpanView) else self.view.cause
        return f"{of or self.raw[:32]}/{place}" if place else of or self.raw[:32]

    def is_answered(self, key: str) -> bool:
        """Whether the output of a model was written, from the span or from an event in it."""
        messages = self.past.messages
        return key in messages or self.answer() in messages

    def ids_of(
        self, tool: str, given: Any, id: str | None, made_up: str, hint: str | None = None
    ) -> CallIds:
        """The ids of the call that the item itself reports.

        `id` is what the item calls it, `hint` an id that is found elsewhere in it, and `made_up`
        one for a call that has no other report yet.
        """
        joins = self.past.joins
        if id is not None:
            kind = MCP if id.startswith(MCP_CALL) else NAMED
            return CallIds(id, joins.other(kind, id, tool, given))
        is_span = isinstance(self.view, SpanView)
        key = (self.record or "") if is_span else self.stored[:16]
        if key in joins.items:
            return CallIds(joins.items[key], None, synthetic=True)
        if hint is not None and hint not in joins.calls:
            return CallIds(hint, None, synthetic=True)
        found = joins.find(SPAN if is_span else LOG, tool, given, hint)
        return CallIds(found or made_up, None, synthetic=True)

    def joined(self, fact: Body, *, new: bool) -> Body:
        """A call in a message, with the id under which another item reported it before."""
        if fact["fact"] != "Called" or not (new or self.only is not None):
            return fact
        tool, id, given, synthetic = (
            fact["tool"],
            fact["call_id"],
            fact.get("input"),
            "synthetic_id" in fact,
        )
        other = self.past.joins.other(MESSAGE if synthetic else NAMED, id, tool, given)
        if not other:
            return fact
        by_provider = "by_provider" in fact
        return call_fact(tool, id, given, other, by_provider=by_provider, synthetic_id=synthetic)

    def again(
        self,
        messages: list[ModelMessage],
        at: str | None,
        default: str,
        clock: str | None = "request",
    ) -> None:
        """Of repeated messages, write only the new ones."""
        pairs = [(message, fact) for message in messages for fact in self.facts(message, default)]
        for message, fact in pairs:
            known = digest(fact)
            new = known not in self.past.facts
            beside = None
            if fact["fact"] == "Said":
                history = sha256(f"{self.record} {known}".encode()).hexdigest()[:24]
                fact["message_id"], beside = f"{HISTORY}{history}", message.beside
            else:
                new = new and self.is_new_call(fact)
                fact = self.joined(fact, new=new)  # noqa: PLW2901
            self.write(fact, at=at, clock=clock, new=new, extra=beside, digest=known)

    def is_new_call(self, fact: Body) -> bool:
        mask = CALLED if fact["fact"] == "Called" else RETURNED
        return not self.past.calls.get(fact["call_id"], 0) & mask

    def facts(self, message: ModelMessage, default: str = "user") -> Iterator[Body]:
        """The facts of a message: first its text, then its calls and results."""
        blocks: list[dict[str, Any]] = []
        others: list[Body] = []
        for place, part in enumerate(message.parts):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "tool_call" or kind == "server_tool_call":
                others.append(self._called(part, kind))
            elif kind == "tool_call_response" or kind == "server_tool_call_response":
                others.append(self._returned(part, place))
            elif (block := self._block(part, kind)) is not None:
                blocks.append(block)
        if blocks or not others:
            role = message.role.lower() if message.role else default
            yield message_fact(ROLES.get(role, "note"), blocks)
        yield from others

    def _block(self, part: Any, kind: Any) -> Body | None:
        """A part of a message that is no call; None for an empty text."""
        content = part.get("content") if isinstance(part, dict) else None
        match kind:
            case "text" if isinstance(content, str):
                return {"type": "text", "text": self.lifted(content)} if content else None
            case "reasoning" if isinstance(content, str):
                more = {key: self.lifted(each) for key, each in part.items()
                        if key not in ("type", "content", "thinking", "text")}  # fmt: skip
                thought = {"thinking": self.lifted(content)} if content or not more else {}
                return {"type": "thinking", **thought, **more}
            case "stream" if "chunk" in part:
                return dict(self.lifted(part))  # a block of our own
            case "blob" if isinstance(content, str):
                return _stream("blob", {**part, "content": self._bytes(part, content)})
        return _stream(text(kind) or "part", self.lifted(part))

    def _called(self, part: dict[str, Any], kind: str) -> Body:
        given = part.get("arguments")
        if kind == "server_tool_call":
            given = part.get("server_tool_call", given)
        id = text(part.get("id"))
        tool, put = text(part.get("name")) or "unknown", self.parsed(given)
        return call_fact(
            tool,
            id or self._made_up(tool, put),
            put,
            by_provider=kind == "server_tool_call",
            synthetic_id=id is None,
        )

    def _made_up(self, tool: str, put: Any) -> str:
        """The id of a call that has none: the same whenever its history is repeated."""
        asked = input_key(tool, put)
        seen, waiting = self._unnamed = self._unnamed or ({}, [])
        seen[asked] = seen.get(asked, 0) + 1
        waiting.append(f"{asked}/{seen[asked]}")
        return waiting[-1]

    def _returned(self, part: dict[str, Any], place: int) -> Body:
        given = next((part[key] for key in _RESULTS if part.get(key) is not None), None)
        id = text(part.get("id"))
        waiting = self._unnamed[1] if self._unnamed and not id else None
        made_up = waiting.pop(0) if waiting else f"{self.raw[:16]}/{place}"
        return result_fact(
            id or made_up,
            output=self.lifted(given),
            synthetic_id=id is None,
        )

    def _bytes(self, part: dict[str, Any], content: str) -> Any:
        """The bytes of a part, moved to a blob whatever their size."""
        media = text(part.get("mime_type")) or "application/octet-stream"
        try:
            return self.out.lift.blob(b64decode(content, validate=True), media)
        except (binascii.Error, ValueError):
            return self.lifted(content)


_RESULTS = ("response", "result", "server_tool_call_response")


def _stream(kind: str, chunk: Any) -> dict[str, Any]:
    return {"type": "stream", "provider_type": kind, "chunk": chunk}
