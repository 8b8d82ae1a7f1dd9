"""Bodies of an API: requests, responses, both together, and the events of streamed responses.

A request repeats the whole conversation: only what is new in it is told.
The run is the conversation that the API names, else the first response of the chain.
"""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from tracklog.fact import Began, Fact, Linked, Noted, Spent
from tracklog.importers._reading import HEAD
from tracklog.importers._records import Raw
from tracklog.importers._spoken import spoken
from tracklog.importers._telling import moment, word
from tracklog.providers import Reply, provider

Body = dict[str, Any]
CHAINS = 64
"""How many conversations of one file are remembered."""
UNFINISHED = 1_000_000
"""Places of what is told of a stream that may still go on; told whole, it has others."""


class Chain:
    """One conversation, as it is remembered: the hashes of the messages that were told."""

    def __init__(self, kept: Body) -> None:
        self.kept = kept
        self.run: str = kept["run"]
        self.heard: list[str] = kept["heard"]


def obj(value: Any) -> Body:
    """An object; anything else is an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A list; anything else is an empty one."""
    return value if isinstance(value, list) else []


def fingerprint(*parts: Any) -> str:
    """A short hash of what a message says."""
    return sha256(orjson.dumps(parts, default=str)).hexdigest()[:16]


def reply_of(name: str, bodies: Iterable[Body]) -> Reply:
    """What a provider's own reading makes of some objects."""
    found = provider(name)
    assert found is not None
    reply = Reply()
    reading = found.read(reply)
    for body in bodies:
        if not reading.hear(body):
            reply.unknown(body)
    reading.end()
    return reply


def response_facts(reply: Reply, id: str | None, **common: Any) -> list[Fact]:
    """What a response tells: words, calls and results, failures, what it cost."""
    facts: list[Fact] = list(
        spoken(
            reply.blocks,
            message_id=id,
            model=word(reply.meta.get("model")),
            stop_reason=word(reply.meta.get("stop_reason")),
            **common,
        )
    )
    facts += [Noted(label="error", text=each) for each in reply.errors]
    return facts


def spent_fact(reply: Reply, key: str, name: str) -> Spent | None:
    """What a response cost; None where it does not say."""
    usage = reply.meta.get("usage")
    if not usage:
        return None
    return Spent(key=key, provider=name, model=word(reply.meta.get("model")), usage=usage)


class Chains:
    """The conversations of one source, kept as JSON."""

    def __init__(self, state: Body) -> None:
        self.kept: list[Body] = state.setdefault("chains", [])
        self.runs: Body = state.setdefault("responses", {})
        """By response id: the run it belongs to."""

    def of_prefix(self, prints: list[str]) -> Chain | None:
        """The conversation that a request goes on with: the longest that it repeats."""
        best = max(
            (each for each in self.kept if each["heard"] == prints[: len(each["heard"])]),
            key=lambda each: len(each["heard"]),
            default=None,
        )
        return Chain(best) if best is not None and best["heard"] else None

    def of_run(self, run: str) -> Chain:
        """The conversation of a run, begun if need be."""
        for each in self.kept:
            if each["run"] == run:
                return Chain(each)
        kept = {"run": run, "heard": []}
        self.kept.append(kept)
        del self.kept[:-CHAINS]
        return Chain(kept)

    def answered(self, id: str, run: str) -> None:
        """A response belongs to a run."""
        self.runs[id] = run
        while len(self.runs) > 100 * CHAINS:
            del self.runs[next(iter(self.runs))]


def form_of(path: Path, head: bytes) -> Any:
    """How a file of bodies is cut: as SSE, at line ends, or not at all."""
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


def began(model: str | None) -> Began:
    """The first that is heard of a conversation."""
    return Began(what="run", model=model)


def alias(system: str, name: str) -> Linked:
    """The API's own name of it."""
    return Linked(kind="alias", system=system, alias=name)


def part_of(raw: Raw, value: Any) -> Raw:
    """A piece of a larger record, as a record of its own."""
    return raw._replace(data=orjson.dumps(value, default=str), value=value, exact=True, flaws=())


def time_of(*values: Any) -> str | None:
    """The first that is a time; 0 was scrubbed."""
    return next((at for value in values if value and (at := moment(value))), None)
