"""What each attribute, part, span and event of the conventions becomes, row by row."""

import json
from base64 import b64encode

import orjson
import pytest

from support.telemetry import TRACE, Door, chat, logs, message, pairs, span, traces, value
from tracklog.formats.importers import LineWriter, run_id
from tracklog.formats.importers.otlp import wire, write_items
from tracklog.formats.importers.otlp.memory import Memory

RECORD = f"{TRACE}/{2:016x}"
ROOT = f"{TRACE}/{1:016x}"


def told(*documents):
    """The lines that requests become, one after the other."""
    memory, lines = Memory(), []
    for document in documents:
        signal = "logs" if "resourceLogs" in document else "traces"
        teller = LineWriter("otlp", "1", "")
        items = [*wire.from_document(signal, document)]
        assert not [each for each in items if isinstance(each, wire.RefusedItem)]
        list(write_items(items, teller, memory))
        lines += map(orjson.loads, teller.lines)
    return lines


def of(lines, fact):
    return [line for line in lines if line["fact"] == fact]


def only(lines, fact, **fields):
    """The one line of a fact that has these fields."""
    (found,) = [line for line in of(lines, fact) if line.items() >= fields.items()]
    return found


def noted(lines, label):
    return [line for line in of(lines, "Noted") if line["label"] == label]


def findings(lines):
    return [line["data"]["name"] for line in noted(lines, "finding")]


def inference(attributes, number=2, parent=1, **more):
    """A span of a model call."""
    named = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "p", **attributes}
    return span(number, "chat m", named, parent, **more)


def record(name=None, attributes=None, body=None, **more):
    """A log record."""
    made = {"timeUnixNano": "1778000000000000000", "attributes": pairs(attributes or {})}
    made |= {"eventName": name} if name else {}
    return made | ({} if body is None else {"body": value(body)}) | more


def spoken(lines):
    """Whose words they are, and the words."""
    return [
        (line["role"], *(block.get("text") or block.get("thinking") for block in line["blocks"]))
        for line in of(lines, "Said")
    ]


# Attributes, by generation; the newest name is the one that counts.

TEXTS = [
    ("Spent", "provider", ["gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"]),
    ("Spent", "model", ["gen_ai.response.model", "gen_ai.request.model", "llm.model_name"]),
    ("Said", "model", ["gen_ai.response.model", "gen_ai.request.model", "llm.model_name"]),
    ("Said", "agent", ["gen_ai.agent.name", "agent.name", "gen_ai.agent.id", "service.name"]),
    ("Said", "message_id", ["gen_ai.response.id"]),
    ("Spent", "key", ["gen_ai.response.id"]),
    ("Called", "tool", ["gen_ai.tool.name", "tool.name"]),
    ("Called", "call_id", ["gen_ai.tool.call.id", "gen_ai.tool.call_id", "tool.id"]),
]


@pytest.mark.parametrize(
    ("fact", "field", "names", "n"),
    [(*row, n) for row in TEXTS for n in range(len(row[2]))],
    ids=lambda each: str(each) if not isinstance(each, list) else "",
)
def test_the_newest_name_that_is_there_is_read(fact, field, names, n):
    given = {name: f"by {name}" for name in names[n:]}
    service = {"service.name": given.pop("service.name", "s")}
    words = json.dumps([message("assistant", "x")])
    base = {"gen_ai.output.messages": words, "gen_ai.usage.input_tokens": 1}
    does = "execute_tool" if fact == "Called" else "chat"
    lines = told(
        traces(span(2, does, {"gen_ai.operation.name": does, **base, **given}, 1), **service)
    )
    assert only(lines, fact)[field] == f"by {names[n]}"


USAGE = [
    ("input_tokens", ["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens",
                      "llm.token_count.prompt"]),
    ("output_tokens", ["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens",
                       "llm.token_count.completion"]),
    ("cached_tokens", ["gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
                       "llm.token_count.prompt_details.cache_read"]),
    ("cache_write_tokens", ["gen_ai.usage.cache_write.input_tokens",
                            "gen_ai.usage.cache_creation.input_tokens",
                            "gen_ai.usage.cache_creation_input_tokens",
                            "llm.token_count.prompt_details.cache_write"]),
    ("reasoning_tokens", ["gen_ai.usage.reasoning.output_tokens",
                          "llm.token_count.completion_details.reasoning"]),
]  # fmt: skip  # a row each


@pytest.mark.parametrize(
    ("key", "names", "n"), [(*row, n) for row in USAGE for n in range(len(row[1]))]
)
@pytest.mark.parametrize("spelled", [int, str])
def test_tokens_are_read_by_their_newest_name_and_never_added(key, names, n, spelled):
    given = {name: spelled(10 + place) for place, name in enumerate(names) if place >= n}
    lines = told(traces(inference(given)))
    assert only(lines, "Spent")["usage"] == {key: 10 + n}


EXTRAS = {
    "gen_ai.request.top_k": 4,
    "gen_ai.request.temperature": 0.5,
    "gen_ai.request.stream": True,
    "gen_ai.response.time_to_first_chunk": 0.2,
    "gen_ai.usage.image.input_tokens": 3,
    "gen_ai.usage.audio.input_tokens": 4,
    "gen_ai.openai.request.service_tier": "flex",
    "openai.response.system_fingerprint": "fp",
    "gen_ai.agent.description": "writes",
    "gen_ai.agent.version": "2",
    "gen_ai.tool.definitions": '[{"type":"function","name":"look"}]',
    "llm.invocation_parameters": '{"temperature":0}',
    "llm.tools.0.tool.json_schema": "{}",
    "metadata": '{"team":"a"}',
    "tag.tags": ["x"],
    "graph.node.parent_id": "up",
}


@pytest.mark.parametrize("tokens", [{}, {"gen_ai.usage.input_tokens": 7}])
def test_what_else_is_known_of_a_request_is_stored_under_its_own_names(tokens):
    lines = told(traces(inference(EXTRAS | tokens)))
    kept = {key: each for line in lines for key, each in line.get("extra", {}).items()}
    assert kept.items() >= EXTRAS.items()
    assert [line["usage"] for line in of(lines, "Spent")] == (
        [{"input_tokens": 7}] if tokens else []
    )


@pytest.mark.parametrize(
    ("given", "folded"),
    [
        ("az.ai.inference", "azure.ai.inference"),
        ("az.ai.openai", "azure.ai.openai"),
        ("xai", "x_ai"),
        ("x_ai", "x_ai"),
        ("anthropic", "anthropic"),
        ("My Own", "My Own"),
    ],
)
@pytest.mark.parametrize("name", ["gen_ai.system", "gen_ai.provider.name"])
def test_names_of_providers_that_were_given_up_are_folded(name, given, folded):
    attributes = {"gen_ai.operation.name": "chat", name: given, "gen_ai.usage.input_tokens": 1}
    assert only(told(traces(span(2, "chat", attributes, 1))), "Spent")["provider"] == folded


GENERATIONS = [
    ("A", {"gen_ai.system": "p"}, ()),
    ("A", {}, ("gen_ai.user.message",)),
    ("A", {"gen_ai.prompt.0.content": "x"}, ()),
    ("B", {"gen_ai.provider.name": "p"}, ()),
    ("B", {"gen_ai.usage.cache_creation.input_tokens": 1}, ()),
    ("C", {"gen_ai.provider.name": "p", "gen_ai.usage.cache_write.input_tokens": 1}, ()),
    ("C", {"gen_ai.operation.name": "plan"}, ()),
    ("C", {"gen_ai.operation.name": "search_memory"}, ()),
    ("mixed", {"gen_ai.system": "p", "gen_ai.provider.name": "p"}, ()),
    ("mixed", {"gen_ai.provider.name": "p"}, ("gen_ai.choice",)),
    (None, {"gen_ai.operation.name": "chat"}, ()),
]


@pytest.mark.parametrize(("generation", "attributes", "events"), GENERATIONS)
def test_the_generation_is_read_from_the_names_whatever_the_schema_says(
    generation, attributes, events
):
    attributes = {"gen_ai.operation.name": "chat"} | attributes
    happened = [{"name": name, "attributes": pairs({"content": "x"})} for name in events]
    document = traces(span(2, "x", attributes, 1, events=happened))
    document["resourceSpans"][0]["schemaUrl"] = "https://opentelemetry.io/schemas/1.30.0"
    assert {line["origin"].get("generation") for line in told(document)} == {generation}


# What a span does.

OPERATIONS = [
    ({"gen_ai.operation.name": "chat"}, "Said"),
    ({"gen_ai.operation.name": "generate_content"}, "Said"),
    ({"gen_ai.operation.name": "text_completion"}, "Said"),
    ({"gen_ai.operation.name": "create_agent"}, "Noted"),
    ({"gen_ai.operation.name": "invoke_agent"}, "Began Ended"),
    ({"gen_ai.operation.name": "invoke_workflow"}, "Began Ended"),
    ({"gen_ai.operation.name": "plan"}, "Began Ended"),
    ({"gen_ai.operation.name": "something_new"}, "Began Ended"),
    ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}, "Called Returned"),
    ({"traceloop.span.kind": "tool"}, "Called Returned"),
    ({"traceloop.span.kind": "agent"}, "Began Ended"),
    ({"traceloop.span.kind": "workflow"}, "Began Ended"),
    ({"traceloop.span.kind": "task"}, "Began Ended"),
    ({"openinference.span.kind": "LLM"}, "Said"),
    ({"openinference.span.kind": "TOOL"}, "Called Returned"),
    ({"openinference.span.kind": "AGENT"}, "Began Ended"),
    ({"openinference.span.kind": "CHAIN"}, "Began Ended"),
    ({"openinference.span.kind": "PROMPT"}, "Began Ended"),
    ({"openinference.span.kind": "EVALUATOR", "output.value": "good"}, "Decided"),
    ({"openinference.span.kind": "GUARDRAIL", "output.value": "pass"}, "Decided"),
    ({"mcp.method.name": "tools/call", "gen_ai.tool.name": "t"}, "Called Returned"),
    ({"mcp.method.name": "resources/read", "mcp.resource.uri": "file:///a"}, "Began Ended"),
    ({}, "Began Ended"),
    *(
        ({"gen_ai.operation.name": name}, "Called Returned")
        for name in (
            "embeddings", "retrieval", "create_memory_store", "delete_memory_store", "create_memory",
            "update_memory", "upsert_memory", "search_memory", "delete_memory",
        )
    ),
    *(
        ({"openinference.span.kind": kind}, "Called Returned")
        for kind in ("EMBEDDING", "RETRIEVER", "RERANKER")
    ),
    # Both vocabularies: that of the conventions wins.
    ({"gen_ai.operation.name": "chat", "openinference.span.kind": "CHAIN"}, "Said"),
    ({"gen_ai.operation.name": "execute_tool", "openinference.span.kind": "LLM"}, "Called Returned"),
]  # fmt: skip  # a row each


@pytest.mark.parametrize(("attributes", "facts"), OPERATIONS)
def test_the_facts_of_a_span_within_a_run(attributes, facts):
    lines = told(traces(span(1), span(2, "x", attributes, 1)))
    about = [line for line in lines if line["origin"]["record"] == RECORD]
    assert " ".join(line["fact"] for line in about) == facts
    assert {line["cause"] for line in about} == {ROOT}


@pytest.mark.parametrize(
    ("operation", "what"), [("invoke_agent", "run"), ("invoke_workflow", "run"), (None, "run")]
)
def test_a_span_that_nothing_stands_above_is_the_run(operation, what):
    attributes = {"gen_ai.operation.name": operation} if operation else {}
    lines = told(traces(span(2, f"{operation} a", attributes)))
    assert (only(lines, "Began")["what"], only(lines, "Ended")["what"]) == (what, what)


def test_a_nested_agent_without_a_run_key_of_its_own_is_an_agent():
    agent = {"gen_ai.operation.name": "invoke_agent"}
    root = span(1, "invoke_agent boss", {**agent, "gen_ai.conversation.id": "talk"})
    lines = told(traces(root, span(2, "invoke_agent worker", agent, 1)))
    inner = only(lines, "Began", what="agent")
    assert (inner["agent"], inner["cause"]) == ("worker", ROOT)
    assert len({line["run"] for line in lines}) == 1
    keyed = {**agent, "gen_ai.conversation.id": "own"}
    lines = told(traces(root, span(2, "invoke_agent worker", keyed, 1)))
    assert only(lines, "Began", run=run_id("otlp", "own"))["what"] == "run"
    link = only(lines, "Linked", kind="sub-run")
    assert (link["run"], link["parent"]) == (run_id("otlp", "own"), run_id("otlp", "talk"))


def test_a_tool_is_called_at_the_start_of_its_span_and_returns_at_its_end():
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "looks",
        "gen_ai.tool.call.arguments": '{"at":1}',
        "gen_ai.tool.call.result": '{"saw":2}',
    }
    lines = told(traces(span(2, "execute_tool look", attributes, 1)))
    called, returned = only(lines, "Called"), only(lines, "Returned")
    assert (called["at"], returned["at"]) == ("2026-05-05T16:53:20Z", "2026-05-05T16:53:21Z")
    assert (called["tool"], called["call_id"], called["input"]) == ("look", "c", {"at": 1})
    assert called["extra"] == {"gen_ai.tool.type": "function", "gen_ai.tool.description": "looks"}
    assert (returned["call_id"], returned["ok"]) == ("c", True)
    assert (returned["output"], returned["seconds"]) == ({"saw": 2}, 1)
    structured = attributes | {"gen_ai.tool.call.arguments": {"at": 1}}
    assert only(told(traces(span(2, "x", structured, 1))), "Called")["input"] == {"at": 1}


def test_arguments_that_a_limit_cut_are_stored_as_text_with_a_finding():
    cut = '{"path": "src/a'
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": cut}
    lines = told(traces(span(2, "execute_tool look", attributes, 1)))
    assert only(lines, "Called")["input"] == cut
    assert findings(lines) == ["cut-attribute"]


@pytest.mark.parametrize("operation", ["embeddings", "retrieval", "search_memory"])
def test_a_lookup_is_a_call_of_the_operation(operation):
    attributes = {"gen_ai.operation.name": operation, "gen_ai.retrieval.top_k": 3}
    called = only(told(traces(span(2, f"{operation} m", attributes, 1))), "Called")
    assert called["tool"] == operation
    assert called["extra"]["gen_ai.retrieval.top_k"] == 3


def test_a_call_over_mcp_keeps_what_the_protocol_says_of_it():
    said = {
        "mcp.session.id": "s",
        "mcp.protocol.version": "2025-06-18",
        "jsonrpc.request.id": "4",
        "rpc.response.status_code": "OK",
    }
    attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "add", **said}
    called = only(told(traces(span(2, "tools/call add", attributes, 1))), "Called")
    assert called["tool"] == "add"
    assert called["extra"].items() >= said.items()


FAILED = {"status": {"code": 2, "message": "no luck"}}
RAISED = {
    "events": [
        {
            "name": "exception",
            "timeUnixNano": "1778000000500000000",
            "attributes": pairs({"exception.type": "E", "exception.message": "m",
                                 "exception.stacktrace": "s"}),
        }
    ]
}  # fmt: skip  # one event


@pytest.mark.parametrize(
    ("attributes", "fact", "field"),
    [
        ({}, "Ended", "passed"),
        ({"gen_ai.operation.name": "invoke_agent"}, "Ended", "passed"),
        ({"gen_ai.operation.name": "execute_tool"}, "Returned", "ok"),
    ],
)
def test_a_status_of_error_says_that_it_failed_and_why(attributes, fact, field):
    failed = only(told(traces(span(2, "x", attributes, 1, **FAILED, **RAISED))), fact)
    assert failed[field] is False
    assert failed["error"] == {"type": "E", "message": "m", "stacktrace": "s"}
    typed = attributes | {"error.type": "timeout"}
    failed = only(told(traces(span(2, "x", typed, 1, **FAILED))), fact)
    assert failed["error"] == {"type": "timeout", "message": "no luck"}


@pytest.mark.parametrize(("code", "passed"), [(0, None), (1, True), (2, False)])
def test_only_a_status_says_how_a_step_ended(code, passed):
    lines = told(traces(span(2, "x", parent=1, status={"code": code})))
    assert only(lines, "Ended").get("passed") is passed


def test_an_exception_in_a_span_that_did_not_fail_is_an_error_on_record():
    lines = told(traces(span(2, "x", parent=1, **RAISED)))
    (error,) = noted(lines, "error")
    assert (error["at"], error["cause"]) == ("2026-05-05T16:53:20.5Z", RECORD)
    assert error["data"]["exception.type"] == "E"


# Messages.

IMAGE = b64encode(b"\x89PNG").decode()
PARTS = [
    ({"type": "text", "content": "x"}, {"type": "text", "text": "x"}),
    ({"type": "reasoning", "content": "x"}, {"type": "thinking", "thinking": "x"}),
    (
        {"type": "tool_call", "id": "c", "name": "t", "arguments": {"a": 1}},
        {"fact": "Called", "call_id": "c", "tool": "t", "input": {"a": 1}},
    ),
    (
        {"type": "tool_call", "id": "c", "name": "t", "arguments": '{"a":1}'},
        {"fact": "Called", "input": {"a": 1}},
    ),
    ({"type": "tool_call", "name": "t"}, {"fact": "Called", "tool": "t", "synthetic_id": True}),
    (
        {"type": "tool_call_response", "id": "c", "response": {"a": 1}},
        {"fact": "Returned", "call_id": "c", "output": {"a": 1}},
    ),
    (
        {"type": "tool_call_response", "id": "c", "result": "x"},
        {"fact": "Returned", "call_id": "c", "output": "x"},
    ),
    (
        {"type": "server_tool_call", "id": "c", "name": "t", "server_tool_call": {"type": "s"}},
        {"fact": "Called", "call_id": "c", "tool": "t", "by_provider": True, "input": {"type": "s"}},
    ),
    (
        {"type": "server_tool_call_response", "id": "c", "server_tool_call_response": {"type": "s"}},
        {"fact": "Returned", "call_id": "c", "output": {"type": "s"}},
    ),
    (
        {"type": "file", "modality": "document", "file_id": "f"},
        {"type": "stream", "provider_type": "file",
         "chunk": {"type": "file", "modality": "document", "file_id": "f"}},
    ),
    (
        {"type": "uri", "modality": "video", "uri": "https://e.org/v", "mime_type": "video/mp4"},
        {"type": "stream", "provider_type": "uri",
         "chunk": {"type": "uri", "modality": "video", "uri": "https://e.org/v",
                   "mime_type": "video/mp4"}},
    ),
    (
        {"type": "widget", "sunny": True},
        {"type": "stream", "provider_type": "widget", "chunk": {"type": "widget", "sunny": True}},
    ),
]  # fmt: skip  # a row each


@pytest.mark.parametrize("encoding", ["string", "structured", "event", "log", "text", "body"])
@pytest.mark.parametrize(("part", "expected"), PARTS)
@pytest.mark.parametrize("side", ["input", "output"])
def test_what_a_part_of_a_message_becomes(part, expected, encoding, side):
    messages = [{"role": "assistant", "parts": [part], "finish_reason": "stop"}]
    name = f"gen_ai.{side}.messages"
    plain = {"gen_ai.operation.name": "chat", name: messages}
    details = "gen_ai.client.inference.operation.details"
    match encoding:
        case "string":
            document = traces(inference({name: json.dumps(messages)}))
        case "structured":
            document = traces(inference({name: messages}))
        case "event":
            happened = {"name": details, "attributes": pairs(plain)}
            document = traces(inference({}, events=[happened]))
        case "log":
            document = logs(record(details, plain, traceId=TRACE, spanId=RECORD[-16:]))
        case "text":
            plain[name] = json.dumps(messages)
            document = logs(record(details, plain, traceId=TRACE, spanId=RECORD[-16:]))
        case "body":
            document = logs(record(details, {}, plain, traceId=TRACE, spanId=RECORD[-16:]))
    lines = told(document)
    if "fact" in expected:
        assert only(lines, expected["fact"]).items() >= expected.items()
    else:
        said = [line for line in of(lines, "Said") if line["blocks"]]
        assert [line["blocks"] for line in said] == [[expected]]
        assert said[0]["role"] == "assistant"


def test_the_bytes_of_a_part_are_lifted_out_whatever_their_size(tmp_path):
    door = Door(tmp_path / "home")
    part = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": IMAGE}
    messages = json.dumps([{"role": "user", "parts": [part]}])
    door.send(traces(inference({"gen_ai.input.messages": messages})))
    ((block,),) = [line["blocks"] for line in door.facts("Said") if line["blocks"]]
    blob = block["chunk"]["content"]["$blob"]
    assert (block["type"], block["provider_type"]) == ("stream", "blob")
    assert (blob["bytes"], blob["media_type"]) == (4, "image/png")
    assert door.home.blobs.get(blob["sha256"]) == b"\x89PNG"
    door.close()


@pytest.mark.parametrize(
    "name", ["gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"]
)
def test_json_that_a_limit_cut_is_stored_as_text_with_a_finding(name):
    cut = '[{"role":"user","parts":[{"type":"te'
    lines = told(traces(inference({name: cut})))
    assert cut in [words for _, *said in spoken(lines) for words in said]
    (found,) = noted(lines, "finding")
    assert (found["data"]["name"], found["data"]["attribute"]) == ("cut-attribute", name)


@pytest.mark.parametrize("empty", ["", "[]", [], None])
def test_messages_that_are_empty_are_none_and_no_finding(empty):
    lines = told(traces(inference({"gen_ai.input.messages": empty})))
    assert spoken(lines) == [("assistant",)]
    assert findings(lines) == []


@pytest.mark.parametrize(
    ("given", "role"),
    [("system", "system"), ("developer", "system"), ("user", "user"), ("assistant", "assistant"),
     ("tool", "world"), ("critic", "note")],
)  # fmt: skip  # one table
def test_whose_words_they_are(given, role):
    parts = [{"type": "text", "content": "x"}]
    messages = json.dumps([{"role": given, "parts": parts, "name": "Ann"}])
    said = of(told(traces(inference({"gen_ai.input.messages": messages}))), "Said")[0]
    assert said["role"] == role
    assert said["extra"]["name"] == "Ann"
    # A role that is none of ours is kept under its own name.
    assert said["extra"].get("role") == (given if role == "note" else None)


@pytest.mark.parametrize(
    "given",
    [
        {"gen_ai.response.finish_reasons": ["tool_calls"]},
        {"gen_ai.response.finish_reasons": '["tool_calls"]'},
        {"gen_ai.response.finish_reasons": ["tool_call"]},
        {"llm.finish_reason": "tool_calls"},
    ],
)
def test_why_a_model_stopped_is_read_in_the_newest_word(given):
    words = json.dumps([message("assistant", "x")])
    assert only(told(traces(inference({**given, "gen_ai.output.messages": words}))), "Said")[
        "stop_reason"
    ] == "tool_call"  # fmt: skip  # one claim
    within = json.dumps([message("assistant", "x") | {"finish_reason": "length"}])
    lines = told(traces(inference({"gen_ai.output.messages": within})))
    assert only(lines, "Said")["stop_reason"] == "length"


def test_system_instructions_are_messages_of_the_system():
    parts = [{"type": "text", "content": "Be brief."}]
    for given in (parts, json.dumps(parts)):
        lines = told(traces(inference({"gen_ai.system_instructions": given})))
        assert ("system", "Be brief.") in spoken(lines)


OTHER_MESSAGES = [
    {"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "s",
     "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "u",
     "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "a"},
    {"gen_ai.prompt": json.dumps([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]),
     "gen_ai.completion": json.dumps([{"role": "assistant", "content": "a"}])},
    {"llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "s",
     "llm.input_messages.1.message.role": "user", "llm.input_messages.1.message.content": "u",
     "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "a"},
    {"traceloop.entity.input": json.dumps([{"role": "system", "content": "s"},
                                           {"role": "user", "content": "u"}]),
     "traceloop.entity.output": "a"},
    {"gen_ai.system_instructions": "s", "gen_ai.prompt": "u", "gen_ai.completion": "a"},
]  # fmt: skip  # a row each


@pytest.mark.parametrize("attributes", OTHER_MESSAGES)
def test_messages_are_read_by_the_other_names_that_are_met(attributes):
    assert spoken(told(traces(inference(attributes)))) == [
        ("system", "s"),
        ("user", "u"),
        ("assistant", "a"),
    ]


CALL = {"id": "c", "type": "function", "function": {"name": "t", "arguments": '{"a":1}'}}
OLD = [
    ("gen_ai.system.message", {"content": "s"}),
    ("gen_ai.user.message", {"content": "u", "role": "user"}),
    ("gen_ai.assistant.message", {"content": "thinking", "tool_calls": [CALL]}),
    ("gen_ai.tool.message", {"id": "c", "content": "r"}),
    ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"content": "done"}}),
]


def old_events(form, events=OLD):
    """Events of generation A: on a span, with JSON for what is no text, or as log records."""
    if form == "span":
        flat = [
            {key: each if isinstance(each, str) else json.dumps(each) for key, each in body.items()}
            for _, body in events
        ]
    elif form == "complex":
        flat = [body for _, body in events]
    elif form == "content":
        flat = [{"gen_ai.event.content": json.dumps(body)} for _, body in events]
    else:
        made = [
            record(name, {"gen_ai.system": "p"}, body if form == "log" else json.dumps(body),
                   traceId=TRACE, spanId=RECORD[-16:])
            for name, body in events
        ]  # fmt: skip  # one record
        return [logs(*made), traces(inference({}))]
    happened = [
        {"name": name, "attributes": pairs(each)}
        for (name, _), each in zip(events, flat, strict=True)
    ]
    return [traces(inference({}, events=happened))]


@pytest.mark.parametrize("form", ["span", "complex", "content", "log", "text"])
def test_events_of_generation_a_are_messages(form):
    lines = told(*old_events(form))
    assert spoken(lines) == [
        ("system", "s"),
        ("user", "u"),
        ("assistant", "thinking"),
        ("assistant", "done"),
    ]
    assert only(lines, "Called").items() >= {"call_id": "c", "tool": "t", "input": {"a": 1}}.items()
    assert only(lines, "Returned").items() >= {"call_id": "c", "output": "r"}.items()
    assert of(lines, "Said")[-1]["stop_reason"] == "stop"


@pytest.mark.parametrize("operation", ["invoke_agent", "invoke_workflow", None])
def test_repeated_events_of_an_agent_are_recorded_once(operation):
    happened = [
        {"name": name, "attributes": pairs({"gen_ai.event.content": json.dumps(body)})}
        for name, body in (OLD[1], OLD[4])
    ]
    named = {"gen_ai.operation.name": operation} if operation else {}
    agent = span(1, "agent", {**named, "gen_ai.conversation.id": "talk"}, events=happened)
    call = {"gen_ai.conversation.id": "talk"}
    lines = told(traces(inference(call, events=happened)), traces(agent))
    assert spoken(lines) == [("user", "u"), ("assistant", "done")]
    assert spoken(told(traces(agent))) == [("user", "u"), ("assistant", "done")]
    assert [line["label"] for line in of(told(traces(agent)), "Noted")] in ([], ["title"])


@pytest.mark.parametrize("key", ["gen_ai.event.content", "message", "tool_calls"])
@pytest.mark.parametrize("carrier", ["span", "log"])
def test_an_event_of_generation_a_that_a_limit_cut_is_found(key, carrier):
    cut = {key: '{"content":"Weather in Par'}
    if carrier == "span":
        happened = [{"name": "gen_ai.choice", "attributes": pairs(cut)}]
        lines = told(traces(inference({}, events=happened)))
    else:
        lines = told(logs(record("gen_ai.choice", cut, traceId=TRACE, spanId=RECORD[-16:])))
    assert findings(lines) == ["cut-attribute"]
    assert "Weather in Par" in json.dumps(of(lines, "Said") or of(lines, "Called"))


def test_an_event_in_a_span_adds_what_the_span_leaves_out():
    details = "gen_ai.client.inference.operation.details"
    known = {"gen_ai.response.id": "r", "gen_ai.usage.input_tokens": 5, "gen_ai.request.model": "m"}
    said = {"gen_ai.output.messages": [message("assistant", "x")]}
    happened = [{"name": details, "attributes": pairs(known | said)}]
    for carrier in (inference({}, events=happened), span(2, "POST", {}, 1, events=happened)):
        lines = told(traces(carrier))
        spent = only(lines, "Spent")
        assert (spent["key"], spent["model"], spent["usage"]) == ("r", "m", {"input_tokens": 5})
        assert spoken(lines) == [("assistant", "x")]
    both = told(traces(inference(known | said)), traces(span(3, "POST", {}, 1, events=happened)))
    assert {line["key"] for line in of(both, "Spent")} == {"r"}
    assert spoken(both) == [("assistant", "x")]


@pytest.mark.parametrize("form", ["span", "complex", "content", "log"])
@pytest.mark.parametrize("place", ["beside", "inside"])
def test_the_calls_of_a_choice_stand_beside_its_message_or_inside(form, place):
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant"}}
    (choice if place == "beside" else choice["message"])["tool_calls"] = [CALL]
    lines = told(*old_events(form, [("gen_ai.choice", choice)]))
    assert only(lines, "Called").items() >= {"call_id": "c", "tool": "t", "input": {"a": 1}}.items()


def test_a_call_in_a_history_a_span_and_an_answer_is_one_call():
    asked = {"type": "tool_call", "id": "c", "name": "t", "arguments": {"a": 1}}
    answer = {"role": "assistant", "parts": [asked]}
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "r"}]}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t",
            "gen_ai.tool.call.id": "c", "gen_ai.conversation.id": "talk"}  # fmt: skip  # one row
    first = chat(2, [("user", "u")], "", **{"gen_ai.output.messages": json.dumps([answer])})
    history = json.dumps([message("user", "u"), answer, result])
    last = chat(4, [], "done", **{"gen_ai.input.messages": history})
    lines = told(traces(first), traces(span(3, "execute_tool t", tool, 1)), traces(last))
    assert {line["call_id"] for line in of(lines, "Called")} == {"c"}
    assert len([line for line in of(lines, "Called") if line["origin"].get("clock")]) == 0
    assert len(of(lines, "Returned")) == 1
    assert spoken(lines) == [("user", "u"), ("assistant", "done")]


# Events.


@pytest.mark.parametrize("carrier", ["span", "log"])
@pytest.mark.parametrize("response", [None, "r"])
def test_the_result_of_an_evaluation_is_a_decision(carrier, response):
    attributes = {
        "gen_ai.evaluation.name": "relevance",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.score.label": "fair",
        "gen_ai.evaluation.explanation": "so so",
    } | ({"gen_ai.response.id": response} if response else {})
    name = "gen_ai.evaluation.result"
    if carrier == "span":
        lines = told(
            traces(inference({}, events=[{"name": name, "attributes": pairs(attributes)}]))
        )
    else:
        lines = told(logs(record(name, attributes, traceId=TRACE, spanId=RECORD[-16:])))
    assert (
        only(lines, "Decided").items()
        >= {
            "name": "relevance",
            "score": 0.5,
            "verdict": "fair",
            "reason": "so so",
            "about": response or RECORD,
        }.items()
    )


@pytest.mark.parametrize("carrier", ["span", "log"])
def test_an_exception_of_a_model_call_is_an_error_that_follows_from_the_call(carrier):
    name, attributes = "gen_ai.client.operation.exception", {"exception.type": "RateLimit"}
    if carrier == "span":
        lines = told(
            traces(inference({}, events=[{"name": name, "attributes": pairs(attributes)}]))
        )
    else:
        made = record(name, attributes, traceId=TRACE, spanId=RECORD[-16:], severityNumber=13)
        lines = told(logs(made))
    (error,) = noted(lines, "error")
    assert error["cause"] == RECORD
    assert error["data"]["exception.type"] == "RateLimit"


@pytest.mark.parametrize("order", ["span first", "event first"])
@pytest.mark.parametrize("response", ["r", None])
def test_a_span_and_an_event_of_one_response_are_one_spend(order, response):
    attributes = {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 6,
                  "gen_ai.output.messages": [message("assistant", "x")]}  # fmt: skip  # one row
    attributes |= {"gen_ai.response.id": response} if response else {}
    details = "gen_ai.client.inference.operation.details"
    both = [
        traces(inference(attributes)),
        logs(record(details, attributes, traceId=TRACE, spanId=RECORD[-16:])),
    ]
    lines = told(*(both if order == "span first" else reversed(both)))
    assert {line["key"] for line in of(lines, "Spent")} == {response or RECORD}
    assert spoken(lines) == [("assistant", "x")]


# Tokens.


@pytest.mark.parametrize(
    ("given", "read", "written", "total", "found"),
    [
        (1000, 600, 300, 1000, []),
        (10, 500, None, 510, ["cache-not-in-input"]),
        (10, 500, 20, 530, ["cache-not-in-input"]),
        (500, 500, None, 500, []),
    ],
)
def test_what_was_cached_is_part_of_the_input(given, read, written, total, found):
    attributes = {
        "gen_ai.usage.input_tokens": given,
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_write.input_tokens": written,
    }
    lines = told(traces(inference(attributes)))
    assert only(lines, "Spent")["usage"]["input_tokens"] == total
    assert findings(lines) == found


@pytest.mark.parametrize("operation", ["invoke_agent", "invoke_workflow"])
def test_the_totals_of_an_agent_are_notes_and_never_spends(operation):
    usage = {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 6}
    lines = told(traces(span(1, operation, {"gen_ai.operation.name": operation, **usage})))
    assert of(lines, "Spent") == []
    (totals,) = noted(lines, "totals")
    assert totals["data"] == {"input_tokens": 5, "output_tokens": 6}


def test_sums_of_telemetry_and_of_a_file_are_not_added(tmp_path):
    """A run that both tell spends what the greater one tells."""
    door = Door(tmp_path / "home")
    usage = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}
    door.send(traces(chat(2, [("user", "a")], "b", **usage)))
    line = {"id": "f1", "run": run_id("otlp", "talk"), "fact": "Spent", "key": "from a file",
            "usage": {"input_tokens": 12, "output_tokens": 5},
            "origin": {"writer": "claude", "fidelity": "reconstructed"}}  # fmt: skip  # one line
    door.home.intake.admit([orjson.dumps(line)], "tracklog")
    door.home.index.catch_up()
    assert sum(row["input_tokens"] for row in door.costs()) == 12
    door.close()


# OpenInference.


def test_flattened_indices_are_numbers_and_gaps_are_legal():
    told_of = {}
    for n in (10, 2, 0, 11):
        told_of[f"llm.input_messages.{n}.message.role"] = "user"
        told_of[f"llm.input_messages.{n}.message.content"] = f"turn {n}"
    lines = told(traces(span(2, "llm", {"openinference.span.kind": "LLM", **told_of}, 1)))
    assert [words for role, *words in spoken(lines) if role == "user"] == [
        ["turn 0"],
        ["turn 2"],
        ["turn 10"],
        ["turn 11"],
    ]


def test_a_message_of_openinference_is_read_completely():
    base = "llm.output_messages.0.message"
    contents = [
        {
            "type": "reasoning",
            "text": "hm",
            "id": "r1",
            "signature": "sig+/=",
            "encrypted_content": "e",
        },
        {"type": "text", "text": "Look:"},
        {"type": "image", "image.image.url": "https://e.org/i.png"},
    ]
    given = {"openinference.span.kind": "LLM", f"{base}.role": "assistant"}
    for n, content in enumerate(contents):
        given |= {f"{base}.contents.{n}.message_content.{k}": each for k, each in content.items()}
    given |= {
        f"{base}.tool_calls.3.tool_call.id": "c",
        f"{base}.tool_calls.3.tool_call.function.name": "t",
        f"{base}.tool_calls.3.tool_call.function.arguments": '{"a":1}',
        "llm.input_messages.0.message.role": "tool",
        "llm.input_messages.0.message.tool_call_id": "b",
        "llm.input_messages.0.message.content": "r",
    }
    lines = told(traces(span(2, "llm", given, 1)))
    thought, words, image = only(lines, "Said")["blocks"]
    assert thought == {"type": "thinking", "thinking": "hm", "id": "r1", "signature": "sig+/=",
                       "encrypted_content": "e"}  # fmt: skip  # one block
    assert words == {"type": "text", "text": "Look:"}
    assert image["chunk"]["image"] == {"image": {"url": "https://e.org/i.png"}}
    assert only(lines, "Called").items() >= {"call_id": "c", "tool": "t", "input": {"a": 1}}.items()
    assert only(lines, "Returned").items() >= {"call_id": "b", "output": "r"}.items()


def test_a_model_call_of_openinference_spends_as_reported():
    given = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "asked",
        "llm.response.model_name": "answered",
        "llm.provider": "xai",
        "llm.finish_reason": "stop",
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 5,
        "llm.token_count.total": 15,
        "llm.token_count.prompt_details.audio": 1,
        "llm.cost.prompt": 0.1,
        "llm.cost.total": "0.3",
    }
    lines = told(traces(span(2, "llm", given, 1)))
    assert (
        only(lines, "Spent").items()
        >= {
            "provider": "x_ai",
            "model": "answered",
            "cost_usd": 0.3,
            "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        }.items()
    )
    assert only(lines, "Said")["stop_reason"] == "stop"
    assert only(lines, "Spent")["extra"]["llm.cost.prompt"] == 0.1
    assert only(lines, "Spent")["extra"]["llm.token_count.prompt_details.audio"] == 1


def test_a_tool_of_openinference_is_given_its_input_and_keeps_its_definition():
    given = {
        "openinference.span.kind": "TOOL",
        "tool.name": "look",
        "tool.id": "c",
        "tool.description": "looks",
        "tool.parameters": '{"at":{"type":"integer"}}',
        "tool.json_schema": "{}",
        "input.value": '{"at":1}',
        "output.value": "seen",
    }
    lines = told(traces(span(2, "look", given, 1)))
    called = only(lines, "Called")
    assert (called["tool"], called["call_id"], called["input"]) == ("look", "c", {"at": 1})
    assert called["extra"].keys() >= {"tool.description", "tool.parameters", "tool.json_schema"}
    assert only(lines, "Returned")["output"] == "seen"
    del given["input.value"]
    given["tool.parameters"] = '{"at":1}'
    assert only(told(traces(span(2, "look", given, 1))), "Called")["input"] == {"at": 1}


def test_who_and_where_of_openinference():
    given = {
        "openinference.span.kind": "AGENT",
        "session.id": "s",
        "user.id": "u",
        "agent.name": "Ann",
        "graph.node.id": "n1",
        "graph.node.parent_id": "n0",
        "metadata": '{"a":1}',
        "tag.tags": ["x"],
    }
    began = only(told(traces(span(2, "agent", given))), "Began")
    assert (began["run"], began["agent"], began["step"]) == (run_id("otlp", "s"), "Ann", "n1")
    assert (
        began["extra"].items()
        >= {
            "user.id": "u",
            "graph.node.parent_id": "n0",
            "metadata": '{"a":1}',
            "tag.tags": ["x"],
        }.items()
    )
    named = given | {"graph.node.name": "search"}
    assert only(told(traces(span(2, "agent", named))), "Began")["step"] == "search"


@pytest.mark.parametrize("kind", ["EVALUATOR", "GUARDRAIL"])
@pytest.mark.parametrize(("output", "verdict"), [("pass", "pass"), ('{"ok":true}', {"ok": True})])
def test_a_judge_of_openinference_decides(kind, output, verdict):
    given = {"openinference.span.kind": kind, "output.value": output, "input.value": "x"}
    assert only(told(traces(span(2, "toxicity", given, 1))), "Decided")["verdict"] == verdict


@pytest.mark.parametrize("word", ["annotation", "evaluation"])
@pytest.mark.parametrize("prefix", ["", "trace.", "session."])
def test_annotations_and_evaluations_are_decisions(prefix, word):
    rows = {
        0: {
            "name": "tone",
            "label": "good",
            "score": 0.5,
            "explanation": "kind",
            "annotator_kind": "LLM",
        },
        2: {"name": "length", "score": 1, "identifier": "ann"},
        10: {"name": "note", "explanation": "no verdict"},
    }
    given = {
        f"{prefix}{word}s.{n}.{word}.{key}": each
        for n, row in rows.items()
        for key, each in row.items()
    }
    lines = told(traces(span(2, "x", {"openinference.span.kind": "CHAIN", **given}, 1)))
    first, second = of(lines, "Decided")
    assert first.items() >= {"name": "tone", "verdict": "good", "score": 0.5, "reason": "kind",
                             "by": "LLM"}.items()  # fmt: skip  # one row
    assert second.items() >= {"name": "length", "score": 1, "by": "ann"}.items()
    assert first.get("about") == (None if prefix else RECORD)
    # What says nothing that could be decided is kept all the same.
    (rest,) = noted(lines, word)
    assert rest["data"] == rows[10]


def test_of_two_vocabularies_on_one_span_one_counts_and_the_other_fills_holes():
    given = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.input.messages": json.dumps([message("user", "hi")]),
        "openinference.span.kind": "LLM",
        "llm.provider": "openai",
        "llm.model_name": "other",
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 4,
        "llm.cost.total": 0.1,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hi",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "ho",
    }
    lines = told(traces(span(2, "chat m", given, 1)))
    assert spoken(lines) == [("user", "hi"), ("assistant", "ho")]
    spent = only(lines, "Spent")
    assert spent["usage"] == {"input_tokens": 10, "output_tokens": 4}
    assert (spent["provider"], spent["model"], spent["cost_usd"]) == ("openai", "m", 0.1)


# Identity, time and place.


def test_the_resource_says_who_and_where():
    about = {"service.name": "fleet", "service.version": "3", "service.instance.id": "host-1"}
    began = only(told(traces(span(1), **about)), "Began")
    assert (began["agent"], began["host"]) == ("fleet", "host-1")
    assert began["software"] == {"name": "fleet", "version": "3"}
    unnamed = only(told(traces(span(1), **{"service.name": "unknown_service:node"})), "Began")
    assert "agent" not in unnamed


def test_a_pending_span_stands_for_the_real_one():
    """Logfire tells at the start what it will tell at the end."""
    pending = span(9, "job", {"logfire.span_type": "pending_span",
                              "logfire.pending_parent_id": f"{1:016x}"}, parent=2)  # fmt: skip  # one span
    pending["endTimeUnixNano"] = pending["startTimeUnixNano"]
    early = told(traces(pending))
    began = only(early, "Began")
    assert (began["origin"]["record"], began["cause"]) == (RECORD, ROOT)
    assert of(early, "Ended") == []
    top = span(9, "job", {"logfire.span_type": "pending_span",
                          "logfire.pending_parent_id": "0" * 16}, parent=2)  # fmt: skip  # one span
    assert "cause" not in only(told(traces(top)), "Began")


@pytest.mark.parametrize(
    ("operation", "facts"),
    [
        (None, ["Began"]),
        ("chat", ["Began"]),
        ("execute_tool", ["Called"]),
        ("invoke_agent", ["Began"]),
    ],
)
def test_a_span_without_an_end_gives_only_its_start(operation, facts):
    attributes = {"gen_ai.operation.name": operation} if operation else {}
    lines = told(traces(span(1), span(2, "x", attributes, 1, endTimeUnixNano="0")))
    about = [line for line in lines if line["origin"]["record"] == RECORD]
    assert [line["fact"] for line in about] == facts


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [({}, "related"), ({"link.kind": "fork"}, "fork"), ({"kind": "unheard of"}, "related")],
)
def test_a_span_link_names_the_other_trace(attributes, kind):
    link = {"traceId": "AA" * 16, "spanId": "bb" * 8, "attributes": pairs(attributes)}
    lines = told(traces(span(2, "x", parent=1, links=[link])))
    linked = only(lines, "Linked", kind=kind)
    assert linked["other"] == "aa" * 16
    assert linked["context"]["span"] == "bb" * 8


@pytest.mark.parametrize(
    "dropped",
    [
        {"droppedAttributesCount": 2},
        {"droppedEventsCount": 2},
        {"droppedLinksCount": 2},
        {"events": [{"name": "e", "droppedAttributesCount": 2}]},
        {"links": [{"traceId": "a" * 32, "spanId": "b" * 16, "droppedAttributesCount": 2}]},
    ],
)
def test_what_the_producer_dropped_is_a_finding(dropped):
    lines = told(traces(span(2, "x", parent=1, **dropped)))
    assert findings(lines) == ["dropped"]
    assert noted(lines, "finding")[0]["data"]["count"] == 2
    if "droppedAttributesCount" in dropped:
        assert findings(told(logs(record("x", **dropped)))) == ["dropped"]


@pytest.mark.parametrize("where", ["resource", "scope"])
def test_what_was_dropped_around_the_spans_is_found_once(where):
    document = traces(span(2, parent=1), span(3, parent=1))
    outer = document["resourceSpans"][0]
    (outer if where == "resource" else outer["scopeSpans"][0]).setdefault(where, {})[
        "droppedAttributesCount"
    ] = 2
    assert findings(told(document)) == ["dropped-around"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_has_none_for_is_noted(number):
    strange = {"attributes": [{"key": "ratio", "value": {"doubleValue": number}}]}
    lines = told(traces(span(2, "x", parent=1) | strange))
    assert findings(lines) == ["not-a-number"]
    assert only(lines, "Began")["extra"] == {"ratio": number}
    (kept, *_) = told(logs(record("x") | strange))
    assert kept["data"] == {"attributes": {"ratio": number}}


@pytest.mark.parametrize(
    ("times", "at", "clock"),
    [
        ({"timeUnixNano": "1778000000000000000", "observedTimeUnixNano": "1"},
         "2026-05-05T16:53:20Z", None),
        ({"timeUnixNano": "0", "observedTimeUnixNano": 1778000000000000000},
         "2026-05-05T16:53:20Z", "observed"),
        ({"timeUnixNano": None}, None, None),
    ],
)  # fmt: skip  # one table
def test_the_time_of_a_log_record(times, at, clock):
    first = told(logs(record("x") | times))[0]
    assert (first.get("at"), first["origin"].get("clock")) == (at, clock)


def test_equal_log_records_without_a_time_are_two():
    bare = record("x", timeUnixNano=None)
    lines = told(logs(bare, bare))
    assert len({line["id"] for line in of(lines, "Noted")}) == 2
    timed = record("x")
    assert len({line["id"] for line in of(told(logs(timed, timed)), "Noted")}) == 1


@pytest.mark.parametrize("level", range(1, 25))
def test_from_severity_17_on_a_record_is_an_error(level):
    raised = {"exception.type": "E", "exception.message": "m", "exception.stacktrace": "s"}
    (first, *_) = told(logs(record(None, raised, "boom", severityNumber=level)))
    assert first["label"] == ("error" if level >= 17 else "log")
    assert first["data"].items() >= {**raised, "body": "boom"}.items()


@pytest.mark.parametrize(
    ("name", "attributes", "body", "kind"),
    [
        ("by.field", {"event.name": "by.attribute"}, "by.body", "by.field"),
        (None, {"event.name": "by.attribute"}, "by.body", "by.attribute"),
        (None, {}, "by.body", "by.body"),
        (None, {}, "No name at all.", None),
    ],
)
def test_the_name_of_an_event_and_nothing_of_it_is_lost(name, attributes, body, kind):
    (first, *_) = told(logs(record(name, attributes | {"a": 1}, body)))
    assert (first["fact"], first.get("kind")) == ("Noted", kind)
    assert first["data"]["body"] == body
    assert first["data"]["attributes"] == attributes | {"a": 1}


# Agents that reach us by environment alone.

AGENT_EVENTS = [
    ("claude_code.user_prompt", {"prompt": "hi"},
     {"fact": "Said", "role": "user", "blocks": [{"type": "text", "text": "hi"}]}),
    ("claude_code.user_prompt", {"prompt": "<REDACTED>"}, {"fact": "Said", "blocks": []}),
    ("claude_code.user_prompt", {"prompt_length": "9"}, {"fact": "Said", "blocks": []}),
    ("codex.user_prompt", {"prompt": "[REDACTED]"}, {"fact": "Said", "blocks": []}),
    ("gemini_cli.user_prompt", {"prompt": "hi"},
     {"fact": "Said", "role": "user", "blocks": [{"type": "text", "text": "hi"}]}),
    ("claude_code.assistant_response", {"response": "ho", "model": "m"},
     {"fact": "Said", "role": "assistant", "blocks": [{"type": "text", "text": "ho"}]}),
    ("claude_code.api_request",
     {"model": "m", "cost_usd": "0.25", "duration_ms": "900", "input_tokens": "3",
      "output_tokens": "4", "cache_read_tokens": "100", "cache_creation_tokens": "20",
      "request_id": "req_1"},
     {"fact": "Spent", "key": "req_1", "model": "m", "cost_usd": 0.25,
      "usage": {"input_tokens": 123, "cached_tokens": 100, "cache_write_tokens": 20,
                "output_tokens": 4}}),
    ("codex.sse_event",
     {"event.kind": "response.completed", "input_token_count": "10", "output_token_count": "5",
      "cached_token_count": "4", "reasoning_token_count": "2", "tool_token_count": "15",
      "model": "m"},
     {"fact": "Spent", "model": "m",
      "usage": {"input_tokens": 10, "cached_tokens": 4, "output_tokens": 5, "reasoning_tokens": 2,
                "total_tokens": 15}}),
    ("codex.sse_event", {"event.kind": "response.created", "input_token_count": "10"},
     {"fact": "Noted", "kind": "codex.sse_event"}),
    ("gemini_cli.api_response",
     {"model": "m", "input_token_count": 10, "output_token_count": 5, "response_id": "r"},
     {"fact": "Spent", "key": "r", "usage": {"input_tokens": 10, "output_tokens": 5}}),
    ("codex.conversation_starts",
     {"model": "m", "app.version": "1", "approval_policy": "never", "reasoning_effort": "high"},
     {"fact": "Began", "what": "run", "model": "m", "software": {"name": "sample", "version": "1"}}),
    ("claude_code.tool_decision",
     {"tool_name": "Bash", "decision": "accept", "source": "config", "tool_use_id": "c"},
     {"fact": "Decided", "verdict": "accept", "by": "config", "about": "c"}),
    ("codex.tool_decision", {"call_id": "c", "decision": "denied", "source": "User"},
     {"fact": "Decided", "verdict": "denied", "by": "User", "about": "c"}),
    ("claude_code.api_error", {"error": "overloaded", "status_code": "529"},
     {"fact": "Noted", "label": "error", "kind": "claude_code.api_error", "text": "overloaded"}),
    ("claude_code.api_refusal", {}, {"fact": "Noted", "label": "refusal"}),
    ("gemini_cli.chat_compression", {"tokens_before": "100", "tokens_after": "40"},
     {"fact": "Noted", "label": "compaction", "data": {"before": 100, "after": 40}}),
    ("claude_code.permission_mode_changed", {"from_mode": "default", "to_mode": "plan"},
     {"fact": "Noted", "label": "mode-change", "data": {"from": "default", "to": "plan"}}),
    ("codex.turn_cost", {"cost_usd": "0.02"}, {"fact": "Noted", "label": "totals"}),
    ("claude_code.mcp_server_connection", {"status": "ok"},
     {"fact": "Noted", "kind": "claude_code.mcp_server_connection"}),
    ("codex.sandbox_outcome", {"outcome": "allowed"},
     {"fact": "Noted", "kind": "codex.sandbox_outcome"}),
    ("gemini_cli.api_request", {"model": "m"}, {"fact": "Noted", "kind": "gemini_cli.api_request"}),
]  # fmt: skip  # a row each


@pytest.mark.parametrize("named", ["body and short attribute", "attribute", "field", "body"])
@pytest.mark.parametrize(("name", "attributes", "expected"), AGENT_EVENTS)
def test_the_facts_of_an_event_of_an_agent(name, attributes, expected, named):
    key = "conversation.id" if name.startswith("codex") else "session.id"
    given = {key: "talk", **attributes}
    match named:
        case "body and short attribute":
            made = record(None, given | {"event.name": name.partition(".")[2]}, name)
        case "attribute":
            made = record(None, given | {"event.name": name})
        case "field":
            made = record(name, given)
        case "body":
            made = record(None, given, name)
    first, *others = told(logs(made))
    assert first.items() >= expected.items()
    assert [line["fact"] for line in others] == ["Linked"]
    tool = {"claude_code": "claude", "codex": "codex", "gemini_cli": "gemini"}
    assert first["run"] == run_id(tool[name.partition(".")[0]], "talk")


@pytest.mark.parametrize(
    ("service", "name", "tool"),
    [
        ("x", "codex.turn", "codex"),
        ("codex_cli_rs", "turn", "codex"),
        ("Claude-Code", "turn", "claude"),
        ("gemini-cli", "turn", "gemini"),
        ("github-copilot", "turn", "copilot"),
        ("x", "codex", "otlp"),
        ("x", "codexes.turn", "otlp"),
    ],
)
def test_whose_conversation_it_is(service, name, tool):
    """So that telemetry and file of an agent meet in one run."""
    lines = told(traces(span(1, name, {"session.id": "s"}), **{"service.name": service}))
    assert {line["run"] for line in lines} == {run_id(tool, "s")}


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("claude_code.tool_result",
         {"tool_name": "t", "tool_use_id": "c", "success": "true", "duration_ms": "1500",
          "tool_input": '{"a":1}'}),
        ("codex.tool_result",
         {"tool_name": "t", "call_id": "c", "success": "true", "duration_ms": "1500",
          "arguments": '{"a":1}'}),
        ("gemini_cli.tool_call",
         {"function_name": "t", "call_id": "c", "success": True, "duration_ms": 1500,
          "function_args": '{"a":1}'}),
    ],
)  # fmt: skip  # one table
def test_the_result_of_a_tool_is_its_call_and_its_return(name, attributes):
    lines = told(logs(record(None, attributes | {"event.name": name, "session.id": "s"})))
    called, returned = only(lines, "Called"), only(lines, "Returned")
    assert called.items() >= {"tool": "t", "call_id": "c", "input": {"a": 1}}.items()
    assert returned.items() >= {"call_id": "c", "ok": True, "seconds": 1.5}.items()
    assert called["at"] == returned["at"] == "2026-05-05T16:53:20Z"
    failed = {**attributes, "success": "false" if isinstance(attributes["success"], str) else False}
    failed = {key: each for key, each in failed.items() if key not in ("tool_use_id", "call_id")}
    lines = told(logs(record(None, failed | {"event.name": name, "session.id": "s"})))
    assert only(lines, "Returned")["ok"] is False
    assert only(lines, "Called")["synthetic_id"] is True
    assert only(lines, "Called")["call_id"] == only(lines, "Returned")["call_id"]


def test_the_spend_of_a_request_without_an_id_has_that_of_its_line():
    lines = told(logs(record("claude_code.api_request", {"session.id": "s", "input_tokens": "1"})))
    assert only(lines, "Spent")["key"] == only(lines, "Spent")["id"]


CODEX = {"conversation.id": "talk", "event.name": "codex.tool_result", "call_id": "c",
         "event.timestamp": "2026-05-05T16:53:20.000Z", "tool_name": "t", "success": "true"}  # fmt: skip  # one row


@pytest.mark.parametrize("carrier", ["event by name", "event by attribute", "span"])
@pytest.mark.parametrize("order", ["log first", "trace first"])
@pytest.mark.parametrize("restart", [False, True])
def test_the_log_and_the_trace_copy_of_one_event_are_one(carrier, order, restart, tmp_path):
    door = Door(tmp_path / "home")
    service = {"service.name": "codex_cli_rs"}
    log = logs(record(None, CODEX), **service)
    if carrier == "span":
        copy = span(2, "tool_result", CODEX, 1)
    else:
        name = CODEX["event.name"] if carrier == "event by name" else "event otel/src/lib.rs:7"
        happened = {"name": name, "attributes": pairs(CODEX)}
        copy = span(2, "turn", {"conversation.id": "talk"}, 1, events=[happened])
    both = [log, traces(copy, **service)]
    for document in both if order == "log first" else reversed(both):
        door.send(document)
        if restart:
            door.begin_again()
    assert [line["call_id"] for line in door.facts("Called")] == ["c"]
    assert [line["call_id"] for line in door.facts("Returned")] == ["c"]
    key = "talk/codex.tool_result/2026-05-05T16:53:20.000Z/c"
    assert {line["origin"]["record"] for line in door.facts("Called")} == {key}
    door.close()
