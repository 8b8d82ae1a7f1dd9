"""Runs written in other people's formats: valid there, the same bytes each time, honest about losses."""

import base64
import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import pytest
from click.testing import CliRunner
from google.protobuf.json_format import MessageToJson
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import BaseModel, ConfigDict, Field

from support import sampling as samples
from support.asking import ask
from support.exporting import (
    A_TALK,
    DIALECTS,
    FLIGHTS,
    RUN,
    export_runs,
    facts_of,
    generated,
    records,
    sample,
    text,
    told,
)
from support.soaking import SOAK
from support.watching import check_stream
from tracklog.cli import tracklog
from tracklog.collector.marking import mark
from tracklog.dialects import tracklog as native
from tracklog.folds import run_of
from tracklog.formats import registry
from tracklog.formats.export import export, export_run, export_run_of, losses
from tracklog.formats.exporters.otel.spans import span_id, trace_id
from tracklog.home.home import Home
from tracklog.journal.frame import Erased, Record
from tracklog.model.errors import UnknownName
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Linked,
    Marked,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)
from tracklog.testing import ExporterSuite, lines_of_file

NAMES = registry.exporter_names()
ROOT = Path(__file__).parents[2]
IMPORTED = Path(__file__).parents[1] / "samples"


def written(run, name, **options) -> bytes:
    return b"".join(export(run, name, options))


def one(*facts, **more):
    """The run of some facts."""
    return export_runs(told(*facts, **more))[0]


@pytest.mark.parametrize("path", FLIGHTS, ids=samples.name_of)
def test_every_sample_is_written_in_every_format_and_passes_its_rules(path):
    for each in export_runs(sample(path)):
        check_formats(each)


@settings(max_examples=40 * SOAK)
@given(generated())
def test_every_run_is_written_in_every_format_and_passes_its_rules(recorded):
    for each in export_runs(recorded):
        check_formats(each)


def check_formats(run):
    check_otlp(json.loads(written(run, "otel", content="yes")), inside=run.parent is not None)
    check_trajectory(json.loads(written(run, "atif")))
    check_stream(written(run, "agui", raw="yes"))
    for event in json.loads(written(run, "cloudevents")):
        check_cloud_event(event)
    check_page(written(run, "html").decode(), run)


GOLDEN = {
    "awf-whole-run": "awf/a-whole-run",
    "kahn-agent-converges": "kahn-agent/converges",
    "fishbowl-contest": "fishbowl/a-judged-contest",
}


@pytest.mark.parametrize("golden", GOLDEN)
@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_written_as_the_sample_has_it(name, golden):
    """Refreshed by TRACKLOG_REFRESH; read the difference before it is committed."""
    path = next(p for p in samples.of("good") if samples.name_of(p) == GOLDEN[golden])
    made = export_runs(sample(path))[0]
    file = IMPORTED / "exporters" / name / f"{golden}{registry.exporter(name).suffix}"
    if samples.REFRESH:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(written(made, name))
    assert written(made, name) == file.read_bytes()


class TestAtif(ExporterSuite):
    exporter = registry.exporter("atif")
    streams = False  # a late result stands in an early step there, so the document is made whole


for each in registry.exporters():
    suite = f"Test{each.name.title()}"
    if suite not in globals():
        globals()[suite] = type(suite, (ExporterSuite,), {"exporter": each, "__module__": __name__})


def test_every_format_of_the_folder_passes_the_suite():
    assert {each.exporter.name for each in ExporterSuite.__subclasses__()} >= set(NAMES)


def test_the_folder_is_the_registry():
    assert {"agui", "atif", "cloudevents", "html", "jsonl", "otel"} <= set(NAMES)
    assert [each.name for each in registry.exporters()] == NAMES
    with pytest.raises(UnknownName) as caught:
        registry.exporter("pdf")
    assert "html" in caught.value.hint


OUTSIDE = '''
"""count: a format that this test made up."""

from tracklog.formats.exporters import Exporter


def write(run, options):
    yield b"%d records" % sum(1 for _ in run.records())


exporter = Exporter(
    name="count", about="How many records.", media_type="text/plain", suffix=".txt",
    write=write, fates=lambda options: {},
)
'''


def test_one_file_adds_a_format(home, tmp_path):
    (tmp_path / "counting.py").write_text(OUTSIDE)
    info = tmp_path / "counting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tracklog.exporters]\ncount = counting:exporter\n")
    done = subprocess.run(
        [sys.executable, "-m", "tracklog", "export", "count", RUN, "--home", str(home)],
        capture_output=True,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        timeout=60,
        check=False,
    )
    assert done.stdout == b"11 records", done.stderr


def test_the_loss_report_counts_what_a_run_says():
    report = losses(one(*A_TALK), "otel")
    rows = {(row["kind"], row["field"]): row for row in report.rows()}
    assert rows["Called", "Called.input"]["dropped"] == 2
    assert rows["Called", "Called.tool"]["kept"] == 2
    assert not report.lossless
    assert losses(one(*A_TALK), "jsonl").lossless
    assert not losses(one(*A_TALK), "otel", {"content": "yes"}).counts[
        "Called", "Called.input", "dropped"
    ]


def test_what_stands_in_for_something_unsaid_is_called_synthesised():
    nameless = one(Began(what="run"), text("hi"))
    for name, field in (("atif", "agent.version"), ("otel", "gen_ai.provider.name")):
        rows = {row["field"]: row for row in losses(nameless, name).rows()}
        assert rows[field]["synthesised"] == 1
    rows = {row["field"]: row for row in losses(nameless, "otel", {"content": "yes"}).rows()}
    assert rows["finish_reason"]["synthesised"] == 1
    known = Began(what="run", agent="a", software={"name": "s", "version": "2"})
    assert losses(one(known), "atif").totals()["synthesised"] == 0


# jsonl


def test_the_lines_of_a_run_are_written_byte_for_byte():
    recorded = told(*A_TALK)
    assert written(export_runs(recorded)[0], "jsonl") == b"".join(r.line + b"\n" for r in recorded)


@pytest.fixture
def home(tmp_path):
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(b"".join(record.line + b"\n" for record in told(*A_TALK)))
    done = run("record", str(lines), home=tmp_path / "home")
    assert done.exit_code == 0, done.output
    return tmp_path / "home"


def run(*arguments, home):
    return CliRunner().invoke(tracklog, [*arguments, "--home", str(home)])


@pytest.mark.parametrize("frames", ["no", "yes"])
def test_exported_lines_are_proven_by_the_script_that_needs_nothing(home, tmp_path, frames):
    file = tmp_path / "run.jsonl"
    done = run("export", "jsonl", RUN, "-o", str(file), "-O", f"frames={frames}", home=home)
    assert done.exit_code == 0, done.output
    script = ROOT / "contracts" / "tracklog_verify.py"
    proof = tmp_path / "run.jsonl.proof.json"
    command = [sys.executable, "-I", str(script), str(file), str(proof)]
    proven = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert proven.returncode == 0, proven.stdout
    assert proven.stdout.startswith(b"proven: 11 lines")
    file.write_bytes(file.read_bytes().replace(b"I look.", b"I lurk."))
    again = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert again.returncode == 1


def test_export_strict_writes_nothing_when_something_would_be_lost(home, tmp_path):
    file = tmp_path / "run.json"
    done = run("export", "otel", RUN, "-o", str(file), "--strict", "--json", home=home)
    assert done.exit_code == 1
    assert not file.exists()
    assert '"lossless":false' in done.stderr
    fine = run("export", "jsonl", RUN, "--strict", home=home)
    assert fine.exit_code == 0
    assert len(fine.stdout_bytes.splitlines()) == 11


@pytest.mark.parametrize("name", NAMES)
def test_strict_fails_exactly_when_something_is_dropped_or_invented(home, tmp_path, name):
    file = tmp_path / "run.out"
    told = run("export", name, RUN, "-o", str(file), "--json", home=home)
    totals = json.loads(told.stdout)["totals"]
    lost = totals["dropped"] + totals["synthesised"] > 0
    assert lost or name not in ("agui", "atif", "otel")
    assert not lost or name not in ("cloudevents", "html", "jsonl")
    file.unlink()
    strict = run("export", name, RUN, "-o", str(file), "--strict", home=home)
    assert strict.exit_code == (1 if lost else 0)
    assert file.exists() == (not lost)


def test_the_help_lists_the_formats_of_the_folder():
    done = CliRunner().invoke(tracklog, ["export", "--help"])
    for exporter in registry.exporters():
        assert exporter.name in done.output
        for option in exporter.options:
            assert f"{exporter.name} {option}=" in done.output


# otel


def spans_of(request) -> list[dict[str, Any]]:
    return [
        span
        for resource in request["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def value_of(value):
    if not value:
        return None
    ((kind, inner),) = value.items()
    if kind == "kvlistValue":
        return {pair["key"]: value_of(pair["value"]) for pair in inner["values"]}
    if kind == "intValue":
        return int(inner)
    return [value_of(each) for each in inner["values"]] if kind == "arrayValue" else inner


def attributes(holder) -> dict[str, Any]:
    return {pair["key"]: value_of(pair["value"]) for pair in holder.get("attributes", [])}


def check_otlp(request, *, inside=False):
    """Valid spans of one tree; of a run inside another, the topmost hangs below what is not here."""
    spans = spans_of(request)
    ids = [span["spanId"] for span in spans]
    assert len(set(ids)) == len(ids)
    for span in spans:
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert span["kind"] in (1, 3)
        assert span["name"]
        told = attributes(span)
        assert len(told) == len(span["attributes"])
        assert {
            "tracklog.run.id",
            "tracklog.dialect",
            "tracklog.seq",
            "tracklog.fidelity",
        } <= told.keys()
        for event in span.get("events", []):
            assert event["name"].startswith(("tracklog.", "gen_ai.evaluation.result"))
    tops = [span for span in spans if span.get("parentSpanId") not in ids]
    assert len(tops) == min(len(spans), 1)
    assert all(("parentSpanId" in span) == inside for span in tops)


def spans(run, **options):
    request = json.loads(written(run, "otel", **options))
    check_otlp(request)
    return {span["name"]: (span, attributes(span)) for span in spans_of(request)}


def test_span_and_trace_ids_are_those_of_the_vectors():
    assert trace_id("awf", RUN) == "84f72929562ec2f4f7b143cac826eb41"
    assert span_id("awf", RUN, "run") == "e1ab3cfc307d5469"
    assert span_id("awf", RUN, "tool", "call_1") == "a5a27ec7369d27ef"
    assert span_id("awf", RUN, "model", "42") == "09d021d84ef04c85"


def test_a_run_its_turns_and_its_tools_are_spans_with_the_genai_names():
    found = spans(one(*A_TALK), content="yes")
    run, whole = found["invoke_agent coder"]
    assert run["spanId"] == span_id("tracklog", RUN, "run")
    assert run["traceId"] == trace_id("tracklog", RUN)
    assert run["status"] == {"code": 1}
    assert whole["tracklog.outcome"] == "converged"
    assert not any(key.startswith("gen_ai.usage") for key in whole)
    tool, call = found["execute_tool read"]
    assert tool["spanId"] == span_id("tracklog", RUN, "tool", "call_1")
    assert tool["parentSpanId"] == run["spanId"]
    assert call["gen_ai.tool.call.arguments"] == '{"path":"a.py"}'
    assert call["gen_ai.tool.call.result"] == "x = 1"
    assert found["execute_tool shell"][0]["status"] == {"code": 2, "message": "no such command"}
    (chat,) = [
        told
        for span in spans_of(json.loads(written(one(*A_TALK), "otel", content="yes")))
        if (told := attributes(span)).get("gen_ai.usage.input_tokens")
    ]
    assert chat["gen_ai.usage.input_tokens"] == 100
    assert chat["gen_ai.usage.cache_read.input_tokens"] == 40
    assert chat["gen_ai.response.finish_reasons"] == ["tool_use"]
    assert chat["gen_ai.response.id"] == "msg-1"
    (message,) = json.loads(chat["gen_ai.output.messages"])
    assert [part["type"] for part in message["parts"]] == [
        "reasoning",
        "text",
        "tool_call",
        "tool_call",
    ]
    assert json.loads(chat["gen_ai.input.messages"])[0]["role"] == "user"


def test_two_turns_are_two_chat_spans_keyed_by_their_first_record():
    request = json.loads(written(one(*A_TALK), "otel"))
    chats = [span for span in spans_of(request) if span["name"] == "chat m-1"]
    assert [span["spanId"] for span in chats] == [
        span_id("tracklog", RUN, "model", "3"),
        span_id("tracklog", RUN, "model", "8"),
    ]
    assert all(span["kind"] == 3 for span in chats)


def test_content_is_written_only_when_it_is_asked_for():
    out = written(one(*A_TALK), "otel")
    for words in (b"I look.", b"Read first.", b"a.py", b"x = 1", b"Fix it"):
        assert words not in out


def test_a_judgement_is_an_evaluation_of_what_was_judged():
    judged = Decided(name="lint", verdict="fail", score=0.25, reason="two faults", about="c1")
    came = Returned(call_id="c1", ok=True)
    before = spans(one(Began(what="run"), Called(tool="t", call_id="c1"), judged, came))
    found = spans(one(Began(what="run"), Called(tool="t", call_id="c1"), came, judged))
    for each in (before, found):
        (event,) = each["execute_tool t"][0]["events"]
    assert event["name"] == "gen_ai.evaluation.result"
    told = attributes(event)
    assert told["gen_ai.evaluation.name"] == "lint"
    assert told["gen_ai.evaluation.score.value"] == 0.25
    assert told["gen_ai.evaluation.score.label"] == "fail"
    assert told["gen_ai.evaluation.explanation"] == "two faults"


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        (Decided(verdict="guilty"), "gen_ai.evaluation.result"),
        (Decided(verdict="left", name="way", confidence=0.7), "tracklog.decided"),
    ],
    ids=["verdict", "decision"],
)
def test_a_verdict_is_an_evaluation_and_a_decision_with_its_confidence_is_ours(fact, name):
    (run,) = spans(one(Began(what="run"), fact)).values()
    assert [event["name"] for event in run[0]["events"]] == [name]


def test_a_call_without_a_result_dangles_and_a_run_without_an_end_is_unfinished():
    found = spans(
        one(Began(what="run", agent="a"), Called(tool="t", call_id="c1"), text("x", "user"))
    )
    tool, told = found["execute_tool t"]
    assert told["tracklog.dangling"] is True
    assert "status" not in tool
    assert tool["endTimeUnixNano"] == found["invoke_agent a"][0]["endTimeUnixNano"]
    assert found["invoke_agent a"][1]["tracklog.unfinished"] is True


@pytest.mark.parametrize("outcome", ["partial", "escaped"])
def test_an_outcome_in_between_is_no_error(outcome):
    found = spans(
        one(Began(what="run", agent="a"), Ended(what="run", outcome=outcome, passed=False))
    )
    span, told = found["invoke_agent a"]
    assert "status" not in span
    assert told["tracklog.outcome"] == outcome


@pytest.mark.parametrize(
    ("facts", "name", "attribute"),
    [
        ([Began(what="run", agent="coder")], "invoke_agent coder", "gen_ai.agent.name"),
        ([Began(what="run"), text("x", agent="coder")], "invoke_agent coder", "gen_ai.agent.name"),
        ([Began(what="run"), Began(what="step", step="s")], "invoke_workflow", None),
        (
            [Began(what="run", task="deploy"), Began(what="step", step="s")],
            "invoke_workflow deploy",
            "gen_ai.workflow.name",
        ),
    ],
    ids=["an agent", "a lone agent", "steps", "named steps"],
)
def test_a_run_is_an_agent_or_a_workflow_of_steps(facts, name, attribute):
    span, told = spans(one(*facts))[name]
    assert span["kind"] == 1
    assert told["gen_ai.operation.name"] == name.partition(" ")[0]
    assert attribute is None or told[attribute] == name.partition(" ")[2]


def test_a_step_is_a_span_of_ours_named_after_its_path():
    facts = [
        Began(what="run"),
        Began(what="step", step="build"),
        Began(what="step", step="build.test"),
        text("inside", step="build.test", model="m"),
        Ended(what="step", step="build.test", passed=True),
        Ended(what="step", step="build", passed=False),
    ]
    found = spans(one(*facts))
    outer, inner = found["build"], found["build.test"]
    for span, said in (outer, inner):
        assert span["kind"] == 1
        assert all(key.startswith("tracklog.") or key == "error.type" for key in said)
    assert inner[0]["parentSpanId"] == outer[0]["spanId"]
    assert outer[0]["parentSpanId"] == span_id("tracklog", RUN, "run")
    assert outer[0]["spanId"] == span_id("tracklog", RUN, "step", "build")
    assert found["chat m"][0]["parentSpanId"] == inner[0]["spanId"]
    assert (outer[0]["status"]["code"], inner[0]["status"]["code"]) == (2, 1)


@pytest.mark.parametrize(
    ("facts", "service", "instance"),
    [
        ([Began(what="run", agent="coder", host="box")], "coder", "box"),
        ([Began(what="run", software={"name": "fleet"}), text("x", agent="a"),
          text("y", agent="b")], "fleet", None),
        ([Began(what="run")], "tracklog", None),
    ],
    ids=["an agent", "a fleet", "nobody"],
)  # fmt: skip  # a table
def test_the_resource_is_the_agent_or_the_fleet_on_its_host(facts, service, instance):
    (resource,) = json.loads(written(one(*facts), "otel"))["resourceSpans"]
    told = attributes(resource["resource"])
    assert told["service.name"] == service
    assert told.get("service.instance.id") == instance
    assert not any(key.startswith("telemetry.") for key in told)
    (scope,) = resource["scopeSpans"]
    assert attributes(scope["scope"]) == {"tracklog.export.mapping": "1"}


@pytest.mark.parametrize(
    ("fact", "name", "said"),
    [
        (
            Moved(from_="a", to="b", phase="waiting", reason="r"),
            "tracklog.moved",
            {"from": "a", "to": "b", "reason": "r", "phase": "waiting"},
        ),
        (
            Decided(verdict="left", confidence=0.7, evidence={"seen": [1]}),
            "tracklog.decided",
            {"confidence": 0.7, "verdict": "left", "evidence": {"seen": [1]}},
        ),
        (Asked(question_id="q", text="Which?"), "tracklog.asked", {"text": "Which?"}),
        (
            Answered(question_id="q", answer={"port": 80}),
            "tracklog.answered",
            {"answer": {"port": 80}},
        ),
        (
            Linked(kind="handoff", from_="a", to="b", reason="r"),
            "tracklog.linked",
            {"kind": "handoff", "from": "a", "to": "b", "reason": "r"},
        ),
        (Noted(label="x", data=[1, None, {"a": "b"}]), "tracklog.noted", {"data": [1, None, {"a": "b"}]}),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)  # fmt: skip  # a table
@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_what_no_convention_has_is_an_event_of_ours_with_its_values_as_they_are(
    fact, name, said, encoding
):
    made = one(Began(what="run"), fact)
    out = written(made, "otel", content="yes", encoding=encoding)
    request = json.loads(out) if encoding == "json" else decoded(out)
    (event,) = [e for span in spans_of(request) for e in span.get("events", ())]
    told = attributes(event)
    assert event["name"] == name
    assert {key: told[f"tracklog.{key}"] for key in said} == said
    assert told["tracklog.seq"] == 2


def decoded(out: bytes):
    """A request in protobuf as its JSON."""
    request = ExportTraceServiceRequest.FromString(out)
    return json.loads(MessageToJson(request))


def test_a_clock_that_runs_backwards_is_stored_beside_the_time_of_receipt():
    origin = {"writer": "t", "fidelity": "observed"}
    began = Began(what="run", agent="a")
    at = "2026-05-05T09:00:01.123456789Z"
    first = native.line(began, id="0", run=RUN, at=at, origin=origin)
    call, earlier = Called(tool="t", call_id="c"), "2026-05-05T09:00:00Z"
    second = native.line(call, id="1", run=RUN, at=earlier, origin=origin)
    recorded = records([first, second], "tracklog")
    span, told = spans(export_runs(recorded)[0])["invoke_agent a"]
    assert span["startTimeUnixNano"] == "1777971601123456789"
    assert span["endTimeUnixNano"] == "1777971600000000000"
    assert told["tracklog.received"] == [record.received for record in recorded]
    unclocked = native.line(began, id="0", run=RUN, origin=origin)
    _, told = spans(export_runs(records([unclocked], "tracklog"))[0])["invoke_agent a"]
    assert told["tracklog.clock"] == "received"


@pytest.mark.parametrize(
    ("ended", "code", "outcome"),
    [
        (Ended(what="run", passed=True, outcome="converged"), 1, "converged"),
        (Ended(what="run", passed=False, outcome="failed"), 2, "failed"),
        (Ended(what="run", passed=False, outcome="partial"), 0, "partial"),
        (Ended(what="run", exit_code=0), 0, None),
        (Ended(what="run", exit_code=1), 0, None),
    ],
    ids=["passed", "failed", "partial", "exit 0", "exit 1"],
)
def test_a_status_is_as_reported_and_never_guessed_from_an_exit_code(ended, code, outcome):
    span, told = spans(one(Began(what="run", agent="a"), ended))["invoke_agent a"]
    assert span.get("status", {}).get("code", 0) == code
    assert told.get("tracklog.outcome") == outcome
    assert "tracklog.unfinished" not in told


def test_what_was_lifted_out_is_named_by_its_uri_and_never_inlined():
    blob = {"sha256": "ab" * 32, "bytes": 9, "media_type": "image/png", "preview": "it begins"}
    block = {"type": "stream", "provider_type": "image", "chunk": {"$blob": blob}}
    seen = Said(role="user", blocks=(block,))
    _, told = spans(one(seen, text("I see.", model="m")), content="yes")["chat m"]
    (message,) = json.loads(told["gen_ai.input.messages"])
    uri = f"blobs/sha256/ab/{'ab' * 32}"
    part = {"type": "uri", "modality": "image", "uri": uri, "mime_type": "image/png"}
    assert message["parts"] == [part]


def test_words_that_no_model_answered_stand_on_the_run():
    made = one(Began(what="run", agent="a"), text("Hello?", "user"))
    _, told = spans(made, content="yes")["invoke_agent a"]
    (message,) = json.loads(told["gen_ai.input.messages"])
    assert message == {"role": "user", "parts": [{"type": "text", "content": "Hello?"}]}


def test_the_generations_differ_in_what_they_call_things():
    facts = [
        Began(what="run", agent="a", software={"name": "s", "version": "2"}),
        Spent(key="k", model="m", usage={"input_tokens": 5, "cache_write_tokens": 3}),
    ]
    old, new = (written(one(*facts), "otel", generation=each).decode() for each in ("1.41", "1.42"))
    assert "https://opentelemetry.io/schemas/1.41.0" in old
    assert "https://opentelemetry.io/schemas/gen-ai/1.42.0" in new
    assert "gen_ai.usage.cache_creation.input_tokens" in old
    assert "gen_ai.usage.cache_write.input_tokens" in new
    assert "gen_ai.agent.version" in old
    assert "gen_ai.agent.version" not in new


def test_a_spend_reported_twice_is_written_once():
    spent = Spent(key="k", model="m", usage={"input_tokens": 5, "output_tokens": 1})
    more = Spent(key="k", model="m", usage={"input_tokens": 5, "output_tokens": 9})
    request = json.loads(written(one(Began(what="run"), spent, more), "otel"))
    amounts = [attributes(span).get("gen_ai.usage.output_tokens") for span in spans_of(request)]
    assert [amount for amount in amounts if amount] == [9]


def test_both_encodings_say_the_same():
    made = one(*A_TALK, Moved(agent="coder", from_="a", to="b", phase="working"))
    request = ExportTraceServiceRequest.FromString(written(made, "otel", encoding="protobuf"))
    told = json.loads(written(made, "otel"))
    decoded = [
        span
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert [span.span_id.hex() for span in decoded] == [s["spanId"] for s in spans_of(told)]
    for span, other in zip(decoded, spans_of(told), strict=True):
        assert span.trace_id.hex() == other["traceId"]
        assert span.parent_span_id.hex() == other.get("parentSpanId", "")
        assert (span.name, span.kind) == (other["name"], other["kind"])
        assert span.start_time_unix_nano == int(other["startTimeUnixNano"])
        assert [pair.key for pair in span.attributes] == [p["key"] for p in other["attributes"]]
        assert [event.name for event in span.events] == [e["name"] for e in other.get("events", [])]
        assert span.status.code == other.get("status", {}).get("code", 0)
        ours = attributes(other)
        for pair in span.attributes:
            kind = pair.value.WhichOneof("value")
            if kind != "array_value":
                assert getattr(pair.value, kind) == ours[pair.key]
    (resource, *_) = request.resource_spans
    assert resource.schema_url == "https://opentelemetry.io/schemas/1.41.0"
    assert resource.resource.attributes[0].key == "service.name"


def test_what_came_in_by_otlp_keeps_its_ids():
    trace, outer, inner, tool = "ab" * 16, "11" * 8, "22" * 8, "33" * 8
    lines = []

    def tell(fact, span, above=None):
        origin = {"writer": "otlp", "fidelity": "reported", "record": f"{trace}/{span}"}
        cause = {"cause": f"{trace}/{above}"} if above else {}
        id = f"id-{len(lines)}"
        lines.append(native.line(fact, id=id, run=RUN, origin=origin, **cause))

    tell(Began(what="run", agent="a"), outer)
    tell(text("hi", model="m", agent="a"), inner, outer)
    tell(Called(tool="t", call_id="c", agent="a"), inner, outer)
    tell(Spent(key="r", model="m", usage={"input_tokens": 1}, agent="a"), inner, outer)
    tell(Called(tool="t", call_id="c", agent="a"), tool, outer)
    tell(Returned(call_id="c", ok=True, agent="a"), tool, outer)
    tell(Ended(what="run", passed=True), outer)
    found = spans(export_runs(records(lines, "tracklog"))[0])
    names = {name: span for name, (span, _) in found.items()}
    assert {span["traceId"] for span in names.values()} == {trace}
    assert names["invoke_agent a"]["spanId"] == outer
    assert (names["chat m"]["spanId"], names["chat m"]["parentSpanId"]) == (inner, outer)
    assert names["execute_tool t"]["spanId"] == tool


@pytest.mark.parametrize("name", ["genai-b-agent.json", "genai-c-agent.json"])
def test_spans_that_were_imported_are_exported_with_their_own_ids(name, tmp_path):
    sent = json.loads((IMPORTED / "otlp" / name).read_bytes())["sent"]
    bodies = [each["body"] for each in sent if "resourceSpans" in each["body"]]
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b"".join(orjson.dumps(body) + b"\n" for body in bodies))
    lines, _, _ = lines_of_file(registry.importer("otlp"), path)
    known = {span["spanId"].lower() for body in bodies for span in spans_of(body)}
    (each,) = export_runs(records(lines, "tracklog"))
    request = json.loads(written(each, "otel"))
    check_otlp(request)
    assert known <= {span["spanId"] for span in spans_of(request)}
    traces = {span["traceId"].lower() for body in bodies for span in spans_of(body)}
    assert {span["traceId"] for span in spans_of(request)} == traces


FAMILY_TREE = [
    (RUN, Began(what="run", agent="lead")),
    (RUN, Called(tool="task", call_id="spawn", agent="lead")),
    (RUN, Linked(kind="sub-run", child="child", call_id="spawn", agent="lead")),
    ("child", Began(what="run", agent="worker")),
    ("child", text("working", agent="worker", message_id="m1")),
    ("child", Spent(key="s1", model="m", usage={"input_tokens": 20, "output_tokens": 10})),
    ("child", Ended(what="run", passed=True)),
    (RUN, Returned(call_id="spawn", ok=True, output="done", agent="lead")),
    (RUN, Spent(key="s2", model="m", usage={"input_tokens": 5, "output_tokens": 1})),
    (RUN, Ended(what="run", passed=True)),
]


def family_tree():
    origin = {"writer": "t", "fidelity": "observed"}
    lines = [
        native.line(fact, id=str(n), run=run, at=f"2026-05-05T09:00:{n:02}Z", origin=origin)
        for n, (run, fact) in enumerate(FAMILY_TREE)
    ]
    return export_runs(records(lines, "tracklog"))


def test_a_sub_run_is_in_the_trace_of_its_root_below_the_call_that_began_it():
    root, child = family_tree()
    found = spans(root)
    worker, told = found["invoke_agent worker"]
    spawn = found["execute_tool task"][0]
    assert worker["traceId"] == spawn["traceId"] == trace_id("tracklog", RUN)
    assert worker["parentSpanId"] == spawn["spanId"]
    assert worker["links"] == [{"traceId": spawn["traceId"], "spanId": spawn["spanId"]}]
    assert told["tracklog.run.id"] == "child"
    alone = spans_of(json.loads(written(child, "otel")))
    assert {span["traceId"] for span in alone} == {spawn["traceId"]}
    (top,) = [span for span in alone if span["name"] == "invoke_agent worker"]
    assert (top["spanId"], top["parentSpanId"]) == (worker["spanId"], spawn["spanId"])


# atif


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Image(Strict):
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    path: str


class Part(Strict):
    type: Literal["text", "image"]
    text: str | None = None
    source: Image | None = None


class ToolCall(Strict):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class Ref(Strict):
    trajectory_id: str | None = None
    trajectory_path: str | None = None
    session_id: str | None = None
    extra: dict[str, Any] | None = None


class Result(Strict):
    source_call_id: str | None = None
    content: str | list[Part] | None = None
    subagent_trajectory_ref: list[Ref] | None = None
    extra: dict[str, Any] | None = None


class Observation(Strict):
    results: list[Result]


class Metrics(Strict):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    extra: dict[str, Any] | None = None


class Totals(Strict):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None
    extra: dict[str, Any] | None = None


class Step(Strict):
    step_id: int
    source: Literal["system", "user", "agent"]
    message: str | list[Part]
    timestamp: str | None = None
    observation: Observation | None = None
    is_copied_context: bool | None = None
    llm_call_count: Annotated[int, Field(ge=0)] | None = None
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    metrics: Metrics | None = None
    extra: dict[str, Any] | None = None


class Agent(Strict):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None


class Trajectory(Strict):
    schema_version: Literal["ATIF-v1.7"]
    agent: Agent
    steps: Annotated[list[Step], Field(min_length=1)]
    session_id: str | None = None
    trajectory_id: str | None = None
    notes: str | None = None
    final_metrics: Totals | None = None
    extra: dict[str, Any] | None = None
    subagent_trajectories: list["Trajectory"] | None = None


def check_trajectory(told):
    """ATIF v1.7 as its validators have it: no unknown key, and its rules across steps."""
    trajectory = Trajectory.model_validate(told)
    check_steps(trajectory)


def check_steps(trajectory):
    embedded = {each.trajectory_id for each in trajectory.subagent_trajectories or []}
    assert None not in embedded
    assert len(embedded) == len(trajectory.subagent_trajectories or [])
    for number, step in enumerate(trajectory.steps, 1):
        assert step.step_id == number
        if step.source != "agent":
            own = (step.model_name, step.reasoning_content, step.tool_calls, step.metrics)
            assert own == (None,) * 4
        if step.source == "user":
            assert step.observation is None
        if step.llm_call_count == 0:
            assert step.metrics is None
            assert step.reasoning_content is None
        calls = [call.tool_call_id for call in step.tool_calls or []]
        for result in step.observation.results if step.observation else []:
            assert result.source_call_id in {None, *calls}
            for ref in result.subagent_trajectory_ref or []:
                assert ref.trajectory_path or ref.trajectory_id in embedded
    for inner in trajectory.subagent_trajectories or []:
        check_steps(inner)


def test_the_rules_for_trajectories_take_one_from_elsewhere():
    path = IMPORTED / "importers" / "atif" / "harbor_multiagent_v1_7.json"
    check_trajectory(json.loads(path.read_bytes()))


def trajectory(run):
    told = json.loads(written(run, "atif"))
    check_trajectory(told)
    return told


def test_a_turn_with_its_calls_and_their_results_is_one_step():
    told = trajectory(one(*A_TALK))
    assert (told["trajectory_id"], told["session_id"]) == (RUN, RUN)
    assert told["agent"]["model_name"] == "m-1"
    step = next(step for step in told["steps"] if step.get("tool_calls"))
    assert step["message"] == "I look."
    assert step["reasoning_content"] == "Read first."
    assert [call["arguments"] for call in step["tool_calls"]] == [{"path": "a.py"}, {"value": "ls"}]
    assert step["tool_calls"][1]["extra"]["arguments_form"] == "value"
    results = {r["source_call_id"]: r["content"] for r in step["observation"]["results"]}
    assert results == {"call_2": "no such command", "call_1": "x = 1"}
    assert step["metrics"]["prompt_tokens"] == 100
    assert step["llm_call_count"] == 1
    assert told["final_metrics"]["total_cost_usd"] == 0.25


def test_a_sub_run_is_embedded_and_referred_to_by_the_result_of_its_call():
    told = trajectory(family_tree()[0])
    (inner,) = told["subagent_trajectories"]
    assert inner["trajectory_id"] == "child"
    assert inner["session_id"] == RUN
    (result,) = [
        result
        for step in told["steps"]
        for result in step.get("observation", {}).get("results", [])
        if "subagent_trajectory_ref" in result
    ]
    assert result["subagent_trajectory_ref"][0]["trajectory_id"] == "child"
    totals = told["final_metrics"]
    assert totals["total_prompt_tokens"] == 25
    assert totals["extra"]["subagent_prompt_tokens"] == 20


def test_a_call_without_a_result_has_no_observation():
    (_, step) = trajectory(one(Began(what="run"), Called(tool="t", call_id="c")))["steps"]
    assert step["tool_calls"][0] == {
        "tool_call_id": "c",
        "function_name": "t",
        "arguments": {},
        "extra": {"arguments_form": "none"},
    }
    assert "observation" not in step


def test_several_model_calls_in_one_step_are_counted_and_their_tokens_added():
    usage = {"input_tokens": 5, "output_tokens": 2, "reasoning_tokens": 1}
    spent = [Spent(key=key, model="m", usage=usage, cost_usd=0.5) for key in ("k1", "k2")]
    one_span = {"record": f"{'ab' * 16}/{'cd' * 8}"}
    (step,) = trajectory(one(text("done", model="m"), *spent, origin=one_span))["steps"]
    assert step["llm_call_count"] == 2
    assert step["metrics"] == {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "cost_usd": 1.0,
        "extra": {"tracklog": {"reasoning_tokens": 2, "total_tokens": 14}},
    }


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (Moved(agent="coder", from_="a", to="blocked", phase="waiting"), "coder moved: blocked"),
        (Decided(name="tests", verdict="pass"), "decided: pass"),
        (Ended(what="run", outcome="converged"), "run ended: converged"),
        (Asked(question_id="q", text="Which port?"), "asked: Which port?"),
    ],
    ids=["status", "audit", "end", "question"],
)
def test_a_fact_that_is_no_message_and_no_call_is_a_system_step(fact, words):
    (step,) = trajectory(one(fact))["steps"]
    assert (step["source"], step["message"]) == ("system", words)
    (carried,) = step["extra"]["tracklog"]["facts"]
    assert carried["fact"] == type(fact).__name__


def test_an_image_that_was_lifted_out_is_named_by_its_path():
    blob = {"sha256": "ab" * 32, "bytes": 9, "media_type": "image/png"}
    block = {"type": "stream", "chunk": {"$blob": blob}, "provider_type": "image"}
    said = Said(role="user", blocks=({"type": "text", "text": "look"}, block))
    step = trajectory(one(said))["steps"][0]
    assert step["message"][1]["source"]["path"] == f"blobs/sha256/ab/{'ab' * 32}"


def test_a_model_may_show_images_between_its_words():
    blob = {"sha256": "cd" * 32, "bytes": 9, "media_type": "image/png"}
    image = {"type": "stream", "chunk": {"$blob": blob}, "provider_type": "image"}
    words = [{"type": "text", "text": each} for each in ("before", "after")]
    said = Said(role="assistant", blocks=(words[0], image, words[1]), copied=True)
    (step,) = trajectory(one(said))["steps"]
    assert [part.get("text") or part["source"]["path"][:5] for part in step["message"]] == [
        "before",
        "blobs",
        "after",
    ]
    assert step["is_copied_context"] is True


def test_a_compaction_is_a_change_of_context():
    (step,) = trajectory(one(Noted(label="compaction", data={"trigger": "auto"})))["steps"]
    assert step["source"] == "system"
    assert step["extra"]["context_management"]["type"] == "compaction"


def test_a_trajectory_is_read_back_by_our_importer(tmp_path):
    path = tmp_path / "run.json"
    path.write_bytes(written(one(*A_TALK), "atif"))
    lines, _, _ = lines_of_file(registry.importer("atif"), path)
    heard = facts_of(records(lines, "tracklog"))
    assert [f.tool for f in heard if isinstance(f, Called)] == ["read", "shell"]
    assert {f.output for f in heard if isinstance(f, Returned)} >= {"x = 1"}
    assert [f.cost_usd for f in heard if isinstance(f, Spent)] == [0.25]


# cloudevents


def check_cloud_event(event):
    assert event["specversion"] == "1.0"
    for name in ("id", "source", "type"):
        assert isinstance(event[name], str)
        assert event[name]
    assert event["type"].startswith("dev.tracklog.")
    assert not ("data" in event and "data_base64" in event)
    for name, value in event.items():
        if name in ("data", "data_base64"):
            continue
        assert re.fullmatch("[a-z0-9]{1,20}", name)
        assert isinstance(value, str | int | bool)
        if isinstance(value, str):
            assert value
            assert not re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff]", value)
        else:
            assert -(2**31) <= value < 2**31
    assert len(event["sequence"]) == 20
    assert re.fullmatch(r"/tracklog/[^/]+/[^/]+/[^/]*", event["source"])
    assert re.fullmatch(r"[a-z]+:.+", event["dataschema"])


def test_a_cloud_event_carries_the_line_and_names_its_place():
    recorded = told(*A_TALK)
    events = json.loads(written(export_runs(recorded)[0], "cloudevents", collector="east 1"))
    assert [event["data"] for event in events] == [json.loads(r.line) for r in recorded]
    first = events[0]
    assert first["id"] == "id-0"
    assert first["source"] == f"/tracklog/east%201/tracklog/{RUN}"
    assert first["type"] == "dev.tracklog.tracklog.Began"
    assert first["sequence"] == "00000000000000000001"
    assert first["subject"] == first["correlationid"] == RUN
    assert [e["sequence"] for e in events] == sorted(e["sequence"] for e in events)


def test_an_event_without_an_identity_of_its_own_is_known_by_its_number():
    path = next(p for p in samples.of("good") if samples.name_of(p) == "kahn-agent/converges")
    events = json.loads(written(export_runs(sample(path))[0], "cloudevents"))
    assert [event["id"] for event in events] == [str(n + 1) for n in range(len(events))]
    assert events[0]["tracklogfamily"] == "kahn"


def test_a_cloud_event_says_when_why_and_in_which_span():
    span = f"{'ab' * 16}/{'cd' * 8}"
    origin = {"writer": "otlp", "fidelity": "reported", "record": span}
    line = native.line(
        Noted(label="x"),
        id="n",
        run="a run/1",
        at="2026-05-05T09:00:00.5Z",
        origin=origin,
        cause="c",
    )
    late = native.line(Returned(call_id="nobody"), id="r", run="a run/1", origin=origin)
    recorded = records([line, late], "tracklog")
    first, second = json.loads(written(export_runs(recorded)[0], "cloudevents"))
    assert {key: first[key] for key in first.keys() - {"data", "id", "type"}} == {
        "specversion": "1.0",
        "source": "/tracklog/local/tracklog/a%20run%2F1",
        "subject": "a run/1",
        "time": "2026-05-05T09:00:00.5Z",
        "datacontenttype": "application/json",
        "dataschema": "tag:tracklog.dev,2026:schemas/tracklog",
        "sequence": "00000000000000000001",
        "correlationid": "a run/1",
        "causationid": "c",
        "partitionkey": "a run/1",
        "recordedtime": recorded[0].received,
        "traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01",
        "tracklogmapping": "1",
    }
    assert "time" not in second
    assert (second["severitynumber"], second["severitytext"]) == (13, "WARN")


def test_structured_events_stand_one_on_a_line():
    made = one(*A_TALK)
    lines = written(made, "cloudevents", mode="structured").splitlines()
    assert [json.loads(line) for line in lines] == json.loads(written(made, "cloudevents"))
    exporter = registry.exporter("cloudevents")
    assert exporter.type_of(exporter.chosen()) == "application/cloudevents-batch+json"


def test_a_line_too_big_to_be_forwarded_is_named_and_counted_as_dropped():
    made = one(text("x" * 70_000), text("small"))
    big, small = json.loads(written(made, "cloudevents", base="http://localhost:4318"))
    assert "data" not in big
    assert big["dataref"] == f"http://localhost:4318/api/runs/tracklog/{RUN}?at=1"
    assert "data" in small
    assert losses(made, "cloudevents").totals()["dropped"] > 0
    assert losses(made, "cloudevents", {"whole": "yes"}).lossless
    assert "data" in json.loads(written(made, "cloudevents", whole="yes"))[0]


def test_cloud_events_are_unwrapped_by_our_importer(tmp_path):
    recorded = told(*A_TALK)
    path = tmp_path / "run.cloudevents.json"
    path.write_bytes(written(export_runs(recorded)[0], "cloudevents"))
    lines, _, _ = lines_of_file(registry.importer("cloudevents"), path)
    assert [orjson.loads(line) for line in lines] == [orjson.loads(r.line) for r in recorded]


def test_a_damaged_line_is_stored_as_bytes():
    recorded = [told(text("x"))[0]._replace(line=b"not json")]
    (event,) = json.loads(written(flights_of(recorded), "cloudevents"))
    check_cloud_event(event)
    assert base64.b64decode(event["data_base64"]) == b"not json"
    assert written(flights_of(recorded), "jsonl") == b"not json\n"
    assert losses(flights_of(recorded), "otel").totals()["dropped"] == 1


def flights_of(recorded):
    return export_run(("tracklog", RUN), lambda _: recorded, DIALECTS)


@pytest.mark.parametrize("name", NAMES)
def test_a_value_deeper_than_orjson_writes_is_written_all_the_same(name):
    facts = (
        Began(what="run"),
        Said(role="user", blocks=({"type": "text", "text": "go"},)),
        Noted(label="x"),
    )
    *lines, last = (each.line for each in told(*facts))
    deep = last[:-1] + b',"data":' + b"[" * 300 + b"]" * 300 + b"}"
    assert written(export_runs(records([*lines, deep], "tracklog"))[0], name)


# html


class Page(HTMLParser):
    """What stands in a page: its tags, its ids, its links, its text."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags: Counter = Counter()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.metas: dict[str, str] = {}
        self.words: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        told = dict(attrs)
        self.attributes |= told.keys()
        if "id" in told:
            self.ids.append(told["id"])
        if "href" in told:
            self.links.append(told["href"])
        if tag == "meta":
            self.metas[told.get("http-equiv") or told.get("name") or ""] = told.get("content", "")
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


TAGS = {"html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section"}
TAGS |= {"article", "div", "span", "p", "a", "h1", "h2", "dl", "dt", "dd", "small", "b", "code"}
TAGS |= {"pre", "details", "summary", "time", "ul", "li"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td", "svg", "rect"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "datetime"}
ATTRIBUTES |= {"title", "open", "dir", "aria-hidden"}
ATTRIBUTES |= {"viewbox", "preserveaspectratio", "x", "y", "width", "height"}


def check_page(text, run):
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.tags.keys() <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert "default-src 'none'" in page.metas["Content-Security-Policy"]
    assert "unsafe" not in page.metas["Content-Security-Policy"]
    assert "url(" not in text.partition("</style>")[0]
    assert "@import" not in text.partition("</style>")[0]
    for each in run:
        for heard in each.records():
            assert f"e{heard.seq}" in page.ids
    return page


def page(*facts, **more):
    made = one(*facts, **more)
    return check_page(written(made, "html").decode(), made)


def test_the_page_of_a_run_of_a_home_has_its_waterfall_and_the_marks_that_hold(tmp_path):
    path = next(p for p in samples.of("good") if samples.name_of(p) == "kahn-agent/converges")
    with Home(tmp_path, durability="os") as home:
        home.intake.admit(samples.lines_of(path), "kahn-agent")
        home.index.catch_up()
        key = next(key for key, _ in home.index.states("runs"))
        kept, gone = mark(
            home, [(key, Marked(tag="flaky", note="<b>why?</b>", by="ann"))], writer="cli"
        )
        mark(home, [(key, Marked(withdraws=kept.mark))], writer="cli")
        home.index.catch_up()
        run = export_run_of(home, run_of(key))
        text = written(run, "html").decode()
        spans = ask(home, "spans", run=key)
        assert written(export_run_of(home, run_of(key)), "html").decode() == text
    check_page(text, run)
    assert gone.mark != kept.mark
    assert text.count('<td class="bar">') == len(spans["rows"]) > 1
    assert "flaky" not in text
    assert "&lt;b&gt;why?&lt;/b&gt;" in text


def test_a_page_shows_the_talk_with_calls_beside_their_results():
    made = one(*A_TALK)
    text = written(made, "html").decode()
    found = check_page(text, made)
    words = " ".join(found.words)
    for said in ("Please fix it.", "Read first.", "I look.", "x = 1", "no such command", "$0.25"):
        assert said in words
    call = text.index('<article id="e4">')
    assert "x = 1" in text[call : text.index('<article id="e5">')]
    assert "converged" in text[: text.index("<main>")]


def test_a_page_shows_what_was_asked_what_could_be_chosen_and_who_answered():
    asked = Asked(
        question_id="q1", text="Deploy?", what="approval", options=("now & here", {"label": "no"}),
        schema={"type": "string"}, expires="2026-05-06T10:00:00Z",
    )  # fmt: skip
    made = one(asked, Answered(question_id="q1", answer="no", by="ann"))
    words = " ".join(check_page(written(made, "html", lines="no").decode(), made).words)
    for shown in ("asks a person for approval", "Deploy?", "now & here", '"label": "no"',
                 '"type": "string"', "2026-05-06T10:00:00Z", "is answered by ann"):  # fmt: skip
        assert shown in words


@settings(max_examples=60 * SOAK)
@given(st.text(max_size=200), st.text(max_size=50))
def test_no_text_can_become_markup(words, name):
    hostile = words + "</pre></style><script>alert(1)</script><img src=x onerror=y>\"'" + name
    facts = [
        Began(what="run", task=hostile, agent=hostile),
        text(hostile, agent=hostile),
        Called(tool=hostile or "x", call_id="c", input={hostile: hostile}),
        Returned(call_id="c", ok=False, error=hostile, output=hostile),
        Noted(label=hostile, text=hostile, data=hostile),
        Ended(what="run", outcome=hostile, reason=hostile),
    ]
    found = page(*facts)
    assert "script" not in found.tags
    assert "img" not in found.tags


def test_a_page_says_what_is_amiss_and_links_to_it():
    found = page(Returned(call_id="nobody", ok=True), Called(tool="t", call_id="open"))
    words = " ".join(found.words)
    assert "return-without-call" in words
    assert "call-not-returned" in words
    assert "#e1" in found.links


def test_a_page_shows_the_runs_below():
    root = family_tree()[0]
    found = check_page(written(root, "html").decode(), root)
    assert "#r1" in found.links
    assert "working" in " ".join(found.words)


def test_an_erased_record_is_shown_as_such():
    recorded = told(text("secret"), text("kept"))
    stone = Erased("00" * 32, "leaked", "ops", "2026-05-06T00:00:00Z")
    gone = Record(1, recorded[0].received, "tracklog", "tracklog", RUN, b"", (), stone)
    made = export_runs([gone, recorded[1]])[0]
    found = check_page(written(made, "html").decode(), made)
    words = " ".join(found.words)
    assert "leaked" in words
    assert "secret" not in words
    assert written(made, "jsonl") == recorded[1].line + b"\n"
    (first, _) = json.loads(written(made, "cloudevents"))
    assert "data" not in first
    assert first["type"] == "dev.tracklog.tracklog.erased"


def test_a_page_says_whether_it_is_proven(home, tmp_path):
    file = tmp_path / "run.html"
    assert run("export", "html", RUN, "-o", str(file), home=home).exit_code == 0
    assert "Proven against the journal" in file.read_text()
    assert run("export", "html", RUN, "-o", str(file), "--no-proof", home=home).exit_code == 0
    assert "Not proven" in file.read_text()
