"""Agents of a workflow on a model server: their tools are called at the router, and all are recorded."""

import json
import os

import pytest
from test_host_workflow import World, types
from test_tape import runs_of

from support.serving import CUT, HANG, STALL, calls, serving
from tracklog.recording.recorder import NullRecorder

pytest.importorskip("openai", reason="the client for model servers is an extra")

HEAD = """\
agents:
  clerk: {{endpoint: "{url}#m", system: Be brief., tools: [add], timeout: {timeout}}}
tools: {{add: "plugins.py:add"}}
"""


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def asks(world: World, url: str, prompt: str = "What is it?", timeout: float = 30):
    step = f"- {{name: ask, kind: agent, agent: clerk, prompt: {json.dumps(prompt)}}}"
    return world.flow("asks", step, head=HEAD.format(url=url, timeout=timeout))


@pytest.mark.requirement("AWF-23", "AWF-24", "AWF-70", "AWF-22")
def test_a_model_wants_a_tool_the_router_calls_it_and_the_pair_is_recorded_once(world, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    with serving(calls("add", {"a": 1, "b": 2}), "It is 3.") as (url, asked):
        path = asks(world, url)
        outcome, _, shown = world.run(path)
        bare = world.run(path, NullRecorder(), storage=world.folder / "other")
    assert (outcome.status, world.events()[-1]["payload"]["status"]) == ("ok", "ok")
    events = world.events()
    inside = [kind for kind in types(events) if kind[:4] in ("mess", "tool")]
    assert inside == ["message.user", "message.assistant", "tool.call", "tool.result",
                      "message.assistant"]  # fmt: skip
    first, last = (e["payload"] for e in events if e["type"] == "message.assistant")
    assert [block["type"] for block in first["blocks"]] == ["tool_use"]
    assert last["blocks"][0]["text"] == "It is 3."
    assert (last["provider"], last["model"], last["usage"]["total_tokens"]) == ("openai", "m-1", 7)
    call, result = (e["payload"] for e in events if e["type"].startswith("tool."))
    assert (call["fidelity"], call["provider_call_id"]) == ("router", "c1")
    assert result["output"] == 3
    assert [m["role"] for m in asked[1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert asked[1]["messages"][-1]["content"] == "3"
    assert asked[0]["tools"][0]["function"]["parameters"]["required"] == ["a", "b"]
    assert asked[0]["key"] == "Bearer k-1"
    assert bare[0].status == "ok"  # the last answer of the server, told again
    assert b"[ask] It is 3." in shown


def test_a_conversation_remembers_and_a_tool_that_is_not_its_own_is_refused(world):
    prompts = "[One., 'Two: {{answer}}']"
    with serving("First.", calls("read_file", {"path": "/etc/passwd"}), "Sorry.") as (url, asked):
        step = f"- {{name: ask, kind: agent, agent: clerk, prompt: {prompts}}}"
        path = world.flow("asks", step, head=HEAD.format(url=url, timeout=30))
        assert world.run(path)[0].status == "ok"
    said = [m["content"] for m in asked[1]["messages"]]
    assert said == ["Be brief.", "One.", "First.", "Two: First."]
    assert "may not be called" in asked[2]["messages"][-1]["content"]
    (result,) = [e["payload"] for e in world.events() if e["type"] == "tool.result"]
    assert "may not be called" in result["error"]


@pytest.mark.requirement("AWF-22", "AWF-18")
@pytest.mark.parametrize(
    ("answer", "timeout", "status", "kept"),
    [
        (401, 30, "error", ""),
        (STALL, 1, "timeout", ""),
        (("Half of it is here", HANG), 2, "timeout", "Half of it is here"),
        (("Half of it is here", CUT), 30, "error", "Half of it is here"),
    ],
)
def test_the_output_of_a_model_is_recorded_however_it_ends(world, answer, timeout, status, kept):
    with serving(answer) as (url, _):
        outcome, *_ = world.run(asks(world, url, timeout=timeout))
    assert outcome.status == ("timeout" if status == "timeout" else "failed")
    (said,) = [e["payload"] for e in world.events() if e["type"] == "message.assistant"]
    assert said["status"] == status
    assert "".join(block.get("text", "") for block in said["blocks"]) == kept
    assert types(world.events())[-1] == "run.completed"


def test_a_server_that_limits_is_asked_again(world):
    with serving(429, "At last.") as (url, asked):
        assert world.run(asks(world, url))[0].status == "ok"
    assert len(asked) == 2


def test_a_recorded_conversation_is_played_without_a_server_and_without_its_tools(world):
    with serving(calls("add", {"a": 1, "b": 2}), "It is 3.") as (url, asked):
        path = asks(world, url)
        first = world.host(path)
        assert first.returncode == 0, first.stderr
    assert len(asked) == 2
    (world.folder / "plugins.py").write_text("def add(a, b): 1 / 0\n")
    again = world.host(path, "--tape", runs_of(world)[0])
    assert (again.returncode, again.stderr) == (0, b"")
    assert again.stdout == first.stdout
    files = sorted((world.home / "transcripts").iterdir(), key=os.path.getmtime)
    told = [
        [(e["type"], e["payload"].get("blocks")) for e in map(json.loads, file.read_text().splitlines())
         if e["type"].startswith("message")] for file in files
    ]  # fmt: skip
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("{endpoint: 'http://h/v1'}", "not https://HOST/v1#MODEL"),
        ("{endpoint: 'http://h/v1#m', tools: [nothing]}", "no tool 'nothing'"),
        ("{endpoint: 'http://h/v1#m', command: [x]}", "an agent with an endpoint cannot have it"),
        (
            "{command: [x], tools: [parse_json]}",
            "agent with an endpoint may have tools and options",
        ),
        ("{}", "or an endpoint"),
    ],
)
def test_faults_of_such_an_agent_are_reported_at_load(world, agent, why):
    path = world.flow("asks", f"- {{name: ask, kind: agent, agent: {agent}, prompt: x}}")
    done = world.host(path)
    assert done.returncode == 2
    assert why.encode() in done.stderr
