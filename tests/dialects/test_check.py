"""The check of a line: what it accepts, what it refuses, and what it says about it."""

import io
from typing import Literal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import sampling as samples
from tracklog.dialects import Dialect, Policy, Shape
from tracklog.dialects.checking import (
    LineVerdict,
    LocatedFinding,
    batch_checker,
    check,
    checker,
    checker_for,
    passed,
    understand,
    upcast,
)
from tracklog.dialects.recognition import Hints, Recogniser, recognise
from tracklog.home import registry
from tracklog.model.event import Event, Passed, Problem, Refusal
from tracklog.model.lines import split

START = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"agent_run_start","agent_id":"a","task":"t"}'


def results(data: bytes, name: str | None = None, **options):
    dialects = [registry.dialect(name)] if name else registry.dialects()
    return list(check(split(io.BytesIO(data), **options), dialects, **options))


def verdicts(data: bytes, name: str | None = None, **options):
    return [r for r in results(data, name, **options) if isinstance(r, LineVerdict)]


def one_problem(data: bytes) -> Problem:
    (verdict,) = verdicts(data)
    assert isinstance(verdict.result, Refusal)
    (problem,) = verdict.result.problems
    return problem


def test_blank_lines_are_skipped_and_counted():
    numbers = [v.line for v in verdicts(b"\n" + START + b"\n\n  \n\t\n" + START + b"\n")]
    assert numbers == [2, 6]


def test_one_trailing_cr_is_transport_and_any_other_is_refused():
    assert isinstance(verdicts(START + b"\r\n")[0].result, Event)
    assert verdicts(START + b"\r\n")[0].result.line == START
    inside = START.replace(b',"task"', b',\r"task"')
    assert "carriage return" in one_problem(inside + b"\n").message
    assert "carriage return" in one_problem(START + b"\r\r\n").message


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\uDE00\uD83D \ud83d\ud83d\ude00", "\ufffd\ufffd \ufffd😀"),
        (rb"\ud83d\n\\ud83d \\\ud83d", "\ufffd\n\\ud83d \\\ufffd"),
    ],
)
def test_half_a_character_is_stored_as_it_is_where_a_dialect_writes_it(written, read):
    line = (
        b'{"seq":1,"run_id":"6f1c1f0e-8f0b-4a51-9d0e-2b7c3f1a9e10","type":"step.started","path":"",'
        b'"iteration":0,"timestamp":"2026-05-05T09:00:00Z","payload":{"name":"%b","kind":"agent"}}'
    ) % written
    verdict, found, *_ = results(line + b"\n")
    assert (verdict.result.line, verdict.result.body["payload"]["name"]) == (line, read)
    assert found.finding.name == "surrogate"
    again = understand(registry.dialect("awf"), line)
    assert (again.body, again.odd) == (verdict.result.body, verdict.result.odd)
    assert one_problem(START.replace(b'"t"', b'"%b"' % written) + b"\n").message


@pytest.mark.parametrize("broken", [rb"\ud83", rb"\ud8zz", rb"\u", b"\xed\xa0\xbd", b"\xff"])
def test_what_is_no_character_at_all_is_refused(broken):
    problem = one_problem(START.replace(b'"t"', b'"' + broken + b'"') + b"\n")
    assert problem.message.startswith(("not JSON", "not UTF-8"))


def test_a_byte_order_mark_is_dropped_at_the_start_and_reported():
    found, verdict, *_ = results(b"\xef\xbb\xbf" + START + b"\n")
    assert isinstance(found, LocatedFinding)
    assert found.finding.name == "bom"
    assert verdict.result.line == START
    assert isinstance(verdicts(START + b"\n\xef\xbb\xbf" + START + b"\n")[1].result, Refusal)


def test_bytes_that_are_no_text_are_named():
    assert "NUL" in one_problem(START[:20] + b"\0\0\0" + START[20:] + b"\n").message
    assert "0xff" in one_problem(b'{"a":"\xff"}\n').message


def test_a_pretty_printed_object_gets_a_hint():
    assert "one JSON object per line" in one_problem(b"{\n").hint


def test_a_line_over_the_cap_is_refused_and_the_rest_is_read():
    long = b'{"a":"' + b"x" * 1000 + b'"}'
    first, second = verdicts(long + b"\n" + START + b"\n", cap=500)
    assert first.result.problems[0].message == "the line has 1,008 bytes, the cap is 500"
    assert isinstance(second.result, Event)


def test_a_torn_last_line_is_refused_and_found():
    *_, verdict, found = results(START + b"\n" + START[:50], "kahn-agent")[:3]
    assert isinstance(verdict.result, Refusal)
    assert found.finding.name == "torn"


def test_a_complete_last_line_needs_no_line_end():
    (verdict,) = verdicts(START)
    assert isinstance(verdict.result, Event)


@given(
    st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=8),
    st.integers(1, 7),
)
def test_lines_come_out_as_they_went_in_however_they_are_chunked(lines, size):
    class Dribble(io.RawIOBase):
        def __init__(self, data):
            self.data = io.BytesIO(data)

        def read(self, _size=-1):
            return self.data.read(size)

    data = b"".join(line + b"\n" for line in lines)
    expected = []
    for number, line in enumerate(lines, 1):
        kept = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if kept.removesuffix(b"\r").strip():
            expected.append((number, kept.removesuffix(b"\r")))
    assert [(line.number, line.data) for line in split(Dribble(data))] == expected
    for line in split(Dribble(data)):
        assert data[line.offset : line.offset + line.size] == lines[line.number - 1]


def profile_shown(path):
    """The profile that a line of a sample shows by keys of its own, if any does."""
    bodies = [orjson.loads(line) for line in samples.lines_of(path)]
    profiles = [each for each in registry.dialects() if each.profile_of]
    return next((each for each in profiles if any(map(each.shows, bodies))), None)


@pytest.mark.parametrize("path", samples.of("good"), ids=samples.name_of)
def test_a_good_line_is_recognised(path):
    profile = profile_shown(path)
    name = profile.name if profile else samples.dialect_of(path)
    door = checker_for(registry.dialects())
    for line in samples.lines_of(path):
        event = door(line)
        assert isinstance(event, Event), event
        # K24: what does not meet a profile is a good line of its base.
        met = isinstance(checker(registry.dialect(name))(line), Event)
        assert event.dialect == (name if met else samples.dialect_of(path))


RALPH_START = b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"run_start","total_nodes":1,"actor":"rocky"}'
RALPH_MOVE = b'{"ts":"2026-05-05T09:00:01.000Z","run_id":"r1","event":"node_transition","node_id":"p","from":"pending","to":"ready","outcome":"clean"}'
CI_TRY = b'{"ts":"2026-05-05T09:00:02.000Z","run_id":"r1","event":"node_attempt","node_id":"p","attempt":1,"duration_s":1,"converged":true,"done_when_results":[]}'


def dialects_of(*lines: bytes):
    return [verdict.result.dialect for verdict in verdicts(b"\n".join(lines) + b"\n")]


def test_ralph_is_recognised_by_keys_that_only_it_has():
    assert dialects_of(RALPH_START, RALPH_MOVE) == ["ralph", "ralph"]
    scored = CI_TRY.replace(b"}", b',"convergence_score":0.5}')
    stopped = CI_TRY.replace(b"}", b',"early_stop_reason":"plateau"}')
    assert dialects_of(scored) == dialects_of(stopped) == ["ralph"]
    plain = RALPH_MOVE.replace(b',"outcome":"clean"', b"")
    assert dialects_of(RALPH_START.replace(b',"actor":"rocky"', b""), plain) == ["kahn-ci"] * 2
    # An undeclared key of kahn-ci may be called outcome, too; its values are its own.
    assert dialects_of(RALPH_MOVE.replace(b'"clean"', b'"green"')) == ["kahn-ci"]


def test_a_line_without_keys_of_its_own_is_read_as_its_run_is():
    assert dialects_of(RALPH_START, CI_TRY) == ["ralph", "ralph"]
    other_run = CI_TRY.replace(b'"r1"', b'"r2"')
    assert dialects_of(RALPH_START, CI_TRY, other_run) == ["ralph", "ralph", "kahn-ci"]
    assert dialects_of(CI_TRY, RALPH_MOVE, CI_TRY) == ["kahn-ci", "ralph", "ralph"]


def test_a_later_line_decides_the_dialect_of_earlier_ones_if_it_is_available():
    known = Recogniser(registry.dialects())
    known.look_ahead([CI_TRY, b"{", RALPH_MOVE])
    found = check(split(io.BytesIO(CI_TRY + b"\n")), registry.dialects(), recogniser=known)
    assert next(iter(found)).result.dialect == "ralph"


def test_a_base_line_in_a_run_of_a_profile_that_does_not_meet_it_is_stored_as_the_base():
    plain = RALPH_MOVE.replace(b',"outcome":"clean"', b"")
    assert dialects_of(RALPH_START, plain) == ["ralph", "kahn-ci"]


def test_an_uncertain_dialect_is_reported_once_with_the_option_to_use():
    hints = Hints(registry.dialects())
    assert hints.of("awf", "r1") is None
    assert "--dialect ralph" in (hints.of("kahn-ci", "r1") or "")
    assert hints.of("kahn-ci", "r2") is None
    assert hints.of("ralph", "r3") is None
    mixed = hints.of("ralph", "r1") or ""
    assert {"r1", "kahn-ci", "--dialect ralph"} == {
        word for word in ("r1", "kahn-ci", "--dialect ralph") if word in mixed
    }
    assert hints.of("kahn-ci", "r1") is None


def test_an_ambiguous_line_is_reported():
    unknown_event = START.replace(b"agent_run_start", b"agent_paused")
    problem = one_problem(unknown_event + b"\n")
    assert problem.message == "ambiguous: this could be kahn-agent or kahn-ci"
    assert problem.hint == "name one, for example --dialect kahn-agent"


def test_an_object_of_no_dialect_is_not_guessed():
    assert "no dialect is recognised" in one_problem(b'{"hello":1}\n').message


GUESSED = [
    p
    for p in samples.of("good")
    if registry.dialect(samples.dialect_of(p)).guessed and profile_shown(p) is None
]


@pytest.mark.parametrize("path", GUESSED, ids=samples.name_of)
def test_a_dropped_key_does_not_hide_the_dialect(path):
    dialect = registry.dialect(samples.dialect_of(path))
    door = checker_for(registry.dialects())
    for line in samples.lines_of(path):
        body = orjson.loads(line)
        for key in body.keys() - {dialect.kind_key}:
            left = {name: value for name, value in body.items() if name != key}
            assert door(orjson.dumps(left)).dialect == dialect.name, key


def test_the_name_of_a_kahn_event_alone_decides_the_dialect():
    (verdict,) = verdicts(b'{"event":"agent_run_start","agent_id":"coder","task":"x"}\n')
    assert verdict.result.dialect == "kahn-agent"
    assert [p.pointer for p in verdict.result.problems] == ["/run_id", "/ts"]


def test_faults_do_not_hide_the_dialect():
    (verdict,) = verdicts(orjson.dumps({**orjson.loads(START), "ts": None, "task": 3}) + b"\n")
    assert verdict.result.dialect == "kahn-agent"
    assert [p.pointer for p in verdict.result.problems] == ["/task", "/ts"]


def test_every_fault_is_reported_with_a_message_and_a_hint():
    body = {"ts": "x", "run_id": "", "event": "tool_invocation", "agent_id": 1, "step": -1}
    refusal = checker(registry.dialect("kahn-agent"))(orjson.dumps(body))
    places = {"/ts", "/run_id", "/agent_id", "/step", "/tool_name", "/duration_s", "/ok"}
    assert {p.pointer for p in refusal.problems} == places
    assert all(p.message and p.hint for p in refusal.problems)


def test_an_unknown_kind_is_reported_with_what_was_meant():
    body = {**orjson.loads(START), "event": "agent_run_strat", "ts": 1}
    refusal = checker(registry.dialect("kahn-agent"))(orjson.dumps(body))
    assert [p.pointer for p in refusal.problems] == ["/event", "/ts"]
    assert refusal.problems[0].hint == "did you mean agent_run_start?"


@pytest.mark.parametrize(
    "line",
    [b"", b"nope", b"[1]", b'"x"', b"1", b"null", b'{"event":[]}', b'{"event":{"a":1}}', b"{}"],
)
@pytest.mark.parametrize("name", registry.dialect_names())
def test_no_line_makes_a_check_raise(line, name):
    assert isinstance(checker(registry.dialect(name))(line), Refusal)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.parametrize("name", registry.dialect_names())
@given(data=st.data())
def test_no_value_in_a_good_line_makes_a_check_or_its_facts_raise(name, data):
    """Any key of any sample, at any depth, replaced by any JSON value."""
    dialect = registry.dialect(name)
    files = [p for p in samples.of("good") if samples.dialect_of(p) == name]
    line = data.draw(st.sampled_from(samples.lines_of(data.draw(st.sampled_from(files)))))
    body = orjson.loads(line)
    holder = body
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = data.draw(st.sampled_from(keys))
        inner = holder[key]
        if not inner or not isinstance(inner, dict | list) or data.draw(st.booleans()):
            break
        holder = inner
    holder[key] = data.draw(json_values)
    try:
        changed = orjson.dumps(body)
    except TypeError:
        return  # beyond what JSON can hold
    event = checker(dialect)(changed)
    if isinstance(event, Event):
        list(dialect.facts(event))
        dialect.rules(None, event)
    else:
        assert event.problems


class Second(Shape):
    v: Literal[2]
    names: list[str]


def made(**changes) -> Dialect:
    """A dialect whose second version keeps a list where the first had one name."""
    return Dialect(
        **{
            "name": "made",
            "about": "A dialect of this test.",
            "policy": Policy(kinds="open", fields="open"),
            "kind_key": "kind",
            "kinds": {},
            "frame": Second,
            "claim": lambda body: 0.0,
            "read": lambda body: ("r", "k", *[None] * 5),
            "facts": lambda event: iter(()),
            "rules": lambda state, event: (state, []),
            "write": lambda fact, scene: None,
            "version_key": "v",
            "current": 2,
            "upcasts": {1: upcast_v1_v2},
            **changes,
        }
    )


def upcast_v1_v2(body):
    return {"v": 2, "names": [body["name"]]}


@pytest.mark.requirement("BOWL-60")
@given(
    st.sampled_from([dialect.name for dialect in registry.dialects()]),
    st.lists(
        st.sampled_from(
            [
                line
                for kind in ("good", "bad", "odd")
                for p in samples.of(kind)
                for line in samples.lines_of(p)
            ]
        )
        | st.sampled_from([b"", b"7", b"[]", b"{}", b'{"a":\r1}', b'{"event":[]}', b"\xff"]),
        max_size=6,
    ),
)
def test_lines_checked_together_are_judged_as_if_each_were_alone(name, lines):
    dialect = registry.dialect(name)
    alone = [passed(checker(dialect)(line)) for line in lines]
    together = batch_checker(dialect)
    assert together(lines) == alone
    good = [each for each in alone if isinstance(each, Passed)]
    assert together([each.line for each in good]) == good


def test_one_bad_line_among_more_than_are_judged_at_one_go_is_named_and_no_other():
    dialect = registry.dialect("kahn-agent")
    lines = [START.replace(b"r1", b"r%d" % n) for n in range(500)]
    lines[333] = b"{}"
    found = batch_checker(dialect)(lines)
    assert found == [passed(checker(dialect)(line)) for line in lines]
    assert [n for n, each in enumerate(found) if isinstance(each, Refusal)] == [333]


def test_an_old_version_is_read_through_its_upcaster_and_its_line_is_stored():
    line = b'{"v":1,"name":"ada"}'
    event = checker(made())(line)
    assert isinstance(event, Event)
    assert event.body == {"v": 2, "names": ["ada"]}
    assert event.line == line
    assert isinstance(checker(made(upcasts={}))(line), Refusal)


def test_a_newer_version_is_refused_in_words():
    refusal = checker(made())(b'{"v":3,"names":[]}')
    assert isinstance(refusal, Refusal)
    assert refusal.problems[0].pointer == "/v"
    assert "newer" in refusal.problems[0].message


def test_the_current_version_is_not_touched():
    body = {"v": 2, "names": []}
    assert upcast(made(), body) is body


def test_recognition_needs_half_an_envelope():
    assert isinstance(recognise({"run_id": "x"}, registry.dialects()), Refusal)
