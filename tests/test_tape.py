"""The tape: a recorded run answers again, in order or by match, and says where the new run left it."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_host_workflow import World, three_levels
from tracklog.diff import diff
from tracklog.errors import TapeMiss
from tracklog.home import Home
from tracklog.recorder import Recorder
from tracklog.recording import admit
from tracklog.tape import Recorded, Tape, tape_of
from transcribing import run_id


def answers(*pairs, kind="model", lane="a"):
    return [
        Recorded(kind=kind, lane=lane, asked=asked, answer=answer, seq=seq)
        for seq, (asked, answer) in enumerate(pairs, 1)
    ]


def test_in_order_each_answer_is_served_once_and_what_differs_is_noted():
    tape = Tape(answers(("x", 1), ("y", 2), ("z", 3)))
    assert tape.play("model", "x", "a").answer == 1
    assert not tape.divergences
    assert tape.play("model", "other", "a").answer == 2
    assert [each.asked for each in tape.divergences] == ["other"]
    assert [each.asked for each in tape.unconsumed] == ["z"]


def test_by_match_the_answer_to_the_same_question_is_served_whatever_its_place():
    tape = Tape(answers(("x", 1), ("y", 2), ("x", 3)), by="match")
    assert [tape.play("model", asked, "a").answer for asked in "yxx"] == [2, 1, 3]
    with pytest.raises(TapeMiss, match="was not recorded"):
        tape.play("model", "x", "a")
    assert tape.unconsumed == []


def test_by_match_ids_and_times_that_a_machine_made_need_not_be_the_same():
    then, now = (f"run {run_id()} at 2026-05-05T09:0{n}:00Z" for n in (1, 2))
    assert Tape(answers((then, 1)), by="match").play("model", now, "a").answer == 1


def test_a_miss_is_a_live_call_where_that_was_chosen():
    tape = Tape(answers(("x", 1)), by="match", miss="live")
    assert tape.play("model", "y", "a") is None
    assert tape.play("tool", "x", "a") is None
    assert len(tape.divergences) == 2
    assert len(tape.unconsumed) == 1


def test_lanes_and_kinds_are_served_apart():
    tape = Tape([*answers(("x", 1), lane="a"), *answers(("x", 2), lane="b")], miss="live")
    assert tape.play("model", "x", "b").answer == 2
    assert tape.play("model", "x", "b") is None
    assert tape.play("model", "x", "a").answer == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=12), st.randoms())
def test_by_match_any_order_of_the_same_questions_consumes_the_whole_tape(pairs, chance):
    tape = Tape(answers(*pairs), by="match")
    questions = [asked for asked, _ in pairs]
    chance.shuffle(questions)
    served = [tape.play("model", asked, "a") for asked in questions]
    assert [each.asked for each in served] == questions
    assert sorted(each.answer for each in served) == sorted(answer for _, answer in pairs)
    assert not tape.unconsumed
    assert not tape.divergences


def test_any_recorded_run_is_a_tape_of_what_models_and_tools_answered(tmp_path):
    id = run_id()
    with Recorder.open(id, tmp_path) as recorder, recorder.run("r") as run:
        with run.step("ask", "agent") as step:
            step.user("what is x?", "be brief")
            step.tool_call("read", "c1", {"path": "a"})
            step.tool_result("read", "c1", {"path": "a"}, "x = 1")
            text = {"type": "text", "fidelity": "agent_emitted", "text": "It is 1."}
            use = {"type": "tool_use", "fidelity": "agent_emitted", "tool_name": "read"}
            step.assistant([{**use, "tool_id": "c1", "tool_input": {"path": "a"}}, text])
        with run.step("op", "operation") as step, step.tool("add", {"a": 1}) as used:
            used.output = 2
    with Home(tmp_path / "home") as home:
        admit(home, recorder.path)
        tape = tape_of(home, ("awf", id))
        told = tape.play("model", {"prompt": "what is x?"}, "ask")
        assert told.answer["text"] == "It is 1."
        assert tape.play("tool", {"tool": "read", "input": {"path": "a"}}, "read").answer == {
            "output": "x = 1", "ok": True,
        }  # fmt: skip
        assert tape.play("tool", {"tool": "add", "input": {"a": 1}}, "add").answer["output"] == 2
        assert not tape.unconsumed
        assert not tape.divergences


def runs_of(world: World) -> list[str]:
    lines = [json.loads(line) for line in (world.home / "audit.jsonl").read_text().splitlines()]
    return [e["execution_id"] for e in lines if e["event"] == "workflow.started"]


@pytest.mark.requirement("AWF-4")
def test_a_workflow_runs_again_from_its_record_alone_and_does_the_same(tmp_path):
    world = World(tmp_path)
    path = three_levels(world)
    first = world.host(path)
    assert first.returncode == 0, first.stderr
    for agent in ("ok.py", "plugins.py"):
        code = (tmp_path / agent).read_text()
        (tmp_path / agent).write_text(f"raise SystemExit('nobody is asked')\n{code}")
    (tmp_path / "plugins.py").write_text("def add(**_): 1 / 0\nlook = add\n")
    again = world.host(path, "--tape", runs_of(world)[0])
    assert (again.returncode, again.stderr) == (0, b"")
    assert again.stdout == first.stdout
    ids = runs_of(world)
    with Home(world.home) as home:
        home.index.catch_up()
        for then, now in zip(ids[:3], ids[3:], strict=True):
            told = diff(home, f"awf:{then}", f"awf:{now}", "2026-01-01T00:00:00.000Z")
            assert told.same, told.first


def test_the_first_divergence_and_what_nobody_asked_for_are_told(tmp_path):
    world = World(tmp_path)
    steps = f"- {{name: ask, kind: agent, prompt: '{{{{inputs.q}}}}', agent: {world.agent('ok')}}}"
    more = "\n- {name: more, kind: command, run: echo more, when: '{{inputs.q}} == a'}"
    path = world.flow("asks", steps + more, head="inputs: {q: {default: a}}")
    assert world.host(path).returncode == 0
    [run] = runs_of(world)
    done = world.host(path, "--tape", run, "--input", "q=b")
    assert done.returncode == 1
    assert b"a model call of ask differs" in done.stderr
    assert b"not asked for: command more" in done.stderr
    missed = world.host(path, "--tape", run, "--input", "q=b", "--by", "match")
    assert missed.returncode == 1
    assert b"was not recorded" in missed.stderr
    live = world.host(path, "--tape", run, "--input", "q=b", "--by", "match", "--on-miss", "live")
    assert b"[ask] It is b" in live.stdout
    command = [sys.executable, "-m", "tracklog", "diff", run, runs_of(world)[-1]]
    told = subprocess.run(
        [*command, "--home", str(world.home)], capture_output=True, check=False, timeout=60
    )
    assert told.returncode == 1
    assert b"they part at step" in told.stdout
