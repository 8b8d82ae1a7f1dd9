"""What took time in a run: turns, calls, waits, sub-runs, the critical path and the slices."""

import itertools
import tempfile

import pytest
from hypothesis import example, given, settings

from support.asking import ask
from support.journals import journals, made, said
from support.views import Look, shown
from tracklog.dialects import tracklog as native
from tracklog.home.home import Home
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Ended,
    Linked,
    Returned,
    Spent,
)

LIVE = {"writer": "live", "fidelity": "observed"}


def lines(*facts, run="one"):
    """Native lines, each at its second."""
    for number, (second, fact) in enumerate(facts):
        at = f"2026-05-05T{9 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
        yield native.line(fact, id=f"{run}-{number}", run=run, at=at, origin=LIVE)


@pytest.fixture
def home(tmp_path):
    seconds = itertools.count(1_778_000_000)
    with Home(tmp_path, durability="os", clock=lambda: next(seconds)) as home:
        yield home


STORY = (
    (0, Began(what="run", model="gpt-5")),
    (0, said("user", "Fix it")),
    (10, said("assistant", "I look")),
    (10, Spent(key="m1", model="gpt-5", cost_usd=0.25)),
    (10, Called(tool="Read", call_id="a")),
    (10, Called(tool="Bash", call_id="b")),
    (15, Returned(call_id="a", ok=True)),
    (30, Returned(call_id="b", ok=False)),
    (40, said("assistant", "I ask")),
    (40, Spent(key="m2", model="gpt-5", cost_usd=0.5)),
    (40, Asked(question_id="q", text="May I?")),
    (60, Answered(question_id="q", answer="yes")),
    (60, Called(tool="Task", call_id="t")),
    (62, Linked(kind="sub-run", child="two", call_id="t")),
    (90, Returned(call_id="t", ok=True)),
    (100, Ended(what="run", passed=True)),
)


def test_a_run_is_a_tree_of_what_took_time(home):
    home.intake.admit(list(lines(*STORY)), "tracklog")
    sub = (63, Began(what="run")), (85, Ended(what="run", passed=False))
    home.intake.admit(list(lines(*sub, run="two")), "tracklog")
    home.index.catch_up()
    answer = ask(home, "spans", run="one")
    rows = {
        (row["depth"], row["kind"], row["name"]): (row["seconds"], row["own"], row["cost_usd"])
        for row in answer["rows"]
    }
    assert rows == {
        (0, "run", "tracklog:one"): (100, 10, 0.75),
        (1, "turn", "turn 1"): (30, 0, 0.25),
        (2, "model", "gpt-5"): (10, 10, 0.5),
        (2, "tool", "Read"): (5, 5, None),
        (2, "tool", "Bash"): (20, 20, None),
        (1, "turn", "turn 2"): (60, 0, 0.5),
        (2, "wait", "May I?"): (20, 20, None),
        (2, "tool", "Task"): (30, 8, None),
        (3, "sub-run", "tracklog:two"): (22, 22, None),
    }
    names = [row["name"] for row in answer["rows"]]
    assert names[-2:] == ["Task", "tracklog:two"]
    assert {row["name"] for row in answer["rows"] if row["failed"]} == {"Bash", "tracklog:two"}
    assert [row["name"] for row in answer["rows"] if row["wait"]] == ["May I?"]
    off_path = {row["name"] for row in answer["rows"] if not row["on_path"]}
    assert off_path == {"Read", "tracklog:two"}
    assert answer["shares"] == {"waiting": 20, "tools": 50, "model": 20, "nothing": 10}
    assert answer["path_seconds"] == 90


def test_only_what_was_under_way_in_a_range_is_shown(home):
    home.intake.admit(list(lines(*STORY)), "tracklog")
    home.index.catch_up()
    every = ask(home, "spans", run="one")
    some = ask(home, "spans", run="one", t0="2026-05-05T09:00:35Z", t1="2026-05-05T09:00:45Z")
    assert [row["name"] for row in some["rows"]] == ["tracklog:one", "turn 2", "gpt-5", "May I?"]
    assert some["before"] + some["after"] + len(some["rows"]) == len(every["rows"])
    assert (some["shares"], some["path_seconds"]) == (every["shares"], every["path_seconds"])
    first = ask(home, "spans", run="one", depth=1)
    assert {row["kind"] for row in first["rows"]} == {"run", "turn"}
    assert ask(home, "spans", run="one", limit=2)["cut"]


def test_steps_stand_beside_the_turns_as_often_as_they_were_begun(home):
    facts = (
        (0, Began(what="run")),
        (1, Began(what="step", step="build", agent="coder")),
        (5, Ended(what="step", step="build", passed=False)),
        (6, Began(what="step", step="build", agent="coder")),
        (9, Ended(what="step", step="build", passed=True)),
        (9, Began(what="step", step="test")),
        (30, said("assistant", "It works")),
    )
    home.intake.admit(list(lines(*facts)), "tracklog")
    home.index.catch_up()
    rows = [row for row in ask(home, "spans", run="one")["rows"] if row["kind"] == "step"]
    assert [(row["name"], row["agent"], row["seconds"], row["failed"]) for row in rows[:2]] == [
        ("build", "coder", 4, True),
        ("build", "coder", 3, False),
    ]
    assert (rows[2]["name"], rows[2]["open"]) == ("test", True)
    assert {row["depth"] for row in rows} == {1}
    slices = ask(home, "density", run="one", slices=30)
    assert [n for n, many in enumerate(slices["failed_steps"]) if many] == [5]
    assert slices["failed"] == [0] * 30


def test_a_run_is_shown_as_it_was_at_a_record(home):
    home.intake.admit(list(lines(*STORY)), "tracklog")
    home.index.catch_up()
    last = home.journal.last
    assert ask(home, "spans", run="one", at=last) == ask(home, "spans", run="one")
    rows = ask(home, "spans", run="one", at=7)["rows"]
    assert [(row["name"], row["seconds"], row["open"], row["failed"]) for row in rows] == [
        ("tracklog:one", 15, True, False),
        ("turn 1", 15, False, False),
        ("gpt-5", 10, False, False),
        ("Read", 5, False, False),
        ("Bash", 5, True, False),
    ]
    assert [ask(home, "turns", run="one", at=at)["turns"] for at in (2, 3, 8, 9)] == [0, 1, 1, 2]


def test_slices_leave_out_long_gaps_and_name_the_first_record_of_each(home):
    late = [(7200, Called(tool="Read", call_id="z")), (7210, Returned(call_id="z", ok=False))]
    home.intake.admit(list(lines(*STORY[:8], *late)), "tracklog")
    home.index.catch_up()
    answer = ask(home, "density", run="one", slices=10)
    assert (sum(answer["model"]), sum(answer["tool"]), sum(answer["failed"])) == (1, 3, 2)
    [gap] = answer["gaps"]
    assert (gap["begin"], gap["end"]) == ("2026-05-05T09:00:10.000Z", "2026-05-05T11:00:00.000Z")
    assert answer["at"][0] == answer["begin"] == "2026-05-05T09:00:00.000Z"
    assert answer["seq"][0] == 2
    assert answer["tool"][gap["slice"]] == 3
    assert ask(home, "density", run="one", slices=1)["tool"] == [3]


def test_a_run_without_calls_and_messages_has_no_slices(home):
    home.intake.admit(list(lines((0, Began(what="run")))), "tracklog")
    home.index.catch_up()
    assert ask(home, "density", run="one")["at"] == []
    [row] = ask(home, "spans", run="one")["rows"]
    assert row["kind"] == "run"


SPENT_NOTHING = (
    b'{"id":"5935518ae710045e0e146ff134492feb","run":"alpha","fact":"Spent","key":"m1",'
    b'"model":"gpt-5","usage":{"input_tokens":0,"output_tokens":0},'
    b'"origin":{"writer":"live","fidelity":"observed"}}'
)


@settings(max_examples=15, deadline=None)
@given(journals())
@example([("line", SPENT_NOTHING)])
def test_the_waterfall_adds_up_to_the_run(journal):
    with tempfile.TemporaryDirectory() as folder, made(folder, journal) as home:
        look = Look(home)
        for row in ask(home, "runs", now=look.now, limit=None):
            key = f"{row['family']}:{row['run']}"
            answer = ask(home, "spans", run=key, now=look.now, limit=100_000)
            root, *below = answer["rows"]
            for name in ("cost_usd", "computed_usd"):
                assert root[name] == pytest.approx(row[name]), (key, name)
            middle = (row["first_seq"] + row["last_seq"]) // 2
            then = ask(home, "spans", run=key, at=middle, now=look.now, limit=100_000)["rows"]
            assert all(each["seq"] <= middle for each in then[1:]), key
            assert sum(each["failed"] for each in then[1:]) <= sum(x["failed"] for x in below)
            slices = ask(home, "density", run=key)
            assert len(slices["at"]) == len(slices["seq"])
            facts = shown(ask(home, "story", run=key, limit=100_000)["records"])
            if not any(fact.get("copied") for fact in facts):  # else a call may end in a copy
                tools = [each for each in below if each["kind"] == "tool"]
                assert len(tools) == sum(slices["tool"]) == row["tool_calls"], key
                failures = sum(each["failed"] for each in tools)
                assert failures == sum(slices["failed"]) == row["tool_failures"], key
            ids = [each["id"] for each in answer["rows"]]
            assert len(ids) == len(set(ids))
            known = set()
            for each in answer["rows"]:
                assert each["parent"] is None or each["parent"] in known
                known.add(each["id"])
                assert 0 <= each["own"] <= each["seconds"] + 1e-6
            shares = sum(answer["shares"].values())
            assert shares == pytest.approx(answer["seconds"])
            assert answer["path_seconds"] <= answer["seconds"] + 1e-6


def test_turns_have_tokens_cost_and_how_full_the_context_was(home):
    usage = {"input_tokens": 100, "cache_read_input_tokens": 60, "output_tokens": 7}
    facts = [*STORY[:4], *STORY[4:9], (40, Spent(key="m2", model="gpt-5", usage=usage))]
    home.intake.admit(list(lines(*facts)), "tracklog")
    home.index.catch_up()
    answer = ask(home, "turns", run="one")
    one, two = answer["rows"]
    assert (one["turn"], one["calls"], one["failures"], one["cost_usd"]) == (1, 2, 1, 0.25)
    assert (one["seconds"], one["model_seconds"], one["model"]) == (30, 10, "gpt-5")
    assert (two["output_tokens"], two["context_tokens"], two["cost_usd"]) == (7, 100, None)
    assert two["total_usd"] == pytest.approx(0.25 + two["computed_usd"])
    page = ask(home, "turns", run="one", limit=1)
    assert (page["turns"], page["next"], len(page["rows"])) == (2, 1, 1)
    rest = ask(home, "turns", run="one", after=1)
    assert (rest["next"], rest["rows"]) == (None, [two])


def test_a_turn_begins_with_each_input_of_its_model(home):
    """A message of a person or of another agent is one, and so is the result of a call."""
    facts = (
        (0, said("user", "Hello")),
        (1, said("assistant", "Hello", agent="a")),
        (2, said("user", "How are you?")),
        (3, said("assistant", "Well", agent="a")),
        (4, said("assistant", "And you?", agent="a")),
        (5, said("assistant", "I am b", agent="b")),
        (6, said("assistant", "I look", agent="a")),
        (7, Called(tool="Read", call_id="x", agent="a")),
        (8, Called(tool="Read", call_id="y", agent="a")),
        (9, Returned(call_id="x", ok=True, agent="a")),
        (10, Called(tool="Read", call_id="z", agent="a")),
        (11, Returned(call_id="y", ok=True, agent="a")),
    )
    home.intake.admit(list(lines(*facts)), "tracklog")
    home.index.catch_up()
    rows = ask(home, "turns", run="one")["rows"]
    assert [(row["agent"], row["seq"], row["last_seq"], row["calls"]) for row in rows] == [
        ("a", 2, 2, 0),
        ("a", 4, 5, 0),
        ("b", 6, 6, 0),
        ("a", 7, 12, 2),
        ("a", 11, 11, 1),
    ]
    assert rows[-1]["model_seconds"] == 1  # from the result of x to the call of z
    some = ask(home, "turns", run="one", seq=(5, 10))
    assert [row["turn"] for row in some["rows"]] == [2, 4]
    assert some["turns"] == 5


def test_a_sub_run_that_began_after_the_last_record_of_its_run_is_not_there_before(home):
    home.intake.admit(list(lines((0, Began(what="run")))), "tracklog")
    below = ((1, Began(what="run")), (2, Linked(kind="sub-run", parent="one")))
    home.intake.admit(list(lines(*below, run="two")), "tracklog")
    home.index.catch_up()
    kinds = [each["kind"] for each in ask(home, "spans", run="one", at=1)["rows"]]
    assert kinds == ["run"]
    assert [each["kind"] for each in ask(home, "spans", run="one")["rows"]] == ["run", "sub-run"]


def used(read, wrote):
    return {"input_tokens": read, "output_tokens": wrote}


def test_a_graph_has_agents_sub_runs_and_people(home):
    facts = (
        (0, Began(what="run")),
        (1, Called(tool="Read", call_id="a", agent="coder")),
        (2, Returned(call_id="a", ok=False, agent="coder")),
        (3, Spent(key="m", cost_usd=0.25, agent="coder", usage=used(70, 7))),
        (3, Spent(key="m2", cost_usd=0.25, agent="coder", usage=used(90, 9))),
        (3, Spent(key="n", cost_usd=0.5, agent="critic")),
        (4, Linked(kind="handoff", from_="coder", to="critic")),
        (5, Linked(kind="handoff", from_="coder", to="critic")),
        (6, Asked(question_id="q", agent="critic")),
        (7, Linked(kind="sub-run", child="two")),
    )
    home.intake.admit(list(lines(*facts)), "tracklog")
    sub = ((7, Began(what="run")), (8, Spent(key="s", cost_usd=1.0, usage=used(2100, 900))))
    home.intake.admit(list(lines(*sub, run="two")), "tracklog")
    home.index.catch_up()
    answer = ask(home, "graph", run="one")
    nodes = {node["id"]: node for node in answer["nodes"]}
    assert [*nodes][:2] == ["tracklog:one", "agent coder"]
    assert nodes["person"]["status"] == "waiting"
    assert {id: node["share"] for id, node in nodes.items()} == {
        "tracklog:one": 0.5,
        "agent coder": 0.25,
        "agent critic": 0.25,
        "tracklog:two": 0.5,
        "person": None,
    }
    assert (nodes["agent coder"]["calls"], nodes["agent coder"]["failures"]) == (1, 1)
    edges = {
        (each["source"], each["target"], each["kind"]): each["count"] for each in answer["edges"]
    }
    assert edges == {
        ("tracklog:one", "agent coder", "acts"): 1,
        ("tracklog:one", "agent critic", "acts"): 1,
        ("tracklog:one", "tracklog:two", "sub-run"): 1,
        ("agent coder", "agent critic", "handoff"): 2,
        ("agent critic", "person", "question"): 1,
    }
    tokens = {
        (each["target"], each["kind"]): (each["tokens_there"], each["tokens_back"])
        for each in answer["edges"]
    }
    assert tokens == {
        ("agent coder", "acts"): (70, 9),
        ("agent critic", "acts"): (None, None),
        ("agent critic", "handoff"): (None, None),
        ("tracklog:two", "sub-run"): (2100, 900),
        ("person", "question"): (None, None),
    }
    below = ask(home, "graph", run="two")
    assert [node["id"] for node in below["nodes"]] == ["tracklog:one", "tracklog:two"]


def test_costs_of_one_run_are_split_by_model_and_agent(home):
    facts = (
        (0, Spent(key="a", model="gpt-5", agent="coder", cost_usd=0.5)),
        (1, Spent(key="b", model="o3", agent="coder", cost_usd=0.25)),
    )
    home.intake.admit(list(lines(*facts)), "tracklog")
    other = (2, Spent(key="c", model="o3", cost_usd=9))
    home.intake.admit(list(lines(other, run="two")), "tracklog")
    home.index.catch_up()
    by_model = ask(home, "costs", by="model", run="one")
    assert {row["of"]: row["cost_usd"] for row in by_model} == {"gpt-5": 0.5, "o3": 0.25}
    [coder] = ask(home, "costs", by="agent", run="one")
    assert (coder["of"], coder["cost_usd"]) == ("coder", 0.75)


def test_a_run_that_goes_on_is_shown_with_what_it_spent_since(home):
    """Also by those who cache what they have read, and are not asked for the list of runs."""
    for n, total in enumerate((0.25, 0.5, 0.75)):
        call = Called(tool="Read", call_id=f"c{n}")
        home.intake.admit(
            [
                native.line(fact, id=f"{n}-{type(fact).__name__}", run="one", origin=LIVE)
                for fact in (call, Spent(key=f"k{n}", cost_usd=0.25))
            ],
            "tracklog",
        )
        home.index.catch_up()
        shown_now = ask(home, "show", run="one")
        [branch] = ask(home, "tree", run="one", around=True)
        [root, *below] = ask(home, "spans", run="one")["rows"]
        [node] = [each for each in ask(home, "graph", run="one")["nodes"] if each["kind"] == "run"]
        costs = [each["cost_usd"] for each in (shown_now, branch["run"], root, node)]
        assert costs == [total] * 4
        assert sum(each["kind"] == "tool" for each in below) == n + 1
