"""Hits: what a search finds, by run and over time, and how many pass each filter."""

from collections import Counter
from itertools import product

import pytest

from support import sampling as samples
from support.asking import ask
from tracklog.answers.hits import NAMES, parsed
from tracklog.dialects import tracklog as native
from tracklog.home.home import Home
from tracklog.model.errors import UnknownName
from tracklog.model.fact import Asked, Began, Called, Decided, Fact, Noted, Returned, Said

ALL = {"since": "2026-05-01", "until": "2026-06-01", "tz": "UTC", "bucket": "1d"}
FACTS: dict[str, list[Fact]] = {
    "shop": [
        Began(what="run", cwd="/src/shop", task="mend the basket"),
        Said(role="user", blocks=({"type": "text", "text": "the basket is broken"},)),
        Said(
            role="assistant",
            agent="coder",
            blocks=({"type": "thinking", "thinking": "which basket?"},),
        ),
        Called(tool="Bash", call_id="1", agent="coder", input={"command": "grep basket"}),
        Returned(call_id="1", ok=False, agent="coder", error="basket: no such file"),
        Called(tool="Read", call_id="2", agent="coder", input={"path": "basket.py"}),
        Returned(call_id="2", ok=True, agent="coder", output="class Basket: a basket"),
    ],
    "docs": [
        Began(what="run", cwd="/src/docs"),
        Asked(question_id="q", agent="writer", text="one basket or two?"),
        Decided(name="words", verdict="fail", passed=False, reason="the basket is not described"),
    ],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with Home(tmp_path_factory.mktemp("hits") / "home", durability="os") as opened:
        for sample in samples.of("good"):
            opened.intake.admit(samples.lines_of(sample), samples.dialect_of(sample))
        for run, facts in FACTS.items():
            for n, fact in enumerate(facts):
                line = native.line(
                    fact,
                    id=f"{run}-{n}",
                    run=run,
                    at=f"2026-05-{n + 1:02}T10:00:00Z",
                    origin={"writer": "live", "fidelity": "observed"},
                )
                opened.intake.admit([line], "tracklog")
        opened.index.catch_up()
        yield opened


def test_a_query_holds_words_and_filters():
    assert parsed('tool:Bash failed:yes no "project:x y" kind:"call" http://a') == (
        'no "project:x y" http://a',
        {"tool": ["Bash"], "failed": ["yes"], "kind": ["call"]},
    )


def test_each_hit_says_what_it_is(home):
    found = ask(home, "hits", query="basket", each=100)
    kinds = {(row["run"], row["kind"], row["tool"], row["failed"]) for row in found["hits"]}
    assert kinds == {
        ("shop", "run", None, False),
        ("shop", "said", None, False),
        ("shop", "thinking", None, False),
        ("shop", "call", "Bash", True),
        ("shop", "result", "Bash", True),
        ("shop", "call", "Read", False),
        ("shop", "result", "Read", False),
        ("docs", "question", None, False),
        ("docs", "verdict", None, True),
    }
    assert [(each["run"]["run"], each["hits"]) for each in found["runs"]] == [
        ("docs", 2),
        ("shop", 7),
    ]
    assert (found["total"], found["of_runs"], found["cut"]) == (9, 2, False)


@pytest.mark.parametrize("query", ["basket", "the", ""])
def test_the_counts_of_a_facet_are_the_hits_that_its_filter_leaves(home, query):
    """Whatever else is filtered; and the search, the hits and the series find the same."""
    every = ask(home, "hits", query=query, each=1000, limit=1000)
    if query:
        rows = ask(home, "search", query=query, limit=10_000)
        assert sorted(each["seq"] for each in rows) == sorted(each["seq"] for each in every["hits"])
    for name, other in product(NAMES, ({}, {"agent": ["coder"]}, {"failed": ["yes"]})):
        filters = {key: value for key, value in other.items() if key != name}
        answer = ask(home, "hits", query=query, limit=1000, each=1000, **filters)
        facet = next(each for each in answer["facets"] if each["name"] == name)
        for each in facet["values"]:
            value = "(none)" if each["value"] is None else each["value"]
            narrowed = ask(home, "hits", query=query, **filters, **{name: [value]})
            assert narrowed["total"] == each["count"]
    in_may = ask(home, "hits", query=query, since=ALL["since"], until=ALL["until"])
    assert ask(home, "series", metric=["hits"], query=query, **ALL)["total"] == in_may["total"]


def test_hits_over_time_are_split_by_tool_and_narrowed_by_the_query(home):
    series = ask(home, "series", metric=["hits"], query="basket", by="tool", **ALL)
    assert Counter({key["key"]: key["sum"] for key in series["keys"]}) == {
        None: 5,
        "Bash": 2,
        "Read": 2,
    }
    narrow = ask(home, "series", metric=["hits"], query="basket project:docs", **ALL)
    assert narrow["total"] == 2
    with pytest.raises(UnknownName):
        ask(home, "series", metric=["hits"], by="model", query="basket", **ALL)
    with pytest.raises(UnknownName):
        ask(home, "hits", query="kind:moon basket")


@pytest.mark.parametrize("group", ["run", "time"])
def test_notes_about_tracklog_itself_are_hits_of_no_run(tmp_path, group):
    runs = ["operations", "shop", "settings", "tokens", "alerts"]
    lines = [
        native.line(
            Noted(label="act", text="who touched the basket"),
            id=run,
            run=run,
            at="2026-05-01T10:00:00Z",
            origin={"writer": "live", "fidelity": "observed"},
        )
        for run in runs
    ]
    with Home(tmp_path / "home", durability="os") as home:
        home.intake.admit(lines, "tracklog")
        home.index.catch_up()
        answer = ask(home, "hits", query="basket", group=group)
    assert answer["total"] == 5
    assert answer["of_runs"] == 1
    assert [each["run"]["run"] for each in answer["runs"]] == ["shop"]
    assert {each["run"] for each in answer["hits"]} == set(runs)


def test_a_run_is_searched_although_others_used_the_words_more_often_since(tmp_path, monkeypatch):
    monkeypatch.setattr("tracklog.answers.search.LOOKED_AT", 3)
    with Home(tmp_path) as home:
        for run, times in (("old", 2), ("new", 9)):
            for n in range(times):
                line = native.line(
                    Said(role="user", blocks=({"type": "text", "text": "harbour"},)),
                    id=f"{run}-{n}",
                    run=run,
                    at="2026-05-05T09:00:00Z",
                    origin={"writer": "live", "fidelity": "observed"},
                )
                home.intake.admit([line], "tracklog")
        home.index.catch_up()
        found = ask(home, "search", query="harbour", run="tracklog:old")
        assert [hit["seq"] for hit in found] == [2, 1]
