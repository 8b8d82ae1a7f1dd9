"""The workflow host: flows of real processes, recorded, the same with and without a recorder."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from support.forking import Tracklog, tracklog
from support.transcribing import bodies, run_id
from tracklog import RecordedAnswer, provider
from tracklog.home.home import Home
from tracklog.hosts.workflow import agents, processes, router, values
from tracklog.hosts.workflow.audit import LONGEST, Audit
from tracklog.hosts.workflow.display import Display
from tracklog.hosts.workflow.engine import DEEPEST, WorkflowExecution
from tracklog.hosts.workflow.history import History, recorded_in
from tracklog.hosts.workflow.host_context import HostContext, read
from tracklog.hosts.workflow.loading import BadFlow
from tracklog.model.errors import TracklogError
from tracklog.recording.recorder import NullRecorder, Recorder
from tracklog.recording.recorder.recorder import Recorder as RecorderClass
from tracklog.recording.transcript import lint, load, tree

EXAMPLES = Path(__file__).parents[2] / "examples" / "workflow"

AGENT = """\
import json, os, sys, time
def put(**event): print(json.dumps(event), flush=True)
put(type="thread.started", thread_id="t-" + str(len(sys.argv)))
put(type="turn.started")
put(type="item.started", item={"id": "i1", "type": "command_execution", "command": "ls", "status": "in_progress"})
put(type="item.completed", item={"id": "i1", "type": "command_execution", "command": "ls", "aggregated_output": "a.py", "exit_code": 0, "status": "completed"})
put(type="item.completed", item={"id": "i2", "type": "agent_message", "text": "It is " + sys.argv[1]})
"""
ENDS = {
    "ok": "put(type='turn.completed', usage={'input_tokens': 3, 'output_tokens': 2})\n",
    "fails": "sys.stderr.write('out of tokens'); sys.exit(3)\n",
    "hangs": "time.sleep(60)\n",
    "dies": "os.kill(os.getpid(), 9)\n",
}


class World:
    """A folder with flows, agents that are real programs, and a home."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        for name, end in ENDS.items():
            (folder / f"{name}.py").write_text(AGENT + end)
        (folder / "plugins.py").write_text(
            "import gc, threading\n"
            "SEEN = []\n"
            "def look(**given):\n"
            "    SEEN.append(given)\n"
            "    return {'given': given, 'count': len(SEEN)}\n"
            "def bad(**given): raise ValueError('no')\n"
            "def add(a: int, b: int) -> int: return a + b\n"
        )

    def agent(self, end: str) -> str:
        words = json.dumps([sys.executable, str(self.folder / f"{end}.py"), "{{prompt}}"])
        return f"{{provider: codex, command: {words}, system: Be brief.}}"

    def flow(self, name: str, steps: str, head: str = "") -> Path:
        path = self.folder / f"{name}.yaml"
        body = textwrap.indent(textwrap.dedent(steps).strip(), "  ")
        path.write_text(f"name: {name}\n{textwrap.dedent(head)}\nsteps:\n{body}\n")
        return path

    def run(self, path: Path, recorder=None, *, storage=None, **inputs):
        """The outcome, the audit trail and the display of one run in this process."""
        shown: list[bytes] = []
        storage = storage or self.folder / "storage"
        ids = iter([f"{n:08x}-0000-4000-8000-000000000000" for n in range(1, 99)])
        audit = Audit(storage / "audit.jsonl", clock=lambda: 1_700_000_000.0)
        context = HostContext(
            display=Display(shown.append), audit=audit, environment=os.environ, storage=storage,
            new_id=lambda: next(ids),
        )  # fmt: skip
        first = next(ids)
        recorder = recorder or Recorder.try_open(first, storage)
        with recorder:
            execution = WorkflowExecution(
                context, read(path), inputs, run_id=first, recorder=recorder
            )
            outcome = asyncio.run(execution.run())
        return outcome, audit.path.read_bytes(), b"".join(shown)

    def events(self, number: int = 1) -> list[dict]:
        name = f"{number:08x}-0000-4000-8000-000000000000.jsonl"
        return bodies(self.folder / "storage" / "transcripts" / name)

    def host(self, path: Path, *options: str) -> subprocess.CompletedProcess:
        return tracklog(self.home, "host", "workflow", path, *options)

    def started(self, path: Path, *options: str) -> subprocess.Popen:
        ends = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return Tracklog("host", "workflow", path, "--home", self.home, *options, **ends)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def types(events) -> list[str]:
    return [event["type"] for event in events]


def three_levels(world: World) -> Path:
    world.flow(
        "grandchild",
        f"""
        - {{name: ask, kind: agent, prompt: deep, agent: {world.agent("ok")}}}
        """,
    )
    world.flow(
        "child",
        """
        - {name: down, kind: call_workflow, workflow: grandchild.yaml}
        """,
    )
    return world.flow(
        "parent",
        f"""
        - {{name: hello, kind: command, run: echo hello}}
        - {{name: sum, kind: operation, tool: add, input: {{a: 1, b: 2}}}}
        - {{name: look, kind: look, input: {{what: "{{{{steps.sum.result}}}}"}}}}
        - {{name: ask, kind: agent, prompt: fine, agent: {world.agent("ok")}}}
        - {{name: down, kind: call_workflow, workflow: child.yaml}}
        - {{name: fails, kind: command, run: "echo some; exit 4", on_error: continue}}
        - {{name: end, kind: terminal, message: "{{{{steps.ask.result}}}}"}}
        """,
        head="""\
            tools: {add: "plugins.py:add"}
            plugins: {look: "plugins.py:look"}
            """,
    )


def unopenable(world: World, storage: Path):
    storage.mkdir(exist_ok=True)
    (storage / "transcripts").write_text("a file where a folder should be")


@pytest.mark.requirement("AWF-5", "AWF-68", "AWF-69", "AWF-43", "AWF-78")
@pytest.mark.parametrize("without", ["none", "locked", "unopenable", "broken"])
def test_audit_display_and_result_are_the_same_with_and_without_the_recorder(world, without):
    path = three_levels(world)
    recorded = world.run(path)
    storage = world.folder / "other"
    first = "00000001-0000-4000-8000-000000000000"
    if without == "none":
        bare = world.run(path, NullRecorder(), storage=storage)
    elif without == "locked":
        with Recorder.open(first, storage):
            bare = world.run(path, storage=storage)
    elif without == "unopenable":
        unopenable(world, storage)
        bare = world.run(path, storage=storage, recorder=None)
    else:
        recorder = Recorder.open(first, storage)
        recorder.close()  # every emission fails from here on
        bare = world.run(path, recorder, storage=storage)
    assert recorded == bare
    assert recorded[0].status == "ok"
    assert recorded[0].result == "It is fine"
    assert len(world.events()) > 10


@pytest.mark.requirement("AWF-79", "AWF-63")
def test_the_audit_trail_is_a_file_of_its_own_with_a_pair_for_each_run(world):
    _, audit, _ = world.run(three_levels(world))
    lines = [json.loads(line) for line in audit.splitlines()]
    assert [line["event"] for line in lines] == ["workflow.started"] * 3 + [
        "workflow.completed"
    ] * 3
    ids = [line["execution_id"] for line in lines]
    assert ids[:3] == ids[:2:-1]
    files = {path.stem for path in (world.folder / "storage" / "transcripts").iterdir()}
    assert files == set(ids)
    assert (world.folder / "storage" / "audit.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("AWF-79")
def test_an_audit_line_stays_small_whatever_went_wrong(world):
    audit = Audit(world.folder / "audit.jsonl")
    audit.started("r", "n" * 9000)
    audit.completed("r", "\x01" * 9000, "failed", "\ud800\n\u2028é" * 9000)
    lines = audit.path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 2
    assert max(map(len, lines)) <= LONGEST


@pytest.mark.requirement("AWF-1", "AWF-44", "AWF-45", "AWF-47", "AWF-48", "AWF-75", "AWF-46", "AWF-19", "AWF-20")  # fmt: skip
def test_three_levels_are_three_files_linked_both_ways(world):
    outcome, *_ = world.run(three_levels(world))
    assert outcome.status == "ok"
    files = sorted((world.folder / "storage" / "transcripts").iterdir())
    assert len(files) == 3
    runs, flaws = load(*files)
    assert not any(flaws.values())
    [root], findings = tree(runs)
    assert not findings
    assert root.run_id.startswith("00000001")
    assert root.children[0].run_id.startswith("00000002")
    assert root.children[0].children[0].run_id.startswith("00000003")
    assert all("parent_run_id" not in event for event in world.events(1))
    for number in (2, 3):
        parent = f"{number - 1:08x}-0000-4000-8000-000000000000"
        assert {event["parent_run_id"] for event in world.events(number)} == {parent}
    for path in files:
        assert [flaw.name for flaw in lint(path)] == []
        told = types(bodies(path))
        assert (told[0], told[-1]) == ("run.started", "run.completed")


@pytest.mark.requirement("AWF-1", "AWF-17", "AWF-44")
def test_a_child_that_cannot_start_has_its_two_lines_and_its_audit_pair(world):
    path = world.flow(
        "parent", "- {name: down, kind: call_workflow, workflow: '{{inputs.which}}'}",
        head="inputs: {which: {default: missing.yaml}}",
    )  # fmt: skip
    outcome, audit, _ = world.run(path)
    assert outcome.status == "failed"
    assert types(world.events(2)) == ["run.started", "run.completed"]
    assert "cannot be read" in world.events(2)[-1]["payload"]["error"]
    assert audit.count(b"workflow.started") == audit.count(b"workflow.completed") == 2
    loop = world.flow("itself", "- {name: down, kind: call_workflow, workflow: itself.yaml}")
    outcome, *_ = world.run(loop, storage=world.folder / "storage2")
    assert "calls itself" in outcome.error


def test_the_condition_of_a_loop_knows_which_round_would_be_next(world):
    path = world.flow(
        "rounds",
        """
        - name: loop
          kind: while
          condition: "{{index}} < 2"
          limit: 2
          steps: [{name: tick, kind: command, run: "echo {{index}}"}]
        """,
    )
    outcome, *_ = world.run(path)
    assert (outcome.status, outcome.error) == ("ok", None)
    begun = [e["iteration"] for e in world.events(1) if e["path"] == "loop.tick"]
    assert begun == [0, 0, 1, 1]


def test_what_no_program_can_be_called_with_fails_its_step_alone(world):
    path = world.flow(
        "odd",
        """
        - {name: nul, kind: command, run: "echo a\\0b", on_error: continue}
        - {name: half, kind: command, run: [echo, "\\uD800"], on_error: continue}
        - {name: where, kind: command, run: ls, cwd: "\\0", on_error: continue}
        - {name: ask, kind: agent, agent: {command: [echo, "{{prompt}}"]}, prompt: "\\0",
           on_error: continue}
        - {name: down, kind: call_workflow, workflow: "{{inputs.which}}", on_error: continue}
        - {name: after, kind: command, run: echo fine}
        """,
        head='inputs: {which: {default: "a\\0.yaml"}}',
    )
    outcome, *_ = world.run(path)
    assert (outcome.status, outcome.error) == ("ok", None)


@pytest.mark.requirement("AWF-18", "AWF-16", "AWF-17", "AWF-10")
def test_every_kind_of_step_has_its_pair_however_it_ends(world):
    path = world.flow(
        "kinds",
        f"""
        - {{name: sh, kind: command, run: exit 3, on_error: continue}}
        - {{name: op, kind: operation, tool: add, input: {{a: 1}}, on_error: continue}}
        - {{name: plug, kind: bad, on_error: continue}}
        - {{name: ask, kind: agent, prompt: x, agent: {world.agent("fails")}, on_error: continue}}
        - {{name: slow, kind: command, run: sleep 60, timeout: 0.2, on_error: continue}}
        - name: each
          kind: for_each
          items: [a, b, c]
          steps: [{{name: inner, kind: command, run: "echo {{{{item}}}}"}}]
        - name: rounds
          kind: while
          condition: "{{{{steps.tick.result}}}} != 4"
          steps: [{{name: tick, kind: command, run: "echo {{{{index}}}}"}}]
        - name: both
          kind: parallel
          branches:
            left: [{{name: l, kind: command, run: "true"}}]
            right: [{{name: r, kind: command, run: "true"}}]
        - {{name: never, kind: command, run: "true", when: "1 == 2"}}
        - {{name: again, kind: command, run: "exit 1", retry: 2, on_error: continue}}
        - {{name: stop, kind: terminal, status: failure, message: enough}}
        """,
        head="""\
            tools: {add: "plugins.py:add"}
            plugins: {bad: "plugins.py:bad"}
            """,
    )
    outcome, *_ = world.run(path)
    assert (outcome.status, outcome.error) == ("failed", "enough")
    events = world.events()
    starts = {e["seq"]: e for e in events if e["type"] == "step.started"}
    ends = {e["step_seq"]: e for e in events if e["type"] == "step.completed"}
    assert starts.keys() == ends.keys()
    kinds = {e["payload"]["kind"] for e in starts.values()}
    assert kinds == {
        "command", "operation", "bad", "agent", "for_each", "while", "parallel", "terminal",
    }  # fmt: skip
    statuses = {starts[seq]["path"]: end["payload"]["status"] for seq, end in ends.items()}
    assert statuses["slow"] == "timeout"
    assert statuses["never"] == "skipped"
    assert {statuses[name] for name in ("sh", "op", "plug", "ask")} == {"failed"}
    places = [(e["path"], e["iteration"]) for e in starts.values()]
    assert [i for p, i in places if p == "each.inner"] == [0, 1, 2]
    assert [i for p, i in places if p == "rounds.tick"] == [0, 1, 2, 3, 4]
    assert {"both.l", "both.r"} <= {p for p, _ in places}
    tries = [e.get("attempt", 1) for e in starts.values() if e["path"] == "again"]
    assert tries == [1, 2, 3]
    assert events[-1]["type"] == "run.completed"


@pytest.mark.requirement("AWF-3", "AWF-21", "AWF-22", "AWF-23", "AWF-24")
@pytest.mark.parametrize(
    ("end", "status"), [("ok", "ok"), ("fails", "error"), ("hangs", "timeout"), ("dies", "killed")]
)
def test_the_output_of_an_agent_is_recorded_however_it_ends(world, end, status):
    path = world.flow(
        "asks", f"- {{name: ask, kind: agent, prompt: x, timeout: 2, agent: {world.agent(end)}}}"
    )
    outcome, *_ = world.run(path)
    assert (outcome.status == "ok") == (end == "ok")
    events = world.events()
    [asked] = [e["payload"] for e in events if e["type"] == "message.user"]
    assert [b["part"] for b in asked["blocks"]] == ["prompt", "system_prompt"]
    assert [b["text"] for b in asked["blocks"]] == ["x", "Be brief."]
    said = [e["payload"] for e in events if e["type"] == "message.assistant"]
    texts = [b["text"] for m in said for b in m["blocks"] if b["type"] == "text"]
    assert texts == ["It is x"]
    assert said[-1]["status"] == status
    assert types(events).count("tool.call") == types(events).count("tool.result") == 1
    call = next(e for e in events if e["type"] == "tool.call")
    assert call["payload"]["fidelity"] == "agent_emitted"
    order = types(events)
    assert order.index("message.user") < order.index("tool.call")


def test_the_answers_of_a_run_are_those_of_its_tools_commands_and_plugins_once_each(world):
    path = world.flow(
        "answers",
        """
        - {name: sum, kind: operation, tool: add, input: {a: 1, b: 2}}
        - {name: look, kind: look}
        - {name: hello, kind: command, run: echo hello}
        - {name: end, kind: terminal, message: done}
        """,
        head="""
            tools: {add: "plugins.py:add"}
            plugins: {look: "plugins.py:look"}
        """,
    )
    assert world.run(path)[0].status == "ok"
    runs, _ = load(*(world.folder / "storage" / "transcripts").iterdir())
    (run,) = runs.values()
    assert [answer.kind for answer in recorded_in(run)] == ["tool", "plugin", "command"]


def test_the_server_of_a_tool_that_an_agent_calls_is_recorded_with_the_call(world):
    script = AGENT.replace('"type": "command_execution", "command": "ls"', '"type": "mcp_tool_call", "server": "files", "tool": "ls", "arguments": {}')  # fmt: skip
    (world.folder / "ok.py").write_text(script + ENDS["ok"])
    path = world.flow(
        "one", f"- {{name: ask, kind: agent, prompt: Well, agent: {world.agent('ok')}}}"
    )
    assert world.run(path)[0].status == "ok"
    call = next(e["payload"] for e in world.events() if e["type"].startswith("tool."))
    assert call["tool_server"] == "files"


@pytest.mark.requirement("AWF-23", "AWF-24", "AWF-35", "AWF-70")
def test_a_tool_is_recorded_at_the_router_with_its_answer_or_its_error(world):
    path = world.flow(
        "tools",
        """
        - {name: good, kind: operation, tool: add, input: {a: 1, b: 2}}
        - {name: wrong, kind: operation, tool: add, input: {a: 1}, on_error: continue}
        - {name: hard, kind: operation, tool: add, input: {a: 1, b: x}, on_error: continue}
        """,
        head='tools: {add: "plugins.py:add"}',
    )
    assert world.run(path)[0].status == "ok"
    tools = [e["payload"] for e in world.events() if e["type"].startswith("tool.")]
    assert {tool["fidelity"] for tool in tools} == {"router"}
    results = tools[1::2]
    assert [call["call_id"] for call in tools[::2]] == [each["call_id"] for each in results]
    assert results[0]["output"] == 3
    assert "missing a required argument" in results[1]["error"]
    assert results[2]["error"].startswith("TypeError")


@pytest.mark.requirement("AWF-70", "AWF-78")
def test_a_plug_in_is_given_its_input_and_nothing_that_records(world, monkeypatch):
    seen = []

    def spy(**given):
        frame, locals_of_ours = sys._getframe(), given
        seen.append((locals_of_ours, frame.f_code.co_argcount))
        return {"n": 1, **given}

    monkeypatch.setattr(router, "load_function", lambda *_: spy)
    path = world.flow(
        "plug", "- {name: a, kind: look, input: {x: [1, {y: 2}]}}",
        head='plugins: {look: "plugins.py:look"}',
    )  # fmt: skip
    with_recorder = world.run(path)
    without = world.run(path, NullRecorder(), storage=world.folder / "other")
    assert with_recorder == without
    assert [given for given, _ in seen] == [{"x": [1, {"y": 2}]}] * 2
    inside = [e for e in world.events() if e.get("step_seq") and e["type"] != "step.completed"]
    assert inside == []  # nothing of the plug-in's own is captured
    assert not any(isinstance(each, RecorderClass) for given, _ in seen for each in given.values())


def test_every_fault_of_a_flow_is_reported_at_load_with_its_place(world):
    path = world.folder / "bad.yaml"
    path.write_text(
        "name: bad\n"
        "steps:\n"
        "  - {name: a, kind: command, run: 'echo {{inputs.nope}}'}\n"
        "  - {name: a, kind: agent, agent: nobody, prompt: hi}\n"
        "  - {name: b, kind: whatever}\n"
        "  - {name: c, kind: operation, tool: none}\n"
        "  - {name: d, kind: call_workflow, workflow: gone.yaml}\n"
        "  - {name: e, kind: command, run: '{{steps.f.result}}'}\n"
    )
    with pytest.raises(BadFlow) as caught:
        read(path)
    places = [fault.place.removeprefix(f"{path}:").split(":")[0] for fault in caught.value.faults]
    assert places == ["3", "4", "4", "5", "6", "7", "8"]
    path.write_text("name: bad\nname: again\nsteps:\n  - {name: a, kind: command, rum: x}\n")
    with pytest.raises(BadFlow) as caught:
        read(path)
    told = "\n".join(map(str, caught.value.faults))
    assert "name: the key occurs twice" in told
    assert "rum: is an unknown key" in told
    assert "run: is missing" in told
    path.write_text("name: [\n")
    with pytest.raises(BadFlow, match=r"bad\.yaml:2:1: it is not YAML"):
        read(path)
    path.write_text("")
    with pytest.raises(BadFlow, match=r"bad\.yaml: is empty"):
        read(path)


def test_a_kind_that_does_not_exist_is_the_only_fault_of_its_step(world):
    path = world.folder / "misspelt.yaml"
    path.write_text(
        "name: bad\n"
        "plugins: {wave: 'wave.py:wave'}\n"
        "steps:\n"
        "  - {name: a, kind: for_eac, items: [1], steps: [{name: b, kind: command, run: x}]}\n"
        "  - name: c\n"
        "    kind: parallel\n"
        "    branches: {plugin: [{name: d, kind: xyz, run: y}, {name: e, kind: wav, run: z}]}\n"
    )
    with pytest.raises(BadFlow) as caught:
        read(path)
    assert [(fault.at, fault.message.split(", command")[0]) for fault in caught.value.faults] == [
        ("steps[0].kind", "there is no kind 'for_eac'; did you mean for_each?"),
        ("steps[1].branches.plugin[0].kind", "there is no kind 'xyz'; the kinds are: agent"),
        ("steps[1].branches.plugin[1].kind", "there is no kind 'wav'; did you mean wave?"),
    ]


def test_a_missing_flow_is_an_error(world):
    done = tracklog(world.home, "host", "workflow", world.folder / "nope.yaml")
    assert done.returncode == 2
    assert b"nope.yaml' does not exist" in done.stderr


def test_what_is_filled_into_a_shell_line_is_never_a_command(world):
    path = world.flow(
        "quoted", "- {name: a, kind: command, run: 'printf %s {{inputs.x}}'}",
        head="inputs: {x: {required: true}}",
    )  # fmt: skip
    outcome, _, shown = world.run(path, x="$(touch hacked); `id` ' \"")
    assert outcome.status == "ok"
    assert not (world.folder / "hacked").exists()
    assert b"$(touch hacked)" in shown
    with pytest.raises(TracklogError, match="the input 'x' is missing"):
        world.run(path)


@pytest.mark.requirement("AWF-31")
def test_a_command_block_holds_the_command_that_was_executed(world):
    path = world.flow(
        "resolved",
        """
        - {name: line, kind: command, run: "printf '%s|' {{inputs.who}} now"}
        - {name: words, kind: command, run: [printf, "%s|", "{{inputs.who}}", "{{steps.line.result}}"]}
        - name: each
          kind: for_each
          items: [one, "two three"]
          steps: [{name: item, kind: command, run: "printf '%s|' {{item}} {{index}}"}]
        - {name: skipped, kind: command, run: "echo {{inputs.who}}", when: "1 == 2"}
        - {name: plain, kind: command, run: "echo a | tr a b"}
        """,
        head="inputs: {who: {required: true}}",
    )
    outcome, *_ = world.run(path, who="Ada 'L' & co")
    assert outcome.status == "ok", outcome
    began = {}
    commands = []
    for event in world.events():
        payload = event["payload"]
        if event["type"] == "step.started" and payload["kind"] == "command":
            (block,) = payload["blocks"]
            assert (block["type"], block["fidelity"]) == ("command", "router")
            began[event["path"]] = block["command"]
            commands.append(block["command"])
        elif event["type"] == "step.completed" and payload["kind"] == "command":
            if payload["status"] == "skipped":
                continue
            # What is recorded can be run as it stands, and does what the step did.
            again = subprocess.run(
                ["sh", "-c", began[event["path"]]], capture_output=True, check=True
            )
            assert again.stdout.decode().rstrip("\n") == payload["result"]
    assert commands == [
        """printf '%s|' 'Ada '"'"'L'"'"' & co' now""",
        """printf '%s|' 'Ada '"'"'L'"'"' & co' 'Ada '"'"'L'"'"' & co|now|'""",
        "printf '%s|' one 0",
        "printf '%s|' 'two three' 1",
        """echo 'Ada '"'"'L'"'"' & co'""",
        "echo a | tr a b",
    ]


def test_conditions_compare_what_they_refer_to():
    known = {"steps": {"a": {"result": "3", "list": [1, 2]}}}
    assert values.holds("{{steps.a.result}} >= 3", known)
    assert values.holds("{{steps.a.list}} contains 2", known)
    assert not values.holds("not {{steps.a.result}}", known)
    with pytest.raises(values.NoValue):
        values.holds("{{steps.a.result}} < x", known)
    with pytest.raises(values.NoValue):
        values.holds("{{steps.b.result}}", known)


def test_a_conversation_asks_one_after_the_other_and_goes_on_with_the_session(world):
    words = json.dumps([sys.executable, str(world.folder / "ok.py"), "{{prompt}}"])
    agent = f'{{provider: codex, command: {words}, again: [--go-on, "{{{{session}}}}"]}}'
    path = world.flow(
        "talk", f"- {{name: ask, kind: agent, prompt: [one, two], system: S, agent: {agent}}}"
    )
    assert world.run(path)[0].status == "ok"
    asked = [e["payload"] for e in world.events() if e["type"] == "message.user"]
    assert [[b["text"] for b in each["blocks"]] for each in asked] == [["one", "S"], ["two", "S"]]
    sessions = [
        e["payload"]["provider_session_id"] for e in world.events() if e["payload"].get("final")
    ]
    assert sessions == ["t-2", "t-4"]  # the second process was given two words more


def test_the_command_line_runs_an_example_into_the_journal(world):
    done = world.host(EXAMPLES / "review.yaml")
    assert done.returncode == 0, done.stderr
    assert b"[each.ask 1] Looks good." in done.stdout
    with Home(world.home, readonly=True) as home:
        assert Counter(family for family, _ in home.runs()) == {"awf": 2, "tracklog": 1}
        lines = {record.line for record in home.journal.records()}
    files = (world.home / "transcripts").glob("*.jsonl")
    assert {line for path in files for line in path.read_bytes().splitlines()} <= lines
    assert not list((world.home / "hosts" / "workflow").iterdir())


SPOKEN = {
    "claude": [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m"},
        {"type": "assistant", "message": {"id": "1", "content": [{"type": "text", "text": "Yes."}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "Yes."},
    ],
    "codex": [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "Yes."}},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
    ],
    "gemini": [
        {"type": "init", "session_id": "s", "model": "m"},
        {"type": "message", "role": "assistant", "content": "Yes.", "delta": True},
        {"type": "result", "status": "success", "stats": {"input_tokens": 1, "output_tokens": 1}},
    ],
    "copilot": [
        {"type": "session.start", "data": {"sessionId": "s", "copilotVersion": "1"}},
        {"type": "assistant.message", "data": {"messageId": "1", "content": "Yes."}},
        {"type": "result", "sessionId": "s", "exitCode": 0},
    ],
}  # fmt: skip
"""What the command line of each provider prints."""


@pytest.mark.requirement("AWF-22", "AWF-38")
@pytest.mark.parametrize("name", SPOKEN)
def test_each_providers_own_command_line_is_asked_and_understood(world, monkeypatch, name):
    programs = world.folder / "bin"
    programs.mkdir()
    (programs / "said").write_text("".join(json.dumps(line) + "\n" for line in SPOKEN[name]))
    program = programs / name
    program.write_text(f'#!/bin/sh\nfor word; do echo "$word"; done > {programs}/asked\n'
                       f"cat {programs}/said\n")  # fmt: skip
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    path = world.flow("one", f"- {{name: ask, kind: agent, prompt: Well, agent: {{provider: {name}}}}}")  # fmt: skip
    outcome, *_ = world.run(path)
    assert outcome.status == "ok", outcome
    assert "Well" in (programs / "asked").read_text().splitlines()
    said = [e["payload"] for e in world.events() if e["type"] == "message.assistant"]
    assert [block.get("text") for each in said for block in each["blocks"]] == ["Yes."]
    assert (said[-1]["provider"], said[-1]["status"]) == (name, "ok")


@pytest.mark.requirement("AWF-27", "AWF-32")
@pytest.mark.parametrize("name", SPOKEN)
def test_text_and_stream_blocks_on_disk_hold_what_the_agent_printed(world, name):
    text = 'Yes: "{{prompt}}" \\n é \u2028 😀  two  spaces'
    told = json.loads(json.dumps(SPOKEN[name]).replace("Yes.", json.dumps(text)[1:-1]))
    odd = ['{"type":"zzz.unheard-of","a": [1, 2.50, null], "é":"\\u00e9"}', "no JSON at all  "]
    raw = [json.dumps(line) for line in told]
    printed = [raw[0], odd[0], *raw[1:-1], odd[1], raw[-1]]
    (world.folder / "printed").write_text("\n".join(printed) + "\n", encoding="utf-8")
    agent = f"{{provider: {name}, command: [cat, {world.folder}/printed]}}"
    path = world.flow("one", f"- {{name: ask, kind: agent, prompt: Well, agent: {agent}}}")
    outcome, *_ = world.run(path)
    assert outcome.status == "ok", outcome
    replies = [e["payload"] for e in world.events() if e["type"] == "message.assistant"]
    blocks = [block for reply in replies for block in reply["blocks"]]
    assert [block["text"] for block in blocks if block["type"] == "text"] == [text]
    assert [block["chunk"] for block in blocks if block["type"] == "stream"] == odd
    assert {block["fidelity"] for block in blocks} == {"agent_emitted"}


@pytest.mark.requirement("AWF-27")
def test_the_text_block_of_an_agent_of_no_known_provider_holds_all_that_it_printed(world):
    text = 'Yes: "{{prompt}}" \\n é 😀  two  spaces\n\n{"no": "stream"}\nand an end'
    (world.folder / "printed").write_text(text, encoding="utf-8")
    agent = f"{{command: [cat, {world.folder}/printed]}}"
    path = world.flow("one", f"- {{name: ask, kind: agent, prompt: Well, agent: {agent}}}")
    outcome, *_ = world.run(path)
    assert outcome.status == "ok", outcome
    (reply,) = [e["payload"] for e in world.events() if e["type"] == "message.assistant"]
    (block,) = reply["blocks"]
    assert (block["type"], block["fidelity"], block["text"]) == ("text", "agent_emitted", text)


@pytest.mark.parametrize(("said", "error"), [("out of tokens", "out of tokens"), ("", "error")])
def test_why_an_agent_of_no_known_provider_failed_is_recorded(world, said, error):
    agent = f"{{command: [sh, -c, 'printf \"{said}\" >&2; exit 3']}}"
    path = world.flow("one", f"- {{name: ask, kind: agent, prompt: Well, agent: {agent}}}")
    outcome, *_ = world.run(path)
    assert outcome.status == "failed"
    (reply,) = [e["payload"] for e in world.events() if e["type"] == "message.assistant"]
    assert (reply["status"], reply["error"]) == ("error", error)
    assert (reply["exit_code"], reply["stderr_tail"]) == (3, said)


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_flows_may_call_each_other_and_not_one_more(world, more):
    last = DEEPEST - 1 + more
    for n in range(last):
        world.flow(f"flow{n}", f"- {{name: go, kind: call_workflow, workflow: flow{n + 1}.yaml}}")
    world.flow(f"flow{last}", "- {name: done, kind: command, run: 'true'}")
    outcome, *_ = world.run(world.folder / "flow0.yaml")
    assert (outcome.status == "ok") == (not more), outcome
    if more:
        assert f"more than {DEEPEST} workflows call each other" in str(outcome.error)


@pytest.mark.requirement("AWF-68", "AWF-69")
def test_from_the_command_line_too_nobody_sees_whether_a_run_is_recorded(world):
    path = three_levels(world)

    def seen(*options: str) -> tuple[int, bytes, str]:
        done = world.host(path, *options)
        audit, names = (world.home / "audit.jsonl").read_text(), {}
        for line in audit.splitlines():
            said = json.loads(line)
            names.setdefault(said["execution_id"], f"run {len(names) + 1}")
            audit = audit.replace(said["timestamp"], "then")
        for name, told in names.items():
            audit = audit.replace(name, told)
        shutil.rmtree(world.home)
        return done.returncode, done.stdout, audit

    recorded = seen()
    assert recorded[0] == 0
    assert recorded[2].count("\n") == 6
    assert seen("--no-record") == recorded
    world.home.mkdir()
    unopenable(world, world.home)
    assert seen() == recorded


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


def killable(world: World) -> Path:
    world.flow(
        "inner",
        """
        - {name: one, kind: command, run: "echo one >> done.txt"}
        - {name: two, kind: command, run: "echo two >> begun.txt; while [ ! -e go ]; do sleep 0.05; done; echo two >> done.txt"}
        """,
    )
    return world.flow(
        "outer",
        """
        - {name: zero, kind: command, run: "echo zero >> done.txt; echo 0"}
        - {name: down, kind: call_workflow, workflow: inner.yaml}
        - {name: last, kind: command, run: "echo last{{steps.zero.result}} >> done.txt"}
        """,
    )


def killed_in_the_middle(world: World, id: str) -> Path:
    path = killable(world)
    host = world.started(path, "--run", id)
    wait_for((world.folder / "begun.txt").exists)
    host.kill()
    host.communicate()
    runs = [file.stem for file in (world.home / "transcripts").glob("*.jsonl")]
    assert len(runs) == 2
    wait_for(lambda: not any(processes.leftovers(run) for run in runs))  # nobody works on for it
    return path


@pytest.mark.requirement("AWF-63", "AWF-17")
def test_a_killed_run_goes_on_where_it_was_and_does_nothing_twice(world):
    id = run_id()
    path = killed_in_the_middle(world, id)
    (world.folder / "go").touch()
    done = world.host(path, "--run", id)
    assert done.returncode == 0, done.stderr
    assert (world.folder / "done.txt").read_text().split() == ["zero", "one", "two", "last0"]
    files = list((world.home / "transcripts").glob("*.jsonl"))
    assert len(files) == 2  # the child kept its id
    runs, _ = load(*files)
    assert {run.state for run in runs.values()} == {"complete"}
    assert [flaw.name for file in files for flaw in lint(file)] == []
    audit = [json.loads(e) for e in (world.home / "audit.jsonl").read_text().splitlines()]
    assert [e["event"] for e in audit if e["execution_id"] == id] == [
        "workflow.started", "workflow.completed",
    ]  # fmt: skip
    again = world.host(path, "--run", id)
    assert again.returncode == 0
    assert b"has ended already" in again.stderr
    assert len((world.folder / "done.txt").read_text().split()) == 4


def test_what_a_killed_host_leaves_is_ended_and_what_the_next_one_starts_for_the_run_is_not():
    guard = processes._GuardProcess()
    mark = {processes.PARENT: run_id()}
    left, next_one = (
        subprocess.Popen(["sleep", "60"], env={**mark, processes.HOST: host})
        for host in (processes.here(), "the-next-one")
    )
    guard._shell.stdin.close()  # all that it hears when its host is killed
    guard._shell.wait()
    assert left.wait(10) == -signal.SIGKILL
    assert next_one.poll() is None
    next_one.kill()
    next_one.wait()


@pytest.mark.requirement("AWF-17", "AWF-79")
def test_a_killed_run_is_ended_once_by_the_next_host_and_its_processes_with_it(world):
    id = run_id()
    path = killed_in_the_middle(world, id)
    other = world.flow("other", "- {name: a, kind: command, run: 'true'}")
    for _ in range(2):
        assert world.host(other).returncode == 0
    events = bodies(world.home / "transcripts" / f"{id}.jsonl")
    assert types(events).count("run.completed") == 1
    assert events[-1]["payload"]["status"] == "interrupted"
    assert types(events).count("step.call_workflow.completed") == 1
    audit = (world.home / "audit.jsonl").read_text()
    assert audit.count("workflow.started") == audit.count("workflow.completed") == 4
    assert processes.end_leftovers(id) == 0
    (world.folder / "go").touch()
    time.sleep(0.3)
    assert "two" not in (world.folder / "done.txt").read_text()
    assert world.host(path, "--run", id).returncode == 0  # and it may still go on
    assert (world.folder / "done.txt").read_text().split() == ["zero", "one", "two", "last0"]


def level(world: World, name: str, below: str = "") -> Path:
    """A flow whose every step leaves a mark; it may call another."""
    down = f"- {{name: down, kind: call_workflow, workflow: {below}.yaml}}" if below else ""
    return world.flow(
        name,
        f"""
        - {{name: first, kind: command, run: "echo {name}.first >> marks; echo 1"}}
        - name: each
          kind: for_each
          items: [a, b]
          steps: [{{name: one, kind: command, run: "echo {name}.{{{{item}}}} >> marks"}}]
        {down}
        - {{name: last, kind: command, run: "echo {name}.last{{{{steps.first.result}}}} >> marks"}}
        """,
    )


@pytest.mark.requirement("AWF-17", "AWF-63")
def test_cut_between_any_two_lines_three_levels_go_on_and_no_step_that_ended_runs_again(world):
    """What a kill leaves behind is the beginning of each file; every such beginning is tried."""
    level(world, "leaf")
    level(world, "middle", "leaf")
    path = level(world, "root", "middle")
    outcome, *_ = world.run(path)
    assert outcome.status == "ok"
    marks = world.folder / "marks"
    every = marks.read_text().split()
    files = sorted((world.folder / "storage" / "transcripts").iterdir())
    lines = [(e["timestamp"], e["seq"], n, raw) for n, file in enumerate(files)
             for raw in file.read_bytes().splitlines(keepends=True) for e in [json.loads(raw)]]  # fmt: skip
    lines.sort(key=lambda each: each[:2])
    assert len(lines) == 40
    for cut in range(1, len(lines)):
        storage = world.folder / f"cut{cut}"
        (storage / "transcripts").mkdir(parents=True)
        for n, file in enumerate(files):
            kept = b"".join(raw for *_, place, raw in lines[:cut] if place == n)
            if kept:
                (storage / "transcripts" / file.name).write_bytes(kept)
        marks.write_text("")
        outcome = go_on(world, path, storage, files[0].stem)
        assert outcome.status == "ok", (cut, outcome)
        ended = [e for *_, raw in lines[:cut] for e in [json.loads(raw)]
                 if e["type"] == "step.completed" and e["payload"]["kind"] == "command"]  # fmt: skip
        assert marks.read_text().split() == every[len(ended) :], cut
        told = sorted((storage / "transcripts").iterdir())
        assert [file.name for file in told] == [file.name for file in files]  # ids are kept
        for file in told:
            assert bodies(file)[-1]["type"] == "run.completed"
            assert [flaw.name for flaw in lint(file)] == [], cut


def go_on(world: World, path: Path, storage: Path, id: str):
    """Runs a flow from where its transcript ends, as the next host does."""
    ids = iter([f"{n:08x}-0000-4000-8000-000000000000" for n in range(2, 99)])
    here = storage / "transcripts" / f"{id}.jsonl"
    past = History.of(here, id)
    known = b"".join(file.read_bytes() for file in (storage / "transcripts").iterdir())
    for _ in range(known.count(b'"type":"step.call_workflow.started"')):
        next(ids)  # those that are recorded keep their ids
    context = HostContext(
        display=Display(lambda _text: None), audit=Audit(storage / "audit.jsonl"),
        environment=os.environ, storage=storage, new_id=lambda: next(ids),
    )  # fmt: skip
    with Recorder.open(id, storage, resume=past.run is not None) as recorder:
        work = WorkflowExecution(
            context, read(path), {}, run_id=id, recorder=recorder, history=past
        )
        return asyncio.run(work.run())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_ends_its_processes_and_says_so(world, number):
    path = killable(world)
    host = world.started(path)
    wait_for((world.folder / "begun.txt").exists)
    host.send_signal(number)
    _, stderr = host.communicate(timeout=60)
    assert (host.returncode, stderr) == (130, b"")
    for file in (world.home / "transcripts").glob("*.jsonl"):
        assert bodies(file)[-1]["payload"]["status"] == "cancelled"
        assert [flaw.name for flaw in lint(file)] == []
        assert processes.end_leftovers(file.stem) == 0


def test_a_run_that_another_host_runs_is_refused(world):
    id = run_id()
    path = killable(world)
    host = world.started(path, "--run", id)
    wait_for((world.folder / "begun.txt").exists)
    second = world.host(path, "--run", id)
    assert second.returncode == 2
    assert b"another process runs" in second.stderr
    (world.folder / "go").touch()
    host.communicate(timeout=60)
    assert host.returncode == 0
    assert (world.folder / "done.txt").read_text().split() == ["zero", "one", "two", "last0"]


def test_an_answer_from_a_tape_ends_as_it_ended_then():
    blocks = [{"type": "text", "fidelity": "agent_emitted", "text": "half"}]
    meta = {"status": "timeout", "error": "late", "exit_code": 3, "provider_session_id": "s"}
    pieces = [{"blocks": blocks, "meta": {"status": "ok"}}, {"blocks": [], "meta": meta}]
    recorded = RecordedAnswer(
        kind="model", lane=None, asked=None, answer={"blocks": blocks, "pieces": pieces}, seq=1
    )
    shown: list[str] = []
    with NullRecorder().run("r") as scope:
        answer = agents.play(scope, recorded, shown.append)
    assert answer == agents.AgentAnswer("half", "timeout", "late", 3, "s")
    assert shown == ["half"]


def test_the_result_of_an_agent_has_all_pieces_of_its_last_text_however_they_arrive():
    result = agents.ResultListener(provider("codex"))
    item = {
        "type": "item.completed",
        "item": {"id": "i", "type": "agent_message", "text": "It is x"},
    }
    stream = b"".join(
        json.dumps(each).encode() + b"\n"
        for each in (
            {"type": "thread.started", "thread_id": "t"},
            {"type": "turn.started"},
            item,
            {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
        )
    )
    for at in range(len(stream)):
        result.feed(stream[at : at + 1])
    result.finish("ok", 0, b"")
    assert (result.answer.text, result.answer.session) == ("It is x", "t")
