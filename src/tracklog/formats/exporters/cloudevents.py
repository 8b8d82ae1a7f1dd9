"""cloudevents: one CloudEvent 1.0 per record, with the line as its data."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import orjson

from tracklog.formats.exporters import (
    MAPPING,
    Exporter,
    ExportRecord,
    ExportRun,
    Option,
    Options,
    dumps,
    full_lines,
    span_of,
    utc,
)
from tracklog.formats.loss import Fate

FORWARDED = 65536
"""The size in bytes that every intermediary must forward."""
PREFIX = "dev.tracklog"
SCHEMAS = "tag:tracklog.dev,2026:schemas"
"""The prefix of schema names; an identifier, not an address."""


def write(run: ExportRun, options: Options) -> Iterator[bytes]:
    if options["mode"] == "structured":
        for entry in run.lines():
            yield _event(entry, options) + b"\n"
        return
    opening = b"["
    for entry in run.lines():
        yield opening + _event(entry, options)
        opening = b",\n"
    yield b"[]\n" if opening == b"[" else b"]\n"


def _event(entry: ExportRecord, options: Options) -> bytes:
    event, line = _attributes(entry, options), entry.record.line
    if not line:
        return dumps(event)  # erased: null would mean something else than no data
    if entry.event is None:
        return dumps({**event, "datacontenttype": "application/octet-stream"} | _opaque(line))
    if not cut(entry, options):
        return dumps({**event, "data": orjson.Fragment(line)})
    run = f"{quote(entry.record.family, safe='')}/{quote(entry.record.run, safe='')}"
    return dumps({**event, "dataref": f"{options['base']}/api/runs/{run}?at={entry.seq}"})


def cut(entry: ExportRecord, options: Options) -> bool:
    """Whether a line is too large to be forwarded, so that the event only names its address."""
    line = entry.record.line
    if options["whole"] == "yes" or len(line) < FORWARDED // 2:
        return False
    return len(dumps(_attributes(entry, options))) + len(line) + len(',"data":') > FORWARDED


def _opaque(line: bytes) -> dict[str, str]:
    import base64  # noqa: PLC0415  # only for what is damaged

    return {"data_base64": base64.b64encode(line).decode()}


def _attributes(entry: ExportRecord, options: Options) -> dict[str, Any]:
    record = entry.record
    parts = (options["collector"], record.dialect, record.run)
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": _text(entry.identity) or str(record.seq),
        "source": "/tracklog/" + "/".join(quote(part, safe="") for part in parts),
        "type": f"{PREFIX}.{record.dialect}.{_text(entry.kind) or 'unknown'}",
    }
    run = _text(record.run)
    if run:
        event |= {"subject": run, "correlationid": run, "partitionkey": run}
    at = utc(entry.event.at) if entry.event else None
    if at:
        event["time"] = at
    event |= {
        "datacontenttype": "application/json",
        "dataschema": f"{SCHEMAS}/{quote(record.dialect, safe='')}",
        # An Integer has 32 bits in CloudEvents, and these must sort as text.
        "sequence": f"{record.seq:020d}",
        "recordedtime": record.received,
        "tracklogmapping": MAPPING,
    }
    if entry.event is not None and (cause := _text(entry.event.cause or "")):
        event["causationid"] = cause
    if record.family != record.dialect:
        event["tracklogfamily"] = record.family
    if entry.superseded:
        event["tracklogsuperseded"] = True
    if span := span_of(entry.names):
        event["traceparent"] = f"00-{span[0]}-{span[1]}-01"
    if worst := {finding.level for finding in entry.findings}:
        number, word = (17, "ERROR") if "error" in worst else (13, "WARN")
        if worst != {"info"}:
            event |= {"severitynumber": number, "severitytext": word}
    return event


def _text(value: str) -> str:
    """A String in CloudEvents has no control characters and no surrogates."""
    return re.sub("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]", " ", value).strip()


def fates(_options: Options) -> dict[str, Fate]:
    return full_lines("kept")


exporter = Exporter(
    name="cloudevents",
    about="CloudEvents 1.0: one per record, with the line itself as its data.",
    media_type="application/cloudevents-batch+json",
    media_types={("mode", "structured"): "application/x-ndjson"},
    suffix=".cloudevents.json",
    write=write,
    fates=fates,
    cut=cut,
    options={
        "mode": Option("One JSON array, or one event per line.", ("batch", "structured"), "batch"),
        "collector": Option("The name of the collector, in each source.", usual="local"),
        "base": Option("The collector's URL, to fetch lines from that are too large for an event."),
        "whole": Option(
            "Include lines that make an event larger than 64 KiB.", ("no", "yes"), "no"
        ),
    },
)
