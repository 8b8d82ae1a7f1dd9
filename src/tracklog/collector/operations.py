"""Health and metrics, for the operator of the collector."""

import time
from typing import TYPE_CHECKING

from starlette.responses import Response

from tracklog import __version__
from tracklog.collector.metrics import Metric, Sample
from tracklog.demo import is_demo
from tracklog.journal.checkpoints.checkpoint import last_checkpoint
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.collector.shapes import Health
    from tracklog.web.routing import RoutedRequest


async def health(collector: "Collector", call: "RoutedRequest") -> Response:  # noqa: ARG001  # an endpoint
    """The health of the server; it does not reveal what is recorded, because anybody may ask."""
    if collector.hub.stopping:
        return json_response({"status": "stopping"}, 503)
    healthy: Health = {"status": "ok", "version": __version__}
    if is_demo(collector.home.path):
        healthy["demo"] = True
    return json_response(healthy)


async def checkpoint(collector: "Collector", call: "RoutedRequest") -> Response:  # noqa: ARG001  # an endpoint
    """The last checkpoint, as a signed note."""
    note = await collector.runner.run(lambda: last_checkpoint(collector.home.storage))
    if note is None:
        raise Trouble(404, "there is no checkpoint yet", "`tracklog checkpoint` makes one")
    return Response(str(note), media_type="text/plain; charset=utf-8")


async def metrics(collector: "Collector", call: "RoutedRequest") -> Response:  # noqa: ARG001  # an endpoint
    """The metrics for Prometheus."""
    counts, hub, journal = collector.counts, collector.hub, collector.home.journal
    verdicts = [
        ((("dialect", dialect), ("verdict", verdict)), float(count))
        for (dialect, verdict), count in sorted(counts.verdicts.items())
    ]
    requests = [
        ((("method", method), ("route", route), ("status", str(status))), float(count))
        for (method, route, status), count in sorted(counts.requests.items())
    ]
    unarchived: list[Sample] = []
    behind = [each.behind for each in collector.archivers]
    if any(each is not None for each in behind):
        unarchived = [((), sum(each or 0 for each in behind))]
    unindexed: list[Sample] = []
    if collector.home.shares_index:
        unindexed = [((), journal.last - (collector.home.index.known or 0))]
    checkpointer = collector.checkpointer
    signed: list[Sample] = [] if checkpointer is None else [((), checkpointer.size)]
    metrics_list = [
        Metric("lines_total", "counter", "Lines that came in over HTTP.", verdicts),
        Metric("requests_total", "counter", "Requests that were answered.", requests),
        Metric(
            "metric_points_dropped_total",
            "counter",
            "Data points of OTLP metrics, which are accepted and not stored.",
            [((), counts.points)],
        ),
        Metric("streams", "gauge", "Watchers that are connected.", [((), hub.watching)]),
        Metric(
            "streams_closed_total", "counter", "Watchers that read nothing.", [((), hub.closed)]
        ),
        Metric("held_bytes", "gauge", "Request bodies in memory.", [((), collector.held.now)]),
        Metric("journal_first", "gauge", "The first record kept.", [((), journal.first)]),
        Metric("journal_last", "gauge", "The last record.", [((), journal.last)]),
        Metric("index_behind", "gauge", "Records that are not indexed yet.", unindexed),
        Metric("archive_behind", "gauge", "Records that are not archived yet.", unarchived),
        Metric(
            "checkpoint_records",
            "gauge",
            "Records of the last checkpoint that was published everywhere.",
            signed,
        ),
        Metric("uptime_seconds", "gauge", "Since the start.", [((), time.time() - counts.began)]),
    ]
    text = "".join(map(str, metrics_list))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
