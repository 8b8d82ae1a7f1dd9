"""Sensitive values: they are written nowhere, wherever they are copied to, and change nothing else."""

import json
import signal
import sys
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from support.hosting import Host, Process, flow, pairs, put
from support.waiting import eventually
from tracklog.dialects.checking import check  # noqa: F401  # loads the dialects first
from tracklog.hosts.openwop.definitions import DefinitionRefused
from tracklog.hosts.openwop.redaction import Redactor
from tracklog.hosts.openwop.settings import Settings, ToolProgram
from tracklog.hosts.openwop.workflows import define

CARD = {"number": 41112222333, "owner": {"name": "Ann Bannister", "pins": [7, 8]}, "cvv": "12"}
SECRETS = ("41112222333", "Bannister", '"12"', "[7,8]")


def secret(kind: str = "object", name: str = "card") -> dict:
    return {"name": name, "type": kind, "sensitive": True}


def variable(name: str) -> dict:
    return {"type": "variable", "variableName": name}


def output(node: str, key: str) -> dict:
    return {"type": "connection", "nodeId": node, "outputKey": key}


def identity(name: str, **ports: dict) -> dict:
    return {"id": name, "typeId": "core.identity", "inputs": ports}


def stored(folder: Path) -> str:
    return b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file()).decode("latin-1")


def assert_hidden(host: Host, run: str, secrets=SECRETS) -> None:
    """Nothing of the secrets is in what a client can ask for, in both versions."""
    seen = [host.http.get(f"{path}{run}{part}").json()
            for path in ("/v1/runs/", "/runs/") for part in ("", "/events", ":diff?against=" + run)
            ]  # fmt: skip
    seen.append(host.stream(run, "?streamMode=values"))
    raw = json.dumps(seen, separators=(",", ":"))
    for each in secrets:
        assert each not in raw, each


@pytest.mark.parametrize(
    ("value", "kind", "secrets"),
    [
        (CARD, "object", SECRETS),
        ([{"pin": "long-word"}, 123456], "array", ("long-word", "123456")),
        ("hunter22", "string", ("hunter22",)),
        ("no", "string", ('"no"',)),
        (4711, "number", ("4711",)),
        (7, "number", (":7,", ":7}")),
        (True, "boolean", (":true,",)),
    ],
)
def test_a_sensitive_value_is_masked_wherever_it_is_copied(tmp_path, value, kind, secrets):
    first = identity("a", copy=variable("card"), more={"type": "static", "value": "plain"})
    second = identity("b", again=output("a", "copy"), third=variable("copy"))
    made = flow("copies", [first, second], [("a", "b")], variables=[secret(kind)])
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        run = host.start("copies", inputs={"card": value})
        done = host.until(run, "completed")
        mark = "[REDACTED:card]"
        hidden = {"card": mark, "copy": mark, "again": mark, "third": mark}
        assert done["variables"] == {**hidden, "more": "plain"}
        (end,) = host.events(run, "run.completed")
        assert end["payload"]["outputs"] == {"again": mark, "third": mark}
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "completed")
        assert pairs(host.events(replay)) == pairs(host.events(run))
        if kind not in ("boolean", "number") or value == 4711:  # other numbers are everywhere
            assert_hidden(host, run, secrets)
    if kind in ("object", "array"):
        for each in secrets:
            assert each not in stored(tmp_path / "home")


def test_a_variable_that_is_set_again_is_no_longer_masked_unless_it_is_declared(tmp_path):
    nodes = [
        identity("a", copy=variable("card")),
        identity(
            "b", copy={"type": "static", "value": "open"}, card={"type": "static", "value": 5}
        ),
        identity("c", shown=variable("copy"), hidden=variable("card")),
    ]
    made = flow("again", nodes, [("a", "b"), ("b", "c")], variables=[secret()])
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        run = host.start("again", inputs={"card": CARD})
        found = host.until(run, "completed")["variables"]
        mark = "[REDACTED:card]"
        assert found == {"copy": "open", "shown": "open", "card": mark, "hidden": mark}


def test_a_sensitive_value_is_masked_in_tools_prompts_and_children(tmp_path):
    echo = {"id": "echo", "typeId": "core.tool.call", "config": {"toolId": "openwop.echo:echo"},
            "inputs": {"paid": variable("card"), "short": variable("code")}}  # fmt: skip
    ask = {"id": "ask", "typeId": "core.ai.callPrompt", "config": {"prompt": "Pay {{card}}"},
           "inputs": {"card": variable("card")}}  # fmt: skip
    mapped = {"workflowId": "inner", "inputMapping": {"given": "card", "code": "code"}}
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": mapped}
    ports = {"workflowId": "inner"}
    other = {"id": "other", "typeId": "core.subWorkflow", "config": ports,
             "inputs": {"given": variable("card"), "code": variable("code")}}  # fmt: skip
    inner = flow("inner", [identity("x", kept=variable("given"), short=variable("code"))],
                 variables=[{"name": "given", "type": "object"}, {"name": "code", "type": "string"}])  # fmt: skip
    outer = flow("outer", [echo, ask, sub, other],
                 [("echo", "ask"), ("ask", "sub"), ("sub", "other")],
                 variables=[secret(), secret("string", "code")])  # fmt: skip
    flows = put(tmp_path / "flows", inner, outer)
    with Host(tmp_path / "home", workflows=flows) as host:
        run = host.start("outer", inputs={"card": CARD, "code": "qz"})
        done = host.until(run, "completed")
        (called,) = host.events(run, "agent.toolCalled")
        marks = {"paid": "[REDACTED:card]", "short": "[REDACTED:code]"}
        assert called["payload"]["arguments"] == called["payload"]["inputs"] == marks
        for row in done["childRuns"]:
            assert_hidden(host, row["runId"], (*SECRETS, "qz"))
            found = host.snapshot(row["runId"])["variables"]
            assert found["kept"] == found["given"] == "[REDACTED:given]"
            assert found["short"] == "[REDACTED:code]"
        assert_hidden(host, run)
        assert len(done["childRuns"]) == 2
    for each in SECRETS:
        assert each not in stored(tmp_path / "home"), each


def test_a_sensitive_output_is_masked_in_the_outputs_of_the_run_too(tmp_path):
    node = {**identity("a", pin={"type": "static", "value": 5}), "outputSensitivity": {"pin": True}}
    made = flow("out", [node])
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        run = host.start("out")
        assert host.until(run, "completed")["variables"] == {"pin": "[REDACTED:pin]"}
        for kind in ("node.completed", "run.completed"):
            (event,) = host.events(run, kind)
            assert event["payload"]["outputs"] == {"pin": "[REDACTED:pin]"}


@pytest.mark.parametrize(
    "value", ["gate", "accept", "approval", "core.approvalGate", "asks", "default", "rest", "gat:0"]
)
def test_a_sensitive_value_that_is_a_word_of_the_protocol_changes_no_event(tmp_path, value):
    gate = {"id": "gate", "typeId": "core.approvalGate"}
    made = flow("asks", [gate], variables=[secret("string", "pin")])
    flows = put(tmp_path / "flows", made)
    with Host(tmp_path / "home", workflows=flows) as host:  # every event is checked at its end
        run = host.start("asks", inputs={"pin": value})
        assert host.until(run, "waiting-approval")["interrupt"]["nodeId"] == "gate"
    with Host(tmp_path / "home", workflows=flows) as host:
        assert host.answer(run, "gate", {"action": "accept"}).status_code == 200
        host.until(run, "completed")
        replay = host.fork(run, mode="replay").json()["runId"]
        host.until(replay, "completed")
        assert pairs(host.events(replay)) == pairs(host.events(run))
        assert host.snapshot(run)["variables"]["pin"] == "[REDACTED:pin]"


NEEDS = {
    "tool": {"id": "use", "typeId": "core.tool.call", "config": {"toolId": "openwop.echo:echo"},
             "inputs": {"pin": variable("pin")}},
    "prompt": {"id": "use", "typeId": "core.ai.callPrompt", "config": {"prompt": "{{pin}}"},
               "inputs": {"pin": variable("pin")}},
    "child": {"id": "use", "typeId": "core.subWorkflow",
              "config": {"workflowId": "inner", "inputMapping": {"given": "pin"}}},
}  # fmt: skip


@pytest.mark.parametrize("kind", NEEDS)
def test_a_run_that_needs_a_sensitive_value_after_a_kill_fails_and_uses_no_mark(tmp_path, kind):
    gate = {"id": "gate", "typeId": "core.approvalGate"}
    inner = flow("inner", [identity("x", kept=variable("given"))],
                 variables=[{"name": "given", "type": "string"}])  # fmt: skip
    made = flow("late", [gate, NEEDS[kind]], [("gate", "use")], variables=[secret("string", "pin")])
    flows = str(put(tmp_path / "flows", inner, made)[0])
    with Process(tmp_path / "home", "--workflows", flows) as host:
        runs = [host.start("late", inputs={"pin": "hunter22"}) for _ in "ab"]
        for run in runs:
            host.until(run, "waiting-approval")
        host.answer(runs[0], "gate", {"action": "accept"})
        host.until(runs[0], "completed")
        host.end(signal.SIGKILL)
    with Process(tmp_path / "home", "--workflows", flows) as host:
        host.answer(runs[1], "gate", {"action": "accept"})
        error = host.until(runs[1], "failed")["error"]
        assert error["code"] == "sensitive_value_lost"
        assert error["details"] == {"retryable": False}
        newer = host.http.get(f"/runs/{runs[1]}").json()["error"]
        assert (newer["code"], newer["details"]["code"]) == (
            "internal_error", "sensitive_value_lost",
        )  # fmt: skip
        replay = host.fork(runs[0], mode="replay").json()["runId"]
        host.until(replay, "completed")
        assert pairs(host.events(replay)) == pairs(host.events(runs[0]))
        branch = host.fork(runs[0], mode="branch", fromSeq=6).json()["runId"]
        error = host.until(branch, "failed")["error"]
        assert error["code"] == "sensitive_value_lost"


def test_a_node_behind_a_question_gets_the_sensitive_value_itself(tmp_path):
    script = "import json,sys; given=json.load(sys.stdin); print(json.dumps(len(given['pin'])))"
    tools = {"a:b": ToolProgram(id="a:b", command=(sys.executable, "-c", script))}
    gate = {"id": "gate", "typeId": "core.approvalGate"}
    echo = {"id": "echo", "typeId": "core.tool.call", "config": {"toolId": "openwop.echo:echo"},
            "inputs": {"pin": variable("pin")}}  # fmt: skip
    again = identity("again", pin=output("echo", "result"))
    use = {"id": "use", "typeId": "core.tool.call", "config": {"toolId": "a:b"},
           "inputs": {"pin": variable("pin")}}  # fmt: skip
    nodes, edges = [echo, gate, use], [("echo", "gate"), ("gate", "use")]
    made = flow("late", nodes, edges, variables=[secret("string", "pin")])
    inside = flow("inside", [echo, gate, again, {**use, "inputs": {"pin": output("echo", "result")}}],
                  [("echo", "gate"), ("gate", "again"), ("again", "use")],
                  variables=[secret("string", "pin")])  # fmt: skip
    flows = put(tmp_path / "flows", made, inside)
    with Host(tmp_path / "home", workflows=flows, tools=tools) as host:
        for name, length in (("late", len("hunter22")), ("inside", 1)):
            run = host.start(name, inputs={"pin": "hunter22"})
            host.until(run, "waiting-approval")
            assert host.snapshot(run)["variables"]["result"] == {"pin": "[REDACTED:pin]"}
            host.answer(run, "gate", {"action": "accept"})
            assert host.until(run, "completed")["variables"]["result"] == length
            assert_hidden(host, run, ("hunter22",))
            assert host.engine.log(run).unwritten == {}
        waits = host.start("inside", inputs={"pin": "hunter22"})
        host.until(waits, "waiting-approval")
    with Host(tmp_path / "home", workflows=flows, tools=tools) as host:
        host.answer(waits, "gate", {"action": "accept"})  # the mark is a part of a value now
        assert host.until(waits, "failed")["error"]["code"] == "sensitive_value_lost"


def test_a_child_that_was_begun_before_a_kill_still_has_its_sensitive_input_masked(tmp_path):
    slow = {"id": "slow", "typeId": "core.delay", "config": {"delayMs": 1500}}
    inner = flow("inner", [slow, identity("x", kept=variable("given"))], [("slow", "x")],
                 variables=[{"name": "given", "type": "string"}])  # fmt: skip
    made = flow("late", [NEEDS["child"]], variables=[secret("string", "pin")])
    flows = str(put(tmp_path / "flows", inner, made)[0])
    with Process(tmp_path / "home", "--workflows", flows) as host:
        run = host.start("late", inputs={"pin": "hunter22"})
        assert eventually(lambda: host.snapshot(run).get("childRuns"))
        host.end(signal.SIGKILL)
    with Process(tmp_path / "home", "--workflows", flows) as host:
        (row,) = host.until(run, "completed")["childRuns"]
        found = host.snapshot(row["runId"])["variables"]
        assert found == {"given": "[REDACTED:given]", "kept": "[REDACTED:given]"}
    assert "hunter22" not in stored(tmp_path / "home")


def test_what_a_tool_returns_of_a_sensitive_value_is_masked(tmp_path):
    script = "import json,sys; c=json.load(sys.stdin)['c']; print(json.dumps({'o': c['owner'], 'n': c['number'], 'text': 'for ' + c['owner']['name']}))"
    tool = ToolProgram(id="a:b", command=(sys.executable, "-c", script))
    call = {"id": "call", "typeId": "core.tool.call", "config": {"toolId": "a:b"},
            "inputs": {"c": variable("card")}}  # fmt: skip
    made = flow("calls", [call], variables=[secret()])
    flows = put(tmp_path / "flows", made)
    with Host(tmp_path / "home", workflows=flows, tools={"a:b": tool}) as host:
        run = host.start("calls", inputs={"card": CARD})
        found = host.until(run, "completed")["variables"]["result"]
        mark = "[REDACTED:card]"
        assert found == {"o": mark, "n": mark, "text": f"for {mark}"}
        assert_hidden(host, run)


def test_a_child_knows_the_secrets_in_what_it_is_given(tmp_path):
    echo = {"id": "echo", "typeId": "core.tool.call", "config": {"toolId": "openwop.echo:echo"},
            "inputs": {"pin": variable("pin")}}  # fmt: skip
    mapped = {"workflowId": "inner", "inputMapping": {"given": "result"}}
    sub = {"id": "sub", "typeId": "core.subWorkflow", "config": mapped}
    inner = flow("inner", [identity("x", kept=variable("given"))],
                 variables=[{"name": "given", "type": "object"}])  # fmt: skip
    outer = flow("outer", [echo, sub], [("echo", "sub")], variables=[secret("string", "pin")])
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", inner, outer)) as host:
        run = host.start("outer", inputs={"pin": "hunter22"})
        (row,) = host.until(run, "completed")["childRuns"]
        found = host.snapshot(row["runId"])["variables"]
        assert found["kept"] == found["given"] == {"pin": "[REDACTED:pin]"}
        assert_hidden(host, row["runId"], ("hunter22",))
    assert "hunter22" not in stored(tmp_path / "home")


GATES = {
    "core.approvalGate": ({}, "editedArtifactData"),
    "core.clarificationGate": ({"questions": [{"id": "q", "question": "?"}]}, "answers"),
    "core.dispatch": ({}, "answer"),
    "core.interrupt": (
        {"kind": "external-event", "eventType": "paid", "correlation": {"id": 1}}, "sum"),
}  # fmt: skip


@pytest.mark.parametrize("kind", GATES)
def test_the_answer_of_a_person_is_recorded_so_it_cannot_be_sensitive(kind):
    config, name = GATES[kind]
    node = {"id": "n", "typeId": kind, "config": config}
    lead = {"id": "l", "typeId": "core.orchestrator.supervisor", "config": {"prompt": "Next?"}}
    nodes, edges = ([lead, node], [("l", "n")]) if kind == "core.dispatch" else ([node], [])
    made = flow("w", [*nodes[:-1], {**node, "outputSensitivity": {name: True}}], edges)
    with pytest.raises(DefinitionRefused) as refused:
        define(made, Settings())
    assert refused.value.details == {"field": f"outputSensitivity.{name}", "nodeId": "n"}
    made = flow("w", nodes, edges, variables=[secret("string", name)])
    if kind == "core.interrupt":  # what an event has is seen only when it comes
        define(made, Settings())
        return
    with pytest.raises(DefinitionRefused) as refused:
        define(made, Settings())
    assert refused.value.details == {"field": "variables.sensitive", "nodeId": "n"}


def test_an_event_with_a_sensitive_member_is_refused(tmp_path):
    config, _ = GATES["core.interrupt"]
    node = {"id": "wait", "typeId": "core.interrupt", "config": config}
    made = flow("waits", [node], variables=[secret("string", "sum")])
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", made)) as host:
        run = host.start("waits")
        host.until(run, "waiting-external")
        answer = host.answer(run, "wait", {"id": 1, "sum": "hunter22"})
        assert (answer.status_code, answer.json()["details"]) == (
            400, {"field": "resumeValue.sum"},
        )  # fmt: skip
        assert host.answer(run, "wait", {"id": 1}).status_code == 200
        host.until(run, "completed")
    assert "hunter22" not in stored(tmp_path / "home")


@pytest.mark.parametrize("where", ["variable", "setting"])
def test_a_secret_is_masked_however_a_text_spells_it(where):
    secret = 'p\u00e4ss "word"/\\one\ntwo\U0001f600'
    redactor = Redactor({"pin": secret}) if where == "setting" else Redactor().also({"pin": secret})
    once = json.dumps({"p": secret})
    for text in (
        secret, repr({"p": secret}), once, json.dumps({"p": secret}, ensure_ascii=False),
        once.replace("/", "\\/"), json.dumps([once]), repr(once), json.dumps(json.dumps([secret])),
        quote(secret), quote(secret, safe=""), quote_plus(secret),
    ):  # fmt: skip
        assert "one" in text
        cleaned = redactor.clean({"said": f"<{text}>"})["said"]
        assert "[REDACTED:pin]" in cleaned, text
        assert "one" not in cleaned, cleaned
        assert "ss" not in cleaned, cleaned


def test_an_id_of_a_run_is_not_cut_by_four_digits_of_a_secret():
    redactor = Redactor().also({"pin": 4711})
    run = "run-00004711-0000-4000-8000-000000004711"
    assert redactor.clean({"childRunId": run, "n": 4711, "text": "a 4711 b", "list": [4711.5]}) == {
        "childRunId": run, "n": "[REDACTED:pin]", "text": "a [REDACTED:pin] b", "list": [4711.5],
    }  # fmt: skip
