"""Records as they are stored in the journal, a page at a time."""

from typing import TYPE_CHECKING

from starlette.responses import Response

from tracklog.answers import Arguments
from tracklog.collector.watching import StreamFilter, filter_of
from tracklog.journal import frame
from tracklog.journal.frame import seq_of
from tracklog.journal.sharding import ShardedStore, cursor_text, ends_of
from tracklog.web.trouble import Trouble

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.home.home import Home
    from tracklog.web.routing import RoutedRequest

_SCANNED = 100_000  # records that one page of a filtered reading examines
_PAGE = 16 << 20  # bytes of frames in one page


async def events(collector: "Collector", call: "RoutedRequest") -> Response:
    home, query = collector.home, call.query
    return await collector.runner.run(
        lambda: Response(_page(home, query), media_type="application/json")
    )


def _page(home: "Home", query: Arguments) -> bytes:
    """Frames as they are stored in the journal, from the cursor on, as many as fit."""
    after, limit = query["after"], query["limit"]
    stream_filter = filter_of(home, query["run"], query["dialect"], query["kind"])
    if stream_filter.run is not None and not stream_filter.run[0]:
        home.run(query["run"])  # raises if there is none, with similar names
    all_of_run = (
        stream_filter.dialect is None and stream_filter.kind is None
    )  # the store itself selects the run
    if isinstance(home.store, ShardedStore) and stream_filter.run is None:
        return _page_of_shards(home, home.store, query, stream_filter)
    lines: list[bytes] = []
    size = scanned = 0
    of = stream_filter.run
    last = (home.journal if of is None else home.journal_of(of)).last
    while len(lines) < limit and size < _PAGE and scanned < _SCANNED:
        frames = home.store.read(after, min(1000, limit), stream_filter.run)
        if not frames:
            after = max(after, last) if after <= last else after
            break
        scanned += len(frames)
        for each, record in zip(frames, frame.read(frames), strict=True):
            if record is None:
                after = max(after, seq_of(each))
                continue
            after = record.seq
            if all_of_run or stream_filter.matches(record, home):
                lines.append(each)
                size += len(each)
                if len(lines) >= limit or size >= _PAGE:
                    break
    page = b'{"first":%d,"last":%d,"next":%d,"events":[%b]}'
    return page % (home.journal.first, last, after, b",".join(lines))


def _page_of_shards(
    home: "Home", store: ShardedStore, query: Arguments, wanted: StreamFilter
) -> bytes:
    """The same over all shards; the position is a cursor, and no number."""
    limit, text = query["limit"], query["cursor"]
    if text is None and query["after"]:
        raise Trouble(
            400,
            "this store has several shards: a number does not say where to continue",
            "give `cursor` instead of `after`, as the last page has it",
        )
    ends = (0,) * len(store.parts) if text is None else ends_of(text, len(store.parts))
    if ends is None:
        raise Trouble(400, f"{text[:80]!r} is no cursor", "it is `cursor` of the last page")
    lines: list[bytes] = []
    size = scanned = 0
    while len(lines) < limit and size < _PAGE and scanned < _SCANNED:
        frames = store.read_behind(ends, min(1000, limit))
        if not frames:
            break
        scanned += len(frames)
        reached = store.moved(ends, frames)
        for each, at, record in zip(frames, reached, frame.read(frames), strict=True):
            ends = at
            if record is not None and wanted.matches(record, home):
                lines.append(each)
                size += len(each)
                if len(lines) >= limit or size >= _PAGE:
                    break
    page = b'{"first":%d,"last":%d,"next":%d,"cursor":"%b","events":[%b]}'
    first, last = home.journal.first, home.journal.last
    return page % (first, last, sum(ends), cursor_text(ends).encode(), b",".join(lines))
