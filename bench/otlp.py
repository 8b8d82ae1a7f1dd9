"""What it costs to map spans of OpenTelemetry, against decoding them alone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from peers import Lines, trace_of
from timing import goal, interleaved, micros

SPANS = 100
REQUESTS = 20


def main() -> None:
    bodies = [trace_of(SPANS)[1] for _ in range(REQUESTS)]
    ours = Lines.__new__(Lines)  # no server is needed to map
    decode = ExportTraceServiceRequest.FromString
    times = interleaved(
        {
            "decode": lambda: [decode(body) for body in bodies],
            "map": lambda: [ours.request(body) for body in bodies],
        }
    )
    count = SPANS * REQUESTS
    floor = micros(times["decode"], count)
    goal("map OTLP, per span", times["map"] / count * 1e6, "µs", at_most=40, floor=floor)


if __name__ == "__main__":
    main()
