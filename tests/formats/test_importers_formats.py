"""What other programs leave: Gemini, Copilot, OpenAI, Anthropic, ATIF, AG-UI and CloudEvents."""

import json
from collections import Counter
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.asking import ask
from tracklog.answers.tree import tree as tree_of
from tracklog.dialects.checking import checker
from tracklog.formats import registry as formats
from tracklog.formats.export import export, export_run_of
from tracklog.formats.importers import SourceReading, run_id
from tracklog.formats.importing import Importing
from tracklog.home import registry
from tracklog.home.home import Home

SAMPLES = Path(__file__).parents[1] / "samples" / "importers"
FILES = {
    "gemini document": SAMPLES / "gemini" / "session-2025-10-29T10-36-453aa339.json",
    "gemini lines": SAMPLES / "gemini" / "session_jsonl_v040.jsonl",
    "copilot": next((SAMPLES / "copilot").glob("session-state/*/events.jsonl")),
    "copilot drift": SAMPLES / "copilot" / "schema_drift.jsonl",
    "openai exchange": SAMPLES / "openai" / "chat_completions_tool.exchange.json",
    "openai stream": SAMPLES / "openai" / "responses_tool_use.stream.jsonl",
    "anthropic stream": SAMPLES / "anthropic" / "messages_tool_use.stream.jsonl",
    "atif": SAMPLES / "atif" / "harbor_multiagent_v1_7.json",
    "agui": SAMPLES / "agui" / "forward-compatibility.json",
}
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
LINES = [name for name, path in FILES.items() if path.suffix == ".jsonl"]


def importer_of(path):
    return formats.importer(path.relative_to(SAMPLES).parts[0])


def told(path, importer=None, **options):
    """What a file tells: bodies, and the report."""
    reading = SourceReading(importer or importer_of(path), path)
    bodies = [orjson.loads(line) for batch in reading.lines(**options) for line in batch.lines]
    return bodies, reading.report


def of(bodies, fact, **fields):
    return [
        body
        for body in bodies
        if body["fact"] == fact and all(body.get(key) == value for key, value in fields.items())
    ]


def spent(bodies):
    total = Counter()
    for body in of(bodies, "Spent"):
        total.update({k: v for k, v in body.get("usage", {}).items() if k != "raw"})
    return total


def write(tmp_path, name, *objects, text=None):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if text is not None else b"".join(dump(each) for each in objects))
    return path


def dump(value) -> bytes:
    return orjson.dumps(value) + b"\n"


@pytest.fixture
def brought(tmp_path):
    """Imports files into a new home: (home, summary)."""
    homes = []

    def bring(*paths):
        home = Home(tmp_path / "home", durability="os")
        homes.append(home)
        summary = Importing(home).bring(list(paths))
        home.index.catch_up()
        return home, summary

    yield bring
    for home in homes:
        home.close()


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_line_of_every_sample_passes_the_intake(name):
    check = checker(registry.dialect("tracklog"))
    reading = SourceReading(importer_of(FILES[name]), FILES[name])
    for batch in reading.lines():
        for line in batch.lines:
            assert not hasattr(check(line), "problems"), check(line)
    assert not reading.report.unknown


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_sample_is_recognised_and_importing_it_twice_changes_nothing(name, tmp_path, brought):
    home, first = brought(FILES[name])
    assert first.lines["accepted"] > 0
    assert first.lines["refused"] == 0
    last = home.journal.last
    again = Importing(home).bring([FILES[name]], again=True)
    assert set(again.lines) == {"duplicate"}
    assert home.journal.last == last


def test_a_gemini_document_yields_its_numbers():
    bodies, _ = told(FILES["gemini document"])
    assert len(of(bodies, "Said", role="user")) == 1
    assert len(of(bodies, "Said", role="assistant")) == 4
    assert len(of(bodies, "Called")) == len(of(bodies, "Returned", ok=True)) == 3
    tokens = spent(bodies)
    assert (tokens["input_tokens"], tokens["cached_tokens"]) == (21_694, 4_029)
    assert (tokens["output_tokens"], tokens["reasoning_tokens"]) == (563, 486)
    assert {body["run"] for body in bodies} == {"453aa339-7d2b-4709-a41a-b0b73beaff85"}


def test_gemini_lines_yield_their_numbers():
    bodies, report = told(FILES["gemini lines"])
    assert len(of(bodies, "Said", role="user")) == 1
    assert report.mapped["gemini"] == 2
    assert len(of(bodies, "Called")) == len(of(bodies, "Returned")) == 1
    tokens = spent(bodies)
    assert (tokens["input_tokens"], tokens["output_tokens"]) == (23_924, 228)
    [alias] = of(bodies, "Linked", kind="alias")
    assert alias["alias"] == "gemini_stage0_jsonl"


def gemini(id, **more):
    return {"id": id, "timestamp": "2026-05-05T09:00:00.000Z", "type": "gemini", **more}


SESSION = {"sessionId": "s-1", "projectHash": "h", "startTime": "2026-05-05T08:59:00.000Z"}


def test_a_gemini_message_that_is_written_twice_is_recorded_once(tmp_path):
    call = {"id": "c", "name": "ls", "args": {}, "status": "executing"}
    done = {**call, "status": "success", "result": [answer("c", {"output": "a"})]}
    tokens = {"input": 10, "output": 2, "total": 12}
    path = write(
        tmp_path,
        "session-x.jsonl",
        SESSION,
        gemini("m", content="", toolCalls=[call], tokens=tokens),
        gemini("m", content="Done.", toolCalls=[done], tokens={**tokens, "output": 5}),
    )
    bodies, _ = told(path, formats.importer("gemini"))
    assert len(of(bodies, "Called")) == 1
    assert [body["output"] for body in of(bodies, "Returned")] == ["a"]
    assert len(of(bodies, "Said")) == 1
    assert {body["key"] for body in of(bodies, "Spent")} == {"m"}


def answer(id, response):
    return {"functionResponse": {"id": id, "name": "ls", "response": response}}


def test_a_gemini_document_that_became_lines_is_the_same_conversation(tmp_path, brought):
    messages = [gemini("m1", content="One."), gemini("m2", content="Two.")]
    document = {**SESSION, "lastUpdated": "2026-05-05T09:00:00.000Z", "messages": messages}
    old = write(tmp_path, "session-a.json", text=orjson.dumps(document, option=orjson.OPT_INDENT_2))
    new = write(tmp_path, "session-b.jsonl", SESSION, *messages, gemini("m3", content="Three."))
    _, first = brought(old)
    home, second = brought(new)
    assert second.lines["duplicate"] == first.lines["accepted"]
    assert second.lines["accepted"] == 1
    assert second.lines["refused"] == 0
    assert len(home.runs()) == 1


def test_gemini_rewinds_and_checkpoints_withdraw_and_keep(tmp_path):
    path = write(
        tmp_path,
        "session-x.jsonl",
        SESSION,
        gemini("m1", content="One."),
        gemini("m2", content="Two."),
        gemini("m3", content="Three."),
        {"$rewindTo": "m2"},
        gemini("m4", content="Four."),
        {"$set": {"messages": [gemini("m1", content="One.")], "summary": "A talk"}},
        {"$rewindTo": "nobody"},
    )
    bodies, _ = told(path, formats.importer("gemini"))
    withdrawn = of(bodies, "Noted", label="withdrawn")
    assert [body["data"]["from"] for body in withdrawn] == ["m2", "m4", "m1"]
    assert len(of(bodies, "Said")) == 4
    assert [body["text"] for body in of(bodies, "Noted", label="title")] == ["A talk"]


def test_a_cancelled_gemini_call_is_neither_way_and_one_without_result_dangles(tmp_path):
    calls = [
        {"id": "c1", "name": "ls", "args": {}, "status": "cancelled",
         "result": [answer("c1", {"error": "stopped"})]},
        {"id": "c2", "name": "ls", "args": {}, "status": "executing"},
        {"id": "c3", "name": "ls", "args": {}, "status": "error",
         "result": [answer("c3", {"error": "no"})]},
    ]  # fmt: skip
    path = write(tmp_path, "session-x.jsonl", SESSION, gemini("m", content="", toolCalls=calls))
    bodies, _ = told(path, formats.importer("gemini"))
    assert [body["call_id"] for body in of(bodies, "Called")] == ["c1", "c2", "c3"]
    assert [body.get("ok") for body in of(bodies, "Returned")] == [None, False]


def test_a_gemini_sub_agent_is_linked_by_its_folder(tmp_path):
    path = write(tmp_path, "chats/parent-1/s-1.jsonl", {**SESSION, "kind": "subagent"})
    bodies, _ = told(path, formats.importer("gemini"))
    [link] = of(bodies, "Linked", kind="sub-run")
    assert link["parent"] == run_id("gemini", "parent-1")


def test_a_gemini_message_alone_is_a_run_of_one_message(tmp_path):
    path = write(tmp_path, "excerpt.json", text=orjson.dumps(gemini("m", content="One.")))
    bodies, _ = told(path, formats.importer("gemini"))
    assert [body["fact"] for body in bodies] == ["Said"]
    assert bodies[0]["run"] == run_id("gemini", "m")


def test_copilot_without_a_shutdown_yields_a_lower_bound(brought):
    bodies, _ = told(FILES["copilot"])
    assert len(of(bodies, "Said", role="user")) == 1
    assert len(of(bodies, "Called")) == len(of(bodies, "Returned", ok=True)) == 1
    assert of(bodies, "Returned")[0]["seconds"] == pytest.approx(0.1)
    assert {body["bound"] for body in of(bodies, "Spent")} == {"lower"}
    assert of(bodies, "Began", what="run")[0]["git"]["branch"] == "main"
    home, _ = brought(FILES["copilot"])
    [row] = ask(home, "costs", by="all")
    assert (row["output_tokens"], row["lower_bound"]) == (26, True)


def test_copilot_drift_joins_the_call_once_and_counts_the_shutdown(brought):
    bodies, _ = told(FILES["copilot drift"])
    assert [body["call_id"] for body in of(bodies, "Called")] == ["call_1"]
    assert [(body["call_id"], body["ok"]) for body in of(bodies, "Returned")] == [
        ("call_1", True),
        ("call_2", False),
    ]
    home, _ = brought(FILES["copilot drift"])
    [row] = ask(home, "costs", by="all")
    assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == (1000, 800, 50)
    assert row["lower_bound"] is False


def event(kind, id, **data):
    return {"type": kind, "data": data, "id": id, "timestamp": "2026-05-05T09:00:00.000Z"}


def test_copilot_messages_are_not_added_to_the_totals_of_their_segment(tmp_path, brought):
    metrics = {"m": {"requests": 3, "usage": {"inputTokens": 100, "outputTokens": 30}}}
    path = write(
        tmp_path,
        "session-state/s-1/events.jsonl",
        event("session.start", "e1", sessionId="s-1"),
        event("assistant.message", "e2", messageId="m1", content="a", outputTokens=10),
        event("session.shutdown", "e3", shutdownType="routine", modelMetrics=metrics),
        event("session.resume", "e4"),
        event("assistant.message", "e5", messageId="m2", content="b", outputTokens=7),
    )
    home, _ = brought(path)
    [row] = ask(home, "costs", by="all")
    assert (row["input_tokens"], row["output_tokens"], row["lower_bound"]) == (100, 37, True)


def test_copilot_sub_agents_are_runs_of_their_own_in_one_tree(tmp_path, brought):
    sub = {"toolCallId": "t1", "agentName": "explore"}
    path = write(
        tmp_path,
        "session-state/s-1/events.jsonl",
        event("session.start", "e1", sessionId="s-1"),
        event("subagent.started", "e2", **sub),
        event("tool.execution_start", "e3", toolCallId="t2", toolName="ls", parentToolCallId="t1"),
        event("subagent.completed", "e4", **sub, durationMs=1500, totalTokens=9),
    )
    bodies, _ = told(path, formats.importer("copilot"))
    child = run_id("copilot", run_id("copilot", "s-1"), "t1")
    assert [body["run"] for body in of(bodies, "Called")] == [child]
    assert [body["seconds"] for body in of(bodies, "Ended", run=child)] == [1.5]
    home, _ = brought(path)
    tree = tree_of(home, run=f"tracklog:{run_id('copilot', 's-1')}")
    assert [branch.key.partition(":")[2] for branch in tree][1:] == [child]


def test_chunks_of_a_copilot_message_are_one_message(tmp_path):
    chunks = [
        event("assistant.message", f"e{n}", messageId="m", content=text, chunkIndex=n, chunkCount=2)
        for n, text in enumerate(["Hel", "lo"])
    ]
    begin = event("session.start", "e", sessionId="s")
    whole, _ = told(write(tmp_path, "a.jsonl", begin, *chunks), formats.importer("copilot"))
    assert [body["blocks"][0]["text"] for body in of(whole, "Said")] == ["Hello"]
    part, _ = told(write(tmp_path, "b.jsonl", begin, chunks[0]), formats.importer("copilot"))
    assert [body["blocks"][0]["text"] for body in of(part, "Said")] == ["Hel"]
    assert not {body["id"] for body in of(part, "Said")} & {
        body["id"] for body in of(whole, "Said")
    }


def test_conversations_are_found_in_their_usual_places(tmp_path):
    def there(path):
        return write(tmp_path, path, text=b"{}\n")

    both = there(".copilot/session-state/s-1/events.jsonl")
    there(".copilot/session-state/s-1.jsonl")  # of both layouts the folder wins
    alone = there(".copilot/session-state/s-2.jsonl")
    older = there(".copilot/history-session-state/s-3.jsonl")
    found = list(formats.importer("copilot").find(tmp_path, {}))
    assert sorted(found) == sorted([both, alone, older])
    moved = there("elsewhere/session-state/s-4/events.jsonl")
    elsewhere = {"COPILOT_HOME": str(tmp_path / "elsewhere")}
    assert list(formats.importer("copilot").find(tmp_path, elsewhere)) == [moved]
    chats = ".gemini/tmp/abc/chats"
    chat = there(f"{chats}/session-2026-05-05T09-00-abcdef01.jsonl")
    sub = there(f"{chats}/parent/child.jsonl")
    aside = there(f"{chats}/session-x.json.unreadable-1770000000000")
    assert set(formats.importer("gemini").find(tmp_path, {})) == {chat, sub, aside}


def test_an_openai_exchange_yields_its_numbers():
    bodies, _ = told(FILES["openai exchange"])
    assert [body["call_id"] for body in of(bodies, "Called")] == ["1"]
    assert [body["call_id"] for body in of(bodies, "Returned")] == ["1"]
    [said] = of(bodies, "Said")
    assert said["blocks"][0]["text"].startswith("The current weather")
    tokens = spent(bodies)
    assert (tokens["input_tokens"], tokens["output_tokens"]) == (40, 13)


def test_an_openai_stream_yields_its_numbers():
    bodies, _ = told(FILES["openai stream"])
    [thought] = of(bodies, "Said", role="assistant")
    assert [block["type"] for block in thought["blocks"]] == ["thinking"]
    assert "thinking" not in thought["blocks"][0]
    assert [body["tool"] for body in of(bodies, "Called")] == ["weather"]
    tokens = spent(bodies)
    assert (tokens["input_tokens"], tokens["output_tokens"]) == (102, 108)
    assert tokens["reasoning_tokens"] == 64
    assert not any("at" in body for body in bodies)


def test_an_anthropic_stream_yields_its_numbers():
    bodies, _ = told(FILES["anthropic stream"])
    [said] = of(bodies, "Said")
    assert said["blocks"][0]["signature"]
    assert [body["input"] for body in of(bodies, "Called")] == [{"city": "Paris"}]
    tokens = spent(bodies)
    assert (tokens["input_tokens"], tokens["output_tokens"]) == (626, 85)


def chat(id, messages, reply, **more):
    choice = {"index": 0, "message": {"role": "assistant", "content": reply, "refusal": None}}
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    response = {"id": id, "object": "chat.completion", "created": 1_770_000_000, "model": "m"}
    response |= {"choices": [choice], "usage": usage, **more}
    return {"request": {"model": "m", "messages": messages}, "response": response}


def test_of_a_request_only_new_messages_are_recorded(tmp_path):
    first = [{"role": "system", "content": "be good"}, {"role": "user", "content": "one?"}]
    second = [
        *first,
        {"role": "assistant", "content": "one!"},
        {"role": "user", "content": [{"type": "text", "text": "two?"}]},
    ]
    other = [{"role": "user", "content": "another talk"}]
    path = write(
        tmp_path,
        "log.jsonl",
        chat("c1", first, "one!"),
        chat("c2", second, "two!"),
        chat("c3", other, "yes"),
    )
    bodies, _ = told(path, formats.importer("openai"))
    said = [(body["run"], body["role"], body["blocks"][0]["text"]) for body in of(bodies, "Said")]
    run, another = run_id("openai", "c1"), run_id("openai", "c3")
    assert said == [
        (run, "system", "be good"),
        (run, "user", "one?"),
        (run, "assistant", "one!"),
        (run, "user", "two?"),
        (run, "assistant", "two!"),
        (another, "user", "another talk"),
        (another, "assistant", "yes"),
    ]
    assert [body["key"] for body in of(bodies, "Spent")] == ["c1", "c2", "c3"]


def response(id, text, previous=None, **more):
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]}
    item["content"][0]["text"] = text
    body = {"id": id, "object": "response", "status": "completed", "model": "m", "created_at": 0}
    return {**body, "output": [item], "previous_response_id": previous, **more}


def test_responses_are_one_run_by_the_one_before_them(tmp_path):
    path = write(
        tmp_path,
        "log.jsonl",
        {"request": {"input": "one?"}, "response": response("resp_1", "one!")},
        {
            "request": {"input": "two?", "previous_response_id": "resp_1"},
            "response": response("resp_2", "two!", "resp_1"),
        },
        {"request": {"input": "x?"}, "response": response("resp_3", "x!", conversation="conv_1")},
    )
    bodies, _ = told(path, formats.importer("openai"))
    runs = [body["run"] for body in of(bodies, "Said", role="assistant")]
    assert runs == [run_id("openai", "resp_1")] * 2 + [run_id("openai", "conv_1")]
    assert of(bodies, "Said", message_id="resp_2")[0]["cause"] == "resp_1"
    assert not any("at" in body for body in bodies)


def test_a_failed_response_is_an_error(tmp_path):
    failed = response("resp_1", "", status="failed", error={"message": "quota"})
    bodies, _ = told(write(tmp_path, "a.json", failed), formats.importer("openai"))
    assert [body["text"] for body in of(bodies, "Noted", label="error")] == ["quota"]


def test_streams_of_events_are_read_as_sse_too(tmp_path):
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1_770_000_000}
    chunks = [
        {**chunk, "choices": [{"index": 0, "delta": {"content": "Hel"}}]},
        {**chunk, "choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
    ]
    text = b"".join(b"data: " + orjson.dumps(each) + b"\n\n" for each in chunks)
    path = write(tmp_path, "a.sse", text=text + b"data: [DONE]\n\n")
    bodies, _ = told(path, formats.importer("openai"))
    assert [body["blocks"][0]["text"] for body in of(bodies, "Said")] == ["Hello"]
    assert not of(bodies, "Spent")
    events = FILES["anthropic stream"].read_bytes().splitlines()
    framed = b"".join(b"event: x\ndata: " + line + b"\n\n" for line in events)
    bodies, _ = told(write(tmp_path, "b.sse", text=framed), formats.importer("anthropic"))
    assert spent(bodies)["output_tokens"] == 85


def test_an_anthropic_exchange_goes_on_with_its_conversation(tmp_path):
    def exchange(id, messages, *content):
        message = {"id": id, "type": "message", "role": "assistant", "content": list(content)}
        message["usage"] = {"input_tokens": 3, "output_tokens": 2}
        return {"request": {"system": "be good", "messages": messages}, "response": message}

    use = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
    ask = {"role": "user", "content": "list"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a b"}
    path = write(
        tmp_path,
        "log.jsonl",
        exchange("msg_1", [ask], use),
        exchange(
            "msg_2",
            [ask, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}],
            {"type": "text", "text": "a and b"},
        ),
    )
    bodies, _ = told(path, formats.importer("anthropic"))
    assert {body["run"] for body in bodies} == {run_id("anthropic", "msg_1")}
    assert [body["role"] for body in of(bodies, "Said")] == ["system", "user", "assistant"]
    assert len(of(bodies, "Called")) == 1
    assert [body["output"] for body in of(bodies, "Returned")] == ["a b"]


def test_a_response_that_the_next_request_repeats_is_recorded_once(tmp_path):
    ask = {"role": "user", "content": "Paris?"}
    answer = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "…", "signature": "x"},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}},
        ],
    }
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain"}
    first = {"request": {"messages": [ask]}, "response": {**answer, "type": "message", "id": "m1"}}
    reply = {"id": "m2", "type": "message", "content": [{"type": "text", "text": "Rain."}]}
    messages = [ask, answer, {"role": "user", "content": [result]}]
    second = {"request": {"messages": messages}, "response": reply}
    path = write(tmp_path, "log.jsonl", first, second)
    bodies, _ = told(path, formats.importer("anthropic"))
    assert len(of(bodies, "Called")) == len(of(bodies, "Returned")) == 1
    assert {body["run"] for body in bodies} == {run_id("anthropic", "m1")}


def test_an_error_body_is_an_error(tmp_path):
    wrong = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    for name in ("anthropic", "openai"):
        bodies, _ = told(write(tmp_path, f"{name}.json", wrong), formats.importer(name))
        assert [body["text"] for body in of(bodies, "Noted", label="error")] == ["Overloaded"]


def test_atif_yields_its_numbers_and_its_child(brought):
    bodies, report = told(FILES["atif"])
    assert report.mapped == {"trajectory": 2, "step": 5}
    root, child = run_id("atif", "traj_root_golden"), run_id("atif", "traj_child_golden")
    assert len([body for body in of(bodies, "Said") if body["run"] == root]) == 3
    assert len([body for body in of(bodies, "Said") if body["run"] == child]) == 2
    [down] = of(bodies, "Linked", kind="sub-run", run=root)
    assert (down["child"], down["call_id"]) == (child, "call_worker")
    tokens = spent(bodies)
    assert (tokens["input_tokens"], tokens["output_tokens"]) == (250, 50)
    assert not of(bodies, "Noted", label="finding")
    home, _ = brought(FILES["atif"])
    shown = ask(home, "show", run=f"tracklog:{root}", now="2026-07-12T13:00:00.000Z")
    assert shown["cost_with_sub_runs"]["input_tokens"] == 250


def test_atif_totals_that_differ_are_a_finding_and_times_are_taken_from_the_step_before(tmp_path):
    trajectory = {
        "schema_version": "ATIF-v1.5",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "q", "timestamp": "2026-05-05T09:00:00Z"},
            {
                "step_id": 2,
                "source": "agent",
                "message": "a",
                "is_copied_context": True,
                "metrics": {"prompt_tokens": 5, "completion_tokens": 1, "cost_usd": 0.5},
                "future": 1,
            },
            {
                "step_id": 3,
                "source": "system",
                "message": "",
                "extra": {"context_management": {"type": "compaction", "boundary": "replace"}},
            },
        ],
        "final_metrics": {"total_prompt_tokens": 99},
    }
    path = write(tmp_path, "t.json", text=orjson.dumps(trajectory))
    bodies, _ = told(path, formats.importer("atif"))
    [finding] = of(bodies, "Noted", label="finding")
    assert finding["data"]["name"] == "totals-differ"
    [copied] = of(bodies, "Said", step="2")
    assert copied["at"] == "2026-05-05T09:00:00Z"
    assert copied["origin"]["clock"] == "previous"
    assert copied["copied"] is True
    assert copied["extra"] == {"future": 1}
    assert of(bodies, "Spent")[0]["copied"] is True
    assert [body["data"]["trigger"] for body in of(bodies, "Noted", label="compaction")] == [
        "compaction"
    ]


def test_agui_keeps_every_event_and_its_unknown_fields():
    bodies, report = told(FILES["agui"])
    assert sum(report.mapped.values()) == 11
    text = json.dumps(bodies)
    source = json.loads(FILES["agui"].read_text())
    for each in source:
        for key in each:
            if key.startswith(("future", "another", "extra", "unknown", "additional")):
                assert key in text, key


def test_agui_deltas_become_complete_messages_and_calls(tmp_path):
    def agui(type, **fields):
        return {"type": type, "timestamp": 1_770_000_000_000, **fields}

    asked = {"id": "i1", "reason": "approval", "message": "May I?", "toolCallId": "t1"}
    path = write(
        tmp_path,
        "run.jsonl",
        agui("RUN_STARTED", threadId="th", runId="r1", parentRunId="r0"),
        agui("REASONING_MESSAGE_START", messageId="x", role="reasoning"),
        agui("REASONING_MESSAGE_CONTENT", messageId="x", delta="hm"),
        agui("REASONING_MESSAGE_END", messageId="x"),
        agui("TEXT_MESSAGE_START", messageId="m1", role="assistant"),
        agui("TEXT_MESSAGE_CONTENT", messageId="m1", delta="Hel"),
        agui("TEXT_MESSAGE_CONTENT", messageId="m1", delta="lo"),
        agui("TEXT_MESSAGE_END", messageId="m1"),
        agui("TOOL_CALL_START", toolCallId="t1", toolCallName="ls"),
        agui("TOOL_CALL_ARGS", toolCallId="t1", delta='{"a"'),
        agui("TOOL_CALL_ARGS", toolCallId="t1", delta=": 1}"),
        agui("TOOL_CALL_END", toolCallId="t1"),
        agui("TOOL_CALL_RESULT", messageId="m2", toolCallId="t1", content="x"),
        agui("TEXT_MESSAGE_CHUNK", messageId="m3", delta="By"),
        agui("TEXT_MESSAGE_CHUNK", delta="e"),
        agui(
            "MESSAGES_SNAPSHOT",
            messages=[
                {"id": "m0", "role": "user", "content": "hello?"},
                {"id": "m1", "role": "assistant", "content": "Hello"},
            ],
        ),
        agui(
            "RUN_FINISHED", threadId="th", runId="r1",
            outcome={"type": "interrupt", "interrupts": [asked]},
            usage=[{"model": "m", "inputTokens": 9, "outputTokens": 3}],
        ),
        agui("RUN_STARTED", threadId="th", runId="r2",
             input={"resume": [{"interruptId": "i1", "payload": True}]}),
        agui("RUN_FINISHED", threadId="th", runId="r2", outcome={"type": "success"}),
    )  # fmt: skip
    bodies, report = told(path, formats.importer("agui"))
    assert not report.unknown
    words = [
        next(iter(block[key] for key in ("text", "thinking") if key in block))
        for body in of(bodies, "Said")
        for block in body["blocks"]
    ]
    assert words == ["hm", "Hello", "Bye", "hello?"]
    assert [body["input"] for body in of(bodies, "Called")] == [{"a": 1}]
    run = run_id("agui", "r1")
    assert [(body["question_id"], body["run"]) for body in of(bodies, "Asked")] == [("i1", run)]
    assert [(body["answer"], body["run"]) for body in of(bodies, "Answered")] == [(True, run)]
    assert [body["key"] for body in of(bodies, "Spent")] == ["r1"]
    assert [body["parent"] for body in of(bodies, "Linked", kind="branch")] == [
        run_id("agui", "r0")
    ]
    assert [body["passed"] for body in of(bodies, "Ended")] == [True]


def test_cloudevents_of_ours_are_unwrapped_to_the_very_line(tmp_path, brought):
    line = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"agent_run_start",'
    line += b'"agent_id":"a","task":"t","big":12345678901234567890123}'
    wrapped = b'{"specversion":"1.0","id":"1","source":"/x","type":"dev.tracklog.kahn-agent.x",'
    wrapped += b'"data":' + line + b"}\n"
    home, summary = brought(write(tmp_path, "events.jsonl", text=wrapped))
    assert summary.lines == {"accepted": 1}
    [record, note] = home.journal.read(0, 10)
    assert (record.dialect, record.line) == ("kahn-agent", line)
    assert orjson.loads(note.line)["label"] == "imported"


def test_cloudevents_of_others_are_noted_once_by_source_and_id(tmp_path, brought):
    other = {
        "specversion": "1.0",
        "id": "7",
        "source": "https://example.com/agent",
        "type": "com.example.done",
        "subject": "job-1",
        "time": "2026-05-05T09:00:00Z",
        "data": {"a": 1},
        "traceparent": "00-x",
    }
    binary = {**other, "id": "8", "datacontenttype": "image/png", "data_base64": "aGVsbG8="}
    del binary["data"]
    batch = write(tmp_path, "batch.json", text=orjson.dumps([other, binary]))
    one = write(tmp_path, "one.json", text=orjson.dumps({**other, "hop": "added on the way"}))
    home, summary = brought(batch)
    assert summary.lines["refused"] == 0
    bodies, _ = told(batch, formats.importer("cloudevents"))
    first, second = of(bodies, "Noted")
    assert (first["kind"], first["data"]) == ("com.example.done", {"a": 1})
    assert first["origin"]["record"] == "https://example.com/agent 7"
    assert first["extra"]["traceparent"] == "00-x"
    assert second["data"]["$blob"]["bytes"] == 5
    assert home.blobs.get(second["data"]["$blob"]["sha256"]) == b"hello"
    again, _ = told(one, formats.importer("cloudevents"))
    assert of(again, "Noted")[0]["id"] == first["id"]


@pytest.mark.parametrize("name", ["copilot drift", "gemini lines"])
@pytest.mark.parametrize(
    ("format", "suffix"), [("agui", "sse"), ("atif", "json"), ("cloudevents", "json")]
)
def test_what_we_export_comes_in_again_as_the_same_run(name, format, suffix, tmp_path, brought):
    home, _ = brought(FILES[name])
    [run] = home.runs()
    path = tmp_path / f"out.{suffix}"
    path.write_bytes(b"".join(export(export_run_of(home, run), format)))
    before = ask(home, "costs", by="all"), ask(home, "tools")
    with Home(tmp_path / "other", durability="os") as other:
        assert Importing(other).bring([path]).lines["refused"] == 0
        other.index.catch_up()
        assert other.runs() == {run}
        after = ask(other, "costs", by="all"), ask(other, "tools")
    tokens = ("input_tokens", "output_tokens", "cached_tokens")
    assert [after[0][0][key] for key in tokens] == [before[0][0][key] for key in tokens]
    # A result without its call has no place in a trajectory.
    named = [
        [(row["tool"], row["calls"]) for row in rows if row["tool"]]
        for rows in (before[1], after[1])
    ]
    assert named[0] == named[1]


@st.composite
def damaged(draw, name):
    """A sample with its lines shuffled, its end cut off and bytes flipped."""
    content = FILES[name].read_bytes()
    if draw(st.booleans()):
        content = b"\n".join(draw(st.permutations(content.split(b"\n"))))
    content = bytearray(content[: draw(st.integers(0, len(content)))])
    for place in draw(st.lists(st.integers(0, max(0, len(content) - 1)), max_size=6)):
        if content:
            content[place] = draw(st.integers(0, 255))
    return bytes(content)


@pytest.mark.parametrize("name", sorted(FILES))
@settings(max_examples=25, suppress_health_check=SLOW)
@given(data=st.data())
def test_damage_never_raises_and_loses_no_record_that_can_be_read(name, tmp_path, data):
    content = data.draw(damaged(name))
    path = tmp_path / FILES[name].relative_to(SAMPLES)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    check = checker(registry.dialect("tracklog"))
    importer = importer_of(FILES[name])
    reading = SourceReading(importer, path)
    lines = [line for batch in reading.lines() for line in batch.lines]
    for line in lines:
        assert not hasattr(check(line), "problems"), check(line)
    if name in LINES and importer.form(path, content) == "lines":
        readable = sum(is_object(line) for line in content.split(b"\n"))
        assert reading.report.records() >= readable
    again = SourceReading(importer, path)
    assert [line for batch in again.lines() for line in batch.lines] == lines


@pytest.mark.parametrize(
    ("name", "records"),
    [("gemini document", "messages"), ("atif", "steps"), ("agui", None)],
)
def test_of_a_document_that_was_cut_every_complete_record_is_read(name, records, tmp_path):
    content = FILES[name].read_bytes()
    path = tmp_path / FILES[name].relative_to(SAMPLES)
    path.parent.mkdir(parents=True, exist_ok=True)
    source = json.loads(content)
    whole = source[records] if records else source
    text = content.decode()
    for count in range(1, len(whole)):
        # The place behind so many whole records and into the next one.
        end = json.JSONDecoder()
        start = text.index("[", text.index(f'"{records}"') if records else 0) + 1
        for _ in range(count):
            while text[start] in " \n,":
                start += 1
            _, start = end.raw_decode(text, start)
        prefix = len(text[: start + 12].encode())
        path.write_bytes(content[:prefix])
        bodies, report = told(path, importer_of(FILES[name]))
        heard = sum(report.mapped.values()) - (1 if records else 0)
        assert heard == count
        assert [body["data"]["name"] for body in of(bodies, "Noted", label="finding")] == [
            "torn-tail"
        ]


def is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


@pytest.mark.parametrize("name", LINES)
@settings(max_examples=15, suppress_health_check=SLOW)
@given(data=st.data())
def test_reading_a_file_in_two_parts_gives_the_same_as_in_one(name, tmp_path, data):
    content = FILES[name].read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    importer = importer_of(FILES[name])
    path = tmp_path / FILES[name].relative_to(SAMPLES)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    whole = [line for batch in SourceReading(importer, path).lines() for line in batch.lines]
    path.write_bytes(content[:cut])
    batches = list(SourceReading(importer, path).lines(final=False))
    path.write_bytes(content)
    batches += SourceReading(importer, path).lines(batches[-1].place)
    assert [line for batch in batches for line in batch.lines] == whole
