"""Seconds per event for an OpenTelemetry span with the same content, until it is in an OTLP file."""

import sys
import time

# A script's own folder comes first in the path, and this file has the name of the package.
sys.path.pop(0)

import gc
import json
import statistics
from pathlib import Path

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

RUN = "7da9247c-e99e-4852-ac0a-aaf196ae31fa"


class OtlpFile(SpanExporter):
    """Appends each batch to a file, as an OTLP request."""

    def __init__(self, path):
        self.file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed with the process

    def export(self, spans):
        self.file.write(encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS


def main():
    given, folder = sys.argv[1:]
    story = json.loads(Path(given).read_bytes())
    provider = TracerProvider()
    # The queue takes everything: nothing is dropped, everything is written.
    batch = BatchSpanProcessor(OtlpFile(f"{folder}/otlp.bin"), max_queue_size=len(story) * 2)
    provider.add_span_processor(batch)
    tracer = provider.get_tracer("bench")

    def record():
        for kind, payload, path in story:
            attributes = {
                "run_id": RUN,
                "path": path,
                "iteration": 0,
                "payload": json.dumps(payload),
            }
            with tracer.start_as_current_span(kind, attributes=attributes):
                pass
        provider.force_flush()

    taken = []
    for _ in range(4):  # the first round is to get warm
        gc.collect()
        gc.disable()  # as for ours
        began = time.perf_counter()
        record()
        taken.append((time.perf_counter() - began) / len(story))
        gc.enable()
    print(statistics.median(taken[1:]))
    provider.shutdown()


main()
