"""What real programs send over OpenTelemetry is counted right, in whatever order it arrives."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.asking import ask
from support.made_traces import TraceMaker
from support.telemetry import Door, logs, pairs, span, traces

RECORDED = Path(__file__).parents[1] / "samples/otlp/recorded"


@dataclass(frozen=True)
class Expected:
    """The numbers of the one run that a recording holds, as the model server and the tools counted."""

    calls: int
    failures: int
    spends: int
    tokens: tuple[int, int, int | None] | None
    """Input, output, and the cached part of the input."""
    agents: tuple[str, ...]
    status: str = "done"
    passed: bool | None = True
    cost: float | None = None
    runs: int = 1


EXPECTED = {
    "langchain": Expected(2, 1, 3, (360, 90, 120), ("forecaster",)),
    "llama-index": Expected(2, 1, 3, (360, 90, 120), ("trip",)),
    "crewai": Expected(2, 1, 3, (360, 90, 120), ("forecaster", "trip")),
    "openai-agents": Expected(2, 1, 3, (360, 90, 120), ("Agent workflow", "boss", "helper")),
    "openai-agents-failed": Expected(
        0, 0, 0, None, ("Agent workflow", "helper"), "failed", passed=False
    ),
    # Its own tool `final_answer` is one of the calls.
    "smolagents": Expected(3, 1, 3, (360, 90, None), ("forecaster",)),
    "smolagents-max-steps": Expected(
        3, 1, 4, (480, 120, None), ("forecaster",), "failed", passed=False
    ),
    "pydantic-ai": Expected(2, 1, 3, (360, 90, 120), ("forecaster",), passed=None),
    # A debug record about the program's own metrics, without a conversation, begins no run.
    "codex": Expected(2, 1, 3, (360, 90, 120), ("codex_exec",), "working", None),
    "claude-code": Expected(
        2, 1, 3, (360, 90, 120), ("claude-code",), "working", None, cost=0.002106
    ),
    "claude-code-withheld": Expected(
        2, 1, 3, (360, 90, 120), ("claude-code",), "working", None, cost=0.002106
    ),
    "gemini-cli": Expected(2, 1, 3, (360, 90, 120), ("gemini-cli",), passed=None),
    "copilot-cli": Expected(2, 1, 3, (360, 90, 120), ("github-copilot",), passed=None),
    # A proxy sees the result of a tool as a text, and not whether the tool failed.
    "litellm": Expected(2, 0, 3, (360, 90, 120), ("trip",), passed=None, cost=0.000099),
    # The span of its web server has no status, only the code of the answer.
    "litellm-refused": Expected(0, 0, 0, None, ("trip",), "failed", passed=False),
    # The creation of an agent is a trace of its own.
    "autogen": Expected(2, 1, 3, (360, 90, 120), ("forecaster",), passed=None, runs=2),
    # Its messages have what they cost, without what was cached.
    "autogen-runtime": Expected(
        2, 1, 3, (360, 90, None), ("forecaster", "trip"), passed=None, runs=2
    ),
}


def requests(name):
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]


SCATTERED = {"autogen-runtime"}
"""Recordings in which not every span of a run names it: they are joined within a request."""


def outcomes(door):
    """How every run stands and ended, and its agents."""
    return {
        row["run"]: (row["status"], row["passed"], sorted(row["agents"])) for row in door.runs()
    }


def totals(door):
    """Calls, failures and open calls of all runs together."""
    return [
        sum(column) for column in zip(*(row[:3] for row in numbers(door).values()), strict=True)
    ]


def numbers(door):
    """Calls, failures, spends, tokens and cost of every run."""
    rows = {
        row["run"]: (row["tool_calls"], row["tool_failures"], row["open_calls"])
        for row in door.runs()
    }
    spent = {
        row["of"].partition(":")[2]: tuple(
            row[key]
            for key in (
                "spends",
                "input_tokens",
                "output_tokens",
                "cached_tokens",
                "cost_usd",
            )
        )
        for row in door.costs()
    }
    return {run: (*row, *spent.get(run, ())) for run, row in rows.items()}


def test_every_recording_has_expected_numbers():
    assert {path.stem for path in RECORDED.glob("*.jsonl")} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_of_a_real_program_is_counted_right(name, tmp_path):
    expected, door = EXPECTED[name], Door(tmp_path)
    for request in requests(name):
        assert door.send(request).rejected == 0
    rows = sorted(door.runs(), key=lambda row: row["tool_calls"])
    assert len(rows) == expected.runs
    row = rows[-1]
    found = numbers(door)[row["run"]]
    assert (row["tool_calls"], row["tool_failures"]) == (expected.calls, expected.failures)
    assert row["open_calls"] == 0
    spent = () if expected.tokens is None else (expected.spends, *expected.tokens, expected.cost)
    assert found[3:] == pytest.approx(spent)
    assert tuple(sorted(row["agents"])) == expected.agents
    assert (row["status"], row["passed"]) == (expected.status, expected.passed)
    door.close()


LATER = "2026-12-01T00:00:00.000Z"


@pytest.mark.parametrize("name", ["claude-code", "claude-code-withheld"])
def test_a_session_whose_telemetry_has_no_end_is_done_when_it_was_silent_after_an_answer(
    name, tmp_path
):
    door = Door(tmp_path)
    (request,) = requests(name)
    *before, answer = items_of(request)
    for item in before:
        door.send(item)
    assert [row["status"] for row in door.runs(LATER)] == ["lost"]
    door.send(answer)
    assert [row["status"] for row in door.runs(LATER)] == ["done"]
    door.close()


def test_the_title_of_a_copilot_session_is_what_the_person_wrote(tmp_path):
    door = Door(tmp_path)
    (request,) = requests("copilot-cli")
    assert "<current_datetime>" in json.dumps(request)
    door.send(request)
    assert [row["title"] for row in door.runs()] == ["What is in the notes?"]
    door.close()


@pytest.mark.parametrize("name", ["langchain", "llama-index", "openai-agents"])
def test_the_title_of_a_run_is_its_task_and_not_the_name_of_its_span(name, tmp_path):
    door = Door(tmp_path)
    for request in requests(name):
        door.send(request)
    [row] = door.runs()
    asked = [body for body in door.facts("Said") if body["role"] == "user"]
    assert row["title"] == asked[0]["blocks"][0]["text"]
    door.close()


ARGUMENTS = {
    "tools": ["<FunctionTool object>"],
    "chat_history": ["ChatMessage(role=<MessageRole.USER: 'user'>, blocks=[TextBlock(text='How?')])"],
}  # fmt: skip


def test_the_arguments_of_a_function_around_a_model_call_are_no_words(tmp_path):
    door = Door(tmp_path)
    for request in requests("llama-index"):
        for item in (one for each in request["resourceSpans"] for scope in each["scopeSpans"]
                     for one in scope["spans"]):  # fmt: skip
            if not any(each["key"].startswith("llm.input_messages") for each in item["attributes"]):
                kinds = [
                    each["value"]
                    for each in item["attributes"]
                    if each["key"] == "openinference.span.kind"
                ]
                if kinds == [{"stringValue": "LLM"}]:
                    given = {"stringValue": json.dumps(ARGUMENTS)}
                    item["attributes"].append({"key": "input.value", "value": given})
        door.send(request)
    said = door.facts("Said")
    assert not any("ChatMessage(" in json.dumps(body["blocks"]) for body in said)
    assert all(body["blocks"] for body in said)
    assert any("ChatMessage(" in json.dumps(body) for body in door.lines())  # it is stored
    door.close()


def items_of(request):
    """Each span or log record of a request as a request of its own."""
    [outer] = request
    for block in request[outer]:
        inner = "scopeSpans" if outer == "resourceSpans" else "scopeLogs"
        for scope in block[inner]:
            key = "spans" if inner == "scopeSpans" else "logRecords"
            for item in scope[key]:
                yield {outer: [{**block, inner: [{**scope, key: [item]}]}]}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("seed", range(4))
def test_a_recording_has_the_same_numbers_in_any_order_and_when_sent_twice(name, seed, tmp_path):
    one, other = Door(tmp_path / "one"), Door(tmp_path / "other")
    items = [item for request in requests(name) for item in items_of(request)]
    for request in requests(name):
        one.send(request)
    shuffled = items * 2
    random.Random(seed).shuffle(shuffled)
    for item in shuffled:
        other.send(item)
    same = totals if name in SCATTERED else numbers
    assert same(other) == same(one)
    if name not in SCATTERED:
        assert outcomes(other) == outcomes(one)
    one.close()
    other.close()


def counted(items, folder):
    """The numbers of every run of these items, one request each."""
    door = Door(folder)
    for item in items:
        assert door.send(item).rejected == 0
    try:
        return numbers(door)
    finally:
        door.close()


def model(number, calls=(), parent=1, **attributes):
    """A model call that asks for tools, as (tool, id)."""
    parts = [{"type": "tool_call", "id": id, "name": tool} for tool, id in calls]
    said = json.dumps([{"role": "assistant", "parts": parts}]) if parts else "[]"
    named = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    return span(number, "chat", named | {"gen_ai.output.messages": said} | attributes, parent)


def tool(number, name, *, ok=True, **attributes):
    """A tool's span without the id of the call."""
    named = {"openinference.span.kind": "TOOL", "tool.name": name, **attributes}
    return span(number, name, named, 1, status={"code": 1 if ok else 2})


def tokens(given, taken):
    return {"gen_ai.usage.input_tokens": given, "gen_ai.usage.output_tokens": taken}


NAMES = st.sampled_from(["look", "write"])


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_numbers_do_not_depend_on_order_or_requests(data, tmp_path_factory):
    asked = data.draw(st.lists(NAMES, max_size=4))
    done = data.draw(st.lists(st.tuples(NAMES, st.booleans()), max_size=4))
    spans = [
        model(10 + n, [(name, f"call_{n}")], **tokens(10 + n, 5)) for n, name in enumerate(asked)
    ]
    spans += [tool(30 + n, name, ok=ok) for n, (name, ok) in enumerate(done)]
    if data.draw(st.booleans()):
        spans += [model(50, **tokens(7, 3)), model(51, parent=50, **tokens(7, 3))]
    order = data.draw(st.permutations([*spans, *data.draw(st.permutations(spans))]))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(len(order) - 1, 1)), max_size=4)))
    pieces = [order[i:j] for i, j in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    folder = tmp_path_factory.mktemp("homes")
    straight = counted([traces(*spans)] if spans else [], folder / "straight")
    assert counted([traces(*each) for each in pieces if each], folder / "mixed") == straight
    for calls, failures, *_ in straight.values():
        most = [
            max(asked.count(name), [each for each, _ in done].count(name))
            for name in ("look", "write")
        ]
        assert calls == sum(most)
        assert failures == sum(not ok for _, ok in done)


@settings(max_examples=15, deadline=None)
@given(number=st.integers(0, 10**6), data=st.data())
def test_a_trace_is_counted_as_it_was_made_in_any_order_and_after_restarts(
    number, data, tmp_path_factory
):
    program = TraceMaker(number)
    spans = [each for request in program.requests() for each in items_of(request)]
    again = data.draw(st.lists(st.sampled_from(spans), max_size=3))
    door = Door(tmp_path_factory.mktemp("home"))
    for item in data.draw(st.permutations([*spans, *again])):
        assert door.send(item).rejected == 0
        if data.draw(st.integers(0, 9)) == 9:
            door.begin_again()
    (row,) = door.runs()
    found = numbers(door)[row["run"]]
    door.close()
    truth = (program.calls, program.failures, 0)
    assert found[:6] == (*truth, program.spends, program.given, program.taken)


def above(number, kind, parent):
    """A span of an agent, or of a step, above others."""
    named = {"openinference.span.kind": kind}
    return span(number, f"agent-{number}" if kind == "AGENT" else "step", named, parent)


def spent_by_agent(requests, folder):
    """The tokens of every agent."""
    door = Door(folder)
    for request in requests:
        assert door.send(request).rejected == 0
    door.home.index.catch_up()
    rows = ask(door.home, "costs", by="agent")
    findings = ask(door.home, "findings")
    door.close()
    assert [row["name"] for row in findings if row["name"] == "corrected"] == []
    return {row["of"]: (row["spends"], row["input_tokens"]) for row in rows}


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_model_call_belongs_to_the_nearest_agent_above_in_whatever_request_that_arrives(
    data, tmp_path_factory
):
    kinds = data.draw(st.lists(st.sampled_from(["AGENT", "CHAIN"]), min_size=1, max_size=5))
    parents = [data.draw(st.integers(1, 1 + n)) for n in range(len(kinds))]
    spans = [above(1, "CHAIN", None)]
    spans += [above(2 + n, kind, parents[n]) for n, kind in enumerate(kinds)]
    places = data.draw(st.lists(st.integers(1, 1 + len(kinds)), min_size=1, max_size=4))
    spans += [model(50 + n, parent=at, **tokens(10 + n, 5)) for n, at in enumerate(places)]
    order = data.draw(st.permutations(spans))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(order) - 1), max_size=4)))
    pieces = [order[i:j] for i, j in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    folder = tmp_path_factory.mktemp("homes")
    expected = {}
    for n, place in enumerate(places):
        at = place
        while at != 1 and kinds[at - 2] != "AGENT":
            at = parents[at - 2]
        spends, tokens_in = expected.get(agent := "sample" if at == 1 else f"agent-{at}", (0, 0))
        expected[agent] = (spends + 1, tokens_in + 10 + n)
    assert spent_by_agent([traces(*spans)], folder / "straight") == expected
    assert spent_by_agent([traces(*each) for each in pieces], folder / "mixed") == expected


CASES = {
    "Gemini CLI: the span has an id, the log event the arguments": (
        [
            traces(span(2, "tool", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "sh",
                "gen_ai.tool.call_id": "sh__c1", "session.id": "s"}, 1), **{"service.name": "gemini-cli"}),
            logs({"timeUnixNano": "1778000000000000000", "attributes": pairs({"session.id": "s",
                "event.name": "gemini_cli.tool_call", "function_name": "sh", "success": True,
                "function_args": '{"command":"ls"}'})}, **{"service.name": "gemini-cli"}),
        ],
        (1, 0, 0),
    ),
    "LiteLLM: its own names of the operation and of the cost": (
        [traces(model(2, **tokens(120, 30), **{"gen_ai.operation.name": "acompletion",
            "gen_ai.cost.total_cost": 0.25}))],
        (0, 0, 0, 1, 120, 30, None, 0.25),
    ),
    "AutoGen: two instrumentations report one model call": (
        [traces(model(2, **tokens(120, 30))), traces(model(3, parent=2, **tokens(120, 30)))],
        (0, 0, 0, 1, 120, 30, None, None),
    ),
    "two model calls of one parent with equal counts are two": (
        [traces(model(2, **tokens(120, 30))), traces(model(3, **tokens(120, 30)))],
        (0, 0, 0, 2, 240, 60, None, None),
    ),
}  # fmt: skip  # a case each


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_what_else_was_seen_of_programs_is_counted_right(name, turned, tmp_path):
    items, expected = CASES[name]
    assert [*counted(items[::-1] if turned else items, tmp_path).values()] == [expected]


def test_a_thread_of_the_operating_system_names_no_conversation(tmp_path):
    door = Door(tmp_path)
    door.send(traces(span(2, "auth", {"thread.id": 3}, 1), span(3, "read", {"thread.id": 5}, 1)))
    assert len(door.runs()) == 1
    door.close()


def test_the_parts_of_the_proxy_of_litellm_are_no_steps(tmp_path):
    door = Door(tmp_path)
    (request,) = requests("litellm")
    door.send(request)
    (row,) = door.runs()
    steps = {fact["step"] for fact in ask(door.home, "story", run=row["run"])["records"]
             for fact in fact["facts"] if fact["fact"] == "Began"}  # fmt: skip
    assert steps == {"POST /v1/chat/completions", "Received Proxy Server Request"}
    door.close()


def test_probes_of_a_service_are_one_run(tmp_path):
    door = Door(tmp_path)
    for number in range(3):
        about = {"url.path": "/health/liveliness"}
        probe = span(number + 1, "GET /health", about, traceId=f"{number + 1:032x}")
        door.send(traces(probe, **{"service.name": "proxy"}))
    (row,) = door.runs()
    assert row["title"] is None
    door.close()
