"""Records as they are stored in the journal, a page at a time."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from tracklog.collector.stream import filter_of
from tracklog.journal import frame
from tracklog.journal.frame import seq_of

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.home.home import Home
    from tracklog.web.routing import Call

_SCANNED = 100_000  # records that one page of a filtered reading examines
_PAGE = 16 << 20  # bytes of frames in one page


async def events(collector: "Collector", call: "Call") -> Response:
    home, query = collector.home, call.query
    return await collector.runner.run(
        lambda: Response(_page(home, query), media_type="application/json")
    )


def _page(home: "Home", query: Mapping[str, Any]) -> bytes:
    """Frames as they are stored in the journal, from the cursor on, as many as fit."""
    after, limit = query["after"], query["limit"]
    stream_filter = filter_of(home, query["run"], query["dialect"], query["kind"])
    if stream_filter.run is not None and not stream_filter.run[0]:
        home.run(query["run"])  # raises if there is none, with similar names
    all_of_run = (
        stream_filter.dialect is None and stream_filter.kind is None
    )  # the store itself selects the run
    lines: list[bytes] = []
    size = scanned = 0
    last = home.journal.last
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
