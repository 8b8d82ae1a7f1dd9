"""The list of all runs: ordered by need, filtered, told a part at a time, and never read in vain."""

from tempfile import TemporaryDirectory

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.asking import ask
from support.collecting import Collector
from tracklog.answers.run_list import RunList
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer
from tracklog.journal.frame import stamp

NOW = 1_800_000_000.0


def line(run: str, event: str, at: float = NOW, **more) -> bytes:
    head = {"ts": stamp(at), "run_id": run, "event": event, "agent_id": "coder"}
    return orjson.dumps(head | more)


def began(run: str, at: float = NOW, **more) -> bytes:
    return line(run, "agent_run_start", at, **{"task": f"mend {run}", **more})


def moved(run: str, to: str, at: float = NOW, **more) -> bytes:
    return line(run, "agent_transition", at, step=0, **{"from": "thinking", "to": to}, **more)


def ended(run: str, outcome: str, at: float = NOW) -> bytes:
    totals = ("total_steps", "total_tool_calls", "total_audit_checkpoints")
    audits = ("audits_passed", "audits_failed")
    zeros = dict.fromkeys((*totals, *audits), 0)
    return line(run, "agent_run_end", at, outcome=outcome, **zeros, total_duration_s=1.0)


@pytest.fixture
def moment():
    return [NOW]


@pytest.fixture
def home(tmp_path, moment):
    with Home(tmp_path / "home", durability="os", clock=lambda: moment[0]) as home:
        yield home


@pytest.fixture
def fleet(home, moment):
    """A run of every status; the lost one was heard long ago."""
    moment[0] = NOW - 7200
    home.intake.admit([began("silent", NOW - 7200)], "kahn-agent")
    moment[0] = NOW
    home.intake.admit(
        [
            began("busy", agent_id="tester"),
            began("asking"),
            moved("asking", "blocked-on-clarification", reason="clarification:q"),
            began("over"),
            ended("over", "converged"),
            began("broken"),
            moved("broken", "failed"),
        ],
        "kahn-agent",
    )
    home.index.catch_up()
    return home


def names(answer: dict) -> list[str]:
    return [row["run"] for row in answer["runs"]]


def asked(home: Home, **wanted) -> dict:
    return ask(home, "board", now=stamp(NOW), **wanted)


def test_what_needs_a_person_comes_first_then_failed_lost_working_and_done(fleet):
    answer = asked(fleet)
    assert names(answer) == ["asking", "broken", "silent", "busy", "over"]
    assert answer["counts"] == dict.fromkeys(("waiting", "failed", "lost", "working", "done"), 1)
    assert answer["all"] == answer["matching"] == 5


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"status": ["lost"]}, ["silent"]),
        ({"status": ["lost", "done"]}, ["silent", "over"]),
        ({"dialect": "fishbowl"}, []),
        ({"dialect": "kahn-agent", "status": ["done"]}, ["over"]),
        ({"agent": "tester"}, ["busy"]),
        ({"outcome": "converged"}, ["over"]),
        ({"within": "1h"}, ["asking", "broken", "busy", "over"]),
        ({"text": "MEND B"}, ["broken", "busy"]),
        ({"text": "tester"}, ["busy"]),
        ({"text": "nobody"}, []),
    ],
)
def test_each_filter_narrows(fleet, wanted, found):
    answer = asked(fleet, **wanted)
    assert names(answer) == found
    assert answer["matching"] == len(found)
    assert answer["all"] == 5


def test_what_can_be_chosen_is_told_whatever_is_filtered(fleet):
    choices = asked(fleet, text="nobody")["choices"]
    assert choices == {
        "dialect": ["kahn-agent"],
        "agent": ["coder", "tester"],
        "outcome": ["converged"],
    }


@given(after=st.integers(0, 7), limit=st.integers(1, 7))
def test_parts_are_cut_from_one_list(after, limit):
    with TemporaryDirectory() as folder, Home(folder, durability="os") as home:
        home.intake.admit([began(f"r{n}") for n in range(5)], "kahn-agent")
        home.index.catch_up()
        whole = names(asked(home))
        part = asked(home, after=after, limit=limit)
    assert names(part) == whole[after : after + limit]
    assert part["matching"] == 5


def test_a_run_that_said_nothing_new_is_not_read_again_and_one_that_did_is(fleet, monkeypatch):
    read: list[str] = []
    thawed = Indexer.thawed

    def counted(index, fold, key, state):
        read.append(key)
        return thawed(index, fold, key, state)

    monkeypatch.setattr(Indexer, "thawed", counted)
    first = asked(fleet)
    assert len(read) == 5
    assert asked(fleet) == first
    assert len(read) == 5
    fleet.intake.admit([moved("busy", "failed")], "kahn-agent")
    fleet.index.catch_up()
    assert names(asked(fleet))[:2] == ["asking", "busy"]
    assert read[5:] == ["kahn:busy"]


def test_what_a_run_spent_is_read_again_when_it_or_another_run_records_more_of_it(home):
    """A board that goes on says the same as one that looks for the first time."""
    kept, id = home.cache(RunList), iter(range(1_000))
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}

    def record(run, key, **more):
        origin = {"writer": "live", "fidelity": "observed"}
        spent = {"fact": "Spent", "key": key, "model": "gpt-5", "usage": usage, **more}
        told = {"id": f"{next(id):032x}", "run": run, "origin": origin, **spent}
        home.intake.admit([orjson.dumps(told)], "tracklog")
        home.index.catch_up()

    def looked():
        own = home.path / "prices.json"
        found = []
        for prices in (*PRICES, PRICES[0]):
            own.write_text(prices)
            kept_now, new = (each.page(now=stamp(NOW)).runs for each in (kept, RunList(home)))
            assert kept_now == new
            found.append({row.run: (row.cost_usd, row.computed_usd) for row in new})
        assert found[0] == found[2]
        return found

    record("one", "a")
    record("two", "b")
    assert looked()[0] == {"one": (None, 1.0), "two": (None, 1.0)}
    assert looked()[1] == {"one": (None, 2.0), "two": (None, 2.0)}
    record("two", "c")  # more of its own
    assert looked()[0] == {"one": (None, 1.0), "two": (None, 2.0)}
    record("two", "a", cost_usd=0.25)  # what another run recorded before, now with its cost
    assert looked()[0] == {"one": (0.25, None), "two": (None, 2.0)}
    record("one", "a", cost_usd=0.5)
    assert looked()[0] == {"one": (0.5, None), "two": (None, 2.0)}


PRICES = [
    orjson.dumps(
        {"models": {"gpt-5": [{"from": "2020-01-01", "input": dollars, "output": 1}]}}
    ).decode()
    for dollars in (1, 2)
]


def test_what_is_only_silence_is_noticed_without_a_new_record(fleet):
    assert asked(fleet)["counts"]["lost"] == 1
    assert ask(fleet, "board", now=stamp(NOW + 3600))["counts"]["lost"] == 2


def test_the_tree_around_a_run_begins_at_its_first_ancestor_and_tells_how_each_is(home):
    home.intake.admit(
        [
            began("top"),
            began("middle", parent_run_id="top"),
            began("low", parent_run_id="middle"),
            moved("low", "failed"),
            began("other", parent_run_id="never-heard"),
        ],
        "kahn-agent",
    )
    home.index.catch_up()
    rows = ask(home, "tree", run="kahn:low", around=True)
    assert [(row["key"], row["depth"]) for row in rows] == [
        ("kahn:top", 0),
        ("kahn:middle", 1),
        ("kahn:low", 2),
    ]
    assert [row["run"]["status"] for row in rows] == ["working", "working", "failed"]
    missing, other = ask(home, "tree", run="kahn:other", around=True)
    assert missing["missing"]
    assert missing["run"] is None
    assert other["run"]["run"] == "other"


def test_runs_that_call_each_other_their_parent_are_a_tree_all_the_same(home):
    home.intake.admit([began("a", parent_run_id="b"), began("b", parent_run_id="a")], "kahn-agent")
    home.index.catch_up()
    rows = ask(home, "tree", run="kahn:a", around=True)
    assert {row["key"] for row in rows} == {"kahn:a", "kahn:b"}


def test_over_http_the_board_the_tree_and_a_narrowed_search_are_told(tmp_path):
    server = Collector(tmp_path / "home")
    try:
        server.post([began("one"), began("two", parent_run_id="one"), moved("two", "failed")])
        board = server.get("/api/board", params={"text": "mend", "limit": 1}).json()
        assert (board["matching"], [row["run"] for row in board["runs"]]) == (2, ["two"])
        assert server.get("/api/board", params={"status": "asleep"}).status_code == 400
        kept = server.get("/api/runs/kahn/two/tree", params={"around": "true"}).json()
        assert [row["key"] for row in kept] == ["kahn:one", "kahn:two"]
        found = server.get("/api/search", params={"q": "mend", "run": "kahn:one"}).json()
        assert [hit["run"] for hit in found] == ["one"]
        for narrow in (
            {"dialect": "fishbowl"},
            {"run": "kahn:none"},
            {"within": "1h", "q": "none"},
        ):
            assert server.get("/api/search", params={"q": "mend", **narrow}).json() == []
        brief = server.get("/api/search", params={"q": "mend", "brief": "true", "limit": 1}).json()
        assert [(hit["text"], "mend" in hit["excerpt"]) for hit in brief] == [(None, True)]
    finally:
        server.stop()


def test_a_proof_that_is_checked_here_tells_whether_the_record_is_whole(tmp_path):
    home = tmp_path / "home"
    server = Collector(home)
    try:
        server.post([began("one"), began("two"), moved("one", "failed")])
        told = server.get("/api/runs/kahn/one/proof", params={"check": "true"}).json()
        assert (told["whole"], told["records"], told["faults"]) == (True, 2, [])
    finally:
        server.stop()
    (segment,) = (home / "journal").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b"mend one", b"bend one"))
    server = Collector(home)
    try:
        told = server.get("/api/runs/kahn/one/proof", params={"check": "true"}).json()
        assert not told["whole"]
        assert told["faults"][0]["seq"] == 1
    finally:
        server.stop()
