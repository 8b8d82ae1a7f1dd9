"""The list of all runs: ordered by need, filtered, told a part at a time, and never read in vain."""

import time
from datetime import datetime
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

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
from tracklog.model.errors import BadQuery, NoSuchRun

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
    """A run of every status; the last event of the lost one is old."""
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


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"status": ["!done", "!lost"]}, ["asking", "broken", "busy"]),
        ({"agent": ["tester", "coder"]}, ["asking", "broken", "silent", "busy", "over"]),
        ({"agent": ["!coder"]}, ["busy"]),
        ({"outcome": ["(none)"]}, ["asking", "broken", "silent", "busy"]),
        ({"outcome": ["!(none)"]}, ["over"]),
        ({"since": "-1h"}, ["asking", "broken", "busy", "over"]),
        ({"since": "1h", "within": "24h"}, ["asking", "broken", "busy", "over"]),
        ({"until": "-1h"}, ["silent"]),
        ({"until": stamp(NOW - 7200)}, ["silent"]),
        ({"until": "now", "since": "-1w"}, ["asking", "broken", "silent", "busy", "over"]),
        ({"since": stamp(NOW - 7200), "until": stamp(NOW - 7000)}, ["silent"]),
    ],
)
def test_several_values_excluded_ones_and_ranges_of_event_time(fleet, wanted, found):
    assert names(asked(fleet, **wanted)) == found


def test_a_text_that_is_not_a_time_is_refused_with_a_hint(fleet):
    with pytest.raises(BadQuery, match="someday") as refused:
        asked(fleet, since="someday")
    assert "-24h" in str(refused.value.hint)


@pytest.mark.parametrize("name", ["UTC", "Pacific/Auckland", "America/Los_Angeles"])
def test_runs_of_yesterday_are_those_since_local_midnight(home, moment, monkeypatch, name):
    monkeypatch.setenv("TZ", name)
    time.tzset()
    try:
        midnight = datetime.fromtimestamp(NOW, ZoneInfo(name)).replace(hour=0, minute=0, second=0)
        times = {"before": -86_401, "yesterday": -86_400, "late": -1, "today": 0}
        for run, seconds in times.items():
            moment[0] = midnight.timestamp() + seconds
            home.intake.admit([began(run, moment[0])], "kahn-agent")
        moment[0] = NOW
        home.index.catch_up()
        assert {*names(asked(home, since="yesterday"))} == {"yesterday", "late", "today"}
        assert names(asked(home, since="today")) == ["today"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_groups_by_attention_have_their_order_and_runs_with_an_open_question_are_in_the_inbox(
    fleet,
):
    board = asked(fleet, group="attention", sort="activity")
    groups = [(each["key"], each["count"]) for each in board["groups"]]
    assert groups == [("working", 1), ("broken", 2), ("done", 1)]
    assert names(board) == ["busy", "broken", "silent", "over"]
    assert (board["matching"], board["asking"], board["listed"]) == (5, 1, 4)
    waiting = asked(fleet, group="attention", status=["waiting"])
    assert (names(waiting), waiting["asking"]) == (["asking"], 0)
    closed = asked(fleet, group="attention", closed=["broken"])
    assert names(closed) == ["busy", "over"]
    assert [each["closed"] for each in closed["groups"]] == [False, True, False]
    assert (closed["listed"], closed["matching"]) == (2, 5)


def test_a_run_that_waits_without_a_question_in_the_inbox_stays_in_the_list(fleet, moment):
    fleet.intake.admit(
        [
            orjson.dumps(
                {
                    "id": "1", "run": "late", "at": stamp(NOW), "fact": "Asked", "agent": "a",
                    "question_id": "q", "text": "May I?", "expires": stamp(NOW - 1),
                    "origin": {"writer": "t", "fidelity": "observed"},
                }
            )
        ],
        "tracklog",
    )  # fmt: skip  # one line
    fleet.index.catch_up()
    board = asked(fleet, group="attention")
    assert (names(board)[0], board["groups"][0]["key"]) == ("late", "waiting")


def native(n: int, run: str, fact: str, at: float, **more) -> bytes:
    origin = {"writer": "t", "fidelity": "observed"}
    head = {"id": f"{run}/{n}", "run": run, "at": stamp(at), "fact": fact, "origin": origin}
    return orjson.dumps(head | more)


RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "cwd": st.sampled_from([None, "/w/api", "/w/web", "/v/api"]),
            "branch": st.sampled_from([None, "main", "fix, now"]),
            "model": st.sampled_from([None, "claude-sonnet-4-5", "gpt-5-mini", "unheard-of"]),
            "agent": st.sampled_from(["a", "b"]),
            "calls": st.integers(0, 3),
            "tokens": st.sampled_from([None, 10, 1_000_000]),
            "begin": st.integers(0, 10_000),
        }
    ),
    max_size=8,
)


def recorded(home: Home, runs: list[dict]) -> None:
    for n, run in enumerate(runs):
        name, at = f"r{n}", NOW - 20_000 + run["begin"]
        git = {"branch": run["branch"]} if run["branch"] else None
        more = {"what": "run", "agent": run["agent"], "cwd": run["cwd"], "git": git}
        lines = [native(0, name, "Began", at, **{k: v for k, v in more.items() if v})]
        lines += [
            native(call + 10, name, "Called", at + call, tool="t", call_id=str(call))
            for call in range(run["calls"])
        ]
        usage = {"input_tokens": run["tokens"]} if run["tokens"] else None
        spent = {"model": run["model"], "usage": usage}
        if known := {name: each for name, each in spent.items() if each}:
            lines.append(native(99, name, "Spent", at + 9, key=name, **known))
        assert {each.verdict for each in home.intake.admit(lines, "tracklog")} == {"accepted"}
    home.index.catch_up()


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "project": st.lists(st.sampled_from(["/w/api", "!/v/api", "(none)"]), max_size=2),
        "branch": st.lists(st.sampled_from(["main", "!fix, now", "(none)"]), max_size=2),
        "model": st.lists(st.sampled_from(["gpt-5-mini", "!(none)"]), max_size=2),
        "agent": st.sampled_from([["a"], ["!a"]]),
    },
)


@given(runs=RUNS, wanted=FILTERS)
def test_the_count_of_a_facet_is_how_many_runs_its_value_alone_shows_under_the_other_filters(
    runs, wanted
):
    with TemporaryDirectory() as folder, Home(folder, durability="os", clock=lambda: NOW) as home:
        recorded(home, runs)
        for facet in asked(home, **wanted)["facets"]:
            shown = {
                each["value"]: asked(home, **{**wanted, facet["name"]: [each["value"] or "(none)"]})
                for each in facet["values"]
            }
            for each in facet["values"]:
                assert each["count"] == shown[each["value"]]["matching"], facet["name"]
            assert facet["distinct"] == len(facet["values"])


COLUMNS = {
    "title": lambda row: (row["title"] or row["run"]).casefold(),
    "id": lambda row: row["run"],
    "project": lambda row: row["project"] and row["project"].split("/")[-1],
    "branch": lambda row: row["branch"],
    "model": lambda row: row["model"],
    "source": lambda row: ", ".join(row["dialects"]).casefold() or None,
    "agents": lambda row: ", ".join(row["agents"]).casefold() or None,
    "calls": lambda row: row["tool_calls"],
    "failures": lambda row: row["tool_failures"],
    "tokens": lambda row: row["tokens"],
    "cost": lambda row: (
        None
        if row["cost_usd"] is row["computed_usd"] is None
        else (row["cost_usd"] or 0) + (row["computed_usd"] or 0)
    ),
    "took": lambda row: row["age_seconds"],
    "began": lambda row: row["first_at"],
    "activity": lambda row: row["last_activity"],
    "score": lambda row: row["score"],
    "outcome": lambda row: row["outcome"],
}


@given(runs=RUNS, sort=st.sampled_from(sorted(COLUMNS)), down=st.booleans())
def test_every_column_sorts_both_ways_and_a_run_without_a_value_is_last(runs, sort, down):
    with TemporaryDirectory() as folder, Home(folder, durability="os", clock=lambda: NOW) as home:
        recorded(home, runs)
        rows = asked(home, sort=sort, dir="desc" if down else "asc")["runs"]
        values = [COLUMNS[sort](row) for row in rows]
        known = [each for each in values if each is not None]
        assert values[: len(known)] == known
        assert known == sorted(known, reverse=down)
        for group in ("project", "branch", "model", "status"):
            board = asked(home, sort=sort, group=group)
            assert sorted(names(board)) == sorted(row["run"] for row in rows)
            keys = [row[group] for row in board["runs"]]
            spans = [(each["key"], each["count"]) for each in board["groups"]]
            assert [key for key, count in spans for _ in range(count)] == keys


def test_all_models_of_a_run_are_listed_in_the_order_of_their_first_words(home):
    models = ["opus", "sonnet", "opus", "<synthetic>", "haiku"]
    lines = [
        native(n, "r", "Spent", NOW + n, key=str(n), model=model, usage={"input_tokens": 1})
        for n, model in enumerate(models)
    ]
    home.intake.admit(lines, "tracklog")
    home.index.catch_up()
    (row,) = asked(home)["runs"]
    assert (row["model"], row["models"]) == ("haiku", ["opus", "sonnet", "haiku"])
    assert asked(home, model=["sonnet"])["matching"] == 1


def test_the_trace_of_a_run_counts_its_calls_over_its_time_and_each_once(home):
    lines = [native(0, "r", "Began", NOW, what="run")]
    for n in range(10):
        call = {"call_id": f"c{n}", "tool": "t"}
        lines.append(native(n * 2 + 1, "r", "Called", NOW + n, **call))
        lines.append(native(n * 2 + 2, "r", "Returned", NOW + n, **call, ok=n != 9))
    home.intake.admit([*lines, native(0, "other", "Began", NOW, what="run")], "tracklog")
    home.index.catch_up()
    keys = ["tracklog:r", "tracklog:other", "tracklog:nobody"]
    rows = {row["run"]: row for row in ask(home, "traces", run=keys)}
    assert rows.keys() == {"r", "other"}
    assert (rows["other"]["calls"], rows["other"]["failed"]) == ([], [])
    assert len(rows["r"]["calls"]) == len(rows["r"]["failed"]) == 36
    assert (sum(rows["r"]["calls"]), sum(rows["r"]["failed"])) == (10, 1)
    assert (rows["r"]["calls"][0], rows["r"]["failed"][35]) == (1, 1)
    assert ask(home, "traces", run=keys) == list(rows.values())
    torn = native(60, "torn", "Returned", NOW + 1, tool="t", call_id="x", ok=False, seconds=1.5)
    home.intake.admit([torn], "tracklog")
    home.index.catch_up()
    (only,) = ask(home, "traces", run=["tracklog:torn"])  # only the end was recorded
    assert (sum(only["calls"]), sum(only["failed"])) == (1, 1)
    home.intake.admit([native(50, "r", "Called", NOW + 20, tool="t", call_id="x")], "tracklog")
    home.index.catch_up()
    (again,) = ask(home, "traces", run=["tracklog:r"])
    assert sum(again["calls"]) == 11


def test_the_values_of_filters_are_complete_whatever_is_filtered(fleet):
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


def test_a_run_without_new_records_is_not_read_again_and_one_with_some_is(fleet, monkeypatch):
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


def test_the_head_of_a_run_is_answered_without_its_records(fleet, monkeypatch):
    read: list[object] = []
    journal = type(fleet.journal)
    frames = journal.read

    def counted(of, after=0, limit=1000, run=None):
        read.append(run)
        return frames(of, after, limit, run)

    whole = ask(fleet, "show", run="kahn:asking", now=stamp(NOW))
    monkeypatch.setattr(journal, "read", counted)
    assert ask(fleet, "show", run="kahn:asking", now=stamp(NOW)) == whole
    assert ("kahn", "asking") not in read
    assert ask(fleet, "show", run="aski", now=stamp(NOW))["run"] == "asking"
    with pytest.raises(NoSuchRun):
        ask(fleet, "show", run="kahn:asked", now=stamp(NOW))
    assert ("kahn", "asked") in read  # what the index does not know may be in the journal


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


def test_the_tree_around_a_run_begins_at_its_first_ancestor_and_shows_how_each_is(home):
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


def test_the_board_the_tree_and_a_filtered_search_are_answered_over_http(tmp_path):
    server = Collector(tmp_path / "home")
    try:
        server.post([began("one"), began("two", parent_run_id="one"), moved("two", "failed")])
        board = server.get("/api/board", params={"text": "mend", "limit": 1}).json()
        assert (board["matching"], [row["run"] for row in board["runs"]]) == (2, ["two"])
        assert server.get("/api/board", params={"status": "asleep"}).status_code == 400
        assert server.get("/api/board?status=failed,done&status=working").json()["matching"] == 2
        assert server.get("/api/board?agent=coder&agent=a,b").json()["matching"] == 2
        refused = server.get("/api/board?since=someday")
        assert (refused.status_code, "-24h" in refused.json()["hint"]) == (400, True)
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


def test_a_proof_shows_whether_the_record_is_intact(tmp_path):
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
