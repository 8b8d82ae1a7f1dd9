"""What a run spent, turn by turn, by tool and by kind of token, and where its context was compacted."""

import orjson
import pytest

from support.asking import ask
from support.collecting import collector
from support.forking import tracklog
from tracklog.answers import prices
from tracklog.answers.spends import price_by
from tracklog.dialects import tracklog as native
from tracklog.folds import costs as costs_fold
from tracklog.home.home import Home
from tracklog.model.errors import BadQuery
from tracklog.model.fact import Began, Called, Noted, Returned, Said, Spent

MODEL = "claude-sonnet-4-5"
USAGE = {"input_tokens": 1000, "cached_tokens": 600, "cache_write_tokens": 100, "output_tokens": 51}


def says(role):
    return Said(role=role, blocks=({"type": "text", "text": "x"},))


def compacted(**data):
    return Noted(label="compaction", data=data)


FACTS = [
    Began(what="run"),
    says("user"),
    says("assistant"),
    Called(call_id="1", tool="Read", input={"path": "a"}),
    Called(call_id="2", tool="Grep", input={"words": "b"}),
    Returned(call_id="1", ok=True),
    Returned(call_id="2", ok=True),
    Spent(key="s1", model=MODEL, usage=USAGE),
    compacted(before=150_000),
    compacted(after=20_000, before=None),
    says("assistant"),
    Called(call_id="3", tool="Read", input={"path": "c"}),
    Returned(call_id="3", ok=False),
    Spent(key="s2", model=MODEL, usage={**USAGE, "input_tokens": 2000}),
    says("user"),
    says("assistant"),
    Spent(key="s3", model=MODEL, usage=USAGE, cost_usd=0.5),
]


@pytest.fixture
def folder(tmp_path):
    origin = {"writer": "importer", "fidelity": "reconstructed"}
    lines = [
        native.line(
            fact, id=f"{n:032x}", run="r", at=f"2026-05-05T10:00:{n:02}.000Z", origin=origin
        )
        for n, fact in enumerate(FACTS)
    ]
    with Home(tmp_path) as home:
        verdicts = home.intake.admit(lines, "tracklog")
        assert [each.problems for each in verdicts if each.problems] == []
        home.index.catch_up()
    return tmp_path


def of(rows, field="computed_usd"):
    return {row["of"]: row[field] for row in rows}


def test_a_turn_says_how_full_its_context_was_and_that_it_was_compacted_before(folder):
    with Home(folder) as home:
        first, second, third = ask(home, "turns", run="r")["rows"]
        assert [row["context_tokens"] for row in (first, second, third)] == [1000, 2000, 1000]
        assert (first["compaction"], third["compaction"]) == (None, None)
        compaction = second["compaction"]
        assert (compaction["before_tokens"], compaction["after_tokens"]) == (150_000, 20_000)
        assert compaction["seq"] < second["seq"]
        context, count = ask(
            home, "series", metric=["context", "compactions"], bucket="turn", run="r"
        )
        assert (context["unit"], context["keys"][0]["values"]) == ("tokens", [1000, 2000, 1000])
        assert context["total"] == 1000
        assert (count["unit"], count["keys"][0]["values"]) == ("compactions", [0, 1, 0])
        earlier = ask(home, "series", metric=["context"], bucket="turn", run="r", at=8)
        assert earlier["keys"][0]["values"] == [1000]
        for wrong in ({"metric": ["context"]}, {"metric": ["cost"], "at": 8}):
            with pytest.raises(BadQuery):
                ask(home, "series", **wrong)
    asked = ("series", "--metric", "compactions", "--bucket", "turn", "--run", "r", "--json")
    shown = orjson.loads(tracklog(folder, *asked).stdout)
    with collector(folder) as server:
        path = "/api/series?metric=compactions&bucket=turn&run=r"
        assert server.get(path).json()["keys"] == shown["keys"]


def test_the_cost_of_a_turn_is_split_by_kind_of_token_and_what_is_reported_has_none(folder):
    with Home(folder) as home:
        rows = ask(home, "turns", run="r")["rows"]
        split = ask(home, "series", metric=["cost"], by="token_kind", bucket="turn", run="r")
        names = [key["key"] for key in split["keys"]]
        assert names == ["cache read", "input", "cache write", "output", None]
        values = [sum(each) for each in zip(*(key["values"] for key in split["keys"]), strict=True)]
        told = [(row["computed_usd"] or 0) + (row["cost_usd"] or 0) for row in rows]
        assert values == pytest.approx(told)
        assert split["keys"][-1]["values"] == [0, 0, 0.5]
        kinds = ask(home, "costs", by=["token_kind"], run="r")
        computed = sum(row["computed_usd"] or 0 for row in rows)
        assert sum(row["computed_usd"] or 0 for row in kinds) == pytest.approx(computed)
        assert of(kinds, "cost_usd")[None] == 0.5
        assert of(kinds, "total_tokens")["cache read"] == 1800


def test_the_cost_of_a_turn_is_that_of_the_tools_it_called_in_equal_parts(folder):
    with Home(folder) as home:
        first, second, _ = ask(home, "turns", run="r")["rows"]
        rows = ask(home, "costs", by=["tool"], run="r")
        half = first["computed_usd"] / 2
        assert of(rows)["Grep"] == pytest.approx(half)
        assert of(rows)["Read"] == pytest.approx(half + second["computed_usd"])
        assert of(rows, "cost_usd")[None] == 0.5
        assert sum(row["output_tokens"] for row in rows) == 3 * 51
        earlier = ask(home, "costs", by=["tool"], run="r", at=8)
        assert set(of(earlier)) == {"Read", "Grep"}
        for wrong in ({"by": ["tool"]}, {"by": ["tool", "model"], "run": "r"}, {"at": 3}):
            with pytest.raises(BadQuery):
                ask(home, "costs", **wrong)
    shown = tracklog(folder, "costs", "--run", "r", "--by", "tool").stdout
    assert b"Grep" in shown


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gpt-5", MODEL, "claude-opus-4-1", "unknown"])
@pytest.mark.parametrize("given", [900, 250_000])
def test_the_kinds_of_a_spend_add_up_to_its_price(model, given):
    known = prices.load()
    usage = {"input_tokens": given, "cached_tokens": 300, "cache_write_tokens": 200}
    usage |= {"cache_write_1h_tokens": 50, "output_tokens": 10}
    state = costs_fold.State(model=model, amounts=usage, at_ms=1_778_000_000_000)
    listed = price_by(known)(state)
    kinds = known.cost_by_kind(model, usage, "2026-05-05")
    assert sum(kinds.values()) == (listed[0] if listed else 0)
