"""Files of agents as other versions write them: what the samples do not contain.

They are written after the descriptions of the formats: older and newer versions, optional fields
that are missing, calls that were cancelled, several stores of one conversation, lines that end
with CR LF.
"""

import csv
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from support.forking import tracklog
from support.importing import yields
from support.sources import database, document, lines
from tracklog.formats import registry
from tracklog.formats.importers import head_of
from tracklog.formats.recognition import recognition
from tracklog.testing import lines_of_file

T = 1_780_000_000_000
MODEL = "claude-sonnet-4-6"


def at(second):
    return f"2026-05-28T20:27:{second:02}.000Z"


def facts(path):
    found = recognition(registry.importers(), path, head_of(path)).importer
    read, _, report = lines_of_file(found, path)
    return [orjson.loads(line) for line in read], report


def has(found, **expected):
    assert {key: found[key] for key in expected} == expected


def test_opencode_rows_of_the_second_generation(tmp_path):
    tokens = {"input": 100, "output": 20, "reasoning": 5, "cache": {"read": 40, "write": 10}}
    content = [
        {"type": "reasoning", "text": "hm"},
        {"type": "tool", "id": "c1", "name": "bash",
         "state": {"status": "completed", "input": {}, "output": "x", "metadata": {"exit": 2}}},
        {"type": "tool", "id": "c2", "name": "read", "state": {"status": "error", "error": "no"}},
    ]  # fmt: skip
    records = [
        ("user", {"text": "hello"}),
        ("model-switched", {"model": {"id": "gpt-5", "providerID": "openai"}}),
        ("assistant", {"content": content, "tokens": tokens, "cost": 0.01,
                       "model": {"id": "gpt-5"}, "finish": "stop"}),
        ("shell", {"command": "git status", "output": "clean"}),
        ("compaction", {"summary": "what was said"}),
        ("synthetic", {"text": "a reminder"}),
        ("agent-switched", {"agent": "plan"}),
    ]  # fmt: skip
    path = database(
        tmp_path / "opencode.db",
        "CREATE TABLE session(id, project_id, directory, title, time_created, time_updated);"
        "CREATE TABLE session_message(id, session_id, type, seq, time_created, time_updated, data);",
        session=[("ses_1", "global", "/home/dev/p", "Title", T, T)],
        session_message=[(f"msg_{n}", "ses_1", kind, n, T + n, T + n, data)
                         for n, (kind, data) in enumerate(records)],
    )  # fmt: skip
    has(yields(path, tmp_path), prompts=2, injected=1, calls=2, failed=2, open=0, compactions=1,
        input=150, cached=40, written=10, output=25, reasoning=5, cost=0.01)  # fmt: skip
    _, report = facts(path)
    assert not report.unknown


def test_a_cut_history_of_a_cline_task_is_read_as_far_as_it_goes(tmp_path):
    folder = tmp_path / "saoudrizwan.claude-dev" / "tasks" / str(T)
    history = [
        {"role": "user", "content": [
            {"type": "text", "text": "<task>\nbuild it\n</task>"},
            {"type": "text", "text": "<environment_details>\n# Current Working Directory (/home/dev/p)"
                                     " Files\n</environment_details>"}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "toolu_1", "name": "execute_command", "input": {"command": "ls"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "exactly", "is_error": True}]},
    ]  # fmt: skip
    cut = orjson.dumps(history)[:-1] + b',{"role":"assist'
    document(folder / "api_conversation_history.json", cut)
    finished = {"tokensIn": 10, "tokensOut": 5, "cacheWrites": 3, "cacheReads": 2, "cost": 0.002}
    cancelled = {"tokensIn": 7, "tokensOut": 1, "cost": 0.001, "cancelReason": "user_cancelled"}
    ui = [
        ("say", "task", "build it"),
        ("say", "api_req_started", orjson.dumps({"request": "x"}).decode()),
        ("say", "api_req_finished", orjson.dumps(finished).decode()),  # older versions count here
        ("ask", "command", "ls"),
        ("say", "command_output", "about"),
        ("say", "api_req_started", orjson.dumps(cancelled).decode()),
        ("say", "error", "it broke"),
    ]  # fmt: skip
    path = document(folder / "ui_messages.json",
                    [{"ts": T + n, "type": kind, kind: sub, "text": text}
                     for n, (kind, sub, text) in enumerate(ui)])  # fmt: skip
    has(yields(folder, tmp_path), runs=1, prompts=1, calls=1, failed=1, open=0, errors=1,
        input=22, cached=2, written=3, output=6, cost=0.003, project="/home/dev/p")  # fmt: skip
    [called] = (fact for fact in facts(path)[0] if fact["fact"] == "Called")
    assert (called["call_id"], called.get("synthetic_id")) == ("toolu_1", None)


def test_a_sub_task_of_roo_without_its_index_is_linked_by_its_first_text(tmp_path):
    tasks = tmp_path / "rooveterinaryinc.roo-cline" / "tasks"
    given = orjson.dumps({"tool": "newTask", "mode": "code", "content": "write it"}).decode()
    document(tasks / "a" / "ui_messages.json", [
        {"ts": T, "type": "say", "say": "text", "text": "do all"},
        {"ts": T + 1, "type": "ask", "ask": "tool", "text": given},
        {"ts": T + 60, "type": "say", "say": "subtask_result", "text": "written"},
    ])  # fmt: skip
    document(tasks / "b" / "ui_messages.json", [
        {"ts": T + 5, "type": "say", "say": "text", "text": "write it"},
        {"ts": T + 6, "type": "say", "say": "completion_result", "text": "written"},
    ])  # fmt: skip
    listed = [{"id": "a", "ts": T, "task": "do all"}]
    document(tasks / "_index.json", {"version": 1, "entries": listed})
    has(yields(tasks, tmp_path), runs=2, prompts=2, calls=1, open=0, children=1)


def test_equal_messages_of_a_cline_session_are_two(tmp_path):
    document(tmp_path / "1_a" / "1_a.messages.json", {
        "version": 1, "agent": "lead", "sessionId": "1_a", "messages": [
            {"id": "m1", "role": "user", "content": "go on"},
            {"id": "m2", "role": "assistant", "content": "done", "metrics": {"inputTokens": 5, "outputTokens": 1}},
            {"id": "m3", "role": "user", "content": "go on"},
            {"id": "m4", "role": "assistant", "content": "done", "metrics": {"inputTokens": 5, "outputTokens": 1}},
        ]})  # fmt: skip
    has(yields(tmp_path / "1_a", tmp_path), prompts=2, answers=2, input=10, output=2, spends=2)


def cursor_home(home):
    """One conversation of the editor, and one of the agent that lies in two stores."""
    user = home / ".config" / "Cursor" / "User"
    chat, other = "11111111-1111-4111-8111-111111111111", "11111111-1111-4111-8111-111111111112"
    rich = orjson.dumps({"root": {"children": [{"text": "as typed"}]}}).decode()
    call = {"toolCallId": "t1", "name": "run_terminal_command_v2", "params": '{"command":"ls"}',
            "result": '{"exitCode":3}', "status": "completed"}  # fmt: skip
    headers = [{"bubbleId": "b9", "type": 1, "createdAt": at(1)}, {"bubbleId": "b1", "type": 2}]
    rows = [
        (f"composerData:{chat}", {"composerId": chat, "createdAt": T, "fullConversationHeadersOnly": headers}),
        (f"bubbleId:{chat}:b9", {"bubbleId": "b9", "type": 1, "text": "", "richText": rich}),
        (f"bubbleId:{chat}:b1", {"bubbleId": "b1", "type": 2, "toolFormerData": call}),
        (f"composerData:{other}", {"composerId": other, "createdAt": T, "trackedGitRepos": [{"repoPath": "/home/dev/r"}],
                                   "fullConversationHeadersOnly": [{"bubbleId": "b", "type": 1}]}),
        (f"bubbleId:{other}:b", {"bubbleId": "b", "type": 1, "text": "again"}),
    ]  # fmt: skip
    schema = "CREATE TABLE ItemTable(key TEXT, value BLOB); CREATE TABLE cursorDiskKV(key TEXT, value BLOB);"
    database(user / "globalStorage" / "state.vscdb", schema, cursorDiskKV=rows)
    space = user / "workspaceStorage" / "abcd"
    listed = ("composer.composerData", {"allComposers": [{"composerId": chat}]})
    database(
        space / "state.vscdb", "CREATE TABLE ItemTable(key TEXT, value BLOB)", ItemTable=[listed]
    )
    document(space / "workspace.json", {"folder": "file:///home/dev/my%20place"})
    id = "22222222-2222-4222-8222-222222222222"
    asked = {"type": "text", "text": "<user_query>\nfirst\n</user_query>"}
    messages = [
        {"role": "user", "content": [asked]},
        {"role": "user", "content": [{"type": "text", "text": "<user_info>\nLinux\n</user_info>"}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "t", "toolName": "Shell", "args": {}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "t", "result": "out"}]},
    ]  # fmt: skip
    blobs = [(sha256(data).digest(), data) for data in map(orjson.dumps, messages)]
    root = b"".join(b"\x0a\x20" + digest for digest, _ in blobs)
    blobs.append((sha256(root).digest(), root))
    meta = {"agentId": id, "name": "Agent", "createdAt": T, "latestRootBlobId": blobs[-1][0].hex()}
    chats = home / ".cursor" / "chats" / "aa" / id
    database(chats / "store.db", "CREATE TABLE blobs(id TEXT, data BLOB); CREATE TABLE meta(key, value)",
             blobs=[(digest.hex(), data) for digest, data in blobs], meta=[("0", orjson.dumps(meta).hex())])  # fmt: skip
    document(chats / "meta.json", {"cwd": "/home/dev/p"})
    transcripts = home / ".cursor" / "projects" / "p" / "agent-transcripts"
    calls = [{"type": "tool_use", "name": "Shell", "input": {}}]
    lines(transcripts / id / f"{id}.jsonl", {"role": "user", "message": {"content": [asked]}},
          {"role": "assistant", "message": {"content": calls}})  # fmt: skip
    return {"poorer": transcripts / id / f"{id}.jsonl", "chat": chat, "other": other, "agent": id}


def test_a_conversation_of_cursor_in_two_stores_is_read_from_the_richer_one(tmp_path):
    home = tmp_path / "user"
    known = cursor_home(home)
    has(yields(home, tmp_path), runs=3, prompts=3, injected=1, calls=2, open=0, failed=1)
    places = registry.importer("cursor").find(home, {})
    assert known["poorer"] not in places
    (home / ".cursor" / "chats" / "aa" / known["agent"] / "store.db").unlink()
    assert known["poorer"] in registry.importer("cursor").find(home, {})


def test_the_project_of_a_cursor_chat_is_that_of_its_workspace_or_repository(tmp_path):
    home = tmp_path / "user"
    known = cursor_home(home)
    read, _ = facts(home / ".config" / "Cursor" / "User" / "globalStorage" / "state.vscdb")
    folders = {each["run"]: each["cwd"] for each in read if each["fact"] == "Began"}
    assert folders == {known["chat"]: "/home/dev/my place", known["other"]: "/home/dev/r"}
    [prompt, *_] = (each for each in read if each["fact"] == "Said")
    assert (prompt["blocks"][0]["text"], prompt["at"]) == ("as typed", at(1))


def test_a_result_of_qwen_without_its_message_is_stored(tmp_path):
    base = {"sessionId": "44444444-4444-4444-8444-444444444444", "timestamp": at(1), "cwd": "/p"}
    call = {"functionCall": {"id": "c1", "name": "shell", "args": {}}}
    path = lines(
        tmp_path / "q.jsonl",
        {**base, "uuid": "u1", "parentUuid": None, "type": "user", "message": {"parts": [{"text": "hi"}]}},
        {**base, "uuid": "u2", "parentUuid": "u1", "type": "assistant", "message": {"parts": [call]}},
        {**base, "uuid": "u3", "parentUuid": "u2", "type": "tool_result",
         "toolCallResult": {"callId": "c1", "status": "error", "resultDisplay": "it is gone"}},
        end=b"\r\n",
    )  # fmt: skip
    has(yields(path, tmp_path), prompts=1, calls=1, failed=1, open=0)
    assert "it is gone" in str(facts(path)[0])


def pi_entries():
    usage = {
        "input": 10,
        "output": 5,
        "cacheRead": 3,
        "cacheWrite": 2,
        "totalTokens": 20,
        "cost": {"total": 0.01},
    }
    answer = {"role": "assistant", "content": [{"type": "toolCall", "id": "t", "name": "bash", "arguments": {}}],
              "api": "a", "provider": "p", "model": MODEL, "usage": usage, "stopReason": "toolUse"}  # fmt: skip
    result = {
        "role": "toolResult",
        "toolCallId": "t",
        "toolName": "bash",
        "content": [],
        "isError": True,
    }
    messages = [{"role": "user", "content": "first"}, answer, result]
    return [{"type": "message", "id": f"e{n}", "parentId": f"e{n - 1}" if n else None,
             "timestamp": at(n + 1), "message": each} for n, each in enumerate(messages)]  # fmt: skip


def test_what_a_fork_of_pi_repeats_counts_once(tmp_path):
    folder = tmp_path / "sessions"
    head = {"type": "session", "version": 3, "cwd": "/home/dev/p"}
    parent = lines(folder / "1_a.jsonl", {**head, "id": "a", "timestamp": at(0)}, *pi_entries())
    new = {"type": "message", "id": "n", "parentId": "e0", "timestamp": at(40),
           "message": {"role": "user", "content": "another way"}}  # fmt: skip
    fork = {**head, "id": "b", "timestamp": at(30), "parentSession": f"/else/where/{parent.name}"}
    lines(folder / "2_b.jsonl", fork, *pi_entries(), new)
    has(yields(folder, tmp_path), runs=2, calls=1, failed=1, spends=1, input=15, output=5, forks=1,
        titles={"first", "another way"})  # fmt: skip
    parent.unlink()  # then the fork is all there is
    has(yields(folder, tmp_path / "alone"), runs=1, calls=1, spends=1)


def test_a_database_of_openclaw_with_fewer_columns_and_the_lines_it_replaced(tmp_path):
    agents = tmp_path / "user" / ".openclaw" / "agents" / "main"
    head = {"type": "session", "version": 4, "id": "s1", "timestamp": at(0), "cwd": "/p"}
    rows = [("s1", n, each) for n, each in enumerate([head, *pi_entries()])]
    store = database(agents / "agent" / "openclaw-agent.sqlite",
                     "CREATE TABLE transcript_events(session_id, seq, event_json)",
                     transcript_events=rows)  # fmt: skip
    lines(agents / "sessions" / "s1.jsonl", head, *pi_entries())
    reset = agents / "sessions" / "s0.jsonl.reset.2026-05-01T00-00-00.000Z"
    lines(reset, {**head, "id": "s0"}, *({**each, "id": f"0{each['id']}"} for each in pi_entries()))
    document(
        agents / "sessions" / "sessions.json", {"agent:main": {"sessionId": "s1", "updatedAt": T}}
    )
    assert list(registry.importer("pi").find(tmp_path / "user", {})) == [reset, store]
    has(yields(agents, tmp_path), runs=2, prompts=2, calls=2, failed=2, spends=2)


def test_a_call_of_kimi_cli_whose_input_came_in_pieces(tmp_path):
    def wire(kind, payload, second):
        return {
            "timestamp": 1_780_000_000.5 + second,
            "message": {"type": kind, "payload": payload},
        }

    folder = tmp_path / "sessions" / "x" / "99999999-9999-4999-8999-999999999999"
    call = {"id": "Shell:0", "function": {"name": "Shell", "arguments": '{"command":'}}
    counts = {"input_other": 50, "output": 7, "input_cache_read": 20, "input_cache_creation": 0}
    path = lines(
        folder / "wire.jsonl",
        {"type": "metadata", "protocol_version": "1.1"},
        wire("TurnBegin", {"user_input": "hi"}, 0),
        wire("ToolCall", call, 1),
        wire("ToolCallPart", {"arguments_part": ' "ls'}, 2),
        wire("ToolCallPart", {"arguments_part": '"}'}, 3),
        wire("ToolResult", {"tool_call_id": "Shell:0", "return_value": {"is_error": True, "output": "no"}}, 4),
        wire("StatusUpdate", {"token_usage": counts, "message_id": "m"}, 5),
    )  # fmt: skip
    lines(folder / "context.jsonl", {"role": "_system_prompt", "content": "x"})
    document(folder / "state.json", {"version": 1, "title": "Title"})
    has(yields(folder, tmp_path), runs=1, prompts=1, calls=1, failed=1, open=0, input=70, cached=20,
        output=7, titles={"Title"})  # fmt: skip
    read, _ = facts(path)
    [called] = (each for each in read if each["fact"] == "Called")
    assert called["input"] == {"command": "ls"}
    assert read[0]["software"] == {"name": "kimi-cli"}


def test_goose_before_messages_had_ids_and_before_it_had_a_database(tmp_path):
    sessions = tmp_path / "user" / ".local" / "share" / "goose" / "sessions"
    request = {
        "type": "toolRequest",
        "id": "q",
        "toolCall": {"status": "success", "value": {"name": "shell"}},
    }
    broken = {"type": "toolRequest", "id": "r", "toolCall": {"status": "error", "error": "no JSON"}}
    value = {"content": [], "isError": False, "structuredContent": {"exit_code": 2}}
    response = {
        "type": "toolResponse",
        "id": "q",
        "toolResult": {"status": "success", "value": value},
    }
    said = [
        ("user", [{"type": "text", "text": "go"}]),
        ("assistant", [request, broken]),
        ("user", [response]),
    ]
    store = database(
        sessions / "sessions.db",
        "CREATE TABLE sessions(id, description, working_dir, created_at, accumulated_input_tokens,"
        " accumulated_output_tokens);"
        "CREATE TABLE messages(id, session_id, role, content_json, created_timestamp);",
        sessions=[("20251001_1", "Title", "/home/dev/p", "2025-10-01 10:00:00", 250, 50)],
        messages=[(n, "20251001_1", role, content, T // 1000 + n) for n, (role, content) in enumerate(said)],
    )  # fmt: skip
    older = {"working_dir": "/home/dev/o", "description": "Older", "accumulated_input_tokens": 30}
    text = {"role": "user", "created": 1_748_779_200, "content": [{"type": "text", "text": "hi"}]}
    file = lines(sessions / "20250601_120000.jsonl", older, text)
    lines(sessions / "20251001_1.jsonl", older, text)  # what was moved into the database
    assert list(registry.importer("goose").find(tmp_path / "user", {})) == [store, file]
    has(yields(store, tmp_path / "a"), prompts=1, calls=2, failed=2, open=0, input=250, output=50,
        titles={"Title"}, lower=True)  # fmt: skip
    has(yields(file, tmp_path / "b"), prompts=1, input=30, titles={"Older"}, project="/home/dev/o")


def test_the_words_of_an_openhands_response_are_read_once(tmp_path):
    events = tmp_path / "user" / ".openhands" / "sessions" / "s" / "events"
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    response = {
        "id": "r",
        "model": "gpt-4o",
        "choices": [{"message": {"content": "I try"}}],
        "usage": usage,
    }
    meta = {"function_name": "execute_bash", "tool_call_id": "t", "model_response": response}
    first = document(events / "1.json", {"id": 1, "timestamp": "2025-01-01T00:00:00", "source": "user",
                                         "action": "message", "args": {"content": "go"}})  # fmt: skip
    document(events / "3.json", {"id": 3, "timestamp": "2025-01-01T00:00:01", "source": "agent", "action": "run",
             "args": {"command": "false", "thought": "I try"}, "tool_call_metadata": meta})  # fmt: skip
    document(events / "4.json", {"id": 4, "timestamp": "2025-01-01T00:00:02", "source": "agent", "content": "",
             "observation": "run", "extras": {"exit_code": 1}, "cause": 3, "tool_call_metadata": meta})  # fmt: skip
    assert list(registry.importer("openhands").find(tmp_path / "user", {})) == [first]
    has(
        yields(events, tmp_path),
        runs=1,
        prompts=1,
        answers=1,
        calls=1,
        failed=1,
        spends=1,
        input=100,
    )


HISTORY = """
# aider chat started at 2026-01-02 03:04:05

> Aider v0.86.1
> Main model: claude-sonnet-4-6 with diff edit format

#### /ask what is this

#### what is this

It is a thing.

> Tokens: 2.8k sent, 1.2k cache write, 3k cache hit, 21 received. Cost: $0.0073 message, $0.0073 session.

#### fix it
#### please

# aider chat started at 2026-01-02 05:04:05

#### 日本
"""


def test_a_history_of_aider_on_windows(tmp_path):
    path = document(
        tmp_path / "p" / ".aider.chat.history.md", HISTORY.replace("\n", "\r\n").encode()
    )
    has(yields(path, tmp_path), runs=2, prompts=3, answers=1, input=5_800, cached=3_000, output=21,
        models={MODEL}, titles={"/ask what is this", "日本"})  # fmt: skip
    assert "\\r" not in str(facts(path)[0])


def step(number, source, kind, **more):
    times = {"status": "DONE", "created_at": f"2026-06-01T00:00:{number:02}Z"}
    return {"step_index": number, "source": source, "type": kind, **times, **more}


def test_a_result_of_antigravity_answers_the_call_of_its_kind(tmp_path):
    folder = tmp_path / "user" / ".gemini" / "antigravity"
    calls = [{"name": "view_file", "args": {}}, {"name": "run_command", "args": {}}]
    log = folder / "brain" / "one" / ".system_generated" / "logs" / "transcript.jsonl"
    path = lines(
        log,
        step(0, "USER_EXPLICIT", "USER_INPUT", content="<USER_REQUEST>\ngo\n</USER_REQUEST>"),
        step(1, "MODEL", "PLANNER_RESPONSE", tool_calls=calls),
        step(2, "MODEL", "RUN_COMMAND", content="failed with exit code: 2"),
        step(3, "MODEL", "PLANNER_RESPONSE", tool_calls=[{"name": "grep_search", "args": {}}]),
        step(4, "MODEL", "GREP_SEARCH", content="found"),
    )
    lines(folder / "history.jsonl", {"conversationId": "one", "workspace": "/home/dev/p"})
    document(folder / "conversations" / "one.pb", b"\x93\x12\x00\xff" * 50)
    encrypted = document(folder / "conversations" / "two.pb", b"\x93\x12\x00\xff" * 50)
    back = {each["call_id"]: each["tool"] for each in facts(path)[0] if each["fact"] == "Returned"}
    assert back == {"step/1/1": "run_command", "step/3/0": "grep_search"}
    assert list(registry.importer("antigravity").find(tmp_path / "user", {})) == [path, encrypted]
    has(
        yields(folder, tmp_path),
        runs=1,
        prompts=1,
        calls=3,
        failed=1,
        open=1,
        project="/home/dev/p",
    )
    has(yields(encrypted, tmp_path / "other"), runs=1, prompts=0, findings=1)


def test_langsmith_counts_of_older_exports(tmp_path):
    def run(id, kind, **more):
        times = {"start_time": "2026-06-01T00:00:00", "end_time": "2026-06-01T00:00:02"}
        meta = {"metadata": {"ls_model_name": "gpt-4o"}}
        return {"id": id, "trace_id": "t0", "dotted_order": id, "run_type": kind, "name": kind,
                "inputs": {}, "outputs": {}, "extra": meta, **times, **more}  # fmt: skip

    counted = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 30},
    }
    answer = {"lc": 1, "id": ["x", "AIMessage"], "kwargs": {
        "content": "done", "usage_metadata": {"input_tokens": 5, "output_tokens": 6}}}  # fmt: skip
    path = lines(
        tmp_path / "runs.jsonl",
        run("t0", "chain", parent_run_id=None, prompt_tokens=112, total_cost="9"),
        run("t1", "llm", parent_run_id="t0", outputs={"llm_output": {"token_usage": counted}},
            prompt_cost="0.01", completion_cost="0.02"),
        run("t2", "llm", parent_run_id="t0", outputs={"output": answer}),
        run("t3", "llm", parent_run_id="t0", prompt_tokens=7, completion_tokens=1,
            prompt_token_details={"cache_read": 2}),
    )  # fmt: skip
    has(yields(path, tmp_path), runs=1, spends=3, input=112, cached=32, output=17)
    paid = [each.get("cost_usd") for each in facts(path)[0] if each["fact"] == "Spent"]
    assert paid == [pytest.approx(0.03), None, None]


def test_langfuse_exports_in_which_values_are_texts(tmp_path):
    def seen(id, kind, second, **more):
        times = {
            "start_time": f"2026-06-01 00:00:{second:02}.5",
            "end_time": f"2026-06-01 00:00:{second:02}.9",
        }
        return {
            "id": id,
            "trace_id": "t",
            "type": kind,
            "name": more.pop("name", kind),
            **times,
            **more,
        }

    path = lines(
        tmp_path / "observations" / "1.jsonl",
        seen("o2", "TOOL", 5, name="w", output='"boom"', level="ERROR", status_message="failed"),
        seen("o1", "GENERATION", 1, model="gpt-4o", input='[{"role":"user","content":"go"}]',
             usage_details='{"input":70,"output":10,"total":110,"input_cached_tokens":30}',
             cost_details='{"total":0.1}', tool_calls=['{"id":"k1","name":"w","arguments":"{}"}']),
    )  # fmt: skip
    has(yields(path, tmp_path), prompts=1, calls=1, failed=1, open=0, input=100, cached=30,
        output=10, cost=0.1)  # fmt: skip


def test_a_message_of_amp_without_counts_is_no_spend(tmp_path):
    id = "T-aaaaaaaa-0000-4000-8000-00000000000a"
    usage = {"model": MODEL, "inputTokens": 5, "cacheCreationInputTokens": 10,
             "cacheReadInputTokens": 20, "outputTokens": 3}  # fmt: skip
    run = {"status": "done", "result": {"output": "x", "exitCode": 1}}
    messages = [
        {"role": "user", "messageId": 0, "content": [{"type": "text", "text": "go"}]},
        {"role": "assistant", "messageId": 1, "usage": usage,
         "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
        {"role": "user", "messageId": 2, "content": [{"type": "tool_result", "toolUseID": "t", "run": run}]},
        {"role": "assistant", "messageId": 3, "content": [], "state": {"type": "cancelled"},
         "usage": {"inputTokens": 0, "outputTokens": 0}},
    ]  # fmt: skip
    path = document(tmp_path / f"{id}.json", {"v": 5, "id": id, "created": T, "messages": messages})
    has(
        yields(path, tmp_path),
        calls=1,
        failed=1,
        spends=1,
        input=35,
        cached=20,
        written=10,
        output=3,
    )
    path = document(tmp_path / "x.json", {"v": 5, "id": "x", "created": T, "messages": messages})
    assert recognition(registry.importers(), path, head_of(path)).importer is None


def test_a_session_of_hermes_that_is_not_in_its_database_is_found(tmp_path):
    base = tmp_path / "user" / ".hermes"
    store = database(
        base / "state.db", "CREATE TABLE sessions(id)", sessions=[("20260101_000000_ab",)]
    )
    document(base / "sessions" / "session_20260101_000000_ab.json", {})
    older = document(base / "sessions" / "session_20250101_000000_zz.json", {})
    found: list[Path] = list(registry.importer("hermes").find(tmp_path / "user", {}))
    assert found == [store, older]


def test_an_import_of_everything_ends_with_what_each_project_cost(tmp_path):
    user = tmp_path / "user"
    cursor_home(user)
    head = {"type": "session", "version": 3, "id": "a", "timestamp": at(0), "cwd": "/home/dev/p"}
    lines(user / ".pi" / "agent" / "sessions" / "--p--" / "1_a.jsonl", head, *pi_entries())
    id = "T-aaaaaaaa-0000-4000-8000-00000000000a"
    usage = {"model": MODEL, "inputTokens": 1_000_000, "outputTokens": 0}
    said = {
        "role": "assistant",
        "messageId": 0,
        "usage": usage,
        "content": [{"type": "text", "text": "x"}],
    }
    trees = [{"uri": "file:///home/dev/amp"}]
    document(user / ".local" / "share" / "amp" / "threads" / f"{id}.json",
             {"v": 5, "id": id, "created": T, "messages": [said], "env": {"initial": {"trees": trees}}})  # fmt: skip
    env = {"HOME": str(user), "TRACKLOG_HOME": str(tmp_path / "home"), "COLUMNS": "120"}
    told = tracklog(None, "import", env=env).stdout.decode()
    *rows, hint = told.partition("\n\n")[2].splitlines()
    assert [row.split() for row in rows] == [
        ["cost", "tokens", "runs", "project"],
        ["≥~$3.00", "1,000,000", "1", "/home/dev/amp"],
        ["$0.01", "20", "1", "/home/dev/p"],
    ]
    assert hint.startswith("`tracklog costs --by day` shows ")
    again = tracklog(None, "import", env=env).stdout.decode()
    assert "nothing new" in again
    assert "\n\n" not in again
    env["TRACKLOG_HOME"] = str(tmp_path / "other")
    named = tracklog(None, "import", str(user), env=env).stdout.decode()
    assert "\n\n" not in named


def table(path, names, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([names, *([row.get(name, "") for name in names] for row in rows)])
    return path


LANGFUSE = ["id", "trace_id", "project_id", "environment", "type", "parent_observation_id",
            "start_time", "end_time", "name", "metadata", "level", "status_message", "input", "output",
            "provided_model_name", "usage_details", "cost_details"]  # fmt: skip


def langfuse_rows(long=""):
    def seen(id, kind, second, **more):
        times = {"start_time": f"2026-06-01 00:00:{second:02}.500000",
                 "end_time": f"2026-06-01 00:00:{second:02}.900000"}  # fmt: skip
        return {"id": id, "trace_id": "t", "project_id": "p", "type": kind, **times, **more}

    told = orjson.dumps([{"role": "user", "content": f'go, "quickly"\n{long}'}]).decode()
    call = {"id": "k1", "type": "function", "function": {"name": "w", "arguments": "{}"}}
    return [
        seen("o2", "TOOL", 5, name="w", output="boom", level="ERROR", status_message="failed"),
        seen("o1", "GENERATION", 1, name="chat", provided_model_name="gpt-4o", input=told,
             output=orjson.dumps({"role": "assistant", "tool_calls": [call]}).decode(),
             usage_details='{"input":70,"output":10,"total":80}', cost_details='{"total":0.1}'),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_export_of_langfuse_to_a_storage(tmp_path, form):
    folder = tmp_path / "export" / "p"
    trace = {
        "id": "t",
        "timestamp": "2026-06-01 00:00:01.500000",
        "name": "Weather",
        "session_id": "s",
    }
    score = {
        "id": "c",
        "timestamp": "2026-06-01 00:00:09.000000",
        "trace_id": "t",
        "name": "good",
        "value": 0.5,
    }
    rows = langfuse_rows("x" * 200_000)
    if form == "csv":
        path = table(folder / "observations" / "1.csv", LANGFUSE, *rows)
        table(folder / "traces" / "1.csv", list(trace), trace)
        table(folder / "scores" / "1.csv", list(score), score)
    else:
        path = lines(folder / "observations" / "1.jsonl", *rows)
        lines(folder / "traces" / "1.jsonl", trace)
        lines(folder / "scores" / "1.jsonl", score)
    assert recognition(registry.importers(), path, head_of(path)).importer.name == "langfuse"
    has(yields(folder, tmp_path), runs=1, prompts=1, calls=1, failed=1, open=0, input=70, output=10,
        cost=0.1, models={"gpt-4o"}, titles={"Weather"}, first="2026-06-01T00:00:01.5Z")  # fmt: skip
    read, _ = facts(path)
    [decided] = (each for each in read if each["fact"] == "Decided")
    assert decided["score"] == 0.5


def test_a_table_of_langfuse_that_was_cut(tmp_path):
    path = table(tmp_path / "observations.csv", LANGFUSE, *reversed(langfuse_rows()))
    path.write_bytes(path.read_bytes()[:-60])
    read, _ = facts(path)
    assert sum(each["fact"] == "Spent" for each in read) == 1
    assert any(each.get("kind") == "torn-tail" or "torn-tail" in str(each) for each in read)
    other = table(tmp_path / "other.csv", ["id", "type", "name"], {"id": 1, "type": "TOOL"})
    assert recognition(registry.importers(), other, head_of(other)).importer is None


def test_a_database_of_opencode_with_fewer_columns_and_times_as_text(tmp_path):
    path = database(
        tmp_path / "kilo.db",
        "CREATE TABLE session(id, directory, time_created, time_updated);"
        "CREATE TABLE message(id, session_id, time_created, data);"
        "CREATE TABLE part(id, message_id, data);",
        session=[("s1", "/home/dev/p", at(0), at(9)), ("s2", "/home/dev/p", at(0), at(9))],
        message=[("m2", "s1", T, {"role": "assistant", "time": {"created": "2026-05-28T20:27:02.5Z"}}),
                 ("m1", "s1", T, {"role": "user", "time": {"created": "2026-05-28T20:27:02Z"}}),
                 ("m3", "s2", T, {"role": "user", "time": {"created": at(3)}})],
        part=[("p1", "m1", {"type": "text", "text": "look"}), ("p2", "m2", {"type": "text", "text": "seen"}),
              ("p3", "m3", {"type": "text", "text": "other"})],
    )  # fmt: skip
    has(yields(path, tmp_path), runs=2, prompts=2, answers=1, titles={"look", "other"},
        project="/home/dev/p", last=at(3))  # fmt: skip
    words = [each["blocks"][0]["text"] for each in facts(path)[0] if each["fact"] == "Said"]
    assert words == ["look", "seen", "other"]


def test_a_result_of_cursor_answers_the_first_call_without_an_id(tmp_path):
    def said(role, *content):
        return {"role": role, "message": {"content": list(content)}}

    path = lines(
        tmp_path / "x.jsonl",
        said("user", {"type": "text", "text": "look"}),
        said("assistant", {"type": "tool_use", "name": "Shell", "input": {}},
             {"type": "tool_use", "name": "Read", "input": {}, "id": "r1"}),
        said("user", {"type": "tool_result", "tool_use_id": "r1", "content": "read"}),
        said("user", {"type": "tool_result", "tool_use_id": "t9", "content": "no", "is_error": True}),
    )  # fmt: skip
    has(yields(path, tmp_path), prompts=1, calls=2, open=0, torn=0, failed=1)


def test_messages_of_cursor_that_no_header_names_are_stored_beside_the_conversation(tmp_path):
    chat = "11111111-1111-4111-8111-111111111111"
    headers = [{"bubbleId": "b1", "type": 1}, {"bubbleId": "b2", "type": 2}]
    rows = [
        (f"composerData:{chat}", {"composerId": chat, "createdAt": T, "lastUpdatedAt": T + 9000,
                                  "fullConversationHeadersOnly": headers}),
        (f"bubbleId:{chat}:b1", {"bubbleId": "b1", "type": 1, "text": "go"}),
        (f"bubbleId:{chat}:b2", {"bubbleId": "b2", "type": 2, "text": "done",
                                 "toolFormerData": {"additionalData": {"note": "no call"}}}),
        (f"bubbleId:{chat}:b3", {"bubbleId": "b3", "type": 2, "text": "an answer before the edit"}),
    ]  # fmt: skip
    schema = "CREATE TABLE cursorDiskKV(key TEXT, value BLOB)"
    path = database(tmp_path / "state.vscdb", schema, cursorDiskKV=rows)
    has(yields(path, tmp_path), prompts=1, answers=1, calls=0, last="2026-05-28T20:26:49Z")
    read, report = facts(path)
    assert not report.ignored
    assert "an answer before the edit" in str(read)
    assert "no call" in str(read)


def test_prompts_of_kimi_that_only_its_context_has(tmp_path):
    def appended(text, second, **more):
        message = {"role": "user", "content": [{"type": "text", "text": text}], **more}
        return {"type": "context.append_message", "message": message, "time": T + second}

    loop = {"type": "context.append_loop_event", "time": T + 3}
    thought = {
        "type": "content.part",
        "stepUuid": "s",
        "part": {"type": "think", "text": "hm, why"},
    }
    path = lines(
        tmp_path / "session_1" / "agents" / "main" / "wire.jsonl",
        {"type": "metadata", "protocol_version": "1.4", "created_at": T},
        {"type": "turn.prompt", "time": T + 1},
        appended("first", 1),
        {**loop, "event": thought},
        appended("<system-reminder>be brief</system-reminder>", 4),
        appended("a task has ended", 5, origin={"kind": "system_trigger"}),
        {"type": "context.apply_compaction", "summary": "what was said so far", "time": T + 6},
        appended("second", 7, origin={"kind": "user"}),
    )
    has(yields(path, tmp_path), prompts=2, injected=2, thoughts=1, compactions=1, titles={"first"})
    assert "hm, why" in str(facts(path)[0])


def test_a_chat_of_vs_code_keeps_what_only_its_rounds_and_results_have(tmp_path):
    rounds = [{"response": "I look", "thinking": {"text": "which file is it"},
               "toolCalls": [{"id": "c1", "name": "read", "arguments": "{}"}]}]  # fmt: skip
    meta = {"toolCallRounds": rounds, "toolCallResults": {"c1": {"content": "the whole file"}}}
    call = {"kind": "toolInvocationSerialized", "toolId": "read", "toolCallId": "c1", "isComplete": True,
            "resultDetails": {"input": "{}", "output": [{"value": "a part"}]}}  # fmt: skip
    request = {"requestId": "r", "timestamp": T, "responseTimestamp": T + 5000, "message": {"text": "go"},
               "response": [{"value": "I look"}, call],
               "result": {"metadata": meta, "details": "a model with a name"}}  # fmt: skip
    state = {"version": 3, "sessionId": "s", "creationDate": T, "requests": [],
             "workingDirectory": "file:///home/dev/my%20place"}  # fmt: skip
    path = lines(
        tmp_path / "chatSessions" / "s.jsonl",
        {"kind": 0, "v": state},
        {"kind": 2, "k": ["requests"], "v": [request]},
    )
    has(yields(path, tmp_path), prompts=1, calls=1, open=0, project="/home/dev/my place",
        last="2026-05-28T20:26:45Z")  # fmt: skip
    told = str(facts(path)[0])
    for text in ("which file is it", "the whole file", "a part", "a model with a name"):
        assert text in told


def test_logs_of_other_agents_are_not_recognised(tmp_path):
    session = {"sessionId": "s", "timestamp": T}
    buddy = lines(
        tmp_path / "buddy.jsonl",
        {**session, "type": "session_start", "cwd": "/p"},
        {**session, "type": "message", "role": "assistant", "content": [{"type": "text", "text": "x"}]},
        {**session, "type": "function_call", "name": "read_file", "arguments": {}},
    )  # fmt: skip
    of = {"session_id": "11111111-1111-4111-8111-111111111111"}
    printed = lines(
        tmp_path / "printed.jsonl",
        {**of, "type": "system", "subtype": "init", "cwd": "/p", "model": "Auto", "permissionMode": "default"},
        {**of, "type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "go"}]}},
        {**of, "type": "tool_call", "subtype": "started", "call_id": "c", "tool_call": {"readToolCall": {}}},
    )  # fmt: skip
    for path in (buddy, printed):
        assert recognition(registry.importers(), path, head_of(path)).importer is None


def test_records_of_qwen_without_ids_and_a_header_of_pi_with_a_title(tmp_path):
    base = {"sessionId": "s", "timestamp": at(1)}
    qwen = lines(
        tmp_path / "q.jsonl",
        {**base, "type": "user", "message": {"role": "user", "parts": [{"text": "look"}]}},
        {**base, "type": "assistant", "message": {"role": "model", "parts": [{"text": "seen"}]}},
    )
    has(yields(qwen, tmp_path / "a"), runs=1, prompts=1, answers=1, titles={"look"})
    head = {
        "type": "session",
        "version": 3,
        "id": "a",
        "timestamp": at(0),
        "cwd": "/p",
        "title": "A name",
    }
    change = {
        "type": "model_change",
        "id": "m",
        "parentId": None,
        "timestamp": at(1),
        "model": "kimi-k2",
    }
    answer = {"role": "assistant", "content": [{"type": "text", "text": "seen"}]}
    pi = lines(tmp_path / "p.jsonl", head, change,
               {"type": "message", "id": "e", "parentId": "m", "timestamp": at(2), "message": answer})  # fmt: skip
    has(yields(pi, tmp_path / "b"), titles={"A name"}, models={"kimi-k2"}, answers=1)


def test_the_texts_in_steps_of_antigravity_without_a_schema_are_stored(tmp_path):
    text = b"the output of a command"
    inner = b"\x0a" + bytes([len(text)]) + text + b"\x10\x01"
    payload = b"\xaa\x01" + bytes([len(inner)]) + inner
    path = database(
        tmp_path / "conversations" / "c.db",
        "CREATE TABLE steps(idx, step_type, metadata, step_payload);"
        "CREATE TABLE gen_metadata(idx, data);",
        steps=[(0, 21, b"", payload)],
    )
    read, report = facts(path)
    assert not report.ignored
    [step] = (each for each in read if each.get("label") == "step")
    assert step["data"] == {"index": 0, "texts": ["the output of a command"]}


def test_a_document_of_hermes_without_times_of_its_messages(tmp_path):
    call = {"id": "c", "type": "function", "function": {"name": "memory", "arguments": "{}"},
            "extra": {"latency": "a slow one"}}  # fmt: skip
    path = document(tmp_path / "session_1.json", {
        "session_id": "1", "platform": "cli", "session_start": "2026-04-29T20:10:00", "model": "gpt-5.2",
        "last_updated": "2026-04-29T20:10:08", "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "", "tool_calls": [call], "note": "a new field"},
            {"role": "tool", "content": "none", "tool_call_id": "c", "tool_name": "memory"},
        ]})  # fmt: skip
    has(yields(path, tmp_path), prompts=1, calls=1, open=0, last="2026-04-29T20:10:08Z")
    told = str(facts(path)[0])
    assert "a slow one" in told
    assert "a new field" in told
