"""Spans and log records as tests write them, and a home that takes them."""

import json
from base64 import b64encode

import orjson
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.asking import ask
from support.failing import HastyDisk
from tracklog.answers.tree import tree
from tracklog.collector.otlp import Telemetry
from tracklog.home.home import Home
from tracklog.journal.blobs import FileBlobs

TRACE = "5b8efff798038103d269b633813fc60c"


def value(given):
    """A JSON value as an AnyValue."""
    match given:
        case None:
            return {}
        case bool():
            return {"boolValue": given}
        case int():
            return {"intValue": str(given)}
        case float():
            return {"doubleValue": given}
        case str():
            return {"stringValue": given}
        case list():
            return {"arrayValue": {"values": [value(each) for each in given]}}
    return {"kvlistValue": {"values": pairs(given)}}


def pairs(given):
    return [{"key": key, "value": value(each)} for key, each in given.items()]


def span(number=1, name="step", attributes=None, parent=None, **more):
    body = {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": "1778000000000000000",
        "endTimeUnixNano": "1778000001000000000",
        "attributes": pairs(attributes or {}),
    }
    return body | ({"parentSpanId": f"{parent:016x}"} if parent else {}) | more


def traces(*spans, **resource):
    held = {"attributes": pairs(resource or {"service.name": "sample"})}
    return {"resourceSpans": [{"resource": held, "scopeSpans": [{"spans": list(spans)}]}]}


def logs(*records, **resource):
    held = {"attributes": pairs(resource or {"service.name": "sample"})}
    return {"resourceLogs": [{"resource": held, "scopeLogs": [{"logRecords": list(records)}]}]}


def chat(number, said, answer, parent=1, **attributes):
    return span(
        number,
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "m",
            "gen_ai.conversation.id": "talk",
            "gen_ai.input.messages": json.dumps([message(*each) for each in said]),
            "gen_ai.output.messages": json.dumps([message("assistant", answer)]),
            **attributes,
        },
        parent,
    )


def message(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def as_protobuf(signal, document):
    """A request as the reference implementation writes it."""

    def rebased(given):
        # Its JSON has ids in base64, as protobuf has it; OTLP has them in hex.
        if isinstance(given, list):
            return [rebased(each) for each in given]
        if isinstance(given, dict):
            return {
                key: b64encode(bytes.fromhex(each)).decode()
                if key in ("traceId", "spanId", "parentSpanId")
                else rebased(each)
                for key, each in given.items()
            }
        return given

    request = ExportTraceServiceRequest() if signal == "traces" else ExportLogsServiceRequest()
    json_format.ParseDict(rebased(document), request)
    return request.SerializeToString()


class Door:
    """A home and what takes telemetry for it, in this process."""

    def __init__(self, path, **options):
        self.home = Home(path, durability="os", **options)
        self.home.blobs = FileBlobs(path, HastyDisk())
        self.telemetry = Telemetry(self.home)

    def close(self):
        self.telemetry.close()
        self.home.close()

    def send(self, document, signal=None):
        signal = signal or ("logs" if "resourceLogs" in document else "traces")
        return self.telemetry.take(signal, orjson.dumps(document), as_json=True)

    def lines(self):
        return [orjson.loads(record.line) for record in self.home.journal.records()]

    def facts(self, kind):
        return [line for line in self.lines() if line["fact"] == kind]

    def runs(self, now="2026-05-05T17:00:00.000Z"):
        self.home.index.catch_up()
        return ask(self.home, "runs", now=now)

    def costs(self):
        self.home.index.catch_up()
        return ask(self.home, "costs")

    def unseen(self):
        """The spans that others named as their parents, and that were not seen."""
        self.home.index.catch_up()
        index = self.home.index
        found = [each.finding for run in index.unfinished() for each in index.rest(run)]
        return sorted(each.message.split()[1] for each in found if each.name == "parent-not-seen")

    def tree(self):
        self.home.index.catch_up()
        return tree(self.home)

    def begin_again(self):
        """As after a restart: nothing is remembered."""
        self.telemetry.close()
        self.telemetry = Telemetry(self.home)
