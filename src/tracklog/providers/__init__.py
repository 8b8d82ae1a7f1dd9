"""What agents print, one provider per file: lines of a stream in, content blocks out.

    normalise("codex", stdout).blocks

This is the one layer that knows a provider's quirks; importers and `exec` share it.
It is total: whatever the bytes are, it raises nothing and loses no line that can be read.

To write another: a file here that ends with `provider = Provider(...)`, whose `Reading` hears
one object after the other and tells a `Reply` what was said.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, NamedTuple, Protocol

import orjson

Body = dict[str, Any]
Profile = Literal["full", "compat"]
Status = Literal["ok", "error", "timeout", "killed", "format_error"]

LINE_CAP = 64 << 20
"""A longer line is skipped and counted."""
CHUNK = 64 << 10
"""So much of a line that was not understood is kept."""
DIGITS = bytes(48 if chr(byte) in "0123456789" else 32 for byte in range(256))
LONG_NUMBER = b"0" * 19
"""Where orjson might round an integer, and the standard library does not; digits read as 0."""


@dataclass(slots=True)
class Report:
    """What became of the lines."""

    lines: int = 0
    recognised: int = 0
    unrecognised: Counter[str] = field(default_factory=Counter)
    """Lines and elements that nobody knows here, by their type; each is kept as a stream block."""
    malformed: int = 0
    oversized: int = 0
    nul: int = 0
    """Lines with raw NUL bytes."""
    partial: int = 0
    """Blocks whose stream ended before they did."""
    unknown_provider: str | None = None

    def told(self) -> Body:
        """What is not zero, as it stands in a message."""
        counts = {
            "lines": self.lines,
            "recognised": self.recognised,
            "unrecognised": dict(self.unrecognised),
            "malformed": self.malformed,
            "oversized": self.oversized,
            "nul": self.nul,
            "partial": self.partial,
            "unknown_provider": self.unknown_provider,
        }
        return {key: value for key, value in counts.items() if value}


class Normalised(NamedTuple):
    """An agent's whole reply."""

    blocks: list[Body]
    meta: Body
    """What a message says besides its blocks: provider, model, status, usage."""
    report: Report


class Reading(Protocol):
    """Hears the objects of one stream, in order."""

    def hear(self, body: Body) -> bool:
        """Whether the object was understood."""

    def end(self) -> None:
        """The stream is over: tell what is still open, as partial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider of agents."""

    name: str
    about: str
    read: Callable[["Reply"], Reading]
    compat: Callable[[Body], Iterable[Body] | None]
    """The original's mapping of one object, for comparisons; None where it drops the line."""
    aliases: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """The names of the commands that speak like this."""
    opens: Callable[[Body], bool] = lambda _body: False
    """Whether an object is one with which such a stream begins."""
    prompt: Callable[[Sequence[str]], str | None] = lambda _arguments: None
    """What the agent is asked, by the arguments of its command."""
    template: tuple[str, ...] = ()
    """The command that asks it one thing and prints a stream; `{{prompt}}` stands for that."""
    template_system: tuple[str, ...] = ()
    """What is added for a system prompt, `{{system}}`; else that stands before the prompt."""
    template_again: tuple[str, ...] = ()
    """What is added to go on with the conversation `{{session}}`."""
    nul: bool = False
    """Whether the original's mapping reads lines with raw NUL bytes."""
    whole: bool = False
    """Whether server-sent events and one body over many lines are read, too."""


def text(value: Any) -> str | None:
    """A string; anything else costs the field."""
    return value if isinstance(value, str) else None


def word(value: Any) -> str | None:
    """A string that says something."""
    return value if isinstance(value, str) and value else None


def obj(value: Any) -> Body:
    """An object; anything else is an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A list; anything else is an empty one."""
    return value if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """A whole number that is not negative, as large as JSON readers agree on; one in a string, too."""
    if type(value) is int:
        return value if 0 <= value < 2**53 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return count(int(value))
    return count(int(value)) if isinstance(value, float) and value.is_integer() else None


def is_text(value: Any) -> bool:
    """Whether a value is text, in its place or lifted out into a blob."""
    return isinstance(value, str) or (isinstance(value, dict) and "$blob" in value)


def foreign(kind: str, value: Any) -> Body:
    """An element of a type that blocks do not have: whole, under the source's own word."""
    return {"type": "stream", "provider_type": kind, "chunk": value}


def input_of(value: Any) -> Any:
    """A tool's input in one form: an object where there is one, also inside a string."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        found = parse(value.encode("utf-8", "surrogatepass"))
        return found if isinstance(found, dict) else value
    return value


def usage(raw: Any, **counts: int | None) -> Body:
    """The common keys of a usage, without what is not known; the provider's own under `raw`."""
    known: Body = {key: value for key, value in counts.items() if value is not None}
    if "total_tokens" not in known and known.keys() & {"input_tokens", "output_tokens"}:
        known["total_tokens"] = known.get("input_tokens", 0) + known.get("output_tokens", 0)
    return known | {"raw": raw} if known and raw else known


def added(one: Body, other: Body) -> Body:
    """Two usages together."""
    both = {**one, **other}
    for key in one.keys() & other.keys() - {"raw"}:
        both[key] = one[key] + other[key]
    return both


def parse(line: bytes) -> Any:
    """The JSON value of a line, exact; `BROKEN` where there is none."""
    try:
        if LONG_NUMBER not in line.translate(DIGITS):
            return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass  # a lone surrogate is none of its concern; the standard library reads it
    try:
        return json.loads(line.decode("utf-8", "strict"), parse_constant=str)
    except (ValueError, RecursionError):
        return BROKEN


BROKEN = object()


def raw_chunk(line: bytes) -> Body:
    """The beginning of what was not understood, and what was cut off."""
    if len(line) <= CHUNK:
        return {"chunk": line.decode("utf-8", "replace")}
    mark = {"key": "chunk", "bytes": len(line), "sha256": sha256(line).hexdigest()}
    return {"chunk": line[:CHUNK].decode("utf-8", "ignore"), "truncated": mark}


def dumped(value: Any) -> bytes:
    """A value as JSON again, whatever it holds."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


class Reply:
    """An agent's reply while it is heard: blocks in the order of the stream, each told once."""

    def __init__(self, report: Report | None = None) -> None:
        self.blocks: list[Body] = []
        self.meta: Body = {}
        self.report = report or Report()
        self.turn = 0
        self.errors: list[str] = []
        self.status: Status = "ok"
        self.answer: str | None = None
        """What the provider calls its answer, for a stream without any block."""
        self.keep_partials = False
        self._uses: dict[str, Body] = {}
        self._results: dict[str, Body] = {}
        self._names: dict[str, str] = {}
        self._synthetic = 0
        self._settled = 0
        self._news: list[Body] = []

    def add(self, type: str, own: Body, **extras: Any) -> Body:
        """One more block; extras that are None are left out."""
        block = {"type": type, "fidelity": "agent_emitted", **own, "turn": self.turn}
        block |= {key: value for key, value in extras.items() if value is not None}
        self.blocks.append(block)
        if extras.get("partial"):
            self.report.partial += 1
        return block

    def text(self, said: Any, **extras: Any) -> Body | None:
        """Empty text is no block."""
        return self.add("text", {"text": said}, **extras) if word(said) else None

    def thinking(self, thought: str | None, *, opaque: Any = None, **extras: Any) -> Body:
        """Reasoning; what only its provider can read stays opaque."""
        own = {} if thought is None and opaque is not None else {"thinking": thought or ""}
        return self.add("thinking", own, opaque=opaque, **extras)

    def call(self, id: str | None, name: str | None, input: Any, **extras: Any) -> Body:
        """A tool call; a second report of one call completes the first."""
        known = self._uses.get(id) if id else None
        if known is not None:
            _complete(known, name, input, extras)
            return known
        flagged = None if id else True
        id = id or self._new_id()
        own = {"tool_name": name or "", "tool_id": id, "tool_input": input_of(input)}
        block = self.add("tool_use", own, tool_id_synthetic=flagged, **extras)
        self._uses[id] = block
        if id not in self._names:
            self._news.append(block)
        self._names[id] = name or self._names.get(id, "")
        return block

    def result(self, id: str | None, content: Any, **extras: Any) -> Body:
        """A tool's result; a second report of one call is merged into the first."""
        known = self._results.get(id) if id else None
        if known is not None:
            if content is not None and not known["tool_content"]:
                known["tool_content"] = content
            known |= {key: value for key, value in extras.items() if value is not None}
            return known
        flagged = None if id else True
        id = id or self._new_id()
        own = {"tool_id": id, "tool_content": content}
        name = extras.pop("tool_name", None) or self._names.get(id) or None
        block = self.add("tool_result", own, tool_name=name, tool_id_synthetic=flagged, **extras)
        self._results[id] = block
        self._news.append(block)
        return block

    def has_called(self, id: str) -> bool:
        """Whether that call was told before."""
        return id in self._names

    def holds(self, block: Body) -> bool:
        """Whether a block may still grow: it was not given away."""
        return any(block is each for each in self.blocks)

    def stream(self, raw: bytes, provider_type: str, **extras: Any) -> None:
        """What was not understood, kept as it is."""
        self.add("stream", raw_chunk(raw), provider_type=provider_type, **extras)

    def unknown(self, element: Any, **extras: Any) -> None:
        """An element of a line that nobody knows here."""
        name = type_of(element)
        self.report.unrecognised[name] += 1
        self.stream(dumped(element), name, **extras)

    def partial(self, element: Any, provider_type: str) -> None:
        """A piece of something that will be told whole; kept only if that was asked for."""
        if self.keep_partials:
            self.stream(dumped(element), provider_type, partial=True)

    def fail(self, message: Any, status: Status | None = "error") -> None:
        """Something went wrong, in the provider's words."""
        self.errors.append(message if isinstance(message, str) else dumped(message).decode())
        if status and self.status == "ok":
            self.status = status

    def note(self, **said: Any) -> None:
        """What is known of the whole reply; None says nothing."""
        self.meta |= {key: value for key, value in said.items() if value is not None}

    def settle(self) -> None:
        """What was told so far will not change any more."""
        self._settled = len(self.blocks)

    def take(self) -> list[Body]:
        """The settled blocks, given away; they are not kept here any longer."""
        taken, self.blocks = self.blocks[: self._settled], self.blocks[self._settled :]
        self._settled = 0
        gone = set(map(id, taken))
        for known in (self._uses, self._results):
            for key in [key for key, block in known.items() if id(block) in gone]:
                del known[key]  # a late report of it is a block of its own
        return taken

    def news(self) -> list[Body]:
        """The calls and results that were told since the last time."""
        news, self._news = self._news, []
        return news

    def _new_id(self) -> str:
        self._synthetic += 1
        return f"syn-{self._synthetic}"


def _complete(known: Body, name: str | None, input: Any, extras: Body) -> None:
    if name and not known["tool_name"]:
        known["tool_name"] = name
    if known["tool_input"] is None or (known.get("partial") and not extras.get("partial")):
        known["tool_input"] = input_of(input)
        known.pop("partial", None)
    for key, value in extras.items():
        if value is not None:
            known.setdefault(key, value)


def type_of(element: Any) -> str:
    """What an object calls itself."""
    return (word(element.get("type")) if isinstance(element, dict) else None) or "untyped"


class Normaliser:
    """One agent's output, as it comes; any cutting into chunks gives the same blocks."""

    def __init__(
        self, name: str, profile: Profile = "full", *, keep_partials: bool = False
    ) -> None:
        self.report = Report()
        self.reply = Reply(self.report)
        self.reply.keep_partials = keep_partials
        self.provider = provider(name)
        self._compat = profile == "compat"
        self._reading: Reading | None = None
        if self.provider is None:
            self.report.unknown_provider = name
        elif not self._compat:
            self._reading = self.provider.read(self.reply)
        self._rest = bytearray()
        self._skipping = False
        self._body: list[bytes] | None = [] if self.provider and self.provider.whole else None

    def feed(self, chunk: bytes) -> None:
        """The next bytes of its standard output."""
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            if self._skipping:
                self._skipping = False
                self._rest.clear()
                continue
            line = bytes(self._rest) + piece if self._rest else piece
            self._rest.clear()
            self._hear(line)
        if not self._skipping:
            self._rest += rest
            if len(self._rest) > LINE_CAP:
                self._oversize()

    def finish(
        self, status: Status = "ok", exit_code: int | None = None, stderr: bytes = b""
    ) -> Normalised:
        """The whole reply; what is still open is told as partial."""
        if self._rest:
            self._hear(bytes(self._rest))
            self._rest.clear()
        self._end_body()
        reply = self.reply
        if self._reading is not None:
            self._reading.end()
        if not self._compat:
            self._sum_up(status, exit_code, stderr)
        reply.settle()
        return Normalised(reply.blocks, reply.meta, self.report)

    def _sum_up(self, status: Status, exit_code: int | None, stderr: bytes) -> None:
        reply = self.reply
        if not reply.blocks and reply.answer and reply.answer.strip():
            reply.text(reply.answer)
        if status == "ok":
            status = reply.status
        meta: Body = {"provider": self.provider.name if self.provider else None}
        meta |= reply.meta | {"status": status, "exit_code": exit_code}
        meta["errors"] = reply.errors or None
        if status != "ok":
            tail = stderr[-4096:].decode("utf-8", "replace")
            meta["error"] = next(iter(reply.errors), None) or tail.strip() or status
            meta["stderr_tail"] = tail or None
        reply.meta = {key: value for key, value in meta.items() if value is not None}

    def _oversize(self) -> None:
        self.report.lines += 1
        self.report.oversized += 1
        self._rest.clear()
        self._skipping = True

    def _hear(self, line: bytes) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if not line.strip() or self.provider is None:
            self.report.lines += bool(line.strip())
            return
        if len(line) > LINE_CAP:
            self._oversize()
            self._skipping = False
            return
        if self.provider.whole:
            self._hear_event(line)
        else:
            self._hear_object(line)

    def _hear_event(self, line: bytes) -> None:
        """A line of server-sent events, of JSON lines, or of one body that goes over many."""
        if line.startswith((b"event:", b"id:", b"retry:", b":")):
            return
        if line.startswith(b"data:"):
            line = line[5:].strip()
            self._end_body()
            if line and line != b"[DONE]":
                self._hear_object(line)
        elif self._body is None:
            self._hear_object(line)
        elif self._body and line[:1] in b" \t]}":
            self._body.append(line)
        elif isinstance(parse(line), dict):
            self._end_body()
            self._hear_object(line)
        else:
            self._body.append(line)

    def _end_body(self) -> None:
        body, self._body = self._body, None
        if not body:
            return
        if isinstance(parse(b"\n".join(body)), dict | list):
            self._hear_object(b"\n".join(body))
        else:
            for line in body:
                self._hear_object(line)

    def _hear_object(self, line: bytes) -> None:
        report = self.report
        report.lines += 1
        raw = line
        if b"\0" in line:
            report.nul += 1
            if self._compat and self.provider and not self.provider.nul:
                return
            # AWF-40: the raw byte becomes the escape that it should have been.
            line = line.strip(b"\0").replace(b"\0", b"\\u0000")
        body = parse(line)
        if self._compat:
            self._hear_compat(body)
        elif body is BROKEN:
            report.malformed += 1
            self.reply.stream(raw, "malformed")
        elif not isinstance(body, dict) or self._reading is None:
            self.reply.unknown(body)
        elif self._reading.hear(body):
            report.recognised += 1
        else:
            name = type_of(body)
            report.unrecognised[name] += 1
            self.reply.stream(raw, name)

    def _hear_compat(self, body: Any) -> None:
        assert self.provider is not None
        blocks = self.provider.compat(body) if isinstance(body, dict) else None
        if blocks is not None:
            self.report.recognised += 1
            self.reply.blocks += blocks


def normalise(
    name: str,
    raw: bytes,
    stderr: bytes = b"",
    status: Status = "ok",
    profile: Profile = "full",
    *,
    exit_code: int | None = None,
    keep_partials: bool = False,
) -> Normalised:
    """An agent's whole output as content blocks."""
    normaliser = Normaliser(name, profile, keep_partials=keep_partials)
    normaliser.feed(raw)
    return normaliser.finish(status, exit_code, stderr)


@cache
def providers() -> tuple[Provider, ...]:
    """Every provider, by name: the folder is the registry."""
    names = sorted(module.name for module in iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}").provider for name in names)


def provider(name: str) -> Provider | None:
    """The provider of that name or alias."""
    found = (each for each in providers() if name in (each.name, *each.aliases))
    return next(found, None)


def provider_of(program: str) -> Provider | None:
    """The provider whose command this is, by the last part of its path."""
    name = program.rpartition("/")[2]
    return next((each for each in providers() if name in each.programs), None)


def provider_that_opens(line: bytes) -> Provider | None:
    """The provider whose stream begins with such a line."""
    body = parse(line.strip())
    if not isinstance(body, dict):
        return None
    return next((each for each in providers() if each.opens(body)), None)


def option(arguments: Sequence[str], *names: str) -> str | None:
    """The value that stands behind one of some options."""
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in names and equals:
            return value
        following = arguments[place + 1 : place + 2]
        if word in names and following and not following[0].startswith("-"):
            return following[0]
    return None


class WrongType(Exception):
    """A known field has another type than the original reads."""


def only(body: Mapping[str, Any], key: str, kind: type, default: Any = None) -> Any:
    """A field as the original reads it: null is absent, another type drops the line."""
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise WrongType(key)
    return value


def plain(type: str, **own: Any) -> Body:
    """A block as the original writes it: no extras."""
    return {"type": type, "fidelity": "agent_emitted", **own}
