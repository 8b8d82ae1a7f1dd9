"""Related runs are found by name, and nothing else is read."""

from contextlib import contextmanager
from dataclasses import asdict
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.asking import ask
from support.soaking import SOAK
from tracklog.answers.duplicates import same_conversation
from tracklog.answers.prices import load
from tracklog.answers.related import read_spends, related_runs
from tracklog.answers.spends import price_by
from tracklog.dialects import tracklog as native
from tracklog.folds import costs as costs_fold
from tracklog.folds import tree as tree_fold
from tracklog.home.home import Home
from tracklog.journal.journal import JournalEntry
from tracklog.model.fact import Began, Called, Linked, Spent

NOW = "2026-05-05T10:00:00.000Z"
SPENT = {
    "tokens_in": "input_tokens", "tokens_out": "output_tokens", "tokens_cached": "cached_tokens",
    "tokens": "total_tokens", "cost_usd": "cost_usd",
}  # fmt: skip  # a field of a run's row, and the field of a cost row that it shows
RUNS = ["r1", "r2", "r3", "r4"]
NAMES = [*RUNS, "thread-1", "gone", {"family": "awf", "run": "r2"}]
FAMILIES = ["tracklog", "awf"]

usages = st.fixed_dictionaries(
    {"output_tokens": st.integers(0, 9)}, optional={"input_tokens": st.integers(0, 9)}
)
spent = st.builds(
    Spent,
    key=st.sampled_from([None, "k1", "k2", "k3"]),
    usage=usages,
    cost_usd=st.sampled_from([None, 0.25, 1.0]),
    model=st.sampled_from([None, "m", "n"]),
    agent=st.sampled_from([None, "a", "b"]),
    group=st.sampled_from([None, None, "g"]),
    whole=st.booleans(),
    copied=st.sampled_from([False, False, True]),
    bound=st.sampled_from([None, "lower"]),
)
linked = st.builds(
    Linked,
    kind=st.sampled_from(["sub-run", "fork", "related"]),
    parent=st.sampled_from([None, *NAMES]),
    child=st.sampled_from([None, *NAMES]),
    other=st.sampled_from([None, *NAMES]),
)
named = st.builds(
    Linked, kind=st.just("alias"), system=st.just("s"), alias=st.sampled_from(["thread-1", "r4"])
)
called = st.builds(Called, tool=st.just("t"), call_id=st.sampled_from("123"), input=st.just(1))
began = st.builds(Began, what=st.just("run"))
lines = st.lists(
    st.tuples(
        st.one_of(spent, linked, named, called, began),
        st.sampled_from(RUNS),
        st.sampled_from(FAMILIES),
        st.sampled_from(["one", "two"]),
    ),
    min_size=1,
    max_size=25,
)


def entry(n, fact, run="r1", family="tracklog", writer="test"):
    line = native.line(
        fact,
        id=f"{n:032x}",
        run=run,
        family=None if family == "tracklog" else family,
        origin={"writer": writer, "fidelity": "observed"},
    )
    return JournalEntry("tracklog", family, run, line)


@contextmanager
def indexed(told):
    """A home with these facts, whose index has caught up."""
    with (
        TemporaryDirectory() as folder,
        Home(folder, durability="os", index="sqlite::memory:") as home,
    ):
        home.journal.append([entry(n, *each) for n, each in enumerate(told)])
        home.index.catch_up()
        yield home


@settings(max_examples=150 * SOAK)
@given(lines)
def test_what_is_found_by_name_is_what_reading_everything_finds(told):
    price = price_by(load())
    with indexed(told) as home:
        index = home.index
        trees = dict(index.states("tree"))
        every = [state for _, state in index.states("costs")]
        heard = {key: state.first_seq for key, state in index.states("runs")}
        for key in heard:
            whole = tree_fold.answer(trees, key, heard)
            assert branches(home, run=key) == [asdict(each) for each in whole]
            below = {branch.key for branch in whole} | {key}
            again = same_conversation(index)
            side = {run for run in below if (run in again) == (key in again)}
            asked = {"by": "all", "within": side, "price": price, "duplicates": again}
            found = costs_fold.answer(read_spends(index, below), **asked)
            assert found == costs_fold.answer(every, **asked)
            assert ask(home, "show", run=key)["cost_with_sub_runs"] == (found or [None])[0]
            assert key not in trees or key in related_runs(index, [key])
        all_trees = branches(home)
        assert all_trees == [asdict(each) for each in tree_fold.answer(trees, None, heard)]
        assert {branch["key"] for branch in all_trees} >= heard.keys()


def branches(home, **asked):
    """The rows of a tree, without those of its runs."""
    rows = ask(home, "tree", **asked)
    assert all(row.pop("run") is None for row in rows)
    return rows


@settings(max_examples=150 * SOAK)
@given(lines)
def test_every_way_to_group_costs_comes_to_the_same_sum(told):
    with indexed(told) as home:
        states = [state for _, state in home.index.states("costs")]
    sums = [
        [
            sum(row[name] or 0 for row in costs_fold.answer(states, by=by, then=then))
            for name in ("spends", "output_tokens", "input_tokens")
        ]
        for by in costs_fold.GROUPS
        for then in (None, "model", "run")
    ]
    assert all(each == sums[0] for each in sums)


@settings(max_examples=100 * SOAK)
@given(lines)
def test_the_cost_of_a_run_is_the_same_in_every_answer(told):
    tied = Linked(kind="related", other="somebody")
    with indexed([*told, *((tied, run, family, "one") for _, run, family, _ in told)]) as home:
        states = [state for _, state in home.index.states("costs")]
        rows = ask(home, "runs", now=NOW)
        every, again = set(map(key_of, rows)), same_conversation(home.index)
        found = costs_fold.answer(states, within=every, duplicates=again)
        cost = {row["of"]: row for row in found}
        board = ask(home, "board", now=NOW)["runs"]
        shown = [ask(home, "show", run=key_of(row), now=NOW) for row in rows]
        listed = {key_of(row): ask(home, "run-spends", run=key_of(row)) for row in rows}
    for row in rows:
        for name, of in SPENT.items():
            known = [each[of] for each in listed[key_of(row)] if each[of] is not None]
            assert row[name] == (pytest.approx(sum(known)) if known else None)
    for row in [*rows, *board, *shown]:
        spent = cost.get(key_of(row), {})
        assert {name: row[name] for name in SPENT if name in row} == {
            name: spent.get(of) for name, of in SPENT.items() if name in row
        }


def key_of(row):
    return f"{row['family']}:{row['run']}"


@settings(max_examples=100 * SOAK)
@given(lines)
def test_a_repeated_spend_costs_nothing(told):
    keyed = [each for each in told if not isinstance(each[0], Spent) or each[0].key is not None]
    with indexed(keyed) as once, indexed([*keyed, *keyed]) as twice:
        for by in ("run", "agent", "model", "all"):
            assert ask(once, "costs", by=by) == ask(twice, "costs", by=by)


def test_a_run_without_a_spend_does_not_replace_one_that_has_one():
    name = Linked(kind="alias", system="s", alias="thread-1")
    free = Spent(key="k1", usage={"output_tokens": 0})
    told = [(free, "r1", "awf"), (name, "r1", "awf"), (name, "r1"), *[(name, "r2")] * 5]
    with indexed(told) as home:
        assert [row["of"] for row in ask(home, "costs", by="run")] == ["awf:r1"]


@settings(max_examples=100 * SOAK)
@given(lines, st.randoms(use_true_random=False))
def test_of_one_spend_the_greatest_amount_counts_where_it_was_first_recorded(told, random):
    """Behind the first telling of each key, the order of the rest does not matter."""
    spends = [each for each in told if isinstance(each[0], Spent) and each[0].key is not None]
    plain = [(Spent(key=each[0].key, usage=each[0].usage), *each[1:3]) for each in spends]
    first: dict[str, tuple] = {}
    for each in plain:
        first.setdefault(each[0].key, each)
    rest = [each for each in plain if each is not first[each[0].key]]
    shuffled = rest[:]
    random.shuffle(shuffled)
    rows, again = (_costs([*first.values(), *each]) for each in (rest, shuffled))
    assert rows == again
    best = {
        key: max(each[0].usage["output_tokens"] for each in plain if each[0].key == key)
        for key in first
    }
    for key, (_, run, family) in first.items():
        row = next((row for row in rows if row["of"] == f"{family}:{run}"), None)
        mine = sum(most for k, most in best.items() if first[k][1:] == (run, family))
        assert row is not None, key
        assert row["output_tokens"] == mine


def _costs(told):
    with indexed(told) as home:
        return costs_fold.answer([state for _, state in home.index.states("costs")])


@pytest.mark.parametrize("twin_says", [1, 9])
def test_of_two_records_of_a_conversation_the_one_with_more_information_counts(twin_says):
    alias = Linked(kind="alias", system="provider", alias="session-1")
    told = [
        (alias, "ours", "awf"),
        (Spent(key="a", usage={"output_tokens": 5}), "ours", "awf"),
        (alias, "theirs", "tracklog"),
        (Spent(key="b", usage={"output_tokens": twin_says}), "theirs", "tracklog"),
        (Spent(key="c", usage={"output_tokens": 2}), "alone", "tracklog"),
    ]
    left = "tracklog:theirs" if twin_says == 1 else "awf:ours"
    with indexed(told) as home:
        assert set(same_conversation(home.index)) == {left}
        assert {row["of"] for row in ask(home, "costs")} == {
            "awf:ours", "tracklog:theirs", "tracklog:alone"
        } - {left}  # fmt: skip  # one set


def test_what_an_uncounted_run_began_is_not_counted_either_however_deep():
    alias = Linked(kind="alias", system="provider", alias="session-1")

    def below(child):
        return Linked(kind="sub-run", child=child)

    def spent(key, tokens):
        return Spent(key=key, usage={"output_tokens": tokens})

    told = [
        (alias, "ours", "awf"),
        (spent("a", 100), "ours", "awf"),
        (Called(tool="Read", call_id="1"), "ours", "awf"),
        (alias, "theirs", "tracklog"),
        (spent("b", 9), "theirs", "tracklog"),
        (below("child"), "theirs", "tracklog"),
        (spent("c", 8), "child", "tracklog"),
        (Called(tool="Read", call_id="2"), "child", "tracklog"),
        (below("grandchild"), "child", "tracklog"),
        (spent("d", 7), "grandchild", "tracklog"),
        (spent("e", 1), "alone", "tracklog"),
    ]
    twins = {f"tracklog:{run}": "awf:ours" for run in ("theirs", "child", "grandchild")}
    with indexed(told) as home:
        assert same_conversation(home.index) == twins
        for limit in (None, 50):
            rows = ask(home, "runs", now=NOW, limit=limit)
            assert {key_of(row): row["same_as"] for row in rows if row["same_as"]} == twins
        for key in ("awf:ours", "tracklog:alone", *twins):
            assert ask(home, "show", run=key, now=NOW)["same_as"] == twins.get(key)
        assert {row["of"]: row["output_tokens"] for row in ask(home, "costs")} == {
            "awf:ours": 100,
            "tracklog:alone": 1,
        }
        [all_] = ask(home, "costs", by="all")
        assert all_["output_tokens"] == 101
        assert [(row["tool"], row["calls"]) for row in ask(home, "tools")] == [("Read", 1)]
