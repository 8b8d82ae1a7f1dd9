"""Which importer reads a file: every sample of every format against every recogniser."""

from fnmatch import fnmatch
from pathlib import Path

import orjson
import pytest

from tracklog.formats import registry
from tracklog.formats.importers import Importer, Signs, SourceReading, head_of, score
from tracklog.formats.recognition import recognition
from tracklog.testing import built

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"

NONE, COMPANION = "not recognised", "companion of "
VERDICTS = {
    "[A-Z]*.md": NONE,
    "aider/*.md": "aider",
    "aider/*.jsonl": "aider",
    "aider/.aider.llm.history": COMPANION + "aider",
    "cline/*.messages.json": "cline",
    "cline/*.compaction.json": COMPANION + "cline",
    "cline/sessions/*_rruoq.json": COMPANION + "cline",
    "cline/legacy/state/*": COMPANION + "cline",
    "cline/legacy/tasks/*": "cline",
    "kilo/*": "cline",
    "kimi/*.jsonl": "kimi",
    "kimi/*.state.json": COMPANION + "kimi",
    "openclaw/*": "pi",
    "opencode/*/session/*": "opencode",
    "opencode/*/message/*": COMPANION + "opencode",
    "opencode/*/part/*": COMPANION + "opencode",
    "opencode/*/migration": COMPANION + "opencode",
    "opencode/*.db": "opencode",
    "opencode/*.jsonl": NONE,
    "roo/*/ui_messages.json": "cline",
    "roo/tasks/bc93*/api_conversation_history.json": COMPANION + "cline",
    "roo/tasks/8c06*/api_conversation_history.json": "cline",
    "roo/made/*/api_conversation_history.json": "cline",
    "roo/made/*/history_item.json": COMPANION + "cline",
    "vscode-chat/chatSessions/*": "vscode-chat",
    "vscode-chat/workspace.json": COMPANION + "vscode-chat",
    "claude/*.jsonl": "claude",
    "claude/*.meta.json": COMPANION + "claude",
    "grok/*": NONE,
    "otel/genai_input_messages_roundtrip.json": NONE,
    "otel/otlp_events.json": "otlp",
}
"""The verdict on each sample, by a pattern of its path; without one it is its folder's importer."""


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    return built(SAMPLES, tmp_path_factory.mktemp("recognition") / "samples")


def names():
    return [str(path.relative_to(SAMPLES)) for path in sorted(SAMPLES.rglob("*")) if path.is_file()]


def verdict_on(path):
    found = recognition(registry.importers(), path, head_of(path))
    if found.importer is None:
        assert not found.candidates, (path, found.candidates)
        return NONE
    return (COMPANION if found.companion else "") + found.importer.name


@pytest.mark.parametrize("name", names(), ids=str)
def test_every_sample_has_its_verdict_and_no_other_recogniser_claims_it(samples, name):
    declared = [verdict for pattern, verdict in VERDICTS.items() if fnmatch(name, pattern)]
    folder = name.partition("/")[0]
    if not declared and folder in registry.importer_names():
        declared = [folder]
    assert len(declared) == 1, f"declare one verdict on {name}"
    path = samples / name.removesuffix(".sql")
    assert verdict_on(path) == declared[0]
    head = head_of(path)
    claims = {each.name for each in registry.importers() if each.recognise(path, head) > 0}
    assert claims <= {declared[0].removeprefix(COMPANION)}


def test_a_file_that_two_formats_fit_is_not_recognised_and_both_are_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"bell":"ding","clock":"tick"}\n')

    def named(name, *fields):
        signs = [Signs(dict.fromkeys(fields, str))]
        return Importer(
            name=name,
            about="",
            mapping="1",
            reader=None,
            recognise=lambda path, head: score(path, head, signs),
        )

    both = [named("tower", "bell", "clock"), named("church", "clock", "bell")]
    found = recognition(both, path, head_of(path))
    assert (found.importer, found.candidates) == (None, ("church", "tower"))
    more = [*both, named("cathedral", "bell")]
    assert recognition(more, path, head_of(path)).candidates == ("church", "tower")
    assert recognition([named("tower", "bell", "clock"), named("hut", "bell")], path,
                       head_of(path)).importer.name == "tower"  # fmt: skip


QUOTED = {
    "openai": {"id": "chatcmpl-1", "object": "chat.completion", "choices": [], "model": "m"},
    "anthropic": {"type": "message", "role": "assistant", "content": [], "stop_reason": None},
    "codex": {"type": "response_item", "payload": {"type": "message"}},
    "claude": {"type": "user", "uuid": "u", "sessionId": "s", "message": {"content": "x"}},
}


@pytest.mark.parametrize("name", QUOTED)
def test_a_body_of_another_format_inside_a_text_or_a_field_is_no_sign(tmp_path, name):
    path = tmp_path / "notes.jsonl"
    body = QUOTED[name]
    path.write_bytes(orjson.dumps({"note": orjson.dumps(body).decode(), "inside": body}) + b"\n")
    assert verdict_on(path) == NONE
    path.write_bytes(orjson.dumps(body) + b"\n")
    assert verdict_on(path) == name


WITHOUT = {"qwen": "systemPayload", "hermes": "session_id"}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_record_without_the_field_that_is_the_sign_of_its_format_is_claimed_by_no_other(
    samples, name
):
    for path in sorted(each for each in (samples / name).iterdir() if each.is_file()):
        gone = f'"{WITHOUT[name]}"'.encode()
        head = head_of(path).replace(gone, b'"else"')
        claims = {each.name for each in registry.importers() if each.recognise(path, head) > 0}
        assert claims <= {name}, path


def test_a_record_behind_an_incomplete_one_is_a_sign(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"type":"us' + orjson.dumps(QUOTED["claude"]) + b"\n")
    assert verdict_on(path) == "claude"


def test_a_document_longer_than_what_is_looked_at_is_recognised_by_its_beginning(tmp_path):
    path = tmp_path / "x.json"
    body = {**QUOTED["openai"], "choices": [{"message": {"content": "x" * 200_000}}]}
    path.write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2))
    assert verdict_on(path) == "openai"


EVENT = {
    "specversion": "1.0", "id": "1", "source": "/s", "type": "com.example.done",
    "time": "2026-05-05T09:00:00Z", "data": {"text": "x"},
}  # fmt: skip  # one event


@pytest.mark.parametrize("name", ["events.json", "events.jsonl", "events.ndjson"])
@pytest.mark.parametrize("indent", [None, orjson.OPT_INDENT_2])
def test_a_batch_of_events_is_one_document_whatever_the_file_is_called(tmp_path, name, indent):
    path = tmp_path / name
    path.write_bytes(orjson.dumps([EVENT, EVENT | {"id": "2"}], option=indent) + b"\n")
    found = recognition(registry.importers(), path, head_of(path)).importer
    assert found.name == "cloudevents"
    reading = SourceReading(found, path)
    lines = [line for batch in reading.lines() for line in batch.lines]
    assert not reading.report.repaired
    assert len(lines) >= 2
    assert reading.report.mapped.total() == 2


SPANS = [{"resource": {"attributes": []}, "scopeSpans": []}]


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"resourceSpans": SPANS}, "otlp"),
        ({"schemaUrl": "x", "resourceSpans": SPANS}, "otlp"),
        ({"resourceSpans": []}, "otlp"),
        ({"resourceLogs": [{"scopeLogs": []}]}, "otlp"),
        ({"resourceSpans": "three of them"}, None),
        ({"resourceSpans": [{"color": "blue"}]}, None),
        ({"resourceSpans": {"scopeSpans": []}}, None),
    ],
)
def test_a_request_of_telemetry_is_recognised_by_what_it_holds(tmp_path, document, name):
    path = tmp_path / "file.json"
    path.write_bytes(orjson.dumps(document))
    found = recognition(registry.importers(), path, head_of(path)).importer
    assert (found and found.name) == name
