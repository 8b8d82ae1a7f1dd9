"""Two runs side by side: what is the same, where they part, what changed, what each took."""

import time
from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import sampling as samples
from support.forking import tracklog
from tracklog.answers.alignment import align, compare
from tracklog.answers.diff import DiffDelta, changes, diff
from tracklog.answers.run_steps import RunStep, steps, without_names
from tracklog.dialects import tracklog as native
from tracklog.home.home import Home
from tracklog.model.fact import Began, Called, Decided, Ended, Returned, Said, Spent

NOW = "2026-05-05T10:00:00.000Z"
ORIGIN = {"writer": "test", "fidelity": "observed"}
LETTERS = st.lists(st.sampled_from("abcdef"), max_size=30)


def step(letter, n=0, sort="x"):
    return RunStep(n, "Said", None, sort.encode(), letter.encode(), 0)


def listed(letters):
    return [step(letter, n, letter if letter in "ab" else "x") for n, letter in enumerate(letters)]


def told(n, fact, run):
    at = f"2026-05-05T09:{n // 60 % 60:02}:{n % 60:02}.{n % 1000:03}Z"
    return native.line(fact, id=f"{run}-{n}", run=run, at=at, origin=ORIGIN)


def said(text, role="assistant", **more):
    return Said(role=role, blocks=({"type": "text", "text": text},), **more)


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path / "home", durability="os") as opened:
        yield opened


def record(home, run, *facts):
    lines = [told(n, fact, run) for n, fact in enumerate(facts)]
    for verdict in home.intake.admit(lines, "tracklog"):
        assert verdict.seq is not None, verdict
    home.index.catch_up()


def compared(home, **options):
    return diff(home, "tracklog:left", "tracklog:right", now=NOW, **options)


@given(LETTERS)
def test_a_list_differs_from_itself_in_nothing(letters):
    assert compare(listed(letters), listed(letters)) == [(n, n) for n in range(len(letters))]


@given(LETTERS, LETTERS)
def test_the_other_way_round_it_is_the_mirror(a, b):
    one, two = listed(a), listed(b)
    assert compare(one, two) == [(i, j) for j, i in compare(two, one)]


@given(LETTERS, LETTERS)
def test_every_step_stands_once_and_in_order(a, b):
    rows = compare(listed(a), listed(b))
    assert [i for i, _ in rows if i is not None] == list(range(len(a)))
    assert [j for _, j in rows if j is not None] == list(range(len(b)))
    for i, j in rows:
        if i is not None and j is not None:
            assert a[i] == b[j] or listed(a)[i].shape == listed(b)[j].shape


@given(LETTERS, LETTERS)
def test_the_first_divergence_is_the_first(a, b):
    """Before it all is equal, and at it the two lists really part."""
    rows = compare(listed(a), listed(b))
    first = next(
        (n for n, (i, j) in enumerate(rows) if i is None or j is None or a[i] != b[j]), None
    )
    common = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    if common is None and len(a) == len(b):
        assert first is None
    else:
        assert first == (min(len(a), len(b)) if common is None else common)


@given(LETTERS, LETTERS)
def test_what_is_matched_is_equal_and_rises(a, b):
    pairs = align([x.encode() for x in a], [x.encode() for x in b])
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(x < u and y < v for (x, y), (u, v) in pairwise(pairs))


@given(LETTERS, st.integers(0, 30), st.sampled_from("ghij"))
def test_one_step_more_is_one_difference(letters, place, letter):
    longer = [*letters[:place], letter, *letters[place:]]
    pairs = compare(listed(letters), listed(longer))
    assert [pair for pair in pairs if pair[0] is None] == [(None, min(place, len(letters)))]
    assert len(pairs) == len(longer)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ("a", "b") * n,  # nothing stands once
        lambda n: tuple(map(str, range(2 * n))),  # everything does
        lambda n: tuple(str(each * each % 97) for each in range(2 * n)),
    ],
    ids=["alternating", "unique", "few"],
)
def test_long_lists_are_compared_in_seconds(make):
    one = [step(letter) for letter in make(25_000)]
    two = [*one[100:20_000], *[step("new")] * 500, *one[25_000:], *one[:100]]
    begun = time.process_time()  # of our own work: other load does not count
    assert len(compare(one, two)) >= max(len(one), len(two))
    assert time.process_time() - begun < 20


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.sampled_from(["x", "y"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b/c", "~"]), inner)
    ),
    max_leaves=8,
)


@given(JSON, JSON)
def test_changes_are_reported_where_and_only_where_values_differ(a, b):
    alike = orjson.dumps(a, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        b, option=orjson.OPT_SORT_KEYS
    )
    found = list(changes(a, b))
    assert bool(found) != alike
    assert [(each.pointer, each.b, each.a) for each in found] == [
        (each.pointer, each.a, each.b) for each in changes(b, a)
    ]


def test_ids_and_times_do_not_count():
    one = (
        "run-1234567 at 2026-05-05T09:00:00.123Z, toolu_01AbCdEfGhIjKl, 1760000000, deadbeef012345"
    )
    two = "run-7654321 at 2026-06-06 10:00:00, toolu_99ZzCdEfGhIjKl, 1770000000123, beefdead543210"
    assert without_names(one, "run-1234567") == without_names(two, "run-7654321")
    assert without_names("3 files, decade") == "3 files, decade"
    assert without_names({"n": 12, "at": 1760000000}) == {"n": 12, "at": "<time>"}


def play(run, path="a.py", verdict="fine", usage=10, task="Mend it"):
    return [
        Began(what="run", task=task),
        said("Mend it", "user", message_id=f"{run}-m1"),
        Called(tool="read", call_id=f"toolu_{run}", input={"path": path, "opts": {"from": 1}}),
        Returned(call_id=f"toolu_{run}", ok=True, output="x = 1"),
        Called(tool="read", call_id=f"toolu_{run}", input={"path": path, "opts": {"from": 1}}),
        Spent(key=f"{run}-1", usage={"input_tokens": usage, "output_tokens": 5}, cost_usd=0.5),
        Decided(name="review", verdict=verdict),
        Ended(what="run", outcome="ok", passed=True),
    ]


def test_the_same_play_twice_is_the_same_though_every_id_is_another(home):
    record(home, "left-run", *play("left-run", task="Mend left-run"))
    record(home, "right-run", *play("right-run", task="Mend right-run"))
    answer = diff(home, "tracklog:left-run", "tracklog:right-run", now=NOW)
    assert answer.same
    assert (answer.first, answer.rows) == (None, [])
    assert answer.counts.same == 6
    assert not diff(home, "tracklog:left-run", "tracklog:right-run", now=NOW, exact=True).same


def test_a_changed_argument_is_reported_by_its_pointer_and_what_it_took_by_its_delta(home):
    record(home, "left", *play("left"))
    record(home, "right", *play("right", path="b.py", verdict="bad", usage=30))
    answer = compared(home)
    assert not answer.same
    assert answer.at == 2
    assert answer.first == answer.rows[0]
    assert answer.first.kind == "changed"
    assert [(each.pointer, each.a, each.b) for each in answer.first.changes] == [
        ("/path", "a.py", "b.py")
    ]
    assert answer.rows[1].changes[0].pointer == "/verdict"
    assert answer.deltas["tokens"] == DiffDelta(15, 35, 20)
    assert answer.deltas["cost_usd"] == DiffDelta(0.5, 0.5, 0)
    assert answer.deltas["tool_calls"].delta == 0


def test_a_step_that_only_one_has_stands_alone(home):
    record(home, "left", *play("left"))
    record(home, "right", *play("right")[:2], said("Let me think"), *play("right")[2:])
    answer = compared(home)
    assert [(row.kind, row.b and row.b.words) for row in answer.rows] == [
        ("only_b", "Let me think")
    ]


def test_a_run_that_was_imported_twice_is_compared_once(home):
    for run, versions in (("left", (1,)), ("right", (1, 2))):
        for version in versions:
            origin = {**ORIGIN, "record": "k1", "mapping": version}
            line = native.line(
                said("hello"),
                id=f"{run}{version}",
                run=run,
                at="2026-05-05T09:00:00Z",
                origin=origin,
            )
            home.intake.admit([line], "tracklog")
    home.index.catch_up()
    assert compared(home).same


@pytest.mark.parametrize("sample", samples.of("good"), ids=samples.name_of)
def test_every_run_of_every_dialect_is_the_same_as_itself(sample, home):
    home.intake.admit(samples.lines_of(sample), samples.dialect_of(sample))
    home.index.catch_up()
    for family, run in home.runs():
        key = f"{family}:{run}"
        assert diff(home, key, key, now=NOW).same
        assert diff(home, key, key, now=NOW, exact=True).same


TALES = st.lists(
    st.one_of(
        st.builds(said, st.sampled_from("abc"), st.sampled_from(["user", "assistant"])),
        st.builds(Decided, verdict=st.sampled_from("xy")),
        st.builds(
            Called,
            tool=st.sampled_from("tu"),
            call_id=st.uuids().map(str),
            input=st.fixed_dictionaries({"n": st.integers(0, 2)}),
        ),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40)
@given(TALES, TALES)
def test_two_recorded_runs_are_compared_by_the_same_laws(tmp_path_factory, left, right):
    with Home(tmp_path_factory.mktemp("law") / "home", durability="os") as home:
        record(home, "left", *left)
        record(home, "right", *right)
        answer = compared(home)
        mirror = diff(home, "tracklog:right", "tracklog:left", now=NOW)
        assert answer.same == mirror.same == (not answer.rows)
        assert answer.at == mirror.at
        assert answer.counts.only_a == mirror.counts.only_b
        assert [row.a for row in answer.rows] == [row.b for row in mirror.rows]
        one = steps(home.journal.records(run=("tracklog", "left")), home.dialects)
        two = steps(home.journal.records(run=("tracklog", "right")), home.dialects)
        assert [each.whole for each in one[: answer.at]] == [
            each.whole for each in two[: answer.at]
        ]
        for row in answer.rows:
            assert row.kind != "changed" or row.changes


def test_the_verb_exits_0_when_they_are_the_same_1_when_they_differ_and_2_when_they_cannot_be_compared(
    home,
):
    record(home, "left", *play("left"))
    record(home, "right", *play("right", path="\x1b[2Jb.py"))
    done = tracklog(home.path, "diff", "left", "right")
    assert (done.returncode, done.stderr) == (1, b"")
    shown = done.stdout.decode()
    assert shown.replace("\n", "").isprintable()
    assert "they differ from step 3" in shown
    assert "/path" in shown
    assert "- a.py\n" in shown
    answer = orjson.loads(tracklog(home.path, "diff", "left", "right", "--json").stdout)
    assert answer["first"]["changes"] == [{"pointer": "/path", "a": "a.py", "b": "\x1b[2Jb.py"}]
    done = tracklog(home.path, "diff", "left", "left")
    assert (done.returncode, b"the same: 6 steps" in done.stdout) == (0, True)
    done = tracklog(home.path, "diff", "left", "rigth")
    assert (done.returncode, b"did you mean right" in done.stderr) == (2, True)
