"""CloudEvents 1.0: one structured event, a batch, or one event per line."""

import binascii
from base64 import b64decode
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers import (
    LONG,
    Form,
    Importer,
    Raw,
    Reader,
    Signs,
    by_signs,
    remember,
    run_id,
    utc_time,
    word,
)
from tracklog.model.fact import Linked, Noted

NAME = "cloudevents"
OURS = "dev.tracklog."
"""The prefix of the types of events that carry one of our lines."""
KNOWN = ("specversion", "id", "source", "type", "time", "data", "data_base64")


class CloudeventsReader(Reader):
    """Reads events: our lines are unwrapped, the events of others are noted."""

    def identify(self, raw: Raw) -> str | None:
        for value in raw.value if isinstance(raw.value, list) else [raw.value]:
            if isinstance(value, dict) and "specversion" in value:
                return _run(value)
        return None

    def record(self, raw: Raw) -> None:
        for value in raw.value if isinstance(raw.value, list) else [raw.value]:
            part = raw
            if isinstance(raw.value, list):
                data = orjson.dumps(value)
                part = raw._replace(data=data, value=value, exact=True, flaws=())
            if isinstance(value, dict) and "specversion" in value:
                self._event(part, value)
            else:
                self.out.unknown("record", self.out.about(part, bare=True))

    def _event(self, raw: Raw, event: dict[str, Any]) -> None:
        kind = word(event.get("type")) or "event"
        if kind.startswith(OURS) and (line := _line(raw, event)) is not None:
            self.out.report.mapped["line"] += 1
            self.out.quote(kind.removeprefix(OURS).partition(".")[0], line)
            return
        if kind.startswith(OURS) and not {"data", "data_base64"} & event.keys():
            self.out.report.ignored[_absent(kind)] += 1  # a note would create a run of its own
            return
        # Source and id identify the record, whatever else an intermediary added.
        source, id = word(event.get("source")), word(event.get("id"))
        named = raw
        if source and id:
            named = raw._replace(value=[source, id], exact=True)
        bare = not (source and id) and not event.get("time")
        self.out.about(named, key=f"{source} {id}" if source and id else None, bare=bare)
        value = self.out.lift.value(event)
        self.out.report.mapped["event"] += 1
        content = value.get("data")
        if "data_base64" in event:
            content = self._decoded(event)
        extra = {key: each for key, each in value.items() if key not in KNOWN and each is not None}
        run = _run(event)
        cause = word(event.get("causationid"))
        at = utc_time(event.get("time"))
        noted = Noted(label=kind, kind=kind, data=content)
        self.out.write(noted, run=run, at=at, cause=cause, extra=extra)
        named_before = self.state.setdefault("named", {})
        if run not in named_before:
            remember(named_before, run, 1, LONG)
            self.out.write(Linked(kind="alias", system=NAME, alias=_native(event)), run=run, at=at)

    def _decoded(self, event: dict[str, Any]) -> Any:
        encoded = event["data_base64"]
        try:
            content = b64decode(encoded, validate=True) if isinstance(encoded, str) else None
        except (binascii.Error, ValueError):
            content = None
        if content is None:
            return self.out.lift.value(encoded)
        media = word(event.get("datacontenttype")) or "application/octet-stream"
        return self.out.lift.blob(content, media)


def _absent(kind: str) -> str:
    """The reason why one of our events carries no line."""
    return "line: erased" if kind.endswith(".erased") else "line: too big, not forwarded"


def _native(event: dict[str, Any]) -> str:
    """The name of an event's run: the correlation, the subject, else the source."""
    keys = ("correlationid", "subject", "source")
    return next((name for key in keys if (name := word(event.get(key)))), "unknown")


def _run(event: dict[str, Any]) -> str:
    return run_id(NAME, _native(event))


def _line(raw: Raw, event: dict[str, Any]) -> bytes | None:
    """The line of ours that an event carries, with its original bytes where they can be found."""
    if isinstance(line := event.get("data"), dict):
        dumped = orjson.dumps(line)
        return dumped if dumped in raw.data or not raw.exact else _exact(raw.data, line) or dumped
    return None


def _exact(data: bytes, line: dict[str, Any]) -> bytes | None:
    """The bytes of the object after `"data":`, if they match the parsed value."""
    start = data.find(b'"data":')
    if start < 0:
        return None
    text = data[start + len(b'"data":') :].lstrip()
    depth, quoted, skip = 0, False, False
    for place, byte in enumerate(text):
        if skip:
            skip = False
        elif byte == 0x5C:
            skip = quoted
        elif byte == 0x22:
            quoted = not quoted
        elif not quoted and byte in b"{[":
            depth += 1
        elif not quoted and byte in b"}]":
            depth -= 1
            if not depth:
                exact = text[: place + 1]
                return exact if b"\n" not in exact and orjson.loads(exact) == line else None
    return None


def form(path: Path, head: bytes) -> Form:
    if head.lstrip().startswith(b"["):
        return "document"  # a batch, whatever the file is called
    if path.suffix in (".jsonl", ".ndjson"):
        return "lines"
    first, _, rest = head.strip().partition(b"\n")
    try:
        whole = isinstance(orjson.loads(first), dict)
    except orjson.JSONDecodeError:
        whole = False
    return "lines" if whole and rest.strip() else "document"


SIGNS = (
    Signs({"specversion": str, "source": str, "type": str, "id": str}, sure=0.98),
    Signs({"specversion": str, "source": str, "type": str}),
)


importer = Importer(
    name=NAME,
    about="CloudEvents 1.0: structured, as a batch, or one per line.",
    mapping="1",
    reader=CloudeventsReader,
    recognise=by_signs(SIGNS),
    form=form,
    fits=lambda body: "specversion" in body,
    proven="events of version 1.0, written as tests",
)
