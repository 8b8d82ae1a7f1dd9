"""Every type of record that agents are known to write has its meaning: nothing is left unmapped.

One line per type, in the shape that its writer gives it, and what must come of it.
"""

from hashlib import sha256
from itertools import count

import orjson
import pytest

from support.asking import ask
from tracklog.formats import registry
from tracklog.formats.importers import run_id
from tracklog.formats.importing import Importing
from tracklog.home.home import Home
from tracklog.testing import lines_of_file

SESSION = "cfa1e878-62b5-4e40-b281-bbf9b250d766"
THREAD = "019982b8-3422-79e0-8b3b-05abaf4f3c3e"
OTHER = "019982b8-9999-79e0-8b3b-05abaf4f3c3e"
AT = "2026-05-05T09:00:00.000Z"


def times():
    return (f"2026-05-05T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}.000Z" for n in count())


def content(*records):
    return b"".join(orjson.dumps(each) + b"\n" for each in records)


def named(bodies):
    """What became of records, in words: the fact, and what kind of it."""
    return [
        " ".join(
            str(body[key])
            for key in ("fact", "what", "role", "label", "kind")
            if key in body and not (key == "kind" and body["fact"] == "Noted")
        )
        + (" injected" if body.get("injected") else "")
        + (" by provider" if body.get("by_provider") else "")
        for body in bodies
    ]


def read(name, path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    lines, _, report = lines_of_file(registry.importer(name), path)
    return [orjson.loads(line) for line in lines], report


USAGE = {"input_tokens": 1, "output_tokens": 2}
SAID = {"id": "m", "model": "c", "content": [{"type": "text", "text": "x"}], "usage": USAGE}

CLAUDE = [
    ({"type": "user", "message": {"content": "x"}}, ["Said user"]),
    ({"type": "user", "message": {"content": "x"}, "isMeta": True}, ["Said user injected"]),
    ({"type": "user", "message": {"content": "x"}, "isCompactSummary": True}, ["Said user injected"]),
    ({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t",
      "content": "o"}]}, "toolUseResult": "o"}, ["Returned"]),
    ({"type": "user", "message": {"content": [{"type": "image", "source": {}},
      {"type": "document", "source": {}}]}}, ["Said user"]),
    *[({"type": "user", "message": {"content": f"<{tag}>x</{tag}>"}}, ["Said user injected"])
      for tag in ("command-name", "command-message", "local-command-stdout", "system-reminder",
                  "ide_opened_file", "ide_selection", "teammate-message")],
    ({"type": "user", "message": {"content": "Caveat: about local commands"}}, ["Said user injected"]),
    ({"type": "user", "message": {"content": "x"}, "origin": {"kind": "task-notification"}},
     ["Said user injected"]),
    ({"type": "user", "message": {"content": "<system-reminder>x</system-reminder> go <b>on</b>"}},
     ["Said user"]),
    ({"type": "assistant", "message": SAID, "requestId": "r"}, ["Said assistant", "Spent"]),
    *[({"type": "assistant", "message": {"id": f"m{n}", "content": [block]}}, told)
      for n, (block, told) in enumerate([
          ({"type": "thinking", "thinking": "x", "signature": "s"}, ["Said assistant"]),
          ({"type": "redacted_thinking", "data": "s"}, ["Said assistant"]),
          ({"type": "tool_use", "id": "t1", "name": "Read", "input": {}}, ["Called"]),
          ({"type": "server_tool_use", "id": "t2", "name": "s", "input": {}}, ["Called by provider"]),
          ({"type": "web_search_tool_result", "tool_use_id": "t2", "content": []}, ["Returned"]),
          ({"type": "web_fetch_tool_result", "tool_use_id": "t3", "content": []}, ["Returned"]),
          ({"type": "fallback"}, ["Said assistant"]),
      ])],
    ({"type": "assistant", "message": {"content": "x"}}, ["Said assistant"]),
    ({"type": "assistant", "message": {**SAID, "model": "<synthetic>"}, "isApiErrorMessage": True}, ["Noted error"]),
    *[({"type": "system", "subtype": subtype}, [f"Noted {label}"]) for subtype, label in {
        "session_start": "session_start", "init": "init", "turn_duration": "turn_duration",
        "stop_hook_summary": "stop_hook_summary", "compact_boundary": "compaction",
        "api_error": "error", "api_refusal": "refusal", "model_refusal_fallback": "model-change",
        "local_command": "local_command", "away_summary": "away_summary",
        "informational": "informational", "error": "error", "bridge_status": "bridge_status",
    }.items()],
    ({"type": "summary", "summary": "x", "leafUuid": "u1"}, ["Noted title"]),
    ({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "x"}}, ["Said user"]),
    *[({"type": "attachment", "attachment": {"type": kind}}, [f"Noted {kind}"]) for kind in (
        "file", "hook_success", "hook_blocking_error", "deferred_tools_delta", "plan_mode",
        "task_reminder", "one_that_came_later")],
    *[({"type": kind, **more}, [f"Noted {label}"]) for kind, label, more in (
        ("file-history-snapshot", "file-history-snapshot", {"messageId": "u", "snapshot": {}}),
        ("progress", "progress", {"data": {}, "toolUseID": "t"}),
        ("custom-title", "title", {"customTitle": "x"}),
        ("ai-title", "title", {"aiTitle": "x"}),
        ("pr-link", "result", {"prUrl": "https://example.org/1"}),
        ("mode", "mode-change", {"mode": "x"}),
        ("permission-mode", "mode-change", {"permissionMode": "x"}),
        *((kind, kind, {"x": 1}) for kind in (
            "agent-name", "agent-setting", "last-prompt", "bridge-session", "worktree-state",
            "relocated", "frame-link", "started", "result", "atis-latch")),
    )],
    *[({"type": "queue-operation", "operation": each}, ["Noted queue-operation"])
      for each in ("enqueue", "dequeue", "remove", "popAll")],
    ({"type": "tool_use", "name": "Read", "id": "old", "input": {}}, ["Called"]),
    ({"type": "tool_result", "tool_use_id": "old", "content": "x"}, ["Returned"]),
]  # fmt: skip  # one row per type


def claude_file(record, n, at):
    frame = {"uuid": f"u{n}", "sessionId": SESSION, "timestamp": at, "cwd": "/w"}
    opening = {"type": "user", "message": {"content": "first"}, **frame, "uuid": "first"}
    return content(opening, {**frame, **record})


TOTAL = {"input_tokens": 5, "output_tokens": 2}
CODEX = [
    *[("response_item", payload, told) for payload, told in (
        *[({"type": "message", "role": role, "content": [{"type": "input_text", "text": "x"}]}, told)
          for role, told in {"user": ["Said user"], "assistant": ["Said assistant"],
                             "developer": ["Said system injected"],
                             "system": ["Said system injected"]}.items()],
        ({"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "<environment_context>x</environment_context>"}]},
         ["Said user injected"]),
        ({"type": "reasoning", "summary": [], "encrypted_content": "s"}, ["Said assistant"]),
        ({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}, ["Called"]),
        ({"type": "function_call_output", "call_id": "c", "output": "x"}, ["Returned"]),
        ({"type": "custom_tool_call", "name": "f", "input": "x", "call_id": "c"}, ["Called"]),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": "x"}, ["Returned"]),
        ({"type": "local_shell_call", "call_id": "c", "action": {}}, ["Called"]),
        ({"type": "tool_search_call", "call_id": "c", "arguments": {}}, ["Called"]),
        ({"type": "tool_search_output", "call_id": "c", "tools": []}, ["Returned"]),
        ({"type": "web_search_call", "status": "completed", "action": {}},
         ["Called by provider", "Returned"]),
        ({"type": "image_generation_call", "status": "completed", "result": "eA=="},
         ["Called by provider", "Returned"]),
        ({"type": "agent_message", "author": "a", "recipient": "b", "content": "x"},
         ["Said assistant"]),
        ({"type": "compaction", "encrypted_content": "s"}, ["Noted compaction"]),
        ({"type": "context_compaction", "encrypted_content": "s"}, ["Noted compaction"]),
        *[({"type": kind, "x": 1}, [f"Noted {kind}"])
          for kind in ("ghost_snapshot", "additional_tools", "other")],
    )],
    *[("event_msg", payload, told) for payload, told in (
        # Alone they are no copy of anything.
        *[({"type": kind, "message": "x", "text": "x"}, [f"Said {role}"])
          for kind, role in (("user_message", "user"), ("agent_message", "assistant"),
                             ("agent_reasoning", "assistant"))],
        ({"type": "token_count", "info": {"total_token_usage": TOTAL}}, ["Spent"]),
        ({"type": "token_count", "info": None, "rate_limits": {"primary_used_percent": 1}},
         ["Noted rate-limits"]),
        ({"type": "task_started", "turn_id": "t"}, ["Began step"]),
        ({"type": "turn_started", "turn_id": "t"}, ["Began step"]),
        ({"type": "task_complete", "turn_id": "t", "duration_ms": 5}, ["Ended step"]),
        *[({"type": "turn_aborted", "turn_id": "t", "reason": why}, ["Ended step"])
          for why in ("interrupted", "replaced", "review_ended", "budget_limited")],
        ({"type": "item_completed", "item": {"type": "AgentMessage", "id": "i", "content": [
            {"type": "Text", "text": "x"}]}}, ["Said assistant"]),
        *[({"type": kind, "call_id": "c"}, ["Returned"]) for kind in (
            "exec_command_end", "patch_apply_end", "mcp_tool_call_end", "web_search_end",
            "image_generation_end", "view_image_tool_call", "dynamic_tool_call_request",
            "dynamic_tool_call_response")],
        ({"type": "collab_agent_spawn_end", "new_thread_id": OTHER}, ["Linked sub-run"]),
        *[({"type": kind}, [f"Noted {label}"]) for kind, label in {
            "thread_rolled_back": "withdrawn", "undo_completed": "withdrawn", "error": "error",
            "context_compacted": "compaction", "thread_name_updated": "title",
        }.items()],
        *[({"type": kind}, [f"Noted {kind}"]) for kind in (
            "collab_waiting_end", "collab_close_end", "sub_agent_activity", "entered_review_mode",
            "exited_review_mode", "guardian_assessment", "thread_goal_updated",
            "thread_settings_applied")],
    )],
    ("turn_context", {"turn_id": "t", "model": "m", "cwd": "/w"}, ["Noted turn-context"]),
    ("compacted", {"message": "x", "replacement_history": []}, ["Noted compaction"]),
    ("inter_agent_communication", {"author": "a", "recipient": "b"}, ["Linked message"]),
    *[(kind, {"x": 1}, [f"Noted {kind}"]) for kind in (
        "world_state", "security_risk_score", "inter_agent_communication_metadata")],
]  # fmt: skip


def codex_file(kind, payload, at):
    meta = {"id": THREAD, "timestamp": at, "cwd": "/w"}
    return content(
        {"timestamp": at, "type": "session_meta", "payload": meta},
        {"timestamp": at, "type": kind, "payload": payload},
    )


COPILOT = [
    ("session.resume", {"resumeTime": AT, "eventCount": 1}, ["Began run"]),
    ("user.message", {"content": "x", "transformedContent": "y"}, ["Said user"]),
    ("assistant.turn_start", {"turnId": "0"}, ["Began step"]),
    ("assistant.turn_end", {"turnId": "0"}, ["Ended step"]),
    ("assistant.message", {"messageId": "m", "content": "x", "outputTokens": 1, "toolRequests": [
        {"toolCallId": "c", "name": "f", "arguments": "{}"}]}, ["Said assistant", "Called", "Spent"]),
    ("assistant.reasoning", {"reasoningId": "r", "content": "x"}, ["Said assistant"]),
    ("tool.execution_start", {"toolCallId": "c", "toolName": "f", "arguments": {}}, ["Called"]),
    ("tool.execution_complete", {"toolCallId": "c", "success": True, "result": {"content": "x"}},
     ["Returned"]),
    ("subagent.started", {"toolCallId": "c", "agentName": "a"},
     ["Linked sub-run", "Began run", "Linked sub-run"]),
    ("subagent.completed", {"toolCallId": "c", "totalTokens": 1}, ["Ended run", "Noted totals"]),
    ("subagent.failed", {"toolCallId": "c", "error": "x"}, ["Ended run"]),
    ("permission.requested", {"requestId": "p", "toolCallId": "c"}, ["Asked permission"]),
    ("permission.completed", {"requestId": "p", "result": {}}, ["Answered"]),
    ("abort", {"reason": "x"}, ["Ended step"]),
    ("session.handoff", {"sourceType": "x", "remoteSessionId": "r"}, ["Linked related"]),
    ("session.shutdown", {"shutdownType": "routine", "modelMetrics": {"m": {
        "requests": 1, "usage": {"inputTokens": 1, "outputTokens": 1}}}}, ["Spent", "Ended run"]),
    ("system.message", {"content": "x"}, ["Said system"]),
    *[(kind, {"message": "x"}, [f"Noted {label}"]) for kind, label in {
        "session.error": "error", "session.truncation": "compaction",
        "session.compaction_start": "compaction", "session.compaction_complete": "compaction",
        "session.snapshot_rewind": "withdrawn", "session.info": "info",
        "session.warning": "warning", "session.model_change": "model-change",
        "session.mode_changed": "mode-change", "session.auto_mode_resolved": "mode-change",
        "session.usage_checkpoint": "totals", "session.task_complete": "result",
        "system.notification": "system.notification", "hook.start": "hook.start",
        "hook.end": "hook.end", "skill.invoked": "skill.invoked",
        "tool.user_requested": "tool.user_requested",
    }.items()],
]  # fmt: skip


def copilot_file(kind, data, at):
    events = [("session.start", {"sessionId": SESSION}), (kind, data)]
    return content(
        *({"type": each, "data": told, "id": f"e{n}", "timestamp": at, "parentId": None}
          for n, (each, told) in enumerate(events))
    )  # fmt: skip


CALL = {"id": "c", "name": "f", "args": {}, "status": "success", "timestamp": AT}
ANSWER = {"functionResponse": {"id": "c", "name": "f", "response": {"output": "x"}}}
GEMINI = [
    ({"id": "a", "type": "user", "content": "x"}, ["Said user"]),
    ({"id": "a", "type": "user", "content": [{"text": "x"}, {"inlineData": {}}, ANSWER]},
     ["Said user", "Returned"]),
    ({"id": "a", "type": "gemini", "content": "", "thoughts": [{"subject": "s", "description": "d"}],
      "tokens": {"input": 1, "output": 1, "total": 2}, "toolCalls": [{**CALL, "result": [ANSWER]}]},
     ["Said assistant", "Called", "Returned", "Spent"]),
    ({"id": "a", "type": "gemini", "content": "", "tokens": None, "toolCalls": [CALL]}, ["Called"]),
    *[({"id": "a", "type": kind, "content": "x"}, [f"Noted {kind}"])
      for kind in ("info", "warning", "error")],
    ({"$set": {"lastUpdated": AT, "summary": "x"}}, ["Noted title"]),
    ({"$set": {"messages": []}}, ["Noted withdrawn"]),
    ({"$rewindTo": "first"}, ["Noted withdrawn"]),
    ({"$rewindTo": "nobody"}, ["Noted withdrawn"]),
]  # fmt: skip


def gemini_file(record, at):
    meta = {"sessionId": SESSION, "projectHash": "0" * 64, "startTime": at}
    first = {"id": "first", "type": "user", "timestamp": at, "content": "first"}
    return content(meta, first, {"timestamp": at, **record} if "id" in record else record)


CASES = [
    *(("claude", f"{SESSION}.jsonl", claude_file(record, n, at), told)
      for n, ((record, told), at) in enumerate(zip(CLAUDE, times(), strict=False))),
    *(("codex", f"rollout-2026-05-05T09-00-00-{THREAD}.jsonl", codex_file(*row[:2], at), row[2])
      for row, at in zip(CODEX, times(), strict=False)),
    *(("copilot", f"session-state/{SESSION}/events.jsonl", copilot_file(*row[:2], at), row[2])
      for row, at in zip(COPILOT, times(), strict=False)),
    *(("gemini", "session-2026-05-05T09-00-cfa1e878.jsonl", gemini_file(record, at), told)
      for (record, told), at in zip(GEMINI, times(), strict=False)),
]  # fmt: skip


def label(case):
    return f"{case[0]}: {case[2].splitlines()[-1][-60:].decode()}"


def test_every_type_of_record_is_mapped(tmp_path):
    wrong = []
    for n, (name, file, text, told) in enumerate(CASES):
        bodies, report = read(name, tmp_path / str(n) / file, text)
        raw = sha256(text.splitlines()[-1]).hexdigest()
        found = named([body for body in bodies if body["origin"]["raw"] == raw])
        if report.unknown or found != told:
            wrong.append((label((name, file, text)), dict(report.unknown), found, told))
    assert not wrong


OUTPUT = [
    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "s"},
    {"type": "message", "id": "m", "role": "assistant", "content": [
        {"type": "output_text", "text": "x", "annotations": []}, {"type": "refusal", "refusal": "x"}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "f", "input": "x"},
    {"type": "computer_call", "call_id": "c3", "action": {}},
    *({"type": kind, "id": kind, "status": "completed"} for kind in (
        "web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call",
        "mcp_call")),
]  # fmt: skip
RESPONSE = {"id": "resp_1", "object": "response", "status": "completed", "model": "m",
            "output": OUTPUT, "usage": USAGE, "created_at": 1}  # fmt: skip
BEGUN = {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1"}}
STREAMED = [
    f"response.{name}" for name in (
        "in_progress", "output_item.added", "output_item.done", "content_part.added",
        "content_part.done", "output_text.delta", "output_text.done",
        "function_call_arguments.delta", "function_call_arguments.done",
        "reasoning_summary_text.delta", "reasoning_summary_text.done",
    )
]  # fmt: skip
ENDED = ["response.completed", "response.failed", "response.incomplete", "error"]
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
DELTAS = [
    {"role": "assistant", "content": "x"},
    {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]},
]
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{
    "index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": None,
    "refusal": "x", "tool_calls": [{"id": "c", "type": "function",
                                    "function": {"name": "f", "arguments": "{}"}}]}}]}  # fmt: skip
MESSAGES = [{"role": role, "content": "x"} for role in ("developer", "system", "user", "assistant")]
MESSAGES.append({"role": "tool", "tool_call_id": "c", "content": "x"})
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": USAGE}
BLOCKS = [
    {"type": "text", "text": "x"},
    {"type": "thinking", "thinking": "x", "signature": "s"},
    {"type": "redacted_thinking", "data": "s"},
    {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
    {"type": "server_tool_use", "id": "t2", "name": "f", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "t2", "content": []},
]
PIECES = [
    {"type": "text_delta", "text": "x"},
    {"type": "thinking_delta", "thinking": "x"},
    {"type": "signature_delta", "signature": "x"},
    {"type": "input_json_delta", "partial_json": ""},
    {"type": "citations_delta", "citation": {}},
]
WIRE = [
    {"type": "message_start", "message": {**MESSAGE, "content": []}},
    {"type": "ping"},
    *(event for n, block in enumerate(BLOCKS) for event in (
        {"type": "content_block_start", "index": n, "content_block": block},
        *({"type": "content_block_delta", "index": n, "delta": piece} for piece in PIECES),
        {"type": "content_block_stop", "index": n})),
    *({"type": kind, "snapshot": "x"} for kind in (
        "text", "thinking", "signature", "input_json", "citation")),
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
    {"type": "error", "error": {"type": "overloaded_error", "message": "x"}},
]  # fmt: skip
BODIES = {
    "a response": ("openai", [RESPONSE]),
    "an exchange of responses": ("openai", [{"request": {"input": [
        *OUTPUT, {"type": "function_call_output", "call_id": "c1", "output": "x"}]},
        "response": RESPONSE}]),
    **{f"a stream that ends with {end}": ("openai", [
        BEGUN,
        *({"type": kind, "output_index": 0, "item": OUTPUT[1], "delta": "x"} for kind in STREAMED),
        {"type": end, "message": "x", "response": RESPONSE}]) for end in ENDED},
    "an error alone": ("openai", [{"type": "error", "code": "x", "message": "x"}]),
    "a chat": ("openai", [{"request": {"messages": MESSAGES}, "response": CHAT}]),
    **{f"a chat that ends with {reason}": ("openai", [
        *({**CHUNK, "choices": [{"index": 0, "delta": delta}]} for delta in DELTAS),
        {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**CHUNK, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}])
       for reason in ("stop", "length", "tool_calls", "content_filter")},
    **{f"a message that ends with {reason}": ("anthropic", [{
        "request": {"system": "x", "messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "x"}]}]},
        "response": {**MESSAGE, "content": BLOCKS, "stop_reason": reason}}])
       for reason in ("end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal")},
    "a stream of a message": ("anthropic", WIRE),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_no_body_and_no_event_of_an_api_is_left_unmapped(name, tmp_path):
    importer, records = BODIES[name]
    bodies, report = read(importer, tmp_path / "bodies.jsonl", content(*records))
    assert not report.unknown
    assert not [each for each in bodies if "stream" in str(each.get("blocks"))]
    kinds = {body["fact"] for body in bodies}
    assert kinds >= {"Said", "Began"} or "error" in name


def test_of_both_ciphertexts_of_copilot_none_is_lost(tmp_path):
    told = {"messageId": "m", "content": "x", "reasoningOpaque": "one", "encryptedContent": "two"}
    path = tmp_path / "session-state" / SESSION / "events.jsonl"
    bodies, _ = read("copilot", path, copilot_file("assistant.message", told, AT))
    [thought] = [body["blocks"][0] for body in bodies if body["fact"] == "Said"]
    assert (thought["opaque"], thought["encryptedContent"]) == ("one", "two")


def test_turns_of_codex_that_were_rolled_back_are_taken_back_and_stored(tmp_path):
    def said(n):
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": n}]}

    records = [("session_meta", {"id": THREAD, "cwd": "/w"})]
    for turn in "abc":
        records.append(("event_msg", {"type": "task_started", "turn_id": turn}))
        records.append(("response_item", said(turn)))
    records.append(("event_msg", {"type": "thread_rolled_back", "num_turns": 2}))
    records.append(("event_msg", {"type": "task_started", "turn_id": "d"}))
    records.append(("response_item", said("d")))
    path = tmp_path / f"rollout-2026-05-05T09-00-00-{THREAD}.jsonl"
    path.write_bytes(
        content(*(
            {"timestamp": at, "type": kind, "payload": payload}
            for (kind, payload), at in zip(records, times(), strict=False)
        ))
    )  # fmt: skip
    with Home(tmp_path / "home", durability="os") as home:
        Importing(home).bring([path])
        home.index.catch_up()
        rows = ask(home, "conversation", run=f"tracklog:{run_id('codex', THREAD)}")
    words = [(row["parts"][0]["text"], row["withdrawn"]) for row in rows]
    assert words == [("a", False), ("b", True), ("c", True), ("d", False)]
