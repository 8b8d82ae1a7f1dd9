"""From an event back to its prompt, and on to what it caused: along ids, handoffs, sub-runs, order."""

import time

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import sampling as samples
from support.forking import tracklog
from tracklog.answers.why import why
from tracklog.dialects import tracklog as native
from tracklog.home.home import Home
from tracklog.model.errors import NoSuchRecord
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Linked,
    Moved,
    Returned,
    Said,
)

ORIGIN = {"writer": "test", "fidelity": "observed"}


def told(n, fact, run="r1", record=None, **more):
    origin = ORIGIN if record is None else {**ORIGIN, "record": record}
    at = f"2026-05-05T{9 + n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}.000Z"
    return native.line(fact, id=f"{run}-{n}", run=run, at=at, origin=origin, **more)


def said(text, role="assistant", **more):
    return Said(role=role, blocks=({"type": "text", "text": text},), **more)


@pytest.fixture
def home(tmp_path):
    with Home(tmp_path / "home", durability="os") as opened:
        yield opened


def record(home, *lines):
    for verdict in home.intake.admit(list(lines), "tracklog"):
        assert verdict.seq is not None, verdict
    home.index.catch_up()


def back(home, seq, run="r1"):
    answer = why(home, f"tracklog:{run}", seq)
    return [(step.seq, step.how) for step in answer.back], answer.ends


def test_a_result_leads_to_its_call_its_message_and_its_prompt(home):
    record(
        home,
        told(1, said("Mend the test", "user")),
        told(2, said("I look at it")),
        told(3, Called(tool="read", call_id="c1", input={"path": "a.py"})),
        told(4, Called(tool="read", call_id="c2", input={"path": "b.py"})),
        told(5, Returned(call_id="c2", ok=True, output="b")),
        told(6, Returned(call_id="c1", ok=True, output="a")),
        told(7, said("It is a typo")),
        told(8, said("Thanks. Now the docs", "user")),
        told(9, said("They are fine")),
    )
    assert back(home, 6) == ([(3, "call"), (2, "order"), (1, "order")], "prompt")
    assert back(home, 7) == ([(6, "order"), (3, "call"), (2, "order"), (1, "order")], "prompt")
    assert back(home, 9) == ([(8, "order")], "prompt")
    assert back(home, 8) == ([], "prompt")
    onward = why(home, "tracklog:r1", 1).forward
    assert [step.seq for step in onward] == [2, 3, 4, 5, 6, 7]
    assert {step.seq: (step.how, step.of) for step in onward}[6] == ("call", 3)
    assert [step.seq for step in why(home, "tracklog:r1", 4).forward] == [5, 7]


def test_a_cause_is_known_by_its_id_and_by_its_name_at_the_source(home):
    record(
        home,
        told(1, said("Go", "user"), record="u1"),
        told(2, said("Elsewhere", "user")),
        told(3, said("by record"), record=["u2", "u3"], cause="u1"),
        told(4, said("by id"), cause="r1-3"),
        told(5, said("by one of two"), cause="u3"),
    )
    assert back(home, 4) == ([(3, "cause"), (1, "cause")], "prompt")
    assert back(home, 5) == ([(3, "cause"), (1, "cause")], "prompt")


def test_a_cause_that_was_not_recorded_is_marked(home):
    record(home, told(1, said("late"), cause="gone"), told(2, Returned(call_id="c9", ok=True)))
    answer = why(home, "tracklog:r1", 1)
    assert answer.ends == "unseen"
    assert answer.unseen[0].message == "its cause 'gone' was not seen"
    answer = why(home, "tracklog:r1", 2)
    assert "c9" in answer.unseen[0].message


def test_a_cause_in_a_run_that_nothing_links_to_this_one_is_found(home):
    record(
        home,
        told(1, said("Go", "user"), run="far"),
        told(2, said("I begin"), run="far", record="u7"),
        told(3, said("at last"), cause="far-2"),
        told(4, said("here too"), run="r2", cause="u7"),
        told(5, said("on it"), run="r2"),
        told(6, said("another far-2"), run="r3", cause="far-9"),
    )
    assert back(home, 3) == ([(2, "cause"), (1, "order")], "prompt")
    assert back(home, 4, "r2") == ([(2, "cause"), (1, "order")], "prompt")
    assert back(home, 6, "r3") == ([], "unseen")
    onward = why(home, "tracklog:far", 1).forward
    assert [(step.seq, step.run, step.how) for step in onward] == [
        (2, "far", "order"), (3, "r1", "cause"), (4, "r2", "cause"), (5, "r2", "order"),
    ]  # fmt: skip  # one row


def test_of_two_runs_with_an_event_of_that_name_none_is_taken_for_the_cause(home):
    twice = [native.line(said("I"), id="1", run=run, origin=ORIGIN) for run in ("far", "off")]
    record(home, *twice, told(3, said("late"), cause="1"))
    assert back(home, 3) == ([], "unseen")


def test_a_cause_is_found_whatever_was_indexed_together(home):
    record(home, told(1, said("late"), cause="far-1"))
    record(home, told(2, said("later"), run="r2", cause="far-1"))
    record(home, told(1, said("Go", "user"), run="far"))
    assert back(home, 1) == back(home, 2, "r2") == ([(3, "cause")], "prompt")
    assert [step.seq for step in why(home, "tracklog:far", 3).forward] == [1, 2]


def test_a_number_of_a_step_is_no_cause_in_another_run(home):
    line = {
        "run_id": "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f", "seq": 5, "step_seq": 3,
        "type": "step.started", "timestamp": "2026-05-05T09:00:00Z", "payload": {"name": "s", "kind": "run"},
        "path": "s", "iteration": 0,
    }  # fmt: skip  # a line
    record(home, native.line(said("I"), id="3", run="r1", origin=ORIGIN))
    (verdict,) = home.intake.admit([orjson.dumps(line)], "awf")
    home.index.catch_up()
    answer = why(home, f"awf:{line['run_id']}", verdict.seq)
    assert (answer.back, answer.ends) == ([], "unseen")


def test_causes_that_go_round_in_a_circle_end(home):
    record(
        home,
        told(1, said("a"), cause="r1-2"),
        told(2, said("b"), cause="r1-3"),
        told(3, said("c"), cause="r1-1"),
        told(4, said("d"), cause="r1-4"),
    )
    way, ends = back(home, 3)
    assert ends == "start"
    assert {seq for seq, _ in way} == {1, 2}
    assert {step.seq for step in why(home, "tracklog:r1", 1).forward} >= {2, 3}


def test_an_answer_leads_to_its_question_and_what_follows_to_the_answer(home):
    record(
        home,
        told(1, said("Deploy", "user")),
        told(2, Asked(agent="ops", question_id="q1", text="Which port?")),
        told(3, Answered(question_id="q1", answer="8080", by="mara")),
        told(4, Called(agent="ops", tool="deploy", call_id="c1")),
    )
    assert back(home, 4) == ([(3, "order"), (2, "question"), (1, "order")], "prompt")


def test_a_handoff_leads_to_the_one_who_handed_over(home):
    record(
        home,
        told(1, said("Ship it", "user", to="lead")),
        told(2, said("coder, please", agent="lead")),
        told(3, Linked(kind="handoff", agent="lead", from_="lead", to="coder", reason="code")),
        told(4, Began(what="agent", agent="coder")),
        told(5, said("on it", agent="coder")),
    )
    way, ends = back(home, 5)
    assert way == [(4, "order"), (3, "handoff"), (2, "order"), (1, "order")]
    assert ends == "prompt"


@pytest.mark.parametrize("teller", ["parent", "child", "call", "order"])
def test_a_sub_run_leads_to_the_event_of_its_parent_that_began_it(home, teller):
    link = {
        "parent": told(3, Linked(kind="sub-run", child="kid", call_id="c1")),
        "call": told(9, Linked(kind="sub-run", parent="r1", call_id="c1"), run="kid"),
    }.get(teller, told(9, Linked(kind="sub-run", parent="r1"), run="kid"))
    record(
        home,
        told(1, said("Find it", "user")),
        told(2, Called(tool="task", call_id="c1", input={"prompt": "look"})),
        link,
        told(11, Began(what="run", task="look"), run="kid"),
        told(12, said("look", "user"), run="kid"),
        told(13, Called(tool="grep", call_id="k1"), run="kid"),
        told(14, Returned(call_id="c1", ok=True, output="found")),
    )
    way, ends = back(home, 6, "kid")
    assert ends == "prompt"
    assert way[-1][0] == 1
    assert 2 in [seq for seq, _ in way]
    assert "sub-run" in [how for _, how in way]
    forward = why(home, "tracklog:r1", 1).forward
    assert {(step.run, step.seq) for step in forward} >= {("kid", 5), ("kid", 6), ("r1", 7)}


@pytest.mark.parametrize("kind", ["sub-run", "resume", "related"])
@pytest.mark.parametrize("teller", ["r1", "r2"])
def test_a_cause_in_a_run_that_is_tied_to_this_one_is_found_and_leads_on(home, kind, teller):
    end = "child" if teller == "r1" else "parent"
    end, other = ("other", "r2" if teller == "r1" else "r1") if kind == "related" else (end, None)
    other = other or ("r2" if teller == "r1" else "r1")
    record(
        home,
        told(1, said("Go", "user")),
        told(2, said("I hand it on")),
        told(3, Linked(kind=kind, **{end: other}), run=teller),
        told(4, said("Elsewhere", "user"), run="r3"),
        told(5, said("because of that"), run="r2", cause="r1-2"),
        told(6, said("because of nobody"), run="r2", cause="r3-9"),
    )
    assert back(home, 5, "r2") == ([(2, "cause"), (1, "order")], "prompt")
    assert why(home, "tracklog:r2", 5).unseen == []
    onward = why(home, "tracklog:r1", 2).forward
    assert (5, "cause", 2) in [(step.seq, step.how, step.of) for step in onward]
    assert "'r3-9' was not seen" in why(home, "tracklog:r2", 6).unseen[0].message


def test_a_parent_run_without_records_is_marked(home):
    record(
        home,
        told(1, Linked(kind="sub-run", parent="gone"), run="kid"),
        told(2, said("look", "user"), run="kid"),
        told(3, said("looking"), run="kid"),
    )
    answer = why(home, "tracklog:kid", 3)
    assert [step.seq for step in answer.back] == [2]
    assert answer.unseen[0].message == "there is no record of its parent run tracklog:gone"


def test_runs_that_are_each_others_parents_end(home):
    record(
        home,
        told(1, Linked(kind="sub-run", parent="b"), run="a"),
        told(2, Linked(kind="sub-run", parent="a"), run="b"),
        told(3, said("hm"), run="a"),
        told(4, said("hm"), run="b"),
    )
    for run, seq in (("a", 3), ("b", 4)):
        assert why(home, f"tracklog:{run}", seq).ends == "start"


def test_a_message_before_a_restart_of_an_agent_is_no_cause_of_its_next_action(home):
    record(
        home,
        told(1, Began(what="agent", agent="a", task="one")),
        told(2, Called(agent="a", tool="t", call_id="c1")),
        told(3, Returned(agent="a", call_id="c1", ok=True)),
        told(4, Began(what="agent", agent="a", task="two")),
        told(5, Moved(agent="a", from_="x", to="y", phase="working")),
        told(6, Decided(agent="a", verdict="fine")),
    )
    assert back(home, 6) == ([(4, "order")], "prompt")


def test_turns_are_one_conversation_and_steps_that_begin_are_their_own(home):
    record(
        home,
        told(1, said("Inspect it", "user", step="1")),
        told(2, said("I will", step="2")),
        told(3, said("Done", step="3")),
        told(4, Began(what="step", step="build")),
        told(5, said("Build it", "user", step="build")),
        told(6, Began(what="step", step="ship")),
        told(7, said("Ship it", "user", step="ship")),
        told(8, said("Built", step="build")),
        told(9, said("Shipped", step="ship")),
    )
    assert back(home, 3) == ([(2, "order"), (1, "order")], "prompt")
    assert back(home, 8)[0][-1] == (5, "order")
    assert back(home, 9)[0][-1] == (7, "order")


def test_agents_of_a_stage_react_to_each_other(home):
    record(
        home,
        told(1, Began(what="run", task="debate")),
        told(2, said("It rains", "world")),
        told(3, said("Then we stay", agent="ada")),
        told(4, said("I go", agent="bob")),
        told(5, said("Do not", agent="ada")),
    )
    assert back(home, 5)[0][0] == (4, "order")


def test_a_call_that_was_made_before_says_how_often(home):
    calls = [("1", "pytest"), ("2", "ls"), ("3", "pytest")]
    record(
        home,
        *(
            line
            for n, (id, command) in enumerate(calls)
            for line in (
                told(2 * n, Called(tool="Bash", call_id=id, input={"command": command})),
                told(2 * n + 1, Returned(call_id=id, ok=False)),
            )
        ),
    )

    def seen(seq):
        found = why(home, "tracklog:r1", seq).seen_before
        return [(each.tool, each.times, each.first_seq, each.last_seq) for each in found]

    assert seen(5) == seen(6) == seen(1) == [("Bash", 2, 1, 5)]
    assert seen(3) == seen(4) == []


def test_an_erased_record_is_no_obstacle(home):
    record(home, told(1, said("Go", "user")), told(2, said("secret")), told(3, said("on")))
    assert back(home, 3)[0][0] == (2, "order")  # nothing of it is remembered
    home.erase("r1", 2, reason="leaked", by="mara")
    home.index.catch_up()
    assert why(home, "tracklog:r1", 2).record.kind == "erased"
    assert back(home, 3) == ([(1, "order")], "prompt")


def test_a_record_that_a_newer_mapping_replaced_is_no_cause_any_more(home):
    def mapped(n, version, fact):
        origin = {**ORIGIN, "record": f"k{n}", "mapping": version}
        return native.line(
            fact, id=f"{version}-{n}", run="r1", at="2026-05-05T09:00:00Z", origin=origin
        )

    record(
        home,
        mapped(1, 1, said("Go", "user")),
        mapped(2, 1, said("old words")),
    )
    assert back(home, 2) == ([(1, "order")], "prompt")
    record(home, mapped(1, 2, said("Go", "user")), mapped(2, 2, said("new words")))
    assert back(home, 4) == ([(3, "order")], "prompt")
    answer = why(home, "tracklog:r1", 2)
    assert "it does not count" in answer.unseen[0].message
    assert [step.seq for step in why(home, "tracklog:r1", 3).forward] == [4]


def test_a_record_of_another_run_is_refused_with_what_to_do(home):
    record(home, told(1, said("Go", "user")), told(2, said("Go", "user"), run="r2"))
    with pytest.raises(NoSuchRecord) as caught:
        why(home, "tracklog:r1", 2)
    assert "tracklog events r1" in caught.value.hint


FACTS = st.one_of(
    st.builds(said, st.sampled_from("abc"), st.sampled_from(["user", "assistant", "world"])),
    st.builds(said, st.just("x"), agent=st.sampled_from("ab"), to=st.sampled_from(["a", None])),
    st.builds(
        Called, tool=st.just("t"), call_id=st.sampled_from("12"), agent=st.sampled_from("ab")
    ),
    st.builds(Returned, call_id=st.sampled_from("123")),
    st.builds(Asked, question_id=st.sampled_from("12")),
    st.builds(Answered, question_id=st.sampled_from("12"), answer=st.just(1)),
    st.builds(Began, what=st.sampled_from(["run", "agent"]), agent=st.sampled_from("ab")),
    st.builds(Ended, what=st.just("run")),
    st.builds(Linked, kind=st.just("sub-run"), child=st.sampled_from(["r1", "r2", "r3"])),
    st.builds(Linked, kind=st.just("sub-run"), parent=st.sampled_from(["r1", "r2", "r3"])),
    st.builds(
        Linked, kind=st.just("handoff"), from_=st.sampled_from("ab"), to=st.sampled_from("ab")
    ),
)
LINES = st.lists(
    st.tuples(FACTS, st.sampled_from(["r1", "r2"]), st.one_of(st.none(), st.integers(0, 12))),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(LINES)
def test_whatever_led_to_a_record_has_it_among_what_it_caused(tmp_path_factory, lines):
    """Back and forward agree, no way has a step twice, and each step is tied to the one before."""
    with Home(tmp_path_factory.mktemp("law") / "home", durability="os") as home:
        record(
            home,
            *(
                told(n, fact, run, **({} if cause is None else {"cause": f"{run}-{cause}"}))
                for n, (fact, run, cause) in enumerate(lines)
            ),
        )
        for seq, (_, run, _) in enumerate(lines, 1):
            answer = why(home, f"tracklog:{run}", seq)
            seqs = [seq, *(step.seq for step in answer.back)]
            assert len(seqs) == len(set(seqs))
            assert [step.of for step in answer.back] == seqs[:-1]
            if answer.back:
                cause = answer.back[-1]
                onward = why(home, f"tracklog:{cause.run}", cause.seq).forward
                assert seq in {step.seq for step in onward}


@settings(max_examples=40, deadline=None)
@given(LINES, st.data())
def test_a_run_that_was_asked_about_while_it_grew_is_answered_like_any_other(
    tmp_path_factory, lines, data
):
    place = tmp_path_factory.mktemp("grown") / "home"
    with Home(place, durability="os") as home:
        for n, (fact, run, cause) in enumerate(lines):
            named = {} if cause is None else {"cause": f"{run}-{cause}"}
            record(home, told(n, fact, run, **named))
            if data.draw(st.booleans()):
                why(home, f"tracklog:{run}", n + 1)
        with Home(place, readonly=True) as fresh:
            for seq, (_, run, _) in enumerate(lines, 1):
                key = f"tracklog:{run}"
                assert why(home, key, seq) == why(fresh, key, seq)


def test_of_a_long_path_the_two_ends_are_shown_if_asked(home):
    record(home, *(told(n, said(f"{n}", agent=f"a{n % 2}")) for n in range(1, 12)))
    whole = why(home, "tracklog:r1", 11)
    assert (len(whole.back), whole.left_out) == (10, {"back": 0, "forward": 0})
    some = why(home, "tracklog:r1", 11, limit=5)
    assert some.back == [*whole.back[:3], *whole.back[-2:]]
    assert some.left_out == {"back": 5, "forward": 0}
    assert why(home, "tracklog:r1", 1, limit=4).left_out == {"back": 0, "forward": 6}


@pytest.mark.parametrize("sample", samples.of("good"), ids=samples.name_of)
def test_every_record_of_every_dialect_has_its_reasons(sample, home):
    """No dialect is named, so every one is understood; every way ends, and says how."""
    home.intake.admit(samples.lines_of(sample), samples.dialect_of(sample))
    home.index.catch_up()
    for record in list(home.journal.records())[:15]:
        if b'"fact":"Marked"' in record.line:
            with pytest.raises(NoSuchRecord, match="is a mark that a person made"):
                why(home, f"{record.family}:{record.run}", record.seq)
            continue
        answer = why(home, f"{record.family}:{record.run}", record.seq)
        assert answer.record.seq == record.seq
        assert answer.ends in ("prompt", "start", "unseen")
        assert record.seq not in {step.seq for step in answer.back}


def test_a_long_run_is_answered_in_seconds(home):
    lines = [told(1, said("Go", "user"))]
    for n in range(2, 5000, 2):
        lines.append(told(n, Called(tool="t", call_id=f"c{n}", input=n)))
        lines.append(told(n + 1, Returned(call_id=f"c{n}", ok=True)))
    record(home, *lines)
    begun = time.process_time()  # of our own work: other load does not count
    answer = why(home, "tracklog:r1", len(lines))
    assert (answer.ends, answer.back[-1].seq) == ("prompt", 1)
    assert time.process_time() - begun < 30


def test_the_verb_shows_the_path_as_text_and_as_json(home):
    sly = "Mend\x1b[2J it\n\u202e"
    record(
        home,
        told(1, said(sly, "user")),
        told(2, Called(agent="coder", tool="read", call_id="c1", input={"path": "a.py"})),
        told(3, Returned(call_id="c1", ok=False, error="no such file")),
        told(4, said("It is not there", agent="coder")),
    )
    done = tracklog(home.path, "why", "r1", 3)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode()
    assert shown.replace("\n", "").isprintable()
    rows = shown.splitlines()
    assert [row.split()[:1] for row in rows[1:]] == [["1"], ["2"], ["▶"], ["4"]]
    assert "prompt" in rows[1]
    assert "coder: read(path=a.py)" in rows[2]
    assert "read failed: no such file" in rows[3] or "it failed: no such file" in rows[3]
    answer = orjson.loads(tracklog(home.path, "why", "r1", 3, "--json").stdout)
    assert [step["seq"] for step in answer["back"]] == [2, 1]
    assert answer["back"][-1]["words"] == " ".join(sly.split())
    assert tracklog(home.path, "why", "r1", 99).returncode == 2
    assert b"did you mean r1" in tracklog(home.path, "why", "r11", 1).stderr


def test_the_middle_of_a_long_way_is_shown_when_asked_for(home):
    lines = [told(1, said("Go", "user"))]
    for n in range(2, 60, 2):
        lines.append(told(n, Called(tool="t", call_id=f"c{n}")))
        lines.append(told(n + 1, Returned(call_id=f"c{n}", ok=True)))
    record(home, *lines)
    short = tracklog(home.path, "why", "r1", len(lines)).stdout.decode()
    assert "more between; --all shows them" in short
    whole = tracklog(home.path, "why", "r1", len(lines), "--all").stdout.decode()
    assert len(whole.splitlines()) > len(lines)
