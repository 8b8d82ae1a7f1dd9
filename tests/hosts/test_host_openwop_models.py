"""The OpenWOP host on a model server, and the example that ships: real HTTP, real processes."""

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.hosting import TOKEN, Client, Host, Process, flow, pairs, put
from support.serving import CUT, HANG, STALL, calls, serving
from support.waiting import eventually
from tracklog.hosts.openwop.mounted import settings_of
from tracklog.hosts.openwop.reasoning import cost
from tracklog.hosts.openwop.settings import ModelServer, ToolProgram
from tracklog.model.errors import TracklogError

pytest.importorskip("openai", reason="the client for model servers is an extra")

EXAMPLES = Path(__file__).parents[2] / "examples" / "openwop"


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


def test_a_model_answers_and_is_given_tools_and_their_results(tmp_path):
    tool = ToolProgram(id="local:cat", command=("cat",))
    with serving(
        calls("local_cat", {"x": 1}), {"content": "Done.", "reasoning_content": "Hm."}
    ) as (
        url,
        asked,
    ):
        definition = prompting(tools=["local:cat"], system="Be brief.")
        with hosted(tmp_path, url, definition, tools={"local:cat": tool}) as host:
            run = host.start("prompting", configurable={"temperature": 0.5, "maxTokens": 9})
            assert host.until(run, "completed")["variables"]["text"] == "Done."
            kinds = [e["type"] for e in host.events(run)[2:-2]]
            called = ["agent.toolCalled", "agent.toolReturned"]
            thought = ["agent.reasoning.delta", "provider.usage", "agent.reasoned"]
            assert kinds == ["provider.usage", *called, *thought, "agent.decided"]
            spent = host.events(run, "provider.usage")[0]["payload"]
            assert (spent["model"], spent["inputTokens"], spent["outputTokens"]) == ("m-1", 3, 4)
    assert asked[0]["messages"][0] == {"role": "system", "content": "Be brief."}
    assert asked[0]["tools"][0]["function"]["name"] == "local_cat"
    assert (asked[0]["temperature"], asked[0]["max_tokens"]) == (0.5, 9)
    assert asked[1]["messages"][-1]["content"] == '{"x":1}'


def test_a_supervisor_asks_a_model_for_its_decision(tmp_path):
    lead = {"id": "lead", "typeId": "core.orchestrator.supervisor", "config": {"prompt": "Next?"}}
    decision = {"kind": "terminate", "reason": "all is done"}
    with (
        serving({"content": json.dumps(decision)}) as (url, asked),
        hosted(tmp_path, url, flow("led", [lead])) as host,
    ):
        run = host.start("led")
        host.until(run, "completed")
        (decided,) = host.events(run, "runOrchestrator.decided")
        assert decided["payload"]["decision"] == decision
    assert asked[0]["messages"][-1]["content"] == "Next?"


@pytest.mark.parametrize("kind", ["core.orchestrator.supervisor", "core.ai.callPrompt"])
def test_the_model_gets_the_system_prompt_of_a_manifest(tmp_path, kind):
    made = {"agentId": "core.lead", "persona": "A", "modelClass": "general", "systemPrompt": "Be."}
    node = {"id": "n", "typeId": kind, "config": {"prompt": "Next?"}}
    pinned = flow("pinned", [{**node, "agent": {"agentId": "core.lead"}}])
    manifests = put(tmp_path / "agents", made)
    with (
        serving({"content": '{"kind": "terminate"}'}) as (url, asked),
        hosted(tmp_path, url, pinned, manifests=manifests) as host,
    ):
        host.until(host.start("pinned"), "completed")
    assert asked[0]["messages"] == [
        {"role": "system", "content": "Be."}, {"role": "user", "content": "Next?"}
    ]  # fmt: skip


THOUGHT = "I look at it from every side, and then once more, before I say anything about it. " * 4


@pytest.mark.requirement("WOP-47", "WOP-40", "WOP-43", "WOP-44")
@pytest.mark.parametrize(
    ("thought", "verbosity", "streams"),
    [
        (THOUGHT, "full", True),
        (THOUGHT, "full", False),
        (THOUGHT, "off", True),
        (THOUGHT * 20, "summary", True),
        ("Hm.", "summary", True),
        (f"The key is sk-{'x' * 30} and so is Bearer {'y' * 30} as one sees.", "full", True),
        (f"It said pass phrase of many words, and {'z' * 200}.", "full", True),
    ],
)
def test_reasoning_is_recorded_where_that_is_advertised(tmp_path, thought, verbosity, streams):
    answer = {"content": "Done.", "reasoning_content": thought}
    secrets = {"phrase": "pass phrase of many words"}
    with (
        serving(answer) as (url, _),
        hosted(tmp_path, url, prompting(), streaming=streams, secrets=secrets) as host,
    ):
        run = host.start("prompting", configurable={"reasoningVerbosity": verbosity})
        host.until(run, "completed")
        deltas = [e["payload"] for e in host.events(run, "agent.reasoning.delta")]
        told = "".join(each["delta"] for each in deltas)
        assert [each["sequence"] for each in deltas] == list(range(len(deltas)))
        reasoned = [e["payload"]["reasoning"] for e in host.events(run, "agent.reasoned")]
        assert len(reasoned) == (verbosity != "off")
        assert bool(deltas) == (streams and verbosity != "off")
        if deltas and verbosity == "summary":
            assert cost(told) <= 2 * 512
            assert told.startswith(reasoned[0].removesuffix("…"))
        elif deltas:
            assert reasoned == [told]
        if "sk-" in thought or "phrase" in thought:
            assert "[REDACTED:" in told
            kept = json.dumps(host.events(run))
            assert not any(secret in kept for secret in ("xxxx", "yyyy", "many words"))
        for body in ({"mode": "replay"}, {"mode": "replay", "fromSeq": 4}):
            fork = host.fork(run, **body).json()["runId"]
            host.until(fork, "completed")
            assert pairs(host.events(fork)) == pairs(host.events(run))
        tape = {"program": "prompting", "tape": {"run": run}}
        again = host.http.post("/api/hosts/openwop/runs", json=tape).json()["run"]
        host.until(again, "completed")
        if verbosity == "summary":  # a tape has no options of its own
            assert pairs(host.events(again))[1:] == pairs(host.events(run))[1:]


def test_reasoning_is_sent_before_the_answer_and_recorded_when_the_model_fails(tmp_path):
    stalls = ({"content": "", "reasoning_content": THOUGHT}, HANG)
    with serving(stalls) as (url, _), hosted(tmp_path, url, prompting(), 1) as host:
        run = host.start("prompting")
        assert eventually(lambda: len(host.events(run, "agent.reasoning.delta")) > 3)
        assert host.snapshot(run)["status"] == "running"
        host.until(run, "failed")
        (reasoned,) = host.events(run, "agent.reasoned")
        deltas = host.events(run, "agent.reasoning.delta")
        told = "".join(e["payload"]["delta"] for e in deltas)
        assert reasoned["payload"]["reasoning"] == told
        assert THOUGHT.startswith(told)
        other = host.start("prompting")
        assert eventually(lambda: len(host.events(other, "agent.reasoning.delta")) > 3)
        host.http.post(f"/v1/runs/{other}/cancel", json={})
        host.until(other, "cancelled")
        assert len(host.events(other, "agent.reasoned")) == 1


def test_a_thought_that_a_kill_cut_off_is_closed_before_it_begins_again(tmp_path):
    said = {"content": "Done.", "reasoning_content": THOUGHT}
    with serving(({"content": "", "reasoning_content": THOUGHT}, HANG), said) as (url, _):
        with hosted(tmp_path, url, prompting(), 60, tolerated="delta-not-closed") as host:
            run = host.start("prompting")
            assert eventually(lambda: len(host.events(run, "agent.reasoning.delta")) > 3)
        model = ModelServer(base_url=url, name="m")
        with Host(tmp_path / "home", workflows=(tmp_path / "flows",), model=model) as host:
            host.until(run, "completed")
            assert len(host.events(run, "agent.reasoned")) == 2
            assert len(host.events(run, "node.retried")) == 1


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
    tool = ToolProgram(id="local:cat", command=("sleep", "30"))
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
        ("token_limit: many", "not a whole number"),
        ("token_limit: true", "not a whole number"),
        ("token_limit: 0", "less than 1"),
        ("max_run_duration_ms: 999", "less than 1000"),
        ("streaming: 1", "not true or false"),
        ("tenant: a/b", "the tenant 'a/b'"),
        ("tenant: ''", "the tenant ''"),
        ("keys: [{token: HOME, tenant: 'a/b'}]", "the tenant 'a/b'"),
        ("verbosity: loud", "one of"),
        ("secrets: {a: NOT_SET}", "not set"),
        ("keys: [{principal: ann}]", "without a token: 'ann'"),
        ("roles: {writer: a}", "roles.writer"),
        ("tools: [{id: bare, command: [true]}]", "<scope>:<tool-id>"),
        ("tools: [{id: 'a:b'}]", "without a command"),
        ("tools: [{id: 'a:b', command: [x], colour: red}]", "'colour' for the tool a:b; there are"),
        ("tools: [{id: 'a:b', command: [x], burst: many}]", "burst of the tool a:b: 'many'"),
        ("tools: [{id: 'a:b', command: [x], idempotent: 1}]", "not true or false"),
        ("model: {name: x}", "without a base_url"),
        ("model: {name: x, base_url: y, colour: red}", "'colour'"),
        ("model: {name: x, base_url: y, seconds: many}", "not a number"),
        ("keys: [{token: HOME, test: true}]", "hk_test_"),
        ("a: [", "not YAML"),
        ("streaming: 1\nsurprise: 2", "(?s)not true or false.*unknown setting"),
    ],
)
def test_a_wrong_settings_file_is_an_error_that_says_why(tmp_path, text, why):
    path = tmp_path / "host.yaml"
    path.write_text(text)
    with pytest.raises(TracklogError, match=why):
        settings_of(path, {"HOME": "here"})
