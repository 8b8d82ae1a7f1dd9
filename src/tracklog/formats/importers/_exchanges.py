"""Bodies of an API: requests, responses, both together, and the events of streamed responses.

A request repeats the complete conversation: only its new messages are mapped. The run is the
conversation that the API names, else the first response of the chain.
"""

from abc import abstractmethod
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import HEAD, Raw, Reader, remember, utc_time, word
from tracklog.formats.importers._block_facts import block_facts
from tracklog.formats.providers import ReplyBuilder, obj, provider
from tracklog.model.fact import Began, Fact, Linked, Noted, Said, Spent

Body = dict[str, Any]
CHAINS = 64
"""How many conversations of one file are remembered."""
MOST_PRINTS = 1 << 12
"""How many messages of a conversation are remembered, where each response names the one before."""
UNFINISHED = 1_000_000
"""The first position for facts of an incomplete stream; the complete stream uses others."""


class Chain:
    """One conversation: the hashes of the messages that were mapped."""

    def __init__(self, state: Body) -> None:
        self.state = state
        self.run: str = state["run"]
        self.prints: list[str] = state["heard"]


def fingerprint(*parts: Any) -> str:
    """A short hash of the content of a message."""
    return sha256(orjson.dumps(parts, default=str)).hexdigest()[:16]


def reply_of(name: str, bodies: Iterable[Body]) -> ReplyBuilder:
    """The reply that a provider's reader makes from some objects."""
    known = provider(name)
    assert known is not None
    reply = ReplyBuilder()
    reading = known.read(reply)
    for body in bodies:
        if not reading.feed(body):
            reply.unknown(body)
    reading.end()
    return reply


def response_facts(reply: ReplyBuilder, id: str | None, **common: Any) -> list[Fact]:
    """The facts of a response: messages, calls, results, failures, cost."""
    facts: list[Fact] = list(
        block_facts(
            reply.blocks,
            message_id=id,
            model=word(reply.meta.get("model")),
            stop_reason=word(reply.meta.get("stop_reason")),
            **common,
        )
    )
    facts += [Noted(label="error", text=each) for each in reply.errors]
    return facts


def spent_fact(reply: ReplyBuilder, key: str, name: str) -> Spent | None:
    """The cost of a response; None where it has none."""
    usage = reply.meta.get("usage")
    if not usage:
        return None
    return Spent(key=key, provider=name, model=word(reply.meta.get("model")), usage=usage, calls=1)


class Chains:
    """The conversations of one source, stored as JSON."""

    def __init__(self, state: Body) -> None:
        self.states: list[Body] = state.setdefault("chains", [])
        self.runs: Body = state.setdefault("responses", {})
        """The run of each response, by response id."""

    def of_prefix(self, prints: list[str]) -> Chain | None:
        """The conversation that a request continues: the longest that it repeats."""
        best = max(
            (each for each in self.states if each["heard"] == prints[: len(each["heard"])]),
            key=lambda each: len(each["heard"]),
            default=None,
        )
        return Chain(best) if best is not None and best["heard"] else None

    def of_run(self, run: str) -> Chain:
        """The conversation of a run, created if needed."""
        for each in self.states:
            if each["run"] == run:
                return Chain(each)
        state = {"run": run, "heard": []}
        self.states.append(state)
        del self.states[:-CHAINS]
        return Chain(state)

    def answered(self, id: str, run: str) -> None:
        """Note the run of a response."""
        remember(self.runs, id, run, 100 * CHAINS)


class ExchangeReader(Reader):
    """Reads exchanges, and streams of events, of any number of conversations.

    A subclass for each API describes its requests and responses.
    """

    name: str
    """The name of the importer."""
    speaks: str
    """The provider whose reader knows the API."""

    @abstractmethod
    def run_of(self, response: Body) -> str | None:
        """The run of a response; None where it does not name one."""

    @abstractmethod
    def bodies(self, body: Body) -> tuple[Body, Body]:
        """The request and the response in an object; empty where there is none."""

    @abstractmethod
    def messages(self, request: Body) -> list[Any]:
        """The messages of a request, in order."""

    @abstractmethod
    def print_of(self, message: Any) -> str:
        """The key by which two copies of a message are equal."""

    @abstractmethod
    def message_facts(self, message: Any) -> list[Fact]:
        """The facts of a message of a request."""

    @abstractmethod
    def echo(self, bodies: list[Body], reply: ReplyBuilder) -> list[Any]:
        """A response in the form in which a later request repeats it."""

    def names(self, response: Body) -> list[str | None]:
        """The API's own names of a conversation that begins with a response."""
        return [word(response.get("id"))]

    @abstractmethod
    def read_body(self, raw: Raw, body: Body) -> None:
        """Map one body, or one event of a stream."""

    def record(self, raw: Raw) -> None:
        if isinstance(raw.value, list):
            for each in raw.value:
                self.record(part_of(raw, each))
        else:
            self.read_body(raw, obj(raw.value))

    def identify(self, raw: Raw) -> str | None:
        for value in raw.value if isinstance(raw.value, list) else [raw.value]:
            body = obj(value)
            response = obj(body.get("response")) or obj(body.get("message")) or body
            if run := self.run_of(response):
                return run
        return None

    def finish(self) -> None:
        self.flush(whole=False)

    @property
    def chains(self) -> Chains:
        return Chains(self.state)

    def take(self, raw: Raw, body: Body) -> None:
        """Map a request, a response, or both."""
        self.flush()
        request, response = self.bodies(body)
        failed = body.get("type") == "error"  # an event of a stream whose beginning is missing
        error = body.get("error") or response.get("error") or (body if failed else None)
        if not request and not response and not error:
            bare = not (body.get("id") or body.get("created_at") or body.get("timestamp"))
            kind = word(body.get("type")) or word(body.get("object")) or "record"
            self.out.unknown(kind, self.out.about(raw, bare=bare))
            return
        self.out.report.mapped["exchange" if request and response else "body"] += 1
        at = time_of(response.get("created_at"), response.get("created"), body.get("timestamp"))
        id = word(response.get("id"))
        prints = [self.print_of(each) for each in self.messages(request)]
        known = None if named(response) else self.chains.of_prefix(prints)
        chain = known or self.chains.of_run(self.run_of(response) or self.out.run)
        value = self.out.about(raw, key=id, bare=not id and not at)
        request, response = self.bodies(obj(value))
        model = word(response.get("model")) or word(request.get("model"))
        clock = "response" if at else None
        for fact in [*self._opening(chain, model, response), *self._asked(chain, request)]:
            self.out.write(fact, run=chain.run, at=at, clock=clock)
        if response:
            self._answered(chain, [response], id, at, previous(response))
        elif error:
            text = word(obj(error).get("message")) or word(obj(error).get("type")) or word(error)
            fields = obj(value)
            noted = Noted(
                label="error", text=text, data=fields.get("error", fields if failed else None)
            )
            self.out.write(noted, run=chain.run, at=at)

    def gather(
        self, raw: Raw, kind: str, id: str | None, *, fresh: bool = False, last: bool = False
    ) -> None:
        """Add one event of a stream: held until its response is complete."""
        group = self.state.get("group")
        if group and (fresh or (id and group["id"] and group["id"] != id)):
            self.flush()
            group = None
        value = self.out.about(raw, key=id)
        if group is None:
            group = self.state["group"] = {"id": id, "events": [], "mark": self.out.mark()}
        group["id"] = group["id"] or id
        group["events"].append(value)
        self.out.report.mapped[kind] += 1
        if last:
            self.flush()

    def flush(self, *, whole: bool = True) -> None:
        """Map the response whose events were held."""
        group = self.state.pop("group", None)
        if not group:
            return
        events, id = group["events"], group["id"]
        self.out.again(group["mark"])
        inner = [obj(each.get("response")) or obj(each.get("message")) for each in events]
        response = {**next((each for each in reversed(inner) if each), events[-1]), "id": id}
        at = time_of(response.get("created_at"), events[0].get("created"))
        chain = self.chains.of_run(self.run_of(response) or self.out.run)
        n = None
        if not whole:  # it may continue: it has positions of its own, and counts only until then
            n = UNFINISHED + 1000 * len(events)
            self.out.draft(len(events))
        opening = self._opening(chain, word(response.get("model")), response)
        if word(response.get("instructions")):
            opening += self.message_facts({"role": "system", "content": response["instructions"]})
        for fact in opening:
            self.out.write(fact, run=chain.run, at=at, n=n)
            n = None
        self._answered(chain, events, id, at, previous(response), n)

    def _opening(self, chain: Chain, model: str | None, response: Body) -> list[Fact]:
        if chain.state.get("begun"):
            return []
        chain.state["begun"] = True
        names = dict.fromkeys(name for name in self.names(response) if name)
        links = [Linked(kind="alias", system=self.name, alias=name) for name in names]
        return [Began(what="run", model=model), *links]

    def _asked(self, chain: Chain, request: Body) -> list[Fact]:
        """The messages of a request that its conversation does not have yet."""
        fields = self.messages(request)
        prints = [self.print_of(each) for each in fields]
        same = 0
        while same < min(len(prints), len(chain.prints)) and prints[same] == chain.prints[same]:
            same += 1
        linked = previous(request) is not None
        facts = [
            fact
            for print_, message in zip(prints[same:], fields[same:], strict=True)
            if linked or print_ not in chain.prints[same:]
            for fact in self.message_facts(message)
        ]
        if fields:
            chain.prints[:] = (chain.prints + prints)[-MOST_PRINTS:] if linked else prints
        return facts

    def _answered(
        self,
        chain: Chain,
        bodies: list[Body],
        id: str | None,
        at: str | None,
        cause: str | None,
        n: int | None = None,
    ) -> None:
        reply = reply_of(self.speaks, bodies)
        report = self.out.report
        report.unknown.update(reply.report.unrecognised)
        if opaque := sum("opaque" in each for each in reply.blocks):
            report.opaque["reasoning"] += opaque
        facts = response_facts(reply, id)
        if not facts:
            facts = [Said(role="assistant", blocks=(), message_id=id)]
        if id and (spent := spent_fact(reply, id, self.name)):
            facts.append(spent)
        for fact in facts:
            self.out.write(fact, run=chain.run, at=at, cause=cause, n=n)
            n = None
        chain.prints += [self.print_of(each) for each in self.echo(bodies, reply)]
        if cause:  # no request repeats the messages before it
            del chain.prints[:-MOST_PRINTS]
        if id:
            self.chains.answered(id, chain.run)


def previous(body: Body) -> str | None:
    """The previous response that a request or a response names."""
    return word(body.get("previous_response_id"))


def named(response: Body) -> bool:
    """Whether a response names its own conversation."""
    return bool(response.get("conversation") or previous(response))


def form_of(path: Path, head: bytes) -> Any:
    """How a file of bodies is split: as SSE, at line ends, or not at all."""
    text = head.lstrip()
    if text.startswith((b"data:", b"event:", b": ", b":\n", b"id:", b"retry:")):
        return "sse"
    if path.suffix in (".jsonl", ".ndjson"):
        return "lines"
    first, _, rest = text.partition(b"\n")
    try:
        whole = isinstance(orjson.loads(first), dict)
    except orjson.JSONDecodeError:
        whole = False
    return "lines" if whole and rest.strip() and len(first) < HEAD else "document"


def part_of(raw: Raw, value: Any) -> Raw:
    """A piece of a larger record, as a record of its own."""
    return raw._replace(value=value, exact=True, flaws=())


def time_of(*values: Any) -> str | None:
    """The first value that is a time; 0 means that it was removed."""
    return next((at for value in values if value and (at := utc_time(value))), None)
