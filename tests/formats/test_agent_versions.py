"""Stores of agents with fewer columns, other spellings of values, and files that lie side by side.

They are written after the descriptions of the formats, which leave open what a version has.
"""

import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from support.asking import ask
from support.importing import yields
from support.sources import database, document, lines
from tracklog.formats import registry
from tracklog.formats.importers import SourceReading, head_of
from tracklog.formats.importers._editors import path_of
from tracklog.formats.importing import Importing
from tracklog.formats.recognition import recognition
from tracklog.home.home import Home
from tracklog.testing import built, lines_of_file

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
T = 1_780_000_000_000
MODEL = "claude-sonnet-4-6"


def at(second):
    return f"2026-05-28T20:27:{second:02}.000Z"


def has(found, **expected):
    assert {key: found[key] for key in expected} == expected


def facts(path, name):
    found = recognition(registry.importers(), path, head_of(path)).importer
    return [
        fact
        for line in lines_of_file(found, path)[0]
        if (fact := orjson.loads(line))["fact"] == name
    ]


def text(value):
    return orjson.dumps(value).decode()


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/Users/me/my%20p", "c:/Users/me/my p"),
        ("file:///home/dev/p", "/home/dev/p"),
        ("vscode-remote://ssh-remote%2Bhost/home/dev/p", "/home/dev/p"),
        ("", None),
        (7, None),
    ],
)
def test_the_folder_of_a_uri_is_a_path_of_its_system(uri, path):
    assert path_of(uri) == path


def chat(place, **requests):
    """A chat of VS Code with one request for each keyword."""
    listed = [
        {"requestId": name, "timestamp": T + 1_000 * n, "message": {"text": name}, "response": [],
         "modelId": "copilot/gpt-5", **fields}
        for n, (name, fields) in enumerate(requests.items())
    ]  # fmt: skip
    document(place / "workspace.json", {"folder": "file:///c%3A/w"})
    state = {"version": 3, "sessionId": "s", "creationDate": T, "responderUsername": "GitHub Copilot",
             "requests": listed}  # fmt: skip
    return document(place / "chatSessions" / "s.json", state)


def test_a_request_of_vs_code_without_an_answer_is_not_complete(tmp_path):
    path = chat(tmp_path, pending={"modelState": {"value": 0}}, waits={"modelState": {"value": 4}},
                done={"modelState": {"value": 1}}, odd={"modelState": {"value": []}},
                paid={"copilotCredits": 1.5})  # fmt: skip
    has(yields(path, tmp_path), prompts=5, outcomes={"complete"}, project="c:/w", spends=1)
    assert [each["credits"] for each in facts(path, "Spent")] == [1.5]


@pytest.mark.parametrize(
    ("code", "failed"), [("1", 1), (1, 1), ("0", 0), (0, 0), (True, 0), (None, 0)]
)
def test_the_exit_code_of_a_command_may_be_a_text(tmp_path, code, failed):
    terminal = {"kind": "toolInvocationSerialized", "toolId": "run_in_terminal", "toolCallId": "c",
                "toolSpecificData": {"terminalCommandState": {"exitCode": code}}}  # fmt: skip
    path = chat(tmp_path, one={"response": [terminal]})
    has(yields(path, tmp_path), calls=1, failed=failed, open=0)


def opencode(path, *messages):
    """A database of OpenCode: messages with their parts."""
    return database(
        path,
        "CREATE TABLE session(id, directory, title, time_created);"
        "CREATE TABLE message(id, session_id, time_created, data);"
        "CREATE TABLE part(id, message_id, session_id, data);",
        session=[("ses_1", "/home/dev/p", "Title", T)],
        message=[(f"msg_{n}", "ses_1", T + n, {"time": {"created": T + n}, **message})
                 for n, (message, _) in enumerate(messages)],
        part=[(f"prt_{n}_{k}", f"msg_{n}", "ses_1", part)
              for n, (_, parts) in enumerate(messages) for k, part in enumerate(parts)],
    )  # fmt: skip


def test_a_compaction_of_opencode_is_noted_and_a_failed_command_has_its_code_as_text(tmp_path):
    state = {"status": "completed", "input": {}, "output": "", "metadata": {"exit": "2"}}
    call = {"type": "tool", "callID": "c", "tool": "bash", "state": state}
    path = opencode(
        tmp_path / "opencode.db",
        ({"role": "user"}, [{"type": "text", "text": "go"}]),
        ({"role": "assistant", "modelID": "gpt-5"}, [call]),
        ({"role": "user"}, [{"type": "compaction", "auto": True}]),
    )
    has(yields(path, tmp_path), prompts=2, compactions=1, calls=1, failed=1)


def cline_session(folder, id, messages, **about):
    info = {"session_id": id, "messages_path": "/gone", "status": "completed", "cwd": "/w", **about}
    document(folder / id / f"{id}.json", info)
    told = {"version": 1, "agent": "lead", "sessionId": id, "messages": messages}
    return document(folder / id / f"{id}.messages.json", told)


def test_what_a_fork_of_cline_has_from_its_parent_counts_once(tmp_path):
    spent = {"inputTokens": 100, "outputTokens": 5}
    use = {"type": "tool_use", "id": "u", "name": "bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "u", "content": "no", "is_error": True}
    talk = [
        {"id": "1", "role": "user", "content": "go"},
        {"id": "2", "role": "assistant", "ts": T, "content": [use], "metrics": spent},
        {"id": "3_tool_u", "role": "user", "content": [result]},
    ]
    later = {"id": "9", "role": "assistant", "ts": T + 90_000, "content": "so", "metrics": spent}
    new = [{**each, "id": f"n{each['id']}"} for each in talk]
    folder = tmp_path / "sessions"
    parent = cline_session(folder, "1_a", talk, started_at="2026-05-28T20:26:39Z")
    cline_session(folder, "2_b", [*new, later], started_at="2026-05-28T20:27:30Z",
                  metadata={"fork": {"forkedFromSessionId": "1_a"}})  # fmt: skip
    has(yields(folder, tmp_path), runs=2, calls=1, failed=1, forks=1, spends=2, input=200)
    shutil.rmtree(parent.parent)  # then the fork is all there is, and began with its history
    has(yields(folder, tmp_path / "alone"), runs=1, calls=1, spends=2, first="2026-05-28T20:26:40Z")


def test_a_result_in_the_block_behind_its_name_was_not_typed(tmp_path):
    call = "<execute_command>\n<command>ls</command>\n</execute_command>"
    environment = "<environment_details>\n<model>m</model>\n</environment_details>"
    folder = tmp_path / "tasks" / "5"
    path = document(folder / "api_conversation_history.json", [
        {"role": "user", "content": [{"type": "text", "text": "<task>\nread <model>x</model>\n</task>"}]},
        {"role": "assistant", "content": [{"type": "text", "text": call}]},
        {"role": "user", "content": [{"type": "text", "text": "[execute_command for 'ls'] Result:"},
                                     {"type": "text", "text": "Command executed.\na b"},
                                     {"type": "text", "text": "<feedback>\nmore\n</feedback>"},
                                     {"type": "text", "text": environment}]},
    ])  # fmt: skip
    has(yields(path, tmp_path), prompts=2, injected=1, calls=1, failed=0, open=0, models={"m"})
    [back] = facts(path, "Returned")
    assert back["output"].strip() == "Command executed.\na b"


def test_the_input_of_a_task_whose_history_names_a_model_includes_the_cache(tmp_path):
    fields = {"tokensIn": 1_000, "tokensOut": 5, "cacheReads": 800, "cacheWrites": 100}
    folder = tmp_path / "storage" / "tasks" / "0198"  # a place of the user's choice
    document(folder / "ui_messages.json", [
        {"ts": T, "type": "say", "say": "text", "text": "go"},
        {"ts": T + 1, "type": "say", "say": "api_req_started", "text": text(fields)}])  # fmt: skip
    has(yields(folder, tmp_path / "cline"), input=1_900)
    environment = "<environment_details>\n<model>gpt-5</model>\n</environment_details>"
    document(folder / "api_conversation_history.json", [{"role": "user", "content": environment}])
    has(yields(folder, tmp_path / "roo"), input=1_000, cached=800, written=100, models={"gpt-5"})


def kimi_step(number, *usages):
    """A step with its counts in a record before its end, at its end, and in a record behind."""
    before, inside, after = usages
    event = {"type": "context.append_loop_event", "time": T + 10 * number}
    record = {"type": "usage.record", "time": T + 10 * number}
    yield {**event, "event": {"type": "step.begin", "uuid": f"{number}"}}
    if before:
        yield {**record, "usage": before}
    end = {"type": "step.end", "uuid": f"{number}", "usage": inside}
    yield {**event, "event": {key: each for key, each in end.items() if each}}
    if after:
        yield {**record, "usage": after}


def test_a_step_of_kimi_is_counted_once_wherever_its_counts_stand(tmp_path):
    one, two = ({"inputOther": amount, "output": 1} for amount in (50, 70))
    path = lines(
        tmp_path / "session_a" / "agents" / "main" / "wire.jsonl",
        {"type": "metadata", "protocol_version": "1.4", "created_at": T},
        *kimi_step(1, one, one, None),
        *kimi_step(2, None, one, one),
        *kimi_step(3, None, None, two),
        *kimi_step(4, two, None, None),
        *kimi_step(5, None, one, two),  # of another request
    )
    has(yields(path, tmp_path), spends=6, input=3 * 50 + 3 * 70)


def test_a_session_of_kimi_cli_without_a_wire_is_read_from_its_contexts(tmp_path):
    user = tmp_path / "user"
    folder = user / ".kimi" / "sessions" / "md5" / "99999999-9999-4999-8999-999999999998"
    call = {"type": "function", "id": "t", "function": {"name": "Shell", "arguments": "{}"}}
    head = {"role": "_system_prompt", "content": "be good"}
    prompt = {"role": "user", "content": "go"}
    older = lines(
        folder / "context_1.jsonl", head, {"role": "_checkpoint", "id": 0}, prompt,
        {"role": "assistant", "content": [{"type": "think", "think": "hm"}, {"type": "text", "text": "ok"}],
         "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t", "content": "<system>ERROR: no</system>"},
        {"role": "_usage", "token_count": 5})  # fmt: skip
    # It went back to the prompt.
    newer = lines(folder / "context.jsonl", head, {"role": "_checkpoint", "id": 0}, prompt,
                  {"role": "assistant", "content": "another way"})  # fmt: skip
    found = registry.importer("kimi").find(user, {})
    assert set(found) == {older, newer}
    has(yields(folder, tmp_path), runs=1, prompts=1, answers=2, thoughts=1, calls=1, failed=1, open=0,
        titles={"go"})  # fmt: skip
    wire = {
        "timestamp": 1_780_000_000.5,
        "message": {"type": "TurnBegin", "payload": {"user_input": "go"}},
    }
    whole = lines(folder / "wire.jsonl", wire)
    assert list(registry.importer("kimi").find(user, {})) == [whole]
    has(yields(folder, tmp_path / "wire"), runs=1, prompts=1, answers=0)


def test_equal_lines_of_the_first_version_of_pi_are_one(tmp_path):
    usage = {"input": 10, "output": 5, "totalTokens": 15}
    call = {"type": "toolCall", "name": "bash", "arguments": {}}
    said = {"type": "message", "timestamp": at(1), "message": {
        "role": "assistant", "content": [call], "model": MODEL, "usage": usage}}  # fmt: skip
    head = {"type": "session", "id": "b", "timestamp": at(0), "cwd": "/w"}
    path = lines(tmp_path / "1_b.jsonl", head, said, said, {**said, "timestamp": at(2)})
    has(yields(path, tmp_path), calls=2, spends=2, input=20)


def test_a_database_of_goose_with_few_columns(tmp_path):
    call = {
        "type": "toolRequest",
        "id": "c",
        "toolCall": {"status": "success", "value": {"name": "x"}},
    }
    told = {"isError": False, "structuredContent": {"exit_code": "0"}, "content": []}
    back = {"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": told}}
    path = database(
        tmp_path / "sessions.db",
        "CREATE TABLE sessions(id, description, working_dir, accumulated_input_tokens);"
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id, role, content_json, created_timestamp);",
        sessions=[("20260101_1", "Old", "/w", 70)],
        messages=[(1, "20260101_1", "user", [{"type": "text", "text": "go"}], 1_780_000_000),
                  (2, "20260101_1", "assistant", [call], 1_780_000_001),
                  (3, "20260101_1", "user", [back], 1_780_000_002)],
    )  # fmt: skip
    has(yields(path, tmp_path), prompts=1, calls=1, failed=0, input=70, titles={"Old"}, findings=0)
    assert [each["at"] for each in facts(path, "Spent")] == ["2026-05-28T20:26:42Z"]


def test_the_lines_of_an_older_goose_began_when_their_name_says(tmp_path):
    head = {"working_dir": "/w", "description": "D", "accumulated_input_tokens": 7}
    said = {"role": "user", "created": 1_780_000_000, "content": [{"type": "text", "text": "go"}]}
    path = lines(tmp_path / "20260528_202600.jsonl", head, said)
    has(yields(path, tmp_path), first="2026-05-28T20:26:00Z", input=7)
    assert [each["at"] for each in facts(path, "Spent")] == ["2026-05-28T20:26:00Z"]


def test_a_database_of_crush_with_the_columns_of_its_description(tmp_path):
    parts = [{"type": "text", "data": {"text": "go"}}]
    path = database(
        tmp_path / "p" / ".crush" / "crush.db",
        "CREATE TABLE sessions(id, parent_session_id, title, prompt_tokens, completion_tokens, cost);"
        "CREATE TABLE messages(id, session_id, role, parts, model, created_at);",
        sessions=[("s", None, "Title", 100, 10, 0.5)],
        messages=[("m", "s", "user", parts, None, 1_780_000_000)],
    )  # fmt: skip
    has(yields(path, tmp_path), prompts=1, input=100, output=10, cost=0.5, titles={"Title"}, findings=0,
        project=str(tmp_path / "p"), last="2026-05-28T20:26:40Z")  # fmt: skip


def test_a_database_of_antigravity_whose_steps_have_no_metadata(tmp_path):
    path = database(
        tmp_path / "conversations" / "88888888-8888-4888-8888-888888888888.db",
        "CREATE TABLE steps(idx, step_type, status, step_payload); CREATE TABLE gen_metadata(idx, data);",
        steps=[(0, 14, 3, b"")],
        gen_metadata=[(0, b"\x0a\x06\x22\x04\x10\x0a\x18\x05")],  # 10 in, 5 out
    )
    has(yields(path, tmp_path), input=10, output=5, findings=0)


HERMES = (
    "CREATE TABLE sessions(id, source, model, parent_session_id, started_at, input_tokens, output_tokens,"
    " actual_cost_usd, cost_status);"
    "CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id, role, content, tool_calls, tool_call_id,"
    " timestamp, active, compacted);"
    "CREATE TABLE session_model_usage(session_id, task, model, input_tokens, output_tokens);"
)


def test_what_hermes_learns_later_about_a_session_is_read(tmp_path):
    path = database(
        tmp_path / "state.db", HERMES,
        sessions=[("h", "cli", "gpt-5", None, 1_780_000_000, 100, 10, None, "estimated")],
        messages=[(1, "h", "user", "go", None, None, 1_780_000_001, 1, 0)],
    )  # fmt: skip
    assert [each["at"] for each in facts(path, "Spent")] == ["2026-05-28T20:26:41Z"]
    has(yields(path, tmp_path), input=100, spends=1)
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("UPDATE sessions SET actual_cost_usd = 0.5, cost_status = 'actual'")
        made.execute("INSERT INTO session_model_usage VALUES ('h', 'title_generation', 'm', 7, 1)")
    has(yields(path, tmp_path), input=107, spends=2, cost=0.5)


def test_a_thread_of_zed_without_counts_was_last_active_when_it_was_saved(tmp_path):
    said = {"User": {"id": "u", "content": [{"Text": "go"}]}}
    thread = text({"version": "0.3.0", "messages": [said], "imported": True})
    path = database(
        tmp_path / "threads.db",
        "CREATE TABLE threads(id, summary, updated_at, data_type, data, created_at);",
        threads=[("z", "S", "2026-05-28T21:00:00Z", "json", thread, "2026-05-28T20:00:00Z")],
    )
    has(yields(path, tmp_path), first="2026-05-28T20:00:00Z", last="2026-05-28T21:00:00Z")


@pytest.mark.parametrize("status", ["cancelled", "error"])
def test_a_sample_of_a_log_that_broke_off_did_not_succeed(tmp_path, status):
    event = {"event": "sample_init", "uuid": "x", "timestamp": at(1)}
    about = {"eval_id": "e", "task": "demo", "model": "m"}
    sample = {"id": 1, "epoch": 1, "uuid": "u", "events": [event]}
    log = {"version": 2, "status": status, "eval": about, "plan": {}, "samples": [sample]}
    has(yields(document(tmp_path / "log.json", log), tmp_path), runs=1, outcomes={status})


@pytest.mark.parametrize(("kind", "asked"), [("Agent", 100), ("ACPAgent", 145)])
def test_of_openhands_only_an_acp_agent_counts_the_cache_apart(tmp_path, kind, asked):
    counts = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "cache_read_tokens": 40,
        "cache_write_tokens": 5,
    }
    used = {"default": {"model_name": "m", "accumulated_token_usage": counts}}
    id = "77777777-7777-4777-8777-777777777777"
    base = {
        "id": id,
        "agent": {"kind": kind, "llm": {"model": "m"}},
        "stats": {"usage_to_metrics": used},
    }
    said = {"id": "e", "timestamp": "2026-05-28T20:27:01", "source": "user", "kind": "MessageEvent",
            "llm_message": {"role": "user", "content": []}}  # fmt: skip
    document(tmp_path / id / "events" / "event-00000-e.json", said)
    path = document(tmp_path / id / "base_state.json", base)
    has(yields(path, tmp_path), input=asked, cached=40, written=5, output=20)
    assert [each["at"] for each in facts(path, "Spent")] == ["2026-05-28T20:27:01Z"]


def test_code_in_an_answer_of_aider_and_an_error_between_other_lines(tmp_path):
    history = """
# aider chat started at 2026-01-02 03:04:05

#### fix it

Like this:

```python
> not printed
# aider
```

> Tokens: 1k sent, 5 received.
> litellm.RateLimitError: slow down
> Retrying in 0.2 seconds...

#### more

```
never closed
> Tokens: 2k sent, 6 received.
"""
    path = document(tmp_path / ".aider.chat.history.md", history.encode())
    has(yields(path, tmp_path), prompts=2, answers=2, errors=1, input=3_000, output=11)
    [error] = (each for each in facts(path, "Noted") if each["label"] == "error")
    assert error["text"] == "litellm.RateLimitError: slow down"
    assert {each["at"] for each in facts(path, "Spent")} == {"2026-01-02T03:04:05Z"}


def test_a_message_of_langsmith_in_two_shapes_is_one(tmp_path):
    call = {"id": "c", "name": "w", "args": {}}
    human = {
        "lc": 1,
        "id": ["langchain", "HumanMessage"],
        "kwargs": {"content": [{"type": "text", "text": "go"}]},
    }
    ai = {
        "lc": 1,
        "id": ["langchain", "AIMessage"],
        "kwargs": {"content": "", "tool_calls": [call]},
    }
    asked = {"role": "assistant", "content": None,
             "tool_calls": [{"id": "c", "function": {"name": "w", "arguments": "{}"}}]}  # fmt: skip

    def run(number, messages, **outputs):
        return {"id": f"r{number}", "trace_id": "t", "dotted_order": f"{number}", "run_type": "llm",
                "name": "chat", "start_time": at(number), "session_name": "weather",
                "inputs": {"messages": messages}, "outputs": outputs}  # fmt: skip

    path = lines(
        tmp_path / "runs.jsonl",
        run(1, [human], generations=[[{"message": ai}]]),
        run(2, [{"role": "user", "content": "go"}, asked,
                {"role": "tool", "content": "sunny", "tool_call_id": "c"}], content="It is sunny"),
    )  # fmt: skip
    has(yields(path, tmp_path), runs=1, prompts=1, calls=1, open=0, answers=1, project="weather")


def test_the_counts_of_a_droid_session_have_the_time_of_its_last_record(tmp_path):
    start = {"type": "session_start", "id": "d", "owner": "me", "cwd": "/w"}
    said = {
        "type": "message",
        "id": "m",
        "timestamp": at(5),
        "message": {"role": "user", "content": "go"},
    }
    path = lines(tmp_path / "d.jsonl", start, said)
    document(
        path.with_suffix(".settings.json"), {"tokenUsage": {"inputTokens": 5, "outputTokens": 1}}
    )
    assert [each["at"] for each in facts(path, "Spent")] == [at(5)]


def test_a_source_that_an_older_mapping_read_is_read_again_and_counts_once(tmp_path):
    call = {"type": "tool", "callID": "c", "tool": "bash", "state": {"status": "completed"}}
    path = opencode(tmp_path / "opencode.db", ({"role": "assistant"}, [call]))
    newer = registry.importer("opencode")
    older = replace(newer, mapping="1")
    with Home(tmp_path / "home", durability="os") as home:
        Importing(home, [older]).bring([path])
        again = Importing(home, [newer]).bring([path])
        assert (again.lines["accepted"] > 0, again.refused) == (True, [])
        home.index.catch_up()
        assert [row["tool_calls"] for row in ask(home, "runs")] == [1]


def companions(folder):
    """The files of a folder that are read only beside another."""
    importers = registry.importers()
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [each for each in paths if recognition(importers, each, head_of(each)).companion]


@pytest.mark.parametrize("first", ["alone", "beside"])
def test_files_beside_a_source_may_come_and_go_between_two_imports(tmp_path, first):
    """What they add is a new version of what was read without them; no line is refused."""
    samples = built(SAMPLES, tmp_path / "samples")
    beside = [*beside_lines(samples), *companions(samples)]
    assert len(beside) > 10
    held = {path: path.read_bytes() for path in beside}
    with Home(tmp_path / "home", durability="os") as home:
        for there in (first == "beside", first == "alone", first == "beside"):
            for path, data in held.items():
                path.write_bytes(data) if there else path.unlink(missing_ok=True)
            importing = Importing(home)
            assert importing.bring(importing.below([samples]), again=True).refused == []


def beside_lines(folder):
    """A session of each importer that reads lines and documents beside them."""
    id = "66666666-6666-4666-8666-666666666666"
    asked = {"role": "user", "message": {"content": [{"type": "text", "text": "hi"}]}}
    said = {"sessionId": id, "uuid": "u1", "agentId": "x", "type": "user", "timestamp": at(1),
            "message": {"role": "user", "parts": [{"text": "hi"}]}}  # fmt: skip
    talk = {"type": "message", "id": "e", "parentId": None, "timestamp": at(1),
            "message": {"role": "user", "content": "hi"}}  # fmt: skip
    droid = {
        "type": "message",
        "id": "m",
        "timestamp": at(1),
        "message": {"role": "assistant", "content": "hi"},
    }
    chat = folder / "c" / "agent-transcripts" / id / f"{id}.jsonl"
    agent = folder / "q" / "subagents" / id / "agent-x.jsonl"
    fork = folder / "p" / "2_b.jsonl"
    start = folder / "d" / "d.jsonl"
    wire = folder / "k" / "session_a" / "agents" / "main" / "wire.jsonl"
    lines(chat, asked)
    lines(agent, said)
    lines(
        fork,
        {
            "type": "session",
            "id": "b",
            "timestamp": at(9),
            "cwd": "/w",
            "parentSession": "1_a.jsonl",
        },
        talk,
    )
    lines(start, {"type": "session_start", "id": "d", "owner": "me", "cwd": "/w"}, droid)
    lines(wire, {"type": "metadata", "protocol_version": "1.4", "created_at": T})
    return [
        document(chat.with_name("worker.log"), b"workspacePath=/w/p"),
        document(agent.with_suffix(".meta.json"), {"agentId": "x", "toolCallId": "c"}),
        lines(
            fork.with_name("1_a.jsonl"),
            {"type": "session", "id": "a", "timestamp": at(0), "cwd": "/w"},
        ),
        document(
            start.with_suffix(".settings.json"), {"model": "m", "tokenUsage": {"inputTokens": 1}}
        ),
        document(wire.parents[2] / "state.json", {"title": "t", "cwd": "/w", "agents": {}}),
    ]


@pytest.mark.parametrize("named", ["mark", "list", "hash", "none"])
def test_the_project_of_a_gemini_session_is_named_beside_it(tmp_path, named):
    folder, project = tmp_path / ".gemini" / "tmp" / "p-1", "/home/dev/p"
    hash = sha256(project.encode()).hexdigest()
    head = {
        "sessionId": "99999999-9999-4999-8999-999999999990",
        "projectHash": hash,
        "startTime": at(0),
    }
    path = lines(folder / "chats" / "session-2026-05-28T20-27-99999999.jsonl", head,
                 {"id": "m", "type": "user", "timestamp": at(1), "content": "hi"})  # fmt: skip
    if named == "mark":
        document(folder / ".project_root", project.encode())
    elif named != "none":
        projects = {"/other": "q", project: "p-1" if named == "list" else "x"}
        document(tmp_path / ".gemini" / "projects.json", {"projects": projects})
    has(yields(path, tmp_path), runs=1, prompts=1, project=None if named == "none" else project)


def runs_of_langsmith(traces):
    """One run on each line; those of a trace lie apart."""
    for step in range(4):
        for trace in range(traces):
            said = {"role": "assistant", "content": f"{trace}/{step} {'word ' * 1_000}"}
            yield {"id": f"{trace}/{step}", "trace_id": f"{trace}", "run_type": "llm", "name": "chat",
                   "start_time": at(step), "inputs": {}, "outputs": said}  # fmt: skip


def test_a_long_export_of_traces_is_read_with_a_trace_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("tracklog.formats.importers._reading.STEP", 1 << 14)
    monkeypatch.setattr("tracklog.formats.importers._reading.MOST", 16)

    def peak(traces):
        path = lines(tmp_path / f"{traces}.jsonl", *runs_of_langsmith(traces))
        reading = SourceReading(registry.importer("langsmith"), path)
        tracemalloc.start()
        written = sum(len(batch.lines) for batch in reading.lines())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert written > 4 * traces
        return most

    peak(10)  # what is loaded once
    assert peak(800) - peak(200) < 600 * 4 * 5_000 / 8  # an eighth of what it is longer


def test_parts_of_langsmith_runs_may_come_in_any_order(tmp_path):
    begun = {
        "id": "r",
        "trace_id": "t",
        "run_type": "tool",
        "name": "w",
        "start_time": at(1),
        "inputs": {},
    }
    path = lines(
        tmp_path / "parts.jsonl",
        {"patch": [{"id": "r", "end_time": at(2), "error": "ValueError"}]},
        {"note": "of nobody"},
        {"post": [begun]},
        {"post": [{**begun, "id": "s", "trace_id": "u"}]},
    )
    has(yields(path, tmp_path), runs=2, calls=2, failed=1)
    found = recognition(registry.importers(), path, head_of(path)).importer
    assert lines_of_file(found, path)[2].unknown == {"value": 1}


def test_a_complete_trace_between_observations_of_langfuse_is_read(tmp_path):
    seen = {
        "id": "o",
        "traceId": "t",
        "type": "TOOL",
        "name": "w",
        "startTime": at(1),
        "output": "x",
    }
    whole = {"trace": {"id": "u", "projectId": "p"}, "observations": [{**seen, "traceId": "u"}]}
    path = lines(tmp_path / "observations.jsonl", seen, whole, {**seen, "id": "o2"})
    has(yields(path, tmp_path), runs=2, calls=3)


LATER = "a field of a later version"
CLAUDE = {
    "sessionId": "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f", "cwd": "/p", "version": "2.9",
    "stage": LATER,
}  # fmt: skip  # what each record has
CLAUDE_RECORDS = [
    {**CLAUDE, "type": "user", "uuid": "u1", "message": {"role": "user", "content": "Go", "tone": LATER}},
    {**CLAUDE, "type": "assistant", "uuid": "u2", "message": {
        "id": "m", "role": "assistant", "stop_sequence": None, "container": LATER,
        "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}, "caller": LATER}]}},
    {**CLAUDE, "type": "user", "uuid": "u3", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": "x", "source": LATER}]}},
]  # fmt: skip
CODEX_RECORDS = [
    {"type": "session_meta", "payload": {
        "id": "019982b8-3422-79e0-8b3b-05abaf4f3c3e", "cwd": "/p", "plan": LATER}},
    {"type": "response_item", "sandbox": LATER, "payload": {
        "type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]}},
    {"type": "response_item", "payload": {
        "type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}", "reason": LATER}},
    {"type": "event_msg", "payload": {
        "type": "exec_command_end", "call_id": "c", "exit_code": 1, "aggregated_output": "x",
        "stderr": LATER}},
    {"type": "event_msg", "payload": {"type": "task_complete", "last_agent_message": LATER}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "records", "fields"),
    [
        ("claude", CLAUDE_RECORDS, ("stage", "tone", "stage", "container", "caller", "stage", "source")),
        ("codex", CODEX_RECORDS, ("plan", "sandbox", "reason", "stderr", "last_agent_message")),
    ],
)  # fmt: skip
def test_the_fields_of_a_later_version_are_stored_beside_their_fact(
    tmp_path, name, records, fields
):
    path = tmp_path / "rollout-2026-05-05T09-00-00-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl"
    lines(path, *({**each, "timestamp": at(n)} for n, each in enumerate(records)))
    found, _, report = lines_of_file(registry.importer(name), path)
    kept = [
        key
        for line in found
        for key, value in _leaves(orjson.loads(line).get("extra"))
        if value == LATER
    ]
    assert (kept, report.unknown.total()) == (list(fields), 0)


def _leaves(value, key=None):
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, name)
    else:
        yield key, value
