"""What the kahn dialects and the ralph profile promise, requirement by requirement."""

import itertools
from functools import partial

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from support import forking
from tracklog.dialects import kahn_agent, kahn_ci, ralph
from tracklog.dialects.checking import checker
from tracklog.dialects.rules import Lint
from tracklog.home import registry
from tracklog.model.event import Event, Refusal
from tracklog.model.fact import Asked, Began, Decided, Ended, Linked, Moved, Spent

requirement = pytest.mark.requirement
tracklog = partial(forking.tracklog, None)


def objects(done):
    return [orjson.loads(line) for line in done.stdout.splitlines()]


BASE = {"ts": "2026-05-05T09:00:00.000Z", "run_id": "r1"}
START = {**BASE, "event": "agent_run_start", "agent_id": "coder", "task": "t"}
TOOL = {
    **BASE, "event": "tool_invocation", "agent_id": "coder", "step": 0,
    "tool_name": "Read", "duration_s": 0.04, "ok": True,
}  # fmt: skip
AUDIT = {
    **BASE, "event": "audit_checkpoint", "agent_id": "coder",
    "checkpoint_id": "c", "result": "pass", "duration_s": 0.1,
}  # fmt: skip
MOVE = {
    **BASE, "event": "agent_transition", "agent_id": "coder", "step": 0,
    "from": "thinking", "to": "tool_call",
}  # fmt: skip
END = {
    **BASE, "event": "agent_run_end", "agent_id": "coder", "outcome": "aborted",
    "total_steps": 0, "total_tool_calls": 0, "total_audit_checkpoints": 0,
    "audits_passed": 0, "audits_failed": 0, "total_duration_s": 1.0,
}  # fmt: skip
SEED_LINES = [
    b'{"ts":"2026-05-05T09:00:00.000Z","run_id":"agent-coder-1","event":"agent_run_start","agent_id":"coder","task":"Add /v2/health"}',
    b'{"ts":"2026-05-05T09:00:01.200Z","run_id":"agent-coder-1","event":"agent_transition","agent_id":"coder","step":0,"from":"thinking","to":"tool_call","reason":"tool_call:Read"}',
    b'{"ts":"2026-05-05T09:00:01.250Z","run_id":"agent-coder-1","event":"tool_invocation","agent_id":"coder","step":0,"tool_name":"Read","duration_s":0.04,"ok":true}',
    b'{"ts":"2026-05-05T09:01:05.000Z","run_id":"agent-coder-1","event":"agent_run_end","agent_id":"coder","outcome":"converged","total_steps":12,"total_tool_calls":7,"total_audit_checkpoints":2,"audits_passed":2,"audits_failed":0,"total_duration_s":65.0,"convergence_score":1.0}',
]

agent_check = checker(registry.dialect("kahn-agent"))
ci_check = checker(registry.dialect("kahn-ci"))
ralph_check = checker(registry.dialect("ralph"))


def heard(body, check=agent_check) -> Event:
    event = check(orjson.dumps(body))
    assert isinstance(event, Event), event
    return event


def pointers(body, check=agent_check) -> list[str]:
    refusal = check(orjson.dumps(body))
    return [p.pointer for p in refusal.problems] if isinstance(refusal, Refusal) else []


def findings(*bodies, name="kahn-agent"):
    dialect = registry.dialect(name)
    lint, check = Lint([dialect]), checker(dialect)
    found = [f for body in bodies for f in lint.add(heard(body, check))]
    return [f.name for f in found] + [f.name for _, _, f in lint.rest() if f.level != "info"]


def without(body, key):
    return {k: v for k, v in body.items() if k != key}


@requirement("KAHN-56")
@pytest.mark.parametrize("line", SEED_LINES)
def test_the_four_example_lines_are_accepted_as_given(line):
    event = agent_check(line)
    assert isinstance(event, Event)
    assert event.line == line


@requirement("KAHN-2", "KAHN-5", "KAHN-7", "KAHN-9", "KAHN-11", "KAHN-14")
@pytest.mark.parametrize("body", [START, MOVE, TOOL, AUDIT, END], ids=lambda b: b["event"])
def test_every_required_key_is_required_and_typed(body):
    for key in body:
        if body["event"] == "audit_checkpoint" and key == "agent_id":
            continue
        assert f"/{key}" in pointers(without(body, key))
        assert f"/{key}" in pointers({**body, key: {}})


TOTALS = ["total_steps", "total_tool_calls", "total_audit_checkpoints", "audits_passed", "audits_failed"]  # fmt: skip


@requirement("KAHN-14")
@pytest.mark.parametrize("key", TOTALS)
def test_a_total_is_an_integer_and_the_duration_any_number(key):
    for good in (0, 1, 12, 2**40):
        assert heard({**END, key: good}).body[key] == good
    for bad in (0.5, 11.5, 12.000001, -1, -0.5, "12", True, None, [], {}):
        assert pointers({**END, key: bad}) == [f"/{key}"], bad
    for good in (0, 65, 65.5):
        assert pointers({**END, "total_duration_s": good}) == []
    for bad in ("65", True, None):
        assert pointers({**END, "total_duration_s": bad}) == ["/total_duration_s"]


@requirement("KAHN-6", "KAHN-8", "KAHN-10", "KAHN-13", "KAHN-15", "KAHN-43")
@pytest.mark.parametrize(
    ("body", "optional"),
    [
        (START, {"model": "m"}),
        (MOVE, {"reason": "why"}),
        (TOOL, {"input_summary": "i", "output_summary": "o", "error": "e"}),
        (AUDIT, {"evidence": {"any": [1, None]}}),
        (END, {"convergence_score": 0.5}),
    ],
    ids=lambda x: x.get("event", ""),
)
def test_optional_keys_may_be_absent_and_are_typed_when_present(body, optional):
    heard(body)
    for key, value in optional.items():
        assert heard({**body, key: value}).body[key] == value
        assert pointers({**body, key: 7 if key != "convergence_score" else "7"}) == [f"/{key}"]


@requirement("KAHN-4")
def test_there_are_exactly_five_kinds_of_agent_events():
    assert list(kahn_agent.KINDS) == [
        "agent_run_start",
        "agent_transition",
        "tool_invocation",
        "audit_checkpoint",
        "agent_run_end",
    ]
    assert pointers({**START, "event": "agent_paused"}) == ["/event"]


@requirement("KAHN-3")
def test_both_contracts_share_one_wire_shape():
    """One object a line, the same three base fields under the same rules."""
    for check, kind in ((agent_check, "agent_run_start"), (ci_check, "run_start")):
        bad = {"ts": "now", "run_id": "a b", "event": kind}
        assert {"/ts", "/run_id"} <= set(pointers(bad, check))
        assert isinstance(check(b"[]"), Refusal)


STATUSES = [
    "thinking", "tool_call", "tool_result", "response", "reflect",
    "blocked-on-clarification", "converged", "failed",
]  # fmt: skip
LEGAL = {
    ("thinking", "tool_call"), ("tool_call", "tool_result"), ("tool_result", "response"),
    ("response", "reflect"), ("reflect", "thinking"), ("reflect", "converged"),
    ("thinking", "blocked-on-clarification"), ("blocked-on-clarification", "thinking"),
    ("thinking", "failed"),
}  # fmt: skip


@requirement("KAHN-16", "KAHN-19")
def test_a_status_is_one_of_eight():
    for status in STATUSES:
        heard({**MOVE, "to": status, "from": status})
    for status in ("blocked_on_clarification", "waiting", "Thinking", "failed ", ""):
        assert pointers({**MOVE, "to": status}) == ["/to"]
        assert pointers({**MOVE, "from": status}) == ["/from"]


@requirement("KAHN-17")
def test_an_outcome_is_one_of_four():
    for outcome in ("converged", "partial", "escaped", "aborted"):
        heard({**END, "outcome": outcome})
    for outcome in ("failed", "unknown", "clean", ""):
        assert pointers({**END, "outcome": outcome}) == ["/outcome"]


@requirement("KAHN-18")
def test_an_audit_result_is_one_of_three():
    for result in ("pass", "fail", "warn"):
        heard({**AUDIT, "result": result})
    for result in ("passed", "error", ""):
        assert pointers({**AUDIT, "result": result}) == ["/result"]


def path_to(status):
    """A legal way from the start to a status."""
    ways = {"thinking": []}
    while status not in ways:
        for before, after in LEGAL:
            if before in ways and after not in ways:
                ways[after] = [*ways[before], (before, after)]
    return ways[status]


@requirement(*(f"KAHN-{n}" for n in range(21, 31)))
@pytest.mark.parametrize(("before", "after"), list(itertools.product(STATUSES, STATUSES)))
def test_a_move_is_a_finding_exactly_when_it_is_not_one_of_the_nine(before, after):
    moves = [*path_to(before), (before, after)]
    found = findings(START, *({**MOVE, "from": a, "to": b} for a, b in moves))
    assert ("illegal-transition" in found) == ((before, after) not in LEGAL)
    assert "from-mismatch" not in found
    assert "first-status" not in found


@requirement("KAHN-20")
@pytest.mark.parametrize("status", STATUSES)
def test_the_first_status_is_thinking(status):
    move = {**MOVE, "from": status, "to": "thinking"}
    assert ("first-status" in findings(START, move)) == (status != "thinking")


@requirement("KAHN-31", "KAHN-32")
@given(st.text(max_size=70) | st.from_regex(r"[a-z0-9:_.\-A-Z\n]{1,70}", fullmatch=True))
def test_an_agent_id_is_what_its_pattern_says(text):
    good = (
        1 <= len(text) <= 64
        and all(c in "abcdefghijklmnopqrstuvwxyz0123456789:-" for c in text)
        and text[0] not in ":-"
    )
    assert (pointers({**START, "agent_id": text}) == []) == good


@requirement("KAHN-33", "KAHN-34")
@given(st.text(max_size=130) | st.from_regex(r"[a-z0-9:_.\-A-Z\n]{1,130}", fullmatch=True))
def test_a_checkpoint_id_is_what_its_pattern_says(text):
    good = (
        1 <= len(text) <= 128
        and all(c in "abcdefghijklmnopqrstuvwxyz0123456789:.-" for c in text)
        and text[0] not in ":.-"
    )
    assert (pointers({**AUDIT, "checkpoint_id": text}) == []) == good


@requirement("KAHN-31", "KAHN-33")
@pytest.mark.parametrize(
    ("body", "key", "longest"), [(START, "agent_id", 64), (AUDIT, "checkpoint_id", 128)]
)
def test_an_id_has_from_one_character_to_its_limit(body, key, longest):
    for good in ("a", "7", "a" * (longest - 1), "a" * longest, "a:-" * (longest // 3)):
        assert pointers({**body, key: good}) == [], len(good)
    for bad in ("", "a" * (longest + 1), "a" * (longest * 2), "a" * longest + "\n"):
        assert pointers({**body, key: bad}) == [f"/{key}"], len(bad)


@requirement("KAHN-31", "KAHN-32", "KAHN-33", "KAHN-34")
def test_namespaces_are_written_with_colons():
    heard({**START, "agent_id": "claude-subagent:explore"})
    heard({**AUDIT, "checkpoint_id": "audit:test-coverage.unit"})


@requirement("KAHN-35")
@pytest.mark.parametrize(("step", "good"), [(0, True), (10**12, True), (-1, False), (1.5, False)])
def test_a_step_is_an_integer_from_zero(step, good):
    assert (pointers({**MOVE, "step": step}) == []) == good


@requirement("KAHN-36", "KAHN-39")
@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_a_step_that_decreases_is_found_and_an_equal_one_is_not(steps):
    found = findings(START, *({**TOOL, "step": step} for step in steps))
    assert ("step-decreased" in found) == (steps != sorted(steps))


@requirement("KAHN-37", "KAHN-38", "KAHN-59", "KAHN-61")
@given(st.permutations(list(range(12))))
def test_agents_and_runs_count_for_themselves_however_they_interleave(order):
    """Three lives, each whole and in its own order; no interleaving raises a finding."""
    lives = []
    for run, agent in (("r1", "a"), ("r1", "b"), ("r2", "a")):
        of = {"run_id": run, "agent_id": agent}
        lives.append([{**START, **of}, {**TOOL, **of, "step": 0}, {**TOOL, **of, "step": 1}])
        lives[-1].append({**END, **of, "total_tool_calls": 2})
    queues = [iter(life) for life in lives]
    mixed = [next(queues[place % 3]) for place in order]
    assert findings(*mixed) == []


@requirement("KAHN-40")
@pytest.mark.parametrize("body", [START, MOVE, TOOL, AUDIT, END], ids=lambda b: b["event"])
def test_null_is_refused_everywhere_but_in_one_place(body):
    declared = kahn_agent.KINDS[body["event"]].model_json_schema()["properties"]
    for key in declared:
        refused = pointers({**body, key: None})
        if (body["event"], key) == ("audit_checkpoint", "agent_id"):
            assert refused == []
        else:
            assert refused == [f"/{key}"]


@requirement("KAHN-12", "KAHN-41")
def test_an_audit_without_an_agent_is_about_the_run():
    event = heard({**AUDIT, "agent_id": None})
    (fact,) = kahn_agent.facts(event)
    assert isinstance(fact, Decided)
    assert fact.agent is None
    assert event.actor is None
    assert pointers({**AUDIT, "agent_id": "Not An Id"}) == ["/agent_id"]
    assert "agent-id-absent" in findings(without(AUDIT, "agent_id"))
    assert "agent-id-absent" not in findings(START, {**AUDIT, "agent_id": None})


@requirement("KAHN-42")
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_score_lies_from_zero_to_one(score):
    assert (pointers({**END, "convergence_score": score}) == []) == (0 <= score <= 1)


def test_a_question_and_its_answer_are_read_with_what_rides_along():
    blocked = {**MOVE, "to": "blocked-on-clarification", "reason": "clarification:q7"}
    told = {"question": "Which cat?", "expires": "2026-05-05T10:00:00Z"}
    moved, asked = kahn_agent.facts(heard({**blocked, **told}))
    assert isinstance(moved, Moved)
    assert moved.phase == "waiting"
    assert isinstance(asked, Asked)
    assert (asked.question_id, asked.what, asked.text, asked.expires, asked.agent, asked.step) == (
        "q7", "clarification", "Which cat?", "2026-05-05T10:00:00Z", "coder", "0",
    )  # fmt: skip
    _, bare = kahn_agent.facts(heard(blocked))
    assert (bare.text, bare.expires) == ("clarification:q7", None)
    back = {**MOVE, "from": "blocked-on-clarification", "to": "thinking"}
    _, answered = kahn_agent.facts(
        heard({**back, "reason": "operator_response:q7", "answer": {"cat": "Tom"}})
    )
    assert (answered.question_id, answered.answer) == ("q7", {"cat": "Tom"})
    assert len(list(kahn_agent.facts(heard({**back, "reason": "timeout:q7"})))) == 1


@requirement("KAHN-42")
@pytest.mark.parametrize("score", [0, 0.0, 5e-324, 0.5, 1 - 2**-53, 1, 1.0])
def test_both_ends_of_the_range_are_scores(score):
    event = heard({**END, "convergence_score": score})
    (ended,) = kahn_agent.facts(event)
    assert isinstance(ended, Ended)
    assert ended.score == score


@requirement("KAHN-42")
@pytest.mark.parametrize("score", [-5e-324, -1, 1 + 2**-52, 1.01, 2, 100, "1", True, None])
def test_just_outside_the_range_is_no_score(score):
    assert pointers({**END, "convergence_score": score}) == ["/convergence_score"]


@requirement("KAHN-43")
@pytest.mark.parametrize("body", [START, MOVE, TOOL, AUDIT], ids=lambda b: b["event"])
def test_elsewhere_a_score_is_just_an_unknown_key(body):
    assert heard({**body, "convergence_score": "much"}).body["convergence_score"] == "much"


@requirement("KAHN-44", "KAHN-45", "KAHN-46")
@pytest.mark.parametrize("outcome", ["converged", "partial", "escaped", "aborted"])
@pytest.mark.parametrize("score", [None, 0, 0.99, 1])
def test_outcome_and_score_are_facts_as_given(outcome, score):
    """Neither is derived from the other, nor from an exit code that rides along."""
    body = {**END, "outcome": outcome, "exit_code": 0}
    if score is not None:
        body["convergence_score"] = score
    (fact,) = kahn_agent.facts(heard(body))
    assert isinstance(fact, Ended)
    assert (fact.outcome, fact.score) == (outcome, score)
    assert fact.passed == (outcome == "converged")


@requirement("KAHN-47")
def test_a_paused_agent_waits_for_a_person():
    body = {**MOVE, "to": "blocked-on-clarification", "reason": "clarification:q1"}
    moved, asked = kahn_agent.facts(heard(body))
    assert isinstance(moved, Moved)
    assert moved.phase == "waiting"
    assert isinstance(asked, Asked)
    assert (asked.agent, asked.question_id, asked.what) == ("coder", "q1", "clarification")


@requirement("KAHN-48")
def test_clarification_is_one_of_three_fleet_powers():
    assert len(kahn_agent.FLEET_POWERS) == 3
    assert "clarification" in kahn_agent.FLEET_POWERS
    listed = {each["name"]: each for each in objects(tracklog("dialects", "--json"))}
    assert listed["kahn-agent"]["powers"] == list(kahn_agent.FLEET_POWERS)
    assert "powers" not in listed["kahn-ci"]
    words = tracklog("dialects").stdout.decode()
    assert f"features of its agents: {', '.join(kahn_agent.FLEET_POWERS)}" in words


@requirement("KAHN-49", "KAHN-50")
def test_escaped_and_aborted_are_distinguished():
    told = [next(kahn_agent.facts(heard({**END, "outcome": o}))) for o in ("escaped", "aborted")]
    assert [fact.outcome for fact in told] == ["escaped", "aborted"]
    moved = {**MOVE, "to": "tool_call"}
    assert "end-from-status" in findings(START, moved, {**END, "outcome": "escaped"})
    assert "end-from-status" not in findings(START, moved, {**END, "outcome": "aborted"})


@requirement("KAHN-49")
def test_a_graceful_escape_from_thinking_is_no_error():
    lines = [START, {**END, "outcome": "escaped", "total_tool_calls": 0}]
    lines[1] |= {"total_audit_checkpoints": 0, "audits_passed": 0}
    done = tracklog("check", "--json", given=b"".join(orjson.dumps(x) + b"\n" for x in lines))
    found = {each["finding"]: each["level"] for each in objects(done) if "finding" in each}
    assert found == {"end-from-status": "info"}
    assert done.returncode == 0
    elsewhere = [START, {**MOVE, "to": "tool_call"}, lines[1]]
    done = tracklog("check", "--json", given=b"".join(orjson.dumps(x) + b"\n" for x in elsewhere))
    assert done.returncode == 1


@requirement("KAHN-51")
@pytest.mark.parametrize("letter", ["x", "😀"])
def test_an_output_summary_has_at_most_2048_characters(letter):
    heard({**TOOL, "output_summary": letter * 2048})
    assert pointers({**TOOL, "output_summary": letter * 2049}) == ["/output_summary"]


@requirement("KAHN-52")
def test_a_tool_invocation_declares_no_field_for_the_complete_output():
    declared = set(kahn_agent.ToolInvocation.model_fields)
    assert declared == {
        "ts", "run_id", "event", "agent_id", "step", "tool_name", "duration_s", "ok",
        "input_summary", "output_summary", "error",
    }  # fmt: skip


@requirement("KAHN-58")
@given(st.text())
def test_a_reason_is_free_text(reason):
    body = {**MOVE, "reason": reason}
    try:
        line = orjson.dumps(body)
    except TypeError:
        return  # a lone surrogate has no UTF-8
    event = agent_check(line)
    assert isinstance(event, Event)
    assert next(kahn_agent.facts(event)).reason == reason


@requirement("KAHN-62")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("outcome", ["converged", "partial", "escaped", "aborted"])
def test_only_the_terminal_statuses_lead_to_an_end(status, outcome):
    moves = [{**MOVE, "from": a, "to": b} for a, b in path_to(status)]
    found = findings(START, *moves, {**END, "outcome": outcome})
    legal = status in ("converged", "failed") or outcome == "aborted"
    assert ("end-from-status" in found) == (not legal)


@requirement("RALPH-9", "RALPH-41")
def test_a_run_has_one_of_five_outcomes():
    outcomes = TypeAdapter(kahn_ci.Outcome).json_schema()["enum"]
    assert outcomes == ["clean", "clean_with_flake", "partial", "stuck", "catastrophic"]


CI_START = {**BASE, "event": "run_start", "total_nodes": 1}
CI_MOVE = {**BASE, "event": "node_transition", "node_id": "p-1", "from": "pending", "to": "ready"}
CI_TRY = {
    **BASE, "event": "node_attempt", "node_id": "p-1", "attempt": 1, "duration_s": 1.0,
    "converged": True, "done_when_results": [{"cmd": "x", "rc": 0, "duration_s": 1.0}],
}  # fmt: skip
CI_END = {
    **BASE, "event": "run_end", "outcome": "clean", "done": 0, "failed": 0, "blocked": 0,
    "total_duration_s": 1.0,
}  # fmt: skip
RALPH_START = {**CI_START, "actor": "rocky"}
RALPH_MOVE = {**CI_MOVE, "outcome": "clean"}


@requirement("RALPH-9")
def test_another_outcome_is_refused():
    for outcome in ("green", "converged", "Clean", ""):
        assert pointers({**CI_END, "outcome": outcome}, ci_check) == ["/outcome"]
        assert pointers({**RALPH_MOVE, "outcome": outcome}, ralph_check) == ["/outcome"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("abc€😀", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@requirement("RALPH-10", "RALPH-11", "RALPH-12", "RALPH-13")
@given(st.dictionaries(st.text("xyz_", min_size=2, max_size=5), json_values, max_size=4))
def test_unknown_fields_pass_through_at_every_depth(extra):
    for body, check in (
        (RALPH_START, ralph_check),
        (RALPH_MOVE, ralph_check),
        (CI_END, ci_check),
        (START, agent_check),
    ):
        whole = {**body, **extra}
        event = heard(whole, check)
        assert event.body == whole
        assert event.line == orjson.dumps(whole)
    nested = {**CI_TRY, "done_when_results": [{**CI_TRY["done_when_results"][0], **extra}]}
    assert heard(nested, ci_check).body == nested


@requirement("RALPH-1", "RALPH-12", "RALPH-40")
@pytest.mark.parametrize(
    "body", [RALPH_START, RALPH_MOVE, CI_TRY, CI_END], ids=lambda b: b["event"]
)
def test_a_reader_that_knows_no_ralph_reads_a_ralph_log(body):
    told = heard({**body, "deviation": {"severity": "minor"}}, ralph_check)
    as_kahn = ci_check(told.line)
    assert isinstance(as_kahn, Event)
    assert (as_kahn.run, as_kahn.kind, as_kahn.family) == (told.run, told.kind, told.family)
    assert list(kahn_ci.facts(as_kahn))
    assert as_kahn.body["deviation"] == {"severity": "minor"}


@requirement("RALPH-39")
@pytest.mark.parametrize("kind", list(kahn_ci.KINDS))
def test_ralph_keeps_every_upstream_field(kind):
    upstream, ours = (
        dialect.kinds[kind].model_json_schema() for dialect in (kahn_ci.dialect, ralph.dialect)
    )
    assert upstream["properties"].items() <= ours["properties"].items()
    assert set(upstream["required"]) <= set(ours["required"])


@requirement("RALPH-15", "RALPH-16", "RALPH-43")
def test_a_frame_is_one_of_four_distinguished_by_its_event():
    assert list(ralph.KINDS) == ["run_start", "node_transition", "node_attempt", "run_end"]
    for kind in ("prompt_start", "agent_run_start", ""):
        assert "/event" in pointers({**RALPH_START, "event": kind}, ralph_check)
    assert pointers(without(RALPH_START, "event"), ralph_check)[0] == "/event"


@requirement("RALPH-17", "RALPH-18", "RALPH-19", "RALPH-21")
@pytest.mark.parametrize(
    ("body", "keys"),
    [
        (RALPH_START, ("run_id", "ts", "actor")),
        (CI_TRY, ("run_id", "node_id", "attempt", "ts")),
        (RALPH_MOVE, ("run_id", "node_id", "outcome")),
        (CI_END, ("run_id", "outcome", "ts")),
    ],
    ids=lambda x: x["event"] if isinstance(x, dict) else "",
)
def test_the_profile_requires_what_the_ralph_view_has(body, keys):
    heard(body, ralph_check)
    for key in keys:
        assert f"/{key}" in pointers(without(body, key), ralph_check)


DIAGRAM = [
    {"event": "run_start", "run_id": "r1", "ts": BASE["ts"], "actor": "rocky"},
    {"event": "node_attempt", "run_id": "r1", "node_id": "p", "attempt": 1, "ts": BASE["ts"]},
    {"event": "node_transition", "run_id": "r1", "node_id": "p", "outcome": "partial"},
    {
        "event": "node_transition", "run_id": "r1", "node_id": "p", "outcome": "partial",
        "convergence_score": 0.5, "early_stop_reason": "plateau",
    },
    {"event": "run_end", "run_id": "r1", "outcome": "partial", "ts": BASE["ts"]},
]  # fmt: skip


@requirement("RALPH-17", "RALPH-18", "RALPH-19", "RALPH-20", "RALPH-21")
@pytest.mark.parametrize("spelling", ["event", "type", "class"])
@pytest.mark.parametrize("body", DIAGRAM, ids=lambda body: f"{body['event']}-{len(body)}")
def test_a_frame_with_exactly_the_keys_of_the_diagram_is_accepted_with_findings(body, spelling):
    kind = body["event"]
    if spelling != "event":
        named = "".join(map(str.capitalize, kind.split("_"))) if spelling == "class" else kind
        body = {"type": named, **without(body, "event")}
    event = heard(body, ralph_check)
    assert event.kind == kind
    missing = set(kahn_ci.KINDS[kind].model_json_schema()["required"]) - event.body.keys()
    named = [found.message for found in event.odd if found.name == "upstream-key"]
    assert missing
    assert len(named) == len(missing)
    assert all(any(f"without {key}," in message for message in named) for key in missing)
    assert list(ralph.facts(event))
    assert pointers(body, ci_check), "kahn-ci stays strict"


def test_the_frames_of_the_diagram_give_only_the_facts_they_contain():
    told = [fact for body in DIAGRAM for fact in ralph.facts(heard(body, ralph_check))]
    begun, tried, first, second, kiln, ended = told
    assert (begun.what, begun.counts) == ("run", None)
    assert (tried.attempt, tried.passed, tried.seconds) == (1, None, None)
    assert [(each.step, each.outcome, each.passed) for each in (first, second)] == [
        ("p", "partial", False)
    ] * 2
    assert (kiln.score, kiln.reason) == (0.5, "plateau")
    assert (ended.outcome, ended.passed, ended.seconds, ended.counts) == (
        "partial", False, None, None,
    )  # fmt: skip
    assert {*findings(*DIAGRAM, name="ralph")} == {"upstream-key"}


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({**CI_END, "convergence_score": 0.5}, True),
        ({**CI_END, "early_stop_reason": "plateau"}, True),
        ({**CI_TRY, "convergence_score": 0.5}, True),
        ({**CI_END, "convergence_score": "high"}, False),
        (CI_END, False),
        (CI_TRY, False),
        ({**CI_START, "convergence_score": 0.5}, False),
    ],
)
def test_either_kiln_slot_shows_that_a_line_is_ralphs(body, shown):
    assert ralph.shows(body) is shown


def test_a_line_that_has_its_event_keeps_a_type_beside_it():
    event = heard({**RALPH_MOVE, "type": "run_end"}, ralph_check)
    assert (event.kind, event.odd, event.body["type"]) == ("node_transition", (), "run_end")
    sparse = {**BASE, "event": "run_end", "type": "node", "outcome": "clean"}
    event = heard(sparse, ralph_check)
    assert (event.kind, event.body["type"]) == ("run_end", "node")
    assert {finding.name for finding in event.odd} == {"upstream-key"}


def test_attempts_that_do_not_say_how_they_ended_leave_flakes_open():
    tried = {"event": "node_attempt", "run_id": "r1", "node_id": "p-1", "attempt": 1,
             "ts": BASE["ts"]}  # fmt: skip
    for outcome, odd in (("clean", False), ("clean_with_flake", False), ("partial", True)):
        end = {**CI_END, "outcome": outcome, "done": 1, "flake_retries": 3}
        found = findings(RALPH_START, RALPH_MOVE, tried, end, name="ralph")
        assert ("worst-outcome" in found) is odd, outcome
        assert "flake-count" not in found


@requirement("RALPH-20", "RALPH-22")
def test_kiln_slots_are_optional_never_null_and_get_no_default():
    assert heard(RALPH_MOVE, ralph_check).body == RALPH_MOVE
    full = {**RALPH_MOVE, "convergence_score": 0.5, "early_stop_reason": "plateau"}
    (*_, kiln) = ralph.facts(heard(full, ralph_check))
    assert isinstance(kiln, Decided)
    assert (kiln.score, kiln.reason) == (0.5, "plateau")
    for slot in ("convergence_score", "early_stop_reason"):
        assert pointers({**RALPH_MOVE, slot: None}, ralph_check) == [f"/{slot}"]
    model = ralph.NodeTransition.model_validate(RALPH_MOVE)
    assert model.model_dump(by_alias=True) == RALPH_MOVE


@requirement("RALPH-8")
def test_severities_map_onto_the_five_outcomes_one_to_one():
    assert ralph.SEVERITIES == {
        "none": "clean",
        "minor": "clean_with_flake",
        "moderate": "partial",
        "major": "stuck",
        "critical": "catastrophic",
    }
    bad = {**RALPH_MOVE, "deviation": {"severity": "huge"}}
    assert "unknown-severity" in findings(RALPH_START, bad, name="ralph")


@requirement("RALPH-44", "RALPH-5")
def test_one_start_opens_and_one_end_closes_a_run():
    assert findings(CI_START, CI_END, name="kahn-ci") == []
    assert "no-start" in findings(CI_MOVE, name="kahn-ci")
    assert "second-start" in findings(CI_START, CI_START, name="kahn-ci")
    assert "after-end" in findings(CI_START, CI_END, CI_MOVE, name="kahn-ci")
    assert "after-end" in findings(CI_START, CI_END, CI_END, name="kahn-ci")


@requirement("RALPH-6", "RALPH-7")
def test_the_phases_of_a_prompt_are_attempts_of_its_one_node():
    def phase(attempt, name, converged=True):
        results = [{"cmd": "x", "rc": 0 if converged else 1, "duration_s": 1.0}]
        return {**CI_TRY, "attempt": attempt, "phase": name, "converged": converged,
                "done_when_results": results}  # fmt: skip

    ready = [RALPH_START, RALPH_MOVE]
    running = {**RALPH_MOVE, "from": "ready", "to": "running", "attempt": 1}
    done = {**RALPH_MOVE, "from": "running", "to": "done"}
    end = {**CI_END, "done": 1, "flake_retries": 0}
    smooth = [phase(1, "plan"), phase(2, "execute"), phase(3, "audit")]
    assert findings(*ready, running, *smooth, done, end, name="ralph") == []
    steps = {
        fact.step for body in smooth for fact in ralph.facts(heard(body, ralph_check))
        if isinstance(fact, Ended)
    }  # fmt: skip
    assert steps == {"p-1#1", "p-1#2", "p-1#3"}

    retried = [phase(1, "plan"), phase(2, "execute", False), phase(3, "execute"), phase(4, "audit")]
    assert findings(*ready, running, *retried, done, end, name="ralph") == [
        "flake-count",
        "worst-outcome",
    ]
    done["outcome"] = "clean_with_flake"
    end |= {"flake_retries": 1, "outcome": "clean_with_flake"}
    assert findings(*ready, running, *retried, done, end, name="ralph") == []


@pytest.mark.parametrize(
    ("done", "failed", "blocked", "flakes", "outcome"),
    [
        (7, 0, 0, 0, "clean"),
        (7, 0, 0, 4, "clean_with_flake"),
        (3, 1, 0, 0, "partial"),
        (3, 0, 2, 0, "partial"),
        (3, 1, 2, 0, "stuck"),
        (0, 2, 5, 0, "catastrophic"),
        (0, 0, 0, 0, "clean"),
    ],
)
def test_an_outcome_follows_from_the_counts(done, failed, blocked, flakes, outcome):
    assert kahn_ci.outcome_of(done, failed, blocked, flakes) == outcome


def test_a_ralph_line_without_its_extras_is_a_good_kahn_line():
    assert pointers(CI_MOVE, ralph_check) == ["/outcome"]
    heard(CI_MOVE, ci_check)


def test_passthrough_keys_of_the_wrong_type_say_nothing():
    odd = {**START, "usage": [], "cost_usd": "much", "parent_run_id": 7}
    assert [type(fact) for fact in kahn_agent.facts(heard(odd))] == [Began]
    good = {**START, "usage": {"output_tokens": 3}, "cost_usd": 0.5, "parent_run_id": "p"}
    assert [type(fact) for fact in kahn_agent.facts(heard(good))] == [Began, Spent, Linked]


GRAPH_NODE = {
    "id": "a", "deliverable": "d", "depends_on": [], "touches": [],
    "parallel_safe": True, "done_when": ["true"],
}  # fmt: skip


def test_a_graph_is_linted_beyond_its_schema():
    def names(*nodes):
        return {f.name for f in kahn_ci.lint_graph({"version": 1, "nodes": list(nodes)})}

    a, b, c = (
        {**GRAPH_NODE, "id": id, "depends_on": on}
        for id, on in (("a", []), ("b", ["a"]), ("c", ["b"]))
    )
    assert names(a, b, c) == set()
    assert names(a, a) == {"node-id-reused"}
    assert names(a, {**b, "depends_on": ["x"]}) == {"unknown-dependency"}
    assert names({**a, "depends_on": ["b"]}, b) == {"no-root", "cycle"}
    assert names(a, {**b, "depends_on": ["c"]}, c) == {"cycle"}
    assert names(a, {**b, "depends_on": ["b"]}) == {"cycle"}


def test_a_cycle_is_named_by_the_way_around_it_and_by_nothing_else():
    edges = {"a": [], "b": ["a", "d"], "c": ["b"], "d": ["c"], "e": ["d"]}
    nodes = [{**GRAPH_NODE, "id": name, "depends_on": on} for name, on in edges.items()]
    (cycle,) = kahn_ci.lint_graph({"version": 1, "nodes": nodes})
    assert cycle.message == "a cycle: b -> d -> c -> b"


def test_a_long_chain_is_linted_quickly():
    count = 20_000
    nodes = [
        {**GRAPH_NODE, "id": f"n{i}", "depends_on": [f"n{i + 1}"] if i < count - 1 else []}
        for i in range(count)
    ]
    assert kahn_ci.lint_graph({"version": 1, "nodes": nodes}) == []
