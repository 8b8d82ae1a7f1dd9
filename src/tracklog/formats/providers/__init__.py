"""The output of agents, one provider per file: from the lines of a stream to content blocks.

    normalise("codex", stdout).blocks

Only this package knows the details of a provider; importers and `exec` share it.
It is total: whatever the bytes are, it raises nothing and loses no line that can be read.

To write another: a file here that ends with `provider = Provider(...)`, whose `StreamReader` is
fed one object after the other and adds the blocks to a `ReplyBuilder`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, NamedTuple, Protocol

from tracklog.formats.providers._reply import ReplyBuilder, ReplyReport, ReplyStatus
from tracklog.formats.providers._values import (
    BROKEN,
    Body,
    WrongType,
    added,
    count,
    dumped,
    foreign,
    input_of,
    is_text,
    items,
    obj,
    only,
    option,
    original_block,
    parse,
    text,
    type_of,
    usage,
    word,
)

__all__ = [
    "BROKEN",
    "LINE_CAP",
    "Body",
    "Normalised",
    "Normaliser",
    "Profile",
    "Provider",
    "ReplyBuilder",
    "ReplyReport",
    "ReplyStatus",
    "StreamReader",
    "WrongType",
    "added",
    "count",
    "dumped",
    "foreign",
    "input_of",
    "is_text",
    "items",
    "normalise",
    "obj",
    "only",
    "option",
    "original_block",
    "parse",
    "provider",
    "provider_of",
    "provider_that_opens",
    "providers",
    "text",
    "type_of",
    "usage",
    "word",
]

Profile = Literal["full", "compat"]
LINE_CAP = 64 << 20
"""A longer line is skipped and counted."""


class Normalised(NamedTuple):
    """The complete reply of an agent."""

    blocks: list[Body]
    meta: Body
    """The fields of a message besides its blocks: provider, model, status, usage."""
    report: ReplyReport


class StreamReader(Protocol):
    """Reads the objects of one stream, in order."""

    def feed(self, body: Body) -> bool:
        """Add an object; returns whether it was understood."""

    def end(self) -> None:
        """End the stream: what is still open is written as partial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider of agents."""

    name: str
    about: str
    read: Callable[["ReplyBuilder"], StreamReader]
    compat: Callable[[Body], Iterable[Body] | None]
    """The original's mapping of one object, for comparisons; None where it drops the line."""
    aliases: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """The names of the commands with this output."""
    opens: Callable[[Body], bool] = lambda _body: False
    """Whether an object is the first of such a stream."""
    prompt: Callable[[Sequence[str]], str | None] = lambda _arguments: None
    """The prompt, from the arguments of the command."""
    template: tuple[str, ...] = ()
    """The command for one prompt with stream output; `{{prompt}}` is replaced by the prompt."""
    template_system: tuple[str, ...] = ()
    """The arguments for a system prompt, `{{system}}`; without them it is put before the prompt."""
    template_again: tuple[str, ...] = ()
    """The arguments to continue the conversation `{{session}}`."""
    nul: bool = False
    """Whether the original's mapping reads lines with raw NUL bytes."""
    whole: bool = False
    """Whether server-sent events and one body over many lines are read, too."""


class Normaliser:
    """The output of one agent, as it comes; any division into chunks gives the same blocks."""

    def __init__(
        self, name: str, profile: Profile = "full", *, keep_partials: bool = False
    ) -> None:
        self.report = ReplyReport()
        self.reply = ReplyBuilder(self.report)
        self.reply.keep_partials = keep_partials
        self.provider = provider(name)
        self._compat = profile == "compat"
        self._reading: StreamReader | None = None
        if self.provider is None:
            self.report.unknown_provider = name
        elif not self._compat:
            self._reading = self.provider.read(self.reply)
        self._rest = bytearray()
        self._skipping = False
        self._body: list[bytes] | None = [] if self.provider and self.provider.whole else None

    def feed(self, chunk: bytes) -> None:
        """Add the next bytes of its standard output."""
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            if self._skipping:
                self._skipping = False
                self._rest.clear()
                continue
            line = bytes(self._rest) + piece if self._rest else piece
            self._rest.clear()
            self._feed(line)
        if not self._skipping:
            self._rest += rest
            if len(self._rest) > LINE_CAP:
                self._oversize()

    def finish(
        self, status: ReplyStatus = "ok", exit_code: int | None = None, stderr: bytes = b""
    ) -> Normalised:
        """The complete reply; blocks that are still open are marked as partial."""
        if self._rest:
            self._feed(bytes(self._rest))
            self._rest.clear()
        self._end_body()
        reply = self.reply
        if self._reading is not None:
            self._reading.end()
        if not self._compat:
            self._sum_up(status, exit_code, stderr)
        reply.settle()
        return Normalised(reply.blocks, reply.meta, self.report)

    def _sum_up(self, status: ReplyStatus, exit_code: int | None, stderr: bytes) -> None:
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

    def _feed(self, line: bytes) -> None:
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
            self._feed_event(line)
        else:
            self._feed_object(line)

    def _feed_event(self, line: bytes) -> None:
        """A line of server-sent events, of JSON lines, or of one body over many lines."""
        if line.startswith((b"event:", b"id:", b"retry:", b":")):
            return
        if line.startswith(b"data:"):
            line = line[5:].strip()
            self._end_body()
            if line and line != b"[DONE]":
                self._feed_object(line)
        elif self._body is None:
            self._feed_object(line)
        elif self._body and line[:1] in b" \t]}":
            self._body.append(line)
        elif isinstance(parse(line), dict):
            self._end_body()
            self._feed_object(line)
        else:
            self._body.append(line)

    def _end_body(self) -> None:
        body, self._body = self._body, None
        if not body:
            return
        if isinstance(parse(b"\n".join(body)), dict | list):
            self._feed_object(b"\n".join(body))
        else:
            for line in body:
                self._feed_object(line)

    def _feed_object(self, line: bytes) -> None:
        report = self.report
        report.lines += 1
        raw = line
        if b"\0" in line:
            report.nul += 1
            if self._compat and self.provider and not self.provider.nul:
                return
            # AWF-40: a raw NUL byte is replaced by its escape.
            line = line.strip(b"\0").replace(b"\0", b"\\u0000")
        body = parse(line)
        if self._compat:
            self._feed_compat(body)
        elif body is BROKEN:
            report.malformed += 1
            self.reply.stream(raw, "malformed")
        elif not isinstance(body, dict) or self._reading is None:
            self.reply.unknown(body)
        elif self._reading.feed(body):
            report.recognised += 1
        else:
            name = type_of(body)
            report.unrecognised[name] += 1
            self.reply.stream(raw, name)

    def _feed_compat(self, body: Any) -> None:
        assert self.provider is not None
        blocks = self.provider.compat(body) if isinstance(body, dict) else None
        if blocks is not None:
            self.report.recognised += 1
            self.reply.blocks += blocks


def normalise(
    name: str,
    raw: bytes,
    stderr: bytes = b"",
    status: ReplyStatus = "ok",
    profile: Profile = "full",
    *,
    exit_code: int | None = None,
    keep_partials: bool = False,
) -> Normalised:
    """The complete output of an agent as content blocks."""
    normaliser = Normaliser(name, profile, keep_partials=keep_partials)
    normaliser.feed(raw)
    return normaliser.finish(status, exit_code, stderr)


@cache
def providers() -> tuple[Provider, ...]:
    """Every provider, by name: the folder is the registry."""
    names = sorted(each.name for each in iter_modules(__path__) if each.name[0] != "_")
    return tuple(import_module(f"{__name__}.{name}").provider for name in names)


def provider(name: str) -> Provider | None:
    """The provider of that name or alias."""
    matching = (each for each in providers() if name in (each.name, *each.aliases))
    return next(matching, None)


def provider_of(program: str) -> Provider | None:
    """The provider of a command, by the last part of its path."""
    name = program.rpartition("/")[2]
    return next((each for each in providers() if name in each.programs), None)


def provider_that_opens(line: bytes) -> Provider | None:
    """The provider whose stream begins with such a line."""
    body = parse(line.strip())
    if not isinstance(body, dict):
        return None
    return next((each for each in providers() if each.opens(body)), None)
