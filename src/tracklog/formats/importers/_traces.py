"""Traces of applications: messages in the shapes of any provider, and tools that have no call id."""

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from tracklog.formats.importers import DAMAGED, Raw, word
from tracklog.formats.importers._block_facts import block_facts
from tracklog.formats.importers._exchanges import fingerprint, reply_of
from tracklog.formats.importers._records import Fits, records
from tracklog.formats.importers._snapshots import SnapshotReader, finding_of, parsed, text_block
from tracklog.formats.providers import Body, items, obj
from tracklog.model.fact import Called, Fact, Returned, Role

ROLES: dict[str, Role] = {
    "user": "user", "human": "user", "HumanMessage": "user", "assistant": "assistant",
    "ai": "assistant", "AIMessage": "assistant", "AIMessageChunk": "assistant", "model": "assistant",
    "system": "system", "developer": "system", "SystemMessage": "system",
}  # fmt: skip
TOOLS = ("tool", "ToolMessage", "function")


OTHER = ""
"""The key of lines that belong to no trace."""


def grouped_lines(
    path: Path, fits: Fits, keys_of: Callable[[Any], list[str]]
) -> Iterator[tuple[str, list[Any]] | Raw]:
    """The values of lines that are in any order, by their keys; then the findings about lines.

    The file is read twice, so that only the places of its lines and one group are held at a time.
    """
    places: dict[str, array[int]] = {}
    repaired: list[Any] = []
    """The values of lines that were repaired: their bytes are no JSON."""
    damaged: list[Raw] = []
    with path.open("rb") as file:
        for raw in records(file, 0, fits, final=True):
            if raw.flaws:
                damaged.append(finding_of(raw))
            if raw.value is DAMAGED:
                continue
            place = raw.offset
            if raw.flaws or not raw.exact:
                place = REPAIRED + len(repaired)
                repaired.append(raw.value)
            for key in dict.fromkeys(keys_of(raw.value)):
                places.setdefault(key, array("Q")).append(place)
        for key, group in places.items():
            yield (
                key,
                [
                    repaired[place - REPAIRED] if place >= REPAIRED else _value_at(file, place)
                    for place in group
                ],
            )
    yield from damaged


REPAIRED = 1 << 62
"""A place beyond the end of any file: behind it are the values of lines that were repaired."""


def _value_at(file: BinaryIO, place: int) -> Any:
    file.seek(place)
    return orjson.loads(file.readline())


class TraceReader(SnapshotReader):
    """Reads a trace: each message once, although every request repeats those before it."""

    def begin(self) -> None:
        self.seen: set[str] = set()
        self.calls: list[tuple[str, str]] = []
        """The calls that a model has made and no tool has answered: name and id."""

    @abstractmethod
    def traces_of(self, value: Any) -> Iterator[Body]:
        """The traces in a record of the file."""

    def identify(self, raw: Raw) -> str | None:
        first = next(self.traces_of(raw.value), None)
        return self.run_of(first) if first else None

    def record(self, raw: Raw) -> None:
        read = list(self.traces_of(raw.value))
        if not read:
            self.out.unknown("value", self.out.about(raw, bare=True))
        for trace in read:
            self.out.run = self.run_of(trace) or self.out.run
            self.conversation(trace)

    def new(self, message: Any, model: str | None = None, id: str | None = None) -> Iterator[Fact]:
        """The facts of a message that was not written before."""
        fields = plain_message(message)
        print_ = _print(fields)
        if print_ in self.seen:
            return
        self.seen.add(print_)
        if fields["role"] in TOOLS:
            native = word(fields["tool_call_id"])
            if native and ("answered", native) not in self.calls:
                yield Returned(
                    call_id=native, tool=word(fields["name"]), ok=True, output=fields["content"]
                )
            return
        role = ROLES.get(str(fields["role"]), "user")
        blocks = reply_of("claude", [{"type": "message", "content": fields["content"]}]).blocks
        if isinstance(fields["content"], dict):
            blocks = [text_block(fields["content"])]
        by = role == "assistant"
        for fact in block_facts(blocks, role=role, message_id=id, model=model if by else None):
            if isinstance(fact, Called):
                self.calls.append((fact.tool, fact.call_id))
            yield fact
        for place, call in enumerate(items(fields["tool_calls"])):
            each = obj(call)
            inner = obj(each.get("function")) or each
            native = word(each.get("id"))
            name = word(inner.get("name")) or "unknown"
            made = native or f"{print_}/{place}"
            if native and any(native == call for _, call in self.calls):
                continue  # the same call in another shape
            self.calls.append((name, made))
            given = parsed(inner.get("arguments", inner.get("args", inner.get("input"))))
            yield Called(tool=name, call_id=made, input=given, synthetic_id=native is None)

    def tool(
        self, id: str, name: str, given: Any, native: str | None = None
    ) -> tuple[str, Called | None]:
        """The id of a tool's call: that of the model's call by its id, else by name and order."""
        for place, (tool, call) in enumerate(self.calls):
            if tool != "answered" and (call == native if native else tool == name):
                self.calls[place] = ("answered", call)
                return call, None
        return id, Called(tool=name, call_id=id, input=given, synthetic_id=True)


def _print(fields: Body) -> str:
    """What copies of a message have in common: one may be in the shape of LangChain, one plain."""
    role = ROLES.get(str(fields["role"]), str(fields["role"]))
    content = fields["content"]
    texts = [obj(each).get("text") for each in items(content)]
    if texts and all(isinstance(each, str) for each in texts):
        content = "".join(map(str, texts))
    calls = [
        (each.get("id"), (obj(each.get("function")) or each).get("name"))
        for each in map(obj, items(fields["tool_calls"]))
    ]
    return fingerprint(role, content or "", calls, fields["tool_call_id"])


def plain_message(message: Any) -> Body:
    """A message of any provider or of LangChain in one shape."""
    fields = obj(message)
    inner = obj(fields.get("kwargs"))
    if inner:
        kind = items(fields.get("id"))[-1:] or [inner.get("type")]
        calls = inner.get("tool_calls") or obj(inner.get("additional_kwargs")).get("tool_calls")
        return {"role": kind[0], "content": inner.get("content"), "tool_calls": calls,
                "tool_call_id": inner.get("tool_call_id"), "name": inner.get("name")}  # fmt: skip
    if isinstance(message, str):
        return {
            "role": "user",
            "content": message,
            "tool_calls": None,
            "tool_call_id": None,
            "name": None,
        }
    role = fields.get("role") or fields.get("type") or "user"
    content = fields.get("content", fields.get("text"))
    if content is None and not fields.get("tool_calls"):
        content = {key: each for key, each in fields.items() if key not in ("role", "type")}
    return {"role": role, "content": content, "tool_calls": fields.get("tool_calls"),
            "tool_call_id": fields.get("tool_call_id"), "name": fields.get("name")}  # fmt: skip
