"""The OpenWOP host on a model server, and the example that ships: real HTTP, real processes."""

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from collecting import eventually
from hosting import TOKEN, Client, Host, Process, flow, put
from serving import CUT, HANG, STALL, calls, serving
from tracklog.errors import TracklogError
from tracklog.hosts.openwop.command import settings_of
from tracklog.hosts.openwop.settings import ModelServer, Tool

pytest.importorskip("openai", reason="the client for model servers is an extra")

EXAMPLES = Path(__file__).parents[1] / "examples" / "openwop"


def prompting(**config) -> dict:
    node = {"id": "m", "typeId": "core.ai.callPrompt", "config": {"prompt": "Hi", **config}}
    return flow("prompting", [node])


@contextmanager
def hosted(tmp_path, url: str, definition: dict, seconds: float = 10, **settings):
    model = ModelServer(base_url=url, name="m", key="sk-" + "k" * 30, seconds=seconds)
    with Host(
        tmp_path / "home", workflows=put(tmp_path / "flows", definition), model=model, **settings
    ) as host:
        yield host


def test_a_model_answers_is_given_tools_and_what_they_said(tmp_path):
    tool = Tool(id="local:cat", command=("cat",))
    with serving(
        calls("local_cat", {"x": 1}), {"content": "Done.", "reasoning_content": "Hm."}
    ) as (
        url,
        asked,
    ):
        definition = prompting(tools=["local:cat"])
        with hosted(tmp_path, url, definition, tools={"local:cat": tool}) as host:
            run = host.start("prompting", configurable={"temperature": 0.5, "maxTokens": 9})
            assert host.until(run, "completed")["variables"]["text"] == "Done."
            kinds = [e["type"] for e in host.events(run)[2:-2]]
            five = ["agent.toolCalled", "agent.toolReturned", "provider.usage", "agent.reasoned"]
            assert kinds == ["provider.usage", *five, "agent.decided"]
            spent = host.events(run, "provider.usage")[0]["payload"]
            assert (spent["model"], spent["inputTokens"], spent["outputTokens"]) == ("m-1", 3, 4)
    assert asked[0]["tools"][0]["function"]["name"] == "local_cat"
    assert (asked[0]["temperature"], asked[0]["max_tokens"]) == (0.5, 9)
    assert asked[1]["messages"][-1]["content"] == '{"x":1}'


@pytest.mark.parametrize(
    ("answers", "seconds", "status"),
    [
        ((429, "ok"), 10, "completed"),
        ((400,), 10, "failed"),
        ((STALL,), 0.3, "failed"),
        ((("Half of it", HANG),), 0.3, "failed"),
        ((("Half of it", CUT),), 10, "failed"),
    ],
)
def test_a_model_server_that_limits_refuses_or_stalls(tmp_path, answers, seconds, status):
    with serving(*answers) as (url, _), hosted(tmp_path, url, prompting(), seconds) as host:
        run = host.start("prompting")
        snapshot = host.until(run, status, seconds=30)
        if status == "failed":
            assert snapshot["error"]["code"] == "model_failed"
            assert "kkkk" not in json.dumps(snapshot)


def test_a_run_that_waits_for_a_model_can_be_cancelled(tmp_path):
    with serving(STALL) as (url, asked), hosted(tmp_path, url, prompting()) as host:
        run = host.start("prompting")
        assert eventually(lambda: asked)
        host.http.post(f"/v1/runs/{run}/cancel", json={})
        host.until(run, "cancelled")


def test_a_conversation_that_was_cut_off_is_begun_again_on_record(tmp_path):
    tool = Tool(id="local:cat", command=("sleep", "30"))
    with serving(calls("local_cat", {}), {"content": "Done."}) as (url, _):
        definition = prompting(tools=["local:cat"])
        odd = {"tools": {"local:cat": tool}, "tolerated": "call-not-returned"}
        with hosted(tmp_path, url, definition, **odd) as host:
            run = host.start("prompting")
            assert eventually(lambda: host.events(run, "agent.toolCalled"))
        model = ModelServer(base_url=url, name="m")
        with Host(tmp_path / "home", workflows=(tmp_path / "flows",), model=model) as host:
            host.until(run, "completed")
            (retried,) = host.events(run, "node.retried")
            assert retried["payload"] == {"nodeId": "m", "attempt": 1}
            (returned,) = host.events(run, "agent.toolReturned")
            assert returned["payload"]["error"]["code"] == "outcome_unknown"
            attempts = [e["payload"]["attempt"] for e in host.events(run, "node.started")]
            assert attempts == [0, 1]


def test_the_example_runs_as_it_is_shipped(tmp_path):
    shutil.copytree(EXAMPLES, tmp_path / "example")
    with Process(tmp_path / "home", "--config", str(tmp_path / "example" / "host.yaml")) as host:
        run = host.start("review", inputs={"article": "four words in all"})
        host.until(run, "waiting-approval")
        assert host.answer(run, "gate", {"action": "accept"}).status_code == 200
        snapshot = host.until(run, "completed")
        assert snapshot["variables"]["result"] == 4
        assert snapshot["agent"]["agentId"] == "local.example.desk.reader"
        assert len(snapshot["channels"]["messages"]) == 1
        other = Client(host.url, TOKEN + "x")
        assert other.http.get(f"/v1/runs/{run}").status_code == 401
        other.http.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1]", "no mapping"),
        ("surprise: 1", "unknown setting"),
        ("token_limit: many", "no int"),
        ("token_limit: 0", "less than 1"),
        ("streaming: 1", "no bool"),
        ("verbosity: loud", "one of"),
        ("secrets: {a: NOT_SET}", "not set"),
        ("tools: [{id: bare, command: [true]}]", "<scope>:<tool-id>"),
        ("tools: [{id: 'a:b'}]", "without a command"),
        ("tools: [{id: 'a:b', command: [x], colour: red}]", "not understood"),
        ("model: {name: x}", "without a base_url"),
        ("a: [", "no YAML"),
    ],
)
def test_a_settings_file_that_is_wrong_is_said_to_be_so(tmp_path, text, why):
    path = tmp_path / "host.yaml"
    path.write_text(text)
    with pytest.raises(TracklogError, match=why):
        settings_of(path, {})
