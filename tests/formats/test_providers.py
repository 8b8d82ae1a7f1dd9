"""Providers: what agents print, as content blocks; whatever the bytes are."""

import ast
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracklog
from support.transcribing import bodies, run_id
from tracklog.formats import providers
from tracklog.formats.providers import Normaliser, ReplyBuilder, normalise, provider, provider_of
from tracklog.model.fact import BLOCK_KEYS
from tracklog.recording.recorder import Recorder

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
NAMES = ["claude", "codex", "gemini", "copilot", "openai"]
OURS = {"turn", "message_id", "tool_id_synthetic"}
"""Extras that say where a block stood."""


def lines(*objects) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)


def said(name, *objects, **options):
    """The blocks of a stream, without what is the same on all of them."""
    return bare(normalise(name, lines(*objects), **options).blocks)


def bare(blocks):
    return [{k: v for k, v in block.items() if k not in OURS | {"fidelity"}} for block in blocks]


def text(value, **more):
    return {"type": "text", "text": value, **more}


def thinking(value, **more):
    return {"type": "thinking", "thinking": value, **more}


def use(name, id, input, **more):
    return {"type": "tool_use", "tool_name": name, "tool_id": id, "tool_input": input, **more}


def result(id, content, **more):
    return {"type": "tool_result", "tool_id": id, "tool_content": content, **more}


def claude_line(*elements, id="msg_1", **more):
    message = {"id": id, "role": "assistant", "content": list(elements)}
    return {"type": "assistant", "message": message, "session_id": "s-1", **more}


CLAUDE_TEXT = {"type": "text", "text": "Reading it."}
CLAUDE_THOUGHT = {"type": "thinking", "thinking": "Where is it?", "signature": "c2ln"}
CLAUDE_USE = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a.py"}}


def item(moment, **fields):
    return {"type": f"item.{moment}", "item": fields}


def event(kind, **told):
    return {"type": kind, "data": told, "id": "e", "timestamp": "2026-05-05T09:00:00.000Z"}


def delta(**told):
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": told}],
    }


SAME = {
    "claude": [
        claude_line(CLAUDE_TEXT, CLAUDE_USE),
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x = 1"}],
            },
        },
    ],
    "codex": [
        item("completed", id="item_0", type="agent_message", text="Reading it."),
        item("started", id="toolu_1", type="mcp_tool_call", tool="Read", arguments={"path": "a.py"}),
        item(
            "completed", id="toolu_1", type="mcp_tool_call", tool="Read",
            arguments={"path": "a.py"}, result="x = 1",
        ),
    ],
    "gemini": [
        {"type": "message", "role": "assistant", "content": "Reading it."},
        {
            "type": "tool_use", "tool_name": "Read", "tool_id": "toolu_1",
            "parameters": {"path": "a.py"},
        },
        {"type": "tool_result", "tool_id": "toolu_1", "output": "x = 1"},
    ],
    "copilot": [
        event(
            "assistant.message", messageId="m-1", content="Reading it.",
            toolRequests=[{"toolCallId": "toolu_1", "name": "Read", "arguments": {"path": "a.py"}}],
        ),
        event("tool.execution_complete", toolCallId="toolu_1", result={"content": "x = 1"}),
    ],
    "openai": [
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "Reading it.",
                        "tool_calls": [
                            {
                                "id": "toolu_1",
                                "type": "function",
                                "function": {"name": "Read", "arguments": '{"path": "a.py"}'},
                            }
                        ],
                    },
                    "finish_reason": "tool_calls",
                }
            ],
        },
        {"role": "tool", "tool_call_id": "toolu_1", "content": "x = 1"},
    ],
}  # fmt: skip  # one object per line of the stream


@pytest.mark.requirement("AWF-38")
@pytest.mark.parametrize("name", NAMES)
def test_all_providers_map_into_the_same_blocks(name):
    assert said(name, *SAME[name]) == [
        text("Reading it."),
        use("Read", "toolu_1", {"path": "a.py"}),
        result("toolu_1", "x = 1", tool_name="Read"),
    ]
    whole = normalise(name, lines(*SAME[name]))
    assert {block["fidelity"] for block in whole.blocks} == {"agent_emitted"}
    assert whole.meta["provider"] == name
    assert whole.meta["status"] == "ok"


@pytest.mark.requirement("AWF-39")
def test_no_provider_is_named_outside_its_own_file():
    source = Path(tracklog.__file__).parent
    formats = source / "formats"
    # An adapter writes the runs of its own library; the demo shows runs.
    plugs = [formats / name for name in ("providers", "importers", "hooks", "adapters")]
    allowed = (*plugs, source / "demo")
    for path in source.rglob("*.py"):
        if any(path.is_relative_to(each) for each in allowed):
            continue
        found = {
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and node.value in NAMES
        }
        assert not found, f"{path} names {found}"


def test_the_folder_is_the_registry_and_aliases_are_known():
    assert sorted(each.name for each in providers.providers()) == sorted(NAMES)
    assert provider("github_copilot") is provider("copilot")
    assert provider("openai_compatible") is provider("openai")
    assert provider_of("/usr/local/bin/claude") is provider("claude")
    assert provider_of("bash") is None


def test_an_unknown_provider_gives_no_blocks_and_says_so():
    heard = normalise("nobody", b'{"type":"text"}\n')
    assert heard.blocks == []
    assert heard.report.unknown_provider == "nobody"


@pytest.mark.requirement("AWF-42")
def test_thinking_text_and_tool_use_of_one_response_are_three_blocks_in_that_order():
    assert said("claude", claude_line(CLAUDE_THOUGHT, CLAUDE_TEXT, CLAUDE_USE)) == [
        thinking("Where is it?", signature="c2ln"),
        text("Reading it."),
        use("Read", "toolu_1", {"path": "a.py"}),
    ]


@pytest.mark.requirement("AWF-40")
@pytest.mark.parametrize("name", NAMES)
def test_a_raw_nul_byte_harms_no_line_and_survives(name, tmp_path):
    stream = lines(*SAME[name]).replace(b"Reading it.", b"Rea\0ding it.")
    heard = normalise(name, stream)
    assert heard.blocks[0]["text"] == "Rea\0ding it."
    assert heard.report.nul == 1
    assert heard.report.malformed == 0
    with Recorder.open(run_id(), tmp_path) as recorder, recorder.run("review") as run:
        run.assistant(heard.blocks, **{**heard.meta, "report": heard.report.as_json()})
    assert b"\0" not in recorder.path.read_bytes()
    message = next(each for each in bodies(recorder.path) if each["type"] == "message.assistant")
    assert message["payload"]["blocks"][0]["text"] == "Rea\0ding it."


@pytest.mark.requirement("AWF-41")
@pytest.mark.parametrize("name", NAMES)
def test_a_call_without_a_result_is_stored_as_it_is(name):
    dangling = [each for each in SAME[name] if "x = 1" not in json.dumps(each)]
    assert said(name, *dangling) == [text("Reading it."), use("Read", "toolu_1", {"path": "a.py"})]


@pytest.mark.requirement("AWF-22")
@pytest.mark.parametrize("name", NAMES)
def test_a_reply_is_recorded_as_blocks(name, tmp_path):
    heard = normalise(name, lines(*SAME[name]))
    with Recorder.open(run_id(), tmp_path) as recorder, recorder.run("review") as run:
        run.assistant(heard.blocks, **{**heard.meta, "report": heard.report.as_json()})
    message = next(each for each in bodies(recorder.path) if each["type"] == "message.assistant")
    kinds = [block["type"] for block in message["payload"]["blocks"]]
    assert kinds == ["text", "tool_use", "tool_result"]


def test_lines_of_one_message_are_one_message_and_a_longer_copy_replaces_the_shorter():
    grown = {"type": "text", "text": "Reading it. Done."}
    assert said(
        "claude",
        claude_line(CLAUDE_THOUGHT),
        claude_line(CLAUDE_THOUGHT, CLAUDE_TEXT),
        claude_line(grown),
        claude_line(CLAUDE_USE),
        claude_line(CLAUDE_USE),
    ) == [
        thinking("Where is it?", signature="c2ln"),
        text("Reading it. Done."),
        use("Read", "toolu_1", {"path": "a.py"}),
    ]


def test_a_sub_agents_blocks_name_the_call_that_began_it():
    [block] = said("claude", claude_line(CLAUDE_TEXT, parent_tool_use_id="toolu_9"))
    assert block["parent_tool_id"] == "toolu_9"


def test_content_as_a_plain_string_is_text_and_an_echoed_prompt_is_nothing():
    echo = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "q"}]}}
    line = {"type": "assistant", "message": {"id": "m", "content": "hello"}}
    assert said("claude", echo, line) == [text("hello")]


def test_redacted_thinking_stays_opaque():
    [block] = said("claude", claude_line({"type": "redacted_thinking", "data": "ZW5j"}))
    assert block == {"type": "thinking", "opaque": "ZW5j"}


def test_the_result_line_has_usage_cost_and_failure():
    result_line = {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "result": "it broke",
        "num_turns": 3,
        "duration_ms": 1200,
        "total_cost_usd": 0.25,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 100,
            "output_tokens": 7,
        },
    }
    heard = normalise("claude", lines(claude_line(CLAUDE_TEXT), result_line), b"boom\n")
    spent = heard.meta["usage"]
    assert (spent["input_tokens"], spent["cached_tokens"]) == (113, 100)
    assert (spent["cache_write_tokens"], spent["output_tokens"]) == (10, 7)
    assert spent["total_tokens"] == 120
    assert heard.meta["cost_usd"] == 0.25
    assert (heard.meta["status"], heard.meta["error"]) == ("error", "it broke")
    assert heard.meta["stderr_tail"] == "boom\n"


def test_an_answer_stands_in_where_there_is_no_block():
    heard = normalise("claude", lines({"type": "result", "result": "forty-two"}))
    assert bare(heard.blocks) == [text("forty-two")]
    assert normalise("claude", b"").blocks == []


STREAMED = [
    {"type": "message_start", "message": {"id": "msg_1", "model": "m"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Read"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ing it."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"path": "a.'},
    },
]


def wrapped(events):
    return [{"type": "stream_event", "event": each, "session_id": "s-1"} for each in events]


def test_deltas_are_used_only_for_messages_that_never_came_completely():
    streamed = wrapped(STREAMED)
    whole = [claude_line(CLAUDE_TEXT)]
    cut = use("Read", "toolu_1", '{"path": "a.', partial=True)
    assert said("claude", *streamed, status="killed") == [text("Reading it."), cut]
    assert said("claude", *streamed, *whole, status="killed") == [text("Reading it."), cut]
    both = [*whole, claude_line(CLAUDE_USE)]
    assert said("claude", *streamed, *both) == [
        text("Reading it."),
        use("Read", "toolu_1", {"path": "a.py"}),
    ]


def test_pieces_are_returned_if_asked_for():
    heard = normalise("claude", lines(*wrapped(STREAMED)), keep_partials=True)
    pieces = [block for block in heard.blocks if block["type"] == "stream"]
    assert len(pieces) == len(STREAMED)


def test_both_generations_of_codex_items_are_read():
    assert said(
        "codex",
        {"type": "thread.started", "thread_id": "t-1"},
        item("completed", id="item_0", item_type="assistant_message", text="one"),
        item("completed", id="item_1", item_type="function_call", name="sh", arguments='{"a": 1}'),
        item("completed", id="item_2", type="agentMessage", text="two"),
        item("completed", id="item_3", type="reasoning", text="hm"),
    ) == [text("one"), use("sh", "item_1", {"a": 1}), text("two"), thinking("hm")]


def test_a_command_is_a_call_when_it_starts_and_a_result_when_it_ends():
    started = item("started", id="item_1", type="command_execution", command="ls /x")
    ended = item(
        "completed", id="item_1", type="command_execution", command="ls /x",
        aggregated_output="no such file", exit_code=2, status="failed",
    )  # fmt: skip
    call = use("command_execution", "item_1", {"command": "ls /x"})
    back = result("item_1", "no such file", tool_name="command_execution", is_error=True)
    back["exit_code"] = 2
    assert said("codex", started, ended) == [call, back]
    assert said("codex", ended) == [call, back]
    assert said("codex", started) == [call]


def test_changes_searches_and_servers_are_calls_with_results():
    blocks = said(
        "codex",
        item("completed", id="i1", type="file_change", changes=[{"path": "a", "kind": "add"}],
             status="completed"),
        item("completed", id="i2", type="web_search", query="q"),
        item("completed", id="i3", type="mcp_tool_call", server="s", tool="t", arguments={},
             error={"message": "no"}, status="failed"),
        item("completed", id="i4", type="collab_tool_call", tool="spawn_agent", prompt="p",
             receiver_thread_ids=["t-2"], agents_states={"t-2": {"status": "running"}},
             status="completed"),
    )  # fmt: skip
    names = [b["tool_name"] for b in blocks if b["type"] == "tool_use"]
    assert names == ["file_change", "web_search", "t", "spawn_agent"]
    assert [b.get("is_error") for b in blocks if b["type"] == "tool_result"] == [
        False, None, True, False,
    ]  # fmt: skip
    assert blocks[4]["tool_server"] == "s"
    assert blocks[5]["tool_content"] == "no"


def test_usage_is_summed_over_turns_and_a_failed_turn_is_an_error():
    turn = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2}
    heard = normalise(
        "codex",
        lines(
            {"type": "turn.started"},
            {"type": "turn.completed", "usage": turn},
            {"type": "turn.started"},
            {"type": "turn.completed", "usage": {**turn, "reasoning_output_tokens": 1}},
            {"type": "turn.failed", "error": {"message": "limit"}},
        ),
    )
    spent = {k: v for k, v in heard.meta["usage"].items() if k != "raw"}
    assert spent == {
        "input_tokens": 20,
        "cached_tokens": 8,
        "output_tokens": 4,
        "reasoning_tokens": 1,
        "total_tokens": 24,
    }
    assert (heard.meta["status"], heard.meta["error"]) == ("error", "limit")


def test_an_item_that_was_only_updated_is_partial():
    updated = item("updated", id="i1", type="agent_message", text="so far")
    assert said("codex", updated, status="timeout") == [text("so far", partial=True)]


def test_unknown_items_are_stored_raw():
    todo = item("completed", id="i1", type="todo_list", items=[{"text": "a", "completed": False}])
    heard = normalise("codex", lines(todo))
    [block] = heard.blocks
    assert (block["type"], block["provider_type"]) == ("stream", "todo_list")
    assert json.loads(block["chunk"])["items"][0]["text"] == "a"
    assert heard.report.unrecognised == {"todo_list": 1}


def test_consecutive_deltas_are_one_block_and_an_open_one_is_partial():
    def piece(content):
        return {"type": "message", "role": "assistant", "content": content, "delta": True}

    done = {"type": "result", "status": "success", "stats": {"total_tokens": 9, "cached": 1}}
    user = {"type": "message", "role": "user", "content": "q"}
    assert said("gemini", user, piece("a"), piece("b"), done) == [text("ab")]
    assert said("gemini", piece("a"), piece("b"), status="killed") == [text("ab", partial=True)]
    spent = normalise("gemini", lines(piece("a"), done)).meta["usage"]
    assert (spent["total_tokens"], spent["cached_tokens"]) == (9, 1)
    assert "input_tokens" not in spent


def test_both_forms_of_gemini_tools_are_read():
    old = {
        "type": "message",
        "role": "assistant",
        "content": "",
        "toolCalls": [{"name": "read", "args": {"a": 1}}, {"name": "ls", "arguments": {"b": 2}}],
    }
    failed = {"type": "tool_result", "tool_id": "x", "status": "error"}
    failed["error"] = {"type": "t", "message": "no"}
    assert said("gemini", old, failed) == [
        use("read", "syn-1", {"a": 1}),
        use("ls", "syn-2", {"b": 2}),
        result("x", "no", is_error=True),
    ]
    assert normalise("gemini", lines(old)).blocks[0]["tool_id_synthetic"] is True


def test_request_and_start_of_a_copilot_call_are_one_call_in_either_order():
    request = event(
        "assistant.message", messageId="m", content="",
        toolRequests=[{"toolCallId": "c", "name": "bash", "arguments": '{"command": "ls"}'}],
    )  # fmt: skip
    start = event("tool.execution_start", toolCallId="c", toolName="bash", mcpServerName="s")
    start["data"]["arguments"] = {"command": "ls"}
    call = use("bash", "c", {"command": "ls"}, tool_server="s")
    assert said("copilot", request, start) == [call]
    assert said("copilot", start, request) == [call]


def test_copilot_reasoning_is_written_once_and_opaque_parts_stay_opaque():
    reasoning = event("assistant.reasoning", reasoningId="r", content="hm")
    message = event("assistant.message", messageId="m", content="ok", reasoningText="hm")
    message["data"]["reasoningOpaque"] = "ZW5j"
    assert said("copilot", reasoning, message) == [thinking("hm", opaque="ZW5j"), text("ok")]
    assert said("copilot", message, reasoning) == [thinking("hm", opaque="ZW5j"), text("ok")]


def test_copilot_deltas_are_used_only_for_a_message_that_never_completed():
    pieces = [
        {**event("assistant.message_delta", messageId="m", deltaContent=each), "ephemeral": True}
        for each in ("Hel", "lo")
    ]
    whole = event("assistant.message", messageId="m", content="Hello")
    assert said("copilot", *pieces, whole) == [text("Hello")]
    assert said("copilot", *pieces, status="killed") == [text("Hello", partial=True)]


def test_chunks_of_one_copilot_message_are_joined():
    chunks = [
        event("assistant.message", messageId="m", content=each, chunkIndex=n, chunkCount=2)
        for n, each in enumerate(["Hel", "lo"])
    ]
    assert said("copilot", *chunks) == [text("Hello")]


def test_an_aborted_copilot_was_killed_and_a_failed_tool_may_bring_its_result():
    failed = event("tool.execution_complete", toolCallId="c", success=False)
    failed["data"]["result"] = {"content": "exit 1"}
    heard = normalise("copilot", lines(failed, event("abort", reason="user")))
    assert bare(heard.blocks) == [result("c", "exit 1", is_error=True)]
    assert heard.meta["status"] == "killed"


def sse(*objects) -> bytes:
    frames = [b"event: x\ndata: " + json.dumps(each).encode() + b"\n\n" for each in objects]
    return b": hello\n" + b"".join(frames) + b"data: [DONE]\n\n"


def test_fragments_of_calls_are_joined_by_index():
    def fragment(index, arguments, id=None, name=None):
        function = {"arguments": arguments} | ({"name": name} if name else {})
        return {"index": index, "function": function} | ({"id": id} if id else {})

    chunks = [
        delta(role="assistant", content=""),
        delta(content="Look"),
        delta(content="ing."),
        delta(tool_calls=[fragment(0, "", "c0", "read"), fragment(1, '{"b"', "c1", "ls")]),
        delta(tool_calls=[fragment(0, '{"a": 1}')]),
        delta(tool_calls=[fragment(1, ": 2}")]),
    ]
    end = delta()
    end["choices"][0]["finish_reason"] = "tool_calls"
    last = {**delta(), "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    wanted = [text("Looking."), use("read", "c0", {"a": 1}), use("ls", "c1", {"b": 2})]
    heard = normalise("openai", sse(*chunks, end, last))
    assert bare(heard.blocks) == wanted
    assert heard.meta["usage"]["input_tokens"] == 5
    assert bare(normalise("openai", lines(*chunks, end)).blocks) == wanted
    assert "usage" not in normalise("openai", lines(*chunks, end)).meta
    cut = bare(normalise("openai", sse(*chunks[:4]), status="killed").blocks)
    assert cut == [
        text("Looking.", partial=True),
        use("read", "c0", None),
        use("ls", "c1", '{"b"', partial=True),
    ]


def test_one_body_over_many_lines_is_read():
    whole = json.dumps(SAME["openai"][0], indent=2).encode()
    assert [block["type"] for block in normalise("openai", whole).blocks] == ["text", "tool_use"]


def test_of_a_responses_stream_the_last_ciphertext_is_stored():
    raw = (SAMPLES / "openai" / "responses_tool_use.stream.jsonl").read_bytes()
    heard = normalise("openai", raw)
    done = [json.loads(line) for line in raw.splitlines() if b"output_item.done" in line]
    assert heard.blocks[0]["opaque"] == done[0]["item"]["encrypted_content"]
    assert bare(heard.blocks)[1] == use("weather", "call_1", {"city": "Paris"})
    spent = heard.meta["usage"]
    assert (spent["input_tokens"], spent["output_tokens"]) == (102, 108)
    assert spent["reasoning_tokens"] == 64


def test_a_refusal_is_text_that_says_so_and_further_choices_are_stored():
    body = {
        "object": "chat.completion",
        "choices": [
            {"message": {"role": "assistant", "content": None, "refusal": "I will not."}},
            {"message": {"role": "assistant", "content": "other"}},
        ],
    }
    first, second = said("openai", body)
    assert first == text("I will not.", refusal=True)
    assert json.loads(second["chunk"]) == body["choices"][1]


def test_a_failed_or_incomplete_response_is_an_error():
    failed = {
        "type": "response.failed",
        "response": {"object": "response", "status": "failed", "error": {"message": "quota"}},
    }
    assert normalise("openai", lines(failed)).meta["error"] == "quota"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_understood_is_stored_raw_and_counted(name):
    stream = b'{"type":"zzz","a":1}\nnot json\n[1]\n\n' + lines(*SAME[name])
    heard = normalise(name, stream)
    kept = [block for block in heard.blocks if block["type"] == "stream"]
    assert [block["provider_type"] for block in kept] == ["zzz", "malformed", "untyped"]
    assert kept[1]["chunk"] == "not json"
    assert heard.report.malformed == 1
    assert heard.report.unrecognised == {"zzz": 1, "untyped": 1}
    assert len(heard.blocks) == 6


@pytest.mark.parametrize("name", NAMES)
def test_a_long_line_that_is_not_understood_says_what_was_cut(name):
    line = b'{"type":"zzz","a":"' + b"x" * 200_000 + b'"}\n'
    [block] = normalise(name, line).blocks
    assert len(block["chunk"]) == 64 << 10
    assert block["truncated"]["bytes"] == len(line) - 1


def test_a_line_over_the_cap_is_skipped_and_reading_goes_on(monkeypatch):
    monkeypatch.setattr(providers, "LINE_CAP", 1000)
    stream = lines(claude_line({"type": "text", "text": "x" * 5000}), claude_line(CLAUDE_TEXT))
    for size in (len(stream), 400):
        normaliser = Normaliser("claude")
        for start in range(0, len(stream), size):
            normaliser.feed(stream[start : start + size])
        heard = normaliser.finish()
        assert bare(heard.blocks) == [text("Reading it.")]
        assert heard.report.oversized == 1


@pytest.mark.parametrize("name", NAMES)
@given(cuts=st.lists(st.integers(min_value=0, max_value=5000), max_size=8))
def test_any_chunking_gives_the_same_blocks(name, cuts):
    stream = lines(*SAME[name]) + b"odd\n" + sse(*SAME[name])
    normaliser = Normaliser(name)
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    for start, end in pairwise(places):
        normaliser.feed(stream[start:end])
    assert normaliser.finish() == normalise(name, stream)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
STREAMS = {
    **{name: lines(*SAME[name]) for name in NAMES},
    "claude": lines(*SAME["claude"], *wrapped(STREAMED)),
}


@st.composite
def damaged(draw, stream: bytes) -> bytes:
    """A stream with lines shuffled, cut and bytes flipped."""
    parts = draw(st.permutations(stream.split(b"\n")))
    broken = bytearray(b"\n".join(parts)[: draw(st.integers(0, len(stream)))])
    for place in draw(st.lists(st.integers(0, max(0, len(broken) - 1)), max_size=5)):
        if broken:
            broken[place] = draw(st.integers(0, 255))
    return bytes(broken)


@st.composite
def mistyped(draw, stream: bytes) -> bytes:
    """A stream in which single values were replaced by any JSON."""

    def spoil(value):
        if draw(st.integers(0, 9)) == 0:
            return draw(json_values)
        if isinstance(value, dict):
            return {key: spoil(each) for key, each in value.items()}
        return [spoil(each) for each in value] if isinstance(value, list) else value

    return lines(*(spoil(json.loads(line)) for line in stream.splitlines()))


@pytest.mark.parametrize("profile", ["full", "compat"])
@pytest.mark.parametrize("name", NAMES)
@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
@given(data=st.data())
def test_nothing_raises_whatever_the_bytes_are(name, profile, data):
    raw = data.draw(st.binary(max_size=200) | damaged(STREAMS[name]) | mistyped(STREAMS[name]))
    heard = normalise(name, raw, profile=profile)
    if profile == "full":
        for block in heard.blocks:
            assert block["type"] in BLOCK_KEYS
            own = set(BLOCK_KEYS[block["type"]])
            assert own <= block.keys() or "opaque" in block
            assert block["fidelity"] == "agent_emitted"


@pytest.mark.parametrize("name", NAMES)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_readable_line_is_lost(name, data):
    """Every object of a damaged stream is understood, or kept raw: none is passed over."""
    raw = data.draw(damaged(STREAMS[name]))
    report = normalise(name, raw).report
    lines_heard = [line for line in raw.split(b"\n") if line.strip(b"\r ").strip()]
    assert report.lines <= len(lines_heard)
    told = report.recognised + report.malformed + report.oversized
    assert told + report.unrecognised.total() >= report.lines


def test_settled_blocks_can_be_taken_while_the_stream_goes_on():
    reply = ReplyBuilder()
    reading = provider("claude").read(reply)
    reading.feed(claude_line(CLAUDE_TEXT, CLAUDE_USE))
    assert [block["type"] for block in reply.news()] == ["tool_use"]
    assert reply.take() == []
    reading.feed(claude_line({"type": "text", "text": "Next."}, id="msg_2"))
    assert [block["type"] for block in reply.take()] == ["text", "tool_use"]
    assert [block["text"] for block in reply.blocks] == ["Next."]


def test_a_message_that_grows_after_it_was_taken_is_continued():
    reply = ReplyBuilder()
    reading = provider("claude").read(reply)
    reading.feed(claude_line(CLAUDE_TEXT))
    reading.feed(claude_line({"type": "text", "text": "Next."}, id="msg_2"))
    assert bare(reply.take()) == [text("Reading it.")]
    reading.feed(claude_line({"type": "text", "text": "Reading it. Done."}))
    assert bare(reply.blocks) == [text("Next."), text("Reading it. Done.")]


def compat(name, stream: bytes):
    blocks = normalise(name, stream, profile="compat").blocks
    assert all(block.pop("fidelity") == "agent_emitted" for block in blocks)
    return blocks


def test_compat_of_claude():
    user = {"type": "user", "message": {"content": [{"type": "text", "text": "q"}]}}
    empty = claude_line({"type": "text", "text": ""}, {"type": "thinking", "thinking": ""})
    stream = lines(
        user, claude_line(CLAUDE_THOUGHT, CLAUDE_TEXT, CLAUDE_USE), claude_line(CLAUDE_TEXT), empty
    )
    assert compat("claude", stream) == [
        thinking("Where is it?"),
        text("Reading it."),
        use("Read", "toolu_1", {"path": "a.py"}),
        text("Reading it."),
        {"type": "thinking"},
    ]
    no_input = claude_line({"type": "tool_use", "id": "i", "name": "n"})
    assert compat("claude", lines(no_input)) == [use("n", "i", None)]


def test_compat_of_codex():
    stream = lines(
        item("completed", item_type="agent_message", text="NUL"),
        item("completed", item_type="function_call", name="sh", arguments='{"a":1}'),
        item("completed", type="agent_message"),
        {"type": "turn.completed"},
    ).replace(b"NUL", b"N\0L")
    assert compat("codex", stream) == [
        text("N\0L"),
        {"type": "tool_use", "tool_name": "sh", "tool_input": '{"a":1}'},
        {"type": "text"},
    ]
    command = item("completed", type="command_execution", command="ls")
    assert compat("codex", lines(command)) == [
        {"type": "tool_use", "tool_name": "", "tool_input": ""}
    ]


def test_compat_of_gemini():
    def message(content, *calls, role="assistant"):
        return {"type": "message", "role": role, "content": content, "toolCalls": list(calls)}

    call = {"name": "ls", "arguments": {"a": 1}, "id": "x"}
    stream = lines(
        message("q", role="user"), message("a"), message("b", call), message("", {"name": "pwd"})
    )
    assert compat("gemini", stream) == [
        text("a"),
        text("b"),
        {"type": "tool_use", "tool_name": "ls", "tool_input": {"a": 1}},
        {"type": "tool_use", "tool_name": "pwd", "tool_input": None},
    ]


def test_compat_of_copilot():
    stream = lines(
        event("session.start", sessionId="s"),
        event("assistant.message", content="a"),
        event("tool.execution_start", toolName="bash", toolCallId="c", arguments={}),
        event("assistant.message", content="b"),
        event("assistant.message", content=7),
    )
    assert compat("copilot", stream) == [
        text("a"),
        {"type": "tool_use", "tool_name": "bash"},
        text("b"),
    ]


def test_compat_of_openai():
    call = {"id": "c", "function": {"name": "f", "arguments": ""}}
    full = {"object": "chat.completion", "choices": [{"delta": {}, "message": {"content": "b"}}]}
    stream = lines(delta(), delta(content="a"), delta(tool_calls=[call]), full, {"choices": []})
    assert compat("openai", stream) == [
        text("a"),
        {"type": "tool_use", "tool_name": "f", "tool_id": "c"},
        text("b"),
    ]


WRONG = {
    "claude": claude_line({"type": "text", "text": 7}, CLAUDE_TEXT),
    "codex": item("completed", type="agent_message", text=7),
    "gemini": {"type": "message", "role": "assistant", "content": 7},
    "openai": delta(content=7, tool_calls=[]),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_compat_drops_a_line_with_a_wrong_type_and_lines_with_nul_but_for_codex(name):
    assert compat(name, lines(WRONG[name])) == []
    nul = lines(*SAME[name]).replace(b"Reading", b"Rea\0ding")
    assert bool(compat(name, nul.split(b"\n")[0] + b"\n")) == (name == "codex")
