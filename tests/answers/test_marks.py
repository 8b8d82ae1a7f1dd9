"""People's marks: they filter and sort the list of runs, and change nothing else."""

import itertools
import re
import shutil
import tempfile
from inspect import signature
from pathlib import Path
from unittest import mock
from uuid import UUID

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.asking import ask
from support.journals import DEEDS, RUNS, journals, line
from support.views import Look
from tracklog.answers.registry import questions
from tracklog.collector.marking import mark, without_tag
from tracklog.dialects import tracklog as native
from tracklog.formats import registry as formats
from tracklog.formats.convert import convert
from tracklog.formats.export import export, export_run_of
from tracklog.home.home import Home
from tracklog.model.errors import BadQuery, NoSuchMark, NoSuchRecord, NoSuchRun
from tracklog.model.fact import Began, Called, Ended, Marked, Returned

NOBODY = "nobody"
"""A run that does not exist: marks on it stand for no marks, and take as many numbers."""


def a_home(folder):
    ticks = itertools.count()
    return Home(folder, durability="os", clock=lambda: 1_778_000_000 + next(ticks) / 1000)


def mark_line(n, run, fact, at=None):
    origin = {"writer": "cli", "fidelity": "observed"}
    return native.line(fact, id=f"mark-{n}", run=run, at=at, origin=origin)


the_marks = st.one_of(
    st.builds(Marked, tag=st.sampled_from(["flaky", "good"]), by=st.just("ada")),
    st.builds(Marked, score=st.floats(0, 1), note=st.none() | st.just("well done")),
    st.builds(Marked, seen=st.booleans(), claimed_by=st.just("eve")),
    st.builds(Marked, record=st.integers(1, 20), note=st.just("look at this")),
    st.builds(Marked, withdraws=st.sampled_from(["mark-0", "mark-1"])),
)


@st.composite
def marked_journals(draw):
    """A journal, and marks with the places in it where they are made."""
    made = draw(
        st.lists(
            st.tuples(
                st.sampled_from(RUNS),
                the_marks,
                st.none() | st.sampled_from(["2020-01-01T00:00:00Z", "2040-01-01T00:00:00Z"]),
                st.integers(0, 100),
            ),
            min_size=1,
            max_size=5,
        )
    )
    return draw(journals()), made


def made(folder, journal, marks, *, on=None):
    """A home with all of it; with `on`, the marks are made on that run."""
    home = a_home(folder)
    steps = list(journal)
    for n, (run, fact, at, place) in enumerate(marks):
        steps.insert(place % (len(steps) + 1), ("line", mark_line(n, on or run, fact, at)))
    numbers = itertools.count()
    ids = (UUID(int=number) for number in numbers)
    with mock.patch("uuid.uuid4", side_effect=ids):  # the same ids each time
        for what, part in steps:
            if what == "erase" and _is_mark(home, part):
                continue  # an erasure is an act on the run of the record
            DEEDS[what](home, part)
    return home


def _is_mark(home, seq):
    return any(b'"Marked"' in record.line for record in home.journal.read(seq - 1, 1))


def plain(value):
    """An answer without what it says of marks."""
    if isinstance(value, dict):
        return {
            name: plain(each) for name, each in value.items() if name not in ("marks", "facets")
        }
    if isinstance(value, list):
        return [
            plain(each)
            for each in value
            if not (isinstance(each, dict) and each.get("kind") == "Marked")
        ]
    return value


APART = {"query", "marks", "search", "hits", "why", "diff", "show", "story"}
"""Questions that are asked below with arguments of their own, or have nothing to compare."""


def answers(home):
    """What every view says, by its name."""
    look = Look(home)
    now = "2026-05-06T00:00:00.000Z"
    said = {}
    for each in questions():
        if each.name in APART:
            continue
        given = {"since": "all", "bucket": "1mo", "tz": "UTC"} if each.name == "series" else {}
        given |= {"limit": 1000} if "limit" in {param.name for param in each.params} else {}
        given |= {"now": now} if "now" in signature(each.ask).parameters else {}
        if each.name == "traces":
            value = ask(home, "traces", run=look.keys)
        elif "run" in {param.name for param in each.params if param.required}:
            value = [ask(home, each.name, run=key, **given) for key in look.keys]
        else:
            value = ask(home, each.name, **given)
        said[each.name] = plain(value)
        if each.name in ("board", "top"):  # where a failure that was seen comes later
            said[each.name]["runs"].sort(key=lambda row: (row["family"], row["run"]))
    for key in look.keys:
        run = look.run(key)
        said["show", key] = plain(ask(home, "show", run=key, now=now))
        said["show at", key] = plain(ask(home, "show", run=key, at=home.journal.last))
        said["story", key] = plain(ask(home, "story", run=key, limit=1000))
        said["diff", key] = plain(ask(home, "diff", a=key, b=key, now=now))
        records = [each for each in home.journal.records(run=run) if each.line]
        said["why", key] = [
            plain(ask(home, "why", run=key, seq=each.seq))
            for each in [each for each in records if b'"Marked"' not in each.line][:3]
        ]
        for exporter in formats.exporters():
            content = b"".join(export(export_run_of(home, run), exporter.name))
            if exporter.name == "jsonl":
                kept = (each for each in content.splitlines() if b'"Marked"' not in each)
                content = b"\n".join(kept)
            if exporter.name == "html":  # it shows them apart from the run
                content = re.sub(
                    rb'<section class="marks">.*?</section>\n', b"", content, flags=re.DOTALL
                )
            if exporter.name != "cloudevents":
                said[exporter.name, key] = content
        for dialect in home.dialects.values():
            if dialect.name != "tracklog":
                said[dialect.name, key] = list(convert(records, home.dialects, dialect))
    return said


@settings(max_examples=15, deadline=None)
@given(marked_journals())
def test_marks_change_no_view_of_a_run(drawn):
    journal, marks = drawn
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "all"  # twice: imported lines hold the path of their file
        with made(place / "home", journal, marks) as home:
            said = answers(home)
        shutil.rmtree(place)
        with made(place / "home", journal, marks, on=NOBODY) as home:
            expected = answers(home)
    assert said.keys() == expected.keys()
    assert {name: each for name, each in said.items() if each != expected[name]} == {}


@pytest.fixture
def home(tmp_path):
    """Three runs: one failed, one is done, one works."""
    with a_home(tmp_path) as home:
        facts = {
            "bad": [Began(what="run"), Ended(what="run", passed=False)],
            "good": [Began(what="run"), Ended(what="run", passed=True)],
            "busy": [Began(what="run"), Called(tool="Read", call_id="c")],
        }
        lines = [line(run, n, fact) for run, each in facts.items() for n, fact in enumerate(each)]
        home.intake.admit(lines, "tracklog")
        yield home


NOW = "2026-05-05T16:53:21.000Z"


def make(home, run, **fields):
    return mark(home, [(run, Marked(by="ada", **fields))], writer="cli")[0]


def asked(home, **given):
    home.index.catch_up()
    return [row["run"] for row in ask(home, "runs", now=NOW, **given)]


def test_runs_are_filtered_by_their_marks(home):
    make(home, "bad", tag="flaky", score=0.25)
    make(home, "bad", tag="old", score=0.25)
    mark(home, [("bad", each) for each in without_tag(home, "bad", "old", Marked())], writer="cli")
    make(home, "good", score=0.75)
    make(home, "good", record=4, tag="slow")
    assert asked(home, tag=["flaky"]) == ["bad"]
    assert asked(home, tag=["slow"]) == ["good"]
    assert sorted(asked(home, tag=["!flaky"])) == ["busy", "good"]
    assert asked(home, tag=["(none)"]) == ["busy"]
    assert asked(home, score="0.5..") == ["good"]
    assert asked(home, score="..0.5") == ["bad"]
    assert asked(home, score="0.75") == ["good"]
    assert sorted(asked(home, score="0..1")) == ["bad", "good"]
    for wrong in ("high", "1..0", "0..x"):
        with pytest.raises(BadQuery):
            asked(home, score=wrong)
    [tags] = [each for each in ask(home, "board", now=NOW)["facets"] if each["name"] == "tag"]
    values = {each["value"]: each["count"] for each in tags["values"]}
    assert values == {"flaky": 1, "slow": 1, None: 1}


def test_a_failure_that_was_seen_leaves_the_top_until_the_run_fails_again(home):
    def groups():
        home.index.catch_up()
        board = ask(home, "board", group="attention", now=NOW)
        return {each["key"]: each["count"] for each in board["groups"]}, board["runs"][0]["run"]

    assert groups() == ({"working": 1, "broken": 1, "done": 1}, "busy")
    assert asked(home, sort="need") == ["bad", "busy", "good"]
    make(home, "bad", seen=True)
    assert groups() == ({"working": 1, "seen": 1, "done": 1}, "busy")
    assert asked(home, sort="need") == ["busy", "good", "bad"]
    assert asked(home, seen=["yes"]) == ["bad"]
    home.intake.admit([line("bad", 8, Returned(call_id="late", ok=True))], "tracklog")
    assert asked(home, seen=["yes"]) == ["bad"]
    home.intake.admit([line("bad", 9, Began(what="run"))], "tracklog")
    home.intake.admit([line("bad", 10, Ended(what="run", passed=False))], "tracklog")
    assert asked(home, seen=["yes"]) == []
    assert asked(home, sort="need")[0] == "bad"


def test_a_lost_run_that_was_seen_is_unseen_when_it_is_lost_again(home):
    late = "2026-05-06T16:53:21.000Z"

    def seen():
        home.index.catch_up()
        [row] = [row for row in ask(home, "runs", now=late) if row["run"] == "busy"]
        assert row["status"] == "lost"
        return row["marks"]["seen"]

    assert not seen()
    make(home, "busy", seen=True)
    assert seen()
    home.intake.admit([line("busy", 9, Returned(call_id="c", ok=True))], "tracklog")
    assert not seen()


def test_a_mark_can_be_withdrawn_and_the_past_still_shows_it(home):
    first = make(home, "bad", tag="flaky")
    make(home, "bad", tag="slow")
    [taken] = without_tag(home, "bad", "flaky", Marked(by="eve"))
    last = mark(home, [("bad", taken)], writer="cli")[0]
    home.index.catch_up()
    assert ask(home, "show", run="bad")["marks"]["tags"] == ["slow"]
    assert ask(home, "show", run="bad", at=last.seq)["marks"]["tags"] == ["slow"]
    assert ask(home, "show", run="bad", at=last.seq - 1)["marks"]["tags"] == ["flaky", "slow"]
    assert [each["tag"] for each in ask(home, "marks", run="bad")] == ["slow"]
    [_, gone] = ask(home, "marks", run="bad", withdrawn=True)
    assert (gone["mark"], gone["withdrawn_by"], gone["withdrawn_seq"]) == (
        first.mark,
        "eve",
        last.seq,
    )
    sql = "SELECT tag, withdrawn_seq IS NULL FROM marks ORDER BY seq"
    assert ask(home, "query", sql=sql)["rows"] == [["flaky", 0], ["slow", 1]]
    with pytest.raises(NoSuchMark):
        without_tag(home, "bad", "flaky", Marked(by="eve"))
    with pytest.raises(NoSuchMark):
        make(home, "bad", withdraws=first.mark)


def test_an_erased_mark_does_not_hold(home):
    made = make(home, "bad", tag="secret")
    home.erase("bad", made.seq, reason="a secret", by="ada")
    home.index.catch_up()
    assert ask(home, "marks") == []
    assert asked(home, tag=["secret"]) == []


def test_a_mark_is_made_on_what_exists_or_not_at_all(home):
    last = home.journal.last
    with pytest.raises(NoSuchRun):
        mark(home, [("bad", Marked(tag="a")), ("nobody", Marked(tag="a"))], writer="cli")
    with pytest.raises(NoSuchRecord):
        make(home, "bad", record=6, note="of another run")
    with pytest.raises(NoSuchRecord):
        make(home, "bad", record=99, note="of none")
    assert home.journal.last == last


def test_a_run_of_another_family_is_marked_by_a_native_line(tmp_path):
    with a_home(tmp_path) as home:
        home.intake.admit([line("one", 1, Began(what="run"), family="awf")], "tracklog")
        make(home, "awf:one", tag="flaky")
        [record] = list(home.journal.records(run=("awf", "one")))[1:]
        assert orjson.loads(record.line)["family"] == "awf"
        home.index.catch_up()
        assert ask(home, "show", run="awf:one")["marks"]["tags"] == ["flaky"]
        [_, told] = ask(home, "story", run="awf:one")["records"]
        assert told["words"] == "tag: flaky, by ada"
