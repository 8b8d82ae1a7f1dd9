"""The tape: a recorded run answers again, in order or by match, and says where the new run left it."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_host_fishbowl import (
    EXAMPLES,
    Scripted,
    a_judge,
    conduct,
    kept,
    player,
    ruled,
    scene,
    spoke,
)
from test_host_workflow import World, three_levels

from support import forking
from support.hosting import Host, flow, pairs, put
from support.transcribing import run_id
from tracklog import Log
from tracklog.answers.diff import diff
from tracklog.formats.exec import admit
from tracklog.home.home import Home
from tracklog.hosts._endpoint import ModelFailed
from tracklog.hosts.fishbowl import show
from tracklog.hosts.fishbowl.recorded_show import RecordedShow
from tracklog.hosts.fishbowl.scenario import load
from tracklog.hosts.openwop.settings import ToolProgram
from tracklog.model.errors import TapeMiss
from tracklog.recording.recorder import Recorder
from tracklog.recording.tape import RecordedAnswer, Tape, tape_of


def answers(*pairs, kind="model", lane="a"):
    return [
        RecordedAnswer(kind=kind, lane=lane, asked=asked, answer=answer, seq=seq)
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
def test_by_match_any_order_of_the_same_questions_consumes_the_complete_tape(pairs, chance):
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
            told = diff(home, f"awf:{then}", f"awf:{now}", now="2026-01-01T00:00:00.000Z")
            assert told.same, told.first


def test_the_first_divergence_and_unused_answers_are_reported(tmp_path):
    world = World(tmp_path)
    steps = f"- {{name: ask, kind: agent, prompt: '{{{{inputs.q}}}}', agent: {world.agent('ok')}}}"
    more = "\n- {name: more, kind: command, run: echo more, when: '{{inputs.q}} == a'}"
    path = world.flow("asks", steps + more, head="inputs: {q: {default: a}}")
    assert world.host(path).returncode == 0
    [run] = runs_of(world)
    done = world.host(path, "--tape", run, "--input", "q=b")
    assert done.returncode == 1
    assert b"a model call of ask differs" in done.stderr
    assert b"not used: command more" in done.stderr
    missed = world.host(path, "--tape", run, "--input", "q=b", "--by", "match")
    assert missed.returncode == 1
    assert b"was not recorded" in missed.stderr
    live = world.host(path, "--tape", run, "--input", "q=b", "--by", "match", "--on-miss", "live")
    assert b"[ask] It is b" in live.stdout
    told = forking.tracklog(world.home, "diff", run, runs_of(world)[-1])
    assert told.returncode == 1
    assert b"they differ from step" in told.stdout


def told(events) -> list[tuple]:
    return [(e["turn"], e["kind"], e["actor"], e["payload"]) for e in events]


def replayed(home, scenario, by="order", miss="error", live=None, group=1, run="again"):
    """The events of a show that is played from the tape of the run `r`, and the tape."""
    recorded = RecordedShow(Log(home), "r", scenario, by, miss)
    cast = {name: recorded.model((live or {}).get(name, Scripted())) for name in scenario.players}
    seed = recorded.seed
    conduct(home, scenario, cast, run=run, tape=recorded, seed=seed, group=group).play()
    return kept(home, run), recorded.tape


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("by", ["order", "match"])
@pytest.mark.parametrize("group", [1, 64])
def test_a_show_is_played_again_with_its_recorded_answers(tmp_path, path, by, group):
    scenario = load(path)
    with Home(tmp_path, durability="os") as home:
        playing = conduct(home, scenario, seed="rain")
        for _ in range(8):
            playing.advance()
        show.inject(Log(home), "r", "A bell rings.", "bell")
        playing.play()
        again, tape = replayed(home, scenario, by, group=group)
        first = kept(home)
        assert [told([e])[0][1:] for e in again[1:]] == [told([e])[0][1:] for e in first[1:]]
        assert told(again)[1:] == told(first)[1:]
        assert not tape.divergences
        assert not tape.unconsumed


def test_silence_failures_reasked_verdicts_and_costs_come_again_and_nobody_is_asked(tmp_path):
    cast = [player("anna"), player("bert"), a_judge()]
    scenario = scene(*cast, competition={"kind": "judged"}, ticks=4)
    models = {
        "anna": Scripted(spoke("One."), None, ModelFailed("no"), spoke("Four.")),
        "bert": Scripted(None, spoke("Two.", kind="clue.found"), spoke("Three.")),
        "host": Scripted(ruled("ghost", tokens=110), ruled("nobody", tokens=132)),
    }
    with Home(tmp_path, durability="os") as home:
        conduct(home, scenario, models).play()
        first = kept(home)
        again, tape = replayed(home, scenario)
    verdict = next(e for e in again if e["kind"] == "judge.verdict")
    assert verdict["payload"]["no_contest"] is True
    assert verdict["payload"]["_calls"] == 2
    assert told(again)[1:] == told(first)[1:]
    assert not tape.divergences
    assert not tape.unconsumed


def test_a_show_that_leaves_its_tape_says_where(tmp_path):
    cast = [player("anna"), player("bert", subscribes_to=["agent.spoke"])]
    scenario = scene(*cast)
    with Home(tmp_path, durability="os") as home:
        conduct(home, scenario).play()
        other = scene(*cast, genesis_text="Another room.")
        again, tape = replayed(home, other)
        assert "differs" in str(tape.divergences[0])
        assert len(again) == len(kept(home))
        longer = scene(*cast, ticks=4)
        with pytest.raises(TapeMiss, match="was not recorded"):
            replayed(home, longer, run="longer")
        assert kept(home, "longer")[-1]["payload"]["reason"] == "user_stop"


def test_what_a_show_lacks_is_asked_live_where_that_was_chosen(tmp_path):
    cast = [player("anna")]
    with Home(tmp_path, durability="os") as home:
        conduct(home, scene(*cast, ticks=1)).play()
        live = {"anna": Scripted(spoke("Live."))}
        again, _ = replayed(home, scene(*cast, ticks=2), miss="live", live=live)
    assert [e["payload"]["text"] for e in again if e["kind"] == "agent.spoke"][-1] == "Live."


def test_a_show_from_a_tape_that_was_killed_goes_on_with_the_rest_of_it(tmp_path):
    scenario = load(EXAMPLES[0])
    with Home(tmp_path, durability="os") as home:
        conduct(home, scenario).play()
        done = False
        while not done:  # each time it says one thing, and is gone
            recorded = RecordedShow(Log(home), "r", scenario)
            cast = {name: recorded.model(Scripted()) for name in scenario.players}
            playing = conduct(home, scenario, cast, run="again", tape=recorded)
            while not (done := playing.done) and not playing.advance():
                pass
        assert told(kept(home, "again"))[1:] == told(kept(home))[1:]


def prompting() -> dict:
    prompt = 'What of {{topic}}?\ncall local:cat {"x": 1}'
    port = {"topic": {"type": "variable", "variableName": "topic"}}
    ask = {"id": "ask", "typeId": "core.ai.callPrompt", "inputs": port}
    ask["config"] = {"prompt": prompt, "tools": ["local:cat"]}
    gate = {"id": "gate", "typeId": "core.approvalGate", "config": {"title": "Go on?"}}
    down = {"id": "down", "typeId": "core.subWorkflow", "config": {"workflowId": "inner"}}
    variables = [{"name": "topic", "type": "string", "defaultValue": "rain"}]
    return flow(
        "asking", [ask, gate, down], [("ask", "gate"), ("gate", "down")], variables=variables
    )


def inner() -> dict:
    node = {"id": "deep", "typeId": "core.ai.callPrompt", "config": {"prompt": "Deeper."}}
    return flow("inner", [node])


class Counting:
    """A model that says how often it was asked."""

    def __init__(self, model) -> None:
        self.model, self.asked = model, 0

    async def ask(self, *arguments):
        self.asked += 1
        return await self.model.ask(*arguments)

    async def close(self) -> None:
        pass


def plain(events) -> list[tuple]:
    """Payloads without the names of children, which are new."""
    found = []
    for event in events:
        payload = {k: v for k, v in event["payload"].items() if k not in ("childRunId", "inputs")}
        payload["outputs"] = {
            k: v for k, v in payload.get("outputs", {}).items() if k != "childRunId"
        }
        found.append((event["type"], event.get("nodeId"), payload))
    return found


def test_an_openwop_run_is_played_from_its_tape_with_its_child_and_its_answers(tmp_path):
    tools = {"local:cat": ToolProgram(id="local:cat", command=("cat",))}
    folder = put(tmp_path / "flows", prompting(), inner())
    with Host(tmp_path / "home", workflows=folder, tools=tools) as host:
        host.engine.model = model = Counting(host.engine.model)
        run = host.start("asking")
        host.until(run, "waiting-approval")
        assert host.answer(run, "gate", {"action": "accept"}).status_code == 200
        host.until(run, "completed")
        assert model.asked == 3
        tools.clear()  # nothing could be called any more

        def again(**body) -> str:
            tape = {"run": run, **body.pop("tape", {})}
            response = host.http.post(
                "/api/hosts/openwop/runs", json={"program": "asking", "tape": tape, **body}
            )
            assert response.status_code == 200, response.text
            host.until(response.json()["run"])
            return response.json()["run"]

        def left(name: str) -> dict:
            found = [
                json.loads(record.line)["data"]
                for record in host.home.journal.records(run=("openwop", name))
                if b'"label":"tape"' in record.line
            ]
            assert len(found) == 1
            return found[0]

        for by in ("order", "match"):
            same = again(tape={"by": by})
            assert plain(host.events(same)) == plain(host.events(run))
            assert left(same) == {"source": run, "served": 5, "divergences": 0, "unconsumed": []}
        other = again(inputs={"topic": "snow"})
        assert host.snapshot(other)["status"] == "completed"
        assert "a model call of ask differs" in left(other)["first"]
        missed = again(inputs={"topic": "snow"}, tape={"by": "match"})
        assert host.snapshot(missed)["error"]["code"] == "replay_source_missing"
        assert {each["kind"] for each in left(missed)["unconsumed"]} >= {"model", "tool", "person"}
        assert model.asked == 3
        assert pairs(host.events(run))


def test_what_an_openwop_run_lacks_is_asked_live_where_that_was_chosen(tmp_path):
    node = {"id": "n", "typeId": "core.ai.callPrompt", "config": {"prompt": "About {{topic}}."}}
    node["inputs"] = {"topic": {"type": "variable", "variableName": "topic"}}
    with Host(tmp_path / "home", workflows=put(tmp_path / "flows", flow("asking", [node]))) as host:
        host.engine.model = model = Counting(host.engine.model)
        run = host.start("asking", inputs={"topic": "rain"})
        host.until(run, "completed")
        for topic, miss, status, asked in (
            ("rain", "error", "completed", 1),
            ("snow", "error", "failed", 1),
            ("snow", "live", "completed", 2),
        ):
            tape = {"run": run, "by": "match", "miss": miss}
            body = {"program": "asking", "inputs": {"topic": topic}, "tape": tape}
            again = host.http.post("/api/hosts/openwop/runs", json=body).json()["run"]
            host.until(again, status)
            assert model.asked == asked
            lines = [r.line for r in host.home.journal.records(run=("openwop", again))]
            (told,) = [json.loads(each)["data"] for each in lines if b'"label":"tape"' in each]
            assert told["divergences"] == (topic == "snow")
            assert len(told["unconsumed"]) == (topic == "snow")


def test_a_run_of_another_dialect_answers_on_any_stage(tmp_path):
    id = run_id()
    with (
        Recorder.open(id, tmp_path) as recorder,
        recorder.run("r") as run,
        run.step("ask", "agent") as step,
    ):
        step.user("what is x?")
        step.assistant([{"type": "text", "fidelity": "agent_emitted", "text": "It is 1."}])
    with Home(tmp_path / "home", durability="os") as home:
        admit(home, recorder.path)
        scenario = scene(player("anna"), ticks=1)
        recorded = RecordedShow(Log(home), id, scenario)
        cast = {"anna": recorded.model(Scripted())}
        conduct(home, scenario, cast, run="again", tape=recorded).play()
        said = [e["payload"].get("text") for e in kept(home, "again")]
        assert "It is 1." in said


def test_the_command_line_plays_a_show_from_a_tape(tmp_path):
    tracklog = partial(forking.tracklog, tmp_path)
    path = str(EXAMPLES[0])
    assert tracklog("host", "fishbowl", path, "--fast", "--run", "one").returncode == 0
    same = tracklog("host", "fishbowl", path, "--fast", "--run", "two", "--tape", "one")
    assert (same.returncode, b"differs from its tape" in same.stderr) == (0, False)
    shown = tracklog("diff", "one", "two")
    assert shown.returncode == 0, shown.stdout
    other = tracklog("host", "fishbowl", str(EXAMPLES[1]), "--fast", "--run", "x", "--tape", "one")
    assert other.returncode == 1
    assert b"differs from its tape" in other.stderr
