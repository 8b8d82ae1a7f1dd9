"""agui: the run as an AG-UI event stream (SSE), in the order that its clients require."""

from collections.abc import Callable, Iterable, Iterator

from tracklog.formats.exporters import (
    Exporter,
    ExportRecord,
    ExportRun,
    Option,
    Options,
    dumps,
    every,
    some,
)
from tracklog.formats.exporters.agui.stream import Event, EventStream
from tracklog.formats.loss import Fate
from tracklog.model.fact import FACTS, Began, Called, Returned, Said


def write(run: ExportRun, options: Options) -> Iterator[bytes]:
    stream, last = _stream(lambda: run, options, keeps=run.asks), 0
    for entry in run.records():
        for event in stream.add(entry):
            yield b"id: %d\ndata: %b\n\n" % (entry.seq, dumps(event))
        last = entry.seq
    if run.summary.get("ended"):
        for event in stream.end():
            yield b"id: %d\ndata: %b\n\n" % (last, dumps(event))


class Followed:
    """A running run as server-sent events; an id says that everything up to it was sent."""

    def __init__(self, now: Callable[[], ExportRun], options: Options) -> None:
        self._stream = _stream(now, options, keeps=True)

    def write(self, entry: ExportRecord, *, ended: bool) -> bytes:
        """The events of a record; the number of a record that may be the last is sent with the end."""
        events = list(self._stream.add(entry))
        return _frames(events, None if ended and self._stream.open else entry.seq)

    def join(self, cursor: int) -> bytes:
        """The state up to here, for a late subscriber."""
        return _frames(self._stream.join(), cursor)

    def gap(self, after: int, next: int) -> bytes:
        """The event for records that were deleted."""
        return _frames(self._stream.miss({"after": after, "next": next}), next - 1)

    def end(self, cursor: int) -> bytes:
        """The remaining events once the run has ended."""
        return _frames(self._stream.end(), cursor)


def _stream(now: Callable[[], ExportRun], options: Options, *, keeps: bool) -> EventStream:
    return EventStream(now, raw=options["raw"] == "yes", keeps=keeps)


def _frames(events: Iterable[Event], number: int | None) -> bytes:
    """The number comes with the last event: a client that is cut off before it gets all of them
    again.
    """
    frames = [b"data: %b\n\n" % dumps(event) for event in events]
    if frames and number is not None:
        frames[-1] = b"id: %d\n%b" % (number, frames[-1])
    return b"".join(frames)


def fates(options: Options) -> dict[str, Fate]:
    """An event carries the fact it was made from; fields that the format can express are kept."""
    raw: Fate = "carried" if options["raw"] == "yes" else "dropped"
    carried_fates = every("carried", FACTS) | (
        some("kept", Began, "what step")
        | some("kept", Returned, "call_id output")
        | some("kept", Called, "tool call_id input")
        | some("kept", Said, "role blocks agent")
        | {"at": "kept", "unreadable": raw}
    )
    return {
        name: fate for name, fate in carried_fates.items() if not name.endswith(".synthetic_id")
    }


exporter = Exporter(
    name="agui",
    about="AG-UI: the run as the event stream that agent user interfaces read.",
    media_type="text/event-stream",
    suffix=".sse",
    write=write,
    follow=Followed,
    fates=fates,
    options={
        "raw": Option(
            "Send each recorded line before the events that are made from it.", ("no", "yes"), "no"
        ),
    },
)
