"""otel: the run as OpenTelemetry spans with the GenAI conventions, as an OTLP request.

Ids are derived from the run, so exporting twice overwrites; a run imported from OTLP keeps its ids.
"""

from collections.abc import Iterator

from tracklog.formats.exporters import Exporter, ExportRun, Option, Options, every, some
from tracklog.formats.exporters.otel.encoding import Encoding, Json, Protobuf
from tracklog.formats.exporters.otel.spans import ExportSpan, Values, span_id, trace_id
from tracklog.formats.exporters.otel.tree import CONTENT, SpansOf
from tracklog.formats.loss import Fate
from tracklog.model.fact import FACTS, Began, Called, Ended, Returned, Said, Spent

SCHEMA_URLS = {
    "1.41": "https://opentelemetry.io/schemas/1.41.0",
    "1.42": "https://opentelemetry.io/schemas/gen-ai/1.42.0",
}
BATCH = 100
"""Spans that are written in one piece."""


def write(run: ExportRun, options: Options) -> Iterator[bytes]:
    encode = Protobuf if options["encoding"] == "protobuf" else Json
    encoding = encode(SCHEMA_URLS[options["generation"]])
    trace = run.trace or trace_id(*run.root)
    yield from encoding.begin()
    yield from _written(run, trace, _above(run), encoding, options)
    yield from encoding.end()


def _above(run: ExportRun) -> str | None:
    """The parent span of a run whose parent is known and not exported here."""
    if run.parent is None:
        return None
    role = "run" if run.call is None else "tool"
    return span_id(*run.parent, role, run.call or "")


def _written(
    run: ExportRun, trace: str, above: str | None, encoding: Encoding, options: Options
) -> Iterator[bytes]:
    tree = SpansOf(run, trace, above, options)
    yield from encoding.open(_resource(run))
    batch: list[ExportSpan] = []
    for span in tree.spans():
        batch.append(span)
        if len(batch) == BATCH:
            yield from encoding.spans(batch)
            batch = []
    yield from encoding.spans(batch)
    yield from encoding.close()
    for child in run.below:
        hangs = tree.tools.get(child.call or "", tree.id)
        yield from _written(child, child.trace or trace, hangs, encoding, options)


def _resource(run: ExportRun) -> Values:
    agents = list(run.summary.get("agents") or ())
    software = run.opening.get("software") or {}
    name = software.get("name") or run.family
    if len(agents) == 1:
        name = agents[0]
    values: Values = {"service.name": str(name)}
    if run.opening.get("host"):
        values["service.instance.id"] = str(run.opening["host"])
    return values


def fates(options: Options) -> dict[str, Fate]:
    """Each span carries the facts it was made from; fields that the conventions can express are
    kept.
    """
    carried_fates = every("carried", FACTS) | (
        some("kept", Began, "what agent step")
        | some("kept", Ended, "what agent step passed")
        | some("kept", Called, "tool call_id input")
        | some("kept", Returned, "call_id ok output")
        | some("kept", Said, "role blocks agent model stop_reason")
        | some("kept", Spent, "agent provider model usage")
        | {"at": "kept", "sub-run": "kept"}
    )
    hidden = set() if options["content"] == "yes" else CONTENT
    return {
        name: fate
        for name, fate in carried_fates.items()
        if name.partition(".")[2] not in {"synthetic_id", *hidden}
    }


def synthesised(run: ExportRun, options: Options) -> Iterator[str]:
    tree = SpansOf(run, "", None, options)
    for _ in tree.spans():
        pass
    yield from sorted(tree.made_up)


exporter = Exporter(
    name="otel",
    about="OpenTelemetry spans with the GenAI conventions, as an OTLP request.",
    media_type="application/json",
    media_types={("encoding", "protobuf"): "application/x-protobuf"},
    suffix=".otlp.json",
    write=write,
    fates=fates,
    synthesised=synthesised,
    options={
        "generation": Option("The version of the GenAI conventions.", ("1.41", "1.42"), "1.41"),
        "content": Option(
            "The text of messages, and the inputs and outputs of tools.", ("no", "yes"), "no"
        ),
        "encoding": Option("How the request is encoded.", ("json", "protobuf"), "json"),
    },
)
