"""Adapters, on what real frameworks told them; `make agents` runs the frameworks themselves.

The samples are calls of callbacks: name, arguments, named arguments. An object is its attributes,
and `$` names its class.
"""

import asyncio
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tracklog
from tracklog.answers.conversation import conversation
from tracklog.formats.adapters import _writing, claude_agent_sdk, langchain, openai_agents
from tracklog.formats.importing import Importing
from tracklog.home.home import Home

SAMPLES = Path(__file__).parents[1] / "samples" / "adapters"
PROMPT = "Say hello, then fail, then stop."
ANSWER = "All done: one command worked, one failed."


class Absent(SimpleNamespace):
    """An object of a framework; an attribute that the sample leaves out is None."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

    def model_dump(self):
        return vars(self)


def made(value):
    """The value of a sample, with objects whose class has the recorded name."""
    if isinstance(value, list):
        return [made(each) for each in value]
    if not isinstance(value, dict):
        return value
    fields = {key: made(each) for key, each in value.items() if key != "$"}
    if "$" not in value:
        return fields
    if "args" in fields and value["$"].endswith(("Error", "Interrupt")):
        bases = (type("GraphBubbleUp", (Exception,), {}),) if "Interrupt" in value["$"] else ()
        return type(value["$"], bases or (Exception,), {})(*fields["args"])
    return type(value["$"], (Absent,), {})(**fields)


def calls(name):
    for line in (SAMPLES / f"{name}.jsonl").read_text().splitlines():
        method, args, kwargs = json.loads(line)
        yield method, made(args), made(kwargs)


def emitter(path):
    return _writing.emitter_module().Emitter.file(path, environ={})


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def recorded(tmp_path):
    """The runs of the written lines, as tracklog shows them; every line is accepted."""
    with tracklog.open(tmp_path / "home") as log:
        verdicts = log.admit((tmp_path / "out.jsonl").read_text().splitlines())
        assert {each.verdict for each in verdicts} == {"accepted"}
        return log.runs()


def replay(adapter, name):
    for method, args, kwargs in calls(name):
        getattr(adapter, method)(*args, **kwargs)


def with_types(span):
    kind = type(span.span_data).__name__.removesuffix("SpanData").lower()
    span.span_data.type = kind
    return span


def play(name, tmp_path):
    out = emitter(tmp_path / "out.jsonl")
    if name == "langchain":
        replay(langchain.LangChainCallbacks(emitter=out), name)
    elif name == "openai-agents":
        adapter = openai_agents.TraceProcessor(emitter=out)
        for method, (value,), _ in calls(name):
            getattr(adapter, method)(with_types(value) if "span" in method else value)
    else:
        recorder = claude_agent_sdk.SessionRecorder(emitter=out)

        async def messages():
            for _, (message,), _ in calls(name):
                yield message

        async def read():
            return [each async for each in recorder.stream(messages(), PROMPT)]

        assert len(asyncio.run(read())) == len(list(calls(name)))
    out.close()


@pytest.mark.parametrize("name", ["langchain", "openai-agents", "claude-agent-sdk"])
def test_an_adapter_records_calls_failures_tokens_words_and_the_end(name, tmp_path):
    play(name, tmp_path)
    (run,) = recorded(tmp_path)
    assert (run.tool_calls, run.tool_failures) == (2, 1)
    assert (run.tokens_in, run.tokens_out, run.tokens_cached) == (360, 90, 120)
    assert (run.status, run.passed, run.ended) == ("done", True, True)
    assert run.title == PROMPT
    said = [each for each in lines(tmp_path / "out.jsonl") if each["fact"] == "Said"]
    texts = [(each["role"], each["blocks"][0]["text"]) for each in said]
    assert texts.count(("user", PROMPT)) == 1
    assert texts[-1] == ("assistant", ANSWER)
    called = [each for each in lines(tmp_path / "out.jsonl") if each["fact"] == "Called"]
    assert [each["call_id"].removeprefix("toolu_") for each in called] == ["call_1", "call_2"]
    assert all(each["input"]["command"] for each in called)


def test_a_session_that_is_recorded_and_imported_counts_once(tmp_path):
    play("claude-agent-sdk", tmp_path)
    recorded(tmp_path)
    sample = SAMPLES.parent / "hooks/files/.claude"
    (file,) = sample.rglob("*.jsonl")
    session = "bb6cfeba-cb01-47c8-b95e-25dd9e48b7a7"
    copy = tmp_path / ".claude/projects/-project" / f"{session}.jsonl"
    copy.parent.mkdir(parents=True)
    copy.write_text(file.read_text().replace(file.stem, session))
    with Home(tmp_path / "home") as home:
        Importing(home).bring([copy])
    with tracklog.open(tmp_path / "home") as log:
        (run,) = log.runs()
    assert (run.tool_calls, run.tool_failures) == (2, 1)
    assert (run.tokens_in, run.tokens_out, run.tokens_cached) == (360, 90, 120)
    with Home(tmp_path / "home") as home:
        home.index.catch_up()
        messages = conversation(home, run.run)
    texts = [(part.role, part.text) for each in messages for part in each.parts if part.text]
    assert texts == [("user", PROMPT), ("assistant", ANSWER)]


def chain(adapter, run, parent=None, **metadata):
    name = metadata.pop("name", "graph")
    inputs = metadata.pop("inputs", {})
    about = {"run_id": run, "parent_run_id": parent, "metadata": metadata, "name": name}
    adapter.on_chain_start(None, inputs, **about)


def test_a_graph_that_interrupts_asks_and_its_resumption_answers(tmp_path):
    out = emitter(tmp_path / "out.jsonl")
    adapter = langchain.LangChainCallbacks(emitter=out)
    chain(adapter, 1, thread_id="t-1")
    wait = SimpleNamespace(id="q-1", value="Deploy?")
    adapter.on_chain_end({"__interrupt__": [wait]}, run_id=1)
    chain(adapter, 2, thread_id="t-1", inputs=SimpleNamespace(resume="yes"))
    adapter.on_chain_end({}, run_id=2)
    out.close()
    facts = lines(tmp_path / "out.jsonl")
    assert {each["run"] for each in facts} == {"t-1"}
    assert [each["fact"] for each in facts] == ["Began", "Asked", "Answered", "Began", "Ended"]
    assert (facts[1]["question_id"], facts[1]["text"]) == ("q-1", "Deploy?")
    assert (facts[2]["question_id"], facts[2]["answer"]) == ("q-1", "yes")
    (run,) = recorded(tmp_path)
    assert (run.status, run.questions) == ("done", 0)


def test_an_agent_inside_a_tool_and_the_nodes_of_a_graph_are_shown_apart(tmp_path):
    out = emitter(tmp_path / "out.jsonl")
    adapter = langchain.LangChainCallbacks(emitter=out)
    chain(adapter, 1, lc_agent_name="boss", name="boss")
    chain(adapter, 2, 1, lc_agent_name="boss", langgraph_node="tools", name="tools")
    about = {"run_id": 3, "parent_run_id": 2, "tool_call_id": "call_1", "inputs": {"q": "?"}}
    adapter.on_tool_start({"name": "ask_helper"}, "", **about)
    chain(adapter, 4, 3, lc_agent_name="helper", name="helper")
    chain(adapter, 5, 4, lc_agent_name="helper", langgraph_node="plan", name="plan")
    about = {"run_id": 6, "parent_run_id": 5, "tool_call_id": "call_2", "inputs": {}}
    adapter.on_tool_start({"name": "look"}, "", **about)
    adapter.on_tool_error(ValueError("no"), run_id=6)
    adapter.on_chain_end({}, run_id=5)
    adapter.on_chain_end({}, run_id=4)
    adapter.on_tool_end("done", run_id=3)
    adapter.on_chain_error(RuntimeError("too many steps"), run_id=1)
    out.close()
    facts = lines(tmp_path / "out.jsonl")
    began = [(each["what"], each["agent"], each.get("step")) for each in facts if "what" in each]
    assert ("agent", "helper", None) in began
    assert ("step", "helper", "plan#0") in began
    assert not any("tools" in str(each) for each in began)
    look = next(each for each in facts if each.get("tool") == "look")
    assert (look["agent"], look["parent_call_id"]) == ("helper", "call_1")
    (run,) = recorded(tmp_path)
    assert (run.status, run.tool_calls, run.tool_failures) == ("failed", 2, 1)
    assert set(run.agents) == {"boss", "helper"}


def span(kind, id, parent=None, error=None, **data):
    data = SimpleNamespace(type=kind, **data)
    return SimpleNamespace(trace_id="t", span_id=id, parent_id=parent, error=error, span_data=data)


def test_a_handoff_is_no_call_and_a_model_that_cannot_be_reached_fails_the_run(tmp_path):
    out = emitter(tmp_path / "out.jsonl")
    adapter = openai_agents.TraceProcessor(emitter=out)
    trace = SimpleNamespace(trace_id="t", name="Agent workflow", group_id="chat-7")
    adapter.on_trace_start(trace)
    first = span("agent", "a", name="desk")
    adapter.on_span_start(first)
    item = {
        "type": "function_call",
        "call_id": "c",
        "name": "transfer_to_helper",
        "arguments": "{}",
    }
    asked = [{"role": "user", "content": "Help."}]
    answer = span("generation", "g", "a", input=asked, output=[item], usage=None, model="m")
    adapter.on_span_start(answer)
    adapter.on_span_end(answer)
    handoff = span("handoff", "h", "a", from_agent="desk", to_agent="helper")
    adapter.on_span_start(handoff)
    adapter.on_span_end(handoff)
    adapter.on_span_end(first)
    second = span("agent", "b", name="helper", error={"message": "Error in agent run"})
    adapter.on_span_start(second)
    gone = {"message": "Error getting response", "data": {"error": "Connection error."}}
    failing = span("response", "r", "b", error=gone, response=None, input="Help.")
    adapter.on_span_start(failing)
    adapter.on_span_end(failing)
    adapter.on_span_end(second)
    adapter.on_trace_end(trace)
    out.close()
    facts = lines(tmp_path / "out.jsonl")
    linked = [each for each in facts if each["fact"] == "Linked"]
    assert [(each["kind"], each.get("from"), each.get("to")) for each in linked] == [
        ("alias", None, None),
        ("handoff", "desk", "helper"),
    ]
    (run,) = recorded(tmp_path)
    assert (run.run, run.status, run.tool_calls) == ("chat-7", "failed", 0)
    assert any("Connection error." in str(each.get("text")) for each in facts)


def test_a_session_that_breaks_off_has_failed_and_its_error_reaches_the_program(tmp_path):
    out = emitter(tmp_path / "out.jsonl")

    async def broken():
        for _, (message,), _ in list(calls("claude-agent-sdk"))[:2]:
            yield message
        raise OSError("the process ended")

    async def read():
        async for _ in claude_agent_sdk.recorded(broken(), PROMPT, emitter=out):
            pass

    with pytest.raises(OSError, match="the process ended"):
        asyncio.run(read())
    out.close()
    (run,) = recorded(tmp_path)
    assert run.status == "failed"


def test_a_failure_of_the_adapter_is_logged_once_and_never_reaches_the_agent(tmp_path, caplog):
    adapter = langchain.LangChainCallbacks(emitter=SimpleNamespace())
    with caplog.at_level(logging.WARNING, "tracklog"):
        chain(adapter, 1)
        chain(adapter, 2)
    (warning,) = caplog.records
    assert warning.getMessage().startswith("on_chain_start was not recorded: AttributeError")


def test_what_is_no_json_is_written_as_text_and_a_long_text_is_cut():
    value = {1: (float("nan"), {2}, b"x"), "long": "y" * (_writing.LONGEST + 5)}
    plain = _writing.as_json(value)
    assert plain["1"] == ["nan", [2], "b'x'"]
    assert plain["long"].endswith("y… (5 more characters)")
    json.dumps(plain, allow_nan=False)


@pytest.mark.parametrize("make", [langchain.handler, langchain.install])
def test_without_langchain_the_adapter_says_what_to_install(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "langchain_core", None)
    with pytest.raises(ModuleNotFoundError, match="here: pip install langchain-core"):
        make()


@pytest.mark.parametrize("make", [openai_agents.processor, openai_agents.install])
def test_without_the_agents_sdk_the_adapter_says_what_to_install(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "agents", None)
    with pytest.raises(ModuleNotFoundError, match="here: pip install openai-agents"):
        make()


def test_the_earlier_path_still_finds_the_adapters():
    import tracklog.adapters.langchain as earlier  # noqa: PLC0415  # what is tested

    assert earlier.__file__ == langchain.__file__
    assert earlier.handler.__code__ == langchain.handler.__code__
