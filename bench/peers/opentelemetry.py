"""CPU seconds per event with the same content, until it is in an OTLP file: an OpenTelemetry span, and
a record of its Logs SDK.
"""

import sys
import time

# A script's own folder comes first in the path, and this file has the name of the package.
sys.path.pop(0)

import json
from pathlib import Path

from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    LogRecordExportResult,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

RUN = "7da9247c-e99e-4852-ac0a-aaf196ae31fa"


class SpanFile(SpanExporter):
    """Appends each batch to a file, as an OTLP request."""

    def __init__(self, path):
        self.file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed with the process

    def export(self, spans):
        self.file.write(encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS


class LogFile(LogRecordExporter):
    """The same for records of the Logs SDK."""

    def __init__(self, path):
        self.file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed with the process

    def export(self, batch):
        self.file.write(encode_logs(batch).SerializeToString())
        return LogRecordExportResult.SUCCESS

    def force_flush(self, timeout_millis=0):  # noqa: ARG002  # nothing waits here
        return True

    def shutdown(self):
        self.file.close()


def main():
    given, folder = sys.argv[1:]
    story = json.loads(Path(given).read_bytes())
    # The queues take everything: nothing is dropped, everything is written.
    most = len(story) * 2
    spans, logs = TracerProvider(), LoggerProvider()
    to_file = BatchSpanProcessor(SpanFile(f"{folder}/spans.bin"), max_queue_size=most)
    spans.add_span_processor(to_file)
    to_file = BatchLogRecordProcessor(LogFile(f"{folder}/logs.bin"), max_queue_size=most)
    logs.add_log_record_processor(to_file)
    tracer, logger = spans.get_tracer("bench"), logs.get_logger("bench")

    def attributes(payload, path):
        return {"run_id": RUN, "path": path, "iteration": 0, "payload": json.dumps(payload)}

    def span():
        for kind, payload, path in story:
            with tracer.start_as_current_span(kind, attributes=attributes(payload, path)):
                pass
        spans.force_flush()

    def log():
        for kind, payload, path in story:
            now = time.time_ns()
            logger.emit(timestamp=now, event_name=kind, attributes=attributes(payload, path))
        logs.force_flush()

    for record in (span, log):
        taken = []
        for _ in range(4):  # the first round is to get warm
            began = time.process_time()
            record()
            taken.append((time.process_time() - began) / len(story))
        print(min(taken[1:]))
    spans.shutdown()
    logs.shutdown()


main()
