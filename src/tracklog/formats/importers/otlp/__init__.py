"""OTLP: spans and log records of OpenTelemetry, received or in files, as native lines.

`wire` reads both encodings into one shape and `view` gives its attributes; `genai` and `messages`
read the vocabularies of model calls, `agents` those of agents; `spans` and `logs` map the items,
with `inference` for model calls and `judging` for evaluations.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from tracklog.formats.importers import Form, Importer, LineWriter, Raw, Reader, SourceFile, run_id
from tracklog.formats.importers.otlp import genai, wire
from tracklog.formats.importers.otlp.attrs import CONVERSATIONS
from tracklog.formats.importers.otlp.item_writer import ItemWriter
from tracklog.formats.importers.otlp.logs import record_of, write_log
from tracklog.formats.importers.otlp.memory import Memory
from tracklog.formats.importers.otlp.spans import agent_of, place_span, write_span
from tracklog.formats.importers.otlp.unnamed import UnnamedSpan
from tracklog.formats.importers.otlp.view import LogView, SpanView, views_of
from tracklog.model.errors import BlobDamaged, NoSuchBlob
from tracklog.model.fact import Noted

WRITER = "otlp"
MAPPING = "2"


def write_items(
    items: Iterable[wire.Item],
    out: LineWriter,
    memory: Memory,
    place: dict[str, Any] | None = None,
) -> Iterator[tuple[wire.Item, str, int]]:
    """Each item of a request with its run and the number of its lines.

    `place` is where the items were read from.
    """
    views = []
    for each in views_of(items):
        if each.tool == "opencode" and each.is_of_the_program:
            yield each.item, "", 0
        else:
            views.append(each)
    for each in sorted([each for each in views if each.keys and each.trace], key=_start):
        memory.bind(each.trace, _keyed(each))
    for each in views:
        if isinstance(each, SpanView):
            memory.nest(each.record, each.cause, agent_of(each))
    place = place or {}
    for each in views:
        before = len(out.lines)
        run = _run(each, memory)
        if isinstance(each, SpanView):
            _span(ItemWriter(out, memory.past(run), each, run), each, memory, place)
        elif not each.is_internal:
            _log(ItemWriter(out, memory.past(run), each, run), each, place)
        yield each.item, run, len(out.lines) - before


def _start(each: SpanView | LogView) -> tuple[bool, int]:
    """The earliest span first: its attributes name the run of its trace."""
    return isinstance(each, LogView), each.start if isinstance(each, SpanView) else 0


_run_id = lru_cache(10_000)(run_id)


def _keyed(each: SpanView | LogView) -> str:
    key, value = each.keys[0]
    return value if key == "tracklog.run.id" else _run_id(each.tool, value)


def _run(each: SpanView | LogView, memory: Memory) -> str:
    """The run of an item: by its own key, else its trace's, else its service's."""
    if each.keys:
        return _keyed(each)
    if each.trace:
        known = memory.traces.get(each.trace)
        return known or memory.bind(each.trace, _run_id(each.tool, each.trace))
    return _run_id(each.tool, each.source.host or each.service or "unknown_service")


def _span(writer: ItemWriter, span: SpanView, memory: Memory, place: dict[str, Any]) -> None:
    if writer.is_known(span.record) or (span.own and writer.is_known(f"{span.own} late")):
        return
    if span.pending and span.record in writer.past.records:
        # The announced span was mapped already, and is not opened again.
        writer.begin(record=f"{span.own or span.record} late", place=place, bare=False)
        writer.write(Noted(label="pending", kind=span.name), at=span.began)
        return
    agent, missing = memory.agent_above(span.record)
    unnamed = missing is not None and not span.pending and span.facts is None
    _mapped(writer, span, memory, place, agent, unnamed=unnamed)
    if missing is not None and unnamed:
        content = writer.content.decode()
        found = UnnamedSpan(span.record, writer.run, place, writer.written, writer.stored, content)
        memory.unnamed.add(missing, found)
    for each in memory.unnamed.pop(span.record):
        _renamed(writer.out, each, memory)


def _mapped(
    writer: ItemWriter,
    span: SpanView,
    memory: Memory,
    place: dict[str, Any],
    agent: str | None,
    *,
    unnamed: bool = False,
    speaker: str | None = None,
) -> None:
    generation = genai.generation(span.attrs, span.happenings)
    writer.begin(
        record=span.record,
        place=place,
        bare=False,
        copy=bool(span.own),
        generation=generation,
        unnamed=unnamed,
        speaker=speaker,
    )
    nested = bool(span.parent) and memory.traces.get(span.trace) == writer.run
    call = write_span(writer, span, agent, nested=nested)
    # A span of ours may carry no facts: they are in spans of their own.
    if span.facts != [] and writer.stored not in writer.past.records.get(span.record, ()):
        note = Noted(label="copy", kind=span.name, text="all of it was told by another span")
        writer.write(note, at=span.began, extra=writer.rest())
    _name(writer, span, span.began)
    place_span(writer, span, memory, call)


def _renamed(out: LineWriter, found: UnnamedSpan, memory: Memory) -> None:
    """Write a span again under the agent of a span above it, which arrived later."""
    agent, missing = memory.agent_above(found.record)
    if missing is not None:
        memory.unnamed.add(missing, found)
        return
    span = None if agent is None else _fetched(found, memory)
    if span is None:
        return
    again = ItemWriter(out, memory.past(found.run), span, found.run)
    contents = again.past.records.get(span.record, [])
    if contents and contents[-1] != again.stored:
        return  # the span was corrected since
    again.only = frozenset(found.ids)
    _mapped(again, span, memory, found.place, agent, speaker=agent)


def _fetched(found: UnnamedSpan, memory: Memory) -> SpanView | None:
    """The span as it was stored; None where that is gone."""
    content = found.content
    if content is None:
        if memory.fetch is None:
            return None
        try:
            content = memory.fetch(found.raw).decode()
        except (NoSuchBlob, BlobDamaged, OSError):
            return None
    items, _ = _read(wire.parsed(content.encode()))
    views = views_of(items)
    return views[0] if len(views) == 1 and isinstance(views[0], SpanView) else None


def _log(writer: ItemWriter, log: LogView, place: dict[str, Any]) -> None:
    record = record_of(log)
    if writer.is_known(record):
        return
    generation = genai.generation(log.attrs, (log,)) if "gen_ai." in log.name else None
    writer.begin(record=record, place=place, bare=log.at is None, generation=generation)
    writer.corrects = False
    write_log(writer, log)
    _name(writer, log, log.at)


def _name(writer: ItemWriter, each: SpanView | LogView, at: str | None) -> None:
    """Write every name of the run."""
    for system, name in each.keys:
        if name != writer.run:
            writer.alias(system, name, at)
    if each.trace:
        if each.trace != writer.run:
            writer.alias("trace_id", each.trace, at)
    elif not each.keys and each.service and each.service != writer.run:
        writer.alias("service.name", each.service, at)


class _OtlpReader(Reader):
    """A file of OTLP JSON: one request per line, or one in the complete file."""

    def __init__(self, source: SourceFile, out: LineWriter, state: dict[str, Any]) -> None:
        super().__init__(source, out, state)
        self.memory = Memory(state)

    def identify(self, raw: Raw) -> str | None:
        items, _ = _read(raw.value)
        return _run(views_of(items)[0], Memory()) if items else None

    def record(self, raw: Raw) -> None:
        items, refused = _read(raw.value)
        place = {"path": self.out.path, "offset": raw.offset}
        for _ in write_items(items, self.out, self.memory, place):
            pass  # the lines wait with those of the others
        self.out.report.mapped["span"] += sum(item.envelope.signal == "traces" for item in items)
        self.out.report.mapped["log record"] += sum(
            item.envelope.signal == "logs" for item in items
        )
        for each in refused:
            self.out.report.repaired["refused"] += 1
            self._refuse(raw, each)
        if not items and not refused:
            self.out.about(raw)
            self.out.unknown("record", raw.value)

    def _refuse(self, raw: Raw, refused: wire.RefusedItem) -> None:
        self.out.about(raw)
        found = {"name": "refused", "pointer": refused.pointer, "hint": refused.hint}
        self.out.write(Noted(label="finding", kind="refused", text=refused.message, data=found))


def _read(document: Any) -> tuple[list[wire.Item], list[wire.RefusedItem]]:
    """The items of a request, of whichever signal, and the items that are refused."""
    items: list[wire.Item] = []
    refused: list[wire.RefusedItem] = []
    for signal, (outer, *_) in wire.KEYS.items():
        if not isinstance(document, dict) or outer not in document:
            continue
        try:
            for each in wire.from_document(signal, document):
                if isinstance(each, wire.Item):
                    items.append(each)
                else:
                    refused.append(each)
        except wire.Undecodable as error:
            refused.append(wire.RefusedItem("", str(error), "write it as OTLP JSON"))
    return items, refused


def recognise(path: Path, head: bytes) -> float:
    """Recognise a file by the key of a request, and by what the request holds."""
    found = _REQUEST.match(head)
    if found is None or not (found[1] == b"]" or _HELD.search(head, found.end())):
        return 0.0
    return 0.95 if path.suffix in (".json", ".jsonl", ".ndjson", "") else 0.6


_REQUEST = re.compile(
    rb'\s*\{\s*(?:"[^"]{1,40}"\s*:\s*"[^"]*"\s*,\s*)*"(?:%b)"\s*:\s*\[\s*([\]{])'
    % b"|".join(outer.encode() for outer, *_ in wire.KEYS.values())
)
_HELD = re.compile(
    rb'"(?:resource|%b)"\s*:\s*[\[{]'
    % b"|".join(inner.encode() for _, inner, _ in wire.KEYS.values())
)


def form(_path: Path, head: bytes) -> Form:
    """A document where it is printed over many lines."""
    first = head.lstrip()[:1], head.partition(b"\n")[0].strip()
    return "document" if first[0] == b"{" and first[1] in (b"{", b"[", b"") else "lines"


importer = Importer(
    name=WRITER,
    about="OpenTelemetry spans and log records in files of OTLP JSON.",
    mapping=MAPPING,
    reader=_OtlpReader,
    recognise=recognise,
    form=form,
    fits=lambda body: any(outer in body for outer, *_ in wire.KEYS.values()),
    conversations=CONVERSATIONS,
    proven="recordings of real programs that used a model server for tests",
)
